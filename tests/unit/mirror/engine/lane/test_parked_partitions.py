"""Parks of a lane: reported once, and ended when the partition moves, leaves the lane, or is parked for another reason."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator

import pytest

from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.engine.lane import parked_partitions
from drlib.mirror.engine.lane.parked_partitions import FINAL, PREFLIGHT, UNAVAILABLE, ParkedPartition, ParkedPartitions
from drlib.mirror.journal.entries import ClaimId, SourcePartition
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.status.worker_status import EventLog
from drlib.model import TopicPartition

MIRROR = "A.t-0"


def stream(number: int = 0) -> PartitionStream:
    key = SourcePartition(uuid.UUID(int=1), number)
    source, target = TopicPartition("t", number), TopicPartition("A.t", number)
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


@pytest.mark.parametrize("shared", [False, True])
def test_source_that_went_back_has_the_remedy_of_its_topic_one_way_and_both_ways(shared: bool) -> None:
    """`drlib remirror` refuses a topic while both directions copy it, and never deletes it."""
    events, partition = EventLog(), stream()
    partition.shared = shared
    ParkedPartitions(events, "lane").park(partition, 7, "SourceTruncated", "t-0", "it went back")
    (event,) = events.snapshot()
    assert event.remedy.startswith("Decide which history counts")
    assert ("disable the flow away from the cluster" in event.remedy) == shared
    assert ("the worker continues by itself" in event.remedy) != shared


def test_parks_for_an_event_are_known_until_the_last_of_them_ends() -> None:
    parked = ParkedPartitions(EventLog(), "lane")
    for number in (0, 1):
        parked.park(stream(number), -1, "MirrorContradiction", f"A.t-{number}", "contradicts")
    parked.retain({TopicPartition("t", 1)})
    assert parked.any_for("MirrorContradiction")
    assert not parked.any_for("SourceTruncated")
    parked.retain(())
    assert not parked.any_for("MirrorContradiction")


def test_park_whose_cause_is_known_later_is_one_event_that_names_it() -> None:
    events = EventLog()
    parked = ParkedPartitions(events, "lane")
    parked.park(stream(), -1, "RecordsReturned", "t", "records return")
    for source, name, entity in (
        ("t", "MirrorUnavailable", "t"),
        ("t", "RecordsReturned", "u"),
        ("u", "RecordsReturned", "u"),
    ):
        parked.explain(TopicPartition(source, 0), name, entity, "of another park")
    assert [event.detail for event in events.snapshot()] == ["records return"]
    parked.explain(TopicPartition("t", 0), "RecordsReturned", "t", "records return; group A-mm2 has members.")
    (event,) = events.snapshot()
    assert (event.detail, event.times) == ("records return; group A-mm2 has members", 1)
    parked.retain(())
    assert open_names(events) == set()


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


def test_event_of_a_topic_ends_with_the_last_of_its_partitions() -> None:
    events = EventLog()
    parked = ParkedPartitions(events, "lane")
    streams = [stream(number) for number in range(3)]
    for each in (*streams, *streams):  # a second claim reports the same parks
        parked.park(each, 5, "SourceUnauthorized", "t", "no right")
    parked.park(streams[0], 5, "SourceCorrupt", "t-0", "damaged")
    for each in streams[1:]:
        assert open_names(events) == {"SourceUnauthorized", "SourceCorrupt"}
        each.covered = 6
        parked.progressed(each)
        parked.progressed(each)
    assert open_names(events) == {"SourceCorrupt"}
    parked.retain(())
    assert open_names(events) == set()


class Unscanned(dict[TopicPartition, ParkedPartition]):
    """May be asked for one key at a time only."""

    def __iter__(self) -> Iterator[TopicPartition]:
        raise AssertionError("all parked partitions are looked at")

    items = values = keys = __iter__  # type: ignore[assignment]


async def test_park_and_its_end_look_at_no_other_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    """With ten thousand parked partitions the event loop would stand still while they resume."""
    monkeypatch.setattr(parked_partitions, "FIRST_RETRY_S", 0.0)
    events = EventLog()
    parked = ParkedPartitions(events, "lane")
    parked._parked = Unscanned()
    streams = [stream(number) for number in range(3)]
    for each in streams:
        parked.park(each, 5, "TargetRefused", str(each.source), "too large")
    parked.park(streams[0], 5, "SourceCorrupt", "t-0", "damaged")
    await asyncio.wait_for(parked.wait_for_retry(), 10)
    for each in streams:
        each.covered = 6
        parked.progressed(each)
    assert open_names(events) == set()


@pytest.mark.parametrize("event", sorted(FINAL | {UNAVAILABLE}))
async def test_retry_waits_for_a_park_whose_cause_may_have_ended(monkeypatch: pytest.MonkeyPatch, event: str) -> None:
    monkeypatch.setattr(parked_partitions, "FIRST_RETRY_S", 0.0)
    parked = ParkedPartitions(EventLog(), "lane")
    first, second = stream(0), stream(1)
    parked.park(first, 5, "TargetRefused", "t-0", "too large")
    parked.park(first, 5, event, "t-0", "for another reason")
    retry = asyncio.create_task(parked.wait_for_retry())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not retry.done()
    parked.park(second, 5, "TargetRefused", "t-1", "too large")
    await asyncio.wait_for(retry, 10)


async def test_pauses_before_retries_do_not_grow_while_a_batch_is_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit that was lowered to a hundredth takes seven halvings, which would take minutes."""
    slept = list[float]()

    async def sleep(pause_s: float) -> None:
        slept.append(pause_s)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    parked = ParkedPartitions(EventLog(), "lane")
    for size in (800, 400, 200):
        parked.too_large("mirror", size)
        parked.park(stream(0), 5, "TargetRefused", "t-0", "too large")
        await parked.wait_for_retry()
    assert slept == [parked_partitions.FIRST_RETRY_S] * 3
    assert parked.size_limits == {"mirror": 100}
