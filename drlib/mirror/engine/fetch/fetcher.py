"""The source side of one lane within one claim: fetches from each leader and passes the records on in order.

Rules:
- Two readers per broker, each on a connection of its own, because a broker answers one connection in order: the long poll
  waits at the broker for partitions whose end was reached (`long_poll_reader`); the backlog reader never waits and
  pipelines its requests through partitions that are behind (`backlog_reader`). A partition is in exactly one of them.
- A source that does not answer ends nothing: the loops reconnect, and what was fetched is still sent. It counts as
  reachable again when every broker that leads a partition of the lane has answered.
- A partition without a leader is `OfflinePartition` and is read again as soon as it has one; the others continue meanwhile.
- Retention beyond the position is an event and, by the flow's policy, a `SourceLoss` journal entry and a jump (continue), a
  parked partition (park) or the worker's end (fail). A log that ends below the position is a `SourceTruncated`. Never a
  silent jump.
- A corrupt batch or a re-created topic parks that partition alone.
Not for: sending, that is `drlib.mirror.engine.lane.produce_loop`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from drlib.errors import Unreachable, first_error
from drlib.kafka.net.cluster_client import WrongCluster
from drlib.kafka.protocol.error_codes import TOPIC_AUTHORIZATION_FAILED, BrokerError
from drlib.kafka.security.errors import SecurityFault
from drlib.mirror.engine.fetch.backlog_reader import BacklogReader
from drlib.mirror.engine.fetch.context import LaneContext
from drlib.mirror.engine.fetch.fetch_response import (
    FetchResponseHandler,
    LeaderMoved,
    PartitionFetch,
    Sink,
    SourceBroker,
)
from drlib.mirror.engine.fetch.long_poll_reader import LongPollReader
from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.engine.fetch.round_trip_time import wait_for_response
from drlib.mirror.offsets.map.journal_log import LaneJournal

LEADER_POLL_S = 1.0  # between two lookups of a partition without a leader


class Fetcher:
    """Runs until cancelled; sends no more requests once `drain` was called."""

    def __init__(
        self, context: LaneContext, journal: LaneJournal, streams: Sequence[PartitionStream], sink: Sink
    ) -> None:
        self.context = context
        self.lane = journal.lane
        self.source = context.source
        self.events = context.events
        self.streams = list(streams)
        self.sink = sink
        self.memory = context.memory.share(journal.lane.rpartition(".")[0])
        self.handler = FetchResponseHandler(context, journal, sink)
        self._backlogs: list[BacklogReader] = []
        self._offline: set[str] = set()
        self._draining = asyncio.Event()
        self._added = asyncio.Event()

    def add(self, streams: Iterable[PartitionStream]) -> None:
        """Read these too, from their positions on: they join the claim, or are no longer parked."""
        self.streams = list(dict.fromkeys((*self.streams, *streams)))
        self._added.set()

    def drain(self) -> None:
        """Send no more fetch requests."""
        self._draining.set()

    def room(self) -> None:
        """Wake the backlog readers: a queue became shorter."""
        for backlog in self._backlogs:
            backlog.wake()

    async def run(self) -> None:
        """Read from every leader; the readers are set up again whenever leaders move or the source comes back."""
        try:
            await self._read_until_drained()
            await asyncio.Event().wait()  # the senders decide when draining is complete
        except BaseExceptionGroup as errors:  # of the readers: the lane decides by the error itself
            raise first_error(errors) from errors
        finally:
            self.events.resolve("SourceUnreachable", self.lane)  # the end of this fetcher ends its observation
            self._report_offline(())

    async def _read_until_drained(self) -> None:
        delay = 0.05
        while not self._draining.is_set():
            try:
                self._added.clear()
                by_node = await self._leaders()
                delay = 0.05 if by_node else delay
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._wait_for_responses(by_node))
                    if by_node:
                        group.create_task(self._wait_for_added())
                    if by_node and self._offline:
                        group.create_task(self._wait_for_election())
                    for node, streams in by_node.items():
                        self._read_from(group, node, streams)
            except* (LeaderMoved, WrongCluster):
                pass  # `cluster_watch` reports another cluster at these addresses
            except* (Unreachable, SecurityFault, BrokerError, TimeoutError, OSError) as errors:
                self.events.open("SourceUnreachable", self.lane, str(errors.exceptions[0]))
            self._backlogs.clear()
            await asyncio.sleep(delay)  # leaders move, or are not elected yet: look them up again, with back-off
            delay = min(2.0, delay * 2)

    async def _wait_for_responses(self, nodes: Iterable[int]) -> None:
        """Resolve `SourceUnreachable` once every leader has answered: a kernel may accept a connection without a broker."""
        for node in nodes:
            await wait_for_response(self.source, node)
        self.events.resolve("SourceUnreachable", self.lane)

    def _read_from(self, group: asyncio.TaskGroup, node: int, streams: Sequence[PartitionStream]) -> None:
        broker = SourceBroker(self.context, self.memory, node, self.lane, self.handler, self._draining)
        long_poll = LongPollReader(broker)
        backlog = BacklogReader(broker, caught_up=long_poll.add)
        for stream in streams:
            long_poll.add(PartitionFetch(stream))
        self._backlogs.append(backlog)
        group.create_task(long_poll.run(fell_behind=backlog.add))
        group.create_task(backlog.run())

    async def _wait_for_added(self) -> None:
        """Raises `LeaderMoved` once there are streams to read that no reader has."""
        await self._added.wait()
        raise LeaderMoved

    async def _wait_for_election(self) -> None:
        """Raises `LeaderMoved` once a partition that had no leader has one."""
        before = frozenset(self._offline)
        while before <= self._offline:
            await asyncio.sleep(LEADER_POLL_S)
            await self._leaders()
        raise LeaderMoved

    def _report_offline(self, partitions: Iterable[str]) -> None:
        now = set(partitions)
        for partition in now:
            detail = f"{partition} has no leader on the source; its next records wait there"
            self.events.open("OfflinePartition", partition, detail)
        for partition in self._offline - now:
            self.events.resolve("OfflinePartition", partition)
        self._offline = now

    async def _leaders(self) -> dict[int, list[PartitionStream]]:
        """The streams by leader (node ID); reports partitions without one and parks topics we may not describe."""
        metadata = await self.source.metadata(sorted({s.source.topic for s in self.streams}))
        by_node: dict[int, list[PartitionStream]] = {}
        offline: list[str] = []
        for stream in self.streams:
            topic = metadata.topics.get(stream.source.topic)
            if topic is not None and topic.error_code == TOPIC_AUTHORIZATION_FAILED and not stream.parked:
                why = str(BrokerError(topic.error_code, f"looking up {stream.source.topic}"))
                self.sink.park(stream, why, "SourceUnauthorized", stream.source.topic)
            partition = topic.partitions.get(stream.source.partition) if topic else None
            if partition is not None and partition.leader >= 0 and not stream.parked:
                by_node.setdefault(partition.leader, []).append(stream)
            elif not stream.parked:
                offline.append(str(stream.source))
        self._report_offline(offline)
        return by_node
