"""MirrorMaker 2's own Java classes judge our records, names, patterns, keys and defaults."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Producer
from testbed_mm2 import SOURCES, java

from drlib.config.explain import explain
from drlib.config.flow_settings import (
    CONFIG_PROPERTIES_EXCLUDE_DEFAULT,
    GROUPS_EXCLUDE_DEFAULT,
    TOPICS_EXCLUDE_DEFAULT,
    FlowSettings,
)
from drlib.config.keys import is_known
from drlib.config.patterns import selection
from drlib.config.replication_policy import DefaultReplicationPolicy, IdentityReplicationPolicy
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.lab import Lab
from drlib.mirror.mm2.records import Checkpoint, Heartbeat
from drlib.model import Flow, TopicPartition

MIRROR = "org.apache.kafka.connect.mirror"
FLOW = FlowSettings(flow=Flow("A", "B"))

# comma list, name, java.util.regex's answer; the unit tests hold our translation to the same table.
PATTERNS = [line.split("\t") for line in (SOURCES / "patterns.tsv").read_text().splitlines()]
TOPICS = [
    *("orders", "A.orders", "B.A.orders", "orders.v1", "A.", "A..", "A..x", ".x", "..x", "A__x", "A___x", "__A__x"),
    *("heartbeats", "A.heartbeats", "B.A.heartbeats", "my-heartbeats", "A_heartbeats", "A__heartbeats"),
    *("__consumer_offsets", "mm2-configs.A.internal", "mm2-configs_A_internal", "mm2-configs__A__internal"),
    *(
        "A.checkpoints.internal",
        "A_checkpoints_internal",
        "audit.internal",
        "audit-internal",
        "internal",
        "mm2.internal",
    ),
]
POLICIES = [
    (kind, separator, internal)
    for kind in ("default", "identity")
    for separator in ("._", "_", "__", ".")
    for internal in ("true", "false")
]


@pytest.fixture(scope="module")
def answers() -> dict[tuple[str, ...], str]:
    """Every question of this module, answered by one JVM."""
    questions = [
        *(("regex", patterns, name) for patterns, name, _ in PATTERNS),
        *(("policy", *policy, topic) for policy in POLICIES for topic in TOPICS),
        *(("keys", name) for name in KEY_OWNERS),
        *(("default", owner, key) for owner, key, _ in DEFAULTS),
        *(effective_question(*case) for case in EFFECTIVE),
    ]
    lines = java("Mm2Rules.java", questions=questions).splitlines()
    assert len(lines) == len(questions)
    return dict(zip(questions, lines, strict=True))


def test_pattern_table_matches_java(answers: dict[tuple[str, ...], str]) -> None:
    assert [answers["regex", patterns, name] for patterns, name, _ in PATTERNS] == [said for _, _, said in PATTERNS]


def test_replication_policies_match_java(answers: dict[tuple[str, ...], str]) -> None:
    for kind, separator, internal in POLICIES:
        dotted = internal == "true"
        policy = (
            IdentityReplicationPolicy(separator=separator, internal_separator_enabled=dotted, source_alias="A")
            if kind == "identity"
            else DefaultReplicationPolicy(separator=separator, internal_separator_enabled=dotted)
        )
        for topic in TOPICS:
            ours = (
                policy.remote_topic("A", topic),
                "null" if (source := policy.source_of(topic)) is None else source,
                policy.upstream_topic(topic) or "null",
                policy.original_topic(topic),
                str(policy.is_internal(topic)).lower(),
                str(policy.is_heartbeats(topic)).lower(),
                policy.checkpoints_topic("A"),
                policy.offset_syncs_topic("B"),
            )
            assert "\t".join(ours) == answers["policy", kind, separator, internal, topic], (kind, separator, topic)


def test_journal_topic_is_internal_to_mirror_maker(answers: dict[tuple[str, ...], str]) -> None:
    journal = DefaultReplicationPolicy().journal_topic("LEFT")
    questions: list[tuple[str, ...]] = [
        ("policy", "default", separator, "true", journal) for separator in (".", "_", "__")
    ]
    assert [line.split("\t")[4] for line in java("Mm2Rules.java", questions=questions).splitlines()] == ["true"] * 3


KEY_OWNERS = (
    *(f"{MIRROR}.Mirror{part}Config" for part in ("Source", "Checkpoint", "Heartbeat", "Maker")),
    "org.apache.kafka.connect.runtime.distributed.DistributedConfig",
    *("ProducerConfig", "ConsumerConfig", "AdminClientConfig"),
)


@pytest.mark.parametrize("owner", KEY_OWNERS)
def test_every_key_of_kafka_is_known(answers: dict[tuple[str, ...], str], owner: str) -> None:
    prefix = {"ProducerConfig": "producer.", "ConsumerConfig": "consumer.", "AdminClientConfig": "admin."}
    known = answers["keys", owner].split(" ")
    assert len(known) > 10
    assert [key for key in known if not is_known(prefix.get(owner, "") + key)] == []


def java_value(value: object) -> str:
    if isinstance(value, str):
        return f"[{', '.join(selection.split_list(value))}]" if "," in value or "*" in value else value
    return str(value).lower()


SOURCE, CHECKPOINT, HEARTBEAT = (f"{MIRROR}.Mirror{part}Config" for part in ("Source", "Checkpoint", "Heartbeat"))
DEFAULTS: list[tuple[str, str, object]] = [
    (SOURCE, "topics", ".*"),
    (SOURCE, "topics.exclude", TOPICS_EXCLUDE_DEFAULT),
    (SOURCE, "config.properties.exclude", CONFIG_PROPERTIES_EXCLUDE_DEFAULT),
    (SOURCE, "replication.factor", FLOW.replication_factor),
    (SOURCE, "refresh.topics.enabled", FLOW.refresh_topics),
    (SOURCE, "refresh.topics.interval.seconds", FLOW.refresh_topics_s),
    (SOURCE, "sync.topic.configs.enabled", FLOW.sync_topic_configs),
    (SOURCE, "sync.topic.configs.interval.seconds", FLOW.sync_topic_configs_s),
    (SOURCE, "offset.lag.max", FLOW.offset_lag_max),
    (SOURCE, "offset-syncs.topic.location", FLOW.offset_syncs_location),
    (SOURCE, "offset-syncs.topic.replication.factor", FLOW.offset_syncs_replication_factor),
    (SOURCE, "emit.offset-syncs.enabled", FLOW.emit_offset_syncs),
    (SOURCE, "heartbeats.replication.enabled", FLOW.heartbeats_replication),
    (SOURCE, "admin.timeout.ms", FLOW.admin_timeout_ms),
    (SOURCE, "replication.policy.separator", "."),
    (CHECKPOINT, "groups", ".*"),
    (CHECKPOINT, "groups.exclude", GROUPS_EXCLUDE_DEFAULT),
    (CHECKPOINT, "refresh.groups.enabled", FLOW.refresh_groups),
    (CHECKPOINT, "refresh.groups.interval.seconds", FLOW.refresh_groups_s),
    (CHECKPOINT, "emit.checkpoints.enabled", FLOW.emit_checkpoints),
    (CHECKPOINT, "emit.checkpoints.interval.seconds", FLOW.emit_checkpoints_s),
    (CHECKPOINT, "sync.group.offsets.enabled", FLOW.sync_group_offsets),
    (CHECKPOINT, "sync.group.offsets.interval.seconds", FLOW.sync_group_offsets_s),
    (CHECKPOINT, "checkpoints.topic.replication.factor", FLOW.checkpoints_replication_factor),
    (HEARTBEAT, "emit.heartbeats.enabled", FLOW.emit_heartbeats),
    (HEARTBEAT, "emit.heartbeats.interval.seconds", FLOW.emit_heartbeats_s),
    (HEARTBEAT, "heartbeats.topic.replication.factor", FLOW.heartbeats_replication_factor),
]


@pytest.mark.parametrize(("owner", "key", "ours"), DEFAULTS)
def test_key_defaults_match_kafka(answers: dict[tuple[str, ...], str], owner: str, key: str, ours: object) -> None:
    assert java_value(ours) == answers["default", owner, key]


CLUSTERS = ("clusters = A, B", "A.bootstrap.servers = a:1", "B.bootstrap.servers = b:1")
LAG, ID = "offset.lag.max", "client.id"


def value(key: str, number: int) -> str:
    """A value of the key's type that no other line has."""
    return ("source", "target")[number] if key == "use.defaults.from" else str(100 + number)


# Of what, key, and lines of the file: from what stands alone to all of it at once.
EFFECTIVE: list[tuple[str, str, tuple[str, ...]]] = [
    *(
        (client, key, tuple(f"{prefix}{key} = {value(key, n)}" for n, prefix in enumerate(prefixes)))
        for client, key, all_prefixes in (
            ("connector", LAG, ("", "A.", "B.", "A->B.", "B->A.")),
            ("connector", "topics", ("", "A.", "B.", "A->B.")),
            ("connector", "use.defaults.from", ("", "A->B.")),
            ("connector", "groups.exclude", ("", "B.", "A->B.")),
            ("connector", "replication.policy.separator", ("", "B.", "A->B.")),
            (
                "consumer",
                ID,
                (
                    "consumer.",
                    "source.consumer.",
                    "A.",
                    "B.consumer.",
                    "A->B.",
                    "A.source.consumer.",
                    "A->B.consumer.",
                    "A->B.target.consumer.",
                    "A.consumer.",
                    "A->B.source.consumer.",
                ),
            ),
            (
                "producer",
                ID,
                (
                    "producer.",
                    "A.producer.",
                    "A->B.producer.",
                    "A->B.target.producer.",
                    "B.producer.override.",
                    "B.producer.",
                    "A->B.producer.override.",
                ),
            ),
        )
        for prefixes in (*((prefix,) for prefix in all_prefixes), all_prefixes, tuple(reversed(all_prefixes)))
    ),
]


def effective_question(client: str, key: str, lines: tuple[str, ...]) -> tuple[str, ...]:
    text = "".join(f"{line}%000a" for line in (*CLUSTERS, *lines))
    return ("effective", text, "A", "B", client, key)


@pytest.mark.parametrize(("client", "key", "lines"), EFFECTIVE)
def test_effective_values_match_mirror_maker(
    answers: dict[tuple[str, ...], str], tmp_path: Path, client: str, key: str, lines: tuple[str, ...]
) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text("".join(f"{line}\n" for line in (*CLUSTERS, *lines)))
    name = {"connector": "", "consumer": "source.consumer.", "producer": "producer.override."}[client] + key
    (found,) = [v for v in explain(path).values if (v.scope, v.key) == ("A->B", name)]
    assert (found.value if found.line else "null") == answers[effective_question(client, key, lines)]


def test_java_readers_find_checkpoints_and_heartbeats(lab: Lab) -> None:
    right = lab.clusters["RIGHT"].bootstrap
    policy = DefaultReplicationPolicy()
    checkpoints, beats = policy.checkpoints_topic("LEFT"), policy.remote_topic("LEFT", policy.heartbeats_topic)
    orders, payments = TopicPartition("LEFT.orders", 0), TopicPartition("LEFT.payments", 2)
    written = [
        Checkpoint("billing", orders, 100, 90),
        Checkpoint("billing", payments, 7, 7, "shard=7"),
        Checkpoint("billing", orders, 150, 140, "at noon"),
        Checkpoint("other", orders, 1, 1),
    ]
    with Cluster(ClusterSettings("RIGHT", tuple(right.split(",")))) as cluster:
        for topic in (checkpoints, beats):
            cluster.create_topic(topic, 1, 1, {"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": right, "acks": "all"})
    for checkpoint in written:
        producer.produce(checkpoints, key=checkpoint.key(), value=checkpoint.value(), partition=0)
    beat = Heartbeat("LEFT", "RIGHT", 1700000000000)
    producer.produce(beats, key=beat.key(), value=beat.value(), partition=0, timestamp=beat.timestamp_ms)
    assert producer.flush(30) == 0

    seen = json.loads(java("TranslateOffsets.java", right, "LEFT", "billing", "other", "nobody"))

    assert seen["groups"] == {
        "billing": {"LEFT.orders-0": [140, "at noon"], "LEFT.payments-2": [7, "shard=7"]},
        "other": {"LEFT.orders-0": [1, ""]},
        "nobody": {},
    }
    assert seen["hops"] == 1
    assert "LEFT" in seen["upstreamClusters"]
    assert beats in seen["heartbeatTopics"]
    assert checkpoints in seen["checkpointTopics"]
