"""Mirrored stretches as a chunk has them: three LEB128 numbers each, decoded when they are read.

Rules: a journal may hold millions of stretches, some 3 bytes each and 130 as objects, so they stay packed until a map takes
them as whole columns. Numbers below 128, which most are, are decoded without a loop. What does not fit is a `ValueError`.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from operator import add
from typing import Final, overload

from drlib.decoding import MOST_INTEGER
from drlib.model import Segment

_CONTINUED: Final = bytes(range(0x80, 0x100))  # bytes of a number that others follow
_TOO_LONG: Final = re.compile(rb"[\x80-\xff]{10}")
# Fewer numbers than three times _MANY, each below 2^42, cannot add up to an offset that is too large.
_LONG: Final = re.compile(rb"[\x80-\xff]{6}")
_MANY: Final = 1 << 18
_THREE: Final = re.compile(rb"(?:[\x80-\xff]*[\x00-\x7f]){3}")


class PackedSegments(Sequence[Segment]):
    """Of each segment how far both sides moved since the one before, and its count. Equal to the same segments unpacked."""

    __slots__ = ("_count", "_first", "_rest")

    def __init__(self, count: int, raw: bytes) -> None:
        """`raw`: the numbers of `count` segments. Raises `ValueError` for any other number of them, or a longer one."""
        numbers = len(raw.translate(None, _CONTINUED))
        if numbers != 3 * count or (raw and raw[-1] > 0x7F):
            raise ValueError(f"{numbers} numbers in {len(raw)} bytes, where {count} segments have {3 * count}")
        if _TOO_LONG.search(raw):
            raise ValueError("a number of more than 64 bits")
        first = _THREE.match(raw)
        end = first.end() if first is not None else 0
        self._count = count
        self._first = tuple(_unpack(raw[:end]))
        self._rest = raw[end:]
        if (_LONG.search(raw) or count > _MANY) and max(self._ends()) > MOST_INTEGER:
            raise ValueError("an offset of more than 63 bits")

    def columns(self) -> tuple[array[int], array[int], array[int]]:
        """Source offsets, target offsets and counts."""
        if not self._count:
            return array("q"), array("q"), array("q")
        source, target, count = self._first
        numbers = _unpack(self._rest)
        counts = array("q", chain((count,), numbers[2::3]))
        # A stretch begins behind the one before it and the gap between them.
        sources = array("q", accumulate(map(add, numbers[::3], counts), initial=source))
        return sources, array("q", accumulate(map(add, numbers[1::3], counts), initial=target)), counts

    def _ends(self) -> tuple[int, int]:
        """Behind the last segment, on both sides."""
        source, target, count = self._first
        numbers = _unpack(self._rest)
        counted = count + sum(numbers[2::3])
        return source + sum(numbers[::3]) + counted, target + sum(numbers[1::3]) + counted

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Segment]:
        return map(Segment, *self.columns())

    @overload
    def __getitem__(self, index: int) -> Segment: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Segment, ...]: ...
    def __getitem__(self, index: int | slice) -> Segment | tuple[Segment, ...]:
        if index == 0 and self._count:
            return Segment(*self._first)
        if index == -1 and self._count > 1:
            (source_end, target_end), count = self._ends(), _unpack(self._rest)[-1]
            return Segment(source_end - count, target_end - count, count)
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


def _unpack(raw: bytes) -> Sequence[int]:
    if raw.isascii():
        return raw
    numbers: list[int] = []
    number = shift = 0
    for byte in raw:
        if byte < 0x80:
            numbers.append(number | byte << shift)
            number = shift = 0
        else:
            number |= (byte & 0x7F) << shift
            shift += 7
    return numbers
