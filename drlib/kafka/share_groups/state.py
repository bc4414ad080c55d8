"""What a share group has read of one partition: its start offset, and what lies complete above it. Pure.

Rules:
- An offset is complete when it needs no further delivery: acknowledged, rejected, or given up. All others from the start offset
  on are delivered, or delivered again.
- Brokers move the start offset with a later write only (measured on Kafka 4.3.1: all of 17 records were acknowledged, and the
  start offset was still before them). So the position is the first offset that is not complete.
- Of an update, offsets replace those known before; those below the start offset are forgotten.
Source: KIP-932, `ShareCoordinatorShard` and `PersisterStateBatchCombiner` of Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from drlib.kafka.share_groups.messages import COMPLETE, StateBatch, StateRecord

Interval = tuple[int, int]
"""Offsets: the first, and the one behind the last."""


@dataclass(frozen=True, slots=True)
class ShareState:
    """`start`: the first offset that is not complete. `complete`: ascending, apart from each other, all behind `start`; None
    where it is not known which they are. `count`: how many they are; None where that is not known either."""

    start: int
    complete: tuple[Interval, ...] | None = ()
    count: int | None = None

    @property
    def completed(self) -> int | None:
        """How many offsets from the start on are complete."""
        return self.count if self.complete is None else sum(end - first for first, end in self.complete)


@dataclass(slots=True)
class StateLog:
    """One share-partition, as its records in `__share_group_state` have it."""

    start: int | None = None
    batches: list[StateBatch] = field(default_factory=list)

    def apply(self, record: StateRecord) -> None:
        if record.whole:
            self.start, self.batches = record.start, []
        elif record.start is not None:
            self.start = record.start
        for batch in record.batches:
            self.batches = [rest for known in self.batches for rest in _without(known, batch)] + [batch]
        least = self.start or 0
        self.batches = sorted((b for b in self.batches if b.last >= least), key=lambda b: b.first)

    @property
    def state(self) -> ShareState | None:
        """None while the group has no start offset."""
        return None if self.start is None else state_of(self.start, self.batches)


def state_of(start: int, batches: Iterable[StateBatch]) -> ShareState:
    """The state behind `start`, from batches in any order."""
    return moved_up(start, [(b.first, b.last + 1) for b in batches if b.state in COMPLETE])


def moved_up(start: int, complete: Iterable[Interval]) -> ShareState:
    """The state where `complete` intervals, in any order and overlapping, need no further delivery."""
    apart: list[Interval] = []
    for first, end in sorted(complete):
        if end <= start:
            continue
        if first <= start:
            start = end
        elif apart and first <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(end, apart[-1][1]))
        else:
            apart.append((first, end))
    return ShareState(start, tuple(apart))


def above(intervals: Sequence[Interval], start: int) -> tuple[Interval, ...]:
    """The part of `intervals` from `start` on."""
    return tuple((max(first, start), end) for first, end in intervals if end > start)


def missing(wanted: Sequence[Interval], have: Sequence[Interval]) -> int:
    """How many offsets of `wanted` are not in `have`; both ascending and apart."""
    total = sum(end - first for first, end in wanted)
    return total - sum(max(0, min(b, d) - max(a, c)) for a, b in wanted for c, d in have)


def _without(known: StateBatch, newer: StateBatch) -> Iterable[StateBatch]:
    if known.last < newer.first or known.first > newer.last:
        yield known
        return
    if known.first < newer.first:
        yield StateBatch(known.first, newer.first - 1, known.state, known.deliveries)
    if known.last > newer.last:
        yield StateBatch(newer.last + 1, known.last, known.state, known.deliveries)
