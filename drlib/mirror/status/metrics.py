"""Export a worker's status as Prometheus metrics, built for each scrape.

Rules: metrics that MirrorMaker 2 has keep its names, as its usual JMX exporter rules write them, and its labels (`topic` is the
mirror topic's name), so that existing dashboards work; `source` is added, as MM2 does with add.source.alias.to.metrics. Other
metrics begin with `drlib_`. An unknown value has no sample, never 0.
Source: Kafka's `MirrorSourceMetrics`; Strimzi's kafka-mirror-maker-2-metrics.yaml.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from drlib.mirror.status.worker_status import FlowStatus, PartitionStatus, Spread, WorkerStatus
from drlib.model import Flow

MM2 = "kafka_connect_mirror_mirrorsourceconnector_"
LABELS = ("source", "target", "topic", "partition")


class WorkerCollector(Collector):
    """Calls `state` at every scrape; costs nothing in between."""

    def __init__(self, state: Callable[[], WorkerStatus]) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        return iter(families(self._state()))


def families(state: WorkerStatus) -> list[Metric]:
    """Every metric of one status."""
    per_partition = _Partitions()
    for flow in state.flows:
        ends = Flow.parse(flow.flow)
        for partition in flow.partitions:
            per_partition.add((ends.source, ends.target, partition.target_topic, str(partition.partition)), partition)
    return [*per_partition.families(), *_flows(state.flows), *_worker(state)]


class _Partitions:
    def __init__(self) -> None:
        def gauge(name: str, text: str) -> GaugeMetricFamily:
            return GaugeMetricFamily(name, text, labels=LABELS)

        # A gauge, as the exporter's rules make it: a counter would be renamed to ..._total
        self.record_count = gauge(f"{MM2}record_count", "Records mirrored since the worker started.")
        self.record_rate = gauge(f"{MM2}record_rate", "Records mirrored per second.")
        self.byte_count = gauge(f"{MM2}byte_count", "Bytes mirrored since the worker started, as batches.")
        self.byte_rate = gauge(f"{MM2}byte_rate", "Bytes mirrored per second, as batches.")
        self.latency = _Spreads(f"{MM2}replication_latency_ms", "From a record's timestamp to its acknowledgement.")
        self.age = _Spreads(f"{MM2}record_age_ms", "Age of records by their timestamp when they were read.")
        self.lag = gauge("drlib_replication_record_lag", "Source offsets that are not on the target.")
        self.lag_s = gauge("drlib_replication_lag_seconds", "Age of the oldest record that is not on the target.")
        self.lag_bytes = gauge("drlib_replication_lag_bytes", "Estimate: mean record size times record lag.")
        self.eta = gauge("drlib_catch_up_seconds", "Until the lag is gone at the rates measured now.")
        self.left = gauge(
            "drlib_retention_left_seconds", "Until the oldest unmirrored record may expire on the source."
        )
        self.parked = gauge("drlib_partition_parked", "1 while the partition is parked before a record.")

    def add(self, labels: tuple[str, ...], status: PartitionStatus) -> None:
        outlook = status.outlook
        mean = status.bytes / status.records if status.records else None
        self.record_count.add_metric(labels, status.records)
        self.byte_count.add_metric(labels, status.bytes)
        if outlook.out_per_s is not None:
            self.record_rate.add_metric(labels, outlook.out_per_s)
            if mean is not None or not outlook.out_per_s:
                self.byte_rate.add_metric(labels, outlook.out_per_s * (mean or 0))
        self.latency.add(labels, status.latency)
        self.age.add(labels, status.age)
        if status.known:
            self.lag.add_metric(labels, status.lag)
        for family, value in (
            (self.lag_s, outlook.lag_s),
            (self.lag_bytes, outlook.lag_bytes),
            (self.eta, outlook.eta_s),
            (self.left, outlook.left_s),
        ):
            if value is not None:
                family.add_metric(labels, value)
        self.parked.add_metric(labels, bool(status.parked))

    def families(self) -> list[Metric]:
        own: list[Metric] = [self.record_count, self.record_rate, self.byte_count, self.byte_rate]
        own += [*self.latency.all, *self.age.all]
        return [*own, self.lag, self.lag_s, self.lag_bytes, self.eta, self.left, self.parked]


class _Spreads:
    def __init__(self, name: str, text: str) -> None:
        self.all = [
            GaugeMetricFamily(f"{name}{suffix}", f"{text} {which}", labels=LABELS)
            for suffix, which in (("", "Last."), ("_min", "Least."), ("_avg", "Mean."), ("_max", "Greatest."))
        ]

    def add(self, labels: tuple[str, ...], spread: Spread | None) -> None:
        if spread is None:
            return
        values = (spread.last, spread.least, spread.mean, spread.greatest)
        for family, value in zip(self.all, values, strict=True):
            family.add_metric(labels, value)


def _flows(flows: tuple[FlowStatus, ...]) -> list[Metric]:
    labels = ("source", "target", "lane")
    state = GaugeMetricFamily("drlib_lane_state", "1 for the state the lane is in.", labels=(*labels, "state"))
    epoch = GaugeMetricFamily("drlib_lane_epoch", "Producer epoch of the lane's claim.", labels=labels)
    lanes = GaugeMetricFamily("drlib_flow_lanes", "Lanes of the flow, over all its workers.", labels=labels[:2])
    records = CounterMetricFamily("drlib_records", "Records mirrored by this worker.", labels=labels[:2])
    kept = GaugeMetricFamily("drlib_memory_bytes", "Records read ahead that a lane keeps in memory.", labels=labels)
    size = CounterMetricFamily("drlib_bytes", "Bytes mirrored by this worker, as batches.", labels=labels[:2])
    for flow in flows:
        ends = Flow.parse(flow.flow)
        source, target = ends.source, ends.target
        records.add_metric((source, target), flow.records)
        size.add_metric((source, target), flow.bytes)
        for lane in flow.lanes:
            state.add_metric((source, target, str(lane.lane), lane.state), 1)
            kept.add_metric((source, target, str(lane.lane)), lane.kept_bytes)
            if lane.epoch >= 0:
                epoch.add_metric((source, target, str(lane.lane)), lane.epoch)
        if flow.lane_count:
            lanes.add_metric((source, target), flow.lane_count)
    return [state, epoch, lanes, kept, records, size]


def _worker(state: WorkerStatus) -> list[Metric]:
    text = "1 while the event is open; one for each cause, with the first entity."
    events = GaugeMetricFamily("drlib_event_open", text, labels=("event", "entity", "flow"))
    entities = GaugeMetricFamily(
        "drlib_event_entities", "Entities of the events that are open.", labels=("event", "flow")
    )
    opened = [event for event in state.events if event.resolved_ms is None and event.settled]
    concerned = Counter[tuple[str, str]]()
    for event in opened:
        events.add_metric((event.name, event.entity, event.flow), 1)
        concerned[event.name, event.flow] += event.count
    for labels, number in concerned.items():
        entities.add_metric(labels, number)
    count = GaugeMetricFamily("drlib_events_open", "Events that are open, one for each entity.")
    count.add_metric((), sum(event.count for event in opened) + state.events_omitted)
    brief = CounterMetricFamily("drlib_brief_events", "Events that ended within a second.", labels=("event", "flow"))
    for flow, name, number in state.brief:
        brief.add_metric((name, flow), number)
    limit = GaugeMetricFamily("drlib_memory_limit_bytes", "What the lanes of the worker may keep in memory together.")
    limit.add_metric((), state.memory.limit)
    budget = GaugeMetricFamily("drlib_memory_budget_bytes", "What the whole process may use (--memory).")
    if state.memory.budget:
        budget.add_metric((), state.memory.budget)
    reported = GaugeMetricFamily("drlib_status_timestamp_seconds", "When the worker reported this status.")
    reported.add_metric((), state.at_ms / 1000)
    return [events, entities, count, brief, limit, budget, reported]
