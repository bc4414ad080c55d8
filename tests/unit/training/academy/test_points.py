"""Points of lessons: what counts once, what is kept, and what a dry run does not earn."""

from __future__ import annotations

import pytest

from drlib.training.academy import points
from drlib.training.academy.points import Attempt, LessonRecord

FRESH = Attempt("L1", "3fa2", "left right", 1)


def completed(attempt: Attempt) -> Attempt:
    for check in (3, 1, 2):
        attempt = points.with_passed_check(attempt, check)
    return points.with_prediction(attempt, "700")


def test_total_all_checks_and_prediction_is_100_points() -> None:
    assert points.total(completed(FRESH)) == points.FULL == 100
    assert completed(FRESH).complete


def test_with_prediction_keeps_the_first_one() -> None:
    first = points.with_prediction(FRESH, "  about\n 700 ")
    assert first.prediction == "about 700"
    assert points.with_prediction(first, "I knew it: 52") == first


@pytest.mark.parametrize("empty", ["", "  ", "\n"])
def test_with_prediction_blank_text_is_no_prediction(empty: str) -> None:
    unpredicted = points.with_prediction(FRESH, empty)
    assert not unpredicted.may_see_truth
    assert points.total(unpredicted) == 0


def test_total_hint_costs_once_and_points_stay_above_zero() -> None:
    hinted = points.with_hint(points.with_hint(FRESH, 1), 1)
    assert hinted.hints == (1,)
    assert points.total(hinted) == 0
    assert points.total(points.with_passed_check(hinted, 2)) == 25
    assert points.total(points.with_hint(completed(hinted), 3)) == 90


def test_total_check_passed_twice_earns_its_points_once() -> None:
    assert points.total(points.with_passed_check(points.with_passed_check(FRESH, 1), 1)) == 30


def test_total_dry_run_earns_nothing_and_is_never_the_best() -> None:
    dry = completed(Attempt("L1", "3fa2", "left right", 1, dry=True))
    assert points.total(dry) == 0
    assert points.record_attempt(LessonRecord(None, 40, 1), dry).best == 40
    assert points.record_attempt(LessonRecord(), dry).best is None
    assert points.start_attempt(LessonRecord(None, 40, 1), dry).attempts == 1


def test_record_attempt_keeps_the_best_result() -> None:
    standing = points.record_attempt(points.start_attempt(LessonRecord(), FRESH), completed(FRESH))
    again = points.start_attempt(standing, Attempt("L1", "b00c", "left right", 2))
    assert (again.best, again.attempts) == (100, 2)
    worse = points.record_attempt(again, points.with_passed_check(FRESH, 1))
    assert worse.best == 100
    assert points.record_attempt(LessonRecord(), FRESH).best == 0


def test_with_step_keeps_steps_and_their_numbers() -> None:
    one = points.with_step(FRESH, "flow", {"written": 3})
    two = points.with_step(points.with_step(one, "break", None), "flow", {"more": 4})
    assert two.steps == ("flow", "break")
    assert two.numbers == {"written": 3, "more": 4}


@pytest.mark.parametrize(
    ("attempt", "dry", "goes_on"),
    [
        (None, False, False),
        (FRESH, False, True),
        (FRESH, True, False),
        (Attempt("L1", "3fa2", "another lab", 1), False, False),
        (Attempt("L1", "3fa2", "left right", 1, closed=True), False, False),
    ],
)
def test_can_resume_open_attempt_on_the_same_lab_only(attempt: Attempt | None, dry: bool, goes_on: bool) -> None:
    assert points.can_resume(attempt, "left right", dry=dry) is goes_on


def test_describe_returns_the_state_of_a_lesson() -> None:
    assert points.describe(LessonRecord()) == "not started"
    assert points.describe(LessonRecord(points.with_passed_check(FRESH, 2), 30, 1)) == "1 of 3 checks, open"
    assert points.describe(LessonRecord(completed(FRESH), 100, 1)) == "done"
    assert points.describe(LessonRecord(FRESH, None, 1)) == "0 of 3 checks, open"
    dry = Attempt("L1", "a", "b", 1, dry=True)
    assert points.describe(LessonRecord(dry, None, 0)) == "not started"
    assert points.describe(LessonRecord(dry, 40, 1)) == "done before, now a dry run"


def test_process_that_the_attempt_killed_is_known_by_its_pid() -> None:
    killed = points.with_killed(FRESH, {"LEFT-1": 700, "lesson-left": 701})
    assert points.ended_by_others(killed, {"LEFT-1": 700, "lesson-left": 701}) == []
    assert points.ended_by_others(killed, {"LEFT-1": 702, "RIGHT-1": 703}) == [
        "LEFT-1",
        "RIGHT-1",
    ]  # started again since
    assert points.ended_by_others(FRESH, {"proxy": 0}) == ["proxy"]
    again = points.with_killed(killed, {"LEFT-1": 702})
    assert points.ended_by_others(again, {"LEFT-1": 702}) == []


def test_with_numbers_keeps_what_was_kept_first() -> None:
    first = points.with_numbers(FRESH, {"cut_ms": 5})
    assert points.with_numbers(first, {"cut_ms": 9, "healed_ms": 12}).numbers == {"cut_ms": 5, "healed_ms": 12}
    assert points.with_step(first, "break", {"lag": 3}).numbers == {"cut_ms": 5, "lag": 3}
