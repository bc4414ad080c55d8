"""The topics of heartbeats, checkpoints and offset syncs are deleted or refuse records while a flow runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from fix_engine import Engine, alter, commit, create_topic, delete_topic, produce, read_all, wait_for
from testbed_mm2 import consume_some

from drlib.config.flow_settings import FlowSettings
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.mm2.records import Checkpoint, OffsetSync
from drlib.mirror.status.worker_status import EventLog
from drlib.mirror.sync.heartbeats import PairHeartbeats
from drlib.model import Flow

ALL_TOPICS = ("heartbeats", "{source}.checkpoints.internal", "mm2-offset-syncs.{target}.internal")


def names(engine: Engine) -> list[tuple[str, str]]:
    """Bootstrap server and name of each topic."""
    found = [name.format(source=engine.source, target=engine.target) for name in ALL_TOPICS]
    return [(engine.right, found[0]), (engine.right, found[1]), (engine.left, found[2])]


def records(bootstrap: str, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    try:
        return [(record[0], record[1]) for record in read_all(bootstrap, topic, 1)[0]]
    except Exception:  # the topic does not exist, or has no leader yet
        return []


def created_again(engine: Engine, name: str) -> bool:
    return "it was created again" in engine.wait_reported("InternalTopicDeleted", name).detail


def test_internal_topics_deleted_are_created_filled_and_reported(
    engine: Engine, fresh_topic: Callable[..., str]
) -> None:
    topic, group = engine.topics, fresh_topic("group")
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 100, partitions=1)
    consume_some(engine.left, topic, group, 100)
    worker = engine.start()
    engine.wait_caught_up(topic, 1)

    def complete() -> bool:
        beats, checkpoints, syncs = (records(*where) for where in names(engine))
        beating = any(engine.source.encode() in (key or b"") for key, _ in beats)  # other tests write what is none
        translated = any(Checkpoint.decode(*record).group == group for record in checkpoints)
        synced = any(OffsetSync.decode(*record).partition.topic == topic for record in syncs)
        return beating and translated and synced

    wait_for("all three are written", complete)
    for bootstrap, name in names(engine):
        delete_topic(bootstrap, name)
    for _, name in names(engine):
        created = partial(created_again, engine, name)  # at first it may say that the old one is still being deleted
        wait_for(f"{name} is created again", created)
    wait_for("all three are written again, though nothing moved", complete)
    for bootstrap, name in names(engine):
        with Cluster(ClusterSettings("ANY", (bootstrap,))) as cluster:
            assert cluster.topic_config([name])[name]["cleanup.policy"] == "compact"
            assert cluster.topics([name])[name].partitions == 1
    assert engine.stop(worker) == 0, engine.log()


async def test_pair_heartbeats_topic_that_is_refused_is_an_event_until_it_is_created(engine: Engine) -> None:
    with Cluster(ClusterSettings("ANY", (engine.left,))) as cluster:
        if cluster.topics(["heartbeats"]):
            delete_topic(engine.left, "heartbeats")
        wait_for("there is no such topic", lambda: not cluster.topics(["heartbeats"]))
    refused = FlowSettings(flow=Flow(engine.target, engine.source), heartbeats_replication_factor=3)
    events, left = EventLog(), ClusterSettings(engine.source, (engine.left,))
    assert not await PairHeartbeats(refused, left, events, lambda: True).create_topic()
    (event,) = events.snapshot()
    assert (event.name, event.entity) == ("Mm2RecordRefused", "heartbeats")
    assert f"{refused.flow}.emit.heartbeats.enabled = false" in event.remedy
    possible = replace(refused, heartbeats_replication_factor=1)
    assert await PairHeartbeats(possible, left, events, lambda: True).create_topic()
    assert not events.is_open("Mm2RecordRefused", "heartbeats")


@pytest.mark.long
def test_writer_refused_record_is_an_event_until_the_next_delivery(
    engine: Engine, fresh_topic: Callable[..., str]
) -> None:
    topic, group = engine.topics, fresh_topic("group")
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 100, partitions=1)
    worker = engine.start()
    engine.wait_caught_up(topic, 1)
    checkpoints = names(engine)[1][1]
    alter(engine.right, checkpoints, "max.message.bytes", "10")
    commit(engine.left, group, topic, 50)
    assert "large" in engine.wait_reported("Mm2RecordRefused", checkpoints).detail.lower()
    alter(engine.right, checkpoints, "max.message.bytes", "100000")
    commit(engine.left, group, topic, 60)
    engine.wait_reported("Mm2RecordRefused", checkpoints, resolved=True)
    assert engine.stop(worker) == 0, engine.log()
