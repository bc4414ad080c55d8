"""What a group's history says it processed twice: by the record's id, whichever cluster it was read on."""

from __future__ import annotations

from drlib.lab.checker.history import Consumed
from drlib.lab.checker.rereads import RereadRange, reread_ranges


def row(number: int, at_ms: int, *, group: str = "g", cluster: str = "LEFT", offset: int | None = None) -> Consumed:
    place = number if offset is None else offset
    topic = "orders" if cluster == "LEFT" else "LEFT.orders"
    return Consumed(group, cluster, topic, 0, place, f"id-{number}", "k", number, at_ms)


def test_reread_ranges_no_repeat_is_empty() -> None:
    assert reread_ranges([row(n, n) for n in range(9)]) == ()


def test_reread_ranges_reread_on_target_is_one_range() -> None:
    there = [row(n, 100 + n, cluster="RIGHT", offset=n + 50) for n in range(6, 12)]
    rows = [*(row(n, n) for n in range(9)), *there]
    assert reread_ranges(reversed(rows)) == (RereadRange("g", "RIGHT", "LEFT.orders", 0, 56, 59, 3, 106),)


def test_reread_ranges_are_per_group_and_count_each_repeat() -> None:
    rows = [row(1, 1), row(1, 2, group="other"), row(1, 3), row(1, 4), row(5, 5), row(5, 6)]
    assert [(one.group, one.first, one.records) for one in reread_ranges(rows)] == [
        ("g", 1, 1),
        ("g", 1, 1),
        ("g", 5, 1),
    ]
