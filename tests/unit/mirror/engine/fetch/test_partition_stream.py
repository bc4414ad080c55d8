"""Partition streams: merged batches, shifted placements and markers; every record keeps its promised offset."""

from __future__ import annotations

from uuid import UUID

import google_crc32c
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from drlib.kafka.protocol import recode
from drlib.kafka.protocol.batch import CorruptBatch, iter_batches, verify
from drlib.kafka.protocol.fetch import FetchedPartition
from drlib.kafka.protocol.merge_batches import GROWTH
from drlib.mirror.engine.fencing.producer_expiration import last_sequence
from drlib.mirror.engine.fetch.memory import Memory
from drlib.mirror.engine.fetch.partition_stream import BEYOND_END_RESPONSES, SMALL_BYTES, PartitionStream
from drlib.mirror.journal.entries import Ack, ClaimId, Placement, Run, SourcePartition
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.model import Segment, TopicPartition

P = SourcePartition(UUID(int=1), 0)
C = ClaimId(7, 3)
NOW = 1_800_000_000_000
PER_BATCH = 10

# Which of ten offsets are left in each batch, how large a record is, and the codec (0: none, 1: gzip).
logs = st.lists(
    st.tuples(
        st.sets(st.integers(0, PER_BATCH - 1), min_size=1), st.sampled_from([10, 2000]), st.sampled_from([0, 0, 1])
    ),
    min_size=1,
    max_size=12,
)


def batch(base: int, kept: set[int], size: int, codec: int) -> bytes:
    """A batch over ten offsets of which only `kept` remain, as the log cleaner writes it."""
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=0, producer_id=9, producer_epoch=1, base_sequence=0,
        batch_size=1 << 20,
    )  # fmt: skip
    for n in sorted(kept):
        builder.append(n, NOW + base + n, b"%d" % (base + n), bytes(size), [])
    raw = bytearray(builder.build())
    raw[0:8] = base.to_bytes(8, "big")
    raw[23:27] = (PER_BATCH - 1).to_bytes(4, "big")
    raw[17:21] = google_crc32c.value(bytes(raw[21:])).to_bytes(4, "big")
    return bytes(raw)


def fetched(data: bytes, end: int) -> FetchedPartition:
    return FetchedPartition(P.topic_id, 0, 0, end, end, 0, (), None, -1, -1, memoryview(data))


def new_stream(merge_bytes: int, position: int = 0) -> PartitionStream:
    stream = PartitionStream(
        P, TopicPartition("t", 0), TopicPartition("A.t", 0), C, PartitionMap(), position=position,
        target_next=5, merge_bytes=merge_bytes,
    )  # fmt: skip
    stream.start(NOW)
    return stream


@pytest.fixture
def stream() -> PartitionStream:
    """A stream at offset 0 that merges no batches."""
    return new_stream(0)


@given(logs, st.sampled_from([0, 3000, 64 << 10]), st.integers(0, 25))
def test_plan_copies_each_remaining_record_once_with_exact_map(
    log: list[tuple[set[int], int, int]], merge_bytes: int, position: int
) -> None:
    data = b"".join(batch(PER_BATCH * n, *each) for n, each in enumerate(log))
    end = PER_BATCH * len(log)
    left = [PER_BATCH * n + k for n, (kept, _, _) in enumerate(log) for k in sorted(kept)]
    wanted = [offset for offset in left if offset >= position]
    copy = new_stream(merge_bytes, position)
    entries = copy.plan(fetched(data, end))
    assert all(isinstance(entry, Run) for entry in entries)
    assert copy.position == max(position, end)
    there: list[int] = []
    target = 5
    while copy.queue:
        out = copy.send_next()
        ((header, view),) = iter_batches(out.head + bytes(out.body))
        verify(view, header)
        assert header.contiguous
        assert header.base_sequence == len(there)
        mine = [int(record.key or b"") for record in recode.records(view)]
        item = copy.acknowledge(target, NOW)
        assert item is not None
        assert [at + n for at, count in item.pieces for n in range(count)] == mine
        there += mine
        target += out.count
    assert there == wanted
    for n, offset in enumerate(wanted):
        assert copy.map.forward(offset).offset == 5 + n
        assert copy.map.backward(5 + n).offset == offset
    if wanted:
        assert copy.mirrored == end


def test_plan_merges_small_batches_with_gaps() -> None:
    copy = new_stream(64 << 10)
    copy.plan(fetched(b"".join(batch(PER_BATCH * n, {1, 4, 5}, 700, 0) for n in range(20)), 200))
    assert [item.batch.count for item in copy.queue] == [60]


@pytest.mark.parametrize("kept", [1, 9])
def test_plan_merged_batch_stays_within_merge_bytes(kept: int) -> None:
    """Merged records grow: their offset and timestamp deltas need more bytes."""
    copy = new_stream(3000)
    data = b"".join(batch(PER_BATCH * n * 300, set(range(kept)), 4, 0) for n in range(200))
    copy.plan(fetched(data, 200 * PER_BATCH * 300))
    assert sum(item.batch.count for item in copy.queue) == 200 * kept
    assert max(item.batch.size for item in copy.queue) <= 3000


def test_plan_small_batch_alone_is_copied_out_of_its_frame() -> None:
    """A view would keep the whole frame reserved until the batch is acknowledged."""
    memory = Memory(1 << 20)
    batches = [batch(PER_BATCH * n, set(range(PER_BATCH)), 100, 0) for n in range(41)]
    data = b"".join(batches)
    copy = new_stream(len(data) - len(batches[-1]) + GROWTH * 400)
    frame = memory.reserve(len(data))
    copy.plan(fetched(data, 410), frame)
    del frame
    assert [item.batch.count for item in copy.queue] == [400, 10]
    assert memory.reserved == copy.queued_bytes
    while copy.queue:
        copy.send_next()
        copy.acknowledge(copy.expected_offset, NOW)
    assert memory.reserved == 0


def test_plan_merges_larger_batches_of_few_records() -> None:
    few = [batch(PER_BATCH * n, set(range(PER_BATCH)), 1600, 0) for n in range(4)]
    assert len(few[0]) > SMALL_BYTES
    copy = new_stream(256 << 10)
    copy.plan(fetched(b"".join(few), 40))
    assert [item.batch.count for item in copy.queue] == [40]


def test_plan_batch_beyond_high_watermark_waits_for_next_response() -> None:
    """A broker determines the high watermark before it reads."""
    copy, data = new_stream(1 << 16), batch(0, {0, 1}, 10, 0)
    assert copy.plan(fetched(data, 0), None) == []
    assert (copy.position, len(copy.queue)) == (0, 0)
    assert copy.plan(fetched(data, PER_BATCH), None) != []
    assert (copy.position, len(copy.queue)) == (PER_BATCH, 1)
    far = batch(5_000, {0}, 10, 0)
    for _ in range(BEYOND_END_RESPONSES):
        assert copy.plan(fetched(far, PER_BATCH), None) == []
    with pytest.raises(CorruptBatch, match="beyond the log's end"):
        copy.plan(fetched(far, PER_BATCH), None)


def plain_batches(first: int, batches: int) -> FetchedPartition:
    """`batches` batches of 10 records each, large enough to stay apart."""
    data = bytearray()
    for base in range(first, first + 10 * batches, 10):
        records = [recode.Record(offset=i, timestamp=NOW + base + i, key=None, value=b"v" * 100) for i in range(10)]
        batch = recode.rebuild(records, codec=0, producer_id=-1, producer_epoch=-1, base_sequence=-1)
        raw = bytearray(b"".join([bytes(batch.head), bytes(batch.body)]))
        raw[0:8] = base.to_bytes(8)
        data += raw
    end = first + 10 * batches
    return FetchedPartition(P.topic_id, 0, 0, end, end, 0, (), None, -1, -1, memoryview(bytes(data)))


def test_shift_placement_moves_all_batches_in_flight(stream: PartitionStream) -> None:
    stream.plan(plain_batches(0, 4))
    for _ in range(3):
        stream.send_next()
    assert stream.acknowledge(5, NOW) is not None
    assert stream.expected_offset == 15
    assert stream.shift_placement(18) == Placement(P, C, 10, 18)
    assert stream.acknowledge(18, NOW) is not None
    assert stream.expected_offset == 28  # the next one on its way moved along
    stream.send_next()  # and so does what is sent from now on
    assert stream.acknowledge(28, NOW) is not None
    assert stream.acknowledge(38, NOW) is not None
    assert list(stream.map.segments()) == [Segment(0, 5, 10), Segment(10, 18, 30)]
    assert stream.map.forward(10).offset == 18


def test_acknowledge_offset_below_expected_is_refused(stream: PartitionStream) -> None:
    stream.plan(plain_batches(0, 1))
    stream.send_next()
    assert stream.acknowledge(4, NOW) is None
    assert stream.acked == 0


def test_progress_is_empty_while_foreign_records_are_read(stream: PartitionStream) -> None:
    stream.plan(plain_batches(0, 2))
    stream.send_next()
    stream.send_next()
    stream.acknowledge(5, NOW)
    stream.foreign_reads += 1
    stream.shift_placement(16)
    stream.acknowledge(16, NOW)
    assert stream.progress() == []
    stream.foreign_reads -= 1
    assert Ack(P, C, 20, 26) in stream.progress()


def test_marker_written_takes_an_offset_and_keeps_the_sequence(stream: PartitionStream) -> None:
    stream.plan(plain_batches(0, 2))
    stream.send_next()
    stream.acknowledge(5, NOW)
    assert last_sequence(stream.acked) == 9
    assert stream.marker_written(16, NOW + 1) == Placement(P, C, 10, 16)
    assert stream.last_append.timestamp == NOW + 1
    batch = stream.send_next()
    assert int.from_bytes(bytes(batch.head)[53:57]) == 10
    assert stream.acknowledge(16, NOW) is not None
    assert list(stream.map.segments()) == [Segment(0, 5, 10), Segment(10, 16, 10)]
