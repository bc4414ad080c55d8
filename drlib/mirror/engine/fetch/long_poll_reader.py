"""*What is new*: one question that waits at the broker for every partition whose end was reached.

Rules:
- One question at a time, in a fetch session (KIP-227): it names what changed since the one before, so a thousand idle
  partitions cost nothing. A broker that keeps no session for us is asked in full.
- In a session a broker looks partitions up by the names of its topics, and calls a deleted one merely unknown. So it is
  asked in full, by topic ID, before that is believed.
- A partition that turns out to have more than an answer holds leaves for the backlog at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from drlib.kafka.net import requests
from drlib.kafka.protocol import fetch as fetching
from drlib.kafka.protocol.error_codes import (
    FETCH_SESSION_ID_NOT_FOUND,
    INVALID_FETCH_SESSION_EPOCH,
    UNKNOWN_TOPIC_OR_PARTITION,
    raise_for,
)
from drlib.mirror.engine.fetch.fetch_response import Broker, PartitionFetch
from drlib.mirror.engine.fetch.partition_stream import Pulse

WAIT_MS = 100
ANSWER_BYTES = 256 << 10  # more is the backlog's, which knows how much the link carries
PARTITION_BYTES = 64 << 10
_SESSION_GONE = frozenset({FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH})
_LAST_EPOCH = 2**31 - 1

Key = tuple[requests.TopicId, int]


class LongPollReader:
    """The tail of one lane's partitions at one broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.intake = broker.intake
        self.memory = broker.memory
        self.fell_behind: Callable[[PartitionFetch], None]
        self._members: dict[Key, PartitionFetch] = {}
        self._changed: dict[Key, PartitionFetch] = {}
        self._left: dict[Key, None] = {}
        self._session = fetching.NEW_SESSION
        self._some = asyncio.Event()
        self._pulse = Pulse()

    def add(self, reading: PartitionFetch) -> None:
        """The reading has reached the end it knows of."""
        key = (reading.stream.key.topic_id, reading.stream.key.partition)
        self._members[key] = self._changed[key] = reading
        reading.stream.pulse = self._pulse
        self._left.pop(key, None)
        self._some.set()

    async def run(self) -> None:
        """Ask until cancelled. Raises `LeaderMoved`, `Unreachable` or `BrokerError`."""
        connection = await self.broker.connection("tail")
        while not self.broker.draining.is_set():
            if not self._members or not self.memory.room():
                self._some.clear()
                self.memory.when_freed(self._some.set)
                await self._some.wait()
                continue
            in_session = self._session[0] != 0
            answer = await self._ask(connection, in_session)
            if answer is None:
                continue
            self._pulse.answers += 1
            held = self.memory.hold(answer.size)
            for found in answer.partitions:
                key = (found.topic_id, found.partition)
                reading = self._members.get(key)
                if reading is None:
                    continue
                if in_session and found.error_code == UNKNOWN_TOPIC_OR_PARTITION:
                    self._session = fetching.NEW_SESSION
                    continue
                await self.intake.take(connection, reading, reading.stream.position, found, held)
                if reading.behind or reading.stream.parked:
                    del self._members[key]
                    reading.stream.pulse = None
                    self._changed.pop(key, None)
                    self._left[key] = None
                    if not reading.stream.parked:
                        self.fell_behind(reading)
                else:
                    self._changed[key] = reading

    async def _ask(self, connection: requests.Connection, in_session: bool) -> fetching.Fetched | None:
        """One question; None when the session is gone and everything must be named again."""
        named = self._changed if in_session else self._members
        future = requests.fetch_future(
            connection,
            [
                requests.FetchPartition(*key, r.stream.position, PARTITION_BYTES, r.stream.epoch)
                for key, r in named.items()
            ],
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=ANSWER_BYTES,
            read_committed=True,
            session=self._session,
            forgotten=self._left if in_session else (),
        )
        self._changed, self._left = {}, {}
        answer = await future
        if answer.error_code in _SESSION_GONE:
            self._session = fetching.NEW_SESSION
            return None
        raise_for(answer.error_code, f"fetching from {connection.peer}")
        if not answer.session_id:
            self._session = fetching.NEW_SESSION  # the broker's cache of sessions is full: ask for one each time
        else:
            epoch = self._session[1]
            self._session = (answer.session_id, 1 if epoch == _LAST_EPOCH else epoch + 1)
        return answer
