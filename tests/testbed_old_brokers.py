"""Brokers of older Kafka versions: one combined KRaft broker, or for Kafka 2.x one broker with its ZooKeeper.

Rules: their jars are locked in `old_brokers.lock`, byte for byte, and downloaded at the first use; `make setup` does not
fetch them. `python tests/testbed_old_brokers.py` resolves them again and rewrites the lock.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from drlib.lab import jars
from drlib.lab.ports import free_ports

VERSIONS: Final = ("2.4.1", "2.8.2", "3.9.1", "4.0.0")
LOCK: Final = Path(__file__).with_name("old_brokers.lock")
START_S: Final = 90.0
_JVM: Final = ("-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
_RELOAD4J: Final = "org.slf4j:slf4j-reload4j:1.7.36"  # Kafka before 4.0
_LOG4J2: Final = "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4"
_CLUSTER_ID: Final = "b2xkYnJva2Vyc29mdGVzdA"
_COMMON: Final = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "log.cleaner.dedupe.buffer.size": str(5 * 1024 * 1024),
}


@contextmanager
def old_broker(
    version: str,
    directory: Path,
    extra: Mapping[str, str] | None = None,
    *,
    ports: Sequence[int] = (),
) -> Iterator[str]:
    """A broker of `version` in `directory`; gives its bootstrap address and ends its processes afterwards.

    With `ports`, of the broker and of its ZooKeeper or controller, another broker may continue there: it ends in order.
    """
    wanted = [jar for jar in jars.parse_lock(LOCK.read_text(encoding="utf-8")) if version in jar.kinds]
    assert wanted, f"no jars of Kafka {version} are locked"
    jars.fetch(wanted)
    directory.mkdir(parents=True, exist_ok=True)
    classpath = os.pathsep.join(str(jars.store() / jar.file_name) for jar in wanted)
    _write_logging(directory)
    port, other = ports or free_ports(2)
    address = f"127.0.0.1:{port}"
    properties = {
        **_COMMON,
        "log.dirs": str(directory / "data"),
        "listeners": f"PLAINTEXT://{address}",
        "advertised.listeners": f"PLAINTEXT://{address}",
    }
    if version.startswith("2."):
        properties |= {"broker.id": "1", "zookeeper.connect": f"127.0.0.1:{other}"}
    else:
        properties |= {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{other}",
            "listeners": f"PLAINTEXT://{address},CONTROLLER://127.0.0.1:{other}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
        }
    _write(directory / "server.properties", {**properties, **(extra or {})})
    started: list[subprocess.Popen[bytes]] = []
    try:
        if version.startswith("2."):
            zookeeper = {
                "dataDir": str(directory / "zookeeper"),
                "clientPort": str(other),
                "clientPortAddress": "127.0.0.1",
                "admin.enableServer": "false",
                "maxClientCnxns": "0",
                "tickTime": "500",
            }
            _write(directory / "zookeeper.properties", zookeeper)
            main = ["org.apache.zookeeper.server.quorum.QuorumPeerMain", str(directory / "zookeeper.properties")]
            started.append(_start(directory, classpath, main, "zookeeper.log"))
        else:
            arguments = ["format", "-t", _CLUSTER_ID, "-c", str(directory / "server.properties")]
            formatting = _start(directory, classpath, ["kafka.tools.StorageTool", *arguments], "format.log")
            assert formatting.wait(60) == 0, (directory / "format.log").read_text()
        broker = _start(directory, classpath, ["kafka.Kafka", str(directory / "server.properties")], "broker.log")
        started.append(broker)
        _wait_until_it_serves(address, broker, directory / "broker.log")
        yield address
        if ports:
            broker.terminate()
            broker.wait(60)
    finally:
        for process in reversed(started):
            process.send_signal(signal.SIGKILL)
            process.wait(20)


def _wait_until_it_serves(address: str, broker: subprocess.Popen[bytes], log: Path) -> None:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    end = time.monotonic() + START_S
    while True:
        assert broker.poll() is None, log.read_text()[-6000:]
        assert time.monotonic() < end, log.read_text()[-6000:]
        try:
            if admin.list_topics(timeout=1.0).brokers:
                return
        except KafkaException:
            continue


def _start(directory: Path, classpath: str, arguments: Sequence[str], log: str) -> subprocess.Popen[bytes]:
    logging = [f"-Dlog4j.configuration=file:{directory}/log4j.properties"]
    logging.append(f"-Dlog4j2.configurationFile={directory}/log4j2.properties")
    with (directory / log).open("ab") as out:
        return subprocess.Popen(
            [
                str(jars.java().path),
                *_JVM,
                *logging,
                "-Dzookeeper.jmx.log4j.disable=true",
                "-cp",
                classpath,
                *arguments,
            ],
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=directory,
            start_new_session=True,
        )


def _write(path: Path, properties: Mapping[str, str]) -> None:
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), encoding="utf-8")


def _write_logging(directory: Path) -> None:
    layout = "org.apache.log4j.PatternLayout"
    pattern = "[%d] %p %m (%c)%n"
    first = {
        "log4j.rootLogger": "WARN, out",
        "log4j.appender.out": "org.apache.log4j.ConsoleAppender",
        "log4j.appender.out.layout": layout,
        "log4j.appender.out.layout.ConversionPattern": pattern,
    }
    _write(directory / "log4j.properties", first)
    second = {
        "appender.out.type": "Console",
        "appender.out.name": "out",
        "appender.out.layout.type": "PatternLayout",
        "appender.out.layout.pattern": pattern,
        "rootLogger.level": "warn",
        "rootLogger.appenderRef.out.ref": "out",
    }
    _write(directory / "log4j2.properties", second)


def main() -> None:
    kinds: dict[str, set[str]] = {}
    for version in VERSIONS:
        backend = _LOG4J2 if version.startswith("4.") else _RELOAD4J
        for coordinate in [*jars.resolve([f"org.apache.kafka:kafka_2.13:{version}"]), *jars.resolve([backend])]:
            kinds.setdefault(coordinate, set()).add(version)
    LOCK.write_text(jars.render_lock(jars.pin(kinds)), encoding="utf-8")


if __name__ == "__main__":
    main()
