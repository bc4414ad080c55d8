"""What the long poll requests: after a broker has given up its fetch session, and of active and of idle partitions."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from drlib.kafka.net import requests
from drlib.kafka.protocol import fetch as fetching
from drlib.kafka.protocol.error_codes import (
    FETCH_SESSION_ID_NOT_FOUND,
    FETCH_SESSION_TOPIC_ID_ERROR,
    INVALID_FETCH_SESSION_EPOCH,
    NOT_LEADER_OR_FOLLOWER,
    BrokerError,
)
from drlib.kafka.protocol.fetch import Fetched
from drlib.mirror.engine.fetch.fetch_response import PartitionFetch
from drlib.mirror.engine.fetch.long_poll_reader import FEW, QUIET_S, LongPoll, LongPollReader
from drlib.mirror.engine.fetch.memory import Memory
from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.journal.entries import ClaimId, SourcePartition
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.model import TopicPartition

TOPIC = UUID(int=1)
SESSION = 7


class Broker:
    """Answers each request with the next error code, and keeps what was requested: the session, and the partitions."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)
        self.requested: list[tuple[tuple[int, int], list[int]]] = []

    def fetch_future(self, _: object, partitions: list[Any], **options: Any) -> asyncio.Future[Fetched]:
        self.requested.append((options["session"], [wanted.partition for wanted in partitions]))
        code = self.codes.pop(0)
        answer: asyncio.Future[Fetched] = asyncio.get_running_loop().create_future()
        answer.set_result(Fetched(code, 0 if code else SESSION, [], 0))
        return answer


def fetch_of(number: int) -> PartitionFetch:
    source, target = TopicPartition("t", number), TopicPartition("A.t", number)
    return PartitionFetch(
        PartitionStream(SourcePartition(TOPIC, number), source, target, ClaimId(1, 1), PartitionMap(), 50, 0)
    )


def source_broker() -> Any:
    return SimpleNamespace(handler=None, memory=Memory().share("lane"), follower=False)


@pytest.fixture
def reader() -> LongPollReader:
    """Two partitions of one broker."""
    found = LongPollReader(source_broker(), "tail")
    for number in (0, 1):
        found.add(fetch_of(number))
    return found


async def poll(reader: LongPollReader) -> None:
    await reader._poll(cast(Any, SimpleNamespace(peer="broker 1")), cast(Any, None))


@pytest.mark.parametrize(
    "code", [FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR]
)
async def test_long_poll_session_that_the_broker_gave_up_is_opened_again_with_every_partition(
    reader: LongPollReader, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = Broker(0, 0, code, 0)
    monkeypatch.setattr(requests, "fetch_future", broker.fetch_future)
    for _ in range(4):
        await poll(reader)
    everything = (fetching.NEW_SESSION, [0, 1])
    assert broker.requested == [everything, ((SESSION, 1), []), ((SESSION, 2), []), everything]


async def test_long_poll_other_error_of_a_whole_response_is_raised(
    reader: LongPollReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "fetch_future", Broker(NOT_LEADER_OR_FOLLOWER).fetch_future)
    with pytest.raises(BrokerError):
        await poll(reader)


async def test_long_poll_partition_that_moves_while_its_answer_is_handled_is_not_requested_here_again(
    reader: LongPollReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved, stays = reader.members

    async def handle(_: object, fetch: PartitionFetch, *__: object) -> None:
        if fetch is moved:
            reader.remove(moved)
            moved.end = 1000  # more than was answered: its reader now finds that it is behind

    def answers(_: object, partitions: list[Any], **__: object) -> asyncio.Future[Fetched]:
        answer: asyncio.Future[Fetched] = asyncio.get_running_loop().create_future()
        found = [SimpleNamespace(topic_id=TOPIC, partition=p.partition, error_code=0, records=b"r") for p in partitions]
        answer.set_result(Fetched(0, SESSION, cast(Any, found), 0))
        return answer

    reader.handler = cast(Any, SimpleNamespace(handle=handle))
    monkeypatch.setattr(requests, "fetch_future", answers)
    behind: list[PartitionFetch] = []
    await reader._poll(cast(Any, SimpleNamespace(peer="broker 1")), behind.append)
    assert behind == []
    assert list(reader._changed.values()) == [stays]


def numbers(reader: LongPollReader) -> set[int]:
    return {fetch.stream.source.partition for fetch in reader.members}


def test_long_poll_of_many_partitions_requests_idle_ones_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    poll = LongPoll(source_broker())
    fetches = [fetch_of(number) for number in range(2 * FEW)]
    for fetch in fetches:
        poll.add(fetch)
    assert len(poll.active.members) == 2 * FEW, "which ones are idle is not known yet"
    now += QUIET_S + 1
    poll._keep(fetches[: FEW + 10])
    poll._retire()
    assert numbers(poll.active) == set(range(FEW + 10))
    assert numbers(poll.idle) == set(range(FEW + 10, 2 * FEW))
    poll._activate(fetches[-1:])
    assert numbers(poll.active) == {*range(FEW + 10), 2 * FEW - 1}
    poll.remove(fetches[-2])
    poll.remove(fetches[0])
    assert len(poll.active.members) + len(poll.idle.members) == 2 * FEW - 2
    assert fetches[-1].stream.long_poll is not None
    assert fetches[-2].stream.long_poll is None


def test_long_poll_of_few_partitions_keeps_one_session(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    poll = LongPoll(source_broker())
    for number in range(FEW + 20):
        poll.add(fetch_of(number))
    now += QUIET_S + 1
    poll._retire()
    assert (len(poll.active.members), len(poll.idle.members)) == (FEW, 20)
    poll = LongPoll(source_broker())
    for number in range(FEW):
        poll.add(fetch_of(number))
    now += QUIET_S + 1
    poll._retire()
    assert (len(poll.active.members), len(poll.idle.members)) == (FEW, 0)
