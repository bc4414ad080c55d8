"""Other producers and operators change mirror topics: foreign records, deleted records, deleted or re-created topics."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import threading
from collections.abc import Callable, Iterable

import pytest
from beside import beside
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient
from fix_engine import Engine, Record, create_topic, produce, read_all, wait_for
from testbed_lane import connected, journal_of, running, send, trickle, until

from drlib.config.settings import load_mirror_settings
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import TopicDescription
from drlib.kafka.net import group_requests
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.error_codes import COORDINATOR_LOAD_IN_PROGRESS, BrokerError
from drlib.mirror import worker
from drlib.mirror.journal.entries import Foreign, Sealed, Unsure
from drlib.mirror.offsets.map.load_maps import read_maps
from drlib.mirror.read_batches import locate, log_ends, read_range
from drlib.mirror.status.worker_status import EventLog
from drlib.mirror.sync.create_topics import MirrorTopics
from drlib.model import TopicPartition, TranslationKind

FOREIGN = "foreign-"


def mirror_of(engine: Engine, topic: str) -> str:
    return f"{engine.source}.{topic}"


def ours(records: list[Record]) -> list[Record]:
    return [r for r in records if not (r[1] or b"").startswith(FOREIGN.encode())]


async def assert_exact_around_strangers(engine: Engine, topic: str) -> None:
    """The target without foreign records equals the source, and the map translates each source record to its offset."""
    here = read_all(engine.left, topic, 1)[0]
    there = read_all(engine.right, mirror_of(engine, topic), 1)[0]
    assert ours(there) == here
    mirror = TopicPartition(mirror_of(engine, topic), 0)
    async with connected(engine.right) as client:
        maps = await read_maps(client, journal_topic(engine))
        topic_id, leader = await locate(client, mirror)
        end = (await log_ends(client, [mirror])).ends[mirror]
        batches = read_range(await client.connection(leader, "attack"), topic_id, mirror, 0, end)
        records = [r async for h, view in batches if not h.is_control for r in recode.records(view)]
    stands = [r.offset for r in records if not (r.value or b"").startswith(FOREIGN.encode())]
    found = maps.source(topic, 0)
    assert found is not None
    assert sum(s.count for s in found.segments()) == len(here)
    translations = [found.forward(offset) for offset in range(len(here))]
    assert {t.kind for t in translations} == {TranslationKind.EXACT}
    assert [t.offset for t in translations] == stands


def journal_topic(engine: Engine) -> str:
    flow = load_mirror_settings(engine.properties).flow(engine.source, engine.target)
    return flow.policy.journal_topic(engine.source)


async def test_foreign_writer_is_reported_journaled_and_placement_shifts(engine: Engine) -> None:
    topic = engine.topics
    engine.extra["drlib.lanes"] = "1"
    await asyncio.to_thread(create_topic, engine.left, topic, 1)
    async with running(engine) as owner:
        await asyncio.to_thread(send, engine.left, topic, [f"a{n}" for n in range(100)])
        await owner.mirrored(topic, {0: 100})
        claim = owner.claim()

        values, strangers = [f"b{n}" for n in range(400)], [f"{FOREIGN}{n}" for n in range(30)]
        await asyncio.gather(
            asyncio.to_thread(trickle, engine.left, topic, values, pause_s=0.002),
            asyncio.to_thread(trickle, engine.right, mirror_of(engine, topic), strangers, pause_s=0.02),
        )
        await owner.mirrored(topic, {0: 500})
        await asyncio.to_thread(send, engine.right, mirror_of(engine, topic), [f"{FOREIGN}last"])
        await asyncio.to_thread(send, engine.left, topic, [f"c{n}" for n in range(20)])
        await owner.mirrored(topic, {0: 520})
        assert owner.claim() == claim  # the lane's other partitions never noticed
        await until("it is reported", lambda: bool(owner.reported("ForeignWriter")))
        assert not owner.reported("LaneFault")
    async with connected(engine.right) as client:
        reported = [e for e in await journal_of(client, engine) if isinstance(e, Foreign)]
    assert sum(e.count for e in reported) == 31
    await assert_exact_around_strangers(engine, topic)


@pytest.mark.long
async def test_foreign_writer_just_before_crash_is_found_by_recovery(engine: Engine) -> None:
    topic = engine.topics
    engine.extra["drlib.lanes"] = "1"
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 200, partitions=1, batch=2000)
    first = engine.start(failpoint="after-ack:30")
    mirror = mirror_of(engine, topic)  # strangers in a mirror that no claim has filled yet are a lost journal
    wait_for(
        "something is mirrored", lambda: exists(engine.right, mirror) and bool(read_all(engine.right, mirror, 1)[0])
    )

    def strangers(killed: threading.Event) -> None:
        for at in itertools.count():
            if killed.wait(0.001):
                return
            send(engine.right, mirror, [f"{FOREIGN}{at}"])

    at = 0
    with beside(strangers):  # so often that one stands before nearly every batch
        while first.poll() is None:
            produce(engine.left, topic, 20, partitions=1, first=200 + 20 * at, batch=1000)
            at += 1
            assert at < 500, engine.log()
    assert first.wait(10) == -signal.SIGKILL, engine.log()
    send(engine.right, mirror, [f"{FOREIGN}after"])
    async with running(engine) as heir:
        await heir.mirrored(topic, {0: 200 + 20 * at})
        assert heir.reported("ForeignWriter")
    await assert_exact_around_strangers(engine, topic)


def exists(bootstrap: str, topic: str) -> bool:
    return topic in AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=5).topics


async def test_recovery_deleted_mirror_records_are_unsure_and_none_is_lost(
    engine: Engine,
) -> None:
    topic = engine.topics
    engine.extra["drlib.lanes"] = "1"
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 2000, partitions=1, batch=2000)
    first = engine.start(failpoint="after-ack:2")
    assert first.wait(60) == -signal.SIGKILL, engine.log()
    mirror = mirror_of(engine, topic)
    before = read_all(engine.right, mirror, 1)[0]
    assert before
    admin = AdminClient({"bootstrap.servers": engine.right, "log_level": 0})
    gone = ConfluentPartition(mirror, 0, -1)  # up to the high watermark
    admin.delete_records([gone])[gone].result(30)
    async with running(engine) as heir:
        await heir.mirrored(topic, {0: 2000})
    async with connected(engine.right) as client:
        entries = await journal_of(client, engine)
        maps = await read_maps(client, journal_topic(engine))
    (unsure,) = [e for e in entries if isinstance(e, Unsure)]
    (sealed,) = [e for e in entries if isinstance(e, Sealed) and e.claim == unsure.claim]
    assert not sealed.exact
    assert (
        unsure.low == sealed.q < unsure.high <= len(before) + 1
    )  # the marker's offset cannot be distinguished from a record's
    here, there = read_all(engine.left, topic, 1)[0], read_all(engine.right, mirror, 1)[0]
    assert there == here[unsure.low :]  # from the lower bound on: nothing is lost, at most the unsure ones come twice
    found = maps.source(topic, 0)
    assert found is not None
    assert found.forward(unsure.low).kind is TranslationKind.UNKNOWN
    assert found.forward(unsure.high).kind is TranslationKind.EXACT


@pytest.mark.parametrize("again", ["deleted-for-good", "made-again"])
async def test_mirror_topic_deleted_or_recreated_parks_alone(
    engine: Engine, fresh_topic: Callable[..., str], again: str
) -> None:
    lost, kept = engine.topics, fresh_topic("kept")
    engine.topics = f"{lost}, {kept}"
    engine.extra |= {"drlib.lanes": "1", "refresh.topics.interval.seconds": "1" if again == "made-again" else "600"}
    for topic in (lost, kept):
        await asyncio.to_thread(create_topic, engine.left, topic, 1)
        await asyncio.to_thread(send, engine.left, topic, [f"a{n}" for n in range(50)])
    mirror = mirror_of(engine, lost)
    admin = AdminClient({"bootstrap.servers": engine.right, "log_level": 0})
    async with running(engine) as owner:
        await owner.mirrored(lost, {0: 50})
        await owner.mirrored(kept, {0: 50})
        await asyncio.to_thread(admin.delete_topics([mirror])[mirror].result, 30)
        await until("it is reported", lambda: bool(owner.reported("MirrorTopicRecreated")))
        for topic in (lost, kept):
            await asyncio.to_thread(send, engine.left, topic, [f"b{n}" for n in range(50)])
        await owner.mirrored(kept, {0: 100})
        if again == "made-again":  # the engine finds a mirror topic missing and makes it, and must not fill it
            await until("it is made again", lambda: exists(engine.right, mirror))
        found = owner.partition(lost)
        assert found is not None
        assert "not the one this lane wrote to" in found.parked
    async with running(engine) as heir:  # and a restart changes nothing
        await asyncio.to_thread(send, engine.left, kept, [f"c{n}" for n in range(50)])
        await heir.mirrored(kept, {0: 150})
        assert heir.reported("MirrorTopicRecreated")
        assert not heir.reported("LaneFailed")
    if exists(engine.right, mirror):
        assert read_all(engine.right, mirror, 1)[0] == []
    assert read_all(engine.left, kept, 1)[0] == read_all(engine.right, mirror_of(engine, kept), 1)[0]
    async with connected(engine.right) as client:
        maps = await read_maps(client, journal_topic(engine))
    assert maps.source(lost, 0) is None
    assert maps.refusal(lost, 0) is not None
    assert maps.source(kept, 0) is not None
    if again == "made-again":  # the operator decides that it may be filled from the start
        engine.extra["drlib.remirror.topics"] = lost
        for turn in range(2):
            async with running(engine) as healed:
                await asyncio.to_thread(send, engine.left, lost, [f"d{turn}"])
                await healed.mirrored(lost, {0: 101 + turn})
                assert not healed.reported("MirrorTopicRecreated")
        await assert_exact_around_strangers(engine, lost)


async def test_remirror_recreated_topic_is_filled_only_while_empty(engine: Engine) -> None:
    """A topic named for it that another producer filled first: after those records it would be no copy of the source."""
    topic, mirror = engine.topics, mirror_of(engine, engine.topics)
    engine.extra["drlib.lanes"] = "1"
    await asyncio.to_thread(create_topic, engine.left, topic, 1)
    await asyncio.to_thread(send, engine.left, topic, [f"a{n}" for n in range(50)])
    async with running(engine) as owner:
        await owner.mirrored(topic, {0: 50})
    admin = AdminClient({"bootstrap.servers": engine.right, "log_level": 0})
    admin.delete_topics([mirror])[mirror].result(30)
    await until("it is gone", lambda: not exists(engine.right, mirror))
    await asyncio.to_thread(create_topic, engine.right, mirror, 1)
    await asyncio.to_thread(send, engine.right, mirror, [f"{FOREIGN}{n}" for n in range(1200)])
    forget(admin, mirror, 1100)  # what is left of theirs stands far from the log's beginning
    engine.extra["drlib.remirror.topics"] = topic
    async with running(engine) as heir:
        await until(
            "it is reported", lambda: bool(heir.reported("MirrorTopicRecreated") or heir.reported("LaneFailed"))
        )
        assert not heir.reported("LaneFailed")
        found = heir.partition(topic)
        assert found is not None
        assert "not the one this lane wrote to" in found.parked
    there = [record[1] for record in read_all(engine.right, mirror, 1)[0]]
    assert there == [f"{FOREIGN}{n}".encode() for n in range(1100, 1200)]
    forget(admin, mirror, -1)
    async with running(engine) as healed:
        await healed.mirrored(topic, {0: 50})
        assert not healed.reported("MirrorTopicRecreated")
    assert read_all(engine.right, mirror, 1) == read_all(engine.left, topic, 1)


def forget(admin: AdminClient, topic: str, offset: int) -> None:
    """Delete the records below `offset`, or all with -1."""
    below = ConfluentPartition(topic, 0, offset)
    admin.delete_records([below])[below].result(30)


async def test_worker_waits_for_loading_coordinator(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = engine.topics
    await asyncio.to_thread(create_topic, engine.left, topic, 1)
    await asyncio.to_thread(send, engine.left, topic, ["a"])
    ask, answers = group_requests.list_groups, itertools.count()

    async def loading(connection: Connection) -> list[group_requests.GroupListing]:
        if next(answers) < 2:
            raise BrokerError(COORDINATOR_LOAD_IN_PROGRESS, "listing the groups")
        return await ask(connection)

    monkeypatch.setattr(group_requests, "list_groups", loading)
    settings = load_mirror_settings(engine.properties)
    running_worker = asyncio.create_task(worker.mirror(settings, status_path=engine.status_path(0)))
    mirror = mirror_of(engine, topic)
    await asyncio.to_thread(wait_for, "the topic is mirrored", lambda: exists(engine.right, mirror))
    await asyncio.to_thread(wait_for, "the record is, too", lambda: len(read_all(engine.right, mirror, 1)[0]) == 1)
    os.kill(os.getpid(), signal.SIGTERM)  # which the worker handles, as it always does
    await running_worker


async def mirrors_beside(engine: Engine, partitions: int) -> tuple[MirrorTopics, EventLog]:
    """What creates mirror topics, where another worker has made the one of `engine.topics`."""
    await asyncio.to_thread(create_topic, engine.left, engine.topics, partitions)
    await asyncio.to_thread(create_topic, engine.right, mirror_of(engine, engine.topics), partitions)
    settings, events = load_mirror_settings(engine.properties), EventLog()
    flow = settings.flow(engine.source, engine.target)
    return MirrorTopics(flow, settings.clusters[engine.source], settings.clusters[engine.target], events), events


async def test_mirror_topic_just_created_by_another_worker_is_waited_for(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker that reports the topic as existing is not the one asked for its description."""
    topic = engine.topics
    mirrors, events = await mirrors_beside(engine, 3)
    ask, answers = Cluster.topics, itertools.count()

    def late(self: Cluster, names: Iterable[str] | None = None, **how: bool) -> dict[str, TopicDescription]:
        return {} if next(answers) < 3 else ask(self, names, **how)

    monkeypatch.setattr(Cluster, "topics", late)
    assert await asyncio.to_thread(mirrors.create_or_grow, {topic: 3}, {topic: 0}) == {topic: 3}
    assert events.snapshot() == ()


async def test_mirror_topic_just_grown_by_another_worker_is_no_refusal(engine: Engine) -> None:
    """Else the partitions of this worker's lanes would wait for the next refresh, ten minutes later."""
    topic = engine.topics
    mirrors, events = await mirrors_beside(engine, 3)
    assert await asyncio.to_thread(mirrors.create_or_grow, {topic: 3}, {topic: 1}) == {topic: 3}
    assert events.snapshot() == ()


@pytest.mark.long  # the cleaner takes its time
async def test_recovery_cleaned_mirror_log_is_counted_exactly(engine: Engine, right: str) -> None:
    """The log cleaner removed most records of an uncounted claim: their offsets and their count are still known."""
    topic = engine.topics
    engine.extra["drlib.lanes"] = "1"
    create_topic(engine.left, topic, 1)
    mirror = mirror_of(engine, topic)
    create_topic(
        right,
        mirror,
        1,
        cleanup_policy="compact",
        segment_bytes="1048576",
        segment_ms="500",
        min_cleanable_dirty_ratio="0.01",
        delete_retention_ms="500",
    )
    # Compressed, so that small batches are not joined: enough of them are acknowledged before the worker dies.
    produce(engine.left, topic, 2000, partitions=1, batch=2000, keys=5, codec="lz4")
    first = engine.start(failpoint="after-ack:20")
    assert first.wait(60) == -signal.SIGKILL, engine.log()
    before = len(read_all(right, mirror, 1)[0])
    at = 0

    def cleaned() -> bool:
        nonlocal at
        at += 1
        send(right, mirror, [f"{FOREIGN}{at}"])  # an append is what rolls a segment
        return len(ours(read_all(right, mirror, 1)[0])) < before

    await asyncio.to_thread(wait_for, "the cleaner has been there", cleaned, 60)
    async with running(engine) as heir:
        await heir.mirrored(topic, {0: 2000})
    async with connected(engine.right) as client:
        entries = await journal_of(client, engine)
        maps = await read_maps(client, journal_topic(engine))
    assert not [e for e in entries if isinstance(e, Unsure)]
    found = maps.source(topic, 0)
    assert found is not None
    assert sum(s.count for s in found.segments()) == 2000
    newest = {r[0]: r[1] for r in read_all(engine.left, topic, 1)[0]}
    assert {r[0]: r[1] for r in ours(read_all(right, mirror, 1)[0])} == newest
