"""The checkpoints topic on the target, as it is read back: one record after the other, with what drlib's headers say.

Rules: the newest record of a group and partition counts, which is what callers keep. Records that are no checkpoints are
skipped. A group is one of consumers or of share consumers: each caller leaves the other kind out (`SHARE_HEADER`). A position
that is gone on the source has a mark (`GONE_HEADER`), until a later checkpoint without it.
Not for: writing checkpoints (`writer`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from drlib import decoding
from drlib.config.replication_policy import ReplicationPolicy
from drlib.config.settings import MirrorSettings
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Range, Record
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.mm2.records import Checkpoint, MalformedRecord
from drlib.mirror.mm2.writer import AS_OF_HEADER, POSITION_HEADER
from drlib.model import Flow, TopicPartition


@dataclass(frozen=True, slots=True)
class Checkpointed:
    """`position`: the offset in `source`, the partition there, as of `as_of_ms`, also where the mirror was behind it."""

    checkpoint: Checkpoint
    source: TopicPartition
    position: int
    as_of_ms: int
    headers: Mapping[str, bytes]

    @property
    def key(self) -> tuple[str, TopicPartition]:
        return self.checkpoint.group, self.source


def read_checkpoints(settings: MirrorSettings, flow: Flow) -> Iterator[Record]:
    """The log of a flow's checkpoints, oldest first; nothing where there is no such topic. Blocks. Raises `Unreachable`."""
    policy = settings.flow(flow.source, flow.target).policy
    return read_log(settings.clusters[flow.target], policy.checkpoints_topic(flow.source))


def read_log(target: ClusterSettings, topic: str) -> Iterator[Record]:
    """The same, of a topic on `target`."""
    partition = TopicPartition(topic, 0)
    with Cluster(target) as cluster:
        if not cluster.topics([partition.topic]):
            return
        start, end = cluster.log_starts([partition])[partition], cluster.log_ends([partition])[partition]
        yield from cluster.read({partition: Range(start, end)})


def checkpoints(records: Iterable[Record], policy: ReplicationPolicy) -> Iterator[Checkpointed]:
    """The checkpoints among `records`. Pure."""
    for record in records:
        try:
            checkpoint = Checkpoint.decode(record.key, record.value)
        except MalformedRecord:
            continue
        headers = {name: value for name, value in record.headers if value is not None}
        topic = policy.upstream_topic(checkpoint.partition.topic) or checkpoint.partition.topic
        yield Checkpointed(
            checkpoint,
            TopicPartition(topic, checkpoint.partition.partition),
            decoding.integer_or(checkpoint.upstream_offset, headers.get(POSITION_HEADER, b"")),
            decoding.integer_or(record.timestamp_ms, headers.get(AS_OF_HEADER, b"")),
            headers,
        )
