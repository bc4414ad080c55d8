"""Reads and appends a lane's journal: one partition of the journal topic, read whole at a claim, appended to within it.

Rules: entries of one call go in one batch (split only where a batch would be too large). Batches are written one after
the other, and each is acknowledged before anything relies on it; calls that come while one is written go together in the
next, so that many partitions that begin to be mirrored wait for one round trip and not for one each. A claim reads after its
fence, so that no former owner can append behind what was read. A journal that lost acknowledged entries is noticed while
writing (a batch that is appended below the end of the one before) and while reading: by the worker that wrote them
(`Written`), and as a possibility by others, where the partition had an election since its last entry (`elected`).
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from drlib import clock
from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.net.connection import ConnectionLost
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.batch import SEQUENCE_MODULUS
from drlib.kafka.protocol.error_codes import FENCED, INVALID_TIMESTAMP, TOO_LARGE
from drlib.mirror.errors import LaneFault, LaneLost
from drlib.mirror.journal.entries import ClaimId, Entry, Placement, Run, decode
from drlib.mirror.journal.renamed import both_keys, identified, renamed
from drlib.mirror.offsets.map.fold_claims import valid_entries
from drlib.mirror.read_batches import locate, read_range
from drlib.model import TopicPartition

ENTRIES_PER_BATCH = 2000
BYTES_PER_BATCH = 500_000  # half of Kafka's max.message.bytes; less where a broker refuses that
REFUSED_TIME = (
    "the journal refused the time of its entries, which is that of the last marker's broker: the target's brokers disagree "
    "about the time, or message.timestamp.after.max.ms or before.max.ms of the journal topic is too small"
)


@dataclass(frozen=True, slots=True)
class JournalRead:
    """The valid entries of a journal partition, oldest first, up to offset `next_offset`."""

    topic_id: uuid.UUID
    next_offset: int
    entries: tuple[Entry, ...]
    elected: bool = False  # its leader changed since the newest entry, so that entries may be missing
    lost: str = ""  # acknowledged entries are missing: which
    void: tuple[bytes, ...] = ()  # keys of entries that are not valid any more


@dataclass(frozen=True, slots=True)
class Written:
    """The journal up to offset `end` as this worker knows it: the batch before that is its own, of `claim`."""

    claim: ClaimId
    end: int


async def read_journal(target: ClusterClient, partition: TopicPartition) -> list[Entry]:
    """The valid entries of a journal partition, oldest first."""
    return list((await read_through(target, partition, "read")).entries)


async def read_through(
    target: ClusterClient, partition: TopicPartition, purpose: str, written: Written | None = None
) -> JournalRead:
    """Read a journal partition from its start, over the connection for `purpose`. Raises `JournalCorrupt`.

    `written`: what must be in it. Where it is, no entry is missing.
    """
    topic_id, leader = await locate(target, partition)
    connection = await target.connection(leader, purpose)
    starts, ends = await asyncio.gather(  # in this order, on one connection
        requests.list_offsets(connection, [partition], requests.EARLIEST),
        requests.list_offsets(connection, [partition], requests.LATEST),
    )
    newest: dict[bytes, bytes] = {}  # as compaction would leave it: the newest value of each key, in log order
    data_epoch = newest_epoch = -1
    lost, proven = "", False
    if written is not None and ends[partition] < written.end:
        lost = f"it was written up to offset {written.end} and ends at {ends[partition]}"
    async for header, view in read_range(connection, topic_id, partition, starts[partition], ends[partition]):
        newest_epoch = header.leader_epoch
        if written is not None and header.base_offset < written.end <= header.next_offset:
            proven = header.written_by(written.claim.producer_id, written.claim.epoch)
            lost = "" if proven else f"another batch is at offset {written.end - 1}, which {written.claim} had written"
        if header.is_control:
            continue
        if header.producer_id >= 0:  # what commands write beside the claims does not prove that entries are whole
            data_epoch = header.leader_epoch
        for record in recode.records(view):
            if record.key is None:
                continue
            newest.pop(record.key, None)
            if record.value is not None:
                newest[record.key] = record.value
    decoded = [decode(key, value) for key, value in newest.items()]
    entries = valid_entries(decoded)
    void = newest.keys() - {entry.key() for entry in entries} if len(entries) < len(decoded) else ()
    entries = renamed(entries, identified(entries))
    elected = data_epoch >= 0 and data_epoch != newest_epoch and not proven
    return JournalRead(topic_id, ends[partition], tuple(entries), elected, lost, tuple(void))


_Pair = tuple[bytes, bytes | None]


@dataclass(frozen=True, slots=True)
class _Call:
    """Entries to be written in order; `acknowledged` is done when the in-sync replicas have all of them."""

    pairs: Sequence[_Pair]
    acknowledged: asyncio.Future[None]


@dataclass
class LaneJournal:
    """Appends to one journal partition within one claim."""

    target: ClusterClient
    partition: TopicPartition
    claim: ClaimId
    lane: str  # the transactional ID
    leader: int
    now_ms: Callable[[], int] = clock.now_ms  # by the target's clock, which it compares timestamps with
    sequence: int = 0
    permanent_entries: int = 0  # written entries that no later one supersedes: they make a journal grow
    end: int = -1  # offset after the last acknowledged batch
    made: Mapping[uuid.UUID, uuid.UUID] = field(default_factory=dict)  # made topic IDs and those that Kafka gave since
    _waiting: deque[_Call] = field(default_factory=deque)
    _writer: asyncio.Task[None] | None = None
    _most_bytes: int = BYTES_PER_BATCH  # of a batch
    _failed: Exception | None = None

    @property
    def written(self) -> Written | None:
        """What the journal must hold from now on; None before the first acknowledged batch."""
        return Written(self.claim, self.end) if self.end >= 0 else None

    async def append(self, entries: Sequence[Entry]) -> None:
        """Write `entries` and wait until they are acknowledged by the in-sync replicas.

        The caller may be cancelled; the write continues, because later writes continue its sequence.
        """
        await asyncio.shield(self.begin(entries))

    def begin(self, entries: Sequence[Entry]) -> asyncio.Future[None]:
        """Start writing `entries`, in order after those begun before; it is done when they are acknowledged."""
        self.permanent_entries += sum(isinstance(e, Run | Placement) for e in entries)
        return self._begin([(e.key(), e.value()) for e in entries])

    async def forget(self, keys: Sequence[bytes]) -> None:
        """Write tombstones for entries that others replace, and wait until they are acknowledged."""
        await asyncio.shield(self._begin([(key, None) for key in both_keys(keys, self.made)]))

    def _begin(self, pairs: Sequence[_Pair]) -> asyncio.Future[None]:
        call = _Call(pairs, asyncio.get_running_loop().create_future())
        call.acknowledged.add_done_callback(_retrieved)
        if self._failed is not None:  # what follows a batch that was not written would leave a gap
            call.acknowledged.set_exception(self._failed)
            return call.acknowledged
        self._waiting.append(call)
        if self._writer is None or self._writer.done():
            self._writer = asyncio.create_task(self._write_waiting())
        return call.acknowledged

    async def _write_waiting(self) -> None:
        while self._waiting:
            calls = take_together(self._waiting)
            try:
                await self._write([pair for call in calls for pair in call.pairs])
            except asyncio.CancelledError:
                for call in (*calls, *self._waiting):
                    call.acknowledged.cancel()
                self._waiting.clear()
                raise
            except Exception as error:  # whatever it is, those who wait end with it
                self._failed = error
                calls += self._waiting
                self._waiting.clear()
            for call in calls:
                if call.acknowledged.done():
                    continue
                if self._failed is None:
                    call.acknowledged.set_result(None)
                else:
                    call.acknowledged.set_exception(self._failed)

    async def _write(self, pairs: Sequence[_Pair]) -> None:
        now = self.now_ms()
        try:
            connection = await self.target.connection(self.leader, f"journal-{self.lane}")
            waiting = deque(_parts(pairs, self._most_bytes))
            while waiting:
                part = waiting.popleft()
                batch = recode.rebuild(
                    [
                        recode.Record(offset=i, timestamp=now, key=key, value=value, headers=())
                        for i, (key, value) in enumerate(part)
                    ],
                    codec=0,
                    producer_id=self.claim.producer_id,
                    producer_epoch=self.claim.epoch,
                    base_sequence=self.sequence,
                )
                ends = {self.partition: self.end + batch.count} if self.end >= 0 else {}
                results = await connection.produce(self.partition.topic, [(self.partition.partition, batch)], ends=ends)
                for result in results:
                    if result.error_code in TOO_LARGE:
                        if len(part) == 1:
                            raise LaneFault(self.lane, self._refused_size(batch.size))
                        self._most_bytes = min(self._most_bytes, batch.size // 2)
                        waiting.extendleft(
                            (part[len(part) // 2 :], part[: len(part) // 2])
                        )  # nothing of it was written
                        continue
                    if result.error_code in FENCED:
                        raise LaneLost(self.lane, f"the journal refused our epoch (code {result.error_code})")
                    if result.error_code == INVALID_TIMESTAMP:
                        raise LaneFault(self.lane, REFUSED_TIME)
                    if result.error_code:
                        raise LaneFault(self.lane, f"the journal answered code {result.error_code}")
                    if result.base_offset < self.end:
                        why = f"a batch was appended at {result.base_offset}, the one before ended at {self.end}"
                        raise LaneFault(self.lane, f"the journal lost entries: {why}")
                    self.sequence = (self.sequence + len(part)) % SEQUENCE_MODULUS
                    self.end = result.base_offset + batch.count
        except (ConnectionLost, TimeoutError, OSError) as error:
            raise LaneFault(self.lane, f"the journal's broker does not answer ({error})") from error

    def _refused_size(self, size: int) -> str:
        return (
            f"the journal refuses an entry of {size} bytes: kafka-configs.sh --bootstrap-server TARGET --alter --topic "
            f"{self.partition.topic} --add-config max.message.bytes=1048588"
        )


def _retrieved(done: asyncio.Future[None]) -> None:
    """The error of a write whose caller was cancelled is no error that nothing handles: the claim ends with it."""
    if not done.cancelled():
        done.exception()


def take_together(waiting: deque[_Call]) -> list[_Call]:
    """Remove the calls whose entries fit in one batch, in order: at least one, however large."""
    calls = [waiting.popleft()]
    count, size = len(calls[0].pairs), _size(calls[0].pairs)
    while waiting:
        count, size = count + len(waiting[0].pairs), size + _size(waiting[0].pairs)
        if count > ENTRIES_PER_BATCH or size > BYTES_PER_BATCH:
            break
        calls.append(waiting.popleft())
    return calls


def _size(pairs: Sequence[_Pair]) -> int:
    return sum(len(key) + len(value or b"") + 20 for key, value in pairs)


def _parts(pairs: Sequence[_Pair], most_bytes: int) -> Iterator[Sequence[_Pair]]:
    """The parts that fit in one batch each."""
    first = size = 0
    for index, pair in enumerate(pairs):
        size += (this := _size([pair]))
        if index > first and (index - first >= ENTRIES_PER_BATCH or size > most_bytes):
            yield pairs[first:index]
            first, size = index, this
    if first < len(pairs):
        yield pairs[first:]
