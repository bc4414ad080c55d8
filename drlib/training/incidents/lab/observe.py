"""Looks at an incident from outside: both clusters, the applications, and what the mirror says of itself.

Rules: it knows no cause. A broker that refuses or does not greet within a second is silent, and is not asked further
in that look; whatever could not be asked is None. Nothing is changed. Not for: deciding what is out of the ordinary
(`drlib.training.incidents.rules.symptoms`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as At
from confluent_kafka.admin import AdminClient, OffsetSpec

from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.errors import ClusterRefused
from drlib.model import TopicPartition
from drlib.training.incidents.lab.scene import FLOW, GATES, KITCHEN, MENUS, ON_LEFT, ON_RIGHT, READERS, Scene
from drlib.training.incidents.rules.symptoms import ApplicationLook, GroupLook, Look, TopicLook

_CALL_S: Final = 2.0
_Ends = dict[str, tuple[int, int] | None]  # by topic: partitions, sum of log ends; None where we may not look


class Looker:
    """Looks again and again. Not thread-safe."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def look(self) -> Look:
        """One look; takes some 100 ms while all is well, a few seconds where somebody is silent."""
        names = [topic.name for topic in ON_LEFT]
        left = self._ends("LEFT", names)
        right = self._ends("RIGHT", [*(f"LEFT.{name}" for name in names), *(topic.name for topic in ON_RIGHT)])
        told = self._scene.mirror()
        runs = self._scene.mirror_runs()
        mirrored = self._mirrored()
        newest = self._newest(GATES.name) if left is not None else None
        topics = tuple(
            TopicLook(
                name,
                _of(left, name, 1),
                mirrored.get(name, 0) if told is not None else None,
                _of(right, name, 1),
                newest if name == GATES.name else None,
                (_of(left, name, 0), _of(right, f"LEFT.{name}", 0), self._standby(right, name)),
            )
            for name in names
        )
        silent = tuple(site for site, found in (("LEFT", left), ("RIGHT", right)) if found is None)
        events = () if told is None else tuple(dict.fromkeys(e.name for e in told.events if e.resolved_ms is None))
        return Look(
            int(time.time() * 1000),
            silent,
            topics,
            tuple(self._application(name) for name in self._scene.application_names()),
            self._groups(silent),
            runs,
            events,
            self._rewound(silent),
        )

    def _ends(self, site: str, names: Sequence[str]) -> _Ends | None:
        """Of those topics that are there; None where the site does not answer."""
        if not self._scene.greets(site):
            return None
        try:
            with self._scene.cluster(site, _CALL_S) as cluster:
                try:
                    return _ends(cluster, names)
                except ClusterRefused:  # one of them may not be looked at: which?
                    return {name: found for one in names for name, found in _alone(cluster, one).items()}
        except DrlibError:
            return None

    def _standby(self, right: _Ends | None, name: str) -> int | None:
        return _of(right, name, 0) if name in {topic.name for topic in ON_RIGHT} else None

    def _mirrored(self) -> dict[str, int]:
        """By source topic: how much of it the worker says is acknowledged on RIGHT."""
        told = self._scene.mirror()
        found: dict[str, int] = {}
        for flow in told.flows if told is not None else ():
            if flow.flow == str(FLOW):
                for one in flow.partitions:
                    found[one.topic] = found.get(one.topic, 0) + max(0, one.mirrored)
        return found

    def _newest(self, topic: str) -> int | None:
        """The greatest timestamp in the topic on LEFT (KIP-734)."""
        admin = AdminClient({"bootstrap.servers": self._scene.bootstrap("LEFT"), "log_level": 0})
        try:
            asked = admin.list_offsets({At(topic, 0): OffsetSpec.max_timestamp()}, request_timeout=_CALL_S)
            stamp = next(iter(asked.values())).result().timestamp
        except KafkaException:
            return None
        return int(stamp) if stamp is not None and stamp >= 0 else None

    def _application(self, name: str) -> ApplicationLook:
        told = self._scene.applications.status(name)
        running = self._scene.applications.runs(name)
        phase = "gone" if not running else "starting" if told is None else told.phase
        return ApplicationLook(name, phase, "" if told is None else told.cluster, 0 if told is None else told.done)

    def _groups(self, silent: Sequence[str]) -> tuple[GroupLook, ...]:
        found: dict[str, list[int | None]] = {group: [None, None] for group in READERS}
        for number, site in enumerate(("LEFT", "RIGHT")):
            if site in silent:
                continue
            try:
                with self._scene.cluster(site, _CALL_S) as cluster:
                    for group in READERS:
                        found[group][number] = _sum(cluster, group)
            except DrlibError:
                continue
        return tuple(GroupLook(group, left, right) for group, (left, right) in found.items())

    def _rewound(self, silent: Sequence[str]) -> tuple[str, ...]:
        if "LEFT" in silent:
            return ()
        try:
            with self._scene.cluster("LEFT", _CALL_S) as left:
                every = [TopicPartition(MENUS.name, n) for n in range(MENUS.partitions)]
                positions = left.group_offsets(KITCHEN)
                starts = left.log_starts(every)
        except DrlibError:
            return ()
        stands = all(at in positions and positions[at].offset == starts[at] for at in every)
        return (KITCHEN,) if stands else ()


def _ends(cluster: Cluster, names: Sequence[str]) -> _Ends:
    shapes = {name: found.partitions for name, found in cluster.topics(names).items()}
    ends = cluster.log_ends(TopicPartition(name, n) for name, count in shapes.items() for n in range(count))
    return {name: (count, sum(ends[TopicPartition(name, n)] for n in range(count))) for name, count in shapes.items()}


def _alone(cluster: Cluster, name: str) -> _Ends:
    try:
        return _ends(cluster, [name])
    except ClusterRefused:
        return {name: None}


def _of(found: _Ends | None, name: str, which: int) -> int | None:
    """0 for a topic that is not there, None where nobody could be asked."""
    if found is None:
        return None
    there = found.get(name, (0, 0))
    return None if there is None else there[which]


def _sum(cluster: Cluster, group: str) -> int | None:
    positions = cluster.group_offsets(group)
    return sum(at.offset for at in positions.values()) if positions else None
