"""Causes for which a flow is refused before it starts, on real brokers: each is named, and nothing is written."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType
from fix_authorizer import acl, add_acls, kafka_acls
from fix_engine import Engine, alter, create_topic, delete_topic, produce, wait_for
from fix_two_way import IDENTITY

from drlib.config.settings import load_mirror_settings
from drlib.errors import DrlibError, Unreachable
from drlib.kafka.net.cluster_client import ClusterClient, WrongCluster
from drlib.lab.lab import Lab
from drlib.mirror.preflight import checks as preflight
from drlib.mirror.preflight.checks import NotAuthorized, NotReady, Preflight


async def check(engine: Engine) -> tuple[preflight.Notice, ...]:
    """Preflight of the engine's flow, in this process."""
    settings = load_mirror_settings(engine.properties)
    flow = settings.flow(engine.source, engine.target)
    source, target = settings.clusters[engine.source], settings.clusters[engine.target]
    clients = [ClusterClient(c.bootstrap_servers, timeout_s=3) for c in (source, target)]
    try:
        return await Preflight(flow, source, target, clients[0], clients[1], settings.flows).run()
    finally:
        for client in clients:
            await client.close()


async def refusal(engine: Engine) -> DrlibError:
    with pytest.raises(DrlibError) as refused:
        await check(engine)
    return refused.value


def topics(bootstrap: str) -> set[str]:
    return set(AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(timeout=5).topics)


@asynccontextmanager
async def web_server() -> AsyncIterator[str]:
    """A server that answers but is not Kafka."""

    async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(page, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        yield f"{host}:{port}"


async def test_preflight_unreachable_addresses_are_all_named(engine: Engine) -> None:
    engine.left, engine.right = "no-such-host.invalid:9092", "127.0.0.1:1"
    error = await refusal(engine)
    assert isinstance(error, Unreachable)
    assert error.exit_code == 11
    for part in ("no-such-host.invalid:9092", "127.0.0.1:1", "refused", "not known"):
        assert part in str(error), error


async def test_preflight_server_that_is_not_kafka_is_named(engine: Engine) -> None:
    async with web_server() as address:
        engine.left = address
        error = await refusal(engine)
    assert isinstance(error, Unreachable)
    assert address in str(error)
    assert "no broker sends" in str(error), error


def test_mirror_command_wrong_file_exits_with_code_and_one_line(engine: Engine) -> None:
    engine.left = engine.right.replace("127.0.0.1", "localhost")
    worker = engine.start()
    assert worker.wait(30) == 2
    assert "Traceback" not in engine.log()
    assert "are the same cluster" in engine.log()


@pytest.mark.parametrize("side", ["left", "right"])
def test_mirror_command_waits_for_a_cluster_that_is_down(engine: Engine, authorizer_lab: Lab, side: str) -> None:
    """At the start, as MirrorMaker 2 does: reported, and mirrored without a restart once the cluster runs."""
    topic, cluster = engine.topics, authorizer_lab.clusters["AUTHORIZED"]
    setattr(engine, side, cluster.bootstrap)
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 10, partitions=1)
    cluster.kill()
    try:
        worker = engine.start()
        event = engine.wait_reported("FlowUnreachable", f"{engine.source}->{engine.target}")
        assert cluster.bootstrap in event.detail
    finally:
        cluster.restart()
    engine.wait_caught_up(topic, 1)
    engine.wait_reported("FlowUnreachable", f"{engine.source}->{engine.target}", resolved=True)
    assert engine.stop(worker) == 0, engine.log()
    engine.assert_same(topic, 1)


async def test_preflight_same_cluster_on_both_sides_is_refused(engine: Engine) -> None:
    before = topics(engine.right)
    engine.left = engine.right.replace("127.0.0.1", "localhost")
    error = await refusal(engine)
    assert isinstance(error, preflight.SameCluster)
    assert error.exit_code == 2
    assert topics(engine.right) == before


async def test_preflight_pinned_cluster_id_refuses_other_clusters(engine: Engine, lab: Lab) -> None:
    engine.extra[f"{engine.target}.drlib.cluster.id"] = lab.clusters["RIGHT"].cluster_id
    await check(engine)
    engine.extra[f"{engine.target}.drlib.cluster.id"] = lab.clusters["LEFT"].cluster_id
    error = await refusal(engine)
    assert isinstance(error, WrongCluster)
    assert lab.clusters["RIGHT"].cluster_id in error.why
    assert f"{engine.target}.drlib.cluster.id" in error.remedy


async def test_preflight_changed_lanes_clusters_or_retention_of_journal_are_refused(
    engine: Engine, authorizer_lab: Lab
) -> None:
    """One run, then four mistakes: another source, other lanes, a journal with retention, too few brokers."""
    topic = engine.topics
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 10, partitions=1)
    worker = engine.start()
    engine.wait_caught_up(topic, 1)
    assert engine.stop(worker) == 0, engine.log()
    before = topics(engine.right)

    left = engine.left
    engine.left = authorizer_lab.clusters["AUTHORIZED"].bootstrap
    error = await refusal(engine)
    assert isinstance(error, WrongCluster), error
    assert authorizer_lab.clusters["AUTHORIZED"].cluster_id in error.why
    engine.extra[f"{engine.source}.drlib.cluster.id"] = authorizer_lab.clusters["AUTHORIZED"].cluster_id
    await check(engine)  # named on purpose
    engine.left = left
    del engine.extra[f"{engine.source}.drlib.cluster.id"]

    engine.extra["drlib.lanes"] = "3"
    error = await refusal(engine)
    assert isinstance(error, preflight.LanesChanged)
    assert "drlib.lanes = 2" in error.remedy

    journal = f"__drlib-journal.{engine.source}.internal"
    alter(engine.right, journal, "cleanup.policy", "delete")
    error = await refusal(engine)
    assert isinstance(error, NotReady)  # both at once
    assert [type(f) for f in error.findings] == [preflight.LanesChanged, preflight.JournalNotCompacted]
    assert "cleanup.policy=compact" in error.remedy
    assert topics(engine.right) == before


async def test_preflight_lanes_and_retention_of_a_relay_in_a_ring_are_checked_as_those_of_the_journal(
    engine: Engine,
) -> None:
    engine.extra |= {
        "clusters": f"{engine.source}, {engine.target}, THIRD",
        "THIRD.bootstrap.servers": "127.0.0.1:1",
        "replication.policy.class": IDENTITY,
        f"{engine.target}->THIRD.enabled": "true",
        f"THIRD->{engine.source}.enabled": "true",
        "drlib.lanes": "2",
    }
    create_topic(engine.right, f"__drlib-journal.{engine.source}.internal", 2, cleanup_policy="compact")
    await check(engine)
    relay = f"__drlib-relay.{engine.source}.1.internal"
    create_topic(engine.right, relay, 3, cleanup_policy="delete")
    error = await refusal(engine)
    assert isinstance(error, NotReady)
    assert [type(f) for f in error.findings] == [preflight.LanesChanged, preflight.JournalNotCompacted]
    assert all(relay in str(f) for f in error.findings)


async def test_preflight_impossible_replication_factors_are_named_by_key(engine: Engine) -> None:
    create_topic(engine.left, engine.topics, 1)
    before = topics(engine.right)
    for key in ("replication.factor", "heartbeats.topic.replication.factor", "checkpoints.topic.replication.factor"):
        engine.extra[key] = "3"
    error = await refusal(engine)
    assert isinstance(error, NotReady)
    assert {type(f) for f in error.findings} == {preflight.NotEnoughBrokers}
    for key in ("drlib.journal.replication.factor", "replication.factor = 1", "has 1 broker"):
        assert key in str(error)
    assert topics(engine.right) == before


async def test_preflight_missing_rights_come_with_grant_commands(engine: Engine, authorizer_lab: Lab) -> None:
    """The target has the journal topic and the group, with rights for others only; the commands in the errors are run."""
    engine.right = bootstrap = authorizer_lab.clusters["AUTHORIZED"].bootstrap
    create_topic(engine.left, engine.topics, 1)
    journal = f"__drlib-journal.{engine.source}.internal"
    create_topic(bootstrap, journal, 2, cleanup_policy="compact")
    group = f"drlib-{engine.source}-{engine.target}"
    others_only(bootstrap, ResourceType.TOPIC, journal)
    others_only(bootstrap, ResourceType.GROUP, group)
    error = await refusal(engine)
    assert isinstance(error, NotReady), error
    assert {type(f) for f in error.findings} == {NotAuthorized}
    assert "User:ANONYMOUS may not WRITE and READ on topic" in str(error)
    for finding in error.findings:
        assert finding.remedy.startswith("kafka-acls.sh --bootstrap-server")
        kafka_acls(shlex.split(finding.remedy)[1:])
    await check(engine)


def others_only(bootstrap: str, kind: ResourceType, name: str) -> None:
    add_acls(bootstrap, acl(kind, name, AclOperation.READ, who="User:other"))


def test_discovery_misspelt_topic_gets_a_suggestion_and_is_mirrored_once_created(engine: Engine) -> None:
    topic = engine.topics
    slip = topic[:-3] + topic[-2] + topic[-3] + topic[-1]
    engine.topics = f"{topic}, {slip}"
    create_topic(engine.left, topic, 1)
    worker = engine.start()

    def is_reported(resolved: bool) -> bool:
        found = [e for e in engine.events() if (e.name, e.entity) == ("TopicNotFound", slip)]
        return bool(found) and (found[-1].resolved_ms is not None) == resolved

    wait_for("the name without a topic is reported", lambda: is_reported(resolved=False))
    (event,) = [e for e in engine.events() if e.name == "TopicNotFound"]
    assert f"Did you mean {topic}?" in event.detail + getattr(event, "remedy", "")
    create_topic(engine.left, slip, 1)
    produce(engine.left, slip, 10, partitions=1)
    engine.wait_caught_up(slip, 1)
    wait_for("the event is resolved", lambda: is_reported(resolved=True))
    assert engine.stop(worker) == 0, engine.log()


def test_preflight_invalid_pattern_is_reported_with_its_place(engine: Engine) -> None:
    engine.topics = "orders.*, flights["
    worker = engine.start()
    assert worker.wait(30) == 2
    assert "flights[" in engine.log()
    assert "topics" in engine.log()
    assert "Traceback" not in engine.log()


def test_discovery_name_too_hard_to_match_is_an_event_and_others_are_mirrored(engine: Engine) -> None:
    """Another team of the source creates a topic whose name a pattern of the file cannot be matched with in time."""
    topic, hard = engine.topics, "vW" * 60 + "c-"
    engine.topics = f"{topic}.*, (vW|vWvW)+c"
    create_topic(engine.left, topic, 1)
    create_topic(engine.left, hard, 1)
    try:
        engine.start()
        produce(engine.left, topic, 10, partitions=1)
        engine.wait_caught_up(topic, 1)

        def is_reported() -> bool:
            return any(e.name == "PatternTooSlow" and e.resolved_ms is None for e in engine.events())

        wait_for("the pattern is reported", is_reported)
        create_topic(engine.left, f"{topic}-later", 1)
        produce(engine.left, f"{topic}-later", 10, partitions=1)
        engine.wait_caught_up(f"{topic}-later", 1)
    finally:
        delete_topic(engine.left, hard)
