"""Long-poll fetches: one fetch request that waits at the broker for every partition whose end was reached.

Rules:
- One request at a time, in a fetch session (KIP-227): each request names only what changed since the one before, so a
  thousand idle partitions cost nothing. A broker that keeps no session for us gets full requests.
- In a session a broker looks partitions up by topic name and calls a deleted topic merely unknown. Such an answer is
  believed only after a full request has confirmed it.
- A partition with more records than one response holds moves to the backlog reader at once.
- Whatever other lanes have reserved, a lane that has reserved nothing sends its request. What was received belongs to the
  batches planned from it: between two responses a reader refers to none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from drlib.kafka.net import requests
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol import fetch as fetching
from drlib.kafka.protocol.error_codes import (
    FETCH_SESSION_ID_NOT_FOUND,
    FETCH_SESSION_TOPIC_ID_ERROR,
    INVALID_FETCH_SESSION_EPOCH,
    UNKNOWN_TOPIC_OR_PARTITION,
    raise_for,
)
from drlib.kafka.protocol.fetch import FetchPartition, TopicId
from drlib.mirror.engine.fetch.fetch_response import PartitionFetch, SourceBroker
from drlib.mirror.engine.fetch.partition_stream import LongPollCounter

WAIT_MS = 100
RESPONSE_BYTES = 256 << 10  # more is left to the backlog reader, which knows how much the link carries
PARTITION_BYTES = 64 << 10
_SESSION_GONE = frozenset({FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR})
_LAST_EPOCH = 2**31 - 1

Key = tuple[TopicId, int]


class LongPollReader:
    """Waits for new records of one lane's partitions at one broker."""

    def __init__(self, broker: SourceBroker) -> None:
        self.broker = broker
        self.handler = broker.handler
        self.memory = broker.memory
        self._members: dict[Key, PartitionFetch] = {}
        self._changed: dict[Key, PartitionFetch] = {}
        self._removed: dict[Key, str] = {}
        self._topics: dict[str, TopicId] = {}  # every topic that was ever a member
        self._offsets: dict[Key, int] = {}  # from which on the broker answers, as last requested
        self._by_name = False  # a session never mixes names and IDs
        self._session = fetching.NEW_SESSION
        self._wake = asyncio.Event()
        self._counter = LongPollCounter()

    def add(self, fetch: PartitionFetch) -> None:
        """Wait for records past the end that `fetch` has reached."""
        key = (fetch.stream.key.topic_id, fetch.stream.key.partition)
        self._members[key] = self._changed[key] = fetch
        fetch.stream.long_poll = None if self.broker.follower else self._counter
        self._removed.pop(key, None)
        self._topics[fetch.stream.source.topic] = key[0]
        if fetch.stream.unproven and not self._by_name:
            self._by_name, self._session = True, fetching.NEW_SESSION
        self._wake.set()

    def remove(self, fetch: PartitionFetch) -> None:
        """Wait no longer for a partition, if it is waited for here."""
        key = (fetch.stream.key.topic_id, fetch.stream.key.partition)
        if self._members.get(key) is fetch:
            del self._members[key]
            fetch.stream.long_poll = None
            self._changed.pop(key, None)
            self._removed[key] = fetch.stream.source.topic

    def _proof_of(self, topic_id: TopicId, partition: int) -> fetching.Proof | None:
        fetch = self._members.get((topic_id, partition))
        return fetch.stream.proof if fetch is not None else None

    async def run(self, fell_behind: Callable[[PartitionFetch], None]) -> None:
        """Fetch until cancelled; `fell_behind` gets each partition with more records than a response held.

        Raises `LeaderMoved`, `Unreachable` or `BrokerError`.
        """
        connection = await self.broker.connection("tail")
        wake = self._wake.set
        try:
            while not self.broker.draining.is_set():
                if self._members and (self.memory.has_room() or not self.memory.held):
                    await self._poll(connection, fell_behind)
                    continue
                self._wake.clear()
                self.memory.when_freed(wake)
                await self._wake.wait()
        finally:
            self.memory.cancel(wake)

    async def _poll(self, connection: Connection, fell_behind: Callable[[PartitionFetch], None]) -> None:
        """Send one request and handle its response; no reference to the response is left afterwards."""
        in_session = self._session[0] != 0
        response = await self._fetch(connection, in_session)
        if response is None:
            return
        self._counter.responses += 1
        reservation = self.memory.reserve(response.size)
        for partition in response.partitions:
            key = (partition.topic_id, partition.partition)
            fetch, offset = self._members.get(key), self._offsets.get(key)
            if fetch is None or offset is None:
                continue
            if in_session and partition.error_code == UNKNOWN_TOPIC_OR_PARTITION:
                self._session = fetching.NEW_SESSION
                continue
            # A partition that was parked meanwhile, and resumed, has gone back to an earlier position.
            await self.handler.handle(connection, fetch, offset, partition, reservation)
            if fetch.left:
                continue
            if fetch.behind or fetch.stream.parked:
                self.remove(fetch)
                if not fetch.stream.parked:
                    fell_behind(fetch)
            else:
                self._changed[key] = fetch

    async def _fetch(self, connection: Connection, in_session: bool) -> fetching.Fetched | None:
        """Send one request; None when the session is gone and the next request must name every partition."""
        named = self._changed if in_session else self._members
        self._offsets |= {key: fetch.stream.position for key, fetch in named.items()}
        future = requests.fetch_future(
            connection,
            [
                FetchPartition(f.stream.source.topic, *key, f.stream.position, PARTITION_BYTES, f.stream.epoch)
                for key, f in named.items()
            ],
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=RESPONSE_BYTES,
            read_committed=True,
            session=self._session,
            forgotten=[(topic, *key) for key, topic in self._removed.items()] if in_session else (),
            in_session=self._topics,
            by_name=self._by_name,
            proof_of=self._proof_of,
        )
        self._changed, self._removed = {}, {}
        response = await future
        if response.error_code in _SESSION_GONE:
            self._session = fetching.NEW_SESSION
            return None
        raise_for(response.error_code, f"fetching from {connection.peer}")
        if not response.session_id:
            self._session = fetching.NEW_SESSION  # the broker's session cache is full: ask for a session each time
        else:
            epoch = self._session[1]
            self._session = (response.session_id, 1 if epoch == _LAST_EPOCH else epoch + 1)
        return response
