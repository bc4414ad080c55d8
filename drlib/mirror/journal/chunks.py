"""Journal entries that replace or void others: chunks of folded claims, and a mirror topic that is filled again.

Rules: an entry of these kinds changes what earlier ones mean, so a reader that follows a journal starts again at one.
Not for: deciding when to fold (`drlib.mirror.offsets.map.fold_claims`).
"""

from __future__ import annotations

from uuid import UUID

from drlib.mirror.journal.fields import (
    Claims,
    Int64,
    JournalEntry,
    Number,
    Segments,
    SourcePartition,
    entry,
)


@entry(15, key=2)
class Remirrored(JournalEntry):
    """A re-created mirror topic is filled from the start: earlier entries of its partitions are void."""

    target_topic: str
    target_topic_id: UUID
    at_ms: Int64


@entry(16, key=2)
class Chunk(JournalEntry):
    """Mirrored stretches of folded claims, in order; valid once a `Folded` counts it."""

    partition: SourcePartition
    number: Number
    segments: Segments


@entry(17, key=1)
class Folded(JournalEntry):
    """The first `chunks` chunks replace every claim of these producers up to these epochs. The newest counts."""

    partition: SourcePartition
    chunks: Number
    claims: Claims


@entry(30, key=1)
class RemirrorRequested(JournalEntry):
    """An operator gave up the mirror topic with this ID: once it is gone, a new, empty one may be filled from the start.

    Written by a command and not by a claim, so it counts for that ID only. The newest counts.
    """

    target_topic: str
    void_topic_id: UUID
    at_ms: Int64
