"""A topic, or an exact stretch of it, as a DataFrame.

Rules: offsets are pinned before anything is read, so reading the same frame twice gives the same records; read
committed ends at the last stable offset, for an open transaction must not hold the reader up. A range that vanished
(retention, deleted records) fails the read: it is never skipped silently.
Columns: partition int, offset long, timestamp (Kafka's, milliseconds), key and value binary, headers
array<struct<key,value>>, id long (header `id`), event_time timestamp (header `event-time`), content_hash long.
Not for: following a topic as it grows.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from drlib.errors import Unreachable, UsageError

TIMEOUT_S = 15.0
LOOK_S = 0.1
# What a broker answers that has just come up, or handed a partition over; an admin client does not ask again by itself.
_LEADER_MOVES = frozenset(
    {
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
    }
)
# Each task ends at the end of its partition and waits there for a fetch of nothing: with Kafka's 500 ms that is more than
# half of the time a scan takes (250,000 records in 6 partitions: 3.1 s, with 10 ms 1.3 s).
FETCH_MAX_WAIT_MS = 10
ID_HEADER, EVENT_TIME_HEADER = "id", "event-time"  # what the lab's applications write


@dataclass(frozen=True, slots=True)
class TopicRange:
    """Each partition's first offset to read, the one after its last, and where its log began."""

    topic: str
    start: Mapping[int, int]
    end: Mapping[int, int]
    log_start: Mapping[int, int]


def pin_range(bootstrap: str, topic: str, *, read_committed: bool = True) -> TopicRange:
    """Everything the topic holds now, as offsets that stay put.

    Raises Unreachable when the cluster does not answer within 15 s, UsageError when it has no such topic.
    """
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    isolation = IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED
    until = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return _pinned(admin, bootstrap, topic, isolation)
        except KafkaException as error:
            if error.args[0].code() in _LEADER_MOVES and time.monotonic() < until:
                time.sleep(LOOK_S)
                continue
            raise Unreachable(
                f"The offsets of {topic} could not be listed",
                f"{bootstrap}: {error.args[0].str()}",
                "Is the cluster up?",
            ) from error


def _pinned(admin: AdminClient, bootstrap: str, topic: str, isolation: IsolationLevel) -> TopicRange:
    known = admin.list_topics(topic, timeout=TIMEOUT_S).topics[topic]
    if known.error is not None or not known.partitions:
        raise UsageError(
            f"Topic {topic} cannot be read", f"the cluster at {bootstrap} does not have it", "Check the name"
        )
    partitions = [TopicPartition(topic, number) for number in sorted(known.partitions)]
    asked = [
        admin.list_offsets(dict.fromkeys(partitions, spec), isolation_level=isolation, request_timeout=TIMEOUT_S)
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
    ]
    first, last = ({tp.partition: found.result().offset for tp, found in side.items()} for side in asked)
    return TopicRange(topic, first, last, first)


def read_topic(
    spark: SparkSession,
    bootstrap: str,
    topic: str,
    *,
    start: Mapping[int, int] | None = None,
    end: Mapping[int, int] | None = None,
    read_committed: bool = True,
) -> DataFrame:
    """The records with start <= offset < end of each partition; where one is None, of everything there now.

    Raises what `pin_range` raises, now; a range that vanished meanwhile fails when the frame is computed.
    """
    if start is None or end is None:
        pinned = pin_range(bootstrap, topic, read_committed=read_committed)
        start, end = start if start is not None else pinned.start, end if end is not None else pinned.end
    if start.keys() != end.keys():
        raise UsageError(
            f"Topic {topic} cannot be read",
            f"start names partitions {sorted(start)} and end {sorted(end)}",
            "Give both for the same partitions",
        )
    vanished = [partition for partition, offset in end.items() if offset < start[partition]]
    if vanished:
        raise UsageError(
            f"Topic {topic} cannot be read",
            f"partitions {vanished} begin after the end that was asked for",
            "Pin the range again",
        )
    raw = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("assign", json.dumps({topic: sorted(start)}))
        .option("startingOffsets", json.dumps({topic: {str(p): offset for p, offset in start.items()}}))
        .option("endingOffsets", json.dumps({topic: {str(p): offset for p, offset in end.items()}}))
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "true")
        .option("kafka.fetch.max.wait.ms", str(FETCH_MAX_WAIT_MS))
        .option("kafka.isolation.level", "read_committed" if read_committed else "read_uncommitted")
        .load()
    )
    return with_identity(raw.select("partition", "offset", "timestamp", "key", "value", "headers"))


def with_identity(records: DataFrame) -> DataFrame:
    """Add id, event_time and content_hash to a frame that has timestamp, key, value and headers."""
    return records.withColumns(
        {
            "id": number_of(header(ID_HEADER)),
            "event_time": time_of(header(EVENT_TIME_HEADER)),
            "content_hash": sf.xxhash64(*field_hashes().values()),
        }
    )


def field_hashes() -> dict[str, Column]:
    """One 64-bit number for each field of a record that a mirror must keep, by the field's name.

    Each byte string goes in after its length (-1 for null): null and empty differ, and no byte can change sides.
    """
    each = sf.transform(
        sf.col("headers"), lambda h: sf.struct(sf.length(h["key"]), h["key"], _length(h["value"]), h["value"])
    )
    return {
        "key": sf.xxhash64(_length(sf.col("key")), sf.col("key")),
        "value": sf.xxhash64(_length(sf.col("value")), sf.col("value")),
        "headers": sf.xxhash64(sf.coalesce(sf.size(sf.col("headers")), sf.lit(0)), each),
        "timestamp": sf.unix_millis(sf.col("timestamp")),
    }


def header(name: str) -> Column:
    """The bytes of the first header called `name`, null without one."""
    return sf.get(sf.filter(sf.col("headers"), lambda h: h["key"] == name), 0)["value"]


def number_of(value: Column) -> Column:
    """A header's bytes as a long: decimal text, else eight big-endian bytes, else null."""
    text = value.cast("string")
    big_endian = sf.when(sf.length(value) == 8, sf.conv(sf.hex(value), 16, -10).try_cast("bigint"))
    return sf.coalesce(text.try_cast("bigint"), big_endian)


def time_of(value: Column) -> Column:
    """A header's bytes as a timestamp: milliseconds since the epoch as `number_of` reads them, else ISO 8601 text."""
    return sf.coalesce(sf.timestamp_millis(number_of(value)), value.cast("string").try_cast("timestamp"))


def _length(value: Column) -> Column:
    return sf.coalesce(sf.length(value), sf.lit(-1))
