"""What the actions of a drill with the flights' applications share: the lab, the testbed on it, and one state to reach.

Rules: `cluster` names a cluster of the lab, and defaults to the drill's source.
Not for: active/active and ordering drills, whose actions are a `lab_step.LabStep`.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from drlib.drill.plan.plan import Change, Fact
from drlib.drill.plan.progress import Reach
from drlib.drill.step.action import Changes, DrillAction
from drlib.drill.step.argument_types import Text
from drlib.drill.step.cluster_identity import cluster_id
from drlib.drill.step.flow_arguments import FlowArguments
from drlib.drill.testbed.failover_testbed import GROUPS, FailoverTestbed
from drlib.lab.brokers.cluster import Cluster as LabCluster
from drlib.lab.lab import Lab
from drlib.runs.journal import Scalar


class FailoverStep(FlowArguments, DrillAction):
    """A step of a drill with the flights' applications."""

    def check(self) -> None:
        super().check()
        self.lab  # noqa: B018 -- raises where there is none

    @property
    def lab(self) -> Lab:
        """Raises `UsageError` where the drill is not on a lab."""
        return self.context.needs_lab(f"action {self.name}")

    @property
    def testbed(self) -> FailoverTestbed:
        return FailoverTestbed(self.lab, self.context.run_dir, flow=self.flow)

    def cluster_id(self) -> str:
        return cluster_id(self.source_cluster)

    def show_progress(self) -> None:
        """Show how many records each application and the mirror have done."""
        testbed = self.testbed
        rows: list[dict[str, Scalar]] = [
            {"application": name, "records": testbed.applications.done(name)} for name in ("flights", *GROUPS)
        ]
        rows.append({"application": "mirror", "records": sum(flow.records for flow in testbed.mirror().flows)})
        self.show(rows)


class ClusterArgument(FailoverStep):
    """A step on one of the lab's clusters."""

    cluster: Text = ""
    """Alias of the cluster; by default the drill's source."""

    def check(self) -> None:
        super().check()
        self.context.cluster(self.alias)

    @property
    def alias(self) -> str:
        return self.cluster or self.context.flow.source

    @property
    def lab_cluster(self) -> LabCluster:
        return self.lab.clusters[self.alias]

    def cluster_id(self) -> str:
        return self.lab_cluster.cluster_id


class StateChangeAction(FailoverStep):
    """A step that changes one entity from one state to another; `reached` says whether it is in the second."""

    before: ClassVar[str | None] = None
    after: ClassVar[str]

    @property
    @abstractmethod
    def entity(self) -> str: ...

    @abstractmethod
    def reached(self) -> bool:
        """Is the entity in the state `after`?"""

    def observe(self) -> Sequence[Fact]:
        return (Fact(self.entity, self.after if self.reached() else self.before),)

    def changes(self, observed: Sequence[Fact]) -> Changes:
        (fact,) = observed
        return () if fact.value == self.after else (Change(self.entity, fact.value, self.after),)

    def probe(self, changes: Changes) -> Reach:
        return Reach.DONE if self.reached() else Reach.UNTOUCHED

    def undo(self, changes: Changes) -> None:
        return None
