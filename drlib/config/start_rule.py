"""Where a topic without a position begins to be mirrored: `auto.offset.reset` of the source's consumer, or our own time.

Rules: values are those of Kafka's consumer (`AutoOffsetResetStrategy`, KIP-1106): earliest, latest, none, or `by_duration:` and
an ISO 8601 duration of days, hours, minutes and seconds. The default is MirrorMaker 2's, earliest. A time of day needs its
offset from UTC, or is in milliseconds since 1970.
Not for: topics that have a position, which it never changes.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from drlib import decoding
from drlib.config.values import Values

RESET: Final = "auto.offset.reset"
START: Final = "drlib.start.timestamp"
_DURATION: Final = re.compile(
    r"P(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,9})?)S)?)?", re.IGNORECASE | re.ASCII
)


class Start(StrEnum):
    """The kinds of a rule."""

    EARLIEST = "the source's log start"
    LATEST = "the source's end"
    NONE = "nowhere: the topic waits"
    AGO = "the first record that is at most so old"
    AT = "the first record of that time or later"


@dataclass(frozen=True, slots=True)
class StartRule:
    """Where to begin. `ms`: the age or the time since 1970, of AGO and AT. `key` and `value`: as in the file, for messages."""

    kind: Start = Start.EARLIEST
    ms: int = 0
    key: str = RESET
    value: str = "earliest"

    def __str__(self) -> str:
        return f"{self.key} = {self.value}"

    def timestamp_ms(self, now_ms: int) -> int | None:
        """The time of the first record to mirror; None where the rule names none."""
        if self.kind is Start.AT:
            return self.ms
        return max(0, now_ms - self.ms) if self.kind is Start.AGO else None


def read_reset(values: Values, key: str, default: str) -> StartRule:
    """Raises `UsageError`."""
    text = values.text(key, default).lower()
    kind = {"earliest": Start.EARLIEST, "latest": Start.LATEST, "none": Start.NONE}.get(text)
    if kind is not None:
        return StartRule(kind, value=text)
    strategy, _, duration = text.partition(":")
    match = _DURATION.fullmatch(duration)
    if strategy != "by_duration" or match is None or not any(match.groups()):
        values.refuse(
            key,
            "it is not earliest, latest, none or by_duration:PnDTnHnMnS",
            "Write one of these, such as by_duration:P1DT12H for the records of the last 36 hours.",
        )
    days, hours, minutes, seconds = (float(number or 0) for number in match.groups())
    age_s = days * 86400 + hours * 3600 + minutes * 60 + seconds
    return StartRule(Start.AGO, int(age_s * 1000), value=text)


def read_start(values: Values, key: str, default: str) -> StartRule | None:
    """None where the key is not set. Raises `UsageError`."""
    text = values.text(key, default)
    if not text:
        return None
    since_ms = decoding.integer_or(-1, text, 0, 10**15 - 1)
    if since_ms >= 0:
        return StartRule(Start.AT, since_ms, key, text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None or at.timestamp() < 0:
        values.refuse(
            key,
            "it is neither a time with its offset from UTC nor milliseconds since 1970",
            "Write 2026-11-01T00:00:00Z, or 1793491200000.",
        )
    return StartRule(Start.AT, int(at.timestamp() * 1000), key, text)


EARLIEST: Final = StartRule()
