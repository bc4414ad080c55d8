"""The testbed of a soak run: two clusters, the workers of one flow, traffic on every kind of topic.

Rules: each cluster has three brokers and an authorizer; the target forgets producers within seconds, so that leaders change
and fences are needed. Each cluster has a proxy of its own, and only the workers connect through it, with a wall clock of
their own. Not for: the faults (`faults`).
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import NewTopic
from fix_authorizer import AUTHORIZER
from fix_engine import Engine, wait_for
from testbed_clock import SHIFT

from drlib.config.settings import load_mirror_settings
from drlib.errors import Unreachable
from drlib.lab.brokers.security import BROKER, LabSecurity
from drlib.lab.lab import Lab
from soak.judge import Log
from soak.logs import admin, scan
from soak.traffic import Traffic

LANES = 3
WORKERS = 2
SESSION_S = 4.0
PLAIN, OLD, TX, LOSSY, AGAIN, COMPACT = "plain", "old", "tx", "lossy", "again", "compact"
GROWING, GUARDED, UNCLEAN = "growing", "guarded", "unclean"  # partitions are added, rights change, leaders lose records
PARTITIONS = {PLAIN: 4, OLD: 2, TX: 2, LOSSY: 2, AGAIN: 2, COMPACT: 1, GROWING: 1, GUARDED: 2, UNCLEAN: 1}  # at first
UNCLEAN_REPLICAS = (1, 2)  # of the source's three brokers, by place
EVER = {"retention.ms": "-1"}
SETTINGS = {
    COMPACT: {
        "cleanup.policy": "compact",
        "segment.ms": "3000",
        "min.cleanable.dirty.ratio": "0.01",
        "min.compaction.lag.ms": "2000",
    },
    UNCLEAN: {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"},
}
BROKERS_LOG_IN = LabSecurity(protocol="PLAINTEXT")  # clients do not: denials concern them alone
SOURCE = {"min.insync.replicas": "2", **AUTHORIZER, "super.users": f"User:{BROKER}"}
FORGETFUL = {
    **SOURCE,
    "producer.id.expiration.ms": "15000",
    "producer.id.expiration.check.interval.ms": "2000",
    "transactional.id.expiration.ms": "120000",
}


def topic(sort: str) -> str:
    return f"soak.{sort}"


def mirror(sort: str) -> str:
    return f"LEFT.soak.{sort}"


def make(servers: str, sort: str, replicas: list[list[int]] | None = None) -> None:
    settings = {**EVER, **SETTINGS.get(sort, {})}
    client = admin(servers)
    if replicas is not None:
        new = NewTopic(topic(sort), len(replicas), replica_assignment=replicas, config=settings)
    else:
        new = NewTopic(topic(sort), PARTITIONS[sort], 3, config=settings)
    client.create_topics([new])[topic(sort)].result(30)


@dataclass
class Testbed:
    root: Path
    source: Lab
    target: Lab
    engine: Engine
    workers: list[subprocess.Popen[bytes]]
    traffic: dict[str, Traffic]
    partitions: dict[str, int] = field(default_factory=lambda: dict(PARTITIONS))
    seen: dict[int, Log] = field(default_factory=lambda: defaultdict(Log))  # of the lossy mirror, before it was deleted
    deleted: dict[int, int] = field(default_factory=dict)  # source offsets of the lossy topic deleted below this
    anomalies: list[str] = field(default_factory=list)  # what no fault explains, as it happened
    expected: set[int] = field(default_factory=set)  # pids of workers that a fault ends
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def left(self) -> str:
        return self.source.clusters["LEFT"].bootstrap

    @property
    def right(self) -> str:
        return self.target.clusters["RIGHT"].bootstrap

    @property
    def journal(self) -> str:
        return load_mirror_settings(self.engine.properties).flow("LEFT", "RIGHT").policy.journal_topic("LEFT")

    def set_clocks(self, ahead_s: float) -> None:
        """Set the wall clocks of all workers, those that run and those that will."""
        new = self.clock.with_suffix(".new")
        new.write_text(str(ahead_s))
        new.replace(self.clock)

    @property
    def clock(self) -> Path:
        return self.root / "clock"

    def start_worker(self, failpoint: str = "") -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(self.root / "clocks"), os.environ.get("PYTHONPATH", "")])
        environment = {"PYTHONPATH": path, "SHIFT_FILE": str(self.clock)}
        return self.engine.start(failpoint=failpoint, environment=environment)

    def reported(self, name: str, entity: str) -> bool:
        """Whether a living worker reports this event as lasting."""
        alive = [n for n, process in enumerate(self.engine.processes) if process.poll() is None]
        return any(self.engine.reported(name, entity, number=n) for n in alive)

    def lab(self, alias: str) -> Lab:
        return self.source if alias == "LEFT" else self.target

    def links(self) -> list[str]:
        return [b.name for lab in (self.source, self.target) for c in lab.clusters.values() for b in c.brokers]

    def end(self, at: int) -> None:
        """SIGKILL a worker."""
        worker = self.workers[at]
        self.expected.add(worker.pid)
        worker.kill()
        worker.wait(10)

    def begin(self, at: int, failpoint: str = "") -> None:
        with self.lock:
            self.workers[at] = self.start_worker(failpoint)
        if failpoint:
            self.expected.add(self.workers[at].pid)

    def just_begun(self, worker: subprocess.Popen[bytes]) -> bool:
        """Has it said nothing yet? Until it listens for SIGTERM, that ends it at once, and nothing is lost by it."""
        return not self.engine.status_path(self.engine.processes.index(worker)).exists()

    def check_workers(self) -> None:
        """Do as a service manager does: others in the places of workers that ended. Note those that nothing ended.

        One that finds no cluster when it starts may end and say so; that is what a service manager is for.
        """
        for at, worker in enumerate(self.workers):
            if worker.poll() is not None:
                if worker.pid not in self.expected and worker.returncode != Unreachable.exit_code:
                    self.anomalies.append(f"worker {at} ended by itself with {worker.returncode}")
                self.begin(at)

    def remember_mirror(self) -> None:
        """Keep what the lossy mirror holds now, before it is deleted."""
        for n, log in scan(self.right, mirror(LOSSY), self.partitions[LOSSY]).items():
            known = self.seen[n].offsets[-1] if len(self.seen[n]) else -1
            for row in log:
                if row[0] > known:
                    self.seen[n].add(*row)

    def close(self) -> None:
        for traffic in self.traffic.values():
            traffic.over.set()
        self.engine.close()


def start_testbed(root: Path, source: Lab, target: Lab, seed: int) -> Testbed:
    """Topics, traffic and workers; returns when the first records have crossed."""
    (root / "engine").mkdir()
    (root / "clocks").mkdir()
    (root / "clocks" / "sitecustomize.py").write_text(SHIFT)
    left, right = source.clusters["LEFT"], target.clusters["RIGHT"]
    extra = {
        "drlib.lanes": str(LANES),
        "drlib.session.timeout.ms": str(int(SESSION_S * 1000)),
        "replication.factor": "3",
        "checkpoints.topic.replication.factor": "3",
        "heartbeats.topic.replication.factor": "3",
        "drlib.journal.replication.factor": "3",
    }
    engine = Engine(root / "engine", left.link_bootstrap, right.link_bootstrap, "LEFT", "RIGHT", r"soak\..*", extra)
    traffic = {}
    for at, sort in enumerate(PARTITIONS):
        unclean = [[left.brokers[place].spec.node_id for place in UNCLEAN_REPLICAS]] if sort == UNCLEAN else None
        make(left.bootstrap, sort, unclean)
        traffic[sort] = Traffic(
            left.bootstrap,
            topic(sort),
            PARTITIONS[sort],
            seed * 10 + at,
            rate=150.0 if sort == PLAIN else 40.0,
            old=sort == OLD,
            transactional=sort == TX,
            keys=7 if sort == COMPACT else 50,
            unsafe=sort == UNCLEAN,
        )
    for each in traffic.values():
        each.start()
    found = Testbed(root, source, target, engine, [], traffic)
    found.set_clocks(0)

    def crossed() -> bool:
        found.check_workers()
        there = admin(right.bootstrap).list_topics(timeout=10).topics
        return all(mirror(sort) in there for sort in PARTITIONS) and len(scan(right.bootstrap, mirror(PLAIN), 4)[0]) > 0

    try:
        found.workers += [found.start_worker() for _ in range(WORKERS)]
        wait_for("the first records have crossed", crossed, 90)
    except BaseException:
        found.close()
        raise
    return found
