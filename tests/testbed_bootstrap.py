"""Unmodified clients at one bootstrap address, and what each reads or writes on which cluster, with the time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from fix_engine import create_topic, wait_for
from repository_root import ROOT

from drlib.client.pointer import Pointer
from drlib.client.pointer_copies import read_copies
from drlib.client.pointer_topic import publish
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab import jars
from drlib.lab.lab import Lab

EVERY_S = 0.1
JVM = ("-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


class Process:
    """A child whose lines of standard output are kept with the time at which each was read."""

    def __init__(self, command: Sequence[str], log: Path, *, fed: bool = False) -> None:
        self.lines: list[tuple[float, str]] = []
        with log.open("ab") as errors:
            self.child = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.PIPE if fed else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.child.stdout is not None
        for line in self.child.stdout:
            self.lines.append((time.monotonic(), line.decode(errors="replace").rstrip("\n")))

    def stop(self) -> None:
        if self.child.poll() is None:
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait(10)
        self._reader.join(10)
        for stream in (self.child.stdout, self.child.stdin):
            if stream is not None:
                stream.close()


@dataclass(frozen=True)
class Client:
    """`library` java, java-3.9.1, confluent, kafka-python or aiokafka; `settings` in its own spelling, default ones without."""

    library: str
    role: str
    settings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return "-".join(
            (self.library.replace(".", ""), self.role, *(f"set{len(self.settings)}" for _ in self.settings[:1]))
        )

    def command(self, servers: str) -> list[str]:
        if not self.library.startswith("java"):
            program = [sys.executable, str(ROOT / "tests" / "bootstrap_client.py")]
            return [*program, self.library, self.role, servers, self.name, self.name, *self.settings]
        classpath = os.pathsep.join(map(str, _jars(self.library)))
        if self.library != "java":
            client = [str(jars.java().path), *JVM, "-cp", classpath, str(ROOT / "tests" / "java" / "LineClient.java")]
            group = [f"group.id={self.name}", "auto.offset.reset=earliest"] if self.role == "consume" else []
            return [*client, self.role, servers, self.name, *group, *self.settings]
        tools = "org.apache.kafka.tools"
        main = f"{tools}.consumer.ConsoleConsumer" if self.role == "consume" else f"{tools}.ConsoleProducer"
        role = ["--group", self.name, "--from-beginning"] if self.role == "consume" else []
        java = [str(jars.java().path), *JVM, "-cp", classpath, main]
        return [*java, "--bootstrap-server", servers, "--topic", self.name, *role]


def _jars(library: str) -> Sequence[Path]:
    version = library.removeprefix("java").removeprefix("-")
    if not version:
        return jars.classpath("kafka")
    from testbed_old_brokers import LOCK

    wanted = [jar for jar in jars.parse_lock(LOCK.read_text(encoding="utf-8")) if version in jar.kinds]
    jars.fetch(wanted)
    return [jars.store() / jar.file_name for jar in wanted]


@dataclass
class Site:
    """Two clusters, the bootstrap address, and its clients."""

    lab: Lab
    root: Path
    file: Path
    processes: dict[str, Process] = field(default_factory=dict)
    address: str = ""
    ended: threading.Event = field(default_factory=threading.Event)

    def settings(self, *aliases: str) -> list[ClusterSettings]:
        return [ClusterSettings(alias, (self.lab.clusters[alias].bootstrap,)) for alias in aliases or self.lab.aliases]

    def start_address(self, *more: str) -> None:
        if "bootstrap" in self.processes:
            self.processes.pop("bootstrap").stop()
        command = [
            sys.executable,
            "-m",
            "drlib.cli",
            "bootstrap",
            str(self.file),
            "--listen",
            self.address or "127.0.0.1:0",
        ]
        log = self.root / "bootstrap.log"
        seen = log.stat().st_size if log.exists() else 0
        process = self.processes["bootstrap"] = Process([*command, "--log-format", "json", *more], log)
        wait_for("it listens", lambda: process.child.poll() is not None or bool(self.notes("listening", seen)))
        (note, *_) = self.notes("listening", seen)
        self.address = str(note["detail"]).removeprefix("at ").partition(",")[0]

    def notes(self, status: str, since: int = 0) -> list[dict[str, Any]]:
        """Lines of the bootstrap address's log."""
        text = (self.root / "bootstrap.log").read_bytes()[since:].decode()
        rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        return [row for row in rows if row["status"] == status]

    def start(self, client: Client) -> None:
        for alias in self.lab.aliases:
            if self.lab.clusters[alias].alive:
                create_topic(self.lab.clusters[alias].bootstrap, client.name, 1)
        self.restart(client)

    def restart(self, client: Client) -> None:
        if client.name in self.processes:
            self.processes.pop(client.name).stop()
        fed = client.library.startswith("java") and client.role == "produce"
        process = Process(client.command(self.address), self.root / f"{client.name}.log", fed=fed)
        self.processes[client.name] = process
        if fed:
            threading.Thread(target=self._feed, args=(client.name, process), daemon=True).start()

    def _feed(self, name: str, process: Process) -> None:
        """Write numbered lines to a console producer."""
        number = 0
        while not self.ended.wait(EVERY_S) and process.child.poll() is None and process.child.stdin is not None:
            try:
                process.child.stdin.write(f"{name}-{number}\n".encode())
                process.child.stdin.flush()
            except (OSError, ValueError):
                return
            number += 1

    def move(self, alias: str) -> float:
        """Publish the next pointer where a cluster answers; the moment at which it is there."""
        living = self.settings(*(alias for alias in self.lab.aliases if self.lab.clusters[alias].alive))
        version = read_copies(living).next_version
        publish(living, Pointer(version, alias, self.lab.clusters[alias].bootstrap))
        return time.monotonic()

    def read(self, client: Client, prefix: str, since: float = 0.0) -> float | None:
        """When a consumer printed a value that begins with `prefix`, first at `since` or later."""
        lines = list(self.processes[client.name].lines)
        return next((at for at, line in lines if at >= since and line.startswith(prefix)), None)

    def stop(self) -> None:
        self.ended.set()
        for process in self.processes.values():
            process.stop()


@contextmanager
def records_to(site: Site, alias: str, clients: Sequence[Client]) -> Iterator[None]:
    """Records `alias-N` for the consumers, written to a cluster directly."""
    ended = threading.Event()
    topics = [client.name for client in clients if client.role == "consume"]
    servers = site.lab.clusters[alias].bootstrap

    def write() -> None:
        producer = Producer({"bootstrap.servers": servers, "log_level": 0, "message.timeout.ms": 5000})
        number = 0
        while not ended.wait(EVERY_S):
            for topic in topics:
                producer.produce(topic, f"{alias}-{number}".encode())
            producer.poll(0)
            number += 1
        producer.flush(1)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(30)


@contextmanager
def arrivals(site: Site, alias: str, clients: Sequence[Client]) -> Iterator[Callable[[Client], list[float]]]:
    """When records of each producer were read on a cluster, read there directly."""
    topics = [client.name for client in clients if client.role == "produce"]
    seen: dict[str, list[float]] = {topic: [] for topic in topics}
    ended = threading.Event()
    servers = site.lab.clusters[alias].bootstrap

    def read() -> None:
        consumer = Consumer(
            {"bootstrap.servers": servers, "group.id": "watch", "log_level": 0, "fetch.wait.max.ms": 50}
        )
        consumer.assign([TopicPartition(topic, 0, 0) for topic in topics])
        while not ended.is_set():
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                seen[str(message.topic())].append(time.monotonic())
        consumer.close()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield lambda client: seen[client.name]
    finally:
        ended.set()
        thread.join(30)


@contextmanager
def a_site(root: Path, clients: Sequence[Client]) -> Iterator[Site]:
    """paris and lyon, the pointer at paris, and `clients` that read and write there through the address."""
    with Lab(root / "lab", ("paris", "lyon")) as lab:
        file = root / "mm2.properties"
        addresses = "".join(f"{alias}.bootstrap.servers = {c.bootstrap}\n" for alias, c in lab.clusters.items())
        file.write_text(f"clusters = paris, lyon\n{addresses}paris->lyon.enabled = true\n")
        site = Site(lab, root, file)
        site.move("paris")
        try:
            site.start_address("--state", str(root / "state.json"))
            with ExitStack() as stack:
                for client in clients:
                    site.start(client)
                stack.enter_context(records_to(site, "paris", clients))
                written = stack.enter_context(arrivals(site, "paris", clients))
                for client in clients:
                    if client.role == "consume":
                        wait_for(
                            f"{client.name} reads", lambda client=client: site.read(client, "paris-") is not None, 90
                        )
                    else:
                        wait_for(f"{client.name} writes", lambda client=client: len(written(client)) > 3, 90)
                yield site
        finally:
            site.stop()
