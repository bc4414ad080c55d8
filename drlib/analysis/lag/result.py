"""The result of a lag analysis as frozen values. `report` computes them."""

from dataclasses import dataclass
from typing import Final

from drlib.analysis.lag.trend import HORIZON_S, LagJudgement, Limits, Point, Share
from drlib.model import Flow, TopicPartition
from drlib.runs.check import Verdict

MOMENTS: Final = 120
WINDOW_S: Final = 86400.0
CHECKPOINTED: Final = ", by its checkpoint"  # suffix of a group's name: where it would resume, not where it reads


@dataclass(frozen=True, slots=True)
class Series:
    """The lag of one reader on one partition, oldest point first. `reader` is the flow, or a group on `cluster`.

    With `lower_bound`, `points` are upper bounds and `lower_bound` is of the last of them; `lower_bounds` are those over time,
    at the moments where they are known. `overtaken`: the log now starts after its position.
    """

    cluster: str
    reader: str
    mirror: bool
    partition: TopicPartition
    limits: Limits
    points: tuple[Point, ...]
    judgement: LagJudgement
    lower_bound: Point | None = None
    lower_bounds: tuple[Point, ...] = ()
    overtaken: bool = False


@dataclass(frozen=True, slots=True)
class HourOfLatency:
    """Milliseconds from a record's timestamp until it was known to be on the other side, for records of one hour."""

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
    """`notes`: what could not be read. `transactions`: which topics that groups read may be visible in part on the target."""

    flow: Flow
    from_ms: int
    until_ms: int
    series: tuple[Series, ...]
    latencies: tuple[HourOfLatency, ...]
    shares: tuple[Share, ...]
    notes: tuple[str, ...]
    transactions: str = ""

    @property
    def verdict(self) -> Verdict:
        """The worst of all series; no series, or a note, is unknown."""
        verdicts = {series.judgement.verdict for series in self.series}
        if Verdict.FAIL in verdicts:
            return Verdict.FAIL
        known = self.series and not self.notes and Verdict.UNKNOWN not in verdicts
        return Verdict.PASS if known else Verdict.UNKNOWN

    @property
    def mirror(self) -> tuple[Series, ...]:
        return tuple(series for series in self.series if series.mirror)

    @property
    def groups(self) -> tuple[Series, ...]:
        return tuple(series for series in self.series if not series.mirror)

    @property
    def bounded(self) -> bool:
        """Is any lag known by two bounds only?"""
        return any(series.lower_bound is not None for series in self.series)


@dataclass(frozen=True, slots=True)
class LagRequest:
    """`topics` of the source (None for all that are mirrored), the last `window_s`, the agreed limits, and how many moments."""

    topics: tuple[str, ...] | None = None
    window_s: float = WINDOW_S
    objective_s: float | None = None
    horizon_s: float = HORIZON_S
    moments: int = MOMENTS
