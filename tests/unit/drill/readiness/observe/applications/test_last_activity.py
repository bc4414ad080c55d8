"""When groups were last active: which partition has a group, what a record says, and which offsets are read."""

from __future__ import annotations

import struct
import uuid

import pytest

from drlib.drill.readiness.observe.applications.last_activity import TAIL, of_commit, of_state, partition_of, tails
from drlib.kafka.admin.descriptions import Range, Record
from drlib.model import TopicPartition

AT = TopicPartition("__consumer_offsets", 3)


def record(key: bytes | None, value: bytes | None) -> Record:
    return Record(AT, 7, 1234, key, value)


def commit_key(group: str = "g") -> bytes:
    return struct.pack(">hh", 1, len(group)) + group.encode() + struct.pack(">h", 1) + b"t" + struct.pack(">i", 0)


@pytest.mark.parametrize(
    ("group", "partition"),
    # by Math.abs(String.hashCode()); the hash of the last one is the lowest number
    [("billing", 9), ("", 0), ("consumer-\u00fc", 3), ("\U0001f600", 49), ("polygenelubricants", 0)],
)
def test_partition_of_a_group_is_that_of_the_broker(group: str, partition: int) -> None:
    assert partition_of(group, 50) == partition


def test_commit_has_its_time_and_other_records_have_none() -> None:
    value = struct.pack(">hqih", 3, 42, -1, 0) + struct.pack(">q", 99)
    assert of_commit(record(commit_key(), value)) == ("g", 99)
    assert of_commit(record(commit_key(), None)) is None  # a position that expired
    assert of_commit(record(struct.pack(">h", 2) + b"rest", b"")) is None
    assert of_commit(record(commit_key(), b"\0")) is None


def test_state_of_a_share_group_has_the_time_of_its_record() -> None:
    key = struct.pack(">hh", 0, 1) + b"s" + uuid.UUID(int=1).bytes + struct.pack(">i", 4)
    assert of_state(record(key, b"x")) == ("s", 1234)
    assert of_state(record(key, None)) is None
    assert of_state(record(b"\0", b"x")) is None
    assert of_state(record(struct.pack(">h", 9), b"x")) is None


def test_only_the_last_offsets_of_partitions_that_have_any_are_read() -> None:
    other = TopicPartition("__consumer_offsets", 4)
    empty = TopicPartition("__consumer_offsets", 5)
    found = tails({AT: 0, other: 5, empty: 9}, {AT: TAIL + 10, other: 8, empty: 9})
    assert found == {AT: Range(10, TAIL + 10), other: Range(5, 8)}
