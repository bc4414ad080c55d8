"""Translates positions in a stretch that MirrorMaker 2 copied, from its sparse offset syncs. Pure.

Rules: the result is never past the first record not yet read, and has a bound on how many records are read again.
Source: `OffsetSyncStore`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from drlib.model import Translation, TranslationKind


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
