"""Do two logs hold the same records in the same order? Decided from sums of their pieces, without comparing records. Pure.

Rules: a piece is a run of consecutive records, `PIECE` of them or fewer. Each record gives four 32-bit numbers, the halves of
two independent 64-bit hashes. `contents` are their sums: 128 bits that are independent of order. `ordered` are their sums
modulo a prime, number n of a piece multiplied by `multiplier ** n`, so that the sums of a log follow from those of its
pieces, whatever their lengths. Both multipliers are drawn for each comparison: the writers of the records cannot know them.
Records in another order, equal ones among them, are another polynomial of the multiplier; four of these agree by chance
once in 2^124, or, for a log of 2^26 records made to have as many roots as possible, once in 2^10 for the two multipliers.
Sequences agree when their counts and all eight sums do, and then so do all their prefixes.
Not for: what differs; logs that do not agree are compared record by record.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

PRIME: Final = 2**31 - 1  # a number of 32 bits times a weight below it fits into a long with its sign
PIECE: Final = 65_536
FourSums = tuple[int, int, int, int]
Multipliers = tuple[int, int]  # for the halves of the first hash and of the second


@dataclass(frozen=True, slots=True)
class Piece:
    """Sums of consecutive records: `first` and `last` are offsets, `newest_ms` the latest timestamp."""

    first: int
    last: int
    records: int
    newest_ms: int
    contents: FourSums
    ordered: FourSums


@dataclass(frozen=True, slots=True)
class Prefix:
    """The first `records` of a log, up to and including offset `last` (-1: none)."""

    records: int
    last: int
    newest_ms: int
    contents: FourSums
    ordered: FourSums

    def agrees(self, other: Prefix) -> bool:
        return (self.records, self.contents, self.ordered) == (other.records, other.contents, other.ordered)


NOTHING: Final = Prefix(0, -1, -1, (0, 0, 0, 0), (0, 0, 0, 0))


@dataclass(frozen=True, slots=True)
class Agreement:
    """The common prefix of two logs: `records` of them, ending at these offsets. `whole`: neither log has more.

    `newest_is_behind`: no timestamp in it is later than all of the source's that follow.
    """

    records: int
    source_last: int
    target_last: int
    whole: bool
    newest_is_behind: bool


def draw_multipliers() -> Multipliers:
    """Two random numbers, unpredictable for the writers of the records."""
    return secrets.randbelow(PRIME - 2 * PIECE) + PIECE, secrets.randbelow(PRIME - 2 * PIECE) + PIECE


def prefixes(pieces: Iterable[Piece], multipliers: Multipliers) -> Iterator[Prefix]:
    """The prefix that ends with each piece; `pieces` in any order, each offset in one of them. Raises ValueError otherwise."""
    prefix = NOTHING
    factors = (multipliers[0], multipliers[0], multipliers[1], multipliers[1])
    for piece in sorted(pieces, key=lambda piece: piece.first):
        if piece.first <= prefix.last:
            raise ValueError(f"offset {piece.first} is in two pieces")
        scale = [pow(factor, prefix.records, PRIME) for factor in factors]
        a, b, c, d = ((x + y * s) % PRIME for x, y, s in zip(prefix.ordered, piece.ordered, scale, strict=True))
        e, f, g, h = (x + y for x, y in zip(prefix.contents, piece.contents, strict=True))
        newest = max(prefix.newest_ms, piece.newest_ms)
        prefix = Prefix(prefix.records + piece.records, piece.last, newest, (e, f, g, h), (a, b, c, d))
        yield prefix


def agreement(source: Sequence[Piece], target: Sequence[Piece], multipliers: Multipliers) -> Agreement:
    """The whole logs where they agree; else the longest common prefix that is followed by one more common piece.

    So what follows begins with records that are on both sides, and an audit of the rest sees the last ones that agree.
    """
    source_prefixes = list(prefixes(source, multipliers))
    target_prefixes = {prefix.records: prefix for prefix in prefixes(target, multipliers)}
    longest = source_prefixes[-1] if source_prefixes else NOTHING
    target_longest = max(target_prefixes.values(), key=lambda prefix: prefix.records, default=NOTHING)
    if longest.agrees(target_longest):
        return Agreement(longest.records, longest.last, target_longest.last, True, True)
    common = [
        (prefix, target_prefixes[prefix.records])
        for prefix in source_prefixes
        if prefix.records in target_prefixes and prefix.agrees(target_prefixes[prefix.records])
    ]
    before, after = common[-2] if len(common) > 1 else (NOTHING, NOTHING)
    following = max((piece.newest_ms for piece in source if piece.first > before.last), default=-1)
    return Agreement(before.records, before.last, after.last, False, before.newest_ms <= following)
