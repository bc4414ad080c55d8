"""What the offset syncs of a partition say of a position: where a group continues on the mirror, what it reads again. Pure.

A pair is a record's offset on the source and on the mirror. Rules:
- A position is translated as MirrorMaker 2 does it: to the pair at or before it, one further if it lies behind the pair's
  record. So no record is skipped. Before the first pair it is the start of the mirror's log, where MirrorMaker 2 gives up.
- What is read again lies between that and the next pair, or the end of the mirror: the bound.
- A MirrorMaker 2 that was killed begins again at its committed offset, and copies records a second time. Where it is killed
  again soon, the only copy of a record may lie in front of the second ones. So a pair counts once pairs behind it have come as
  far as anything in front of it can have come: as many records were copied between two pairs as the mirror has offsets there,
  at most. What lies behind the first pair that does not count may be read again too.
- Where offsets of the mirror go back, the mirror was made again: earlier pairs are about another log.
- A newest pair that is not in the mirror, or not in the source, is about topics of the same name that no longer exist.
Sources: `OffsetSyncStore`, `OffsetSyncWriter`, `MirrorSourceTask` of `connect.mirror`. Not for: reading the syncs
(`read_flow`), nor what MirrorMaker 2 copied before drlib (`drlib.mirror.offsets.map.taken_part`), which is compared.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from drlib.model import Translation, TranslationKind

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class UsablePairs:
    """`pairs` ascend on both sides; `left` are the mirror's offsets of those that do not count, ascending."""

    pairs: tuple[Pair, ...] = ()
    left: tuple[int, ...] = ()

    def next_left(self, offset: int) -> int | None:
        """The first of `left` at or behind `offset`."""
        index = bisect_left(self.left, offset)
        return self.left[index] if index < len(self.left) else None


def usable(written: Iterable[Pair]) -> UsablePairs:
    """Of the pairs of one partition, in the order they were written, those to translate by."""
    pairs: list[Pair] = []
    for pair in written:
        if pairs and pair[1] <= pairs[-1][1]:
            pairs = [] if pair != pairs[-1] else pairs[:-1]
        pairs.append(pair)
    if not pairs:
        return UsablePairs()
    reached = list(accumulate((up for up, _ in reversed(pairs)), max))[::-1]  # by this pair and those behind it
    overshot = [up + following[1] - down - 1 for (up, down), following in pairwise(pairs)]  # in front of the next pair
    ahead = [-1, *accumulate(overshot, max)]
    kept: list[Pair] = []
    left: list[int] = []
    for (up, down), upto, need in zip(pairs, reached, ahead, strict=True):
        begin = _position(kept, up)
        in_front = down - begin  # where records behind `up` may be, if offsets of the source were left out meanwhile
        repeated = not kept or down - kept[-1][1] > up - kept[-1][0]
        if upto < need or (kept and repeated and pairs[-1][1] - down < in_front - 1):
            left.append(down)
            continue
        while kept and kept[-1][0] >= up:
            kept.pop()
        kept.append((up, down))
    return UsablePairs(tuple(kept), tuple(left))


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
        if following is not None:
            return following
        pairs = self.usable.pairs
        left = self.usable.next_left(pairs[-1][1] if pairs else 0)
        return self.end if left is None else left

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
        if index >= 0 and position <= pairs[index][0] + 1 and self._once(index):
            end = min(end, begin)
        repeated = self.usable.next_left(end)  # from there on, records may have been copied again
        begin, kind = max(begin, self.start), TranslationKind.BOUNDED
        again = max(0, end - begin) + (0 if repeated is None else self.end - repeated)
        if not again and end >= self.start:
            kind = TranslationKind.EXACT
        return Translation(begin, kind, again)

    def _once(self, index: int) -> bool:
        """Was each record from this pair to the next one copied once?"""
        if index + 1 == len(self.usable.pairs):
            return True
        (up, down), (next_up, next_down) = self.usable.pairs[index : index + 2]
        return next_down - down <= next_up - up


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
