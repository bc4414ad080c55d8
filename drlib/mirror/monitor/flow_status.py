"""Build a worker's status of one flow, as `drlib status` and the metrics show it.

Rules: a snapshot of what the worker knows; no cluster is asked for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from drlib.clock import now_ms
from drlib.config.flow_settings import FlowSettings
from drlib.mirror.engine.fencing.producer_expiration import Expiry, fence_may_have_expired
from drlib.mirror.engine.fetch.memory import Memory
from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.engine.lane.lane import Lane
from drlib.mirror.monitor.lag_monitor import LagMonitor
from drlib.mirror.offsets.comparison.compare_logs import LogComparison
from drlib.mirror.status.worker_status import FlowStatus, LaneStatus, PartitionStatus
from drlib.model import TopicPartition


def flow_status(
    settings: FlowSettings,
    lanes: Mapping[int, Lane],
    monitor: LagMonitor,
    comparison: LogComparison,
    expiry: Expiry,
    records: int,
    size: int,
    memory: Memory,
) -> FlowStatus:
    """The status of one flow. `lanes`: of this worker, by number; `records`, `size` (bytes): mirrored since its start."""
    kept = memory.by_owner()
    now = now_ms()
    owned = sorted(lanes.items())
    shown: dict[
        TopicPartition, tuple[int, PartitionStream]
    ] = {}  # of a lane and its relays in a ring the one that is behind
    for number, lane in owned:
        for stream in lane.streams:
            before = shown.get(stream.source)
            if before is None or _behind(stream) < _behind(before[1]):
                shown[stream.source] = number % settings.lanes, stream
    partitions = tuple(_partition(*each, monitor, comparison, expiry, now) for each in shown.values())
    return FlowStatus(
        str(settings.flow),
        tuple(_lane(*each, kept) for each in owned),
        partitions,
        records,
        size,
        *monitor.rates(),
        settings.lanes,
    )


def _behind(stream: PartitionStream) -> tuple[bool, int]:
    return not stream.parked, stream.mirrored


def _lane(number: int, lane: Lane, kept: Mapping[str, int]) -> LaneStatus:
    claim = lane.claim_id
    producer_id, epoch = (claim.producer_id, claim.epoch) if claim else (-1, -1)
    return LaneStatus(number, lane.state.value, producer_id, epoch, kept.get(lane.name, 0))


def _partition(
    lane: int, stream: PartitionStream, monitor: LagMonitor, comparison: LogComparison, expiry: Expiry, now: int
) -> PartitionStatus:
    records, size = monitor.counted(stream.source)
    latency, age = monitor.spreads(stream.source)
    start, end, as_of_ms = monitor.log(stream)
    return PartitionStatus(
        stream.source.topic,
        stream.source.partition,
        stream.target.topic,
        lane,
        stream.position,
        stream.mirrored,
        end,
        stream.map.target_end or 0,
        stream.parked,
        not stream.parked and fence_may_have_expired(stream.last_append, expiry, now),
        stream.last_stable,
        start,
        records,
        size,
        monitor.outlook(stream.source),
        latency,
        age,
        as_of_ms,
        comparison.left(stream.key, stream.map, start),
    )
