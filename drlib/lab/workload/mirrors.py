"""Flows between the clusters of a lab for one topic, each set of flows a worker of its own.

Rules: only topics of that very name are mirrored, so a copy is never copied on: in a mesh of several clusters each
record takes one hop, and a third cluster's records come from it alone. Workers run as processes of the lab; starting one
that runs changes nothing. What a worker creates on its target is named by `topics`, so that it can be taken away again.
Not for: moving groups; their positions are kept in step only where somebody will move.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path

from javaproperties import join_key_value

from drlib.config.replication_policy import DefaultReplicationPolicy
from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.errors import UsageError
from drlib.files import write_whole
from drlib.lab.lab import ONE_BROKER, Lab
from drlib.lab.workload.applications import LabApplications
from drlib.mirror.status import worker_status as mirror_status
from drlib.model import Flow
from drlib.runs.abort import Abort
from drlib.runs.waiting import wait_on_lab

POLICY = DefaultReplicationPolicy()
_START_S = 60.0


def flows_among(clusters: Sequence[str]) -> tuple[Flow, ...]:
    """Every cluster to every other one."""
    return tuple(Flow(source, target) for source, target in permutations(clusters, 2))


def flows_with(newcomer: str, others: Iterable[str]) -> tuple[Flow, ...]:
    """What is added when `newcomer` joins `others`."""
    return tuple(flow for other in others for flow in (Flow(newcomer, other), Flow(other, newcomer)))


def file_of(lab: Lab, flow: Flow) -> Path | None:
    """The file of the worker of a drill's own that mirrors `flow`; None where no such worker is on record.

    One that runs comes before one that ended.
    """
    found = sorted(lab.status(), key=lambda one: not one.alive)
    for path in (lab.root / f"{one.name}.properties" for one in found):
        try:
            if path.is_file() and load_mirror_settings(path).flow(flow.source, flow.target).enabled:
                return path
        except UsageError:
            continue  # another flow's
    return None


@dataclass(frozen=True, slots=True)
class LabMirrors:
    """The worker `name` for `flows` of `topic`."""

    applications: LabApplications
    name: str
    topic: str
    flows: tuple[Flow, ...]
    positions: bool = False  # also emit checkpoints of groups' positions
    lanes: int = 1

    @property
    def lab(self) -> Lab:
        return self.applications.lab

    @property
    def path(self) -> Path:
        return self.lab.root / f"{self.name}.properties"

    @property
    def settings(self) -> MirrorSettings:
        """Raises `UsageError` before `start`."""
        return load_mirror_settings(self.path)

    def write(self) -> Path:
        """The worker's file, as a person would write it."""
        aliases = sorted({alias for flow in self.flows for alias in (flow.source, flow.target)})
        lines = {
            "clusters": ", ".join(aliases),
            **{f"{alias}.bootstrap.servers": self.lab.clusters[alias].link_bootstrap for alias in aliases},
            **{f"{flow}.enabled": "true" for flow in self.flows},
            "topics": self.topic,
            **ONE_BROKER,
            "refresh.topics.interval.seconds": "1",
            "emit.checkpoints.enabled": str(self.positions).lower(),
            "emit.checkpoints.interval.seconds": "1",
            "refresh.groups.interval.seconds": "1",
            "emit.heartbeats.enabled": "false",
            "heartbeats.replication.enabled": "false",
            "emit.offset-syncs.enabled": "false",
            "drlib.lanes": str(self.lanes),
            "drlib.session.timeout.ms": "6000",
        }
        write_whole(self.path, "".join(f"{join_key_value(key, value)}\n" for key, value in lines.items()))
        return self.path

    def topics(self) -> tuple[tuple[str, str], ...]:
        """What the worker makes on its targets, as (cluster, topic)."""
        made = []
        for flow in self.flows:
            made.append((flow.target, POLICY.remote_topic(flow.source, self.topic)))
            made.append((flow.target, POLICY.journal_topic(flow.source)))
            if self.positions:
                made.append((flow.target, POLICY.checkpoints_topic(flow.source)))
        return tuple(made)

    def start(self, abort: Abort) -> None:
        """Start the worker where none runs, and wait until every flow's lanes do."""
        if not self.applications.runs(self.name):
            status = self.applications.status_path(self.name)
            status.unlink(missing_ok=True)
            arguments = ("mirror", str(self.write()), "--status", str(status))
            self.applications.start_module(self.name, "drlib.cli", *arguments)
        wait_on_lab(abort, f"{self.name} mirrors {len(self.flows)} flows", self._all_run, _START_S, self.lab.root)

    def stop(self) -> None:
        """SIGTERM: what was fetched is sent and journaled first."""
        self.lab.registry.stop(self.name, deadline_s=20.0)

    def status(self) -> mirror_status.WorkerStatus | None:
        """What the worker last said; None when it has not said anything yet."""
        try:
            return mirror_status.read(self.applications.status_path(self.name))
        except UsageError:
            return None

    def crossed(self, flow: Flow, ends: Iterable[int]) -> bool:
        """Does the worker say that `flow` has mirrored each partition up to `ends`, by number?"""
        told = self.status()
        found = {
            p.partition: p.mirrored for f in (told.flows if told else ()) if f.flow == str(flow) for p in f.partitions
        }
        return all(found.get(number, -1) >= end for number, end in enumerate(ends))

    def _all_run(self) -> bool:
        told = self.status()
        return (
            told is not None
            and told.state == "running"
            and len(told.flows) == len(self.flows)
            and all(flow.lanes and all(lane.state == "running" for lane in flow.lanes) for flow in told.flows)
        )
