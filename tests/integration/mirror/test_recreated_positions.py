"""Positions and lag of a source topic that was created again are those of the new one, whatever lanes knew of the earlier."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from confluent_kafka.admin import AdminClient
from fix_engine import Engine, commit, create_topic, delete_topic, produce, wait_for
from testbed_sync import value_at

from drlib.config.settings import load_mirror_settings
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.offsets.translation.translate_groups import translate_groups
from drlib.mirror.offsets.unreplicated.lag import replication_lag
from drlib.model import Flow, GroupTranslation, TopicPartition, TranslationKind


def recreate(engine: Engine, topic: str, partitions: int) -> None:
    delete_topic(engine.left, topic)
    admin = AdminClient({"bootstrap.servers": engine.left, "log_level": 0})
    wait_for(f"{topic} is gone", lambda: topic not in admin.list_topics(timeout=5).topics)
    create_topic(engine.left, topic, partitions)


def translated(engine: Engine, group: str) -> GroupTranslation:
    settings = load_mirror_settings(engine.properties)
    (found,) = translate_groups(settings, Flow(engine.source, engine.target), [group], source_alive=True)
    return found


def missing(engine: Engine, topic: str, partitions: int) -> int:
    settings = load_mirror_settings(engine.properties)
    with Cluster(ClusterSettings(engine.source, (engine.left,))) as source:
        every = [TopicPartition(topic, number) for number in range(partitions)]
        return replication_lag(settings, Flow(engine.source, engine.target), source, every).offsets


def test_topic_created_again_with_more_partitions_has_its_own_positions_and_lag(
    engine: Engine, fresh_topic: Callable[..., str]
) -> None:
    """Its first partition is in lane 1, which knows both topics; lane 0 had no partition of the earlier one."""
    number = next(n for n in range(9) if zlib.crc32(f"{engine.topics}.{n}".encode()) % 2)
    topic, group = f"{engine.topics}.{number}", fresh_topic("group")
    mirror = f"{engine.source}.{topic}"
    engine.topics = topic
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 50, partitions=1)
    worker = engine.start()
    engine.wait_caught_up(topic, 1)
    recreate(engine, topic, 3)
    produce(engine.left, topic, 20, partitions=1, first=1000)
    engine.wait_reported("TopicRecreated", topic)
    engine.wait_caught_up(topic, 3)
    commit(engine.left, group, topic, 5)
    found = translated(engine, group)
    assert found.translation.exact
    assert found.translation.offset is not None
    assert value_at(engine.right, mirror, found.translation.offset) == value_at(engine.left, topic, 5)
    assert missing(engine, topic, 3) == 0
    assert engine.stop(worker) == 0, engine.log()
    produce(engine.left, topic, 30, partitions=1, first=2000)
    assert missing(engine, topic, 3) == 30
    recreate(engine, topic, 3)  # nothing of this one is mirrored
    produce(engine.left, topic, 10, partitions=1, first=3000)
    assert missing(engine, topic, 3) == 10
    commit(engine.left, group, topic, 3)
    found = translated(engine, group)
    assert (found.translation.kind, found.translation.offset) == (TranslationKind.UNKNOWN, None)
    assert "created again" in found.why
