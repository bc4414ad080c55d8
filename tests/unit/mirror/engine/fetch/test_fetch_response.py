"""What a fetch response leads to: a follower's refusal to nothing but its leader being asked, a leader's to an event."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast
from uuid import UUID

import pytest

from drlib.kafka.net import requests
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.error_codes import NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE, BrokerError
from drlib.kafka.protocol.fetch import DivergingEpoch, FetchedPartition
from drlib.mirror.engine.fetch.context import LaneContext
from drlib.mirror.engine.fetch.fetch_response import FetchResponseHandler, LeaderMoved, PartitionFetch
from drlib.mirror.engine.fetch.partition_stream import PartitionStream, PlannedBatch
from drlib.mirror.journal.entries import ClaimId, Entry, SourcePartition
from drlib.mirror.offsets.map.journal_log import LaneJournal
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.status.worker_status import EventLog
from drlib.model import TopicPartition

SOURCE = TopicPartition("t", 0)
KEY = SourcePartition(UUID(int=1), 0)
NO_CONNECTION = cast(Connection, None)  # a follower's answer leads to no request
EMPTY = FetchedPartition(KEY.topic_id, 0, 0, 100, 100, 40, (), None, -1, -1, memoryview(b""))


def damaged(offset: int) -> memoryview:
    """A batch at `offset` whose last byte was changed, so that its checksum is wrong."""
    batch = recode.rebuild(
        [recode.Record(offset, 1, b"k", b"v")], codec=0, producer_id=9, producer_epoch=1, base_sequence=0
    )
    raw = bytearray(batch.head + bytes(batch.body))
    raw[0:8] = offset.to_bytes(8, "big")
    raw[-1] ^= 1
    return memoryview(bytes(raw))


@dataclass
class Outcome:
    """What a handler did. Is sink, journal and the way back to the leader at once."""

    parked: list[str] = field(default_factory=list)
    journaled: list[Entry] = field(default_factory=list)
    returned: int = 0
    events: EventLog = field(default_factory=EventLog)
    loss_policy: str = "continue"
    reverse: None = None
    appends: None = None
    lane: str = "lane.0"

    def read(self, stream: PartitionStream, planned: Sequence[PlannedBatch], entries: Sequence[Entry]) -> None:
        assert not planned

    def park(self, stream: PartitionStream, reason: str, event: str = "Parked", entity: str = "") -> None:
        self.parked.append(event)

    def fail(self, error: BaseException) -> None:
        raise error

    def watch(self, task: asyncio.Task[None]) -> asyncio.Task[None]:
        return task

    async def append(self, entries: Sequence[Entry]) -> None:
        self.journaled += entries

    def back_to_leader(self) -> None:
        self.returned += 1


def fetch_at(position: int) -> PartitionFetch:
    stream = PartitionStream(
        KEY, SOURCE, TopicPartition("A.t", 0), ClaimId(1, 1), PartitionMap(), position=position, target_next=0
    )
    return PartitionFetch(stream)


def handler(outcome: Outcome) -> FetchResponseHandler:
    return FetchResponseHandler(cast(LaneContext, outcome), cast(LaneJournal, outcome), outcome)


@pytest.mark.parametrize("offset", [50, 60])
@pytest.mark.parametrize(
    "answer",
    [
        *(replace(EMPTY, error_code=code) for code in range(-1, 133) if code),
        replace(EMPTY, diverging_epoch=DivergingEpoch(1, 20)),
    ],
    ids=lambda a: f"{a.error_code}",
)
async def test_refusal_of_a_follower_only_sends_the_partition_back_to_its_leader(
    answer: FetchedPartition, offset: int
) -> None:
    outcome, fetch = Outcome(), fetch_at(50)
    fetch.to_leader = outcome.back_to_leader
    await handler(outcome).handle(NO_CONNECTION, fetch, offset, answer, None)
    assert (outcome.returned, outcome.parked, outcome.journaled, outcome.events.snapshot()) == (1, [], [], ())
    assert fetch.stream.position == 50
    assert not fetch.stream.parked


async def test_damaged_or_missing_records_of_a_follower_only_send_the_partition_back_to_its_leader() -> None:
    outcome, fetch = Outcome(), fetch_at(50)
    fetch.to_leader = outcome.back_to_leader
    handling = handler(outcome)
    await handling.handle(NO_CONNECTION, fetch, 50, replace(EMPTY, records=damaged(50)), None)
    handling.stalled(fetch, 50)
    handling.corrupt(fetch, "too large")
    assert (outcome.returned, outcome.parked, outcome.journaled, outcome.events.snapshot()) == (3, [], [], ())
    assert fetch.stream.position == 50


async def test_damaged_records_of_a_leader_park_the_partition() -> None:
    outcome, fetch = Outcome(), fetch_at(50)
    await handler(outcome).handle(NO_CONNECTION, fetch, 50, replace(EMPTY, records=damaged(50)), None)
    assert outcome.parked == ["SourceCorrupt"]


async def test_answer_of_a_follower_says_nothing_about_the_log() -> None:
    outcome, fetch = Outcome(), fetch_at(50)
    stream = fetch.stream
    stream.observe(replace(EMPTY, high_watermark=200, last_stable_offset=190, log_start_offset=7))
    fetch.to_leader = outcome.back_to_leader
    answer = replace(EMPTY, high_watermark=50, last_stable_offset=50, log_start_offset=49)
    await handler(outcome).handle(NO_CONNECTION, fetch, 50, answer, None)
    assert (stream.high_watermark, stream.last_stable, stream.log_start, stream.responses) == (200, 190, 7, 1)
    assert stream.covered == -1
    assert fetch.end == 50
    fetch.to_leader = None
    await handler(outcome).handle(NO_CONNECTION, fetch, 50, answer, None)
    assert (stream.high_watermark, stream.last_stable, stream.log_start, stream.responses) == (50, 50, 49, 2)
    assert stream.covered == 50


async def test_response_that_arrives_after_the_partition_moved_is_dropped() -> None:
    outcome, fetch = Outcome(), fetch_at(50)
    fetch.leave()
    await handler(outcome).handle(NO_CONNECTION, fetch, 50, replace(EMPTY, error_code=OFFSET_OUT_OF_RANGE), None)
    assert (outcome.parked, outcome.journaled, fetch.end) == ([], [], -1)


@pytest.mark.parametrize(
    "answer",
    [replace(EMPTY, diverging_epoch=DivergingEpoch(1, 20)), replace(EMPTY, error_code=OFFSET_OUT_OF_RANGE)],
    ids=["diverging", "out of range within the log"],
)
async def test_truncation_is_believed_only_of_a_broker_that_led_from_one_answer_to_the_next(
    monkeypatch: pytest.MonkeyPatch, answer: FetchedPartition
) -> None:
    """A follower that old metadata calls the leader refuses positions that it has not replicated yet."""
    epochs = iter([3, 4, 4])

    async def list_offsets(_: Connection, partitions: Any, timestamp: int) -> dict[TopicPartition, int]:
        return {SOURCE: 40 if timestamp == requests.EARLIEST else 100}

    async def list_offset_epochs(
        _: Connection, partitions: Any, timestamp: int
    ) -> dict[TopicPartition, tuple[int, int]]:
        return {SOURCE: (100, next(epochs))}

    monkeypatch.setattr(requests, "list_offsets", list_offsets)
    monkeypatch.setattr(requests, "list_offset_epochs", list_offset_epochs)
    outcome, fetch = Outcome(), fetch_at(50)
    for _ in range(2):
        await handler(outcome).handle(NO_CONNECTION, fetch, 50, answer, None)
        assert (outcome.parked, outcome.journaled) == ([], [])
        assert not fetch.deciding
    await handler(outcome).handle(NO_CONNECTION, fetch, 50, answer, None)
    assert outcome.parked == ["SourceTruncated"]
    assert len(outcome.journaled) == 1


async def test_truncation_answered_by_a_broker_that_does_not_lead_looks_the_leader_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def list_offset_epochs(
        _: Connection, partitions: Any, timestamp: int
    ) -> dict[TopicPartition, tuple[int, int]]:
        raise BrokerError(NOT_LEADER_OR_FOLLOWER, "listing the offsets of t-0")

    monkeypatch.setattr(requests, "list_offset_epochs", list_offset_epochs)
    outcome, fetch = Outcome(), fetch_at(50)
    with pytest.raises(LeaderMoved):
        await handler(outcome).handle(
            NO_CONNECTION, fetch, 50, replace(EMPTY, diverging_epoch=DivergingEpoch(1, 20)), None
        )
    assert (outcome.parked, outcome.journaled, fetch.deciding) == ([], [], False)
