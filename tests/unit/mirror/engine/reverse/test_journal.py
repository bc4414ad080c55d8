"""The reverse flow's journal, followed over a cluster of this test: what was read decides, and what was lost is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from drlib.errors import Unreachable
from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.batch import BatchHeader, iter_batches
from drlib.kafka.protocol.error_codes import UNKNOWN_TOPIC_OR_PARTITION
from drlib.kafka.protocol.fetch import FetchedPartition
from drlib.mirror.engine.fencing.lanes import lane_of
from drlib.mirror.engine.reverse import journal as module
from drlib.mirror.engine.reverse.journal import UNDECIDED, WAITS, Hold, JournalTopic, ReverseJournal
from drlib.mirror.journal.entries import (
    Chunk,
    Claim,
    ClaimId,
    Entry,
    Folded,
    MirrorRefused,
    OwnRecords,
    PartitionShared,
    Placement,
    Remirrored,
    Shared,
    SharedRelay,
    SourcePartition,
    Takeover,
    TopicIdentified,
    TopicNames,
)
from drlib.mirror.offsets.map.journal_log import LaneJournal
from drlib.model import Segment, TopicPartition

HERE, THERE, JOURNAL = UUID(int=1), UUID(int=2), UUID(int=9)  # `orders` on the source, on the target; the journal
READ, ORDERS = SourcePartition(HERE, 0), TopicPartition("orders", 0)
ADDED, OWN = TopicPartition("orders", 1), TopicPartition("own", 0)  # of two lanes, ADDED belongs to the other one
LANE, CLIENT = ClaimId(700, 3), 800
NAMES = TopicNames(THERE, "orders", "orders", HERE)  # the reverse flow reads THERE and writes HERE
BEGUN = Placement(SourcePartition(THERE, 0), LANE, 0, 0)


@dataclass
class Cluster:
    """A cluster with one journal of one partition and, in `lanes`, its further ones, and `others`, by topic."""

    batches: list[bytes] = field(default_factory=list)
    start: int = 0
    end: int = 0
    topic_id: UUID = JOURNAL
    epoch: int = 0
    marked: frozenset[int] = frozenset()
    exists: bool = True
    breaks_after: int = 1 << 30  # batches of one reading
    reads: int = 0
    others: dict[str, Cluster] = field(default_factory=dict)
    lanes: list[Cluster] = field(default_factory=list)

    def of(self, topic: str) -> Cluster:
        return self.others.get(topic, self)

    def at(self, partition: TopicPartition) -> Cluster:
        return [self.of(partition.topic), *self.lanes][partition.partition]

    def write(self, *entries: Entry, by: ClaimId = LANE) -> None:
        records = [recode.Record(n, 0, e.key(), e.value()) for n, e in enumerate(entries)]
        out = recode.rebuild(records, codec=0, producer_id=by.producer_id, producer_epoch=by.epoch, base_sequence=0)
        raw = bytearray(out.head + bytes(out.body))
        raw[0:8] = self.end.to_bytes(8, "big")
        raw[12:16] = self.epoch.to_bytes(4, "big")
        self.batches.append(bytes(raw))
        self.end += len(records)

    async def metadata(self, topics: Sequence[str]) -> object:
        journal = self.of(topics[0])
        code = 0 if journal.exists else UNKNOWN_TOPIC_OR_PARTITION
        partitions = dict.fromkeys(range(1 + len(self.lanes)))
        described = SimpleNamespace(topic_id=journal.topic_id, error_code=code, partitions=partitions)
        return SimpleNamespace(topics={topics[0]: described})

    async def connection(self, node: int, purpose: str) -> None:
        return None


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    found = Cluster()

    async def locate(client: object, partition: TopicPartition) -> tuple[UUID, int]:
        return found.of(partition.topic).topic_id, 0

    async def ends(connection: object, partitions: Iterable[TopicPartition], when: int) -> dict[TopicPartition, Any]:
        return {each: (found.at(each).end, found.at(each).epoch) for each in partitions}

    async def starts(connection: object, partitions: Iterable[TopicPartition], when: int) -> dict[TopicPartition, int]:
        return {each: found.at(each).start for each in partitions}

    async def producers(connection: object, partitions: object) -> dict[TopicPartition, object]:
        known = [SimpleNamespace(producer_id=p, transactional=True) for p in found.marked]
        return dict.fromkeys((ORDERS, ADDED), known)

    async def read_range(
        connection: object, topic_id: UUID, partition: TopicPartition, start: int, end: int
    ) -> AsyncIterator[tuple[BatchHeader, memoryview]]:
        found.reads += 1
        await asyncio.sleep(0)  # as on a network, others ask meanwhile
        journal = found.at(partition)
        for number, raw in enumerate(journal.batches):
            if number >= journal.breaks_after:
                raise Unreachable("the link broke", "", "")
            for header, view in iter_batches(raw):
                if header.next_offset > start and header.base_offset < end:
                    yield header, view

    monkeypatch.setattr(module, "locate", locate)
    monkeypatch.setattr(module, "read_range", read_range)
    monkeypatch.setattr(requests, "list_offset_epochs", ends)
    monkeypatch.setattr(requests, "list_offsets", starts)
    monkeypatch.setattr(requests, "describe_producers", producers)
    return found


@dataclass
class Own:
    """This flow's own journal, and the partition that is read."""

    entries: list[Entry] = field(default_factory=list)
    lane: str = "lane.0"
    partition: TopicPartition = OWN
    key: SourcePartition = READ
    source: TopicPartition = ORDERS
    target: TopicPartition = ORDERS
    target_id: UUID = THERE
    hop: int = 0
    copied_back: bool = True

    async def append(self, entries: Sequence[Entry]) -> None:
        self.entries += entries


def records_of(*producers: int, epoch: int = 3) -> FetchedPartition:
    data = b""
    for at, producer in enumerate(producers):
        record = recode.Record(0, 0, b"k", b"v")
        out = recode.rebuild([record], codec=0, producer_id=producer, producer_epoch=epoch, base_sequence=0)
        data += at.to_bytes(8, "big") + (out.head + bytes(out.body))[8:]
    return FetchedPartition(HERE, 0, 0, len(producers), len(producers), 0, (), None, -1, -1, memoryview(data))


def journal(cluster: Cluster) -> ReverseJournal:
    return ReverseJournal(cast(ClusterClient, cluster), "journal", 1)


async def held(follower: ReverseJournal, own: Own, response: FetchedPartition) -> Hold | None:
    return await follower.hold(own, response, cast(LaneJournal, own))


def event(hold: Hold | None) -> str:
    return "" if hold is None else hold.event


def test_partition_waits_until_both_journals_know_the_topic_and_each_other(cluster: Cluster) -> None:
    async def run() -> None:
        follower, own = journal(cluster), Own()
        assert event(await held(follower, own, records_of())) == WAITS
        cluster.write(Claim(LANE, 0, 0, "w"), NAMES)
        assert event(await held(follower, own, records_of())) == WAITS
        assert not own.entries, "it may be a partition that it takes over later"
        cluster.write(BEGUN)
        assert event(await held(follower, own, records_of())) == WAITS
        assert own.entries == [Shared(HERE, JOURNAL)], "the reverse flow waits for this"
        cluster.write(Shared(THERE, UUID(int=5)))
        assert await held(follower, own, records_of(LANE.producer_id, CLIENT, -1)) is None
        assert follower.known_of(own).newest == {LANE.producer_id: 3}
        reads = cluster.reads
        assert await held(follower, own, records_of(LANE.producer_id, CLIENT, -1)) is None
        assert cluster.reads == reads, "who is known is not looked for again"
        assert len(own.entries) == 1

    asyncio.run(run())


def ready_cluster(cluster: Cluster) -> Cluster:
    cluster.write(Claim(LANE, 0, 0, "w"), NAMES, BEGUN, Shared(THERE, UUID(int=5)))
    return cluster


def test_claim_that_was_journaled_since_the_last_look_is_found_before_its_batch_is_judged(cluster: Cluster) -> None:
    async def run() -> None:
        follower, own = journal(ready_cluster(cluster)), Own()
        assert await held(follower, own, records_of(CLIENT)) is None
        cluster.write(Claim(ClaimId(701, 0), 1, 0, "w"))
        assert await held(follower, own, records_of(701, epoch=0)) is None
        assert follower.known_of(own).is_copy(next(iter_batches(records_of(701).records))[0])

    asyncio.run(run())


def test_journal_whose_reading_broke_off_forgets_no_claim(cluster: Cluster) -> None:
    async def run() -> None:
        follower, own = journal(ready_cluster(cluster)), Own()
        cluster.write(Claim(ClaimId(701, 0), 1, 0, "w"))
        cluster.breaks_after = 1
        with pytest.raises(Unreachable):
            await held(follower, own, records_of(LANE.producer_id))
        cluster.breaks_after = 1 << 30
        assert await held(follower, own, records_of(LANE.producer_id, 701, epoch=0)) is None
        assert set(follower.known_of(own).newest) == {LANE.producer_id, 701}
        assert not follower.known_of(own).clients

    asyncio.run(run())


def test_batch_that_a_lane_wrote_by_name_into_a_topic_that_was_created_again_is_not_copied_back(
    cluster: Cluster,
) -> None:
    """The flow that wrote it does not journal the new topic, and is disabled then: it went for a topic of one direction."""

    async def run() -> None:
        follower, again = journal(ready_cluster(cluster)), UUID(int=3)
        assert not follower.may_hold_copies("orders", again)
        follower.remember(0, [TopicNames(HERE, "orders", "orders", THERE), Shared(HERE, JOURNAL)])
        assert follower.may_hold_copies("orders", again)
        assert follower.may_hold_copies("orders", HERE)
        assert not follower.may_hold_copies("invoices", UUID(int=4))
        own = Own(key=SourcePartition(again, 0), copied_back=False)
        response = records_of(LANE.producer_id, CLIENT)
        assert await held(follower, own, response) is None
        known = follower.known_of(own)
        assert [known.leaves_out(header) for header, _ in iter_batches(response.records)] == [True, False]
        follower.forget([HERE])  # its mirror is filled again, with all that there is
        assert not follower.may_hold_copies("orders", again)

    asyncio.run(run())


@pytest.mark.parametrize("loss", ["created again", "shorter", "another batch", "gone"])
def test_journal_that_lost_what_was_read_decides_nothing(cluster: Cluster, loss: str) -> None:
    async def run() -> None:
        follower, own = journal(ready_cluster(cluster)), Own()
        assert await held(follower, own, records_of(CLIENT)) is None
        if loss == "created again":
            cluster.topic_id = UUID(int=77)
        elif loss == "shorter":
            cluster.end -= 1
        elif loss == "another batch":
            cluster.batches, cluster.end = [], 0
            cluster.write(Claim(ClaimId(5, 5), 0, 0, "w"), NAMES, BEGUN, Shared(THERE, UUID(int=5)), by=ClaimId(5, 5))
        else:
            cluster.exists = False
        assert event(await held(follower, own, records_of(999))) == UNDECIDED
        assert await held(follower, own, records_of(CLIENT)) is None or loss != "gone"

    asyncio.run(run())


def test_journal_that_is_another_one_than_the_remembered_is_not_read(cluster: Cluster) -> None:
    async def run() -> None:
        follower, own = journal(ready_cluster(cluster)), Own()
        follower.remember(0, [Shared(HERE, UUID(int=66))])
        assert event(await held(follower, own, records_of(CLIENT))) == UNDECIDED
        assert not own.entries

    asyncio.run(run())


def test_writer_that_the_journal_should_explain_is_not_decided(cluster: Cluster) -> None:
    async def run() -> None:
        follower, own = journal(ready_cluster(cluster)), Own()
        assert event(await held(follower, own, records_of(LANE.producer_id, epoch=4))) == UNDECIDED
        cluster.marked = frozenset({999})
        assert event(await held(follower, own, records_of(999))) == UNDECIDED
        cluster.epoch = 1  # another leader since the last entry, and this producer is forgotten
        assert event(await held(follower, own, records_of(998))) == UNDECIDED

    asyncio.run(run())


def test_lane_of_a_further_flow_to_the_source_is_no_copy_of_the_reverse_flow(cluster: Cluster) -> None:
    """It writes markers, too, and mirrors with a prefix, which the pair copies under the same name."""

    async def run() -> None:
        further = Cluster(topic_id=UUID(int=10), exists=False)
        ready_cluster(cluster).others["further"] = further
        cluster.marked = frozenset({999})
        source = cast(ClusterClient, cluster)
        follower, own = ReverseJournal(source, "journal", 1, others=[JournalTopic(source, "further", 1)]), Own()
        assert event(await held(follower, own, records_of(999))) == UNDECIDED, "that flow does not run"
        further.exists = True
        further.write(Claim(ClaimId(999, 2), 0, 0, "w"))
        assert event(await held(follower, own, records_of(999))) == UNDECIDED, "it is newer than its claim there"
        further.write(Claim(ClaimId(999, 3), 1, 0, "w"))
        assert await held(follower, own, records_of(999, LANE.producer_id)) is None
        of_lane, of_reverse = (follower.known_of(own).is_copy(next(iter_batches(records_of(each).records))[0])
                               for each in (999, LANE.producer_id))  # fmt: skip
        assert (of_lane, of_reverse) == (False, True)

    asyncio.run(run())


def test_writer_that_is_forgotten_is_not_decided_where_the_first_entries_of_the_journal_were_deleted(
    cluster: Cluster,
) -> None:
    """Retention had been set for a while, say: the claim of a former producer ID was among them."""

    async def run() -> None:
        follower, own = journal(cluster), Own()
        cluster.write(Claim(ClaimId(999, 0), 0, 0, "w"))
        ready_cluster(cluster).start = 1
        assert event(await held(follower, own, records_of(999, epoch=0))) == UNDECIDED

    asyncio.run(run())


@pytest.mark.parametrize("copied_back", [False, True])
def test_batch_of_a_lane_is_a_copy_where_it_is_not_known_when_that_lane_began(
    cluster: Cluster, copied_back: bool
) -> None:
    async def run() -> None:
        cluster.write(Claim(ClaimId(999, 0), 0, 0, "w"))
        cluster.write(Claim(LANE, 0, 0, "w"), NAMES, Placement(SourcePartition(THERE, 0), LANE, 7, 2))
        cluster.write(Shared(THERE, UUID(int=5)))
        cluster.start = 1
        follower, own = journal(cluster), Own(copied_back=copied_back)
        response = records_of(LANE.producer_id)
        assert await held(follower, own, response) is None
        assert follower.known_of(own).leaves_out(next(iter_batches(response.records))[0])

    asyncio.run(run())


def test_partition_whose_mirror_the_reverse_flow_refuses_is_not_decided(cluster: Cluster) -> None:
    async def run() -> None:
        follower, own = journal(ready_cluster(cluster)), Own()
        assert await held(follower, own, records_of(LANE.producer_id)) is None
        cluster.write(MirrorRefused(SourcePartition(THERE, 0), "it lost entries", 0))
        assert event(await held(follower, own, records_of(999))) == UNDECIDED
        assert await held(follower, own, records_of(LANE.producer_id)) is None, "a lane stays one"

    asyncio.run(run())


def test_partition_that_mirror_maker_began_is_read_once_it_is_known_which_records_are_its_copies(
    cluster: Cluster,
) -> None:
    """They have no producer ID, and neither have records of many clients."""

    async def run() -> None:
        there = SourcePartition(THERE, 0)
        cluster.write(Claim(LANE, 0, 0, "w"), NAMES, Takeover(there, 3, 4, 2, 0, 0), BEGUN, Shared(THERE, UUID(int=5)))
        follower, own = journal(cluster), Own()
        waits = await held(follower, own, records_of(-1, -1, -1, -1))
        assert event(waits) == WAITS
        assert "up to offset 4" in str(waits)
        assert own.entries == [Shared(HERE, JOURNAL)], "the reverse flow does not wait for that"
        cluster.write(OwnRecords(there, ((1, 2),), 0))
        response = records_of(-1, 999, -1, -1, -1, LANE.producer_id)
        assert await held(follower, own, response) is None
        assert not follower.known_of(own).clients, "below the takeover no producer is looked for"
        known = follower.known_of(own)
        assert [known.is_copy(header) for header, _ in iter_batches(response.records)] == [
            *(True, False, True, True),
            *(False, True),
        ]

    asyncio.run(run())


def test_partition_that_is_filled_again_is_not_judged_by_the_takeover_before(cluster: Cluster) -> None:
    async def run() -> None:
        there = SourcePartition(THERE, 0)
        cluster.write(Claim(LANE, 0, 0, "w"), NAMES, Takeover(there, 3, 4, 2, 0, 0), OwnRecords(there, (), 0))
        cluster.write(Remirrored("orders", HERE, 0), NAMES, BEGUN, Shared(THERE, UUID(int=5)))
        follower, own = journal(cluster), Own()
        response = records_of(-1)
        assert await held(follower, own, response) is None
        assert not follower.known_of(own).is_copy(next(iter_batches(response.records))[0])

    asyncio.run(run())


AGAIN = UUID(int=22)
"""`orders` on the target, lost and made again."""


@pytest.mark.parametrize("identified", [False, True])
def test_mirror_that_was_lost_with_this_flows_journal_gets_all_that_the_reverse_flow_brought_before(
    cluster: Cluster, identified: bool
) -> None:
    """Nothing in the new journal says that there was another mirror; the target's former records lie on the source alone."""

    async def run() -> None:
        ready_cluster(cluster)
        read, now = SourcePartition(AGAIN, 0), ClaimId(LANE.producer_id, 4)
        if identified:  # what is there now is what was read before, under a made ID
            cluster.write(TopicIdentified(THERE, AGAIN, 0))
        cluster.write(Claim(now, 0, 0, "w"), replace(NAMES, topic_id=AGAIN), Placement(read, now, 0, 2))
        follower, own = journal(cluster), Own(target_id=AGAIN)
        response = records_of(LANE.producer_id, CLIENT, LANE.producer_id)
        assert event(await held(follower, own, response)) == WAITS
        cluster.write(Shared(AGAIN, UUID(int=6)))
        assert await held(follower, own, response) is None
        known = follower.known_of(own)
        left_out = [known.leaves_out(header) for header, _ in iter_batches(response.records)]
        assert left_out == [identified, False, True]

    asyncio.run(run())


@pytest.mark.parametrize("folded", [False, True])
def test_mirror_that_was_filled_again_gets_all_that_the_reverse_flow_brought_before_it_read_that_mirror(
    cluster: Cluster, folded: bool
) -> None:
    """The flow back is enabled again before the filling is complete: the target's former records lie on the source alone."""

    async def run() -> None:
        cluster.write(Claim(LANE, 0, 0, "w"), NAMES, BEGUN, Shared(THERE, UUID(int=5)))
        follower, own = journal(cluster), Own(target_id=AGAIN)
        follower.remember(0, [Remirrored("orders", AGAIN, 0)])
        response = records_of(LANE.producer_id, CLIENT, LANE.producer_id, LANE.producer_id)
        assert event(await held(follower, own, response)) == WAITS
        read, now = SourcePartition(AGAIN, 0), ClaimId(LANE.producer_id, 4)
        cluster.write(Claim(now, 0, 0, "w"), TopicNames(AGAIN, "orders", "orders", HERE), Shared(AGAIN, UUID(int=5)))
        assert event(await held(follower, own, response)) == WAITS, "it is not known where that one begins"
        stretches: list[Entry] = [
            Chunk(read, 0, (Segment(0, 2, 1),)),
            Folded(read, 1, (now,)),
            Placement(read, now, 1, 3),
        ]
        cluster.write(*(stretches if folded else [Placement(read, now, 0, 2), Placement(read, now, 1, 3)]))
        assert await held(follower, own, response) is None
        known = follower.known_of(own)
        left_out = [known.leaves_out(header) for header, _ in iter_batches(response.records)]
        assert left_out == [False, False, True, True]

    asyncio.run(run())


def test_partition_whose_lane_returns_with_a_mirror_that_another_worker_filled_again_is_admitted_again(
    cluster: Cluster,
) -> None:
    """What was admitted for the former mirror left out all that the reverse flow had brought, which the new one has to have."""

    async def run() -> None:
        follower, response = journal(ready_cluster(cluster)), records_of(LANE.producer_id, CLIENT)
        left_out = []
        for own in (Own(copied_back=False), Own(copied_back=False, target_id=AGAIN)):
            assert await held(follower, own, response) is None
            known = follower.known_of(own)
            left_out.append([known.leaves_out(header) for header, _ in iter_batches(response.records)])
            follower.remember(0, [replace(NAMES, topic_id=HERE, target_topic_id=AGAIN), Remirrored("orders", AGAIN, 0)])
        assert left_out == [[True, False], [False, False]]

    asyncio.run(run())


def test_topic_that_is_filled_again_is_read_by_the_flow_back_once_both_journals_know_it_again(cluster: Cluster) -> None:
    async def run() -> None:
        follower, own = journal(ready_cluster(cluster)), Own()
        assert await held(follower, own, records_of(LANE.producer_id)) is None
        cluster.write(Remirrored("orders", HERE, 0), NAMES, BEGUN)
        follower.forget({HERE})
        assert event(await held(follower, own, records_of(LANE.producer_id))) == WAITS
        assert len(own.entries) == 2, "what the filling has voided is journaled again"
        cluster.write(Shared(THERE, UUID(int=5)))
        assert await held(follower, own, records_of(LANE.producer_id)) is None

    asyncio.run(run())


PARTITIONS = 200


def owns() -> list[Own]:
    at = [TopicPartition("orders", number) for number in range(PARTITIONS)]
    return [Own(key=SourcePartition(HERE, p.partition), source=p, target=p) for p in at]


def begun() -> list[Entry]:
    return [Placement(SourcePartition(THERE, number), LANE, 0, 0) for number in range(PARTITIONS)]


def test_partitions_are_admitted_by_one_reading_of_the_journal(cluster: Cluster) -> None:
    """Each takes a round trip: with thousands of partitions those that are admitted would wait for minutes, too."""

    async def run() -> None:
        cluster.write(Claim(LANE, 0, 0, "w"), NAMES, *begun(), Shared(THERE, UUID(int=5)))
        follower = journal(cluster)
        for own in owns():
            assert await held(follower, own, records_of(LANE.producer_id)) is None
        assert cluster.reads == 1

    asyncio.run(run())


def test_partitions_that_wait_for_the_same_reading_do_not_read_again(cluster: Cluster) -> None:
    async def run() -> None:
        cluster.write(Claim(LANE, 0, 0, "w"), NAMES, *begun())
        follower = journal(cluster)
        waits = await asyncio.gather(*(held(follower, own, records_of(LANE.producer_id)) for own in owns()))
        assert {event(each) for each in waits} == {WAITS}
        assert cluster.reads == 2, "one that had begun does not count for those that asked later"
        cluster.write(MirrorRefused(SourcePartition(THERE, 0), "it lost entries", 0), Shared(THERE, UUID(int=5)))
        assert event(await held(follower, owns()[0], records_of(LANE.producer_id))) == UNDECIDED

    asyncio.run(run())


def test_partition_that_begins_later_is_not_admitted_by_what_was_read_long_before(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        monkeypatch.setattr(module, "FRESH_S", 0.0)
        cluster.write(Claim(LANE, 0, 0, "w"), NAMES, *begun(), Shared(THERE, UUID(int=5)))
        follower, (first, second, *_) = journal(cluster), owns()
        assert await held(follower, first, records_of(LANE.producer_id)) is None
        cluster.write(MirrorRefused(SourcePartition(THERE, 1), "it lost entries", 0))
        assert event(await held(follower, second, records_of(LANE.producer_id))) == UNDECIDED

    asyncio.run(run())


def test_reading_that_broke_off_admits_nothing(cluster: Cluster) -> None:
    async def run() -> None:
        follower, (first, second, *_) = journal(cluster), owns()
        cluster.write(Claim(LANE, 0, 0, "w"), NAMES, *begun(), Shared(THERE, UUID(int=5)))
        assert await held(follower, first, records_of(LANE.producer_id)) is None
        cluster.exists = False
        assert event(await held(follower, first, records_of(999))) == UNDECIDED
        assert event(await held(follower, second, records_of(LANE.producer_id))) == UNDECIDED

    asyncio.run(run())


@dataclass
class SlowOwn(Own):
    """Its journal does not answer. `asked`: since it was written to."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def append(self, entries: Sequence[Entry]) -> None:
        self.entries += entries
        self.asked.set()
        await asyncio.Event().wait()


def test_lane_whose_journal_is_slow_holds_up_its_own_partitions_only(cluster: Cluster) -> None:
    async def run() -> None:
        cluster.write(Claim(LANE, 0, 0, "w"), NAMES, *begun(), Shared(THERE, UUID(int=5)))
        follower, (first, second, third, *_) = journal(cluster), owns()
        slow = [SlowOwn(lane="lane.1", key=each.key, source=each.source, target=each.target) for each in (first, third)]
        waiting = [asyncio.create_task(held(follower, own, records_of(LANE.producer_id))) for own in slow]
        async with asyncio.timeout(30):
            await slow[0].asked.wait()
            assert await held(follower, second, records_of(LANE.producer_id, CLIENT)) is None
            assert await follower.is_remembered(THERE, [second.target], JOURNAL)
        assert [task.done() for task in waiting] == [False, False]
        assert not slow[1].entries, "they are written once for the lane"
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(run())


def test_topic_that_was_read_is_remembered_for_the_other_flow(cluster: Cluster) -> None:
    async def run() -> None:
        follower = journal(ready_cluster(cluster))
        assert await follower.is_remembered(THERE, [ORDERS], UUID(int=5))
        assert not await follower.is_remembered(UUID(int=4), [ORDERS], UUID(int=5))
        assert not follower.remembers(HERE)

    asyncio.run(run())


def two_lanes(cluster: Cluster) -> tuple[ReverseJournal, Own]:
    """The reverse flow and this one share partition 0; partition 1 was added since."""
    cluster.lanes.append(Cluster())
    if lane_of(ORDERS.topic, ORDERS.partition, 2) == 1:
        first, added = cluster.lanes[0], cluster
    else:
        first, added = cluster, cluster.lanes[0]
    assert not added.end
    first.write(Claim(LANE, 0, 0, "w"), NAMES, BEGUN, Shared(THERE, UUID(int=5)))
    follower = ReverseJournal(cast(ClusterClient, cluster), "journal", 2)
    follower.remember(0, [Shared(HERE, JOURNAL)])
    own = Own(
        lane="lane.1", partition=TopicPartition("own", 1), key=SourcePartition(HERE, 1), source=ADDED, target=ADDED
    )
    return follower, own


def lane_of_added(cluster: Cluster) -> Cluster:
    return next(each for each in (cluster, *cluster.lanes) if not each.end)


def test_partition_that_was_added_waits_for_the_reverse_flows_lane_that_has_it(cluster: Cluster) -> None:
    """The journal of that lane never had the topic, which is no loss; nothing is copied before it remembers this flow."""

    async def run() -> None:
        follower, own = two_lanes(cluster)
        lane = lane_of_added(cluster)
        assert event(await held(follower, own, records_of(CLIENT))) == WAITS
        lane.write(
            Claim(ClaimId(701, 0), 0, 0, "w"), NAMES, Placement(SourcePartition(THERE, 1), ClaimId(701, 0), 0, 0)
        )
        assert event(await held(follower, own, records_of(CLIENT))) == WAITS
        assert own.entries == [Shared(HERE, JOURNAL)]
        lane.write(Shared(THERE, UUID(int=5)))
        assert await held(follower, own, records_of(CLIENT)) is None

    asyncio.run(run())


def test_partition_that_was_added_while_the_flow_back_is_disabled_waits_for_nothing(cluster: Cluster) -> None:
    """It waited for a flow that was switched off, and its records with it."""

    async def run() -> None:
        follower, own = two_lanes(cluster)
        own.copied_back = False
        assert await held(follower, own, records_of(CLIENT)) is None
        assert not own.entries, "nothing of the flow back was read there: it takes up the partition as an added one"
        follower.remember(1, [Shared(HERE, JOURNAL)])
        again = Own(key=SourcePartition(HERE, 3), lane="lane.1", partition=own.partition, source=ADDED, target=ADDED)
        again.copied_back = False
        assert event(await held(follower, again, records_of(CLIENT))) == UNDECIDED, "its lane has lost the topic"

    asyncio.run(run())


def test_producer_id_of_a_lane_says_nothing_where_another_lane_has_the_partition(cluster: Cluster) -> None:
    """A client that was redirected from another cluster keeps the ID that it had there. Its records were taken for copies."""

    async def run() -> None:
        follower, added = two_lanes(cluster)
        other = ClaimId(701, 0)
        lane_of_added(cluster).write(
            Claim(other, 0, 0, "w"),
            NAMES,
            Placement(SourcePartition(THERE, 1), other, 0, 0),
            Shared(THERE, UUID(int=5)),
        )
        read = records_of(LANE.producer_id, other.producer_id, CLIENT, epoch=0)
        left_out = []
        for own in (Own(), added):
            assert await held(follower, own, read) is None
            known = follower.known_of(own)
            left_out.append([known.leaves_out(header) for header, _ in iter_batches(read.records)])
        assert left_out == [[True, False, False], [False, True, False]]
        cluster.marked = frozenset({703})
        assert event(await held(follower, added, records_of(703))) == UNDECIDED

    asyncio.run(run())


def test_journal_with_another_number_of_lanes_than_the_file_says_decides_nothing(cluster: Cluster) -> None:
    async def run() -> None:
        ready_cluster(cluster).lanes.append(Cluster())
        held_back = await held(journal(cluster), Own(), records_of(CLIENT))
        assert event(held_back) == UNDECIDED
        assert "2 lanes" in str(held_back)

    asyncio.run(run())


def test_partition_that_the_flow_back_began_and_never_read_is_copied_once_that_flow_is_disabled(
    cluster: Cluster,
) -> None:
    async def run() -> None:
        cluster.write(Claim(LANE, 0, 0, "w"), NAMES, BEGUN)
        assert event(await held(journal(cluster), Own(), records_of(CLIENT))) == WAITS
        assert await held(journal(cluster), Own(copied_back=False), records_of(CLIENT)) is None

    asyncio.run(run())


def test_mirror_that_is_filled_again_is_filled_on_where_the_flow_back_is_disabled_before_it_began(
    cluster: Cluster,
) -> None:
    """It was enabled, so that both journals know each other again, and disabled before it read the new mirror."""

    async def run() -> None:
        follower, own = journal(ready_cluster(cluster)), Own(target_id=AGAIN, copied_back=False)
        follower.remember(0, [Remirrored("orders", AGAIN, 0), Shared(HERE, JOURNAL)])
        response = records_of(LANE.producer_id, CLIENT, -1)
        assert await held(follower, own, response) is None
        known = follower.known_of(own)
        assert not any(known.leaves_out(header) for header, _ in iter_batches(response.records))

    asyncio.run(run())


def test_lane_of_the_reverse_flow_that_lost_its_journal_is_missed_by_the_lane_that_read_its_copies(
    cluster: Cluster,
) -> None:
    async def run() -> None:
        follower, own = two_lanes(cluster)
        follower.remember(1, [Shared(HERE, JOURNAL)])
        assert event(await held(follower, own, records_of(CLIENT))) == UNDECIDED

    asyncio.run(run())


def test_added_partition_is_remembered_only_where_the_reverse_flow_read_it_or_knew_another_journal(
    cluster: Cluster,
) -> None:
    async def run() -> None:
        follower, _ = two_lanes(cluster)
        lane, journal = lane_of_added(cluster), UUID(int=5)
        assert await follower.is_remembered(THERE, [ORDERS], journal)
        assert not await follower.is_remembered(THERE, [ADDED], journal)
        assert await follower.is_remembered(THERE, [ADDED], UUID(int=6)), "this flow's journal was created again"
        lane.write(Shared(THERE, journal))
        assert await follower.is_remembered(THERE, [ADDED], journal), "that lane's part of it was lost"

    asyncio.run(run())


def one_lane_there_and_two_back(cluster: Cluster) -> tuple[ReverseJournal, Own, Own]:
    """This flow's only lane has both partitions; a lane of the reverse flow has written the first one."""
    two_lanes(cluster)
    own = Own(key=SourcePartition(HERE, 1), source=ADDED, target=ADDED)
    return ReverseJournal(cast(ClusterClient, cluster), "journal", 2, own_lanes=1), Own(entries=own.entries), own


def test_lane_of_the_flow_back_that_begins_later_than_others_is_waited_for_and_has_lost_nothing(
    cluster: Cluster,
) -> None:
    """This flow's lane remembered the topic by the first one: the second one was said to have lost its entry."""

    async def run() -> None:
        follower, first, second = one_lane_there_and_two_back(cluster)
        assert await held(follower, first, records_of(CLIENT)) is None
        assert event(await held(follower, second, records_of(CLIENT))) == WAITS
        assert first.entries == [PartitionShared(READ), Shared(HERE, JOURNAL)]
        lane, claim = lane_of_added(cluster), ClaimId(701, 0)
        lane.write(Claim(claim, 0, 0, "w"), NAMES, Placement(SourcePartition(THERE, 1), claim, 0, 0))
        lane.write(Shared(THERE, UUID(int=5)))
        assert await held(follower, second, records_of(CLIENT)) is None
        assert second.entries[2:] == [PartitionShared(second.key), Shared(HERE, JOURNAL)]
        again = ReverseJournal(cast(ClusterClient, cluster), "journal", 2, own_lanes=1)
        again.remember(0, second.entries)
        lane.batches, lane.end = [], 0
        assert event(await held(again, second, records_of(CLIENT))) == UNDECIDED

    asyncio.run(run())


def test_lane_that_remembers_some_partitions_of_a_topic_has_not_read_the_others(cluster: Cluster) -> None:
    """A lane of the flow back that claims later asks this: it was said to have lost its journal, for good."""

    async def run() -> None:
        follower = journal(ready_cluster(cluster))
        assert await follower.is_remembered(THERE, [ADDED], UUID(int=5)), "by an earlier version"
        cluster.write(PartitionShared(SourcePartition(THERE, 0)))
        assert await follower.is_remembered(THERE, [ORDERS], UUID(int=5))
        assert not await follower.is_remembered(THERE, [ADDED], UUID(int=5))
        assert event(await held(follower, Own(key=SourcePartition(HERE, 1)), records_of(CLIENT))) == WAITS

    asyncio.run(run())


RELAY = ClaimId(710, 1)
"""Of the incoming flow of a ring: it writes what another flow copied before."""


def ring(cluster: Cluster) -> ReverseJournal:
    """Of a flow from this cluster: the incoming flow's journals and those of the flow itself, all on one cluster here."""
    for name, number in (("relay", 91), ("own", 92), ("own-relay", 93)):
        cluster.others[name] = Cluster(topic_id=UUID(int=number))
    client = cast(ClusterClient, cluster)
    own = [JournalTopic(client, name, 1) for name in ("own", "own-relay")]
    return ReverseJournal(client, "journal", 1, relays=["relay"], own=own)


def begin_ring(cluster: Cluster) -> None:
    cluster.write(Claim(LANE, 0, 0, "w"), NAMES, BEGUN)
    cluster.others["relay"].write(Claim(RELAY, 0, 0, "w"), NAMES, Placement(SourcePartition(THERE, 0), RELAY, 0, 0))
    for name in ("own", "own-relay"):
        cluster.others[name].write(TopicNames(HERE, "orders", "orders", THERE))


@pytest.mark.parametrize("missing", ["journal", "relay", "own", "own-relay"])
def test_partition_in_a_ring_waits_until_each_journal_of_both_flows_knows_the_topic(
    cluster: Cluster, missing: str
) -> None:
    async def run() -> None:
        follower, own = ring(cluster), Own()
        begin_ring(cluster)
        late = cluster.of(missing)
        kept, late.batches, end, late.end = late.batches, [], late.end, 0
        assert event(await held(follower, own, records_of(CLIENT))) == WAITS
        late.exists = False
        gone = WAITS if missing.startswith("own") else UNDECIDED
        assert event(await held(follower, own, records_of(CLIENT))) == gone
        assert not own.entries
        late.batches, late.end, late.exists = kept, end, True
        assert await held(follower, own, records_of(CLIENT)) is None
        assert own.entries == [Shared(HERE, JOURNAL), SharedRelay(HERE, 1, UUID(int=91))]

    asyncio.run(run())


def test_lanes_of_a_ring_copy_what_clients_and_lanes_wrote_and_none_what_a_relay_wrote(cluster: Cluster) -> None:
    async def run() -> None:
        follower, own, relay = ring(cluster), Own(), Own(lane="relay.0", hop=1)
        begin_ring(cluster)
        read = records_of(CLIENT, LANE.producer_id, RELAY.producer_id, -1, epoch=1)
        left_out = []
        for each in (own, relay):
            assert await held(follower, each, read) is None
            assert len(each.entries) == 2, "each lane remembers the journals"
            known = follower.known_of(each)
            left_out.append([known.leaves_out(header) for header, _ in iter_batches(read.records)])
        assert left_out == [[False, True, True, False], [True, False, True, True]]

    asyncio.run(run())


def test_relay_of_a_ring_copies_nothing_before_the_incoming_journals_were_read(cluster: Cluster) -> None:
    """Batches without a producer ID are known to be a client's without reading anything."""
    known = ring(cluster).known_of(Own(hop=1))
    assert all(known.leaves_out(header) for header, _ in iter_batches(records_of(-1, LANE.producer_id).records))


@pytest.mark.parametrize("journal", ["journal", "relay"])
def test_journal_of_a_ring_that_is_another_one_than_the_remembered_is_not_read(cluster: Cluster, journal: str) -> None:
    async def run() -> None:
        follower, own = ring(cluster), Own()
        begin_ring(cluster)
        other = Shared(HERE, UUID(int=66)) if journal == "journal" else SharedRelay(HERE, 1, UUID(int=66))
        follower.remember(0, [other])
        assert event(await held(follower, own, records_of(CLIENT))) == UNDECIDED
        assert not own.entries

    asyncio.run(run())


def test_partition_of_a_ring_whose_topic_was_created_again_is_not_decided_until_the_former_one_is_forgotten(
    cluster: Cluster,
) -> None:
    """It gets again what the next cluster has."""

    async def run() -> None:
        follower, own, former = ring(cluster), Own(), UUID(int=66)
        begin_ring(cluster)
        follower.remember(0, [TopicNames(former, "orders", "orders", THERE), Shared(former, JOURNAL)])
        assert event(await held(follower, own, records_of(CLIENT))) == UNDECIDED
        follower.forget([former])  # the other clusters have another one, too
        assert await held(follower, own, records_of(CLIENT)) is None

    asyncio.run(run())


def test_topic_that_another_worker_forgot_is_forgotten_with_the_lane_that_returns(cluster: Cluster) -> None:
    """The topic was created again on all clusters meanwhile, and was said to lack that until the worker was restarted."""

    async def run() -> None:
        follower, own, former = ring(cluster), Own(), UUID(int=66)
        begin_ring(cluster)
        before: list[Entry] = [TopicNames(former, "orders", "orders", UUID(int=67)), Shared(former, JOURNAL)]
        now: list[Entry] = [TopicNames(HERE, "orders", "orders", THERE)]
        follower.claimed(0, before)
        follower.claimed(0, [*before, *now])
        assert event(await held(follower, own, records_of(CLIENT))) == UNDECIDED
        follower.claimed(0, now)
        assert not follower.remembers(former)
        assert await held(follower, own, records_of(CLIENT)) is None

    asyncio.run(run())


def test_partition_of_a_ring_that_mirror_maker_began_is_not_decided(cluster: Cluster) -> None:
    async def run() -> None:
        follower, own = ring(cluster), Own()
        begin_ring(cluster)
        cluster.write(Takeover(SourcePartition(THERE, 0), 3, 4, 2, 0, 0))
        assert event(await held(follower, own, records_of(-1))) == UNDECIDED

    asyncio.run(run())
