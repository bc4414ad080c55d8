"""Unmodified clients at one address of a secured lab log in at either cluster; one that cannot rebootstrap begins again."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from fix_engine import wait_for

from drlib import clock
from drlib.client import pointer_file
from drlib.client.pointer import Pointer
from drlib.config.settings import load_mirror_settings
from drlib.drill.readiness.doctor import doctor
from drlib.drill.readiness.score import Finding, Severity
from drlib.lab.brokers.acls import grant_application
from drlib.lab.brokers.security import MODES
from drlib.lab.checker.history import CONSUMED
from drlib.lab.checker.history_files import read_history
from drlib.lab.clients import runtimes
from drlib.lab.clients.families import BY_NAME, chosen, on_secured_lab
from drlib.lab.clients.on_lab import Chosen, LabClients, One
from drlib.lab.clients.python_client import starts_path
from drlib.lab.clients.rules import Move, continued, finished, judge
from drlib.lab.lab import Lab
from drlib.lab.workload.topics import TopicSpec, acknowledged, create_topics
from drlib.model import Flow
from drlib.runs.check import Verdict

FLOW = Flow("LEFT", "RIGHT")


@pytest.mark.parametrize("family", ["java", "kafka-python", "aiokafka"])
def test_consumer_reads_on_over_a_record_of_another_program_and_writes_a_whole_history_in_any_language(
    family: str, lab: Lab, fresh_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """As kafka-console-producer.sh writes: without headers and without a key. Java formats digits by the user's language."""
    cluster, topic, history = lab.clusters["LEFT"], fresh_topic("orders"), tmp_path / "history.jsonl"
    create_topics(cluster.bootstrap, [TopicSpec(topic, 1)])
    with acknowledged(cluster) as producer:
        producer.produce(topic, "typed by hand")
        producer.produce(topic, "{}", key="k", headers=[("id", b"order 7"), ("n", b"0")])
    client = runtimes.Client(family, "consume", topic, "LEFT", cluster.bootstrap, (topic,), history, 0.0)
    arabic = {"JAVA_TOOL_OPTIONS": "-Duser.language=ar -Duser.region=EG"}
    process = subprocess.Popen(runtimes.command(client), env={**os.environ, **arabic})
    try:
        wait_for("it has read both", lambda: history.exists() and history.read_bytes().count(CONSUMED) == 2, 40)
    finally:
        process.terminate()
        process.wait(20)
    read = read_history(history)
    assert (read.gaps, [row.id for row in read.consumed]) == ([], ["", "order 7"])


@pytest.mark.long
@pytest.mark.parametrize("mode", ["mtls", "scram"])
def test_secured_clients_continue_through_the_address_and_doctor_compares_its_name(mode: str, tmp_path: Path) -> None:
    with Lab(tmp_path / "lab", security=MODES[mode]) as lab:
        for cluster in lab.clusters.values():
            grant_application(cluster)
        pointer = tmp_path / "pointer.json"
        pointer_file.write_atomic(pointer, Pointer(1, "LEFT", lab.clusters["LEFT"].bootstrap))
        clients = LabClients(lab, tmp_path, FLOW, pointer)
        clients.start(Chosen(chosen(["java", "streams", "librdkafka"], on_secured_lab(runtimes.found()))))
        every = list(clients.each())
        assert len(every) == 3
        # No mirror runs here, which creates the topics that they read on RIGHT besides their own.
        create_topics(lab.clusters["RIGHT"].settings(), [TopicSpec(clients.remote(one), 1) for one in every])
        wait_for("they work", lambda: all(clients.processed(one) > 20 for one in every), 90)
        assert certificates(lab, "localhost").severity is Severity.OK
        other = certificates(lab, "kafka.example")
        assert (other.severity, other.entity) == (Severity.WARN, "LEFT")
        assert f"{lab.clusters['LEFT'].bootstrap} is not kafka.example" in other.evidence

        fault_ms = clock.now_ms()
        lab.clusters["LEFT"].kill()
        wait_for("what LEFT acknowledged is written down", lambda: all(silent(clients, one) for one in every))
        move = Move("LEFT", "RIGHT", fault_ms, clock.now_ms())
        pointer_file.write_atomic(pointer, Pointer(2, "RIGHT", lab.clusters["RIGHT"].bootstrap))
        wait_for(
            "they continue",
            lambda: all(continued(BY_NAME[one.runtime.family], clients.seen(one), move) for one in every),
            60,
        )
        clients.stop("produce")
        logged = {one: clients.logged(one) for one in every}

        def have_read(one: One) -> bool:
            return finished(BY_NAME[one.runtime.family], replace(logged[one], consumed=clients.consumed(one)), move)

        wait_for("they have read everything", lambda: all(map(have_read, every)), 60)
        clients.stop_all()
        for one in every:
            score = judge(BY_NAME[one.runtime.family], one.runtime.version, clients.logged(one), move)
            assert (score.verdict, score.lost, score.skipped) == (Verdict.PASS, 0, 0), score


def silent(clients: LabClients, one: One) -> bool:
    """Has its producer had no answer for a second?"""
    return clock.now_ms() - max(row.acked_ms for row in clients.seen(one).produced.produced) > 1000


def test_client_without_a_cluster_begins_again_until_it_is_ended(tmp_path: Path) -> None:
    """As its service manager would, and in one process, which the lab knows."""
    history = tmp_path / "h.jsonl"
    argv = [sys.executable, "-P", "-m", "drlib.lab.clients.python_client", "aiokafka", "produce", "--name", "client-x"]
    argv += ["--alias", "address", "--bootstrap", "127.0.0.1:1", "--topics", "t", "--history", str(history)]
    with subprocess.Popen([*argv, "--restart-after", "1"], stdout=subprocess.DEVNULL) as client:
        starts = starts_path(history)
        wait_for("it has begun three times", lambda: starts.exists() and len(starts.read_bytes().splitlines()) > 2, 60)
        assert client.poll() is None
        client.terminate()
        assert client.wait(20) in (0, -15)


def certificates(lab: Lab, host: str) -> Finding:
    """What the doctor finds of the address that clients keep, first."""
    address = {"drlib.clients.address": f"{host}:9092"}
    file = lab.write_properties(lab.root / "doctor.properties", user=lab.operator, **address)
    (ready,) = doctor(load_mirror_settings(file), runs=lab.root / "runs")
    return next(each for each in ready.findings if each.check == "address-certificates")
