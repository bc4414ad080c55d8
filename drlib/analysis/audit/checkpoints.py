"""Are a flow's checkpoints exact? Each is judged against the copied records before and after it.

Rules: a checkpoint says that position `upstream` on the source is position `downstream` on the target. It is exact when no
copy of a record before `upstream` is at or after `downstream` (it would be read again), and no copy of a record at or after
`upstream` is before `downstream` (it would be skipped). Copies are paired by content, so this holds for checkpoints of any
writer. A partition without a pair cannot be judged. Only counts are collected.
Not for: whether a checkpoint is recent.
"""

from collections.abc import Iterable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from drlib.analysis.audit.result import CheckpointAudit
from drlib.analysis.spark.contents import pairs
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Range
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.mm2.records import Checkpoint, MalformedRecord
from drlib.model import TopicPartition


def read_checkpoints(target: ClusterSettings, topic: str) -> tuple[Checkpoint, ...]:
    """The newest checkpoint of each group and partition in a checkpoints topic; empty where there is no such topic.

    Raises `Unreachable`, and what the cluster refuses. Records that are not checkpoints are skipped, as `MirrorClient` does.
    """
    newest: dict[tuple[str, TopicPartition], Checkpoint] = {}
    with Cluster(target) as cluster:
        if not cluster.topics([topic]):
            return ()
        partition = TopicPartition(topic, 0)  # MirrorMaker 2 writes all of them to partition 0
        (start,), (end,) = cluster.log_starts([partition]).values(), cluster.log_ends([partition]).values()
        if start == end:
            return ()
        for record in cluster.read({partition: Range(start, end)}):
            try:
                checkpoint = Checkpoint.decode(record.key, record.value)
            except MalformedRecord:
                continue
            newest[checkpoint.group, checkpoint.partition] = checkpoint
    return tuple(newest[key] for key in sorted(newest))


def audit_checkpoints(
    grouped: DataFrame, remote_topic: str, checkpoints: Iterable[Checkpoint]
) -> tuple[CheckpointAudit, ...]:
    """Judge those of `remote_topic` by `grouped`, the contents of the topic on both sides."""
    chosen: Sequence[Checkpoint] = [each for each in checkpoints if each.partition.topic == remote_topic]
    if not chosen:
        return ()
    table = grouped.sparkSession.createDataFrame(
        [
            (n, checkpoint.partition.partition, checkpoint.upstream_offset, checkpoint.offset)
            for n, checkpoint in enumerate(chosen)
        ],
        "number int, partition int, upstream long, downstream long",
    )
    copies = grouped.where("paired > 0").select("partition", sf.inline(pairs()))
    re_read = (sf.col("source") < sf.col("upstream")) & (sf.col("target") >= sf.col("downstream"))
    skipped = (sf.col("source") >= sf.col("upstream")) & (sf.col("target") < sf.col("downstream"))
    rows = (
        copies.join(sf.broadcast(table), "partition")
        .groupBy("number")
        .agg(sf.count_if(re_read).alias("re_read"), sf.count_if(skipped).alias("skipped"))
        .collect()
    )
    counts = {row["number"]: (row["re_read"], row["skipped"]) for row in rows}
    return tuple(
        CheckpointAudit(
            checkpoint.group,
            checkpoint.partition,
            checkpoint.upstream_offset,
            checkpoint.offset,
            *counts.get(n, (None, None)),
        )
        for n, checkpoint in enumerate(chosen)
    )
