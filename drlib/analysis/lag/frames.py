"""Lag over time, partition by partition: functions from DataFrames to DataFrames.

A reader's lag at a moment is what stood in the log by then and lies at or behind its position: in records, in bytes of keys
and values, and in seconds since the oldest of them was written.
Rules:
- Records are counted, offsets never subtracted: control records and gaps of compaction take offsets and are no lag.
- *Stood in the log by then* is by the records' own timestamps, the producer's unless the topic has LogAppendTime. A topic with
  times of another age (a replay) has a lag in records that is right now and wrong in the past; see `latest` for now.
- A position holds until the next one is heard of, so a reader that stands still is seen to. Before its first known one
  nothing is known, and no row is made up.
- Every window is partitioned by topic and partition (and reader); nothing is collected here but by `points`.
Columns of records: topic string, partition int, offset long, timestamp, bytes long. Of positions: as in `positions`. Of lags:
reader, topic, partition, at timestamp, position, lag_records long, lag_bytes long, lag_s double.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from drlib.analysis.lag.trend import Point
from drlib.model import TopicPartition

PLACE: Final = ("topic", "partition")
PERCENTILES: Final = (0.5, 0.95, 0.99)
_ACCURACY: Final = 1000


def sized(records: DataFrame, topic: str) -> DataFrame:
    """A frame of `topics.read_topic` as this module takes it: where, when and how large, without what is in it."""
    return records.select(
        sf.lit(topic).alias("topic"),
        "partition",
        "offset",
        "timestamp",
        (sf.coalesce(sf.length("key"), sf.lit(0)) + sf.coalesce(sf.length("value"), sf.lit(0)))
        .cast("long")
        .alias("bytes"),
    )


def ticks(spark: SparkSession, from_ms: int, until_ms: int, count: int) -> DataFrame:
    """`count` moments, evenly from after `from_ms` to `until_ms`, in column at."""
    step = max(1, (until_ms - from_ms) // count)
    moments = spark.range(count).select((sf.lit(until_ms) - sf.col("id") * step).alias("ms"))
    return moments.where(sf.col("ms") > from_ms).select(sf.timestamp_millis("ms").alias("at"))


def lags(records: DataFrame, stood: DataFrame) -> DataFrame:
    """The lag of every reader where and when `held` says that it stood somewhere."""
    behind = _behind(records, stood)
    return behind.select(
        "reader",
        *PLACE,
        "at",
        "position",
        sf.greatest(sf.col("arrived") - sf.col("read"), sf.lit(0)).alias("lag_records"),
        sf.greatest(sf.col("arrived_bytes") - sf.col("read_bytes"), sf.lit(0)).alias("lag_bytes"),
        sf.when(
            (sf.col("arrived") > sf.col("read")) & (sf.col("oldest") <= sf.col("at")),
            (sf.unix_millis("at") - sf.unix_millis("oldest")) / 1000.0,
        )
        .otherwise(0.0)
        .alias("lag_s"),
    )


def points(rows: DataFrame) -> dict[tuple[str, TopicPartition], list[tuple[Point, int]]]:
    """Points and positions of each reader and partition in a frame of `lags`, oldest first; a row each comes to the driver."""
    found: dict[tuple[str, TopicPartition], list[tuple[Point, int]]] = defaultdict(list)
    for row in (
        rows.select(
            "reader",
            "topic",
            "partition",
            sf.unix_millis("at").alias("ms"),
            "position",
            "lag_records",
            "lag_bytes",
            "lag_s",
        )
        .orderBy("ms")
        .toLocalIterator()
    ):
        point = Point(row["ms"] / 1000, row["lag_records"], row["lag_bytes"], row["lag_s"])
        found[row["reader"], TopicPartition(row["topic"], row["partition"])].append((point, row["position"]))
    return found


def held(positions: DataFrame, moments: DataFrame) -> DataFrame:
    """Each reader's position at each moment: the newest it was heard of by then. Where none was, there is no row."""
    who = ["reader", *PLACE]
    asked = positions.select(*who).distinct().crossJoin(moments).withColumn("position", sf.lit(None).cast("long"))
    heard = positions.select(*who, "at", "position").withColumn("asked", sf.lit(False))
    every = heard.unionByName(asked.withColumn("asked", sf.lit(True)))
    # The newest word counts, not the furthest: a group may be set back. Of words of one moment the later offset does.
    by_time = Window.partitionBy(*who).orderBy("at", "asked", "position")
    before = by_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    known = every.withColumn("position", sf.last("position", ignorenulls=True).over(before))
    return known.where("asked and position is not null").select(*who, "at", "position")


def _behind(records: DataFrame, stood: DataFrame) -> DataFrame:
    """`stood` with what lies before each position (read), what was there at each moment (arrived), and the oldest unread."""
    empty = sf.lit(None)
    marks = stood.select(
        "reader", *PLACE, "at", "position",
        sf.col("position").alias("offset"), sf.col("at").alias("timestamp"),
        sf.lit(0).alias("one"), sf.lit(0).cast("long").alias("bytes"), empty.cast("timestamp").alias("written"),
    )  # fmt: skip
    rows = records.select(
        empty.cast("string").alias("reader"), *PLACE, empty.cast("timestamp").alias("at"), empty.cast("long").alias("position"),
        "offset", "timestamp", sf.lit(1).alias("one"), "bytes", sf.col("timestamp").alias("written"),
    )  # fmt: skip
    every = rows.unionByName(marks)
    up_to = (Window.unboundedPreceding, Window.currentRow)
    # A position comes before the record at its offset, a moment after the records of its time.
    by_offset = Window.partitionBy(*PLACE).orderBy("offset", "one")
    by_time = Window.partitionBy(*PLACE).orderBy(sf.col("timestamp"), sf.col("one").desc())
    counted = every.withColumns(
        {
            "read": sf.sum("one").over(by_offset.rowsBetween(*up_to)),
            "read_bytes": sf.sum("bytes").over(by_offset.rowsBetween(*up_to)),
            "oldest": sf.first("written", ignorenulls=True).over(
                by_offset.rowsBetween(Window.currentRow, Window.unboundedFollowing)
            ),
        }
    ).withColumns(
        {
            "arrived": sf.sum("one").over(by_time.rowsBetween(*up_to)),
            "arrived_bytes": sf.sum("bytes").over(by_time.rowsBetween(*up_to)),
        }
    )
    return counted.where("one = 0")


def latency(records: DataFrame, positions: DataFrame) -> DataFrame:
    """For each record the milliseconds from its timestamp until a position behind it was first heard of.

    Columns: topic, partition, offset, timestamp, latency_ms long, null for what was not read yet. A position is heard of about
    once a second, so a latency is an upper bound by that much. One reader's positions only; those before the first are left
    out, for nobody knows how long before.
    """
    spots = positions.select(*PLACE, sf.col("position").alias("offset"), "at").withColumn("one", sf.lit(0))
    rows = records.select(*PLACE, "offset", "timestamp").withColumn("one", sf.lit(1))
    every = rows.unionByName(spots, allowMissingColumns=True)
    by_offset = Window.partitionBy(*PLACE).orderBy("offset", "one")
    after = by_offset.rowsBetween(1, Window.unboundedFollowing)
    before = by_offset.rowsBetween(Window.unboundedPreceding, -1)
    found = every.withColumns(
        {
            "reached": sf.min("at").over(after),
            "known": sf.min("at").over(before),
        }
    )
    return found.where("one = 1 and known is not null").select(
        *PLACE,
        "offset",
        "timestamp",
        (sf.unix_millis("reached") - sf.unix_millis("timestamp")).alias("latency_ms"),
    )


def latency_by_hour(latencies: DataFrame, percentiles: Sequence[float] = PERCENTILES) -> DataFrame:
    """By topic and hour (UTC) of writing: records, those not read yet, and percentiles of latency in milliseconds.

    Columns: topic, hour timestamp, records, unread, then `p50`, `p95` and so on (within a thousandth), greatest.
    """
    found = sf.percentile_approx("latency_ms", sf.array(*map(sf.lit, percentiles)), sf.lit(_ACCURACY))
    hourly = latencies.groupBy("topic", sf.date_trunc("hour", "timestamp").alias("hour")).agg(
        sf.count("*").alias("records"),
        sf.count_if(sf.col("latency_ms").isNull()).alias("unread"),
        found.alias("found"),
        sf.max("latency_ms").alias("greatest"),
    )
    named = [sf.col("found")[n].alias(f"p{each * 100:g}") for n, each in enumerate(percentiles)]
    return hourly.select("topic", "hour", "records", "unread", *named, "greatest")


def by_partition(records: DataFrame) -> DataFrame:
    """Records and bytes of each partition: topic, partition, records, bytes."""
    return records.groupBy(*PLACE).agg(sf.count("*").alias("records"), sf.sum("bytes").alias("bytes"))
