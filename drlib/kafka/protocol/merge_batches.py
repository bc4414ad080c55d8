"""Merge small batches, or batches with gaps, into one: records are copied byte for byte, only their two deltas change.

Rules:
- Only uncompressed batches of format 2 with CreateTime are merged. Every checksum is checked before its records are used;
  the new batch has a new checksum.
- A compacted batch has gaps, which brokers refuse from producers (`LogValidator.validateBatch`: as many offsets as
  records). Its records are renumbered, and `Merged.pieces` has their source offsets.
- Keys, values and headers are not decoded: a record is its attributes byte, two deltas and a tail, and the tail is copied.
- A record whose lengths do not add up to its batch, or whose offset is out of order, is a `CorruptBatch`, never
  another exception.
- A response often begins with batches of one record each (a producer without linger). The plainest of them are checked and
  copied in one pass over its bytes, at half of the cost: no attributes (uncompressed, CreateTime, not transactional), a
  record of less than 8 KiB, the offset that follows the one before, one leader epoch, below the high watermark. The pass
  stops at the first batch that is anything else, damaged or cut off, and decides nothing about it: the caller decodes that
  one, and all behind it.
Why: a broker accepts one batch per partition and request, so batches of one record would cost a request each.
Not for: compressed batches, whose records can't be reached without decoding them (`drlib.kafka.protocol.recode`).
Source: Kafka's `DefaultRecord` (record format 2).
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import google_crc32c

from drlib.kafka.protocol.batch import (
    CODEC_MASK,
    CRC_FROM,
    HEADER_SIZE,
    LOG_APPEND_TIME_MASK,
    LOG_OVERHEAD,
    NO_PRODUCER,
    BatchHeader,
    CorruptBatch,
    OutgoingBatch,
    compose,
    header_at,
    varint,
    wrapped,
)

_NO_CODEC: Final = 0
_IN_THE_WAY: Final = CODEC_MASK | LOG_APPEND_TIME_MASK
GROWTH: Final = 14
"""Bytes by which a record may grow: a time delta by nine, its number by four, its length by one."""
_TABLE: Final = 8192  # precomputed encodings of one or two bytes
_RECORDS_AT: Final = HEADER_SIZE - CRC_FROM  # within the bytes that the checksum covers
_HEADER: Final = struct.Struct(">qiibIhiqqq6xi")  # without the producer's epoch and sequence
_FORMAT: Final = 2
_MOST_BODY: Final = (_TABLE - GROWTH) * 2  # a larger record might outgrow the table
_MOST_GROWTH: Final = LOG_OVERHEAD - HEADER_SIZE + GROWTH  # of the result, beyond a batch's length
_SMALLEST: Final = HEADER_SIZE - LOG_OVERHEAD + 7  # the length of a batch of one empty record


@dataclass(frozen=True, slots=True)
class Merged:
    """`pieces`: the source offset and count of each stretch of records in `batch`, in order."""

    batch: OutgoingBatch
    pieces: tuple[tuple[int, int], ...]


def can_merge(header: BatchHeader) -> bool:
    """Whether the batch may become part of another one, or one of its own."""
    return header.magic == 2 and header.count > 0 and not header.attributes & _IN_THE_WAY


def merge(
    batches: Sequence[tuple[BatchHeader, memoryview]], *, producer_id: int, producer_epoch: int, base_sequence: int
) -> Merged:
    """One batch with the records of all `batches`, for which `can_merge` holds, in the order of their offsets.

    Raises `CorruptBatch` when a checksum is wrong or a record does not fit its batch.
    """
    base_timestamp = batches[0][0].base_timestamp
    newest = max(header.max_timestamp for header, _ in batches)
    parts: list[bytes] = []
    pieces: list[tuple[int, int]] = []
    began, behind = batches[0][0].base_offset, batches[0][0].base_offset  # bounds of the current piece
    count = 0  # records so far
    for header, view in batches:
        contiguous = header.contiguous
        offset = header.base_offset
        if contiguous:
            if offset != behind:
                pieces.append((began, behind - began))
                began = offset
            behind = header.next_offset
        before = -1
        data = bytes(view[CRC_FROM:])
        if google_crc32c.value(data) != header.crc:
            raise _corrupt(header, "its checksum is not that of its bytes")
        try:
            at, limit = _RECORDS_AT, len(data)
            shift = header.base_timestamp - base_timestamp
            for number in range(count, count + header.count):
                byte = data[
                    at
                ]  # lengths and deltas of one or two bytes are decoded inline: a call would double the cost
                if byte < 0x80:
                    length, at = (byte >> 1) ^ -(byte & 1), at + 1
                elif (more := data[at + 1]) < 0x80:
                    length, at = ((byte & 0x7F | more << 7) >> 1) ^ -(byte & 1), at + 2
                else:
                    length, at = varint(data, at)
                end = at + length
                byte, more = data[at + 1], data[at + 2]
                if byte < 0x80 and more < 0x80:
                    delta, place, tail = (byte >> 1) ^ -(byte & 1), (more >> 1) ^ -(more & 1), at + 3
                else:
                    delta, tail = varint(data, at + 1)
                    place, tail = varint(data, tail)
                if not contiguous:
                    if not before < place <= header.last_offset_delta:
                        raise _corrupt(header, f"one of its records has offset {offset + place}")
                    before = place
                    if offset + place != behind:
                        pieces.append((began, behind - began))
                        began = offset + place
                    behind = offset + place + 1
                if tail > end or end > limit:
                    raise _corrupt(header, "a record in it ends outside of it")
                delta += shift
                head = (
                    data[at : at + 1]
                    + (_SMALL[delta] if 0 <= delta < _TABLE else _encode(delta))
                    + (_SMALL[number] if number < _TABLE else _encode(number))
                )
                size = len(head) + end - tail
                parts += (_SMALL[size] if size < _TABLE else _encode(size), head, data[tail:end])
                at = end
            count += header.count
        except (IndexError, ValueError):
            raise _corrupt(header, "a record in it ends outside of it") from None
        if at != limit:
            raise _corrupt(header, f"{limit - at} bytes follow its last record")
    pieces.append((began, behind - began))
    batch = compose(
        b"".join(parts),
        codec=_NO_CODEC,
        count=count,
        base_timestamp=base_timestamp,
        max_timestamp=newest,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )
    return Merged(batch, tuple(piece for piece in pieces if piece[1]))


class SingleRecords(NamedTuple):
    """`number` records from the expected offset on, merged; `after`: the byte behind them in the response. `writers`: the
    newest batch of each producer that has an ID."""

    batch: OutgoingBatch
    number: int
    max_timestamp: int
    after: int
    writers: Sequence[BatchHeader] = ()


def skip_to(records: memoryview, offset: int) -> int:
    """The byte at which the batch with base offset `offset` begins; -1 where following the lengths does not lead to it."""
    at, limit = 0, len(records) - HEADER_SIZE
    while at <= limit:
        base, length = struct.unpack_from(">qi", records, at)
        if base >= offset or length < 0:
            return at if base == offset else -1
        at += LOG_OVERHEAD + length
    return -1


def leader_epoch(records: memoryview, at: int) -> int:
    """The leader epoch of the batch that begins at byte `at`."""
    epoch: int = struct.unpack_from(">i", records, at + LOG_OVERHEAD)[0]
    return epoch


def merge_single_records(
    records: memoryview,
    at: int,
    offset: int,
    *,
    end: int,
    most_bytes: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
) -> SingleRecords | None:
    """The batches from byte `at` on, the first of which must have `offset`, as one of at most `most_bytes` bytes.

    `end`: the high watermark, which none may reach. None where fewer than two can be merged.
    """
    unpack, checksum, small = _HEADER.unpack_from, google_crc32c.value, _SMALL
    parts: list[bytes] = []
    writers: dict[int, int] = {}  # by producer ID: at which byte its newest batch begins
    last, last_at = NO_PRODUCER, at
    count, size, limit = 0, HEADER_SIZE, len(records)
    epoch = newest = base_timestamp = 0
    while at + HEADER_SIZE <= limit and count < _TABLE:
        base, length, found_epoch, magic, crc, attributes, delta, first, latest, writer, records_in = unpack(
            records, at
        )
        after = at + LOG_OVERHEAD + length
        if (
            base != offset
            or records_in != 1
            or attributes
            or delta
            or magic != _FORMAT
            or (count and found_epoch != epoch)
            or base >= end
            or after > limit
            or length < _SMALLEST
            or size + length + _MOST_GROWTH > most_bytes
        ):
            break
        data = bytes(records[at + CRC_FROM : after])
        if checksum(data) != crc:
            break
        byte = data[_RECORDS_AT]
        if byte < 0x80:
            record, body = _RECORDS_AT + 1, byte
        elif (more := data[_RECORDS_AT + 1]) < 0x80:
            record, body = _RECORDS_AT + 2, byte & 0x7F | more << 7
        else:
            break
        # A number is twice itself when it is not negative; attributes, time delta and offset delta of the record are 0.
        head = data[record : record + 3]
        if body & 1 or body > _MOST_BODY or record + (body >> 1) != len(data) or head != b"\0\0\0":
            break
        if not count:
            epoch, newest, base_timestamp = found_epoch, latest, first
        shift = first - base_timestamp
        numbers = (small[shift] if 0 <= shift < _TABLE else _encode(shift)) + small[count]
        body = (body >> 1) - 2 + len(numbers)
        parts += (small[body], b"\0", numbers, data[record + 3 :])
        if latest > newest:  # noqa: PLR1730 -- a call of max for each record
            newest = latest
        if writer != last:
            writers[last] = last_at
            last = writer
        last_at = at
        count += 1
        offset += 1
        size += length + _MOST_GROWTH
        at = after
    if count < 2:
        return None
    batch = compose(
        b"".join(parts),
        codec=_NO_CODEC,
        count=count,
        base_timestamp=base_timestamp,
        max_timestamp=newest,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )
    writers[last] = last_at
    writers.pop(NO_PRODUCER, None)
    return SingleRecords(batch, count, newest, at, [header_at(records, each) for each in writers.values()])


def _corrupt(header: BatchHeader, why: str) -> CorruptBatch:
    return CorruptBatch(f"the batch at offsets {header.base_offset} to {header.last_offset} is corrupt", why)


def _encode(number: int) -> bytes:
    number = wrapped(number)
    value = (number << 1) ^ (number >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_SMALL: Final = tuple(_encode(number) for number in range(_TABLE))
