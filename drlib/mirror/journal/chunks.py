"""Journal entries that replace or void others: chunks of folded claims, expired records, thinned-out stretches, a mirror topic
that is filled again.

Rules: an entry of these kinds changes what earlier ones mean, deleted or not.
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


@entry(22, key=1)
class Expired(JournalEntry):
    """Both logs begin behind the partition's first mirrored records: other entries' offsets of these do not count.

    They lie from `first_source` up to `source_end`, and from `first_target` up to `target_end`; `records` is their number.
    Each is the end of a mirrored stretch, and another one follows. The newest counts.
    """

    partition: SourcePartition
    first_source: Number
    first_target: Number
    source_end: Number
    target_end: Number
    records: Number


@entry(24, key=1)
class Thinned(JournalEntry):
    """The oldest mirrored stretches, of which there were too many, as fewer: earlier entries of these do not count.

    The records from the beginning of one of `segments` up to the next one's are on the target between their two beginnings,
    in order; `count` is their number, where exactly each lies is not kept. The last one reaches up to `source_end` and
    `target_end`, the end of a mirrored stretch that another one follows. `records` is the number of all records up to there,
    expired ones included. The newest counts.
    """

    partition: SourcePartition
    source_end: Number
    target_end: Number
    records: Number
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
