"""Faults between fetch and acknowledgement: lost connections with many batches in flight, a source that is compacted."""

from __future__ import annotations

import asyncio
import itertools
import random
import signal
import threading
from collections.abc import Callable

import pytest
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, NewTopic
from fix_engine import Engine, create_topic, produce, read_all, wait_for
from testbed_lane import Running, connected, running, send, until

from drlib.config.settings import load_mirror_settings
from drlib.lab.lab import Lab
from drlib.mirror.offsets.map.load_maps import read_maps
from drlib.model import TopicPartition

SEEDS = [1, 2]
RESETS = 10  # per seed


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
async def test_produce_connection_lost_repeatedly_copies_exactly_once(engine: Engine, lab: Lab, seed: int) -> None:
    topic = engine.topics
    engine.right = lab.clusters["RIGHT"].link_bootstrap  # the mirror goes through the proxy, the checker need not
    await asyncio.to_thread(create_topic, engine.left, topic, 3)
    chance = random.Random(seed)
    done = threading.Event()
    sent = 0

    def traffic() -> None:
        nonlocal sent
        for at in itertools.count(0, 3000):
            if done.wait(0.1):
                return
            # Compressed, so that small batches are not joined: many of them are on their way at any time.
            produce(engine.left, topic, 3000, partitions=3, first=at, batch=1500, codec="lz4")
            sent = at + 3000

    writing = asyncio.create_task(asyncio.to_thread(traffic))
    try:
        async with running(engine) as owner:

            def in_flight() -> int:
                return sum(len(s.unacked) for s in owner.running_flow._streams.values())

            lab.proxy.set("RIGHT-1", delay_ms=60)  # so that requests are on their way when it is cut
            await owner.mirrored(topic, dict.fromkeys(range(3), 1))
            for _ in range(RESETS):
                await asyncio.sleep(chance.uniform(0.02, 0.6))  # anywhere between two acknowledgements
                await until("many batches are on their way", lambda: in_flight() >= 20)
                await asyncio.to_thread(lab.proxy.reset, "RIGHT-1")
                position = {n: owner.partition(topic, n) for n in range(3)}
                await owner.mirrored(topic, {n: (p.mirrored if p else 0) + 1 for n, p in position.items()})
            done.set()
            await writing
            lab.proxy.clear("RIGHT-1")
            assert owner.claim(0).epoch + owner.claim(1).epoch >= RESETS
            await owner.mirrored(topic, dict.fromkeys(range(3), sent // 3), 60)
    finally:
        done.set()
        await writing
        lab.proxy.clear("RIGHT-1")
    engine.right = lab.clusters["RIGHT"].bootstrap
    engine.assert_same(topic, 3)


@pytest.mark.long  # the cleaner takes its time
async def test_recovery_source_compacted_before_resend_keeps_promises(engine: Engine) -> None:
    topic = engine.topics
    engine.extra["drlib.lanes"] = "1"
    create_topic(
        engine.left,
        topic,
        1,
        cleanup_policy="compact",
        segment_bytes="1048576",
        segment_ms="300",
        min_cleanable_dirty_ratio="0.01",
        min_compaction_lag_ms="1500",
    )
    # Small batches that are not joined; the newest of some keys stand far before those of the others.
    produce(engine.left, topic, 1000, partitions=1, batch=1500, codec="lz4")
    produce(engine.left, topic, 500, partitions=1, batch=1500, codec="lz4", first=1000, keys=40)
    original = read_all(engine.left, topic, 1)[0]
    assert len(original) == 1500
    first = engine.start(failpoint="mid-produce:20")
    assert first.wait(60) == -signal.SIGKILL, engine.log()
    at = 1500

    def compacted() -> bool:
        nonlocal at
        produce(engine.left, topic, 1, partitions=1, first=at, keys=40)  # an append is what rolls a segment
        at += 1
        return len(read_all(engine.left, topic, 1)[0]) < 1000

    await asyncio.to_thread(wait_for, "the source is compacted", compacted, 60)
    async with running(engine) as heir:
        await heir.mirrored(topic, {0: at})
    flow = load_mirror_settings(engine.properties).flow(engine.source, engine.target)
    async with connected(engine.right) as client:
        found = (await read_maps(client, flow.policy.journal_topic(engine.source))).source(topic, 0)
    assert found is not None
    there = read_all(engine.right, f"{engine.source}.{topic}", 1)[0]
    assert len({r[1] for r in there}) == len(there) == sum(s.count for s in found.segments())  # none twice
    assert not [r for r in read_all(engine.left, topic, 1)[0] if r not in there], "a record of the source is missing"
    # Every record that crossed before the crash stands at the offset the map gives for it.
    offsets = [s.target + n for s in found.segments() for n in range(s.count)]
    sources = [s.source + n for s in found.segments() for n in range(s.count)]
    assert len(offsets) == len(there)
    for source, record in zip(sources, there, strict=True):
        if source < len(original):
            assert record == original[source]


@pytest.mark.long
async def test_target_leader_killed_at_rf3_copies_exactly_once(
    lab_factory: Callable[..., Lab],
    tmp_path_factory: pytest.TempPathFactory,
    left: str,
    fresh_topic: Callable[..., str],
) -> None:
    three = lab_factory(aliases=("THREE",), brokers=3, extra={"min.insync.replicas": "2"}).clusters["THREE"]
    topic = fresh_topic("replicated")
    engine = Engine(
        tmp_path_factory.mktemp("three"),
        left,
        three.bootstrap,
        "LONE",
        "THREE",
        topic,
        {"replication.factor": "3", "drlib.journal.replication.factor": "3", "drlib.lanes": "2"},
    )
    create_topic(left, topic, 6)
    done = threading.Event()
    sent = 0

    def traffic() -> None:
        nonlocal sent
        for at in itertools.count(0, 300):
            if done.wait(0.02):
                return
            produce(left, topic, 300, partitions=6, first=at, batch=1500)
            sent = at + 300

    writing = asyncio.create_task(asyncio.to_thread(traffic))
    try:
        async with running(engine) as owner:
            for round_ in range(3):
                before = {n: owner.partition(topic, n) for n in range(6)}
                await owner.mirrored(topic, {n: (p.mirrored if p else 0) + 1 for n, p in before.items()}, 60)
                broker = three.brokers[round_ % 3]
                await asyncio.to_thread(broker.kill)
                before = {n: owner.partition(topic, n) for n in range(6)}
                await owner.mirrored(topic, {n: (p.mirrored if p else 0) + 1 for n, p in before.items()}, 90)
                await asyncio.to_thread(broker.restart)
            done.set()
            await writing
            await owner.mirrored(topic, dict.fromkeys(range(6), sent // 6), 90)
    finally:
        done.set()
        await writing
    await asyncio.to_thread(send, left, topic, ["last"])
    async with running(engine) as owner:
        await owner.mirrored(topic, {0: sent // 6 + 1}, 60)
    engine.assert_same(topic, 6)


def is_offline(owner: Running, partition: TopicPartition) -> bool:
    entities = [e.entity for e in owner.events.snapshot() if e.name == "OfflinePartition" and e.resolved_ms is None]
    return str(partition) in entities


@pytest.mark.long
async def test_source_partition_without_leader_is_reported_and_read_after_election(
    lab_factory: Callable[..., Lab],
    tmp_path_factory: pytest.TempPathFactory,
    right: str,
    fresh_topic: Callable[..., str],
) -> None:
    three = lab_factory(aliases=("THREE",), brokers=3).clusters["THREE"]
    topic = fresh_topic("offline")
    engine = Engine(tmp_path_factory.mktemp("offline"), three.bootstrap, right, "THREE", "RIGHT", topic)
    admin = AdminClient({"bootstrap.servers": three.bootstrap})
    nodes = sorted(admin.describe_cluster().result(20).nodes, key=lambda node: node.id)
    late = fresh_topic("late")
    for name in (topic, late):
        placed = NewTopic(name, num_partitions=3, replica_assignment=[[node.id] for node in nodes])
        admin.create_topics([placed])[name].result(20)
    lost, unread = TopicPartition(topic, 2), TopicPartition(late, 2)
    await asyncio.to_thread(produce, three.bootstrap, late, 300, partitions=3)
    for answer in admin.delete_records([KafkaPartition(late, number, 40) for number in range(3)]).values():
        await asyncio.to_thread(answer.result, 20)
    async with running(engine) as owner:
        await asyncio.to_thread(produce, three.bootstrap, topic, 300, partitions=3)
        await owner.mirrored(topic, dict.fromkeys(range(3), 100), 60)
        broker = next(b for b in three.brokers if b.spec.node_id == nodes[2].id)
        await asyncio.to_thread(broker.kill)
        await until("it is reported", lambda: is_offline(owner, lost), 60)
        await asyncio.to_thread(produce, three.bootstrap, topic, 200, partitions=2)
        await owner.mirrored(topic, {0: 200, 1: 200}, 60)  # the brokers that are left are read meanwhile
    engine.topics = f"{topic}, {late}"
    async with running(engine) as owner:  # and claimed meanwhile, also where nothing was mirrored yet
        await owner.mirrored(late, {0: 100, 1: 100}, 60)
        await until("it is reported", lambda: is_offline(owner, lost) and is_offline(owner, unread), 60)
        await asyncio.to_thread(broker.restart)
        await asyncio.to_thread(produce, three.bootstrap, topic, 300, partitions=3)
        await owner.mirrored(topic, {0: 300, 1: 300, 2: 200}, 60)
        await owner.mirrored(late, {2: 100}, 60)
        await until("it is resolved", lambda: not is_offline(owner, lost))
        assert not owner.reported("SourceLoss")  # what expired before anything was promised was never ours to lose
    for name in (topic, late):
        engine.assert_same(name, 3)
