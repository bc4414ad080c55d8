"""Stretches of a chunk stay packed until a map takes them; unpacked in any way they are what was written."""

from __future__ import annotations

from itertools import accumulate
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.mirror.journal.entries import Chunk, decode
from drlib.mirror.journal.fields import SourcePartition
from drlib.mirror.journal.packed_segments import PackedSegments
from drlib.mirror.offsets.map.segments import SegmentList
from drlib.model import Segment

P = SourcePartition(UUID(int=1), 0)
small, large = st.integers(0, 127), st.integers(0, 2**40)


MOST, HALF = b"\xff" * 8 + b"\x7f", b"\x80" * 8 + b"\x40"  # 2^63 - 1 and 2^62


def in_order(steps: list[tuple[int, int, int]]) -> list[Segment]:
    def follow(before: Segment, step: tuple[int, int, int]) -> Segment:
        return Segment(before.source_end + step[0], before.target_end + step[1], step[2])

    return list(accumulate(steps, follow, initial=Segment(0, 0, 0)))[1:]


steps = st.one_of(
    st.lists(st.tuples(small, st.integers(1, 127), st.integers(1, 127)), max_size=9),
    st.lists(st.tuples(large, st.integers(1, 2**40), st.integers(1, 2**40)), max_size=9),
    st.tuples(
        st.tuples(large, large, st.integers(1, 127)), st.lists(st.tuples(small, st.just(1), small), max_size=5)
    ).map(lambda drawn: [drawn[0], *((a, b, c + 1) for a, b, c in drawn[1])]),
).map(in_order)


def packed(segments: list[Segment]) -> PackedSegments:
    chunk = Chunk(P, 0, segments)
    found = decode(chunk.key(), chunk.value())
    assert isinstance(found, Chunk)
    assert isinstance(found.segments, PackedSegments)
    return found.segments


def test_packed_segments_with_the_last_offset_there_is_are_read() -> None:
    found = PackedSegments(2, b"\0\0" + HALF + b"\0\0" + b"\xff" * 8 + b"\x3f")
    assert (found[-1].source_end, [column[-1] for column in found.columns()]) == (2**63 - 1, [2**62, 2**62, 2**62 - 1])


@given(steps)
def test_packed_segments_are_those_that_were_written(segments: list[Segment]) -> None:
    found = packed(segments)
    assert list(found) == segments
    assert (len(found), found) == (len(segments), segments)
    assert hash(found) == hash(tuple(segments))
    assert [found[at] for at in range(-len(segments), len(segments))] == segments * 2
    assert found[1:3] == tuple(segments[1:3])
    with pytest.raises(IndexError):
        found[len(segments)]


@given(steps, steps)
def test_segment_list_is_extended_by_a_chunk_as_by_each_of_its_segments(
    first: list[Segment], more: list[Segment]
) -> None:
    end = (first[-1].source_end, first[-1].target_end) if first else (0, 0)
    later = [Segment(end[0] + s.source, end[1] + s.target, s.count) for s in more]
    whole, one_by_one = SegmentList(), SegmentList()
    for chunk in (first, later):
        whole.extend(packed(chunk))
        for segment in chunk:
            one_by_one.append(segment.source, segment.target, segment.count)
    assert list(whole) == list(one_by_one)
    for offset in (0, 1, *(s.source + 1 for s in later), *(s.source_end for s in first)):
        assert whole.mirrored(0, offset) == one_by_one.mirrored(0, offset)


@pytest.mark.parametrize(
    ("count", "raw", "why"),
    [
        (1, b"\1\1", "2 numbers in 2 bytes, where 1 segments have 3"),
        (1, b"\1\1\1\1", "4 numbers in 4 bytes, where 1 segments have 3"),
        (0, b"\1", "1 numbers in 1 bytes, where 0 segments have 0"),
        (1, b"\1\1\1\x81", "3 numbers in 4 bytes, where 1 segments have 3"),
        (1, b"\1\1" + b"\xff" * 10 + b"\1", "more than 64 bits"),
        (1, MOST + b"\0\1", "an offset of more than 63 bits"),
        (1, b"\0" + MOST + b"\1", "an offset of more than 63 bits"),
        (1, b"\1\0" + MOST, "an offset of more than 63 bits"),
        (2, b"\1\1\1" + MOST + b"\0\1", "an offset of more than 63 bits"),
        (2, b"\0\0" + HALF + b"\0\0" + HALF, "an offset of more than 63 bits"),
    ],
)
def test_packed_segments_of_other_bytes_are_refused(count: int, raw: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        PackedSegments(count, raw)
