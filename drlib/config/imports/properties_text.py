"""The `connect-mirror-maker.properties` file that an import makes, and what has no counterpart in it.

Rules: a secret never leaves the file it is in: a reference stays as it is written, any other value of a secret's key becomes
`${env:NAME}` with a comment that says where the value is. A key without effect in drlib is not written but named, with the
reason. The result is read as any file before it is returned, so that what comes out can be used.
Not for: reading the other formats.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from drlib.config import keys, shown
from drlib.config.settings import from_file
from drlib.formats import one_line
from drlib.kafka.java_formats import properties
from drlib.kafka.java_formats.references import refers

_OUR_PROVIDERS: Final = re.compile(r"\$\{(env:[^}:]+|file:[^}:]+:[^}:]+)\}")


@dataclass(slots=True)
class MirrorFile:
    """The keys of the file in their order; `comments` are by key, `left_out` names what has no counterpart, with the reason."""

    values: dict[str, str] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    _given: dict[str, str] = field(default_factory=dict)  # values as they were, secrets too

    def leave_out(self, place: str, why: str) -> None:
        self.left_out.append(f"{place}: {why}")

    def set(self, key: str, value: str, place: str, comment: str = "") -> None:
        """Write a key. The first of several values counts; the others are named."""
        if self._given.setdefault(key, self.values.get(key, value)) != value:
            self.leave_out(place, f"{key} has another value already, and a flow has one for all its connectors")
            return
        if key in self.values:
            return
        if shown.holds_secret(_name(key), value):
            name = re.sub(r"[^A-Za-z0-9]+", "_", key).strip("_").upper()
            value, comment = f"${{env:{name}}}", f"export {name}: the value of {place}"
        self.values[key] = value
        if comment:
            self.comments[key] = comment
        if refers(value) and _OUR_PROVIDERS.sub("", value).count("${"):
            self.leave_out(place, "drlib resolves ${env:NAME} and ${file:/path:key} only: give the value in such a way")

    def set_scoped(self, scope: str, name: str, value: str, place: str) -> None:
        """Write `name` under a flow or an alias, or name it where it has no effect there."""
        where = keys.Place.FLOW if "->" in scope else keys.Place.CLUSTER
        if not keys.is_known(name):
            self.leave_out(place, "neither Kafka nor drlib has this key")
        elif (why := keys.why_not_used(name, where)) is not None:
            self.leave_out(place, why)
        else:
            self.set(f"{scope}.{name}", value, place)

    def text(self) -> str:
        """The file's text. Raises `UsageError` where it would not be usable."""
        text = "".join(self.lines())
        settings = from_file(properties.parse(text, Path("the imported file")), lenient=True)
        self.left_out += [f"{notice.key}: {notice.text}" for notice in settings.notices]
        return text

    def lines(self) -> list[str]:
        """The lines of the file, each with its end. Read as a properties file they are `values`, whatever is in these."""
        lines = []
        for key, value in self.values.items():
            if (comment := self.comments.get(key)) is not None:
                lines.append(f"# {one_line(comment)}\n")
            lines.append(f"{_escaped_key(key)} = {_escaped(value)}\n")
        return lines


def _name(key: str) -> str:
    """`key` without its flow or cluster: every key that is written ends in one that is known."""
    parts = key.split(".")
    names = (".".join(parts[at:]) for at in range(len(parts)))
    return keys.without_client_prefix(next((name for name in names if keys.is_known(name)), key))


def _escaped(value: str) -> str:
    """`value` as `java.util.Properties` reads it back."""
    value = _printable(value)
    return f"\\{value}" if value.startswith(" ") else value


def _escaped_key(key: str) -> str:
    """`key` as `java.util.Properties` reads it back: no name can end its line, or itself."""
    key = re.sub(r"[ =:]", r"\\\g<0>", _printable(key))
    return f"\\{key}" if key.startswith(("#", "!")) else key


def _printable(text: str) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return "".join(letter if letter.isprintable() else _units(letter) for letter in text)


def _units(letter: str) -> str:
    """A letter as Java's escapes of its UTF-16 code units."""
    units = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
