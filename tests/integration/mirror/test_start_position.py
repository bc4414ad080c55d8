"""Topics without a position begin where auto.offset.reset or drlib.start.timestamp says, once.

What is before counts as never mirrored.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import Producer
from fix_engine import Engine, commit, create_topic, delete_topic, grow, produce, read_all, wait_for

from drlib.config.settings import load_mirror_settings
from drlib.config.start_rule import Start, StartRule
from drlib.kafka.admin.connect import wire_client
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.engine.lane.start_position import start_positions
from drlib.mirror.engine.lane.topics import LaneTopic
from drlib.mirror.errors import StartUnknown
from drlib.mirror.journal.entries import SourcePartition
from drlib.mirror.offsets.translation.translate_groups import translate_groups
from drlib.model import Flow, Translation, TranslationKind


def mirrored(engine: Engine, topic: str) -> list[int]:
    """The numbers of the records in partition 0 of the mirror."""
    records = read_all(engine.right, f"{engine.source}.{topic}", 1)[0]
    return [int(dict(headers)["n"]) for _, _, headers, _ in records]


def translated(engine: Engine, group: str) -> Translation:
    settings = load_mirror_settings(engine.properties)
    (found,) = translate_groups(settings, Flow(engine.source, engine.target), [group])
    return found.translation


def test_reset_latest_begins_at_the_stable_end_once(engine: Engine, fresh_topic: Callable[..., str]) -> None:
    topic, before, after = engine.topics, fresh_topic("before"), fresh_topic("after")
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 100, partitions=1)
    open_one = Producer({"bootstrap.servers": engine.left, "transactional.id": topic, "log_level": 0})
    open_one.init_transactions(30)
    open_one.begin_transaction()
    open_one.produce(topic, b"100", headers=[("n", b"100")], partition=0)
    assert open_one.flush(10) == 0
    commit(engine.left, before, topic, 40)
    engine.extra[f"{engine.source}.consumer.auto.offset.reset"] = "latest"
    worker = engine.start()
    event = engine.wait_reported("StartChosen", f"{topic}-0")
    assert "100 offsets before it are not mirrored" in event.detail
    assert engine.stop(worker) == 0, engine.log()
    open_one.commit_transaction(30)  # and more is written while no worker runs: the position is journaled
    produce(engine.left, topic, 20, partitions=1, first=101)
    worker = engine.start()
    engine.wait_caught_up(topic, 1)
    assert mirrored(engine, topic) == [*range(100, 121)]
    assert engine.stop(worker) == 0, engine.log()
    commit(engine.left, after, topic, 102)  # offset 101 is the commit marker
    assert translated(engine, before).kind is TranslationKind.NEVER_MIRRORED
    assert translated(engine, after).exact


def test_reset_none_waits_with_an_event_and_begins_when_it_is_changed(
    engine: Engine, fresh_topic: Callable[..., str]
) -> None:
    """A topic that has a position is not affected, nor is one that was re-created."""
    topic, other = engine.topics, fresh_topic("other")
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 10, partitions=1)
    engine.mirror_now(topic)
    engine.topics = f"{topic}, {other}"
    create_topic(engine.left, other, 1)
    produce(engine.left, other, 30, partitions=1)
    produce(engine.left, topic, 10, partitions=1, first=10)
    engine.extra[f"{engine.source}->{engine.target}.source.consumer.auto.offset.reset"] = "none"
    worker = engine.start()
    event = engine.wait_reported("NoStartPosition", other)
    assert "auto.offset.reset = none" in event.detail
    assert "restart the worker" in event.remedy
    engine.wait_caught_up(topic, 1)
    assert mirrored(engine, topic) == [*range(20)]
    delete_topic(engine.left, topic)
    create_again(engine, topic)
    engine.wait_reported("TopicRecreated", topic)
    wait_for("the re-created topic is mirrored from its start", lambda: mirrored(engine, topic) == [*range(20), 7, 8])
    assert mirrored(engine, other) == []
    assert engine.stop(worker) == 0, engine.log()
    engine.extra[f"{engine.source}->{engine.target}.source.consumer.auto.offset.reset"] = "latest"
    worker = engine.start()
    engine.wait_reported("StartChosen", f"{other}-0")
    produce(engine.left, other, 5, partitions=1, first=30)
    engine.wait_caught_up(other, 1)
    assert mirrored(engine, other) == [*range(30, 35)]
    assert mirrored(engine, topic) == [*range(20), 7, 8]
    assert engine.stop(worker) == 0, engine.log()


def create_again(engine: Engine, topic: str) -> None:
    def created() -> bool:
        try:
            create_topic(engine.left, topic, 1)
        except Exception:  # the deletion is still under way
            return False
        return True

    wait_for(f"{topic} is created again", created)
    produce(engine.left, topic, 2, partitions=1, first=7)


def test_start_timestamp_begins_with_the_first_record_of_that_time(engine: Engine) -> None:
    topic = engine.topics
    create_topic(engine.left, topic, 1)
    begin_ms = int(time.time() * 1000) - 3_600_000
    producer = Producer({"bootstrap.servers": engine.left, "log_level": 0})
    for number in range(60):  # one each minute, the hour before and the hour after
        at = begin_ms + (number - 30) * 60_000
        producer.produce(topic, b"x", headers=[("n", str(number).encode())], partition=0, timestamp=at)
    assert producer.flush(10) == 0
    engine.extra[f"{engine.source}->{engine.target}.drlib.start.timestamp"] = str(begin_ms)
    engine.mirror_now(topic)
    assert mirrored(engine, topic) == [*range(30, 60)]


def test_added_partition_begins_at_its_log_start_also_in_a_lane_that_never_had_its_topic(engine: Engine) -> None:
    """What was written to it before it was discovered was lost in silence, and in the lane's own claim, too."""
    topic = engine.topics
    create_topic(engine.left, topic, 2)
    produce(engine.left, topic, 20, partitions=2)
    engine.extra |= {
        "drlib.lanes": "3",  # partitions 0 and 3 are of one lane; that of partition 2 never had the topic
        "refresh.topics.interval.seconds": "5",
        f"{engine.source}.consumer.auto.offset.reset": "latest",
    }
    worker = engine.start()
    for number in range(2):
        engine.wait_reported("StartChosen", f"{topic}-{number}")
    grow(engine.left, topic, 4)
    produce(engine.left, topic, 40, partitions=4, first=100)
    engine.wait_caught_up(topic, 4)
    found = read_all(engine.right, f"{engine.source}.{topic}", 4)
    numbers = {p: [int(dict(headers)["n"]) for _, _, headers, _ in records] for p, records in found.items()}
    assert numbers == {p: [*range(100 + p, 140, 4)] for p in range(4)}
    assert engine.stop(worker) == 0, engine.log()


async def test_start_of_a_partition_without_leader_is_unknown_and_its_topic_waits(
    engine: Engine, fresh_topic: Callable[..., str]
) -> None:
    for name in (engine.topics, other := fresh_topic("other")):
        create_topic(engine.left, name, 2)
    async with wire_client(ClusterSettings("LEFT", (engine.left,)), client_id="starts") as client:
        found = (await client.metadata([engine.topics, other])).topics
        topics = [
            LaneTopic(engine.topics, found[engine.topics].topic_id, "", (0, 1, 2)),  # of 2, the source knows 0 and 1
            LaneTopic(other, found[other].topic_id, "", (0, 1)),
        ]
        begins = await start_positions(client, StartRule(Start.LATEST, value="latest"), topics)
    waiting = [begins[SourcePartition(topics[0].topic_id, number)] for number in range(3)]
    assert all(isinstance(why, StartUnknown) and f"{engine.topics}-2 has no leader" in why.why for why in waiting)
    assert [begins[SourcePartition(topics[1].topic_id, number)] for number in range(2)] == [0, 0]
