"""Two topics as one frame: a row for each distinct content of each partition, with its offsets on both sides.

Rules: content is key, value, headers in order and timestamp, each by its own hash (256 bits in all), within a partition and
under one `id` header. Offsets are ascending, so the n-th occurrence on one side pairs with the n-th on the other. One
shuffle. Only counts and bounded lists are collected. Where a side was not read from the beginning of its log,
`common_starts` gives the first offsets from which both sides are known.
Not for: judging (`drlib.analysis.audit.compare`, `drlib.analysis.duplicates.find`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from drlib.analysis.spark.topics import field_hashes

FIELDS = ("key", "value", "headers", "timestamp")


@dataclass(frozen=True, slots=True)
class CommonStart:
    """In one partition, the first offset on each side whose record is certainly in the other side's range."""

    source: int
    target: int


def group_contents(left: DataFrame | None, right: DataFrame) -> DataFrame:
    """Columns: partition, id, a hash for each of `FIELDS` (timestamp in ms), sources, targets array<long>, paired int.

    Both frames have `read_topic`'s columns; without `left` the source is unknown.
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


def common_starts(grouped: DataFrame) -> dict[int, CommonStart]:
    """By partition, from the contents that each side holds exactly once; a partition without any is left out."""
    once = grouped.where((sf.size("sources") == 1) & (sf.size("targets") == 1))
    first = once.groupBy("partition").agg(
        sf.min(sf.get("sources", sf.lit(0))).alias("source"), sf.min(sf.get("targets", sf.lit(0))).alias("target")
    )
    return {row["partition"]: CommonStart(row["source"], row["target"]) for row in first.collect()}


def pairs() -> Column:
    """The offsets of each record that is on both sides, as an array of (source, target)."""
    both = (("sources", "source"), ("targets", "target"))
    return sf.arrays_zip(*(sf.slice(side, sf.lit(1), sf.col("paired")).alias(name) for side, name in both))


def unpaired_offsets(offsets: str) -> Column:
    """The offsets without a counterpart: those after the first `paired`."""
    return sf.slice(offsets, sf.col("paired") + 1, sf.size(offsets))


def is_before(offset: str | Column, limits: Mapping[int, int | None]) -> Column:
    """Whether an offset is below the limit of its partition; false in a partition without a limit."""
    known = [(sf.lit(partition), sf.lit(limit)) for partition, limit in limits.items() if limit is not None]
    if not known:
        return sf.lit(False)
    limit = sf.create_map(*(entry for pair in known for entry in pair))[sf.col("partition")]
    return sf.coalesce((sf.col(offset) if isinstance(offset, str) else offset) < limit, sf.lit(False))
