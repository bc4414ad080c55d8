"""Where a group's position went back, so that it read records again: from what it committed, on one cluster or across two.

Rules: the commits are read from `__consumer_offsets`, whose cleaner keeps the last one of each partition and whatever it
has not come to yet: what is found happened, and there may have been more before. A record counts as read again only as
far as the group's later commits go; beyond that it is still to be read again (`pending`). Across clusters a position on
the source is what the copies say it is on the target: the records in front of it and behind it, paired by content.
Not for: setting positions, nor groups that keep theirs elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from drlib.analysis.duplicates.result import Reread
from drlib.analysis.lag.positions import read_commits
from drlib.analysis.spark.contents import contents
from drlib.analysis.spark.topics import TopicRange, Where, read_range, settings_of
from drlib.errors import UsageError

MOST: Final = 1000
_TABLE: Final = "number int, partition int, first long, next long"


class GroupCommits:
    """What groups committed on both clusters, read once and kept in Spark's memory: a context manager.

    Raises `Unreachable`, and what a cluster refuses: it takes the right to read `__consumer_offsets`.
    """

    def __init__(self, spark: SparkSession, source: Where, target: Where) -> None:
        self._kept: list[DataFrame] = []
        self.source = self._read(spark, source)
        self.target = self._read(spark, target)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let Spark forget them. Safe to repeat."""
        while self._kept:
            self._kept.pop().unpersist()

    def _read(self, spark: SparkSession, where: Where) -> DataFrame | None:
        """None where no group has ever committed anything."""
        try:
            made = read_commits(spark, where, sf.col("offset").alias("number"))
        except UsageError:
            return None
        self._kept.append(made)
        return _named(made)


def find_rereads(
    spark: SparkSession,
    source: Where,
    target: Where,
    here: TopicRange,
    there: TopicRange,
    commits: GroupCommits,
) -> tuple[Reread, ...]:
    """What groups read again of `here`, a topic on the source, of `there`, its copy on the target, and of both. At most 1000
    stretches each. Raises Spark's own errors."""
    left, right = commits.source, commits.target
    found = [
        *_in_place(spark, source, here, left),
        *_in_place(spark, target, there, right),
        *_across(spark, source, target, here, there, left, right),
    ]
    return tuple(sorted(found, key=lambda one: (one.group, one.cluster, one.partition, one.at_ms)))


def _named(made: DataFrame) -> DataFrame:
    """Columns: group, topic string, partition int, position long, at_ms long, number long (their order)."""
    return made.withColumnRenamed("reader", "group").withColumn("at_ms", sf.unix_millis("at"))


def _in_place(spark: SparkSession, where: Where, pinned: TopicRange, made: DataFrame | None) -> list[Reread]:
    """Positions of one topic that went back on the cluster where they were committed."""
    if made is None:
        return []
    order = Window.partitionBy("group", "partition").orderBy("number")
    rows = (
        made.where(sf.col("topic") == pinned.topic)
        .withColumn("before", sf.lag("position").over(order))
        .withColumn("after", sf.max("position").over(order.rowsBetween(1, Window.unboundedFollowing)))
        .where(sf.col("position") < sf.col("before"))
        .select(
            "group",
            "partition",
            "position",
            "before",
            sf.coalesce("after", "position").alias("after"),
            "at_ms",
            "number",
        )
        .orderBy("group", "partition", "number")
        .limit(MOST)
        .collect()
    )
    spans = []
    for row in rows:
        pending = row["after"] <= row["position"]
        stop = row["before"] if pending else min(row["before"], row["after"])
        spans.append((row["partition"], row["position"], stop))
    counts = _records(spark, where, pinned, spans)
    alias = settings_of(where).alias
    return [
        Reread(
            row["group"],
            alias,
            pinned.topic,
            row["partition"],
            first,
            stop,
            count,
            row["at_ms"],
            f"its position went back from {row['before']} to {row['position']}",
            pending=row["after"] <= row["position"],
        )
        for row, (_, first, stop), count in zip(rows, spans, counts, strict=True)
    ]


def _records(spark: SparkSession, where: Where, pinned: TopicRange, spans: Sequence[tuple[int, int, int]]) -> list[int]:
    """How many records each (partition, first, next offset) holds."""
    if not spans:
        return []
    table = spark.createDataFrame([(n, *span) for n, span in enumerate(spans)], _TABLE)
    records = read_range(spark, where, pinned).select("partition", "offset")
    inside = (sf.col("offset") >= sf.col("first")) & (sf.col("offset") < sf.col("next"))
    found = records.join(sf.broadcast(table), "partition").where(inside).groupBy("number").count().collect()
    counts = {row["number"]: row["count"] for row in found}
    return [counts.get(n, 0) for n in range(len(spans))]


def _across(
    spark: SparkSession,
    source: Where,
    target: Where,
    here: TopicRange,
    there: TopicRange,
    left: DataFrame | None,
    right: DataFrame | None,
) -> list[Reread]:
    """Groups that went on at the target in front of where they were on the source."""
    if left is None or right is None:
        return []
    keys = ["group", "partition"]
    last = (
        left.where(sf.col("topic") == here.topic)
        .groupBy(*keys)
        .agg(sf.max_by(sf.struct("position", "at_ms"), "number").alias("last"))
        .select(*keys, sf.col("last.position").alias("left_at"), sf.col("last.at_ms").alias("left_ms"))
    )
    after = right.where(sf.col("topic") == there.topic).join(last, keys).where(sf.col("at_ms") >= sf.col("left_ms"))
    moved = (
        after.groupBy(*keys, "left_at")
        .agg(sf.min_by(sf.struct("position", "at_ms"), "number").alias("begun"), sf.max("position").alias("read_to"))
        .select(*keys, "left_at", "begun.position", "begun.at_ms", "read_to")
        .orderBy(*keys)
        .limit(MOST)
        .collect()
    )
    if not moved:
        return []
    table = spark.createDataFrame(
        [(n, row["partition"], row["left_at"], row["position"]) for n, row in enumerate(moved)],
        "number int, partition int, left_at long, begun long",
    )
    grouped = contents(read_range(spark, source, here), read_range(spark, target, there)).where("paired > 0")
    pair = sf.explode(sf.arrays_zip("sources", "targets")).alias("pair")
    again = (
        grouped.select("partition", pair)
        .select("partition", "pair.sources", "pair.targets")
        .join(sf.broadcast(table), "partition")
        .where((sf.col("sources") < sf.col("left_at")) & (sf.col("targets") >= sf.col("begun")))
        .groupBy("number")
        .agg(sf.count("*").alias("n"), (sf.max("targets") + 1).alias("next"))
        .collect()
    )
    alias, found = settings_of(target).alias, []
    for each in again:
        row = moved[each["number"]]
        found.append(
            Reread(
                row["group"],
                alias,
                there.topic,
                row["partition"],
                row["position"],
                each["next"],
                each["n"],
                row["at_ms"],
                f"it had come to {row['left_at']} on {settings_of(source).alias}, and goes on at {row['position']}",
                # until it is past them, all that moved may be a replicator that keeps positions in step
                pending=row["read_to"] < each["next"],
            )
        )
    return found
