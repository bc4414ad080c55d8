"""Read a bounded range of one partition as raw batches, committed or not: recovery and translation look at all of it.

Rules: the range is [start, end) in offsets; a batch that only overlaps it is given too. An answer without records before
the end is asked again until the deadline, because an empty or throttled answer is not the end of the log.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator

from drlib.errors import Unreachable
from drlib.model import TopicPartition
from drlib.wire import requests
from drlib.wire.batch import BatchHeader, iter_batches
from drlib.wire.cluster import ClusterClient
from drlib.wire.codes import raise_for
from drlib.wire.transport import Connection

LEADER_NOT_AVAILABLE = 5
DEADLINE_S = 30.0
CHUNK = 4 << 20


async def locate(client: ClusterClient, partition: TopicPartition) -> tuple[uuid.UUID, int]:
    """Topic ID and leader of a partition. Raises `BrokerError` when the cluster does not know it or it has no leader."""
    metadata = await client.metadata([partition.topic])
    topic = metadata.topics[partition.topic]
    raise_for(topic.error_code, f"looking up {partition.topic}")
    found = topic.partitions[partition.partition]
    raise_for(LEADER_NOT_AVAILABLE if found.leader < 0 else 0, f"looking up the leader of {partition}")
    return topic.topic_id, found.leader


async def read_range(
    connection: Connection, topic_id: uuid.UUID, partition: TopicPartition, start: int, end: int
) -> AsyncIterator[tuple[BatchHeader, memoryview]]:
    """Batches of [start, end). Raises `BrokerError`, or `Unreachable` when the range does not arrive in time."""
    position = start
    deadline = time.monotonic() + DEADLINE_S
    while position < end:
        wanted = requests.FetchPartition(topic_id, partition.partition, position, CHUNK)
        (answer,) = await requests.fetch(
            connection, [wanted], max_wait_ms=200, min_bytes=1, max_bytes=CHUNK, read_committed=False
        )
        raise_for(answer.error_code, f"reading {partition} at {position}")
        before = position
        for header, view in iter_batches(answer.records):
            if header.last_offset < position:
                continue
            if header.base_offset >= end:
                return
            position = header.next_offset
            yield header, view
        if position > before:
            deadline = time.monotonic() + DEADLINE_S
        elif answer.high_watermark <= position or answer.log_start_offset > position:
            return
        elif time.monotonic() > deadline:
            raise Unreachable(
                f"{partition} gave nothing at offset {position}",
                f"its log ends at {answer.high_watermark}",
                "Look at the broker that leads it, then run the command again.",
            )
