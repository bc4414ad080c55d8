"""Types of the arguments that actions and probes take, and how a wrong value is explained.

Rules: a value of another type, or out of its range, is an error that names action and argument and says what is wanted;
nothing is converted from text. An empty text (and an empty list, where a list is wanted) counts as not given, because that
is how a notebook leaves a parameter out. A type says what of its values is written down (`Wanted.kept`): an argument that may
hold a secret has one of the types that keep hosts, names and references only.
Not for: which arguments an action has; those are the fields of its class.
"""

import difflib
import functools
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Final, get_args

from pydantic import PlainValidator
from pydantic.fields import FieldInfo

from drlib import decoding
from drlib.config.patterns.selection import validate
from drlib.drill.step import secret_arguments

Value = str | int | float | bool | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an argument has to be, in words; `empty` are the values that count as not given. `kept` is what of a value a plan
    and an error hold."""

    words: str
    empty: tuple[Value, ...] = ()
    kept: Callable[[Value], Value] = lambda value: value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _texts(value: object) -> tuple[str, ...]:
    several = (value,) if isinstance(value, str) else value
    if not isinstance(several, tuple | list) or not all(isinstance(text, str) for text in several):
        raise ValueError
    return tuple(several)


def _patterns(value: object) -> tuple[str, ...]:
    patterns = _texts(value)
    validate(patterns)
    return patterns


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ValueError
    return value


def _whole(value: object, least: int) -> int:
    number = _number(value)
    if number != int(number) or number < least:
        raise ValueError
    return int(number)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _codes(value: object) -> tuple[int, ...]:
    several = value if isinstance(value, tuple | list) else (value,)
    codes = tuple(decoding.integer(str(code)) for code in several if not isinstance(code, bool))
    if len(codes) != len(several) or not codes:
        raise ValueError
    return codes


def _pairs(value: object, sign: str) -> Mapping[str, str]:
    if isinstance(value, Mapping):
        return value
    pairs: dict[str, str] = {}
    for text in _texts(value):
        name, between, content = text.partition(sign)
        if not between or not name.strip() or name.strip() in pairs:
            raise ValueError
        pairs[name.strip()] = content.strip()
    return pairs


_NO_TEXTS: Final[tuple[Value, ...]] = ("", ())

Text = Annotated[str, PlainValidator(_text), Wanted("a text", ("",))]
Texts = Annotated[tuple[str, ...], PlainValidator(_texts), Wanted("a list of texts", _NO_TEXTS)]
Patterns = Annotated[tuple[str, ...], PlainValidator(_patterns), Wanted("a list of patterns", _NO_TEXTS)]
Number = Annotated[float, PlainValidator(_number), Wanted("a number from 0 on")]
Seconds = Annotated[float, PlainValidator(_number), Wanted("a number of seconds from 0 on")]
Count = Annotated[int, PlainValidator(functools.partial(_whole, least=0)), Wanted("a whole number from 0 on")]
Positive = Annotated[int, PlainValidator(functools.partial(_whole, least=1)), Wanted("a whole number from 1 on")]
Flag = Annotated[bool, PlainValidator(_flag), Wanted("true or false")]
Codes = Annotated[tuple[int, ...], PlainValidator(_codes), Wanted("a list of codes, such as [0, 3]")]
Address = Annotated[str, PlainValidator(_text), Wanted("an address", ("",), secret_arguments.address)]
Variables = Annotated[
    Mapping[str, str],
    PlainValidator(functools.partial(_pairs, sign="=")),
    Wanted("a list of 'name=value'", _NO_TEXTS, secret_arguments.pairs("=")),
]
Headers = Annotated[
    Mapping[str, str],
    PlainValidator(functools.partial(_pairs, sign=":")),
    Wanted("a list of 'name:value'", _NO_TEXTS, secret_arguments.pairs(":", secret_arguments.PUBLIC_HEADERS)),
]


def wanted(field: FieldInfo) -> Wanted:
    """What the argument of `field` has to be."""
    for item in field.metadata:
        if isinstance(item, Wanted):
            return item
    kinds = (field.annotation, *get_args(field.annotation))
    choices = next(kind for kind in kinds if isinstance(kind, type) and issubclass(kind, StrEnum))
    return Wanted(f"one of {', '.join(choices)}", ("",))


def nearest(name: str, known: Collection[str], otherwise: str) -> str:
    """A hint for a name that is not one of `known`: the nearest one, or `otherwise`."""
    near = difflib.get_close_matches(name, known, 1)
    return f"Did you mean {near[0]}?" if near else otherwise
