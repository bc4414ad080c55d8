"""Where L4's orders are: those of LEFT's tail have a part of their own in the figure, wherever they are."""

from __future__ import annotations

from drlib.training.academy.lessons.l4_failback import LATER, MIRRORED, TAIL, by_origin


def test_recovered_orders_are_no_orders_of_right() -> None:
    tail = range(MIRRORED, MIRRORED + TAIL)
    own = range(MIRRORED + TAIL, MIRRORED + TAIL + LATER)
    topics: tuple[list[int], ...] = ([*range(MIRRORED), *tail], [*range(MIRRORED)], [*own, *tail], [*own, *tail], [])
    parts = by_origin(topics)
    assert parts["LEFT's tail"] == [TAIL, 0, TAIL, TAIL, 0]
    assert parts["mirrored before, or RIGHT's own"] == [MIRRORED, MIRRORED, LATER, LATER, 0]
