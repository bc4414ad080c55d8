"""Batches as bytes: against what a real broker stored (`vectors/`), and for whatever bytes may come."""

from __future__ import annotations

import json
import struct
from typing import Any

import google_crc32c
import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from repository_root import TESTS

from drlib.kafka.protocol import recode
from drlib.kafka.protocol.aborted_transactions import AbortedFilter
from drlib.kafka.protocol.batch import (
    SEQUENCE_MODULUS,
    BatchHeader,
    ControlType,
    CorruptBatch,
    OutgoingBatch,
    control_type,
    iter_batches,
    rewrite,
    sequence_after,
    verify,
)
from drlib.kafka.protocol.recode import Record, rebuild, records

VECTORS: dict[str, Any] = json.loads((TESTS / "vectors" / "batches.json").read_text())
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
IDENTITY = {"producer_id": 4_000_000_001, "producer_epoch": 7, "base_sequence": 12345}


def stored(name: str) -> list[tuple[BatchHeader, memoryview]]:
    return list(iter_batches(bytes.fromhex(VECTORS[name]["bytes"])))


def expected(name: str, reader: str = "records") -> list[Record]:
    return [
        Record(
            offset,
            timestamp,
            None if key is None else bytes.fromhex(key),
            None if value is None else bytes.fromhex(value),
            tuple((k, None if v is None else bytes.fromhex(v)) for k, v in headers),
        )
        for offset, timestamp, key, value, headers in VECTORS[name][reader]
    ]


def verify_all(raw: bytearray) -> None:
    for header, view in iter_batches(memoryview(raw)):
        verify(view, header)


def rewrite_all(raw: bytearray) -> None:
    for header, view in iter_batches(memoryview(raw)):
        rewrite(view, header, **IDENTITY)


def whole(batch: OutgoingBatch) -> tuple[BatchHeader, memoryview]:
    ((header, view),) = iter_batches(batch.head + bytes(batch.body))
    assert len(view) == batch.size
    return header, view


@pytest.mark.parametrize("name", sorted(VECTORS))
def test_records_match_those_of_a_kafka_client(name: str) -> None:
    found: list[Record] = []
    for header, view in stored(name):
        verify(view, header)
        if not header.is_control:
            found += records(view)
    assert found == expected(name)


@pytest.mark.parametrize("codec", CODECS)
def test_rewrite_changes_only_the_header(codec: str) -> None:
    ((header, view),) = stored(codec)
    ours, bytes_of_ours = whole(rewrite(view, header, **IDENTITY))
    verify(bytes_of_ours, ours)
    assert bytes_of_ours[61:] == view[61:]
    assert ours.codec == CODECS[codec]
    assert (ours.base_offset, ours.leader_epoch, ours.attributes) == (0, -1, CODECS[codec])
    assert (ours.producer_id, ours.producer_epoch, ours.base_sequence) == (4_000_000_001, 7, 12345)
    assert (ours.length, ours.last_offset_delta, ours.count) == (header.length, header.last_offset_delta, header.count)
    assert (ours.base_timestamp, ours.max_timestamp) == (header.base_timestamp, header.max_timestamp)
    assert records(bytes_of_ours) == records(view)


def test_rewrite_does_not_copy_the_body() -> None:
    frame = bytearray(bytes.fromhex(VECTORS["lz4"]["bytes"]))
    ((header, view),) = iter_batches(memoryview(frame))
    batch = rewrite(view, header, **IDENTITY)
    before = batch.body[0]
    frame[61] ^= 0xFF
    assert batch.body[0] == before ^ 0xFF


def test_rewrite_drops_the_transactional_bit() -> None:
    header, view = stored("committed")[0]
    assert header.is_transactional
    ours, _ = whole(rewrite(view, header, **IDENTITY))
    assert not ours.is_transactional
    assert ours.attributes == 0


def test_control_type_of_control_batches() -> None:
    committed, aborted = stored("committed"), stored("aborted")
    assert [h.is_control for h, _ in committed] == [False, True]
    assert control_type(committed[1][1]) is ControlType.COMMIT
    assert control_type(aborted[1][1]) is ControlType.ABORT


@pytest.mark.parametrize("timestamp_delta", ["00", "7f", "ac02", "808001", "ff" * 9 + "01"])
@pytest.mark.parametrize(("kind", "expected"), [(0, ControlType.ABORT), (1, ControlType.COMMIT), (2, None)])
def test_control_type_follows_numbers_of_any_length(
    timestamp_delta: str, kind: int, expected: ControlType | None
) -> None:
    record = bytes.fromhex("20" + "00" + timestamp_delta + "00" + "08") + struct.pack(">hh", 0, kind)
    assert control_type(memoryview(bytes(61) + record)) is expected


def test_control_type_of_a_longer_key_is_in_its_first_bytes() -> None:
    """Later versions may add to the key."""
    record = bytes.fromhex("9601" + "00" + "00" + "00" + "8001") + struct.pack(">hh", 1, 1) + bytes(60)
    assert control_type(memoryview(bytes(61) + record)) is ControlType.COMMIT


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ("20" + "00" + "ff" * 10 + "01" + "00" + "08" + "00000000", "has no end"),
        ("20" + "00" + "00" + "00" + "06" + "00000000", "its key has 3 bytes"),
        ("20" + "00" + "00" + "00" + "08" + "000000", "ends early"),
        ("20" + "00" + "80", "ends early"),
    ],
)
def test_control_type_unreadable_record_is_corrupt_batch(record: str, why: str) -> None:
    with pytest.raises(CorruptBatch, match=why):
        control_type(memoryview(bytes(61) + bytes.fromhex(record)))


def test_aborted_filter_drops_aborted_batches() -> None:
    for name in ("committed", "aborted"):
        batches = stored(name)
        aborted = [(batches[0][0].producer_id, 0)] if name == "aborted" else []
        keep = AbortedFilter(aborted)
        found = [r for header, view in batches if keep.keep(header, view) for r in records(view)]
        assert found == expected(name, "committed")


def test_aborted_filter_marker_ends_one_transaction_only() -> None:
    (data, data_view), (marker, marker_view) = stored("aborted")
    keep = AbortedFilter([(data.producer_id, data.base_offset)])
    assert not keep.keep(data, data_view)
    assert not keep.keep(marker, marker_view)
    assert keep.keep(data, data_view), "the producer's next transaction is not aborted"


def test_aborted_filter_transaction_begins_at_its_first_offset() -> None:
    (data, data_view), (_, commit) = stored("committed")
    one = data._replace(base_offset=5, last_offset_delta=0, producer_id=1000)
    assert AbortedFilter([(1000, 6)]).keep(one, data_view)
    keep = AbortedFilter([(1000, 5), (2000, 7)])
    assert not keep.keep(one, data_view)
    assert keep.keep(one._replace(producer_id=2000), data_view)
    marker = stored("committed")[1][0]._replace(base_offset=6, last_offset_delta=0, producer_id=1000)
    assert not keep.keep(marker, commit)
    assert not keep.keep(one, data_view), "only an abort marker ends an aborted transaction"


def test_rebuild_compacted_batch_has_no_gaps() -> None:
    header, view = next((h, v) for h, v in stored("compacted") if not h.contiguous)
    assert header.count < header.last_offset_delta + 1
    before = records(view)
    ours, view = whole(rebuild(before, codec=header.codec, **IDENTITY))
    assert ours.contiguous
    assert [(r.timestamp, r.key, r.value, r.headers) for r in records(view)] == [
        (r.timestamp, r.key, r.value, r.headers) for r in before
    ]
    assert [r.offset for r in records(view)] == list(range(len(before)))


def test_records_of_log_append_time_batch_share_its_time() -> None:
    ((header, view),) = stored("log-append-time")
    assert header.is_log_append_time
    assert {r.timestamp for r in records(view)} == {header.max_timestamp}


@pytest.mark.parametrize("name", sorted(CODECS))
@given(data=st.data())
@settings(max_examples=60)
def test_verify_flipped_bit_is_refused(name: str, data: st.DataObject) -> None:
    raw = bytearray.fromhex(VECTORS[name]["bytes"])
    at = data.draw(st.integers(17, len(raw) - 1))
    raw[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptBatch):
        rewrite_all(raw)
    with pytest.raises(CorruptBatch):
        verify_all(raw)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
blobs = st.none() | st.binary(max_size=40)
timestamps = st.integers(-(2**40), 2**42) | st.integers(-3, 3)
record_lists = st.lists(
    st.builds(
        Record,
        offset=st.just(0),
        timestamp=timestamps,
        key=blobs,
        value=blobs,
        headers=st.lists(st.tuples(texts, blobs), max_size=3).map(tuple),
    ),
    min_size=1,
    max_size=20,
)


@given(record_lists, st.sampled_from(range(5)), st.integers(0, 2**62), st.integers(0, 32767), st.integers(0, 2**33))
def test_rebuild_and_rewrite_keep_the_records(
    given_records: list[Record], codec: int, producer_id: int, epoch: int, sequence: int
) -> None:
    identity = {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
    built, view = whole(rebuild(given_records, codec=codec, producer_id=1, producer_epoch=0, base_sequence=0))
    verify(view, built)
    numbered = [Record(i, r.timestamp, r.key, r.value, r.headers) for i, r in enumerate(given_records)]
    assert records(view) == numbered
    assert built.max_timestamp == max(r.timestamp for r in given_records)
    ours, ours_view = whole(rewrite(view, built, **identity))
    verify(ours_view, ours)
    assert records(ours_view) == records(view)
    assert ours.base_sequence == sequence % SEQUENCE_MODULUS
    assert ours.contiguous


@given(st.binary(max_size=400))
def test_iter_batches_garbage_gives_batches_or_corrupt_batch(data: bytes) -> None:
    read(data)


@given(st.sampled_from(sorted(VECTORS)), st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=4))
def test_iter_batches_damage_gives_batches_or_corrupt_batch(name: str, damage: list[tuple[int, int]]) -> None:
    raw = bytearray.fromhex(VECTORS[name]["bytes"])
    for at, byte in damage:
        raw[at % len(raw)] = byte
    read(bytes(raw))


@given(st.sampled_from(sorted(VECTORS)), st.integers(61, 300), st.binary(min_size=1, max_size=40))
def test_records_damaged_body_with_valid_checksum_is_corrupt_batch(name: str, at: int, damage: bytes) -> None:
    raw = bytearray(stored(name)[0][1])
    at = min(at, len(raw) - 1)
    raw[at : at + len(damage)] = damage[: len(raw) - at]
    struct.pack_into(">I", raw, 17, google_crc32c.value(bytes(raw[21:])))
    read(bytes(raw))


def read(data: bytes) -> None:
    try:
        total = 0
        for header, view in iter_batches(data):
            total += len(view)
            if header.is_control:
                control_type(view)
            verify(view, header)
            records(view)
        assert total <= len(data)
    except CorruptBatch:
        pass


@pytest.mark.parametrize("cut", [1, 16, 17, 60, 61, 200])
def test_iter_batches_cut_batch_is_left_out(cut: int) -> None:
    raw = bytes.fromhex(VECTORS["none"]["bytes"])
    assert len(list(iter_batches(raw + raw[:cut]))) == 1
    assert list(iter_batches(raw[:cut])) == []


@pytest.mark.parametrize(("length", "magic"), [(-1, 2), (0, 2), (48, 2), (49, 3), (13, 0), (21, 1), (-(2**31), 1)])
def test_iter_batches_impossible_length_or_format_is_refused(length: int, magic: int) -> None:
    raw = struct.pack(">qiib", 0, length, -1, magic) + bytes(100)
    with pytest.raises(CorruptBatch):
        list(iter_batches(bytes(raw)))


def test_iter_batches_emptied_batch_is_its_header_alone() -> None:
    header, view = stored("none")[0]
    emptied = bytearray(view[:61])
    struct.pack_into(">i", emptied, 8, 61 - 12)
    struct.pack_into(">i", emptied, 57, 0)
    assert list(iter_batches(bytes(emptied[:60]))) == []
    for after in (b"", bytes(view)):
        found = [h for h, _ in iter_batches(bytes(emptied) + after)]
        assert found[0] == header._replace(length=49, count=0)
        assert found[1:] == ([header] if after else [])


@pytest.mark.parametrize(("at", "layout", "claimed"), [(0, ">q", -1), (23, ">i", -1), (57, ">i", -1)])
def test_iter_batches_negative_offset_or_count_is_refused(at: int, layout: str, claimed: int) -> None:
    raw = bytearray(stored("none")[0][1])
    struct.pack_into(layout, raw, at, claimed)
    with pytest.raises(CorruptBatch, match="it claims"):
        list(iter_batches(bytes(raw)))


@pytest.mark.parametrize(("magic", "timestamp"), [(0, -1), (1, 1234)])
def test_iter_batches_message_of_an_old_format_is_a_batch_of_one(magic: int, timestamp: int) -> None:
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=1000)
    builder.append(0, 1234 if magic else None, None, None)
    raw = bytes(builder.build())
    for header, _ in iter_batches(raw + raw):
        assert (header.base_offset, header.last_offset, header.count, header.length) == (0, 0, 1, len(raw) - 12)
        assert (header.base_timestamp, header.max_timestamp, header.leader_epoch) == (timestamp, timestamp, -1)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert len(list(iter_batches(raw + raw))) == 2


def test_iter_batches_shortest_readable_beginning_is_checked() -> None:
    beginning = struct.pack(">qiib", 0, -1, -1, 2)
    assert list(iter_batches(beginning[:16])) == []
    with pytest.raises(CorruptBatch, match="its length is -1"):
        list(iter_batches(beginning))
    with pytest.raises(CorruptBatch, match="its format is 3"):
        list(iter_batches(struct.pack(">qiib", 0, 49, -1, 3)))


@pytest.mark.parametrize(
    ("magic", "attributes", "log_append_time", "control", "transactional"),
    [
        (0, 0x38, False, False, False),
        (1, 0x38, True, False, False),
        (2, 0x08, True, False, False),
        (2, 0x10, False, False, True),
        (2, 0x20, False, True, False),
        (2, 0x07, False, False, False),
    ],
)
def test_header_attributes_are_those_of_the_format(
    magic: int, attributes: int, log_append_time: bool, control: bool, transactional: bool
) -> None:
    header = stored("none")[0][0]._replace(magic=magic, attributes=attributes)
    assert header.is_log_append_time is log_append_time
    assert (header.is_control, header.is_transactional) == (control, transactional)


def test_header_contiguous_means_a_record_at_every_offset() -> None:
    header = stored("none")[0][0]
    for count, delta, contiguous in ((3, 2, True), (2, 2, False), (1, 0, True), (0, -1, False)):
        assert header._replace(count=count, last_offset_delta=delta).contiguous is contiguous


@pytest.mark.parametrize(("magic", "codec"), [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)])
def test_records_of_old_formats_are_decoded_and_rebuilt(magic: int, codec: int) -> None:
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=1 << 20)
    for i in range(5):
        builder.append(i, 1000 + i if magic else None, b"k%d" % i, b"value " * 20)
    raw = bytes(builder.build())
    found: list[Record] = []
    for header, view in iter_batches(raw):
        assert (header.magic, header.count, header.contiguous) == (magic, 1, False)
        verify(view, header)
        found += records(view)
    times = [1000 + i for i in range(5)] if magic else [-1] * 5
    assert found == [Record(i, times[i], b"k%d" % i, b"value " * 20) for i in range(5)]
    _, ours = whole(rebuild(found, codec=codec, **IDENTITY))
    assert records(ours) == found
    damaged = bytearray(raw)
    damaged[-1] ^= 1
    with pytest.raises(CorruptBatch):
        verify_all(damaged)


def test_sequences_wrap() -> None:
    assert sequence_after(SEQUENCE_MODULUS - 3, 3) == 0
    assert sequence_after(SEQUENCE_MODULUS - 3, 4) == 1


def test_rebuild_without_records_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a record"):
        rebuild([], codec=0, **IDENTITY)


def test_rewrite_old_format_is_refused() -> None:
    builder = LegacyRecordBatchBuilder(magic=1, compression_type=0, batch_size=1000)
    builder.append(0, 1, b"k", b"v")
    ((header, view),) = iter_batches(bytes(builder.build()))
    with pytest.raises(ValueError, match="verbatim"):
        rewrite(view, header, **IDENTITY)


def test_records_undecodable_bytes_are_corrupt_batch() -> None:
    with pytest.raises(CorruptBatch, match="2 bytes"):
        recode.records(b"ab")
