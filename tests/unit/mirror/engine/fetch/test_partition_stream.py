"""Partition streams: merged batches, shifted placements and markers; every record keeps its promised offset."""

from __future__ import annotations

import random
from dataclasses import replace
from uuid import UUID

import google_crc32c
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from drlib.kafka.protocol import merge_batches, recode
from drlib.kafka.protocol.batch import LOG_APPEND_TIME_MASK, CorruptBatch, compose, iter_batches, verify
from drlib.kafka.protocol.fetch import FetchedPartition
from drlib.kafka.protocol.merge_batches import GROWTH
from drlib.mirror.engine.fencing.producer_expiration import last_sequence
from drlib.mirror.engine.fetch.memory import Memory
from drlib.mirror.engine.fetch.partition_stream import (
    BEYOND_END_RESPONSES,
    SMALL_BYTES,
    PartitionStream,
    PromiseChanged,
)
from drlib.mirror.engine.reverse.rules import Known
from drlib.mirror.journal.entries import (
    Ack,
    ClaimId,
    Covered,
    Placement,
    Run,
    SourceEpoch,
    SourcePartition,
    Transactions,
)
from drlib.mirror.journal.leader_epochs import NEVER
from drlib.mirror.journal.producers.kept import SeenProducer
from drlib.mirror.journal.transaction_numbers import TransactionNumbers
from drlib.mirror.journal.transactions import TransactionEvent
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.model import Segment, TopicPartition, TranslationKind

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


def batch(base: int, kept: set[int], size: int, codec: int, producer: int = 9) -> bytes:
    """A batch over ten offsets of which only `kept` remain, as the log cleaner writes it."""
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=0, producer_id=producer, producer_epoch=1, base_sequence=0,
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


@given(logs, st.sampled_from([0, 3000, 64 << 10]), st.integers(0, 25), st.sampled_from([0, 200, 3000, 64 << 10]))
def test_plan_copies_each_remaining_record_once_with_exact_map(
    log: list[tuple[set[int], int, int]], merge_bytes: int, position: int, most_bytes: int
) -> None:
    data = b"".join(batch(PER_BATCH * n, *each) for n, each in enumerate(log))
    end = PER_BATCH * len(log)
    left = [PER_BATCH * n + k for n, (kept, _, _) in enumerate(log) for k in sorted(kept)]
    wanted = [offset for offset in left if offset >= position]
    copy = new_stream(min(merge_bytes, most_bytes or merge_bytes), position)
    copy.most_bytes = most_bytes
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
        assert out.size <= most_bytes or out.count == 1 or not most_bytes
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


@given(logs, st.lists(st.booleans(), min_size=12, max_size=12), st.booleans())
def test_copies_that_are_left_out_unread_lead_to_the_same_batches_and_map_as_read_ones(
    log: list[tuple[set[int], int, int]], copied: list[bool], acknowledged: bool
) -> None:
    lane, client, known = 77, 9, Known({77: 1}, {9})
    read, unread = new_stream(0), new_stream(0)
    for n, each in enumerate(log):
        data = fetched(batch(PER_BATCH * n, *each, producer=lane if copied[n] else client), PER_BATCH * len(log))
        read.plan(data, copies=known)
        if copied[n]:
            unread.leave_out(PER_BATCH * (n + 1))
        else:
            unread.plan(data, copies=known)
        assert (unread.position, unread.mirrored, unread.covered) == (read.position, read.mirrored, read.covered)
        for stream in (read, unread) if acknowledged else ():
            while stream.queue:
                stream.send_next()
                stream.acknowledge(stream.expected_offset, NOW)
    for stream in (read, unread):
        while stream.queue:
            stream.send_next()
        while stream.unacked:
            stream.acknowledge(stream.expected_offset, NOW)
    assert unread.progress() == read.progress()
    for offset in range(PER_BATCH * len(log) + 1):
        assert unread.map.forward(offset) == read.map.forward(offset)


def test_count_of_transactions_goes_on_behind_copies_that_are_left_out(stream: PartitionStream) -> None:
    stream.numbers = TransactionNumbers(0)
    stream.leave_out(20)
    assert not stream.numbers.read(20, 30)
    assert stream.position == 20


@given(logs, st.lists(st.booleans(), min_size=12, max_size=12), st.sampled_from([0, 64 << 10]))
def test_plan_skips_copies_of_the_reverse_flow_as_gaps_with_an_exact_map(
    log: list[tuple[set[int], int, int]], copied: list[bool], merge_bytes: int
) -> None:
    lane, client = 77, 9
    data = b"".join(batch(PER_BATCH * n, *each, producer=lane if copied[n] else client) for n, each in enumerate(log))
    end = PER_BATCH * len(log)
    wanted = [PER_BATCH * n + k for n, (kept, _, _) in enumerate(log) if not copied[n] for k in sorted(kept)]
    copy = new_stream(merge_bytes)
    copy.plan(fetched(data, end), copies=Known({lane: 1}, {client}))
    assert copy.position == end
    there: list[int] = []
    while copy.queue:
        out = copy.send_next()
        there += [int(r.key or b"") for r in recode.records(memoryview(out.head + bytes(out.body)))]
        assert copy.acknowledge(5 + len(there) - out.count, NOW) is not None
    assert there == wanted
    assert copy.mirrored == end, "what is skipped counts as read through"
    assert [copy.map.forward(offset).offset for offset in wanted] == [5 + n for n in range(len(wanted))]


def test_plan_merges_single_records_of_clients_only_where_copies_are_told() -> None:
    lane = 77
    singles = b"".join(batch_of_one(n, lane if n % 3 == 0 else 9) for n in range(30))
    for copies, count in ((Known({lane: 1}, {9}), 20), (None, 30)):
        copy = new_stream(64 << 10)
        copy.plan(fetched(singles, 30), copies=copies)
        assert sum(item.batch.count for item in copy.queue) == count


def batch_of_one(offset: int, producer: int) -> bytes:
    record = recode.Record(offset=0, timestamp=NOW, key=b"%d" % offset, value=b"v")
    out = recode.rebuild([record], codec=0, producer_id=producer, producer_epoch=1, base_sequence=0)
    return offset.to_bytes(8, "big") + (out.head + bytes(out.body))[8:]


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


@pytest.mark.parametrize("codec", [0, 1])
def test_plan_batch_above_the_limit_keeps_timestamps_headers_and_positions(codec: int) -> None:
    records = [
        recode.Record(n, NOW - 7 * n, b"%d" % n, random.Random(n).randbytes(400), (("h", None), ("n", b"%d" % n)))
        for n in range(50)
    ]
    whole = recode.rebuild(records, codec=codec, producer_id=1, producer_epoch=0, base_sequence=0)
    copy = new_stream(0, position=3)
    copy.most_bytes = 2000
    copy.plan(fetched(whole.head + bytes(whole.body), 50))
    assert len(copy.queue) > 10
    assert [item.covers for item in copy.queue][-1] == 50
    assert all(item.covers == sum(item.pieces[-1]) for item in copy.queue)
    assert all(item.batch.size <= 2000 for item in copy.queue)
    assert [len(copy.plan(fetched(b"", 50))), copy.position] == [0, 50]
    there = [r for item in copy.queue for r in recode.records(item.batch.head + bytes(item.batch.body))]
    assert [(r.timestamp, r.key, r.value, r.headers) for r in there] == [
        (r.timestamp, r.key, r.value, r.headers) for r in records[3:]
    ]


def test_plan_small_batch_alone_is_copied_out_of_its_frame() -> None:
    """A view would keep the whole frame reserved until the batch is acknowledged."""
    memory = Memory(1 << 20)
    batches = [batch(PER_BATCH * n, set(range(PER_BATCH)), 100, 0) for n in range(41)]
    data = b"".join(batches)
    copy = new_stream(len(data) - len(batches[-1]) + GROWTH * 400)
    frame = memory.share("lane").reserve(len(data))
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


def test_progress_ends_before_foreign_records_that_are_read_however_many_follow(stream: PartitionStream) -> None:
    """While clients of the target wrote all the time, none of it was journaled."""
    stream.plan(plain_batches(0, 4))
    for at in (5, 16, 27, 38):
        stream.send_next()
        if at > 5:
            stream.foreign_reads.append(stream.settled if at == 16 else (stream.acked, stream.map.target_end))
            stream.shift_placement(at)
        stream.acknowledge(at, NOW)
    assert stream.progress() == [Ack(P, C, 10, 15)]
    assert stream.acknowledged() == Ack(P, C, 10, 15)
    assert stream.progress() == []
    stream.foreign_reads.popleft()
    assert stream.progress() == [Ack(P, C, 20, 26)]
    stream.foreign_reads.clear()
    assert Ack(P, C, 40, 48) in stream.progress()


def test_record_before_the_next_one_is_known_to_be_ours_once_one_was_appended_behind_the_marker(
    stream: PartitionStream,
) -> None:
    stream.plan(plain_batches(0, 2))
    assert stream.writer_before is None
    stream.send_next()
    stream.acknowledge(5, NOW)
    assert stream.writer_before == C
    stream.marker_written(19, NOW)
    assert stream.writer_before is None, "behind the marker, at 15 say, clients wrote three records"


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


@given(st.integers(1, 5), st.integers(0, 5), st.sampled_from([0, 2000]))
def test_resume_after_a_park_continues_the_promises_of_the_claim(sent: int, acked: int, most_bytes: int) -> None:
    """What was promised and not acknowledged is read and sent again under the same numbers, whatever the batches are."""
    data = b"".join(batch(PER_BATCH * n, {0, 1, 2, 6, 7}, 400, 0) for n in range(6))
    copy = new_stream(0)
    before = copy.plan(fetched(data, 60))
    for _ in range(sent):
        copy.send_next()
    for n in range(min(sent, acked)):
        copy.acknowledge(5 + 5 * n, NOW)
    acked = copy.acked
    copy.park("refused")
    copy.most_bytes = most_bytes
    copy.resume()
    copy.marker_written(5 + acked + 1, NOW)
    again = copy.plan(fetched(data, 60))
    assert not [entry for entry in again if isinstance(entry, Run)], before
    numbers: list[int] = []
    while copy.queue:
        out = copy.send_next()
        ((header, _),) = iter_batches(out.head + bytes(out.body))
        assert header.base_sequence == acked + len(numbers)
        item = copy.acknowledge(copy.expected_offset, NOW)
        assert item is not None
        numbers += [at + n for at, count in item.pieces for n in range(count)]
    wanted = [PER_BATCH * n + k for n in range(6) for k in (0, 1, 2, 6, 7)]
    assert numbers == wanted[acked:]
    for n, offset in enumerate(wanted):
        assert copy.map.forward(offset).offset == 5 + n + (n >= acked)


def test_resume_other_records_than_promised_need_a_new_claim() -> None:
    """The source was compacted meanwhile: the number of the first record left is promised for one that is gone."""
    copy = new_stream(0)
    copy.plan(fetched(batch(0, {0, 3, 5}, 100, 0), 10))
    copy.park("refused")
    copy.resume()
    with pytest.raises(PromiseChanged):
        copy.plan(fetched(batch(0, {3, 5}, 100, 0), 10))


def test_resume_takes_back_leader_epochs_that_were_not_delivered() -> None:
    copy = new_stream(0)
    copy.epochs = {3: 0}
    copy.covered = 10
    copy.position = 30
    copy.epochs |= {4: 12, 5: 20}
    copy.park("refused")
    assert copy.resume() == [SourceEpoch(P, 4, NEVER), SourceEpoch(P, 5, NEVER)]
    assert (copy.position, copy.epoch, copy.journaled_epoch) == (10, 3, 3)


@given(
    st.lists(st.tuples(st.sampled_from([1, 1, 1, 1, 2]), st.sampled_from([10, 2000]), st.integers(0, 1)), max_size=40),
    st.integers(0, 10),
    st.integers(-3, 0),
    st.sampled_from([1500, 64 << 10]),
)
def test_plan_single_records_in_one_pass_changes_nothing(
    log: list[tuple[int, int, int]], position: int, unstable: int, merge_bytes: int
) -> None:
    data, offset, epoch = b"", 0, 0
    for count, size, step in log:
        raw = bytearray(batch(offset, set(range(count)), size, 0, producer=offset % 3 - 1))
        raw[23:27] = (count - 1).to_bytes(4, "big")
        epoch += step
        raw[12:16] = epoch.to_bytes(4, "big")
        raw[17:21] = google_crc32c.value(bytes(raw[21:])).to_bytes(4, "big")
        data += bytes(raw)
        offset += count
    ways = []
    for one_pass in (True, False):
        stream = new_stream(merge_bytes, position)
        with pytest.MonkeyPatch.context() as patch:
            if not one_pass:
                patch.setattr(merge_batches, "merge_single_records", lambda *_, **__: None)
            try:
                entries = sorted(map(repr, stream.plan(fetched(data, offset + unstable))))
            except CorruptBatch as corrupt:
                entries = [str(corrupt)]
        records = [
            (item.pieces[0][0] + n, record.timestamp, record.key, record.value)
            for item in stream.queue
            for n, record in enumerate(recode.records(memoryview(item.batch.head + bytes(item.batch.body))))
        ]
        ways.append(
            (
                entries,
                records,
                stream.position,
                stream.epoch,
                stream.epochs,
                stream.record_count,
                stream.take_producers(),
            )
        )
    assert ways[0] == ways[1]


def test_plan_notes_who_wrote_what_is_copied_with_its_newest_batch() -> None:
    stream = new_stream(0)
    data = [
        batch(0, set(range(PER_BATCH)), 10, 0, producer=-1),
        batch(10, {0, 3}, 10, 0, producer=4),
        batch(20, {0, 3}, 10, 1, producer=4),
        in_transaction(30, 2, producer=5, epoch=2),
        transaction_marker(32, producer=6, epoch=0),
    ]
    stream.plan(fetched(b"".join(data), 33))
    assert stream.take_producers() == {4: SeenProducer(1, NOW + 23, False), 5: SeenProducer(2, NOW + 1, True)}


def test_plan_notes_no_producer_of_what_the_reverse_flow_copied() -> None:
    stream = new_stream(0)
    both = batch(0, {0}, 10, 0, producer=4) + batch(10, {0}, 10, 0, producer=5)
    stream.plan(fetched(both, 20), copies=Known({4: 1}, {5}))
    assert set(stream.take_producers()) == {5}
    assert stream.take_producers() == {}


def test_plan_log_that_is_empty_is_covered_up_to_its_end() -> None:
    """Its records expired before they were mirrored: a group at the end has read all there is, on both clusters."""
    stream = new_stream(0, position=50)
    assert stream.map.forward(50).kind is TranslationKind.NEVER_MIRRORED
    assert stream.plan(fetched(b"", 60)) == []
    assert stream.progress() == []  # there is more, and it has not come yet
    stream.plan(fetched(b"", 50))
    assert stream.progress() == [Covered(stream.key, 50)]
    assert stream.map.forward(50).kind is TranslationKind.EXACT
    assert stream.map.forward(49).kind is TranslationKind.NEVER_MIRRORED
    stream.plan(fetched(b"", 50))
    assert stream.progress() == []


def in_transaction(base: int, count: int, *, producer: int, epoch: int, sequence: int = 0) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=1, producer_id=producer, producer_epoch=epoch,
        base_sequence=sequence, batch_size=1 << 20,
    )  # fmt: skip
    for n in range(count):
        builder.append(n, NOW + n, b"k", b"v", [])
    return base.to_bytes(8, "big") + bytes(builder.build()[8:])


def transaction_marker(base: int, *, producer: int, epoch: int, commit: bool = True) -> bytes:
    """As brokers write it: key version 0, type 1 for a commit."""
    body = bytes.fromhex("2000000008") + bytes((0, 0, 0, commit)) + b"\x0c" + bytes(7)
    built = compose(
        body, codec=0x30, count=1, base_timestamp=NOW, max_timestamp=NOW, producer_id=producer, producer_epoch=epoch,
        base_sequence=-1,
    )  # fmt: skip
    return base.to_bytes(8, "big") + built.head[8:] + body


@pytest.mark.parametrize("merge_bytes", [0, 64 << 10])
def test_plan_notes_committed_transactions_before_their_records_are_sent(merge_bytes: int) -> None:
    stream = new_stream(merge_bytes)
    stream.next_slot = 3
    data = (
        in_transaction(0, 2, producer=4, epoch=0)
        + in_transaction(2, 2, producer=5, epoch=7)  # aborted
        + in_transaction(4, 1, producer=4, epoch=0)
        + transaction_marker(5, producer=5, epoch=8, commit=False)
        + transaction_marker(6, producer=4, epoch=1)
    )
    response = replace(fetched(data, 7), aborted=((5, 2),))
    entries = stream.plan(response)
    noted = (
        TransactionEvent(4, 0, 0, 2, 2, nth=1),
        TransactionEvent(4, 0, 4, 5, 1, nth=1),
        TransactionEvent(4, 1, 6, 7, 0, NOW),
    )
    assert [e for e in entries if isinstance(e, Transactions)] == [Transactions(P, 3, 3, noted)]
    assert any(
        isinstance(e, Run) for e in entries
    )  # in the same call, so that nothing is sent before both are journaled
    later = stream.plan(fetched(in_transaction(7, 3, producer=4, epoch=1), 10))
    entry = next(e for e in later if isinstance(e, Transactions))
    assert entry == Transactions(P, 3, 3, (*noted, TransactionEvent(4, 1, 7, 10, 3)))


def test_plan_without_transactions_journals_what_it_did_before(stream: PartitionStream) -> None:
    entries = stream.plan(plain_batches(0, 3))
    assert not [e for e in entries if isinstance(e, Transactions)]
    assert stream.transactions is None


def test_plan_notes_what_is_left_of_a_batch_behind_the_position() -> None:
    stream = new_stream(0, position=2)
    (entry,) = [
        e for e in stream.plan(fetched(in_transaction(0, 5, producer=4, epoch=0), 5)) if isinstance(e, Transactions)
    ]
    assert entry.events == (TransactionEvent(4, 0, 2, 5, 3, nth=1),)


@pytest.mark.parametrize("merge_bytes", [0, 64 << 10])
def test_plan_numbers_transactions_whose_epoch_stays(merge_bytes: int) -> None:
    stream = new_stream(merge_bytes)
    data = (
        in_transaction(0, 2, producer=4, epoch=0)  # aborted
        + transaction_marker(2, producer=4, epoch=0, commit=False)
        + in_transaction(3, 1, producer=4, epoch=0, sequence=2)
        + transaction_marker(4, producer=4, epoch=0)
        + in_transaction(5, 1, producer=4, epoch=0, sequence=3)
    )
    entries = stream.plan(replace(fetched(data, 6), aborted=((4, 0),)))
    noted = [e for e in entries if isinstance(e, Transactions)]
    assert [(event.first, event.nth) for event in noted[-1].events] == [(3, 1), (4, 1), (5, 2)]
    stream.position = 4  # the target refused what follows, which is read again
    again = [e for e in stream.plan(fetched(data, 6)) if isinstance(e, Transactions)]
    assert [(event.first, event.nth) for event in again[-1].events] == [(4, 1), (5, 2)]
    behind_a_gap = fetched(transaction_marker(7, producer=4, epoch=0), 8)
    noted = [e for e in stream.plan(behind_a_gap) if isinstance(e, Transactions)]
    assert [(event.first, event.nth) for event in noted[-1].events] == [(4, 1), (5, 2), (6, 0), (7, 0)]
    later = TransactionNumbers.resumed(8, noted)  # a later claim does not go on from before the gap
    assert (
        later.of_marker(next(iter_batches(memoryview(transaction_marker(8, producer=4, epoch=0))))[0], commit=True) == 0
    )


@pytest.mark.parametrize("merge_bytes", [0, 1 << 20])
def test_plan_notes_that_the_source_sets_the_timestamps(merge_bytes: int) -> None:
    """They are no part of a record's content then, as what returns has others."""
    stream = new_stream(merge_bytes)
    stream.plan(fetched(batch(0, set(range(PER_BATCH)), 10, 0), PER_BATCH))
    assert not stream.append_times
    raw = bytearray(batch(PER_BATCH, set(range(PER_BATCH)), 10, 0))
    raw[21:23] = LOG_APPEND_TIME_MASK.to_bytes(2, "big")
    raw[17:21] = google_crc32c.value(bytes(raw[21:])).to_bytes(4, "big")
    stream.plan(fetched(bytes(raw), 2 * PER_BATCH))
    assert stream.append_times


def test_ready_partition_that_is_held_back_sends_nothing(stream: PartitionStream) -> None:
    stream.plan(plain_batches(0, 1))
    assert stream.ready()
    stream.held = True
    assert not stream.ready()
