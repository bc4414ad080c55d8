"""The course of L2 in its figure: when the link was cut and repaired, and which clicks retention deleted meanwhile."""

from __future__ import annotations

from drlib import formats
from drlib.training.academy.lessons.l2_retention import _SHOWN_S, course

BEGIN = 1_000_000
WRITTEN = [BEGIN + 1000 * second for second in range(10)]
BROKEN = {"lag": 4, "cut_ms": BEGIN + 5500, "expired_ms": BEGIN + 9500}


def test_before_the_fault_there_is_no_span() -> None:
    (acknowledged, right), spans = course(WRITTEN, 10, 0, {})
    assert (acknowledged.y, right.y) == (list(range(1, 11)), list(range(1, 11)))
    assert spans == ()
    assert course([], 0, 0, {}) == ([], ())


def test_cut_link_is_shaded_to_the_end_and_deleted_clicks_are_marked() -> None:
    (acknowledged, right, deleted), (cut,) = course(WRITTEN, 6, 200, BROKEN)
    assert (cut.name, cut.begin, cut.end) == ("link cut", 5.5, 9.5 + _SHOWN_S)
    assert (right.x[-1], right.y[-1]) == (cut.end, 6)
    assert (acknowledged.x[-1], acknowledged.y[-1]) == (cut.end, 10)
    assert (deleted.name, deleted.x, deleted.y, deleted.marks) == ("200 clicks deleted unread", [9.5], [200], True)


def test_repair_ends_the_span_and_right_catches_up_there() -> None:
    (acknowledged, right, _), (cut,) = course(WRITTEN, 10, 200, {**BROKEN, "healed_ms": BEGIN + 10_500})
    assert (cut.name, cut.begin, cut.end) == (f"link cut for {formats.seconds(5)}", 5.5, 10.5)
    assert (right.x[-3:], right.y[-3:]) == ([10.5, 10.5, 10.5 + _SHOWN_S], [6, 10, 10])
    assert acknowledged.x[-1] == right.x[-1]


def test_long_repair_is_named_and_not_drawn_to_scale() -> None:
    _, (cut,) = course(WRITTEN, 10, 200, {**BROKEN, "healed_ms": BEGIN + 605_500})
    assert cut.end == 9.5 + _SHOWN_S
    assert cut.name == f"link cut for {formats.seconds(600)}"
