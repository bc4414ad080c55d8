"""Readers of committed records, right after a commit: the markers of a transaction follow its end. Transactions that may last
seconds only."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Producer
from fix_lab import LabFactory

from drlib.client.pointer import Pointer
from drlib.client.pointer_topic import publish, read_topic
from drlib.drill.plan.states import DrillState
from drlib.drill.run.lease import Lease, read_record
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Isolation
from drlib.kafka.admin.transactions import transactional_producer, wait_visible
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.offsets.unreplicated import settle
from drlib.model import Flow, TopicPartition

TRANSACTIONS = 60  # without waiting, every third of them is missed on an idle machine


def transactional(bootstrap: str, name: str) -> Producer:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(30)
    return producer


def write(producer: Producer, partition: TopicPartition) -> int:
    """The offset of one record of a transaction that is left open."""
    offsets: list[int] = []
    producer.begin_transaction()
    producer.produce(
        partition.topic,
        b"v",
        partition=partition.partition,
        on_delivery=lambda _, message: offsets.append(message.offset() or 0),
    )
    assert producer.flush(30) == 0
    return offsets[0]


def test_wait_visible_ends_behind_the_markers(left: str, fresh_topic: Callable[[str], str]) -> None:
    partition = TopicPartition(fresh_topic("visible"), 0)
    with Cluster(ClusterSettings("LEFT", (left,))) as cluster:
        cluster.create_topic(partition.topic, 1, 1)
        producer = transactional(left, partition.topic)
        for _ in range(TRANSACTIONS):
            offset = write(producer, partition)
            producer.commit_transaction(30)
            assert wait_visible(cluster, {partition: offset})
            assert cluster.log_ends([partition], Isolation.READ_COMMITTED) == {partition: offset + 2}


def test_wait_visible_ends_where_another_transaction_is_open(left: str, fresh_topic: Callable[[str], str]) -> None:
    partition = TopicPartition(fresh_topic("held"), 0)
    with Cluster(ClusterSettings("LEFT", (left,))) as cluster:
        cluster.create_topic(partition.topic, 1, 1)
        other, ours = (transactional(left, f"{partition.topic}.{name}") for name in ("other", "ours"))
        write(other, partition)
        offset = write(ours, partition)
        ours.commit_transaction(30)
        assert not wait_visible(cluster, {partition: offset}, 0.5)
        other.abort_transaction(30)
        assert wait_visible(cluster, {partition: offset}, 30.0)


def test_cluster_whose_transactions_may_last_seconds_only_is_written_to(lab_factory: LabFactory) -> None:
    """Every writer asked for a longer one, and was refused: no pointer was moved, no run begun, and nothing settled."""
    target = lab_factory(("BRIEF",), extra={"transaction.max.timeout.ms": "3000"}).clusters["BRIEF"].settings()
    publish([target], pointer := Pointer(1, "BRIEF", ",".join(target.bootstrap_servers)))
    assert read_topic(target, "drlib.active.internal", 10.0).pointers == {"*": pointer}
    flow = Flow("A", "BRIEF")
    with Lease(target, flow, "run") as lease, Cluster(target) as cluster:
        lease.write(DrillState.RUNNING)
        assert read_record(cluster, flow).state is DrillState.RUNNING
    with Cluster(target) as cluster:
        cluster.create_topic("written", 1, 1)
    producer, seconds = transactional_producer(target, {"transactional.id": "settling"}, settle.OPEN_MS, 30.0)
    assert 1 <= seconds <= 3
    producer.begin_transaction()
    producer.produce("written", b"v")
    producer.commit_transaction(30)
