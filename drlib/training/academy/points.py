"""The state of an attempt at a lesson, and its points: prediction, steps, passed checks and hints.

Rules: only the first prediction is recorded; it earns points whether right or wrong, and is compared with what was measured on
the clusters. A check earns its points when it first passes and keeps them. A hint costs once. A dry run with reference answers
earns nothing. Nothing is undone: an attempt only grows until it is closed, and a lesson keeps its best result.
Not for: asking clusters, nor files (`progress`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

CHECKS: Final = (1, 2, 3)
HINTS: Final = (1, 2, 3)
PREDICTION_POINTS: Final = 10
CHECK_POINTS: Final = 30
HINT_COST: Final = 5
FULL: Final = PREDICTION_POINTS + CHECK_POINTS * len(CHECKS)
_KILLED: Final = "killed "  # before the name of a process, in the numbers of an attempt


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a lesson. `tag`: part of its topics' names. `lab`: IDs of its clusters. `numbers`: kept for its steps."""

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
        """All checks have passed."""
        return self.passed == CHECKS

    @property
    def may_see_truth(self) -> bool:
        """The answer is shown only after a prediction."""
        return bool(self.prediction)


@dataclass(frozen=True, slots=True)
class Teaching:
    """What the difference between a prediction and the measured answer teaches: a sentence for one that is too high, and one
    for one that is too low. `pending`: when the answer is measured. `within`: the share of it by which a right one may differ.
    """

    high: str
    low: str
    pending: str = "lesson.break_it() has injected the fault"
    within: float = 0.0


@dataclass(frozen=True, slots=True)
class LessonRecord:
    """A lesson in a learner's record. `best`: most points of the `attempts` that were no dry runs; None without one."""

    current: Attempt | None = None
    best: int | None = None
    attempts: int = 0


def total(attempt: Attempt) -> int:
    """The points of `attempt`, from 0 to `FULL`."""
    if attempt.dry:
        return 0
    earned = CHECK_POINTS * len(attempt.passed) + (PREDICTION_POINTS if attempt.prediction else 0)
    return max(0, earned - HINT_COST * len(attempt.hints))


def number_in(prediction: str) -> float | None:
    """The number that a prediction is, such as "3,000"; None for one that is none."""
    text = prediction.strip().replace(",", "").replace("_", "").replace(" ", "")
    return float(text) if re.fullmatch(r"[+-]?\d{1,15}(\.\d{1,6})?", text, re.ASCII) else None


def graded(prediction: str, measured: float | None, teaching: Teaching) -> str:
    """What a prediction is worth beside the `measured` answer, None before that, and what the difference teaches.

    "" where the prediction is no number.
    """
    given = number_in(prediction)
    if given is None:
        return ""
    if measured is None:
        return f"The answer is compared with your prediction when {teaching.pending}."
    off = abs(given - measured)
    if off <= teaching.within * abs(measured):
        return f"That is right: {measured:,.15g} was measured."
    side, taught = ("high", teaching.high) if given > measured else ("low", teaching.low)
    return f"{measured:,.15g} was measured: your prediction was too {side} by {off:,.15g}. {taught}"


def with_prediction(attempt: Attempt, prediction: str) -> Attempt:
    """Return `attempt` with `prediction` recorded, unless it has one or `prediction` is blank."""
    text = " ".join(prediction.split())
    return attempt if attempt.prediction or not text else replace(attempt, prediction=text)


def with_step(attempt: Attempt, step: str, numbers: Mapping[str, int] | None = None) -> Attempt:
    """Return `attempt` with `step` done and its numbers added."""
    steps = attempt.steps if step in attempt.steps else (*attempt.steps, step)
    return replace(attempt, steps=steps, numbers={**attempt.numbers, **(numbers or {})})


def with_numbers(attempt: Attempt, numbers: Mapping[str, int]) -> Attempt:
    """Return `attempt` with `numbers` kept beside those of its steps; one that is kept already stays."""
    return replace(attempt, numbers={**numbers, **attempt.numbers})


def with_killed(attempt: Attempt, processes: Mapping[str, int]) -> Attempt:
    """Return `attempt` with `processes`, pids by name, known as those that it kills itself."""
    return replace(attempt, numbers={**attempt.numbers, **{_KILLED + name: pid for name, pid in processes.items()}})


def ended_by_others(attempt: Attempt, dead: Mapping[str, int]) -> list[str]:
    """The names of the `dead` processes, pids by name, that `attempt` did not kill. A pid of 0 is one that is not known."""
    return sorted(name for name, pid in dead.items() if not pid or attempt.numbers.get(_KILLED + name) != pid)


def with_passed_check(attempt: Attempt, check: int) -> Attempt:
    return replace(attempt, passed=tuple(sorted({*attempt.passed, check})))


def with_hint(attempt: Attempt, hint: int) -> Attempt:
    return replace(attempt, hints=tuple(sorted({*attempt.hints, hint})))


def can_resume(attempt: Attempt | None, lab: str, *, dry: bool) -> bool:
    """Report whether to resume `attempt`: it is not closed, on the same lab, and a dry run only if one is wanted."""
    return attempt is not None and not attempt.closed and attempt.lab == lab and attempt.dry is dry


def start_attempt(record: LessonRecord, attempt: Attempt) -> LessonRecord:
    """Return `record` with `attempt` as its current one."""
    return LessonRecord(attempt, record.best, record.attempts + (not attempt.dry))


def record_attempt(record: LessonRecord, attempt: Attempt) -> LessonRecord:
    """Return `record` with the progress of `attempt`. A dry run never counts as the best."""
    best = record.best if attempt.dry else max(total(attempt), record.best or 0)
    return LessonRecord(attempt, best, record.attempts)


def describe(record: LessonRecord) -> str:
    """The state of a lesson, in words."""
    attempt = record.current
    if attempt is None or (attempt.dry and record.best is None):
        return "not started"
    if attempt.dry:
        return "done before, now a dry run"
    if attempt.complete:
        return "done"
    return f"{len(attempt.passed)} of {len(CHECKS)} checks" + ("" if attempt.closed else ", open")
