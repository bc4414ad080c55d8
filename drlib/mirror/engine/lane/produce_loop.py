"""The data path of one lane within one claim: what was fetched is promised, produced and acknowledged.

Rules:
- One request holds at most one batch per partition; requests are pipelined per target broker, as many as its link holds
  (`drlib.mirror.engine.fetch.flow_control`), and answers come in order.
- Before every send the membership's deadline is checked.
- An answer other than the expected one ends the claim (`LaneFault`); a fenced epoch ends ownership (`LaneLost`). The
  exception is a batch that stands further on than expected: it is in the log once, behind what others wrote there, so its
  place is journaled, what is before it is read and told, and the copy goes on.
- What the target refuses for good, or may not be written any more, parks its partition alone.
- A partition that is due for a marker of ours (`drlib.mirror.engine.lane.markers`) is held back until that stands.
- A promise is begun when a batch is planned and is acknowledged before that batch is sent.
Not for: reading the source, that is `drlib.mirror.engine.fetch.fetcher`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Protocol

from drlib.errors import DrlibError
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.net.connection import ProduceResult
from drlib.kafka.protocol.batch import OutgoingBatch
from drlib.kafka.protocol.error_codes import FENCED, REFUSED, TOPIC_AUTHORIZATION_FAILED, BrokerError, refusal
from drlib.mirror.engine.fencing.membership import Membership
from drlib.mirror.engine.fencing.producer_expiration import Expiry
from drlib.mirror.engine.fetch.fetcher import Fetcher
from drlib.mirror.engine.fetch.flow_control import Flight, InFlightWindow
from drlib.mirror.engine.fetch.memory import Memory
from drlib.mirror.engine.fetch.partition_stream import Outgoing, PartitionStream
from drlib.mirror.engine.fetch.round_trip_time import measure
from drlib.mirror.engine.lane.foreign_records import foreign_ranges
from drlib.mirror.engine.lane.markers import Markers, report_foreign
from drlib.mirror.engine.lane.parked_partitions import Parking
from drlib.mirror.errors import LaneFault, LaneLost
from drlib.mirror.failpoints import hit
from drlib.mirror.journal.entries import Entry, Parked
from drlib.mirror.offsets.map.journal_log import LaneJournal
from drlib.mirror.status.worker_status import EventLog

REQUEST_BYTES = 2 << 20
LEAST_WINDOW = 4 << 20  # bytes on their way per target broker before anything is known of the link
PROGRESS_S = 1.0  # how often acknowledged progress is journaled


async def _all(tasks: Sequence[asyncio.Task[None]]) -> None:
    await asyncio.gather(*tasks)


class Observer(Protocol):
    """Who wants to know: group positions, offset syncs, status."""

    def progressed(self, stream: PartitionStream) -> None:
        """The source was read further without anything to send, or the stream has just begun."""

    def acked(self, stream: PartitionStream, item: Outgoing) -> None:
        """A batch stands on the target."""


class ProduceLoop:
    """Runs until stopped, or until the claim ends with `LaneFault` or `LaneLost`."""

    def __init__(
        self,
        lane: str,
        source: ClusterClient,
        target: ClusterClient,
        journal: LaneJournal,
        streams: Sequence[PartitionStream],
        membership: Membership,
        events: EventLog,
        observer: Observer,
        expiry: Expiry,
        memory: Memory,
        parking: Parking,
        loss_policy: str = "continue",
    ) -> None:
        self.lane = lane
        self.source = source
        self.target = target
        self.journal = journal
        self.streams = streams
        self.membership = membership
        self.events = events
        self.observer = observer
        self.parking = parking
        self._after: dict[
            PartitionStream, tuple[str, str, str]
        ] = {}  # to be parked when what was read before is delivered
        self._stamped: set[str] = set()  # mirror topics that give records times of their own
        self._targets = {(s.target.topic, s.target.partition): s for s in streams}
        self._work = asyncio.Event()
        self._fetcher = Fetcher(lane, source, journal, streams, events, memory, self, loss_policy)
        self._markers = Markers(lane, target, journal, streams, expiry, events, self._work.set)
        self._inquiries: set[asyncio.Task[None]] = set()
        self._moved: dict[PartitionStream, None] = {}  # with something to journal of its progress, maybe
        self._busy: dict[
            PartitionStream, dict[PartitionStream, None]
        ] = {}  # stream -> those of its leader with batches to send
        self._most_in_flight = max(LEAST_WINDOW, memory.limit // 2)
        self._draining = False
        self._in_flight = 0
        self._failed: asyncio.Future[None] | None = None

    async def run(self, leaders: Mapping[tuple[str, int], int]) -> None:
        """Pump until `drain` was called and everything fetched is acknowledged. `leaders`: target partition -> node."""
        loop = asyncio.get_running_loop()
        self._failed = loop.create_future()
        by_node: dict[int, dict[PartitionStream, None]] = {}
        for stream in self.streams:
            self._busy[stream] = by_node.setdefault(leaders[stream.target.topic, stream.target.partition], {})
        fetch = asyncio.create_task(self._fetcher.run())
        progress = asyncio.create_task(self._progress())
        marking = asyncio.create_task(self._markers.run())
        senders = [asyncio.create_task(self._send_loop(node, busy)) for node, busy in by_node.items()]
        senders = senders or [asyncio.create_task(self._idle())]
        sending = asyncio.create_task(_all(senders))
        ends: set[asyncio.Future[None]] = {fetch, progress, marking, sending, self._failed}
        try:
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            await asyncio.gather(*self._inquiries)
        finally:
            for inquiry in self._inquiries:
                inquiry.cancel()
            duties = (fetch, progress, marking, sending, *senders)
            for task in duties:
                task.cancel()
            await asyncio.gather(*duties, return_exceptions=True)
            if not self._failed.done():
                self._failed.cancel()
            elif not self._failed.cancelled():
                self._failed.exception()  # looked at: another task may have ended the claim first
        await self.journal.append([entry for stream in self.streams for entry in stream.progress()])

    def drain(self) -> None:
        """Fetch no more; `run` returns when all that was fetched is acknowledged and journaled."""
        self._draining = True
        self._fetcher.drain()
        self._work.set()

    # -- what the fetcher tells --------------------------------------------------------------------------------------

    def read(self, stream: PartitionStream, planned: Sequence[Outgoing], entries: Sequence[Entry]) -> None:
        """The source was read further: `entries` must stand in the journal before any of `planned` is sent."""
        self.observer.progressed(stream)
        self.parking.moved(stream)
        self._moved[stream] = None
        if planned:
            self._busy[stream][stream] = None
        if entries:
            promise = self.journal.begin(entries)
            for item in planned:
                item.promise = promise
            promise.add_done_callback(self._promised)
        elif planned:
            self._work.set()

    def park(self, stream: PartitionStream, reason: str, event: str = "Parked", entity: str = "") -> None:
        """Stop one partition, visibly, once what was read before is delivered; the others go on."""
        if stream.queue or stream.unacked:
            self._after[stream] = (reason, event, entity)
            return
        self._park(stream, reason, event, entity)

    def _park(self, stream: PartitionStream, reason: str, event: str, entity: str = "") -> None:
        at = stream.mirrored
        self._after.pop(stream, None)
        stream.park(reason)
        self._busy[stream].pop(stream, None)
        self._work.set()
        self.parking.park(stream, at, event, entity or str(stream.source), reason)
        parked = Parked(stream.key, at, reason, int(time.time() * 1000))
        stream.map.apply(parked)
        self.journal.begin([parked]).add_done_callback(self._promised)

    def _promised(self, promise: asyncio.Task[None]) -> None:
        if promise.cancelled():
            return
        error = promise.exception()
        if error is not None:
            self.fail(error)
            return
        hit("after-journal-write")
        self._work.set()

    # -- target side ---------------------------------------------------------------------------------------------

    async def _idle(self) -> None:
        """A lane with nothing to copy still waits to be told."""
        while not self._draining:
            self._work.clear()
            await self._work.wait()

    async def _send_loop(self, node: int, busy: dict[PartitionStream, None]) -> None:
        """Send what the streams led by `node` have ready. `busy`: those with batches, the longest waiting first."""
        connection = await self.target.connection(node, f"produce-{self.lane}")
        window = InFlightWindow(LEAST_WINDOW, self._most_in_flight)
        ping = asyncio.create_task(measure(self.target, node, window, lambda: bool(busy)))
        try:
            while True:
                if not window.open or not any(s.ready() and not self._markers.holds(s) for s in busy):
                    if self._draining and not self._in_flight and not busy:
                        return
                    self._work.clear()
                    await self._work.wait()
                    continue
                await self.membership.until_may_send()
                topics, size = self._pick(busy, min(REQUEST_BYTES, window.size // 2))
                if not topics:
                    continue
                self._fetcher.room()
                self._in_flight += 1
                hit("after-claim")
                answer = connection.produce_many(topics)
                flight = window.sent(time.monotonic(), size)
                answer.add_done_callback(partial(self._answered, window=window, flight=flight))
                hit("mid-produce")
                await connection.drain()
        finally:
            ping.cancel()

    def _pick(
        self, busy: dict[PartitionStream, None], most: int
    ) -> tuple[dict[str, list[tuple[int, OutgoingBatch]]], int]:
        """One batch of each stream that has one ready, up to about `most` bytes; who was served goes to the end."""
        topics: dict[str, list[tuple[int, OutgoingBatch]]] = {}
        size = 0
        for stream in list(busy):
            del busy[stream]
            if stream.parked:
                continue
            if stream.ready() and not self._markers.holds(stream):
                batch = stream.send_next()
                topics.setdefault(stream.target.topic, []).append((stream.target.partition, batch))
                size += batch.size
            if stream.queue:
                busy[stream] = None
            if size > most:
                break
        return topics, size

    def _answered(self, answer: asyncio.Future[list[ProduceResult]], window: InFlightWindow, flight: Flight) -> None:
        self._in_flight -= 1
        window.answered(flight, time.monotonic(), flight.expected)
        self._work.set()
        self._markers.answered()  # once this callback is through
        if answer.cancelled():
            return
        error = answer.exception()
        if error is not None:
            self.fail(LaneFault(self.lane, f"the answer to a produce request is lost ({error})"))
            return
        hit("after-ack")
        for result in answer.result():
            stream = self._targets[result.topic, result.partition]
            if stream.parked:
                continue
            if result.error_code == 0:
                self._stands(stream, result.base_offset)
                self._stamp(result)
            elif result.error_code in FENCED:
                self.fail(LaneLost(self.lane, f"{stream.target} refused our epoch (code {result.error_code})"))
            elif result.error_code in REFUSED:
                why, remedy = self._refusal(stream, result)
                self._park(stream, f"{why}. {remedy}", "TargetRefused")
            elif result.error_code == TOPIC_AUTHORIZATION_FAILED:
                # The broker looks before it appends: the batch stands nowhere.
                error = BrokerError(result.error_code, f"writing {stream.target}", result.error_message)
                self._park(stream, str(error), "TargetUnauthorized", stream.target.topic)
            else:
                self.fail(LaneFault(self.lane, f"{stream.target} answered code {result.error_code}"))

    def _stands(self, stream: PartitionStream, base_offset: int) -> None:
        """The oldest batch on its way stands at `base_offset`."""
        expected = stream.expected
        if base_offset > expected:
            self.journal.begin([stream.shift_placement(base_offset)]).add_done_callback(self._promised)
            stream.inquiries += 1
            inquiry = asyncio.create_task(self._inquire(stream, expected, base_offset))
            self._inquiries.add(inquiry)
            inquiry.add_done_callback(self._inquiries.discard)
        item = stream.acknowledge(base_offset, int(time.time() * 1000))
        if item is not None:
            self._moved[stream] = None
            self._markers.wrote(stream)
            self.observer.acked(stream, item)
            self.parking.moved(stream)
            if stream.idle:
                self._fetcher.room()
            if stream in self._after and not stream.queue and not stream.unacked:
                self._park(stream, *self._after[stream])
        else:
            self.fail(LaneFault(self.lane, f"{stream.target} put a batch at offset {base_offset}, not at {expected}"))

    def _refusal(self, stream: PartitionStream, result: ProduceResult) -> tuple[str, str]:
        item = stream.unacked[0]  # answers come in order: the oldest on its way is the one refused
        return refusal(
            result.error_code,
            result.error_message,
            topic=stream.target.topic,
            records=item.batch.count,
            size=item.batch.size,
            newest_ms=item.max_timestamp,
            now_ms=int(time.time() * 1000),
        )

    def _stamp(self, result: ProduceResult) -> None:
        """Does the mirror topic keep the records' own times?"""
        if result.log_append_time_ms >= 0 and result.topic not in self._stamped:
            self._stamped.add(result.topic)
            self.events.open(
                "TimestampsRewritten",
                result.topic,
                "message.timestamp.type is LogAppendTime on the target: every record gets the time it was mirrored at. "
                f"kafka-configs.sh --bootstrap-server TARGET --alter --topic {result.topic} "
                "--add-config message.timestamp.type=CreateTime",
            )
        elif result.log_append_time_ms < 0 and result.topic in self._stamped:
            self._stamped.discard(result.topic)
            self.events.resolve("TimestampsRewritten", result.topic)

    async def _inquire(self, stream: PartitionStream, start: int, end: int) -> None:
        """Tell what stands before a batch that was put further on than expected."""
        try:
            ranges = await foreign_ranges(self.target, stream.target, stream.target_id, start, end)
            await self.journal.append(report_foreign(self.events, stream, ranges))
            stream.inquiries -= 1
        except LaneLost as lost:
            self.fail(lost)
        except (DrlibError, TimeoutError, OSError) as error:
            self.fail(LaneFault(self.lane, f"{stream.target} from offset {start} on can't be read ({error})"))

    def fail(self, error: BaseException) -> None:
        """End the claim with `error`."""
        if self._failed is not None and not self._failed.done():
            self._failed.set_exception(error)

    async def _progress(self) -> None:
        """Journal what was acknowledged, every second while there is something to say."""
        while True:
            await asyncio.sleep(PROGRESS_S)
            moved, self._moved = self._moved, {}
            entries: list[Entry] = []
            for stream in moved:
                if stream.inquiries:
                    self._moved[stream] = None  # not before what stands between is told
                else:
                    entries += stream.progress()
            if entries:
                await self.journal.append(entries)
