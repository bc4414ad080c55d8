"""Entries about one topic under several IDs: read as about one, deleted under all."""

from __future__ import annotations

import uuid

from drlib.kafka.topic_ids import made_id, stand_in
from drlib.mirror.journal.entries import (
    Ack,
    Claim,
    ClaimId,
    Entry,
    Expired,
    Incarnation,
    Placement,
    Run,
    Sealed,
    SourcePartition,
    TopicIdentified,
    TopicNames,
    decode,
)
from drlib.mirror.journal.renamed import both_keys, identified, rename, renamed, stand_ins
from drlib.mirror.offsets.map.fold_claims import about_topics, fold, unfold, valid_entries
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.model import TranslationKind

OLD, MADE = made_id("cluster", "t", 1), made_id("cluster", "t", 2)
REAL, MIRROR, THERE = (uuid.UUID(int=n, version=4) for n in (1, 2, 3))
P, Q = SourcePartition(MADE, 0), SourcePartition(REAL, 0)
C, D = ClaimId(7, 0), ClaimId(7, 1)
BEFORE: list[Entry] = [
    Claim(C, 0, 1, "w"),
    TopicNames(MADE, "t", "S.t", MIRROR),
    Placement(P, C, 0, 10),
    Run(P, C, 0, 5),
    Ack(P, C, 3, 13),
]
AFTER: list[Entry] = [
    TopicIdentified(MADE, REAL, 1),
    Claim(D, 0, 1, "w"),
    TopicNames(REAL, "t", "S.t", MIRROR),
    Ack(Q, C, 4, 14),
    Sealed(Q, C, 4, True),
    Placement(Q, D, 0, 20),
    Run(Q, D, 0, 9),
    Ack(Q, D, 1, 21),
]


def _map(entries: list[Entry]) -> PartitionMap:
    found = PartitionMap()
    for entry in unfold(entries):
        if getattr(entry, "partition", None) == Q:
            found.apply(entry)
    return found


def test_renamed_map_is_continued_and_later_entries_supersede() -> None:
    entries = renamed([*BEFORE, *AFTER], identified([*BEFORE, *AFTER]))
    assert [e for e in entries if isinstance(e, Ack)] == [Ack(Q, C, 4, 14), Ack(Q, D, 1, 21)]
    assert [e for e in entries if isinstance(e, TopicNames)] == [TopicNames(REAL, "t", "S.t", MIRROR)]
    offsets = _map(entries)
    for source, target in ((5, 10), (8, 13), (9, 20)):
        assert (offsets.forward(source).offset, offsets.forward(source).kind) == (target, TranslationKind.EXACT)
        assert offsets.backward(target).offset == source


def test_renamed_without_names_is_the_same_and_nothing_else_changes() -> None:
    assert renamed(BEFORE, {}) == BEFORE
    other = TopicNames(THERE, "other", "S.other", MIRROR)
    alias = TopicIdentified(MADE, REAL, 1)
    assert rename(other, {MADE: REAL}) is other
    assert rename(alias, {MADE: REAL}) is alias
    assert rename(Incarnation("t", OLD, MADE, 1), {MADE: REAL}) == Incarnation("t", OLD, REAL, 1)
    unknown = decode(b"\x01\xc8" + MADE.bytes, b"\x01")
    assert rename(unknown, {MADE: REAL}) is unknown


def test_stand_ins_newest_made_id_of_a_topic_without_a_later_one() -> None:
    older = TopicNames(OLD, "t", "S.t", MIRROR)
    assert stand_ins([older, *BEFORE]) == {MADE: stand_in("t")}
    assert stand_ins([older, *BEFORE, TopicNames(REAL, "t", "S.t", MIRROR)]) == {}


def test_both_keys_deletes_what_was_written_before_the_topic_had_an_id() -> None:
    ids = {MADE: REAL}
    keys = [Run(Q, C, 0, 5).key(), Claim(C, 0, 1, "w").key()]
    assert both_keys(keys, ids) == [*keys, Run(P, C, 0, 5).key()]
    assert both_keys(keys, {}) == keys


def test_folded_and_killed_at_any_deletion_leaves_the_same_map() -> None:
    """A fold of renamed entries deletes them under both IDs; a crash on the way leaves a prefix of the deletions."""
    log = [*BEFORE, *AFTER]
    ids = identified(log)
    entries = renamed(log, ids)
    folded = fold(entries, 1)
    assert folded.entries
    forget = both_keys(folded.forget, ids)
    expected = [(segment.source, segment.target, segment.count) for segment in _map(entries).segments()]
    for deleted in range(len(forget) + 1):
        gone = set(forget[:deleted])
        left = [e for e in [*log, *folded.entries] if e.key() not in gone]
        found = _map(renamed(left, identified(left)))
        assert [(s.source, s.target, s.count) for s in found.segments()] == expected, deleted
    compacted = [e for e in [*log, *folded.entries] if e.key() not in set(forget)]
    assert not [e for e in compacted if isinstance(e, Run) and e.partition == P]


def test_topic_that_is_gone_is_forgotten_with_its_identity_last() -> None:
    log = [*BEFORE, *AFTER, Expired(Q, 1, 2, 3, 4, 5)]
    found = about_topics(renamed(log, identified(log)), {REAL}, (), 0)
    assert isinstance(found[-1], TopicIdentified)
    assert isinstance(found[-2], TopicNames)
    assert about_topics(log, {THERE}, (), 0) == []


def test_valid_entries_keep_the_identity() -> None:
    assert TopicIdentified(MADE, REAL, 1) in valid_entries([*BEFORE, *AFTER])
