"""Actions `source.fence` and `source.unfence`: stop every write to the source, and wait until its logs no longer grow.

Rules: a source that does not answer cannot be fenced: the evidence says so, with what to do when it comes back. Of one that
answers in part, what answers is fenced and the rest is named; neither ends a run. Partitions of a whole source that still grow
are named; groups that do not follow the pointer are named and not waited for. An undo ends the hold.
Where both directions copy the topics, the logs grow by copies, which count as no writes; nor do mirrors of a third cluster's.
Where the pointer names the flow's target already, applications that follow it write there, and there is nothing to hold: a
source that comes back after a failover is fenced so.
With `deny_write` the brokers refuse producers that do not follow the pointer: an ACL denies writing to the topics of
these patterns, once producers that follow the pointer have had `grace_s` to finish what is in flight. The rules are removed
by an undo, by `source.unfence` and by a planned move that comes back (`deny_writes`). A cluster without an authorizer is
refused, and so is a topic without an ACL, whose first one would lock out its readers and the mirror; `open_to_all`
declares that the cluster allows everything on topics without an ACL, and keeps it so except for writing.
Not for: records written on the former source since (failback).
"""

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from drlib.client.pointer import Pointer
from drlib.config.patterns.selection import matches
from drlib.drill.actions.applications.deny_rules import ANY_PRINCIPAL, WriteFence, write_fence
from drlib.drill.actions.applications.deny_writes import WriteRules, row_of, rule_of
from drlib.drill.actions.applications.pointer import PointerArgument, conflict
from drlib.drill.actions.moving.growth import Growth
from drlib.drill.actions.moving.other_copies import filled_by_others, hint
from drlib.drill.actions.parts import Parts
from drlib.drill.plan.plan import Change, Fact, Value
from drlib.drill.plan.progress import Reach
from drlib.drill.step import step_output as details
from drlib.drill.step.action import Changes, DrillAction, Evidence
from drlib.drill.step.argument_types import Flag, Patterns, Seconds, Texts
from drlib.drill.step.cluster_identity import cluster_id
from drlib.drill.step.flow_arguments import ClusterArguments, FlowArguments, ProbeDeadline, Shared, question_row
from drlib.drill.step.known_silence import ask_in_run
from drlib.errors import Deviated, DrlibError, Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import ANSWER_S
from drlib.kafka.admin.reachability import GROUPS_TOPIC, ClusterService, examine
from drlib.kafka.admin.topic_acls import topic_rules
from drlib.kafka.net.cluster_client import ClusterMetadata, TopicMetadata
from drlib.mirror.offsets.map.flow_maps import OWN_GROUPS
from drlib.model import TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.journal import Scalar
from drlib.runs.waiting import LOOK_S

BROKERS_S: Final = 3.0  # for a sign of life of each broker of a source that answers
_LEAVE_S: Final = 10.0  # for the members of a group to commit and leave
AWAY: Final = "at the target"  # the pointer names it
WRITE: Final = "write"
_PAUSE_S: Final = 0.5  # without a record: what was in flight has come, or has waited for more than a linger


class FenceSource(PointerArgument, ProbeDeadline, FlowArguments, DrillAction):
    """Hold the applications that follow the pointer, deny writing to others if asked, and wait until no log grows any more."""

    name = "source.fence"
    shared_topics = Shared.SOME

    still_s: Seconds = 1
    """How long no log may grow before the source counts as fenced."""
    deadline_s: Seconds = 60
    """How long to wait for that."""
    deny_write: Patterns = ()
    """Topics to which the brokers deny writing, by ACL."""
    deny_principals: Texts = (ANY_PRINCIPAL,)
    """Principals to which writing is denied."""
    open_to_all: Flag = False
    """Declares that the cluster allows every principal to use topics without an ACL (allow.everyone.if.no.acl.found)."""
    grace_s: Seconds = 2
    """How long producers that follow the pointer may finish what is in flight before writing is denied."""

    def check(self) -> None:
        """Raises `UsageError` for a rule that keeps out the mirror, too: it writes to topics that both directions copy."""
        super().check()
        if self.deny_write and ANY_PRINCIPAL in self.deny_principals and self.context.properties and self.both_ways:
            raise UsageError(
                f"{self.name}: writing cannot be denied to {ANY_PRINCIPAL}",
                f"{self.flow.reverse} copies to the same topics on {self.flow.source}, and would be denied it, too",
                "Name the principals of producers in deny_principals, and not the mirror's.",
            )

    @property
    def rules(self) -> WriteRules:
        return WriteRules(self.context.run_dir, self.source_cluster)

    @property
    def entity(self) -> str:
        return f"producers that follow the pointer at {self.flow.source}"

    def observe(self) -> Sequence[Fact]:
        pointer = self.pointer.read().pointer
        at = self.flow.source if pointer is None else pointer.active
        elsewhere = {self.flow.source: "", self.flow.target: AWAY}.get(at, f"at {at}")
        held = pointer is not None and _for_good(pointer) and pointer.active == self.flow.source
        rights = (Fact(self._rights, "as they are"),) if self.deny_write else ()
        return (Fact(self.entity, elsewhere or ("held" if held else WRITE)), *rights)

    @property
    def _rights(self) -> str:
        return f"rights to write to {', '.join(self.deny_write)} on {self.flow.source}"

    def changes(self, observed: Sequence[Fact]) -> Changes:
        """Raises `NoAuthorizer` where the cluster has no authorizer, `UsageError` for topics that have no rule yet."""
        wanted = {self.entity: "held"}
        if self.deny_write:
            wanted[self._rights] = f"denied to {', '.join(self.deny_principals)}"
            answer = ask_in_run(self.context, [self.source_cluster])[self.flow.source]
            if isinstance(answer, ClusterMetadata):
                with contextlib.suppress(Unreachable):  # the step itself says what it could not deny
                    self._fence(answer)
        return tuple(
            Change(fact.entity, fact.value, wanted[fact.entity])
            for fact in observed
            if fact.entity == self._rights or fact.value == WRITE
        )

    def settled(self, change: Change) -> Sequence[Value]:
        return (AWAY,) if change.entity == self.entity else ()

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        source, found = self.flow.source, self.pointer.read()
        now = found.pointer
        planned = any(change.entity == self.entity for change in changes)
        if planned and now is not None and now.active not in (source, self.flow.target):
            raise conflict(self.pointer, now)
        if now is not None and now.active == source and not _for_good(now):
            self.pointer.write(now, replace(now, version=found.next_version, hold=True, hold_limit_s=0.0))
        held = (
            "there is no pointer, so no application was held"
            if now is None
            else "held"
            if now.active == source
            else f"those that follow the pointer are at {now.active}"
        )
        end = time.monotonic() + self.probe_s
        answer: ClusterMetadata | ClusterService | Unreachable
        answer = ask_in_run(self.context, [self.source_cluster], min(ANSWER_S, self.probe_s))[source]
        if isinstance(answer, ClusterMetadata):
            answer = examine([self.source_cluster], {}, max(1.0, min(BROKERS_S, end - time.monotonic())))[source]
        if isinstance(answer, ClusterService) and self._answers_whole(answer):
            try:
                return self._fence_whole(answer.metadata, held, abort)
            except Unreachable:  # it has stopped answering since, or a part of it has
                answer = examine([self.source_cluster], {}, BROKERS_S)[source]
                end = time.monotonic() + self.probe_s
        if isinstance(answer, Unreachable):
            self.show(
                [question_row("fenced", f"no: {source} does not answer"), question_row("when it returns", self._todo)]
            )
            return {
                "fenced": False,
                "producers": held,
                "source": f"no answer: {answer.why}",
                "when_it_returns": self._todo,
            }
        return {"producers": held, **self._fence_in_part(answer, end, abort)}

    def _answers_whole(self, service: ClusterService) -> bool:
        return not service.not_led(self._mirrored(service.metadata)) and not service.coordinators_missing[0]

    def _fence_whole(self, metadata: ClusterMetadata, held: str, abort: Abort) -> Evidence:
        """Raises `Unreachable` where it has stopped answering since."""
        if self.deny_write:
            self._finish_in_flight(metadata, abort)
            self._deny(metadata)
        ends = self._until_still(metadata, abort)
        busy = self._until_left(abort)
        rows: list[Mapping[str, Scalar]] = [
            {"topic": p.topic, "partition": p.partition, "ends at": end} for p, end in sorted(ends.items())
        ]
        self.show(rows)
        return {
            "fenced": True,
            "producers": held,
            "still_s": self.still_s,
            "partitions": len(ends),
            "groups_still_in_use": ", ".join(busy),
            "source": "it answers",
            **({"write_rules": len(self.rules.kept())} if self.deny_write else {}),
        }

    @property
    def _todo(self) -> str:
        source = self.flow.source
        return f"Keep producers away from {source}, keep the pointer; return by drlib failback, with what only {source} has."

    def _fence_in_part(self, service: ClusterService, end: float, abort: Abort) -> Evidence:
        """Fence what answers, until `end` at the latest, and say what is not fenced: the rest cannot be asked."""
        topics = self._mirrored(service.metadata)
        silent = set(service.not_led(topics))
        led = [partition for partition in self._partitions(service.metadata) if partition not in silent]
        undetermined = [f"writes to {len(silent)} partitions whose leader does not answer"] if silent else []
        if self.deny_write:
            try:
                self._deny(service.metadata)
            except DrlibError as error:
                undetermined.append(f"writing is not denied ({error.why})")
        ends: dict[TopicPartition, int] = {}
        growing: set[TopicPartition] = set()
        try:
            with Cluster(self.source_cluster, timeout_s=max(1.0, end - time.monotonic())) as cluster:
                ends, since = cluster.log_ends(led), time.monotonic()
                growing = set(led)
                while led and time.monotonic() - since < self.still_s and time.monotonic() < end:
                    abort.wait(LOOK_S)
                    now = cluster.log_ends(led)
                    growing = {partition for partition in led if now[partition] != ends[partition]}
                    if growing:
                        ends, since = now, time.monotonic()
        except DrlibError as error:
            growing = set()
            undetermined.append(f"writes to {len(led)} partitions ({error.why})")
        missing, coordinators = service.coordinators_missing
        if missing:
            undetermined.append(f"members of the groups in {missing} of {coordinators} partitions of {GROUPS_TOPIC}")
        rows: list[Mapping[str, Scalar]] = [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "fenced": "not determined"
                if partition not in ends
                else "no: still written to"
                if partition in growing
                else "yes",
                "ends at": ends.get(partition),
            }
            for partition in sorted({*led, *silent})
        ]
        self.show(rows)
        return {
            "fenced": not growing and not undetermined,
            "partitions": len(ends) - len(growing),
            "still_written": ", ".join(str(partition) for partition in sorted(growing)),
            "not_determined": "; ".join(undetermined),
            "source": f"answers in part: {service.answering} of {len(service.metadata.brokers)} brokers",
            "when_it_returns": self._todo,
        }

    def probe(self, changes: Changes) -> Reach:
        reach = self.pointer.reach(self.flow.target)  # partly, where it holds: held is not yet still, and act waits
        return Reach.PARTLY if reach is Reach.UNTOUCHED and self.rules.kept() else reach

    def undo(self, changes: Changes) -> None:
        """Raises `Unreachable` where rules have to go and the source does not answer; applications continue all the same."""
        parts = Parts()
        with parts.each("rules that deny writing"):
            self.rules.lift_own()  # first: a producer that continues writes at once
        with parts.each(self.pointer.entity):
            self.pointer.put_back()
        parts.raise_failed()

    def cluster_id(self) -> str:
        return cluster_id(self.source_cluster)

    def _mirrored(self, metadata: ClusterMetadata) -> Mapping[str, TopicMetadata]:
        flow = self.flow
        chosen = self.context.mirror_settings().flow(flow.source, flow.target)
        return {
            name: topic
            for name, topic in metadata.topics.items()
            if chosen.mirrors_topic(name) and not chosen.policy.is_heartbeats(name)
        }

    def _partitions(self, metadata: ClusterMetadata) -> list[TopicPartition]:
        """Those that applications may write to: what a third cluster fills grows on."""
        topics = self._mirrored(metadata)
        filled = filled_by_others(self.context.mirror_settings(), self.flow, topics)
        return [
            TopicPartition(name, n) for name, topic in topics.items() if name not in filled for n in topic.partitions
        ]

    def _fence(self, metadata: ClusterMetadata) -> WriteFence:
        """The rules to make. Raises `UsageError` for topics that have none yet, and where no topic is meant."""
        alias = self.flow.source
        topics = [name for name in self._mirrored(metadata) if matches(self.deny_write, name)]
        if not topics:
            raise UsageError(
                f"{self.name}: deny_write",
                f"no topic of {alias} that is mirrored matches {', '.join(self.deny_write)}",
                "Correct the patterns.",
            )
        fence = write_fence(
            topics, self.deny_principals, topic_rules(self.source_cluster), open_to_all=self.open_to_all
        )
        if fence.bare:
            raise UsageError(
                f"writing to {', '.join(fence.bare[:5])} on {alias} cannot be denied alone",
                f"{len(fence.bare)} topics have no ACL, and a topic's first ACL denies every principal without one, "
                "readers and the mirror included",
                "Allow their readers first (kafka-acls.sh --add), or set open_to_all: true if every principal may use "
                "topics without an ACL (allow.everyone.if.no.acl.found).",
            )
        return fence

    def _deny(self, metadata: ClusterMetadata) -> None:
        """Make the rules; resumed after a kill, those that were decided then."""
        kept = self.rules.kept()
        self.rules.make(kept or self._fence(metadata).make)

    def _finish_in_flight(self, metadata: ClusterMetadata, abort: Abort) -> None:
        """Wait until no log grew for a moment, at most `grace_s`: producers that follow the pointer are not refused."""
        partitions = self._partitions(metadata)
        give_up = time.monotonic() + self.grace_s
        with Cluster(self.source_cluster) as cluster:
            ends, since = cluster.log_ends(partitions), time.monotonic()
            while time.monotonic() < give_up and time.monotonic() - since < _PAUSE_S:
                abort.wait(LOOK_S)
                now = cluster.log_ends(partitions)
                if now != ends:
                    ends, since = now, time.monotonic()

    def _until_still(self, metadata: ClusterMetadata, abort: Abort) -> Mapping[TopicPartition, int]:
        """Raises `Deviated` naming who still writes."""
        flow, partitions, settings = self.flow, self._partitions(metadata), self.context.mirror_settings()
        growth = Growth(replace(settings, clusters=dict(self.context.clusters)), flow)
        give_up = time.monotonic() + self.deadline_s
        with Cluster(self.source_cluster) as cluster:
            ends, since = cluster.log_ends(partitions), time.monotonic()
            while time.monotonic() - since < self.still_s:
                abort.wait(LOOK_S)
                now = cluster.log_ends(partitions)
                growing, ends = growth.grown(ends, now), now
                if growing:
                    since = time.monotonic()
                if growing and time.monotonic() > give_up:
                    raise Deviated(
                        f"producers still write to {flow.source}",
                        f"after {self.deadline_s:g} s records were still appended to {', '.join(map(str, growing[:5]))}",
                        f"Stop the producers that do not follow the pointer.{hint(settings, flow, growing)}",
                    )
        return ends

    def _until_left(self, abort: Abort) -> Sequence[str]:
        """Consumers that are held commit and leave; those groups that do not follow the pointer are named, not waited for."""
        flow = self.flow
        chosen = self.context.mirror_settings().flow(flow.source, flow.target)
        end = time.monotonic() + _LEAVE_S
        with Cluster(self.source_cluster) as cluster:
            while True:
                in_use = [each.group for each in cluster.groups() if each.state not in ("EMPTY", "DEAD")]
                busy = [group for group in in_use if chosen.mirrors_group(group) and not group.startswith(OWN_GROUPS)]
                if not busy or time.monotonic() > end:
                    return busy
                abort.wait(LOOK_S)


def _for_good(pointer: Pointer) -> bool:
    """Does it hold without a limit? The hold of a planned move whose process died expires."""
    return pointer.hold and not pointer.hold_limit_s


class UnfenceSource(ClusterArguments, DrillAction):
    """Remove the rules by which this run and those beside it denied writing to a cluster. An undo makes them again."""

    name = "source.unfence"
    shared_topics = Shared.SOME

    @property
    def rules(self) -> WriteRules:
        return WriteRules(self.context.run_dir, self.settings)

    @property
    def _lifted(self) -> str:
        return f"{self.step}.lifted"

    @property
    def entity(self) -> str:
        return f"rules of drills that deny writing to {self.alias}"

    def observe(self) -> Sequence[Fact]:
        return (Fact(self.entity, len(self.rules.standing())),)

    def changes(self, observed: Sequence[Fact]) -> Changes:
        return tuple(Change(fact.entity, fact.value, 0) for fact in observed if fact.value)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        abort.check()
        run_dir = self.context.run_dir
        if not details.read_rows(run_dir, self._lifted):
            details.write_rows(run_dir, self._lifted, [row_of(rule) for rule in self.rules.standing()])
        return {"cluster": self.alias, "write_rules_lifted": self.rules.lift()}

    def probe(self, changes: Changes) -> Reach:
        begun = bool(details.read_rows(self.context.run_dir, self._lifted))
        return Reach.PARTLY if begun else Reach.UNTOUCHED  # act takes away what is left

    def undo(self, changes: Changes) -> None:
        rows = details.read_rows(self.context.run_dir, self._lifted)
        if rows:
            self.rules.make([rule_of(row) for row in rows])
            details.write_rows(self.context.run_dir, self._lifted, [])

    def cluster_id(self) -> str:
        return cluster_id(self.context.cluster(self.alias))
