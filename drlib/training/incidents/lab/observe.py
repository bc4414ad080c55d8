"""Observes the testbed from outside: both clusters, the applications, and the mirror's own status.

Rules: it knows no cause and changes nothing. A site whose broker does not accept a connection within a second is
unreachable and is not asked further in that observation; every value that could not be obtained is None.
Not for: detecting symptoms (`drlib.training.incidents.rules.symptoms`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from drlib import clock
from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.errors import ClusterRefused
from drlib.lab.checker.scan import scan
from drlib.mirror.status.worker_status import WorkerStatus
from drlib.model import TopicPartition
from drlib.training.incidents.lab.java_application import CATERING
from drlib.training.incidents.lab.skipped import SkippedRecords
from drlib.training.incidents.lab.testbed import (
    FLOW,
    GATES,
    KITCHEN,
    LOADERS,
    MENUS,
    ON_LEFT,
    ON_RIGHT,
    VOUCHERS,
    IncidentTestbed,
)
from drlib.training.incidents.rules.symptoms import (
    ApplicationObservation,
    GroupObservation,
    Observation,
    TopicObservation,
)

_CALL_S: Final = 2.0
_TopicSizes = dict[str, tuple[int, int] | None]  # by topic: partitions and sum of end offsets; None if access is denied
_PARTITIONS: Final = 0
_END: Final = 1


@dataclass(frozen=True, slots=True)
class _Retained:
    """What LEFT retains of a topic: the sum of its log start offsets, and retention.ms in force."""

    start: int
    retention_ms: int


class Observer:
    """Makes observations of one testbed, one after another. Not thread-safe."""

    def __init__(self, testbed: IncidentTestbed) -> None:
        self._testbed = testbed
        self._skipped = {
            group: SkippedRecords(testbed.applications.history_path(group), topic)
            for group, topic in testbed.readers().items()
        }

    def observe(self) -> Observation:
        """Make one observation; it takes about 100 ms, and a few seconds when a site does not answer."""
        names = [topic.name for topic in ON_LEFT]
        left = self._topic_sizes("LEFT", names)
        right = self._topic_sizes("RIGHT", [*(f"LEFT.{name}" for name in names), *(topic.name for topic in ON_RIGHT)])
        mirror = self._testbed.worker.status()
        mirrored = _mirrored_offsets(mirror)
        retained = self._retained(left)
        skipped = {group: records.count() for group, records in self._skipped.items()}
        newest_ms = self._newest_timestamp(GATES.name) if left is not None else None
        topics = tuple(
            TopicObservation(
                topic=name,
                end=_size(left, name, _END),
                mirrored=mirrored.get(name, 0) if mirror is not None else None,
                local=_size(right, name, _END),
                newest_ms=newest_ms if name == GATES.name else None,
                partitions=(
                    _size(left, name, _PARTITIONS),
                    _size(right, f"LEFT.{name}", _PARTITIONS),
                    _size(right, name, _PARTITIONS) if name in {topic.name for topic in ON_RIGHT} else None,
                ),
                start=retained[name].start if name in retained else None,
                retention_ms=retained[name].retention_ms if name in retained else None,
            )
            for name in names
        )
        unreachable = tuple(site for site, sizes in (("LEFT", left), ("RIGHT", right)) if sizes is None)
        events = mirror.events if mirror is not None else ()
        return Observation(
            at_ms=clock.now_ms(),
            unreachable=unreachable,
            topics=topics,
            applications=tuple(self._application(name) for name in self._testbed.application_names()),
            groups=self._groups(unreachable, skipped),
            mirror_runs=self._testbed.mirror_runs(),
            events=tuple(dict.fromkeys(event.name for event in events if event.resolved_ms is None and event.settled)),
            groups_at_start=self._groups_at_start(unreachable),
            missing=self._missing_vouchers(unreachable),
        )

    def _topic_sizes(self, site: str, names: Sequence[str]) -> _TopicSizes | None:
        """Sizes of the existing topics among `names`; None if the site does not answer."""
        if not self._testbed.answers(site):
            return None
        try:
            with self._testbed.cluster(site, _CALL_S) as cluster:
                try:
                    return _sizes(cluster, names)
                except ClusterRefused:  # access to one of the topics is denied: ask for each alone
                    return {name: size for topic in names for name, size in _size_alone(cluster, topic).items()}
        except DrlibError:
            return None

    def _retained(self, left: _TopicSizes | None) -> dict[str, _Retained]:
        """By existing topic of LEFT; empty if it does not answer."""
        if left is None:
            return {}
        partitions = {
            name: [TopicPartition(name, n) for n in range(size[_PARTITIONS])]
            for name, size in left.items()
            if size is not None
        }
        try:
            with self._testbed.cluster("LEFT", _CALL_S) as cluster:
                starts = cluster.log_starts(partition for of_topic in partitions.values() for partition in of_topic)
                configs = cluster.topic_config(partitions, inherited=True)
        except DrlibError:
            return {}
        return {
            name: _Retained(sum(starts[p] for p in of_topic), int(configs[name]["retention.ms"]))
            for name, of_topic in partitions.items()
        }

    def _newest_timestamp(self, topic: str) -> int | None:
        """The greatest timestamp in the topic on LEFT, in ms (ListOffsets with max timestamp, KIP-734)."""
        admin = AdminClient(self._testbed.client("LEFT"))
        request = {ConfluentTopicPartition(topic, 0): OffsetSpec.max_timestamp()}
        try:
            futures = admin.list_offsets(request, request_timeout=_CALL_S)
            timestamp = next(iter(futures.values())).result().timestamp
        except KafkaException:
            return None
        return int(timestamp) if timestamp is not None and timestamp >= 0 else None

    def _application(self, name: str) -> ApplicationObservation:
        running = self._testbed.applications.runs(name)
        if name == CATERING:  # it writes no status
            java = self._testbed.java
            phase = "running" if running else "gone"
            return ApplicationObservation(name, phase, java.site, self._skipped[name].processed)
        status = self._testbed.applications.status(name)
        if status is None:
            return ApplicationObservation(name, "starting" if running else "gone", "", 0)
        return ApplicationObservation(name, status.phase if running else "gone", status.cluster, status.done)

    def _missing_vouchers(self, unreachable: Sequence[str]) -> int | None:
        """Vouchers that RIGHT acknowledged and does not have; None without any, or if RIGHT does not answer."""
        if "RIGHT" in unreachable or self._testbed.applications.status(LOADERS[0]) is None:
            return None
        history = self._testbed.applications.history(*LOADERS)
        try:
            present = {row.id for row in scan(self._testbed.settings("RIGHT"), VOUCHERS.name, deadline_s=_CALL_S)}
        except (DrlibError, KafkaException):
            return None
        return len({row.id for row in history.produced if row.cluster == "RIGHT"} - present)

    def _groups(self, unreachable: Sequence[str], skipped: Mapping[str, int | None]) -> tuple[GroupObservation, ...]:
        sums: dict[str, dict[str, int | None]] = {group: {} for group in skipped}
        for site in ("LEFT", "RIGHT"):
            if site in unreachable:
                continue
            try:
                with self._testbed.cluster(site, _CALL_S) as cluster:
                    for group, by_site in sums.items():
                        by_site[site] = _committed_sum(cluster, group)
            except DrlibError:
                continue
        return tuple(
            GroupObservation(group, by_site.get("LEFT"), by_site.get("RIGHT"), skipped[group])
            for group, by_site in sums.items()
        )

    def _groups_at_start(self, unreachable: Sequence[str]) -> tuple[str, ...]:
        if "LEFT" in unreachable:
            return ()
        partitions = [TopicPartition(MENUS.name, number) for number in range(MENUS.partitions)]
        try:
            with self._testbed.cluster("LEFT", _CALL_S) as left:
                committed = left.group_offsets(KITCHEN)
                starts = left.log_starts(partitions)
        except DrlibError:
            return ()
        at_start = all(p in committed and committed[p].offset == starts[p] for p in partitions)
        return (KITCHEN,) if at_start else ()


def _mirrored_offsets(mirror: WorkerStatus | None) -> dict[str, int]:
    """By source topic: the sum of the offsets up to which the worker reports its partitions as mirrored."""
    sums: dict[str, int] = {}
    for flow in mirror.flows if mirror is not None else ():
        if flow.flow == str(FLOW):
            for partition in flow.partitions:
                sums[partition.topic] = sums.get(partition.topic, 0) + max(0, partition.mirrored)
    return sums


def _sizes(cluster: Cluster, names: Sequence[str]) -> _TopicSizes:
    counts = {name: topic.partitions for name, topic in cluster.topics(names).items()}
    ends = cluster.log_ends(TopicPartition(name, n) for name, count in counts.items() for n in range(count))
    return {name: (count, sum(ends[TopicPartition(name, n)] for n in range(count))) for name, count in counts.items()}


def _size_alone(cluster: Cluster, name: str) -> _TopicSizes:
    try:
        return _sizes(cluster, [name])
    except ClusterRefused:
        return {name: None}


def _size(sizes: _TopicSizes | None, name: str, which: int) -> int | None:
    """0 for a topic that does not exist, None for one that could not be asked for."""
    if sizes is None:
        return None
    size = sizes.get(name, (0, 0))
    return None if size is None else size[which]


def _committed_sum(cluster: Cluster, group: str) -> int | None:
    committed = cluster.group_offsets(group)
    return sum(position.offset for position in committed.values()) if committed else None
