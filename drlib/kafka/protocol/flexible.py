"""Kafka's flexible encoding (KIP-482) for the two requests on the data path, without intermediate objects.

Rules: reading never runs past the end and never allocates by a length it has not checked; malformed bytes raise
`ValueError`, which the connection turns into its own error. Unknown tagged fields are skipped.
- `PlainReader` reads the same structures in the encoding before it, which has no tagged fields.
Not for: the other requests, which kafka-python's classes encode.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator
from typing import Final

NO_TAGS: Final = b"\0"
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def compact_string(value: str) -> bytes:
    data = value.encode()
    return uvarint(len(data) + 1) + data


class Reader:
    """A cursor over one response."""

    __slots__ = ("_at", "_view")

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._at = 0

    def _take(self, size: int) -> memoryview:
        end = self._at + size
        if end > len(self._view):
            raise ValueError(f"{size} bytes wanted at byte {self._at} of {len(self._view)}")
        taken = self._view[self._at : end]
        self._at = end
        return taken

    def fields(self, layout: struct.Struct) -> tuple[int, ...]:
        """Fixed-size numbers."""
        return layout.unpack(self._take(layout.size))

    def uuid(self) -> uuid.UUID:
        return uuid.UUID(bytes=bytes(self._take(16)))

    def uvarint(self) -> int:
        value = shift = 0
        while shift < 35:
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return value
            shift += 7
        raise ValueError(f"a number without end at byte {self._at}")

    def compact_bytes(self) -> memoryview | None:
        """A view of the bytes, not a copy; None for null."""
        size = self.uvarint()
        return None if size == 0 else self._take(size - 1)

    def compact_string(self) -> str | None:
        data = self.compact_bytes()
        return None if data is None else str(data, "utf-8")

    def array(self) -> range:
        """Indices of a compact array; empty for null. A count larger than the bytes left is refused."""
        count = self.uvarint() - 1
        if count > len(self._view) - self._at:
            raise ValueError(f"an array of {count} at byte {self._at} of {len(self._view)}")
        return range(max(count, 0))

    def structures(self) -> Iterator[int]:
        """`array`, of structures that end with tagged fields, which are skipped. Exhaust the iterator."""
        for number in self.array():
            yield number
            self.skip_tags()

    def tags(self) -> Iterator[tuple[int, Reader]]:
        """Tagged fields: number and a reader over the value. Exhaust the iterator, which moves the cursor past them."""
        for _ in range(self.uvarint()):
            tag = self.uvarint()
            yield tag, Reader(self._take(self.uvarint()))

    def skip_tags(self) -> None:
        for _ in self.tags():
            pass

    def rest(self) -> memoryview:
        return self._view[self._at :]


class PlainReader(Reader):
    """A cursor over a response in the encoding before KIP-482."""

    __slots__ = ()

    def compact_bytes(self) -> memoryview | None:
        (size,) = self.fields(_INT32)
        return None if size < 0 else self._take(size)

    def compact_string(self) -> str | None:
        (size,) = self.fields(_INT16)
        return None if size < 0 else str(self._take(size), "utf-8")

    def array(self) -> range:
        (count,) = self.fields(_INT32)
        if count > len(self._view) - self._at:
            raise ValueError(f"an array of {count} at byte {self._at} of {len(self._view)}")
        return range(max(count, 0))

    def tags(self) -> Iterator[tuple[int, Reader]]:
        return iter(())
