"""An audit of two topics in two stages: sums for everything, then record by record only what they leave open.

Rules: verdict and counts are those of `audit_frames`. A partition whose sums agree (`audit.rules`) holds the same records in
the same order, so only its record count matters. Where only prefixes agree, and what follows is at most missing or out of
order, the rest is compared alone: its records pair as they would among all, since the prefixes have paired off. Otherwise all
open partitions are compared whole, so that examples are the same too; with a log cleaner on either side always. A small topic
is compared at once: sums would not pay. The first read splits large partitions; one that does not agree then is summed again
by one task, because only that shows how far it agrees.
Price: a collision of all eight sums hides a difference; record by record, a collision of one field's hash does.
Not for: how the records of two frames differ (`compare`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from drlib.analysis.audit.compare import audit_frames, current_cleaners, read_failure
from drlib.analysis.audit.result import AuditResult, CheckpointAudit, PartitionAudit, conclude, unreadable
from drlib.analysis.audit.rules import Agreement
from drlib.analysis.audit.sequences import TopicSide, compare_sums
from drlib.analysis.spark.session import shuffle_partitions
from drlib.analysis.spark.topics import ClusterRef, TopicRange, max_offsets_per_task, pin_range, read_range
from drlib.mirror.mm2.records import Checkpoint

SUMS_FROM: Final = 200_000  # offsets of both sides; below, another read takes longer than it saves


def audit_topics(
    spark: SparkSession,
    left: ClusterRef,
    right: ClusterRef,
    topic: str,
    remote_topic: str,
    *,
    source_range: TopicRange | None = None,
    target_range: TopicRange | None = None,
    checkpoints: Sequence[Checkpoint] = (),
    sums_from: int = SUMS_FROM,
) -> AuditResult:
    """Pin both topics' ranges (unless given), read them and compare; see `audit_frames`.

    Raises Unreachable or UsageError when a range cannot be pinned; a range that is deleted afterwards is `unknown`.
    """
    source_pinned = source_range or pin_range(left, topic)
    target_pinned = target_range or pin_range(right, remote_topic)
    audit = _StagedAudit(
        spark,
        TopicSide(left, source_pinned),
        TopicSide(right, target_pinned),
        tuple(checkpoints),
    )
    with shuffle_partitions(spark, source_pinned.offsets + target_pinned.offsets):
        if source_pinned.offsets + target_pinned.offsets < sums_from:
            return audit.compare({**source_pinned.start, **target_pinned.start}, {})
        try:
            return audit.run()
        except Exception as error:  # a failed task raises py4j's or PySpark's error, depending on where it failed
            reason = read_failure(str(error))
            if reason is None:
                raise
            return unreadable(reason)


@dataclass(frozen=True, slots=True)
class _StagedAudit:
    spark: SparkSession
    source: TopicSide
    target: TopicSide
    checkpoints: tuple[Checkpoint, ...]

    def run(self) -> AuditResult:
        agreements = dict(self._sums(self.source, self.target, split=True))
        split_again = [number for number, each in agreements.items() if not each.whole and self._was_split(number)]
        if split_again:
            agreements |= self._sums(
                *(_select_partitions(side, split_again) for side in (self.source, self.target)), split=False
            )
        equal = {number: each for number, each in agreements.items() if each.whole}
        unequal = [number for number in agreements if number not in equal]
        prefixes = {
            number: each for number, each in agreements.items() if not each.whole and self._can_skip_prefix(each)
        }
        compared = self.compare(unequal, prefixes) if unequal else None
        if compared is not None and prefixes and _needs_whole(compared, prefixes):
            prefixes = {}
            compared = self.compare(unequal, prefixes)
        if compared is not None and compared.source_records is None:
            return compared
        rows = [_equal_partition(number, each.records) for number, each in equal.items()]
        if compared is not None:
            rows += [_with_prefix(row, prefixes.get(row.partition)) for row in compared.per_partition]
        known = compared.checkpoints if compared else ()
        return replace(
            conclude(rows, compared.examples if compared else ()),
            checkpoints=self._judge_checkpoints({**equal, **prefixes}, known),
        )

    def compare(self, partitions: Iterable[int], prefixes: Mapping[int, Agreement]) -> AuditResult:
        """Record by record, in these partitions; where `prefixes` has the partition, only what follows the prefix."""
        wanted = set(partitions)
        source = _from_offsets(
            _select_partitions(self.source, wanted), {n: each.source_last + 1 for n, each in prefixes.items()}
        )
        target = _from_offsets(
            _select_partitions(self.target, wanted), {n: each.target_last + 1 for n, each in prefixes.items()}
        )
        left, right = (read_range(self.spark, side.where, side.pinned) for side in (source, target))
        whole = _select_partitions(self.source, wanted).pinned
        with_aborted = read_range(self.spark, self.source.where, whole, read_committed=False)
        return audit_frames(
            left,
            right,
            source_start={n: at for n, at in source.pinned.start.items() if n in wanted and n not in prefixes},
            target_start={n: at for n, at in target.pinned.start.items() if n in wanted and n not in prefixes},
            cleaners=current_cleaners(source.pinned, target.pinned),
            uncommitted=with_aborted,
            checkpoints=[each for each in self._own_checkpoints() if each.partition.partition in wanted],
            remote_topic=self.target.pinned.topic,
        )

    def _judge_checkpoints(
        self, agreed: Mapping[int, Agreement], known: Sequence[CheckpointAudit]
    ) -> tuple[CheckpointAudit, ...]:
        """Checkpoints by the common prefixes, plus what the comparison after them found."""
        judged = {(each.group, each.partition): each for each in known}
        checkpoints = [each for each in self._own_checkpoints() if each.partition.partition in agreed]
        if checkpoints:
            upstream = [(each.partition.partition, each.upstream_offset) for each in checkpoints]
            downstream = [(each.partition.partition, each.offset) for each in checkpoints]
            source_ends = {n: (each.records, each.source_last + 1) for n, each in agreed.items()}
            target_ends = {n: (each.records, each.target_last + 1) for n, each in agreed.items()}
            before = _ranks(self.spark, self.source, upstream, source_ends)
            after = _ranks(self.spark, self.target, downstream, target_ends)
            for each, source_rank, target_rank in zip(checkpoints, before, after, strict=True):
                verdict = judged.get((each.group, each.partition))
                re_read = max(source_rank - target_rank, 0) + ((verdict.re_read or 0) if verdict else 0)
                skipped = max(target_rank - source_rank, 0) + ((verdict.skipped or 0) if verdict else 0)
                judged[each.group, each.partition] = CheckpointAudit(
                    each.group, each.partition, each.upstream_offset, each.offset, re_read, skipped
                )
        return tuple(
            judged.get(
                (each.group, each.partition),
                CheckpointAudit(each.group, each.partition, each.upstream_offset, each.offset, None, None),
            )
            for each in self._own_checkpoints()
        )

    def _sums(self, source: TopicSide, target: TopicSide, *, split: bool) -> Mapping[int, Agreement]:
        return compare_sums(self.spark, source, target, split=split)

    def _own_checkpoints(self) -> list[Checkpoint]:
        return [each for each in self.checkpoints if each.partition.topic == self.target.pinned.topic]

    def _was_split(self, number: int) -> bool:
        cores = self.spark.sparkContext.defaultParallelism
        ranges = (self.source.pinned, self.target.pinned)
        return any(
            each.end.get(number, 0) - each.start.get(number, 0) > max_offsets_per_task(each.offsets, cores)
            for each in ranges
        )

    def _can_skip_prefix(self, each: Agreement) -> bool:
        cleaned = self.source.pinned.compacted or self.target.pinned.compacted
        return each.records > 0 and each.newest_is_behind and not cleaned


def _ranks(
    spark: SparkSession,
    side: TopicSide,
    positions: Sequence[tuple[int, int]],
    ends: Mapping[int, tuple[int, int]],
) -> list[int]:
    """How many records are before each (partition, offset), of those up to the end; `ends` are (records, offset).

    Only records from the first position of a partition on are read.
    """
    lowest = {n: min(at for number, at in positions if number == n) for n, _ in positions}
    pinned = side.pinned
    first = {n: min(max(at, pinned.start[n]), ends[n][1]) for n, at in lowest.items()}
    asked = _from_offsets(_select_partitions(side, lowest), first)
    stop = {n: ends[n][1] if n in lowest else at for n, at in asked.pinned.end.items()}
    records = read_range(spark, side.where, replace(asked.pinned, end=stop))
    table = spark.createDataFrame(
        [(number, *at) for number, at in enumerate(positions)], "number int, partition int, position long"
    )
    rows = (
        records.select("partition", "offset")
        .join(sf.broadcast(table), "partition")
        .where("offset >= position")
        .groupBy("number")
        .count()
        .collect()
    )
    behind = {row["number"]: row["count"] for row in rows}
    return [ends[n][0] - behind.get(number, 0) for number, (n, _) in enumerate(positions)]


def _needs_whole(compared: AuditResult, prefixes: Collection[int]) -> bool:
    """Did the rest of a partition contain anything that can only be classified with the whole partition?"""
    return any(
        row.invented or row.duplicated or row.altered or row.unseen
        for row in compared.per_partition
        if row.partition in prefixes
    )


def _equal_partition(number: int, records: int) -> PartitionAudit:
    return PartitionAudit(number, records, records, 0, 0, 0, 0, 0, 0, 0, 0.0)


def _with_prefix(row: PartitionAudit, prefixes: Agreement | None) -> PartitionAudit:
    """With the records of the common prefix, which are on both sides."""
    if prefixes is None:
        return row
    return replace(
        row, source_records=row.source_records + prefixes.records, target_records=row.target_records + prefixes.records
    )


def _select_partitions(side: TopicSide, partitions: Collection[int]) -> TopicSide:
    """Other partitions get an empty range: Spark's Kafka source needs every assigned partition to have one."""
    pinned = side.pinned
    return replace(
        side,
        pinned=replace(pinned, end={n: at if n in partitions else pinned.start[n] for n, at in pinned.end.items()}),
    )


def _from_offsets(side: TopicSide, first: Mapping[int, int]) -> TopicSide:
    start = {n: first.get(n, at) for n, at in side.pinned.start.items()}
    return replace(side, pinned=replace(side.pinned, start=start))
