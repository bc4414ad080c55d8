"""What a run was asked to be, and what follows from it once the run is unfinished."""

from pathlib import Path

import pytest

from drlib.drill.plan.progress import Noted
from drlib.drill.run import request
from drlib.drill.run.request import ClusterTarget, Request
from drlib.errors import UsageError
from drlib.runs.journal import JOURNAL, DrillJournal

BOOK = Path("/books/failover-drill.yaml")


def test_lab_that_ends_with_its_run_leaves_nothing_to_resume_while_it_still_runs(tmp_path: Path) -> None:
    """What stops a run is said before its lab is stopped."""
    asked = Request(runbook=BOOK, lab_dir=tmp_path, lab_ends=True, parameters={"clients": ["java"]})
    again = """drlib run failover-drill --lab -p 'clients=["java"]'"""
    assert asked.ways_on("one").again == again
    assert asked.target == ClusterTarget(lab_dir=tmp_path, lab_ends=True)
    with pytest.raises(
        UsageError, match=r"gone with the lab that it ran on. Start it again: drlib run failover-drill --lab"
    ):
        asked.require_lab("one")


def test_lab_that_outlives_its_run_leaves_it_to_be_resumed_until_its_folder_is_gone(tmp_path: Path) -> None:
    lab = tmp_path / "lab"
    lab.mkdir()
    asked = Request(runbook=BOOK, lab_dir=lab)
    assert asked.ways_on("one").resume == "drlib run --resume one"
    asked.require_lab("one")
    lab.rmdir()
    assert asked.ways_on("one").again == "drlib run failover-drill --lab"


def test_ways_on_of_a_folder_follow_what_it_was_asked_to_be(tmp_path: Path) -> None:
    assert request.ways_on(tmp_path).resume == f"drlib run --resume {tmp_path}"
    Request(runbook=BOOK, lab_dir=tmp_path, lab_ends=True).write(tmp_path)
    assert request.ways_on(tmp_path, "one").resume == "drlib run failover-drill --lab"
    (tmp_path / "run.json").write_text("{")
    assert request.ways_on(tmp_path, "one").resume == "drlib run --resume one"


def test_ways_on_of_a_folder_whose_undo_was_refused_begin_with_a_new_run(tmp_path: Path) -> None:
    folder = tmp_path / "my one"
    folder.mkdir()
    Request(runbook=BOOK, properties=Path("/f"), parameters={"flow": "A->B"}).write(folder)
    written = DrillJournal(folder / JOURNAL)
    for event, step, refused in (
        (Noted.UNDO_STARTED, "go-home", ""),
        (Noted.UNDO_FAILED, "go-home", "go-home"),
        (Noted.RUN_ENDED, "", "go-home"),
        (Noted.RUN_RESUMED, "", ""),
        (Noted.UNDO_FAILED, "go-home", "go-home"),
        (Noted.UNDO_SUCCEEDED, "go-home", ""),
    ):
        written.write(event, step=step)
        assert request.refused_undo(folder) == request.ways_on(folder).refused == refused
    written.close()
    assert (
        request.ways_on(folder).instead == "drlib run /books/failover-drill.yaml /f -p 'flow=A->B' --supersede 'my one'"
    )
