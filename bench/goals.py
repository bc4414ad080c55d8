"""The performance goals, and whether the last run reached them.

Rules: pure; a goal that was not measured is open, not met; ratios are of medians of the same run. Not for: explaining
a miss (docs/performance.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.results import METRICS, Row, value
from bench.workloads import BOTH_WAYS, GIGABIT, ONE_WAY

OURS: Final = "drlib"
TUNED: Final = "mm2-tuned"


@dataclass(frozen=True, slots=True)
class Goal:
    """`metric` of `engine` on `workload`, compared with `limit`: of `against`'s own where that names an engine."""

    workload: str
    metric: str
    limit: float
    against: str = ""
    engine: str = OURS

    @property
    def more_is_better(self) -> bool:
        return METRICS[self.metric][1]

    @property
    def text(self) -> str:
        at = "at least" if self.more_is_better else "at most"
        if self.against:
            return f"{self.metric}: {at} {self.limit:.3g} x {'tuned MM2' if self.against == TUNED else self.against}"
        return f"{self.metric}: {at} {self.limit:.4g} {METRICS[self.metric][0]}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`found` in the goal's own terms (a ratio, or the metric's unit); None when it was not measured."""

    goal: Goal
    found: float | None

    @property
    def met(self) -> bool | None:
        if self.found is None:
            return None
        return self.found >= self.goal.limit if self.goal.more_is_better else self.found <= self.goal.limit


GOALS: Final = (
    Goal("a", "throughput", 2.5, TUNED),
    Goal("a", "cpu", 1 / 4, TUNED),
    Goal("a", "memory", 1 / 6, TUNED),
    Goal("a", "first record", 2.0),
    Goal("b", "throughput", 5.0, TUNED),
    Goal("b", "cpu", 1 / 10, TUNED),
    Goal("c", "throughput", 2.0, TUNED),
    Goal("d", "throughput", 3.5, TUNED),
    Goal("d", "throughput", 0.90 * GIGABIT / 1e6),
    Goal("e", "throughput", 0.85 * GIGABIT / 1e6),
    Goal("f", "latency p50", 100.0),
    Goal("f", "latency p99", 1.0, TUNED),
    Goal("f", "topics ready", 1.0, TUNED),
    Goal("f", "idle cpu", 3.0),
    Goal("f-20000", "memory", 600.0),
    Goal("f-20000", "idle cpu", 5.0),
    Goal("f-20000", "topics ready", 30.0),
    Goal("f-20000", "status", 5.0),
    Goal("f-20000", "doctor", 5.0),
    Goal("g", "latency p99", 1 / 2, TUNED),
    Goal("g-changing", "latency p99", 1.0, TUNED),
    Goal("j-50", "groups moved", 5.0),
    Goal("j-1000", "not exact", 0.0),
    Goal("k-50", "groups moved", 5.0),
    Goal("k-1000", "not exact", 0.0),
    Goal("l", "producers held", 2.0),
    Goal("l", "lost", 0.0),
    Goal("l", "written twice", 0.0),
    Goal("l", "skipped", 0.0),
    Goal("m", "throughput", 0.95, ONE_WAY, BOTH_WAYS),
    Goal("m", "cpu", 1.05, ONE_WAY, BOTH_WAYS),
)


def judge(rows: Sequence[Row]) -> tuple[Verdict, ...]:
    """A verdict for each goal."""
    return tuple(Verdict(goal, _found(goal, rows)) for goal in GOALS)


def _found(goal: Goal, rows: Sequence[Row]) -> float | None:
    ours = value(rows, goal.workload, goal.engine, goal.metric)
    if ours is None:
        return None
    if not goal.against:
        return ours.median
    theirs = value(rows, goal.workload, goal.against, goal.metric)
    return ours.median / theirs.median if theirs is not None and theirs.median else None
