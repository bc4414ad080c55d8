"""Decode a batch into records and build a new one: for batches that cannot move verbatim.

Rules:
- Offsets are renumbered 0..n-1 and sequences follow them; keys, values, headers and timestamps are kept.
- A LogAppendTime batch has one time for all its records, its max timestamp; a record of format 0 has none (-1).
- A rebuilt batch has a new checksum; check the source's first with `drlib.kafka.protocol.batch.verify`.
Not for: batches that can move verbatim, at a tenth of the cost.
Source: KIP-98, Kafka's `DefaultRecord`; the codec is aiokafka's.
"""

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatch

from drlib.kafka.protocol.batch import (
    HEADER_SIZE,
    NO_TIMESTAMP,
    SEQUENCE_MODULUS,
    CorruptBatch,
    OutgoingBatch,
    compose,
    wrapped,
)

MAGIC_AT: Final = 16
_NO_LIMIT: Final = 2**31 - 1
_RECORD_OVERHEAD: Final = 36  # attributes, the time delta in at most 10 bytes, five other numbers in at most 5
_HEADER_OVERHEAD: Final = 10
_CODEC_IN_HEADER: Final = 22  # low byte of the attributes


@dataclass(frozen=True, slots=True)
class Record:
    """One record. `timestamp` in milliseconds, -1 for none; header values may be None."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def records(batch: memoryview | bytes) -> list[Record]:
    """The records of one batch of any format, with the offsets they have in the log.

    Raises `CorruptBatch` when the bytes can't be decoded, or a header's key is not UTF-8.
    """
    data = bytes(batch)
    if len(data) <= MAGIC_AT:
        raise CorruptBatch("a batch can't be decoded", f"it has {len(data)} bytes")
    magic = data[MAGIC_AT]
    try:
        decoded = DefaultRecordBatch(data) if magic >= 2 else LegacyRecordBatch(data, magic)
        return [
            Record(
                r.offset,
                NO_TIMESTAMP if r.timestamp is None else r.timestamp,
                r.key,
                r.value,
                tuple(r.headers),
            )
            for r in decoded
        ]
    except MemoryError:
        raise
    except Exception as error:  # five decompressors and their bindings, each with its own exceptions
        offset = int.from_bytes(data[:8], "big", signed=True)
        raise CorruptBatch(
            f"the batch at offset {offset} can't be decoded", f"{type(error).__name__}: {error}"
        ) from error


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
