"""Buckets against literal cases, and cuts against random mirrors kept record by record."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_maps import C1, TWO_RUNS, P, built

from drlib.analysis.continuous.rules import (
    Bucket,
    BucketFinding,
    BucketState,
    BucketSums,
    Cut,
    Difference,
    ReadEnds,
    aligned_start,
    cut_at,
    difference,
    judge_bucket,
)
from drlib.mirror.journal.entries import (
    Ack,
    Entry,
    Placement,
    Run,
    SourceLoss,
    SourceTruncated,
    Thinned,
)
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.model import Segment, TopicPartition

AT = TopicPartition("orders", 0)
HERE = BucketSums(records=10, bytes=100, content=7, check=9, first=20, last=29, changed_ms=1_000_000)
THERE = replace(HERE, first=50, last=59, changed_ms=1_001_000)
SHORT = replace(THERE, records=9, last=58)
PASSED = Cut(30, 60)
READ = ReadEnds(1_100_000, 1_100_000)  # 99 s after it last changed


def judged(
    source: BucketSums | None, target: BucketSums | None, cut: Cut | None = None, reading: ReadEnds = READ, **more: str
) -> BucketFinding:
    return judge_bucket(Bucket(AT, 0, source, target), cut, reading, lag_s=300, **more)


@pytest.mark.parametrize(
    ("source", "target", "what"),
    [
        (HERE, THERE, None),
        (HERE, SHORT, Difference.FEWER),
        (HERE, None, Difference.FEWER),
        (None, THERE, Difference.MORE),
        (replace(HERE, records=1), None, Difference.FEWER),
        (None, replace(THERE, records=1), Difference.MORE),
        (HERE, replace(THERE, records=11, bytes=101), Difference.MORE),
        (HERE, replace(THERE, bytes=101, content=0), Difference.BYTES),
        (HERE, replace(THERE, content=8), Difference.CONTENT),
        (HERE, replace(THERE, check=8), Difference.CONTENT),
    ],
)
def test_difference_reports_coarsest_difference(
    source: BucketSums | None, target: BucketSums | None, what: Difference | None
) -> None:
    assert difference(Bucket(AT, 0, source, target)) is what
    found = judged(source, target, Cut(1000, 1000))
    assert (found.state, found.what) == (BucketState.DIFFERS if what else BucketState.EQUAL, what)


def test_judge_bucket_equal_sums_are_equal() -> None:
    assert HERE.late == 0  # unless it was counted
    assert judged(HERE, THERE, None, ReadEnds()).state is BucketState.EQUAL
    assert judged(HERE, THERE, Cut(0, 0), ReadEnds(), doubt="a cleaner").state is BucketState.EQUAL


@pytest.mark.parametrize(
    ("cut", "state"),
    [
        (PASSED, BucketState.DIFFERS),
        (
            Cut(29, 60),
            BucketState.NOT_YET,
        ),  # its last record on the source is the first that the mirror has yet to copy
        (Cut(30, 58), BucketState.NOT_YET),  # the target holds one of it that was copied from behind the cut
        (None, BucketState.NOT_YET),
    ],
)
def test_judge_bucket_unequal_differs_only_behind_cut(cut: Cut | None, state: BucketState) -> None:
    assert judged(HERE, SHORT, cut).state is state


@pytest.mark.parametrize(
    ("source_ms", "target_ms", "state"),
    [
        (1_302_000, 1_302_000, BucketState.OVERDUE),
        (1_301_000, 1_302_000, BucketState.NOT_YET),  # 300 s are allowed
        (1_301_100, 1_302_000, BucketState.OVERDUE),
        (9_000_000, 1_200_000, BucketState.NOT_YET),  # the target was not read since
        (1_200_000, 9_000_000, BucketState.NOT_YET),
        (None, 9_000_000, BucketState.NOT_YET),
        (9_000_000, None, BucketState.NOT_YET),
    ],
)
def test_judge_bucket_unequal_without_cut_is_overdue_after_lag(
    source_ms: int | None, target_ms: int | None, state: BucketState
) -> None:
    assert judged(HERE, SHORT, None, ReadEnds(source_ms, target_ms)).state is state


def test_judge_bucket_doubtful_difference_is_unknown_with_reason() -> None:
    found = judged(HERE, SHORT, PASSED, doubt="a cleaner")
    assert (found.state, found.what, found.why) == (BucketState.UNKNOWN, Difference.FEWER, "a cleaner")


@pytest.mark.parametrize(
    ("source", "target", "cut"),
    [
        (18, 8, Cut(18, 8)),
        (40, 20, Cut(18, 8)),  # the source is ahead of the mirror
        (40, 5, Cut(14, 5)),  # and the target was not read to the mirror's end
        (13, 8, Cut(13, 4)),  # the target was read further than the source
        (15, 20, Cut(15, 6)),
    ],
)
def test_cut_at_is_behind_both_positions(source: int, target: int, cut: Cut) -> None:
    assert cut_at(built(*TWO_RUNS), source, target) == cut


def test_cut_at_a_target_read_to_lost_records_keeps_the_source_position() -> None:
    offsets = built(Placement(P, C1, 0, 0), Run(P, C1, 0, 0), SourceLoss(P, 1, 3, 0), Ack(P, C1, 1, 1))
    assert cut_at(offsets, 2, 1) == Cut(2, 1)


def test_cut_at_without_map_is_none() -> None:
    assert cut_at(None, 5, 5) is None
    assert cut_at(PartitionMap(), 5, 5) is None


@pytest.mark.parametrize(
    ("source_start", "target_start", "cut"),
    [
        (10, 0, Cut(10, 1)),
        (12, 0, Cut(12, 3)),  # expired at the source, and still on the target
        (10, 4, Cut(13, 4)),  # the other way round
        (0, 0, Cut(10, 1)),  # mirrored from a later record on
        (16, 3, Cut(16, 6)),
    ],
)
def test_aligned_start_begins_with_same_record(source_start: int, target_start: int, cut: Cut) -> None:
    assert aligned_start(built(*TWO_RUNS), source_start, target_start) == cut


def test_aligned_start_of_a_thinned_map_is_its_first_beginning_or_unknown() -> None:
    more = (Run(P, C1, 7, 20), Ack(P, C1, 9, 10))
    thinned = built(*TWO_RUNS, *more, Thinned(P, 18, 8, 7, (Segment(10, 1, 7),)))
    assert aligned_start(thinned, 0, 0) == aligned_start(thinned, 10, 0) == Cut(10, 1)
    assert aligned_start(thinned, 12, 0) is None
    assert aligned_start(thinned, 20, 0) == Cut(20, 8)


def test_aligned_start_begins_at_the_target_where_source_was_read_further() -> None:
    assert aligned_start(built(Placement(P, C1, 0, 0), Run(P, C1, 0, 0), Ack(P, C1, 1, 1)), 2, 1) == Cut(2, 1)


def test_aligned_start_is_unknown_where_the_map_is() -> None:
    assert aligned_start(built(*TWO_RUNS), 10, 20) is None  # the target's log starts past all that was mirrored
    truncated = built(*TWO_RUNS, SourceTruncated(P, 12, 18, 0))
    assert aligned_start(truncated, 16, 0) is None
    assert aligned_start(truncated, 10, 7) is None
    assert aligned_start(truncated, 10, 0) == Cut(10, 1)


def test_aligned_start_includes_records_lost_before_first_copy() -> None:
    offsets = built(SourceLoss(P, 0, 10, 0), *TWO_RUNS)
    assert aligned_start(offsets, 4, 0) == Cut(4, 1)


def test_aligned_start_without_map_needs_both_logs_at_zero() -> None:
    assert aligned_start(None, 0, 0) == Cut(0, 0)
    assert aligned_start(None, 5, 0) is None
    assert aligned_start(PartitionMap(), 0, 3) is None


@given(
    gaps=st.lists(st.integers(0, 3), min_size=1, max_size=40),
    others=st.lists(st.integers(0, 3), min_size=40, max_size=40),
    read=st.tuples(st.integers(0, 200), st.integers(0, 200)),
)
def test_cut_at_records_before_cut_are_copies_before_it(
    gaps: list[int], others: list[int], read: tuple[int, int]
) -> None:
    """Random gaps on both sides: control records of the source, markers and restarts on the target."""
    pairs: list[tuple[int, int]] = []
    source = target = 0
    entries: list[Entry] = []
    for number, (gap, other) in enumerate(zip(gaps, others, strict=False)):
        source, target = source + gap, target + other
        pairs.append((source, target))
        entries += [Placement(P, C1, number, target), Run(P, C1, number, source)]
        source, target = source + 1, target + 1
    offsets = built(*entries, Ack(P, C1, len(pairs), target))
    cut = cut_at(offsets, *read)
    if cut is None:
        return
    assert cut.source <= read[0]
    assert cut.target <= read[1]
    assert [pair for pair in pairs if pair[0] < cut.source] == [pair for pair in pairs if pair[1] < cut.target]
