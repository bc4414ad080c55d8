"""Pipelined fetches through partitions that are behind their source.

Rules:
- A broker answers in order, so the next requests are sent before the first is answered: at o, o+d, o+2d, where d is a
  little less than the records per byte of recent responses promise. Overlap is trimmed, a hole is fetched once more.
- Nothing is fetched beyond the offset the source last called readable, and no request waits at the broker but for what it reads
  from tiered storage: before Kafka 3.8 (KIP-1018) it gives that up, and answers nothing, when the request's own wait is over.
- A request asks for half a window, so that two are always in flight.
- As many bytes are in flight as the link holds (`flow_control`) and the worker's memory allows. Whatever other lanes have
  reserved, a reader with nothing in flight may send one small request.
- What this worker's reverse flow appended is left out (`engine.reverse.appends`): while it fills a partition, little is
  requested, and seldom, so that most of it is acknowledged before.
- What was received belongs to the batches planned from it: between two responses a reader refers to none.
- A partition that returned nothing although it is behind is fetched alone: a broker returns a batch larger than the limit
  only for the first partition of a request. If that returns nothing for seconds, `SourceStalled` is opened: its log may be
  damaged there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from drlib.kafka.net import requests
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol.error_codes import raise_for
from drlib.kafka.protocol.fetch import Fetched, FetchPartition, TopicId
from drlib.mirror.engine.fetch.fetch_response import QUEUE_BYTES, PartitionFetch, SourceBroker
from drlib.mirror.engine.fetch.flow_control import Flight, InFlightWindow
from drlib.mirror.engine.fetch.memory import Reservation
from drlib.mirror.engine.fetch.round_trip_time import measure
from drlib.mirror.journal.leader_epochs import UNKNOWN_EPOCH

REQUEST_BYTES = 8 << 20
LEAST_BYTES = 64 << 10  # requested of one partition
MOST_BYTES = 2 << 20
REQUEST_PARTITIONS = 32  # with more partitions behind, each is requested less often, for more bytes
LEAST_WINDOW = 2 * REQUEST_BYTES
STEP_SHARE = 0.98  # of the records expected in a response: overlap costs the link the rest, a hole a whole window
DENSITY_MEMORY = 32  # responses until a thin one is forgotten: batches cut off at both ends make the density vary
PAUSE_S = 0.05  # after a response without progress
ALONE_AGAIN_S = 1.0  # least time between two requests for one partition that returns nothing, which block the others
STALLED_S = 5.0
FILLED_S = 0.1  # between two requests to a partition that the reverse flow fills


@dataclass(slots=True)
class FetchRequest:
    """A request in flight: by topic ID and partition, what was requested, from which offset, and after how many jumps."""

    future: asyncio.Future[Fetched]
    partitions: dict[tuple[TopicId, int], tuple[PartitionFetch, int, int]]
    flight: Flight
    reservation: Reservation


class BacklogReader:
    """Reads one lane's partitions that are behind at one broker; `caught_up` gets each that has reached its end."""

    def __init__(self, broker: SourceBroker, caught_up: Callable[[PartitionFetch], None]) -> None:
        self.broker = broker
        self.handler = broker.handler
        self.memory = broker.memory
        self.caught_up = caught_up
        self.window = InFlightWindow(LEAST_WINDOW, max(LEAST_WINDOW, self.memory.limit // 2))
        self._members: dict[PartitionFetch, None] = {}
        self._starved: dict[PartitionFetch, None] = {}
        self._wake = asyncio.Event()
        self._again: asyncio.TimerHandle | None = None  # when a partition that was left out may be requested

    def add(self, fetch: PartitionFetch) -> None:
        """Read a partition that has more records than its last response held."""
        self._members[fetch] = None
        self._wake.set()

    def remove(self, fetch: PartitionFetch) -> None:
        """Request nothing more of a partition that is read at another broker now."""
        self._members.pop(fetch, None)
        self._starved.pop(fetch, None)

    def wake(self) -> None:
        """Check again whether a request may be sent."""
        self._wake.set()

    async def run(self) -> None:
        """Fetch until cancelled. Raises `LeaderMoved`, `Unreachable` or `BrokerError`."""
        connection = await self.broker.connection("fetch")
        in_flight: list[FetchRequest] = []
        ping = asyncio.create_task(
            measure(self.broker.context.source, self.broker.node, self.window, lambda: bool(self._members))
        )
        self.broker.handler.sink.watch(ping)
        try:
            while not self.broker.draining.is_set():
                while request := self._next(connection, bool(in_flight)):
                    in_flight.append(request)
                if not in_flight:
                    self._wake.clear()
                    self.memory.when_freed(self.wake)
                    await self._wake.wait()
                    continue
                await self._receive(connection, in_flight)
        finally:
            ping.cancel()
            self._end_pause()
            self.memory.cancel(self.wake)
            self._abandon(in_flight)

    def _abandon(self, in_flight: list[FetchRequest]) -> None:
        """Drop what was requested and what arrived out of order: the next reader requests it again."""
        for request in in_flight:
            request.future.cancel()
        in_flight.clear()
        for fetch in self._members:
            fetch.requested.clear()
            fetch.stream.ahead.clear()

    async def _receive(self, connection: Connection, in_flight: list[FetchRequest]) -> None:
        """Wait for the oldest response and handle it; no reference to it is left afterwards."""
        response = await in_flight[0].future
        await self._answered(connection, in_flight.pop(0), response)

    def _next(self, connection: Connection, busy: bool) -> FetchRequest | None:
        """Send the next request; None when it must wait. `busy`: others are in flight."""
        tight = not self.memory.has_room()
        if busy and (tight or not self.window.open):
            return None
        if tight and not all(fetch.stream.idle for fetch in self._members):
            return None
        alone = next(iter(self._starved), None)
        if alone is not None and busy:
            return None
        self._starved.clear()
        size = LEAST_BYTES if tight else min(REQUEST_BYTES, self.window.size // 2)
        share = max(LEAST_BYTES, min(MOST_BYTES, size // max(1, min(len(self._members), REQUEST_PARTITIONS))))
        wanted: list[FetchPartition] = []
        partitions: dict[tuple[TopicId, int], tuple[PartitionFetch, int, int]] = {}
        total = 0
        for fetch in [alone] if alone is not None else list(self._members):
            offset = self._next_offset(fetch, share)
            if offset is None:
                continue
            key = (fetch.stream.key.topic_id, fetch.stream.key.partition)
            wanted.append(self._wanted(fetch, offset, share))
            partitions[key] = (fetch, offset, fetch.jumps)
            fetch.requested.append(offset)
            if fetch in self._members:  # round robin: to the end of the line
                self._members[fetch] = self._members.pop(fetch)
            total += share
            if total >= size:
                break
        if not wanted:
            return None
        future = requests.fetch_future(
            connection,
            wanted,
            max_wait_ms=requests.TIERED_WAIT_MS,
            min_bytes=0,
            max_bytes=total,
            read_committed=True,
            by_name=any(fetch.stream.unproven for fetch, _, _ in partitions.values()),
            proof_of=lambda *key: partitions[key][0].stream.proof if key in partitions else None,
        )
        return FetchRequest(future, partitions, self.window.sent(time.monotonic(), total), self.memory.reserve(total))

    def _wanted(self, fetch: PartitionFetch, offset: int, share: int) -> FetchPartition:
        key, epoch, leaves_out = fetch.stream.key, fetch.epoch_at(offset), fetch.left_out is not None
        size = LEAST_BYTES if leaves_out and fetch.only_copies else share
        current = epoch if leaves_out else UNKNOWN_EPOCH
        return FetchPartition(fetch.stream.source.topic, key.topic_id, key.partition, offset, size, epoch, current)

    def _next_offset(self, fetch: PartitionFetch, share: int) -> int | None:
        """The offset of the next request to a partition for `share` bytes; None when none may be sent now."""
        stream = fetch.stream
        if stream.parked:
            self._members.pop(fetch, None)
            return None
        first = min((*fetch.requested, *(offset for offset, _, _ in fetch.stream.ahead)), default=None)
        if fetch.left_out is not None:
            return None  # whether it may be left out, its answer shows
        if first is None:
            if not fetch.behind:
                self._members.pop(fetch, None)
                self.handler.end_stall(stream)
                self.caught_up(fetch)
                return None
            fetch.next_offset = stream.position
            end = None if fetch.full else self.handler.copies_end(fetch)
            if end is not None and (fetch.only_copies or end > stream.position):
                return self._behind_copies(fetch, end)
        if first is not None and first > stream.position and not fetch.full:
            return stream.position  # a hole
        if stream.queued_bytes + len(fetch.requested) * share > QUEUE_BYTES + 2 * self.window.in_transit:
            return None
        if fetch.next_offset >= fetch.end or (fetch.requested and not fetch.density):
            return None
        offset = fetch.next_offset
        fetch.next_offset = offset + max(1, int(fetch.density * share * STEP_SHARE))
        return offset

    def _behind_copies(self, fetch: PartitionFetch, end: int) -> int | None:
        """`end`, up to where the reverse flow has filled a partition; None where nothing may be requested of it yet."""
        now = time.monotonic()
        pause = fetch.asked_at + FILLED_S - now if fetch.only_copies else 0.0
        if pause > 0:
            if self._again is None:
                self._again = asyncio.get_running_loop().call_later(pause, self._end_pause)
            return None
        fetch.asked_at = now
        fetch.left_out = (fetch.stream.position, end)
        return end

    def _end_pause(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None
        self.wake()

    async def _answered(self, connection: Connection, request: FetchRequest, response: Fetched) -> None:
        self.window.answered(request.flight, time.monotonic(), response.size)
        request.reservation.resize(response.size)
        raise_for(response.error_code, f"fetching from {connection.peer}")
        progress = False
        for partition in response.partitions:
            fetch, offset, jumps = request.partitions.pop((partition.topic_id, partition.partition), (None, 0, 0))
            if fetch is None or jumps != fetch.jumps:
                continue
            stream = fetch.stream
            before = stream.position
            fetch.requested.remove(offset)
            if len(partition.records):
                self.handler.resumed(fetch)
            await self.handler.handle(connection, fetch, offset, partition, request.reservation)
            progress = progress or stream.position > before or offset > before
            if offset <= before < stream.position and not fetch.stream.ahead:
                density = (stream.position - offset) / max(1, len(partition.records))
                grown = fetch.density + (density - fetch.density) / DENSITY_MEMORY
                fetch.density = min(density, grown) if fetch.density else density
            elif offset == before == stream.position and before < fetch.end and not (stream.parked or fetch.left):
                alone, has_bytes = len(response.partitions) == 1, len(partition.records) > 0
                self._no_progress(fetch, offset, alone=alone, has_bytes=has_bytes)
        for fetch, offset, jumps in request.partitions.values():  # left out, which no broker does
            if jumps == fetch.jumps:
                fetch.left_out = None
                fetch.requested.remove(offset)
        if not progress:
            await asyncio.sleep(PAUSE_S)

    def _no_progress(self, fetch: PartitionFetch, offset: int, *, alone: bool, has_bytes: bool) -> None:
        """Handle a partition that is behind and did not move; `alone`: it was the only one requested."""
        now = time.monotonic()
        if not alone:
            if now - fetch.alone_at > ALONE_AGAIN_S:
                self._starved[fetch] = None
            return
        fetch.alone_at = now
        if has_bytes:
            why = f"the batch at offset {offset} is larger than the part of it that the source returns"
            self.handler.corrupt(fetch, why)
        elif fetch.empty_since <= 0:
            fetch.empty_since = now
        elif now - fetch.empty_since > STALLED_S:
            self.handler.stalled(fetch, offset)
