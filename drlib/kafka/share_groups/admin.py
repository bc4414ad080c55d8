"""Blocking calls about the share groups of one cluster: list, describe, set start offsets, delete them, write what is complete.

Rules:
- A cluster whose brokers do not know share groups (before Kafka 4.1) is asked nothing: it has none.
- A coordinator that is elected or loads is asked again until the deadline. Setting a start offset again is harmless.
- Of a partition whose log end brokers cannot get (KIP-1226), as without a leader, they answer with an error: it is asked again
  until the deadline where the caller `waits` for it.
- A broker sets start offsets of groups without members only (NON_EMPTY_GROUP). Which offsets are complete is written by the
  request that brokers write it with (WriteShareGroupState, of Kafka 4.1 and newer): it needs ClusterAction on the cluster, and
  the epoch of the state that it continues, so it is read first. Refused, or not supported, is an answer here and no error.
Longer than most modules: it has one call for each request about share groups.
Source: `KafkaApis`, `GroupCoordinatorService` and `ShareCoordinatorShard` of Kafka 4.3; measured on 4.3.1.
Not for: reading which offsets are complete (`state_topic`), deciding (`drlib.drill.actions.groups.share_groups.rules`).
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from drlib.errors import DrlibError
from drlib.kafka.admin.connect import blocking
from drlib.kafka.admin.errors import GroupNotEmpty, refused
from drlib.kafka.admin.group_offsets import connected
from drlib.kafka.net import group_requests, requests
from drlib.kafka.net.api_versions import KNOWN
from drlib.kafka.net.cluster_client import Broker, ClusterClient
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol.error_codes import (
    RETRIABLE,
    UNKNOWN_SERVER_ERROR,
    UNKNOWN_TOPIC_OR_PARTITION,
    BrokerError,
    name_of,
    raise_for,
)
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.share_groups import members, messages
from drlib.kafka.share_groups.members import GroupMembers
from drlib.kafka.share_groups.messages import DescribedGroup, NewState, Refusal, StateKey, StoredState
from drlib.kafka.share_groups.names import PROTOCOL, RESET, SETTINGS
from drlib.kafka.share_groups.state import Interval
from drlib.model import TopicPartition

UNSUPPORTED: Final = "its brokers do not support WriteShareGroupState"
_NON_EMPTY_GROUP: Final = 68
_RETRY_S: Final = 0.1
_AT_ONCE: Final = 64

Answer = TypeVar("Answer")
_Key = tuple[uuid.UUID, int]


@dataclass(frozen=True, slots=True)
class Listed:
    """All groups of a cluster by name, with their protocol and state. `supported`: do its brokers know share groups?"""

    supported: bool
    groups: Mapping[str, group_requests.GroupListing]

    @property
    def share_groups(self) -> tuple[str, ...]:
        return tuple(sorted(name for name, each in self.groups.items() if each.protocol_type == PROTOCOL))


def listed(cluster: ClusterSettings, timeout_s: float) -> Listed:
    """Raises `Unreachable`, `SecurityFault`, `BrokerError`."""
    return _blocking(cluster, "listing share groups", timeout_s, list_by)


async def list_by(client: ClusterClient) -> Listed:
    """The same, over a client that is connected. A broker that still loads its groups is asked again."""
    groups: dict[str, group_requests.GroupListing] = {}
    end = time.monotonic() + client.timeout_s
    for node in sorted(client.brokers):
        connection = await client.connection(node, "control")
        if not _supports(connection, "DescribeShareGroupOffsets"):
            return Listed(False, {})
        left_s = max(0.0, end - time.monotonic())
        groups |= {each.group: each for each in await group_requests.list_loaded_groups(connection, left_s)}
    return Listed(True, groups)


def described(
    cluster: ClusterSettings,
    groups: Collection[str],
    timeout_s: float,
    waits: Callable[[StateKey], bool] = lambda _: False,
) -> dict[str, DescribedGroup | DrlibError]:
    """Start offsets and lag by group; nothing for a group that has none, or does not exist. Raises `Unreachable`.

    `waits`: is a partition asked again while the answer is an error that may pass?"""

    async def ask(client: ClusterClient) -> dict[str, DescribedGroup | DrlibError]:
        return await describe_by(client, cluster, groups, timeout_s, waits)

    return _blocking(cluster, "describing share groups", timeout_s, ask) if groups else {}


async def describe_by(
    client: ClusterClient,
    cluster: ClusterSettings,
    groups: Collection[str],
    timeout_s: float,
    waits: Callable[[StateKey], bool] = lambda _: False,
) -> dict[str, DescribedGroup | DrlibError]:
    """The same, over a client that is connected."""
    turn = asyncio.Semaphore(_AT_ONCE)
    end = time.monotonic() + timeout_s

    async def one(group: str) -> DescribedGroup | DrlibError:
        async with turn:
            try:
                send = partial(_describe, group=group, waits=lambda key: time.monotonic() < end and waits(key))
                return await _coordinated(client, group, end + _RETRY_S, send)
            except DrlibError as error:
                return _refused(cluster, f"describing share group {group}", error)

    return dict(zip(groups, await asyncio.gather(*map(one, groups)), strict=True))


async def members_by(
    client: ClusterClient, cluster: ClusterSettings, protocols: Mapping[str, str], timeout_s: float
) -> dict[str, GroupMembers | DrlibError]:
    """The members of share groups and streams groups; `protocols`: by group, a key of `members.REQUESTS`."""
    turn = asyncio.Semaphore(_AT_ONCE)
    end = time.monotonic() + timeout_s

    async def one(group: str) -> GroupMembers | DrlibError:
        name = members.REQUESTS[protocols[group]]

        async def send(connection: Connection) -> GroupMembers:
            decode = members.streams_members if protocols[group] == group_requests.STREAMS else members.share_members
            answer = (await _submit(connection, name, members.describe_body(group), decode)).get(group)
            if answer is None:
                raise BrokerError(
                    UNKNOWN_SERVER_ERROR, f"describing group {group}", "the answer is about another group"
                )
            raise_for(answer.error.code, f"describing group {group}", answer.error.message)
            return answer

        async with turn:
            try:
                return await _coordinated(client, group, end, send)
            except DrlibError as error:
                return _refused(cluster, f"describing group {group}", error)

    return dict(zip(protocols, await asyncio.gather(*map(one, protocols)), strict=True))


def set_starts(cluster: ClusterSettings, group: str, starts: Mapping[TopicPartition, int], timeout_s: float) -> None:
    """Set start offsets; what is known to be complete above them is forgotten. The group is created where there is none.

    Raises `GroupNotEmpty`, `ClusterRefused`, `Unreachable`.
    """
    doing = f"setting start offsets of share group {group}"

    async def send(connection: Connection) -> None:
        answer = _submit(connection, "AlterShareGroupOffsets", messages.alter_body(group, starts), messages.altered)
        error, partitions = await answer
        raise_for(error.code, doing, error.message)
        for partition, each in partitions.items():
            raise_for(each.code, f"{doing} in {partition}", each.message)

    _write(cluster, group, doing, timeout_s, send)


def delete_starts(cluster: ClusterSettings, group: str, topics: Collection[str], timeout_s: float) -> None:
    """Delete all that is known of a group in `topics`. Raises as `set_starts`."""
    doing = f"deleting start offsets of share group {group}"

    async def send(connection: Connection) -> None:
        answer = _submit(connection, "DeleteShareGroupOffsets", messages.delete_body(group, topics), messages.deleted)
        error, deleted = await answer
        raise_for(error.code, doing, error.message)
        for topic, each in deleted.items():
            if each.code != UNKNOWN_TOPIC_OR_PARTITION:  # it has none there
                raise_for(each.code, f"{doing} in {topic}", each.message)

    _write(cluster, group, doing, timeout_s, send)


def reset_policies(cluster: ClusterSettings, groups: Collection[str], timeout_s: float) -> dict[str, str]:
    """`share.auto.offset.reset` of each group that may be described; the others are left out."""

    async def ask(client: ClusterClient) -> dict[str, str]:
        return await resets_by(client, groups)

    return _blocking(cluster, "describing the configurations of share groups", timeout_s, ask) if groups else {}


async def resets_by(client: ClusterClient, groups: Collection[str]) -> dict[str, str]:
    """The same, over a client that is connected."""
    return await requests.config_values(await client.any_broker(), requests.GROUP_RESOURCE, groups, RESET)


def share_settings(cluster: ClusterSettings, groups: Collection[str], timeout_s: float) -> dict[str, dict[str, str]]:
    """The `share.*` settings of each group that may be described, defaults included; the others are left out."""

    async def ask(client: ClusterClient) -> dict[str, dict[str, str]]:
        found = await requests.all_config_values(await client.any_broker(), requests.GROUP_RESOURCE, groups)
        return {group: {key: values[key] for key in SETTINGS if key in values} for group, values in found.items()}

    return _blocking(cluster, "describing the configurations of share groups", timeout_s, ask) if groups else {}


def write_complete(
    cluster: ClusterSettings,
    group: str,
    wanted: Mapping[TopicPartition, tuple[int, tuple[Interval, ...]]],
    timeout_s: float,
) -> dict[TopicPartition, str]:
    """Write which offsets are complete, as start offset and what is behind it; the start offset has to be set already.

    By partition: why it was not written, empty where it was. Raises `Unreachable`.
    """
    doing = f"writing the acknowledged records of share group {group}"

    async def ask(client: ClusterClient) -> dict[TopicPartition, str]:
        metadata = await client.metadata(sorted({partition.topic for partition in wanted}))
        reasons: dict[TopicPartition, str] = {}
        by_key: dict[_Key, TopicPartition] = {}
        epochs: dict[_Key, int] = {}
        for partition in wanted:
            topic = metadata.topics[partition.topic]
            known = topic.partitions.get(partition.partition)
            if known is None:
                reasons[partition] = "the partition does not exist"
                continue
            key = (topic.topic_id, partition.partition)
            by_key[key], epochs[key] = partition, known.leader_epoch
        end = time.monotonic() + timeout_s
        answers = await _write_states(client, group, {k: wanted[p] for k, p in by_key.items()}, epochs, end)
        return reasons | {partition: answers.get(key, UNSUPPORTED) for key, partition in by_key.items()}

    return _blocking(cluster, doing, timeout_s, ask) if wanted else {}


async def _write_states(
    client: ClusterClient,
    group: str,
    wanted: Mapping[_Key, tuple[int, tuple[Interval, ...]]],
    epochs: Mapping[_Key, int],
    end: float,
) -> dict[_Key, str]:
    """Coordinators that move meanwhile are looked up again: the same state is written."""
    answers: dict[_Key, str] = {}
    left = dict(wanted)
    while left:
        again: dict[_Key, str] = {}
        nodes, refused = await _coordinators(client, group, left)
        answers |= {key: name_of(code) for key, code in refused.items() if code not in RETRIABLE}
        again |= {key: name_of(code) for key, code in refused.items() if code in RETRIABLE}
        for node, keys in nodes.items():
            connection = await client.connection(node, "share-state")
            if not all(_supports(connection, name) for name in ("ReadShareGroupState", "WriteShareGroupState")):
                answers |= dict.fromkeys(keys, UNSUPPORTED)
                continue
            for key, code in (await _replace_states(connection, group, {k: left[k] for k in keys}, epochs)).items():
                (again if code in RETRIABLE else answers)[key] = name_of(code) if code else ""
        if again and time.monotonic() > end:
            return answers | again
        left = {key: wanted[key] for key in again}
        if left:
            await asyncio.sleep(_RETRY_S)
    return answers


async def _coordinators(
    client: ClusterClient, group: str, keys: Collection[_Key]
) -> tuple[dict[int, list[_Key]], dict[_Key, int]]:
    """The share coordinators by node, and the errors of those that are not found."""
    names = {messages.coordinator_key(group, *key): key for key in keys}
    connection = await client.any_broker()
    if not _supports(connection, "FindShareCoordinator"):
        return {}, {}
    answer = await _submit(connection, "FindShareCoordinator", messages.find_body(names), messages.found)
    nodes: dict[int, list[_Key]] = defaultdict(list)
    refused: dict[_Key, int] = {}
    for name, key in names.items():
        if name not in answer:
            continue
        node, host, port, error = answer[name]
        if error.code:
            refused[key] = error.code
        else:
            client.brokers[node] = Broker(node, host, port)
            nodes[node].append(key)
    return nodes, refused


async def _replace_states(
    connection: Connection,
    group: str,
    wanted: Mapping[_Key, tuple[int, tuple[Interval, ...]]],
    epochs: Mapping[_Key, int],
) -> dict[_Key, int]:
    """The error code of each. The epoch of its state is that which setting the start offset gave it."""
    body = messages.read_body(group, {key: epochs[key] for key in wanted})
    stored: Mapping[_Key, StoredState] = await _submit(connection, "ReadShareGroupState", body, messages.states)
    stored = {key: each for key, each in stored.items() if key in wanted}
    codes = {key: each.error.code for key, each in stored.items() if each.error.code}
    news = {
        key: NewState(each.state_epoch, epochs[key], *wanted[key])
        for key, each in stored.items()
        if not each.error.code
    }
    if not news:
        return codes
    version = connection.version("WriteShareGroupState")
    body = messages.write_body(version, group, news)
    written = await _submit(connection, "WriteShareGroupState", body, messages.written)
    return codes | {key: error.code for key, error in written.items() if key in news}


async def _describe(connection: Connection, group: str, waits: Callable[[StateKey], bool]) -> DescribedGroup:
    version = connection.version("DescribeShareGroupOffsets")
    body = messages.describe_body([group])
    answer = await _submit(
        connection, "DescribeShareGroupOffsets", body, lambda view: messages.described(version, view)
    )
    found = answer.get(group)
    if found is None:
        raise BrokerError(UNKNOWN_SERVER_ERROR, f"describing share group {group}", "the answer is about another group")
    raise_for(found.error.code, f"describing share group {group}", found.error.message)
    for key, error in awaited(group, found, waits).items():
        raise_for(error.code, f"describing share group {group} in partition {key.partition}", error.message)
    return found


def awaited(group: str, found: DescribedGroup, waits: Callable[[StateKey], bool]) -> dict[StateKey, Refusal]:
    """What was refused of `found` by an error that may pass, and is waited for. Pure."""
    by_key = {StateKey(group, found.topic_ids[p.topic], p.partition): each for p, each in found.refused.items()}
    return {key: each for key, each in by_key.items() if each.code in RETRIABLE and waits(key)}


def _supports(connection: Connection, name: str) -> bool:
    return name in connection.versions


def _submit(
    connection: Connection, name: str, body: bytes, decode: Callable[[memoryview], Answer]
) -> Awaitable[Answer]:
    return connection.submit(KNOWN[name][0], connection.version(name), [body], decode)


async def _coordinated(
    client: ClusterClient, group: str, end: float, send: Callable[[Connection], Awaitable[Answer]]
) -> Answer:
    """The answer of the group's coordinator. Raises `BrokerError`, `Unreachable`."""
    while True:
        try:
            node = await client.coordinator(group, "group", deadline_s=max(0.1, end - time.monotonic()))
            return await send(await client.connection(node, "share-groups"))
        except BrokerError as error:
            if not error.retriable or time.monotonic() > end:
                raise
        await asyncio.sleep(_RETRY_S)


def _write(
    cluster: ClusterSettings, group: str, doing: str, timeout_s: float, send: Callable[[Connection], Awaitable[None]]
) -> None:
    async def ask(client: ClusterClient) -> None:
        try:
            await _coordinated(client, group, time.monotonic() + timeout_s, send)
        except BrokerError as error:
            if error.code == _NON_EMPTY_GROUP:
                raise GroupNotEmpty(
                    f"share group in use on {cluster.alias}: {group}",
                    "its members read on there while its start offsets would be set",
                    f"Stop the consumers of {group} on {cluster.alias}, or leave that group out.",
                ) from error
            raise _refused(cluster, doing, error) from error

    _blocking(cluster, doing, timeout_s, ask)


def _refused(cluster: ClusterSettings, doing: str, error: DrlibError) -> DrlibError:
    return refused(cluster, doing, str(error), error.name) if isinstance(error, BrokerError) else error


def _blocking(
    cluster: ClusterSettings, doing: str, timeout_s: float, ask: Callable[[ClusterClient], Awaitable[Answer]]
) -> Answer:
    async def answered() -> Answer:
        async with connected(cluster, doing, timeout_s, client_id="drlib-share-groups") as client:
            return await ask(client)

    return blocking(answered())
