"""Positions in a stretch that MirrorMaker 2 copied, by literal syncs."""

from __future__ import annotations

import pytest

from drlib.mirror.offsets.map.sparse_syncs import translate_sparse
from drlib.model import Translation, TranslationKind


@pytest.mark.parametrize(
    ("position", "offset", "read_again"),
    [
        (5, 0, 90),  # before the first sync
        (100, 90, 100),
        (150, 91, 99),
        (200, 190, 1),  # the next sync is of the next record that was copied
        (203, 191, 0),  # only aborted records were between the two
        (299, 192, 98),
    ],
)
def test_translate_sparse_bound_reaches_to_the_next_pair(position: int, offset: int, read_again: int) -> None:
    pairs = ((100, 90), (200, 190), (205, 191))
    assert translate_sparse(pairs, (300, 290), position) == Translation(offset, TranslationKind.BOUNDED, read_again)
