"""Decide which local topics a flow's target needs, so that producers can write there after a failover, and their settings.

Rules: producers write to `orders` on both clusters, and under prefixed names the mirror creates only `A.orders` on the target.
A *local topic* is wanted for each mirrored topic that applications write to: not where mirrors keep their names, and not for
heartbeats, internal topics and topics that are mirrors themselves (their name begins with the alias of a cluster of the file).
A new one has the partitions and settings of the source's topic, or of its mirror where the source does not answer; unlike a
mirror topic also those that decide whether and how producers' records are kept (`PRODUCERS`). It has as many replicas, or as
many as the target has brokers, and never a `min.insync.replicas` above that. An existing topic is left as it is.
ACLs are the literal ones of the source's topic, without the DENY of WRITE by which a failover fences the source.
Not for: asking clusters (`drlib.mirror.sync.local_topics`), the names of mirrors (`drlib.config.replication_policy`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from drlib.config.flow_settings import FlowSettings
from drlib.errors import DrlibError
from drlib.kafka.admin.descriptions import ConfigValue, NewTopicSpec
from drlib.kafka.net.cluster_client import ClusterMetadata, TopicMetadata
from drlib.kafka.protocol.acls import Operation, PatternType, Permission, TopicAcl
from drlib.mirror.sync.rules.acls import FENCE
from drlib.mirror.sync.rules.configs import desired

MIN_ISR: Final = "min.insync.replicas"
PRODUCERS: Final = frozenset({MIN_ISR, "message.timestamp.type", "unclean.leader.election.enable"})


def keeps_names(flow: FlowSettings) -> bool:
    """Do mirrors have the names of their sources, so that there are no local topics of those names?"""
    return flow.policy.remote_topic(flow.flow.source, "x") == "x"


def is_wanted(flow: FlowSettings, topic: str, aliases: Collection[str]) -> bool:
    """Does this topic of the source have to exist on the target too? `aliases`: of all clusters of the file."""
    policy = flow.policy
    return (
        not keeps_names(flow)
        and flow.mirrors_topic(topic)
        and not policy.is_heartbeats(topic)
        and policy.source_of(topic) not in aliases
    )


def wanted(
    flow: FlowSettings, aliases: Collection[str], source: ClusterMetadata | None, target: ClusterMetadata
) -> dict[str, TopicMetadata]:
    """By name of a local topic, the topic that it is created after: the source's, or its mirror without the source."""
    if source is not None:
        return {
            name: topic
            for name, topic in sorted(source.topics.items())
            if topic.error_code == 0 and topic.partitions and is_wanted(flow, name, aliases)
        }
    upstream = {
        flow.policy.upstream_topic(name): topic
        for name, topic in sorted(target.topics.items())
        if topic.error_code == 0 and topic.partitions and flow.is_mirror(name)
    }
    return {name: topic for name, topic in upstream.items() if name is not None and is_wanted(flow, name, aliases)}


def missing(after: Mapping[str, TopicMetadata], target: ClusterMetadata) -> list[str]:
    """The names of `after` that the target does not list with partitions."""
    return [name for name in after if not ((topic := target.topics.get(name)) and topic.partitions)]


def new_topic(
    flow: FlowSettings, name: str, after: TopicMetadata, settings: Sequence[ConfigValue], brokers: int
) -> NewTopicSpec:
    """How to create it. `settings` are those of `after`; `brokers` is the number of the target's."""
    replicas = max(1, min(brokers, *(len(partition.replicas) for partition in after.partitions.values())))
    own = dict(
        desired(
            settings,
            lambda key: key in PRODUCERS or flow.mirrors_config(key),
            defaults_from_source=flow.use_defaults_from == "source",
        ).own
    )
    if MIN_ISR in own:
        own[MIN_ISR] = str(min(int(own[MIN_ISR]), replicas))
    return NewTopicSpec(name, len(after.partitions), replicas, own)


def new_topics(
    flow: FlowSettings,
    after: Mapping[str, TopicMetadata],
    names: Iterable[str],
    settings: Mapping[str, tuple[ConfigValue, ...] | DrlibError],
    brokers: int,
) -> dict[str, NewTopicSpec | DrlibError]:
    """How to create each of `names`, or why its settings cannot be read; `settings` by name of what it is created after."""
    answers: dict[str, NewTopicSpec | DrlibError] = {}
    for name in names:
        values = settings[after[name].name]
        answers[name] = (
            values if isinstance(values, DrlibError) else new_topic(flow, name, after[name], values, brokers)
        )
    return answers


def acls(source: Iterable[TopicAcl], names: Collection[str]) -> tuple[TopicAcl, ...]:
    """The ACLs that new topics `names` get: the source's literal ones of the same names."""
    return tuple(
        acl
        for acl in source
        if acl.topic in names
        and acl.pattern is PatternType.LITERAL
        and (acl.principal, acl.host, acl.operation, acl.permission) != FENCE
    )


def writers(source: Iterable[TopicAcl], topic: str) -> frozenset[str]:
    """The principals that an ACL of the source allows to write to `topic`."""
    return frozenset(
        acl.principal
        for acl in source
        if acl.permission is Permission.ALLOW and acl.operation in (Operation.ALL, Operation.WRITE) and _on(acl, topic)
    )


def locked_out(source: Iterable[TopicAcl], target: Sequence[TopicAcl], topic: str) -> list[str]:
    """The principals that may write to `topic` on the source and, by the ACLs of the target, not there.

    Hosts are not compared. With `allow.everyone.if.no.acl.found` a topic without ACLs is open as well, which ACLs do not say.
    """
    allowed = writers(target, topic)
    denied = {
        acl.principal
        for acl in target
        if acl.permission is Permission.DENY and acl.operation in (Operation.ALL, Operation.WRITE) and _on(acl, topic)
    }
    open_to_all = "User:*" in allowed
    return sorted(
        principal
        for principal in writers(source, topic)
        if not (open_to_all or principal in allowed) or denied & {principal, "User:*"}
    )


def _on(acl: TopicAcl, topic: str) -> bool:
    if acl.pattern is PatternType.PREFIXED:
        return topic.startswith(acl.topic)
    return acl.topic in (topic, "*")
