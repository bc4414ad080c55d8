"""Entries of a lane's journal and their bytes: what was promised, what was acknowledged, what was lost.

Rules: the journal is compacted, so equal keys supersede each other and every fact that must survive has its own key:
a `Run` or `Placement` is never replaced by a later one, an `Ack` or `Covered` is. A `Run` is a promise and precedes its
data; `Ack` and `Sealed` are findings. Key = format, kind, identity; value = format, the rest. A kind that this version
does not know stays visible as `Unknown`; a format it does not know is an error, because a promise that cannot be read
must not be ignored. The kinds are declared in `claims_and_runs`, `partition_events`, `chunks`,
`transactions` and `producers`.
Not for: what the entries mean together (`drlib.mirror.offsets.map`), nor for writing them (`LaneJournal`).
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from drlib.errors import DrlibError
from drlib.mirror.journal.chunks import Chunk, Expired, Folded, Remirrored, RemirrorRequested, Thinned
from drlib.mirror.journal.claims_and_runs import (
    Ack,
    Claim,
    Clusters,
    Covered,
    PartitionsAtStart,
    PartitionShared,
    Placement,
    Run,
    Sealed,
    Shared,
    SharedRelay,
    SourceEpoch,
    TopicIdentified,
    TopicNames,
)
from drlib.mirror.journal.fields import FORMAT, KINDS, ClaimId, Fields, JournalEntry, SourcePartition
from drlib.mirror.journal.partition_events import (
    Compared,
    Foreign,
    Incarnation,
    MirrorRefused,
    OwnRecords,
    Parked,
    SourceLoss,
    SourceTruncated,
    Takeover,
    Unsure,
)
from drlib.mirror.journal.producers.kinds import Producers, ProducersKnown
from drlib.mirror.journal.transactions import CommittedTransactions, Transactions

__all__ = [
    "Ack",
    "Chunk",
    "Claim",
    "ClaimId",
    "Clusters",
    "CommittedTransactions",
    "Compared",
    "Covered",
    "Entry",
    "Expired",
    "Folded",
    "Foreign",
    "Incarnation",
    "JournalCorrupt",
    "MirrorRefused",
    "OwnRecords",
    "Parked",
    "PartitionShared",
    "PartitionsAtStart",
    "Placement",
    "Producers",
    "ProducersKnown",
    "RemirrorRequested",
    "Remirrored",
    "Run",
    "Sealed",
    "Shared",
    "SharedRelay",
    "SourceEpoch",
    "SourceLoss",
    "SourcePartition",
    "SourceTruncated",
    "Takeover",
    "Thinned",
    "TopicIdentified",
    "TopicNames",
    "Transactions",
    "Unknown",
    "Unsure",
    "decode",
    "names_key",
]


_NAMES = bytes((FORMAT, TopicNames.KIND))


class JournalCorrupt(DrlibError):
    """A record in a journal partition that no version of the mirror wrote, or that this one cannot read."""

    def __init__(self, why: str) -> None:
        super().__init__(
            "The lane's journal holds an entry that cannot be read",
            why,
            "Nothing was changed. Find out who else writes to the journal topic, or use the "
            "version of drlib that wrote the entry.",
        )


@dataclass(frozen=True, slots=True)
class Unknown(JournalEntry):
    """An entry of a kind that only newer versions know: kept as it is."""

    key_bytes: bytes
    value_bytes: bytes

    @property
    def kind(self) -> int:
        return self.key_bytes[1]

    def key(self) -> bytes:
        return self.key_bytes

    def value(self) -> bytes:
        return self.value_bytes


Entry = JournalEntry


def names_key(key: bytes) -> UUID | None:
    """The source topic ID of a `TopicNames` entry's key; None for any other key."""
    if len(key) != len(_NAMES) + 16 or not key.startswith(_NAMES):
        return None
    return UUID(bytes=bytes(key[len(_NAMES) :]))


def decode(key: bytes, value: bytes) -> Entry:
    """The entry of one record. Raises `JournalCorrupt` on bytes that no `key` and `value` return."""
    key, value = bytes(key), bytes(value)
    if len(key) < 2 or not value:
        raise JournalCorrupt(f"a key of {len(key)} bytes and a value of {len(value)} are too short")
    if key[0] != FORMAT:
        raise JournalCorrupt(f"its key has format {key[0]}, this version reads {FORMAT}")
    declared = KINDS.get(key[1])
    if declared is None:
        return Unknown(key, value)
    if value[0] != FORMAT:
        raise JournalCorrupt(f"its value has format {value[0]}, this version reads {FORMAT}")
    try:
        identity, body = Fields(key, 2), Fields(value, 1)
        entry = declared.read(identity, body)
        identity.done()
        body.done()
    except ValueError as error:
        raise JournalCorrupt(f"kind {key[1]}: {error}") from error
    return entry
