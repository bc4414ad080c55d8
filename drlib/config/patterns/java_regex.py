"""Java's regular expressions in Python's syntax, construct by construct, with Java's meaning.

Rules: classes are ASCII and `.` stops at Java's line terminators, as in `java.util.regex` without flags; unions and
intersections of classes become look-aheads at one letter. What has no counterpart is refused by name: a pattern that
silently means something else loses topics. The table of what Java itself answers is `tests/java/patterns.tsv`.
Not for: lists (`drlib.config.patterns.selection`); how long a match takes (`drlib.config.patterns.bounded_match`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NoReturn

from drlib.config.patterns.char_classes import category
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
_BLANKS: Final = {
    "h": r" \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000",
    "v": r"\n\x0b\f\r\x85\u2028\u2029",
}
_SAME_ESCAPES: Final = frozenset("dDwWsStnrfa")
_SAME_OUTSIDE_CLASS: Final = frozenset("bBA")
_NOT_LINE_TERMINATOR: Final = r"[^\n\r\x85\u2028\u2029]"
_FLAGS: Final = re.compile(r"\(\?([a-zA-Z]*)(?:-([a-zA-Z]+))?([:)])")
_QUANTIFIER: Final = re.compile(r"\{\d+(?:,\d*)?\}")
_PROPERTY: Final = re.compile(r"\\[pP](?:\{([^}]*)\}|([A-Z]))")
_GROUP_NAME: Final = re.compile(r"<([a-zA-Z][a-zA-Z0-9]*)>")


def translate(pattern: str) -> str:
    """`pattern` for `re.compile(..., re.ASCII)`. Raises `UsageError` naming what has no counterpart."""
    text = _Translator(pattern).translate()
    try:
        re.compile(text, re.ASCII)
    except re.error as error:
        _refuse(pattern, str(error))
    return text


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
            inside = self._property()
            self._out.append(f"[{'^' if char == 'P' else ''}{inside}]")
        elif char.lower() in _BLANKS:
            self._emit(f"[{'^' if char.isupper() else ''}{_BLANKS[char.lower()]}]", 2)
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

    def _property(self) -> str:
        """The inside of a class for `\\p{Name}` or `\\pL` at the current place, which is consumed."""
        found = _PROPERTY.match(self._pattern, self._at)
        name = "" if found is None else found.group(1) or found.group(2)
        inside = _POSIX.get(name) or category(name.removeprefix("Is"))
        if found is None or inside is None:
            _refuse(self._pattern, f"`{found.group() if found else self._pattern[self._at : self._at + 3]}`")
        self._at = found.end()
        return inside

    def _char_class(self) -> None:
        self._out.append(self._class())

    def _class(self) -> str:
        """A pattern of one letter for the class at the current place, which is consumed.

        Union and intersection as in Java 9 and later: `&&` binds weakest, and `^` negates the whole.
        """
        self._at += 1
        negated = self._pattern.startswith("^", self._at)
        self._at += negated
        if self._pattern.startswith("]", self._at):
            _refuse(self._pattern, "`]` as the first of a class")
        operands: list[str] = []
        plain = ""
        nested: list[str] = []
        while not self._pattern.startswith("]", self._at):
            rest = self._pattern[self._at : self._at + 2]
            if not rest:
                _refuse(self._pattern, "a class that is never closed")
            if rest == "&&":
                operands.append(self._union(plain, nested, negated=False))
                plain, nested = "", []
                self._at += 2
            elif rest[0] == "[":
                nested.append(self._class())
            elif operands and nested and not plain:
                # Java forgets the class before it there.
                _refuse(self._pattern, "a letter behind a class behind `&&`")
            elif rest in ("\\P", "\\H", "\\V"):
                inside = self._property() if rest == "\\P" else self._blanks()
                nested.append(f"[^{inside}]")
            else:
                plain += self._item(rest)
        self._at += 1
        last = self._union(plain, nested, negated=negated and not operands)
        if not operands:
            return last
        both = "".join(f"(?={operand})" for operand in operands) + last
        return f"(?:(?!{both})[\\s\\S])" if negated else f"(?:{both})"

    def _union(self, plain: str, nested: list[str], *, negated: bool) -> str:
        if not plain and not nested:
            _refuse(self._pattern, "`&&` with nothing on one side")
        if not nested:
            return f"[{'^' if negated else ''}{plain}]"
        either = "|".join([*([f"[{plain}]"] if plain else []), *nested])
        return f"(?:(?!{either})[\\s\\S])" if negated else f"(?:{either})"

    def _blanks(self) -> str:
        letter = self._pattern[self._at + 1].lower()
        self._at += 2
        return _BLANKS[letter]

    def _item(self, rest: str) -> str:
        """One letter, escape or property of a class, as the inside of a Python class."""
        if rest == "--":
            _refuse(self._pattern, "`--` in a class")
        if rest[0] != "\\":
            self._at += 1
            return ("\\" if rest[0] in "&|~^" else "") + rest[0]
        if rest[1:] in ("Q", "b", "B", "A", "z", "k") or rest[1:].isdigit():
            _refuse(self._pattern, f"`{rest}` in a class")
        if rest == "\\p":
            return self._property() + self._dash_after_class()
        if rest[1:] in _BLANKS:
            return self._blanks() + self._dash_after_class()
        text, consumed = self._plain_escape(rest[1:])
        self._at += consumed
        return text + (self._dash_after_class() if rest[1:] in "dDwWsS" else "")

    def _dash_after_class(self) -> str:
        if not self._pattern.startswith("-", self._at) or self._pattern.startswith("--", self._at):
            return ""
        self._at += 1
        return r"\-"  # no range can begin at a class: the dash is itself
