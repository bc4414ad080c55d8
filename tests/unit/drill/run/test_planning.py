"""Plans: steps are observed at the same time, and a step changes only what it observed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from drlib.drill.actions.failback.groups_left import GroupsLeft
from drlib.drill.actions.groups.rehearsal import ReadCanary
from drlib.drill.actions.groups.verify import VerifyGroups
from drlib.drill.plan.plan import Call, Change, Drill, Fact, Mode, Step
from drlib.drill.plan.progress import Reach
from drlib.drill.run import planning
from drlib.drill.step.action import Action, Changes, DrillAction, Evidence
from drlib.drill.step.context import DrillContext
from drlib.errors import Unreachable, UsageError
from drlib.model import Flow
from drlib.runs.abort import Abort

STEPS = tuple(Step(name=name, title=name, action=Call("write")) for name in ("one", "two", "three"))
DRILL = Drill(name="d", flow=Flow("A", "B"), mode=Mode.PLANNED, steps=STEPS)


@dataclass
class Waits:
    """Looks at its entity once all the others look at theirs."""

    entity: str
    together: threading.Barrier
    before: str = "as it was"
    fails: bool = False

    def observe(self) -> Sequence[Fact]:
        self.together.wait(10)
        if self.fails:
            raise Unreachable(f"{self.entity} cannot be seen", "no answer", "Start it.")
        return (Fact(self.entity, "as it was"),)

    def changes(self, observed: Sequence[Fact]) -> Changes:
        return (Change(self.entity, self.before, "changed"),)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        raise NotImplementedError

    def probe(self, changes: Changes) -> Reach:
        raise NotImplementedError

    def undo(self, changes: Changes) -> None:
        raise NotImplementedError

    def cluster_id(self) -> str:
        return "its-cluster"


def actions() -> dict[str, Waits]:
    together = threading.Barrier(len(STEPS))
    return {step.name: Waits(f"file {step.name}", together) for step in STEPS}


def test_make_plan_observes_all_steps_at_the_same_time_and_keeps_their_order() -> None:
    plan = planning.make_plan(DRILL, actions())
    assert [(step.step, step.observed[0].entity) for step in plan.steps] == [
        (step.name, f"file {step.name}") for step in STEPS
    ]
    planning.compare(plan, actions())


@pytest.mark.parametrize(
    ("action", "earlier", "refusal"),
    [
        (GroupsLeft(), "switchover.move", "no group was moved: no step before it moved any"),
        (VerifyGroups(), "groups.translate", "nothing can be verified: no group of .* was moved"),
        (ReadCanary(), "groups.shadow", "the canary has nothing to read: no shadow groups were made"),
    ],
)
def test_make_plan_refuses_a_step_that_continues_what_no_step_before_it_does(
    tmp_path: Path, action: DrillAction, earlier: str, refusal: str
) -> None:
    """In the words of the step itself, and before anything is observed."""
    first, last = (
        Step(name=name, title=name, action=Call(call)) for name, call in (("one", earlier), ("two", action.name))
    )
    bound = action.bind(DrillContext(clusters={}, flow=DRILL.flow, run_dir=tmp_path), "two")
    those: dict[str, Action] = {"one": actions()["one"], "two": bound}
    planning.refuse_order(replace(DRILL, steps=(first, last)), those)
    for steps in ((last,), (last, first)):
        with pytest.raises(UsageError, match=refusal):
            planning.make_plan(replace(DRILL, steps=steps), those)


def test_groups_need_not_have_been_moved_where_topics_are_verified(tmp_path: Path) -> None:
    verify = VerifyGroups(written=("orders",)).bind(DrillContext(clusters={}, flow=DRILL.flow, run_dir=tmp_path), "one")
    step = Step(name="one", title="one", action=Call("groups.verify"))
    planning.refuse_order(replace(DRILL, steps=(step,)), {"one": verify})


def test_make_plan_first_step_that_cannot_be_observed_is_named() -> None:
    those = actions()
    those["two"].fails = those["three"].fails = True
    with pytest.raises(Unreachable, match="file two cannot be seen"):
        planning.make_plan(DRILL, those)


def test_make_plan_change_of_what_was_observed_otherwise_is_an_error_of_that_step() -> None:
    those = actions()
    those["three"].before = "as it never was"
    with pytest.raises(ValueError, match="step three changes file three, which it did not observe"):
        planning.make_plan(DRILL, those)
