"""A planned move of the applications between two clusters that both serve: nothing lost, nothing read twice, traffic held
for a moment only.

Rules:
- First, while the applications run, everything that takes time: sessions of members of before the new cluster failed end, the
  mirror catches up, every group's positions are translated (`precompute`), and producer IDs compared. Then the pointer holds
  the applications: producers finish what is in flight, consumers commit and leave their groups.
- Positions are final when no log grows, the mirror has all records, and every group is empty or has read everything. They
  are read again, changed ones are translated again, all are committed, and the pointer moves. If a log has grown meanwhile (a
  slow producer had records left), the wait for still logs starts over.
- Where that takes longer than `held_s` seconds, or a position would not be exact, the pointer lets the applications continue
  where they were, and the step fails with the reason.
- Where both directions copy the topics, the logs grow by copies too, and only what the source's own clients write counts
  (`Growth`); both flows run on, before and after.
- A hold ends by itself `hold_limit_s` seconds (60) after an application saw it, so that a drill that died holds no
  application. The pointer is moved in the first half of that time or not at all. Records that producers without support for
  the hold write to the source afterwards are counted once the applications have moved: that is the RPO.
- A step resumed after a kill begins at the hold again; the pointer shows its progress. ACLs by which an earlier failover
  denied writing to the new cluster are removed before the move (`deny_writes`). After the move the only undo is a move back.
- `stopped_seconds` is from the hold to the first record on the other cluster; None without one within 10 s. More than
  `stopped_s` (2) fails the drill, but not the step, because the applications have moved. Where nothing was written before the
  hold either, as where producers were stopped by hand, there is no pause to check. Groups with members then are kept, as
  their members are to appear on the other cluster.
Longer than most modules: one sequence from the hold to the move, and what undoes each part of it.
"""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final, Self

from pydantic import model_validator

from drlib import clock
from drlib.client.pointer import Pointer
from drlib.config.settings import MirrorSettings
from drlib.drill.actions.applications.deny_writes import WriteRules
from drlib.drill.actions.applications.pointer import PointerArgument, conflict
from drlib.drill.actions.applications.producer_ids import ProducerIdsArgument
from drlib.drill.actions.failback.actions import (
    MoveArguments,
    evidence,
    position_rows,
    refuse_blocked,
    refuse_inexact,
    wait_both_caught_up,
)
from drlib.drill.actions.groups import commit as group_writing
from drlib.drill.actions.groups import decided
from drlib.drill.actions.groups.rules import decide_all
from drlib.drill.actions.groups.unread_records import UnreadRecords
from drlib.drill.actions.moving import still_ends
from drlib.drill.actions.moving.growth import Growth
from drlib.drill.actions.moving.positions import positions_of
from drlib.drill.plan.plan import Change, Fact
from drlib.drill.plan.progress import Reach
from drlib.drill.step.action import Changes, DrillAction, Evidence
from drlib.drill.step.argument_types import Flag, Seconds, Texts
from drlib.drill.step.step_output import ScorecardPart
from drlib.errors import Deviated, DrlibError, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset, GroupState
from drlib.kafka.admin.group_offsets import Positions
from drlib.lab.workload.applications import LabApplications
from drlib.mirror.offsets.translation.two_way import group_positions, groups_of
from drlib.mirror.offsets.unreplicated.lag import ReplicationLag, mirrored_topics, replication_lag
from drlib.model import Flow, TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import Mark

_LOOK_S: Final = 0.02
_SESSIONS_S: Final = 60.0  # of consumers: 45 s by default
_NEAR: Final = 20_000  # offsets the mirror may be behind when the hold begins: less than a second's work
_FIRST_S: Final = 10.0
_SURE: Final = 0.5  # of the limit: until then no application has continued, and the move still has to reach them


@dataclass(frozen=True)
class _Still:
    """What was observed once all applications were held."""

    found: ReplicationLag
    held_s: float


class MoveApplications(PointerArgument, ProducerIdsArgument, MoveArguments, DrillAction):
    """Move the applications that follow the pointer to the other cluster: hold them, wait until nothing is in flight, move."""

    name = "switchover.move"

    groups: Texts = ()
    """Whose positions are moved; by default every group that the flow mirrors."""
    inexact: Flag = False
    """Whether positions that are not exact may be committed: records are read again."""
    rewind: Flag = False
    """Whether a group that is further ahead on the target may be set back: records are read again."""
    held_s: Seconds = 10.0
    """How long to wait, with the applications held, until everything stands still; at most half of `hold_limit_s`."""
    hold_limit_s: Seconds = 60.0
    """After how long a held application continues by itself if it was not moved; 0: never."""
    quiet_s: Seconds = 0.25
    """How long no log may grow before everything counts as standing still."""
    within_s: Seconds = 120
    """How long to wait, before the hold begins, for a mirror that copies nothing."""
    stopped_s: Seconds = 2.0
    """Objective: how long the applications may stand still. A longer time fails the drill, though not the step."""

    @model_validator(mode="after")
    def _holds_long_enough(self) -> Self:
        """Raises `UsageError` for a hold that could run out while it is still waited for."""
        if self.hold_limit_s and self.held_s > self.hold_limit_s * _SURE:
            raise UsageError(
                f"{self.name}: held_s",
                f"{self.held_s:g} s of waiting are more than half of the {self.hold_limit_s:g} s after which "
                "a hold ends by itself",
                f"Give held_s of at most {self.hold_limit_s * _SURE:g}, or a longer hold_limit_s.",
            )
        return self

    @property
    def entity(self) -> str:
        return self.pointer.entity

    def observe(self) -> Sequence[Fact]:
        pointer = self.pointer.read().pointer
        return (Fact(self.entity, None if pointer is None else pointer.active),)

    def changes(self, observed: Sequence[Fact]) -> Changes:
        """Nothing where they are there already. Raises `UsageError` where they are on neither of the two clusters."""
        now = {fact.entity: fact.value for fact in observed}[self.entity]
        moving = self.flow
        if now not in (None, moving.source, moving.target):
            raise UsageError(
                f"applications cannot move from {moving.source} to {moving.target}",
                f"the pointer names {now}",
                "Set source to the cluster that they use.",
            )
        return () if now == moving.target else (Change(self.entity, now, moving.target),)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        moving, now = self.flow, self._pointer()
        if now.active == moving.target:
            self.pointer.write(now, now, moving.target)
            return {"stopped_seconds": None, "moved_before": True, **self._counted_again()}
        if now.active != moving.source:
            raise conflict(self.pointer, now)
        settings, limit_s = self.settings, self.hold_limit_s
        target = settings.clusters[moving.target]
        written: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        with Cluster(settings.clusters[moving.source]) as source_admin, Cluster(target) as target_admin:
            topics = mirrored_topics(source_admin, settings.flow(moving.source, moving.target))
            every = [TopicPartition(name, n) for name, count in topics.items() for n in range(count)]
            first_ends = source_admin.log_ends(every)
            groups = groups_of(settings, moving, self.groups or None)
            members_s = group_writing.wait_free(target, groups, abort, _SESSIONS_S)
            waited = wait_both_caught_up(settings, moving, abort, _NEAR, self.within_s)
            previous = group_writing.committed_positions(target, groups)
            positions = positions_of(settings, moving, group_positions(settings, moving.source, groups), previous)
            growth = Growth(settings, moving)
            local = _local(target_admin, topics)
            written_to = source_admin.log_ends(every) != first_ends
            ids = self.refuse_collisions(moving, planned=True)
            decided.keep_in_use(self.context.run_dir, moving.target, source_admin.group_states(groups))
            before = self._pointer()
            began, began_ms = time.monotonic(), clock.now_ms()
            try:
                held = self._write(before, hold=True, limit_s=limit_s, on=moving.target)
                while True:
                    still = self._stand_still(
                        settings, source_admin, every, growth, positions.mirrors, groups, held, began, abort
                    )
                    source_positions, target_positions = self._positions(settings, groups)
                    translations = positions.translate(source_admin, still.found.maps, source_positions)
                    if not self.inexact:
                        refuse_inexact(translations, moving, bounded=positions.bounded)
                    bounds = group_writing.log_bounds(target, (item.target for item in translations))
                    moves = decide_all(translations, bounds, target_positions, rewind=self.rewind, ours=written)
                    refuse_blocked(moves, moving, inexact=self.inexact)
                    group_writing.write(target, moves, target_positions)
                    for move in moves:
                        if move.offset is not None:
                            offset = CommittedOffset(move.offset, move.metadata)
                            written.setdefault(move.group, {})[move.target] = offset
                    cutover = _cutover(settings, moving, target_admin, topics)
                    ends = target_admin.log_ends(local)
                    self._refuse_late(began, limit_s)
                    lifted = WriteRules(self.context.run_dir, settings.clusters[moving.target]).lift()
                    if not growth.written(still.found.ends, source_admin.log_ends(every)):
                        break
            except BaseException:
                self._write(before, hold=False)
                raise
            decided.write(self.context.run_dir, moving.target, moves)
            still_ends.keep(self.context.run_dir, self.step, still.found.ends)
            self._move(settings, moving, cutover)
            moved_s = time.monotonic() - began
            first_s = _first(target_admin, ends, began, abort)
            behind_us = growth.written_since(source_admin, still.found.ends)
        self.show(position_rows(moves, moving))
        self._keep(began_ms, moved_s, first_s, written_to=written_to)
        return {
            "stopped_seconds": None if first_s is None else round(first_s, 3),
            "held_seconds": round(still.held_s, 3),
            "moved_after_seconds": round(moved_s, 3),
            "waited_for_the_mirror_seconds": waited["waited_seconds"],
            **({} if first_s is None else {"rto_seconds": round(first_s, 3)}),
            "hold_limit_seconds": limit_s,
            "rpo_records": behind_us,
            "rpo_seconds": 0.0 if behind_us == 0 else None,
            "producer_ids": ids,
            **evidence(moves),
            **({"write_rules_lifted": lifted} if lifted else {}),
            **({"held_by_an_earlier_try": True} if before.hold else {}),
            **({"waited_for_old_members_seconds": round(members_s, 1)} if members_s > 1 else {}),
        }

    def probe(self, changes: Changes) -> Reach:
        now = self._pointer()
        if now.active == self.flow.target:  # act counts what was written behind the logs' ends
            return Reach.PARTLY if still_ends.read(self.context.run_dir, self.step) else Reach.DONE
        return Reach.PARTLY if now.hold else Reach.UNTOUCHED

    def undo(self, changes: Changes) -> None:
        """Let the applications continue where they are held. Raises `Deviated` once they have moved."""
        now = self._pointer()
        if now.active == self.flow.target and self.pointer.kept() is not None:
            raise Deviated(
                f"the applications stay at {now.active}",
                "they already read and write there",
                f"Move them back by a planned switchover from {now.active} to {self.flow.source}.",
            )
        if now.hold:
            self._write(now, hold=False)

    def _counted_again(self) -> Evidence:
        """The RPO, where the process that moved the pointer was killed before it counted."""
        if not (ends := still_ends.read(self.context.run_dir, self.step)):
            return {}
        with Cluster(self.settings.clusters[self.flow.source]) as source:
            behind = Growth(self.settings, self.flow).written_since(source, ends)
        return {"rpo_records": behind, "rpo_seconds": 0.0 if behind == 0 else None}

    def _pointer(self) -> Pointer:
        """Raises `UsageError` where there is none, so that no application would be held."""
        pointer = self.pointer.read().pointer
        if pointer is None:
            raise UsageError(
                self.name,
                "there is no pointer that applications follow",
                "Publish one that names the cluster they use: drlib.publish_pointer.",
            )
        return pointer

    def _write(self, was: Pointer, *, hold: bool, limit_s: float = 0.0, on: str | None = None) -> int:
        """The cluster `was` names, held or not, under the next version, which is returned; `on` has to get it."""
        now = self._pointer()
        self.pointer.write(now, replace(was, version=now.version + 1, hold=hold, hold_limit_s=limit_s), on)
        return now.version + 1

    def _positions(
        self, settings: MirrorSettings, groups: Sequence[str]
    ) -> tuple[dict[str, Positions], dict[str, Positions]]:
        """The groups' committed offsets on both clusters, read at the same time."""
        moving = self.flow
        with ThreadPoolExecutor(1) as pool:
            on_target = pool.submit(group_writing.committed_positions, settings.clusters[moving.target], groups)
            return group_positions(settings, moving.source, groups), on_target.result()

    def _refuse_late(self, began: float, limit_s: float) -> None:
        """Raises `Deviated` where an application might continue at the source before the pointer has moved."""
        held_s = time.monotonic() - began
        if limit_s and held_s > limit_s * _SURE:
            raise Deviated(
                f"the applications stay at {self.flow.source}",
                f"it took {held_s:.1f} s until everything was ready, and after {limit_s:g} s they continue by themselves",
                "Give a longer hold_limit_s, or fewer groups at a time.",
            )

    def _move(self, settings: MirrorSettings, moving: Flow, cutover: Mapping[str, tuple[int, ...]]) -> None:
        servers = ",".join(settings.clusters[moving.target].bootstrap_servers)
        prefix = settings.flow(moving.source, moving.target).policy.remote_topic(moving.source, "")
        now, ends = self._pointer(), dict(cutover)
        self.pointer.write(now, Pointer(now.version + 1, moving.target, servers, prefix or None, ends), moving.target)

    # -- standing still ----------------------------------------------------------------------------------------------

    def _stand_still(
        self,
        settings: MirrorSettings,
        source: Cluster,
        every: Sequence[TopicPartition],
        growth: Growth,
        mirrors: Sequence[TopicPartition],
        groups: Sequence[str],
        held: int,
        began: float,
        abort: Abort,
    ) -> _Still:
        """Until nothing moves; `held` is the version of the pointer that holds.

        Raises `Deviated` naming what still does after `held_s` seconds, `Aborted`.
        """
        moving = self.flow
        ends, since = source.log_ends(every), time.monotonic()
        left = UnreadRecords(source)
        while True:
            quiet = time.monotonic() - since >= self.quiet_s
            why = self._still_sending(held) if quiet else "records still arrive"
            why = why or self._reads_still(source, left, mirrors, groups, ends)
            if not why:
                lag = replication_lag(settings, moving, source, every)
                if lag.missing:
                    why = f"the mirror has not copied {lag.offsets} offsets yet"
                elif not growth.written(ends, lag.ends):
                    return _Still(lag, time.monotonic() - began)
            if time.monotonic() - began > self.held_s:
                raise Deviated(
                    f"the applications stay at {moving.source}",
                    f"after {self.held_s:g} s of holding, {why or 'records arrived again'}; they continue where they were",
                    "Check that every application honours the pointer's hold, then try again.",
                )
            abort.wait(_LOOK_S)
            now = source.log_ends(every)
            if growth.written(ends, now):
                since = time.monotonic()
            ends = now

    def _still_sending(self, version: int) -> str:
        """Which producer of a lab does, in words; the broker holds back other producers (`fence_source`)."""
        lab, pointer = self.context.lab, self.context.pointer
        if lab is None or pointer is None:
            return ""
        return LabApplications(lab, self.context.run_dir).still_sending(pointer, version)

    def _reads_still(
        self,
        source: Cluster,
        left: UnreadRecords,
        mirrors: Sequence[TopicPartition],
        groups: Sequence[str],
        ends: Mapping[TopicPartition, int],
    ) -> str:
        """Which group does, in words; empty when none does."""
        states = source.group_states(groups)
        busy = [g for g in groups if states[g] not in (GroupState.EMPTY, GroupState.ABSENT)]
        if not busy:
            return ""
        readable = {**ends, **source.log_ends(mirrors)}
        for group, positions in source.committed(busy).items():
            if isinstance(positions, DrlibError):
                raise positions
            topics = {p.topic for p in positions}
            if not any(p.topic in topics for p in readable):  # none of ours, or one that has not committed yet
                topics = {p.topic for member in source.group_members(group) for p in member.assignment}
            unread = left.first(positions, {p: end for p, end in readable.items() if p.topic in topics})
            if unread is not None:
                return f"group {group} has members that have still to read {unread}"
        return ""

    def _keep(self, began_ms: int, moved_s: float, first_s: float | None, *, written_to: bool) -> None:
        """The moments for the picture, and whether the pause was as short as it has to be."""
        moving, most = self.flow, self.stopped_s
        marks = [
            Mark(name="applications held", at_ms=began_ms, detail=f"at {moving.source}"),
            Mark(name="applications moved", at_ms=began_ms + int(1000 * moved_s), detail=f"to {moving.target}"),
        ]
        if first_s is not None:
            first = began_ms + int(1000 * first_s)
            marks.append(Mark(name="traffic continues", at_ms=first, detail=f"first record on {moving.target}"))
        verdict, evidence = Verdict.UNKNOWN, "no record within 10 s"
        if first_s is not None:
            verdict, evidence = (Verdict.PASS if first_s <= most else Verdict.FAIL), f"{first_s:.2f} s"
        check = Check(name=f"applications stand still for at most {most:g} s", verdict=verdict, evidence=evidence)
        checks = (check,) if first_s is not None or written_to else ()
        self.score(ScorecardPart(marks=tuple(marks), checks=checks))


def _local(target: Cluster, topics: Mapping[str, int]) -> list[TopicPartition]:
    """The partitions of the same topics on the cluster gone to, where producers will write."""
    return [TopicPartition(t.name, n) for t in target.topics(topics).values() for n in range(t.partitions)]


def _cutover(
    settings: MirrorSettings, moving: Flow, target: Cluster, topics: Mapping[str, int]
) -> dict[str, tuple[int, ...]]:
    """Where reading each mirror is finished: at its end now. Empty for a topic that was never mirrored."""
    policy = settings.flow(moving.source, moving.target).policy
    remotes = {policy.remote_topic(moving.source, topic): count for topic, count in topics.items()}
    existing = target.topics(remotes)
    ends = target.log_ends(TopicPartition(t.name, n) for t in existing.values() for n in range(t.partitions))
    return {
        name: tuple(ends[TopicPartition(name, n)] for n in range(existing[name].partitions)) if name in existing else ()
        for name in remotes
    }


def _first(target: Cluster, ends: Mapping[TopicPartition, int], began: float, abort: Abort) -> float | None:
    """Seconds from `began` until the first record is written; None when none is."""
    deadline = time.monotonic() + _FIRST_S
    while ends and time.monotonic() < deadline and not abort.requested:
        if target.log_ends(ends) != ends:
            return time.monotonic() - began
        time.sleep(_LOOK_S)
    return None
