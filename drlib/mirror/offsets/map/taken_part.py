"""Translates positions in the part of a partition that MirrorMaker 2 copied: exactly where both logs were compared, else from
its sparse offset syncs. Pure.

Rules:
- What was compared reaches from the takeover down to a position that moves on (`cursor`); each part of it is one entry.
- A position between two copies is exact where the mirror has nothing between them. Else it is the end of the first one, and
  bounded by what lies between: repetitions, control records, what only one log has. So nothing is ever skipped.
- Where both directions copy the topic, `own` says which records of the mirror are none of the copies (`OwnRecords`).
- Below the cursor the result is never past the first record not yet read, with a bound on how many are read again.
Source: `OffsetSyncStore`. Not for: comparing (`drlib.mirror.offsets.comparison`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from drlib.mirror.journal.entries import Compared, Takeover
from drlib.mirror.offsets.map.segments import SegmentList
from drlib.model import Segment, Translation, TranslationKind

SEGMENTS_PER_ENTRY: Final = 2000


@dataclass(frozen=True, slots=True)
class _Part:
    """What one entry says: all records from these positions on, up to the part above, are accounted for."""

    number: int
    source: int
    target: int
    segments: SegmentList


def within(ranges: Sequence[tuple[int, int]], offset: int) -> bool:
    """Is `offset` in one of `ranges`, (first, end) ascending, as `OwnRecords` has them?"""
    index = bisect_right(ranges, offset, key=lambda each: each[0]) - 1
    return index >= 0 and offset < ranges[index][1]


class TakenPart:
    """What another replicator copied before us, and what of it was compared."""

    def __init__(self, takeover: Takeover) -> None:
        self.takeover = takeover
        self.own: tuple[tuple[int, int], ...] | None = None  # the target's own records; None where that is not known
        self._parts: list[_Part] = []  # downwards

    # -- building ------------------------------------------------------------------------------------------------

    def apply(self, entry: Compared) -> None:
        """Take in an entry: one of the same number replaces another. What does not lie below the part above does not count."""
        index = bisect_left(self._parts, entry.number, key=lambda part: part.number)
        source, target = self._above(index)
        if entry.source_offset > source or entry.target_offset > target:
            return
        segments = SegmentList()
        segments.extend(entry.segments)
        self._parts[index:] = [_Part(entry.number, entry.source_offset, entry.target_offset, segments)]

    def forget(self) -> None:
        """Drop what was compared: it has expired on both clusters."""
        self._parts.clear()

    def extended(self, source: int, target: int, segments: Sequence[Segment]) -> list[Compared]:
        """The entries that say that also `segments`, and nothing else, lie between these positions and the cursor."""
        number = 0
        joined = SegmentList()
        joined.extend(segments)
        if self._parts and len(self._parts[-1].segments) + len(segments) <= SEGMENTS_PER_ENTRY:
            number = self._parts[-1].number
            for segment in self._parts[-1].segments:
                joined.append(segment.source, segment.target, segment.count)
        elif self._parts:
            number = self._parts[-1].number + 1
        entries = []
        while len(joined) > SEGMENTS_PER_ENTRY:
            upper = joined[-SEGMENTS_PER_ENTRY:]
            entries.append(
                Compared(self.takeover.partition, number, upper[0].source, upper[0].target, upper),
            )
            lower = SegmentList()
            lower.extend(joined[:-SEGMENTS_PER_ENTRY])
            joined, number = lower, number + 1
        return [*entries, Compared(self.takeover.partition, number, source, target, tuple(joined))]

    # -- queries ------------------------------------------------------------------------------------------------

    @property
    def cursor(self) -> tuple[int, int]:
        """The positions, on the source and on the target, down to which both logs were compared."""
        return self._above(len(self._parts))

    def forward(self, g: int) -> Translation:
        """Translate the source position `g`, below the takeover, to the target."""
        index = bisect_left(self._parts, -g, key=lambda part: -part.source)
        if index == len(self._parts):
            return translate_sparse(self._syncs(), self.cursor, g)
        part = self._parts[index]
        segment, following = part.segments.find_source(g) or (None, part.segments[0] if part.segments else None)
        if segment is not None and g < segment.source_end:
            return Translation(segment.target + g - segment.source, TranslationKind.EXACT)
        begin = part.target if segment is None else segment.target_end
        end = self._above(index)[1] if following is None else following.target
        if begin == end:
            return Translation(end, TranslationKind.EXACT)
        return Translation(begin, TranslationKind.BOUNDED, end - begin)

    def backward(self, t: int) -> Translation:
        """Translate the target position `t`, below the takeover, to the source."""
        index = bisect_left(self._parts, -t, key=lambda part: -part.target)
        if index == len(self._parts):
            source, target = self.cursor
            return translate_sparse([(d, u) for u, d in self._syncs()], (target, source), t)
        part = self._parts[index]
        segment, _ = part.segments.find_target(t) or (None, None)
        if segment is None:
            begin, end = part.source, part.target
        elif t < segment.target_end:
            return Translation(segment.source + t - segment.target, TranslationKind.EXACT)
        else:
            begin, end = segment.source_end, segment.target_end
        if t == end:
            return Translation(begin, TranslationKind.EXACT)
        return Translation(begin, TranslationKind.BOUNDED, t - end)

    def not_compared(self, first: int) -> Iterator[tuple[int, int]]:
        """The stretches of target offsets from `first` on, ascending, of which no record is known to be a copy of which."""
        at = first
        for segment in (segment for part in reversed(self._parts) for segment in part.segments):
            if at < segment.target:
                yield at, segment.target
            at = max(at, segment.target_end)
        if at < self.takeover.target_offset:
            yield at, self.takeover.target_offset

    def unread(self, ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Of `ranges` of the target's log, ascending, what may hold the target's own records."""
        end = self.takeover.target_offset
        for first, last in ranges:
            yield from ((a, b) for low, high in self.own or () if (a := max(first, low)) < (b := min(last, high)))
            if last > end:
                yield max(first, end), last

    def mirrored(self, first: int, end: int) -> int:
        """How many records of source offsets [`first`, `end`) are known to be on the target."""
        return sum(part.segments.mirrored(first, end) for part in self._parts)

    def on_target(self, first: int, end: int) -> int:
        """How many known copies are at target offsets [`first`, `end`)."""
        return sum(part.segments.on_target(first, end) for part in self._parts)

    def _above(self, index: int) -> tuple[int, int]:
        """Where the part above begins: that is the end of part `index`."""
        if not index:
            return self.takeover.source_offset, self.takeover.target_offset
        return self._parts[index - 1].source, self._parts[index - 1].target

    def _syncs(self) -> Sequence[tuple[int, int]]:
        """The offset syncs below the cursor."""
        source, target = self.cursor
        pairs = self.takeover.pairs
        return pairs[
            : min(bisect_left(pairs, source, key=lambda p: p[0]), bisect_left(pairs, target, key=lambda p: p[1]))
        ]


def translate_sparse(pairs: Sequence[tuple[int, int]], end: tuple[int, int], position: int) -> Translation:
    """Translate `position`, below `end`[0], in the copied stretch whose last pair of positions is `end`.

    `records` of the result is the bound on what is read again: the records between it and the next pair.
    """
    index = bisect_right(pairs, position, key=lambda pair: pair[0]) - 1
    start = 0
    if index >= 0:
        upstream, downstream = pairs[index]
        start = downstream if upstream == position else downstream + 1
    following = pairs[index + 1][1] if index + 1 < len(pairs) else end[1]
    return Translation(start, TranslationKind.BOUNDED, max(0, following - start))
