"""A plan as a person reads it: before and after, marks, and words from outside that stay words."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from drlib.drill.plan.plan import Call, Change, Danger, Drill, Expectation, Fact, Mode, Plan, Rollback, Step, StepPlan
from drlib.lab.environment import Environment
from drlib.model import Flow
from drlib.runs.scorecard import Objectives
from drlib.ui.terminal.plan import plan_of


def shown(
    mode: Mode = Mode.PLANNED, rollback: Rollback = Rollback.DEFAULT, environment: Environment | None = None
) -> tuple[str, Plan]:
    steps = (
        Step(name="look", title="Look [bold]around[/bold]", action=Call("look"), danger=Danger.NONE),
        Step(name="create", title="Create it", action=Call("create"), undoable=False, approval=True),
        Step(name="burn", title="Burn it", action=Call("burn"), danger=Danger.DESTRUCTIVE),
    )
    drill = Drill(
        name="d",
        flow=Flow("A", "B"),
        mode=mode,
        steps=steps,
        rollback=rollback,
        hypothesis=(Expectation("all is well", Call("well")),),
        objectives=Objectives(rto_seconds=30, rpo_records=0),
    )
    entity = "partitions of orders"
    create = StepPlan("create", (Fact(entity, None),), (Change(entity, None, 6),))
    plan = Plan(
        drill, (StepPlan("look"), create, StepPlan("burn", (Fact("x\x1b[2J", 6),), (Change("x\x1b[2J", 6, None),)))
    )
    out = StringIO()
    Console(file=out, width=120, color_system=None).print(plan_of(plan, environment))
    return out.getvalue(), plan


def test_plan_steps_show_their_changes_and_dangers() -> None:
    text, plan = shown()
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "PLANNED d A->B" in lines[0]
    assert "1 look Look [bold]around[/bold]" in lines
    assert lines[lines.index("1 look Look [bold]around[/bold]") + 1] == "changes nothing"
    assert "partitions of orders does not exist → 6" in lines
    assert "6 → does not exist" in next(line for line in lines if line.startswith(r"x\x1b[2J "))
    marks = " ".join(lines)
    assert "waits for approval cannot be undone" in marks
    assert "DESTRUCTIVE" in marks
    assert "\x1b" not in text
    for expected in ("all is well", "RTO 30 s, RPO 0 records", "when it deviates or is aborted", plan.hash):
        assert expected in marks


def test_plan_states_when_it_rolls_back() -> None:
    assert "Nothing your applications rely on is touched" in shown(Mode.PRACTICE)[0]
    assert "always: it cleans up" in shown(Mode.PRACTICE)[0]
    assert "EMERGENCY" in shown(Mode.EMERGENCY)[0]
    assert "not when it is aborted" in shown(Mode.EMERGENCY, Rollback.DEVIATED)[0]


def test_plan_banner_comes_first_and_production_has_no_practice() -> None:
    text = shown(Mode.PRACTICE, environment=Environment.PRODUCTION)[0]
    assert text.startswith(" PRODUCTION  flow A->B, clusters A and B: the plan lists what is changed.")
    assert "REHEARSAL" in text
    assert "PRACTICE" not in text.upper()
    on_lab = shown(Mode.EMERGENCY, environment=Environment.LAB)[0]
    assert on_lab.startswith(" LAB  flow A->B, clusters A and B: only the lab is changed.")
    assert "The lab's applications move" in on_lab
    assert "PRODUCTION" not in on_lab
