"""Do two logs hold the same records in the same order? Decided from sums of their pieces, without putting records side by side.

Rules: a piece is a run of records as they lie, `PIECE` of them or fewer. Of each record there are four numbers of 32 bits,
the halves of two independent 64-bit hashes. `contents` are their sums: 128 bits that say nothing of order. `ordered` are
their sums modulo a prime, number n of a piece counting `multiplier ** n` times, so that the sums of a log follow from those of
its pieces, whatever their lengths. Both multipliers are drawn anew for each comparison: whoever wrote the records could not
know them. Records in another order, like ones among them, are another polynomial of the multiplier; four of these agree by
chance once in 2^124, or, were a log of 2^26 records made to have as many roots as it can, once in 2^10 for the two
multipliers. Sequences agree when their counts and all eight sums do, and then so does all they begin with.
Not for: saying what differs; whatever does not agree is compared record by record.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

PRIME: Final = 2**31 - 1  # a number of 32 bits times a weight below it fits into a long with its sign
PIECE: Final = 65_536
Four = tuple[int, int, int, int]
Multipliers = tuple[int, int]  # of the halves of the first hash, and of the second


@dataclass(frozen=True, slots=True)
class Piece:
    """Sums of records that follow each other: `first` and `last` are offsets, `newest_ms` the latest timestamp."""

    first: int
    last: int
    records: int
    newest_ms: int
    contents: Four
    ordered: Four


@dataclass(frozen=True, slots=True)
class Prefix:
    """The first `records` of a log, up to and with offset `last`; -1: none."""

    records: int
    last: int
    newest_ms: int
    contents: Four
    ordered: Four

    def agrees(self, other: Prefix) -> bool:
        return (self.records, self.contents, self.ordered) == (other.records, other.contents, other.ordered)


NOTHING: Final = Prefix(0, -1, -1, (0, 0, 0, 0), (0, 0, 0, 0))


@dataclass(frozen=True, slots=True)
class Agreement:
    """What two logs begin with in common: `records` of them, that end at these offsets. `whole`: there is nothing else.

    `newest_is_behind`: no timestamp among them is later than all of the source's that follow.
    """

    records: int
    source_last: int
    target_last: int
    whole: bool
    newest_is_behind: bool


def draw() -> Multipliers:
    """Two numbers that nobody knew before."""
    return secrets.randbelow(PRIME - 2 * PIECE) + PIECE, secrets.randbelow(PRIME - 2 * PIECE) + PIECE


def prefixes(pieces: Iterable[Piece], multipliers: Multipliers) -> Iterator[Prefix]:
    """What ends with each piece; `pieces` may come in any order, but nothing of the log may be in two of them."""
    at = NOTHING
    factors = (multipliers[0], multipliers[0], multipliers[1], multipliers[1])
    for piece in sorted(pieces, key=lambda one: one.first):
        if piece.first <= at.last:
            raise ValueError(f"offset {piece.first} is in two pieces")
        scale = [pow(factor, at.records, PRIME) for factor in factors]
        a, b, c, d = ((x + y * s) % PRIME for x, y, s in zip(at.ordered, piece.ordered, scale, strict=True))
        e, f, g, h = (x + y for x, y in zip(at.contents, piece.contents, strict=True))
        newest = max(at.newest_ms, piece.newest_ms)
        at = Prefix(at.records + piece.records, piece.last, newest, (e, f, g, h), (a, b, c, d))
        yield at


def agreement(source: Sequence[Piece], target: Sequence[Piece], multipliers: Multipliers) -> Agreement:
    """All that both have, where that is the same; else the longest beginning after which one common piece still follows.

    What follows then begins with records that are on both sides, so that who compares it sees the last that agree.
    """
    here = list(prefixes(source, multipliers))
    there = {one.records: one for one in prefixes(target, multipliers)}
    whole = here[-1] if here else NOTHING
    other = max(there.values(), key=lambda one: one.records, default=NOTHING)
    if whole.agrees(other):
        return Agreement(whole.records, whole.last, other.last, True, True)
    common = [(one, there[one.records]) for one in here if one.records in there and one.agrees(there[one.records])]
    before, after = common[-2] if len(common) > 1 else (NOTHING, NOTHING)
    following = max((piece.newest_ms for piece in source if piece.first > before.last), default=-1)
    return Agreement(before.records, before.last, after.last, False, before.newest_ms <= following)
