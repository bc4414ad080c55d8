"""Compares, in the background, both logs of the partitions that another replicator began, and journals which record is which.

Rules:
- One partition of a flow at a time, from the takeover down, so that positions near the end become exact first. Each step reads
  a part of both logs, aligns it (`align`) and journals what was found under the lane's claim; where it ended is in the map
  (`TakenPart.cursor`), so any later claim, here or elsewhere, continues there. A step done twice says the same.
- The copy comes first: reading, and waiting for it, take a fifth of the time at most, and a fiftieth while records wait for
  being mirrored, on connections of their own. Of a part only offsets and 64-bit digests are kept: the largest takes 60 MB.
- A step that explains nothing is tried with larger parts. What the largest do not explain stays as rough as it was, from there
  down: `TakeoverDiffers` says where the logs differ.
- A cluster that does not answer is waited for; others report it.
Not for: where the copy continues (`drlib.mirror.mm2.takeover`).
"""

from __future__ import annotations

import asyncio
import time
import uuid
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from drlib.errors import Unreachable
from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.batch import BatchHeader, CorruptBatch
from drlib.kafka.protocol.error_codes import OFFSET_OUT_OF_RANGE, BrokerError
from drlib.kafka.topic_ids import may_be
from drlib.mirror.errors import LaneFault, LaneLost
from drlib.mirror.journal.entries import Entry, SourcePartition
from drlib.mirror.offsets.comparison.align import Alignment, LogPart, align
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.offsets.map.taken_part import TakenPart, within
from drlib.mirror.read_batches import locate, read_range
from drlib.mirror.status.worker_status import EventLog
from drlib.mirror.threads import in_daemon
from drlib.model import TopicPartition

PURPOSE: Final = "compare"
IDLE_S: Final = 1.0  # between two looks whether there is something to compare
CHUNK: Final = 1 << 20
SHARE: Final = 0.2  # of the time that is spent reading
BUSY_SHARE: Final = 0.02  # the same while records wait for being mirrored
LONGEST_PAUSE_S: Final = 60.0
SMALL_BYTES: Final = 16 << 10  # a batch below this is decoded at once, a larger one beside the event loop
FIRST_RECORDS: Final = 1_000
LEAST_RECORDS: Final = 250
MOST_RECORDS: Final = 20_000
STEP_BYTES: Final = 8 << 20  # read in one step, about
LARGER_RECORDS: Final = (2 * MOST_RECORDS, 200_000)
"""Where less explains nothing: MirrorMaker 2 repeats what it has copied since it last committed, a minute of records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPartition:
    """A partition that a lane of this worker copies. `busy`: records of the flow wait for being mirrored; `shared`: both
    directions copy its topic.

    `journal` writes entries under the lane's claim; it returns False where that has ended.
    """

    key: SourcePartition
    source: TopicPartition
    target: TopicPartition
    target_id: uuid.UUID
    map: PartitionMap
    journal: Callable[[Sequence[Entry]], Awaitable[bool]]
    busy: Callable[[], bool]
    shared: bool = False


@dataclass(slots=True)
class LogComparison:
    """The comparison of one flow's partitions. `partitions`: those that this worker copies now."""

    source: ClusterClient
    target: ClusterClient
    partitions: Callable[[], Iterable[ComparedPartition]]
    events: EventLog
    _over: dict[SourcePartition, _Over] = field(default_factory=dict)  # nothing below is left, or explained
    _failures: Counter[SourcePartition] = field(default_factory=Counter)
    _records: int = FIRST_RECORDS

    async def run(self) -> None:
        """Compare until cancelled. Raises what a broker answers that waiting does not change."""
        while True:
            item = self.next()
            if item is None or not await self._try(item):
                await asyncio.sleep(IDLE_S)

    def next(self) -> ComparedPartition | None:
        """The partition to go on with: one that could not be read waits until others are through."""
        left = (item for item in self.partitions() if self._is_left(item.key, item.map))
        return min(left, key=lambda item: self._failures[item.key], default=None)

    async def _try(self, item: ComparedPartition) -> bool:
        """One step of a partition; False where it has to wait."""
        self._failures[item.key] += 1
        try:
            if not await self._compare(item):
                return False
        except (Unreachable, LaneFault, LaneLost, TimeoutError, OSError):
            return False
        except CorruptBatch as corrupt:
            self._end(item, f"{corrupt.what}: {corrupt.why}")
        except BrokerError as error:
            if not error.retriable and error.code != OFFSET_OUT_OF_RANGE:
                raise
            return False  # a leader moved, or records expired while they were read
        del self._failures[item.key]
        return True

    def left(self, key: SourcePartition, offsets: PartitionMap, source_start: int) -> int:
        """How many source offsets of a partition are still to be compared."""
        if not self._is_left(key, offsets) or offsets.taken is None:
            return 0
        return max(0, offsets.taken.cursor[0] - max(0, source_start))

    def is_through(self, key: SourcePartition, offsets: PartitionMap) -> bool:
        """Is nothing of a partition left to be compared, or nothing more explained?"""
        return not self._is_left(key, offsets)

    def _is_left(self, key: SourcePartition, offsets: PartitionMap) -> bool:
        if offsets.taken is None or self._over.get(key) == _over(offsets.taken):
            return False
        return offsets.diverged is None and offsets.segments().expired is None

    async def _compare(self, item: ComparedPartition) -> bool:
        """One step of a partition: the next part, larger ones where that explains nothing. False where it has to wait."""
        taken = item.map.taken
        assert taken is not None
        source = await ComparedLog.open(self.source, item.source, item.key.topic_id)
        target = await ComparedLog.open(self.target, item.target, item.target_id)
        if source is None or target is None:
            return False  # the lane will park the partition, or forget it
        logs = source, target
        if taken.cursor[0] <= source.start or taken.cursor[1] <= target.start:
            self._over[item.key] = _over(taken)
            return True
        pace = Pace(item.busy)
        own = taken.own or ()
        found, size = await _align(logs, taken.cursor, self._records, pace, own)
        self._records = next_records(self._records, size)
        for records in LARGER_RECORDS:
            if found.finished or (found.source, found.target) != taken.cursor:
                break
            found, _ = await _align(logs, taken.cursor, records, pace, own)
        explained = (found.source, found.target) != taken.cursor
        if explained:
            entries = taken.extended(found.source, found.target, found.segments)
            if not await item.journal(entries):
                return False  # the claim has ended: the next one continues where the map does
            for entry in entries:
                item.map.apply(entry)
        if found.finished:
            # Of an attempt before the target's own records were known.
            self.events.resolve("TakeoverDiffers", str(item.source))
            self._over[item.key] = _over(taken)
        elif not explained:
            self._end(item, found.why)
        return True

    def _end(self, item: ComparedPartition, why: str) -> None:
        """Compare no further down in a partition, and report it."""
        assert item.map.taken is not None
        self._over[item.key] = _over(item.map.taken)
        source, target = item.map.taken.cursor
        what = f"below offset {source}, and offset {target} of {item.target}: {why}"
        self.events.open("TakeoverDiffers", str(item.source), f"{what}; positions before them stay as they were")


_Over = tuple[tuple[int, int], tuple[tuple[int, int], ...]]


def _over(taken: TakenPart) -> _Over:
    """Where the comparison is, and which records of the mirror are left out of it: with others it may go further."""
    return taken.cursor, taken.own or ()


def next_records(records: int, size: int) -> int:
    """How many records to read of each log in the next step, after one of `records` that read `size` bytes."""
    if size > STEP_BYTES:
        records //= 2
    elif size < STEP_BYTES // 4:
        records *= 2
    return max(LEAST_RECORDS, min(MOST_RECORDS, records))


def pause_s(cost_s: float, *, busy: bool) -> float:
    """How long to pause after `cost_s` of reading, so that reading takes no more than its share of the time."""
    return min(LONGEST_PAUSE_S, cost_s * (1 / (BUSY_SHARE if busy else SHARE) - 1))


@dataclass(slots=True)
class Pace:
    """Keeps reading to its share of the time. `busy` is asked once a second at most: a flow may have many partitions."""

    busy: Callable[[], bool]
    _busy: bool = False
    _asked: float = float("-inf")

    async def pause(self, since: float) -> None:
        """Pause after what was done since `since`, a monotonic time."""
        now = time.monotonic()
        if now - self._asked > 1:
            self._busy, self._asked = self.busy(), now
        await asyncio.sleep(pause_s(now - since, busy=self._busy))


class _Unpaced(Pace):
    """For a comparison that is waited for."""

    async def pause(self, since: float) -> None:
        """Do not pause."""


async def align_now(
    source: ClusterClient,
    target: ClusterClient,
    copied: tuple[TopicPartition, uuid.UUID],
    mirror: tuple[TopicPartition, uuid.UUID],
    at: tuple[int, int],
    records: int,
) -> Alignment | None:
    """Align `records` offsets of both logs, partitions and topic IDs, below the positions `at`, without pauses.

    None where a topic has another ID now. Raises what the clusters answer, and `Unreachable` where a log is not read in time.
    """
    logs = await ComparedLog.open(source, *copied), await ComparedLog.open(target, *mirror)
    if logs[0] is None or logs[1] is None:
        return None
    found, _ = await _align((logs[0], logs[1]), at, records, _Unpaced(lambda: False))
    return found


@dataclass(frozen=True, slots=True)
class ComparedLog:
    """One side's log and its bounds."""

    connection: Connection
    topic_id: uuid.UUID
    partition: TopicPartition
    start: int
    end: int

    @classmethod
    async def open(cls, client: ClusterClient, partition: TopicPartition, topic_id: uuid.UUID) -> ComparedLog | None:
        """None where the topic of this name has another ID now."""
        found_id, leader = await locate(client, partition)
        if not may_be(found_id, topic_id):
            return None
        connection = await client.connection(leader, PURPOSE)
        start = (await requests.list_offsets(connection, [partition], requests.EARLIEST))[partition]
        end = (await requests.list_offsets(connection, [partition], requests.LATEST))[partition]
        return cls(connection, topic_id, partition, start, end)


async def _align(
    logs: tuple[ComparedLog, ComparedLog],
    at: tuple[int, int],
    records: int,
    pace: Pace,
    own: Sequence[tuple[int, int]] = (),
) -> tuple[Alignment, int]:
    """Read `records` offsets below the positions `at` and, of the source, beyond it, and align them; also the bytes read.

    `own`: ranges of the mirror's offsets that no copies are in.
    """
    source, target = logs
    below = at[1] - records, at[1]
    try:
        mirror, timed = await _part(target, below, pace, timed=True, committed=True, own=own), True
    except LogAppendTime:
        mirror, timed = await _part(target, below, pace, timed=False, committed=True, own=own), False
    original = await _part(source, (at[0] - records, at[0] + records), pace, timed=timed)
    began = time.monotonic()
    found = await in_daemon(partial(align, original[0], mirror[0], at))
    await pace.pause(began)
    return found, original[1] + mirror[1]


async def _part(
    log: ComparedLog,
    wanted: tuple[int, int],
    pace: Pace,
    *,
    timed: bool,
    committed: bool = False,
    own: Sequence[tuple[int, int]] = (),
) -> tuple[LogPart, int]:
    """The records of a range of offsets, and the bytes read. Raises as `read`."""
    offsets, contents, transactional, size = array("q"), array("Q"), bytearray(), 0
    async for batch in read(log, wanted, pace, timed=timed, committed=committed, own=own):
        offsets.extend(batch.offsets)
        contents.extend(batch.contents)
        transactional += bytes((batch.header.is_transactional,)) * len(batch.offsets)
        size += batch.size
    start = max(wanted[0], log.start)
    return LogPart(start, offsets, contents, start <= log.start, bytes(transactional)), size


class LogAppendTime(Exception):
    """The mirror's records do not have the source's timestamps."""


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """`offsets` and 64-bit `contents` of a batch's records in the range; none of control records, and of the target's own."""

    header: BatchHeader
    offsets: array[int]
    contents: array[int]
    size: int


async def read(
    log: ComparedLog,
    wanted: tuple[int, int],
    pace: Pace,
    *,
    timed: bool,
    committed: bool = False,
    own: Sequence[tuple[int, int]] = (),
) -> AsyncIterator[ReadBatch]:
    """The batches of a range of offsets, with pauses. `own`: ranges that are left out.

    Of the mirror (`committed`) without aborted ones: an MM2 with exactly-once support copies those again. Raises
    `LogAppendTime` where they are `timed` and a batch of the mirror has that.
    """
    start, end = max(wanted[0], log.start), min(wanted[1], log.end)
    began = time.monotonic()
    reading = read_range(log.connection, log.topic_id, log.partition, start, end, committed=committed, most_bytes=CHUNK)
    async for header, view in reading:
        if committed and timed and header.is_log_append_time:
            raise LogAppendTime
        offsets, contents = array("q"), array("Q")
        if not header.is_control and header.count > 0 and not within(own, header.base_offset):
            decode = partial(_contents, view, start, end, timed)
            offsets, contents = decode() if len(view) < SMALL_BYTES else await in_daemon(decode)
        yield ReadBatch(header, offsets, contents, len(view))
        await pace.pause(began)
        began = time.monotonic()


def _contents(batch: memoryview, start: int, end: int, timed: bool) -> tuple[array[int], array[int]]:
    """The offsets of a batch's records within a range, and 64 bits of the digest of each."""
    offsets, contents = array("q"), array("Q")
    for record in recode.records(batch):
        if start <= record.offset < end:
            digest = recode.digest(record.key, record.value, record.headers, record.timestamp if timed else None)
            offsets.append(record.offset)
            contents.append(int.from_bytes(digest[:8]))
    return offsets, contents
