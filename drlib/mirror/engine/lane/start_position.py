"""Finds where the partitions of a topic without a position begin, by the flow's `StartRule`.

Rules: the source's end is its last stable offset, so that no transaction is mirrored from its middle. What cannot be
determined makes the topic wait with the reason: the log start would be a guess, and older records could not be removed. All its
partitions wait together, because one that joins a topic which is mirrored already begins at its log start. The partitions of a
topic belong to several lanes: only the journals of all say whether a topic is new or has more partitions (`PartitionsAtStart`).
Not for: topics that begin at the log start, which needs no look-up; what is journaled (`start_claim`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace

from drlib import clock
from drlib.config.start_rule import Start, StartRule
from drlib.errors import DrlibError
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol.error_codes import raise_for
from drlib.mirror.engine.lane.topics import LaneTopic
from drlib.mirror.errors import NoStartPosition, StartUnknown
from drlib.mirror.journal.entries import Entry, PartitionsAtStart, SourcePartition, TopicNames
from drlib.mirror.offsets.map.journal_log import read_journal
from drlib.mirror.read_batches import concurrently, offsets_from_time, stable_ends
from drlib.model import TopicPartition

Begin = int | DrlibError  # a source offset, or why there is none


async def other_lanes(target: ClusterClient, journal: TopicPartition) -> list[Entry]:
    """The entries of all lanes of a journal but one, each lane's oldest first. Raises `Unreachable`, `BrokerError`."""
    found = (await target.metadata([journal.topic])).topics[journal.topic]
    raise_for(found.error_code, f"looking up {journal.topic}", topics=[journal.topic])
    others = [TopicPartition(journal.topic, n) for n in found.partitions if n != journal.partition]
    read = await concurrently(others, lambda each: read_journal(target, each))
    return [entry for lane in read for entry in lane]


def new_topics(topics: Sequence[LaneTopic], others: Iterable[Entry]) -> list[LaneTopic]:
    """Those of `topics`, which a lane sees first, that begin by the start rule, without partitions that were added since.

    `others`: the journals of the other lanes. Where one has the topic by name only, every partition begins at the log start.
    """
    others = list(others)
    known = {entry.source_topic for entry in others if isinstance(entry, TopicNames)}
    counts = counts_at_start(others)
    found = []
    for topic in topics:
        first = counts.get(topic.topic_id, 0)
        numbers = tuple(n for n in topic.partitions if topic.source not in known or n < first)
        found += [replace(topic, partitions=numbers)] if numbers else []
    return found


def counts_at_start(entries: Iterable[Entry], *, shared: bool = False) -> dict[uuid.UUID, int]:
    """By source topic, how many partitions it had when a flow began it; `shared`: only where both directions copied it."""
    counts: dict[uuid.UUID, int] = {}
    for entry in entries:
        if isinstance(entry, PartitionsAtStart) and (entry.shared or not shared):
            counts[entry.topic_id] = min(entry.count, counts.get(entry.topic_id, entry.count))
    return counts


async def start_of_new(
    source: ClusterClient, target: ClusterClient, journal: TopicPartition, rule: StartRule, topics: Sequence[LaneTopic]
) -> dict[SourcePartition, Begin]:
    """`start_positions` of those of `topics`, which a lane sees first, that no other lane has begun before."""
    if not topics or rule.kind is Start.EARLIEST:
        return {}
    try:
        others = await other_lanes(target, journal)
    except (DrlibError, TimeoutError, OSError) as unknown:
        why = f"the journals of the other lanes cannot be read ({unknown})"
        return {
            SourcePartition(t.topic_id, n): StartUnknown(f"{t.source}-{n}", str(rule), why)
            for t in topics
            for n in t.partitions
        }
    return await start_positions(source, rule, new_topics(topics, others))


async def start_positions(
    source: ClusterClient, rule: StartRule, topics: Sequence[LaneTopic]
) -> dict[SourcePartition, Begin]:
    """Where each partition of `topics` begins; nothing for the log start. Raises `Unreachable`, `BrokerError`."""
    keys = {TopicPartition(t.source, n): SourcePartition(t.topic_id, n) for t in topics for n in t.partitions}
    if not keys or rule.kind is Start.EARLIEST:
        return {}
    if rule.kind is Start.NONE:
        return {key: NoStartPosition(partition.topic, str(rule)) for partition, key in keys.items()}
    metadata = await source.metadata([topic.source for topic in topics])
    leaders = {}
    for partition in keys:
        described = metadata.topics[partition.topic].partitions.get(partition.partition)
        if described is not None and described.leader >= 0:
            leaders[partition] = described.leader
    waiting = {partition.topic: partition for partition in keys if partition not in leaders}
    leaders = {partition: node for partition, node in leaders.items() if partition.topic not in waiting}
    ends = await stable_ends(source, leaders)
    timestamp_ms = rule.timestamp_ms(clock.now_ms())
    found = ends
    if timestamp_ms is not None:
        at = await offsets_from_time(source, leaders, timestamp_ms)
        found = {partition: at[partition] if at[partition] >= 0 else ends[partition] for partition in ends}
    return {
        key: found[partition] if partition in found else StartUnknown(str(waiting[partition.topic]), str(rule))
        for partition, key in keys.items()
    }
