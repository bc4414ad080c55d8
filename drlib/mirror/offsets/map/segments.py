"""The mirrored stretches of one partition: millions of them, appended live and found by bisection on either side.

Rules: offsets of both sides ascend; stretches that are contiguous on both sides are merged.
Not for: why a stretch is present or missing; that is `offset_map`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import overload

from drlib.errors import DrlibError
from drlib.model import Segment


class MapContradiction(DrlibError):
    """The journal's entries of one partition contradict each other."""

    def __init__(self, why: str) -> None:
        super().__init__(
            "The journal's entries of a partition contradict each other",
            why,
            "Nothing was changed: check whether the source or mirror topic was truncated or re-created, then mirror it again.",
        )


class SegmentList(Sequence[Segment]):
    """Segments in four arrays: 32 bytes each, appended in constant time, found by bisection."""

    __slots__ = ("_before", "_counts", "_sources", "_targets")

    def __init__(self) -> None:
        self._sources = array("q")
        self._targets = array("q")
        self._counts = array("q")
        self._before = array("q")  # records in all segments before this one

    def append(self, source: int, target: int, count: int) -> None:
        """Raises `MapContradiction` when either side would go back."""
        if self._counts:
            source_end, target_end = self._sources[-1] + self._counts[-1], self._targets[-1] + self._counts[-1]
            if source < source_end or target < target_end:
                raise MapContradiction(
                    f"({source}, {target}) comes after source offset {source_end} and target offset {target_end}"
                )
            if source == source_end and target == target_end:
                self._counts[-1] += count
                return
        self._before.append(self._before[-1] + self._counts[-1] if self._counts else 0)
        self._sources.append(source)
        self._targets.append(target)
        self._counts.append(count)

    @overload
    def __getitem__(self, index: int) -> Segment: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Segment, ...]: ...
    def __getitem__(self, index: int | slice) -> Segment | tuple[Segment, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(len(self))))
        return Segment(self._sources[index], self._targets[index], self._counts[index])

    def __len__(self) -> int:
        return len(self._counts)

    @property
    def source_end(self) -> int | None:
        return self._sources[-1] + self._counts[-1] if self._counts else None

    @property
    def target_end(self) -> int | None:
        return self._targets[-1] + self._counts[-1] if self._counts else None

    def find_source(self, offset: int) -> tuple[Segment, Segment | None] | None:
        """The last segment that starts at or below a source offset, and the one after it; None before the first."""
        return self._pair(bisect_right(self._sources, offset) - 1)

    def find_target(self, offset: int) -> tuple[Segment, Segment | None] | None:
        """The last segment that starts at or below a target offset, and the one after it; None before the first."""
        return self._pair(bisect_right(self._targets, offset) - 1)

    def next_source(self, offset: int) -> int | None:
        """The first mirrored source offset at or after `offset`."""
        return self._next(self._sources, offset)

    def next_target(self, offset: int) -> int | None:
        """The first target offset at or after `offset` that holds a mirrored record."""
        return self._next(self._targets, offset)

    def mirrored(self, first: int, end: int) -> int:
        """How many records of source offsets [`first`, `end`) are on the target."""
        return max(0, self._below(self._sources, end) - self._below(self._sources, first))

    def on_target(self, first: int, end: int) -> int:
        """How many mirrored records are at target offsets [`first`, `end`)."""
        return max(0, self._below(self._targets, end) - self._below(self._targets, first))

    def _pair(self, index: int) -> tuple[Segment, Segment | None] | None:
        if index < 0:
            return None
        return self[index], self[index + 1] if index + 1 < len(self) else None

    def _next(self, starts: array[int], offset: int) -> int | None:
        index = bisect_right(starts, offset) - 1
        if index >= 0 and offset < starts[index] + self._counts[index]:
            return offset
        return starts[index + 1] if index + 1 < len(starts) else None

    def _below(self, starts: array[int], offset: int) -> int:
        index = bisect_right(starts, offset) - 1
        if index < 0:
            return 0
        return self._before[index] + min(self._counts[index], offset - starts[index])
