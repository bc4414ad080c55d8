"""IDs of topics that have none of Kafka's."""

from __future__ import annotations

import uuid

from drlib.kafka.topic_ids import NO_TOPIC_ID, is_made, made_id, may_be, next_made_id, reported, stand_in

REAL = uuid.uuid4()


def test_made_ids_are_pinned_and_recognised() -> None:
    """Journals outlive versions: these must not change."""
    assert str(made_id("b2xk", "topic", 1)) == "66412427-4aa2-5335-82f3-24eb3249c73e"
    assert str(stand_in("topic")) == "6a385d12-781a-5fdf-89f3-9787e9370544"
    assert is_made(made_id("b2xk", "topic", 1))
    assert is_made(stand_in("topic"))
    assert not is_made(REAL)
    assert not is_made(NO_TOPIC_ID)


def test_made_ids_differ_by_cluster_topic_and_number() -> None:
    every = {made_id(cluster, topic, number) for cluster in "ab" for topic in "tu" for number in (1, 2)}
    assert len(every | {stand_in("t"), stand_in("u")}) == 10


def test_next_made_id_follows_the_highest_in_use() -> None:
    first, second, third = (made_id("c", "t", number) for number in (1, 2, 3))
    assert next_made_id("c", "t", ()) == first
    assert next_made_id("c", "t", {first, REAL}) == second
    assert next_made_id("c", "t", {second}) == third


def test_reported_and_may_be() -> None:
    assert reported("t", REAL) == REAL
    assert reported("t", None) == reported("t", NO_TOPIC_ID) == stand_in("t")
    assert may_be(REAL, REAL)
    assert may_be(stand_in("t"), made_id("c", "t", 4))
    assert may_be(stand_in("t"), REAL)  # a broker that does not know its ID yet
    assert not may_be(REAL, made_id("c", "t", 4))
    assert not may_be(REAL, uuid.uuid4())
