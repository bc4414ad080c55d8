"""How many records of a partition MirrorMaker 2 has not copied, at least and at most, by reading the end of the source's log.

Rules:
- Offsets are not records: markers of transactions, aborted transactions and what the cleaner removed have offsets, and are
  never missing on the mirror. A record counts where a read_committed reader finds it, whatever MirrorMaker 2 is set to: what
  was not committed cannot be lost.
- Behind the newest offset sync no more records were copied than the mirror has offsets there. So at least the others are
  missing; without an offset sync nothing is known to be.
- At most all records are missing behind the last one that was surely copied. An open transaction, and what was not read, count
  there by their offsets, and not at all in what is missing at least.
- Of each partition `MOST_BYTES` are read, all within `TAILS_S`. What could not be read is named, and open in both bounds.
- Where a position lies behind what was copied, `next_record` says whether that skips a record.
Not for: which records are missing (`compared_maps`).
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final

from drlib.errors import DrlibError
from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient, ClusterMetadata
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.aborted_transactions import AbortedFilter
from drlib.kafka.protocol.batch import BatchHeader, iter_batches
from drlib.kafka.protocol.error_codes import raise_for
from drlib.kafka.protocol.fetch import FetchPartition
from drlib.mirror.offsets.mirror_maker.sync_pairs import SyncedPartition
from drlib.mirror.read_batches import concurrently, locate
from drlib.model import TopicPartition

MOST_BYTES: Final = (
    1 << 20
)  # an offset sync is a hundred records from the next: more is read only where it is far behind
TAILS_S: Final = 3.0
MOST_SEARCHED: Final = 64 << 20  # for the next record: aborted transactions may lie before it
_CHUNK: Final = 256 << 10
_ERRORS: Final = (DrlibError, TimeoutError, OSError)

Missing = tuple[int, int]
"""Records at least, and at most."""


@dataclass(frozen=True, slots=True)
class SourceLog:
    """A partition of the source, whose log is [start, end); records from `stable` on may belong to open transactions."""

    start: int
    stable: int
    end: int


@dataclass(frozen=True, slots=True)
class Tail:
    """Committed records below `read_to`: `behind_sync` from the newest offset sync on, `behind` from what was surely copied."""

    behind_sync: int
    behind: int
    read_to: int


def begins(synced: SyncedPartition, log: SourceLog) -> Missing:
    """Where the two counts of a `Tail` begin: behind the newest offset sync, and behind what was surely copied."""
    least = max(synced.least or 0, log.start)
    sync = least if synced.newest is None else synced.newest[0] + 1
    return min(least, max(sync, log.start)), least


def missing(synced: SyncedPartition, log: SourceLog, tail: Tail) -> Missing:
    """How many records were not copied, at least and at most."""
    _, least = begins(synced, log)
    at_most = tail.behind + max(0, log.end - max(tail.read_to, least))
    if synced.newest is None:
        return 0, at_most
    copies = synced.end - synced.newest[1] - 1
    return min(at_most, max(0, tail.behind_sync - copies)), at_most


async def read_missing(
    client: ClusterClient, there: ClusterMetadata, wanted: Mapping[TopicPartition, tuple[SyncedPartition, SourceLog]]
) -> tuple[dict[TopicPartition, Missing], list[str]]:
    """How many records of each partition were not copied; and which could not be read, with the reason."""
    unread: list[str] = []
    until = time.monotonic() + TAILS_S

    async def one(at: TopicPartition) -> Missing:
        synced, log = wanted[at]
        sync, least = begins(synced, log)
        tail = Tail(0, 0, sync)
        try:
            async with asyncio.timeout(max(0.0, until - time.monotonic())):
                topic = there.topics[at.topic]
                connection = await client.connection(topic.partitions[at.partition].leader, "read")
                tail = await _read(connection, topic.topic_id, at, (sync, least, log.stable))
        except _ERRORS as error:
            why = str(error) or f"no answer within {TAILS_S:g} s"
            unread.append(f"the end of {at} could not be read, so that its lag counts offsets: {why}")
        return missing(synced, log, tail)

    found = await concurrently(wanted, one)
    return dict(zip(wanted, found, strict=True)), unread


async def next_record(client: ClusterClient, at: TopicPartition, first: int) -> int:
    """Where the first committed record of a source partition from offset `first` on is; where the search ended, if none is
    before that: at the last stable offset, or after `MOST_SEARCHED` bytes.

    Raises what the cluster answers.
    """
    topic_id, leader = await locate(client, at)
    connection = await client.connection(leader, "read")
    end = (await requests.list_offsets(connection, [at], requests.LATEST, "read_committed"))[at]
    reached = first
    async for header, view, kept in _batches(connection, topic_id, at, (first, end, MOST_SEARCHED)):
        if kept:
            found = (record.offset for record in recode.records(view) if record.offset >= first)
            if (offset := next(found, None)) is not None:
                return min(offset, end)
        reached = min(header.next_offset, end)
    return reached


async def _read(connection: Connection, topic_id: uuid.UUID, at: TopicPartition, offsets: tuple[int, int, int]) -> Tail:
    """Count from two offsets to a third, as far as `MOST_BYTES` go."""
    sync, least, end = offsets
    behind_sync = behind = 0
    reached = sync
    async for header, view, kept in _batches(connection, topic_id, at, (sync, end, MOST_BYTES)):
        if kept:
            behind_sync += _within(header, view, sync, end)
            behind += _within(header, view, least, end)
        reached = min(header.next_offset, end)
    return Tail(behind_sync, behind, reached)


async def _batches(
    connection: Connection, topic_id: uuid.UUID, at: TopicPartition, limits: tuple[int, int, int]
) -> AsyncIterator[tuple[BatchHeader, memoryview, bool]]:
    """Batches from one offset to another, as far as that many bytes go, and whether each has committed records.

    An answer without any ends it, so that nothing is waited for: what is left stays unknown.
    """
    position, end, most_bytes = limits
    while position < end and most_bytes > 0:
        before = position
        wanted = FetchPartition(at.topic, topic_id, at.partition, position, _CHUNK)
        (response,) = await requests.fetch(connection, [wanted], min_bytes=0, max_bytes=_CHUNK, read_committed=True)
        raise_for(response.error_code, f"reading {at} at {position}", topics=[at.topic])
        filtered = AbortedFilter(response.aborted)
        for header, view in iter_batches(response.records):
            kept, most_bytes = filtered.keep(header, view), most_bytes - len(view)
            if header.last_offset < position:
                continue
            if header.base_offset >= end:
                return
            position = header.next_offset
            yield header, view, kept
        if position == before:
            return


def _within(header: BatchHeader, batch: memoryview, first: int, end: int) -> int:
    """How many records of a batch have an offset in [first, end)."""
    if header.last_offset < first:
        return 0
    if header.magic >= 2 and first <= header.base_offset and header.last_offset < end:
        return header.count
    return sum(first <= record.offset < end for record in recode.records(batch))
