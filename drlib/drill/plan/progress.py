"""Decide what a run does next, from its journal alone: the same answer before a kill and after it.

Rules: nothing is remembered but the journal. A step that began and did not succeed is probed before it is repeated, accepted
or undone, because an error may be an answer that was lost; a step that the probe finds done is done. An unknown reach ends the
run and is never guessed. A rollback that began continues as a rollback. Undos run in the reverse order of the steps; one that
fails ends the rollback, because what lies before it may rely on it, and the steps that are not undone are named. A missing
approval is a pause, not an end.
Not for: doing any of it (`drlib.drill.run.runner`), and whether the plan still holds (`drlib.drill.plan.staleness.stale`).
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal

from drlib.drill.plan.plan import Danger, Drill, Mode, Rollback, Step
from drlib.drill.plan.states import DrillEvent

When = Literal["before", "after"]
ROLLBACK: Final = "rollback"


class Noted(StrEnum):
    """The events of a run's journal."""

    RUN_STARTED = "run-started"
    RUN_RESUMED = "run-resumed"  # detail `ROLLBACK`: to roll back, whatever the strategy
    RUN_ENDED = "run-ended"
    APPROVED = "approved"
    HYPOTHESIS_HELD = "hypothesis-held"  # detail: before, after
    HYPOTHESIS_FAILED = "hypothesis-failed"
    STEP_STARTED = "step-started"
    STEP_SUCCEEDED = "step-succeeded"
    STEP_FAILED = "step-failed"
    PROBED = "probed"  # detail: a `Reach`
    ABORT_REQUESTED = "abort-requested"
    UNDO_STARTED = "undo-started"
    UNDO_SUCCEEDED = "undo-succeeded"
    UNDO_FAILED = "undo-failed"
    SUPERSEDES = "supersedes"  # detail: the run that this one gave up; for people, it decides nothing
    SUPERSEDED = "superseded"  # detail: by which run, or whom


class Reach(StrEnum):
    """How far a step came, as its probe sees it."""

    UNTOUCHED = "untouched"
    PARTLY = "partly"
    DONE = "done"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Note:
    """One line of the journal, as far as it matters here."""

    event: Noted
    step: str = ""
    detail: str = ""


class Outcome(StrEnum):
    PASSED = "passed"
    HYPOTHESIS_FAILED = "hypothesis-failed"  # before anything was done
    DEVIATED = "deviated"
    ABORTED = "aborted"
    SUPERSEDED = "superseded"  # given up for a more urgent run


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended. `standing` are the steps whose changes are, or may be, in place, in the drill's order. `by` is who
    superseded it, empty where nothing did."""

    outcome: Outcome
    standing: tuple[str, ...] = ()
    by: str = ""


# -- what to do next ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CheckHypothesis:
    when: When


@dataclass(frozen=True, slots=True)
class AskApproval:
    step: str


@dataclass(frozen=True, slots=True)
class Probe:
    """See how far the step came, and note it."""

    step: str


@dataclass(frozen=True, slots=True)
class Act:
    """Do the step, or what is missing of it. `again`: it began before."""

    step: str
    again: bool = False


@dataclass(frozen=True, slots=True)
class Accept:
    """The probe found the step done: note that it succeeded."""

    step: str


@dataclass(frozen=True, slots=True)
class Undo:
    """Undo the step. `needed` is False where it changed nothing: then it is only noted."""

    step: str
    needed: bool = True


@dataclass(frozen=True, slots=True)
class End:
    """Note that the run ended."""

    ending: RunOutcome


@dataclass(frozen=True, slots=True)
class Over:
    """The run has ended. `resumable`: steps are not undone, and resuming it could still change that."""

    ending: RunOutcome
    resumable: bool


Next = CheckHypothesis | AskApproval | Probe | Act | Accept | Undo | End | Over


@dataclass(slots=True)
class Progress:
    """The state of a run by its journal; `fold` makes it."""

    begun: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)
    approved: set[str] = field(default_factory=set)
    reach: dict[str, Reach] = field(default_factory=dict)  # probed since it last moved, and since the last resume
    held: set[str] = field(default_factory=set)
    broken: set[str] = field(default_factory=set)
    failed: str = ""
    aborted: bool = False
    undoing: set[str] = field(default_factory=set)
    undone: set[str] = field(default_factory=set)
    undo_failed: str = ""
    forced: bool = False
    ended: bool = False
    superseded: str = ""

    @property
    def rolling_back(self) -> bool:
        return bool(self.undoing or self.undone)


def fold(notes: Iterable[Note]) -> Progress:
    """The journal's notes, in order, as progress."""
    now = Progress()
    for note in notes:
        _take(now, note)
    return now


def _take(now: Progress, note: Note) -> None:
    step = note.step
    match note.event:
        case Noted.RUN_STARTED:
            pass
        case Noted.RUN_RESUMED:
            now.reach.clear()
            if now.ended and not now.rolling_back and note.detail != ROLLBACK:
                now.failed, now.aborted = "", False
                now.broken.clear()
            now.undo_failed = ""
            now.ended = False
            now.forced = now.forced or note.detail == ROLLBACK
        case Noted.RUN_ENDED:
            now.ended = True
        case Noted.APPROVED:
            now.approved.add(step)
        case Noted.HYPOTHESIS_HELD:
            now.held.add(note.detail)
        case Noted.HYPOTHESIS_FAILED:
            now.broken.add(note.detail)
        case Noted.STEP_STARTED:
            now.begun.add(step)
            now.reach.pop(step, None)
        case Noted.STEP_SUCCEEDED:
            now.done.add(step)
            now.failed = "" if now.failed == step else now.failed
        case Noted.STEP_FAILED:
            now.failed = step
            now.reach.pop(step, None)
        case Noted.PROBED:
            now.reach[step] = Reach(note.detail)
        case Noted.ABORT_REQUESTED:
            now.aborted = True
        case Noted.UNDO_STARTED:
            now.undoing.add(step)
            now.reach.pop(step, None)
        case Noted.UNDO_SUCCEEDED:
            now.undone.add(step)
            now.undo_failed = ""
        case Noted.UNDO_FAILED:
            now.undo_failed = step
            now.reach.pop(step, None)
        case Noted.SUPERSEDED:
            now.superseded = note.detail
        case Noted.SUPERSEDES:
            pass


def decide(drill: Drill, notes: Iterable[Note]) -> Next:
    """What the run does next. The answer is noted in the journal before the question is asked again."""
    now = fold(notes)
    if now.superseded:
        return Over(RunOutcome(Outcome.SUPERSEDED, standing(drill, now), now.superseded), resumable=False)
    outcome = _outcome(now)
    if now.ended:
        ending = RunOutcome(outcome or Outcome.PASSED, standing(drill, now))
        unfinished = ending.outcome in (Outcome.DEVIATED, Outcome.ABORTED)
        return Over(ending, resumable=unfinished and bool(ending.standing))
    probe = _probe(drill, now)
    if probe is not None:
        return probe
    if outcome is None:
        forward = _forward(drill, now)
        if forward is not None:
            return forward
        outcome = Outcome.PASSED
    if now.forced or now.rolling_back or rollback_due(drill, outcome):
        undo = _undo(drill, now)
        if undo is not None:
            return undo
        standing_steps = standing(drill, now)
        return End(
            RunOutcome(Outcome.DEVIATED if standing_steps and outcome is Outcome.PASSED else outcome, standing_steps)
        )
    return End(RunOutcome(outcome, standing(drill, now)))


def may_abort(notes: Iterable[Note]) -> bool:
    """Does an abort that is asked for now still change anything? A rollback that is under way is not aborted."""
    now = fold(notes)
    return not now.ended and not now.superseded and not now.rolling_back and _outcome(now) is None


def _outcome(now: Progress) -> Outcome | None:
    """The outcome so far; None while nothing stopped the run."""
    if "before" in now.broken:
        return Outcome.HYPOTHESIS_FAILED
    if now.failed or now.broken or now.undo_failed:
        return Outcome.DEVIATED
    if now.aborted:
        return Outcome.ABORTED
    if any(reach is Reach.UNKNOWN for reach in now.reach.values()):
        return Outcome.DEVIATED
    return Outcome.ABORTED if now.forced else None


def _probe(drill: Drill, now: Progress) -> Next | None:
    """Probe a step that began and is not known to be done, or accept it; None when all were probed."""
    for step in drill.steps:
        name = step.name
        if name in now.begun and name not in now.done | now.undoing | now.undone:
            if name not in now.reach:
                return Probe(name)
            if now.reach[name] is Reach.DONE:
                return Accept(name)
    return None


def _forward(drill: Drill, now: Progress) -> Next | None:
    """The next step forward; None when there is nothing left to do."""
    if now.rolling_back:
        return None
    if drill.hypothesis and "before" not in now.held:
        return CheckHypothesis("before")
    for step in drill.steps:
        name = step.name
        if name in now.done:
            continue
        if name in now.begun:
            return Act(name, again=True)
        if step.approval and name not in now.approved:
            return AskApproval(name)
        return Act(name)
    if drill.hypothesis and "after" not in now.held:
        return CheckHypothesis("after")
    return None


def _undo(drill: Drill, now: Progress) -> Next | None:
    """The next undo; None when none is left, or one failed."""
    for step in reversed(drill.steps):
        name = step.name
        if name not in now.begun or name in now.undone or step.danger is Danger.NONE or not step.undoable:
            continue
        if name in now.done and name not in now.undoing:
            return Undo(name)
        match now.reach.get(name):
            case None:
                return Probe(name)
            case Reach.UNKNOWN:
                return None
            case Reach.UNTOUCHED:
                return Undo(name, needed=False)
            case _:
                return None if now.undo_failed == name else Undo(name)
    return None


def standing(drill: Drill, now: Progress) -> tuple[str, ...]:
    """The steps whose changes are, or may be, in place."""
    return tuple(
        step.name
        for step in drill.steps
        if step.name in now.begun
        and step.name not in now.undone
        and step.danger is not Danger.NONE
        and now.reach.get(step.name) is not Reach.UNTOUCHED
    )


def rollback_due(drill: Drill, outcome: Outcome) -> bool:
    """Does a run with this outcome undo what it changed?

    The default is by mode: a practice cleans up after itself, a planned drill goes back when it did not work out, and
    in an emergency nothing goes back to a cluster that is gone unless the runbook says so.
    """
    match drill.rollback:
        case Rollback.ALWAYS:
            return True
        case Rollback.NEVER:
            return False
        case Rollback.DEVIATED:
            return outcome is Outcome.DEVIATED
        case Rollback.DEFAULT:
            unfinished = outcome in (Outcome.DEVIATED, Outcome.ABORTED)
            return drill.mode is Mode.PRACTICE or (drill.mode is Mode.PLANNED and unfinished)


def missing_approvals(drill: Drill, approved: Collection[str]) -> tuple[str, ...]:
    """The steps that still need an approval, in order."""
    return tuple(step.name for step in drill.steps if step.approval and step.name not in approved)


def destructive(drill: Drill) -> tuple[Step, ...]:
    return tuple(step for step in drill.steps if step.danger is Danger.DESTRUCTIVE)


def closing_event(drill: Drill, ending: RunOutcome) -> DrillEvent:
    """The event by which the run's end changes the flow's state. A practice that cleaned up counts as tested.

    Not for a superseded run, whose flow's state is another run's.
    """
    if ending.outcome is Outcome.PASSED and (ending.standing or drill.mode is Mode.PRACTICE):
        return DrillEvent.SUCCEEDED
    if ending.outcome is Outcome.PASSED and not any(step.danger is not Danger.NONE for step in drill.steps):
        return DrillEvent.SUCCEEDED  # it changed nothing, so nothing was undone
    if not ending.standing:
        return DrillEvent.ROLLED_BACK
    return DrillEvent.ABORT if ending.outcome is Outcome.ABORTED else DrillEvent.FAILED
