"""Committed offsets of groups without members on one cluster: read, decided (`rules`), written, and restored.

Every action that moves positions reads and writes them here, many groups at a time.
Rules: an offset that is neither what it was nor what was decided was changed by others: it is left, and named before anything
is written. One between the two is raised, as it would have been if it had been read a moment later: the mirror may synchronize
offsets. A group with members is refused by name, also where the broker refuses because one joined meanwhile.
An undo restores what was committed before; a group that had nothing is deleted, and single offsets are removed.
Not for: the rules of a decision (`rules`), and keeping what was decided (`decided`).
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from drlib.drill.actions.groups.rules import (
    GroupPositions,
    LogBounds,
    PositionMove,
    ahead,
    decide_all,
)
from drlib.drill.actions.parts import Parts
from drlib.drill.plan.progress import Reach
from drlib.errors import Deviated, DrlibError, NoLeader
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset, GroupState, Stretch
from drlib.kafka.admin.errors import ClusterRefused, GroupNotEmpty
from drlib.kafka.admin.group_offsets import Positions, commit_all, committed, delete_offsets
from drlib.kafka.admin.reachability import ClusterService, examine
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import GroupTranslation, TopicPartition, Translation, TranslationKind
from drlib.runs.abort import Abort
from drlib.runs.waiting import LOOK_S

TIMEOUT_S: Final = 20.0
OWNED: Final = "it has members there, which own its positions"
NO_BROKER: Final = -1  # the leader of a partition without one
_HAS_MEMBERS: Final = "UNKNOWN_MEMBER_ID"  # of a commit that is no member's


def committed_positions(cluster: ClusterSettings, groups: Iterable[str]) -> dict[str, Positions]:
    """The committed offsets of each group, empty where it has none. Raises the first group's error."""
    answers = committed(cluster, sorted(groups), TIMEOUT_S)
    _raise_first({group: answer if isinstance(answer, DrlibError) else None for group, answer in answers.items()})
    return {group: answer for group, answer in answers.items() if not isinstance(answer, DrlibError)}


def committed_as_far(
    cluster: ClusterSettings, groups: Iterable[str]
) -> tuple[dict[str, Positions], dict[str, DrlibError]]:
    """The committed offsets of groups whose coordinators answer, and why the others do not: where some are known to be missing,
    they are not waited for. Raises the first group's error where none answers, and one that does not pass."""
    found = examine([cluster], {})[cluster.alias]
    lost = isinstance(found, ClusterService) and found.coordinators_missing[0]
    silent = {NO_BROKER, *found.silent} if isinstance(found, ClusterService) and lost else ()
    answers = committed(cluster, sorted(groups), TIMEOUT_S, silent)
    refused = {g: answer for g, answer in answers.items() if isinstance(answer, DrlibError)}
    if len(refused) == len(answers) or not all(error.retriable for error in refused.values()):
        _raise_first(refused)
    return {g: answer for g, answer in answers.items() if not isinstance(answer, DrlibError)}, refused


def log_bounds(
    cluster: ClusterSettings, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, LogBounds | NoLeader]:
    """Log start and log end of each partition that exists, or that it has no leader to say so. Raises `Unreachable`."""
    with Cluster(cluster, timeout_s=TIMEOUT_S) as admin:
        led = admin.led(partitions)
        asked = [partition for partition, is_led in led.items() if is_led]
        starts, ends = admin.log_starts(asked), admin.log_ends(asked)
    return {p: LogBounds(starts[p], ends[p]) if is_led else NoLeader(p, cluster.alias) for p, is_led in led.items()}


def decide_there(
    cluster: ClusterSettings,
    items: Sequence[GroupTranslation],
    committed: GroupPositions,
    *,
    rewind: bool = False,
    ours: GroupPositions | None = None,
) -> tuple[PositionMove, ...]:
    """Decide every translated position by what the logs of `cluster` have now; `committed`, `rewind` and `ours`: as in
    `decide_all`. Raises `Unreachable`."""
    bounds = log_bounds(cluster, (item.target for item in items))
    markers: frozenset[Stretch] = frozenset()
    found = (ahead(each, bounds.get(each.target), committed.get(each.group, {}).get(each.target)) for each in items)
    if further := set() if rewind else {stretch for stretch in found if stretch is not None}:
        with Cluster(cluster, timeout_s=TIMEOUT_S) as admin:
            markers = admin.without_records(further)
    return decide_all(items, bounds, committed, rewind=rewind, ours=ours, markers=markers)


def write(
    cluster: ClusterSettings, moves: Sequence[PositionMove], positions: Mapping[str, Positions] | None = None
) -> None:
    """Commit what was decided, each group in one request; `positions` are the committed offsets, where they were read just now.

    Raises `Deviated` for an offset that was changed by others, `GroupNotEmpty`, or the first group's error.
    """
    positions = committed_positions(cluster, {move.group for move in moves}) if positions is None else positions
    wanted, moved = _to_write(moves, positions)
    if moved:
        raise changed_by_others(cluster, moved, positions)
    _commit(cluster, wanted)


def _to_write(
    moves: Iterable[PositionMove], positions: Mapping[str, Positions]
) -> tuple[dict[str, dict[TopicPartition, CommittedOffset]], list[PositionMove]]:
    """What is still to be committed, by group; and the moves whose offset was changed by others, which is left."""
    wanted: dict[str, dict[TopicPartition, CommittedOffset]] = {}
    moved = []
    for move in moves:
        now = _offset(positions, move)
        if move.offset is None or now == move.offset:
            continue
        if now == move.before or _between(move, now):
            wanted.setdefault(move.group, {})[move.target] = CommittedOffset(move.offset, move.metadata)
        else:
            moved.append(move)
    return wanted, moved


def _between(move: PositionMove, now: int | None) -> bool:
    """Was it raised since it was decided, and not as far?"""
    return now is not None and move.offset is not None and (move.before or 0) <= now < move.offset


ReadSince = Callable[[Collection[str]], Mapping[tuple[str, TopicPartition], GroupTranslation]]
"""The newest positions of groups on the source, asked now, by group and partition of the target."""


def _of_others(
    moved: Sequence[PositionMove], positions: Mapping[str, Positions], read_since: ReadSince
) -> dict[str, list[PositionMove]]:
    """Those of `moved` that others changed, by group; not those that are further than decided, and that the group has read on
    the source since, as the mirror may synchronize offsets."""
    further = {move for move in moved if (now := _offset(positions, move)) is not None and now > (move.offset or 0)}
    known = read_since({move.group for move in further}) if further else {}
    found: dict[str, list[PositionMove]] = {}
    for move in moved:
        now, since = _offset(positions, move), known.get((move.group, move.target))
        if move not in further or now is None or since is None or now > _most(since.translation):
            found.setdefault(move.group, []).append(move)
    return found


def _most(translation: Translation) -> int:
    """How far a mirror may have put a group at most."""
    bound = translation.records if translation.kind is TranslationKind.BOUNDED else 0
    return -1 if translation.offset is None else translation.offset + bound


def write_unless_used(
    cluster: ClusterSettings, moves: Sequence[PositionMove], read_since: ReadSince = lambda groups: {}
) -> dict[str, str]:
    """As `write` and `read_back`, but a group that others use there, or that the cluster refuses (a missing right, a share
    group of that name), holds up no other: it keeps what it has; why, by group. What is further than decided, and no further
    than `read_since`, is left and nothing of note.

    Raises the first other error, and the first refusal where every group is refused.
    """
    by_group: dict[str, list[PositionMove]] = {}
    for move in moves:
        if move.offset is not None:
            by_group.setdefault(move.group, []).append(move)
    positions = committed_positions(cluster, by_group)
    wanted, moved = _to_write((move for ours in by_group.values() for move in ours), positions)
    changed = _of_others(moved, positions, read_since)
    used: dict[str, DrlibError] = {
        group: changed_by_others(cluster, those, positions) for group, those in changed.items()
    }
    answers = commit_all(cluster, {group: those for group, those in wanted.items() if group not in used}, TIMEOUT_S)
    joined = [group for group, error in answers.items() if getattr(error, "code", "") == _HAS_MEMBERS]
    used |= {group: busy(cluster, [group]) for group in joined}
    refused = {group: e for group, e in answers.items() if isinstance(e, ClusterRefused) and group not in used}
    if refused.keys() < by_group.keys() - used.keys():
        used |= refused
    _raise_first({group: error for group, error in answers.items() if group not in used})
    positions = committed_positions(cluster, by_group)
    for group, error in refused.items():
        if partly := [move for move in by_group[group] if _offset(positions, move) == move.offset != move.before]:
            used[group] = _taken_back(cluster, partly, error)
    ours = [move for group, those in by_group.items() if group not in used for move in those]
    moved = [move for move in ours if _offset(positions, move) != move.offset]
    for group, those in _of_others(moved, positions, read_since).items():
        used[group] = changed_by_others(cluster, those, positions)
    return {group: error.why for group, error in used.items()}


def _taken_back(cluster: ClusterSettings, written: Sequence[PositionMove], refused: DrlibError) -> DrlibError:
    """What to say of a group that was refused for some partitions, and `written` for others, which is taken back."""
    try:
        put_back(cluster, written)
    except DrlibError as error:
        why = f"{refused.why}; {len(written)} of its positions were written, and could not be taken back: {error.why}"
        return Deviated(refused.what, why, refused.remedy)
    return refused


def read_back(cluster: ClusterSettings, moves: Sequence[PositionMove]) -> None:
    """Raises `Deviated` for an offset that is not what was decided."""
    positions = committed_positions(cluster, {move.group for move in moves})
    moved = [move for move in moves if move.offset is not None and _offset(positions, move) != move.offset]
    if moved:
        raise changed_by_others(cluster, moved, positions)


def reached(cluster: ClusterSettings, moves: Sequence[PositionMove] | None) -> Reach:
    """How much of `moves` was written, None where nothing was decided; all written counts as partly, as it is read back."""
    if moves is None:
        return Reach.UNTOUCHED
    wanted = [move for move in moves if move.offset is not None]
    positions = committed_positions(cluster, {move.group for move in wanted})
    if any(_offset(positions, move) not in (move.before, move.offset) for move in wanted):
        return Reach.UNKNOWN
    if all(_offset(positions, move) == move.before != move.offset for move in wanted):
        return Reach.UNTOUCHED if wanted else Reach.PARTLY
    return Reach.PARTLY


def put_back(cluster: ClusterSettings, moves: Sequence[PositionMove]) -> None:
    """Restore what was committed before. Raises `Deviated` for what was changed by others, `GroupNotEmpty` for members: such a
    group is left as it is, and holds up no other."""
    written = [move for move in moves if move.offset is not None]
    positions = committed_positions(cluster, {move.group for move in written})
    moved = [move for move in written if _offset(positions, move) not in (move.before, move.offset)]
    left, parts = {move.group for move in moved}, Parts()
    written = [move for move in written if move.group not in left]
    if moved:
        parts.failed["groups that were changed"] = changed_by_others(cluster, moved, positions)
    back: dict[str, dict[TopicPartition, CommittedOffset]] = {}
    for move in written:
        if move.before is not None and _offset(positions, move) != move.before:
            back.setdefault(move.group, {})[move.target] = CommittedOffset(move.before, move.before_metadata)
    with parts.each("groups that had positions"):
        _commit(cluster, back)
    _remove(cluster, [move for move in written if move.before is None], positions, parts)
    parts.raise_failed()


def refuse_in_use(cluster: ClusterSettings, groups: Collection[str]) -> None:
    """Raises `GroupNotEmpty` naming those with members."""
    refuse_busy(cluster, in_use(cluster, groups))


def in_use(cluster: ClusterSettings, groups: Collection[str]) -> list[str]:
    """Those with members. A coordinator that is still loading is asked again. Raises the first group's error."""
    end = time.monotonic() + TIMEOUT_S
    with Cluster(cluster, timeout_s=TIMEOUT_S) as admin:
        while True:
            states = admin.group_states(groups)
            failed = [state for state in states.values() if isinstance(state, DrlibError)]
            if not failed:
                return [g for g, state in states.items() if state not in (GroupState.ABSENT, GroupState.EMPTY)]
            if not failed[0].retriable or time.monotonic() > end:
                raise failed[0]
            time.sleep(LOOK_S)


def wait_free(cluster: ClusterSettings, groups: Collection[str], abort: Abort, within_s: float) -> float:
    """Wait until none of the groups has members, for at most `within_s`; how long it took, seconds. Raises what `abort` does.

    A cluster that has come back has the members of before its failure until their sessions end (45 s by default). Whether a
    group may be written to is for the commit to say.
    """
    began = time.monotonic()
    with Cluster(cluster, timeout_s=TIMEOUT_S) as admin:
        while GroupState.ACTIVE in admin.group_states(groups).values() and time.monotonic() < began + within_s:
            abort.wait(LOOK_S)
    return time.monotonic() - began


def refuse_busy(cluster: ClusterSettings, groups: Collection[str]) -> None:
    """Raises `GroupNotEmpty` where there are any."""
    if groups:
        raise busy(cluster, groups)


def busy(cluster: ClusterSettings, groups: Collection[str]) -> GroupNotEmpty:
    names, where = ", ".join(sorted(groups)), cluster.alias
    return GroupNotEmpty(
        f"groups in use on {where}: {names}",
        OWNED if len(groups) == 1 else "their members own their positions there",
        f"Stop the consumers of {names} on {where}, or leave those groups out.",
    )


def _commit(cluster: ClusterSettings, wanted: Mapping[str, Positions]) -> None:
    answers = commit_all(cluster, wanted, TIMEOUT_S)
    refuse_busy(cluster, [group for group, error in answers.items() if getattr(error, "code", "") == _HAS_MEMBERS])
    _raise_first(answers)


def _remove(
    cluster: ClusterSettings, moves: Sequence[PositionMove], positions: Mapping[str, Positions], parts: Parts
) -> None:
    """Remove offsets that were not committed before: a group that had no others is deleted with them."""
    by_group: dict[str, set[TopicPartition]] = {}
    for move in moves:
        by_group.setdefault(move.group, set()).add(move.target)
    with Cluster(cluster) as admin:
        for group, partitions in by_group.items():
            with parts.each(group):
                if not positions[group].keys() - partitions:
                    admin.delete_group(group)
                elif some := sorted(partitions & positions[group].keys()):
                    delete_offsets(cluster, group, some, TIMEOUT_S)


def changed_by_others(
    cluster: ClusterSettings, moves: Sequence[PositionMove], positions: Mapping[str, Positions]
) -> Deviated:
    move = moves[0]
    return Deviated(
        f"{len(moves)} positions on {cluster.alias} are left as they are",
        f"{move.group} was at {move.before} in {move.target}, was to be at {move.offset}, and is at "
        f"{_offset(positions, move)}: another client changed it",
        f"Find out who uses {move.group} on {cluster.alias}.",
    )


def _offset(positions: Mapping[str, Positions], move: PositionMove) -> int | None:
    position = positions[move.group].get(move.target)
    return None if position is None else position.offset


def _raise_first(answers: Mapping[str, DrlibError | None]) -> None:
    for error in answers.values():
        if error is not None:
            raise error
