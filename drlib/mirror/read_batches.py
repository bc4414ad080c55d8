"""Reads a bounded range of one partition as raw batches, committed or not, and looks up leaders and log ends.

Rules: the range is [start, end) in offsets; a batch that only overlaps it is included. A fetch without records before the
end is repeated until the deadline, because an empty or throttled response is not the end of the log.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from drlib.errors import NoLeader, Unreachable
from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient, ClusterMetadata
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.aborted_transactions import AbortedFilter
from drlib.kafka.protocol.batch import BatchHeader, iter_batches
from drlib.kafka.protocol.error_codes import (
    LEADER_NOT_AVAILABLE,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_TOPIC_OR_PARTITION,
    BrokerError,
    raise_for,
)
from drlib.kafka.protocol.fetch import FetchPartition
from drlib.kafka.topic_ids import may_be
from drlib.model import TopicPartition

DEADLINE_S = 30.0
_MOST_MARKERS = 1_000  # of claims, in a log without records
LISTED_POLL_S = 0.1
CHUNK = 4 << 20
AT_ONCE = 128
"""Partitions read at a time: a distant cluster answers hundreds within seconds, and their first parts fit in memory."""
FIRST_CHUNK = 256 << 10

Work = TypeVar("Work")
Answer = TypeVar("Answer")


async def concurrently(items: Iterable[Work], ask: Callable[[Work], Awaitable[Answer]]) -> list[Answer]:
    """`ask` about each item, `AT_ONCE` at a time; the answers in the order of the items. Raises the first error."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(item: Work) -> Answer:
        async with gate:
            return await ask(item)

    tasks = [asyncio.ensure_future(one(item)) for item in items]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def locate(client: ClusterClient, partition: TopicPartition) -> tuple[uuid.UUID, int]:
    """Topic ID and leader of a partition. Raises `BrokerError` when the cluster does not know it or it has no leader."""
    leaders, ids = await _leaders(client, [partition])
    return ids[partition.topic], leaders[partition]


async def until_listed(client: ClusterClient, wanted: Mapping[str, int]) -> set[str]:
    """Wait until topics that were just created (name -> partitions) have all their leaders; returns those that have not.

    A controller answers before all brokers know a new topic; until then they report it as unknown.
    """
    remaining = dict(wanted)
    deadline = time.monotonic() + DEADLINE_S
    while remaining:
        metadata = await client.metadata(sorted(remaining))
        for name, topic in metadata.topics.items():
            led = sum(p.leader >= 0 for p in topic.partitions.values())
            if not topic.error_code and led >= remaining[name]:
                del remaining[name]
        if not remaining or time.monotonic() > deadline:
            break
        await asyncio.sleep(LISTED_POLL_S)
    return set(remaining)


@dataclass(frozen=True, slots=True)
class LogEnds:
    """Of each partition leader (node ID), log end, replicas (ascending node IDs) and leader epoch; the ID of each topic."""

    leaders: dict[TopicPartition, int]
    ends: dict[TopicPartition, int]
    ids: dict[str, uuid.UUID]
    replicas: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    epochs: dict[TopicPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LogBounds:
    """Leader (node ID), log start and log end of each partition, and the ID of each topic; and partitions without a leader."""

    leaders: Mapping[TopicPartition, int]
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    ids: Mapping[str, uuid.UUID]
    leaderless: Mapping[TopicPartition, NoLeader] = field(default_factory=dict)


async def log_bounds(
    client: ClusterClient, partitions: Collection[TopicPartition], ends: Mapping[TopicPartition, int]
) -> LogBounds:
    """Starts and ends of logs, in two round trips however many they are; an end in `ends` is not requested.

    Raises as `log_ends` does.
    """
    if not partitions:
        return LogBounds({}, {}, {}, {})
    leaders, ids = await _leaders(client, partitions)
    unknown = {p: leader for p, leader in leaders.items() if p not in ends}
    newest, starts = await asyncio.gather(
        _offsets(client, unknown, requests.LATEST), _offsets(client, leaders, requests.EARLIEST)
    )
    return LogBounds(leaders, starts, {**newest, **{p: ends[p] for p in partitions if p in ends}}, ids)


async def log_ends(client: ClusterClient, partitions: Iterable[TopicPartition]) -> LogEnds:
    """Log ends of partitions, from their leaders. Raises `BrokerError` for one that does not exist or has no leader."""
    wanted = list(partitions)
    metadata = await client.metadata(sorted({p.topic for p in wanted}))
    leaders, ids = _leaders_in(metadata, wanted)
    replicas = {p: tuple(sorted(metadata.topics[p.topic].partitions[p.partition].replicas)) for p in wanted}
    found = await _offset_epochs(client, leaders, requests.LATEST)
    ends, epochs = {p: at for p, (at, _) in found.items()}, {p: epoch for p, (_, epoch) in found.items()}
    return LogEnds(leaders, ends, ids, replicas, epochs)


async def log_starts(client: ClusterClient, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Log starts of partitions, from their leaders. Raises as `log_ends` does."""
    leaders, _ = await _leaders(client, partitions)
    return await _offsets(client, leaders, requests.EARLIEST)


async def stable_ends(client: ClusterClient, leaders: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """The last stable offsets of partitions, from their `leaders`: no record of an open transaction lies before them."""
    found = await _offset_epochs(client, leaders, requests.LATEST, "read_committed")
    return {p: offset for p, (offset, _) in found.items()}


async def offsets_from_time(
    client: ClusterClient, leaders: Mapping[TopicPartition, int], timestamp_ms: int
) -> dict[TopicPartition, int]:
    """The first offset with a record of that time or later; -1 where there is none."""
    return await _offsets(client, leaders, timestamp_ms)


async def _leaders(
    client: ClusterClient, partitions: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[str, uuid.UUID]]:
    wanted = list(partitions)
    return _leaders_in(await client.metadata(sorted({p.topic for p in wanted})), wanted)


def _leaders_in(
    metadata: ClusterMetadata, wanted: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[str, uuid.UUID]]:
    leaders: dict[TopicPartition, int] = {}
    for partition in wanted:
        topic = metadata.topics[partition.topic]
        raise_for(topic.error_code, f"looking up {partition.topic}", topics=[partition.topic])
        described = topic.partitions.get(partition.partition)
        raise_for(UNKNOWN_TOPIC_OR_PARTITION if described is None else 0, f"looking up {partition}")
        leaders[partition] = -1 if described is None else described.leader
        raise_for(LEADER_NOT_AVAILABLE if leaders[partition] < 0 else 0, f"looking up the leader of {partition}")
    return leaders, {name: topic.topic_id for name, topic in metadata.topics.items()}


async def _offsets(
    client: ClusterClient, leaders: Mapping[TopicPartition, int], timestamp: int
) -> dict[TopicPartition, int]:
    return {p: offset for p, (offset, _) in (await _offset_epochs(client, leaders, timestamp)).items()}


async def _offset_epochs(
    client: ClusterClient,
    leaders: Mapping[TopicPartition, int],
    timestamp: int,
    isolation: requests.Isolation = "read_uncommitted",
) -> dict[TopicPartition, tuple[int, int]]:
    """Offset and leader epoch of each partition."""
    by_node: dict[int, list[TopicPartition]] = defaultdict(list)
    for partition, node in leaders.items():
        by_node[node].append(partition)
    answers = await concurrently(by_node.items(), lambda led: _offsets_of_node(client, *led, timestamp, isolation))
    return {partition: offset for answer in answers for partition, offset in answer.items()}


async def _offsets_of_node(
    client: ClusterClient,
    node: int,
    partitions: Sequence[TopicPartition],
    timestamp: int,
    isolation: requests.Isolation,
) -> dict[TopicPartition, tuple[int, int]]:
    return await requests.list_offset_epochs(await client.connection(node, "read"), partitions, timestamp, isolation)


async def filled_partitions(client: ClusterClient, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
    """The partitions whose log is not empty; a marker counts."""
    if not partitions:
        return set()
    ends = await log_ends(client, partitions)
    starts = await log_starts(client, partitions)
    return {p for p in partitions if ends.ends.get(p, 0) > starts.get(p, 0)}


async def record_at(client: ClusterClient, partition: TopicPartition, topic_id: uuid.UUID, offset: int) -> bytes | None:
    """Digest of the content (key, value, headers) of the record at `offset`; b"" where something else stands there, and
    None where nothing does any more: it was deleted or cleaned, or the topic is another one now."""
    try:
        found_id, leader = await locate(client, partition)
        if not may_be(found_id, topic_id):
            return None
        connection = await client.connection(leader, "read")
        async for header, view in read_range(connection, topic_id, partition, offset, offset + 1):
            if header.is_control:
                return b""
            for record in recode.records(view):
                if record.offset == offset:
                    return recode.digest(record.key, record.value, record.headers, None)
    except BrokerError as error:
        if error.code not in (OFFSET_OUT_OF_RANGE, UNKNOWN_TOPIC_OR_PARTITION):
            raise
    return None


async def holds_data(client: ClusterClient, partition: TopicPartition) -> bool:
    """Does the partition hold a record? Markers do not count."""
    topic_id, leader = await locate(client, partition)
    connection = await client.connection(leader, "read")
    end = (await requests.list_offsets(connection, [partition], requests.LATEST))[partition]

    async def any_record(start: int) -> bool:
        async for header, _ in read_range(connection, topic_id, partition, start, end):
            if not header.is_control and header.count > 0:
                return True
        return False

    return await from_log_start(connection, partition, await _log_start(connection, partition), any_record)


async def never_written(client: ClusterClient, partition: TopicPartition) -> bool:
    """Did the partition never hold a record? Markers are none; a gap may have been one, and so may what has expired."""
    topic_id, leader = await locate(client, partition)
    connection = await client.connection(leader, "read")
    end = (await requests.list_offsets(connection, [partition], requests.LATEST))[partition]
    if end > _MOST_MARKERS or await _log_start(connection, partition):
        return False
    seen = 0
    async for header, _ in read_range(connection, topic_id, partition, 0, end):
        if not header.is_control or header.base_offset > seen:
            return False
        seen = header.next_offset
    return seen >= end


async def from_log_start(
    connection: Connection, partition: TopicPartition, start: int, read: Callable[[int], Awaitable[Answer]]
) -> Answer:
    """`read` from the log start `start` on; again from the new one where records expire before they are read.

    Raises what `read` raises, `BrokerError` of an offset out of range also where the log start did not move.
    """
    while True:
        try:
            return await read(start)
        except BrokerError as error:
            if error.code != OFFSET_OUT_OF_RANGE:
                raise
            before, start = start, await _log_start(connection, partition)
            if start == before:
                raise


async def _log_start(connection: Connection, partition: TopicPartition) -> int:
    return (await requests.list_offsets(connection, [partition], requests.EARLIEST))[partition]


async def read_range(
    connection: Connection,
    topic_id: uuid.UUID,
    partition: TopicPartition,
    start: int,
    end: int,
    *,
    committed: bool = False,
    control: bool = False,
    most_bytes: int = CHUNK,
) -> AsyncIterator[tuple[BatchHeader, memoryview]]:
    """Batches of [start, end); with `committed` without aborted transactions and, but for `control`, control batches.

    `most_bytes`: about what one response may hold. Raises `BrokerError`, or `Unreachable` when the range does not arrive in
    time: with `committed` also where a transaction stays open before the end.
    """
    position = start
    chunk = min(FIRST_CHUNK, most_bytes)  # many short ranges may be read at once; a long one is read in larger parts
    deadline = time.monotonic() + DEADLINE_S
    while position < end:
        wanted = FetchPartition(partition.topic, topic_id, partition.partition, position, chunk)
        (response,) = await requests.fetch(connection, [wanted], min_bytes=1, max_bytes=chunk, read_committed=committed)
        chunk = most_bytes
        raise_for(response.error_code, f"reading {partition} at {position}", topics=[partition.topic])
        filtered = AbortedFilter(response.aborted)
        before = position
        for header, view in iter_batches(response.records):
            kept = (
                not committed or (filtered.keep(header, view) and header.count > 0) or (control and header.is_control)
            )
            if header.last_offset < position:
                continue
            if header.base_offset >= end:
                return
            position = header.next_offset
            if kept:
                yield header, view
        if position > before:
            deadline = time.monotonic() + DEADLINE_S
        elif response.high_watermark <= position or response.log_start_offset > position:
            return
        elif time.monotonic() > deadline:
            cause = "a transaction may be open there, and the log" if committed else "its log"
            raise Unreachable(
                f"{partition} returned no records at offset {position}",
                f"{cause} ends at {response.high_watermark}",
                "Check the broker that leads it, then run the command again.",
            )
