"""Steps that change a cluster: create a topic, move a group's positions. Registered by name in `makers`.

Rules: each looks with fresh eyes (a handle of its own, closed at once) and waits for what the broker does, not for time.
An undo never takes what it did not bring: a topic that holds records by then stays, and so do positions of a group that
somebody moved on; both are errors that name what is there.
Arguments: `topic.create` cluster, topic, partitions; `group.move` cluster, group, topic, positions ("partition:offset").
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drlib.drill.plan.plan import Call, Change, Fact, Value
from drlib.drill.plan.progress import Reach
from drlib.drill.step.action import ActionMaker, Changes, Evidence, reach
from drlib.drill.step.cluster_identity import cluster_id, identified
from drlib.drill.step.context import DrillContext
from drlib.errors import Deviated, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset
from drlib.kafka.admin.errors import GroupNotEmpty
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import TopicPartition
from drlib.runs.abort import Abort


def makers(workplace: DrillContext) -> dict[str, ActionMaker]:
    """The actions of this module. A maker raises KeyError for an argument that is missing."""
    return {
        "topic.create": functools.partial(_create_topic, workplace.clusters),
        "group.move": functools.partial(_move_group, workplace.clusters),
    }


def _create_topic(clusters: Mapping[str, ClusterSettings], call: Call) -> CreateTopic:
    partitions = _whole(call, "partitions")
    return CreateTopic(_cluster(clusters, call), str(call.argument("topic")), partitions)


def _move_group(clusters: Mapping[str, ClusterSettings], call: Call) -> MoveGroup:
    topic, positions = str(call.argument("topic")), call.argument("positions")
    if not isinstance(positions, tuple) or not positions:
        raise UsageError(f"{call.name}: positions", "it is no list", "Write it as a list of 'partition:offset'.")
    wanted = {}
    for text in positions:
        partition, colon, offset = text.partition(":")
        if not (colon and partition.isdecimal() and offset.isdecimal()):
            raise UsageError(f"{call.name}: position '{text}'", "it is none", "Write it as 'partition:offset'.")
        wanted[TopicPartition(topic, int(partition))] = int(offset)
    return MoveGroup(_cluster(clusters, call), str(call.argument("group")), wanted)


@dataclass(frozen=True)
class CreateTopic:
    cluster: ClusterSettings
    topic: str
    partitions: int

    @property
    def _entity(self) -> str:
        return f"partitions of topic {self.topic} on {self.cluster.alias}"

    def observe(self) -> Sequence[Fact]:
        with Cluster(self.cluster) as cluster:
            found = cluster.topics([self.topic]).get(self.topic)
            return (
                Fact(self._entity, found.partitions if found else None),
                identified(self.cluster.alias, cluster.cluster_id()),
            )

    def changes(self, observed: Sequence[Fact]) -> Changes:
        """Nothing when it is there as wanted. Raises `UsageError` when it is there and is another."""
        now = {fact.entity: fact.value for fact in observed}[self._entity]
        if now not in (None, self.partitions):
            raise UsageError(
                f"topic {self.topic} on {self.cluster.alias} is there already",
                f"it has {now} partitions and not {self.partitions}",
                "Name another topic, or ask for as many partitions as it has.",
            )
        return () if now == self.partitions else (Change(self._entity, None, self.partitions),)

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        if not changes:
            return {"created": False}
        abort.check()
        with Cluster(self.cluster) as cluster:
            return {"created": cluster.create_topic(self.topic, self.partitions, -1)}

    def probe(self, changes: Changes) -> Reach:
        return reach(self.observe(), changes)

    def undo(self, changes: Changes) -> None:
        """Delete it, if it is empty. Raises `Deviated` when it holds records, which are not ours to lose."""
        if not changes:
            return
        with Cluster(self.cluster) as cluster:
            found = cluster.topics([self.topic]).get(self.topic)
            if found is None:
                return
            ends = cluster.log_ends(TopicPartition(self.topic, n) for n in range(found.partitions))
            if any(ends.values()):
                raise Deviated(
                    f"topic {self.topic} on {self.cluster.alias} is left",
                    f"{sum(ends.values())} records were written to it since it was created",
                    "Delete it yourself if they are not needed.",
                )
            cluster.delete_topic(self.topic)

    def cluster_id(self) -> str:
        return cluster_id(self.cluster)


@dataclass(frozen=True)
class MoveGroup:
    """Sets the positions of a group without members."""

    cluster: ClusterSettings
    group: str
    positions: Mapping[TopicPartition, int]

    def _entity(self, partition: TopicPartition) -> str:
        return f"position of {self.group} in {partition} on {self.cluster.alias}"

    @property
    def _others(self) -> str:
        return f"other positions of {self.group} on {self.cluster.alias}"

    def observe(self) -> Sequence[Fact]:
        with Cluster(self.cluster) as cluster:
            found, its_id = cluster.group_offsets(self.group), identified(self.cluster.alias, cluster.cluster_id())
        now: dict[TopicPartition, Value] = {p: found[p].offset if p in found else None for p in self.positions}
        others = len(found.keys() - self.positions.keys())
        return (*(Fact(self._entity(p), value) for p, value in now.items()), Fact(self._others, others), its_id)

    def changes(self, observed: Sequence[Fact]) -> Changes:
        """Raises `GroupNotEmpty` for a group with members, `UsageError` for a move that could not be undone."""
        now = {fact.entity: fact.value for fact in observed}
        with Cluster(self.cluster) as cluster:
            if cluster.group_members(self.group):
                raise GroupNotEmpty(
                    f"group {self.group} on {self.cluster.alias} has members",
                    "a move would be overwritten by their next commit",
                    f"Stop the consumers of {self.group} on {self.cluster.alias}, then plan again.",
                )
        missing = [p for p in self.positions if now[self._entity(p)] is None]
        if missing and (len(missing) < len(self.positions) or now[self._others]):
            raise UsageError(
                f"moving {self.group} could not be undone",
                f"it has positions, and none in {missing[0]}",
                "Commit a position there first, or move only those it has.",
            )
        return tuple(
            Change(self._entity(p), now[self._entity(p)], to)
            for p, to in self.positions.items()
            if now[self._entity(p)] != to
        )

    def act(self, changes: Changes, abort: Abort) -> Evidence:
        abort.check()
        self._set({change.entity: change.after for change in changes})
        return {"moved": len(changes)}

    def probe(self, changes: Changes) -> Reach:
        return reach(self.observe(), changes)

    def undo(self, changes: Changes) -> None:
        """Put them back. Raises `Deviated` when somebody moved one on meanwhile, `GroupNotEmpty` for members."""
        now = {fact.entity: fact.value for fact in self.observe()}
        for change in changes:
            if now[change.entity] not in (change.before, change.after):
                raise Deviated(
                    f"the positions of {self.group} on {self.cluster.alias} are left",
                    f"{change.entity} was set to {change.after} and is {now[change.entity]}: somebody moved it",
                    "Look who uses the group.",
                )
        if changes and all(change.before is None for change in changes):
            with Cluster(self.cluster) as cluster:
                cluster.delete_group(self.group)
            return
        self._set({change.entity: change.before for change in changes})

    def cluster_id(self) -> str:
        return cluster_id(self.cluster)

    def _set(self, values: Mapping[str, Value]) -> None:
        wanted = {p: values[self._entity(p)] for p in self.positions if self._entity(p) in values}
        with Cluster(self.cluster) as cluster:
            moved = {p: CommittedOffset(to) for p, to in wanted.items() if isinstance(to, int)}
            cluster.alter_group_offsets(self.group, moved)


def _cluster(clusters: Mapping[str, ClusterSettings], call: Call) -> ClusterSettings:
    alias = str(call.argument("cluster"))
    if alias not in clusters:
        raise UsageError(f"{call.name}: cluster {alias}", "there is none", f"There are: {', '.join(sorted(clusters))}.")
    return clusters[alias]


def _whole(call: Call, name: str) -> int:
    value = call.argument(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UsageError(f"{call.name}: {name}", f"{value} is no number of {name}", "Give a whole number from 1 on.")
    return value
