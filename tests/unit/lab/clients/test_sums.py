"""What running sums on the target are compared with, and what is said of those that differ."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.lab.checker.history import Consumed
from drlib.lab.clients.sums import Sums, compare

KEYS = {f"s-{number}": f"k{number % 2}" for number in range(10)}
EQUAL = "its 2 running sums are those of the records on RIGHT"


def rows(numbers: Sequence[int], totals: dict[str, int] | None = None, topic: str = "LEFT.t") -> list[Consumed]:
    """The records of these numbers, which are also their offsets, processed one after the other on top of `totals`."""
    kept, made = dict(totals or {}), []
    for number in numbers:
        key = f"k{number % 2}"
        kept[key] = kept.get(key, 0) + number
        made.append(Consumed("g", "address", topic, 0, number, f"s-{number}", key, 0, 1, kept[key]))
    return made


def ids(numbers: Sequence[int]) -> list[str]:
    return [f"s-{number}" for number in numbers]


def test_state_that_was_rebuilt_from_all_records_has_their_sums() -> None:
    sums = compare(ids(range(10)), KEYS, rows(range(10)))
    assert sums == Sums({"k0": 20, "k1": 25}, {"k0": 20, "k1": 25}, {"k0": 20, "k1": 25})
    assert (sums.differing, sums.in_words("LEFT", "RIGHT")) == ([], EQUAL)


def test_state_that_crossed_with_its_positions_has_the_sums_of_all_records() -> None:
    sums = compare(ids(range(10)), KEYS, rows(range(6, 10), {"k0": 6, "k1": 9}))
    assert sums.in_words("LEFT", "RIGHT") == EQUAL


def test_empty_state_behind_positions_that_crossed_lacks_what_was_before_them() -> None:
    sums = compare(ids(range(10)), KEYS, rows(range(6, 10)))
    assert sums.differing == ["k0", "k1"]
    assert sums.in_words("LEFT", "RIGHT") == (
        "2 of its 2 running sums are not those of the records on RIGHT (k0 is 14 instead of 20): its changelog did not cross "
        "and its input positions did, so that it began with an empty state on RIGHT"
    )


@pytest.mark.parametrize("state", [{"k0": 2, "k1": 9}, {"k0": 14, "k1": 9}])
def test_state_of_another_moment_than_its_positions_differs(state: dict[str, int]) -> None:
    """Its changelog crossed up to an earlier record, or a later one."""
    sums = compare(ids(range(10)), KEYS, rows(range(6, 10), state))
    assert sums.differing == ["k0"]
    assert sums.in_words("LEFT", "RIGHT").endswith(
        "its changelog and its input positions on RIGHT are of different moments of LEFT"
    )


def test_key_without_a_sum_there_is_named() -> None:
    sums = compare(ids([0, 1, 2, 3]), KEYS, rows([0, 2]))
    assert "1 of its 2 running sums" in sums.in_words("LEFT", "RIGHT")
    assert "(k1 has none instead of 4)" in sums.in_words("LEFT", "RIGHT")


def test_records_of_an_aborted_transaction_are_counted_once_and_a_record_in_both_logs_twice() -> None:
    again = compare(ids([2, 4]), KEYS, [*rows([2, 4]), *rows([2, 4])])
    assert (again.kept, again.processed, again.differing) == ({"k0": 6}, {"k0": 6}, [])
    both = compare(ids([2, 4, 4]), KEYS, [*rows([2, 4]), *rows([4], {"k0": 6}, topic="t")])
    assert (both.logged, both.kept, both.processed) == ({"k0": 10}, {"k0": 10}, {"k0": 10})


@given(st.lists(st.integers(0, 9)), st.lists(st.integers(0, 9)))
def test_sums_are_equal_only_where_each_key_has_the_sum_of_its_records(logged: list[int], done: list[int]) -> None:
    sums = compare(ids(logged), KEYS, rows(done))
    expected = {key: sum(n for n in logged if n % 2 == number) for number, key in enumerate(("k0", "k1"))}
    kept = {key: sum(n for n in done if n % 2 == number) for number, key in enumerate(("k0", "k1"))}
    if not sums.differing:
        assert expected == kept
