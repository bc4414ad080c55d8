"""Does a lag grow, how certainly, and when does retention reach it? Arithmetic on a few hundred points. Pure.

Rules:
- A slope has a confidence interval, or there is none: least squares, with Student's t, and as many independent points as the
  first-order autocorrelation of the residuals leaves, because a lag now resembles the lag a minute ago.
- A lag is growing or shrinking only when the whole interval is on one side of 0; otherwise it is steady. Too few points are
  unknown, never steady.
- Age cannot grow faster than time passes: the next unread record is never older than the one before it.
- The soonest loss comes from the upper end of the interval; warnings rest on it.
- A lag of nothing cannot be lost.
Source: Bayley & Hammersley, "The effective number of independent observations in an autocorrelated time series" (1946).
Not for: forecasting from rates in a running worker (`drlib.mirror.status.forecast`), or reading lag from logs
(`drlib.analysis.lag.frames`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from math import inf, sqrt
from statistics import NormalDist, fmean
from typing import Final

from drlib.runs.check import Verdict

CONFIDENCE: Final = 0.95
LEAST_POINTS: Final = 8
HORIZON_S: Final = 86400.0  # a loss that may come within a day needs action today
HOT: Final = 2.0  # times an even share


class Trend(StrEnum):
    GROWING = "growing"
    STEADY = "steady"
    SHRINKING = "shrinking"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Slope:
    """Units of y per unit of x; `low` and `high` bound it with `CONFIDENCE`. `independent` of `points` count."""

    value: float
    low: float
    high: float
    points: int
    independent: float

    @property
    def trend(self) -> Trend:
        return Trend.GROWING if self.low > 0 else Trend.SHRINKING if self.high < 0 else Trend.STEADY


@dataclass(frozen=True, slots=True)
class Point:
    """A lag at one moment: epoch seconds, records, bytes, and the age in seconds of the next unread record (0 for none)."""

    at_s: float
    records: int
    bytes: int
    age_s: float


@dataclass(frozen=True, slots=True)
class Limits:
    """What a lag is judged against; None for no limit. `objective_s`: the agreed age."""

    retention_s: float | None = None
    retention_bytes: int | None = None
    objective_s: float | None = None
    horizon_s: float = HORIZON_S


@dataclass(frozen=True, slots=True)
class LagJudgement:
    """The judgement on one reader's lag in one partition. Times until a loss in seconds from the last point; None for never."""

    verdict: Verdict
    why: str
    last: Point | None
    trend: Trend
    records_per_s: Slope | None
    age_per_s: Slope | None
    soonest_s: float | None = None
    expected_s: float | None = None


def slope(points: Sequence[tuple[float, float]]) -> Slope | None:
    """The least-squares slope of (x, y) with its interval; None with fewer than `LEAST_POINTS` points or without any width in
    x.
    """
    count = len(points)
    if count < LEAST_POINTS:
        return None
    x0, y0 = fmean(x for x, _ in points), fmean(y for _, y in points)
    width = sum((x - x0) ** 2 for x, _ in points)
    if width <= 0:
        return None
    value = sum((x - x0) * (y - y0) for x, y in points) / width
    residuals = [y - y0 - value * (x - x0) for x, y in points]
    squares = sum(r * r for r in residuals)
    autocorrelation = 0.0
    if squares > 0:
        autocorrelation = sum(a * b for a, b in pairwise(residuals)) / squares
    autocorrelation = min(max(autocorrelation, 0.0), 0.99)
    independent = max(3.0, count * (1 - autocorrelation) / (1 + autocorrelation))
    error = sqrt(squares / (count - 2) / width * count / independent)
    reach = student_t(CONFIDENCE, independent - 2) * error
    return Slope(value, value - reach, value + reach, count, independent)


def student_t(confidence: float, freedom: float) -> float:
    """Two-sided quantile of Student's t, by Cornish-Fisher: within 1 % from 4 degrees of freedom on, exact for 1 and 2."""
    if freedom <= 1:
        from math import pi, tan

        return tan(pi * confidence / 2)
    if freedom <= 2:
        return confidence * sqrt(2 / (1 - confidence**2))
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / freedom ** (power + 1) for power, term in enumerate(terms))


def seconds_until(limit: float, value: float, per_s: float) -> float | None:
    """Seconds until `value`, growing by `per_s`, reaches `limit`; 0 when it has, None when it never will."""
    if value >= limit:
        return 0.0
    return (limit - value) / per_s if per_s > 0 else None


def judge_lag(points: Sequence[Point], limits: Limits) -> LagJudgement:
    """The judgement on one series, oldest point first.

    Fail: older than the objective, or retention deletes unread records, or may within the horizon. Unknown: no point, or
    something is behind and there are too few points for a slope. Else pass.
    """
    if not points:
        return LagJudgement(Verdict.UNKNOWN, "there is no point of this lag", None, Trend.UNKNOWN, None, None)
    last = points[-1]
    by_records = slope([(p.at_s, p.records) for p in points])
    by_age = slope([(p.at_s, p.age_s) for p in points])
    by_bytes = slope([(p.at_s, p.bytes) for p in points])
    trend = _trend(by_records, by_age)
    soonest, expected = _losses(last, limits, by_age, by_bytes)
    verdict, why = _verdict(last, limits, by_age, soonest, expected)
    return LagJudgement(verdict, why, last, trend, by_records, by_age, soonest, expected)


def _trend(by_records: Slope | None, by_age: Slope | None) -> Trend:
    """Growing in records or in age is growing: fewer records may be older, and as many of them more recent."""
    if by_records is None or by_age is None:
        return Trend.UNKNOWN
    return Trend.GROWING if Trend.GROWING in (by_records.trend, by_age.trend) else by_records.trend


def _losses(
    last: Point, limits: Limits, by_age: Slope | None, by_bytes: Slope | None
) -> tuple[float | None, float | None]:
    if not last.records:
        return None, None
    soonest, expected = inf, inf
    for limit, value, slope, greatest in (
        (limits.retention_s, last.age_s, by_age, 1.0),
        (limits.retention_bytes, float(last.bytes), by_bytes, inf),
    ):
        if limit is None:
            continue
        if value >= limit:
            return 0.0, 0.0
        if slope is not None:
            soonest = min(soonest, _or_never(seconds_until(limit, value, min(slope.high, greatest))))
            expected = min(expected, _or_never(seconds_until(limit, value, min(slope.value, greatest))))
    return (None if soonest == inf else soonest), (None if expected == inf else expected)


def _or_never(seconds: float | None) -> float:
    return inf if seconds is None else seconds


def _verdict(
    last: Point, limits: Limits, by_age: Slope | None, soonest: float | None, expected: float | None
) -> tuple[Verdict, str]:
    if soonest == 0:
        return Verdict.FAIL, "retention is deleting unread records"
    growing = by_age is not None and by_age.trend is Trend.GROWING
    if growing and soonest is not None and soonest <= limits.horizon_s:
        mean = "" if expected is None else f", {expected / 3600:.1f} h at the present rate"
        return Verdict.FAIL, f"retention may reach it in {soonest / 3600:.1f} h{mean}"
    if limits.objective_s is not None and last.age_s > limits.objective_s:
        return Verdict.FAIL, f"{last.age_s:.1f} s behind; the objective is {limits.objective_s:g} s"
    if last.records and by_age is None:
        return Verdict.UNKNOWN, "too few points for a trend"
    return Verdict.PASS, "nothing is behind" if not last.records else "behind, and not growing towards a loss"


@dataclass(frozen=True, slots=True)
class Share:
    """A partition's part of its topic's records and bytes. `times`: its bytes relative to an even share."""

    topic: str
    partition: int
    records: int
    bytes: int
    times: float

    @property
    def hot(self) -> bool:
        return self.times >= HOT


def partition_shares(counts: Sequence[tuple[str, int, int, int]]) -> tuple[Share, ...]:
    """From (topic, partition, records, bytes) of every partition of a topic: the busiest first."""
    totals: dict[str, tuple[int, int]] = {}
    for topic, _, _, size in counts:
        partitions, total = totals.get(topic, (0, 0))
        totals[topic] = (partitions + 1, total + size)
    rows = [
        Share(topic, partition, records, size, size * totals[topic][0] / totals[topic][1] if totals[topic][1] else 0.0)
        for topic, partition, records, size in counts
    ]
    return tuple(sorted(rows, key=lambda share: (-share.times, share.topic, share.partition)))
