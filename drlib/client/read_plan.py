"""The order in which a topic is read after a move: the remote topic to its cutover, then the local topic.

Rules: a gate is a position that the group must have committed. Positions are compared, not record offsets, as the last
offsets before a cutover may be control records.
Not for: reading (`drlib.client.ordered_member`).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from drlib.model import TopicPartition


class Scope(StrEnum):
    """What a local partition waits for: the remote partition of the same number, or all of them.

    PARTITION keeps the order of keys that have the same partition in both topics: equal partition counts and partitioners.
    TOPIC always keeps the order, and waits for the slowest partition.
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

    def gates(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The positions that the group must have committed before `partitions` may be read; empty: none."""
        local = {p.partition for p in partitions if p.topic == self.local}
        if self.remote is None or not local:
            return {}
        return {
            TopicPartition(self.remote, number): position
            for number, position in enumerate(self.cutover)
            if self.scope is Scope.TOPIC or number in local
        }


def held(
    plan: ReadPlan, assigned: Collection[TopicPartition], reached: Mapping[TopicPartition, int]
) -> set[TopicPartition]:
    """The assigned partitions that must wait. `reached`: the group's committed position by remote partition."""
    gates = plan.gates(assigned)
    closed = {remote.partition for remote, position in gates.items() if reached.get(remote, -1) < position}
    if plan.scope is Scope.TOPIC:
        return {p for p in assigned if p.topic == plan.local and closed}
    return {p for p in assigned if p.topic == plan.local and p.partition in closed}
