"""Parse a `.properties` file with Java's grammar, and keep the line of every key.

Rules: continuation lines, escapes and separators are those of `java.util.Properties`; the text is UTF-8, without the byte
order mark that editors put before it. MirrorMaker 2 reads ISO-8859-1 (`Utils.loadProps`), so that other bytes may be in
comments, and are refused in a key or a value, where they are written as `\\uXXXX`. Where a key is set twice the later line
wins, as in Java. Lines that continue are joined here, in a time that grows with the size of the file; javaproperties looks
through all of a line again for each line that continues it.
Not for: what a key means (`drlib.config.settings`).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import javaproperties

from drlib.errors import UsageError
from drlib.files import read_given

_LINE_END: Final = re.compile(r"\r\n|\r|\n")
MOST_ENTRIES: Final = 20_000  # a line for people each is what `drlib config explain` may have to show
_NOT_UTF8: Final = re.compile("[\udc80-\udcff]")  # as `surrogateescape` decodes such a byte
_BLANKS: Final = " \t\f"


@dataclass(frozen=True, slots=True)
class Entry:
    """One `key = value`; `line` is where it starts, counted from 1."""

    line: int
    key: str
    value: str = field(repr=False)  # it may be a secret


@dataclass(frozen=True, slots=True)
class PropertiesFile:
    """The entries of one file in their order, repeated keys included."""

    path: Path
    entries: tuple[Entry, ...]

    def effective(self) -> dict[str, Entry]:
        """The entry that counts for each key: the last one."""
        return {entry.key: entry for entry in self.entries}

    def where(self, entry: Entry) -> str:
        return f"{self.path}:{entry.line}"


def read(path: str | Path) -> PropertiesFile:
    """The file at `path`. Raises `UsageError` when it cannot be read or parsed."""
    path = Path(path)
    return parse(read_given(path, "a .properties file (drlib lab up writes one)", errors="surrogateescape"), path)


def parse(text: str, path: Path) -> PropertiesFile:
    """Parse `text`; `path` is only named in errors. Raises `UsageError`."""
    entries: list[Entry] = []
    line = 1
    try:
        for line, joined in _joined(text.removeprefix("\ufeff")):
            if _NOT_UTF8.search(joined):
                raise UsageError(
                    f"{path}:{line} is not a properties line",
                    "it has a byte that is not UTF-8",
                    r"Save the file as UTF-8, or write such letters as \uXXXX, which MirrorMaker 2 reads as well.",
                )
            for element in javaproperties.parse(joined):
                if isinstance(element, javaproperties.KeyValue):
                    (element.key + element.value).encode()
                    entries.append(Entry(line, element.key, element.value))
    except javaproperties.InvalidUEscapeError as error:
        raise UsageError(
            f"{path}:{line} is not a properties line",
            "it has a \\u that is not a Unicode escape",
            r"Write \uXXXX with four hex digits.",
        ) from error
    except UnicodeEncodeError:
        raise UsageError(
            f"{path}:{line} is not a properties line",
            "it has half of a surrogate pair, which no text of Kafka can hold",
            r"Write both halves, such as \ud83d\ude00.",
        ) from None
    if len(entries) > MOST_ENTRIES:
        raise UsageError(
            f"{path} has too many keys",
            f"it sets {len(entries):,}, and drlib reads up to {MOST_ENTRIES:,}",
            "Remove keys that are set again, and those of other programs.",
        )
    return PropertiesFile(path, tuple(entries))


def _joined(text: str) -> Iterator[tuple[int, str]]:
    """Each line of `text` with the lines that continue it, and the number of its first line; without comments.

    As `LineReader` of `java.util.Properties`: an odd number of backslashes at the end continues a line, blanks before what
    follows do not count, comments are not continued, and the first line alone decides whether it is one.
    """
    lines = enumerate(_LINE_END.split(text), 1)
    for number, line in lines:
        part = line.lstrip(_BLANKS)
        if part.startswith(("#", "!")):
            continue
        parts = []
        while (len(part) - len(part.rstrip("\\"))) % 2:
            parts.append(part[:-1])
            part = next(lines, (0, ""))[1].lstrip(_BLANKS)
        joined = "".join([*parts, part])
        # A backslash keeps what was no comment from becoming one.
        yield number, f"\\{joined}" if joined.startswith(("#", "!")) else joined
