"""What the runs of a runbook say together: how RTO and RPO go, and whether the next one is overdue. Pure.

Rules: only a run with a verdict pass, conditions or fail counts as a drill; one that is unknown was no proof, and does not
count for the schedule. Nor does one that began in the future, by a clock that was wrong: it would put off the next one. The
next one is overdue a little after it was due (`GRACE_MS`), as it counts only once it has ended. A trend compares the last
measurement with the median of those before, of which it needs two; under a tenth of difference is "steady". What was not
measured is None and no part of a trend.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median
from typing import Final

from drlib.runs.verdict import ahead

STEADY: Final = 0.1
HOUR_MS: Final = 3_600_000
GRACE_MS: Final = HOUR_MS  # or a 24th of the time between runs


class Direction(StrEnum):
    BETTER = "better"
    STEADY = "steady"
    WORSE = "worse"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run: `verdict` as in its scorecard, times since the epoch in ms."""

    run: str
    runbook: str
    started_ms: int
    verdict: str
    rto_seconds: float | None = None
    rpo_records: int | None = None
    rpo_seconds: float | None = None

    @property
    def counts(self) -> bool:
        return self.verdict in {"pass", "conditions", "fail"}


@dataclass(frozen=True, slots=True)
class Trend:
    """`change` is a share of the median before: -0.2 is a fifth less, which is better. None where there is none."""

    direction: Direction
    change: float | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """A runbook as its runs left it. `due_ms` is None where it has no schedule; overdue without any run is due at 0."""

    runbook: str
    runs: int
    last: Outcome | None
    rto: Trend
    rpo: Trend
    due_ms: int | None
    overdue: bool


def trend(values: Sequence[float | None]) -> Trend:
    """Of measurements, oldest first; smaller is better."""
    measured = [value for value in values if value is not None]
    if len(measured) < 3 or values[-1] is None:
        return Trend(Direction.UNKNOWN)
    before, last = median(measured[:-1]), measured[-1]
    if before == 0:
        return Trend(Direction.STEADY, 0.0) if last == 0 else Trend(Direction.WORSE)
    change = (last - before) / before
    if abs(change) < STEADY:
        return Trend(Direction.STEADY, change)
    return Trend(Direction.WORSE if change > 0 else Direction.BETTER, change)


def standing(runbook: str, outcomes: Iterable[Outcome], *, every_hours: int | None, now_ms: int) -> Standing:
    """`outcomes` of any runbooks, in any order."""
    mine = sorted((run for run in outcomes if run.runbook == runbook), key=lambda run: (run.started_ms, run.run))
    drills = [run for run in mine if run.counts]
    due, grace = None, 0
    if every_hours is not None:
        begun = [run.started_ms for run in drills if not ahead(run.started_ms, now_ms)]
        due = begun[-1] + every_hours * HOUR_MS if begun else 0
        grace = min(GRACE_MS, every_hours * HOUR_MS // 24) if begun else 0
    return Standing(
        runbook,
        len(mine),
        mine[-1] if mine else None,
        trend([run.rto_seconds for run in drills]),
        trend([run.rpo_records for run in drills]),
        due,
        due is not None and due + grace <= now_ms,
    )
