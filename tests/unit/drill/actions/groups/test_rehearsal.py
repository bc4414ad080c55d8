"""What a canary reads, compared with what the source has there, or right before it."""

import pytest

from drlib.drill.actions.groups.rehearsal import NOTHING_AFTER, _compared, _compared_before, _measured
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


@pytest.mark.parametrize(
    ("records", "expected", "before", "said", "again"),
    [
        ("abcd", "cd", "", "the same behind 2", 2),
        ("cd", "cd", "", "the same behind 0", 0),
        ("abc", "cx", "", "the same behind 2", 2),  # what follows is compared by the next rehearsal that gets there
        ("abd", "cd", "", "the same behind 1", 1),  # compaction took the next one from the mirror
        ("d", "cd", "", "wrong: 1 records that the source has before", None),
        ("ab", "cd", "", "not compared: none of the source's next records", None),
        ("ab", "", "ab", "the same: 2 are read again, nothing after them", 2),
        ("ab", "", "ax", NOTHING_AFTER, None),
        ("", "", "ax", NOTHING_AFTER, None),
    ],
)
def test_canary_from_a_bounded_position_measures_what_is_read_again(
    records: str, expected: str, before: str, said: str, again: int | None
) -> None:
    read, wanted, last = ([record(n, value) for n, value in enumerate(text)] for text in (records, expected, before))
    found = _measured(read, wanted, last)
    assert found.verdict.startswith(said)
    assert found.again == again
