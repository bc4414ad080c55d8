"""What a step takes back in parts: one that fails holds up no other."""

from __future__ import annotations

import pytest

from drlib.drill.actions.parts import Parts
from drlib.errors import Deviated, DrlibError, Unreachable


def taken_back(failing: dict[str, DrlibError]) -> tuple[Parts, list[str]]:
    parts, done = Parts(), []
    for name in ("a", "b", "c"):
        with parts.each(name):
            if name in failing:
                raise failing[name]
            done.append(name)
    return parts, done


def test_parts_all_are_tried_and_the_error_of_one_is_raised_as_it_is() -> None:
    error = Unreachable("describing", "no answer", "Start it.")
    parts, done = taken_back({"a": error})
    assert done == ["b", "c"]
    with pytest.raises(Unreachable) as raised:
        parts.raise_failed()
    assert raised.value is error


def test_parts_several_errors_are_one_that_names_each_with_what_helps() -> None:
    parts, done = taken_back({"a": Unreachable("A", "no answer.", "Start it."), "c": Deviated("C", "moved", "Look.")})
    assert done == ["b"]
    with pytest.raises(Deviated) as raised:
        parts.raise_failed()
    assert str(raised.value) == "2 parts were not taken back: a, c: A: no answer; C: moved. Start it. Look."


def test_parts_none_failed_raises_nothing() -> None:
    parts, done = taken_back({})
    parts.raise_failed()
    assert done == ["a", "b", "c"]
