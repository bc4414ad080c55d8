"""`drlib failover` on clusters named paris and lyon: paris is killed and the command dies in the middle.

The same command again continues to a verdict; a third time it is done already.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from fix_engine import commit, create_topic, produce, wait_for

from drlib import publish_pointer
from drlib.client.pointer_topic import read_pointer
from drlib.config.settings import load_mirror_settings
from drlib.drill.assessment.observe import next_step
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.lab import Lab
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions
from drlib.model import Flow
from drlib.runs import journal
from drlib.runs.journal import JOURNAL

FLOW = Flow("paris", "lyon")
READ, ALL = 30, 50


@dataclass
class Night:
    lab: Lab
    folder: Path
    file: Path

    @property
    def lyon(self) -> ClusterSettings:
        return ClusterSettings("lyon", (self.lab.clusters["lyon"].bootstrap,))

    def argv(self, *more: str) -> list[str]:
        return [sys.executable, "-m", "drlib.cli", "failover", str(self.file), *more]

    def failover(self, *more: str, code: int) -> str:
        done = subprocess.run(
            self.argv(*more),
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        said = done.stdout + done.stderr
        assert done.returncode == code, said[-6000:]
        assert "Traceback" not in said
        return said

    def runs(self) -> list[Path]:
        return sorted((self.folder / "runs").glob("*")) if (self.folder / "runs").exists() else []

    def active(self) -> str:
        pointer = read_pointer([self.lyon]).pointer
        return "" if pointer is None else pointer.active


@pytest.fixture
def night(tmp_path: Path) -> Iterator[Night]:
    lab = Lab(tmp_path / "clusters", ("paris", "lyon"), detach=True)
    try:
        lab.up()
        paris, lyon = lab.clusters["paris"].bootstrap, lab.clusters["lyon"].bootstrap
        folder = tmp_path / "own"
        folder.mkdir()
        keys = {
            "clusters": "paris, lyon",
            "paris.bootstrap.servers": paris,
            "lyon.bootstrap.servers": lyon,
            "paris->lyon.enabled": "true",
            "paris->lyon.topics": "orders",
            "lyon->paris.enabled": "false",
            "lyon->paris.emit.heartbeats.enabled": "false",
            "replication.factor": "1",
            "checkpoints.topic.replication.factor": "1",
            "heartbeats.topic.replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "drlib.metrics.address": "127.0.0.1:0",
            "emit.checkpoints.interval.seconds": "1",
        }
        file = folder / "mm2.properties"
        file.write_text("".join(f"{key} = {value}\n" for key, value in keys.items()))
        create_topic(paris, "orders", 1)
        produce(paris, "orders", ALL, partitions=1)
        commit(paris, "billing", "orders", READ)
        lab.start_module("mirror", "drlib.cli", "mirror", str(file))

        def checkpointed() -> bool:
            with Cluster(ClusterSettings("lyon", (lyon,))) as cluster:
                if len(cluster.topics(["paris.orders", "paris.checkpoints.internal"])) < 2:
                    return False
            return bool(checkpointed_positions(load_mirror_settings(file), FLOW))

        wait_for("the group's position is on lyon", checkpointed)
        publish_pointer(file, "paris")
        yield Night(lab, folder, file)
    finally:
        lab.down()


class Application(threading.Thread):
    """A consumer of group billing that is configured by hand once the pointer names lyon."""

    def __init__(self, night: Night) -> None:
        super().__init__(daemon=True)
        self._night, self._end, self.read = night, threading.Event(), list[int]()

    def run(self) -> None:
        while self._night.active() != "lyon":
            if self._end.wait(0.3):
                return
        address = ",".join(self._night.lyon.bootstrap_servers)
        consumer = Consumer({"bootstrap.servers": address, "group.id": "billing", "auto.offset.reset": "earliest"})
        consumer.subscribe(["paris.orders", "orders"])
        while not self._end.is_set():
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                self.read.append(int(dict(message.headers() or ())["n"]))
                consumer.commit(message, asynchronous=False)
        consumer.close()

    def close(self) -> None:
        self._end.set()
        self.join(20)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_failover_killed_and_repeated_continues_to_a_verdict_and_is_done_then(night: Night) -> None:
    assert "Use a planned switchover" in night.failover("--yes", "lyon", code=3)
    night.lab.clusters["paris"].kill()
    assert "Give --yes lyon" in night.failover(code=9)
    assert night.active() == "paris"
    assert night.runs() == []

    nothing = subprocess.DEVNULL
    first = subprocess.Popen(
        night.argv("--yes", "lyon"), cwd=night.folder, stdin=nothing, stdout=nothing, stderr=nothing
    )

    def translating() -> bool:
        assert first.poll() is None, "it ended before it was killed"
        paths = [run / JOURNAL for run in night.runs() if (run / JOURNAL).exists()]
        return any(line.data.get("step") == "drain" for path in paths for line in journal.read(path))

    wait_for("the first run is under way", translating, 90)
    os.kill(first.pid, signal.SIGKILL)
    first.wait(20)
    (run,) = night.runs()
    said = night.failover("--yes", "lyon", "--fault-at", "2026-01-01T00:00:00Z", code=2)
    assert f"run {run.name} is unfinished and continues with the same parameters: no --fault-at" in said
    assert f"--fault-at 2026-01-01T00:00:00Z --supersede {run.name}" in said
    application = Application(night)
    application.start()
    try:
        said = night.failover("paris->lyon", "--json", "--yes", "lyon", code=0)
        wait_for("the application has read the rest", lambda: len(application.read) >= ALL - READ)
    finally:
        application.close()
    documents = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assessment, result = documents[0], documents[-1]
    assert (assessment["event"], assessment["next"], assessment["run"]) == ("assessment", "continue", run.name)
    assert assessment["next_step"] in ("drain", "translate", "topics", "move", "verify")
    assert assessment["gate"] == "open"
    assert [(g["group"], g["continues"], g["re_reads"]) for g in assessment["groups"]] == [("billing", "exactly", 0)]
    assert assessment["loss"]["records"] == 0
    (changes,) = [each for each in documents if each["event"] == "applications"]
    address = ",".join(night.lyon.bootstrap_servers)
    assert [(g["group"], g["bootstrap"], g["subscribe"]) for g in changes["groups"]] == [
        ("billing", address, ["paris.orders", "orders"])
    ]
    assert [p["topic"] for p in changes["producers"]] == ["orders"]
    assert [e["seen"] for e in documents if e["event"] == "application" and e["name"] == "billing"][-1] == "served"
    assert (result["exit_code"], result["run"]) == (0, str(run))
    assert Path(result["report"]).exists()
    assert sorted(application.read) == list(range(READ, ALL))
    assert next_step(run) == ""
    assert night.active() == "lyon"
    with Cluster(night.lyon) as cluster:
        assert "orders" in cluster.topics(["orders"])

    again = night.failover("--yes", "lyon", code=0)
    assert "DONE" in again
    assert "is failed over" in again
    assert night.runs() == [run]
