"""What is requested of a partition that this worker's reverse flow fills, and what its answers lead to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from drlib.kafka.net import requests
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.error_codes import FENCED_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE
from drlib.kafka.protocol.fetch import DivergingEpoch, Fetched, FetchedPartition, FetchPartition
from drlib.mirror.engine.fetch import backlog_reader
from drlib.mirror.engine.fetch.backlog_reader import LEAST_BYTES, BacklogReader
from drlib.mirror.engine.fetch.context import LaneContext
from drlib.mirror.engine.fetch.fetch_response import FetchResponseHandler, PartitionFetch, SourceBroker
from drlib.mirror.engine.fetch.memory import Memory
from drlib.mirror.engine.fetch.partition_stream import PartitionStream, PlannedBatch
from drlib.mirror.engine.reverse.appends import Appends
from drlib.mirror.engine.reverse.rules import Known, TakenOver
from drlib.mirror.journal.entries import ClaimId, Entry, SourcePartition
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.status.event_log import EventLog
from drlib.model import TopicPartition

TOPIC, LANE, CLIENT, EPOCH, END = UUID(int=1), 77, 9, 5, 1000
CLAIM, KEY = ClaimId(LANE, 1), SourcePartition(TOPIC, 0)


def batch_at(offset: int, producer: int, epoch: int = EPOCH, count: int = 10) -> bytes:
    records = [recode.Record(offset + n, 1, b"k", b"v") for n in range(count)]
    batch = recode.rebuild(records, codec=0, producer_id=producer, producer_epoch=1, base_sequence=0)
    raw = bytearray(batch.head + bytes(batch.body))
    raw[0:8] = offset.to_bytes(8, "big")
    raw[12:16] = epoch.to_bytes(4, "big")
    return bytes(raw)


@dataclass
class Copying:
    """A backlog reader of one shared partition; is source, journal, sink and the reverse flow's journal, too."""

    known: Known = field(default_factory=lambda: Known({LANE: 1}, {CLIENT}))
    admitted: bool = True
    lane: str = "lane.0"
    sent: asyncio.Queue[tuple[FetchPartition, asyncio.Future[Fetched]]] = field(default_factory=asyncio.Queue)
    parked: list[str] = field(default_factory=list)
    caught_up: list[PartitionFetch] = field(default_factory=list)
    appends: Appends = field(default_factory=Appends)
    running: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        found = SimpleNamespace(
            source=self,
            events=EventLog(),
            memory=Memory(),
            loss_policy="park",
            reverse=self,
            rack="",
            appends=self.appends,
        )
        context = cast(LaneContext, found)
        handler = FetchResponseHandler(context, cast(Any, self), self)
        share = context.memory.share("lane")
        broker = SourceBroker(context, share, 1, self.lane, handler, asyncio.Event())
        self.reader = BacklogReader(broker, self.caught_up.append)
        at = TopicPartition("t", 0)
        self.stream = PartitionStream(KEY, at, at, ClaimId(1, 1), PartitionMap(), 0, 0, shared=True, epoch=EPOCH)
        self.stream.start(0)
        self.fetch = PartitionFetch(self.stream, end=END)
        self.reader.add(self.fetch)

    def admits(self, stream: object) -> bool:
        return self.admitted

    def known_of(self, stream: object) -> Known:
        return self.known

    async def hold(self, *_: object) -> None:
        return None

    async def connection(self, node: int, purpose: str) -> Any:
        return SimpleNamespace(peer="source")

    def read(self, stream: PartitionStream, planned: Sequence[PlannedBatch], entries: Sequence[Entry]) -> None:
        while stream.queue:
            stream.send_next()
            stream.acknowledge(stream.expected_offset, 0)

    def park(self, stream: PartitionStream, reason: str, event: str = "Parked", entity: str = "") -> None:
        stream.park(reason)
        self.parked.append(event)

    def fail(self, error: BaseException) -> None:
        raise error

    def watch(self, task: asyncio.Task[None]) -> asyncio.Task[None]:
        return task

    def send(self, connection: Any, partitions: Sequence[FetchPartition], **_: Any) -> asyncio.Future[Fetched]:
        answer: asyncio.Future[Fetched] = asyncio.get_running_loop().create_future()
        self.sent.put_nowait((partitions[0], answer))
        return answer

    async def requested(self) -> tuple[FetchPartition, asyncio.Future[Fetched]]:
        """The next request; reading begins with the first one."""
        if self.running is None:
            self.running = asyncio.create_task(self.reader.run())
        async with asyncio.timeout(5):
            return await self.sent.get()

    async def exchange(self, records: bytes = b"", **other: Any) -> FetchPartition:
        """Answer the next request; returns it."""
        wanted, answer = await self.requested()
        await self.respond(answer, records, **other)
        return wanted

    async def respond(
        self, answer: asyncio.Future[Fetched], records: bytes = b"", *, code: int = 0, end: int = END, **other: Any
    ) -> None:
        """Answer a request, and let it be handled."""
        found = FetchedPartition(TOPIC, 0, code, end, end, 0, (), None, -1, -1, memoryview(records))
        answer.set_result(Fetched(0, 0, [replace(found, **other)], len(records)))
        for _ in range(20):
            await asyncio.sleep(0)


@pytest.fixture
async def copying(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Copying]:
    found = Copying()

    async def nothing(*_: object) -> None:
        pass

    monkeypatch.setattr(requests, "fetch_future", found.send)
    monkeypatch.setattr(backlog_reader, "measure", nothing)
    monkeypatch.setattr(backlog_reader, "PAUSE_S", 0.0)
    monkeypatch.setattr(backlog_reader, "FILLED_S", 0.0)
    yield found
    if found.running is not None:
        found.running.cancel()
        await asyncio.gather(found.running, return_exceptions=True)


def asked(wanted: FetchPartition) -> tuple[int, int, int]:
    return wanted.offset, wanted.last_fetched_epoch, wanted.leader_epoch


async def test_appended_records_are_left_out_by_a_request_behind_them_that_names_the_leader_epoch(
    copying: Copying,
) -> None:
    copying.appends.acknowledged(KEY, CLAIM, 0, 300)
    assert asked(await copying.exchange(batch_at(300, CLIENT))) == (300, EPOCH, EPOCH)
    assert (copying.stream.position, copying.stream.acked, copying.stream.mirrored) == (310, 10, 310)
    assert copying.stream.epoch == EPOCH
    assert copying.stream.map.backward(0).offset == 300


async def test_request_behind_appended_records_that_returns_nothing_leaves_them_out(copying: Copying) -> None:
    copying.appends.acknowledged(KEY, CLAIM, 0, 300)
    await copying.exchange(end=300)
    assert (copying.stream.position, copying.stream.mirrored, copying.caught_up) == (300, 300, [copying.fetch])


async def test_only_one_request_is_in_flight_until_it_is_known_whether_records_may_be_left_out(
    copying: Copying,
) -> None:
    copying.appends.acknowledged(KEY, CLAIM, 0, 300)
    await copying.requested()
    for _ in range(20):
        copying.reader.wake()
        await asyncio.sleep(0)
    assert (copying.sent.qsize(), copying.stream.position) == (0, 0)


@pytest.mark.parametrize(
    "refusal",
    [
        {"code": FENCED_LEADER_EPOCH},
        {"code": NOT_LEADER_OR_FOLLOWER},
        {"code": OFFSET_OUT_OF_RANGE},
        {"diverging_epoch": DivergingEpoch(4, 20)},
    ],
    ids=str,
)
async def test_refusal_of_what_is_left_out_decides_nothing_and_the_position_is_read(
    copying: Copying, refusal: dict[str, Any]
) -> None:
    copying.appends.acknowledged(KEY, CLAIM, 0, 300)
    await copying.exchange(**refusal)
    assert (copying.stream.position, copying.stream.covered, copying.parked) == (0, -1, [])
    assert asked(await copying.exchange(batch_at(0, LANE))) == (0, EPOCH, -1)
    assert copying.stream.position == 10
    assert asked(await copying.exchange(batch_at(10, LANE, EPOCH + 1))) == (10, EPOCH, -1)  # refused in that epoch
    assert asked(await copying.exchange()) == (300, EPOCH + 1, EPOCH + 1)


async def test_answer_that_comes_after_the_position_was_taken_back_leaves_nothing_out(copying: Copying) -> None:
    copying.stream.position = 100
    copying.appends.acknowledged(KEY, CLAIM, 0, 300)
    _, answer = await copying.requested()
    copying.stream.position = 50
    await copying.respond(answer, batch_at(300, CLIENT))
    assert (copying.stream.position, copying.stream.acked) == (50, 0)


@pytest.mark.parametrize(
    "change",
    [
        lambda c: setattr(c.stream, "epoch", -1),
        lambda c: setattr(c.stream, "unproven", True),
        lambda c: c.stream.promised.append((0, 10)),
        lambda c: setattr(c.stream, "shared", False),
        lambda c: setattr(c, "admitted", False),
        lambda c: setattr(c, "known", Known({LANE: 0}, {CLIENT})),
        lambda c: setattr(c, "known", Known({}, {CLIENT})),
        lambda c: setattr(c, "known", replace(c.known, taken=TakenOver(10, ((0, 10),)))),
        lambda c: setattr(c, "known", replace(c.known, relayed={LANE})),
        lambda c: setattr(c.fetch, "to_leader", lambda: None),
    ],
    ids=[
        "epoch not known", "topic not proven", "records are promised", "not shared", "not admitted", "claim not known",
        "not of the reverse flow", "to be copied again", "to be relayed", "read from a follower",
    ],
)  # fmt: skip
async def test_nothing_is_left_out_where(copying: Copying, change: Any) -> None:
    change(copying)
    copying.appends.acknowledged(KEY, CLAIM, 0, 300)
    wanted, _ = await copying.requested()
    assert (wanted.offset, wanted.leader_epoch) == (0, -1)


async def test_reading_of_the_journal_that_changes_whose_records_they_are_leaves_nothing_out(copying: Copying) -> None:
    copying.appends.acknowledged(KEY, CLAIM, 0, 300)
    _, answer = await copying.requested()
    copying.known = replace(copying.known, taken=TakenOver(400, ((0, 400),)))
    await copying.respond(answer, batch_at(300, CLIENT))
    assert (copying.stream.position, copying.stream.acked) == (0, 0)


async def test_partition_with_nothing_but_copies_is_requested_seldom(
    copying: Copying, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlog_reader, "FILLED_S", 3600.0)
    copying.appends.acknowledged(KEY, CLAIM, 0, 300)
    await copying.exchange(batch_at(300, LANE))
    copying.appends.acknowledged(KEY, CLAIM, 300, 100)
    for _ in range(20):
        copying.reader.wake()
        await asyncio.sleep(0)
    assert (copying.stream.position, copying.sent.qsize()) == (310, 0)


async def test_partition_with_nothing_but_copies_is_requested_for_little(copying: Copying) -> None:
    copying.appends.acknowledged(KEY, CLAIM, 0, 300)
    first = await copying.exchange(batch_at(300, LANE))
    second = await copying.exchange(batch_at(310, CLIENT))
    copying.appends.acknowledged(KEY, CLAIM, 320, 100)
    third = await copying.exchange()
    assert (first.max_bytes > LEAST_BYTES, second.max_bytes, third.max_bytes > LEAST_BYTES) == (True, LEAST_BYTES, True)


async def test_pause_ends_by_itself(copying: Copying, monkeypatch: pytest.MonkeyPatch) -> None:
    copying.appends.acknowledged(KEY, CLAIM, 0, 300)
    monkeypatch.setattr(backlog_reader, "FILLED_S", 0.01)
    await copying.exchange(batch_at(300, LANE))
    wanted = await copying.exchange(batch_at(310, CLIENT))
    assert asked(wanted) == (310, EPOCH, EPOCH)
