"""Ask clusters which applications use them: every group, and the producers of topics that flows mirror. Read-only.

Rules: all clusters are asked at the same time and have `ALL_S` seconds together. A question without an answer says why, and
hides no other answer; a silent cluster hides none of the other's. A cluster leaves groups out that this user may not describe,
so without Describe on the cluster there may be others. drlib's own groups and lanes are left out. Brokers know
idempotent and transactional producers of the last day (`producer.id.expiration.ms`), and no others, and of none the client ID
or the host. When a group was last active is a note where it may not be read, and no missing answer.
Not for: judging (`drlib.drill.inventory.rules`).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Final

from drlib.config.flow_settings import FlowSettings
from drlib.config.settings import MirrorSettings
from drlib.drill.inventory.rules import (
    BROKERS,
    GROUPS,
    GROUPS_OF_DRLIB,
    PRODUCERS,
    Application,
    Inventory,
    SeenGroup,
    in_order,
    may_be_streams,
    of_group,
    of_producers,
)
from drlib.drill.readiness.checks.observations import Unanswered
from drlib.drill.readiness.observe import clusters
from drlib.drill.readiness.observe.applications.last_activity import last_acknowledgements, last_commits
from drlib.drill.readiness.observe.ask import ask
from drlib.drill.readiness.observe.clusters import AskedCluster
from drlib.drill.writers.logs import Side, own_producers
from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import blocking
from drlib.kafka.admin.descriptions import GroupDescription
from drlib.kafka.net import group_requests, requests
from drlib.kafka.net.authorized_operations import cluster_rights
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.net.requests import ProducerState
from drlib.kafka.protocol.error_codes import BrokerError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.share_groups.admin import describe_by, members_by
from drlib.kafka.share_groups.members import REQUESTS, GroupMembers
from drlib.kafka.share_groups.messages import DescribedGroup
from drlib.kafka.share_groups.names import PROTOCOL
from drlib.mirror.source_producers.leaders import OURS
from drlib.mirror.sync.rules.local_topics import keeps_names

ALL_S: Final = 15.0
ACTIVITY_S: Final = 5.0
_LEAST_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class SeenCluster:
    """The applications of one cluster, and as `Inventory` has it: what has no answer, and what need not have one. `silence`:
    why the cluster does not answer. `cluster_id`: "" where it does not."""

    alias: str
    rows: tuple[Application, ...] = ()
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    silence: str = ""
    cluster_id: str = ""


def take_inventory(
    settings: MirrorSettings,
    flows: Sequence[FlowSettings],
    seconds: float = ALL_S,
    silent: Mapping[str, str] = MappingProxyType({}),
    *,
    only: Collection[str] = (),
    activity: bool = True,
) -> tuple[Inventory, Mapping[str, str]]:
    """The applications on the clusters of `flows`, and the IDs of those that answer. Raises nothing that a cluster can cause.

    `silent`: by alias, why a cluster is known not to answer; it is then not asked. `only`: these clusters alone.
    `activity`: also when groups were last active.
    """

    async def all_of_them() -> list[SeenCluster]:
        aliases = sorted(only or {alias for each in flows for alias in (each.flow.source, each.flow.target)})
        end = time.monotonic() + seconds
        return await asyncio.gather(*(one(alias, end) for alias in aliases))

    async def one(alias: str, end: float) -> SeenCluster:
        if alias in silent:
            return SeenCluster(alias, silence=silent[alias])
        asked = await ask(clusters.connect(settings.clusters[alias]), _left_s(end))
        if isinstance(asked, Unanswered):
            return SeenCluster(alias, silence=asked.why)
        try:
            return await applications_on(settings, flows, asked, end, activity=activity)
        finally:
            if asked.client is not None:
                await asked.client.close()

    found = blocking(all_of_them())
    return inventory_of(found), {each.alias: each.cluster_id for each in found if each.cluster_id}


def inventory_of(found: Collection[SeenCluster]) -> Inventory:
    """What was seen of several clusters, as one inventory."""
    return Inventory(
        in_order([row for each in found for row in each.rows]),
        {each.alias: each.unknown for each in found if each.unknown},
        {each.alias: each.silence for each in found if each.silence},
        {each.alias: each.notes for each in found if each.notes},
    )


async def applications_on(
    settings: MirrorSettings, flows: Sequence[FlowSettings], asked: AskedCluster, end: float, *, activity: bool = True
) -> SeenCluster:
    """The applications on a cluster that was asked for its metadata, until `end` (`time.monotonic`). Raises nothing.

    `activity`: also when groups were last active, which reads records.
    """
    alias = asked.settings.alias
    if asked.metadata is None or asked.client is None:
        return SeenCluster(alias, silence=asked.answer().error or asked.unanswered.why)
    outgoing = _outgoing(settings, flows, alias)
    names = [name for name, topic in asked.metadata.topics.items() if topic.error_code == 0]
    topics = written_by_applications(names, outgoing)
    kept = [
        name
        for name in topics
        if any(each.mirrors_topic(name) and each.policy.remote_topic(alias, name) == name for each in outgoing)
    ]
    incoming = [each for each in settings.flows if each.flow.target == alias and keeps_names(each)]
    journals = [each.policy.journal_topic(each.flow.source) for each in incoming]  # of lanes that write to these topics
    groups, producers, rights = await asyncio.gather(
        asked.ask(_groups(asked.client, asked.settings, end, activity), _left_s(end)),
        asked.ask(_producers(Side(alias, asked.client, asked.metadata), topics, journals), _left_s(end)),
        asked.ask(cluster_rights(asked.client), _left_s(end)),
    )
    rows: list[Application] = []
    unknown = [] if asked.whole else [f"{BROKERS}: not all of {alias}'s answer"]
    if not isinstance(rights, frozenset) or "DESCRIBE" not in rights:
        why = "lists only those that this user may describe" if isinstance(rights, frozenset) else "may not list all"
        unknown.append(f"{GROUPS}: {alias} {why}, so there may be others: Describe on the cluster lists them")
    notes: tuple[str, ...] = ()
    if isinstance(groups, Unanswered):
        unknown.append(f"{GROUPS}: {groups.why}")
    else:
        seen, notes = groups
        streams = [group.name for group in seen if may_be_streams(group)]
        for group in seen:
            selected = any(each.mirrors_group(group.name) for each in outgoing)
            rows.append(of_group(alias, group, names, selected=selected, kept_names=kept, others=streams))
    if isinstance(producers, Unanswered):
        unknown.append(f"{PRODUCERS}: {producers.why}")
    else:
        states, ids, missing = producers
        rows += of_producers(alias, states, ids)
        unknown += missing
    return SeenCluster(alias, tuple(rows), tuple(unknown), notes, cluster_id=asked.metadata.cluster_id)


def written_by_applications(names: Collection[str], outgoing: Collection[FlowSettings]) -> list[str]:
    """Those of `names` that a flow mirrors, without the topics of heartbeats: a replicator is their producer."""
    return [n for n in names if any(each.mirrors_topic(n) and not each.policy.is_heartbeats(n) for each in outgoing)]


def _outgoing(settings: MirrorSettings, flows: Sequence[FlowSettings], alias: str) -> list[FlowSettings]:
    """The flows from a cluster; for a target also the way back, whose topics and groups are its own."""
    pairs = {each.flow for each in flows} | {each.flow.reverse for each in flows}
    return [each for each in settings.flows if each.flow in pairs and each.flow.source == alias]


def _left_s(end: float) -> float:
    return max(_LEAST_S, end - time.monotonic())


async def _groups(
    client: ClusterClient, settings: ClusterSettings, end: float, activity: bool
) -> tuple[list[SeenGroup], tuple[str, ...]]:
    """The groups, and why it is not known when they were last active, if it is not."""
    listings = []
    workers: dict[str, group_requests.Workers] = {}
    for node in sorted(client.brokers):
        connection = await client.connection(node, "control")
        listed = [
            each for each in await group_requests.list_groups(connection) if not each.group.startswith(GROUPS_OF_DRLIB)
        ]
        listings += listed
        for each in listed:  # Connect's and others of the classic protocol, as that of a schema registry
            if each.protocol_type not in (*group_requests.CONSUMERS, *REQUESTS):
                with contextlib.suppress(BrokerError):  # one of a protocol that is not known here
                    workers |= await group_requests.describe_workers(connection, [each.group])
    plain = [each.group for each in listings if each.protocol_type in group_requests.CONSUMERS]
    newer = {each.group: each.protocol_type for each in listings if each.protocol_type in REQUESTS}
    shares = [group for group, protocol in newer.items() if protocol == PROTOCOL]
    (described, committed), members, positions, (times, notes) = await asyncio.gather(
        asyncio.to_thread(partial(_described, settings, plain, _left_s(end))),
        members_by(client, settings, newer, _left_s(end)),
        describe_by(client, settings, shares, _left_s(end)),
        asyncio.to_thread(partial(_last_active, settings, plain, newer, min(ACTIVITY_S, _left_s(end) / 2)))
        if activity
        else _not_asked(),
    )
    seen = []
    for each in sorted(listings, key=lambda listing: listing.group):
        group = SeenGroup(each.group, each.protocol_type, each.state, last_ms=times.get(each.group))
        if each.group in workers:
            of = workers[each.group]
            group = replace(group, members=of.count, clients=of.clients, hosts=of.hosts)
        elif each.group in described:
            group = _with_members(group, described[each.group], committed[each.group])
        elif each.group in members:
            group = _of_newer_protocol(group, members[each.group], positions.get(each.group))
        else:
            group = replace(group, why="its members are not known: drlib does not describe groups of this protocol")
        seen.append(group)
    return seen, notes


async def _not_asked() -> tuple[dict[str, int], tuple[str, ...]]:
    return {}, ()


def _last_active(
    settings: ClusterSettings, plain: Sequence[str], newer: Mapping[str, str], timeout_s: float
) -> tuple[dict[str, int], tuple[str, ...]]:
    """By group, and why it is not known of groups of a kind. Blocks."""
    shares = [group for group, protocol in newer.items() if protocol == PROTOCOL]
    committing = [*plain, *(group for group in newer if group not in shares)]
    times, why = last_commits(settings, committing, timeout_s) if committing else ({}, "")
    more, more_why = last_acknowledgements(settings, shares, timeout_s) if shares else ({}, "")
    return times | more, tuple(f"when groups were last active: {each}" for each in (why, more_why) if each)


def _of_newer_protocol(
    group: SeenGroup, found: GroupMembers | DrlibError, positions: DescribedGroup | DrlibError | None
) -> SeenGroup:
    """A share group, with the topics in which it has `positions`, or a group of KIP-1071."""
    read = set(positions.topic_ids) if isinstance(positions, DescribedGroup) else set()
    if isinstance(found, DrlibError):
        return replace(group, topics=tuple(sorted(read)), why=f"its members are not known: {found.why}")
    topics = tuple(sorted({*read, *found.topics}))
    return replace(group, members=found.count, clients=found.clients, hosts=found.hosts, topics=topics)


def _described(
    settings: ClusterSettings, names: Sequence[str], timeout_s: float
) -> tuple[dict[str, GroupDescription | DrlibError], dict[str, tuple[str, ...] | DrlibError]]:
    """Blocks."""
    with Cluster(settings, timeout_s=timeout_s) as cluster:
        described = cluster.group_descriptions(names)
        committed = {
            name: answer if isinstance(answer, DrlibError) else tuple(sorted({each.topic for each in answer}))
            for name, answer in cluster.committed(names).items()
        }
    return described, committed


def _with_members(
    group: SeenGroup, described: GroupDescription | DrlibError, committed: tuple[str, ...] | DrlibError
) -> SeenGroup:
    why = "; ".join(error.why for error in (described, committed) if isinstance(error, DrlibError))
    topics = set(() if isinstance(committed, DrlibError) else committed)
    if isinstance(described, DrlibError):
        return replace(group, topics=tuple(sorted(topics)), why=why)
    members = described.members
    topics |= {partition.topic for member in members for partition in member.assignment}
    return replace(
        group,
        new_protocol=described.new_protocol,
        assignor=described.assignor,
        members=len(members),
        clients=tuple(sorted({member.client_id for member in members if member.client_id})),
        hosts=tuple(sorted({member.host.removeprefix("/") for member in members})),
        topics=tuple(sorted(topics)),
        why=why,
    )


async def _producers(
    side: Side, topics: Collection[str], journals: Collection[str]
) -> tuple[list[tuple[str, ProducerState]], dict[int, str], list[str]]:
    """Producers by topic, transactional IDs by producer ID, and what was not answered. `journals`: of our lanes, which are left
    out, also where their transactional IDs may not be described."""
    client = side.client
    by_leader: dict[int, dict[str, list[int]]] = {}
    missing = []
    for name in sorted(topics):
        for number, partition in side.metadata.topics[name].partitions.items():
            if partition.leader in client.brokers:
                by_leader.setdefault(partition.leader, {}).setdefault(name, []).append(number)
            else:
                missing.append(f"{PRODUCERS} of {name}-{number}: it has no leader that answers")
    states: list[tuple[str, ProducerState]] = []
    ids: dict[int, str] = {}
    for node in sorted(client.brokers):
        connection = await client.connection(node, "control")
        ids |= await requests.transactional_ids(connection)
        if node in by_leader:
            for led, known in (await requests.describe_producers(connection, by_leader[node])).items():
                states += [(led.topic, state) for state in known]
    own = {number for number, name in ids.items() if name.startswith(OURS)}
    if any(state.transactional and state.producer_id not in ids for _, state in states):
        own |= await own_producers(side, journals)
    return [(topic, state) for topic, state in states if state.producer_id not in own], ids, missing
