"""Topics that were idle for longer than their retention: both logs are empty, and positions at their ends are exact."""

from __future__ import annotations

import asyncio
import signal

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from fix_engine import SOON_REPLACED, Engine, commit, create_topic, delete_records, produce, wait_for
from testbed_lane import OLD_MS, connected, journal_of, send, take

from drlib.config.settings import load_mirror_settings
from drlib.mirror.journal.entries import Ack, Placement
from drlib.mirror.offsets.map.load_maps import Maps, read_maps
from drlib.model import TranslationKind

GROUP = "billing"


def journal_topic(engine: Engine) -> str:
    flow = load_mirror_settings(engine.properties).flow(engine.source, engine.target)
    return flow.policy.journal_topic(engine.source)


async def maps_of(engine: Engine) -> Maps:
    async with connected(engine.right) as client:
        return await read_maps(client, journal_topic(engine))


async def acknowledged(engine: Engine) -> int:
    """How many records the journal calls acknowledged."""
    async with connected(engine.right) as client:
        return max([e.q for e in await journal_of(client, engine) if isinstance(e, Ack)], default=0)


async def placed(engine: Engine) -> int:
    """Target offset of the next record, by the journal."""
    async with connected(engine.right) as client:
        return max([e.target_offset for e in await journal_of(client, engine) if isinstance(e, Placement)], default=0)


async def leave_markers(engine: Engine, mirror: str, count: int) -> None:
    """As `count` workers that claim the lane and die before they journal anything."""
    async with connected(engine.right) as client:
        for _ in range(count):
            lane = f"drlib.{engine.source}.{engine.target}.0.0"
            await take(client, lane, {mirror: [0], journal_topic(engine): [0]})


def log_end(bootstrap: str, topic: str) -> int:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    partition = TopicPartition(topic, 0)
    return int(admin.list_offsets({partition: OffsetSpec.latest()})[partition].result(10).offset)


def committed(bootstrap: str, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    try:
        (position,) = consumer.committed([TopicPartition(topic, 0)], timeout=10)
        return int(position.offset)
    finally:
        consumer.close()


def expire(bootstrap: str, topic: str) -> None:
    """As retention does once all records and markers are too old."""
    delete_records(bootstrap, topic, -1)


@pytest.mark.parametrize("markers", ["of the claim", "of claims that were never journaled"])
def test_idle_topic_whose_logs_are_empty_keeps_exact_positions(engine: Engine, markers: str) -> None:
    """A worker that was killed while idle: what is missing in the mirror's log was markers, never a record of ours."""
    topic, mirror = engine.topics, f"{engine.source}.{engine.topics}"
    group = f"{GROUP}-{engine.source}"
    engine.extra |= {"drlib.lanes": "1", "sync.group.offsets.enabled": "true"} | SOON_REPLACED
    engine.extra["sync.group.offsets.interval.seconds"] = "1"
    create_topic(engine.left, topic, 1, retention_ms="-1")
    old = OLD_MS if markers == "of the claim" else None
    send(engine.left, topic, [f"a{n}" for n in range(50)], timestamp=old)
    worker = engine.start()
    engine.wait_caught_up(topic, 1)
    wait_for("it is journaled that all is acknowledged", lambda: asyncio.run(acknowledged(engine)) == 50)
    if old is not None:  # after old records the claim writes a marker, before the target forgets it
        wait_for("its place is journaled", lambda: asyncio.run(placed(engine)) == log_end(engine.right, mirror) > 51)
    worker.send_signal(signal.SIGKILL)
    worker.wait(10)
    if old is None:
        asyncio.run(leave_markers(engine, mirror, 3))
    expire(engine.left, topic)
    expire(engine.right, mirror)
    if old is not None:  # else a claim has to ask the source whether it had more records
        assert_exact(engine, "read while no worker runs", 50)
    commit(engine.left, group, topic, 50)
    for first in (50, 60):  # twice: what the first claim found is in the journal of the second
        worker = engine.start()
        engine.wait_caught_up(topic, 1)
        wait_for("the group's position is on the target", lambda: committed(engine.right, group, mirror) >= 0)
        assert_exact(engine, "while a worker runs", first)
        produce(engine.left, topic, 10, partitions=1, first=first)
        engine.wait_caught_up(topic, 1)
        assert_exact(engine, "behind the next records", first + 10)
        assert engine.stop(worker) == 0, engine.log()


def test_idle_topic_that_expired_before_it_was_mirrored_has_an_exact_end(engine: Engine) -> None:
    topic, mirror = engine.topics, f"{engine.source}.{engine.topics}"
    group = f"{GROUP}-{engine.source}"
    engine.extra |= {"drlib.lanes": "1", "sync.group.offsets.enabled": "true"}
    engine.extra["sync.group.offsets.interval.seconds"] = "1"
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 50, partitions=1)
    expire(engine.left, topic)
    commit(engine.left, group, topic, 50)
    worker = engine.start()
    wait_for("the group's position is on the target", lambda: committed(engine.right, group, mirror) >= 0)
    wait_for("the end is journaled", lambda: asyncio.run(maps_of(engine)).source(topic, 0) is not None)
    assert engine.stop(worker) == 0, engine.log()
    assert_exact(engine, "before any record was mirrored", 50)


def assert_exact(engine: Engine, when: str, position: int) -> None:
    maps = asyncio.run(maps_of(engine))
    offsets = maps.source(engine.topics, 0)
    assert offsets is not None, maps.refused
    found = offsets.forward(position)
    assert found.kind is TranslationKind.EXACT, f"{when}: {position} is {found}"
    end = log_end(engine.right, f"{engine.source}.{engine.topics}")
    assert found.offset is not None
    assert found.offset <= end, f"{when}: {found} is past the end {end}"
