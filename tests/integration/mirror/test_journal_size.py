"""A lane's journal stays small: claims over idle partitions, records that expired, and the settings of its log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from uuid import UUID

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, ResourceType
from fix_authorizer import acl, add_acls, drop_acls
from fix_engine import Engine, alter, create_topic, delete_records, delete_topic, produce, wait_for
from testbed_lane import Running, connected, journal_of, running, until

from drlib.config.settings import load_mirror_settings
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol import recode
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.lab import Lab
from drlib.mirror.engine.lane.lane import Housekeeping
from drlib.mirror.journal.entries import Chunk, Claim, Expired, Placement, Run, SourcePartition, Thinned, TopicNames
from drlib.mirror.offsets.map.follow_journal import JournalFollower
from drlib.mirror.offsets.map.journal_log import LaneJournal
from drlib.mirror.offsets.map.load_maps import read_maps
from drlib.mirror.read_batches import locate, log_starts, read_range
from drlib.mirror.sync.internal_topics import JOURNAL_LOG
from drlib.model import Segment, TopicPartition, TranslationKind


def journal_topic(engine: Engine) -> str:
    flow = load_mirror_settings(engine.properties).flow(engine.source, engine.target)
    return flow.policy.journal_topic(engine.source)


def journal_settings(engine: Engine) -> dict[str, str]:
    with Cluster(ClusterSettings("ANY", (engine.right,))) as cluster:
        return cluster.topic_config([journal_topic(engine)])[journal_topic(engine)]


async def test_journal_of_idle_partitions_is_bounded_however_many_claims_there_are(engine: Engine) -> None:
    topic, partitions, claims = engine.topics, 20, 25
    engine.extra["drlib.lanes"] = "1"
    await asyncio.to_thread(create_topic, engine.left, topic, partitions)
    await asyncio.to_thread(produce, engine.left, topic, 3, partitions=3)  # the others have no record
    sizes = []
    async with connected(engine.right) as client:
        async with running(engine, housekeeping=Housekeeping(fold_at=50)) as owner:
            await owner.mirrored(topic, {0: 1, 1: 1, 2: 1})
            lane = owner.running_flow._lanes[0]
            for _ in range(claims):
                former = owner.claim()
                lane._claim_again()
                await until("the lane is claimed again", lambda then=former: owner.claim() != then and owner.flow.ready)
                sizes.append(len(await journal_of(client, engine)))
        entries = await journal_of(client, engine)
        maps = await read_maps(client, journal_topic(engine))
    assert max(sizes) < 8 * partitions
    assert len([e for e in entries if isinstance(e, Claim)]) < claims
    assert {e.partition.partition for e in entries if isinstance(e, Placement)} == set(range(partitions))
    for number in range(3):
        offsets = maps.source(topic, number)
        assert offsets is not None
        assert offsets.forward(0).exact
        assert offsets.forward(1).exact
    engine.assert_same(topic, partitions)


async def test_worker_that_ends_before_its_tombstones_leaves_the_same_map(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, reached = engine.topics, asyncio.Event()
    engine.extra["drlib.lanes"] = "1"
    await asyncio.to_thread(create_topic, engine.left, topic, 1)

    async def ends_here(journal: LaneJournal, keys: Sequence[bytes]) -> None:
        reached.set()
        await asyncio.sleep(3600)

    async with connected(engine.right) as client:
        for first in (0, 30, 60):
            await asyncio.to_thread(produce, engine.left, topic, 30, partitions=1, first=first)
            async with running(engine) as owner:
                await owner.mirrored(topic, {0: first + 30})
        before = await segments_of(client, engine)
        assert len(before) == 3
        for chunks in (1, 2):  # the second chunk replaces the first one, which is still there
            with monkeypatch.context() as patched:
                patched.setattr(LaneJournal, "forget", ends_here)
                async with running(engine, housekeeping=Housekeeping(fold_at=1), abrupt=True) as owner:
                    await asyncio.wait_for(reached.wait(), 40)
            reached.clear()
            assert len([e for e in await journal_of(client, engine) if isinstance(e, Chunk)]) == chunks
            assert await segments_of(client, engine) == before
        async with running(engine, housekeeping=Housekeeping(fold_at=1)) as owner:
            await until("it runs", lambda: owner.flow.ready)
        entries = await journal_of(client, engine)
        assert not [e for e in entries if isinstance(e, Run)]
        assert len([e for e in entries if isinstance(e, Chunk)]) == 1
        assert await segments_of(client, engine) == before
    engine.assert_same(topic, 1)


async def test_map_and_journal_of_transactions_are_flat_while_both_log_starts_move(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each commit marker begins a stretch of its own. A kill between what replaces entries and tombstones is harmless."""
    topic, mirror, reached = engine.topics, f"{engine.source}.{engine.topics}", asyncio.Event()
    engine.extra["drlib.lanes"] = "1"
    transactions = await asyncio.to_thread(transactional, engine)
    small = Housekeeping(fold_at=10, claim_at=50, expire_at=5, expire_s=0.2)

    async def ends_here(journal: LaneJournal, keys: Sequence[bytes]) -> None:
        reached.set()
        await asyncio.sleep(3600)

    def is_small(owner: Running) -> bool:
        streams = owner.running_flow._lanes[0].streams
        return len(streams) == 1 and len(streams[0].map.segments()) <= 10

    async def expire(owner: Running, through: int) -> None:
        """Mirror up to source offset `through`, then delete all but the last two transactions on both sides."""
        await owner.mirrored(topic, {0: through})
        (stream,) = owner.running_flow._lanes[0].streams
        await asyncio.to_thread(delete_records, engine.left, topic, through - 8)
        behind = stream.map.forward(through - 8).offset
        assert behind is not None
        await asyncio.to_thread(delete_records, engine.right, mirror, behind)

    through = 0
    async with connected(engine.right) as client:
        follower = JournalFollower(client, journal_topic(engine), 1)
        async with running(engine, housekeeping=small) as owner:
            for _ in range(8):
                await asyncio.to_thread(transactions)
                await expire(owner, through := through + 80)
                await until("what expired is dropped", partial(is_small, owner))
                await follower.refresh("test")
        await asyncio.to_thread(transactions)
        with monkeypatch.context() as patched:
            patched.setattr(LaneJournal, "forget", ends_here)
            async with running(engine, housekeeping=small, abrupt=True) as owner:
                await asyncio.wait_for(reached.wait(), 40)
        before = await segments_of(client, engine)
        async with running(engine, housekeeping=small) as owner:
            await expire(owner, through := through + 80)
            await until("what expired is dropped", partial(is_small, owner))
        maps = await follower.refresh("test")
        found = (await read_maps(client, journal_topic(engine))).source(topic, 0)
        assert found is not None
        entries = await journal_of(client, engine)
        (key,) = [e.partition for e in entries if isinstance(e, Expired)]
        followed = maps.map(0, key.topic_id, 0)
        assert followed is not None
        log = TopicPartition(mirror, 0)
        log_start = (await log_starts(client, [log]))[log]
        stands = await record_offsets(client, mirror)
    journaled = sum(isinstance(e, Run) for e in entries) + sum(len(e.segments) for e in entries if isinstance(e, Chunk))
    assert journaled <= 60, "of 180 transactions those of the last claims"
    assert len(before) >= 2
    assert list(followed.segments()) == list(found.segments())
    assert len(found.segments()) <= 10
    records = [through - 8 + n for n in (0, 1, 2, 4, 5, 6)]  # of two transactions, a marker behind each
    assert [found.forward(offset).offset for offset in records] == stands[-6:]
    assert [found.backward(offset).offset for offset in stands[-6:]] == records
    assert found.forward(through).exact
    stale = found.forward(0, target_log_start=log_start)
    assert (stale.offset, stale.kind) == (log_start, TranslationKind.LOST)
    engine.assert_same(topic, 1)


async def test_map_and_journal_of_transactions_are_bounded_where_no_log_start_moves(engine: Engine) -> None:
    """As on a compacted topic. The oldest positions are known to within some records, and skip none; newer ones stay exact."""
    topic, mirror = engine.topics, f"{engine.source}.{engine.topics}"
    engine.extra["drlib.lanes"] = "1"
    transactions = await asyncio.to_thread(transactional, engine)
    small = Housekeeping(fold_at=10, expire_s=0.2, most_stretches=30)
    through = 0
    async with connected(engine.right) as client:
        follower = JournalFollower(client, journal_topic(engine), 1)
        for abrupt in (False, True, False):
            async with running(engine, housekeeping=small, abrupt=abrupt) as owner:
                for _ in range(2):
                    await asyncio.to_thread(transactions)
                    await owner.mirrored(topic, {0: (through := through + 80)})
                    streams = owner.running_flow._lanes[0].streams
                    await until("the map is small", lambda found=streams: len(found[0].map.segments()) <= 30)
                    await follower.refresh("test")
        entries = await journal_of(client, engine)
        found = (await read_maps(client, journal_topic(engine))).source(topic, 0)
        (key,) = [e.partition for e in entries if isinstance(e, Thinned)]
        maps = await follower.refresh("test")
        followed = maps.map(0, key.topic_id, 0)
        copies = await record_offsets(client, mirror)
    async with connected(engine.left) as client:
        originals = await record_offsets(client, topic)
    journaled = sum(isinstance(e, Run) for e in entries) + sum(len(e.segments) for e in entries if isinstance(e, Chunk))
    assert journaled <= 110, "of 200 transactions those of the last two claims, and the newest before them"

    assert found is not None
    assert followed is not None
    assert len(copies) == len(originals) == through // 4 * 3
    for number, (original, copy) in enumerate(zip(originals, copies, strict=True)):
        position, back = found.forward(original), found.backward(copy)
        assert followed.forward(original) == position
        assert position.offset is not None
        assert back.offset is not None
        assert sum(position.offset <= other < copy for other in copies) <= position.records
        assert sum(back.offset <= other < original for other in originals) <= back.records
        assert position.offset <= copy
        assert back.offset <= original
        if number >= len(originals) - 30:
            assert (position.offset, position.kind) == (copy, TranslationKind.EXACT)
            assert (back.offset, back.kind) == (original, TranslationKind.EXACT)
    engine.assert_same(topic, 1)


def transactional(engine: Engine) -> Callable[[], None]:
    """Create the topic; what is returned commits 20 transactions of three records each, with a marker behind each."""
    create_topic(engine.left, engine.topics, 1)
    producer = Producer({"bootstrap.servers": engine.left, "transactional.id": engine.topics, "log_level": 0})
    producer.init_transactions(30)

    def transactions() -> None:
        for number in range(20):
            producer.begin_transaction()
            for record in range(3):
                producer.produce(engine.topics, value=f"{number}-{record}".encode(), partition=0)
            producer.commit_transaction(30)

    return transactions


async def record_offsets(client: ClusterClient, topic: str) -> list[int]:
    log = TopicPartition(topic, 0)
    start = (await log_starts(client, [log]))[log]
    topic_id, leader = await locate(client, log)
    batches = read_range(await client.connection(leader, "test"), topic_id, log, start, 10**6)
    return [r.offset async for header, view in batches if not header.is_control for r in recode.records(view)]


def test_topics_deleted_on_both_clusters_are_forgotten_and_mirrored_again_when_they_are_created(
    engine: Engine, fresh_topic: Callable[..., str]
) -> None:
    gone, kept, left = engine.topics, fresh_topic("kept"), fresh_topic("left")
    engine.extra["drlib.lanes"] = "1"
    engine.topics = f"{gone}, {kept}, {left}"
    for name in (gone, kept, left):
        create_topic(engine.left, name, 1)
        produce(engine.left, name, 20, partitions=1)
    engine.mirror_now(gone, kept, left)
    before = asyncio.run(known(engine))
    assert set(before) == {gone, kept, left}
    for name in (gone, left):
        delete_topic(engine.left, name)
    delete_topic(engine.right, f"{engine.source}.{gone}")
    wait_for("the deletions are known", lambda: not exists(engine.left, gone) and not exists(engine.left, left))
    engine.mirror_now(kept)
    after = asyncio.run(known(engine))
    assert set(after) == {kept, left}, "the mirror of one still has its records"
    assert after[kept][0] == before[kept][0]
    assert after[left] == before[left]
    create_topic(engine.left, gone, 1)
    produce(engine.left, gone, 30, partitions=1, first=100)
    engine.mirror_now(gone, kept)
    engine.assert_same(gone, 1)
    assert "TopicRecreated" not in {event.name for event in engine.events()}


def exists(bootstrap: str, topic: str) -> bool:
    with Cluster(ClusterSettings("ANY", (bootstrap,))) as cluster:
        return topic in cluster.topics([topic])


async def known(engine: Engine) -> dict[str, tuple[UUID, int]]:
    """By source topic its ID and the number of entries about its partitions."""
    async with connected(engine.right) as client:
        entries = await journal_of(client, engine)
    about = [getattr(entry, "partition", None) for entry in entries]
    partitions = [partition.topic_id for partition in about if isinstance(partition, SourcePartition)]
    names = {e.topic_id: e.source_topic for e in entries if isinstance(e, TopicNames)}
    assert set(partitions) <= set(names), "entries about topics without a name"
    return {name: (topic_id, partitions.count(topic_id)) for topic_id, name in names.items()}


async def segments_of(client: ClusterClient, engine: Engine) -> list[Segment]:
    found = (await read_maps(client, journal_topic(engine))).source(engine.topics, 0)
    assert found is not None
    return list(found.segments())


def test_journal_of_older_version_gets_small_segments_and_says_so(engine: Engine) -> None:
    topic, journal = engine.topics, journal_topic(engine)
    engine.extra["drlib.lanes"] = "1"
    create_topic(engine.left, topic, 1)
    create_topic(engine.right, journal, 1, cleanup_policy="compact", delete_retention_ms="1000")
    produce(engine.left, topic, 10, partitions=1)
    worker = engine.start()
    event = engine.wait_reported("JournalSettings", journal, resolved=True)
    engine.wait_caught_up(topic, 1)
    assert engine.stop(worker) == 0, engine.log()
    assert "segment.bytes: (default) -> 4194304" in event.detail
    assert "delete.retention.ms" not in event.detail  # an operator chose it
    expected = {**JOURNAL_LOG, "cleanup.policy": "compact", "delete.retention.ms": "1000"}
    assert journal_settings(engine) == expected
    worker = engine.start()  # nothing is left to do
    engine.wait_caught_up(topic, 1)
    assert engine.stop(worker) == 0, engine.log()
    assert not [e for e in engine.events() if e.name == "JournalSettings"]


def test_journal_of_this_version_is_created_with_small_segments(engine: Engine) -> None:
    create_topic(engine.left, engine.topics, 1)
    produce(engine.left, engine.topics, 10, partitions=1)  # of an empty topic a worker has caught up before it began
    engine.mirror_now(engine.topics)
    assert journal_settings(engine) == {**JOURNAL_LOG, "cleanup.policy": "compact"}


def test_journal_that_may_not_be_altered_is_reported_with_the_command(
    engine: Engine, authorizer_lab: Lab, fresh_topic: Callable[..., str]
) -> None:
    engine.right = authorizer_lab.clusters["AUTHORIZED"].bootstrap
    engine.extra["drlib.lanes"] = "1"
    topic, journal = engine.topics, journal_topic(engine)
    create_topic(engine.left, topic, 1)
    create_topic(engine.right, journal, 1, cleanup_policy="compact")
    rights = (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
    add_acls(engine.right, *(acl(ResourceType.TOPIC, journal, right) for right in rights))
    produce(engine.left, topic, 10, partitions=1)
    worker = engine.start()
    event = engine.wait_reported("JournalSettings", journal)
    engine.wait_caught_up(topic, 1)
    assert engine.stop(worker) == 0, engine.log()
    assert "--add-config segment.bytes=4194304,min.cleanable.dirty.ratio=0.3" in event.remedy
    drop_acls(engine.right, ResourceType.TOPIC, journal)
    for key, value in JOURNAL_LOG.items():
        alter(engine.right, journal, key, value)  # as the command does
    engine.mirror_now(topic)
    assert not [e for e in engine.events() if e.name == "JournalSettings"]
