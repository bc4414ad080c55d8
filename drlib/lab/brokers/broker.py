"""One real Kafka broker (KRaft, combined broker and controller) as a child process.

Rules: CLIENT is for checkers and drills and never sees a fault; LINK advertises the link proxy, so faults hit only mirrors;
APPS advertises other ports of that proxy, so the lab's applications can lose their network alone; a broker that does not
start is reported with the end of its log; its data directory and its ports are its identity and outlive the process.
Not for: choosing ports or several brokers (`cluster`), faults on the network (`lab.link`).
"""

import base64
import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import javaproperties

from drlib.errors import Unreachable
from drlib.files import cache_folder, read_stored, write_whole
from drlib.lab import jars
from drlib.lab.brokers import class_archive, jvm_log
from drlib.lab.brokers.security import Vault
from drlib.lab.link.link import APPS_LINK
from drlib.lab.processes import ProcessRegistry, wait_until
from drlib.outgoing.environment import child_environment

HOST: Final = "127.0.0.1"
_METADATA_LOG: Final = "__cluster_metadata-0"
_FOREVER_MS: Final = str(2**31 - 1)
_JVM: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
_ONE: Final = ("-Xms256m", "-Xmx512m")
_OF_SEVERAL: Final = ("-Xms128m", "-Xmx384m")  # two clusters of three brokers share a machine with applications
_RESTART_SESSION_MS: Final = 3000  # after SIGKILL a broker can register only when its former session has expired


@dataclass(frozen=True, slots=True)
class BrokerSpec:
    """The identity of a broker. `voters` is controller.quorum.voters; ports are on 127.0.0.1.

    The broker listens for the proxy on `link_port`, the proxy for mirrors on `link_advertised_port`; `apps_port` and
    `apps_advertised_port` are the same for applications, 0 for a lab whose data are older than that listener.
    `internal_port`: the listener between brokers where CLIENT is secured, 0 for CLIENT. `more`: further listeners by name.
    """

    alias: str
    node_id: int
    cluster_id: str
    directory: str
    client_port: int
    link_port: int
    link_advertised_port: int
    controller_port: int
    voters: str
    cluster_size: int
    internal_port: int = 0
    more: dict[str, int] = field(default_factory=dict)
    apps_port: int = 0
    apps_advertised_port: int = 0

    @property
    def name(self) -> str:
        return f"{self.alias}-{self.node_id}"

    @property
    def links(self) -> dict[str, tuple[int, int]]:
        """The proxy's links to this broker: name -> (the port that it listens on, the broker's)."""
        found = {self.name: (self.link_advertised_port, self.link_port)}
        if self.apps_port:
            found[f"{APPS_LINK}{self.name}"] = (self.apps_advertised_port, self.apps_port)
        return found


class BrokerFailed(Unreachable):
    """A broker did not start; `log_tail` is the end of its log, `bind_failed`: another port may help."""

    def __init__(self, what: str, why: str, remedy: str, log_tail: str) -> None:
        super().__init__(what, why, remedy)
        self.log_tail = log_tail

    @property
    def bind_failed(self) -> bool:
        return "BindException" in self.log_tail or "Address already in use" in self.log_tail


def server_properties(spec: BrokerSpec, extra: Mapping[str, str]) -> dict[str, str]:
    """The broker's configuration; `extra` overrides anything in it. Sizes are small: a lab shares one machine."""
    factor = str(min(3, spec.cluster_size))
    minimum = str(min(2, spec.cluster_size))
    others = "".join(f",{name}://{HOST}:{port}" for name, port in spec.more.items())
    others += f",INTERNAL://{HOST}:{spec.internal_port}" if spec.internal_port else ""
    apps = f",APPS://{HOST}:{spec.apps_port}" if spec.apps_port else ""
    apps_advertised = f",APPS://{HOST}:{spec.apps_advertised_port}" if spec.apps_port else ""
    return {
        "process.roles": "broker,controller",
        "node.id": str(spec.node_id),
        "broker.rack": f"rack-{spec.node_id}",
        "controller.quorum.voters": spec.voters,
        "listeners": f"CLIENT://{HOST}:{spec.client_port},LINK://{HOST}:{spec.link_port},"
        f"CONTROLLER://{HOST}:{spec.controller_port}{apps}{others}",
        "advertised.listeners": f"CLIENT://{HOST}:{spec.client_port},LINK://{HOST}:{spec.link_advertised_port}"
        f"{apps_advertised}{others}",
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,LINK:PLAINTEXT,APPS:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "CLIENT",
        "log.dirs": str(Path(spec.directory) / "data"),
        "auto.create.topics.enable": "false",
        "default.replication.factor": factor,
        "min.insync.replicas": minimum,
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": minimum,
        "share.coordinator.state.topic.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": factor,
        "share.coordinator.state.topic.min.isr": minimum,
        "group.initial.rebalance.delay.ms": "0",
        # Of one broker alone it is Kafka's own: fenced, it names no broker (`drlib.kafka.broker_states`).
        "broker.session.timeout.ms": "9000" if spec.cluster_size == 1 else str(_RESTART_SESSION_MS),
        "broker.heartbeat.interval.ms": "500",
        "group.min.session.timeout.ms": "1000",  # a drill should not wait 6 s for a killed consumer
        # The mirror's fence is a producer epoch: a lab that was paused for days must still know it.
        "producer.id.expiration.ms": _FOREVER_MS,
        "transactional.id.expiration.ms": _FOREVER_MS,
        "num.network.threads": "2",
        "num.io.threads": "4",
        "socket.send.buffer.bytes": "-1",  # the kernel tunes them, as a high-latency link needs
        "socket.receive.buffer.bytes": "-1",
        "log.cleaner.dedupe.buffer.size": str(5 * 1024 * 1024),  # of 128 MiB: the heap is 512
        **extra,
    }


class Broker:
    """A handle on one broker of a lab, for any process that reads the lab's state."""

    def __init__(
        self, spec: BrokerSpec, registry: ProcessRegistry, *, die_with_parent: bool, vault: Vault | None = None
    ) -> None:
        self.spec = spec
        self._vault = vault
        self._registry = registry
        self._die_with_parent = die_with_parent

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.spec.client_port}"

    @property
    def link_bootstrap(self) -> str:
        return f"{HOST}:{self.spec.link_advertised_port}"

    @property
    def apps_bootstrap(self) -> str:
        return f"{HOST}:{self.spec.apps_advertised_port or self.spec.client_port}"

    @property
    def internal_bootstrap(self) -> str:
        """The lab's own access: INTERNAL of a secured broker, CLIENT of another."""
        return f"{HOST}:{self.spec.internal_port or self.spec.client_port}"

    @property
    def log(self) -> Path:
        return Path(self.spec.directory) / "broker.log"

    def log_tail(self, lines: int = jvm_log.TAIL_LINES) -> str:
        """The last lines of the broker's log, "" before it wrote any."""
        return jvm_log.tail(self.log, lines)

    def prepare(self, extra: Mapping[str, str]) -> None:
        """Write the configuration, and format the data directory unless it is formatted already."""
        directory = Path(self.spec.directory)
        (directory / "data").mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(directory / "log4j2.properties", jvm_log.configuration("kafka.server"))
        properties = server_properties(self.spec, extra)
        write_whole(directory / "server.properties", _rendered(properties))
        meta = directory / "data" / "meta.properties"
        if meta.exists():
            return
        shutil.copyfile(bootstrap_checkpoint(), directory / "data" / "bootstrap.checkpoint")
        # Last: its existence means that the directory is formatted.
        write_whole(
            meta,
            f"version=1\ncluster.id={self.spec.cluster_id}\nnode.id={self.spec.node_id}\ndirectory.id={new_id()}\n",
        )

    def launch(self, jvm: Sequence[str] | None = None) -> None:
        """Start the process on its data and return at once; `wait_ready` waits for it.

        `jvm`: options of Java in place of those that make its start quick.
        """
        directory = Path(self.spec.directory)
        argv = [
            str(jars.java().path),
            *(_ONE if self.spec.cluster_size == 1 else _OF_SEVERAL),
            *_JVM,
            *(class_archive.flags() if jvm is None else jvm),
            f"-Dlog4j2.configurationFile={directory / 'log4j2.properties'}",
            "-cp",
            os.pathsep.join(map(str, jars.classpath("kafka"))),
            "kafka.Kafka",
            str(directory / "server.properties"),
        ]
        if self.spec.cluster_size == 1 and (directory / "data" / _METADATA_LOG).exists():  # it has run before
            argv += ["--override", f"broker.session.timeout.ms={_RESTART_SESSION_MS}"]
        self._registry.start(
            self.name, argv, log=self.log, cwd=directory, die_with_parent=self._die_with_parent, foreign=True
        )

    def wait_ready(self, deadline_s: float) -> None:
        """Wait until clients see every broker of the cluster through this one.

        Raises `BrokerFailed` when the process ends or `deadline_s` passes first.
        """
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        started = time.monotonic()
        admin: AdminClient | None = None
        while time.monotonic() - started < deadline_s:
            if not self.alive:
                raise self._failed("its process ended")
            if admin is None:
                if not wait_until(self._listening, 0.1):
                    continue
                secured = {} if self._vault is None else self._vault.broker_client()
                admin = AdminClient({"bootstrap.servers": self.internal_bootstrap, "log_level": 0, **secured})
            try:
                if len(admin.list_topics(timeout=1.0).brokers) >= self.spec.cluster_size:
                    return
            except KafkaException:
                continue
            wait_until(lambda: not self.alive, 0.05)
        raise self._failed(f"it did not serve within {deadline_s:g} s")

    @property
    def alive(self) -> bool:
        return self._registry.alive(self.name)

    def kill(self) -> None:
        """SIGKILL, and wait until the process is gone. Data and ports stay for `restart`."""
        self._registry.kill(self.name)

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        self._registry.signal(self.name, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT after `pause`."""
        self._registry.signal(self.name, signal.SIGCONT)

    def stop(self, *, deadline_s: float = 20.0) -> None:
        """A controlled shutdown; SIGKILL at the deadline."""
        self._registry.stop(self.name, deadline_s=deadline_s)

    def restart(self, *, deadline_s: float = 60.0) -> None:
        """Start again on the same data and ports (stopping it first if it runs) and wait until it serves.

        Raises `BrokerFailed` when it does not by `deadline_s`, for example because another process took its port.
        """
        if self.alive:
            self.stop()
        self.launch()
        self.wait_ready(deadline_s)

    def _listening(self) -> bool:
        """Whether the process itself listens on all its ports: they open one after the other, and a broker that serves at one
        ends when another program has the next."""
        configured = javaproperties.loads(read_stored(Path(self.spec.directory) / "server.properties"))
        wanted = {int(listener.rsplit(":", 1)[1]) for listener in configured["listeners"].split(",")}
        return wanted <= self._registry.ports(self.name)

    def _failed(self, why: str) -> BrokerFailed:
        tail = self.log_tail()
        return BrokerFailed(
            f"broker {self.name} did not start",
            f"{why}; the end of its log is:\n{tail or '(it wrote none)'}\n",
            f"Read {self.log}, and check that this machine has 600 MB of memory free",
            tail,
        )


def _rendered(properties: Mapping[str, str]) -> str:
    return str(javaproperties.dumps(properties, timestamp=None))


def new_id() -> str:
    """A random Kafka Uuid in its text form (22 characters of URL-safe base64; org.apache.kafka.common.Uuid)."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):  # Uuid.randomUuid avoids it too: it reads as an option on a command line
            return text


def bootstrap_checkpoint() -> Path:
    """The feature levels of a new 4.3 cluster, written by Kafka's StorageTool once for each user.

    The file (metadata.version, transaction.version, group.version, ...) is the same for every cluster, so each broker
    gets a copy instead of a JVM run of its own. Raises `MissingDependency`, `BrokerFailed`.
    """
    # Not in the store of jars, which users may share and only read.
    made = cache_folder() / f"bootstrap-{jars.KAFKA_VERSION}.checkpoint"
    if made.exists():
        return made
    made.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=made.parent, prefix=".format-") as scratch:
        directory = Path(scratch)
        spec = BrokerSpec("FORMAT", 1, new_id(), scratch, 1, 2, 3, 4, f"1@{HOST}:4", 1)
        config = directory / "server.properties"
        write_whole(config, _rendered(server_properties(spec, {})))
        write_whole(directory / "log4j2.properties", jvm_log.configuration("kafka.server"))
        argv = [
            str(jars.java().path),
            *_JVM,
            f"-Dlog4j2.configurationFile={directory / 'log4j2.properties'}",
            "-cp",
            os.pathsep.join(map(str, jars.classpath("kafka"))),
            *("kafka.tools.StorageTool", "format", "-t", spec.cluster_id, "-c", str(config)),
        ]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False, env=child_environment())
        written = directory / "data" / "bootstrap.checkpoint"
        if done.returncode != 0 or not written.exists():
            raise BrokerFailed(
                "Kafka's StorageTool failed",
                f"it ended with {done.returncode}",
                "Run `make setup` again; its output is above",
                done.stdout + done.stderr,
            )
        written.replace(made)
    return made
