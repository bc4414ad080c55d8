"""Last known positions, from a log of checkpoints that anyone with the right may have written to."""

from __future__ import annotations

from uuid import UUID

import pytest

from drlib.config.replication_policy import DefaultReplicationPolicy
from drlib.kafka.admin.descriptions import Record
from drlib.mirror.mm2.records import Checkpoint
from drlib.mirror.mm2.writer import AS_OF_HEADER, GONE_HEADER, POSITION_HEADER, TOPICS_HEADER, TRANSACTION_HEADER
from drlib.mirror.offsets.translation.shared_logs import KnownRead
from drlib.mirror.offsets.translation.translate_groups import KnownPosition, last_known
from drlib.model import TopicPartition

POLICY = DefaultReplicationPolicy()
LOG = TopicPartition("A.checkpoints.internal", 0)
GROUP, ORDERS = "billing", TopicPartition("orders", 3)


def record(upstream: int, *headers: tuple[str, bytes | None]) -> Record:
    checkpoint = Checkpoint(GROUP, TopicPartition("A.orders", 3), upstream, 7, "m")
    return Record(LOG, 0, 1000, checkpoint.key(), checkpoint.value(), headers)


def test_last_known_position_newest_checkpoint_counts() -> None:
    known = last_known([record(5), record(6, (POSITION_HEADER, b"9"), (AS_OF_HEADER, b"999"))], POLICY)
    assert known == {(GROUP, ORDERS): KnownPosition(9, 999, "m", there=7)}


@pytest.mark.parametrize("header", [None, b"", b"x", b"-1", b"9" * 5000, "²".encode()])
def test_last_known_position_header_that_is_no_number_counts_as_missing(header: bytes | None) -> None:
    known = last_known([record(5, (POSITION_HEADER, header), (AS_OF_HEADER, header))], POLICY)
    assert known == {(GROUP, ORDERS): KnownPosition(5, 1000, "m", there=7)}


@pytest.mark.parametrize(
    ("header", "transaction"),
    [(b"4/7", (4, 7)), (None, None), (b"", None), (b"4", None), (b"4/", None), (b"-1/7", None), (b"4/7/8", None)],
)
def test_last_known_position_says_which_transaction_committed_it(
    header: bytes | None, transaction: tuple[int, int] | None
) -> None:
    known = last_known([record(5, (POSITION_HEADER, b"9"), (TRANSACTION_HEADER, header))], POLICY)
    assert known[GROUP, ORDERS].transaction == transaction


def test_last_known_position_that_is_gone_is_none_until_the_group_commits_again() -> None:
    gone = record(6, (POSITION_HEADER, b"9"), (GONE_HEADER, b"1"))
    assert last_known([record(6), gone], POLICY) == {}
    assert set(last_known([record(6), gone, record(6)], POLICY)) == {(GROUP, ORDERS)}
    assert last_known([record(6), gone], POLICY, with_gone=True)[GROUP, ORDERS].offset == 9


@pytest.mark.parametrize("value", [None, b"", b"\0", b"text that is no checkpoint"])
def test_last_known_position_record_that_is_no_checkpoint_is_skipped(value: bytes | None) -> None:
    foreign = Record(LOG, 1, 1000, record(5).key, value)
    assert last_known([record(5), foreign, Record(LOG, 2, 1000, None, value)], POLICY) == {
        (GROUP, ORDERS): KnownPosition(5, 1000, "m", there=7)
    }


def test_last_known_position_of_a_topic_copied_both_ways_has_what_was_read_on_the_target() -> None:
    ids = f"{UUID(int=1)}/{UUID(int=2)}".encode()
    known = last_known([record(5, (POSITION_HEADER, b"9"), (TOPICS_HEADER, ids))], POLICY)
    assert known[GROUP, ORDERS].read == KnownRead(9, 7, UUID(int=1), UUID(int=2))


@pytest.mark.parametrize("header", [None, b"", b"/", b"x/y", str(UUID(int=1)).encode(), "é/é".encode()])
def test_last_known_position_topic_ids_that_are_none_say_nothing_of_the_target(header: bytes | None) -> None:
    assert last_known([record(5, (TOPICS_HEADER, header))], POLICY)[GROUP, ORDERS].read is None


def test_last_known_position_of_a_source_whose_alias_contains_the_separator() -> None:
    checkpoint = Checkpoint(GROUP, TopicPartition("fra.a.orders", 3), 5, 7, "m")
    record = Record(LOG, 0, 1000, checkpoint.key(), checkpoint.value())
    assert last_known([record], DefaultReplicationPolicy(aliases=("fra.a",))).keys() == {(GROUP, ORDERS)}
