"""Journal entries of what befell a partition: lost, truncated, made again, parked, written to by others, taken over.

Rules: facts with a time, kept for good, each under a key of its own. None changes what was promised.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from uuid import UUID

from drlib.mirror.journal.fields import LONG, TWO_LONGS, VALUE, ClaimId, SourcePartition, header, pack_text


@dataclass(frozen=True, slots=True)
class SourceLoss:
    """Source offsets [`first`, `next_offset`) expired before they were read; found larger later, it supersedes."""

    partition: SourcePartition
    first: int
    next_offset: int
    at_ms: int

    def key(self) -> bytes:
        return header(8) + self.partition.pack() + LONG.pack(self.first)

    def value(self) -> bytes:
        return VALUE + TWO_LONGS.pack(self.next_offset, self.at_ms)


@dataclass(frozen=True, slots=True)
class SourceTruncated:
    """The source's log went back to `first` although it had been read through to `next_offset`."""

    partition: SourcePartition
    first: int
    next_offset: int
    at_ms: int

    def key(self) -> bytes:
        return header(9) + self.partition.pack() + TWO_LONGS.pack(self.first, self.next_offset)

    def value(self) -> bytes:
        return VALUE + LONG.pack(self.at_ms)


@dataclass(frozen=True, slots=True)
class Incarnation:
    """A source topic was made again under the same name."""

    source_topic: str
    old_topic_id: UUID
    new_topic_id: UUID
    at_ms: int

    def key(self) -> bytes:
        return header(10) + pack_text(self.source_topic) + self.old_topic_id.bytes + self.new_topic_id.bytes

    def value(self) -> bytes:
        return VALUE + LONG.pack(self.at_ms)


@dataclass(frozen=True, slots=True)
class Parked:
    """The partition stopped at `source_offset`: what is from there on does not reach the target until it is resumed."""

    partition: SourcePartition
    source_offset: int
    reason: str
    at_ms: int

    def key(self) -> bytes:
        return header(11) + self.partition.pack() + LONG.pack(self.source_offset)

    def value(self) -> bytes:
        return VALUE + pack_text(self.reason) + LONG.pack(self.at_ms)


@dataclass(frozen=True, slots=True)
class Foreign:
    """`count` offsets from `target_offset` on in the mirror partition that somebody else wrote."""

    partition: SourcePartition
    target_offset: int
    count: int
    at_ms: int

    def key(self) -> bytes:
        return header(12) + self.partition.pack() + LONG.pack(self.target_offset)

    def value(self) -> bytes:
        return VALUE + TWO_LONGS.pack(self.count, self.at_ms)


@dataclass(frozen=True, slots=True)
class Unsure:
    """Between `low` and `high` records of the claim are, or were, in the log; nothing left can tell how many."""

    partition: SourcePartition
    claim: ClaimId
    low: int
    high: int
    at_ms: int

    def key(self) -> bytes:
        return header(13) + self.partition.pack() + self.claim.pack()

    def value(self) -> bytes:
        return VALUE + struct.pack(">qqq", self.low, self.high, self.at_ms)


@dataclass(frozen=True, slots=True)
class Takeover:
    """Another replicator copied the partition up to source position `source_offset`; its log ended at `target_offset`.

    `committed` is the last offset it had committed itself (-1: none). `doubtful` records from the position on may stand
    twice. `pairs` are its sparse (source, target) offsets of one record each, both sides ascending.
    """

    partition: SourcePartition
    source_offset: int
    target_offset: int
    committed: int
    doubtful: int
    at_ms: int
    pairs: tuple[tuple[int, int], ...] = ()

    def key(self) -> bytes:
        return header(20) + self.partition.pack()

    def value(self) -> bytes:
        head = struct.pack(
            ">qqqqqi",
            self.source_offset,
            self.target_offset,
            self.committed,
            self.doubtful,
            self.at_ms,
            len(self.pairs),
        )
        return VALUE + head + b"".join(TWO_LONGS.pack(*pair) for pair in self.pairs)
