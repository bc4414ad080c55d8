"""What a copy of topics from one cluster to another is called, and when it is done.

Rules: clusters are known by their IDs, so that the same two clusters are one copy however they are addressed, and its
journal is found again. Names stay as they are, or get a prefix. Done is what was there when it began: a partition that
has been read through, and acknowledged, up to the log end seen then.
Not for: choosing topics (`drlib.config.patterns.selection`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from drlib.config.replication_policy import (
    HEARTBEATS,
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
)
from drlib.model import TopicPartition

# What belongs to brokers and replicators, and would only confuse on another cluster.
EXCLUDED = ("__.*", r"mm2.*\.internal", HEARTBEATS, rf".*\.{HEARTBEATS}", r".*\.checkpoints\.internal")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixPolicy(DefaultReplicationPolicy):
    """`orders` becomes `prefix.orders`; journals and groups still bear the source's cluster ID."""

    prefix: str

    def remote_topic(self, source_alias: str, topic: str) -> str:
        return f"{self.prefix}{self.separator}{topic}"


def policy_for(source: str, prefix: str | None) -> ReplicationPolicy:
    """Names as they are without a prefix. `source` is the source's cluster ID."""
    return IdentityReplicationPolicy(source_alias=source) if not prefix else PrefixPolicy(prefix=prefix)


def to_go(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], mirrored: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Offsets still to copy of each partition that has any, of what was between `starts` and `ends`."""
    left = {
        partition: end - max(starts.get(partition, 0), mirrored.get(partition, 0)) for partition, end in ends.items()
    }
    return {partition: count for partition, count in left.items() if count > 0}
