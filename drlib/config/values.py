"""Read one key at its most specific place in the file, as a typed value.

Rules: the first of the `prefixes` under which a key is set counts. An invalid value is a `UsageError` with file and line; the
error shows a reference as it is written, never its value, and no secret. Every look-up is recorded for `config explain`.
Not for: keys that are set but have no effect (`drlib.config.keys`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn

from drlib.config.patterns import selection
from drlib.config.shown import shown
from drlib.errors import UsageError
from drlib.kafka.java_formats.properties import Entry, PropertiesFile
from drlib.kafka.java_formats.references import refers, resolve


@dataclass(frozen=True, slots=True)
class Lookup:
    """A key that was read: the entry that counted (None: the `default`), and every full key that was `tried`, in order."""

    key: str
    default: str
    entry: Entry | None
    tried: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Values:
    """The entries of a file as one scope sees them: `prefixes` from the most specific to the least.

    `lenient`: use the default where a reference cannot be resolved on this machine (`config explain`).
    """

    file: PropertiesFile
    entries: Mapping[str, Entry]
    prefixes: tuple[str, ...]
    lookups: list[Lookup] = field(default_factory=list)
    lenient: bool = False

    def under(self, *prefixes: str) -> Values:
        """The same file with other prefixes."""
        return replace(self, prefixes=prefixes)

    def entry(self, key: str) -> Entry | None:
        return next((self.entries[p + key] for p in self.prefixes if p + key in self.entries), None)

    def text(self, key: str, default: str) -> str:
        entry = self.entry(key)
        self.lookups.append(Lookup(key, default, entry, tuple(p + key for p in self.prefixes)))
        if entry is None:
            return default
        try:
            return resolve(entry.value, self.file.where(entry)).strip()
        except UsageError:
            if self.lenient:
                return default
            raise

    def refuse(self, key: str, why: str, remedy: str) -> NoReturn:
        """Raises `UsageError` for the value of `key` that counts; `why` and `remedy` quote nothing of it."""
        entry = self.entry(key)
        if entry is None:
            raise UsageError(f"{self.file.path}: {key} is not set", why, remedy)
        raise UsageError(
            f"{self.file.where(entry)}: {entry.key} = {shown(key, entry.value)} cannot be used", why, remedy
        )

    def boolean(self, key: str, default: bool) -> bool:
        text = self.text(key, str(default).lower()).lower()
        if text not in ("true", "false"):
            self.refuse(key, "it is not true or false", "Write true or false.")
        return text == "true"

    def integer(self, key: str, default: int, *, least: int) -> int:
        text = self.text(key, str(default))
        try:
            number = int(text)
        except ValueError:
            self.refuse(key, "it is not a whole number", f"Write a number of at least {least}.")
        if number < least:
            self.refuse(key, f"the least value is {least}", f"Write a number of at least {least}.")
        return number

    def replication_factor(self, key: str, default: int) -> int:
        """At least 1, or -1 for the broker's default."""
        number = self.integer(key, default, least=-1)
        if number == 0:
            self.refuse(key, "a topic needs at least one replica", "Write 1 or more, or -1 for the broker's default.")
        return number

    def one_of(self, key: str, default: str, choices: Iterable[str]) -> str:
        text, choices = self.text(key, default), tuple(choices)
        if text not in choices:
            self.refuse(key, f"it is not one of {', '.join(choices)}", f"Write {' or '.join(choices)}.")
        return text

    def patterns(self, key: str, default: str) -> tuple[str, ...]:
        """A comma list of Java regular expressions, validated."""
        patterns = selection.split_list(self.text(key, default))
        try:
            selection.validate(patterns)
        except UsageError as error:
            entry = self.entry(key)
            if entry is not None and refers(entry.value):  # the error quotes a pattern
                self.refuse(
                    key, "a pattern that the reference stands for cannot be used", "Correct it where it is kept."
                )
            where = f"{self.file.where(entry)}: {entry.key}: " if entry else ""
            raise UsageError(f"{where}{error.what}", error.why, error.remedy) from None
        return patterns
