"""Steps that move applications from one cluster to another: decide, fence, drain, move the pointer. Each has its module.

Rules: none of them guesses. What the source does is looked at each time and told, so that a source that comes back in the
middle of a failover is named in the evidence of the next step.
Arguments: `failover.triage` expect (gone, serving), force_reason · `source.fence` still_s, deadline_s, application,
deny_write, deny_principals, open_to_all, grace_s · `source.unfence` cluster · `mirror.drain` expect, deadline_s ·
`pointer.move` application, cutover (true).
Not for: groups (`group_actions`), rehearsing (`rehearsal`), what was written on the former source since (failback).
"""

from __future__ import annotations

from drlib.drill.actions.applications.fence_source import FenceSource, Unfence
from drlib.drill.actions.applications.move_pointer import MovePointer
from drlib.drill.actions.failover.drain import DrainMirror
from drlib.drill.actions.failover.triage import Triage
from drlib.drill.plan.plan import Call
from drlib.drill.step.action import Action, ActionMaker, Answer, Probe, ProbeMaker, StepCall
from drlib.drill.step.arguments import word
from drlib.drill.step.context import DrillContext
from drlib.drill.step.move_step import MovingStep
from drlib.errors import Unreachable
from drlib.kafka.admin.reachability import who_answers
from drlib.kafka.security.cluster_settings import ClusterSettings


def makers(workplace: DrillContext) -> dict[str, ActionMaker]:
    """The actions of this module. Making one raises `UsageError` for an argument that is wrong."""

    def made(kind: type) -> ActionMaker:
        def make(call: StepCall) -> Action:
            action: Action = kind(MovingStep(workplace, call))
            return action

        return make

    return {
        "failover.triage": made(Triage),
        "source.fence": made(FenceSource),
        "source.unfence": made(Unfence),
        "mirror.drain": made(DrainMirror),
        "pointer.move": made(MovePointer),
    }


def probes(workplace: DrillContext) -> dict[str, ProbeMaker]:
    """`cluster.serves` cluster: does it answer, with a leader for every partition of every topic?"""

    def serves(call: Call) -> Probe:
        cluster = workplace.cluster(word(call, "cluster", workplace.flow.target))
        return lambda _: _serves(cluster)

    return {"cluster.serves": serves}


def _serves(cluster: ClusterSettings) -> Answer:
    found = who_answers([cluster])[cluster.alias]
    if isinstance(found, Unreachable):
        return Answer(False, f"{cluster.alias} does not answer: {found.why}")
    without = sorted(
        f"{name}-{number}"
        for name, topic in found.topics.items()
        for number, partition in topic.partitions.items()
        if partition.leader < 0
    )
    told = f"{cluster.alias}: {len(found.brokers)} brokers, {len(found.topics)} topics"
    return Answer(not without, f"{told}, without a leader: {', '.join(without[:5])}" if without else told)
