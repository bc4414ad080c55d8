"""The source side of one lane within one claim: fetches from each leader and passes the records on in order.

Rules:
- Two readers per broker, each on a connection of its own, because a broker answers one connection in order: the long poll
  waits at the broker for partitions whose end was reached (`long_poll_reader`); the backlog reader never waits and
  pipelines its requests through partitions that are behind (`backlog_reader`). A partition is in exactly one of them.
- A source that does not answer ends nothing: the loops reconnect, and what was fetched is still sent. It counts as
  reachable again when every broker that leads a partition of the lane has answered.
- A partition without a leader is `OfflinePartition` and is read again as soon as it has one; the others continue meanwhile.
- A leader is not believed for longer than `LEADERS_S` that it leads: one that lost its controllers does not know better.
- Retention beyond the position is an event and, by the flow's policy, a `SourceLoss` journal entry and a jump (continue), a
  parked partition (park) or the worker's end (fail). A log that ends below the position is a `SourceTruncated`. Never a
  silent jump.
- A partition of a topic without an ID is compared with its mirror before it is read, whenever the readers are set up; others
  once for each connection to their leader: a log is exchanged for an older one only while its broker does not run. What was
  read before is delivered first, so that the last mirrored record is the last one that was read.
- A corrupt batch or a re-created topic parks that partition alone.
- With `client.rack` a partition may be read from a follower (`read_replica`): by readers of their own, beside those at the
  leaders. Their end sends the partitions back to their leaders and is no event.
Longer than most modules: the readers of a claim are set up, moved and ended by one state.
Not for: sending, that is `drlib.mirror.engine.lane.produce_loop`.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from drlib import clock
from drlib.errors import DrlibError, Unreachable, first_error
from drlib.kafka.net import requests
from drlib.kafka.net.api_versions import UnsupportedRequest
from drlib.kafka.net.cluster_client import WrongCluster
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol.error_codes import LEADER_NOT_AVAILABLE, TOPIC_AUTHORIZATION_FAILED, BrokerError, raise_for
from drlib.kafka.protocol.fetch import FetchedPartition, FetchPartition, TopicId
from drlib.kafka.security.errors import SecurityFault
from drlib.mirror.engine.fetch.backlog_reader import BacklogReader
from drlib.mirror.engine.fetch.context import LaneContext
from drlib.mirror.engine.fetch.fetch_response import (
    LEADER_MOVED,
    FetchResponseHandler,
    LeaderMoved,
    PartitionFetch,
    Sink,
    SourceBroker,
)
from drlib.mirror.engine.fetch.long_poll_reader import LongPoll
from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.engine.fetch.read_replica import SILENT_S, ReplicaChoice, leader_decides
from drlib.mirror.engine.fetch.round_trip_time import wait_for_response
from drlib.mirror.engine.identity.compare import AS_MIRRORED, MOST_S, compare, went_back
from drlib.mirror.engine.identity.evidence import PURPOSE, Question
from drlib.mirror.engine.identity.rules import Verdict
from drlib.mirror.errors import LaneFault, TopicsJudged, no_answer
from drlib.mirror.journal.entries import SourceTruncated
from drlib.mirror.journal.leader_epochs import UNKNOWN_EPOCH
from drlib.mirror.offsets.map.journal_log import LaneJournal
from drlib.mirror.read_batches import concurrently, locate
from drlib.model import TopicPartition

NO_ANSWER: Final = (Unreachable, UnsupportedRequest, SecurityFault, BrokerError, TimeoutError, OSError)
LEADER_POLL_S = 1.0  # between two lookups of a partition without a leader
LEADERS_S = 30.0  # between two lookups of leaders that answer
_READABLE: Final = frozenset({Verdict.SAME, Verdict.OPEN})
_OF_TOPIC: Final = frozenset({"SourceUnauthorized"})
REPLICA_POLL_S: Final = 0.25  # between two looks at the followers that are read


@dataclass(slots=True, eq=False)
class _Readers:
    """The readers of the lane at one broker; `connections` are those to a follower, once it has answered."""

    broker: SourceBroker
    long_poll: LongPoll
    backlog: BacklogReader
    connections: Sequence[Connection] = ()


@dataclass(slots=True, eq=False)
class _Read:
    """How one partition is read at the moment."""

    fetch: PartitionFetch
    readers: _Readers
    choice: ReplicaChoice


@dataclass(slots=True, eq=False)
class _Reading:
    """The readers at all brokers, from one lookup of the leaders to the next."""

    group: asyncio.TaskGroup
    leaders: dict[int, _Readers] = field(default_factory=dict)
    followers: dict[int, _Readers] = field(default_factory=dict)
    reads: dict[tuple[TopicId, int], _Read] = field(default_factory=dict)

    @property
    def ready(self) -> dict[int, _Readers]:
        """The followers that have answered."""
        return {node: readers for node, readers in self.followers.items() if readers.connections}


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
        self._ended = False
        self._added = asyncio.Event()
        self._compared: dict[PartitionStream, Connection] = {}
        self._undelivered: list[PartitionStream] = []  # to be compared once what was read of them is delivered

    def add(self, streams: Iterable[PartitionStream]) -> None:
        """Read these too, from their positions on: they join the claim, or are no longer parked."""
        self.streams = list(dict.fromkeys((*self.streams, *streams)))
        self._added.set()

    def parked(self, stream: PartitionStream) -> None:
        """Nothing is requested of this one any more: end what is reported of it."""
        self.handler.end_stall(stream)

    def drain(self) -> None:
        """Send no more fetch requests."""
        self._draining.set()

    def room(self) -> None:
        """Wake the backlog readers: a queue became shorter."""
        for backlog in self._backlogs:
            backlog.wake()

    async def run(self) -> None:
        """Read from every leader; the readers are set up again whenever leaders move or the source comes back."""
        reading = asyncio.create_task(self._read_until_drained())
        try:
            await asyncio.wait({reading})
            reading.result()
            await asyncio.Event().wait()  # the senders decide when draining is complete
        except BaseExceptionGroup as errors:  # of the readers: the lane decides by the error itself
            raise first_error(errors) from errors
        finally:
            self._ended = (
                True  # a task group whose task is cancelled while one of its own fails forgets the cancellation
            )
            reading.cancel()
            try:
                await asyncio.gather(reading, return_exceptions=True)
            finally:
                self.events.resolve("SourceUnreachable", self.lane)  # the end of this fetcher ends its observation
                self._report_offline(())
                self.handler.end_stalls()

    async def _read_until_drained(self) -> None:
        delay = 0.05
        while not (self._draining.is_set() or self._ended):
            try:
                self._added.clear()
                by_node = await self._same_history(await self._proven(await self._leaders()))
                delay = 0.05 if by_node else delay
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._wait_for_responses(by_node))
                    if by_node:
                        group.create_task(self._wait_for_added())
                        group.create_task(self._watch_leaders(by_node))
                    if by_node and self._undelivered:
                        group.create_task(self._wait_for_delivered())
                    reading = _Reading(group)
                    for node, streams in by_node.items():
                        self._read_from(reading, node, streams)
                    if by_node and self.context.rack:
                        group.create_task(self._choose_replicas(reading))
                        group.create_task(self._watch_followers(reading))
            except* (LeaderMoved, WrongCluster) as moved:
                release(moved)  # `cluster_watch` reports another cluster at these addresses
            except* NO_ANSWER as errors:
                release(errors)
                detail, remedy = no_answer(errors)
                self.events.open("SourceUnreachable", self.lane, detail, remedy=remedy)
            finally:
                for stream in self.streams:
                    stream.ahead.clear()  # the next reader requests it again
            self._backlogs.clear()
            await asyncio.sleep(delay)  # leaders move, or are not elected yet: look them up again, with back-off
            delay = min(2.0, delay * 2)

    async def _wait_for_responses(self, nodes: Iterable[int]) -> None:
        """Resolve `SourceUnreachable` once every leader has answered: a kernel may accept a connection without a broker."""
        for node in nodes:
            await wait_for_response(self.source, node)
        self.events.resolve("SourceUnreachable", self.lane)

    def _readers(self, node: int, *, follower: bool) -> _Readers:
        broker = SourceBroker(self.context, self.memory, node, self.lane, self.handler, self._draining, follower)
        long_poll = LongPoll(broker)
        backlog = BacklogReader(broker, caught_up=long_poll.add)
        self._backlogs.append(backlog)
        return _Readers(broker, long_poll, backlog)

    def _read_from(self, reading: _Reading, node: int, streams: Sequence[PartitionStream]) -> None:
        readers = reading.leaders[node] = self._readers(node, follower=False)
        for stream in streams:
            fetch = PartitionFetch(stream)
            readers.long_poll.add(fetch)
            key = (stream.key.topic_id, stream.key.partition)
            reading.reads[key] = _Read(fetch, readers, ReplicaChoice(node, node))
        reading.group.create_task(readers.long_poll.run(fell_behind=readers.backlog.add))
        reading.group.create_task(readers.backlog.run())

    # -- reading from followers --------------------------------------------------------------------------------------

    async def _choose_replicas(self, reading: _Reading) -> None:
        """Ask the leaders now and then which replica to read.

        Raises `LeaderMoved`, `Unreachable` or `BrokerError`, in a group, where a leader does not answer.
        """
        while not self._draining.is_set():
            now = time.monotonic()
            due: dict[int, list[_Read]] = defaultdict(list)
            for read in reading.reads.values():
                stream = read.fetch.stream
                if read.choice.ask_at <= now and not (stream.parked or stream.unproven) and stream.responses:
                    due[read.choice.leader].append(read)
            async with asyncio.TaskGroup() as asking:
                for leader, reads in due.items():
                    asking.create_task(self._ask(reading, leader, reads))
            await asyncio.sleep(REPLICA_POLL_S)

    async def _watch_followers(self, reading: _Reading) -> None:
        """End the connections to followers that fell silent, so that their leaders are read instead."""
        while not self._draining.is_set():
            now = asyncio.get_running_loop().time()
            for connection in [c for readers in reading.ready.values() for c in readers.connections]:
                if connection.silent_s(now) > SILENT_S:
                    connection.end(f"it was silent for {SILENT_S:g} s; the leader is read instead")
            await asyncio.sleep(REPLICA_POLL_S)

    async def _ask(self, reading: _Reading, leader: int, reads: Sequence[_Read]) -> None:
        """Ask a leader with the rack: where its log begins and ends, and which replica to read."""
        connection = await self.source.connection(leader, f"replica-{self.lane}")
        streams = [read.fetch.stream for read in reads]
        wanted = [
            FetchPartition(s.source.topic, s.key.topic_id, s.key.partition, s.position, 1, s.epoch) for s in streams
        ]
        response = await requests.fetch_future(
            connection, wanted, max_wait_ms=0, min_bytes=0, max_bytes=1, read_committed=True, rack=self.context.rack
        )
        raise_for(response.error_code, f"fetching from {connection.peer}")
        for answer in response.partitions:
            read = reading.reads.get((answer.topic_id, answer.partition))
            if read is not None and not read.fetch.stream.parked and not read.fetch.deciding:
                self._obey(reading, read, answer)

    def _obey(self, reading: _Reading, read: _Read, answer: FetchedPartition) -> None:
        """Read a partition where its leader says. Raises `LeaderMoved` when another broker leads it."""
        if answer.error_code in LEADER_MOVED:
            raise LeaderMoved
        stream, choice, now = read.fetch.stream, read.choice, time.monotonic()
        if choice.at_follower and not leader_decides(answer):
            stream.observe(answer)
        wanted = choice.answered(answer, now, ready=reading.ready)
        if wanted != choice.leader and wanted not in reading.followers:
            reading.followers[wanted] = self._readers(wanted, follower=True)
            reading.group.create_task(self._follow(reading, wanted))
        end = answer.last_stable_offset if answer.last_stable_offset >= 0 else answer.high_watermark
        if choice.is_behind(stream.position, end, now, held_up=read.fetch.full or not self.memory.has_room()):
            choice.failed(now)
        self._move(reading, read)

    def _move(self, reading: _Reading, read: _Read) -> None:
        """Read a partition at the broker that was chosen, from its position on."""
        choice = read.choice
        readers = reading.followers[choice.node] if choice.at_follower else reading.leaders[choice.leader]
        if readers is read.readers:
            return
        read.fetch.leave()
        read.readers.long_poll.remove(read.fetch)
        read.readers.backlog.remove(read.fetch)
        read.readers, read.fetch = readers, PartitionFetch(read.fetch.stream)
        if choice.at_follower:
            read.fetch.to_leader = partial(self._return, reading, read)
        readers.long_poll.add(read.fetch)

    def _return(self, reading: _Reading, read: _Read) -> None:
        """Read a partition from its leader again: what the follower answered, if it did, decides nothing."""
        read.choice.failed(time.monotonic())
        self._move(reading, read)

    async def _follow(self, reading: _Reading, node: int) -> None:
        """Read from a follower once it answers. Its end is no event: its partitions go back to their leaders."""
        readers = reading.followers[node]
        try:
            await wait_for_response(self.source, node)
            tail, fetch = await readers.broker.connection("tail"), await readers.broker.connection("fetch")
            readers.connections = (tail, fetch)
            async with asyncio.TaskGroup() as group:
                group.create_task(readers.long_poll.run(fell_behind=readers.backlog.add))
                group.create_task(readers.backlog.run())
        except* (WrongCluster, *NO_ANSWER) as errors:
            release(errors)
            self._abandon(reading, node)

    def _abandon(self, reading: _Reading, node: int) -> None:
        """Give a follower's partitions back to their leaders, and read nothing there for a while."""
        readers = reading.followers.pop(node)
        self._backlogs.remove(readers.backlog)
        for connection in readers.connections:
            connection.close(abort=True)
        for read in reading.reads.values():
            if read.choice.leader != node:
                read.choice.avoid(node, time.monotonic())
            if read.readers is readers:
                self._return(reading, read)

    async def _wait_for_added(self) -> None:
        """Raises `LeaderMoved` once there are streams to read that no reader has."""
        await self._added.wait()
        raise LeaderMoved

    async def _watch_leaders(self, by_node: Mapping[int, Sequence[PartitionStream]]) -> None:
        """Raises `LeaderMoved` once another broker leads a partition, none does, or one does again: where a former leader has
        lost its controllers it does not know, and continues to answer that there is nothing new."""
        read = {stream: node for node, streams in by_node.items() for stream in streams}
        before = frozenset(self._offline)
        while True:
            await asyncio.sleep(LEADER_POLL_S if before else LEADERS_S)
            try:
                found = await self._leaders()
            except NO_ANSWER:
                continue  # the readers find out for themselves
            if self._offline != before or any(
                read.get(s, node) != node for node, those in found.items() for s in those
            ):
                raise LeaderMoved

    def _report_offline(self, partitions: Iterable[str]) -> None:
        now = set(partitions)
        for partition in now:
            detail = f"{partition} has no leader on the source; its next records wait there"
            self.events.open("OfflinePartition", partition, detail)
        for partition in self._offline - now:
            self.events.resolve("OfflinePartition", partition)
        self._offline = now

    async def _proven(self, by_node: dict[int, list[PartitionStream]]) -> dict[int, list[PartitionStream]]:
        """The streams that may be read: those of topics without an ID once their logs show that they are the ones read before.

        Ends the claim where a topic is another one, or has got an ID; parks a partition where that is not known.
        """
        asked = {stream: node for node, streams in by_node.items() for stream in streams if stream.unproven}
        if not asked:
            return by_node
        questions = [_question(stream, node) for stream, node in asked.items()]
        try:
            judgements = await compare(self.source, self.context.target, questions)
        except BrokerError as error:
            if error.code in LEADER_MOVED:
                raise LeaderMoved from error
            raise
        found = dict(zip(asked, judgements, strict=True))
        recreated: dict[str, TopicId] = {}
        same: dict[TopicId, TopicId] = {}
        # A partition that was not asked, or says nothing, may belong to a topic that was re-created.
        undecided = {s.key.topic_id for s in self.streams if s.unproven and s not in found}
        undecided |= {s.key.topic_id for s, judged in found.items() if judged.verdict is Verdict.UNKNOWN}
        for stream, judged in found.items():
            made, real = stream.key.topic_id, stream.real_id
            if judged.verdict is Verdict.RECREATED:
                recreated[stream.source.topic] = made
            elif judged.verdict in _READABLE:
                stream.proof = judged.proof
                if real is not None and (judged.verdict is Verdict.SAME or made not in undecided):
                    same[made] = real
            else:
                if judged.verdict is Verdict.REPLACED:
                    lost = SourceTruncated(stream.key, judged.log_start, stream.position, clock.now_ms())
                    await self.handler.journal.append([lost])
                self.sink.park(
                    stream, judged.why, judged.event, stream.source.topic if judged.event in _OF_TOPIC else ""
                )
        if recreated or same:
            self.sink.fail(TopicsJudged(self.lane, recreated, same))
            return {}
        readable = {s for s, judged in found.items() if judged.verdict in _READABLE and s.real_id is None}
        kept = {node: [s for s in streams if s not in asked or s in readable] for node, streams in by_node.items()}
        return {node: streams for node, streams in kept.items() if streams}

    async def _same_history(self, by_node: dict[int, list[PartitionStream]]) -> dict[int, list[PartitionStream]]:
        """The streams that may be read: a partition is parked for good whose log has other records than were mirrored, and one
        that has to be compared waits until what was read of it is delivered. Ends the claim where a mirror has no leader that
        answers: the next one leaves it out, and compares it before it is read on."""
        mirrored = {
            node: mine
            for node, streams in by_node.items()
            if (mine := [s for s in streams if not s.unproven and s.target_id is not None and len(s.map.segments())])
        }
        asked: dict[PartitionStream, Connection] = {}
        questions: list[Question] = []
        self._undelivered = []
        for node, connection in zip(mirrored, await concurrently(list(mirrored), self._to_compare), strict=True):
            if connection is None:
                continue
            for stream in mirrored[node]:
                if self._compared.get(stream) is connection:
                    continue
                if stream.idle:
                    asked[stream] = connection
                    questions.append(_question(stream, node))
                else:
                    self._undelivered.append(stream)
        found = await went_back(self.source, self.context.target, questions) if questions else []
        missed = [stream.target for stream, first in zip(asked, found, strict=True) if first is None]
        silent = [
            p for p, answers in zip(missed, await concurrently(missed, self._answers), strict=True) if not answers
        ]
        if silent:
            why = f"{silent[0]} has no leader that answers, and its records have to be compared before more are read"
            self.sink.fail(LaneFault(self.lane, why))
            return {}
        for (stream, connection), first in zip(asked.items(), found, strict=True):
            if first is not None:
                self._compared[stream] = connection
            if first is None or first == AS_MIRRORED or stream.parked:
                continue
            await self.handler.journal.append([SourceTruncated(stream.key, first, stream.position, clock.now_ms())])
            epoch = "" if stream.epoch == UNKNOWN_EPOCH else f" under leader epoch {stream.epoch}"
            why = (
                f"offsets {first} to {stream.position - 1} were mirrored{epoch}, and the source's log does not have these "
                "records now: an unclean leader election, or an older copy of its disks, removed what had been read"
            )
            self.sink.park(stream, why, "SourceTruncated")
        left_out = {*self._undelivered}
        kept = {node: [s for s in streams if not (s.parked or s in left_out)] for node, streams in by_node.items()}
        return {node: streams for node, streams in kept.items() if streams}

    async def _answers(self, mirror: TopicPartition) -> bool:
        """Has the mirror partition a leader that can be connected to? What takes too long is not known not to."""
        target = self.context.target
        try:
            async with asyncio.timeout(MOST_S):
                await target.connection((await locate(target, mirror))[1], PURPOSE)
        except BrokerError as error:
            return error.code != LEADER_NOT_AVAILABLE
        except TimeoutError:
            return True
        except (DrlibError, OSError):
            return False
        return True

    async def _wait_for_delivered(self) -> None:
        """Raises `LeaderMoved` once a partition can be compared, as what was read of it before is delivered."""
        while True:
            await asyncio.sleep(REPLICA_POLL_S)
            if any(stream.idle for stream in self._undelivered):
                raise LeaderMoved

    async def _to_compare(self, node: int) -> Connection | None:
        """None where it does not answer: its readers say so, and those of other leaders do not wait for it."""
        try:
            async with asyncio.timeout(MOST_S):
                return await self.source.connection(node, PURPOSE)
        except (DrlibError, TimeoutError, OSError):
            return None

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


def _question(stream: PartitionStream, node: int) -> Question:
    read_here, mirrored = stream.proof is not None, len(stream.map.segments()) > 0
    read = [epoch for epoch, first in stream.epochs.items() if first < stream.position]
    return Question(
        source=stream.source,
        topic_id=stream.real_id or stream.key.topic_id,
        node=node,
        target=stream.target,
        target_id=stream.target_id,
        map=stream.map,
        position=stream.position if read_here else (stream.map.position or 0) if mirrored else 0,
        read_epoch=max(read, default=UNKNOWN_EPOCH),
        proof=stream.proof,
    )


def release(errors: BaseExceptionGroup[BaseException]) -> None:
    """Drop what the frames of handled `errors` refer to, such as a response and its bytes: a group of errors is part of a
    cycle (`TaskGroup.__aexit__` of Python 3.11), so that it would live on until the garbage collector runs.

    The frames are not cleared: that closes coroutines which the same error ends, and which wait while they end.
    """
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            release(error)
        link: BaseException | None = error
        while link is not None and link.__traceback__ is not None:
            link.__traceback__ = None
            link = link.__cause__ or link.__context__
