"""What the steps of a drill with the flights' applications have in common: their place on a lab, and what most of them do.

Rules: `cluster` names the cluster that is meant, and defaults to the drill's source.
Not for: active/active and ordering drills, whose steps are a `lab_step.LabStep`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from drlib.drill.plan.plan import Change, Fact
from drlib.drill.plan.progress import Reach
from drlib.drill.step.action import Changes
from drlib.drill.step.arguments import word
from drlib.drill.step.cluster_identity import cluster_id
from drlib.drill.step.step import PlacedStep
from drlib.drill.testbed.failover_testbed import GROUPS, FailoverTestbed, Traffic
from drlib.lab.brokers.cluster import Cluster as LabCluster
from drlib.runs.journal import Scalar


class StagedStep(PlacedStep):
    """One step of a drill with the flights' applications, and its place."""

    def stage(self, traffic: Traffic | None = None, lanes: int | None = None) -> FailoverTestbed:
        return FailoverTestbed(
            self.place.needs_lab(f"action {self.call.name}"), self.place.run_dir, traffic, lanes, self.flow
        )

    @property
    def cluster(self) -> LabCluster:
        """The cluster that is meant: the drill's source, or the one the arguments name."""
        alias = word(self.call, "cluster", self.place.flow.source)
        self.place.cluster(alias)
        return self.place.needs_lab(f"action {self.call.name}").clusters[alias]

    def progress(self, stage: FailoverTestbed) -> None:
        """Show how far everybody is."""
        rows: list[dict[str, Scalar]] = [
            {"application": name, "records": stage.applications.done(name)} for name in ("flights", *GROUPS)
        ]
        told = stage.mirror()
        rows.append({"application": "mirror", "records": sum(flow.records for flow in told.flows)})
        self.show(rows)


class StateChangeAction:
    """A step that changes one entity from one word to another; `now` says which word holds."""

    before: ClassVar[str | None] = None
    after: ClassVar[str]

    def __init__(self, step: StagedStep) -> None:
        self.step = step
        self.stage = step.stage()

    @property
    def entity(self) -> str:
        raise NotImplementedError

    def holds(self) -> bool:
        """Is it as it is to be?"""
        raise NotImplementedError

    def observe(self) -> Sequence[Fact]:
        return (Fact(self.entity, self.after if self.holds() else self.before),)

    def changes(self, observed: Sequence[Fact]) -> Changes:
        (found,) = observed
        return () if found.value == self.after else (Change(self.entity, found.value, self.after),)

    def probe(self, changes: Changes) -> Reach:
        return Reach.DONE if self.holds() else Reach.UNTOUCHED

    def undo(self, changes: Changes) -> None:
        return None

    def cluster_id(self) -> str:
        return cluster_id(self.step.source)
