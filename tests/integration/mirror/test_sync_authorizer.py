"""ACL rules between clusters with and without an authorizer, and groups that may not be read."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from fix_authorizer import AUTHORIZER, acl, add_acls
from fix_engine import Engine, create_topic, produce, wait_for
from testbed_sync import alter, events, move, position, wait_event

from drlib.config.settings import load_mirror_settings
from drlib.drill.readiness.checks.observations import Unanswered
from drlib.drill.readiness.doctor import observed
from drlib.drill.readiness.score import Severity
from drlib.kafka.net import acl_requests as acls
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol.acls import Operation, PatternType, Permission, TopicAcl
from drlib.lab.lab import Lab
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions, newest_positions
from drlib.model import Flow

PREFIXED = ResourcePatternType.PREFIXED
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY


@pytest.fixture(scope="module")
def authorizer_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("authorizer"), extra=AUTHORIZER) as lab:
        yield lab


@pytest.fixture
def locked(authorizer_lab: Lab, fresh_topic: Callable[..., str], tmp_path: Path) -> Iterator[Engine]:
    tag = uuid.uuid4().hex[:6]
    left, right = authorizer_lab.clusters["LEFT"].bootstrap, authorizer_lab.clusters["RIGHT"].bootstrap
    found = Engine(tmp_path, left, right, f"SRC{tag}", f"DST{tag}", fresh_topic())
    yield found
    found.close()


def remove(bootstrap: str, *rules: AclBinding) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    filters = [
        AclBindingFilter(
            r.restype, r.name, r.resource_pattern_type, r.principal, r.host, r.operation, r.permission_type
        )
        for r in rules
    ]
    for future in admin.delete_acls(filters).values():
        future.result(10)


async def topic_acls(bootstrap: str, topic: str) -> set[TopicAcl]:
    client = ClusterClient([bootstrap])
    try:
        metadata = await client.connect()
        found = await acls.topic_acls(await client.connection(min(metadata.brokers)))
    finally:
        await client.close()
    return {acl for acl in found if acl.topic == topic}


def test_acl_sync_copies_acls_of_mirrored_topics(locked: Engine) -> None:
    import asyncio

    topic, mirror = locked.topics, f"{locked.source}.{locked.topics}"
    locked.extra = {"sync.topic.acls.enabled": "true", "sync.topic.acls.interval.seconds": "1"}
    add_acls(locked.left, acl(ResourceType.TOPIC, "*", AclOperation.ALL, ALLOW))
    add_acls(locked.right, acl(ResourceType.TOPIC, locked.source, AclOperation.ALL, ALLOW, pattern=PREFIXED))
    create_topic(locked.left, topic, 1)
    produce(locked.left, topic, 50, partitions=1)
    add_acls(
        locked.left,
        acl(ResourceType.TOPIC, topic, AclOperation.ALL, ALLOW, "User:bob"),
        acl(ResourceType.TOPIC, topic, AclOperation.WRITE, ALLOW, "User:producer"),
        acl(ResourceType.TOPIC, topic, AclOperation.WRITE, DENY, "User:mallory"),
        acl(ResourceType.TOPIC, "*", AclOperation.DESCRIBE, ALLOW, "User:auditor"),
    )
    expected = {
        TopicAcl(mirror, "User:bob", "*", Operation.READ, Permission.ALLOW),
        TopicAcl(mirror, "User:mallory", "*", Operation.WRITE, Permission.DENY),
    }
    worker = locked.start()
    wait_for("the rules are copied", lambda: asyncio.run(topic_acls(locked.right, mirror)) == expected, 30)
    assert asyncio.run(topic_acls(locked.right, "*")) == set()
    locked.wait_caught_up(topic, 1)  # the mirror itself still may write
    own = TopicAcl(mirror, "User:local", "*", Operation.READ, Permission.ALLOW)
    add_acls(locked.right, acl(ResourceType.TOPIC, mirror, AclOperation.READ, ALLOW, "User:local"))
    add_acls(locked.left, acl(ResourceType.TOPIC, topic, AclOperation.READ, ALLOW, "User:late"))
    late = TopicAcl(mirror, "User:late", "*", Operation.READ, Permission.ALLOW)
    wait_for(
        "a later rule follows, and what the target has of its own stays",
        lambda: asyncio.run(topic_acls(locked.right, mirror)) == {*expected, own, late},
        20,
    )
    assert locked.stop(worker) == 0, locked.log()
    assert all(acl.pattern is PatternType.LITERAL for acl in expected)


def test_acl_sync_cluster_without_authorizer_is_one_event(engine: Engine) -> None:
    engine.extra = {"sync.topic.acls.enabled": "true", "sync.topic.acls.interval.seconds": "1"}
    create_topic(engine.left, engine.topics, 1)
    produce(engine.left, engine.topics, 50, partitions=1)
    worker = engine.start()
    detail = wait_event(engine, "AclSyncOff", f"{engine.source}->{engine.target}")
    assert "SECURITY_DISABLED" in detail
    assert "sync.topic.acls.enabled = false" in detail
    engine.wait_caught_up(engine.topics, 1)
    assert engine.stop(worker) == 0, engine.log()
    assert [name for name, _ in events(engine) if name.startswith("Acl")] == ["AclSyncOff"]


def test_acl_sync_disabled_copies_nothing(locked: Engine) -> None:
    import asyncio

    topic = locked.topics
    create_topic(locked.left, topic, 1)
    add_acls(locked.left, acl(ResourceType.TOPIC, topic, AclOperation.ALL, ALLOW))
    add_acls(locked.left, acl(ResourceType.TOPIC, topic, AclOperation.READ, DENY, "User:mallory"))
    produce(locked.left, topic, 50, partitions=1)
    locked.start()
    locked.wait_caught_up(topic, 1)
    assert asyncio.run(topic_acls(locked.right, f"{locked.source}.{topic}")) == set()


@pytest.mark.long
def test_worker_whose_every_mirror_topic_is_refused_at_start_stays_up_names_each_and_tries_again(
    locked: Engine, fresh_topic: Callable[..., str]
) -> None:
    """It ended with exit code 1 and the reason of one of them."""
    names = sorted((locked.topics, fresh_topic("other")))
    locked.topics = ", ".join(names)
    mirrors = [f"{locked.source}.{name}" for name in names]
    for name in names:
        create_topic(locked.left, name, 1)
        produce(locked.left, name, 50, partitions=1)
    rules = (
        acl(ResourceType.BROKER, "kafka-cluster", AclOperation.ALL, ALLOW),
        acl(ResourceType.BROKER, "kafka-cluster", AclOperation.CREATE, DENY),  # each topic has its own right
        *(acl(ResourceType.TOPIC, mirror, AclOperation.DESCRIBE, ALLOW) for mirror in mirrors),  # and nothing else
    )
    add_acls(locked.right, *rules)
    worker = locked.start()
    for mirror in mirrors:
        assert "may not CREATE" in wait_event(locked, "MirrorTopicRefused", mirror)
    assert worker.poll() is None
    remove(locked.right, *rules)
    for name, mirror in zip(names, mirrors, strict=True):
        wait_event(locked, "MirrorTopicRefused", mirror, resolved=True)
        locked.wait_caught_up(name, 1)


def test_refused_heartbeats_of_another_cluster_close_no_gate_and_refused_topics_do(locked: Engine) -> None:
    """As in a chain, or where a cluster got a new name: `upstream.heartbeats` lies beside the topics that the file names."""
    beats, topic = f"up{uuid.uuid4().hex[:6]}.heartbeats", locked.topics
    mirror, copied = f"{locked.source}.{beats}", f"{locked.source}.{topic}"
    locked.extra = {"heartbeats.replication.enabled": "true", "topics": f"{topic}, {topic}.free"}
    no_create = acl(ResourceType.TOPIC, mirror, AclOperation.DESCRIBE, ALLOW)  # and nothing else
    no_topic = acl(ResourceType.TOPIC, copied, AclOperation.DESCRIBE, ALLOW)
    for name in (beats, topic, f"{topic}.free"):
        create_topic(locked.left, name, 1)
        produce(locked.left, name, 50, partitions=1)
    may = acl(ResourceType.BROKER, "kafka-cluster", AclOperation.ALL, ALLOW)
    by_topic = acl(ResourceType.BROKER, "kafka-cluster", AclOperation.CREATE, DENY)  # each topic has its own right
    rules = (may, by_topic, no_create, no_topic)
    add_acls(locked.right, *rules)
    settings = load_mirror_settings(locked.properties)
    flow = Flow(locked.source, locked.target)

    def judged() -> dict[str, set[str]]:
        """Topics with a finding of the checks that a topic which does not cross fails, by check."""
        view, readiness = observed(settings, flow, runs=locked.root, silent={})
        assert not isinstance(view.mirror, Unanswered)
        return {
            "counted": {partition.topic for partition in view.mirror.view.partitions},
            "blocking": {row.entity for row in readiness.findings if row.severity is Severity.CRITICAL},
        }

    locked.start()
    assert f"--operation Create --operation Write --operation Read --topic {mirror}" in wait_event(
        locked, "HeartbeatsRefused", mirror
    )
    assert f"--topic {copied}" in wait_event(locked, "MirrorTopicRefused", copied)
    found = judged()
    assert beats not in found["counted"] | found["blocking"]
    assert mirror not in found["blocking"]
    assert topic in found["counted"] & found["blocking"]
    remove(locked.right, *rules)
    wait_event(locked, "HeartbeatsRefused", mirror, resolved=True)
    wait_for("they are counted as any other", lambda: beats in judged()["counted"])


@pytest.mark.long
def test_source_groups_unreadable_group_is_an_event_with_the_missing_right(locked: Engine) -> None:
    topic, mirror = locked.topics, f"{locked.source}.{locked.topics}"
    free, hidden, barred = (f"{kind}-{uuid.uuid4().hex[:6]}" for kind in ("free", "hidden", "barred"))
    locked.extra = {
        "groups": f"{free}, {hidden}, {barred}",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "sync.topic.configs.interval.seconds": "1",
    }
    create_topic(locked.left, topic, 1)
    produce(locked.left, topic, 50, partitions=1)
    for group in (free, hidden, barred):
        move(locked.left, group, topic, 20)
    no_describe = acl(ResourceType.GROUP, hidden, AclOperation.DESCRIBE, DENY)
    no_read = acl(ResourceType.GROUP, barred, AclOperation.READ, DENY)
    add_acls(locked.left, no_describe)
    add_acls(locked.right, no_read)
    worker = locked.start()
    wait_for("a group that may be read crosses", lambda: position(locked.right, free, mirror) is not None, 30)
    detail = wait_event(locked, "GroupUnreadable", hidden)
    assert "GROUP_AUTHORIZATION_FAILED" in detail
    assert f"--operation Describe --group {hidden}" in detail
    assert f"--operation Read --group {barred}" in wait_event(locked, "GroupSyncRefused", barred)

    no_alter = acl(ResourceType.TOPIC, mirror, AclOperation.ALTER_CONFIGS, DENY)
    may_write = acl(ResourceType.TOPIC, mirror, AclOperation.ALL, ALLOW)
    add_acls(locked.right, may_write, no_alter)
    alter(locked.left, topic, retention_ms="90000")
    assert f"--operation AlterConfigs --topic {mirror}" in wait_event(locked, "TopicConfigRefused", mirror)
    remove(locked.left, no_describe)
    remove(locked.right, no_read, no_alter, may_write)
    wait_event(locked, "TopicConfigRefused", mirror, resolved=True)
    wait_event(locked, "GroupUnreadable", hidden, resolved=True)
    wait_for("all cross", lambda: all(position(locked.right, g, mirror) is not None for g in (hidden, barred)), 20)
    wait_event(locked, "GroupSyncRefused", barred, resolved=True)
    assert locked.stop(worker) == 0, locked.log()


def test_newest_positions_group_that_the_source_refuses_has_its_checkpoint_and_the_others_are_current(
    locked: Engine,
) -> None:
    """One group without the right to be described ended every rehearsal."""
    topic = locked.topics
    free, hidden, unseen = (f"{kind}-{uuid.uuid4().hex[:6]}" for kind in ("free", "hidden", "unseen"))
    locked.extra = {
        "groups": f"{free}, {hidden}, {unseen}",
        "emit.checkpoints.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
    }
    create_topic(locked.left, topic, 1)
    produce(locked.left, topic, 50, partitions=1)
    for group in (free, hidden):
        move(locked.left, group, topic, 20)
    worker = locked.start()
    settings = load_mirror_settings(locked.properties)
    flow = Flow(locked.source, locked.target)

    def checkpointed() -> set[str]:
        return {group for group, _ in checkpointed_positions(settings, flow)}

    wait_for("both have a checkpoint", lambda: checkpointed() == {free, hidden}, 30)
    assert locked.stop(worker) == 0, locked.log()
    refused = tuple(acl(ResourceType.GROUP, group, AclOperation.DESCRIBE, DENY) for group in (hidden, unseen))
    move(locked.left, free, topic, 30)
    move(locked.left, hidden, topic, 40)
    move(locked.left, unseen, topic, 40)
    add_acls(locked.left, *refused)
    try:
        found = newest_positions(settings, flow)
    finally:
        remove(locked.left, *refused)
    assert {group: known.offset for (group, _), known in found.positions.items()} == {free: 30, hidden: 20}
    assert list(found.unknown) == [unseen]
    assert "GROUP_AUTHORIZATION_FAILED" in found.unknown[unseen]


def test_source_groups_empty_list_without_describe_right_is_an_event(locked: Engine) -> None:
    create_topic(locked.left, locked.topics, 1)
    locked.extra = {"groups": "hidden-from-us.*"}
    may = (
        acl(ResourceType.CLUSTER, "kafka-cluster", AclOperation.ALL, ALLOW)
        if hasattr(ResourceType, "CLUSTER")
        else (acl(ResourceType.BROKER, "kafka-cluster", AclOperation.ALL, ALLOW))
    )
    may_not = replace_operation(may)
    flow = f"{locked.source}->{locked.target}"
    add_acls(locked.left, may)
    locked.start()
    locked.wait_caught_up(locked.topics, 1)
    assert ("GroupsUnlisted", flow) not in events(locked)
    add_acls(locked.left, may_not)
    try:
        assert "--operation Describe --cluster" in wait_event(locked, "GroupsUnlisted", flow)
    finally:
        remove(locked.left, may_not)
    wait_event(locked, "GroupsUnlisted", flow, resolved=True)


def replace_operation(binding: AclBinding) -> AclBinding:
    return acl(binding.restype, binding.name, AclOperation.DESCRIBE, DENY)
