"""Numbers, times and verdicts as text, the same in the terminal, in notebooks and in reports.

Rules: None is "unknown", never 0; times are UTC and say so where they stand alone; seconds keep the digits that matter.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from drlib.runs.check import Verdict
from drlib.runs.scorecard import Rpo

UNKNOWN: Final = "unknown"
NOT_MEASURED: Final = "not measured by this drill"
NO_DRILL: Final = "does not apply: an analysis moves nothing"
STAGES: Final[Mapping[str, str]] = {
    "detect": "fault to noticed",
    "decide": "noticed to decided",
    "act": "decided to switched over",
    "verify": "switched over to proven",
}
VERDICTS: Final[Mapping[Verdict, tuple[str, str]]] = {
    Verdict.PASS: ("PASS", "Every check holds and nothing was lost."),
    Verdict.CONDITIONS: ("PASS WITH CONDITIONS", "Every check holds, on the conditions stated below."),
    Verdict.FAIL: ("FAIL", "At least one check does not hold."),
    Verdict.UNKNOWN: ("UNKNOWN", "Not proven: at least one check could not be made."),
}


def count(value: int | None) -> str:
    """12,345 or "unknown"."""
    return UNKNOWN if value is None else f"{value:,}"


def records(value: int | None) -> str:
    """ "1 record", "12,345 records" or "unknown"."""
    return UNKNOWN if value is None else f"{value:,} record{'' if value == 1 else 's'}"


def at_risk(rpo: Rpo) -> str:
    """ "118 records, 0.031 s"; "unknown" when neither is known, `NOT_MEASURED` when no step measured it."""
    if rpo.records is None and rpo.seconds is None:
        return UNKNOWN if rpo.measured else NOT_MEASURED
    least = "at least " if rpo.at_least else ""
    return f"{least}{records(rpo.records)}, {seconds(rpo.seconds)}"


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


def moment(at_ms: int) -> str:
    """ "2026-11-21 10:15:03.120 UTC"; "unknown" for 0, which means not recorded."""
    if not at_ms:
        return UNKNOWN
    return f"{utc(at_ms):%Y-%m-%d %H:%M:%S}.{at_ms % 1000:03d} UTC"


def clock(at_ms: int) -> str:
    """ "10:15:03.120", where the day and UTC are said nearby."""
    return f"{utc(at_ms):%H:%M:%S}.{at_ms % 1000:03d}"


def utc(at_ms: int) -> datetime:
    """The moment, to the second."""
    return datetime.fromtimestamp(at_ms // 1000, UTC)


def share(part: float | None, whole: float | None) -> str:
    """ "37 %" or "unknown"."""
    return UNKNOWN if part is None or not whole else f"{part / whole:.0%}".replace("%", " %")


def kinds(positions: Mapping[str, int]) -> str:
    """ "11 exact, 1 behind", most first; "none" for no positions at all."""
    ordered = sorted(positions.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{number:,} {kind}" for kind, number in ordered) or "none"


def one_line(text: str) -> str:
    """Line breaks and control characters (a terminal would obey them) as spaces."""
    return "".join(" " if unicodedata.category(c) == "Cc" else c for c in text)
