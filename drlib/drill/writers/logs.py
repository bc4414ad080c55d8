"""Logs of one cluster within a time, what was written to parts of them by producer ID, and which producer IDs claims have.

Rules: a log's window is from the first record of a time to the last stable offset, so that no open transaction is waited for.
At most `MOST_OFFSETS` offsets and `MOST_PARTS` parts are read in all, the partitions with the least to read first; what is left
is counted in offsets, so that a number is never taken for a whole one. Aborted transactions and markers do not count.
Not for: which parts are to be read (`both_sides`, `standby`), who is a client (`rules`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from drlib.drill.writers.rules import MOST_PARTS, Count, Counted
from drlib.errors import DrlibError
from drlib.kafka.net.cluster_client import ClusterClient, ClusterMetadata
from drlib.kafka.protocol.batch import NO_PRODUCER
from drlib.kafka.protocol.error_codes import OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION, BrokerError, raise_for
from drlib.mirror.engine.reverse.rules import newest_epochs
from drlib.mirror.offsets.map.journal_log import read_journal
from drlib.mirror.offsets.map.load_maps import JournalMissing, Maps, read_maps
from drlib.mirror.read_batches import concurrently, locate, offsets_from_time, read_range, stable_ends
from drlib.model import TopicPartition

MOST_OFFSETS: Final = 50_000
OWN_S: Final = 3.0

Parts = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Side:
    """A cluster that answers, and its metadata."""

    alias: str
    client: ClusterClient
    metadata: ClusterMetadata


@dataclass(frozen=True, slots=True)
class Windows:
    """Of each partition the offsets from a time on, as (first, end); and partitions without a leader that answers."""

    of: Mapping[TopicPartition, tuple[int, int]]
    missing: tuple[TopicPartition, ...]


async def windows(side: Side, topics: Iterable[str], since_ms: int) -> Windows:
    """Raises `BrokerError` or `Unreachable`."""
    leaders: dict[TopicPartition, int] = {}
    missing = []
    for topic in topics:
        for number, described in side.metadata.topics[topic].partitions.items():
            partition = TopicPartition(topic, number)
            if described.leader in side.client.brokers:
                leaders[partition] = described.leader
            else:
                missing.append(partition)
    ends = await stable_ends(side.client, leaders)
    firsts = await offsets_from_time(side.client, leaders, since_ms)
    found = {p: (min(firsts[p], end) if firsts[p] >= 0 else end, end) for p, end in ends.items()}
    return Windows(found, tuple(sorted(missing)))


def limited(parts: Mapping[TopicPartition, Parts]) -> tuple[dict[TopicPartition, Parts], dict[TopicPartition, int]]:
    """What is read of `parts`, and how many offsets of a partition are left out. Pure."""
    offsets, requests = MOST_OFFSETS, MOST_PARTS
    chosen: dict[TopicPartition, Parts] = {}
    left: dict[TopicPartition, int] = {}
    for partition, wanted in sorted(parts.items(), key=lambda each: (_size(each[1]), each[0])):
        kept: list[tuple[int, int]] = []
        for first, end in wanted:
            if requests and offsets:
                until = min(end, first + offsets)
                kept.append((first, until))
                offsets, requests = offsets - (until - first), requests - 1
        chosen[partition] = kept
        left[partition] = _size(wanted) - _size(kept)
    return chosen, left


def _size(parts: Parts) -> int:
    return sum(end - first for first, end in parts)


async def count_by_producer(
    client: ClusterClient, parts: Mapping[TopicPartition, Parts]
) -> dict[TopicPartition, Counted]:
    """How many committed records there are in `parts`, by producer ID. Raises `BrokerError` or `Unreachable`."""
    chosen, left = limited(parts)

    async def one(item: tuple[TopicPartition, Parts]) -> tuple[TopicPartition, Counted]:
        partition, wanted = item
        found: dict[int, Count] = {}
        if wanted:
            topic_id, leader = await locate(client, partition)
            connection = await client.connection(leader, "read")
        for first, end in wanted:
            try:
                async for header, _ in read_range(connection, topic_id, partition, first, end, committed=True):
                    inside = min(header.next_offset, end) - max(header.base_offset, first)
                    producer = header.producer_id if header.magic >= 2 else NO_PRODUCER
                    count = Count(min(header.count, inside), header.max_timestamp)
                    found[producer] = found.get(producer, Count()) + count
            except BrokerError as error:
                if error.code != OFFSET_OUT_OF_RANGE:  # they expired meanwhile
                    raise
        return partition, Counted(found, left[partition])

    return dict(await concurrently(chosen.items(), one))


async def maps_to(side: Side, journal: str) -> Maps:
    """The maps of the flow to a cluster, from its journal there; empty where there is none. Raises as `read_maps`."""
    try:
        return await read_maps(side.client, journal)
    except JournalMissing:
        return Maps()


async def claimed_producers(side: Side, journal: str) -> set[int]:
    """The producer IDs of all claims in a journal as it is now; none where there is no such topic.

    Raises `BrokerError`, `Unreachable`, `JournalCorrupt`.
    """
    topic = (await side.client.metadata([journal])).topics[journal]
    if topic.error_code == UNKNOWN_TOPIC_OR_PARTITION:
        return set()
    raise_for(topic.error_code, f"reading the journal {journal}", topics=[journal])
    found: set[int] = set()
    for number in sorted(topic.partitions):
        found |= newest_epochs(await read_journal(side.client, TopicPartition(journal, number))).keys()
    return found


async def own_producers(side: Side, journals: Iterable[str]) -> set[int]:
    """The same of several journals, for telling our own producers from clients where their transactional IDs may not be
    described; none of a journal that cannot be read within `OWN_S`."""
    found: set[int] = set()
    for journal in journals:
        with contextlib.suppress(DrlibError, TimeoutError):
            async with asyncio.timeout(OWN_S):
                found |= await claimed_producers(side, journal)
    return found
