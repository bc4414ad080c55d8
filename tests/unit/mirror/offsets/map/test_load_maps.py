"""Maps of a flow: under which ID what is kept elsewhere about a topic is found again."""

from __future__ import annotations

import uuid

from drlib.kafka.topic_ids import made_id, stand_in
from drlib.mirror.journal.entries import Entry, TopicIdentified, TopicNames
from drlib.mirror.journal.renamed import identified, stand_ins
from drlib.mirror.offsets.map.load_maps import Maps

FIRST, SECOND = made_id("cluster", "t", 1), made_id("cluster", "t", 2)
REAL, MIRROR = (uuid.UUID(int=n, version=4) for n in (1, 2))


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
