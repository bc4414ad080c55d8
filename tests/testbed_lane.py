"""Shared by the protocol tests: runs the engine in the test's own event loop, and appends batches as any producer.

An `Engine` (properties, the two logs compared) also runs in-process here, because these tests need the claim's producer ID
and act between two of its steps.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from confluent_kafka import Producer
from deadline import Deadline
from fix_engine import Engine, idempotent_producer

from drlib.config.settings import load_mirror_settings
from drlib.kafka.net import group_requests, requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.batch import BatchHeader
from drlib.kafka.protocol.error_codes import BrokerError
from drlib.kafka.protocol.fetch import FetchedPartition
from drlib.mirror.engine.fencing.claim import claim
from drlib.mirror.engine.fetch.fetch_response import FetchResponseHandler, PartitionFetch
from drlib.mirror.engine.fetch.memory import Memory, Reservation
from drlib.mirror.engine.lane.lane import Housekeeping
from drlib.mirror.flow import FlowRunner, FlowSetup, RunningFlow
from drlib.mirror.journal.entries import ClaimId, Entry
from drlib.mirror.offsets.map.journal_log import read_journal
from drlib.mirror.read_batches import log_ends, read_range
from drlib.mirror.status.worker_status import EventLog, PartitionStatus
from drlib.model import TopicPartition

OLD_MS = 1_357_000_000_000  # the first of January 2013
REFUSED_EPOCH = 47


async def until(what: str, condition: Callable[..., bool], deadline_s: float = 40.0) -> None:
    """Wait for `condition` in the test's loop; fails with `what` after the deadline."""
    deadline = Deadline(deadline_s)
    while not condition():
        assert not deadline.passed, f"not within {deadline.waited_s:.0f} s: {what}"
        await asyncio.sleep(0.03)


Change = Callable[[FetchResponseHandler, PartitionFetch, int, FetchedPartition], FetchedPartition]


def change_responses(monkeypatch: pytest.MonkeyPatch, change: Change) -> None:
    """The lanes handle what `change` returns for a partition of a response to a request from an offset, or its error."""
    handle = FetchResponseHandler.handle

    async def changed(
        self: FetchResponseHandler,
        connection: Connection,
        fetch: PartitionFetch,
        offset: int,
        response: FetchedPartition,
        reservation: Reservation | None,
    ) -> None:
        await handle(self, connection, fetch, offset, change(self, fetch, offset, response), reservation)

    monkeypatch.setattr(FetchResponseHandler, "handle", changed)


@dataclass
class Running:
    """The engine of one flow in this loop."""

    flow: FlowRunner
    events: EventLog
    task: asyncio.Task[None]
    memory: Memory

    def partition(self, topic: str, number: int = 0) -> PartitionStatus | None:
        found = [p for p in self.flow.status().partitions if (p.topic, p.partition) == (topic, number)]
        return found[0] if found else None

    @property
    def running_flow(self) -> RunningFlow:
        assert self.flow.running is not None, "the flow has not started"
        return self.flow.running

    def claim(self, lane: int = 0) -> ClaimId:
        (found,) = [x for x in self.flow.status().lanes if x.lane == lane]
        return ClaimId(found.producer_id, found.epoch)

    def reported(self, name: str) -> list[str]:
        return [e.detail for e in self.events.snapshot() if e.name == name]

    async def mirrored(self, topic: str, ends: Mapping[int, int], deadline_s: float = 40.0) -> None:
        """Wait until the engine says that source offsets below `ends` (by partition) are on the target."""

        def through() -> bool:
            if self.task.done():
                self.task.result()
                raise AssertionError("the engine ended by itself")
            found = {n: self.partition(topic, n) for n in ends}
            return all(p is not None and p.mirrored >= ends[n] for n, p in found.items())

        try:
            await until(f"{topic} is mirrored up to {ends}", through, deadline_s)
            await until("nothing is reserved", lambda: self.lag or not self.memory.reserved)
        except AssertionError as error:
            held = self.memory.by_owner()
            raise AssertionError(f"{error}\n{self.flow.status()}\n{self.events.snapshot()}\n{held}") from None

    @property
    def lag(self) -> bool:
        """Whether some record is not acknowledged yet, or may not be sent."""
        return any(p.lag or p.parked for p in self.flow.status().partitions)


@asynccontextmanager
async def running(
    engine: Engine, *, housekeeping: Housekeeping | None = None, abrupt: bool = False, memory: Memory | None = None
) -> AsyncIterator[Running]:
    """Run the flow of `engine`, drained at the end; `abrupt`: cancelled without draining.

    Asserts that nothing was left reserved: by a claim that sent all it had read, and at the end, however the flow ends.
    """
    settings = load_mirror_settings(engine.properties)
    flow = settings.flow(engine.source, engine.target)
    events = EventLog()
    source, target = settings.clusters[engine.source], settings.clusters[engine.target]
    async with connected(engine.right) as client:
        await _loaded(client)  # a worker would start its flow again
    setup = FlowSetup(
        settings=flow,
        source=source,
        target=target,
        worker="attacked",
        worker_id=secrets.token_bytes(16),
        events=events,
        housekeeping=housekeeping or Housekeeping(),
        memory=memory or Memory(),
    )
    runner = FlowRunner(setup)
    found = Running(runner, events, asyncio.create_task(runner.run()), setup.memory)
    try:
        yield found
    finally:
        if abrupt:
            found.task.cancel()
        else:
            runner.stop()
        async with asyncio.timeout(30):
            await asyncio.gather(found.task, return_exceptions=abrupt)
    held = (setup.memory.reserved, setup.memory.leaked)
    assert held == (0, 0), f"{held[0]} bytes are still reserved, {held[1]} were when all was acknowledged"


async def _loaded(client: ClusterClient, deadline_s: float = 60.0) -> None:
    """Return when the group coordinators of a cluster that has just come up answer."""
    end = time.monotonic() + deadline_s
    await client.coordinator("any", "group")  # creates the topic of offsets where there is none
    for node in (await client.metadata([])).brokers:
        while True:
            try:
                await group_requests.list_groups(await client.connection(node, "stage"))
                break
            except BrokerError as error:
                if not error.retriable or time.monotonic() > end:
                    raise
            await asyncio.sleep(0.1)


@asynccontextmanager
async def connected(bootstrap: str) -> AsyncIterator[ClusterClient]:
    client = ClusterClient(bootstrap.split(","))
    await client.connect()
    try:
        yield client
    finally:
        await client.close()


async def append(
    client: ClusterClient,
    partition: TopicPartition,
    who: ClaimId,
    sequence: int,
    *,
    count: int = 1,
    value: bytes = b"zombie",
    timestamp: int | None = None,
    sent: Sequence[str] = (),
) -> tuple[int, int]:
    """Append as `who`; returns the broker's error code and the base offset.

    `sent`: the records are those that `send` writes with these values and this timestamp, as a worker copies them.
    """
    leader = (await log_ends(client, [partition])).leaders[partition]
    connection = await client.connection(leader, "attack")
    when = int(time.time() * 1000) if timestamp is None else timestamp
    records = [
        recode.Record(offset=at, timestamp=when + at, key=text.encode(), value=text.encode())
        for at, text in enumerate(sent)
    ] or [recode.Record(offset=i, timestamp=when, key=b"k", value=value) for i in range(count)]
    batch = recode.rebuild(
        records, codec=0, producer_id=who.producer_id, producer_epoch=who.epoch, base_sequence=sequence
    )
    (result,) = await connection.produce(partition.topic, [(partition.partition, batch)])
    return result.error_code, result.base_offset


async def remembered(client: ClusterClient, partition: TopicPartition, producer_id: int) -> int | None:
    """The epoch of `producer_id` that the partition's leader knows; None when it has forgotten it."""
    leader = (await log_ends(client, [partition])).leaders[partition]
    connection = await client.connection(leader, "attack")
    states = await requests.describe_producers(connection, {partition.topic: [partition.partition]})
    return next((s.epoch for s in states[partition] if s.producer_id == producer_id), None)


async def headers(client: ClusterClient, partition: TopicPartition) -> list[BatchHeader]:
    """Every batch that stands in a partition."""
    log = await log_ends(client, [partition])
    (topic,) = (await client.metadata([partition.topic])).topics.values()
    connection = await client.connection(log.leaders[partition], "attack")
    return [h async for h, _ in read_range(connection, topic.topic_id, partition, 0, log.ends[partition])]


async def journal_of(client: ClusterClient, engine: Engine, lane: int = 0) -> list[Entry]:
    flow = load_mirror_settings(engine.properties).flow(engine.source, engine.target)
    return await read_journal(client, TopicPartition(flow.policy.journal_topic(engine.source), lane))


async def take(client: ClusterClient, transactional_id: str, partitions: Mapping[str, Sequence[int]]) -> ClaimId:
    return await claim(client, transactional_id, partitions)


def trickle(bootstrap: str, topic: str, values: Sequence[str], *, pause_s: float, timestamp: int | None = None) -> None:
    """Send acknowledged records to partition 0 one by one, `pause_s` apart: batches of one record."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})
    for value in values:
        when = int(time.time() * 1000) if timestamp is None else timestamp
        producer.produce(topic, key=value.encode(), value=value.encode(), partition=0, timestamp=when)
        assert producer.flush(30) == 0
        time.sleep(pause_s)


def send(
    bootstrap: str, topic: str, values: Sequence[str], *, partition: int = 0, timestamp: int | None = None
) -> None:
    """Send records with these values and ascending timestamps; all are acknowledged when it returns."""
    producer = idempotent_producer(bootstrap, **{"linger.ms": 2, "batch.size": 2000})
    when = int(time.time() * 1000) if timestamp is None else timestamp
    for at, value in enumerate(values):
        producer.produce(topic, key=value.encode(), value=value.encode(), partition=partition, timestamp=when + at)
    assert producer.flush(30) == 0
