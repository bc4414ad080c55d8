"""Which drill a console shows: by folders alone, the one that lives first, and never a guess about one that is broken."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from drlib.drill.plan.plan import Call, Drill, Mode, Rollback, Step
from drlib.drill.plan.progress import Noted
from drlib.drill.run import planning, request
from drlib.drill.run.request import ClusterTarget, Request
from drlib.drill.run.runner import LOCK
from drlib.drill.session import find_running as running
from drlib.drill.session.board import Stand
from drlib.errors import UsageError
from drlib.model import Flow
from drlib.runs import lock as folder_lock
from drlib.runs.journal import JOURNAL, DrillJournal
from drlib.ui.console.state import drill_of


def run_in(runs: Path, name: str, lab: Path, *events: tuple[str, dict[str, str]]) -> Path:
    """A run's folder as the runner leaves it."""
    folder = runs / name
    folder.mkdir(parents=True)
    drill = Drill(
        name="d",
        flow=Flow("A", "B"),
        mode=Mode.PRACTICE,
        rollback=Rollback.NEVER,
        hypothesis=(),
        steps=tuple(Step(name=name, title=name.title(), action=Call("nothing")) for name in ("one", "two")),
    )
    actions: dict[str, Any] = {"one": _Nothing(), "two": _Nothing()}
    planning.write(planning.make_plan(drill, actions), folder)
    Request(runbook=Path("d.yaml"), lab_dir=lab).write(folder)
    journal = DrillJournal(folder / JOURNAL)
    for event, data in events:
        journal.write(event, **data)
    journal.close()
    return folder


class _Nothing:
    def observe(self) -> tuple[()]:
        return ()

    def changes(self, observed: object) -> tuple[()]:
        return ()

    def cluster_id(self) -> str:
        return "none"


STARTED = (str(Noted.STEP_STARTED), {"step": "one"})


def test_find_running_without_runs_finds_none(tmp_path: Path) -> None:
    assert running.find(tmp_path / "runs", ClusterTarget(lab_dir=tmp_path)) is None
    run_in(tmp_path / "runs", "20260101T000000Z-d-1", tmp_path)
    assert running.find(tmp_path / "runs", ClusterTarget(lab_dir=tmp_path)) is None, "planned is not begun"


def test_find_running_ignores_runs_of_another_lab(tmp_path: Path) -> None:
    run_in(tmp_path / "runs", "20260101T000000Z-d-1", tmp_path / "other", STARTED)
    assert running.find(tmp_path / "runs", ClusterTarget(lab_dir=tmp_path)) is None


def test_find_running_prefers_a_living_run_to_a_newer_one(tmp_path: Path) -> None:
    old = run_in(tmp_path / "runs", "20260101T000000Z-d-1", tmp_path, STARTED)
    new = run_in(tmp_path / "runs", "20260102T000000Z-d-1", tmp_path, STARTED)
    found = running.find(tmp_path / "runs", ClusterTarget(lab_dir=tmp_path))
    assert found is not None
    assert (found.folder, found.alive) == (new, False)
    seen = drill_of(found)
    assert seen is not None
    assert (seen.word, seen.abortable) == ("not running", False)
    assert "--resume" in seen.note
    with folder_lock.alone(old, LOCK, "", ""):
        found = running.find(tmp_path / "runs", ClusterTarget(lab_dir=tmp_path))
        assert found is not None
        assert (found.folder, found.alive) == (old, True)
        seen = drill_of(found)
        assert seen is not None
        assert seen.current is not None
        assert (seen.word, seen.current.name, seen.abortable) == ("running", "one", True)
        running.abort(found, "anna")
        found = running.find(tmp_path / "runs", ClusterTarget(lab_dir=tmp_path))
        assert found is not None
        seen = drill_of(found)
        assert seen is not None
        assert (seen.word, seen.note, seen.abortable) == ("aborting", "requested by anna", False)


def test_abort_of_a_run_that_is_not_executed_is_refused(tmp_path: Path) -> None:
    folder = run_in(tmp_path / "runs", "20260101T000000Z-d-1", tmp_path, STARTED)
    found = running.find(tmp_path / "runs", ClusterTarget(lab_dir=tmp_path))
    assert found is not None
    with pytest.raises(UsageError, match="no process runs it") as refused:
        running.abort(found, "anna")
    assert "--rollback" in str(refused.value)
    assert not (folder / "abort").exists()


def test_find_running_edited_journal_is_reported(tmp_path: Path) -> None:
    folder = run_in(tmp_path / "runs", "20260101T000000Z-d-1", tmp_path, STARTED)
    path = folder / JOURNAL
    path.write_text(path.read_text().replace('"one"', '"two"'))
    seen = drill_of(running.find(tmp_path / "runs", ClusterTarget(lab_dir=tmp_path)))
    assert seen is not None
    assert seen.word == "unknown"
    assert "changed after the fact" in seen.note


def test_find_running_journal_of_another_release_is_reported(tmp_path: Path) -> None:
    run_in(tmp_path / "runs", "20260101T000000Z-d-1", tmp_path, STARTED, ("of-a-later-release", {"step": "one"}))
    seen = drill_of(running.find(tmp_path / "runs", ClusterTarget(lab_dir=tmp_path)))
    assert seen is not None
    assert (seen.word, "of-a-later-release" in seen.note) == ("unknown", True), seen.note


def test_find_running_skips_an_unreadable_request(tmp_path: Path) -> None:
    folder = run_in(tmp_path / "runs", "20260101T000000Z-d-1", tmp_path, STARTED)
    (folder / request.REQUEST_FILE).write_text("{")
    assert running.find(tmp_path / "runs", ClusterTarget(lab_dir=tmp_path)) is None


def test_run_in_a_folder_shows_its_ended_step_and_what_can_be_undone(tmp_path: Path) -> None:
    folder = run_in(tmp_path / "runs", "20260101T000000Z-d-1", tmp_path, STARTED)
    left = drill_of(running.find(tmp_path / "runs", ClusterTarget(lab_dir=tmp_path)))
    assert left is not None
    assert left.rollback is not None
    assert [(step.name, step.stand) for step in left.steps] == [("one", Stand.STOPPED), ("two", Stand.WAITING)]
    assert [step.step for step in left.rollback.undone] == ["one"], (
        "drlib run --rollback undoes it whatever the strategy"
    )
    with folder_lock.alone(folder, LOCK, "", ""):
        alive = drill_of(running.find(tmp_path / "runs", ClusterTarget(lab_dir=tmp_path)))
    assert alive is not None
    assert alive.rollback is not None
    assert alive.steps[0].stand is Stand.RUNNING
    assert alive.rollback.undone == ()
    assert alive.rollback.stays == (("one", "an abort undoes nothing: rollback never, mode practice"),)
    ended = ((str(Noted.STEP_SUCCEEDED), {"step": "one"}), (str(Noted.RUN_ENDED), {"detail": "passed"}))
    run_in(tmp_path / "runs", "20260102T000000Z-d-1", tmp_path, STARTED, *ended)
    over = drill_of(running.find(tmp_path / "runs", ClusterTarget(lab_dir=tmp_path)))
    assert over is not None
    assert (over.word, over.rollback) == ("passed", None)
