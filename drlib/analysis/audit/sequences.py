"""Both sides of a mirrored topic as sums of pieces, for `audit.rules`: one read, no shuffle of records.

Rules: a task of Spark's Kafka source reads one range of one partition in offset order, so the row's number in its task is
its rank in the range; a new range starts a new piece. Powers of the multipliers come from two tables of 256, because Spark
has no modular exponentiation. Collected is one row per piece of 65,536 records.
Not for: frames that are not read in offset order; a row's number means nothing there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from drlib.analysis.audit.rules import PIECE, PRIME, Agreement, Multipliers, Piece, agreement, draw_multipliers
from drlib.analysis.spark.topics import ClusterRef, TopicRange, field_hashes, read_range, salted_hash

_LOW: Final = 0xFFFFFFFF
_DIGIT: Final = 256  # a rank in its piece has two digits of this base
_RANK: Final = 2**33 - 1  # the bits of monotonically_increasing_id that number the rows of a task
_NUMBERS: Final = ("content_low", "content_high", "check_low", "check_high")


@dataclass(frozen=True, slots=True)
class TopicSide:
    """A topic on one cluster."""

    where: ClusterRef
    pinned: TopicRange


def compare_sums(
    spark: SparkSession, source: TopicSide, target: TopicSide, *, split: bool = True
) -> Mapping[int, Agreement]:
    """By partition of either side, the common prefix; a partition without records on both sides has none.

    `split`: large partitions are read by several tasks; where one of them differs, a shorter prefix is proven.
    Raises Spark's own errors.
    """
    multipliers = draw_multipliers()
    sides = [
        _pieces(read_range(spark, side.where, side.pinned, split=split), multipliers).withColumn(
            "on_source", sf.lit(on_source)
        )
        for side, on_source in ((source, True), (target, False))
    ]
    pieces: dict[bool, dict[int, list[Piece]]] = {True: {}, False: {}}
    for row in sides[0].unionByName(sides[1]).collect():
        piece = Piece(
            first=row["first"],
            last=row["last"],
            records=row["records"],
            newest_ms=row["newest_ms"],
            contents=tuple(row[name] for name in _NUMBERS),
            ordered=tuple(row[f"{name}_ordered"] % PRIME for name in _NUMBERS),
        )
        pieces[row["on_source"]].setdefault(row["partition"], []).append(piece)
    source_pieces, target_pieces = pieces[True], pieces[False]
    return {
        number: agreement(source_pieces.get(number, []), target_pieces.get(number, []), multipliers)
        for number in sorted({*source_pieces, *target_pieces})
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
