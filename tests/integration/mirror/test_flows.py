"""Flows between three clusters in one process: which topics are mirrored where. MM2 does the same, name by name."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Producer
from fix_engine import produce, read_all, wait_for
from fix_flows import Replicator
from fix_two_way import begun
from testbed_mm2 import consume_some, java

from drlib.config.settings import load_mirror_settings
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.mm2.records import Heartbeat
from drlib.mirror.offsets.translation.translate_groups import translate_groups
from drlib.model import Flow, TopicPartition


def test_flows_active_active_never_loop(replicator: Replicator) -> None:
    r = replicator
    r.make("A")
    r.make("B")
    r.start(("AB", "BA"))
    r.wait_same(("A", r.topic()), ("B", r.remote("A")))
    r.wait_same(("B", r.topic()), ("A", r.remote("B")))
    there = r.refresh("A", "B")
    back = r.refresh("B", "A", times=1)
    r.stop()
    assert r.names("A") == {r.topic(), r.remote("B"), *(r.topic(n) for n in there), *(r.remote("B", n) for n in back)}
    assert r.names("B") == {r.topic(), r.remote("A"), *(r.remote("A", n) for n in there), *(r.topic(n) for n in back)}


@pytest.mark.long
def test_flows_in_a_ring_deliver_each_record_once(replicator: Replicator) -> None:
    r = replicator
    for cluster in "ABC":
        r.make(cluster)
    r.start(("AB", "BC", "CA"))
    for at, before, two_before in (("B", "A", "C"), ("C", "B", "A"), ("A", "C", "B")):
        r.wait_same((before, r.topic()), (at, r.remote(before)))
        r.wait_same((two_before, r.topic()), (at, r.remote(before + two_before)))
    probes = r.refresh("A", "B")
    for name in probes:
        r.wait_same(("A", r.topic(name)), ("C", r.remote("BA", name)), 1)
    r.refresh("C", "A", times=2)
    r.stop()
    named = {c: {n for n in r.names(c) if "probe" not in n} for c in "ABC"}
    assert named == {
        "A": {r.topic(), r.remote("C"), r.remote("CB")},
        "B": {r.topic(), r.remote("A"), r.remote("AC")},
        "C": {r.topic(), r.remote("B"), r.remote("BA")},
    }


def test_flows_hub_and_spokes_fan_in_and_out(replicator: Replicator) -> None:
    r = replicator
    r.make("A")
    r.make("B")
    r.make("C", "from-hub")
    r.start(("AC", "BC", "CA", "CB"))
    r.wait_same(("A", r.topic()), ("C", r.remote("A")))
    r.wait_same(("B", r.topic()), ("C", r.remote("B")))
    r.wait_same(("B", r.topic()), ("A", r.remote("CB")))
    r.wait_same(("A", r.topic()), ("B", r.remote("CA")))
    r.wait_same(("C", r.topic("from-hub")), ("A", r.remote("C", "from-hub")))
    r.wait_same(("C", r.topic("from-hub")), ("B", r.remote("C", "from-hub")))
    r.refresh("A", "C")
    r.stop()
    named = {c: {n for n in r.names(c) if "probe" not in n} for c in "ABC"}
    assert named == {
        "A": {r.topic(), r.remote("CB"), r.remote("C", "from-hub")},
        "B": {r.topic(), r.remote("CA"), r.remote("C", "from-hub")},
        "C": {r.topic("from-hub"), r.remote("A"), r.remote("B")},
    }


def test_identity_policy_keeps_names_configs_and_partitions(
    replicator: Replicator,
) -> None:
    r = replicator
    r.make("A", partitions=3, retention_ms="123456789", max_message_bytes="654321", min_insync_replicas="1")
    r.start(
        ("AB",),
        replication__policy__class="org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        replication__policy__separator="_",
        emit__checkpoints__enabled="true",
    )
    r.wait_same(("A", r.topic()), ("B", r.topic()), 3)
    wait_for("the syncs topic is there", lambda: f"mm2-offset-syncs_{r.alias('B')}_internal" in all_names(r, "A"))
    wait_for("the checkpoints topic is there", lambda: f"{r.alias('A')}_checkpoints_internal" in all_names(r, "B"))
    r.stop()
    assert r.names("B") == {r.topic()}
    assert topic_config(r, "B", r.topic()) == {"retention.ms": "123456789", "max.message.bytes": "654321"}


def test_separator_of_several_characters_applies_to_topic_names_only(
    replicator: Replicator,
) -> None:
    r = replicator
    r.make("A")
    r.start(
        ("AB", "BC"),
        replication__policy__separator="__",
        replication__policy__internal__topic__separator__enabled="false",
    )
    r.wait_same(("A", r.topic()), ("C", r.remote("BA", separator="__")))
    r.stop()
    assert r.names("B") == {r.remote("A", separator="__")}
    assert f"mm2-offset-syncs.{r.alias('B')}.internal" in all_names(r, "A")


@pytest.mark.long
def test_heartbeats_and_checkpoints_are_read_by_java_clients_both_ways(replicator: Replicator) -> None:
    r = replicator
    r.make("A", records=4000)
    group = f"readers-{r.tag}"
    positions = consume_some(r.bootstraps["A"], r.topic(), group, 4000)
    r.start(
        ("AB", "BA"),
        emit__heartbeats__enabled="true",
        heartbeats__replication__enabled="true",
        emit__checkpoints__enabled="true",
        emit__checkpoints__interval__seconds="1",
        **{f"{r.alias('B')}__offset__flush__interval__ms": "1000"},
    )
    r.wait_same(("A", r.topic()), ("B", r.remote("A")))
    seen: dict[str, object] = {}

    def is_reported() -> bool:
        seen.update(json.loads(java("TranslateOffsets.java", r.bootstraps["B"], r.alias("A"), group)))
        groups = seen["groups"]
        assert isinstance(groups, dict)
        return len(groups[group]) == len(positions) and seen["hops"] == 1

    wait_for("Java reads the checkpoints", is_reported, 90)
    r.stop()
    assert r.alias("A") in seen["upstreamClusters"]  # type: ignore[operator]
    assert f"{r.alias('A')}.heartbeats" in seen["heartbeatTopics"]  # type: ignore[operator]
    assert f"{r.alias('A')}.checkpoints.internal" in seen["checkpointTopics"]  # type: ignore[operator]
    assert {"heartbeats", f"{r.alias('B')}.heartbeats"} <= all_names(r, "A")
    assert set(seen["groups"][group]) == {str(TopicPartition(r.remote("A"), p)) for p in positions}  # type: ignore[index]


def test_translation_mid_topic_position_is_exact_where_mm2_rereads(replicator: Replicator) -> None:
    r = replicator
    r.make("A", records=6000)
    group = f"middle-{r.tag}"
    positions = consume_some(r.bootstraps["A"], r.topic(), group, 500)
    r.start(
        ("AB",),
        emit__checkpoints__enabled="true",
        emit__checkpoints__interval__seconds="1",
        **{f"{r.alias('B')}__offset__flush__interval__ms": "1000"},
    )
    r.wait_same(("A", r.topic()), ("B", r.remote("A")))
    reported: dict[str, list[int]] = {}

    def java_tells() -> dict[str, int]:
        reported.update(
            json.loads(java("TranslateOffsets.java", r.bootstraps["B"], r.alias("A"), group))["groups"][group]
        )
        return {name: value[0] for name, value in reported.items()}

    if r.kind == "drlib":
        settings = load_mirror_settings(r.root / "drlib.properties")
        found = translate_groups(settings, Flow(r.alias("A"), r.alias("B")), [group])
        assert {t.source.partition: t.source_offset for t in found} == positions
        assert all(t.translation.exact for t in found)
        exact = {str(t.target): t.translation.offset for t in found}  # a checkpoint from before may tell of less
        wait_for("Java reads the newest checkpoints", lambda: java_tells() == exact, 90)
    else:  # the copy has the source's offsets here: nothing was removed, and MM2 leaves no markers
        wait_for("Java reads the checkpoints", lambda: len(java_tells()) == len(positions), 90)
        again = [at - reported[str(TopicPartition(r.remote("A"), p))][0] for p, at in positions.items()]
        assert min(again) >= 0
        assert max(again) > 0, "MM2 translated exactly: docs/compatibility.md says it does not"
    r.stop()


def test_flows_cycle_that_keeps_names_is_refused_before_start(ours: Replicator) -> None:
    r = ours
    r.make("A", records=1)
    identity = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    r.start(("AB", "BC", "CA", "AC"), replication__policy__class=identity)  # two flows fill C
    assert r.worker is not None
    assert r.worker.wait(30) == 2, r.log()
    said = " ".join(r.log().split())
    assert f"would be copied in a cycle: {' -> '.join(map(r.alias, 'ABCA'))}" in said
    assert "do not overlap" in said
    assert "a ring of one direction" in said
    assert r.names("B") == set()


def test_pair_that_keeps_names_copies_what_a_third_cluster_brings_with_a_prefix(ours: Replicator) -> None:
    """Its lane writes markers, as those of the pair do, and its journal says that it is none of them."""
    r, name = ours, ours.remote("C")
    a, b = r.alias("A"), r.alias("B")
    identity = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    r.make("C", records=0)
    kept = {f"{flow}.replication.policy.class": identity for flow in (f"{a}->{b}", f"{b}->{a}")}
    r.start(("AB", "BA", "CA"), **kept)
    wait_for("all flows copy", lambda: begun(r.root / "status.json", 2, flows=3))
    for first in (0, 5_000_000):
        produce(r.bootstraps["C"], r.topic(), 400, partitions=2, first=first)
        r.wait_same(("C", r.topic()), ("B", name))
    r.stop()
    assert "CopiesUnknown" not in r.log()
    found = read_all(r.bootstraps["A"], name, 2)
    assert sum(map(len, found.values())) == 800, "nothing comes back"


def all_names(r: Replicator, cluster: str) -> set[str]:
    return set(r.admin(cluster).list_topics(timeout=10).topics)


def topic_config(r: Replicator, cluster: str, topic: str) -> dict[str, str]:
    with Cluster(ClusterSettings(cluster, (r.bootstraps[cluster],))) as there:
        return there.topic_config([topic])[topic]


def test_one_flow_heartbeats_of_the_other_direction_are_found_by_java_clients(replicator: Replicator) -> None:
    r = replicator
    r.make("A")
    r.start(("AB",), emit__heartbeats__enabled="true", heartbeats__replication__enabled="true")
    a, b = r.alias("A"), r.alias("B")

    def hops() -> int:
        return int(json.loads(java("TranslateOffsets.java", r.bootstraps["B"], a))["hops"])

    wait_for("RemoteClusterUtils finds A one hop upstream of B", lambda: hops() == 1, 90)
    wait_for("the heartbeats B->A arrive through A->B", lambda: (b, a) in beats(r, "B", f"{a}.heartbeats"))
    assert (a, b) in beats(r, "B", "heartbeats")
    r.stop()


def beats(r: Replicator, cluster: str, topic: str) -> set[tuple[str, str]]:
    """The pairs (source, target) of the heartbeats in a topic."""
    found = read_all(r.bootstraps[cluster], topic, 1)[0]
    return {(beat.source, beat.target) for beat in (Heartbeat.decode(key, value) for key, value, _, _ in found)}


def test_flow_writes_only_offset_syncs_and_heartbeats_to_the_source(replicator: Replicator) -> None:
    r = replicator
    r.make("A")
    before = all_names(r, "A") | {"heartbeats", "__consumer_offsets"}
    r.start(("AB",), emit__heartbeats__enabled="true", heartbeats__replication__enabled="true")
    r.wait_same(("A", r.topic()), ("B", r.remote("A")))
    a, b = r.alias("A"), r.alias("B")
    connect = {f"mm2-{kind}.{{}}.internal" for kind in ("offsets", "configs", "status")}
    wait_for("heartbeats are written to the source", lambda: f"{a}.heartbeats" in all_names(r, "B"))
    r.stop()
    syncs = {f"mm2-offset-syncs.{b}.internal"}
    there = {name for name in all_names(r, "B") if r.tag in name}
    if r.kind == "mm2":
        assert all_names(r, "A") - before == syncs | {name.format(b) for name in connect}
        assert {name.format(a) for name in connect} <= there
    else:
        assert all_names(r, "A") - before == syncs
        wanted = {r.remote("A"), f"__drlib-journal.{a}.internal"}  # checkpoints are off, and so is their topic
        assert {name for name in there if not name.endswith("heartbeats")} == wanted  # those of other tests cross too


def test_aborted_records_are_copied_by_mm2_only(replicator: Replicator) -> None:
    r = replicator
    r.make("A", records=10, partitions=1)
    producer = Producer({"bootstrap.servers": r.bootstraps["A"], "transactional.id": r.topic(), "log_level": 0})
    producer.init_transactions(30)
    for end in (producer.abort_transaction, producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(r.topic(), value=end.__name__.encode(), partition=0)
        assert producer.flush(10) == 0
        end(30)
    produce(r.bootstraps["A"], r.topic(), 10, partitions=1, first=50)
    r.start(("AB",))
    committed = [record[1] for record in read_all(r.bootstraps["A"], r.topic(), 1)[0]]
    assert committed.count(b"commit_transaction") == 1
    assert b"abort_transaction" not in committed

    def crossed() -> list[bytes | None]:
        if r.remote("A") not in all_names(r, "B"):
            return []
        return [record[1] for record in read_all(r.bootstraps["B"], r.remote("A"), 1)[0]]

    wait_for("the last record crossed", lambda: crossed()[-1:] == committed[-1:])
    r.stop()
    if r.kind == "drlib":
        assert crossed() == committed
    else:
        assert crossed().count(b"abort_transaction") == 2
        assert [value for value in crossed() if value != b"abort_transaction"] == committed
