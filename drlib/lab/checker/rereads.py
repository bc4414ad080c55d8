"""What groups processed more than once, from their own histories: pure.

Rules: a record is known by its id, wherever it was read; each time after the first is once more. Neighbouring offsets are
one stretch. Not for: groups that write no history (`drlib.analysis.duplicates.rewinds` has their committed positions).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from drlib.lab.checker.history import Consumed


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """`group` processed the records at `first` <= offset < `next_offset` of a partition, `records` of them, once more."""

    group: str
    cluster: str
    topic: str
    partition: int
    first: int
    next_offset: int
    records: int
    at_ms: int  # when the first of them was processed again


def read_again(rows: Iterable[Consumed]) -> tuple[ReadAgain, ...]:
    """The stretches that were processed again, by group and place. `rows` may be of many groups, in any order."""
    seen: set[tuple[str, str]] = set()
    again: dict[tuple[str, str, str, int], list[Consumed]] = {}
    for row in sorted(rows, key=lambda row: row.at_ms):
        if (row.group, row.id) in seen:
            again.setdefault((row.group, row.cluster, row.topic, row.partition), []).append(row)
        seen.add((row.group, row.id))
    return tuple(stretch for place in sorted(again) for stretch in _stretches(again[place]))


def _stretches(rows: list[Consumed]) -> Iterable[ReadAgain]:
    """In the order they were read, so that a stretch that was read three times is two."""
    begun = 0
    for number in range(1, len(rows) + 1):
        if number < len(rows) and rows[number].offset == rows[number - 1].offset + 1:
            continue
        first, last = rows[begun], rows[number - 1]
        yield ReadAgain(
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
