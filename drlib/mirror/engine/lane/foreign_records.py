"""Who stands where a record of ours was expected: our own control batches, or somebody else.

Rules: read below the high watermark, by topic ID, so that a topic made again is never taken for the one that was meant.
A former claim of this lane that wrote after its fence counts as somebody else: nothing promised those records a place.
"""

from __future__ import annotations

import uuid

from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol.error_codes import INCONSISTENT_TOPIC_ID, raise_for
from drlib.mirror.offsets.map.count_records import ForeignRange
from drlib.mirror.read_batches import locate, read_range
from drlib.model import TopicPartition


async def foreign_ranges(
    target: ClusterClient, partition: TopicPartition, topic_id: uuid.UUID | None, start: int, end: int
) -> list[ForeignRange]:
    """Target offsets in [`start`, `end`) that hold data; control batches are left out.

    Raises `BrokerError` (103) when the topic is another one now, `Unreachable` when the range cannot be read.
    """
    found_id, leader = await locate(target, partition)
    raise_for(0 if found_id == topic_id else INCONSISTENT_TOPIC_ID, f"reading {partition}")
    connection = await target.connection(leader, "read")
    found: list[ForeignRange] = []
    async for header, _ in read_range(connection, found_id, partition, start, end):
        if header.is_control:
            continue
        first = max(header.base_offset, start)
        count = min(header.next_offset, end) - first
        if found and found[-1].target_offset + found[-1].count == first:
            found[-1] = ForeignRange(found[-1].target_offset, found[-1].count + count)
        else:
            found.append(ForeignRange(first, count))
    return found
