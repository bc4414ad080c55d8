"""Bytes of the requests that describe members; that brokers answer so is `tests/integration/drill/test_left_behind.py`."""

from __future__ import annotations

import struct
import uuid

import pytest

from drlib.kafka.protocol.flexible import compact_string, uvarint
from drlib.kafka.share_groups import members
from drlib.kafka.share_groups.members import GroupMembers
from drlib.kafka.share_groups.messages import Refusal

TOPIC_ID = uuid.UUID("692d098d-ff06-4c3b-8800-0f55cf7d5a7f")
NULL = b"\0"


def array(*items: bytes) -> bytes:
    return uvarint(len(items) + 1) + b"".join(items)


def text(value: str) -> bytes:
    return compact_string(value)


def number(value: int) -> bytes:
    return struct.pack(">i", value)


def group(head: bytes, *those: bytes, code: int = 0) -> memoryview:
    described = struct.pack(">h", code) + NULL + text("g") + text("Stable") + number(5) + number(5) + head
    described += array(*those) + number(-(2**31)) + NULL
    return memoryview(number(0) + array(described) + NULL)


def share_member(client: str, host: str, *assigned: str) -> bytes:
    parts = array(*(TOPIC_ID.bytes + text(name) + array(number(0), number(1)) + NULL for name in assigned)) + NULL
    member = text("member") + NULL + number(3) + text(client) + text(host) + array(text("orders"))
    return member + parts + NULL


def test_share_members_are_known_by_client_host_and_topics() -> None:
    view = group(text("simple"), share_member("b", "/10.0.0.2", "orders"), share_member("a", "/10.0.0.2", "payments"))
    assert members.share_members(view) == {
        "g": GroupMembers(Refusal(0, None), "Stable", 2, ("a", "b"), ("10.0.0.2",), ("orders", "payments"))
    }


def topic_info(name: str) -> bytes:
    settings = array(text("cleanup.policy") + text("compact") + NULL)
    return text(name) + struct.pack(">ih", 0, 1) + settings + NULL


def topology() -> bytes:
    first = text("0") + array(text("orders")) + array(text("app-by-key-repartition")) + array() + array() + NULL
    second = text("1") + array(text("app-by-key-repartition")) + array()
    second += array(topic_info("app-total-changelog")) + array(topic_info("app-by-key-repartition")) + NULL
    return b"\1" + number(0) + array(first, second) + NULL


def streams_member(client: str, *, endpoint: bool) -> bytes:
    tasks = array(text("0") + array(number(0)) + NULL) + array() + array() + NULL
    offsets = array(text("0") + number(0) + struct.pack(">q", 7) + NULL)
    at = b"\1" + text("h") + struct.pack(">H", 65535) + NULL if endpoint else b"\xff"
    member = text("member") + number(2) + NULL + NULL + text(client) + text("/10.0.0.3") + number(0) + text("process")
    member += at + array(text("zone") + text("a") + NULL) + offsets + array() + tasks + tasks + b"\0"
    return member + NULL


def test_streams_members_have_the_topics_that_the_application_did_not_make() -> None:
    view = group(topology(), streams_member("app-1", endpoint=True), streams_member("app-2", endpoint=False))
    assert members.streams_members(view) == {
        "g": GroupMembers(Refusal(0, None), "Stable", 2, ("app-1", "app-2"), ("10.0.0.3",), ("orders",))
    }


def test_streams_group_without_a_topology_has_no_topics() -> None:
    (found,) = members.streams_members(group(b"\xff")).values()
    assert (found.count, found.topics) == (0, ())


def test_refused_group_keeps_its_error() -> None:
    (found,) = members.share_members(group(text(""), code=69)).values()
    assert found.error.code == 69


def test_request_is_about_one_group() -> None:
    assert members.describe_body("g") == b"\2\2g\0\0"


@pytest.mark.parametrize("decode", [members.share_members, members.streams_members])
def test_truncated_answers_are_refused(decode: object) -> None:
    whole = bytes(group(topology(), streams_member("a", endpoint=True)))
    assert callable(decode)
    for size in range(0, len(whole) - 1, 7):
        with pytest.raises(ValueError, match=r"bytes wanted|an array of"):
            decode(memoryview(whole[:size]))
