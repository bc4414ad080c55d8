"""Clusters in a ring, each with one log of one topic, and what happens to them: a model of the rules alone.

A flow copies in one lane what clients wrote to its source, and in one more for each number of flows that copied a record
before: a relay. Each lane has a journal and a producer ID of its own, so a batch shows how far it has come. Lanes
claim, promise, append and are killed between any two of these steps. What recovery counts is taken from the truth, as in
`two_way_model`, which also has clients that contradict a journal.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import dataclass, replace

from two_way_model import CLAIMS_AT_REST, Accepted, Batch, Cluster, Journal, Refused, Running, Shared

from drlib.kafka.protocol.batch import NO_PRODUCER
from drlib.mirror.engine.reverse.rules import Known, Origin
from drlib.mirror.journal.entries import Claim, ClaimId

Lane = tuple[int, int]
"""The source of its flow, and how many flows have copied its records before."""

RULES = frozenset({"origin", "journal end", "memory", "incoming begun", "siblings accepted"})


@dataclass
class Ring:
    """The world: flow `n` copies from cluster `n` to the next one. `rules` may leave one out, to see the checker find it."""

    chance: random.Random
    size: int = 3
    rules: frozenset[str] = RULES
    filled: bool = False  # one cluster had records before anything was mirrored
    faults: bool = False

    def __post_init__(self) -> None:
        self.lanes: list[Lane] = [(at, hop) for at in range(self.size) for hop in range(self.size - 1)]
        self.clusters = [Cluster() for _ in range(self.size)]
        self.journals = {lane: Journal(number) for number, lane in enumerate(self.lanes)}
        self.transactional: dict[Lane, tuple[int, int]] = {}
        self.running: dict[Lane, Running] = {}
        self.lane_of: dict[tuple[int, int], Lane] = {}  # by cluster and producer ID: a lane counts its own batches
        self.parked: dict[Lane, str] = {}
        self.appended = dict.fromkeys(self.lanes, 0)
        self.own: list[list[int]] = [[] for _ in range(self.size)]
        self.clients: list[list[int]] = [[] for _ in range(self.size)]
        self.records, self.identities = itertools.count(), itertools.count(100)
        self.truncated: Lane | None = None
        self.begun = False  # every lane has claimed the topic: until then clients write to one cluster only
        self.filled_at = self.chance.randrange(self.size) if self.filled else -1
        if self.filled:
            self.write(self.filled_at)

    def target(self, lane: Lane) -> int:
        return (lane[0] + 1) % self.size

    def incoming(self, lane: Lane) -> list[Journal]:
        """The journals of the flow that fills the lane's source, by the number of flows before."""
        before = (lane[0] - 1) % self.size
        return [self.journals[before, hop] for hop in range(self.size - 1)]

    def siblings(self, lane: Lane) -> list[Journal]:
        return [self.journals[lane[0], hop] for hop in range(self.size - 1)]

    # -- clients and brokers ---------------------------------------------------------------------------------------

    def write(self, at: int) -> None:
        cluster, chance = self.clusters[at], self.chance
        records = tuple(next(self.records) for _ in range(chance.randint(1, 3)))
        producer = NO_PRODUCER
        if chance.random() < 0.7:
            if not self.clients[at] or chance.random() < 0.3:
                self.clients[at].append(next(cluster.producers))
            producer = chance.choice(self.clients[at])
        cluster.append(Batch(0, len(records), producer, 0, records))
        self.own[at] += records

    def lose_journal(self, lane: Lane) -> None:
        """Delete a flow's journals of one hop, or let one lose its newest entries in an unclean election."""
        self.faults = True
        if self.truncated not in (None, lane):
            return
        if self.chance.random() < 0.5:
            self.journals[lane] = Journal(next(self.identities))
            return
        self.truncated = lane
        self.journals[lane].lose_end(self.chance)

    # -- a lane ----------------------------------------------------------------------------------------------------

    def kill(self, lane: Lane) -> None:
        self.running.pop(lane, None)

    def expire_transactional_id(self, lane: Lane) -> None:
        self.kill(lane)
        self.transactional.pop(lane, None)

    def claim(self, lane: Lane) -> None:
        """Fence, and perhaps die before anything is journaled; then read the journal and count what was appended."""
        target, journal = self.clusters[self.target(lane)], self.journals[lane]
        self.kill(lane)
        producer, epoch = self.transactional.get(lane) or (next(target.producers), -1)
        self.transactional[lane] = producer, epoch + 1
        target.append(Batch(0, 1, producer, epoch + 1, control=True))
        if self.chance.random() < 0.2:
            return
        newest, begun = journal.newest, journal.accepted
        mine = [b for b in target.log if self.lane_of.get((self.target(lane), b.producer)) == lane and not b.control]
        if begun and any(b.epoch > newest.get(b.producer, -1) for b in mine):
            self.parked[lane] = "the journal lost promises"
            journal.entries.append(Refused())
        claim = ClaimId(producer, epoch + 1)
        journal.entries.append(Claim(claim, 0, 0, ""))
        journal.elected = False
        if not begun and self.explained(lane):
            journal.entries.append(Accepted())
        self.begun = self.begun or all(each.accepted for each in self.journals.values())
        position = self.appended[lane] if begun else 0
        known = Known({}, relayed=frozenset() if lane[1] else None)
        self.running[lane] = Running(claim, journal.identity, len(journal.entries), position, known)

    def explained(self, lane: Lane) -> bool:
        """Does the mirror hold no record, or was the source never written? Without memory a journal is taken as it is found."""
        source, target = self.clusters[lane[0]], self.clusters[self.target(lane)]
        empty = not any(batch.records for batch in target.log)
        return empty or not source.written or "memory" not in self.rules

    def admitted(self, lane: Lane) -> bool:
        """May the source be read? Both flows have begun, and the incoming flow's journals are those that were known first."""
        journal, incoming = self.journals[lane], self.incoming(lane)
        if "incoming begun" in self.rules and not all(each.accepted for each in incoming):
            return False
        if "siblings accepted" in self.rules and not all(each.accepted for each in self.siblings(lane)):
            return False
        now = tuple(each.identity for each in incoming)
        if journal.shared is None:
            journal.entries.append(Shared(now))
            self.running[lane].written = len(journal.entries)
        elif journal.shared != now and "memory" in self.rules:
            self.parked[lane] = "the incoming flow's journal is another one"
            return False
        return True

    def step(self, lane: Lane) -> bool:
        """Send what is promised, or read one batch of the source; False when there is nothing to do."""
        running, journal = self.running.get(lane), self.journals[lane]
        if running is None or self.parked.get(lane):
            return False
        if running.promised is not None:
            target = self.target(lane)
            self.lane_of[target, running.promised.producer] = lane
            self.clusters[target].append(running.promised)
            running.position = self.appended[lane] = running.promised.source_end
            running.promised = None
            return True
        if not journal.accepted or not self.admitted(lane):
            return False
        source = self.clusters[lane[0]]
        batch = next((b for b in source.log if b.base >= running.position), None)
        if batch is None:
            return False
        contiguous = batch.base == running.position
        if batch.control or not batch.records:
            running.position = batch.end
            return True
        if not self.judged(lane, running, batch, source):
            return False
        if running.known.leaves_out(batch.header):
            running.position = batch.end
            return True
        if not contiguous or running.position == 0:
            if journal.identity != running.journal or len(journal.entries) < running.written:
                self.kill(lane)  # the write shows that the journal is not the one that was written
                return True
            journal.elected = False
        producer, epoch = running.claim.producer_id, running.claim.epoch
        running.promised = Batch(0, len(batch.records), producer, epoch, batch.records, source_end=batch.end)
        return True

    def judged(self, lane: Lane, running: Running, batch: Batch, source: Cluster) -> bool:
        """Learn who wrote a batch; False where that is not decided, and the lane is parked."""
        known, incoming = running.known, self.incoming(lane)
        writer = batch.producer, batch.epoch, batch.transactional
        if known.origin(writer) is not Origin.UNKNOWN:
            return True
        if "journal end" in self.rules or not known.newest:
            newest = {p: e for each in incoming for p, e in each.newest.items()}
            relayed = frozenset(incoming[lane[1] - 1].newest) if lane[1] else None
            if "origin" not in self.rules and lane[1]:
                relayed = frozenset(newest)  # whatever was copied is copied further
            known = replace(known, newest=dict(known.newest) | newest, relayed=relayed)
        whole = not any(each.elected for each in incoming)
        origin = known.judge(writer, marked=source.marked.get(batch.producer), whole=whole)
        if origin is Origin.CONTRADICTION or any(Refused() in each.entries for each in incoming):
            self.parked[lane] = "not decided"
            return False
        if origin is Origin.CLIENT:
            known = replace(known, clients=frozenset({*known.clients, batch.producer}))
        running.known = known
        return True

    # -- the schedule, and what must hold behind it ----------------------------------------------------------------

    def run(self, actions: int, *, faults: bool) -> None:
        """A random schedule, then peace: all lanes run until nothing is left to do."""
        chance = self.chance
        for _ in range(actions):
            at, lane = chance.randrange(self.size), chance.choice(self.lanes)
            match chance.choices(
                ["write", "step", "claim", "kill", "clean", "forget", "expire", "lose"],
                [6, 30, 5, 1, 1, 0.5, 0.5, 0.4 if faults else 0],
            )[0]:
                case "write" if self.begun or at == self.filled_at:
                    self.write(at)
                case "step":
                    self.step(lane)
                case "claim" if lane not in self.running or chance.random() < 0.3:
                    self.claim(lane)
                case "kill":
                    self.kill(lane)
                case "clean":
                    self.clusters[at].clean(chance)
                case "forget":
                    self.clusters[at].marked.clear()
                case "expire":
                    self.expire_transactional_id(lane)
                case "lose":
                    self.lose_journal(lane)
        idle = 0
        for _ in range(100 * (actions + sum(len(own) for own in self.own))):
            if sum(self.step(lane) for lane in self.lanes):
                continue
            idle += 1
            due = [
                lane
                for lane in self.lanes
                if not self.parked.get(lane) and not (lane in self.running and self.journals[lane].shared)
            ]
            if not due or idle > CLAIMS_AT_REST:
                break
            for lane in due:
                self.claim(lane)
        else:
            raise AssertionError("no end: records go round in a loop")

    def findings(self) -> list[str]:
        """What is missing without a name, or there more than once."""
        found: list[str] = []
        stopped = any(self.parked.values()) or any(j.shared is None for j in self.journals.values())
        for at, own in enumerate(self.own):
            for number, cluster in enumerate(self.clusters):
                here = Counter(r for b in cluster.log for r in b.records)
                for record in own:
                    gone = record in cluster.cleaned
                    if here[record] > 1 or (here[record] and gone):
                        found.append(f"record {record} of cluster {at} is {here[record]} times on {number}")
                    cleaned = any(record in each.cleaned for each in self.clusters)
                    if not here[record] and not (cleaned or stopped):
                        found.append(f"record {record} of cluster {at} is not on {number}, and nothing says why")
        if not self.faults and stopped:
            found.append(f"stopped without a fault: {self.parked}")
        return found
