"""How the engine fetches: pipelined over a long link, small batches merged, large ones never starved."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from fix_engine import Engine, create_topic, read_all, wait_for
from testbed_lane import running, send, until

from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.lab.lab import Lab
from drlib.mirror.engine.fetch import long_poll_reader
from drlib.mirror.engine.fetch.fetch_response import PartitionFetch
from drlib.mirror.engine.fetch.long_poll_reader import LongPoll
from drlib.mirror.read_batches import locate, read_range
from drlib.mirror.status import worker_status as status
from drlib.model import TopicPartition

PARTITIONS = 3


@pytest.fixture
def long_link(lab: Lab) -> Iterator[str]:
    """The source's address behind 120 ms there and back."""
    lab.proxy.set("LEFT", delay_ms=60)
    yield lab.clusters["LEFT"].link_bootstrap
    lab.proxy.clear("LEFT")


def write(bootstrap: str, topic: str, partition: int, sizes: list[int], **config: object) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "message.max.bytes": 8 << 20, **config})
    rnd = random.Random(partition)
    for number, size in enumerate(sizes):
        producer.produce(topic, key=str(number).encode(), value=rnd.randbytes(size), partition=partition)
        if config.get("batch.num.messages") == 1 or size > 100_000:
            producer.flush(30)
        producer.poll(0)
    assert producer.flush(60) == 0


async def test_partitions_that_fall_idle_and_wake_again_are_mirrored_exactly(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With bounds so small that partitions go back and forth between the sessions of active and of idle ones."""
    for name, value in {"FEW": 2, "QUIET_S": 0.2, "LOOK_S": 0.05}.items():
        monkeypatch.setattr(long_poll_reader, name, value)
    woken: list[int] = []
    polls: set[LongPoll] = set()
    wake, retire = LongPoll._activate, LongPoll._retire

    def counted_wake(poll: LongPoll, fetched: Sequence[PartitionFetch]) -> None:
        woken.append(len(fetched))
        wake(poll, fetched)

    def noted_retire(poll: LongPoll) -> None:
        polls.add(poll)
        retire(poll)

    monkeypatch.setattr(LongPoll, "_activate", counted_wake)
    monkeypatch.setattr(LongPoll, "_retire", noted_retire)
    topic, many, rnd = engine.topics, 12, random.Random(5)
    engine.extra["drlib.lanes"] = "1"
    await asyncio.to_thread(create_topic, engine.left, topic, many)
    ends = dict.fromkeys(range(many), 0)
    async with running(engine) as owner:
        await owner.mirrored(topic, ends)
        for turn in range(12):
            await until("all but two are idle", lambda: any(len(p.idle.members) == many - 2 for p in polls))
            for number in rnd.sample(range(many), 4):
                count = rnd.choice((1, 5, 400))
                values = [f"{turn}-{n}" for n in range(count)]
                await asyncio.to_thread(send, engine.left, topic, values, partition=number)
                ends[number] += count
            if turn % 3 == 2:
                await owner.mirrored(topic, ends)
        await owner.mirrored(topic, ends)
    assert sum(woken) > 20
    engine.assert_same(topic, many)


@pytest.mark.long
def test_backlog_reader_records_of_every_size_are_copied_once(engine: Engine, long_link: str) -> None:
    topic = engine.topics
    engine.extra[f"{engine.source}.bootstrap.servers"] = long_link
    create_topic(engine.left, topic, PARTITIONS, max_message_bytes=str(6 << 20))
    rnd = random.Random(7)
    # Sizes that change by a factor of a thousand make every guess of what an answer holds wrong, in both directions.
    write(engine.left, topic, 0, [rnd.choice((20, 200, 20_000)) for _ in range(2500)])
    write(engine.left, topic, 0, [100] * 20_000)
    write(engine.left, topic, 0, [50_000] * 150)
    # Batches beyond what is asked of a partition at once come between ordinary ones.
    write(engine.left, topic, 1, [3_000_000, 500, 3_500_000, 700, 700, 3_000_000])
    write(engine.left, topic, 2, [1000] * 6000)
    worker = engine.start()
    engine.wait_caught_up(topic, PARTITIONS)
    assert engine.stop(worker) == 0, engine.log()
    engine.assert_same(topic, PARTITIONS)


@pytest.mark.long
@pytest.mark.timeout(400)
def test_backlog_reader_slow_link_keeps_requests_within_deadline(engine: Engine, lab: Lab) -> None:
    topic = engine.topics
    engine.extra[f"{engine.source}.bootstrap.servers"] = lab.clusters["LEFT"].link_bootstrap
    create_topic(engine.left, topic, PARTITIONS)
    for partition in range(PARTITIONS):
        write(engine.left, topic, partition, [1000] * 1000)
    lab.proxy.set("LEFT", bandwidth=64_000)
    try:
        worker = engine.start()
        # The records take 50 s; metadata of all other topics of this lab crosses the same link.
        engine.wait_caught_up(topic, PARTITIONS, deadline_s=300)
    finally:
        lab.proxy.clear("LEFT")
    events = [e.name for e in status.read(engine.status_path(0)).events]
    assert engine.stop(worker) == 0, engine.log()
    assert "SourceUnreachable" not in events, engine.log()
    engine.assert_same(topic, PARTITIONS)


def test_source_topic_deleted_parks_at_once_and_others_continue(engine: Engine) -> None:
    doomed, kept = f"{engine.topics}.doomed", f"{engine.topics}.kept"
    for topic in (doomed, kept):
        create_topic(engine.left, topic, 1)
        write(engine.left, topic, 0, [100] * 50)
    engine.topics += r"\\..*"
    engine.extra["refresh.topics.interval.seconds"] = "600"
    worker = engine.start()
    for topic in (doomed, kept):
        engine.wait_caught_up(topic, 1)
    admin = AdminClient({"bootstrap.servers": engine.left})
    admin.delete_topics([doomed])[doomed].result(30)

    def parked() -> bool:
        found = {p.topic: bool(p.parked) for p in status.read(engine.status_path(0)).flows[0].partitions}
        return (found.get(doomed), found.get(kept)) == (True, False)

    wait_for("the deleted topic is parked", parked, 20)
    write(engine.left, kept, 0, [100] * 50)
    engine.wait_caught_up(kept, 1)
    assert engine.stop(worker) == 0, engine.log()
    engine.assert_same(kept, 1)


def test_small_batches_are_merged_with_unchanged_records(engine: Engine) -> None:
    topic = engine.topics
    create_topic(engine.left, topic, 1)
    write(engine.left, topic, 0, [100] * 3000, **{"batch.num.messages": 1, "linger.ms": 0})
    write(engine.left, topic, 0, [0, 1, 5000, 9000, 30_000, 10], **{"batch.num.messages": 1})
    worker = engine.start()
    engine.wait_caught_up(topic, 1)
    assert engine.stop(worker) == 0, engine.log()
    engine.assert_same(topic, 1)
    assert len(read_all(engine.left, topic, 1)[0]) == 3006
    assert asyncio.run(batches(engine.left, topic)) == 3006
    assert asyncio.run(batches(engine.right, f"{engine.source}.{topic}")) < 300


async def batches(bootstrap: str, topic: str) -> int:
    """Number of data batches in the topic's only partition."""
    partition = TopicPartition(topic, 0)
    client = ClusterClient([bootstrap])
    try:
        await client.connect()
        topic_id, leader = await locate(client, partition)
        connection = await client.connection(leader)
        end = (await requests.list_offsets(connection, [partition], requests.LATEST))[partition]
        found = [header async for header, _ in read_range(connection, topic_id, partition, 0, end)]
        return sum(not header.is_control for header in found)
    finally:
        await client.close()
