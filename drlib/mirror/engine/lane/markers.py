"""Own-epoch markers within a claim: on partitions whose leader is about to forget us, and hourly on the journal.

Rules:
- A marker is AddPartitionsToTxn and EndTxn(abort) at our own epoch, so the sequence continues and the placement shifts by
  what was written. Nothing of ours is in flight on a partition while it is marked; its new placement is journaled before
  its next batch.
- A leader that no longer knows our sequence after the marker had forgotten us: `ClaimAgain`.
- Only partitions whose idle marker is due are checked; partitions at rest cost nothing.
- Times are the target's (`fencing.target_clock`): it is the target that forgets.
- The journal's marker keeps the transactional ID from expiring: without it the next claim would fence no former owner.
Not for: when a marker is due, that is `drlib.mirror.engine.fencing.producer_expiration`.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from drlib.mirror.engine.fencing.claim import CLAIM_DEADLINE_S, mark
from drlib.mirror.engine.fencing.producer_expiration import (
    due_before_batch,
    due_when_idle,
    idle_due_ms,
    last_sequence,
)
from drlib.mirror.engine.fetch.context import LaneContext
from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.engine.lane.foreign_records import foreign_ranges
from drlib.mirror.errors import ClaimAgain, LaneFault
from drlib.mirror.journal.entries import Entry, Foreign
from drlib.mirror.offsets.map.count_records import ForeignRange, RecoveryContradiction
from drlib.mirror.offsets.map.journal_log import LaneJournal
from drlib.mirror.read_batches import log_ends
from drlib.mirror.status.worker_status import EventLog
from drlib.model import TopicPartition

IDLE_POLL_S = 0.5  # between two checks for idle partitions


class Markers:
    """Runs beside the senders of one claim; `freed` is called when partitions may be sent to again."""

    def __init__(
        self,
        context: LaneContext,
        journal: LaneJournal,
        freed: Callable[[], None],
    ) -> None:
        self.lane = journal.lane
        self.target = context.target
        self.expiry = context.expiry
        self.clock = context.clock
        self.events = context.events
        self.journal = journal
        self.freed = freed
        self._one_at_a_time = asyncio.Lock()  # one transactional ID has one transaction
        self._blocked: set[PartitionStream] = set()
        self._wake = asyncio.Event()
        # Heap of (when an idle marker may be due, ms; tie-breaker; stream), and the streams in it, once each.
        self._idle_checks: list[tuple[int, int, PartitionStream]] = []
        self._scheduled: set[PartitionStream] = set()
        self._numbers = itertools.count()
        self._keep_alive_at = time.monotonic() + self.expiry.keep_alive_ms / 1000

    def blocks(self, stream: PartitionStream) -> bool:
        """Whether a marker must be written in this partition before its next batch; called before each send."""
        if stream not in self._blocked:
            if not due_before_batch(stream.last_append, self.expiry, self.clock.now_ms()):
                return False
            self._blocked.add(stream)
        if not stream.unacked:
            self._wake.set()
        return True

    def answered(self) -> None:
        """Wake up after a produce response: a blocked partition may have nothing in flight now."""
        if self._blocked:
            self._wake.set()

    def appended(self, stream: PartitionStream) -> None:
        """Schedule the idle check of a partition that a batch of ours was appended to."""
        if stream not in self._scheduled:
            self._schedule(stream)

    def _schedule(self, stream: PartitionStream) -> None:
        """Check the partition when its idle marker is due, if it will ever be."""
        due = idle_due_ms(stream.last_append, self.expiry)
        if due is None:
            self._scheduled.discard(stream)
            return
        self._scheduled.add(stream)
        heapq.heappush(self._idle_checks, (max(due, self.clock.now_ms() + 1), next(self._numbers), stream))

    def _due_idle(self, now: int) -> set[PartitionStream]:
        due: set[PartitionStream] = set()
        while self._idle_checks and self._idle_checks[0][0] <= now:
            _, _, stream = heapq.heappop(self._idle_checks)
            if stream.idle and not stream.parked and due_when_idle(stream.last_append, self.expiry, now):
                due.add(stream)
                self._scheduled.discard(stream)
            else:
                self._schedule(stream)
        return due

    async def run(self) -> None:
        """Write markers when due, until cancelled. Raises `ClaimAgain`, `LaneFault`, `LaneLost`."""
        pause = min(IDLE_POLL_S, self.expiry.idle_ms / 2000, self.expiry.keep_alive_ms / 4000)
        while True:
            try:
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            self._blocked |= self._due_idle(self.clock.now_ms())
            due = [s for s in self._blocked if not s.unacked and not s.parked]
            if due:
                await self._mark(due)
                self._blocked.difference_update(due)
                self.freed()
            if time.monotonic() >= self._keep_alive_at:
                journal = self.journal.partition
                await self._write({journal.topic: [journal.partition]})
                self._keep_alive_at = time.monotonic() + self.expiry.keep_alive_ms / 1000

    async def mark_again(self, streams: Sequence[PartitionStream]) -> None:
        """Before parked partitions, with nothing in flight, are tried again: their leaders show what they have of ours.

        Raises `ClaimAgain` where that is more or less than was acknowledged.
        """
        await self._mark(streams)

    async def fence(self, partitions: Mapping[str, Sequence[int]]) -> None:
        """Write our marker into partitions that join the running claim: former owners cannot write there any more."""
        await self._write(partitions)

    async def _mark(self, streams: Sequence[PartitionStream]) -> None:
        partitions: dict[str, list[int]] = defaultdict(list)
        for stream in streams:
            partitions[stream.target.topic].append(stream.target.partition)
        sequences = await self._write(partitions)
        ends = (await log_ends(self.target, [s.target for s in streams])).ends
        entries: list[Entry] = []
        for stream in streams:
            if sequences[stream.target] != last_sequence(stream.acked):
                raise ClaimAgain(self.lane, f"the leader of {stream.target} had forgotten our claim")
            if ends[stream.target] <= stream.target_next:
                raise LaneFault(self.lane, f"{stream.target} ends at {ends[stream.target]}, below our marker")
            entries += await self._foreign_entries(stream, ends[stream.target])
            entries.append(stream.marker_written(ends[stream.target], self.clock.now_ms()))
        await self.journal.append(entries)

    async def _write(self, partitions: Mapping[str, Sequence[int]]) -> Mapping[TopicPartition, int]:
        async with self._one_at_a_time:
            deadline = time.monotonic() + CLAIM_DEADLINE_S
            claim = self.journal.claim
            return await mark(self.target, self.lane, claim, partitions, deadline=deadline, clock=self.clock)

    async def _foreign_entries(self, stream: PartitionStream, end: int) -> list[Entry]:
        """Entries for what other producers wrote between our last record and our marker, the last offset below `end`."""
        if end == stream.target_next + 1:
            return []
        start, before = stream.target_next, stream.writer_before
        end = start if stream.shared else end  # clients write to it: only whether the log still has our last record
        try:
            ranges = await foreign_ranges(self.target, stream.target, stream.target_id, before, start, end)
        except RecoveryContradiction as error:
            raise LaneFault(self.lane, error.why) from error  # the next claim decides what follows
        return record_foreign(self.events, stream, ranges, self.clock.now_ms())


def record_foreign(
    events: EventLog, stream: PartitionStream, ranges: Sequence[ForeignRange], now_ms: int
) -> list[Entry]:
    """Journal entries for other producers' records in a mirror partition; opens the event and updates the map.

    None where the target's clients write to the topic as those of the source do: these are in no way foreign.
    """
    entries: list[Entry] = []
    if stream.shared:
        return entries
    for foreign in ranges:
        entry = Foreign(stream.key, foreign.target_offset, foreign.count, now_ms)
        stream.map.apply(entry)
        entries.append(entry)
        open_foreign_writer(events, str(stream.target), foreign.target_offset, foreign.count)
    return entries


def open_foreign_writer(events: EventLog, partition: str, offset: int, count: int) -> None:
    events.open(
        "ForeignWriter",
        partition,
        f"another producer wrote {count} records from offset {offset} on; copying continues after them, and nothing is lost or "
        "duplicated",
    )
