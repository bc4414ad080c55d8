"""Encode and decode Fetch v11, v12 (topic names) and v13 (topic IDs): optional sessions, records as views into the received
frame.

Rules: a view keeps its whole frame alive, and its holder accounts for that memory. Nothing is interpreted: error codes,
divergence and aborted transactions are returned as received. By name a topic's ID is the one that was meant when it was
requested: whether the name still stands for it, `drlib.kafka.net.requests` finds out.
- v11 is not flexible and knows no diverging epochs.
- In a session (KIP-227) a request names only what changed since the one before, and so does the answer.
Source: KIP-227, KIP-392, KIP-516, KIP-595, FetchRequest.json and FetchResponse.json of Kafka.
"""

import struct
import uuid
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Self

from drlib.kafka.protocol.flexible import NO_TAGS, PlainReader, Reader, compact_string, uvarint

API_KEY: Final = 1
FLEXIBLE: Final = 12  # the first version in the flexible encoding (Kafka 2.7)
BY_ID: Final = 13  # the first version that names topics by ID (Kafka 3.1)
THROTTLE_AT: Final = 0  # of a response body

TopicId = uuid.UUID

_HEAD: Final = struct.Struct(">iiiibii")
_ASKED: Final = struct.Struct(">iiqiqi")
_ASKED_BEFORE: Final = struct.Struct(">iiqqi")
_ANSWER_HEAD: Final = struct.Struct(">ihi")
_ANSWERED: Final = struct.Struct(">ihqqq")
_ABORTED: Final = struct.Struct(">qq")
_EPOCH_END: Final = struct.Struct(">iq")
_LEADER: Final = struct.Struct(">ii")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_NO_REPLICA: Final = -1
NO_SESSION: Final = (0, -1)
"""Session ID and epoch of a request without a session."""
NEW_SESSION: Final = (0, 0)
"""Session ID and epoch of a request that names everything and asks for a session."""
NO_IDS: Final[Mapping[str, TopicId]] = {}
_EMPTY: Final = memoryview(b"")


@dataclass(frozen=True, slots=True)
class Proof:
    """A batch that was read, by its base offset, size in bytes and CRC-32: a log that still has it is the one that was read."""

    offset: int
    size: int
    checksum: int

    @classmethod
    def of(cls, base_offset: int, batch: memoryview) -> Self:
        return cls(base_offset, len(batch), zlib.crc32(batch))

    def holds(self, records: memoryview) -> bool:
        """Do `records`, fetched from `offset` on, begin with this batch?"""
        return len(records) >= self.size and zlib.crc32(records[: self.size]) == self.checksum


@dataclass(frozen=True, slots=True)
class FetchPartition:
    """One partition of a fetch request. An epoch of -1 disables the check (KIP-320)."""

    topic: str
    topic_id: TopicId
    partition: int
    offset: int
    max_bytes: int
    last_fetched_epoch: int = -1
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class DivergingEpoch:
    """The log diverges from `end_offset` of `epoch` on, after an unclean leader election."""

    epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """The answer for one partition; offsets of -1 are unknown. `aborted`: (producer ID, first offset) pairs."""

    topic_id: TopicId
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...]
    diverging_epoch: DivergingEpoch | None
    current_leader: int  # node ID, -1 when the broker does not say
    preferred_read_replica: int  # node ID, -1 for the leader
    records: memoryview


@dataclass(frozen=True, slots=True)
class Fetched:
    """A whole answer. `session_id` is 0 where the broker keeps no session; `size` counts its bytes."""

    error_code: int
    session_id: int
    partitions: list[FetchedPartition]
    size: int


def other_topic(partition: FetchedPartition, code: int) -> FetchedPartition:
    """The answer in place of `partition`, which the topic that was meant did not give."""
    return replace(
        partition, error_code=code, high_watermark=-1, last_stable_offset=-1, log_start_offset=-1,
        aborted=(), diverging_epoch=None, current_leader=-1, preferred_read_replica=-1, records=_EMPTY,
    )  # fmt: skip


def encode(
    version: int,
    partitions: Iterable[FetchPartition],
    *,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    read_committed: bool,
    session: tuple[int, int] = NO_SESSION,
    forgotten: Iterable[tuple[str, TopicId, int]] = (),
    rack: str = "",
) -> bytes:
    """The body of a request. `forgotten`: topic, its ID and partition of those that leave the session.

    With a `rack` a leader may name a replica there instead of returning records (KIP-392).
    """
    topics: dict[bytes, list[FetchPartition]] = {}
    for wanted in partitions:
        topics.setdefault(_topic(version, wanted.topic, wanted.topic_id), []).append(wanted)
    isolation = 1 if read_committed else 0
    out = bytearray(_HEAD.pack(_NO_REPLICA, max_wait_ms, min_bytes, max_bytes, isolation, *session))
    count, tags = (_uvarint_count, NO_TAGS) if version >= FLEXIBLE else (_INT32.pack, b"")
    out += count(len(topics))
    for topic, asked in topics.items():
        out += topic + count(len(asked))
        for p in asked:
            if version >= FLEXIBLE:
                out += _ASKED.pack(p.partition, p.leader_epoch, p.offset, p.last_fetched_epoch, -1, p.max_bytes)
            else:
                out += _ASKED_BEFORE.pack(p.partition, p.leader_epoch, p.offset, -1, p.max_bytes)
            out += tags
        out += tags
    left: dict[bytes, list[int]] = {}
    for name, topic_id, number in forgotten:
        left.setdefault(_topic(version, name, topic_id), []).append(number)
    out += count(len(left))
    for topic, numbers in left.items():
        out += topic + count(len(numbers)) + b"".join(map(_INT32.pack, numbers)) + tags
    out += _text(version, rack) + tags
    return bytes(out)


def _uvarint_count(count: int) -> bytes:
    return uvarint(count + 1)


def _text(version: int, text: str) -> bytes:
    return compact_string(text) if version >= FLEXIBLE else _INT16.pack(len(text.encode())) + text.encode()


def _topic(version: int, name: str, topic_id: TopicId) -> bytes:
    return topic_id.bytes if version >= BY_ID else _text(version, name)


def decode(version: int, view: memoryview, ids: Mapping[str, TopicId] = NO_IDS) -> Fetched:
    """The answer in a response body. `ids`: those of the topics that were requested by name.

    Raises `ValueError` when it is malformed, or names a topic that was not requested.
    """
    reader: Reader = Reader(view) if version >= FLEXIBLE else PlainReader(view)
    _, code, session_id = reader.fields(_ANSWER_HEAD)
    partitions: list[FetchedPartition] = []
    for _ in reader.array():
        topic_id = reader.uuid() if version >= BY_ID else _requested(reader, ids)
        for _ in reader.array():
            partitions.append(_partition(reader, topic_id))
        reader.skip_tags()
    reader.skip_tags()
    return Fetched(code, session_id, partitions, len(view))


def _requested(reader: Reader, ids: Mapping[str, TopicId]) -> TopicId:
    name = reader.compact_string() or ""
    if name not in ids:
        raise ValueError(f"topic {name!r} was not requested")
    return ids[name]


def _partition(reader: Reader, topic_id: TopicId) -> FetchedPartition:
    partition, code, high_watermark, last_stable, log_start = reader.fields(_ANSWERED)
    aborted: list[tuple[int, int]] = []
    for _ in reader.array():
        producer_id, first_offset = reader.fields(_ABORTED)
        aborted.append((producer_id, first_offset))
        reader.skip_tags()
    (preferred,) = reader.fields(_INT32)
    records = reader.compact_bytes()
    diverging: DivergingEpoch | None = None
    leader = -1
    for tag, value in reader.tags():
        if tag == 0:
            epoch, end_offset = value.fields(_EPOCH_END)
            diverging = DivergingEpoch(epoch, end_offset)
        elif tag == 1:
            leader, _ = value.fields(_LEADER)
    return FetchedPartition(
        topic_id=topic_id,
        partition=partition,
        error_code=code,
        high_watermark=high_watermark,
        last_stable_offset=last_stable,
        log_start_offset=log_start,
        aborted=tuple(aborted),
        diverging_epoch=diverging,
        current_leader=leader,
        preferred_read_replica=preferred,
        records=_EMPTY if records is None else records,
    )
