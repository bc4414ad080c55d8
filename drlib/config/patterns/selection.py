"""Which names a comma list of Java regular expressions chooses.

Rules: a list is one pattern joined by `|` that must match a whole name, an empty list matches nothing, and an exclude
beats an include (`DefaultTopicFilter`, `DefaultGroupFilter`, `MirrorUtils.compilePatternList`). What a pattern means is
Java's (`drlib.config.patterns.java_regex`). No pattern takes for ever: those that might are matched in bounded time
(`drlib.config.patterns.bounded_match`) or refused.
Not for: internal topics and cycles (`drlib.config.replication_policy`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from drlib.config.patterns.bounded_match import BoundedPattern, is_risky
from drlib.config.patterns.java_regex import translate
from drlib.errors import UsageError

# Flags to the end, quotations and references mean something else once patterns are joined.
_REACHES_OVER: Final = re.compile(r"\(\?[a-zA-Z]*(?:-[a-zA-Z]+)?\)|\\[QEk1-9]|\(\?<[a-zA-Z]")
LONGEST: Final = 2000  # letters of one pattern


@dataclass(frozen=True, slots=True)
class Selection:
    """An include list and an exclude list of Java regular expressions."""

    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()

    def chosen(self, name: str) -> bool:
        """Raises `UsageError` when a pattern cannot be translated."""
        return matches(self.include, name) and not matches(self.exclude, name)

    __call__ = chosen


def matches(patterns: tuple[str, ...], name: str) -> bool:
    """Does the list match the whole of `name`? Raises `UsageError` for a pattern that cannot be translated."""
    return any(part.fullmatch(name) for part in compile_list(patterns))


@lru_cache(maxsize=256)
def compile_list(patterns: tuple[str, ...]) -> tuple[re.Pattern[str] | BoundedPattern, ...]:
    """The list as patterns one of which matches a whole name; none for an empty list. Raises `UsageError`.

    Java joins a list by `|` before it reads it, so a flag or a group may reach over a comma. A list of patterns that
    each stand alone is taken apart again, where only some of them need the slow way.
    """
    for pattern in patterns:
        if len(pattern) > LONGEST:
            raise UsageError(
                f"the pattern `{pattern[:40]}...` cannot be used",
                f"it has {len(pattern)} letters, and no more than {LONGEST} are read",
                "Write several shorter ones; a list may have as many as you like.",
            )
    if not patterns:
        return ()
    joined = translate("|".join(patterns))
    if not is_risky(joined):
        return (_compiled(joined),)
    if len(patterns) == 1 or any(_REACHES_OVER.search(pattern) for pattern in patterns):
        return (_bounded(joined, "|".join(patterns)),)
    try:
        alone = {pattern: translate(pattern) for pattern in patterns}
    except UsageError:  # a group that begins in one and ends in another
        return (_bounded(joined, "|".join(patterns)),)
    quick = [text for text in alone.values() if not is_risky(text)]
    slow = tuple(_bounded(text, pattern) for pattern, text in alone.items() if is_risky(text))
    return (*((_compiled("|".join(quick)),) if quick else ()), *slow)


def _compiled(text: str) -> re.Pattern[str]:
    return re.compile(text, re.ASCII)


def _bounded(text: str, pattern: str) -> BoundedPattern:
    try:
        return BoundedPattern(text)
    except NotImplementedError:
        raise UsageError(
            f"the pattern `{pattern}` cannot be used",
            "its repetitions may take for ever, and a possessive or atomic part or a back reference of it stands in the "
            "way of matching it in bounded time",
            "Repeat something that can be read in one way only, or list the names.",
        ) from None


def split_list(text: str) -> tuple[str, ...]:
    """A Kafka LIST value: split at commas, blanks around them dropped; blank text is an empty list."""
    return tuple(re.split(r"\s*,\s*", text.strip())) if text.strip() else ()


def validate(patterns: Iterable[str]) -> None:
    """Raises `UsageError` naming the first construct that cannot be translated."""
    compile_list(tuple(patterns))
