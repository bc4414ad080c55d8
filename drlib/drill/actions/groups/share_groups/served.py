"""Observe that moved share groups are read by consumers on the target, for `groups.verify`.

Rules: a group is served when it has acknowledged something since it was moved. One without members, or with nothing to read, is
not observed, with the reason; it fails nothing. What has records to read is waited for, and of groups that are `expected` to
read on also what has none.
Not for: consumer groups (`drlib.drill.actions.groups.verify`).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from drlib.drill.actions.groups.share_groups.move import TIMEOUT_S, ask_states
from drlib.drill.actions.groups.share_groups.rules import ShareMove
from drlib.drill.actions.groups.verify_rules import GroupVerdict, Seen
from drlib.errors import DrlibError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.share_groups import admin
from drlib.kafka.share_groups.messages import DescribedGroup
from drlib.kafka.share_groups.state import ShareState
from drlib.model import TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.waiting import LOOK_S


@dataclass(frozen=True, slots=True)
class SharesSeen:
    """`verdicts` by group."""

    verdicts: dict[str, GroupVerdict]

    @property
    def served(self) -> tuple[str, ...]:
        return tuple(group for group, verdict in self.verdicts.items() if verdict.seen is Seen.SERVED)

    @property
    def not_observed(self) -> dict[str, str]:
        return {
            f"share group {group}": verdict.detail
            for group, verdict in self.verdicts.items()
            if verdict.seen is not Seen.SERVED
        }


def wait_served(
    cluster: ClusterSettings,
    moves: Sequence[ShareMove],
    within_s: float,
    abort: Abort,
    expected: Collection[str] = (),
) -> SharesSeen:
    """Look until every group with records to read is served, for `within_s` at most. Raises what `abort` does."""
    groups = sorted({move.group for move in moves if move.moved})
    began = time.monotonic()
    while True:
        seen = SharesSeen({} if not groups else _look(cluster, groups, moves))
        waiting = [group for group, v in seen.verdicts.items() if must_wait(v.seen, expected=group in expected)]
        if not waiting or time.monotonic() - began >= within_s:
            return seen
        abort.wait(LOOK_S)


def must_wait(seen: Seen, *, expected: bool) -> bool:
    """May the group be seen to read on later? Pure."""
    return seen in (Seen.WAITING, Seen.NO_MEMBERS, Seen.UNKNOWN) or (expected and seen is Seen.IDLE)


def _look(cluster: ClusterSettings, groups: Sequence[str], moves: Sequence[ShareMove]) -> dict[str, GroupVerdict]:
    try:
        listed = admin.listed(cluster, TIMEOUT_S).groups
        described = admin.described(cluster, groups, TIMEOUT_S)
        states, refused = ask_states(cluster, groups)
    except DrlibError as error:
        return dict.fromkeys(groups, GroupVerdict(Seen.UNKNOWN, str(error)))
    found = {}
    for group in groups:
        if group in refused:
            found[group] = GroupVerdict(Seen.UNKNOWN, str(refused[group]))
            continue
        own = [move for move in moves if move.group == group and move.moved]
        read_on = sum(_read_on(move, states.get((group, move.target))) for move in own)
        state = listed[group].state.upper() if group in listed else "EMPTY"
        found[group] = judge(read_on, state != "EMPTY", unread_records(described[group], [move.target for move in own]))
    return found


def judge(read_on: int, has_members: bool, unread: int | None) -> GroupVerdict:
    """What is seen of one group. `unread` None: brokers do not say (before Kafka 4.2). Pure."""
    if read_on:
        return GroupVerdict(Seen.SERVED, f"{read_on:,} offsets acknowledged since it was moved", read_on, unread or 0)
    if unread == 0:
        return GroupVerdict(Seen.IDLE, "it has nothing to read")
    many = "an unknown number of records" if unread is None else f"{unread:,} records"
    if not has_members:
        return GroupVerdict(Seen.NO_MEMBERS, f"it has no members; {many} to read", 0, unread or 0)
    return GroupVerdict(Seen.WAITING, f"it has members, and acknowledged none of {many} yet", 0, unread or 0)


def _read_on(move: ShareMove, state: ShareState | None) -> int:
    """How many offsets are complete beyond what was written."""
    if state is None or move.start is None:
        return 0
    there = state.start - move.start + (state.completed or 0)
    return max(0, there - (move.behind if move.carried or not move.to_write else 0))


def unread_records(described: DescribedGroup | DrlibError, partitions: Sequence[TopicPartition]) -> int | None:
    """How many records of `partitions` a group has still to read; None is unknown. Pure."""
    if isinstance(described, DrlibError):
        return None
    lags = [described.offsets[p].lag for p in partitions if p in described.offsets]
    unknown = None in lags or any(p in described.refused for p in partitions)
    return None if unknown else sum(lag or 0 for lag in lags)
