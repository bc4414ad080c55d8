"""What a lane asks of its topics before and while it copies them: are they the ones it knew, where do they start.

Rules: questions only; whatever the answers mean is for the lane to do. A mirror topic is known by its ID, as the journal
has it; one that was made again may be filled anew only while it holds nothing but markers.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient, TopicMetadata
from drlib.kafka.protocol.error_codes import (
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
    BrokerError,
    raise_for,
)
from drlib.mirror.engine.lane.markers import now_ms
from drlib.mirror.errors import MirrorTopicRecreated, SourceRewound
from drlib.mirror.journal.entries import Entry, Incarnation, Remirrored, SourcePartition, SourceTruncated, TopicNames
from drlib.mirror.offsets.map.load_maps import gone_topics
from drlib.mirror.read_batches import filled_partitions, holds_data, log_ends, log_starts
from drlib.model import TopicPartition


@dataclass(frozen=True)
class LaneTopic:
    """A source topic and its mirror, as far as this lane copies it."""

    source: str
    topic_id: uuid.UUID
    target: str
    partitions: tuple[int, ...]
    anew: bool = False  # may be filled from the start of the source when its mirror topic was made again


async def gone_mirrors(
    target: ClusterClient, names: Iterable[TopicNames], topics: Sequence[LaneTopic]
) -> dict[str, MirrorTopicRecreated]:
    """By name: mirror topics that were deleted or made again since `names`, the journal's, were written."""
    ours = known_mirrors(names, topics)
    gone = await gone_topics(target, ours)
    return {n.target_topic: gone[n.topic_id] for n in ours if n.topic_id in gone}


def known_mirrors(names: Iterable[TopicNames], topics: Sequence[LaneTopic]) -> list[TopicNames]:
    """What the journal has of the mirrors of `topics`."""
    known = {n.target_topic: n for n in names}
    return [known[t.target] for t in topics if t.target in known]


async def filled_mirrors(target: ClusterClient, topics: Sequence[LaneTopic]) -> tuple[set[str], dict[str, BrokerError]]:
    """Mirror topics that hold records, and those we may not look into with what the target answered."""
    partitions = [TopicPartition(t.target, number) for t in topics for number in t.partitions]
    try:
        some = await filled_partitions(target, partitions)
    except BrokerError as error:
        if error.code not in (TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION):
            raise
        some = set(partitions)  # one of them: ask one by one
    filled: set[str] = set()
    closed: dict[str, BrokerError] = {}
    for partition in partitions:
        if partition not in some or partition.topic in closed:
            continue
        try:
            if await holds_data(target, partition):
                filled.add(partition.topic)
        except BrokerError as error:
            if error.code == UNKNOWN_TOPIC_OR_PARTITION:
                continue  # made a moment ago, and not known everywhere: there is nothing in it
            if error.code != TOPIC_AUTHORIZATION_FAILED:
                raise
            closed[partition.topic] = error
    return filled, closed


def rewound(entries: Iterable[Entry], topics: Sequence[LaneTopic]) -> dict[SourcePartition, SourceRewound]:
    """Partitions whose source went back: the journal remembers, whatever its log has grown to since."""
    names = {t.topic_id: t.source for t in topics}
    return {
        e.partition: SourceRewound(f"{names[e.partition.topic_id]}-{e.partition.partition}", e.first, e.next_offset)
        for e in entries
        if isinstance(e, SourceTruncated) and e.partition.topic_id in names
    }


async def remade_mirrors(
    target: ClusterClient, topics: Sequence[LaneTopic], gone: Mapping[str, MirrorTopicRecreated]
) -> list[Remirrored]:
    """Those of `gone` that are there again, may be filled anew, and hold nothing yet but markers."""
    remade = []
    for topic in topics:
        why = gone.get(topic.target)
        if why is None or why.now is None or not topic.anew:
            continue
        partitions = [TopicPartition(topic.target, number) for number in topic.partitions]
        if (await log_ends(target, partitions)).ids[topic.target] != why.now:
            continue  # made once more since: the next claim looks at that one
        if not any([await holds_data(target, p) for p in partitions]):
            remade.append(Remirrored(topic.target, why.now, now_ms()))
    return remade


def incarnations(entries: Sequence[Entry], topics: Sequence[LaneTopic]) -> list[Incarnation]:
    """Topics whose ID is not the one the journal knew: made again on the source."""
    known = {e.source_topic: e.topic_id for e in entries if isinstance(e, TopicNames)}
    now = now_ms()
    found: list[Incarnation] = []
    for topic in topics:
        before = known.get(topic.source)
        if before is not None and before != topic.topic_id:
            found.append(Incarnation(topic.source, before, topic.topic_id, now))
    return found


async def size_limits(target: ClusterClient, topics: Collection[str]) -> dict[str, int]:
    """max.message.bytes of each mirror topic that may be described."""
    if not topics:
        return {}
    connection = await target.connection(min(target.brokers), "control")
    found = await requests.topic_config(connection, sorted(topics), "max.message.bytes")
    return {topic: int(value) for topic, value in found.items()}


def _led(topic: TopicMetadata, number: int) -> bool:
    found = topic.partitions.get(number)
    return found is not None and found.leader >= 0


async def source_starts(source: ClusterClient, topics: Sequence[LaneTopic]) -> dict[TopicPartition, int]:
    """Log starts of the source's partitions; none for one without an answer, be it for want of a leader.

    The fetcher asks for that one again, and finds where it starts.
    """
    metadata = await source.metadata([topic.source for topic in topics])
    wanted: list[TopicPartition] = []
    for topic in topics:
        found = metadata.topics[topic.source]
        if found.error_code in (UNKNOWN_TOPIC_OR_PARTITION, TOPIC_AUTHORIZATION_FAILED):
            continue  # deleted, or not ours to see: what was mirrored of it keeps its map, and the fetcher tells
        raise_for(found.error_code, f"looking up {topic.source}")
        wanted += [TopicPartition(topic.source, n) for n in topic.partitions if _led(found, n)]
    return await log_starts(source, wanted)
