"""Idempotent producers at an address that leads to another cluster, where their producer ID is another producer's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from fix_engine import create_topic, read_all, wait_for
from repository_root import ROOT
from testbed_bootstrap import JVM, Process, Site, a_site
from testbed_producer_ids import same_next_id

from drlib.client.pointer_topic import read_pointer
from drlib.config.settings import load_mirror_settings
from drlib.drill.actions.applications.producer_ids import refuse_collisions
from drlib.drill.plan.plan import Argument, Call
from drlib.drill.readiness.doctor import doctor
from drlib.drill.readiness.score import Finding, Severity
from drlib.drill.run.registry import make_action
from drlib.drill.step.action import Action
from drlib.drill.step.context import DrillContext
from drlib.errors import Deviated
from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.protocol.error_codes import BrokerError
from drlib.lab import jars
from drlib.mirror.source_producers.find import read_kept
from drlib.model import Flow
from drlib.runs.abort import Abort

Send = Callable[[str], int | str]

TOPIC = "orders"
INTERNAL = "".join(f"{each}.topic.replication.factor = 1\n" for each in ("checkpoints", "heartbeats", "offset-syncs"))


def test_redirected_librdkafka_loses_acknowledged_records_and_doctor_names_its_id_before(tmp_path: Path) -> None:
    with a_site(tmp_path, ()) as site:
        lost_by(site, lambda: confluent(site.address))


def test_redirected_producer_loses_records_in_a_partition_that_it_had_not_written_to_and_doctor_names_it(
    tmp_path: Path,
) -> None:
    with a_site(tmp_path, ()) as site:
        for alias in site.lab.aliases:
            create_topic(site.lab.clusters[alias].bootstrap, TOPIC, 2)
        producer_id, x = same_next_id(site.settings()), anywhere(site.address)
        assert x("x0", 1) == 0
        y = anywhere(site.lab.clusters["lyon"].bootstrap)
        assert y("y0", 0) == 0
        found = producer_ids_of(site)
        assert (found.entity, found.severity) == (f"producer ID {producer_id}", Severity.WARN), found
        assert f"epoch 0 on both clusters, {TOPIC}-0: if" in found.evidence

        site.lab.clusters["paris"].kill()
        wait_for("it is noticed", lambda: bool(site.notes("open")))
        site.move("lyon")
        assert x("x1", 0) == 0, "it is acknowledged"
        log = read_all(site.lab.clusters["lyon"].bootstrap, TOPIC, 2)
        assert [value for _, value, _, _ in log[0]] == [b"y0"], "and not there"


def test_collision_with_producers_of_a_dead_source_is_found_by_what_the_mirror_kept(tmp_path: Path) -> None:
    """paris is lost before anything asked: the emergency still refuses, and says as of when it knows."""
    with a_site(tmp_path, ()) as site:
        for alias in site.lab.aliases:
            create_topic(site.lab.clusters[alias].bootstrap, TOPIC, 1)
        producer_id, send = same_next_id(site.settings()), confluent(site.address)
        assert [send(f"x{n}") for n in range(10)] == list(range(10))
        other = confluent(site.lab.clusters["lyon"].bootstrap)
        assert [other(f"y{n}") for n in range(13)] == list(range(13))
        site.file.write_text(f"{site.file.read_text()}topics = {TOPIC}\nreplication.factor = 1\n{INTERNAL}")
        command = [
            sys.executable,
            "-m",
            "drlib.cli",
            "mirror",
            str(site.file),
            "--status",
            str(tmp_path / "status.json"),
        ]
        site.processes["mirror"] = Process(command, tmp_path / "mirror.log")
        wait_for("the mirror kept it", lambda: producer_id in kept_ids(site), 60)
        found = producer_ids_of(site)
        assert (found.entity, found.severity) == (f"producer ID {producer_id}", Severity.WARN), found

        site.lab.clusters["paris"].kill()
        wait_for("it is noticed", lambda: bool(site.notes("open")))
        first, rest = findings_of(site)
        assert (first.entity, first.severity) == (f"producer ID {producer_id}", Severity.WARN), first
        assert (rest.entity, rest.severity) == ("the source", Severity.UNKNOWN), rest
        assert re.search(
            r"checked as of 20[-0-9]+ [0-9:.]+ UTC, when the mirror asked its leaders last", rest.evidence
        ), rest
        said = refuse_collisions(a_place(site, "said"), Flow("paris", "lyon"), planned=False, allowed=False)
        assert re.match(rf"checked as of 20.*: producer ID {producer_id}, epoch 0 on both clusters", said), said
        site.file.write_text(site.file.read_text() + "drlib.producers.redirected = true\n")
        move = a_move(site, "pointer.move")
        with pytest.raises(Deviated, match=rf"stay at paris: producer ID {producer_id}, .* collide = true"):
            move.act(move.changes(move.observe()), Abort(site.root))
        move = a_move(site, "pointer.move", collide=True)
        done = move.act(move.changes(move.observe()), Abort(site.root))
        assert str(done["producer_ids"]).startswith("checked as of 20"), done
        assert [send(f"x{n}") for n in range(10, 20)] == list(range(10, 20)), "all are acknowledged"
        log = [(value or b"").decode() for _, value, _, _ in read_all(site.lab.clusters["lyon"].bootstrap, TOPIC, 1)[0]]
        assert [f"x{n}" for n in range(10, 20) if f"x{n}" not in log] == ["x10", "x11", "x12"]


def test_producers_redirected_to_a_cluster_whose_ids_were_set_apart_lose_nothing(tmp_path: Path) -> None:
    """Both as above, but for the IDs."""
    with a_site(tmp_path, ()) as site:
        for alias in site.lab.aliases:
            create_topic(site.lab.clusters[alias].bootstrap, TOPIC, 3)
        same_next_id(site.settings())
        command = [sys.executable, "-m", "drlib.cli", "producer-ids", str(site.file), "--flow", "paris->lyon"]
        before = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (before.returncode, "They are not 1,000,000 apart" in before.stdout) == (3, True), before
        apart = [*command, "--separate", "--ids", "6000"]
        unnamed = subprocess.run(
            apart, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
        )
        assert (unnamed.returncode, "Give --yes lyon." in unnamed.stderr) == (9, True), unnamed
        done = subprocess.run([*apart, "--yes", "lyon"], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done
        again = subprocess.run([*apart, "--yes", "lyon"], capture_output=True, text=True, timeout=60, check=False)
        assert (again.returncode, "apart: until one has given out as many" in again.stdout) == (0, True), again

        senders = [confluent(site.address, 0), java(site, 1), java_3_9(site, 2)]
        for send in senders:
            assert [send(f"x{n}") for n in range(10)] == list(range(10))
        others = [confluent(site.lab.clusters["lyon"].bootstrap, number) for number in range(3)]
        for other in others:
            assert [other(f"y{n}") for n in range(13)] == list(range(13))
        assert producer_ids_of(site).severity is Severity.OK
        site.lab.clusters["paris"].kill()
        wait_for("it is noticed", lambda: bool(site.notes("open")))
        site.move("lyon")
        for number, (send, other) in enumerate(zip(senders, others, strict=True)):
            assert [send(f"x{n}") for n in range(10, 20)] == list(range(13, 23))
            assert other("y13") == 23
            written = read_all(site.lab.clusters["lyon"].bootstrap, TOPIC, 3)[number]
            log = [str((value or b"").decode()) for _, value, _, _ in written]
            assert log == [*(f"y{n}" for n in range(13)), *(f"x{n}" for n in range(10, 20)), "y13"], number


def java(site: Site, partition: int = 0) -> Send:
    return _java(site, partition, jars.classpath("kafka"))


def java_3_9(site: Site, partition: int = 0) -> Send:
    """With the kafka-clients that Spark's connector brings, which bootstrap again where they are set to."""
    clients = [jar for jar in jars.classpath("spark") if jar.name.startswith("kafka-clients-3.9")]
    assert clients
    others = [jar for jar in jars.classpath("kafka") if not jar.name.startswith("kafka-clients-")]
    return _java(site, partition, [*clients, *others], "metadata.recovery.strategy=rebootstrap")


def _java(site: Site, partition: int, classpath: Sequence[Path], *settings: str) -> Send:
    run = [str(jars.java().path), *JVM, "-cp", os.pathsep.join(map(str, classpath))]
    program = str(ROOT / "tests" / "java" / "LineClient.java")
    command = [*run, program, "produce", site.address, f"{TOPIC}:{partition}", *settings]
    name = f"java-{partition}-{len(classpath)}"
    process = site.processes[name] = Process(command, site.root / f"{name}.log", fed=True)
    return line_client(process)


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


def findings_of(site: Site) -> list[Finding]:
    (found,) = doctor(load_mirror_settings(site.file), runs=site.root / "runs")
    return [each for each in found.findings if each.check == "producer-ids"]


def producer_ids_of(site: Site) -> Finding:
    (finding,) = findings_of(site)
    return finding


def kept_ids(site: Site) -> set[int]:
    """The producer IDs that lyon has of paris, of what the mirror kept."""
    settings = load_mirror_settings(site.file)

    async def read() -> set[int]:
        async with wire_client(settings.clusters["lyon"], client_id="test") as client:
            kept = await read_kept(client, settings.flow("paris", "lyon").policy.journal_topic("paris"))
        return {each.state.producer_id for each in kept.known}

    try:
        return blocking(read())
    except BrokerError:  # the worker has not created the journal, or it has no leader yet
        return set()


def a_place(site: Site, name: str) -> DrillContext:
    run = site.root / name
    run.mkdir(exist_ok=True)
    settings = load_mirror_settings(site.file)
    return DrillContext(clusters=settings.clusters, flow=Flow("paris", "lyon"), run_dir=run, properties=site.file)


def a_move(site: Site, name: str, **arguments: bool) -> Action:
    """A step of a drill that moves the pointer from paris to lyon."""
    return make_action(Call(name, tuple(Argument(*each) for each in arguments.items())), a_place(site, name), "move")


def confluent(servers: str, partition: int = 0) -> Send:
    """With default settings; each record is a batch, and is delivered before the next. Its offset, or the error's name."""
    send = anywhere(servers)
    return lambda value: send(value, partition)


def anywhere(servers: str) -> Callable[[str, int], int | str]:
    """The same, to any partition."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0})

    def send(value: str, partition: int) -> int | str:
        answers: list[int | str] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            answers.append((message.offset() or 0) if error is None else str(error.name()))

        producer.produce(TOPIC, value, partition=partition, on_delivery=delivered)
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
