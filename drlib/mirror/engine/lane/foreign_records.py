"""Finds records of other producers where our next record was expected, as opposed to control batches.

Rules: reads below the high watermark, by topic ID, so that a re-created topic is never mistaken for the original. Records
that a former claim of this lane appended after its fence count as foreign: no promise covers them.
"""

from __future__ import annotations

import uuid

from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol.error_codes import INCONSISTENT_TOPIC_ID, raise_for
from drlib.mirror.journal.entries import ClaimId
from drlib.mirror.offsets.map.count_records import ForeignRange, RecoveryContradiction
from drlib.mirror.read_batches import CHUNK, locate, read_range
from drlib.model import TopicPartition


async def foreign_ranges(
    target: ClusterClient,
    partition: TopicPartition,
    topic_id: uuid.UUID | None,
    claim: ClaimId | None,
    start: int,
    end: int,
) -> list[ForeignRange]:
    """Target offsets in [`start`, `end`) that hold data; control batches are left out.

    `claim`: whose batch precedes `start`; None where that may be anyone's. Raises `RecoveryContradiction` when it is not of
    that claim: the log lost it, and others wrote in its place. Raises `BrokerError` (103) when the topic was re-created,
    `Unreachable` when the range cannot be read.
    """
    current_id, leader = await locate(target, partition)
    raise_for(0 if current_id == topic_id else INCONSISTENT_TOPIC_ID, f"reading {partition}")
    connection = await target.connection(leader, "read")
    ranges: list[ForeignRange] = []
    begin, most = (start if claim is None else start - 1), (CHUNK if start < end else 1)  # a batch at least
    async for header, _ in read_range(connection, current_id, partition, begin, end, most_bytes=most):
        if claim is not None and header.base_offset < start and not header.written_by(claim.producer_id, claim.epoch):
            raise RecoveryContradiction(f"{partition} holds records of others below offset {start}, where ours were")
        if header.is_control or header.next_offset <= start:
            continue
        first = max(header.base_offset, start)
        count = min(header.next_offset, end) - first
        if ranges and ranges[-1].target_offset + ranges[-1].count == first:
            ranges[-1] = ForeignRange(ranges[-1].target_offset, ranges[-1].count + count)
        else:
            ranges.append(ForeignRange(first, count))
    return ranges
