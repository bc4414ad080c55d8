"""Positions in what MirrorMaker 2 copied, by literal syncs and by what was compared."""

from __future__ import annotations

from uuid import UUID

import pytest

from drlib.mirror.journal.entries import (
    Ack,
    ClaimId,
    Compared,
    Expired,
    Placement,
    Run,
    SourcePartition,
    Takeover,
    Thinned,
)
from drlib.mirror.offsets.map import taken_part
from drlib.mirror.offsets.map.fold_claims import fold, unfold
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.offsets.map.taken_part import TakenPart, translate_sparse, within
from drlib.model import Segment, Translation, TranslationKind

P = SourcePartition(UUID(int=1), 0)


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


# -- what was compared ---------------------------------------------------------------------------------------------


def compared(number: int, source: int, target: int, *segments: tuple[int, int, int]) -> Compared:
    return Compared(P, number, source, target, tuple(Segment(*each) for each in segments))


def taken_over(*entries: Compared, pairs: tuple[tuple[int, int], ...] = ((0, 0), (30, 30), (90, 95))) -> TakenPart:
    found = TakenPart(Takeover(P, 100, 110, 99, 0, 0, pairs))
    for entry in entries:
        found.apply(entry)
    return found


def exact(offset: int) -> Translation:
    return Translation(offset, TranslationKind.EXACT)


def bounded(offset: int, records: int) -> Translation:
    return Translation(offset, TranslationKind.BOUNDED, records)


# Source 60 to 64 lie at 60 to 64 of the mirror. 65 is a marker. 66 to 79 follow, from 65 on. Then a repetition: 80 lies at 85.
# 90 is a marker, and the mirror has one too.
UPPER = compared(0, 66, 65, (66, 65, 14), (80, 85, 10), (91, 96, 9))
LOWER = compared(1, 58, 59, (60, 60, 5))


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (99, exact(104)),
        (91, exact(96)),
        (90, bounded(95, 1)),  # both logs have something there, which are no copies
        (89, exact(94)),
        (80, exact(85)),
        (79, exact(78)),
        (66, exact(65)),
        (65, exact(65)),  # only a marker of the source was there
        (64, exact(64)),
        (60, exact(60)),
        (59, bounded(59, 1)),
        (58, bounded(59, 1)),
        (57, bounded(31, 28)),  # not compared: from the syncs below
        (30, bounded(30, 29)),
        (5, bounded(1, 29)),
    ],
)
def test_taken_part_translates_each_position(source: int, target: Translation) -> None:
    assert taken_over(UPPER, LOWER).forward(source) == target


@pytest.mark.parametrize(
    ("target", "source"),
    [
        (109, bounded(100, 4)),
        (105, exact(100)),
        (104, exact(99)),
        (96, exact(91)),
        (95, exact(90)),
        (85, exact(80)),
        (84, bounded(80, 5)),  # in the repetition: whoever is there has read all up to 79
        (79, exact(80)),
        (65, exact(66)),
        (60, exact(60)),
        (59, exact(58)),
        (58, bounded(31, 27)),
        (5, bounded(1, 29)),
    ],
)
def test_taken_part_translates_each_position_back(target: int, source: Translation) -> None:
    assert taken_over(UPPER, LOWER).backward(target) == source


def test_taken_part_nothing_compared_is_translated_from_syncs() -> None:
    assert taken_over().cursor == (100, 110)
    assert taken_over().forward(60) == bounded(31, 64)
    assert taken_over().backward(60) == bounded(31, 59)


def test_taken_part_entry_of_the_same_number_replaces_the_former_one() -> None:
    longer = compared(0, 58, 59, (60, 60, 5), *((s.source, s.target, s.count) for s in UPPER.segments))
    found = taken_over(UPPER, longer)
    assert found.cursor == (58, 59)
    assert [found.forward(g) for g in range(100)] == [taken_over(UPPER, LOWER).forward(g) for g in range(100)]


def test_taken_part_entry_that_does_not_lie_below_the_others_does_not_count() -> None:
    for entry in (compared(1, 67, 60, (67, 60, 1)), compared(1, 60, 66, (60, 66, 1)), compared(0, 101, 1, (101, 1, 1))):
        assert taken_over(UPPER, entry).cursor == taken_over(UPPER).cursor


@pytest.mark.parametrize("entry", [compared(1, 66, 60, (66, 60, 1)), compared(1, 60, 65, (60, 60, 1))])
def test_taken_part_entry_that_lies_below_the_others_on_one_side_counts(entry: Compared) -> None:
    """Only repetitions lie between on the mirror, or only markers on the source."""
    assert taken_over(UPPER, entry).cursor == (entry.source_offset, entry.target_offset)


@pytest.mark.parametrize("beyond", [(57, 61), (60, 50)])
def test_taken_part_below_what_was_compared_takes_syncs_only_that_lie_there_on_both_sides(
    beyond: tuple[int, int],
) -> None:
    """One of another copy of its record would lead behind records that were not read."""
    found = taken_over(UPPER, LOWER, pairs=((0, 0), (30, 30), beyond))
    assert found.forward(57) == bounded(31, 28)
    assert found.backward(58) == bounded(31, 27)


def test_taken_part_is_extended_by_entries_that_say_all_that_is_known() -> None:
    found = taken_over()
    for step in ((66, 65, UPPER.segments), (58, 59, LOWER.segments)):
        for entry in found.extended(*step):
            found.apply(entry)
    assert found.cursor == (58, 59)
    assert [found.forward(g) for g in range(100)] == [taken_over(UPPER, LOWER).forward(g) for g in range(100)]


def test_taken_part_of_many_gaps_is_split_into_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taken_part, "SEGMENTS_PER_ENTRY", 3)
    found, journal = taken_over(), {}
    for source in range(90, 9, -10):  # in each step two records, and a marker of the source before each
        step = found.extended(source, source // 2, [Segment(source + n, (source + n) // 2, 1) for n in range(1, 10, 2)])
        for entry in step:
            journal[entry.key()] = entry
            found.apply(entry)
    assert all(len(entry.segments) <= 3 for entry in journal.values())
    again = taken_over(*journal.values())
    assert [again.forward(g) for g in range(100)] == [found.forward(g) for g in range(100)]
    assert [found.forward(g).offset for g in range(11, 100, 2)] == [g // 2 for g in range(11, 100, 2)]
    assert all(found.forward(g).exact for g in range(11, 100, 2))
    assert [found.backward(t) for t in range(5, 50)] == [exact(2 * t + 1) for t in range(5, 50)]


def test_taken_part_found_bit_by_bit_is_in_entries_that_are_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taken_part, "SEGMENTS_PER_ENTRY", 3)
    found, journal = taken_over(), {}
    for at in range(90, 0, -10):  # with gaps on both sides
        (entry,) = found.extended(at, at + 1, [Segment(at, at + 1, 2)])  # a full one is not written again
        journal[entry.key()] = entry
        found.apply(entry)
    assert [len(entry.segments) for entry in journal.values()] == [3, 3, 3]
    whole = taken_over().extended(10, 11, [Segment(at, at + 1, 2) for at in range(10, 100, 10)])
    assert [len(entry.segments) for entry in whole] == [3, 3, 3]
    for again in (taken_over(*journal.values()), taken_over(*whole)):
        assert again.cursor == found.cursor == (10, 11)
        assert [again.forward(at) for at in range(10, 100, 10)] == [exact(at + 1) for at in range(10, 100, 10)]
        assert [again.backward(at + 1) for at in range(10, 100, 10)] == [exact(at) for at in range(10, 100, 10)]


@pytest.mark.parametrize(
    ("position", "unread"),
    [(0, 59 + 38 + 5), (58, 1 + 38 + 5), (59, 38 + 5), (61, 37 + 5), (110, 5), (115, 0), (200, 0)],
)
def test_map_unread_counts_offsets_where_nothing_was_compared_and_copies_elsewhere(position: int, unread: int) -> None:
    offsets = PartitionMap()
    for entry in (Takeover(P, 100, 110, 99, 0, 0), UPPER, LOWER):
        offsets.apply(entry)
    assert offsets.unread(position) == max(0, unread - 5), "nothing was placed yet"
    claim = ClaimId(7, 0)
    for later in (Placement(P, claim, 0, 110), Run(P, claim, 0, 100), Ack(P, claim, 5, 115)):
        offsets.apply(later)
    assert offsets.unread(position) == unread


def test_map_of_thinned_stretches_behind_the_takeover_bounds_by_their_records() -> None:
    """Ten of their records are somewhere in 20 offsets: none of them has expired for certain."""
    offsets = PartitionMap()
    for entry in (Takeover(P, 100, 110, 99, 0, 0), Thinned(P, 120, 130, 10, (Segment(100, 110, 10),))):
        offsets.apply(entry)
    assert offsets.forward(115) == bounded(110, 10)
    assert offsets.forward(115, target_log_start=114) == bounded(114, 10)
    assert offsets.forward(115, target_log_start=125) == bounded(125, 5)
    assert offsets.backward(125) == bounded(100, 10)
    assert offsets.backward(125, source_log_start=104) == bounded(104, 10)
    assert offsets.backward(125, source_log_start=115) == bounded(115, 5)


def test_map_counts_compared_copies_that_expired_on_the_mirror_as_lost() -> None:
    offsets = PartitionMap()
    for entry in (Takeover(P, 100, 110, 99, 0, 0), UPPER, LOWER, Placement(P, ClaimId(7, 0), 0, 110)):
        offsets.apply(entry)
    assert offsets.forward(62, target_log_start=61) == exact(62)
    assert offsets.forward(60, target_log_start=63) == Translation(63, TranslationKind.LOST, 3, 3)
    assert offsets.forward(79, target_log_start=120) == Translation(120, TranslationKind.LOST, 20, 20)
    assert offsets.backward(62, source_log_start=64) == Translation(64, TranslationKind.LOST, 2, 2)
    assert offsets.backward(84, source_log_start=82) == bounded(82, 3)
    assert offsets.forward(90, target_log_start=96) == bounded(96, 0)
    assert offsets.forward(100) == exact(110)
    assert offsets.position == 100


def test_map_forgets_what_was_compared_once_it_expired() -> None:
    """Its entries are deleted from the journal, and do not count where they are still there."""
    journal = [Takeover(P, 100, 110, 99, 0, 0), UPPER, LOWER, Expired(P, 100, 110, 120, 130, 20)]
    offsets = PartitionMap()
    for entry in unfold(journal):
        offsets.apply(entry)
    assert offsets.forward(62).kind is TranslationKind.BOUNDED
    assert set(fold(journal, 1).forget) == {UPPER.key(), LOWER.key()}
    assert fold(journal[:3], 1).forget == ()


def test_not_compared_is_what_lies_between_the_copies_that_were_found() -> None:
    taken = taken_over(compared(0, 60, 70, (60, 70, 10), (75, 90, 20)), compared(1, 40, 40, (40, 40, 20)))
    assert list(taken.not_compared(0)) == [(0, 40), (60, 70), (80, 90)]
    assert list(taken.not_compared(65)) == [(65, 70), (80, 90)]
    assert list(taken_over().not_compared(5)) == [(5, 110)]


@pytest.mark.parametrize(
    ("offset", "found"), [(9, False), (10, True), (19, True), (20, False), (30, True), (31, False), (99, False)]
)
def test_within_ranges_has_their_first_offset_and_not_their_end(offset: int, *, found: bool) -> None:
    assert within(((10, 20), (30, 31)), offset) is found
    assert not within((), offset)
