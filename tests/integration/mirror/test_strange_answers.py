"""A broker answers one partition with what the engine does not expect: that partition waits, and no other one."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient
from fix_engine import Engine, alter, commit, create_topic, produce, read_all
from fix_lab import LabFactory
from testbed_lane import change_responses, connected, running, send, until

from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.protocol.error_codes import UNKNOWN_TOPIC_ID
from drlib.kafka.protocol.fetch import FetchedPartition
from drlib.mirror.engine.fetch.fetch_response import FetchResponseHandler, PartitionFetch
from drlib.mirror.engine.lane import parked_partitions
from drlib.mirror.mm2.records import Checkpoint
from drlib.mirror.sync import source_groups

WITHOUT_SNAPPY = "-Dorg.xerial.snappy.use.systemlib=true"  # as on Alpine, or with /tmp mounted noexec


async def test_partition_whose_codec_the_broker_has_no_library_for_waits_alone(
    engine: Engine, lab_factory: LabFactory
) -> None:
    """The broker cannot read the batch and answers UNKNOWN_SERVER_ERROR, however often it is sent."""
    (broker,) = lab_factory(("BARE",)).clusters["BARE"].brokers
    broker.stop()
    broker.prepare({})
    broker.launch([WITHOUT_SNAPPY])
    broker.wait_ready(90)
    engine.right = broker.bootstrap
    plain, packed = engine.topics, f"{engine.topics}-snappy"
    engine.extra |= {"topics": f"{plain},{packed}", "drlib.lanes": "1"}
    for topic in (plain, packed):
        await asyncio.to_thread(create_topic, engine.left, topic, 1)
    await asyncio.to_thread(produce, engine.left, packed, 10, partitions=1, codec="snappy")
    async with running(engine) as owner:
        await until("the batch is refused", lambda: bool(owner.reported("TargetRefused")))
        claim = owner.claim()
        for number in range(3):
            await asyncio.to_thread(send, engine.left, plain, [f"v{number}"])
            await owner.mirrored(plain, {0: number + 1}, 10)
        assert owner.claim() == claim, owner.events.snapshot()
        assert "UNKNOWN" in owner.reported("TargetRefused")[0]
        assert not owner.reported("LaneFault")


async def test_topic_that_a_broker_does_not_know_yet_is_read_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker whose metadata is behind, as after a restart or a freeze, answers as if the topic was deleted."""
    answered: list[int] = []

    def behind(
        _: FetchResponseHandler, fetch: PartitionFetch, offset: int, response: FetchedPartition
    ) -> FetchedPartition:
        if not answered and offset == fetch.stream.position:
            answered.append(offset)
            return replace(response, error_code=UNKNOWN_TOPIC_ID, records=memoryview(b""))
        return response

    change_responses(monkeypatch, behind)
    monkeypatch.setattr(parked_partitions, "FIRST_RETRY_S", 0.2)
    await asyncio.to_thread(create_topic, engine.left, engine.topics, 1)
    await asyncio.to_thread(send, engine.left, engine.topics, ["a", "b"])
    async with running(engine) as owner:
        await until("it is reported", lambda: bool(owner.reported("SourceTopicGone")))
        await owner.mirrored(engine.topics, {0: 2}, 15)
        await until("the event ends", lambda: not owner.events.is_open("SourceTopicGone", f"{engine.topics}-0"))
    engine.assert_same(engine.topics, 1)


async def test_batch_above_a_limit_that_was_lowered_while_it_runs_is_split(engine: Engine) -> None:
    """The source's owner lowers max.message.bytes, and the mirror follows; larger batches are in the source's log."""
    topic = engine.topics
    engine.extra["sync.topic.configs.enabled"] = "false"  # the test sets it
    await asyncio.to_thread(create_topic, engine.left, topic, 1)
    await asyncio.to_thread(send, engine.left, topic, ["first"])
    async with running(engine) as owner:
        await owner.mirrored(topic, {0: 1})
        claim = owner.claim()
        await asyncio.to_thread(alter, engine.right, f"{engine.source}.{topic}", "max.message.bytes", "2000")
        await asyncio.to_thread(produce, engine.left, topic, 500, partitions=1, batch=500_000)
        await owner.mirrored(topic, {0: 501}, 30)
        assert owner.claim() == claim
    engine.assert_same(topic, 1)


async def test_target_whose_transactions_may_last_seconds_only_is_mirrored_to(
    engine: Engine, lab_factory: LabFactory
) -> None:
    strict = lab_factory(("BRIEF",), extra={"transaction.max.timeout.ms": "5000"}).clusters["BRIEF"]
    engine.right = strict.bootstrap
    await asyncio.to_thread(create_topic, engine.left, engine.topics, 1)
    await asyncio.to_thread(send, engine.left, engine.topics, ["a", "b"])
    async with running(engine) as owner:
        await owner.mirrored(engine.topics, {0: 2}, 20)
    engine.assert_same(engine.topics, 1)


async def test_checkpoint_that_was_not_written_is_written_again_though_the_group_commits_nothing_more(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else an emergency would set a group that ran once a day to where it was the day before."""
    monkeypatch.setattr(source_groups, "AGAIN_S", 0.5)
    topic, group = engine.topics, f"group-{engine.topics}"
    checkpoints = f"{engine.source}.checkpoints.internal"
    await asyncio.to_thread(create_topic, engine.left, topic, 1)
    await asyncio.to_thread(send, engine.left, topic, ["a", "b", "c"])
    async with running(engine) as owner:
        await owner.mirrored(topic, {0: 3})
        await asyncio.to_thread(alter, engine.right, checkpoints, "max.message.bytes", "10")
        await asyncio.to_thread(commit, engine.left, group, topic, 2)
        await until("the checkpoint is refused", lambda: owner.events.is_open("Mm2RecordRefused", checkpoints))
        await asyncio.to_thread(alter, engine.right, checkpoints, "max.message.bytes", "100000")
        await until("it is written", lambda: not owner.events.is_open("Mm2RecordRefused", checkpoints), 20)
    (record,) = read_all(engine.right, checkpoints, 1)[0]
    assert Checkpoint.decode(record[0], record[1]).upstream_offset == 2


async def test_groups_are_followed_while_some_partitions_of_the_offsets_topic_have_no_leader(
    engine: Engine, lab_factory: LabFactory
) -> None:
    """With one replica, as on small clusters, a broker that is down takes its part along, and no other one."""
    extra = {"offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "9"}
    three = lab_factory(("THREE",), brokers=3, extra=extra).clusters["THREE"]
    engine.left = three.bootstrap
    topic, checkpoints = engine.topics, f"{engine.source}.checkpoints.internal"
    await asyncio.to_thread(create_topic, engine.left, topic, 1)
    await asyncio.to_thread(send, engine.left, topic, ["a", "b", "c"])
    async with running(engine) as owner, connected(engine.left) as client:
        await owner.mirrored(topic, {0: 3})
        names = [f"group-{number}" for number in range(40)]
        coordinators = {name: await client.coordinator(name, "group") for name in names}
        led = (await client.metadata([topic])).topics[topic].partitions[0].leader
        victim = next(broker for broker in three.brokers if broker.spec.node_id != led)
        group = next(name for name, node in coordinators.items() if node != victim.spec.node_id)
        victim.kill()

        def reported() -> bool:
            return any("have no leader" in why for why in owner.reported("GroupTailUnavailable"))

        await until("it is reported", reported, 60)
        await asyncio.to_thread(commit, engine.left, group, topic, 2)

        def written() -> list[int]:
            found = read_all(engine.right, checkpoints, 1)[0]
            return [
                c.upstream_offset for key, value, *_ in found if (c := Checkpoint.decode(key, value)).group == group
            ]

        await until("its checkpoint is written", lambda: written() == [2], 20)


def offsets_partition(group: str, partitions: int) -> int:
    """Of `__consumer_offsets`: Java's hash of the name, without its sign."""
    value = 0
    for letter in group:
        value = (31 * value + ord(letter)) & 0xFFFFFFFF
    return (value & 0x7FFFFFFF) % partitions


async def test_groups_are_followed_while_an_open_transaction_holds_back_the_offsets_of_another(engine: Engine) -> None:
    """Behind the transaction's offsets the log of commits cannot be read, and the polls that make up for it go on."""
    topic, checkpoints = engine.topics, f"{engine.source}.checkpoints.internal"
    await asyncio.to_thread(create_topic, engine.left, topic, 1)
    await asyncio.to_thread(send, engine.left, topic, ["a", "b", "c"])
    async with running(engine) as owner, connected(engine.left) as client:
        await owner.mirrored(topic, {0: 3})
        held = f"a-{topic}"
        await asyncio.to_thread(commit, engine.left, held, topic, 0)
        count = len((await client.metadata(["__consumer_offsets"])).topics["__consumer_offsets"].partitions)
        names = (f"b-{topic}-{number}" for number in range(1000))
        group = next(g for g in names if offsets_partition(g, count) == offsets_partition(held, count))
        producer = Producer({"bootstrap.servers": engine.left, "transactional.id": held, "log_level": 0})
        consumer = Consumer({"bootstrap.servers": engine.left, "group.id": held, "log_level": 0})
        await asyncio.to_thread(producer.init_transactions, 30)
        producer.begin_transaction()
        offsets = [ConfluentPartition(topic, 0, 1)]
        await asyncio.to_thread(producer.send_offsets_to_transaction, offsets, consumer.consumer_group_metadata(), 30)
        try:
            await asyncio.to_thread(commit, engine.left, group, topic, 2)

            def written() -> bool:
                found = read_all(engine.right, checkpoints, 1)[0]
                return any(Checkpoint.decode(key, value).group == group for key, value, *_ in found)

            await until("its checkpoint is written", written, 30)
        finally:
            await asyncio.to_thread(producer.abort_transaction, 30)
            consumer.close()


async def test_group_offsets_are_synchronized_while_a_mirror_partition_has_no_leader(
    engine: Engine, lab_factory: LabFactory
) -> None:
    three = lab_factory(("THREE",), brokers=3).clusters["THREE"]
    engine.right = three.bootstrap
    topic, group = engine.topics, f"group-{engine.topics}"
    mirror = f"{engine.source}.{topic}"
    engine.extra |= {
        "drlib.journal.replication.factor": "3",
        "checkpoints.topic.replication.factor": "3",
        "heartbeats.topic.replication.factor": "3",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
    }
    await asyncio.to_thread(create_topic, engine.left, topic, 3)
    for number in range(3):
        await asyncio.to_thread(partial(send, engine.left, topic, ["a", "b", "c"], partition=number))
    async with running(engine) as owner, connected(engine.right) as client:
        await owner.mirrored(topic, {0: 3, 1: 3, 2: 3})
        victim = (await client.metadata([mirror])).topics[mirror].partitions[2].leader
        next(broker for broker in three.brokers if broker.spec.node_id == victim).kill()

        admin = AdminClient({"bootstrap.servers": engine.right, "log_level": 0})

        def led() -> set[int]:
            found = admin.list_topics(mirror, timeout=20).topics[mirror].partitions
            return {number for number, partition in found.items() if partition.leader >= 0}

        await until("it has no leader", lambda: 2 not in led(), 60)
        consumer = Consumer({"bootstrap.servers": engine.left, "group.id": group, "log_level": 0})
        positions = [ConfluentPartition(topic, number, 2) for number in range(3)]
        await asyncio.to_thread(partial(consumer.commit, offsets=positions, asynchronous=False))
        consumer.close()

        def there() -> set[int]:
            with Cluster(three.settings()) as cluster:
                return {at.partition for at in cluster.group_offsets(group)}

        others = led()
        assert others
        await until("positions of the others are there", lambda: there() == others, 60)

        def said() -> bool:
            return any("or has no leader" in why for why in owner.reported("GroupNotTranslated"))

        await until("the event says why one is not", said, 20)
