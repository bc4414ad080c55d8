"""Steps on the way back: the flow back runs, it has caught up, groups stand where they are to go on.

Rules: `source` and `target` name the clusters applications move between, by default from the drill's target back to its
source. A worker is never started on clusters that are no lab's: who runs it is named the command. Positions that are not
exact are refused unless `inexact` allows them; what was decided and what was there before are on disk before anything is
written, so that whoever takes a step up completes just that, and an undo puts back what nobody has moved since.
Arguments, all optional: source, target, and `reverse.verify` none · `reverse.wait` within_s, offsets · `groups.translate_back`
groups, inexact.
Not for: moving the applications (`switchover_actions`), and tails (`tail_actions`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from drlib.config.settings import MirrorSettings
from drlib.drill.actions.failback.unreplicated_actions import settings_of
from drlib.drill.actions.groups import commit as group_writing
from drlib.drill.actions.groups import decided as positions
from drlib.drill.actions.groups.rules import PositionMove
from drlib.drill.plan.plan import Change, Fact
from drlib.drill.plan.progress import Reach
from drlib.drill.step.action import Action, ActionMaker, Changes, Evidence, ReadOnlyAction
from drlib.drill.step.arguments import flag, number, texts
from drlib.drill.step.cluster_identity import cluster_id
from drlib.drill.step.context import DrillContext
from drlib.drill.step.step import PlacedStep
from drlib.errors import Deviated, Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.group_offsets import Positions
from drlib.mirror.offsets.map.flow_maps import worker_group
from drlib.mirror.offsets.translation.two_way import (
    FlowPairState,
    Move,
    group_positions,
    groups_of,
    read_flow_pair,
    translate,
)
from drlib.mirror.offsets.unreplicated.lag import behind, mirrored_topics, refuse_unexplained
from drlib.model import Flow, TopicPartition, TranslationKind
from drlib.runs.abort import Abort
from drlib.runs.journal import Scalar
from drlib.runs.waiting import LOOK_S


def makers(workplace: DrillContext) -> dict[str, ActionMaker]:
    """The actions of this module. Making one raises `UsageError` for an argument that is wrong."""
    kinds: dict[str, Callable[[Back], Action]] = {
        "reverse.verify": VerifyWorkers,
        "reverse.wait": WaitCaughtUp,
        "groups.translate_back": TranslateBack,
    }
    return {name: lambda call, kind=kind: kind(Back(workplace, call)) for name, kind in kinds.items()}  # type: ignore[misc]


class Back(PlacedStep):
    """A step on the way back, whose flow is from the cluster that is left to the one gone to."""

    @property
    def usual(self) -> Flow:
        return self.place.flow.reverse

    @property
    def settings(self) -> MirrorSettings:
        return settings_of(self.place)

    @property
    def groups(self) -> tuple[str, ...] | None:
        """None: every group the flow chooses."""
        return texts(self.call, "groups", ()) or None


@dataclass(frozen=True)
class _AtTarget(ReadOnlyAction):
    """A step that changes nothing, and is about the cluster gone to."""

    step: Back

    def cluster_id(self) -> str:
        return cluster_id(self.step.target)


class VerifyWorkers(_AtTarget):
    """Workers of the flow back run, and nothing stands in their way."""

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        settings, moving = self.step.settings, self.step.flow
        with Cluster(settings.clusters[moving.target]) as target:
            members = target.group_members(worker_group(moving))
        if not members:
            file = settings.path.name
            raise UsageError(
                f"{moving} is not being mirrored",
                f"no worker of it is a member of {worker_group(moving)} on {moving.target}",
                f"Set {moving}.enabled = true in {file} and run: drlib mirror {file}.",
            )
        with Cluster(settings.clusters[moving.source]) as source:
            topics = mirrored_topics(source, settings.flow(moving.source, moving.target))
        refuse_unexplained(settings, moving, topics)
        return {"workers": len(members), "topics": len(topics), "flow": str(moving)}


class WaitCaughtUp(_AtTarget):
    """The flow back has mirrored what there is, but for `offsets` while applications go on writing."""

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        return self.wait(abort, number(self.step.call, "offsets", 0))

    def wait(self, abort: Abort, most: float) -> Evidence:
        """Until at most `most` offsets are missing. Raises `Unreachable` after `within_s` seconds."""
        settings, moving = self.step.settings, self.step.flow
        within_s = number(self.step.call, "within_s", 120)
        began = time.monotonic()
        with Cluster(settings.clusters[moving.source]) as source:
            topics = mirrored_topics(source, settings.flow(moving.source, moving.target))
            every = [TopicPartition(name, n) for name, count in topics.items() for n in range(count)]
            while True:
                found = behind(settings, moving, source, every)
                if found.offsets <= most:
                    return {
                        "behind_offsets": found.offsets,
                        "partitions": len(every),
                        "waited_seconds": round(time.monotonic() - began, 3),
                    }
                if time.monotonic() - began > within_s:
                    raise Unreachable(
                        f"{moving} has not caught up",
                        f"after {within_s:g} s {found.offsets} offsets are missing, in {min(found.missing)} and others",
                        f"Look what holds it up: drlib status {settings.path.name}.",
                    )
                abort.wait(LOOK_S)


@dataclass(frozen=True)
class TranslateBack:
    """Puts groups on the cluster gone to where they are to go on. They must not run, on either cluster."""

    step: Back

    @property
    def entity(self) -> str:
        return f"positions of groups that moved from {self.step.flow.source} to {self.step.flow.target}"

    def observe(self) -> Sequence[Fact]:
        return (Fact(self.entity, None if self._kept() is None else "translated"),)

    def changes(self, observed: Sequence[Fact]) -> Changes:
        before = {fact.entity: fact.value for fact in observed}[self.entity]
        return () if before == "translated" else (Change(self.entity, before, "translated"),)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        """Raises `Deviated` for a position that is not exact, or that somebody moved, and `GroupNotEmpty`."""
        settings, moving = self.step.settings, self.step.flow
        moves = self._kept()
        if moves is None:
            groups = groups_of(settings, moving, self.step.groups)
            known = read_flow_pair(settings, moving)
            abort.check()
            before = group_writing.standing(settings.clusters[moving.target], groups)
            found = moves_of(settings, known, groups, before)
            moves = as_moves(found, before)
            show(self.step, moves)
            if not flag(self.step.call, "inexact", False):
                refuse_inexact(found, moving)
            group_writing.refuse_in_use(settings.clusters[moving.target], groups)
            positions.write(self.step.place.run_dir, moving.target, moves, self._use)
        group_writing.write(settings.clusters[moving.target], moves)
        return evidence(moves)

    def probe(self, changes: Changes) -> Reach:
        return group_writing.reached(self.step.settings.clusters[self.step.flow.target], self._kept())

    def undo(self, changes: Changes) -> None:
        """Put back what was there. Raises `GroupNotEmpty` for a group that runs, `Deviated` for one that has run."""
        moves = self._kept()
        if changes and moves is not None:
            group_writing.put_back(self.step.settings.clusters[self.step.flow.target], moves)
            positions.forget(self.step.place.run_dir, self.step.flow.target, self._use)

    def cluster_id(self) -> str:
        return cluster_id(self.step.target)

    @property
    def _use(self) -> str:
        return f"back.{self.step.call.step}"

    def _kept(self) -> tuple[PositionMove, ...] | None:
        return positions.read(self.step.place.run_dir, self.step.flow.target, self._use)


def moves_of(
    settings: MirrorSettings, known: FlowPairState, groups: Collection[str], there: Mapping[str, Positions]
) -> tuple[Move, ...]:
    """Where `groups` stand, as positions on the cluster gone to, where they stand at `there` already."""
    return translate(settings, known, group_positions(settings, known.moving.source, groups), there)


def as_moves(found: Sequence[Move], there: Mapping[str, Positions]) -> tuple[PositionMove, ...]:
    """What is to be written: every position that is known. `there` is what stands there before."""
    moves = []
    for told in (move.translation for move in found):
        what, before = told.translation, there.get(told.group, {}).get(told.target)
        unknown = what.offset is None or what.kind is TranslationKind.UNKNOWN
        moves.append(
            PositionMove(
                told.group,
                told.source,
                told.source_offset,
                told.target,
                None if unknown else what.offset,
                what.kind,
                what.records,
                told.as_of_ms,
                told.metadata,
                None if before is None else before.offset,
                "" if before is None else before.metadata,
                "nobody knows what it is there" if unknown else "",
            )
        )
    return tuple(moves)


def refuse_inexact(moves: Iterable[Move], moving: Flow) -> None:
    """Raises `Deviated` naming the first position that is not exact, and the first group that has not read a mirror out."""
    wrong = [m for m in moves if m.unread or not m.exact]
    doubtful = [m.translation for m in wrong if not m.exact]
    unread = [m for m in wrong if m.unread]
    if unread:
        first = unread[0].translation
        raise Deviated(
            f"{first.group} cannot move to {moving.target} yet",
            f"{unread[0].unread} records of {first.source} are still to be read, and {first.target.topic} on "
            f"{moving.target} would come after what was written since; {len(unread)} partitions are like that",
            f"Let it read {first.source.topic} on {moving.source} to its end first.",
        )
    if doubtful:
        first = doubtful[0]
        raise Deviated(
            f"{first.group} would not go on at its exact record on {moving.target}",
            f"{first.source} at {first.source_offset} is {first.translation.kind.value} ({first.translation.records} records); "
            f"{len(doubtful)} positions are not exact",
            "Allow it with inexact = true, or wait until the mirror has what is missing.",
        )


def show(step: Back, moves: Sequence[PositionMove]) -> None:
    """Keep a row a position, for whoever looks."""
    rows: list[dict[str, Scalar]] = [
        {
            "group": move.group,
            f"on {step.flow.source}": str(move.source),
            "at": move.source_offset,
            f"on {step.flow.target}": str(move.target),
            "goes on at": move.offset,
            "meaning": move.kind.value,
            "records": move.records,
        }
        for move in moves
    ]
    step.show(rows)


def evidence(moves: Sequence[PositionMove]) -> dict[str, Scalar]:
    exact = [move.kind is TranslationKind.EXACT for move in moves]
    return {
        "groups": len({move.group for move in moves}),
        "positions": len(moves),
        "exact_positions": sum(exact),
        "read_again_at_most": sum(move.records for move, is_it in zip(moves, exact, strict=True) if not is_it),
    }
