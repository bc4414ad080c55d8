"""Aligns the end of a source log with the end of what another replicator copied: which record is a copy of which. Pure.

Rules:
- A record is its content (key, value, headers, timestamp), as often as it occurs. A source position corresponds to the last
  position of the mirror behind which every later record of the source follows, in order. So of several copies the last one
  counts: a group that resumes there misses nothing, and gets nothing that it has read but contents that follow, too. Neighbours
  of equal content do no harm, whichever of them is the copy.
- A replicator that was restarted begins again at or before the end of its last copy. So a record of the mirror that is not
  the next one is skipped as a repetition where its content follows the position on the source.
- Records that one side alone has are skipped only where that side explains it: the other one has offsets without records
  (cleaned, control records) for each of them, or the source's belong to transactions, which may be aborted; and where the
  mirror's part has no such content before. What comes before them is matched again at a record whose content occurs once on
  each side; without one, or without an explanation, the alignment ends. So the parts must be larger than what a replicator
  repeats.
Source: `MirrorSourceTask`, which copies each partition in order, at least once. Not for: reading logs (`compare_logs`), nor
for what a gap means for a position (`drlib.mirror.offsets.map.taken_part`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from drlib.model import Segment

_LONGEST_CLEANED: Final = 100_000  # records of one side in which cleaned stretches are looked for


@dataclass(frozen=True)
class LogPart:
    """The records of one side from offset `start` on: ascending offsets, and 64 bits that equal contents share.

    `begins`: the log holds nothing before `start`. `transactional`: of each record, whether it may be aborted; empty: none may.
    """

    start: int
    offsets: array[int]
    contents: array[int]
    begins: bool
    transactional: bytes = b""

    @cached_property
    def times(self) -> Counter[int]:
        """How often each content occurs."""
        return Counter(self.contents)

    @cached_property
    def first(self) -> dict[int, int]:
        """By content: the index of its first record."""
        return {content: len(self.contents) - 1 - n for n, content in enumerate(reversed(self.contents))}

    @cached_property
    def last(self) -> dict[int, int]:
        """By content: the index of its last record."""
        return {content: index for index, content in enumerate(self.contents)}


@dataclass(frozen=True, slots=True)
class Alignment:
    """All records from these positions on are accounted for; `segments` are the copies, ascending.

    `finished`: one side has nothing before its position. `why`: what ended the alignment before either part did.
    """

    source: int
    target: int
    segments: tuple[Segment, ...] = ()
    finished: bool = False
    why: str = ""


def align(source: LogPart, mirror: LogPart, at: tuple[int, int]) -> Alignment:
    """Align what lies below the positions `at`, which correspond.

    `source` may go beyond its position, because repetitions are recognized by what follows it; `mirror` ends at its own.
    """
    copies = _Copies()
    low_source, low_target = at
    i, j = bisect_left(source.offsets, at[0]) - 1, len(mirror.offsets) - 1
    why = ""
    while i >= 0 and j >= 0:
        if source.contents[i] == mirror.contents[j]:
            low_source, low_target = source.offsets[i], mirror.offsets[j]
            copies.add(low_source, low_target)
            i, j = i - 1, j - 1
        elif source.last.get(mirror.contents[j], -1) > i:  # a repetition
            low_target = mirror.offsets[j]
            j -= 1
        elif (found := _before_cleaned(source, mirror, i, j, (low_source, low_target))) is not None:
            i, j = found
        else:
            why = f"the source's record {source.offsets[i]} is not the mirror's {mirror.offsets[j]}"
            break
    ended_source, ended_mirror = i < 0, j < 0
    if ended_source and (source.begins or low_source == at[0]):
        low_source = min(low_source, source.start)
    if ended_mirror and (mirror.begins or low_target == at[1]):
        low_target = min(low_target, mirror.start)
    finished = (ended_source and source.begins) or (ended_mirror and mirror.begins)
    return Alignment(low_source, low_target, copies.segments(), finished, why)


class _Copies:
    """Stretches of copies, found from the last one down."""

    def __init__(self) -> None:
        self._found: list[Segment] = []
        self._source = self._target = self._count = 0

    def add(self, source: int, target: int) -> None:
        if self._count and source + 1 == self._source and target + 1 == self._target:
            self._count += 1
        else:
            self._close()
            self._count = 1
        self._source, self._target = source, target

    def _close(self) -> None:
        if self._count:
            self._found.append(Segment(self._source, self._target, self._count))

    def segments(self) -> tuple[Segment, ...]:
        self._close()
        return tuple(reversed(self._found))


def _before_cleaned(source: LogPart, mirror: LogPart, i: int, j: int, low: tuple[int, int]) -> tuple[int, int] | None:
    """The indices of the next records that correspond for certain, where what lies between is explained; else None.

    `low`: the positions from which on everything is accounted for.
    """
    if max(len(source.contents), len(mirror.contents)) > _LONGEST_CLEANED:
        return None
    for at in range(i, -1, -1):
        content = source.contents[at]
        if source.times[content] == 1 and mirror.times[content] == 1:
            there = mirror.last[content]
            break
    else:
        return None
    if there > j:
        return None  # the order is another one
    only_source, only_mirror = i - at, j - there
    gone_from_source = low[0] - source.offsets[at] - 1 - only_source
    gone_from_mirror = low[1] - mirror.offsets[there] - 1 - only_mirror
    certain = only_source - sum(source.transactional[at + 1 : i + 1])
    if certain > gone_from_mirror or only_mirror > gone_from_source:
        return None
    if any(mirror.first.get(source.contents[n], j + 1) <= j for n in range(at + 1, i + 1)):
        return None  # it was copied
    return at, there
