"""The handle on one cluster, against a real broker."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from uuid import UUID

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from deadline import Deadline
from fix_engine import wait_for, wait_for_markers
from testbed_quotas import set_quotas

from drlib.errors import DrlibError, Unreachable
from drlib.kafka.admin import cluster as admin
from drlib.kafka.admin import group_offsets
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import blocking
from drlib.kafka.admin.descriptions import CommittedOffset, Isolation, NewTopicSpec, Range
from drlib.kafka.admin.errors import ClusterRefused, GroupNotEmpty, OffsetsGone
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.lab import Lab
from drlib.lab.ports import free_ports
from drlib.mirror.mm2 import consumer_offsets
from drlib.model import TopicPartition

Fresh = Callable[[str], str]
OFFSETS = "__consumer_offsets"


@pytest.fixture
def cluster(lab: Lab) -> Iterator[Cluster]:
    with Cluster(ClusterSettings("LEFT", tuple(lab.clusters["LEFT"].bootstrap.split(",")))) as handle:
        yield handle


def produce(bootstrap: str, topic: str, *values: bytes | None, partition: int = 0, **config: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, **config})
    for value in values:
        producer.produce(topic, value, b"k", partition, timestamp=1700000000000, headers=[("h", b"1"), ("n", None)])
    assert producer.flush(30) == 0


@contextmanager
def member(bootstrap: str, group: str, topic: str, **config: str) -> Iterator[None]:
    """A live consumer of `group` that has partitions."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", **config})
    try:
        consumer.subscribe([topic])
        deadline = Deadline(60)
        while not consumer.assignment():
            assert not deadline.passed, "the consumer was never assigned anything"
            consumer.poll(0.1)
        yield
    finally:
        consumer.close()


def test_cluster_describes_itself_and_its_topics(cluster: Cluster, lab: Lab, fresh_topic: Fresh) -> None:
    name = fresh_topic("orders")
    assert cluster.cluster_id() == lab.clusters["LEFT"].cluster_id
    assert cluster.create_topic(name, 3, 1, {"retention.ms": "86400000", "cleanup.policy": "compact"})
    assert not cluster.create_topic(name, 3, 1)
    described = cluster.topics()[name]
    assert (described.name, described.partitions, described.internal) == (name, 3, False)
    assert isinstance(described.topic_id, UUID)
    assert described.topic_id.int != 0
    assert cluster.topics([name, fresh_topic("absent")]) == {name: described}
    assert cluster.topic_config([name]) == {name: {"retention.ms": "86400000", "cleanup.policy": "compact"}}


def test_create_topics_in_few_requests_with_one_answer_each(
    lab: Lab, fresh_topic: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admin, "AT_ONCE", 4)
    names = [fresh_topic("many") for _ in range(6)]
    there, wrong = names[2], names[4]
    with Cluster(ClusterSettings("LEFT", tuple(lab.clusters["LEFT"].bootstrap.split(",")))) as handle:
        handle.create_topic(there, 1, 1)
        wanted = [NewTopicSpec(n, 3, 1, {"retention.ms": "no number" if n == wrong else "86400000"}) for n in names]
        answers = handle.create_topics(wanted)
        assert list(answers) == names
        refusal = answers.pop(wrong)
        assert isinstance(refusal, ClusterRefused)
        assert refusal.code == "INVALID_CONFIG"
        assert answers == {n: n != there for n in names if n != wrong}
        made = [n for n, new in answers.items() if new]
        wait_for("brokers know all of them", lambda: len(handle.topics(made)) == len(made))
        assert {t.partitions for t in handle.topics(made).values()} == {3}
        assert handle.topic_config(made) == {n: {"retention.ms": "86400000"} for n in made}
        assert wrong not in handle.topics()


def test_create_partitions_grows_a_topic(cluster: Cluster, fresh_topic: Fresh) -> None:
    name = fresh_topic("grow")
    cluster.create_topic(name, 1, 1)
    cluster.create_partitions(name, 3)
    assert cluster.topics([name])[name].partitions == 3
    with pytest.raises(ClusterRefused, match="INVALID_PARTITIONS"):
        cluster.create_partitions(name, 2)


def test_topic_ids_are_those_of_kafka(cluster: Cluster, left: str, fresh_topic: Fresh) -> None:
    from kafka.admin import KafkaAdminClient  # a second implementation as a witness

    names = [fresh_topic("id") for _ in range(5)]
    for name in names:
        cluster.create_topic(name, 1, 1)
    witness = KafkaAdminClient(bootstrap_servers=left)
    try:
        seen = {topic["name"]: topic["topic_id"] for topic in witness.describe_topics(names)}
    finally:
        witness.close()
    ours = cluster.topics(names)
    assert {name: str(ours[name].topic_id) for name in names} == {name: str(seen[name]) for name in names}


def test_topic_that_may_have_fewer_replicas_is_created_where_brokers_are_down(
    cluster: Cluster, fresh_topic: Fresh
) -> None:
    """As that of the lease or the pointer, in a failover to a cluster of which too few brokers live for its default."""
    topic = fresh_topic("fewer")
    assert cluster.create_topic(topic, 2, 3, {"cleanup.policy": "compact"}, or_fewer=True)
    assert cluster.topics([topic])[topic].partitions == 2
    assert cluster.topic_config([topic])[topic]["cleanup.policy"] == "compact"
    assert not cluster.create_topic(topic, 2, 3, or_fewer=True), "it is there"


def test_refused_request_names_the_reason(cluster: Cluster, fresh_topic: Fresh) -> None:
    with pytest.raises(ClusterRefused) as refused:
        cluster.create_topic(fresh_topic("wide"), 1, 7)
    assert refused.value.code == "INVALID_REPLICATION_FACTOR"
    assert "LEFT" in refused.value.what
    with pytest.raises(ClusterRefused) as refused:
        cluster.topic_config([fresh_topic("absent")])
    assert refused.value.code == "UNKNOWN_TOPIC_OR_PART"


def test_log_starts_and_log_ends(cluster: Cluster, left: str, fresh_topic: Fresh) -> None:
    name = fresh_topic("log")
    cluster.create_topic(name, 2, 1)
    produce(left, name, b"a", b"b", b"c", partition=1)
    both = [TopicPartition(name, 0), TopicPartition(name, 1)]
    assert cluster.log_starts(both) == {both[0]: 0, both[1]: 0}
    assert cluster.log_ends(both) == {both[0]: 0, both[1]: 3}
    assert cluster.log_ends([]) == {}


def test_read_committed_stops_at_an_open_transaction(cluster: Cluster, left: str, fresh_topic: Fresh) -> None:
    name = fresh_topic("tx")
    cluster.create_topic(name, 1, 1)
    partition = TopicPartition(name, 0)
    produce(left, name, b"before")
    producer = Producer({"bootstrap.servers": left, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(name, b"inside", partition=0)
    assert producer.flush(30) == 0
    produce(left, name, b"after")

    def visible(isolation: Isolation) -> list[bytes | None]:
        return [record.value for record in cluster.read({partition: Range(0, 100)}, isolation)]

    assert cluster.log_ends([partition], Isolation.READ_COMMITTED) == {partition: 1}
    assert cluster.log_ends([partition]) == {partition: 3}
    assert visible(Isolation.READ_COMMITTED) == [b"before"]
    assert visible(Isolation.READ_UNCOMMITTED) == [b"before", b"inside", b"after"]
    producer.abort_transaction(30)
    wait_for_markers(left, name, 1)
    assert cluster.log_ends([partition], Isolation.READ_COMMITTED) == {partition: 4}
    assert visible(Isolation.READ_COMMITTED) == [b"before", b"after"]


def test_read_returns_exactly_the_range(cluster: Cluster, left: str, fresh_topic: Fresh) -> None:
    name = fresh_topic("read")
    cluster.create_topic(name, 2, 1)
    produce(left, name, *(str(i).encode() for i in range(3000)), partition=0)
    produce(left, name, b"x", None, partition=1)
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)
    records = list(cluster.read({first: Range(10, 2500), second: Range(0, 2)}))
    assert [r.offset for r in records if r.partition == first] == list(range(10, 2500))
    one, tombstone = [r for r in records if r.partition == second]
    assert (one.key, one.value, one.timestamp_ms) == (b"k", b"x", 1700000000000)
    assert one.headers == (("h", b"1"), ("n", None))
    assert tombstone.value is None
    assert list(cluster.read({first: Range(5, 5)})) == []
    assert [r.offset for r in cluster.read({first: Range(2998, 9999)})] == [2998, 2999]


def test_without_records_are_stretches_of_markers_and_aborted_records(
    cluster: Cluster, left: str, fresh_topic: Fresh
) -> None:
    name = fresh_topic("markers")
    cluster.create_topic(name, 2, 1)
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)
    produce(left, name, b"0", partition=0)
    producer = Producer({"bootstrap.servers": left, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(name, b"1", partition=0)
    assert producer.flush(30) == 0
    producer.abort_transaction(30)
    wait_for_markers(left, name, 2)
    produce(left, name, b"3", partition=0)
    asked = [(first, Range(start, end)) for start, end in ((1, 3), (2, 3), (0, 3), (1, 4), (1, 1), (3, 5))]
    assert cluster.without_records(asked) == {(first, Range(1, 3)), (first, Range(2, 3))}
    assert cluster.without_records([(second, Range(0, 1))]) == frozenset()  # it is past the end
    assert cluster.without_records([(TopicPartition(fresh_topic("absent"), 0), Range(0, 1))]) == frozenset()
    producer.begin_transaction()
    producer.produce(name, b"4", partition=0)
    assert producer.flush(30) == 0
    assert cluster.without_records([(first, Range(4, 5))]) == frozenset()  # what an open transaction hides is not known
    producer.abort_transaction(30)


def test_read_deleted_offset_raises_offsets_gone(cluster: Cluster, left: str, fresh_topic: Fresh) -> None:
    name = fresh_topic("gone")
    cluster.create_topic(name, 1, 1)
    produce(left, name, b"a")
    with pytest.raises(OffsetsGone, match="offset 50"):
        list(cluster.read({TopicPartition(name, 0): Range(50, 60)}))


def test_read_under_a_quota_waits_for_the_pause_that_is_announced(left: str, fresh_topic: Fresh) -> None:
    """It is longer than the time in which a broker has to answer otherwise."""
    name, settings = fresh_topic("quota"), ClusterSettings("LEFT", tuple(left.split(",")))
    quotas = {"consumer_byte_rate": 8000.0}
    with Cluster(settings, timeout_s=3) as cluster:
        cluster.create_topic(name, 1, 1)
        produce(left, name, *(os.urandom(1000) for _ in range(60)))
        blocking(set_quotas(settings, quotas, of="client-id", name="rdkafka"))
        try:
            took = []
            for _ in range(2):
                began = time.monotonic()
                assert len(list(cluster.read({TopicPartition(name, 0): Range(0, 60)}))) == 60
                took.append(time.monotonic() - began)
        finally:
            blocking(set_quotas(settings, quotas, of="client-id", name="rdkafka", remove=True))
    assert max(took) > 3, "nothing was tested"


def test_read_missing_topic_is_refused(cluster: Cluster, fresh_topic: Fresh) -> None:
    with pytest.raises(ClusterRefused) as refused:
        list(cluster.read({TopicPartition(fresh_topic("absent"), 0): Range(0, 1)}))
    assert refused.value.code == "UNKNOWN_TOPIC_OR_PART"


def test_group_offsets_are_committed_read_and_deleted(cluster: Cluster, left: str, fresh_topic: Fresh) -> None:
    name, group = fresh_topic("groups"), fresh_topic("group")
    cluster.create_topic(name, 2, 1)
    assert cluster.group_offsets(group) == {}
    wanted = {TopicPartition(name, 0): CommittedOffset(5, "näher"), TopicPartition(name, 1): CommittedOffset(0)}
    cluster.alter_group_offsets(group, wanted)
    assert cluster.group_offsets(group) == wanted
    assert metadata_in_the_log(cluster, group) == {"näher", ""}  # as it was given, and nothing behind it
    assert [(g.group, g.state) for g in cluster.groups() if g.group == group] == [(group, "EMPTY")]
    consumer = Consumer({"bootstrap.servers": left, "group.id": group})
    consumer.commit(offsets=[ConfluentTopicPartition(name, 0, 9, metadata="mark")], asynchronous=False)
    consumer.close()
    assert cluster.group_offsets(group)[TopicPartition(name, 0)] == CommittedOffset(9, "mark")
    cluster.alter_group_offsets(group, {})
    assert cluster.delete_group(group)
    assert not cluster.delete_group(group)
    assert cluster.group_offsets(group) == {}


def metadata_in_the_log(cluster: Cluster, group: str) -> set[str]:
    """What a group committed with, as the broker keeps it."""
    there = cluster.topics([OFFSETS])[OFFSETS]
    partitions = [TopicPartition(OFFSETS, p) for p in range(there.partitions)]
    starts, ends = cluster.log_starts(partitions), cluster.log_ends(partitions)
    read = cluster.read({tp: Range(starts[tp], ends[tp]) for tp in partitions})
    commits = [c for r in read if (c := consumer_offsets.decode(r.key, r.value)) is not None and c.group == group]
    return {c.metadata for c in commits}


def test_alter_group_offsets_of_an_empty_kip_848_group(cluster: Cluster, left: str, fresh_topic: Fresh) -> None:
    name, group = fresh_topic("left"), fresh_topic("group")
    cluster.create_topic(name, 1, 1)
    with member(left, group, name, **{"group.protocol": "consumer"}):
        pass
    cluster.alter_group_offsets(group, {TopicPartition(name, 0): CommittedOffset(4, "moved")})
    assert cluster.group_offsets(group) == {TopicPartition(name, 0): CommittedOffset(4, "moved")}


def test_committed_does_not_wait_for_a_coordinator_that_is_known_to_be_silent(
    cluster: Cluster, fresh_topic: Fresh
) -> None:
    topic, group = fresh_topic("asked"), fresh_topic("group")
    cluster.create_topic(topic, 1, 1)
    cluster.alter_group_offsets(group, {TopicPartition(topic, 0): CommittedOffset(0)})
    nodes = {1}  # the lab's only broker, which answers all the same
    began = time.monotonic()
    found = group_offsets.committed(cluster.settings, [group], 60.0, nodes)[group]
    assert isinstance(found, Unreachable)
    assert "its coordinator, broker 1, does not answer" in found.why
    assert time.monotonic() - began < 30
    others = group_offsets.committed(cluster.settings, [group], 60.0, {7})
    assert others == {group: {TopicPartition(topic, 0): CommittedOffset(0)}}


@pytest.mark.long
def test_commit_waits_for_coordinators_being_created(lab_factory: Callable[..., Lab]) -> None:
    one = lab_factory(aliases=("ONE",)).clusters["ONE"].bootstrap
    moved = {TopicPartition("orders", 0): CommittedOffset(7, "first")}
    with Cluster(ClusterSettings("ONE", (one,))) as cluster:
        cluster.create_topic("orders", 1, 1)
        cluster.alter_group_offsets("somebody", moved)
        assert cluster.group_offsets("somebody") == moved


def test_committed_waits_for_coordinators_being_created(lab_factory: Callable[..., Lab]) -> None:
    one = lab_factory(aliases=("ONE",)).clusters["ONE"].bootstrap
    with Cluster(ClusterSettings("ONE", (one,))) as cluster:
        assert [cluster.group_offsets(f"nobody-{n}") for n in range(20)] == [{}] * 20


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_alter_group_offsets_refuses_a_group_with_members(
    cluster: Cluster, left: str, fresh_topic: Fresh, protocol: str
) -> None:
    name, group = fresh_topic("live"), fresh_topic("group")
    cluster.create_topic(name, 1, 1)
    with member(left, group, name, **{"group.protocol": protocol}):
        with pytest.raises(GroupNotEmpty, match=group):
            cluster.alter_group_offsets(group, {TopicPartition(name, 0): CommittedOffset(1)})
        with pytest.raises(GroupNotEmpty, match="has members"):
            cluster.delete_group(group)
        assert {g.group: g.state for g in cluster.groups()}[group] not in ("EMPTY", "DEAD")
        assert cluster.group_offsets(group) == {}


def test_alter_group_offsets_broker_refuses_a_group_that_got_members(
    cluster: Cluster, left: str, fresh_topic: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, group = fresh_topic("race"), fresh_topic("group")
    cluster.create_topic(name, 1, 1)
    with member(left, group, name):
        monkeypatch.setattr(cluster, "groups", lambda: ())  # as it was a moment before the member joined
        with pytest.raises(GroupNotEmpty, match="no longer EMPTY"):
            cluster.alter_group_offsets(group, {TopicPartition(name, 0): CommittedOffset(1)})


def test_consumer_offsets_topic_is_parsed(cluster: Cluster, left: str, fresh_topic: Fresh) -> None:
    name, group = fresh_topic("tail"), fresh_topic("group")
    cluster.create_topic(name, 2, 1)
    consumer = Consumer({"bootstrap.servers": left, "group.id": group})
    before = int(time.time() * 1000)
    for offset in (3, 7):
        consumer.commit(offsets=[ConfluentTopicPartition(name, 1, offset, metadata=f"m{offset}")], asynchronous=False)
    after = int(time.time() * 1000)
    consumer.close()
    cluster.delete_group(group)

    internal = cluster.topics([OFFSETS])[OFFSETS]
    assert internal.internal
    partitions = [TopicPartition(OFFSETS, p) for p in range(internal.partitions)]
    starts, ends = cluster.log_starts(partitions), cluster.log_ends(partitions)
    read = cluster.read({tp: Range(starts[tp], ends[tp]) for tp in partitions})
    commits = [c for r in read if (c := consumer_offsets.decode(r.key, r.value)) is not None and c.group == group]

    # confluent-kafka's Python binding ends metadata with a NUL, and the broker keeps it.
    assert [(c.topic, c.partition, c.offset, c.metadata.rstrip("\0")) for c in commits] == [
        (name, 1, 3, "m3"),
        (name, 1, 7, "m7"),
        (name, 1, None, ""),
    ]
    assert all(before - 1000 <= c.commit_timestamp_ms <= after + 1000 for c in commits[:2])


def test_unreachable_cluster_raises_and_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    partition = TopicPartition("t", 0)
    with Cluster(ClusterSettings("GONE", (address,)), timeout_s=1.0) as gone:
        calls: list[Callable[[], object]] = [
            gone.cluster_id,
            gone.topics,
            gone.groups,
            lambda: gone.create_topic("t", 1, 1),
            lambda: gone.log_ends([partition]),
            lambda: gone.topic_config(["t"]),
            lambda: gone.group_offsets("g"),
            lambda: gone.alter_group_offsets("g", {partition: CommittedOffset(1)}),
            lambda: gone.delete_group("g"),
            lambda: list(gone.read({partition: Range(0, 1)})),
        ]
        for call in calls:
            started = time.monotonic()
            with pytest.raises(Unreachable) as unreachable:
                call()
            assert time.monotonic() - started < 10
            assert "GONE" in unreachable.value.what
            assert address in unreachable.value.why
            assert unreachable.value.exit_code == 11
            assert unreachable.value.retriable
    assert capfd.readouterr() == ("", "")


def test_errors_keep_their_cause(cluster: Cluster, fresh_topic: Fresh) -> None:
    with pytest.raises(ClusterRefused) as refused:
        cluster.create_topic(fresh_topic("bad"), 1, 1, {"no.such.config": "1"})
    assert isinstance(refused.value.__cause__, KafkaException)
    assert refused.value.code == "INVALID_CONFIG"


@pytest.mark.long
def test_handle_that_waits_for_brokers_that_are_gone_uses_no_processor(lab_factory: Callable[..., Lab]) -> None:
    """A broker that is gone is listed for some seconds, or for ever where the controllers are gone as well."""
    three = lab_factory(aliases=("ONE",), brokers=3, extra={"min.insync.replicas": "2"}).clusters["ONE"]
    with Cluster(three.settings(), timeout_s=4.0) as handle:
        handle.create_topic("orders", 6, 3)
        handle.log_ends([TopicPartition("orders", n) for n in range(6)])
        assert handle.groups() == ()
        for broker in three.brokers[1:]:
            broker.kill()
        began, used = time.monotonic(), time.process_time()
        for ask in (
            handle.groups,
            lambda: handle.log_ends([TopicPartition("orders", n) for n in range(6)]),
            lambda: handle.topic_config(["orders"]),
        ):
            with suppress(DrlibError):
                ask()
        waited_s, used_s = time.monotonic() - began, time.process_time() - used
        assert waited_s > 4
        assert used_s < 0.25 * waited_s, f"{used_s:.1f} s of processor time in {waited_s:.1f} s"
