"""Duplicates in topics of real brokers: planted ones beside our engine, and those that the real MirrorMaker 2 makes."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from fix_engine import Engine, Record, create_topic, read_all, wait_for
from pyspark.sql import SparkSession
from testbed_mm2 import connect_keys, ends

from bench.mirror_maker import MirrorMaker2
from drlib.analysis.duplicates.find import find_duplicates
from drlib.analysis.duplicates.result import Cause, DuplicateReport
from drlib.analysis.duplicates.rewinds import GroupCommits, find_rereads
from drlib.analysis.sessions.duplicates_audit import segments
from drlib.analysis.spark.topics import cluster_settings, pin_range
from drlib.config.settings import load_mirror_settings
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset
from drlib.mirror.offsets.map.flow_maps import read_flow_maps
from drlib.model import Flow, TopicPartition
from drlib.runs.check import Verdict

PARTITIONS = 3
BEGIN_MS = 1_790_000_000_000


def write(bootstrap: str, topic: str, records: dict[int, list[Record]]) -> None:
    """Exactly these records, in this order, timestamps and all."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 0})
    for partition, some in records.items():
        for key, value, headers, timestamp in some:
            producer.produce(topic, value, key, partition, timestamp=timestamp, headers=list(headers))
    assert producer.flush(30) == 0


def orders(count: int, first: int = 0) -> dict[int, list[Record]]:
    return {
        p: [
            (b"k%d" % (n % 7) if n % 5 else None, b"%d" % n if n % 11 else None, (("n", b"%d" % n),), BEGIN_MS + n)
            for n in range(first, first + count)
            if n % PARTITIONS == p
        ]
        for p in range(PARTITIONS)
    }


def found(report: DuplicateReport) -> dict[Cause, int]:
    assert report.counts is not None, report.reasons
    return {cause: count for cause, count in report.counts.items() if count}


@pytest.mark.long
def test_find_duplicates_planted_found_by_counting_and_by_map(spark: SparkSession, engine: Engine) -> None:
    topic, remote = engine.topics, f"{engine.source}.{engine.topics}"
    create_topic(engine.left, topic, PARTITIONS, retention_ms="-1")
    write(engine.left, topic, orders(900))
    twice = {p: some[:5] for p, some in orders(30, 600).items()}  # retried by a producer without idempotence
    write(engine.left, topic, twice)
    worker = engine.start()
    engine.wait_caught_up(topic, PARTITIONS)
    assert engine.stop(worker) == 0, engine.log()
    settings, flow = load_mirror_settings(engine.properties), Flow(engine.source, engine.target)

    clean = find_duplicates(spark, engine.right, remote, source=engine.left, topic=topic, allowed=(Cause.PRODUCER,))
    assert (clean.verdict, found(clean)) == (Verdict.PASS, {Cause.PRODUCER: 15})
    again = {1: orders(900)[1][40:60]}
    write(engine.right, remote, again)  # another replicator copies a range once more
    by_partition = segments(read_flow_maps(settings, flow), topic, range(PARTITIONS))
    assert {p: sum(s.count for s in some) for p, some in by_partition.items()} == dict.fromkeys(range(PARTITIONS), 305)
    for known in (None, by_partition):
        report = find_duplicates(spark, engine.right, remote, source=engine.left, topic=topic, segments=known)
        assert (report.verdict, report.exact) == (Verdict.FAIL, known is not None)
        assert found(report) == {Cause.PRODUCER: 15, Cause.REPLICATOR: 20}
        assert (report.source_records, report.target_records) == (915, 935)
        copied = [one for one in report.skip if one.cause is Cause.REPLICATOR]
        assert [(one.partition, one.next_offset - one.first) for one in copied] == [(1, 20)]


def test_find_rereads_of_rewound_positions(
    spark: SparkSession, left: str, right: str, fresh_topic: Callable[..., str]
) -> None:
    """On one cluster, across two, still to be read, and forward, which is nothing."""
    topic = fresh_topic()
    remote, tag = f"LEFT.{topic}", uuid.uuid4().hex[:6]
    records: dict[int, list[Record]] = {0: [(b"k", b"%d" % n, (), BEGIN_MS + n) for n in range(50)]}
    for bootstrap, name in ((left, topic), (right, remote)):
        create_topic(bootstrap, name, 1, retention_ms="-1")
        write(bootstrap, name, records)
    commits = {
        "again": ((left, topic, 10), (left, topic, 40), (left, topic, 20), (left, topic, 45)),
        "waits": ((left, topic, 30), (left, topic, 5)),
        "moved": ((left, topic, 30), (right, remote, 25), (right, remote, 50)),
        "stands": ((left, topic, 30), (right, remote, 22)),
        "forward": ((left, topic, 10), (right, remote, 12)),
    }
    for group, positions in commits.items():
        for bootstrap, name, offset in positions:
            with Cluster(cluster_settings(bootstrap)) as cluster:
                cluster.alter_group_offsets(f"{group}-{tag}", {TopicPartition(name, 0): CommittedOffset(offset)})
    with GroupCommits(spark, left, right) as committed:
        found = find_rereads(spark, left, right, pin_range(left, topic), pin_range(right, remote), committed)
    rereads = {
        one.group.removesuffix(f"-{tag}"): (one.topic, one.first, one.next_offset, one.records, one.pending)
        for one in found
    }
    assert rereads == {
        "again": (topic, 20, 40, 20, False),
        "waits": (topic, 5, 30, 25, True),
        "moved": (remote, 25, 30, 5, False),
        "stands": (remote, 22, 30, 8, True),
    }
    assert len(found) == len(rereads)


def test_find_rereads_across_deleted_positions_are_unsure(
    spark: SparkSession, left: str, right: str, fresh_topic: Callable[..., str]
) -> None:
    """A broker deletes the positions in a deleted topic: those before may be of another topic of its name."""
    topic = fresh_topic()
    remote, tag = f"LEFT.{topic}", uuid.uuid4().hex[:6]
    deleted, crossed = ("within", "beyond", "earlier", "moved"), ("moved", "deleted-first", "deleted-after")
    records: dict[int, list[Record]] = {0: [(b"k", b"%d" % n, (), BEGIN_MS + n) for n in range(50)]}

    def make(bootstrap: str, name: str) -> None:
        create_topic(bootstrap, name, 1, retention_ms="-1")
        write(bootstrap, name, records)

    def commit(bootstrap: str, group: str, *offsets: int) -> None:
        at = TopicPartition(topic if bootstrap == left else remote, 0)
        with Cluster(cluster_settings(bootstrap)) as cluster:
            for offset in offsets:
                cluster.alter_group_offsets(f"{group}-{tag}", {at: CommittedOffset(offset)})

    make(left, topic)
    make(right, remote)
    commit(left, "within", 40)
    commit(left, "beyond", 60)
    commit(left, "earlier", 40, 30)
    commit(left, "moved", 30)
    commit(right, "deleted-first", 20)
    with Cluster(cluster_settings(left)) as cluster, Cluster(cluster_settings(right)) as other:
        other.delete_group(f"deleted-first-{tag}")
        cluster.delete_topic(topic)
        wait_for(
            "it is gone, with positions",
            lambda: (
                not cluster.topics([topic]) and not any(cluster.group_offsets(f"{group}-{tag}") for group in deleted)
            ),
        )
        make(left, topic)
        for group in ("within", "beyond"):
            commit(left, group, 20, 45, 35, 45)  # the last three are of one topic
        commit(left, "earlier", 45)
        commit(left, "deleted-first", 30)
        commit(left, "deleted-after", 30)
        for group in crossed:
            commit(right, group, 25)
        other.delete_group(f"deleted-after-{tag}")
        for group in crossed:
            commit(right, group, 50)
    ranges = pin_range(left, topic), pin_range(right, remote)
    with GroupCommits(spark, left, right) as committed:
        rereads = find_rereads(spark, left, right, *ranges, committed)
    assert {(one.group.removesuffix(f"-{tag}"), one.first, one.next_offset, bool(one.unsure)) for one in rereads} == {
        ("within", 20, 40, True),
        ("within", 35, 45, False),
        ("beyond", 20, 45, True),
        ("beyond", 35, 45, False),
        ("earlier", 30, 40, True),
        ("moved", 25, 30, True),
        ("deleted-first", 25, 30, False),
        ("deleted-after", 25, 30, True),
    }
    assert len(rereads) == 8
    unsure = [one for one in rereads if one.unsure]
    report = find_duplicates(spark, right, remote, source=left, topic=topic, rereads=unsure)
    assert (report.verdict, found(report)) == (Verdict.UNKNOWN, {})
    assert len(report.reasons) == len(unsure)
    allowed = find_duplicates(spark, right, remote, source=left, topic=topic, rereads=unsure, allowed=(Cause.FAILOVER,))
    assert (allowed.verdict, allowed.reasons) == (Verdict.PASS, ())


@pytest.mark.mm2
@pytest.mark.timeout(300)
def test_find_duplicates_real_mirror_maker_recopy_is_replicator(spark: SparkSession, engine: Engine) -> None:
    """Without the offsets it had stored, MirrorMaker 2 begins again: every record it had copied is there twice."""
    topic, remote = engine.topics, f"{engine.source}.{engine.topics}"
    engine.extra |= connect_keys(engine.source, engine.target)
    create_topic(engine.left, topic, PARTITIONS, retention_ms="-1")
    write(engine.left, topic, orders(900))
    write(engine.left, topic, {p: some[:5] for p, some in orders(30, 600).items()})
    maker = MirrorMaker2(engine.root / "mm2", engine.properties)

    maker.start()
    try:
        wait_for("everything is copied", lambda: ends(engine) >= 915, 120)
        assert maker.stop(), maker.log_tail()
        with Cluster(cluster_settings(engine.right)) as cluster:
            assert cluster.delete_topic(f"mm2-offsets.{engine.source}.internal")
        maker.start()
        wait_for("everything is copied again", lambda: ends(engine) >= 1830, 120)
    finally:
        maker.kill()
    on_source, on_target = read_all(engine.left, topic, PARTITIONS), read_all(engine.right, remote, PARTITIONS)
    counted = [(Counter(on_target[p]), Counter(on_source[p])) for p in range(PARTITIONS)]
    surplus = sum(n - source[record] for copies, source in counted for record, n in copies.items())
    assert surplus == 915
    report = find_duplicates(spark, engine.right, remote, source=engine.left, topic=topic)
    assert (report.verdict, report.exact) == (Verdict.FAIL, False)
    assert found(report) == {Cause.PRODUCER: 15, Cause.REPLICATOR: surplus}
    assert sum(one.next_offset - one.first for one in report.skip if one.cause is Cause.REPLICATOR) == surplus
