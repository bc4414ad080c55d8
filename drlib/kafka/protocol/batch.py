"""Record batches as bytes: headers, checksums, and the rewrite of a header so that a batch moves verbatim.

Rules:
- A batch of format 2 is copied without touching its records; only the 61 bytes of its header are rewritten.
- The source's CRC-32C is checked before anything is rewritten: a corrupt batch never gets a valid checksum.
- Of the attributes only the codec is kept: a transactional, LogAppendTime or delete-horizon bit would be wrong on the target.
- Any bytes give a batch or a `CorruptBatch`, never another exception or an endless loop.
Not for: decoding records (`drlib.kafka.protocol.recode`).
Source: Kafka's `DefaultRecordBatch` and `AbstractLegacyRecordBatch`, KIP-98.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

import google_crc32c

from drlib.errors import DrlibError

SEQUENCE_MODULUS: Final = 2**31
"""Sequences count 0 .. 2**31 - 1 and then start at 0 again (Kafka's `DefaultRecordBatch.incrementSequence`)."""

HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12  # base offset and length, which every format begins with
CRC_FROM: Final = 21  # the checksum covers everything from the attributes on

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME_MASK: Final = 0x08
TRANSACTIONAL_MASK: Final = 0x10
CONTROL_MASK: Final = 0x20

NO_LEADER_EPOCH: Final = -1
NO_PRODUCER: Final = -1  # the producer ID of a batch that was written without one
NO_TIMESTAMP: Final = -1

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_BEFORE_CRC: Final = struct.Struct(">qiibI")
_AFTER_CRC: Final = struct.Struct(">hiqqqhii")
_LEGACY: Final = struct.Struct(">qiIbB")  # offset, size, CRC-32, magic, attributes
_LEGACY_SIZES: Final = (14, 22)  # smallest message without the 12 bytes of log overhead, for magic 0 and 1
_INT64: Final = struct.Struct(">q")
_INT32: Final = struct.Struct(">i")


class CorruptBatch(DrlibError):
    """Bytes that are not a valid batch."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(
            what,
            why,
            "Read the same offset with kafka-dump-log on the broker; restore the partition from another replica.",
        )


_new_tuple: Final = tuple.__new__  # a named tuple's own constructor is Python and costs twice as much


class ControlType(IntEnum):
    """Kafka's `ControlRecordType`."""

    ABORT = 0
    COMMIT = 1


class BatchHeader(NamedTuple):
    """The header of one batch, as it is in the log. (A tuple: ten times cheaper to create, once per batch.)

    Offsets are record offsets, `length` counts bytes after itself, timestamps are milliseconds. A message of format 0
    or 1 appears as a batch of one record at its offset: a compressed one may hold more, ending at that offset.
    """

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int  # type: ignore[assignment]  # Kafka's name; tuple.count is not used on headers

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        return self.magic >= 2 and bool(self.attributes & CONTROL_MASK)

    @property
    def is_transactional(self) -> bool:
        return self.magic >= 2 and bool(self.attributes & TRANSACTIONAL_MASK)

    @property
    def is_log_append_time(self) -> bool:
        return self.magic >= 1 and bool(self.attributes & LOG_APPEND_TIME_MASK)

    def written_by(self, producer_id: int, producer_epoch: int) -> bool:
        return (self.producer_id, self.producer_epoch) == (producer_id, producer_epoch)

    @property
    def contiguous(self) -> bool:
        """True when there is a record at every offset, so that the batch may move verbatim."""
        return self.magic == 2 and self.count > 0 and self.count == self.last_offset_delta + 1


@dataclass(frozen=True, slots=True)
class OutgoingBatch:
    """A batch ready to be produced: `head` is the new header (61 bytes), `body` may be a view of the received frame."""

    head: bytes
    body: memoryview
    count: int
    size: int  # bytes of head and body

    @property
    def header(self) -> BatchHeader:
        return BatchHeader(*_HEADER.unpack_from(self.head))


def wrapped(difference: int) -> int:
    """The difference of two times as a signed number of 64 bits, which is how Java computes it and adds it again."""
    return (difference + 2**63) % 2**64 - 2**63


def sequence_after(sequence: int, count: int) -> int:
    """The sequence that follows `count` records from `sequence`."""
    return (sequence + count) % SEQUENCE_MODULUS


def iter_batches(buffer: memoryview | bytes) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Header and bytes of each complete batch in `buffer`, in order, without copying.

    A batch cut off by the end of the buffer is left out, as a broker cuts a response by bytes. Raises `CorruptBatch` on
    a length or format no batch can have.
    """
    view = memoryview(buffer)
    end = len(view)
    at = 0
    while at + 17 <= end:
        magic = view[at + 16]
        if magic == 2 and at + HEADER_SIZE <= end:  # the fast path, for nearly all batches
            header = _new_tuple(BatchHeader, _HEADER.unpack_from(view, at))
            length = header.length
            smallest = HEADER_SIZE - LOG_OVERHEAD
        else:
            header = None
            length = _INT32.unpack_from(view, at + 8)[0]
            if magic > 2:
                raise CorruptBatch(f"a batch at byte {at} of the answer is unreadable", f"its format is {magic}")
            smallest = _LEGACY_SIZES[magic] if magic < 2 else HEADER_SIZE - LOG_OVERHEAD
        if length < smallest:
            raise CorruptBatch(f"a batch at byte {at} of the answer is unreadable", f"its length is {length}")
        after = at + LOG_OVERHEAD + length
        if after > end:
            return
        if header is None:
            header = _legacy_header(view, at)
        if header.count < 0 or header.last_offset_delta < 0 or header.base_offset < 0:
            raise CorruptBatch(
                f"the batch at offset {header.base_offset} is unreadable",
                f"it claims {header.count} records over {header.last_offset_delta + 1} offsets",
            )
        yield header, view[at:after]
        at = after


def header_at(buffer: memoryview, at: int) -> BatchHeader:
    """The header of the batch of format 2 that begins at byte `at`, which is there whole."""
    return _new_tuple(BatchHeader, _HEADER.unpack_from(buffer, at))


def _legacy_header(view: memoryview, at: int) -> BatchHeader:
    offset, size, crc, magic, attributes = _LEGACY.unpack_from(view, at)
    timestamp = _INT64.unpack_from(view, at + 18)[0] if magic == 1 else NO_TIMESTAMP
    return BatchHeader(
        base_offset=offset,
        length=size,
        leader_epoch=NO_LEADER_EPOCH,
        magic=magic,
        crc=crc,
        attributes=attributes,
        last_offset_delta=0,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=1,
    )


def verify(batch: memoryview, header: BatchHeader) -> None:
    """Raises `CorruptBatch` when the checksum in `header` is not that of the bytes."""
    _compare(header, zlib.crc32(batch[16:]) if header.magic < 2 else google_crc32c.value(bytes(batch[CRC_FROM:])))


def _compare(header: BatchHeader, checksum: int) -> None:
    if checksum != header.crc:
        raise CorruptBatch(
            f"the batch at offsets {header.base_offset} to {header.last_offset} is corrupt",
            f"its checksum is {header.crc:08x} and its bytes give {checksum:08x}",
        )


def rewrite(
    batch: memoryview, header: BatchHeader, *, producer_id: int, producer_epoch: int, base_sequence: int
) -> OutgoingBatch:
    """The same records with another producer ID and sequences; the body is not copied. Contiguous batches of format 2 only.

    Raises `CorruptBatch` when the source's checksum is wrong.
    """
    if header.magic != 2:
        raise ValueError(f"a batch of format {header.magic} can't move verbatim")
    body = batch[HEADER_SIZE:]
    # The checksum library takes bytes only; one copy serves to check the old sum and to make the new one.
    body_bytes = bytes(body)
    _compare(header, google_crc32c.extend(google_crc32c.value(bytes(batch[CRC_FROM:HEADER_SIZE])), body_bytes))
    after_crc = _AFTER_CRC.pack(
        header.attributes & CODEC_MASK,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence % SEQUENCE_MODULUS,
        header.count,
    )
    crc = google_crc32c.extend(google_crc32c.value(after_crc), body_bytes)
    head = _BEFORE_CRC.pack(0, header.length, NO_LEADER_EPOCH, 2, crc) + after_crc
    return OutgoingBatch(head, body, header.count, HEADER_SIZE + len(body))


def compose(
    body: bytes | memoryview,
    *,
    codec: int,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
) -> OutgoingBatch:
    """A batch of `count` contiguous records around an encoded `body`."""
    after_crc = _AFTER_CRC.pack(
        codec,
        count - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence % SEQUENCE_MODULUS,
        count,
    )
    encoded = body if isinstance(body, bytes) else bytes(body)
    crc = google_crc32c.extend(google_crc32c.value(after_crc), encoded)
    size = HEADER_SIZE + len(body)
    return OutgoingBatch(
        _BEFORE_CRC.pack(0, size - LOG_OVERHEAD, NO_LEADER_EPOCH, 2, crc) + after_crc, memoryview(encoded), count, size
    )


def control_type(batch: memoryview) -> ControlType | None:
    """Commit or abort, for the control batch `batch`; None for another kind of marker.

    Raises `CorruptBatch` when its record can't be read. Source: `ControlRecordType.parse`.
    """
    try:
        at = HEADER_SIZE
        _, at = varint(batch, at)  # record length
        at += 1  # attributes
        _, at = varint(batch, at)  # timestamp delta
        _, at = varint(batch, at)  # offset delta
        key_length, at = varint(batch, at)
        if key_length < 4:
            raise CorruptBatch("a control batch is unreadable", f"its key has {key_length} bytes")
        _, kind = struct.unpack_from(">hh", batch, at)
    except (IndexError, struct.error) as error:
        raise CorruptBatch("a control batch is unreadable", "its record ends early") from error
    except ValueError as error:
        raise CorruptBatch("a control batch is unreadable", "a number in it has no end") from error
    return ControlType(kind) if kind in (0, 1) else None


def varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """A zigzag number and the index after it. Raises `IndexError` at the end of `data`, `ValueError` for one without an end."""
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
            raise ValueError("a number of more than 64 bits")
