"""Where readers stood, over time, as DataFrames: the mirror from its journal, groups from what they committed.

Rules: bytes are taken apart by Spark's own functions, so nothing comes to the driver and no Python runs on a worker. Both logs
are compacted: what the cleaner took is not known, and history begins where it still stands; every partition's newest position
is always there. Read committed, so that a commit of an aborted transaction is none.
Columns: reader string (a group's name, or the flow), topic string, partition int, at timestamp (UTC), position long (the next
offset to read).
Sources: OffsetCommitKey.json and OffsetCommitValue.json of Apache Kafka, as in `rules.consumer_offsets`; `Covered` of
`rules.journal_promises`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from drlib.analysis.spark.topics import Where, read_topic
from drlib.mirror.journal.claims_and_runs import Covered
from drlib.mirror.journal.fields import SourcePartition

CONSUMER_OFFSETS: Final = "__consumer_offsets"
# The connector passes over internal topics when it asks an admin client which partitions there are (SPARK-32032, as of 4.0:
# ConsumerStrategy.retrieveAllPartitions), and reads them all the same when it asks a consumer.
_OLD_WAY: Final = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
_COVERED: Final = Covered(SourcePartition(UUID(int=0), 0), 0).key()[:2]  # format and kind
_COMMITS: Final = (0, 1)  # versions of an offset commit's key
_VALUES: Final = (0, 1, 2, 3)  # of its value: an offset behind two bytes, and a time where the metadata ends
_LATEST_VALUE: Final = 4  # flexible: nothing in it is needed but the offset, and the record has a time of its own


def mirrored(journal: DataFrame, reader: str, topics: Mapping[UUID, str]) -> DataFrame:
    """What a flow's `journal` says of how far its source was read and brought over. `topics`: source topics by their ID.

    Topics that are not in `topics`, and an earlier topic of a name, are left out.
    """
    entries = journal.where(sf.substring("key", 1, 2) == sf.lit(_COVERED)).where(sf.col("value").isNotNull())
    names = sf.create_map(*[sf.lit(part) for topic_id, name in topics.items() for part in (topic_id.hex.upper(), name)])
    found = entries.select(
        sf.lit(reader).alias("reader"),
        sf.try_element_at(names, sf.hex(sf.substring("key", 3, 16))).alias("topic"),
        integer(sf.col("key"), 19, 4).cast("int").alias("partition"),
        sf.col("timestamp").alias("at"),
        integer(sf.col("value"), 2, 8).alias("position"),
    )
    return found.where(sf.col("topic").isNotNull())


def read_commits(spark: SparkSession, where: Where, *more: Column) -> DataFrame:
    """What groups committed on a cluster, as far as it remembers; in memory, so that whoever is done with it unpersists it.
    `more` columns are of the records themselves, such as their offset.

    Raises `UsageError` where nobody ever committed anything, `Unreachable`.
    """
    raw = read_topic(spark, where, CONSUMER_OFFSETS)
    before = spark.conf.get(_OLD_WAY, "false")
    spark.conf.set(_OLD_WAY, "true")
    try:
        return committed(raw, *more).persist()  # this plans it, so that nobody else's frame is planned in the old way
    finally:
        spark.conf.set(_OLD_WAY, before)


def committed(commits: DataFrame, *more: Column) -> DataFrame:
    """The commits in a frame of `__consumer_offsets`; deleted positions and what is no commit are left out.

    The time is the record's, which a broker gives it as it takes the commit. A negative position, which a broker takes from
    whoever insists, is no place in a log and is left out too.
    """
    version = integer(sf.col("key"), 1, 2)
    length = integer(sf.col("key"), 3, 2).cast("int")
    behind = sf.lit(5) + length  # where the topic's length stands
    topic_length = integer(sf.col("key"), behind, 2).cast("int")
    rows = commits.where(sf.col("value").isNotNull() & version.isin(*_COMMITS))
    rows = rows.where(integer(sf.col("value"), 1, 2).isin(*_VALUES, _LATEST_VALUE))
    found = rows.select(
        _text(sf.substring(sf.col("key"), sf.lit(5), length)).alias("reader"),
        _text(sf.substring(sf.col("key"), behind + 2, topic_length)).alias("topic"),
        integer(sf.col("key"), behind + 2 + topic_length, 4).cast("int").alias("partition"),
        sf.col("timestamp").alias("at"),
        integer(sf.col("value"), 3, 8).alias("position"),
        *more,
    )
    return found.where(sf.col("position") >= 0)


def integer(data: Column, at: int | Column, size: int) -> Column:
    """The big-endian number in `size` bytes at `at`, counted from 1; signed where it is eight of them."""
    begins = at if isinstance(at, Column) else sf.lit(at)
    return sf.conv(sf.hex(sf.substring(data, begins, sf.lit(size))), 16, -10).cast("bigint")


def now(spark: SparkSession, reader: str, positions: Mapping[tuple[str, int], int], at_ms: int) -> DataFrame:
    """Positions as a cluster tells them at `at_ms`, as rows of the same columns."""
    rows = [(reader, topic, partition, at_ms, position) for (topic, partition), position in positions.items()]
    frame = spark.createDataFrame(rows, "reader string, topic string, partition int, at long, position long")
    return frame.withColumn("at", sf.timestamp_millis("at"))


def _text(data: Column) -> Column:
    return sf.decode(data, "UTF-8")
