"""What several steps ask at the same time is asked once; what a later look asks is asked again."""

from __future__ import annotations

import threading

import pytest

from drlib.drill.plan.one_look import once, one_look
from drlib.drill.run.planning import at_once
from drlib.errors import Unreachable


def test_steps_of_one_look_ask_once_for_each_key() -> None:
    asked: list[str] = []
    lock, together = threading.Lock(), threading.Barrier(8)

    def ask(key: str) -> int:
        with lock:
            asked.append(key)
            return len(asked)

    def step(number: int) -> int:
        together.wait(10)  # all of them at the same time
        key = "even" if number % 2 == 0 else "odd"
        return once(key, lambda: ask(key))

    first = at_once(step, range(8))
    assert sorted(asked) == ["even", "odd"]
    assert len(set(first[::2])) == len(set(first[1::2])) == 1
    second = at_once(step, range(8))
    assert sorted(asked) == ["even", "even", "odd", "odd"]
    assert set(first).isdisjoint(second)


def test_error_of_the_one_that_asked_is_everyones() -> None:
    asked: list[int] = []

    def ask() -> int:
        asked.append(1)
        raise Unreachable("LEFT gave no answer", "it is silent", "Start it.")

    with one_look():
        for _ in range(3):
            with pytest.raises(Unreachable, match="LEFT gave no answer"):
                once("pointer", ask)
    assert len(asked) == 1


def test_outside_of_a_look_everyone_asks() -> None:
    numbers = iter(range(3))
    assert [once("pointer", lambda: next(numbers)) for _ in range(3)] == [0, 1, 2]
