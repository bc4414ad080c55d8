"""Records of __consumer_offsets in every version of Apache Kafka's schemas."""

import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.mirror.mm2.consumer_offsets import GroupCommit, decode
from drlib.mirror.mm2.records import MalformedRecord


def text(value: str) -> bytes:
    return struct.pack(">h", len(value.encode())) + value.encode()


def compact(value: str) -> bytes:
    length, out = len(value.encode()) + 1, b""
    while length > 0x7F:
        out, length = out + bytes([length & 0x7F | 0x80]), length >> 7
    return out + bytes([length]) + value.encode()


def key(version: int = 1) -> bytes:
    return struct.pack(">h", version) + text("grüppe") + text("orders") + struct.pack(">i", 7)


def value(version: int, metadata: str = "meta") -> bytes:
    head = struct.pack(">hq", version, 42) + (struct.pack(">i", 3) if version >= 3 else b"")
    body = compact(metadata) if version >= 4 else text(metadata)
    tail = struct.pack(">q", 99) if version == 1 else b"\0" if version >= 4 else b""
    return head + body + struct.pack(">q", 1700) + tail


@pytest.mark.parametrize("key_version", [0, 1])
@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_decode_every_version_of_a_commit(key_version: int, version: int) -> None:
    expected = GroupCommit("grüppe", "orders", 7, 42, "meta", 1700)
    assert decode(key(key_version), value(version)) == expected


def test_decode_bytes_of_a_broker() -> None:
    # OffsetCommitValue version 4 with a tagged field from some later Kafka behind it.
    written = bytes.fromhex("0004000000000000002a00000003010000018bcfe56800010501ff")
    assert decode(key(), written) == GroupCommit("grüppe", "orders", 7, 42, "", 1700000000000)


def test_decode_metadata_longer_than_one_length_byte() -> None:
    long = "m" * 300
    commit = decode(key(), value(4, long))
    assert commit is not None
    assert commit.metadata == long


def test_decode_length_of_five_bytes_is_read_as_kafka_reads_it() -> None:
    written = value(4)[:14] + b"\x85\x80\x80\x80\x00" + value(4)[15:]
    assert decode(key(), written) == decode(key(), value(4))


def test_decode_null_value_is_a_deleted_position() -> None:
    assert decode(key(), None) == GroupCommit("grüppe", "orders", 7, None, "", -1)


@pytest.mark.parametrize("version", [2, 3, 8, 20])
def test_decode_other_key_versions_are_not_commits(version: int) -> None:
    assert decode(struct.pack(">h", version) + text("g"), b"anything") is None


def test_decode_record_without_key_is_not_a_commit() -> None:
    assert decode(None, b"") is None


@pytest.mark.parametrize(
    ("broken_key", "broken_value"),
    [
        (key(), b"\x00\x05" + value(4)[2:]),
        (key(), value(3)[:-1]),
        (key(), value(4)[:15]),
        (key()[:-1], value(3)),
        (b"\x00", value(3)),
        (b"\x00\x01\xff\xff", value(3)),
        (key(), b""),
        (key(), value(4, "")[:14] + b"\x00" + value(4, "")[15:]),  # null metadata
        (key(), value(4)[:14] + b"\xff" * 10 + b"\x01" + value(4)[15:]),  # metadata of 2^70 bytes
    ],
)
def test_decode_truncated_record_is_malformed(broken_key: bytes, broken_value: bytes) -> None:
    with pytest.raises(MalformedRecord):
        decode(broken_key, broken_value)


@given(st.binary(max_size=30), st.binary(max_size=30))
def test_decode_any_bytes_are_a_commit_or_malformed(tail: bytes, written: bytes) -> None:
    try:
        found = decode(b"\x00\x01" + tail, written)
    except MalformedRecord:
        return
    assert isinstance(found, GroupCommit)


def test_decode_length_without_an_end_is_malformed_at_once() -> None:
    """A number grows with every byte: a record of a megabyte took minutes."""
    endless = value(4)[:14] + b"\xff" * (1 << 20)
    began = time.process_time()
    with pytest.raises(MalformedRecord, match="no end"):
        decode(key(), endless)
    assert time.process_time() - began < 1
