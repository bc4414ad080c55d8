"""Reading a remote topic before the local one, on a real cluster: control records, rebalances, a crash."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import AdminClient
from deadline import Deadline
from testbed_applications import log_ends, set_positions, wait_until

from drlib.client.ordered_member import CommitOutcome, OrderedMember
from drlib.client.read_plan import ReadPlan
from drlib.kafka.admin.descriptions import Record
from drlib.lab.workload.topics import TopicSpec, create_topics
from drlib.model import TopicPartition

Fresh = Callable[[str], str]
PARTITIONS = 3


def write(bootstrap: str, topic: str, values: Iterable[str]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for number, value in enumerate(values):
        producer.produce(topic, value=value, partition=number % PARTITIONS)
    assert producer.flush(10) == 0


def end_with_control_records(bootstrap: str, topic: str) -> None:
    """One transaction that commits a record and one that aborts: every log ends in markers no consumer sees."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"markers-{topic}"})
    producer.init_transactions(20)
    for last in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            producer.produce(
                topic, value="committed" if last == producer.commit_transaction else "x", partition=partition
            )
        producer.flush(10)
        last(20)


def prepare(right: str, fresh_topic: Fresh, records: int) -> tuple[str, ReadPlan]:
    local = fresh_topic("flights")
    remote = f"LEFT.{local}"
    create_topics(right, [TopicSpec(local, PARTITIONS), TopicSpec(remote, PARTITIONS)])
    write(right, remote, [f"r{n}" for n in range(records)])
    end_with_control_records(right, remote)
    write(right, local, [f"l{n}" for n in range(records)])
    cutover = log_ends(right, remote, PARTITIONS)
    assert cutover == tuple(records // PARTITIONS + 4 for _ in range(PARTITIONS))
    return fresh_topic("group"), ReadPlan(local, remote, cutover)


def read(consumers: list[OrderedMember], wanted: int, deadline_s: float = 30.0) -> list[Record]:
    deadline = Deadline(deadline_s)
    records: list[Record] = []
    while len(records) < wanted:
        assert not deadline.passed, f"{len(records)} of {wanted} records"
        for consumer in consumers:
            batch = consumer.poll()
            if batch is not None and consumer.commit(batch) is CommitOutcome.ACKED:
                records += batch.records
    return records


def assigned(bootstrap: str, group: str) -> int:
    """How many partitions the group has given to members."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    described = admin.describe_consumer_groups([group])[group].result(10)
    return sum(len(member.assignment.topic_partitions) for member in described.members if member.assignment)


def assert_remote_first(records: list[Record], plan: ReadPlan) -> None:
    for partition in range(PARTITIONS):
        topics = [r.partition.topic for r in records if r.partition.partition == partition]
        firsts = topics.index(plan.local)
        assert set(topics[:firsts]) == {plan.remote}
        assert set(topics[firsts:]) == {plan.local}


def test_local_topic_opens_after_control_records(right: str, fresh_topic: Fresh) -> None:
    group, plan = prepare(right, fresh_topic, 300)
    with OrderedMember({"bootstrap.servers": right}, group, plan, max_batch=40) as consumer:
        records = read([consumer], 603)
        assert consumer.held == frozenset()
        assert len(consumer.assigned) == 6
        assert_remote_first(records, plan)
        assert len({(r.partition, r.offset) for r in records}) == 603
        remote = {TopicPartition(str(plan.remote), p) for p in range(PARTITIONS)}
        assert set(consumer.committed(remote).values()) == set(plan.cutover)


def test_member_starts_at_the_committed_offsets(right: str, fresh_topic: Fresh) -> None:
    group, plan = prepare(right, fresh_topic, 30)
    positions = {0: plan.cutover[0], 1: plan.cutover[1] - 4, 2: 7}
    set_positions(right, group, str(plan.remote), positions)
    with OrderedMember({"bootstrap.servers": right}, group, plan) as consumer:
        records = read([consumer], 30 + 1 + 3 + 1)
    remote = sorted((r.partition.partition, r.offset) for r in records if r.partition.topic == plan.remote)
    assert remote == [(1, 10), (2, 7), (2, 8), (2, 9), (2, 10)]


def test_rebalance_repeats_no_record_and_keeps_order(right: str, fresh_topic: Fresh) -> None:
    group, plan = prepare(right, fresh_topic, 6000)
    everything = 2 * 6000 + PARTITIONS
    connection = {"bootstrap.servers": right, "heartbeat.interval.ms": "200"}
    with contextlib.ExitStack() as members:
        first = members.enter_context(OrderedMember(connection, group, plan, max_batch=3))
        records = read([first], 100)
        joined = len(records)
        # made only now: a member joins when it is made, and holds everyone up from then on until it is polled
        second = members.enter_context(OrderedMember(connection, group, plan, max_batch=3))
        while not (first.assigned and second.assigned):
            records += read([first, second], 1)
        both = len(records)
        assert joined <= both < everything
        records += read([first, second], 1000)
        assert first.held | second.held
        first.close()
        records += read([second], everything - len(records), 60.0)
    assert len(records) == everything
    assert len({(r.partition, r.offset) for r in records}) == everything
    assert_remote_first(records, plan)


def test_partition_opened_by_another_member_is_read_when_reassigned(right: str, fresh_topic: Fresh) -> None:
    group, plan = prepare(right, fresh_topic, 300)
    connection = {"bootstrap.servers": right, "heartbeat.interval.ms": "200"}
    with OrderedMember(connection, group, plan, max_batch=5) as first:
        wait_until("all local partitions are held", lambda: first.poll() is not None and len(first.held) == PARTITIONS)
        with OrderedMember(connection, group, plan, max_batch=5) as second:

            def joined() -> bool:
                first.serve()
                second.serve()
                return bool(second.held) and len(first.held) < PARTITIONS

            wait_until("the partitions are shared", joined)
            records: list[Record] = []
            while second.held:
                records += read([first, second], 1)
            opened = {p for p in second.assigned if p.topic == plan.local}
            assert opened
        records += read([first], 603 - len(records))
    assert {r.partition for r in records if r.offset == 99} > opened
    assert len(records) == len({(r.partition, r.offset) for r in records}) == 603


def test_member_closes_quietly_before_the_first_poll(
    right: str, fresh_topic: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, plan = prepare(right, fresh_topic, 30)
    connection = {"bootstrap.servers": right}
    in_threads: list[object] = []
    monkeypatch.setattr(threading, "excepthook", in_threads.append)
    unpolled = OrderedMember(connection, group, plan)
    wait_until("the group assigned its partitions", lambda: assigned(right, group) == 2 * PARTITIONS)
    assert unpolled.close()  # the assignment is served now, by a client that has no answers to give any more
    assert in_threads == []
    with OrderedMember(connection, group, plan) as later:
        assert len(read([later], 63)) == 63


def test_rebalance_with_stashed_records_reads_them_once(
    right: str, fresh_topic: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, plan = prepare(right, fresh_topic, 300)
    with OrderedMember({"bootstrap.servers": right}, group, plan, max_batch=3) as consumer:
        records: list[Record] = []
        while not consumer._stash:
            records += read([consumer], 1)
        receive = consumer._receive

        def rebalance_then_receive(most: int, seconds: float) -> list[Message]:
            everything = [Partition(p.topic, p.partition) for p in consumer.assigned]
            monkeypatch.setattr(consumer, "_receive", receive)
            consumer._on_revoke(consumer._consumer, everything)
            consumer._on_assign(consumer._consumer, everything)
            return receive(most, seconds)

        monkeypatch.setattr(consumer, "_receive", rebalance_then_receive)
        records += read([consumer], 603 - len(records))
    assert len(records) == len({(r.partition, r.offset) for r in records}) == 603
    assert_remote_first(records, plan)


def test_uncommitted_records_are_delivered_again(right: str, fresh_topic: Fresh) -> None:
    group, plan = prepare(right, fresh_topic, 30)
    with OrderedMember({"bootstrap.servers": right}, group, plan, max_batch=10) as consumer:
        deadline = Deadline(20)
        polled = None
        while polled is None and not deadline.passed:
            polled = consumer.poll()
        assert polled is not None
        assert polled.records
    with OrderedMember({"bootstrap.servers": right}, group, plan, max_batch=10) as again:
        records = read([again], 63)
    assert {(r.partition, r.offset) for r in polled.records} <= {(r.partition, r.offset) for r in records}


def test_refused_commit_rewinds_to_the_start_of_the_batch(right: str, fresh_topic: Fresh) -> None:
    group, plan = prepare(right, fresh_topic, 300)
    with OrderedMember({"bootstrap.servers": right}, group, plan, max_batch=20) as consumer:
        records = read([consumer], 100)
        batch = None
        while batch is None:
            batch = consumer.poll()
        # the refusal a member meets when the group has moved on; what follows is the real consumer's own doing
        consumer.rewind(batch)
        records += read([consumer], 603 - len(records))
    assert len(records) == len({(r.partition, r.offset) for r in records}) == 603
    for partition in {r.partition for r in records}:
        offsets = [r.offset for r in records if r.partition == partition]
        assert offsets == sorted(offsets)
    assert_remote_first(records, plan)


def test_records_below_the_committed_offset_are_committed_where_they_were_read(right: str, fresh_topic: Fresh) -> None:
    """A topic that was created again under its name begins at 0: the group's old offset would skip its records later."""
    group, plan = prepare(right, fresh_topic, 30)
    set_positions(right, group, str(plan.remote), dict.fromkeys(range(PARTITIONS), 500))
    with OrderedMember({"bootstrap.servers": right}, group, plan, max_batch=5) as consumer:
        read([consumer], 2 * 30 + PARTITIONS)
        remote = {TopicPartition(str(plan.remote), p) for p in range(PARTITIONS)}
        committed = consumer.committed(remote)
    last_record = 30 // PARTITIONS + 1
    assert all(
        last_record <= committed[TopicPartition(str(plan.remote), p)] <= plan.cutover[p] for p in range(PARTITIONS)
    )
