"""When MirrorMaker 2 writes an offset sync: its emission rule as a state machine without a producer.

Rules: a pair is due at once for the first record of a partition in this process, when translation has become
`offset_lag_max` stale, after any gap upstream, and when target offsets decrease; otherwise it is pending until the next
commit, where only the newest pending pair of a partition is written. Of due pairs that were not taken yet, the newest ones are
kept, about `MOST_DUE` for all partitions together. Source: `OffsetSyncWriter` of `connect.mirror`, which writes each due pair
while fewer than ten are on their way, and then the newest of a partition.
Not for: translating with these sparse pairs; the journal does that exactly.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from drlib.mirror.mm2.records import OffsetSync
from drlib.model import TopicPartition

MOST_DUE: Final = 1000  # a few milliseconds of work each time they are taken


@dataclass(slots=True)
class _PartitionState:
    previous_upstream: int = -1
    previous_downstream: int = -1
    last_sync_downstream: int = -1


class OffsetSyncWriter:
    """Takes every acknowledged record; `take_due` returns what to write.

    `acked_run` takes a contiguous stretch as a whole: the same pairs as record by record.
    """

    def __init__(self, offset_lag_max: int) -> None:
        self._offset_lag_max = offset_lag_max
        self._states: dict[TopicPartition, _PartitionState] = {}
        self._due: dict[TopicPartition, deque[OffsetSync]] = {}
        self._pending: dict[TopicPartition, OffsetSync] = {}

    def acked(self, partition: TopicPartition, upstream: int, downstream: int) -> bool:
        """The record at source offset `upstream` was acknowledged at target offset `downstream`. True: due now."""
        state = self._states.setdefault(partition, _PartitionState())
        due = (
            state.last_sync_downstream == -1
            # A sync translates later positions to one past itself: the + 1.
            or downstream - (state.last_sync_downstream + 1) >= self._offset_lag_max
            or upstream - state.previous_upstream != 1
            or downstream < state.previous_downstream
        )
        state.previous_upstream = upstream
        state.previous_downstream = downstream
        sync = OffsetSync(partition, upstream, downstream)
        if due:
            state.last_sync_downstream = downstream
            self._pending.pop(partition, None)
            self._add_due(sync)
        else:
            self._pending[partition] = sync
        return due

    def _add_due(self, sync: OffsetSync) -> None:
        due = self._due.setdefault(sync.partition, deque())
        due.append(sync)
        while len(due) > self._most_due:
            due.popleft()

    @property
    def _most_due(self) -> int:
        """How many due pairs of one partition are kept."""
        return max(1, MOST_DUE // max(1, len(self._due)))

    def acked_run(self, partition: TopicPartition, upstream: int, downstream: int, count: int) -> None:
        """`count` records from (`upstream`, `downstream`) on were acknowledged, both sides contiguous."""
        if count <= 0:
            return
        self.acked(partition, upstream, downstream)
        last = downstream + count - 1
        if last == downstream:
            return
        state = self._states[partition]
        # Inside a contiguous run only staleness makes a pair due: every (offset_lag_max + 1)th record.
        step = self._offset_lag_max + 1
        newest = last - (last - state.last_sync_downstream) % step
        due = range(newest, downstream, -step)[: self._most_due]
        for offset in reversed(due):
            self._add_due(OffsetSync(partition, upstream + (offset - downstream), offset))
        if due:
            state.last_sync_downstream = newest
            self._pending.pop(partition, None)
        state.previous_upstream, state.previous_downstream = upstream + count - 1, last
        if newest < last:
            self._pending[partition] = OffsetSync(partition, upstream + count - 1, last)

    def commit(self) -> None:
        """The periodic commit: pending pairs become due."""
        for sync in self._pending.values():
            self._add_due(sync)
        self._pending.clear()

    def rewrite(self) -> None:
        """The newest pair of every partition becomes due: the topic of the syncs was deleted."""
        for partition, state in self._states.items():
            state.last_sync_downstream = state.previous_downstream
            self._pending.pop(partition, None)
            self._due[partition] = deque([OffsetSync(partition, state.previous_upstream, state.previous_downstream)])

    def take_due(self) -> tuple[OffsetSync, ...]:
        """The pairs to write now, those of a partition in the order they became due; each is returned once."""
        due = tuple(sync for syncs in self._due.values() for sync in syncs)
        self._due.clear()
        return due

    def forget(self, partition: TopicPartition) -> None:
        """Drop a partition that has another owner now; a later record of it counts as the first."""
        for state in (self._states, self._due, self._pending):
            state.pop(partition, None)
