"""A topic, or an exact range of its offsets, as a DataFrame.

Rules: offsets are pinned before anything is read, so reading a frame twice gives the same records. Read committed ends at
the last stable offset: an open transaction must not block the reader. A range that was deleted (retention, DeleteRecords)
fails the read and is never skipped silently. A compacted topic can lose records between two reads of one range;
`TopicRange.compacted` marks it. A large partition is read by several tasks. A cluster is given by its settings, or as
HOST:PORT addresses where it needs no login.
Columns: partition int, offset long, timestamp (Kafka's, milliseconds), key and value binary, headers
array<struct<key,value>>, record_type string (`record`, or `tombstone` without a value), id long (header `id`),
event_time timestamp (header `event-time`), content_hash long. Control records are not rows.
Not for: following a topic as it grows; logins (`kafka_source`).
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from drlib.analysis.spark import kafka_source
from drlib.analysis.spark.parts import only_inside
from drlib.errors import UsageError
from drlib.files import read_json, write_whole
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Isolation
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import TopicPartition

TIMEOUT_S = 15.0
# Each task ends at the end of its partition and waits there for an empty fetch: with Kafka's 500 ms that is more than
# half of a scan (250,000 records in 6 partitions: 3.1 s, with 10 ms 1.3 s).
FETCH_MAX_WAIT_MS = 10
ID_HEADER, EVENT_TIME_HEADER = "id", "event-time"  # written by the applications of the lab
MIN_OFFSETS_PER_TASK: Final = 100_000  # offsets: fewer are not worth a task of their own
DAY_MS: Final = 86_400_000
_SALT: Final = 0x9E3779B97F4A7C15 - 2**64  # any number that is not a length
ClusterRef = ClusterSettings | str


@dataclass(frozen=True, slots=True)
class TopicRange:
    """By partition: the first offset to read, the end offset, and the log start offset when it was pinned.

    `undecided`: offsets at or after `end` that belong to open transactions, where there are any. `compacted`: the log cleaner
    may remove records in between; a tombstone stays for `delete_retention_ms` at least. `append_time`: brokers give each record
    a time of its own. `parts`: of each partition only records
    in these (first, end) are read, ascending ones; None: all.
    """

    topic: str
    start: Mapping[int, int]
    end: Mapping[int, int]
    log_start: Mapping[int, int]
    topic_id: str = ""  # another ID: the topic was re-created
    compacted: bool = False
    delete_retention_ms: int = DAY_MS
    undecided: Mapping[int, int] = field(default_factory=dict)
    parts: Mapping[int, tuple[tuple[int, int], ...]] | None = None
    append_time: bool = False

    @property
    def offsets(self) -> int:
        """Offsets in the range: records, control records and gaps."""
        return sum(end - self.start[partition] for partition, end in self.end.items())

    def up_to(self, ends: Mapping[int, int]) -> "TopicRange":
        """The same up to `ends`, of each partition; nothing of one that these lack."""
        last = {n: max(self.start[n], min(end, ends.get(n, 0))) for n, end in self.end.items()}
        return replace(self, end=last, undecided={n: at for n, at in self.undecided.items() if at < last[n]})


_RANGES: Final = TypeAdapter(dict[str, TopicRange])


def cluster_settings(where: ClusterRef) -> ClusterSettings:
    """`where` as settings; HOST:PORT addresses become a cluster without login whose alias they are."""
    return where if isinstance(where, ClusterSettings) else ClusterSettings(where, tuple(where.split(",")))


def pin_range(where: ClusterRef, topic: str, *, read_committed: bool = True) -> TopicRange:
    """Everything the topic holds now, as a fixed range.

    Raises `Unreachable` when the cluster does not answer within 15 s, `UsageError` when it has no such topic, and what
    a cluster refuses.
    """
    return pin_ranges(where, [topic], read_committed=read_committed)[topic]


def pin_ranges(where: ClusterRef, topics: Collection[str], *, read_committed: bool = True) -> dict[str, TopicRange]:
    """The same of many topics, with as many requests. Raises as `pin_range` does."""
    cluster = cluster_settings(where)
    if not topics:
        return {}
    with Cluster(cluster, timeout_s=TIMEOUT_S) as handle:
        descriptions = handle.topics(topics)
        if missing := sorted({*topics} - {*descriptions}):
            raise UsageError(
                f"Topic {missing[0]} cannot be read",
                f"{cluster.alias} does not have it",
                "Check its name and the cluster.",
            )
        partitions = [TopicPartition(name, n) for name, topic in descriptions.items() for n in range(topic.partitions)]
        configs = handle.topic_config(topics, inherited=True)
        starts = handle.log_starts(partitions)
        ends = handle.log_ends(partitions)
        stable = handle.log_ends(partitions, Isolation.READ_COMMITTED) if read_committed else ends
    pinned = {}
    for name, description in descriptions.items():
        own, config = [TopicPartition(name, n) for n in range(description.partitions)], configs[name]
        pinned[name] = TopicRange(
            name,
            first := {at.partition: starts[at] for at in own},
            {at.partition: max(stable[at], starts[at]) for at in own},
            first,
            topic_id=str(description.topic_id),
            compacted="compact" in config.get("cleanup.policy", ""),
            delete_retention_ms=int(config.get("delete.retention.ms") or DAY_MS),
            undecided={at.partition: ends[at] - stable[at] for at in own if ends[at] > stable[at]},
            append_time=config.get("message.timestamp.type") == "LogAppendTime",
        )
    return pinned


def save_ranges(path: Path, ranges: Mapping[str, TopicRange]) -> None:
    """Write pinned ranges, by names of the caller's, so that another process reads exactly the same records."""
    write_whole(path, _RANGES.dump_json(dict(ranges), indent=1))


def load_ranges(path: Path) -> dict[str, TopicRange]:
    """What `save_ranges` wrote; empty without such a file. Raises `UsageError` for any other content."""
    return read_json(path, _RANGES) if path.exists() else {}


def read_topic(
    spark: SparkSession,
    where: ClusterRef,
    topic: str,
    *,
    start: Mapping[int, int] | None = None,
    end: Mapping[int, int] | None = None,
    read_committed: bool = True,
    split: bool = True,
) -> DataFrame:
    """The records with start <= offset < end of each partition; a bound that is None is the topic's own, now.

    Without `split` each partition is read by one task. Raises what `pin_range` raises; a range that is deleted later fails when
    the frame is computed.
    """
    if start is None or end is None:
        pinned = pin_range(where, topic, read_committed=read_committed)
        start, end = start if start is not None else pinned.start, end if end is not None else pinned.end
    if start.keys() != end.keys():
        raise UsageError(
            f"Topic {topic} cannot be read",
            f"`start` names partitions {sorted(start)} and `end` {sorted(end)}",
            "Give both for the same partitions",
        )
    vanished = [partition for partition, offset in end.items() if offset < start[partition]]
    if vanished:
        raise UsageError(
            f"Topic {topic} cannot be read",
            f"partitions {vanished} start after the requested end",
            "Pin the range again",
        )
    raw = _load(spark, where, {topic: (start, end)}, read_committed=read_committed, split=split)
    return with_identity(raw.select("partition", "offset", "timestamp", "key", "value", "headers"))


def read_range(
    spark: SparkSession, where: ClusterRef, pinned: TopicRange, *, read_committed: bool = True, split: bool = True
) -> DataFrame:
    """The records of a pinned range, in its parts where it has some; see `read_topic`."""
    records = read_topic(
        spark, where, pinned.topic, start=pinned.start, end=pinned.end, read_committed=read_committed, split=split
    )
    if pinned.parts is None:
        return records
    return only_inside(records, ((pinned.topic, n, *part) for n, those in pinned.parts.items() for part in those))


def read_ranges(spark: SparkSession, where: ClusterRef, ranges: Sequence[TopicRange]) -> DataFrame:
    """The records of pinned ranges, at least one, with a column topic and without identity: one plan for any number."""

    def load(some: Sequence[TopicRange]) -> DataFrame:
        raw = _load(spark, where, {each.topic: (each.start, each.end) for each in some})
        return raw.select("topic", "partition", "offset", "timestamp", "key", "value", "headers")

    whole, in_part = ([each for each in ranges if (each.parts is None) is wanted] for wanted in (True, False))
    if not in_part:
        return load(whole)
    parts = ((each.topic, n, *part) for each in in_part for n, those in (each.parts or {}).items() for part in those)
    inside = only_inside(load(in_part), parts)
    return load(whole).unionByName(inside) if whole else inside


def _load(
    spark: SparkSession,
    where: ClusterRef,
    offsets: Mapping[str, tuple[Mapping[int, int], Mapping[int, int]]],
    *,
    read_committed: bool = True,
    split: bool = True,
) -> DataFrame:
    """Spark's own columns of the records between two offsets of each partition, by topic."""

    def as_json(side: int) -> str:
        return json.dumps({topic: {str(n): at for n, at in both[side].items()} for topic, both in offsets.items()})

    sizes = [end[n] - first for start, end in offsets.values() for n, first in start.items()]
    return (
        kafka_source.read(spark, cluster_settings(where))
        .option("assign", json.dumps({topic: sorted(start) for topic, (start, _) in offsets.items()}))
        .option("startingOffsets", as_json(0))
        .option("endingOffsets", as_json(1))
        .option("includeHeaders", "true")
        .option("failOnDataLoss", "true")
        .option("kafka.fetch.max.wait.ms", str(FETCH_MAX_WAIT_MS))
        .option("kafka.isolation.level", "read_committed" if read_committed else "read_uncommitted")
        .options(**_split_options(spark, sizes, split))
        .load()
    )


def max_offsets_per_task(offsets: int, cores: int) -> int:
    """How many offsets of a partition one task reads at most, given the `offsets` of all partitions.

    Two thirds of a core's share: even partitions, two per core, stay whole, because one task over a whole partition proves more
    about order.
    """
    return max(MIN_OFFSETS_PER_TASK, -(-2 * offsets // (3 * cores)))


def _split_options(spark: SparkSession, sizes: Sequence[int], split: bool) -> dict[str, str]:
    """By a partition's own size: `minPartitions` does nothing for a skewed topic with more partitions than that."""
    if not split:
        return {}
    return {"maxRecordsPerPartition": str(max_offsets_per_task(sum(sizes), spark.sparkContext.defaultParallelism))}


def with_identity(records: DataFrame) -> DataFrame:
    """Add record_type, id, event_time and content_hash to a frame that has timestamp, key, value and headers."""
    return records.withColumns(
        {
            "record_type": sf.when(sf.col("value").isNull(), sf.lit("tombstone")).otherwise(sf.lit("record")),
            "id": header_as_long(header(ID_HEADER)),
            "event_time": header_as_timestamp(header(EVENT_TIME_HEADER)),
            "content_hash": sf.xxhash64(*field_hashes().values()),
        }
    )


def field_hashes() -> dict[str, Column]:
    """A 64-bit hash of each field that a mirror must keep, by the field's name.

    Each byte string is preceded by its length (-1 for null): null and empty differ, and no byte can move between fields.
    """
    hashed = {name: sf.xxhash64(*parts) for name, parts in _contents().items()}
    return {**hashed, "timestamp": sf.unix_millis(sf.col("timestamp"))}


def salted_hash() -> Column:
    """A 64-bit hash of everything that a mirror must keep of a record, independent of `field_hashes`.

    xxhash64 takes the hash so far as the seed of the next part, so another first part changes the whole hash.
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
    """The value of the first header called `name`, null without one."""
    return sf.get(sf.filter(sf.col("headers"), lambda h: h["key"] == name), 0)["value"]


def header_as_long(value: Column) -> Column:
    """A header's bytes as a long: decimal text, else eight big-endian bytes, else null."""
    text = value.cast("string")
    big_endian = sf.when(sf.length(value) == 8, sf.conv(sf.hex(value), 16, -10).try_cast("bigint"))
    return sf.coalesce(text.try_cast("bigint"), big_endian)


def header_as_timestamp(value: Column) -> Column:
    """A header's bytes as a timestamp: epoch milliseconds as `header_as_long` reads them, else ISO 8601 text."""
    return sf.coalesce(sf.timestamp_millis(header_as_long(value)), value.cast("string").try_cast("timestamp"))


def _length(value: Column) -> Column:
    return sf.coalesce(sf.length(value), sf.lit(-1))
