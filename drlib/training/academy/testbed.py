"""The lab as lessons use it: topics, groups and a mirror worker that are named by the attempt.

Rules: every attempt has its own names (`l1-3fa2-orders`), so nothing of an earlier attempt is left and brokers need not be
new. `prepare` deletes what earlier attempts created, repairs the link and starts killed clusters, within seconds. Records
are numbered, and a record's partition is its number modulo the partitions, so writing can be interrupted anywhere and
continued. Journals of flows are kept: other users of the lab may need them.
Not for: what a lesson teaches, nor points.
"""

import re
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import javaproperties

from drlib import decoding
from drlib.config.replication_policy import IDENTITY
from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.errors import Unreachable, UsageError
from drlib.files import write_whole
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Isolation, Range, Record
from drlib.kafka.admin.errors import GroupNotEmpty
from drlib.lab import clocks
from drlib.lab.brokers.security import LabSecurity
from drlib.lab.lab import PROXY, Lab
from drlib.lab.processes import wait_until
from drlib.lab.workload.mirrors import POLICY, LabMirrors, partition_statuses, refuse_other_workers
from drlib.lab.workload.topics import TopicSpec, acknowledged, create_topics, log_ends, place_group
from drlib.mirror.offsets.map.flow_maps import worker_group
from drlib.mirror.status.worker_status import PartitionStatus
from drlib.model import Flow, TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.waiting import wait_on_lab

FORWARD: Final = Flow("LEFT", "RIGHT")
# Matches topics and groups of any attempt, and mirror topics of such topics.
ATTEMPT_NAMES: Final = re.compile(r"(^|[.-])l[0-8]-[0-9a-f]{4}-")
WORKER: Final = "lesson-"
_OWN_CONFIGS: Final = {"sync.topic.configs.enabled": "false"}  # those of mirror topics are the lesson's
_KEEPS_NAMES: Final = {"replication.policy.class": IDENTITY}
HISTORY: Final = ".jsonl"
KEYS: Final = 20
LANES: Final = 2
CHECKED: Final = "log.retention.check.interval.ms"
# Retention is checked every second instead of every five minutes.
FAST_RETENTION: Final = {CHECKED: "1000", "log.initial.task.delay.ms": "1000"}
A_LESSON: Final = "a lesson"
TIMEOUT_S: Final = 60.0
_PACE_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class LessonLab:
    """The clusters that a lesson needs. `beside`: the end of the name of its own lab's folder, beside the learner's."""

    flow: Flow = FORWARD
    beside: str = ""
    security: LabSecurity | None = None

    @property
    def aliases(self) -> tuple[str, str]:
        return self.flow.source, self.flow.target

    def folder(self, lab_dir: Path) -> Path:
        """Where it is, for a learner's `lab_dir`."""
        path = lab_dir.absolute()
        return path.with_name(f"{path.name}{self.beside}") if self.beside else path


@dataclass(frozen=True, slots=True)
class LessonTestbed:
    """The lab in one attempt at `lesson`, such as L1.

    `keeps_names`: its topics are mirrored in both directions under one name, by one worker.
    """

    lab: Lab
    lesson: str
    tag: str
    keeps_names: bool = False

    @property
    def prefix(self) -> str:
        return f"{self.lesson.lower()}-{self.tag}-"

    def name(self, short: str) -> str:
        """The name of a topic or group in this attempt."""
        return f"{self.prefix}{short}"

    def copy(self, topic: str, flow: Flow = FORWARD) -> str:
        """The name of the mirror topic of `topic` on the flow's target."""
        return topic if self.keeps_names else POLICY.remote_topic(flow.source, topic)

    def cluster(self, alias: str, timeout_s: float = 15.0) -> Cluster:
        """Open the cluster at the address that applications use; a context manager."""
        return Cluster(self.lab.clusters[alias].settings(), timeout_s=timeout_s)

    def mirror(self, flow: Flow = FORWARD) -> LabMirrors:
        """The worker that mirrors this attempt's topics over `flow`; where names are kept, in both directions."""
        flows = (FORWARD, FORWARD.reverse) if self.keeps_names else (flow,)
        name = f"{WORKER}{self.prefix}{'both' if self.keeps_names else flow.source.lower()}"
        keys = {**_OWN_CONFIGS, **(_KEEPS_NAMES if self.keeps_names else {})}
        return LabMirrors(self.lab, name, f"{re.escape(self.prefix)}.*", flows, positions=True, lanes=LANES, keys=keys)

    @property
    def workers(self) -> tuple[str, ...]:
        """The names of the processes that mirror in this attempt."""
        return self.mirror().name, self.mirror(FORWARD.reverse).name

    def ended(self, aliases: Iterable[str]) -> dict[str, int]:
        """By name the pids of processes that have ended and were not stopped: the link's proxy, brokers of `aliases`, workers.

        0 for a broker that is not among the lab's processes.
        """
        known = {process.name: process for process in self.lab.status()}
        serving = [PROXY, *(broker.name for alias in aliases for broker in self.lab.clusters[alias].brokers)]
        missing = {name: 0 for name in serving if name not in known}
        named = [known[name] for name in (*serving, *self.workers) if name in known]
        return missing | {process.name: process.pid for process in named if not process.alive}

    @property
    def file(self) -> Path:
        """A connect-mirror-maker.properties of this attempt, with addresses and, of a secured lab, a login."""
        path = self.lab.root / f"{WORKER}{self.prefix}clusters.properties"
        if not path.exists():
            lines = {
                "clusters": "LEFT, RIGHT",
                **{f"{alias}.bootstrap.servers": self.lab.clusters[alias].bootstrap for alias in ("LEFT", "RIGHT")},
                f"{FORWARD}.enabled": "true",
                "topics": f"{re.escape(self.prefix)}.*",
                "groups": f"{re.escape(self.prefix)}.*",
                **({f"{FORWARD.reverse}.enabled": "true", **_KEEPS_NAMES} if self.keeps_names else {}),
                **self.lab.mirror_keys(("LEFT", "RIGHT"), "CLIENT"),
            }
            write_whole(path, javaproperties.dumps(lines, timestamp=None))
        return path

    @property
    def settings(self) -> MirrorSettings:
        return load_mirror_settings(self.file)

    def create_topic(self, alias: str, topic: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
        """Create the topic unless it exists."""
        create_topics(self.lab.clusters[alias].settings(), [TopicSpec(topic, partitions, dict(config or {}))])

    def write(
        self,
        alias: str,
        topic: str,
        numbers: Iterable[int],
        *,
        partitions: int = 2,
        per_second: float | None = None,
        value_bytes: int = 0,
    ) -> None:
        """Write the records `numbers` in this order, except those that are in the topic; return when all are acknowledged.

        `per_second`: pace of the records written now. `value_bytes`: minimum length of a value.
        """
        ends = self.end_offsets(alias, topic)
        counts, sent, started = [0] * partitions, 0, time.monotonic()
        with acknowledged(self.lab.clusters[alias]) as producer:
            for number in numbers:
                partition = number % partitions
                counts[partition] += 1
                if counts[partition] <= ends[partition]:
                    continue
                while per_second and sent > (time.monotonic() - started) * per_second:
                    self.abort.wait(_PACE_S)
                value = f"order {number}".ljust(value_bytes)
                producer.produce(topic, value=value, key=f"key {number % KEYS}", partition=partition)
                producer.poll(0)
                sent += 1

    def write_missing(self, alias: str, topic: str, numbers: Iterable[int]) -> None:
        """Write those of the orders `numbers` that are not in the topic, which has one partition.

        With the headers that the lab's clients write into their histories.
        """
        there = {record.value for record in self.read(alias, topic)}
        with acknowledged(self.lab.clusters[alias]) as producer:
            for number in numbers:
                if (value := b"order %d" % number) not in there:
                    headers: list[tuple[str, str | bytes | None]] = [("id", value), ("n", b"0")]
                    producer.produce(topic, value=value, key=f"key {number % KEYS}", partition=0, headers=headers)
                    producer.poll(0)

    def probe_is_mirrored(self, topic: str, seconds: float) -> bool:
        """Write a record to `topic`, which has one partition; report whether it is mirrored within `seconds`."""
        count = sum(self.end_offsets(FORWARD.source, topic)) + 1
        self.write(FORWARD.source, topic, range(count), partitions=1)
        copy = self.copy(topic)
        return wait_until(lambda: len(self.read(FORWARD.target, copy)) >= count, seconds)

    def wait_no_worker(self, flow: Flow = FORWARD) -> None:
        """Wait until the worker group of `flow` is empty: a killed worker is a member until its session times out."""
        with self.cluster(flow.target) as target:
            self.wait(f"no worker mirrors {flow}", lambda: not target.group_members(worker_group(flow)))

    def end_offsets(self, alias: str, topic: str) -> list[int]:
        """The end offset of each partition; empty if the topic does not exist."""
        return list(log_ends(self.lab.clusters[alias], [topic]).values())

    def log_bounds(self, alias: str, topic: str) -> tuple[list[int], list[int]]:
        """Log start offset and end offset of each partition."""
        with self.cluster(alias) as cluster:
            return self._bounds(cluster, topic)

    def read(self, alias: str, topic: str) -> list[Record]:
        """Read all committed records, in order within each partition; none if the topic does not exist."""
        with self.cluster(alias) as cluster:
            starts, ends = self._bounds(cluster, topic)
            pairs = zip(starts, ends, strict=True)
            wanted = {
                TopicPartition(topic, n): Range(start, end) for n, (start, end) in enumerate(pairs) if end > start
            }
            return list(cluster.read(wanted, Isolation.READ_COMMITTED)) if wanted else []

    def positions(self, alias: str, group: str) -> dict[TopicPartition, int]:
        """The committed offsets of `group`."""
        with self.cluster(alias) as cluster:
            return {partition: position.offset for partition, position in cluster.group_offsets(group).items()}

    def commit(self, alias: str, group: str, positions: Mapping[TopicPartition, int]) -> None:
        """Commit `positions` for `group`, which must have no members. Raises `UsageError` for what is no position."""
        counts = {name: len(self.end_offsets(alias, name)) for name in {partition.topic for partition in positions}}
        for at, offset in positions.items():
            if not 0 <= at.partition < counts[at.topic]:
                raise UsageError(
                    f"there is no partition {at.partition}",
                    f"{at.topic} on {alias} has partitions 0 to {counts[at.topic] - 1}",
                    "Give an offset for each of these.",
                )
            if isinstance(offset, bool) or not isinstance(offset, int) or offset < 0:
                raise UsageError(
                    f"{offset!r} is no offset", "an offset is a number from 0 on, without quotes", "Give such a number."
                )
        place_group(self.lab.clusters[alias], group, positions)

    def start_mirror(self, flow: Flow = FORWARD) -> None:
        """Start a worker for `flow` unless this attempt has one. Raises `UsageError` while another worker mirrors it."""
        mirror = self.mirror(flow)
        if not mirror.runs:
            for each in mirror.flows:
                with self.cluster(each.target) as target:
                    refuse_other_workers(target, each, A_LESSON)
                    journal = target.topics([name := POLICY.journal_topic(each.source)])
                if name in journal:  # the first worker of this flow determined the number of lanes
                    lanes = {f"{each}.drlib.lanes": str(journal[name].partitions)}
                    mirror = replace(mirror, keys={**mirror.keys, **lanes})
        mirror.start(self.abort)

    def stop_mirror(self, flow: Flow = FORWARD) -> None:
        """Stop the worker with one SIGTERM: it first produces and journals what it has fetched."""
        self.mirror(flow).stop()

    def check_retention_often(self, alias: str) -> None:
        """Let the brokers of `alias` check retention every second; restarts them if they do not."""
        with self.cluster(alias) as cluster:
            interval_ms = int(cluster.broker_config().get(CHECKED) or 0)
        if not 0 < interval_ms <= int(FAST_RETENTION[CHECKED]):
            self.lab.reconfigure(alias, FAST_RETENTION)

    def mirrored_offsets(self, topic: str, flow: Flow = FORWARD) -> list[int]:
        """The offset up to which the worker reports each partition as mirrored; empty if it does not report `topic`."""
        return [p.mirrored for p in self._partition_statuses(topic, flow)]

    def fetch_offsets(self, topic: str, flow: Flow = FORWARD) -> list[int]:
        """The next fetch offset that the worker reports for each partition; it also passes records that retention deleted."""
        return [p.position for p in self._partition_statuses(topic, flow)]

    def wait_mirrored(self, topic: str, flow: Flow = FORWARD, seconds: float = TIMEOUT_S) -> None:
        """Wait until the worker reports all of `topic` as mirrored. Raises `Unreachable`."""
        ends = self.end_offsets(flow.source, topic)
        self.wait(f"{topic} is mirrored", lambda: self.mirrored_offsets(topic, flow) == ends, seconds)

    def wait(self, what: str, holds: Callable[[], bool], seconds: float = TIMEOUT_S) -> None:
        wait_on_lab(self.abort, what, holds, seconds, self.lab.root)

    @property
    def abort(self) -> Abort:
        return Abort(self.lab.root)

    def _partition_statuses(self, topic: str, flow: Flow) -> list[PartitionStatus]:
        rows = partition_statuses(self.mirror(flow).status())
        return [rows[partition] for partition in sorted(rows) if partition.topic == topic]

    @staticmethod
    def _bounds(cluster: Cluster, topic: str) -> tuple[list[int], list[int]]:
        topics = cluster.topics([topic])
        if topic not in topics:
            return [], []
        partitions = [TopicPartition(topic, number) for number in range(topics[topic].partitions)]
        starts, ends = cluster.log_starts(partitions), cluster.log_ends(partitions)
        return [starts[partition] for partition in partitions], [ends[partition] for partition in partitions]


def order_number(text: str) -> int:
    """The number of an order that `write` or `write_missing` wrote; -1 for any other text."""
    kind, _, number = text.partition(" ")
    return decoding.integer_or(-1, number) if kind == "order" else -1


def order_of(record: Record) -> int:
    """The number of the order that is the record's value; -1 for any other."""
    return order_number((record.value or b"").decode(errors="replace"))


def prepare(lab: Lab, flow: Flow = FORWARD) -> None:
    """Prepare `lab` for a new attempt at a lesson about `flow`.

    Raises `Unreachable`, and `UsageError` while another worker mirrors `flow` or its reverse.
    """
    for process in lab.status():
        if process.name.startswith(WORKER):
            lab.registry.stop(process.name)
            (lab.root / f"{process.name}.properties").unlink(missing_ok=True)
    for pattern in (".properties", HISTORY):
        for path in lab.root.glob(f"{WORKER}*{pattern}"):
            path.unlink()
    for folder in (path for path in lab.root.glob(f"{WORKER}*") if path.is_dir()):
        shutil.rmtree(folder)
    # Other workers are refused before anything is changed, where the cluster answers already.
    aliases = (flow.source, flow.target)
    free = {alias for alias in aliases if lab.clusters[alias].alive and _has_no_other_worker(lab, alias, flow)}
    repair(lab, flow)
    for alias in aliases:
        if alias not in free:
            _has_no_other_worker(lab, alias, flow)
        with Cluster(lab.clusters[alias].settings()) as cluster:
            _delete_leftovers(cluster)


def repair(lab: Lab, flow: Flow = FORWARD) -> None:
    """Undo every fault of a lesson about `flow`: reset link and clocks, resume or start both clusters."""
    lab.proxy.clear()
    clocks.set_all_right(lab.root)
    for alias in (flow.source, flow.target):
        if lab.clusters[alias].alive:
            lab.clusters[alias].resume()
        else:
            lab.clusters[alias].restart()


def _has_no_other_worker(lab: Lab, alias: str, flow: Flow) -> bool:
    """True if no other worker writes to `alias`, False if it does not answer. Raises `UsageError` if one does."""
    with Cluster(lab.clusters[alias].settings()) as cluster:
        try:
            refuse_other_workers(cluster, flow if alias == flow.target else flow.reverse, A_LESSON)
        except Unreachable:
            return False
    return True


def _delete_leftovers(cluster: Cluster) -> None:
    """A group whose members were killed with its cluster is left to a later attempt: their sessions have to time out."""
    for topic in filter(ATTEMPT_NAMES.search, cluster.topics()):
        cluster.delete_topic(topic)
    for group in filter(ATTEMPT_NAMES.search, [listing.group for listing in cluster.groups()]):
        with suppress(GroupNotEmpty):
            cluster.delete_group(group)
