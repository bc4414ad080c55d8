"""The ordering testbed: one stream of numbered records, one group that keeps order across a move and one that does not.

Rules: both groups read the same topics on the same clusters from the same translated positions. They differ in one point:
members of the *ordered* group do not read the local topic before the group has committed the remote one up to the cutover,
members of the *ordinary* group read one of the two topics each, concurrently. (A single consumer of both mixes them as well,
but how much depends on what it had prefetched, which would make the control unreliable.) All follow one pointer.
Not for: applications of real clusters; nor deciding (`actions`).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drlib.client import pointer_file
from drlib.client.pointer import Pointer
from drlib.client.read_plan import Scope
from drlib.drill.plan.plan import Fact
from drlib.drill.step.argument_types import Text
from drlib.drill.testbed.lab_step import LabStep
from drlib.drill.testbed.traffic_counts import ApplicationCounts
from drlib.kafka.admin.cluster import Cluster
from drlib.lab.apps import specs
from drlib.lab.checker.history import Consumed, History
from drlib.lab.lab import Lab
from drlib.lab.workload.applications import LabApplications
from drlib.lab.workload.mirrors import POLICY, LabMirrors, refuse_topic
from drlib.lab.workload.topics import TopicSpec, create_topics, log_ends
from drlib.model import Flow

PARTITIONS: Final = 6
ORDERED: Final = "ordered"
ORDINARY: Final = "ordinary"
GROUPS: Final = (ORDERED, ORDINARY)
SLOW: Final = 200.0  # records per second of a group before the move, so that it has something left to read after it
FAST: Final = 800.0
SESSION_MS: Final = 3000  # short, so that a killed member's partitions are soon reassigned


@dataclass(frozen=True, slots=True)
class OrderingTestbed:
    """`topic` between two clusters of `lab`; histories go to `run_dir`/history."""

    lab: Lab
    run_dir: Path
    topic: str
    scope: Scope

    @property
    def applications(self) -> LabApplications:
        return LabApplications(self.lab, self.run_dir / "history")

    # -- names -----------------------------------------------------------------------------------------------------

    @property
    def producer(self) -> str:
        return f"{self.topic}-producer"

    def members(self, group: str) -> tuple[str, ...]:
        """The members of a group: two that share the ordered one; one for each topic in the ordinary one."""
        return tuple(f"{self.topic}-{group}-{number}" for number in (1, 2))

    @property
    def readers(self) -> tuple[str, ...]:
        return tuple(name for group in GROUPS for name in self.members(group))

    def copy_of(self, source: str) -> str:
        return POLICY.remote_topic(source, self.topic)

    def mirrors(self, flow: Flow) -> LabMirrors:
        """One worker for both directions, so that the way back exists from the start."""
        both = tuple(sorted((flow, flow.reverse)))
        refuse_topic(self.topic, both)
        return LabMirrors(self.lab, f"{self.topic}-mirror", self.topic, both, positions=True)

    # -- the pointer -----------------------------------------------------------------------------------------------

    @property
    def pointer_path(self) -> Path:
        return self.lab.root / f"{self.topic}-pointer.json"

    def pointer(self) -> Pointer | None:
        """The pointer of the applications; None before there is one."""
        try:
            return pointer_file.read(self.pointer_path)
        except FileNotFoundError:
            return None

    def point(self, cluster: str) -> None:
        """Send the applications to `cluster`, with the next version of the pointer."""
        now = self.pointer()
        version = 1 if now is None else now.version + 1
        pointer_file.write_atomic(self.pointer_path, Pointer(version, cluster, self.lab.clusters[cluster].bootstrap))

    # -- applications ----------------------------------------------------------------------------------------------

    def make_topics(self, clusters: Iterable[str]) -> None:
        for cluster in clusters:
            create_topics(self.lab.clusters[cluster].settings(), [TopicSpec(self.topic, PARTITIONS)])

    def start_producer(self, records_per_second: float, backlog: int) -> None:
        spec = specs.ProducerSpec(
            pointer=str(self.pointer_path),
            history=str(self.applications.history_path(self.producer)),
            topic=self.topic,
            records_per_second=records_per_second,
            backlog=backlog,
            status=str(self.applications.status_path(self.producer)),
        )
        self.applications.start(self.producer, spec)

    def start_members(self, group: str) -> None:
        for name in self.members(group):
            self.start_member(name, group)

    def start_member(self, name: str, group: str, *, moved: bool = False) -> None:
        """Start one member. Ordered members share their group's rate; ordinary ones read one topic each, at that rate."""
        share = len(self.members(group)) if group == ORDERED else 1
        own, copies = re.escape(self.topic), rf".+\.{re.escape(self.topic)}"
        pattern = None if group == ORDERED else own if name == self.members(group)[0] else copies
        spec = specs.ConsumerSpec(
            pointer=str(self.pointer_path),
            history=str(self.applications.history_path(name)),
            group=group,
            topic=self.topic,
            records_per_second=(FAST if moved else SLOW) / share,
            after_move_records_per_second=FAST / share,
            scope=self.scope,
            pattern=pattern,
            refresh_topics_s=1.0,
            session_timeout_ms=SESSION_MS,
            status=str(self.applications.status_path(name)),
        )
        self.applications.start(name, spec)

    def histories(self, group: str) -> tuple[History, ...]:
        """The history of each member."""
        return tuple(self.applications.history(name) for name in self.members(group))

    def consumed(self, group: str) -> list[Consumed]:
        return [row for history in self.histories(group) for row in history.consumed]

    def counts(self) -> ApplicationCounts:
        """The counts of all applications."""
        return ApplicationCounts(
            self.applications, self.topic, [self.producer], {group: self.members(group) for group in GROUPS}
        )

    # -- clusters --------------------------------------------------------------------------------------------------

    def ends(self, cluster: str, topic: str) -> tuple[int, ...]:
        """The log end offset of each partition on `cluster`, by number; empty when the topic does not exist."""
        return tuple(log_ends(self.lab.clusters[cluster], [topic], timeout_s=2.0).values())

    def positions(self, cluster: str, group: str, topic: str) -> dict[int, int]:
        """The group's positions in `topic`, by partition."""
        with Cluster(self.lab.clusters[cluster].settings(), timeout_s=2.0) as handle:
            committed = handle.group_offsets(group)
        return {partition.partition: at.offset for partition, at in committed.items() if partition.topic == topic}

    def reached(self, cluster: str, group: str, topic: str, positions: Iterable[int]) -> bool:
        """Has `group` committed at least `positions` in each partition?"""
        now = self.positions(cluster, group, topic)
        return all(now.get(number, 0) >= wanted for number, wanted in enumerate(positions))

    def member_count(self, cluster: str, group: str) -> int:
        """Members with assigned partitions."""
        with Cluster(self.lab.clusters[cluster].settings(), timeout_s=2.0) as handle:
            return sum(bool(member.assignment) for member in handle.group_members(group))


class OrderingStep(LabStep):
    """A step of an ordering drill."""

    source: Text
    """Alias of the cluster the applications are at."""
    target: Text
    """Alias of the cluster they move to."""
    scope: Scope = Scope.TOPIC
    """What the ordered group's members hold the local topic back for."""

    @property
    def flow(self) -> Flow:
        return Flow(self.source, self.target)

    @property
    def testbed(self) -> OrderingTestbed:
        return OrderingTestbed(self.lab, self.context.run_dir, self.topic, self.scope)

    @property
    def remote_topic(self) -> str:
        """What the target calls the source's topic."""
        return self.testbed.copy_of(self.flow.source)

    def _active(self) -> Fact:
        now = self.testbed.pointer()
        return Fact(f"active cluster, as {self.testbed.pointer_path.name} says", None if now is None else now.active)
