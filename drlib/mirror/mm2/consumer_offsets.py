"""Records of `__consumer_offsets`: who committed which position, and when.

Rules: key versions 0 and 1 are offset commits; every other key (2: group metadata, 3 and up: the KIP-848 groups'
records) decodes to None; a null value is a deleted or expired position. An unknown value version is an error.
Sources: OffsetCommitKey.json, OffsetCommitValue.json and `OffsetMessageFormatter` of Apache Kafka.
Not for: which commits of a transaction count; read the topic read_committed.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from drlib.mirror.mm2.records import MalformedRecord

OFFSET_COMMIT_KEY_VERSIONS: Final = (0, 1)
FLEXIBLE_VALUE_VERSION: Final = 4
MAX_VALUE_VERSION: Final = 4


@dataclass(frozen=True, slots=True)
class GroupCommit:
    """`group` committed `offset` (its position: next to consume) for a partition; None: the position was deleted."""

    group: str
    topic: str
    partition: int
    offset: int | None
    metadata: str = ""
    commit_timestamp_ms: int = -1  # -1 for a deletion, which carries no time


def decode(key: bytes | None, value: bytes | None) -> GroupCommit | None:
    """One record of `__consumer_offsets`; None when it is not an offset commit. Raises `MalformedRecord`."""
    if key is None:
        return None
    try:
        (version,) = struct.unpack_from(">h", key)
        if version not in OFFSET_COMMIT_KEY_VERSIONS:
            return None
        group, at = _string(key, 2)
        topic, at = _string(key, at)
        (partition,) = struct.unpack_from(">i", key, at)
        if value is None:
            return GroupCommit(group, topic, partition, None)
        offset, metadata, timestamp = _decode_value(value)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedRecord(f"not a record of __consumer_offsets: {error}") from error
    return GroupCommit(group, topic, partition, offset, metadata, timestamp)


def _decode_value(value: bytes) -> tuple[int, str, int]:
    version, offset = struct.unpack_from(">hq", value)
    if not 0 <= version <= MAX_VALUE_VERSION:
        raise MalformedRecord(f"offset commit value version {version} is not known")
    at = 10
    if version >= 3:
        at += 4  # leader epoch
    metadata, at = _compact_string(value, at) if version >= FLEXIBLE_VALUE_VERSION else _string(value, at)
    (timestamp,) = struct.unpack_from(">q", value, at)
    return offset, metadata, timestamp


def _string(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, at)
    return _text(data, at + 2, length)


def _compact_string(data: bytes, at: int) -> tuple[str, int]:
    length = shift = 0
    while True:
        byte = data[at]
        at += 1
        length |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return _text(data, at, length - 1)
        if shift > 28:
            raise MalformedRecord("the length of a string in a record of __consumer_offsets has no end")


def _text(data: bytes, at: int, length: int) -> tuple[str, int]:
    if length < 0 or at + length > len(data):
        raise MalformedRecord("a string runs past the end of a record of __consumer_offsets")
    return data[at : at + length].decode(), at + length
