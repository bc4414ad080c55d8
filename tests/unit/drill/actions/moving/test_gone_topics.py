"""Positions in topics that do not exist any more hold up no move, and are named."""

from __future__ import annotations

from drlib.drill.actions.groups.rules import Left, PositionMove
from drlib.drill.actions.moving.gone_topics import GonePositions
from drlib.model import Flow, GroupTranslation, TopicPartition, Translation, TranslationKind
from drlib.runs.check import Verdict


def item(topic: str, offset: int | None, kind: TranslationKind) -> GroupTranslation:
    there = TopicPartition(f"A.{topic}", 0)
    return GroupTranslation("g", TopicPartition(topic, 0), 5, there, Translation(offset, kind, 0), 0)


def moved(of: GroupTranslation, offset: int | None) -> PositionMove:
    left = Left.UNKNOWN if offset is None else None
    return PositionMove(of.group, of.source, 5, of.target, offset, of.translation.kind, 0, 0, left=left)


LIVE = item("live", 4, TranslationKind.EXACT)
BEHIND = item("behind", 2, TranslationKind.BEHIND)  # its mirror is kept
NOWHERE = item("nowhere", None, TranslationKind.NEVER_MIRRORED)
GONE = GonePositions((BEHIND, NOWHERE))


def test_gone_positions_need_not_be_exact_and_are_placed_where_their_mirror_is() -> None:
    assert GONE.others([LIVE, BEHIND, NOWHERE]) == (LIVE,)
    assert GONE.placed([LIVE, BEHIND, NOWHERE]) == (LIVE, BEHIND)
    assert GonePositions().placed([LIVE]) == (LIVE,)


def test_gone_positions_that_are_left_block_no_group() -> None:
    live, behind = moved(LIVE, None), moved(BEHIND, None)
    assert GONE.without_left([live, behind]) == (live,)
    assert GONE.without_left([moved(BEHIND, 2)]) == (moved(BEHIND, 2),)


def test_gone_positions_are_a_condition_that_names_them() -> None:
    (check,) = GONE.checks(Flow("A", "B"))
    assert check.verdict is Verdict.CONDITIONS
    assert "g in behind-0 at 5, g in nowhere-0 at 5" in check.evidence
    assert GonePositions().checks(Flow("A", "B")) == ()
