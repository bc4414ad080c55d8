"""What leaders named, as it is kept."""

from __future__ import annotations

from uuid import UUID

from drlib.kafka.net.requests import ProducerState
from drlib.mirror.journal.entries import SourcePartition
from drlib.mirror.journal.producers.kinds import KeptProducer
from drlib.mirror.source_producers.leaders import Known
from drlib.mirror.source_producers.recorder import by_partition
from drlib.model import TopicPartition

P, KEY = TopicPartition("orders", 0), SourcePartition(UUID(int=1), 0)


def test_by_partition_leaves_our_own_lanes_out() -> None:
    found = [
        Known(P, ProducerState(7, 1, 9, 40, txn_start_offset=3), "app"),
        Known(P, ProducerState(8, 0, 9, -1)),
        Known(P, ProducerState(9, 0, 9, 50), "drlib.B.A.0.0"),
    ]
    assert by_partition(found, {P: KEY}) == {KEY: [KeptProducer(7, 1, 40, True, "app"), KeptProducer(8, 0, 0)]}
