"""Which names a comma list of Java regular expressions chooses.

Rules: a list is one pattern joined by `|` that must match a whole name, an empty list matches nothing, and an exclude
beats an include (`DefaultTopicFilter`, `DefaultGroupFilter`, `MirrorUtils.compilePatternList`). What a pattern means is
Java's (`drlib.config.patterns.java_regex`). A match that takes longer than `TIME_LIMIT_S` is a `UsageError`.
Not for: internal topics and cycles (`drlib.config.replication_policy`).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import regex

from drlib.config.patterns.java_regex import compile_java
from drlib.errors import UsageError

LONGEST: Final = 2000  # letters of one pattern
LONGEST_NAME: Final = 249  # letters of a topic's name (`Topic.MAX_NAME_LENGTH`)
TIME_LIMIT_S: Final = 1.0  # of processor time for one name; a harmless pattern takes microseconds


@dataclass(frozen=True, slots=True)
class Selection:
    """An include list and an exclude list of Java regular expressions."""

    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()

    def chosen(self, name: str) -> bool:
        """Raises `UsageError` for a pattern that cannot be translated or takes too long."""
        return matches(self.include, name) and not matches(self.exclude, name)

    __call__ = chosen


def matches(patterns: tuple[str, ...], name: str) -> bool:
    """Whether the list matches the whole of `name`. Raises `UsageError` as `Selection.chosen` does."""
    if (compiled := compile_list(patterns)) is None:
        return False
    try:
        return compiled.fullmatch(name, timeout=TIME_LIMIT_S) is not None
    except TimeoutError:
        raise UsageError(
            f"the patterns `{_shortened(', '.join(patterns))}` take too long",
            f"matching `{_shortened(name)}` did not end within {TIME_LIMIT_S:g} s: a repetition in them can be read in too "
            "many ways, as in (a|aa)+",
            "Repeat something that can be read in one way only, or list the names.",
        ) from None


@lru_cache(maxsize=256)
def compile_list(patterns: tuple[str, ...]) -> regex.Pattern[str] | None:
    """The list as one pattern, joined before it is read, so that a flag or group may reach over a comma as in Java.

    Returns None for an empty list. Raises `UsageError`.
    """
    for pattern in patterns:
        if len(pattern) > LONGEST:
            raise UsageError(
                f"the pattern `{_shortened(pattern)}` cannot be used",
                f"it has {len(pattern)} letters, and drlib reads up to {LONGEST}",
                "Write several shorter patterns; a list may have as many as you like.",
            )
    return compile_java("|".join(patterns)) if patterns else None


def _shortened(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:80]}..."


def split_list(text: str) -> tuple[str, ...]:
    """A Kafka LIST value: split at commas, blanks around them dropped; blank text is an empty list."""
    return tuple(re.split(r"\s*,\s*", text.strip())) if text.strip() else ()


def validate(patterns: Iterable[str]) -> None:
    """Raises `UsageError` for a list that cannot be translated or that takes too long."""
    _try_hard_names(tuple(patterns))


@lru_cache(maxsize=256)
def _try_hard_names(patterns: tuple[str, ...]) -> None:
    """Match names that repeat one letter of a pattern: most patterns that take too long do so already here."""
    compile_list(patterns)
    for pattern in patterns:
        if set(pattern) & set("*+{"):
            for letter in sorted(set(re.findall("[a-zA-Z0-9]", pattern))):
                matches(patterns, f"{letter * LONGEST_NAME}!{pattern}")
