"""Copies topics from one cluster to another without a file: settings in memory, run by the engine of `drlib mirror`.

Rules:
- The cluster IDs are looked up first; one cluster on both sides is refused, and so is a copy in a cycle.
- A target topic with records that this copy did not write is refused, because the two could not be distinguished later.
  The journal on the target records what this copy wrote, so a second run continues where the first ended.
- One worker: a second one with other topics would take lanes over without copying the first one's topics in them.
- Until caught up means up to the log ends at the start, open transactions included.
Not for: group offsets, heartbeats and checkpoints; `drlib mirror` writes those.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from drlib.config.flow_settings import FlowSettings
from drlib.config.replication_policy import (
    HEARTBEATS,
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
)
from drlib.config.settings import MirrorSettings
from drlib.config.start_rule import EARLIEST, StartRule
from drlib.errors import DrlibError, LeaseHeld, ObjectiveMissed, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import answers, wire_client
from drlib.kafka.net.cluster_client import ClusterMetadata
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror import worker
from drlib.mirror.engine.fetch.memory import DEFAULT_WORKER
from drlib.mirror.offsets.map.flow_maps import worker_group
from drlib.mirror.offsets.map.load_maps import Maps, read_maps
from drlib.mirror.status import worker_status as status
from drlib.model import Flow, TopicPartition

IDLE_STATES = ("EMPTY", "DEAD")
PATIENCE_SESSIONS = 2.0


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """`topics` are Java patterns; without a `prefix` topics keep their names. `start`: where a topic begins that was not
    copied yet."""

    source: ClusterSettings
    target: ClusterSettings
    topics: tuple[str, ...]
    prefix: str | None = None
    until_caught_up: bool = False
    start: StartRule = EARLIEST


@dataclass(slots=True)
class Copy:
    """A copy that is ready to run. `starts` and `ends`: the source's log starts and ends when it was prepared."""

    request: CopyRequest
    settings: MirrorSettings
    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    left: dict[TopicPartition, int] = field(default_factory=dict)
    problem: DrlibError | None = None
    now: Callable[[], float] = time.monotonic
    _short_since: float | None = None

    @property
    def flow(self) -> FlowSettings:
        return self.settings.flows[0]

    def run(
        self,
        *,
        status_path: Path | None = None,
        memory_bytes: int = DEFAULT_WORKER,
        on_state: Callable[[status.WorkerStatus], None] | None = None,
    ) -> None:
        """Mirror until SIGTERM, or until caught up; then drain. Raises `ObjectiveMissed`, `LeaseHeld`, `UsageError`."""
        worker.run(
            self.settings,
            status_path=status_path,
            memory_bytes=memory_bytes,
            on_state=on_state,
            until=self._should_stop,
            waits=False,
        )
        if self.problem is not None:
            raise self.problem

    def _should_stop(self, state: status.WorkerStatus) -> bool:
        """Called a few times a second with the worker's status."""
        (flow,) = state.flows
        if self._lanes_taken(state.state == "running" and len(flow.lanes) < self.flow.lanes):
            self.problem = _another_runs(self.request)
            return True
        if not self.request.until_caught_up:
            return False
        mirrored = {TopicPartition(p.topic, p.partition): p.mirrored for p in flow.partitions}
        parked = {TopicPartition(p.topic, p.partition): p.parked for p in flow.partitions if p.parked}
        self.left = remaining(self.starts, self.ends, mirrored)
        if state.state != "running" or self.left.keys() - parked.keys():
            return False
        if self.left:
            first = next(iter(self.left))
            self.problem = ObjectiveMissed(
                f"{len(self.left)} partitions were not copied to their end, {first} among them",
                parked[first],
                "Remove that cause and run the copy again: it continues where it ended.",
            )
        return True

    def _lanes_taken(self, short: bool) -> bool:
        """Have lanes been missing for long? For a moment they are, when the session ended while the target was unreachable."""
        if not short:
            self._short_since = None
            return False
        now = self.now()
        self._short_since = now if self._short_since is None else self._short_since
        return now - self._short_since > PATIENCE_SESSIONS * self.flow.session_timeout_ms / 1000


def prepare(request: CopyRequest) -> Copy:
    """Check both clusters and return the copy, ready to run.

    Raises `Unreachable` naming every cluster that does not answer, `UsageError` for topics that must not be copied,
    `LeaseHeld` while another worker runs this copy.
    """
    clusters = answers([request.source, request.target])
    source, target = clusters[request.source.alias], clusters[request.target.alias]
    if source.cluster_id == target.cluster_id:
        raise UsageError(
            f"{request.source.alias} and {request.target.alias} are one cluster",
            f"both have cluster ID {source.cluster_id}, and a copy to itself never ends",
            "Give the addresses of two clusters.",
        )
    settings = settings_for(request, source.cluster_id, target.cluster_id)
    flow = settings.flows[0]
    chosen = {
        name: len(topic.partitions)
        for name, topic in source.topics.items()
        if topic.error_code == 0 and flow.mirrors_topic(name)
    }
    if not chosen:
        raise UsageError(
            f"no topic of {request.source.alias} matches {', '.join(request.topics)}",
            f"it has {_some(sorted(name for name, topic in source.topics.items() if not topic.internal))}",
            "Give a Java pattern that matches whole names, such as 'orders.*'.",
        )
    _refuse_cycle(request, flow, source, target, chosen)
    _refuse_foreign_topics(request, flow, target, chosen)
    with Cluster(request.target) as cluster:
        group = worker_group(flow.flow)
        if any(g.group == group and g.state not in IDLE_STATES for g in cluster.groups()):
            raise _another_runs(request)
    partitions = [TopicPartition(name, number) for name, count in chosen.items() for number in range(count)]
    with Cluster(request.source) as cluster:
        starts, ends = cluster.log_starts(partitions), cluster.log_ends(partitions)
    return Copy(request, settings, starts, ends, remaining(starts, ends, {}))


def settings_for(request: CopyRequest, source_id: str, target_id: str) -> MirrorSettings:
    """A flow named by cluster IDs, without heartbeats, checkpoints and groups."""
    flow = FlowSettings(
        flow=Flow(source_id, target_id),
        enabled=True,
        topics=request.topics,
        topics_exclude=EXCLUDED,
        groups=(),
        policy=policy_for(source_id, request.prefix),
        replication_factor=-1,
        journal_replication_factor=-1,
        checkpoints_replication_factor=-1,
        refresh_topics_s=5,
        emit_checkpoints=False,
        emit_heartbeats=False,
        heartbeats_replication=False,
        emit_offset_syncs=False,
        auto_offset_reset=request.start,
    )
    clusters = {
        source_id: replace(request.source, alias=source_id),
        target_id: replace(request.target, alias=target_id),
    }
    return MirrorSettings(Path("drlib copy"), clusters, (flow,))


def _refuse_cycle(
    request: CopyRequest,
    flow: FlowSettings,
    source: ClusterMetadata,
    target: ClusterMetadata,
    chosen: Mapping[str, int],
) -> None:
    """Raise if the target got these topics from the source under the same names: records would be copied in a cycle."""
    back = flow.policy.journal_topic(target.cluster_id)
    if request.prefix or back not in source.topics:
        return
    copied = {names.target_topic for names in _journal(request.source, back).names.values()}
    if round_trip := sorted(copied & chosen.keys()):
        raise UsageError(
            f"{_some(round_trip)} would be copied in a cycle",
            f"{request.source.alias} got them from {request.target.alias}, copied by drlib under the same names",
            "Copy under other names, with --prefix, or leave these topics out.",
        )


def _refuse_foreign_topics(
    request: CopyRequest, flow: FlowSettings, target: ClusterMetadata, chosen: Mapping[str, int]
) -> None:
    names = {name: flow.policy.remote_topic(flow.flow.source, name) for name in chosen}
    existing = {mirror: topic for mirror in names.values() if (topic := target.topics.get(mirror)) is not None}
    if not existing:
        return
    journal = flow.policy.journal_topic(flow.flow.source)
    known = (
        {n.target_topic for n in _journal(request.target, journal).names.values()}
        if journal in target.topics
        else set()
    )
    partitions = [TopicPartition(m, number) for m, t in existing.items() if m not in known for number in t.partitions]
    with Cluster(request.target) as cluster:
        starts, ends = cluster.log_starts(partitions), cluster.log_ends(partitions)
    if foreign := sorted({p.topic for p in partitions if ends[p] > starts[p]}):
        raise UsageError(
            f"{_some(foreign)} of {request.target.alias} hold records already",
            "this copy did not write them, and they could not be distinguished from copies afterwards",
            "Copy under other names, with --prefix, or delete those topics.",
        )


def _journal(cluster: ClusterSettings, topic: str) -> Maps:
    async def read() -> Maps:
        async with wire_client(cluster, client_id="drlib-copy") as client:
            await client.connect()
            return await read_maps(client, topic)

    return asyncio.run(read())


def _another_runs(request: CopyRequest) -> LeaseHeld:
    return LeaseHeld(
        f"a copy from {request.source.alias} to {request.target.alias} is already running",
        "another worker owns its lanes",
        "Let it end, or stop it. To mirror with several workers, write a file and use 'drlib mirror FILE'.",
    )


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:5]) or "none"
    return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown


# Topics of brokers and replicators, which are meaningless on another cluster.
EXCLUDED = ("__.*", r"mm2.*\.internal", HEARTBEATS, rf".*\.{HEARTBEATS}", r".*\.checkpoints\.internal")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixPolicy(DefaultReplicationPolicy):
    """`orders` becomes `prefix.orders`; journals and groups still carry the source's cluster ID."""

    prefix: str

    def remote_topic(self, source_alias: str, topic: str) -> str:
        return f"{self.prefix}{self.separator}{topic}"


def policy_for(source: str, prefix: str | None) -> ReplicationPolicy:
    """Topics keep their names without a prefix. `source` is the source's cluster ID."""
    return IdentityReplicationPolicy(source_alias=source) if not prefix else PrefixPolicy(prefix=prefix)


def remaining(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], mirrored: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Offsets between `starts` and `ends` still to copy, for each partition that has any."""
    left = {
        partition: end - max(starts.get(partition, 0), mirrored.get(partition, 0)) for partition, end in ends.items()
    }
    return {partition: count for partition, count in left.items() if count > 0}
