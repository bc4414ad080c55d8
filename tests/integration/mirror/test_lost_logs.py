"""The target lost the end of a mirror's or a journal's log, as by a replaced disk, an unclean election or an old backup.

The partition is parked by name: nothing is copied twice, no lost record is called mirrored, and other topics go on.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from fix_engine import SOON_REPLACED, Engine, create_topic, grow, produce, read_all, wait_for, wait_for_markers
from testbed_lane import connected, journal_of, send, take
from testbed_log_files import cut_at_offset, log_of

from drlib.config.settings import load_mirror_settings
from drlib.kafka.protocol import recode
from drlib.lab.lab import Lab
from drlib.mirror.journal.entries import Claim, Placement, Run, decode
from drlib.mirror.offsets.map.load_maps import read_maps
from drlib.mirror.read_batches import locate, log_ends, read_range
from drlib.model import TopicPartition

RECORDS = 50


def on_authorizer_lab(engine: Engine, lab: Lab, other: str) -> None:
    """The engine's target is the lab's cluster, whose logs may be damaged; `other` is mirrored beside the engine's topic."""
    engine.right = lab.clusters["AUTHORIZED"].bootstrap
    engine.extra["drlib.lanes"] = "1"
    for name in (engine.topics, other):
        create_topic(engine.left, name, 1)
    engine.topics = f"{engine.topics}, {other}"


def journal_topic(engine: Engine) -> str:
    flow = load_mirror_settings(engine.properties).flow(engine.source, engine.target)
    return flow.policy.journal_topic(engine.source)


def cut(lab: Lab, topic: str, offset: int) -> None:
    """The target's log of partition 0 of `topic` ends below `offset` from now on."""
    cluster = lab.clusters["AUTHORIZED"]
    cluster.kill()
    cut_at_offset(log_of(lab, "AUTHORIZED", topic), offset)
    cluster.restart()

    def led() -> bool:
        topics = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0}).list_topics(timeout=5).topics
        return all(p.leader >= 0 for t in topics.values() for p in t.partitions.values())

    wait_for("all partitions have leaders", led)


@pytest.mark.parametrize("markers", [0, 12])
def test_mirror_that_lost_records_of_a_sealed_claim_is_parked(
    engine: Engine, authorizer_lab: Lab, fresh_topic: Callable[..., str], markers: int
) -> None:
    """Claims that did not come far leave markers, which fill the gap: the log's end then tells nothing."""
    topic, other = engine.topics, fresh_topic("other")
    mirror = f"{engine.source}.{topic}"
    on_authorizer_lab(engine, authorizer_lab, other)
    for first in range(0, RECORDS, 10):
        produce(engine.left, topic, 10, partitions=1, first=first)
        engine.mirror_now(topic)  # a claim each, and its records are sealed by the next one
    engine.mirror_now(topic)
    end = asyncio.run(end_of(engine, mirror))
    cut(authorizer_lab, mirror, end - 5)
    asyncio.run(leave_markers(engine, mirror, markers))
    kept = read_all(engine.right, mirror, 1)[0]
    assert 0 < len(kept) < RECORDS
    for name in (topic, other):
        produce(engine.left, name, 10, partitions=1, first=RECORDS)

    worker = engine.start()
    event = engine.wait_reported("MirrorContradiction", f"{mirror}-0")
    assert ("another batch" if markers else "are lost") in event.detail
    assert "drlib remirror FILE" in event.remedy
    engine.wait_caught_up(other, 1)
    assert engine.stop(worker) == 0, engine.log()
    assert read_all(engine.right, mirror, 1)[0] == kept
    engine.assert_same(other, 1)
    maps = asyncio.run(maps_of(engine))
    assert maps.source(topic, 0) is None, "no position in it is called exact"
    assert maps.source(other, 0) is not None


async def maps_of(engine: Engine):  # type: ignore[no-untyped-def]
    async with connected(engine.right) as client:
        return await read_maps(client, journal_topic(engine))


async def end_of(engine: Engine, topic: str) -> int:
    partition = TopicPartition(topic, 0)
    async with connected(engine.right) as client:
        return (await log_ends(client, [partition])).ends[partition]


async def leave_markers(engine: Engine, mirror: str, count: int) -> None:
    """As `count` workers that claim the lane and die before they journal anything."""
    async with connected(engine.right) as client:
        for _ in range(count):
            lane = f"drlib.{engine.source}.{engine.target}.0.0"
            await take(client, lane, {mirror: [0], journal_topic(engine): [0]})


async def journal_offset(engine: Engine, kind: type, number: int) -> int:
    """Offset of the `number`-th entry of `kind` (from the end, if negative) in the journal of lane 0."""
    partition = TopicPartition(journal_topic(engine), 0)
    async with connected(engine.right) as client:
        topic_id, leader = await locate(client, partition)
        end = (await log_ends(client, [partition])).ends[partition]
        connection = await client.connection(leader, "attack")
        offsets = [
            record.offset
            async for header, view in read_range(connection, topic_id, partition, 0, end)
            if not header.is_control
            for record in recode.records(view)
            if record.key is not None and record.value is not None
            if isinstance(decode(record.key, record.value), kind)
        ]
    return offsets[number]


def contradiction_of(engine: Engine, mirror: str, other: str) -> str:
    """What a new worker says of the mirror partition while it copies records that are written to the topic `other` now."""
    produce(engine.left, other, 10, partitions=1)
    worker = engine.start()
    event = engine.wait_reported("MirrorContradiction", mirror)
    engine.wait_caught_up(other, 1)
    assert engine.stop(worker) == 0, engine.log()
    return event.detail


@pytest.mark.parametrize(("kind", "number"), [(Run, -4), (Claim, -1)])
def test_journal_that_lost_its_end_duplicates_nothing(
    engine: Engine, authorizer_lab: Lab, fresh_topic: Callable[..., str], kind: type, number: int
) -> None:
    """Another worker finds promises missing for records that are in the mirror: of a claim's last runs, or all of them."""
    topic, other = engine.topics, fresh_topic("other")
    mirror = f"{engine.source}.{topic}"
    on_authorizer_lab(engine, authorizer_lab, other)
    engine.extra |= SOON_REPLACED
    produce(engine.left, topic, 10, partitions=1)
    engine.mirror_now(topic)
    worker = engine.start()
    producer = Producer({"bootstrap.servers": engine.left, "transactional.id": uuid.uuid4().hex, "log_level": 0})
    producer.init_transactions(30)
    for group in range(8):  # the markers between them make a run of each
        producer.begin_transaction()
        for record in range(5):
            producer.produce(topic, key=b"k", value=b"%d-%d" % (group, record), partition=0)
        producer.commit_transaction(30)
    wait_for_markers(engine.left, topic, 1)
    engine.wait_caught_up(topic, 1)
    worker.kill()
    worker.wait(10)
    before = read_all(engine.right, mirror, 1)[0]
    assert len(before) == 50
    cut(authorizer_lab, journal_topic(engine), asyncio.run(journal_offset(engine, kind, number)))

    assert "journal" in contradiction_of(engine, f"{mirror}-0", other)
    assert read_all(engine.right, mirror, 1)[0] == before
    engine.assert_same(other, 1)


def test_journal_that_lost_all_of_a_partition_that_joined_duplicates_nothing(
    engine: Engine, authorizer_lab: Lab, fresh_topic: Callable[..., str]
) -> None:
    """No entry names the partition, as if nothing of it had ever been mirrored: the records in its mirror say otherwise."""
    topic, other = engine.topics, fresh_topic("other")
    mirror = f"{engine.source}.{topic}"
    on_authorizer_lab(engine, authorizer_lab, other)
    engine.extra |= SOON_REPLACED
    produce(engine.left, topic, 10, partitions=1)
    worker = engine.start()
    engine.wait_caught_up(topic, 1)
    grow(engine.left, topic, 3)
    send(engine.left, topic, [f"joined-{n}" for n in range(10)], partition=1)
    engine.wait_caught_up(topic, 3)
    worker.kill()
    worker.wait(10)
    before = read_all(engine.right, mirror, 3)
    assert [len(before[n]) for n in range(3)] == [10, 10, 0]
    first = min(asyncio.run(journal_offset(engine, Placement, number)) for number in (-1, -2))  # of the two that joined
    cut(authorizer_lab, journal_topic(engine), first)
    send(engine.left, topic, ["first"], partition=2)

    assert "journal: it lost entries" in contradiction_of(engine, f"{mirror}-1", other)
    engine.mirror_now(other)  # it is refused for good
    after = read_all(engine.right, mirror, 3)
    assert after[0] == before[0]
    assert after[1] == before[1]
    assert len(after[2]) == 1, "what has no records of this lane is copied on"
    assert not engine.reported("MirrorContradiction", f"{mirror}-2")


def test_journal_whose_leader_changed_is_proven_by_the_records_and_mirroring_goes_on(
    engine: Engine, authorizer_lab: Lab, fresh_topic: Callable[..., str]
) -> None:
    """Nothing was lost: a restart of the target must park nothing, neither for its worker nor for another one."""
    topic, other = engine.topics, fresh_topic("other")
    on_authorizer_lab(engine, authorizer_lab, other)
    for name in (topic, other):
        produce(engine.left, name, 20, partitions=1)
    worker = engine.start()
    cluster = authorizer_lab.clusters["AUTHORIZED"]
    for first in (20, 40):
        for name in (topic, other):
            engine.wait_caught_up(name, 1)
        cluster.kill()
        if first == 40:
            worker.kill()
            worker.wait(10)
        cluster.restart()
        for name in (topic, other):
            produce(engine.left, name, 20, partitions=1, first=first)
    worker = engine.start()
    for name in (topic, other):
        engine.wait_caught_up(name, 1)
        engine.assert_same(name, 1)
    assert engine.stop(worker) == 0, engine.log()
    assert not {e.name for e in engine.events()} & {"MirrorContradiction", "JournalTruncated"}


def test_journal_that_lost_its_end_is_reported_by_the_worker_that_wrote_it(
    engine: Engine, authorizer_lab: Lab, fresh_topic: Callable[..., str]
) -> None:
    topic, other = engine.topics, fresh_topic("other")
    on_authorizer_lab(engine, authorizer_lab, other)
    worker = engine.start()
    for first in range(0, RECORDS, 10):
        produce(engine.left, topic, 10, partitions=1, first=first)
        engine.wait_caught_up(topic, 1)
    cut(authorizer_lab, journal_topic(engine), asyncio.run(journal_offset(engine, Run, -1)) + 1)
    for name in (topic, other):  # an idle lane notices it when it writes next
        produce(engine.left, name, 10, partitions=1, first=RECORDS)
        engine.wait_caught_up(name, 1)  # the promise is there, and the records prove the rest
    event = engine.wait_reported("JournalTruncated", f"{journal_topic(engine)}-0")
    assert "unclean.leader.election.enable=false" in event.remedy
    engine.wait_all_resolved()  # nothing is in doubt
    assert engine.stop(worker) == 0, engine.log()
    for name in (topic, other):
        engine.assert_same(name, 1)
    assert asyncio.run(_entries(engine)), "the journal goes on"


async def _entries(engine: Engine) -> int:
    async with connected(engine.right) as client:
        return len(await journal_of(client, engine))
