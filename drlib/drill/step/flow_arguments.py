"""The arguments `source` and `target`, which actions have that are about one flow, and `cluster` of those about one cluster.

Rules: both default to the drill's own flow. An action refuses topics that both directions copy under one name, unless it says
that it knows them (`shared_topics`), or flows that have no others. Whether the source answers is observed by every step that
relies on it one way or the other, and is part of its evidence.
"""

from collections.abc import Sequence
from enum import Enum
from typing import ClassVar

from drlib.config.both_ways.shared_topics import (
    all_shared,
    refuse_partly_shared,
    refuse_ring,
    refuse_shared_topics,
)
from drlib.drill.plan.plan import Fact
from drlib.drill.step.action import DrillCall, ReadOnlyAction
from drlib.drill.step.argument_types import Seconds, Text
from drlib.drill.step.cluster_identity import cluster_id, identity
from drlib.drill.step.context import DrillContext
from drlib.drill.step.known_silence import PROBE_S, ask_in_run
from drlib.errors import Unreachable
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.offsets.unreplicated.find import refuse_one_way
from drlib.model import Flow
from drlib.runs.journal import Scalar


class Shared(Enum):
    """Which topics that both directions copy under one name an action knows."""

    NONE = "none"
    ALL = "all"  # those of flows that have no others
    SOME = "some"  # those of any flow


class FlowArguments(DrillCall):
    """The flow that an action is about."""

    source: Text = ""
    """Alias of the cluster the flow reads from; by default the drill's source."""
    target: Text = ""
    """Alias of the cluster the flow writes to; by default the drill's target."""
    shared_topics: ClassVar[Shared] = Shared.NONE
    reverses: ClassVar[bool] = False
    """Whether it relies on a way back, which topics have not that one direction copies under their own names."""

    @property
    def usual_flow(self) -> Flow:
        """The flow where no arguments name one."""
        return self.context.flow

    @property
    def flow(self) -> Flow:
        return Flow(self.source or self.usual_flow.source, self.target or self.usual_flow.target)

    def check(self) -> None:
        super().check()
        for alias in (self.source, self.target):
            if alias:
                self.context.cluster(alias)
        if self.context.lab is None and self.context.properties is not None:
            what = f"{self.name} is not possible"
            refuse = {Shared.NONE: refuse_shared_topics, Shared.ALL: refuse_partly_shared}
            refuse.get(self.shared_topics, refuse_ring)(self.context.mirror_settings(), self.flow, what)
        if self.reverses:
            refuse_no_way_back(self.context, self.flow)

    @property
    def both_ways(self) -> bool:
        """Do both directions copy every topic of the flow, under one name?"""
        return all_shared(self.context.mirror_settings(), self.flow)

    @property
    def source_cluster(self) -> ClusterSettings:
        return self.context.cluster(self.flow.source)

    @property
    def target_cluster(self) -> ClusterSettings:
        return self.context.cluster(self.flow.target)

    def cluster_id(self) -> str:
        return cluster_id(self.target_cluster)

    def source_state(self) -> str:
        """Whether the source answers now, for evidence."""
        answer = ask_in_run(self.context, [self.source_cluster])[self.source_cluster.alias]
        return f"no answer: {answer.why}" if isinstance(answer, Unreachable) else "it answers"


class ClusterArguments(FlowArguments):
    """One cluster, of a flow that says which topics are meant."""

    cluster: Text = ""
    """Alias of the cluster; by default the source."""

    def check(self) -> None:
        super().check()
        self.context.cluster(self.alias)

    @property
    def alias(self) -> str:
        return self.cluster or self.flow.source

    @property
    def settings(self) -> ClusterSettings:
        return self.context.cluster(self.alias)


def refuse_no_way_back(context: DrillContext, flow: Flow) -> None:
    """Raises `UsageError` where the file says that `flow` cannot be reversed, before anything is asked of a cluster."""
    if context.lab is None and context.properties is not None:
        settings = context.mirror_settings()
        if not all_shared(settings, flow):
            refuse_one_way(settings.flow(flow.source, flow.target))


class ProbeDeadline(DrillCall):
    """The deadline of what a step asks of a source that may be lost."""

    probe_s: Seconds = PROBE_S
    """How long the source has for everything that this step asks of it; what it leaves open is listed as not determined."""


class ReadOnlyTargetAction(FlowArguments, ReadOnlyAction):
    """A read-only action of the flow's target: the target's cluster ID is all that its plan relies on."""

    def observe(self) -> Sequence[Fact]:
        return (identity(self.target_cluster),)


def question_row(question: str, answer: Scalar) -> dict[str, Scalar]:
    """A row of results that answers a question."""
    return {"question": question, "answer": answer}
