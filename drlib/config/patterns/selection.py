"""Which names a comma list of Java regular expressions chooses.

Rules: a list is one pattern joined by `|` that must match a whole name, an empty list matches nothing, and an exclude
beats an include (`DefaultTopicFilter`, `DefaultGroupFilter`, `MirrorUtils.compilePatternList`). What a pattern means is
Java's (`drlib.config.patterns.java_regex`). A match that takes longer than `TIME_LIMIT_S` is `PatternTooSlow`. Who may create
topics and groups chooses the names: each one that was too slow is remembered, and halves what the list may take for the next.
Not for: internal topics and cycles (`drlib.config.replication_policy`).
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

import regex

from drlib.config.patterns.java_regex import compile_java, shortened
from drlib.errors import UsageError

_PLAIN: Final = dict.fromkeys(map(ord, "\n\r\x85\u2028\u2029"), "_")
LONGEST: Final = 2000  # letters of one pattern
LONGEST_LIST: Final = 500_000  # letters of a list: each takes 15 us of processor time to compile
SHORT_LIST: Final = 10_000  # letters of a list that takes little memory when it is compiled
LONGEST_NAME: Final = 249  # letters of a topic's name (`Topic.MAX_NAME_LENGTH`)
TIME_LIMIT_S: Final = 1.0  # of processor time for one name; a harmless pattern takes microseconds
LEAST_LIMIT_S: Final = 0.01  # of processor time, for a list that was too slow for several names
MOST_SLOW: Final = 10_000  # names that a list remembers
MOST_PROBES: Final = 2000  # hard names tried when a list is validated
MOST_SLOW_PROBES: Final = 10  # of these, how many may take more than LEAST_LIMIT_S


class PatternTooSlow(UsageError):
    """A name could not be matched within the time limit: it is neither chosen nor not chosen.

    A command ends with it; in a running worker it is an event, and the name counts as not chosen.
    """


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
    if name not in compiled.slow:
        try:
            return compiled.pattern.fullmatch(name, timeout=compiled.limit_s) is not None
        except TimeoutError:
            compiled.remember(name)
    raise _too_slow(patterns, compiled.first_slow)


def breaks_the_line(chosen: Callable[[str], bool], name: str) -> bool:
    """Is `name` left out for nothing but its line terminators? In Java, and so for MirrorMaker 2, `.` matches none."""
    plain = name.translate(_PLAIN)
    return plain != name and not chosen(name) and chosen(plain)


@dataclass(slots=True)
class PatternList:
    """A list as one pattern, and the names for which it was too slow."""

    pattern: regex.Pattern[str]
    slow: set[str] = field(default_factory=set)
    first_slow: str = ""

    @property
    def limit_s(self) -> float:
        """Of processor time, for the next name."""
        return max(LEAST_LIMIT_S, TIME_LIMIT_S * 0.5 ** len(self.slow))

    def remember(self, name: str) -> None:
        self.first_slow = self.first_slow or name
        if len(self.slow) < MOST_SLOW:
            self.slow.add(name)


def _too_slow(patterns: tuple[str, ...], name: str) -> PatternTooSlow:
    return PatternTooSlow(
        f"the patterns `{shortened(', '.join(patterns))}` take too long",
        f"matching `{shortened(name)}` did not end within {TIME_LIMIT_S:g} s: a repetition in them can be read in too "
        "many ways, as in (a|aa)+",
        "Write them without an ambiguous repetition, or list the names.",
    )


def compile_list(patterns: tuple[str, ...]) -> PatternList | None:
    """The list as one pattern, joined before it is read, so that a flag or group may reach over a comma as in Java.

    Returns None for an empty list. Raises `UsageError`. Compiled lists are kept, of the long ones (up to 120 MB) few.
    """
    return (_compile_short if sum(map(len, patterns)) <= SHORT_LIST else _compile_long)(patterns)


def _compile(patterns: tuple[str, ...]) -> PatternList | None:
    if (letters := sum(map(len, patterns))) > LONGEST_LIST:
        raise UsageError(
            f"the list of patterns `{shortened(', '.join(patterns))}` cannot be used",
            f"it has {letters} letters, and drlib reads up to {LONGEST_LIST}",
            "Write patterns that match several names each.",
        )
    for pattern in patterns:
        if len(pattern) > LONGEST:
            raise UsageError(
                f"the pattern `{shortened(pattern)}` cannot be used",
                f"it has {len(pattern)} letters, and drlib reads up to {LONGEST}",
                "Write several shorter patterns.",
            )
    return PatternList(compile_java("|".join(patterns))) if patterns else None


_compile_short = lru_cache(maxsize=256)(_compile)
_compile_long = lru_cache(maxsize=4)(_compile)


def split_list(text: str) -> tuple[str, ...]:
    """A Kafka LIST value: split at commas, blanks around them dropped; blank text is an empty list."""
    return tuple(re.split(r"\s*,\s*", text.strip())) if text.strip() else ()


def validate(patterns: Iterable[str]) -> None:
    """Raises `UsageError` for a list that cannot be translated or that takes too long."""
    _try_hard_names(tuple(patterns))


@lru_cache(maxsize=16)
def _try_hard_names(patterns: tuple[str, ...]) -> None:
    """Match names that repeat one letter of a pattern: most patterns that take too long do so already here.

    Bounded itself: each name has a short time limit first, and few a long one.
    """
    compile_list(patterns)
    slow_probes = 0
    for number, (pattern, name) in enumerate(_hard_names(patterns)):
        if number == MOST_PROBES or slow_probes == MOST_SLOW_PROBES:
            return
        try:
            pattern.fullmatch(name, timeout=LEAST_LIMIT_S)
        except TimeoutError:
            slow_probes += 1
            matches(patterns, name)


def _hard_names(patterns: tuple[str, ...]) -> Iterator[tuple[regex.Pattern[str], str]]:
    for text in patterns:
        if set(text) & set("*+{"):
            try:
                pattern = compile_java(text)
            except UsageError:  # a part of a group that reaches over a comma
                pattern = compile_java("|".join(patterns))
            for letter in sorted(set(re.findall("[a-zA-Z0-9]", text))):
                yield pattern, f"{letter * LONGEST_NAME}!{text}"
