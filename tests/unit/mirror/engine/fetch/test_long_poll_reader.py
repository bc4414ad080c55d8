"""What the long poll requests after a broker has given up its fetch session."""

from __future__ import annotations

import asyncio
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
from drlib.mirror.engine.fetch.long_poll_reader import LongPollReader
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


@pytest.fixture
def reader() -> LongPollReader:
    """Two partitions of one broker."""
    broker = SimpleNamespace(handler=None, memory=Memory().share("lane"), follower=False)
    found = LongPollReader(cast(Any, broker))
    for number in (0, 1):
        source, target = TopicPartition("t", number), TopicPartition("A.t", number)
        stream = PartitionStream(SourcePartition(TOPIC, number), source, target, ClaimId(1, 1), PartitionMap(), 50, 0)
        found.add(PartitionFetch(stream))
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
