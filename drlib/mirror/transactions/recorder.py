"""Follows `__transaction_state` of the source: keeps its newest committed transactions, with their partitions, in the journal.

Rules:
- The worker that owns lane 0 does it, beside that lane's claim. It continues where the journal says that it stopped; without
  that, up to `EARLIER` offsets before the end of each partition of the topic. Transactions that began before the end then are
  journaled as `early`: their records may lie before those that are mirrored.
- Producers may have begun long before. So up to `EARLIER` offsets before the place where a worker continues are read as well,
  only to count the transactions of epochs that are not journaled.
- A transaction's record there precedes its markers, which precede everything that a reader of committed records gets of it. So
  what is journaled here was never copied by a worker that did not note it.
- Transactions of clients without transaction version 2 are numbered from the record with which their producer's epoch began.
  Where that was not read, or records are missing in the topic (its cleaner was faster), they have no numbers.
- Without the right to read the topic nothing is kept, and nothing else changes: what is missing then is said where it matters
  (`find`), and `drlib doctor --rights` names the right. A source that does not answer is reported by others.
Not for: what was read of a transaction's records (`PartitionStream`).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from drlib.config.flow_settings import FlowSettings
from drlib.errors import DrlibError
from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.batch import iter_batches
from drlib.kafka.protocol.error_codes import UNKNOWN_TOPIC_OR_PARTITION, raise_for
from drlib.kafka.protocol.fetch import FetchedPartition, FetchPartition, TopicId
from drlib.mirror.engine.lane.lane import Lane
from drlib.mirror.engine.lane.state import LaneState
from drlib.mirror.journal.transactions import (
    PREPARED_EACH,
    PREPARED_SLOTS,
    CommittedTransactions,
    TransactionCommitted,
    partitions_of,
)
from drlib.mirror.mm2.records import MalformedRecord
from drlib.mirror.sync.source_groups import OFFSETS_TOPIC
from drlib.mirror.transactions.rules import OWN_EPOCHS
from drlib.mirror.transactions.transaction_state import TRANSACTIONS_TOPIC, ProducerState, decode
from drlib.model import TopicPartition

PURPOSE: Final = "transactions"
POLL_S: Final = 0.2  # how soon a new owner of lane 0 begins, and a claim is asked again whether it copies
PAUSE_S: Final = 5.0  # where the topic cannot be followed
ABSENT_S: Final = 1.0  # where it does not exist: it is created with the first transactional producer
_WAIT_MS: Final = 500
_BYTES: Final = 256 << 10  # small, because it shares the link with the records
MOST_PRODUCERS: Final = 2_000
"""Of a partition of the topic; the one that began first is forgotten, and its next transactions have no numbers."""
EARLIER: Final = 10_000
"""Offsets of a partition of the topic: about 1 MB, with three for each transaction."""


@dataclass(slots=True)
class _Counts:
    """Of one producer and epoch. `whole`: every transaction since the epoch began was counted, so that a partition missing from
    `of` has none. `lost`: the count does not continue. `prepared`: a commit was decided, and what follows it was not read yet;
    None: not known, as nothing was read since the journal."""

    epoch: int
    number: int = 0
    of: dict[TopicPartition, int] = field(default_factory=dict)
    whole: bool = True
    lost: bool = False
    prepared: bool | None = False


class CommitNumbers:
    """Numbers the committed transactions of each producer: all of them, and those of each partition.

    `journaled`: transactions read from the journal, from which the numbers continue. A coordinator that could not tell whether
    a decision was written writes it again: a second one, with no other state of the producer between, is the same one.
    """

    def __init__(self, journaled: Sequence[TransactionCommitted]) -> None:
        # By partition of `__transaction_state` and producer ID.
        self._counts: dict[int, dict[int, _Counts]] = defaultdict(dict)
        self._gaps: set[int] = set()  # partitions of it whose next transaction has to say that records were lost
        for each in sorted(journaled, key=lambda each: each.read_to):
            at, producer = each.read_to[0], each.producer_id
            if not each.number:
                if each.nths:
                    self._forget(at)
                elif each.version < OWN_EPOCHS:
                    self._begin(at, producer, _Counts(each.epoch, lost=True))
                continue
            counts = self._counts[at].get(producer)
            if counts is None or counts.lost or (counts.epoch, counts.number) != (each.epoch, each.number - 1):
                # A topic may be mirrored since: no partition that is not there has none.
                counts = self._begin(at, producer, _Counts(each.epoch, whole=False, prepared=None))
            counts.number = each.number
            counts.of.update((p, nth) for p, nth in zip(partitions_of(each), each.nths, strict=True) if nth)

    def other_state(self, at: int, state: ProducerState) -> None:
        """A producer began, or went on after a decision. `at`: the partition of `__transaction_state`."""
        counts = self._counts[at].get(state.producer_id)
        if counts is not None and counts.epoch == state.epoch:
            counts.prepared = False  # a repeated Empty of the same epoch begins nothing
        elif state.began:
            self._begin(at, state.producer_id, _Counts(state.epoch))

    def lost(self, at: int) -> None:
        """Records of a partition of `__transaction_state` are missing, or could not be read."""
        if self._counts[at]:
            self._gaps.add(at)
        self._forget(at)

    def numbered(self, committed: TransactionCommitted) -> TransactionCommitted | None:
        """The next transaction, with its numbers where they are known; None for one that was decided already."""
        at = committed.read_to[0]
        counts = self._counts[at].get(committed.producer_id)
        counted = counts is not None and counts.epoch == committed.epoch and committed.version < OWN_EPOCHS
        partitions = partitions_of(committed)
        if counts is not None and counted and counts.prepared is None:
            counts.lost = True  # it may be the one that is journaled
        if counts is not None and counted and counts.prepared and not counts.lost:
            return None
        if at in self._gaps:
            self._gaps.discard(at)
            if counts is not None and counted:
                counts.lost = True
            return committed._replace(nths=(0,) * len(partitions))
        if counts is None or not counted or counts.lost:
            return committed
        counts.number += 1
        counts.prepared = True
        nths = []
        for partition in partitions:
            if counts.whole or partition in counts.of:
                counts.of[partition] = counts.of.get(partition, 0) + 1
            nths.append(counts.of.get(partition, 0))
        return committed._replace(number=counts.number, nths=tuple(nths))

    def adopt(self, at: int, earlier: CommitNumbers) -> None:
        """Take over what `earlier` counted of epochs that are not known here, up to where this begins in partition `at`."""
        for producer, counts in earlier._counts[at].items():
            known = self._counts[at].get(producer)
            if not counts.lost and (known is None or known.epoch < counts.epoch):
                self._begin(at, producer, counts)

    def _forget(self, at: int) -> None:
        for producer, counts in self._counts[at].items():
            self._counts[at][producer] = _Counts(counts.epoch, lost=True)

    def _begin(self, at: int, producer_id: int, counts: _Counts) -> _Counts:
        of = self._counts[at]
        of.pop(producer_id, None)
        of[producer_id] = counts
        if len(of) > MOST_PRODUCERS:
            del of[next(iter(of))]
        return counts


class CommittedRing:
    """The newest slots of committed transactions: what to journal, and where reading continues.

    `positions`: of each partition of `__transaction_state` that is followed, what is read next.
    """

    def __init__(self, entries: Sequence[CommittedTransactions]) -> None:
        """`entries`: those of the journal."""
        self._number = max((entry.number + 1 for entry in entries), default=0)
        self._slot: list[TransactionCommitted] = []
        self.positions: dict[int, int] = {}
        journaled = [each for entry in entries for each in entry.transactions]
        self.numbers = CommitNumbers(journaled)
        self._newest = {each.read_to[0]: each for each in sorted(journaled, key=lambda each: each.read_to)}
        # By partition: below which offset records are only counted, and the counts; below which transactions are early.
        self._counted: dict[int, tuple[int, CommitNumbers]] = {}
        self._early: dict[int, int] = {}
        self._open: dict[int, set[int]] = defaultdict(set)  # producers with an early transaction that is not decided

    def follow(self, at: int, start: int, end: int, *, is_new: bool) -> None:
        """Decide where reading of a partition with the offsets [`start`, `end`) begins, unless it was begun.

        `is_new`: was the topic created after this worker had begun?
        """
        position, newest = self.positions.get(at), self._newest.get(at)
        if position is not None and start <= position <= end:
            return
        if position is not None:
            continued, is_early = position, position < self._early[at]
        elif newest is not None:
            continued, is_early = newest.read_to[1], newest.early
        else:
            self.positions[at] = start if is_new else max(start, end - EARLIER)
            self._early[at] = start if is_new else end
            return
        if not start <= continued <= end:
            continued = end
            self.numbers.lost(at)
        self._early[at] = end if is_early else start
        self.positions[at] = max(start, continued - EARLIER)
        self._counted[at] = continued, CommitNumbers(())

    def numbers_at(self, at: int, offset: int) -> CommitNumbers:
        """The counts that a record at `offset`, which is the next one, belongs to: `numbers`, unless it is only counted."""
        if (counted := self._counted.get(at)) is not None:
            until, numbers = counted
            if offset < until:
                return numbers
            self.numbers.adopt(at, numbers)
            del self._counted[at]
        return self.numbers

    def other_state(self, at: int, offset: int, state: ProducerState) -> None:
        """Note a record at `offset` that decides nothing."""
        self.numbers_at(at, offset).other_state(at, state)
        if not state.is_open:
            self._open[at].discard(state.producer_id)
        elif offset < self._early[at]:
            self._open[at].add(state.producer_id)

    def decided(self, at: int, offset: int, each: TransactionCommitted) -> TransactionCommitted | None:
        """What is to be journaled of the decision at `offset`."""
        numbers = self.numbers_at(at, offset)
        numbered = numbers.numbered(each)
        if numbered is None or numbers is not self.numbers:
            return None
        return numbered._replace(early=offset < self._early[at] or each.producer_id in self._open[at])

    def add(self, found: Sequence[TransactionCommitted]) -> list[CommittedTransactions]:
        """What to journal once `found` was read; an entry that has room is written again."""
        entries: dict[int, CommittedTransactions] = {}
        for each in found:
            self._slot.append(each)
            entries[self._number] = CommittedTransactions(
                self._number % PREPARED_SLOTS, self._number, tuple(self._slot)
            )
            if len(self._slot) == PREPARED_EACH:
                self._number += 1
                self._slot.clear()
        return list(entries.values())


class TransactionRecorder:
    """Keeps one flow's transactions. `lane`: lane 0 while this worker owns it."""

    def __init__(self, settings: FlowSettings, source: ClusterClient, lane: Callable[[], Lane | None]) -> None:
        self._settings = settings
        self._source = source
        self._lane = lane
        self._absent = False  # was the topic not there, so that it is read from its start?

    async def run(self) -> None:
        """Follow the topic while lane 0 is this worker's; start over after every fault."""
        owned: Lane | None = None
        ring = CommittedRing(())
        while True:
            lane = self._lane()
            if lane is None or lane.state is not LaneState.RUNNING:
                await asyncio.sleep(POLL_S)
                continue
            if lane is not owned:
                owned, ring = lane, CommittedRing(lane.committed)
            try:
                await asyncio.create_task(self._follow(lane, ring))
            except* (DrlibError, MalformedRecord, TimeoutError, OSError):
                pass  # that lanes and the membership report, or a right that is optional
            task = asyncio.current_task()
            if task is not None and task.cancelling():  # a task group that has errors forgets that it was cancelled
                raise asyncio.CancelledError
            await asyncio.sleep(POLL_S if self._lane() is not lane else ABSENT_S if self._absent else PAUSE_S)

    async def _follow(self, lane: Lane, ring: CommittedRing) -> None:
        """Read the topic's partitions from their leaders until one moves, or the lane is another worker's."""
        topic = (await self._source.metadata([TRANSACTIONS_TOPIC])).topics[TRANSACTIONS_TOPIC]
        self._absent |= topic.error_code == UNKNOWN_TOPIC_OR_PARTITION
        raise_for(topic.error_code, f"following {TRANSACTIONS_TOPIC}")
        by_node: dict[int, list[int]] = defaultdict(list)
        for number, partition in topic.partitions.items():
            by_node[partition.leader].append(number)
        writing = asyncio.Lock()  # slots are written in order
        until = PAUSE_S if -1 in by_node else None  # then those without a leader are looked for again
        async with asyncio.timeout(until), asyncio.TaskGroup() as tasks:
            for node, numbers in by_node.items():
                if node >= 0:
                    tasks.create_task(self._follow_node(node, topic.topic_id, numbers, lane, ring, writing))

    async def _follow_node(
        self,
        node: int,
        topic_id: TopicId,
        numbers: Sequence[int],
        lane: Lane,
        ring: CommittedRing,
        writing: asyncio.Lock,
    ) -> None:
        connection = await self._source.connection(node, PURPOSE)
        partitions = [TopicPartition(TRANSACTIONS_TOPIC, n) for n in numbers]
        starts = await requests.list_offsets(connection, partitions, requests.EARLIEST)
        ends = await requests.list_offsets(connection, partitions, requests.LATEST)
        for p in partitions:
            ring.follow(p.partition, starts[p], ends[p], is_new=self._absent)
        while self._lane() is lane:
            answers = await requests.fetch(
                connection,
                [FetchPartition(TRANSACTIONS_TOPIC, topic_id, n, ring.positions[n], _BYTES) for n in numbers],
                max_wait_ms=_WAIT_MS,
                min_bytes=1,
                max_bytes=_BYTES,
                read_committed=True,
            )
            async with writing:
                found: list[TransactionCommitted] = []
                for answer in answers:
                    if not answer.error_code:  # what one partition has is kept where another's leader moved
                        found += self._read(answer, ring)
                entries = ring.add(found)
                while entries and not await lane.journal_beside(entries):
                    await asyncio.sleep(POLL_S)  # it claims again
                    if self._lane() is not lane:
                        return
            for answer in answers:
                raise_for(answer.error_code, f"following {TRANSACTIONS_TOPIC}")

    def _read(self, answer: FetchedPartition, ring: CommittedRing) -> list[TransactionCommitted]:
        number = answer.partition
        found: list[TransactionCommitted] = []
        for header, view in iter_batches(answer.records):
            if header.last_offset < ring.positions[number]:
                continue
            begin = ring.positions[number]
            if header.base_offset > begin:
                for missing in (begin, header.base_offset - 1):
                    ring.numbers_at(number, missing).lost(number)
            ring.positions[number] = header.next_offset
            if header.is_control:
                continue
            for record in recode.records(view):
                if record.offset >= begin and (each := self._decoded(number, record, ring)) is not None:
                    found.append(each)
        return found

    def _decoded(self, number: int, record: recode.Record, ring: CommittedRing) -> TransactionCommitted | None:
        """The transaction that a record of partition `number` decides, unless it is known or none of it is mirrored."""
        try:
            each = decode(record.key, record.value)
        except MalformedRecord:
            ring.numbers_at(number, record.offset).lost(number)
            return None
        if isinstance(each, ProducerState):
            ring.other_state(number, record.offset, each)
            return None
        if each is None or not (mirrored := self._mirrored(each.partitions)):
            return None
        read_to, version = (number, record.offset + 1), max(0, each.version)
        name, producer, epoch = each.transactional_id, each.producer_id, each.epoch
        committed = TransactionCommitted(read_to, name, producer, epoch, version, each.at_ms, mirrored)
        return ring.decided(number, record.offset, committed)

    def _mirrored(self, partitions: Sequence[tuple[str, tuple[int, ...]]]) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """Those of a transaction that matter; none where the flow mirrors none of them."""
        known = [(topic, numbers) for topic, numbers in partitions if self._settings.mirrors_topic(topic)]
        offsets = [(topic, numbers) for topic, numbers in partitions if topic == OFFSETS_TOPIC]
        return (*known, *offsets) if known else ()
