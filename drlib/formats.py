"""Numbers, sizes, lengths of time and dates as text, the same in the terminal, in notebooks, in reports and in findings. Pure.

Rules: None is "unknown", never 0; dates are UTC and say so where they stand alone; seconds keep the digits that matter.
Not for: reading what people write (`config.quantities`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

UNKNOWN: Final = "unknown"


def cell(value: object) -> str:
    """One value of a table: thousands separated, at most three decimals, None as "unknown"."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    return str(value)


def count(value: int | None) -> str:
    """12,345 or "unknown"."""
    return UNKNOWN if value is None else f"{value:,}"


def records(value: int | None) -> str:
    """ "1 record", "12,345 records" or "unknown"."""
    return UNKNOWN if value is None else f"{value:,} record{'' if value == 1 else 's'}"


def share(part: float | None, whole: float | None) -> str:
    """ "37 %" or "unknown"."""
    return UNKNOWN if part is None or not whole else f"{part / whole:.0%}".replace("%", " %")


def seconds(value: float | None) -> str:
    """ "0.042 s", "3.21 s", "12.3 s", "2 min 05 s", or "unknown"."""
    if value is None:
        return UNKNOWN
    for below, digits in ((1, 3), (9.995, 2), (119.95, 1)):
        if abs(value) < below:
            return f"{value:.{digits}f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest:02d} s"


def duration(value: float | None) -> str:
    """A length of time to two places: "0.4 s", "12 s", "2 min 05 s", "3 h 20 min", "6 d 4 h", or "unknown"."""
    if value is None:
        return UNKNOWN
    if value < 9.95:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 100:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = whole // 60
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    return f"{minutes // 1440:,} d {minutes % 1440 // 60} h"


def short_duration(value: float) -> str:
    """Three digits in one unit: "200 ms", "42 s", "12 min", "3.5 h", "2.1 d"."""
    if value < 1:
        return f"{value * 1000:.3g} ms"
    for unit, length in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if value >= 2 * length:
            return f"{value / length:.3g} {unit}"
    return f"{value:.3g} s"


def span(value: float) -> str:
    """Without decimals, in the largest unit that it fills twice: "3.2 s", "42 s", "12 min", "3 h", "6 d"."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if value >= 2 * length:
            return f"{value / length:.0f} {unit}"
    return f"{value:.0f} s" if value >= 10 else f"{value:.1f} s"


def size(value: int | None) -> str:
    """ "512 B", "12.3 MB" (of 1000), or "unknown"."""
    if value is None:
        return UNKNOWN
    amount = float(value)
    for unit in ("B", "KB", "MB", "GB"):
        if amount < 999.5:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:,.1f} TB"


def short_size(value: float) -> str:
    """Bytes in decimal units, three digits: "1.25 GB"."""
    for unit, step in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= step * 0.9995:
            return f"{value / step:.3g} {unit}"
    return f"{value:.0f} B"


def rate(value: float) -> str:
    """ "5 MB/s"."""
    return f"{short_size(value)}/s"


def utc(at_ms: int) -> datetime:
    """The moment, to the second."""
    return datetime.fromtimestamp(at_ms // 1000, UTC)


def second(at_ms: int) -> str:
    """ "2026-11-21 10:15:03", where UTC is said nearby."""
    return f"{utc(at_ms):%Y-%m-%d %H:%M:%S}"


def iso(at_ms: int) -> str:
    """ "2026-11-21 10:15:03.120", as plotly's axes read it: a time without a zone is drawn as it stands."""
    return f"{second(at_ms)}.{at_ms % 1000:03d}"


def moment(at_ms: int) -> str:
    """ "2026-11-21 10:15:03.120 UTC"; "unknown" for 0, which means not recorded."""
    return f"{iso(at_ms)} UTC" if at_ms else UNKNOWN


def clock(at_ms: int) -> str:
    """ "10:15:03.120", where the day and UTC are said nearby."""
    return f"{utc(at_ms):%H:%M:%S}.{at_ms % 1000:03d}"


def first_few(texts: Iterable[str], most: int = 3) -> str:
    """The first `most` of them, and how many more there are."""
    named = list(texts)
    more = f" and {len(named) - most} more" if len(named) > most else ""
    return ", ".join(named[:most]) + more


def one_line(text: str) -> str:
    """Text from outside (names, messages of brokers) for one line of a terminal or a log: what is not a printable character
    is a space where it is white space or a line break, else its escape as Python writes it (`\\x1b`, `\\u202e`).

    So a name cannot move the cursor, change colours, begin a line of its own, reverse the order of what follows, or hide
    that it differs from another name; lone surrogates, which no stream can encode, are written as escapes, too.
    Rich markup is not interpreted by any console of ours (`drlib.ui.terminal.plain_console`).
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else " " if c.isspace() else _escape(c) for c in text)


def printable(text: str) -> str:
    """Text from outside in lines of its own: each as by `one_line`."""
    return text if text.isprintable() else "\n".join(map(one_line, text.split("\n")))


def html_text(text: str) -> str:
    """Text for HTML, in an element or an attribute: printable, and no markup."""
    from html import escape  # no command that writes to a terminal alone loads it

    return escape(printable(text))


_OUR_TAGS: Final = re.compile(r'</?(?:b|i|extra|sub|sup)>|<br/?>|<span style="color: ?[#a-zA-Z0-9]+">|</span>')


def figure_texts(value: object) -> object:
    """The JSON of a figure whose texts are printable and have the tags of drlib's own figures and no others: plotly makes
    links of some."""
    if isinstance(value, str):
        return printable(value) if "<" not in value else _only_our_tags(printable(value))
    if isinstance(value, dict):
        return {name: figure_texts(inner) for name, inner in value.items()}
    return [figure_texts(inner) for inner in value] if isinstance(value, list) else value


def _only_our_tags(text: str) -> str:
    between = [piece.replace("<", "&lt;") for piece in _OUR_TAGS.split(text)]
    tags = [*_OUR_TAGS.findall(text), ""]
    return "".join(piece + tag for piece, tag in zip(between, tags, strict=True))


def _escape(character: str) -> str:
    if unicodedata.category(character) in ("Cc", "Cf", "Cs"):
        return character.encode("unicode_escape").decode("ascii")
    return character  # unassigned or for private use: shown as the terminal's font has it


def bracketed(host: str) -> str:
    """As it stands before a port: an IPv6 address in the brackets that `decoding.address` removes."""
    return f"[{host}]" if ":" in host else host
