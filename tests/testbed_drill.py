"""A drill of three real steps on one cluster, run by processes that die where a test says.

`run` is what such a process does. `kill` names where it sends SIGKILL to itself: "line:3" after the third line of its
journal, "create_topic:before", "alter_group_offsets:after", and so on for the handle's methods; "" nowhere.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from testbed_actions import ACTIONS

from drlib.drill.plan.plan import Argument, Call, Drill, Mode, Plan, Rollback, Step
from drlib.drill.run import planning, registry
from drlib.drill.run.lease import Lease
from drlib.drill.run.permissions import Permissions
from drlib.drill.run.runner import Runner
from drlib.drill.step.action import Action
from drlib.drill.step.context import DrillContext
from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import Flow, TopicPartition
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


def actions(drill: Drill, context: DrillContext) -> Mapping[str, Action]:
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

    def dying(self: Cluster, *arguments: object, **options: object) -> None:
        if where == "before":
            _die()
        method(self, *arguments, **options)
        _die()

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
