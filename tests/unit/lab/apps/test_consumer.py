"""The pure decisions of the consuming side: which partitions wait, and what an unanswered commit was."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import KafkaError, KafkaException

from drlib.client import pointer_file
from drlib.client.ordered_member import Batch, CommitOutcome
from drlib.client.pointer import Pointer
from drlib.client.read_plan import ReadPlan, held
from drlib.kafka.admin.descriptions import Record
from drlib.lab.apps import consumer
from drlib.lab.apps.consumer import ConsumerRun, processed_in_doubt, readable
from drlib.lab.apps.process import Stop
from drlib.lab.apps.specs import ConsumerSpec
from drlib.lab.checker.history import CommitStatus, Mirrored
from drlib.lab.checker.history_files import HistoryWriter, read_history
from drlib.model import TopicPartition

PLAN = ReadPlan("flights", "LEFT.flights", (10, 0, 5))


def local(partition: int) -> TopicPartition:
    return TopicPartition("flights", partition)


def remote(partition: int) -> TopicPartition:
    return TopicPartition("LEFT.flights", partition)


@pytest.mark.parametrize(
    ("reached", "waiting"),
    [
        ({}, {0, 1, 2}),
        ({0: 0, 1: 0, 2: 0}, {0, 2}),
        ({0: 9, 1: 0, 2: 5}, {0}),
        ({0: 10, 1: 7, 2: 5}, set()),
        ({0: 11, 1: 0, 2: 4}, {2}),
    ],
)
def test_read_plan_holds_local_partition_until_cutover_is_committed(reached: dict[int, int], waiting: set[int]) -> None:
    assigned = [local(p) for p in range(4)] + [remote(p) for p in range(3)]
    positions = {remote(p): offset for p, offset in reached.items()}
    assert held(PLAN, assigned, positions) == {local(p) for p in waiting}


def test_read_plan_holds_only_assigned_partitions_of_a_remote_topic() -> None:
    assert held(PLAN, [local(2)], {}) == {local(2)}
    assert held(ReadPlan("flights"), [local(0)], {}) == set()
    assert ReadPlan("flights").topics == ("flights",)
    assert PLAN.topics == ("LEFT.flights", "flights")


def record(name: str, partition: int, offset: int) -> Record:
    return Record(local(partition), offset, 0, b"k", b"v", (("id", name.encode()),))


def test_readable_batch_ends_before_the_first_value_of_a_partition_that_is_not_json() -> None:
    values = {(0, 5): b"{}", (0, 6): b"\x00\x00\x01", (0, 7): b"{}", (1, 3): b"[1]", (1, 4): None, (2, 0): b"\xff"}
    records = tuple(Record(local(p), offset, 0, b"k", value) for (p, offset), value in values.items())
    batch = Batch(records, {local(0): 5, local(1): 3, local(2): 0}, {local(0): 8, local(1): 5, local(2): 1}, 7)
    before, stuck = readable(batch)
    assert stuck is not None
    assert (stuck.partition, stuck.offset) == (local(0), 6)
    assert [(r.partition.partition, r.offset) for r in before.records] == [(0, 5), (1, 3), (1, 4)]
    assert before.positions == {local(0): 6, local(1): 5, local(2): 0}
    assert (before.starts, before.generation) == (batch.starts, 7)
    whole = replace(batch, records=records[3:5])
    assert readable(whole) == (whole, None)


def there(name: str, partition: int, offset: int) -> Mirrored:
    return Mirrored("LEFT.flights", partition, offset, name, "k", 0, 0)


def test_settle_unanswered_commit_by_group_position() -> None:
    batch = (record("a", 0, 7), record("b", 0, 8), record("c", 1, 3), record("d", 1, 4))
    found = {"a": there("a", 0, 17), "b": there("b", 0, 18), "c": there("c", 1, 13)}
    taken = processed_in_doubt(batch, found, {0: 19, 1: 14})
    assert [r.offset for r in taken] == [7, 8, 3, 4]  # d was never mirrored: it will not come again
    assert [r.offset for r in processed_in_doubt(batch[3:], found, {1: 13})] == [
        4
    ]  # nothing says that it was not taken
    # a commit that failed leaves d unprocessed: it must not be processed before c, which is read again
    assert processed_in_doubt(batch, found, {0: 17, 1: 13}) == ()
    assert [r.offset for r in processed_in_doubt(batch, found, {0: 18})] == [
        7
    ]  # without a position it reads from the start
    assert processed_in_doubt((), found, {0: 19}) == ()


class OneBatch:
    """A group member that polls one batch; its answer to the commit arrives after a rebalance, or before one."""

    generation = 1

    def __init__(self, rebalanced: bool, stop: Stop, clock: list[int]) -> None:
        self._rebalanced, self._stop, self._clock = rebalanced, stop, clock

    def poll(self) -> Batch:
        return Batch((record("a", 0, 7),), {local(0): 7}, {local(0): 8}, self.generation)

    def commit(self, batch: Batch, **limits: object) -> CommitOutcome:
        self._clock[0] += 900  # meanwhile another member of the group may continue behind the batch
        self.generation += self._rebalanced
        self._stop.set()
        return CommitOutcome.ACKED

    def close(self, timeout_s: float = 5.0) -> bool:
        return True


class TwoClients:
    """The first member has lost all brokers when it commits `end`; the second one finds the group at `committed`."""

    generation = 1

    def __init__(self, end: int, committed: int, stop: Stop) -> None:
        self._end, self._committed, self._stop, self._made = end, committed, stop, 0

    def made(self, *_: object, **__: object) -> Self:
        self._made += 1
        return self

    def poll(self) -> Batch | None:
        if self._made > 1:
            self._stop.set()
            return None
        return Batch((record("a", 0, 7), record("b", 0, 8)), {local(0): 7}, {local(0): self._end}, self.generation)

    def commit(self, batch: Batch, **_: object) -> CommitOutcome:
        raise KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN))

    def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, self._committed)

    def close(self, timeout_s: float = 5.0) -> bool:
        return True


@pytest.mark.parametrize(
    ("end", "committed", "processed"),
    [(9, 9, [7, 8]), (9, 7, []), (9, 12, []), (10, 10, [7, 8])],  # the last: a marker follows the records
)
def test_consumer_that_lost_all_brokers_in_a_commit_finds_out_whether_it_was_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: int, committed: int, processed: list[int]
) -> None:
    """Where it was not, or another member has gone on meanwhile, the records are that one's, or come again."""
    stop, history = Stop(), tmp_path / "history"
    monkeypatch.setattr(consumer, "OrderedMember", TwoClients(end, committed, stop).made)
    pointer_file.write_atomic(tmp_path / "pointer", Pointer(1, "paris", "127.0.0.1:9092"))
    spec = ConsumerSpec(str(tmp_path / "pointer"), str(history), "g")
    with HistoryWriter(history) as writer:
        ConsumerRun(spec, stop, writer).run()
    found = read_history(history)
    assert [row.offset for row in found.consumed] == processed
    resolved = [CommitStatus.RESOLVED] if processed else []
    assert [row.status for row in found.committed] == [CommitStatus.UNKNOWN, *resolved]


@pytest.mark.parametrize(("rebalanced", "expected_ms"), [(False, 1900), (True, 1000)])
def test_consumer_rebalanced_during_commit_records_when_it_was_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rebalanced: bool, expected_ms: int
) -> None:
    stop, clock, history = Stop(), [1000], tmp_path / "history"
    monkeypatch.setattr(consumer, "now_ms", lambda: clock[0])
    monkeypatch.setattr(consumer, "OrderedMember", lambda *args, **settings: OneBatch(rebalanced, stop, clock))
    pointer_file.write_atomic(tmp_path / "pointer", Pointer(1, "paris", "127.0.0.1:9092"))
    spec = ConsumerSpec(str(tmp_path / "pointer"), str(history), "g")
    with HistoryWriter(history) as writer:
        ConsumerRun(spec, stop, writer).run()
    assert [row.at_ms for row in read_history(history).consumed] == [expected_ms]
