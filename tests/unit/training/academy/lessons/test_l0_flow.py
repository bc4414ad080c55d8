"""Who copied the records of L0's mirror topic, as its figure shows it."""

from __future__ import annotations

from drlib.training.academy.lessons.l0_flow import FIRST, copied_by


def test_before_the_fault_all_that_is_there_was_copied_before() -> None:
    parts = copied_by([334, 333, 333], [334, 333, 333], [0, 0, 0])
    assert list(parts.values()) == [[334, 333, 333], [0, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert sum(parts["before the fault"]) == FIRST


def test_after_the_kill_what_was_not_copied_is_on_left_only() -> None:
    parts = copied_by([350, 340, 333], [1000, 1000, 1000], [350, 340, 333])
    assert parts["by the killed worker"] == [16, 7, 0]
    assert parts["by the new worker"] == [0, 0, 0]
    assert parts["on LEFT only"] == [650, 660, 667]


def test_after_the_repair_the_parts_are_who_copied_them() -> None:
    parts = copied_by([1000, 1000, 1000], [1000, 1000, 1000], [350, 340, 333])
    assert parts["by the killed worker"] == [16, 7, 0]
    assert parts["by the new worker"] == [650, 660, 667]
    assert parts["on LEFT only"] == [0, 0, 0]
    assert [sum(counts) for counts in zip(*parts.values(), strict=True)] == [1000, 1000, 1000]
