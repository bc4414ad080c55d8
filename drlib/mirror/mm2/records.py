"""The three records MirrorMaker 2 writes, byte for byte: heartbeats, checkpoints and offset syncs.

Rules: big-endian; STRING is an int16 length and UTF-8, never null, at most 32767 bytes; readers skip trailing bytes.
Java's readers throw on a null value, so tombstones are never written. Every record goes to partition 0; a heartbeat's
record timestamp is its payload's. Sources: `Heartbeat`, `Checkpoint` and `OffsetSync` of `connect.mirror`.
Not for: when to write an offset sync (`drlib.mirror.mm2.offset_syncs`).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from drlib.model import TopicPartition

VERSION: Final = 0
MAX_STRING_BYTES: Final = 32767


class MalformedRecord(ValueError):
    """Bytes that are not the MirrorMaker 2 record they were supposed to be. Readers skip it, as `MirrorClient` does."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """`source` was alive at `timestamp_ms`; written to `target`'s `heartbeats` topic."""

    source: str
    target: str
    timestamp_ms: int

    def key(self) -> bytes:
        return _string(self.source) + _string(self.target)

    def value(self) -> bytes:
        return struct.pack(">hq", VERSION, self.timestamp_ms)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Heartbeat:
        """Raises `MalformedRecord`."""
        keys, values = _Reader(key), _Reader(value)
        values.version()
        return cls(keys.string(), keys.string(), values.int64())


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A group's position on the source (`upstream_offset`) and what it is on the target (`offset`).

    `partition` names the topic as the TARGET calls it. Both are positions: next offset to consume.
    """

    group: str
    partition: TopicPartition
    upstream_offset: int
    offset: int
    metadata: str = ""

    def key(self) -> bytes:
        return _string(self.group) + _string(self.partition.topic) + struct.pack(">i", self.partition.partition)

    def value(self) -> bytes:
        return struct.pack(">hqq", VERSION, self.upstream_offset, self.offset) + _string(self.metadata)

    def follows(self, last: Checkpoint | None) -> bool:
        """Is it written after `last`, the newest one of the same group and partition?

        The first is; then where the group was reset to a lower source offset, or its target position moved forward, not where
        it repeats or would only lower the target position (`MirrorCheckpointTask.checkpointIsMoreRecent`).
        """
        if self.offset < 0:
            return False  # MirrorMaker 2's -1: older than anything that can be translated
        return last is None or self.upstream_offset < last.upstream_offset or self.offset > last.offset

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Checkpoint:
        """Raises `MalformedRecord`."""
        keys, values = _Reader(key), _Reader(value)
        values.version()
        group, partition = keys.string(), TopicPartition(keys.string(), keys.int32())
        return cls(group, partition, values.int64(), values.int64(), values.string())


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """The record at `upstream_offset` on the source is the record at `offset` on the target.

    `partition` names the topic as the SOURCE calls it. Both are offsets of a record, not positions.
    """

    partition: TopicPartition
    upstream_offset: int
    offset: int

    def key(self) -> bytes:
        return _string(self.partition.topic) + struct.pack(">i", self.partition.partition)

    def value(self) -> bytes:
        return struct.pack(">qq", self.upstream_offset, self.offset)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> OffsetSync:
        """Raises `MalformedRecord`."""
        keys, values = _Reader(key), _Reader(value)
        return cls(TopicPartition(keys.string(), keys.int32()), values.int64(), values.int64())


def _string(text: str) -> bytes:
    data = text.encode()
    if len(data) > MAX_STRING_BYTES:
        raise ValueError(f"a STRING holds at most {MAX_STRING_BYTES} bytes, not {len(data)}")
    return struct.pack(">h", len(data)) + data


class _Reader:
    """Reads one key or value from the front; trailing bytes are allowed."""

    def __init__(self, data: bytes | None) -> None:
        if data is None:
            raise MalformedRecord("null where bytes were expected")
        self._data = data
        self._at = 0

    def _take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        if len(taken) < count:
            raise MalformedRecord(f"ends {count - len(taken)} bytes early")
        self._at += count
        return taken

    def int16(self) -> int:
        return int.from_bytes(self._take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self._take(8), "big", signed=True)

    def version(self) -> None:
        if (version := self.int16()) != VERSION:
            raise MalformedRecord(f"version {version} is not known")

    def string(self) -> str:
        length = self.int16()
        if length < 0:
            raise MalformedRecord("a null string where a string was expected")
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise MalformedRecord(f"not UTF-8: {error}") from error
