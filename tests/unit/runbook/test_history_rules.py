"""What runs say together: trends, and what is overdue."""

from __future__ import annotations

import pytest

from drlib.runbook.history_rules import HOUR_MS, Direction, Outcome, Trend, standing, trend

DAY_MS = 24 * HOUR_MS


def outcome(day: int, verdict: str = "pass", rto: float | None = 10.0, runbook: str = "x") -> Outcome:
    return Outcome(f"run-{day}", runbook, day * DAY_MS, verdict, rto, 5)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([10, 10, 12], Trend(Direction.WORSE, 0.2)),
        ([10, 10, 8], Trend(Direction.BETTER, -0.2)),
        ([10, 10, 10.5], Trend(Direction.STEADY, 0.05)),
        ([10, 90, 10, 10], Trend(Direction.STEADY, 0.0)),
        ([90, 10, 10, 10], Trend(Direction.STEADY, 0.0)),
        ([10, 10, 11], Trend(Direction.WORSE, 0.1)),
        ([10, None, 10, 12], Trend(Direction.WORSE, 0.2)),
        ([10, 12], Trend(Direction.UNKNOWN)),
        ([10, 10, 10, None], Trend(Direction.UNKNOWN)),
        ([0, 0, 0], Trend(Direction.STEADY, 0.0)),
        ([0, 0, 3], Trend(Direction.WORSE)),
    ],
)
def test_trend_compares_the_last_run_with_the_median_before(values: list[float | None], found: Trend) -> None:
    got = trend(values)
    assert got.direction is found.direction
    assert got.change == (None if found.change is None else pytest.approx(found.change))


def test_standing_only_runs_with_a_verdict_count_for_the_schedule() -> None:
    runs = [outcome(20, "unknown"), outcome(1), outcome(5, "fail"), outcome(2), outcome(30, runbook="other")]
    found = standing("x", runs, every_hours=10 * 24, now_ms=14 * DAY_MS)
    assert (found.due_ms, found.overdue, found.runs) == (15 * DAY_MS, False, 4)
    assert found.last is not None
    assert found.last.run == "run-20"
    assert not standing("x", runs, every_hours=10 * 24, now_ms=15 * DAY_MS + HOUR_MS - 1).overdue  # it may be running
    assert standing("x", runs, every_hours=10 * 24, now_ms=15 * DAY_MS + HOUR_MS).overdue
    assert standing("x", [outcome(1)], every_hours=1, now_ms=DAY_MS + HOUR_MS + HOUR_MS // 24).overdue


def test_standing_run_that_began_in_the_future_does_not_put_off_the_next_one() -> None:
    found = standing("x", [outcome(1), outcome(900)], every_hours=10 * 24, now_ms=14 * DAY_MS)
    assert (found.due_ms, found.overdue) == (11 * DAY_MS, True)
    assert standing("x", [outcome(900)], every_hours=10 * 24, now_ms=14 * DAY_MS).overdue


def test_standing_scheduled_runbook_without_runs_is_overdue() -> None:
    assert standing("x", [], every_hours=24, now_ms=1).overdue
    assert standing("x", [], every_hours=24, now_ms=1).due_ms == 0
    assert not standing("x", [outcome(1)], every_hours=None, now_ms=10**15).overdue
