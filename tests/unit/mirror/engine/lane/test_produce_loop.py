"""The end of a claim: whatever ends it, nothing stays reserved."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from drlib.kafka.net.cluster_client import ClusterMetadata
from drlib.mirror.engine.fencing.producer_expiration import Expiry
from drlib.mirror.engine.fencing.target_clock import TargetClock
from drlib.mirror.engine.fetch.memory import Memory
from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.engine.lane.produce_loop import ProduceLoop
from drlib.mirror.journal.entries import ClaimId, SourcePartition
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.status.event_log import EventLog
from drlib.model import TopicPartition


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

    async def connection(self, node: int, purpose: str) -> Any:
        await asyncio.Event().wait()


async def test_claim_that_is_cancelled_twice_keeps_nothing_reserved() -> None:
    cluster, memory = SlowToEnd(), Memory()
    context = SimpleNamespace(
        source=cluster, target=cluster, membership=None, events=EventLog(), clock=TargetClock(), memory=memory,
        expiry=Expiry(), loss_policy="continue", rack="",
    )  # fmt: skip
    key = SourcePartition(UUID(int=1), 0)
    source, target = TopicPartition("t", 0), TopicPartition("A.t", 0)
    stream = PartitionStream(key, source, target, ClaimId(1, 1), PartitionMap(), 0, 0)
    loop = ProduceLoop(cast(Any, context), cast(Any, cluster), [stream], cast(Any, None), cast(Any, None))
    running = asyncio.create_task(loop.run(cast(Any, SimpleNamespace(leaders={target: 1}, replicas={target: (1,)}))))
    await cluster.asked.wait()
    kept = loop._fetcher.memory.reserve(100)
    running.cancel()
    await cluster.ending.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert (memory.reserved, memory.by_owner(), kept.size) == (0, {}, 100)
    cluster.may_end.set()
