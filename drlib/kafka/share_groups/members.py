"""Encode and decode the requests that describe members: of share groups, and of Kafka Streams' groups of KIP-1071. Pure.

Rules: both are in the flexible encoding and have the same request; malformed bytes raise `ValueError`. confluent-kafka and
kafka-python have neither. Of a member only what people know it by is kept: its client ID, its host, and its topics; of Kafka
Streams those are the source topics of its topology. A group that a coordinator does not have is answered with
GROUP_ID_NOT_FOUND, and so is a group of another protocol.
Source: KIP-932, KIP-1071, and `ShareGroupDescribeResponse.json` and `StreamsGroupDescribeResponse.json` of Kafka 4.3.
Not for: sending (`admin`), groups of consumers (`drlib.kafka.admin.cluster`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from drlib.kafka.protocol.flexible import NO_TAGS, Reader, compact_string, uvarint
from drlib.kafka.share_groups.messages import Refusal
from drlib.kafka.share_groups.names import PROTOCOL

STREAMS: Final = "streams"
REQUESTS: Final[Mapping[str, str]] = {PROTOCOL: "ShareGroupDescribe", STREAMS: "StreamsGroupDescribe"}
"""The request that describes the groups of a protocol."""

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_BOOL: Final = struct.Struct(">?")
_EPOCHS: Final = struct.Struct(">ii")
_PRESENT: Final = struct.Struct(">b")
_INFO: Final = struct.Struct(">ih")  # partitions and replication factor of an internal topic
_ABSENT: Final = -1


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """`clients` and `hosts` are sorted, each once; `topics`: what the members subscribe to, or are assigned."""

    error: Refusal
    state: str
    count: int
    clients: tuple[str, ...]
    hosts: tuple[str, ...]
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Member:
    client: str
    host: str
    topics: frozenset[str] = frozenset()


def describe_body(group: str) -> bytes:
    """Either request about one group, without the operations that are allowed."""
    return uvarint(2) + compact_string(group) + b"\0" + NO_TAGS


def share_members(view: memoryview) -> dict[str, GroupMembers]:
    """The answer to ShareGroupDescribe v1, by group. Raises `ValueError`."""
    return _groups(view, _no_topology, _share_member)


def streams_members(view: memoryview) -> dict[str, GroupMembers]:
    """The answer to StreamsGroupDescribe v0, by group. Raises `ValueError`."""
    return _groups(view, _topology, _streams_member)


def _groups(
    view: memoryview, head: Callable[[Reader], frozenset[str]], member: Callable[[Reader], _Member]
) -> dict[str, GroupMembers]:
    reader = Reader(view)
    reader.fields(_INT32)
    found = {}
    for _ in reader.array():
        (code,) = reader.fields(_INT16)
        error = Refusal(code, reader.compact_string())
        group, state = reader.compact_string() or "", reader.compact_string() or ""
        reader.fields(_EPOCHS)
        topics = head(reader)
        members = [member(reader) for _ in reader.array()]
        reader.fields(_INT32)
        reader.skip_tags()
        found[group] = GroupMembers(
            error,
            state,
            len(members),
            tuple(sorted({each.client for each in members if each.client})),
            tuple(sorted({each.host.removeprefix("/") for each in members if each.host})),
            tuple(sorted(topics.union(*(each.topics for each in members)))),
        )
    reader.skip_tags()
    return found


def _no_topology(reader: Reader) -> frozenset[str]:
    reader.compact_string()  # the assignor
    return frozenset()


def _share_member(reader: Reader) -> _Member:
    reader.compact_string()  # member ID
    reader.compact_string()  # rack
    reader.fields(_INT32)
    client, host = reader.compact_string() or "", reader.compact_string() or ""
    topics = set(_strings(reader))
    for _ in reader.structures():  # the assignment
        reader.uuid()
        topics.add(reader.compact_string() or "")
        _numbers(reader)
    reader.skip_tags()
    reader.skip_tags()
    return _Member(client, host, frozenset(topics))


def _topology(reader: Reader) -> frozenset[str]:
    """The topics that the application reads and that it did not make itself."""
    if reader.fields(_PRESENT)[0] == _ABSENT:
        return frozenset()
    reader.fields(_INT32)
    sources: set[str] = set()
    made: set[str] = set()
    for _ in reader.structures():
        reader.compact_string()
        sources |= set(_strings(reader))
        made |= set(_strings(reader))
        _infos(reader)
        made |= _infos(reader)
    reader.skip_tags()
    return frozenset(sources - made)


def _infos(reader: Reader) -> set[str]:
    names = set()
    for _ in reader.structures():
        names.add(reader.compact_string() or "")
        reader.fields(_INFO)
        _pairs(reader)
    return names


def _streams_member(reader: Reader) -> _Member:
    reader.compact_string()  # member ID
    reader.fields(_INT32)
    reader.compact_string()  # instance ID
    reader.compact_string()  # rack
    client, host = reader.compact_string() or "", reader.compact_string() or ""
    reader.fields(_INT32)
    reader.compact_string()  # process ID
    if reader.fields(_PRESENT)[0] != _ABSENT:  # the endpoint for queries
        reader.compact_string()
        reader.fields(_INT16)
        reader.skip_tags()
    _pairs(reader)
    _task_offsets(reader)
    _task_offsets(reader)
    _tasks(reader)
    _tasks(reader)
    reader.fields(_BOOL)
    reader.skip_tags()
    return _Member(client, host)


def _pairs(reader: Reader) -> None:
    for _ in reader.structures():
        reader.compact_string()
        reader.compact_string()


def _task_offsets(reader: Reader) -> None:
    for _ in reader.structures():
        reader.compact_string()
        reader.fields(_INT32)
        reader.fields(_INT64)


def _tasks(reader: Reader) -> None:
    """Active, standby and warm-up tasks."""
    for _ in range(3):
        for _ in reader.structures():
            reader.compact_string()
            _numbers(reader)
    reader.skip_tags()


def _strings(reader: Reader) -> list[str]:
    return [reader.compact_string() or "" for _ in reader.array()]


def _numbers(reader: Reader) -> None:
    for _ in reader.array():
        reader.fields(_INT32)
