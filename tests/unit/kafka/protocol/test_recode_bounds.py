"""Batches whose bytes claim or hide more than they are: decoding takes a bounded amount of memory and time."""

from __future__ import annotations

import bisect
import contextlib
import gzip
import random
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable

import cramjam
import pytest
from aiokafka.codec import snappy_encode
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.legacy_records import LegacyRecordBatch, LegacyRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from drlib.kafka.protocol import recode
from drlib.kafka.protocol.batch import HEADER_SIZE, CorruptBatch
from drlib.kafka.protocol.recode import MOST_DECODED, Record, TooLargeToDecode, rebuild, records

CODECS = {"gzip": 1, "snappy": 2, "xerial": 2, "lz4": 3, "zstd": 4}
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "none": bytes,
    "gzip": gzip.compress,
    "snappy": lambda data: bytes(cramjam.snappy.compress_raw(data)),
    "xerial": snappy_encode,
    "lz4": lambda data: bytes(cramjam.lz4.compress(data)),
    "zstd": lambda data: bytes(cramjam.zstd.compress(data)),
}
# Prints the peak of its memory and the seconds of processor time.
MEASURED = """\
import re, sys, time
from pathlib import Path
from drlib.kafka.protocol.recode import TooLargeToDecode, records
batch = Path(sys.argv[1]).read_bytes()
began = time.process_time()
try:
    records(batch)
except TooLargeToDecode:
    pass
peak = re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())
print(peak[1], time.process_time() - began)
"""


def batch_of(body: bytes, codec: str, count: int = 1) -> bytes:
    """A batch of format 2 with `body`, compressed with `codec`; its checksum is not looked at here."""
    (head,) = (rebuild([Record(0, 1, None, None)], codec=0, producer_id=1, producer_epoch=0, base_sequence=0).head,)
    made = bytearray(head[:HEADER_SIZE])
    made[22] = CODECS.get(codec, 0)
    made[HEADER_SIZE - 4 : HEADER_SIZE] = struct.pack(">i", count)
    held = COMPRESS[codec](body)
    made[8:12] = struct.pack(">i", HEADER_SIZE - 12 + len(held))
    return bytes(made) + held


def varint(number: int) -> bytes:
    left, out = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*out, left])


def record_of(*, value: bytes = b"", headers: int = 0) -> bytes:
    fields = b"\0\0\0" + varint(-1) + varint(len(value)) + value + varint(headers) + bytes([0, 1]) * headers
    return varint(len(fields)) + fields


BOMBS: dict[str, Callable[[str], bytes]] = {
    "zeros": lambda codec: batch_of(bytes(300 << 20), codec),
    "one large value": lambda codec: batch_of(record_of(value=bytes(150 << 20)), codec),
    "many records": lambda codec: batch_of(record_of() * 2_000_000, codec, 2_000_000),
    "many headers": lambda codec: batch_of(record_of(headers=5_000_000), codec),
    "many records with headers": lambda codec: batch_of(record_of(headers=20) * 100_000, codec, 100_000),
}


@pytest.mark.parametrize(
    ("bomb", "codec"),
    [
        *(("zeros", codec) for codec in CODECS),
        *((bomb, codec) for bomb in list(BOMBS)[1:] for codec in ("none", "zstd")),
    ],
)
def test_records_of_a_batch_that_takes_too_much_memory_are_not_decoded(bomb: str, codec: str) -> None:
    with pytest.raises(TooLargeToDecode, match="take more than 256 MiB"):
        records(BOMBS[bomb](codec))


@pytest.mark.parametrize("size", [MOST_DECODED // 4, MOST_DECODED])
@pytest.mark.parametrize("codec", [1, 2, 3])
def test_records_of_a_legacy_batch_that_takes_too_much_memory_are_not_decoded(codec: int, size: int) -> None:
    builder = LegacyRecordBatchBuilder(magic=1, compression_type=codec, batch_size=1 << 30)
    builder.append(0, timestamp=1, key=None, value=bytes(size))
    with pytest.raises(TooLargeToDecode):
        records(bytes(builder.build()))


@pytest.mark.parametrize("codec", [0, 1, 2, 3])
def test_records_of_a_large_legacy_batch_are_decoded(codec: int) -> None:
    """Of no more than `message.max.bytes` on most clusters, compressed or not."""
    builder = LegacyRecordBatchBuilder(magic=1, compression_type=codec, batch_size=1 << 30)
    builder.append(0, timestamp=1, key=None, value=bytes(MOST_DECODED // 16))
    assert [len(r.value or b"") for r in records(bytes(builder.build()))] == [MOST_DECODED // 16]


def test_records_within_a_bound_are_within_any_larger_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The headers of every record count, wherever the sum reaches the bound."""
    monkeypatch.setattr(recode, "_FEW_BYTES", 0)
    batch = batch_of(record_of(headers=3) * 4, "none", 4)

    def is_decoded(most: int) -> bool:
        monkeypatch.setattr(recode, "MOST_DECODED", most)
        try:
            return len(records(batch)) == 4
        except TooLargeToDecode:
            return False

    decoded = [is_decoded(most) for most in range(10_000)]
    assert decoded == sorted(decoded)
    assert {decoded[0], decoded[-1]} == {False, True}


@pytest.mark.parametrize("length", [0xFFFFFFFF, MOST_DECODED, -1])
def test_snappy_block_that_claims_to_be_large_is_not_decoded(length: int) -> None:
    claimed = bytearray()
    left = length & 0xFFFFFFFF
    while left > 0x7F:
        claimed.append(left & 0x7F | 0x80)
        left >>= 7
    with pytest.raises(TooLargeToDecode):
        records(batch_of(b"", "snappy")[:HEADER_SIZE] + bytes([*claimed, left]) + b"\0x")


@pytest.mark.parametrize("size", [0, -4, -1, 2**31 - 1])
def test_xerial_block_of_an_impossible_size_is_corrupt(size: int) -> None:
    xerial = snappy_encode(record_of())
    with pytest.raises(CorruptBatch):
        records(batch_of(b"", "snappy")[:HEADER_SIZE] + xerial[:16] + struct.pack(">i", size) + xerial[20:])


@pytest.mark.parametrize(
    ("bomb", "codec"),
    [("zeros", "gzip"), ("zeros", "zstd"), ("many headers", "zstd"), ("many records with headers", "lz4")],
)
def test_memory_and_time_to_refuse_a_batch_are_bounded(
    bomb: str, codec: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("batch") / "batch"
    file.write_bytes(BOMBS[bomb](codec))
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(file)], capture_output=True, text=True, check=True, timeout=120
    )
    peak_kib, seconds = map(float, done.stdout.split())
    assert peak_kib < 400 * 1024
    assert seconds < 30


@pytest.mark.parametrize("codec", COMPRESS)
@given(values=st.lists(st.binary(max_size=200), min_size=1, max_size=5), large=st.integers(0, 3 << 20))
def test_records_within_the_bound_are_those_of_the_library(codec: str, values: list[bytes], large: int) -> None:
    """Also where the buffer grows, and beyond the size from which on the cost is counted record by record."""
    body = b"".join(record_of(value=value) for value in (*values, bytes(large)))
    batch = batch_of(body, codec, len(values) + 1)
    assert [(r.offset, r.key, r.value) for r in records(batch)] == [
        (r.offset, r.key, r.value) for r in DefaultRecordBatch(batch)
    ]


@given(data=st.binary(max_size=300), codec=st.integers(0, 7), magic=st.integers(-128, 127))
def test_records_of_any_bytes_are_decoded_or_corrupt(data: bytes, codec: int, magic: int) -> None:
    batch = bytearray(batch_of(b"", "none", count=3) + data)
    batch[16:17], batch[22] = struct.pack(">b", magic), codec
    for damaged in (bytes(batch), bytes(batch[:17]) + data):
        with contextlib.suppress(CorruptBatch):
            records(damaged)


class Buffers:
    """A decompressor that keeps the sizes of the buffers it is given."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def decompress_into(self, data: memoryview, into: memoryview) -> int:
        self.sizes.append(len(into))
        return int(cramjam.gzip.decompress_into(data, into))


@pytest.mark.parametrize(
    ("most", "size", "sizes"),
    [
        (1 << 20, 100, [1 << 16]),
        (1 << 20, 1 << 17, [1 << 16, 1 << 19]),
        (1 << 18, 1 << 17, [1 << 16, 1 << 18]),
        (1 << 15, 100, [1 << 15]),
    ],
)
def test_buffer_for_decompressed_records_grows_up_to_the_bound(
    monkeypatch: pytest.MonkeyPatch, most: int, size: int, sizes: list[int]
) -> None:
    buffers = Buffers()
    monkeypatch.setitem(recode._STREAMS, 1, buffers)
    monkeypatch.setattr(recode, "_MOST_LEGACY", most)
    with contextlib.suppress(CorruptBatch):
        records(legacy_wrapper(bytes(size), codec=1))
    assert buffers.sizes == sizes


def test_buffer_for_decompressed_records_begins_with_a_multiple_of_what_is_compressed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    buffers = Buffers()
    monkeypatch.setitem(recode._STREAMS, 1, buffers)
    batch = batch_of(record_of(value=bytes(range(256)) * 20 + random.Random(1).randbytes(100_000)), "gzip")
    assert len(records(batch)) == 1
    assert buffers.sizes == [16 * (len(batch) - HEADER_SIZE)]


def legacy_wrapper(messages: bytes, *, codec: int, magic: int = 1, key: bytes | None = None) -> bytes:
    """A message of format 0 or 1 with compressed messages as its value."""
    value = COMPRESS[{1: "gzip", 2: "snappy", 3: "lz4"}[codec]](messages)
    body = bytes([magic, codec]) + (struct.pack(">q", 1) if magic else b"")
    body += struct.pack(">i", -1) if key is None else struct.pack(">i", len(key)) + key
    body += struct.pack(">i", len(value)) + value
    return struct.pack(">qiI", 7, 4 + len(body), zlib.crc32(body)) + body


def legacy_messages(magic: int, *values: bytes) -> bytes:
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=1 << 20)
    for number, value in enumerate(values):
        builder.append(number, timestamp=1, key=None, value=value)
    return bytes(builder.build())


def least(monkeypatch: pytest.MonkeyPatch, bound: str, batch: bytes, most: int = 5_000) -> int:
    """The smallest value of `bound` with which the records of `batch` are decoded; `most` where that is too small."""
    held: int = getattr(recode, bound)

    def is_decoded(size: int) -> bool:
        monkeypatch.setattr(recode, bound, size)
        try:
            return bool(records(batch))
        except TooLargeToDecode:
            return False
        finally:
            monkeypatch.setattr(recode, bound, held)

    return bisect.bisect_left(range(most), True, key=is_decoded)


# lz4 of format 0 has a frame of its own, with a wrong checksum (KIP-57).
@pytest.mark.parametrize(("magic", "codec"), [(0, 1), (0, 2), (1, 1), (1, 2), (1, 3)])
@pytest.mark.parametrize("key", [None, b"", b"key of the wrapper"])
def test_bound_of_a_legacy_batch_is_on_its_decompressed_bytes(
    monkeypatch: pytest.MonkeyPatch, magic: int, key: bytes | None, codec: int
) -> None:
    messages = legacy_messages(magic, b"value", b"another one")
    wrapper = legacy_wrapper(messages, codec=codec, magic=magic, key=key)
    assert [r.value for r in records(wrapper)] == [b"value", b"another one"]
    assert least(monkeypatch, "_MOST_LEGACY", wrapper) == len(messages)


@pytest.mark.parametrize("magic", [0, 1])
def test_bound_of_an_uncompressed_legacy_batch_is_on_its_bytes(monkeypatch: pytest.MonkeyPatch, magic: int) -> None:
    message = legacy_messages(magic, b"value")
    assert least(monkeypatch, "_MOST_LEGACY", message) == len(message)


def test_bound_of_a_legacy_batch_is_the_one_of_as_many_smallest_records() -> None:
    """A record of 26 bytes costs 300, and what is decoded and compressed at once twice its bytes."""
    assert recode._MOST_LEGACY // 26 * (300 + 2 * 26) <= MOST_DECODED < (recode._MOST_LEGACY // 26 + 2) * (300 + 2 * 26)


@pytest.mark.parametrize("codec", COMPRESS)
@pytest.mark.parametrize(("headers", "few"), [(0, 0), (3, 0), (3, 1 << 20)])
def test_bound_of_a_batch_is_on_its_bytes_records_and_headers(
    monkeypatch: pytest.MonkeyPatch, codec: str, headers: int, few: int
) -> None:
    """Headers are counted where the bytes are not too few to matter."""
    monkeypatch.setattr(recode, "_FEW_BYTES", few)
    body = record_of(headers=headers) + record_of(value=b"v" * 200, headers=headers) * 3
    counted = 0 if few else 200 * headers * 4
    assert least(monkeypatch, "MOST_DECODED", batch_of(body, codec, 4)) == 2 * len(body) + 300 * 4 + counted


def test_headers_are_counted_from_the_size_of_few_bytes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    body = record_of(headers=3)
    batch = batch_of(body, "none")
    monkeypatch.setattr(recode, "_FEW_BYTES", len(body))
    assert least(monkeypatch, "MOST_DECODED", batch) == 2 * len(body) + 300
    monkeypatch.setattr(recode, "_FEW_BYTES", len(body) - 1)
    assert least(monkeypatch, "MOST_DECODED", batch) == 2 * len(body) + 300 + 3 * 200


def test_time_of_ten_bytes_is_counted_past(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recode, "_FEW_BYTES", 0)
    made = [Record(0, 0, None, None), Record(1, -(2**62) - 5, b"k", b"v", (("h", b""),))]
    built = rebuild(made, codec=0, producer_id=1, producer_epoch=0, base_sequence=0)
    data = built.head + bytes(built.body)
    assert records(data) == made
    assert least(monkeypatch, "MOST_DECODED", data) == 2 * len(built.body) + 2 * 300 + 200


@pytest.mark.parametrize("count", [-1, -(2**31)])
def test_negative_number_of_records_is_none_or_corrupt(count: int) -> None:
    with contextlib.suppress(CorruptBatch):
        assert records(batch_of(record_of(), "none", count)) == []


@pytest.mark.parametrize("more", [1, 4])
def test_xerial_block_that_claims_more_bytes_than_follow_is_corrupt(more: int) -> None:
    xerial = snappy_encode(record_of())
    claimed = struct.pack(">i", len(xerial) - 20 + more)
    with pytest.raises(CorruptBatch, match=r"bytes, of which \d+ are there"):
        records(batch_of(b"", "snappy")[:HEADER_SIZE] + xerial[:16] + claimed + xerial[20:])


Content = list[tuple[bytes | None, bytes | None]]
contents: st.SearchStrategy[Content] = st.lists(
    st.tuples(st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=50)), min_size=1, max_size=5
)


@given(content=contents, magic=st.integers(0, 1), codec=st.integers(0, 3), attributes=st.sampled_from([0, 8]))
def test_legacy_batch_is_decoded_as_by_another_client(
    content: Content, magic: int, codec: int, attributes: int
) -> None:
    """Offsets in a wrapper count from 0 in format 1; a wrapper with LogAppendTime has the time of all."""
    if (magic, codec) == (0, 3):
        return  # KIP-57
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=codec, batch_size=1 << 20)
    for number, (key, value) in enumerate(content if codec else content[:1]):
        builder.append(number, timestamp=1000 + number, key=key, value=value)
    batch = bytearray(builder.build())
    batch[:8] = struct.pack(">q", 70 + len(content) - 1)  # as brokers store it
    batch[17] |= attributes
    expected = LegacyRecordBatch(bytes(batch), magic)
    assert records(bytes(batch)) == [
        Record(r.offset, -1 if r.timestamp is None else r.timestamp, r.key, r.value) for r in expected
    ]


@pytest.mark.parametrize("codec", [1, 2, 3])
@pytest.mark.parametrize("magic", [0, 1])
@given(data=st.data())
def test_legacy_wrapper_of_any_bytes_is_decoded_or_corrupt(magic: int, codec: int, data: st.DataObject) -> None:
    """Lengths that lead out of the bytes end no process."""
    inner = bytearray(legacy_messages(data.draw(st.integers(0, 1)), b"value", b"x" * data.draw(st.integers(0, 40))))
    for at in data.draw(st.lists(st.integers(0, len(inner) - 1), max_size=4)):
        inner[at] = data.draw(st.sampled_from([0, 1, 127, 128, 255]))
    for messages in (bytes(inner), data.draw(st.binary(max_size=100)), bytes(data.draw(st.integers(0, 300)))):
        for batch in (legacy_wrapper(messages, codec=codec, magic=magic), messages):
            with contextlib.suppress(CorruptBatch):
                records(batch)


MESSAGES = legacy_messages(1, b"value", b"another one")


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        (b"", "no message in it"),
        (MESSAGES + bytes(5), "5 bytes are no message"),
        (MESSAGES[:-1], r"has format 1 and \d+ bytes"),
        (MESSAGES[:8] + struct.pack(">i", -100) + MESSAGES[12:], "-100 bytes|behind its value|a part of"),
        (MESSAGES[:8] + struct.pack(">i", 0) + MESSAGES[12:], "behind its value|a part of"),
        (MESSAGES[:16] + b"\7" + MESSAGES[17:], "has format 7"),
        (MESSAGES[:17] + b"\1" + MESSAGES[18:], "its message 0 is compressed again"),
        (MESSAGES[:26] + struct.pack(">i", -2) + MESSAGES[30:], "has a part of -2 bytes"),
        (MESSAGES[:26] + struct.pack(">i", 2**31 - 1) + MESSAGES[30:], "has a part of 2147483647 bytes"),
        (MESSAGES[:30] + struct.pack(">i", 4) + MESSAGES[34:], "has 1 bytes behind its value"),
        (MESSAGES[:30] + struct.pack(">i", 6) + MESSAGES[34:], "has a part of 6 bytes"),
    ],
)
def test_legacy_wrapper_with_wrong_lengths_is_corrupt(messages: bytes, why: str) -> None:
    with pytest.raises(CorruptBatch, match=why):
        records(legacy_wrapper(messages, codec=1))


def test_legacy_wrapper_of_a_codec_that_does_not_exist_is_corrupt() -> None:
    batch = bytearray(legacy_wrapper(MESSAGES, codec=1))
    batch[17] = 5
    with pytest.raises(CorruptBatch, match="there is no codec 5"):
        records(bytes(batch))
