"""Lag over time, partition by partition: functions from DataFrames to DataFrames.

A reader's lag at a moment is what was in the log by then at or after its position: in records, in bytes of keys and values,
and in seconds since the oldest of them was written.
Rules:
- Records are counted, offsets never subtracted: control records and gaps of compaction take offsets and are no lag.
- *In the log by then* is decided by the records' timestamps, the producer's unless the topic has LogAppendTime; what is in the
  log now is there by now, also with a timestamp that is still to come. In a topic with timestamps of another time (a replay)
  the lag in records is right now and wrong in the past.
- A position holds until the next known one, so the lag of a stopped reader grows. Before the first known position there is no
  row.
- Every window is partitioned by topic and partition (and reader); only `lag_points` collects.
Columns of records: topic string, partition int, offset long, timestamp, bytes long. Of positions: as in `positions`. Of lag:
reader, topic, partition, at timestamp, position, lag_records long, lag_bytes long, lag_s double.
"""

from collections import defaultdict
from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from drlib.analysis.lag.trend import Point
from drlib.model import TopicPartition

PARTITION: Final = ("topic", "partition")
PERCENTILES: Final = (0.5, 0.95, 0.99)
_ACCURACY: Final = 1000


def record_sizes(records: DataFrame, topic: str | None = None, until_ms: int | None = None) -> DataFrame:
    """A frame of records of `topic`, or with a column topic, as this module takes it: where, when and how large.

    `until_ms`: now. No record is of a later time, whatever its timestamp says.
    """
    when = sf.col("timestamp") if until_ms is None else sf.least("timestamp", sf.timestamp_millis(sf.lit(until_ms)))
    return records.select(
        sf.col("topic") if topic is None else sf.lit(topic).alias("topic"),
        "partition",
        "offset",
        when.alias("timestamp"),
        (sf.coalesce(sf.length("key"), sf.lit(0)) + sf.coalesce(sf.length("value"), sf.lit(0)))
        .cast("long")
        .alias("bytes"),
    )


def moments(spark: SparkSession, from_ms: int, until_ms: int, count: int) -> DataFrame:
    """`count` moments, evenly spaced after `from_ms` up to `until_ms`, in column at."""
    step = max(1, (until_ms - from_ms) // count)
    moments = spark.range(count).select((sf.lit(until_ms) - sf.col("id") * step).alias("ms"))
    return moments.where(sf.col("ms") > from_ms).select(sf.timestamp_millis("ms").alias("at"))


def lag_at(records: DataFrame, positions: DataFrame) -> DataFrame:
    """The lag of every reader at each row of `positions_at`."""
    behind = _with_unread(records, positions)
    return behind.select(
        "reader",
        *PARTITION,
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


def lag_points(rows: DataFrame) -> dict[tuple[str, TopicPartition], list[tuple[Point, int]]]:
    """Points and positions of each reader and partition in a frame of `lag_at`, oldest first; one row each is collected."""
    series: dict[tuple[str, TopicPartition], list[tuple[Point, int]]] = defaultdict(list)
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
        series[row["reader"], TopicPartition(row["topic"], row["partition"])].append((point, row["position"]))
    return series


def positions_at(positions: DataFrame, moments: DataFrame) -> DataFrame:
    """Each reader's position at each moment: the newest known by then; no row where none was."""
    key = ["reader", *PARTITION]
    queries = positions.select(*key).distinct().crossJoin(moments).withColumn("position", sf.lit(None).cast("long"))
    known_positions = positions.select(*key, "at", "position").withColumn("is_query", sf.lit(False))
    rows = known_positions.unionByName(queries.withColumn("is_query", sf.lit(True)))
    # The newest position counts, not the greatest: a group may be set back. Of those of one moment the greatest counts.
    by_time = Window.partitionBy(*key).orderBy("at", "is_query", "position")
    before = by_time.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    known = rows.withColumn("position", sf.last("position", ignorenulls=True).over(before))
    return known.where("is_query and position is not null").select(*key, "at", "position")


def _with_unread(records: DataFrame, positions: DataFrame) -> DataFrame:
    """`positions` with what is before each of them (read), what was there at each moment (arrived), and the oldest unread."""
    empty = sf.lit(None)
    position_rows = positions.select(
        "reader", *PARTITION, "at", "position",
        sf.col("position").alias("offset"), sf.col("at").alias("timestamp"),
        sf.lit(0).alias("is_record"), sf.lit(0).cast("long").alias("bytes"), empty.cast("timestamp").alias("written"),
    )  # fmt: skip
    rows = records.select(
        empty.cast("string").alias("reader"), *PARTITION,
        empty.cast("timestamp").alias("at"), empty.cast("long").alias("position"),
        "offset", "timestamp", sf.lit(1).alias("is_record"), "bytes", sf.col("timestamp").alias("written"),
    )  # fmt: skip
    merged = rows.unionByName(position_rows)
    up_to = (Window.unboundedPreceding, Window.currentRow)
    # A position sorts before the record at its offset, a moment after the records of its time.
    by_offset = Window.partitionBy(*PARTITION).orderBy("offset", "is_record")
    by_time = Window.partitionBy(*PARTITION).orderBy(sf.col("timestamp"), sf.col("is_record").desc())
    with_counts = merged.withColumns(
        {
            "read": sf.sum("is_record").over(by_offset.rowsBetween(*up_to)),
            "read_bytes": sf.sum("bytes").over(by_offset.rowsBetween(*up_to)),
            "oldest": sf.first("written", ignorenulls=True).over(
                by_offset.rowsBetween(Window.currentRow, Window.unboundedFollowing)
            ),
        }
    ).withColumns(
        {
            "arrived": sf.sum("is_record").over(by_time.rowsBetween(*up_to)),
            "arrived_bytes": sf.sum("bytes").over(by_time.rowsBetween(*up_to)),
        }
    )
    return with_counts.where("is_record = 0")


def latency(records: DataFrame, positions: DataFrame) -> DataFrame:
    """For each record the milliseconds from its timestamp until a position after it was first known.

    Columns: topic, partition, offset, timestamp, latency_ms long, null for what was not read yet. Positions are known about
    once a second, so a latency is an upper bound by that much. For the positions of one reader; records before the first one
    are left out, since when they were read is unknown.
    """
    position_rows = positions.select(*PARTITION, sf.col("position").alias("offset"), "at").withColumn(
        "is_record", sf.lit(0)
    )
    rows = records.select(*PARTITION, "offset", "timestamp").withColumn("is_record", sf.lit(1))
    merged = rows.unionByName(position_rows, allowMissingColumns=True)
    by_offset = Window.partitionBy(*PARTITION).orderBy("offset", "is_record")
    after = by_offset.rowsBetween(1, Window.unboundedFollowing)
    before = by_offset.rowsBetween(Window.unboundedPreceding, -1)
    reached = merged.withColumns(
        {
            "reached": sf.min("at").over(after),
            "known": sf.min("at").over(before),
        }
    )
    return reached.where("is_record = 1 and known is not null").select(
        *PARTITION,
        "offset",
        "timestamp",
        (sf.unix_millis("reached") - sf.unix_millis("timestamp")).alias("latency_ms"),
    )


def latency_by_hour(latencies: DataFrame) -> DataFrame:
    """By topic and hour (UTC) of writing: records, those not read yet, and percentiles of latency in milliseconds.

    Columns: topic, hour timestamp, records, unread, then `p50`, `p95` and so on (within a thousandth), greatest.
    """
    percentile = sf.percentile_approx("latency_ms", sf.array(*map(sf.lit, PERCENTILES)), sf.lit(_ACCURACY))
    hourly = latencies.groupBy("topic", sf.date_trunc("hour", "timestamp").alias("hour")).agg(
        sf.count("*").alias("records"),
        sf.count_if(sf.col("latency_ms").isNull()).alias("unread"),
        percentile.alias("percentiles"),
        sf.max("latency_ms").alias("greatest"),
    )
    named = [sf.col("percentiles")[n].alias(f"p{each * 100:g}") for n, each in enumerate(PERCENTILES)]
    return hourly.select("topic", "hour", "records", "unread", *named, "greatest")


def partition_totals(records: DataFrame) -> DataFrame:
    """Records and bytes of each partition: topic, partition, records, bytes."""
    return records.groupBy(*PARTITION).agg(sf.count("*").alias("records"), sf.sum("bytes").alias("bytes"))
