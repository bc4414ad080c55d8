"""The mirrored stretches of one partition: millions of them, appended live and found by bisection on either side.

Rules: offsets of both sides ascend; stretches that are contiguous on both sides are merged. Those that an `Expired` covers
are dropped, whether they are added before it or after it: only their number counts. Each costs 32 bytes.
Not for: why a stretch is present or missing; that is `offset_map`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import overload

from drlib.errors import DrlibError
from drlib.mirror.journal.entries import Expired
from drlib.mirror.journal.packed_segments import PackedSegments
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

    __slots__ = ("_before", "_counts", "_sources", "_targets", "_uncounted", "expired")

    def __init__(self) -> None:
        self._sources = array("q")
        self._targets = array("q")
        self._counts = array("q")
        self._before = array("q")  # records in all segments before this one, without `_uncounted`
        self._uncounted = 0  # records that expired before a segment was added
        self.expired: Expired | None = None

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
        elif self.expired is not None:
            over = self.expired
            if source + count <= over.source_end and target + count <= over.target_end:
                return
            if source < over.source_end or target < over.target_end:
                raise MapContradiction(
                    f"({source}, {target}) comes after source offset {over.source_end} and target offset {over.target_end}"
                )
        self._before.append(self._before[-1] + self._counts[-1] if self._counts else 0)
        self._sources.append(source)
        self._targets.append(target)
        self._counts.append(count)

    def extend(self, segments: Sequence[Segment]) -> None:
        """Add segments in order. Raises `MapContradiction` as `append`; none of those that follow the first can go back."""
        if not segments:
            return
        first = segments[0]
        over = 0 if self.expired is None else self.expired.source_end
        if not isinstance(segments, PackedSegments) or first.source < over:
            for segment in segments:
                self.append(segment.source, segment.target, segment.count)
            return
        self.append(first.source, first.target, first.count)
        sources, targets, counts = segments.columns()
        self._before.extend(
            accumulate(counts[1:-1], initial=self._before[-1] + self._counts[-1]) if len(counts) > 1 else ()
        )
        self._sources.extend(sources[1:])
        self._targets.extend(targets[1:])
        self._counts.extend(counts[1:])

    def expire(self, expired: Expired) -> None:
        """Drop the segments that `expired` covers, and ignore those that are added later."""
        gone = min(self._ended(self._sources, expired.source_end), self._ended(self._targets, expired.target_end))
        records = self._before[gone] if gone < len(self) else 0
        for values in (self._sources, self._targets, self._counts, self._before):
            del values[:gone]
        self._uncounted = expired.records - records
        self.expired = expired

    def expirable(self, source_start: int, target_start: int) -> int:
        """How many of the first segments lie below both log starts. The last one counts never: it is the mirror's end."""
        ended = min(self._ended(self._sources, source_start), self._ended(self._targets, target_start))
        return max(0, min(ended, len(self) - 1))

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

    def records_before(self, index: int) -> int:
        """How many records are in the segments before one, expired ones included."""
        return self._uncounted + self._before[index]

    @property
    def source_end(self) -> int | None:
        if not self._counts:
            return None if self.expired is None else self.expired.source_end
        return self._sources[-1] + self._counts[-1]

    @property
    def target_end(self) -> int | None:
        if not self._counts:
            return None if self.expired is None else self.expired.target_end
        return self._targets[-1] + self._counts[-1]

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
        """How many records of source offsets [`first`, `end`) are on the target; at most, from expired ones on."""
        over = 0 if self.expired is None else self.expired.source_end
        return max(0, self._below(self._sources, end, over) - self._below(self._sources, first, over))

    def on_target(self, first: int, end: int) -> int:
        """How many mirrored records are at target offsets [`first`, `end`); at most, from expired ones on."""
        over = 0 if self.expired is None else self.expired.target_end
        return max(0, self._below(self._targets, end, over) - self._below(self._targets, first, over))

    def _pair(self, index: int) -> tuple[Segment, Segment | None] | None:
        if index < 0:
            return None
        return self[index], self[index + 1] if index + 1 < len(self) else None

    def _next(self, starts: array[int], offset: int) -> int | None:
        index = bisect_right(starts, offset) - 1
        if index >= 0 and offset < starts[index] + self._counts[index]:
            return offset
        return starts[index + 1] if index + 1 < len(starts) else None

    def _ended(self, starts: array[int], offset: int) -> int:
        """How many of the first segments end at or below an offset of one side."""
        index = bisect_right(starts, offset) - 1
        return index + (starts[index] + self._counts[index] <= offset) if index >= 0 else 0

    def _below(self, starts: array[int], offset: int, expired_end: int) -> int:
        """How many records lie below an offset of one side; at least, where expired ones lie behind it."""
        index = bisect_right(starts, offset) - 1
        if index >= 0:
            return self._uncounted + self._before[index] + min(self._counts[index], offset - starts[index])
        if self.expired is None:
            return 0
        return max(0, self.expired.records - max(0, expired_end - offset))
