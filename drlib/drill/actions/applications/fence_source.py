"""Step `source.fence`: nobody who follows the pointer writes to the source any more, and its logs stand still.

Rules: a source that does not answer cannot be fenced: that is told, with what to do when it comes back. Who still writes
is named; groups that do not follow the pointer are named and not waited for. An undo lets everybody go on.
With `deny_write` those who do not follow the pointer are kept out by the brokers: a rule of the authorizer denies writing to
the topics of these patterns, once those who do follow it have had `grace_s` to finish what is in flight. The rules go with an
undo, with `source.unfence` and with a planned move that comes back (`write_rules`). A cluster without an authorizer is refused,
and so is a topic whose first rule it would be, for that would lock out its readers and the mirror; `open_to_all` says that
the cluster lets everybody in where there is no rule, and keeps it so but for writing.
Arguments: still_s, deadline_s, application, deny_write (patterns), deny_principals (User:*), open_to_all, grace_s ·
`source.unfence` cluster.
Not for: what was written on the former source since (failback).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from drlib.client.pointer import Pointer
from drlib.client.pointer_topic import EVERYONE
from drlib.config.patterns.selection import matches, validate
from drlib.drill.actions.applications.deny_rules import EVERYBODY, WriteFence, write_fence
from drlib.drill.actions.applications.deny_writes import WriteRules, row_of, rule_of
from drlib.drill.actions.applications.pointer import PointerPlace, conflict
from drlib.drill.plan.plan import Change, Fact
from drlib.drill.plan.progress import Reach
from drlib.drill.step import step_output as details
from drlib.drill.step.action import Changes, Evidence
from drlib.drill.step.arguments import flag, number, texts, word
from drlib.drill.step.cluster_identity import cluster_id
from drlib.drill.step.move_step import MovingStep, answer
from drlib.errors import Deviated, Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.reachability import who_answers
from drlib.kafka.admin.topic_acls import topic_rules
from drlib.kafka.net.cluster_client import ClusterMetadata, TopicMetadata
from drlib.model import TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.journal import Scalar
from drlib.runs.waiting import LOOK_S

_LEAVE_S: Final = 10.0  # for the members of a group to commit and leave
_PAUSE_S: Final = 0.5  # without a record: what was in flight has come, or has waited for more than a linger


class FenceSource:
    """Whoever follows the pointer finishes what is in flight: producers wait, consumers leave; then logs have to stand still.

    A source that does not answer cannot be fenced: that is told, with what to do when it comes back.
    """

    def __init__(self, step: MovingStep) -> None:
        self.step = step
        self.still_s = number(step.call, "still_s", 1)
        self.deadline_s = number(step.call, "deadline_s", 60)
        self.pointer = PointerPlace(step.place, step.call.step, word(step.call, "application", EVERYONE))
        self.denied = texts(step.call, "deny_write", ())
        self.principals = texts(step.call, "deny_principals", (EVERYBODY,))
        self.open_to_all = flag(step.call, "open_to_all", False)
        self.grace_s = number(step.call, "grace_s", 2)
        validate(self.denied)

    @property
    def rules(self) -> WriteRules:
        return WriteRules(self.step.place.run_dir, self.step.source)

    @property
    def entity(self) -> str:
        return f"producers that follow the pointer at {self.step.flow.source}"

    def observe(self) -> Sequence[Fact]:
        found = self.pointer.read().pointer
        held = found is not None and _for_good(found) and found.active == self.step.flow.source
        rights = (Fact(self._rights, "as they are"),) if self.denied else ()
        return (Fact(self.entity, "held" if held else "write"), *rights)

    @property
    def _rights(self) -> str:
        return f"rights to write to {', '.join(self.denied)} on {self.step.flow.source}"

    def changes(self, observed: Sequence[Fact]) -> Changes:
        """Raises `NoAuthorizer` where nobody can be denied anything, `UsageError` for topics that have no rule yet."""
        wanted = {self.entity: "held"}
        if self.denied:
            wanted[self._rights] = f"denied to {', '.join(self.principals)}"
            found = who_answers([self.step.source])[self.step.flow.source]
            if isinstance(found, ClusterMetadata):
                self._fence(found)
        return tuple(
            Change(fact.entity, fact.value, wanted[fact.entity])
            for fact in observed
            if fact.value != wanted[fact.entity]
        )

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        source, now = self.step.flow.source, self.pointer.read().pointer
        if now is not None and now.active != source:
            raise conflict(self.pointer, now)
        if now is not None and not _for_good(now):
            self.pointer.write(now, replace(now, version=now.version + 1, hold=True, hold_limit_s=0.0))
        held = "held" if now is not None else "there is no pointer, so nobody was told to stop"
        found = who_answers([self.step.source])[source]
        if isinstance(found, Unreachable):
            todo = f"When {source} is back: it must not be written to. See its tail first (failback), and keep the pointer."
            self.step.show([answer("fenced", f"no: {source} does not answer"), answer("when it returns", todo)])
            return {"fenced": False, "producers": held, "source": f"no answer: {found.why}", "when_it_returns": todo}
        if self.denied:
            self._finish_in_flight(found, abort)
            self._deny(found)
        ends = self._until_still(found, abort)
        busy = self._until_left(abort)
        rows: list[Mapping[str, Scalar]] = [
            {"topic": p.topic, "partition": p.partition, "ends at": end} for p, end in sorted(ends.items())
        ]
        self.step.show(rows)
        return {
            "fenced": True,
            "producers": held,
            "still_s": self.still_s,
            "partitions": len(ends),
            "groups_still_in_use": ", ".join(busy),
            "source": "it answers",
            **({"write_rules": len(self.rules.kept())} if self.denied else {}),
        }

    def probe(self, changes: Changes) -> Reach:
        kept, now = self.pointer.kept(), self.pointer.read().pointer
        denied = bool(self.rules.kept())
        if kept is None or now == kept.before:
            return Reach.PARTLY if denied else Reach.UNTOUCHED
        return Reach.PARTLY if now == kept.after else Reach.UNKNOWN  # held is not yet still: act waits

    def undo(self, changes: Changes) -> None:
        """Raises `Unreachable` where rules have to go and the source does not answer."""
        self.rules.lift_own()  # first: whoever goes on writes at once
        self.pointer.put_back()

    def cluster_id(self) -> str:
        return cluster_id(self.step.source)

    def _mirrored(self, found: ClusterMetadata) -> Mapping[str, TopicMetadata]:
        flow = self.step.flow
        chosen = self.step.place.mirror_settings().flow(flow.source, flow.target)
        return {
            name: topic
            for name, topic in found.topics.items()
            if chosen.mirrors_topic(name) and not chosen.policy.is_heartbeats(name)
        }

    def _partitions(self, found: ClusterMetadata) -> list[TopicPartition]:
        return [TopicPartition(name, n) for name, topic in self._mirrored(found).items() for n in topic.partitions]

    def _fence(self, found: ClusterMetadata) -> WriteFence:
        """The rules to make. Raises `UsageError` for topics that have none yet, and where no topic is meant."""
        alias = self.step.flow.source
        topics = [name for name in self._mirrored(found) if matches(self.denied, name)]
        if not topics:
            raise UsageError(
                f"{self.step.call.name}: deny_write",
                f"no topic of {alias} that is mirrored matches {', '.join(self.denied)}",
                "Correct the patterns.",
            )
        fence = write_fence(topics, self.principals, topic_rules(self.step.source), open_to_all=self.open_to_all)
        if fence.bare:
            raise UsageError(
                f"writing to {', '.join(fence.bare[:5])} on {alias} cannot be denied alone",
                f"{len(fence.bare)} topics have no ACL rule so far, and the first one of a topic locks out whoever has none, "
                "readers and the mirror included",
                "Allow their readers first (kafka-acls.sh --add), or say open_to_all: true where everybody may do everything "
                "to topics without rules (allow.everyone.if.no.acl.found).",
            )
        return fence

    def _deny(self, found: ClusterMetadata) -> None:
        """Taken up after a kill, what was decided is made, and nothing is decided anew."""
        kept = self.rules.kept()
        self.rules.make(kept or self._fence(found).make)

    def _finish_in_flight(self, found: ClusterMetadata, abort: Abort) -> None:
        """Until nothing was written for a moment, or `grace_s` are over: a producer that follows the pointer is not refused."""
        partitions = self._partitions(found)
        give_up = time.monotonic() + self.grace_s
        with Cluster(self.step.source) as cluster:
            ends, since = cluster.log_ends(partitions), time.monotonic()
            while time.monotonic() < give_up and time.monotonic() - since < _PAUSE_S:
                abort.wait(LOOK_S)
                now = cluster.log_ends(partitions)
                if now != ends:
                    ends, since = now, time.monotonic()

    def _until_still(self, found: ClusterMetadata, abort: Abort) -> Mapping[TopicPartition, int]:
        """Raises `Deviated` naming who still writes."""
        flow, partitions = self.step.flow, self._partitions(found)
        give_up = time.monotonic() + self.deadline_s
        with Cluster(self.step.source) as cluster:
            ends, since = cluster.log_ends(partitions), time.monotonic()
            while time.monotonic() - since < self.still_s:
                abort.wait(LOOK_S)
                now = cluster.log_ends(partitions)
                grown = sorted(str(p) for p in now if now[p] != ends[p])
                if grown:
                    ends, since = now, time.monotonic()
                if grown and time.monotonic() > give_up:
                    raise Deviated(
                        f"{flow.source} is still written to",
                        f"after {self.deadline_s:g} s records still came to {', '.join(grown[:5])}",
                        "Stop the producers that do not follow the pointer, then resume.",
                    )
        return ends

    def _until_left(self, abort: Abort) -> Sequence[str]:
        """Consumers that are held commit and leave; those groups that do not follow the pointer are named, not waited for."""
        flow = self.step.flow
        chosen = self.step.place.mirror_settings().flow(flow.source, flow.target)
        end = time.monotonic() + _LEAVE_S
        with Cluster(self.step.source) as cluster:
            while True:
                listed = [g for g in cluster.groups() if chosen.mirrors_group(g.group)]
                busy = [listing.group for listing in listed if listing.state not in ("EMPTY", "DEAD")]
                if not busy or time.monotonic() > end:
                    return busy
                abort.wait(LOOK_S)


def _for_good(pointer: Pointer) -> bool:
    """Does it hold until somebody says otherwise? What a planned move that died left behind runs out."""
    return pointer.hold and not pointer.hold_limit_s


class Unfence:
    """Takes away the rules by which this run and those beside it denied writing to a cluster. An undo makes them again."""

    def __init__(self, step: MovingStep) -> None:
        self.step = step
        self.alias = word(step.call, "cluster", step.flow.source)
        self.rules = WriteRules(step.place.run_dir, step.place.cluster(self.alias))
        self._lifted = f"{step.call.step}.lifted"

    @property
    def entity(self) -> str:
        return f"rules of drills that deny writing to {self.alias}"

    def observe(self) -> Sequence[Fact]:
        return (Fact(self.entity, len(self.rules.standing())),)

    def changes(self, observed: Sequence[Fact]) -> Changes:
        return tuple(Change(fact.entity, fact.value, 0) for fact in observed if fact.value)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        abort.check()
        run_dir = self.step.place.run_dir
        if not details.read_rows(run_dir, self._lifted):
            details.write_rows(run_dir, self._lifted, [row_of(rule) for rule in self.rules.standing()])
        return {"cluster": self.alias, "write_rules_lifted": self.rules.lift()}

    def probe(self, changes: Changes) -> Reach:
        begun = bool(details.read_rows(self.step.place.run_dir, self._lifted))
        return Reach.PARTLY if begun else Reach.UNTOUCHED  # act takes away what is left

    def undo(self, changes: Changes) -> None:
        rows = details.read_rows(self.step.place.run_dir, self._lifted)
        if rows:
            self.rules.make([rule_of(row) for row in rows])
            details.write_rows(self.step.place.run_dir, self._lifted, [])

    def cluster_id(self) -> str:
        return cluster_id(self.step.place.cluster(self.alias))
