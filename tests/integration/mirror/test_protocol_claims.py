"""Claims: zombies, racing claimants, and a fenced owner that must not claim again by itself."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from deadline import Deadline, never
from fix_engine import Engine, create_topic, read_all
from testbed_lane import REFUSED_EPOCH, append, connected, headers, journal_of, running, send, take, until

from drlib.config.settings import load_mirror_settings
from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.mirror.engine.fencing.claim import CLAIM_DEADLINE_S
from drlib.mirror.engine.lane.lane import Housekeeping
from drlib.mirror.errors import LaneFault, LaneLost
from drlib.mirror.journal.entries import Claim, ClaimId, Folded, Placement, Run
from drlib.mirror.offsets.map.follow_journal import JournalFollower
from drlib.mirror.offsets.map.journal_log import LaneJournal
from drlib.mirror.offsets.map.load_maps import read_maps
from drlib.mirror.read_batches import log_ends
from drlib.model import TopicPartition


async def test_claim_fences_former_owner_in_written_and_unwritten_partitions(
    right: str, fresh_topic: Callable[[str], str]
) -> None:
    topic = fresh_topic("claimed")
    await asyncio.to_thread(create_topic, right, topic, 2)
    wrote, untouched = TopicPartition(topic, 0), TopicPartition(topic, 1)
    async with connected(right) as client:
        former = await take(client, f"lane-{topic}", {topic: [0, 1]})
        assert await append(client, wrote, former, 0, count=5) == (0, 1)
        owner = await take(client, f"lane-{topic}", {topic: [0, 1]})
        assert owner == ClaimId(former.producer_id, former.epoch + 1)
        assert (await append(client, wrote, former, 5))[0] == REFUSED_EPOCH
        assert (await append(client, untouched, former, 0))[0] == REFUSED_EPOCH
        assert (await append(client, untouched, owner, 3))[0] != 0  # a batch behind one that failed
        assert await append(client, untouched, owner, 0) == (0, 2)
        assert await append(client, wrote, owner, 0) == (0, 7)


async def test_claim_with_a_topic_that_is_gone_ends_so_that_the_next_one_leaves_it_out(
    right: str, fresh_topic: Callable[[str], str]
) -> None:
    topic, gone = fresh_topic("claimed"), fresh_topic("gone")
    await asyncio.to_thread(create_topic, right, topic, 1)
    async with connected(right) as client:
        async with asyncio.timeout(CLAIM_DEADLINE_S / 2):
            with pytest.raises(LaneFault, match="UNKNOWN_TOPIC_OR_PARTITION"):
                await take(client, f"lane-{topic}", {topic: [0], gone: [0]})
        assert await take(client, f"lane-{topic}", {topic: [0]})


async def test_claim_racing_claimants_never_interleave_appends(right: str, fresh_topic: Callable[[str], str]) -> None:
    topic = fresh_topic("raced")
    await asyncio.to_thread(create_topic, right, topic, 1)
    partition = TopicPartition(topic, 0)
    appended: dict[int, int] = {}  # epoch -> records acknowledged

    async def claimant(number: int) -> None:
        chance, deadline = random.Random(number), Deadline(30)
        async with connected(right) as client:
            while len(appended) < 4 and not deadline.passed:
                await asyncio.sleep(chance.uniform(0, 0.1))  # without it they might fence each other for ever
                try:
                    ours = await take(client, f"lane-{topic}", {topic: [0]})
                except (LaneLost, LaneFault):
                    continue  # another claimant was faster: that is what a race is
                assert ours.epoch not in appended, "two claimants hold one epoch"
                appended[ours.epoch] = 0
                while appended[ours.epoch] < 40:
                    code, _ = await append(client, partition, ours, appended[ours.epoch], value=b"%d" % number)
                    if code:
                        assert code == REFUSED_EPOCH
                        break
                    appended[ours.epoch] += 1

    await asyncio.gather(*(claimant(n) for n in range(3)))
    async with connected(right) as client:
        last = await take(client, f"lane-{topic}", {topic: [0]})
        stands = await headers(client, partition)
    assert len(appended) >= 2
    assert sum(appended.values()) > 0
    epochs = [h.producer_epoch for h in stands]
    assert epochs == sorted(epochs), "a record of an older claim stands behind a newer one"
    assert epochs[-1] == last.epoch
    for epoch, count in appended.items():  # what was acknowledged stands, once, from sequence 0 on
        mine = [h.base_sequence for h in stands if h.producer_epoch == epoch and not h.is_control]
        assert mine == list(range(count))


async def test_journal_of_many_gaps_is_folded_into_the_same_map(engine: Engine) -> None:
    topic = engine.topics
    engine.extra["drlib.lanes"] = "1"
    await asyncio.to_thread(create_topic, engine.left, topic, 1)
    producer = Producer({"bootstrap.servers": engine.left, "transactional.id": topic, "log_level": 0})
    await asyncio.to_thread(producer.init_transactions, 30)

    def transactions(count: int) -> None:
        for number in range(count):
            producer.begin_transaction()
            for record in range(3):
                producer.produce(topic, value=f"{number}-{record}".encode(), partition=0)
            producer.commit_transaction(30)

    flow = load_mirror_settings(engine.properties).flow(engine.source, engine.target)
    journal = flow.policy.journal_topic(engine.source)
    async with connected(engine.right) as client:
        follower = JournalFollower(client, journal, 1)
        for turn in range(1, 5):
            # A claim that is folded is followed by one that is not and has promises, too: chunks then stand behind those.
            tidy = Housekeeping(fold_at=10, claim_at=15 if turn == 4 else 10_000)
            async with running(engine, housekeeping=tidy) as owner:
                await owner.mirrored(topic, {0: 100 * (turn - 1)})
                began = owner.claim()
                await follower.refresh("test")  # has read what is folded next
                await asyncio.to_thread(transactions, 25)
                await owner.mirrored(topic, {0: 100 * turn})
                if turn == 4:
                    await until(
                        "a claim with so many promises gives way",
                        lambda now=owner, then=began: now.claim().epoch > then.epoch,
                    )
        entries = await journal_of(client, engine)
        (folded,) = [e for e in entries if isinstance(e, Folded)]
        assert folded.chunks >= 2
        assert len([e for e in entries if isinstance(e, Run)]) < 80  # of 100
        followed = (await follower.refresh("test")).map(0, folded.partition.topic_id, 0)
        late = JournalFollower(client, journal, 1)  # has never seen what the chunks stand for
        afresh = (await late.refresh("test")).map(0, folded.partition.topic_id, 0)
        found = (await read_maps(client, journal)).source(topic, 0)
        log = TopicPartition(f"{engine.source}.{topic}", 0)
        stands = [h.base_offset for h in await headers(client, log) if not h.is_control]
    assert found is not None
    assert [found.forward(4 * n).offset for n in range(100)] == stands  # three records and a marker each
    assert all(found.forward(n).exact for n in range(400))
    assert followed is not None
    assert afresh is not None
    assert list(followed.segments()) == list(afresh.segments()) == list(found.segments())
    engine.assert_same(topic, 1)


async def promise_records(
    client: ClusterClient, engine: Engine, owner: ClaimId, journal: str, *, target_offset: int
) -> None:
    """Journal what an owner of lane 0 journals before it appends; records of a claim without it mean a lost journal."""
    (key,) = {e.partition for e in await journal_of(client, engine) if isinstance(e, Run)}
    partition = TopicPartition(journal, 0)
    leader = (await log_ends(client, [partition])).leaders[partition]
    written = LaneJournal(client, partition, owner, "usurper", leader)
    await written.append(
        [Claim(owner, 0, 0, "usurper"), Placement(key, owner, 0, target_offset), Run(key, owner, 0, 50)]
    )


async def test_lane_fenced_owner_claims_again_only_after_a_session_with_the_group(engine: Engine) -> None:
    topic = engine.topics
    engine.extra |= {"drlib.lanes": "1", "drlib.session.timeout.ms": "3000"}
    await asyncio.to_thread(create_topic, engine.left, topic, 1)
    await asyncio.to_thread(send, engine.left, topic, [f"a{n}" for n in range(50)])
    mirror = TopicPartition(f"{engine.source}.{topic}", 0)
    async with running(engine) as owner, connected(engine.right) as client:
        await owner.mirrored(topic, {0: 50})
        first = owner.claim()
        journal = owner.flow.setup.journal_topic
        usurper = await take(client, f"drlib.{engine.source}.{engine.target}.0.0", {mirror.topic: [0], journal: [0]})
        assert usurper.epoch == first.epoch + 1
        when = int(time.time() * 1000)
        await asyncio.to_thread(send, engine.left, topic, [f"b{n}" for n in range(50)], timestamp=when)
        await until("the owner knows that it lost the lane", lambda: bool(owner.reported("LaneLost")))
        await promise_records(client, engine, usurper, journal, target_offset=52)
        assert await append(client, mirror, usurper, 0, timestamp=when, sent=["b0"]) == (0, 52)
        assert await asyncio.to_thread(never, lambda: owner.claim() != first, 1.5)
        assert await append(client, mirror, usurper, 1, timestamp=when + 1, sent=["b1"]) == (0, 53)
        # The group assigned the lane to no other member: the claimant was a member that had timed out, and does not return.
        await owner.mirrored(topic, {0: 100})
        assert owner.claim().epoch > usurper.epoch
        assert (await append(client, mirror, usurper, 2))[0] == REFUSED_EPOCH


async def test_lane_near_last_epoch_moves_to_new_transactional_id(engine: Engine) -> None:
    topic = engine.topics
    engine.extra["drlib.lanes"] = "1"
    await asyncio.to_thread(create_topic, engine.left, topic, 1)
    mirror = TopicPartition(f"{engine.source}.{topic}", 0)
    claims: list[ClaimId] = []
    async with connected(engine.right) as client:
        for turn in range(6):
            await asyncio.to_thread(send, engine.left, topic, [f"{turn}-{n}" for n in range(40)])
            async with running(engine, housekeeping=Housekeeping(rotate_at_epoch=3)) as owner:
                await owner.mirrored(topic, {0: 40 * (turn + 1)})
                claims.append(owner.claim())
                if claims[-1].producer_id != claims[0].producer_id:
                    for former in claims[:-1]:
                        assert (await append(client, mirror, former, 40))[0] == REFUSED_EPOCH
                        journal = TopicPartition(owner.flow.setup.journal_topic, 0)
                        assert (await append(client, journal, former, 9))[0] == REFUSED_EPOCH
        old, new = claims[0].producer_id, claims[-1].producer_id
        assert [(c.producer_id, c.epoch) for c in claims] == [
            (old, 0),
            (old, 1),
            (old, 2),
            (new, 0),
            (new, 1),
            (new, 2),
        ]
        entries = [e for e in await journal_of(client, engine) if isinstance(e, Claim)]
        assert {(e.claim.producer_id, e.claim.epoch): e.generation for e in entries} == {
            **{(old, n): 0 for n in range(3)},
            (old, 3): 1,  # the claim that moved the lane on
            **{(new, n): 1 for n in range(3)},
        }
        name = f"drlib.{engine.source}.{engine.target}.0.1"
        node = await client.coordinator(name, "transaction")
        state = await requests.describe_transaction(await client.connection(node, "attack"), name)
        assert (state.producer_id, state.epoch) == (new, 2)
    engine.assert_same(topic, 1)
    assert len(read_all(engine.right, mirror.topic, 1)[0]) == 240
