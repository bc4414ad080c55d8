"""What undoing a run would really do now: which changes it takes back, in which order, and which stay. Pure.

Rules: taken from the plan and the journal alone, by the rules of `progress`, so what is shown is what an abort does. A step
that began and is not known to be done is undone as far as it came, which its probe decides then. A step that changed nothing is
not listed. Where nothing is undone the reason is said.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from drlib.drill.plan.plan import Change, Danger, Drill, Plan, value_words
from drlib.drill.plan.progress import Note, Outcome, Reach, fold, rollback_due

AS_FAR_AS = "as far as it came: its probe decides then"


@dataclass(frozen=True, slots=True)
class UndoneStep:
    """`changes`: what becomes of each entity, in words. `partly`: it began and is not known to be done."""

    step: str
    title: str
    changes: tuple[str, ...]
    partly: bool = False


@dataclass(frozen=True, slots=True)
class RollbackPreview:
    """`undone` is in the order of the undos. `stays`: a step whose changes stay in place, and why."""

    undone: tuple[UndoneStep, ...] = ()
    stays: tuple[tuple[str, str], ...] = ()


def preview(plan: Plan, notes: Iterable[Note], *, forced: bool = False) -> RollbackPreview:
    """What an abort would undo now; with `forced`, what a rollback that is asked for would, whatever the strategy."""
    drill, now = plan.drill, fold(notes)
    due = forced or now.forced or now.rolling_back or rollback_due(drill, Outcome.ABORTED)
    undone: list[UndoneStep] = []
    stays: list[tuple[str, str]] = []
    for step in reversed(drill.steps):
        name = step.name
        if name not in now.begun or name in now.undone or step.danger is Danger.NONE:
            continue
        if now.reach.get(name) is Reach.UNTOUCHED:
            continue
        if not step.undoable:
            stays.append((name, "its action cannot be undone"))
        elif not due:
            stays.append((name, _strategy(drill)))
        else:
            changes = tuple(_back(change) for change in plan.of(name).changes)
            undone.append(UndoneStep(name, step.title, changes, partly=name not in now.done or name in now.undoing))
    return RollbackPreview(tuple(undone), tuple(stays))


def _strategy(drill: Drill) -> str:
    return f"an abort undoes nothing: rollback {drill.rollback.value}, mode {drill.mode.value}"


def _back(change: Change) -> str:
    return f"{change.entity}: {value_words(change.after)} -> {value_words(change.before)}"
