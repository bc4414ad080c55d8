"""The end of a claim, or of a partition in it: whatever ends it, nothing stays reserved or reported."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from drlib.kafka.net.cluster_client import ClusterMetadata
from drlib.kafka.protocol.error_codes import (
    CORRUPT_MESSAGE,
    INVALID_PRODUCER_EPOCH,
    NOT_LEADER_OR_FOLLOWER,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    SASL_AUTHENTICATION_FAILED,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_SERVER_ERROR,
)
from drlib.mirror.engine.fencing.producer_expiration import Expiry
from drlib.mirror.engine.fencing.target_clock import TargetClock
from drlib.mirror.engine.fetch.fetch_response import PartitionFetch
from drlib.mirror.engine.fetch.memory import Memory
from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.engine.lane.parked_partitions import ParkedPartitions
from drlib.mirror.engine.lane.produce_loop import ProduceLoop, is_of_partition
from drlib.mirror.engine.reverse.appends import Appends
from drlib.mirror.journal.entries import ClaimId, Entry, SourcePartition
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.status.event_log import EventLog
from drlib.model import TopicPartition

TARGET = TopicPartition("A.t", 0)
LOG = SimpleNamespace(leaders={TARGET: 1}, replicas={TARGET: (1,)})


class SlowToEnd:
    """A source whose answer is awaited to the end, even when that is cancelled; the claim's target and journal, too."""

    lane = "lane.0"
    claim = ClaimId(1, 1)

    def __init__(self) -> None:
        self.asked, self.ending, self.may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def metadata(self, names: Sequence[str]) -> ClusterMetadata:
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ending.set()
            await self.may_end.wait()
        raise AssertionError("the event is never set")

    def begin(self, entries: Sequence[Entry]) -> asyncio.Task[None]:
        return asyncio.create_task(asyncio.sleep(0))

    async def connection(self, node: int, purpose: str) -> Any:
        await asyncio.Event().wait()


def claimed(cluster: SlowToEnd, memory: Memory) -> tuple[ProduceLoop, PartitionStream]:
    """A claim of one partition, `t-0`, that has not begun to copy."""
    events = EventLog()
    context = SimpleNamespace(
        source=cluster, target=cluster, membership=None, events=events, clock=TargetClock(), memory=memory,
        expiry=Expiry(), loss_policy="continue", reverse=None, rack="", stopped={},
        appends=Appends(),
    )  # fmt: skip
    key = SourcePartition(UUID(int=1), 0)
    stream = PartitionStream(key, TopicPartition("t", 0), TARGET, ClaimId(1, 1), PartitionMap(), 0, 0)
    parked = ParkedPartitions(events, cluster.lane)
    return ProduceLoop(cast(Any, context), cast(Any, cluster), [stream], cast(Any, None), parked), stream


async def test_claim_that_is_cancelled_twice_keeps_nothing_reserved() -> None:
    cluster, memory = SlowToEnd(), Memory()
    loop, _ = claimed(cluster, memory)
    running = asyncio.create_task(loop.run(cast(Any, LOG)))
    await cluster.asked.wait()
    kept = loop._fetcher.memory.reserve(100)
    running.cancel()
    await cluster.ending.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert (memory.reserved, memory.by_owner(), kept.size) == (0, {}, 100)
    cluster.may_end.set()


async def test_parked_partition_is_not_reported_as_stalled_any_more() -> None:
    """Its topic was deleted, say: nothing is requested, so nothing can end the report."""
    cluster = SlowToEnd()
    loop, stream = claimed(cluster, Memory())
    running = asyncio.create_task(loop.run(cast(Any, LOG)))
    await cluster.asked.wait()
    loop._fetcher.handler.stalled(PartitionFetch(stream), 0)
    assert loop.events.is_open("SourceStalled", "t-0")
    loop.park(stream, "it was deleted", "SourceTopicGone")
    assert [event.name for event in loop.events.snapshot() if loop.events.is_open(event.name, "t-0")] == [
        "SourceTopicGone"
    ]
    running.cancel()
    cluster.may_end.set()
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(
    ("code", "alone"),
    [
        (UNKNOWN_SERVER_ERROR, True),
        (CORRUPT_MESSAGE, True),
        (9999, True),  # of a later version, or a vendor's
        (NOT_LEADER_OR_FOLLOWER, False),
        (OUT_OF_ORDER_SEQUENCE_NUMBER, False),
        (INVALID_PRODUCER_EPOCH, False),
        (TOPIC_AUTHORIZATION_FAILED, False),
        (SASL_AUTHENTICATION_FAILED, False),
    ],
)
def test_answer_is_a_matter_of_its_partition_or_of_the_lane(code: int, alone: bool) -> None:
    assert is_of_partition(code) is alone
