"""What a lane asks the clusters about its topics: whether they were re-created, whether they hold data, where they start.

Rules: requests only; `lane` decides what follows. A mirror topic is identified by the topic ID in the journal; one that was
re-created may be filled again only while it holds nothing but markers.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from drlib.clock import now_ms
from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient, TopicMetadata
from drlib.kafka.protocol.error_codes import (
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
    BrokerError,
    raise_for,
)
from drlib.mirror.errors import MirrorTopicRecreated, SourceRewound
from drlib.mirror.journal.entries import Entry, Incarnation, Remirrored, SourcePartition, SourceTruncated, TopicNames
from drlib.mirror.offsets.map.load_maps import recreated_topics
from drlib.mirror.read_batches import filled_partitions, holds_data, log_ends, log_starts
from drlib.model import TopicPartition


@dataclass(frozen=True)
class LaneTopic:
    """A source topic and its mirror, as far as this lane copies it."""

    source: str
    topic_id: uuid.UUID
    target: str
    partitions: tuple[int, ...]
    remirror: bool = False  # `drlib.remirror.topics`: a re-created mirror topic is filled from the source's start


async def recreated_mirrors(
    target: ClusterClient, names: Iterable[TopicNames], topics: Sequence[LaneTopic]
) -> dict[str, MirrorTopicRecreated]:
    """By name: mirror topics that were deleted or re-created since `names` were journaled."""
    journaled = journaled_mirrors(names, topics)
    recreated = await recreated_topics(target, journaled)
    return {n.target_topic: recreated[n.topic_id] for n in journaled if n.topic_id in recreated}


def journaled_mirrors(names: Iterable[TopicNames], topics: Sequence[LaneTopic]) -> list[TopicNames]:
    """The journal's entries for the mirrors of `topics`."""
    known = {n.target_topic: n for n in names}
    return [known[t.target] for t in topics if t.target in known]


async def mirrors_with_data(
    target: ClusterClient, topics: Sequence[LaneTopic]
) -> tuple[set[str], dict[str, BrokerError]]:
    """Mirror topics that hold records, and those we may not read with the target's error."""
    partitions = [TopicPartition(t.target, number) for t in topics for number in t.partitions]
    try:
        candidates = await filled_partitions(target, partitions)
    except BrokerError as error:
        if error.code not in (TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION):
            raise
        candidates = set(partitions)  # one topic is the cause: check them one by one
    with_data: set[str] = set()
    unauthorized: dict[str, BrokerError] = {}
    for partition in partitions:
        if partition not in candidates or partition.topic in unauthorized:
            continue
        try:
            if await holds_data(target, partition):
                with_data.add(partition.topic)
        except BrokerError as error:
            if error.code == UNKNOWN_TOPIC_OR_PARTITION:
                continue  # just created and not known to every broker yet: it is empty
            if error.code != TOPIC_AUTHORIZATION_FAILED:
                raise
            unauthorized[partition.topic] = error
    return with_data, unauthorized


def rewound(entries: Iterable[Entry], topics: Sequence[LaneTopic]) -> dict[SourcePartition, SourceRewound]:
    """Partitions whose source log was truncated, by the journal, however far the log has grown since."""
    names = {t.topic_id: t.source for t in topics}
    return {
        e.partition: SourceRewound(f"{names[e.partition.topic_id]}-{e.partition.partition}", e.first, e.next_offset)
        for e in entries
        if isinstance(e, SourceTruncated) and e.partition.topic_id in names
    }


async def empty_recreated_mirrors(
    target: ClusterClient, topics: Sequence[LaneTopic], recreated: Mapping[str, MirrorTopicRecreated]
) -> list[Remirrored]:
    """Those of `recreated` that exist again, may be filled again, and hold nothing but markers."""
    empty = []
    for topic in topics:
        why = recreated.get(topic.target)
        if why is None or why.now is None or not topic.remirror:
            continue
        partitions = [TopicPartition(topic.target, number) for number in topic.partitions]
        if (await log_ends(target, partitions)).ids[topic.target] != why.now:
            continue  # re-created once more since: left to the next claim
        if not any([await holds_data(target, p) for p in partitions]):
            empty.append(Remirrored(topic.target, why.now, now_ms()))
    return empty


def incarnations(entries: Sequence[Entry], topics: Sequence[LaneTopic]) -> list[Incarnation]:
    """Topics that were re-created on the source: their ID is not the journaled one."""
    known = {e.source_topic: e.topic_id for e in entries if isinstance(e, TopicNames)}
    now = now_ms()
    recreated: list[Incarnation] = []
    for topic in topics:
        before = known.get(topic.source)
        if before is not None and before != topic.topic_id:
            recreated.append(Incarnation(topic.source, before, topic.topic_id, now))
    return recreated


async def size_limits(target: ClusterClient, topics: Collection[str]) -> dict[str, int]:
    """`max.message.bytes` of each mirror topic that may be described."""
    if not topics:
        return {}
    connection = await target.connection(min(target.brokers), "control")
    configs = await requests.topic_config(connection, sorted(topics), "max.message.bytes")
    return {topic: int(value) for topic, value in configs.items()}


def _has_leader(topic: TopicMetadata, number: int) -> bool:
    partition = topic.partitions.get(number)
    return partition is not None and partition.leader >= 0


async def source_starts(source: ClusterClient, topics: Sequence[LaneTopic]) -> dict[TopicPartition, int]:
    """Log starts of the source's partitions; left out: those without a leader, and topics deleted or not visible to us.

    The fetcher finds out where those start.
    """
    metadata = await source.metadata([topic.source for topic in topics])
    wanted: list[TopicPartition] = []
    for topic in topics:
        described = metadata.topics[topic.source]
        if described.error_code in (UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED):
            continue  # deleted or not visible: its map stays as it is, and the fetcher reports it
        raise_for(described.error_code, f"looking up {topic.source}")
        wanted += [TopicPartition(topic.source, n) for n in topic.partitions if _has_leader(described, n)]
    return await log_starts(source, wanted)
