"""Records of others between ours, and markers of our own: the placement shifts, the map stays exact, nothing is resent."""

from __future__ import annotations

from uuid import UUID

import pytest

from drlib.kafka.net.requests import FetchedPartition
from drlib.kafka.protocol import recode
from drlib.mirror.engine.fencing.producer_expiration import last_sequence
from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.journal.entries import Ack, ClaimId, Placement, SourcePartition
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.model import Segment, TopicPartition

P = SourcePartition(UUID(int=1), 0)
C = ClaimId(7, 3)
NOW = 1_800_000_000_000


def fetched(first: int, batches: int) -> FetchedPartition:
    """`batches` batches of 10 records each, large enough to stay apart."""
    data = bytearray()
    for at in range(first, first + 10 * batches, 10):
        records = [recode.Record(offset=i, timestamp=NOW + at + i, key=None, value=b"v" * 100) for i in range(10)]
        batch = recode.rebuild(records, codec=0, producer_id=-1, producer_epoch=-1, base_sequence=-1)
        raw = bytearray(b"".join([bytes(batch.head), bytes(batch.body)]))
        raw[0:8] = at.to_bytes(8)
        data += raw
    end = first + 10 * batches
    return FetchedPartition(P.topic_id, 0, 0, end, end, 0, (), None, -1, -1, memoryview(bytes(data)))


@pytest.fixture
def stream() -> PartitionStream:
    found = PartitionStream(
        P, TopicPartition("t", 0), TopicPartition("A.t", 0), C, PartitionMap(), position=0, target_next=5
    )
    found.start(NOW)
    return found


def test_what_others_wrote_in_between_shifts_everything_behind_it(stream: PartitionStream) -> None:
    stream.plan(fetched(0, 4))
    for _ in range(3):
        stream.send_next()
    assert stream.acknowledge(5, NOW) is not None
    assert stream.expected == 15
    assert stream.shift_placement(18) == Placement(P, C, 10, 18)
    assert stream.acknowledge(18, NOW) is not None
    assert stream.expected == 28  # the next one on its way moved along
    stream.send_next()  # and so does what is sent from now on
    assert stream.acknowledge(28, NOW) is not None
    assert stream.acknowledge(38, NOW) is not None
    assert list(stream.map.segments()) == [Segment(0, 5, 10), Segment(10, 18, 30)]
    assert stream.map.forward(10).offset == 18


def test_an_offset_below_the_expected_one_is_never_believed(stream: PartitionStream) -> None:
    stream.plan(fetched(0, 1))
    stream.send_next()
    assert stream.acknowledge(4, NOW) is None
    assert stream.acked == 0


def test_no_acknowledgement_is_journaled_while_a_stretch_of_others_is_read_back(stream: PartitionStream) -> None:
    stream.plan(fetched(0, 2))
    stream.send_next()
    stream.send_next()
    stream.acknowledge(5, NOW)
    stream.inquiries += 1
    stream.shift_placement(16)
    stream.acknowledge(16, NOW)
    assert stream.progress() == []
    stream.inquiries -= 1
    assert Ack(P, C, 20, 26) in stream.progress()


def test_a_marker_of_ours_takes_an_offset_and_the_sequence_goes_on(stream: PartitionStream) -> None:
    stream.plan(fetched(0, 2))
    stream.send_next()
    stream.acknowledge(5, NOW)
    assert last_sequence(stream.acked) == 9
    assert stream.marker_written(16, NOW + 1) == Placement(P, C, 10, 16)
    assert stream.last.timestamp == NOW + 1
    batch = stream.send_next()
    assert int.from_bytes(bytes(batch.head)[53:57]) == 10
    assert stream.acknowledge(16, NOW) is not None
    assert list(stream.map.segments()) == [Segment(0, 5, 10), Segment(10, 16, 10)]
