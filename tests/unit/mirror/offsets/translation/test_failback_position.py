"""Where a group goes on that comes back, by literal cases."""

from __future__ import annotations

import pytest
from small_maps import C1, TWO_RUNS, P, built

from drlib.mirror.journal.entries import Covered, Placement, Run, SourceTruncated
from drlib.mirror.offsets.translation.failback_position import Returned, failback_position
from drlib.model import Translation, TranslationKind

EXACT, BOUNDED, UNKNOWN = TranslationKind.EXACT, TranslationKind.BOUNDED, TranslationKind.UNKNOWN


@pytest.mark.parametrize(
    ("position", "known", "expected"),
    [
        (8, {}, 18),  # all of the mirror was read
        (9, {}, 18),  # the marker of a later claim behind it, too
        (8, {"settled": 25}, 25),  # the tail comes from the other side, or was put away
        (8, {"settled": 25, "had_read": 22}, 25),
        (8, {"had_read": 22}, 22),  # the tail was left, and this group had read some of it before
        (8, {"had_read": 12}, 18),
        (8, {"source_log_start": 30}, 30),
        (8, {"settled": 12}, 18),  # of an earlier tail, mirrored since
    ],
)
def test_who_has_read_the_mirror_goes_on_behind_it(position: int, known: dict[str, int], expected: int) -> None:
    assert failback_position(built(*TWO_RUNS), position, **known) == Returned(Translation(expected, EXACT))


def test_what_was_read_through_and_held_nothing_is_behind_too() -> None:
    assert failback_position(built(*TWO_RUNS, Covered(P, 20)), 8).translation == Translation(20, EXACT)


@pytest.mark.parametrize(("position", "offset", "unread"), [(1, 10, 7), (4, 13, 4), (6, 16, 2), (7, 17, 1)])
def test_who_has_not_stands_at_its_record_and_would_read_the_settled_tail_again(
    position: int, offset: int, unread: int
) -> None:
    offsets = built(*TWO_RUNS)
    assert failback_position(offsets, position) == Returned(Translation(offset, EXACT), unread)
    assert failback_position(offsets, position, had_read=22) == Returned(Translation(offset, EXACT), unread)
    assert failback_position(offsets, position, settled=25) == Returned(Translation(offset, BOUNDED, 7), unread)


def test_where_nothing_was_mirrored_nothing_is_left_to_read() -> None:
    assert failback_position(None, 0) == Returned(Translation(0, EXACT))
    assert failback_position(None, 0, settled=7, had_read=5).translation == Translation(7, EXACT)
    assert failback_position(
        built(Placement(P, C1, 0, 1), Run(P, C1, 0, 10)), 1, had_read=12
    ).translation == Translation(12, EXACT)


def test_an_unknown_history_stays_unknown() -> None:
    offsets = built(*TWO_RUNS, SourceTruncated(P, 14, 18, 0))
    assert failback_position(offsets, 8, settled=30).translation.kind is UNKNOWN
