"""One source partition on its way to its mirror partition, within one claim: decisions only, no I/O.

Rules:
- Batches move verbatim; what can't is rebuilt record by record (partly below the position, LogAppendTime, old magic,
  gaps in a compressed batch). Of an uncompressed batch with gaps only each record's number is written anew.
- Small batches of one answer become one, as far as the target takes it: a broker takes one batch per partition and
  request. A batch that comes alone moves as it is.
- Control, aborted and empty batches are gaps: read through, never sent.
- Record number q of the claim is promised for one source offset: a `Run` entry precedes the first record of every stretch
  that does not continue the one before, and is acknowledged before that record is sent.
- An answer must carry the expected base offset. A larger one means that others wrote in between: the records of ours are
  placed where they stand, and the map says so. A smaller one ends the claim.
- What the target refuses, and what arrives corrupt, parks this partition alone with the reason.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from dataclasses import dataclass, field, replace
from itertools import islice

from drlib.kafka.net.requests import FetchedPartition
from drlib.kafka.protocol import merge_batches as coalesce
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.aborted_transactions import AbortedFilter
from drlib.kafka.protocol.batch import SEQUENCE_MODULUS, BatchHeader, CorruptBatch, OutgoingBatch, rewrite, verify
from drlib.kafka.protocol.validate import BeyondEnd, sound_batches
from drlib.mirror.engine.fencing.producer_expiration import LastAppend
from drlib.mirror.engine.fetch.memory import Hold
from drlib.mirror.journal.entries import Ack, ClaimId, Covered, Entry, Placement, Run, SourceEpoch, SourcePartition
from drlib.mirror.journal.leader_epochs import UNKNOWN_EPOCH
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.model import TopicPartition

SMALL_BYTES = 8 << 10
"""A batch below this costs more as a request of its own than as a copy into a larger one."""
FEW_RECORDS = 64
FEW_RECORDS_BYTES = 32 << 10
"""So does a larger one of few records: a copy costs by the record, 0.7 microseconds each, a request by the batch."""
BEYOND_ANSWERS = 5
"""As many answers in a row may begin beyond their high watermark: one is what a quiet topic sees, five are no coincidence."""
LIGHT = 8
"""A small batch in a frame that many times as large is copied out: as a view it would keep the whole frame."""


@dataclass(slots=True)
class Outgoing:
    """A batch promised and ready, or on its way."""

    batch: OutgoingBatch
    pieces: tuple[tuple[int, int], ...]  # (source offset, count) of each stretch in it, in order
    covers: int  # source position read through once this is acknowledged
    max_timestamp: int
    promise: asyncio.Future[None] | None = None
    target: int = -1  # expected base offset, fixed when it is sent
    copied: bool = False  # its bytes are its own, not those of the frame they arrived in
    held: Hold | None = None  # what it takes of the worker's memory: its frame's share, or that of the copy


@dataclass(slots=True, eq=False)
class Pulse:
    """Counts the answers of a question that many partitions wait in together; silence about one means no news of it."""

    answers: int = 0


@dataclass(slots=True, eq=False)
class PartitionStream:
    key: SourcePartition
    source: TopicPartition
    target: TopicPartition
    claim: ClaimId
    map: PartitionMap
    position: int
    target_next: int
    q: int = 0  # records promised in this claim
    acked: int = 0  # records acknowledged in this claim
    run_end: int | None = None  # source offset that would continue the current run
    queue: deque[Outgoing] = field(default_factory=deque)
    unacked: deque[Outgoing] = field(default_factory=deque)
    queued_bytes: int = 0
    high_watermark: int = -1
    beyond: int = 0  # answers in a row whose first batch lies beyond their own high watermark
    last_stable: int = -1
    log_start: int = -1
    answers: int = 0  # of the source, so that who looks can tell old from new
    pulse: Pulse | None = None  # of the question it waits in, if it does
    parked: str = ""
    covered: int = -1
    journaled: tuple[int, int] = (0, -1)  # (acked, covered) as the journal has them
    target_id: uuid.UUID | None = None  # of the mirror topic; None where it is not known which one it is
    last: LastAppend = field(default_factory=lambda: LastAppend(0, 0))
    inquiries: int = 0  # stretches of others being read back: until then no acknowledgement is journaled
    records: int = 0
    bytes: int = 0
    epoch: int = UNKNOWN_EPOCH  # leader epoch of the source's record before `position`
    noted_epoch: int = UNKNOWN_EPOCH  # the last one the journal was told of
    start_known: bool = True  # False: nothing was promised, and nobody could say where the source's log starts
    merge_bytes: int = 0  # how large a batch made of small ones may become; 0: none is made

    def plan(self, fetched: FetchedPartition, held: Hold | None = None) -> list[Entry]:
        """Plan what was fetched; returns the promises to journal before the new batches are sent.

        `held`, the frame's share of memory, is kept until the last of them that views the frame is acknowledged or
        dropped; a copy counts by itself. What stands before a corrupt batch is
        planned; raises `CorruptBatch` when that is nothing.
        """
        self.answers += 1
        self.start_known = True
        at = self.position
        before = len(self.queue)
        entries: list[Entry] = []
        epochs: dict[int, int] = {}  # position behind a batch -> its leader epoch
        try:
            self._take(fetched, entries, epochs)
        except CorruptBatch as corrupt:
            if self.position == at and not self._may_be_news(corrupt):
                raise
        if self.position != at:
            self.beyond = 0
            self.epoch = epochs.get(self.position, UNKNOWN_EPOCH)
        for item in islice(self.queue, before, None):
            item.held = held.beside(item.batch.size) if held is not None and item.copied else held
        return entries

    def _may_be_news(self, corrupt: CorruptBatch) -> bool:
        """What was appended while the answer was made lies beyond its high watermark; the next answers cover it."""
        if isinstance(corrupt, BeyondEnd):
            self.beyond += 1
            return self.beyond <= BEYOND_ANSWERS
        return False

    def _take(self, fetched: FetchedPartition, entries: list[Entry], epochs: dict[int, int]) -> None:
        self.high_watermark = fetched.high_watermark
        self.last_stable = fetched.last_stable_offset
        self.log_start = fetched.log_start_offset
        aborted = AbortedFilter(fetched.aborted)
        plain = not fetched.aborted  # then only the batch's own attributes say whether it is data
        small: list[tuple[BatchHeader, memoryview]] = []
        size = 0
        for header, view in sound_batches(fetched.records, self.position, fetched.high_watermark):
            base, count = header.base_offset, header.count
            end = base + header.last_offset_delta + 1
            if end <= self.position and header.magic >= 2:
                aborted.keep(header, view)
                continue
            epochs[end] = epoch = header.leader_epoch if header.magic >= 2 else UNKNOWN_EPOCH
            if epoch > self.noted_epoch:  # the journal hears of each leader epoch before its first record is sent
                self.noted_epoch = epoch
                entries.append(SourceEpoch(self.key, epoch, max(base, self.position)))
            data = count > 0 and ((plain and header.attributes == 0) or aborted.keep(header, view))
            length = len(view)
            if (
                data
                and base >= self.position
                and (
                    length < min(SMALL_BYTES if count > FEW_RECORDS else FEW_RECORDS_BYTES, self.merge_bytes)
                    or not header.contiguous
                )
                and coalesce.can_merge(header)
            ):
                most = length + coalesce.GROWTH * count
                if small and size + most > self.merge_bytes:
                    self._plan_small(small, entries)
                    small, size = [], 0
                small.append((header, view))
                size += most
                continue
            self._plan_small(small, entries)
            small, size = [], 0
            if data:
                self._plan(header, view, entries)
            else:
                self._skip_to(end)
        self._plan_small(small, entries)

    def _plan_small(self, small: list[tuple[BatchHeader, memoryview]], entries: list[Entry]) -> None:
        if len(small) < 2:
            for header, view in small:
                self._plan(header, view, entries)
            return
        try:
            self._plan_merged(small, entries)
        except CorruptBatch:  # one of them: those before it move, it is told by its own offset
            for header, view in small:
                self._plan(header, view, entries)

    def _plan_merged(self, batches: list[tuple[BatchHeader, memoryview]], entries: list[Entry]) -> None:
        merged = coalesce.merge(batches, **self._identity(0))
        for source_offset, count in merged.pieces:
            self._promise(source_offset, count, entries)
        newest = max(header.max_timestamp for header, _ in batches)
        self._enqueue(merged.batch, merged.pieces, batches[-1][0].next_offset, newest, copied=True)

    def _plan(self, header: BatchHeader, view: memoryview, entries: list[Entry]) -> None:
        verbatim = (
            header.magic == 2
            and header.contiguous
            and header.base_offset >= self.position
            and not header.is_log_append_time
        )
        if verbatim:
            batch = rewrite(view, header, **self._identity(0))  # a corrupt one is found before anything is promised
            copied = len(view) < FEW_RECORDS_BYTES and len(view) * LIGHT < memoryview(view.obj).nbytes
            if copied:
                batch = replace(batch, body=memoryview(bytes(batch.body)))
            self._promise(header.base_offset, header.count, entries)
            pieces = [(header.base_offset, header.count)]
            end, newest = header.next_offset, header.max_timestamp
        elif coalesce.can_merge(header) and header.base_offset >= self.position:
            self._plan_merged([(header, view)], entries)
            return
        else:
            if header.magic >= 2:
                verify(view, header)
            records = [r for r in recode.records(view) if r.offset >= self.position]
            if not records:
                self._skip_to(header.next_offset)
                return
            pieces = []
            for record in records:
                self._promise(record.offset, 1, entries)
                if pieces and sum(pieces[-1]) == record.offset:
                    pieces[-1] = (pieces[-1][0], pieces[-1][1] + 1)
                else:
                    pieces.append((record.offset, 1))
            batch, copied = recode.rebuild(records, codec=header.codec, **self._identity(len(records))), True
            end = max(header.next_offset, records[-1].offset + 1)
            newest = max(r.timestamp for r in records)
        self._enqueue(batch, tuple(pieces), end, newest, copied=copied)

    def _enqueue(
        self, batch: OutgoingBatch, pieces: tuple[tuple[int, int], ...], end: int, newest: int, *, copied: bool
    ) -> None:
        self.queue.append(Outgoing(batch, pieces, end, newest, copied=copied))
        self.queued_bytes += batch.size
        self.position = end

    def _promise(self, source_offset: int, count: int, entries: list[Entry]) -> None:
        if self.run_end != source_offset:
            run = Run(self.key, self.claim, self.q, source_offset)
            entries.append(run)
            self.map.apply(run)
        self.q += count
        self.run_end = source_offset + count

    def _identity(self, count: int) -> dict[str, int]:
        return {
            "producer_id": self.claim.producer_id,
            "producer_epoch": self.claim.epoch,
            "base_sequence": (self.q - count) % SEQUENCE_MODULUS,
        }

    def _skip_to(self, position: int) -> None:
        """A gap up to `position`: covered with the batch before it, or at once when nothing is pending."""
        self.position = max(self.position, position)
        if self.queue:
            self.queue[-1].covers = self.position
        elif self.unacked:
            self.unacked[-1].covers = self.position
        else:
            self.cover(self.position)

    def cover(self, position: int) -> None:
        """The source is read through to `position` and all of it that is data is on the target."""
        if position > self.covered:
            self.covered = position
            self.map.cover(position)

    def ready(self) -> bool:
        """True when the next batch may be sent: its promise stands."""
        if self.parked or not self.queue:
            return False
        promise = self.queue[0].promise
        return promise is None or (promise.done() and not promise.cancelled() and promise.exception() is None)

    def send_next(self) -> OutgoingBatch:
        """Move the next batch to those on their way and fix the offset its answer must carry."""
        item = self.queue.popleft()
        item.promise = None
        item.target = self.target_next
        self.target_next += item.batch.count
        self.queued_bytes -= item.batch.size
        self.unacked.append(item)
        return item.batch

    @property
    def idle(self) -> bool:
        """Nothing to send and nothing on its way."""
        return not self.queue and not self.unacked

    @property
    def expected(self) -> int:
        """Where the oldest batch on its way must stand."""
        return self.unacked[0].target

    def shift_placement(self, base_offset: int) -> Placement:
        """The oldest batch on its way stands at `base_offset`, behind records of others: so do all that follow it."""
        further = base_offset - self.expected
        for item in self.unacked:
            item.target += further
        self.target_next += further
        return self._place(base_offset)

    def start(self, now: int) -> Placement:
        """The claim begins: its marker stands, and the first record of ours goes right behind what is there."""
        self.last = LastAppend(now, now)
        return self._place(self.target_next)

    def marker_written(self, end: int, now: int) -> Placement:
        """A marker of ours was written and the log ends at `end`; nothing was on its way."""
        self.target_next = end
        self.last.marker(now)
        return self._place(end)

    def _place(self, target_offset: int) -> Placement:
        placement = Placement(self.key, self.claim, self.acked, target_offset)
        self.map.apply(placement)
        return placement

    def acknowledge(self, base_offset: int, now: int) -> Outgoing | None:
        """The oldest batch on its way stands at `base_offset`; None when that is not the offset it must have.

        `now`: our own clock, ms.
        """
        item = self.unacked.popleft()
        if base_offset != item.target:
            return None
        self.acked += item.batch.count
        self.records += item.batch.count
        self.bytes += item.batch.size
        self.last.batch(item.max_timestamp, now)
        self.map.ack(self.claim, self.acked)
        self.cover(item.covers)
        return item

    @property
    def mirrored(self) -> int:
        """The next source offset that is not known to be on the target."""
        if self.covered >= 0:
            return self.covered
        first = self.unacked[0] if self.unacked else self.queue[0] if self.queue else None
        return first.pieces[0][0] if first is not None else self.position

    def park(self, reason: str) -> None:
        """Stop this partition alone; what was planned and not acknowledged will be planned anew by a later claim."""
        self.parked = reason
        self.position = self.mirrored
        self.queue.clear()
        self.unacked.clear()
        self.queued_bytes = 0

    def progress(self) -> list[Entry]:
        """Ack and Covered entries for what was acknowledged since the journal last heard."""
        entries: list[Entry] = []
        if self.inquiries:
            return entries
        acked, covered = self.journaled
        if self.acked > acked and self.map.target_end is not None:
            entries.append(Ack(self.key, self.claim, self.acked, self.map.target_end))
        if self.covered > covered:
            entries.append(Covered(self.key, self.covered))
        self.journaled = (self.acked, self.covered)
        return entries
