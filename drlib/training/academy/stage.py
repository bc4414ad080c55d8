"""What lessons play on: a lab, and topics, groups and a mirror's worker that bear the attempt's tag.

Rules: every attempt has names of its own (`l1-3fa2-orders`), so nothing is left over from the one before and brokers need
not be new; `ready` takes away what earlier attempts left, heals the link and wakes what was killed, in seconds. Records are
numbered and their partition is their number's remainder, so writing may stop anywhere and go on. Journals of flows stay:
other things on the lab may read them.
Not for: what a lesson teaches, nor points.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import javaproperties

from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.errors import Unreachable, UsageError
from drlib.files import write_whole
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Isolation, Range, Record
from drlib.lab import clocks
from drlib.lab.lab import ONE_BROKER, Lab
from drlib.lab.processes import wait_until
from drlib.lab.workload.mirrors import POLICY, LabMirrors, partition_statuses
from drlib.lab.workload.topics import TopicSpec, acknowledged, create_topics, log_ends, place_group
from drlib.mirror.offsets.map.flow_maps import worker_group
from drlib.mirror.offsets.unreplicated.find import refuse_workers
from drlib.mirror.status.worker_status import PartitionStatus
from drlib.model import Flow, TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.waiting import wait_on_lab

OVER: Final = Flow("LEFT", "RIGHT")
OURS: Final = re.compile(r"(^|[.-])l[0-6]-[0-9a-f]{4}-")  # topics and groups of any attempt, and copies of such topics
WORKER: Final = "lesson-"
_ALIASES: Final = (OVER.source, OVER.target)
KEYS: Final = 20
LANES: Final = 2
CHECKED: Final = "log.retention.check.interval.ms"
# What is due goes in a second, not in five minutes.
HASTY: Final = {CHECKED: "1000", "log.initial.task.delay.ms": "1000"}
SESSION_S: Final = 8.0  # a little more than a worker's session
PATIENCE_S: Final = 60.0
_LOOK_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class LessonTestbed:
    """The `lesson` (such as L1) of one attempt on `lab`."""

    lab: Lab
    lesson: str
    tag: str

    @property
    def prefix(self) -> str:
        return f"{self.lesson.lower()}-{self.tag}-"

    def name(self, short: str) -> str:
        """A topic's or a group's name in this attempt."""
        return f"{self.prefix}{short}"

    def copy(self, topic: str, flow: Flow = OVER) -> str:
        """What the mirror calls `topic` on the flow's target."""
        return POLICY.remote_topic(flow.source, topic)

    def cluster(self, alias: str, timeout_s: float = 15.0) -> Cluster:
        """As applications reach it; a context manager."""
        return Cluster(self.lab.clusters[alias].settings(), timeout_s=timeout_s)

    def mirror(self, flow: Flow = OVER) -> LabMirrors:
        """The worker that mirrors this attempt's topics over `flow`."""
        name = f"{WORKER}{self.prefix}{flow.source.lower()}"
        return LabMirrors(self.lab, name, f"{re.escape(self.prefix)}.*", (flow,), positions=True, lanes=LANES)

    @property
    def file(self) -> Path:
        """A connect-mirror-maker.properties of this attempt, with the addresses that applications use."""
        path = self.lab.root / f"{WORKER}{self.prefix}clusters.properties"
        if not path.exists():
            lines = {
                "clusters": "LEFT, RIGHT",
                **{f"{alias}.bootstrap.servers": self.lab.clusters[alias].bootstrap for alias in ("LEFT", "RIGHT")},
                f"{OVER}.enabled": "true",
                "topics": f"{re.escape(self.prefix)}.*",
                "groups": f"{re.escape(self.prefix)}.*",
                **ONE_BROKER,
            }
            write_whole(path, javaproperties.dumps(lines, timestamp=None))
        return path

    @property
    def settings(self) -> MirrorSettings:
        return load_mirror_settings(self.file)

    def make(self, alias: str, topic: str, partitions: int, config: Mapping[str, str] | None = None) -> None:
        """The topic, where it is not there yet."""
        create_topics(self.lab.clusters[alias].bootstrap, [TopicSpec(topic, partitions, dict(config or {}))])

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
        """The topic's records are `numbers`, in this order; those that are there stay. All are acknowledged after it.

        `per_second` paces those that are written now, `value_bytes` makes them at least so long.
        """
        have = self.ends(alias, topic)
        counts, sent, began = [0] * partitions, 0, time.monotonic()
        with acknowledged(self.lab.clusters[alias]) as producer:
            for number in numbers:
                partition = number % partitions
                counts[partition] += 1
                if counts[partition] <= have[partition]:
                    continue
                while per_second and sent > (time.monotonic() - began) * per_second:
                    self.abort.wait(_LOOK_S)
                value = f"order {number}".ljust(value_bytes)
                producer.produce(topic, value=value, key=f"key {number % KEYS}", partition=partition)
                producer.poll(0)
                sent += 1

    def crosses(self, topic: str, seconds: float, flow: Flow = OVER) -> bool:
        """Is a record that is written now to `topic`, which has one partition, on the other side within `seconds`?"""
        upto = sum(self.ends(flow.source, topic)) + 1
        self.write(flow.source, topic, range(upto), partitions=1)
        copy = self.copy(topic, flow)
        return wait_until(lambda: len(self.read(flow.target, copy)) >= upto, seconds)

    def wait_nobody(self, flow: Flow = OVER) -> None:
        """Until no worker of `flow` is a member any more: a killed one is until its session ends."""
        with self.cluster(flow.target) as target:
            self.wait(f"nobody mirrors {flow}", lambda: not target.group_members(worker_group(flow)))

    def ends(self, alias: str, topic: str) -> list[int]:
        """The log end of each partition; empty where there is no such topic."""
        return list(log_ends(self.lab.clusters[alias], [topic]).values())

    def bounds(self, alias: str, topic: str) -> tuple[list[int], list[int]]:
        """Log start and log end of each partition."""
        with self.cluster(alias) as cluster:
            return self._bounds(cluster, topic)

    def read(self, alias: str, topic: str) -> list[Record]:
        """Every committed record there is, in order within each partition; none where there is no such topic."""
        with self.cluster(alias) as cluster:
            starts, ends = self._bounds(cluster, topic)
            pairs = zip(starts, ends, strict=True)
            wanted = {
                TopicPartition(topic, n): Range(start, end) for n, (start, end) in enumerate(pairs) if end > start
            }
            return list(cluster.read(wanted, Isolation.READ_COMMITTED)) if wanted else []

    def positions(self, alias: str, group: str) -> dict[TopicPartition, int]:
        """Where `group` stands there."""
        with self.cluster(alias) as cluster:
            return {partition: at.offset for partition, at in cluster.group_offsets(group).items()}

    def commit(self, alias: str, group: str, positions: Mapping[TopicPartition, int]) -> None:
        """Put `group`, which must be empty, at `positions`."""
        place_group(self.lab.clusters[alias], group, positions)

    def start_mirror(self, flow: Flow = OVER) -> None:
        """A worker for `flow` where this attempt has none. Raises `UsageError` when somebody else mirrors it."""
        mirror = self.mirror(flow)
        if not mirror.runs:
            with self.cluster(flow.target) as target:
                refuse_others(target, flow)
                journal = target.topics([name := POLICY.journal_topic(flow.source)])
            if name in journal:  # the number of lanes was decided when somebody first mirrored this flow
                mirror = replace(mirror, lanes=journal[name].partitions)
        mirror.start(self.abort)

    def stop_mirror(self, flow: Flow = OVER) -> None:
        """By one SIGTERM, after which what was fetched is sent and journaled; a second one would end it at once."""
        self.mirror(flow).stop()

    def hasten(self, alias: str) -> None:
        """Make brokers of `alias` look every second for what retention has to take, by starting them again where need be."""
        with self.cluster(alias) as cluster:
            every = int(cluster.broker_config().get(CHECKED) or 0)
        if not 0 < every <= int(HASTY[CHECKED]):
            self.lab.reconfigure(alias, HASTY)

    def mirrored(self, topic: str, flow: Flow = OVER) -> list[int]:
        """How far the worker says it has mirrored each partition of `topic`; empty when it says nothing of it."""
        return [p.mirrored for p in self._told(topic, flow)]

    def fetched(self, topic: str, flow: Flow = OVER) -> list[int]:
        """The next offset the worker says it will fetch of each partition: what retention took is passed by as well."""
        return [p.position for p in self._told(topic, flow)]

    def wait_crossed(self, topic: str, flow: Flow = OVER, seconds: float = PATIENCE_S) -> None:
        """Until the worker says that all of `topic` is on the other side. Raises `Unreachable`."""
        ends = self.ends(flow.source, topic)
        self.wait(f"{topic} has crossed", lambda: self.mirrored(topic, flow) == ends, seconds)

    def wait(self, what: str, holds: Callable[[], bool], seconds: float = PATIENCE_S) -> None:
        wait_on_lab(self.abort, what, holds, seconds, self.lab.root)

    @property
    def abort(self) -> Abort:
        return Abort(self.lab.root)

    def _told(self, topic: str, flow: Flow) -> list[PartitionStatus]:
        rows = partition_statuses(self.mirror(flow).status())
        return [rows[partition] for partition in sorted(rows) if partition.topic == topic]

    @staticmethod
    def _bounds(cluster: Cluster, topic: str) -> tuple[list[int], list[int]]:
        found = cluster.topics([topic])
        if topic not in found:
            return [], []
        every = [TopicPartition(topic, number) for number in range(found[topic].partitions)]
        starts, ends = cluster.log_starts(every), cluster.log_ends(every)
        return [starts[at] for at in every], [ends[at] for at in every]


def ready(lab: Lab) -> None:
    """Make `lab` fit for a new attempt. Raises `UsageError` when something else mirrors LEFT to RIGHT, and `Unreachable`."""
    for one in lab.status():
        if one.name.startswith(WORKER):
            lab.registry.stop(one.name)
            (lab.root / f"{one.name}.properties").unlink(missing_ok=True)
    for path in lab.root.glob(f"{WORKER}*clusters.properties"):
        path.unlink()
    asked = {
        alias for alias in _ALIASES if lab.clusters[alias].alive and _is_ours(lab, alias)
    }  # before anything is healed
    heal(lab)
    for alias in _ALIASES:
        if alias not in asked:
            _is_ours(lab, alias)
        with Cluster(lab.clusters[alias].settings()) as cluster:
            _sweep(cluster)


def heal(lab: Lab) -> None:
    """A healthy link, right clocks, and both clusters serve: what a lesson broke is for nobody who comes after it."""
    lab.proxy.clear()
    clocks.set_all_right(lab.root)
    for alias in _ALIASES:
        if lab.clusters[alias].alive:
            lab.clusters[alias].resume()
        else:
            lab.clusters[alias].restart()


def _is_ours(lab: Lab, alias: str) -> bool:
    """Nobody else's worker writes to `alias`; False where it does not answer. Raises `UsageError`."""
    with Cluster(lab.clusters[alias].settings()) as cluster:
        try:
            refuse_others(cluster, OVER if alias == OVER.target else OVER.reverse)
        except Unreachable:
            return False
    return True


def refuse_others(target: Cluster, flow: Flow) -> None:
    """Raises `UsageError` while a worker mirrors `flow`. One that was killed in a lesson is a member until its session ends."""

    def nobody() -> bool:
        try:
            return not target.group_members(worker_group(flow))
        except Unreachable:
            return False  # a broker that has just started has no coordinator for a moment

    wait_until(nobody, SESSION_S)
    try:
        refuse_workers(target, flow)
    except UsageError as error:
        raise UsageError(
            error.what,
            "a lesson needs the flow for itself, or its records would cross by somebody else's worker",
            "Stop that worker (close the notebook or drill that runs it), or name another lab_dir.",
        ) from error


def _sweep(cluster: Cluster) -> None:
    for topic in filter(OURS.search, cluster.topics()):
        cluster.delete_topic(topic)
    for group in filter(OURS.search, [listing.group for listing in cluster.groups()]):
        cluster.delete_group(group)
