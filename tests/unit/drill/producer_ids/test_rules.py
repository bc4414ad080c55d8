"""Which producers of two clusters collide, and what follows."""

from __future__ import annotations

import pytest

from drlib.drill.producer_ids.rules import Effect, find_collisions
from drlib.kafka.net.requests import ProducerState
from drlib.mirror.source_producers.leaders import Known
from drlib.model import TopicPartition

ORDERS = TopicPartition("orders", 0)


def known(
    producer_id: int, epoch: int = 0, *, at: int = 0, name: str = "", transactional: bool = False, written_ms: int = 5
) -> Known:
    state = ProducerState(producer_id, epoch, 9, written_ms, coordinator_epoch=0 if transactional else -1)
    return Known(TopicPartition("orders", at), state, name)


@pytest.mark.parametrize(
    ("epochs", "effect"), [((0, 0), Effect.LOST), ((0, 1), Effect.REFUSED), ((2, 1), Effect.FENCES)]
)
def test_collision_effect_follows_from_the_epochs(epochs: tuple[int, int], effect: Effect) -> None:
    (found,) = find_collisions([known(7, epochs[0])], [known(7, epochs[1])])
    assert (found.producer_id, found.partitions, found.effect) == (7, (ORDERS,), effect)


@pytest.mark.parametrize(
    "there",
    [[], [known(8)], [Known(TopicPartition("other", 0), known(7).state)]],
    ids=["no producer", "another ID", "another topic"],
)
def test_find_collisions_needs_the_same_id_in_the_same_topic(there: list[Known]) -> None:
    assert find_collisions([known(7)], there) == ()


def test_producer_collides_in_a_partition_that_it_has_not_written_to() -> None:
    (found,) = find_collisions([known(7, at=1), known(7, at=2)], [known(7), known(7, at=3)])
    assert (found.partitions, found.effect) == ((ORDERS, TopicPartition("orders", 3)), Effect.LOST)
    (same,) = find_collisions([known(7, 1), known(7, 0, at=1)], [known(7)])
    assert same.effect is Effect.FENCES, "where it has written, its epoch there is known"


@pytest.mark.parametrize(
    ("here", "there", "collide"),
    [
        (known(7), known(7, name="drlib.A.B.0", transactional=True), True),  # a lane, where mirrors keep their names
        (known(7), known(7, transactional=True), True),
        (known(7, transactional=True), known(7), False),
        (known(7, name="shop"), known(7), False),
        (known(7, transactional=True), known(7, transactional=True), True),  # names unknown: may be one application
        (known(7, name="shop"), known(7, transactional=True), True),
        (known(7, name="shop"), known(7, name="shop"), True),
        (known(7, name="shop"), known(7, name="drlib.A.B.0"), False),
    ],
)
def test_transactional_producer_collides_only_with_its_own_transactional_id(
    here: Known, there: Known, collide: bool
) -> None:
    assert bool(find_collisions([here], [there])) is collide


def test_find_collisions_puts_partitions_of_one_producer_together_and_lost_records_first() -> None:
    here = [known(1), known(7, at=2), known(7, at=0, written_ms=8), known(7, 1, at=1)]
    there = [known(1, 3), known(7, at=0, written_ms=6), known(7, at=2), known(7, at=1)]
    first, refused, fences = find_collisions(here, there)
    assert first.partitions == (TopicPartition("orders", 0), TopicPartition("orders", 2))
    assert (first.effect, first.source_ms, first.target_ms) == (Effect.LOST, 8, 6)
    assert [refused.effect, fences.effect] == [Effect.REFUSED, Effect.FENCES]
