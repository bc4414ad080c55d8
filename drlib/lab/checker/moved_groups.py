"""Where applications were served around a move, and where groups resumed, from the applications' histories alone.

Rules:
- A group's true position is its own last acknowledged commit on the source before it first read on the target (where it did
  not, before the move): what it did between the moment of a fault and the cluster's death counts. The position it resumed at
  is that of the first record it read from the mirror topic. Neither is taken from the mirror, which is what is being compared.
- Records are counted, not offsets subtracted: acknowledged records, by partition.
- A value that the histories do not hold is None: of a group that read nothing more, or a record whose source offset its
  producer never learned.
- An interval ends when nothing was served for `gap_ms`, or when another cluster or topic serves.
Not for: verdicts (`failover`).
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from drlib.lab.checker.history import CommitStatus, History, ProducedStatus
from drlib.model import TopicPartition


@dataclass(frozen=True, slots=True)
class ServedInterval:
    """`records` were served by `where` from `from_ms` to `to_ms`, without a pause."""

    where: str
    from_ms: int
    to_ms: int
    records: int


@dataclass(frozen=True, slots=True)
class ResumedGroup:
    """One group on one partition of the source. `true` is the position that it had committed there.

    `again`: records that the group read again from the mirror topic: those before `true`, and those that it had read on the
    source without committing them. `skipped`: records after it that the
    group passed over. Both are None where it read nothing there, or the source offset of its first record is not known.
    `read_on`: it read from the mirror topic.
    """

    group: str
    partition: TopicPartition
    true: int
    again: int | None
    skipped: int | None
    read_on: bool


def served_intervals(served: Iterable[tuple[int, str]], gap_ms: int) -> tuple[ServedInterval, ...]:
    """Intervals in order of time, from (timestamp in ms, where) of every served record in any order."""
    intervals: list[ServedInterval] = []
    for at_ms, where in sorted(served):
        last = intervals[-1] if intervals else None
        if last is not None and last.where == where and at_ms - last.to_ms <= gap_ms:
            intervals[-1] = ServedInterval(where, last.from_ms, at_ms, last.records + 1)
        else:
            intervals.append(ServedInterval(where, at_ms, at_ms, 1))
    return tuple(intervals)


def resumed_groups(
    history: History, source: str, target: str, topic: str, mirror: str, moved_ms: int
) -> tuple[ResumedGroup, ...]:
    """For each group and partition of `topic` committed on `source` by the move: its true position compared with the first
    record it read of `mirror` on `target` after `moved_ms`."""
    sources: dict[str, tuple[int, int]] = {}
    offsets: dict[int, list[int]] = defaultdict(list)
    for sent in history.produced:
        if sent.status is ProducedStatus.ACKED and (sent.cluster, sent.topic) == (source, topic):
            sources[sent.id] = (sent.partition, sent.offset)
            offsets[sent.partition].append(sent.offset)
    for partition_offsets in offsets.values():
        partition_offsets.sort()
    began: dict[str, int] = {}  # when each group first read on the target
    for read in history.consumed:
        if read.cluster == target and read.at_ms > moved_ms:
            began[read.group] = min(began.get(read.group, read.at_ms), read.at_ms)
    true: dict[tuple[str, int], int] = {}
    for commit in history.committed:
        answered = commit.status is not CommitStatus.UNKNOWN
        in_time = commit.at_ms <= moved_ms or commit.at_ms < began.get(commit.group, 0)
        if answered and in_time and (commit.cluster, commit.topic) == (source, topic):
            true[commit.group, commit.partition] = commit.offset
    on_source = {(r.group, r.id) for r in history.consumed if (r.cluster, r.topic) == (source, topic)}
    first: dict[tuple[str, int], tuple[int, str]] = {}
    repeated: dict[tuple[str, int], set[str]] = defaultdict(set)
    for read in history.consumed:
        if (read.cluster, read.topic) == (target, mirror) and read.at_ms > moved_ms:
            key = (read.group, read.partition)
            first[key] = min(first.get(key, (read.offset, read.id)), (read.offset, read.id))
            origin = sources.get(read.id)
            if origin is None or origin[0] != read.partition:
                continue
            if origin[1] < true.get(key, 0) or (read.group, read.id) in on_source:
                repeated[key].add(read.id)
    groups = []
    for key, position in sorted(true.items()):
        group, partition = key
        origin = sources.get(first[key][1]) if key in first else None
        again = skipped = None
        if origin is not None and origin[0] == partition:
            resumed, committed = (bisect_left(offsets[partition], offset) for offset in (origin[1], position))
            again, skipped = len(repeated[key]), max(0, resumed - committed)
        groups.append(ResumedGroup(group, TopicPartition(topic, partition), position, again, skipped, key in first))
    return tuple(groups)
