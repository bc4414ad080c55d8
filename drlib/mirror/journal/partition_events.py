"""Journal entries of what happened to a partition: loss, truncation, re-creation, parking, foreign records, takeover and what
was found out about the copies that were taken over.

Rules: facts with a time, each under a key of its own, kept until the records they are about have expired on both clusters.
None changes what was promised.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from drlib.mirror.journal.fields import (
    ClaimId,
    Int64,
    JournalEntry,
    Number,
    Pairs,
    Segments,
    SourcePartition,
    entry,
)

REPARTITION: Final = "-repartition"  # how names of Kafka Streams' repartition topics end


@entry(8, key=2)
class SourceLoss(JournalEntry):
    """Source offsets [`first`, `next_offset`) expired before they were read; a later entry may extend it."""

    partition: SourcePartition
    first: Number
    next_offset: Number
    at_ms: Int64


def lost_text(topic: str, first: int, next_offset: int) -> str:
    """What a `SourceLoss` in the source's `topic` is, in words. What an application deletes itself is no loss to it."""
    deleted = f"offsets {first} to {next_offset - 1} expired before they were read"
    if not topic.endswith(REPARTITION):
        return deleted
    return f"{deleted}: Kafka Streams deletes from a repartition topic what its application has processed, and needs no more"


@entry(9, key=3)
class SourceTruncated(JournalEntry):
    """The source's log was truncated to `first` after it had been read through to `next_offset`."""

    partition: SourcePartition
    first: Number
    next_offset: Number
    at_ms: Int64


@entry(10, key=3)
class Incarnation(JournalEntry):
    """A source topic was re-created under the same name."""

    source_topic: str
    old_topic_id: UUID
    new_topic_id: UUID
    at_ms: Int64


@entry(11, key=2)
class Parked(JournalEntry):
    """The partition stopped at `source_offset`: later records do not reach the target until it is resumed."""

    partition: SourcePartition
    source_offset: Number
    reason: str
    at_ms: Int64


@entry(12, key=2)
class Foreign(JournalEntry):
    """`count` offsets of the mirror partition, from `target_offset` on, that another producer wrote."""

    partition: SourcePartition
    target_offset: Number
    count: Number
    at_ms: Int64


@entry(13, key=2)
class Unsure(JournalEntry):
    """Between `low` and `high` records of the claim are, or were, in the log; the exact count is not known."""

    partition: SourcePartition
    claim: ClaimId
    low: Number
    high: Number
    at_ms: Int64


@entry(21, key=1)
class MirrorRefused(JournalEntry):
    """The mirror partition's log contradicts the journal: nothing is copied to it and no position in it is translated."""

    partition: SourcePartition
    reason: str
    at_ms: Int64


@entry(20, key=1)
class Takeover(JournalEntry):
    """Another replicator copied the partition up to source position `source_offset`; its log ended at `target_offset`.

    `committed` is the last offset it had committed itself (-1: none). `doubtful` records from the position on may be
    duplicates. `pairs` are its sparse (source, target) offsets of one record each, both sides ascending.
    """

    partition: SourcePartition
    source_offset: Number
    target_offset: Number
    committed: Int64
    doubtful: Number
    at_ms: Int64
    pairs: Pairs = ()


@entry(23, key=2)
class Compared(JournalEntry):
    """Both logs were compared below a `Takeover`: the copies from these positions on, in order, up to the entry before.

    The first one (`number` 0) ends at the takeover, and each next one where the one before begins. The newest of each counts.
    """

    partition: SourcePartition
    number: Number
    source_offset: Number
    target_offset: Number
    segments: Segments


@entry(32, key=1)
class OwnRecords(JournalEntry):
    """Of a topic that both directions copy: where below a `Takeover` the target's log has records of its own clients.

    `ranges`: (first, end) offsets of the target, ascending. All other records below the takeover are copies.
    """

    partition: SourcePartition
    ranges: Pairs
    at_ms: Int64
