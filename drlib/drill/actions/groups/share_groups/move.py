"""Share groups of a flow on the target: what they have there, and start offsets and complete records written as decided.

Every step that moves positions of groups moves those of share groups with this.
Rules: what is decided (`rules`) is on disk before anything is written, and a resumed step completes exactly that. A group that
cannot be moved (it has members on the target, was used there, has no certain position, may not be described or written) is left
as a whole and named, and the others are moved; where the caller refuses such groups (`Chosen.refuses`), nothing is written.
First start offsets are set; then what is complete behind them is written, which needs ClusterAction on the target: where that
is refused, the move is made all the same. What will be delivered again is then read from the target, and compared.
Of a partition that is not known on either cluster, as it has no leader, nothing is assumed: its group is left, and named.
Longer than most modules: writing, verifying and undoing are by the same states and the same errors of groups.
Not for: consumer groups (`drlib.drill.actions.groups`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from drlib import clock
from drlib.config.both_ways.shared_topics import all_shared
from drlib.config.settings import MirrorSettings
from drlib.drill.actions.groups import decided
from drlib.drill.actions.groups.commit import OWNED, log_bounds
from drlib.drill.actions.groups.commit import put_back as put_groups_back
from drlib.drill.actions.groups.rules import PositionMove, blocked, named
from drlib.drill.actions.groups.share_groups import rules
from drlib.drill.actions.groups.share_groups.rules import ShareMove
from drlib.drill.actions.moving.positions import SharedPositions
from drlib.drill.actions.parts import Parts
from drlib.drill.plan.progress import Reach
from drlib.drill.step.step_output import DETAILS, read_lines
from drlib.errors import Deviated, DrlibError, UsageError
from drlib.files import remove_stored
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset
from drlib.kafka.admin.errors import ClusterRefused, GroupNotEmpty
from drlib.kafka.protocol.error_codes import BrokerError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.share_groups import admin
from drlib.kafka.share_groups.names import PROTOCOL
from drlib.kafka.share_groups.state import Interval, ShareState, missing
from drlib.mirror.offsets.translation.two_way import read_flow_pair, translate
from drlib.mirror.share_groups.known import KnownShares, known_shares, read_shares
from drlib.mirror.share_groups.translate import Boundaries, group_of, translate_shares
from drlib.model import Flow, GroupTranslation, TopicPartition, Translation, TranslationKind

TIMEOUT_S: Final = 20.0
PER_LINE: Final = 100
_MOVES: Final = TypeAdapter(tuple[ShareMove, ...])
_FREE: Final = frozenset({"EMPTY", "DEAD"})
States = Mapping[tuple[str, TopicPartition], ShareState]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which share groups are moved, and which of them may be moved in part. `refuses`: is one that cannot be moved an error?"""

    moves: Callable[[str], bool]
    leaves: Callable[[str], bool] = lambda _: False
    rewind: bool = False
    refuses: bool = False


@dataclass(frozen=True, slots=True)
class DecidedShares:
    """`unknown`: groups that the source does not describe and of which no checkpoint is known, with the reason."""

    moves: tuple[ShareMove, ...]
    unknown: Mapping[str, str] = field(default_factory=dict)


def decide(
    settings: MirrorSettings,
    flow: Flow,
    known: KnownShares,
    translated: Callable[[Boundaries], Iterable[GroupTranslation]],
    chosen: Chosen,
) -> DecidedShares:
    """Decide every partition of the chosen share groups. Where they are to be refused, raises what prevents the move."""
    flow_settings, target = settings.flow(flow.source, flow.target), settings.clusters[flow.target]
    policy, now_ms = flow_settings.policy, clock.now_ms()

    def crosses(topic: str) -> bool:
        return flow_settings.mirrors_topic(topic) or policy.source_of(topic) == flow.target

    unknown = {group: error for group, error in known.refused.items() if chosen.moves(group)}
    unread = [
        rules.unread(
            group, at, TopicPartition(policy.downstream_topic(flow, at.topic), at.partition), error.why, now_ms
        )
        for (group, at), error in known.unread.items()
        if chosen.moves(group) and crosses(at.topic)
    ]
    if chosen.refuses:
        _raise_first({g: error for g, error in known.incomplete(crosses).items() if chosen.moves(g)})
    reasons = {group: error.why for group, error in unknown.items()}
    positions = {key: each for key, each in known.positions.items() if chosen.moves(key[0])}
    unset = [key for key in known.unset if chosen.moves(key[0]) and flow_settings.mirrors_topic(key[1].topic)]
    translations = translate_shares(positions, translated)
    if not translations and not unset and not unread:
        return DecidedShares((), reasons)
    groups = sorted({*(i.group for i in translations), *(i.group for i in unread), *(group for group, _ in unset)})
    there = admin.listed(target, TIMEOUT_S)
    prevented: dict[str, DrlibError] = {}
    states: States = {}
    if there.supported:
        states, refused = ask_states(target, groups)
        prevented = refused | _others(target, there, groups)
        if chosen.refuses:
            _raise_first(prevented)
    bounds = log_bounds(target, (item.target for item in translations))
    moves = [
        rules.decide(item, bounds.get(item.target), states.get((item.group, item.target)), rewind=chosen.rewind)
        for item in translations
    ]
    moves += unread
    if not there.supported:
        return DecidedShares(tuple(map(rules.unsupported, moves)), reasons)
    if chosen.refuses and (stuck := blocked(moves)):
        raise UsageError(
            f"{len(stuck)} share groups have positions that cannot be moved to {flow.target}",
            named(stuck),
            "Find out who uses them there.",
        )
    left = rules.leave_blocked(moves, {group: error.why for group, error in prevented.items()}, chosen.leaves)
    return DecidedShares((*left, *_unset(settings, flow, unset)), reasons)


def _unset(settings: MirrorSettings, flow: Flow, unset: Sequence[tuple[str, TopicPartition]]) -> list[ShareMove]:
    if not unset:
        return []
    policy = settings.flow(flow.source, flow.target).policy
    resets: Mapping[str, str] = {}
    with contextlib.suppress(DrlibError):  # it is said that it is not known
        resets = admin.reset_policies(settings.clusters[flow.source], {group for group, _ in unset}, TIMEOUT_S)
    now_ms = clock.now_ms()
    return [
        rules.unset(
            group,
            partition,
            TopicPartition(policy.remote_topic(flow.source, partition.topic), partition.partition),
            resets.get(group, ""),
            now_ms,
        )
        for group, partition in unset
    ]


def read_states(cluster: ClusterSettings, groups: Collection[str]) -> dict[tuple[str, TopicPartition], ShareState]:
    """What the groups have on a cluster, where they have a start offset. Raises `Unreachable`, and a group's own error."""
    states, refused = ask_states(cluster, groups)
    _raise_first(refused)
    return states


def ask_states(
    cluster: ClusterSettings, groups: Collection[str]
) -> tuple[dict[tuple[str, TopicPartition], ShareState], dict[str, DrlibError]]:
    """The same, and the error of each group that has one, in a partition too. Raises `Unreachable`."""
    known = read_shares(cluster, frozenset(groups).__contains__, TIMEOUT_S)
    return {key: each.state for key, each in known.positions.items()}, known.incomplete()


def write(cluster: ClusterSettings, moves: Sequence[ShareMove], *, refuses: bool = False) -> tuple[ShareMove, ...]:
    """Write what is not written yet; `moves` with what could not be written, and why, once it was read back.

    Raises `Unreachable`; with `refuses` the first group's error: `Deviated` where others used it, `GroupNotEmpty`, or its own.
    """
    groups = {move.group for move in moves if move.start is not None}
    if not groups:
        return tuple(moves)
    states, failed = ask_states(cluster, groups)
    failed |= _used(cluster, moves, states, failed)
    todo = _by_group(
        move for move in moves if move.start is not None and move.group not in failed and _to_do(move, states)
    )
    failed |= _others(cluster, admin.listed(cluster, TIMEOUT_S), todo)
    if refuses:
        _raise_first(failed)
    reasons: dict[tuple[str, TopicPartition], str] = {}
    for group, those in [(group, those) for group, those in todo.items() if group not in failed]:
        starts = {m.target: m.start for m in those if m.start is not None and _start(states, m) != m.start}
        try:
            if starts:
                admin.set_starts(cluster, group, starts, TIMEOUT_S)
        except (GroupNotEmpty, ClusterRefused, BrokerError) as error:
            failed[group] = error
            continue
        wanted = {m.target: (m.start, m.complete) for m in those if m.start is not None and m.complete}
        answers = _write_complete(cluster, group, wanted)
        reasons |= {(group, target): why for target, why in answers.items()}
    states, refused = ask_states(cluster, groups - failed.keys())
    failed |= refused
    failed |= _used(cluster, moves, states, failed, written=True)
    if refuses:
        _raise_first(failed)
    return rules.after_writing(moves, reasons, {group: error.why for group, error in failed.items()})


def _to_do(move: ShareMove, states: States) -> bool:
    """Is anything of it not on the target yet?"""
    state = states.get((move.group, move.target))
    return state is None or state.start != move.start or bool(missing(move.complete, state.complete or ()))


def _write_complete(
    cluster: ClusterSettings, group: str, wanted: Mapping[TopicPartition, tuple[int, tuple[Interval, ...]]]
) -> dict[TopicPartition, str]:
    """By partition: why it was not written, empty where it was. What is not written is delivered again, and no error."""
    try:
        return admin.write_complete(cluster, group, wanted, TIMEOUT_S)
    except DrlibError as error:
        return dict.fromkeys(wanted, error.why)


def delivered_again(cluster: ClusterSettings, moves: Sequence[ShareMove]) -> dict[str, int | None]:
    """By group: how many complete records the target itself will deliver again, as its state says; None where it does not."""
    written = [move for move in moves if move.moved]
    states = ask_states(cluster, {move.group for move in written})[0] if written else {}
    found: dict[str, int | None] = {}
    for move in written:
        state = states.get((move.group, move.target))
        total = found.get(move.group, 0)
        if state is None or state.complete is None or move.unknown != 0 or total is None:
            found[move.group] = None
            continue
        begun = ((0, state.start), *state.complete)
        found[move.group] = total + missing(move.complete, begun)
    return found


def reached(cluster: ClusterSettings, moves: Sequence[ShareMove] | None) -> Reach:
    """How much of `moves` was written; all written counts as partly, as it is read back."""
    if not (written := [move for move in moves or () if move.moved]):
        return Reach.UNTOUCHED
    states, refused = ask_states(cluster, {move.group for move in written})
    now = [(move, _start(states, move)) for move in written if move.group not in refused]
    if any(start not in (move.before, move.start) for move, start in now):
        return Reach.UNKNOWN
    none = not refused and all(start == move.before != move.start for move, start in now)
    return Reach.UNTOUCHED if none else Reach.PARTLY


def put_back(cluster: ClusterSettings, moves: Sequence[ShareMove]) -> None:
    """Restore what was there before. Raises `Deviated` for what was used since, `GroupNotEmpty` for members.

    Such a group is left as it is, and holds up no other. What could not be written is restored where something of it was.
    """
    moves = [move for move in moves if move.start is not None]
    if not moves:
        return
    states, refused = ask_states(cluster, {move.group for move in moves})
    by_group = _by_group(m for m in moves if m.moved or _start(states, m) == m.start != m.before)
    by_group = {group: those for group, those in by_group.items() if group not in refused}
    parts = Parts()
    parts.failed |= refused | _others(cluster, admin.listed(cluster, TIMEOUT_S), by_group)
    parts.failed |= _used(cluster, [move for those in by_group.values() for move in those], states, parts.failed)
    for group, those in by_group.items():
        if group not in parts.failed:
            with parts.each(group):
                _put_group_back(cluster, group, those, states)
    parts.raise_failed()


def _put_group_back(cluster: ClusterSettings, group: str, those: Sequence[ShareMove], states: States) -> None:
    gone = {move.target.topic for move in those if move.before is None and (group, move.target) in states}
    if gone:
        admin.delete_starts(cluster, group, sorted(gone), TIMEOUT_S)
    back = [m for m in those if m.before is not None and (m.sets_start or m.to_write or m.target.topic in gone)]
    starts = {move.target: move.before for move in back if move.before is not None}
    if starts:
        admin.set_starts(cluster, group, starts, TIMEOUT_S)
    complete = {m.target: (m.before, m.before_complete) for m in back if m.before is not None and m.before_complete}
    _write_complete(cluster, group, complete)
    if gone and not any(key[0] == group for key in read_states(cluster, [group])):
        with Cluster(cluster) as target:
            target.delete_group(group)


def reached_with(of_groups: Reach, cluster: ClusterSettings, moves: Sequence[ShareMove] | None) -> Reach:
    """How far a step came that moves consumer groups, `of_groups` of them, and share groups."""
    if not moves or of_groups is Reach.UNKNOWN:
        return of_groups
    of_shares = reached(cluster, moves)
    return of_groups if of_shares is of_groups else Reach.UNKNOWN if of_shares is Reach.UNKNOWN else Reach.PARTLY


def take_back(
    cluster: ClusterSettings,
    decisions: tuple[Path, str, str],
    moves: Sequence[PositionMove] | None,
    shares: Sequence[ShareMove] | None,
) -> None:
    """Put consumer groups and share groups back, and delete the `decisions` about them (run folder, target, use).

    What was not decided is None. Raises as `put_back`, once both were tried.
    """
    parts = Parts()
    if shares is not None:
        with parts.each("share groups"):
            put_back(cluster, shares)
            forget(*decisions)
    if moves is not None:
        with parts.each("groups"):
            put_groups_back(cluster, moves)
            decided.forget(*decisions)
    parts.raise_failed()


def decide_planned(settings: MirrorSettings, moving: Flow, chosen: Chosen) -> DecidedShares:
    """Of two clusters that both answer, by both maps of the pair: a group returns behind what it had read before. Blocks.

    Raises as `decide`.
    """
    known = known_shares(settings, moving, alive=True, timeout_s=TIMEOUT_S)
    groups = {group for group, _ in known.positions if chosen.moves(group)}
    if not groups:
        return decide(settings, moving, known, lambda _: (), chosen)
    target = settings.clusters[moving.target]
    before = ask_states(target, groups)[0] if admin.listed(target, TIMEOUT_S).supported else {}

    def translated(asked: Boundaries) -> Iterable[GroupTranslation]:
        positions: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        for (name, partition), at in asked.items():
            positions.setdefault(name, {})[partition] = CommittedOffset(at.offset)
        previous: dict[str, dict[TopicPartition, CommittedOffset]] = {
            name: {p: CommittedOffset(state.start) for (group, p), state in before.items() if group == group_of(name)}
            for name in positions
        }
        if all_shared(settings, moving):
            return SharedPositions(settings, moving, previous).translated(positions)
        pair = read_flow_pair(settings, moving)
        found = [t for t in translate(settings, pair, positions, previous) if (t.group, t.source) in asked]
        answered = {(item.group, item.source) for item in found}
        policy, now_ms = settings.flow(moving.source, moving.target).policy, clock.now_ms()
        for (name, partition), at in asked.items():
            back = pair.reverse.of_target(partition.topic)
            mirrored = settings.flow(moving.source, moving.target).mirrors_topic(partition.topic)
            if (name, partition) in answered or (back is None and not mirrored):
                continue
            topic = policy.remote_topic(moving.source, partition.topic) if back is None else back.source_topic
            there = TopicPartition(topic, partition.partition)
            at_start = Translation(None, TranslationKind.NEVER_MIRRORED)  # a consumer group needs no position there
            found.append(GroupTranslation(name, partition, at.offset, there, at_start, now_ms))
        return found

    return decide(settings, moving, known, translated, chosen)


def with_members(cluster: ClusterSettings, moves: Sequence[ShareMove]) -> tuple[str, ...]:
    """Share groups that have members on the cluster they leave: what they acknowledge from now on is delivered again."""
    there = admin.listed(cluster, TIMEOUT_S).groups
    groups = sorted({move.group for move in moves})
    return tuple(g for g in groups if g in there and there[g].state.upper() not in _FREE)


def keep(run_dir: Path, target: str, use: str, moves: Sequence[ShareMove]) -> None:
    decided.write_lines(_path(run_dir, target, use), _MOVES, moves, PER_LINE)


def kept(run_dir: Path, target: str, use: str) -> tuple[ShareMove, ...] | None:
    """None when nothing was decided yet. Raises `UsageError` for a file that was changed."""
    return read_lines(_path(run_dir, target, use), _MOVES)


def kept_by_any(run_dir: Path, target: str) -> tuple[ShareMove, ...]:
    """What all steps of the run decided for `target`. Raises as `kept`."""
    paths = sorted((run_dir / DETAILS).glob(f"positions.share.*.{target}.json"))
    return tuple(move for path in paths for move in read_lines(path, _MOVES) or ())


def forget(run_dir: Path, target: str, use: str) -> None:
    remove_stored(_path(run_dir, target, use))


def _by_group(moves: Iterable[ShareMove]) -> dict[str, list[ShareMove]]:
    by_group: dict[str, list[ShareMove]] = {}
    for move in moves:
        by_group.setdefault(move.group, []).append(move)
    return by_group


def _others(cluster: ClusterSettings, there: admin.Listed, groups: Collection[str]) -> dict[str, DrlibError]:
    """Groups with members, and those of another protocol, with the error of each."""
    found: dict[str, DrlibError] = {}
    for group in groups:
        if (each := there.groups.get(group)) is None:
            continue
        if each.protocol_type != PROTOCOL:
            found[group] = UsageError(
                f"share group {group} cannot be moved to {cluster.alias}",
                f"{group} has another protocol there",
                f"Delete it there, or leave it out: kafka-groups.sh --bootstrap-server {cluster.bootstrap_servers[0]} --list.",
            )
        elif each.state.upper() not in _FREE:
            found[group] = GroupNotEmpty(
                f"share group in use on {cluster.alias}: {group}",
                OWNED,
                f"Stop the consumers of {group} on {cluster.alias}, or leave that group out.",
            )
    return found


def _used(
    cluster: ClusterSettings,
    moves: Iterable[ShareMove],
    states: States,
    known: Collection[str] = (),
    *,
    written: bool = False,
) -> dict[str, DrlibError]:
    """Groups that have neither what was there nor what was decided, without `known`; `written`: nor the former."""
    found: dict[str, DrlibError] = {}
    for move in moves:
        start = _start(states, move)
        if move.start is None or move.group in known or start == move.start or (not written and start == move.before):
            continue
        found[move.group] = Deviated(
            f"{move.group} is left as it is on {cluster.alias}",
            f"it was at {move.before} in {move.target}, was to be at {move.start}, and is at {start}: it was used there",
            f"Find out who uses share group {move.group} on {cluster.alias}.",
        )
    return found


def _raise_first(errors: Mapping[str, DrlibError]) -> None:
    for group in sorted(errors):
        raise errors[group]


def _start(states: States, move: ShareMove) -> int | None:
    state = states.get((move.group, move.target))
    return None if state is None else state.start


def _path(run_dir: Path, target: str, use: str) -> Path:
    return run_dir / DETAILS / f"positions.share.{use}.{target}.json"
