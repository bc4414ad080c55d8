"""Many small batches become one: their records move byte for byte, only each record's two deltas are written anew.

Rules:
- For contiguous uncompressed batches of format 2 with times of their own; every checksum is checked before its records
  are used, and the new batch's is ours.
- Keys, values, headers and record attributes are never looked into: a record is its attributes byte, two deltas and a
  tail, and the tail is copied as it stands.
- A record whose lengths do not add up to its batch is a `CorruptBatch`, never another exception.
Why: a broker takes one batch per partition and request, so batches of one record would cost a request each.
Not for: compressed batches, whose records can't be reached without decoding them (`drlib.wire.recode`).
Source: Kafka's `DefaultRecord` (record format 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import google_crc32c

from drlib.wire.batch import CRC_FROM, HEADER_SIZE, BatchHeader, CorruptBatch, OutgoingBatch, compose

_NO_CODEC: Final = 0
_PLAIN: Final = b"\0\0\0"  # no attributes, both deltas zero: the only record of most batches


def can_merge(header: BatchHeader) -> bool:
    """Whether the batch may become part of a larger one."""
    return header.contiguous and header.codec == _NO_CODEC and not header.is_log_append_time


def merge(
    batches: Sequence[tuple[BatchHeader, memoryview]], *, producer_id: int, producer_epoch: int, base_sequence: int
) -> OutgoingBatch:
    """One batch with the records of all of `batches`, which `can_merge` and follow each other in offset.

    Raises `CorruptBatch` when a checksum is wrong or a record does not fit its batch.
    """
    base_timestamp = batches[0][0].base_timestamp
    newest = max(header.max_timestamp for header, _ in batches)
    parts: list[bytes] = []
    number = 0
    for header, view in batches:
        data = bytes(view)
        if google_crc32c.value(data[CRC_FROM:]) != header.crc:
            raise _corrupt(header, "its checksum is not that of its bytes")
        try:
            at = HEADER_SIZE
            shift = header.base_timestamp - base_timestamp
            for _ in range(header.count):
                length, at = _varint(data, at)
                end = at + length
                if data[at : at + 3] == _PLAIN:
                    attributes, delta, tail = b"\0", 0, at + 3
                else:
                    attributes = data[at : at + 1]
                    delta, tail = _varint(data, at + 1)
                    _, tail = _varint(data, tail)
                if length < 3 or end > len(data):
                    raise _corrupt(header, "a record in it ends outside of it")
                head = attributes + _encoded(delta + shift) + _encoded(number)
                parts += (_encoded(len(head) + end - tail), head, data[tail:end])
                at = end
                number += 1
        except IndexError:
            raise _corrupt(header, "a record in it ends outside of it") from None
        if at != len(data):
            raise _corrupt(header, f"{len(data) - at} bytes follow its last record")
    return compose(
        memoryview(b"".join(parts)),
        codec=_NO_CODEC,
        count=number,
        base_timestamp=base_timestamp,
        max_timestamp=newest,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


def _corrupt(header: BatchHeader, why: str) -> CorruptBatch:
    return CorruptBatch(f"the batch at offsets {header.base_offset} to {header.last_offset} is corrupt", why)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A zigzag number and the place behind it. Raises `IndexError` at the end of `data`."""
    byte = data[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    value, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + 1
        shift += 7
        if shift > 63:
            raise IndexError("a number in a record has no end")


def _encode(number: int) -> bytes:
    value = (number << 1) ^ (number >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL: Final = tuple(_encode(number) for number in range(4096))


def _encoded(number: int) -> bytes:
    return _SMALL[number] if 0 <= number < 4096 else _encode(number)
