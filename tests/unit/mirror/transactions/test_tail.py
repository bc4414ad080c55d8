"""What is in part once the source came back, by what became of the records that were not copied."""

from __future__ import annotations

import pytest

from drlib.mirror.journal.transactions import TransactionCommitted, TransactionEvent
from drlib.mirror.transactions.rules import Decision, PartitionLog, State, Verdict, decide
from drlib.mirror.transactions.tail import Tail, all_complete, with_tail
from drlib.model import TopicPartition

ONE, TWO, THREE = (TopicPartition("orders", n) for n in range(3))


def decided(*partitions: TopicPartition, is_named: bool = True) -> Decision:
    """A transaction of `partitions` of which the first one crossed, and one after it of which nothing did."""
    events = TransactionEvent(4, 0, 0, 2, 2), TransactionEvent(4, 1, 2, 3, 0, 1000)
    logs = [PartitionLog(ONE, 3, events), PartitionLog(TWO, 0), PartitionLog(THREE, 0)]
    names = [TransactionCommitted((0, n), "app", 4, n + 1, 2, 900, _topics(*partitions)) for n in range(2)]
    return decide(logs, names if is_named else [])


def _topics(*partitions: TopicPartition) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((each.topic, (each.partition,)) for each in partitions)


@pytest.mark.parametrize("tail", [{}, {TWO: Tail.RECOVERED, THREE: Tail.RECOVERED}])
def test_with_tail_where_all_is_on_the_target_nothing_is_in_part(tail: dict[TopicPartition, Tail]) -> None:
    for decision in (decided(ONE, TWO), decided(is_named=False)):
        assert with_tail(decision, tail) == all_complete(decision)
        assert {each.verdict for each in with_tail(decision, tail).transactions} == {Verdict.COMPLETE}


@pytest.mark.parametrize("rest", [Tail.QUARANTINED, Tail.LEFT])
def test_with_tail_what_was_not_recovered_leaves_its_transaction_in_part(rest: Tail) -> None:
    found = with_tail(decided(ONE, TWO), {ONE: rest, TWO: rest})
    (partial,) = found.of(Verdict.PARTIAL)
    assert [(p.partition, p.state, p.rest) for p in partial.parts] == [(ONE, State.WHOLE, ""), (TWO, State.NONE, rest)]
    assert len(found.absent) == 1, "the one after it is there, or at home, as a whole"
    assert found.unread == (), "what the mirror had not read is in quarantine, or on the source, as a whole"


def test_with_tail_that_was_recovered_in_part_names_each_transaction_and_where_others_may_lack_something() -> None:
    found = with_tail(decided(ONE, TWO, THREE), {ONE: Tail.RECOVERED, TWO: Tail.RECOVERED, THREE: Tail.QUARANTINED})
    first, second = found.of(Verdict.PARTIAL)
    assert [part.state for part in first.parts] == [State.WHOLE, State.RECOVERED, State.NONE]
    assert [part.state for part in second.parts] == [State.RECOVERED, State.RECOVERED, State.NONE]
    assert found.absent == ()
    assert found.unread == (THREE,)


def test_with_tail_whose_transaction_lacks_another_partition_is_complete() -> None:
    found = with_tail(decided(ONE, TWO), {TWO: Tail.RECOVERED, THREE: Tail.LEFT})
    assert {each.verdict for each in found.transactions} == {Verdict.COMPLETE}


def test_with_tail_partitions_that_are_not_recorded_stay_not_determined() -> None:
    (unknown,) = with_tail(decided(is_named=False), {TWO: Tail.LEFT}).of(Verdict.NOT_DETERMINED)
    assert unknown.why == "which partitions it has is not recorded"
