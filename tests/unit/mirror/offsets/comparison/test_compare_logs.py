"""What is compared next, how much is read at a time, and which share of the time that takes."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest

from drlib.kafka.net.cluster_client import ClusterClient
from drlib.mirror.journal.entries import Entry, Expired, SourcePartition, SourceTruncated, Takeover
from drlib.mirror.offsets.comparison.compare_logs import (
    LEAST_RECORDS,
    LONGEST_PAUSE_S,
    MOST_RECORDS,
    STEP_BYTES,
    ComparedPartition,
    LogComparison,
    next_records,
    pause_s,
)
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.status.worker_status import EventLog
from drlib.model import TopicPartition


@pytest.mark.parametrize(
    ("records", "size", "following"),
    [
        (1000, 100_000, 2000),  # small records: larger parts
        (1000, STEP_BYTES // 2, 1000),
        (1000, STEP_BYTES + 1, 500),
        (1000, 1 << 30, 500),
        (LEAST_RECORDS, 1 << 30, LEAST_RECORDS),
        (MOST_RECORDS, 0, MOST_RECORDS),
    ],
)
def test_next_records_keeps_a_step_near_its_size(records: int, size: int, following: int) -> None:
    assert next_records(records, size) == following


def test_pause_leaves_four_fifths_of_the_time_and_far_more_while_records_wait() -> None:
    assert pause_s(1.0, busy=False) == pytest.approx(4.0)
    assert pause_s(1.0, busy=True) == pytest.approx(49.0)
    assert pause_s(0.0, busy=True) == 0
    assert pause_s(10.0, busy=True) == LONGEST_PAUSE_S


async def never(entries: Sequence[Entry]) -> bool:
    raise AssertionError("nothing is journaled here")


def partition(number: int, *entries: Entry) -> ComparedPartition:
    key, offsets = SourcePartition(UUID(int=1), number), PartitionMap()
    for entry in entries:
        offsets.apply(entry)
    names = TopicPartition("t", number), TopicPartition("A.t", number)
    return ComparedPartition(
        key=key, source=names[0], target=names[1], target_id=UUID(int=2), map=offsets, journal=never, busy=lambda: False
    )


def taken_over(number: int, *more: Entry) -> ComparedPartition:
    return partition(number, Takeover(SourcePartition(UUID(int=1), number), 100, 101, 99, 0, 0), *more)


def comparison(*partitions: ComparedPartition) -> LogComparison:
    nowhere = ClusterClient(["127.0.0.1:1"])
    return LogComparison(nowhere, nowhere, lambda: partitions, EventLog())


def test_next_is_a_partition_that_was_taken_over_and_not_one_whose_log_changed() -> None:
    truncated = taken_over(1, SourceTruncated(SourcePartition(UUID(int=1), 1), 50, 60, 0))
    expired = taken_over(2, Expired(SourcePartition(UUID(int=1), 2), 100, 101, 120, 121, 20))
    left = taken_over(3)
    found = comparison(partition(0), truncated, expired, left)
    assert found.next() is left
    assert [found.left(p.key, p.map, 10) for p in (partition(0), truncated, expired, left)] == [0, 0, 0, 90]
    assert found.left(left.key, left.map, -1) == 100  # the source's log start is not known yet
    assert comparison(truncated).next() is None


async def test_next_partition_that_cannot_be_read_waits_until_others_are_through() -> None:
    first, second = taken_over(0), taken_over(1)
    found = comparison(first, second)
    assert found.next() is first
    assert not await found._try(first)  # its cluster does not answer
    assert found.next() is second
