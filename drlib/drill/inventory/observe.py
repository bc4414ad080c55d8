"""Ask clusters which applications use them: every group, and the producers of topics that flows mirror. Read-only.

Rules: all clusters are asked at the same time and have `ALL_S` seconds together. A question without an answer says why, and
hides no other answer; a silent cluster hides none of the other's. drlib's own groups and lanes are left out. Brokers know
idempotent and transactional producers of the last day (`producer.id.expiration.ms`), and no others, and of none the client ID
or the host.
Not for: judging (`rules`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from drlib.config.flow_settings import FlowSettings
from drlib.config.settings import MirrorSettings
from drlib.drill.inventory.rules import Application, SeenGroup, in_order, of_group, of_producers
from drlib.drill.readiness.checks.observations import Unanswered
from drlib.drill.readiness.observe import clusters
from drlib.drill.readiness.observe.ask import ask
from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import blocking
from drlib.kafka.admin.descriptions import GroupDescription
from drlib.kafka.net import group_requests, requests
from drlib.kafka.net.cluster_client import ClusterClient, ClusterMetadata
from drlib.kafka.net.requests import ProducerState
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.share_groups.admin import describe_by
from drlib.kafka.share_groups.messages import DescribedGroup
from drlib.kafka.share_groups.names import PROTOCOL

ALL_S: Final = 15.0
_LEAST_S: Final = 1.0
_OURS: Final = ("drlib.", "drill.")


@dataclass(frozen=True, slots=True)
class Inventory:
    """`applications` are sorted. By cluster: `unknown`, what has no answer and why; `silent`, why it does not answer at all."""

    applications: tuple[Application, ...]
    unknown: Mapping[str, tuple[str, ...]]
    silent: Mapping[str, str]


def take_inventory(settings: MirrorSettings, flows: Sequence[FlowSettings], seconds: float = ALL_S) -> Inventory:
    """The applications on the clusters of `flows`. Raises nothing that a cluster can cause."""

    async def all_of_them() -> list[tuple[str, list[Application], tuple[str, ...], str]]:
        aliases = sorted({alias for each in flows for alias in (each.flow.source, each.flow.target)})
        end = time.monotonic() + seconds
        return await asyncio.gather(*(_of_cluster(settings, flows, settings.clusters[alias], end) for alias in aliases))

    found = blocking(all_of_them())
    return Inventory(
        in_order([row for _, rows, _, _ in found for row in rows]),
        {alias: unknown for alias, _, unknown, _ in found if unknown},
        {alias: silence for alias, _, _, silence in found if silence},
    )


async def _of_cluster(
    settings: MirrorSettings, flows: Sequence[FlowSettings], cluster: ClusterSettings, end: float
) -> tuple[str, list[Application], tuple[str, ...], str]:
    asked = await ask(clusters.connect(cluster), _left_s(end))
    if isinstance(asked, Unanswered):
        return cluster.alias, [], (), asked.why
    try:
        if asked.metadata is None or asked.client is None:
            return cluster.alias, [], (), asked.answer().error or asked.unanswered.why
        outgoing = _outgoing(settings, flows, cluster.alias)
        names = [name for name, topic in asked.metadata.topics.items() if topic.error_code == 0]
        topics = [name for name in names if any(each.mirrors_topic(name) for each in outgoing)]
        groups, producers = await asyncio.gather(
            asked.ask(_groups(asked.client, cluster, end), _left_s(end)),
            asked.ask(_producers(asked.client, asked.metadata, topics), _left_s(end)),
        )
        rows: list[Application] = []
        unknown = [] if asked.whole else [f"brokers: not all of {cluster.alias}'s answer"]
        if isinstance(groups, Unanswered):
            unknown.append(f"groups: {groups.why}")
        else:
            for group in groups:
                selected = any(each.mirrors_group(group.name) for each in outgoing)
                rows.append(of_group(cluster.alias, group, names, selected=selected))
        if isinstance(producers, Unanswered):
            unknown.append(f"producers: {producers.why}")
        else:
            states, ids, missing = producers
            rows += of_producers(cluster.alias, states, ids)
            unknown += missing
        return cluster.alias, rows, tuple(unknown), ""
    finally:
        if asked.client is not None:
            await asked.client.close()


def _outgoing(settings: MirrorSettings, flows: Sequence[FlowSettings], alias: str) -> list[FlowSettings]:
    """The flows from a cluster; for a target also the way back, whose topics and groups are its own."""
    pairs = {each.flow for each in flows} | {each.flow.reverse for each in flows}
    return [each for each in settings.flows if each.flow in pairs and each.flow.source == alias]


def _left_s(end: float) -> float:
    return max(_LEAST_S, end - time.monotonic())


async def _groups(client: ClusterClient, settings: ClusterSettings, end: float) -> list[SeenGroup]:
    listings = []
    workers: dict[str, group_requests.Workers] = {}
    for node in sorted(client.brokers):
        connection = await client.connection(node, "control")
        listed = [each for each in await group_requests.list_groups(connection) if not each.group.startswith(_OURS)]
        listings += listed
        if of_connect := [each.group for each in listed if each.protocol_type == "connect"]:
            workers |= await group_requests.describe_workers(connection, of_connect)
    plain = [each.group for each in listings if each.protocol_type in ("consumer", "")]
    described, committed = await asyncio.to_thread(partial(_described, settings, plain, _left_s(end)))
    shares = [each.group for each in listings if each.protocol_type == PROTOCOL]
    positions = await describe_by(client, settings, shares, _left_s(end)) if shares else {}
    seen = []
    for each in sorted(listings, key=lambda listing: listing.group):
        group = SeenGroup(each.group, each.protocol_type, each.state)
        if each.group in workers:
            of = workers[each.group]
            group = replace(group, members=of.count, clients=of.clients, hosts=of.hosts)
        elif each.group in described:
            group = _with_members(group, described[each.group], committed[each.group])
        else:
            group = replace(group, why="its members are not known: drlib does not describe groups of this protocol")
            if isinstance(found := positions.get(each.group), DescribedGroup):
                group = replace(group, topics=tuple(sorted(found.topic_ids)))
        seen.append(group)
    return seen


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
    client: ClusterClient, metadata: ClusterMetadata, topics: Collection[str]
) -> tuple[list[tuple[str, ProducerState]], dict[int, str], list[str]]:
    """Producers by topic, transactional IDs by producer ID, and what was not answered."""
    by_leader: dict[int, dict[str, list[int]]] = {}
    missing = []
    for name in sorted(topics):
        for number, partition in metadata.topics[name].partitions.items():
            if partition.leader in client.brokers:
                by_leader.setdefault(partition.leader, {}).setdefault(name, []).append(number)
            else:
                missing.append(f"producers of {name}-{number}: it has no leader that answers")
    states: list[tuple[str, ProducerState]] = []
    ids: dict[int, str] = {}
    for node in sorted(client.brokers):
        connection = await client.connection(node, "control")
        ids |= await requests.transactional_ids(connection)
        if node in by_leader:
            for led, known in (await requests.describe_producers(connection, by_leader[node])).items():
                states += [(led.topic, state) for state in known]
    own = {number for number, name in ids.items() if name.startswith(_OURS)}
    return [(topic, state) for topic, state in states if state.producer_id not in own], ids, missing
