"""What a person gets for a slip with a drill: its exit code, its words, and nothing half-done."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from repository_root import ROOT, TESTS
from silent_clusters import silent_clusters
from tiny_notebook import write_notebook

from drlib.cli.app import app
from drlib.drill.plan.plan import Call, Drill, Mode, Plan, Step, StepPlan
from drlib.drill.plan.ways_on import WaysOn
from drlib.drill.run import planning, request
from drlib.drill.run.request import ClusterTarget, Request
from drlib.drill.run.runner import LOCK
from drlib.errors import DrlibError, LeaseHeld, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.model import Flow
from drlib.runbook import plans
from drlib.runbook.execution import outcome
from drlib.runbook.file import model
from drlib.runbook.introduce import introduce
from drlib.runs import folder as folders
from drlib.runs import lock as folder_lock
from drlib.runs.abort import Abort

pytestmark = pytest.mark.usefixtures("topic_actions")
PARAMETERS = 'run_dir: str = ""\nrunbook: str = ""\nlab_dir: str = ""\ntopic: str = "orders"\npartitions: int = 2\n'
STEP: dict[str, Any] = {
    "name": "create",
    "title": "Create it",
    "action": "topic.create",
    "arguments": {"cluster": "RIGHT", "topic": "${topic}", "partitions": "${partitions}"},
}


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    with silent_clusters(tmp_path / "mm2.properties", "LEFT", "RIGHT") as path:
        yield path


def runbook(place: Path, *, drill: dict[str, Any] | None = None, **step: Any) -> Path:
    """A runbook of one step, with a notebook that would run it."""
    write_notebook(place / "tiny.ipynb", "raise SystemExit('it was executed')", parameters=PARAMETERS)
    section = {"flow": "LEFT->RIGHT", "mode": "planned", "steps": [{**STEP, **step}], **(drill or {})}
    document = {"name": "tiny", "title": "Tiny", "notebook": "tiny.ipynb", "drill": section}
    (place / "tiny.yaml").write_text(yaml.safe_dump(document))
    return place / "tiny.yaml"


def refused(place: Path, code: int, *arguments: object) -> str:
    """The one line, of a command that has to end with `code` and leave no run behind."""
    with pytest.raises(DrlibError) as found:
        app([*map(str, arguments), "--runs-dir", str(place / "runs")], standalone_mode=False)
    assert found.value.exit_code == code, found.value
    assert not list((place / "runs").glob("*")), "a run folder is left"
    assert found.value.why
    assert found.value.remedy
    return str(found.value)


@pytest.mark.parametrize("command", [("plan",), ("run",), ("run", "--dry-run")])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"drill": {"mod": "planned"}}, ["drill.mod: there is no such key", "Did you mean mode?"]),
        ({"aproval": True}, ["drill.steps.0.aproval: there is no such key", "Did you mean approval?"]),
        ({"action": "topic.craete"}, ["step create: topic.craete", "no action or probe has this name", "topic.create"]),
        ({"arguments": {"cluster": "RIGHT", "partitions": 2}}, ["its argument 'topic' is missing"]),
        (
            {"arguments": {**STEP["arguments"], "partitions": "two"}},
            ["partitions: 'two' is not a whole number from 1 on"],
        ),
        ({"arguments": {**STEP["arguments"], "cluster": "UP"}}, ["UP", "the clusters are: LEFT, RIGHT"]),
        ({"arguments": {**STEP["arguments"], "topic": "${tpoic}"}}, ["there is no parameter tpoic"]),
        ({"drill": {"flow": "LEFT->UP"}}, ["UP", "the clusters are: LEFT, RIGHT"]),
        ({"drill": {"steps": []}}, ["at least one step"]),
    ],
)
def test_plan_wrong_runbook_starts_nothing(
    tmp_path: Path, file: Path, command: tuple[str, ...], wrong: dict[str, Any], message: list[str]
) -> None:
    line = refused(tmp_path, 2, command[0], runbook(tmp_path, **wrong), file, *command[1:])
    assert [part for part in message if part not in line] == [], line


@pytest.mark.parametrize(
    ("pair", "message"),
    [("tpoic=x", "Did you mean topic?"), ("partitions=two", "'two' is not an int"), ("partitions", "it has no '='")],
)
def test_plan_wrong_parameter_starts_nothing(tmp_path: Path, file: Path, pair: str, message: str) -> None:
    for command in ("plan", "run"):
        assert message in refused(tmp_path, 2, command, runbook(tmp_path), file, "-p", pair)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent cluster is given up soon: no answer will come later either."""
    monkeypatch.setitem(Cluster.__init__.__kwdefaults__ or {}, "timeout_s", 0.5)
    monkeypatch.setattr("drlib.drill.flow_state.lease_holder._COORDINATOR_S", 0.5)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("command", [("plan",), ("run",), ("run", "--dry-run")])
def test_plan_unreachable_clusters_are_named(tmp_path: Path, file: Path, command: tuple[str, ...]) -> None:
    step: dict[str, Any] = {"title": "Create it"}
    if command == ("run",):  # the readiness gate would be asked first, and is passed over
        book = runbook(tmp_path, drill={"mode": "emergency"}, **step)
        line = refused(tmp_path, 11, *command, book, file, "--skip-gate", "the data centre burns")
    else:
        line = refused(tmp_path, 11, command[0], runbook(tmp_path, **step), file, *command[1:])
    assert "RIGHT" in line


@pytest.mark.usefixtures("impatient")
def test_readiness_gate_of_an_unreachable_flow_is_closed(tmp_path: Path, file: Path) -> None:
    line = refused(tmp_path, 3, "run", runbook(tmp_path), file)
    assert "not ready for a failover" in line
    assert "target-answers" in line
    assert "--skip-gate" not in line
    emergency = runbook(tmp_path, drill={"mode": "emergency"})
    assert "--skip-gate REASON" in refused(tmp_path, 3, "run", emergency, file)


def test_skip_gate_is_for_emergencies_and_needs_a_reason(tmp_path: Path, file: Path) -> None:
    line = refused(tmp_path, 2, "run", runbook(tmp_path), file, "--skip-gate", "no time")
    assert "planned drill cannot be skipped" in line
    emergency = runbook(tmp_path, drill={"mode": "emergency"})
    assert "no reason was given" in refused(tmp_path, 2, "run", emergency, file, "--skip-gate", " ")


def test_run_contradicting_options_are_refused(tmp_path: Path, file: Path) -> None:
    book = runbook(tmp_path)
    for arguments, expected in (
        (["run"], "nothing to run"),
        (["run", book, file, "--lab-dir", tmp_path], "a drill runs on one of them"),
        (["run", book, file, "--lab"], "Leave FILE and --lab-dir out"),
        (["run", book, "--lab", "--dry-run"], "a new lab is empty"),
        (["run", "--plan", "0" * 12, "--resume", "x"], "cannot be combined"),
        (["run", book, "--resume", "x"], "are those of the plan. Leave them out"),
        (["run", "--plan", "0" * 12, "-p", "topic=x"], "are those of the plan. Leave them out"),
        (["run", "--plan", "abc"], "12 digits"),
        (["run", "--plan", "0" * 12], "no such plan in"),
        (["run", "--resume", "nowhere"], "no folder of that name has a run.json"),
        (["run", "--rollback", "nowhere"], "no folder of that name has a run.json"),
        (["abort", "nowhere"], "no folder of that name has a run.json"),
        (["plan", book], "no clusters were given"),
        (["plan", book, "-p", f"lab_dir={tmp_path / 'lab'}"], "There is no lab"),
        (["run", book, "--dry-run"], "no clusters were given"),
        (["plan", book, "--lab-dir", tmp_path / "lab"], "There is no lab"),
        (["run", book, "--lab-dir", tmp_path / "lab"], "There is no lab"),
        (["run", "duplicates-audit", "--lab-dir", tmp_path / "lab"], "There is no lab"),
        (["run", book, file, "--approve", "craete"], "no such step that waits for approval"),
    ):
        assert expected in refused(tmp_path, 2, *arguments), arguments


SHIPPED = ("failover-drill", "failback-drill", "switchover-drill", "ordering-drill", "active-active", "size-the-link")
ANALYSES = ("nightly-audit", "duplicates-audit", "lag-report", "continuous-audit")


@pytest.mark.parametrize("name", [*SHIPPED, *ANALYSES])
def test_run_without_clusters_uses_no_lab_that_was_not_named(tmp_path: Path, name: str) -> None:
    """Each notebook has the folder of a lab as its default, which may hold one that is used for something else."""
    line = refused(tmp_path, 2, "run", name)
    own = f"drlib run {name} --lab (clusters of its own), or drlib run {name} --lab-dir DIR (a running lab)"
    file = "" if name in SHIPPED else f"drlib run {name} connect-mirror-maker.properties, or "
    assert line == f"runbook {name}: it needs clusters, and none were given. For example: {file}{own}"
    for words in (("run --dry-run", "run", name, "--dry-run"), ("plan", "plan", name)):
        command, *typed = words
        line = refused(tmp_path, 2, *typed)
        if name in ANALYSES or name == "size-the-link":
            assert line.endswith(f"nothing to plan. Run it: drlib run {name} connect-mirror-maker.properties")
        else:
            assert "it needs clusters, and none were given" in line
            assert line.endswith(f"For example: drlib {command} {name} --lab-dir DIR (a running lab)")


@pytest.mark.parametrize("where", ["runbook", "notebook"])
def test_run_clusters_of_a_runbook_are_said_before_it_begins(tmp_path: Path, file: Path, where: str) -> None:
    default = f'properties: str = "{file.name if where == "notebook" else ""}"\n'
    book = runbook(tmp_path)
    write_notebook(tmp_path / "tiny.ipynb", "raise SystemExit", parameters=PARAMETERS + default)
    if where == "runbook":
        book.write_text(yaml.safe_dump({**yaml.safe_load(book.read_text()), "parameters": {"properties": file.name}}))
    said = introduce(model.load(book), {}, ClusterTarget())
    assert str(said.banner) == ("PRODUCTION  flow LEFT->RIGHT, clusters LEFT and RIGHT: real applications move.")


def test_run_analysis_refuses_options_of_drills(tmp_path: Path, file: Path) -> None:
    book = runbook(tmp_path)
    document = yaml.safe_load(book.read_text())
    del document["drill"]
    book.write_text(yaml.safe_dump(document))
    assert "it has no drill" in refused(tmp_path, 2, "run", book, file)
    assert "it has no drill" in refused(tmp_path, 2, "plan", book, file)


def test_run_is_executed_by_one_process_at_a_time(tmp_path: Path) -> None:
    assert not folder_lock.held(tmp_path, folders.EXECUTING)
    with folders.executing(tmp_path):
        assert folder_lock.held(tmp_path, folders.EXECUTING)
        with pytest.raises(LeaseHeld, match="another process executes it"), folders.executing(tmp_path):
            pass
    assert not folder_lock.held(tmp_path, folders.EXECUTING)


def test_run_again_keeps_earlier_notebooks_by_number(tmp_path: Path) -> None:
    assert folders.set_aside(tmp_path, "executed.ipynb") is None
    for number in (1, 2):
        (tmp_path / "executed.ipynb").write_text(str(number))
        assert folders.set_aside(tmp_path, "executed.ipynb") == tmp_path / f"executed-{number}.ipynb"
    assert (tmp_path / "executed-1.ipynb").read_text() == "1"


def test_request_is_saved_and_extended_by_grants(tmp_path: Path) -> None:
    asked = Request(
        runbook=tmp_path / "r.yaml", parameters={"pace": 3.0, "groups": ["a"], "quick": True}, approved=("x",)
    )
    assert request.find(tmp_path) is None
    asked.write(tmp_path)
    assert request.find(tmp_path) == asked
    assert request.find(tmp_path).granted(["y", "x"], ["id"]).approved == ("x", "y")  # type: ignore[union-attr]
    granted = asked.of_plan("a1" * 32)
    assert granted.of_plan("a1" * 32) == granted
    with pytest.raises(UsageError, match="it is for plan a1a1a1a1a1a1, and the run's is b2b2b2b2b2b2"):
        granted.of_plan("b2" * 32)
    (tmp_path / "run.json").write_text(json.dumps({"runbook": "r", "password": "x"}))
    with pytest.raises(UsageError, match="cannot be used"):
        request.find(tmp_path)


FULL = """\
import resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
from drlib.drill.run.permissions import Permissions
from drlib.drill.run.runner import Runner
from drlib.errors import DrlibError
from testbed_drill_session import Stage
stage = Stage(Path(sys.argv[2]))
try:
    stage.open().finish()
except DrlibError as error:
    print(error.exit_code, error)
print(stage.done)
"""


def test_run_on_a_full_disk_stops_and_resumes_when_there_is_space(tmp_path: Path) -> None:
    from testbed_drill_session import Stage

    from drlib.runs import journal

    with Stage(tmp_path).open():  # the plan is there already
        pass
    # no byte code is written under the limit: it would be cut off and stay
    argv = [sys.executable, "-c", FULL, "1100", str(tmp_path)]
    tests = [str(TESTS), str(ROOT)]
    done = subprocess.run(
        argv,
        env={"PYTHONPATH": ":".join(tests), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "6 the run in " in done.stdout, done.stdout + done.stderr
    assert "its journal cannot be written: File too large" in done.stdout
    assert "Traceback" not in done.stderr
    begun = [line.event for line in journal.read(tmp_path / "journal.jsonl")]
    assert begun, "a few lines fit"
    assert "run-ended" not in begun
    stage = Stage(tmp_path)
    with stage.open() as drill:
        assert drill.finish().title == "Verdict: pass"
    assert stage.done  # what was left to do


def test_run_folder_on_a_full_disk_is_a_user_error() -> None:
    ended = outcome.failed(OSError(errno.ENOSPC, "No space left on device"), WaysOn("one"))
    assert ended.code == 6
    assert "No space left on device. Free space first. Resume it: drlib run --resume one." in ended.error
    assert outcome.failed(OSError(errno.EBADF, "Bad file descriptor"), WaysOn("one")).code == 1


def test_run_folder_that_cannot_be_created_starts_nothing(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file in the way")
    with pytest.raises(UsageError, match="nothing was begun"):
        folders.create(tmp_path / "runs", "tiny")


def test_abort_takes_one_run_or_all_of_them(tmp_path: Path) -> None:
    assert "one run is stopped, or all of them" in refused(tmp_path, 2, "abort")
    assert "one run is stopped, or all of them" in refused(tmp_path, 2, "abort", "r1", "--all")


def test_abort_all_asks_every_run_that_a_process_executes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app(["abort", "--all", "--runs-dir", str(tmp_path)], standalone_mode=False)
    assert "No process executes a run" in capsys.readouterr().out
    one = Step(name="one", title="One", action=Call("write"))
    plan = Plan(Drill(name="d", flow=Flow("A", "B"), mode=Mode.PLANNED, steps=(one,)), (StepPlan("one"),))
    for name in ("r1", "r2", "r3"):
        (tmp_path / name).mkdir()
        planning.write(plan, tmp_path / name)
    with folder_lock.alone(tmp_path / "r1", LOCK, "a", "b"), folder_lock.alone(tmp_path / "r3", LOCK, "a", "b"):
        assert [folder.name for folder in plans.executed(tmp_path)] == ["r1", "r3"]
        app(["abort", "--all", "--runs-dir", str(tmp_path), "--wait", "0"], standalone_mode=False)
    assert [Abort(tmp_path / name).requested for name in ("r1", "r2", "r3")] == [True, False, True]
    assert "--all" in Abort(tmp_path / "r1").by()
    assert "r3 was asked to stop and has not ended yet" in capsys.readouterr().out
