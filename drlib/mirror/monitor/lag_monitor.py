"""Measure the lag of every partition of a flow at an interval, and forecast catching up and expiry of records.

Rules:
- Log ends, log starts and last stable offsets come with the fetch responses that arrive anyway. Where none arrived since the
  last measurement (on a slow link one may take many seconds) they are requested, in one request a broker; where that fails too,
  `as_of_ms` says how old they are. Measuring partitions without lag needs no request, and at most half a hundredth of a core.
- The timestamp of the oldest unmirrored record comes from the batches in memory; only where a partition does not advance is it
  read from the source, once per position and for `PROBES` partitions at a time, on a connection of its own.
- The last known retention (`drlib.mirror.monitor.retention`) stays valid: a source that cannot be reached still deletes
  records.
- One event per partition, resolved when its cause ends or its lane is lost (rules: `drlib.mirror.status.forecast`).
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from drlib import clock
from drlib.config.flow_settings import FlowSettings
from drlib.errors import DrlibError
from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol.batch import iter_batches
from drlib.kafka.protocol.fetch import FetchPartition, TopicId
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.engine.fetch.partition_stream import LongPollCounter, PartitionStream, PlannedBatch
from drlib.mirror.monitor.open_transactions import OpenTransactions
from drlib.mirror.monitor.retention import RetentionWatch
from drlib.mirror.monitor.source_ends import log_bounds
from drlib.mirror.status.forecast import Outlook, Sample, forecast, oldest_unmirrored_ms
from drlib.mirror.status.worker_status import EventLog, Spread, pause_s
from drlib.model import TopicPartition

WINDOW_S = 30.0  # what rates are measured over
PROBES = 8
_BASE_TIMESTAMP = struct.Struct(">q")
_BASE_TIMESTAMP_AT = 27  # in the header of a batch of format 2


class _SpreadCounter:
    """Counts a `Spread` over the last two windows, at a few additions per batch."""

    __slots__ = ("count", "greatest", "last", "least", "previous", "total")

    def __init__(self) -> None:
        self.previous: Spread | None = None
        self.last = 0.0
        self._clear()

    def _clear(self) -> None:
        self.count, self.total, self.least, self.greatest = 0, 0.0, float("inf"), float("-inf")

    def add(self, value: float) -> None:
        self.last = value
        self.count += 1
        self.total += value
        self.least = min(self.least, value)
        self.greatest = max(self.greatest, value)

    def spread(self) -> Spread | None:
        if not self.count:
            return self.previous
        current = Spread(self.last, self.least, self.total / self.count, self.greatest)
        before = self.previous
        if before is None:
            return current
        return Spread(
            self.last,
            min(before.least, current.least),
            (before.mean + current.mean) / 2,
            max(before.greatest, current.greatest),
        )

    def next_window(self) -> None:
        """End the current window."""
        if self.count:
            self.previous = Spread(self.last, self.least, self.total / self.count, self.greatest)
        else:
            self.previous = None
        self._clear()


@dataclass(slots=True)
class _Measurement:
    """State of one partition between measurements; survives claims, so that counters only grow."""

    topic_id: TopicId | None = None
    samples: deque[Sample] = field(default_factory=deque)
    outlook: Outlook = field(default_factory=Outlook)
    records: int = 0
    bytes: int = 0
    last_mirrored_ms: int | None = None
    covered: int = -1  # source offset after that record
    probed: tuple[int, int] | None = None  # (source offset, timestamp)
    record_bytes: float | None = None  # in the batch that was probed, where none was mirrored yet
    newest: tuple[int, int] | None = None  # (first source offset, newest timestamp) of the batch that was fetched last
    latency: _SpreadCounter = field(default_factory=_SpreadCounter)
    age: _SpreadCounter = field(default_factory=_SpreadCounter)
    end: int = -1  # of the source's log, from the newest response of any kind
    start: int = -1
    stable: int = -1  # its last stable offset, where it was requested
    as_of_ms: int = 0  # when the source last reported it
    answers: int = 0
    pulse: LongPollCounter | None = None
    pulse_answers: int = 0


class LagMonitor:
    """Measures one flow; `streams` returns the partitions of this worker's lanes now."""

    def __init__(
        self,
        settings: FlowSettings,
        cluster: ClusterSettings,
        source: ClusterClient,
        events: EventLog,
        streams: Callable[[], Iterable[PartitionStream]],
    ) -> None:
        self._settings = settings
        self._source = source
        self._events = events
        self._streams = streams
        self._seen: dict[TopicPartition, _Measurement] = {}
        self._retention = RetentionWatch(settings, cluster, events, self._topics)
        self._totals: deque[tuple[float, int, int]] = deque()
        self._measured_ms: int | None = None
        self._window_started = 0.0
        self._leaders: dict[TopicPartition, int] = {}
        self._open_events: set[tuple[str, str]] = set()
        self._transactions = OpenTransactions(settings, cluster, source, events)

    async def run(self) -> None:
        """Measure until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._repeat())
            tasks.create_task(self._retention.run())

    def _topics(self) -> frozenset[str]:
        return frozenset(stream.source.topic for stream in self._streams())

    # -- what the lanes report -----------------------------------------------------------------------------------

    def acked(self, stream: PartitionStream, item: PlannedBatch) -> None:
        """A batch was acknowledged by the target."""
        measured = self._of(stream.source)
        measured.records += item.batch.count
        measured.bytes += item.batch.size
        measured.last_mirrored_ms, measured.covered = item.max_timestamp, item.covers
        measured.latency.add(time.time() * 1000 - item.max_timestamp)

    def progressed(self, stream: PartitionStream) -> None:
        """A batch was fetched."""
        if not stream.queue:
            return
        batch, measured = stream.queue[-1], self._of(stream.source)
        if (newest := (batch.pieces[0][0], batch.max_timestamp)) != measured.newest:
            measured.newest = newest  # not the batch itself, whose bytes would stay in memory
            measured.age.add(time.time() * 1000 - newest[1])

    # -- what status shows ---------------------------------------------------------------------------------------

    def outlook(self, partition: TopicPartition) -> Outlook:
        return self._of(partition).outlook

    def log(self, stream: PartitionStream) -> tuple[int, int, int]:
        """Start and end of the source's log from the newest response, and its time; -1 for unknown."""
        measured = self._of(stream.source)
        return max(stream.log_start, measured.start), max(stream.high_watermark, measured.end), measured.as_of_ms

    def waiting(self, stream: PartitionStream) -> int:
        """Source offsets that could be mirrored now: below the last stable offset, and not on the target."""
        stable = max(stream.last_stable, self._of(stream.source).stable)
        return max(0, stable - self._oldest_to_mirror(stream))

    def counted(self, partition: TopicPartition) -> tuple[int, int]:
        """Records and bytes mirrored since the worker started."""
        measured = self._of(partition)
        return measured.records, measured.bytes

    def spreads(self, partition: TopicPartition) -> tuple[Spread | None, Spread | None]:
        """Replication latency and record age."""
        measured = self._of(partition)
        return measured.latency.spread(), measured.age.spread()

    def rates(self) -> tuple[float | None, float | None]:
        """Records and bytes per second of the flow in this worker."""
        if len(self._totals) < 2 or self._totals[-1][0] <= self._totals[0][0]:
            return None, None
        (began, records, size), (now, records_now, size_now) = self._totals[0], self._totals[-1]
        return (records_now - records) / (now - began), (size_now - size) / (now - began)

    # -- measuring -----------------------------------------------------------------------------------------------

    async def _repeat(self) -> None:
        flow = str(self._settings.flow)
        while True:
            streams = list(self._streams())
            cost = 0.0
            try:
                cost = await self._query_source(streams)
                started = time.thread_time()
                self._measure_all(streams)
                cost += time.thread_time() - started
                await self._transactions.check(streams)
                self._events.resolve("WatchFailed", flow, by="looks")
            except Exception as error:  # no failure of the monitor may end the mirroring
                self._leaders.clear()
                self._events.open("WatchFailed", flow, f"{type(error).__name__}: {error}", by="looks")
            await asyncio.sleep(pause_s(self._settings.forecast_interval_ms / 1000, cost))

    def _measure_all(self, streams: Iterable[PartitionStream]) -> None:
        now = time.monotonic()
        now_ms = clock.now_ms()
        open_events: set[tuple[str, str]] = set()
        total_records = total_bytes = 0
        for stream in streams:
            measured = self._of(stream.source)
            if measured.topic_id is None:
                measured.topic_id = stream.key.topic_id
            elif measured.topic_id != stream.key.topic_id:  # re-created: the earlier state is of another log
                measured = self._seen[stream.source] = _Measurement(
                    stream.key.topic_id, records=measured.records, bytes=measured.bytes
                )
            self._measure(stream, measured, now, now_ms, open_events)
        for measured in self._seen.values():
            total_records += measured.records
            total_bytes += measured.bytes
        if now - self._window_started > WINDOW_S:
            self._window_started = now
            for measured in self._seen.values():
                measured.latency.next_window()
                measured.age.next_window()
        self._totals.append((now, total_records, total_bytes))
        while len(self._totals) > 2 and self._totals[1][0] < now - WINDOW_S / 3:
            self._totals.popleft()
        for name, entity in self._open_events - open_events:
            self._events.resolve(name, entity)
        self._open_events = open_events
        self._measured_ms = now_ms

    def _measure(
        self,
        stream: PartitionStream,
        measured: _Measurement,
        now: float,
        now_ms: int,
        open_events: set[tuple[str, str]],
    ) -> None:
        before = measured.samples[-1] if measured.samples else None
        if not self._is_stale(stream):
            measured.as_of_ms = now_ms
        measured.answers, measured.pulse = stream.responses, stream.long_poll
        measured.pulse_answers = stream.long_poll.responses if stream.long_poll is not None else 0
        end = measured.end = max(stream.high_watermark, measured.end)
        mirrored = self._oldest_to_mirror(stream)
        if end < 0:
            return
        if mirrored == end and before is not None and before.mirrored == before.end == end and measured.outlook.idle:
            # idle, like most partitions most of the time
            measured.samples[-1] = Sample(now, mirrored, end, copied=measured.records if stream.shared else None)
            return
        start = max(stream.log_start, measured.start)  # what expired says nothing about the rest
        oldest = oldest_unmirrored_ms(
            lag=end - mirrored,
            queued_ms=_first_timestamp(stream) if stream.mirrored >= start else None,
            probed_ms=measured.probed[1] if measured.probed is not None and measured.probed[0] == mirrored else None,
            mirrored=mirrored,
            end_before=None if before is None else before.end,
            measured_before_ms=self._measured_ms,
            last_mirrored_ms=measured.last_mirrored_ms if measured.covered >= start else None,
        )
        measured.outlook = forecast(
            measured.samples,
            Sample(now, mirrored, end, copied=measured.records if stream.shared else None),
            window_s=WINDOW_S,
            now_ms=now_ms,
            oldest_ms=oldest,
            record_bytes=measured.bytes / measured.records if measured.records else measured.record_bytes,
            retention=self._retention.known.get(stream.source.topic),
            warning_s=self._settings.retention_warning_s,
        )
        if measured.outlook.warning:
            entity = str(stream.source)
            self._events.open("RetentionAhead", entity, f"{measured.outlook.warning} (source offset {mirrored})")
            open_events.add(("RetentionAhead", entity))

    def _of(self, partition: TopicPartition) -> _Measurement:
        measured = self._seen.get(partition)
        if measured is None:
            measured = self._seen[partition] = _Measurement()
        return measured

    # -- querying the source -------------------------------------------------------------------------------------

    async def _query_source(self, streams: Iterable[PartitionStream]) -> float:
        """For partitions that do not advance: their log ends, and one batch where none of them is in memory.

        Returns the processor time that selecting them took, in seconds.
        """
        started = time.thread_time()
        stale = [stream for stream in streams if self._is_stale(stream)]
        cost = time.thread_time() - started
        try:
            await self._read_log_ends(stale)
            started = time.thread_time()
            probes = [stream for stream in streams if self._wants_probe(stream)]
            cost += time.thread_time() - started
            await self._look_up_leaders(stream.source for stream in probes)
            for stream in [stream for stream in probes if stream.source in self._leaders][:PROBES]:
                mirrored = self._oldest_to_mirror(stream)
                connection = await self._source.connection(self._leaders[stream.source], "forecast")
                batch = await first_batch(connection, stream.key.topic_id, stream.source, mirrored)
                measured = self._of(stream.source)
                measured.probed = (mirrored, -1 if batch is None else batch[0])
                measured.record_bytes = None if batch is None else batch[1]
        except (DrlibError, TimeoutError, OSError, KeyError):
            self._leaders.clear()  # gone or moved: the lanes report it
        return cost

    def _is_stale(self, stream: PartitionStream) -> bool:
        """True where no fetch response came since the last measurement, neither its own nor one shared with others."""
        measured = self._of(stream.source)
        pulse = stream.long_poll
        return stream.responses == measured.answers and (
            pulse is None or pulse is not measured.pulse or pulse.responses == measured.pulse_answers
        )

    def _wants_probe(self, stream: PartitionStream) -> bool:
        measured = self._of(stream.source)
        mirrored = self._oldest_to_mirror(stream)
        if not measured.samples or measured.samples[-1].mirrored != mirrored:
            return False  # it advances: the batches mirrored give its age
        known = _first_timestamp(stream) is not None or (measured.probed is not None and measured.probed[0] == mirrored)
        return not known and max(stream.high_watermark, measured.end) > mirrored

    async def _read_log_ends(self, streams: Iterable[PartitionStream]) -> None:
        """Request log ends from their leaders; a partition without one or that is refused holds up no other."""
        stale = [stream.source for stream in streams]
        await self._look_up_leaders(stale)
        by_node: dict[int, list[TopicPartition]] = {}
        for partition in stale:
            if partition in self._leaders:
                by_node.setdefault(self._leaders[partition], []).append(partition)
        reads = [self._read_ends_of(node, partitions) for node, partitions in by_node.items()]
        for result in await asyncio.gather(*reads, return_exceptions=True):
            if result is not None:
                raise result

    async def _read_ends_of(self, node: int, partitions: Sequence[TopicPartition]) -> None:
        found, _ = await log_bounds(await self._source.connection(node, "forecast"), partitions)
        for partition in partitions:
            if partition not in found:
                self._leaders.pop(partition, None)
                continue
            measured = self._of(partition)
            measured.end, measured.start, measured.stable = found[partition]
            measured.as_of_ms = clock.now_ms()

    def _oldest_to_mirror(self, stream: PartitionStream) -> int:
        """The oldest source offset that can still be mirrored; earlier unmirrored records have expired."""
        return max(stream.mirrored, stream.log_start, self._of(stream.source).start)

    async def _look_up_leaders(self, partitions: Iterable[TopicPartition]) -> None:
        topics = sorted({partition.topic for partition in partitions if partition not in self._leaders})
        metadata = await self._source.metadata(topics) if topics else None
        for name, topic in metadata.topics.items() if metadata is not None else ():
            found = {TopicPartition(name, number): p.leader for number, p in topic.partitions.items()}
            self._leaders |= {partition: leader for partition, leader in found.items() if leader >= 0}


async def first_batch(
    connection: Connection, topic_id: TopicId, partition: TopicPartition, offset: int
) -> tuple[int, float] | None:
    """Timestamp of the first record at or after `offset`, from its batch header, and mean bytes of a record in the batch.

    The response is one batch, which a broker sends whole. None when the broker has no record there.
    """
    wanted = FetchPartition(partition.topic, topic_id, partition.partition, offset, 1)
    (answer,) = await requests.fetch(connection, [wanted], min_bytes=0, max_bytes=1, read_committed=False)
    for header, view in iter_batches(answer.records):
        if header.last_offset >= offset and header.count:
            stamp = header.max_timestamp if header.is_log_append_time else header.base_timestamp
            return stamp, len(view) / header.count
    return None


def _first_timestamp(stream: PartitionStream) -> int | None:
    """The timestamp of the oldest batch that was fetched and is not acknowledged."""
    first = stream.unacked[0] if stream.unacked else stream.queue[0] if stream.queue else None
    if first is None:
        return None
    return int(_BASE_TIMESTAMP.unpack_from(first.batch.head, _BASE_TIMESTAMP_AT)[0])
