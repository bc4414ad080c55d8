"""Clusters that refuse what Kafka itself allows: managed services, and those whose topics only a platform team creates."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from fix_engine import Engine, create_topic, produce
from fix_lab import LabFactory
from testbed_strict_broker import restart_strict

from drlib.drill.plan.lease_record import TOPIC as DRILLS
from drlib.drill.run.lease import Lease
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.errors import ClusterRefused
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab import jars
from drlib.lab.brokers.broker import Broker
from drlib.mirror.sync.internal_topics import JOURNAL_LOG
from drlib.model import Flow

pytestmark = pytest.mark.long

TOPIC_COMMAND = "org.apache.kafka.tools.TopicCommand"  # what kafka-topics.sh runs


@pytest.fixture
def strict(lab_factory: LabFactory) -> Broker:
    (broker,) = lab_factory(("STRICT",)).clusters["STRICT"].brokers
    return broker


def kafka_topics(arguments: list[str]) -> None:
    classpath = os.pathsep.join(map(str, jars.classpath("kafka")))
    argv = [str(jars.java().path), "-Xmx128m", "-cp", classpath, TOPIC_COMMAND, *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_journal_of_a_cluster_that_keeps_its_segment_size_is_compacted_and_the_flow_runs(
    engine: Engine, strict: Broker, tmp_path: Path
) -> None:
    restart_strict(strict, tmp_path, settings="segment.bytes")
    engine.right = strict.bootstrap
    create_topic(engine.left, engine.topics, 1)
    produce(engine.left, engine.topics, 50, partitions=1)
    worker = engine.start()
    engine.wait_caught_up(engine.topics, 1)
    journal = f"__drlib-journal.{engine.source}.internal"
    event = engine.wait_reported("JournalSettings", journal, resolved=True)
    assert engine.stop(worker) == 0, engine.log()
    assert "STRICT" not in event.detail  # the file's alias, not the lab's
    assert (
        f"{engine.target} keeps its own segment.bytes (POLICY_VIOLATION: setting segment.bytes may not" in event.detail
    )
    assert "min.cleanable.dirty.ratio: (default) -> 0.3" in event.detail
    with Cluster(ClusterSettings("ANY", (strict.bootstrap,))) as cluster:
        expected = {**JOURNAL_LOG, "cleanup.policy": "compact"}
        del expected["segment.bytes"]
        assert cluster.topic_config([journal])[journal] == expected
    engine.assert_same(engine.topics, 1)


def test_cluster_whose_topics_only_others_create_is_refused_with_the_commands(
    engine: Engine, strict: Broker, tmp_path: Path
) -> None:
    restart_strict(strict, tmp_path, all_topics=True)
    engine.right = strict.bootstrap
    create_topic(engine.left, engine.topics, 1)
    worker = engine.start()
    assert worker.wait(60) == 1, engine.log()
    journal = f"__drlib-journal.{engine.source}.internal"
    said = engine.log()
    assert "POLICY_VIOLATION: topics are created by the platform team only" in said
    (line,) = [line for line in said.splitlines() if "ended detail" in line]
    commands = re.findall(r"kafka-topics\.sh --bootstrap-server .*?(?=; |, and |\. |\"|$)", shlex.split(line)[-1])
    topics = [shlex.split(command)[5] for command in commands]
    assert topics == [journal, f"{engine.source}.checkpoints.internal", "heartbeats"]
    with (
        pytest.raises(ClusterRefused) as refused,
        Lease(ClusterSettings("STRICT", (strict.bootstrap,)), Flow(engine.source, engine.target), "run"),
    ):
        pass
    assert f"kafka-topics.sh --bootstrap-server {strict.bootstrap} --create --topic {DRILLS} " in refused.value.remedy
    strict.stop()
    strict.prepare({})
    strict.restart()
    kafka_topics(shlex.split(commands[0])[1:])
    with Cluster(ClusterSettings("ANY", (strict.bootstrap,))) as cluster:
        assert cluster.topic_config([journal])[journal] == {**JOURNAL_LOG, "cleanup.policy": "compact"}


def test_lease_of_a_drill_is_taken_with_fewer_brokers_than_the_default_replication_factor(
    lab_factory: LabFactory,
) -> None:
    """As on a target of which a broker is down when it is needed."""
    cluster = lab_factory(("FEWER",), extra={"default.replication.factor": "3"}).clusters["FEWER"]
    with Lease(cluster.settings(), Flow("PARIS", "FEWER"), "run") as lease:
        lease.confirm()


def test_journal_whose_broker_takes_small_batches_only_is_written_in_smaller_ones(engine: Engine) -> None:
    engine.extra["drlib.lanes"] = "1"
    journal = f"__drlib-journal.{engine.source}.internal"
    create_topic(engine.right, journal, 1, cleanup_policy="compact", max_message_bytes="1500")
    create_topic(engine.left, engine.topics, 60)  # a claim writes an entry and more for each partition at once
    produce(engine.left, engine.topics, 600, partitions=60)
    worker = engine.start()
    engine.wait_caught_up(engine.topics, 60)
    assert engine.stop(worker) == 0, engine.log()
    engine.assert_same(engine.topics, 60)
