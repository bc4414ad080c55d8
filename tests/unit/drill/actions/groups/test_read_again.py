"""What a group reads again from a bounded position: by contents of records."""

import pytest

from drlib.drill.actions.groups.read_again import NOTHING_AFTER, TwoLogs, compare_bounded, compare_shared, score
from drlib.drill.actions.groups.rules import PositionMove
from drlib.kafka.admin.descriptions import Record
from drlib.model import TopicPartition, TranslationKind

AT = TopicPartition("orders", 0)


def record(offset: int, value: str) -> Record:
    return Record(AT, offset, 1, b"k", value.encode())


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
        ("abx", "", "ab", "the same: 2 are read again, nothing after them", 2),  # x was written since
    ],
)
def test_bounded_position_measures_what_is_read_again(
    records: str, expected: str, before: str, said: str, again: int | None
) -> None:
    read, wanted, last = ([record(n, value) for n, value in enumerate(text)] for text in (records, expected, before))
    found = compare_bounded(read, wanted, last)
    assert found.verdict.startswith(said)
    assert found.again == again


def test_score_of_a_group_with_a_position_that_was_not_measured_is_unknown() -> None:
    exact = PositionMove("g", AT, 5, AT, 5, TranslationKind.EXACT, 0, 1)
    bounded = PositionMove("g", AT, 5, AT, 3, TranslationKind.BOUNDED, 40, 1)
    assert score("g", [(exact, 0), (bounded, 7)]).re_read == 7
    found = score("g", [(exact, 0), (bounded, None)])
    assert (found.re_read, found.re_read_at_most, found.positions) == (None, 40, {"exact": 1, "bounded": 1})


@pytest.mark.parametrize(
    ("there_before", "there", "before", "following", "predicted", "said", "again"),
    [
        ("ab", "cd", "ab", "cd", 0, "the same", 0),
        ("ab", "dxc", "ab", "cd", 0, "the same", 0),  # another order; x is the other cluster's
        ("a", "xbc", "ab", "xc", 1, "the same, 1 are read again", 1),
        ("a", "xbc", "ab", "xc", 0, "wrong: 1 records are read again, and 0 were predicted", 1),
        ("abc", "d", "ab", "cd", 0, "wrong: 1 records that the source has next, from 2 on, are skipped", None),
        ("ab", "c", "ab", "cd", 0, "not compared: 1 of 2 next records are not among 1", None),
        ("ab", "", "ab", "", 0, "the same, nothing after them", 0),
        ("ax", "", "ab", "", 0, NOTHING_AFTER, None),
        ("", "", "", "", 0, NOTHING_AFTER, None),
        ("ab", "ac", "ba", "ac", 0, "the same", 0),  # a is written again and again
    ],
)
def test_position_in_logs_of_different_orders_is_compared_by_what_it_would_read(
    there_before: str, there: str, before: str, following: str, predicted: int, said: str, again: int | None
) -> None:
    away, here = len(there_before), len(before)
    logs = TwoLogs(
        [record(n, value) for n, value in enumerate(there_before)],
        [record(away + n, value) for n, value in enumerate(there)],
        [record(n, value) for n, value in enumerate(before)],
        [record(here + n, value) for n, value in enumerate(following)],
        whole=True,
    )
    found = compare_shared(logs, 2, predicted)
    assert (found.verdict.startswith(said), found.again) == (True, again), found


def test_records_that_may_be_read_again_beyond_what_was_compared_are_not_counted_as_none() -> None:
    logs = TwoLogs([], [record(0, "c")], [record(0, "b")], [record(1, "c")], whole=False)
    assert compare_shared(logs, 2, 3).again is None
    assert compare_shared(logs, 2, 0).again == 0
