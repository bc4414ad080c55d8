"""Finds, among MirrorMaker 2's copies in a topic that both directions copy now, the records of the target's own clients.

Rules:
- A record of the mirror is a copy if it was aligned with one of the source (`compare_logs`), or if the source's log has one
  of equal content: key, value, headers, time. So repeated copies are copies, and what an application writes to both clusters.
- What is left was written by clients of the target, or the source has lost it, or a connector transformed it. Contents do not
  say which: the operator does, by the ID of the flow's journal (`Words`). Until then the flow back does not read the partition.
- A batch has one writer: with a record that the source does not have all of it is the target's own.
- The decision is journaled (`OwnRecords`) and never made again. Read is only what was not aligned, and the source's log once.
Not for: skipping copies (`drlib.mirror.engine.reverse`), nor positions (`drlib.mirror.offsets.translation.shared_position`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from drlib.errors import Unreachable
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol.batch import CorruptBatch
from drlib.kafka.protocol.error_codes import OFFSET_OUT_OF_RANGE, BrokerError
from drlib.mirror.errors import LaneFault, LaneLost
from drlib.mirror.journal.entries import OwnRecords, SourcePartition
from drlib.mirror.offsets.comparison.compare_logs import (
    IDLE_S,
    ComparedLog,
    ComparedPartition,
    LogAppendTime,
    Pace,
    read,
)
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.offsets.map.taken_part import TakenPart
from drlib.mirror.status.worker_status import EventLog
from drlib.model import Flow

EVENT: Final = "TakeoverUnexplained"
MOST_RECORDS: Final = 500_000
"""Of one partition, of which contents are compared."""
MOST_RANGES: Final = 10_000
Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Words:
    """What the operator said, in the file: the journal for which such records are the target's own, and for which copies."""

    own: str = ""
    copied: str = ""


@dataclass(frozen=True, slots=True)
class Unmatched:
    """`records` that the source does not have, in the target's offset `ranges`; `too_many`: to be compared, or kept."""

    ranges: tuple[Range, ...] = ()
    records: int = 0
    too_many: bool = False


def decide(found: Unmatched, words: Words, journal: str) -> tuple[Range, ...] | None:
    """Where the target's own records are; None where the operator has to say it."""
    if words.copied == journal or not (found.ranges or found.too_many):
        return ()
    return found.ranges if words.own == journal and not found.too_many else None


def question(found: Unmatched, item: ComparedPartition, taken: TakenPart, flow: Flow, journal: str) -> tuple[str, str]:
    """Detail and remedy of the event that asks."""
    source, target, key = flow.source, flow.target, f"{flow}.drlib"
    end = taken.takeover.target_offset
    if found.too_many:
        detail = f"which records of {item.target} on {target} below offset {end} are copies is not known: too many to compare"
        remedy = f"If no client of {target} wrote any of them,"
    else:
        detail = (
            f"{found.records} records of {item.target} on {target} below offset {end}, where MirrorMaker 2 ended, are not "
            f"on {source}: the first at offset {found.ranges[0][0]}, the last before offset {found.ranges[-1][1]}"
        )
        remedy = (
            f"If clients of {target} wrote them, set {key}.own.records.journal = {journal} and they are copied to {source}. If "
            f"MirrorMaker 2 wrote them (expired on {source} since, or changed by a connector),"
        )
    remedy += f" set {key}.copied.records.journal = {journal} and none is copied back. Then restart the worker."
    return detail, remedy


@dataclass(slots=True)
class OwnRecordsSearch:
    """The search in one flow's partitions. `compared`: is the comparison of a partition's logs through?

    `journal_id`: of the flow's journal; `now_ms`: the time.
    """

    flow: Flow
    source: ClusterClient
    target: ClusterClient
    partitions: Callable[[], Iterable[ComparedPartition]]
    compared: Callable[[SourcePartition, PartitionMap], bool]
    words: Words
    journal_id: Callable[[], Awaitable[str]]
    now_ms: Callable[[], int]
    events: EventLog
    _asked: dict[SourcePartition, tuple[int, str]] = field(default_factory=dict)  # about a takeover there, and of what

    async def run(self) -> None:
        """Search until cancelled. Raises what a broker answers that waiting does not change."""
        while True:
            items = [*self.partitions()]
            for key in self._asked.keys() - {item.key for item in items}:  # who has its lane now asks again
                self.events.resolve(EVENT, self._asked.pop(key)[1])
            for item in items:
                if self._is_due(item):
                    await self._try(item)
            await asyncio.sleep(IDLE_S)

    def _is_due(self, item: ComparedPartition) -> bool:
        taken = item.map.taken
        if not item.shared or taken is None or taken.own is not None or not self.compared(item.key, item.map):
            return False
        return self._asked.get(item.key, (-1, ""))[0] != taken.takeover.target_offset

    async def _try(self, item: ComparedPartition) -> None:
        try:
            await self._search(item)
        except (Unreachable, LaneFault, LaneLost, TimeoutError, OSError, CorruptBatch):
            return  # others report it, and it is tried again
        except BrokerError as error:
            if not error.retriable and error.code != OFFSET_OUT_OF_RANGE:
                raise

    async def _search(self, item: ComparedPartition) -> None:
        taken = item.map.taken
        assert taken is not None
        journal = await self.journal_id()
        found: Unmatched | None = Unmatched()
        if self.words.copied != journal:
            found = await self._unmatched(item, taken)
        if found is None:
            return  # a topic has another ID now: the lane will park the partition, or forget it
        own = decide(found, self.words, journal)
        if own is None:
            self._asked[item.key] = taken.takeover.target_offset, str(item.target)
            detail, remedy = question(found, item, taken, self.flow, journal)
            self.events.open(EVENT, str(item.target), detail, remedy=remedy)
            return
        entry = OwnRecords(item.key, own, self.now_ms())
        if await item.journal([entry]):
            item.map.apply(entry)
            self.events.resolve(EVENT, str(item.target))

    async def _unmatched(self, item: ComparedPartition, taken: TakenPart) -> Unmatched | None:
        source = await ComparedLog.open(self.source, item.source, item.key.topic_id)
        target = await ComparedLog.open(self.target, item.target, item.target_id)
        if source is None or target is None:
            return None
        pace = Pace(item.busy)
        ranges = list(taken.not_compared(target.start))
        try:
            batches, timed = await _batches(target, ranges, pace, timed=True), True
        except LogAppendTime:
            batches, timed = await _batches(target, ranges, pace, timed=False), False
        if batches is None:
            return Unmatched(too_many=True)
        wanted = {content for _, _, found in batches for content in found}
        async for batch in read(source, (source.start, source.end), pace, timed=timed):
            wanted.difference_update(batch.contents)
            if not wanted:
                break
        return unmatched(batches, wanted)


Batch = tuple[int, int, Sequence[int]]
"""First offset, end, and the contents of its records."""


def unmatched(batches: Sequence[Batch], missing: set[int]) -> Unmatched:
    """The batches with a content that is `missing` on the source."""
    ranges: list[Range] = []
    records = 0
    for first, end, found in batches:
        if count := sum(content in missing for content in found):
            records += count
            begin = ranges.pop()[0] if ranges and ranges[-1][1] == first else first
            ranges.append((begin, end))
    return Unmatched((), records, too_many=True) if len(ranges) > MOST_RANGES else Unmatched(tuple(ranges), records)


async def _batches(log: ComparedLog, ranges: Iterable[Range], pace: Pace, *, timed: bool) -> list[Batch] | None:
    """The batches with records in `ranges`; None for too many records. Raises `LogAppendTime`."""
    found: list[Batch] = []
    records = 0
    for each in ranges:
        async for batch in read(log, each, pace, timed=timed, committed=True):
            if batch.contents:
                found.append((batch.header.base_offset, batch.header.next_offset, batch.contents))
                records += len(batch.contents)
            if records > MOST_RECORDS:
                return None
    return found
