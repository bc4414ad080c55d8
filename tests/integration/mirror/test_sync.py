"""What is kept in step besides records, between real clusters: topics, their settings, and groups of both protocols."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from deadline import never
from fix_engine import Engine, create_topic, produce, read_all, traffic, wait_for
from testbed_sync import alter, cluster, events, move, position, same_record, wait_event

from drlib import clock
from drlib.config.settings import load_mirror_settings
from drlib.kafka.admin.descriptions import CommittedOffset, ConfigChange, ConfigSource, GroupState, Range
from drlib.kafka.admin.errors import GroupNotEmpty
from drlib.lab.lab import Lab
from drlib.mirror.engine.fencing.lanes import lane_of
from drlib.mirror.mm2.records import Checkpoint
from drlib.mirror.mm2.writer import AS_OF_HEADER, POSITION_HEADER
from drlib.mirror.offsets.translation.translate_groups import translate_groups
from drlib.mirror.status import worker_status as status
from drlib.mirror.status.worker_status import EventLog
from drlib.mirror.sync.configs import ConfigSync, _alter
from drlib.model import Flow, TopicPartition

Fresh = Callable[..., str]


# -- topics and partitions -----------------------------------------------------------------------------------------------


def claims(engine: Engine) -> Mapping[int, tuple[int, int]]:
    """The claim each running lane holds; a lane that was interrupted comes back with another."""
    state = status.read(engine.status_path(0))
    return {lane.lane: (lane.producer_id, lane.epoch) for lane in state.flows[0].lanes if lane.state == "running"}


def named(fresh: Fresh, lanes: int, lane: int) -> str:
    """A topic name whose partition 0 belongs to `lane`."""
    return next(name for name in iter(fresh, "") if lane_of(name, 0, lanes) == lane)


@pytest.mark.long
def test_mirror_topics_created_grown_and_deleted_without_reclaiming_other_lanes(
    engine: Engine, fresh_topic: Fresh
) -> None:
    lanes = 3
    steady, comes, neighbour = (named(fresh_topic, lanes, lane) for lane in (0, 1, 1))
    engine.topics = f"{steady}, {comes}, {neighbour}"
    engine.extra = {"drlib.lanes": str(lanes)}
    create_topic(engine.left, steady, 1)
    create_topic(engine.left, neighbour, 1)
    create_topic(engine.right, f"{engine.source}.{steady}", 2)  # more partitions than the source has: left as it is
    worker = engine.start()
    engine.wait_caught_up(steady, 1)
    wait_for("every lane runs", lambda: len(claims(engine)) == lanes)
    before = claims(engine)
    with traffic(engine.left, steady, partitions=1, count=30):
        create_topic(engine.left, comes, 1)
        produce(engine.left, comes, 100, partitions=1)
        engine.wait_caught_up(comes, 1)
        admin = AdminClient({"bootstrap.servers": engine.left, "log_level": 0})
        admin.create_partitions([NewPartitions(comes, 2)])[comes].result(10)
        wait_for("two partitions", lambda: len(admin.list_topics(comes, timeout=5).topics[comes].partitions) == 2)
        produce(engine.left, comes, 100, partitions=2, first=100)
        engine.wait_caught_up(comes, 2)
        engine.assert_same(comes, 2)
        admin.delete_topics([comes])[comes].result(10)
        detail = wait_event(engine, "SourceTopicDeleted", comes)
        assert f"{engine.source}.{comes} keeps what was copied" in detail
        produce(engine.left, neighbour, 200, partitions=1)
        engine.wait_caught_up(neighbour, 1)
    engine.wait_caught_up(steady, 1)
    after = claims(engine)
    assert after[0] == before[0], "the steady topic's lane was interrupted"
    assert after[1] != before[1]
    wait_for("it is reported once, as deleted", lambda: ("SourceTopicGone", f"{comes}-0") not in events(engine), 20)
    assert engine.stop(worker) == 0, engine.log()
    engine.assert_same(steady, 1)
    engine.assert_same(neighbour, 1)
    assert len(read_all(engine.right, f"{engine.source}.{comes}", 2)[0]) == 150
    with cluster(engine.right) as right:
        assert right.topics([f"{engine.source}.{steady}"])[f"{engine.source}.{steady}"].partitions == 2


def test_mirror_topic_refused_by_target_is_an_event_and_others_are_mirrored(engine: Engine, fresh_topic: Fresh) -> None:
    good = fresh_topic()
    long = f"{good}-{'x' * 249}"[:249]  # its mirror's name is longer than Kafka allows
    small = fresh_topic("small")
    engine.topics = f"{good}, {long}, {small}"
    for topic, partitions in ((good, 1), (long, 1), (small, 3)):
        create_topic(engine.left, topic, partitions)
    create_topic(engine.right, f"{engine.source}.{small}", 1)  # fewer than the source has: it grows
    produce(engine.left, good, 50, partitions=1)
    produce(engine.left, small, 90, partitions=3)
    worker = engine.start()
    engine.wait_caught_up(good, 1)
    engine.wait_caught_up(small, 3)
    assert "longer than the max allowed length" in wait_event(engine, "MirrorTopicRefused", f"{engine.source}.{long}")
    assert engine.stop(worker) == 0, engine.log()
    engine.assert_same(small, 3)


# -- settings --------------------------------------------------------------------------------------------------------------


def own_settings(bootstrap: str, topic: str) -> dict[str, str]:
    with cluster(bootstrap) as here:
        return here.topic_config([topic])[topic]


def test_config_sync_follows_the_source_and_reports_drift_once(engine: Engine) -> None:
    topic, mirror = engine.topics, f"{engine.source}.{engine.topics}"
    create_topic(engine.left, topic, 1, retention_ms="70000", cleanup_policy="compact", min_insync_replicas="1")
    produce(engine.left, topic, 10, partitions=1)
    engine.extra = {"sync.topic.configs.interval.seconds": "1"}
    worker = engine.start()
    engine.wait_caught_up(topic, 1)
    assert own_settings(engine.right, mirror) == {"retention.ms": "70000", "cleanup.policy": "compact"}

    alter(engine.right, mirror, retention_ms="5000", max_message_bytes="4000", min_insync_replicas="1")
    # open for one check only, then correct again: visible as resolved at any later time
    detail = wait_event(engine, "TopicConfigDrift", mirror, resolved=True)
    assert "retention.ms: 5000 -> 70000" in detail
    assert "max.message.bytes: 4000 -> (default)" in detail
    expected = {"retention.ms": "70000", "cleanup.policy": "compact", "min.insync.replicas": "1"}
    assert own_settings(engine.right, mirror) == expected

    alter(engine.left, topic, retention_ms="80000", cleanup_policy=None, segment_ms="90000")
    expected = {"retention.ms": "80000", "segment.ms": "90000", "min.insync.replicas": "1"}
    wait_for("the mirror topic follows", lambda: own_settings(engine.right, mirror) == expected)
    assert engine.stop(worker) == 0, engine.log()
    reported = [e for e in status.read(engine.status_path(0)).events if e.name == "TopicConfigDrift"]
    assert len(reported) == 1, "what changed on the source is not drift"


def test_config_sync_refused_value_does_not_block_others(left: str, fresh_topic: Fresh) -> None:
    topic = fresh_topic()
    create_topic(left, topic, 1)
    good, bad = ConfigChange("retention.ms", None, "5"), ConfigChange("segment.bytes", None, "nonsense")
    with cluster(left) as here:
        ((change, error),) = _alter(here, topic, [good, bad])
        assert change is bad
        assert "segment.bytes" in error.why
        settings = {v.name: v for v in here.topic_settings([topic])[topic]}  # type: ignore[union-attr]
        assert (settings["retention.ms"].value, settings["retention.ms"].source) == ("5", ConfigSource.TOPIC)
        assert settings["segment.bytes"].source is ConfigSource.DEFAULT
        absent = here.topic_settings([fresh_topic("absent"), topic])
        assert len(absent) == 2


async def test_config_sync_topic_deleted_since_the_topics_were_listed_is_no_event(engine: Engine) -> None:
    create_topic(engine.left, engine.topics, 1)
    settings = load_mirror_settings(engine.properties)
    flow, reported = settings.flow(engine.source, engine.target), EventLog()
    topics = [engine.topics, f"{engine.topics}.deleted"]  # the mirror of the first, and both of the second
    source, target = settings.clusters[engine.source], settings.clusters[engine.target]
    await ConfigSync(flow, source, target, reported, lambda: topics).run_once()
    assert reported.snapshot() == ()


# -- groups ----------------------------------------------------------------------------------------------------------------


def consume(bootstrap: str, topic: str, group: str, count: int, protocol: str = "classic", **more: str) -> Consumer:
    """A consumer of partition 0 that has read `count` records more and committed behind them."""
    settings = {key.replace("_", "."): value for key, value in more.items()}
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            **settings,
        }
    )
    consumer.subscribe([topic])
    last = None

    def enough() -> bool:
        nonlocal count, last
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            count, last = count - 1, message
        return count == 0

    wait_for(f"{group} has read", enough)
    consumer.commit(message=last, asynchronous=False)
    return consumer


def wait_same(engine: Engine, group: str) -> None:
    try:
        wait_for(f"{group} follows", lambda: same_record(engine, group), 20)
    except AssertionError as error:
        here, there = engine.topics, f"{engine.source}.{engine.topics}"
        at = position(engine.left, group, here), position(engine.right, group, there)
        raise AssertionError(f"{error}\n{at}\n{events(engine)}\n{events(engine, resolved=True)}") from None


@pytest.fixture(scope="module")
def syncing(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """A worker that syncs groups every second, of every topic that is called synced."""
    tag = uuid.uuid4().hex[:6]
    left, right = lab.clusters["LEFT"].bootstrap, lab.clusters["RIGHT"].bootstrap
    extra = {"sync.group.offsets.enabled": "true", "sync.group.offsets.interval.seconds": "1"}
    root = tmp_path_factory.mktemp("syncing")
    found = Engine(root, left, right, f"SRC{tag}", f"DST{tag}", r"synced\\..*", extra)
    found.start()
    yield found
    found.close()


@pytest.fixture
def synced(syncing: Engine, fresh_topic: Fresh) -> Engine:
    """That worker and a topic of its own, with records on both sides whose offsets differ."""
    mine = replace(syncing, topics=fresh_topic("synced"))
    create_topic(mine.left, mine.topics, 1)
    produce(mine.left, mine.topics, 300, partitions=1)
    mine.wait_caught_up(mine.topics, 1)
    return mine


def test_groups_that_are_gone_on_the_source_are_not_translated_until_they_commit_again(engine: Engine) -> None:
    topic, flow = engine.topics, Flow(engine.source, engine.target)
    leaves, stays, former = (f"{topic}-{name}" for name in ("leaves", "stays", "former"))
    create_topic(engine.left, topic, 1)
    produce(engine.left, topic, 100, partitions=1)
    for group in (leaves, stays):
        move(engine.left, group, topic, 40)
    log = f"{engine.source}.checkpoints.internal"
    create_topic(engine.right, log, 1, cleanup_policy="compact")
    producer = Producer({"bootstrap.servers": engine.right, "log_level": 0})
    mirrored = TopicPartition(f"{engine.source}.{topic}", 0)
    for group, as_of_ms in ((former, 1), (stays, 1), (f"{topic}-lately", clock.now_ms())):
        checkpoint = Checkpoint(group, mirrored, 40, 41)  # of a worker that ran before
        headers = [(POSITION_HEADER, b"40"), (AS_OF_HEADER, str(as_of_ms).encode())]
        producer.produce(log, checkpoint.value(), checkpoint.key(), 0, headers=headers)
    assert producer.flush(10) == 0
    settings = load_mirror_settings(engine.properties)

    def known() -> dict[str, int]:
        """What an emergency moves, as it is without the source."""
        positions = translate_groups(settings, flow, source_alive=False)
        return {item.group.removeprefix(f"{topic}-"): item.source_offset for item in positions}

    worker = engine.start()
    engine.wait_caught_up(topic, 1)
    wait_for("the one of a year ago is gone", lambda: known() == {"leaves": 40, "stays": 40, "lately": 40})
    with cluster(engine.left) as left:
        left.delete_group(leaves)
    wait_for("the one that was deleted is gone", lambda: known() == {"stays": 40, "lately": 40})
    move(engine.left, leaves, topic, 40)
    wait_for("it is back", lambda: known() == {"leaves": 40, "stays": 40, "lately": 40})
    assert engine.stop(worker) == 0, engine.log()


@pytest.mark.long
def test_group_sync_follows_groups_of_both_protocols_without_members(synced: Engine) -> None:
    topic, mirror = synced.topics, f"{synced.source}.{synced.topics}"
    groups = {f"{topic}-{protocol}": protocol for protocol in ("classic", "consumer")}
    reading = [consume(synced.left, topic, *each) for each in ((g, 40, p) for g, p in groups.items())]
    for group in groups:  # live on the source, and not there on the target
        wait_same(synced, group)
        assert position(synced.right, group, mirror) != position(synced.left, group, topic)  # a marker lies between

    members = [consume(synced.right, mirror, *each) for each in ((g, 5, p) for g, p in groups.items())]
    there = {group: position(synced.right, group, mirror) for group in groups}
    with cluster(synced.right) as right:
        assert right.group_states(groups) == dict.fromkeys(groups, GroupState.ACTIVE)
    for group in groups:
        wait_for(
            "its members are reported", lambda g=group: "has members" in events(synced).get(("GroupLive", g), ""), 30
        )
    for consumer in reading:
        consumer.close()
    for group in groups:
        move(synced.left, group, topic, 200)
    # three looks long
    assert never(lambda: any(position(synced.right, g, mirror) != at for g, at in there.items()), 3)
    for member in members:
        member.close()
    for group in groups:
        wait_same(synced, group)

    for group in groups:
        move(synced.left, group, topic, 100)  # an operator sets it back on the source
    for group in groups:
        wait_same(synced, group)
    for group in groups:
        wait_event(synced, "GroupLive", group, resolved=True)


def test_group_sync_commit_by_assigned_consumer_makes_group_live(synced: Engine) -> None:
    topic, mirror = synced.topics, f"{synced.source}.{synced.topics}"
    group = f"{topic}-standalone"
    move(synced.left, group, topic, 50, "from the source")
    wait_same(synced, group)
    with cluster(synced.right) as right:
        assert right.group_offsets(group)[TopicPartition(mirror, 0)].metadata == "from the source"

    standalone = Consumer(
        {"bootstrap.servers": synced.right, "group.id": group, "enable.auto.commit": False, "log_level": 0}
    )
    standalone.assign([ConfluentTopicPartition(mirror, 0, 61)])
    standalone.commit(offsets=[ConfluentTopicPartition(mirror, 0, 61)], asynchronous=False)
    with cluster(synced.right) as right:
        assert right.group_states([group])[group] is GroupState.EMPTY
    detail = wait_event(synced, "GroupLive", group)
    assert "another client moved" in detail
    assert "to 61" in detail
    move(synced.left, group, topic, 200)
    assert never(lambda: position(synced.right, group, mirror) != 61, 3)
    standalone.close()


def test_group_sync_foreign_position_is_never_set_back(synced: Engine) -> None:
    topic, mirror = synced.topics, f"{synced.source}.{synced.topics}"
    group = f"{topic}-ahead"
    move(synced.right, group, mirror, 120)
    move(synced.left, group, topic, 50)
    assert "committed offset 120" in wait_event(synced, "GroupAhead", group)
    assert position(synced.right, group, mirror) == 120
    move(synced.left, group, topic, 150)
    wait_same(synced, group)
    wait_event(synced, "GroupAhead", group, resolved=True)


def test_group_commit_with_members_is_refused_by_the_broker(left: str, fresh_topic: Fresh) -> None:
    topic = fresh_topic()
    create_topic(left, topic, 1)
    produce(left, topic, 10, partitions=1)
    for protocol in ("classic", "consumer"):
        member = consume(left, topic, f"{topic}-{protocol}", 3, protocol)
        with cluster(left) as here:
            with pytest.raises(Exception, match="UNKNOWN_MEMBER_ID"):
                here.commit(f"{topic}-{protocol}", {TopicPartition(topic, 0): CommittedOffset(1)})
            with pytest.raises(GroupNotEmpty):
                here.alter_group_offsets(f"{topic}-{protocol}", {TopicPartition(topic, 0): CommittedOffset(1)})
        assert position(left, f"{topic}-{protocol}", topic) == 3
        member.close()


def test_group_sync_position_beyond_the_mirror_stays_within_the_log(engine: Engine) -> None:
    """A parked partition: the group continues on the source, and stops at the mirrored end on the target."""
    topic, mirror = engine.topics, f"{engine.source}.{engine.topics}"
    engine.extra = {"sync.group.offsets.enabled": "true", "sync.group.offsets.interval.seconds": "1"}
    create_topic(engine.left, topic, 1)
    create_topic(engine.right, mirror, 1, max_message_bytes="20000")
    engine.extra["sync.topic.configs.enabled"] = "false"
    produce(engine.left, topic, 30, partitions=1)
    producer = Producer({"bootstrap.servers": engine.left, "log_level": 0})
    producer.produce(topic, value=b"x" * 50_000, partition=0)
    assert producer.flush(10) == 0
    move(engine.left, f"{topic}-behind", topic, 31)
    engine.start()
    wait_event(engine, "TargetRefused", f"{topic}-0")
    with cluster(engine.right) as right:
        partition = TopicPartition(mirror, 0)
        last = max(r.offset for r in right.read({partition: Range(0, right.log_ends([partition])[partition])}))
    # not the log's end: every claim that retries the partition leaves a marker there
    wait_for("the mirrored end", lambda: position(engine.right, f"{topic}-behind", mirror) == last + 1, 20)
