"""Groups whose committed offset went back, so that they read records again, on one cluster or across two.

Rules: commits are read from `__consumer_offsets`. Its log cleaner keeps the last commit of each partition and what it has not
cleaned yet: what is found did happen, and there may have been more before. A record counts as read again only up to the
group's later commits; beyond them it is `pending`. Across clusters a position on the source is translated by the copies: the
records before and after it, paired by content. A broker deletes the positions in a topic that is deleted, and those that
expired: a position that was deleted later may be of an earlier topic of that name, so that what was read again is unsure.
Not for: setting positions, nor groups that store theirs elsewhere.
"""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from drlib.analysis.duplicates.result import Reread
from drlib.analysis.lag.positions import read_commits
from drlib.analysis.spark.contents import group_contents
from drlib.analysis.spark.topics import ClusterRef, TopicRange, cluster_settings, read_range
from drlib.closing import Closing
from drlib.errors import UsageError

MAX_REREADS: Final = 1000
_TABLE: Final = "number int, partition int, first long, next long"


class GroupCommits(Closing):
    """What groups committed on both clusters, read once and kept in Spark's memory: a context manager.

    Raises `Unreachable`, and what a cluster refuses: it takes the right to read `__consumer_offsets`.
    """

    def __init__(self, spark: SparkSession, source: ClusterRef, target: ClusterRef) -> None:
        self._kept: list[DataFrame] = []
        self.source = self._read(spark, source)
        self.target = self._read(spark, target)

    def close(self) -> None:
        """Unpersist the frames. May be repeated."""
        while self._kept:
            self._kept.pop().unpersist()

    def _read(self, spark: SparkSession, where: ClusterRef) -> DataFrame | None:
        """None where no group has ever committed anything."""
        try:
            commits = read_commits(spark, where, sf.col("offset").alias("number"), deletions=True)
        except UsageError:
            return None
        self._kept.append(commits)
        return _with_milliseconds(commits)


def find_rereads(
    spark: SparkSession,
    source: ClusterRef,
    target: ClusterRef,
    source_range: TopicRange,
    target_range: TopicRange,
    commits: GroupCommits,
) -> tuple[Reread, ...]:
    """What groups read again of a topic on the source, of its copy on the target, and across both.

    At most `MAX_REREADS` ranges each. Raises Spark's own errors.
    """
    left, right = commits.source, commits.target
    rereads = [
        *_rewinds_in_place(spark, source, source_range, left),
        *_rewinds_in_place(spark, target, target_range, right),
        *_rewinds_across(spark, source, target, source_range, target_range, left, right),
    ]
    return tuple(sorted(rereads, key=lambda r: (r.group, r.cluster, r.partition, r.at_ms)))


def _with_milliseconds(commits: DataFrame) -> DataFrame:
    """Columns: group, topic string, partition int, position long, at_ms long, number long (their order), life long: how often
    the position was deleted before."""
    before = Window.partitionBy("group", "topic", "partition").orderBy("number")
    rows = commits.withColumnRenamed("reader", "group").withColumn("at_ms", sf.unix_millis("at"))
    return rows.withColumn("life", sf.count_if(sf.col("position").isNull()).over(before))


def _unsure(group: str, topic: str, alias: str) -> str:
    return (
        f"positions of {group} in {topic} on {alias} were deleted, as they are with a topic that is created again, so that "
        "what it read again is unknown"
    )


def _rewinds_in_place(
    spark: SparkSession, where: ClusterRef, pinned: TopicRange, commits: DataFrame | None
) -> list[Reread]:
    """Positions of one topic that went back on the cluster where they were committed."""
    if commits is None:
        return []
    of_partition = Window.partitionBy("group", "partition")
    order = of_partition.orderBy("number")
    later = Window.partitionBy("group", "partition", "life").orderBy("number").rowsBetween(1, Window.unboundedFollowing)
    rows = (
        commits.where(sf.col("topic") == pinned.topic)
        .withColumn("lives", sf.max("life").over(of_partition))
        .where(sf.col("position").isNotNull())
        .withColumn("before", sf.lag("position").over(order))
        .withColumn("deleted", sf.lag("life").over(order) < sf.col("lives"))
        .withColumn("after", sf.max("position").over(later))
        .where(sf.col("position") < sf.col("before"))
        .select(
            "group",
            "partition",
            "position",
            "before",
            sf.coalesce("after", "position").alias("after"),
            "at_ms",
            "number",
            "deleted",
        )
        .orderBy("group", "partition", "number")
        .limit(MAX_REREADS)
        .collect()
    )
    spans = []
    for row in rows:
        pending = row["after"] <= row["position"]
        stop = row["before"] if pending else min(row["before"], row["after"])
        spans.append((row["partition"], row["position"], stop))
    counts = _records(spark, where, pinned, spans)
    alias = cluster_settings(where).alias
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
            unsure=_unsure(row["group"], pinned.topic, alias) if row["deleted"] else "",
        )
        for row, (_, first, stop), count in zip(rows, spans, counts, strict=True)
    ]


def _records(
    spark: SparkSession, where: ClusterRef, pinned: TopicRange, spans: Sequence[tuple[int, int, int]]
) -> list[int]:
    """How many records each (partition, first, next offset) holds."""
    if not spans:
        return []
    table = spark.createDataFrame([(n, *span) for n, span in enumerate(spans)], _TABLE)
    records = read_range(spark, where, pinned).select("partition", "offset")
    inside = (sf.col("offset") >= sf.col("first")) & (sf.col("offset") < sf.col("next"))
    rows = records.join(sf.broadcast(table), "partition").where(inside).groupBy("number").count().collect()
    counts = {row["number"]: row["count"] for row in rows}
    return [counts.get(n, 0) for n in range(len(spans))]


def _rewinds_across(
    spark: SparkSession,
    source: ClusterRef,
    target: ClusterRef,
    source_range: TopicRange,
    target_range: TopicRange,
    left: DataFrame | None,
    right: DataFrame | None,
) -> list[Reread]:
    """Groups that resumed on the target before their position on the source."""
    if left is None or right is None:
        return []
    keys = ["group", "partition"]
    known = sf.col("position").isNotNull()
    last = (
        left.where(sf.col("topic") == source_range.topic)
        .groupBy(*keys)
        .agg(
            sf.max_by(sf.struct("position", "at_ms", "life"), sf.when(known, sf.col("number"))).alias("last"),
            sf.max("life").alias("lives"),
        )
        .select(
            *keys,
            sf.col("last.position").alias("left_at"),
            sf.col("last.at_ms").alias("left_ms"),
            (sf.col("last.life") < sf.col("lives")).alias("left_deleted"),
        )
    )
    after = (
        right.where(sf.col("topic") == target_range.topic).join(last, keys).where(sf.col("at_ms") >= sf.col("left_ms"))
    )
    moved = (
        after.groupBy(*keys, "left_at", "left_deleted")
        .agg(
            sf.min_by(sf.struct("position", "at_ms", "life"), sf.when(known, sf.col("number"))).alias("begun"),
            sf.max("position").alias("read_to"),
            sf.max("life").alias("lives"),
        )
        .where(sf.col("begun").isNotNull())
        .withColumn("deleted", sf.col("begun.life") < sf.col("lives"))
        .select(*keys, "left_at", "begun.position", "begun.at_ms", "read_to", "left_deleted", "deleted")
        .orderBy(*keys)
        .limit(MAX_REREADS)
        .collect()
    )
    if not moved:
        return []
    table = spark.createDataFrame(
        [(n, row["partition"], row["left_at"], row["position"]) for n, row in enumerate(moved)],
        "number int, partition int, left_at long, begun long",
    )
    grouped = group_contents(read_range(spark, source, source_range), read_range(spark, target, target_range)).where(
        "paired > 0"
    )
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
    alias, home = cluster_settings(target).alias, cluster_settings(source).alias
    rereads = []
    for each in again:
        row = moved[each["number"]]
        unsure = _unsure(row["group"], source_range.topic, home) if row["left_deleted"] else ""
        if row["deleted"]:
            unsure = _unsure(row["group"], target_range.topic, alias)
        rereads.append(
            Reread(
                row["group"],
                alias,
                target_range.topic,
                row["partition"],
                row["position"],
                each["next"],
                each["n"],
                row["at_ms"],
                f"it had read to {row['left_at']} on {home}, and resumed at {row['position']}",
                # until the group has read past them, a replicator that syncs offsets may have moved it
                pending=row["read_to"] < each["next"],
                unsure=unsure,
            )
        )
    return rereads
