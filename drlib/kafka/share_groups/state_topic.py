"""What share groups have read, from `__share_group_state`: the log in which share coordinators keep it.

Rules: it is read from its start, and then on from where it ended: brokers delete of it only what newer records replace
(`ShareCoordinatorService.performRecordPruning`). A log that ends before what was read of it is another one, and read again.
Records that cannot be decoded are skipped. The topic exists from the first share group on; reading it needs Read on it.
Not for: start offsets without that right (`admin.described`).
"""

from __future__ import annotations

from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Isolation, Range
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.share_groups import messages
from drlib.kafka.share_groups.messages import StateKey
from drlib.kafka.share_groups.names import STATE_TOPIC
from drlib.kafka.share_groups.state import StateLog
from drlib.model import TopicPartition


class StateTopic:
    """Follows the topic of one cluster."""

    def __init__(self, cluster: ClusterSettings) -> None:
        self._cluster = cluster
        self._next: dict[TopicPartition, int] = {}
        self.logs: dict[StateKey, StateLog] = {}

    def refresh(self, timeout_s: float) -> None:
        """Read what is new, of partitions that have a leader. Blocks. Raises `ClusterRefused`, `Unreachable`."""
        with Cluster(self._cluster, timeout_s=timeout_s) as cluster:
            topic = cluster.topics([STATE_TOPIC]).get(STATE_TOPIC)
            numbers = [] if topic is None else [n for n in range(topic.partitions) if topic.is_led(n)]
            partitions = [TopicPartition(STATE_TOPIC, number) for number in numbers]
            starts, ends = cluster.log_starts(partitions), cluster.log_ends(partitions)
            if any(ends.get(partition, 0) < at for partition, at in self._next.items()):
                self._next.clear()
                self.logs.clear()
            ranges = {p: Range(max(starts[p], self._next.get(p, 0)), ends[p]) for p in partitions}
            try:
                for record in cluster.read(ranges, Isolation.READ_UNCOMMITTED):
                    self._apply(record.key, record.value)
            except DrlibError:
                self._next.clear()  # how much of it was read is not known
                self.logs.clear()
                raise
        self._next = ends

    def _apply(self, key: bytes | None, value: bytes | None) -> None:
        try:
            partition = messages.state_key(key)
            if partition is None:
                return
            if value is None:
                self.logs.pop(partition, None)
            elif (record := messages.state_record(key, value)) is not None:
                self.logs.setdefault(partition, StateLog()).apply(record)
        except (ValueError, UnicodeDecodeError):
            return
