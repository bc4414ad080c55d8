"""Whatever happens to one partition, the others go on, and nothing waits for what never comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from fix_engine import Engine, alter, create_topic, delete_records, read_all
from fix_lab import LabFactory
from testbed_lane import append, connected, headers, running, send, until

from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol.batch import BatchHeader
from drlib.mirror import stall_watch
from drlib.mirror.engine.fetch.backlog_reader import BacklogReader, FetchRequest
from drlib.mirror.engine.fetch.memory import Memory
from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.engine.lane.produce_loop import ProduceLoop
from drlib.mirror.journal.entries import ClaimId
from drlib.mirror.offsets.map import load_maps
from drlib.mirror.read_batches import read_range
from drlib.model import TopicPartition

LARGE_BYTES = 900_000
IDLE_PARTITIONS = 24


def send_large(bootstrap: str, topic: str, partitions: Iterable[int], size: int = LARGE_BYTES) -> None:
    """One record of `size` bytes in each of these partitions."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "message.max.bytes": 5_000_000})
    for number in partitions:
        producer.produce(topic, value=b"x" * size, partition=number)
    assert producer.flush(60) == 0


async def test_memory_of_idle_partitions_is_released_when_acknowledged(engine: Engine) -> None:
    """One large record in each partition, three times what the worker may keep: all arrive, and nothing stays reserved."""
    topic = engine.topics
    await asyncio.to_thread(create_topic, engine.left, topic, IDLE_PARTITIONS)
    memory = Memory(IDLE_PARTITIONS * LARGE_BYTES // 3)
    async with running(engine, memory=memory) as owner:
        await asyncio.to_thread(send_large, engine.left, topic, range(IDLE_PARTITIONS))
        await owner.mirrored(topic, dict.fromkeys(range(IDLE_PARTITIONS), 1))
        await until("no memory is reserved", lambda: memory.reserved == 0)
    engine.assert_same(topic, IDLE_PARTITIONS)


async def test_lane_without_progress_is_an_event_whatever_the_cause(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is refused, lost or slow: batches are just never ready to be sent."""
    topic = engine.topics
    engine.extra["drlib.lanes"] = "1"
    engine.extra["drlib.forecast.interval.ms"] = "200"
    await asyncio.to_thread(create_topic, engine.left, topic, 1)
    monkeypatch.setattr(stall_watch, "STALLED_S", 2.0)
    async with running(engine) as owner:
        await owner.mirrored(topic, {0: 0})
        with monkeypatch.context() as patch:
            patch.setattr(PartitionStream, "ready", lambda _: False)
            await asyncio.to_thread(send, engine.left, topic, [f"a{n}" for n in range(50)])
            await until("the stall is an event", lambda: bool(owner.reported("LaneStalled")))
            (detail,) = owner.reported("LaneStalled")
            assert "50 records wait" in detail
            assert f"drlib.{engine.source}.{engine.target}.0" in detail
        await asyncio.to_thread(send, engine.left, topic, ["next"])
        await owner.mirrored(topic, {0: 51})
        flow = f"{engine.source}->{engine.target}"
        await until("the stall is over", lambda: not owner.events.is_open("LaneStalled", flow))
    engine.assert_same(topic, 1)


async def test_retention_overtaking_requests_in_flight_is_one_loss_and_no_truncation(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The records of two requests have expired when they arrive: the second answer says nothing about the jump."""
    topic = engine.topics
    engine.extra["drlib.lanes"] = "1"
    await asyncio.to_thread(create_topic, engine.left, topic, 1)
    count, start = 6000, 5000
    await asyncio.to_thread(send, engine.left, topic, [f"{n}-" + "x" * 1000 for n in range(count)])
    expired: list[int] = []
    ahead: list[int] = []
    next_request = BacklogReader._next

    def overtaken(self: BacklogReader, connection: Connection, busy: bool) -> FetchRequest | None:
        if not busy and not expired and any(fetch.density for fetch in self._members):
            delete_records(engine.left, topic, start)
            expired.append(start)
        request = next_request(self, connection, busy)
        if busy and request is not None:
            ahead.extend(offset for _, offset, *_ in request.partitions.values())
        return request

    monkeypatch.setattr(BacklogReader, "_next", overtaken)
    async with running(engine) as owner:
        await owner.mirrored(topic, {0: count})
        assert ahead, "no request was sent ahead"
        assert ahead[0] < start
        assert owner.reported("SourceLoss")
        assert not owner.reported("SourceTruncated")
        await asyncio.to_thread(send, engine.left, topic, ["next"])
        await owner.mirrored(topic, {0: count + 1})
    here, there = (read_all(b, t, 1)[0] for b, t in ((engine.left, topic), (engine.right, f"{engine.source}.{topic}")))
    assert there[-len(here) :] == here
    assert len(here) == count + 1 - start


async def test_recovery_mirror_records_expire_while_they_are_counted(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They expire between the request for the log start and the fetch from there: the count goes on at the new start."""
    topic = engine.topics
    engine.extra["drlib.lanes"] = "1"
    mirror = f"{engine.source}.{topic}"
    await asyncio.to_thread(create_topic, engine.left, topic, 1)
    await asyncio.to_thread(send, engine.left, topic, [f"a{n}" for n in range(50)])
    async with running(engine) as former:
        await former.mirrored(topic, {0: 50})
    expired: list[TopicPartition] = []

    def late(connection: Connection, topic_id: Any, partition: TopicPartition, start: int, end: int) -> Any:
        if partition.topic == mirror and not expired:
            expired.append(partition)
            delete_records(engine.right, mirror, start + 1)
        return read_range(connection, topic_id, partition, start, end)

    monkeypatch.setattr(load_maps, "read_range", late)
    async with running(engine) as owner:
        await asyncio.to_thread(send, engine.left, topic, [f"b{n}" for n in range(50)])
        await owner.mirrored(topic, {0: 100})
        assert expired, "nothing was counted"
        assert not owner.reported("LaneFailed")
    there = [value for _, value, _, _ in read_all(engine.right, mirror, 1)[0]]
    assert there[-50:] == [f"b{n}".encode() for n in range(50)]
    assert len(there) == len(set(there))


async def test_batch_above_the_limit_of_the_target_is_split_by_records(engine: Engine) -> None:
    """600 records of 5 kB in one batch of 3 MB, and a target that takes 1 MB: all arrive; one record of 2 MB is refused."""
    topic = engine.topics
    engine.extra |= {"drlib.lanes": "1", "sync.topic.configs.enabled": "false"}
    mirror = f"{engine.source}.{topic}"
    await asyncio.to_thread(create_topic, engine.left, topic, 2, max_message_bytes="5000000")
    await asyncio.to_thread(create_topic, engine.right, mirror, 2, max_message_bytes="1000000")
    producer = Producer(
        {
            "bootstrap.servers": engine.left,
            "batch.size": 4_000_000,
            "message.max.bytes": 4_500_000,
            "linger.ms": 5000,
            "log_level": 0,
        }
    )
    for number in range(600):
        producer.produce(
            topic, key=b"%d" % number, value=b"x" * 5000, headers=[("n", b"%d" % number)], timestamp=10**12 + number,
            partition=0,
        )  # fmt: skip
    await asyncio.to_thread(producer.flush, 60)
    async with connected(engine.left) as client:
        assert len(await headers(client, TopicPartition(topic, 0))) == 1
    async with running(engine) as owner, connected(engine.right) as client:
        await owner.mirrored(topic, {0: 600})
        assert len([h for h in await headers(client, TopicPartition(mirror, 0)) if not h.is_control]) > 2
        await asyncio.to_thread(send, engine.left, topic, ["small"], partition=1)
        await asyncio.to_thread(send_large, engine.left, topic, [1], 2_000_000)
        await until("the large record is refused", lambda: bool(owner.reported("TargetRefused")))
        found = owner.partition(topic, 1)
        assert found is not None
        assert found.mirrored == 1
        await asyncio.to_thread(alter, engine.right, mirror, "max.message.bytes", "5000000")
        await owner.mirrored(topic, {1: 2})
    engine.assert_same(topic, 2)


async def test_heartbeats_fatal_error_of_their_producer_ends_nothing_else(engine: Engine) -> None:
    """The log has records under the producer's next sequences, as after an unclean election: for librdkafka that is fatal."""
    topic = engine.topics
    engine.extra |= {"drlib.lanes": "1", "emit.heartbeats.interval.seconds": "1"}
    await asyncio.to_thread(create_topic, engine.left, topic, 1)
    beats = TopicPartition("heartbeats", 0)

    async def beat_of_another(client: ClusterClient, producer_id: int) -> BatchHeader:
        """The last heartbeat, once it is of another producer than `producer_id`."""
        async with asyncio.timeout(40):
            while True:
                last = [h for h in await headers(client, beats) if not h.is_control][-1:]
                if last and last[0].producer_id != producer_id:
                    return last[0]
                await asyncio.sleep(0.05)

    async def newest_producer(client: ClusterClient) -> int:
        last = [h for h in await headers(client, beats) if not h.is_control][-1:]
        return last[0].producer_id if last else -1

    async with connected(engine.right) as client:
        former = await newest_producer(client) if "heartbeats" in (await client.metadata(None)).topics else -1
    async with running(engine) as owner, connected(engine.right) as client:
        await owner.mirrored(topic, {0: 0})
        for _ in range(20):  # until our batch is there before the next heartbeat
            last = await beat_of_another(client, former)
            ours = ClaimId(last.producer_id, last.producer_epoch)
            code, _ = await append(client, beats, ours, last.base_sequence + last.count, count=5)
            if code == 0:
                break
        assert code == 0
        await until("the failure is an event", lambda: bool(owner.reported("ServiceFailed")))
        assert "OUT_OF_ORDER" in owner.reported("ServiceFailed")[0]
        await asyncio.to_thread(send, engine.left, topic, [f"a{n}" for n in range(50)])
        await owner.mirrored(topic, {0: 50})
        await beat_of_another(client, ours.producer_id)
        flow = f"{engine.source}->{engine.target}"
        services = ("groups", "heartbeats and offset syncs")
        await until(
            "the services run again",
            lambda: not any(owner.events.is_open("ServiceFailed", f"{flow} {service}") for service in services),
        )
    engine.assert_same(topic, 1)


async def test_partitions_are_counted_at_the_same_time(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distant target is asked about all of them at once: each waits here until all are being read."""
    topic, partitions = engine.topics, 30
    engine.extra["drlib.lanes"] = "1"
    await asyncio.to_thread(create_topic, engine.left, topic, partitions)
    for number in range(partitions):
        await asyncio.to_thread(send, engine.left, topic, ["a", "b"], partition=number)
    ends = dict.fromkeys(range(partitions), 2)
    async with running(engine) as former:
        await former.mirrored(topic, ends)
    all_read = asyncio.Barrier(partitions)

    async def together(*arguments: Any) -> AsyncIterator[tuple[BatchHeader, memoryview]]:
        async with asyncio.timeout(30):
            await all_read.wait()
        async for batch in read_range(*arguments):
            yield batch

    monkeypatch.setattr(load_maps, "read_range", together)
    async with running(engine) as owner:
        await owner.mirrored(topic, ends)
        for number in range(partitions):
            await asyncio.to_thread(send, engine.left, topic, ["c"], partition=number)
        await owner.mirrored(topic, dict.fromkeys(range(partitions), 3))
        assert not owner.reported("LaneFault")
    engine.assert_same(topic, partitions)


async def test_refused_record_is_tried_again_alone(engine: Engine) -> None:
    """Neither a claim nor a marker for the others: the claim's epoch and their logs stay as they are."""
    topic, others = f"{engine.topics}.refused", f"{engine.topics}.others"
    engine.topics = f"{topic}, {others}"
    engine.extra |= {"drlib.lanes": "1", "sync.topic.configs.enabled": "false"}
    mirror = {name: f"{engine.source}.{name}" for name in (topic, others)}
    for name in (topic, others):
        await asyncio.to_thread(create_topic, engine.left, name, 1, max_message_bytes="3000000")
        await asyncio.to_thread(create_topic, engine.right, mirror[name], 1)
        await asyncio.to_thread(send, engine.left, name, [f"a{n}" for n in range(20)])
    await asyncio.to_thread(send_large, engine.left, topic, [0], 2_000_000)
    await asyncio.to_thread(send, engine.left, topic, [f"b{n}" for n in range(20)])
    async with running(engine) as owner, connected(engine.right) as client:
        await owner.mirrored(others, {0: 20})
        await until("the record is refused", lambda: bool(owner.reported("TargetRefused")))
        claim = owner.claim()
        resumed: list[int] = []
        resume = ProduceLoop.resume

        async def counted(self: ProduceLoop, streams: Sequence[PartitionStream]) -> None:
            await resume(self, streams)
            resumed.extend(len(streams) for _ in streams)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ProduceLoop, "resume", counted)
            await until("it was tried again, and refused again", lambda: len(resumed) >= 2)
        await asyncio.to_thread(send, engine.left, others, ["next"])
        await owner.mirrored(others, {0: 21})
        found = owner.partition(topic)
        assert found is not None
        assert found.mirrored == 20
        await asyncio.to_thread(alter, engine.right, mirror[topic], "max.message.bytes", "3000000")
        await owner.mirrored(topic, {0: 41}, 60)
        assert owner.claim() == claim, "\n".join(f"{e.name} {e.entity} {e.detail}" for e in owner.events.snapshot())
        marks = [h for h in await headers(client, TopicPartition(mirror[others], 0)) if h.is_control]
        assert len(marks) == 1
        await until("the refusal is over", lambda: not owner.events.is_open("TargetRefused", f"{topic}-0"))
    for name in (topic, others):
        engine.assert_same(name, 1)


async def test_new_topic_joins_the_claim_alone(engine: Engine) -> None:
    """The topics that are there are neither drained nor marked again."""
    first, second = f"{engine.topics}.first", f"{engine.topics}.second"
    engine.topics = f"{first}, {second}"
    engine.extra["drlib.lanes"] = "1"
    await asyncio.to_thread(create_topic, engine.left, first, 1)
    await asyncio.to_thread(send, engine.left, first, [f"a{n}" for n in range(20)])
    async with running(engine) as owner, connected(engine.right) as client:
        await owner.mirrored(first, {0: 20})
        claim = owner.claim()
        await asyncio.to_thread(create_topic, engine.left, second, 2)
        for number in range(2):
            await asyncio.to_thread(send, engine.left, second, [f"b{n}" for n in range(20)], partition=number)
        await until("it is known", lambda: owner.partition(second, 1) is not None)
        await owner.mirrored(second, {0: 20, 1: 20})
        await asyncio.to_thread(send, engine.left, first, ["next"])
        await owner.mirrored(first, {0: 21})
        assert owner.claim() == claim, "\n".join(f"{e.name} {e.entity} {e.detail}" for e in owner.events.snapshot())
        marks = [h for h in await headers(client, TopicPartition(f"{engine.source}.{first}", 0)) if h.is_control]
        assert len(marks) == 1
    async with running(engine) as heir:
        await asyncio.to_thread(send, engine.left, second, ["next"])
        await heir.mirrored(second, {0: 21, 1: 20})
    engine.assert_same(first, 1)
    engine.assert_same(second, 2)


async def test_mirror_partitions_that_accept_no_write_wait_alone(engine: Engine, lab_factory: LabFactory) -> None:
    """One mirror topic has no leader and one too few replicas in sync: a third one of the lane is claimed and copied."""
    cluster = lab_factory(("THREE",), brokers=3).clusters["THREE"]
    engine.right = cluster.bootstrap
    names = {name: f"{engine.topics}.{name}" for name in ("leaderless", "shrunken", "sound")}
    engine.topics = ", ".join(names.values())
    factors = ("replication", "checkpoints.topic.replication", "heartbeats.topic.replication")
    engine.extra |= {f"{name}.factor": "3" for name in factors}
    engine.extra |= {"drlib.lanes": "1", "sync.topic.configs.enabled": "false"}
    alive, _, dead = cluster.brokers
    one, lost = alive.spec.node_id, dead.spec.node_id
    placed = {"leaderless": [lost], "shrunken": [one, lost], "sound": [one]}
    admin = AdminClient({"bootstrap.servers": engine.right, "log_level": 0})
    for name, topic in names.items():
        await asyncio.to_thread(create_topic, engine.left, topic, 1)
        await asyncio.to_thread(send, engine.left, topic, [f"a{n}" for n in range(20)])
        new = NewTopic(
            f"{engine.source}.{topic}",
            num_partitions=1,
            replica_assignment=[placed[name]],
            config={"min.insync.replicas": str(len(placed[name]))},
        )
        admin.create_topics([new])[new.topic].result(30)
    async with running(engine) as owner:
        for topic in names.values():
            await owner.mirrored(topic, {0: 20})
        dead.kill()
        for topic in names.values():
            await asyncio.to_thread(send, engine.left, topic, [f"b{n}" for n in range(20)])
        await owner.mirrored(names["sound"], {0: 40}, 60)
        waiting = [f"{engine.source}.{names[name]}-0" for name in ("leaderless", "shrunken")]
        for partition in waiting:
            await until("it is an event", lambda p=partition: owner.events.is_open("MirrorUnavailable", p), 60)
        await asyncio.to_thread(send, engine.left, names["sound"], [f"c{n}" for n in range(20)])
        await owner.mirrored(names["sound"], {0: 60})
        claim = owner.claim()
        await asyncio.to_thread(dead.restart)
        for name in ("leaderless", "shrunken"):
            await owner.mirrored(names[name], {0: 40}, 60)
        assert owner.claim() == claim, "\n".join(f"{e.name} {e.entity} {e.detail}" for e in owner.events.snapshot())
        for partition in waiting:
            await until("it is over", lambda p=partition: not owner.events.is_open("MirrorUnavailable", p))
    for topic in names.values():
        engine.assert_same(topic, 1)
