"""What two flows that keep topic names rely on: a log says for good which of its batches a lane wrote.

Experiments on real brokers, at the level of the protocol, each of which could disprove it.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from confluent_kafka import Producer
from fix_engine import Engine, alter, create_topic, produce
from testbed_lane import append, connected, headers, journal_of, running, send, take

from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol.batch import BatchHeader
from drlib.mirror.engine.reverse.rules import Known, Origin, newest_epochs, writers
from drlib.mirror.journal.entries import Run
from drlib.mirror.read_batches import log_ends
from drlib.model import TopicPartition

CLEANED = {
    "cleanup_policy": "compact",
    "segment_bytes": "1048576",
    "segment_ms": "500",
    "min_cleanable_dirty_ratio": "0.01",
    "delete_retention_ms": "500",
}


async def marked(client: ClusterClient, partition: TopicPartition) -> dict[int, bool]:
    """The producers that a partition's leader knows, and whether markers were written for them."""
    leader = (await log_ends(client, [partition])).leaders[partition]
    connection = await client.connection(leader, "attack")
    states = await requests.describe_producers(connection, {partition.topic: [partition.partition]})
    return {state.producer_id: state.transactional for state in states[partition]}


def transaction(bootstrap: str, topic: str, transactional_id: str, values: list[str], *, commit: bool = True) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, key=b"t", value=value.encode(), partition=0)
    producer.flush(30)
    if commit:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)


def data(found: list[BatchHeader]) -> list[BatchHeader]:
    return [header for header in found if not header.is_control]


async def test_producer_and_epoch_of_copies_survive_the_cleaner_beside_clients_and_transactions(
    right: str, fresh_topic: Callable[[str], str]
) -> None:
    topic = fresh_topic("cleaned")
    await asyncio.to_thread(create_topic, right, topic, 1, segment_bytes="1048576")
    partition = TopicPartition(topic, 0)
    async with connected(right) as client:
        lanes = []
        for _ in range(3):  # three claims of one lane, each between writers of the cluster
            lanes.append(ours := await take(client, f"lane-{topic}", {topic: [0]}))
            await append(client, partition, ours, 0, count=5)
            await append(client, partition, ours, 5, count=3)
            await asyncio.to_thread(send, right, topic, ["k", "l", "m"])
            await asyncio.to_thread(transaction, right, topic, f"client-{topic}", ["a", "b"])
            await asyncio.to_thread(transaction, right, topic, f"client-{topic}", ["c"], commit=False)
        known = Known({lanes[0].producer_id: lanes[-1].epoch})
        before = {h.base_offset: h for h in await headers(client, partition)}
        assert len({claim.producer_id for claim in lanes}) == 1
        states = await marked(client, partition)
        copies = {o for o, h in before.items() if not h.is_control and known.is_copy(h)}
        assert len(copies) == 6
        others = {writer for h in before.values() for writer in writers([h]) if not known.is_copy(h)}
        # Of the cluster's own writers only those in transactions have markers: a lane is known from them without its journal.
        assert {transactional == states.get(producer, False) for producer, _, transactional in others} == {True}
        assert states[lanes[0].producer_id]

        for key, value in CLEANED.items():  # not before: the cleaner would be there too early
            await asyncio.to_thread(alter, right, topic, key.replace("_", "."), value)

        async def cleaned() -> bool:
            await asyncio.to_thread(send, right, topic, ["roll"])  # an append is what rolls a segment
            found = [h for h in await headers(client, partition) if h.base_offset in before and not h.is_control]
            return sum(h.count for h in found) < sum(before[h.base_offset].count for h in found)

        for _ in range(240):
            if await cleaned():
                break
            await asyncio.sleep(0.25)
        else:
            raise AssertionError("the cleaner has not been there")
        await asyncio.sleep(0)
        after = await headers(client, partition)
        left = [h for h in after if h.base_offset in before]
        assert left
        for header in left:
            origin = before[header.base_offset]
            assert header.written_by(origin.producer_id, origin.producer_epoch), "the cleaner changed who wrote a batch"
            assert (header.is_control, header.is_transactional) == (origin.is_control, origin.is_transactional)
        emptied = [h for h in left if h.count == 0]
        assert not writers(emptied), "an empty batch holds nothing to judge"


async def test_every_batch_that_the_engine_writes_is_recognised_by_its_journal(engine: Engine) -> None:
    topic = engine.topics
    engine.extra["drlib.lanes"] = "1"
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 3000, partitions=1, batch=2000, codec="lz4")
    first = engine.start(failpoint="after-ack:3")
    assert first.wait(60) == -signal.SIGKILL, engine.log()
    produce(engine.left, topic, 500, partitions=1, first=3000, batch=400)
    transaction(engine.left, topic, f"client-{topic}", ["t"] * 20)
    mirror = TopicPartition(f"{engine.source}.{topic}", 0)
    async with running(engine) as heir, connected(engine.right) as client:
        await heir.mirrored(topic, {0: 3520})
        await asyncio.to_thread(send, engine.right, mirror.topic, ["a client of the target"])
        known = Known(newest_epochs(await journal_of(client, engine)))
        found = await headers(client, mirror)
        origins = [known.judge(w, marked=False, whole=True) for h in data(found) for w in writers([h])]
        assert origins.count(Origin.CLIENT) == 1
        assert origins.count(Origin.COPY) == len(origins) - 1 > 2
        assert not [h for h in data(found) if h.is_transactional], "copies are never part of a transaction"
        epochs = {h.producer_epoch for h in data(found) if known.is_copy(h)}
        assert len(epochs) == 2, "two claims wrote"


async def test_claim_is_in_the_journal_before_its_first_batch_is_in_a_mirror(engine: Engine) -> None:
    topic = engine.topics
    engine.extra["drlib.lanes"] = "1"
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 300, partitions=1)
    mirror = TopicPartition(f"{engine.source}.{topic}", 0)
    worker = engine.start(failpoint="after-claim")
    assert worker.wait(60) == -signal.SIGKILL, engine.log()
    async with connected(engine.right) as client:
        assert not data(await headers(client, mirror))
    worker = engine.start(failpoint="after-journal-write")
    assert worker.wait(60) == -signal.SIGKILL, engine.log()
    async with connected(engine.right) as client:
        entries = await journal_of(client, engine)
        assert [e for e in entries if isinstance(e, Run)]
        assert not data(await headers(client, mirror))
        known = Known(newest_epochs(entries))
        written = {h.producer_id for h in await headers(client, mirror) if h.is_control}
        assert written == set(known.newest), "only the marker of the claim is there, and it is attributable"
