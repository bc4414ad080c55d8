"""Slopes with confidence, and the losses predicted from them."""

from __future__ import annotations

import random

import pytest

from drlib.analysis.lag.trend import Limits, Point, Trend, judge_lag, partition_shares, seconds_until, slope, student_t
from drlib.runs.check import Verdict

HOUR = 3600.0


def series(hours: int, age: float, per_hour: float, *, noise: float = 0.0, seed: int = 7) -> list[Point]:
    """A lag that starts at `age` seconds and grows by `per_hour` seconds an hour, sampled every five minutes."""
    rng = random.Random(seed)
    found = []
    for step in range(hours * 12):
        value = max(0.0, age + per_hour * step / 12 + rng.gauss(0, noise))
        found.append(Point(step * 300.0, int(value * 10), int(value * 1000), value))
    return found


def test_slope_interval_contains_true_slope() -> None:
    inside = 0
    for seed in range(200):
        rng = random.Random(seed)
        found = slope([(x, 3.0 * x + rng.gauss(0, 20)) for x in range(40)])
        assert found is not None
        inside += found.low <= 3.0 <= found.high
    assert 180 <= inside <= 200  # 95 % of intervals


def test_slope_random_walk_is_rarely_growing() -> None:
    wrong = 0
    for seed in range(200):
        rng, at, points = random.Random(seed), 0.0, []
        for x in range(120):
            at = 0.8 * at + rng.gauss(0, 1)  # each value is like the one before it
            points.append((float(x), at))
        found = slope(points)
        assert found is not None
        wrong += found.trend is not Trend.STEADY
    assert wrong <= 24  # 5 % are due; without regard to the likeness it would be half of them


def test_slope_exact_line_has_zero_width() -> None:
    found = slope([(x, 2.0 * x) for x in range(20)])
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((2.0, 2.0, 2.0))
    assert found.trend is Trend.GROWING
    flat = slope([(x, 5.0) for x in range(20)])
    assert flat is not None
    assert (flat.trend, flat.independent) == (Trend.STEADY, 20)


def test_slope_too_few_points_is_none() -> None:
    assert slope([(x, x) for x in range(7)]) is None
    assert slope([(x, x) for x in range(8)]) is not None
    assert slope([(1.0, x) for x in range(20)]) is None


def test_slope_of_independent_residuals_has_the_interval_of_simple_regression() -> None:
    """Standard error by numpy's polyfit, t of 8 degrees of freedom by the table."""
    points = [(x, 2 * x + (-1) ** x) for x in range(10)]
    found = slope(points)
    assert found is not None
    assert (found.value, found.independent) == pytest.approx((64 / 33, 10))
    assert found.high - found.value == pytest.approx(2.306004 * 0.12121212121, rel=1e-4)
    assert found.value - found.low == pytest.approx(found.high - found.value)


@pytest.mark.parametrize("unit", [1.0, 1e-4, 1e4])
def test_slope_similar_neighbours_widen_the_interval_in_any_unit(unit: float) -> None:
    """Runs of three: the first-order autocorrelation of the residuals is 17/36."""
    runs = "+++---++++++---+++"
    found = slope([(x * unit, unit if sign == "+" else -unit) for x, sign in enumerate(runs)])
    assert found is not None
    assert found.independent == pytest.approx(18 * (1 - 17 / 36) / (1 + 17 / 36))
    assert (found.value, found.high) == pytest.approx((0.0, 0.20244651461360272))


@pytest.mark.parametrize(("points", "independent"), [(40, 3.0), (1000, 1000 * 0.01 / 1.99)])
def test_slope_smooth_curve_has_few_independent_points(points: int, independent: float) -> None:
    middle = (points - 1) / 2
    found = slope([(x, (x - middle) ** 2) for x in range(points)])
    assert found is not None
    assert found.independent == pytest.approx(independent)


@pytest.mark.parametrize(
    ("freedom", "expected"), [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (10, 2.228), (30, 2.042), (1000, 1.962)]
)
def test_student_t_matches_published_tables(freedom: float, expected: float) -> None:
    assert student_t(0.95, freedom) == pytest.approx(expected, rel=0.01 if freedom > 2 else 0.0001)


def test_student_t_is_the_expansion_of_abramowitz_and_stegun() -> None:
    """Formula 26.7.5: at 4 degrees of freedom it is 2e-4 below the quantile, 2.7764."""
    assert student_t(0.95, 4) == pytest.approx(2.775582224236797, rel=1e-12)


def test_judge_lag_predicts_loss_hours_before_retention() -> None:
    day = Limits(retention_s=24 * HOUR)
    found = judge_lag(series(10, 0.0, 0.9 * HOUR, noise=60), day)  # nine hours behind after ten
    assert found.verdict is Verdict.FAIL
    assert found.trend is Trend.GROWING
    assert found.expected_s == pytest.approx(15 * HOUR / 0.9, rel=0.05)
    assert found.soonest_s is not None
    assert found.expected_s is not None
    assert found.soonest_s <= found.expected_s
    assert "may reach it in" in found.why
    # the same lag that does not grow loses nothing, however long it is
    steady = judge_lag(series(10, 9 * HOUR, 0.0, noise=60), day)
    assert (steady.verdict, steady.trend) == (Verdict.PASS, Trend.STEADY)
    # and one that will be a week about it is for another day
    assert judge_lag(series(10, 0.0, 0.05 * HOUR), day).verdict is Verdict.PASS


def test_judge_lag_age_slope_is_capped_at_one() -> None:
    found = judge_lag(series(2, 0.0, 3 * HOUR), Limits(retention_s=24 * HOUR))
    assert found.soonest_s == pytest.approx((24 - 3 * 23 / 12) * HOUR, rel=0.01)


def test_judge_lag_expired_fails_and_zero_lag_passes() -> None:
    lost = judge_lag(series(2, 25 * HOUR, 0.0), Limits(retention_s=24 * HOUR))
    assert (lost.verdict, lost.soonest_s, lost.expected_s) == (Verdict.FAIL, 0.0, 0.0)
    assert lost.why == "retention is deleting unread records"
    at_the_limit = judge_lag(series(1, 100.0, 0.0)[:3], Limits(retention_s=100.0))
    assert (at_the_limit.verdict, at_the_limit.soonest_s) == (Verdict.FAIL, 0.0)
    done = [Point(step * 300.0, 0, 0, 0.0) for step in range(24)]
    found = judge_lag(done, Limits(retention_s=1.0, retention_bytes=1))
    assert (found.verdict, found.soonest_s, found.expected_s) == (Verdict.PASS, None, None)
    assert found.why == "nothing is behind"


def test_judge_lag_retention_bytes_predicts_loss() -> None:
    points = [Point(step * 60.0, step, step * 1000, 1.0) for step in range(60)]
    found = judge_lag(points, Limits(retention_bytes=100_000))
    assert found.expected_s == pytest.approx((100_000 - 59_000) / (1000 / 60), rel=0.01)


def test_judge_lag_without_points_is_unknown() -> None:
    assert judge_lag([], Limits()).verdict is Verdict.UNKNOWN
    few = judge_lag(series(1, 100.0, 0.0)[:3], Limits(retention_s=HOUR * 24))
    assert (few.verdict, few.trend) == (Verdict.UNKNOWN, Trend.UNKNOWN)
    assert judge_lag(series(1, 100.0, 0.0)[:3], Limits(objective_s=10)).verdict is Verdict.FAIL


def test_judge_lag_at_its_objective_is_behind_and_passes() -> None:
    found = judge_lag(series(1, 100.0, 0.0), Limits(objective_s=100.0))
    assert (found.verdict, found.why) == (Verdict.PASS, "behind, and not growing towards a loss")


@pytest.mark.parametrize(("spare_s", "verdict"), [(86_400.0, Verdict.FAIL), (86_401.0, Verdict.PASS)])
def test_judge_lag_fails_where_a_loss_may_come_within_a_day(spare_s: float, verdict: Verdict) -> None:
    """An age that grows by more than a second a second is taken to grow by one."""
    points = [Point(step * 10.0, 500, 1000, step * 20.0) for step in range(40)]
    found = judge_lag(points, Limits(retention_s=780.0 + spare_s))
    assert (found.verdict, found.soonest_s) == (verdict, spare_s)
    if verdict is Verdict.FAIL:
        assert found.why == "retention may reach it in 24.0 h, 24.0 h at the present rate"


def test_judge_lag_loss_that_the_present_rate_does_not_bring_is_named_without_it() -> None:
    """The age grows; the bytes waver, and at the upper end of their interval they grow as well."""
    points = [Point(step * 10.0, 500, 1000 + 400 * (step % 2) - 3 * step, step * 5.0) for step in range(40)]
    found = judge_lag(points, Limits(retention_bytes=1500))
    assert (found.verdict, found.expected_s) == (Verdict.FAIL, None)
    assert found.why.startswith("retention may reach it in ")
    assert "at the present rate" not in found.why


def test_seconds_until_limit() -> None:
    assert seconds_until(10, 10, 0) == 0
    assert (seconds_until(10, 4, 2), seconds_until(10, 10, 2), seconds_until(10, 4, 0), seconds_until(10, 4, -1)) == (
        3,
        0,
        None,
        None,
    )


def test_partition_shares_twice_the_even_share_is_hot() -> None:
    found = partition_shares(
        [("a", 0, 10, 100), ("a", 1, 60, 700), ("a", 2, 10, 100), ("a", 3, 10, 100), ("b", 0, 5, 5)]
    )
    assert (found[0].topic, found[0].partition, found[0].hot) == ("a", 1, True)
    assert found[0].times == pytest.approx(2.8)
    assert [share.hot for share in found[1:]] == [False] * 4
    assert partition_shares([("a", 0, 0, 0)])[0].times == 0
    assert [share.hot for share in partition_shares([("a", 0, 1, 100), ("a", 1, 0, 0)])] == [True, False]


def test_judge_lag_growing_age_alone_is_growing() -> None:
    points = [Point(step * 10.0, 500 + step % 2, 1000, step * 5.0) for step in range(40)]
    found = judge_lag(points, Limits(retention_s=HOUR))
    assert found.trend is Trend.GROWING
    assert found.records_per_s is not None
    assert found.records_per_s.trend is Trend.STEADY
