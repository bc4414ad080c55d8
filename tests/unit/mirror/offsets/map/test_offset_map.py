"""The offset map against literal cases, and against random histories kept record by record."""

from __future__ import annotations

import time
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from map_histories import History, P, built, histories

from drlib.mirror.journal.entries import (
    Ack,
    Chunk,
    ClaimId,
    Covered,
    Entry,
    Foreign,
    Parked,
    Placement,
    Run,
    Sealed,
    SourceLoss,
    SourceTruncated,
    TopicNames,
    Unsure,
    decode,
)
from drlib.mirror.offsets.map.claim_records import SETTLED_AT
from drlib.mirror.offsets.map.offset_map import MapContradiction, PartitionMap
from drlib.model import Segment, Translation, TranslationKind

EXACT, BEHIND, LOST = TranslationKind.EXACT, TranslationKind.BEHIND, TranslationKind.LOST
NEVER, UNKNOWN = TranslationKind.NEVER_MIRRORED, TranslationKind.UNKNOWN
C1, C2, C3 = ClaimId(9, 0), ClaimId(9, 1), ClaimId(9, 2)


def exact(offset: int | None) -> Translation:
    return Translation(offset, EXACT)


# Source 10..14, a marker at 15, 16..17; on the target behind one marker: 1..5, 6..7.
TWO_RUNS = (Placement(P, C1, 0, 1), Run(P, C1, 0, 10), Run(P, C1, 5, 16), Ack(P, C1, 7, 8))


class TestSegments:
    def test_empty_map(self) -> None:
        offsets = PartitionMap()
        assert list(offsets.segments()) == []
        assert (offsets.position, offsets.source_end, offsets.target_end, offsets.covered) == (None,) * 4
        assert offsets.claims() == ()
        assert offsets.lost(0, 100) == 0

    def test_promise_alone_maps_nothing(self) -> None:
        offsets = built(Placement(P, C1, 0, 1), Run(P, C1, 0, 10))
        assert list(offsets.segments()) == []
        assert (offsets.source_end, offsets.position) == (None, 10)  # to be mirrored from where it was promised
        assert offsets.forward(10) == exact(1)
        assert offsets.forward(11) == Translation(1, BEHIND, 1)
        assert offsets.forward(9) == Translation(1, NEVER)
        assert (offsets.promised(C1), offsets.acknowledged(C1)) == (0, 0)
        assert built(Placement(P, C1, 0, 1)).promised(C1) == offsets.acknowledged(C2) == 0

    def test_runs_are_composed_with_placements(self) -> None:
        offsets = built(*TWO_RUNS)
        assert list(offsets.segments()) == [Segment(10, 1, 5), Segment(16, 6, 2)]
        assert (offsets.position, offsets.source_end, offsets.target_end) == (18, 18, 8)
        assert (offsets.promised(C1), offsets.acknowledged(C1), offsets.promised(C2)) == (5, 7, 0)
        assert [offsets.source_of(C1, q) for q in (0, 4, 5, 9)] == [10, 14, 16, 20]

    def test_results_count_only_acknowledged_records(self) -> None:
        offsets = built(*TWO_RUNS[:3], Ack(P, C1, 4, 5))
        assert list(offsets.segments()) == [Segment(10, 1, 4)]
        offsets.ack(C1, 5)
        assert list(offsets.segments()) == [Segment(10, 1, 5)]
        offsets.ack(C1, 6)
        assert list(offsets.segments()) == [Segment(10, 1, 5), Segment(16, 6, 1)]
        offsets.ack(C1, 2)  # an old answer
        assert offsets.acknowledged(C1) == 6

    def test_placement_splits_a_segment_where_the_target_jumps(self) -> None:
        offsets = built(Placement(P, C1, 0, 1), Run(P, C1, 0, 10), Placement(P, C1, 3, 9), Ack(P, C1, 5, 11))
        assert list(offsets.segments()) == [Segment(10, 1, 3), Segment(13, 9, 2)]

    def test_contiguous_segments_are_merged(self) -> None:
        offsets = built(Placement(P, C1, 0, 1), Run(P, C1, 0, 10), Run(P, C1, 3, 13), Placement(P, C1, 4, 5))
        offsets.ack(C1, 6)
        assert list(offsets.segments()) == [Segment(10, 1, 6)]

    def test_next_claim_continues_after_its_marker(self) -> None:
        offsets = built(*TWO_RUNS, Sealed(P, C1, 7, True), Placement(P, C2, 0, 9), Run(P, C2, 0, 18), Ack(P, C2, 1, 10))
        assert list(offsets.segments()) == [Segment(10, 1, 5), Segment(16, 6, 2), Segment(18, 9, 1)]
        assert offsets.claims() == (C1, C2)

    def test_sealed_raises_the_acknowledged_count(self) -> None:
        offsets = built(*TWO_RUNS[:3], Ack(P, C1, 4, 5), Sealed(P, C1, 6, True))
        assert offsets.acknowledged(C1) == 6
        assert offsets.source_end == 17

    def test_sealed_below_the_promise_drops_the_rest(self) -> None:
        offsets = built(*TWO_RUNS[:3], Sealed(P, C1, 2, True), Placement(P, C2, 0, 4), Run(P, C2, 0, 12))
        offsets.ack(C2, 1)
        assert list(offsets.segments()) == [Segment(10, 1, 2), Segment(12, 4, 1)]

    def test_sealed_below_an_ack_is_a_contradiction(self) -> None:
        with pytest.raises(MapContradiction, match="sealed at 6 records, 7 were acknowledged"):
            built(*TWO_RUNS, Sealed(P, C1, 6, True))

    def test_placement_without_data_is_replaced(self) -> None:
        offsets = built(Placement(P, C1, 0, 1), Placement(P, C1, 0, 4), Run(P, C1, 0, 10), Ack(P, C1, 1, 5))
        assert list(offsets.segments()) == [Segment(10, 4, 1)]

    def test_repeated_promise_changes_nothing(self) -> None:
        offsets = built(*TWO_RUNS, *TWO_RUNS)
        assert list(offsets.segments()) == [Segment(10, 1, 5), Segment(16, 6, 2)]

    @pytest.mark.parametrize("changed", [Run(P, C1, 0, 11), Run(P, C1, 6, 30), Placement(P, C1, 6, 30)])
    def test_changing_an_acknowledged_promise_is_a_contradiction(self, changed: Entry) -> None:
        with pytest.raises(MapContradiction, match="changed after 7 were acknowledged"):
            built(*TWO_RUNS, changed)

    def test_changing_an_unacknowledged_promise_is_allowed(self) -> None:
        offsets = built(*TWO_RUNS, Run(P, C1, 7, 30), Placement(P, C1, 7, 40), Ack(P, C1, 8, 41))
        assert offsets.segments()[-1] == Segment(30, 40, 1)

    def test_late_placement_is_inserted_in_order(self) -> None:
        offsets = built(Placement(P, C1, 0, 1), Placement(P, C1, 8, 30), Run(P, C1, 0, 10), Placement(P, C1, 3, 9))
        offsets.ack(C1, 9)
        assert list(offsets.segments()) == [Segment(10, 1, 3), Segment(13, 9, 5), Segment(18, 30, 1)]

    @pytest.mark.parametrize(
        "entries",
        [
            (Run(P, C1, 0, 10), Ack(P, C1, 1, 2)),
            (Placement(P, C1, 0, 1), Ack(P, C1, 1, 2)),
            (Placement(P, C1, 0, 1), Run(P, C1, 1, 11), Ack(P, C1, 2, 3)),
        ],
    )
    def test_records_without_a_promise_are_a_contradiction(self, entries: tuple[Entry, ...]) -> None:
        with pytest.raises(MapContradiction, match="not in the journal"):
            built(*entries)

    @pytest.mark.parametrize(
        "entries", [(Placement(P, C2, 0, 7), Run(P, C2, 0, 18)), (Placement(P, C2, 0, 9), Run(P, C2, 0, 17))]
    )
    def test_decreasing_offsets_are_a_contradiction(self, entries: tuple[Entry, ...]) -> None:
        with pytest.raises(MapContradiction, match="comes after source offset 18 and target offset 8"):
            built(*TWO_RUNS, *entries, Ack(P, C2, 1, 20))

    def test_other_entries_are_ignored(self) -> None:
        offsets = built(TopicNames(UUID(int=1), "a", "b", UUID(int=2)))
        assert offsets.claims() == ()

    def test_segments_view_is_a_sequence(self) -> None:
        segments = built(*TWO_RUNS).segments()
        assert segments[-1] == Segment(16, 6, 2)
        assert segments[:1] == (Segment(10, 1, 5),)
        assert len(segments) == 2
        with pytest.raises(IndexError):
            segments[2]


class TestAbsent:
    def test_absent_loss_past_the_log_end_is_cut_there(self) -> None:
        assert built(*TWO_RUNS, SourceLoss(P, 18, 30, 0)).absent(10, 25) == ((18, 25),)

    def test_absent_losses_between_mirrored_records_are_apart(self) -> None:
        offsets = built(*TWO_RUNS[:2], Run(P, C1, 5, 30), Ack(P, C1, 7, 8), SourceLoss(P, 15, 18, 0))
        offsets.apply(SourceLoss(P, 20, 25, 0))
        assert offsets.absent(10, 32) == ((15, 18), (20, 25))
        offsets.apply(SourceLoss(P, 18, 21, 0))
        assert offsets.absent(10, 32) == ((15, 25),)

    def test_absent_loss_holds_only_what_is_not_mirrored(self) -> None:
        assert built(*TWO_RUNS, SourceLoss(P, 12, 17, 0)).absent(10, 18) == ((15, 16),)

    def test_position_without_an_acknowledged_record_is_the_first_promise(self) -> None:
        promises = (Placement(P, C1, 0, 1), Run(P, C1, 0, 10), Placement(P, C2, 0, 3), Run(P, C2, 0, 12))
        assert built(*promises).position == built(*promises[2:], *promises[:2]).position == 10

    def test_cover_never_goes_back(self) -> None:
        assert built(Covered(P, 20), Covered(P, 15)).covered == 20


class TestForward:
    def test_position_inside_a_run(self) -> None:
        offsets = built(*TWO_RUNS)
        assert [offsets.forward(g) for g in (10, 14, 16, 17)] == [exact(1), exact(5), exact(6), exact(7)]

    def test_position_in_a_gap_of_markers(self) -> None:
        assert built(*TWO_RUNS).forward(15) == exact(6)

    def test_position_at_the_end_and_at_covered(self) -> None:
        offsets = built(*TWO_RUNS)
        assert offsets.forward(18) == exact(8)
        assert offsets.forward(19) == Translation(8, BEHIND, 1)
        offsets.cover(20)
        offsets.cover(19)  # old news
        assert offsets.covered == 20
        assert offsets.position == 20
        assert [offsets.forward(g) for g in (18, 19, 20)] == [exact(8)] * 3
        assert offsets.forward(23) == Translation(8, BEHIND, 3)

    def test_position_before_the_first_record(self) -> None:
        assert built(*TWO_RUNS).forward(9) == Translation(1, NEVER)

    def test_position_with_nothing_mirrored(self) -> None:
        assert PartitionMap().forward(0) == Translation(None, NEVER)
        placed = built(Placement(P, C1, 0, 4))
        assert placed.target_end == 4
        assert placed.forward(0) == Translation(4, NEVER)
        placed.cover(7)
        assert placed.forward(6) == Translation(4, NEVER)
        assert placed.forward(7) == exact(4)
        assert placed.forward(9) == Translation(4, BEHIND, 2)
        placed.apply(Placement(P, C2, 0, 5))
        assert placed.forward(7) == exact(5)

    def test_position_in_a_loss(self) -> None:
        # 10..12, lost 13..19, a marker at 20, 21..
        offsets = built(Placement(P, C1, 0, 1), Run(P, C1, 0, 10), SourceLoss(P, 13, 20, 0), Run(P, C1, 3, 21))
        offsets.ack(C1, 5)
        assert offsets.forward(12) == exact(3)
        assert offsets.forward(13) == Translation(4, LOST, 7)
        assert offsets.forward(19) == Translation(4, LOST, 1)
        assert offsets.forward(20) == exact(4)
        assert offsets.lost(0, 100) == 7
        assert offsets.lost(15, 17) == 2

    def test_position_after_a_loss_at_the_end(self) -> None:
        offsets = built(*TWO_RUNS, SourceLoss(P, 18, 30, 0))
        assert offsets.position == 30
        assert offsets.forward(18) == Translation(8, LOST, 12)
        assert offsets.forward(30) == exact(8)
        assert offsets.forward(31) == Translation(8, BEHIND, 1)

    def test_loss_before_the_first_record_marks_the_start(self) -> None:
        offsets = built(SourceLoss(P, 2, 8, 0), *TWO_RUNS)
        assert offsets.forward(1) == Translation(1, NEVER)
        assert offsets.forward(2) == Translation(1, LOST, 6)
        assert offsets.forward(8) == exact(1)

    def test_overlapping_losses_count_once(self) -> None:
        offsets = built(*TWO_RUNS, SourceLoss(P, 18, 20, 0), SourceLoss(P, 18, 30, 0), SourceLoss(P, 19, 25, 0))
        assert offsets.lost(0, 100) == 12
        offsets.apply(SourceTruncated(P, 18, 21, 0))
        assert offsets.lost(0, 100) == 12

    def test_truncation_of_mirrored_records_makes_positions_unknown(
        self,
    ) -> None:
        offsets = built(*TWO_RUNS, SourceTruncated(P, 12, 18, 0))
        assert offsets.lost(0, 100) == 1  # 15 is not on the target
        assert offsets.forward(12) == exact(3)
        for position in (13, 17, 18, 500):  # of the records that were mirrored, or of those that came in their place?
            assert offsets.forward(position) == Translation(3, UNKNOWN)
        assert offsets.backward(3) == exact(12)
        assert offsets.backward(4) == Translation(12, UNKNOWN)

    def test_truncations_diverge_from_the_lowest_on(self) -> None:
        later, earlier = SourceTruncated(P, 16, 18, 0), SourceTruncated(P, 14, 18, 0)
        assert built(*TWO_RUNS, later, earlier).diverged == built(*TWO_RUNS, earlier, later).diverged == 14
        assert built(SourceTruncated(P, 5, 9, 0)).backward(1).kind is UNKNOWN

    def test_source_that_went_back_was_mirrored_up_to_its_first_other_record(self) -> None:
        assert built().reached is None
        assert built(*TWO_RUNS).reached == built(*TWO_RUNS).position == 18
        assert built(*TWO_RUNS, SourceTruncated(P, 14, 18, 0)).reached == 14

    def test_position_after_an_open_park(self) -> None:
        offsets = built(*TWO_RUNS, Parked(P, 18, "too large", 0))
        assert offsets.position == 18
        assert offsets.forward(18) == exact(8)
        assert offsets.forward(20) == Translation(8, BEHIND, 2)
        assert offsets.lost(0, 25) == 7

    def test_park_resumed_at_its_offset_loses_nothing(self) -> None:
        offsets = built(*TWO_RUNS, Parked(P, 18, "too large", 0), Run(P, C1, 7, 18))
        offsets.ack(C1, 8)
        assert offsets.lost(0, 100) == 0
        assert offsets.forward(18) == exact(8)

    def test_park_resumed_later_is_a_loss(self) -> None:
        offsets = built(*TWO_RUNS, Parked(P, 18, "too large", 0), Run(P, C1, 7, 21))
        offsets.ack(C1, 8)
        assert offsets.lost(0, 100) == 3
        assert offsets.forward(18) == Translation(8, LOST, 3)
        assert offsets.forward(20) == Translation(8, LOST, 1)
        assert offsets.forward(21) == exact(8)

    def test_park_read_through_but_not_mirrored(self) -> None:
        offsets = built(*TWO_RUNS, Parked(P, 18, "too large", 0), Covered(P, 21))
        assert offsets.forward(19) == Translation(8, LOST, 2)
        assert offsets.forward(21) == exact(8)

    def test_target_log_start_clamps(self) -> None:
        offsets = built(*TWO_RUNS, Placement(P, C2, 0, 9), Run(P, C2, 0, 18), Ack(P, C2, 1, 10))
        assert offsets.forward(12, target_log_start=3) == exact(3)
        assert offsets.forward(12, target_log_start=5) == Translation(5, LOST, 2, 2)
        assert offsets.forward(12, target_log_start=50) == Translation(50, LOST, 6, 6)  # offset 8 is a marker
        assert offsets.forward(9, target_log_start=5) == Translation(5, NEVER)
        assert offsets.forward(19, target_log_start=50) == exact(50)
        assert offsets.forward(22, target_log_start=50) == Translation(50, BEHIND, 3)

    def test_target_log_start_after_a_loss_adds_up(self) -> None:
        offsets = built(*TWO_RUNS, SourceLoss(P, 18, 20, 0), Run(P, C1, 7, 20), Ack(P, C1, 10, 11))
        assert offsets.forward(19, target_log_start=10) == Translation(10, LOST, 3, 2)


class TestUnsure:
    # Five records surely at 1..5, up to three more where offsets 6..8 are missing, the next claim's marker at 9.
    FOUND = (
        Placement(P, C1, 0, 1),
        Run(P, C1, 0, 10),
        Run(P, C1, 6, 20),
        Ack(P, C1, 5, 6),
        Sealed(P, C1, 5, False),
        Unsure(P, C1, 5, 8, 0),
        Placement(P, C2, 0, 10),
    )

    def test_only_uncertain_records_are_unknown(self) -> None:
        offsets = built(*self.FOUND)
        for again in (0, 20):
            offsets.apply(Run(P, C2, 0, 15))
            offsets.apply(Run(P, C2, 1, 20))
            offsets.ack(C2, again)
            assert offsets.forward(14) == exact(5)
            # 15, 20 and 21 may stand at 6..8, and so may the first record after the markers 16..19.
            assert {offsets.forward(g) for g in range(15, 22)} == {Translation(6, UNKNOWN)}
            assert offsets.forward(22) == (exact(13) if again else Translation(6, BEHIND, 7))
            assert offsets.backward(6) == exact(15)
            assert {offsets.backward(t) for t in range(7, 10)} == {Translation(15, UNKNOWN)}
            assert offsets.backward(10) == exact(15)

    def test_uncertain_without_a_next_claim(self) -> None:
        offsets = built(*self.FOUND[:-1])
        assert offsets.backward(8) == Translation(15, UNKNOWN)
        assert offsets.backward(9) == Translation(15, BEHIND, 3)

    def test_uncertain_first_record_makes_the_gap_before_it_unknown(self) -> None:
        offsets = built(*TWO_RUNS, Placement(P, C2, 0, 9), Run(P, C2, 0, 20), Sealed(P, C2, 0, False))
        offsets.apply(Unsure(P, C2, 0, 2, 0))
        assert offsets.forward(17) == exact(7)
        assert {offsets.forward(g) for g in (18, 19, 20, 21)} == {Translation(9, UNKNOWN)}

    def test_uncertain_without_any_known_record(self) -> None:
        offsets = built(Placement(P, C1, 0, 1), Run(P, C1, 0, 10), Sealed(P, C1, 0, False), Unsure(P, C1, 0, 2, 0))
        offsets.apply(Placement(P, C2, 0, 4))
        assert {offsets.forward(g) for g in (9, 10, 11)} == {Translation(1, UNKNOWN)}
        assert [offsets.backward(t) for t in (2, 3, 4)] == [Translation(10, UNKNOWN)] * 2 + [exact(10)]
        offsets.apply(Run(P, C2, 0, 10))
        offsets.ack(C2, 5)
        assert {offsets.forward(g) for g in (9, 10, 11)} == {Translation(1, UNKNOWN)}
        assert offsets.forward(12) == exact(6)

    def test_uncertain_claim_without_records_or_doubt_leaves_all_certain(self) -> None:
        assert built(*TWO_RUNS, Unsure(P, C2, 0, 5, 0)).doubtful == 0
        settled = built(*TWO_RUNS[:3], Ack(P, C1, 5, 6), Unsure(P, C1, 5, 5, 0), Placement(P, C2, 0, 9))
        assert settled.doubtful == 0
        assert settled.backward(7) == exact(15)

    def test_log_start_keeps_uncertain_positions_unknown(self) -> None:
        assert built(*self.FOUND).forward(15, target_log_start=9) == Translation(9, UNKNOWN)

    def test_log_start_behind_all_uncertain_records_is_certain(self) -> None:
        """Whichever of them were there have expired: what comes next is the log start."""
        offsets = built(*self.FOUND)
        assert offsets.forward(15, target_log_start=10) == Translation(10, LOST, 7, 7)
        assert offsets.forward(21, target_log_start=12) == Translation(12, LOST, 1, 1)
        offsets.apply(SourceTruncated(P, 16, 22, 0))
        assert offsets.forward(15, target_log_start=10) == Translation(10, LOST, 7, 7)
        assert offsets.forward(16, target_log_start=10) == Translation(10, LOST, 6, 6)
        assert offsets.forward(17, target_log_start=10).kind is UNKNOWN


class TestBackward:
    def test_position_inside_and_between_segments(self) -> None:
        offsets = built(*TWO_RUNS, Placement(P, C2, 0, 9), Run(P, C2, 0, 18), Ack(P, C2, 1, 10))
        assert [offsets.backward(t) for t in range(1, 10)] == [exact(s) for s in (10, 11, 12, 13, 14, 16, 17, 18, 18)]
        assert offsets.backward(0) == Translation(10, NEVER)
        assert offsets.backward(10) == exact(19)
        assert offsets.backward(12) == Translation(19, BEHIND, 2)

    def test_position_past_the_end_and_the_next_marker(self) -> None:
        offsets = built(*TWO_RUNS)
        assert offsets.backward(9) == Translation(18, BEHIND, 1)
        offsets.apply(Placement(P, C2, 0, 9))
        assert offsets.backward(9) == exact(18)
        assert offsets.backward(10) == Translation(18, BEHIND, 1)

    def test_foreign_records_count_as_lost_on_the_source(self) -> None:
        offsets = built(*TWO_RUNS, Foreign(P, 8, 3, 0), Placement(P, C1, 7, 11), Run(P, C1, 7, 18))
        assert offsets.backward(8) == Translation(18, LOST, 3)
        offsets.ack(C1, 8)
        assert offsets.backward(8) == Translation(18, LOST, 3)
        assert offsets.backward(10) == Translation(18, LOST, 1)
        assert offsets.backward(11) == exact(18)

    def test_position_with_nothing_mirrored(self) -> None:
        assert PartitionMap().backward(0) == Translation(None, NEVER)
        offsets = built(Placement(P, C1, 0, 4), Covered(P, 7))
        assert offsets.backward(3) == Translation(7, NEVER)
        assert offsets.backward(4) == exact(7)
        assert offsets.backward(6) == Translation(7, BEHIND, 2)

    def test_source_log_start_clamps(self) -> None:
        offsets = built(*TWO_RUNS)
        assert offsets.backward(3, source_log_start=14) == Translation(14, LOST, 2, 2)
        assert offsets.backward(3, source_log_start=17) == Translation(17, LOST, 4, 4)  # 15 is a marker
        assert offsets.backward(8, source_log_start=30) == exact(30)


# -- against histories kept record by record ------------------------------------------------------------------------


def norm(pairs: list[tuple[int, int]], side: int, offset: int | None) -> int:
    assert offset is not None
    return sum(1 for pair in pairs if pair[side] < offset)


def expected_forward(h: History, g: int) -> Translation:
    following = next((p for p in h.pairs if p[0] >= g), None)
    end = h.pairs[-1][1] + 1 if h.pairs else h.placed
    read = h.read
    if not h.pairs:
        # Without a record only a reported position shows that anything was read.
        if (
            h.live.position is None
            or (h.first is None and g < h.live.position)
            or (h.first is not None and g < h.first)
        ):
            return Translation(end, NEVER)
        read = h.live.position
    assert read is not None
    if h.first is not None and g < h.first:
        return Translation(h.pairs[0][1], NEVER)
    if following is not None:
        lost = sum(1 for s in h.lost if g <= s < following[0])
        return Translation(following[1], LOST, lost) if lost else exact(following[1])
    if g > read:
        return Translation(end, BEHIND, g - read)
    lost = sum(1 for s in h.lost if s >= g)
    return Translation(end, LOST, lost) if lost else exact(end)


@settings(max_examples=500)
@given(histories())
def test_forward_agrees_with_the_records(h: History) -> None:
    for g in range(h.source + 4):
        assert h.live.forward(g) == expected_forward(h, g), g


@settings(max_examples=300)
@given(histories())
def test_segments_are_exactly_the_records(h: History) -> None:
    segments = list(h.live.segments())
    assert [(s.source + i, s.target + i) for s in segments for i in range(s.count)] == h.pairs
    for a, b in pairwise(segments):
        assert (a.source_end, a.target_end) != (b.source, b.target)
    assert h.live.source_end == (h.pairs[-1][0] + 1 if h.pairs else None)
    assert h.live.position == (h.read if h.pairs else h.live.position)
    for first in range(h.source + 2):
        for end in range(first, h.source + 2):
            assert h.live.lost(first, end) == sum(1 for s in h.lost if first <= s < end)


@settings(max_examples=300)
@given(histories())
def test_forward_never_skips_and_exact_rereads_nothing(h: History) -> None:
    """For every kind: no unread record is skipped, and an exact translation rereads nothing."""
    for g in range(h.source + 4):
        found = h.live.forward(g)
        if found.offset is None:
            assert not h.pairs
            continue
        unseen = [t for s, t in h.pairs if s >= g]
        assert not unseen or found.offset <= unseen[0]
        if found.exact:
            assert [s for s, t in h.pairs if t >= found.offset and s < g] == []
            assert norm(h.pairs, 0, g) == norm(h.pairs, 1, found.offset)
            assert g not in h.lost


@settings(max_examples=300)
@given(histories())
def test_backward_agrees_with_the_records(h: History) -> None:
    for t in range(h.target + 4):
        found = h.live.backward(t)
        following = next((p for p in h.pairs if p[1] >= t), None)
        if not h.pairs:
            assert h.placed is not None
            assert found.offset == h.live.position
            kind = NEVER if t < h.placed else (BEHIND if t > h.placed else EXACT)
            assert (found.kind, found.records) == (kind, max(0, t - h.placed) if kind is BEHIND else 0)
        elif t < h.pairs[0][1]:
            assert found == Translation(h.pairs[0][0], NEVER)
        else:
            offset = following[0] if following else h.pairs[-1][0] + 1
            end = following[1] if following else h.placed
            assert end is not None
            foreign = sum(1 for f in h.foreign if t <= f < end)
            if following is None and t > end:
                assert found == Translation(offset, BEHIND, t - end)
            else:
                assert found == (Translation(offset, LOST, foreign) if foreign else exact(offset))


@settings(max_examples=300)
@given(histories())
def test_forward_then_backward_is_between_the_same_records(h: History) -> None:
    for g in range(h.source + 2):
        there = h.live.forward(g)
        if not there.exact or not h.pairs:
            continue
        assert there.offset is not None
        back = h.live.backward(there.offset)
        assert norm(h.pairs, 0, back.offset) == norm(h.pairs, 0, g)
        assert back.offset == next((s for s, _ in h.pairs if s >= g), h.pairs[-1][0] + 1)
    for s, t in h.pairs:
        assert h.live.forward(s) == exact(t)
        assert h.live.backward(t) == exact(s)


@settings(max_examples=300)
@given(histories(), st.data())
def test_map_of_a_compacted_journal_is_the_same(h: History, data: st.DataObject) -> None:
    """Compaction keeps the newest of each key at its offset; how far it has come is up to the broker."""
    split = data.draw(st.integers(0, len(h.journal)))
    newest = {entry.key(): at for at, entry in enumerate(h.journal[:split])}
    kept = [e for at, e in enumerate(h.journal) if at >= split or newest[e.key()] == at]
    again = built(*(decode(e.key(), e.value()) for e in kept))
    assert list(again.segments()) == list(h.live.segments())
    assert (again.position, again.covered) == (h.live.position, h.live.covered)
    for g in range(h.source + 4):
        assert again.forward(g) == h.live.forward(g)
    for t in range(h.target + 4):
        assert again.backward(t) == h.live.backward(t)


@settings(max_examples=200)
@given(histories(), st.integers(0, 60))
def test_forward_clamps_to_the_log_start(h: History, start: int) -> None:
    for g in range(h.source + 4):
        free, clamped = h.live.forward(g), h.live.forward(g, target_log_start=start)
        if free.offset is None or free.offset >= start:
            assert clamped == free
            continue
        assert clamped.offset == start
        gone = sum(1 for _, t in h.pairs if free.offset <= t < start)
        if free.kind is NEVER:
            assert clamped.kind is NEVER
        elif gone:
            assert clamped == Translation(start, LOST, gone + (free.records if free.kind is LOST else 0), gone)
        else:
            assert (clamped.kind, clamped.records) == (free.kind, free.records)


def test_many_segments_append_and_translate_quickly() -> None:
    """One gap per record, as with a transaction per record: appended live, then found by bisection."""
    offsets = PartitionMap()
    offsets.apply(Placement(P, C1, 0, 1))
    n = 200_000
    began = time.process_time()
    for q in range(n):
        offsets.apply(Run(P, C1, q, 2 * q))
        offsets.ack(C1, q + 1)
    built_s = time.process_time() - began
    assert len(offsets.segments()) == n
    began = time.process_time()
    for q in range(0, n, 20):
        assert offsets.forward(2 * q + 1) == exact(q + 2)
        assert offsets.backward(q + 1) == exact(2 * q)
    looked_up_s = time.process_time() - began
    # Far above what it takes on any machine, far below what anything quadratic would.
    assert built_s < 10
    assert looked_up_s < 5


def test_newest_record_and_least_log_end_follow_claims_and_placements() -> None:
    empty = PartitionMap()
    assert (empty.newest_record, empty.least_log_end, empty.first_log_end) == (None, 0, 0)
    offsets = built(*TWO_RUNS)
    assert (offsets.newest_record, offsets.least_log_end, offsets.first_log_end) == ((7, C1), 8, 1)
    later = ClaimId(9, 1)
    offsets.apply(Placement(P, later, 0, 30))  # markers and others between the two claims
    assert (offsets.newest_record, offsets.least_log_end) == ((7, C1), 30)
    offsets.apply(Run(P, later, 0, 40))
    offsets.apply(Ack(P, later, 2, 32))
    assert (offsets.newest_record, offsets.least_log_end) == ((31, later), 32)
    folded = built(Chunk(P, 0, (Segment(10, 1, 7),)), Placement(P, later, 0, 30))
    assert (folded.newest_record, folded.least_log_end) == ((7, None), 30)


@pytest.mark.parametrize(("position", "unread"), [(0, 7), (1, 7), (3, 5), (7, 1), (8, 0), (50, 0)])
def test_unread_counts_the_mirrored_records_at_a_position_and_behind_it(position: int, unread: int) -> None:
    assert built(*TWO_RUNS).unread(position) == unread
    assert PartitionMap().unread(position) == 0


def test_claims_that_nothing_refers_to_are_forgotten_when_a_new_one_begins() -> None:
    """A follower reads claims for months."""
    offsets = PartitionMap()
    target = 0
    for epoch in range(100):
        claim = ClaimId(9, epoch)
        offsets.apply(Placement(P, claim, 0, target := target + 1))
        if epoch % 10 == 0:
            offsets.apply(Run(P, claim, 0, epoch))
            offsets.apply(Sealed(P, claim, 5, True))
            target += 5
    assert offsets.claims() == (
        ClaimId(9, 90),
        ClaimId(9, 99),
    )  # who wrote the last record, and where the next one goes
    assert offsets.newest_record == (target - 10, ClaimId(9, 90))
    assert (offsets.target_end, offsets.least_log_end, offsets.first_log_end) == (target - 9, target, 1)
    unsure = built(
        Placement(P, C1, 0, 1),
        Run(P, C1, 0, 0),
        Sealed(P, C1, 2, False),
        Unsure(P, C1, 2, 4, 0),
        Placement(P, C2, 0, 9),
    )
    assert unsure.claims() == (C1, C2)
    unsealed = built(Placement(P, C1, 0, 1), Run(P, C1, 0, 0), Placement(P, C2, 0, 9))
    assert unsealed.claims() == (C1, C2)
    unsealed.apply(Sealed(P, C1, 2, True))
    assert list(unsealed.segments()) == [Segment(0, 1, 2)]


@pytest.mark.parametrize("acknowledged", range(2 * SETTLED_AT - 4, 2 * SETTLED_AT))
def test_runs_and_placements_of_records_that_are_not_acknowledged_are_kept(acknowledged: int) -> None:
    """Also where the others are dropped, and each record has a run and a placement of its own."""
    n = 2 * SETTLED_AT
    pairs = [(2 * q, 3 * q) for q in range(n)]
    offsets = built(*(e for q, (s, t) in enumerate(pairs) for e in (Run(P, C1, q, s), Placement(P, C1, q, t))))
    offsets.ack(C1, acknowledged)
    assert offsets.newest_record == (pairs[acknowledged - 1][1], C1)
    assert offsets.target_end == pairs[acknowledged - 1][1] + 1
    assert [offsets.source_of(C1, q) for q in range(acknowledged, n)] == [s for s, _ in pairs[acknowledged:]]
    offsets.ack(C1, n)
    assert [(s.source, s.target) for s in offsets.segments()] == pairs


def test_runs_of_acknowledged_records_are_not_kept_twice() -> None:
    offsets = PartitionMap()
    offsets.apply(Placement(P, C1, 0, 1))
    n = 5 * SETTLED_AT
    for q in range(n):
        offsets.apply(Run(P, C1, q, 2 * q))
        offsets.ack(C1, q)
    assert len(offsets._claims[C1].runs) <= SETTLED_AT
    assert (offsets.promised(C1), offsets.acknowledged(C1)) == (n - 1, n - 1)
    assert len(offsets.segments()) == n - 1
    with pytest.raises(MapContradiction):
        offsets.apply(Run(P, C1, 5, 11))
