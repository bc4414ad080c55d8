"""What a cleaner may have taken: records that are missing on one side because a later one of their key is there.

Rules: a record on the source that the target, compacted, lacks is explained by a later record of its key that is on both
sides, or by a tombstone at the end of its key that is old enough to have gone with all before it. A record on the target
that the source, compacted, lacks is explained by a later one of its key there, by one that has yet to cross, or by such a
tombstone. What nothing explains is left to be judged. A tombstone stays `delete.retention.ms` at least after it was
written, and its timestamp is not later than that (KIP-534, `LogCleaner`).
Not for: keys that nobody superseded; their loss is a loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from drlib.analysis.spark.contents import before


@dataclass(frozen=True, slots=True)
class Cleaners:
    """Which side is compacted: its delete.retention.ms there, None where it is not. `now_ms` is when it was looked."""

    source_ms: int | None = None
    target_ms: int | None = None
    now_ms: int = 0

    @property
    def none(self) -> bool:
        return self.source_ms is None and self.target_ms is None


def taken(
    grouped: DataFrame, lost: DataFrame, extra: DataFrame, cleaners: Cleaners, last_source: Mapping[int, int | None]
) -> tuple[DataFrame, DataFrame]:
    """`lost` (of the source) and `extra` (of the target) with `taken` boolean: a cleaner explains it.

    `grouped` are the `contents` of both sides; `last_source` is each partition's last source offset that has crossed.
    """
    if cleaners.none:
        return lost.withColumn("taken", sf.lit(False)), extra.withColumn("taken", sf.lit(False))
    no_value = sf.xxhash64(sf.lit(-1))  # as `field_hashes` has it for null
    crossed = sf.col("paired") > 0

    def newest(side: str) -> Column:
        last = sf.struct(
            sf.element_at(side, -1).alias("at"), (sf.col("value") == no_value).alias("tombstone"), "timestamp"
        )
        return sf.max(sf.when(sf.size(side) > 0, last))

    keys = grouped.groupBy("partition", "key").agg(
        sf.max(sf.when(crossed, sf.element_at("sources", -1))).alias("newest_crossed"),
        sf.max(sf.when(crossed, sf.element_at("targets", -1))).alias("newest_copy"),
        sf.max(sf.when(sf.size("sources") > sf.col("paired"), sf.element_at("sources", -1))).alias("newest_alone"),
        newest("sources").alias("end_of_source"),
        newest("targets").alias("end_of_target"),
    )

    def gone(end: str, retention_ms: int | None) -> Column:
        """The key ends in a tombstone that may have been removed, and all before it."""
        if retention_ms is None:
            return sf.lit(False)
        old = sf.col(f"{end}.timestamp") <= sf.lit(cleaners.now_ms - retention_ms)
        return sf.coalesce(sf.col(f"{end}.tombstone") & old, sf.lit(False))

    superseded = sf.coalesce(sf.col("source") < sf.col("newest_crossed"), sf.lit(False))
    deleted = gone("end_of_source", cleaners.target_ms) & before(sf.col("end_of_source.at"), last_source)
    on_target = (superseded | deleted) if cleaners.target_ms is not None else sf.lit(False)
    yet_to_cross = sf.col("newest_alone").isNotNull() & ~before("newest_alone", last_source)
    replaced = sf.coalesce(sf.col("target") < sf.col("newest_copy"), sf.lit(False)) | yet_to_cross
    on_source = (
        (replaced | gone("end_of_target", cleaners.source_ms)) if cleaners.source_ms is not None else sf.lit(False)
    )
    return (
        lost.join(keys, ["partition", "key"]).withColumn("taken", on_target).select(*lost.columns, "taken"),
        extra.join(keys, ["partition", "key"]).withColumn("taken", on_source).select(*extra.columns, "taken"),
    )
