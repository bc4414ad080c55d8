"""One lane: claim, read back, pump; again after a fault, until it is stopped or somebody else owns it.

Rules: the state machine is the table `lane_state.MOVES`. Every doubt leads through `CLAIMING`: a new epoch, a fence, and
the log itself says what of ours stands. What recovery finds is journaled before the first new batch. Claims back off
exponentially, since each costs an epoch; before they run out the lane moves to a new transactional ID: claim and fence
under the old one, journal the next generation, go on under the new one. A lane that was lost is claimed again only when
the group still gives it to us a whole session later. A mirror topic that is gone, or whose log contradicts the journal, is
parked by name and not claimed; it is looked at again while the others go on. So is one the target shuts us out of: what
former claims wrote there is counted by the claim that fences it, and by no other.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from drlib.errors import DrlibError, Unreachable
from drlib.kafka.net.cluster_client import ClusterClient, ClusterMetadata, WrongCluster
from drlib.kafka.protocol.error_codes import AUTHORIZATION, TOPIC_AUTHORIZATION_FAILED, BrokerError
from drlib.kafka.security.errors import SecurityFault
from drlib.mirror.engine.fencing.claim import claim
from drlib.mirror.engine.fencing.membership import Membership
from drlib.mirror.engine.fencing.producer_expiration import Expiry
from drlib.mirror.engine.fetch.memory import Memory
from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.engine.lane.markers import now_ms
from drlib.mirror.engine.lane.parked_partitions import Parking
from drlib.mirror.engine.lane.produce_loop import Observer, ProduceLoop
from drlib.mirror.engine.lane.start_claim import ClaimStart, Facts
from drlib.mirror.engine.lane.state import MOVES, LaneState
from drlib.mirror.engine.lane.topics import (
    LaneTopic,
    filled_mirrors,
    gone_mirrors,
    known_mirrors,
    remade_mirrors,
    size_limits,
    source_starts,
)
from drlib.mirror.errors import ClaimAgain, JournalLost, LaneFault, LaneLost, MirrorTopicRecreated, MirrorUnauthorized
from drlib.mirror.journal.entries import Claim, ClaimId, Clusters, Entry, TopicNames
from drlib.mirror.mm2.takeover import TakeoverReader
from drlib.mirror.offsets.map.fold_claims import fold, standing
from drlib.mirror.offsets.map.journal_log import LaneJournal, read_journal
from drlib.mirror.offsets.map.load_maps import build_maps, gone_in
from drlib.mirror.preflight.checks import Grants
from drlib.mirror.read_batches import locate, log_ends
from drlib.mirror.status.worker_status import EventLog
from drlib.model import TopicPartition

FIRST_BACKOFF_S = 0.1
LONGEST_BACKOFF_S = 10.0
QUIET_AFTER_S = 30.0  # a claim that lasted this long resets the back-off
TOPICS_LOOK_S = 2.0  # how often the mirror topics' IDs are compared


@dataclass(frozen=True, slots=True)
class Housekeeping:
    """When a lane tidies up after itself."""

    rotate_at_epoch: int = 30_000  # of 32,767: the rest is for claimants that race while the lane moves on
    fold_at: int = 1000  # entries of old claims in one partition before they are folded
    claim_at: int = 200_000  # promises and placements in one claim before a new claim makes them old ones


@dataclass
class Lane:
    number: int
    name: str  # its transactional IDs are this and a generation
    source: ClusterClient
    target: ClusterClient
    journal_partition: TopicPartition
    topics: tuple[LaneTopic, ...]
    membership: Membership
    events: EventLog
    worker: str
    observer: Observer
    takeover: TakeoverReader
    memory: Memory = field(default_factory=Memory)
    expiry: Expiry = field(default_factory=Expiry)
    housekeeping: Housekeeping = field(default_factory=Housekeeping)
    grants: Grants | None = None
    parking: Parking = field(init=False)
    generation: int = 0
    loss_policy: str = "continue"
    state: LaneState = LaneState.CLAIMING
    claim_id: ClaimId | None = None
    streams: tuple[PartitionStream, ...] = ()
    _pump: ProduceLoop | None = None
    _stopping: bool = False
    _again: bool = False
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _names: dict[uuid.UUID, TopicNames] | None = None  # as the journal had them last; None before it was read

    def __post_init__(self) -> None:
        self.parking = Parking(self.events, self.name)
        if self.grants is not None:
            self.parking.remedy = self.grants.topic

    @property
    def transactional_id(self) -> str:
        return f"{self.name}.{self.generation}"

    async def run(self) -> None:
        """Own the lane until `stop`; returns when it is stopped or lost."""
        try:
            await self._claim_loop()
        finally:
            self.events.retract(self.name)  # the next owner speaks for the lane

    async def _claim_loop(self) -> None:
        backoff = FIRST_BACKOFF_S
        while not self._stopping:
            await self._wait_for_ownership()
            if self._stopping:
                break
            began = time.monotonic()
            try:
                await self._run_claim()
                if self._again and not self._stopping:
                    self._again = False
                    self._move(LaneState.CLAIMING)
                    continue
                break
            except LaneLost as lost:
                self.events.open("LaneLost", self.name, str(lost))
                self._move(LaneState.LOST)
                # Somebody the group gave the lane to has it for good, and we are told to stop. A worker that the group
                # had given up on and that woke in the middle of a claim will never use it: then it is ours again.
                await self._pause(self.membership.session_timeout_ms / 1000)
                await self._wait_for_ownership()
                if not self._stopping:
                    self._move(LaneState.CLAIMING)
                continue
            except ClaimAgain:
                pass
            except WrongCluster:
                pass  # told from beside; it goes on when the right one answers
            except (LaneFault, Unreachable, SecurityFault, BrokerError, TimeoutError, OSError) as error:
                if self._of_a_mirror(error):
                    pass  # shut out in the middle of a claim: the next one leaves that topic out, and says so
                elif isinstance(error, BrokerError) and error.code in AUTHORIZATION:
                    self.events.open("LaneUnauthorized", self.name, str(self.refused(error)))
                elif isinstance(error, BrokerError) and not error.retriable:
                    raise
                else:
                    self.events.open("LaneFault", self.name, str(error))
            self._move(LaneState.BACKING_OFF)
            backoff = FIRST_BACKOFF_S if time.monotonic() - began > QUIET_AFTER_S else backoff
            if not self._stopping:
                await self._pause(backoff)
            backoff = min(LONGEST_BACKOFF_S, backoff * 2)
            if not self._stopping:
                self._move(LaneState.CLAIMING)
        self.parking.keep(())
        self._move(LaneState.STOPPED)

    def refused(self, error: BrokerError) -> DrlibError:
        """An authorization failure of the whole lane, with the command that ends it."""
        if self.grants is None:
            return error
        return self.grants.refused(error, self.journal_partition.topic)

    def _of_a_mirror(self, error: BaseException) -> bool:
        """Is it mirror topics alone that the target refuses us?"""
        ours = {topic.target for topic in self.topics}
        if not isinstance(error, BrokerError) or error.code != TOPIC_AUTHORIZATION_FAILED:
            return False
        return bool(error.topics) and ours.issuperset(error.topics)

    def stop(self) -> None:
        """Drain and end."""
        self._stopping = True
        self._wake.set()
        if self._pump is not None:
            self._pump.drain()

    def reassign(self, topics: Sequence[LaneTopic]) -> None:
        """Carry on with another set of partitions: drain, then claim anew over them."""
        self.topics = tuple(topics)
        self._again = True
        if self._pump is not None:
            self._pump.drain()

    async def _wait_for_ownership(self) -> None:
        """Wait until a heartbeat says that the lane is still ours to claim, or we are told to stop."""
        while not self._stopping and not self.membership.may_send():
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
        """One claim from beginning to end."""
        topics = self.topics
        if self._names is None:
            self._remember(await read_journal(self.target, self.journal_partition))
        self.parking.keep({TopicPartition(t.source, n) for t in topics for n in t.partitions})
        recreated = await self._gone(topics)
        remade = await remade_mirrors(self.target, topics, recreated)
        recreated = {name: why for name, why in recreated.items() if name not in {r.target_topic for r in remade}}
        gone: dict[str, DrlibError] = {**recreated, **await self._unexplained(topics, recreated)}
        ours, entries = await self._take_allowed(topics, gone)
        entries = standing([*entries, *remade])
        self.claim_id = ours
        spoken_of = {e.target_topic for e in entries if isinstance(e, TopicNames)}
        if any(isinstance(why, JournalLost) and name in spoken_of for name, why in gone.items()):
            raise ClaimAgain(self.name, "the former owner wrote to the journal while it was read")
        self._move(LaneState.RECOVERING)
        mine = [TopicPartition(t.target, n) for t in topics if t.target not in gone for n in t.partitions]
        # Behind the fence nothing of ours moves any more: all of this is asked at once.
        (_, journal_leader), log, limits, starts = await asyncio.gather(
            locate(self.target, self.journal_partition),
            log_ends(self.target, mine),
            size_limits(self.target, {p.topic for p in mine}),
            source_starts(self.source, topics),
        )
        journal = LaneJournal(self.target, self.journal_partition, ours, self.transactional_id, journal_leader)
        maps = await build_maps(self.target, entries, log.ends)
        facts = Facts(log, limits, starts)
        opening = ClaimStart(self.name, ours, maps, facts, gone, self.takeover, self.events)
        await opening.plan_streams(topics, entries)
        streams = opening.streams
        new: list[Entry] = [Claim(ours, self.generation, now_ms(), self.worker), *remade, *maps.findings]
        new += [Clusters(self.source.cluster_id, self.target.cluster_id), *opening.entries]
        new += [s.start(now_ms()) for s in streams]
        await journal.append(new)
        await self._fold(journal, [*entries, *maps.findings])
        self._names = {**(self._names or {}), **{e.topic_id: e for e in new if isinstance(e, TopicNames)}}
        opening.tell(self.parking)
        self.streams = (*streams, *opening.parked)
        for stream in streams:
            self.observer.progressed(stream)
        for name in ("LaneFault", "LaneLost", "LaneUnauthorized"):
            self.events.resolve(name, self.name)
        self._move(LaneState.RUNNING)
        self._pump = ProduceLoop(
            self.transactional_id,
            self.source,
            self.target,
            journal,
            streams,
            self.membership,
            self.events,
            self.observer,
            self.expiry,
            self.memory,
            self.parking,
            self.loss_policy,
        )
        looking = asyncio.create_task(self._watch_mirror_topics(self._pump, journal, topics, recreated))
        trying = asyncio.create_task(self._try_again())
        try:
            if self._stopping or self._again:
                self._pump.drain()
            await self._pump.run({(p.topic, p.partition): leader for p, leader in log.leaders.items()})
            self._move(LaneState.DRAINING)
        finally:
            self._pump = None
            looking.cancel()
            trying.cancel()
            await asyncio.gather(looking, trying, return_exceptions=True)
            for purpose in ("produce", "journal"):
                await self.target.drop(f"{purpose}-{self.transactional_id}")

    async def _try_again(self) -> None:
        """A new claim looks at parked partitions again."""
        await self.parking.worth_another_try()
        self.reassign(self.topics)

    # -- claiming ------------------------------------------------------------------------------------------------

    async def _claim_lane(self, topics: Sequence[LaneTopic]) -> tuple[ClaimId, list[Entry]]:
        """Claim and fence under the newest generation; returns the claim and the journal as it stands behind the fence."""
        partitions: dict[str, list[int]] = defaultdict(list)
        for topic in topics:
            partitions[topic.target].extend(topic.partitions)
        partitions[self.journal_partition.topic].append(self.journal_partition.partition)
        while True:
            ours = await claim(self.target, self.transactional_id, partitions)
            entries = await read_journal(self.target, self.journal_partition)
            generation = self.generation
            self._remember(entries)
            if self.generation > generation:
                continue  # somebody moved the lane on before our fence: that ID is nobody's any more
            if ours.epoch < self.housekeeping.rotate_at_epoch:
                return ours, entries
            # The old ID's producer stays fenced; whoever claims under it from now on reads this behind its fence.
            _, leader = await locate(self.target, self.journal_partition)
            journal = LaneJournal(self.target, self.journal_partition, ours, self.transactional_id, leader)
            await journal.append([Claim(ours, self.generation + 1, now_ms(), self.worker)])
            await self.target.drop(f"journal-{self.transactional_id}")
            self.generation += 1

    async def _fold(self, journal: LaneJournal, entries: Sequence[Entry]) -> None:
        found = fold(entries, self.housekeeping.fold_at)
        if found.entries:
            await journal.append(found.entries)
            await journal.forget(found.forget)

    async def _take_allowed(
        self, topics: Sequence[LaneTopic], gone: dict[str, DrlibError]
    ) -> tuple[ClaimId, list[Entry]]:
        """`_take` what is not `gone`; a topic the target does not let us claim is added to it, the others go on."""
        while True:
            try:
                return await self._claim_lane([t for t in topics if t.target not in gone])
            except BrokerError as error:
                refused = [t.target for t in topics if t.target in error.topics and t.target not in gone]
                if error.code != TOPIC_AUTHORIZATION_FAILED or not refused:
                    raise
                gone.update({name: self._unauthorized(name, error) for name in refused})

    async def _unexplained(self, topics: Sequence[LaneTopic], gone: Mapping[str, DrlibError]) -> dict[str, DrlibError]:
        """Mirror topics with records in them that this lane's journal never spoke of, and those we may not look into."""
        known = {n.target_topic for n in (self._names or {}).values()}
        new = [t for t in topics if t.target not in known and t.target not in gone]
        filled, closed = await filled_mirrors(self.target, new)
        found: dict[str, DrlibError] = {name: self._unauthorized(name, error) for name, error in closed.items()}
        if filled and await self.takeover.left_behind() is None:  # MirrorMaker 2's copies are compared one by one
            found |= {name: JournalLost(name) for name in filled}
        return found

    def _unauthorized(self, topic: str, error: BrokerError) -> MirrorUnauthorized:
        remedy = self.parking.remedy("TargetUnauthorized", topic)
        return MirrorUnauthorized(topic, f"the target answered {error.name}", remedy)

    def _remember(self, entries: Sequence[Entry]) -> None:
        self._names = {e.topic_id: e for e in entries if isinstance(e, TopicNames)}
        self.generation = max([self.generation, *(e.generation for e in entries if isinstance(e, Claim))])

    # -- mirror topics that are not what they were -----------------------------------------------------------------

    async def _gone(self, topics: Sequence[LaneTopic]) -> dict[str, MirrorTopicRecreated]:
        return await gone_mirrors(self.target, (self._names or {}).values(), topics)

    async def _watch_mirror_topics(
        self,
        pump: ProduceLoop,
        journal: LaneJournal,
        topics: Sequence[LaneTopic],
        gone: Mapping[str, MirrorTopicRecreated],
    ) -> None:
        """A mirror topic that goes, or comes back as it was, ends the claim: the next one looks anew. So does a long one."""
        names = known_mirrors((self._names or {}).values(), topics)
        wanted = sorted(n.target_topic for n in names)
        before: ClusterMetadata | None = None
        while True:
            await asyncio.sleep(TOPICS_LOOK_S)
            if journal.lasting >= self.housekeeping.claim_at and not self._again:
                self.reassign(self.topics)
            try:
                there = await self.target.metadata(wanted)
                if there is before:
                    continue
                missing = gone_in(there, names)
            except (DrlibError, TimeoutError, OSError):
                continue  # the target does not answer: whoever sends will say so
            before = there
            found = {n.target_topic for n in names if n.topic_id in missing}
            if found != gone.keys():
                changed = ", ".join(sorted(found ^ gone.keys()))
                pump.fail(LaneFault(self.name, f"mirror topic {changed} is not the one it was"))
                return
