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
from drlib.training.academy import points as lessons
from drlib.training.academy import progress
from drlib.training.academy.points import Attempt
from drlib.training.academy.stage import OVER, Stage
from drlib.ui.display import Shown

REFERENCE: Final = "reference"
TRUTH: Final = "truth"
BREAK: Final = "break"


@dataclass(frozen=True, slots=True)
class Found:
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

    def __init__(self, stage: Stage, attempt: Attempt, folder: Path, end_lab: Callable[[], None]) -> None:
        self.stage = stage
        self._attempt = attempt
        self._folder = folder
        self._end_lab = end_lab

    # -- what a learner calls --------------------------------------------------------------------------------------

    @property
    def topic(self) -> str:
        """The lesson's topic on LEFT."""
        return self.stage.name("orders")

    @property
    def copy(self) -> str:
        """The topic's copy on RIGHT."""
        return self.stage.copy(self.topic)

    @property
    def probed(self) -> str:
        """A topic beside the lesson's with one partition, for records of checks, so that the lesson's counts stay."""
        return self.stage.name("probe")

    @property
    def group(self) -> str:
        """The consumer group it is about."""
        return self.stage.name("billing")

    @property
    def file(self) -> str:
        """A connect-mirror-maker.properties of these clusters, for drlib's own functions and commands."""
        return str(self.stage.file)

    def predict(self, prediction: str | int = "") -> Shown:
        """Write down what you expect. The first word counts, and the truth is shown afterwards."""
        words = str(prediction) or (self.expected() if self.dry else "")
        self._change(lambda attempt: lessons.predicted(attempt, words))
        if not self._attempt.prediction:
            return Shown("Nothing is written down yet", [], note=self.question())
        note = f"You wrote: {self._attempt.prediction}. It stays; lesson.truth() shows what there is."
        return Shown(self.question(), [], note=note)

    def truth(self) -> Shown:
        """What there really is, beside what you wrote down."""
        if not self._attempt.may_see_the_truth:
            return self._prediction_first()
        found = self.tell()
        note = f"You wrote: {self._attempt.prediction}. {found.note}".strip()
        return Shown(found.title, found.rows, found.figure, note)

    def break_it(self) -> Shown:
        """The one thing that goes wrong here. What it did is shown again when it is called again."""
        if not self._attempt.may_see_the_truth:
            return self._prediction_first()
        self.step(BREAK, self.broken)
        return self.after_break()

    def reference(self) -> Shown:
        """The repair, done as a trainer's dry run does it; for anybody else a reminder."""
        if not self.dry:
            return Shown("This is yours to repair", [], note="lesson.hint(1) helps, for a few points.")
        self.solve()
        return Shown("Repaired by reference", [], note=self.hints[2])

    def check(self, number: int | None = None) -> Shown:
        """Look at the clusters: does claim `number` hold, or each of the three? One that held once keeps its points."""
        if number is not None and number not in lessons.CHECKS:
            raise UsageError(f"there is no check {number}", "a lesson has three", "Use 1, 2, 3, or none for all.")
        progress.under_way(self._folder, self._attempt)
        rows: list[dict[str, object]] = []
        for one in lessons.CHECKS if number is None else (number,):
            found = self._look(one)
            if found.holds:
                self._change(lambda attempt, held=one: lessons.passed(attempt, held))  # type: ignore[misc]
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
        if number not in lessons.HINTS:
            raise UsageError(f"there is no hint {number}", "a lesson has three", "Use 1, 2 or 3.")
        self._change(lambda attempt: lessons.hinted(attempt, number))
        return Shown(f"Hint {number}", [], note=f"{self.hints[number - 1]} ({self.score()})")

    def picture(self) -> Shown:
        """What happened, drawn from what the clusters hold now."""
        return Shown(self.title, [], self.figure())

    def score(self) -> str:
        """Points so far, in words."""
        if self.dry:
            return "A dry run by reference: no points."
        return f"{lessons.points(self._attempt)} of {lessons.FULL} points."

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
    def expected(self) -> str:
        """The right answer, for a dry run."""

    @abstractmethod
    def tell(self) -> Shown:
        """The truth."""

    @abstractmethod
    def broken(self) -> Mapping[str, int]:
        """Break it, and return what is to be remembered. May have been begun before and stopped anywhere."""

    @abstractmethod
    def after_break(self) -> Shown:
        """What is broken, as it is now."""

    @abstractmethod
    def solve(self) -> None:
        """The reference repair, by the calls a learner has."""

    @abstractmethod
    def look(self, number: int) -> Found:
        """Check `number` against the clusters."""

    @abstractmethod
    def figure(self) -> go.Figure:
        """The picture."""

    # -- for lessons -----------------------------------------------------------------------------------------------

    @property
    def dry(self) -> bool:
        return self._attempt.dry

    @property
    def numbers(self) -> Mapping[str, int]:
        return self._attempt.numbers

    def done(self, step: str) -> bool:
        return step in self._attempt.steps

    def step(self, name: str, act: Callable[[], Mapping[str, int] | None]) -> None:
        """Do `act` unless it was done."""
        if not self.done(name):
            progress.under_way(self._folder, self._attempt)  # or it would break what another lesson has made
            numbers = act()
            self._change(lambda attempt: lessons.did(attempt, name, numbers))

    def crosses(self, seconds: float, hint: str) -> Found:
        """Is a record that is written to `probed` now on RIGHT within `seconds`? `hint`: where to look if not."""
        if self.stage.crosses(self.probed, seconds):
            return Found(True, "a record written now crossed")
        return Found(False, f"a record written now was not on RIGHT within {seconds:g} s", hint)

    def mirrored(self, topic: str, flow: Flow = OVER) -> bool:
        """Does the mirror's map account for every record of `topic`, up to its end on each partition?

        A copy that somebody else wrote looks alike, until the mirror brings the same records once more.
        """
        ends = [(topic, number, end) for number, end in enumerate(self.stage.ends(flow.source, topic))]
        found = translate_offsets(self.file, flow.source, flow.target, ends)
        return bool(found) and all(one.translation.exact for one in found)

    def copied(self, whole: bool, seen: str, hint: str, flow: Flow = OVER) -> Found:
        """Is the topic's copy `whole`, as it looks, and brought by the mirror? `seen`: what it looks like."""
        if whole and not self.mirrored(self.topic, flow):
            return Found(False, f"{seen}, not all by the mirror", hint)
        return Found(whole, seen, hint)

    def need(self, step: str, call: str) -> None:
        """Raises `UsageError` when `step` was not done, or this attempt has ended."""
        progress.under_way(self._folder, self._attempt)
        if not self.done(step):
            raise UsageError(f"{self.key} has not come so far", f"{call} comes first", "Run the cells in their order.")

    def flows(self) -> tuple[Callable[[], None], ...]:
        """What stops what this lesson runs."""
        return (self.stage.stop_mirror,)

    def _prediction_first(self) -> Shown:
        note = f"{self.question()} lesson.predict(...) writes it down."
        return Shown("Your prediction comes first", [], note=note)

    def _look(self, number: int) -> Found:
        if not self.done(BREAK):
            first = "" if self._attempt.may_see_the_truth else "lesson.predict(...), then "
            return Found(False, "nothing is broken yet, so nothing is repaired", f"{first}lesson.break_it()")
        try:
            return self.look(number)
        except DrlibError as error:
            return Found(None, f"{error.what}: {error.why}", error.remedy)

    def _change(self, step: Callable[[Attempt], Attempt]) -> None:
        self._attempt = progress.change(self._folder, self._attempt, step)

    def _end(self) -> None:
        for stop in self.flows():
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
        return Shown(f"{self.key}: {self.title}", rows, note=f"{self.score()} Topics and groups: {self.stage.prefix}*")
