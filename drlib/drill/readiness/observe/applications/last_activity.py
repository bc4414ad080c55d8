"""When groups last committed or acknowledged: the times of the newest records in which brokers keep that.

Rules: groups of consumers and of Kafka Streams are in `__consumer_offsets`, share groups in `__share_group_state`; reading
either needs Read on it, which nothing else here needs. Of each partition the last `TAIL` offsets are read, and only where one
of the groups has its coordinator: a group that committed before these is left out, so its time is unknown and never wrong. So
is a group that only reads. Times are the broker's.
Not for: positions (`drlib.drill.readiness.observe.groups`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Final

from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Range, Record
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.share_groups import messages
from drlib.kafka.share_groups.names import STATE_TOPIC
from drlib.mirror.mm2 import consumer_offsets
from drlib.mirror.mm2.records import MalformedRecord
from drlib.mirror.sync.source_groups import OFFSETS_TOPIC
from drlib.model import TopicPartition

TAIL: Final = 1000
"""Offsets of a partition."""

Decode = Callable[[Record], tuple[str, int] | None]
"""The group of a record and its time in milliseconds since the epoch; None for a record that says nothing of the kind."""


def last_commits(cluster: ClusterSettings, groups: Collection[str], timeout_s: float) -> tuple[dict[str, int], str]:
    """By group of consumers or Kafka Streams: when it last committed; and why times are not known, if they are not. Blocks."""
    return _read(
        cluster, OFFSETS_TOPIC, timeout_s, of_commit, lambda count: {partition_of(group, count) for group in groups}
    )


def last_acknowledgements(
    cluster: ClusterSettings, groups: Collection[str], timeout_s: float
) -> tuple[dict[str, int], str]:
    """By share group: when its state last changed; and why times are not known, if they are not. Blocks."""
    return _read(cluster, STATE_TOPIC, timeout_s, of_state, lambda count: set(range(count) if groups else ()))


def partition_of(group: str, partitions: int) -> int:
    """The partition of `__consumer_offsets` that a group is kept in (`GroupCoordinatorService.partitionFor`, `Utils.abs`: the
    absolute value of Java's hash of the name, a number of 32 bits; 0 for the lowest, which has none)."""
    units = group.encode("utf-16-be", "surrogatepass")
    hashed = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        hashed = (31 * hashed + (high << 8 | low)) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed >> 31 else hashed
    return 0 if signed == -(1 << 31) else abs(signed) % partitions


def of_commit(record: Record) -> tuple[str, int] | None:
    try:
        commit = consumer_offsets.decode(record.key, record.value)
    except MalformedRecord:
        return None
    return None if commit is None or commit.offset is None else (commit.group, commit.commit_timestamp_ms)


def of_state(record: Record) -> tuple[str, int] | None:
    try:
        key = messages.state_key(record.key)
    except (ValueError, UnicodeDecodeError):
        return None
    return None if key is None or record.value is None else (key.group, record.timestamp_ms)


def _read(
    settings: ClusterSettings, name: str, timeout_s: float, decode: Decode, chosen: Callable[[int], Collection[int]]
) -> tuple[dict[str, int], str]:
    newest: dict[str, int] = {}
    end_at = time.monotonic() + timeout_s
    try:
        with Cluster(settings, timeout_s=timeout_s) as cluster:
            topic = cluster.topics([name]).get(name)
            numbers = [] if topic is None else chosen(topic.partitions)
            partitions = [TopicPartition(name, n) for n in numbers if topic is not None and topic.is_led(n)]
            starts, ends = cluster.log_starts(partitions), cluster.log_ends(partitions)
            for record in cluster.read(tails(starts, ends)):
                if (found := decode(record)) is not None:
                    group, at_ms = found
                    newest[group] = max(at_ms, newest.get(group, 0))
                if time.monotonic() > end_at:
                    return newest, f"{name} was read in part only, within {timeout_s:g} s"
    except DrlibError as error:
        return {}, f"{name} cannot be read: {error.why}"
    without = len(numbers) - len(partitions)
    return newest, f"{name} was read in part only: {without} of its partitions have no leader" if without else ""


def tails(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, Range]:
    """The last `TAIL` offsets of each partition that has any."""
    found = {at: Range(max(starts.get(at, 0), end - TAIL), end) for at, end in ends.items()}
    return {at: each for at, each in found.items() if each.start < each.end}
