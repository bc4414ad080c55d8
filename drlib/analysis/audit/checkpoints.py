"""Are a flow's checkpoints exact? Each against the copies themselves: what stands in front of it, and what behind it.

Rules: a checkpoint says that position `upstream` on the source is position `downstream` on the target. It is exact when
no copy of a record in front of `upstream` stands at or behind `downstream` (it would be read again), and no copy of one
at or behind `upstream` stands in front of it (it would never be read). Copies are paired by content, so this holds whoever
wrote the checkpoints. A partition without one pair cannot be judged. Only numbers come to the driver.
Not for: whether a checkpoint is recent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from drlib.analysis.audit.result import CheckpointAudit
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Range
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.mm2.records import Checkpoint, MalformedRecord
from drlib.model import TopicPartition


def read_checkpoints(target: ClusterSettings, topic: str) -> tuple[Checkpoint, ...]:
    """The newest checkpoint of each group and partition in a checkpoints topic; empty where there is no such topic.

    Raises `Unreachable`, and what the cluster refuses. Records that are no checkpoints are passed over, as
    `MirrorClient` does.
    """
    found: dict[tuple[str, TopicPartition], Checkpoint] = {}
    with Cluster(target) as cluster:
        if not cluster.topics([topic]):
            return ()
        only = TopicPartition(topic, 0)  # MirrorMaker 2 writes all of them to partition 0
        (start,), (end,) = cluster.log_starts([only]).values(), cluster.log_ends([only]).values()
        if start == end:
            return ()
        for record in cluster.read({only: Range(start, end)}):
            try:
                checkpoint = Checkpoint.decode(record.key, record.value)
            except MalformedRecord:
                continue
            found[checkpoint.group, checkpoint.partition] = checkpoint
    return tuple(found[key] for key in sorted(found))


def audit_checkpoints(
    grouped: DataFrame, remote_topic: str, checkpoints: Iterable[Checkpoint]
) -> tuple[CheckpointAudit, ...]:
    """Judge those of `remote_topic` by `grouped`, the `contents` of the topic on both sides."""
    asked: Sequence[Checkpoint] = [one for one in checkpoints if one.partition.topic == remote_topic]
    if not asked:
        return ()
    table = grouped.sparkSession.createDataFrame(
        [(n, one.partition.partition, one.upstream_offset, one.offset) for n, one in enumerate(asked)],
        "number int, partition int, upstream long, downstream long",
    )
    pairs = grouped.where("paired > 0").select(
        "partition",
        sf.inline(
            sf.arrays_zip(
                sf.slice("sources", sf.lit(1), sf.col("paired")).alias("source"),
                sf.slice("targets", sf.lit(1), sf.col("paired")).alias("target"),
            )
        ),
    )
    again = (sf.col("source") < sf.col("upstream")) & (sf.col("target") >= sf.col("downstream"))
    passed = (sf.col("source") >= sf.col("upstream")) & (sf.col("target") < sf.col("downstream"))
    rows = (
        pairs.join(sf.broadcast(table), "partition")
        .groupBy("number")
        .agg(sf.count_if(again).alias("again"), sf.count_if(passed).alias("passed"))
        .collect()
    )
    counts = {row["number"]: (row["again"], row["passed"]) for row in rows}
    return tuple(
        CheckpointAudit(one.group, one.partition, one.upstream_offset, one.offset, *counts.get(n, (None, None)))
        for n, one in enumerate(asked)
    )
