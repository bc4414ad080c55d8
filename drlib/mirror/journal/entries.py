"""Entries of a lane's journal and their bytes: what was promised, what was kept, what was lost.

Rules: the journal is compacted, so equal keys supersede each other and every fact that must survive has its own key:
a `Run` or `Placement` never gives way to a later one, an `Ack` or `Covered` does. A `Run` is a promise and precedes its
data; `Ack` and `Sealed` are findings. Bytes are big-endian; key = format, kind, identity; value = format, the rest.
A kind this version does not know stays visible as `Unknown`; a format it does not know is an error, because a promise
that cannot be read must not be passed over. The kinds stand in `journal_promises`, `journal_ledger`, `journal_upkeep`.
Not for: what the entries mean together (`offset_map`, `recovery`), nor for writing them (`drlib.mirror`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from drlib.errors import DrlibError
from drlib.mirror.journal.claims_and_runs import (
    Ack,
    Claim,
    Clusters,
    Covered,
    Placement,
    Run,
    Sealed,
    SourceEpoch,
    TopicNames,
)
from drlib.mirror.journal.compaction import Chunk, Folded, Remirrored
from drlib.mirror.journal.fields import FORMAT, ClaimId, Fields, SourcePartition
from drlib.mirror.journal.partition_events import (
    Foreign,
    Incarnation,
    Parked,
    SourceLoss,
    SourceTruncated,
    Takeover,
    Unsure,
)

__all__ = [
    "Ack",
    "Chunk",
    "Claim",
    "ClaimId",
    "Clusters",
    "Covered",
    "Entry",
    "Folded",
    "Foreign",
    "Incarnation",
    "JournalCorrupt",
    "Parked",
    "Placement",
    "Remirrored",
    "Run",
    "Sealed",
    "SourceEpoch",
    "SourceLoss",
    "SourcePartition",
    "SourceTruncated",
    "Takeover",
    "TopicNames",
    "Unknown",
    "Unsure",
    "decode",
]


class JournalCorrupt(DrlibError):
    """Bytes in a journal partition that no version of the mirror wrote, or that this one cannot read."""

    def __init__(self, why: str) -> None:
        super().__init__(
            "The lane's journal holds an entry that cannot be read",
            why,
            "Nothing was guessed: read the topic with kafka-console-consumer and find out who else writes to it.",
        )


@dataclass(frozen=True, slots=True)
class Unknown:
    """An entry of a kind that a newer version writes: kept as it is."""

    key_bytes: bytes
    value_bytes: bytes

    @property
    def kind(self) -> int:
        return self.key_bytes[1]

    def key(self) -> bytes:
        return self.key_bytes

    def value(self) -> bytes:
        return self.value_bytes


Entry = (
    Claim
    | TopicNames
    | Placement
    | Run
    | Ack
    | Sealed
    | Covered
    | SourceLoss
    | SourceTruncated
    | Incarnation
    | Parked
    | Foreign
    | Unsure
    | Clusters
    | Remirrored
    | Chunk
    | Folded
    | Takeover
    | SourceEpoch
    | Unknown
)


def decode(key: bytes, value: bytes) -> Entry:
    """The entry that these bytes of one record are. Raises `JournalCorrupt` on anything but what `key`/`value` give."""
    key, value = bytes(key), bytes(value)
    if len(key) < 2 or not value:
        raise JournalCorrupt(f"a key of {len(key)} bytes and a value of {len(value)} are too short")
    if key[0] != FORMAT:
        raise JournalCorrupt(f"its key has format {key[0]}, this version reads {FORMAT}")
    decoder = _DECODERS.get(key[1])
    if decoder is None:
        return Unknown(key, value)
    if value[0] != FORMAT:
        raise JournalCorrupt(f"its value has format {value[0]}, this version reads {FORMAT}")
    try:
        identity, rest = Fields(key, 2), Fields(value, 1)
        entry = decoder(identity, rest)
        identity.done()
        rest.done()
    except ValueError as error:
        raise JournalCorrupt(f"kind {key[1]}: {error}") from error
    return entry


def _pairs(fields: Fields, count: int) -> tuple[tuple[int, int], ...]:
    return tuple((fields.number(), fields.number()) for _ in range(count))


# Arguments are evaluated left to right, so a constructor call reads its fields in the order they stand.
_DECODERS: dict[int, Callable[[Fields, Fields], Entry]] = {
    1: lambda k, v: Claim(k.claim(), v.integer(4), v.integer(), v.text()),
    2: lambda k, v: TopicNames(k.uuid(), v.text(), v.text(), v.uuid()),
    3: lambda k, v: Placement(k.partition(), k.claim(), k.number(), v.number()),
    4: lambda k, v: Run(k.partition(), k.claim(), k.number(), v.number()),
    5: lambda k, v: Ack(k.partition(), k.claim(), v.number(), v.number()),
    6: lambda k, v: Sealed(k.partition(), k.claim(), v.number(), v.flag()),
    7: lambda k, v: Covered(k.partition(), v.number()),
    8: lambda k, v: SourceLoss(k.partition(), k.number(), v.number(), v.integer()),
    9: lambda k, v: SourceTruncated(k.partition(), k.number(), k.number(), v.integer()),
    10: lambda k, v: Incarnation(k.text(), k.uuid(), k.uuid(), v.integer()),
    11: lambda k, v: Parked(k.partition(), k.number(), v.text(), v.integer()),
    12: lambda k, v: Foreign(k.partition(), k.number(), v.number(), v.integer()),
    13: lambda k, v: Unsure(k.partition(), k.claim(), v.number(), v.number(), v.integer()),
    14: lambda _, v: Clusters(v.text(), v.text()),
    15: lambda k, v: Remirrored(k.text(), k.uuid(), v.integer()),
    16: lambda k, v: Chunk(k.partition(), k.number(), v.segments()),
    17: lambda k, v: Folded(k.partition(), v.number(), v.claims()),
    20: lambda k, v: Takeover(
        k.partition(), v.number(), v.number(), v.integer(), v.number(), v.integer(), _pairs(v, v.integer(4))
    ),
    18: lambda k, v: SourceEpoch(k.partition(), k.integer(4), v.number()),
}
