"""`drlib run` at its end: what its progress shows, and that a lab's folder goes with its processes."""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import sample_scorecard as sample
from repository_root import ROOT
from rich.console import Console
from testbed_http import http_server

from drlib.cli.drill import run as running
from drlib.drill.plan.ways_on import WaysOn
from drlib.drill.run import request
from drlib.drill.run.request import ClusterTarget, Request
from drlib.errors import Aborted, Deviated, LeaseHeld, ObjectiveMissed, Unreachable, UsageError
from drlib.lab.lab import Lab
from drlib.runbook import plans
from drlib.runbook.execution.execute import RunResult
from drlib.runbook.file.model import load
from drlib.runbook.plans import Granted
from drlib.runs.abort import Abort
from drlib.ui.terminal.run import Progress


def shown(code: int) -> str:
    """What the progress of a run shows of its last step, where the run ended with `code`."""
    out = io.StringIO()
    result = RunResult(Path("run"), sample.scorecard(), Path("report.html"), code, "")
    with Progress(Console(file=out, width=80, force_terminal=True)) as progress:
        progress.stage("kill LEFT")
        assert running._marked(result, progress) is result
        progress.stage("stopping the lab")
    return out.getvalue()


def test_step_in_which_a_run_was_stopped_is_not_shown_as_done() -> None:
    for code in (Aborted.exit_code, Deviated.exit_code):
        assert "✗ kill LEFT  stopped here" in shown(code)
    for code in (0, ObjectiveMissed.exit_code):
        assert "✓ kill LEFT  " in shown(code)


@pytest.mark.parametrize(
    ("code", "says"), [(Unreachable.exit_code, True), (LeaseHeld.exit_code, True), (ObjectiveMissed.exit_code, False)]
)
def test_run_that_a_refused_login_or_a_lost_lease_stopped_says_how_it_is_continued(
    code: int, says: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plans, "unfinished", lambda _: True)
    monkeypatch.setattr(request, "ways_on", lambda folder: WaysOn(str(folder)))
    result = RunResult(Path("runs/one"), sample.scorecard(), Path("report.html"), code, "it refused the login")
    assert running._told(result) == code
    assert ("Continue: drlib run --resume runs/one" in capsys.readouterr().err) is says


SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


def test_processes_of_a_run_that_was_killed_are_ended_by_the_next_one_and_those_of_a_living_one_are_not(
    tmp_path: Path,
) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    killed, living = (Lab(tmp_path / f".lab-{pid}-ab12") for pid in (ended.pid, os.getpid()))
    for lab in (killed, living):
        lab.registry.start("arrivals", SLEEP, log=lab.root / "arrivals.log", die_with_parent=False)
    running._end_left_behind(tmp_path)
    assert [process.alive for lab in (killed, living) for process in lab.status()] == [True]
    assert not killed.root.exists()
    living.registry.stop_all(deadline_s=0.0)
    running._end_left_behind(tmp_path)
    assert living.root.exists()


def test_folder_that_is_named_as_a_lab_and_cannot_be_read_keeps_no_run_from_beginning(tmp_path: Path) -> None:
    stray = tmp_path / ".lab-copied-ab12"
    stray.mkdir()
    (stray / "processes.json").write_text("no register")
    running._end_left_behind(tmp_path)
    assert stray.exists()


def test_run_that_a_command_resumes_forgets_an_abort_that_was_not_carried_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runbook = load(ROOT / "runbooks" / "planned-switchover.yaml")
    asked = Request(runbook=runbook.file, parameters={}, properties=tmp_path / "mm2.properties")
    requested: list[bool] = []
    monkeypatch.setattr(plans, "take_up", lambda *_: (runbook, asked))

    def again(*_: object) -> int:
        requested.append(Abort(tmp_path).requested)
        return 0

    monkeypatch.setattr(running, "_again", again)
    Abort(tmp_path).request("SIGINT")  # its step did not end in time, so that nothing was undone
    assert running.resume(tmp_path, asked, Granted()) == 0
    assert requested == [False], "what says Continue continues"


def test_lab_folder_is_removed_when_every_process_has_stopped(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab")
    lab.registry.start("one", SLEEP, log=tmp_path / "one.log")
    running._end(lab)
    assert not lab.root.exists()
    assert lab.status() == ()


def test_lab_of_a_run_that_failed_leaves_its_logs_and_the_next_runs_remove_the_oldest(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    labs = [Lab(tmp_path / f".lab-{ended.pid}-ab1{number}") for number in range(5)]
    for number, lab in enumerate(labs):
        (lab.root / "LEFT-1" / "data").mkdir(parents=True)
        (lab.root / ".drlib-lab").write_text("")
        (lab.root / "users.properties").write_text("")
        (lab.root / "LEFT-1" / "data" / "00000000000000000000.log").write_text("a segment of Kafka's")
        (lab.root / "LEFT-1" / "broker.log").write_text("why")
        running._end(lab, keep_logs=True)
        left = [str(path.relative_to(lab.root)) for path in sorted(lab.root.rglob("*"))]
        assert left == ["LEFT-1", "LEFT-1/broker.log"]
        os.utime(lab.root, (number, number))
    other = tmp_path / ".lab-1-mine"
    other.mkdir()
    (other / "notes").write_text("mine")
    running._end_left_behind(tmp_path)
    assert [lab.root.exists() for lab in labs] == [False, False, True, True, True]
    assert other.exists()


def test_lab_folder_is_kept_while_a_process_lives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(tmp_path / "lab")
    record = lab.registry.start("one", SLEEP, log=tmp_path / "one.log")

    def cannot(*_: str, **__: float) -> None:
        raise TimeoutError("one outlived SIGKILL")

    with monkeypatch.context() as patched:
        patched.setattr(lab.registry, "stop", cannot)
        running._end(lab)
    assert lab.root.exists()
    output = capsys.readouterr().err
    assert f"one (pid {record.pid}) could not be stopped" in output
    assert f"drlib lab down --dir {lab.root}" in output
    assert lab.registry.signal("one", signal.SIGKILL)
    running._end(lab)
    assert not lab.root.exists()


@pytest.mark.parametrize(
    "first", ["papermill", "drlib.runbook.execution.papermill_engine", "drlib.runbook.execution.notebook_client"]
)
def test_papermill_engine_import_order_does_not_matter(first: str) -> None:
    code = f"import {first}, papermill.engines as e; print(e.papermill_engines.get_engine('drlib').__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout.strip(), done.returncode) == ("DrlibEngine", 0), done.stderr


def test_run_analysis_passes_its_clusters_as_an_absolute_path(tmp_path: Path) -> None:
    wanted = running.Wanted(tmp_path, target=ClusterTarget(Path("mirror.properties"), None))
    takes = frozenset({"properties", "lab_dir", "flow"})
    given = running._of_analysis("nightly-audit", {"flow": "A->B"}, wanted, takes)
    assert given == {"flow": "A->B", "properties": str(Path.cwd() / "mirror.properties")}
    assert running._of_analysis("n", {}, running.Wanted(tmp_path, target=ClusterTarget(None, tmp_path)), takes) == {}
    for refused in (
        (wanted, frozenset({"flow"})),
        (running.Wanted(tmp_path, granted=Granted(approved=("move",))), takes),
    ):
        with pytest.raises(UsageError, match="it has no drill"):
            running._of_analysis("n", {}, *refused)
    with pytest.raises(UsageError, match=r"^FILE for runbook n: .* Leave FILE out\. Its parameters are flow\.$"):
        running._of_analysis("n", {}, wanted, frozenset({"flow"}))


@pytest.mark.parametrize("typed", [False, True])
def test_scheduled_run_that_is_refused_is_alerted_and_a_mistyped_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: bool
) -> None:
    """A flow that an unfinished run has, or a secret that the scheduler lacks, is such an error, too."""
    properties, book = tmp_path / "mm2.properties", tmp_path / "rehearse.yaml"
    addresses = ("paris.bootstrap.servers = 127.0.0.1:1", "lyon.bootstrap.servers = 127.0.0.1:2")
    properties.write_text("\n".join(("clusters = paris, lyon", *addresses, "paris->lyon.enabled = true")))
    shipped = (ROOT / "runbooks" / "rehearse-failover.yaml").read_text()
    monkeypatch.setattr(running, "can_ask", lambda: typed)
    with http_server() as server:
        alerted = f"{shipped.replace('../notebooks', str(ROOT / 'notebooks'))}alert: {{url: '{server.url('/hook')}'}}\n"
        book.write_text(alerted)
        wanted = running.Wanted(
            tmp_path / "runs", target=ClusterTarget(properties), granted=Granted(approved=("no-such-step",))
        )
        with pytest.raises(UsageError, match="no such step") as refused:
            running.run_runbook(book, [], wanted)
        sent = [json.loads(each.body) for each in server.received]
    assert [(each["runbook"], each["exit_code"], each["error"]) for each in sent] == (
        [] if typed else [("rehearse-failover", 2, str(refused.value))]
    )


@pytest.mark.parametrize("fault", ["file", "folder"])
def test_scheduled_command_whose_file_or_folder_of_runs_cannot_be_used_is_alerted(tmp_path: Path, fault: str) -> None:
    properties, book, runs = tmp_path / "mm2.properties", tmp_path / "rehearse.yaml", tmp_path / "runs"
    addresses = ("paris.bootstrap.servers = 127.0.0.1:1", "lyon.bootstrap.servers = 127.0.0.1:2")
    if fault == "folder":
        properties.write_text("\n".join(("clusters = paris, lyon", *addresses, "paris->lyon.enabled = true")))
        runs.write_text("no folder")
    shipped = (ROOT / "runbooks" / "rehearse-failover.yaml").read_text()
    with http_server() as server:
        alerted = f"{shipped.replace('../notebooks', str(ROOT / 'notebooks'))}alert: {{url: '{server.url('/hook')}'}}\n"
        book.write_text(alerted)
        command = [sys.executable, "-P", "-m", "drlib.cli", "run", str(book), str(properties), "--runs-dir", str(runs)]
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False
        )
        sent = [json.loads(each.body) for each in server.received]
    assert ended.returncode == 2, ended.stderr
    assert [(each["runbook"], each["exit_code"]) for each in sent] == [("rehearse-failover", 2)], ended.stderr
