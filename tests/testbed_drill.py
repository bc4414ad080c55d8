"""A drill of three real steps on one cluster, run by processes that die where a test says; and its two actions.

`run` is what such a process does. `kill` names where it sends SIGKILL to itself: "line:3" after the third line of its
journal, "create_topic:before", "alter_group_offsets:after", and so on for the handle's methods; "" nowhere.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from drlib.drill.plan.plan import Argument, Call, Change, Drill, Fact, Mode, Plan, Rollback, Step, Value
from drlib.drill.plan.progress import Reach
from drlib.drill.run import planning, registry
from drlib.drill.run.lease import Lease
from drlib.drill.run.permissions import Permissions
from drlib.drill.run.runner import Runner
from drlib.drill.step.action import Action, Changes, DrillAction, Evidence, reach
from drlib.drill.step.arguments import Positive, Text, Texts
from drlib.drill.step.cluster_identity import cluster_id, identified
from drlib.drill.step.context import DrillContext
from drlib.errors import Deviated, DrlibError, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset
from drlib.kafka.admin.errors import GroupNotEmpty
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import Flow, TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.journal import JOURNAL, DrillJournal

ALIAS = "RIGHT"
SESSION_MS = 6000
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["testbed_drill"])


def drill(topic: str, old_topic: str, *, rollback: Rollback = Rollback.DEFAULT, flow: str = "RIGHT") -> Drill:
    """Create `topic`, give a new group positions in it, and move a group that has positions in `old_topic`."""

    def step(name: str, action: str, **arguments: str | int | tuple[str, ...]) -> Step:
        values = tuple(Argument(key, value) for key, value in {"cluster": ALIAS, **arguments}.items())
        return Step(name=name, title=name, action=Call(action, values))

    steps = (
        step("create", "topic.create", topic=topic, partitions=2),
        step("place", "group.move", group=f"new.{topic}", topic=topic, positions=("0:5", "1:7")),
        step("move", "group.move", group=f"old.{topic}", topic=old_topic, positions=("0:9",)),
    )
    return Drill(name="drill", flow=Flow("LEFT", flow), mode=Mode.PLANNED, steps=steps, rollback=rollback)


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
                f"topic {self.topic} on {self.cluster} is there already",
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
        """Put them back. Raises `Deviated` when somebody moved one on meanwhile, `GroupNotEmpty` for members."""
        now = {fact.entity: fact.value for fact in self.observe()}
        for change in changes:
            if now[change.entity] not in (change.before, change.after):
                raise Deviated(
                    f"the positions of {self.group} on {self.cluster} are left",
                    f"{change.entity} was set to {change.after} and is {now[change.entity]}: somebody moved it",
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


ACTIONS: registry.Table[DrillAction] = {"topic.create": CreateTopic, "group.move": MoveGroup}


def actions(drill: Drill, context: DrillContext) -> dict[str, Action]:
    return registry.parse_drill(drill, ACTIONS).bind(context)[0]


def make_plan(bootstrap: str, wanted: Drill) -> Plan:
    return planning.make_plan(wanted, actions(wanted, workplace(bootstrap, Path(), wanted.flow)))


def workplace(bootstrap: str, folder: Path, flow: Flow) -> DrillContext:
    return DrillContext(clusters={ALIAS: ClusterSettings(ALIAS, (bootstrap,))}, flow=flow, run_dir=folder)


def run(folder: str, bootstrap: str, kill: str, how: str, lease_wait_s: float | None) -> None:
    """Run, "resume" or "rollback" the plan in `folder`; exits with the error's own exit code."""
    _arm(kill)
    plan, target = planning.read(Path(folder)), ClusterSettings(ALIAS, (bootstrap,))
    steps = actions(plan.drill, workplace(bootstrap, Path(folder), plan.drill.flow))
    permissions = Permissions(lab=True)
    options = {"resume": how == "resume", "rollback": how == "rollback"}
    try:
        if lease_wait_s is None:
            Runner(Path(folder), plan, steps, {}, permissions=permissions).run(**options)
        else:
            name = Path(folder).name
            with Lease(target, plan.drill.flow, name, session_timeout_ms=SESSION_MS, wait_s=lease_wait_s) as lease:
                Runner(Path(folder), plan, steps, {}, flow=lease, permissions=permissions).run(**options)
    except DrlibError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)


def in_process(
    folder: Path, bootstrap: str, *, kill: str = "", how: str = "", lease_wait_s: float | None = None
) -> int:
    """Run it in a process of its own: the exit code, -9 when it was killed."""
    how = how or ("resume" if (folder / JOURNAL).exists() else "run")
    process = _PROCESSES.Process(target=run, args=(str(folder), bootstrap, kill, how, lease_wait_s))
    process.start()
    process.join(90)
    assert process.exitcode is not None, "it did not end"
    return process.exitcode


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _arm(kill: str) -> None:
    what, _, where = kill.partition(":")
    if not what:
        return
    if what == "line":
        left, whole = int(where), DrillJournal.write

        def write(self: DrillJournal, event: str, **data: str | int | float | bool | None) -> None:
            nonlocal left
            whole(self, event, **data)
            left -= 1
            if left == 0:
                _die()

        DrillJournal.write = write  # type: ignore[method-assign]
        return
    method = getattr(Cluster, what)

    def dying(self: Cluster, *arguments: object, **options: object) -> object:
        if where == "before":
            _die()
        method(self, *arguments, **options)
        return _die()

    setattr(Cluster, what, dying)


def found(bootstrap: str, topic: str, old_topic: str) -> tuple[bool, dict[int, int], dict[int, int]]:
    """Is the topic there, and the positions of the new group and of the old one."""
    with Cluster(ClusterSettings(ALIAS, (bootstrap,))) as cluster:
        there = topic in cluster.topics([topic])
        new, old = cluster.group_offsets(f"new.{topic}"), cluster.group_offsets(f"old.{topic}")
    return (
        there,
        {p.partition: at.offset for p, at in new.items()},
        {p.partition: at.offset for p, at in old.items() if p == TopicPartition(old_topic, p.partition)},
    )
