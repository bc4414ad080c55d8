"""Two small actions for tests of drills: `topic.create` and `group.move`, on one cluster.

`KERNEL` is the code with which another process (a kernel, a command) knows them as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from repository_root import TESTS

from drlib.drill.plan.plan import Change, Fact, Value
from drlib.drill.plan.progress import Reach
from drlib.drill.run import registry
from drlib.drill.step.action import Changes, DrillAction, Evidence, reach
from drlib.drill.step.argument_types import Positive, Text, Texts
from drlib.drill.step.cluster_identity import cluster_id, identified
from drlib.errors import Deviated, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset
from drlib.kafka.admin.errors import GroupNotEmpty
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import TopicPartition
from drlib.runs.abort import Abort

KERNEL: Final = f"import sys; sys.path.insert(0, {str(TESTS)!r}); import testbed_actions; testbed_actions.register()\n"


class CreateTopic(DrillAction):
    """Creates a topic; an undo deletes it, if it is empty."""

    name = "topic.create"

    cluster: Text
    topic: Text
    partitions: Positive

    def check(self) -> None:
        self.settings  # noqa: B018 -- raises for an unknown alias

    @property
    def settings(self) -> ClusterSettings:
        return self.context.cluster(self.cluster)

    @property
    def _entity(self) -> str:
        return f"partitions of topic {self.topic} on {self.cluster}"

    def observe(self) -> Sequence[Fact]:
        with Cluster(self.settings) as cluster:
            found = cluster.topics([self.topic]).get(self.topic)
            return (
                Fact(self._entity, found.partitions if found else None),
                identified(self.cluster, cluster.cluster_id()),
            )

    def changes(self, observed: Sequence[Fact]) -> Changes:
        """Nothing when it is there as wanted. Raises `UsageError` when it is there and is another."""
        now = {fact.entity: fact.value for fact in observed}[self._entity]
        if now not in (None, self.partitions):
            raise UsageError(
                f"topic {self.topic} on {self.cluster} already exists",
                f"it has {now} partitions and not {self.partitions}",
                "Name another topic, or ask for as many partitions as it has.",
            )
        return () if now == self.partitions else (Change(self._entity, None, self.partitions),)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        if not changes:
            return {"created": False}
        abort.check()
        with Cluster(self.settings) as cluster:
            return {"created": cluster.create_topic(self.topic, self.partitions, -1)}

    def probe(self, changes: Changes) -> Reach:
        return reach(self.observe(), changes)

    def undo(self, changes: Changes) -> None:
        """Delete it, if it is empty. Raises `Deviated` when it holds records, which are not ours to lose."""
        if not changes:
            return
        with Cluster(self.settings) as cluster:
            found = cluster.topics([self.topic]).get(self.topic)
            if found is None:
                return
            ends = cluster.log_ends(TopicPartition(self.topic, n) for n in range(found.partitions))
            if any(ends.values()):
                raise Deviated(
                    f"topic {self.topic} on {self.cluster} is left",
                    f"{sum(ends.values())} records were written to it since it was created",
                    "Delete it yourself if they are not needed.",
                )
            cluster.delete_topic(self.topic)

    def cluster_id(self) -> str:
        return cluster_id(self.settings)


class MoveGroup(DrillAction):
    """Sets the positions of a group without members."""

    name = "group.move"

    cluster: Text
    group: Text
    topic: Text
    positions: Texts

    @property
    def settings(self) -> ClusterSettings:
        return self.context.cluster(self.cluster)

    @property
    def _offsets(self) -> Mapping[TopicPartition, int]:
        pairs = (text.split(":") for text in self.positions)
        return {TopicPartition(self.topic, int(partition)): int(offset) for partition, offset in pairs}

    def _entity(self, partition: TopicPartition) -> str:
        return f"position of {self.group} in {partition} on {self.cluster}"

    @property
    def _others(self) -> str:
        return f"other positions of {self.group} on {self.cluster}"

    def observe(self) -> Sequence[Fact]:
        with Cluster(self.settings) as cluster:
            found, its_id = cluster.group_offsets(self.group), identified(self.cluster, cluster.cluster_id())
        now: dict[TopicPartition, Value] = {p: found[p].offset if p in found else None for p in self._offsets}
        others = len(found.keys() - self._offsets.keys())
        return (*(Fact(self._entity(p), value) for p, value in now.items()), Fact(self._others, others), its_id)

    def changes(self, observed: Sequence[Fact]) -> Changes:
        """Raises `GroupNotEmpty` for a group with members, `UsageError` for a move that could not be undone."""
        now = {fact.entity: fact.value for fact in observed}
        with Cluster(self.settings) as cluster:
            if cluster.group_members(self.group):
                raise GroupNotEmpty(
                    f"group {self.group} on {self.cluster} has members",
                    "a move would be overwritten by their next commit",
                    f"Stop the consumers of {self.group} on {self.cluster}, then plan again.",
                )
        missing = [p for p in self._offsets if now[self._entity(p)] is None]
        if missing and (len(missing) < len(self._offsets) or now[self._others]):
            raise UsageError(
                f"moving {self.group} could not be undone",
                f"it has positions, and none in {missing[0]}",
                "Commit a position there first, or move only those it has.",
            )
        return tuple(
            Change(self._entity(p), now[self._entity(p)], to)
            for p, to in self._offsets.items()
            if now[self._entity(p)] != to
        )

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        abort.check()
        self._set({change.entity: change.after for change in changes})
        return {"moved": len(changes)}

    def probe(self, changes: Changes) -> Reach:
        return reach(self.observe(), changes)

    def undo(self, changes: Changes) -> None:
        """Restore them. Raises `Deviated` when another client moved one meanwhile, `GroupNotEmpty` for members."""
        now = {fact.entity: fact.value for fact in self.observe()}
        for change in changes:
            if now[change.entity] not in (change.before, change.after):
                raise Deviated(
                    f"the positions of {self.group} on {self.cluster} are left",
                    f"{change.entity} was set to {change.after} and is {now[change.entity]}: another client changed it",
                    "Look who uses the group.",
                )
        if changes and all(change.before is None for change in changes):
            with Cluster(self.settings) as cluster:
                cluster.delete_group(self.group)
            return
        self._set({change.entity: change.before for change in changes})

    def cluster_id(self) -> str:
        return cluster_id(self.settings)

    def _set(self, values: Mapping[str, Value]) -> None:
        wanted = {p: values[self._entity(p)] for p in self._offsets if self._entity(p) in values}
        with Cluster(self.settings) as cluster:
            moved = {p: CommittedOffset(to) for p, to in wanted.items() if isinstance(to, int)}
            cluster.alter_group_offsets(self.group, moved)


ACTIONS: Final[Mapping[str, type[DrillAction]]] = {"topic.create": CreateTopic, "group.move": MoveGroup}


def register() -> None:
    """Make the registry of this process know them."""
    registry.ACTIONS.update(ACTIONS)
