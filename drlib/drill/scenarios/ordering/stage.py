"""Order across a move, on a lab: one stream of numbered records, one group that keeps order and one that does not.

Rules: both groups read the same topics at the same clusters from the same translated positions; they differ in one thing:
the *ordered* group's members hold the local topic back until the group has committed the remote one, the *ordinary*
group's members read both side by side, one each. (A single consumer of both mixes them too, but how much hangs on what
its client had fetched before the local topic filled, and a control must not hang on luck.) All follow one pointer.
Members are stopped before positions are translated, so that nobody commits behind the translation's back.
Not for: moving applications of real clusters; nor deciding (`ordering_actions`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drlib.client import pointer_file
from drlib.client.pointer import Pointer
from drlib.client.read_plan import Scope
from drlib.drill.testbed.traffic_counts import ApplicationCounts
from drlib.kafka.admin.cluster import Cluster
from drlib.lab.apps import specs
from drlib.lab.checker.history import Consumed, History
from drlib.lab.lab import Lab
from drlib.lab.workload.applications import LabApplications
from drlib.lab.workload.mirrors import POLICY, LabMirrors
from drlib.lab.workload.topics import TopicSpec, create_topics, log_ends, place_group
from drlib.model import Flow, TopicPartition

PARTITIONS: Final = 6
ORDERED: Final = "ordered"
ORDINARY: Final = "ordinary"
GROUPS: Final = (ORDERED, ORDINARY)
SESSION_MS: Final = 3000  # short, so that a killed member's partitions are soon somebody else's


@dataclass(frozen=True, slots=True)
class OrderingStage:
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
        """The processes of a group: of the ordered one, so that one can take over; of the ordinary, one for each topic."""
        return tuple(f"{self.topic}-{group}-{number}" for number in (1, 2))

    @property
    def readers(self) -> tuple[str, ...]:
        return tuple(name for group in GROUPS for name in self.members(group))

    def copy_of(self, source: str) -> str:
        return POLICY.remote_topic(source, self.topic)

    def mirrors(self, flow: Flow) -> LabMirrors:
        """Both directions, so that there is a way back from the first moment on."""
        both = tuple(sorted((flow, flow.reverse)))
        return LabMirrors(self.lab, f"{self.topic}-mirror", self.topic, both, positions=True)

    # -- the pointer -----------------------------------------------------------------------------------------------

    @property
    def pointer_path(self) -> Path:
        return self.lab.root / f"{self.topic}-pointer.json"

    def pointer(self) -> Pointer | None:
        """Where the applications are sent now; None before there are any."""
        try:
            return pointer_file.read(self.pointer_path)
        except FileNotFoundError:
            return None

    def point(
        self,
        cluster: str,
        *,
        prefix: str | None = None,
        cutover: Mapping[str, tuple[int, ...]] = {},
        hold: bool = False,
    ) -> None:
        """Send them to `cluster`, under the next version."""
        now = self.pointer()
        version = 1 if now is None else now.version + 1
        bootstrap = self.lab.clusters[cluster].bootstrap
        pointer_file.write_atomic(self.pointer_path, Pointer(version, cluster, bootstrap, prefix, dict(cutover), hold))

    # -- applications ----------------------------------------------------------------------------------------------

    def make_topics(self, clusters: Iterable[str]) -> None:
        for cluster in clusters:
            create_topics(self.lab.clusters[cluster].bootstrap, [TopicSpec(self.topic, PARTITIONS)])

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

    def start_members(self, group: str, records_per_second: float) -> None:
        for name in self.members(group):
            self.start_member(name, group, records_per_second)

    def start_member(self, name: str, group: str, records_per_second: float) -> None:
        """One member. The ordered members share their group's pace; the ordinary ones read a topic each, at that pace."""
        own, copies = re.escape(self.topic), rf".+\.{re.escape(self.topic)}"
        pattern = None if group == ORDERED else own if name == self.members(group)[0] else copies
        spec = specs.ConsumerSpec(
            pointer=str(self.pointer_path),
            history=str(self.applications.history_path(name)),
            group=group,
            topic=self.topic,
            records_per_second=records_per_second / (len(self.members(group)) if group == ORDERED else 1),
            scope=self.scope,
            pattern=pattern,
            refresh_topics_s=1.0,
            session_timeout_ms=SESSION_MS,
            status=str(self.applications.status_path(name)),
        )
        self.applications.start(name, spec)

    def histories(self, group: str) -> tuple[History, ...]:
        """What each member wrote down."""
        return tuple(self.applications.history(name) for name in self.members(group))

    def consumed(self, group: str) -> list[Consumed]:
        return [row for history in self.histories(group) for row in history.consumed]

    def counts(self) -> ApplicationCounts:
        """What all of them have done."""
        return ApplicationCounts(
            self.applications, self.topic, [self.producer], {group: self.members(group) for group in GROUPS}
        )

    # -- clusters --------------------------------------------------------------------------------------------------

    def ends(self, cluster: str, topic: str) -> tuple[int, ...]:
        """Where each partition ends on `cluster` now, by number; empty when there is no such topic."""
        return tuple(log_ends(self.lab.clusters[cluster], [topic], timeout_s=2.0).values())

    def positions(self, cluster: str, group: str, topic: str) -> dict[int, int]:
        """The group's positions in `topic`, by partition."""
        with Cluster(self.lab.clusters[cluster].settings(), timeout_s=2.0) as handle:
            found = handle.group_offsets(group)
        return {partition.partition: at.offset for partition, at in found.items() if partition.topic == topic}

    def reached(self, cluster: str, group: str, topic: str, positions: Iterable[int]) -> bool:
        """Has `group` committed at least `positions` in each partition?"""
        now = self.positions(cluster, group, topic)
        return all(now.get(number, 0) >= wanted for number, wanted in enumerate(positions))

    def place(self, cluster: str, group: str, topic: str, positions: Iterable[int]) -> None:
        """Commit `positions` for a group without members. Raises `GroupNotEmpty`."""
        wanted = {TopicPartition(topic, number): offset for number, offset in enumerate(positions)}
        place_group(self.lab.clusters[cluster], group, wanted)

    def member_count(self, cluster: str, group: str) -> int:
        """Members that have been given partitions."""
        with Cluster(self.lab.clusters[cluster].settings(), timeout_s=2.0) as handle:
            return sum(bool(member.assignment) for member in handle.group_members(group))
