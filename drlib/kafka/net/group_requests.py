"""Requests of groups: membership by the classic protocol, committed offsets, and commits for groups without members.

Rules: metadata and assignments are opaque bytes. The coordinator answers a JoinGroup only when every member has joined, so its
deadline is the rebalance timeout.
Source: KIP-62, KIP-394 (a first JoinGroup is answered with a member ID to come back with), KIP-559.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)

from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol.error_codes import MEMBER_ID_REQUIRED, BrokerError, raise_for
from drlib.model import TopicPartition

CONSUMERS: Final = frozenset({"consumer", ""})
"""Protocol types of groups of consumers: "" has one that never had a member, whose positions were committed from outside."""
STREAMS: Final = "streams"
"""Protocol type of groups of KIP-1071."""
_NO_GENERATION: Final = -1  # a commit from outside the group, as an admin client's
_NO_EPOCH: Final = -1  # leader epochs mean nothing on another cluster
_RETRY_S: Final = 0.1
JOIN_GRACE_S: Final = 10.0  # beyond the rebalance timeout


class MemberIdRequired(BrokerError):
    """The coordinator assigned a member ID to join with (KIP-394)."""

    def __init__(self, context: str, member_id: str) -> None:
        super().__init__(MEMBER_ID_REQUIRED, context)
        self.member_id = member_id


@dataclass(frozen=True, slots=True)
class JoinedGroup:
    """`members`: member ID -> its metadata, for the leader only; empty for the others."""

    member_id: str
    generation: int
    leader: str
    protocol_name: str
    members: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class GroupListing:
    group: str
    protocol_type: str
    state: str


@dataclass(frozen=True, slots=True)
class Workers:
    """Members of a group: how many, their client IDs and hosts."""

    count: int
    clients: tuple[str, ...]
    hosts: tuple[str, ...]


async def join_group(
    conn: Connection,
    *,
    group: str,
    member_id: str,
    session_timeout_ms: int,
    rebalance_timeout_ms: int,
    protocol_type: str,
    protocols: Mapping[str, bytes],
) -> JoinedGroup:
    """Join; returns when the rebalance is complete. Raises `MemberIdRequired` on a first call without a member ID."""
    protocol_class = JoinGroupRequest.JoinGroupRequestProtocol
    answer = await conn.request(
        conn.message(
            JoinGroupRequest,
            group_id=group,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            member_id=member_id,
            group_instance_id=None,
            protocol_type=protocol_type,
            protocols=[protocol_class(name=n, metadata=m) for n, m in protocols.items()],
        ),
        timeout_s=rebalance_timeout_ms / 1000 + JOIN_GRACE_S,
        broker_wait_s=rebalance_timeout_ms / 1000,
    )
    context = f"joining group {group}"
    if answer.error_code == MEMBER_ID_REQUIRED:
        raise MemberIdRequired(context, answer.member_id)
    raise_for(answer.error_code, context)
    return JoinedGroup(
        member_id=answer.member_id,
        generation=answer.generation_id,
        leader=answer.leader,
        protocol_name=answer.protocol_name or "",
        members={m.member_id: bytes(m.metadata) for m in answer.members},
    )


async def sync_group(
    conn: Connection,
    *,
    group: str,
    generation: int,
    member_id: str,
    protocol_type: str,
    protocol_name: str,
    assignments: Mapping[str, bytes],
    rebalance_timeout_ms: int,
) -> bytes:
    """This member's assignment. The leader passes all in `assignments`; the others pass none and wait for it."""
    assignment_class = SyncGroupRequest.SyncGroupRequestAssignment
    answer = await conn.request(
        conn.message(
            SyncGroupRequest,
            group_id=group,
            generation_id=generation,
            member_id=member_id,
            group_instance_id=None,
            protocol_type=protocol_type,
            protocol_name=protocol_name,
            assignments=[assignment_class(member_id=m, assignment=a) for m, a in assignments.items()],
        ),
        timeout_s=rebalance_timeout_ms / 1000 + JOIN_GRACE_S,
        broker_wait_s=rebalance_timeout_ms / 1000,
    )
    raise_for(answer.error_code, f"getting the assignment of group {group}")
    return bytes(answer.assignment)


async def heartbeat(conn: Connection, *, group: str, generation: int, member_id: str) -> None:
    """Send a heartbeat. Raises `BrokerError`, REBALANCE_IN_PROGRESS when the member must join again."""
    answer = await conn.ask(
        HeartbeatRequest, group_id=group, generation_id=generation, member_id=member_id, group_instance_id=None
    )
    raise_for(answer.error_code, f"sending a heartbeat to group {group}")


async def leave_group(conn: Connection, *, group: str, member_id: str) -> None:
    """Leave the group, so that its partitions are assigned to others at once."""
    member_class = LeaveGroupRequest.MemberIdentity
    answer = await conn.ask(
        LeaveGroupRequest, group_id=group, members=[member_class(member_id=member_id, group_instance_id=None)]
    )
    raise_for(answer.error_code, f"leaving group {group}")
    for member in answer.members:
        raise_for(member.error_code, f"leaving group {group}")


async def list_groups(conn: Connection) -> list[GroupListing]:
    """The groups this broker coordinates; ask every broker for all of them."""
    answer = await conn.ask(ListGroupsRequest, states_filter=[])
    raise_for(answer.error_code, f"listing the groups of {conn.peer}")
    return [GroupListing(g.group_id, g.protocol_type, g.group_state) for g in answer.groups]


async def list_loaded_groups(conn: Connection, timeout_s: float) -> list[GroupListing]:
    """The same; a broker that still loads its groups is asked again, for `timeout_s`."""
    end = time.monotonic() + timeout_s
    while True:
        try:
            return await list_groups(conn)
        except BrokerError as error:
            if not error.retriable or time.monotonic() > end:
                raise
        await asyncio.sleep(_RETRY_S)


async def describe_workers(conn: Connection, groups: Sequence[str]) -> dict[str, Workers]:
    """The members of groups that this broker coordinates, of a protocol that is not a consumer's, such as Connect's."""
    answer = await conn.ask(DescribeGroupsRequest, groups=list(groups), include_authorized_operations=False)
    found = {}
    for group in answer.groups:
        raise_for(group.error_code, f"describing group {group.group_id}")
        found[group.group_id] = Workers(
            len(group.members),
            tuple(sorted({member.client_id for member in group.members})),
            tuple(sorted({member.client_host.removeprefix("/") for member in group.members})),
        )
    return found


async def offset_fetch(
    conn: Connection, group: str, *, only: TopicPartition | None = None, require_stable: bool = False
) -> dict[TopicPartition, tuple[int, str]]:
    """A group's committed offsets, all or that of partition `only`: partition -> (offset, metadata). The connection
    must be to its coordinator.

    Raises `BrokerError`; with `require_stable` also while a transaction that commits positions is open.
    """
    group_class = OffsetFetchRequest.OffsetFetchRequestGroup
    topics = None  # all of them
    if only is not None:
        topics = [group_class.OffsetFetchRequestTopics(name=only.topic, partition_indexes=[only.partition])]
    answer = await conn.ask(
        OffsetFetchRequest,
        group_id=group,
        topics=topics,
        groups=[group_class(group_id=group, topics=topics)],
        require_stable=require_stable,
    )
    (described,) = answer.groups or [answer]  # before v8 an answer is about one group
    raise_for(described.error_code, f"reading the committed offsets of group {group}")
    positions: dict[TopicPartition, tuple[int, str]] = {}
    for topic in described.topics:
        for p in topic.partitions:
            partition = TopicPartition(topic.name, p.partition_index)
            raise_for(p.error_code, f"reading the committed offset of group {group} on {partition}")
            if p.committed_offset >= 0:
                positions[partition] = (p.committed_offset, p.metadata or "")
    return positions


async def offset_commit(conn: Connection, group: str, positions: Mapping[TopicPartition, tuple[int, str]]) -> None:
    """Commit partition -> (offset, metadata) for a group without members. The connection must be to its coordinator.

    Raises `BrokerError`, UNKNOWN_MEMBER_ID where the group has members, classic or of KIP-848; where one partition is
    refused, the others may be committed.
    """
    topic_class = OffsetCommitRequest.OffsetCommitRequestTopic
    partition_class = topic_class.OffsetCommitRequestPartition
    topics: dict[str, list[object]] = defaultdict(list)
    for partition, (offset, metadata) in positions.items():
        topics[partition.topic].append(
            partition_class(
                partition_index=partition.partition,
                committed_offset=offset,
                committed_leader_epoch=_NO_EPOCH,
                committed_metadata=metadata,
            )
        )
    answer = await conn.ask(
        OffsetCommitRequest,
        group_id=group,
        generation_id_or_member_epoch=_NO_GENERATION,
        member_id="",
        group_instance_id=None,
        topics=[topic_class(name=name, partitions=those) for name, those in topics.items()],
    )
    for topic in answer.topics:
        for p in topic.partitions:
            raise_for(
                p.error_code,
                f"committing the offset of group {group} on {TopicPartition(topic.name, p.partition_index)}",
            )


async def offset_delete(conn: Connection, group: str, partitions: Collection[TopicPartition]) -> None:
    """Delete committed offsets of a group without members (KIP-496). The connection must be to its coordinator.

    Raises `BrokerError`, NON_EMPTY_GROUP where it has members; where one partition is refused, others may be deleted.
    """
    topic_class = OffsetDeleteRequest.OffsetDeleteRequestTopic
    partition_class = topic_class.OffsetDeleteRequestPartition
    topics: dict[str, list[object]] = defaultdict(list)
    for partition in partitions:
        topics[partition.topic].append(partition_class(partition_index=partition.partition))
    answer = await conn.ask(
        OffsetDeleteRequest,
        group_id=group,
        topics=[topic_class(name=name, partitions=those) for name, those in topics.items()],
    )
    raise_for(answer.error_code, f"deleting offsets of group {group}")
    for topic in answer.topics:
        for p in topic.partitions:
            raise_for(p.error_code, f"deleting the offset of group {group} on {topic.name}-{p.partition_index}")
