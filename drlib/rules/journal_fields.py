"""The fields that journal entries are made of, and reading them from bytes.

Rules: big-endian, fixed sizes, text as UTF-8 behind a 32-bit length. A reader takes fields one after another and knows
nothing of entries; whatever does not fit is a `ValueError`, which `journal.decode` names.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from uuid import UUID

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


def pack_text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">I", len(raw)) + raw


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
