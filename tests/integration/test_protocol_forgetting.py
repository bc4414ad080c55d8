"""A target that forgets producers: old records, idle weeks and spent epochs must not let a former owner back in.

The target is a broker with expirations of seconds instead of days.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fix_engine import Engine, create_topic, read_all
from protocol_stage import (
    OLD_MS,
    REFUSED_EPOCH,
    append,
    connected,
    headers,
    journal_of,
    remembered,
    running,
    send,
    trickle,
)

from drlib.lab.lab import Lab
from drlib.model import TopicPartition
from drlib.rules.journal import Claim, ClaimId
from drlib.rules.rearm import Expiry
from drlib.wire import requests

PRODUCERS_MS, LOOK_MS, TRANSACTIONAL_MS = 2000, 500, 5000


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """bootstrap.servers of a broker that forgets within seconds."""
    settings = {
        "producer.id.expiration.ms": str(PRODUCERS_MS),
        "producer.id.expiration.check.interval.ms": str(LOOK_MS),
        "transactional.id.expiration.ms": str(TRANSACTIONAL_MS),
        "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
    }
    with Lab(tmp_path_factory.mktemp("forgetful"), ("ONE",), extra=settings) as lab:
        yield lab.clusters["ONE"].bootstrap


@pytest.fixture
def attacked(left: str, forgetful: str, fresh_topic: Callable[..., str], tmp_path: Path) -> Iterator[Engine]:
    tag = uuid.uuid4().hex[:6]
    found = Engine(tmp_path, left, forgetful, f"SRC{tag}", f"DST{tag}", fresh_topic(), {"drlib.lanes": "1"})
    create_topic(left, found.topics, 1, retention_ms="-1")
    yield found
    found.close()


def mirror(engine: Engine) -> TopicPartition:
    return TopicPartition(f"{engine.source}.{engine.topics}", 0)


async def looks(count: int) -> None:
    """Let the broker look for producers to forget `count` times: its clock, not ours, decides."""
    await asyncio.sleep(count * LOOK_MS / 1000)


async def test_a_zombie_finds_the_door_shut_behind_old_records(attacked: Engine, forgetful: str) -> None:
    topic = attacked.topics
    await asyncio.to_thread(send, attacked.left, topic, [f"a{n}" for n in range(50)])
    async with running(attacked) as former:
        await former.mirrored(topic, {0: 50})
        zombie = former.claim()
    async with running(attacked) as owner, connected(forgetful) as client:
        await asyncio.to_thread(send, attacked.left, topic, [f"b{n}" for n in range(300)], timestamp=OLD_MS)
        await owner.mirrored(topic, {0: 350})
        assert owner.claim() == ClaimId(zombie.producer_id, zombie.epoch + 1)
        await looks(3)
        assert await remembered(client, mirror(attacked), zombie.producer_id) == zombie.epoch + 1
        assert (await append(client, mirror(attacked), zombie, 50, timestamp=OLD_MS))[0] == REFUSED_EPOCH
        await asyncio.to_thread(send, attacked.left, topic, [f"c{n}" for n in range(10)])
        await owner.mirrored(topic, {0: 360})
    attacked.assert_same(topic, 1)


async def test_a_stretch_of_old_records_is_guarded_and_costs_few_markers(attacked: Engine, forgetful: str) -> None:
    topic = attacked.topics
    values = [f"{n}" for n in range(600)]
    guarded = 0
    async with running(attacked) as owner, connected(forgetful) as client:
        await owner.mirrored(topic, {0: 0})
        began = time.monotonic()
        traffic = asyncio.create_task(
            asyncio.to_thread(trickle, attacked.left, topic, values, pause_s=0.004, timestamp=OLD_MS)
        )
        while not traffic.done():
            found = owner.partition(topic)
            guarded += found is not None and found.guarded
            await asyncio.sleep(0.02)
        await traffic
        await owner.mirrored(topic, {0: 600})
        lasted = time.monotonic() - began
        claims = owner.claim().epoch + 1
        await looks(2)
        found = owner.partition(topic)
        assert found is not None
        assert not found.guarded  # the lull is closed
        batches = await headers(client, mirror(attacked))
        markers = sum(h.is_control for h in batches) - claims
        assert guarded
        assert 1 <= markers <= lasted * 1000 / Expiry(PRODUCERS_MS, LOOK_MS).lull_ms + 2, f"{markers} in {lasted} s"
        assert len(batches) > 3 * markers
    attacked.assert_same(topic, 1)


async def test_a_weeks_idleness_leaves_producer_and_fence_as_they_were(attacked: Engine, forgetful: str) -> None:
    topic = attacked.topics
    await asyncio.to_thread(send, attacked.left, topic, [f"a{n}" for n in range(50)])
    async with running(attacked) as owner, connected(forgetful) as client:
        await owner.mirrored(topic, {0: 50})
        first = owner.claim()
        await asyncio.sleep(TRANSACTIONAL_MS / 1000 + 1.5)  # nothing to wait for: it is the idleness that is tested
        assert await remembered(client, mirror(attacked), first.producer_id) is None  # idle partitions are left alone
        assert owner.claim() == first
        await asyncio.to_thread(send, attacked.left, topic, [f"b{n}" for n in range(50)])
        await owner.mirrored(topic, {0: 100})
        second = owner.claim()
        assert second == ClaimId(first.producer_id, first.epoch + 1)  # forgotten: a new claim, of the same producer
        assert not owner.told("LaneFault")
        assert (await append(client, mirror(attacked), first, 50))[0] == REFUSED_EPOCH
    async with running(attacked) as owner:
        await asyncio.to_thread(send, attacked.left, topic, [f"c{n}" for n in range(50)])
        await owner.mirrored(topic, {0: 150})
        assert owner.claim() == ClaimId(first.producer_id, second.epoch + 1)
    attacked.assert_same(topic, 1)


async def test_spent_epochs_move_the_lane_to_a_new_transactional_id(attacked: Engine, forgetful: str) -> None:
    topic = attacked.topics
    claims: list[ClaimId] = []
    async with connected(forgetful) as client:
        for turn in range(6):
            await asyncio.to_thread(send, attacked.left, topic, [f"{turn}-{n}" for n in range(40)])
            async with running(attacked, rotate_at_epoch=3) as owner:
                await owner.mirrored(topic, {0: 40 * (turn + 1)})
                claims.append(owner.claim())
                if claims[-1].producer_id != claims[0].producer_id:
                    for former in claims[:-1]:
                        assert (await append(client, mirror(attacked), former, 40))[0] == REFUSED_EPOCH
                        journal = TopicPartition(owner.flow.journal_topic, 0)
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
        entries = [e for e in await journal_of(client, attacked) if isinstance(e, Claim)]
        assert {(e.claim.producer_id, e.claim.epoch): e.generation for e in entries} == {
            **{(old, n): 0 for n in range(3)},
            (old, 3): 1,  # the claim that moved the lane on
            **{(new, n): 1 for n in range(3)},
        }
        name = f"drlib.{attacked.source}.{attacked.target}.0.1"
        node = await client.coordinator(name, "transaction")
        state = await requests.describe_transaction(await client.connection(node, "attack"), name)
        assert (state.producer_id, state.epoch) == (new, 2)
    attacked.assert_same(topic, 1)
    assert len(read_all(forgetful, mirror(attacked).topic, 1)[0]) == 240
