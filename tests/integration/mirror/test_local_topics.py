"""Topics that applications write to are created on the target; with flows in both directions nothing returns or is lost."""

from __future__ import annotations

from collections.abc import Callable

from fix_engine import Engine, create_topic, produce, read_all, wait_for
from testbed_sync import cluster, wait_event

from drlib.kafka.admin.quotas import Entity, producer_quotas, set_producer_quotas
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import TopicPartition

Fresh = Callable[..., str]


def ends(bootstrap: str, topic: str, partitions: int) -> int:
    """Offsets of a topic that are used; -1 while it does not exist."""
    with cluster(bootstrap) as here:
        if topic not in here.topics([topic]):
            return -1
        return sum(here.log_ends(TopicPartition(topic, n) for n in range(partitions)).values())


def named(bootstrap: str, text: str) -> set[str]:
    with cluster(bootstrap) as here:
        return {name for name in here.topics(in_sight=True) if text in name}


def test_local_topics_are_created_once_and_flows_in_both_directions_copy_them_once(
    engine: Engine, fresh_topic: Fresh
) -> None:
    new, old = fresh_topic("orders"), fresh_topic("bills")
    engine.topics = f"{new}, {old}"
    engine.extra = {
        f"{engine.target}->{engine.source}.enabled": "true",
        "drlib.sync.local.topics.enabled": "true",
    }
    create_topic(engine.left, new, 2, retention_ms="7200000", min_insync_replicas="1")
    create_topic(engine.left, old, 2, retention_ms="7200000")
    create_topic(engine.right, old, 3, retention_ms="3600000")
    produce(engine.left, new, 50, partitions=2)
    engine.start()
    mirror, back = f"{engine.source}.{new}", f"{engine.target}.{new}"
    wait_for("the local topic exists", lambda: ends(engine.right, new, 2) == 0)
    wait_for("the flow back has its mirror", lambda: ends(engine.left, back, 2) >= 0)
    produce(engine.right, new, 30, partitions=2)  # as applications do after a failover
    produce(engine.left, new, 40, partitions=2, first=50)
    wait_for("both arrive", lambda: count(engine.right, mirror) == 90 and count(engine.left, back) == 30)
    assert count(engine.right, new) == 30, "what the mirror copies has reached the producers' topic"
    assert count(engine.left, new) == 90
    with cluster(engine.right) as right:
        config = right.topic_config([new, old])
        assert right.topics([old])[old].partitions == 3, "a topic that existed was changed"
    assert config[new]["retention.ms"] == "7200000"
    assert config[old]["retention.ms"] == "3600000"
    for name in (new, old):  # three more refreshes: what would go round has gone round by then
        assert named(engine.right, name) == {name, f"{engine.source}.{name}"}
        assert named(engine.left, name) == {name, f"{engine.target}.{name}"}


def count(bootstrap: str, topic: str) -> int:
    return sum(map(len, read_all(bootstrap, topic, 2).values()))


def test_local_topic_refused_by_the_target_is_an_event(engine: Engine, fresh_topic: Fresh) -> None:
    refused, other = fresh_topic("orders"), fresh_topic("bills")
    engine.topics = f"{refused}, {other}"
    engine.extra = {"drlib.sync.local.topics.enabled": "true"}
    create_topic(engine.right, refused.replace(".", "_"), 1)  # `.` and `_` collide in names of metrics
    for name in (refused, other):
        create_topic(engine.left, name, 1)
    engine.start()
    assert "collides" in wait_event(engine, "LocalTopicRefused", refused)
    wait_for("the other one is created", lambda: ends(engine.right, other, 1) == 0)
    with cluster(engine.right) as right:
        right.delete_topic(refused.replace(".", "_"))
    wait_event(engine, "LocalTopicRefused", refused, resolved=True)
    wait_for("it is created when nothing is in its way", lambda: ends(engine.right, refused, 1) == 0)


def test_quotas_of_producers_are_copied_where_the_target_lacks_them_and_never_lowered(
    engine: Engine, fresh_topic: Fresh
) -> None:
    left, right = (ClusterSettings(name, (at,)) for name, at in (("LEFT", engine.left), ("RIGHT", engine.right)))
    topic = fresh_topic("orders")
    new, higher = (("client-id", f"{topic}.new"),), (("client-id", f"{topic}.higher"),)
    set_producer_quotas(left, {new: 5e6, higher: 5e6})
    set_producer_quotas(right, {higher: 9e6})
    engine.topics = topic
    engine.extra = {"drlib.sync.quotas.enabled": "true"}
    create_topic(engine.left, topic, 1)
    engine.start()
    wait_for("the quota is there", lambda: limits(right, new, higher) == {new: 5e6, higher: 9e6})
    for cluster_settings in (left, right):
        set_producer_quotas(cluster_settings, {new: None, higher: None})


def limits(settings: ClusterSettings, *entities: Entity) -> dict[Entity, float]:
    return {quota.entity: quota.bytes_per_s for quota in producer_quotas(settings) if quota.entity in entities}
