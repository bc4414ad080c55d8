"""The state of a flow at this moment: from both clusters, and from every worker that answers.

Rules: it only reads; both clusters are read at the same time, so that one that does not answer costs its time-out once. Topics
of heartbeats are left out: replicators write them, and no application loses any. A lab's worker writes its status into a file,
others answer at the address in their claim. What is unknown is None.
Not for: waiting (`drain`), and what the state means (`drlib.drill.actions.failover.triage_rules`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from drlib import clock
from drlib.config.both_ways.shared_topics import shared_between
from drlib.config.replication_policy import ReplicationPolicy
from drlib.drill.actions.failover.data_loss import PartitionEvidence, PartitionLoss, loss, worst_s
from drlib.drill.actions.failover.fault_moment import NO_SKEW, workers_skew
from drlib.drill.step import rto_clock as moments
from drlib.drill.step.context import DrillContext
from drlib.drill.testbed.failover_testbed import SILENT_EVENTS, FailoverTestbed
from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import ANSWER_S
from drlib.kafka.admin.descriptions import Range
from drlib.kafka.net.authorized_operations import Skew
from drlib.mirror.monitor.flow_view import FlowView
from drlib.mirror.monitor.observer import FlowObserver, claimed_addresses, configured_address
from drlib.mirror.monitor.survey import Survey
from drlib.mirror.status.worker_status import PartitionStatus, WorkerStatus
from drlib.model import Flow, TopicPartition

_TAIL: Final = 16  # offsets looked through for the last record: markers have offsets too


@dataclass(frozen=True)
class ObservedFlow:
    """One observation. `silent_since_ms` is when a worker first could not reach the source; None when none reports that."""

    survey: Survey
    view: FlowView
    silent_since_ms: int | None
    addresses: tuple[str, ...] = ()  # of workers that were asked

    @property
    def not_mirrored(self) -> int | None:
        """Records known to be on the source and not on the target, as offsets; None when some log's end is not known."""
        return self.view.lag if self.view.partitions else None

    @property
    def known_behind(self) -> Sequence[PartitionStatus]:
        """Partitions whose source log end is known to be ahead of the mirror."""
        return [partition for partition in self.view.partitions if partition.known and partition.lag]

    @property
    def behind(self) -> Sequence[PartitionStatus]:
        return [partition for partition in self.view.partitions if not partition.known or partition.lag]

    @property
    def last_fetch_ms(self) -> int:
        """When the source last answered every worker's fetches, by the workers' clocks; 0 when none says."""
        if not self.view.workers:
            return 0
        return min((p.as_of_ms for p in self.view.partitions if not p.parked), default=0)

    @property
    def in_memory(self) -> int | None:
        """Offsets that workers have fetched and the target has not acknowledged yet; None when no worker answers."""
        if not self.view.workers:
            return None
        return sum(max(0, p.position - p.mirrored) for p in self.view.partitions)


def observe_flow(place: DrillContext, flow: Flow, source_silence: str = "", answer_s: float = ANSWER_S) -> ObservedFlow:
    """Ask both clusters and every worker. Blocks; raises nothing that a cluster can cause.

    `source_silence`: why the source is not asked, where it has just failed to answer. `answer_s`: how long its brokers may
    take to give a sign of life.
    """
    settings = place.mirror_settings()
    chosen = settings.flow(flow.source, flow.target)

    observer = FlowObserver()
    (survey,) = observer.survey_blocking([(settings, chosen)], {flow.source: source_silence}, answer_s)
    statuses: list[WorkerStatus] = []
    if place.lab is not None:
        statuses = [FailoverTestbed(place.lab, place.run_dir, flow=flow).mirror()]
    (seen,) = observer.views(statuses)
    partitions = of_applications(seen.partitions, chosen.policy)
    without = survey.without_leader  # what a worker reported of them before may be lost with their brokers
    partitions = tuple(
        replace(p, high_watermark=-1) if TopicPartition(p.topic, p.partition) in without else p for p in partitions
    )
    view = replace(seen, partitions=partitions)
    silent = [e.opened_ms for e in view.open_events if e.name in SILENT_EVENTS and e.opened_ms]
    configured = configured_address(chosen)
    asked = {*claimed_addresses(survey).values(), *([] if configured is None else [configured])}
    return ObservedFlow(survey, view, min(silent, default=None), tuple(sorted(asked)))


def of_applications(partitions: Sequence[PartitionStatus], policy: ReplicationPolicy) -> tuple[PartitionStatus, ...]:
    """Those that applications write to: not the heartbeats of replicators, from however many clusters away."""
    return tuple(partition for partition in partitions if not policy.is_heartbeats(partition.topic))


def partition_losses(place: DrillContext, flow: Flow, state: ObservedFlow) -> tuple[PartitionLoss, ...]:
    """What is missing of each partition, up to the fault as far as it is known, else up to now.

    Empty where the target does not answer.
    """
    fault = moments.moment_of(place.run_dir, "fault")
    fault_ms = clock.now_ms() if fault is None else fault.latest_ms
    known = moments.mirror_ahead(place.run_dir)
    skew = Skew(*known) if known else workers_skew(state.addresses) if state.view.workers else NO_SKEW
    unclear = [p for p in state.view.partitions if not p.known or p.lag or not p.as_of_ms or skew is None]
    both_ways = shared_between(place.mirror_settings(), flow) or (lambda _: False)
    copies = {TopicPartition(p.target_topic, p.partition): p.target_end for p in unclear if both_ways(p.topic)}
    try:
        with Cluster(place.cluster(flow.target)) as cluster:
            stamps = _last_timestamps(cluster, [TopicPartition(p.target_topic, p.partition) for p in unclear], copies)
    except DrlibError:
        return ()
    answered = state.survey.ends_known
    return tuple(
        loss(
            PartitionEvidence(
                p.topic,
                p.partition,
                p.high_watermark if p.known else None,
                p.mirrored,
                p.target_end,
                p.as_of_ms - skew.high if p.as_of_ms and skew is not None else None,
                stamps.get(TopicPartition(p.target_topic, p.partition)),
                p.outlook.lag_s,
            ),
            fault_ms,
            exact=TopicPartition(p.topic, p.partition) in answered,
        )
        for p in state.view.partitions
    )


def _last_timestamps(
    cluster: Cluster, partitions: Sequence[TopicPartition], copies: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The timestamp of the last record of each partition that has one among its last offsets.

    `copies`: where the last copy ends, in topics to which clients of the target write as well.
    """
    there = [p for p, is_led in cluster.led(partitions).items() if is_led]
    ends, starts = cluster.log_ends(there), cluster.log_starts(there)
    ranges = {p: Range(max(starts[p], ends[p] - _TAIL), ends[p]) for p in there if p not in copies}
    ranges |= {p: Range(copies[p] - 1, copies[p]) for p in there if starts[p] < copies.get(p, 0) <= ends[p]}
    return {record.partition: record.timestamp_ms for record in cluster.read(ranges)}


def seconds_behind(place: DrillContext, flow: Flow, state: ObservedFlow) -> float | None:
    """The time that the records not mirrored span at most, of the partition where it is the most; None where it is unknown."""
    return worst_s(partition_losses(place, flow, state))[1]
