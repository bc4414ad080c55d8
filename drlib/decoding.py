"""Decode JSON, YAML and numbers that another process wrote, within limits that are checked before the work is done.

Rules: data is refused, never repaired: `Undecodable` says why and quotes no value. A document has at most `MOST_BYTES` bytes,
`MOST_VALUES` values and `MOST_DEPTH` levels; text is UTF-8 without lone surrogates, integers have 64 bits, other numbers
are finite, and an object has each name once. YAML is plain data: no tags, no timestamps out of range, and aliases count as
often as they are expanded. The limits hold whatever the size of the input: within them no document takes more than about
200 MiB or ten seconds. All other modules of drlib decode JSON and YAML here (`tests/repository/test_foreign_data.py`).
Not for: reading files (`drlib.files`), what the values mean, Kafka's bytes (`drlib.kafka.protocol`).
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn, TypeVar, overload

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError

MOST_BYTES: Final = 32 << 20
MOST_VALUES: Final = 1_000_000
MOST_DEPTH: Final = 64
MOST_YAML_BYTES: Final = 1 << 20
MOST_YAML_VALUES: Final = 100_000  # aliases expanded
MOST_DIGITS: Final = 64  # of one number
LEAST_INTEGER: Final = -(1 << 63)
MOST_INTEGER: Final = (1 << 63) - 1
MOST_PORT: Final = 65_535

_MANY_DIGITS: Final = re.compile(rb"[0-9]{19}")
_ESCAPED_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_NOT_BRACKETS: Final = bytes(sorted(set(range(256)) - set(b"[]{}")))
_OPENING: Final = frozenset(b"[{")
_DIGITS: Final = re.compile(rf"-?[0-9]{{1,{MOST_DIGITS}}}")
_LIBYAML: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # thirty times as fast, where PyYAML was built with it
_YAML_NUMBER: Final = re.compile(r"[-+]?(?:0x[0-9a-fA-F_]+|[-+0-9_.:eE]+)")  # every one, and some text

Kind = TypeVar("Kind")
Model = TypeVar("Model", bound=BaseModel)


class Undecodable(ValueError):
    """The data is not what it should be; the text says why, without a value of it."""


def json_value(data: bytes | str, *, most_bytes: int = MOST_BYTES) -> object:
    """The value of one JSON document. Raises `Undecodable`."""
    encoded = _checked(data, most_bytes)
    decoder = _CHECK_INTEGERS if _MANY_DIGITS.search(encoded) else _DECODER
    try:
        value = decoder.decode(encoded.decode())
        if _ESCAPED_SURROGATE.search(encoded):
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeError:
        raise Undecodable("it has half of a surrogate pair") from None
    except json.JSONDecodeError as error:
        raise Undecodable(f"it is not JSON: {error}") from None
    except RecursionError:
        raise Undecodable(f"it is nested deeper than {MOST_DEPTH} levels") from None
    return value


@overload
def json_as(kind: TypeAdapter[Kind], data: bytes | str, *, strict: bool = False) -> Kind: ...
@overload
def json_as(kind: type[Model], data: bytes | str, *, strict: bool = False) -> Model: ...
def json_as(kind: TypeAdapter[Any] | type[BaseModel], data: bytes | str, *, strict: bool = False) -> object:
    """The value of one JSON document as `kind` describes it; `strict`: a number in quotes is text. Raises `Undecodable`."""
    json_value(data)
    given = True if strict else None  # None leaves it to the fields
    try:
        if isinstance(kind, TypeAdapter):
            return kind.validate_json(data, strict=given)
        return kind.model_validate_json(data, strict=given)
    except ValidationError as error:
        raise Undecodable(_first_fault(error)) from None


def integer(text: bytes | str, least: int = 0, most: int = MOST_INTEGER) -> int:
    """The decimal number that `text` is, of at least `least` and at most `most`. Raises `Undecodable`."""
    shown = text.decode("latin-1") if isinstance(text, bytes) else text
    number = int(shown) if _DIGITS.fullmatch(shown) else None
    if number is None or not least <= number <= most:
        raise Undecodable(f"it is not a number from {least} to {most}")
    return number


def integer_or(default: int, text: bytes | str, least: int = 0, most: int = MOST_INTEGER) -> int:
    """`integer`, and `default` where `text` is no such number."""
    try:
        return integer(text, least, most)
    except Undecodable:
        return default


def address(text: str, *, least_port: int = 1) -> tuple[str, int]:
    """Host and port of `HOST:PORT`; an IPv6 address may stand in brackets, which are removed. Raises `Undecodable`."""
    host, _, port = text.strip().rpartition(":")
    number = integer_or(-1, port, least_port, MOST_PORT)
    if not host or number < 0:
        raise Undecodable("it is not HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), number


def yaml_documents(text: str) -> list[object]:
    """The values of a YAML file's documents. Raises `Undecodable`, which names line and column where they are known."""
    if len(text) > MOST_YAML_BYTES:
        raise Undecodable(f"it is larger than {MOST_YAML_BYTES} characters")
    try:
        _measure_yaml(text)
        documents = list(yaml.load_all(text, _PlainYaml))
        for document in documents:
            _refuse_numbers(document)
    except Undecodable:
        raise
    except yaml.YAMLError as error:
        problem = getattr(error, "problem", None) or "it cannot be parsed"
        raise Undecodable(f"{_place(getattr(error, 'problem_mark', None))}{problem}") from None
    except (ValueError, TypeError, RecursionError):
        raise Undecodable("it cannot be parsed") from None
    return documents


# -- JSON --------------------------------------------------------------------------------------------------------------


def _checked(data: bytes | str, most_bytes: int) -> bytes:
    """UTF-8 of a size, depth and number of values that can be parsed."""
    if len(data) > most_bytes:
        raise Undecodable(f"it is larger than {most_bytes} bytes")
    try:
        if isinstance(data, str):
            encoded = data.encode()
        else:
            encoded = data
            encoded.decode()
    except UnicodeDecodeError as error:
        raise Undecodable(f"it is not UTF-8 at byte {error.start}") from None
    except UnicodeEncodeError:
        raise Undecodable("it has half of a surrogate pair") from None
    opened = encoded.count(b"[") + encoded.count(b"{")
    if opened > MOST_DEPTH:
        if opened + encoded.count(b",") > MOST_VALUES or encoded.count(b'"') > 4 * MOST_VALUES:
            raise Undecodable(f"it has more than {MOST_VALUES} values")
        if _depth(encoded) > MOST_DEPTH:
            raise Undecodable(f"it is nested deeper than {MOST_DEPTH} levels")
    elif encoded.count(b",") > MOST_VALUES:
        raise Undecodable(f"it has more than {MOST_VALUES} values")
    return encoded


def _depth(encoded: bytes) -> int:
    """Levels of lists and objects, at most one more than `MOST_DEPTH`; strings do not count."""
    outside = b"".join(encoded.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])
    depth = deepest = 0
    for bracket in outside.translate(None, _NOT_BRACKETS):
        depth += 1 if bracket in _OPENING else -1
        if depth > deepest:
            deepest = depth
            if deepest > MOST_DEPTH:
                break
    return deepest


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in pairs:
        if name in found:
            raise Undecodable(f"{_shown(name)} is set twice")
        found[name] = value
    return found


def _shown(name: str) -> str:
    return ascii(name[:60])[1:-1]


def _integer(digits: str) -> int:
    return integer(digits, LEAST_INTEGER)


def _finite(digits: str) -> float:
    if len(digits) > MOST_DIGITS or not math.isfinite(number := float(digits)):
        raise Undecodable("it has a number that is too large")
    return number


def _no_constant(name: str) -> NoReturn:
    raise Undecodable(f"{name} is no number of JSON")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_float=_finite, parse_constant=_no_constant)
_CHECK_INTEGERS: Final = json.JSONDecoder(
    object_pairs_hook=_unique, parse_float=_finite, parse_constant=_no_constant, parse_int=_integer
)


def _first_fault(error: ValidationError) -> str:
    """Place and reason of the first fault, without the value."""
    fault = error.errors(include_url=False, include_input=False)[0]
    reason = str(fault["msg"])
    place = ".".join(map(str, fault["loc"]))
    return f"{place}: {reason[:1].lower()}{reason[1:]}" if place else reason[:1].lower() + reason[1:]


# -- YAML --------------------------------------------------------------------------------------------------------------


class _PlainYaml(_LIBYAML):  # type: ignore[misc, valid-type]
    """A safe loader that refuses a key that is set twice, and numbers of any size."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"{_shown(key.value)} is set twice", key.start_mark
                    )
                seen.add(key.value)
        mapping: dict[object, object] = super().construct_mapping(node, deep)
        return mapping


def _measure_yaml(text: str) -> None:
    """Refuse what would be large once it is constructed: depth, values with aliases expanded, tags, long numbers."""
    anchors: dict[str, int] = {}  # values that an alias of this name stands for
    open_nodes: list[tuple[str | None, int]] = []  # anchor, and values before it
    values = 0
    for event in yaml.parse(text, _LIBYAML):
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in anchors:
                raise _at(event, "an alias of a value that is not complete")
            values += anchors[event.anchor]
        elif isinstance(event, yaml.NodeEvent):
            if getattr(event, "tag", None) not in (None, "tag:yaml.org,2002:str"):
                raise _at(event, "a tag is not plain data")
            values += 1
            if isinstance(event, yaml.ScalarEvent):
                event.value.encode()  # refuses half of a surrogate pair
                if event.implicit[0] and len(event.value) > MOST_DIGITS and _YAML_NUMBER.fullmatch(event.value):
                    raise _at(event, f"a number of more than {MOST_DIGITS} digits")
                if event.anchor is not None:
                    anchors[event.anchor] = 1
            else:
                open_nodes.append((event.anchor, values - 1))
                if len(open_nodes) > MOST_DEPTH:
                    raise _at(event, f"nested deeper than {MOST_DEPTH} levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            if anchor is not None:
                anchors[anchor] = values - before
        if values > MOST_YAML_VALUES:
            raise _at(event, f"more than {MOST_YAML_VALUES} values, aliases expanded")


def _at(event: yaml.Event, why: str) -> Undecodable:
    return Undecodable(f"{_place(event.start_mark)}{why}")


def _place(mark: Any) -> str:
    return "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "


def _refuse_numbers(document: object) -> None:
    """Refuse integers beyond 64 bits and numbers that are not finite, at any depth; aliased values once."""
    left, seen = [document], set[int]()
    while left:
        value = left.pop()
        if isinstance(value, dict | list):
            if id(value) not in seen:
                seen.add(id(value))
                left += [*value.keys(), *value.values()] if isinstance(value, dict) else value
        elif isinstance(value, int) and not LEAST_INTEGER <= value <= MOST_INTEGER:
            raise Undecodable("it has an integer of more than 64 bits")
        elif isinstance(value, float) and not math.isfinite(value):
            raise Undecodable("it has a number that is not finite")
