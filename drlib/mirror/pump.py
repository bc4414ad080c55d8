"""The data path of one lane within one claim: fetch, promise, produce, acknowledge.

Rules:
- One fetch loop per source broker asks for every partition it leads; a partition whose queue is full is left out, so
  memory is bounded by partitions x `QUEUE_BYTES`. A source that goes away ends nothing: the loop comes back to it, and
  what was fetched is still sent.
- One request holds at most one batch per partition; requests are pipelined per target broker, answers come in order.
- Before every send the membership's deadline is checked.
- An answer other than the expected one ends the claim (`LaneFault`); a fenced epoch ends ownership (`LaneLost`).
- Retention that overtook us is a `SourceLoss` in the ledger, never a silent jump.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from drlib.errors import Unreachable
from drlib.mirror.failpoints import hit
from drlib.mirror.faults import LaneFault, LaneLost
from drlib.mirror.lane_journal import EARLIEST, LATEST, LaneJournal
from drlib.mirror.membership import Membership
from drlib.mirror.status import EventLog
from drlib.mirror.stream import Outgoing, Stream
from drlib.rules.journal import Parked, SourceLoss, SourceTruncated
from drlib.wire import requests
from drlib.wire.batch import CorruptBatch, OutgoingBatch
from drlib.wire.cluster import ClusterClient
from drlib.wire.codes import FENCED, REFUSED, BrokerError, name_of
from drlib.wire.transport import ProduceResult

QUEUE_BYTES = 4 << 20  # per partition: what may wait between fetch and produce
FETCH_BYTES = 16 << 20
PARTITION_BYTES = 1 << 20
REQUEST_BYTES = 2 << 20
WINDOW = 8  # produce requests on their way per target broker
PROGRESS_S = 1.0  # how often acknowledged progress is journaled
FETCH_WAIT_MS = 200

OFFSET_OUT_OF_RANGE = 1
_MOVED = frozenset({3, 5, 6, 74, 75})  # the partition's leader is elsewhere or not yet known
_OTHER_TOPIC = frozenset({100, 103})  # unknown or inconsistent topic ID: deleted, or deleted and made again


async def _all(tasks: Sequence[asyncio.Task[None]]) -> None:
    await asyncio.gather(*tasks)


class Observer(Protocol):
    """Who wants to know: group positions, offset syncs, status."""

    def progressed(self, stream: Stream) -> None:
        """The source was read further without anything to send, or the stream has just begun."""

    def acked(self, stream: Stream, item: Outgoing) -> None:
        """A batch stands on the target."""


class Pump:
    """Runs until stopped, or until the claim ends with `LaneFault` or `LaneLost`."""

    def __init__(
        self,
        lane: str,
        source: ClusterClient,
        target: ClusterClient,
        journal: LaneJournal,
        streams: Sequence[Stream],
        membership: Membership,
        events: EventLog,
        observer: Observer,
    ) -> None:
        self.lane = lane
        self.source = source
        self.target = target
        self.journal = journal
        self.streams = streams
        self.membership = membership
        self.events = events
        self.observer = observer
        self._targets = {(s.target.topic, s.target.partition): s for s in streams}
        self._sources = {(s.key.topic_id, s.key.partition): s for s in streams}
        self._work = asyncio.Event()
        self._room = asyncio.Event()
        self._draining = False
        self._in_flight = 0
        self._failed: asyncio.Future[None] | None = None

    async def run(self, leaders: Mapping[tuple[str, int], int]) -> None:
        """Pump until `drain` was called and everything fetched is acknowledged. `leaders`: target partition -> node."""
        loop = asyncio.get_running_loop()
        self._failed = loop.create_future()
        by_node: dict[int, list[Stream]] = {}
        for stream in self.streams:
            by_node.setdefault(leaders[stream.target.topic, stream.target.partition], []).append(stream)
        fetch = asyncio.create_task(self._fetching())
        progress = asyncio.create_task(self._progress())
        by_node = by_node or {-1: []}  # a lane with nothing to copy still waits to be told
        senders = [asyncio.create_task(self._send_loop(node, group)) for node, group in by_node.items()]
        sending = asyncio.create_task(_all(senders))
        ends: set[asyncio.Future[None]] = {fetch, progress, sending, self._failed}
        try:
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (fetch, progress, sending, *senders):
                task.cancel()
            await asyncio.gather(fetch, progress, sending, *senders, return_exceptions=True)
            if not self._failed.done():
                self._failed.cancel()
        await self.journal.append([entry for stream in self.streams for entry in stream.progress()])

    def drain(self) -> None:
        """Fetch no more; `run` returns when all that was fetched is acknowledged and journaled."""
        self._draining = True
        self._work.set()

    # -- source side ---------------------------------------------------------------------------------------------

    async def _fetching(self) -> None:
        """One loop per source broker, laid out anew whenever leaders move or the source comes back."""
        delay = 0.05
        while not self._draining:
            try:
                metadata = await self.source.metadata(sorted({s.source.topic for s in self.streams}))
                by_node: dict[int, list[Stream]] = {}
                for stream in self.streams:
                    topic = metadata.topics.get(stream.source.topic)
                    found = topic.partitions.get(stream.source.partition) if topic else None
                    if found is not None and found.leader >= 0 and not stream.parked:
                        by_node.setdefault(found.leader, []).append(stream)
                self.events.resolve("SourceUnreachable", self.lane)
                async with asyncio.TaskGroup() as group:
                    for node, streams in by_node.items():
                        group.create_task(self._fetch_loop(node, streams))
                    if len(by_node) == 0:
                        await asyncio.sleep(0.5)
                delay = 0.05
            except* (Unreachable, BrokerError, TimeoutError, OSError) as errors:
                self.events.open("SourceUnreachable", self.lane, str(errors.exceptions[0]))
            await asyncio.sleep(delay)
            delay = min(2.0, delay * 2)
        await asyncio.Event().wait()  # draining: the senders decide when it is over

    async def _fetch_loop(self, node: int, streams: Sequence[Stream]) -> None:
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
                    await self._source_error(connection, stream, answer.error_code)
                else:
                    self._accept(stream, answer)
            if moved:
                return
            if self._ready():
                self._work.set()

    def _accept(self, stream: Stream, answer: requests.FetchedPartition) -> None:
        before = len(stream.queue)
        try:
            entries = stream.take(answer)
        except CorruptBatch as corrupt:
            self._park(stream, str(corrupt))
            return
        self.observer.progressed(stream)
        if not entries:
            return
        promise = self.journal.begin(entries)
        for item in list(stream.queue)[before:]:
            item.promise = promise
        promise.add_done_callback(self._promised)

    def _promised(self, promise: asyncio.Task[None]) -> None:
        if promise.cancelled():
            return
        error = promise.exception()
        if error is not None:
            self._fail(error)
            return
        hit("after-journal-write")
        self._work.set()

    async def _source_error(self, connection: requests.Connection, stream: Stream, code: int) -> None:
        now = int(time.time() * 1000)
        if code in _OTHER_TOPIC:
            self._park(stream, f"topic {stream.source.topic} was deleted or made again on the source (code {code})")
        elif code == OFFSET_OUT_OF_RANGE:
            start = (await requests.list_offsets(connection, [stream.source], EARLIEST))[stream.source]
            end = (await requests.list_offsets(connection, [stream.source], LATEST))[stream.source]
            if stream.position < start:
                loss = SourceLoss(stream.key, stream.position, start, now)
                await self.journal.append([loss])
                stream.map.apply(loss)
                self.events.open(
                    "SourceLoss",
                    str(stream.source),
                    f"offsets {loss.first} to {start - 1} expired before they were read",
                )
                stream.position = start
            elif stream.position > end:
                await self.journal.append([SourceTruncated(stream.key, end, stream.position, now)])
                self._park(stream, f"the source's log ends at {end}, below our position {stream.position}")
        else:
            raise_error = BrokerError(code, f"fetching {stream.source}")
            if not raise_error.retriable:
                self._park(stream, str(raise_error))
            else:
                raise raise_error

    # -- target side ---------------------------------------------------------------------------------------------

    def _ready(self) -> bool:
        return any(s.ready() for s in self.streams)

    async def _send_loop(self, node: int, streams: Sequence[Stream]) -> None:
        if not streams:
            while not self._draining:
                self._work.clear()
                await self._work.wait()
            return
        connection = await self.target.connection(node, f"produce-{self.lane}")
        window = asyncio.Semaphore(WINDOW)
        order = list(streams)
        while True:
            ready = [s for s in order if s.ready()]
            if not ready:
                if self._draining and not self._in_flight and not any(s.queue for s in order if not s.parked):
                    return
                self._work.clear()
                await self._work.wait()
                continue
            await window.acquire()
            await self.membership.until_may_send()
            topics: dict[str, list[tuple[int, OutgoingBatch]]] = {}
            sent: list[Stream] = []
            size = 0
            for stream in ready:
                if not stream.ready():
                    continue
                batch = stream.send_next()
                topics.setdefault(stream.target.topic, []).append((stream.target.partition, batch))
                sent.append(stream)
                size += batch.size
                if size > REQUEST_BYTES:
                    break
            if not sent:
                window.release()
                continue
            order = [s for s in order if s not in sent] + sent  # round robin
            self._room.set()
            self._in_flight += 1
            hit("after-claim")
            answer = connection.produce_many(topics)
            answer.add_done_callback(partial(self._answered, window=window))
            hit("mid-produce")
            await connection.drain()

    def _answered(self, answer: asyncio.Future[list[ProduceResult]], window: asyncio.Semaphore) -> None:
        self._in_flight -= 1
        window.release()
        self._work.set()
        if answer.cancelled():
            return
        error = answer.exception()
        if error is not None:
            self._fail(LaneFault(self.lane, f"the answer to a produce request is lost ({error})"))
            return
        hit("after-ack")
        for result in answer.result():
            stream = self._targets[result.topic, result.partition]
            if stream.parked:
                continue
            if result.error_code == 0:
                item = stream.acknowledge(result.base_offset)
                if item is not None:
                    self.observer.acked(stream, item)
                else:
                    self._fail(LaneFault(self.lane, f"{stream.target} put a batch at offset {result.base_offset}"))
            elif result.error_code in FENCED:
                self._fail(LaneLost(self.lane, f"{stream.target} refused our epoch (code {result.error_code})"))
            elif result.error_code in REFUSED:
                refusal = (
                    f"{name_of(result.error_code)} (code {result.error_code}) {result.error_message or ''}".strip()
                )
                self._park(stream, f"{stream.target} refuses the data: {refusal}")
            else:
                self._fail(LaneFault(self.lane, f"{stream.target} answered code {result.error_code}"))

    def _park(self, stream: Stream, reason: str) -> None:
        at = stream.covered if stream.covered >= 0 else stream.position
        stream.park(reason)
        self.events.open("Parked", str(stream.source), reason)
        parked = Parked(stream.key, at, reason, int(time.time() * 1000))
        stream.map.apply(parked)
        self.journal.begin([parked]).add_done_callback(self._promised)

    def _fail(self, error: BaseException) -> None:
        if self._failed is not None and not self._failed.done():
            self._failed.set_exception(error)

    async def _progress(self) -> None:
        """Journal what was acknowledged, every second while there is something to say."""
        while True:
            await asyncio.sleep(PROGRESS_S)
            entries = [entry for stream in self.streams for entry in stream.progress()]
            if entries:
                await self.journal.append(entries)
