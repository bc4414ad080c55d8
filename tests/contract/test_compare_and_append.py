"""What the engine relies on when it appends, as one suite for a real broker and for the model of it below.

The model is the rule in thirty lines (Kafka's `ProducerAppendInfo` and `ProducerStateEntry`): the last five batches
of a producer are recognised, the next sequence is taken, everything else of a known producer is refused.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Protocol

import pytest
from fix_engine import create_topic

from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.batch import SEQUENCE_MODULUS
from drlib.kafka.protocol.error_codes import BrokerError
from drlib.model import TopicPartition

DONE, OUT_OF_ORDER, OLD_EPOCH = 0, 45, 47
Answer = tuple[int, int]  # error code, base offset (-1 when refused)


class Partition(Protocol):
    async def producer(self) -> int: ...

    async def append(self, producer: int, epoch: int, sequence: int, count: int) -> Answer: ...


@dataclass
class Model:
    """One partition leader's memory of its producers."""

    end: int = 0
    producers: int = 0
    known: dict[int, tuple[int, deque[tuple[int, int, int]]]] = field(default_factory=dict)

    async def producer(self) -> int:
        self.producers += 1
        return self.producers

    async def append(self, producer: int, epoch: int, sequence: int, count: int) -> Answer:
        before, batches = self.known.get(producer, (epoch, deque(maxlen=5)))
        if epoch < before:
            return OLD_EPOCH, -1
        if epoch == before and producer in self.known:
            for first, length, base in batches:
                if (first, length) == (sequence, count):
                    return DONE, base
            first, length, _ = batches[-1]
            if sequence != (first + length) % SEQUENCE_MODULUS:
                return OUT_OF_ORDER, -1
        elif epoch > before:
            if sequence:
                return OUT_OF_ORDER, -1
            batches = deque(maxlen=5)
        batches.append((sequence, count, self.end))
        self.known[producer] = (epoch, batches)
        self.end += count
        return DONE, self.end - count


@dataclass
class Real:
    client: ClusterClient
    topic: str

    async def producer(self) -> int:
        node = next(iter((await self.client.metadata([self.topic])).brokers))
        connection = await self.client.connection(node)
        end = time.monotonic() + 30
        while True:
            try:
                return (await requests.init_producer_id(connection, None, timeout_ms=10_000))[0]
            except BrokerError as error:  # a fresh broker is still loading its transaction state
                if not error.retriable or time.monotonic() > end:
                    raise
            await asyncio.sleep(0.05)

    async def append(self, producer: int, epoch: int, sequence: int, count: int) -> Answer:
        metadata = await self.client.metadata([self.topic])
        connection = await self.client.connection(metadata.topics[self.topic].partitions[0].leader)
        records = [recode.Record(offset=i, timestamp=1_700_000_000_000, key=None, value=b"v") for i in range(count)]
        batch = recode.rebuild(
            records, codec=0, producer_id=producer, producer_epoch=epoch, base_sequence=sequence % SEQUENCE_MODULUS
        )
        (result,) = await connection.produce(self.topic, [(0, batch)])
        return result.error_code, result.base_offset


@pytest.fixture(params=["model", "broker"])
async def partition(request: pytest.FixtureRequest) -> AsyncIterator[Partition]:
    if request.param == "model":
        yield Model()
        return
    left: str = request.getfixturevalue("left")
    fresh: Callable[..., str] = request.getfixturevalue("fresh_topic")
    topic = fresh("contract")
    create_topic(left, topic, 1, message_timestamp_type="CreateTime")
    client = ClusterClient([left])
    await client.connect()
    metadata = await client.metadata([topic])
    assert await requests.list_offsets(
        await client.connection(metadata.topics[topic].partitions[0].leader), [TopicPartition(topic, 0)], -1
    ) == {TopicPartition(topic, 0): 0}
    yield Real(client, topic)
    await client.close()


async def test_produce_accepts_only_the_next_sequence(partition: Partition) -> None:
    one = await partition.producer()
    assert await partition.append(one, 0, 0, 10) == (DONE, 0)
    assert await partition.append(one, 0, 10, 5) == (DONE, 10)
    assert (await partition.append(one, 0, 16, 5))[0] == OUT_OF_ORDER  # a gap
    assert (await partition.append(one, 0, 12, 10))[0] == OUT_OF_ORDER  # an overlap
    assert await partition.append(one, 0, 15, 1) == (DONE, 15)


async def test_produce_recognizes_the_last_five_batches(partition: Partition) -> None:
    one = await partition.producer()
    for number in range(8):
        assert await partition.append(one, 0, 10 * number, 10) == (DONE, 10 * number)
    for number in range(3, 8):
        assert await partition.append(one, 0, 10 * number, 10) == (DONE, 10 * number)
    assert (await partition.append(one, 0, 0, 10))[0] != DONE
    assert (await partition.append(one, 0, 70, 5))[0] == OUT_OF_ORDER  # part of a known batch is no duplicate


async def test_produce_newer_epoch_starts_at_zero_and_fences_the_older(partition: Partition) -> None:
    one = await partition.producer()
    assert await partition.append(one, 0, 0, 10) == (DONE, 0)
    assert (await partition.append(one, 1, 10, 10))[0] == OUT_OF_ORDER
    assert await partition.append(one, 1, 0, 10) == (DONE, 10)
    assert (await partition.append(one, 0, 10, 10))[0] == OLD_EPOCH
    assert await partition.append(one, 1, 10, 10) == (DONE, 20)


async def test_sequences_wrap(partition: Partition) -> None:
    one = await partition.producer()
    assert await partition.append(one, 0, SEQUENCE_MODULUS - 5, 5) == (
        DONE,
        0,
    )  # an unknown producer may begin anywhere
    assert await partition.append(one, 0, 0, 5) == (DONE, 5)


async def test_producers_are_independent(partition: Partition) -> None:
    one, other = await partition.producer(), await partition.producer()
    assert await partition.append(one, 0, 0, 3) == (DONE, 0)
    assert await partition.append(other, 0, 0, 4) == (DONE, 3)
    assert await partition.append(one, 0, 3, 2) == (DONE, 7)
