"""Encode and decode the requests about share groups that drlib sends, and the records of `__share_group_state`. Pure.

Rules: all are in the flexible encoding; malformed bytes raise `ValueError`. kafka-python has classes for none of them.
- A state record is a snapshot of one share-partition, or an update of what changed since. Its key has a group, a topic's ID and
  a partition in the encoding before KIP-482; a record without a value deletes the state.
Source: KIP-932, KIP-1226 (lag) and the message definitions of Kafka 4.3, as `DescribeShareGroupOffsetsRequest.json`,
`WriteShareGroupStateRequest.json`, `ShareSnapshotValue.json` and `ShareUpdateValue.json`.
Not for: sending (`admin`), what follows from a state (`state`).
"""

from __future__ import annotations

import base64
import struct
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from drlib.kafka.protocol.flexible import NO_TAGS, PlainReader, Reader, compact_string, uvarint
from drlib.model import TopicPartition

_NULL: Final = b"\0"
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_BATCH: Final = struct.Struct(">qqbh")
_START: Final = struct.Struct(">iq")
_DESCRIBED: Final = struct.Struct(">iqi")
_TIMES: Final = struct.Struct(">qq")
_SNAPSHOT: Final = 0
_UPDATE: Final = 1
_NONE: Final = -1
_PAIR: Final = struct.Struct(">ii")
_HEAD: Final = struct.Struct(">iiiq")
_SHARE: Final = b"\2"  # the key type of share coordinators


class DeliveryState(IntEnum):
    """What is kept of a record at or above the start offset. Of these, the last two need no further delivery."""

    AVAILABLE = 0
    ACKNOWLEDGED = 2
    ARCHIVED = 4


COMPLETE: Final = frozenset({DeliveryState.ACKNOWLEDGED, DeliveryState.ARCHIVED})


@dataclass(frozen=True, slots=True)
class StateBatch:
    """Offsets `first` to `last`, both included, in one delivery state (a number of Kafka's)."""

    first: int
    last: int
    state: int
    deliveries: int = 1


@dataclass(frozen=True, slots=True)
class StateKey:
    """A share-partition."""

    group: str
    topic_id: uuid.UUID
    partition: int


@dataclass(frozen=True, slots=True)
class StateRecord:
    """A snapshot (`whole`), or an update. `start` None: not initialized, or of an update not changed."""

    whole: bool
    start: int | None
    batches: tuple[StateBatch, ...]


@dataclass(frozen=True, slots=True)
class ShareOffset:
    """`start` None: the group has none yet. `lag`: records that need delivery; None where brokers do not say (before 4.2)."""

    start: int | None
    lag: int | None


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error of the group, or of one partition; `code` 0 is none."""

    code: int
    message: str | None


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    """`topic_ids`: of its topics, by name."""

    error: Refusal
    topic_ids: Mapping[str, uuid.UUID]
    offsets: Mapping[TopicPartition, ShareOffset]
    refused: Mapping[TopicPartition, Refusal]


@dataclass(frozen=True, slots=True)
class StoredState:
    """What a share coordinator has of one share-partition."""

    error: Refusal
    state_epoch: int
    start: int | None
    batches: tuple[StateBatch, ...]


@dataclass(frozen=True, slots=True)
class NewState:
    """`complete`: offsets from `start` on that need no further delivery, each as first offset and the one behind it."""

    state_epoch: int
    leader_epoch: int
    start: int
    complete: tuple[tuple[int, int], ...]


def describe_body(groups: Iterable[str]) -> bytes:
    """DescribeShareGroupOffsets of all topics of `groups`."""
    names = list(groups)
    return _array([compact_string(name) + _NULL + NO_TAGS for name in names]) + NO_TAGS


def described(version: int, view: memoryview) -> dict[str, DescribedGroup]:
    """The answer by group. Raises `ValueError`."""
    reader = Reader(view)
    reader.fields(_INT32)
    found = {}
    for _ in reader.structures():
        group = reader.compact_string() or ""
        topic_ids: dict[str, uuid.UUID] = {}
        offsets: dict[TopicPartition, ShareOffset] = {}
        refused: dict[TopicPartition, Refusal] = {}
        for _ in reader.structures():
            topic = reader.compact_string() or ""
            topic_ids[topic] = reader.uuid()
            for _ in reader.array():
                number, start, _ = reader.fields(_DESCRIBED)
                lag = reader.fields(_INT64)[0] if version >= 1 else _NONE
                error = refusal(reader)
                reader.skip_tags()
                partition = TopicPartition(topic, number)
                if error.code:
                    refused[partition] = error
                else:
                    offsets[partition] = ShareOffset(_none(start), _none(lag))
        found[group] = DescribedGroup(refusal(reader), topic_ids, offsets, refused)
    reader.skip_tags()
    return found


def alter_body(group: str, starts: Mapping[TopicPartition, int]) -> bytes:
    """AlterShareGroupOffsets."""
    by_topic: dict[str, list[bytes]] = defaultdict(list)
    for partition, start in starts.items():
        by_topic[partition.topic].append(_START.pack(partition.partition, start) + NO_TAGS)
    topics = [compact_string(name) + _array(those) + NO_TAGS for name, those in by_topic.items()]
    return compact_string(group) + _array(topics) + NO_TAGS


def altered(view: memoryview) -> tuple[Refusal, dict[TopicPartition, Refusal]]:
    """The error of the group, and that of each partition. Raises `ValueError`."""
    reader = Reader(view)
    reader.fields(_INT32)
    error = refusal(reader)
    partitions = {}
    for _ in reader.structures():
        topic = reader.compact_string() or ""
        reader.uuid()
        for _ in reader.structures():
            (number,) = reader.fields(_INT32)
            partitions[TopicPartition(topic, number)] = refusal(reader)
    reader.skip_tags()
    return error, partitions


def delete_body(group: str, topics: Iterable[str]) -> bytes:
    """DeleteShareGroupOffsets."""
    return compact_string(group) + _array([compact_string(name) + NO_TAGS for name in topics]) + NO_TAGS


def deleted(view: memoryview) -> tuple[Refusal, dict[str, Refusal]]:
    """The error of the group, and that of each topic. Raises `ValueError`."""
    reader = Reader(view)
    reader.fields(_INT32)
    error = refusal(reader)
    topics = {}
    for _ in reader.structures():
        topic = reader.compact_string() or ""
        reader.uuid()
        topics[topic] = refusal(reader)
    reader.skip_tags()
    return error, topics


def coordinator_key(group: str, topic_id: uuid.UUID, partition: int) -> str:
    """What the share coordinator of a share-partition is found by (`SharePartitionKey.asCoordinatorKey`)."""
    return f"{group}:{base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip('=')}:{partition}"


def find_body(keys: Iterable[str]) -> bytes:
    """FindCoordinator v6 of share coordinators."""
    return _SHARE + _array([compact_string(key) for key in keys]) + NO_TAGS


def found(view: memoryview) -> dict[str, tuple[int, str, int, Refusal]]:
    """By key: node ID, host and port, and the error. Raises `ValueError`."""
    reader = Reader(view)
    reader.fields(_INT32)
    answer = {}
    for _ in reader.structures():
        key = reader.compact_string() or ""
        (node,) = reader.fields(_INT32)
        host = reader.compact_string() or ""
        (port,) = reader.fields(_INT32)
        answer[key] = (node, host, port, refusal(reader))
    reader.skip_tags()
    return answer


def read_body(group: str, leader_epochs: Mapping[tuple[uuid.UUID, int], int]) -> bytes:
    """ReadShareGroupState; by topic ID and partition: its leader epoch."""
    items = {key: _PAIR.pack(key[1], epoch) + NO_TAGS for key, epoch in leader_epochs.items()}
    return compact_string(group) + _by_topic(items) + NO_TAGS


def states(view: memoryview) -> dict[tuple[uuid.UUID, int], StoredState]:
    """The answer to it. Raises `ValueError`."""
    reader = Reader(view)
    answer = {}
    for _ in reader.structures():
        topic_id = reader.uuid()
        for _ in reader.structures():
            (number,) = reader.fields(_INT32)
            error = refusal(reader)
            epoch, start = reader.fields(_START)
            batches = tuple(_batches(reader))
            answer[topic_id, number] = StoredState(error, epoch, _none(start), batches)
    reader.skip_tags()
    return answer


def write_body(version: int, group: str, wanted: Mapping[tuple[uuid.UUID, int], NewState]) -> bytes:
    """WriteShareGroupState."""
    items = {}
    for (topic_id, number), state in wanted.items():
        count = _INT32.pack(sum(end - first for first, end in state.complete)) if version >= 1 else b""
        batches = [
            _BATCH.pack(first, end - 1, DeliveryState.ACKNOWLEDGED, 1) + NO_TAGS for first, end in state.complete
        ]
        head = _HEAD.pack(number, state.state_epoch, state.leader_epoch, state.start)
        items[topic_id, number] = head + count + _array(batches) + NO_TAGS
    return compact_string(group) + _by_topic(items) + NO_TAGS


def written(view: memoryview) -> dict[tuple[uuid.UUID, int], Refusal]:
    """The error of each partition. Raises `ValueError`."""
    reader = Reader(view)
    answer = {}
    for _ in reader.structures():
        topic_id = reader.uuid()
        for _ in reader.structures():
            (number,) = reader.fields(_INT32)
            answer[topic_id, number] = refusal(reader)
    reader.skip_tags()
    return answer


def _by_topic(items: Mapping[tuple[uuid.UUID, int], bytes]) -> bytes:
    topics: dict[uuid.UUID, list[bytes]] = defaultdict(list)
    for (topic_id, _), item in items.items():
        topics[topic_id].append(item)
    return _array([topic_id.bytes + _array(those) + NO_TAGS for topic_id, those in topics.items()])


def state_key(data: bytes | None) -> StateKey | None:
    """The share-partition of a record of `__share_group_state`; None for a record of another kind. Raises `ValueError`."""
    reader = PlainReader(memoryview(data or b""))
    (kind,) = reader.fields(_INT16)
    if kind not in (_SNAPSHOT, _UPDATE):
        return None
    group = reader.compact_string() or ""
    topic_id = reader.uuid()
    return StateKey(group, topic_id, reader.fields(_INT32)[0])


def state_record(key: bytes | None, value: bytes) -> StateRecord | None:
    """The value of a record whose key is `key`; None for a version that is not known. Raises `ValueError`."""
    (kind,) = PlainReader(memoryview(key or b"")).fields(_INT16)
    reader = Reader(memoryview(value))
    if reader.fields(_INT16)[0] != 0:
        return None
    whole = kind == _SNAPSHOT
    reader.fields(_INT32)  # snapshot epoch
    if whole:
        reader.fields(_INT32)  # state epoch
    _, start = reader.fields(_START)  # leader epoch before it
    if whole:
        reader.fields(_TIMES)
    batches = tuple(_batches(reader))
    reader.skip_tags()
    return StateRecord(whole, _none(start), batches)


def _batches(reader: Reader) -> Iterable[StateBatch]:
    for _ in reader.array():
        first, last, state, deliveries = reader.fields(_BATCH)
        reader.skip_tags()
        if not 0 <= first <= last:
            raise ValueError(f"offsets {first} to {last}")
        yield StateBatch(first, last, state, deliveries)


def refusal(reader: Reader) -> Refusal:
    """An error code and its message."""
    (code,) = reader.fields(_INT16)
    return Refusal(code, reader.compact_string())


def _array(items: Sequence[bytes]) -> bytes:
    return uvarint(len(items) + 1) + b"".join(items)


def _none(number: int) -> int | None:
    return None if number < 0 else number
