"""What waits for what after a move, and what a pointer means for one topic."""

from __future__ import annotations

import pytest

import drlib
from drlib.client.ordered_consumer import OrderedConsumer, read_plan
from drlib.client.pointer import Pointer
from drlib.client.read_plan import ReadPlan, Scope, held
from drlib.errors import UsageError
from drlib.model import TopicPartition

LOCAL = [TopicPartition("orders", number) for number in range(4)]
REMOTE = [TopicPartition("LEFT.orders", number) for number in range(3)]


def test_held_by_partition_waits_for_the_same_partition_only() -> None:
    plan = ReadPlan("orders", "LEFT.orders", (5, 0, 7))
    assert held(plan, {*LOCAL, *REMOTE}, {REMOTE[0]: 4, REMOTE[1]: 0, REMOTE[2]: 7}) == {LOCAL[0]}
    assert held(plan, LOCAL, {}) == set(LOCAL[:3])


def test_held_by_topic_waits_for_the_slowest_partition() -> None:
    plan = ReadPlan("orders", "LEFT.orders", (5, 0, 7), Scope.TOPIC)
    assert held(plan, {*LOCAL, *REMOTE}, {REMOTE[0]: 4, REMOTE[1]: 0, REMOTE[2]: 7}) == set(LOCAL)
    assert held(plan, LOCAL, {REMOTE[0]: 5, REMOTE[1]: 0}) == set(LOCAL)
    assert held(plan, LOCAL, {REMOTE[0]: 5, REMOTE[1]: 0, REMOTE[2]: 9}) == set()
    assert held(ReadPlan("orders", scope=Scope.TOPIC), LOCAL, {}) == set()


@pytest.mark.parametrize("scope", Scope)
def test_gates_are_those_of_the_local_partitions_asked_for(scope: Scope) -> None:
    plan = ReadPlan("orders", "LEFT.orders", (5, 0, 7), scope)
    every = dict(zip(REMOTE, (5, 0, 7), strict=True))
    assert plan.gates(LOCAL) == every
    assert plan.gates(LOCAL[2:]) == (every if scope is Scope.TOPIC else {REMOTE[2]: 7})
    assert plan.gates(REMOTE) == plan.gates(()) == {}  # remote partitions wait for nothing
    assert ReadPlan("orders", scope=scope).gates(LOCAL) == {}


def test_read_plan_from_pointer_or_refused_without_cutover() -> None:
    assert read_plan(Pointer(1, "LEFT", "h:1"), "orders", Scope.TOPIC) == ReadPlan("orders")
    moved = Pointer(2, "RIGHT", "h:2", "LEFT.", {"LEFT.orders": (5, 7), "LEFT.fresh": ()})
    assert read_plan(moved, "orders", Scope.TOPIC) == ReadPlan("orders", "LEFT.orders", (5, 7), Scope.TOPIC)
    assert read_plan(moved, "fresh", Scope.TOPIC) == ReadPlan("fresh")
    with pytest.raises(UsageError, match=r"version 2\) has no cutover for LEFT.bills"):
        read_plan(moved, "bills", Scope.TOPIC)


def test_ordered_consumer_refuses_what_cannot_be_read_in_order() -> None:
    at = {"bootstrap.servers": "h:1"}
    with pytest.raises(UsageError, match=r"LEFT.orders cannot be read first"):
        OrderedConsumer(at, "group", "orders", remote="LEFT.orders")
    with pytest.raises(UsageError, match="'lane' is not a scope"):
        OrderedConsumer(at, "group", "orders", scope="lane")
    with drlib.OrderedConsumer(at, "group", "orders") as idle:  # nothing is asked of a broker before the first poll
        assert idle.commit() is drlib.CommitOutcome.ACKED
        assert (idle.held, idle.assigned, idle.waits_for_commit) == (frozenset(), frozenset(), False)
    assert idle.poll(0.01) is None
    assert list(idle) == []
