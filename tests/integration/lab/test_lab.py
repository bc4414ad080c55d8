"""A lab comes up, can be attached to and controlled from elsewhere, survives kill -9, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from repository_root import ROOT

from drlib.config.settings import load_mirror_settings
from drlib.errors import UsageError
from drlib.lab import jars
from drlib.lab.brokers import broker as brokers
from drlib.lab.brokers import class_archive, record_classes
from drlib.lab.brokers.broker import BrokerFailed
from drlib.lab.lab import Lab
from drlib.lab.ports import free_ports
from drlib.lab.processes import wait_until

LabFactory = Callable[..., Lab]


def create_topic(bootstrap: str, topic: str, factor: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})  # held: its futures fail when it is collected
    admin.create_topics([NewTopic(topic, 1, factor)])[topic].result(timeout=30)


def produce(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0


def read(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False, "log_level": 0}
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [message.value() or b"" for message in consumer.consume(count, timeout=30)]
    finally:
        consumer.close()


def cluster_id(bootstrap: str) -> str:
    return str(AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=10).cluster_id)


def runs(pid: int) -> bool:
    """An orphan that ended may be a zombie for as long as init takes to collect it; that one does not run."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def elsewhere(program: str, root: Path) -> str:
    """Run `program` in a process of its own, with the lab's folder as argv[1]; what it printed."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; from pathlib import Path; from drlib.lab.lab import Lab\n{program}",
            str(root),
        ],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def healthy_link(lab: Lab) -> Iterator[Lab]:
    """The shared lab, whose link is whole again whatever the test does to it."""
    yield lab
    lab.proxy.clear()


def test_lab_up_serves_both_listeners(lab: Lab, fresh_topic: Callable[[str], str]) -> None:
    for cluster in lab.clusters.values():
        topic = fresh_topic("orders")
        create_topic(cluster.bootstrap, topic)
        produce(cluster.link_bootstrap, topic, [b"a", b"b"])
        assert read(cluster.bootstrap, topic, 2) == [b"a", b"b"]
        assert read(cluster.link_bootstrap, topic, 2) == [b"a", b"b"]
        assert cluster_id(cluster.bootstrap) == cluster.cluster_id
    assert lab.clusters["LEFT"].cluster_id != lab.clusters["RIGHT"].cluster_id


def test_lab_link_fault_is_not_seen_on_client_listener(healthy_link: Lab, fresh_topic: Callable[[str], str]) -> None:
    left = healthy_link.clusters["LEFT"]
    topic = fresh_topic("orders")
    create_topic(left.bootstrap, topic)
    healthy_link.proxy.set("LEFT", cut=True)
    produce(left.bootstrap, topic, [b"a"])
    assert read(left.bootstrap, topic, 1) == [b"a"]
    client = AdminClient({"bootstrap.servers": left.link_bootstrap, "log_level": 0})
    with pytest.raises(KafkaException):
        client.list_topics(timeout=1)

    healthy_link.proxy.set("LEFT", cut=False, delay_ms=150)

    assert client.list_topics(timeout=10).brokers
    start = time.monotonic()
    client.list_topics(timeout=10)
    assert time.monotonic() - start >= 0.3


def test_broker_maps_the_archive_of_its_classes(lab_factory: LabFactory) -> None:
    record_classes.record()  # none, where `make setup` has recorded it
    (broker,) = lab_factory(("ONE",)).status()[-1:]
    assert str(class_archive.archive()) in Path(f"/proc/{broker.pid}/maps").read_text()
    assert "Unable to use shared archive" not in broker.log.read_text()


def test_lab_new_cluster_has_storage_tool_features(lab: Lab) -> None:
    said = subprocess.run(
        [
            *(str(jars.java().path), "-cp", os.pathsep.join(map(str, jars.classpath("kafka")))),
            "org.apache.kafka.tools.FeatureCommand",
            *("--bootstrap-server", lab.clusters["LEFT"].bootstrap, "describe"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    levels = {}
    for line in said.splitlines():
        words = line.replace("\t", " ").split()
        if words[:1] == ["Feature:"]:
            levels[words[1]] = words[words.index("FinalizedVersionLevel:") + 1]
    # The defaults of release 4.3 (KIP-584, KIP-1022): what `kafka-storage.sh format` finalizes without options.
    assert levels["metadata.version"] == "4.3-IV0"
    assert levels["transaction.version"] == "2"
    assert levels["group.version"] == "1"
    assert levels["eligible.leader.replicas.version"] == "1"


def test_lab_ports_are_on_loopback(lab: Lab) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # a datagram socket sends nothing here; it only picks the outward address
        outward = probe.getsockname()[0]
    assert outward != "127.0.0.1"
    for broker in lab.clusters["LEFT"].brokers:
        for port in (broker.spec.client_port, broker.spec.link_port, broker.spec.link_advertised_port):
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            with pytest.raises(OSError, match="refused"):
                socket.create_connection((outward, port), timeout=5)


def test_lab_write_properties_names_link_and_loads(lab: Lab, tmp_path: Path) -> None:
    path = lab.write_properties(tmp_path / "mm2.properties", topics=r"flights\..*", **{"LEFT->RIGHT.groups": "g1, g2"})
    settings = load_mirror_settings(path)
    for alias, cluster in lab.clusters.items():
        assert ",".join(settings.clusters[alias].bootstrap_servers) == cluster.link_bootstrap
    (flow,) = [flow for flow in settings.flows if flow.enabled]
    assert str(flow.flow) == "LEFT->RIGHT"
    assert (flow.lanes, flow.emit_checkpoints_s, flow.sync_group_offsets) == (2, 1, False)
    assert flow.topics == (r"flights\..*",)
    assert flow.groups == ("g1", "g2")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_lab_down_leaves_no_process_and_no_folder(tmp_path: Path) -> None:
    root = tmp_path / "lab"
    said: list[str] = []
    lab = Lab(root, on_event=said.append)
    with lab:
        pids = [status.pid for status in lab.status()]
        assert len(pids) == 3
        assert all(runs(pid) for pid in pids)
        secret = [
            path for path in root.rglob("*") if path.suffix in (".json", ".properties") and "data" not in path.parts
        ]
        assert len(secret) >= 3
        assert {stat.S_IMODE(path.stat().st_mode) for path in secret} == {0o600}
        assert stat.S_IMODE(root.stat().st_mode) == 0o700
        with pytest.raises(UsageError, match="up already"):
            Lab(root).up()
        assert all(status.alive for status in lab.status())
    assert not any(runs(pid) for pid in pids)
    assert not root.exists()
    lab.down()
    assert any("LEFT serves" in line for line in said)
    assert any("RIGHT serves" in line for line in said)


def test_lab_foreign_folder_is_neither_used_nor_removed(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    lab = Lab(tmp_path)
    with pytest.raises(UsageError, match=r"holds thesis\.txt"):
        lab.up()
    lab.down()
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


@pytest.mark.long
def test_cluster_killed_and_restarted_keeps_data_id_and_ports(
    lab_factory: LabFactory, fresh_topic: Callable[[str], str]
) -> None:
    lab = lab_factory(("ONE",))
    one = lab.clusters["ONE"]
    topic, bootstrap = fresh_topic("orders"), one.bootstrap
    create_topic(bootstrap, topic)
    produce(bootstrap, topic, [b"%d" % i for i in range(100)])

    one.kill()

    assert not one.alive
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", one.brokers[0].spec.client_port), timeout=5)

    one.restart()

    assert one.bootstrap == bootstrap
    assert cluster_id(bootstrap) == one.cluster_id
    assert read(one.link_bootstrap, topic, 100) == [b"%d" % i for i in range(100)]
    assert brokers.server_properties(one.brokers[0].spec, {})["producer.id.expiration.ms"] == str(2**31 - 1)


def test_broker_paused_is_silent_and_resumes(lab_factory: LabFactory) -> None:
    lab = lab_factory(("ONE",))
    one = lab.clusters["ONE"]
    client = AdminClient({"bootstrap.servers": one.bootstrap, "log_level": 0})
    assert client.list_topics(timeout=10).brokers
    pid = lab.status()[-1].pid
    one.pause()
    assert wait_until(lambda: lab.status()[-1].paused, 5)
    with pytest.raises(KafkaException):
        client.list_topics(timeout=1)
    one.resume()
    assert client.list_topics(timeout=30).brokers
    assert lab.status()[-1].pid == pid


def test_lab_attach_from_another_process_controls_it(
    lab_factory: LabFactory, fresh_topic: Callable[[str], str]
) -> None:
    lab = lab_factory(("ONE",))
    one = lab.clusters["ONE"]
    topic = fresh_topic("orders")
    create_topic(one.bootstrap, topic)
    produce(one.bootstrap, topic, [b"kept"])
    before = {status.name: status.pid for status in lab.status()}

    said = elsewhere(
        "lab = Lab.attach(Path(sys.argv[1])); one = lab.clusters['ONE']; one.kill(); print(one.alive); one.restart()\n"
        "lab.proxy.set(delay_ms=7); print(one.bootstrap, one.link_bootstrap, one.cluster_id)",
        lab.root,
    )

    assert said == f"False\n{one.bootstrap} {one.link_bootstrap} {one.cluster_id}\n"
    assert one.alive, "what was restarted outlives the process that did it"
    assert {link.requests.delay_ms for link in lab.proxy.links()} == {7}
    assert read(one.bootstrap, topic, 1) == [b"kept"]
    after = {status.name: status.pid for status in lab.status()}
    assert after["proxy"] == before["proxy"]
    assert after["ONE-1"] != before["ONE-1"]

    elsewhere("Lab.attach(Path(sys.argv[1])).down()", lab.root)

    assert not one.alive
    assert not lab.root.exists()
    lab.down()
    assert not any(runs(pid) for pid in (*before.values(), *after.values()))


def test_lab_that_two_processes_start_at_once_is_started_by_one_and_serves_both(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from drlib.lab.lab import Lab; print('ready', flush=True); input()\n"
        "lab, started = Lab.attach_or_up(Path(sys.argv[1]), ('ONE',), needed=('ONE',), detach=True)\n"
        "print(started, lab.clusters['ONE'].bootstrap)\n"
    )
    argv = [sys.executable, "-c", program, str(tmp_path / "lab")]
    both = [subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        assert [one.stdout.readline() for one in both if one.stdout] == ["ready\n"] * 2
        for one in both:
            assert one.stdin
            one.stdin.write("go\n")
            one.stdin.flush()
        said = [one.communicate(timeout=120)[0] for one in both]
        assert [one.returncode for one in both] == [0, 0]
        (bootstrap,) = {text.split()[1] for text in said}
        assert sorted(text.split()[0] for text in said) == ["False", "True"]
        assert cluster_id(bootstrap)
    finally:
        Lab.attach(tmp_path / "lab").down()


def test_store_of_jars_that_users_share_is_only_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRLIB_JARS", str(jars.store()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = sorted(jars.store().iterdir())
    made = brokers.bootstrap_checkpoint()
    assert (made.parent, made.stat().st_size > 0) == (tmp_path / "drlib", True)
    assert sorted(jars.store().iterdir()) == before


@pytest.mark.long
def test_lab_up_after_down_keep_uses_kept_data(tmp_path: Path, fresh_topic: Callable[[str], str]) -> None:
    topic = fresh_topic("orders")
    first = Lab(tmp_path / "lab", ("ONE",), extra={"message.max.bytes": "2000"})
    try:
        first.up()
        bootstrap, link, identity = (
            first.clusters["ONE"].bootstrap,
            first.clusters["ONE"].link_bootstrap,
            first.clusters["ONE"].cluster_id,
        )
        create_topic(bootstrap, topic)
        produce(bootstrap, topic, [b"kept"])
        first.down(keep=True)
        assert first.status() == ()
        with Lab(tmp_path / "lab") as second:
            one = second.clusters["ONE"]
            assert (one.bootstrap, one.link_bootstrap, one.cluster_id) == (bootstrap, link, identity)
            assert read(one.link_bootstrap, topic, 1) == [b"kept"]
            assert "message.max.bytes=2000" in (second.root / "ONE-1" / "server.properties").read_text()
    finally:
        first.down()


@pytest.mark.long
def test_lab_detached_outlives_its_starter(tmp_path: Path) -> None:
    for detach in (True, False):
        root = tmp_path / f"lab-{detach}"
        program = f"lab = Lab(Path(sys.argv[1]), ('ONE',), detach={detach}).up()\nprint(*(s.pid for s in lab.status()))"
        pids = [int(word) for word in elsewhere(program, root).split()]
        lab = Lab.attach(root)
        try:
            if detach:
                assert all(status.alive for status in lab.status())
            else:
                assert wait_until(lambda lab=lab: not any(status.alive for status in lab.status()), 5)  # type: ignore[misc]
        finally:
            lab.down()
        assert not any(runs(pid) for pid in pids)


def test_lab_up_failed_broker_is_explained_and_leaves_nothing(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", ("ONE",), extra={"log.cleaner.dedupe.buffer.size": "1"})
    with pytest.raises(BrokerFailed, match=r"log\.cleaner") as failure:
        lab.up()
    assert failure.value.retriable
    assert lab.status() == ()
    with pytest.raises(UsageError, match="no lab"):
        Lab.attach(lab.root)
    lab.down()
    assert not lab.root.exists()


def test_cluster_port_taken_moves_to_new_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from drlib.lab.brokers import cluster as clusters

    with socket.create_server(("127.0.0.1", 0)) as taken:
        choose = free_ports
        calls: list[tuple[int, ...]] = []

        def unlucky(count: int) -> tuple[int, ...]:
            ports = choose(count)
            calls.append(ports)
            # Another process takes the LINK port between the choice and the start.
            return (ports[0], taken.getsockname()[1], *ports[2:]) if len(calls) == 1 else ports

        monkeypatch.setattr(clusters, "free_ports", unlucky)
        with Lab(tmp_path / "lab", ("ONE",)) as lab:
            one = lab.clusters["ONE"]
            assert len(calls) == 2
            assert one.brokers[0].spec.link_port == calls[1][1]
            assert cluster_id(one.link_bootstrap) == one.cluster_id
            assert Lab.attach(lab.root).clusters["ONE"].bootstrap == one.bootstrap


@pytest.mark.long
def test_cluster_of_three_survives_loss_of_one(lab_factory: LabFactory, fresh_topic: Callable[[str], str]) -> None:
    lab = lab_factory(("ONE",), brokers=3)
    one = lab.clusters["ONE"]
    topic = fresh_topic("orders")
    create_topic(one.bootstrap, topic, factor=3)
    produce(one.bootstrap, topic, [b"a"])
    one.brokers[0].kill()
    produce(one.bootstrap, topic, [b"b"])
    assert read(one.link_bootstrap, topic, 2) == [b"a", b"b"]
    one.brokers[0].restart()
    assert one.alive


def test_lab_status_reports_killed_process(lab_factory: LabFactory) -> None:
    lab = lab_factory(("ONE",))
    status = lab.status()[-1]
    assert status.name == "ONE-1"
    os.kill(status.pid, signal.SIGKILL)
    assert wait_until(lambda: not lab.status()[-1].alive, 5)
    assert lab.status()[-1].log.read_text()
