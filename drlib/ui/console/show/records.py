"""Records of a topic and positions of a group as tables, and which offsets are shown.

Rules: pure. Keys, values and headers are text where they are UTF-8, else hexadecimal; one that is long is cut, and says how
long it is. What is compacted away, aborted or a marker is not listed, and the caption says which offsets were asked for.
Not for: reading them (`drlib.ui.console.show.browser`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from drlib import decoding, formats
from drlib.errors import UsageError
from drlib.kafka.admin.descriptions import Range, Record
from drlib.mirror.monitor.survey import GroupPosition, GroupStatus
from drlib.model import TopicPartition
from drlib.ui.console.show.style import table

PAGE: Final = 20  # offsets
SHORT: Final = 160  # letters
NEWEST: Final = "newest"


@dataclass(frozen=True, slots=True)
class Log:
    """The visible part of a partition's log: `end` is the last stable offset."""

    start: int
    end: int


def offsets(log: Log, asked: str) -> Range:
    """The page of offsets that begins at `asked`, or the newest one. Raises `UsageError` for what is no offset of the log."""
    text = asked.strip().replace(",", "")
    if text in ("", NEWEST):
        return Range(max(log.start, log.end - PAGE), log.end)
    first = decoding.integer_or(-1, text)
    if first < 0:
        raise UsageError(f"offset {text}", "it is no whole number", f"Give an offset, or {NEWEST}.")
    if not log.start <= first <= log.end:
        raise UsageError(
            f"offset {first:,}", f"the log has {log.start:,} to {log.end:,}", f"Give one of these, or {NEWEST}."
        )
    return Range(first, min(first + PAGE, log.end))


def turned(log: Log, shown: Range, pages: int) -> str:
    """The first offset of the page that lies `pages` behind `shown`, before it where that is negative."""
    return str(min(max(log.start, shown.start + pages * PAGE), max(log.start, log.end - 1)))


def records_html(cluster: str, at: TopicPartition, log: Log, shown: Range, records: Sequence[Record]) -> str:
    """A page of records."""
    rows = [
        (
            f"{record.offset:,}",
            formats.moment(record.timestamp_ms).removesuffix(" UTC"),
            text_of(record.key),
            text_of(record.value),
            ", ".join(f"{name}={text_of(value)}" for name, value in record.headers),
        )
        for record in records
    ]
    title = (
        f"{at.topic}-{at.partition} on {cluster}: {formats.records(len(records))} at offsets {shown.start:,} to "
        f"{max(shown.start, shown.end - 1):,}, of {log.start:,} to {max(log.start, log.end - 1):,}"
    )
    if log.end <= log.start:
        title = f"{at.topic}-{at.partition} on {cluster}"
    none = "no record: the log is empty" if log.end <= log.start else "no record is visible at these offsets"
    return _page(
        table(title, ("#offset", "time (UTC)", "key", "value", "headers"), rows, none, most=PAGE, wide=True), "Records"
    )


def positions_html(flow: str, group: GroupStatus, as_of_ms: int) -> str:
    """Every position of a group."""
    rows = [_position(each) for each in group.positions]
    columns = ("topic", "#partition", "#position", "#log end", "#lag", "#oldest unread", "on the target")
    title = f"{group.group} ({flow}), as of {formats.clock(as_of_ms)[:8]}"
    return _page(table(title, columns, rows, "no position on a mirrored topic", most=200, wide=True), "Positions")


def _position(each: GroupPosition) -> tuple[str, ...]:
    target = "unknown" if each.target_offset is None else f"{each.target_offset:,}"
    again = f", {formats.records(each.records)} again" if each.records else ""
    return (
        each.at.topic,
        f"{each.at.partition}",
        f"{each.offset:,}",
        formats.count(each.end),
        formats.count(each.lag),
        "-" if each.lag == 0 else formats.duration(each.lag_s),
        f"{target} ({each.kind.value}{again})",
    )


def text_of(data: bytes | None) -> str:
    """Bytes for one cell of a table."""
    if data is None:
        return "null"
    try:
        text = formats.one_line(data.decode("utf-8"))
    except UnicodeDecodeError:
        text = f"0x{data[: SHORT // 2].hex()}"
        return text if len(data) <= SHORT // 2 else f"{text}… ({len(data):,} bytes)"
    return text if len(text) <= SHORT else f"{text[:SHORT]}… ({len(data):,} bytes)"


def _page(inner: str, name: str) -> str:
    return f'<div class="drlib-console" role="region" aria-label="{name}">{inner}</div>'
