"""Batches whose bytes claim or hide more than they are: decoding takes a bounded amount of memory and time."""

from __future__ import annotations

import contextlib
import gzip
import struct
import subprocess
import sys
from collections.abc import Callable

import cramjam
import pytest
from aiokafka.codec import snappy_encode
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
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
