"""A followed journal: one partition that contradicts itself, or whose mirror was refused, takes no other one with it."""

from __future__ import annotations

import asyncio
import threading
import tracemalloc
import uuid

import pytest

from drlib.kafka.net.cluster_client import ClusterClient
from drlib.mirror.journal.entries import (
    Ack,
    Chunk,
    ClaimId,
    Entry,
    Expired,
    MirrorRefused,
    Placement,
    Run,
    SourcePartition,
    TopicNames,
)
from drlib.mirror.offsets.map import follow_journal
from drlib.mirror.offsets.map.follow_journal import FollowedMaps, JournalFollower
from drlib.mirror.offsets.map.journal_log import JournalRead
from drlib.model import Segment, TopicPartition

TOPIC, MIRROR = uuid.UUID(int=1), uuid.UUID(int=2)
SOUND, BROKEN = SourcePartition(TOPIC, 0), SourcePartition(TOPIC, 1)
C1, C2 = ClaimId(9, 0), ClaimId(9, 1)


def mirrored(key: SourcePartition, claim: ClaimId, source: int, target: int) -> list[Entry]:
    return [Placement(key, claim, 0, target), Run(key, claim, 0, source), Ack(key, claim, 10, target + 10)]


@pytest.mark.parametrize(
    "entries",
    [
        mirrored(BROKEN, C2, 10, 5),  # the second claim is placed before the first one's end: the log was truncated
        [MirrorRefused(BROKEN, "its log lost 3 offsets", 0)],
    ],
)
async def test_follower_partition_without_a_sound_map_has_none_and_others_do(
    monkeypatch: pytest.MonkeyPatch, entries: list[Entry]
) -> None:
    journal = [TopicNames(TOPIC, "t", "A.t", MIRROR), *mirrored(SOUND, C1, 0, 1), *mirrored(BROKEN, C1, 0, 1)]

    async def read(client: ClusterClient, partition: TopicPartition, purpose: str) -> JournalRead:
        return JournalRead(MIRROR, 100, (*journal, *entries))

    monkeypatch.setattr(follow_journal, "read_through", read)
    follower = JournalFollower(ClusterClient(["127.0.0.1:1"]), "journal", 1)
    found = FollowedMaps(threading.Lock(), {0: await follower._whole(TopicPartition("journal", 0))})
    assert found.map(0, TOPIC, 1) is None
    sound = found.map(0, TOPIC, 0)
    assert sound is not None
    assert sound.forward(4).offset == 5


def following(*entries: Entry) -> follow_journal._Read:
    read = follow_journal._Read(MIRROR, 0)
    for entry in entries:
        read.apply(entry)
    return read


def test_follower_knows_a_chunk_only_if_it_read_all_that_the_chunk_replaces() -> None:
    """What was cleaned before it was read is in the chunk alone."""
    first, second = mirrored(SOUND, C1, 0, 1), mirrored(SOUND, C2, 20, 21)
    chunk = Chunk(SOUND, 0, (Segment(0, 1, 10), Segment(20, 21, 10)))
    assert following(*first, *second).has(chunk)
    assert not following(*first).has(chunk)
    assert not following(*second).has(chunk)
    assert not following().has(chunk)
    assert following(MirrorRefused(SOUND, "its log lost 3 offsets", 0)).has(chunk)
    assert following(*first, *second, Expired(SOUND, 0, 1, 10, 11, 10)).has(chunk)
    assert following(*second, Expired(SOUND, 0, 1, 10, 11, 10)).has(chunk)
    assert not following(*first, Expired(SOUND, 0, 1, 10, 11, 10)).has(chunk)


def test_follower_forgets_a_topic_that_is_gone() -> None:
    other = SourcePartition(uuid.UUID(int=7), 0)
    names = [TopicNames(TOPIC, "t", "A.t", MIRROR), TopicNames(other.topic_id, "u", "A.u", MIRROR)]
    refused = MirrorRefused(BROKEN, "its log lost 3 offsets", 0)
    read = following(*names, *mirrored(SOUND, C1, 0, 1), *mirrored(other, C1, 0, 1), refused)
    read.forget(TOPIC)
    assert (list(read.maps.names), list(read.maps.by_partition), list(read.maps.refused)) == (
        [other.topic_id],
        [other],
        [],
    )
    read.forget(TOPIC)


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> list[Entry]:
    """Entries of a journal's only partition, which a follower reads whole when it has none of them, as they are then."""
    entries: list[Entry] = [TopicNames(TOPIC, "t", "A.t", MIRROR)]

    async def whole(follower: JournalFollower, lane: int) -> None:
        if lane not in follower._read:
            await asyncio.sleep(0)
            follower._read[lane] = following(*entries)

    monkeypatch.setattr(JournalFollower, "_refresh", whole)
    return entries


def new_follower() -> JournalFollower:
    return JournalFollower(ClusterClient(["127.0.0.1:1"]), "journal", 1)


async def test_follower_with_two_users_reads_and_keeps_each_map_once(journal: list[Entry]) -> None:
    journal += mirrored(SOUND, C1, 0, 1)
    follower = new_follower()
    forth, back = await asyncio.gather(follower.refresh("forth"), follower.refresh("back"))
    assert forth.map(0, TOPIC, 0) is back.map(0, TOPIC, 0) is not None
    assert forth.lock is back.lock
    assert forth.target_id(0, TOPIC) == MIRROR


async def test_follower_drops_its_maps_with_the_last_user_and_no_sooner(journal: list[Entry]) -> None:
    journal += mirrored(SOUND, C1, 0, 1)
    follower = new_follower()
    before = (await follower.refresh("forth")).map(0, TOPIC, 0)
    await follower.refresh("back")
    follower.release("back")  # as when its task is restarted
    assert (await follower.refresh("back")).map(0, TOPIC, 0) is before
    follower.release("forth")
    follower.release("forth")
    assert follower._read
    follower.release("back")
    assert not follower._read
    assert (await follower.refresh("forth")).map(0, TOPIC, 0) is not before


async def test_view_of_a_follower_keeps_its_maps_while_they_are_read_again(journal: list[Entry]) -> None:
    """A translation in a thread must not see that a lane has no maps for a moment."""
    journal += mirrored(SOUND, C1, 0, 1)
    follower = new_follower()
    view = await follower.refresh("forth")
    follower._read.pop(0)
    found = view.map(0, TOPIC, 0)
    assert found is not None
    assert found.forward(4).offset == 5


def kept_bytes(followers: list[JournalFollower]) -> int:
    """Bytes that the maps of all followers take, two users to each flow."""

    async def refresh() -> list[FollowedMaps]:
        return [await follower.refresh(n) for n, follower in enumerate(followers)]

    tracemalloc.start()
    try:
        held = asyncio.run(refresh())
        assert all(view.map(0, TOPIC, 0) for view in held)
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_maps_for_both_directions_of_group_synchronization_take_the_memory_of_one(journal: list[Entry]) -> None:
    journal += many_runs(20, 200)
    shared, one = new_follower(), new_follower()
    of_one, of_shared = kept_bytes([one]), kept_bytes([shared, shared])
    apart = kept_bytes([new_follower(), new_follower()])
    assert of_shared < 1.1 * of_one
    assert apart > 1.8 * of_one


def many_runs(partitions: int, runs: int) -> list[Entry]:
    """A journal of partitions with a gap after each tenth record."""
    entries: list[Entry] = []
    for number in range(partitions):
        key = SourcePartition(TOPIC, number)
        entries.append(Placement(key, C1, 0, 1))
        entries += (Run(key, C1, 10 * n, 20 * n) for n in range(runs))
        entries.append(Ack(key, C1, 10 * runs, 10 * runs + 1))
    return entries
