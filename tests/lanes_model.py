"""Two flows over topics of several partitions, with lanes and workers: drlib's own follower of the journals decides.

What a worker reads of the journals, remembers and admits is `drlib.mirror.engine.reverse.journal`; only requests are of this
model. Lanes claim, also at another worker, promise, append and are killed between any two of these steps, topics and
partitions join, a direction is disabled and enabled again. Clients of both clusters write, some with a producer ID that is a
lane's elsewhere; cleaners remove records, brokers forget producers, journals get another leader, are deleted or lose the part
of a lane. What recovery counts is taken from the truth: it is proven elsewhere.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, TypeVar, cast
from uuid import UUID

from two_way_model import Batch

from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol.batch import NO_PRODUCER
from drlib.mirror.engine.fencing.lanes import lane_of
from drlib.mirror.engine.lane.start_position import counts_at_start
from drlib.mirror.engine.reverse.journal import JournalLane, JournalTopic, ReverseJournal
from drlib.mirror.engine.reverse.rules import newest_epochs
from drlib.mirror.journal.entries import (
    Claim,
    ClaimId,
    Entry,
    MirrorRefused,
    PartitionsAtStart,
    Placement,
    SourcePartition,
    TopicNames,
)
from drlib.model import TopicPartition

T = TypeVar("T")
WORKERS, MOST_LANES, MOST_TOPICS, MOST_PARTITIONS = 2, 3, 2, 4
ROUNDS = 400  # at rest, of one batch of each partition, before records count as going round


def done(work: Coroutine[Any, Any, T]) -> T:
    """The result of what waits for nothing here."""
    try:
        work.send(None)
    except StopIteration as end:
        return cast(T, end.value)
    raise AssertionError("it waits")


@dataclass
class Part:
    """A lane's partition of a journal. `kept`: how many entries each loss left; `elected`: another leader since the newest."""

    entries: list[Entry] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    elected: bool = False

    def append(self, *entries: Entry) -> None:
        self.entries += entries
        self.elected = False

    def lose(self, left: int) -> None:
        del self.entries[left:]
        self.kept.append(left)
        self.elected = bool(left)


@dataclass
class Log:
    batches: list[Batch] = field(default_factory=list)
    end: int = 0
    written: bool = False
    marked: dict[int, bool] = field(default_factory=dict)  # producers that the leader knows; were there markers?
    cleaned: set[int] = field(default_factory=set)

    def append(self, batch: Batch) -> int:
        self.batches.append(replace(batch, base=self.end))
        self.end += batch.size
        self.written |= not batch.control
        if batch.producer != NO_PRODUCER:
            self.marked[batch.producer] = batch.control or self.marked.get(batch.producer, False)
        return self.end

    @property
    def filled(self) -> bool:
        return any(batch.records for batch in self.batches)


@dataclass
class Cluster:
    """`journal`: of the flow to it, by lane."""

    ids: Iterator[UUID]
    lanes: int
    journal: list[Part] = field(init=False)
    journal_id: UUID = field(init=False)
    topics: dict[str, UUID] = field(default_factory=dict)
    logs: dict[TopicPartition, Log] = field(default_factory=dict)
    producers: Iterator[int] = field(default_factory=lambda: itertools.count(1000))
    transactional: dict[int, ClaimId] = field(default_factory=dict)  # by lane of the flow to it

    def __post_init__(self) -> None:
        self.start_journal()

    def start_journal(self) -> None:
        self.journal, self.journal_id = [Part() for _ in range(self.lanes)], next(self.ids)

    def lane(self, at: TopicPartition) -> int:
        return lane_of(at.topic, at.partition, self.lanes)

    def count(self, topic: str) -> int:
        return sum(at.topic == topic for at in self.logs)


class Followed(JournalTopic):
    """A journal of the model, read to its end as it is now."""

    __slots__ = ("losses",)

    async def read(self) -> None:
        cluster = cast(Cluster, self.cluster)
        if self.id not in (None, cluster.journal_id):
            self.lost = "it was deleted and created again"
            return
        if self.id is None:
            self.losses = [0] * cluster.lanes
        self.id = cluster.journal_id
        for number, part in enumerate(cluster.journal):
            lane = self.lanes.setdefault(number, JournalLane())
            if any(left < lane.position for left in part.kept[self.losses[number] :]):
                self.lost = f"lane {number} lost what was read of it"
                return
            self.losses[number] = len(part.kept)
            new = part.entries[lane.position :]
            for entry in new:
                lane._apply(entry)
            for producer, epoch in newest_epochs(new).items():
                lane.newest[producer] = max(epoch, lane.newest.get(producer, epoch))
            lane.position, lane.whole = len(part.entries), not part.elected


class Reading(ReverseJournal):
    """Of one flow at one worker."""

    def __init__(self, source: Cluster, own_lanes: int) -> None:
        client = cast(ClusterClient, source)
        super().__init__(client, "journal", source.lanes, own_lanes=own_lanes)
        self._journals, self.cluster = [Followed(client, "journal", source.lanes)], source

    async def _marked(self, partition: TopicPartition) -> dict[int, bool]:
        return self.cluster.logs[partition].marked


@dataclass
class Stream:
    """As `SharedPartition`; `shared`: it may hold copies. `promised`: a batch that may be sent now."""

    key: SourcePartition
    source: TopicPartition
    target_id: UUID
    copied_back: bool
    shared: bool
    position: int
    promised: Batch | None = None
    hop: int = 0

    @property
    def target(self) -> TopicPartition:
        return self.source


@dataclass
class Running:
    """A lane's claim at a worker."""

    worker: int
    claim: ClaimId
    journal: Any  # as the follower of the reverse flow's needs this flow's
    streams: dict[TopicPartition, Stream] = field(default_factory=dict)


class Lanes:
    """The world; flow `f` copies from cluster `f` to the other one, whose `lanes` are this flow's."""

    def __init__(self, chance: random.Random) -> None:
        self.chance, self.now = chance, 0.0
        ids = (UUID(int=number) for number in itertools.count(1))
        self.clusters = [Cluster(ids, chance.randint(1, MOST_LANES)) for _ in range(2)]
        self.ids, self.records = ids, itertools.count()
        self.own: dict[int, tuple[int, TopicPartition]] = {}  # committed records: where they were written
        self.appended: dict[tuple[int, TopicPartition], int] = {}
        self.enabled, self.damaged, self.dies = [True, True], -1, 0.1
        self.words = {cluster.journal_id for cluster in self.clusters if chance.random() < 0.5}
        self.named: dict[tuple[int, TopicPartition], str] = {}  # why a flow does not copy a partition now
        self.restart()
        self.add_topic()

    def restart(self) -> None:
        self.readings = [[self.reading(flow) for _ in range(WORKERS)] for flow in (0, 1)]
        self.running: dict[tuple[int, int], Running] = {}

    def reading(self, flow: int) -> Reading:
        return Reading(self.clusters[flow], self.clusters[1 - flow].lanes)

    # -- clients, brokers and operators ------------------------------------------------------------------------------

    def add_topic(self) -> None:
        name = f"t{len(self.clusters[0].topics)}"
        for cluster in self.clusters:
            cluster.topics[name] = next(self.ids)
        for _ in range(self.chance.randint(1, 3)):
            self.add_partition(name)

    def add_partition(self, topic: str) -> None:
        for cluster in self.clusters:
            cluster.logs[TopicPartition(topic, cluster.count(topic))] = Log()

    def write(self, at: int, partition: TopicPartition) -> None:
        """A client: without a producer ID, with one, in a transaction, or redirected, with an ID that another lane has here."""
        cluster, chance = self.clusters[at], self.chance
        log, records = cluster.logs[partition], tuple(next(self.records) for _ in range(chance.randint(1, 3)))
        others = [c for lane, c in cluster.transactional.items() if lane != cluster.lane(partition)]
        kind = chance.choice(["plain", "idempotent", "committed", "aborted", "redirected"])
        producer = NO_PRODUCER if kind == "plain" else next(cluster.producers)
        if kind == "redirected" and others:
            producer = chance.choice(others).producer_id
        within, kept = kind in ("committed", "aborted"), records if kind != "aborted" else ()
        log.append(Batch(0, len(records), producer, 0, kept, within))
        if within:
            log.append(Batch(0, 1, producer, 0, control=True))
        self.own |= dict.fromkeys(kept, (at, partition))

    def clean(self, log: Log) -> None:
        """The cleaner removes some records of one batch; the batch stays, or goes with the last of them."""
        if full := [n for n, batch in enumerate(log.batches) if batch.records]:
            number = self.chance.choice(full)
            batch = log.batches[number]
            left = tuple(r for r in batch.records if self.chance.random() < 0.4)
            log.cleaned |= set(batch.records) - set(left)
            kept = [replace(batch, records=left)] if left or self.chance.random() < 0.5 else []
            log.batches[number : number + 1] = kept

    def damage(self, flow: int) -> None:
        """A journal of one of the flows is deleted, or a lane's part of it loses its newest entries or all of them."""
        if self.damaged not in (-1, flow) or not self.remembered(flow):
            return
        self.damaged, target = flow, self.clusters[1 - flow]
        lost = list(range(target.lanes))
        if self.chance.random() < 0.3:
            target.start_journal()
        else:
            lost = [self.chance.choice(lost)]
            part = target.journal[lost[0]]
            part.lose(self.chance.choice([0, self.chance.randint(0, len(part.entries))]))
        for lane in lost:  # its next write to the journal shows it
            self.running.pop((flow, lane), None)
        if self.chance.random() < 0.3:
            self.switch(flow, False)

    def remembered(self, flow: int) -> bool:
        """Has the flow back read what this one copied? Else the operator's word, given before, is all that is known."""
        back, target = self.clusters[flow], self.clusters[1 - flow]
        lanes = [JournalLane() for _ in back.journal]
        for lane, part in zip(lanes, back.journal, strict=True):
            for entry in part.entries:
                lane._apply(entry)
        copied = [at for at, log in target.logs.items() if any(batch.source_end >= 0 for batch in log.batches)]
        return all(lanes[back.lane(at)].remembers(target.topics[at.topic], at.partition) for at in copied)

    def kill_worker(self, flow: int, worker: int) -> None:
        self.readings[flow][worker] = self.reading(flow)
        self.running = {at: it for at, it in self.running.items() if at[0] != flow or it.worker != worker}

    def expire(self, flow: int, lane: int) -> None:
        """After a week without a worker the lane's next claim gets another producer ID."""
        self.running.pop((flow, lane), None)
        del self.clusters[1 - flow].transactional[lane]

    def switch(self, flow: int, on: bool) -> None:
        """Both flows are in one file: every worker is restarted."""
        self.enabled[flow] = on
        self.restart()

    # -- a flow ------------------------------------------------------------------------------------------------------

    def claim(self, flow: int, lane: int) -> None:
        """At any worker: fence, and perhaps die before anything is journaled."""
        target = self.clusters[1 - flow]
        self.running.pop((flow, lane), None)
        if not self.enabled[flow]:
            return
        worker, part = self.chance.randrange(WORKERS), target.journal[lane]
        self.readings[flow][worker].claimed(lane, part.entries)
        mine = self.explained(flow, lane, worker, [at for at in target.logs if target.lane(at) == lane])
        before = target.transactional.get(lane) or ClaimId(next(target.producers), -1)
        claim = target.transactional[lane] = ClaimId(before.producer_id, before.epoch + 1)
        for at in mine:
            target.logs[at].append(Batch(0, 1, claim.producer_id, claim.epoch, control=True))
        if self.chance.random() < self.dies:
            return
        placed = {(e.partition, e.claim) for e in part.entries if isinstance(e, Placement)}
        known = {e.source_topic for e in part.entries if isinstance(e, TopicNames)}
        part.append(Claim(claim, 0, 0, ""))
        append = SimpleNamespace(
            lane=f"lane.{lane}", partition=TopicPartition("own", lane), append=self.appending(part)
        )
        self.running[flow, lane] = Running(worker, claim, append)
        for at in list(mine):
            key, copies = self.key(flow, at), [b for b in target.logs[at].batches if b.source_end >= 0]
            if at.topic in known and any((key, ClaimId(b.producer, b.epoch)) not in placed for b in copies):
                part.append(MirrorRefused(key, "it lost promises", 0))
                self.named[flow, at] = "its journal lost promises"
                mine.remove(at)
        self.begin(flow, lane, mine)

    @staticmethod
    def appending(part: Part) -> Any:
        async def append(entries: Sequence[Entry]) -> None:
            part.append(*entries)

        return append

    def join(self, flow: int, lane: int) -> None:
        """Partitions that the claim does not have yet."""
        target, running = self.clusters[1 - flow], self.running.get((flow, lane))
        if running is None:
            return
        new = [at for at in target.logs if target.lane(at) == lane and at not in running.streams]
        new = [at for at in new if (flow, at) not in self.named or "promises" not in self.named[flow, at]]
        mine = self.explained(flow, lane, running.worker, new)
        for at in mine:
            target.logs[at].append(Batch(0, 1, running.claim.producer_id, running.claim.epoch, control=True))
        self.begin(flow, lane, mine)

    def key(self, flow: int, at: TopicPartition) -> SourcePartition:
        return SourcePartition(self.clusters[flow].topics[at.topic], at.partition)

    def explained(
        self, flow: int, lane: int, worker: int, partitions: Sequence[TopicPartition]
    ) -> list[TopicPartition]:
        """Without topics that this lane never had and whose mirrors hold records that may be copies, as the lane decides it."""
        source, target = self.clusters[flow], self.clusters[1 - flow]
        entries = target.journal[lane].entries
        known, explained = {e.source_topic for e in entries if isinstance(e, TopicNames)}, []
        for topic in dict.fromkeys(at.topic for at in partitions):
            mine = [at for at in partitions if at.topic == topic]
            why = ""
            if topic not in known and any(target.logs[at].filled for at in mine):
                reverse = self.readings[flow][worker]
                others = [e for n, part in enumerate(target.journal) if n != lane for e in part.entries]
                counts, topic_id = counts_at_start(others, shared=True), source.topics[topic]
                if not all(self.enabled):
                    why = "records, and no journal"
                elif done(reverse.is_remembered(target.topics[topic], mine, target.journal_id)):
                    why = "it was read by an earlier journal"
                elif target.journal_id not in self.words and any(source.logs[at].written for at in mine):
                    added = topic_id in counts and all(at.partition >= counts[topic_id] for at in mine)
                    why = "" if added else "the operator is asked"
            for at in mine:
                self.named.pop((flow, at), None)
                if why:
                    self.named[flow, at] = why
            explained += [] if why else mine
        return explained

    def begin(self, flow: int, lane: int, partitions: Sequence[TopicPartition]) -> None:
        source, target = self.clusters[flow], self.clusters[1 - flow]
        running, part = self.running[flow, lane], target.journal[lane]
        reverse, both = self.readings[flow][running.worker], all(self.enabled)
        known = {e.source_topic for e in part.entries if isinstance(e, TopicNames)}
        for topic in dict.fromkeys(at.topic for at in partitions):
            topic_id = source.topics[topic]
            if topic not in known:
                part.append(PartitionsAtStart(topic_id, source.count(topic), both))
            part.append(TopicNames(topic_id, topic, topic, target.topics[topic]))
        for at in partitions:
            key, topic_id = self.key(flow, at), source.topics[at.topic]
            part.append(Placement(key, running.claim, 0, target.logs[at].end))
            shared = both or reverse.may_hold_copies(at.topic, topic_id)
            position = self.appended.get((flow, at), 0)
            running.streams[at] = Stream(key, at, target.topics[at.topic], both, shared, position)

    def step(self, flow: int, at: TopicPartition) -> bool:
        """Send what is promised, or read one batch of the source; False when there is nothing to do."""
        source, target = self.clusters[flow], self.clusters[1 - flow]
        running = self.running.get((flow, target.lane(at)))
        stream = running.streams.get(at) if running is not None else None
        if running is None or stream is None:
            return False
        if stream.promised is not None:
            target.logs[at].append(stream.promised)
            stream.position = self.appended[flow, at] = stream.promised.source_end
            stream.promised = None
            return True
        batch = next((b for b in source.logs[at].batches if b.base >= stream.position), None)
        data = batch is not None and not batch.control and batch.records
        reverse = self.readings[flow][running.worker]
        self.named.pop((flow, at), None)
        if stream.shared:
            response = SimpleNamespace(records=[(batch.header, b"")] if data and batch is not None else [])
            held = done(reverse.hold(stream, cast(Any, response), running.journal))
            if held is not None:
                self.named[flow, at] = f"{held.event}: {held.reason}"
                return False
        if batch is None:
            return False
        if not data or (stream.shared and reverse.known_of(stream).leaves_out(batch.header)):
            stream.position = batch.end
        else:
            by = running.claim
            copy = Batch(0, len(batch.records), by.producer_id, by.epoch, batch.records, source_end=batch.end)
            stream.promised = copy
        return True

    # -- the schedule, and what must hold behind it --------------------------------------------------------------------

    def run(self, actions: int, *, damage: bool) -> None:
        """A random schedule, then peace: both flows run until nothing is left to do."""
        chance = self.chance
        for _ in range(actions):
            self.now += chance.choice([0.0, 0.3, 2.0])
            at = chance.randrange(2)
            target, partition = self.clusters[1 - at], chance.choice(list(self.clusters[0].logs))
            match chance.choices(
                [
                    "write",
                    "step",
                    "claim",
                    "join",
                    "kill",
                    "clean",
                    "forget",
                    "elect",
                    "add",
                    "switch",
                    "expire",
                    "damage",
                ],
                [8, 22, 4, 2, 1, 0.7, 0.3, 0.5, 0.7, 0.3, 0.3, 0.5 if damage else 0],
            )[0]:
                case "write":
                    self.write(at, partition)
                case "step":
                    for _ in range(4):
                        self.step(at, partition)
                case "claim":
                    self.claim(at, chance.randrange(target.lanes))
                case "join":
                    self.join(at, chance.randrange(target.lanes))
                case "kill":
                    self.kill_worker(at, chance.randrange(WORKERS))
                case "clean":
                    self.clean(self.clusters[at].logs[partition])
                case "forget":
                    self.clusters[at].logs[partition].marked.clear()
                case "elect":
                    chance.choice(target.journal).elected = True
                case "add" if len(target.topics) < MOST_TOPICS and chance.random() < 0.5:
                    self.add_topic()
                case "add" if target.count(partition.topic) < MOST_PARTITIONS:
                    self.add_partition(partition.topic)
                case "switch":
                    self.switch(at, not self.enabled[at])
                case "expire" if target.transactional:
                    self.expire(at, chance.choice(sorted(target.transactional)))
                case "damage":
                    self.damage(at)
        self.rest()

    def rest(self) -> None:
        self.dies = 0.0
        for flow in (0, 1):
            if not self.enabled[flow]:
                self.switch(flow, True)
            if self.damaged != flow:  # the operator is asked, and knows
                self.words.add(self.clusters[1 - flow].journal_id)
        for _ in range(6):
            for flow in (0, 1):
                for lane in range(self.clusters[1 - flow].lanes):
                    self.claim(flow, lane)
            for _ in range(ROUNDS):
                self.now += 2
                if not sum(self.step(flow, at) for at in self.clusters[0].logs for flow in (0, 1)):
                    break
            else:
                raise AssertionError("no end: records go round in a loop")

    def findings(self) -> list[str]:
        """What is missing without a name, or there more than once."""
        found: list[str] = []
        there = [
            {at: Counter(r for b in log.batches for r in b.records) for at, log in c.logs.items()}
            for c in self.clusters
        ]
        for record, (home, at) in self.own.items():
            here, away = (self.clusters[c].logs[at] for c in (home, 1 - home))
            counts = there[home][at][record], there[1 - home][at][record]
            if counts[0] + (record in here.cleaned) != 1:
                found.append(f"record {record} of {at} at {home} is {counts[0]} times there")
            if counts[1] + (record in away.cleaned) > 1:
                found.append(f"record {record} of {at} at {home} was copied {counts[1]} times")
            named = any((flow, at) in self.named for flow in (0, 1))
            if not (counts[1] or record in here.cleaned or record in away.cleaned or named):
                found.append(f"record {record} of {at} at {home} was not copied, and nothing says why")
        if self.damaged < 0:
            found += [f"flow {flow} stops at {at} without a fault: {why}" for (flow, at), why in self.named.items()]
        return found
