"""What every lesson has: a prediction, a real fault, a repair by the learner, three checks, and a figure.

Rules: a step that was done is only shown again, so cells may run twice and a kernel restart loses nothing. The fault and
the answer come only after the learner's prediction, because the fault would reveal the answer; the prediction is graded
against what was measured on the clusters. A check asks the clusters when it is called; it ignores what was typed and passes
only after the fault. What could not be checked is unknown and not passed. What a check says is missing is in words: calls are
in hints, which have a price, and say it first. A missing repair is reported without an exception, and the notebook continues;
a cell that is run too early names the one to run first. A lesson that was closed, or replaced by another on the same lab,
changes nothing any more. What an attempt kills is written down before, so that after a kernel restart it is known from what
has ended by itself. With `answers="reference"` predictions and repairs are filled in, and no points given.
Not for: the subject of a lesson (`drlib.training.academy.lessons`), nor for clusters outside a lab.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import plotly.graph_objects as go

from drlib.errors import DrlibError, UsageError
from drlib.formats import one_line
from drlib.lab.processes import wait_until
from drlib.lab.workload.mirrors import MirrorWorker
from drlib.mirror.offsets.translation.external_offsets import translate_offsets
from drlib.model import Flow
from drlib.runs.table import Table
from drlib.training.academy import points, progress
from drlib.training.academy.points import HINT_COST, Attempt, Teaching
from drlib.training.academy.testbed import FORWARD, LessonLab, LessonTestbed

NOTED_S: Final = 5.0
REFERENCE: Final = "reference"
BREAK: Final = "break"
_ANSWERS: Final = {True: "yes", False: "not yet", None: "unknown"}
_EXAMPLE: Final = 'Record your answer, a number, such as lesson.predict("12").'
_HINTS: Final = ("where to look", "which calls help", "the solution")
_FOREIGN: Final = "Something else wrote to the mirror topic; the mirror does not know these records."


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check observed. `holds`: None if the clusters could not be asked. `missing`: what does not hold, in words and
    without the call that repairs it. `for_good`: nothing repairs it in this attempt."""

    holds: bool | None
    observed: str
    missing: str = ""
    for_good: bool = False


class Lesson(ABC):
    """One attempt at a lesson, opened by `open_lesson`. `close` may be repeated."""

    key: ClassVar[str]
    title: ClassVar[str]
    hints: ClassVar[tuple[str, str, str]]
    claims: ClassVar[tuple[str, str, str]]  # what the three checks verify
    first: ClassVar[tuple[str, str]]  # its first step after the opening, and the call of that cell
    teaching: ClassVar[Teaching]  # what the difference between prediction and answer teaches
    keeps_names: ClassVar[bool] = False  # its topics are mirrored in both directions under one name
    lab: ClassVar[LessonLab] = LessonLab()
    testbed_type: ClassVar[type[LessonTestbed]] = LessonTestbed

    def __init__(
        self, testbed: LessonTestbed, attempt: Attempt, folder: Path, end_lab: Callable[[], None], notice: str = ""
    ) -> None:
        self.testbed = testbed
        self._notice = notice  # what the learner has to know of the opening
        self._attempt = attempt
        self._folder = folder
        self._end_lab = end_lab

    # -- for learners --------------------------------------------------------------------------------------------------

    @property
    def topic(self) -> str:
        """The lesson's topic on LEFT."""
        return self.testbed.name("orders")

    @property
    def copy(self) -> str:
        """The mirror topic of `topic` on RIGHT."""
        return self.testbed.copy(self.topic)

    @property
    def probe_topic(self) -> str:
        """A second topic with one partition for the records that checks write, so that they do not change counts in `topic`."""
        return self.testbed.name("probe")

    @property
    def group(self) -> str:
        """The lesson's consumer group, called billing in the texts."""
        return self.testbed.name("billing")

    @property
    def file(self) -> str:
        """A connect-mirror-maker.properties of these clusters, for drlib's functions and commands."""
        return str(self.testbed.file)

    def predict(self, prediction: str | int = "") -> Table:
        """Record your prediction, a number. Only the first one counts; `truth` shows the answer afterwards.

        Raises `UsageError`, and records nothing, before the cell that the question is about was run.
        """
        self.require(*self.first)
        question = self.question()
        text = str(prediction) or (self.reference_answer() if self.dry_run else "")
        if text.strip() and not self._attempt.prediction and points.number_in(text) is None:
            return Table(
                "No prediction is recorded", [], note=f"'{one_line(text)}' is not a number. {question} {_EXAMPLE}"
            )
        self._update(lambda attempt: points.with_prediction(attempt, text))
        if not self._attempt.prediction:
            return Table("No prediction is recorded yet", [], note=f"{question} {_EXAMPLE}")
        note = f"You wrote: {self._attempt.prediction}. It is recorded; lesson.truth() shows the answer."
        return Table(question, [], note=note)

    def truth(self) -> Table:
        """Show the answer, measured on the clusters, next to your prediction."""
        if not self._attempt.may_see_truth:
            return self._prediction_missing()
        self.require(BREAK, "lesson.break_it()")
        answer = self.show_truth()
        grade = points.graded(self._attempt.prediction, self.measured(), self.teaching)
        note = " ".join(filter(None, (f"You wrote: {self._attempt.prediction}.", grade, answer.note)))
        return Table(answer.title, answer.rows, note, figure=answer.figure)

    def break_it(self) -> Table:
        """Inject the lesson's fault and show its effect. A repeated call only shows the current state."""
        if not self._attempt.may_see_truth:
            return self._prediction_missing()
        self.require(*self.first)
        self.step(BREAK, self.inject_fault)
        return self.fault_state()

    def reference(self) -> Table:
        """Apply the reference repair in a trainer's dry run; otherwise only a reminder."""
        if not self.dry_run:
            return Table("The repair is yours to make", [], note="lesson.hint(1) says what a hint costs.")
        self.require(BREAK, "lesson.break_it()")
        self.apply_reference()
        return Table("The reference repair was applied", [], note=self.hints[2])

    def check(self, number: int | None = None) -> Table:
        """Check the clusters: requirement `number` (1 to 3), or all three. A check that passed once keeps its points."""
        if number is not None and number not in points.CHECKS:
            raise UsageError(
                f"there is no check {number}", "a lesson has three", "Use 1, 2 or 3, or no number for all."
            )
        progress.require_current(self._folder, self._attempt)
        rows: list[dict[str, object]] = []
        for check in points.CHECKS if number is None else (number,):
            result = self._run_check(check)
            if result.holds:
                self._update(lambda attempt, passed=check: points.with_passed_check(attempt, passed))  # type: ignore[misc]
            rows.append(
                {
                    "check": check,
                    "requirement": self.claims[check - 1],
                    "holds": _ANSWERS[result.holds],
                    "observed": result.observed,
                    "next step": "" if result.holds else self._next_step(result),
                }
            )
        if not any(row["next step"] for row in rows):
            rows = [{name: value for name, value in row.items() if name != "next step"} for row in rows]
        return Table(f"{self.key}: state of the clusters", rows, note=self.score())

    def hint(self, number: int = 1, *, take: bool = False) -> Table:
        """Show what one of three hints costs, and with `take` the hint; the third gives the solution. It costs once."""
        if number not in points.HINTS:
            raise UsageError(f"there is no hint {number}", "a lesson has three", "Use 1, 2 or 3.")
        read = progress.require_current(self._folder, self._attempt).hints
        if not take and number not in read:
            price = f"It costs {HINT_COST} of {points.FULL} points, once; nothing was charged yet."
            note = f"{price} To read it: lesson.hint({number}, take=True). ({self.score()})"
            return Table(f"Hint {number}: {_HINTS[number - 1]}", [], note=note)
        self._update(lambda attempt: points.with_hint(attempt, number))
        return Table(f"Hint {number}", [], note=f"{self.hints[number - 1]} ({self.score()})")

    def picture(self) -> Table:
        """Show the lesson's figure, drawn from the clusters' current state."""
        self.require(*self.first)
        return Table(self.title, [], figure=self.figure())

    def score(self) -> str:
        """The points so far, in words."""
        if self.dry_run:
            return "A dry run with reference answers: no points."
        return f"{points.total(self._attempt)} of {points.FULL} points."

    def close(self) -> Table:
        """End the attempt: stop its worker and undo its fault, or stop the lab if the lesson started it."""
        if not self._attempt.closed:
            self._end()
        return Table(f"{self.key} is closed", [], note=f"{self.score()} All lessons: drlib academy status")

    def __repr__(self) -> str:
        return repr(self._overview())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, object]:
        return self._overview()._repr_mimebundle_()

    # -- defined by each lesson ----------------------------------------------------------------------------------------

    @abstractmethod
    def question(self) -> str:
        """The question to predict, without the answer. Asked when the first step was done."""

    @abstractmethod
    def reference_answer(self) -> str:
        """What a dry run predicts, before anything is measured."""

    @abstractmethod
    def measured(self) -> float | None:
        """The answer as the clusters gave it; None before it was measured. Asked after the fault."""

    @abstractmethod
    def show_truth(self) -> Table:
        """The measured answer, with what explains it. Asked after the fault."""

    @abstractmethod
    def inject_fault(self) -> Mapping[str, int]:
        """Inject the fault and return numbers to keep; the first step was done. It may have been interrupted anywhere."""

    @abstractmethod
    def fault_state(self) -> Table:
        """The current state of what the fault affects."""

    @abstractmethod
    def apply_reference(self) -> None:
        """Repair the fault with calls that a learner has."""

    @abstractmethod
    def verify(self, number: int) -> CheckResult:
        """Check requirement `number` on the clusters."""

    @abstractmethod
    def figure(self) -> go.Figure:
        """The lesson's figure."""

    # -- used by lessons -----------------------------------------------------------------------------------------------

    @property
    def dry_run(self) -> bool:
        return self._attempt.dry

    @property
    def numbers(self) -> Mapping[str, int]:
        """Numbers that the lesson's steps returned."""
        return self._attempt.numbers

    def has_done(self, step: str) -> bool:
        return step in self._attempt.steps

    def step(self, name: str, action: Callable[[], Mapping[str, int] | None]) -> None:
        """Run `action` unless step `name` was done. Raises `UsageError` when the attempt has ended."""
        if not self.has_done(name):
            progress.require_current(self._folder, self._attempt)  # the testbed may belong to another lesson by now
            numbers = action()
            self._update(lambda attempt: points.with_step(attempt, name, numbers))

    def keep(self, numbers: Mapping[str, int]) -> None:
        """Keep `numbers` beside those that steps return; one that is kept already stays."""
        self._update(lambda attempt: points.with_numbers(attempt, numbers))

    def kill_worker(self, worker: MirrorWorker) -> None:
        """SIGKILL it, if it runs."""
        self._write_down([worker.name])
        worker.kill()

    def stop_worker(self) -> None:
        """SIGTERM: it first produces and journals what it has fetched."""
        self._write_down(self.testbed.workers)
        self.testbed.stop_mirror()

    def kill_cluster(self, alias: str) -> None:
        """SIGKILL all brokers of a cluster."""
        cluster = self.testbed.lab.clusters[alias]
        self._write_down([broker.name for broker in cluster.brokers])
        cluster.kill()

    def _write_down(self, names: Collection[str]) -> None:
        """Keep which processes this attempt is about to end."""
        running = {one.name: one.pid for one in self.testbed.lab.status() if one.alive and one.name in names}
        self._update(lambda attempt: points.with_killed(attempt, running))

    def check_probe(self, seconds: float, missing: str) -> CheckResult:
        """Check that a record written to `probe_topic` now reaches RIGHT within `seconds`."""
        if self.testbed.probe_is_mirrored(self.probe_topic, seconds):
            return CheckResult(True, "a record written now was mirrored")
        return CheckResult(False, f"a record written now was not on RIGHT within {seconds:g} s", missing)

    def fully_mirrored(self, topic: str, flow: Flow = FORWARD, *, within_s: float = NOTED_S) -> bool:
        """Report whether the mirror's offset map covers every record of `topic` up to its end offsets.

        Records that something else wrote to the mirror topic look the same, but the mirror would copy theirs once more. That
        the markers behind the last record were passed is journaled a moment after its copy: `within_s` waits for it.
        """
        ends = [(topic, number, end) for number, end in enumerate(self.testbed.end_offsets(flow.source, topic))]

        def covered() -> bool:
            translated = translate_offsets(self.file, flow.source, flow.target, ends)
            return bool(translated) and all(item.translation.exact for item in translated)

        return wait_until(covered, within_s, every_s=0.2)

    def check_copy(self, complete: bool, observed: str, missing: str, flow: Flow = FORWARD) -> CheckResult:
        """Check that the mirror topic, which has `complete` contents, was written by the mirror alone."""
        if complete and not self.fully_mirrored(self.topic, flow):
            return CheckResult(False, f"{observed}, not all by the mirror", _FOREIGN)
        return CheckResult(complete, observed, missing)

    def require(self, step: str, call: str) -> None:
        """Raises `UsageError` when `step` was not done, or the attempt has ended."""
        progress.require_current(self._folder, self._attempt)
        if not self.has_done(step):
            raise UsageError(
                f"{self.key}: it is too early for this call",
                f"{call} was not run yet",
                f"Run the cell with {call} first.",
            )

    def stop_actions(self) -> tuple[Callable[[], None], ...]:
        """Calls that stop the lesson's mirror workers."""
        return (self.testbed.stop_mirror,)

    def _prediction_missing(self) -> Table:
        self.require(*self.first)
        note = f"{self.question()} Record your answer with lesson.predict(...)."
        return Table("Your prediction comes first", [], note=note)

    def _run_check(self, number: int) -> CheckResult:
        if not self.has_done(BREAK):
            return CheckResult(False, "the fault was not injected yet")
        try:
            return self.verify(number)
        except DrlibError as error:
            return CheckResult(None, f"{error.what}: {error.why}", error.remedy)

    def _next_step(self, result: CheckResult) -> str:
        """What follows from a check that does not hold."""
        if not self.has_done(BREAK):
            step, call = self.first
            calls = [] if self.has_done(step) else [call]
            calls += [] if self._attempt.may_see_truth else ["lesson.predict(...)"]
            return f"Run first: {', '.join((*calls, 'lesson.break_it()'))}"
        if result.holds is None:
            return result.missing
        if result.for_good:
            return f"{result.missing} Start again: drlib.open_lesson({self.key!r}, lab_dir, run_dir, again=True)"
        unread = [number for number in points.HINTS if number not in self._attempt.hints]
        return f"{result.missing} lesson.hint({unread[0] if unread else points.HINTS[-1]}) helps."

    def _update(self, step: Callable[[Attempt], Attempt]) -> None:
        self._attempt = progress.update(self._folder, self._attempt, step)

    def _end(self) -> None:
        """Where another attempt has the lab now, that stays as it is."""
        replaced = progress.is_replaced(self._folder, self._attempt, self.testbed.lab.root)
        if not replaced:
            for stop in self.stop_actions():
                stop()
        self._attempt = progress.close(self._folder, self._attempt)
        if not replaced:
            self._end_lab()

    def _overview(self) -> Table:
        attempt = self._attempt
        rows: list[dict[str, object]] = [
            {"what": "prediction", "so far": attempt.prediction or "not yet"},
            {"what": "steps done", "so far": ", ".join(attempt.steps) or "none yet"},
            {"what": "checks passed", "so far": ", ".join(map(str, attempt.passed)) or "none yet"},
            {"what": "hints read", "so far": ", ".join(map(str, attempt.hints)) or "none"},
        ]
        record = progress.read(self._folder).of(self.key)
        if record.attempts > 1 and record.best is not None:
            rows.insert(0, {"what": "attempt", "so far": f"{record.attempts}; the best has {record.best} points"})
        names = f"{self.score()} Topics and groups of this attempt: {self.testbed.prefix}*"
        return Table(f"{self.key}: {self.title}", rows, note=" ".join(filter(None, (self._notice, names))))
