"""In which order the two halves of a topic are read after a move: the remote one to its cutover, then the local one.

Rules: a gate is a position that the group must have committed; positions are compared, never record offsets, as the last
offsets before a cutover may be control records.
Not for: reading; `drlib.clusters.ordered` does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from drlib.model import TopicPartition


class Scope(StrEnum):
    """What a local partition waits for: the remote partition of its number, or all of them.

    PARTITION keeps the order of keys that are in the same partition of both topics: as many partitions, and producers
    with the same partitioner. TOPIC keeps it always, and waits for the slowest partition.
    """

    PARTITION = "partition"
    TOPIC = "topic"


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """Read `local`; where `remote` is given, first each of its partitions p up to position `cutover[p]`.

    With `Scope.PARTITION` a local partition beyond the end of `cutover` waits for nothing.
    """

    local: str
    remote: str | None = None
    cutover: tuple[int, ...] = ()
    scope: Scope = Scope.PARTITION

    @property
    def topics(self) -> tuple[str, ...]:
        return (self.local,) if self.remote is None else (self.remote, self.local)

    def gates(self, partition: TopicPartition) -> dict[TopicPartition, int]:
        """What the group must have committed before `partition` may be read; empty: read it now."""
        if self.remote is None or partition.topic != self.local:
            return {}
        every = {TopicPartition(self.remote, p): position for p, position in enumerate(self.cutover)}
        if self.scope is Scope.TOPIC:
            return every
        same = TopicPartition(self.remote, partition.partition)
        return {same: every[same]} if same in every else {}


def held(
    plan: ReadPlan, assigned: Collection[TopicPartition], reached: Mapping[TopicPartition, int]
) -> set[TopicPartition]:
    """The assigned partitions that must wait. `reached`: by remote partition, the position the group stands at."""
    return {
        partition
        for partition in assigned
        if any(reached.get(remote, -1) < position for remote, position in plan.gates(partition).items())
    }
