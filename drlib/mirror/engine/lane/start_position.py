"""Finds where the partitions of a topic without a position begin, by the flow's `StartRule`.

Rules: the source's end is its last stable offset, so that no transaction is mirrored from its middle. What cannot be
determined makes the topic wait with the reason: the log start would be a guess, and older records could not be removed. All its
partitions wait together, because one that joins a topic which is mirrored already begins at its log start.
Not for: topics that begin at the log start, which needs no look-up; what is journaled (`start_claim`).
"""

from __future__ import annotations

from collections.abc import Sequence

from drlib import clock
from drlib.config.start_rule import Start, StartRule
from drlib.errors import DrlibError
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.mirror.engine.lane.topics import LaneTopic
from drlib.mirror.errors import NoStartPosition, StartUnknown
from drlib.mirror.journal.entries import SourcePartition
from drlib.mirror.read_batches import offsets_from_time, stable_ends
from drlib.model import TopicPartition

Begin = int | DrlibError  # a source offset, or why there is none


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
