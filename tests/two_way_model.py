"""Two logs of one topic, two flows that copy in both directions, and what happens to them: a model of the rules alone.

A flow claims, promises, appends and is killed between any two of these steps, as the engine does; whether it skips a batch is
decided by `drlib.mirror.engine.reverse.rules`. Clients of both clusters write, cleaners remove records, brokers forget
producers, journals are deleted or lose their ends, and a cluster loses its disks: its topic and the journal on it are new.
What recovery counts is taken from the truth: it is proven elsewhere.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import dataclass, field, replace

from drlib.kafka.protocol.batch import CONTROL_MASK, NO_PRODUCER, TRANSACTIONAL_MASK, BatchHeader
from drlib.mirror.engine.reverse.rules import Known, Origin, newest_epochs
from drlib.mirror.journal.entries import Claim, ClaimId

CLAIMS_AT_REST = 12  # of a flow that has nothing to do, before it counts as waiting for good


@dataclass(frozen=True)
class Batch:
    """`records`: what is left of it, by identity. `source_end`: of a copy, where it ends on the flow's source."""

    base: int
    size: int
    producer: int
    epoch: int
    records: tuple[int, ...] = ()
    transactional: bool = False
    control: bool = False
    source_end: int = -1

    @property
    def end(self) -> int:
        return self.base + self.size

    @property
    def header(self) -> BatchHeader:
        kind = TRANSACTIONAL_MASK * self.transactional | CONTROL_MASK * self.control
        return BatchHeader(self.base, 61, 0, 2, 0, kind, self.size - 1, 0, 0, self.producer, self.epoch, 0, self.size)


@dataclass(frozen=True)
class Accepted:
    """The topic's names are journaled: the mirror held no record that is not explained."""


@dataclass(frozen=True)
class Shared:
    """The topic is read, and these are the journals of the reverse, or incoming, flow, by which copies are recognised."""

    journals: tuple[int, ...]
    topic: int = 0


@dataclass(frozen=True)
class Begun:
    """A topic of the source is copied to offsets of the target from this one on."""

    topic: int
    offset: int


@dataclass(frozen=True)
class Refused:
    """The mirror's log contradicts the journal."""


@dataclass
class Journal:
    """On the target of its flow. `elected`: it has another leader since its newest entry."""

    identity: int
    entries: list[Claim | Accepted | Shared | Begun | Refused] = field(default_factory=list)
    elected: bool = False

    @property
    def accepted(self) -> bool:
        return Accepted() in self.entries

    @property
    def shared(self) -> tuple[int, ...] | None:
        return next((e.journals for e in self.entries if isinstance(e, Shared)), None)

    def remembered(self, topic: int) -> tuple[int, ...] | None:
        return next((e.journals for e in self.entries if isinstance(e, Shared) and e.topic == topic), None)

    def begun(self, topic: int) -> int | None:
        return next((e.offset for e in self.entries if isinstance(e, Begun) and e.topic == topic), None)

    @property
    def newest(self) -> dict[int, int]:
        return newest_epochs([e for e in self.entries if isinstance(e, Claim)])

    def lose_end(self, chance: random.Random) -> None:
        """Its newest entries are lost in an unclean election."""
        del self.entries[len(self.entries) - chance.randint(0, len(self.entries)) :]
        self.elected = bool(self.entries)


@dataclass
class Cluster:
    log: list[Batch] = field(default_factory=list)
    end: int = 0
    producers: itertools.count[int] = field(default_factory=lambda: itertools.count(1000))
    marked: dict[int, bool] = field(default_factory=dict)  # producers that the leader knows; were there markers?
    transactional: tuple[int, int] | None = None  # producer ID and epoch of the lane that writes here
    cleaned: set[int] = field(default_factory=set)
    written: bool = False  # was there ever a record?
    topic: int = 0  # how often it was created again

    def append(self, batch: Batch) -> None:
        self.log.append(replace(batch, base=self.end))
        self.end += batch.size
        self.written = self.written or not batch.control
        if batch.producer != NO_PRODUCER:
            self.marked[batch.producer] = batch.control or self.marked.get(batch.producer, False)

    def clean(self, chance: random.Random) -> None:
        """The cleaner removes some records of one batch; the batch stays, or goes with the last of them."""
        full = [n for n, batch in enumerate(self.log) if batch.records]
        if not full:
            return
        number = chance.choice(full)
        batch = self.log[number]
        left = tuple(r for r in batch.records if chance.random() < 0.4)
        self.cleaned |= set(batch.records) - set(left)
        if left or chance.random() < 0.5:
            self.log[number] = replace(batch, records=left)
        else:
            del self.log[number]


@dataclass
class Running:
    """What a worker knows while it runs. `promised`: a batch that may be sent now."""

    claim: ClaimId
    journal: int  # its identity when it was claimed
    written: int  # entries that it must hold
    position: int
    known: Known = field(default_factory=lambda: Known({}))
    promised: Batch | None = None


@dataclass
class TwoWay:
    """The world. `rules` may leave one out, to see the checker find it."""

    chance: random.Random
    rules: frozenset[str] = frozenset({"journal end", "memory", "markers", "accepted", "begun"})
    clusters: tuple[Cluster, Cluster] = field(default_factory=lambda: (Cluster(), Cluster()))
    journals: list[Journal] = field(default_factory=lambda: [Journal(0), Journal(1)])  # by source of the flow
    running: list[Running | None] = field(default_factory=lambda: [None, None])
    parked: list[str] = field(default_factory=lambda: ["", ""])
    own: list[list[int]] = field(default_factory=lambda: [[], []])  # committed records of each cluster's clients
    records: itertools.count[int] = field(default_factory=itertools.count)
    identities: itertools.count[int] = field(default_factory=lambda: itertools.count(2))
    clients: list[list[int]] = field(default_factory=lambda: [[], []])
    appended: list[int] = field(default_factory=lambda: [0, 0])  # source position of each flow, as recovery finds it
    faults: bool = False
    lost: set[int] = field(default_factory=set)  # records that were on disks that a cluster lost
    truncated: int | None = None  # the flow whose journal lost its end

    # -- clients and brokers ---------------------------------------------------------------------------------------

    def write(self, at: int) -> None:
        """A client writes a batch: without a producer ID, with a new or an old one, or in a transaction."""
        cluster, chance = self.clusters[at], self.chance
        records = tuple(next(self.records) for _ in range(chance.randint(1, 3)))
        kind = chance.choice(["plain", "idempotent", "idempotent", "committed", "aborted"])
        producer = NO_PRODUCER
        if kind != "plain":
            known = self.clients[at]
            if not known or chance.random() < 0.3 or kind in ("committed", "aborted"):
                producer = next(cluster.producers)
                if kind == "idempotent":
                    known.append(producer)
            else:
                producer = chance.choice(known)
        inside = kind in ("committed", "aborted")
        kept = records if kind != "aborted" else ()  # read_committed never sees them
        cluster.append(Batch(0, len(records), producer, 0, kept, inside))
        if inside:
            cluster.append(Batch(0, 1, producer, 0, control=True))
        self.own[at] += kept

    def forget(self, at: int) -> None:
        """The leader forgets its producers; the next batch of one is without the markers before it."""
        self.clusters[at].marked.clear()

    def lose_journal(self, flow: int) -> None:
        """Delete a journal, or let it lose its newest entries in an unclean election."""
        self.faults = True
        if self.truncated not in (None, flow):
            return  # of two journals that lost their ends none remembers the other
        if self.chance.random() < 0.5:
            self.journals[flow] = Journal(next(self.identities))
            return
        self.truncated = flow
        self.journals[flow].lose_end(self.chance)

    def lose_disks(self, at: int) -> None:
        """A cluster comes back empty: its topic is another one, and of the flow to it nothing is known any more."""
        cluster = self.clusters[at]
        self.lost |= {*self.own[at]}
        cluster.log, cluster.end, cluster.topic = [], 0, cluster.topic + 1
        cluster.marked.clear()
        cluster.cleaned.clear()
        self.journals[1 - at] = Journal(next(self.identities))
        self.running, self.appended = [None, None], [0, 0]

    # -- a flow ----------------------------------------------------------------------------------------------------

    def kill(self, flow: int) -> None:
        self.running[flow] = None

    def expire_transactional_id(self, flow: int) -> None:
        """After a week without a worker its next claim gets another producer ID."""
        self.kill(flow)
        self.clusters[1 - flow].transactional = None

    def claim(self, flow: int) -> None:
        """Fence, and perhaps die before anything is journaled; then read the journal and count what was appended."""
        target, journal = self.clusters[1 - flow], self.journals[flow]
        self.running[flow] = None
        producer, epoch = target.transactional or (next(target.producers), -1)
        target.transactional = producer, epoch + 1
        target.append(Batch(0, 1, producer, epoch + 1, control=True))
        if self.chance.random() < 0.2:
            return
        newest = journal.newest
        mine = [b for b in target.log if b.source_end >= 0]
        begun = journal.accepted
        if begun and any(b.epoch > newest.get(b.producer, -1) for b in mine):
            self.parked[flow] = "the journal lost promises"
            journal.entries.append(Refused())
        journal.entries.append(Claim(ClaimId(producer, epoch + 1), 0, 0, ""))
        journal.elected = False
        topic, accepts = self.clusters[flow].topic, not begun and self.explained(flow)
        if (begun or accepts) and journal.begun(topic) is None:
            journal.entries.append(Begun(topic, target.end))
        if accepts:
            journal.entries.append(Accepted())
        claim, position = ClaimId(producer, epoch + 1), self.appended[flow] if begun else 0
        self.running[flow] = Running(claim, journal.identity, len(journal.entries), position)

    def explained(self, flow: int) -> bool:
        """Does the mirror hold no record, or, by the operator's word for this journal, only those of the cluster's clients?"""
        journal, reverse = self.journals[flow], self.journals[1 - flow]
        empty = not any(b.records for b in self.clusters[1 - flow].log)
        first = "memory" not in self.rules or (journal.identity == flow and reverse.shared is None)
        return empty or first

    def step(self, flow: int) -> bool:
        """Send what is promised, or read one batch of the source; False when there is nothing to do."""
        running = self.running[flow]
        if running is None or self.parked[flow]:
            return False
        journal, reverse = self.journals[flow], self.journals[1 - flow]
        if running.promised is not None:
            self.clusters[1 - flow].append(running.promised)
            running.position = self.appended[flow] = running.promised.source_end
            running.promised = None
            return True
        if not journal.accepted or ("accepted" in self.rules and not reverse.accepted):
            return False  # the mirror, or the source, may hold copies that no journal explains
        source, topic = self.clusters[flow], self.clusters[1 - flow].topic
        if journal.remembered(source.topic) is None:
            journal.entries.append(Shared((reverse.identity,), source.topic))
            running.written = len(journal.entries)
            return True
        if reverse.remembered(topic) is None and "accepted" in self.rules:
            return False  # before anything is copied, both journals remember each other
        batch = next((b for b in source.log if b.base >= running.position), None)
        if batch is None:
            return False
        contiguous = batch.base == running.position
        if batch.control or not batch.records:
            running.position = batch.end
            return True
        if (reverse.identity,) != journal.remembered(source.topic) and "memory" in self.rules:
            self.parked[flow] = "the reverse flow's journal is another one"
            return False
        writer = batch.producer, batch.epoch, batch.transactional
        known = running.known
        begun = reverse.begun(topic) if "begun" in self.rules else 0
        before = begun is not None and batch.base < begun  # what was brought from a topic that is gone
        if known.origin(writer) is Origin.UNKNOWN and not before:
            if "journal end" in self.rules or not known.newest:
                known = replace(known, newest=dict(known.newest) | reverse.newest)
            marked = source.marked.get(batch.producer) if "markers" in self.rules else False
            origin = known.judge(writer, marked=marked, whole=not reverse.elected)
            if origin is Origin.CONTRADICTION or Refused() in reverse.entries:
                self.parked[flow] = "not decided"
                return False
            if origin is Origin.CLIENT:
                known = replace(known, clients=frozenset({*known.clients, batch.producer}))
            running.known = known
        if known.origin(writer) is Origin.COPY and not before:
            running.position = batch.end
            return True
        if not contiguous or not journal.entries or running.position == 0:
            if journal.identity != running.journal or len(journal.entries) < running.written:
                self.kill(flow)  # the write shows that the journal is not the one that was written
                return True
            journal.elected = False
        count = len(batch.records)
        copy = Batch(0, count, running.claim.producer_id, running.claim.epoch, batch.records, source_end=batch.end)
        running.promised = copy
        return True

    # -- the schedule, and what must hold behind it ----------------------------------------------------------------

    def run(self, actions: int, *, faults: bool, disks: bool = False) -> None:
        """A random schedule, then peace: both flows run until nothing is left to do."""
        chance = self.chance
        lost_at = chance.randrange(actions) if disks else -1
        for number in range(actions):
            at = chance.randrange(2)
            if number == lost_at:
                self.lose_disks(at)
            match chance.choices(
                ["write", "step", "claim", "kill", "clean", "forget", "expire", "lose"],
                [8, 14, 2, 1, 1, 0.3, 0.5, 0.4 if faults else 0],
            )[0]:
                case "write" if (
                    not self.clusters[at].topic or self.journals[1 - at].accepted
                ):  # else the operator is asked
                    self.write(at)
                case "step":
                    self.step(at)
                case "claim" if self.running[at] is None or chance.random() < 0.3:
                    self.claim(at)
                case "kill":
                    self.kill(at)
                case "clean":
                    self.clusters[at].clean(chance)
                case "forget":
                    self.forget(at)
                case "expire":
                    self.expire_transactional_id(at)
                case "lose":
                    self.lose_journal(at)
        idle = 0
        for _ in range(40 * (actions + sum(len(own) for own in self.own))):
            if sum(self.step(flow) for flow in (0, 1)):
                continue
            idle += 1
            due = [f for f in (0, 1) if not self.parked[f] and not (self.running[f] and self.remembers(f))]
            if not due or idle > CLAIMS_AT_REST:
                break
            for flow in due:
                self.claim(flow)
        else:
            raise AssertionError("no end: records go round in a loop")

    def remembers(self, flow: int) -> bool:
        return self.journals[flow].remembered(self.clusters[flow].topic) is not None

    def findings(self) -> list[str]:
        """What is missing without a name, or there more than once."""
        found: list[str] = []
        for at in (0, 1):
            here, there = (Counter(r for b in self.clusters[c].log for r in b.records) for c in (at, 1 - at))
            flow = at
            asleep = not all(self.remembers(each) for each in (0, 1))
            stopped, back = self.parked[flow] or asleep, self.parked[1 - flow] or asleep
            for record in self.own[at]:
                gone = record in self.clusters[at].cleaned
                if record in self.lost:
                    if there[record] and here[record] + gone == 0 and not back:
                        found.append(f"record {record} of cluster {at} did not come back, and nothing says why")
                    gone = gone or not here[record]
                if here[record] + gone != 1:
                    found.append(f"record {record} of cluster {at} is {here[record]} times on it")
                gone_there = record in self.clusters[1 - at].cleaned
                if there[record] > 1 or (there[record] and gone_there):
                    found.append(f"record {record} of cluster {at} was copied {there[record]} times")
                elif not there[record] and not (gone or gone_there or stopped):
                    found.append(f"record {record} of cluster {at} was not copied, and nothing says why")
        if not self.faults and (any(self.parked) or not all(journal.accepted for journal in self.journals)):
            found.append(f"stopped without a fault: {self.parked}")
        return found
