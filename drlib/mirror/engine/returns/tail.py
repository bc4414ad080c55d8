"""Reads what was appended to the end of a source partition, for a trial.

Rules: at most `TAIL_BYTES` are read; the first record under suspicion ends the reading. Records count whether they are
committed or not: a record of an open transaction was written, too.
Not for: mirroring; the lane reads these records by itself.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.fetch import TopicId
from drlib.mirror.read_batches import locate, read_range
from drlib.model import TopicPartition

TAIL_BYTES: Final = 4 << 20


class SourceTail:
    """The ends of a source's partitions, read by one lane."""

    def __init__(self, source: ClusterClient, lane: str) -> None:
        self._source = source
        self._purpose = f"returns-{lane}"

    async def end(self, source: TopicPartition) -> int:
        """The log end. Raises `BrokerError`, `Unreachable`."""
        connection, _ = await self._leader(source)
        return (await requests.list_offsets(connection, [source], requests.LATEST))[source]

    async def appended(
        self, source: TopicPartition, begin: int, end: int, wanted: Collection[bytes], *, timed: bool
    ) -> set[bytes]:
        """Those of the `wanted` contents that lie in [begin, end), as far as `TAIL_BYTES` reach.

        `timed`: whether timestamps are part of the content. Raises `BrokerError`, `Unreachable`, `CorruptBatch`.
        """
        connection, topic_id = await self._leader(source)
        found: set[bytes] = set()
        size = 0
        async for header, view in read_range(connection, topic_id, source, begin, end):
            if header.is_control:
                continue
            for record in recode.records(view):
                content = recode.digest(record.key, record.value, record.headers, record.timestamp if timed else None)
                if record.offset >= begin and content in wanted:
                    found.add(content)
            size += len(view)
            if found or size >= TAIL_BYTES:
                break
        return found

    async def _leader(self, source: TopicPartition) -> tuple[Connection, TopicId]:
        topic_id, leader = await locate(self._source, source)
        return await self._source.connection(leader, self._purpose), topic_id
