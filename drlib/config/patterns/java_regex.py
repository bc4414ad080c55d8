"""Java's regular expressions, translated for the library `regex` with Java's meaning.

Rules: only constructs on the list below are let through. Those that mean the same in both are copied; those that differ are
rewritten (POSIX classes, `\\h`, `\\v`, `\\e`, `\\Q..\\E`, `\\z`, `$` and `.` at Java's line terminators); every other one is a
`UsageError` that names it, because a pattern that silently means something else loses topics. Classes such as `\\w` are ASCII,
as in `java.util.regex` without flags. `tests/java/patterns.tsv` is the table of what Java itself answers.
Groups and classes nest at most `DEEPEST` deep, and categories such as `\\p{L}` take at most `MOST_RANGES` letters together:
without these limits reading a pattern ends in a RecursionError or takes seconds.
Not for: lists of patterns and the time a match takes (`drlib.config.patterns.selection`).
"""

import re
import sys
from dataclasses import dataclass, replace
from functools import cache
from typing import Final, NoReturn

import regex

from drlib.errors import UsageError

DEEPEST: Final = 50  # `regex` itself reads a nested pattern recursively, several calls for each group
MOST_RANGES: Final = 500_000  # letters of all categories of a list, written as ranges; \\p{L} has 15,000

# Classes that Java and `regex` define differently, or that only Java has, as classes of `regex`.
_SETS: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "XDigit": "0-9a-fA-F",
    "Punct": r"!-/:-@\[-`{-\~",
    "Space": r"\ \t\n\x0b\f\r",
    "Blank": r"\ \t",
    "ASCII": r"\x00-\x7f",
    "Graph": r"!-\~",
    "Print": r"\ -\~",
    "Cntrl": r"\x00-\x1f\x7f",
    "h": r"\ \t\xa0\u1680\u180e\u2000-\u200a\u202f\u205f\u3000",
    "v": r"\n\x0b\f\r\x85\u2028\u2029",
}
_SUBCATEGORIES: Final = {"L": "ultmo", "M": "nce", "N": "dlo", "P": "cdseifo", "S": "mcko", "Z": "slp", "C": "cfons"}
_CATEGORIES: Final = frozenset(major + minor for major, letters in _SUBCATEGORIES.items() for minor in ("", *letters))
_CASED: Final = ("Lu", "Ll", "Lt")  # one and the same where case is ignored
_LINE_TERMINATORS: Final = r"\n\r\x85\u2028\u2029"
_DOLLAR: Final = r"(?=(?:\r\n|(?<!\r)\n|[\r\x85\u2028\u2029])?\Z)"

_LETTER_ESCAPE: Final = r"\\(?:[tnrfae]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[^a-zA-Z0-9])"
_SET: Final = r"(?P<set>\\(?:[dDwWsShHvV]|[pP](?:\{(?P<property>\w+)\}|(?P<major>[A-Z]))))"
_NAME: Final = r"[a-zA-Z][a-zA-Z0-9]*"
_TOKEN: Final = re.compile(
    rf"""{_SET} | (?P<letter>{_LETTER_ESCAPE} | [^\\()\[{{|.^$*+?])
    | (?P<quotation>\\Q(?P<quoted>.*?)(?:\\E|\Z))
    | (?P<reference>\\k<(?P<referred>{_NAME})>|\\[1-9](?!\d))
    | (?P<place>\\[BAz]|\\b(?!\{{)|[\^$])
    | (?P<quantifier>(?:[*+]|\?|\{{\d+(?:,\d*)?\}})[?+]?)
    | (?P<dot>\.) | (?P<class>\[) | (?P<bar>\|) | (?P<close>\))
    | (?P<flags>\(\?(?P<on>[a-zA-Z]*)(?:-(?P<off>[a-zA-Z]+))?(?P<until>[:)]))
    | (?P<open>\((?!\?)|\(\?[=!>]|\(\?<[=!]|\(\?<(?P<name>{_NAME})>)""",
    re.VERBOSE | re.DOTALL,
)
_CLASS_LETTER: Final = rf"(?:{_LETTER_ESCAPE}|&(?!&)|[^\\\[\]&-])"
_CLASS_ITEM: Final = re.compile(
    rf"{_SET} | (?P<first>{_CLASS_LETTER})(?:-(?P<last>{_CLASS_LETTER})|(?!-[^\[\]])) | (?P<dash>-(?!-))",
    re.VERBOSE | re.DOTALL,
)
_EXPLAINED: Final = (
    (r"\\$", "it ends in a backslash"),
    (r"\\\d", "`{}` is an octal escape or a back reference of two digits, which drlib does not read"),
    (r"\{", "`{}` is not a quantifier such as {{2}} or {{2,5}}"),
    (r"\\[xu][0-9a-fA-F]{0,4}|\\[pP](?:\{\w*\}?)?|\(\?.?|\\b\{|\\.|.", "drlib does not support `{}`"),
)


def translate(pattern: str) -> str:
    """`pattern` for `regex` in version 1 and ASCII mode. Raises `UsageError` naming what is malformed or not supported."""
    return _Translator(pattern).translate()


def compile_java(pattern: str) -> regex.Pattern[str]:
    """`pattern`, which Java reads, as a pattern of `regex`. Raises `UsageError`."""
    text = translate(pattern)
    try:
        return regex.compile(text, regex.VERSION1 | regex.ASCII, cache_pattern=False)
    except (regex.error, OverflowError, RecursionError, MemoryError) as error:
        _refuse(pattern, f"it is malformed: {error}")


def shortened(text: str) -> str:
    """A pattern or a name for a message."""
    return text if len(text) <= 80 else f"{text[:80]}..."


def _refuse(pattern: str, why: str) -> NoReturn:
    raise UsageError(
        f"the pattern `{shortened(pattern)}` cannot be used",
        why,
        "Rewrite it with plain groups, classes and quantifiers, or list the names; lists split at every comma.",
    )


def _literal(char: str) -> str:
    return char if char.isalnum() or not char.isascii() else f"\\{char}"


def _letter(text: str) -> str:
    """One letter, plain or escaped, for inside and outside of classes."""
    if text == r"\e":
        return r"\x1b"
    return text if len(text) > 1 and text[1].isalnum() and text[1].isascii() else _literal(text[-1])


@cache
def _category(name: str) -> str:
    """The letters of a general category, or of a major one such as `L`, as ranges: the ASCII flag cuts `\\p{L}` to ASCII."""
    letters = "".join(map(chr, range(sys.maxunicode + 1)))
    runs = regex.finditer(rf"\p{{{name}}}+", letters, regex.VERSION1)
    return "".join(rf"\U{run.start():08x}-\U{run.end() - 1:08x}" for run in runs)


@dataclass(frozen=True, slots=True)
class _Group:
    dot_all: bool = False
    ignore_case: bool = False
    look_behind: bool = False


class _Translator:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0
        self._groups = [_Group()]
        self._names: set[str] = set()
        self._ranges = 0  # letters of categories so far
        self._repeatable = False  # whether a quantifier may follow

    def translate(self) -> str:
        parts = []
        while self._position < len(self._pattern):
            token = _TOKEN.match(self._pattern, self._position)
            if token is None:
                self._refuse_construct()
            parts.append(self._translate_token(token))
        if len(self._groups) > 1:
            self._refuse("the ( is never closed")
        return "".join(parts)

    def _refuse(self, why: str) -> NoReturn:
        _refuse(self._pattern, why)

    def _refuse_depth(self, depth: int) -> None:
        if depth > DEEPEST:
            self._refuse(f"its groups and classes are nested more than {DEEPEST} deep")

    def _refuse_construct(self, where: str = "") -> NoReturn:
        rest = self._pattern[self._position :]
        for construct, why in _EXPLAINED:
            if (match := re.match(construct, rest, re.DOTALL)) is not None:
                self._refuse(why.format(match.group()) + where)
        raise AssertionError(rest)

    def _translate_token(self, token: re.Match[str]) -> str:
        kind, text = token.lastgroup, token.group()
        if kind == "class":
            self._repeatable = True
            return self._class(len(self._groups))
        self._position = token.end()
        repeatable, self._repeatable = self._repeatable, kind not in ("quantifier", "bar", "flags", "open")
        group = self._groups[-1]
        self._refuse_depth(len(self._groups) - 1)
        match kind:
            case "set":
                return self._set(token)
            case "letter":
                return _letter(text)
            case "quotation":  # a quantifier after it applies to its last letter only
                return "".join(map(_literal, token["quoted"]))
            case "reference":
                return f"(?P={name})" if (name := token["referred"]) else text
            case "place":
                return {r"\z": r"\Z", "$": _DOLLAR}.get(text, text)
            case "quantifier":
                if not repeatable:
                    self._refuse(f"`{text}` has nothing to repeat")
                if group.look_behind and (text[0] in "*+" or text.rstrip("?+").endswith(",}")):
                    self._refuse(f"`{text}` in a look-behind has no greatest length")
            case "dot":
                return r"[\s\S]" if group.dot_all else f"[^{_LINE_TERMINATORS}]"
            case "close":
                self._groups.pop()
                if not self._groups:
                    self._refuse("`)` has no `(`")
            case "flags":
                return self._flags(token)
            case "open":
                if (name := token["name"]) is not None:
                    if name in self._names:
                        self._refuse(f"two groups have the name {name}")
                    self._names.add(name)
                    text = f"(?P<{name}>"
                self._groups.append(replace(group, look_behind=group.look_behind or text in ("(?<=", "(?<!")))
        return text

    def _flags(self, token: re.Match[str]) -> str:
        """`(?i)` holds to the end of the enclosing group, later alternatives included; `(?i:x)` only inside."""
        on, off = token["on"], token["off"] or ""
        if unknown := set(on + off) - set("is"):
            self._refuse(f"drlib does not support the flag {', '.join(sorted(unknown))} in `{token.group()}`")
        group = self._groups[-1]
        if "s" in on + off:
            group = replace(group, dot_all="s" not in off)
        if "i" in on + off:
            group = replace(group, ignore_case="i" not in off)
        if token["until"] == ":":
            self._groups.append(group)
        else:
            self._groups[-1] = group
        case = "-i" if "i" in off else "i" if "i" in on else ""
        return f"(?{case}{token['until']}" if case or token["until"] == ":" else ""

    def _set(self, token: re.Match[str]) -> str:
        """`\\d`, `\\h`, `\\p{Name}` and the like as a class of `regex`; a capital letter negates."""
        letter = token.group()[1]
        if letter in "dDwWsS":
            return token.group()
        if letter in "hHvV":
            return f"[{'^' if letter.isupper() else ''}{_SETS[letter.lower()]}]"
        name = (token["property"] or token["major"]).removeprefix("Is")
        if name not in _CATEGORIES and (name not in _SETS or len(name) == 1):
            self._refuse(f"drlib does not support `{token.group()}`")
        names = _CASED if name in _CASED and self._groups[-1].ignore_case else (name,)
        inside = "".join(_category(name) for name in names) if name in _CATEGORIES else _SETS[name]
        self._ranges += len(inside)
        if self._ranges > MOST_RANGES:
            self._refuse(f"it has too many categories of letters such as `{token.group()}`")
        return f"[{'^' if letter == 'P' else ''}{inside}]"

    def _class(self, depth: int) -> str:
        """The class at the current position. As in Java 9 and later, `&&` binds weakest and `^` negates the whole."""
        self._refuse_depth(depth)
        pattern = self._pattern
        opening = "[^" if pattern.startswith("[^", self._position) else "["
        self._position += len(opening)
        if pattern.startswith("]", self._position):
            self._refuse("`]` as the first of a class is not supported: write \\]")
        parts = [opening]
        intersected = False
        operand = ""  # what the current operand of && consists of: "" nothing, "[" classes only, "x" anything
        while not pattern.startswith("]", self._position):
            if self._position == len(pattern):
                self._refuse("the [ is never closed")
            if pattern.startswith("&&", self._position):
                if not operand or pattern.startswith("&&&", self._position):
                    self._refuse("`&&` has nothing on one side")
                self._position += 2
                parts.append("&&")
                intersected, operand = True, ""
            elif pattern[self._position] == "[":
                parts.append(self._class(depth + 1))
                operand = operand or "["
            else:
                if intersected and operand == "[":
                    self._refuse("Java ignores a class behind `&&` that a letter follows")
                parts.append(self._class_item())
                operand = "x"
        self._position += 1
        if not operand:
            self._refuse("`&&` has nothing on one side")
        return "".join(parts) + "]"

    def _class_item(self) -> str:
        item = _CLASS_ITEM.match(self._pattern, self._position)
        if item is None:
            rest = self._pattern[self._position : self._position + 4]
            if "-" in rest[:2]:
                self._refuse(f"the range `{rest}` in a class is not supported; a dash itself is \\-")
            self._refuse_construct(" in a class")
        self._position = item.end()
        if item["set"]:
            return self._set(item)
        if item["dash"]:
            return r"\-"
        return _letter(item["first"]) + (f"-{_letter(item['last'])}" if item["last"] else "")
