"""What a lane asks the clusters about its topics: whether they were re-created, whether they hold data, where they start.

Rules: requests only; `lane` decides what follows. A mirror topic is identified by the topic ID in the journal.
Not for: whether one that was re-created may be filled again (`remirror`).
"""

from __future__ import annotations

import asyncio
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from drlib.clock import now_ms
from drlib.errors import DrlibError, Unreachable
from drlib.kafka.net import requests
from drlib.kafka.net.api_versions import UnsupportedRequest
from drlib.kafka.net.cluster_client import ClusterClient, TopicMetadata, WrongCluster
from drlib.kafka.protocol.error_codes import (
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
    BrokerError,
    raise_for,
)
from drlib.kafka.topic_ids import is_made
from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.engine.fetch.round_trip_time import wait_for_response
from drlib.mirror.engine.identity.rules import identify
from drlib.mirror.errors import MirrorMissing, MirrorTopicRecreated, MirrorUnavailable, SourceRewound
from drlib.mirror.journal.entries import (
    Entry,
    Expired,
    Incarnation,
    SourcePartition,
    SourceTruncated,
    Thinned,
    TopicNames,
)
from drlib.mirror.offsets.map.load_maps import recreated_topics
from drlib.mirror.read_batches import concurrently, filled_partitions, holds_data, log_starts
from drlib.model import TopicPartition

STRETCHES_PER_PART, MOST_PARTS = 100, 10_000  # of what is thinned out: 150 KB in the journal
TOPICS_POLL_S: Final = 2.0  # between two comparisons of the mirror topics' IDs by a lane
_NO_START: Final = 2**63 - 1
_MANY: Final = 2**31 - 1  # more partitions than a topic has


@dataclass(frozen=True)
class LaneTopic:
    """A source topic and its mirror, as far as this lane copies it."""

    source: str
    topic_id: uuid.UUID
    target: str
    partitions: tuple[int, ...]
    remirror: bool = False  # by the file, a mirror topic that was deleted is filled again from the source's start
    real_id: uuid.UUID | None = None  # the ID that the source gives it, while it is journaled under one that was made
    unproven: bool = False  # its logs have to show that it is the topic that was journaled
    shared: bool = False  # the reverse flow copies it too, under the same name
    hop: int = 0  # of a ring: how many flows have copied the records before that this lane copies
    count: int = field(default=_MANY, compare=False)  # partitions of the source topic, of all lanes


def identified(
    topics: Sequence[LaneTopic], names: Iterable[TopicNames], cluster_id: str, void: Mapping[str, uuid.UUID]
) -> tuple[LaneTopic, ...]:
    """The topics with the IDs under which they are journaled. `names`: the journal's, oldest first; `void`: by name, the ID of
    a topic that is known to be gone."""
    newest: dict[str, uuid.UUID] = {}
    used: dict[str, set[uuid.UUID]] = defaultdict(set)
    for each in names:
        newest[each.source_topic] = each.topic_id
        used[each.source_topic].add(each.topic_id)
    found = []
    for topic in topics:
        name = topic.source
        it = identify(cluster_id, name, topic.topic_id, newest.get(name), void=void.get(name), used=used[name])
        found.append(replace(topic, topic_id=it.topic_id, real_id=it.real, unproven=it.unproven))
    return tuple(found)


def only_adds(before: Sequence[LaneTopic], now: Sequence[LaneTopic]) -> bool:
    """Does `now` have everything that `before` has, as it was, and perhaps more partitions?"""
    found = {topic.source: topic for topic in now}
    return all(
        (kept := found.get(topic.source)) is not None
        and replace(kept, partitions=topic.partitions) == topic
        and set(kept.partitions) >= set(topic.partitions)
        for topic in before
    )


async def recreated_mirrors(
    target: ClusterClient, names: Iterable[TopicNames], topics: Sequence[LaneTopic]
) -> dict[str, MirrorTopicRecreated]:
    """By name: mirror topics that were deleted or re-created since `names` were journaled."""
    journaled = journaled_mirrors(names, topics)
    recreated = await recreated_topics(target, journaled)
    return {n.target_topic: recreated[n.topic_id] for n in journaled if n.topic_id in recreated}


async def gone_topics(
    source: ClusterClient, target: ClusterClient, names: Iterable[TopicNames], topics: Sequence[LaneTopic]
) -> set[uuid.UUID]:
    """IDs of journaled source topics that do not exist any more, nor does their mirror: deleted, or re-created since.

    A topic that may not be described may exist.
    """
    mirrored, named = {topic.topic_id for topic in topics}, {topic.source for topic in topics}
    others = [each for each in names if each.topic_id not in mirrored]
    if not others:
        return set()
    here, there = await asyncio.gather(
        source.metadata(sorted({each.source_topic for each in others})),
        target.metadata(sorted({each.target_topic for each in others})),
    )
    return {
        each.topic_id
        for each in others
        if _is_gone(here.topics[each.source_topic], each.topic_id, named=each.source_topic in named)
        and _is_gone(there.topics[each.target_topic], each.target_topic_id)
    }


def _is_gone(topic: TopicMetadata, topic_id: uuid.UUID, *, named: bool = False) -> bool:
    """`named`: the lane copies the topic of this name, under another ID."""
    if topic.error_code:
        return topic.error_code == UNKNOWN_TOPIC_OR_PARTITION
    return named if is_made(topic.topic_id) else topic.topic_id != topic_id


def journaled_mirrors(names: Iterable[TopicNames], topics: Sequence[LaneTopic]) -> list[TopicNames]:
    """The journal's entries for the mirrors of `topics`."""
    known = {n.target_topic: n for n in names}
    return [known[t.target] for t in topics if t.target in known]


async def unavailable_mirrors(
    target: ClusterClient, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, MirrorUnavailable]:
    """Partitions of the target that accept no write: missing, without a leader that answers, or with too few replicas in sync.

    A marker for one of them would not be written, and the claim over all partitions of the lane would wait for it. Left out:
    partitions that may not be described.
    Source: Kafka's `Partition.appendRecordsToLeader` and `UnifiedLog.minInSyncReplicas`.
    """
    metadata = await target.metadata(sorted({p.topic for p in partitions}))
    found = {
        p: state for p in partitions if (state := metadata.topics[p.topic].partitions.get(p.partition)) is not None
    }
    # A broker that died stays listed, as leader and in sync, until the controller misses it.
    listed = {node for state in found.values() for node in (state.leader, *state.isr) if node >= 0}
    silent, too_old = await _unusable_brokers(target, listed)
    in_sync = {p: [node for node in state.isr if node not in silent] for p, state in found.items()}
    shrunken = {p.topic for p, state in found.items() if len(in_sync[p]) < len(state.replicas)}
    needed = await _topic_numbers(target, shrunken, "min.insync.replicas")
    bad: dict[TopicPartition, MirrorUnavailable] = {
        p: MirrorMissing(str(p)) for p in partitions if p not in found and _is_missing(metadata.topics[p.topic])
    }
    for partition, state in found.items():
        least = min(needed.get(partition.topic, 1), len(state.replicas))
        if state.leader < 0:
            bad[partition] = MirrorUnavailable(str(partition), "it has no leader")
        elif state.leader in silent:
            bad[partition] = MirrorUnavailable(str(partition), f"its leader, broker {state.leader}, does not answer")
        elif state.leader in too_old:
            bad[partition] = MirrorUnavailable(str(partition), f"its leader, {too_old[state.leader]}")
        elif len(in_sync[partition]) < least:
            why = f"{len(in_sync[partition])} of its replicas are in sync, and min.insync.replicas is {least}"
            bad[partition] = MirrorUnavailable(str(partition), why)
    return bad


def _is_missing(topic: TopicMetadata) -> bool:
    """Does a partition that `topic` does not list not exist, as far as the broker asked knows?"""
    return topic.error_code in (0, UNKNOWN_TOPIC_OR_PARTITION)


async def _unusable_brokers(target: ClusterClient, nodes: Collection[int]) -> tuple[set[int], dict[int, str]]:
    """Those of `nodes` (broker IDs) that do not answer within the client's time-out; those that are too old, and why."""
    silent: set[int] = set()
    too_old: dict[int, str] = {}

    async def look_at(node: int) -> None:
        try:
            await wait_for_response(target, node)
        except UnsupportedRequest as error:
            too_old[node] = error.what
        except (DrlibError, TimeoutError, OSError):
            silent.add(node)

    await concurrently(nodes, look_at)
    return silent, too_old


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

    async def check(partition: TopicPartition) -> None:
        if partition.topic in with_data or partition.topic in unauthorized:
            return
        try:
            if await holds_data(target, partition):
                with_data.add(partition.topic)
        except BrokerError as error:
            if error.code == UNKNOWN_TOPIC_OR_PARTITION:
                return  # just created and not known to every broker yet: it is empty
            if error.code != TOPIC_AUTHORIZATION_FAILED:
                raise
            unauthorized[partition.topic] = error

    await concurrently([p for p in partitions if p in candidates], check)
    return with_data - unauthorized.keys(), unauthorized


def rewound(entries: Iterable[Entry], topics: Sequence[LaneTopic]) -> dict[SourcePartition, SourceRewound]:
    """Partitions whose source log was truncated, by the journal, however far the log has grown since."""
    names = {t.topic_id: t.source for t in topics}
    return {
        e.partition: SourceRewound(f"{names[e.partition.topic_id]}-{e.partition.partition}", e.first, e.next_offset)
        for e in entries
        if isinstance(e, SourceTruncated) and e.partition.topic_id in names
    }


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
    return await _topic_numbers(target, topics, "max.message.bytes")


async def _topic_numbers(target: ClusterClient, topics: Collection[str], name: str) -> dict[str, int]:
    """The value of one setting for each topic that may be described."""
    if not topics:
        return {}
    unreachable: Unreachable | UnsupportedRequest | WrongCluster | None = None
    for node in sorted(target.brokers):  # any broker answers; the first may be down or too old
        try:
            connection = await target.connection(node, "control")
            configs = await requests.topic_config(connection, sorted(topics), name)
        except (Unreachable, UnsupportedRequest, WrongCluster) as error:
            unreachable = error
        else:
            return {topic: int(value) for topic, value in configs.items()}
    raise unreachable or Unreachable(
        "no broker of the target is known", "its metadata names none", "Start its brokers."
    )


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


async def find_expired(
    target: ClusterClient,
    streams: Iterable[PartitionStream],
    source_starts: Mapping[TopicPartition, int],
    at_least: int,
) -> list[Expired]:
    """What lies below both log starts of partitions whose source log starts are known. Raises `BrokerError`, `Unreachable`.

    The mirrors' log starts are requested only where the source's leaves something to drop. A partition waits until `at_least`
    stretches, and an eighth of what it has, can be dropped. Of a compacted topic the log start does not move: nothing of it
    is dropped. Source: Kafka's `UnifiedLog.deleteOldSegments`, DeleteRecords (KIP-107).
    """
    due: dict[TopicPartition, PartitionStream] = {}
    for stream in streams:
        start = source_starts.get(stream.source, 0)
        if start > 0 and _expired(stream, start, _NO_START, at_least) is not None:
            due[stream.target] = stream
    if not due:
        return []
    starts = await log_starts(target, due)
    found = (_expired(s, source_starts[s.source], starts[mirror], at_least) for mirror, s in due.items())
    return [expired for expired in found if expired is not None]


def find_thinned(streams: Collection[PartitionStream], most: int) -> list[Thinned]:
    """What to thin out where the maps of `streams` have more than `most` stretches in all: half of those that have the most.

    For topics whose old records stay: of a compacted one the log start never moves, and each transaction begins a stretch.
    Positions in the newer half stay exact. A partition with fewer stretches than its share is left as it is.
    """
    count = sum(len(stream.map.segments()) for stream in streams)
    found: list[Thinned] = []
    if count <= most:
        return found
    for stream in sorted(streams, key=lambda stream: len(stream.map.segments()), reverse=True):
        own = len(stream.map.segments())
        if own <= most // len(streams) or count <= most * 3 // 4:
            break
        thinned = stream.map.thinned(stream.key, own // 2, max(1, min(MOST_PARTS, own // STRETCHES_PER_PART)))
        if thinned is not None:
            found.append(thinned)
            count -= own - own // 2
    return found


def _expired(stream: PartitionStream, source_start: int, target_start: int, at_least: int) -> Expired | None:
    least = max(at_least, len(stream.map.segments()) // 8)
    return stream.map.expired(stream.key, source_start, target_start, least)
