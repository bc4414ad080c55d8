"""What one worker knows of a flow at this moment, as the value that `drlib status` and the metrics show.

Rules: a snapshot, made when somebody asks; nothing is asked of a cluster for it.
"""

from __future__ import annotations

from collections.abc import Mapping

from drlib.clock import now_ms
from drlib.mirror.engine.fencing.producer_expiration import Expiry, fence_may_have_expired
from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.engine.lane.lane import Lane
from drlib.mirror.monitor.lag_monitor import Forecasts
from drlib.mirror.status.worker_status import FlowStatus, LaneStatus, PartitionStatus
from drlib.model import Flow


def flow_status(
    flow: Flow, lanes: Mapping[int, Lane], forecasts: Forecasts, expiry: Expiry, records: int, size: int
) -> FlowStatus:
    """`lanes` by number, those of this worker, at least one; `records` and `size` (bytes) since its start."""
    now = now_ms()
    ours = sorted(lanes.items())
    partitions = tuple(_partition(number, s, forecasts, expiry, now) for number, lane in ours for s in lane.streams)
    return FlowStatus(str(flow), tuple(_lane(*each) for each in ours), partitions, records, size, *forecasts.rates())


def _lane(number: int, lane: Lane) -> LaneStatus:
    claim = lane.claim_id
    return LaneStatus(number, lane.state.value, claim.producer_id if claim else -1, claim.epoch if claim else -1)


def _partition(lane: int, stream: PartitionStream, forecasts: Forecasts, expiry: Expiry, now: int) -> PartitionStatus:
    records, size = forecasts.counted(stream.source)
    latency, age = forecasts.spreads(stream.source)
    start, end, as_of_ms = forecasts.log(stream)
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
        forecasts.outlook(stream.source),
        latency,
        age,
        as_of_ms,
    )
