"""Clusters paris and lyon that fail over and come back, as a person has them: a properties file beside the lab, and commands.

`a_night` gives both clusters, topic `orders` mirrored from paris to lyon, a group that has read some of it, and the pointer at
paris. `a_shared_night` is the same where both directions copy the topic under one name. Records are numbered by their header
`n`, so that what an application read can be compared with what was written.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer
from fix_engine import commit, create_topic, produce, wait_for
from repository_root import ROOT

import drlib
from drlib import publish_pointer
from drlib.client.pointer_topic import read_pointer
from drlib.config.settings import load_mirror_settings
from drlib.drill.plan.lease_record import LeaseRecord
from drlib.drill.session.unfinished_runs import read_state
from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Range
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.lab import Lab
from drlib.mirror.offsets.map.flow_maps import worker_group
from drlib.mirror.offsets.translation.translate_groups import checkpointed_positions
from drlib.mirror.status import worker_status as status
from drlib.model import Flow, TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.journal import DrillJournal

FLOW = Flow("paris", "lyon")
GROUP, TOPIC, MIRROR, BACK = "billing", "orders", "paris.orders", "lyon.orders"
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
RECORDS, READ = 400, 150
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["testbed_way_back"])


@dataclass
class Night:
    lab: Lab
    file: Path
    written: int = 0  # records so far; the next one has this number
    workers: int = 0

    def settings(self, alias: str) -> ClusterSettings:
        return self.lab.clusters[alias].settings()

    @property
    def runs_dir(self) -> Path:
        return self.file.parent / "runs"

    def cli(self, *arguments: str, code: int = 0, deadline_s: float = 200) -> tuple[list[dict[str, object]], str]:
        """JSON documents and standard error of a command that has to end with `code`."""
        argv = [sys.executable, "-m", "drlib.cli", *arguments, "--json", "--runs-dir", str(self.runs_dir)]
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=deadline_s, check=False, stdin=subprocess.DEVNULL
        )
        assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
        assert "Traceback" not in done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    def started(self, *arguments: str) -> subprocess.Popen[str]:
        """The same as a process that runs."""
        argv = [sys.executable, "-m", "drlib.cli", *arguments, "--json", "--runs-dir", str(self.runs_dir)]
        return subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, stdin=subprocess.DEVNULL
        )

    def write(self, alias: str, count: int) -> range:
        """Write that many records to `orders`; their numbers."""
        first, self.written = self.written, self.written + count
        produce(self.lab.clusters[alias].bootstrap, TOPIC, count, partitions=1, first=first)
        return range(first, self.written)

    def start_worker(self) -> None:
        self.workers += 1
        arguments = ("mirror", str(self.file), "--status", str(self.status_path))
        self.lab.start_module(f"mirror-{self.workers}", "drlib.cli", *arguments)

    @property
    def status_path(self) -> Path:
        """The file that the newest worker writes its status to."""
        return self.file.parent / f"status-{self.workers}.json"

    def kill_worker(self) -> None:
        (pid,) = [p.pid for p in self.lab.status() if p.name == f"mirror-{self.workers}" and p.alive]
        os.kill(pid, signal.SIGKILL)

    def end(self, alias: str, topic: str) -> int:
        """Where the only partition ends; 0 for a topic that is not there."""
        with Cluster(self.settings(alias)) as cluster:
            if topic not in cluster.topics([topic]):
                return 0
            return cluster.log_ends([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]

    def records(self, alias: str) -> int:
        """How many records `orders` has there."""
        partition = TopicPartition(TOPIC, 0)
        with Cluster(self.settings(alias)) as cluster:
            return sum(1 for _ in cluster.read({partition: Range(0, cluster.log_ends([partition])[partition])}))

    def number_at(self, alias: str, offset: int) -> int:
        """The number of the first record of `orders` at or behind an offset there."""
        partition = TopicPartition(TOPIC, 0)
        with Cluster(self.settings(alias)) as cluster:
            end = cluster.log_ends([partition])[partition]
            return int(dict(next(iter(cluster.read({partition: Range(offset, end)}))).headers)["n"] or 0)

    def members(self, flow: Flow) -> int:
        """How many workers of the flow are members of its group."""
        with Cluster(self.settings(flow.target)) as cluster:
            return len(cluster.group_members(worker_group(flow)))

    def state(self, flow: Flow = FLOW) -> LeaseRecord:
        return read_state(self.settings(flow.target), flow)

    @property
    def active(self) -> str:
        pointer = read_pointer([self.settings("lyon")]).pointer
        assert pointer is not None
        return pointer.active

    def leave_a_tail(self, count: int, read_of_it: int) -> range:
        """Paris gets records that are not mirrored, of which the group has read some, and is killed with the worker."""
        self.kill_worker()
        wait_for("the worker is out of its group", lambda: not self.members(FLOW), 60)
        tail = self.write("paris", count)
        commit(self.lab.clusters["paris"].bootstrap, GROUP, TOPIC, self.end("paris", TOPIC) - count + read_of_it)
        self.lab.clusters["paris"].kill()
        return tail


@contextmanager
def _clusters(root: Path, **more: str) -> Iterator[Night]:
    """Both clusters and the file, with the topic on paris."""
    with Lab(root / "lab", ("paris", "lyon")) as lab:
        paris, lyon = lab.clusters["paris"], lab.clusters["lyon"]
        keys = {
            "clusters": "paris, lyon",
            "paris.bootstrap.servers": paris.bootstrap,
            "lyon.bootstrap.servers": lyon.bootstrap,
            "paris->lyon.enabled": "true",
            "paris->lyon.topics": TOPIC,
            "lyon->paris.enabled": "true",
            "lyon->paris.topics": TOPIC,
            "replication.factor": "1",
            "checkpoints.topic.replication.factor": "1",
            "heartbeats.topic.replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "drlib.metrics.address": "127.0.0.1:0",
            "drlib.session.timeout.ms": "6000",
            "emit.checkpoints.interval.seconds": "1",
            "refresh.topics.interval.seconds": "1",
        } | more
        file = root / "mirror.properties"
        file.write_text("".join(f"{key} = {value}\n" for key, value in keys.items()))
        create_topic(paris.bootstrap, TOPIC, 1)
        yield Night(lab, file)


@contextmanager
def a_night(root: Path, **more: str) -> Iterator[Night]:
    with _clusters(root, **more) as night:
        night.write("paris", RECORDS)
        commit(night.lab.clusters["paris"].bootstrap, GROUP, TOPIC, READ)
        night.start_worker()
        _serve(night, MIRROR)
        yield night


@contextmanager
def a_shared_night(root: Path, **more: str) -> Iterator[Night]:
    with _clusters(root, **{"replication.policy.class": IDENTITY} | more) as night:
        create_topic(night.lab.clusters["lyon"].bootstrap, TOPIC, 1)
        night.start_worker()

        def begun() -> bool:
            flows = status.read(night.status_path).flows if night.status_path.exists() else ()
            return len(flows) == 2 and all(any(p.topic == TOPIC for p in flow.partitions) for flow in flows)

        wait_for("both flows copy the topic", begun, 60)  # what is written before is unexplained
        night.write("paris", RECORDS)
        commit(night.lab.clusters["paris"].bootstrap, GROUP, TOPIC, READ)
        _serve(night, TOPIC)
        yield night


def _serve(night: Night, mirror: str) -> None:
    """Wait until all is mirrored; the pointer names paris then."""

    def mirrored() -> bool:
        if night.end("lyon", mirror) < RECORDS or not night.end("lyon", "paris.checkpoints.internal"):
            return False
        return bool(checkpointed_positions(load_mirror_settings(night.file), FLOW))

    wait_for("the mirror and its checkpoints are there", mirrored, 60)
    publish_pointer(night.file, "paris")


@dataclass
class Application(threading.Thread):
    """A consumer that is configured by hand: it reads `topics` in one cluster, and commits each record. `read`: numbers."""

    bootstrap: str
    topics: list[str]
    read: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)
        self._end = threading.Event()

    __hash__ = threading.Thread.__hash__

    def run(self) -> None:
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": GROUP, "auto.offset.reset": "earliest", "log_level": 0}
        )
        consumer.subscribe(self.topics)
        while not self._end.is_set():
            for message in consumer.consume(100, 0.2):
                if message.error() is None:
                    self.read.append(int(dict(message.headers() or ())["n"]))
                    consumer.commit(message, asynchronous=False)
        consumer.close()

    def close(self) -> Counter[int]:
        """What it read, by how often."""
        self._end.set()
        self.join(20)
        return Counter(self.read)


def run_book(folder: Path, file: Path, book: Path, stop_at: str, how: str, **parameters: str) -> None:
    """Run or continue the runbook in `folder`, in this process. Exits with the error's own code.

    `stop_at`: "EVENT STEP", a line of the journal: before that is written the process kills itself, or aborts the run where
    `how` is `abort`. So at `step-succeeded` the step's work is done, and the journal does not say so.
    """
    event, _, step = stop_at.partition(" ")
    whole = DrillJournal.write

    def write(self: DrillJournal, name: str, **data: str | int | float | bool | None) -> None:
        if stop_at and (name, data.get("step", "")) == (event, step):
            if how == "abort":
                Abort(folder).request("a test")
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        whole(self, name, **data)

    setattr(DrillJournal, "write", write)  # noqa: B010
    try:
        approved = ("settle", "go-home")
        with drlib.open_drill(book, folder, properties=file, approve=approved, flow=str(FLOW), **parameters) as drill:
            drill.finish()
    except DrlibError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


def in_process(
    night: Night, book: str | Path, folder: Path, *, stop_at: str = "", how: str = "kill", **parameters: str
) -> int:
    """The exit code of `run_book` in a process of its own, -9 when it was killed."""
    folder.mkdir(parents=True, exist_ok=True)
    path = ROOT / "runbooks" / f"{book}.yaml" if isinstance(book, str) else book
    process = _PROCESSES.Process(
        target=run_book, args=(folder, night.file, path, stop_at, how), kwargs=parameters, daemon=False
    )
    process.start()
    process.join(120)
    assert process.exitcode is not None, "it did not end"
    return process.exitcode
