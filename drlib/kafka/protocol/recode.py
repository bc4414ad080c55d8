"""Decode a batch into records and build a new one: for batches that cannot move verbatim.

Rules:
- Offsets are renumbered 0..n-1 and sequences follow them; keys, values, headers and timestamps are kept.
- A LogAppendTime batch has one time for all its records, its max timestamp; a record of format 0 has none (-1).
- A rebuilt batch has a new checksum; check the source's first with `drlib.kafka.protocol.batch.verify`.
- Whatever the bytes claim, decoding a batch takes `MOST_DECODED` bytes of memory at most: 21 KiB may decompress to 700 MiB, and
  a record may hold millions of headers. A batch that would take more is `TooLargeToDecode`; it can still move verbatim.
- Messages of format 0 and 1 are decoded here, each number checked against the bytes that are there: aiokafka's decoder of these
  trusts their lengths, and damaged ones end the process.
Not for: batches that can move verbatim, at a tenth of the cost.
Source: KIP-98, Kafka's `DefaultRecord` and `LegacyRecord`; the codec of format 2 is aiokafka's, decompression cramjam's.
"""

import hashlib
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import cramjam
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from drlib.errors import DrlibError
from drlib.kafka.protocol.batch import (
    HEADER_SIZE,
    LOG_APPEND_TIME_MASK,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    SEQUENCE_MODULUS,
    CorruptBatch,
    OutgoingBatch,
    compose,
    varint,
    wrapped,
)

MAGIC_AT: Final = 16
_NO_LIMIT: Final = 2**31 - 1
_RECORD_OVERHEAD: Final = 36  # attributes, the time delta in at most 10 bytes, five other numbers in at most 5
_HEADER_OVERHEAD: Final = 10
_CODEC_IN_HEADER: Final = 22  # low byte of the attributes
MOST_DECODED: Final = 256 << 20
_RECORD_COST: Final = 300  # bytes of memory, beside its content
_HEADER_COST: Final = 200
_FEW_BYTES: Final = 1 << 20  # of decompressed records: what they cost at most is less than `MOST_DECODED`
_LEAST_LEGACY: Final = 26  # bytes of a record of format 0 or 1
_MOST_LEGACY: Final = MOST_DECODED * _LEAST_LEGACY // (_RECORD_COST + 2 * _LEAST_LEGACY)
_MESSAGE: Final = struct.Struct(">qiIbb")  # offset, size, checksum, format, attributes
_SNAPPY: Final = 2
_STREAMS: Final = {1: cramjam.gzip, 3: cramjam.lz4, 4: cramjam.zstd}
_XERIAL: Final = b"\x82SNAPPY\0"
_XERIAL_HEADER: Final = 16
_FIRST_GROWTH, _GROWTH = 16, 8  # of the buffer for what is decompressed


@dataclass(frozen=True, slots=True)
class Record:
    """One record. `timestamp` in milliseconds, -1 for none; header values may be None."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class TooLargeToDecode(CorruptBatch):
    """A batch whose records would take more memory than `MOST_DECODED`."""

    def __init__(self, offset: int) -> None:
        DrlibError.__init__(
            self,
            f"the batch at offset {offset} can't be decoded",
            f"its records take more than {MOST_DECODED >> 20} MiB of memory",
            "Find out who wrote it; kafka-delete-records.sh removes it with everything before it.",
        )


def records(batch: memoryview | bytes) -> list[Record]:
    """The records of one batch of any format, with the offsets they have in the log.

    Raises `CorruptBatch` when the bytes can't be decoded, or a header's key is not UTF-8, and `TooLargeToDecode`.
    """
    data = bytes(batch)
    if len(data) <= MAGIC_AT:
        raise CorruptBatch("a batch can't be decoded", f"it has {len(data)} bytes")
    magic, offset = data[MAGIC_AT], int.from_bytes(data[:8], "big", signed=True)
    try:
        if magic >= 2:
            plain = _decompressed(data)
            if _cost(plain) > MOST_DECODED:
                raise TooLargeToDecode(offset)
        else:
            return _legacy_records(data)
        return [
            Record(
                r.offset,
                NO_TIMESTAMP if r.timestamp is None else r.timestamp,
                r.key,
                r.value,
                tuple(r.headers),
            )
            for r in DefaultRecordBatch(plain)
        ]
    except (MemoryError, TooLargeToDecode):
        raise
    except _TooLarge:
        raise TooLargeToDecode(offset) from None
    except Exception as error:  # five decompressors and their bindings, each with its own exceptions
        raise CorruptBatch(
            f"the batch at offset {offset} can't be decoded", f"{type(error).__name__}: {error}"
        ) from error


class _TooLarge(Exception):
    """More bytes than allowed come out of a decompressor."""


def _decompressed(data: bytes) -> bytes | bytearray:
    """A batch of format 2 without compression; its checksum is no longer right."""
    codec = data[_CODEC_IN_HEADER] & 0x07
    if codec != _SNAPPY and codec not in _STREAMS:
        return data  # without compression, or with a codec that is refused when it is decoded
    plain = _decompress(codec, memoryview(data)[HEADER_SIZE:], MOST_DECODED // 2, before=HEADER_SIZE)
    plain[:HEADER_SIZE] = data[:HEADER_SIZE]
    plain[_CODEC_IN_HEADER] &= ~0x07
    return plain


class _Message(NamedTuple):
    """A message of format 0 or 1, `offset` as it is stored: in a wrapper of format 1 it counts from 0."""

    offset: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def _legacy_records(data: bytes) -> list[Record]:
    """The record, or those in the wrapper, that `data` is. Raises `ValueError`, `_TooLarge`, `DecompressionError`."""
    (wrapper,) = _messages(memoryview(data))
    codec = wrapper.attributes & 0x07
    if not codec:
        if len(data) > _MOST_LEGACY:
            raise _TooLarge
        return [Record(wrapper.offset, wrapper.timestamp, wrapper.key, wrapper.value)]
    if codec != _SNAPPY and codec not in _STREAMS:
        raise ValueError(f"there is no codec {codec}")
    plain = _decompress(codec, memoryview(wrapper.value or b""), _MOST_LEGACY)
    inner = [*_messages(memoryview(plain))]
    if not inner:
        raise ValueError("there is no message in it")
    for message in inner:
        if message.attributes & 0x07:
            raise ValueError(f"its message {message.offset} is compressed again")
    # The wrapper has the last one's offset. Format 0 has absolute ones inside as well, as had some clients of format 1.
    base = max(0, wrapper.offset - inner[-1].offset) if data[MAGIC_AT] else 0
    time = wrapper.timestamp if wrapper.attributes & LOG_APPEND_TIME_MASK else None
    return [Record(base + m.offset, m.timestamp if time is None else time, m.key, m.value) for m in inner]


def _messages(data: memoryview) -> Iterator[_Message]:
    """The messages of formats 0 and 1 that `data` consists of. Raises `ValueError` where they do not fill it exactly."""
    at = 0
    while at < len(data):
        began = at
        if len(data) - at < _LEAST_LEGACY:
            raise ValueError(f"{len(data) - at} bytes are no message")
        offset, size, _, magic, attributes = _MESSAGE.unpack_from(data, at)
        end = at + LOG_OVERHEAD + size
        if magic not in (0, 1) or end > len(data):
            raise ValueError(f"the message at byte {began} of {len(data)} has format {magic} and {size} bytes")
        at += _MESSAGE.size
        timestamp = NO_TIMESTAMP
        if magic:
            timestamp, at = int.from_bytes(data[at : at + 8], "big", signed=True), at + 8
        parts: list[bytes | None] = []
        for _ in range(2):
            length = int.from_bytes(data[at : at + 4], "big", signed=True)
            at += 4
            if length < -1 or at + max(0, length) > end:
                raise ValueError(f"the message at byte {began} of {len(data)} has a part of {length} bytes")
            parts.append(None if length < 0 else bytes(data[at : at + length]))
            at += max(0, length)
        if at != end:
            raise ValueError(f"the message at byte {began} of {len(data)} has {end - at} bytes behind its value")
        yield _Message(offset, attributes, timestamp, *parts)


def _decompress(codec: int, data: memoryview, most: int, before: int = 0) -> bytearray:
    """The decompressed bytes behind `before` unused ones. Raises `_TooLarge` for more than `most`."""
    if codec == _SNAPPY:
        return bytearray(before) + b"".join(_snappy_blocks(data, most))
    size = min(most, max(1 << 16, _FIRST_GROWTH * len(data)))
    while True:
        plain = bytearray(before + size)
        try:
            end = before + _STREAMS[codec].decompress_into(data, memoryview(plain)[before:])
        except cramjam.DecompressionError as error:
            if "failed to write whole buffer" not in str(error):
                raise
        else:
            del plain[end:]
            return plain
        if size == most:
            raise _TooLarge
        size = min(most, _GROWTH * size)


def _snappy_blocks(data: memoryview, most: int) -> Iterator[bytes]:
    """The blocks of snappy's Java library, or the one block of all others: each says how long it is decompressed."""
    xerial = bytes(data[: len(_XERIAL)]) == _XERIAL
    blocks = [data]
    if xerial:
        blocks, at = [], _XERIAL_HEADER
        while at < len(data):
            size = int.from_bytes(data[at : at + 4], "big")
            if size > len(data) - at - 4:
                raise ValueError(f"a block of {size} bytes, of which {len(data) - at - 4} are there")
            blocks.append(data[at + 4 : at + 4 + size])
            at += 4 + size
    for block in blocks:
        most -= cramjam.snappy.decompress_raw_len(block)
        if most < 0:
            raise _TooLarge
        yield bytes(cramjam.snappy.decompress_raw(block))


def _cost(plain: bytes | bytearray) -> int:
    """Bytes of memory that the records of an uncompressed batch of format 2 take at most, once decoded."""
    body = memoryview(plain)[HEADER_SIZE:]
    count = int.from_bytes(plain[HEADER_SIZE - 4 : HEADER_SIZE], "big", signed=True)
    cost = 2 * len(body) + _RECORD_COST * count
    if len(body) <= _FEW_BYTES or cost > MOST_DECODED:
        return cost
    at = 0
    for _ in range(count):
        length, at = varint(body, at)
        end = at + length
        _, at = varint(body, at + 1)  # the difference of times, behind the attributes
        _, at = varint(body, at)  # of offsets
        for _ in range(2):  # key and value
            length, at = varint(body, at)
            at += max(0, length)
        headers, _ = varint(body, at)
        cost += _HEADER_COST * max(0, headers)
        if cost > MOST_DECODED or end <= at:
            return cost
        at = end
    return cost


def most_size(records: Iterable[Record]) -> int:
    """A bound on the size in bytes of a batch of `records`, without building it: lengths and deltas at their longest."""
    size = HEADER_SIZE
    for record in records:
        size += _RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"")
        size += sum(_HEADER_OVERHEAD + len(name.encode()) + len(value or b"") for name, value in record.headers)
    return size


def rebuild(
    records: Sequence[Record], *, codec: int, producer_id: int, producer_epoch: int, base_sequence: int
) -> OutgoingBatch:
    """One batch of these records, at least one, numbered from 0 without gaps and compressed with `codec`.

    A batch that compression would make larger goes uncompressed.
    """
    if not records:
        raise ValueError("a batch needs a record")
    timestamps = [r.timestamp for r in records]
    # The builder takes a first timestamp of -1 for "none yet". Records hold differences to the first only: build them on
    # these, and put the true times into the header.
    first = timestamps[0]
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence % SEQUENCE_MODULUS,
        batch_size=_NO_LIMIT,
    )
    for number, record in enumerate(records):
        appended = builder.append(
            number, wrapped(record.timestamp - first), record.key, record.value, list(record.headers)
        )
        if appended is None:
            raise ValueError(f"{len(records)} records do not fit one batch")
    built = builder.build()
    return compose(
        memoryview(built)[HEADER_SIZE:],
        codec=built[_CODEC_IN_HEADER] & 0x07,
        count=len(records),
        base_timestamp=first,
        max_timestamp=max(timestamps),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )


_LENGTH: Final = struct.Struct(">iq")


def digest(
    key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]], timestamp: int | None
) -> bytes:
    """16 bytes that two records share when their content is the same; `timestamp` None leaves it out."""
    content = hashlib.blake2b(digest_size=16)
    for part in (key, value, *(p for name, held in headers for p in (name.encode(), held))):
        content.update(_LENGTH.pack(-1 if part is None else len(part), -1 if timestamp is None else timestamp))
        content.update(part or b"")
    return content.digest()
