"""One lane: claim, recover, copy; claimed again after a fault, until it is stopped or another worker owns it.

Rules:
- The states and their transitions are the table `state.MOVES`.
- Every doubt leads through `CLAIMING`: a new epoch, a fence, and the log itself says which of our records were appended.
- What recovery finds is journaled before the first new batch.
- Acknowledgements are journaled once a second. The next claim of the same worker knows the later ones too, so that a target
  that lost what it had acknowledged is noticed, however late.
- Claims back off exponentially, because each one costs an epoch. Before epochs run out the lane moves to a new
  transactional ID: claim and fence under the old one, journal the next generation, continue under the new one.
- A lane that was lost is claimed again only if the group still assigns it to us a whole session later.
- A mirror topic that was deleted or re-created, whose log contradicts the journal, or that the target does not let us
  write, is parked by name and left out of the claim; the others continue, and it is checked again. What former claims wrote
  there is counted by the claim that fences it, and by no other. One that is gone is filled again by a new claim, where
  `remirror` finds permission for it.
- So is a mirror partition that is missing, has no leader or too few replicas in sync: a marker for it would hold up the whole
  claim. One that is missing, and was not in the journal, is asked for.
- What lies below both log starts is dropped from maps and journal at each claim, and while it copies (`find_expired`); where
  the maps have too many stretches nevertheless, the oldest are thinned out (`find_thinned`). Of what the claim read, only the
  entries of partitions that it left out are kept, for when they join.
- A source topic whose log, and not an ID of Kafka, shows which one it is gets the ID of the journal; what its comparison with
  the mirror shows (`TopicsJudged`) is journaled by the next claim, before anything of the topic is copied.
- What was left out, and what is new, joins the running claim when it can: marked at the claim's own epoch, counted, copied.
  What was parked in the claim is resumed. The other partitions are neither drained nor marked for it.
Longer than most modules: a claim is one sequence, and splitting it would hide its order.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from drlib.errors import DrlibError, Unreachable
from drlib.kafka.net.api_versions import UnsupportedRequest
from drlib.kafka.net.cluster_client import ClusterMetadata, WrongCluster
from drlib.kafka.protocol.error_codes import AUTHORIZATION, TOPIC_AUTHORIZATION_FAILED, BrokerError
from drlib.kafka.security.errors import SecurityFault
from drlib.mirror.engine.fencing.claim import claim
from drlib.mirror.engine.fetch.context import LaneContext
from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.engine.lane.parked_partitions import ParkedPartitions
from drlib.mirror.engine.lane.produce_loop import Observer, ProduceLoop
from drlib.mirror.engine.lane.remirror import RemirrorRequests, empty_recreated_mirrors, may_fill_again
from drlib.mirror.engine.lane.start_claim import ClaimStart, RecoveryInput
from drlib.mirror.engine.lane.start_position import counts_at_start, other_lanes, start_of_new
from drlib.mirror.engine.lane.state import MOVES, LaneState
from drlib.mirror.engine.lane.topics import (
    TOPICS_POLL_S,
    LaneTopic,
    find_expired,
    find_thinned,
    gone_topics,
    identified,
    journaled_mirrors,
    mirrors_with_data,
    only_adds,
    recreated_mirrors,
    size_limits,
    source_starts,
    unavailable_mirrors,
)
from drlib.mirror.errors import (
    ClaimAgain,
    JournalLost,
    LaneFault,
    LaneLost,
    MirrorMissing,
    MirrorTopicRecreated,
    MirrorUnauthorized,
    MirrorUnavailable,
    RecordsUnexplained,
    TopicsJudged,
)
from drlib.mirror.failpoints import hit
from drlib.mirror.journal.entries import (
    Ack,
    Claim,
    ClaimId,
    Clusters,
    CommittedTransactions,
    Entry,
    Expired,
    Incarnation,
    JournalCorrupt,
    Producers,
    ProducersKnown,
    Remirrored,
    Run,
    Sealed,
    Shared,
    SourcePartition,
    Thinned,
    TopicIdentified,
    TopicNames,
)
from drlib.mirror.journal.renamed import identified as identified_in
from drlib.mirror.journal.renamed import renamed
from drlib.mirror.mm2.takeover import TakeoverReader
from drlib.mirror.offsets.map.fold_claims import ChunkEnds, about_topics, fold, valid_entries
from drlib.mirror.offsets.map.journal_log import JournalRead, LaneJournal, Written, read_through
from drlib.mirror.offsets.map.load_maps import FencedLogs, build_maps, content_agrees, recreated_in, source_log_end
from drlib.mirror.preflight.checks import Grants
from drlib.mirror.read_batches import LogEnds, locate, log_ends, never_written
from drlib.model import TopicPartition

FIRST_BACKOFF_S = 0.1
LONGEST_BACKOFF_S = 10.0
BACKOFF_RESET_S = 30.0  # a claim that lasted this long resets the back-off
LONGEST_LOOK_S = 30.0  # between two looks whether a mirror topic that may be filled again is empty
JOIN_PAUSES_S = (0.1, 0.2, 0.4, 0.8, 1.6)  # a leader learns of a new partition within a second


@dataclass(frozen=True, slots=True)
class Housekeeping:
    """When a lane compacts its journal and renews its transactional ID."""

    rotate_at_epoch: int = 30_000  # of 32,767: the rest is for claimants that race while the lane moves on
    fold_at: int = 1000  # superseded entries of one partition, or of all, before they are folded
    claim_at: int = 200_000  # promises and placements in one claim before a new claim makes them old ones
    expire_at: int = 200  # stretches of a partition below both log starts before they are dropped
    expire_s: float = 60.0  # between two looks for them
    most_stretches: int = 4_000_000  # in the maps of a lane, 128 MB, before the oldest are thinned out


@dataclass(frozen=True, slots=True)
class _TakenLane:
    """A lane behind its fence. `journal`: as read there, `entries`: those that are valid, with `acks`, which the journal lacks;
    `excluded`: mirror topics that are not copied to, and why."""

    claim: ClaimId
    journal: JournalRead
    entries: Sequence[Entry]
    acks: Sequence[Ack]
    remirrored: Sequence[Remirrored]
    recreated: Mapping[str, MirrorTopicRecreated]
    excluded: Mapping[str, DrlibError]
    unavailable: Mapping[TopicPartition, MirrorUnavailable]  # mirror partitions that are left out


@dataclass(slots=True, eq=False)
class _RunningClaim:
    """A claim that copies: what partitions join. `one_at_a_time`: a join or a resumption."""

    taken: _TakenLane
    journal: LaneJournal
    loop: ProduceLoop
    covers: set[TopicPartition]  # source partitions of the claim, also those left out
    recreated: set[str]  # mirror topics that are left out because they are not the journaled ones
    chunks: ChunkEnds
    added: asyncio.Event = field(default_factory=asyncio.Event)
    one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(kw_only=True, eq=False)
class Lane:
    """Runs one lane. `name` is the prefix of its transactional IDs (a generation follows) and reports its events."""

    name: str
    journal_partition: TopicPartition
    topics: tuple[LaneTopic, ...]
    context: LaneContext
    observer: Observer
    takeover: TakeoverReader
    worker: str  # as named in the journal's claims
    housekeeping: Housekeeping = field(default_factory=Housekeeping)
    grants: Grants | None = None
    parked: ParkedPartitions = field(init=False)
    generation: int = 0
    state: LaneState = LaneState.CLAIMING
    claim_id: ClaimId | None = None
    streams: tuple[PartitionStream, ...] = ()
    committed: Sequence[CommittedTransactions] = ()  # of the source, as the claim found them in the journal
    producers: Sequence[Producers | ProducersKnown] = ()  # the same; who keeps them takes them
    _running: _RunningClaim | None = None
    _stopping: bool = False
    _reassigned: bool = False
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _written: Written | None = None  # what this worker knows to be in the journal
    _leaders_seen: dict[TopicPartition, int] = field(default_factory=dict)  # leader epochs of mirrors at the last claim
    _names: dict[uuid.UUID, TopicNames] | None = None  # as last read from the journal; None before the first read
    _requests: RemirrorRequests = field(init=False)
    _void: dict[str, uuid.UUID] = field(
        default_factory=dict
    )  # source topic -> journaled ID whose topic is known to be gone
    _real: dict[uuid.UUID, uuid.UUID] = field(
        default_factory=dict
    )  # made IDs, and what the source calls their topics now

    def __post_init__(self) -> None:
        self._requests = RemirrorRequests(self.journal_partition)
        remedy = self.grants.topic if self.grants is not None else None
        self.parked = ParkedPartitions(self.context.events, self.name, remedy)

    @property
    def transactional_id(self) -> str:
        return f"{self.name}.{self.generation}"

    async def run(self) -> None:
        """Own the lane until `stop`; returns when it is stopped or lost."""
        try:
            await self._claim_loop()
        finally:
            self.context.events.retract(self.name)  # the next owner reports for the lane, of its loss too

    async def _claim_loop(self) -> None:
        events, membership = self.context.events, self.context.membership
        backoff = FIRST_BACKOFF_S
        while not self._stopping:
            await self._wait_for_ownership()
            if self._stopping:
                break
            began = time.monotonic()
            try:
                await self._run_claim()
                if self._reassigned and not self._stopping:
                    self._move(LaneState.CLAIMING)
                    continue
                break
            except LaneLost as lost:
                events.open("LaneLost", self.name, str(lost))
                self._move(LaneState.LOST)
                # A worker that the group gave the lane to keeps it, and then `stop` is called here. A claimant that the
                # group had already removed when it claimed will never use the lane: then it is ours again.
                await self._pause(membership.session_timeout_ms / 1000)
                await self._wait_for_ownership()
                if not self._stopping:
                    self._move(LaneState.CLAIMING)
                continue
            except TopicsJudged as judged:
                hit("topics-judged")
                self._void |= judged.recreated
                self._real |= judged.identified
            except ClaimAgain:
                pass
            except WrongCluster:
                pass  # `cluster_watch` reports it; the lane continues when the right cluster answers
            except (UnsupportedRequest, SecurityFault) as unusable:  # until it is upgraded or lets us in
                events.open("LaneFault", self.name, f"{unusable.what}: {unusable.why}", remedy=unusable.remedy)
            except (LaneFault, Unreachable, BrokerError, TimeoutError, OSError) as error:
                if self._concerns_mirrors_only(error):
                    pass  # unauthorized in the middle of a claim: the next claim leaves the topic out and reports it
                elif isinstance(error, BrokerError) and error.code in AUTHORIZATION:
                    events.open("LaneUnauthorized", self.name, str(self._explain_refusal(error)))
                else:  # whatever a broker answered, the next claim asks again: no answer stops a lane for good
                    events.open("LaneFault", self.name, str(error))
            self._move(LaneState.BACKING_OFF)
            backoff = FIRST_BACKOFF_S if time.monotonic() - began > BACKOFF_RESET_S else backoff
            if not self._stopping:
                await self._pause(backoff)
            backoff = min(LONGEST_BACKOFF_S, backoff * 2)
            if not self._stopping:
                self._move(LaneState.CLAIMING)
        self.parked.retain(())
        self._move(LaneState.STOPPED)

    def _explain_refusal(self, error: BrokerError) -> DrlibError:
        """An authorization failure of the whole lane, with the command that grants the right."""
        if self.grants is None:
            return error
        return self.grants.refused(error, self.journal_partition.topic)

    def _concerns_mirrors_only(self, error: BaseException) -> bool:
        """Does the target deny access to mirror topics of this lane and nothing else?"""
        mirrors = {topic.target for topic in self.topics}
        if not isinstance(error, BrokerError) or error.code != TOPIC_AUTHORIZATION_FAILED:
            return False
        return bool(error.topics) and mirrors.issuperset(error.topics)

    def stop(self) -> None:
        """Drain and end."""
        self._stopping = True
        self._wake.set()
        if self._running is not None:
            self._running.loop.drain()

    def stop_topic(self, topic: str, reason: str) -> None:
        """Copy nothing of a source topic any more, which another replicator copies back."""
        if self._running is not None:
            self._running.loop.stop_topic(topic, reason)

    def reassign(self, topics: Sequence[LaneTopic]) -> None:
        """Continue with another set of partitions: new ones join; to be without others, drain and claim again."""
        before, self.topics = self.topics, tuple(topics)
        if self._running is None:
            return  # the next claim has them, and the one that begins compares them once it copies
        if self._running.loop.running and only_adds(before, self.topics):
            self._running.added.set()
        else:
            self._claim_again()

    def _claim_again(self) -> None:
        """Drain, then claim again over all partitions."""
        self._reassigned = True
        if self._running is not None:
            self._running.loop.drain()

    async def journal_beside(self, entries: Sequence[Entry]) -> bool:
        """Journal findings about what is mirrored already, under the running claim; False where none copies.

        Raises `LaneFault` or `LaneLost` as the claim itself, which ends with it.
        """
        running = self._running
        if running is None or not running.loop.running:
            return False
        await asyncio.shield(running.loop.watch(running.journal.begin(entries)))
        return True

    async def _wait_for_ownership(self) -> None:
        """Wait until a heartbeat confirms that the lane is ours to claim, or until `stop`."""
        while not self._stopping and not self.context.membership.may_send():
            await self._pause(0.1)

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

    async def _run_claim(self) -> None:
        """One claim: take the lane, recover behind the fence, copy until drained."""
        topics, self._reassigned = self.topics, False
        taken = await self._take_lane(topics)
        self._move(LaneState.RECOVERING)
        log, journal, streams, chunks, left = await self._recover(self._identified(topics), taken)
        taken = replace(taken, entries=left, journal=replace(taken.journal, entries=()))
        self._move(LaneState.RUNNING)
        loop = ProduceLoop(self.context, journal, streams, self.observer, self.parked)
        covers = {TopicPartition(t.source, number) for t in topics for number in t.partitions}
        running = self._running = _RunningClaim(taken, journal, loop, covers, set(taken.recreated), chunks)
        beside = [
            loop.watch(asyncio.create_task(self._watch_mirror_topics(running))),
            *(
                loop.watch(asyncio.create_task(self._beside(running, repeat)))
                for repeat in (self._join_added, self._retry_parked, self._retry_unavailable, self._drop_old)
            ),
        ]
        try:
            if self._stopping or self._reassigned:
                loop.drain()
            elif self.topics != topics and only_adds(topics, self.topics):  # reassigned while it was claimed
                running.added.set()
            elif self.topics != topics:
                self._claim_again()
            await loop.run(log)
            self._move(LaneState.DRAINING)
        finally:
            self._running = None
            self._written = journal.written
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            for purpose in (*loop.purposes, f"journal-{self.transactional_id}"):
                await self.context.target.drop(purpose)

    # -- beside the copy: partitions that join or resume -----------------------------------------------------------

    async def _beside(self, running: _RunningClaim, repeat: Callable[[_RunningClaim], Awaitable[None]]) -> None:
        """Repeat a task of the claim until it is cancelled."""
        while True:
            await repeat(running)

    async def _join_added(self, running: _RunningClaim) -> None:
        """Let partitions join that the claim does not cover, when `reassign` added some."""
        await running.added.wait()
        running.added.clear()
        new = [
            replace(topic, partitions=numbers)
            for topic in self.topics
            if (numbers := tuple(n for n in topic.partitions if TopicPartition(topic.source, n) not in running.covers))
        ]
        async with running.one_at_a_time:
            await self._join_once_led(running, new)

    async def _retry_parked(self, running: _RunningClaim) -> None:
        """Try parked partitions again, when they are due."""
        await self.parked.wait_for_retry()
        await self._try_again(running, self.parked.may_retry)

    async def _retry_unavailable(self, running: _RunningClaim) -> None:
        """Take up mirror partitions that have a leader and enough replicas again."""
        await asyncio.sleep(TOPICS_POLL_S)
        await self._try_again(running, self.parked.is_unavailable)

    async def _drop_old(self, running: _RunningClaim) -> None:
        """Drop what lies below both log starts by now, and thin out the oldest stretches where there are too many."""
        await asyncio.sleep(self.housekeeping.expire_s)
        streams = [stream for stream in self.streams if not stream.parked]
        starts = {stream.source: stream.log_start for stream in streams}
        expired: list[Expired] = []
        with contextlib.suppress(DrlibError, TimeoutError, OSError):  # no answer: the produce loop reports it
            expired = await find_expired(self.context.target, streams, starts, self.housekeeping.expire_at)
        if not running.loop.running:
            return
        maps = {stream.key: stream.map for stream in streams}
        if expired:
            await running.journal.append(expired)
        for entry in expired:
            maps[entry.partition].apply(entry)
        thinned = await self._thin(running.journal, streams)
        await _forget(running.journal, running.chunks.take_covered([*expired, *thinned]))

    async def _thin(self, journal: LaneJournal, streams: Sequence[PartitionStream]) -> list[Thinned]:
        """Thin out the oldest stretches where the maps of a lane have too many; what was journaled."""
        thinned = find_thinned(streams, self.housekeeping.most_stretches)
        if thinned:
            await journal.append(thinned)
        maps = {stream.key: stream.map for stream in streams}
        for entry in thinned:
            maps[entry.partition].apply(entry)
        return thinned

    async def _try_again(self, running: _RunningClaim, due: Callable[[TopicPartition], bool]) -> None:
        """Resume the parked partitions that are `due` and let those join that the claim had left out."""
        async with running.one_at_a_time:
            parked = [stream for stream in self.streams if stream.parked and due(stream.source)]
            try:
                parked = await self._without_gone(parked)
                if not parked:
                    return
                bad = await self._look_for_unavailable({stream.target for stream in parked})
            except (DrlibError, TimeoutError, OSError):
                return  # a cluster does not answer: the produce loop or the fetcher reports it
            by_topic: dict[str, list[PartitionStream]] = defaultdict(list)
            for stream in parked:
                if stream.target not in bad and running.loop.running:
                    by_topic[stream.source.topic].append(stream)
            left_out: list[LaneTopic] = []
            copied = set(running.loop.streams)
            for topic in self.topics:
                streams = by_topic[topic.source]
                own = [stream for stream in streams if stream in copied]
                try:
                    await running.loop.resume(own)
                except BrokerError as error:
                    if error.code != TOPIC_AUTHORIZATION_FAILED:
                        raise  # else the right is still missing
                numbers = tuple(stream.source.partition for stream in streams if stream not in copied)
                left_out += [replace(topic, partitions=numbers)] if numbers else []
            await self._join_once_led(running, left_out)

    async def _without_gone(self, parked: Sequence[PartitionStream]) -> list[PartitionStream]:
        """`parked` without the partitions of topics that the source really does not have any more."""
        gone = {stream.source.topic for stream in parked if self.parked.is_gone(stream.source)}
        listed = (await self.context.source.metadata(sorted(gone))).topics if gone else {}
        return [s for s in parked if s.source.topic not in gone or listed[s.source.topic].topic_id == s.key.topic_id]

    async def _join_once_led(self, running: _RunningClaim, topics: Sequence[LaneTopic]) -> None:
        """`_join`, tried again while the leader of a new mirror partition does not know yet that it is."""
        for pause_s in JOIN_PAUSES_S:
            try:
                return await self._join(running, topics)
            except BrokerError as error:
                if not error.retriable:
                    raise
                await asyncio.sleep(pause_s)
        return await self._join(running, topics)

    async def _join(self, running: _RunningClaim, topics: Sequence[LaneTopic]) -> None:
        """Fence, count and copy further partitions within the claim; those that may not be written stay parked."""
        if not topics or not running.loop.running:
            return
        topics = self._identified(topics)
        target, claim_id = self.context.target, running.taken.claim
        recreated = await recreated_mirrors(target, (self._names or {}).values(), topics)
        if await self._to_fill_again(topics, recreated):
            self._claim_again()
            return
        unavailable = await self._unavailable(topics, recreated)
        available = [topic for topic in topics if not unavailable.keys() & _mirrors([topic], ())]
        running.recreated |= recreated.keys()
        excluded: dict[str, DrlibError] = {
            **recreated,
            **await self._unexplained(available, running.taken.recreated),
        }
        while partitions := _by_topic(_mirrors(topics, excluded, unavailable)):
            try:
                await running.loop.markers.fence(partitions)
                break
            except BrokerError as error:
                self._exclude_unauthorized(error, topics, excluded)
        joining = {SourcePartition(topic.topic_id, number) for topic in topics for number in topic.partitions}
        numbers = {topic.target: topic.partitions for topic in topics}
        named = (self._names or {}).values()  # what had the topic's name before is in the mirror, too
        earlier = (SourcePartition(each.topic_id, n) for each in named for n in numbers.get(each.target_topic, ()))
        theirs = {None, *joining, *earlier}
        entries = [e for e in running.taken.entries if getattr(e, "partition", None) in theirs]
        entries += (self._names or {}).values()  # also of topics that the claim has begun
        log, start = await self._plan(topics, claim_id, running.taken.journal, entries, excluded, unavailable)
        new = [
            *start.maps.findings,
            *start.entries,
            *(stream.start(self.context.clock.now_ms()) for stream in start.streams),
        ]
        await running.journal.append(new)
        self._names = {**(self._names or {}), **{e.topic_id: e for e in new if isinstance(e, TopicNames)}}
        running.covers |= {TopicPartition(t.source, number) for t in topics for number in t.partitions}
        start.report(self.parked)
        kept = [stream for stream in self.streams if stream.key not in joining]
        self.streams = (*kept, *start.streams, *start.parked)
        running.loop.add(start.streams, log)
        for stream in start.streams:
            self.observer.progressed(stream)

    # -- claiming ------------------------------------------------------------------------------------------------

    async def _take_lane(self, topics: Sequence[LaneTopic]) -> _TakenLane:
        """Check the mirror topics, then claim and fence those that may be written."""
        target = self.context.target
        if self._names is None:
            self._remember(await read_through(target, self.journal_partition, "read"))
        self.parked.retain({TopicPartition(t.source, n) for t in topics for n in t.partitions})
        recreated = await recreated_mirrors(target, (self._names or {}).values(), topics)
        remirrored = await self._to_fill_again(topics, recreated)
        filled_again = {entry.target_topic for entry in remirrored}
        recreated = {name: why for name, why in recreated.items() if name not in filled_again}
        unavailable = await self._unavailable(topics, recreated)
        available = [topic for topic in topics if not unavailable.keys() & _mirrors([topic], ())]
        excluded: dict[str, DrlibError] = {**recreated, **await self._unexplained(available, recreated)}
        if (down := unavailable.get(self.journal_partition)) is not None:
            raise LaneFault(self.name, f"its journal partition {self.journal_partition} cannot be written: {down.why}")
        claim_id, journal = await self._claim_allowed(topics, excluded, unavailable)
        journal = replace(journal, entries=tuple(renamed(journal.entries, self._real)))
        entries = valid_entries([*journal.entries, *remirrored])
        acks = [] if journal.lost else unjournaled_acks(self.streams, entries)
        if self.context.reverse is not None:
            self.context.reverse.forget(_shared(journal.entries) - _shared(entries))
            self.context.reverse.remember(self.journal_partition.partition, remirrored)
        self.claim_id = claim_id
        if remirrored:  # behind the fence: until then the former owner may have begun to fill the same topic
            behind = await recreated_mirrors(target, (self._names or {}).values(), topics)
            empty = {r.target_topic_id for r in await self._to_fill_again(topics, behind)}
            if empty != {r.target_topic_id for r in remirrored}:
                raise ClaimAgain(self.name, "a mirror topic to be filled again is not empty any more")
        journaled = {e.target_topic for e in entries if isinstance(e, TopicNames)}
        if any(isinstance(why, JournalLost) and name in journaled for name, why in excluded.items()):
            raise ClaimAgain(self.name, "the former owner wrote to the journal while it was read")
        return _TakenLane(claim_id, journal, [*entries, *acks], acks, remirrored, recreated, excluded, unavailable)

    async def _claim_allowed(
        self,
        topics: Sequence[LaneTopic],
        excluded: dict[str, DrlibError],
        unavailable: Mapping[TopicPartition, MirrorUnavailable],
    ) -> tuple[ClaimId, JournalRead]:
        """Claim what is not in `excluded`; adds the topics that the target does not let us claim and tries again."""
        while True:
            try:
                return await self._claim_lane([*_mirrors(topics, excluded, unavailable), self.journal_partition])
            except BrokerError as error:
                self._exclude_unauthorized(error, topics, excluded)

    def _exclude_unauthorized(
        self, error: BrokerError, topics: Sequence[LaneTopic], excluded: dict[str, DrlibError]
    ) -> None:
        """Add the topics that the target does not let us mark to `excluded`; raises `error` where that is not its reason."""
        named = set(error.topics)
        refused = [t.target for t in topics if t.target in named and t.target not in excluded]
        if error.code != TOPIC_AUTHORIZATION_FAILED or not refused:
            raise error
        excluded.update({name: self._unauthorized(name, error) for name in refused})

    async def _claim_lane(self, fenced: Collection[TopicPartition]) -> tuple[ClaimId, JournalRead]:
        """Claim and fence under the newest generation; returns the claim and the journal behind the fence."""
        target = self.context.target
        partitions = _by_topic(fenced)
        while True:
            claim_id = await claim(target, self.transactional_id, partitions, clock=self.context.clock)
            read = await read_through(target, self.journal_partition, "read", self._written)
            generation = self.generation
            self._remember(read)
            if self.generation > generation:
                continue  # another claimant moved the lane to a new ID before our fence: the old ID is out of use
            if claim_id.epoch < self.housekeeping.rotate_at_epoch:
                return claim_id, read
            # The old ID's producer stays fenced; any later claimant under it reads this entry behind its own fence.
            _, leader = await locate(target, self.journal_partition)
            journal = self._open_journal(claim_id, leader)
            await journal.append([Claim(claim_id, self.generation + 1, self.context.clock.now_ms(), self.worker)])
            await target.drop(f"journal-{self.transactional_id}")
            self.generation += 1

    def _open_journal(self, claim_id: ClaimId, leader: int) -> LaneJournal:
        target, now_ms = self.context.target, self.context.clock.now_ms
        lane = self.transactional_id
        return LaneJournal(target, self.journal_partition, claim_id, lane, leader, now_ms, made=self._real)

    async def _unavailable(
        self, topics: Sequence[LaneTopic], recreated: Collection[str]
    ) -> dict[TopicPartition, MirrorUnavailable]:
        """Mirror partitions of topics not in `recreated`, and the journal's, that cannot be written now.

        Of a topic that is not in the journal all wait: whether it is empty can only be seen of all its partitions.
        """
        found = await self._look_for_unavailable([*_mirrors(topics, recreated), self.journal_partition])
        known = {n.target_topic for n in (self._names or {}).values()}
        for topic in topics:
            mirrors = _mirrors([topic], ())
            why = next((found[mirror] for mirror in mirrors if mirror in found), None)
            if why is not None and topic.target not in known:
                found |= dict.fromkeys(mirrors, why)
        return found

    async def _look_for_unavailable(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, MirrorUnavailable]:
        """Those of `partitions` that cannot be written now; mirror topics that are missing are asked for."""
        found = await unavailable_mirrors(self.context.target, partitions)
        if any(isinstance(why, MirrorMissing) and p != self.journal_partition for p, why in found.items()):
            self.context.missing_mirrors.set()
        return found

    async def _unexplained(
        self, topics: Sequence[LaneTopic], recreated: Mapping[str, DrlibError]
    ) -> dict[str, DrlibError]:
        """Mirror topics with records that this lane's journal does not explain, and those we may not read."""
        known = {n.target_topic for n in (self._names or {}).values()}
        new = [t for t in topics if t.target not in known and t.target not in recreated]
        with_data, unauthorized = await mirrors_with_data(self.context.target, new)
        excluded: dict[str, DrlibError] = {
            name: self._unauthorized(name, error) for name, error in unauthorized.items()
        }
        if not with_data:
            return excluded
        progress = await self.takeover.read_progress()
        taken_over = frozenset[str]() if progress is None else progress.topics
        asks: dict[LaneTopic, DrlibError] = {}
        for topic in new:
            if topic.target in with_data and topic.shared:
                why = await self._why_unexplained(topic, mirrored_before=topic.source in taken_over)
                if why is not None and why.journal:
                    asks[topic] = why
                elif why is not None:
                    excluded[topic.target] = why
            elif topic.target in with_data and progress is None:  # else copies are compared one by one
                excluded[topic.target] = JournalLost(topic.target)
        added = await self._were_added(asks) if asks else ()
        return excluded | {topic.target: why for topic, why in asks.items() if topic not in added}

    async def _why_unexplained(self, topic: LaneTopic, *, mirrored_before: bool) -> RecordsUnexplained | None:
        """Why records on the target, of a topic that both directions copy, may be copies; None where they are the target's own.

        That is the operator's word for this journal and no other; or nothing was ever written to the source's partitions, from
        which no record can be a copy then. In a ring only the second counts: whether an earlier journal was lost is known to a
        third cluster. The error names this journal where the reverse flow has read none of the partitions.
        `mirrored_before`: by MirrorMaker 2, which is taken over: the flow back reads none of it before contents have shown
        which records are copies.
        """
        target, reverse = self.context.target, self.context.reverse
        if reverse is not None and reverse.of_ring:
            why = "in a ring a topic has records on one cluster at most before any flow copies it"
            flow = str(self.takeover.settings.flow)
            return None if await self._never_written(topic) else RecordsUnexplained(topic.target, flow, "", why)
        journal_id, _ = await locate(target, self.journal_partition)
        found = (await target.metadata([topic.target])).topics[topic.target]
        mirrors = [TopicPartition(topic.target, number) for number in topic.partitions]
        try:
            remembered = reverse is None or await reverse.is_remembered(found.topic_id, mirrors, journal_id)
        except JournalCorrupt as unread:
            why = f"the reverse flow's journal does not say it: {unread.why}"
            return RecordsUnexplained(topic.target, str(self.takeover.settings.flow), "", why)
        if remembered:
            why = "the reverse flow read the topic by an earlier journal of this flow, which was lost"
        elif mirrored_before or self.context.own_records == str(journal_id) or await self._never_written(topic):
            return None
        else:
            why = "it is not known who wrote them"
            return RecordsUnexplained(topic.target, str(self.takeover.settings.flow), str(journal_id), why)
        return RecordsUnexplained(topic.target, str(self.takeover.settings.flow), "", why)

    async def _were_added(self, topics: Collection[LaneTopic]) -> list[LaneTopic]:
        """Those that this journal had, as topics that both directions copy, before they had this lane's partitions: where the
        reverse flow has read none of these, the records are the target's own, as nothing is copied to a partition before."""
        counts = counts_at_start(await other_lanes(self.context.target, self.journal_partition), shared=True)
        return [t for t in topics if t.topic_id in counts and all(n >= counts[t.topic_id] for n in t.partitions)]

    async def _never_written(self, topic: LaneTopic) -> bool:
        """Was nothing ever written to the source's partitions that this lane has? Unknown counts as no, and so does a further
        cluster, which may have brought what the source had once."""
        if not self.context.two_clusters:
            return False
        partitions = [TopicPartition(topic.source, number) for number in topic.partitions]
        return bool(partitions) and all([await never_written(self.context.source, each) for each in partitions])

    def _unauthorized(self, topic: str, error: BrokerError) -> MirrorUnauthorized:
        remedy = self.parked.remedy("TargetUnauthorized", topic)
        return MirrorUnauthorized(topic, f"the target answered {error.name}", remedy)

    def _identified(self, topics: Sequence[LaneTopic]) -> tuple[LaneTopic, ...]:
        """The topics with the IDs under which this lane journals them."""
        return identified(topics, (self._names or {}).values(), self.context.source.cluster_id, self._void)

    def _remember(self, journal: JournalRead) -> None:
        self._real |= identified_in(journal.entries)
        entries = renamed(journal.entries, self._real)
        if self.context.reverse is not None:
            self.context.reverse.claimed(self.journal_partition.partition, entries)
        self._requests.take(entries, journal.next_offset)
        self._names = {e.topic_id: e for e in entries if isinstance(e, TopicNames)}
        self.committed = [e for e in entries if isinstance(e, CommittedTransactions)]
        self.producers = [e for e in entries if isinstance(e, Producers | ProducersKnown)]
        self.generation = max([self.generation, *(e.generation for e in entries if isinstance(e, Claim))])

    # -- recovery ------------------------------------------------------------------------------------------------

    async def _recover(
        self, topics: Sequence[LaneTopic], taken: _TakenLane
    ) -> tuple[LogEnds, LaneJournal, Sequence[PartitionStream], ChunkEnds, Sequence[Entry]]:
        """Count what former claims appended, journal it, and lay out the streams of this claim.

        The last value: those of `taken.entries` that are still in the journal and not of partitions that are copied now.
        """
        source, target, events = self.context.source, self.context.target, self.context.events
        filled_again = {entry.target_topic for entry in taken.remirrored}
        (_, journal_leader), (log, start) = await asyncio.gather(
            locate(target, self.journal_partition),
            self._plan(
                topics, taken.claim, taken.journal, taken.entries, taken.excluded, taken.unavailable, filled_again
            ),
        )
        maps = start.maps
        journal = self._open_journal(taken.claim, journal_leader)
        claim_entry = Claim(taken.claim, self.generation, self.context.clock.now_ms(), self.worker)
        known, now = identified_in(taken.journal.entries), self.context.clock.now_ms()
        new: list[Entry] = [TopicIdentified(made, real, now) for made, real in self._real.items() if made not in known]
        new += [claim_entry, *taken.remirrored, *taken.acks, *maps.findings]
        new += [Clusters(source.cluster_id, target.cluster_id), *start.entries]
        new += [s.start(self.context.clock.now_ms()) for s in start.streams]
        expired = await find_expired(target, start.streams, start.logs.starts, self.housekeeping.expire_at)
        await journal.append([*new, *expired])
        if any(made not in known for made in self._real):
            hit("topics-identified")
        for each in expired:
            maps.get(each.partition).apply(each)
        dropped = [*expired, *await self._thin(journal, start.streams)]
        self._written, self._leaders_seen = journal.written, log.epochs
        valid, written = {id(e) for e in taken.entries}, {e.key() for e in (*new, *dropped)}
        void = [*taken.journal.void, *(e.key() for e in taken.journal.entries if id(e) not in valid)]
        renewed = {topic.source for topic in topics if topic.target in filled_again}
        void += [e.key() for e in taken.entries if isinstance(e, Incarnation) and e.source_topic in renewed]
        await _forget(journal, [key for key in void if key not in written])  # before the same keys are written again
        left = await self._forget_topics(journal, [*taken.entries, *maps.findings, *dropped], topics)
        chunks = await self._fold(journal, left)
        self._names = {e.topic_id: e for e in (*left, *new) if isinstance(e, TopicNames)}
        start.report(self.parked)
        self.streams = (*start.streams, *start.parked)
        for stream in start.streams:
            self.observer.progressed(stream)
        for name in ("LaneFault", "LaneLost", "LaneUnauthorized"):
            events.resolve(name, self.name)
        remain, copied = {id(e) for e in left}, {stream.key for stream in start.streams}
        kept = [e for e in taken.entries if id(e) in remain and getattr(e, "partition", None) not in copied]
        return log, journal, start.streams, chunks, kept

    async def _plan(
        self,
        topics: Sequence[LaneTopic],
        claim_id: ClaimId,
        journal: JournalRead,
        entries: Sequence[Entry],
        excluded: Mapping[str, DrlibError],
        unavailable: Mapping[TopicPartition, MirrorUnavailable],
        filled_again: Collection[str] = (),
    ) -> tuple[LogEnds, ClaimStart]:
        """Count what former claims appended to the mirrors of `topics` and lay out their streams. Nothing is written."""
        source, target = self.context.source, self.context.target
        mirrors = _mirrors(topics, excluded, unavailable)
        # Behind the fence no append of ours is pending: all of this is requested at once.
        log, limits, starts = await asyncio.gather(
            log_ends(target, mirrors),
            size_limits(target, {p.topic for p in mirrors}),
            source_starts(source, topics),
        )
        start = ClaimStart(
            lane=self.name,
            claim=claim_id,
            maps=await build_maps(target, entries, self._fenced(claim_id, journal, log, topics)),
            logs=RecoveryInput(log, limits, starts),
            excluded=excluded,
            takeover=self.takeover,
            events=self.context.events,
            learned=self.parked.size_limits,
            unavailable=unavailable,
            filled_again=filled_again,
            begin=partial(start_of_new, source, target, self.journal_partition, self.context.start),
            was_shared=lambda *topic: self.context.reverse is not None and self.context.reverse.may_hold_copies(*topic),
        )
        await start.plan_streams(topics, entries)
        return log, start

    def _fenced(self, claim_id: ClaimId, journal: JournalRead, log: LogEnds, topics: Sequence[LaneTopic]) -> FencedLogs:
        """The fenced logs, and how far they and the journal are known to be whole."""
        lost = journal.lost
        if lost:
            self.context.events.open("JournalTruncated", str(self.journal_partition), lost, by=self.name)
        before = None if self._written is None else self._written.claim
        alone = before is not None and claim_id == ClaimId(before.producer_id, before.epoch + 1) and not lost
        unchanged = {p for p, epoch in log.epochs.items() if alone and self._leaders_seen.get(p) == epoch}
        agrees = partial(content_agrees, self.context.source, self.context.target)
        prove = agrees if lost or journal.elected else None
        written = {TopicPartition(t.target, n): SourcePartition(t.topic_id, n) for t in topics for n in t.partitions}
        return FencedLogs(log, claim_id, written, unchanged, lost, prove, partial(source_log_end, self.context.source))

    async def _forget_topics(
        self, journal: LaneJournal, entries: Sequence[Entry], topics: Sequence[LaneTopic]
    ) -> Sequence[Entry]:
        """Delete what the journal says of topics that neither cluster has any more; returns the rest."""
        names = {e.topic_id: e for e in entries if isinstance(e, TopicNames)}
        try:
            gone = await gone_topics(self.context.source, self.context.target, names.values(), topics)
            progress = await self.takeover.read_progress() if gone else None
        except (DrlibError, TimeoutError, OSError):
            return entries  # not known whether they are gone: a later claim asks again
        if not gone:
            return entries
        named = {p.topic for p in (*progress.copied, *progress.unreadable)} if progress is not None else set()
        if self.context.reverse is not None:
            self.context.reverse.forget(gone)
        found = about_topics(entries, gone, named, self.context.clock.now_ms())
        await _forget(journal, [e.key() for e in found])
        for each in gone:
            self.context.events.resolve("TopicRecreated", names[each].source_topic)
        forgotten = {id(e) for e in found}
        return [e for e in entries if id(e) not in forgotten]

    async def _fold(self, journal: LaneJournal, entries: Sequence[Entry]) -> ChunkEnds:
        """Write what replaces superseded entries, then delete those; returns the chunks that the journal has now."""
        folded = fold(entries, self.housekeeping.fold_at, self.context.clock.now_ms())
        if folded.entries:
            await journal.append(folded.entries)
        await _forget(journal, folded.forget)
        return ChunkEnds.of([*entries, *folded.entries], frozenset(folded.forget))

    # -- mirror topics that were deleted or re-created -----------------------------------------------------------------

    async def _watch_mirror_topics(self, running: _RunningClaim) -> None:
        """End the claim when a mirror topic is deleted, re-created or may be filled again, when a mirror's new leader lacks
        acknowledged records, or when it journaled too much."""
        known: Mapping[uuid.UUID, TopicNames] | None = None
        names: list[TopicNames] = []
        wanted: list[str] = []
        before: ClusterMetadata | None = None
        look_at, pause = 0.0, TOPICS_POLL_S
        leaders, unchecked = dict(self._leaders_seen), False
        while True:
            await asyncio.sleep(TOPICS_POLL_S)
            if not self.parked.any_for("MirrorContradiction"):  # what the journal lost leaves no doubt any more
                self.context.events.resolve("JournalTruncated", str(self.journal_partition), by=self.name)
            if running.journal.permanent_entries >= self.housekeeping.claim_at and not self._reassigned:
                self._claim_again()
            if known is not self._names:  # others have joined
                known = self._names
                names = journaled_mirrors((known or {}).values(), self.topics)
                wanted = sorted(n.target_topic for n in names)
            try:
                metadata = await self.context.target.metadata(wanted)
                unchecked = unchecked or metadata is not before
                if not unchecked and not running.recreated:
                    continue
                before, missing = metadata, recreated_in(metadata, names)
                recreated = {n.target_topic: missing[n.topic_id] for n in names if n.topic_id in missing}
                if recreated.keys() != running.recreated:
                    changed = ", ".join(sorted(recreated.keys() ^ running.recreated))
                    running.loop.fail(LaneFault(self.name, f"mirror topic {changed} was deleted or re-created"))
                    return
                if recreated and running.loop.running and time.monotonic() >= look_at:
                    waits = await self._look_at_recreated(recreated)
                    pause = min(LONGEST_LOOK_S, pause * 2) if waits else TOPICS_POLL_S
                    look_at = time.monotonic() + pause
                if unchecked and (lost := await self._lost_end(metadata, leaders)) is not None:
                    running.loop.fail(lost)
                    return
                unchecked = False
            except (DrlibError, TimeoutError, OSError):
                continue  # the target does not answer: the produce loop reports it

    async def _lost_end(self, metadata: ClusterMetadata, leaders: dict[TopicPartition, int]) -> LaneFault | None:
        """Why to claim again: a mirror partition that has another leader than in `leaders` lacks what was acknowledged.

        An idle lane would notice it only with its next record. `leaders`, the leader epochs, is brought up to date.
        """
        led = {
            TopicPartition(topic, number): each.leader_epoch
            for topic, described in metadata.topics.items()
            for number, each in described.partitions.items()
            if each.leader >= 0
        }
        found = {partition: epoch for partition, epoch in led.items() if epoch > leaders.setdefault(partition, epoch)}
        copied = [stream for stream in self.streams if stream.target in found and not stream.parked]
        due = {stream.target: stream.map.least_log_end for stream in copied}  # before the ends are asked for: both grow
        ends = (await log_ends(self.context.target, due)).ends if due else {}
        leaders.update(found)
        for partition, end in ends.items():
            if end < due[partition]:
                return LaneFault(self.name, f"{partition} ends at offset {end}, {due[partition]} were acknowledged")
        return None

    async def _look_at_recreated(self, recreated: Mapping[str, MirrorTopicRecreated]) -> bool:
        """Claim again if one of `recreated` can be filled again; True where one may be filled and is not empty.

        Those that may be filled and do not exist are asked for.
        """
        await self._requests.refresh(self.context.target)
        allowed = self._allowed(self.topics, recreated)
        if any(recreated[topic.target].now is None for topic in allowed):
            self.context.missing_mirrors.set()
        if await self._to_fill_again(allowed, recreated):
            self._claim_again()
        return any(recreated[topic.target].now is not None for topic in allowed)

    async def _to_fill_again(
        self, topics: Sequence[LaneTopic], recreated: Mapping[str, MirrorTopicRecreated]
    ) -> list[Remirrored]:
        """Those of `recreated` that exist again, are empty, and may be filled from the source's start."""
        return await empty_recreated_mirrors(self.context.target, self._allowed(topics, recreated), recreated)

    def _allowed(self, topics: Sequence[LaneTopic], recreated: Collection[str]) -> list[LaneTopic]:
        names: dict[str, list[TopicNames]] = defaultdict(list)
        for each in (self._names or {}).values():
            names[each.target_topic].append(each)
        gone = [topic for topic in self._identified(topics) if topic.target in recreated]
        return [topic for topic in gone if may_fill_again(topic, names[topic.target], self._requests.void)]


def _shared(entries: Iterable[Entry]) -> set[uuid.UUID]:
    """The source topics that were read as ones that both directions copy."""
    return {entry.topic_id for entry in entries if isinstance(entry, Shared)}


def unjournaled_acks(streams: Iterable[PartitionStream], entries: Sequence[Entry]) -> list[Ack]:
    """What `streams`, those of this worker's claim before, know to be on the target beyond the journal's `entries`.

    Only of claims whose records no later claim has counted.
    """
    journaled = {(e.partition, e.claim): e.q for e in entries if isinstance(e, Ack)}
    open_claims = {(e.partition, e.claim) for e in entries if isinstance(e, Run)}
    open_claims -= {(e.partition, e.claim) for e in entries if isinstance(e, Sealed)}
    acks = [ack for stream in streams if (ack := stream.acknowledged()) is not None]
    return [a for a in acks if (at := (a.partition, a.claim)) in open_claims and a.q > journaled.get(at, 0)]


async def _forget(journal: LaneJournal, keys: Sequence[bytes]) -> None:
    """Delete entries whose replacement is acknowledged."""
    if keys:
        hit("before-tombstones")
        await journal.forget(keys)


def _mirrors(
    topics: Sequence[LaneTopic], excluded: Collection[str], unavailable: Collection[TopicPartition] = ()
) -> list[TopicPartition]:
    """The mirror partitions of `topics` that are neither in an excluded topic nor unavailable."""
    mirrors = (TopicPartition(t.target, n) for t in topics if t.target not in excluded for n in t.partitions)
    return [partition for partition in mirrors if partition not in unavailable]


def _by_topic(partitions: Collection[TopicPartition]) -> dict[str, list[int]]:
    numbers: dict[str, list[int]] = defaultdict(list)
    for partition in partitions:
        numbers[partition.topic].append(partition.partition)
    return numbers
