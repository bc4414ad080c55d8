"""*What is there*: questions that run ahead of their answers through partitions that are behind.

Rules:
- A broker answers in order, so the next questions are sent before the first is answered: at o, o+d, o+2d, with d guessed
  from the records a byte held of late, a little less than that; overlap is trimmed, a hole is asked for once more.
- Nothing is asked beyond what the source said may be read, and no question waits at the broker.
- A question holds half a window, so that one is always behind the other.
- As much is on its way as the link holds (`drlib.mirror.engine.fetch.flow_control`), within the worker's memory.
Whatever others hold of that,
  who holds nothing may ask one small question.
- A partition that got nothing although it is behind is asked alone: a broker gives a batch larger than the limit only to
  the first partition of a question. If even then nothing comes, for seconds, that is told: its log may be damaged there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from drlib.kafka.net import requests
from drlib.kafka.protocol.error_codes import raise_for
from drlib.kafka.protocol.fetch import Fetched
from drlib.mirror.engine.fetch.fetch_response import QUEUE_BYTES, Broker, PartitionFetch
from drlib.mirror.engine.fetch.flow_control import Flight, InFlightWindow
from drlib.mirror.engine.fetch.memory import Hold
from drlib.mirror.engine.fetch.round_trip_time import measure

QUESTION_BYTES = 8 << 20
LEAST_BYTES = 64 << 10  # asked of one partition
MOST_BYTES = 2 << 20
QUESTION_PARTITIONS = 32  # with more behind than that, each is asked for more, less often
LEAST_WINDOW = 2 * QUESTION_BYTES
THINNER = 0.98  # of the records expected in an answer: overlap costs the link this much, a hole a whole window
FORGET = 32  # answers until a thin one is forgotten: what an answer holds varies by the batches cut off at its two ends
PAUSE_S = 0.05  # after nothing came although there is something
ALONE_AGAIN_S = 1.0  # a partition that gives nothing does not hold up the others more often than that
STALLED_S = 5.0


@dataclass(slots=True)
class FetchRequest:
    future: asyncio.Future[Fetched]
    asked: dict[tuple[requests.TopicId, int], tuple[PartitionFetch, int]]
    flight: Flight
    held: Hold


class BacklogReader:
    """The backlog of one lane's partitions at one broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.intake = broker.intake
        self.memory = broker.memory
        self.caught_up: Callable[[PartitionFetch], None]
        self.window = InFlightWindow(LEAST_WINDOW, max(LEAST_WINDOW, self.memory.limit // 2))
        self._members: dict[PartitionFetch, None] = {}
        self._starved: dict[PartitionFetch, None] = {}
        self._news = asyncio.Event()

    def add(self, reading: PartitionFetch) -> None:
        """There is more in the partition than its last answer held."""
        self._members[reading] = None
        self._news.set()

    def wake(self) -> None:
        """There may be room again."""
        self._news.set()

    async def run(self) -> None:
        """Ask until cancelled. Raises `LeaderMoved`, `Unreachable` or `BrokerError`."""
        connection = await self.broker.connection("fetch")
        questions: list[FetchRequest] = []
        ping = asyncio.create_task(
            measure(self.broker.source, self.broker.node, self.window, lambda: bool(self._members))
        )
        try:
            while not self.broker.draining.is_set():
                while question := self._next(connection, bool(questions)):
                    questions.append(question)
                if not questions:
                    self._news.clear()
                    self.memory.when_freed(self.wake)
                    await self._news.wait()
                    continue
                question = questions.pop(0)
                await self._answered(connection, question, await question.future)
        finally:
            ping.cancel()
            for question in questions:
                question.future.cancel()
                for reading, _ in question.asked.values():
                    reading.asked.clear()

    def _next(self, connection: requests.Connection, busy: bool) -> FetchRequest | None:
        """The next question, or None when it must wait."""
        tight = not self.memory.room()
        if busy and (tight or not self.window.open):
            return None
        if tight and not all(reading.stream.idle for reading in self._members):
            return None
        alone = next(iter(self._starved), None)
        if alone is not None and busy:
            return None
        self._starved.clear()
        size = LEAST_BYTES if tight else min(QUESTION_BYTES, self.window.size // 2)
        share = max(LEAST_BYTES, min(MOST_BYTES, size // max(1, min(len(self._members), QUESTION_PARTITIONS))))
        wanted: list[requests.FetchPartition] = []
        asked: dict[tuple[requests.TopicId, int], tuple[PartitionFetch, int]] = {}
        total = 0
        for reading in [alone] if alone is not None else list(self._members):
            at = self._where(reading, share)
            if at is None:
                continue
            key = (reading.stream.key.topic_id, reading.stream.key.partition)
            wanted.append(requests.FetchPartition(*key, at, share, reading.epoch_at(at)))
            asked[key] = (reading, at)
            reading.asked.append(at)
            if reading in self._members:  # who was asked goes to the end of the line
                self._members[reading] = self._members.pop(reading)
            total += share
            if total >= size:
                break
        if not wanted:
            return None
        future = requests.fetch_future(
            connection, wanted, max_wait_ms=0, min_bytes=0, max_bytes=total, read_committed=True
        )
        return FetchRequest(future, asked, self.window.sent(time.monotonic(), total), self.memory.hold(total))

    def _where(self, reading: PartitionFetch, share: int) -> int | None:
        """Where the next question to a partition begins; None when there is none to ask now."""
        stream = reading.stream
        if stream.parked:
            self._members.pop(reading, None)
            return None
        first = min((*reading.asked, *(at for at, _, _ in reading.out_of_order)), default=None)
        if first is None:
            if not reading.behind:
                self._members.pop(reading, None)
                self.caught_up(reading)
                return None
            reading.next_offset = stream.position
        if first is not None and first > stream.position and not reading.full:
            return stream.position  # a hole
        if stream.queued_bytes + len(reading.asked) * share > QUEUE_BYTES + 2 * self.window.in_transit:
            return None
        if reading.next_offset >= reading.end or (reading.asked and not reading.density):
            return None
        at = reading.next_offset
        reading.next_offset = at + max(1, int(reading.density * share * THINNER))
        return at

    async def _answered(self, connection: requests.Connection, question: FetchRequest, answer: Fetched) -> None:
        self.window.answered(question.flight, time.monotonic(), answer.size)
        question.held.resize(answer.size)
        raise_for(answer.error_code, f"fetching from {connection.peer}")
        progress = False
        for found in answer.partitions:
            reading, at = question.asked.pop((found.topic_id, found.partition), (None, 0))
            if reading is None:
                continue
            stream = reading.stream
            before = stream.position
            reading.asked.remove(at)
            if len(found.records):
                self.intake.resumed(reading)
            await self.intake.take(connection, reading, at, found, question.held)
            progress = progress or stream.position > before or at > before
            if at <= before < stream.position and not reading.out_of_order:
                density = (stream.position - at) / max(1, len(found.records))
                grown = reading.density + (density - reading.density) / FORGET
                reading.density = min(density, grown) if reading.density else density
            elif at == before == stream.position and before < reading.end and not stream.parked:
                self._gave_nothing(reading, at, alone=len(answer.partitions) == 1, some=len(found.records) > 0)
        for reading, at in question.asked.values():  # a broker names every partition it was asked for; be sure
            reading.asked.remove(at)
        if not progress:
            await asyncio.sleep(PAUSE_S)

    def _gave_nothing(self, reading: PartitionFetch, at: int, *, alone: bool, some: bool) -> None:
        """The partition is behind and did not move; `alone`: although nothing else was asked for."""
        now = time.monotonic()
        if not alone:
            if now - reading.alone_at > ALONE_AGAIN_S:
                self._starved[reading] = None
            return
        reading.alone_at = now
        if some:
            self.intake.sink.park(
                reading.stream, f"the batch at offset {at} is larger than what the source gives of it", "SourceCorrupt"
            )
        elif reading.empty_since <= 0:
            reading.empty_since = now
        elif now - reading.empty_since > STALLED_S:
            self.intake.stalled(reading, at)
