"""Which operations a cluster authorizes for drlib, and how far its clock is off. Read-only requests.

Rules: a broker without an authorizer grants everything; a resource that may not be described has no operations. Names are those
of Kafka's `AclOperation`. A request that an older broker does not support gives None.
Source: KIP-430 (authorized operations), KIP-836 (times of replicas in DescribeQuorum).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kafka.protocol.admin import DescribeClusterRequest, DescribeGroupsRequest, DescribeQuorumRequest
from kafka.protocol.metadata import MetadataRequest

from drlib.errors import Unreachable
from drlib.kafka.net.api_versions import UnsupportedRequest
from drlib.kafka.net.cluster_client import COORDINATOR_DEADLINE_S, ELECTING, ClusterClient
from drlib.kafka.protocol.error_codes import AUTHORIZATION, BrokerError

_OPERATIONS: Final = {
    3: "READ",
    4: "WRITE",
    5: "CREATE",
    6: "DELETE",
    7: "ALTER",
    8: "DESCRIBE",
    9: "CLUSTER_ACTION",
    10: "DESCRIBE_CONFIGS",
    11: "ALTER_CONFIGS",
    12: "IDEMPOTENT_WRITE",
}
_LAST_WITH_CLUSTER: Final = 10  # the last version of Metadata with operations on the cluster
_METADATA_LOG: Final = "__cluster_metadata"


async def cluster_rights(client: ClusterClient) -> frozenset[str] | None:
    """The authorized operations on the cluster; None where the answer has none, which is unknown. Raises `Unreachable`."""
    try:
        answer = await client.ask(
            lambda seed: seed.message(DescribeClusterRequest, include_cluster_authorized_operations=True)
        )
        reported = None if answer.error_code else answer.authorized_operations
    except UnsupportedRequest:  # before 2.8 metadata has them
        answer = await client.ask(
            lambda seed: MetadataRequest[min(seed.version("Metadata"), _LAST_WITH_CLUSTER)](
                topics=[], allow_auto_topic_creation=False, include_cluster_authorized_operations=True
            )
        )
        reported = answer.authorized_operations
    return None if reported is None else _names(reported)


async def topic_rights(client: ClusterClient, topics: Iterable[str]) -> dict[str, frozenset[str] | None]:
    """The authorized operations on each of `topics`; None for one that does not exist. Raises `Unreachable`."""
    wanted = [MetadataRequest.MetadataRequestTopic(name=t) for t in sorted(set(topics))]
    answer = await client.ask(
        lambda seed: seed.message(
            MetadataRequest, topics=wanted, allow_auto_topic_creation=False, include_topic_authorized_operations=True
        )
    )
    return {
        t.name: None if t.error_code not in (0, *AUTHORIZATION) else _names(t.authorized_operations or ())
        for t in answer.topics
    }


async def group_rights(client: ClusterClient, group: str) -> frozenset[str]:
    """The authorized operations on a group, whether it exists or not. Raises `Unreachable`, `BrokerError`."""
    deadline = time.monotonic() + COORDINATOR_DEADLINE_S
    while True:
        try:
            node = await client.coordinator(group, "group")
        except BrokerError as error:
            if error.code in AUTHORIZATION:
                return frozenset()
            raise
        connection = await client.connection(node, "control")
        answer = await connection.ask(DescribeGroupsRequest, groups=[group], include_authorized_operations=True)
        (described,) = answer.groups
        if described.error_code in AUTHORIZATION:
            return frozenset()
        if described.error_code == 0:
            return _names(described.authorized_operations or ())
        if described.error_code not in ELECTING or time.monotonic() > deadline:
            raise BrokerError(described.error_code, f"describing group {group}")
        await asyncio.sleep(0.05)


async def clock_skew(client: ClusterClient) -> Skew | None:
    """How far the active controller's clock is from this one; None without the right to ask, or before Kafka 3.3.

    The controller reports its own replica as caught up at its current time (`LeaderState.describeReplicaState`).
    """
    if not client.brokers:
        await client.metadata([])
    best: Skew | None = None
    try:
        connection = await client.connection(min(client.brokers), "clock")
        topic_class = DescribeQuorumRequest.TopicData
        topic = topic_class(topic_name=_METADATA_LOG, partitions=[topic_class.PartitionData(partition_index=0)])
        message = connection.message(DescribeQuorumRequest, topics=[topic])
        for _ in range(3):  # the quickest answer has the narrowest bounds
            asked = time.time()
            answer = await connection.request(message, timeout_s=client.timeout_s)
            answered = time.time()
            if answer.error_code or not answer.topics or answer.topics[0].partitions[0].error_code:
                return best
            quorum = answer.topics[0].partitions[0]
            theirs = next(
                (v.last_caught_up_timestamp for v in quorum.current_voters if v.replica_id == quorum.leader_id), -1
            )
            if theirs <= 0:
                return best
            new = skew(int(asked * 1000), theirs, int(answered * 1000) + 1)
            best = new if best is None or new.high - new.low < best.high - best.low else best
    except (Unreachable, UnsupportedRequest):
        return best
    return best


def _names(operations: Iterable[int]) -> frozenset[str]:
    return frozenset(_OPERATIONS[o] for o in operations if o in _OPERATIONS)


TOLERANCE_MS = 2000


@dataclass(frozen=True, slots=True)
class Skew:
    """Bounds of (the controller's clock - this clock), ms."""

    low: int
    high: int

    @property
    def beyond_tolerance(self) -> bool:
        return self.low > TOLERANCE_MS or self.high < -TOLERANCE_MS

    def __str__(self) -> str:
        middle = (self.low + self.high) / 2
        side = "ahead of" if middle > 0 else "behind"
        return f"{abs(middle) / 1000:.1f} s {side} this machine's (to within {(self.high - self.low) / 2000:.1f} s)"


def skew(asked_ms: int, theirs_ms: int, answered_ms: int) -> Skew:
    """`asked_ms` and `answered_ms` by this clock, `theirs_ms` by the controller's."""
    return Skew(theirs_ms - answered_ms, theirs_ms - asked_ms)
