"""A lab comes up, can be attached to and controlled from elsewhere, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from drlib.lab.lab import Lab


def create_topic(bootstrap: str, topic: str, partitions: int = 1, factor: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})  # held: its futures fail when it is collected
    admin.create_topics([NewTopic(topic, partitions, factor)])[topic].result(timeout=30)


def produce(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0


def read(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [message.value() or b"" for message in consumer.consume(count, timeout=30)]
    finally:
        consumer.close()


def test_both_clusters_serve_through_both_listeners(lab: Lab, fresh_topic: Callable[[str], str]) -> None:
    for cluster in lab.clusters.values():
        topic = fresh_topic("orders")
        create_topic(cluster.bootstrap, topic)
        produce(cluster.link_bootstrap, topic, [b"a", b"b"])
        assert read(cluster.bootstrap, topic, 2) == [b"a", b"b"]
        assert read(cluster.link_bootstrap, topic, 2) == [b"a", b"b"]
    assert lab.clusters["LEFT"].cluster_id != lab.clusters["RIGHT"].cluster_id
