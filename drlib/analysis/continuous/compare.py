"""Both sides of a flow followed as sums, and compared bucket by bucket as far as both were read.

Rules: the plan is made once and kept: topics with their IDs, and start offsets chosen by the mirror's offset map so that both
sides start with the same record. Compared are the sums of committed batches, at the positions in the checkpoints of the
streaming queries; those positions and the offset map decide what can be judged already (`rules`). Collected are one row per
partition and at most `LIMIT` unequal buckets; the rest of them is counted as unjudged.
Not for: starting and stopping queries (`stream`), verdicts of a run (`drlib.analysis.sessions.continuous_audit`).
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from drlib.analysis.audit.compare import audit_frames
from drlib.analysis.audit.result import AuditResult
from drlib.analysis.continuous.bucket_sums import join_buckets, row_sums
from drlib.analysis.continuous.rules import (
    Bucket,
    BucketFinding,
    BucketState,
    ReadEnds,
    aligned_start,
    cut_at,
    judge_bucket,
)
from drlib.analysis.continuous.stream import BucketStream, FollowedTopic
from drlib.analysis.spark.shares import Journals
from drlib.analysis.spark.topics import ClusterRef, TopicRange, pin_range, read_topic
from drlib.errors import StalePlan
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.model import TopicPartition

LIMIT: Final = 10_000
UNALIGNED: Final = "the mirror's offset map does not say which records both logs start with"
COMPACTED: Final = "a log cleaner removes records on either side; the nightly audit accounts for them"


@dataclass(frozen=True, slots=True)
class AuditPlan:
    """What is followed. `unaligned`: partitions, named as on the source, whose sides may not start with the same record;
    `shared`: topics of which only the flow's own share is counted, as both directions copy them; `journals` say which it is.
    """

    bucket_ms: int
    source: tuple[FollowedTopic, ...]
    target: tuple[FollowedTopic, ...]
    unaligned: tuple[TopicPartition, ...] = ()
    shared: tuple[str, ...] = ()
    journals: Journals | None = None

    def doubt(self, partition: TopicPartition) -> str:
        """Why a difference in the partition would prove nothing; empty where it would prove a fault."""
        if partition in self.unaligned:
            return UNALIGNED
        cleaned = any(each.compacted for each in (*self.source, *self.target) if each.source == partition.topic)
        return COMPACTED if cleaned else ""


@dataclass(frozen=True, slots=True)
class PartitionBuckets:
    """How many buckets a partition has and how many are equal; records and late records of both sides."""

    partition: TopicPartition
    buckets: int
    equal: int
    source_records: int
    target_records: int
    source_late: int
    target_late: int


@dataclass(frozen=True, slots=True)
class BucketReport:
    """`findings` are the unequal buckets, oldest first; `unjudged`: how many more there are.

    `reading` is until when each side was read; `failures` are why a side is no longer read.
    """

    partitions: tuple[PartitionBuckets, ...]
    findings: tuple[BucketFinding, ...]
    reading: ReadEnds
    unjudged: int = 0
    failures: tuple[str, ...] = ()

    def count(self, state: BucketState, topic: str | None = None) -> int:
        """Buckets in that state, of one topic or of all."""
        wanted = [each for each in self.findings if topic in (None, each.bucket.partition.topic)]
        return sum(each.state is state for each in wanted)


def plan_audit(
    source: ClusterRef,
    target: ClusterRef,
    pairs: Iterable[tuple[str, str]],
    maps: Maps,
    bucket_ms: int,
    shared: tuple[str, ...] = (),
    journals: Journals | None = None,
) -> AuditPlan:
    """Pin both sides of each (topic on the source, topic on the target). Raises what `pin_range` raises."""
    source_topics: list[FollowedTopic] = []
    target_topics: list[FollowedTopic] = []
    unaligned = []
    for topic, remote in pairs:
        left, right = pin_range(source, topic), pin_range(target, remote)
        starts = {}
        for number, start in left.start.items():
            cut = aligned_start(maps.source(topic, number), start, right.start.get(number, 0))
            if cut is None:
                unaligned.append(TopicPartition(topic, number))
            starts[number] = (start, right.start.get(number, 0)) if cut is None else (cut.source, cut.target)
        source_topics.append(_followed(left, topic, {number: first for number, (first, _) in starts.items()}))
        target_starts = {
            number: starts[number][1] if number in starts else first for number, first in right.start.items()
        }
        target_topics.append(_followed(right, topic, target_starts))
    return AuditPlan(bucket_ms, tuple(source_topics), tuple(target_topics), tuple(unaligned), shared, journals)


def refuse_recreated(where: ClusterRef, topics: Iterable[FollowedTopic]) -> None:
    """Raises `StalePlan` when a topic was re-created since the plan was made, and what `pin_range` raises."""
    for topic in topics:
        if pin_range(where, topic.name).topic_id != topic.topic_id:
            raise StalePlan(
                f"topic {topic.name} was re-created since this audit began",
                "its topic ID has changed, so its sums are of other records",
                "Start again with an empty folder for `state`.",
            )


def refuse_other_shares(plan: AuditPlan, shared: Collection[str]) -> None:
    """Raises `StalePlan` when other topics are copied in both directions than when the plan was made."""
    if changed := sorted({*plan.shared} ^ {*shared}):
        raise StalePlan(
            f"topic {changed[0]} is {'no longer' if changed[0] in plan.shared else 'now'} copied in both directions",
            "its sums so far are of other records: of such a topic only those first written on the source are counted",
            "Start again with an empty folder for `state`.",
        )


def compare_buckets(
    spark: SparkSession,
    plan: AuditPlan,
    source: BucketStream,
    target: BucketStream,
    maps: Maps,
    *,
    lag_s: float,
) -> BucketReport:
    """Compare what was read so far. Raises Spark's own errors."""
    # Before the sums are read, so that everything read by then is in them.
    read_ends = ReadEnds(source.read_to_ms(), target.read_to_ms())
    with source.sums.locked(), target.sums.locked():
        source_at, target_at = source.position(), target.position()
        frame = join_buckets(
            source.sums.totals(spark, source_at.batch), target.sums.totals(spark, target_at.batch)
        ).persist()
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
            unequal_rows = (
                frame.where(~sf.col("equal")).orderBy("bucket_ms", "topic", "partition").limit(LIMIT).collect()
            )
        finally:
            frame.unpersist()
    remote = {each.source: each.name for each in plan.target}
    cuts = {}
    findings = []
    for row in unequal_rows:
        at = TopicPartition(row["topic"], row["partition"])
        bucket = Bucket(at, row["bucket_ms"], row_sums(row["source"]), row_sums(row["target"]))
        if at not in cuts:
            copy = TopicPartition(remote[at.topic], at.partition)
            offsets = maps.source(at.topic, at.partition)
            cuts[at] = cut_at(offsets, source_at.offsets.get(at, 0), target_at.offsets.get(copy, 0))
        findings.append(judge_bucket(bucket, cuts[at], read_ends, lag_s=lag_s, doubt=plan.doubt(at)))
    differing = sum(each.buckets - each.equal for each in partitions)
    failures = tuple(f"{side.where.alias}: {why}" for side in (source, target) if (why := side.failure()) is not None)
    return BucketReport(partitions, tuple(findings), read_ends, differing - len(findings), failures)


def compare_records(
    spark: SparkSession, source: BucketStream, target: BucketStream, plan: AuditPlan, finding: BucketFinding
) -> AuditResult:
    """The records of one bucket, compared one by one; records of other buckets between its offsets are left out.

    Records that were deleted since make the result unknown.
    """
    bucket = finding.bucket
    frames: list[DataFrame | None] = []
    for stream, topics, side in ((source, plan.source, bucket.source), (target, plan.target, bucket.target)):
        name = next(each.name for each in topics if each.source == bucket.partition.topic)
        number = bucket.partition.partition
        if side is None:
            frames.append(None)
            continue
        whole = read_topic(spark, stream.where, name, start={number: side.first}, end={number: side.last + 1})
        at_ms = sf.unix_millis("timestamp") - sf.lit(bucket.start_ms)
        compared = stream.keep(whole.withColumn("topic", sf.lit(bucket.partition.topic)))
        frames.append(compared.where((at_ms >= 0) & (at_ms < plan.bucket_ms)))
    left, right = frames
    some = left if left is not None else right
    if some is None:
        raise ValueError("a bucket has records on at least one side")
    nothing = some.where(sf.lit(False))
    return audit_frames(left if left is not None else nothing, right if right is not None else nothing)


def _followed(pinned: TopicRange, source: str, start: dict[int, int]) -> FollowedTopic:
    return FollowedTopic(pinned.topic, source, pinned.topic_id, pinned.compacted, start)
