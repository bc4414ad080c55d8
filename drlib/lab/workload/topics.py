"""Topics of a lab: created, written to, their log ends, and positions of groups in them.

Rules: `create_topics` is idempotent and returns only when every partition's leader answers ListOffsets: a broker lists a new
topic in its metadata a moment before it serves it, and refuses requests in between. Records are written by an idempotent
producer and acknowledged when its block ends. `flights-2013` never expires: its records carry timestamps of 2013.
Not for: remote topics; the mirror creates those.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from drlib import model
from drlib.errors import Unreachable
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import librdkafka
from drlib.kafka.admin.descriptions import CommittedOffset
from drlib.kafka.admin.errors import as_drlib_error, code_of
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.brokers.cluster import Cluster as LabCluster
from drlib.lab.connection import Where, connection

_FLUSH_S = 60.0


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
    where: Where, topics: Sequence[TopicSpec], replication_factor: int = -1, deadline_s: float = 30.0
) -> None:
    """Create the topics that do not exist yet, with the cluster's default replication factor, and wait for their leaders.

    Raises `Unreachable` after `deadline_s` seconds, `ClusterRefused` for a topic that the broker refuses.
    """
    until = time.monotonic() + deadline_s
    admin = AdminClient({**connection(where), "log_level": 0})
    wanted = [NewTopic(t.name, t.partitions, replication_factor, config=dict(t.config)) for t in topics]
    for name, created in admin.create_topics(wanted, request_timeout=deadline_s).items():
        try:
            created.result()
        except KafkaException as error:
            if code_of(error) != KafkaError.TOPIC_ALREADY_EXISTS:
                settings = ClusterSettings("the lab", tuple(where.split(","))) if isinstance(where, str) else where
                raise as_drlib_error(error, settings, f"creating topic {name}") from error
    while not _are_led(admin, topics):
        if time.monotonic() > until:
            names = ", ".join(topic.name for topic in topics)
            raise Unreachable(f"topics without a leader: {names}", f"waited {deadline_s:g} s", "Read the broker's log")
        time.sleep(0.05)


def partitions_of(topic: TopicSpec) -> list[model.TopicPartition]:
    return [model.TopicPartition(topic.name, number) for number in range(topic.partitions)]


def log_ends(cluster: LabCluster, topics: Iterable[str], timeout_s: float = 15.0) -> dict[model.TopicPartition, int]:
    """The log end offset of each partition of those `topics` that exist, in order. Raises `Unreachable`."""
    with Cluster(cluster.settings(), timeout_s=timeout_s) as handle:
        return existing_log_ends(handle, topics)


def existing_log_ends(handle: Cluster, topics: Iterable[str]) -> dict[model.TopicPartition, int]:
    """`log_ends` over an open handle."""
    counts = {name: topic.partitions for name, topic in handle.topics(topics).items()}
    partitions = [model.TopicPartition(name, number) for name in sorted(counts) for number in range(counts[name])]
    ends = handle.log_ends(partitions)
    return {partition: ends[partition] for partition in partitions}


def place_group(cluster: LabCluster, group: str, positions: Mapping[model.TopicPartition, int]) -> bool:
    """Commit `positions` for `group`; True, so that it can be waited for: a broker that just started has no coordinator.

    Raises `GroupNotEmpty`, `Unreachable`.
    """
    with Cluster(cluster.settings()) as handle:
        handle.alter_group_offsets(group, {at: CommittedOffset(offset) for at, offset in positions.items()})
    return True


@contextmanager
def acknowledged(cluster: LabCluster, **config: str | int | bool) -> Iterator[Producer]:
    """An idempotent producer; every record produced in the block is acknowledged when the block ends.

    Raises `Unreachable` when one is not within a minute.
    """
    idempotent = {"enable.idempotence": True, "linger.ms": 5, "log_level": 0}
    producer = Producer({**librdkafka(cluster.settings()), **idempotent, **config})
    yield producer
    if left := producer.flush(_FLUSH_S):
        raise Unreachable(
            f"{left} records were not acknowledged",
            f"{cluster.alias} did not answer for {_FLUSH_S:g} s",
            f"Read {cluster.brokers[0].log}",
        )


def _are_led(admin: AdminClient, topics: Sequence[TopicSpec]) -> bool:
    try:
        existing = admin.list_topics(timeout=5).topics
        complete = all(t.name in existing and len(existing[t.name].partitions) == t.partitions for t in topics)
        if complete:
            every = [TopicPartition(t.name, number) for t in topics for number in range(t.partitions)]
            for end in admin.list_offsets(dict.fromkeys(every, OffsetSpec.latest()), request_timeout=5).values():
                end.result()
    except KafkaException:
        return False
    return complete
