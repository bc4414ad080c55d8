"""Small batches become one: the same records, whatever they hold; a damaged one is refused."""

from __future__ import annotations

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.kafka.protocol import merge_batches as coalesce
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.batch import BatchHeader, CorruptBatch, compose, iter_batches, verify, wrapped
from drlib.kafka.protocol.recode import Record

text = st.text(max_size=5)
times = st.integers(-1, 2**45)
record = st.tuples(
    times,
    st.none() | st.binary(max_size=80),
    st.none() | st.binary(max_size=200),
    st.lists(st.tuples(text, st.none() | st.binary(max_size=5)), max_size=3),
)
groups = st.lists(st.lists(record, min_size=1, max_size=140), min_size=1, max_size=8)


def stored(
    groups: list[list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]],
) -> tuple[list[tuple[BatchHeader, memoryview]], list[Record]]:
    """Batches as a log holds them from offset 5000 on, and their records."""
    offset, data, records = 5000, b"", []
    for group in groups:
        mine = [Record(offset + n, t, key, value, tuple(headers)) for n, (t, key, value, headers) in enumerate(group)]
        batch = recode.rebuild(mine, codec=0, producer_id=9, producer_epoch=1, base_sequence=offset)
        data += offset.to_bytes(8, "big") + batch.head[8:] + bytes(batch.body)
        records += mine
        offset += len(group)
    return list(iter_batches(data)), records


def merged(batches: list[tuple[BatchHeader, memoryview]]) -> memoryview:
    out = coalesce.merge(batches, producer_id=77, producer_epoch=3, base_sequence=2**31 - 2).batch
    assert out.size == len(out.head) + len(out.body)
    return memoryview(out.head + bytes(out.body))


@given(groups)
def test_merge_keeps_the_records(
    groups: list[list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]],
) -> None:
    batches, records = stored(groups)
    assert all(coalesce.can_merge(header) for header, _ in batches)
    ((header, view),) = iter_batches(merged(batches))
    verify(view, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 3, 2**31 - 2)
    assert (header.base_offset, header.count, header.contiguous) == (0, len(records), True)
    assert header.max_timestamp == max(h.max_timestamp for h, _ in batches)
    found = [(r.offset + 5000, r.timestamp, r.key, r.value, r.headers) for r in recode.records(view)]
    assert found == [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in records]


@given(groups, st.data())
def test_merge_flipped_byte_is_refused(
    groups: list[list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]], data: st.DataObject
) -> None:
    batches, _ = stored(groups)
    at = data.draw(st.integers(0, len(batches) - 1))
    header, view = batches[at]
    damaged = bytearray(view)
    damaged[data.draw(st.integers(21, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    batches[at] = (header, memoryview(bytes(damaged)))
    with pytest.raises(CorruptBatch, match="checksum"):
        merged(batches)


@given(st.binary(max_size=60))
def test_merge_inconsistent_record_lengths_are_refused(body: bytes) -> None:
    """A valid checksum over garbage: written by a broken client, or made to harm."""
    batch = compose(
        memoryview(body),
        codec=0,
        count=3,
        base_timestamp=1,
        max_timestamp=1,
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
    )
    ((header, view),) = iter_batches(batch.head + body)
    try:
        whole = merged([(header, view)])
    except CorruptBatch:
        return
    ((again, _),) = iter_batches(whole)
    assert again.count == 3


@given(groups, st.data())
def test_merge_renumbers_compacted_records_and_reports_their_offsets(
    groups: list[list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]]], data: st.DataObject
) -> None:
    """A cleaner takes records out of a batch, leaves the others' deltas and the batch's range as they were."""
    batches, records = stored(groups)
    kept: list[Record] = []
    cleaned: list[tuple[BatchHeader, memoryview]] = []
    for header, view in batches:
        mine = [r for r in records if header.base_offset <= r.offset <= header.last_offset]
        left = [r for r in mine if data.draw(st.booleans())]
        if left:
            cleaned.append(without(header, view, {r.offset - header.base_offset for r in left}))
            kept += left
    if not cleaned:
        return
    assert all(coalesce.can_merge(header) for header, _ in cleaned)
    merged = coalesce.merge(cleaned, producer_id=77, producer_epoch=3, base_sequence=5)
    ((header, view),) = iter_batches(merged.batch.head + bytes(merged.batch.body))
    verify(view, header)
    assert header.contiguous
    assert header.count == merged.batch.count == len(kept)
    offsets = [at + n for at, count in merged.pieces for n in range(count)]
    assert offsets == [r.offset for r in kept]
    assert all(a + n < b for (a, n), (b, _) in zip(merged.pieces, merged.pieces[1:], strict=False))
    found = [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in recode.records(view)]
    assert found == [(n, r.timestamp, r.key, r.value, r.headers) for n, r in enumerate(kept)]


def without(header: BatchHeader, view: memoryview, kept: set[int]) -> tuple[BatchHeader, memoryview]:
    """The batch as a log cleaner leaves it: the records numbered `kept`, byte for byte, under the same range."""
    data, at, body = bytes(view), 61, b""
    for number in range(header.count):
        length, begins, shift = 0, at, 0
        while True:
            length |= (data[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 0x80:
                break
        at += length >> 1
        body += data[begins:at] if number in kept else b""
    raw = bytearray(data[:61] + body)
    raw[8:12] = (len(raw) - 12).to_bytes(4, "big")
    raw[57:61] = len(kept).to_bytes(4, "big")
    raw[17:21] = google_crc32c.value(bytes(raw[21:])).to_bytes(4, "big")
    ((header, view),) = iter_batches(bytes(raw))
    return header, view


def test_merge_record_out_of_order_is_refused() -> None:
    """Two records left of seven offsets: their places must go up and stay within the batch."""
    (header, view), *_ = stored([[(1, b"k", b"v", [])] * 7])[0]
    header, view = without(header, view, {2, 5})
    data = bytes(view)
    for place in (1, 2, 8):  # of the second record: before the first, the same, behind the batch
        second = 61 + 1 + (data[61] >> 1)
        raw = bytearray(data)
        raw[second + 3] = place << 1
        raw[17:21] = google_crc32c.value(bytes(raw[21:])).to_bytes(4, "big")
        ((changed, body),) = iter_batches(bytes(raw))
        with pytest.raises(CorruptBatch, match="one of its records has offset"):
            merged([(changed, body)])


def test_can_merge_refuses_compressed_emptied_old_and_log_append_time_batches() -> None:
    (header, _), *_ = stored([[(1, b"k", b"v", [])] * 2])[0]
    assert not coalesce.can_merge(header._replace(attributes=1))
    assert not coalesce.can_merge(header._replace(attributes=8))
    assert not coalesce.can_merge(header._replace(count=0))  # emptied by the log cleaner
    assert not coalesce.can_merge(header._replace(magic=1))
    assert coalesce.can_merge(header._replace(last_offset_delta=7))


def test_merge_record_before_its_batch_is_refused() -> None:
    (header, view), *_ = stored([[(1, b"k", b"v", [])] * 2])[0]
    changed = bytearray(view)
    assert changed[61 + 3] == 0  # the first record's offset delta
    changed[61 + 3] = 1  # -1
    gaps = header._replace(last_offset_delta=7, crc=google_crc32c.value(bytes(changed[21:])))
    with pytest.raises(CorruptBatch, match="one of its records has offset 4999"):
        merged([(gaps, memoryview(bytes(changed)))])


def test_merge_records_around_lengths_of_one_two_and_three_bytes_are_kept() -> None:
    sizes = [*range(50, 70), *range(8_170, 8_200), 16_384]
    batches, records = stored([[(1, None, b"x" * size, [])] for size in sizes])
    ((_, view),) = iter_batches(merged(batches))
    assert [r.value for r in recode.records(view)] == [r.value for r in records]


def test_merge_time_deltas_and_numbers_of_two_bytes_are_kept() -> None:
    batches, records = stored([[(64 * n, None, None, []) for n in range(140)]])
    ((_, view),) = iter_batches(merged(batches))
    assert [r.timestamp for r in recode.records(view)] == [r.timestamp for r in records]


def test_merge_time_deltas_of_all_lengths_are_encoded_as_another_client_does() -> None:
    """A number in more bytes than it needs is read by some clients and refused by others."""
    times = [2**62 + 5, 0, 63, 64, 65, 100, 8191, 8192, 8255, 8256, 2**62 + 5, 0, 2**62]
    batches, records = stored([[(time, None, None, []) for time in times], [(time, None, None, []) for time in times]])
    ((_, view),) = iter_batches(merged(batches))
    built = recode.rebuild(records, codec=0, producer_id=77, producer_epoch=3, base_sequence=2**31 - 2)
    assert view == built.head + bytes(built.body)


def test_merge_more_records_than_encodings_are_precomputed_are_numbered_on() -> None:
    batches, records = stored([[(1, None, b"v", [])] * 8_200])
    ((_, view),) = iter_batches(merged(batches))
    assert [r.offset for r in recode.records(view)] == list(range(8_200))
    assert len(records) == 8_200


def of_one_record(length: int, body: bytes) -> tuple[BatchHeader, memoryview]:
    """A batch with a valid checksum whose only record says that it is `length` bytes long."""
    encoded = bytes([length << 1]) + body
    batch = compose(
        encoded,
        codec=0,
        count=1,
        base_timestamp=1,
        max_timestamp=1,
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
    )
    ((header, view),) = iter_batches(batch.head + encoded)
    return header, view


def test_merge_record_shorter_than_its_deltas_is_refused() -> None:
    """What follows the deltas is not decoded, but they have to be within the record."""
    assert bytes(merged([of_one_record(3, b"\0\0\0")])[61:]) == b"\x06\0\0\0"
    for length, body in ((2, b"\0\0\0"), (3, b"\0\x80\x01\0"), (4, b"\0\0\0")):
        with pytest.raises(CorruptBatch, match="ends outside of it"):
            merged([of_one_record(length, body)])


@pytest.mark.parametrize("times", [(-1, 2**63 - 1), (2**63 - 1, -1, 5), (-(2**63), 2**63 - 1)])
def test_merge_and_rebuild_times_at_the_ends_of_their_range_are_kept(times: tuple[int, ...]) -> None:
    """Brokers before Kafka 4.0 accept any time; Java adds differences as signed numbers of 64 bits."""
    batches, of = stored([[(time, b"k", None, [])] for time in times])
    rebuilt = recode.rebuild(of, codec=0, producer_id=77, producer_epoch=3, base_sequence=0)
    for data in (merged(batches), memoryview(rebuilt.head + bytes(rebuilt.body))):
        assert [wrapped(r.timestamp) for r in recode.records(data)] == list(times)
