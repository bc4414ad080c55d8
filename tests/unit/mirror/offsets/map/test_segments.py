"""The list of mirrored stretches, by literal ones: 10..14 at 1..5, 16..17 at 6..7, 20 at 12."""

from __future__ import annotations

from uuid import UUID

import pytest

from drlib.mirror.journal.entries import SourcePartition, Thinned
from drlib.mirror.offsets.map.segments import MapContradiction, SegmentList
from drlib.model import Segment

FIRST, SECOND, THIRD = Segment(10, 1, 5), Segment(16, 6, 2), Segment(20, 12, 1)


def listed(*segments: Segment) -> SegmentList:
    found = SegmentList()
    for segment in segments:
        found.append(segment.source, segment.target, segment.count)
    return found


SEGMENTS = listed(FIRST, SECOND, THIRD)


def test_segments_empty_list_has_no_end_and_finds_nothing() -> None:
    empty = SegmentList()
    assert (len(empty), empty.source_end, empty.target_end) == (0, None, None)
    assert (empty.find_source(0), empty.find_target(0), empty.next_source(0), empty.next_target(0)) == (None,) * 4
    assert (empty.mirrored(0, 100), empty.on_target(0, 100)) == (0, 0)


def test_segments_are_a_sequence() -> None:
    assert list(SEGMENTS) == [FIRST, SECOND, THIRD]
    assert SEGMENTS[-1] == THIRD
    assert SEGMENTS[:2] == (FIRST, SECOND)
    assert (SEGMENTS.source_end, SEGMENTS.target_end) == (21, 13)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (Segment(21, 13, 4), Segment(20, 12, 5)),  # contiguous on both sides
        (Segment(22, 13, 4), Segment(22, 13, 4)),
        (Segment(21, 14, 4), Segment(21, 14, 4)),
    ],
)
def test_append_merges_what_is_contiguous_on_both_sides(more: Segment, expected: Segment) -> None:
    segments = listed(FIRST, SECOND, THIRD, more)
    assert segments[-1] == expected
    assert segments.mirrored(0, 100) == segments.on_target(0, 100) == 12


@pytest.mark.parametrize("more", [Segment(20, 13, 1), Segment(21, 12, 1)])
def test_append_that_goes_back_on_either_side_is_a_contradiction(more: Segment) -> None:
    with pytest.raises(MapContradiction, match="comes after source offset 21 and target offset 13"):
        listed(FIRST, SECOND, THIRD, more)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (9, 0, None),
        (10, 1, (FIRST, SECOND)),
        (15, 5, (FIRST, SECOND)),
        (16, 6, (SECOND, THIRD)),
        (19, 11, (SECOND, THIRD)),
        (20, 12, (THIRD, None)),
        (99, 99, (THIRD, None)),
    ],
)
def test_find_last_segment_at_or_below_an_offset_and_its_successor(
    source: int, target: int, expected: tuple[Segment, Segment | None] | None
) -> None:
    assert SEGMENTS.find_source(source) == expected
    assert SEGMENTS.find_target(target) == expected


@pytest.mark.parametrize(
    ("offset", "expected"), [(0, 10), (10, 10), (14, 14), (15, 16), (17, 17), (18, 20), (20, 20), (21, None)]
)
def test_next_source_is_the_first_mirrored_offset_from_there(offset: int, expected: int | None) -> None:
    assert SEGMENTS.next_source(offset) == expected


@pytest.mark.parametrize(("offset", "expected"), [(0, 1), (1, 1), (7, 7), (8, 12), (12, 12), (13, None)])
def test_next_target_is_the_first_mirrored_offset_from_there(offset: int, expected: int | None) -> None:
    assert SEGMENTS.next_target(offset) == expected


@pytest.mark.parametrize(
    ("first", "end", "expected"),
    [(0, 10, 0), (0, 11, 1), (10, 15, 5), (14, 17, 2), (12, 21, 6), (18, 20, 0), (20, 12, 0)],
)
def test_mirrored_counts_the_records_of_a_source_range(first: int, end: int, expected: int) -> None:
    assert SEGMENTS.mirrored(first, end) == expected


@pytest.mark.parametrize(
    ("first", "end", "expected"), [(0, 1, 0), (0, 2, 1), (1, 6, 5), (5, 7, 2), (3, 13, 6), (8, 12, 0), (12, 3, 0)]
)
def test_on_target_counts_the_records_of_a_target_range(first: int, end: int, expected: int) -> None:
    assert SEGMENTS.on_target(first, end) == expected


@pytest.mark.parametrize(
    ("offset", "target", "source"),
    [
        (0, 1, 5),
        (1, 1, 5),
        (5, 1, 5),
        (21, 1, 27),
        (26, 1, 27),
        (27, 21, 27),
        (30, 21, 27),
        (31, 21, 50),
        (37, 40, 50),
        (42, 40, 52),
        (45, 40, None),
        (54, 44, None),
        (55, None, None),
    ],
)
def test_other_side_of_the_next_record_is_at_most_the_beginning_of_its_part_where_segments_are_thinned(
    offset: int, target: int | None, source: int | None
) -> None:
    """27 at 21 begins the second of the thinned parts, which end at 37 and 31; 50..54 are at 40..44."""
    segments = SegmentList()
    segments.thin(Thinned(SourcePartition(UUID(int=1), 0), 37, 31, 30, (Segment(5, 1, 20), Segment(27, 21, 10))))
    segments.append(50, 40, 5)
    assert (segments.target_at(offset), segments.source_at(offset)) == (target, source)


@pytest.mark.parametrize(
    ("offset", "written"),
    [
        (0, (1, 21)),
        (10, (10, 21)),
        (21, (40, 45)),  # of the second part it is not known which offsets hold the eight records
        (31, (40, 45)),
        (44, (44, 45)),
        (45, None),
    ],
)
def test_written_from_is_known_of_thinned_parts_without_gaps(offset: int, written: tuple[int, int] | None) -> None:
    segments = SegmentList()
    segments.thin(Thinned(SourcePartition(UUID(int=1), 0), 37, 31, 28, (Segment(5, 1, 20), Segment(27, 21, 8))))
    segments.append(50, 40, 5)
    assert segments.written_from(offset) == written
