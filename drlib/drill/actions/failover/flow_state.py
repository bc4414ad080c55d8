"""The state of a flow at this moment: from both clusters, and from every worker that answers.

Rules: it only reads; both clusters are read at the same time, so that one that does not answer costs its time-out once. A
lab's worker writes its status into a file, others answer at the address in their claim. What is unknown is None.
Not for: waiting (`drain`), and what the state means (`drlib.drill.actions.failover.triage_rules`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from drlib.drill.step.context import DrillContext
from drlib.drill.testbed.failover_testbed import SILENT_EVENTS, FailoverTestbed
from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import ANSWER_S
from drlib.kafka.admin.descriptions import Range
from drlib.mirror.monitor.flow_view import FlowView
from drlib.mirror.monitor.observer import FlowObserver
from drlib.mirror.monitor.survey import Survey
from drlib.mirror.status.worker_status import PartitionStatus, WorkerStatus
from drlib.model import Flow, TopicPartition

_TAIL: Final = 16  # offsets looked through for the last record: markers have offsets too


@dataclass(frozen=True)
class FlowState:
    """One observation. `silent_since_ms` is when a worker first could not reach the source; None when none reports that."""

    survey: Survey
    view: FlowView
    silent_since_ms: int | None

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
    def in_memory(self) -> int | None:
        """Offsets that workers have fetched and the target has not acknowledged yet; None when no worker answers."""
        if not self.view.workers:
            return None
        return sum(max(0, p.position - p.mirrored) for p in self.view.partitions)


def observe_flow(place: DrillContext, flow: Flow, source_silence: str = "", answer_s: float = ANSWER_S) -> FlowState:
    """Ask both clusters and every worker. Blocks; raises nothing that a cluster can cause.

    `source_silence`: why the source is not asked, where it has just failed to answer. `answer_s`: how long brokers may take
    to give a sign of life.
    """
    settings = place.mirror_settings()
    chosen = settings.flow(flow.source, flow.target)

    observer = FlowObserver()
    (survey,) = observer.survey_blocking([(settings, chosen)], {flow.source: source_silence}, answer_s)
    statuses: list[WorkerStatus] = []
    if place.lab is not None:
        statuses = [FailoverTestbed(place.lab, place.run_dir, flow=flow).mirror()]
    (view,) = observer.views(statuses)
    silent = [e.opened_ms for e in view.open_events if e.name in SILENT_EVENTS and e.opened_ms]
    return FlowState(survey, view, min(silent, default=None))


def seconds_behind(place: DrillContext, flow: Flow, state: FlowState) -> float | None:
    """The time that the records not mirrored span: from the last mirrored record to the source's last fetch.

    The largest of the partitions; 0 where nothing is missing, None where it is unknown.
    """
    if state.not_mirrored is None:
        return None
    policy = place.mirror_settings().flow(flow.source, flow.target).policy
    worst = 0.0
    try:
        with Cluster(place.cluster(flow.target)) as cluster:
            for each in state.behind:
                remote = TopicPartition(policy.remote_topic(flow.source, each.topic), each.partition)
                end, start = cluster.log_ends([remote])[remote], cluster.log_starts([remote])[remote]
                stamps = [r.timestamp_ms for r in cluster.read({remote: Range(max(start, end - _TAIL), end)})]
                if not stamps:
                    return None  # nothing of the partition is on the target, so its last timestamp is unknown
                worst = max(worst, (each.as_of_ms - stamps[-1]) / 1000)
    except DrlibError:
        return None
    return round(worst, 3)
