"""The bytes of journal entries: how each type of field is written and read, and a base class that derives an entry's bytes.

Rules: big-endian, fixed sizes, text as UTF-8 behind a 32-bit length. An entry declares its kind, how many of its fields
are its identity (the key), and the types of its fields; the rest is the value. Whatever does not fit is a `ValueError`,
which `entries.decode` turns into `JournalCorrupt`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Annotated, Any, ClassVar, NamedTuple, Self, TypeVar, dataclass_transform, get_args, get_type_hints
from uuid import UUID

from drlib.decoding import MOST_INTEGER
from drlib.mirror.journal.packed_segments import PackedSegments
from drlib.model import Segment

FORMAT = 1
_VALUE_HEADER = bytes([FORMAT])
_LONG = struct.Struct(">q")
_INT = struct.Struct(">i")
_PARTITION = struct.Struct(">16si")
_CLAIM = struct.Struct(">qh")


@dataclass(frozen=True, slots=True, order=True)
class SourcePartition:
    """A partition of one incarnation of a source topic."""

    topic_id: UUID
    partition: int

    def pack(self) -> bytes:
        return _PARTITION.pack(self.topic_id.bytes, self.partition)


@dataclass(frozen=True, slots=True, order=True)
class ClaimId:
    """One claim of a lane: the producer ID and the epoch that InitProducerId returned."""

    producer_id: int
    epoch: int

    def pack(self) -> bytes:
        return _CLAIM.pack(self.producer_id, self.epoch)


def _pack_text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">I", len(raw)) + raw


def _pack_segments(segments: Sequence[Segment]) -> bytes:
    """Their number, then each as three LEB128 numbers: how far both sides moved since the one before, and its count."""
    out = bytearray()
    source = target = 0
    pack_varint(out, len(segments))
    for segment in segments:
        for number in (segment.source - source, segment.target - target, segment.count):
            pack_varint(out, number)
        source, target = segment.source_end, segment.target_end
    return bytes(out)


def _pack_claims(claims: Sequence[ClaimId]) -> bytes:
    out = bytearray()
    pack_varint(out, len(claims))
    return bytes(out) + b"".join(claim.pack() for claim in claims)


def _pack_pairs(pairs: Sequence[tuple[int, int]]) -> bytes:
    return _INT.pack(len(pairs)) + b"".join(_LONG.pack(number) for pair in pairs for number in pair)


def _pack_flag(flag: bool) -> bytes:
    return bytes([flag])


def pack_varint(out: bytearray, number: int) -> None:
    """Append a LEB128 number. Raises `ValueError` for a negative one."""
    if number < 0:
        raise ValueError(f"segments go back by {-number}")
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


class Fields:
    """Reads fields one after another; raises `ValueError` (`UnicodeDecodeError` among them) for bytes that do not fit."""

    __slots__ = ("_at", "_raw")

    def __init__(self, raw: bytes, at: int) -> None:
        self._raw = raw
        self._at = at

    def raw(self, size: int) -> bytes:
        at = self._at
        if len(self._raw) - at < size:
            raise ValueError(f"{size} bytes wanted at {at} of {len(self._raw)}")
        self._at = at + size
        return self._raw[at : at + size]

    def partition(self) -> SourcePartition:
        return _partition(self.raw(20))

    def claim(self) -> ClaimId:
        return _claim(self.raw(10))

    def uuid(self) -> UUID:
        return UUID(bytes=self.raw(16))

    def integer(self, size: int = 8) -> int:
        return int.from_bytes(self.raw(size), signed=True)

    def number(self) -> int:
        """An offset or a count: never negative."""
        number = self.integer()
        if number < 0:
            raise ValueError(f"{number} where an offset or a count belongs")
        return number

    def flag(self) -> bool:
        byte = self.raw(1)[0]
        if byte > 1:
            raise ValueError(f"{byte} where 0 or 1 belongs")
        return byte == 1

    def text(self) -> str:
        return self.raw(int.from_bytes(self.raw(4))).decode()

    def varint_up_to(self, most: int = MOST_INTEGER) -> int:
        number = self.varint()
        if number > most:
            raise ValueError(f"{number} where at most {most} belongs")
        return number

    def varint(self) -> int:
        number = shift = 0
        while True:
            byte = self.raw(1)[0]
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                if not byte and shift > 7:
                    raise ValueError("a number with a byte that it does not need")
                return number
            if shift > 63:
                raise ValueError("a number of more than 64 bits")

    def segments(self) -> PackedSegments:
        """Their number and, up to the end of the bytes, theirs."""
        count = self.varint()
        return PackedSegments(count, self.raw(len(self._raw) - self._at))

    def claims(self) -> tuple[ClaimId, ...]:
        return tuple(self.claim() for _ in range(self.varint()))

    def int32(self) -> int:
        return self.integer(4)

    def pairs(self) -> tuple[tuple[int, int], ...]:
        return tuple((self.number(), self.number()) for _ in range(self.int32()))

    @property
    def left(self) -> int:
        """Bytes not read yet: fields that a later version added are at the end."""
        return len(self._raw) - self._at

    def done(self) -> None:
        if self._at != len(self._raw):
            raise ValueError(f"{len(self._raw) - self._at} bytes too many")


# A journal repeats few partitions and claims very often.
@lru_cache(4096)
def _partition(raw: bytes) -> SourcePartition:
    topic_id, partition = _PARTITION.unpack(raw)
    if partition < 0:
        raise ValueError(f"partition {partition}")
    return SourcePartition(UUID(bytes=topic_id), partition)


@lru_cache(4096)
def _claim(raw: bytes) -> ClaimId:
    producer_id, epoch = _CLAIM.unpack(raw)
    if producer_id < 0 or epoch < 0:
        raise ValueError(f"producer ID {producer_id}, epoch {epoch}")
    return ClaimId(producer_id, epoch)


class FieldType(NamedTuple):
    """How one type of field is written and read."""

    pack: Callable[[Any], bytes]
    read: Callable[[Fields], Any]


Number = Annotated[int, FieldType(_LONG.pack, Fields.number)]
"""An offset or a count, 64 bits, never negative when read."""
Int64 = Annotated[int, FieldType(_LONG.pack, Fields.integer)]
Int32 = Annotated[int, FieldType(_INT.pack, Fields.int32)]
Segments = Annotated[Sequence[Segment], FieldType(_pack_segments, Fields.segments)]
Claims = Annotated[tuple[ClaimId, ...], FieldType(_pack_claims, Fields.claims)]
Pairs = Annotated[tuple[tuple[int, int], ...], FieldType(_pack_pairs, Fields.pairs)]
_TYPES: dict[object, FieldType] = {
    SourcePartition: FieldType(SourcePartition.pack, Fields.partition),
    ClaimId: FieldType(ClaimId.pack, Fields.claim),
    UUID: FieldType(lambda uuid: uuid.bytes, Fields.uuid),
    str: FieldType(_pack_text, Fields.text),
    bool: FieldType(_pack_flag, Fields.flag),
}


class JournalEntry:
    """Base of the entries: `key` and `value` are their bytes, `read` the way back."""

    __slots__ = ()
    KIND: ClassVar[int]
    _KEY: ClassVar[tuple[tuple[str, FieldType], ...]]
    _VALUE: ClassVar[tuple[tuple[str, FieldType], ...]]

    def key(self) -> bytes:
        """Format, kind, identity: equal keys supersede each other."""
        packed = bytes((FORMAT, self.KIND))
        for name, (pack, _) in self._KEY:
            packed += pack(getattr(self, name))
        return packed

    def value(self) -> bytes:
        packed = _VALUE_HEADER
        for name, (pack, _) in self._VALUE:
            packed += pack(getattr(self, name))
        return packed

    @classmethod
    def read(cls, key: Fields, value: Fields) -> Self:
        """Raises `ValueError`. The caller checks that no bytes are left over."""
        return cls(*[read(key) for _, (_, read) in cls._KEY], *[read(value) for _, (_, read) in cls._VALUE])


KINDS: dict[int, type[JournalEntry]] = {}
"""Every declared kind; `entries` imports the modules that declare them."""
E = TypeVar("E", bound=JournalEntry)


@dataclass_transform(frozen_default=True)
def entry(kind: int, *, key: int) -> Callable[[type[E]], type[E]]:
    """Make a class a frozen entry of `kind` whose first `key` fields are its identity."""

    def declare(cls: type[E]) -> type[E]:
        declared: type[E] = dataclass(frozen=True, slots=True)(cls)
        hints = get_type_hints(declared, include_extras=True)
        layout = tuple((field.name, _field_type(hints[field.name])) for field in fields(declared))  # type: ignore[arg-type]
        declared.KIND, declared._KEY, declared._VALUE = kind, layout[:key], layout[key:]
        KINDS[kind] = declared
        return declared

    return declare


def _field_type(hint: object) -> FieldType:
    return next((a for a in get_args(hint) if isinstance(a, FieldType)), None) or _TYPES[hint]
