"""A learner's way through a lesson, and the points for it: what was written down, done, passed and asked for.

Rules: a prediction is written down once, and the first one stays; it earns its points for being written, right or wrong,
since a wrong one teaches more. A check earns its points when it first holds, and keeps them. A hint costs once, however
often it is read. A dry run, in which the reference answers are filled in, earns nothing. Nothing here is undone: an attempt
only grows until it is closed, and the best one of a lesson stays the best.
Not for: looking at clusters, nor files.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

CHECKS: Final = (1, 2, 3)
HINTS: Final = (1, 2, 3)
PREDICTION_POINTS: Final = 10
CHECK_POINTS: Final = 30
HINT_COST: Final = 5
FULL: Final = PREDICTION_POINTS + CHECK_POINTS * len(CHECKS)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One go at a lesson. `tag` names its topics, `lab` the clusters it is on; `numbers` are for its steps to remember."""

    lesson: str
    tag: str
    lab: str
    began_ms: int
    dry: bool = False
    prediction: str = ""
    steps: tuple[str, ...] = ()
    passed: tuple[int, ...] = ()
    hints: tuple[int, ...] = ()
    numbers: Mapping[str, int] = field(default_factory=dict)
    closed: bool = False

    @property
    def complete(self) -> bool:
        """All checks held."""
        return self.passed == CHECKS

    @property
    def may_see_truth(self) -> bool:
        """Only who has said what they expect learns from what there is."""
        return bool(self.prediction)


@dataclass(frozen=True, slots=True)
class LessonRecord:
    """A lesson in a learner's record. `best` points of `attempts` that were no dry runs; None: never tried."""

    current: Attempt | None = None
    best: int | None = None
    attempts: int = 0


def total(attempt: Attempt) -> int:
    """From 0 to `FULL`."""
    if attempt.dry:
        return 0
    earned = CHECK_POINTS * len(attempt.passed) + (PREDICTION_POINTS if attempt.prediction else 0)
    return max(0, earned - HINT_COST * len(attempt.hints))


def with_prediction(attempt: Attempt, prediction: str) -> Attempt:
    """With `prediction` written down, unless one is or it is empty."""
    words = " ".join(prediction.split())
    return attempt if attempt.prediction or not words else replace(attempt, prediction=words)


def with_step(attempt: Attempt, step: str, numbers: Mapping[str, int] | None = None) -> Attempt:
    """With `step` done and what it has to remember."""
    steps = attempt.steps if step in attempt.steps else (*attempt.steps, step)
    return replace(attempt, steps=steps, numbers={**attempt.numbers, **(numbers or {})})


def with_passed_check(attempt: Attempt, check: int) -> Attempt:
    """With `check` held once."""
    return replace(attempt, passed=tuple(sorted({*attempt.passed, check})))


def with_hint(attempt: Attempt, hint: int) -> Attempt:
    """With `hint` read."""
    return replace(attempt, hints=tuple(sorted({*attempt.hints, hint})))


def can_resume(attempt: Attempt | None, lab: str, *, dry: bool) -> bool:
    """Is `attempt` to be taken up where it stood? Not when it is closed, of another lab, or of the other kind."""
    return attempt is not None and not attempt.closed and attempt.lab == lab and attempt.dry is dry


def start_attempt(standing: LessonRecord, attempt: Attempt) -> LessonRecord:
    """`standing` with a new attempt under way."""
    return LessonRecord(attempt, standing.best, standing.attempts + (not attempt.dry))


def record_attempt(standing: LessonRecord, attempt: Attempt) -> LessonRecord:
    """`standing` after `attempt` came further. A dry run never counts as the best."""
    best = standing.best if attempt.dry else max(total(attempt), standing.best or 0)
    return LessonRecord(attempt, best, standing.attempts)


def describe(standing: LessonRecord) -> str:
    """Where a learner is, in words."""
    attempt = standing.current
    if attempt is None or (attempt.dry and standing.best is None):
        return "not begun"
    if attempt.dry:
        return "done before"
    if attempt.complete:
        return "done"
    held = len(attempt.passed)
    return f"{held} of {len(CHECKS)} checks" + ("" if attempt.closed else ", under way")
