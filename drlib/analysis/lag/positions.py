"""Positions of readers over time, as DataFrames: the mirror's from its journal, groups' from their commits.

Rules: bytes are parsed by Spark's own functions, so nothing is collected and no Python runs on executors. Both logs are
compacted: what the log cleaner removed is unknown; every partition's newest position is always there. Read committed, so that
commits of aborted transactions do not count.
Columns: reader string (a group's name, or the flow), topic string, partition int, at timestamp (UTC), position long (the next
offset to read).
Sources: OffsetCommitKey.json and OffsetCommitValue.json of Apache Kafka, as in `drlib.mirror.mm2.consumer_offsets`; `Covered`
of `drlib.mirror.journal.claims_and_runs`.
"""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from drlib.analysis.audit.compare import read_failure
from drlib.analysis.spark.topics import ClusterRef, cluster_settings, read_topic
from drlib.errors import DrlibError
from drlib.mirror.journal.claims_and_runs import Covered
from drlib.mirror.journal.fields import SourcePartition

CONSUMER_OFFSETS: Final = "__consumer_offsets"
# The connector skips internal topics when it lists partitions with an admin client (SPARK-32032, as of 4.0:
# ConsumerStrategy.retrieveAllPartitions), and reads them when it lists partitions with a consumer.
_DEPRECATED_OFFSET_FETCHING: Final = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
_COVERED: Final = Covered(SourcePartition(UUID(int=0), 0), 0).key()[:2]  # format and kind
_COMMITS: Final = (0, 1)  # versions of an offset commit's key
_VALUES: Final = (0, 1, 2, 3)  # of its value: the offset follows two bytes, the time follows the metadata
_LATEST_VALUE: Final = 4  # flexible; only the offset is needed, and the record has a timestamp


class CommitsUnread(DrlibError):
    """The log of what groups committed could not be read."""

    def __init__(self, alias: str, why: str) -> None:
        remedy = f"Grant Read on {CONSUMER_OFFSETS} on {alias}, see that each of its partitions has a leader, and run it again."
        super().__init__(f"what groups committed on {alias} is unknown", why, remedy)


def mirror_positions(journal: DataFrame, reader: str, topics: Mapping[UUID, str]) -> DataFrame:
    """How far a flow's source was mirrored, by its `journal`. `topics`: source topics by topic ID.

    Topics that are not in `topics`, and earlier topics of the same name, are left out.
    """
    entries = journal.where(sf.substring("key", 1, 2) == sf.lit(_COVERED)).where(sf.col("value").isNotNull())
    names = sf.create_map(*[sf.lit(part) for topic_id, name in topics.items() for part in (topic_id.hex.upper(), name)])
    positions = entries.select(
        sf.lit(reader).alias("reader"),
        sf.try_element_at(names, sf.hex(sf.substring("key", 3, 16))).alias("topic"),
        integer(sf.col("key"), 19, 4).cast("int").alias("partition"),
        sf.col("timestamp").alias("at"),
        integer(sf.col("value"), 2, 8).alias("position"),
    )
    return positions.where(sf.col("topic").isNotNull())


def read_commits(spark: SparkSession, where: ClusterRef, *more: Column, deletions: bool = False) -> DataFrame:
    """What groups committed on a cluster, as far as its log still has it; persisted, for the caller to unpersist.

    `more` and `deletions` as in `committed_positions`. Raises `UsageError` where no group ever committed,
    `CommitsUnread`, `Unreachable`.
    """
    raw = read_topic(spark, where, CONSUMER_OFFSETS)
    before = spark.conf.get(_DEPRECATED_OFFSET_FETCHING, "false")
    spark.conf.set(_DEPRECATED_OFFSET_FETCHING, "true")
    try:
        commits = committed_positions(raw, *more, deletions=deletions).persist()
        commits.count()  # planned and read here, while the setting is in effect, so that what cannot be read is known here
        return commits
    except (PySparkException, Py4JJavaError) as error:
        if (why := read_failure(str(error))) is None:
            raise
        raise CommitsUnread(cluster_settings(where).alias, why) from error
    finally:
        spark.conf.set(_DEPRECATED_OFFSET_FETCHING, before)


def committed_positions(commits: DataFrame, *more: Column, deletions: bool = False) -> DataFrame:
    """The commits in a frame of `__consumer_offsets`, without other records, and without deleted positions unless `deletions`:
    those are null. `more` are columns of the records themselves, such as their offset.

    The time is the record's, which the broker sets when it accepts the commit. Negative positions, which a broker accepts, are
    left out too.
    """
    version = integer(sf.col("key"), 1, 2)
    length = integer(sf.col("key"), 3, 2).cast("int")
    topic_at = sf.lit(5) + length  # position of the topic's length
    topic_length = integer(sf.col("key"), topic_at, 2).cast("int")
    deleted = sf.col("value").isNull() & sf.lit(deletions)
    rows = commits.where(version.isin(*_COMMITS)).withColumn("deleted", deleted)
    rows = rows.where(sf.col("deleted") | integer(sf.col("value"), 1, 2).isin(*_VALUES, _LATEST_VALUE))
    positions = rows.select(
        _text(sf.substring(sf.col("key"), sf.lit(5), length)).alias("reader"),
        _text(sf.substring(sf.col("key"), topic_at + 2, topic_length)).alias("topic"),
        integer(sf.col("key"), topic_at + 2 + topic_length, 4).cast("int").alias("partition"),
        sf.col("timestamp").alias("at"),
        integer(sf.col("value"), 3, 8).alias("position"),
        "deleted",
        *more,
    )
    return positions.where(sf.col("deleted") | (sf.col("position") >= 0)).drop("deleted")


def integer(data: Column, at: int | Column, size: int) -> Column:
    """The big-endian number in `size` bytes at `at`, counted from 1; signed only where it has eight bytes."""
    begins = at if isinstance(at, Column) else sf.lit(at)
    return sf.conv(sf.hex(sf.substring(data, begins, sf.lit(size))), 16, -10).cast("bigint")


def current_positions(
    spark: SparkSession, readers: Mapping[str, Mapping[tuple[str, int], int]], at_ms: int
) -> DataFrame:
    """Positions of `readers` that a cluster returned at `at_ms`, as rows of the same columns: one frame for any number."""
    rows = [
        (reader, topic, partition, at_ms, position)
        for reader, positions in readers.items()
        for (topic, partition), position in positions.items()
    ]
    frame = spark.createDataFrame(rows, "reader string, topic string, partition int, at long, position long")
    return frame.withColumn("at", sf.timestamp_millis("at"))


def _text(data: Column) -> Column:
    return sf.decode(data, "UTF-8")
