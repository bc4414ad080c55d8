"""Parks of a lane: reported once, and ended when the partition moves, leaves the lane, or is parked for another reason."""

from __future__ import annotations

import uuid

import pytest

from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.engine.lane.parked_partitions import FINAL, PREFLIGHT, ParkedPartitions
from drlib.mirror.journal.entries import ClaimId, SourcePartition
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.status.worker_status import EventLog
from drlib.model import TopicPartition

MIRROR = "A.t-0"


def stream(topic_id: int = 1) -> PartitionStream:
    key = SourcePartition(uuid.UUID(int=topic_id), 0)
    source, target = TopicPartition("t", 0), TopicPartition("A.t", 0)
    return PartitionStream(key, source, target, ClaimId(1, 0), PartitionMap(), position=0, target_next=0)


def open_names(events: EventLog) -> set[str]:
    return {e.name for e in events.snapshot() if events.is_open(e.name, e.entity)}


@pytest.mark.parametrize("name", ["MirrorTopicRecreated", "MirrorContradiction"])
def test_park_of_a_mirror_ends_when_its_topic_leaves_the_lane(name: str) -> None:
    events = EventLog()
    parked = ParkedPartitions(events, "lane")
    parked.park(stream(), -1, name, MIRROR, "gone", remedy="do this")
    assert [(e.name, e.entity, e.remedy) for e in events.snapshot()] == [(name, MIRROR, "do this")]
    assert not parked.may_retry(TopicPartition("t", 0))
    assert name in FINAL
    parked.retain({TopicPartition("t", 0)})
    assert open_names(events) == {name}
    parked.retain(())
    assert open_names(events) == set()


def test_park_for_another_reason_ends_the_one_before() -> None:
    events = EventLog()
    parked = ParkedPartitions(events, "lane")
    parked.park(stream(), -1, "MirrorContradiction", MIRROR, "contradicts")
    parked.park(stream(), -1, "MirrorTopicRecreated", MIRROR, "deleted since")
    assert open_names(events) == {"MirrorTopicRecreated"}


def test_park_ends_when_the_partition_is_read_again() -> None:
    events = EventLog()
    parked = ParkedPartitions(events, "lane")
    parked.park(stream(), -1, "MirrorTopicRecreated", MIRROR, "deleted")
    again = stream()
    parked.progressed(again)
    assert open_names(events) == {"MirrorTopicRecreated"}
    again.high_watermark = 0  # nothing to read in it
    parked.progressed(again)
    assert open_names(events) == set()


def test_park_replaces_what_the_preflight_reported() -> None:
    events = EventLog()
    events.open("TargetUnauthorized", "A.t", "no right", by=PREFLIGHT)
    lane = events.reporter("lane")
    parked = ParkedPartitions(lane, "lane")
    parked.park(stream(), -1, "TargetUnauthorized", "A.t", "no right")
    lane.retract("lane")
    assert open_names(events) == set()
