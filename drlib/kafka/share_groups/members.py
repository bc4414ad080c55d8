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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from drlib.kafka.net.group_requests import STREAMS
from drlib.kafka.protocol.flexible import NO_TAGS, Reader, compact_string, uvarint
from drlib.kafka.share_groups.messages import Refusal, refusal
from drlib.kafka.share_groups.names import PROTOCOL

REQUESTS: Final[Mapping[str, str]] = {PROTOCOL: "ShareGroupDescribe", STREAMS: "StreamsGroupDescribe"}
"""The request that describes the groups of a protocol."""

_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_BOOL: Final = struct.Struct(">?")
_ABSENT: Final = -1

_Form = struct.Struct | Callable[[Reader], object] | Sequence["_Form"] | Mapping[str, "_Form"]
"""What a field is: one number, what a function reads, an array (a list of one form), or a structure's fields in their order."""


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """`clients` and `hosts` are sorted, each once; `topics`: what the members subscribe to, or are assigned."""

    error: Refusal
    state: str
    count: int
    clients: tuple[str, ...]
    hosts: tuple[str, ...]
    topics: tuple[str, ...]


def _text(reader: Reader) -> str:
    return reader.compact_string() or ""


def _nullable(form: _Form) -> _Form:
    return lambda reader: None if reader.fields(_INT8)[0] == _ABSENT else _read(reader, form)


_PAIRS: Final[_Form] = [{"key": _text, "value": _text}]
_TOPICS: Final[_Form] = [{"name": _text, "partitions": _INT32, "replication_factor": _INT16, "settings": _PAIRS}]
_TOPOLOGY: Final[_Form] = {
    "epoch": _INT32,
    "subtopologies": [
        {"id": _text, "sources": [_text], "sinks": [_text], "changelogs": _TOPICS, "repartitions": _TOPICS}
    ],
}
_OFFSETS: Final[_Form] = [{"subtopology": _text, "partition": _INT32, "offset": _INT64}]
_TASKS: Final[_Form] = [{"subtopology": _text, "partitions": [_INT32]}]
_ASSIGNMENT: Final[_Form] = {"active": _TASKS, "standby": _TASKS, "warm-up": _TASKS}
_STREAMS_MEMBER: Final[_Form] = {
    "id": _text,
    "epoch": _INT32,
    "instance": _text,
    "rack": _text,
    "client": _text,
    "host": _text,
    "topology epoch": _INT32,
    "process": _text,
    "endpoint": _nullable({"host": _text, "port": _INT16}),
    "tags": _PAIRS,
    "offsets": _OFFSETS,
    "ends": _OFFSETS,
    "assignment": _ASSIGNMENT,
    "target assignment": _ASSIGNMENT,
    "classic": _BOOL,
}
_SHARE_MEMBER: Final[_Form] = {
    "id": _text,
    "rack": _text,
    "epoch": _INT32,
    "client": _text,
    "host": _text,
    "subscribed": [_text],
    "assignment": {"topics": [{"id": Reader.uuid, "name": _text, "partitions": [_INT32]}]},
}


def describe_body(group: str) -> bytes:
    """Either request about one group, without the operations that are allowed."""
    return uvarint(2) + compact_string(group) + b"\0" + NO_TAGS


def share_members(view: memoryview) -> dict[str, GroupMembers]:
    """The answer to ShareGroupDescribe v1, by group. Raises `ValueError`."""
    return _groups(view, {"assignor": _text}, _SHARE_MEMBER, _subscribed)


def streams_members(view: memoryview) -> dict[str, GroupMembers]:
    """The answer to StreamsGroupDescribe v0, by group. Raises `ValueError`."""
    return _groups(view, {"topology": _nullable(_TOPOLOGY)}, _STREAMS_MEMBER, _sources)


def _groups(
    view: memoryview, own: Mapping[str, _Form], member: _Form, topics: Callable[[Any], set[str]]
) -> dict[str, GroupMembers]:
    group: _Form = {
        "error": refusal,
        "group": _text,
        "state": _text,
        "epoch": _INT32,
        "assignment epoch": _INT32,
        **own,
        "members": [member],
        "operations": _INT32,
    }
    answer = _read(Reader(view), {"throttled": _INT32, "groups": [group]})
    return {
        each["group"]: GroupMembers(
            each["error"],
            each["state"],
            len(each["members"]),
            tuple(sorted({one["client"] for one in each["members"] if one["client"]})),
            tuple(sorted({one["host"].removeprefix("/") for one in each["members"] if one["host"]})),
            tuple(sorted(topics(each))),
        )
        for each in answer["groups"]
    }


def _subscribed(group: Any) -> set[str]:
    assigned = {topic["name"] for member in group["members"] for topic in member["assignment"]["topics"]}
    return assigned.union(*(member["subscribed"] for member in group["members"]))


def _sources(group: Any) -> set[str]:
    """The topics that the application reads and that it did not make itself."""
    parts = group["topology"]["subtopologies"] if group["topology"] else []
    made = {topic["name"] for part in parts for topic in part["repartitions"]}
    return set().union(*(part["sources"] for part in parts)) - made.union(*(part["sinks"] for part in parts))


def _read(reader: Reader, form: _Form) -> Any:
    if isinstance(form, struct.Struct):
        return reader.fields(form)[0]
    if isinstance(form, Mapping):
        values = {name: _read(reader, each) for name, each in form.items()}
        reader.skip_tags()
        return values
    if isinstance(form, Sequence):
        return [_read(reader, form[0]) for _ in reader.array()]
    return form(reader)
