"""Damage that no checksum covers: found before anything of the answer is used."""

from __future__ import annotations

import struct

import pytest

from drlib.kafka.protocol import recode
from drlib.kafka.protocol.batch import CorruptBatch
from drlib.kafka.protocol.error_codes import refusal
from drlib.kafka.protocol.validate import sound_batches


def batch(base: int, count: int = 3) -> bytes:
    records = [recode.Record(i, 1000 + i, b"k", b"v%d" % i) for i in range(count)]
    built = recode.rebuild(records, codec=0, producer_id=1, producer_epoch=0, base_sequence=0)
    data = bytearray(built.head + bytes(built.body))
    struct.pack_into(">q", data, 0, base)
    return bytes(data)


def offsets(data: bytes, position: int, high_watermark: int = 100) -> list[int]:
    return [header.base_offset for header, _ in sound_batches(memoryview(data), position, high_watermark)]


def test_sound_batches_returns_whole_batches_without_the_cut_end() -> None:
    data = batch(0) + batch(3) + batch(6)
    assert offsets(data, 0) == [0, 3, 6]
    assert offsets(data[:-5], 0) == [0, 3]
    assert offsets(b"", 0) == []
    assert offsets(batch(0) + batch(50), 0) == [0, 50]  # a gap is the cleaner's


def test_sound_batches_damaged_length_is_reported_at_its_start() -> None:
    long = bytearray(batch(3))
    struct.pack_into(">i", long, 8, 5_000_000)
    assert offsets(batch(0) + bytes(long) + batch(6), 0) == [0]  # what is before it goes on
    with pytest.raises(CorruptBatch, match="no whole batch"):
        offsets(bytes(long) + batch(6), 3)


@pytest.mark.parametrize("base", [-1, 1, 2, 99, 2**40])
def test_sound_batches_offset_out_of_order_is_damage(base: int) -> None:
    data = batch(0) + batch(base) + batch(6)
    assert offsets(data, 0) == [0]
    with pytest.raises(CorruptBatch):
        sound_batches(memoryview(data), 3, 100)


def test_sound_batches_unknown_high_watermark_is_no_bound() -> None:
    assert offsets(batch(500), 500, -1) == [500]


def test_refusal_names_the_setting_to_change() -> None:
    words = {"topic": "A.orders", "records": 3, "size": 2_000_000, "newest_ms": 7_200_000, "now_ms": 0}
    why, remedy = refusal(10, None, **words)  # type: ignore[arg-type]
    assert "2000000 bytes" in why
    assert remedy.endswith("--topic A.orders --add-config max.message.bytes=2000000")
    why, remedy = refusal(32, "too far", **words)  # type: ignore[arg-type]
    assert "1970-01-01T02:00:00.000+00:00" in why
    assert "7200 s after now" in why
    assert "message.timestamp.after.max.ms=14400000" in remedy
    why, remedy = refusal(32, None, **{**words, "newest_ms": -5000})  # type: ignore[arg-type]
    assert "message.timestamp.before.max.ms=10000" in remedy
    why, remedy = refusal(87, "no key", **words)  # type: ignore[arg-type]
    assert "INVALID_RECORD (code 87), no key" in why
    assert "keys" in remedy
