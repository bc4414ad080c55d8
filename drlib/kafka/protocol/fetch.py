"""Encode and decode Fetch v13: topic IDs, optional sessions, and records as views into the received frame.

Rules: a view keeps its whole frame alive, and its holder accounts for that memory. Nothing is interpreted: error codes,
divergence and aborted transactions are returned as received.
- In a session (KIP-227) a request names only what changed since the one before, and so does the answer.
Source: KIP-227, KIP-392, KIP-516, KIP-595, FetchRequest.json and FetchResponse.json of Kafka.
"""

import struct
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from drlib.kafka.protocol.flexible import NO_TAGS, Reader, uvarint

API_KEY: Final = 1
VERSION: Final = 13
THROTTLE_AT: Final = 0  # of a response body

TopicId = uuid.UUID

_HEAD: Final = struct.Struct(">iiiibii")
_ASKED: Final = struct.Struct(">iiqiqi")
_ANSWER_HEAD: Final = struct.Struct(">ihi")
_ANSWERED: Final = struct.Struct(">ihqqq")
_ABORTED: Final = struct.Struct(">qq")
_EPOCH_END: Final = struct.Struct(">iq")
_LEADER: Final = struct.Struct(">ii")
_INT32: Final = struct.Struct(">i")
_NO_REPLICA: Final = -1
NO_SESSION: Final = (0, -1)
"""Session ID and epoch of a request without a session."""
NEW_SESSION: Final = (0, 0)
"""Session ID and epoch of a request that names everything and asks for a session."""
_EMPTY: Final = memoryview(b"")


@dataclass(frozen=True, slots=True)
class FetchPartition:
    """One partition of a fetch request. An epoch of -1 disables the check (KIP-320)."""

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


def encode(
    partitions: Iterable[FetchPartition],
    *,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    read_committed: bool,
    session: tuple[int, int] = NO_SESSION,
    forgotten: Iterable[tuple[TopicId, int]] = (),
    rack: str = "",
) -> bytes:
    """The body of a request. `forgotten`: (topic ID, partition) pairs that leave the session.

    With a `rack` a leader may name a replica there instead of returning records (KIP-392).
    """
    topics: dict[TopicId, list[FetchPartition]] = {}
    for wanted in partitions:
        topics.setdefault(wanted.topic_id, []).append(wanted)
    isolation = 1 if read_committed else 0
    out = bytearray(_HEAD.pack(_NO_REPLICA, max_wait_ms, min_bytes, max_bytes, isolation, *session))
    out += uvarint(len(topics) + 1)
    for topic_id, asked in topics.items():
        out += topic_id.bytes + uvarint(len(asked) + 1)
        for p in asked:
            out += _ASKED.pack(p.partition, p.leader_epoch, p.offset, p.last_fetched_epoch, -1, p.max_bytes)
            out += NO_TAGS
        out += NO_TAGS
    left: dict[TopicId, list[int]] = {}
    for topic_id, number in forgotten:
        left.setdefault(topic_id, []).append(number)
    out += uvarint(len(left) + 1)
    for topic_id, numbers in left.items():
        out += topic_id.bytes + uvarint(len(numbers) + 1) + b"".join(map(_INT32.pack, numbers)) + NO_TAGS
    rack_id = rack.encode()
    out += uvarint(len(rack_id) + 1) + rack_id + NO_TAGS
    return bytes(out)


def decode(view: memoryview) -> Fetched:
    """The answer in a response body. Raises `ValueError` when it is malformed."""
    reader = Reader(view)
    _, code, session_id = reader.fields(_ANSWER_HEAD)
    partitions: list[FetchedPartition] = []
    for _ in reader.array():
        topic_id = reader.uuid()
        for _ in reader.array():
            partitions.append(_partition(reader, topic_id))
        reader.skip_tags()
    reader.skip_tags()
    return Fetched(code, session_id, partitions, len(view))


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
