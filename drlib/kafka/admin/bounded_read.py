"""A bounded read of partitions by a plain consumer: it joins no group and commits nothing.

Rules: it starts at exact offsets and never resets; an offset is gone when the log says so, not when a client gives up; a
partition is done at the first record at or past its end or at the end of its visible log; silence for the whole deadline
is `Unreachable`, not the end.
Not for: following a log as it grows.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ConfluentTopicPartition

from drlib.kafka.admin.descriptions import Isolation, Range, Record
from drlib.kafka.admin.errors import OffsetsGone, as_drlib_error, unreachable
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import TopicPartition

_BATCH: Final = 1000
_POLL_S: Final = 0.2  # consume() ignores signals while it waits, so it waits briefly

_NEW_TOPIC_S: Final = 2.0  # how long a topic may be unknown to a broker before it counts as not there
_RESET: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
_MOST_DOUBTS: Final = 5


def read(
    cluster: ClusterSettings,
    configuration: Mapping[str, object],
    ranges: Mapping[TopicPartition, Range],
    isolation: Isolation,
    *,
    timeout_s: float,
    logger: logging.Logger,
) -> Iterator[Record]:
    """See `Cluster.read`. `timeout_s` is the longest silence before `Unreachable`."""
    open_ranges = {tp: Range(*bounds) for tp, bounds in ranges.items() if bounds[0] < bounds[1]}
    if not open_ranges:
        return
    consumer: Any = Consumer(
        {
            **configuration,
            "group.id": "drlib-scan",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": isolation.value,
        },
        logger=logger,
    )
    doing = "reading records"
    try:
        consumer.assign([ConfluentTopicPartition(tp.topic, tp.partition, r.start) for tp, r in open_ranges.items()])
        last_heard = time.monotonic()
        known = False
        following = {tp: r.start for tp, r in open_ranges.items()}  # the offset to read next
        doubts = 0
        while open_ranges:
            messages = consumer.consume(_BATCH, _POLL_S)
            if not messages and time.monotonic() - last_heard > timeout_s:
                raise unreachable(cluster, doing, f"no record and no end of log for {timeout_s:g} s")
            if not messages and not known and time.monotonic() - last_heard > _NEW_TOPIC_S:
                known = _all_known(consumer, cluster, open_ranges, timeout_s)
            for message in messages:
                partition = TopicPartition(message.topic() or "", message.partition())
                bounds = open_ranges.get(partition)
                if message.error() is not None:
                    if message.error().code() in _RESET and bounds is not None:
                        doubts += 1
                        _check_gone(consumer, cluster, message, partition, following[partition], doubts, timeout_s)
                    elif _is_end(cluster, message, partition):
                        open_ranges.pop(partition, None)
                    continue
                if bounds is None:
                    continue
                following[partition] = message.offset() + 1
                if message.offset() < bounds.end:
                    yield _record(partition, message)
                if message.offset() >= bounds.end - 1:
                    del open_ranges[partition]
                    consumer.incremental_unassign([ConfluentTopicPartition(partition.topic, partition.partition)])
            if messages:
                last_heard = time.monotonic()  # after the caller has had them, whose pace is not the cluster's silence
    except KafkaException as error:
        raise as_drlib_error(error, cluster, doing) from error
    finally:
        consumer.close()


def _all_known(consumer: Any, cluster: ClusterSettings, partitions: Iterable[TopicPartition], timeout_s: float) -> bool:
    """librdkafka waits in silence for a partition that is not there, so a silence is a reason to ask.

    Raises `ClusterRefused`, or `Unreachable` when nobody answers.
    """
    topics = consumer.list_topics(timeout=timeout_s).topics
    for partition in partitions:
        if partition.topic not in topics or partition.partition not in topics[partition.topic].partitions:
            missing = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
            raise as_drlib_error(missing, cluster, f"reading {partition}")
    return True


def _is_end(cluster: ClusterSettings, message: Message, partition: TopicPartition) -> bool:
    """Is this event the end of the visible log? Raises for every other event that cannot heal by itself."""
    error = message.error()
    assert error is not None
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    if error.retriable() or error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, *_RESET):
        return False  # librdkafka reconnects; the deadline on silence decides
    raise as_drlib_error(error, cluster, f"reading {partition}")


def _check_gone(
    consumer: Any,
    cluster: ClusterSettings,
    message: Message,
    partition: TopicPartition,
    offset: int,
    doubts: int,
    timeout_s: float,
) -> None:
    """librdkafka gave `offset` up; it does so for other reasons than a missing offset, so the log is asked.

    Reads on from `offset` where the log holds it. Raises `OffsetsGone` where it does not, or after too many doubts.
    """
    at = ConfluentTopicPartition(partition.topic, partition.partition, offset)
    low, high = consumer.get_watermark_offsets(at, timeout=timeout_s, cached=False)
    if low <= offset <= high and doubts <= _MOST_DOUBTS:
        consumer.incremental_unassign([at])
        consumer.incremental_assign([at])
        return
    error = message.error()
    raise OffsetsGone(
        f"{partition} on {cluster.alias} cannot be read from offset {offset}",
        f"its log holds {low} to {high}: retention deleted it, or it was never written ({error.str() if error else ''})",
        "Read from the log's start instead and account for the records before it.",
    )


def _record(partition: TopicPartition, message: Message) -> Record:
    headers = tuple((name, value) for name, value in message.headers() or ())
    return Record(partition, message.offset(), message.timestamp()[1], message.key(), message.value(), headers)
