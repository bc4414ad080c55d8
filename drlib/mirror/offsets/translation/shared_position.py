"""Where a group continues on the other cluster in a topic that both directions copy under one name. Pure.

Rules: each log has the records of both clusters, in an order of its own, and two maps say where each record is on the other
log: that of the flow there for the records first written here, that of the flow back for those first written there. A group
continues at the first record there, in that log's order, that it has not read here; so nothing is skipped. What it has read
and what lies behind that record, it reads again; without any, the position is exact. Records that it has read and that are
not copied yet come later, and are read again then (`following`).
- Without the map of the flow back, every record first written there counts as unread, from the first one on of which nothing
  else says that the group has read it. How many of them it reads again has a bound: no more than there are, and no more than
  this log has offsets before the position that hold no record of its own.
- What MirrorMaker 2 copied before a takeover is on both logs: a position before it is translated by what was compared, or by
  offset syncs, and one behind it has read all of it (`CopiesRead`). How much of it is read again has a bound.
- Of a map that was thinned out a position counts at the beginning of its part: again a bound, and nothing is skipped.
Not for: reading the maps and the log there (`shared_topics`), or writing positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.offsets.map.segments import SegmentList
from drlib.model import Translation, TranslationKind


@dataclass(frozen=True, slots=True)
class SharedPosition:
    """`offset` there; `again`: records at or behind it that the group has read; `following`: at most so many that it has read
    are still to be copied. `bound`: `again` is how many they are at most."""

    offset: int
    again: int
    following: int
    bound: bool = False

    @property
    def exact(self) -> bool:
        return not self.again and not self.following

    @property
    def translation(self) -> Translation:
        if self.exact:
            return Translation(self.offset, TranslationKind.EXACT)
        kind = TranslationKind.BOUNDED if self.again else TranslationKind.BEHIND
        return Translation(self.offset, kind, self.again + self.following)


@dataclass(frozen=True, slots=True)
class CopiesRead:
    """Of what MirrorMaker 2 copied, all below offset `offset` there was read here, and of the rest `again` records at most.

    `reached`: all of it was read here. `gone`: records that were not read here and have expired there. `own`: where in the log
    there are records that it did not copy. `source_end`: below this offset of the log here nothing was copied back.
    """

    offset: int
    again: int = 0
    reached: bool = True
    gone: int = 0
    own: Sequence[tuple[int, int]] = ()
    source_end: int = 0

    def read_again(self, first: int) -> int:
        """How many of its copies at `first` or behind it were read here, at most."""
        own = sum(max(0, min(end, self.offset) - max(begin, first)) for begin, end in self.own)
        return self.again + max(0, self.offset - first) - own


def copies_read(there: PartitionMap, back: PartitionMap | None, position: int, start: int) -> tuple[CopiesRead, ...]:
    """The same for a position here, of each direction that MirrorMaker 2 copied. `start`: where the log there begins."""
    found: list[CopiesRead] = []
    if (taken := there.taken) is not None:
        at, end = taken.takeover.source_offset, taken.takeover.target_offset
        part = _taken(end, taken.forward(position), taken.on_target, start) if position < at else CopiesRead(end)
        found.append(replace(part, own=taken.own or (), source_end=at))
    if back is not None and (taken := back.taken) is not None:
        at, end = taken.takeover.target_offset, taken.takeover.source_offset
        found.append(_taken(end, taken.backward(position), taken.mirrored, start) if position < at else CopiesRead(end))
    return tuple(found)


def _taken(end: int, found: Translation, copies: Callable[[int, int], int], start: int) -> CopiesRead:
    offset = end if found.offset is None else found.offset
    return CopiesRead(offset, 0 if found.exact else found.records, False, copies(offset, start))


def shared_position(
    position: int,
    there: SegmentList,
    back: SegmentList | None,
    *,
    read_here: int,
    unread: int | None,
    end: int,
    start: int = 0,
    taken: Sequence[CopiesRead] = (),
) -> SharedPosition:
    """Where a group at `position` here continues there.

    `there` and `back`: the mirrored stretches of both directions, each from its own source to its own target; `back` is None
    where that map cannot be read. `read_here`: what the flow there has read of this log. `unread`: the first record of the
    other log, which holds [`start`, `end`), that was first written there and is not known to be here (without `back`: not
    known to have been read); None where there is none.
    """
    copied = there.target_at(position)  # the first copy there that was not read here
    own = None if back is None else back.source_at(position)  # the first record of the other cluster not read here
    not_read = (each.offset for each in taken if not each.reached)
    first = min(offset for offset in (end, copied, own, unread, *not_read) if offset is not None)
    first = max(first, start)  # what was before it is gone
    again = there.straddling(position, first)
    again += sum(each.read_again(first) for each in taken)
    following = max(0, position - read_here)
    if back is not None:
        again += back.straddling(position, first, of_target=True)
        following = max(0, following - back.on_target_at_least(read_here, max(read_here, position)))
        bound = bool(taken) or there.thinned is not None or back.thinned is not None
        return SharedPosition(first, again, following, bound and again > 0)
    if unread is not None and unread < end:
        others = end - unread - there.on_target_at_least(unread, end)
        begin = max((each.source_end for each in taken), default=0)
        again += max(0, min(others, max(0, position - begin) - there.mirrored_at_least(0, position)))
    return SharedPosition(first, again, following, again > 0)


def may_be_own(there: PartitionMap, ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The parts of `ranges` of the other log, ascending, that neither the flow there nor MirrorMaker 2 wrote, as is known."""
    return not_copied(there.segments(), ranges if there.taken is None else there.taken.unread(ranges))


def not_copied(there: SegmentList, ranges: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The parts of `ranges` of the other log, ascending, that the flow there is not known to have written."""
    for at, end in ranges:
        while at < end:
            written = there.written_from(at)
            if written is None or written[0] >= end:
                yield at, end
                break
            if at < written[0]:
                yield at, written[0]
            at = max(at, written[1])
