"""Whether a group has records left to read, where its position is before the end of a log.

Rules: markers of transactions have offsets too, and a client that commits what it has processed commits none behind them: a
position with nothing but markers behind it is at the end. A stretch is read only where it is short; a long one has records.
Records of aborted transactions are none. What was found to be markers only stays so.
Not for: how many records are left (`verify`).
"""

from collections.abc import Mapping
from typing import Final

from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset, Range
from drlib.model import TopicPartition

MOST_READ: Final = 10_000  # offsets


class UnreadRecords:
    """Of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._markers: set[tuple[TopicPartition, Range]] = set()

    def first(
        self, positions: Mapping[TopicPartition, CommittedOffset], ends: Mapping[TopicPartition, int]
    ) -> TopicPartition | None:
        """The first partition of `ends` with a record behind the group's position; None where none has one. Blocks.

        A partition without a position counts from the start of its log. Raises what the cluster answers.
        """
        left = {p: Range(positions[p].offset if p in positions else 0, end) for p, end in ends.items()}
        left = {p: each for p, each in left.items() if each.start < each.end and (p, each) not in self._markers}
        starts = self._cluster.log_starts(left)
        for partition, each in left.items():
            there = Range(max(starts[partition], each.start), each.end)
            if there.end - there.start > MOST_READ:
                return partition
            if there.start < there.end and next(iter(self._cluster.read({partition: there})), None) is not None:
                return partition
            self._markers.add((partition, each))
        return None
