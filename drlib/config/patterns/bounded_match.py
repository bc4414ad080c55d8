"""Whole matches in time that grows with the square of a name, for patterns that Python's engine may never finish.

Rules: the answer is that of `re.fullmatch`; only the way to it differs: all places where a part can end are found
together, so nothing is tried twice. `is_risky` says which patterns need it: a repetition of something that can itself be
read in several ways, or many repetitions in a row. What depends on the order of attempts (possessive, atomic, back
references) has no such reading and raises `NotImplementedError`.
Not for: where a match is, or its groups. It reads the tree of CPython's own parser (`re._parser`, 3.11 to 3.14).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any, Final

_PARSER: Final = import_module("re._parser")
_MANY: Final = 16  # a repetition that may go on this long counts as one without end
_IN_A_ROW: Final = 4  # so many of them can divide a topic's 249 letters in more than a hundred million ways
_DIGITS: Final = frozenset("0123456789")
_SPACES: Final = frozenset(" \t\n\r\f\v")
_WORDS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_CATEGORIES: Final[dict[str, Callable[[str], bool]]] = {
    "CATEGORY_DIGIT": lambda c: c in _DIGITS,
    "CATEGORY_NOT_DIGIT": lambda c: c not in _DIGITS,
    "CATEGORY_SPACE": lambda c: c in _SPACES,
    "CATEGORY_NOT_SPACE": lambda c: c not in _SPACES,
    "CATEGORY_WORD": lambda c: c in _WORDS,
    "CATEGORY_NOT_WORD": lambda c: c not in _WORDS,
}
Ends = frozenset[int]


def is_risky(pattern: str) -> bool:
    """May trying one way after another take for ever? `pattern` is Python's, in ASCII mode."""
    return _risk(_PARSER.parse(pattern, re.ASCII))[1]


def _risk(tree: Any) -> tuple[int, bool, bool]:
    """(endless repetitions in a row, risky, can be read in several ways)."""
    row, risky, ways = 0, False, False
    for op, value in tree:
        name = str(op)
        if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, body = value
            inner, inner_risky, inner_ways = _risk(body)
            endless = int(most) >= _MANY and most != least
            row += max(inner, 1 if endless else 0)
            risky |= inner_risky or (int(most) >= _MANY and inner_ways)
            ways |= inner_ways or most != least
        elif name == "BRANCH":
            found = [_risk(branch) for branch in value[1]]
            row += max(one[0] for one in found)
            risky |= any(one[1] for one in found)
            ways = True
        elif name in ("SUBPATTERN", "ASSERT", "ASSERT_NOT", "ATOMIC_GROUP"):
            inner, inner_risky, inner_ways = _risk(value if name == "ATOMIC_GROUP" else value[-1])
            row, risky, ways = row + inner, risky or inner_risky, ways or inner_ways
        elif name == "GROUPREF":
            ways = True
    return row, risky or row >= _IN_A_ROW, ways


class BoundedPattern:
    """Like `re.compile(pattern, re.ASCII)`, for whole matches only. Raises `NotImplementedError`."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._tree = _PARSER.parse(pattern, re.ASCII)
        _Match("", {}).check(self._tree)

    def fullmatch(self, name: str) -> bool:
        return len(name) in _Match(name, {}).sequence(self._tree, 0, False)


class _Match:
    def __init__(self, text: str, known: dict[tuple[int, int, bool], Ends]) -> None:
        self._text = text
        self._known = known

    def check(self, tree: Any) -> None:
        """Walks the whole tree once, so that what cannot be read is told before anything is matched."""
        for op, value in tree:
            name = str(op)
            if name in ("MAX_REPEAT", "MIN_REPEAT"):
                self.check(value[2])
            elif name == "BRANCH":
                for branch in value[1]:
                    self.check(branch)
            elif name in ("SUBPATTERN", "ASSERT", "ASSERT_NOT"):
                self.check(value[-1])
            elif name not in ("LITERAL", "NOT_LITERAL", "IN", "AT"):
                raise NotImplementedError(name)

    def sequence(self, tree: Any, at: int, fold: bool) -> Ends:
        key = (id(tree), at, fold)
        if (known := self._known.get(key)) is not None:
            return known
        ends: Ends = frozenset({at})
        for op, value in tree:
            ends = frozenset().union(*(self._one(str(op), value, start, fold) for start in ends))
            if not ends:
                break
        self._known[key] = ends
        return ends

    def _one(self, name: str, value: Any, at: int, fold: bool) -> Iterable[int]:
        if name in ("LITERAL", "NOT_LITERAL", "IN"):
            return (at + 1,) if at < len(self._text) and _fits(name, value, self._text[at], fold) else ()
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            least, most, body = value
            return self._repeat(int(least), int(most), body, at, fold)
        if name == "BRANCH":
            return frozenset().union(*(self.sequence(branch, at, fold) for branch in value[1]))
        if name == "SUBPATTERN":
            _, on, off, body = value
            return self.sequence(body, at, (fold or bool(on & re.I)) and not off & re.I)
        if name == "AT":
            return (at,) if self._holds(str(value), at) else ()
        direction, body = value
        if direction > 0:
            found = bool(self.sequence(body, at, fold))
        else:
            found = any(at in self.sequence(body, start, fold) for start in range(at + 1))
        return (at,) if found == (name == "ASSERT") else ()

    def _repeat(self, least: int, most: int, body: Any, at: int, fold: bool) -> Ends:
        reached: set[int] = set()
        ends: Ends = frozenset({at})
        for count in range(min(most, least + len(self._text) + 1) + 1):
            if count >= least:
                ends -= reached
                reached |= ends
            if not ends or count == most:
                break
            ends = frozenset().union(*(self.sequence(body, start, fold) for start in ends))
        return frozenset(reached)

    def _holds(self, place: str, at: int) -> bool:
        text = self._text
        if place in ("AT_BEGINNING", "AT_BEGINNING_STRING"):
            return at == 0
        if place == "AT_END_STRING":
            return at == len(text)
        if place == "AT_END":
            return at == len(text) or (at == len(text) - 1 and text[at] == "\n")
        before = at > 0 and text[at - 1] in _WORDS
        after = at < len(text) and text[at] in _WORDS
        return (before != after) == (place == "AT_BOUNDARY")


def _fits(name: str, value: Any, char: str, fold: bool) -> bool:
    cases = {char, char.swapcase()} if fold and char.isascii() else {char}
    if name == "IN":
        negated = str(value[0][0]) == "NEGATE"
        return any(_among(item, one) for item in value for one in cases) != negated
    return any(ord(one) == value for one in cases) == (name == "LITERAL")


def _among(item: Any, char: str) -> bool:
    op, value = str(item[0]), item[1]
    if op == "LITERAL":
        return ord(char) == int(value)
    if op == "RANGE":
        return int(value[0]) <= ord(char) <= int(value[1])
    return op == "CATEGORY" and _CATEGORIES[str(value)](char)
