"""Readers of committed records, right after a commit: the markers of a transaction follow its end."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Producer

from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Isolation
from drlib.kafka.admin.visible import wait_visible
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import TopicPartition

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
