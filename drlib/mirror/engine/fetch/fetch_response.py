"""Handles the fetch response of one partition, whichever reader requested it: planned batches, or a journal entry and an event.

Rules: a response to a request beyond the position waits until the records before it have arrived. An error, or a diverging
epoch, is valid only in a response to a request at exactly the position; else it is ignored, and the request is repeated
there. A jump over expired records makes all requests in flight obsolete: their responses are dropped. `end` is the last
stable offset that the source returned last, so nothing is requested beyond it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Protocol

from drlib import clock
from drlib.kafka.net import requests
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
from drlib.kafka.protocol.fetch import DivergingEpoch, FetchedPartition
from drlib.mirror.engine.fetch.context import LaneContext
from drlib.mirror.engine.fetch.memory import MemoryShare, Reservation
from drlib.mirror.engine.fetch.partition_stream import PartitionStream, PlannedBatch, PromiseChanged
from drlib.mirror.engine.fetch.read_replica import leader_decides
from drlib.mirror.errors import ClaimAgain, SourceLost
from drlib.mirror.failpoints import hit
from drlib.mirror.journal.entries import Entry, SourceLoss, SourceTruncated
from drlib.mirror.journal.leader_epochs import UNKNOWN_EPOCH
from drlib.mirror.journal.partition_events import lost_text
from drlib.mirror.offsets.map.journal_log import LaneJournal

DRAIN_POLL_S = 0.05
QUEUE_BYTES = 4 << 20  # per partition: what may wait between fetch and produce
LEADER_MOVED = frozenset(  # another broker leads the partition, or its leader is not known yet
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
    """Another broker leads a partition now: look the leaders up and start the readers again."""


class Sink(Protocol):
    """Receives planned batches: the produce loop."""

    def read(self, stream: PartitionStream, planned: Sequence[PlannedBatch], entries: Sequence[Entry]) -> None:
        """The source was read further; `planned` was appended to the stream's queue, `entries` promise it."""

    def park(self, stream: PartitionStream, reason: str, event: str = "Parked", entity: str = "") -> None:
        """Stop this partition; `event` names the cause, `entity` what it concerns (the partition by default)."""

    def fail(self, error: BaseException) -> None:
        """End the claim with `error`."""

    def watch(self, task: asyncio.Task[None]) -> asyncio.Task[None]:
        """End the claim with the error of `task`, should it end with one; returns `task`."""


@dataclass(slots=True, eq=False)
class PartitionFetch:
    """Fetch position of one partition at one broker. Offsets are the source's."""

    stream: PartitionStream
    end: int = -1  # one past the last offset that may be read now; -1 before the first response
    next_offset: int = -1  # where the next request begins
    requested: deque[int] = field(default_factory=deque)  # first offsets of the requests in flight, oldest first
    density: float = 0.0  # records per byte, the lowest of recent responses
    alone_at: float = 0.0  # when it was last requested alone, on the monotonic clock
    jumps: int = 0  # over expired records: a response to a request from before one is dropped
    empty_since: float = -1.0  # since when such requests return nothing; 0.0: they return records, -1.0: not known
    leads_in: int | None = None  # the leader epoch in which the broker was last seen to lead the partition
    to_leader: Callable[[], None] | None = None  # of one that is read from a follower: go on at its leader
    left: bool = False  # it is read at another broker now
    deciding: bool = False  # a refusal of its leader is being judged: until then it is not moved
    left_out: tuple[int, int] | None = None  # by the request in flight: from the position to where the request begins
    refused_epoch: int = UNKNOWN_EPOCH  # in which a request that leaves something out was refused
    asked_at: float = 0.0  # when a partition that the reverse flow fills was requested last, on the monotonic clock
    only_copies: bool = False  # the newest response with records had none to copy

    @property
    def full(self) -> bool:
        return self.stream.queued_bytes >= QUEUE_BYTES

    @property
    def behind(self) -> bool:
        return self.stream.position < self.end or self.full

    def epoch_at(self, offset: int) -> int:
        """Leader epoch of the record before `offset`; known at the position only, and behind what is left out."""
        known = offset == self.stream.position or self.left_out == (self.stream.position, offset)
        return self.stream.epoch if known else UNKNOWN_EPOCH

    def jump(self, start: int) -> None:
        """Continue at the log start `start`: the records before it have expired."""
        self.stream.position, self.stream.epoch = start, UNKNOWN_EPOCH
        self._drop_requests()

    def leave(self) -> None:
        """Drop what is requested here: another broker continues at the position."""
        self.left = True
        self._drop_requests()

    def _drop_requests(self) -> None:
        self.jumps += 1
        self.left_out = None
        self.requested.clear()
        self.stream.ahead.clear()

    def update_end(self, response: FetchedPartition) -> None:
        """Take the readable end from a response."""
        stable = response.last_stable_offset
        self.end = stable if stable >= 0 else response.high_watermark


class FetchResponseHandler:
    """Plans the records of responses into their streams and passes the batches to `sink`."""

    def __init__(self, context: LaneContext, journal: LaneJournal, sink: Sink) -> None:
        self.journal = journal
        self.events = context.events
        self.loss_policy = context.loss_policy
        self.reverse = context.reverse
        self.appends = context.appends
        self.sink = sink
        self._stalled: set[str] = set()  # partitions with an open `SourceStalled`

    async def handle(
        self,
        connection: Connection,
        fetch: PartitionFetch,
        offset: int,
        response: FetchedPartition,
        reservation: Reservation | None,
    ) -> None:
        """Handle one partition of a response to a request from `offset`.

        Raises `LeaderMoved`, or `BrokerError` where repeating the request may help.
        """
        stream = fetch.stream
        left_out, fetch.left_out = fetch.left_out, None
        if stream.parked or fetch.left:
            return
        if left_out is not None and leader_decides(response):
            fetch.refused_epoch = stream.epoch  # it shows nothing: the position itself is requested next
            return
        if fetch.to_leader is not None and leader_decides(response):
            fetch.to_leader()
            return
        if response.error_code in LEADER_MOVED:
            raise LeaderMoved
        if leader_decides(response):
            if offset == stream.position:
                await self._refused(connection, fetch, response)
            return
        if stream.shared and await self._holds(stream, response):
            return
        if stream.parked or fetch.left:
            return
        if left_out is not None:
            if left_out[0] != stream.position or self.copies_end(fetch) is None:  # since it was requested
                return
            stream.leave_out(offset)
        fetch.update_end(response)
        if len(response.records):
            hit("after-fetch")
        if offset > stream.position:
            if len(response.records):
                stream.ahead.append((offset, response, reservation))
            return
        self._plan(fetch, response, reservation)
        while stream.ahead and stream.ahead[0][0] <= stream.position and not (stream.parked or fetch.left):
            _, response, reservation = stream.ahead.popleft()
            self._plan(fetch, response, reservation)

    def copies_end(self, fetch: PartitionFetch) -> int | None:
        """From the position up to there all is left out: this worker's reverse flow appended it. None: that is not known."""
        stream, reverse = fetch.stream, self.reverse
        unknown = stream.promised or stream.unproven or stream.epoch in (UNKNOWN_EPOCH, fetch.refused_epoch)
        if unknown or fetch.to_leader is not None or not stream.shared or reverse is None or not reverse.admits(stream):
            return None
        found = self.appends.newest(stream.key, stream.position)
        if found is None or not reverse.known_of(stream).leaves_out_claim(found.claim, stream.position):
            return None
        return max(found.end, stream.position)  # more of it may have been read than is acknowledged

    async def _holds(self, stream: PartitionStream, response: FetchedPartition) -> bool:
        """Park a partition whose records may be copies of the reverse flow's, which is not known."""
        assert self.reverse is not None, f"{stream.source} is shared, and nothing tells copies"
        held = await self.reverse.hold(stream, response, self.journal)
        if held is not None and not stream.parked:
            self.sink.park(stream, held.reason, held.event)
        return held is not None

    def _plan(self, fetch: PartitionFetch, response: FetchedPartition, reservation: Reservation | None) -> None:
        stream = fetch.stream
        before = len(stream.queue)
        try:
            copies = self.reverse.known_of(stream) if self.reverse is not None and stream.shared else None
            entries = stream.plan(response, reservation, of_leader=fetch.to_leader is None, copies=copies)
        except CorruptBatch as corrupt:
            self.corrupt(fetch, str(corrupt))
            return
        except PromiseChanged:
            why = f"{stream.source} has other records than were promised before it was parked"
            self.sink.fail(ClaimAgain(self.journal.lane, why))
            return
        if stream.unproven:
            stream.keep_proof(response.records)
        if len(response.records):
            fetch.only_copies = copies is not None and len(stream.queue) == before
        self.sink.read(stream, tuple(islice(stream.queue, before, None)), entries)

    def corrupt(self, fetch: PartitionFetch, why: str) -> None:
        """Park a partition whose records arrive damaged; from a follower they are requested from the leader instead."""
        if fetch.to_leader is not None:
            fetch.to_leader()
        else:
            self.sink.park(fetch.stream, why, "SourceCorrupt")

    def stalled(self, fetch: PartitionFetch, offset: int) -> None:
        """Open `SourceStalled`: requested alone from `offset`, the source returns nothing below its own log end."""
        if fetch.to_leader is not None:
            fetch.to_leader()
            return
        self._stalled.add(str(fetch.stream.source))
        self.events.open(
            "SourceStalled",
            str(fetch.stream.source),
            f"the source returns nothing from offset {offset} on, although its log is readable up to {fetch.end}: either "
            "the cleaner left nothing there, or the length of a batch is damaged",
        )

    def resumed(self, fetch: PartitionFetch) -> None:
        """Resolve `SourceStalled`: the partition returned records."""
        fetch.empty_since = 0.0
        self.end_stall(fetch.stream)

    def end_stall(self, stream: PartitionStream) -> None:
        """Resolve `SourceStalled` of a partition that is parked or read to its end."""
        entity = str(stream.source)
        if entity in self._stalled:  # perhaps since a reader before this one
            self._stalled.discard(entity)
            self.events.resolve("SourceStalled", entity)

    def end_stalls(self) -> None:
        """Resolve every `SourceStalled`: nothing is read any more."""
        while self._stalled:
            self.events.resolve("SourceStalled", self._stalled.pop())

    async def _refused(self, connection: Connection, fetch: PartitionFetch, response: FetchedPartition) -> None:
        fetch.deciding = True
        try:
            if response.diverging_epoch is not None and not response.error_code:
                await self._diverged(connection, fetch, response.diverging_epoch)
            else:
                await self._error(connection, fetch, response.error_code)
        finally:
            fetch.deciding = False

    async def _error(self, connection: Connection, fetch: PartitionFetch, code: int) -> None:
        stream = fetch.stream
        if code in _TOPIC_RECREATED:
            topic = stream.source.topic
            why = f"topic {topic} was deleted or re-created on the source (code {code})"
            self.sink.park(stream, why, "SourceTopicGone")
        elif code == OFFSET_OUT_OF_RANGE:
            await self._out_of_range(connection, fetch)
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

    async def _out_of_range(self, connection: Connection, fetch: PartitionFetch) -> None:
        stream = fetch.stream
        now = clock.now_ms()
        start = (await requests.list_offsets(connection, [stream.source], requests.EARLIEST))[stream.source]
        end = (await requests.list_offsets(connection, [stream.source], requests.LATEST))[stream.source]
        if stream.parked:
            return  # the target refused a batch meanwhile
        if stream.position < start:
            await self._expired(fetch, start, now)
        elif stream.position > end:
            await self.journal.append([SourceTruncated(stream.key, end, stream.position, now)])
            why = f"the source's log ends at {end}, below our position {stream.position}"
            self.sink.park(stream, why, "SourceTruncated")
        elif await self._has_led(connection, fetch):
            # It ended below the position and has grown since, or it never held the leader epoch that was sent.
            await self.journal.append([SourceTruncated(stream.key, start, stream.position, now)])
            why = f"the source's log, which holds {start} to {end}, is not the one that was read through to {stream.position}"
            self.sink.park(stream, why, "SourceTruncated")

    async def _has_led(self, connection: Connection, fetch: PartitionFetch) -> bool:
        """Has this broker led the partition since this was last asked?

        A broker that follows, and that old metadata calls the leader, answers fetch requests, too; only a leader lists offsets.
        Its first refusal is therefore not believed: the request is repeated, and the same leader epoch shows that it leads.
        """
        source = fetch.stream.source
        try:
            _, epoch = (await requests.list_offset_epochs(connection, [source], requests.LATEST))[source]
        except BrokerError as error:
            if error.code in LEADER_MOVED:
                raise LeaderMoved from error
            raise
        before, fetch.leads_in = fetch.leads_in, epoch
        return before == epoch

    async def _diverged(self, connection: Connection, fetch: PartitionFetch, diverging: DivergingEpoch) -> None:
        """The record before the position is no longer in the source's log: an unclean leader election (KIP-320)."""
        stream = fetch.stream
        if not await self._has_led(connection, fetch) or stream.parked:
            return
        first = min(diverging.end_offset, stream.position - 1)
        await self.journal.append([SourceTruncated(stream.key, first, stream.position, clock.now_ms())])
        why = (
            f"offsets {first} to {stream.position - 1} were mirrored under leader epoch {stream.epoch}, but in the source's "
            f"log now epoch {diverging.epoch} ends at {diverging.end_offset}: an unclean leader election, or an older copy of "
            "its disks, removed records that had been read"
        )
        self.sink.park(stream, why, "SourceTruncated")

    async def _expired(self, fetch: PartitionFetch, start: int, now: int) -> None:
        """Apply the loss policy: retention moved the log start to `start`, beyond the position."""
        stream = fetch.stream
        if not stream.start_known:  # nothing was promised yet: mirroring begins where the log does
            stream.start_known = True
            fetch.jump(start)
            return
        lost = lost_text(stream.source.topic, stream.position, start)
        self.events.open("SourceLoss", str(stream.source), lost)
        if self.loss_policy != "continue" and (stream.queue or stream.unacked):
            await asyncio.sleep(DRAIN_POLL_S)  # what was fetched may be gone from the source: deliver it first
        elif self.loss_policy == "fail":
            self.sink.fail(SourceLost(f"{stream.source}: {lost}"))
        elif self.loss_policy == "park":
            why = f"{lost}. To continue without them set drlib.source.loss.policy = continue and restart the worker."
            self.sink.park(stream, why, "SourceLossParked")
        else:
            loss = SourceLoss(stream.key, stream.position, start, now)
            await self.journal.append([loss])
            if stream.parked:
                return
            stream.map.apply(loss)
            fetch.jump(start)


@dataclass(frozen=True, slots=True)
class SourceBroker:
    """One broker of the source, and what every reader at it needs. `memory`: the share of the lane's claim.

    `follower`: partitions are read there that others lead, on connections of their own.
    """

    context: LaneContext
    memory: MemoryShare
    node: int
    lane: str
    handler: FetchResponseHandler
    draining: asyncio.Event
    follower: bool = False

    async def connection(self, purpose: str) -> Connection:
        """The lane's own connection for one kind of request. Raises `Unreachable`."""
        role = "follower-" if self.follower else ""
        return await self.context.source.connection(self.node, f"{purpose}-{role}{self.lane}")
