"""What an abort would undo is what it then undoes: by the same table, for every moment of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drlib.drill.plan.plan import Call, Change, Danger, Drill, Mode, Plan, Rollback, Step, StepPlan
from drlib.drill.plan.progress import ROLLBACK, Note, Noted, Reach, Undo, decide, fold, standing
from drlib.drill.plan.rollback_preview import RollbackPreview, UndoneStep, preview
from drlib.model import Flow

LOOK = Step(name="look", title="Look", action=Call("look"), danger=Danger.NONE)
ONE = Step(name="one", title="One", action=Call("change"))
TWO = Step(name="two", title="Two", action=Call("change"))
LAST = Step(name="last", title="Last", action=Call("delete"), danger=Danger.DESTRUCTIVE, undoable=False)
DRILL = Drill(name="d", flow=Flow("A", "B"), mode=Mode.PLANNED, steps=(LOOK, ONE, TWO, LAST))
N = Noted


def plan(drill: Drill = DRILL) -> Plan:
    return Plan(drill, tuple(StepPlan(s.name, (), (Change(f"pointer of {s.name}", None, "B"),)) for s in drill.steps))


def started(step: str) -> tuple[Note, ...]:
    return (Note(N.RUN_STARTED), Note(N.STEP_STARTED, step))


def done(*steps: str) -> tuple[Note, ...]:
    notes = (note for step in steps for note in (Note(N.STEP_STARTED, step), Note(N.STEP_SUCCEEDED, step)))
    return (Note(N.RUN_STARTED), *notes)


def test_preview_lists_undos_in_their_order_with_what_becomes_of_each_entity() -> None:
    would = preview(plan(), done("look", "one", "two"))
    assert would == RollbackPreview(
        (
            UndoneStep("two", "Two", ("pointer of two: B -> not there",)),
            UndoneStep("one", "One", ("pointer of one: B -> not there",)),
        )
    )


def test_preview_step_that_runs_is_undone_as_far_as_it_came() -> None:
    (one,) = preview(plan(), started("one")).undone
    assert (one.step, one.partly) == ("one", True)


def test_preview_names_what_cannot_be_undone_and_what_the_strategy_leaves() -> None:
    would = preview(plan(), done("one", "last"))
    assert [each.step for each in would.undone] == ["one"]
    assert would.stays == (("last", "its action cannot be undone"),)
    emergency = preview(plan(replace(DRILL, mode=Mode.EMERGENCY)), done("one"))
    assert emergency == RollbackPreview((), (("one", "an abort undoes nothing: rollback default, mode emergency"),))
    never = plan(replace(DRILL, rollback=Rollback.NEVER))
    assert preview(never, done("one")).undone == ()
    assert [each.step for each in preview(never, done("one"), forced=True).undone] == ["one"], "a rollback on request"


def test_preview_leaves_out_what_is_undone_or_never_changed_anything() -> None:
    probed = (*started("one"), Note(N.PROBED, "one", Reach.UNTOUCHED))
    assert preview(plan(), probed) == RollbackPreview()
    undone = (*done("one", "two"), Note(N.ABORT_REQUESTED), Note(N.UNDO_STARTED, "two"), Note(N.UNDO_SUCCEEDED, "two"))
    assert [each.step for each in preview(plan(), undone).undone] == ["one"]


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("rollback", Rollback)
@pytest.mark.parametrize(
    "steps", [(), ("look",), ("look", "one"), ("look", "one", "two"), ("look", "one", "two", "last")]
)
@pytest.mark.parametrize("forced", [False, True])
def test_preview_agrees_with_what_an_abort_does(
    mode: Mode, rollback: Rollback, steps: tuple[str, ...], forced: bool
) -> None:
    drill = replace(DRILL, mode=mode, rollback=rollback)
    notes = [*done(*steps), *([Note(N.RUN_RESUMED, detail=ROLLBACK)] if forced else [Note(N.ABORT_REQUESTED)])]
    would = preview(plan(drill), done(*steps), forced=forced)
    if set(steps) == {step.name for step in drill.steps} and not forced:
        return  # it has passed; nothing is left that could be aborted
    undone = []
    while isinstance(upcoming := decide(drill, notes), Undo):
        undone.append(upcoming.step)
        notes.append(Note(N.UNDO_SUCCEEDED, upcoming.step))
    assert [each.step for each in would.undone] == undone
    assert {step for step, _ in would.stays} == set(standing(drill, fold(notes)))
