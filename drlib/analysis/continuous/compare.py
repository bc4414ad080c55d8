"""Both sides of a flow followed as sums, and compared bucket by bucket, as far as both were read.

Rules: the plan is made once and kept: which topics, by their IDs, and from which offsets on, chosen by the mirror's map so that
both sides begin with the same record. What is compared are the sums of committed batches, at the positions that Spark's
checkpoints have; those positions and the map say what can be judged already (`rules.bucket_audit`). Buckets that are equal are
counted where they lie; to the driver come a row for each partition and at most `limit` buckets that differ. More than
those are unjudged, and told.
Not for: starting and stopping (`bucket_stream`), or verdicts of a run (`drill.continuous_audit`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from drlib.analysis.audit.compare import failover_audit
from drlib.analysis.audit.result import AuditResult
from drlib.analysis.continuous.bucket_sums import compared, sums_of
from drlib.analysis.continuous.rules import Bucket, Finding, Reading, State, beginning, cut_at, judge
from drlib.analysis.continuous.stream import BucketStream, FollowedTopic
from drlib.analysis.spark.topics import TopicRange, Where, pin_range, read_topic
from drlib.errors import StalePlan
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.model import TopicPartition

LIMIT: Final = 10_000
UNALIGNED: Final = "nobody can say which records the two logs begin with in common"
COMPACTED: Final = "a cleaner takes records from either side; the exact audit knows which"


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """What is followed. `unaligned`: partitions, as the source calls them, whose sides do not surely begin alike."""

    bucket_ms: int
    source: tuple[FollowedTopic, ...]
    target: tuple[FollowedTopic, ...]
    unaligned: tuple[TopicPartition, ...] = ()

    def doubt(self, partition: TopicPartition) -> str:
        """Why a difference there would prove nothing; empty where it would prove something."""
        if partition in self.unaligned:
            return UNALIGNED
        cleaned = any(one.compacted for one in (*self.source, *self.target) if one.source == partition.topic)
        return COMPACTED if cleaned else ""


@dataclass(frozen=True, slots=True)
class PartitionBuckets:
    """How many buckets a partition has and how many are equal; records and late records of either side."""

    partition: TopicPartition
    buckets: int
    equal: int
    source_records: int
    target_records: int
    source_late: int
    target_late: int


@dataclass(frozen=True, slots=True)
class BucketReport:
    """`findings` are of the buckets that are not equal, oldest first; `unjudged`: how many more there are."""

    partitions: tuple[PartitionBuckets, ...]
    findings: tuple[Finding, ...]
    reading: Reading
    unjudged: int = 0
    failures: tuple[str, ...] = ()  # why a side is no longer read

    def count(self, state: State, topic: str | None = None) -> int:
        """Buckets in that state, of one topic or of all."""
        wanted = [one for one in self.findings if topic in (None, one.bucket.partition.topic)]
        return sum(one.state is state for one in wanted)


def plan_audit(source: Where, target: Where, pairs: Iterable[tuple[str, str]], maps: Maps, bucket_ms: int) -> AuditPlan:
    """Pin both sides of each (topic on the source, topic on the target). Raises what `pin_range` raises."""
    here: list[FollowedTopic] = []
    there: list[FollowedTopic] = []
    unaligned = []
    for topic, remote in pairs:
        left, right = pin_range(source, topic), pin_range(target, remote)
        starts = {}
        for number, start in left.start.items():
            cut = beginning(maps.source(topic, number), start, right.start.get(number, 0))
            if cut is None:
                unaligned.append(TopicPartition(topic, number))
            starts[number] = (start, right.start.get(number, 0)) if cut is None else (cut.source, cut.target)
        here.append(_followed(left, topic, {number: first for number, (first, _) in starts.items()}))
        begun = {number: starts[number][1] if number in starts else first for number, first in right.start.items()}
        there.append(_followed(right, topic, begun))
    return AuditPlan(bucket_ms, tuple(here), tuple(there), tuple(unaligned))


def refuse_others(where: Where, topics: Iterable[FollowedTopic]) -> None:
    """Raises `StalePlan` when a topic is not the one that was followed so far, and what `pin_range` raises."""
    for topic in topics:
        if pin_range(where, topic.name).topic_id != topic.topic_id:
            raise StalePlan(
                f"topic {topic.name} is another one than the one that was followed",
                "it was deleted and made again since",
                "Begin in a new folder.",
            )


def look(
    spark: SparkSession,
    plan: AuditPlan,
    source: BucketStream,
    target: BucketStream,
    maps: Maps,
    *,
    lag_s: float,
    limit: int = LIMIT,
) -> BucketReport:
    """Compare what was read so far. Spark's own errors come through."""
    # When a side was read to its end is asked before its sums are taken: what is said to be read is then in them.
    reading = Reading(source.read_to_ms(), target.read_to_ms())
    with source.sums.reading(), target.sums.reading():
        here, there = source.position(), target.position()
        frame = compared(source.sums.totals(spark, here.batch), target.sums.totals(spark, there.batch)).persist()
        try:
            partitions = tuple(
                PartitionBuckets(TopicPartition(row["topic"], row["partition"]), *tuple(row)[2:])
                for row in frame.groupBy("topic", "partition")
                .agg(
                    sf.count("*"),
                    sf.count_if("equal"),
                    *(
                        sf.coalesce(sf.sum(f"{side}.{field}"), sf.lit(0))
                        for field in ("records", "late")
                        for side in ("source", "target")
                    ),
                )
                .orderBy("topic", "partition")
                .collect()
            )
            unequal = frame.where(~sf.col("equal")).orderBy("bucket_ms", "topic", "partition").limit(limit).collect()
        finally:
            frame.unpersist()
    remote = {one.source: one.name for one in plan.target}
    cuts = {}
    findings = []
    for row in unequal:
        at = TopicPartition(row["topic"], row["partition"])
        bucket = Bucket(at, row["bucket_ms"], sums_of(row["source"]), sums_of(row["target"]))
        if at not in cuts:
            copy = TopicPartition(remote[at.topic], at.partition)
            offsets = maps.source(at.topic, at.partition)
            cuts[at] = cut_at(offsets, here.offsets.get(at, 0), there.offsets.get(copy, 0))
        findings.append(judge(bucket, cuts[at], reading, lag_s=lag_s, doubt=plan.doubt(at)))
    differing = sum(one.buckets - one.equal for one in partitions)
    failures = tuple(f"{side.where.alias}: {why}" for side in (source, target) if (why := side.failure()) is not None)
    return BucketReport(partitions, tuple(findings), reading, differing - len(findings), failures)


def examine(spark: SparkSession, source: Where, target: Where, plan: AuditPlan, finding: Finding) -> AuditResult:
    """The records of one bucket, compared one by one; those of other buckets between its offsets are left out.

    What has gone since from the log of either side makes it unknown.
    """
    bucket = finding.bucket
    frames: list[DataFrame | None] = []
    for where, topics, side in ((source, plan.source, bucket.source), (target, plan.target, bucket.target)):
        name = next(one.name for one in topics if one.source == bucket.partition.topic)
        number = bucket.partition.partition
        if side is None:
            frames.append(None)
            continue
        whole = read_topic(spark, where, name, start={number: side.first}, end={number: side.last + 1})
        at_ms = sf.unix_millis("timestamp") - sf.lit(bucket.start_ms)
        frames.append(whole.where((at_ms >= 0) & (at_ms < plan.bucket_ms)))
    left, right = frames
    some = left if left is not None else right
    if some is None:
        raise ValueError("a bucket has records on one side at least")
    nothing = some.where(sf.lit(False))
    return failover_audit(left if left is not None else nothing, right if right is not None else nothing)


def _followed(pinned: TopicRange, source: str, start: dict[int, int]) -> FollowedTopic:
    return FollowedTopic(pinned.topic, source, pinned.topic_id, pinned.compacted, start)
