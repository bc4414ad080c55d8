"""Order per key of one group, from literal histories: each planted disorder is found, and nothing else."""

from __future__ import annotations

from dataclasses import replace

from drlib.lab.checker.history import Consumed
from drlib.lab.checker.key_order import disordered, key_order


def row(key: str, n: int, at_ms: int, topic: str = "orders", partition: int = 0) -> Consumed:
    return Consumed("g", "RIGHT", topic, partition, n, f"{key}-{n}", key, n, at_ms)


def test_key_order_rising_numbers_hold() -> None:
    found = key_order([[row("a", 0, 1), row("b", 7, 1), row("a", 5, 2), row("b", 8, 3)]])
    assert (found.violations, found.undecided, found.keys, found.records, found.holds) == ((), 0, 2, 4, True)


def test_key_order_violation_names_both_places() -> None:
    found = key_order([[row("a", 0, 1, "LEFT.orders"), row("a", 2, 2), row("a", 1, 3, "LEFT.orders", 4)]])
    (only,) = found.violations
    assert (only.key, only.n, only.after) == ("a", 1, 2)
    assert (only.place, only.after_place) == ("LEFT.orders-4@1", "orders-0@2")
    assert found.holds is False


def test_key_order_every_late_record_counts() -> None:
    found = key_order([[row("a", 9, 1), *(row("a", n, 2) for n in range(5))]])
    assert len(found.violations) == 5


def test_key_order_repeated_record_is_no_violation() -> None:
    found = key_order([[row("a", 0, 1), row("a", 1, 2), row("a", 0, 3)]])
    assert found.violations == ()
    assert found.records == 2


def test_key_order_merges_members_by_time() -> None:
    first = [row("a", 0, 10), row("a", 1, 10), row("a", 4, 30)]
    second = [row("a", 2, 20), row("a", 3, 20)]
    assert key_order([first, second]).holds is True
    assert [one.n for one in key_order([first, [row("a", 2, 31)]]).violations] == [2]
    assert [one.n for one in key_order([[row("a", 1, 10), row("a", 0, 10)]]).violations] == [0]


def test_key_order_same_millisecond_is_undecided() -> None:
    older_second = key_order([[row("a", 1, 10)], [row("a", 0, 10)]])
    older_first = key_order([[row("a", 0, 10)], [row("a", 1, 10)]])
    for found in (older_second, older_first):
        assert (found.violations, found.undecided, found.holds) == ((), 1, None)


def test_key_order_two_records_of_one_number_are_told_apart_by_their_ids() -> None:
    rows = [row("a", 1, 10), replace(row("a", 1, 11), id="another")]
    assert [one.n for one in key_order([rows]).violations] == [1]
    assert list(disordered(rows)) == []  # neither is the later one


def test_key_order_no_records_is_unknown() -> None:
    assert key_order([[], []]).holds is None
