"""Wait until readers of committed records see what a transaction has written.

- A coordinator answers EndTxn when the decision is in its own log. The markers reach the partitions afterwards
  (`TransactionMarkerChannelManager` of Kafka); until then the last stable offset is before the transaction, and who reads
  right after the commit misses it.
- Another transaction that is open on the partition holds the last stable offset as well, for as long as it stays open.
  So the wait ends after a while: the records are committed in any case.
Not for: fencing. `init_transactions` with the same transactional ID waits for the markers of its predecessor.
"""

import time
from collections.abc import Mapping
from typing import Final

from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Isolation
from drlib.model import TopicPartition

_MOST_S: Final = 5.0
_POLL_S: Final = 0.01


def wait_visible(cluster: Cluster, written: Mapping[TopicPartition, int], timeout_s: float = _MOST_S) -> bool:
    """Whether the last stable offset has passed `written`, the last offset of each partition, within `timeout_s` seconds.

    Raises `Unreachable` and `ClusterRefused` where the log ends cannot be read.
    """
    until = time.monotonic() + timeout_s
    left = dict(written)
    while left:
        stable = cluster.log_ends(left, Isolation.READ_COMMITTED)
        left = {partition: offset for partition, offset in left.items() if stable[partition] <= offset}
        if left:
            if time.monotonic() > until:
                return False
            time.sleep(_POLL_S)
    return True
