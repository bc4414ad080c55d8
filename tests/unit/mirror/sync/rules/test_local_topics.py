"""Which local topics a target needs, what a new one is like, and who is locked out of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sample_observation import topic

from drlib.config.flow_settings import FlowSettings
from drlib.config.replication_policy import DefaultReplicationPolicy, IdentityReplicationPolicy
from drlib.kafka.admin.descriptions import ConfigSource, ConfigValue
from drlib.kafka.admin.errors import ClusterRefused
from drlib.kafka.net.cluster_client import ClusterMetadata, TopicMetadata
from drlib.kafka.protocol.acls import Operation, PatternType, Permission, TopicAcl
from drlib.mirror.sync.rules import local_topics
from drlib.model import Flow

FLOW = FlowSettings(flow=Flow("A", "B"), policy=DefaultReplicationPolicy())
ALIASES = ("A", "B", "C")


def cluster(*topics: TopicMetadata) -> ClusterMetadata:
    return ClusterMetadata("id", 0, {}, {each.name: each for each in topics})


def acl(name: str, principal: str = "User:shop", operation: Operation = Operation.WRITE, **more: object) -> TopicAcl:
    plain = TopicAcl(name, principal, "*", operation, Permission.ALLOW)
    return replace(plain, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("orders", True),
        ("orders.v1", True),  # `orders` is no cluster
        ("C.orders", False),  # a mirror on A
        ("B.orders", False),  # what the flow back made
        ("heartbeats", False),
        ("__consumer_offsets", False),
        ("mm2-offset-syncs.B.internal", False),
        ("C.checkpoints.internal", False),
        ("drlib.active.internal", False),
    ],
)
def test_local_topic_is_wanted_for_what_applications_write_to_only(name: str, wanted: bool) -> None:
    assert local_topics.is_wanted(FLOW, name, ALIASES) is wanted


def test_local_topics_with_identity_names_are_none() -> None:
    identity = replace(FLOW, policy=IdentityReplicationPolicy(source_alias="A"))
    assert local_topics.wanted(identity, ALIASES, cluster(topic("orders", 1)), cluster()) == {}


def test_local_topics_are_those_of_the_source_that_answers_for_them() -> None:
    refused, empty = replace(topic("bills", 1), error_code=29), topic("seats", 0)
    after = local_topics.wanted(FLOW, ALIASES, cluster(topic("orders", 2), refused, empty), cluster())
    assert list(after) == ["orders"]
    mirrors = cluster(*(replace(each, name=f"A.{each.name}") for each in (topic("orders", 2), refused, empty)))
    assert list(local_topics.wanted(FLOW, ALIASES, None, mirrors)) == ["orders"]


def test_local_topics_without_the_source_are_those_of_its_mirrors() -> None:
    there = cluster(
        topic("A.orders", 3),
        topic("A.C.bills", 1),
        topic("C.bills", 1),
        topic("own", 1),
        topic("heartbeats", 1),
        topic("A.checkpoints.internal", 1),
        topic("A.heartbeats", 1),
    )
    after = local_topics.wanted(FLOW, ALIASES, None, there)
    assert {name: each.name for name, each in after.items()} == {"orders": "A.orders"}
    assert local_topics.missing(after, there) == ["orders"]
    assert local_topics.missing(after, cluster(topic("orders", 1))) == []


def test_new_topic_has_the_settings_of_the_source_within_what_the_target_can_hold() -> None:
    settings = [
        ConfigValue("retention.ms", "5", ConfigSource.TOPIC),
        ConfigValue("min.insync.replicas", "3", ConfigSource.TOPIC),
        ConfigValue("cleanup.policy", "compact", ConfigSource.TOPIC),
        ConfigValue("segment.bytes", "9", ConfigSource.DEFAULT),
        ConfigValue("leader.replication.throttled.replicas", "*", ConfigSource.TOPIC),
    ]
    spec = local_topics.new_topic(FLOW, "orders", topic("orders", 4, replicas=3), settings, 2)
    assert (spec.name, spec.partitions, spec.replication_factor) == ("orders", 4, 2)
    assert spec.config == {"retention.ms": "5", "min.insync.replicas": "2", "cleanup.policy": "compact"}
    alone = local_topics.new_topic(FLOW, "orders", topic("orders", 4, replicas=3), settings, 1)
    assert (alone.replication_factor, alone.config["min.insync.replicas"]) == (1, "1")


def test_new_topics_whose_settings_are_refused_say_so() -> None:
    refused = ClusterRefused("describing", "not authorized", "Grant it.", code="TOPIC_AUTHORIZATION_FAILED")
    answers = local_topics.new_topics(FLOW, {"orders": topic("A.orders", 1)}, ["orders"], {"A.orders": refused}, 1)
    assert answers == {"orders": refused}


def test_acls_of_new_topics_leave_out_the_fence_of_the_source() -> None:
    fence = TopicAcl("orders", "User:*", "*", Operation.WRITE, Permission.DENY)
    mine, prefix, other = acl("orders"), acl("or", pattern=PatternType.PREFIXED), acl("bills")
    assert local_topics.acls([fence, mine, prefix, other], {"orders"}) == (mine,)


@pytest.mark.parametrize(
    ("target", "locked_out"),
    [
        ([], ["User:shop"]),
        ([acl("orders")], []),
        ([acl("orders", operation=Operation.READ)], ["User:shop"]),
        ([acl("ord", operation=Operation.ALL, pattern=PatternType.PREFIXED)], []),
        ([acl("*", "User:*")], []),
        ([acl("orders"), acl("*", "User:*", permission=Permission.DENY)], ["User:shop"]),
    ],
)
def test_locked_out_are_writers_of_the_source_without_a_rule_on_the_target(
    target: list[TopicAcl], locked_out: list[str]
) -> None:
    source = [acl("orders"), acl("orders", "User:reader", Operation.READ)]
    assert local_topics.locked_out(source, target, "orders") == locked_out
