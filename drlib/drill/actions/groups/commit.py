"""Positions that were decided (`rules.group_moves`), written to one cluster, looked at, and put back: many groups at a time.

Rules: a position that is neither what it was nor what was decided was moved by somebody: it is left, and told before anything
is written. A group with members is refused by name, and the broker's own refusal says the same where one joined meanwhile.
What is put back is what was there before; a group that had nothing there is deleted, and single positions are taken away.
Not for: deciding, and keeping what was decided (`positions`).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from drlib.drill.actions.groups.rules import PositionMove
from drlib.drill.plan.progress import Reach
from drlib.errors import Deviated, DrlibError
from drlib.kafka.admin.bulk_admin import BulkAdmin
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset, GroupState
from drlib.kafka.admin.errors import GroupNotEmpty
from drlib.kafka.admin.group_offsets import Positions, commit_all, committed, take_away
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import TopicPartition
from drlib.runs.waiting import LOOK_S

TIMEOUT_S: Final = 20.0
_HAS_MEMBERS: Final = "UNKNOWN_MEMBER_ID"  # of a commit that is no member's


def standing(cluster: ClusterSettings, groups: Iterable[str]) -> dict[str, Positions]:
    """Where each group stands, empty where it does not. Raises the first group's error."""
    found = committed(cluster, sorted(groups), TIMEOUT_S)
    _raise_first({group: answer if isinstance(answer, DrlibError) else None for group, answer in found.items()})
    return {group: answer for group, answer in found.items() if not isinstance(answer, DrlibError)}


def write(
    cluster: ClusterSettings, moves: Sequence[PositionMove], found: Mapping[str, Positions] | None = None
) -> None:
    """Commit what was decided, each group in one request; `found` is where they stand, where that is known just now.

    Raises `Deviated` for a position that somebody moved, `GroupNotEmpty`, or the first group's error.
    """
    found = standing(cluster, {move.group for move in moves}) if found is None else found
    wanted: dict[str, dict[TopicPartition, CommittedOffset]] = {}
    moved = []
    for move in moves:
        now = _offset(found, move)
        if move.offset is None or now == move.offset:
            continue
        if now != move.before:
            moved.append(move)
        wanted.setdefault(move.group, {})[move.target] = CommittedOffset(move.offset, move.metadata)
    if moved:
        raise changed_by_others(cluster, moved, found)
    _commit(cluster, wanted)


def write_all(cluster: ClusterSettings, wanted: Mapping[str, Positions]) -> None:
    """Commit `wanted` whatever stands there, each group in one request. Raises `GroupNotEmpty`, or the first group's error."""
    _commit(cluster, wanted)


def read_back(cluster: ClusterSettings, moves: Sequence[PositionMove]) -> None:
    """Raises `Deviated` for a position that is not what was decided."""
    found = standing(cluster, {move.group for move in moves})
    moved = [move for move in moves if move.offset is not None and _offset(found, move) != move.offset]
    if moved:
        raise changed_by_others(cluster, moved, found)


def reached(cluster: ClusterSettings, moves: Sequence[PositionMove] | None) -> Reach:
    """How far `write` came with what was decided, None where nothing was; all of it counts as partly, as it is read back."""
    if moves is None:
        return Reach.UNTOUCHED
    found = standing(cluster, {move.group for move in moves})
    wanted = [move for move in moves if move.offset is not None]
    if any(_offset(found, move) not in (move.before, move.offset) for move in wanted):
        return Reach.UNKNOWN
    if all(_offset(found, move) == move.before != move.offset for move in wanted):
        return Reach.UNTOUCHED if wanted else Reach.PARTLY
    return Reach.PARTLY


def put_back(cluster: ClusterSettings, moves: Sequence[PositionMove]) -> None:
    """What was there before. Raises `Deviated` for what somebody moved on, `GroupNotEmpty` for members."""
    written = [move for move in moves if move.offset is not None]
    found = standing(cluster, {move.group for move in written})
    moved = [move for move in written if _offset(found, move) not in (move.before, move.offset)]
    if moved:
        raise changed_by_others(cluster, moved, found)
    back: dict[str, dict[TopicPartition, CommittedOffset]] = {}
    for move in written:
        if move.before is not None:
            back.setdefault(move.group, {})[move.target] = CommittedOffset(move.before, move.before_metadata)
    _commit(cluster, back)
    _take_out(cluster, [move for move in written if move.before is None], found)


def refuse_in_use(cluster: ClusterSettings, groups: Collection[str]) -> None:
    """Raises `GroupNotEmpty` naming those with members. A coordinator that is still loading is asked again."""
    end = time.monotonic() + TIMEOUT_S
    with BulkAdmin(cluster, timeout_s=TIMEOUT_S) as there:
        while True:
            states = there.group_states(groups)
            failed = [state for state in states.values() if isinstance(state, DrlibError)]
            if not failed:
                break
            if not failed[0].retriable or time.monotonic() > end:
                raise failed[0]
            time.sleep(LOOK_S)
    refuse_busy(cluster, [g for g, state in states.items() if state not in (GroupState.ABSENT, GroupState.EMPTY)])


def refuse_busy(cluster: ClusterSettings, groups: Collection[str]) -> None:
    """Raises `GroupNotEmpty` where there are any."""
    if groups:
        names, where = ", ".join(sorted(groups)), cluster.alias
        raise GroupNotEmpty(
            f"groups in use on {where}: {names}",
            "their members own their positions there",
            f"Stop the consumers of {names} on {where}, or leave those groups out.",
        )


def _commit(cluster: ClusterSettings, wanted: Mapping[str, Positions]) -> None:
    answers = commit_all(cluster, wanted, TIMEOUT_S)
    refuse_busy(cluster, [group for group, error in answers.items() if getattr(error, "code", "") == _HAS_MEMBERS])
    _raise_first(answers)


def _take_out(cluster: ClusterSettings, moves: Sequence[PositionMove], found: Mapping[str, Positions]) -> None:
    """Positions that were not there before: a group that had no others is deleted with them."""
    ours: dict[str, set[TopicPartition]] = {}
    for move in moves:
        ours.setdefault(move.group, set()).add(move.target)
    with Cluster(cluster) as there:
        for group, partitions in ours.items():
            if not found[group].keys() - partitions:
                there.delete_group(group)
            elif some := sorted(partitions & found[group].keys()):
                take_away(cluster, group, some, TIMEOUT_S)


def changed_by_others(
    cluster: ClusterSettings, moves: Sequence[PositionMove], found: Mapping[str, Positions]
) -> Deviated:
    move = moves[0]
    return Deviated(
        f"{len(moves)} positions on {cluster.alias} are left as they are",
        f"{move.group} stood at {move.before} in {move.target}, was to be at {move.offset}, and is at "
        f"{_offset(found, move)}: somebody moved it",
        f"Look who uses {move.group} on {cluster.alias}.",
    )


def _offset(found: Mapping[str, Positions], move: PositionMove) -> int | None:
    position = found[move.group].get(move.target)
    return None if position is None else position.offset


def _raise_first(answers: Mapping[str, DrlibError | None]) -> None:
    for error in answers.values():
        if error is not None:
            raise error
