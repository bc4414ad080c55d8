"""Points and progress of lessons: what counts once, what stays, and what a dry run does not earn."""

from __future__ import annotations

import pytest

from drlib.training.academy import points as lessons
from drlib.training.academy.points import Attempt, Standing

FRESH = Attempt("L1", "3fa2", "left right", 1)


def whole(attempt: Attempt) -> Attempt:
    for check in (3, 1, 2):
        attempt = lessons.passed(attempt, check)
    return lessons.predicted(attempt, "700")


def test_all_of_it_is_a_hundred_points() -> None:
    assert lessons.points(whole(FRESH)) == lessons.FULL == 100
    assert whole(FRESH).complete


def test_the_first_prediction_stays() -> None:
    first = lessons.predicted(FRESH, "  about\n 700 ")
    assert first.prediction == "about 700"
    assert lessons.predicted(first, "I knew it: 52") == first


@pytest.mark.parametrize("empty", ["", "  ", "\n"])
def test_nothing_is_no_prediction_and_the_truth_waits(empty: str) -> None:
    found = lessons.predicted(FRESH, empty)
    assert not found.may_see_the_truth
    assert lessons.points(found) == 0


def test_a_hint_costs_once_and_points_never_fall_below_none() -> None:
    hinted = lessons.hinted(lessons.hinted(FRESH, 1), 1)
    assert hinted.hints == (1,)
    assert lessons.points(hinted) == 0
    assert lessons.points(lessons.passed(hinted, 2)) == 25
    assert lessons.points(lessons.hinted(whole(hinted), 3)) == 90


def test_a_check_that_holds_again_earns_nothing_more() -> None:
    assert lessons.points(lessons.passed(lessons.passed(FRESH, 1), 1)) == 30


def test_a_dry_run_earns_nothing_and_is_never_the_best() -> None:
    dry = whole(Attempt("L1", "3fa2", "left right", 1, dry=True))
    assert lessons.points(dry) == 0
    assert lessons.kept(Standing(None, 40, 1), dry).best == 40
    assert lessons.kept(Standing(), dry).best is None
    assert lessons.begun(Standing(None, 40, 1), dry).attempts == 1


def test_the_best_attempt_stays_the_best() -> None:
    standing = lessons.kept(lessons.begun(Standing(), FRESH), whole(FRESH))
    again = lessons.begun(standing, Attempt("L1", "b00c", "left right", 2))
    assert (again.best, again.attempts) == (100, 2)
    worse = lessons.kept(again, lessons.passed(FRESH, 1))
    assert worse.best == 100


def test_steps_are_remembered_with_their_numbers() -> None:
    one = lessons.did(FRESH, "flow", {"written": 3})
    two = lessons.did(lessons.did(one, "break", None), "flow", {"more": 4})
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
def test_only_what_is_under_way_on_this_lab_goes_on(attempt: Attempt | None, dry: bool, goes_on: bool) -> None:
    assert lessons.goes_on(attempt, "left right", dry=dry) is goes_on


def test_where_a_learner_is_in_words() -> None:
    assert lessons.said(Standing()) == "not begun"
    assert lessons.said(Standing(lessons.passed(FRESH, 2), 30, 1)) == "1 of 3 checks, under way"
    assert lessons.said(Standing(whole(FRESH), 100, 1)) == "done"
    assert lessons.said(Standing(Attempt("L1", "a", "b", 1, dry=True), None, 0)) == "not begun"
