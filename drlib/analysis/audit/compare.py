"""A mirrored topic against its source, record by record, independently of the engine that copied it.

Rules: a record is identified by its partition and its `id` header, or without one by its content. Identical records are
distinguished by order (the n-th on LEFT is the n-th on RIGHT), so records that the source has twice are no duplicates. Content
is key, value, headers in order, and timestamp, each by its own hash, so the changed field of an altered record is known. Only
counts and a bounded list of examples are collected. Both sides are grouped by identity in one shuffle (a full outer join of
aggregates); the only window is over the records of one partition and key.
A read that fails because records were deleted ends in `unknown`, never in a partial count.
Not for: reading topics and skipping what sums prove equal (`staged`); positions of groups; proving the engine's offset map.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from drlib import clock
from drlib.analysis.audit.checkpoints import audit_checkpoints
from drlib.analysis.audit.compaction import Cleaners, mark_compacted
from drlib.analysis.audit.result import AuditExample, AuditResult, Fault, PartitionAudit, conclude, unreadable
from drlib.analysis.spark.contents import FIELDS, common_starts, group_contents, is_before, pairs, unpaired_offsets
from drlib.analysis.spark.topics import TopicRange, field_hashes, with_identity
from drlib.mirror.mm2.records import Checkpoint

EXAMPLES = 20
_LOST_TASK: Final = re.compile(
    r".* Lost task \S+ in stage \S+ \(TID \d+\) \(.*?\): "
)  # what Spark says before the cause
NO_CLEANER: Final = Cleaners()
_BEYOND: Final = 2**62  # any offset
# Messages of Spark's Kafka source for records that do not exist (any more) and for brokers that do not answer.
UNREADABLE = (
    "data may have been lost",
    "KAFKA_DATA_LOSS",
    "OffsetOutOfRangeException",
    "UnknownTopicOrPartitionException",
    "TopicAuthorizationException",
    "org.apache.kafka.common.errors.TimeoutException",
    "java.util.concurrent.TimeoutException: Cannot fetch record",
    "Failed to construct kafka consumer",
)


def current_cleaners(source: TopicRange, target: TopicRange) -> Cleaners:
    """Which of the two topics is compacted, now."""
    return Cleaners(
        source.delete_retention_ms if source.compacted else None,
        target.delete_retention_ms if target.compacted else None,
        clock.now_ms(),
    )


def audit_frames(
    left: DataFrame,
    right: DataFrame,
    *,
    source_start: Mapping[int, int] | None = None,
    target_start: Mapping[int, int] | None = None,
    cleaners: Cleaners = NO_CLEANER,
    uncommitted: DataFrame | None = None,
    checkpoints: Sequence[Checkpoint] = (),
    remote_topic: str = "",
    examples: int = EXAMPLES,
) -> AuditResult:
    """Compare the source topic (`left`) with its mirror (`right`); both frames have `read_topic`'s columns.

    `source_start` and `target_start` are the first offsets that were read. Where they are above 0, records before the first
    record found on both sides cannot be decided and count as unseen instead of invented or missing. Records that `cleaners` can
    have removed are no fault. `uncommitted` is the source including aborted records, to recognise copies of those.
    `checkpoints` of `remote_topic` are judged by the same pairs. At most `examples` of each fault are listed.
    Raises Spark's own errors, except those of reading: they give verdict `unknown`.
    """
    grouped = group_contents(left, right).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        result = _Audit(grouped, source_start or {}, target_start or {}, cleaners, uncommitted, examples).run()
        return replace(result, checkpoints=audit_checkpoints(grouped, remote_topic, checkpoints))
    except Exception as error:  # a failed task raises py4j's or PySpark's error, depending on where it failed
        reason = read_failure(str(error))
        if reason is None:
            raise
        return unreadable(reason)
    finally:
        grouped.unpersist()


def warm_up(spark: SparkSession) -> None:
    """Audit one literal record against itself, so that the JVM has loaded and compiled what an audit needs."""
    record = with_identity(
        spark.range(1).select(
            sf.lit(0).alias("partition"),
            sf.col("id").alias("offset"),
            sf.timestamp_millis(sf.lit(0)).alias("timestamp"),
            sf.lit(b"key").alias("key"),
            sf.lit(b"value").alias("value"),
            sf.array(sf.struct(sf.lit("id").alias("key"), sf.lit(b"1").alias("value"))).alias("headers"),
        )
    )
    audit_frames(record, record)


def read_failure(text: str) -> str | None:
    """The line of an error's text that says that records could not be read; None for any other error."""
    for line in text.splitlines():
        if any(sign in line for sign in UNREADABLE):
            return f"the records could not be read: {_LOST_TASK.sub('', line.strip())[:300]}"
    return None


@dataclass
class _Tally:
    """Counts of one partition, filled in step by step."""

    source: int = 0
    target: int = 0
    paired: int = 0
    first_source: int | None = None  # of the records found on both sides
    last_source: int = -1
    first_target: int | None = None
    newest_ms: int = 0  # on the source
    oldest_ms: int = 0
    mirrored_ms: int | None = None  # timestamp of the last mirrored record
    holes: int = 0
    unseen: int = 0
    compacted: int = 0
    faults: Counter[Fault] = field(default_factory=Counter)


class _Audit:
    """One run over the grouped contents. Each method answers one question with at most two Spark jobs."""

    def __init__(
        self,
        grouped: DataFrame,
        source_start: Mapping[int, int],
        target_start: Mapping[int, int],
        cleaners: Cleaners,
        uncommitted: DataFrame | None,
        examples: int,
    ) -> None:
        self.contents = grouped
        self.cleaners = cleaners
        self.uncommitted = uncommitted
        self.source_start = source_start
        self.target_start = target_start
        self.limit = examples
        self.tallies: dict[int, _Tally] = {}
        self.examples: list[AuditExample] = []

    def run(self) -> AuditResult:
        self._count()
        self._order()
        if any(tally.source > tally.paired or tally.target > tally.paired for tally in self.tallies.values()):
            self._classify_unpaired()
        return conclude((self._row(number, tally) for number, tally in self.tallies.items()), self.examples)

    def _count(self) -> None:
        paired = sf.col("paired") > 0
        on_source = sf.size("sources") > 0
        last = sf.struct(sf.get("sources", sf.col("paired") - 1), sf.col("timestamp").alias("ms"))
        for row in (
            self.contents.groupBy("partition")
            .agg(
                sf.sum(sf.size("sources")).alias("source"),
                sf.sum(sf.size("targets")).alias("target"),
                sf.sum("paired").alias("paired"),
                sf.min(sf.when(paired, sf.get("sources", sf.lit(0)))).alias("first_source"),
                sf.min(sf.when(paired, sf.get("targets", sf.lit(0)))).alias("first_target"),
                sf.max(sf.when(paired, last)).alias("last"),
                sf.max(sf.when(on_source, sf.col("timestamp"))).alias("newest"),
                sf.min(sf.when(on_source, sf.col("timestamp"))).alias("oldest"),
            )
            .collect()
        ):
            last_source, mirrored = row["last"] if row["last"] is not None else (-1, None)
            self.tallies[row["partition"]] = _Tally(
                source=row["source"],
                target=row["target"],
                paired=row["paired"],
                first_source=row["first_source"],
                last_source=last_source,
                first_target=row["first_target"],
                newest_ms=row["newest"] or 0,
                oldest_ms=row["oldest"] or 0,
                mirrored_ms=mirrored,
            )

    def _order(self) -> None:
        """Within a partition and key, a record's source offset must be greater than that of every record before it."""
        kept = ("partition", "id", "key", "timestamp")
        mirrored = self.contents.where("paired > 0").select(*kept, sf.inline(pairs()))
        so_far = Window.partitionBy("partition", "key").orderBy("target").rowsBetween(Window.unboundedPreceding, -1)
        behind = mirrored.withColumn("ahead", sf.max("source").over(so_far)).where(sf.col("source") < sf.col("ahead"))
        self._report(
            behind,
            Fault.OUT_OF_ORDER,
            sf.format_string("after source offset %d of the same key", sf.col("ahead")),
        )

    def _classify_unpaired(self) -> None:
        """Classify records without a counterpart. Runs only if there are any, so a clean copy costs nothing."""
        kept = ["partition", "id", *FIELDS]
        lost = self.contents.where(sf.size("sources") > sf.col("paired")).select(
            *kept, sf.explode(unpaired_offsets("sources")).alias("source")
        )
        if self.cleaners.none and all(tally.target == tally.paired for tally in self.tallies.values()):
            older = self._before_the_first("source", self.target_start, first="first_source")
            self._unseen(lost.where(older))
            self._missing(lost.where(~older))
            return
        extra = self.contents.where(sf.size("targets") > sf.col("paired")).select(
            *kept,
            (sf.col("paired") > 0).alias("again"),
            sf.get("targets", sf.lit(0)).alias("earliest"),
            sf.explode(unpaired_offsets("targets")).alias("target"),
        )
        lost, extra = self._without_compacted(lost, extra)
        # Before anything is said of them by their id, which applications may use for other things than one record.
        older = self._before_the_first("target", self.source_start, first="first_target") & ~sf.col("again")
        self._unseen(extra.where(older))
        extra = extra.where(~older)
        older = self._before_the_first("source", self.target_start, first="first_source")
        self._unseen(lost.where(older))
        lost = lost.where(~older)
        altered = _altered(lost, extra.where("not again").drop("earliest")).persist()
        known = self.contents.where((sf.size("sources") > 0) & sf.col("id").isNotNull()).select("partition", "id")
        extra = extra.join(altered.select("partition", "target"), ["partition", "target"], "left_anti")
        extra = extra.join(known.distinct().withColumn("known", sf.lit(True)), ["partition", "id"], "left").persist()
        try:
            for row in altered.groupBy("partition").agg(sf.max(sf.struct("source", "timestamp"))).collect():
                tally = self.tallies[row["partition"]]
                tally.last_source, tally.mirrored_ms = max((tally.last_source, tally.mirrored_ms or 0), tuple(row[1]))
            changed = sf.concat(sf.lit("changed: "), sf.concat_ws(", ", "changed"))
            self._report(altered, Fault.ALTERED, changed)
            self._report(extra.where("again or known"), Fault.DUPLICATED, sf.lit("on the target already"))
            self._invented(extra.where("not again and known is null"))
            self._missing(lost.join(altered.select("partition", "source"), ["partition", "source"], "left_anti"))
        finally:
            altered.unpersist()
            extra.unpersist()

    def _without_compacted(self, lost: DataFrame, extra: DataFrame) -> tuple[DataFrame, DataFrame]:
        """Both without records that a log cleaner explains, and without copies whose source record may have been deleted.

        The latter count as unseen: whether there are too many of them cannot be decided.
        """
        last_source = {partition: tally.last_source for partition, tally in self.tallies.items()}
        lost, extra = mark_compacted(self.contents, lost, extra, self.cleaners, last_source)
        if not self.cleaners.none:
            for records in (lost, extra.where("not again")):
                for row in records.where("compacted").groupBy("partition").count().collect():
                    self.tallies[row["partition"]].compacted += row["count"]
        if self.cleaners.source_ms is not None:
            older = sf.col("again")
        elif any(self.source_start.values()):
            starts = common_starts(self.contents)
            no_limit = max((tally.target for tally in self.tallies.values()), default=0) + 2**62
            limits = {p: starts[p].target if p in starts else no_limit for p, at in self.source_start.items() if at}
            older = sf.col("again") & is_before("earliest", limits)
        else:
            return lost.where("not compacted").drop("compacted"), extra.where("again or not compacted").drop(
                "compacted"
            )
        self._unseen(extra.where(older), always=True)
        kept = extra.where((sf.col("again") | ~sf.col("compacted")) & ~older)
        return lost.where("not compacted").drop("compacted"), kept.drop("compacted")

    def _invented(self, records: DataFrame) -> None:
        """Copies of nothing that was committed; copies of aborted records say so."""
        if self.uncommitted is None or records.isEmpty():
            self._report(records, Fault.INVENTED, sf.lit("not on the source"))
            return
        hashes = [expression.alias(name) for name, expression in field_hashes().items()]
        aborted = self.uncommitted.select("partition", *hashes).distinct().withColumn("aborted", sf.lit(True))
        marked = records.join(aborted, ["partition", *FIELDS], "left")
        reason = sf.when(sf.col("aborted"), sf.lit("aborted on the source")).otherwise(sf.lit("not on the source"))
        self._report(marked, Fault.INVENTED, reason)

    def _before_the_first(self, offset: str, other_start: Mapping[int, int], *, first: str) -> Column:
        """Is the record before the first one on both sides, where the other side's log began with older records?

        Where no record is on both sides, all are.
        """
        limits = {p: getattr(t, first) for p, t in self.tallies.items() if other_start.get(p)}
        return is_before(offset, {p: _BEYOND if limit is None else limit for p, limit in limits.items()})

    def _missing(self, missing: DataFrame) -> None:
        hole = is_before("source", {p: t.last_source for p, t in self.tallies.items()})
        self._report(missing, Fault.MISSING, sf.when(hole, sf.lit("a hole")).otherwise(sf.lit("in the tail")))
        for row in missing.where(hole).groupBy("partition").count().collect():
            self.tallies[row["partition"]].holes = row["count"]

    def _unseen(self, records: DataFrame, *, always: bool = False) -> None:
        if always or any(self.source_start.values()) or any(self.target_start.values()):
            for row in records.groupBy("partition").count().collect():
                self.tallies[row["partition"]].unseen += row["count"]

    def _report(self, records: DataFrame, fault: Fault, detail: Column) -> None:
        """Count `records` for each partition as `fault`, and keep the first few as examples."""
        for row in records.groupBy("partition").count().collect():
            self.tallies[row["partition"]].faults[fault] = row["count"]
        if not any(tally.faults[fault] for tally in self.tallies.values()):
            return
        sides = [sf.col(name) if name in records.columns else sf.lit(None).alias(name) for name in ("source", "target")]
        first = records.select("partition", *sides, "id", "timestamp", detail.alias("detail"))
        for row in first.orderBy("partition", sf.coalesce("target", "source")).limit(self.limit).collect():
            self.examples.append(AuditExample(fault, *row))

    def _row(self, number: int, tally: _Tally) -> PartitionAudit:
        missing = tally.faults[Fault.MISSING]
        mirrored = tally.mirrored_ms if tally.mirrored_ms is not None else tally.oldest_ms
        return PartitionAudit(
            partition=number,
            source_records=tally.source,
            target_records=tally.target,
            missing=missing,
            invented=tally.faults[Fault.INVENTED],
            duplicated=tally.faults[Fault.DUPLICATED],
            out_of_order=tally.faults[Fault.OUT_OF_ORDER],
            altered=tally.faults[Fault.ALTERED],
            holes=tally.holes,
            unseen=tally.unseen,
            rpo_seconds=max(tally.newest_ms - mirrored, 0) / 1000 if missing else 0.0,
            compacted=tally.compacted,
        )


def _altered(lost: DataFrame, extra: DataFrame) -> DataFrame:
    """Pairs of one record with different content: the same id, or three of the four fields equal.

    Columns: partition, id, source, target, timestamp, changed array<string>. A record is in one pair at most.
    """

    def ranked(records: DataFrame, *identity: str, by: str) -> DataFrame:
        return records.withColumn("nth", sf.row_number().over(Window.partitionBy("partition", *identity).orderBy(by)))

    def renamed(records: DataFrame) -> DataFrame:
        return records.withColumnsRenamed({name: f"target_{name}" for name in ("id", *FIELDS)})

    columns = ["partition", "id", "source", "target", "timestamp", "changed"]
    source = ranked(lost.where("id is not null"), "id", by="source")
    target = ranked(extra.where("id is not null"), "id", by="target").withColumn("same", sf.col("id"))
    differing = sf.array_compact(
        sf.array(*(sf.when(sf.col(name) != sf.col(f"target_{name}"), sf.lit(name)) for name in FIELDS))
    )
    by_id = (
        source.withColumn("same", sf.col("id"))
        .join(renamed(target), ["partition", "same", "nth"])
        .withColumn("changed", differing)
        .select(*columns)
    )

    def without_one(records: DataFrame, side: str) -> DataFrame:
        """Each record four times, each time without one of its fields."""
        rest = [
            sf.struct(
                sf.lit(name).alias("field"), sf.xxhash64(*(other for other in FIELDS if other != name)).alias("rest")
            )
            for name in FIELDS
        ]
        alone = records.join(by_id.select("partition", side), ["partition", side], "left_anti")
        spread = alone.select("partition", side, "id", "timestamp", sf.inline(sf.array(*rest)))
        return ranked(spread, "field", "rest", by=side)

    by_content = (
        without_one(lost, "source")
        .join(without_one(extra, "target").drop("id", "timestamp"), ["partition", "field", "rest", "nth"])
        .withColumn("changed", sf.array("field"))
        .select(*columns)
        .dropDuplicates(["partition", "source"])
        .dropDuplicates(["partition", "target"])
    )
    return by_id.unionByName(by_content)
