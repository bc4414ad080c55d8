"""What a flow's journals say of the source's producers."""

from __future__ import annotations

from uuid import UUID

from drlib.kafka.net.requests import ProducerState
from drlib.mirror.journal.entries import Producers, ProducersKnown, SourcePartition, TopicNames
from drlib.mirror.journal.producers.kinds import KeptProducer
from drlib.mirror.source_producers.find import KeptOfSource, kept_in
from drlib.mirror.source_producers.leaders import Known
from drlib.model import TopicPartition

T1, T2 = UUID(int=1), UUID(int=2)


def names(topic_id: UUID, topic: str = "orders") -> TopicNames:
    return TopicNames(topic_id, topic, f"A.{topic}", UUID(int=9))


def test_kept_in_names_producers_by_topic_and_is_as_old_as_its_oldest_lane() -> None:
    one = Producers(SourcePartition(T1, 0), 0, (KeptProducer(7, 1, 40),))
    other = Producers(SourcePartition(T2, 3), 0, (KeptProducer(8, 0, 0, True, "app"),))
    found = kept_in({
        0: [names(T1), one, ProducersKnown(100, 130, 1)],
        1: [names(T2, "sums"), other, ProducersKnown(90, 140, 2)],
        2: [],
    })  # fmt: skip
    assert found.known == (
        Known(TopicPartition("orders", 0), ProducerState(7, 1, -1, 40)),
        Known(TopicPartition("sums", 3), ProducerState(8, 0, -1, -1, coordinator_epoch=0), "app"),
    )
    assert (found.topics, found.asked_ms, found.copied_ms, found.left_out, found.lanes) == (
        {"orders", "sums"}, 90, 130, 3, ()
    )  # fmt: skip


def test_kept_in_counts_the_newest_topic_of_a_name() -> None:
    old = Producers(SourcePartition(T1, 0), 0, (KeptProducer(7, 1, 40),))
    new = Producers(SourcePartition(T2, 0), 0, (KeptProducer(8, 0, 50),))
    found = kept_in({0: [names(T1), old, names(T2), new, ProducersKnown(100, 130, 0)]})
    assert [each.state.producer_id for each in found.known] == [8]


def test_kept_in_names_lanes_whose_worker_kept_nothing() -> None:
    found = kept_in({0: [names(T1), ProducersKnown(100, 130, 0)], 1: [names(T1)], 2: []})
    assert (found.lanes, found.asked_ms, found.copied_ms) == ((1,), 0, 130)
    assert kept_in({}) == KeptOfSource()
