"""What becomes of a fetch answer, whoever asked: planned batches for the pump, or an entry in the ledger.

Rules: an answer to a question beyond our position is never taken, it waits for what lies between; an error in such an
answer means nothing and the question is asked again at the position. `end` is what the source last said may be read (its
last stable offset), so nothing is asked beyond it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol.batch import CorruptBatch
from drlib.kafka.protocol.error_codes import (
    CORRUPT_MESSAGE,
    FENCED_LEADER_EPOCH,
    INCONSISTENT_TOPIC_ID,
    KAFKA_STORAGE_ERROR,
    LEADER_NOT_AVAILABLE,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_OUT_OF_RANGE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_LEADER_EPOCH,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    BrokerError,
)
from drlib.kafka.protocol.fetch import DivergingEpoch
from drlib.mirror.engine.fetch.memory import Hold, Memory
from drlib.mirror.engine.fetch.partition_stream import Outgoing, PartitionStream
from drlib.mirror.errors import SourceLost
from drlib.mirror.failpoints import hit
from drlib.mirror.journal.entries import Entry, SourceLoss, SourceTruncated
from drlib.mirror.journal.leader_epochs import UNKNOWN_EPOCH
from drlib.mirror.offsets.map.journal_log import LaneJournal
from drlib.mirror.status.worker_status import EventLog

DRAIN_LOOK_S = 0.05
QUEUE_BYTES = 4 << 20  # per partition: what may wait between fetch and produce
_LEADER_MOVED = frozenset(  # another broker leads the partition, or its leader is not known yet
    {
        UNKNOWN_TOPIC_OR_PARTITION,
        LEADER_NOT_AVAILABLE,
        NOT_LEADER_OR_FOLLOWER,
        FENCED_LEADER_EPOCH,
        UNKNOWN_LEADER_EPOCH,
    }
)
_CORRUPT_ON_BROKER = frozenset({CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR})  # the broker cannot read its own log there
_TOPIC_RECREATED = frozenset({UNKNOWN_TOPIC_ID, INCONSISTENT_TOPIC_ID})  # deleted, or deleted and created again


class LeaderMoved(Exception):
    """A partition is led by another broker now: ask who leads what, and begin again."""


class Sink(Protocol):
    """Where fetched batches go: the pump."""

    def read(self, stream: PartitionStream, planned: Sequence[Outgoing], entries: Sequence[Entry]) -> None:
        """The source was read further; `planned` was appended to the stream's queue, `entries` promise it."""

    def park(self, stream: PartitionStream, reason: str, event: str = "Parked", entity: str = "") -> None:
        """This partition cannot go on; `event` names why, `entity` what it concerns (the partition by default)."""

    def fail(self, error: BaseException) -> None:
        """Nothing of the flow shall go on."""


@dataclass(slots=True, eq=False)
class PartitionFetch:
    """A partition as far as asking for it goes. Offsets are the source's."""

    stream: PartitionStream
    end: int = -1  # one behind the last offset that may be read now; -1 before the first answer
    next_offset: int = -1  # where the next question begins
    asked: deque[int] = field(default_factory=deque)  # where the questions on their way began, oldest first
    out_of_order: deque[tuple[int, requests.FetchedPartition, Hold | None]] = field(
        default_factory=deque
    )  # beyond a hole
    density: float = 0.0  # records in a byte, the thinnest of late
    alone_at: float = 0.0  # when it was last asked by itself, on the monotonic clock
    empty_since: float = -1.0  # from when on that brought nothing; 0.0: it brings something, -1.0: not known

    @property
    def full(self) -> bool:
        return self.stream.queued_bytes >= QUEUE_BYTES

    @property
    def behind(self) -> bool:
        return self.stream.position < self.end or self.full

    def epoch_at(self, offset: int) -> int:
        """Leader epoch of the record before `offset`, which only the position's is known of."""
        return self.stream.epoch if offset == self.stream.position else UNKNOWN_EPOCH

    def learn(self, answer: requests.FetchedPartition) -> None:
        """Take note of how far may be read."""
        stable = answer.last_stable_offset
        self.end = stable if stable >= 0 else answer.high_watermark


class FetchResponseHandler:
    """Takes answers into their streams; the pump is told through `sink`."""

    def __init__(self, journal: LaneJournal, events: EventLog, sink: Sink, loss_policy: str = "continue") -> None:
        self.journal = journal
        self.events = events
        self.sink = sink
        self.loss_policy = loss_policy

    async def take(
        self,
        connection: Connection,
        reading: PartitionFetch,
        asked_at: int,
        answer: requests.FetchedPartition,
        held: Hold | None,
    ) -> None:
        """Use one partition of an answer. Raises `LeaderMoved`, or `BrokerError` where asking again may help."""
        stream = reading.stream
        if stream.parked:
            return
        if answer.error_code in _LEADER_MOVED:
            raise LeaderMoved
        if answer.error_code:
            if asked_at <= stream.position:
                await self._error(connection, reading, answer.error_code)
            return
        if answer.diverging_epoch is not None:
            await self._diverged(reading, answer.diverging_epoch)
            return
        reading.learn(answer)
        if len(answer.records):
            hit("after-fetch")
        if asked_at > stream.position:
            if len(answer.records):
                reading.out_of_order.append((asked_at, answer, held))
            return
        self._accept(stream, answer, held)
        while reading.out_of_order and reading.out_of_order[0][0] <= stream.position and not stream.parked:
            _, answer, held = reading.out_of_order.popleft()
            self._accept(stream, answer, held)

    def _accept(self, stream: PartitionStream, answer: requests.FetchedPartition, held: Hold | None) -> None:
        before = len(stream.queue)
        try:
            entries = stream.plan(answer, held)
        except CorruptBatch as corrupt:
            self.sink.park(stream, str(corrupt), "SourceCorrupt")
            return
        self.sink.read(stream, tuple(islice(stream.queue, before, None)), entries)

    def stalled(self, reading: PartitionFetch, at: int) -> None:
        """Asked for `at` and nothing else, the source gives nothing, and says that there is something."""
        self.events.open(
            "SourceStalled",
            str(reading.stream.source),
            f"the source gives nothing from offset {at} on and says that its log may be read up to {reading.end}: either the "
            "cleaner left nothing there, or the length of a batch is damaged",
        )

    def resumed(self, reading: PartitionFetch) -> None:
        """Something came of the partition."""
        if reading.empty_since != 0.0:
            reading.empty_since = 0.0
            self.events.resolve("SourceStalled", str(reading.stream.source))

    async def _error(self, connection: Connection, reading: PartitionFetch, code: int) -> None:
        stream = reading.stream
        if code in _TOPIC_RECREATED:
            topic = stream.source.topic
            why = f"topic {topic} was deleted or made again on the source (code {code})"
            self.sink.park(stream, why, "SourceTopicGone")
        elif code == OFFSET_OUT_OF_RANGE:
            await self._out_of_range(connection, reading)
        else:
            error = BrokerError(code, f"fetching {stream.source}")
            if code == TOPIC_AUTHORIZATION_FAILED:
                self.sink.park(stream, str(error), "SourceUnauthorized", stream.source.topic)
            elif code in _CORRUPT_ON_BROKER:
                self.sink.park(stream, str(error), "SourceCorrupt")
            elif error.retriable:
                raise error
            else:
                self.sink.park(stream, str(error))

    async def _out_of_range(self, connection: Connection, reading: PartitionFetch) -> None:
        stream = reading.stream
        now = int(time.time() * 1000)
        start = (await requests.list_offsets(connection, [stream.source], requests.EARLIEST))[stream.source]
        end = (await requests.list_offsets(connection, [stream.source], requests.LATEST))[stream.source]
        if stream.position < start:
            await self._lost(reading, start, now)
        elif stream.position > end:
            await self.journal.append([SourceTruncated(stream.key, end, stream.position, now)])
            why = f"the source's log ends at {end}, below our position {stream.position}"
            self.sink.park(stream, why, "SourceTruncated")
        else:  # it ended below, and has grown meanwhile; or the epoch we name was never in it
            await self.journal.append([SourceTruncated(stream.key, start, stream.position, now)])
            why = f"the source's log, which holds {start} to {end}, is not the one that was read through to {stream.position}"
            self.sink.park(stream, why, "SourceTruncated")

    async def _diverged(self, reading: PartitionFetch, theirs: DivergingEpoch) -> None:
        """The record before our position is not the source's any more: an unclean election, whatever came since."""
        stream = reading.stream
        first = min(theirs.end_offset, stream.position - 1)
        await self.journal.append([SourceTruncated(stream.key, first, stream.position, int(time.time() * 1000))])
        why = (
            f"offsets {first} to {stream.position - 1} were mirrored under leader epoch {stream.epoch}, and in the source's "
            f"log as it is now epoch {theirs.epoch} ends at {theirs.end_offset}: an unclean election took what had been read"
        )
        self.sink.park(stream, why, "SourceTruncated")

    async def _lost(self, reading: PartitionFetch, start: int, now: int) -> None:
        """Retention took what we had not read; the flow's policy says what becomes of it."""
        stream = reading.stream
        if not stream.start_known:  # nothing of it was ever ours to lose: it begins where its log does
            stream.position, stream.start_known = start, True
            reading.out_of_order.clear()
            return
        lost = f"offsets {stream.position} to {start - 1} expired before they were read"
        self.events.open("SourceLoss", str(stream.source), lost)
        if self.loss_policy != "continue" and (stream.queue or stream.unacked):
            await asyncio.sleep(DRAIN_LOOK_S)  # what was fetched may be gone from the source: deliver it first
        elif self.loss_policy == "fail":
            self.sink.fail(SourceLost(f"{stream.source}: {lost}"))
        elif self.loss_policy == "park":
            why = f"{lost}. To go on without them set drlib.source.loss.policy = continue and restart the worker."
            self.sink.park(stream, why, "SourceLossParked")
        else:
            loss = SourceLoss(stream.key, stream.position, start, now)
            await self.journal.append([loss])
            stream.map.apply(loss)
            stream.position, stream.epoch = start, UNKNOWN_EPOCH
            reading.out_of_order.clear()


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker of the source, and what every reader at it needs."""

    source: ClusterClient
    node: int
    lane: str
    intake: FetchResponseHandler
    memory: Memory
    draining: asyncio.Event

    async def connection(self, purpose: str) -> Connection:
        """The lane's own connection for one kind of question. Raises `Unreachable`."""
        return await self.source.connection(self.node, f"{purpose}-{self.lane}")
