"""Count unreplicated records (records of one cluster that its mirror never got), and decide what is done with each.

Rules:
- They are located through the offset map, in source offsets, and counted by reading with read_committed: control records,
  aborted and compacted records do not count.
- They are reported only where both clusters share one history. Where the source's log ends below the mirrored end, or another
  record is at the offset of the last mirrored one, `divergence` says why not.
- No record is dropped. A record that would be a duplicate, or would follow newer records of its key where order matters, is set
  aside in quarantine; all others are recovered.
- Examples are bounded, the rest is counted.
Not for: reading clusters (`drlib.mirror.offsets.unreplicated.find`), writing them (`drlib.mirror.offsets.unreplicated.settle`).
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from drlib.config.patterns.selection import LONGEST_NAME
from drlib.model import TopicPartition

if TYPE_CHECKING:  # what an option of `drlib failback` is read with has to be imported fast
    from drlib.mirror.offsets.map.offset_map import PartitionMap

EXAMPLES: Final = 20
_SHOWN: Final = 60  # characters of a key in an example
_CUT: Final = 200  # letters of a quarantine topic's name that was cut, so that a mirror of it has room for an alias

CLUSTER_HEADER: Final = "drlib.tail.cluster"
TOPIC_HEADER: Final = "drlib.tail.topic"
PARTITION_HEADER: Final = "drlib.tail.partition"
OFFSET_HEADER: Final = "drlib.tail.offset"

Headers = Sequence[tuple[str, bytes | None]]


class Settle(StrEnum):
    """What is done with unreplicated records. `LEAVE`: they stay on the source, for groups that return to read them there."""

    RECOVER = "recover"
    QUARANTINE = "quarantine"
    LEAVE = "leave"


@dataclass(frozen=True, slots=True, order=True)
class Stretch:
    """A range of offsets: from `first` up to, not including, `end`."""

    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Example:
    """One unreplicated record; `key` as text, shortened."""

    partition: TopicPartition
    offset: int
    timestamp_ms: int
    key: str
    bytes: int


@dataclass(frozen=True, slots=True)
class PartitionTail:
    """The unreplicated records of one partition. `stretches`: their offsets; `mirrored`: the mirrored position; `end`: the
    source's last stable offset. `records`, `bytes` (keys, values and header values) and timestamps are of the records read."""

    partition: TopicPartition
    stretches: tuple[Stretch, ...]
    mirrored: int
    end: int
    records: int = 0
    bytes: int = 0
    first_ms: int | None = None
    last_ms: int | None = None
    doubtful: int = 0  # records of which the journal does not know whether the mirror has them


@dataclass(slots=True)
class Tally:
    """Counts the unreplicated records of one partition as they are read; keys and contents are kept as digests."""

    partition: TopicPartition
    records: int = 0
    size: int = 0  # of keys, values and header values
    first_ms: int | None = None
    last_ms: int | None = None
    examples: list[Example] = field(default_factory=list)
    keys: dict[bytes, int] = field(default_factory=dict)  # records by key
    positions: tuple[int, ...] = ()  # committed offsets of groups, ascending
    _below: list[int] = field(default_factory=list)  # records by the number of positions at or below them

    def add(self, offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers) -> None:
        size = len(key or b"") + len(value or b"") + sum(len(header or b"") for _, header in headers)
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
        """How many of the records are below `position`, one of `positions`."""
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
    """The offset ranges of the source's log that were not mirrored: the whole log where nothing was, and where the source went
    back, all from its first other record on."""
    if offsets is None:
        return (Stretch(log_start, log_end),) if log_start < log_end else ()
    fork = log_end if offsets.diverged is None else min(log_end, max(log_start, offsets.diverged))
    found = tuple(Stretch(first, end) for first, end in offsets.absent(log_start, fork))
    return (*found, Stretch(fork, log_end)) if fork < log_end else found


def divergence(offsets: PartitionMap, log_end: int, same: bool | None) -> str:
    """Why the source's history differs from the mirrored one; empty where it does not.

    `log_end`: the source's log end, committed or not. `same`: has the last mirrored record the same content on both clusters?
    None: one cluster no longer has it.
    """
    end = offsets.source_end or 0
    if log_end < end:
        return f"its log ends at {log_end}, but offsets up to {end} were mirrored: it lost {end - log_end} of them"
    if offsets.diverged is not None:
        return f"its records from offset {offsets.diverged} on differ from the mirrored ones"
    if same is False:
        return f"its record at offset {end - 1} differs from the mirrored one"
    return ""


@dataclass(frozen=True, slots=True)
class SentAgain:
    """What was written to the target's own topic since: digests of `keys`, and of contents with how often each is there.

    A record there stands for one record of the source: `fate` takes it away.
    """

    keys: Collection[bytes] = frozenset()
    contents: Counter[bytes] = field(default_factory=Counter)

    def take(self, key: bytes | None, value: bytes | None, headers: Headers) -> bool:
        """Take away one record with this content; False when there is none left."""
        content = content_digest(key, value, headers)
        if self.contents[content] <= 0:
            return False
        self.contents[content] -= 1
        return True


class Fate(StrEnum):
    """What is done with one unreplicated record."""

    RECOVERED = "recovered"
    SET_ASIDE = "set aside"  # its key has newer records on the target
    SENT_AGAIN = "sent again"  # its producer has sent it to the target as well, so it is set aside
    QUARANTINED = "quarantined"


def fate(
    how: Settle, key: bytes | None, value: bytes | None, headers: Headers, since: SentAgain, *, keep_order: bool
) -> Fate:
    """What to do with one record. `keep_order`: a record older than others of its key is set aside, not recovered.

    A record that was sent again is taken from `since`, so that of equal records only as many count as are there.
    Raises ValueError for `Settle.LEAVE`: records that are left are not read.
    """
    if how is Settle.LEAVE:
        raise ValueError("records that are left are not settled one by one")
    if how is Settle.QUARANTINE:
        return Fate.QUARANTINED
    if since.take(key, value, headers):
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
    """True for a record that was recovered or quarantined."""
    return any(name == CLUSTER_HEADER for name, _ in headers)


def quarantine_topic(cluster: str, topic: str) -> str:
    """`drlib.tail.CLUSTER.TOPIC`. A name that is too long for a topic is cut, and a digest of the whole name makes it its own;
    the records' headers have the topic's."""
    name = f"drlib.tail.{cluster}.{topic}"
    if len(name) <= LONGEST_NAME:
        return name
    own = hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
    return f"{name[: _CUT - len(own) - 1]}.{own}"


def key_digest(key: bytes) -> bytes:
    from drlib.kafka.protocol.recode import digest

    return digest(key, None, (), None)


def content_digest(key: bytes | None, value: bytes | None, headers: Headers) -> bytes:
    """A digest without the timestamp: a producer that sends a record again gives it a new one."""
    from drlib.kafka.protocol.recode import digest

    return digest(key, value, headers, None)


def shown(key: bytes | None) -> str:
    if key is None:
        return ""
    text = key.decode("utf-8", "backslashreplace")
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
