"""Two topics as one frame of what they hold: a row for each content of each partition, with its offsets on either side.

Rules: content is key, value, headers in order and timestamp, each by its own hash (256 bits in all), within a partition
and under one `id` header; offsets are ascending, so the n-th occurrence on one side stands for the n-th on the other.
One shuffle. Nothing comes to the driver but counts and bounded lists. Where a side was not read from its log's beginning,
`borders` says from where on both sides are known.
Not for: judging (`audit`, `duplicates`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from drlib.analysis.spark.topics import field_hashes

FIELDS = ("key", "value", "headers", "timestamp")


@dataclass(frozen=True, slots=True)
class Borders:
    """Of one partition: the first offset on either side whose record is surely on the other side's range too."""

    source: int
    target: int


def contents(left: DataFrame | None, right: DataFrame) -> DataFrame:
    """Columns: partition, id, a hash for each of `FIELDS` (timestamp in ms), sources, targets array<long>, paired int.

    Both frames have `read_topic`'s columns; without `left` nothing is known of the source.
    """
    hashes = field_hashes()
    fields = ["partition", "id", *FIELDS]

    def side(records: DataFrame, source: Column, target: Column) -> DataFrame:
        columns = [expression.alias(name) for name, expression in hashes.items()]
        return records.select("partition", "id", *columns, source.alias("source"), target.alias("target"))

    nowhere = sf.lit(None).cast("bigint")
    both = side(right, nowhere, sf.col("offset"))
    if left is not None:
        both = side(left, sf.col("offset"), nowhere).unionByName(both)
    grouped = both.groupBy(*fields).agg(
        sf.array_sort(sf.collect_list("source")).alias("sources"),
        sf.array_sort(sf.collect_list("target")).alias("targets"),
    )
    return grouped.withColumn("paired", sf.least(sf.size("sources"), sf.size("targets")))


def borders(grouped: DataFrame) -> dict[int, Borders]:
    """By partition, from the contents that each side holds once; a partition without any such has none."""
    once = grouped.where((sf.size("sources") == 1) & (sf.size("targets") == 1))
    first = once.groupBy("partition").agg(
        sf.min(sf.get("sources", sf.lit(0))).alias("source"), sf.min(sf.get("targets", sf.lit(0))).alias("target")
    )
    return {row["partition"]: Borders(row["source"], row["target"]) for row in first.collect()}


def left_over(offsets: str) -> Column:
    """The offsets that found no counterpart: those after the first `paired`."""
    return sf.slice(offsets, sf.col("paired") + 1, sf.size(offsets))


def before(offset: str | Column, limits: Mapping[int, int | None]) -> Column:
    """Whether a record's offset lies before its partition's limit; a partition without a limit has none before it."""
    known = [(sf.lit(partition), sf.lit(limit)) for partition, limit in limits.items() if limit is not None]
    if not known:
        return sf.lit(False)
    limit = sf.create_map(*(entry for pair in known for entry in pair))[sf.col("partition")]
    return sf.coalesce((sf.col(offset) if isinstance(offset, str) else offset) < limit, sf.lit(False))
