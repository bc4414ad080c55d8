"""Maps of a flow that MirrorMaker 2 mirrors where both logs were compared, and positions on the way back by them."""

from __future__ import annotations

import pytest
from small_maps import P

from drlib.mirror.journal.entries import Takeover
from drlib.mirror.offsets.mirror_maker.compared_maps import ComparedMap, ComparedMaps
from drlib.mirror.offsets.mirror_maker.sync_pairs import SyncedPartition, UsablePairs
from drlib.mirror.offsets.translation.failback_position import FailbackPosition, failback_position
from drlib.model import Segment, Translation, TranslationKind

EXACT, BOUNDED, BEHIND = TranslationKind.EXACT, TranslationKind.BOUNDED, TranslationKind.BEHIND
PAIRS = ((0, 0), (100, 110))
# 150 records of the source, of which 10 were copied twice; both logs were compared down to 120 and 130.


def compared(doubtful: int = 0) -> ComparedMap:
    synced = SyncedPartition(0, 160, UsablePairs(PAIRS), PAIRS[-1])
    made = ComparedMap(synced, Takeover(P, 150, 160, 100, doubtful, 0, PAIRS))
    if not doubtful:
        assert made.taken is not None
        for entry in made.taken.extended(120, 130, [Segment(120, 130, 30)]):
            made.apply(entry)
    return made


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (150, Translation(160, EXACT)),
        (149, Translation(159, EXACT)),
        (120, Translation(130, EXACT)),
        (119, Translation(111, BOUNDED, 49)),  # by the offset syncs, which say nothing behind 100
        (50, Translation(1, BOUNDED, 109)),
        (155, Translation(160, BEHIND, 5)),
    ],
)
def test_forward_is_exact_where_both_logs_were_compared(position: int, expected: Translation) -> None:
    assert compared().forward(position) == expected


def test_forward_at_an_end_that_is_in_doubt_goes_by_the_offset_syncs() -> None:
    """Up to 5 of the records from 150 on may be there already: a group that begins at the mirror's end would skip them."""
    assert compared(doubtful=5).forward(150) == Translation(111, BOUNDED, 49)


@pytest.mark.parametrize(
    ("position", "expected"),
    [(160, Translation(150, EXACT)), (130, Translation(120, EXACT)), (129, Translation(101, BOUNDED, 19))],
)
def test_backward_is_exact_where_both_logs_were_compared(position: int, expected: Translation) -> None:
    assert compared().backward(position) == expected


@pytest.mark.parametrize(
    ("doubtful", "known", "expected"),
    [
        (0, {}, Translation(150, EXACT)),
        (0, {"settled": 190}, Translation(190, EXACT)),
        (5, {}, Translation(150, BOUNDED, 5)),  # what was left on the source may have been read on the mirror
        (5, {"previously_read": 153}, Translation(153, BOUNDED, 2)),
        (5, {"previously_read": 170}, Translation(170, EXACT)),
        (5, {"settled": 190}, Translation(190, EXACT)),
    ],
)
def test_failback_position_of_a_mirror_that_was_read_to_its_end(
    doubtful: int, known: dict[str, int], expected: Translation
) -> None:
    assert failback_position(compared(doubtful), 160, **known) == FailbackPosition(expected)


@pytest.mark.parametrize(("position", "unread"), [(159, 1), (130, 30), (120, 40)])
def test_failback_position_of_a_mirror_that_was_not_read_names_what_is_left(position: int, unread: int) -> None:
    assert failback_position(compared(), position).unread == unread


def test_unreplicated_records_begin_where_the_copy_ended_and_those_in_doubt_are_counted() -> None:
    assert compared().absent(0, 190) == ((150, 190),)
    assert compared().doubtful == 0
    assert (compared(5).absent(0, 190), compared(5).doubtful) == (((150, 190),), 5)


def test_maps_without_a_claim_are_no_journals() -> None:
    assert not ComparedMaps().claims
