"""Read a JSON or YAML file of limited size; every value knows its place, for messages.

Rules: plain data only (`drlib.decoding`); a value of the wrong kind is a `UsageError` with its place;
no message quotes a value, as it may be a password.
Not for: what the values mean (`connectors`, `strimzi`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drlib import decoding
from drlib.decoding import Undecodable
from drlib.errors import UsageError
from drlib.files import read_given

_NO_IMPORT: Final = "A .properties file of MirrorMaker 2 needs no import: drlib mirror FILE."


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
    if not all(isinstance(value, dict | list) for value in values):
        raise UsageError(
            f"{path} is nothing to import", "it is neither JSON of Kafka Connect nor a KafkaMirrorMaker2", _NO_IMPORT
        )
    return tuple(Node(value, str(path)) for value in values)


def _parse(text: str, path: Path) -> Sequence[object]:
    kind = "JSON" if text.lstrip().startswith(("{", "[")) else "YAML"
    try:
        return [decoding.json_value(text)] if kind == "JSON" else decoding.yaml_documents(text)
    except Undecodable as error:
        remedy = _NO_IMPORT if path.suffix == ".properties" else "Correct it there."
        raise UsageError(f"{path} cannot be read as {kind}", str(error), remedy) from None
