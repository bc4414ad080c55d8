"""Journal entries that stand for others or make them void: chunks of folded claims, and a mirror topic filled anew.

Rules: an entry of these kinds changes what earlier ones mean, so who follows a journal reads it anew when one comes.
Not for: deciding when to fold (`folding`).
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from drlib.mirror.journal.fields import (
    LONG,
    VALUE,
    ClaimId,
    SourcePartition,
    header,
    pack_claims,
    pack_segments,
    pack_text,
)
from drlib.model import Segment


@dataclass(frozen=True, slots=True)
class Remirrored:
    """A mirror topic that was made again is filled anew: what was said of its partitions before this is void."""

    target_topic: str
    target_topic_id: UUID
    at_ms: int

    def key(self) -> bytes:
        return header(15) + pack_text(self.target_topic) + self.target_topic_id.bytes

    def value(self) -> bytes:
        return VALUE + LONG.pack(self.at_ms)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Mirrored stretches of claims that are folded, in order; counts once a `Folded` says that there are so many."""

    partition: SourcePartition
    number: int
    segments: tuple[Segment, ...]

    def key(self) -> bytes:
        return header(16) + self.partition.pack() + LONG.pack(self.number)

    def value(self) -> bytes:
        return VALUE + pack_segments(self.segments)


@dataclass(frozen=True, slots=True)
class Folded:
    """The first `chunks` chunks stand for every claim of these producers up to these epochs. The newest counts."""

    partition: SourcePartition
    chunks: int
    claims: tuple[ClaimId, ...]

    def key(self) -> bytes:
        return header(17) + self.partition.pack()

    def value(self) -> bytes:
        return VALUE + LONG.pack(self.chunks) + pack_claims(self.claims)
