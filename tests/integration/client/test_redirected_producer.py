"""Idempotent producers at an address that leads to another cluster, where their producer ID is another producer's."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from fix_engine import create_topic, read_all, wait_for
from repository_root import ROOT
from testbed_bootstrap import JVM, Process, Site, a_site
from testbed_producer_ids import same_next_id

from drlib.client.pointer_topic import read_pointer
from drlib.config.settings import load_mirror_settings
from drlib.drill.plan.plan import Call
from drlib.drill.readiness.doctor import doctor
from drlib.drill.readiness.score import Finding, Severity
from drlib.drill.run.registry import make_action
from drlib.drill.step.action import Action
from drlib.drill.step.context import DrillContext
from drlib.errors import Deviated
from drlib.lab import jars
from drlib.model import Flow
from drlib.runs.abort import Abort

Send = Callable[[str], int | str]

TOPIC = "orders"


def test_redirected_librdkafka_loses_acknowledged_records_and_doctor_names_its_id_before(tmp_path: Path) -> None:
    with a_site(tmp_path, ()) as site:
        lost_by(site, lambda: confluent(site.address))


def test_redirected_java_producer_loses_acknowledged_records_and_doctor_names_its_id_before(tmp_path: Path) -> None:
    with a_site(tmp_path, ()) as site:
        java = [str(jars.java().path), *JVM, "-cp", os.pathsep.join(map(str, jars.classpath("kafka")))]
        command = [*java, str(ROOT / "tests" / "java" / "LineClient.java"), "produce", site.address, TOPIC]

        def start() -> Send:
            process = site.processes["java"] = Process(command, tmp_path / "java.log", fed=True)
            return line_client(process)

        lost_by(site, start)


def lost_by(site: Site, start: Callable[[], Send]) -> None:
    """X, which `start` begins, writes to paris through the address, Y to lyon; then the address leads X to lyon."""
    for alias in site.lab.aliases:
        create_topic(site.lab.clusters[alias].bootstrap, TOPIC, 1)
    producer_id, send = same_next_id(site.settings()), start()
    assert [send(f"x{n}") for n in range(10)] == list(range(10))
    other = confluent(site.lab.clusters["lyon"].bootstrap)
    assert [other(f"y{n}") for n in range(13)] == list(range(13))

    found = producer_ids_of(site)
    assert (found.entity, found.severity) == (f"producer ID {producer_id}", Severity.WARN), found
    assert (
        f"epoch 0 on both clusters, {TOPIC}-0: if the source's producer is redirected, records can be" in found.evidence
    )
    site.file.write_text(site.file.read_text() + "drlib.producers.redirected = true\n")
    assert "the step that moves refuses" in producer_ids_of(site).fix
    move = a_move(site, "pointer.move")
    with pytest.raises(Deviated, match=rf"stay at paris: producer ID {producer_id}, .* collide = true"):
        move.act(move.changes(move.observe()), Abort(site.root))
    pointer = read_pointer(site.settings()).pointer
    assert pointer is not None
    assert pointer.active == "paris"

    site.lab.clusters["paris"].kill()
    wait_for("it is noticed", lambda: bool(site.notes("open")))
    site.move("lyon")
    assert [send(f"x{n}") for n in range(10, 20)] == list(range(10, 20)), "all are acknowledged"
    log = [
        str((value or b"").decode()) for _, value, _, _ in read_all(site.lab.clusters["lyon"].bootstrap, TOPIC, 1)[0]
    ]
    assert log == [*(f"y{n}" for n in range(13)), *(f"x{n}" for n in range(13, 20))], "x10, x11 and x12 are not there"
    with pytest.raises(KafkaException, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):  # and the other producer fails for good
        other("y13")

    found = producer_ids_of(site)
    assert (found.severity, "not checked: paris does not answer" in found.evidence) == (Severity.UNKNOWN, True), found


def producer_ids_of(site: Site) -> Finding:
    (found,) = doctor(load_mirror_settings(site.file), runs=site.root / "runs")
    (finding,) = [each for each in found.findings if each.check == "producer-ids"]
    return finding


def a_move(site: Site, name: str) -> Action:
    """A step of a drill that moves the pointer from paris to lyon."""
    run = site.root / name
    run.mkdir()
    settings = load_mirror_settings(site.file)
    place = DrillContext(clusters=settings.clusters, flow=Flow("paris", "lyon"), run_dir=run, properties=site.file)
    return make_action(Call(name, ()), place, "move")


def confluent(servers: str) -> Send:
    """With default settings; each record is a batch, and is delivered before the next. Its offset, or the error's name."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0})

    def send(value: str) -> int | str:
        answers: list[int | str] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            answers.append((message.offset() or 0) if error is None else str(error.name()))

        producer.produce(TOPIC, value, partition=0, on_delivery=delivered)
        producer.flush(60)
        return answers[0]

    return send


def line_client(process: Process) -> Send:
    def send(value: str) -> int | str:
        assert process.child.stdin is not None
        process.child.stdin.write(f"{value}\n".encode())
        process.child.stdin.flush()

        def answer() -> list[str]:
            return [line.split()[1] for _, line in list(process.lines) if line.startswith(f"{value} ")]

        wait_for(f"{value} is acknowledged", lambda: bool(answer()), 90)
        return int(answer()[0]) if answer()[0].isdigit() else answer()[0]

    return send
