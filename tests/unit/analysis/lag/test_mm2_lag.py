"""What MirrorMaker 2's pairs say of its lag, against a copy whose truth is known."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from drlib.analysis.lag.mm2_lag import (
    Mm2Position,
    UnknownMm2Position,
    copied_but_unread,
    judge_bounds,
    judge_deleted,
    mm2_position,
)
from drlib.analysis.lag.trend import LagJudgement, Limits, Point, Slope, judge_lag
from drlib.mirror.mm2.offset_syncs import OffsetSyncWriter
from drlib.mirror.mm2.records import OffsetSync
from drlib.model import TopicPartition
from drlib.runs.check import Verdict

AT = TopicPartition("orders", 0)
LIMITS = Limits(retention_s=3600.0, objective_s=60.0)


def test_bounds_contain_true_lag_of_any_mirror_maker_run() -> None:
    """Sources with gaps, kills that send records again, foreign records: copied record by record by MM2's own rule."""
    bounded = known = 0
    for seed in range(300):
        rng = random.Random(seed)
        source = sorted(rng.sample(range(2000), 1000))  # offsets that hold records, the others are gaps
        writer = OffsetSyncWriter(rng.choice((0, 10, 100)))
        newest: OffsetSync | None = None
        mirror_end, at = rng.randrange(3), 0
        for _ in range(rng.randrange(1, 1000)):
            if at == len(source):
                break
            writer.acked(AT, source[at], mirror_end)
            newest = (writer.take_due() or (newest,))[-1]
            at, mirror_end = at + 1, mirror_end + 1
            if rng.random() < 0.01:
                mirror_end += rng.randrange(3)  # of another producer, or a control record
            if rng.random() < 0.005:  # killed, and what was not flushed is sent again
                at = max(0, at - rng.randrange(50))
                writer.forget(AT)
                if rng.random() < 0.5 and at < len(source):  # else the new run has not begun to send
                    writer.acked(AT, source[at], mirror_end)
                    (newest,) = writer.take_due()
                    at, mirror_end = at + 1, mirror_end + 1
        assert newest is not None
        found = mm2_position(newest, source[-1] + 1, mirror_end)
        assert isinstance(found, Mm2Position)
        behind = [offset for offset in source if offset >= found.position]
        most, least = len(behind), max(0, len(behind) - found.more)
        left = len(source) - at
        assert least <= left, seed
        if at and newest.upstream_offset <= source[at - 1]:  # else it was set back and no newer pair shows it
            assert left <= most, seed
            known += 1
        bounded += least > 0
    assert bounded > 100  # the lower bound is rarely zero
    assert known > 280


def test_mm2_position_pair_beyond_log_end_is_unknown() -> None:
    sync = OffsetSync(AT, 150, 251)
    assert mm2_position(sync, 151, 252) == Mm2Position(151, 0)
    assert mm2_position(sync, 200, 300) == Mm2Position(151, 48)
    gone, again = mm2_position(sync, 150, 300), mm2_position(sync, 200, 251)
    assert isinstance(gone, UnknownMm2Position)
    assert "the source ends at 150" in gone.why
    assert isinstance(again, UnknownMm2Position)
    assert "the mirror ends at 251" in again.why


def points(age: float, per_minute: float) -> list[Point]:
    return [Point(60.0 * n, int(age + per_minute * n), 1000, age + per_minute * n) for n in range(30)]


def test_judge_bounds_disagreeing_bounds_are_unknown() -> None:
    late = judge_lag(points(90.0, 0.0), LIMITS)
    assert late.verdict is Verdict.FAIL
    assert judge_bounds(late, Point(1740.0, 80, 1000, 61.0), LIMITS).verdict is Verdict.FAIL
    doubt = judge_bounds(late, Point(1740.0, 80, 1000, 59.0), LIMITS)
    assert doubt.verdict is Verdict.UNKNOWN
    assert "certain are only 80 records and 59.0 s" in doubt.why
    fine = judge_lag(points(30.0, 0.0), LIMITS)
    assert judge_bounds(fine, Point(1740.0, 0, 0, 0.0), LIMITS) == fine
    growing = judge_lag(points(1.0, 50.0), Limits(retention_s=3600.0))  # a minute older by almost a minute each minute
    assert "retention may reach it" in growing.why
    assert judge_bounds(growing, Point(1740.0, 1, 10, 1.0), Limits(retention_s=3600.0)) == growing
    assert judge_bounds(growing, Point(1740.0, 0, 0, 0.0), Limits(retention_s=3600.0)).verdict is Verdict.UNKNOWN
    lost = judge_lag(points(3601.0, 0.0), LIMITS)
    assert judge_bounds(lost, Point(1740.0, 1, 10, 1.0), LIMITS).verdict is Verdict.UNKNOWN
    assert judge_bounds(lost, Point(1740.0, 1, 10, 3600.0), LIMITS).verdict is Verdict.FAIL


@pytest.mark.parametrize(
    ("low", "soonest_s", "verdict"),
    [
        (0.1, 0.5, Verdict.FAIL),
        (0.1, 86_400.0, Verdict.FAIL),
        (0.1, 86_401.0, Verdict.UNKNOWN),
        (0.1, None, Verdict.UNKNOWN),
        (-0.1, 0.5, Verdict.UNKNOWN),  # it may as well shrink
    ],
)
def test_judge_bounds_predicted_loss_needs_growth_and_a_day_at_most(
    low: float, soonest_s: float | None, verdict: Verdict
) -> None:
    age = Slope(0.5, low, 1.1, 30, 30.0)
    most = LagJudgement(Verdict.FAIL, "it may be lost", None, age.trend, age, age, soonest_s)
    assert judge_bounds(most, Point(1740.0, 1, 10, 1.0), LIMITS).verdict is verdict
    assert judge_bounds(replace(most, age_per_s=None), Point(1740.0, 1, 10, 1.0), LIMITS).verdict is Verdict.UNKNOWN


def test_judge_deleted_fails_only_beyond_possible_copies() -> None:
    fine = judge_lag(points(30.0, 0.0), LIMITS)
    assert judge_deleted(fine, Mm2Position(100, 20), 100) == fine
    assert judge_deleted(fine, Mm2Position(100, 20), 120).verdict is Verdict.UNKNOWN
    gone = judge_deleted(fine, Mm2Position(100, 20), 121)
    assert (gone.verdict, gone.soonest_s, gone.expected_s) == (Verdict.FAIL, 0.0, 0.0)
    doubt = judge_deleted(fine, Mm2Position(100, 20), 101)
    assert (doubt.verdict, doubt.soonest_s, doubt.expected_s) == (Verdict.UNKNOWN, 0.0, None)
    assert "offsets 100 to 121" in gone.why


def test_copied_but_unread_counts_certain_copies_only() -> None:
    assert copied_but_unread(Point(9.0, 500, 5000, 44.0), Point(9.0, 120, 1000, 7.0)) == Point(9.0, 380, 4000, 44.0)
    assert copied_but_unread(Point(9.0, 121, 900, 44.0), Point(9.0, 120, 1000, 7.0)) == Point(9.0, 1, 0, 44.0)
    assert copied_but_unread(Point(9.0, 100, 5000, 44.0), Point(9.0, 120, 1000, 7.0)) == Point(9.0, 0, 0, 0.0)
