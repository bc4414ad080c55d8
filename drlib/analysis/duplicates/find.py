"""Every duplicate of a mirror topic and its cause: the replicator, the producer, or unknown.

Rules: a record is identified by its partition, content (key, value, headers, timestamp) and occurrence number, so no journal
is needed, whatever mirrored the topic: of n equal records on the target and m on the source, n - m were copied twice, and
m - 1 were written twice. With `segments`, the replicator's own offset map, each copy is attributed exactly: a copy that the
map does not place is a second copy, so a loss and a duplicate that cancel out in number are still found. No cause is given
without proof: where the beginning of the source's log was deleted, or its log cleaner ran, duplicates are `unknown`.
One shuffle of all records; only repeated ones are looked at further. Windows are within one partition.
Not for: missing, altered or reordered records (`audit`), nor what a group read again (`rewinds`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from drlib.analysis.audit.compare import read_failure
from drlib.analysis.duplicates.result import (
    NONE_PLANTED,
    Cause,
    DuplicateExample,
    DuplicateReport,
    Heat,
    Reread,
    SkipRange,
    doubts_of,
    judge,
    step_for,
    unreadable,
)
from drlib.analysis.spark.contents import CommonStart, common_starts, group_contents
from drlib.analysis.spark.session import shuffle_partitions
from drlib.analysis.spark.topics import ClusterRef, TopicRange, pin_range, read_range
from drlib.model import Segment

EXAMPLES: Final = 20
MAX_RANGES: Final = 1000
MAX_PARTITIONS: Final = 40  # in the figure
APPEND_TIME: Final = (
    "the mirror topic has message.timestamp.type=LogAppendTime: each record has the time at which it was mirrored, so that one "
    "that was copied twice looks like two"
)
_BEYOND: Final = 2**62
_COLUMNS: Final = ("partition", "id", "timestamp", "cause", "source", "target", "first")
Segments = Mapping[int, Sequence[Segment]]


def find_duplicates(
    spark: SparkSession,
    target: ClusterRef,
    remote_topic: str,
    *,
    source: ClusterRef | None = None,
    topic: str | None = None,
    target_range: TopicRange | None = None,
    source_range: TopicRange | None = None,
    segments: Segments | None = None,
    rereads: Sequence[Reread] = (),
    allowed: Collection[Cause] = (),
    planted: Mapping[Cause, int] = NONE_PLANTED,
) -> DuplicateReport:
    """Pin the ranges (unless given), read them and search; without `source` only the mirror topic, with unknown causes.

    Raises what `pin_range` raises; a range that is deleted afterwards is verdict `unknown`. See `duplicates_in`.
    """
    pinned_target = target_range or pin_range(target, remote_topic)
    pinned_source = None
    if source is not None:
        pinned_source = source_range or pin_range(source, topic or remote_topic)
    with shuffle_partitions(spark, pinned_target.offsets + (pinned_source.offsets if pinned_source else 0)):
        return duplicates_in(
            remote_topic,
            read_range(spark, target, pinned_target),
            None if source is None or pinned_source is None else read_range(spark, source, pinned_source),
            source_start=pinned_source.start if pinned_source else {},
            source_compacted=pinned_source.compacted if pinned_source else False,
            append_time=pinned_target.append_time,
            segments=segments,
            rereads=rereads,
            allowed=allowed,
            planted=planted,
        )


def duplicates_in(
    topic: str,
    right: DataFrame,
    left: DataFrame | None = None,
    *,
    source_start: Mapping[int, int] | None = None,
    source_compacted: bool = False,
    append_time: bool = False,
    segments: Segments | None = None,
    rereads: Sequence[Reread] = (),
    allowed: Collection[Cause] = (),
    planted: Mapping[Cause, int] = NONE_PLANTED,
) -> DuplicateReport:
    """The duplicates of `right`, the mirror topic, given `left`, its source; both have `read_topic`'s columns.

    `append_time`: the mirror topic has LogAppendTime. `segments` by partition are those of the replicator's offset map.
    `rereads` are added as cause failover. Causes in `allowed` do not fail the search, nor do as many as were `planted`. Raises
    Spark's own errors, except those of reading: they give verdict `unknown`.
    """
    grouped = group_contents(left, right).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        return _search(
            topic,
            grouped,
            left is not None,
            source_start or {},
            source_compacted,
            append_time,
            segments,
            rereads,
            allowed,
            planted,
        )
    except Exception as error:  # a failed task surfaces as py4j's or as PySpark's own error, by where it failed
        reason = read_failure(str(error))
        if reason is None:
            raise
        return unreadable(topic, reason)
    finally:
        grouped.unpersist()


def _search(
    topic: str,
    grouped: DataFrame,
    has_source: bool,
    source_start: Mapping[int, int],
    source_compacted: bool,
    append_time: bool,
    segments: Segments | None,
    rereads: Sequence[Reread],
    allowed: Collection[Cause],
    planted: Mapping[Cause, int],
) -> DuplicateReport:
    sums = grouped.agg(sf.sum(sf.size("sources")), sf.sum(sf.size("targets"))).first()
    sources, targets = (sums[0] or 0, sums[1] or 0) if sums is not None else (0, 0)
    known = common_starts(grouped) if any(source_start.values()) else {}
    repeated = grouped.where((sf.size("sources") > 1) | (sf.size("targets") > 1)).drop("paired")
    duplicates = _classify(repeated, segments, known, source_start, source_compacted).persist()
    try:
        by_partition = duplicates.groupBy("partition", "cause").agg(
            sf.count("*").alias("n"), sf.min("timestamp").alias("from"), sf.max("timestamp").alias("to")
        )
        rows = by_partition.collect()
        counts = {cause: sum(row["n"] for row in rows if row["cause"] == cause) for cause in Cause}
        counts[Cause.FAILOVER] = sum(each.records for each in rereads if not (each.pending or each.unsure))
        numbers = sorted({row["partition"] for row in rows})
        per_partition = {p: sum(row["n"] for row in rows if row["partition"] == p) for p in numbers}
        step = step_for(max(row["to"] for row in rows) - min(row["from"] for row in rows)) if rows else 0
        skip, ranges = _skip(duplicates) if rows else ((), 0)
        doubts = list(doubts_of(rereads, allowed))
        if not has_source:
            doubts.append("the source was not read, so no cause is known")
        if targets == 0:
            doubts.append("the mirror topic holds no record")
        if append_time:
            doubts.append(APPEND_TIME)
        verdict, reasons = judge(counts, doubts, allowed, planted)
        return DuplicateReport(
            topic=topic,
            verdict=verdict,
            reasons=reasons,
            exact=bool(segments),
            source_records=sources if has_source else None,
            target_records=targets,
            counts=counts,
            per_partition=per_partition,
            examples=tuple(_examples(duplicates, counts)),
            skip=skip,
            skip_ranges=ranges,
            heat=_heat(duplicates, per_partition, step) if rows else (),
            step_ms=step,
            rereads=tuple(rereads),
            compared=targets > 0 and not append_time,
        )
    finally:
        duplicates.unpersist()


def _classify(
    repeated: DataFrame,
    segments: Segments | None,
    known: Mapping[int, CommonStart],
    source_start: Mapping[int, int],
    source_compacted: bool,
) -> DataFrame:
    """One row for each duplicate: `_COLUMNS`."""
    placed = _map_copies(repeated, segments)
    # Copies before the border may be of deleted source records: as many as nothing else explains.
    border = _limit({p: known[p].target if p in known else _BEYOND for p, at in source_start.items() if at})
    may_be_older = sf.size(sf.filter("outside", lambda at: at < border))
    frame = (
        placed.withColumn("images", sf.transform("mapped", lambda pair: pair["image"]))
        .withColumn("unmapped", sf.filter("sources", lambda at: ~sf.array_contains(sf.col("images"), at)))
        .withColumn("open", sf.size("unmapped"))
        .withColumn("older", sf.greatest(sf.lit(0), sf.least(sf.size("outside") - sf.col("open"), may_be_older)))
        .withColumn("aside", sf.slice("outside", sf.lit(1), sf.col("older")))
        .withColumn("counted", sf.slice("outside", sf.col("older") + 1, sf.size("outside")))
        .withColumn("first", sf.coalesce(sf.get("targets", sf.lit(0)), sf.get("sources", sf.lit(0))))
    )
    nothing = sf.lit(None).cast("bigint")

    def rows(some: DataFrame, cause: Column) -> DataFrame:
        return some.withColumn("cause", cause).select(*_COLUMNS)

    # Written twice: every source record but the first of equal ones, and its copy where there is one.
    by_map = sf.transform(
        "mapped", lambda pair: sf.struct(pair["image"].alias("source"), pair["target"].alias("target"))
    )
    by_number = sf.transform(
        "unmapped", lambda at, number: sf.struct(at.alias("source"), sf.get("counted", number).alias("target"))
    )
    pairs = frame.withColumn("pairs", sf.array_sort(sf.concat(by_map, by_number)))
    written = pairs.select(
        "partition", "id", "timestamp", "first", sf.inline(sf.slice("pairs", sf.lit(2), sf.size("pairs")))
    )
    # Copied twice: copies that the map does not place, and copies in excess of the source records.
    surplus = sf.slice("counted", sf.col("open") + 1, sf.size("counted"))
    on_source = (sf.size("sources") > 0) | (sf.size("mapped") > 0)
    decided = on_source & sf.lit(not source_compacted)
    surplus_copies = sf.when(on_source, sf.col("loose")).otherwise(_no_offsets())
    surplus_copies = sf.concat(surplus_copies, sf.when(decided, surplus).otherwise(_no_offsets()))
    copied = frame.select("partition", "id", "timestamp", "first", sf.explode(surplus_copies).alias("target"))
    # Equal records whose cause cannot be established.
    unmapped_targets = sf.sort_array(sf.concat("loose", "outside"))
    unknown = (
        sf.when(~on_source, sf.slice(unmapped_targets, sf.lit(2), sf.size(unmapped_targets)))
        .when(
            sf.size("aside") > 0,
            sf.concat(
                sf.slice("aside", sf.lit(2), sf.size("aside")),
                sf.slice("counted", sf.lit(1), sf.least(sf.lit(1), sf.col("open"))),
                sf.when(sf.lit(source_compacted), surplus).otherwise(_no_offsets()),
            ),
        )
        .when(sf.lit(source_compacted), surplus)
        .otherwise(_no_offsets())
    )
    doubtful = frame.select("partition", "id", "timestamp", "first", sf.explode(unknown).alias("target"))
    parts = (
        rows(written, sf.lit(Cause.PRODUCER.value)),
        rows(copied.withColumn("source", nothing), sf.lit(Cause.REPLICATOR.value)),
        rows(doubtful.withColumn("source", nothing), sf.lit(Cause.UNKNOWN.value)),
    )
    return reduce(DataFrame.unionByName, parts)


def _map_copies(repeated: DataFrame, segments: Segments | None) -> DataFrame:
    """With `mapped` array<struct<image,target>>, `loose` and `outside`, offsets on the target.

    `mapped`: copies that the offset map places. `loose`: those within its range that it does not place. `outside`: those before
    or after its range; without a map, all.
    """
    if not segments or not any(segments.values()):
        empty = sf.array().cast("array<struct<image:bigint,target:bigint>>")
        return (
            repeated.withColumn("mapped", empty)
            .withColumn("loose", _no_offsets())
            .withColumn("outside", sf.col("targets"))
        )
    spark = repeated.sparkSession
    pieces = [(p, s.target, s.target_end, s.source) for p, stretches in segments.items() for s in stretches]
    reach = [(p, stretches[0].target, stretches[-1].target_end) for p, stretches in segments.items() if stretches]
    table = sf.broadcast(spark.createDataFrame(pieces, "on_partition int, begin long, stop long, image long"))
    bounds = sf.broadcast(spark.createDataFrame(reach, "partition int, lowest long, highest long"))
    copies = repeated.select("*", sf.explode_outer("targets").alias("target"))
    located = copies.join(bounds, "partition", "left").join(
        table,
        (sf.col("partition") == sf.col("on_partition"))
        & (sf.col("target") >= sf.col("begin"))
        & (sf.col("target") < sf.col("stop")),
        "left",
    )
    inside = sf.coalesce((sf.col("target") >= sf.col("lowest")) & (sf.col("target") < sf.col("highest")), sf.lit(False))
    placed = sf.col("image").isNotNull()
    image = (sf.col("image") + sf.col("target") - sf.col("begin")).alias("image")
    pair = sf.struct(image, sf.col("target").alias("target"))
    return located.groupBy(*repeated.columns).agg(
        sf.array_sort(sf.collect_list(sf.when(placed, pair))).alias("mapped"),
        sf.array_sort(sf.collect_list(sf.when(~placed & inside, sf.col("target")))).alias("loose"),
        sf.array_sort(sf.collect_list(sf.when(~placed & ~inside, sf.col("target")))).alias("outside"),
    )


def _no_offsets() -> Column:
    return sf.array().cast("array<bigint>")


def _limit(limits: Mapping[int, int]) -> Column:
    """The first offset of the row's partition that counts; 0 where all do."""
    if not limits:
        return sf.lit(0)
    entries: Iterable[Column] = (sf.lit(value) for pair in limits.items() for value in pair)
    return sf.coalesce(sf.create_map(*entries)[sf.col("partition")], sf.lit(0))


def _examples(duplicates: DataFrame, counts: Mapping[Cause, int]) -> Iterable[DuplicateExample]:
    for cause in Cause:
        if not counts.get(cause) or cause is Cause.FAILOVER:
            continue
        some = duplicates.where(sf.col("cause") == cause.value)
        for row in some.orderBy("partition", sf.coalesce("target", "source")).limit(EXAMPLES).collect():
            yield DuplicateExample(
                cause, row["partition"], row["source"], row["target"], row["first"], row["id"], row["timestamp"]
            )


def _skip(duplicates: DataFrame) -> tuple[tuple[SkipRange, ...], int]:
    """Ranges of the target that hold only duplicates of one cause (at most `MAX_RANGES`), and how many there are."""
    on_target = duplicates.where(sf.col("target").isNotNull()).select("partition", "cause", "target")
    number = sf.row_number().over(Window.partitionBy("partition", "cause").orderBy("target"))
    islands = (
        on_target.withColumn("island", sf.col("target") - number)
        .groupBy("partition", "cause", "island")
        .agg(sf.min("target").alias("first"), (sf.max("target") + 1).alias("next"))
        .persist()
    )
    try:
        rows = islands.orderBy("partition", "first").limit(MAX_RANGES).collect()
        ranges = tuple(SkipRange(row["partition"], row["first"], row["next"], Cause(row["cause"])) for row in rows)
        return ranges, len(rows) if len(rows) < MAX_RANGES else islands.count()
    finally:
        islands.unpersist()


def _heat(duplicates: DataFrame, per_partition: Mapping[int, int], step_ms: int) -> tuple[Heat, ...]:
    """Counts by partition and step of time, of the partitions with most duplicates."""
    shown = sorted(per_partition, key=lambda partition: -per_partition[partition])[:MAX_PARTITIONS]
    step = (sf.floor(sf.col("timestamp") / sf.lit(step_ms)) * step_ms).cast("bigint").alias("at")
    rows = duplicates.where(sf.col("partition").isin(shown)).groupBy("partition", step).count().collect()
    return tuple(sorted((Heat(*row) for row in rows), key=lambda cell: (cell.partition, cell.at_ms)))
