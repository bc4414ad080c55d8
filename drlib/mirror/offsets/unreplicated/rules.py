"""The tail: what one cluster holds and its mirror never had, counted; and what may be done with each record of it.

Rules:
- A tail is found through the offset map, in offsets of the source, and counted by reading it as a committed reader does:
  control records, aborted transactions and what was compacted away are no records of it.
- A tail is only told of a history that both sides share. Where the source's log ends below what was mirrored of it, or
  another record stands where the last mirrored one was read, nothing is told: `parting` says why.
- No record is dropped. What would be there twice, or would come behind newer records of its key where that matters, is
  set aside; everything else is recovered.
- Examples are bounded, the rest is counted.
Not for: reading clusters (`drlib.mirror.offsets.unreplicated.find`), writing them (`drlib.mirror.offsets.unreplicated.settle`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from drlib.kafka.protocol.recode import digest
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.model import TopicPartition

EXAMPLES: Final = 20
_SHOWN: Final = 60  # characters of a key in an example

CLUSTER_HEADER: Final = "drlib.tail.cluster"
TOPIC_HEADER: Final = "drlib.tail.topic"
PARTITION_HEADER: Final = "drlib.tail.partition"
OFFSET_HEADER: Final = "drlib.tail.offset"

Headers = Sequence[tuple[str, bytes | None]]


class Settle(StrEnum):
    """What is done with a tail. `LEAVE`: it stays where it is, for groups that return to read it there."""

    RECOVER = "recover"
    QUARANTINE = "quarantine"
    LEAVE = "leave"


@dataclass(frozen=True, slots=True, order=True)
class Stretch:
    """Offsets from `first` up to, not including, `end`."""

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Example:
    """One record of a tail; `key` as text, shortened."""

    partition: TopicPartition
    offset: int
    timestamp_ms: int
    key: str
    bytes: int


@dataclass(frozen=True, slots=True)
class PartitionTail:
    """`stretches`: where it lies; `mirrored`: the position the mirror had reached; `end`: where the source's log ended for a
    committed reader. `records`, `bytes` (keys, values and header values) and timestamps are of what was read there."""

    partition: TopicPartition
    stretches: tuple[Stretch, ...]
    mirrored: int
    end: int
    records: int = 0
    bytes: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    doubtful: int = 0  # records that the journal cannot say whether they stand in the mirror


@dataclass(slots=True)
class Tally:
    """Counts the records of one partition's tail as they are read; what is told of keys and contents is digests."""

    partition: TopicPartition
    records: int = 0
    size: int = 0  # of keys, values and header values
    first_ms: int | None = None
    last_ms: int | None = None
    examples: list[Example] = field(default_factory=list)
    keys: dict[bytes, int] = field(default_factory=dict)  # records by key
    positions: tuple[int, ...] = ()  # ascending: where groups stand
    _below: list[int] = field(default_factory=list)  # records by the number of positions at or below them

    def add(self, offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        size = len(key or b"") + len(value or b"") + sum(len(held or b"") for _, held in headers)
        self.records += 1
        self.size += size
        self.first_ms = timestamp_ms if self.first_ms is None else min(self.first_ms, timestamp_ms)
        self.last_ms = timestamp_ms if self.last_ms is None else max(self.last_ms, timestamp_ms)
        if key is not None:
            name = key_digest(key)
            self.keys[name] = self.keys.get(name, 0) + 1
        if self.positions:
            self._below = self._below or [0] * (len(self.positions) + 1)
            self._below[bisect_right(self.positions, offset)] += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(Example(self.partition, offset, timestamp_ms, shown(key), size))

    def read_by(self, position: int) -> int:
        """How many of the records stand below `position`, one of `positions`."""
        return sum(self._below[: bisect_right(self.positions, position)])

    def tail(self, stretches: tuple[Stretch, ...], mirrored: int, end: int, doubtful: int) -> PartitionTail:
        return PartitionTail(
            self.partition,
            stretches,
            mirrored,
            end,
            self.records,
            self.size,
            self.first_ms,
            self.last_ms,
            doubtful,
        )


def stretches(offsets: PartitionMap | None, log_start: int, log_end: int) -> tuple[Stretch, ...]:
    """Where in the source's log stands what was not mirrored; all of it where nothing was."""
    if offsets is None:
        return (Stretch(log_start, log_end),) if log_start < log_end else ()
    return tuple(Stretch(first, end) for first, end in offsets.absent(log_start, log_end))


def parting(offsets: PartitionMap, log_end: int, same: bool | None) -> str:
    """Why the source's history is not the mirrored one; empty when nothing speaks against it.

    `log_end` is where the source's log ends, committed or not; `same`: does the last mirrored record stand on both sides
    with one content? None: one side no longer has it.
    """
    end = offsets.source_end or 0
    if log_end < end:
        return f"its log ends at {log_end}, and records up to {end} were mirrored: it lost {end - log_end} of them"
    if offsets.diverged is not None:
        return f"from offset {offsets.diverged} on it has other records than were mirrored"
    if same is False:
        return f"at offset {end - 1} stands another record than was mirrored from there"
    return ""


@dataclass(frozen=True, slots=True)
class Since:
    """What the other side has written on its own since: `keys` by digest, `contents` by digest."""

    keys: Collection[bytes] = frozenset()
    contents: Collection[bytes] = frozenset()


class Fate(StrEnum):
    """What becomes of one record of a tail."""

    RECOVERED = "recovered"
    SET_ASIDE = "set aside"  # its key has newer records on the other side
    SENT_AGAIN = "sent again"  # its producer has sent it to the other side as well, so it is set aside
    QUARANTINED = "quarantined"


def fate(
    how: Settle, key: bytes | None, value: bytes | None, headers: Headers, since: Since, *, keep_order: bool
) -> Fate:
    """What to do with one record. `keep_order`: a record older than others of its key is set aside, not recovered."""
    if how is not Settle.RECOVER:
        return Fate.QUARANTINED
    if content_digest(key, value, headers) in since.contents:
        return Fate.SENT_AGAIN
    if keep_order and key is not None and key_digest(key) in since.keys:
        return Fate.SET_ASIDE
    return Fate.RECOVERED


def provenance(cluster: str, partition: TopicPartition, offset: int) -> list[tuple[str, bytes]]:
    """The headers that say where a recovered or quarantined record came from."""
    return [
        (CLUSTER_HEADER, cluster.encode()),
        (TOPIC_HEADER, partition.topic.encode()),
        (PARTITION_HEADER, b"%d" % partition.partition),
        (OFFSET_HEADER, b"%d" % offset),
    ]


def is_recovered(headers: Headers) -> bool:
    """Was this record brought here from a tail?"""
    return any(name == CLUSTER_HEADER for name, _ in headers)


def quarantine_topic(cluster: str, topic: str) -> str:
    return f"drlib.tail.{cluster}.{topic}"


def key_digest(key: bytes) -> bytes:
    return digest(key, None, (), None)


def content_digest(key: bytes | None, value: bytes | None, headers: Headers) -> bytes:
    """Without the timestamp: a producer that sends a record again stamps it anew."""
    return digest(key, value, headers, None)


def shown(key: bytes | None) -> str:
    if key is None:
        return ""
    text = key.decode("utf-8", "backslashreplace")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
