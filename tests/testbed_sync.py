"""What tests of synchronisation change, and how they wait for it to arrive."""

from __future__ import annotations

from contextlib import suppress

from fix_engine import Engine, wait_for

from drlib.errors import Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset, ConfigChange, Range
from drlib.kafka.admin.errors import ClusterRefused
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.status import worker_status as status
from drlib.model import TopicPartition


def cluster(bootstrap: str) -> Cluster:
    return Cluster(ClusterSettings("ONE", (bootstrap,)))


def events(engine: Engine, *, resolved: bool = False) -> dict[tuple[str, str], str]:
    """Open events of the last worker, or the resolved ones: (name, entity) -> what it says."""
    with suppress(UsageError):
        state = status.read(engine.status_path(len(engine.processes) - 1))
        reported = [e for e in state.events if (e.resolved_ms is not None) == resolved]
        return {(e.name, entity): e.detail for e in reported for entity in e.names}
    return {}


def wait_event(engine: Engine, name: str, entity: str, *, resolved: bool = False) -> str:
    try:
        wait_for(f"{name} of {entity}", lambda: (name, entity) in events(engine, resolved=resolved), 30)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{events(engine)}\n{events(engine, resolved=True)}\n{engine.log()}") from None
    return events(engine, resolved=resolved)[name, entity]


def alter(bootstrap: str, topic: str, **settings: str | None) -> None:
    with cluster(bootstrap) as here:
        here.alter_topic_settings(topic, [ConfigChange(k.replace("_", "."), None, v) for k, v in settings.items()])


def position(bootstrap: str, group: str, topic: str) -> int | None:
    with cluster(bootstrap) as here:
        found = here.group_offsets(group).get(TopicPartition(topic, 0))
        return found.offset if found else None


def move(bootstrap: str, group: str, topic: str, offset: int, metadata: str = "") -> None:
    """What kafka-consumer-groups.sh --reset-offsets does, or a consumer that assigns partitions itself."""

    def moved() -> bool:
        try:
            here.commit(group, {TopicPartition(topic, 0): CommittedOffset(offset, metadata)})
        except Unreachable:  # the first group of a cluster makes it load its coordinators
            return False
        except ClusterRefused as error:
            if error.code != "NOT_COORDINATOR":
                raise
            return False
        return True

    with cluster(bootstrap) as here:
        wait_for(f"{group} is moved", moved, 20)


def value_at(bootstrap: str, topic: str, offset: int) -> bytes | None:
    partition = TopicPartition(topic, 0)
    with cluster(bootstrap) as here:
        return next(r.value for r in here.read({partition: Range(offset, offset + 1)}))


def same_record(engine: Engine, group: str) -> bool:
    """Do both sides resume `group` at the same record?"""
    topic, mirror = engine.topics, f"{engine.source}.{engine.topics}"
    here, there = position(engine.left, group, topic), position(engine.right, group, mirror)
    if here is None or there is None:
        return False
    return value_at(engine.left, topic, here) == value_at(engine.right, mirror, there)
