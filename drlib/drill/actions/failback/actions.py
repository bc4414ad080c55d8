"""Actions of the way back: `reverse.verify`, `reverse.wait` and `groups.translate_back`.

Rules: `source` and `target` are the clusters applications move between, by default from the drill's target back to its
source. A worker is never started on clusters that are no lab's: the error has the command to run. A flow that
MirrorMaker 2 mirrors moves with its bounds: a record is never skipped, and how many are read again is predicted. Positions
that are not exact otherwise are refused unless `inexact` allows them. What was decided and what was there before are on disk
before anything is written, so that a resumed step completes exactly that, and an undo restores what was not changed since.
Not for: moving the applications (`switchover`), and records that only one side has (`unreplicated_actions`).
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from drlib import clock
from drlib.config.both_ways.shared_topics import all_shared
from drlib.config.settings import MirrorSettings
from drlib.drill.actions.failback.catching_up import CatchingUp
from drlib.drill.actions.failback.tail_transactions import before_left
from drlib.drill.actions.failback.unreplicated_actions import settings_of
from drlib.drill.actions.failover.transactions import read_kept
from drlib.drill.actions.groups import commit as group_writing
from drlib.drill.actions.groups import decided as positions
from drlib.drill.actions.groups.rules import BEFORE_TRANSACTION, Left, PositionMove
from drlib.drill.actions.groups.share_groups import move as share_moves
from drlib.drill.actions.groups.share_groups import rules as share_rules
from drlib.drill.actions.groups.share_groups.shown import evidence as share_evidence
from drlib.drill.actions.moving.gone_topics import GonePositions
from drlib.drill.actions.moving.listed_groups import unlisted
from drlib.drill.plan.plan import Change, Fact
from drlib.drill.plan.progress import Reach
from drlib.drill.step.action import Changes, DrillAction, Evidence, ReadOnlyAction
from drlib.drill.step.argument_types import Count, Flag, Seconds, Text, Texts
from drlib.drill.step.flow_arguments import FlowArguments, Shared
from drlib.drill.step.step_output import ScorecardPart
from drlib.errors import Deviated, Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import GroupMember
from drlib.mirror.offsets.map.flow_maps import worker_group
from drlib.mirror.offsets.mirror_maker.mirrored_by import NAME
from drlib.mirror.offsets.mirror_maker.read_flow import mirror_maker_of
from drlib.mirror.offsets.translation.two_way import group_positions, groups_of, read_flow_pair, translate
from drlib.mirror.offsets.unreplicated.lag import mirrored_topics, refuse_unexplained, replication_lag
from drlib.model import Flow, GroupTranslation, TopicPartition, TranslationKind
from drlib.outgoing.terminal import show
from drlib.runs.abort import Abort
from drlib.runs.check import Check
from drlib.runs.journal import Scalar
from drlib.runs.waiting import LOOK_S


class MoveArguments(FlowArguments):
    """The clusters that applications move between; by default from the drill's target back to its source."""

    shared_topics = Shared.ALL
    source: Text = ""
    """Alias of the cluster the applications leave; by default the drill's target."""
    target: Text = ""
    """Alias of the cluster they move to; by default the drill's source."""

    @property
    def usual_flow(self) -> Flow:
        return self.context.flow.reverse

    @property
    def settings(self) -> MirrorSettings:
        return settings_of(self.context)


class VerifyWorkers(MoveArguments, ReadOnlyAction):
    """Verify that workers mirror the flow, and that nothing prevents them."""

    name = "reverse.verify"

    start_s: Seconds = 0
    """How long to wait for a first worker, such as one that is started now; what to run is said at once."""

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        if self.both_ways:
            self._verified(self.flow.reverse, abort)
        return self._verified(self.flow, abort)

    def _verified(self, moving: Flow, abort: Abort) -> Evidence:
        settings = self.settings
        with Cluster(settings.clusters[moving.source]) as source:
            topics = mirrored_topics(source, settings.flow(moving.source, moving.target))
            if moving == self.context.flow.reverse:
                self._refuse_left_out(settings, moving, source, topics)
        with Cluster(settings.clusters[moving.target]) as target:
            members = self._members(moving, target, abort)
        found: Evidence = (
            {"workers": len(members)} if members else {"mirror_maker_2": self._mirror_maker(settings, moving)}
        )
        refuse_unexplained(settings, moving, topics)
        return {**found, "topics": len(topics), "flow": str(moving)}

    def _mirror_maker(self, settings: MirrorSettings, moving: Flow) -> str:
        """How MirrorMaker 2 mirrors the flow, in words. Raises `UsageError` where it does not, or does not run."""
        file, now_ms = settings.path.name, clock.now_ms()
        found = mirror_maker_of(settings, moving)
        if found is None:
            raise UsageError(
                f"{moving} is not being mirrored",
                f"no worker of it is in {worker_group(moving)} on {moving.target}, and MirrorMaker 2 copied nothing there",
                f"Set {moving}.enabled = true in {file} and run: drlib mirror {file}. Or start MirrorMaker 2 with it: "
                f"connect-mirror-maker.sh {file}.",
            )
        if found.runs(now_ms) is False:
            raise UsageError(
                f"{moving} is {NAME}, which does not run",
                found.words(now_ms),
                f"Start it: connect-mirror-maker.sh {file}. Or take the flow over, for exact positions: drlib mirror {file}.",
            )
        return found.words(now_ms)

    def _members(self, moving: Flow, target: Cluster, abort: Abort) -> Sequence[GroupMember]:
        """The workers, as soon as there is one, at most `start_s` later."""
        until, said = time.monotonic() + self.start_s, False
        while not (members := target.group_members(worker_group(moving))) and time.monotonic() < until:
            found = mirror_maker_of(self.settings, moving)
            if found is not None and found.runs(clock.now_ms()) is not False:
                break
            if not said:
                file = self.settings.path.name
                show(f"No worker mirrors {moving}. Run it now: drlib mirror {file}. Waiting {self.start_s:g} s for it.")
                said = True
            abort.wait(LOOK_S)
        return members

    def _refuse_left_out(
        self, settings: MirrorSettings, moving: Flow, source: Cluster, topics: Collection[str]
    ) -> None:
        """Raises `UsageError` for topics that applications write to since the failover, and that the way back leaves out."""
        forward = settings.flow(moving.target, moving.source)
        local = [
            name for name in source.topics() if forward.mirrors_topic(name) and not forward.policy.is_heartbeats(name)
        ]
        if left_out := sorted(set(local) - set(topics)):
            more = f" and {len(left_out) - 5} more" if len(left_out) > 5 else ""
            raise UsageError(
                f"{moving} does not mirror {', '.join(left_out[:5])}{more}",
                f"applications write to {'it' if len(left_out) == 1 else 'them'} on {moving.source} since the failover, and "
                f"{moving.target} would not get it",
                f"Add to {moving}.topics in {settings.path.name}, restart the workers, then the same command again.",
            )


class WaitCaughtUp(MoveArguments, ReadOnlyAction):
    """Wait until the flow has mirrored everything but `offsets`, while applications continue to write."""

    name = "reverse.wait"

    offsets: Count = 0
    """How many offsets may still be missing."""
    within_s: Seconds = 120
    """How long to wait without any progress; while the mirror copies, there is no limit."""

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        def shown(flow: Flow, progress: CatchingUp) -> None:
            self.show([{"flow": str(flow), "missing": progress.missing, "caught up in": progress.eta}])

        return wait_both_caught_up(self.settings, self.flow, abort, self.offsets, self.within_s, shown)


def wait_both_caught_up(
    settings: MirrorSettings,
    moving: Flow,
    abort: Abort,
    offsets: int,
    within_s: float,
    shown: Callable[[Flow, CatchingUp], None] = lambda flow, progress: None,
) -> Evidence:
    """As `wait_caught_up`. Where both directions copy the topics, the flow back first copies what it has left at this moment:
    groups continue behind records that are on both clusters."""
    back: Evidence = {}
    if all_shared(settings, moving):
        waited = wait_caught_up(
            settings, moving.reverse, abort, 0, within_s, partial(shown, moving.reverse), until_now=True
        )
        back = {f"{moving.reverse}_waited_seconds": waited["waited_seconds"]}
    return {**wait_caught_up(settings, moving, abort, offsets, within_s, partial(shown, moving)), **back}


def wait_caught_up(
    settings: MirrorSettings,
    moving: Flow,
    abort: Abort,
    offsets: int,
    within_s: float,
    shown: Callable[[CatchingUp], None] = lambda progress: None,
    *,
    until_now: bool = False,
) -> Evidence:
    """Wait until at most `offsets` of the flow are missing; `shown` gets each look. `until_now`: of those that the source has
    when this begins.

    Raises `Unreachable` after `within_s` seconds in which nothing was copied.
    """
    began = time.monotonic()
    until: Mapping[TopicPartition, int] = {}
    progress = CatchingUp()
    with Cluster(settings.clusters[moving.source]) as source:
        topics = mirrored_topics(source, settings.flow(moving.source, moving.target))
        partitions = [TopicPartition(name, n) for name, count in topics.items() for n in range(count)]
        while True:
            lag = replication_lag(settings, moving, source, partitions)
            now = time.monotonic()
            until = until or (lag.ends if until_now else {})
            missing = lag.offsets_below(until) if until_now else lag.offsets
            progress.seen(now, missing, sum(lag.ends.values()) - lag.offsets)
            shown(progress)
            if missing <= offsets:
                return {
                    "behind_offsets": missing,
                    "partitions": len(partitions),
                    "waited_seconds": round(now - began, 3),
                }
            if progress.stalled_s(now) > within_s:
                raise Unreachable(
                    f"{moving} has not caught up",
                    f"for {within_s:g} s none of {missing} missing offsets was copied, in {min(lag.missing)} and others",
                    f"See what holds it up: drlib status {settings.path.name}.",
                )
            abort.wait(LOOK_S)


class TranslateBack(MoveArguments, DrillAction):
    """Translate groups' positions, and commit them on the cluster the applications move to. The groups must have no members."""

    name = "groups.translate_back"
    shared_topics = Shared.NONE
    reverses = True

    groups: Texts = ()
    """Which groups; by default every one that the flow mirrors."""
    inexact: Flag = False
    """Whether positions that are not exact may be committed: records are read again."""
    rewind: Flag = False
    """Whether a group that is further ahead on the target may be set back: records are read again."""
    before_partial_transactions: Flag = True
    """As of `switchover.move`."""

    @property
    def entity(self) -> str:
        return f"positions of groups that moved from {self.flow.source} to {self.flow.target}"

    def observe(self) -> Sequence[Fact]:
        return (Fact(self.entity, None if self._kept() is None else "translated"),)

    def changes(self, observed: Sequence[Fact]) -> Changes:
        before = {fact.entity: fact.value for fact in observed}[self.entity]
        return () if before == "translated" else (Change(self.entity, before, "translated"),)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        """Raises `Deviated` for a position that is not exact, or that was moved meanwhile, and `GroupNotEmpty`."""
        settings, moving = self.settings, self.flow
        moves, left_out = self._kept(), tuple[Check, ...]()
        if moves is None:
            groups = groups_of(settings, moving, self.groups or None)
            known = read_flow_pair(settings, moving)
            abort.check()
            target = settings.clusters[moving.target]
            before = group_writing.committed_positions(target, groups)
            translations = translate(settings, known, group_positions(settings, moving.source, groups), before)
            with Cluster(settings.clusters[moving.source]) as source:
                gone = GonePositions.of(source, translations)
            moves = group_writing.decide_there(target, gone.placed(translations), before, rewind=self.rewind)
            moves = gone.without_left(moves)
            self.show(position_rows(moves, moving))
            if not self.inexact:
                refuse_inexact(gone.others(translations), moving, bounded=known.bounded)
            refuse_blocked(moves, moving, inexact=self.inexact)
            if self.before_partial_transactions:
                moves = before_left(moves, read_kept(self.context.run_dir, moving))
            group_writing.refuse_in_use(target, groups)
            positions.write(self.context.run_dir, moving.target, moves, self._use)
            left_out = gone.checks(moving)
        run_dir, target = self.context.run_dir, settings.clusters[moving.target]
        shares = share_moves.kept(run_dir, moving.target, self._use)
        if shares is None:
            chosen = share_moves.Chosen(
                lambda group: not self.groups or group in self.groups, rewind=self.rewind, refuses=True
            )
            shares = share_moves.decide_planned(settings, moving, chosen).moves
            share_moves.keep(run_dir, moving.target, self._use, shares)
        group_writing.write(target, moves)
        shares = share_moves.write(target, shares, refuses=True)
        share_moves.keep(run_dir, moving.target, self._use, shares)
        again = share_moves.delivered_again(target, shares)
        checks = (*left_out, *share_rules.checks(shares, again, {}))
        if not self.groups:
            with Cluster(settings.clusters[moving.source]) as source:
                checks += unlisted(source)
        if checks:
            self.score(ScorecardPart(checks=checks))
        return {**evidence(moves), **share_evidence(shares, again)}

    def probe(self, changes: Changes) -> Reach:
        target = self.settings.clusters[self.flow.target]
        shares = share_moves.kept(self.context.run_dir, self.flow.target, self._use)
        return share_moves.reached_with(group_writing.reached(target, self._kept()), target, shares)

    def undo(self, changes: Changes) -> None:
        """Restore what was there. Raises `GroupNotEmpty` for groups with members, `Deviated` for later commits."""
        moves = self._kept()
        shares = share_moves.kept(self.context.run_dir, self.flow.target, self._use)
        decisions = self.context.run_dir, self.flow.target, self._use
        if changes:
            share_moves.take_back(self.settings.clusters[self.flow.target], decisions, moves, shares)

    @property
    def _use(self) -> str:
        return f"back.{self.step}"

    def _kept(self) -> tuple[PositionMove, ...] | None:
        return positions.read(self.context.run_dir, self.flow.target, self._use)


def refuse_inexact(translations: Collection[GroupTranslation], moving: Flow, *, bounded: bool = False) -> None:
    """Raises `Deviated` naming the first position that is not exact, or the first group with a mirror not read to its end.

    `bounded`: a position with a bound on what is read again will do.
    """
    enough = {TranslationKind.EXACT, TranslationKind.BOUNDED} if bounded else {TranslationKind.EXACT}
    unread = [t for t in translations if t.unread]
    inexact = [t for t in translations if t.translation.kind not in enough]
    if unread:
        first = unread[0]
        raise Deviated(
            f"{first.group} cannot move to {moving.target} yet",
            f"it has not read {first.unread} records of {first.source}, and would read them from {first.target.topic} on "
            f"{moving.target} after newer records; {len(unread)} partitions are affected",
            f"Let it read {first.source.topic} on {moving.source} to its end first. While applications write to "
            f"{first.target.topic} on {moving.target}, it has no end: inexact = true moves it at its exact record.",
        )
    if inexact:
        first = inexact[0]
        expired = f"set it behind the records that have expired on {moving.target}"
        raise Deviated(
            f"{first.group} would not resume at its exact record on {moving.target}",
            f"{first.source} at {first.source_offset} is {first.translation.kind.value} ({first.translation.records} records); "
            f"{len(inexact)} positions are not exact",
            "Allow it with inexact = true, or "
            f"{expired if first.translation.expired else 'wait until the mirror has copied the missing records'}.",
        )


def refuse_blocked(moves: Iterable[PositionMove], moving: Flow, *, inexact: bool) -> None:
    """Raises `Deviated` for a group that is further ahead on the target and, unless `inexact`, for any other position left."""
    stuck = [move for move in moves if move.left is Left.AHEAD or (move.left is not None and not inexact)]
    if stuck:
        first = stuck[0]
        remedy = {
            Left.AHEAD: "Find out who reads there, then allow going back with rewind = true: records are read again.",
            Left.PAST_END: f"See whether {moving.target} has lost records: drlib doctor. inexact = true leaves such positions.",
            Left.NO_LEADER: f"Start the broker of {moving.target} that holds it, then try again.",
            Left.UNKNOWN: "See whether the flow is mirrored: drlib status. inexact = true leaves such positions.",
            Left.NOT_MIRRORED: "See whether the flow is mirrored: drlib status. inexact = true leaves such positions.",
        }
        raise Deviated(
            f"{first.group} cannot move to {moving.target}",
            f"{first.source} at {first.source_offset} is {first.target} there, and {first.why}; "
            f"{len(stuck)} positions are affected",
            remedy[first.left or Left.AHEAD],
        )


def position_rows(moves: Sequence[PositionMove], moving: Flow) -> list[dict[str, Scalar]]:
    """A row of results for each position."""
    return [
        {
            "group": move.group,
            f"on {moving.source}": str(move.source),
            "at": move.source_offset,
            f"on {moving.target}": str(move.target),
            "resumes at": move.offset,
            "meaning": move.kind.value,
            "records": move.records,
        }
        for move in moves
    ]


def evidence(moves: Sequence[PositionMove]) -> dict[str, Scalar]:
    exact = [move.kind is TranslationKind.EXACT for move in moves]
    before = sum(move.why == BEFORE_TRANSACTION for move in moves)
    return {
        "groups": len({move.group for move in moves}),
        "positions": len(moves),
        "exact_positions": sum(exact),
        **({"before_partial_transactions": before} if before else {}),
        "read_again_at_most": sum(move.records for move, is_it in zip(moves, exact, strict=True) if not is_it),
    }
