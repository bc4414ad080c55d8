"""Where a group continues on the other cluster in a topic that both directions copy under one name.

Rules: each log has the records of both clusters, in an order of its own, and two maps say where each record is on the other
log: that of the flow there for the records first written here, that of the flow back for those first written there. A group
continues at the first record there, in that log's order, that it has not read here; so nothing is skipped. What it has read
and what lies behind that record, it reads again; without any, the position is exact. Records that it has read and that are
not copied yet come later, and are read again then (`following`).
Not for: reading the maps, or writing positions; no command uses this yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drlib.model import Segment


@dataclass(frozen=True, slots=True)
class SharedPosition:
    """`offset` there; `again`: records at or behind it that the group has read; `following`: at most so many that it has read
    are still to be copied."""

    offset: int
    again: int
    following: int

    @property
    def exact(self) -> bool:
        return not self.again and not self.following


def shared_position(
    position: int, there: Sequence[Segment], back: Sequence[Segment], *, read_here: int, read_there: int, end: int
) -> SharedPosition:
    """Where a group at `position` here continues there.

    `there` and `back`: stretches of the maps of both directions, ascending, each from its own source to its own target.
    `read_here`: what the flow there has read of this log; `read_there`: what the flow back has read of the other one, which
    ends at `end`.
    """
    copied = _target_from(there, position)  # the first copy there that was not read here
    own = _source_from(back, position)  # the first record of the other cluster that was not read here
    unread = _behind_copies(there, read_there)  # may be a record of the other cluster that is not copied yet
    first = min(end, *(offset for offset in (copied, own, unread) if offset is not None))
    again = sum(_overlap(s.target, s.count, first, s.target + max(0, position - s.source)) for s in there)
    again += sum(_overlap(s.source, s.count, first, s.source + max(0, position - s.target)) for s in back)
    following = max(0, position - read_here) - sum(_overlap(s.target, s.count, read_here, position) for s in back)
    return SharedPosition(first, again, max(0, following))


def _target_from(stretches: Sequence[Segment], position: int) -> int | None:
    """The target offset of the first record at or behind a source position."""
    found = next((s for s in stretches if s.source_end > position), None)
    return None if found is None else found.target + max(0, position - found.source)


def _source_from(stretches: Sequence[Segment], position: int) -> int | None:
    """The source offset of the first record at or behind a target position."""
    found = next((s for s in stretches if s.target_end > position), None)
    return None if found is None else found.source + max(0, position - found.target)


def _behind_copies(stretches: Sequence[Segment], target: int) -> int:
    """The first target offset from `target` on that is no copy."""
    for each in stretches:
        if each.target <= target < each.target_end:
            target = each.target_end
    return target


def _overlap(start: int, count: int, first: int, end: int) -> int:
    """How many of `count` offsets from `start` on lie in [`first`, `end`)."""
    return max(0, min(start + count, end) - max(start, first))
