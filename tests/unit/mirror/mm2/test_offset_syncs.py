"""When MirrorMaker 2 emits an offset sync, against the cases of its own OffsetSyncWriterTest and its rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drlib.mirror.mm2 import offset_syncs
from drlib.mirror.mm2.offset_syncs import MOST_DUE, OffsetSyncWriter
from drlib.mirror.mm2.records import OffsetSync
from drlib.model import TopicPartition

TP = TopicPartition("topic", 0)


def test_acked_first_is_due_and_next_is_pending() -> None:
    writer = OffsetSyncWriter(2)
    assert writer.acked(TP, 0, 1)
    assert not writer.acked(TP, 1, 2)
    assert writer.take_due() == (OffsetSync(TP, 0, 1),)
    assert writer.take_due() == ()


def test_commit_makes_the_newest_pending_pair_due() -> None:
    writer = OffsetSyncWriter(50)
    writer.acked(TP, 0, 100)
    writer.acked(TP, 1, 101)
    writer.acked(TP, 2, 102)
    writer.commit()
    assert writer.take_due() == (OffsetSync(TP, 0, 100), OffsetSync(TP, 2, 102))
    writer.commit()
    assert writer.take_due() == ()


@pytest.mark.parametrize(
    ("up", "down", "due", "rule"),
    [
        (1, 101, False, "contiguous and fresh"),
        (2, 102, True, "a gap upstream"),
        (0, 101, True, "the same record again"),
        (1, 99, True, "the target's log went back"),
        (1, 100, False, "the target's log did not go back"),
        (1, 110, False, "9 stale with a lag of 10"),
        (1, 111, True, "10 stale with a lag of 10"),
    ],
)
def test_acked_each_rule_alone(up: int, down: int, due: bool, rule: str) -> None:
    writer = OffsetSyncWriter(10)
    writer.acked(TP, 0, 100)
    assert writer.acked(TP, up, down) is due, rule


def test_acked_due_pair_replaces_the_pending_one() -> None:
    writer = OffsetSyncWriter(10)
    for up, down in ((0, 0), (1, 1), (5, 2)):
        writer.acked(TP, up, down)
    writer.commit()
    assert writer.take_due() == (OffsetSync(TP, 0, 0), OffsetSync(TP, 5, 2))


def test_acked_without_lag_every_record_is_due() -> None:
    single, whole = OffsetSyncWriter(0), OffsetSyncWriter(0)
    for number in range(40):
        single.acked_run(TP, number, number + 5, 1)
    whole.acked_run(TP, 0, 5, 40)
    expected = tuple(OffsetSync(TP, number, number + 5) for number in range(40))
    assert single.take_due() == whole.take_due() == expected
    for writer in (single, whole):
        writer.commit()
        assert writer.take_due() == ()


def test_due_pairs_that_are_not_taken_stay_bounded_and_are_the_newest() -> None:
    writer, other = OffsetSyncWriter(0), TopicPartition("topic", 1)
    writer.acked_run(TP, 0, 0, 1_000_000)
    assert writer.take_due() == tuple(OffsetSync(TP, n, n) for n in range(1_000_000 - MOST_DUE, 1_000_000))
    for number in range(1_000_000, 1_003_000):
        writer.acked(TP, number, number)
        writer.acked(other, number, number)
    due = writer.take_due()
    assert len(due) == MOST_DUE
    assert {sync.upstream_offset for sync in due} == set(range(1_003_000 - MOST_DUE // 2, 1_003_000))


def test_due_pairs_of_more_partitions_than_are_kept_are_the_newest_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_syncs, "MOST_DUE", 2)
    writer = OffsetSyncWriter(0)
    partitions = [TopicPartition("topic", number) for number in range(3)]
    for offset in range(4):
        for partition in partitions:
            writer.acked(partition, offset, offset)
    assert writer.take_due() == tuple(OffsetSync(partition, 3, 3) for partition in partitions)


def test_acked_run_contiguous_records_are_due_every_lag_plus_one() -> None:
    writer = OffsetSyncWriter(100)
    due = [up for up in range(1000) if writer.acked(TP, up, up)]
    assert due == [0, 101, 202, 303, 404, 505, 606, 707, 808, 909]


def test_acked_run_of_one_record_is_due_once() -> None:
    writer = OffsetSyncWriter(10)
    writer.acked_run(TP, 5, 7, 1)
    assert writer.take_due() == (OffsetSync(TP, 5, 7),)
    writer.commit()
    assert writer.take_due() == ()
    writer.acked_run(TP, 6, 8, 1)
    writer.commit()
    assert writer.take_due() == (OffsetSync(TP, 6, 8),)


def test_forget_makes_the_next_record_the_first() -> None:
    writer = OffsetSyncWriter(100)
    writer.acked(TP, 0, 0)
    writer.forget(TP)
    assert writer.take_due() == ()
    assert writer.acked(TP, 1, 1)


@given(
    lag=st.integers(0, 12),
    runs=st.lists(
        st.tuples(st.integers(0, 3), st.integers(-5, 5), st.integers(0, 40), st.sampled_from(["", "commit", "take"]))
    ),
)
def test_acked_run_equals_single_records(lag: int, runs: list[tuple[int, int, int, str]]) -> None:
    whole, single = OffsetSyncWriter(lag), OffsetSyncWriter(lag)
    up = down = 20
    for gap, shift, count, then in runs:
        up, down = up + gap, max(down + shift, 0)
        whole.acked_run(TP, up, down, count)
        for step in range(count):
            single.acked(TP, up + step, down + step)
        up, down = up + count, down + count
        if then == "commit":
            whole.commit()
            single.commit()
        if then == "take":
            assert whole.take_due() == single.take_due()
    whole.commit()
    single.commit()
    assert whole.take_due() == single.take_due()


def test_rewrite_makes_the_newest_pair_of_each_partition_due_again() -> None:
    writer, other = OffsetSyncWriter(100), TopicPartition("topic", 1)
    writer.acked_run(TP, 0, 100, 40)
    writer.acked(other, 7, 70)
    writer.take_due()
    writer.rewrite()
    assert set(writer.take_due()) == {OffsetSync(TP, 39, 139), OffsetSync(other, 7, 70)}
    writer.commit()
    assert writer.take_due() == ()
    assert not writer.acked(TP, 40, 140)
