"""Where a real MirrorMaker 2 and its groups stood, over time, as DataFrames: from its offset syncs and its checkpoints.

Rules: as in `positions`: Spark takes the bytes apart, both topics are compacted and history begins where it still stands, and
what is no record of theirs is passed over. A pair of offsets is told every `offset.lag.max` records, so positions from pairs
are lower bounds: MirrorMaker 2 stood there or further (`rules.mm2_lag`). How far it can have come by then at most, no pair
tells, whenever it is told: `furthest` has that from where the mirror ends now.
Columns of pairs: topic, partition, at timestamp, upstream and downstream long, told long (a later word has a higher one).
Sources: `OffsetSync` and `Checkpoint` of `connect.mirror`, as in `rules.mm2_records`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as sf

from drlib.analysis.lag.mm2_lag import Stand
from drlib.analysis.lag.positions import integer
from drlib.mirror.mm2.records import OffsetSync
from drlib.model import TopicPartition

_STRING: Final = 2  # bytes of a string's length
_PAIR: Final = 16  # bytes of an offset sync's value
_CHECKPOINT: Final = 20  # of a checkpoint's, with empty metadata


def pairs(syncs: DataFrame, topics: Sequence[str]) -> DataFrame:
    """The pairs in a frame of an offset-syncs topic that are of `topics`, names on the source."""
    length = _length(1)
    whole = (sf.length("key") >= _STRING + length + 4) & (sf.length("value") >= _PAIR)
    found = syncs.where(sf.coalesce(whole, sf.lit(False))).select(
        _text(1).alias("topic"),
        integer(sf.col("key"), sf.lit(_STRING + 1) + length, 4).cast("int").alias("partition"),
        sf.col("timestamp").alias("at"),
        integer(sf.col("value"), 1, 8).alias("upstream"),
        integer(sf.col("value"), 9, 8).alias("downstream"),
        sf.col("offset").alias("told"),
    )
    return found.where(sf.col("topic").isin(*topics))


def newest(told: DataFrame) -> tuple[OffsetSync, ...]:
    """Each partition's newest pair; that many rows come to the driver."""
    rows = told.groupBy("topic", "partition").agg(sf.max_by(sf.struct("upstream", "downstream"), "told").alias("last"))
    return tuple(
        OffsetSync(TopicPartition(row["topic"], row["partition"]), row["last"]["upstream"], row["last"]["downstream"])
        for row in rows.collect()
    )


def least(told: DataFrame, reader: str) -> DataFrame:
    """The positions that pairs prove, as rows of `positions`' columns."""
    return told.select(
        sf.lit(reader).alias("reader"), "topic", "partition", "at", (sf.col("upstream") + 1).alias("position")
    )


def furthest(records: DataFrame, told: DataFrame, stands: Mapping[TopicPartition, Stand], reader: str) -> DataFrame:
    """The positions MirrorMaker 2 may have come to at most, from each pair of `told` on; `records` as `lag.sized` has them.

    Each offset behind the pair on the mirror, as it ends now, is taken for the copy of another record, whenever it was made.
    The position is the record behind the last one that may have been copied, and behind all where all of them may have been.
    A pair that a later one contradicts (it came further, or the mirror was cut or made anew) tells nothing, nor do those
    before it: there is no row.
    """
    spark = records.sparkSession
    place = ["topic", "partition"]
    newest_pair = told.groupBy(*place).agg(sf.max_by("downstream", "told").alias("newest"))
    rows = [(at.topic, at.partition, one.more) for at, one in stands.items()]
    more = spark.createDataFrame(rows, "topic string, partition int, more long")
    ends = newest_pair.join(sf.broadcast(more), place).select(*place, (sf.col("newest") + sf.col("more")).alias("last"))
    asked = told.join(sf.broadcast(ends), place).where("downstream <= last")
    none = sf.lit(None)
    rank = sf.sum("one").over(Window.partitionBy(*place).orderBy("offset").rangeBetween(Window.unboundedPreceding, 0))
    counted = (
        records.select(
            *place, "offset", sf.lit(1).alias("one"),
            none.cast("timestamp").alias("at"), none.cast("long").alias("told"), none.cast("long").alias("behind"),
        )
        .unionByName(
            asked.select(
                *place, sf.col("upstream").alias("offset"), sf.lit(0).alias("one"),
                "at", "told", (sf.col("last") - sf.col("downstream")).alias("behind"),
            )
        )
        .withColumn("rank", rank)
    )  # fmt: skip
    by_word = Window.partitionBy(*place).orderBy("told")
    later = Window.partitionBy(*place).orderBy(sf.desc("told"))
    found = (
        counted.where("told is not null")
        .select(*place, "at", "told", "offset", (sf.col("rank") + sf.col("behind")).alias("most"))
        .withColumn("passed", (sf.lead("most").over(by_word) > sf.col("most")).cast("int"))
        .withColumn("wrong", sf.sum(sf.coalesce("passed", sf.lit(0))).over(later))
        .where("wrong = 0")
    )
    first_left = counted.where("told is null").select(
        *place, (sf.col("rank") - 1).alias("most"), sf.col("offset").alias("left")
    )
    last = records.groupBy(*place).agg((sf.max("offset") + 1).alias("end"))
    return (
        found.join(first_left, [*place, "most"], "left")
        .join(last, place, "left")
        .select(
            sf.lit(reader).alias("reader"),
            *place,
            "at",
            sf.coalesce("left", sf.greatest("end", sf.col("offset") + 1)).alias("position"),
        )
    )


def checkpointed(checkpoints: DataFrame, topics: Sequence[str]) -> DataFrame:
    """Where groups would go on at the target, by a frame of a checkpoints topic; `topics` are names on the target."""
    group = _length(1)
    behind = sf.lit(_STRING + 1) + group  # where the topic's length stands
    topic = _length(behind)
    whole = (sf.length("key") >= 2 * _STRING + group + topic + 4) & (sf.length("value") >= _CHECKPOINT)
    found = checkpoints.where(
        sf.coalesce(whole, sf.lit(False)) & (integer(sf.col("value"), 1, 2) == 0)  # the version
    ).select(
        _text(1).alias("reader"),
        _text(behind).alias("topic"),
        integer(sf.col("key"), behind + _STRING + topic, 4).cast("int").alias("partition"),
        sf.col("timestamp").alias("at"),
        integer(sf.col("value"), 11, 8).alias("position"),
    )
    return found.where(sf.col("topic").isin(*topics) & (sf.col("position") >= 0))


def _length(at: int | Column) -> Column:
    return integer(sf.col("key"), at, _STRING).cast("int")


def _text(at: int | Column) -> Column:
    begins = sf.lit(at) if isinstance(at, int) else at
    return sf.substring(sf.col("key"), begins + _STRING, _length(at)).cast("string")
