"""The pointer's topic on real clusters: several writers at once, one cluster dead, and readers who go on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from deadline import Deadline
from fix_engine import alter, create_topic, produce
from fix_lab import LabFactory

import drlib
from drlib.client.active_cluster import NoPointer
from drlib.client.pointer import Pointer, PointerConflict, encode
from drlib.client.pointer_copies import moved_pointer, read_copies
from drlib.client.pointer_topic import Published, publish, read_pointer
from drlib.client.pointer_watch import PointerTopicWatcher
from drlib.config.settings import load_mirror_settings
from drlib.errors import UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Isolation
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.lab import Lab
from drlib.lab.ports import free_ports
from drlib.model import Flow, TopicPartition

Fresh = Callable[[str], str]


def settings(lab: Lab) -> tuple[ClusterSettings, ...]:
    return tuple(ClusterSettings(alias, (cluster.bootstrap,)) for alias, cluster in lab.clusters.items())


def until(holds: Callable[[], bool], deadline_s: float = 20.0) -> None:
    deadline = Deadline(deadline_s)
    while not holds():
        assert not deadline.passed, f"not within {deadline.waited_s:.0f} s"
        time.sleep(0.05)


@pytest.fixture
def watch() -> Iterator[Callable[..., PointerTopicWatcher]]:
    made: list[PointerTopicWatcher] = []

    def start(clusters: tuple[ClusterSettings, ...], application: str, topic: str) -> PointerTopicWatcher:
        made.append(PointerTopicWatcher(clusters, application, topic=topic))
        return made[-1]

    yield start
    for one in made:
        one.close()


def test_publish_to_a_cluster_that_refuses_the_records_writes_the_others_and_says_so(
    lab: Lab, fresh_topic: Fresh
) -> None:
    """LEFT, which is written first, takes batches of 100 bytes, as markers are: no other writer is the reason."""
    clusters, topic = settings(lab), f"{fresh_topic('active')}.internal"
    create_topic(lab.clusters["LEFT"].bootstrap, topic, 1)
    alter(lab.clusters["LEFT"].bootstrap, topic, "max.message.bytes", "100")
    published = publish(clusters, Pointer(1, "LEFT", "h:1"), topic=topic)
    assert published.where == ("RIGHT",)
    assert not isinstance(published.missing["LEFT"], PointerConflict)
    assert "MSG_SIZE_TOO_LARGE" in published.missing["LEFT"].why, published.missing


def test_publish_one_of_many_writers_wins_everywhere(lab: Lab, fresh_topic: Fresh) -> None:
    clusters, topic = settings(lab), f"{fresh_topic('active')}.internal"
    assert publish(clusters, Pointer(1, "LEFT", "h:1"), topic=topic).where == ("LEFT", "RIGHT")
    outcomes: list[Published | PointerConflict] = []

    def write(number: int) -> None:
        try:
            outcomes.append(publish(clusters, Pointer(2, f"W{number}", "h:1"), topic=topic, timeout_s=30))
        except PointerConflict as error:
            outcomes.append(error)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(90)
    assert len(outcomes) == 3
    found = [read_pointer([one], topic=topic).pointer for one in clusters]
    won = [outcome for outcome in outcomes if isinstance(outcome, Published)]
    assert len(won) <= 1  # all may have been in each other's way; never two
    assert found == [won[0].pointer if won else Pointer(1, "LEFT", "h:1")] * 2
    newer = Pointer(3, "RIGHT", "h:2")
    assert publish(clusters, newer, topic=topic).where == ("LEFT", "RIGHT")
    with pytest.raises(
        PointerConflict, match=r"not written to any cluster: LEFT: it holds version 3 for \*, which names"
    ):
        publish(clusters, Pointer(3, "LEFT", "h:1"), topic=topic)
    assert read_pointer(clusters, topic=topic).pointer == newer


def test_published_pointer_is_found_by_who_reads_next(lab: Lab, fresh_topic: Fresh) -> None:
    topic, (left, _) = fresh_topic("pointer"), settings(lab)
    log = TopicPartition(topic, 0)
    with Cluster(left) as cluster:
        for version in range(1, 31):
            publish([left], Pointer(version, "LEFT", "h:1"), topic=topic, replication_factor=1)
            stable = cluster.log_ends([log], Isolation.READ_COMMITTED)
            assert stable == cluster.log_ends([log]), f"version {version} is not visible yet"


def test_publish_uncommitted_pointer_is_ignored_and_its_writer_fenced(lab: Lab, fresh_topic: Fresh) -> None:
    clusters, topic = settings(lab)[1:], f"{fresh_topic('active')}.internal"
    publish(clusters, Pointer(1, "LEFT", "h:1"), topic=topic)
    zombie = Producer({"bootstrap.servers": clusters[0].bootstrap_servers[0], "transactional.id": topic})
    zombie.init_transactions(20)
    zombie.begin_transaction()
    zombie.produce(topic, encode(Pointer(9, "LEFT", "h:9")), key="*")
    zombie.flush(20)
    assert publish(clusters, Pointer(2, "RIGHT", "h:1"), topic=topic).where == ("RIGHT",)
    with pytest.raises(Exception, match="fenced"):
        zombie.commit_transaction(20)
    assert read_pointer(clusters, topic=topic).pointer == Pointer(2, "RIGHT", "h:1")


def test_watcher_sees_the_first_own_and_common_pointers(
    lab: Lab, fresh_topic: Fresh, watch: Callable[..., PointerTopicWatcher]
) -> None:
    clusters, topic = settings(lab), f"{fresh_topic('active')}.internal"
    silent = ClusterSettings("GONE", (f"127.0.0.1:{free_ports(1)[0]}",))
    orders, bills = watch((*clusters, silent), "orders", topic), watch(clusters, "bills", topic)
    until(lambda: orders.settled() and bills.settled())
    assert orders.current() is None  # the topic does not exist
    publish(clusters, Pointer(1, "LEFT", "h:1"), topic=topic)
    assert orders.wait_newer(0, 20) == bills.wait_newer(0, 20) == Pointer(1, "LEFT", "h:1")
    published = time.monotonic()
    publish(clusters, Pointer(2, "RIGHT", "h:2"), "orders", topic=topic)
    assert orders.wait_newer(1, 20) == Pointer(2, "RIGHT", "h:2")
    assert time.monotonic() - published < 15
    assert bills.wait_newer(1, 0.5) is None
    publish(clusters, Pointer(3, "LEFT", "h:3"), topic=topic)
    assert orders.wait_newer(2, 20) == bills.wait_newer(1, 20) == Pointer(3, "LEFT", "h:3")
    assert "GONE does not answer" in orders.doubt()
    assert bills.doubt() == ""


def test_conflicting_pointers_are_reported_until_a_higher_version(lab: Lab, fresh_topic: Fresh) -> None:
    clusters, topic = settings(lab), f"{fresh_topic('active')}.internal"
    for one in clusters:  # two writers, each of whom sees one cluster only
        publish([one], Pointer(1, one.alias, "h:1"), topic=topic)
    with pytest.raises(PointerConflict, match="there are two pointers with version 1"):
        read_pointer(clusters, topic=topic)
    publish(clusters, Pointer(2, "RIGHT", "h:1"), topic=topic)
    assert read_pointer(clusters, topic=topic).pointer == Pointer(2, "RIGHT", "h:1")


def test_pointer_of_all_is_published_above_that_of_one_application_moved_alone(
    lab: Lab, fresh_topic: Fresh, tmp_path: Path
) -> None:
    config, topic = lab.write_properties(tmp_path / "clusters.properties"), f"{fresh_topic('active')}.internal"
    drlib.publish_pointer(config, "LEFT", topic=topic)
    alone = drlib.publish_pointer(config, "RIGHT", "orders", topic=topic).pointer
    assert read_pointer(settings(lab), topic=topic).next_version == alone.version + 1 == 3
    every = drlib.publish_pointer(config, "LEFT", topic=topic).pointer
    assert read_pointer(settings(lab), "orders", topic=topic).pointer == every


def test_pointer_of_all_leaves_applications_of_other_clusters_where_they_are(
    lab: Lab, fresh_topic: Fresh, tmp_path: Path, watch: Callable[..., PointerTopicWatcher]
) -> None:
    """On a cluster that missed it, too, once it is written again; a follower never sees the pointer of all alone."""
    config, topic = lab.write_properties(tmp_path / "clusters.properties"), f"{fresh_topic('active')}.internal"
    both = settings(lab)
    drlib.publish_pointer(config, "LEFT", topic=topic)
    alone = Pointer(2, "THIRD", "t:1")
    publish(both, alone, "orders", topic=topic)
    drlib.publish_pointer(config, "LEFT", "carts", topic=topic)
    every = Pointer(4, "RIGHT", "r:1")
    for clusters in (both[:1], both, both):
        publish(clusters, every, topic=topic, stays=lambda own: own.active == "THIRD")
        assert read_pointer(clusters, "orders", topic=topic).pointer == replace(alone, version=5)
        assert read_pointer(clusters, "carts", topic=topic).pointer == every
        assert read_pointer(clusters, topic=topic).pointer == every
    assert watch(both, "orders", topic).wait_newer(0, 20) == replace(alone, version=5)


def test_moved_pointer_has_the_ends_of_topics_that_both_directions_copy_beside_others(
    lab: Lab, fresh_topic: Fresh, tmp_path: Path
) -> None:
    shared, alone = fresh_topic("shared"), fresh_topic("alone")
    for topic, count in ((shared, 30), (alone, 5)):
        create_topic(lab.clusters["RIGHT"].bootstrap, topic, 1)
        produce(lab.clusters["RIGHT"].bootstrap, topic, count, partitions=1)
    path = lab.write_properties(
        tmp_path / "clusters.properties",
        topics=f"{shared}, {alone}",
        **{
            "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
            "RIGHT->LEFT.enabled": "true",
            "RIGHT->LEFT.topics": shared,
        },
    )
    mixed = load_mirror_settings(path)
    moved = moved_pointer(mixed, Flow("LEFT", "RIGHT"), mixed.clusters["RIGHT"], 4)
    assert (moved.remote_prefix, moved.cutover) == (None, {shared: (30,)})


def test_earlier_pointers_stay_on_both_clusters_and_move_no_follower(
    lab: Lab, fresh_topic: Fresh, watch: Callable[..., PointerTopicWatcher]
) -> None:
    clusters, topic = settings(lab), f"{fresh_topic('active')}.internal"
    left, _ = clusters
    publish(clusters, Pointer(1, "LEFT", "h:1", by="first"), topic=topic)
    publish(clusters, Pointer(2, "LEFT", "h:1", hold=True), topic=topic)
    publish([left], Pointer(3, "RIGHT", "h:2", "LEFT.", {"LEFT.orders": (5, 6)}, by="run 3"), topic=topic)
    publish([left], Pointer(4, "LEFT", "h:1"), "orders", topic=topic)
    publish(clusters, Pointer(5, "LEFT", "h:1", by="run 5"), topic=topic)  # RIGHT was away for 3 and 4
    follower, alone = watch(clusters, "*", topic), watch(clusters, "orders", topic)
    until(lambda: follower.settled() and alone.settled())
    assert follower.current() == alone.current() == Pointer(5, "LEFT", "h:1")
    assert read_pointer(clusters, topic=topic).next_version == 6

    copies = read_copies(clusters, topic=topic)
    assert copies.applications == ("*", "orders")
    moves = copies.moves("*")
    assert [(each.was.pointer.version, each.was.application, each.was.pointer.by, each.places) for each in moves] == [
        (5, "*", "run 5", ("LEFT", "RIGHT")),
        (4, "orders", "", ("LEFT",)),  # it is still the newest of that key there
        (3, "*", "run 3", ("LEFT", "RIGHT")),
        (1, "*", "first", ("LEFT", "RIGHT")),
    ]
    assert moves[2].was.pointer.cutover == {"LEFT.orders": (5, 6)}
    times = [each.was.written_ms for each in moves]
    assert times == sorted(times, reverse=True)
    assert [each.was.pointer.version for each in copies.moves("bills")] == [5, 3, 1]
    assert publish(clusters, Pointer(5, "LEFT", "h:1"), topic=topic).where == ("LEFT", "RIGHT")  # the same once more
    assert read_copies(clusters, topic=topic).moves("*") == moves
    with pytest.raises(UsageError, match="keys that begin with"):
        publish(clusters, Pointer(6, "LEFT", "h:1"), "*/1/*", topic=topic)


def test_history_that_the_topic_does_not_take_holds_up_no_move(lab: Lab, fresh_topic: Fresh) -> None:
    topic, (left, _) = f"{fresh_topic('active')}.internal", settings(lab)
    ends = {f"LEFT.topic-{n}": (n,) * 10 for n in range(100)}
    publish([left], Pointer(1, "RIGHT", "h:2", "LEFT.", ends), topic=topic)
    alter(left.bootstrap_servers[0], topic, "max.message.bytes", "1000")
    publish([left], Pointer(2, "LEFT", "h:1"), topic=topic)
    assert read_pointer([left], topic=topic).pointer == Pointer(2, "LEFT", "h:1")
    assert [each.was.pointer.version for each in read_copies([left], topic=topic).moves("*")] == [2]


@pytest.mark.long
def test_pointer_moves_with_one_cluster_killed(lab_factory: LabFactory, tmp_path: Path) -> None:
    lab = lab_factory()
    config = lab.write_properties(tmp_path / "clusters.properties")
    with pytest.raises(NoPointer, match="no cluster is active"):
        drlib.active_config("orders", config)
    drlib.publish_pointer(config, "LEFT")
    with drlib.ActiveCluster("orders", config) as active:
        assert active.current().alias == "LEFT"
        lab.clusters["LEFT"].kill()
        until(lambda: "LEFT does not answer" in active.doubt())
        moved = drlib.publish_pointer(config, "RIGHT", timeout_s=4)
        assert (moved.where, list(moved.missing)) == (("RIGHT",), ["LEFT"])
        changed = active.wait_for_change(10)
        assert changed is not None
        assert changed.alias == "RIGHT"
    late = drlib.active_config("orders", config, at_least=2)
    consumer = Consumer({**late, "group.id": "orders"})
    assert "drlib.active.internal" in consumer.list_topics(timeout=10).topics
    consumer.close()


def test_watcher_survives_records_that_are_no_pointers(
    lab: Lab, fresh_topic: Fresh, watch: Callable[..., PointerTopicWatcher]
) -> None:
    clusters, topic = settings(lab), f"{fresh_topic('active')}.internal"
    publish(clusters, Pointer(1, "LEFT", "h:1"), topic=topic)
    watcher = watch(clusters, "orders", topic)
    until(lambda: watcher.current() == Pointer(1, "LEFT", "h:1"))
    producer = Producer({"bootstrap.servers": lab.clusters["RIGHT"].bootstrap})
    for value in (b"[1e400]", b"[" * 200_000, b'{"version": 5, "active": "\\ud800", "bootstrap": "h:1"}', b"\xff"):
        producer.produce(topic, value, key=b"orders", partition=0)
    assert producer.flush(20) == 0
    until(lambda: "is not a pointer" in watcher.doubt())
    assert watcher.current() == Pointer(1, "LEFT", "h:1")
    publish(clusters, Pointer(2, "RIGHT", "h:2"), "orders", topic=topic)
    until(lambda: watcher.current() == Pointer(2, "RIGHT", "h:2") and not watcher.doubt())


@pytest.mark.long
def test_running_application_follows_a_move_although_the_cluster_that_died_has_a_record_that_is_no_pointer(
    lab_factory: LabFactory, tmp_path: Path
) -> None:
    lab = lab_factory()
    config = lab.write_properties(tmp_path / "clusters.properties")
    drlib.publish_pointer(config, "LEFT")
    with drlib.ActiveCluster("orders", config) as active:
        assert active.current().alias == "LEFT"
        producer = Producer({"bootstrap.servers": lab.clusters["LEFT"].bootstrap})
        producer.produce("drlib.active.internal", b"oops", key=b"*", partition=0)
        assert producer.flush(20) == 0
        until(lambda: "on LEFT at offset" in active.doubt())
        lab.clusters["LEFT"].kill()
        until(lambda: "LEFT does not answer" in active.doubt())
        assert drlib.publish_pointer(config, "RIGHT", timeout_s=4).where == ("RIGHT",)
        changed = active.wait_for_change(10)
        assert changed is not None
        assert (changed.alias, changed.version) == ("RIGHT", 2)
        assert "is not a pointer" in active.doubt()
