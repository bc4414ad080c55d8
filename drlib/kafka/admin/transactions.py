"""Transactions of librdkafka: a producer that fences earlier ones, and a wait until readers see what was committed.

- A transaction may last as long as its cluster takes at most (`transaction.max.timeout.ms`): where that is less than what was
  asked for, half of it is asked for, as the mirror's lanes do.
- A coordinator answers EndTxn when the decision is in its own log. The markers reach the partitions afterwards
  (`TransactionMarkerChannelManager` of Kafka); until then the last stable offset is before the transaction, and who reads
  right after the commit misses it.
- Another transaction that is open on the partition holds the last stable offset as well, for as long as it stays open.
  So the wait ends after a while: the records are committed in any case.
Not for: fencing. `init_transactions` with the same transactional ID waits for the markers of its predecessor.
"""

import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import QUIET, librdkafka
from drlib.kafka.admin.descriptions import Isolation
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import TopicPartition

_MOST_S: Final = 5.0
_POLL_S: Final = 0.01
_LEAST_MS: Final = 1000  # of librdkafka


def transactional_producer(
    cluster: ClusterSettings, config: Mapping[str, object], timeout_ms: int, within_s: float
) -> tuple[Any, float]:
    """A producer that has fenced every earlier one of its `transactional.id`, and how long its transactions may last, seconds:
    `timeout_ms`, or what `cluster` takes. `config`: what the producer has besides. Raises KafkaException."""
    while True:
        producer = Producer(
            {
                **librdkafka(cluster),
                "transaction.timeout.ms": timeout_ms,
                "log_level": 0,
                **config,
            },
            logger=QUIET,
        )
        try:
            producer.init_transactions(within_s)
            return producer, timeout_ms / 1000
        except KafkaException as error:
            if error.args[0].code() != KafkaError.INVALID_TRANSACTION_TIMEOUT or timeout_ms <= _LEAST_MS:
                raise
        timeout_ms = max(_LEAST_MS, timeout_ms // 2)


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
