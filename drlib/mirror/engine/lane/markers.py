"""Own-epoch markers within a claim: partitions the target is about to forget, and the hourly one on the journal.

Rules: a marker is AddPartitionsToTxn and EndTxn(abort) at our own epoch, so the sequence goes on and the placement shifts
by what was written. Nothing of ours is in flight on a partition while it is marked; its new placement stands in the
journal before its next batch. A leader that no longer knows our sequence after the marker had forgotten us: `ClaimAgain`.
Lulls are looked for where one is due and nowhere else: partitions that rest cost nothing.
The journal's marker keeps the transactional ID from expiring: without it the next claim would fence nobody.
Not for: when a marker is due, that is `drlib.mirror.engine.fencing.producer_expiration`.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from drlib.kafka.net.cluster_client import ClusterClient
from drlib.mirror.engine.fencing.claim import CLAIM_DEADLINE_S, mark
from drlib.mirror.engine.fencing.producer_expiration import (
    Expiry,
    due_before_batch,
    due_in_lull,
    last_sequence,
    lull_due_ms,
)
from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.engine.lane.foreign_records import foreign_ranges
from drlib.mirror.errors import ClaimAgain, LaneFault
from drlib.mirror.journal.entries import Entry, Foreign
from drlib.mirror.offsets.map.count_records import ForeignRange
from drlib.mirror.offsets.map.journal_log import LaneJournal
from drlib.mirror.read_batches import log_ends
from drlib.mirror.status.worker_status import EventLog
from drlib.model import TopicPartition

LOOK_S = 0.5  # how often lulls are looked for


def now_ms() -> int:
    return int(time.time() * 1000)


class Markers:
    """Runs beside the senders of one claim; `freed` is called when partitions may be sent to again."""

    def __init__(
        self,
        lane: str,
        target: ClusterClient,
        journal: LaneJournal,
        streams: Sequence[PartitionStream],
        expiry: Expiry,
        events: EventLog,
        freed: Callable[[], None],
    ) -> None:
        self.lane = lane
        self.target = target
        self.journal = journal
        self.streams = streams
        self.expiry = expiry
        self.events = events
        self.freed = freed
        self._held: set[PartitionStream] = set()
        self._wake = asyncio.Event()
        self._lulls: list[
            tuple[int, int, PartitionStream]
        ] = []  # (when one may be due, ms; a number; of which partition)
        self._waiting: set[PartitionStream] = set()  # those in `_lulls`, once each
        self._numbers = itertools.count()
        self._alive_at = time.monotonic() + expiry.keep_alive_ms / 1000

    def holds(self, stream: PartitionStream) -> bool:
        """Whether a marker has to stand in this partition before its next batch; asked before each send."""
        if stream not in self._held:
            if not due_before_batch(stream.last, self.expiry, now_ms()):
                return False
            self._held.add(stream)
        if not stream.unacked:
            self._wake.set()
        return True

    def answered(self) -> None:
        """Something in flight came back: a partition that is held may be free of it now."""
        if self._held:
            self._wake.set()

    def wrote(self, stream: PartitionStream) -> None:
        """A batch of ours stands in the partition."""
        if stream not in self._waiting:
            self._later(stream)

    def _later(self, stream: PartitionStream) -> None:
        """Look at the partition again when its lull is due, if it may ever be."""
        due = lull_due_ms(stream.last, self.expiry)
        if due is None:
            self._waiting.discard(stream)
            return
        self._waiting.add(stream)
        heapq.heappush(self._lulls, (max(due, now_ms() + 1), next(self._numbers), stream))

    def _in_lull(self, now: int) -> set[PartitionStream]:
        found: set[PartitionStream] = set()
        while self._lulls and self._lulls[0][0] <= now:
            _, _, stream = heapq.heappop(self._lulls)
            if stream.idle and not stream.parked and due_in_lull(stream.last, self.expiry, now):
                found.add(stream)
                self._waiting.discard(stream)
            else:
                self._later(stream)
        return found

    async def run(self) -> None:
        """Mark whatever is due until cancelled. Raises `ClaimAgain`, `LaneFault`, `LaneLost`."""
        pause = min(LOOK_S, self.expiry.lull_ms / 2000, self.expiry.keep_alive_ms / 4000)
        while True:
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            self._held |= self._in_lull(now_ms())
            due = [s for s in self._held if not s.unacked and not s.parked]
            if due:
                await self._mark(due)
                self._held.difference_update(due)
                self.freed()
            if time.monotonic() >= self._alive_at:
                journal = self.journal.partition
                await self._write({journal.topic: [journal.partition]})
                self._alive_at = time.monotonic() + self.expiry.keep_alive_ms / 1000

    async def _mark(self, streams: Sequence[PartitionStream]) -> None:
        partitions: dict[str, list[int]] = defaultdict(list)
        for stream in streams:
            partitions[stream.target.topic].append(stream.target.partition)
        known = await self._write(partitions)
        ends = (await log_ends(self.target, [s.target for s in streams])).ends
        entries: list[Entry] = []
        for stream in streams:
            if known[stream.target] != last_sequence(stream.acked):
                raise ClaimAgain(self.lane, f"{stream.target} had forgotten our claim")
            if ends[stream.target] <= stream.target_next:
                raise LaneFault(self.lane, f"{stream.target} ends at {ends[stream.target]}, below our marker")
            entries += await self._others(stream, ends[stream.target])
            entries.append(stream.marker_written(ends[stream.target], now_ms()))
        await self.journal.append(entries)

    async def _write(self, partitions: Mapping[str, Sequence[int]]) -> Mapping[TopicPartition, int]:
        deadline = time.monotonic() + CLAIM_DEADLINE_S
        return await mark(self.target, self.lane, self.journal.claim, partitions, deadline=deadline)

    async def _others(self, stream: PartitionStream, end: int) -> list[Entry]:
        """What somebody else wrote between our last record and the end of the log, where our marker stands."""
        if end == stream.target_next + 1:
            return []
        ranges = await foreign_ranges(self.target, stream.target, stream.target_id, stream.target_next, end)
        return report_foreign(self.events, stream, ranges)


def report_foreign(events: EventLog, stream: PartitionStream, ranges: Sequence[ForeignRange]) -> list[Entry]:
    """The ledger's entries for records of others in a mirror partition, told as an event."""
    entries: list[Entry] = []
    for found in ranges:
        entry = Foreign(stream.key, found.target_offset, found.count, now_ms())
        stream.map.apply(entry)
        entries.append(entry)
        tell_foreign(events, str(stream.target), found.target_offset, found.count)
    return entries


def tell_foreign(events: EventLog, partition: str, offset: int, count: int) -> None:
    events.open(
        "ForeignWriter",
        partition,
        f"{count} records from offset {offset} on are not ours; the copy goes on behind them, nothing is lost or doubled",
    )
