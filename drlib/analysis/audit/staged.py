"""An audit of two topics in two stages: sums for everything, and record by record only what they leave open.

Rules: the verdict and all counts are those of `audit.failover_audit`. A partition whose sums agree (`rules.sequence_sums`)
holds the same records in the same order, of which that audit says nothing but how many there are. Where only the beginnings
agree, and what follows is at most missing or out of order, the rest is compared alone: each record of it is paired as
among all, since what both begin with has paired off. Anything else has the whole of all open partitions compared, so that
examples are the same too. With a cleaner on either side it is always the whole. A small topic is compared at once: sums would
not pay. The first reading splits large partitions; one that does not agree then is summed up once more in one stretch,
for only that shows how far it agrees.
What is given up: a collision of all eight sums would hide a difference; record by record, one of a field's hash does.
Not for: saying how the records of two frames differ (`audit`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from drlib.analysis.audit.compare import EXAMPLES, cleaners_of, failover_audit, reading_failure
from drlib.analysis.audit.result import AuditResult, CheckpointAudit, PartitionAudit, conclude, unreadable
from drlib.analysis.audit.rules import Agreement
from drlib.analysis.audit.sequences import Side, agreements
from drlib.analysis.spark.session import shuffling
from drlib.analysis.spark.topics import TopicRange, Where, longest_stretch, pin_range, read_range
from drlib.mirror.mm2.records import Checkpoint

SUMS_FROM: Final = 200_000  # offsets of both sides; below, one more reading takes longer than it spares


def audit_topics(
    spark: SparkSession,
    left: Where,
    right: Where,
    topic: str,
    remote_topic: str,
    *,
    left_range: TopicRange | None = None,
    right_range: TopicRange | None = None,
    read_committed: bool = True,
    checkpoints: Sequence[Checkpoint] = (),
    examples: int = EXAMPLES,
    sums_from: int = SUMS_FROM,
) -> AuditResult:
    """Pin both topics' ranges (unless given), read them and compare; see `audit.failover_audit`.

    Raises Unreachable or UsageError when a range cannot be pinned; a range that vanishes afterwards is `unknown`.
    """
    here = left_range or pin_range(left, topic, read_committed=read_committed)
    there = right_range or pin_range(right, remote_topic, read_committed=read_committed)
    work = _Stages(spark, Side(left, here), Side(right, there), read_committed, tuple(checkpoints), examples)
    with shuffling(spark, here.offsets + there.offsets):
        if here.offsets + there.offsets < sums_from:
            return work.compare({**here.start, **there.start}, {})
        try:
            return work.run()
        except Exception as error:  # a failed task surfaces as py4j's or as PySpark's own error, by where it failed
            reason = reading_failure(str(error))
            if reason is None:
                raise
            return unreadable(reason)


@dataclass(frozen=True, slots=True)
class _Stages:
    spark: SparkSession
    source: Side
    target: Side
    read_committed: bool
    checkpoints: tuple[Checkpoint, ...]
    examples: int

    def run(self) -> AuditResult:
        found = dict(self._sums(self.source, self.target, split=True))
        again = [number for number, one in found.items() if not one.whole and self._was_split(number)]
        if again:
            found |= self._sums(*(_only(side, again) for side in (self.source, self.target)), split=False)
        alike = {number: one for number, one in found.items() if one.whole}
        rest = [number for number in found if number not in alike]
        begun = {number: one for number, one in found.items() if not one.whole and self._may_be_cut(one)}
        compared = self.compare(rest, begun) if rest else None
        if compared is not None and begun and _more_than_an_end(compared, begun):
            begun = {}
            compared = self.compare(rest, begun)
        if compared is not None and compared.source_records is None:
            return compared
        rows = [_clean(number, one.records) for number, one in alike.items()]
        if compared is not None:
            rows += [_after(row, begun.get(row.partition)) for row in compared.per_partition]
        known = compared.checkpoints if compared else ()
        return replace(
            conclude(rows, compared.examples if compared else ()),
            checkpoints=self._judged({**alike, **begun}, known),
        )

    def compare(self, partitions: Iterable[int], begun: Mapping[int, Agreement]) -> AuditResult:
        """Record by record, in these partitions; of those that `begun` names, what comes behind that."""
        wanted = set(partitions)
        here = _behind(_only(self.source, wanted), {n: one.source_last + 1 for n, one in begun.items()})
        there = _behind(_only(self.target, wanted), {n: one.target_last + 1 for n, one in begun.items()})
        left, right = (
            read_range(self.spark, side.where, side.pinned, read_committed=self.read_committed)
            for side in (here, there)
        )
        whole = _only(self.source, wanted).pinned
        aborted = None
        if self.read_committed:
            aborted = read_range(self.spark, self.source.where, whole, read_committed=False)
        return failover_audit(
            left,
            right,
            left_start={n: at for n, at in here.pinned.start.items() if n in wanted and n not in begun},
            right_start={n: at for n, at in there.pinned.start.items() if n in wanted and n not in begun},
            cleaners=cleaners_of(here.pinned, there.pinned),
            uncommitted=aborted,
            checkpoints=[one for one in self._asked() if one.partition.partition in wanted],
            remote_topic=self.target.pinned.topic,
            examples=self.examples,
        )

    def _judged(self, agreed: Mapping[int, Agreement], known: Sequence[CheckpointAudit]) -> tuple[CheckpointAudit, ...]:
        """Checkpoints by what both begin with in common, and by what was compared behind that."""
        behind = {(one.group, one.partition): one for one in known}
        asked = [one for one in self._asked() if one.partition.partition in agreed]
        if asked:
            upstream = [(one.partition.partition, one.upstream_offset) for one in asked]
            downstream = [(one.partition.partition, one.offset) for one in asked]
            source_ends = {n: (one.records, one.source_last + 1) for n, one in agreed.items()}
            target_ends = {n: (one.records, one.target_last + 1) for n, one in agreed.items()}
            before = _ranks(self.spark, self.source, upstream, source_ends, self.read_committed)
            after = _ranks(self.spark, self.target, downstream, target_ends, self.read_committed)
            for one, here, there in zip(asked, before, after, strict=True):
                rest = behind.get((one.group, one.partition))
                again = max(here - there, 0) + ((rest.re_read or 0) if rest else 0)
                passed = max(there - here, 0) + ((rest.skipped or 0) if rest else 0)
                behind[one.group, one.partition] = CheckpointAudit(
                    one.group, one.partition, one.upstream_offset, one.offset, again, passed
                )
        return tuple(
            behind.get(
                (one.group, one.partition),
                CheckpointAudit(one.group, one.partition, one.upstream_offset, one.offset, None, None),
            )
            for one in self._asked()
        )

    def _sums(self, source: Side, target: Side, *, split: bool) -> Mapping[int, Agreement]:
        return agreements(self.spark, source, target, read_committed=self.read_committed, split=split)

    def _asked(self) -> list[Checkpoint]:
        return [one for one in self.checkpoints if one.partition.topic == self.target.pinned.topic]

    def _was_split(self, number: int) -> bool:
        cores = self.spark.sparkContext.defaultParallelism
        ranges = (self.source.pinned, self.target.pinned)
        return any(
            one.end.get(number, 0) - one.start.get(number, 0) > longest_stretch(one.offsets, cores) for one in ranges
        )

    def _may_be_cut(self, one: Agreement) -> bool:
        cleaned = self.source.pinned.compacted or self.target.pinned.compacted
        return one.records > 0 and one.newest_is_behind and not cleaned


def _ranks(
    spark: SparkSession,
    side: Side,
    positions: Sequence[tuple[int, int]],
    ends: Mapping[int, tuple[int, int]],
    read_committed: bool,
) -> list[int]:
    """How many records lie in front of each (partition, offset), of those up to the end: `ends` are (records, offset).

    Only what lies behind the first of a partition's positions is read.
    """
    lowest = {n: min(at for number, at in positions if number == n) for n, _ in positions}
    pinned = side.pinned
    first = {n: min(max(at, pinned.start[n]), ends[n][1]) for n, at in lowest.items()}
    asked = _behind(_only(side, lowest), first)
    stop = {n: ends[n][1] if n in lowest else at for n, at in asked.pinned.end.items()}
    records = read_range(spark, side.where, replace(asked.pinned, end=stop), read_committed=read_committed)
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


def _more_than_an_end(compared: AuditResult, begun: Collection[int]) -> bool:
    """Is there something behind what was left out that can only be told, or shown, from the whole?"""
    return any(
        row.invented or row.duplicated or row.altered or row.unseen
        for row in compared.per_partition
        if row.partition in begun
    )


def _clean(number: int, records: int) -> PartitionAudit:
    return PartitionAudit(number, records, records, 0, 0, 0, 0, 0, 0, 0, 0.0)


def _after(row: PartitionAudit, begun: Agreement | None) -> PartitionAudit:
    """With the records that were left out, which are on both sides."""
    if begun is None:
        return row
    return replace(
        row, source_records=row.source_records + begun.records, target_records=row.target_records + begun.records
    )


def _only(side: Side, partitions: Collection[int]) -> Side:
    """The others are read from their start to their start: a source of Kafka's wants a partition at least."""
    pinned = side.pinned
    return replace(
        side,
        pinned=replace(pinned, end={n: at if n in partitions else pinned.start[n] for n, at in pinned.end.items()}),
    )


def _behind(side: Side, first: Mapping[int, int]) -> Side:
    start = {n: first.get(n, at) for n, at in side.pinned.start.items()}
    return replace(side, pinned=replace(side.pinned, start=start))
