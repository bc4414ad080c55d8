"""Sources of older Kafka versions: copied exactly once by workers that are killed, groups translated exactly.

Long: each version has its own broker, Kafka 2.x with ZooKeeper, whose jars are downloaded at the first use.
"""

from __future__ import annotations

import json
import re
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from command_line import drlib, error_line
from confluent_kafka import KafkaError, KafkaException, Producer
from fix_engine import Engine, create_topic, delete_records, delete_topic, produce, read_all, traffic, wait_for
from testbed_old_brokers import VERSIONS, old_broker
from testbed_sync import cluster, move, position, value_at

from drlib.config.settings import load_mirror_settings
from drlib.kafka.admin.descriptions import Range, Record
from drlib.kafka.topic_ids import made_id
from drlib.lab.ports import free_ports
from drlib.mirror.offsets.map.flow_maps import read_flow_maps
from drlib.mirror.offsets.translation.translate_groups import translate_groups
from drlib.model import Flow, TopicPartition, TranslationKind

pytestmark = pytest.mark.long
PARTITIONS = 3
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module", params=VERSIONS)
def old_source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """bootstrap.servers of a broker of an older version."""
    with old_broker(request.param, tmp_path_factory.mktemp(f"kafka-{request.param}")) as bootstrap:
        yield bootstrap


@pytest.fixture
def engine(old_source: str, right: str, fresh_topic: Callable[..., str], tmp_path: Path) -> Iterator[Engine]:
    tag = uuid.uuid4().hex[:6]
    found = Engine(tmp_path, old_source, right, f"OLD{tag}", f"DST{tag}", fresh_topic())
    yield found
    found.close()


def test_old_source_killed_worker_copies_exactly_once_and_translates_exactly(engine: Engine, tmp_path: Path) -> None:
    topic, group = engine.topics, f"group-of-{engine.topics}"
    engine.extra |= {"sync.group.offsets.enabled": "true", "sync.group.offsets.interval.seconds": "1"}
    create_topic(engine.left, topic, PARTITIONS)
    for at, codec in enumerate(CODECS):
        produce(engine.left, topic, 900, partitions=PARTITIONS, first=900 * at, codec=codec, batch=2000 * (at + 1))
    transactions(engine.left, topic, 30)
    move(engine.left, group, topic, 700)
    first = engine.start(failpoint="mid-produce:3")
    with traffic(engine.left, topic, partitions=PARTITIONS, first=10_000):
        assert first.wait(60) == -signal.SIGKILL, engine.log()
        second = engine.start()
        mirror = f"{engine.source}.{topic}"
        wait_for("some of it is mirrored", lambda: mirror_end(engine.right, mirror) > 500)
        second.send_signal(signal.SIGKILL)
        assert second.wait(20) == -signal.SIGKILL
    third = engine.start()
    engine.wait_caught_up(topic, PARTITIONS)
    flow = Flow(engine.source, engine.target)
    (found,) = translate_groups(load_mirror_settings(engine.properties), flow, [group])
    assert (found.source_offset, found.translation.kind) == (700, TranslationKind.EXACT)
    assert value_at(engine.right, mirror, found.translation.offset or 0) == value_at(engine.left, topic, 700)
    wait_for("the group is there", lambda: position(engine.right, group, mirror) == found.translation.offset)
    no_runs = str(tmp_path / "runs")  # the working folder's may hold a drill that passed
    doctor = drlib("doctor", str(engine.properties), "--json", "--min-score", "0", "--runs-dir", no_runs)
    assert engine.stop(third) == 0, engine.log()
    engine.assert_same(topic, PARTITIONS)
    assert not [e for e in engine.events() if e.resolved_ms is None], engine.events()
    assert_map_is_exact(engine)
    (report,) = json.loads(doctor.stdout)
    doubts = {finding["id"]: finding["evidence"] for finding in report["findings"] if finding["verdict"] != "ok"}
    too_old = doubts.pop("producer-ids", "does not support DescribeProducers v0")  # Kafka 2.8 has no ListTransactions
    assert re.search("does not support (DescribeProducers|ListTransactions) v0", too_old), doubts
    # no worker was named, no drill was run, and producers have no topic of their own on the target
    assert doubts.keys() == {"events", "drill-age", "producer-topics"}, doubts


def test_old_source_topic_recreated_longer_is_mirrored_from_its_start(engine: Engine) -> None:
    """Under a running worker and while none runs. A fetch by name would continue in the middle of the new topic."""
    topic, mirror = engine.topics, f"{engine.source}.{engine.topics}"
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 50, partitions=1)
    worker = engine.start()
    engine.wait_caught_up(topic, 1)
    for count, first, runs in ((80, 1000, True), (120, 2000, False)):
        if not runs:
            assert engine.stop(worker) == 0, engine.log()
        recreate(engine.left, topic)
        produce(engine.left, topic, count, partitions=1, first=first)
        if not runs:
            worker = engine.start()
        engine.wait_reported("TopicRecreated", topic)
        engine.wait_caught_up(topic, 1)
    assert engine.stop(worker) == 0, engine.log()
    numbers = [int((value or b"").rstrip(b"x")) for _, value, _, _ in read_all(engine.right, mirror, 1)[0]]
    assert numbers == [*range(50), *range(1000, 1080), *range(2000, 2120)]


def test_topic_without_id_recreated_shorter_or_alike_is_mirrored_from_its_start(
    right: str, fresh_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Neither a truncation nor the middle of a log."""
    older = {"inter.broker.protocol.version": "2.7"}  # brokers of 2.8 that give topics no IDs
    with old_broker("2.8.2", tmp_path / "kafka", older) as bootstrap:
        topic = fresh_topic()
        engine = Engine(tmp_path, bootstrap, right, f"OLD{tmp_path.name[-6:]}", "NEW", topic)
        mirror = f"{engine.source}.{topic}"
        try:
            create_topic(bootstrap, topic, 1)
            produce(bootstrap, topic, 60, partitions=1)
            worker = engine.start()
            engine.wait_caught_up(topic, 1)
            expected = [*range(60)]
            for count, first, runs in ((20, 1000, True), (10, 2000, False), (10, 3000, False)):
                if not runs:
                    assert engine.stop(worker) == 0, engine.log()
                recreate(bootstrap, topic)
                produce(bootstrap, topic, count, partitions=1, first=first)
                if not runs:
                    worker = engine.start()
                engine.wait_reported("TopicRecreated", topic)
                expected.extend(range(first, first + count))
                # By records: the offsets of the topic before were higher.
                wait_for("it is mirrored", lambda: len(read_all(right, mirror, 1)[0]) >= len(expected))
            assert engine.stop(worker) == 0, engine.log()
            numbers = [int((value or b"").rstrip(b"x")) for _, value, _, _ in read_all(right, mirror, 1)[0]]
            assert numbers == expected
            truncated = [e for e in engine.events() if e.name in {"SourceTruncated", "SourceUnproven"}]
            assert not truncated
            # Records settled of a topic before are not taken for settled ones of the newest.
            maps = read_flow_maps(load_mirror_settings(engine.properties), Flow(engine.source, engine.target))
            with cluster(bootstrap) as here:
                assert maps.first_id(here.topics([topic])[topic].topic_id) == made_id(here.cluster_id(), topic, 4)
        finally:
            engine.close()


def test_topic_without_id_recreated_while_the_worker_is_suspended_is_mirrored_from_its_start(
    right: str, fresh_topic: Callable[..., str], tmp_path: Path
) -> None:
    """Its connections stay, and the broker continues their fetch sessions from the same offset of the new log."""
    older = {"inter.broker.protocol.version": "2.7"}
    with old_broker("2.8.2", tmp_path / "kafka", older) as bootstrap:
        topic = fresh_topic()
        engine = Engine(tmp_path, bootstrap, right, f"OLD{uuid.uuid4().hex[:6]}", "NEW", topic)
        mirror = f"{engine.source}.{topic}"
        try:
            create_topic(bootstrap, topic, 1)
            produce(bootstrap, topic, 20, partitions=1)
            worker = engine.start()
            engine.wait_caught_up(topic, 1)
            worker.send_signal(signal.SIGSTOP)
            recreate(bootstrap, topic)
            produce(bootstrap, topic, 50, partitions=1, first=1000)
            worker.send_signal(signal.SIGCONT)
            engine.wait_reported("TopicRecreated", topic)
            engine.wait_caught_up(topic, 1)
            assert engine.stop(worker) == 0, engine.log()
            numbers = [int((value or b"").rstrip(b"x")) for _, value, _, _ in read_all(right, mirror, 1)[0]]
            assert numbers == [*range(20), *range(1000, 1050)]
        finally:
            engine.close()


def test_topic_without_id_that_cannot_be_compared_waits_until_nothing_is_left(
    right: str, fresh_topic: Callable[..., str], tmp_path: Path
) -> None:
    """What could be compared is gone from the mirror. Once it is gone from the source, too, nothing can be copied twice."""
    older = {"inter.broker.protocol.version": "2.7"}
    with old_broker("2.8.2", tmp_path / "kafka", older) as bootstrap:
        topic = fresh_topic()
        engine = Engine(tmp_path, bootstrap, right, f"OLD{uuid.uuid4().hex[:6]}", "NEW", topic)
        mirror = f"{engine.source}.{topic}"
        try:
            create_topic(bootstrap, topic, 1)
            produce(bootstrap, topic, 30, partitions=1)
            engine.mirror_now(topic)
            with cluster(right) as here:
                end = here.log_ends([TopicPartition(mirror, 0)])[TopicPartition(mirror, 0)]
            delete_records(right, mirror, end)
            produce(bootstrap, topic, 10, partitions=1, first=100)
            worker = engine.start()
            event = engine.wait_reported("SourceUnproven", f"{topic}-0")
            assert "nothing shows whether the topic was re-created" in event.detail
            delete_records(bootstrap, topic, 30)
            engine.wait_reported("SourceUnproven", f"{topic}-0", resolved=True)
            engine.wait_caught_up(topic, 1)
            assert engine.stop(worker) == 0, engine.log()
            numbers = [int((value or b"").rstrip(b"x")) for _, value, _, _ in read_all(right, mirror, 1)[0]]
            assert numbers == [*range(100, 110)]
        finally:
            engine.close()


@pytest.mark.parametrize("killed", ["", "topics-judged", "topics-identified", "mid-claim:3"])
def test_source_upgraded_until_topics_have_ids_keeps_every_position(
    right: str, fresh_topic: Callable[..., str], tmp_path: Path, killed: str
) -> None:
    """The map of the ID that was made is continued under the ID of Kafka, also where the worker is killed on the way."""
    ports = free_ports(2)
    topic, group = fresh_topic(), f"group-of-{tmp_path.name}"
    engine = Engine(tmp_path, "", right, f"OLD{uuid.uuid4().hex[:6]}", "NEW", topic)
    mirror = f"{engine.source}.{topic}"
    try:
        with old_broker("2.4.1", tmp_path / "kafka", ports=ports) as bootstrap:
            engine.left = bootstrap
            create_topic(bootstrap, topic, PARTITIONS)
            produce(bootstrap, topic, 900, partitions=PARTITIONS, batch=2000)
            transactions(bootstrap, topic, 6)
            move(bootstrap, group, topic, 200)
            worker = engine.start()
            engine.wait_caught_up(topic, PARTITIONS)
            produce(bootstrap, topic, 90, partitions=PARTITIONS, first=900)
            engine.wait_caught_up(topic, PARTITIONS)
            if killed:
                assert engine.stop(worker) == 0, engine.log()
        with old_broker("2.8.2", tmp_path / "kafka", ports=ports):
            if killed:
                worker = engine.start(failpoint=killed)
                assert worker.wait(60) == -signal.SIGKILL, engine.log()
                worker = engine.start()
            produce(engine.left, topic, 300, partitions=PARTITIONS, first=2000)
            engine.wait_caught_up(topic, PARTITIONS)
            # A broker with ZooKeeper that has just started knows no topics: what is created for that reason stays reported.
            about = {topic, *(f"{topic}-{number}" for number in range(PARTITIONS))}
            wait_for(
                "nothing is open", lambda: not [e for e in engine.events() if not e.resolved_ms and e.entity in about]
            )
            (found,) = translate_groups(
                load_mirror_settings(engine.properties), Flow(engine.source, engine.target), [group]
            )
            assert (found.source_offset, found.translation.kind) == (200, TranslationKind.EXACT)
            assert value_at(right, mirror, found.translation.offset or 0) == value_at(engine.left, topic, 200)
            assert engine.stop(worker) == 0, engine.log()
            assert not [e for e in engine.events() if e.name == "TopicRecreated"]
            engine.assert_same(topic, PARTITIONS)
            assert_map_is_exact(engine)
            worker = engine.start()  # a claim that reads the renamed journal
            produce(engine.left, topic, 30, partitions=PARTITIONS, first=3000)
            engine.wait_caught_up(topic, PARTITIONS)
            assert engine.stop(worker) == 0, engine.log()
            engine.assert_same(topic, PARTITIONS)
            assert_map_is_exact(engine)
            with cluster(engine.left) as here:
                real = here.topics([topic])[topic].topic_id
            maps = read_flow_maps(load_mirror_settings(engine.properties), Flow(engine.source, engine.target))
            assert {key.topic_id for key in maps.by_partition} == {real}
            assert real.version == 4
            with cluster(engine.left) as here:
                assert maps.first_id(real) == made_id(here.cluster_id(), topic, 1)
    finally:
        engine.close()


def test_old_cluster_that_cannot_be_used_is_refused_with_what_it_lacks(
    right: str, fresh_topic: Callable[..., str], tmp_path: Path
) -> None:
    """No 2.8 can be mirrored to. That a source is older than 2.4 is said by `test_api_versions`."""
    with old_broker("2.8.2", tmp_path / "kafka") as bootstrap:
        topic = fresh_topic()
        create_topic(bootstrap, topic, 1)
        to_old = Engine(tmp_path, right, bootstrap, "NEW", "OLD", topic)
        refused = error_line(drlib("mirror", str(to_old.properties)), 2)
        assert f"broker {bootstrap} does not support Fetch v13" in refused
        assert "Use a cluster of Kafka 3.1 or newer as the target of a mirror." in refused


def transactions(bootstrap: str, topic: str, count: int) -> None:
    """Transactions of seven records each, every third aborted."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(30)
    for number in range(count):
        producer.begin_transaction()
        for record in range(7):
            producer.produce(topic, value=f"{number}-{record}".encode(), partition=record % PARTITIONS)
        producer.flush(30)
        if number % 3 == 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)


def recreate(bootstrap: str, topic: str) -> None:
    """Delete a topic and create it with one partition: a broker forgets a deleted topic before its controller does."""

    def created() -> bool:
        try:
            create_topic(bootstrap, topic, 1)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            return False
        return True

    delete_topic(bootstrap, topic)
    wait_for(f"{topic} is re-created", created)


def mirror_end(bootstrap: str, topic: str) -> int:
    with cluster(bootstrap) as here:
        partitions = [TopicPartition(topic, n) for n in range(PARTITIONS)]
        return sum(here.log_ends(partitions).values()) if here.topics([topic]) else 0


def records(bootstrap: str, partition: TopicPartition) -> dict[int, Record]:
    with cluster(bootstrap) as here:
        end = here.log_ends([partition])[partition]
        return {record.offset: record for record in here.read({partition: Range(0, end)})}


def assert_map_is_exact(engine: Engine) -> None:
    """Every record's offset leads to its copy on the target, and back."""
    maps = read_flow_maps(load_mirror_settings(engine.properties), Flow(engine.source, engine.target))
    assert {key.partition for key in maps.by_partition} == set(range(PARTITIONS))
    for key, found in maps.by_partition.items():
        source = records(engine.left, TopicPartition(engine.topics, key.partition))
        target = records(engine.right, TopicPartition(f"{engine.source}.{engine.topics}", key.partition))
        assert len(source) == len(target) > 0
        for offset, record in source.items():
            there = found.forward(offset)
            assert there.kind is TranslationKind.EXACT, (key, offset, there)
            assert there.offset is not None
            copy = target[there.offset]
            assert (copy.key, copy.value, copy.timestamp_ms) == (record.key, record.value, record.timestamp_ms)
            assert found.backward(there.offset).offset == offset
