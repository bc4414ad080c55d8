"""Read the clusters' logs: whole partitions, their ends, and the engine's journal and maps.

Rules: logs are read over the brokers' own listener, never through a link with faults, read_committed, and by a consumer
that knows nothing of the engine.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from drlib.kafka.net.cluster_client import ClusterClient
from drlib.mirror.journal.entries import Entry
from drlib.mirror.offsets.map.journal_log import read_journal
from drlib.mirror.offsets.map.load_maps import Maps, read_maps
from drlib.model import TopicPartition as Partition
from soak.judge import Log
from soak.traffic import digest, number_of


def admin(servers: str) -> AdminClient:
    """A handle without memory of leaders that were; hold on to it until its answers are there."""
    return AdminClient({"bootstrap.servers": servers, "log_level": 0})


def bounds(servers: str, topic: str, partitions: int) -> dict[int, tuple[int, int]]:
    """Log start and high watermark of each partition. Raises `KafkaException`."""
    tries = 5
    while True:
        client = admin(servers)
        found: list[dict[int, int]] = []
        try:
            for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):
                wanted = {TopicPartition(topic, n): spec for n in range(partitions)}
                asked = client.list_offsets(wanted, request_timeout=10)
                found.append({p.partition: future.result(15).offset for p, future in asked.items()})
            return {n: (found[0][n], found[1][n]) for n in range(partitions)}
        except (KafkaException, TimeoutError):  # a leader that has just moved
            tries -= 1
            if not tries:
                raise
            time.sleep(0.2)


def scan(servers: str, topic: str, partitions: int, *, last: int | None = None) -> dict[int, Log]:
    """Our records of every partition, committed ones only; of the `last` offsets alone where that is given."""
    there = bounds(servers, topic, partitions)
    starts = {n: first if last is None else max(first, end - last) for n, (first, end) in there.items()}
    found = {n: Log() for n in range(partitions)}
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"soak-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
            "log_level": 0,
        }
    )
    try:
        wanted = [n for n in there if starts[n] < there[n][1]]
        consumer.assign([TopicPartition(topic, n, starts[n]) for n in wanted])
        deadline = time.monotonic() + 300
        while any(at.offset < there[at.partition][1] for at in _positions(consumer, topic, wanted)):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} could not be read to {there}")
            for message in consumer.consume(5000, timeout=0.2):
                if message.error() is None and (number := number_of(message)) >= 0:
                    found[message.partition() or 0].add(message.offset() or 0, number, digest(message))
    finally:
        consumer.close()
    return found


def _positions(consumer: Consumer, topic: str, wanted: list[int]) -> list[TopicPartition]:
    return consumer.position([TopicPartition(topic, n) for n in wanted]) if wanted else []


def last_numbers(servers: str, topic: str, partitions: int) -> dict[int, int]:
    """The number of our last record in each partition, -1 where there is none near the end."""
    try:
        found = scan(servers, topic, partitions, last=400)
    except (KafkaException, TimeoutError):
        return dict.fromkeys(range(partitions), -1)
    return {n: log.numbers[-1] if len(log) else -1 for n, log in found.items()}


@dataclass(frozen=True)
class Journaled:
    """What the engine wrote in its journal."""

    entries: tuple[Entry, ...]
    maps: Maps


async def journaled(servers: str, journal: str, lanes: int) -> Journaled:
    client = ClusterClient(servers.split(","))
    await client.connect()
    try:
        entries: list[Entry] = []
        for lane in range(lanes):
            entries += await read_journal(client, Partition(journal, lane))
        return Journaled(tuple(entries), await read_maps(client, journal))
    finally:
        await client.close()
