"""One scenario for two replicators, drlib's engine as one process or MirrorMaker 2, on the same properties file.

Three one-broker clusters A, B and C are shared by a module. Every test has aliases and topics of its own, so that flows of one
test do not affect another.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from fix_engine import create_topic, produce, read_all, wait_for
from testbed_mm2 import connect_keys

from bench.mirror_maker import MirrorMaker2
from drlib.lab.lab import Lab

CLUSTERS = ("A", "B", "C")
FACTORS = (
    *("replication.factor", "checkpoints.topic.replication.factor", "heartbeats.topic.replication.factor"),
    "offset-syncs.topic.replication.factor",
)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("three"), CLUSTERS) as lab:
        yield lab


@dataclass
class Replicator:
    """Flows between A, B and C, whose aliases carry `tag`; `kind` is "drlib" or "mm2"."""

    kind: str
    root: Path
    bootstraps: dict[str, str]
    tag: str = field(default_factory=lambda: uuid.uuid4().hex[:6])
    worker: subprocess.Popen[bytes] | None = None
    maker: MirrorMaker2 | None = None
    probes: int = 0

    def alias(self, cluster: str) -> str:
        return f"{cluster}{self.tag}"

    def topic(self, name: str = "t") -> str:
        return f"{name}-{self.tag}"

    def remote(self, path: str, name: str = "t", separator: str = ".") -> str:
        """`remote("BA")` is B.A.t: what A's topic is called after it went through B."""
        return separator.join([*map(self.alias, path), self.topic(name)])

    def properties(self, flows: tuple[str, ...], **extra: str) -> Path:
        """A file that runs `flows`, written "AB" for A->B. In `extra`, `__` stands for a period and _ in a key for -."""
        used = [c for c in CLUSTERS if any(c in flow for flow in flows)]
        lines = {
            "clusters": ", ".join(map(self.alias, used)),
            **{f"{self.alias(c)}.bootstrap.servers": self.bootstraps[c] for c in used},
            **{f"{self.alias(flow[0])}->{self.alias(flow[1])}.enabled": "true" for flow in flows},
            "topics": f".*{self.tag}",
            "groups": f".*{self.tag}",
            **dict.fromkeys(FACTORS, "1"),
            **connect_keys(*map(self.alias, used)),
            "refresh.topics.interval.seconds": "1",
            "refresh.groups.interval.seconds": "1",
            "emit.heartbeats.enabled": "false",
            "heartbeats.replication.enabled": "false",
            "emit.checkpoints.enabled": "false",
            "drlib.session.timeout.ms": "6000",
            **{key.replace("__", ".").replace("_", "-"): value for key, value in extra.items()},
        }
        path = self.root / f"{self.kind}.properties"
        path.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
        return path

    def start(self, flows: tuple[str, ...], **extra: str) -> None:
        path = self.properties(flows, **extra)
        if self.kind == "mm2":
            self.maker = MirrorMaker2(self.root / "mm2", path)
            self.maker.start()
            return
        with (self.root / "worker.log").open("wb") as log:
            argv = [sys.executable, "-m", "drlib.cli", "mirror", str(path), "--status", str(self.root / "status.json")]
            self.worker = subprocess.Popen(
                argv, env={**os.environ}, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )

    def log(self) -> str:
        path = self.root / "worker.log"
        return self.maker.log_tail() if self.maker else path.read_text()[-6000:] if path.exists() else ""

    def admin(self, cluster: str) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstraps[cluster], "log_level": 0})

    def names(self, cluster: str) -> set[str]:
        """Every topic of this test there, whatever it came through."""
        found = self.admin(cluster).list_topics(timeout=10).topics
        return {name for name in found if name.endswith(f"-{self.tag}")}

    def make(self, cluster: str, name: str = "t", *, records: int = 600, partitions: int = 2, **config: str) -> None:
        """A topic of `records` that say where they come from."""
        create_topic(self.bootstraps[cluster], self.topic(name), partitions, **config)
        first = 1_000_000 * CLUSTERS.index(cluster)
        produce(self.bootstraps[cluster], self.topic(name), records, partitions=partitions, first=first)

    def wait_same(self, here: tuple[str, str], there: tuple[str, str], partitions: int = 2) -> None:
        """Until the topic (cluster, name) `there` holds what `here` does, record by record in the same order."""

        def same() -> bool:
            if there[1] not in self.admin(there[0]).list_topics(timeout=10).topics:
                return False
            source, target = (read_all(self.bootstraps[c], name, partitions) for c, name in (here, there))
            assert all(target[p] == source[p][: len(target[p])] for p in source), f"{there} is no copy\n{self.log()}"
            return source == target

        try:
            wait_for(f"{there} is {here}", same, 60)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log()}") from None

    def refresh(self, source: str, target: str, times: int = 3) -> set[str]:
        """Let `times` refreshes pass, each seen by a new topic that crosses; returns the names of those topics."""
        made = set()
        for _ in range(times):
            self.probes += 1
            name = f"probe{self.probes}"
            self.make(source, name, records=1, partitions=1)
            made.add(name)
            self.wait_same((source, self.topic(name)), (target, self.remote(source, name)), 1)
        return made

    def stop(self) -> None:
        """In order: everything fetched stands on its target."""
        if self.maker is not None:
            self.maker.stop()
        if self.worker is not None:
            self.worker.send_signal(signal.SIGTERM)
            assert self.worker.wait(20) == 0, self.log()

    def close(self) -> None:
        if self.maker is not None:
            self.maker.kill()
        if self.worker is not None and self.worker.poll() is None:
            self.worker.kill()
            self.worker.wait(10)


@pytest.fixture(params=["drlib", pytest.param("mm2", marks=pytest.mark.mm2)])
def replicator(request: pytest.FixtureRequest, three: Lab, tmp_path: Path) -> Iterator[Replicator]:
    """The same flows under our engine and, marked mm2, under the real MirrorMaker 2."""
    found = Replicator(request.param, tmp_path, {alias: c.bootstrap for alias, c in three.clusters.items()})
    yield found
    found.close()


@pytest.fixture
def ours(three: Lab, tmp_path: Path) -> Iterator[Replicator]:
    """Our engine, for what MirrorMaker 2 does otherwise or not at all."""
    found = Replicator("drlib", tmp_path, {alias: c.bootstrap for alias, c in three.clusters.items()})
    yield found
    found.close()
