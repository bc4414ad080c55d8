"""The ranges that groups processed more than once, from their own histories: pure.

Rules: a record is identified by its id, wherever it was read; each time after the first counts once. Consecutive offsets
form one range. Not for: groups without a history (`drlib.analysis.duplicates.rewinds` uses their committed positions).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from drlib.lab.checker.history import Consumed


@dataclass(frozen=True, slots=True)
class RereadRange:
    """`group` processed `records` records at `first` <= offset < `next_offset` of a partition once more, from `at_ms` on."""

    group: str
    cluster: str
    topic: str
    partition: int
    first: int
    next_offset: int
    records: int
    at_ms: int


def reread_ranges(rows: Iterable[Consumed]) -> tuple[RereadRange, ...]:
    """The ranges processed again, by group, cluster and partition. `rows` may be of many groups, in any order."""
    seen: set[tuple[str, str]] = set()
    again: dict[tuple[str, str, str, int], list[Consumed]] = {}
    for row in sorted(rows, key=lambda row: row.at_ms):
        if (row.group, row.id) in seen:
            again.setdefault((row.group, row.cluster, row.topic, row.partition), []).append(row)
        seen.add((row.group, row.id))
    return tuple(reread for place in sorted(again) for reread in _ranges(again[place]))


def _ranges(rows: list[Consumed]) -> Iterable[RereadRange]:
    """In the order they were read: a range that was read three times is reported twice."""
    begun = 0
    for number in range(1, len(rows) + 1):
        if number < len(rows) and rows[number].offset == rows[number - 1].offset + 1:
            continue
        first, last = rows[begun], rows[number - 1]
        yield RereadRange(
            first.group,
            first.cluster,
            first.topic,
            first.partition,
            first.offset,
            last.offset + 1,
            number - begun,
            first.at_ms,
        )
        begun = number
