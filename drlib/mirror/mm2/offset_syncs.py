"""When MirrorMaker 2 tells an offset pair: its emission rule as a state machine without a producer.

Rules: a pair is due at once for the first record of a partition in this lifetime, when translation has become
`offset_lag_max` stale, after any gap upstream, and when the target's log went back; otherwise it is held until the next
commit, where only the newest held pair of a partition survives. Source: `OffsetSyncWriter` of `connect.mirror`.
Not for: translating with these sparse pairs; the journal does that exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

from drlib.mirror.mm2.records import OffsetSync
from drlib.model import TopicPartition


@dataclass(slots=True)
class _PartitionState:
    previous_upstream: int = -1
    previous_downstream: int = -1
    last_sync_downstream: int = -1


class OffsetSyncWriter:
    """Feed it every acknowledged record; take from it what to write.

    Contiguous stretches may be fed as a whole with `acked_run`: the same pairs as record by record, of which only the
    newest of a partition waits to be taken.
    """

    def __init__(self, offset_lag_max: int) -> None:
        self._offset_lag_max = offset_lag_max
        self._states: dict[TopicPartition, _PartitionState] = {}
        self._due: dict[TopicPartition, OffsetSync] = {}
        self._held: dict[TopicPartition, OffsetSync] = {}

    def acked(self, partition: TopicPartition, upstream: int, downstream: int) -> bool:
        """The record at source offset `upstream` was acknowledged at target offset `downstream`. True: due now."""
        state = self._states.setdefault(partition, _PartitionState())
        due = (
            state.last_sync_downstream == -1
            # A sync translates later positions to one past itself, hence the + 1.
            or downstream - (state.last_sync_downstream + 1) >= self._offset_lag_max
            or upstream - state.previous_upstream != 1
            or downstream < state.previous_downstream
        )
        state.previous_upstream = upstream
        state.previous_downstream = downstream
        sync = OffsetSync(partition, upstream, downstream)
        if due:
            state.last_sync_downstream = downstream
            self._held.pop(partition, None)
            self._due[partition] = sync
        else:
            self._held[partition] = sync
        return due

    def acked_run(self, partition: TopicPartition, upstream: int, downstream: int, count: int) -> None:
        """`count` records from (`upstream`, `downstream`) on were acknowledged, both sides contiguous."""
        if count <= 0:
            return
        self.acked(partition, upstream, downstream)
        last = downstream + count - 1
        state = self._states[partition]
        # Inside a contiguous run only staleness makes a pair due: every (offset_lag_max + 1)th record, or every one.
        step = max(self._offset_lag_max + 1, 1)
        behind = last - state.last_sync_downstream
        if behind <= 0:
            return
        newest_due = state.last_sync_downstream + behind // step * step
        for offset in dict.fromkeys((newest_due, last)):
            if offset > downstream:
                state.previous_upstream = upstream + (offset - downstream) - 1
                state.previous_downstream = offset - 1
                self.acked(partition, upstream + (offset - downstream), offset)

    def commit(self) -> None:
        """The periodic commit: what was held becomes due."""
        self._due.update(self._held)
        self._held.clear()

    def take_due(self) -> tuple[OffsetSync, ...]:
        """The pairs to write now, in the order they became due; they are forgotten here."""
        due = tuple(self._due.values())
        self._due.clear()
        return due

    def forget(self, partition: TopicPartition) -> None:
        """The partition went to another owner; a later record of it counts as the first."""
        for held in (self._states, self._due, self._held):
            held.pop(partition, None)
