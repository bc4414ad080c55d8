"""One source partition on its way to its mirror partition, within one claim: decisions only, no I/O.

Rules:
- Batches move verbatim; those that cannot are rebuilt record by record (partly below the position, LogAppendTime, old
  magic, gaps in a compressed batch). Of an uncompressed batch with gaps only the offset deltas are rewritten.
- A batch larger than the target takes is split by records; one record that is too large is sent as it is, and refused.
- Small batches of one response are merged, as far as the target takes the result, because a broker takes one batch per
  partition and request. A batch that comes alone moves as it is.
- Control, aborted and empty batches are gaps: read through, never sent. So are copies that the reverse flow made,
  and in a ring what another lane of the flow copies.
- Record number q of the claim is promised for one source offset: a `Run` entry precedes the first record of every stretch
  that does not continue the one before, and is acknowledged before that record is sent.
- A produce response must carry the expected base offset. A larger one means that other producers wrote in between: our
  records are placed where they were appended, and the map says so. A smaller one ends the claim.
- What the target refuses, and what arrives corrupt, parks this partition alone with the reason. It may be resumed within
  the claim, from its first record that is not acknowledged, only if the same records follow as were promised: else
  `PromiseChanged`.
Longer than most modules: one state, whose invariants hold across all of its methods.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from drlib.kafka.protocol import merge_batches as coalesce
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.aborted_transactions import AbortedFilter
from drlib.kafka.protocol.batch import (
    CONTROL_MASK,
    SEQUENCE_MODULUS,
    TRANSACTIONAL_MASK,
    BatchHeader,
    ControlType,
    CorruptBatch,
    OutgoingBatch,
    control_type,
    iter_batches,
    rewrite,
    verify,
)
from drlib.kafka.protocol.fetch import FetchedPartition, Proof
from drlib.kafka.protocol.validate import BeyondEnd, sound_batches
from drlib.mirror.engine.fencing.producer_expiration import LastAppend
from drlib.mirror.engine.fetch.memory import Reservation
from drlib.mirror.engine.reverse.rules import Known
from drlib.mirror.journal.entries import Ack, ClaimId, Covered, Entry, Placement, Run, SourceEpoch, SourcePartition
from drlib.mirror.journal.leader_epochs import UNKNOWN_EPOCH, epoch_below, taken_back
from drlib.mirror.journal.producers.kept import SeenProducer
from drlib.mirror.journal.transaction_numbers import TransactionNumbers
from drlib.mirror.journal.transactions import GAP, TransactionEvent, TransactionRing
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.model import TopicPartition

SMALL_BYTES = 8 << 10
"""A batch below this costs more as a request of its own than as a copy into a larger one."""
FEW_RECORDS = 64
FEW_RECORDS_BYTES = 32 << 10
"""So does a larger one of few records: copying costs 0.7 microseconds per record, a request costs per batch."""
BEYOND_END_RESPONSES = 5
"""Responses in a row that may begin beyond their high watermark: a quiet topic shows one, five are no coincidence."""
COPY_RATIO = 8
"""A small batch in a frame that many times as large is copied out: as a view it would keep the whole frame."""


Settled = tuple[int, int | None]
"""How many records of a claim are acknowledged and may be journaled as such, and where on the target the last one ends."""


class PromiseChanged(Exception):
    """A record number of this claim was promised for another source offset: only a new claim can continue."""


@dataclass(slots=True)
class PlannedBatch:
    """A batch that is promised and ready to send, or in flight."""

    batch: OutgoingBatch
    pieces: tuple[tuple[int, int], ...]  # (source offset, count) of each stretch in it, in order
    covers: int  # source position read through once this is acknowledged
    max_timestamp: int
    promise: asyncio.Future[None] | None = None
    target: int = -1  # expected base offset, fixed when it is sent
    copied: bool = False  # its bytes are its own, not those of the frame they arrived in
    reservation: Reservation | None = None  # of the worker's memory: its frame's share, or that of the copy


@dataclass(slots=True, eq=False)
class LongPollCounter:
    """Counts the responses to a fetch request that covers many partitions; one left out of a response has no news."""

    responses: int = 0


@dataclass(slots=True, eq=False)
class PartitionStream:
    """State of one partition within one claim. `position` is the next source offset to read."""

    key: SourcePartition
    source: TopicPartition
    target: TopicPartition
    claim: ClaimId
    map: PartitionMap
    position: int
    target_next: int
    record_count: int = 0  # records promised in this claim
    acked: int = 0  # records acknowledged in this claim
    run_end: int | None = None  # source offset that would continue the current run
    queue: deque[PlannedBatch] = field(default_factory=deque)
    unacked: deque[PlannedBatch] = field(default_factory=deque)
    queued_bytes: int = 0
    # Responses beyond a hole: the offset requested, the response, the memory it takes. They end with their reader.
    ahead: deque[tuple[int, FetchedPartition, Reservation | None]] = field(default_factory=deque)
    # Promised beyond the acknowledged records when the partition was parked: (source offset, count) of each stretch, in order.
    promised: deque[tuple[int, int]] = field(default_factory=deque)
    high_watermark: int = -1
    beyond_end: int = 0  # responses in a row whose first batch lies beyond their own high watermark
    last_stable: int = -1
    log_start: int = -1
    responses: int = 0  # of the source: lets observers tell old state from new
    long_poll: LongPollCounter | None = None  # of the long poll that covers the partition, if one does
    parked: str = ""
    covered: int = -1
    journaled: tuple[int, int] = (0, -1)  # (acked, covered) as the journal has them
    target_id: uuid.UUID | None = None  # of the mirror topic; None where it is not known
    last_append: LastAppend = field(default_factory=lambda: LastAppend(0, 0))
    foreign_reads: deque[Settled] = field(default_factory=deque)  # before each stretch of others that is read back
    behind_own: bool = False  # the last record before `target_next`, or before what is in flight, is of this claim
    records: int = 0
    bytes: int = 0
    epoch: int = UNKNOWN_EPOCH  # leader epoch of the source's record before `position`
    journaled_epoch: int = UNKNOWN_EPOCH  # the newest leader epoch in the journal
    epochs: dict[int, int] = field(default_factory=dict)  # journaled leader epoch -> offset from which on it was read
    start_known: bool = True  # False: nothing was promised, and the source's log start is unknown
    merge_bytes: int = 0  # how large a merged batch may become; 0: none is merged
    most_bytes: int = 0  # how large a batch the target takes; 0: not known
    unproven: bool = (
        False  # the source gives its topic no ID, or one that is not journaled: its log has to prove which it is
    )
    real_id: uuid.UUID | None = None  # the ID that is not journaled yet
    proof: Proof | None = None  # of such a topic: the batch that was read last
    held: bool = False  # nothing is sent for now: it is found out whether its records return (`engine.returns`)
    append_times: bool = False  # the source sets the records' timestamps
    shared: bool = False  # both directions copy the topic: others write to its mirror, and it holds copies of theirs
    copied_back: bool = False  # the flow back is still to copy it
    hop: int = 0  # of a ring: how many flows copied the records before that this lane copies; others are gaps
    next_slot: int = 0  # of the journal's ring of transactions
    transactions: TransactionRing | None = None  # made when the first one is read
    numbers: TransactionNumbers | None = (
        None  # of them; made when the first one is read, or recorded ones are continued
    )
    producers: dict[int, BatchHeader] = field(
        default_factory=dict
    )  # the newest batch of each since they were taken, by ID

    def observe(self, answer: FetchedPartition) -> None:
        """Take from an answer of the leader where the source's log begins and ends: a follower's says nothing about it."""
        self.responses += 1
        self.high_watermark = answer.high_watermark
        self.last_stable = answer.last_stable_offset
        self.log_start = answer.log_start_offset

    def plan(
        self,
        fetched: FetchedPartition,
        reservation: Reservation | None = None,
        *,
        of_leader: bool = True,
        copies: Known | None = None,
    ) -> list[Entry]:
        """Plan the batches of a response; returns the promises to journal before the new batches are sent.

        `copies`: who wrote them, where both directions copy the topic; copies of the reverse flow are gaps.

        `reservation`, the frame's share of memory, is kept until the last batch that views the frame is acknowledged or
        dropped; a copy counts by itself. Batches before a corrupt one are planned; raises `CorruptBatch` when there are
        none.
        """
        if of_leader:
            self.observe(fetched)
        self.start_known = True
        position = self.position
        before = len(self.queue)
        entries: list[Entry] = []
        epochs: dict[int, int] = {}  # offset after a batch -> its leader epoch
        try:
            self._plan_batches(fetched, entries, epochs, copies)
        except CorruptBatch as corrupt:
            if self.position == position and not self._may_be_new(corrupt):
                raise
        if self.transactions is not None:
            entries += self.transactions.take(self.key)
        at_end = of_leader and self.position == fetched.high_watermark
        if at_end and not (self.queue or self.unacked or self.promised):
            self.cover(self.position)  # also of a log that was empty from the start: there is nothing before its end
        if self.position != position:
            self.beyond_end = 0
            self.epoch = epochs.get(self.position, UNKNOWN_EPOCH)
        for item in islice(self.queue, before, None):
            if reservation is not None and item.copied:
                item.reservation = reservation.reserve_more(item.batch.size)
            else:
                item.reservation = reservation
        return entries

    def leave_out(self, end: int) -> None:
        """Skip what lies before `end`: the flow that fills the source appended all of it, in the epoch of the position."""
        if self.numbers is not None and self.numbers.read(self.position, end):
            self._note_gap(self.position - 1)
        self._skip_to(end)

    def keep_proof(self, records: memoryview) -> None:
        """Keep the last of the batches in `records` that was read whole: it proves the log that it was read of."""
        last = None
        for header, view in iter_batches(records):
            if header.next_offset > self.position:
                break
            last = header, view
        if last is not None:
            self.proof = Proof.of(last[0].base_offset, last[1])

    def _may_be_new(self, corrupt: CorruptBatch) -> bool:
        """A batch appended while the response was built lies beyond its high watermark; the next response covers it."""
        if isinstance(corrupt, BeyondEnd):
            self.beyond_end += 1
            return self.beyond_end <= BEYOND_END_RESPONSES
        return False

    def _plan_batches(
        self, fetched: FetchedPartition, entries: list[Entry], epochs: dict[int, int], copies: Known | None
    ) -> None:
        aborted = AbortedFilter(fetched.aborted)
        plain = not fetched.aborted  # then only the batch's own attributes say whether it is data
        alike = plain and copies is None  # what is merged unseen has to be of one origin
        began = self.position
        records = self._plan_single_records(fetched, entries, epochs) if alike else fetched.records
        if self.numbers is not None:
            self.numbers.settle(self.mirrored)
            if self.numbers.read(began, self.position):
                self._note_gap(began - 1)
        small: list[tuple[BatchHeader, memoryview]] = []
        size = 0
        for header, view in sound_batches(records, self.position, fetched.high_watermark):
            base, count = header.base_offset, header.count
            end = base + header.last_offset_delta + 1
            if end <= self.position and header.magic >= 2:
                aborted.keep(header, view)
                continue
            if self.numbers is not None and self.numbers.read(max(base, began), end):
                self._note_gap(max(base, began) - 1)
            epochs[end] = epoch = header.leader_epoch if header.magic >= 2 else UNKNOWN_EPOCH
            if epoch > self.journaled_epoch:
                self._begin_epoch(epoch, max(base, self.position), entries)
            data = count > 0 and ((plain and header.attributes == 0) or aborted.keep(header, view))
            copied = copies is not None and copies.leaves_out(header)
            data = data and not copied
            if header.producer_id >= 0 and not (copied or self.hop) and not header.attributes & CONTROL_MASK:
                self.producers[header.producer_id] = header
            if header.attributes & TRANSACTIONAL_MASK and header.magic >= 2 and not self.hop:
                self._note_transaction(header, view, data=data)
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

    def _plan_single_records(
        self, fetched: FetchedPartition, entries: list[Entry], epochs: dict[int, int]
    ) -> memoryview:
        """Plan the batches of one record each that the response begins with; returns what follows them."""
        records = fetched.records
        at = coalesce.skip_to(records, self.position) if self.merge_bytes else -1
        while at >= 0:
            merged = coalesce.merge_single_records(
                records,
                at,
                self.position,
                end=fetched.high_watermark,
                most_bytes=self.merge_bytes,
                **self._identity(0),
            )
            if merged is None:
                break
            epoch, end = coalesce.leader_epoch(records, at), self.position + merged.number
            if epoch > self.journaled_epoch:
                self._begin_epoch(epoch, self.position, entries)
            epochs[end] = epoch
            for header in merged.writers:
                self.producers[header.producer_id] = header
            self._promise(self.position, merged.number, entries)
            self._enqueue(merged.batch, ((self.position, merged.number),), end, merged.max_timestamp, copied=True)
            at = merged.after
        return records[at:] if at > 0 else records

    def take_producers(self) -> Mapping[int, SeenProducer]:
        """Who wrote what was read since the last call, by producer ID: applications that may be redirected to the target."""
        seen, self.producers = self.producers, {}
        return {
            producer_id: SeenProducer(each.producer_epoch, each.max_timestamp, each.is_transactional)
            for producer_id, each in seen.items()
        }

    def _note_transaction(self, header: BatchHeader, view: memoryview, *, data: bool) -> None:
        """Note a batch that is copied, or a commit marker; both are journaled before what was read with them is sent."""
        if header.producer_id < 0 or header.producer_epoch < 0:
            return
        if self.numbers is None:
            self.numbers = TransactionNumbers(header.next_offset)
        if not header.is_control:
            nth = self.numbers.of_records(header)
            if not data:
                return  # it was aborted
        else:
            try:
                committed = control_type(view) is ControlType.COMMIT
            except CorruptBatch:  # of a marker that is read through: its records are copied all the same
                if self.numbers.lost():
                    self._note_gap(header.base_offset)
                return
            nth = self.numbers.of_marker(header, commit=committed)
            if not committed:
                return
        first, end = max(header.base_offset, self.position), header.next_offset
        records, at_ms = (min(header.count, end - first), 0) if data else (0, max(header.max_timestamp, 0))
        producer, epoch = header.producer_id, header.producer_epoch
        self._note(TransactionEvent(producer, epoch, first, end, records, at_ms, nth))

    def _note_gap(self, offset: int) -> None:
        """Note that transactions up to `offset`, which was not read, are not counted any more."""
        offset = max(0, offset)
        self._note(TransactionEvent(GAP, 0, offset, offset + 1, 0))

    def _note(self, event: TransactionEvent) -> None:
        if self.transactions is None:
            self.transactions = TransactionRing(self.next_slot)
        self.transactions.note(event)

    def _begin_epoch(self, epoch: int, first: int, entries: list[Entry]) -> None:
        """Journal a new leader epoch, before its first record, at offset `first`, is sent."""
        self.journaled_epoch = epoch
        self.epochs[epoch] = first
        entries.append(SourceEpoch(self.key, epoch, first))

    def _plan_small(self, small: list[tuple[BatchHeader, memoryview]], entries: list[Entry]) -> None:
        if len(small) < 2:
            for header, view in small:
                self._plan(header, view, entries)
            return
        try:
            self._plan_merged(small, entries)
        except CorruptBatch:  # one of them is: plan those before it, and raise with its own offset
            for header, view in small:
                self._plan(header, view, entries)

    def _plan_merged(self, batches: list[tuple[BatchHeader, memoryview]], entries: list[Entry]) -> None:
        merged = coalesce.merge(batches, **self._identity(0))
        for source_offset, count in merged.pieces:
            self._promise(source_offset, count, entries)
        newest = max(header.max_timestamp for header, _ in batches)
        self._enqueue(merged.batch, merged.pieces, batches[-1][0].next_offset, newest, copied=True)

    def _plan(self, header: BatchHeader, view: memoryview, entries: list[Entry]) -> None:
        self.append_times = header.is_log_append_time
        too_large = 0 < self.most_bytes < len(view) and header.count > 1
        verbatim = (
            not too_large
            and header.magic == 2
            and header.contiguous
            and header.base_offset >= self.position
            and not header.is_log_append_time
        )
        if verbatim:
            batch = rewrite(view, header, **self._identity(0))  # raises for a corrupt one, before anything is promised
            copied = len(view) < FEW_RECORDS_BYTES and len(view) * COPY_RATIO < memoryview(view.obj).nbytes
            if copied:
                batch = replace(batch, body=memoryview(bytes(batch.body)))
            self._promise(header.base_offset, header.count, entries)
            pieces = [(header.base_offset, header.count)]
            end, newest = header.next_offset, header.max_timestamp
        elif not too_large and coalesce.can_merge(header) and header.base_offset >= self.position:
            self._plan_merged([(header, view)], entries)
            return
        else:
            if header.magic >= 2:
                verify(view, header)
            records = [r for r in recode.records(view) if r.offset >= self.position]
            if not records:
                self._skip_to(header.next_offset)
                return
            self._plan_records(records, header.codec, max(header.next_offset, records[-1].offset + 1), entries)
            return
        self._enqueue(batch, tuple(pieces), end, newest, copied=copied)

    def _plan_records(self, records: Sequence[recode.Record], codec: int, end: int, entries: list[Entry]) -> None:
        """Plan decoded records, read through to source offset `end`, in as many batches as the target's limit needs."""
        for part in self._parts(records, codec):
            pieces: list[tuple[int, int]] = []
            for record in part:
                self._promise(record.offset, 1, entries)
                if pieces and sum(pieces[-1]) == record.offset:
                    pieces[-1] = (pieces[-1][0], pieces[-1][1] + 1)
                else:
                    pieces.append((record.offset, 1))
            batch = recode.rebuild(part, codec=codec, **self._identity(len(part)))
            behind = end if part[-1] is records[-1] else part[-1].offset + 1
            self._enqueue(batch, tuple(pieces), behind, max(r.timestamp for r in part), copied=True)

    def _parts(self, records: Sequence[recode.Record], codec: int) -> Iterator[Sequence[recode.Record]]:
        """The records in order, halved until each part fits the target, as compressed, or is a single record."""
        fits = not self.most_bytes or len(records) == 1 or recode.most_size(records) <= self.most_bytes
        if fits or recode.rebuild(records, codec=codec, **self._identity(0)).size <= self.most_bytes:
            yield records
            return
        half = len(records) // 2
        yield from self._parts(records[:half], codec)
        yield from self._parts(records[half:], codec)

    def _enqueue(
        self, batch: OutgoingBatch, pieces: tuple[tuple[int, int], ...], end: int, newest: int, *, copied: bool
    ) -> None:
        self.queue.append(PlannedBatch(batch, pieces, end, newest, copied=copied))
        self.queued_bytes += batch.size
        self.position = end

    def _promise(self, source_offset: int, count: int, entries: list[Entry]) -> None:
        while count and self.promised:
            first, length = self.promised.popleft()
            if first != source_offset:
                raise PromiseChanged
            same = min(length, count)
            if same < length:
                self.promised.appendleft((first + same, length - same))
            self.record_count += same
            source_offset, count = source_offset + same, count - same
            self.run_end = source_offset
        if not count:
            return
        if self.run_end != source_offset:
            run = Run(self.key, self.claim, self.record_count, source_offset)
            entries.append(run)
            self.map.apply(run)
        self.record_count += count
        self.run_end = source_offset + count

    def _identity(self, count: int) -> dict[str, int]:
        return {
            "producer_id": self.claim.producer_id,
            "producer_epoch": self.claim.epoch,
            "base_sequence": (self.record_count - count) % SEQUENCE_MODULUS,
        }

    def _skip_to(self, position: int) -> None:
        """Skip a gap up to `position`: covered with the batch before it, or at once when nothing is pending."""
        self.position = max(self.position, position)
        if self.queue:
            self.queue[-1].covers = self.position
        elif self.unacked:
            self.unacked[-1].covers = self.position
        else:
            self.cover(self.position)

    def cover(self, position: int) -> None:
        """Note that all data below the source offset `position` is on the target."""
        if position > self.covered:
            self.covered = position
            self.map.cover(position)

    def ready(self) -> bool:
        """True when the next batch may be sent: its promise is acknowledged."""
        if self.parked or self.held or not self.queue:
            return False
        promise = self.queue[0].promise
        return promise is None or (promise.done() and not promise.cancelled() and promise.exception() is None)

    def send_next(self) -> OutgoingBatch:
        """Move the next batch to those in flight and fix the base offset that its response must carry."""
        item = self.queue.popleft()
        item.promise = None
        item.target = self.target_next
        self.target_next += item.batch.count
        self.queued_bytes -= item.batch.size
        self.unacked.append(item)
        return item.batch

    @property
    def idle(self) -> bool:
        """Nothing to send and nothing in flight."""
        return not self.queue and not self.unacked

    @property
    def expected_offset(self) -> int:
        """The base offset that the oldest batch in flight must get."""
        return self.unacked[0].target

    def shift_placement(self, base_offset: int) -> Placement:
        """Move the placement: the oldest batch in flight was appended at `base_offset`, behind other producers' records."""
        shift = base_offset - self.expected_offset
        for item in self.unacked:
            item.target += shift
        self.target_next += shift
        return self._place(base_offset)

    def start(self, now: int) -> Placement:
        """Begin the claim: its marker is in the log, and our first record goes to the log end."""
        self.last_append = LastAppend(now, now)
        self.behind_own = False  # others may have written between the marker and the end that was asked for
        return self._place(self.target_next)

    def marker_written(self, end: int, now: int) -> Placement:
        """Note that our marker was written, the log ends at `end`, and nothing was in flight."""
        self.target_next = end
        self.behind_own = False
        self.last_append.marker(now)
        return self._place(end)

    @property
    def writer_before(self) -> ClaimId | None:
        """Whose record precedes the next one that is acknowledged: this claim's; None where others may have written."""
        return self.claim if self.behind_own else None

    def _place(self, target_offset: int) -> Placement:
        placement = Placement(self.key, self.claim, self.acked, target_offset)
        self.map.apply(placement)
        return placement

    def acknowledge(self, base_offset: int, now: int) -> PlannedBatch | None:
        """Acknowledge the oldest batch in flight at `base_offset`; None when that is not its expected offset.

        `now`: the target's clock, ms since the epoch.
        """
        item = self.unacked.popleft()
        if base_offset != item.target:
            return None
        self.behind_own = True
        self.acked += item.batch.count
        self.records += item.batch.count
        self.bytes += item.batch.size
        self.last_append.batch(item.max_timestamp, now)
        self.map.ack(self.claim, self.acked)
        self.cover(item.covers)
        return item

    @property
    def mirrored(self) -> int:
        """The first source offset that is not known to be on the target."""
        if self.covered >= 0:
            return self.covered
        first = self.unacked[0] if self.unacked else self.queue[0] if self.queue else None
        return first.pieces[0][0] if first is not None else self.position

    def park(self, reason: str) -> None:
        """Stop this partition alone; a later claim plans what was not acknowledged again."""
        self.parked = reason
        self.release()

    def release(self) -> None:
        """Drop what is not acknowledged, or waits behind a hole, at a park and at the end of the claim: it is read again."""
        self.position = self.mirrored
        dropped = [piece for item in (*self.unacked, *self.queue) for piece in item.pieces]
        self.promised.extendleft(reversed(dropped))
        if self.unacked:
            self.target_next = self.unacked[0].target
        self.queue.clear()
        self.unacked.clear()
        self.ahead.clear()
        self.queued_bytes = 0

    def limit(self, learned: int) -> None:
        """Split and merge for a target that refused larger batches than `learned` bytes; 0: none was refused."""
        self.most_bytes = min(filter(None, (self.most_bytes, learned)), default=0)
        self.merge_bytes = min(self.merge_bytes, self.most_bytes)

    def resume(self) -> list[Entry]:
        """Go on after a park, with nothing in flight: read and promise again from the first record not acknowledged.

        Returns the entries to journal before anything is read.
        """
        self.parked = ""
        self.record_count = self.acked
        self.run_end = None
        return self.take_back_epochs()

    def take_back_epochs(self) -> list[Entry]:
        """Set the leader epoch of the position; returns the entries that take back those journaled beyond it."""
        entries = taken_back(self.key, self.epochs, self.position)
        self.epochs = {epoch: first for epoch, first in self.epochs.items() if first < self.position}
        self.epoch = self.journaled_epoch = epoch_below(self.epochs, self.position)
        return entries

    @property
    def settled(self) -> Settled:
        """What is acknowledged, up to the first records of others that are not read back yet."""
        return self.foreign_reads[0] if self.foreign_reads else (self.acked, self.map.target_end)

    def progress(self) -> list[Entry]:
        """Ack and Covered entries for what was acknowledged since they were last journaled."""
        entries: list[Entry] = []
        (acked, end), covered = self.settled, self.covered if not self.foreign_reads else -1
        if acked > self.journaled[0] and end is not None:
            entries.append(Ack(self.key, self.claim, acked, end))
        if covered > self.journaled[1]:
            entries.append(Covered(self.key, covered))
        self.journaled = (max(acked, self.journaled[0]), max(covered, self.journaled[1]))
        return entries

    def acknowledged(self) -> Ack | None:
        """What the target acknowledged in this claim, whether it is journaled or not; None where that is not known yet."""
        acked, end = self.settled
        return Ack(self.key, self.claim, acked, end) if acked and end is not None else None
