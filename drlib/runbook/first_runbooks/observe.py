"""Ask the clusters of the enabled flows who their applications are: groups, members, topics, producers, authorizers. Read-only.

Rules: all clusters are asked at the same time, and together they have `ALL_S` seconds; a question that is open then has no
answer, with the reason, and does not hide the answers to the others. A cluster that refuses to list its ACLs has an authorizer.
DescribeProducers knows idempotent and transactional producers of the last day (`producer.id.expiration.ms`), and no others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from functools import partial
from typing import Final

from drlib.config.settings import MirrorSettings
from drlib.drill.inventory.rules import GROUPS_OF_DRLIB
from drlib.drill.readiness.checks.observations import Unanswered
from drlib.drill.readiness.observe import clusters
from drlib.drill.readiness.observe.applications.applications import written_by_applications
from drlib.drill.readiness.observe.ask import ask
from drlib.errors import DrlibError, Unreachable
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import blocking
from drlib.kafka.admin.descriptions import GroupDescription
from drlib.kafka.admin.topic_acls import NoAuthorizer, topic_rules
from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient, ClusterMetadata
from drlib.kafka.protocol.error_codes import CLUSTER_AUTHORIZATION_FAILED, BrokerError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import TopicPartition
from drlib.runbook.first_runbooks.observation import SeenCluster, SeenGroup

ALL_S: Final = 10.0
ANSWER_S: Final = 4.0  # for a sign of life
_LEAST_S: Final = 1.0
_HIDDEN: Final = "this user may lack Describe on the cluster, without which groups and topics are hidden from it"


def observe(settings: MirrorSettings, seconds: float = ALL_S) -> dict[str, SeenCluster]:
    """Each cluster of an enabled flow, by alias, within about `seconds`. Raises nothing that a cluster can cause."""

    async def all_of_them() -> list[SeenCluster]:
        aliases = sorted({a for each in settings.enabled_flows for a in (each.flow.source, each.flow.target)})
        end = time.monotonic() + seconds
        return await asyncio.gather(*(_observe(settings, settings.clusters[alias], end) for alias in aliases))

    return {seen.alias: seen for seen in blocking(all_of_them())}


async def _observe(settings: MirrorSettings, cluster: ClusterSettings, end: float) -> SeenCluster:
    plain = partial(SeenCluster, cluster.alias, cluster.bootstrap_servers)
    asked = await ask(clusters.connect(cluster, answer_s=ANSWER_S), _left_s(end))
    if isinstance(asked, Unanswered):
        return plain(silence=asked.why)
    try:
        if asked.metadata is None or asked.client is None:
            return plain(silence=asked.answer().error or asked.unanswered.why)
        metadata = asked.metadata
        outgoing = [each for each in settings.enabled_flows if each.flow.source == cluster.alias]
        topics = frozenset(n for n, topic in metadata.topics.items() if topic.error_code == 0 and topic.partitions)
        mirrored = written_by_applications(topics, outgoing)
        listed, producers, authorizer = await asyncio.gather(
            asked.ask_blocking(partial(_groups, cluster, _left_s(end)), _left_s(end)),
            asked.ask(_producers(asked.client, metadata, mirrored), _left_s(end)),
            asked.ask_blocking(partial(_has_authorizer, cluster), _left_s(end)),
        )
        groups, every = (listed, True) if isinstance(listed, Unanswered) else listed
        if not every:  # an empty list is then no answer
            groups = groups or Unanswered(_HIDDEN)
            producers = producers if mirrored else Unanswered(_HIDDEN)
        answers = {"consumer groups": groups, "producers": producers, "authorizer": authorizer}
        unknown = [f"{what}: {each.why}" for what, each in answers.items() if isinstance(each, Unanswered)]
        if not every and not isinstance(groups, Unanswered):
            unknown.append(f"consumer groups: {_HIDDEN}")
        return plain(
            cluster_id=metadata.cluster_id or "",
            brokers=len(metadata.brokers),
            in_part=_in_part(asked),
            topics=topics,
            groups=None if isinstance(groups, Unanswered) else groups,
            producers=None if isinstance(producers, Unanswered) else producers,
            authorizer=None if isinstance(authorizer, Unanswered) else authorizer,
            unknown=tuple(unknown),
        )
    finally:
        if asked.client is not None:
            await asked.client.close()


def _left_s(end: float) -> float:
    return max(_LEAST_S, end - time.monotonic())


def _in_part(asked: clusters.AskedCluster) -> str:
    """How many brokers answer, where not all do."""
    if asked.whole or asked.service is None or asked.metadata is None:
        return ""
    return f"{asked.service.answering} of {len(asked.metadata.brokers)} brokers answer"


def _groups(settings: ClusterSettings, timeout_s: float) -> tuple[tuple[SeenGroup, ...], bool]:
    """Every consumer group that is not drlib's own, and whether this user surely gets all of them listed.

    Blocks; raises `Unreachable` and `ClusterRefused`.
    """
    with Cluster(settings, timeout_s=timeout_s) as cluster:
        names = [each.group for each in cluster.groups() if not each.group.startswith(GROUPS_OF_DRLIB)]
        described, committed = cluster.group_descriptions(names), cluster.committed(names)
        every = cluster.lists_every_group() is True
    return tuple(_group(name, described[name], committed[name]) for name in names), every


def _group(
    name: str, described: GroupDescription | DrlibError, committed: Collection[TopicPartition] | DrlibError
) -> SeenGroup:
    why = "; ".join(error.why for error in (described, committed) if isinstance(error, DrlibError))
    members = described.members if isinstance(described, GroupDescription) else ()
    topics = {partition.topic for member in members for partition in member.assignment}
    if not isinstance(committed, DrlibError):
        topics |= {partition.topic for partition in committed}
    clients = tuple(sorted({member.client_id for member in members if member.client_id}))
    known = isinstance(described, GroupDescription)
    return SeenGroup(name, len(members) if known else None, clients, tuple(sorted(topics)), why)


async def _producers(client: ClusterClient, metadata: ClusterMetadata, names: Collection[str]) -> Mapping[str, bool]:
    """By topic with a producer: does one of them write in transactions? Raises what a broker refuses."""
    by_leader: dict[int, dict[str, list[int]]] = {}
    for name in names:
        for number, partition in metadata.topics[name].partitions.items():
            if partition.leader in client.brokers:
                by_leader.setdefault(partition.leader, {}).setdefault(name, []).append(number)
            else:
                raise Unreachable(
                    f"the producers of {name} are not known",
                    f"{name}-{number} has no leader that answers",
                    "Start the brokers that do not answer.",
                )

    async def of_leader(node: int) -> dict[str, bool]:
        connection = await client.connection(node, "control")
        found: dict[str, bool] = {}
        for partition, states in (await requests.describe_producers(connection, by_leader[node])).items():
            if states:
                found[partition.topic] = found.get(partition.topic, False) or any(s.transactional for s in states)
        return found

    together: dict[str, bool] = {}
    for answer in await asyncio.gather(*map(of_leader, by_leader)):
        for name, transactional in answer.items():
            together[name] = together.get(name, False) or transactional
    return together


def _has_authorizer(cluster: ClusterSettings) -> bool:
    """Blocks; raises `Unreachable` and `BrokerError`."""
    try:
        topic_rules(cluster)
    except NoAuthorizer:
        return False
    except BrokerError as error:
        if error.code != CLUSTER_AUTHORIZATION_FAILED:  # which only an authorizer answers
            raise
    return True
