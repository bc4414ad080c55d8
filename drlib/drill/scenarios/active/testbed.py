"""The active/active testbed: the applications of each cluster of a lab, their names and their histories.

Rules: an application works with one cluster only: its pointer names that cluster, and it is configured with neither flows nor
joining clusters. Its consumers subscribe to a pattern, `(.*\\.)?TOPIC1`, so that a new copy is read after their next metadata
refresh. Names are derived from topic and cluster alone, so a process that resumes a drill finds the same processes.
Not for: deciding and judging (`actions`, `lab.checker.completeness`).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drlib.client import pointer as pointers
from drlib.client import pointer_file
from drlib.drill.step.step_output import Row
from drlib.drill.testbed.lab_step import LabStep
from drlib.drill.testbed.traffic_counts import ApplicationCounts
from drlib.errors import Unreachable
from drlib.kafka.admin.cluster import Cluster
from drlib.lab.apps import specs
from drlib.lab.checker.history import History
from drlib.lab.lab import Lab
from drlib.lab.workload.applications import LabApplications
from drlib.lab.workload.mirrors import POLICY, LabMirrors, has_crossed, refuse_topic
from drlib.lab.workload.topics import TopicSpec, create_topics, log_ends
from drlib.mirror.status import worker_status
from drlib.model import Flow, TopicPartition

PARTITIONS: Final = 4
APART: Final = 60_000  # flights between the first records of two clusters, so that no record is sent by both
REFRESH_S: Final = 1.0  # the readers' metadata refresh; a client's default is five minutes
READERS: Final = "readers"


@dataclass(frozen=True, slots=True)
class ActiveTestbed:
    """The applications of `topic` on the clusters of `lab`; histories go to `run_dir`/history."""

    lab: Lab
    run_dir: Path
    topic: str

    @property
    def applications(self) -> LabApplications:
        return LabApplications(self.lab, self.run_dir / "history")

    # -- names -----------------------------------------------------------------------------------------------------

    def producer(self, cluster: str) -> str:
        return f"{self.topic}-producer-{cluster}"

    def readers(self, cluster: str, group: str = READERS) -> str:
        return f"{self.topic}-{group}-{cluster}"

    def mirrors(self, name: str, flows: Sequence[Flow]) -> LabMirrors:
        refuse_topic(self.topic, flows)
        return LabMirrors(self.lab, f"{self.topic}-mirror-{name}", self.topic, tuple(flows))

    def copy_of(self, source: str) -> str:
        """The name of the copy of `source`'s topic on another cluster."""
        return POLICY.remote_topic(source, self.topic)

    def matches(self, name: str) -> bool:
        """Whether it is the topic, or a copy of it over any number of flows."""
        return name == self.topic or name.endswith(f".{self.topic}")

    @property
    def pattern(self) -> str:
        return rf"(.*\.)?{re.escape(self.topic)}"

    # -- applications ----------------------------------------------------------------------------------------------

    def make_topic(self, cluster: str) -> None:
        create_topics(self.lab.clusters[cluster].settings(), [TopicSpec(self.topic, PARTITIONS)])

    def start_producer(self, cluster: str, records_per_second: float) -> None:
        spec = specs.ProducerSpec(
            pointer=str(self._pointer(cluster)),
            history=str(self.applications.history_path(self.producer(cluster))),
            topic=self.topic,
            records_per_second=records_per_second,
            start_at=APART * list(self.lab.clusters).index(cluster),
            status=str(self.applications.status_path(self.producer(cluster))),
        )
        self.applications.start(self.producer(cluster), spec)

    def start_readers(self, cluster: str, group: str = READERS) -> None:
        name = self.readers(cluster, group)
        spec = specs.ConsumerSpec(
            pointer=str(self._pointer(cluster)),
            history=str(self.applications.history_path(name)),
            group=group,
            topic=self.topic,
            pattern=self.pattern,
            refresh_topics_s=REFRESH_S,
            session_timeout_ms=6000,
            status=str(self.applications.status_path(name)),
        )
        self.applications.start(name, spec)

    def history_of(self, cluster: str, group: str = READERS) -> History:
        return self.applications.history(self.readers(cluster, group))

    def counts(self) -> ApplicationCounts:
        """The counts of all applications on all of the lab's clusters."""
        producers = [self.producer(cluster) for cluster in self.lab.clusters]
        readers = {f"{READERS} on {cluster}": [self.readers(cluster)] for cluster in self.lab.clusters}
        return ApplicationCounts(self.applications, self.topic, producers, readers)

    def _pointer(self, cluster: str) -> Path:
        """The pointer of this cluster's applications, which always names this cluster."""
        path = self.lab.root / f"{self.topic}-pointer-{cluster}.json"
        if not path.exists():
            pointer_file.write_atomic(path, pointers.Pointer(1, cluster, self.lab.clusters[cluster].bootstrap))
        return path

    # -- clusters --------------------------------------------------------------------------------------------------

    def topics_on(self, cluster: str) -> tuple[str, ...]:
        """The topic and every copy of it on `cluster`. Raises `Unreachable`."""
        with Cluster(self.lab.clusters[cluster].settings(), timeout_s=2.0) as handle:
            return tuple(sorted(name for name in handle.topics() if self.matches(name)))

    def read_at_all(self, cluster: str) -> set[str]:
        """The topics of which the readers have processed something on `cluster`. Raises `Unreachable`."""
        with Cluster(self.lab.clusters[cluster].settings(), timeout_s=2.0) as handle:
            return {partition.topic for partition, at in handle.group_offsets(READERS).items() if at.offset > 0}

    def ends(self, cluster: str) -> dict[TopicPartition, int]:
        """The log end offsets of the topic and every copy of it on `cluster`. Raises `Unreachable`."""
        with Cluster(self.lab.clusters[cluster].settings(), timeout_s=2.0) as handle:
            topics = {name: it for name, it in handle.topics().items() if self.matches(name)}
            return handle.log_ends(TopicPartition(t.name, n) for t in topics.values() for n in range(t.partitions))

    def has_read(self, cluster: str, group: str, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether the committed offsets of `group` have reached `ends`. Raises `Unreachable`."""
        with Cluster(self.lab.clusters[cluster].settings(), timeout_s=2.0) as handle:
            positions = handle.group_offsets(group)
        return all(not end or (p in positions and positions[p].offset >= end) for p, end in ends.items())

    def crossed(self, flows: Iterable[Flow]) -> bool:
        """Whether the workers report that the current records of the sources of `flows` are mirrored. Raises `Unreachable`."""
        statuses = [worker_status.read(path) for path in self.lab.root.glob(f"{self.topic}-mirror-*.status.json")]
        return all(
            any(has_crossed(status, flow, ends) for status in statuses)
            for flow in flows
            for ends in [log_ends(self.lab.clusters[flow.source], [self.topic], timeout_s=2.0)]
        )

    def serves(self, cluster: str) -> bool:
        """Whether it answers within a second."""
        try:
            with Cluster(self.lab.clusters[cluster].settings(), timeout_s=1.0) as handle:
                handle.cluster_id()
        except Unreachable:
            return False
        return True


class ActiveStep(LabStep):
    """A step of an active/active drill."""

    @property
    def testbed(self) -> ActiveTestbed:
        return ActiveTestbed(self.lab, self.context.run_dir, self.topic)

    def records_read(self, clusters: Sequence[str]) -> list[Row]:
        """What the readers of each cluster have processed, by where it came from."""
        rows: list[Row] = []
        for cluster in clusters:
            by_topic: dict[str, int] = {}
            for row in self.testbed.history_of(cluster).consumed:
                by_topic[row.topic] = by_topic.get(row.topic, 0) + 1
            rows += [{"readers on": cluster, "topic": name, "records": by_topic[name]} for name in sorted(by_topic)]
        return rows

    def every_topic_read(self, clusters: Sequence[str]) -> bool:
        """Have the readers of each cluster processed records of every one, as their groups' positions tell?"""
        wanted = {self.topic, *(self.testbed.copy_of(cluster) for cluster in clusters)}
        return all(
            wanted - {self.testbed.copy_of(cluster)} <= self.testbed.read_at_all(cluster) for cluster in clusters
        )
