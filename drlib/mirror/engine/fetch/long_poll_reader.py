"""Long-poll fetches: fetch requests that wait at the broker for the partitions whose end was reached.

Rules:
- One request at a time, in a fetch session (KIP-227): each request names only what changed since the one before. A broker
  that keeps no session for us gets full requests.
- A broker reads every partition of a session for each request, and watches it until it has removed all requests that ended,
  which it does a thousand requests at a time while no wait ends (`DelayedOperationPurgatory`). So beyond `FEW` partitions
  those without records for `QUIET_S` are in a session of their own, whose requests wait longer.
- In a session a broker looks partitions up by topic name and calls a deleted topic merely unknown. Such an answer is
  believed only after a full request has confirmed it.
- A partition with more records than one response holds moves to the backlog reader at once.
- Whatever other lanes have reserved, a lane that has reserved nothing sends its request. What was received belongs to the
  batches planned from it: between two responses a reader refers to none.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable

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
QUIET_WAIT_MS = 200  # after an answer without records: what is added meanwhile waits for its end
IDLE_WAIT_MS = 500  # less than the second after which a lag counts as out of date
FEW = 200  # so many partitions are not worth a second session
QUIET_S = 5.0
LOOK_S = 1.0  # between two looks for idle ones
RESPONSE_BYTES = 256 << 10  # more is left to the backlog reader, which knows how much the link carries
PARTITION_BYTES = 64 << 10
_SESSION_GONE = frozenset({FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR})
_LAST_EPOCH = 2**31 - 1

Key = tuple[TopicId, int]


FellBehind = Callable[[PartitionFetch], None]
"""Gets each partition with more records than a response held."""


class LongPoll:
    """Waits for new records of one lane's partitions at one broker: of the active ones, and apart from them of idle ones."""

    def __init__(self, broker: SourceBroker) -> None:
        self.active = LongPollReader(broker, "tail", WAIT_MS, QUIET_WAIT_MS, got_records=self._keep)
        self.idle = LongPollReader(
            broker, "idle", IDLE_WAIT_MS, IDLE_WAIT_MS, got_records=self._activate, before_request=self._retire
        )
        self._records_at: dict[PartitionFetch, float] = {}
        self._looked_at = 0.0

    def add(self, fetch: PartitionFetch) -> None:
        """Wait for records past the end that `fetch` has reached."""
        self._records_at[fetch] = time.monotonic()
        self.active.add(fetch)

    def remove(self, fetch: PartitionFetch) -> None:
        """Wait no longer for a partition, if it is waited for here."""
        self._records_at.pop(fetch, None)
        self.active.remove(fetch)
        self.idle.remove(fetch)

    async def run(self, fell_behind: FellBehind) -> None:
        """Fetch until cancelled. Raises `LeaderMoved`, `Unreachable` or `BrokerError`, in a group."""
        async with asyncio.TaskGroup() as group:
            for reader in (self.active, self.idle):
                group.create_task(reader.run(fell_behind))

    def _keep(self, fetched: Iterable[PartitionFetch]) -> None:
        self._records_at.update(dict.fromkeys(fetched, time.monotonic()))
        if not self.idle.members:  # it has no request that they would have to wait for
            self._retire()

    def _activate(self, fetched: Iterable[PartitionFetch]) -> None:
        """Idle partitions got records."""
        for fetch in fetched:
            self.idle.remove(fetch)
            self.add(fetch)

    def _retire(self) -> None:
        """Right before the request for the idle partitions, which waits long: name those that have become idle.

        An answer about them that the other session still gives is dropped.
        """
        excess, now = len(self.active.members) - FEW, time.monotonic()
        if excess <= 0 or now < self._looked_at + LOOK_S:
            return
        self._looked_at = now
        quiet = [f for f in self.active.members if self._records_at.get(f, now) < now - QUIET_S]
        for fetch in quiet[:excess]:
            self.active.remove(fetch)
            self.idle.add(fetch)


class LongPollReader:
    """One fetch session, over the connection for `purpose`.

    Its requests wait for `wait_ms`, and for `quiet_ms` after an answer without records. `got_records`: called with those of a
    response that had some; `before_request`: called before each request is made.
    """

    def __init__(
        self,
        broker: SourceBroker,
        purpose: str,
        wait_ms: int = WAIT_MS,
        quiet_ms: int = WAIT_MS,
        *,
        got_records: Callable[[Iterable[PartitionFetch]], None] = lambda _: None,
        before_request: Callable[[], None] = lambda: None,
    ) -> None:
        self.broker = broker
        self._purpose = purpose
        self._wait_ms = self._next_wait_ms = wait_ms
        self._quiet_ms = quiet_ms
        self._got_records = got_records
        self._before_request = before_request
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

    @property
    def members(self) -> Collection[PartitionFetch]:
        return self._members.values()

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

    async def run(self, fell_behind: FellBehind) -> None:
        """Fetch until cancelled. Raises `LeaderMoved`, `Unreachable` or `BrokerError`."""
        connection: Connection | None = None
        wake = self._wake.set
        try:
            while not self.broker.draining.is_set():
                if self._members and (self.memory.has_room() or not self.memory.held):
                    self._before_request()
                    connection = connection or await self.broker.connection(self._purpose)
                    await self._poll(connection, fell_behind)
                    continue
                self._wake.clear()
                if self._members:
                    self.memory.when_freed(wake)
                await self._wake.wait()
        finally:
            self.memory.cancel(wake)

    async def _poll(self, connection: Connection, fell_behind: FellBehind) -> None:
        """Send one request and handle its response; no reference to the response is left afterwards."""
        in_session = self._session[0] != 0
        response = await self._fetch(connection, in_session)
        if response is None:
            return
        self._counter.responses += 1
        reservation = self.memory.reserve(response.size)
        got_records: list[PartitionFetch] = []
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
            if fetch.left or self._members.get(key) is not fetch:  # it was moved meanwhile
                continue
            if fetch.behind or fetch.stream.parked:
                self.remove(fetch)
                if not fetch.stream.parked:
                    fell_behind(fetch)
            else:
                self._changed[key] = fetch
                if len(partition.records):
                    got_records.append(fetch)
        self._next_wait_ms = self._wait_ms if got_records else self._quiet_ms
        self._got_records(got_records)

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
            max_wait_ms=self._next_wait_ms,
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
