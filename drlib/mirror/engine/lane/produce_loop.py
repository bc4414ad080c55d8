"""The data path of one lane within one claim: planned batches are promised, produced and acknowledged.

Rules:
- One request holds at most one batch per partition; requests are pipelined per target broker, as many as its link holds
  (`drlib.mirror.engine.fetch.flow_control`), and responses come in order.
- Before every send the membership's deadline is checked.
- A response other than the expected one ends the claim (`LaneFault`); a fenced epoch ends ownership (`LaneLost`). The
  exception is a batch appended beyond its expected offset: it is in the log once, behind other producers' records, so its
  placement is journaled, those records are read and reported, and the copy continues.
- A batch that the target refuses for good, whatever the code, a topic we may no longer write, or a partition with too few
  replicas in sync parks its partition alone. It is resumed within the claim; the other partitions continue.
- Partitions with the same leader and replicas share a connection: a broker answers one connection in order, and a request
  waits for the slowest of its partitions' replicas.
- A partition that is due for a marker of ours (`markers`) is blocked until the marker is written.
- The journal write of a promise begins when a batch is planned and is acknowledged before that batch is sent.
- Any error ends the claim with itself, also one in a callback or in a task beside the loop: asyncio would only log it.
Longer than most modules: sending, responses and parks share the state of one claim.
Not for: reading the source, that is `drlib.mirror.engine.fetch.fetcher`.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from drlib.errors import DrlibError
from drlib.kafka.net.connection import Connection, ProduceResult
from drlib.kafka.protocol.batch import OutgoingBatch
from drlib.kafka.protocol.error_codes import (
    AUTHORIZATION,
    CORRUPT_MESSAGE,
    FENCED,
    NOT_ENOUGH_REPLICAS,
    OF_PRODUCER,
    REFUSED,
    RETRIABLE,
    SASL_AUTHENTICATION_FAILED,
    TOO_LARGE,
    TOPIC_AUTHORIZATION_FAILED,
    BrokerError,
    refusal,
)
from drlib.mirror.engine.fetch.context import LaneContext
from drlib.mirror.engine.fetch.fetcher import Fetcher
from drlib.mirror.engine.fetch.flow_control import Flight, InFlightWindow
from drlib.mirror.engine.fetch.partition_stream import PartitionStream, PlannedBatch, Settled
from drlib.mirror.engine.fetch.round_trip_time import measure
from drlib.mirror.engine.lane.foreign_records import foreign_ranges
from drlib.mirror.engine.lane.markers import Markers, record_foreign
from drlib.mirror.engine.lane.parked_partitions import UNAVAILABLE, ParkedPartitions
from drlib.mirror.engine.returns.tail import SourceTail
from drlib.mirror.engine.returns.watch import RETURNED, ReturnWatch
from drlib.mirror.engine.reverse.journal import WAITS
from drlib.mirror.errors import LaneFault, LaneLost, MirrorUnavailable
from drlib.mirror.failpoints import hit
from drlib.mirror.journal.entries import ClaimId, Entry, Parked, SourcePartition
from drlib.mirror.offsets.map.journal_log import LaneJournal
from drlib.mirror.read_batches import LogEnds

REQUEST_BYTES = 2 << 20
LEAST_WINDOW = 4 << 20  # bytes in flight per target broker before the link was measured
PROGRESS_S = 1.0  # between two journal entries of acknowledged progress


_Watched = TypeVar("_Watched", bound="asyncio.Future[None]")


class Observer(Protocol):
    """Is informed of progress: group positions, offset syncs, status."""

    def progressed(self, stream: PartitionStream) -> None:
        """The source was read further without anything to send, or the stream has just begun."""

    def acked(self, stream: PartitionStream, item: PlannedBatch) -> None:
        """A batch was appended and acknowledged on the target."""


class _PendingPark(NamedTuple):
    """A park that waits until what was read before it is delivered."""

    reason: str
    event: str
    entity: str


def is_of_partition(code: int) -> bool:
    """Does an answer concern one partition alone, which may get it for good? A leader that moved, a missing right or login and
    a doubt about the claim are matters of the lane. Damage on the way is sent again either way."""
    of_lane = RETRIABLE | OF_PRODUCER | AUTHORIZATION | {SASL_AUTHENTICATION_FAILED}
    return code == CORRUPT_MESSAGE or code not in of_lane


REPLICA_GROUPS = 8  # connections to one leader, at most


class ProduceLoop:
    """Runs until drained, or until the claim ends with `LaneFault` or `LaneLost`."""

    def __init__(
        self,
        context: LaneContext,
        journal: LaneJournal,
        streams: Sequence[PartitionStream],
        observer: Observer,
        parked: ParkedPartitions,
    ) -> None:
        self.lane = journal.lane
        self.target = context.target
        self.membership = context.membership
        self.events = context.events
        self.clock = context.clock
        self.appends = context.appends
        self.journal = journal
        self.streams = list(streams)
        self.observer = observer
        self.parked = parked
        self._pending_parks: dict[PartitionStream, _PendingPark] = {}
        self._rewritten: set[str] = set()  # mirror topics that replace the records' timestamps
        self._targets = {(s.target.topic, s.target.partition): s for s in streams}
        self._work = asyncio.Event()
        self._fetcher = Fetcher(context, journal, streams, self)
        self.markers = Markers(context, journal, self._work.set)
        self._returns: ReturnWatch | None = None
        if context.stopped is not None:  # topics keep their names
            tail = SourceTail(context.source, self.lane)
            self._returns = ReturnWatch(context.stopped, self.events, self.lane, self, tail)
        self._foreign_reads: set[asyncio.Task[None]] = set()
        self._progressed: dict[PartitionStream, None] = {}  # may have progress to journal
        # stream -> the streams of the same leader that have batches to send, longest waiting first
        self._busy: dict[PartitionStream, dict[PartitionStream, None]] = {}
        self._senders: dict[tuple[int, int], tuple[dict[PartitionStream, None], asyncio.Task[None]]] = {}
        self._groups: dict[int, dict[tuple[int, ...], int]] = {}  # by leader: replicas -> number of the connection
        self._unanswered: Counter[PartitionStream] = Counter()  # requests in flight that hold a batch of the stream
        self._most_in_flight = max(LEAST_WINDOW, context.memory.limit // 2)
        self._draining = False
        self._in_flight = 0
        self._ended = False
        self._failed: asyncio.Future[None] | None = None
        self._drained: asyncio.Future[None] | None = None

    async def run(self, log: LogEnds) -> None:
        """Copy until `drain` was called and everything fetched is acknowledged. `log`: leaders and replicas of the mirrors."""
        loop = asyncio.get_running_loop()
        self._failed, self._drained = loop.create_future(), loop.create_future()
        self._distribute(self.streams, log)
        self._note_drained()
        fetch = asyncio.create_task(self._fetcher.run())
        progress = asyncio.create_task(self._progress())
        marking = asyncio.create_task(self.markers.run())
        endings: set[asyncio.Future[None]] = {fetch, progress, marking, self._drained, self._failed}
        drained = False
        try:
            done, _ = await asyncio.wait(endings, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
            await asyncio.gather(*self._foreign_reads)
            drained = True
        finally:
            for reading in self._foreign_reads:
                reading.cancel()
            tasks = (fetch, progress, marking, *(sender for _, sender in self._senders.values()))
            for task in tasks:
                task.cancel()
            try:
                await asyncio.gather(*tasks, return_exceptions=True)
            finally:  # also where the claim is cancelled once more
                self._end(self._failed, self._drained, drained=drained)
        await self.journal.append([entry for stream in self.streams for entry in stream.progress()])

    def _end(self, failed: asyncio.Future[None], done: asyncio.Future[None], *, drained: bool) -> None:
        """Drop what is not acknowledged, and with it all that the claim has reserved."""
        for topic in self._rewritten:
            self.events.resolve("TimestampsRewritten", topic)  # the next claim sees for itself
        done.cancel()
        if not failed.done():
            failed.cancel()
        elif not failed.cancelled():
            failed.exception()  # retrieved: another task may have ended the claim first
        self._ended = True
        self._end_trial()
        for stream in self.streams:
            stream.release()
        self._fetcher.memory.close(drained=drained)

    def drain(self) -> None:
        """Fetch no more; `run` returns when all that was fetched is acknowledged and journaled."""
        self._draining = True
        self._end_trial()
        self._fetcher.drain()
        self._work.set()
        self._note_drained()

    @property
    def running(self) -> bool:
        """False before `run`, and once the claim drains or has ended."""
        return self._failed is not None and not self._failed.done() and not self._draining and not self._ended

    @property
    def purposes(self) -> list[str]:
        """The connections that batches were sent over."""
        return sorted({_purpose(self.lane, group) for _, group in self._senders})

    def add(self, streams: Sequence[PartitionStream], log: LogEnds) -> None:
        """Copy these partitions too, which have joined the claim: they are fenced and counted."""
        self.streams += streams
        self._targets |= {(s.target.topic, s.target.partition): s for s in streams}
        self._distribute(streams, log)
        self._fetcher.add(streams)

    async def resume(self, streams: Sequence[PartitionStream]) -> None:
        """Try parked partitions of this claim again, from the first record that was not acknowledged.

        Raises `ClaimAgain` where the target has more or less of theirs, `BrokerError` where it does not let us mark them.
        """
        ready = [stream for stream in streams if stream.parked and not self._unanswered[stream]]
        if not ready:
            return
        doubtful = [stream for stream in ready if stream.promised]
        if doubtful:
            await self.markers.mark_again(doubtful)
        for stream in ready:
            stream.limit(self.parked.size_limits.get(stream.target.topic, 0))
        await self.journal.append([entry for stream in ready for entry in stream.resume()])
        self._fetcher.add(ready)

    def _distribute(self, streams: Iterable[PartitionStream], log: LogEnds) -> None:
        """Give each stream to the sender for its leader and replicas."""
        for stream in streams:
            leader, replicas = log.leaders[stream.target], log.replicas[stream.target]
            groups = self._groups.setdefault(leader, {})
            key = (leader, groups.setdefault(replicas, len(groups) % REPLICA_GROUPS))
            if key not in self._senders:
                busy: dict[PartitionStream, None] = {}
                sender = self.watch(asyncio.create_task(self._send_loop(*key, busy)))
                sender.add_done_callback(lambda _: self._note_drained())
                self._senders[key] = busy, sender
            self._busy[stream] = self._senders[key][0]

    def _note_drained(self) -> None:
        drained = self._draining and all(task.done() for _, task in self._senders.values())
        if drained and self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    # -- called by the fetcher -----------------------------------------------------------------------------------------

    def read(self, stream: PartitionStream, planned: Sequence[PlannedBatch], entries: Sequence[Entry]) -> None:
        """Queue `planned`, read from the source; `entries` must be acknowledged by the journal before any of it is sent."""
        self.observer.progressed(stream)
        self.parked.progressed(stream)
        self._progressed[stream] = None
        if planned:
            self._busy[stream][stream] = None
        if entries:
            promise = self.journal.begin(entries)
            for item in planned:
                item.promise = promise
            promise.add_done_callback(self._on_promised)
        elif planned:
            self._work.set()
        if planned and self._returns is not None:
            self._returns.read(stream, planned)

    def park(self, stream: PartitionStream, reason: str, event: str = "Parked", entity: str = "") -> None:
        """Stop one partition once what was read before is delivered, and report it; the others continue."""
        if stream.queue or stream.unacked:
            self._pending_parks.setdefault(stream, _PendingPark(reason, event, entity))  # the first cause counts
            return
        self._park(stream, reason, event, entity)

    def _park(self, stream: PartitionStream, reason: str, event: str, entity: str = "") -> None:
        offset = stream.mirrored
        self._pending_parks.pop(stream, None)
        entity = entity or str(stream.source)
        stream.park(self.parked.with_remedy(event, entity, reason))
        self._busy[stream].pop(stream, None)
        self._fetcher.parked(stream)
        self._work.set()
        self.parked.park(stream, offset, event, entity, reason)
        if event == WAITS:
            return  # nothing is skipped: it is read from here as soon as the reverse flow is ready
        parked = Parked(stream.key, offset, reason, self.clock.now_ms())
        stream.map.apply(parked)
        self.journal.begin([parked]).add_done_callback(self._on_promised)

    # -- called by the watch for records that return -------------------------------------------------------------------

    def wake(self) -> None:
        """Look for batches to send."""
        self._work.set()

    def keeps_timestamps(self, stream: PartitionStream) -> bool:
        """Does the target keep the timestamps of the records?"""
        return stream.target.topic not in self._rewritten

    def stop_topic(self, topic: str, reason: str) -> None:
        """Park every partition of a source topic at once: what was read of it and is not sent would return as well."""
        for stream in self.streams:
            if stream.source.topic == topic and not stream.parked:
                self._park(stream, reason, RETURNED, topic)
            elif stream.source.topic == topic:
                self.parked.explain(stream.source, RETURNED, topic, reason)

    def _end_trial(self) -> None:
        if self._returns is not None:
            self._returns.end()

    def _on_promised(self, promise: asyncio.Future[None]) -> None:
        if promise.cancelled():
            self.fail(LaneFault(self.lane, "a write to the journal was cancelled"))
            return
        error = promise.exception()
        if error is not None:
            self.fail(error)
            return
        hit("after-journal-write")
        self._work.set()

    def watch(self, task: _Watched) -> _Watched:
        """End the claim with the error of `task`, which runs beside the loop and may end before it; returns `task`."""

        def ended(task: asyncio.Future[None]) -> None:
            error = None if task.cancelled() else task.exception()
            if error is not None:
                self.fail(error)

        task.add_done_callback(ended)
        return task

    # -- target side ---------------------------------------------------------------------------------------------

    async def _send_loop(self, node: int, group: int, busy: dict[PartitionStream, None]) -> None:
        """Send what the streams led by `node` have ready. `busy`: those with batches, longest waiting first."""
        connection = await self.target.connection(node, _purpose(self.lane, group))
        window = InFlightWindow(LEAST_WINDOW, self._most_in_flight)
        ping = self.watch(asyncio.create_task(measure(self.target, node, window, lambda: bool(busy))))
        try:
            while True:
                if not window.open or not any(s.ready() and not self.markers.blocks(s) for s in busy):
                    if self._draining and not self._in_flight and not busy:
                        return
                    self._work.clear()
                    await self._work.wait()
                    continue
                await self.membership.until_may_send()
                if connection.is_lost and not window.outstanding:  # with nothing in flight, nothing is in doubt
                    connection = await self.target.connection(node, _purpose(self.lane, group))
                if self._send(connection, busy, window):
                    await connection.drain()
        finally:
            ping.cancel()

    def _send(self, connection: Connection, busy: dict[PartitionStream, None], window: InFlightWindow) -> bool:
        """Send one request of what is ready; False when nothing is. No reference to its batches is left here."""
        topics, size = self._pick(busy, min(REQUEST_BYTES, window.size // 2))
        if not topics:
            return False
        self._fetcher.room()
        self._in_flight += 1
        hit("after-claim")
        sent = [self._targets[topic, number] for topic, batches in topics.items() for number, _ in batches]
        response = connection.produce_many(topics, ends={stream.target: stream.target_next for stream in sent})
        flight = window.sent(time.monotonic(), size)
        response.add_done_callback(partial(self._on_response, sent=sent, window=window, flight=flight))
        hit("mid-produce")
        return True

    def _pick(
        self, busy: dict[PartitionStream, None], most: int
    ) -> tuple[dict[str, list[tuple[int, OutgoingBatch]]], int]:
        """One batch of each stream that has one ready, up to about `most` bytes, in round robin."""
        topics: dict[str, list[tuple[int, OutgoingBatch]]] = {}
        size = 0
        for stream in list(busy):
            del busy[stream]
            if stream.parked:
                continue
            if stream.ready() and not self.markers.blocks(stream):
                self._unanswered[stream] += 1
                batch = stream.send_next()
                topics.setdefault(stream.target.topic, []).append((stream.target.partition, batch))
                size += batch.size
            if stream.queue:
                busy[stream] = None
            if size > most:
                break
        return topics, size

    def _on_response(
        self,
        response: asyncio.Future[list[ProduceResult]],
        sent: Sequence[PartitionStream],
        window: InFlightWindow,
        flight: Flight,
    ) -> None:
        try:
            self._in_flight -= 1
            self._unanswered.subtract(sent)
            window.answered(flight, time.monotonic(), flight.expected)
            self._work.set()
            self.markers.answered()  # takes effect once this callback is through
            error = asyncio.CancelledError() if response.cancelled() else response.exception()
            if self._ended:
                return  # the next claim reads back what was appended
            if error is not None:
                self.fail(LaneFault(self.lane, f"the response to a produce request is lost ({error})"))
                return
            hit("after-ack")
            self._on_results(response.result())
        except Exception as error:
            self.fail(error)

    def _on_results(self, results: Sequence[ProduceResult]) -> None:
        for result in results:
            stream = self._targets[result.topic, result.partition]
            if stream.parked:
                continue
            if result.error_code == 0:
                self._on_appended(stream, result.base_offset)
                self._check_timestamps(result)
            elif result.error_code in FENCED:
                self.fail(LaneLost(self.lane, f"{stream.target} refused our epoch (code {result.error_code})"))
            elif result.error_code in REFUSED or is_of_partition(result.error_code):
                why, remedy = self._refusal(stream, result)
                if result.error_code in TOO_LARGE and stream.unacked[0].batch.count > 1:
                    self.parked.too_large(stream.target.topic, stream.unacked[0].batch.size)
                self._park(stream, f"{why}. {remedy}", "TargetRefused")
            elif result.error_code == NOT_ENOUGH_REPLICAS:  # checked before the append: the batch was not written
                unavailable = MirrorUnavailable(str(stream.target), "too few of its replicas are in sync")
                self._park(stream, f"{unavailable.what}: {unavailable.why}", UNAVAILABLE, str(stream.target))
            elif result.error_code == TOPIC_AUTHORIZATION_FAILED:
                # A broker authorizes before it appends: the batch was not written.
                refused = BrokerError(result.error_code, f"writing {stream.target}", result.error_message)
                self._park(stream, str(refused), "TargetUnauthorized", stream.target.topic)
            else:
                self.fail(LaneFault(self.lane, f"{stream.target} answered code {result.error_code}"))

    def _on_appended(self, stream: PartitionStream, base_offset: int) -> None:
        """Acknowledge the oldest batch in flight, appended at `base_offset`."""
        expected = stream.expected_offset
        if base_offset > expected:
            self.journal.begin([stream.shift_placement(base_offset)]).add_done_callback(self._on_promised)
            self._look_before(stream, expected, base_offset)
        item = stream.acknowledge(base_offset, self.clock.now_ms())
        if item is not None:
            self._progressed[stream] = None
            self.markers.appended(stream)
            self.observer.acked(stream, item)
            if stream.shared and stream.target_id is not None:
                mirror = SourcePartition(stream.target_id, stream.target.partition)  # as the flow back reads it
                self.appends.acknowledged(mirror, stream.claim, base_offset, item.batch.count)
            self.parked.progressed(stream)
            if stream.idle:
                self._fetcher.room()
            if stream in self._pending_parks and not stream.queue and not stream.unacked:
                self._park(stream, *self._pending_parks[stream])
        else:
            self.fail(
                LaneFault(self.lane, f"{stream.target} appended a batch at offset {base_offset}, not at {expected}")
            )

    def _refusal(self, stream: PartitionStream, result: ProduceResult) -> tuple[str, str]:
        item = stream.unacked[0]  # responses come in order: the oldest in flight is the one refused
        return refusal(
            result.error_code,
            result.error_message,
            topic=stream.target.topic,
            records=item.batch.count,
            size=item.batch.size,
            newest_ms=item.max_timestamp,
            now_ms=self.clock.now_ms(),
        )

    def _check_timestamps(self, result: ProduceResult) -> None:
        """Report whether the mirror topic replaces the records' timestamps."""
        if result.log_append_time_ms >= 0 and result.topic not in self._rewritten:
            self._rewritten.add(result.topic)
            self.events.open(
                "TimestampsRewritten",
                result.topic,
                "message.timestamp.type is LogAppendTime on the target: each record gets the time it was mirrored at. "
                f"kafka-configs.sh --bootstrap-server TARGET --alter --topic {result.topic} "
                "--add-config message.timestamp.type=CreateTime",
            )
        elif result.log_append_time_ms < 0 and result.topic in self._rewritten:
            self._rewritten.discard(result.topic)
            self.events.resolve("TimestampsRewritten", result.topic)

    def _look_before(self, stream: PartitionStream, expected: int, base_offset: int) -> None:
        """Begin to read what precedes a batch that was appended beyond its expected offset.

        Of a topic that both directions copy clients write that, and it is not read: only whether the log has our last record.
        """
        before, known = stream.writer_before, (stream.acked, stream.map.target_end)
        end = expected if stream.shared else base_offset
        if before is None and end == expected:
            return
        stream.foreign_reads.append(known)
        reading = self.watch(asyncio.create_task(self._read_foreign(stream, before, known, expected, end)))
        self._foreign_reads.add(reading)
        reading.add_done_callback(self._foreign_reads.discard)

    async def _read_foreign(
        self, stream: PartitionStream, before: ClaimId | None, known: Settled, start: int, end: int
    ) -> None:
        """Journal and report what other producers wrote in [`start`, `end`), behind a record of `before`."""
        try:
            ranges = await foreign_ranges(self.target, stream.target, stream.target_id, before, start, end)
            if found := record_foreign(self.events, stream, ranges, self.clock.now_ms()):
                await self.journal.append(found)
            stream.foreign_reads.remove(known)
        except LaneLost as lost:
            self.fail(lost)
        except (DrlibError, TimeoutError, OSError) as error:
            self.fail(LaneFault(self.lane, f"{stream.target} from offset {start} on cannot be read ({error})"))

    def fail(self, error: BaseException) -> None:
        """End the claim with `error`."""
        if self._failed is not None and not self._failed.done():
            self._failed.set_exception(error)

    async def _progress(self) -> None:
        """Journal acknowledged progress, every second while there is some."""
        while True:
            await asyncio.sleep(PROGRESS_S)
            progressed, self._progressed = self._progressed, {}
            entries: list[Entry] = []
            for stream in progressed:
                entries += stream.progress()
                if stream.foreign_reads:
                    self._progressed[stream] = None  # the rest after the foreign records before it are journaled
            if entries:
                await self.journal.append(entries)


def _purpose(lane: str, group: int) -> str:
    """The connection for one group of replicas."""
    return f"produce-{lane}-{group}"
