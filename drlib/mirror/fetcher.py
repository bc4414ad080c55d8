"""The source side of one lane within one claim: ask each leader for what its partitions hold, and hand it on in order.

Rules:
- One loop per source broker asks for every partition it leads; a partition whose queue is full is left out, so memory is
  bounded by partitions x `QUEUE_BYTES`.
- A source that goes away ends nothing: the loops come back to it, and what was fetched is still sent.
- Retention that overtook us is a `SourceLoss` in the ledger, a log that ends below our position a `SourceTruncated`;
  never a silent jump.
- What arrives corrupt, and a topic that is another one now, parks that partition alone.
Not for: sending, that is `drlib.mirror.pump`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Protocol

from drlib.errors import Unreachable
from drlib.mirror.failpoints import hit
from drlib.mirror.lane_journal import EARLIEST, LATEST, LaneJournal
from drlib.mirror.status import EventLog
from drlib.mirror.stream import Outgoing, Stream
from drlib.rules.journal import Entry, SourceLoss, SourceTruncated
from drlib.wire import requests
from drlib.wire.batch import CorruptBatch
from drlib.wire.cluster import ClusterClient
from drlib.wire.codes import BrokerError

QUEUE_BYTES = 4 << 20  # per partition: what may wait between fetch and produce
FETCH_BYTES = 16 << 20
PARTITION_BYTES = 1 << 20
FETCH_WAIT_MS = 200

OFFSET_OUT_OF_RANGE = 1
_MOVED = frozenset({3, 5, 6, 74, 75})  # the partition's leader is elsewhere or not yet known
_OTHER_TOPIC = frozenset({100, 103})  # unknown or inconsistent topic ID: deleted, or deleted and made again


class Sink(Protocol):
    """Where fetched batches go: the pump."""

    def read(self, stream: Stream, planned: Sequence[Outgoing], entries: Sequence[Entry]) -> None:
        """The source was read further; `planned` was appended to the stream's queue, `entries` promise it."""

    def park(self, stream: Stream, reason: str) -> None:
        """This partition cannot go on."""


class Fetcher:
    """Runs until cancelled; fetches no more once `drain` was called."""

    def __init__(
        self,
        lane: str,
        source: ClusterClient,
        journal: LaneJournal,
        streams: Sequence[Stream],
        events: EventLog,
        sink: Sink,
    ) -> None:
        self.lane = lane
        self.source = source
        self.journal = journal
        self.streams = streams
        self.events = events
        self.sink = sink
        self._sources = {(s.key.topic_id, s.key.partition): s for s in streams}
        self._room = asyncio.Event()
        self._draining = False

    def drain(self) -> None:
        """Ask for nothing more."""
        self._draining = True

    def room(self) -> None:
        """Some queue became shorter."""
        self._room.set()

    async def run(self) -> None:
        """One loop per source broker, laid out anew whenever leaders move or the source comes back."""
        delay = 0.05
        while not self._draining:
            try:
                by_node = await self._leaders()
                self.events.resolve("SourceUnreachable", self.lane)
                async with asyncio.TaskGroup() as group:
                    for node, streams in by_node.items():
                        group.create_task(self._loop(node, streams))
                delay = 0.05 if by_node else delay
            except* (Unreachable, BrokerError, TimeoutError, OSError) as errors:
                self.events.open("SourceUnreachable", self.lane, str(errors.exceptions[0]))
            await asyncio.sleep(delay)  # leaders move, or are not elected yet: ask again, ever more patiently
            delay = min(2.0, delay * 2)
        await asyncio.Event().wait()  # draining: the senders decide when it is over

    async def _leaders(self) -> dict[int, list[Stream]]:
        metadata = await self.source.metadata(sorted({s.source.topic for s in self.streams}))
        by_node: dict[int, list[Stream]] = {}
        for stream in self.streams:
            topic = metadata.topics.get(stream.source.topic)
            found = topic.partitions.get(stream.source.partition) if topic else None
            if found is not None and found.leader >= 0 and not stream.parked:
                by_node.setdefault(found.leader, []).append(stream)
        return by_node

    async def _loop(self, node: int, streams: Sequence[Stream]) -> None:
        connection = await self.source.connection(node, f"fetch-{self.lane}")
        while not self._draining:
            wanted = [s for s in streams if not s.parked and s.queued_bytes < QUEUE_BYTES]
            if not wanted:
                self._room.clear()
                await self._room.wait()
                continue
            answers = await requests.fetch(
                connection,
                [requests.FetchPartition(s.key.topic_id, s.key.partition, s.position, PARTITION_BYTES) for s in wanted],
                max_wait_ms=FETCH_WAIT_MS,
                min_bytes=1,
                max_bytes=FETCH_BYTES,
                read_committed=True,
            )
            if any(len(a.records) for a in answers):
                hit("after-fetch")
            moved = False
            for answer in answers:
                stream = self._sources[answer.topic_id, answer.partition]
                if answer.error_code in _MOVED:
                    moved = True
                elif answer.error_code:
                    await self._error(connection, stream, answer.error_code)
                else:
                    self._accept(stream, answer)
            if moved:
                return

    def _accept(self, stream: Stream, answer: requests.FetchedPartition) -> None:
        before = len(stream.queue)
        try:
            entries = stream.take(answer)
        except CorruptBatch as corrupt:
            self.sink.park(stream, str(corrupt))
            return
        self.sink.read(stream, list(stream.queue)[before:], entries)

    async def _error(self, connection: requests.Connection, stream: Stream, code: int) -> None:
        if code in _OTHER_TOPIC:
            topic = stream.source.topic
            self.sink.park(stream, f"topic {topic} was deleted or made again on the source (code {code})")
        elif code == OFFSET_OUT_OF_RANGE:
            await self._out_of_range(connection, stream)
        else:
            error = BrokerError(code, f"fetching {stream.source}")
            if error.retriable:
                raise error
            self.sink.park(stream, str(error))

    async def _out_of_range(self, connection: requests.Connection, stream: Stream) -> None:
        now = int(time.time() * 1000)
        start = (await requests.list_offsets(connection, [stream.source], EARLIEST))[stream.source]
        end = (await requests.list_offsets(connection, [stream.source], LATEST))[stream.source]
        if stream.position < start:
            loss = SourceLoss(stream.key, stream.position, start, now)
            await self.journal.append([loss])
            stream.map.apply(loss)
            self.events.open(
                "SourceLoss", str(stream.source), f"offsets {loss.first} to {start - 1} expired before they were read"
            )
            stream.position = start
        elif stream.position > end:
            await self.journal.append([SourceTruncated(stream.key, end, stream.position, now)])
            self.sink.park(stream, f"the source's log ends at {end}, below our position {stream.position}")
