"""Positions of MirrorMaker 2 and of its groups over time, as DataFrames: from its offset syncs and its checkpoints.

Rules: as in `positions`: Spark parses the bytes, both topics are compacted, other records are skipped. An offset sync is
written every `offset.lag.max` records, so positions from them are lower bounds (`mm2_lag`). `furthest_positions` gives upper
bounds from where the mirror topic ends now.
Columns of pairs: topic, partition, at timestamp, upstream and downstream long, sync_offset long (of the sync's record).
Sources: `OffsetSync` and `Checkpoint` of `connect.mirror`, as in `drlib.mirror.mm2.records`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from drlib.analysis.lag.mm2_lag import Mm2Position
from drlib.analysis.lag.positions import integer
from drlib.mirror.mm2.records import OffsetSync
from drlib.model import TopicPartition

_STRING: Final = 2  # bytes of a string's length
_PAIR: Final = 16  # bytes of an offset sync's value
_CHECKPOINT: Final = 20  # of a checkpoint's, with empty metadata


def offset_sync_pairs(syncs: DataFrame, topics: Sequence[str]) -> DataFrame:
    """The pairs of `topics`, named as on the source, in a frame of an offset-syncs topic."""
    length = _length(1)
    whole = (sf.length("key") >= _STRING + length + 4) & (sf.length("value") >= _PAIR)
    pairs = syncs.where(sf.coalesce(whole, sf.lit(False))).select(
        _text(1).alias("topic"),
        integer(sf.col("key"), sf.lit(_STRING + 1) + length, 4).cast("int").alias("partition"),
        sf.col("timestamp").alias("at"),
        integer(sf.col("value"), 1, 8).alias("upstream"),
        integer(sf.col("value"), 9, 8).alias("downstream"),
        sf.col("offset").alias("sync_offset"),
    )
    return pairs.where(sf.col("topic").isin(*topics))


def newest_pairs(pairs: DataFrame) -> tuple[OffsetSync, ...]:
    """Each partition's newest pair; that many rows are collected."""
    rows = pairs.groupBy("topic", "partition").agg(
        sf.max_by(sf.struct("upstream", "downstream"), "sync_offset").alias("last")
    )
    return tuple(
        OffsetSync(TopicPartition(row["topic"], row["partition"]), row["last"]["upstream"], row["last"]["downstream"])
        for row in rows.collect()
    )


def proven_positions(pairs: DataFrame, reader: str) -> DataFrame:
    """The positions that pairs prove, as rows of `positions`' columns."""
    return pairs.select(
        sf.lit(reader).alias("reader"), "topic", "partition", "at", (sf.col("upstream") + 1).alias("position")
    )


def furthest_positions(
    records: DataFrame, pairs: DataFrame, positions: Mapping[TopicPartition, Mm2Position], reader: str
) -> DataFrame:
    """The furthest positions MirrorMaker 2 can have reached, from each pair on; `records` as of `frames.record_sizes`.

    Each offset after the pair on the mirror, up to its end now, counts as the copy of another record, whenever it was written.
    The position is the one after the last record that may have been copied, and after all where all of them may have been.
    A pair that a later one contradicts (it came further, or the mirror topic was truncated or re-created) says nothing, nor do
    those before it: there is no row.
    """
    spark = records.sparkSession
    partition = ["topic", "partition"]
    newest_pair = pairs.groupBy(*partition).agg(sf.max_by("downstream", "sync_offset").alias("newest"))
    rows = [(at.topic, at.partition, position.more) for at, position in positions.items()]
    more = spark.createDataFrame(rows, "topic string, partition int, more long")
    ends = newest_pair.join(sf.broadcast(more), partition).select(
        *partition, (sf.col("newest") + sf.col("more")).alias("last")
    )
    usable = pairs.join(sf.broadcast(ends), partition).where("downstream <= last")
    none = sf.lit(None)
    rank = sf.sum("is_record").over(
        Window.partitionBy(*partition).orderBy("offset").rangeBetween(Window.unboundedPreceding, 0)
    )
    counted = (
        records.select(
            *partition, "offset", sf.lit(1).alias("is_record"),
            none.cast("timestamp").alias("at"), none.cast("long").alias("sync_offset"), none.cast("long").alias("behind"),
        )
        .unionByName(
            usable.select(
                *partition, sf.col("upstream").alias("offset"), sf.lit(0).alias("is_record"),
                "at", "sync_offset", (sf.col("last") - sf.col("downstream")).alias("behind"),
            )
        )
        .withColumn("rank", rank)
    )  # fmt: skip
    by_sync = Window.partitionBy(*partition).orderBy("sync_offset")
    later = Window.partitionBy(*partition).orderBy(sf.desc("sync_offset"))
    most = (
        counted.where("sync_offset is not null")
        .select(*partition, "at", "sync_offset", "offset", (sf.col("rank") + sf.col("behind")).alias("most"))
        .withColumn("passed", (sf.lead("most").over(by_sync) > sf.col("most")).cast("int"))
        .withColumn("wrong", sf.sum(sf.coalesce("passed", sf.lit(0))).over(later))
        .where("wrong = 0")
    )
    first_left = counted.where("sync_offset is null").select(
        *partition, (sf.col("rank") - 1).alias("most"), sf.col("offset").alias("left")
    )
    last = records.groupBy(*partition).agg((sf.max("offset") + 1).alias("end"))
    return (
        most.join(first_left, [*partition, "most"], "left")
        .join(last, partition, "left")
        .select(
            sf.lit(reader).alias("reader"),
            *partition,
            "at",
            sf.coalesce("left", sf.greatest("end", sf.col("offset") + 1)).alias("position"),
        )
    )


def checkpoint_positions(checkpoints: DataFrame, topics: Sequence[str]) -> DataFrame:
    """Where groups would resume on the target, from a frame of a checkpoints topic; `topics` are names on the target."""
    group = _length(1)
    topic_at = sf.lit(_STRING + 1) + group  # where the topic's length positions
    topic = _length(topic_at)
    whole = (sf.length("key") >= 2 * _STRING + group + topic + 4) & (sf.length("value") >= _CHECKPOINT)
    positions = checkpoints.where(
        sf.coalesce(whole, sf.lit(False)) & (integer(sf.col("value"), 1, 2) == 0)  # the version
    ).select(
        _text(1).alias("reader"),
        _text(topic_at).alias("topic"),
        integer(sf.col("key"), topic_at + _STRING + topic, 4).cast("int").alias("partition"),
        sf.col("timestamp").alias("at"),
        integer(sf.col("value"), 11, 8).alias("position"),
    )
    return positions.where(sf.col("topic").isin(*topics) & (sf.col("position") >= 0))


def _length(at: int | Column) -> Column:
    return integer(sf.col("key"), at, _STRING).cast("int")


def _text(at: int | Column) -> Column:
    begins = sf.lit(at) if isinstance(at, int) else at
    return sf.substring(sf.col("key"), begins + _STRING, _length(at)).cast("string")
