"""Action `pointer.move`: the pointer names the target: the remote topics up to where they end now, then the local ones.

Rules: what is written is on disk before it is published, so that a process that resumes the step knows its own
pointer. One that names the target already, by another run or a person, is kept. Where it names neither cluster of the flow,
as with several sources of one target, those that follow it are not this flow's: it is left, and said; one that was moved there
since the plan was made is a conflict. The step fails while the target has no copy of it; continued, it is written again,
which completes the copies that are missing. Rules by which an earlier failover denied writing to the target are removed before,
as applications are to write there, and made again by an undo.
Not for: what the pointer is and where it is kept (`drlib.drill.actions.applications.pointer`).
"""

from collections.abc import Mapping, Sequence

from drlib.client.pointer import OPEN, Pointer, PointerConflict, fitted
from drlib.client.pointer_copies import moved_pointer, topics_with_ends
from drlib.drill.actions.applications.deny_writes import WriteRules
from drlib.drill.actions.applications.pointer import PointerArgument, Read, conflict, without_ends
from drlib.drill.actions.applications.producer_ids import ProducerIdsArgument
from drlib.drill.plan.plan import Change, Fact, Value
from drlib.drill.plan.progress import Reach
from drlib.drill.step import rto_clock as moments
from drlib.drill.step.action import Changes, DrillAction, Evidence
from drlib.drill.step.argument_types import Flag
from drlib.drill.step.cluster_identity import identity
from drlib.drill.step.flow_arguments import FlowArguments, Shared
from drlib.drill.step.step_output import ScorecardPart
from drlib.errors import DrlibError
from drlib.formats import first_few
from drlib.runs.abort import Abort
from drlib.runs.check import Check, Verdict
from drlib.runs.journal import Scalar
from drlib.runs.scorecard import Mark


class MovePointer(PointerArgument, ProducerIdsArgument, FlowArguments, DrillAction):
    """Point the applications to the target: to the remote topics up to where they end now, then to the local ones."""

    name = "pointer.move"
    shared_topics = Shared.SOME

    cutover: Flag = True
    """Whether the pointer says where each remote topic ends, so that readers finish it before the local one."""

    def observe(self) -> Sequence[Fact]:
        pointer = self.pointer.read().pointer
        return (Fact(self.pointer.entity, None if pointer is None else pointer.active), identity(self.target_cluster))

    def changes(self, observed: Sequence[Fact]) -> Changes:
        now = {fact.entity: fact.value for fact in observed}[self.pointer.entity]
        return (Change(self.pointer.entity, now, self.flow.target),) if now in (None, self.flow.source) else ()

    def settled(self, change: Change) -> Sequence[Value]:
        return (self.flow.target,)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        flow, run_dir = self.flow, self.context.run_dir
        kept, now, ids = self.pointer.kept(), self.pointer.read(), "not checked: the pointer was moved before"
        if kept is not None and now.pointer == kept.after:
            before, after = kept.before, kept.after
        elif now.pointer is not None and now.pointer.active == flow.target:
            before = after = now.pointer
        elif now.pointer is not None and now.pointer.active != flow.source and not changes:
            return self._left(now)
        else:
            if now.pointer is not None and now.pointer.active != flow.source:
                raise conflict(self.pointer, now.pointer)
            before, (after, _) = now.pointer, fitted(self._after(now.next_version))
            ids = self.refuse_collisions(flow, planned=False)
            abort.check()
        opened, closed = self._opened()
        try:
            missing = self.pointer.write(before, after, on=flow.target)
        except PointerConflict:
            found = self.pointer.read().pointer
            if found is None or found.active != flow.target:
                raise
            self.pointer.forget()  # another run was first, in this moment, with the same move
            after = found
            missing = self.pointer.write(found, found, on=flow.target)
        at_ms = moments.mark(run_dir, "act")
        moved = Mark(name="applications moved", at_ms=at_ms, detail=f"the pointer names {flow.target}")
        self.score(
            ScorecardPart(
                marks=(moved,), checks=(*self._of_another(after), *self._too_large(after), *self._open(after), *closed)
            )
        )
        ends: list[Mapping[str, Scalar]] = [
            {"topic": topic, "partition": partition, "remote topic ends at": None if end == OPEN else end}
            for topic, each in after.cutover.items()
            for partition, end in enumerate(each)
        ]
        self.show(ends)
        return {
            "active": after.active,
            "version": after.version,
            "remote_topics": len(after.cutover),
            **self._without_ends(after),
            **opened,
            "not_told": "; ".join(f"{alias}: {why}" for alias, why in missing.items()),
            "not_read": "; ".join(f"{alias}: {why}" for alias, why in now.silent.items()),
            "source": self.source_state(),
            "producer_ids": ids,
        }

    @property
    def _rules(self) -> WriteRules:
        return WriteRules(self.context.run_dir, self.target_cluster)

    def _opened(self) -> tuple[Evidence, tuple[Check, ...]]:
        """Remove the rules by which an earlier failover denied writing to the target; what cannot be holds up no emergency."""
        try:
            lifted = self._rules.lift_for(self.step)
        except DrlibError as error:
            check = Check(f"producers may write to {self.flow.target}", Verdict.CONDITIONS, f"not known: {error}")
            return {"write_rules_lifted": None}, (check,)
        return {"write_rules_lifted": lifted} if lifted else {}, ()

    def _of_another(self, after: Pointer) -> tuple[Check, ...]:
        """Whether the pointer was moved there from another source of the same target."""
        if self.pointer.moves(after):
            return ()
        why = (
            f"it was moved to {after.active} from another source, and names the mirrors {after.remote_prefix}*: who follows it "
            f"does not read those of {self.flow.source}"
        )
        return (Check("the pointer is moved", Verdict.CONDITIONS, why),)

    def _too_large(self, after: Pointer) -> tuple[Check, ...]:
        """Whether the ends were left out as the pointer would be too large with them; also where the step is continued."""
        if after.cutover or not self.cutover:
            return ()
        try:
            _, why = fitted(self._after(after.version))
        except DrlibError:  # it was moved all the same
            return ()
        return (without_ends(why),) if why else ()

    def _open(self, after: Pointer) -> tuple[Check, ...]:
        """The partitions whose ends are not known, as they have no leader; none where all are."""
        ends = after.cutover.items()
        unknown = [f"{topic}-{n}" for topic, each in ends for n, end in enumerate(each) if end == OPEN]
        if not unknown:
            return ()
        why = (
            f"not known of {first_few(unknown)}, without a leader on {after.active}: who reads in order waits there with the "
            "local partition of that number. Start the brokers that hold it, then publish the pointer with its end (cutover of "
            "drlib.publish_pointer)"
        )
        return (Check("the pointer says where remote topics end", Verdict.CONDITIONS, why),)

    def _without_ends(self, after: Pointer) -> Evidence:
        """Why the pointer does not say where topics ended; empty where it does."""
        if after.cutover or self.context.properties is None:
            return {}
        if topics_with_ends(self.context.mirror_settings(), self.flow) is not None:
            return {}
        why = f"none: one direction copies the topics under their own names, so nothing ends when {self.flow.source} is left"
        return {"cutover": why}

    def _left(self, found: Read) -> Evidence:
        """The pointer is not of this flow: its applications are left where they are."""
        assert found.pointer is not None
        left = f"it names {found.pointer.active}, which is no cluster of {self.flow}: applications that follow it stay there"
        self.score(ScorecardPart(checks=(Check("the pointer is moved", Verdict.CONDITIONS, left),)))
        return {
            "active": found.pointer.active,
            "version": found.pointer.version,
            "left": left,
            "not_read": "; ".join(f"{alias}: {why}" for alias, why in found.silent.items()),
            "source": self.source_state(),
        }

    def probe(self, changes: Changes) -> Reach:
        reach = self.pointer.reach(self.flow.target)  # partly, where it was moved: act shows what was done
        return Reach.PARTLY if reach is Reach.UNTOUCHED and self._rules.lifted(self.step) else reach

    def undo(self, changes: Changes) -> None:
        self.pointer.put_back()
        self._rules.make_again(self.step)

    def _after(self, version: int) -> Pointer:
        return moved_pointer(
            self.context.mirror_settings(), self.flow, self.target_cluster, version, cutover=self.cutover
        )
