"""Both sides of a mirrored topic as sums of pieces, for `rules.sequence_sums`: one reading, no shuffle of records.

Rules: a task of Kafka's source reads one stretch of one partition in the order of its offsets, so the row's number in its
task is its rank in the stretch; a new stretch begins a new piece. Powers of the multipliers are looked up in two tables of
256, as Spark's arithmetic has none of whole numbers. To the driver comes a row for each piece of 65,536 records.
Not for: frames that are not read as they lie in a log; there a row's number means nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from drlib.analysis.audit.rules import PIECE, PRIME, Agreement, Multipliers, Piece, agreement, draw
from drlib.analysis.spark.topics import TopicRange, Where, field_hashes, read_range, salted_hash

_LOW: Final = 0xFFFFFFFF
_DIGIT: Final = 256  # a rank in its piece has two of them
_RANK: Final = 2**33 - 1  # what monotonically_increasing_id keeps for the row's number in its task
_NUMBERS: Final = ("content_low", "content_high", "check_low", "check_high")


@dataclass(frozen=True, slots=True)
class Side:
    """A topic on one cluster."""

    where: Where
    pinned: TopicRange


def agreements(
    spark: SparkSession, source: Side, target: Side, *, read_committed: bool = True, split: bool = True
) -> Mapping[int, Agreement]:
    """By partition of either side, what both begin with in common; a partition without any record has none.

    `split`: large partitions are read by several tasks; where one of them differs, less can be said of what it begins with.
    Spark's own errors come through.
    """
    multipliers = draw()
    sides = [
        _pieces(
            read_range(spark, side.where, side.pinned, read_committed=read_committed, split=split), multipliers
        ).withColumn("on_source", sf.lit(on_source))
        for side, on_source in ((source, True), (target, False))
    ]
    found: dict[bool, dict[int, list[Piece]]] = {True: {}, False: {}}
    for row in sides[0].unionByName(sides[1]).collect():
        piece = Piece(
            first=row["first"],
            last=row["last"],
            records=row["records"],
            newest_ms=row["newest_ms"],
            contents=tuple(row[name] for name in _NUMBERS),
            ordered=tuple(row[f"{name}_ordered"] % PRIME for name in _NUMBERS),
        )
        found[row["on_source"]].setdefault(row["partition"], []).append(piece)
    here, there = found[True], found[False]
    return {
        number: agreement(here.get(number, []), there.get(number, []), multipliers)
        for number in sorted({*here, *there})
    }


def _pieces(records: DataFrame, multipliers: Multipliers) -> DataFrame:
    rank = sf.monotonically_increasing_id().bitwiseAND(sf.lit(_RANK))
    hashed = records.select(
        "partition",
        "offset",
        sf.unix_millis("timestamp").alias("ms"),
        sf.xxhash64(*field_hashes().values()).alias("content"),
        salted_hash().alias("check"),
        sf.spark_partition_id().alias("task"),
        rank.alias("rank"),
    )
    numbers = {f"{name}_low": sf.col(name).bitwiseAND(sf.lit(_LOW)) for name in ("content", "check")} | {
        f"{name}_high": sf.shiftrightunsigned(sf.col(name), 32) for name in ("content", "check")
    }
    weights = {"content": _power(multipliers[0]), "check": _power(multipliers[1])}
    weighed = hashed.select(
        "partition",
        "offset",
        "ms",
        "task",
        sf.shiftright("rank", PIECE.bit_length() - 1).alias("piece"),
        *(number.alias(name) for name, number in numbers.items()),
        *(weight.alias(f"{name}_weight") for name, weight in weights.items()),
    )
    ordered = {name: (sf.col(name) * sf.col(f"{name.split('_')[0]}_weight")) % sf.lit(PRIME) for name in _NUMBERS}
    return weighed.groupBy("task", "piece").agg(
        sf.min("partition").alias("partition"),
        sf.min("offset").alias("first"),
        sf.max("offset").alias("last"),
        sf.count("*").alias("records"),
        sf.max("ms").alias("newest_ms"),
        *(sf.sum(name).alias(name) for name in _NUMBERS),
        *(sf.sum(term).alias(f"{name}_ordered") for name, term in ordered.items()),
    )


def _power(multiplier: int) -> Column:
    """`multiplier` to the power of the rank in its piece, modulo the prime."""
    rank = sf.col("rank").bitwiseAND(sf.lit(PIECE - 1))
    digits = (rank.bitwiseAND(sf.lit(_DIGIT - 1)), sf.shiftright(rank, _DIGIT.bit_length() - 1))
    tables = ([pow(multiplier, place * n, PRIME) for n in range(_DIGIT)] for place in (1, _DIGIT))
    low, high = (
        sf.lit(table).cast("array<bigint>")[digit.cast("int")] for table, digit in zip(tables, digits, strict=True)
    )
    return (low * high) % sf.lit(PRIME)
