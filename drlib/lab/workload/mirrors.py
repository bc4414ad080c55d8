"""`drlib mirror` workers as processes of a lab: one for a given file, or one for flows of a topic, whose file is written.

Rules: a worker outlives its starter where the lab does; starting one that runs changes nothing. `LabMirrors` mirrors only
topics that match `topic`, so a copy is not copied on: among several clusters each record takes one hop, and a third
cluster's records come from it alone. The topics that a worker creates on its targets are listed by `topics`, so that they
can be deleted. On a secured lab it is the lab's admin: the mirror's user has rights on the topics of the lab's own file alone.
Not for: moving groups; checkpoints are emitted only where `positions` asks for them.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path

import javaproperties

from drlib.config.patterns.selection import LONGEST_NAME
from drlib.config.replication_policy import ALIAS_LETTERS, DefaultReplicationPolicy, should_mirror
from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.errors import Unreachable, UsageError
from drlib.files import write_whole
from drlib.kafka.admin.cluster import Cluster
from drlib.lab.lab import Lab
from drlib.lab.processes import wait_until
from drlib.mirror.offsets.map.flow_maps import worker_group
from drlib.mirror.offsets.unreplicated.find import refuse_workers
from drlib.mirror.status import worker_status
from drlib.mirror.status.worker_status import PartitionStatus, WorkerStatus
from drlib.model import Flow, TopicPartition
from drlib.runs.abort import Abort
from drlib.runs.waiting import wait_on_lab

POLICY = DefaultReplicationPolicy()
_START_S = 60.0
_STOP_S = 20.0
_SESSION_S = 8.0  # a little longer than a worker's session timeout


def flows_among(clusters: Sequence[str]) -> tuple[Flow, ...]:
    """A flow from every cluster to every other one."""
    return tuple(Flow(source, target) for source, target in permutations(clusters, 2))


def flows_with(newcomer: str, others: Iterable[str]) -> tuple[Flow, ...]:
    """The flows that are added when `newcomer` joins `others`: one in each direction for each of them."""
    return tuple(flow for other in others for flow in (Flow(newcomer, other), Flow(other, newcomer)))


def file_of(lab: Lab, flow: Flow) -> Path | None:
    """The file of the registered worker that mirrors `flow`, a running one first; None where there is none."""
    statuses = sorted(lab.status(), key=lambda process: not process.alive)
    for path in (lab.root / f"{process.name}.properties" for process in statuses):
        try:
            if path.is_file() and load_mirror_settings(path).flow(flow.source, flow.target).enabled:
                return path
        except UsageError:
            continue  # a worker of other flows
    return None


def partition_statuses(status: WorkerStatus | None, flow: Flow | None = None) -> dict[TopicPartition, PartitionStatus]:
    """What the worker reports of each source partition, of `flow` or of all its flows; empty before its first report."""
    return {
        TopicPartition(row.topic, row.partition): row
        for reported in (status.flows if status else ())
        if flow is None or reported.flow == str(flow)
        for row in reported.partitions
    }


def has_crossed(status: WorkerStatus | None, flow: Flow, ends: Mapping[TopicPartition, int]) -> bool:
    """Whether the worker reports that `flow` has mirrored every source partition in `ends` up to its offset."""
    return not_crossed(status, flow, ends) == 0


def not_crossed(status: WorkerStatus | None, flow: Flow, ends: Mapping[TopicPartition, int]) -> int:
    """The number of offsets below `ends` that the worker does not report as mirrored; a partition not reported counts one."""
    rows = partition_statuses(status, flow)
    return sum(max(0, end - rows[p].mirrored) if p in rows else max(1, end) for p, end in ends.items())


def refuse_other_workers(target: Cluster, flow: Flow, who: str) -> None:
    """Raises `UsageError` while a worker mirrors `flow`, other than one that was killed: its session times out meanwhile.

    `who` needs the flow, as in "a lesson".
    """

    def is_empty() -> bool:
        try:
            return not target.group_members(worker_group(flow))
        except Unreachable:
            return False  # a broker has no group coordinator right after its start

    wait_until(is_empty, _SESSION_S)
    try:
        refuse_workers(target, flow)
    except UsageError as error:
        raise UsageError(
            error.what,
            f"{who} needs the flow for itself: the workers of a flow share its lanes, and the other one has topics of its own",
            "Stop that worker (close the notebook or drill that runs it, or take its lab down), or name another lab_dir.",
        ) from error


def refuse_topic(topic: str, flows: Iterable[Flow]) -> None:
    """Raises `UsageError` for a name that no topic can have, and for one that one of `flows` does not mirror."""
    if not 0 < len(topic) <= LONGEST_NAME or not set(topic) <= ALIAS_LETTERS or topic in (".", ".."):
        raise UsageError(
            f"there can be no topic {topic!r}",
            f"a topic's name has 1 to {LONGEST_NAME} letters, digits, periods, underscores and hyphens",
            "Name another topic.",
        )
    if left_out := next((flow for flow in flows if not should_mirror(POLICY, flow, topic, lambda _: True)), None):
        internal = POLICY.is_internal(topic)
        why = "its name is that of an internal topic" if internal else "a cluster's alias is a part of its name"
        why += "" if internal else ", so that it counts as a mirror"
        raise UsageError(f"topic {topic} is not mirrored by {left_out}", why, "Name another topic.")


@dataclass(frozen=True)
class MirrorWorker:
    """The worker registered as `name`, which reads `properties` and reports to `status_path`."""

    lab: Lab
    name: str
    properties: Path
    status_path: Path

    @property
    def runs(self) -> bool:
        return self.lab.registry.alive(self.name)

    @property
    def command(self) -> str:
        """What starts a worker for its file in a shell."""
        return f"drlib mirror {shlex.quote(str(self.properties.resolve()))}"

    @property
    def settings(self) -> MirrorSettings:
        """Raises `UsageError` where the file does not exist yet."""
        return load_mirror_settings(self.properties)

    def launch(self) -> None:
        """Start the process where it does not run, and return at once."""
        if not self.runs:
            self.status_path.unlink(missing_ok=True)
            self.lab.start_module(
                self.name, "drlib.cli", "mirror", str(self.properties), "--status", str(self.status_path)
            )

    def stop(self) -> None:
        """SIGTERM: records that were fetched are produced and journaled first."""
        self.lab.registry.stop(self.name, deadline_s=_STOP_S)

    def kill(self) -> None:
        self.lab.registry.kill(self.name)

    def status(self) -> WorkerStatus | None:
        """The last report; None before the first one."""
        try:
            return worker_status.read(self.status_path)
        except UsageError:
            return None


@dataclass(frozen=True)
class LabMirrors(MirrorWorker):
    """The worker `name` for `flows` of `topic`, with a file of its own in the lab's folder.

    `positions`: it also emits checkpoints of the groups' positions. `keys`: more lines of the file.
    """

    properties: Path = field(init=False)
    status_path: Path = field(init=False)
    topic: str
    flows: tuple[Flow, ...]
    positions: bool = False
    lanes: int = 1
    keys: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "properties", self.lab.root / f"{self.name}.properties")
        object.__setattr__(self, "status_path", self.lab.root / f"{self.name}.status.json")

    def write(self) -> Path:
        """Write the worker's connect-mirror-maker.properties and return its path."""
        aliases = sorted({alias for flow in self.flows for alias in (flow.source, flow.target)})
        lines = {
            "clusters": ", ".join(aliases),
            **{f"{alias}.bootstrap.servers": self.lab.clusters[alias].link_bootstrap for alias in aliases},
            **{f"{flow}.enabled": "true" for flow in self.flows},
            "topics": self.topic,
            **self.lab.mirror_keys(aliases, user=self.lab.admin),
            "refresh.topics.interval.seconds": "1",
            "emit.checkpoints.enabled": str(self.positions).lower(),
            "emit.checkpoints.interval.seconds": "1",
            "refresh.groups.interval.seconds": "1",
            "emit.heartbeats.enabled": "false",
            "heartbeats.replication.enabled": "false",
            "emit.offset-syncs.enabled": "false",
            "drlib.lanes": str(self.lanes),
            "drlib.session.timeout.ms": "6000",
            **self.keys,
        }
        write_whole(self.properties, javaproperties.dumps(lines, timestamp=None))
        return self.properties

    def topics(self) -> tuple[tuple[str, str], ...]:
        """The topics that the worker creates on its targets, as (cluster, topic)."""
        created = []
        for flow in self.flows:
            created.append((flow.target, POLICY.remote_topic(flow.source, self.topic)))
            created.append((flow.target, POLICY.journal_topic(flow.source)))
            if self.positions:
                created.append((flow.target, POLICY.checkpoints_topic(flow.source)))
        return tuple(created)

    def start(self, abort: Abort) -> None:
        """Start the worker where it does not run, and wait until every lane of every flow runs.

        Raises `Unreachable` after a minute, `Aborted`.
        """
        if not self.runs:
            self.write()
            self.launch()
        wait_on_lab(abort, f"{self.name} mirrors {len(self.flows)} flows", self._all_run, _START_S, self.lab.root)

    def crossed(self, flow: Flow, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether the worker reports that `flow` has mirrored every source partition in `ends` up to its offset."""
        return has_crossed(self.status(), flow, ends)

    def _all_run(self) -> bool:
        status = self.status()
        return (
            status is not None
            and status.state == "running"
            and len(status.flows) == len(self.flows)
            and all(flow.lanes and all(lane.state == "running" for lane in flow.lanes) for flow in status.flows)
        )
