"""Where applications were served around a move, and where groups really went on, from nothing but what they wrote down.

Rules:
- The truth of a group is its own last acknowledged commit on the source before it moved; where it went on is what it read from
  the mirror topic. Neither is taken from the mirror, which is what both are held against.
- Records are counted, offsets never subtracted: those that producers were told of, by partition.
- What histories do not say is None: a group that found nothing left to read, a record whose place on the source nobody heard.
- A stretch ends where nothing was served for `gap_ms`, or where it is served elsewhere.
Not for: verdicts (`rules.checker`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from drlib.lab.checker.history import CommitStatus, History, ProducedStatus
from drlib.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Stretch:
    """`records` were served by `where` from `from_ms` to `to_ms`, without a pause."""

    where: str
    from_ms: int
    to_ms: int
    records: int


@dataclass(frozen=True, slots=True)
class WentOn:
    """One group on one partition of the source. `true` is the position it had committed there.

    `again`: how many records before it the group read again, from the mirror topic. `skipped`: how many behind it the group
    passed over. Both None where it read nothing there, or nobody knows which record it began with.
    """

    group: str
    partition: TopicPartition
    true: int
    again: int | None
    skipped: int | None
    read_on: bool


def stretches(served: Iterable[tuple[int, str]], gap_ms: int) -> tuple[Stretch, ...]:
    """(moment, where) of everything served, in any order, as stretches in theirs."""
    found: list[Stretch] = []
    for at_ms, where in sorted(served):
        last = found[-1] if found else None
        if last is not None and last.where == where and at_ms - last.to_ms <= gap_ms:
            found[-1] = Stretch(where, last.from_ms, at_ms, last.records + 1)
        else:
            found.append(Stretch(where, at_ms, at_ms, 1))
    return tuple(found)


def went_on(history: History, source: str, target: str, topic: str, mirror: str, moved_ms: int) -> tuple[WentOn, ...]:
    """Every group's partitions of `topic` that it had committed on `source` by `moved_ms`, held against the first it read of
    `mirror` on `target` after that."""
    places: dict[str, tuple[int, int]] = {}
    offsets: dict[int, list[int]] = defaultdict(list)
    for sent in history.produced:
        if sent.status is ProducedStatus.ACKED and (sent.cluster, sent.topic) == (source, topic):
            places[sent.id] = (sent.partition, sent.offset)
            offsets[sent.partition].append(sent.offset)
    for one in offsets.values():
        one.sort()
    true: dict[tuple[str, int], int] = {}
    for said in history.committed:
        heard = said.status is not CommitStatus.UNKNOWN
        if heard and (said.cluster, said.topic) == (source, topic) and said.at_ms <= moved_ms:
            true[said.group, said.partition] = said.offset
    first: dict[tuple[str, int], tuple[int, str]] = {}
    repeated: dict[tuple[str, int], set[str]] = defaultdict(set)
    for read in history.consumed:
        if (read.cluster, read.topic) == (target, mirror) and read.at_ms > moved_ms:
            key = (read.group, read.partition)
            first[key] = min(first.get(key, (read.offset, read.id)), (read.offset, read.id))
            there = places.get(read.id)
            if there is not None and there[0] == read.partition and there[1] < true.get(key, 0):
                repeated[key].add(read.id)
    found = []
    for key, position in sorted(true.items()):
        group, partition = key
        place = places.get(first[key][1]) if key in first else None
        again = skipped = None
        if place is not None and place[0] == partition:
            went, had = (bisect_left(offsets[partition], offset) for offset in (place[1], position))
            again, skipped = len(repeated[key]), max(0, went - had)
        found.append(WentOn(group, TopicPartition(topic, partition), position, again, skipped, key in first))
    return tuple(found)
