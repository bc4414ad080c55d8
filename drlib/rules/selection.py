"""Which names a comma list of Java regular expressions chooses.

Rules: a list is one pattern joined by `|` that must match a whole name, an empty list matches nothing, and an exclude
beats an include (`DefaultTopicFilter`, `DefaultGroupFilter`, `MirrorUtils.compilePatternList`). Java's syntax is
translated construct by construct to Python's with Java's meaning (ASCII classes, `.` without line terminators); what
has no counterpart is refused by name, because a pattern that silently means something else loses topics.
Not for: internal topics and cycles (`drlib.rules.names`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NoReturn

from drlib.errors import UsageError

# Java's POSIX classes, which are ASCII only, as the inside of a Python character class.
_POSIX: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "XDigit": "0-9a-fA-F",
    "Punct": r"!-/:-@\[-`{-~",
    "Space": r" \t\n\x0b\f\r",
    "Blank": r" \t",
    "ASCII": r"\x00-\x7f",
    "Graph": "!-~",
    "Print": " -~",
    "Cntrl": r"\x00-\x1f\x7f",
}
_SAME_ESCAPES: Final = frozenset("dDwWsStnrfa")
_SAME_OUTSIDE_CLASS: Final = frozenset("bBA")
_NOT_LINE_TERMINATOR: Final = r"[^\n\r\x85\u2028\u2029]"
_FLAGS: Final = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")
_QUANTIFIER: Final = re.compile(r"\{\d+(?:,\d*)?\}")
_GROUP_NAME: Final = re.compile(r"<([a-zA-Z][a-zA-Z0-9]*)>")


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
    compiled = compile_list(patterns)
    return compiled is not None and compiled.fullmatch(name) is not None


@lru_cache(maxsize=256)
def compile_list(patterns: tuple[str, ...]) -> re.Pattern[str] | None:
    """The list as one Python pattern for `fullmatch`; None for an empty list. Raises `UsageError`."""
    if not patterns:
        return None
    joined = "|".join(patterns)
    try:
        return re.compile(_Translator(joined).translate(), re.ASCII)
    except re.error as error:
        _refuse(joined, str(error))


def split_list(text: str) -> tuple[str, ...]:
    """A Kafka LIST value: split at commas, blanks around them dropped; blank text is an empty list."""
    return tuple(re.split(r"\s*,\s*", text.strip())) if text.strip() else ()


def _refuse(pattern: str, construct: str) -> NoReturn:
    raise UsageError(
        f"the pattern `{pattern}` cannot be used",
        f"{construct} has no counterpart with the same meaning here",
        "Rewrite it with plain groups, classes and quantifiers, or list the names; lists split at every comma.",
    )


@dataclass(slots=True)
class _Level:
    """One group: the flags in force, and the scoped groups that flag switches opened in this alternative."""

    ignore_case: bool
    dot_all: bool
    reopen: str = ""


class _Translator:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._out: list[str] = []
        self._levels = [_Level(False, False)]

    def translate(self) -> str:
        while self._at < len(self._pattern):
            self._one()
        if len(self._levels) > 1:
            _refuse(self._pattern, "a group that is never closed")
        self._close_reopened()
        return "".join(self._out)

    def _one(self) -> None:
        char = self._pattern[self._at]
        if char == "\\":
            self._escape()
        elif char == "[":
            self._char_class()
        elif char == "(":
            self._group()
        elif char == ")":
            if len(self._levels) == 1:
                _refuse(self._pattern, "`)` without `(`")
            self._close_reopened()
            self._levels.pop()
            self._emit(")", 1)
        elif char == "|":
            self._close_reopened()
            self._emit("|" + self._levels[-1].reopen, 1)
        elif char == ".":
            self._emit(r"[\s\S]" if self._levels[-1].dot_all else _NOT_LINE_TERMINATOR, 1)
        elif char == "{":
            quantifier = _QUANTIFIER.match(self._pattern, self._at)
            if quantifier is None:
                _refuse(self._pattern, "`{` that is not a quantifier")
            self._emit(quantifier.group(), len(quantifier.group()))
        else:
            self._emit(char, 1)

    def _emit(self, text: str, consumed: int) -> None:
        self._out.append(text)
        self._at += consumed

    def _close_reopened(self) -> None:
        self._out.append(")" * self._levels[-1].reopen.count("("))

    def _group(self) -> None:
        rest = self._pattern[self._at : self._at + 4]
        level = self._levels[-1]
        inner = _Level(level.ignore_case, level.dot_all)
        if not rest.startswith("(?"):
            self._emit("(", 1)
        elif rest.startswith(("(?=", "(?!", "(?>")):
            self._emit(rest[:3], 3)
        elif rest.startswith(("(?<=", "(?<!")):
            self._emit(rest, 4)
        elif rest.startswith("(?<"):
            name = _GROUP_NAME.match(self._pattern, self._at + 2)
            if name is None:
                _refuse(self._pattern, f"`{rest}`")
            self._emit(f"(?P<{name.group(1)}>", 2 + len(name.group()))
        else:
            self._flags(inner)
            return
        self._levels.append(inner)

    def _flags(self, inner: _Level) -> None:
        """`(?i)` holds to the end of the enclosing group, later alternatives included; `(?i:x)` only inside."""
        found = _FLAGS.match(self._pattern, self._at)
        if found is None:
            _refuse(self._pattern, f"`{self._pattern[self._at : self._at + 3]}`")
        on, off, end = found.group(1), found.group(2) or "", found.group(3)
        if unknown := set(on + off) - set("is"):
            _refuse(self._pattern, f"the flag {', '.join(sorted(unknown))} in `{found.group()}`")
        target = inner if end == ":" else self._levels[-1]
        if "s" in on + off:
            target.dot_all = "s" in on and "s" not in off
        switch = "" if "i" not in on + off else "(?-i:" if "i" in off else "(?i:"
        self._at = found.end()
        if end == ":":
            self._out.append(switch or "(?:")
            self._levels.append(inner)
        elif switch:
            target.reopen += switch
            self._out.append(switch)

    def _escape(self) -> None:
        char = self._pattern[self._at + 1 : self._at + 2]
        if char == "Q":
            end = self._pattern.find("\\E", self._at)
            quoted = self._pattern[self._at + 2 : end if end >= 0 else None]
            # One group, as a quantifier behind a quotation applies to its last letter only.
            self._emit(re.escape(quoted), len(quoted) + (4 if end >= 0 else 2))
        elif char == "k":
            name = _GROUP_NAME.match(self._pattern, self._at + 2)
            if name is None:
                _refuse(self._pattern, "`\\k` without a name")
            self._emit(f"(?P={name.group(1)})", 2 + len(name.group()))
        elif char == "z":
            self._emit(r"\Z", 2)
        elif char in _SAME_OUTSIDE_CLASS:
            if char == "b" and self._pattern[self._at + 2 : self._at + 3] == "{":
                _refuse(self._pattern, "`\\b{`")
            self._emit("\\" + char, 2)
        elif char.isdigit():
            if char == "0" or self._pattern[self._at + 2 : self._at + 3].isdigit():
                _refuse(self._pattern, "an octal escape or a back reference of two digits")
            self._emit("\\" + char, 2)
        elif char in ("p", "P"):
            inside = self._posix()
            self._out.append(f"[{'^' if char == 'P' else ''}{inside}]")
        else:
            self._emit(*self._plain_escape(char))

    def _plain_escape(self, char: str) -> tuple[str, int]:
        """An escape that means the same inside and outside a class: (Python text, characters consumed)."""
        if char == "":
            _refuse(self._pattern, "a backslash at the end")
        if char in _SAME_ESCAPES:
            return "\\" + char, 2
        if char == "e":
            return r"\x1b", 2
        for letter, digits in (("x", 2), ("u", 4)):
            if char == letter:
                code = self._pattern[self._at + 2 : self._at + 2 + digits]
                if not re.fullmatch(rf"[0-9a-fA-F]{{{digits}}}", code):
                    _refuse(self._pattern, f"`\\{letter}{code}`")
                return f"\\{letter}{code}", 2 + digits
        if char.isascii() and char.isalnum():
            _refuse(self._pattern, f"`\\{char}`")
        return re.escape(char), 2

    def _posix(self) -> str:
        """The inside of a class for `\\p{Name}` at the current place, which is consumed."""
        found = re.compile(r"\\[pP]\{([^}]*)\}").match(self._pattern, self._at)
        if found is None or found.group(1) not in _POSIX:
            _refuse(self._pattern, f"`{found.group() if found else self._pattern[self._at : self._at + 3]}`")
        self._at = found.end()
        return _POSIX[found.group(1)]

    def _char_class(self) -> None:
        self._emit("[", 1)
        if self._pattern.startswith("^", self._at):
            self._emit("^", 1)
        if self._pattern.startswith("]", self._at):
            _refuse(self._pattern, "`]` as the first of a class")
        while not self._pattern.startswith("]", self._at):
            rest = self._pattern[self._at : self._at + 2]
            if not rest:
                _refuse(self._pattern, "a class that is never closed")
            if rest[0] == "[":
                _refuse(self._pattern, "a class inside a class (union)")
            if rest == "&&":
                _refuse(self._pattern, "`&&` (intersection)")
            if rest == "--":
                _refuse(self._pattern, "`--` in a class")
            if rest == "\\p":
                self._out.append(self._posix())
                self._dash_after_class()
            elif rest[0] == "\\":
                if rest[1:] in ("P", "Q", "b", "B", "A", "z", "k") or rest[1:].isdigit():
                    _refuse(self._pattern, f"`{rest}` in a class")
                self._emit(*self._plain_escape(rest[1:]))
                if rest[1:] in "dDwWsS":
                    self._dash_after_class()
            else:
                self._emit(("\\" if rest[0] in "&|~" else "") + rest[0], 1)
        self._emit("]", 1)

    def _dash_after_class(self) -> None:
        if self._pattern.startswith("-", self._at) and not self._pattern.startswith("--", self._at):
            self._emit(r"\-", 1)  # no range can begin at a class: the dash is itself


def validate(patterns: Iterable[str]) -> None:
    """Raises `UsageError` naming the first construct that cannot be translated."""
    compile_list(tuple(patterns))
