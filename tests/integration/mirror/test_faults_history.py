"""Diverged histories: the source's log or the mirror's is no longer the one it was, and the topic is mirrored again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import drlib
from confluent_kafka.admin import AdminClient, NewTopic
from fix_engine import Engine, create_topic, delete_topic, produce, read_all, wait_for
from testbed_lane import running, until
from testbed_log_files import cut_at_offset, log_of

from drlib.lab.brokers.broker import new_id
from drlib.lab.lab import Lab
from drlib.mirror.engine.lane import produce_loop


def numbers(bootstrap: str, topic: str) -> list[int]:
    """The records of `produce` in partition 0, in log order."""
    return [int(dict(record[2])["n"]) for record in read_all(bootstrap, topic, 1)[0]]


def _topics(bootstrap: str) -> set[str]:
    return set(AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=5).topics)


def begin_again(engine: Engine, remedy: str, topic: str) -> None:
    """Follow the remedy."""
    assert f"drlib remirror FILE {topic}" in remedy
    result = drlib("remirror", str(engine.properties), topic, "--yes")
    assert result.returncode == 0, result.stderr
    assert f"deleted: {engine.source}.{topic} on {engine.target}" in result.stdout


@pytest.mark.long
def test_source_unclean_election_hidden_by_growth_is_detected_and_remirrored(
    engine: Engine, authorizer_lab: Lab, fresh_topic: Callable[..., str]
) -> None:
    """150 records are mirrored; the source comes back with 100 of them and grows to 300 before the next fetch."""
    cluster = authorizer_lab.clusters["AUTHORIZED"]
    engine.left = cluster.bootstrap
    topic, other = engine.topics, fresh_topic("other")
    mirror = f"{engine.source}.{topic}"
    engine.topics = f"{topic}, {other}"
    for name in (topic, other):
        create_topic(engine.left, name, 1)
        for first, count in ((0, 100), (100, 50)):
            produce(engine.left, name, count, partitions=1, first=first)
    worker = engine.start()
    for name in (topic, other):
        engine.wait_caught_up(name, 1)
    assert engine.stop(worker) == 0, engine.log()
    cluster.kill()
    cut_at_offset(log_of(authorizer_lab, "AUTHORIZED", topic), 100)
    cluster.restart()
    produce(engine.left, topic, 200, partitions=1, first=1000)
    produce(engine.left, other, 10, partitions=1, first=150)
    assert numbers(engine.left, topic) == [*range(100), *range(1000, 1200)]

    worker = engine.start()
    event = engine.wait_reported("SourceTruncated", f"{topic}-0")
    assert "offsets 100 to 149 were mirrored under leader epoch" in event.detail
    engine.wait_caught_up(other, 1)
    assert engine.stop(worker) == 0, engine.log()
    assert numbers(engine.right, mirror) == list(range(150))
    begin_again(engine, event.remedy, topic)
    worker = engine.start()
    for name in (topic, other):
        engine.wait_caught_up(name, 1)
    assert not engine.reported("SourceTruncated", f"{topic}-0")
    assert engine.stop(worker) == 0, engine.log()
    for name in (topic, other):
        engine.assert_same(name, 1)


@pytest.mark.long
def test_mirror_that_lost_acknowledged_records_is_parked_and_remirrored(
    engine: Engine, authorizer_lab: Lab, fresh_topic: Callable[..., str]
) -> None:
    cluster = authorizer_lab.clusters["AUTHORIZED"]
    engine.right = cluster.bootstrap
    topic, other = engine.topics, fresh_topic("other")
    mirror = f"{engine.source}.{topic}"
    engine.topics = f"{topic}, {other}"
    for name in (topic, other):
        create_topic(engine.left, name, 1)
    worker = engine.start()
    for first in range(0, 50, 10):
        for name in (topic, other):
            produce(engine.left, name, 10, partitions=1, first=first)
            engine.wait_caught_up(name, 1)
    cluster.kill()
    engine.wait_reported("TargetUnreachable", engine.target)
    cut_at_offset(log_of(authorizer_lab, "AUTHORIZED", mirror), 45)
    cluster.restart()
    kept = len(read_all(engine.right, mirror, 1)[0])
    assert 0 < kept < 50
    for name in (topic, other):
        produce(engine.left, name, 10, partitions=1, first=50)
    engine.wait_caught_up(other, 1)
    event = engine.wait_reported("MirrorContradiction", f"{mirror}-0")
    assert "were acknowledged" in event.detail
    engine.wait_reported("TargetUnreachable", engine.target, resolved=True)
    assert len(read_all(engine.right, mirror, 1)[0]) == kept
    begin_again(engine, event.remedy, topic)
    engine.wait_reported("MirrorContradiction", f"{mirror}-0", resolved=True)
    for name in (topic, other):
        engine.wait_caught_up(name, 1)
    assert engine.stop(worker) == 0, engine.log()
    for name in (topic, other):
        engine.assert_same(name, 1)


async def test_mirror_that_lost_records_whose_acks_were_not_journaled_is_parked(
    engine: Engine, authorizer_lab: Lab, fresh_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker itself knows what the target had acknowledged, and looks at a new leader's log although it is idle."""
    monkeypatch.setattr(produce_loop, "PROGRESS_S", 600.0)
    cluster = authorizer_lab.clusters["AUTHORIZED"]
    engine.right = cluster.bootstrap
    topic, other = engine.topics, fresh_topic("other")
    mirror = f"{engine.source}.{topic}"
    engine.topics = f"{topic}, {other}"
    for name in (topic, other):
        create_topic(engine.left, name, 1)
    async with running(engine) as worker:
        for first in range(0, 50, 10):
            for name in (topic, other):
                await asyncio.to_thread(produce, engine.left, name, 10, partitions=1, first=first)
                await worker.mirrored(name, {0: first + 10})
        await asyncio.to_thread(cluster.kill)
        cut_at_offset(log_of(authorizer_lab, "AUTHORIZED", mirror), 45)
        await asyncio.to_thread(cluster.restart)
        kept = await asyncio.to_thread(read_all, engine.right, mirror, 1)
        assert 0 < len(kept[0]) < 50
        await until("the loss is reported", lambda: bool(worker.reported("MirrorContradiction")))
        assert "were acknowledged" in worker.reported("MirrorContradiction")[0]
        for name in (topic, other):
            await asyncio.to_thread(produce, engine.left, name, 10, partitions=1, first=50)
        await worker.mirrored(other, {0: 60}, 90.0)
        assert await asyncio.to_thread(read_all, engine.right, mirror, 1) == kept


@pytest.mark.long
def test_source_topic_recreated_longer_is_mirrored_from_its_start(engine: Engine) -> None:
    """Once under a running worker and once while none runs: the new log's length alone does not show it."""
    topic, mirror = engine.topics, f"{engine.source}.{engine.topics}"
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 50, partitions=1)
    worker = engine.start()
    engine.wait_caught_up(topic, 1)
    for count, first, runs in ((80, 1000, True), (120, 2000, False)):
        if not runs:
            assert engine.stop(worker) == 0, engine.log()
        delete_topic(engine.left, topic)
        wait_for("it is gone", lambda: topic not in _topics(engine.left))
        create_topic(engine.left, topic, 1)
        produce(engine.left, topic, count, partitions=1, first=first)
        if not runs:
            worker = engine.start()
        engine.wait_reported("TopicRecreated", topic)
        engine.wait_caught_up(topic, 1)
    assert engine.stop(worker) == 0, engine.log()
    assert numbers(engine.right, mirror) == [*range(50), *range(1000, 1080), *range(2000, 2120)]


@pytest.mark.long
def test_source_unclean_election_among_three_brokers_is_detected(
    engine: Engine, lab_factory: Callable[..., Lab], fresh_topic: Callable[..., str]
) -> None:
    """A follower that missed 50 records becomes leader and accepts 200 others while the worker runs."""
    cluster = lab_factory(aliases=("THREE",), brokers=3, extra={"min.insync.replicas": "1"}).clusters["THREE"]
    first, second, third = cluster.brokers
    engine.left = cluster.bootstrap
    topic = engine.topics
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    config = {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
    replicas = [[second.spec.node_id, third.spec.node_id]]
    wanted = NewTopic(topic, num_partitions=1, replica_assignment=replicas, config=config)
    admin.create_topics([wanted])[topic].result(10)

    def leader() -> int:
        partition = admin.list_topics(topic, timeout=5).topics[topic].partitions.get(0)
        return int(partition.leader) if partition is not None else -1

    wait_for("the topic has its leader", lambda: leader() == second.spec.node_id)
    produce(engine.left, topic, 100, partitions=1)
    worker = engine.start()
    engine.wait_caught_up(topic, 1)
    third.stop()
    produce(engine.left, topic, 50, partitions=1, first=100)
    engine.wait_caught_up(topic, 1)
    second.kill()
    third.launch()  # ready would be a cluster of three, which it is no more once the killed broker's session has expired
    wait_for("the follower that missed 50 records leads", lambda: leader() == third.spec.node_id, 90)
    produce(f"{first.bootstrap},{third.bootstrap}", topic, 200, partitions=1, first=1000)
    event = engine.wait_reported("SourceTruncated", f"{topic}-0")
    assert "100" in event.detail
    assert "150" in event.detail or "149" in event.detail
    assert engine.stop(worker) == 0, engine.log()
    assert numbers(engine.right, f"{engine.source}.{topic}") == list(range(150))


@pytest.mark.long
@pytest.mark.parametrize("side", ["source", "target"])
def test_wrong_cluster_at_same_address_is_reported_and_not_used(
    engine: Engine, lab_factory: Callable[..., Lab], side: str
) -> None:
    """Another cluster uses the port for a while: with the same topic on the source's side, with none on the target's."""
    cluster = lab_factory(aliases=("MOVED",)).clusters["MOVED"]
    (broker,) = cluster.brokers
    setattr(engine, "left" if side == "source" else "right", broker.bootstrap)
    alias = engine.source if side == "source" else engine.target
    topic = engine.topics
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 50, partitions=1)
    worker = engine.start()
    engine.wait_caught_up(topic, 1)
    own, data = broker.spec, Path(broker.spec.directory) / "data"
    cluster.kill()
    data.rename(data.with_name("own"))
    broker.spec = replace(own, cluster_id=new_id())
    broker.prepare({})
    broker.launch()
    broker.wait_ready(60)
    if side == "source":
        create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 70, partitions=1, first=1000)
    event = engine.wait_reported("WrongCluster", alias)
    assert broker.spec.cluster_id in event.detail
    assert own.cluster_id in event.detail
    if side == "target":
        wait_for("it was asked again", lambda: engine.reported("WrongCluster", alias))
        there = AdminClient({"bootstrap.servers": engine.right, "log_level": 0}).list_topics(timeout=5).topics
        assert not [name for name in there if name.startswith(engine.source)]
    cluster.kill()
    data.rename(data.with_name("another"))
    data.with_name("own").rename(data)
    broker.spec = own
    broker.prepare({})
    broker.launch()
    broker.wait_ready(60)
    produce(engine.left, topic, 10, partitions=1, first=50)
    engine.wait_caught_up(topic, 1)
    engine.wait_reported("WrongCluster", alias, resolved=True)
    assert not [e for e in engine.events() if e.name == "LaneFailed"]
    assert engine.stop(worker) == 0, engine.log()
    engine.assert_same(topic, 1)
