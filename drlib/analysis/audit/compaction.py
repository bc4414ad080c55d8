"""Which missing or extra records a log cleaner explains: records superseded by a later one of their key.

Rules: a record of the source that the compacted target lacks is explained by a later record of its key that is on both
sides, or by a tombstone at the end of its key that is old enough to have been removed with all records before it. A record of
the target that the compacted source lacks is explained by a later one of its key on both sides, by one that was not mirrored
yet, or by such a tombstone. Everything else is left to the audit. A tombstone stays for `delete.retention.ms` at least after
it was written, and its timestamp is not later than that (KIP-534, `LogCleaner`).
Not for: keys without a later record; their loss is a loss.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from drlib.analysis.spark.contents import is_before


@dataclass(frozen=True, slots=True)
class Cleaners:
    """Which side is compacted: its delete.retention.ms, None where it is not. `now_ms`: when that was read."""

    source_ms: int | None = None
    target_ms: int | None = None
    now_ms: int = 0

    @property
    def none(self) -> bool:
        return self.source_ms is None and self.target_ms is None


def mark_compacted(
    grouped: DataFrame, lost: DataFrame, extra: DataFrame, cleaners: Cleaners, last_source: Mapping[int, int | None]
) -> tuple[DataFrame, DataFrame]:
    """`lost` (of the source) and `extra` (of the target) with column `compacted`: a log cleaner explains it.

    `grouped` are the contents of both sides; `last_source` is each partition's last source offset that was mirrored.
    """
    if cleaners.none:
        return lost.withColumn("compacted", sf.lit(False)), extra.withColumn("compacted", sf.lit(False))
    no_value = sf.xxhash64(sf.lit(-1))  # as `field_hashes` has it for null
    mirrored = sf.col("paired") > 0

    def newest(side: str) -> Column:
        last = sf.struct(
            sf.element_at(side, -1).alias("offset"), (sf.col("value") == no_value).alias("tombstone"), "timestamp"
        )
        return sf.max(sf.when(sf.size(side) > 0, last))

    keys = grouped.groupBy("partition", "key").agg(
        sf.max(sf.when(mirrored, sf.element_at("sources", -1))).alias("newest_mirrored"),
        sf.max(sf.when(mirrored, sf.element_at("targets", -1))).alias("newest_copy"),
        sf.max(sf.when(sf.size("sources") > sf.col("paired"), sf.element_at("sources", -1))).alias("newest_unmirrored"),
        newest("sources").alias("end_of_source"),
        newest("targets").alias("end_of_target"),
    )

    def expired_tombstone(end: str, retention_ms: int | None) -> Column:
        """The key ends in a tombstone that the cleaner may have removed, with all records before it."""
        if retention_ms is None:
            return sf.lit(False)
        old = sf.col(f"{end}.timestamp") <= sf.lit(cleaners.now_ms - retention_ms)
        return sf.coalesce(sf.col(f"{end}.tombstone") & old, sf.lit(False))

    superseded = sf.coalesce(sf.col("source") < sf.col("newest_mirrored"), sf.lit(False))
    deleted = expired_tombstone("end_of_source", cleaners.target_ms) & is_before(
        sf.col("end_of_source.offset"), last_source
    )
    on_target = (superseded | deleted) if cleaners.target_ms is not None else sf.lit(False)
    not_mirrored_yet = sf.col("newest_unmirrored").isNotNull() & ~is_before("newest_unmirrored", last_source)
    replaced = sf.coalesce(sf.col("target") < sf.col("newest_copy"), sf.lit(False)) | not_mirrored_yet
    on_source = (
        (replaced | expired_tombstone("end_of_target", cleaners.source_ms))
        if cleaners.source_ms is not None
        else sf.lit(False)
    )
    return (
        lost.join(keys, ["partition", "key"]).withColumn("compacted", on_target).select(*lost.columns, "compacted"),
        extra.join(keys, ["partition", "key"]).withColumn("compacted", on_source).select(*extra.columns, "compacted"),
    )
