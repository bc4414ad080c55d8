"""Read a JSON or YAML file of limited size; every value knows its place, for messages.

Rules: plain data only (YAML's safe loader); a value of the wrong kind is a `UsageError` with its place;
no message quotes a value, as it may be a password.
Not for: what the values mean (`connectors`, `strimzi`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from drlib.errors import UsageError
from drlib.files import read_given

MOST_ALIASES: Final = 50  # of YAML's `*name`: nested ones multiply what has to be read


@dataclass(frozen=True, slots=True)
class Node:
    """A value of a document. `place`: the file and the path of keys to it. Methods raise `UsageError` for another kind."""

    value: object
    place: str

    def fields(self) -> dict[str, Node]:
        """The fields of an object, by name; a field that is null is left out."""
        if not isinstance(self.value, Mapping):
            raise self._wrong("an object")
        if not all(isinstance(name, str) for name in self.value):
            raise self._wrong("an object whose names are text")
        return {n: Node(value, f"{self.place}.{n}") for n, value in self.value.items() if value is not None}

    def items(self) -> list[Node]:
        """The items of a list."""
        if not isinstance(self.value, list):
            raise self._wrong("a list")
        return [Node(item, f"{self.place}[{number}]") for number, item in enumerate(self.value)]

    def text(self) -> str:
        """Text, a number or a boolean as a properties file has it."""
        if isinstance(self.value, bool):
            return str(self.value).lower()
        if isinstance(self.value, int | float):
            return str(self.value)
        if not isinstance(self.value, str):
            raise self._wrong("text")
        if "\0" in self.value:
            raise self._wrong("text without NUL")
        return self.value

    def required(self, name: str) -> Node:
        """The field `name` of an object."""
        found = self.fields().get(name)
        if found is None:
            raise UsageError(f"{self.place}.{name} is missing", "it cannot be left out", f"Add {name}.")
        return found

    def _wrong(self, kind: str) -> UsageError:
        return UsageError(f"{self.place} cannot be used", f"it is not {kind}", f"Write {kind} there.")


def read(path: Path) -> tuple[Node, ...]:
    """The documents of a file: one of JSON, or each of YAML. Raises `UsageError`."""
    text = read_given(path, "a JSON or YAML file")
    values = tuple(value for value in _parse(text, path) if value is not None)
    if not values:
        raise UsageError(f"{path} is empty", "there is nothing in it to import", "Give a JSON or YAML file.")
    return tuple(Node(value, str(path)) for value in values)


def _parse(text: str, path: Path) -> Iterator[object]:
    if text.lstrip().startswith(("{", "[")):
        try:
            yield json.loads(text, object_pairs_hook=lambda pairs: _unique(pairs, path))
            return
        except (ValueError, RecursionError) as error:
            where = (
                f"line {error.lineno}: {error.msg}"
                if isinstance(error, json.JSONDecodeError)
                else "it is nested too deeply"
            )
            raise UsageError(f"{path} is not JSON", where, "Correct it there.") from error
    try:
        if sum(isinstance(token, yaml.AliasToken) for token in yaml.scan(text, yaml.SafeLoader)) > MOST_ALIASES:
            raise UsageError(f"{path} is refused", f"it has more than {MOST_ALIASES} YAML aliases", "Write them out.")
        yield from yaml.load_all(text, _UniqueKeys)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: {getattr(error, 'problem', '')}" if mark is not None else "it cannot be parsed"
        raise UsageError(f"{path} is not YAML", where, "Correct it there.") from error


def _unique(pairs: list[tuple[str, object]], path: Path) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for number, (name, _) in enumerate(pairs) if name in {n for n, _ in pairs[:number]})
        raise UsageError(f"{path}: {twice} is set twice", "which of the two counts is not clear", "Remove one.")
    return found


class _UniqueKeys(yaml.SafeLoader):
    """A safe loader that refuses a key which is set twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        for number, key in enumerate(keys):
            if key in keys[:number]:
                raise yaml.constructor.ConstructorError(None, None, f"{key} is set twice", node.start_mark)
        return super().construct_mapping(node, deep)
