"""Encode and decode Produce v9 without copying the batches into the request.

Rules: acks=-1, no transactional ID, one batch per partition and request (brokers refuse a second one). Encoding gives
a list of buffers for a scatter write; the batches' bodies among them are views of the fetched frames.
Source: KIP-482, ProduceRequest.json and ProduceResponse.json of Kafka.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from drlib.kafka.protocol.batch import OutgoingBatch
from drlib.kafka.protocol.flexible import NO_TAGS, Reader, compact_string, uvarint

API_KEY: Final = 0
VERSION: Final = 9
THROTTLE_AT: Final = -5  # of a response body: throttle_time_ms, then its tags, of which there are none

_HEAD: Final = struct.Struct(">hi")
_PARTITION: Final = struct.Struct(">ihqqq")
_INT32: Final = struct.Struct(">i")
_NULL: Final = b"\0"
_ALL_REPLICAS: Final = -1


@dataclass(frozen=True, slots=True)
class ProduceResult:
    """The leader's answer for one batch. `base_offset` is the offset of its first record, -1 when it was refused."""

    topic: str
    partition: int
    error_code: int
    base_offset: int
    error_message: str | None
    log_append_time_ms: int = -1  # LogAppendTime of all records; -1 with CreateTime


def encode(topics: Mapping[str, Sequence[tuple[int, OutgoingBatch]]], timeout_ms: int) -> list[bytes | memoryview]:
    """The body of a request: topic -> (partition, batch) pairs."""
    out: list[bytes | memoryview] = []
    head = bytearray(_NULL + _HEAD.pack(_ALL_REPLICAS, timeout_ms) + uvarint(len(topics) + 1))
    for topic, batches in topics.items():
        head += compact_string(topic) + uvarint(len(batches) + 1)
        for partition, batch in batches:
            head += _INT32.pack(partition) + uvarint(batch.size + 1) + batch.head
            out += (bytes(head), batch.body)
            head = bytearray(NO_TAGS)
        head += NO_TAGS
    head += NO_TAGS
    out.append(bytes(head))
    return out


def decode(view: memoryview) -> list[ProduceResult]:
    """The results in a response body. Raises `ValueError` when it is malformed."""
    reader = Reader(view)
    results: list[ProduceResult] = []
    for _ in reader.array():
        topic = reader.compact_string() or ""
        for _ in reader.array():
            partition, code, base_offset, append_time, _ = reader.fields(_PARTITION)
            errors: list[str] = []
            for _ in reader.array():
                reader.fields(_INT32)
                text = reader.compact_string()
                errors += [text] if text else []
                reader.skip_tags()
            message = reader.compact_string()
            reader.skip_tags()
            detail = message or "; ".join(errors[:3]) or None
            results.append(ProduceResult(topic, partition, code, base_offset, detail, append_time))
        reader.skip_tags()
    reader.fields(_INT32)  # throttle time: the broker itself stops reading from this connection meanwhile
    reader.skip_tags()
    return results
