"""Entries of a lane's journal and their bytes: what was promised, what was kept, what was lost.

Rules: the journal is compacted, so equal keys supersede each other and every fact that must survive has its own key:
a `Run` or `Placement` never gives way to a later one, an `Ack` or `Covered` does. A `Run` is a promise and precedes its
data; `Ack` and `Sealed` are findings. Bytes are big-endian; key = format, kind, identity; value = format, the rest.
A kind this version does not know stays visible as `Unknown`; a format it does not know is an error, because a promise
that cannot be read must not be passed over.
Not for: what the entries mean together (`offset_map`, `recovery`), nor for writing them (`drlib.mirror`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from drlib.errors import DrlibError
from drlib.rules.journal_fields import ClaimId, Fields, SourcePartition, pack_text

__all__ = [
    "Ack",
    "Claim",
    "ClaimId",
    "Clusters",
    "Covered",
    "Entry",
    "Foreign",
    "Incarnation",
    "JournalCorrupt",
    "Parked",
    "Placement",
    "Run",
    "Sealed",
    "SourceLoss",
    "SourcePartition",
    "SourceTruncated",
    "Takeover",
    "TopicNames",
    "Unknown",
    "Unsure",
    "decode",
]

FORMAT = 1

_HEADER = struct.Struct(">BB")
_LONG = struct.Struct(">q")
_TWO_LONGS = struct.Struct(">qq")


class JournalCorrupt(DrlibError):
    """Bytes in a journal partition that no version of the mirror wrote, or that this one cannot read."""

    def __init__(self, why: str) -> None:
        super().__init__(
            "The lane's journal holds an entry that cannot be read",
            why,
            "Nothing was guessed: read the topic with kafka-console-consumer and find out who else writes to it.",
        )


@dataclass(frozen=True, slots=True)
class Claim:
    claim: ClaimId
    generation: int
    claimed_at_ms: int
    worker: str

    def key(self) -> bytes:
        return _header(1) + self.claim.pack()

    def value(self) -> bytes:
        return _VALUE + struct.pack(">iq", self.generation, self.claimed_at_ms) + pack_text(self.worker)


@dataclass(frozen=True, slots=True)
class TopicNames:
    """Which mirror topic, by name and ID, one incarnation of a source topic goes to."""

    topic_id: UUID
    source_topic: str
    target_topic: str
    target_topic_id: UUID

    def key(self) -> bytes:
        return _header(2) + self.topic_id.bytes

    def value(self) -> bytes:
        return _VALUE + pack_text(self.source_topic) + pack_text(self.target_topic) + self.target_topic_id.bytes


@dataclass(frozen=True, slots=True)
class Placement:
    """From record number `q` of the claim on, the target offset is `target_offset` + (q' - `q`)."""

    partition: SourcePartition
    claim: ClaimId
    q: int
    target_offset: int

    def key(self) -> bytes:
        return _header(3) + self.partition.pack() + self.claim.pack() + _LONG.pack(self.q)

    def value(self) -> bytes:
        return _VALUE + _LONG.pack(self.target_offset)


@dataclass(frozen=True, slots=True)
class Run:
    """From record number `q` of the claim on, the source offset is `source_offset` + (q' - `q`). Precedes the data."""

    partition: SourcePartition
    claim: ClaimId
    q: int
    source_offset: int

    def key(self) -> bytes:
        return _header(4) + self.partition.pack() + self.claim.pack() + _LONG.pack(self.q)

    def value(self) -> bytes:
        return _VALUE + _LONG.pack(self.source_offset)


@dataclass(frozen=True, slots=True)
class Ack:
    """The first `q` records of the claim are acknowledged; `target_offset` is one past the last. The newest counts."""

    partition: SourcePartition
    claim: ClaimId
    q: int
    target_offset: int

    def key(self) -> bytes:
        return _header(5) + self.partition.pack() + self.claim.pack()

    def value(self) -> bytes:
        return _VALUE + _TWO_LONGS.pack(self.q, self.target_offset)


@dataclass(frozen=True, slots=True)
class Sealed:
    """Recovery's finding: `q` records of that claim are in the log; if not `exact`, at least that many."""

    partition: SourcePartition
    claim: ClaimId
    q: int
    exact: bool

    def key(self) -> bytes:
        return _header(6) + self.partition.pack() + self.claim.pack()

    def value(self) -> bytes:
        return _VALUE + struct.pack(">qB", self.q, self.exact)


@dataclass(frozen=True, slots=True)
class Covered:
    """The source is read through to `source_offset` (exclusive), all its data is on the target. The newest counts."""

    partition: SourcePartition
    source_offset: int

    def key(self) -> bytes:
        return _header(7) + self.partition.pack()

    def value(self) -> bytes:
        return _VALUE + _LONG.pack(self.source_offset)


@dataclass(frozen=True, slots=True)
class SourceLoss:
    """Source offsets [`first`, `next_offset`) expired before they were read; found larger later, it supersedes."""

    partition: SourcePartition
    first: int
    next_offset: int
    at_ms: int

    def key(self) -> bytes:
        return _header(8) + self.partition.pack() + _LONG.pack(self.first)

    def value(self) -> bytes:
        return _VALUE + _TWO_LONGS.pack(self.next_offset, self.at_ms)


@dataclass(frozen=True, slots=True)
class SourceTruncated:
    """The source's log went back to `first` although it had been read through to `next_offset`."""

    partition: SourcePartition
    first: int
    next_offset: int
    at_ms: int

    def key(self) -> bytes:
        return _header(9) + self.partition.pack() + _TWO_LONGS.pack(self.first, self.next_offset)

    def value(self) -> bytes:
        return _VALUE + _LONG.pack(self.at_ms)


@dataclass(frozen=True, slots=True)
class Incarnation:
    """A source topic was made again under the same name."""

    source_topic: str
    old_topic_id: UUID
    new_topic_id: UUID
    at_ms: int

    def key(self) -> bytes:
        return _header(10) + pack_text(self.source_topic) + self.old_topic_id.bytes + self.new_topic_id.bytes

    def value(self) -> bytes:
        return _VALUE + _LONG.pack(self.at_ms)


@dataclass(frozen=True, slots=True)
class Parked:
    """The partition stopped at `source_offset`: what is from there on does not reach the target until it is resumed."""

    partition: SourcePartition
    source_offset: int
    reason: str
    at_ms: int

    def key(self) -> bytes:
        return _header(11) + self.partition.pack() + _LONG.pack(self.source_offset)

    def value(self) -> bytes:
        return _VALUE + pack_text(self.reason) + _LONG.pack(self.at_ms)


@dataclass(frozen=True, slots=True)
class Foreign:
    """`count` offsets from `target_offset` on in the mirror partition that somebody else wrote."""

    partition: SourcePartition
    target_offset: int
    count: int
    at_ms: int

    def key(self) -> bytes:
        return _header(12) + self.partition.pack() + _LONG.pack(self.target_offset)

    def value(self) -> bytes:
        return _VALUE + _TWO_LONGS.pack(self.count, self.at_ms)


@dataclass(frozen=True, slots=True)
class Unsure:
    """Between `low` and `high` records of the claim are, or were, in the log; nothing left can tell how many."""

    partition: SourcePartition
    claim: ClaimId
    low: int
    high: int
    at_ms: int

    def key(self) -> bytes:
        return _header(13) + self.partition.pack() + self.claim.pack()

    def value(self) -> bytes:
        return _VALUE + struct.pack(">qqq", self.low, self.high, self.at_ms)


@dataclass(frozen=True, slots=True)
class Clusters:
    """Which clusters the flow's two aliases stood for when the lane was claimed, by their IDs. The newest counts."""

    source_id: str
    target_id: str

    def key(self) -> bytes:
        return _header(14)

    def value(self) -> bytes:
        return _VALUE + pack_text(self.source_id) + pack_text(self.target_id)


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
        return _header(20) + self.partition.pack()

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
        return _VALUE + head + b"".join(_TWO_LONGS.pack(*pair) for pair in self.pairs)


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
    | Takeover
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


_VALUE = bytes([FORMAT])


def _header(kind: int) -> bytes:
    return _HEADER.pack(FORMAT, kind)


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
    14: lambda _, v: Clusters(v.text(), v.text()),
    13: lambda k, v: Unsure(k.partition(), k.claim(), v.number(), v.number(), v.integer()),
    20: lambda k, v: Takeover(
        k.partition(), v.number(), v.number(), v.integer(), v.number(), v.integer(), _pairs(v, v.integer(4))
    ),
}
