"""What an incident plays on: a lab with an authorizer, topics, applications that follow pointers, and the mirror LEFT ->
RIGHT.

Rules: every process is in the lab's register, so that any other process finds it and `drlib lab down` ends it. Every
application has a pointer of its own, so that one of them can be left behind. Rates are small: ten processes share a machine
with whoever looks on. Settings of topics are not synced, as a change of retention is part of the play. Not for: what goes
wrong (`planting`), nor what is done about it (`repairs`).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from drlib.client import pointer_file
from drlib.client.pointer import Pointer
from drlib.errors import Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.lab.apps import specs
from drlib.lab.brokers import jvm_log
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
from drlib.mirror.status.worker_status import WorkerStatus
from drlib.model import Flow
from drlib.runs.waiting import look_at, wait_for

FLOW: Final = Flow("LEFT", "RIGHT")
FLIGHTS: Final = TopicSpec("flights", 4)
BOOKINGS: Final = TopicSpec("bookings", 2)
MENUS: Final = TopicSpec("menus", 2)
GATES: Final = TopicSpec("gates", 1)
ON_LEFT: Final = (FLIGHTS, BOOKINGS, MENUS, GATES)
ON_RIGHT: Final = (FLIGHTS, BOOKINGS)  # the standby: where applications would go on
PRODUCERS: Final = ("flights", "bookings")  # each writes the topic of its name
READERS: Final[Mapping[str, str]] = MappingProxyType({"arrivals": "flights", "billing": "bookings"})
KITCHEN: Final = "kitchen"  # a group that reads menus once a night
MIRROR: Final = "mirror-1"
WATCH: Final = "watch"
RATES: Final = MappingProxyType({"flights": 150.0, "bookings": 40.0})
MENU: Final = 200
GUARDED: Final = MappingProxyType(
    {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "log.retention.check.interval.ms": "1000",  # what is due goes within a second, not within five minutes
        "log.segment.delete.delay.ms": "1000",
    }
)
_PATIENCE_S: Final = 90.0


class IncidentTestbed:
    """The processes of one incident on `lab`; histories of its applications are below `folder`."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.folder = folder
        self.applications = LabApplications(lab, folder / "history")

    @property
    def properties(self) -> Path:
        """The mirror's file, as `drlib status` takes it."""
        return self.lab.root / "connect-mirror-maker.properties"

    @property
    def worker(self) -> MirrorWorker:
        return MirrorWorker(self.lab, MIRROR, self.properties, self.lab.root / "mirror-status.json")

    def bootstrap(self, site: str) -> str:
        return self.lab.clusters[site].bootstrap

    def cluster(self, site: str, timeout_s: float = 10.0) -> Cluster:
        return Cluster(self.lab.clusters[site].settings(), timeout_s=timeout_s)

    def greets(self, site: str) -> bool:
        """Does the site's broker take a connection within a second? A client would ask on until its own deadline."""
        host, _, port = self.lab.clusters[site].brokers[0].bootstrap.partition(":")
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            return False
        return True

    def wait(self, what: str, holds: Callable[[], bool], deadline_s: float = _PATIENCE_S) -> None:
        """Raises `Unreachable` naming `what`."""
        wait_for(None, what, holds, deadline_s, look_at(self.lab.root), not_yet=(Unreachable,))

    # -- the beginning -----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Topics, a night's menus, the mirror, applications; returns when all of it works. Raises `Unreachable`,
        `UsageError`."""
        self.refuse_used()
        create_topics(self.bootstrap("LEFT"), ON_LEFT)
        create_topics(self.bootstrap("RIGHT"), ON_RIGHT)
        self.write_properties()
        self.start_mirror()
        self.print_menus(MENU)
        for name in (*PRODUCERS, *READERS):
            pointer_file.write_atomic(self.pointer_path(name), Pointer(1, "LEFT", self.bootstrap("LEFT")))
        for name in PRODUCERS:
            self.applications.start(name, self._producer(name))
        for name, topic in READERS.items():
            self.applications.start(name, self._reader(name, topic))
        self.start_bystander("gates", "gates", "LEFT", "gates")
        everything = (*PRODUCERS, *READERS, "gates")
        self._wait_for_mirror()
        self.wait("every application works", lambda: all(self.applications.done(name) > 3 for name in everything))
        self.wait("group kitchen has read the menus", lambda: self.place_kitchen(end=True))

    def _wait_for_mirror(self) -> None:
        """A worker that ended is started again, as a service manager would. Raises `Unreachable` with its last words: its
        log may go with the lab."""

        def runs() -> bool:
            self.start_mirror()
            return self.mirror_runs()

        try:
            self.wait("the mirror runs", runs)
        except Unreachable as error:
            alive = "lives" if self.worker.runs else "has ended"
            words = jvm_log.tail(self.lab.root / f"{MIRROR}.log", 6).splitlines()
            said = " / ".join(line.strip() for line in words if line.strip()) or "nothing"
            raise Unreachable(error.what, f"{error.why}; the worker {alive} and said: {said}", error.remedy) from error

    def refuse_used(self) -> None:
        """Raises `UsageError` where the lab has been used: records of another game would be counted in this one."""
        with self.cluster("LEFT") as left:
            if found := left.topics([topic.name for topic in ON_LEFT]):
                raise UsageError(
                    f"the lab in {self.lab.root.name} has been used",
                    f"it has a topic {min(found)} already",
                    "Leave the lab to the incident (it starts one), or take that lab down and up.",
                )

    def write_properties(self, *, group_sync: bool = True) -> None:
        """The mirror's file."""
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

    def print_menus(self, count: int) -> None:
        """Raises `Unreachable` when LEFT does not take them."""
        with acknowledged(self.lab.clusters["LEFT"]) as producer:
            for number in range(count):
                producer.produce(MENUS.name, value=b"menu %d" % number, partition=number % MENUS.partitions)

    def place_kitchen(self, *, end: bool) -> bool:
        """Place group kitchen at the end or the start of menus on LEFT."""
        with self.cluster("LEFT") as left:
            positions = left.log_ends(partitions_of(MENUS)) if end else left.log_starts(partitions_of(MENUS))
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
            status=str(self.applications.status_path(name)),
        )

    # -- parts -------------------------------------------------------------------------------------------------------

    def pointer_path(self, name: str) -> Path:
        return self.lab.root / f"{name}.pointer.json"

    def start_mirror(self) -> None:
        """Start the worker where none runs, and return at once."""
        self.worker.start()

    def mirror(self) -> WorkerStatus | None:
        """What the worker last said; None before it said anything."""
        return self.worker.status()

    def mirror_runs(self) -> bool:
        told = self.mirror()
        return self.worker.runs and told is not None and told.state == "running"

    def start_bystander(self, name: str, role: str, site: str, topic: str) -> None:
        """Start one, unless one of that name runs."""
        if not self.applications.runs(name):
            arguments = (role, self.bootstrap(site), topic, str(self.applications.status_path(name)), site)
            self.lab.start_module(name, "drlib.training.incidents.lab.bystander", *arguments)

    def application_names(self) -> tuple[str, ...]:
        """Every application that was started and not taken off the record, in the order it was started."""
        brokers = {broker.name for cluster in self.lab.clusters.values() for broker in cluster.brokers}
        others = {*brokers, MIRROR, WATCH, "proxy"}
        return tuple(record.name for record in self.lab.registry.records() if record.name not in others)

    def point(self, name: str, site: str) -> None:
        """Let application `name` work at `site`. A reader at RIGHT reads the mirror up to where it ends now, then the
        local topic."""
        path = self.pointer_path(name)
        before = pointer_file.read(path)
        if before.active == site:
            return
        prefix, cutover = None, {}
        if site == "RIGHT":
            prefix = "LEFT."
            if name in READERS:
                cutover = self._mirror_ends(READERS[name])
        pointer_file.write_atomic(path, Pointer(before.version + 1, site, self.bootstrap(site), prefix, cutover))

    def _mirror_ends(self, topic: str) -> dict[str, tuple[int, ...]]:
        remote = f"LEFT.{topic}"
        with self.cluster("RIGHT") as right:
            return {remote: tuple(existing_log_ends(right, [remote]).values())}
