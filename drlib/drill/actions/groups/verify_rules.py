"""Decide from looks at the target which applications are served: groups that read, topics that are written to. Pure.

Rules: a group is served when a committed position is past the one it was moved to. Nothing is concluded from absence: a group
without members, or without a record to read, was not observed, with the reason. Members that have settled (the group was
STABLE with the same members and assignments for `SETTLED_S`, as cooperative rebalances go through STABLE with partitions
assigned to no member) and are assigned no partition of a topic with unread records of the group do not read that topic.
Not for: asking the cluster (`verify`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from drlib.drill.actions.groups.rules import PositionMove
from drlib.kafka.admin.descriptions import GroupDescription
from drlib.kafka.net.cluster_client import TopicMetadata
from drlib.model import TopicPartition
from drlib.runs.check import Check, Verdict

CHECK: Final = "applications are served"
SETTLED_S: Final = 3.0
STABLE: Final = "STABLE"
WITHOUT_MEMBERS: Final = frozenset({"EMPTY", "DEAD"})


class Seen(StrEnum):
    """What was seen of one application; `waits` are those that another look may settle."""

    SERVED = "served"
    WAITING = "waiting"  # it has members and records to read, and has not read yet
    NO_MEMBERS = "no members"  # it has records to read, or had members before it was moved
    STOPPED = "stopped"  # no members, and nothing to read
    IDLE = "nothing to read"
    MISSES = "misses topics"
    UNKNOWN = "no answer"

    @property
    def failed(self) -> bool:
        """What fails the step where it is so at the deadline."""
        return self in (Seen.WAITING, Seen.MISSES, Seen.UNKNOWN)


@dataclass(frozen=True, slots=True)
class GroupLook:
    """One look at a group: its committed offsets, and members. `settled_s`: how long members and assignments are the same
    and the state STABLE. `error` is why it is not known. `had_members`: before it was moved."""

    committed: Mapping[TopicPartition, int]
    description: GroupDescription | None
    settled_s: float = 0.0
    error: str = ""
    had_members: bool = False


@dataclass(frozen=True, slots=True)
class GroupVerdict:
    """`read_on`: records past the moved positions; `unread`: those left, of topics it reads; `missed`: topics with unread
    records that no member is assigned."""

    seen: Seen
    detail: str
    read_on: int = 0
    unread: int = 0
    missed: tuple[str, ...] = ()


def served_check(failed: Mapping[str, str], unseen: Sequence[str], served: int, watched: int) -> Check:
    """The check of all that was watched: `failed` with the reasons, `unseen` with the reasons, `served` of `watched`."""
    seen = f"{served} of {watched} observed"
    if failed:
        return Check(CHECK, Verdict.FAIL, "; ".join(f"{name}: {why}" for name, why in sorted(failed.items())[:5]))
    if unseen:
        said = seen if served else "not checked"
        return Check(CHECK, Verdict.CONDITIONS, f"{said}; not observed: {'; '.join(unseen[:5])}")
    if not watched:
        return Check(CHECK, Verdict.CONDITIONS, "not checked: no group was moved, and no topic is named in `written`")
    return Check(CHECK, Verdict.PASS, seen)


def moved_to(moves: Sequence[PositionMove], group: str) -> dict[TopicPartition, int]:
    """Where `group` begins on the target: what was committed, or was there and left."""
    begins = {}
    for move in moves:
        at = move.before if move.offset is None else move.offset
        if move.group == group and at is not None:
            begins[move.target] = at
    return begins


def own_positions(
    moves: Sequence[PositionMove], group: str, committed: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """What of the offsets that `group` has `committed` on the target it is to read on from.

    Of a group that was moved: in topics that it was moved to, and local ones of the names that it read on the source. Another
    topic that it once read there is none of the application's. Of a group that the run did not move: all.
    """
    ours = [move for move in moves if move.group == group]
    topics = {topic for move in ours for topic in (move.source.topic, move.target.topic)}
    return {p: at for p, at in committed.items() if not ours or p.topic in topics}


def judge(begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], look: GroupLook) -> GroupVerdict:
    """What is seen of one group.

    `begins`: its positions when the watch began, by partition of the target, of all topics it is to read; `ends`: the offset
    after the last record there (not a marker), as far as it is known.
    """
    if look.error or look.description is None:
        return GroupVerdict(Seen.UNKNOWN, look.error or "it was not described")
    now = {p: look.committed.get(p, begin) for p, begin in begins.items()}
    read_on = sum(max(0, now[p] - begin) for p, begin in begins.items())
    left = {p: ends[p] - now[p] for p in begins if p in ends and ends[p] > now[p]}
    unread = sum(left.values())
    members = look.description.members
    aside = _not_assigned(begins, now, left, look.description)
    if aside:
        topics = ", ".join(f"{topic} ({_of(left, topic):,} unread)" for topic in aside)
        if look.settled_s >= SETTLED_S:
            return GroupVerdict(
                Seen.MISSES, f"its members are assigned no partition of {topics}", read_on, unread, aside
            )
        return GroupVerdict(Seen.WAITING, f"no member is assigned {topics} yet", read_on, unread)
    untouched = {p.topic for p in left} - {p.topic for p, begin in begins.items() if now[p] > begin}
    if read_on and not members and untouched:  # who read may not be described yet; which topics it reads is not known
        seen = Seen.NO_MEMBERS if look.description.state in WITHOUT_MEMBERS else Seen.WAITING
        detail = f"{read_on:,} offsets read on, and no members now; nothing of {', '.join(sorted(untouched))} was read"
        return GroupVerdict(seen, detail, read_on, unread)
    if read_on:
        return GroupVerdict(Seen.SERVED, f"{read_on:,} offsets read on", read_on, unread)
    if not members and look.description.state in WITHOUT_MEMBERS:
        if unread:
            return GroupVerdict(Seen.NO_MEMBERS, f"it has no members; {unread:,} unread", 0, unread)
        if look.had_members:
            return GroupVerdict(Seen.NO_MEMBERS, "it has no members, and had some before it was moved")
        return GroupVerdict(Seen.STOPPED, "it has no members and nothing to read")
    if not unread:
        return GroupVerdict(Seen.IDLE, f"{len(members)} members, nothing to read")
    return GroupVerdict(
        Seen.WAITING, f"{len(members)} members, {unread:,} unread, state {look.description.state}", 0, unread
    )


def _not_assigned(
    begins: Mapping[TopicPartition, int],
    now: Mapping[TopicPartition, int],
    left: Mapping[TopicPartition, int],
    described: GroupDescription,
) -> tuple[str, ...]:
    """Topics with unread records of which members are assigned nothing, and which were not read on meanwhile."""
    if not described.members:
        return ()
    assigned = {p.topic for member in described.members for p in member.assignment}
    read = {p.topic for p, begin in begins.items() if now[p] > begin}
    return tuple(sorted({p.topic for p in left} - assigned - read))


def _of(left: Mapping[TopicPartition, int], topic: str) -> int:
    return sum(count for p, count in left.items() if p.topic == topic)


def settled(before: GroupDescription | None, now: GroupDescription) -> bool:
    """Has nothing moved between members since the look before?"""
    if before is None or before.state != STABLE or now.state != STABLE or not now.members:
        return False
    return frozenset(before.members) == frozenset(now.members)


@dataclass(frozen=True, slots=True)
class Observed:
    """The bounds of the moment at which an application was first seen to be served: after the one look, by the other."""

    after_ms: int
    by_ms: int


def done(
    verdicts: Mapping[str, Seen], unwritten: Collection[str], waited_s: float, members_s: float, deadline_s: float
) -> bool:
    """Can the watch end? Groups without members are waited for `members_s`, everything else that may come `deadline_s`.

    Groups with nothing to read, and those that have stopped, are not waited for.
    """
    if waited_s >= max(deadline_s, members_s):
        return True
    late = waited_s >= deadline_s
    if not late and (unwritten or any(seen in (Seen.WAITING, Seen.UNKNOWN) for seen in verdicts.values())):
        return False
    return waited_s >= members_s or Seen.NO_MEMBERS not in verdicts.values()


def unwritable(
    wanted: Collection[str], topics: Mapping[str, TopicMetadata], least_in_sync: Mapping[str, int]
) -> dict[str, str]:
    """By topic of `wanted`: why no producer can write to all of it; `least_in_sync` is `min.insync.replicas`."""
    reasons = {}
    for name in wanted:
        topic = topics.get(name)
        if topic is None or topic.error_code or not topic.partitions:
            reasons[name] = "it does not exist"
            continue
        headless = [n for n, p in sorted(topic.partitions.items()) if p.leader < 0]
        if headless:
            reasons[name] = f"partitions {_few(headless)} have no leader"
            continue
        least = least_in_sync.get(name, 1)
        short = [n for n, p in sorted(topic.partitions.items()) if len(p.isr) < least]
        if short:
            reasons[name] = f"partitions {_few(short)} have fewer than {least} replicas in sync (min.insync.replicas)"
    return reasons


def _few(numbers: Sequence[int]) -> str:
    more = f" and {len(numbers) - 5} more" if len(numbers) > 5 else ""
    return ", ".join(str(n) for n in numbers[:5]) + more
