"""Read given ranges of partitions with a plain consumer that joins no group and commits nothing.

Rules: reading starts at exact offsets and never resets. An offset is gone when the log start says so, not when the client
gives up. A partition ends at the first record at or past its range or at the end of its visible log. No answer for the whole
deadline is `Unreachable`, not the end; an answer that announces a pause (a quota of the user is used up) extends it.
Not for: following a log as it grows.
"""

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
_FETCH_WAIT_MS: Final = 20  # a marker at the end of a log is no record: its end is known by the next, empty, answer
_POLL_S: Final = 0.2  # consume() ignores signals while it waits, so it waits briefly

_NEW_TOPIC_S: Final = 2.0  # how long a broker may not know a topic before it counts as missing
_RESET: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
_MOST_RETRIES: Final = 5
_THROTTLED_S: Final = 60.0  # how much longer pauses may make the wait for an answer


def read(
    cluster: ClusterSettings,
    configuration: Mapping[str, object],
    ranges: Mapping[TopicPartition, Range],
    isolation: Isolation,
    *,
    timeout_s: float,
    logger: logging.Logger,
) -> Iterator[Record]:
    """As `Cluster.read`. `timeout_s` is the longest time without an answer before `Unreachable`."""
    open_ranges = {tp: Range(*bounds) for tp, bounds in ranges.items() if bounds[0] < bounds[1]}
    if not open_ranges:
        return
    paused_until = 0.0

    def throttled(event: Any) -> None:
        nonlocal paused_until
        paused_until = max(paused_until, time.monotonic() + event.throttle_time + timeout_s)

    consumer: Any = Consumer(
        {
            **configuration,
            "group.id": "drlib-scan",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": isolation.value,
            "fetch.wait.max.ms": _FETCH_WAIT_MS,
            "throttle_cb": throttled,
        },
        logger=logger,
    )
    doing = "reading records"
    try:
        consumer.assign([ConfluentTopicPartition(tp.topic, tp.partition, r.start) for tp, r in open_ranges.items()])
        last_answer = time.monotonic()
        known = False
        next_offsets = {tp: r.start for tp, r in open_ranges.items()}
        retries = 0
        while open_ranges:
            messages = consumer.consume(1, _POLL_S)
            messages += consumer.consume(_BATCH, 0.0)  # with a time-out it would wait until the batch is full
            wait_until = last_answer + timeout_s
            if not messages and time.monotonic() > max(wait_until, min(paused_until, wait_until + _THROTTLED_S)):
                raise unreachable(cluster, doing, f"no record and no end of log for {timeout_s:g} s")
            new_topic_s = time.monotonic() - max(last_answer, paused_until)
            if not messages and not known and new_topic_s > _NEW_TOPIC_S:
                known = _all_known(consumer, cluster, open_ranges, timeout_s)
            for message in messages:
                partition = TopicPartition(message.topic() or "", message.partition())
                bounds = open_ranges.get(partition)
                if message.error() is not None:
                    if message.error().code() in _RESET and bounds is not None:
                        retries += 1
                        _check_gone(consumer, cluster, message, partition, next_offsets[partition], retries, timeout_s)
                    elif _is_end(cluster, message, partition):
                        open_ranges.pop(partition, None)
                    continue
                if bounds is None:
                    continue
                next_offsets[partition] = message.offset() + 1
                if message.offset() < bounds.end:
                    yield _record(partition, message)
                if message.offset() >= bounds.end - 1:
                    del open_ranges[partition]
                    consumer.incremental_unassign([ConfluentTopicPartition(partition.topic, partition.partition)])
            if any(message.topic() for message in messages):  # anything about a partition is an answer
                # taken after the caller has handled them, so that a slow caller is not an unreachable cluster
                last_answer = time.monotonic()
    except KafkaException as error:
        raise as_drlib_error(error, cluster, doing) from error
    finally:
        consumer.close()


def _all_known(consumer: Any, cluster: ClusterSettings, partitions: Iterable[TopicPartition], timeout_s: float) -> bool:
    """Check that all partitions exist: librdkafka waits for a missing partition without an error.

    Raises `ClusterRefused`, or `Unreachable` when no broker answers.
    """
    topics = consumer.list_topics(timeout=timeout_s).topics
    for partition in partitions:
        if partition.topic not in topics or partition.partition not in topics[partition.topic].partitions:
            missing = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
            raise as_drlib_error(missing, cluster, f"reading {partition}")
    return True


def _is_end(cluster: ClusterSettings, message: Message, partition: TopicPartition) -> bool:
    """Whether this event is the end of the visible log. Raises for errors that librdkafka does not recover from."""
    error = message.error()
    assert error is not None
    if error.code() == KafkaError._PARTITION_EOF:
        return True
    if error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
        return False  # librdkafka asks for the coordinator of a group that nothing here uses
    if error.retriable() or error.code() in (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, *_RESET):
        return False  # librdkafka reconnects; the deadline on silence decides
    raise as_drlib_error(error, cluster, f"reading {partition}")


def _check_gone(
    consumer: Any,
    cluster: ClusterSettings,
    message: Message,
    partition: TopicPartition,
    offset: int,
    retries: int,
    timeout_s: float,
) -> None:
    """Check the log when librdkafka gives up on `offset`, which it also does for other reasons.

    Continues at `offset` where the log holds it. Raises `OffsetsGone` where it does not, or after too many retries.
    """
    at = ConfluentTopicPartition(partition.topic, partition.partition, offset)
    low, high = consumer.get_watermark_offsets(at, timeout=timeout_s, cached=False)
    if low <= offset <= high and retries <= _MOST_RETRIES:
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
