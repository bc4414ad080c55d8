"""What compaction left of a topic: joined into full batches, every record promised for the offset it had."""

from __future__ import annotations

from uuid import UUID

import google_crc32c
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from drlib.kafka.net.requests import FetchedPartition
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.batch import CorruptBatch, iter_batches, verify
from drlib.kafka.protocol.merge_batches import GROWTH
from drlib.mirror.engine.fetch.memory import Memory
from drlib.mirror.engine.fetch.partition_stream import BEYOND_ANSWERS, SMALL_BYTES, PartitionStream
from drlib.mirror.journal.entries import ClaimId, Run, SourcePartition
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.model import TopicPartition

P = SourcePartition(UUID(int=1), 0)
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
    """A batch over ten offsets of which only `kept` are left, as a cleaner writes it."""
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


def stream(merge_bytes: int, position: int = 0) -> PartitionStream:
    found = PartitionStream(
        P, TopicPartition("t", 0), TopicPartition("A.t", 0), ClaimId(7, 3), PartitionMap(), position=position,
        target_next=5, merge_bytes=merge_bytes,
    )  # fmt: skip
    found.start(NOW)
    return found


@given(logs, st.sampled_from([0, 3000, 64 << 10]), st.integers(0, 25))
def test_every_record_that_is_left_crosses_once_and_its_place_is_known(
    log: list[tuple[set[int], int, int]], merge_bytes: int, position: int
) -> None:
    data = b"".join(batch(PER_BATCH * n, *each) for n, each in enumerate(log))
    end = PER_BATCH * len(log)
    left = [PER_BATCH * n + k for n, (kept, _, _) in enumerate(log) for k in sorted(kept)]
    wanted = [offset for offset in left if offset >= position]
    copy = stream(merge_bytes, position)
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


def test_small_batches_with_gaps_leave_in_one_request() -> None:
    copy = stream(64 << 10)
    copy.plan(fetched(b"".join(batch(PER_BATCH * n, {1, 4, 5}, 700, 0) for n in range(20)), 200))
    assert [item.batch.count for item in copy.queue] == [60]


@pytest.mark.parametrize("kept", [1, 9])
def test_a_joined_batch_is_never_larger_than_the_target_takes(kept: int) -> None:
    """Joined, records grow: their numbers and times need more bytes than within the batches they came in."""
    copy = stream(3000)
    data = b"".join(batch(PER_BATCH * n * 300, set(range(kept)), 4, 0) for n in range(200))
    copy.plan(fetched(data, 200 * PER_BATCH * 300))
    assert sum(item.batch.count for item in copy.queue) == 200 * kept
    assert max(item.batch.size for item in copy.queue) <= 3000


def test_a_small_batch_left_over_does_not_keep_a_large_frame() -> None:
    """One that is planned alone would view the frame, and the whole frame would count until it is acknowledged."""
    memory = Memory(1 << 20)
    batches = [batch(PER_BATCH * n, set(range(PER_BATCH)), 100, 0) for n in range(41)]
    data = b"".join(batches)
    copy = stream(len(data) - len(batches[-1]) + GROWTH * 400)
    frame = memory.hold(len(data))
    copy.plan(fetched(data, 410), frame)
    del frame
    assert [item.batch.count for item in copy.queue] == [400, 10]
    assert memory.held == copy.queued_bytes
    while copy.queue:
        copy.send_next()
        copy.acknowledge(copy.expected, NOW)
    assert memory.held == 0


def test_a_batch_of_few_records_joins_although_it_is_larger() -> None:
    few = [batch(PER_BATCH * n, set(range(PER_BATCH)), 1600, 0) for n in range(4)]
    assert len(few[0]) > SMALL_BYTES
    copy = stream(256 << 10)
    copy.plan(fetched(b"".join(few), 40))
    assert [item.batch.count for item in copy.queue] == [40]


def test_what_was_appended_while_the_answer_was_made_is_taken_with_the_next_and_no_damage() -> None:
    """A broker takes the high watermark before it reads."""
    found, data = stream(1 << 16), batch(0, {0, 1}, 10, 0)
    assert found.plan(fetched(data, 0), None) == []
    assert (found.position, len(found.queue)) == (0, 0)
    assert found.plan(fetched(data, PER_BATCH), None) != []
    assert (found.position, len(found.queue)) == (PER_BATCH, 1)
    far = batch(5_000, {0}, 10, 0)
    for _ in range(BEYOND_ANSWERS):
        assert found.plan(fetched(far, PER_BATCH), None) == []
    with pytest.raises(CorruptBatch, match="beyond the log's end"):
        found.plan(fetched(far, PER_BATCH), None)
