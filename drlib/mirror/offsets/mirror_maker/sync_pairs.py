"""What the offset syncs of a partition say of a position: where a group continues on the mirror, what it reads again. Pure.

A pair is a record's offset on the source and on the mirror. Rules:
- A position is translated as MirrorMaker 2 does it: to the pair at or before it, one further if it lies behind the pair's
  record. So no record is skipped. Before the first pair it is the start of the mirror's log, where MirrorMaker 2 gives up.
- What is read again lies between that and the next pair, or the end of the mirror: the bound, which is certain.
- A MirrorMaker 2 that was killed begins again at its committed offset, and copies records a second time. The pairs of such a
  run count once it has certainly come as far as the runs before it. If it was killed again before, the only copy of a record
  may lie in front of its pairs: then only the earlier pairs count.
- Where offsets of the mirror go back, the mirror was made again: earlier pairs are about another log.
- A newest pair that is not in the mirror, or not in the source, is about topics of the same name that no longer exist.
Sources: `OffsetSyncStore`, `OffsetSyncWriter`, `MirrorSourceTask` of `connect.mirror`. Not for: reading the syncs
(`read_flow`), nor what MirrorMaker 2 copied before drlib (`drlib.mirror.offsets.map.taken_part`), which is compared.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from drlib.model import Translation, TranslationKind

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class UsablePairs:
    """`pairs` ascend on both sides. `before`: where the mirror has the first record of a run whose pairs do not count yet; None
    where all count."""

    pairs: tuple[Pair, ...] = ()
    before: int | None = None


def usable(written: Iterable[Pair]) -> UsablePairs:
    """Of the pairs of one partition, in the order they were written, those to translate by."""
    kept: list[Pair] = []
    again: list[Pair] = []  # of a run that began again
    goal_up = goal_down = -1  # it has come as far as the runs before it when it has both
    for pair in written:
        up, down = pair
        last = again[-1] if again else kept[-1] if kept else None
        if last == pair:
            continue
        if last is None:
            kept.append(pair)
        elif down <= last[1]:
            kept, again, goal_up = [pair], [], -1
        elif up <= last[0]:
            begin = _position(kept, up)
            goal_up = max(goal_up, last[0] + down - last[1] - 1)
            goal_down = down + (down - begin) - 1
            again = [pair]
        else:
            (again or kept).append(pair)
        if again and again[-1][0] >= goal_up and again[-1][1] >= goal_down:
            while kept and kept[-1][0] >= again[0][0]:
                kept.pop()
            kept, again, goal_up = kept + again, [], -1
    return UsablePairs(tuple(kept), again[0][1] if again else None)


def _position(pairs: Sequence[Pair], position: int) -> int:
    """The earliest offset of the mirror at which a record from `position` on can be; 0 before the first pair."""
    index = bisect_right(pairs, position, key=lambda pair: pair[0]) - 1
    if index < 0:
        return 0
    up, down = pairs[index]
    return down if position == up else down + 1


@dataclass(frozen=True, slots=True)
class SyncedPartition:
    """A partition that MirrorMaker 2 mirrors; `start` and `end` are of the mirror's log.

    `newest`: its last pair. `committed`: the last source offset whose copy Connect has noted. Either is None where it is not
    known, or not about the topics of today; `why` says why nothing is known.
    """

    start: int
    end: int
    usable: UsablePairs = UsablePairs()
    newest: Pair | None = None
    committed: int | None = None
    why: str = ""

    @property
    def least(self) -> int | None:
        """The source offset below which all was mirrored, at least; None where it is not known."""
        known = [at + 1 for at in (self.committed, None if self.newest is None else self.newest[0]) if at is not None]
        return max(known, default=None)

    @property
    def most(self) -> int | None:
        """The same at most, where the source's offsets have no gaps behind the newest pair (a gap is followed by a pair)."""
        least = self.least
        if least is None or self.newest is None:
            return None
        up, down = self.newest
        return max(least, up + self.end - down)

    def forward(self, position: int) -> Translation:
        """Where a group at the source's `position` continues on the mirror."""
        return self._from(_position(self.usable.pairs, position), position)

    def from_checkpoint(self, position: int, upstream: int, offset: int) -> Translation | None:
        """The same by the group's checkpoint, `offset` for `upstream`; None where the pairs are as good, or deny it."""
        if upstream > position or offset <= _position(self.usable.pairs, position) or offset > self._limit(upstream):
            return None
        return self._from(offset, position)

    def _limit(self, upstream: int) -> int:
        """The first offset of the mirror that may hold the only copy of a record from `upstream` on, at the latest."""
        following = self._next(upstream - 1)
        if following is None:
            return self.end if self.usable.before is None else self.usable.before
        return following

    def _next(self, position: int) -> int | None:
        """Where the first pair behind `position` has its record on the mirror."""
        pairs = self.usable.pairs
        index = bisect_right(pairs, position, key=lambda pair: pair[0])
        return pairs[index][1] if index < len(pairs) else None

    def _from(self, begin: int, position: int) -> Translation:
        pairs = self.usable.pairs
        index = bisect_right(pairs, position, key=lambda pair: pair[0]) - 1
        following = self._next(position)
        end = self.end if following is None else following
        if index >= 0 and position <= pairs[index][0] + 1:
            end = min(end, begin)
        begin, kind = max(begin, self.start), TranslationKind.BOUNDED
        again = max(0, end - begin)
        if not again and end >= self.start:
            kind = TranslationKind.EXACT
        return Translation(begin, kind, again)


def of_today(
    written: Sequence[Pair], start: int, end: int, committed: int | None, source_end: int | None
) -> SyncedPartition:
    """A partition by its pairs in written order; `end` of the mirror and `source_end` (None: unknown) were read after them."""
    newest = written[-1] if written else None
    if newest is not None and newest[1] >= end:
        why = f"the mirror ends at {end}, before offset {newest[1]} of its newest offset sync"
        return SyncedPartition(start, end, why=why)
    pairs = usable(written)
    for at in (committed, None if newest is None else newest[0]):
        if at is not None and source_end is not None and at >= source_end:
            why = f"the source ends at {source_end}, and offset {at} of it was mirrored"
            return SyncedPartition(start, end, pairs, why=why)
    why = "" if newest is not None or committed is not None else "no offset sync and no committed offset names it"
    return SyncedPartition(start, end, pairs, newest, committed, why)
