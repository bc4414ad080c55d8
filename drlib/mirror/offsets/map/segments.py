"""The mirrored stretches of one partition: millions of them, appended live and found by bisection on either side.

Rules: offsets of both sides ascend; stretches that are contiguous on both sides are merged. Those that an `Expired` or a
`Thinned` covers are dropped, whether they are added before it or after it: of expired ones only the number is kept, of thinned
ones some beginnings, between which a record is found within bounds. Each costs 32 bytes.
Not for: why a stretch is present or missing; that is `offset_map`.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import overload

from drlib.errors import DrlibError
from drlib.mirror.journal.entries import Expired, SourcePartition, Thinned
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


@dataclass(frozen=True, slots=True)
class ThinnedPart:
    """`count` records from (`source`, `target`) on and before the ends, `before` of them earlier ones in all. The first record
    is at the beginning of both."""

    source: int
    target: int
    source_end: int
    target_end: int
    count: int
    before: int


class SegmentList(Sequence[Segment]):
    """Segments in four arrays: 32 bytes each, appended in constant time, found by bisection."""

    __slots__ = ("_before", "_counts", "_sources", "_targets", "_uncounted", "coarse", "expired", "thinned")

    def __init__(self) -> None:
        self._sources = array("q")
        self._targets = array("q")
        self._counts = array("q")
        self._before = array("q")  # records in all segments before this one, without `_uncounted`
        self._uncounted = 0  # records that were dropped, those in `coarse` included
        self.expired: Expired | None = None
        self.thinned: Thinned | None = None
        self.coarse: SegmentList | None = None  # the segments of `thinned`

    @property
    def dropped(self) -> Expired | Thinned | None:
        """What covers the segments before these, expired or thinned."""
        return self.thinned or self.expired

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
        elif (over := self.dropped) is not None:
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
        if not isinstance(segments, PackedSegments) or first.source < (
            self.dropped.source_end if self.dropped is not None else 0
        ):
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
        self.expired = expired
        if self.thinned is None or expired.source_end >= self.thinned.source_end:
            self.thinned = self.coarse = None
            self._drop(expired)

    def thin(self, thinned: Thinned) -> None:
        """Replace the segments that `thinned` covers, and ignore those that are added later."""
        if self.expired is not None and self.expired.source_end >= thinned.source_end:
            return
        coarse = SegmentList()
        for segment in thinned.segments:
            coarse.append(segment.source, segment.target, segment.count)
        coarse._uncounted = thinned.records - sum(segment.count for segment in thinned.segments)
        self.thinned, self.coarse = thinned, coarse
        self._drop(thinned)

    def _drop(self, expired: Expired | Thinned) -> None:
        gone = min(self._ended(self._sources, expired.source_end), self._ended(self._targets, expired.target_end))
        records = self._before[gone] if gone < len(self) else 0
        for values in (self._sources, self._targets, self._counts, self._before):
            del values[:gone]
        self._uncounted = expired.records - records

    def thinned_out(
        self, partition: SourcePartition, keep: int, at_most: int, beginnings: Iterable[int]
    ) -> Thinned | None:
        """All but the last `keep` segments as about `at_most` parts; None where these would be no fewer.

        A part begins also with the first record at or after each of the source offsets `beginnings`.
        """
        gone = len(self) - max(1, keep)
        older = self.coarse or SegmentList()
        count = len(older) + gone
        if gone < 1 or count <= at_most:
            return None
        sources = older._sources + self._sources[:gone]
        targets = older._targets + self._targets[:gone]
        before = array("q", (older._uncounted + n for n in older._before))
        before.extend(self._uncounted + n for n in self._before[: gone + 1])
        indices = {*range(0, count, -(-count // at_most)), *(bisect_left(sources, offset) for offset in beginnings)}
        begins = sorted(indices - {count})
        ends = [*begins[1:], count]
        parts = [Segment(sources[i], targets[i], before[j] - before[i]) for i, j in zip(begins, ends, strict=True)]
        last = self[gone - 1]
        return Thinned(partition, last.source_end, last.target_end, before[count], tuple(parts))

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
            return None if self.dropped is None else self.dropped.source_end
        return self._sources[-1] + self._counts[-1]

    @property
    def target_end(self) -> int | None:
        if not self._counts:
            return None if self.dropped is None else self.dropped.target_end
        return self._targets[-1] + self._counts[-1]

    def find_source(self, offset: int) -> tuple[Segment, Segment | None] | None:
        """The last segment that starts at or below a source offset, and the one after it; None before the first."""
        return self._pair(bisect_right(self._sources, offset) - 1)

    def find_target(self, offset: int) -> tuple[Segment, Segment | None] | None:
        """The last segment that starts at or below a target offset, and the one after it; None before the first."""
        return self._pair(bisect_right(self._targets, offset) - 1)

    def find_thinned(self, offset: int, *, of_target: bool = False) -> ThinnedPart | None:
        """The part of the thinned segments that an offset of one side belongs to; None before the first, and behind all."""
        if self.coarse is None or self.thinned is None:
            return None
        starts = self.coarse._targets if of_target else self.coarse._sources
        index = bisect_right(starts, offset) - 1
        if index < 0 or offset >= (self.thinned.target_end if of_target else self.thinned.source_end):
            return None
        begin = self.coarse[index]
        last = index + 1 == len(self.coarse)
        source_end = self.thinned.source_end if last else self.coarse._sources[index + 1]
        target_end = self.thinned.target_end if last else self.coarse._targets[index + 1]
        before = self.coarse.records_before(index)
        return ThinnedPart(begin.source, begin.target, source_end, target_end, begin.count, before)

    def next_source(self, offset: int) -> int | None:
        """The first mirrored source offset at or after `offset`. Of thinned ones those with which a part begins are known."""
        following = None if self.coarse is None else self.coarse.next_beginning(offset)
        return self._next(self._sources, offset) if following is None else following

    def next_beginning(self, offset: int) -> int | None:
        """Where the first segment begins that begins at or after a source offset."""
        index = bisect_left(self._sources, offset)
        return self._sources[index] if index < len(self) else None

    def next_target(self, offset: int) -> int | None:
        """The first target offset at or after `offset` that holds a mirrored record; not of thinned ones."""
        return self._next(self._targets, offset)

    def mirrored(self, first: int, end: int) -> int:
        """How many records of source offsets [`first`, `end`) are on the target; at most, from dropped ones on."""
        least, _ = self._below(first, of_target=False)
        _, most = self._below(end, of_target=False)
        return max(0, most - least)

    def mirrored_at_least(self, first: int, end: int) -> int:
        """The same, and at least."""
        _, most = self._below(first, of_target=False)
        least, _ = self._below(end, of_target=False)
        return max(0, least - most)

    def on_target(self, first: int, end: int) -> int:
        """How many mirrored records are at target offsets [`first`, `end`); at most, from dropped ones on."""
        least, _ = self._below(first, of_target=True)
        _, most = self._below(end, of_target=True)
        return max(0, most - least)

    def on_target_at_least(self, first: int, end: int) -> int:
        """The same, and at least."""
        _, most = self._below(first, of_target=True)
        least, _ = self._below(end, of_target=True)
        return max(0, least - most)

    def target_at(self, offset: int) -> int | None:
        """The target offset of the first record at or after a source offset; at most, among thinned ones. None without any."""
        if (part := self.find_thinned(offset)) is not None:
            return part.target
        if self.coarse and offset < self.coarse._sources[0]:
            return self.coarse._targets[0]
        return self._other_side(self._sources, self._targets, offset)

    def source_at(self, offset: int) -> int | None:
        """The source offset of the first record at or after a target offset; at most, among thinned ones. None without any."""
        if (part := self.find_thinned(offset, of_target=True)) is not None:
            return part.source
        if self.coarse and offset < self.coarse._targets[0]:
            return self.coarse._sources[0]
        return self._other_side(self._targets, self._sources, offset)

    def straddling(self, before: int, behind: int, *, of_target: bool = False) -> int:
        """How many records lie before offset `before` of the source and at or after `behind` of the target; the sides the other
        way round with `of_target`. At most, from dropped ones on."""
        _, most = self._below(before, of_target=of_target)
        least, _ = self._below(behind, of_target=not of_target)
        return max(0, most - least)

    def written_from(self, offset: int) -> tuple[int, int] | None:
        """The next target offsets at or after `offset` that are known to hold mirrored records, as (first, end)."""
        if self.coarse is not None and self.thinned is not None and offset < self.thinned.target_end:
            for index in range(max(0, bisect_right(self.coarse._targets, offset) - 1), len(self.coarse)):
                part = self.find_thinned(self.coarse._targets[index], of_target=True)
                if part is not None and part.count == part.target_end - part.target and offset < part.target_end:
                    return max(offset, part.target), part.target_end
        index = bisect_right(self._targets, offset) - 1
        if index < 0 or offset >= self._targets[index] + self._counts[index]:
            index += 1
        if index >= len(self):
            return None
        return max(offset, self._targets[index]), self._targets[index] + self._counts[index]

    def _other_side(self, starts: array[int], others: array[int], offset: int) -> int | None:
        index = bisect_right(starts, offset) - 1
        if index >= 0 and offset < starts[index] + self._counts[index]:
            return others[index] + offset - starts[index]
        return others[index + 1] if index + 1 < len(starts) else None

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

    def _below(self, offset: int, *, of_target: bool) -> tuple[int, int]:
        """How many records lie below an offset of one side, at least and at most: the same number but for dropped ones."""
        starts = self._targets if of_target else self._sources
        index = bisect_right(starts, offset) - 1
        if index >= 0:
            below = self._uncounted + self._before[index] + min(self._counts[index], offset - starts[index])
            return below, below
        if (part := self.find_thinned(offset, of_target=of_target)) is not None:
            begin, end = (part.target, part.target_end) if of_target else (part.source, part.source_end)
            return (
                part.before + max(0, part.count - max(0, end - offset)),
                part.before + min(part.count, offset - begin),
            )
        if self.thinned is not None and offset >= (self.thinned.target_end if of_target else self.thinned.source_end):
            return self.thinned.records, self.thinned.records
        if (over := self.expired) is None:
            return 0, 0
        behind = (over.target_end if of_target else over.source_end) - offset
        below = max(0, over.records - max(0, behind))
        return below, below
