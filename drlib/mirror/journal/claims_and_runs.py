"""Journal entries of copying: the claims, what they promised and where it was appended, and how much is acknowledged.

Rules: a `Run` is a promise and precedes its data, a `Placement` says where it goes; neither is ever replaced by a later one.
`Ack`, `Covered` and `Sealed` are findings.
Not for: what else happened to a partition (`partition_events`).
"""

from __future__ import annotations

from uuid import UUID

from drlib.mirror.journal.fields import (
    ClaimId,
    Int32,
    Int64,
    JournalEntry,
    Number,
    SourcePartition,
    entry,
)


@entry(1, key=1)
class Claim(JournalEntry):
    claim: ClaimId
    generation: Int32
    claimed_at_ms: Int64
    worker: str


@entry(2, key=1)
class TopicNames(JournalEntry):
    """Which mirror topic, by name and ID, one incarnation of a source topic goes to."""

    topic_id: UUID
    source_topic: str
    target_topic: str
    target_topic_id: UUID


@entry(3, key=3)
class Placement(JournalEntry):
    """From record number `q` of the claim on, the target offset is `target_offset` + (q' - `q`)."""

    partition: SourcePartition
    claim: ClaimId
    q: Number
    target_offset: Number


@entry(4, key=3)
class Run(JournalEntry):
    """From record number `q` of the claim on, the source offset is `source_offset` + (q' - `q`). Precedes the data."""

    partition: SourcePartition
    claim: ClaimId
    q: Number
    source_offset: Number


@entry(18, key=2)
class SourceEpoch(JournalEntry):
    """From `source_offset` on the source's records bear leader epoch `epoch`. Precedes their data; the newest counts."""

    partition: SourcePartition
    epoch: Int32
    source_offset: Number


@entry(5, key=2)
class Ack(JournalEntry):
    """The first `q` records of the claim are acknowledged; `target_offset` is one past the last. The newest counts."""

    partition: SourcePartition
    claim: ClaimId
    q: Number
    target_offset: Number


@entry(6, key=2)
class Sealed(JournalEntry):
    """Found by recovery: `q` records of that claim are in the log; if not `exact`, at least that many."""

    partition: SourcePartition
    claim: ClaimId
    q: Number
    exact: bool


@entry(7, key=1)
class Covered(JournalEntry):
    """All data of the source below `source_offset` is on the target. The newest counts."""

    partition: SourcePartition
    source_offset: Number


@entry(26, key=1)
class Shared(JournalEntry):
    """Both directions copy this source topic: the journal of this ID recognises copies in it. Precedes its first record."""

    topic_id: UUID
    reverse_journal: UUID


@entry(35, key=1)
class PartitionShared(JournalEntry):
    """Beside `Shared`, where lanes of this flow have partitions of several lanes of the reverse flow: in a lane that has such
    entries of a topic, `Shared` speaks for their partitions alone."""

    partition: SourcePartition


@entry(33, key=2)
class SharedRelay(JournalEntry):
    """Beside `Shared`, in a ring: the journal of the incoming flow's relay of records that `hop` flows copied before it."""

    topic_id: UUID
    hop: Int32
    relay_journal: UUID


@entry(34, key=1)
class PartitionsAtStart(JournalEntry):
    """How many partitions a source topic had when the lane saw it first, and whether both directions copied it then.

    Precedes its `TopicNames`. The least of all lanes counts: partitions from that number on were added to a topic that this
    journal had already.
    """

    topic_id: UUID
    count: Int32
    shared: bool


@entry(25, key=1)
class TopicIdentified(JournalEntry):
    """The source gave the topic that was journaled under `made_id` the ID `real_id`: entries about both are about one topic."""

    made_id: UUID
    real_id: UUID
    at_ms: Int64


@entry(14, key=0)
class Clusters(JournalEntry):
    """The IDs of the flow's two clusters when the lane was claimed. The newest counts."""

    source_id: str
    target_id: str
