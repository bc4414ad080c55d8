"""Arguments of a step or a probe as the type that is meant, with what is usual where one is left out.

Rules: a value of another type is a `UsageError` that names action and argument, and so is a name nobody reads, where the
maker says which it knows (`only`). An empty text is the same as none. One that has to be there and is not is a KeyError,
which `steps` turns into words.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import TypeVar

from drlib.drill.plan.plan import Call
from drlib.errors import UsageError

Chosen = TypeVar("Chosen", bound=StrEnum)


def only(call: Call, known: Collection[str]) -> None:
    """Raises `UsageError` for an argument that is not one of `known`."""
    for given in call.arguments:
        if given.name not in known:
            near = difflib.get_close_matches(given.name, known, 1)
            hint = f"Did you mean {near[0]}?" if near else f"It takes {', '.join(known)}."
            raise UsageError(f"{call.name}: {given.name}", "it has no such argument", hint)


def required(call: Call, name: str) -> str:
    """A text that has to be there."""
    found = word(call, name, "")
    if not found:
        raise KeyError(name)
    return found


def word(call: Call, name: str, usual: str) -> str:
    """A text."""
    value = _given(call, name)
    if value is None or value == "":
        return usual
    if not isinstance(value, str):
        raise _refused(call, name, "a text")
    return value


def choice(call: Call, name: str, kind: type[Chosen], usual: Chosen | None) -> Chosen:
    """One of the words of `kind`; it has to be there where `usual` is None."""
    value = word(call, name, "")
    if not value and usual is None:
        raise KeyError(name)
    if value and value not in tuple(kind):
        raise UsageError(f"{call.name}: {name}", f"{value!r} is none of {', '.join(kind)}", "Give one of them.")
    return kind(value) if value or usual is None else usual


def required_texts(call: Call, name: str) -> tuple[str, ...]:
    """A list of texts that has to be there."""
    found = texts(call, name, ())
    if not found:
        raise KeyError(name)
    return found


def texts(call: Call, name: str, usual: tuple[str, ...]) -> tuple[str, ...]:
    """A list of texts; a single one is a list of one."""
    value = _given(call, name)
    if value is None or value in ("", ()):
        return usual
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, tuple):
        raise _refused(call, name, "a list of texts")
    return value


def pairs(call: Call, name: str, between: str) -> Mapping[str, str]:
    """A list of "name<between>value", such as `NAME=value`, each name once."""
    found: dict[str, str] = {}
    for part in texts(call, name, ()):
        key, sign, value = part.partition(between)
        if not sign or not key.strip() or key.strip() in found:
            raise _refused(call, name, f"a list of 'name{between}value'")
        found[key.strip()] = value.strip()
    return found


def number(call: Call, name: str, usual: float) -> float:
    """A number from 0 on."""
    value = _given(call, name)
    if value is None:
        return usual
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise _refused(call, name, "a number from 0 on")
    return value


def whole(call: Call, name: str, usual: int | None, *, least: int = 0) -> int:
    """A whole number from `least` on; it has to be there where `usual` is None."""
    value = _given(call, name)
    if value is None:
        if usual is None:
            raise KeyError(name)
        return usual
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise _refused(call, name, f"a whole number from {least} on")
    return value


def codes(call: Call, name: str, usual: tuple[int, ...]) -> tuple[int, ...]:
    """Exit codes or statuses: one number, or a list of them."""
    value = _given(call, name)
    if value is None:
        return usual
    several = value if isinstance(value, tuple) else (value,)
    found = tuple(int(one) for one in several if not isinstance(one, bool) and str(one).isdecimal())
    if len(found) != len(several) or not found:
        raise _refused(call, name, "a list of codes, such as [0, 3]")
    return found


def flag(call: Call, name: str, usual: bool) -> bool:
    """Yes or no."""
    value = _given(call, name)
    if value is None:
        return usual
    if not isinstance(value, bool):
        raise _refused(call, name, "true or false")
    return value


def _given(call: Call, name: str) -> str | int | float | bool | tuple[str, ...] | None:
    try:
        return call.argument(name)
    except KeyError:
        return None


def _refused(call: Call, name: str, wanted: str) -> UsageError:
    return UsageError(f"{call.name}: {name}", f"{call.argument(name)!r} is not {wanted}", f"Give {wanted}.")
