"""The fields that journal entries are made of, and reading them from bytes.

Rules: big-endian, fixed sizes, text as UTF-8 behind a 32-bit length. A reader takes fields one after another and knows
nothing of entries; whatever does not fit is a `ValueError`, which `journal.decode` names.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

from drlib.model import Segment

FORMAT = 1
VALUE = bytes([FORMAT])  # how every value begins

LONG = struct.Struct(">q")
TWO_LONGS = struct.Struct(">qq")
_HEADER = struct.Struct(">BB")
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
    """One taking-over of a lane: the producer ID and the epoch that InitProducerId gave."""

    producer_id: int
    epoch: int

    def pack(self) -> bytes:
        return _CLAIM.pack(self.producer_id, self.epoch)


def header(kind: int) -> bytes:
    """How every key begins."""
    return _HEADER.pack(FORMAT, kind)


def pack_text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">I", len(raw)) + raw


def pack_segments(segments: Sequence[Segment]) -> bytes:
    """Their number, then each as three LEB128 numbers: how far both sides moved since the one before, and its count."""
    out = bytearray()
    source = target = 0
    _varint(out, len(segments))
    for segment in segments:
        for number in (segment.source - source, segment.target - target, segment.count):
            _varint(out, number)
        source, target = segment.source_end, segment.target_end
    return bytes(out)


def pack_claims(claims: Sequence[ClaimId]) -> bytes:
    out = bytearray()
    _varint(out, len(claims))
    return bytes(out) + b"".join(claim.pack() for claim in claims)


def _varint(out: bytearray, number: int) -> None:
    if number < 0:
        raise ValueError(f"segments go back by {-number}")
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)


class Fields:
    """Reads fields one after another; raises `ValueError` (also as `UnicodeDecodeError`) for what is none."""

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
        found = self.integer()
        if found < 0:
            raise ValueError(f"{found} where an offset or a count belongs")
        return found

    def flag(self) -> bool:
        found = self.raw(1)[0]
        if found > 1:
            raise ValueError(f"{found} where 0 or 1 belongs")
        return found == 1

    def text(self) -> str:
        return self.raw(int.from_bytes(self.raw(4))).decode()

    def varint(self) -> int:
        number = shift = 0
        while True:
            byte = self.raw(1)[0]
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number
            if shift > 63:
                raise ValueError("a number of more than 64 bits")

    def segments(self) -> tuple[Segment, ...]:
        found: list[Segment] = []
        source = target = 0
        for _ in range(self.varint()):
            found.append(Segment(source + self.varint(), target + self.varint(), self.varint()))
            source, target = found[-1].source_end, found[-1].target_end
        return tuple(found)

    def claims(self) -> tuple[ClaimId, ...]:
        return tuple(self.claim() for _ in range(self.varint()))

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
