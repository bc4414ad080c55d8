"""A target that forgets producers: after old records, idle weeks and spent epochs a former owner stays fenced.

The target is a broker with expirations of seconds instead of days.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from deadline import Deadline
from fix_engine import Engine, create_topic
from testbed_lane import (
    OLD_MS,
    REFUSED_EPOCH,
    append,
    connected,
    headers,
    remembered,
    running,
    send,
    take,
    trickle,
)

from drlib import clock
from drlib.kafka.net import requests
from drlib.kafka.protocol.error_codes import BrokerError
from drlib.lab.lab import Lab
from drlib.mirror.engine.fencing.producer_expiration import Expiry
from drlib.model import TopicPartition

PRODUCERS_MS, LOOK_MS, TRANSACTIONAL_MS = 2000, 500, 5000


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """bootstrap.servers of a broker that forgets producers within seconds."""
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
    """Wait until the broker has checked for expired producers `count` times, by its own clock."""
    await asyncio.sleep(count * LOOK_MS / 1000)


async def test_markers_idle_after_old_records_fence_a_zombie(attacked: Engine, forgetful: str) -> None:
    topic = attacked.topics
    await asyncio.to_thread(send, attacked.left, topic, [f"a{n}" for n in range(50)])
    async with running(attacked) as former:
        await former.mirrored(topic, {0: 50})
        zombie = former.claim()
    async with running(attacked) as owner, connected(forgetful) as client:
        await asyncio.to_thread(send, attacked.left, topic, [f"b{n}" for n in range(300)], timestamp=OLD_MS)
        await owner.mirrored(topic, {0: 350})
        await looks(3)
        assert owner.claim().producer_id == zombie.producer_id
        assert await remembered(client, mirror(attacked), zombie.producer_id) == owner.claim().epoch > zombie.epoch
        assert (await append(client, mirror(attacked), zombie, 50, timestamp=OLD_MS))[0] == REFUSED_EPOCH
        await asyncio.to_thread(send, attacked.left, topic, [f"c{n}" for n in range(10)])
        await owner.mirrored(topic, {0: 360})
    attacked.assert_same(topic, 1)


async def test_markers_continuous_old_records_are_guarded_with_few_markers(attacked: Engine, forgetful: str) -> None:
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
        closing = Deadline(20)
        while (
            found := owner.partition(topic)
        ) is None or found.guarded:  # until the claim is renewed behind the last record
            assert not closing.passed, found
            await asyncio.sleep(0.05)
        batches = await headers(client, mirror(attacked))
        markers = sum(h.is_control for h in batches) - claims
        assert guarded
        assert 1 <= markers <= lasted * 1000 / Expiry(PRODUCERS_MS, LOOK_MS).idle_ms + 2, f"{markers} in {lasted} s"
        assert len(batches) > 3 * markers
    attacked.assert_same(topic, 1)


@pytest.mark.parametrize("set_back_s", [0, 3600])
async def test_markers_week_of_idleness_keeps_producer_and_fence(
    attacked: Engine, forgetful: str, monkeypatch: pytest.MonkeyPatch, set_back_s: float
) -> None:
    """Also where this machine's clock is set back meanwhile: it is the target that forgets."""
    topic = attacked.topics
    await asyncio.to_thread(send, attacked.left, topic, [f"a{n}" for n in range(50)])
    async with running(attacked) as owner, connected(forgetful) as client:
        await owner.mirrored(topic, {0: 50})
        first = owner.claim()
        monkeypatch.setattr(clock, "time", SimpleNamespace(time=lambda: time.time() - set_back_s))
        await asyncio.sleep(TRANSACTIONAL_MS / 1000 + 1.5)  # nothing to wait for: it is the idleness that is tested
        assert await remembered(client, mirror(attacked), first.producer_id) is None  # idle partitions are left alone
        assert owner.claim() == first
        await asyncio.to_thread(send, attacked.left, topic, [f"b{n}" for n in range(50)])
        await owner.mirrored(topic, {0: 100})
        second = owner.claim()
        assert second.epoch > first.epoch  # forgotten: only a new claim could go on
        assert not owner.reported("LaneFault")
        assert (await append(client, mirror(attacked), first, 50))[0] == REFUSED_EPOCH
    async with running(attacked) as owner:
        await asyncio.to_thread(send, attacked.left, topic, [f"c{n}" for n in range(50)])
        await owner.mirrored(topic, {0: 150})
        assert owner.claim().producer_id == second.producer_id == first.producer_id  # else it had fenced nobody
        assert owner.claim().epoch > second.epoch
    attacked.assert_same(topic, 1)


async def test_claim_after_its_transactional_id_expired_has_a_producer_id_that_was_never_given(
    forgetful: str, fresh_topic: Callable[[str], str]
) -> None:
    """Who wrote a batch is known for good: an ID that is out of use is not given to another producer."""
    topic = fresh_topic("expired")
    await asyncio.to_thread(create_topic, forgetful, topic, 1)
    async with connected(forgetful) as client:
        former = await take(client, f"lane-{topic}", {topic: [0]})
        assert await append(client, TopicPartition(topic, 0), former, 0) == (0, 1)
        coordinator = await client.coordinator(f"lane-{topic}", "transaction")
        connection = await client.connection(coordinator, "attack")
        deadline = Deadline(60)
        while not deadline.passed:
            try:
                await requests.describe_transaction(connection, f"lane-{topic}")
            except BrokerError:
                break  # the coordinator has forgotten it
            await asyncio.sleep(0.5)
        owner = await take(client, f"lane-{topic}", {topic: [0]})
        assert owner.producer_id > former.producer_id
        assert owner.epoch == 0
        written = [h.producer_id for h in await headers(client, TopicPartition(topic, 0)) if not h.is_control]
        assert written == [former.producer_id]
