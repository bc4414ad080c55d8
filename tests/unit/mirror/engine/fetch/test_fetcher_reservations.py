"""Every reserved byte has an owner and an end: a park, a jump, the end of a reader and of the claim leave nothing reserved.

The source is scripted: each test answers one request after another, in the order that it needs.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from testbed_lane import until

from drlib.errors import Unreachable
from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterMetadata, PartitionMetadata, TopicMetadata
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.error_codes import NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE
from drlib.kafka.protocol.fetch import Fetched, FetchedPartition, FetchPartition
from drlib.mirror.engine.fetch import backlog_reader, fetch_response, fetcher
from drlib.mirror.engine.fetch.fetcher import Fetcher
from drlib.mirror.engine.fetch.memory import Memory
from drlib.mirror.engine.fetch.partition_stream import PartitionStream, PlannedBatch
from drlib.mirror.journal.entries import ClaimId, Entry, SourcePartition
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.status.event_log import EventLog
from drlib.model import TopicPartition

TOPIC = UUID(int=1)
END = 100_000  # of the source's log
RECORD_BYTES = 10_000


def batch_at(offset: int, count: int) -> bytes:
    """A batch of `count` records from `offset` on, as the source returns it."""
    records = [recode.Record(offset + n, 1, b"k", b"v" * RECORD_BYTES) for n in range(count)]
    batch = recode.rebuild(records, codec=0, producer_id=9, producer_epoch=1, base_sequence=0)
    raw = bytearray(batch.head + bytes(batch.body))
    raw[0:8] = offset.to_bytes(8, "big")
    return bytes(raw)


@dataclass
class Request:
    """A fetch request that waits for the test's answer."""

    partitions: Sequence[FetchPartition]
    long_poll: bool
    answer: asyncio.Future[Fetched]
    wait_ms: int

    @property
    def offset(self) -> int:
        return self.partitions[0].offset

    def records(self, count: int, *, offset: int = -1) -> None:
        """Answer with `count` records."""
        self._answered(0, batch_at(self.offset if offset < 0 else offset, count))

    def refused(self, code: int) -> None:
        self._answered(code, b"")

    def nothing(self) -> None:
        self._answered(0, b"")

    def _answered(self, code: int, records: bytes) -> None:
        number = self.partitions[0].partition
        answer = FetchedPartition(TOPIC, number, code, END, END, 0, (), None, -1, -1, memoryview(records))
        self.answer.set_result(Fetched(0, 1 if self.long_poll else 0, [answer], len(records) + 100))


@dataclass
class Source:
    """A source of one broker that answers what the test tells it to; the journal of the claim, too."""

    log_start: int = 0
    lane: str = "lane.0"
    unreachable: bool = False
    looked_up: int = 0
    requested: list[Request] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    hold_log_ends: asyncio.Event = field(default_factory=asyncio.Event)
    asked_log_ends: asyncio.Event = field(default_factory=asyncio.Event)

    async def metadata(self, names: Sequence[str]) -> ClusterMetadata:
        self.looked_up += 1
        if self.unreachable:
            raise Unreachable("the source", "it is off", "Start it.")
        partition = PartitionMetadata(0, 1, 0, (1,), (1,), 0)
        return ClusterMetadata(
            "c", 1, {}, {name: TopicMetadata(name, TOPIC, 0, {0: partition}, False) for name in names}
        )

    async def connection(self, node: int, purpose: str) -> Any:
        return SimpleNamespace(peer="source", purpose=purpose)

    def fetch(self, connection: Any, partitions: Sequence[FetchPartition], **options: Any) -> asyncio.Future[Fetched]:
        answer = asyncio.get_running_loop().create_future()
        self.requested.append(Request(tuple(partitions), options["min_bytes"] > 0, answer, options["max_wait_ms"]))
        self.asked.set()
        return answer

    async def log_ends(self, connection: Any, partitions: Sequence[TopicPartition], when: int) -> Any:
        self.asked_log_ends.set()
        await self.hold_log_ends.wait()
        return dict.fromkeys(partitions, self.log_start if when == requests.EARLIEST else END)

    def answer_all(self) -> None:
        """Answer with records whatever has been requested."""
        while self.requested:
            self.requested.pop(0).records(1)

    async def append(self, entries: Sequence[Entry]) -> None:
        pass

    async def next_request(self) -> Request:
        """The next request that was sent, in order."""
        async with asyncio.timeout(5):
            while not self.requested:
                self.asked.clear()
                await self.asked.wait()
        return self.requested.pop(0)

    async def next_request_at(self, offset: int) -> Request:
        """The next request from `offset` on; those before it are answered with records."""
        while (request := await self.next_request()).offset != offset:
            request.records(1)
        return request


@dataclass
class Target:
    """Takes batches at once, or keeps them queued until the test says so."""

    takes: bool = True
    parked: asyncio.Event = field(default_factory=asyncio.Event)
    failed: list[BaseException] = field(default_factory=list)

    def read(self, stream: PartitionStream, planned: Sequence[PlannedBatch], entries: Sequence[Entry]) -> None:
        if self.takes:
            self.take(stream)

    def take(self, stream: PartitionStream) -> None:
        while stream.queue:
            stream.send_next()
            stream.acknowledge(stream.expected_offset, 0)

    def park(self, stream: PartitionStream, reason: str, event: str = "Parked", entity: str = "") -> None:
        stream.park(reason)
        self.parked.set()

    def fail(self, error: BaseException) -> None:
        self.failed.append(error)

    def watch(self, task: asyncio.Task[None]) -> asyncio.Task[None]:
        return task


@dataclass
class Lane:
    """A fetcher that reads one partition of a scripted source."""

    source: Source
    target: Target
    stream: PartitionStream
    fetcher: Fetcher
    events: EventLog

    @property
    def held(self) -> int:
        return self.fetcher.memory.held

    async def settled(self) -> None:
        """Let every task do what it can without a further answer."""
        for _ in range(20):
            await asyncio.sleep(0)

    async def two_requests_in_flight(self, *, takes: bool = True) -> tuple[Request, Request]:
        """Read until the backlog reader pipelines; both requests are not answered yet."""
        (await self.source.next_request()).records(4)  # of the long poll
        first = await self.source.next_request()
        assert not first.long_poll
        self.target.takes = takes
        first.records(4)
        one = await self.source.next_request()
        two = await self.source.next_request()
        assert self.stream.position == one.offset < two.offset
        return one, two

    async def park_beyond_a_hole(self) -> None:
        """Park the partition while records beyond its position have arrived, and let every request be answered."""
        one, two = await self.two_requests_in_flight(takes=False)
        self.source.log_start = two.offset
        one.refused(OFFSET_OUT_OF_RANGE)
        two.records(4)
        again = await self.source.next_request_at(one.offset)  # what was read before has to be delivered first
        self.source.answer_all()
        self.target.take(self.stream)
        again.refused(OFFSET_OUT_OF_RANGE)
        async with asyncio.timeout(5):
            await self.target.parked.wait()
        for _ in range(3):
            await self.settled()
            self.source.answer_all()
        await self.settled()


@pytest.fixture
def lane(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lane]:
    source, target, events = Source(), Target(), EventLog()
    source.hold_log_ends.set()

    async def nothing(*_: object) -> None:
        pass

    monkeypatch.setattr(requests, "fetch_future", source.fetch)
    monkeypatch.setattr(requests, "list_offsets", source.log_ends)
    monkeypatch.setattr(fetcher, "wait_for_response", nothing)
    monkeypatch.setattr(backlog_reader, "measure", nothing)
    monkeypatch.setattr(backlog_reader, "PAUSE_S", 0.0)
    monkeypatch.setattr(fetch_response, "DRAIN_POLL_S", 0.0)
    stream = PartitionStream(
        SourcePartition(TOPIC, 0), TopicPartition("t", 0), TopicPartition("A.t", 0), ClaimId(1, 1), PartitionMap(), 0, 0
    )
    stream.start(0)
    context = SimpleNamespace(
        source=source, events=events, memory=Memory(), loss_policy="park", reverse=None, rack="", appends=None
    )
    found = Fetcher(cast(Any, context), cast(Any, source), [stream], target)
    gc.disable()  # what only the collector would release counts as kept
    yield Lane(source, target, stream, found, events)
    gc.enable()


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_request_through_a_backlog_waits_for_what_the_broker_reads_from_tiered_storage(lane: Lane) -> None:
    """Before Kafka 3.8 a broker answers nothing where the request's own wait ends first (KIP-1018)."""
    running = asyncio.create_task(lane.fetcher.run())
    one, _ = await lane.two_requests_in_flight()
    await end(running)
    assert (one.wait_ms, one.long_poll) == (500, False)


@pytest.mark.parametrize("moved_before", [False, True], ids=["first readers", "after a leader moved"])
async def test_response_beyond_expired_records_is_released_when_the_partition_is_parked(
    lane: Lane, moved_before: bool
) -> None:
    """Retention overtook the first of two requests: the second one's records wait behind a hole that is never filled."""
    running = asyncio.create_task(lane.fetcher.run())
    if moved_before:
        (await lane.source.next_request()).refused(NOT_LEADER_OR_FOLLOWER)
    await lane.park_beyond_a_hole()
    kept = lane.held
    await end(running)
    assert (kept, lane.held) == (0, 0)


@pytest.mark.parametrize("when", ["asked", "delivering"])
async def test_reader_that_is_cancelled_while_it_judges_a_refusal_keeps_nothing(lane: Lane, when: str) -> None:
    """The drain of the claim ends while the source's log ends are looked up, or while what was read is delivered."""
    running = asyncio.create_task(lane.fetcher.run())
    one, two = await lane.two_requests_in_flight(takes=False)
    lane.source.log_start = two.offset
    lane.source.asked_log_ends.clear()
    if when == "asked":
        lane.source.hold_log_ends.clear()
    two.records(4)
    one.refused(OFFSET_OUT_OF_RANGE)
    async with asyncio.timeout(5):
        await lane.source.asked_log_ends.wait()
    await lane.settled()
    assert lane.held > 0
    lane.stream.release()
    await end(running)
    assert lane.held == 0


async def test_reader_that_is_cancelled_with_a_response_beyond_a_hole_keeps_nothing(lane: Lane) -> None:
    running = asyncio.create_task(lane.fetcher.run())
    one, two = await lane.two_requests_in_flight()
    one.nothing()
    two.records(4)
    await lane.source.next_request()
    await lane.settled()
    lane.stream.release()
    await end(running)
    assert lane.held == 0


async def test_leader_that_moves_drops_what_was_received_beyond_a_hole(lane: Lane) -> None:
    running = asyncio.create_task(lane.fetcher.run())
    one, two = await lane.two_requests_in_flight()
    one.nothing()
    two.records(4)
    hole = await lane.source.next_request_at(one.offset)
    lane.source.unreachable = True
    hole.refused(NOT_LEADER_OR_FOLLOWER)
    await until("the leaders are looked up again", lambda: lane.source.looked_up > 1)
    assert lane.held == 0
    await end(running)


async def test_end_of_the_claim_that_meets_an_error_of_a_reader_ends_the_fetcher(lane: Lane) -> None:
    """A task group that has errors forgets that its task was cancelled."""
    running = asyncio.create_task(lane.fetcher.run())
    await lane.source.next_request()
    await lane.settled()
    lane.fetcher.add([])  # ends the readers
    await asyncio.sleep(0)
    running.cancel()
    done, _ = await asyncio.wait([running], timeout=1.0)
    running.cancel()
    assert done, "it reads on"
    assert running.cancelled()
