"""At which broker each partition is read, and what the readers of a lane leave behind when they end."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from drlib.errors import Unreachable
from drlib.kafka.net.connection import Connection, ConnectionLost
from drlib.kafka.protocol.error_codes import (
    LEADER_NOT_AVAILABLE,
    NOT_LEADER_OR_FOLLOWER,
    TOPIC_AUTHORIZATION_FAILED,
    BrokerError,
)
from drlib.kafka.protocol.fetch import FetchedPartition
from drlib.mirror.engine.fetch import fetcher as fetching
from drlib.mirror.engine.fetch.fetch_response import LeaderMoved
from drlib.mirror.engine.fetch.fetcher import Fetcher, _Read, _Reading, release
from drlib.mirror.engine.fetch.memory import Memory
from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.engine.identity.compare import AS_MIRRORED
from drlib.mirror.engine.identity.evidence import Question
from drlib.mirror.errors import LaneFault
from drlib.mirror.journal.entries import ClaimId, SourcePartition
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.status.event_log import EventLog
from drlib.model import Segment, TopicPartition

TOPIC = UUID(int=1)
ANSWER = FetchedPartition(TOPIC, 0, 0, 100, 90, 7, (), None, -1, -1, memoryview(b""))


async def test_release_drops_what_was_received_before_a_leader_moved() -> None:
    memory = Memory()
    share = memory.share("lane")

    async def read() -> None:
        response = share.reserve(100)
        assert response.size == 100
        raise LeaderMoved

    gc.disable()
    try:
        for handled in range(2):
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(read())
            except* LeaderMoved as moved:
                release(moved)
            assert memory.reserved == 0, handled
    finally:
        gc.enable()


async def test_release_leaves_a_coroutine_alone_that_the_same_error_ends() -> None:
    """All that waited for one answer end with the same error, and some have to wait while they end: a lane failed for good."""
    error, ended = ConnectionLost("the broker", "it was reset", None), asyncio.Event()

    async def end() -> None:
        try:
            raise error
        finally:
            await ended.wait()

    async def claim() -> None:
        await end()

    ending = asyncio.create_task(claim())
    await asyncio.sleep(0)
    release(BaseExceptionGroup("errors", [error]))
    ended.set()
    with pytest.raises(ConnectionLost):
        async with asyncio.timeout(5):
            await ending


class Tasks:
    """Takes the tasks of a group and runs none of them."""

    def __init__(self) -> None:
        self.taken = 0

    def create_task(self, work: Coroutine[Any, Any, None]) -> None:
        work.close()
        self.taken += 1


class Lost:
    """A connection to a follower that is gone."""

    closed = False

    def close(self, *, abort: bool) -> None:
        self.closed = abort


@pytest.fixture
def fetcher() -> Fetcher:
    context = SimpleNamespace(
        source=None, events=EventLog(), memory=Memory(), loss_policy="continue", reverse=None, rack="r", appends=None
    )
    return Fetcher(cast(Any, context), cast(Any, SimpleNamespace(lane="lane.0")), [], cast(Any, None))


@pytest.fixture
def reading(fetcher: Fetcher) -> _Reading:
    """Partition 0 is led by broker 1, partition 1 by broker 2; both are read there."""
    found = _Reading(cast(asyncio.TaskGroup, Tasks()))
    for number, leader in ((0, 1), (1, 2)):
        source, target = TopicPartition("t", number), TopicPartition("A.t", number)
        stream = PartitionStream(SourcePartition(TOPIC, number), source, target, ClaimId(1, 1), PartitionMap(), 50, 0)
        fetcher._read_from(found, leader, [stream])
    return found


def readers_of(reading: _Reading, read: _Read) -> list[tuple[str, int]]:
    """Where requests are sent for a partition."""
    roles = (("leader", reading.leaders), ("follower", reading.followers))
    every = [(role, node, readers) for role, by_node in roles for node, readers in by_node.items()]
    return [(role, node) for role, node, readers in every if read.fetch in readers.long_poll.active.members]


def ready(reading: _Reading, node: int) -> Lost:
    lost = Lost()
    reading.followers[node].connections = (cast(Connection, lost),)
    return lost


def mirrored_stream(number: int) -> PartitionStream:
    mirrored = PartitionMap()
    mirrored.segments().extend([Segment(0, 0, 50)])
    source, target = TopicPartition("t", number), TopicPartition("A.t", number)
    stream = PartitionStream(SourcePartition(TOPIC, number), source, target, ClaimId(1, 1), mirrored, 50, 0)
    stream.target_id = UUID(int=2)
    return stream


def as_mirrored(fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch, *, silent: int | None = None) -> list[int]:
    """All logs are as they were mirrored, and broker `silent` does not answer. Returns which are compared."""

    async def connection(node: int, purpose: str) -> Connection:
        if node == silent:
            raise Unreachable(f"node {node} can't be reached", "it was refused", "Check that this broker runs.")
        return cast(Connection, opened)

    async def found(source: object, target: object, questions: list[Question]) -> list[int]:
        compared.extend(question.source.partition for question in questions)
        return [AS_MIRRORED] * len(questions)

    opened, compared = object(), list[int]()
    fetcher.source = cast(Any, SimpleNamespace(connection=connection))
    fetcher.context = cast(Any, SimpleNamespace(target=None))
    monkeypatch.setattr(fetching, "went_back", found)
    return compared


async def test_leader_that_does_not_answer_keeps_no_partition_of_others_from_being_compared_and_read(
    fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = as_mirrored(fetcher, monkeypatch, silent=1)
    by_node = {1: [mirrored_stream(0)], 2: [mirrored_stream(1)]}
    assert await fetcher._same_history(by_node) == by_node
    assert compared == [1]
    await fetcher._same_history(by_node)
    assert compared == [1], "a connection that lives proves the log"


async def test_partition_is_compared_and_read_once_what_was_read_of_it_before_is_delivered(
    fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the last mirrored record is older than the last one that was read, and more would follow what is to be parked."""
    compared = as_mirrored(fetcher, monkeypatch)
    monkeypatch.setattr(fetching, "REPLICA_POLL_S", 0.01)
    busy, idle = mirrored_stream(0), mirrored_stream(1)
    busy.unacked.append(cast(Any, None))
    assert await fetcher._same_history({1: [busy, idle]}) == {1: [idle]}
    assert compared == [1]
    waiting = asyncio.create_task(fetcher._wait_for_delivered())
    await asyncio.sleep(0.05)
    assert not waiting.done()
    busy.unacked.clear()
    with pytest.raises(LeaderMoved):
        await asyncio.wait_for(waiting, 5)
    assert await fetcher._same_history({1: [busy, idle]}) == {1: [busy, idle]}
    assert compared == [1, 0]


@pytest.mark.parametrize(
    ("error", "claims_again"),
    [
        (BrokerError(LEADER_NOT_AVAILABLE, "looking up the leader of A.t-0"), True),
        (Unreachable("node 4 can't be reached", "it was refused", "Check that this broker runs."), True),
        (BrokerError(TOPIC_AUTHORIZATION_FAILED, "looking up A.t"), False),
        (None, False),
    ],
)
async def test_partition_whose_mirror_has_no_leader_is_left_to_the_next_claim_instead_of_being_read_uncompared(
    fetcher: Fetcher, monkeypatch: pytest.MonkeyPatch, error: Exception | None, claims_again: bool
) -> None:
    async def connection(node: int, purpose: str) -> Connection:
        return cast(Connection, opened)

    async def found(source: object, target: object, questions: list[Question]) -> list[None]:
        return [None] * len(questions)

    async def located(target: object, partition: TopicPartition) -> tuple[UUID, int]:
        if error is not None:
            raise error
        return UUID(int=2), 4

    opened, failed = object(), list[Exception]()
    fetcher.source = cast(Any, SimpleNamespace(connection=connection))
    fetcher.context = cast(Any, SimpleNamespace(target=fetcher.source))
    fetcher.sink = cast(Any, SimpleNamespace(fail=failed.append))
    monkeypatch.setattr(fetching, "went_back", found)
    monkeypatch.setattr(fetching, "locate", located)
    by_node = {1: [mirrored_stream(0)]}
    assert await fetcher._same_history(by_node) == ({} if claims_again else by_node)
    assert [type(each) for each in failed] == ([LaneFault] if claims_again else [])


async def test_partition_moves_to_the_follower_that_its_leader_names_once_that_has_answered(
    fetcher: Fetcher, reading: _Reading
) -> None:
    read, before = reading.reads[TOPIC, 0], reading.reads[TOPIC, 0].fetch
    fetcher._obey(reading, read, replace(ANSWER, preferred_read_replica=2))
    assert readers_of(reading, read) == [("leader", 1)]
    assert reading.followers[2].broker.follower
    ready(reading, 2)
    fetcher._obey(reading, read, replace(ANSWER, preferred_read_replica=2))
    assert readers_of(reading, read) == [("follower", 2)]
    assert before.left
    assert read.fetch.stream is before.stream
    assert read.fetch.stream.long_poll is None  # its answers say nothing about the log
    assert read.fetch.stream.high_watermark == -1
    fetcher._obey(reading, read, replace(ANSWER, preferred_read_replica=2))
    assert (read.fetch.stream.high_watermark, read.fetch.stream.last_stable, read.fetch.stream.log_start) == (
        100,
        90,
        7,
    )
    fetcher._obey(reading, read, ANSWER)
    assert readers_of(reading, read) == [("leader", 1)]


async def test_follower_that_ends_gives_back_what_it_does_not_lead(
    fetcher: Fetcher, reading: _Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = reading.reads[TOPIC, 0], reading.reads[TOPIC, 1]
    fetcher._obey(reading, first, replace(ANSWER, preferred_read_replica=2))
    lost = ready(reading, 2)
    fetcher._obey(reading, first, replace(ANSWER, preferred_read_replica=2))
    before = second.fetch

    async def gone(*_: object) -> None:
        raise ConnectionLost("broker 2", "it was reset")

    monkeypatch.setattr(fetching, "wait_for_response", gone)
    await fetcher._follow(reading, 2)
    assert lost.closed
    assert 2 not in reading.followers
    assert readers_of(reading, first) == [("leader", 1)]
    assert second.fetch is before
    assert readers_of(reading, second) == [("leader", 2)]
    assert second.choice.avoided == {}
    fetcher._obey(reading, first, replace(ANSWER, preferred_read_replica=2))
    assert not reading.followers
    assert fetcher.events.snapshot() == ()


async def test_stalled_source_is_no_event_after_the_end_of_its_fetcher(fetcher: Fetcher, reading: _Reading) -> None:
    """Nobody looks any more: another owner of the partition reports what it sees itself."""
    looked = asyncio.Event()

    async def metadata(names: object) -> None:
        looked.set()
        await asyncio.Event().wait()

    fetcher.source = cast(Any, SimpleNamespace(metadata=metadata))
    running = asyncio.create_task(fetcher.run())
    await looked.wait()
    fetcher.handler.stalled(reading.reads[TOPIC, 0].fetch, 50)
    fetcher.handler.stalled(reading.reads[TOPIC, 1].fetch, 50)
    fetcher.handler.resumed(reading.reads[TOPIC, 1].fetch)
    assert [fetcher.events.is_open("SourceStalled", entity) for entity in ("t-0", "t-1")] == [True, False]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert not fetcher.events.is_open("SourceStalled", "t-0")


async def test_stalled_source_is_no_event_once_nothing_is_left_to_read(fetcher: Fetcher, reading: _Reading) -> None:
    """Retention removed the rest of the log: there is no record to return."""
    read = reading.reads[TOPIC, 0]
    read.fetch.end = 60
    fetcher.handler.stalled(read.fetch, 50)
    read.readers.backlog.add(read.fetch)
    read.fetch.jump(60)
    assert read.readers.backlog._next_offset(read.fetch, 100) is None
    assert not fetcher.events.is_open("SourceStalled", "t-0")


async def test_refused_position_is_read_at_the_leader_from_the_same_position(
    fetcher: Fetcher, reading: _Reading
) -> None:
    read = reading.reads[TOPIC, 0]
    fetcher._obey(reading, read, replace(ANSWER, preferred_read_replica=2))
    ready(reading, 2)
    fetcher._obey(reading, read, replace(ANSWER, preferred_read_replica=2))
    read.fetch.stream.position = 60
    assert read.fetch.to_leader is not None
    read.fetch.to_leader()
    assert readers_of(reading, read) == [("leader", 1)]
    assert (read.fetch.stream.position, read.fetch.to_leader) == (60, None)


async def test_leader_that_moved_is_looked_up(fetcher: Fetcher, reading: _Reading) -> None:
    with pytest.raises(LeaderMoved):
        fetcher._obey(reading, reading.reads[TOPIC, 0], replace(ANSWER, error_code=NOT_LEADER_OR_FOLLOWER))


async def test_follower_that_ends_keeps_nothing_of_what_it_returned(
    fetcher: Fetcher, reading: _Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetcher._obey(reading, reading.reads[TOPIC, 0], replace(ANSWER, preferred_read_replica=2))

    async def gone(*_: object) -> None:
        response = fetcher.memory.reserve(100)
        assert response.size == 100
        raise ConnectionLost("broker 2", "it was reset")

    async def answered(*_: object) -> None:
        pass

    readers = reading.followers[2]
    monkeypatch.setattr(fetching, "wait_for_response", answered)
    monkeypatch.setattr(type(readers.broker), "connection", answered)
    monkeypatch.setattr(readers, "connections", ())
    monkeypatch.setattr(type(readers.backlog), "run", gone)
    monkeypatch.setattr(type(readers.long_poll), "run", lambda *_, **__: answered())
    monkeypatch.setattr(fetcher, "_abandon", lambda *_: None)
    gc.disable()
    try:
        await fetcher._follow(reading, 2)
        assert fetcher.memory.held == 0
    finally:
        gc.enable()


async def test_leader_that_does_not_know_that_another_one_was_elected_is_left(
    fetcher: Fetcher, reading: _Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that lost its controllers answers every fetch request, with nothing new."""
    monkeypatch.setattr(fetching, "LEADERS_S", 0.0)
    streams = [reading.reads[TOPIC, number].fetch.stream for number in (0, 1)]
    fetcher.streams = streams
    answers: list[dict[int, int] | Exception] = [
        {0: 1, 1: 2},
        ConnectionLost("the broker", "it was reset"),
        {0: 3, 1: 2},
    ]
    asked = 0

    async def metadata(names: object) -> object:
        nonlocal asked
        asked += 1
        found = answers[asked - 1]
        if isinstance(found, Exception):
            raise found
        partitions = {number: SimpleNamespace(leader=leader) for number, leader in found.items()}
        return SimpleNamespace(topics={"t": SimpleNamespace(error_code=0, partitions=partitions)})

    fetcher.source = cast(Any, SimpleNamespace(metadata=metadata))
    by_node = {1: [streams[0]], 2: [streams[1]]}
    with pytest.raises(LeaderMoved):
        await fetcher._watch_leaders(by_node)
    assert asked == 3
    answers += [{0: 1, 1: 2}, {0: 1, 1: -1}]
    with pytest.raises(LeaderMoved):
        await fetcher._watch_leaders(by_node)
    assert asked == 5
    assert fetcher.events.is_open("OfflinePartition", "t-1")


@pytest.mark.parametrize("then", [{0: 1, 1: 2}, {0: -1, 1: -1}], ids=["elected", "another one lost its leader"])
async def test_partition_without_a_leader_is_watched_beside_those_that_have_one(
    fetcher: Fetcher, reading: _Reading, monkeypatch: pytest.MonkeyPatch, then: dict[int, int]
) -> None:
    monkeypatch.setattr(fetching, "LEADER_POLL_S", 0.0)
    fetcher.streams = [reading.reads[TOPIC, number].fetch.stream for number in (0, 1)]
    answers = iter([{0: 1, 1: -1}, {0: 1, 1: -1}, then])

    async def metadata(names: object) -> object:
        partitions = {number: SimpleNamespace(leader=leader) for number, leader in next(answers).items()}
        return SimpleNamespace(topics={"t": SimpleNamespace(error_code=0, partitions=partitions)})

    fetcher.source = cast(Any, SimpleNamespace(metadata=metadata))
    by_node = await fetcher._leaders()
    with pytest.raises(LeaderMoved):
        await fetcher._watch_leaders(by_node)
    assert next(answers, None) is None
