"""MirrorMaker 2 and Kafka's Java classes, to compare the engine with."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Sequence

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from fix_engine import Engine, Record, create_topic, read_all, wait_for
from repository_root import TESTS
from testbed_lane import connected, journal_of

from drlib.lab import jars
from drlib.mirror.journal.entries import Entry, SourcePartition, TopicNames
from drlib.mirror.mm2.records import Checkpoint
from drlib.mirror.mm2.records import OffsetSync as Sync
from drlib.mirror.offsets.map.fold_claims import unfold
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.model import TopicPartition as Partition

SOURCES = TESTS / "java"


def java(program: str, *arguments: str, questions: list[tuple[str, ...]] | None = None) -> str:
    """Standard output of one of the programs in tests/java, run from its source on the lab's jars."""
    launcher = shutil.which("java")
    assert launcher is not None, "Java 17 is needed on the PATH"
    classpath = ":".join(str(jar) for jar in jars.classpath("mm2"))
    done = subprocess.run(
        [launcher, "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", classpath, str(SOURCES / program), *arguments],
        input="".join("\t".join(fields) + "\n" for fields in questions or ()),
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def consume_some(bootstrap: str, topic: str, group: str, records: int) -> dict[int, int]:
    """Consume at least `records` and commit where that ends; positions by partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    seen = 0

    def step() -> bool:
        nonlocal seen
        seen += sum(message.error() is None for message in consumer.consume(100, 0.1))
        return seen >= records

    try:
        wait_for(f"{group} consumed {records}", step)
        consumer.commit(asynchronous=False)
        committed = consumer.committed(consumer.assignment(), timeout=10)
        return {at.partition: at.offset for at in committed if at.offset >= 0}
    finally:
        consumer.close()


PARTITIONS = 3


def connect_keys(*aliases: str) -> dict[str, str]:
    """What the Connect workers of MirrorMaker 2 need on clusters of one broker.

    They find plugins by manifest (KIP-898): reading every class of the class path takes two thirds of a start.
    """
    factors = (f"{kind}.storage.replication.factor" for kind in ("offset", "status", "config"))
    return {**dict.fromkeys(factors, "1"), **{f"{alias}.plugin.discovery": "service_load" for alias in aliases}}


def copies(engine: Engine) -> dict[int, list[Record]]:
    return read_all(engine.right, f"{engine.source}.{engine.topics}", PARTITIONS)


def ends(engine: Engine) -> int:
    """Log ends of the mirror partitions added up; 0 before MM2 made the topic."""
    admin = AdminClient({"bootstrap.servers": engine.right, "log_level": 0})
    mirror = f"{engine.source}.{engine.topics}"
    wanted = {TopicPartition(mirror, p): OffsetSpec.latest() for p in range(PARTITIONS)}
    try:
        return sum(future.result(10).offset for future in admin.list_offsets(wanted).values())
    except KafkaException:
        return 0


def wait_for_copies(engine: Engine, least: int) -> None:
    wait_for(f"the mirror holds {least} records", lambda: ends(engine) >= least, 120)


def write(bootstrap: str, topic: str, key: bytes, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    producer.produce(topic, key=key, value=value)
    assert producer.flush(30) == 0


def copy_as_they_are(engine: Engine) -> None:
    """Copy partition 0 as MirrorMaker 2 does: with keys, headers and timestamps."""
    producer = Producer({"bootstrap.servers": engine.right, "log_level": 0, "linger.ms": 5})
    for key, value, headers, timestamp in read_all(engine.left, engine.topics, 1)[0]:
        name = f"{engine.source}.{engine.topics}"
        producer.produce(name, key=key, value=value, headers=list(headers), timestamp=timestamp, partition=0)
    assert producer.flush(30) == 0


def copied_up_to(engine: Engine, offset: int) -> str:
    """Store `offset` of the topic's partition 0 as Kafka Connect does; the offsets topic."""
    topic = f"mm2-offsets.{engine.source}.internal"
    create_topic(engine.right, topic, 1, cleanup_policy="compact")
    partition = {"cluster": engine.source, "partition": 0, "topic": engine.topics}
    key = json.dumps(["MirrorSourceConnector", partition], separators=(",", ":"))
    write(engine.right, topic, key.encode(), json.dumps({"offset": offset}).encode())
    return topic


def journal_entries(engine: Engine) -> list[Entry]:
    """The valid entries of the journal of lane 0."""

    async def read() -> list[Entry]:
        async with connected(engine.right) as client:
            return await journal_of(client, engine)

    return asyncio.run(read())


def taken_map(engine: Engine, journal: Sequence[Entry], partition: int = 0) -> PartitionMap:
    """The map of a partition of the engine's topic that was taken over, from journal entries alone."""
    (topic_id,) = {e.topic_id for e in journal if isinstance(e, TopicNames) and e.source_topic == engine.topics}
    offsets = PartitionMap()
    for entry in unfold(journal):
        if getattr(entry, "partition", None) == SourcePartition(topic_id, partition):
            offsets.apply(entry)
    return offsets


JUNK = [(b"", b""), (b"\x00\x01t", b"\x00" * 16), (b"\xff\xff\xff\xff", b"x"), (b"k", None)]


def leave_traces(
    engine: Engine, syncs: Sequence[tuple[int, int]], checkpoints: Sequence[Checkpoint], *, location: str = "source"
) -> None:
    """Offset syncs of the topic's partition 0, and checkpoints, as MirrorMaker 2 writes them, among records of others."""
    holder, other = (engine.left, engine.target) if location == "source" else (engine.right, engine.source)
    pairs = [Sync(Partition(engine.topics, 0), up, down) for up, down in [*syncs[:9], (-5, 17), *syncs[9:]]]
    for bootstrap, topic, records in (
        (holder, f"mm2-offset-syncs.{other}.internal", [(each.key(), each.value()) for each in pairs]),
        (engine.right, f"{engine.source}.checkpoints.internal", [(each.key(), each.value()) for each in checkpoints]),
    ):
        create_topic(bootstrap, topic, 1, cleanup_policy="compact")
        producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        for key, value in [*JUNK, *records, *JUNK]:
            producer.produce(topic, key=key, value=value, partition=0)
        assert producer.flush(30) == 0
