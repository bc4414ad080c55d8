"""Steps on a lab's clusters that are undone by another step of the same drill."""

from __future__ import annotations

import pytest

from drlib.drill.plan.plan import Argument, Call, Fact, StepPlan, contradictions
from drlib.drill.scenarios.failover.clusters import CutApplications, KillCluster, ReconnectApplications, RestartCluster
from drlib.drill.testbed.failover_step import StateChangeAction


@pytest.mark.parametrize(("one", "back"), [(CutApplications, ReconnectApplications), (KillCluster, RestartCluster)])
def test_step_and_the_one_that_ends_its_effect_are_planned_together(
    one: type[StateChangeAction], back: type[StateChangeAction]
) -> None:
    """Before the drill both observe the same cluster, each in its own words."""
    steps = [kind.parse(Call(kind.name, (Argument("cluster", "LEFT"),)), kind.name) for kind in (one, back)]
    planned = [StepPlan(step.name, (Fact(step.entity, step.before),)) for step in steps]
    assert contradictions(planned) == ()
