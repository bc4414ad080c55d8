"""A followed journal: one partition that contradicts itself, or whose mirror was refused, takes no other one with it."""

from __future__ import annotations

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
from drlib.mirror.offsets.map.follow_journal import JournalFollower
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
    follower._read[0] = await follower._whole(TopicPartition("journal", 0))
    assert follower.map(0, TOPIC, 1) is None
    sound = follower.map(0, TOPIC, 0)
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
