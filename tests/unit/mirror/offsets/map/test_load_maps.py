"""Maps of a flow: under which ID what is kept elsewhere about a topic is found again."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence

import pytest

from drlib.errors import NoLeader, UsageError
from drlib.kafka.net.cluster_client import ClusterClient, ClusterMetadata, PartitionMetadata, TopicMetadata
from drlib.kafka.topic_ids import NO_TOPIC_ID, made_id, stand_in
from drlib.mirror.journal.entries import (
    Chunk,
    ClaimId,
    Entry,
    Placement,
    Run,
    SourcePartition,
    TopicIdentified,
    TopicNames,
)
from drlib.mirror.journal.renamed import identified, stand_ins
from drlib.mirror.offsets.map import load_maps
from drlib.mirror.offsets.map.load_maps import Maps, _ends, build_maps, read_maps
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.model import Segment, TopicPartition, Translation, TranslationKind

FIRST, SECOND = made_id("cluster", "t", 1), made_id("cluster", "t", 2)
REAL, MIRROR, OTHER = (uuid.UUID(int=n, version=4) for n in (1, 2, 3))


def maps(*entries: Entry) -> Maps:
    return Maps(journaled={**identified(entries), **stand_ins(entries)})


def test_first_id_of_a_topic_without_an_id_differs_from_that_of_the_topic_before() -> None:
    before = maps(TopicNames(FIRST, "t", "S.t", MIRROR))
    after = maps(TopicNames(FIRST, "t", "S.t", MIRROR), TopicNames(SECOND, "t", "S.t", MIRROR))
    assert before.first_id(stand_in("t")) == FIRST
    assert after.first_id(stand_in("t")) == SECOND


def test_first_id_survives_the_upgrade_that_gives_the_topic_an_id() -> None:
    names = TopicNames(FIRST, "t", "S.t", MIRROR)
    after = maps(names, TopicIdentified(FIRST, REAL, 1), TopicNames(REAL, "t", "S.t", MIRROR))
    assert after.first_id(REAL) == maps(names).first_id(stand_in("t")) == FIRST


def test_first_id_of_a_topic_with_an_id_or_never_mirrored_is_that_of_its_metadata() -> None:
    assert maps(TopicNames(REAL, "t", "S.t", MIRROR)).first_id(REAL) == REAL
    assert maps().first_id(stand_in("t")) == stand_in("t")


def recreated(newer: int, *, mirror: uuid.UUID = MIRROR) -> Maps:
    """A topic of 10 records, copied to the mirror's offsets 0 to 9, that was created again with `newer` records, from 11 on."""
    found = Maps()
    for topic_id, target_id, at, count in ((REAL, mirror, 0, 10), (OTHER, MIRROR, 11, newer)):
        found.names[topic_id] = TopicNames(topic_id, "t", "S.t", target_id)
        offsets = found.by_partition[SourcePartition(topic_id, 0)] = PartitionMap()
        offsets.apply(Chunk(SourcePartition(topic_id, 0), 0, (Segment(0, at, count),) if count else ()))
    return found


@pytest.mark.parametrize("newer", [0, 3, 30])
@pytest.mark.parametrize("read", [0, 4, 10])
def test_forward_of_a_checkpoint_of_the_topic_before_continues_where_it_was_in_the_mirror(
    read: int, newer: int
) -> None:
    found = recreated(newer).forward("g", TopicPartition("t", 0), read, there=read)
    assert found == Translation(read, TranslationKind.EXACT)


def test_forward_of_a_checkpoint_of_the_topic_before_that_expired_in_the_mirror_is_lost() -> None:
    found = recreated(3).forward("g", TopicPartition("t", 0), 4, there=4, target_log_start=9)
    assert found == Translation(9, TranslationKind.LOST, 5, 5)


@pytest.mark.parametrize(("position", "there", "offset"), [(0, 11, 11), (2, 13, 13), (3, 12, 14)])
def test_forward_of_a_checkpoint_of_the_newer_topic_is_by_the_map(position: int, there: int, offset: int) -> None:
    """Its position counts, which may be ahead of what the mirror had when the checkpoint was written."""
    found = recreated(3).forward("g", TopicPartition("t", 0), position, there=there)
    assert found == Translation(offset, TranslationKind.EXACT)


def test_forward_after_the_mirror_topic_was_recreated_too_is_by_the_map() -> None:
    found = recreated(3, mirror=uuid.UUID(int=9)).forward("g", TopicPartition("t", 0), 2, there=5)
    assert found == Translation(13, TranslationKind.EXACT)


def lane(*topics: tuple[uuid.UUID, int]) -> Maps:
    """A lane's maps: of each topic its ID and how many records of partition 0 were copied, None of them where it is -1."""
    found = Maps()
    for topic_id, count in topics:
        found.names[topic_id] = TopicNames(topic_id, "t", "S.t", MIRROR)
        if count >= 0:
            found.get(SourcePartition(topic_id, 0)).apply(
                Chunk(SourcePartition(topic_id, 0), 0, (Segment(0, 0 if topic_id == REAL else 11, count),))
            )
    return found


@pytest.mark.parametrize(
    "lanes",
    [
        [lane((OTHER, -1)), lane((REAL, 10), (OTHER, 3))],  # the earlier topic had no partition in the first lane
        [lane((REAL, 10), (OTHER, 3)), lane((REAL, -1))],  # the newer one has none in the second
        [lane((OTHER, -1)), lane((REAL, -1)), lane((REAL, 10), (OTHER, 3))],
    ],
)
def test_newest_topic_of_a_name_is_that_of_a_lane_which_knows_both(lanes: list[Maps]) -> None:
    found = Maps()
    found.merge(lanes)
    newest = found.source("t", 0)
    assert newest is not None
    assert newest.source_end == 3
    assert found.of_target("S.t") == found.newest("t") == TopicNames(OTHER, "t", "S.t", MIRROR)


def test_lanes_that_contradict_each_other_are_merged_all_the_same() -> None:
    found = Maps()
    found.merge([lane((REAL, 10), (OTHER, 3)), lane((OTHER, -1), (REAL, -1))])
    assert found.names.keys() == {REAL, OTHER}


def test_position_in_a_topic_created_again_of_which_nothing_was_mirrored_is_unknown() -> None:
    at, later = TopicPartition("t", 0), uuid.UUID(int=9, version=4)
    found, unknown = recreated(3), Translation(None, TranslationKind.UNKNOWN)
    assert found.forward("g", at, 2, topic_id=OTHER) == Translation(13, TranslationKind.EXACT)
    assert found.forward("g", at, 2, topic_id=later) == unknown
    assert found.forward("g", at, 2, there=13, topic_id=later) == Translation(13, TranslationKind.EXACT)
    for not_known in (None, NO_TOPIC_ID, stand_in("t")):
        assert not found.replaced("t", not_known)
    assert found.replaced("t", REAL)  # an ID comes once


def test_map_of_the_topic_before_stands_for_no_newer_one() -> None:
    at, unknown = TopicPartition("t", 0), Translation(None, TranslationKind.UNKNOWN)
    found = recreated(3)
    found.refuse(SourcePartition(OTHER, 0), UsageError("no map", "its log contradicts the journal", ""))
    assert found.source("t", 0) is None
    assert found.forward("g", at, 2) == found.forward("g", at, 2, there=2) == unknown
    missing = recreated(3)
    del missing.by_partition[SourcePartition(OTHER, 0)]  # the lane of the partition does not know the newer topic yet
    assert missing.forward("g", at, 2) == unknown
    assert missing.forward("g", at, 2, there=2) == Translation(2, TranslationKind.EXACT)
    assert missing.refusal("t", 0) is None


def test_refusal_of_the_topic_before_is_none_of_the_newer_one() -> None:
    found = recreated(3)
    found.refuse(SourcePartition(REAL, 0), UsageError("no map", "its mirror was created again", ""))
    assert found.refusal("t", 0) is None
    assert found.forward("g", TopicPartition("t", 0), 2) == Translation(13, TranslationKind.EXACT)


class WithoutLeader(ClusterClient):
    """A cluster that has one topic of one partition, without a leader."""

    async def metadata(self, topics: Sequence[str] | None) -> ClusterMetadata:
        found = TopicMetadata("A.t", MIRROR, 0, {0: PartitionMetadata(0, -1, 0, (5,), (), 0)}, internal=False)
        return ClusterMetadata("c", 5, {}, {found.name: found})


def test_partition_without_a_leader_has_no_map_for_a_reader_who_asks_nothing_of_it() -> None:
    key, claim = SourcePartition(REAL, 0), ClaimId(1, 0)
    entries = [TopicNames(REAL, "t", "A.t", MIRROR), Placement(key, claim, 0, 0), Run(key, claim, 0, 0)]
    target = WithoutLeader(["127.0.0.1:1"], alias="B")
    found = asyncio.run(build_maps(target, entries, asyncio.run(_ends(target, entries))))
    assert not found.by_partition
    (why,) = found.without_leader.values()
    assert (why.partition, why.why) == ("A.t-0", "it has no leader on B: the brokers that hold it are down")
    assert found.refusal("t", 0) is why  # which a planned move raises
    translated = found.forward("g", TopicPartition("t", 0), 3)
    assert translated == Translation(None, TranslationKind.UNKNOWN)


def test_partition_of_a_lane_that_was_not_read_is_refused_where_no_lane_that_was_read_has_its_map() -> None:
    why = NoLeader("journal-1", "B")
    found = Maps(unread={1: why})
    found.names[REAL] = TopicNames(REAL, "t", "B.t", MIRROR)
    found.get(SourcePartition(REAL, 0)).cover(0)
    assert (found.refusal("t", 0), found.refusal("t", 1), found.refusal("other", 0)) == (None, why, why)
    unknown = Translation(None, TranslationKind.UNKNOWN)
    assert [found.forward("g", TopicPartition(*at), 3) for at in (("t", 1), ("other", 0))] == [unknown] * 2
    assert not found.never_ran


class HalfTheJournal(ClusterClient):
    """A cluster with a journal of two lanes, of which the brokers of the first `down` ones are down."""

    def __init__(self, down: int) -> None:
        super().__init__(["127.0.0.1:1"], alias="B")
        self._down = down

    async def metadata(self, topics: Sequence[str] | None) -> ClusterMetadata:
        lanes = {n: PartitionMetadata(n, -1 if n < self._down else 5, 0, (5,), (), 0) for n in range(2)}
        return ClusterMetadata("c", 5, {}, {"journal": TopicMetadata("journal", MIRROR, 0, lanes, internal=False)})


def test_journal_of_which_one_lane_has_no_leader_is_read_without_it_by_who_asks_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []

    async def lane(target: ClusterClient, partition: TopicPartition) -> list[Entry]:
        read.append(partition.partition)
        return []

    monkeypatch.setattr(load_maps, "read_journal", lane)
    for down, partly, lanes, unread in ((1, True, {1}, {0}), (1, False, {0, 1}, set()), (2, True, {0, 1}, set())):
        read.clear()
        found = asyncio.run(read_maps(HalfTheJournal(down), "journal", partly=partly))
        assert (set(read), found.unread.keys()) == (lanes, unread)
