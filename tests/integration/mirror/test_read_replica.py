"""With `client.rack` the mirror reads from a follower in its rack, whose lag, silence and end lead to no event of loss."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType
from fix_engine import Engine, alter
from testbed_lane import Running, running, send, until

from drlib.lab.lab import Lab
from drlib.mirror.engine.fetch import read_replica

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
FALSE = {
    "SourceLoss",
    "SourceTruncated",
    "SourceRewound",
    "SourceCorrupt",
    "SourceStalled",
    "SourceTopicGone",
    "TopicRecreated",
    "Parked",
    "OfflinePartition",
    "OpenTransaction",
    "RetentionAhead",
    "LaneFault",
    "LaneStalled",
}


def received(owner: Running, node: int, *, follower: bool) -> int:
    """Bytes that the mirror's readers got from a broker of the source, over the connections that are open now."""
    source = owner.running_flow._source
    wanted = ("fetch-follower-", "tail-follower-") if follower else ("fetch-drlib", "tail-drlib", "replica-")
    return sum(
        connection._received
        for (at, purpose), connection in source._connections.items()
        if at == node and purpose.startswith(wanted) and not connection.is_lost
    )


@pytest.mark.long
async def test_source_is_read_from_the_follower_in_the_rack_and_its_lag_and_end_are_no_event(
    engine: Engine, lab_factory: Callable[..., Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_replica, "AVOID_S", 2.0)
    monkeypatch.setattr(read_replica, "LEASE_S", 2.0)
    extra = {"replica.selector.class": SELECTOR, "replica.lag.time.max.ms": "4000", "min.insync.replicas": "1"}
    cluster = await asyncio.to_thread(lambda: lab_factory(aliases=("THREE",), brokers=3, extra=extra).clusters["THREE"])
    first, second, third = cluster.brokers
    leader, follower = second.spec.node_id, third.spec.node_id
    engine.left = cluster.bootstrap
    engine.extra |= {"drlib.lanes": "1", f"{engine.source}.consumer.client.rack": f"rack-{follower}"}
    topic = engine.topics
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    await asyncio.to_thread(
        admin.create_topics([NewTopic(topic, 1, replica_assignment=[[leader, follower]])])[topic].result, 20
    )
    everything: list[str] = []

    async def add(count: int) -> None:
        values = [f"{len(everything) + n}-" + "x" * 1000 for n in range(count)]
        everything.extend(values)
        await asyncio.to_thread(send, f"{first.bootstrap},{second.bootstrap}", topic, values)

    async with running(engine) as owner:

        async def at_follower() -> None:
            await until("the follower is read", lambda: received(owner, follower, follower=True) > 0)

        await owner.mirrored(topic, {0: 0})
        await at_follower()
        before = received(owner, leader, follower=False)
        await add(4000)
        await owner.mirrored(topic, {0: len(everything)})
        assert received(owner, follower, follower=True) > 4_000_000
        assert received(owner, leader, follower=False) - before < 200_000

        third.pause()  # it answers nothing, and has to be left before its replicas are
        await add(1000)
        await owner.mirrored(topic, {0: len(everything)})
        assert received(owner, follower, follower=True) == 0
        third.resume()
        await at_follower()

        # It answers, but replicates nothing: its log ends below the position that is read at the leader.
        throttle = ConfigEntry("follower.replication.throttled.rate", "1", incremental_operation=AlterConfigOpType.SET)
        broker = ConfigResource(ResourceType.BROKER, str(follower), incremental_configs=[throttle])
        await asyncio.to_thread(admin.incremental_alter_configs([broker])[broker].result, 20)
        await asyncio.to_thread(alter, first.bootstrap, topic, "follower.replication.throttled.replicas", "*")
        await add(1000)
        await owner.mirrored(topic, {0: len(everything)})
        await asyncio.to_thread(alter, first.bootstrap, topic, "follower.replication.throttled.replicas", "")
        await at_follower()
        await add(1000)
        await owner.mirrored(topic, {0: len(everything)})

        third.kill()
        await add(1000)
        await owner.mirrored(topic, {0: len(everything)})
        reported = {event.name: event.detail for event in owner.events.snapshot()}
        assert not FALSE & reported.keys(), reported
    engine.left = first.bootstrap
    engine.assert_same(topic, 1)
