"""Added latency: how much later a record arrives from the target than from the source.

One process sends numbered records to the source and reads both clusters with long polls; the added latency of a record
is the moment it arrived from the target minus the moment it arrived from the source, on one clock.

Rules: both sides are read in the same way and at the same isolation level, so that the cost of reading cancels out; a
record that is not mirrored in time is counted as missing, never left out silently. Not for: starting engines.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.wire_load import KEY_BYTES
from bench.workloads import RECORD_BYTES
from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.batch import OutgoingBatch, iter_batches
from drlib.kafka.protocol.error_codes import BrokerError, raise_for
from drlib.kafka.protocol.fetch import FetchPartition, TopicId
from drlib.model import TopicPartition

_TICK_S: Final = 0.01
PATIENCE_S: Final = 15.0
_POLL_MS: Final = 500
_NUMBERS: Final = itertools.count(1)  # one for all senders of this process: a mirror may still hold an earlier run's


@dataclass(frozen=True, slots=True)
class Added:
    """Milliseconds for each record that arrived on both sides; how many were sent, and how many never came across."""

    ms: tuple[float, ...]
    sent: int
    missing: int


class Watch:
    """Arrival times, by number, of records of `partitions` on one cluster; reads from the log ends on."""

    def __init__(self, bootstrap: str, partitions: Sequence[TopicPartition]) -> None:
        self.arrived: dict[int, float] = {}
        self._client = ClusterClient(bootstrap.split(","))
        self._partitions = tuple(partitions)
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()

    async def start(self, *, deadline_s: float) -> None:
        """Wait until the partitions are there, then read from their ends. Raises `TimeoutError`."""
        end = time.monotonic() + deadline_s
        while True:
            try:
                node, positions, ids = await self._ends()
                break
            except (BrokerError, KeyError) as missing:
                if time.monotonic() > end:
                    raise TimeoutError(f"not there after {deadline_s:g} s: {missing}") from missing
                await asyncio.sleep(0.1)
        connection = await self._client.connection(node, "watch")
        self._task = asyncio.create_task(self._read(connection, positions, ids))

    async def seen(self, numbers: Sequence[int], *, deadline_s: float = PATIENCE_S) -> bool:
        """Wait until all of them have arrived; False when some have not by the deadline, or reading failed."""
        missing = set(numbers) - self.arrived.keys()
        end = time.monotonic() + deadline_s
        while missing and time.monotonic() < end and self._task is not None and not self._task.done():
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, end - time.monotonic())):
                    await self._news.wait()
            missing -= self.arrived.keys()
        return not missing

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._client.close()

    async def _ends(self) -> tuple[int, dict[TopicPartition, int], dict[str, TopicId]]:
        topics = sorted({p.topic for p in self._partitions})
        metadata = await self._client.metadata(topics)
        node = metadata.topics[topics[0]].partitions[0].leader
        connection = await self._client.connection(node)
        positions = await requests.list_offsets(connection, self._partitions, requests.LATEST)
        return node, positions, {t: metadata.topics[t].topic_id for t in topics}

    async def _read(
        self,
        connection: Connection,
        positions: dict[TopicPartition, int],
        ids: dict[str, TopicId],
    ) -> None:
        names = {topic_id: topic for topic, topic_id in ids.items()}
        while True:
            answers = await requests.fetch(
                connection,
                [FetchPartition(p.topic, ids[p.topic], p.partition, at, 1 << 20) for p, at in positions.items()],
                max_wait_ms=_POLL_MS,
                min_bytes=1,
                max_bytes=8 << 20,
                read_committed=True,
            )
            now = time.perf_counter()
            for answer in answers:
                raise_for(answer.error_code, "watching")
                partition = TopicPartition(names[answer.topic_id], answer.partition)
                for header, view in iter_batches(answer.records):
                    if header.next_offset <= positions[partition]:
                        continue
                    positions[partition] = header.next_offset
                    if not header.is_control:
                        for record in recode.records(view):
                            self.arrived.setdefault(int(record.key or b"-1"), now)
                        self._news.set()


class Sender:
    """Sends records that carry a number, to whichever partitions it is reported."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._client = ClusterClient(bootstrap.split(","))
        self._topic = topic
        self.sent: list[int] = []
        self._body = random.Random(1).randbytes(RECORD_BYTES - KEY_BYTES)

    async def start(self) -> None:
        metadata = await self._client.metadata([self._topic])
        self._connection = await self._client.connection(metadata.topics[self._topic].partitions[0].leader, "send")

    async def stop(self) -> None:
        await self._client.close()

    def one(self) -> tuple[int, OutgoingBatch]:
        """A number and its record, as a batch."""
        number = next(_NUMBERS)
        record = recode.Record(0, int(time.time() * 1000), b"%0*d" % (KEY_BYTES, number), self._body)
        return number, recode.rebuild([record], codec=0, producer_id=-1, producer_epoch=-1, base_sequence=0)

    async def send(self, partitions: Sequence[TopicPartition]) -> None:
        """One record to each of `partitions`, which are distinct, in one request."""
        topics: dict[str, list[tuple[int, OutgoingBatch]]] = {}
        for partition in partitions:
            number, batch = self.one()
            topics.setdefault(partition.topic, []).append((partition.partition, batch))
            self.sent.append(number)
        for result in await self._connection.produce_many(topics):
            raise_for(result.error_code, "sending", result.error_message)


async def trickle(sender: Sender, turns: Sequence[Sequence[TopicPartition]], seconds: float, tick_s: float) -> None:
    """Every `tick_s`, a record to each partition of the next turn, for `seconds`; what a slow tick missed is made up."""
    began = time.perf_counter()
    for count, turn in enumerate(itertools.cycle(turns)):
        due = began + count * tick_s
        if due > began + seconds:
            return
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        await sender.send(turn)


def added(sent: Sequence[int], source: dict[int, float], target: dict[int, float]) -> Added:
    """Pure: the differences for what arrived on both sides."""
    both = [n for n in sent if n in source and n in target]
    return Added(tuple((target[n] - source[n]) * 1000 for n in both), len(sent), len(sent) - len(both))
