"""A topic, or an exact stretch of it, as a DataFrame.

Rules: offsets are pinned before anything is read, so reading the same frame twice gives the same records; read
committed ends at the last stable offset, for an open transaction must not hold the reader up. A range that vanished
(retention, deleted records) fails the read: it is never skipped silently. A compacted topic can lose records between two
reads of one range: `TopicRange.compacted` says so. A partition that holds more than its share is read by several tasks. A
cluster is its settings, or HOST:PORT addresses where it asks for no login.
Columns: partition int, offset long, timestamp (Kafka's, milliseconds), key and value binary, headers
array<struct<key,value>>, record_type string (`record`, or `tombstone` without a value), id long (header `id`),
event_time timestamp (header `event-time`), content_hash long. Control records are no rows.
Not for: following a topic as it grows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from drlib.errors import UsageError
from drlib.files import write_whole
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Isolation
from drlib.kafka.java_formats.references import resolve
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.security.java_keys import HONOURED
from drlib.model import TopicPartition

TIMEOUT_S = 15.0
# Each task ends at the end of its partition and waits there for a fetch of nothing: with Kafka's 500 ms that is more than
# half of the time a scan takes (250,000 records in 6 partitions: 3.1 s, with 10 ms 1.3 s).
FETCH_MAX_WAIT_MS = 10
ID_HEADER, EVENT_TIME_HEADER = "id", "event-time"  # what the lab's applications write
SMALLEST_STRETCH: Final = 100_000  # offsets: what a task of its own is worth
DAY_MS: Final = 86_400_000
_SALT: Final = 0x9E3779B97F4A7C15 - 2**64  # any number does that is no length
Where = ClusterSettings | str


@dataclass(frozen=True, slots=True)
class TopicRange:
    """Each partition's first offset to read, the one after its last, and where its log began.

    `undecided`: offsets behind `end` that belong to transactions still open, where there are any. `compacted`: the
    cleaner may take records out from between; a tombstone stays for `delete_retention_ms` at least.
    """

    topic: str
    start: Mapping[int, int]
    end: Mapping[int, int]
    log_start: Mapping[int, int]
    topic_id: str = ""  # another one is another topic of that name
    compacted: bool = False
    delete_retention_ms: int = DAY_MS
    undecided: Mapping[int, int] = field(default_factory=dict)

    @property
    def offsets(self) -> int:
        """How many offsets are in the range: records, and what is none."""
        return sum(end - self.start[partition] for partition, end in self.end.items())


_RANGES: Final = TypeAdapter(dict[str, TopicRange])


def settings_of(where: Where) -> ClusterSettings:
    """`where` as settings; addresses are a cluster that asks for no login, called by them."""
    return where if isinstance(where, ClusterSettings) else ClusterSettings(where, tuple(where.split(",")))


def pin_range(where: Where, topic: str, *, read_committed: bool = True) -> TopicRange:
    """Everything the topic holds now, as offsets that stay put.

    Raises `Unreachable` when the cluster does not answer within 15 s, `UsageError` when it has no such topic, and what
    a cluster refuses.
    """
    cluster = settings_of(where)
    with Cluster(cluster, timeout_s=TIMEOUT_S) as handle:
        found = handle.topics([topic]).get(topic)
        if found is None:
            raise UsageError(
                f"Topic {topic} cannot be read", f"{cluster.alias} does not have it", "Check its name and the cluster."
            )
        partitions = [TopicPartition(topic, number) for number in range(found.partitions)]
        config = handle.topic_config([topic], inherited=True)[topic]
        starts = handle.log_starts(partitions)
        ends = handle.log_ends(partitions)
        stable = handle.log_ends(partitions, Isolation.READ_COMMITTED) if read_committed else ends
    first = {at.partition: offset for at, offset in sorted(starts.items())}
    last = {at.partition: max(offset, first[at.partition]) for at, offset in sorted(stable.items())}
    return TopicRange(
        topic,
        first,
        last,
        first,
        topic_id=str(found.topic_id),
        compacted="compact" in config.get("cleanup.policy", ""),
        delete_retention_ms=int(config.get("delete.retention.ms") or DAY_MS),
        undecided={at.partition: ends[at] - offset for at, offset in stable.items() if ends[at] > offset},
    )


def keep_ranges(path: Path, ranges: Mapping[str, TopicRange]) -> None:
    """Write pinned ranges, by a name of the caller's, so that another process reads exactly the same records."""
    write_whole(path, _RANGES.dump_json(dict(ranges), indent=1))


def kept_ranges(path: Path) -> dict[str, TopicRange]:
    """What `keep_ranges` wrote; empty without such a file. Raises ValueError for anything else in it."""
    return _RANGES.validate_json(path.read_bytes()) if path.exists() else {}


def read_topic(
    spark: SparkSession,
    where: Where,
    topic: str,
    *,
    start: Mapping[int, int] | None = None,
    end: Mapping[int, int] | None = None,
    read_committed: bool = True,
    split: bool = True,
) -> DataFrame:
    """The records with start <= offset < end of each partition; where one is None, of everything there now.

    Without `split` a partition is one task's, however long it is.

    Raises what `pin_range` raises, now; a range that vanished meanwhile fails when the frame is computed.
    """
    if start is None or end is None:
        pinned = pin_range(where, topic, read_committed=read_committed)
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
    cluster = settings_of(where)
    raw = (
        spark.read.format("kafka")
        .options(**java_options(cluster))
        .option("kafka.bootstrap.servers", ",".join(cluster.bootstrap_servers))
        .option("assign", json.dumps({topic: sorted(start)}))
        .option("startingOffsets", json.dumps({topic: {str(p): offset for p, offset in start.items()}}))
        .option("endingOffsets", json.dumps({topic: {str(p): offset for p, offset in end.items()}}))
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "true")
        .option("kafka.fetch.max.wait.ms", str(FETCH_MAX_WAIT_MS))
        .option("kafka.isolation.level", "read_committed" if read_committed else "read_uncommitted")
        .options(**_stretches(spark, [offset - start[partition] for partition, offset in end.items()], split))
        .load()
    )
    return with_identity(raw.select("partition", "offset", "timestamp", "key", "value", "headers"))


def read_range(
    spark: SparkSession, where: Where, pinned: TopicRange, *, read_committed: bool = True, split: bool = True
) -> DataFrame:
    """The records of a pinned range; see `read_topic`."""
    return read_topic(
        spark, where, pinned.topic, start=pinned.start, end=pinned.end, read_committed=read_committed, split=split
    )


def longest_stretch(offsets: int, cores: int) -> int:
    """How many offsets of a partition one task reads at most, of `offsets` in all partitions.

    Two thirds of a core's share: even partitions, two for each core, stay whole, for in one stretch more is known of order.
    """
    return max(SMALLEST_STRETCH, -(-2 * offsets // (3 * cores)))


def _stretches(spark: SparkSession, sizes: Sequence[int], split: bool) -> dict[str, str]:
    """`minPartitions` would do nothing for a skewed topic with more partitions than that; this is of a partition's own size."""
    if not split:
        return {}
    return {"maxRecordsPerPartition": str(longest_stretch(sum(sizes), spark.sparkContext.defaultParallelism))}


def java_options(cluster: ClusterSettings) -> dict[str, str]:
    """How the Java client of Spark's executors logs in: the file's own keys. Raises `UsageError` for a bad reference."""
    return {
        f"kafka.{key}": resolve(text, f"{cluster.alias}.{key}")
        for key, text in cluster.security.items()
        if key in HONOURED
    }


def with_identity(records: DataFrame) -> DataFrame:
    """Add record_type, id, event_time and content_hash to a frame that has timestamp, key, value and headers."""
    return records.withColumns(
        {
            "record_type": sf.when(sf.col("value").isNull(), sf.lit("tombstone")).otherwise(sf.lit("record")),
            "id": number_of(header(ID_HEADER)),
            "event_time": time_of(header(EVENT_TIME_HEADER)),
            "content_hash": sf.xxhash64(*field_hashes().values()),
        }
    )


def field_hashes() -> dict[str, Column]:
    """One 64-bit number for each field of a record that a mirror must keep, by the field's name.

    Each byte string goes in after its length (-1 for null): null and empty differ, and no byte can change sides.
    """
    hashed = {name: sf.xxhash64(*parts) for name, parts in _contents().items()}
    return {**hashed, "timestamp": sf.unix_millis(sf.col("timestamp"))}


def salted_hash() -> Column:
    """One 64-bit number for all that a mirror must keep of a record, independent of `field_hashes`.

    What was hashed before is the seed of what follows, so that another beginning makes another hash of everything.
    """
    parts = [part for field in _contents().values() for part in field]
    return sf.xxhash64(sf.lit(_SALT), *parts, sf.unix_millis(sf.col("timestamp")))


def _contents() -> dict[str, tuple[Column, ...]]:
    each = sf.transform(
        sf.col("headers"), lambda h: sf.struct(sf.length(h["key"]), h["key"], _length(h["value"]), h["value"])
    )
    return {
        "key": (_length(sf.col("key")), sf.col("key")),
        "value": (_length(sf.col("value")), sf.col("value")),
        "headers": (sf.coalesce(sf.size(sf.col("headers")), sf.lit(0)), each),
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
