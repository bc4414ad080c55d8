"""Share consumers of librdkafka for tests: what a share group is given, and how each record is acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from confluent_kafka import AcknowledgeType, Message, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from deadline import Deadline

from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.share_groups import admin
from drlib.kafka.share_groups.names import EARLIEST, RESET

Delivered = dict[bytes, int]
"""Value of a record -> how often it was delivered."""


@contextmanager
def in_group(bootstrap: str, group: str, topic: str) -> Iterator[ShareConsumer]:
    """A member of the share group, which leaves it at the end."""
    consumer = ShareConsumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": "explicit", "log_level": 0}
    )
    consumer.subscribe([topic])
    try:
        yield consumer
    finally:
        consumer.close()


def consume(
    consumer: ShareConsumer,
    acknowledge: Callable[[bytes], AcknowledgeType],
    enough: Callable[[Delivered], bool],
    deadline_s: float = 60.0,
) -> Delivered:
    """Acknowledge what is delivered, as often as it is, until it is enough."""
    seen: Delivered = {}
    deadline = Deadline(deadline_s)
    while not enough(seen):
        assert not deadline.passed, f"not within {deadline.waited_s:.0f} s: {sorted(seen)}"
        got: Sequence[Message] = [message for message in consumer.poll(0.5) if message.error() is None]
        for message in got:
            value = bytes(message.value() or b"")
            seen[value] = seen.get(value, 0) + 1
            consumer.acknowledge(message, acknowledge(value))
        if got:
            assert all(error is None for error in consumer.commit_sync(30).values())
    return seen


def begin_at_earliest(bootstrap: str, group: str) -> None:
    """share.auto.offset.reset = earliest, for a group without a start offset."""
    consumer_groups = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    entry = ConfigEntry(RESET, EARLIEST, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    consumer_groups.incremental_alter_configs([resource])[resource].result(10)


def members_gone(bootstrap: str, group: str) -> bool:
    """Has the share group no member?"""
    found = admin.listed(ClusterSettings("CLUSTER", (bootstrap,)), 10.0).groups.get(group)
    return found is None or found.state.upper() == "EMPTY"


def write(bootstrap: str, topic: str, values: Sequence[bytes], *, aborted: Sequence[bytes] = ()) -> None:
    """Write to partition 0: first a transaction that is aborted, which no mirror copies, then the records."""
    if aborted:
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"aborts-{topic}", "log_level": 0})
        producer.init_transactions(30)
        producer.begin_transaction()
        for value in aborted:
            producer.produce(topic, value=value, partition=0)
        producer.flush(30)
        producer.abort_transaction(30)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for value in values:
        producer.produce(topic, value=value, partition=0)
    assert producer.flush(30) == 0
