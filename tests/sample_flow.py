"""A flow between LEFT and RIGHT as a survey and a worker report it, for tests of its view and of how it is shown."""

from __future__ import annotations

from dataclasses import replace

from drlib.kafka.admin.descriptions import GroupMember
from drlib.mirror.journal.entries import Claim
from drlib.mirror.journal.fields import ClaimId
from drlib.mirror.monitor.survey import Survey
from drlib.mirror.status.forecast import Outlook
from drlib.mirror.status.worker_status import Event, FlowStatus, LaneStatus, PartitionStatus, WorkerStatus
from drlib.model import TopicPartition

NOW = 1_700_000_000_000
FLOW = "LEFT->RIGHT"
JOURNAL = "journal"


def partition(number: int, mirrored: int, end: int, **more: object) -> PartitionStatus:
    plain = PartitionStatus("orders", number, "LEFT.orders", number % 2, mirrored, mirrored, end, mirrored)
    return replace(plain, **more)  # type: ignore[arg-type]


def claims() -> dict[int, Claim]:
    return {n: Claim(ClaimId(10 + n, 3), 0, NOW - 60_000, "host-7 127.0.0.1:9464") for n in (0, 1)}


def member(*lanes: int) -> GroupMember:
    return GroupMember("m", "/127.0.0.1", tuple(TopicPartition(JOURNAL, lane) for lane in lanes))


def survey(**more: object) -> Survey:
    plain = Survey(FLOW, NOW, 2, (member(0, 1),), claims(), (partition(0, 90, 100), partition(1, 5, 5)))
    return replace(plain, **more)  # type: ignore[arg-type]


def worker(
    *events: Event, state: str = "running", lane_state: str = "running", at_ms: int = NOW, kept_bytes: int = 0
) -> WorkerStatus:
    flow = FlowStatus(
        FLOW,
        (LaneStatus(0, lane_state, 10, 4, kept_bytes), LaneStatus(1, "running", 11, 4)),
        (partition(0, 95, 100, outlook=Outlook(lag_s=2.5, lag_bytes=5000, in_per_s=1, out_per_s=2, eta_s=5.0)),),
        95,
        9500,
        2.0,
        2000.0,
    )
    return WorkerStatus(7, at_ms, state, (flow,), events, "host-7", "127.0.0.1:9464")
