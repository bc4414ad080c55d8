"""One lane: claim, read back, pump; again after a fault, until it is stopped or somebody else owns it.

Rules: the state machine is the table `MOVES`. Every doubt leads through `CLAIMING`: a new epoch, a fence, and the log
itself says what of ours stands. What recovery finds is journaled before the first new batch. Claims back off
exponentially, since each costs an epoch.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from drlib.errors import Unreachable
from drlib.mirror.claim import claim
from drlib.mirror.faults import LaneFault, LaneLost
from drlib.mirror.lane_journal import EARLIEST, LATEST, LaneJournal, read_journal
from drlib.mirror.maps import build_maps
from drlib.mirror.membership import Membership
from drlib.mirror.pump import Observer, Pump
from drlib.mirror.reading import locate
from drlib.mirror.status import EventLog
from drlib.mirror.stream import Stream
from drlib.model import TopicPartition
from drlib.rules.journal import Claim, ClaimId, Entry, Incarnation, Placement, SourcePartition, TopicNames
from drlib.wire import requests
from drlib.wire.cluster import ClusterClient
from drlib.wire.codes import BrokerError


class LaneState(StrEnum):
    CLAIMING = "claiming"
    RECOVERING = "recovering"
    RUNNING = "running"
    DRAINING = "draining"
    BACKING_OFF = "backing-off"
    LOST = "lost"
    STOPPED = "stopped"


MOVES: Final[Mapping[LaneState, frozenset[LaneState]]] = {
    LaneState.CLAIMING: frozenset({LaneState.RECOVERING, LaneState.BACKING_OFF, LaneState.LOST, LaneState.STOPPED}),
    LaneState.RECOVERING: frozenset({LaneState.RUNNING, LaneState.BACKING_OFF, LaneState.LOST, LaneState.STOPPED}),
    LaneState.RUNNING: frozenset({LaneState.DRAINING, LaneState.BACKING_OFF, LaneState.LOST}),
    LaneState.DRAINING: frozenset({LaneState.STOPPED, LaneState.CLAIMING, LaneState.BACKING_OFF, LaneState.LOST}),
    LaneState.BACKING_OFF: frozenset({LaneState.CLAIMING, LaneState.STOPPED, LaneState.LOST}),
    LaneState.LOST: frozenset({LaneState.STOPPED}),
    LaneState.STOPPED: frozenset(),
}

FIRST_BACKOFF_S = 0.1
LONGEST_BACKOFF_S = 10.0
QUIET_AFTER_S = 30.0  # a claim that lasted this long resets the back-off


@dataclass(frozen=True)
class LaneTopic:
    """A source topic and its mirror, as far as this lane copies it."""

    source: str
    topic_id: uuid.UUID
    target: str
    partitions: tuple[int, ...]


@dataclass
class Lane:
    number: int
    transactional_id: str
    source: ClusterClient
    target: ClusterClient
    journal_partition: TopicPartition
    topics: tuple[LaneTopic, ...]
    membership: Membership
    events: EventLog
    worker: str
    observer: Observer
    state: LaneState = LaneState.CLAIMING
    claim_id: ClaimId | None = None
    streams: tuple[Stream, ...] = ()
    _pump: Pump | None = None
    _stopping: bool = False
    _again: bool = False
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        """Own the lane until `stop`; returns when it is stopped or lost."""
        backoff = FIRST_BACKOFF_S
        while not self._stopping:
            began = time.monotonic()
            try:
                await self._term()
                if self._again and not self._stopping:
                    self._again = False
                    self._move(LaneState.CLAIMING)
                    continue
                break
            except LaneLost as lost:
                self.events.open("LaneLost", self.transactional_id, str(lost))
                self._move(LaneState.LOST)
                break
            except (LaneFault, Unreachable, BrokerError, TimeoutError, OSError) as error:
                if isinstance(error, BrokerError) and not error.retriable:
                    raise
                self.events.open("LaneFault", self.transactional_id, str(error))
            self._move(LaneState.BACKING_OFF)
            backoff = FIRST_BACKOFF_S if time.monotonic() - began > QUIET_AFTER_S else backoff
            if not self._stopping:
                await self._pause(backoff)
            backoff = min(LONGEST_BACKOFF_S, backoff * 2)
            if not self._stopping:
                self._move(LaneState.CLAIMING)
        self._move(LaneState.STOPPED)

    def stop(self) -> None:
        """Drain and end."""
        self._stopping = True
        self._wake.set()
        if self._pump is not None:
            self._pump.drain()

    def retopic(self, topics: Sequence[LaneTopic]) -> None:
        """Carry on with another set of partitions: drain, then claim anew over them."""
        self.topics = tuple(topics)
        self._again = True
        if self._pump is not None:
            self._pump.drain()

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _move(self, state: LaneState) -> None:
        if state is self.state:
            return
        if state not in MOVES[self.state]:
            raise AssertionError(f"lane {self.transactional_id} cannot go from {self.state} to {state}")
        self.state = state

    async def _term(self) -> None:
        """One claim from beginning to end."""
        topics = self.topics
        partitions: dict[str, list[int]] = defaultdict(list)
        for topic in topics:
            partitions[topic.target].extend(topic.partitions)
        partitions[self.journal_partition.topic].append(self.journal_partition.partition)
        ours = await claim(self.target, self.transactional_id, partitions)
        self.claim_id = ours
        self._move(LaneState.RECOVERING)
        _, journal_leader = await locate(self.target, self.journal_partition)
        journal = LaneJournal(self.target, self.journal_partition, ours, self.transactional_id, journal_leader)
        leaders, ends = await self._target_ends(topics)
        entries = await read_journal(self.target, self.journal_partition)
        maps = await build_maps(self.target, entries, ends)
        new: list[Entry] = [Claim(ours, 0, int(time.time() * 1000), self.worker), *maps.findings]
        new += self._incarnations(entries, topics)
        streams = []
        for topic in topics:
            starts = await self._source_starts(topic)
            target_id = maps.target_ids.get(topic.target)
            new.append(TopicNames(topic.topic_id, topic.source, topic.target, target_id or await self._id(topic)))
            for number in topic.partitions:
                key = SourcePartition(topic.topic_id, number)
                offsets = maps.get(key)
                end = ends[TopicPartition(topic.target, number)]
                placement = Placement(key, ours, 0, end)
                position = offsets.position if offsets.position is not None else starts[number]
                stream = Stream(
                    key=key,
                    source=TopicPartition(topic.source, number),
                    target=TopicPartition(topic.target, number),
                    claim=ours,
                    map=offsets,
                    position=position,
                    target_next=end,
                    covered=offsets.position if offsets.position is not None else -1,
                    last_timestamp=int(time.time() * 1000),
                )
                stream.journaled = (0, stream.covered)
                offsets.apply(placement)
                new.append(placement)
                streams.append(stream)
        await journal.append(new)
        self.streams = tuple(streams)
        for stream in streams:
            self.observer.progressed(stream)
        self.events.resolve("LaneFault", self.transactional_id)
        self.events.resolve("LaneLost", self.transactional_id)
        self._move(LaneState.RUNNING)
        self._pump = Pump(
            self.transactional_id,
            self.source,
            self.target,
            journal,
            streams,
            self.membership,
            self.events,
            self.observer,
        )
        try:
            if self._stopping or self._again:
                self._pump.drain()
            await self._pump.run(leaders)
            self._move(LaneState.DRAINING)
        finally:
            self._pump = None
            for purpose in ("produce", "journal"):
                await self.target.drop(f"{purpose}-{self.transactional_id}")

    def _incarnations(self, entries: Sequence[Entry], topics: Sequence[LaneTopic]) -> list[Entry]:
        """Topics whose ID is not the one the journal knew: made again on the source."""
        known = {e.source_topic: e.topic_id for e in entries if isinstance(e, TopicNames)}
        now = int(time.time() * 1000)
        found: list[Entry] = []
        for topic in topics:
            before = known.get(topic.source)
            if before is not None and before != topic.topic_id:
                found.append(Incarnation(topic.source, before, topic.topic_id, now))
                self.events.open("TopicRecreated", topic.source, f"topic ID {before} became {topic.topic_id}")
        return found

    async def _id(self, topic: LaneTopic) -> uuid.UUID:
        topic_id, _ = await locate(self.target, TopicPartition(topic.target, topic.partitions[0]))
        return topic_id

    async def _target_ends(
        self, topics: Sequence[LaneTopic]
    ) -> tuple[dict[tuple[str, int], int], dict[TopicPartition, int]]:
        """Leader and log end of each mirror partition, read after the fence."""
        metadata = await self.target.metadata([t.target for t in topics])
        leaders: dict[tuple[str, int], int] = {}
        by_node: dict[int, list[TopicPartition]] = defaultdict(list)
        for topic in topics:
            for number in topic.partitions:
                leader = metadata.topics[topic.target].partitions[number].leader
                leaders[topic.target, number] = leader
                by_node[leader].append(TopicPartition(topic.target, number))
        ends: dict[TopicPartition, int] = {}
        for node, wanted in by_node.items():
            connection = await self.target.connection(node, "control")
            ends.update(await requests.list_offsets(connection, wanted, LATEST))
        return leaders, ends

    async def _source_starts(self, topic: LaneTopic) -> dict[int, int]:
        starts: dict[int, int] = {}
        metadata = await self.source.metadata([topic.source])
        for number in topic.partitions:
            leader = metadata.topics[topic.source].partitions[number].leader
            connection = await self.source.connection(leader, "control")
            partition = TopicPartition(topic.source, number)
            starts[number] = (await requests.list_offsets(connection, [partition], EARLIEST))[partition]
        return starts
