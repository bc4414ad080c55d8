"""Drills as a person runs them, on a real lab: plan, dry run, run by hash, killed, taken up, aborted, refused."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
from fix_engine import wait_for
from testbed_commands import BEFORE, DONE, Stage, kernel_of, wait_fast

from drlib.drill.flow_state.flow_record import read_record
from drlib.drill.plan.plan import Mode
from drlib.drill.plan.states import DrillState
from drlib.drill.run import stored_run
from drlib.drill.run.lease import Lease
from drlib.kafka.admin.descriptions import CommittedOffset
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.lab import Lab
from drlib.model import Flow, TopicPartition
from drlib.runs import folder as folders
from drlib.runs import journal
from drlib.runs.check import Verdict
from drlib.runs.journal import JOURNAL

pytestmark = pytest.mark.usefixtures("topic_actions")
PAUSE = "import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.02)"


@pytest.fixture
def stage(lab: Lab, fresh_topic: Callable[[str], str], tmp_path: Path) -> Stage:
    return Stage(lab, tmp_path, fresh_topic("orders"), fresh_topic("old"))


def test_plan_changes_nothing_and_is_run_once_by_its_hash(stage: Stage) -> None:
    book = stage.runbook()
    wait_for("no group of another test is about to end", lambda: not stage.members())
    before = stage.everything()
    shown = stage.drlib("plan", book, *stage.on_lab())
    assert "PLANNED" in shown
    dry = stage.drlib("run", book, "--dry-run", *stage.on_lab())
    assert stage.everything() == before
    folder = stage.run_folder()  # the dry run kept nothing
    assert {path.name for path in folder.iterdir()} == {"plan.json", "run.json"}
    made = json.loads((folder / "plan.json").read_text())["hash"]
    assert made in "".join(shown.split())
    assert made in "".join(dry.split())
    for part in ("does not exist", "→", "The step move", "partitions of topic"):
        assert part in " ".join(shown.split()), shown
    stage.drlib("run", "--plan", made[:12])
    assert stage.now() == DONE
    assert json.loads((folder / "scorecard.json").read_text())["verdict"] == "pass"
    assert folders.differences(folder) == ()
    assert stored_run.read(folder).evidence is stored_run.Evidence.VERIFIED
    assert "already started" in stage.drlib("run", "--plan", made[:12], code=2)


@pytest.mark.long
def test_run_killed_inside_and_between_steps_has_the_same_result(stage: Stage, tmp_path: Path) -> None:
    go = tmp_path / "go"
    argv = [sys.executable, "-c", PAUSE, str(go)]
    book = stage.runbook(call={"arguments": {"argv": argv, "idempotent": True}})
    process = stage.start("run", book, *stage.on_lab())
    wait_fast("the first step is done", lambda: "step-succeeded create" in stage.lines())
    folder = stage.run_folder()
    os.kill(kernel_of(folder), signal.SIGKILL)  # between two steps
    out, err = process.communicate(timeout=60)
    assert process.returncode == 6, out + err
    assert "kernel died" in err
    assert f"drlib run --resume {folder}" in "".join(err)
    assert (folder / "report.html").exists()
    process = stage.start("run", "--resume", folder)
    wait_fast("it is in the middle of a step", lambda: "step-started call" in stage.lines())
    process.kill()  # and with it, a moment later, its kernel
    process.communicate(timeout=60)
    go.touch()
    stage.drlib("run", "--resume", folder.name)
    assert stage.now() == DONE
    done = [line for line in stage.lines() if line.startswith("step-succeeded")]
    assert done == [f"step-succeeded {name}" for name in ("create", "place", "call", "move")]
    assert {"executed-1.ipynb", "executed-2.ipynb", "executed.ipynb"} <= {path.name for path in folder.iterdir()}
    assert json.loads((folder / "scorecard.json").read_text())["verdict"] == "pass"
    assert "has ended" in stage.drlib("run", "--resume", folder, code=2)


def test_abort_from_another_process_stops_in_two_seconds_and_rolls_back(stage: Stage, tmp_path: Path) -> None:
    argv = [sys.executable, "-c", PAUSE, str(tmp_path / "never")]
    book = stage.runbook(call={"arguments": {"argv": argv, "timeout_seconds": 120}, "danger": "none"})
    process = stage.start("run", book, *stage.on_lab())
    wait_fast("it is in the middle of a step", lambda: "step-started call" in stage.lines())
    output = stage.drlib("abort", stage.run_folder().name)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 8, out + err
    assert "was aborted" in output
    assert "everything it changed is undone" in output
    assert stage.now() == BEFORE
    asked = (stage.run_folder() / "abort").stat().st_mtime
    stopped = next(line for line in journal.read(stage.run_folder() / JOURNAL) if line.event == "abort-requested")
    assert 0 <= datetime.fromisoformat(stopped.at).timestamp() - asked < 2.0  # the step's own end is before this line
    assert "cannot be aborted" in stage.drlib("abort", stage.run_folder(), code=2)


@pytest.mark.long
def test_run_step_waiting_for_approval_pauses_and_resumes(stage: Stage) -> None:
    book = stage.runbook(place={"approval": True})
    output = stage.drlib("run", book, *stage.on_lab(), code=9)
    assert "waits for its approval" in output
    assert f"drlib run --resume {stage.run_folder()} --approve place" in output
    assert stage.now() == (True, {}, {0: 3})
    assert "tiny has no such step" in stage.drlib("run", "--resume", stage.run_folder(), "--approve", "x", code=2)
    stage.drlib("run", "--resume", stage.run_folder(), "--approve", "place")
    assert stage.now() == DONE


def test_plan_stale_before_a_step_is_refused_and_rolled_back(stage: Stage) -> None:
    book = stage.runbook(call={"danger": "none"})
    made = _hash(stage.drlib("plan", book, *stage.on_lab()))
    with stage.cluster() as cluster:
        cluster.alter_group_offsets(f"old.{stage.topic}", {TopicPartition(stage.old_topic, 0): CommittedOffset(4)})
    output = stage.drlib("run", "--plan", made, code=12)
    assert "was 3 and is 4" in output
    assert stage.now() == (False, {}, {0: 4})
    assert stage.lines() == []
    with stage.cluster() as cluster:
        cluster.alter_group_offsets(f"old.{stage.topic}", {TopicPartition(stage.old_topic, 0): CommittedOffset(3)})
    stage.drlib("run", "--plan", made)  # as it was again
    assert stage.now() == DONE
    assert "has ended" in stage.drlib("run", "--rollback", stage.run_folder(), code=2)


def test_rollback_of_a_paused_run_from_the_command_line(stage: Stage) -> None:
    stage.drill = {
        "hypothesis": [{"title": "RIGHT answers", "probe": "cluster.answers", "arguments": {"cluster": "RIGHT"}}]
    }
    book = stage.runbook(call={"danger": "none"}, move={"approval": True})
    assert "waits for its approval" in stage.drlib("run", book, *stage.on_lab(), code=9)
    assert stage.now() == (True, {0: 5, 1: 7}, {0: 3})
    assert "everything it changed is undone" in stage.drlib("run", "--rollback", stage.run_folder())
    assert stage.now() == BEFORE
    assert folders.differences(stage.run_folder()) == ()


@pytest.mark.long
def test_rollback_by_an_edited_runbook_is_refused_unless_only_the_undo_was_corrected(stage: Stage) -> None:
    """It would undo something else, or nothing, and say that everything is undone."""
    call, move = {"danger": "none"}, {"approval": True}
    stage.drlib("run", stage.runbook(call=call, move=move), *stage.on_lab(), code=9)
    folder = stage.run_folder()
    stage.runbook(call=call, move=move, place={"arguments": {"group": f"other.{stage.topic}"}})
    assert "place is not as it was planned" in stage.drlib("run", "--rollback", folder, code=2)
    assert stage.now()[0], "nothing was undone"
    stage.runbook(call={**call, "arguments": {"undo_argv": [sys.executable, "-c", ""]}}, move=move)
    stage.drlib("run", "--rollback", folder)
    assert stage.now() == BEFORE


def test_rollback_after_a_deviation_restores_everything(stage: Stage) -> None:
    stage.drill = {"rollback": "never"}
    argv = [sys.executable, "-c", "import sys; print('no room'); sys.exit(3)"]
    book = stage.runbook(call={"arguments": {"argv": argv}, "danger": "none"})
    output = stage.drlib("run", book, *stage.on_lab(), code=6)
    assert "exit code 3, expected 0; its output: no room" in output
    assert stage.now() == (True, {0: 5, 1: 7}, {0: 3})
    assert "everything it changed is undone" in stage.drlib("run", "--rollback", stage.run_folder())
    assert stage.now() == BEFORE


@pytest.mark.long
def test_run_on_own_clusters_skips_the_gate_only_with_a_reason(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    addresses = {alias: one.bootstrap for alias, one in stage.lab.clusters.items()}
    lines = [f"{alias}.bootstrap.servers = {address}" for alias, address in addresses.items()]
    file.write_text("\n".join(["clusters = LEFT, RIGHT", *lines, "LEFT->RIGHT.enabled = true", ""]))
    stage.drill = {"mode": "emergency", "lease": True}
    book = stage.runbook(create={"danger": "destructive"})
    with stage.cluster() as cluster:
        right = cluster.cluster_id()
    assert "not ready for a failover" in stage.drlib("run", book, file, "--cluster-id", right, code=3)
    assert not list(stage.runs.glob("*"))
    reason = ("--skip-gate", "LEFT burns")
    output = stage.drlib("run", book, file, *reason, code=2)
    assert f"confirm its ID: {right}" in output
    assert stage.now() == BEFORE
    assert not list(stage.runs.glob("*"))
    typed = ("--cluster-id", right)
    flow, target = Flow("LEFT", "RIGHT"), ClusterSettings("RIGHT", (addresses["RIGHT"],))
    with Lease(target, flow, "somebody-elses"):
        assert "is held" in stage.drlib("run", book, file, *reason, *typed, code=10)
    assert stage.now() == BEFORE
    shutil.rmtree(stage.runs, ignore_errors=True)
    stage.drlib("run", book, file, *reason, *typed)
    assert stage.now() == DONE
    folder = stage.run_folder()
    assert journal.read(folder / JOURNAL)[0].data["readiness"] == "skipped: LEFT burns"
    card = json.loads((folder / "scorecard.json").read_text())
    assert ("readiness gate", "conditions") in [(check["name"], check["verdict"]) for check in card["checks"]]
    assert card["verdict"] == "conditions"


@pytest.mark.long
def test_papermills_own_command_runs_a_drill(stage: Stage) -> None:
    book = stage.runbook()
    run = stage.root / "own"
    given = {"run_dir": run, "runbook": book, "lab_dir": stage.lab.root, "topic": stage.topic}
    argv = [sys.executable, "-m", "papermill", "--engine", "drlib", str(stage.root / "tiny.ipynb"), "out.ipynb"]
    argv += [part for name, value in given.items() for part in ("-p", name, str(value))]
    run.mkdir()
    done = subprocess.run(argv, cwd=stage.root, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert stage.now() == DONE
    assert json.loads((run / "scorecard.json").read_text())["verdict"] == "pass"


@pytest.mark.long
@pytest.mark.parametrize("whom", ["kernel", "both"])
@pytest.mark.parametrize("lines", [1, 2, 3, 4, 6, 8])
def test_run_killed_after_any_journal_line_has_the_same_result(stage: Stage, lines: int, whom: str) -> None:
    process = stage.start("run", stage.runbook(), *stage.on_lab())
    wait_fast("it has come that far", lambda: len(stage.lines()) >= lines)
    folder = stage.run_folder()
    with contextlib.suppress(ProcessLookupError):
        os.kill(kernel_of(folder), signal.SIGKILL)
    if whom == "both":
        process.kill()
    process.communicate(timeout=60)
    if "run-ended" not in stage.lines():
        stage.drlib("run", "--resume", folder)
    assert stage.now() == DONE
    assert (stage.root / "called").read_text().count("called") in (1, 2)  # declared idempotent


def test_run_that_ended_before_it_could_write_the_flows_state_is_taken_up_for_that(stage: Stage) -> None:
    """Killed between the last line of its journal and the state on the target, or the target did not answer just then."""
    stage.drill = {"lease": True}
    stage.drlib("run", stage.runbook(), *stage.on_lab())
    folder, flow, target = stage.run_folder(), Flow("LEFT", "RIGHT"), stage.cluster().settings
    try:
        with Lease(target, flow, folder.name) as lease:
            lease.write(DrillState.RUNNING, mode=Mode.PLANNED, standing=("move",))
        assert f"run {folder.name} (planned) is unfinished" in stage.drlib(
            "run", stage.runbook(), *stage.on_lab(), code=2
        )
        assert f"drlib run --resume {folder}" in stage.drlib("run", "--rollback", folder, code=2)
        stage.drlib("run", "--resume", folder)
        with stage.cluster() as cluster:
            assert read_record(cluster, flow).state is DrillState.FAILED_OVER
        assert stage.now() == DONE
        assert stored_run.read(folder).verdict is Verdict.PASS
        assert "has ended" in stage.drlib("run", "--resume", folder, code=2)
    finally:
        with Lease(target, flow, "a test") as lease:
            lease.write(DrillState.READY)


def _hash(shown: str) -> str:
    """The 12 digits a plan is run by, as it says."""
    return shown.split("--plan ")[1].split(maxsplit=1)[0]
