"""What every lesson is: a prediction, something real that happens, one thing to break and repair, three checks, a picture.

Rules: a step that was done shows itself again and does nothing again, so cells may be run twice and a dead kernel costs
nothing; nothing breaks and no truth is shown before the learner has written down what they expect, for a break shows
it; a check looks at the clusters at that moment and at nothing that was typed, and not before something broke; what
could not be looked at is unknown, and no pass. A learner who has not repaired anything is told so kindly and the
notebook goes on. A lesson that was closed, or that another took the place of, does nothing any more. With
`answers="reference"` a trainer's dry run fills in predictions and repairs, and earns no points.
Not for: what a lesson is about (`l0_flow` and its neighbours), nor clusters that are no lab.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import plotly.graph_objects as go

from drlib.errors import DrlibError, UsageError
from drlib.mirror.offsets.translation.external_offsets import translate_offsets
from drlib.model import Flow
from drlib.training.academy import points, progress
from drlib.training.academy.points import Attempt
from drlib.training.academy.stage import OVER, LessonTestbed
from drlib.ui.display import Shown

REFERENCE: Final = "reference"
TRUTH: Final = "truth"
BREAK: Final = "break"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check saw: does it hold, and if not, where to look. `holds` None: it could not be looked at."""

    holds: bool | None
    seen: str
    hint: str = ""


class Lesson(ABC):
    """One attempt at a lesson; made by `open_lesson`. `close` may be repeated."""

    key: ClassVar[str]
    title: ClassVar[str]
    hints: ClassVar[tuple[str, str, str]]
    claims: ClassVar[tuple[str, str, str]]  # what the three checks hold against the clusters

    def __init__(self, testbed: LessonTestbed, attempt: Attempt, folder: Path, end_lab: Callable[[], None]) -> None:
        self.testbed = testbed
        self._attempt = attempt
        self._folder = folder
        self._end_lab = end_lab

    # -- what a learner calls --------------------------------------------------------------------------------------

    @property
    def topic(self) -> str:
        """The lesson's topic on LEFT."""
        return self.testbed.name("orders")

    @property
    def copy(self) -> str:
        """The topic's copy on RIGHT."""
        return self.testbed.copy(self.topic)

    @property
    def probe_topic(self) -> str:
        """A topic beside the lesson's with one partition, for records of checks, so that the lesson's counts stay."""
        return self.testbed.name("probe")

    @property
    def group(self) -> str:
        """The consumer group it is about."""
        return self.testbed.name("billing")

    @property
    def file(self) -> str:
        """A connect-mirror-maker.properties of these clusters, for drlib's own functions and commands."""
        return str(self.testbed.file)

    def predict(self, prediction: str | int = "") -> Shown:
        """Write down what you expect. The first word counts, and the truth is shown afterwards."""
        words = str(prediction) or (self.reference_answer() if self.dry_run else "")
        self._update(lambda attempt: points.with_prediction(attempt, words))
        if not self._attempt.prediction:
            return Shown("Nothing is written down yet", [], note=self.question())
        note = f"You wrote: {self._attempt.prediction}. It stays; lesson.truth() shows what there is."
        return Shown(self.question(), [], note=note)

    def truth(self) -> Shown:
        """What there really is, beside what you wrote down."""
        if not self._attempt.may_see_truth:
            return self._prediction_missing()
        found = self.show_truth()
        note = f"You wrote: {self._attempt.prediction}. {found.note}".strip()
        return Shown(found.title, found.rows, found.figure, note)

    def break_it(self) -> Shown:
        """The one thing that goes wrong here. What it did is shown again when it is called again."""
        if not self._attempt.may_see_truth:
            return self._prediction_missing()
        self.step(BREAK, self.inject_fault)
        return self.fault_state()

    def reference(self) -> Shown:
        """The repair, done as a trainer's dry run does it; for anybody else a reminder."""
        if not self.dry_run:
            return Shown("This is yours to repair", [], note="lesson.hint(1) helps, for a few points.")
        self.apply_reference()
        return Shown("Repaired by reference", [], note=self.hints[2])

    def check(self, number: int | None = None) -> Shown:
        """Look at the clusters: does claim `number` hold, or each of the three? One that held once keeps its points."""
        if number is not None and number not in points.CHECKS:
            raise UsageError(f"there is no check {number}", "a lesson has three", "Use 1, 2, 3, or none for all.")
        progress.require_current(self._folder, self._attempt)
        rows: list[dict[str, object]] = []
        for one in points.CHECKS if number is None else (number,):
            found = self._run_check(one)
            if found.holds:
                self._update(lambda attempt, held=one: points.with_passed_check(attempt, held))  # type: ignore[misc]
            rows.append(
                {
                    "check": one,
                    "what has to be": self.claims[one - 1],
                    "holds": {True: "yes", False: "not yet", None: "unknown"}[found.holds],
                    "seen": found.seen,
                    "try": "" if found.holds else found.hint,
                }
            )
        if not any(row["try"] for row in rows):
            rows = [{name: value for name, value in row.items() if name != "try"} for row in rows]
        return Shown(f"{self.key}: the clusters say", rows, note=self.score())

    def hint(self, number: int = 1) -> Shown:
        """One of three hints, the third says nearly all; each costs points once."""
        if number not in points.HINTS:
            raise UsageError(f"there is no hint {number}", "a lesson has three", "Use 1, 2 or 3.")
        self._update(lambda attempt: points.with_hint(attempt, number))
        return Shown(f"Hint {number}", [], note=f"{self.hints[number - 1]} ({self.score()})")

    def picture(self) -> Shown:
        """What happened, drawn from what the clusters hold now."""
        return Shown(self.title, [], self.figure())

    def score(self) -> str:
        """Points so far, in words."""
        if self.dry_run:
            return "A dry run by reference: no points."
        return f"{points.total(self._attempt)} of {points.FULL} points."

    def close(self) -> Shown:
        """End the attempt: its worker stops and what it broke is healed, or the lab stops that it started."""
        if not self._attempt.closed:
            self._end()
        return Shown(f"{self.key} is closed", [], note=f"{self.score()} drlib academy status shows all of them.")

    def __repr__(self) -> str:
        return repr(self._shown())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, object]:
        return self._shown()._repr_mimebundle_()

    # -- what a lesson is ------------------------------------------------------------------------------------------

    @abstractmethod
    def question(self) -> str:
        """What is to be predicted, once the lesson has come so far."""

    @abstractmethod
    def reference_answer(self) -> str:
        """The right answer, for a dry run."""

    @abstractmethod
    def show_truth(self) -> Shown:
        """The truth."""

    @abstractmethod
    def inject_fault(self) -> Mapping[str, int]:
        """Break it, and return what is to be remembered. May have been begun before and stopped anywhere."""

    @abstractmethod
    def fault_state(self) -> Shown:
        """What is broken, as it is now."""

    @abstractmethod
    def apply_reference(self) -> None:
        """The reference repair, by the calls a learner has."""

    @abstractmethod
    def verify(self, number: int) -> CheckResult:
        """Check `number` against the clusters."""

    @abstractmethod
    def figure(self) -> go.Figure:
        """The picture."""

    # -- for lessons -----------------------------------------------------------------------------------------------

    @property
    def dry_run(self) -> bool:
        return self._attempt.dry

    @property
    def numbers(self) -> Mapping[str, int]:
        return self._attempt.numbers

    def has_done(self, step: str) -> bool:
        return step in self._attempt.steps

    def step(self, name: str, act: Callable[[], Mapping[str, int] | None]) -> None:
        """Do `act` unless it was done."""
        if not self.has_done(name):
            progress.require_current(self._folder, self._attempt)  # or it would break what another lesson has made
            numbers = act()
            self._update(lambda attempt: points.with_step(attempt, name, numbers))

    def check_probe(self, seconds: float, hint: str) -> CheckResult:
        """Is a record that is written to `probe_topic` now on RIGHT within `seconds`? `hint`: where to look if not."""
        if self.testbed.crosses(self.probe_topic, seconds):
            return CheckResult(True, "a record written now crossed")
        return CheckResult(False, f"a record written now was not on RIGHT within {seconds:g} s", hint)

    def fully_mirrored(self, topic: str, flow: Flow = OVER) -> bool:
        """Does the mirror's map account for every record of `topic`, up to its end on each partition?

        A copy that somebody else wrote looks alike, until the mirror brings the same records once more.
        """
        ends = [(topic, number, end) for number, end in enumerate(self.testbed.ends(flow.source, topic))]
        found = translate_offsets(self.file, flow.source, flow.target, ends)
        return bool(found) and all(one.translation.exact for one in found)

    def check_copy(self, whole: bool, seen: str, hint: str, flow: Flow = OVER) -> CheckResult:
        """Is the topic's copy `whole`, as it looks, and brought by the mirror? `seen`: what it looks like."""
        if whole and not self.fully_mirrored(self.topic, flow):
            return CheckResult(False, f"{seen}, not all by the mirror", hint)
        return CheckResult(whole, seen, hint)

    def require(self, step: str, call: str) -> None:
        """Raises `UsageError` when `step` was not done, or this attempt has ended."""
        progress.require_current(self._folder, self._attempt)
        if not self.has_done(step):
            raise UsageError(f"{self.key} has not come so far", f"{call} comes first", "Run the cells in their order.")

    def stop_actions(self) -> tuple[Callable[[], None], ...]:
        """What stops what this lesson runs."""
        return (self.testbed.stop_mirror,)

    def _prediction_missing(self) -> Shown:
        note = f"{self.question()} lesson.predict(...) writes it down."
        return Shown("Your prediction comes first", [], note=note)

    def _run_check(self, number: int) -> CheckResult:
        if not self.has_done(BREAK):
            first = "" if self._attempt.may_see_truth else "lesson.predict(...), then "
            return CheckResult(False, "nothing is broken yet, so nothing is repaired", f"{first}lesson.break_it()")
        try:
            return self.verify(number)
        except DrlibError as error:
            return CheckResult(None, f"{error.what}: {error.why}", error.remedy)

    def _update(self, step: Callable[[Attempt], Attempt]) -> None:
        self._attempt = progress.update(self._folder, self._attempt, step)

    def _end(self) -> None:
        for stop in self.stop_actions():
            stop()
        self._attempt = progress.close(self._folder, self._attempt)
        self._end_lab()

    def _shown(self) -> Shown:
        attempt = self._attempt
        rows: list[dict[str, object]] = [
            {"what": "predicted", "so far": attempt.prediction or "not yet"},
            {"what": "done", "so far": ", ".join(attempt.steps) or "nothing yet"},
            {"what": "checks that held", "so far": ", ".join(map(str, attempt.passed)) or "none yet"},
            {"what": "hints read", "so far": ", ".join(map(str, attempt.hints)) or "none"},
        ]
        return Shown(
            f"{self.key}: {self.title}", rows, note=f"{self.score()} Topics and groups: {self.testbed.prefix}*"
        )
