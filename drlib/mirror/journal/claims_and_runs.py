"""Journal entries of copying: whose claim it is, what was promised where, and how much of it is a fact.

Rules: a `Run` is a promise and precedes its data, a `Placement` says where it goes; neither ever gives way to a later one.
`Ack`, `Covered` and `Sealed` are findings. Key = identity, value = the rest (`journal_fields`).
Not for: what happened to a partition besides (`journal_ledger`).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from uuid import UUID

from drlib.mirror.journal.fields import LONG, TWO_LONGS, VALUE, ClaimId, SourcePartition, header, pack_text


@dataclass(frozen=True, slots=True)
class Claim:
    claim: ClaimId
    generation: int
    claimed_at_ms: int
    worker: str

    def key(self) -> bytes:
        return header(1) + self.claim.pack()

    def value(self) -> bytes:
        return VALUE + struct.pack(">iq", self.generation, self.claimed_at_ms) + pack_text(self.worker)


@dataclass(frozen=True, slots=True)
class TopicNames:
    """Which mirror topic, by name and ID, one incarnation of a source topic goes to."""

    topic_id: UUID
    source_topic: str
    target_topic: str
    target_topic_id: UUID

    def key(self) -> bytes:
        return header(2) + self.topic_id.bytes

    def value(self) -> bytes:
        return VALUE + pack_text(self.source_topic) + pack_text(self.target_topic) + self.target_topic_id.bytes


@dataclass(frozen=True, slots=True)
class Placement:
    """From record number `q` of the claim on, the target offset is `target_offset` + (q' - `q`)."""

    partition: SourcePartition
    claim: ClaimId
    q: int
    target_offset: int

    def key(self) -> bytes:
        return header(3) + self.partition.pack() + self.claim.pack() + LONG.pack(self.q)

    def value(self) -> bytes:
        return VALUE + LONG.pack(self.target_offset)


@dataclass(frozen=True, slots=True)
class Run:
    """From record number `q` of the claim on, the source offset is `source_offset` + (q' - `q`). Precedes the data."""

    partition: SourcePartition
    claim: ClaimId
    q: int
    source_offset: int

    def key(self) -> bytes:
        return header(4) + self.partition.pack() + self.claim.pack() + LONG.pack(self.q)

    def value(self) -> bytes:
        return VALUE + LONG.pack(self.source_offset)


@dataclass(frozen=True, slots=True)
class SourceEpoch:
    """From `source_offset` on the source's records bear leader epoch `epoch`. Precedes their data; the newest counts."""

    partition: SourcePartition
    epoch: int
    source_offset: int

    def key(self) -> bytes:
        return header(18) + self.partition.pack() + struct.pack(">i", self.epoch)

    def value(self) -> bytes:
        return VALUE + LONG.pack(self.source_offset)


@dataclass(frozen=True, slots=True)
class Ack:
    """The first `q` records of the claim are acknowledged; `target_offset` is one past the last. The newest counts."""

    partition: SourcePartition
    claim: ClaimId
    q: int
    target_offset: int

    def key(self) -> bytes:
        return header(5) + self.partition.pack() + self.claim.pack()

    def value(self) -> bytes:
        return VALUE + TWO_LONGS.pack(self.q, self.target_offset)


@dataclass(frozen=True, slots=True)
class Sealed:
    """Recovery's finding: `q` records of that claim are in the log; if not `exact`, at least that many."""

    partition: SourcePartition
    claim: ClaimId
    q: int
    exact: bool

    def key(self) -> bytes:
        return header(6) + self.partition.pack() + self.claim.pack()

    def value(self) -> bytes:
        return VALUE + struct.pack(">qB", self.q, self.exact)


@dataclass(frozen=True, slots=True)
class Covered:
    """The source is read through to `source_offset` (exclusive), all its data is on the target. The newest counts."""

    partition: SourcePartition
    source_offset: int

    def key(self) -> bytes:
        return header(7) + self.partition.pack()

    def value(self) -> bytes:
        return VALUE + LONG.pack(self.source_offset)


@dataclass(frozen=True, slots=True)
class Clusters:
    """Which clusters the flow's two aliases stood for when the lane was claimed, by their IDs. The newest counts."""

    source_id: str
    target_id: str

    def key(self) -> bytes:
        return header(14)

    def value(self) -> bytes:
        return VALUE + pack_text(self.source_id) + pack_text(self.target_id)
