"""What becomes of each position of a group that is moved: committed, or left with a reason."""

import pytest

from drlib.drill.actions.groups.rules import There, decide, held
from drlib.model import GroupTranslation, TopicPartition, Translation, TranslationKind

HERE, TARGET = TopicPartition("orders", 0), TopicPartition("LEFT.orders", 0)


def at(offset: int | None, kind: TranslationKind = TranslationKind.EXACT, records: int = 0) -> GroupTranslation:
    return GroupTranslation("billing", HERE, 70, TARGET, Translation(offset, kind, records), 1, "m")


@pytest.mark.parametrize("kind", [k for k in TranslationKind if k is not TranslationKind.UNKNOWN])
def test_what_the_map_says_is_committed_with_its_metadata(kind: TranslationKind) -> None:
    move = decide(at(50, kind, 3), There(0, 60))
    assert (move.offset, move.kind, move.records, move.metadata, move.why) == (50, kind, 3, "m", "")
    assert move.before is None
    assert held([move]) == {}


def test_where_it_stands_already_it_stays_and_a_lower_one_is_raised() -> None:
    assert decide(at(50), There(0, 60, 50)).offset == 50
    move = decide(at(50), There(0, 60, 20, "old"))
    assert (move.offset, move.before, move.before_metadata) == (50, 20, "old")


@pytest.mark.parametrize(
    ("item", "there", "why"),
    [
        (at(50), There(0, 60, 55), "further on"),
        (at(61), There(0, 60), "ends at 60"),
        (at(50, TranslationKind.UNKNOWN), There(0, 60), "cannot say"),
        (at(None, TranslationKind.BEHIND), There(0, 60), "cannot say"),
        (at(50), There(None, None), "cannot say"),
    ],
)
def test_a_guess_and_a_step_back_are_left_and_hold_the_group(item: GroupTranslation, there: There, why: str) -> None:
    move = decide(item, there)
    assert move.offset is None
    assert why in move.why
    assert held([move, decide(at(1), There(0, 60))]) == {"billing": (move,)}


def test_a_step_back_that_was_asked_for_is_taken() -> None:
    assert decide(at(50), There(0, 60, 55), rewind=True).offset == 50


def test_where_nothing_was_mirrored_a_group_begins_at_the_log_start() -> None:
    nothing = at(None, TranslationKind.NEVER_MIRRORED)
    assert decide(nothing, There(7, 7)).offset == 7
    left = decide(nothing, There(None, None))
    assert left.offset is None
    assert held([left]) == {}
