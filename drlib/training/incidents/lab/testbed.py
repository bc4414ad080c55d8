"""The testbed of an incident: a lab with an authorizer, topics, applications that follow pointers, and the mirror LEFT ->
RIGHT.

Rules: every process is in the lab's registry, so that any process finds it and `drlib lab down` ends it. Every application
has its own pointer, so that one of them can be left behind. Rates are small, because ten processes share a machine with its
user. Topic configurations are not synchronized, because a change of retention is one of the faults.
Not for: faults (`inject`), nor moves (`moves`).
"""

import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from drlib.client import pointer_file
from drlib.client.pointer import Pointer
from drlib.drill.readiness.role import Role
from drlib.drill.testbed.lab_roles import grant_roles
from drlib.errors import Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import librdkafka
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.apps import specs
from drlib.lab.brokers import jvm_log
from drlib.lab.brokers.security import MODES, LabSecurity
from drlib.lab.lab import Lab
from drlib.lab.workload.applications import LabApplications
from drlib.lab.workload.mirrors import MirrorWorker
from drlib.lab.workload.topics import (
    TopicSpec,
    acknowledged,
    create_topics,
    existing_log_ends,
    partitions_of,
    place_group,
)
from drlib.model import Flow
from drlib.runs.waiting import look_at, wait_for
from drlib.training.incidents.lab.java_application import CATERING, READS, JavaApplication

FLOW: Final = Flow("LEFT", "RIGHT")
FLIGHTS: Final = TopicSpec("flights", 4)
BOOKINGS: Final = TopicSpec("bookings", 2)
MENUS: Final = TopicSpec("menus", 2)
GATES: Final = TopicSpec("gates", 1)
ON_LEFT: Final = (FLIGHTS, BOOKINGS, MENUS, GATES)
ON_RIGHT: Final = (FLIGHTS, BOOKINGS)  # standby topics, for the applications after a failover
PRODUCERS: Final = ("flights", "bookings")  # each writes the topic of its name
READERS: Final[Mapping[str, str]] = MappingProxyType({"arrivals": "flights", "billing": "bookings"})
VOUCHERS: Final = TopicSpec("vouchers", 1)
LOADERS: Final = ("loyalty", "lounges")  # write vouchers in the incidents that have them
KITCHEN: Final = "kitchen"  # a group that reads menus once a night
MIRROR: Final = "mirror-1"
WATCH: Final = "watch"
RATES: Final = MappingProxyType({"flights": 150.0, "bookings": 40.0})
MENU: Final = 200
CHECKED: Final = "log.retention.check.interval.ms"
DELETED: Final = "log.segment.delete.delay.ms"
GUARDED: Final = MappingProxyType(
    {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        CHECKED: "1000",  # retention is checked every second instead of every five minutes
        DELETED: "1000",
    }
)
TLS: Final[LabSecurity] = MODES["tls"]  # where a certificate can be the fault
JAVA_LEVELS: Final = frozenset(
    {6}
)  # whose labs have the Java application: its JVM costs what two other applications cost
HISTORY: Final = "history"
_PATIENCE_S: Final = 90.0


class IncidentTestbed:
    """The processes of one incident on `lab`; the applications' histories are in `folder`."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.folder = folder
        self.applications = LabApplications(lab, folder / HISTORY)
        self.java = JavaApplication(lab, self.pointer_path(CATERING), self.applications.history_path(CATERING))

    @property
    def properties(self) -> Path:
        """The mirror's file, for `drlib status`."""
        return self.lab.root / "connect-mirror-maker.properties"

    @property
    def worker(self) -> MirrorWorker:
        return MirrorWorker(self.lab, MIRROR, self.properties, self.lab.root / "mirror-status.json")

    def bootstrap(self, site: str) -> str:
        return self.lab.clusters[site].bootstrap

    def settings(self, site: str) -> ClusterSettings:
        """How clients reach a site."""
        return self.lab.clusters[site].settings()

    def client(self, site: str) -> Mapping[str, object]:
        """librdkafka's configuration of a client of a site."""
        return {**librdkafka(self.settings(site)), "log_level": 0}

    def cluster(self, site: str, timeout_s: float = 10.0) -> Cluster:
        return Cluster(self.settings(site), timeout_s=timeout_s)

    def answers(self, site: str) -> bool:
        """Report whether the site's broker accepts a connection within a second; a Kafka client would retry for longer."""
        host, _, port = self.lab.clusters[site].brokers[0].bootstrap.partition(":")
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            return False
        return True

    def wait(self, what: str, holds: Callable[[], bool], deadline_s: float = _PATIENCE_S) -> None:
        """Wait until `holds`; raises `Unreachable` with `what` after `deadline_s` seconds."""
        wait_for(None, what, holds, deadline_s, look_at(self.lab.root), not_yet=(Unreachable,))

    # -- start -------------------------------------------------------------------------------------------------------

    def start(self, *, java: bool = False) -> None:
        """Topics, a night's menus, the mirror, applications; returns when all of it works. `java`: the Java application too,
        where this machine can run it. Raises `Unreachable`, `UsageError`."""
        self.refuse_used_lab()
        self._check_retention_often()
        create_topics(self.settings("LEFT"), ON_LEFT)
        create_topics(self.settings("RIGHT"), ON_RIGHT)
        self.write_properties()
        self.worker.launch()
        self.write_menus(MENU)
        for name in (*PRODUCERS, *READERS):
            pointer_file.write_atomic(self.pointer_path(name), Pointer(1, "LEFT", self.bootstrap("LEFT")))
        if java and not self.java.missing():
            self.java.place("LEFT")
        everything = (*PRODUCERS, *READERS, GATES.name)
        for name in (*everything, CATERING):
            self.start_application(name)
        self._wait_for_mirror()
        if self.java.present:
            self.wait(f"{CATERING} works", lambda: self.applications.processed(CATERING) > 3)
        self.wait("every application works", lambda: all(self.applications.done(name) > 3 for name in everything))
        self.wait("group kitchen is at the end of menus", self.move_kitchen_group_to_end)

    def _check_retention_often(self) -> None:
        """Restart LEFT if it checks retention less often than the labs of incidents do: what expires would not be seen."""
        with self.cluster("LEFT") as left:
            often = left.broker_config().get(CHECKED) == GUARDED[CHECKED]
        if not often:
            self.lab.reconfigure("LEFT", {name: GUARDED[name] for name in (CHECKED, DELETED)})

    def _wait_for_mirror(self) -> None:
        """Wait for the worker, and restart it if it ends, as a service manager would.

        Raises `Unreachable` with the end of its log, because the log may be deleted with the lab.
        """

        def runs() -> bool:
            self.worker.launch()
            return self.mirror_runs()

        try:
            self.wait("the mirror runs", runs)
        except Unreachable as error:
            state = "runs" if self.worker.runs else "has ended"
            lines = jvm_log.tail(self.lab.root / f"{MIRROR}.log", 6).splitlines()
            log = " / ".join(line.strip() for line in lines if line.strip()) or "empty"
            raise Unreachable(error.what, f"{error.why}; the worker {state}, its log: {log}", error.remedy) from error

    def refuse_used_lab(self) -> None:
        """Raises `UsageError` if the lab has been used: records of another incident would be counted."""
        with self.cluster("LEFT") as left:
            if topics := left.topics([topic.name for topic in ON_LEFT]):
                raise UsageError(
                    f"the lab in {self.lab.root.name} has been used",
                    f"it has a topic {min(topics)} already",
                    "Leave --lab-dir (lab_dir) out to start a new lab, or restart this one: drlib lab down, drlib lab up",
                )

    def write_properties(self, *, group_sync: bool = True) -> None:
        """Write the mirror's file, and on a lab with roles grant it what that file needs. Raises `KafkaException`."""
        self.lab.write_properties(
            self.properties,
            topics="|".join(topic.name for topic in ON_LEFT),
            **{
                "sync.group.offsets.enabled": str(group_sync).lower(),
                "sync.group.offsets.interval.seconds": "1",
                "sync.topic.configs.enabled": "false",
                "drlib.session.timeout.ms": "3000",
                "drlib.open.transaction.warning.seconds": "3",
                "drlib.lanes": "1",
            },
        )
        if self.lab.operator:
            grant_roles({Role.MIRROR: self.properties}, FLOW, self.lab.clusters)

    def write_menus(self, count: int) -> None:
        """Write `count` menus to LEFT. Raises `Unreachable` if they are not acknowledged."""
        with acknowledged(self.lab.clusters["LEFT"]) as producer:
            for number in range(count):
                producer.produce(MENUS.name, value=b"menu %d" % number, partition=number % MENUS.partitions)

    def move_kitchen_group_to_end(self) -> bool:
        """Commit the end offsets of menus on LEFT for group kitchen."""
        with self.cluster("LEFT") as left:
            positions = left.log_ends(partitions_of(MENUS))
        return place_group(self.lab.clusters["LEFT"], KITCHEN, positions)

    def _producer(self, name: str) -> specs.ProducerSpec:
        return specs.ProducerSpec(
            pointer=str(self.pointer_path(name)),
            history=str(self.applications.history_path(name)),
            topic=name,
            records_per_second=RATES[name],
            status=str(self.applications.status_path(name)),
        )

    def _reader(self, name: str, topic: str) -> specs.ConsumerSpec:
        return specs.ConsumerSpec(
            pointer=str(self.pointer_path(name)),
            history=str(self.applications.history_path(name)),
            group=name,
            topic=topic,
            refresh_topics_s=2.0,
            parse=True,
            status=str(self.applications.status_path(name)),
        )

    # -- parts -------------------------------------------------------------------------------------------------------

    def pointer_path(self, name: str) -> Path:
        return self.lab.root / f"{name}.pointer.json"

    def mirror_runs(self) -> bool:
        status = self.worker.status()
        return self.worker.runs and status is not None and status.state == "running"

    def start_application(self, name: str) -> bool:
        """Start an application of this incident; False if it runs, or does not belong to it."""
        if self.applications.runs(name):
            return False
        if name in PRODUCERS:
            return self.applications.start(name, self._producer(name))
        if name in READERS:
            return self.applications.start(name, self._reader(name, READERS[name]))
        if name == GATES.name:
            self.start_side_application(name, "gates", "LEFT", name)
            return True
        if name == CATERING:
            return self.java.start()
        if name in LOADERS and self.pointer_path(name).exists():
            files = (self.applications.history_path(name), self.applications.status_path(name))
            files[1].unlink(missing_ok=True)
            arguments = (str(self.pointer_path(name)), VOUCHERS.name, *map(str, files), *self._client_file)
            self.lab.start_module(name, "drlib.training.incidents.lab.loader", *arguments)
            return True
        return False

    def start_loader(self, name: str, site: str) -> None:
        """Start one of `LOADERS` with an address that leads to `site`."""
        pointer_file.write_atomic(self.pointer_path(name), Pointer(1, site, self.bootstrap(site)))
        self.start_application(name)

    def start_side_application(self, name: str, role: str, site: str, topic: str) -> None:
        """Start a side application unless one of that name runs."""
        if not self.applications.runs(name):
            status = str(self.applications.status_path(name))
            arguments = (role, self.bootstrap(site), topic, status, site, *self._client_file)
            self.lab.start_module(name, "drlib.training.incidents.lab.side_application", *arguments)

    @property
    def _client_file(self) -> tuple[str, ...]:
        """The argument of applications where clients need TLS."""
        file = self.lab.client_file()
        return () if file is None else (str(file),)

    def application_names(self) -> tuple[str, ...]:
        """Every application in the lab's registry, in the order in which they were started."""
        brokers = {broker.name for cluster in self.lab.clusters.values() for broker in cluster.brokers}
        others = {*brokers, MIRROR, WATCH, "proxy"}
        return tuple(record.name for record in self.lab.registry.records() if record.name not in others)

    def stop_application(self, name: str) -> None:
        """SIGTERM, and wait for its end."""
        if name == CATERING:
            self.java.stop()
        else:
            self.lab.registry.stop(name)

    def stop_all(self) -> None:
        """Stop what `start` and the watch have started; the brokers stay up. Safe to repeat."""
        self.lab.registry.stop(WATCH)
        self.stop_writers()

    def stop_writers(self) -> None:
        """Stop the applications and the mirror."""
        for name in (*self.application_names(), MIRROR):
            self.stop_application(name)

    def readers(self) -> Mapping[str, str]:
        """Every group that an application of this lab commits to, with the topic that it reads."""
        return {**READERS, **({CATERING: READS} if self.java.present else {})}

    def move_application(self, name: str, site: str) -> None:
        """Move application `name` to `site`, unless it works there."""
        if name == CATERING:
            self.java.move(site)
        elif (pointer := self.pointer_to(name, site)) is not None:
            pointer_file.write_atomic(self.pointer_path(name), pointer)

    def pointer_to(self, name: str, site: str) -> Pointer | None:
        """The pointer that moves application `name` to `site`; None if it works there. A reader on RIGHT reads the mirror
        topic up to its current end, then the local topic."""
        before = pointer_file.read(self.pointer_path(name))
        if before.active == site:
            return None
        prefix, cutover = None, {}
        if site == "RIGHT":
            prefix = "LEFT."
            if name in READERS:
                cutover = self._mirror_ends(READERS[name])
        return Pointer(before.version + 1, site, self.bootstrap(site), prefix, cutover)

    def _mirror_ends(self, topic: str) -> dict[str, tuple[int, ...]]:
        remote = f"LEFT.{topic}"
        with self.cluster("RIGHT") as right:
            return {remote: tuple(existing_log_ends(right, [remote]).values())}
