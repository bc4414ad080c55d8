"""Topics of real brokers as DataFrames, and audits of copies with planted faults between two real clusters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from fix_engine import wait_for_markers
from pyspark.sql import SparkSession

from drlib.analysis.audit.compare import warm_up
from drlib.analysis.audit.result import Fault
from drlib.analysis.audit.staged import audit_topics
from drlib.analysis.spark.session import spark_session, start_in_background
from drlib.analysis.spark.topics import pin_range, read_topic
from drlib.errors import DrlibError, Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import librdkafka
from drlib.lab.brokers.security import LabSecurity
from drlib.lab.lab import Lab
from drlib.runs.check import Verdict

PARTITIONS = 2
BEGIN_MS = 1_790_000_000_000
Fresh = Callable[[str], str]


@dataclass(frozen=True)
class Record:
    number: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]


def flights(count: int) -> list[Record]:
    return [
        Record(
            number,
            None if number % 11 == 10 else b"UA%d" % (number % 7),
            None if number % 13 == 12 else b'{"flight":%d}' % number,
            BEGIN_MS + number,
            (("id", b"%d" % number), ("event-time", b"%d" % (BEGIN_MS - number)), ("empty", b""), ("null", None)),
        )
        for number in range(count)
    ]


def create(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(topic, PARTITIONS, 1, config={"retention.ms": "-1"})
    admin.create_topics([new])[topic].result(30)


def send(producer: Producer, topic: str, records: Iterable[Record]) -> None:
    failures = []
    for record in records:
        producer.produce(
            topic,
            key=record.key,
            value=record.value,
            partition=record.number % PARTITIONS,
            timestamp=record.timestamp_ms,
            headers=list(record.headers),
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(30) == 0
    assert failures == []


def plain(bootstrap: str) -> Producer:
    return Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})


def transactional(bootstrap: str, name: str, topic: str, batches: Sequence[tuple[list[Record], bool]]) -> None:
    """Each batch in a transaction of its own, committed or aborted."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    for records, commit in batches:
        producer.begin_transaction()
        send(producer, topic, records)
        if commit:
            producer.commit_transaction(30)
        else:
            producer.abort_transaction(30)
    wait_for_markers(bootstrap, topic, PARTITIONS)


@pytest.fixture
def topics(left: str, right: str, fresh_topic: Fresh) -> tuple[str, str]:
    topic = fresh_topic("flights")
    create(left, topic)
    create(right, f"LEFT.{topic}")
    return topic, f"LEFT.{topic}"


def test_read_range_is_stable_while_topic_grows(spark: SparkSession, left: str, topics: tuple[str, str]) -> None:
    topic, _ = topics
    send(plain(left), topic, flights(40))
    frame = read_topic(spark, left, topic)
    middle = read_topic(spark, left, topic, start={0: 5, 1: 6}, end={0: 8, 1: 6})
    send(plain(left), topic, flights(40))
    rows = frame.orderBy("id").collect()
    assert [row["id"] for row in rows] == list(range(40))
    assert frame.count() == 40
    for row, sent in zip(rows, flights(40), strict=True):
        assert (row["partition"], row["offset"]) == (sent.number % PARTITIONS, sent.number // PARTITIONS)
        assert (row["key"], row["value"]) == (sent.key, sent.value)
        assert [(header["key"], header["value"]) for header in row["headers"]] == list(sent.headers)
        assert round(row["timestamp"].timestamp() * 1000) == sent.timestamp_ms
        assert round(row["event_time"].timestamp() * 1000) == BEGIN_MS - sent.number
    assert len({row["content_hash"] for row in rows}) == 40
    assert [(row["partition"], row["offset"]) for row in middle.collect()] == [(0, 5), (0, 6), (0, 7)]
    types = {row["id"]: row["record_type"] for row in rows}
    assert types == {n: "tombstone" if n % 13 == 12 else "record" for n in range(40)}


def test_audit_topics_between_clusters_counts_each_fault(
    spark: SparkSession, left: str, right: str, topics: tuple[str, str]
) -> None:
    topic, remote = topics
    records = flights(2000)
    send(plain(left), topic, records)
    copy = [record for record in records if record.number < 1900]
    copy[700] = replace(copy[700], value=b"flipped")
    copy[801] = replace(copy[801], headers=copy[801].headers[::-1])
    again = copy[1000]
    dropped = copy.pop(300)
    copy.append(again)
    send(plain(right), remote, copy)
    result = audit_topics(spark, left, right, topic, remote)
    assert result.verdict is Verdict.FAIL
    assert (result.source_records, result.target_records) == (2000, 1900)
    assert (result.missing, result.altered, result.duplicated) == (101, 2, 1)
    assert (result.invented, result.out_of_order) == (0, 0)
    assert result.missing_in_tail is False
    assert result.rpo_records == 101
    assert result.rpo_seconds == pytest.approx(0.1)
    altered = [(found.record_id, found.detail) for found in result.examples if found.fault is Fault.ALTERED]
    assert altered == [(700, "changed: value"), (801, "changed: headers")]
    missing = [found for found in result.examples if found.fault is Fault.MISSING]
    assert (missing[0].record_id, missing[0].detail) == (dropped.number, "a hole")
    assert {found.detail for found in missing[1:]} == {"in the tail"}
    (duplicated,) = [found for found in result.examples if found.fault is Fault.DUPLICATED]
    assert (duplicated.record_id, duplicated.partition) == (again.number, again.number % PARTITIONS)


def test_audit_topics_copied_aborted_record_is_invented(
    spark: SparkSession, left: str, right: str, topics: tuple[str, str]
) -> None:
    topic, remote = topics
    records = flights(300)
    batches = [(records[at : at + 50], at != 100) for at in range(0, 300, 50)]
    transactional(left, f"{topic}-left", topic, batches)
    committed = [record for batch, commit in batches if commit for record in batch]
    send(plain(right), remote, committed)
    clean = audit_topics(spark, left, right, topic, remote)
    assert (clean.verdict, clean.source_records, clean.target_records) == (Verdict.PASS, 250, 250)
    assert (clean.missing, clean.examples) == (0, ())
    send(plain(right), remote, [records[120]])
    torn = audit_topics(spark, left, right, topic, remote)
    assert (torn.verdict, torn.invented) == (Verdict.FAIL, 1)
    assert torn.examples[0].record_id == 120


def test_read_topic_ends_at_last_stable_offset_of_open_transaction(
    spark: SparkSession, left: str, topics: tuple[str, str]
) -> None:
    topic, _ = topics
    send(plain(left), topic, flights(10))
    producer = Producer({"bootstrap.servers": left, "transactional.id": f"{topic}-open"})
    producer.init_transactions(30)
    producer.begin_transaction()
    send(producer, topic, flights(6))
    try:
        assert read_topic(spark, left, topic).count() == 10
        assert read_topic(spark, left, topic, read_committed=False).count() == 16
    finally:
        producer.abort_transaction(30)


def test_audit_topics_deleted_range_is_unknown_never_skipped(
    spark: SparkSession, left: str, right: str, topics: tuple[str, str]
) -> None:
    topic, remote = topics
    for bootstrap, name in ((left, topic), (right, remote)):
        send(plain(bootstrap), name, flights(100))
    before = pin_range(left, topic)
    admin = AdminClient({"bootstrap.servers": left})
    cut = TopicPartition(topic, 0, 20)
    admin.delete_records([cut])[cut].result(30)

    # pinned before they went: the read fails
    stale = audit_topics(spark, left, right, topic, remote, source_range=before)
    assert stale.verdict is Verdict.UNKNOWN
    assert (stale.missing, stale.source_records) == (None, None)
    assert "could not be read" in stale.reasons[0]
    # pinned after: what is left agrees, and the rest of the target cannot be judged
    partial = audit_topics(spark, left, right, topic, remote)
    assert partial.verdict is Verdict.UNKNOWN
    assert (partial.invented, partial.missing, partial.source_records) == (0, 0, 80)
    assert sum(row.unseen for row in partial.per_partition) == 20
    with pytest.raises(UsageError, match="start after the requested end"):
        read_topic(spark, left, topic, end={0: 10, 1: 10})


def test_read_topic_missing_topic_or_cluster_raises_usage_error(
    spark: SparkSession, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="Topic no-such-topic cannot be read"):
        read_topic(spark, left, "no-such-topic")
    monkeypatch.setattr("drlib.analysis.spark.topics.TIMEOUT_S", 1.0)
    with pytest.raises(Unreachable, match=re.escape("127.0.0.1:1")):
        pin_range("127.0.0.1:1", "flights")


def test_spark_session_second_call_returns_running_session(spark: SparkSession) -> None:
    assert spark_session("another name") is spark
    warmed: Future[SparkSession] = start_in_background("a third name", warm_up=warm_up)
    assert warmed.result(60) is spark


@pytest.mark.long
def test_read_topic_secured_cluster_uses_its_login(spark: SparkSession, tmp_path: Path, fresh_topic: Fresh) -> None:
    topic = fresh_topic("flights")
    with Lab(tmp_path / "lab", ("ONE",), security=LabSecurity()) as lab:
        settings = lab.clusters["ONE"].settings()
        with Cluster(settings) as cluster:
            cluster.create_topic(topic, PARTITIONS, 1)
        producer = Producer({**librdkafka(settings), "log_level": 0})
        send(producer, topic, flights(20))
        assert read_topic(spark, settings, topic).count() == 20
        with pytest.raises(DrlibError, match="TLS"):
            pin_range(",".join(settings.bootstrap_servers), topic)
