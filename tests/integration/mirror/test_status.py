"""Nothing silent: a warning before the loss, the loss, a transaction that blocks, and what a scrape and a person see."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import socket
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from fix_engine import Engine, create_topic, produce, wait_for
from monitoring_files import not_exported
from prometheus_client.parser import text_string_to_metric_families

from drlib.config.settings import load_mirror_settings
from drlib.kafka.admin.connect import wire_client
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol.error_codes import UNKNOWN_TOPIC_OR_PARTITION
from drlib.lab import jars
from drlib.lab.lab import Lab
from drlib.mirror.mm2.writer import Mm2Writer
from drlib.mirror.monitor.source_ends import log_bounds
from drlib.mirror.status import worker_status as status
from drlib.mirror.status.worker_status import Event, EventLog, PartitionStatus, WorkerStatus
from drlib.mirror.sync.source_groups import OFFSETS_TOPIC, GroupPositions
from drlib.model import TopicPartition

Made = Callable[..., Engine]
ORDER = ("source", "target", "topic", "partition", "lane", "state", "event", "entity", "flow")


@pytest.fixture(scope="module")
def hasty_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Clusters that look at retention twice a second."""
    quick = {
        "log.retention.check.interval.ms": "500",
        "log.initial.task.delay.ms": "500",
        "log.segment.delete.delay.ms": "500",
    }
    with Lab(tmp_path_factory.mktemp("hasty-lab"), extra=quick) as lab:
        yield lab


@pytest.fixture
def engines(hasty_lab: Lab, tmp_path: Path) -> Iterator[Made]:
    """Engines between the hasty clusters, the source over the link."""
    made: list[Engine] = []

    def make(topics: str, **extra: str) -> Engine:
        tag = uuid.uuid4().hex[:6]
        root = tmp_path / tag
        root.mkdir()
        left, right = hasty_lab.clusters["LEFT"], hasty_lab.clusters["RIGHT"]
        settings = {f"drlib.{key.replace('_', '.')}": value for key, value in extra.items()}
        settings.setdefault("drlib.forecast.interval.ms", "300")
        made.append(Engine(root, left.link_bootstrap, right.bootstrap, f"SRC{tag}", f"DST{tag}", topics, settings))
        return made[-1]

    yield make
    hasty_lab.proxy.clear()
    for engine in made:
        engine.close()


def reported_status(engine: Engine) -> WorkerStatus:
    try:
        return status.read(engine.status_path(len(engine.processes) - 1))
    except Exception:
        return WorkerStatus(0, 0, "nothing yet", ())


def events(engine: Engine, name: str) -> list[Event]:
    return [event for event in reported_status(engine).events if event.name == name]


def partition(engine: Engine, topic: str, number: int = 0) -> PartitionStatus | None:
    found = [
        p for f in reported_status(engine).flows for p in f.partitions if (p.topic, p.partition) == (topic, number)
    ]
    return found[0] if found else None


@pytest.mark.long
def test_retention_that_wins_is_reported_before_the_loss_and_the_policy_decides(
    hasty_lab: Lab, engines: Made, fresh_topic: Callable[[], str]
) -> None:
    topic = fresh_topic()
    left = hasty_lab.clusters["LEFT"].bootstrap
    policies = {policy: engines(topic, source_loss_policy=policy) for policy in ("continue", "park", "fail")}
    create_topic(left, topic, 1, retention_ms="12000", segment_bytes="1048576")
    for engine in policies.values():
        engine.start()
    for engine in policies.values():  # up before the clock of retention runs
        wait_for("the worker runs", lambda e=engine: reported_status(e).state == "running", 40)
    hasty_lab.proxy.set("LEFT", direction="responses", bandwidth=400_000)
    producer = Producer({"bootstrap.servers": left, "linger.ms": 5, "batch.size": 100_000, "log_level": 0})
    for number in range(8_000):
        producer.produce(topic, value=b"%d" % number + b"x" * 1000, partition=0)
        producer.poll(0)
    assert producer.flush(30) == 0
    goes_on, parks, fails = policies.values()
    for engine in policies.values():
        wait_for("retention is seen ahead", lambda e=engine: bool(events(e, "RetentionAhead")), 30)
        warned = events(engine, "RetentionAhead")[0]
        assert not events(engine, "SourceLoss")
        assert warned.entity == f"{topic}-0"
        assert "retention.ms" in warned.detail
        assert "Raise retention.ms" in warned.remedy
    wait_for("the loss", lambda: all(events(e, "SourceLoss") for e in (goes_on, parks)), 40)
    for engine in (goes_on, parks):
        (loss,) = events(engine, "SourceLoss")
        assert loss.entity == f"{topic}-0"
        assert "expired before they were read" in loss.detail
        assert events(engine, "RetentionAhead")[0].opened_ms < loss.opened_ms
    # fail: the worker is over, with the objective's exit code and one line that says why
    assert fails.processes[0].wait(30) == 7, fails.log()
    assert "SourceLoss" in fails.log()
    assert "drlib.source.loss.policy = fail" in fails.log().splitlines()[-1]
    # park: stands before the gap, and says how to go on
    wait_for("parked", lambda: bool(events(parks, "SourceLossParked")))
    assert "drlib.source.loss.policy = continue" in events(parks, "SourceLossParked")[0].detail
    # continue: goes on with what comes, and the warning is resolved
    hasty_lab.proxy.clear()
    create = Producer({"bootstrap.servers": left, "log_level": 0})
    create.produce(topic, value=b"after", partition=0)
    create.flush(10)

    def caught_up() -> bool:
        found = partition(goes_on, topic)
        return found is not None and found.high_watermark > 8_000 and found.lag == 0 and found.outlook.lag_s == 0

    wait_for("it goes on behind the loss", caught_up)
    wait_for("no warning is left", lambda: all(e.resolved_ms is not None for e in events(goes_on, "RetentionAhead")))
    # one alert about what was lost; the record behind it waits in a link that is still full, and may be warned of too
    (about_the_lost,) = [e for e in events(goes_on, "RetentionAhead") if "(source offset 8000)" not in e.detail]
    assert about_the_lost == events(goes_on, "RetentionAhead")[0]
    assert partition(parks, topic).parked  # type: ignore[union-attr]
    # and the way on that the parked one names is one
    assert parks.stop(parks.processes[0]) == 0, parks.log()
    parks.extra["drlib.source.loss.policy"] = "continue"
    parks.start()
    wait_for("it goes on", lambda: (p := partition(parks, topic)) is not None and p.known and p.lag == 0)
    assert not events(parks, "SourceLossParked")


@pytest.mark.long
def test_status_hanging_transaction_is_named_with_its_remedy(
    hasty_lab: Lab, engines: Made, fresh_topic: Callable[[], str]
) -> None:
    topic = fresh_topic()
    left = hasty_lab.clusters["LEFT"].bootstrap
    create_topic(left, topic, 1)
    engine = engines(topic, open_transaction_warning_seconds="1")
    engine.start()
    holder = Producer({"bootstrap.servers": left, "transactional.id": f"holder-{topic}", "log_level": 0})
    holder.init_transactions(20)
    holder.begin_transaction()
    holder.produce(topic, value=b"open", partition=0)
    holder.flush(10)
    produce(left, topic, 50, partitions=1)
    wait_for("the transaction is named", lambda: bool(events(engine, "OpenTransaction")))
    (event,) = events(engine, "OpenTransaction")
    assert event.entity == f"{topic}-0"
    assert f"transactional ID holder-{topic}" in event.detail
    assert "producer ID" in event.detail
    assert "it holds back 51 offsets" in event.detail
    assert f"abort --topic {topic} --partition 0 --start-offset 0" in event.remedy
    held = partition(engine, topic)
    assert held is not None
    assert (held.last_stable, held.mirrored, held.lag) == (0, 0, 51)
    wait_for("its age is known", lambda: (partition(engine, topic).outlook.lag_s or 0) > 1)  # type: ignore[union-attr]
    abort_as_the_remedy_says(event.remedy)
    wait_for("it is over", lambda: events(engine, "OpenTransaction")[0].resolved_ms is not None)
    wait_for("all is mirrored", lambda: partition(engine, topic).lag == 0)  # type: ignore[union-attr]


def abort_as_the_remedy_says(remedy: str) -> None:
    """Runs the command of the remedy with Kafka's own tool."""
    _, _, command = remedy.partition("kafka-transactions.sh ")
    tool = "org.apache.kafka.tools.TransactionsCommand"
    classpath = os.pathsep.join(str(jar) for jar in jars.classpath("kafka"))
    argv = [str(jars.java().path), "-cp", classpath, tool, *shlex.split(command)]
    result = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


async def test_source_unreachable_without_offsets_topic_is_resolved(
    hasty_lab: Lab, engines: Made, fresh_topic: Callable[[], str]
) -> None:
    """There is no __consumer_offsets to follow then, and following it had reported that the source is gone."""
    engine = engines(fresh_topic())
    mirror = load_mirror_settings(engine.properties)
    (flow,) = (f for f in mirror.flows if f.enabled)
    source, target = mirror.clusters[engine.source], mirror.clusters[engine.target]
    log, client = EventLog(str(flow.flow)), wire_client(source, client_id="following")
    writer = Mm2Writer(flow, source, target, EventLog())
    groups = GroupPositions(flow, source, client, writer, log, lambda _: None)
    following = asyncio.create_task(groups.run())
    try:
        asked = await client.metadata([OFFSETS_TOPIC])
        assert asked.topics[OFFSETS_TOPIC].error_code == UNKNOWN_TOPIC_OR_PARTITION
        hasty_lab.proxy.set("LEFT", cut=True)
        await asyncio.to_thread(wait_for, "gone", lambda: log.is_open("SourceUnreachable", str(flow.flow)))
        hasty_lab.proxy.clear()
        await asyncio.to_thread(wait_for, "there again", lambda: not log.is_open("SourceUnreachable", str(flow.flow)))
        assert [event.name for event in log.snapshot()] == ["SourceUnreachable"]
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await client.close()
        await asyncio.to_thread(writer.close, 1.0)


def get(address: str, path: str) -> str:
    with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
        return answer.read().decode()


async def test_log_bounds_partition_that_its_leader_refuses_holds_up_no_other(
    left: str, fresh_topic: Callable[[], str]
) -> None:
    """The lag of every partition of that leader was no longer refreshed."""
    topic = fresh_topic()
    create_topic(left, topic, 2)
    produce(left, topic, 50, partitions=1)
    first, second, missing = (TopicPartition(topic, number) for number in (0, 1, 7))
    client = ClusterClient([left])
    try:
        metadata = await client.connect()
        found, refused = await log_bounds(await client.connection(min(metadata.brokers)), [first, missing, second])
    finally:
        await client.close()
    assert found == {first: (50, 0, 50), second: (0, 0, 0)}
    assert refused == {missing: UNKNOWN_TOPIC_OR_PARTITION}


def test_metrics_address_in_use_is_reported_and_mirroring_continues(
    hasty_lab: Lab, engines: Made, fresh_topic: Callable[[], str]
) -> None:
    topic = fresh_topic()
    create_topic(hasty_lab.clusters["LEFT"].bootstrap, topic, 1)
    produce(hasty_lab.clusters["LEFT"].bootstrap, topic, 50, partitions=1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        engine = engines(topic, metrics_address=address)
        engine.start()
        engine.wait_caught_up(topic, 1)
    (event,) = events(engine, "EndpointUnavailable")
    assert (event.entity, event.resolved_ms) == (address, None)
    assert "in use" in event.detail
    assert "--metrics" in event.remedy
    assert reported_status(engine).address == ""
    assert engine.stop(engine.processes[0]) == 0, engine.log()


def test_metrics_endpoint_of_a_worker_is_scraped(hasty_lab: Lab, engines: Made, fresh_topic: Callable[[], str]) -> None:
    topic = fresh_topic()
    left = hasty_lab.clusters["LEFT"].bootstrap
    create_topic(left, topic, 2)
    produce(left, topic, 1000, partitions=2)
    engine = engines(topic, metrics_address="127.0.0.1:0")
    engine.start("--log-format", "json")
    engine.wait_caught_up(topic, 2)
    address = reported_status(engine).address
    assert address.startswith("127.0.0.1:")
    state = status.decode(get(address, "/status").encode())
    assert (state.pid, state.state) == (engine.processes[0].pid, "running")

    def scraped() -> dict[str, dict[tuple[str, ...], float]]:
        found: dict[str, dict[tuple[str, ...], float]] = {}
        for family in text_string_to_metric_families(get(address, "/metrics")):
            for sample in family.samples:
                key = tuple(sample.labels[name] for name in ORDER if name in sample.labels)
                found.setdefault(sample.name, {})[key] = sample.value
        return found

    labels = [(engine.source, engine.target, f"{engine.source}.{topic}", str(n)) for n in (0, 1)]
    mm2 = "kafka_connect_mirror_mirrorsourceconnector_"
    wait_for("rates are measured", lambda: labels[0] in scraped().get(f"{mm2}record_rate", {}))
    found = scraped()
    assert [found[f"{mm2}record_count"][at] for at in labels] == [500, 500]
    assert [found["drlib_replication_record_lag"][at] for at in labels] == [0, 0]
    assert [found["drlib_replication_lag_seconds"][at] for at in labels] == [0, 0]
    assert all(0 <= found[f"{mm2}replication_latency_ms{s}"][labels[0]] < 60_000 for s in ("", "_min", "_avg", "_max"))
    assert found[f"{mm2}byte_count"][labels[0]] > 500 * 100
    assert found["drlib_events_open"][()] == 0
    assert {key[-1] for key in found["drlib_lane_state"]} == {"running"}
    assert set(found["drlib_lane_epoch"].values()) == {0}
    assert found["drlib_records_total"][engine.source, engine.target] == 1000
    # a person on the same machine needs the file only: the journal says where the worker answers
    code, (view,) = drlib_status(engine)
    assert (code, view["state"], view["lag"], view["events"]) == (0, "mirroring", 0, [])
    assert view["workers"] == [reported_status(engine).worker]
    assert [lane["state"] for lane in view["lanes"]] == ["running", "running"]
    assert [p["records"] for p in view["partitions"]] == [500, 500]
    hasty_lab.proxy.set("LEFT", cut=True)
    wait_for(
        "the fault is reported", lambda: any("SourceUnreachable" in k for k in scraped().get("drlib_event_open", {}))
    )
    wait_for("the file tells it too", lambda: bool(events(engine, "SourceUnreachable")))
    # alert rules and dashboard use what this worker exports, and nothing else
    assert not_exported(text_string_to_metric_families(get(address, "/metrics"))) == []
    hasty_lab.proxy.clear()
    (fault,) = events(engine, "SourceUnreachable")
    assert fault.entity == f"{engine.source}->{engine.target}"
    wait_for("the fault is over", lambda: events(engine, "SourceUnreachable")[0].resolved_ms is not None)
    assert len([e for e in reported_status(engine).events if e.settled]) == 1, reported_status(engine).events
    # its log has one line for the beginning of the fault and one for its end, all lines with the same keys
    log = (engine.root / "worker-0.log").read_text().splitlines()
    lines = [json.loads(line) for line in log]
    assert len({tuple(line) for line in lines}) == 1
    reported = [(line["name"], line["status"], line["flow"]) for line in lines if line["name"] == "SourceUnreachable"]
    assert reported == [("SourceUnreachable", status, fault.entity) for status in ("open", "resolved")]
    assert ("Worker", "running") in [(line["name"], line["status"]) for line in lines]
    # and when the worker is dead, the clusters still show the lag, and that no worker runs
    engine.processes[0].kill()
    engine.processes[0].wait(10)
    produce(left, topic, 30, partitions=2)

    def no_worker() -> bool:
        code, (view,) = drlib_status(engine)
        return (code, view["state"]) == (3, "no worker")

    wait_for("the group has noticed its death", no_worker, 30)
    code, (view,) = drlib_status(engine, "--groups")
    assert [p["mirrored"] for p in view["partitions"]] == [500, 500]
    assert view["lag"] == 30
    assert view["lag_s"] > 0
    assert [event["name"] for event in view["events"]] == ["NoWorker"]
    assert view["groups"] == []


def drlib_status(engine: Engine, *more: str) -> tuple[int, list[dict[str, Any]]]:
    command = [sys.executable, "-m", "drlib.cli", "status", str(engine.properties), "--json", *more]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in result.stderr, result.stderr
    return result.returncode, json.loads(result.stdout)
