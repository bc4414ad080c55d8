"""The engine as a process between two real clusters: a worker on a properties file of its own, and the two logs compared.

Every test has its own pair of aliases, so that journals, groups and transactional IDs of tests never meet.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from beside import beside
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from deadline import Deadline

from drlib.errors import UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Isolation
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.status import worker_status as status
from drlib.model import TopicPartition as Partition

YOUNG_TOPIC = (  # or one whose leader has just been elected
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError._NOENT,  # no leader is known at all
)

# Of a worker that will be killed: the next one takes over when its session has expired.
SOON_REPLACED = {"drlib.session.timeout.ms": "3000"}

Record = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes], ...], int]


def wait_for(what: str, condition: Callable[..., bool], deadline_s: float = 60.0) -> None:
    """Poll until `condition`; fails with `what` after the deadline."""
    deadline = Deadline(deadline_s)
    while not condition():
        assert not deadline.passed, f"not within {deadline.waited_s:.0f} s: {what}"
        time.sleep(0.05)


def wait_for_markers(bootstrap: str, topic: str, partitions: int) -> None:
    """Wait until no transaction is open: the coordinator answers EndTxn before the markers are in the logs of the topic."""
    logs = [Partition(topic, number) for number in range(partitions)]
    with Cluster(ClusterSettings("CLUSTER", (bootstrap,))) as cluster:
        wait_for(
            f"the markers of the transactions on {topic}",
            lambda: cluster.log_ends(logs, Isolation.READ_COMMITTED) == cluster.log_ends(logs),
        )


def idempotent_producer(bootstrap: str, **settings: str | int) -> Producer:
    """A new one. It is made ahead, when the one before is asked for: its producer ID takes librdkafka half a second."""
    wanted: dict[str, str | int] = {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "reconnect.backoff.max.ms": 200,  # its brokers may have been restarted since it was made
        "log_level": 0,
        **settings,
    }
    key = tuple(sorted(wanted.items()))
    ready = _ahead.pop(key, None)
    _ahead[key] = Producer(wanted)
    for former in list(_ahead)[:-MOST_AHEAD]:
        _ahead.pop(former, None)
    return Producer(wanted) if ready is None else ready


_ahead: dict[tuple[tuple[str, str | int], ...], Producer] = {}
MOST_AHEAD = 4


def create_topic(bootstrap: str, topic: str, partitions: int, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    settings = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result(30)
    _wait_until_led(admin, bootstrap, topic, partitions)


def grow(bootstrap: str, topic: str, partitions: int) -> None:
    """Add partitions to a topic, until it has so many."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(30)
    _wait_until_led(admin, bootstrap, topic, partitions)


def _wait_until_led(admin: AdminClient, bootstrap: str, topic: str, partitions: int) -> None:
    def visible() -> bool:
        found = admin.list_topics(timeout=5).topics.get(topic)
        return found is not None and len(found.partitions) == partitions

    wait_for(f"{topic} is visible", visible)
    wait_for(f"the leaders of {topic} answer", lambda: latest_offsets(bootstrap, topic, partitions) is not None)


def latest_offsets(bootstrap: str, topic: str, partitions: int) -> dict[int, int] | None:
    """The log ends by partition; None while not all leaders answer: a new one learns of it later than who listed the topic."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    # A client that asks for the leaders before it is connected asks again after three seconds: this connects it.
    admin.list_topics(topic, timeout=10)
    wanted = {TopicPartition(topic, p): OffsetSpec.latest() for p in range(partitions)}
    try:
        return {tp.partition: future.result(10).offset for tp, future in admin.list_offsets(wanted).items()}
    except KafkaException as error:
        if error.args[0].code() not in YOUNG_TOPIC:
            raise
        return None


def delete_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.delete_topics([topic])[topic].result(30)


def delete_records(bootstrap: str, topic: str, before: int) -> None:
    """As retention does: partition 0 begins at offset `before` when it returns."""
    below = TopicPartition(topic, 0, before)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.delete_records([below])[below].result(30)


def commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    """Commit partition 0 of `topic` for a group that has no members."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    try:
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def alter(bootstrap: str, topic: str, key: str, value: str) -> None:
    """Set one key of a topic's configuration."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(10)


def produce(
    bootstrap: str,
    topic: str,
    count: int,
    *,
    partitions: int,
    first: int = 0,
    codec: str = "none",
    batch: int = 16384,
    keys: int = 97,
) -> None:
    settings: dict[str, str | int] = {"compression.type": codec, "batch.size": batch, "linger.ms": 5}
    producer = idempotent_producer(bootstrap, **settings)
    for number in range(first, first + count):
        producer.produce(
            topic,
            key=f"k{number % keys}".encode(),
            value=f"{number}".encode() + b"x" * (number % 300),
            headers=[("n", str(number).encode())],
            partition=number % partitions,
        )
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(30) == 0


@contextmanager
def traffic(
    bootstrap: str,
    topic: str,
    *,
    partitions: int,
    first: int = 0,
    count: int = 60,
    batch: int = 4000,
) -> Iterator[None]:
    """`count` records every half second while inside, numbered from `first`."""

    def write(over: threading.Event) -> None:
        at = first
        while not over.wait(0.5):
            produce(bootstrap, topic, count, partitions=partitions, first=at, batch=batch)
            at += count

    with beside(write):
        yield


def read_all(bootstrap: str, topic: str, partitions: int) -> dict[int, list[Record]]:
    """Every committed record of a topic, by partition, in log order."""
    ends: dict[int, int] = {}

    def leaders_answer() -> bool:
        ends.update(latest_offsets(bootstrap, topic, partitions) or {})
        return len(ends) == partitions

    wait_for(f"the leaders of {topic} answer", leaders_answer, 30)
    found: dict[int, list[Record]] = {p: [] for p in range(partitions)}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reader-{uuid.uuid4().hex}",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",  # where the log's first records were deleted
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, p, 0) for p in range(partitions) if ends[p]])
        end = time.monotonic() + 60
        while any(_position(consumer, topic, p) < ends[p] for p in range(partitions) if ends[p]):
            assert time.monotonic() < end, (
                f"{topic} is not read to its ends {ends}; records and positions: "
                f"{[(p, len(found[p]), _position(consumer, topic, p)) for p in ends if ends[p]]}"
            )
            for message in consumer.consume(1000, timeout=0.02):
                assert message.error() is None, message.error()
                found[message.partition()].append(
                    (
                        message.key(),
                        message.value(),
                        tuple(message.headers() or ()),
                        message.timestamp()[1],
                    )
                )
    finally:
        consumer.close()
    return found


def _position(consumer: Consumer, topic: str, partition: int) -> int:
    (at,) = consumer.position([TopicPartition(topic, partition)])
    return int(at.offset)


@dataclass
class Engine:
    """The workers of one flow: started, killed and compared by a test."""

    root: Path
    left: str
    right: str
    source: str
    target: str
    topics: str
    extra: dict[str, str] = field(default_factory=dict)
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def properties(self) -> Path:
        path = self.root / "mm2.properties"
        lines = {
            "clusters": f"{self.source}, {self.target}",
            f"{self.source}.bootstrap.servers": self.left,
            f"{self.target}.bootstrap.servers": self.right,
            f"{self.source}->{self.target}.enabled": "true",
            "topics": self.topics,
            "replication.factor": "1",
            "checkpoints.topic.replication.factor": "1",
            "heartbeats.topic.replication.factor": "1",
            # Brokers are shared, aliases are not: each flow there and back would mirror the heartbeats of all before it.
            "heartbeats.replication.enabled": "false",
            f"{self.target}->{self.source}.emit.heartbeats.enabled": "false",
            "offset-syncs.topic.replication.factor": "1",
            "refresh.topics.interval.seconds": "1",
            "emit.checkpoints.interval.seconds": "1",
            "drlib.session.timeout.ms": "6000",
            **self.extra,
        }
        text = "".join(f"{key} = {value}\n" for key, value in lines.items())
        if not path.exists() or path.read_text() != text:  # another worker may be reading it
            new = path.with_suffix(".new")
            new.write_text(text)
            new.replace(path)
        return path

    def status_path(self, number: int) -> Path:
        return self.root / f"status-{number}.json"

    def start(
        self, *arguments: str, failpoint: str = "", environment: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start another worker, with `arguments` after the file; at `failpoint` it is killed."""
        if failpoint:
            self.extra = SOON_REPLACED | self.extra
        number = len(self.processes)
        variables = {**os.environ, "DRLIB_FAILPOINT": failpoint, **(environment or {})}
        with (self.root / f"worker-{number}.log").open("wb") as log:
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "drlib.cli",
                    "mirror",
                    str(self.properties),
                    "--status",
                    str(self.status_path(number)),
                    *arguments,
                ],
                env=variables,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def log(self) -> str:
        return "\n".join(f"== {p.name}\n{p.read_text()[-6000:]}" for p in sorted(self.root.glob("worker-*.log")))

    def caught_up(self, topic: str, partitions: int, number: int = -1) -> bool:
        """Whether the worker reports that the current records of `topic` on the source are on the target."""
        ends = latest_offsets(self.left, topic, partitions)
        return ends is not None and self._mirrored(topic, ends, number)

    def _mirrored(self, topic: str, ends: Mapping[int, int], number: int) -> bool:
        try:
            state = status.read(self.status_path(number % len(self.processes)))
        except Exception:
            return False
        reported = {p.partition: p.mirrored for f in state.flows for p in f.partitions if p.topic == topic}
        return all(reported.get(p, 0) >= end for p, end in ends.items())

    def wait_caught_up(self, topic: str, partitions: int, number: int = -1, deadline_s: float = 60.0) -> None:
        ends = latest_offsets(self.left, topic, partitions)

        def caught_up() -> bool:
            """The log ends are asked for again where the former ones are mirrored: each question is a client of its own."""
            nonlocal ends
            if ends is not None and not self._mirrored(topic, ends, number):
                return False
            ends = latest_offsets(self.left, topic, partitions)
            return ends is not None and self._mirrored(topic, ends, number)

        try:
            wait_for(f"{topic} is mirrored", caught_up, deadline_s)
            wait_for("nothing is reserved once all is acknowledged", lambda: self.released(number))
        except AssertionError as error:
            reported = self.status_path(number % len(self.processes))
            text = json.dumps(json.loads(reported.read_text()), indent=1) if reported.exists() else "no status"
            raise AssertionError(f"{error}\n{text[:6000]}\n{self.log()}") from None

    def released(self, number: int = -1) -> bool:
        """Whether the worker keeps no record in memory, or has reason to: one that is not acknowledged or may not be sent."""
        state = status.read(self.status_path(number % len(self.processes)))
        waiting = any(p.lag or p.parked for flow in state.flows for p in flow.partitions)
        return waiting or not state.memory.reserved

    def events(self, number: int = -1) -> tuple[status.Event, ...]:
        """The worker's last reported events, open and resolved."""
        try:
            return status.read(self.status_path(number % len(self.processes))).events
        except UsageError:  # none written yet
            return ()

    def reported(self, name: str, entity: str, *, resolved: bool = False, number: int = -1) -> bool:
        """Whether the worker reports this event now, open or resolved."""
        found = [e for e in self.events(number) if e.name == name and e.concerns(entity)]
        is_open = any(e.resolved_ms is None for e in found)  # it may have been open and resolved before
        return bool(found) and is_open != resolved

    def wait_reported(
        self, name: str, entity: str, *, resolved: bool = False, deadline_s: float = 60.0
    ) -> status.Event:
        """Wait until the last worker reports this event; the event."""
        try:
            what = f"{name} of {entity} is {'resolved' if resolved else 'open'}"
            wait_for(what, lambda: self.reported(name, entity, resolved=resolved), deadline_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.events()}\n{self.log()}") from None
        return next(e for e in self.events() if e.name == name and e.concerns(entity))

    def wait_all_resolved(self, deadline_s: float = 20.0) -> None:
        """Wait until no event of the last worker is open."""

        def still_open() -> list[status.Event]:
            return [event for event in self.events() if event.resolved_ms is None]

        try:
            wait_for("every event is resolved", lambda: not still_open(), deadline_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{still_open()}\n{self.log()}") from None

    def stop(self, process: subprocess.Popen[bytes], deadline_s: float = 20.0) -> int:
        process.send_signal(signal.SIGTERM)
        code = process.wait(deadline_s)
        path = self.status_path(self.processes.index(process))
        if code == 0 and path.exists():
            assert not status.read(path).memory.leaked, "memory was reserved when all was acknowledged"
        return code

    def mirror_now(self, *topics: str) -> None:
        """Run a worker until it has caught up with `topics`, of one partition each."""
        worker = self.start()
        for topic in topics:
            self.wait_caught_up(topic, 1)
        assert self.stop(worker) == 0, self.log()

    def assert_same(self, topic: str, partitions: int) -> None:
        """Source and target hold the same records in the same order, none twice."""
        source = read_all(self.left, topic, partitions)
        target = read_all(self.right, f"{self.source}.{topic}", partitions)
        for partition in range(partitions):
            here, there = source[partition], target[partition]
            same = next((i for i, (a, b) in enumerate(zip(here, there, strict=False)) if a != b), None)
            assert same is None, f"partition {partition} differs first at record {same}\n{self.log()}"
            assert len(here) == len(there), f"partition {partition}: {len(here)} became {len(there)}\n{self.log()}"

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait(10)


@pytest.fixture
def engine(left: str, right: str, fresh_topic: Callable[..., str], tmp_path: Path) -> Iterator[Engine]:
    """An engine for one fresh topic name, `engine.topics`, between the session's clusters."""
    tag = uuid.uuid4().hex[:6]
    found = Engine(tmp_path, left, right, f"SRC{tag}", f"DST{tag}", fresh_topic())
    yield found
    found.close()
