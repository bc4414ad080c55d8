"""How far changes came, by what is observed afterwards."""

import pytest

from drlib.drill.plan.plan import Argument, Call, Change, Fact
from drlib.drill.plan.progress import Reach
from drlib.drill.step.action import does_the_same, reach


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        (None, 3, Reach.UNTOUCHED),
        (6, 3, Reach.PARTLY),
        (6, 9, Reach.DONE),
        (6, 4, Reach.UNKNOWN),
        (5, 3, Reach.UNKNOWN),
    ],
)
def test_reach_of_two_changes(one: int | None, two: int, expected: Reach) -> None:
    changes = (Change("one", None, 6), Change("two", 3, 9))
    assert reach((Fact("one", one), Fact("two", two), Fact("else", 1)), changes) is expected


def test_reach_without_changes_is_done_and_of_an_unobserved_entity_is_unknown() -> None:
    assert reach((), ()) is Reach.DONE
    assert reach((), (Change("one", None, 6),)) is Reach.UNKNOWN


def test_call_does_the_same_where_only_its_undo_was_corrected() -> None:
    def call(name: str = "hook.command", **more: str) -> Call:
        return Call(name, tuple(Argument(key, value) for key, value in more.items()))

    one = call(argv="stop", undo_argv="start")
    assert does_the_same(one, call(undo_argv="start it", argv="stop"))
    assert does_the_same(one, call(argv="stop"))
    others = (None, call(undo_argv="start"), call(argv="halt", undo_argv="start"), call("hook.http", argv="stop"))
    assert not any(does_the_same(one, other) for other in others)
