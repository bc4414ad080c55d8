"""The source side of one lane within one claim: ask each leader for what its partitions hold, and hand it on in order.

Rules:
- Two questions, each on a connection of its own to a broker, because a broker answers one connection in order: *what is
  new* waits at the broker for partitions whose end we reached (`drlib.mirror.engine.fetch.long_poll_reader`); *what is
  there* never waits and runs
  ahead of its answers through partitions that are behind (`drlib.mirror.engine.fetch.backlog_reader`). A partition is
  in one of them.
- A source that goes away ends nothing: the loops come back to it, and what was fetched is still sent. It is there again
  when every broker that leads something of ours has answered.
- A partition without a leader is `OfflinePartition`, and is read again as soon as it has one; others go on meanwhile.
- Retention that overtook us is an event, and by the flow's policy a `SourceLoss` in the ledger and a jump (continue), a
  parked partition (park) or the worker's end (fail). A log that ends below our position is a `SourceTruncated`. Never a
  silent jump.
- What arrives corrupt, and a topic that is another one now, parks that partition alone.
Not for: sending, that is `drlib.mirror.engine.lane.produce_loop`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from drlib.errors import Unreachable
from drlib.kafka.net.cluster_client import ClusterClient, WrongCluster
from drlib.kafka.protocol.error_codes import TOPIC_AUTHORIZATION_FAILED, BrokerError
from drlib.kafka.security.errors import SecurityFault
from drlib.mirror.engine.fetch.backlog_reader import BacklogReader
from drlib.mirror.engine.fetch.fetch_response import Broker, FetchResponseHandler, LeaderMoved, PartitionFetch, Sink
from drlib.mirror.engine.fetch.long_poll_reader import LongPollReader
from drlib.mirror.engine.fetch.memory import Memory
from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.engine.fetch.round_trip_time import heard
from drlib.mirror.offsets.map.journal_log import LaneJournal
from drlib.mirror.status.worker_status import EventLog

LOOK_S = 1.0  # how often a partition without a leader is looked up


class Fetcher:
    """Runs until cancelled; fetches no more once `drain` was called."""

    def __init__(
        self,
        lane: str,
        source: ClusterClient,
        journal: LaneJournal,
        streams: Sequence[PartitionStream],
        events: EventLog,
        memory: Memory,
        sink: Sink,
        loss_policy: str = "continue",
    ) -> None:
        self.lane = lane
        self.source = source
        self.streams = streams
        self.events = events
        self.memory = memory
        self.intake = FetchResponseHandler(journal, events, sink, loss_policy)
        self._backlogs: list[BacklogReader] = []
        self._offline: set[str] = set()
        self._draining = asyncio.Event()

    def drain(self) -> None:
        """Ask for nothing more."""
        self._draining.set()

    def room(self) -> None:
        """Some queue became shorter."""
        for backlog in self._backlogs:
            backlog.wake()

    async def run(self) -> None:
        """Read from every leader; laid out anew whenever leaders move or the source comes back."""
        try:
            await self._layouts()
            await asyncio.Event().wait()  # draining: the senders decide when it is over
        finally:
            self.events.resolve("SourceUnreachable", self.lane)  # nobody is left here who could see it come back
            self._tell_offline(())

    async def _layouts(self) -> None:
        delay = 0.05
        while not self._draining.is_set():
            try:
                by_node = await self._leaders()
                delay = 0.05 if by_node else delay
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._answered(by_node))
                    if by_node and self._offline:
                        group.create_task(self._elected())
                    for node, streams in by_node.items():
                        await self._read_from(group, node, streams)
            except* (LeaderMoved, WrongCluster):
                pass  # another cluster at our addresses is told from beside
            except* (Unreachable, SecurityFault, BrokerError, TimeoutError, OSError) as errors:
                self.events.open("SourceUnreachable", self.lane, str(errors.exceptions[0]))
            self._backlogs.clear()
            await asyncio.sleep(delay)  # leaders move, or are not elected yet: ask again, ever more patiently
            delay = min(2.0, delay * 2)

    async def _answered(self, nodes: Iterable[int]) -> None:
        """Ask every broker we read from something small: a connection alone says little, a kernel opens it."""
        for node in nodes:
            await heard(self.source, node)
        self.events.resolve("SourceUnreachable", self.lane)

    async def _read_from(self, group: asyncio.TaskGroup, node: int, streams: Sequence[PartitionStream]) -> None:
        readings = [PartitionFetch(stream) for stream in streams]
        broker = Broker(self.source, node, self.lane, self.intake, self.memory, self._draining)
        backlog, tail = BacklogReader(broker), LongPollReader(broker)
        backlog.caught_up, tail.fell_behind = tail.add, backlog.add
        for reading in readings:
            tail.add(reading)
        self._backlogs.append(backlog)
        group.create_task(tail.run())
        group.create_task(backlog.run())

    async def _elected(self) -> None:
        """Raises `LeaderMoved` once a partition that had no leader has one."""
        before = frozenset(self._offline)
        while before <= self._offline:
            await asyncio.sleep(LOOK_S)
            await self._leaders()
        raise LeaderMoved

    def _tell_offline(self, partitions: Iterable[str]) -> None:
        now = set(partitions)
        for partition in now:
            detail = f"{partition} has no leader on the source; its next records wait there"
            self.events.open("OfflinePartition", partition, detail)
        for partition in self._offline - now:
            self.events.resolve("OfflinePartition", partition)
        self._offline = now

    async def _leaders(self) -> dict[int, list[PartitionStream]]:
        metadata = await self.source.metadata(sorted({s.source.topic for s in self.streams}))
        by_node: dict[int, list[PartitionStream]] = {}
        offline: list[str] = []
        for stream in self.streams:
            topic = metadata.topics.get(stream.source.topic)
            if topic is not None and topic.error_code == TOPIC_AUTHORIZATION_FAILED and not stream.parked:
                why = str(BrokerError(topic.error_code, f"looking up {stream.source.topic}"))
                self.intake.sink.park(stream, why, "SourceUnauthorized", stream.source.topic)
            found = topic.partitions.get(stream.source.partition) if topic else None
            if found is not None and found.leader >= 0 and not stream.parked:
                by_node.setdefault(found.leader, []).append(stream)
            elif not stream.parked:
                offline.append(str(stream.source))
        self._tell_offline(offline)
        return by_node
