"""A run that was superseded is marked in its own folder: never resumed, and its scorecard still agrees with its journal."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from testbed_drill_session import Stage

from drlib.drill.actions.groups import decided
from drlib.drill.actions.groups.rules import PositionMove
from drlib.drill.plan.lease_record import LeaseRecord
from drlib.drill.plan.plan import Mode
from drlib.drill.run import stored_run
from drlib.drill.run.stored_run import Evidence
from drlib.drill.session.superseded_run import mark, mark_and_clean_up, placed
from drlib.errors import Aborted, Deviated
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import TopicPartition, TranslationKind
from drlib.runs import journal
from drlib.runs.check import Verdict
from drlib.runs.journal import JOURNAL


def test_superseded_run_is_marked_once_and_cannot_be_continued(tmp_path: Path) -> None:
    stage = Stage(tmp_path, fails="two")
    with stage.open() as drill, pytest.raises(Deviated):
        drill.finish()
    gone = LeaseRecord(run=tmp_path.name, host=socket.gethostname(), folder=str(tmp_path))
    for _ in range(2):
        assert "is marked" in mark(gone, "night")
    lines = journal.read(tmp_path / JOURNAL)
    assert [line.data["detail"] for line in lines if line.event == "superseded"] == ["night"]
    found = stored_run.read(tmp_path)
    assert found.verdict in (Verdict.FAIL, Verdict.UNKNOWN)
    assert found.evidence is not Evidence.CONTRADICTORY
    stage.fails = ""
    with stage.open() as drill, pytest.raises(Aborted, match="was superseded by night") as refused:
        drill.finish()
    assert "one" in refused.value.why
    assert stage.done.count("two") == 1


def test_groups_that_a_killed_move_placed_on_the_target_are_named(tmp_path: Path) -> None:
    """Its changes stay, and nothing else says so: they look as if the groups had read there."""
    gone = LeaseRecord(run="r", host=socket.gethostname(), folder=str(tmp_path), mode=Mode.PLANNED)
    assert placed(gone, "RIGHT") == ()
    at = TopicPartition("LEFT.orders", 0)
    for step, groups in (("move", ("billing", "audit")), ("move-shop", ("shop",))):
        moves = [PositionMove(group, at, 5, at, 5, TranslationKind.EXACT, 0, 1) for group in groups]
        decided.write(tmp_path, "RIGHT", moves, f"tried.{step}")
    decided.write(tmp_path, "RIGHT", moves)  # of a step that ended
    decided.write(tmp_path, "LEFT", moves, "tried.move")
    (said,) = placed(gone, "RIGHT")
    assert "placed on RIGHT, as if they had read there, stay so: audit, billing, shop; " in said
    assert f"{tmp_path}/details/positions.tried.* has where they were before" in said
    assert said in mark_and_clean_up(gone, "night", ClusterSettings("RIGHT", ("127.0.0.1:1",)))
    assert placed(gone.model_copy(update={"host": "another"}), "RIGHT") == ()
    (tmp_path / "details" / "positions.tried.move.RIGHT.json").write_text("{")
    assert placed(gone, "RIGHT")[0].startswith("which groups it placed on RIGHT is unknown")


def test_folder_of_another_host_or_that_is_gone_is_named_and_left(tmp_path: Path) -> None:
    elsewhere = LeaseRecord(run="r", host="another", folder=str(tmp_path))
    assert f"{tmp_path} on another) is not marked" in mark(elsewhere, "night")
    gone = LeaseRecord(run="r", host=socket.gethostname(), folder=str(tmp_path / "r"))
    assert "is not there" in mark(gone, "night")
    assert "not recorded" in mark(LeaseRecord(run="r"), "night")
    assert list(tmp_path.iterdir()) == []
