"""Lag as it was found and judged: values, for those who show it. How they are had is `lag_report`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from drlib.analysis.lag.trend import HORIZON_S, Limits, Point, Reading, Share
from drlib.model import Flow, TopicPartition
from drlib.runs.check import Verdict

MOMENTS: Final = 120
WINDOW_S: Final = 86400.0
CHECKPOINTED: Final = ", by its checkpoint"  # behind a group's name: where it would go on, and not where it reads


@dataclass(frozen=True, slots=True)
class Series:
    """The lag of one reader on one partition, oldest point first. `reader` is the flow, or a group on `cluster`.

    With `least`, `points` are what it was at most, and `least` what it is for certain at the last of them; `certain` is that
    over time, at those of the moments at which it is known. `overtaken`: the log begins behind its position now.
    """

    cluster: str
    reader: str
    mirror: bool
    partition: TopicPartition
    limits: Limits
    points: tuple[Point, ...]
    reading: Reading
    least: Point | None = None
    certain: tuple[Point, ...] = ()
    overtaken: bool = False


@dataclass(frozen=True, slots=True)
class HourOfLatency:
    """Milliseconds from a record's timestamp until it was known to be on the other side, of what was written in one hour."""

    topic: str
    hour_ms: int
    records: int
    unread: int
    p50: int | None
    p95: int | None
    p99: int | None
    greatest: int | None


@dataclass(frozen=True, slots=True)
class LagReport:
    """`notes`: what could not be looked at."""

    flow: Flow
    from_ms: int
    until_ms: int
    series: tuple[Series, ...]
    latencies: tuple[HourOfLatency, ...]
    shares: tuple[Share, ...]
    notes: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """The worst of all; nothing to judge, or something that could not be looked at, is unknown."""
        found = {one.reading.verdict for one in self.series}
        if Verdict.FAIL in found:
            return Verdict.FAIL
        known = self.series and not self.notes and Verdict.UNKNOWN not in found
        return Verdict.PASS if known else Verdict.UNKNOWN

    @property
    def mirror(self) -> tuple[Series, ...]:
        return tuple(one for one in self.series if one.mirror)

    @property
    def groups(self) -> tuple[Series, ...]:
        return tuple(one for one in self.series if not one.mirror)

    @property
    def bounded(self) -> bool:
        """Is any of it known between two ends only?"""
        return any(one.least is not None for one in self.series)


@dataclass(frozen=True, slots=True)
class Asked:
    """What to look at: `topics` of the source (all that are mirrored when None), the last `window_s`, and what is agreed."""

    topics: tuple[str, ...] | None = None
    window_s: float = WINDOW_S
    objective_s: float | None = None
    horizon_s: float = HORIZON_S
    moments: int = MOMENTS
