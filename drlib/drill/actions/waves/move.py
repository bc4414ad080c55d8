"""Action `wave.move`: the pointers of a wave's applications name the target, those of later waves not yet.

Rules: each application's pointer is moved as `pointer.move` moves the one of all; the last wave also moves that, and with it
every application that is in no wave. Undone, the applications follow what they followed before.
Not for: moving while the source serves, which holds the applications first (`switchover`).
"""

from collections.abc import Sequence

from drlib.client.pointer_topic import EVERYONE
from drlib.drill.actions.applications.move_pointer import MovePointer
from drlib.drill.actions.applications.producer_ids import ProducerIdsArgument
from drlib.drill.actions.parts import Parts
from drlib.drill.actions.waves.arguments import WaveArguments
from drlib.drill.plan.plan import Fact
from drlib.drill.plan.progress import Reach
from drlib.drill.step import rto_clock as moments
from drlib.drill.step.action import Changes, DrillAction, Evidence
from drlib.drill.step.argument_types import Flag
from drlib.drill.step.flow_arguments import FlowArguments, Shared
from drlib.runs.abort import Abort
from drlib.runs.journal import Scalar
from drlib.runs.scorecard import Mark


class MoveWave(WaveArguments, ProducerIdsArgument, FlowArguments, DrillAction):
    """Point the applications of one wave to the target; the others stay where they are."""

    name = "wave.move"
    shared_topics = Shared.SOME

    cutover: Flag = True
    """Whether the pointers say where each remote topic ends, so that readers finish it before the local one."""

    @property
    def parts(self) -> tuple[MovePointer, ...]:
        """The move of each application's pointer, with an output of its own."""
        plan = self.plan
        names = [each.name for each in plan.wave.applications] + ([EVERYONE] if plan.last else [])
        return tuple(
            MovePointer(
                application=name, source=self.source, target=self.target, collide=self.collide, cutover=self.cutover
            ).bind(self.context, f"{self.step}.{'+all' if name == EVERYONE else name}")
            for name in names
        )

    def observe(self) -> Sequence[Fact]:
        return tuple(dict.fromkeys(fact for part in self.parts for fact in part.observe()))

    def changes(self, observed: Sequence[Fact]) -> Changes:
        return tuple(change for part in self.parts for change in part.changes(observed))

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        plan, rows = self.plan, list[dict[str, Scalar]]()
        evidence: Evidence = {}
        for part in self.parts:
            evidence = part.act([change for change in changes if change.entity == part.pointer.entity], abort)
            name = "all others" if part.application == EVERYONE else part.application
            rows.append({"application": name, "cluster": evidence["active"], "pointer version": evidence["version"]})
            self.show(rows)
        at_ms = moments.mark(self.context.run_dir, "act")
        self.mark(Mark(name=f"{plan.label}: moved", at_ms=at_ms, detail=f"{plan.wave} to {self.flow.target}"))
        return {**evidence, "wave": plan.label, "others": plan.still_at(self.flow.source)}

    def probe(self, changes: Changes) -> Reach:
        reached = {part.probe(changes) for part in self.parts}
        if Reach.UNKNOWN in reached:
            return Reach.UNKNOWN
        return Reach.UNTOUCHED if reached == {Reach.UNTOUCHED} else Reach.PARTLY  # act completes it

    def undo(self, changes: Changes) -> None:
        parts = Parts()
        for part in reversed(self.parts):
            with parts.each(part.pointer.entity):
                part.undo(changes)
        parts.raise_failed()
