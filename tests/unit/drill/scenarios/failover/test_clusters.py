"""Steps on a lab's clusters that are undone by another step of the same drill."""

from __future__ import annotations

from pathlib import Path

import pytest

from drlib.drill.plan.plan import Argument, Call, Fact, StepPlan, contradictions
from drlib.drill.run.registry import make_action
from drlib.drill.scenarios.failover.clusters import (
    CutApplications,
    KillCluster,
    ReconnectApplications,
    RestartCluster,
    RollBrokers,
)
from drlib.drill.step.context import DrillContext
from drlib.drill.testbed.failover_step import StateChangeAction
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.lab import Lab
from drlib.model import Flow


@pytest.mark.parametrize(("one", "back"), [(CutApplications, ReconnectApplications), (KillCluster, RestartCluster)])
def test_step_and_the_one_that_ends_its_effect_are_planned_together(
    one: type[StateChangeAction], back: type[StateChangeAction]
) -> None:
    """Before the drill both observe the same cluster, each in its own words."""
    steps = [kind.parse(Call(kind.name, (Argument("cluster", "LEFT"),)), kind.name) for kind in (one, back)]
    planned = [StepPlan(step.name, (Fact(step.entity, step.before),)) for step in steps]
    assert contradictions(planned) == ()


@pytest.mark.parametrize(("alias", "outage_s"), [("RIGHT", 80.0), ("LEFT", 0.0)])
def test_restart_of_brokers_keeps_a_lease_on_the_target_waiting_and_none_on_the_source(
    alias: str, outage_s: float, tmp_path: Path
) -> None:
    clusters = {each: ClusterSettings(each, ("127.0.0.1:1",)) for each in ("LEFT", "RIGHT")}
    place = DrillContext(clusters=clusters, flow=Flow("LEFT", "RIGHT"), run_dir=tmp_path, lab=Lab(tmp_path / "lab"))
    step = make_action(Call("lab.roll_brokers", (Argument("cluster", alias),)), place, "roll")
    assert isinstance(step, RollBrokers)
    assert step.outage_s == outage_s
