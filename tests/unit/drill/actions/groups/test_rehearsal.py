"""What a canary reads, compared with what the source has there, or right before it."""

import pytest

from drlib.drill.actions.groups.read_again import NOTHING_AFTER
from drlib.drill.actions.groups.rehearsal import _compared, _compared_before
from drlib.drill.actions.groups.rules import PositionMove
from drlib.kafka.admin.descriptions import Record
from drlib.model import TopicPartition, TranslationKind

AT = TopicPartition("orders", 0)


def record(offset: int, value: str) -> Record:
    return Record(AT, offset, 1, b"k", value.encode())


def move(kind: TranslationKind = TranslationKind.EXACT) -> PositionMove:
    return PositionMove("g", AT, 5, AT, 5, kind, 0, 1)


@pytest.mark.parametrize(
    ("records", "expected", "said"),
    [
        ([record(5, "a")], [record(7, "a")], "the same"),
        ([record(5, "a")], [record(7, "b")], "wrong: offset 5"),
        ([record(5, "a")], [], "wrong: the source has nothing"),
        ([], [record(7, "a")], "not mirrored yet"),
        ([], [], NOTHING_AFTER),
        ([], None, "unknown"),
    ],
)
def test_canary_compares_what_comes_next(records: list[Record], expected: list[Record] | None, said: str) -> None:
    assert _compared(move(), records, expected).startswith(said)


@pytest.mark.parametrize(
    ("records", "expected", "said"),
    [
        ([record(3, "a"), record(4, "b")], [record(9, "b")], "the same before it, nothing after it"),
        ([record(4, "b")], [record(9, "x")], "wrong: before it, offset 4 is not what the source has at 9"),
        ([], [record(9, "x")], f"{NOTHING_AFTER}, nor before it on both sides"),
    ],
)
def test_canary_of_a_group_that_has_read_all_compares_what_came_before(
    records: list[Record], expected: list[Record], said: str
) -> None:
    """A flawless rehearsal of idle groups read no record, and ended as unknown."""
    assert _compared_before(records, expected) == said
