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
  (`Growth`); both flows run on, before and after. Topics that a third cluster fills need not stand still (`other_copies`).
- A hold ends by itself `hold_limit_s` seconds (60) after an application saw it, so that a drill that died holds no
  application. The pointer is moved in the first half of that time or not at all. Records that producers without support for
  the hold write to the source afterwards are counted once the applications have moved: that is the RPO.
- A step resumed after a kill begins at the hold again; the pointer shows its progress. ACLs by which an earlier failover
  denied writing to the new cluster, and quotas by which a drill slowed its producers down, are removed before the move, and
  made again where it fails (`lifted`); positions are put back then (`tried_positions`). After the move the only undo is a
  move back.
- `stopped_seconds` is from the hold to a client's first record on the other cluster; None without one within 10 s. More than
  `stopped_s` (2) fails the drill, but not the step, because the applications have moved. Where no client wrote before the
  hold either, as where producers were stopped by hand, there is no pause to check. Groups with members then are kept, as
  their members are to appear on the other cluster.
- Share groups do not see the hold. They are moved once the pointer has moved, so that it holds applications no longer, and what
  prevents it is a condition of the verdict. Stop their consumers before.
Longer than most modules: one sequence from the hold to the move, and what undoes each part of it.
"""

import contextlib
import time
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Self

from pydantic import model_validator

from drlib import clock
from drlib.client.pointer import OPEN, Pointer, fitted
from drlib.config.settings import MirrorSettings
from drlib.drill.actions.applications.pointer import PointerArgument, PointerPlace, conflict, without_ends
from drlib.drill.actions.applications.pointer_places import PointerPlaces, newest_at
from drlib.drill.actions.applications.producer_ids import ProducerIdsArgument
from drlib.drill.actions.failback.actions import (
    MoveArguments,
    evidence,
    position_rows,
    refuse_blocked,
    refuse_inexact,
    wait_both_caught_up,
)
from drlib.drill.actions.failback.lifted import LiftedFences
from drlib.drill.actions.failback.tail_transactions import before_left
from drlib.drill.actions.failover.transactions import read_kept
from drlib.drill.actions.groups import commit as group_writing
from drlib.drill.actions.groups import decided
from drlib.drill.actions.groups.rules import PositionMove
from drlib.drill.actions.groups.share_groups import move as share_moves
from drlib.drill.actions.groups.share_groups import rules as share_rules
from drlib.drill.actions.groups.share_groups.shown import evidence as share_evidence
from drlib.drill.actions.groups.tried_positions import TriedPositions
from drlib.drill.actions.groups.unread_records import UnreadRecords
from drlib.drill.actions.moving import still_ends
from drlib.drill.actions.moving.gone_topics import GonePositions
from drlib.drill.actions.moving.growth import Growth
from drlib.drill.actions.moving.listed_groups import unlisted
from drlib.drill.actions.moving.other_copies import filled_by_others, hint
from drlib.drill.actions.moving.positions import positions_of
from drlib.drill.actions.parts import Parts
from drlib.drill.plan.plan import Fact
from drlib.drill.plan.progress import Reach
from drlib.drill.step import step_output
from drlib.drill.step.action import Changes, DrillAction, Evidence
from drlib.drill.step.argument_types import Flag, Seconds, Texts
from drlib.drill.step.step_output import ScorecardPart
from drlib.errors import Deviated, DrlibError, UsageError
from drlib.formats import first_few
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import GroupState
from drlib.kafka.admin.group_offsets import Positions
from drlib.lab.workload.applications import LabApplications
from drlib.mirror.offsets.translation.two_way import group_positions, groups_of
from drlib.mirror.offsets.unreplicated.lag import ReplicationLag, mirrored_topics, replication_lag
from drlib.model import Flow, TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import Mark

_LOOK_S: Final = 0.02
_HONOUR: Final = "Check that every application honours the pointer's hold"
_SESSIONS_S: Final = 60.0  # of consumers: 45 s by default
_NEAR: Final = 20_000  # offsets the mirror may be behind when the hold begins: less than a second's work
_FIRST_S: Final = 10.0
_SURE: Final = 0.5  # of the limit: until then no application has continued, and the move still has to reach them


@dataclass(frozen=True)
class _Still:
    """What was observed once all applications were held. `ends`: of the logs that stand still."""

    found: ReplicationLag
    ends: Mapping[TopicPartition, int]
    held_s: float


class PlannedMove(ProducerIdsArgument, MoveArguments, DrillAction):
    """A planned move of applications; what follows from which ones they are is a subclass's to say."""

    reverses = True

    inexact: Flag = False
    """Whether positions that are not exact may be committed: records are read again."""
    rewind: Flag = False
    """Whether a group that is further ahead on the target may be set back: records are read again."""
    before_partial_transactions: Flag = True
    """Whether groups are placed before transactions of which they read a part later: those of which `tail.transactions` found
    the rest on the cluster they move to."""
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
    @abstractmethod
    def pointers(self) -> PointerPlaces:
        """Of the applications that move."""

    @property
    def fences(self) -> LiftedFences:
        """What keeps writers from the target until they have moved."""
        return LiftedFences(self.context.run_dir, self.target_cluster, self.step)

    @property
    def tried(self) -> TriedPositions:
        """What this step wrote of groups' positions before it moved the pointer."""
        return TriedPositions(self.context.run_dir, self.target_cluster, self.step)

    @property
    def along(self) -> tuple[PointerPlace, ...]:
        """Pointers that are to be the same once those of the applications were moved."""
        return ()

    @abstractmethod
    def moved_groups(self) -> tuple[str, ...]:
        """Whose positions are moved. Raises `UsageError` for a group that does not exist."""

    @property
    def moves_every_group(self) -> bool:
        """Are no groups named, so that all are moved?"""
        return True

    def all_groups(self, moved: tuple[str, ...]) -> tuple[str, ...]:
        """Those that the run moves, `moved` with this step and others with another one."""
        return moved

    def to_stand_still(self, topics: Collection[str]) -> Collection[str]:
        """Which of the mirrored `topics` none of the applications that stay writes to."""
        return topics

    def decided_before(self, moved: Collection[str]) -> Sequence[PositionMove]:
        """Positions that the run has moved with other steps than this one, which moves those of the groups `moved`."""
        return ()

    @property
    def who(self) -> str:
        """What marks and checks call the applications."""
        return "applications"

    def stays(self) -> str:
        """Where the run's applications are, once these have moved and a rollback was asked for."""
        return f"the applications stay at {self.flow.target}"

    def after_moving(self) -> str:
        """What to do instead of an undo."""
        return f"Move them back by a planned switchover from {self.flow.target} to {self.flow.source}."

    def observe(self) -> Sequence[Fact]:
        return self.pointers.observe()

    def changes(self, observed: Sequence[Fact]) -> Changes:
        """Nothing where they are there already. Raises `UsageError` where they are on neither of the two clusters, and on a
        properties file where no pointer says so: a lab's applications publish theirs when they start."""
        entities = {place.entity for place in self.pointers.places}
        if self.context.lab is None and any(fact.value is None for fact in observed if fact.entity in entities):
            raise self.pointers.none(self.name)
        return self.pointers.changes(observed)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        moving, now = self.flow, self._pointers()
        if all(pointer.active == moving.target for pointer in now):
            self._move_to(newest_at(moving.target, (*now, *(place.read().pointer for place in self.along))) or now[0])
            self.tried.forget()
            ours = (
                decided.read(self.context.run_dir, moving.target) is not None
            )  # this step was killed once it had moved
            of_shares = self._move_share_groups()[0] if ours else {}
            return {"stopped_seconds": None, "moved_before": True, **self._counted_again(), **of_shares}
        for place, pointer in zip(self.pointers.places, now, strict=True):
            if pointer.active not in (moving.source, moving.target):
                raise conflict(place, pointer)
        settings, limit_s = self.settings, self.hold_limit_s
        target = settings.clusters[moving.target]
        with Cluster(settings.clusters[moving.source]) as source_admin, Cluster(target) as target_admin:
            topics = mirrored_topics(source_admin, settings.flow(moving.source, moving.target))
            every = [TopicPartition(name, n) for name, count in topics.items() for n in range(count)]
            ending = frozenset(self.to_stand_still(topics)) - filled_by_others(settings, moving, topics)
            quiet = [p for p in every if p.topic in ending]
            first_ends = source_admin.log_ends(quiet)
            groups = self.moved_groups()
            others = unlisted(source_admin) if self.moves_every_group else ()
            members_s = group_writing.wait_free(target, groups, abort, _SESSIONS_S)
            waited = wait_both_caught_up(settings, moving, abort, _NEAR, self.within_s)
            previous = self.tried.before(group_writing.committed_positions(target, groups))
            positions = positions_of(settings, moving, group_positions(settings, moving.source, groups), previous)
            growth = Growth(settings, moving)
            local = _local(target_admin, ending)
            written_to = growth.written(first_ends, source_admin.log_ends(quiet))
            ids = self.refuse_collisions(moving, planned=True)
            decided.keep_in_use(self.context.run_dir, moving.target, source_admin.group_states(self.all_groups(groups)))
            before = self._pointers()
            began, began_ms = time.monotonic(), clock.now_ms()
            try:
                self.pointers.hold(limit_s)
                while True:
                    still = self._stand_still(
                        settings, source_admin, every, quiet, growth, positions.mirrors, groups, began, abort
                    )
                    source_positions, target_positions = self._positions(settings, groups)
                    translations = positions.translate(source_admin, still.found.maps, source_positions)
                    gone = GonePositions.of(source_admin, translations)
                    try:
                        if not self.inexact:
                            refuse_inexact(gone.others(translations), moving, bounded=positions.bounded)
                    except Deviated:
                        if len(quiet) == len(every) or time.monotonic() - began > self.held_s:
                            raise
                        abort.wait(_LOOK_S)  # what others still write may not be mirrored up to a position yet
                        continue
                    own = self.tried.ours(target_positions)
                    moves = group_writing.decide_there(
                        target, gone.placed(translations), target_positions, rewind=self.rewind, ours=own
                    )
                    moves = gone.without_left(moves)
                    refuse_blocked(moves, moving, inexact=self.inexact)
                    if self.before_partial_transactions:
                        moves = before_left(moves, read_kept(self.context.run_dir, moving))
                    self.tried.write(moves, target_positions)
                    cutover = _cutover(settings, moving, target_admin, topics, topics.keys() - ending)
                    ends = target_admin.log_ends(local)
                    self._refuse_late(began, limit_s)
                    lifted = self.fences.lift()
                    if not growth.written(still.ends, source_admin.log_ends(quiet)):
                        break
            except BaseException:
                try:
                    self.pointers.release()
                finally:
                    for put_back in (self.fences.put_back, self.tried.put_back):
                        with contextlib.suppress(DrlibError):  # an undo says what is not back
                            put_back()
                raise
            decided.write(self.context.run_dir, moving.target, (*self.decided_before(groups), *moves))
            still_ends.keep(self.context.run_dir, self.step, still.ends)
            too_large = self._move(settings, moving, cutover)
            self.tried.forget()
            moved_s = time.monotonic() - began
            first_s = _first(target_admin, ends, Growth(settings, moving.reverse), began, abort)
            behind_us = growth.written_since(source_admin, self._ends_left())
        self.show(position_rows(moves, moving))
        of_shares, checks = self._move_share_groups()
        self._keep(
            began_ms, moved_s, first_s, written_to=written_to, more=(*checks, *too_large, *others, *gone.checks(moving))
        )
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
            **of_shares,
            **({"write_rules_lifted": lifted} if lifted else {}),
            **({"held_by_an_earlier_try": True} if any(pointer.hold for pointer in before) else {}),
            **({"waited_for_old_members_seconds": round(members_s, 1)} if members_s > 1 else {}),
        }

    def probe(self, changes: Changes) -> Reach:
        now = self._pointers()
        if all(pointer.active == self.flow.target for pointer in now):
            # act counts what was written behind the logs' ends, and completes what moves along
            kept = self.along or still_ends.read(self.context.run_dir, self.step)
            return Reach.PARTLY if kept else Reach.DONE
        begun = any(pointer.hold or pointer.active == self.flow.target for pointer in now)
        return Reach.PARTLY if begun or self.tried.kept() or self.fences.lifted else Reach.UNTOUCHED

    def undo(self, changes: Changes) -> None:
        """Let the applications continue where they are held, keep writers from the target again, and set the groups back that
        were placed there. Raises `Deviated` once they have moved."""
        now = self._pointers()
        if any(pointer.hold and pointer.active != self.flow.target for pointer in now):
            self.pointers.release()
        moved = [pointer for pointer in now if pointer.active == self.flow.target]
        if not moved:
            parts = Parts()
            for name, put_back in (
                ("what keeps writers away", self.fences.put_back),
                ("positions", self.tried.put_back),
            ):
                with parts.each(name):
                    put_back()
            parts.raise_failed()
        if moved and any(place.kept() is not None for place in self.pointers.places):
            raise Deviated(
                self.stays(),
                "they already read and write there",
                self.after_moving(),
            )

    def _counted_again(self) -> Evidence:
        """The RPO, where the process that moved the pointer was killed before it counted."""
        if not still_ends.read(self.context.run_dir, self.step):
            return {}
        with Cluster(self.settings.clusters[self.flow.source]) as source:
            behind = Growth(self.settings, self.flow).written_since(source, self._ends_left())
        return {"rpo_records": behind, "rpo_seconds": 0.0 if behind == 0 else None}

    def _ends_left(self) -> dict[TopicPartition, int]:
        """Where the logs ended that no application was to write to any more, by this step and by earlier ones."""
        return still_ends.read(self.context.run_dir, self.step)

    def _pointers(self) -> tuple[Pointer, ...]:
        """Raises `UsageError` where there is none, so that no application would be held."""
        return self.pointers.read(self.name)

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

    def _move(
        self, settings: MirrorSettings, moving: Flow, cutover: Mapping[str, tuple[int, ...]]
    ) -> tuple[Check, ...]:
        """What it has to say of the pointer: a move for which applications are held does not fail because of its size."""
        servers = ",".join(settings.clusters[moving.target].bootstrap_servers)
        prefix = settings.flow(moving.source, moving.target).policy.remote_prefix(moving.source)
        to, why = fitted(Pointer(1, moving.target, servers, prefix or None, dict(cutover)))
        self._move_to(to)
        return (without_ends(why),) if why else ()

    def _move_to(self, to: Pointer) -> None:
        self.pointers.move(to)
        if self.along:
            PointerPlaces(self.along, self.flow).move(to)

    # -- standing still ----------------------------------------------------------------------------------------------

    def _stand_still(
        self,
        settings: MirrorSettings,
        source: Cluster,
        every: Sequence[TopicPartition],
        quiet: Sequence[TopicPartition],
        growth: Growth,
        mirrors: Sequence[TopicPartition],
        groups: Sequence[str],
        began: float,
        abort: Abort,
    ) -> _Still:
        """Until nothing moves that these applications move: no log of `quiet`, and no group.

        Raises `Deviated` naming what still does after `held_s` seconds, `Aborted`.
        """
        moving = self.flow
        ends, since = source.log_ends(every), time.monotonic()
        grown: list[TopicPartition] = []
        left, ours = UnreadRecords(source), frozenset(quiet)

        def of_ours(ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
            return {p: end for p, end in ends.items() if p in ours}

        while True:
            still = time.monotonic() - since >= self.quiet_s
            why = self._still_sending() if still else _not_still(moving.source, grown, self.quiet_s)
            why = why or self._reads_still(source, left, mirrors, groups, ends)
            if not why:
                lag = replication_lag(settings, moving, source, every)
                if any(p in ours for p in lag.missing):
                    why = f"the mirror has not copied {lag.offsets} offsets yet"
                elif not growth.written(of_ours(ends), of_ours(lag.ends)):
                    return _Still(lag, of_ours(lag.ends), time.monotonic() - began)
            if time.monotonic() - began > self.held_s:
                raise Deviated(
                    f"the applications stay at {moving.source}",
                    f"after {self.held_s:g} s of holding, {why or 'records arrived again'}; they continue where they were",
                    f"{_HONOUR if still or grown else f'See why {moving.source} is slow'}, then try again."
                    f"{hint(settings, moving, grown)}",
                )
            abort.wait(_LOOK_S)
            now = source.log_ends(every)
            if more := growth.grown(of_ours(ends), of_ours(now)):
                grown, since = more, time.monotonic()
            ends = now

    def _still_sending(self) -> str:
        """Which producer of a lab does, in words; the broker holds back other producers (`fence_source`)."""
        lab = self.context.lab
        for place in self.pointers.places if lab is not None else ():
            held = place.read().pointer
            if lab is not None and place.file is not None and held is not None and held.hold:
                why = LabApplications(lab, self.context.run_dir).still_sending(place.file, held.version)
                if why:
                    return why
        return ""

    def _reads_still(
        self,
        source: Cluster,
        left: UnreadRecords,
        mirrors: Sequence[TopicPartition],
        groups: Sequence[str],
        ends: Mapping[TopicPartition, int],
    ) -> str:
        """Which group does, in words; empty when none does."""
        states = source.group_states(groups, surely=True)
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

    def _move_share_groups(self) -> tuple[Evidence, tuple[Check, ...]]:
        """Move them, and say what prevented it: the applications have moved already."""
        run_dir, moving, use = self.context.run_dir, self.flow, f"move.{self.step}"
        target = self.settings.clusters[moving.target]
        try:
            shares = share_moves.kept(run_dir, moving.target, use)
            if shares is None:
                chosen = share_moves.Chosen(self.moves_share_group, rewind=self.rewind)
                made = share_moves.decide_planned(self.settings, moving, chosen)
                shares = made.moves
                step_output.write_rows(run_dir, use, [{"group": g, "why": why} for g, why in made.unknown.items()])
                share_moves.keep(run_dir, moving.target, use, shares)
            shares = share_moves.write(target, shares)
            share_moves.keep(run_dir, moving.target, use, shares)
            again = share_moves.delivered_again(target, shares)
            staying = share_moves.with_members(self.settings.clusters[moving.source], shares) if shares else ()
        except DrlibError as error:
            check = Check(name=share_rules.CHECK, verdict=Verdict.CONDITIONS, evidence=f"not moved: {error}")
            return {"share_groups_not_moved": str(error)}, (check,)
        unknown = {str(row["group"]): str(row["why"]) for row in step_output.read_rows(run_dir, use)}
        checks = share_rules.checks(shares, again, unknown)
        if staying:
            who = f"{', '.join(staying[:5])} still with members on {moving.source}"
            why = f"{who}: what they acknowledge there from now on is delivered again"
            checks = (*checks, Check(name=share_rules.STAYING, verdict=Verdict.CONDITIONS, evidence=why))
        more = {"share_groups_still_in_use": ", ".join(staying)} if staying else {}
        return {**share_evidence(shares, again), **more}, checks

    def moves_share_group(self, group: str) -> bool:
        """Is the share group one of those that this step moves?"""
        return True

    def _keep(
        self, began_ms: int, moved_s: float, first_s: float | None, *, written_to: bool, more: tuple[Check, ...] = ()
    ) -> None:
        """The moments for the picture, and whether the pause was as short as it has to be."""
        moving, most = self.flow, self.stopped_s
        marks = [
            Mark(name=f"{self.who} held", at_ms=began_ms, detail=f"at {moving.source}"),
            Mark(name=f"{self.who} moved", at_ms=began_ms + int(1000 * moved_s), detail=f"to {moving.target}"),
        ]
        if first_s is not None:
            first = began_ms + int(1000 * first_s)
            marks.append(Mark(name="traffic continues", at_ms=first, detail=f"first record on {moving.target}"))
        verdict, evidence = Verdict.UNKNOWN, "no record within 10 s"
        if first_s is not None:
            verdict, evidence = (Verdict.PASS if first_s <= most else Verdict.FAIL), f"{first_s:.2f} s"
        check = Check(name=f"{self.who} stand still for at most {most:g} s", verdict=verdict, evidence=evidence)
        checks = (check,) if first_s is not None or written_to else ()
        self.score(ScorecardPart(marks=tuple(marks), checks=(*checks, *more)))


class MoveApplications(PointerArgument, PlannedMove):
    """Move the applications that follow the pointer to the other cluster: hold them, wait until nothing is in flight, move."""

    name = "switchover.move"
    source_lost = False

    groups: Texts = ()
    """Whose positions are moved; by default every group that the flow mirrors."""

    @property
    def pointers(self) -> PointerPlaces:
        return PointerPlaces((self.pointer,), self.flow)

    def moved_groups(self) -> tuple[str, ...]:
        return groups_of(self.settings, self.flow, self.groups or None)

    @property
    def moves_every_group(self) -> bool:
        return not self.groups

    def moves_share_group(self, group: str) -> bool:
        return not self.groups  # those that are named are consumer groups


def _local(target: Cluster, topics: Collection[str]) -> list[TopicPartition]:
    """The partitions of the same topics on the cluster gone to, where producers will write."""
    return [TopicPartition(t.name, n) for t in target.topics(topics).values() for n in range(t.partitions)]


def _cutover(
    settings: MirrorSettings, moving: Flow, target: Cluster, topics: Mapping[str, int], without_end: Collection[str]
) -> dict[str, tuple[int, ...]]:
    """Where reading each mirror is finished: at its end now, or open. Empty for a topic that was never mirrored."""
    policy = settings.flow(moving.source, moving.target).policy
    open_ended = {policy.remote_topic(moving.source, topic) for topic in without_end}
    remotes = {policy.remote_topic(moving.source, topic): count for topic, count in topics.items()}
    existing = target.topics(remotes)
    ends = target.log_ends(TopicPartition(t.name, n) for t in existing.values() for n in range(t.partitions))
    return {
        name: tuple(
            OPEN if name in open_ended else ends[TopicPartition(name, n)] for n in range(existing[name].partitions)
        )
        if name in existing
        else ()
        for name in remotes
    }


def _not_still(source: str, grown: Sequence[TopicPartition], quiet_s: float) -> str:
    """Why the logs do not count as still yet. Without growth no application is to blame: a cluster that answers slowly is."""
    if grown:
        return f"records still arrive in {first_few(map(str, grown))}"
    return f"no record was seen to arrive, but {source} answers too slowly to see its logs unchanged for {quiet_s:g} s"


def _first(
    target: Cluster, ends: Mapping[TopicPartition, int], growth: Growth, began: float, abort: Abort
) -> float | None:
    """Seconds from `began` until a client writes the first record; None when none does, or who wrote is not known."""
    deadline = time.monotonic() + _FIRST_S
    while ends and time.monotonic() < deadline and not abort.requested:
        now, at = target.log_ends(ends), time.monotonic()
        if now != ends:
            try:
                if growth.written(ends, now):
                    return at - began
            except DrlibError:
                return None
            ends = now
        time.sleep(_LOOK_S)
    return None
