"""The topics of the lab's applications, and creating them.

Rules: creating is idempotent and returns only when every partition's leader answers for its log: it is named in the
metadata a moment before it knows of it itself, and refuses whoever comes in between. `flights-2013` never expires: its
records carry their timestamps of 2013.
Not for: remote topics; the mirror creates those.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from drlib.errors import Unreachable


@dataclass(frozen=True, slots=True)
class TopicSpec:
    name: str
    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)


FLIGHTS = TopicSpec("flights", 6)
FLIGHTS_2013 = TopicSpec("flights-2013", 2, {"retention.ms": "-1"})
FLIGHTS_TX = TopicSpec("flights-tx", 2)

SOURCE_TOPICS = (FLIGHTS, FLIGHTS_2013, FLIGHTS_TX)  # of the cluster the applications start on
STANDBY_TOPICS = (FLIGHTS, FLIGHTS_TX)  # local topics that wait on the other cluster for the pointer to move


def create_topics(
    bootstrap: str, topics: Sequence[TopicSpec], replication_factor: int = 1, deadline_s: float = 30.0
) -> None:
    """Creates what is not there yet and waits for leaders.

    Raises Unreachable after `deadline_s` seconds, KafkaException for what the broker refuses.
    """
    until = time.monotonic() + deadline_s
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wanted = [NewTopic(t.name, t.partitions, replication_factor, config=dict(t.config)) for t in topics]
    for created in admin.create_topics(wanted, request_timeout=deadline_s).values():
        try:
            created.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    while not _are_led(admin, topics):
        if time.monotonic() > until:
            names = ", ".join(topic.name for topic in topics)
            raise Unreachable(f"no leaders for {names}", f"waited {deadline_s:g} s", "Look at the broker's log")
        time.sleep(0.05)


def _are_led(admin: AdminClient, topics: Sequence[TopicSpec]) -> bool:
    try:
        seen = admin.list_topics(timeout=5).topics
        there = all(t.name in seen and len(seen[t.name].partitions) == t.partitions for t in topics)
        if there:
            every = [TopicPartition(t.name, number) for t in topics for number in range(t.partitions)]
            for end in admin.list_offsets(dict.fromkeys(every, OffsetSpec.latest()), request_timeout=5).values():
                end.result()
    except KafkaException:
        return False
    return there
