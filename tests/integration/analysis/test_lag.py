"""Lag over time: on frames whose lag is known, and on real logs of both sides, journal and commits."""

from __future__ import annotations

import time
from collections.abc import Callable
from uuid import UUID, uuid4

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as At
from fix_engine import Engine, create_topic, wait_for
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from drlib.analysis.lag import frames as lag
from drlib.analysis.lag import positions
from drlib.analysis.lag.report import analyse_lag
from drlib.analysis.lag.result import LagRequest
from drlib.analysis.lag.trend import Trend
from drlib.config.settings import load_mirror_settings
from drlib.errors import UsageError
from drlib.mirror.journal.claims_and_runs import Ack, Covered
from drlib.mirror.journal.fields import ClaimId, SourcePartition
from drlib.model import Flow
from drlib.runs.check import Verdict

BEGIN_S = 1_790_000_000


def stamped(frame: DataFrame, column: str) -> DataFrame:
    return frame.withColumn(column, sf.timestamp_seconds(sf.col("second") + BEGIN_S)).drop("second")


@pytest.fixture
def records(spark: SparkSession) -> DataFrame:
    """Partition 0: a record of 100 bytes each second. Partition 1: of 10 bytes, at every other offset, as compaction leaves."""
    rows = [("t", 0, n, n, 100) for n in range(100)] + [("t", 1, 2 * n, n, 10) for n in range(50)]
    return stamped(
        spark.createDataFrame(rows, "topic string, partition int, offset long, second long, bytes long"), "timestamp"
    )


def positions_frame(spark: SparkSession, *rows: tuple[str, int, int, int]) -> DataFrame:
    """(reader, partition, second, position)"""
    full = [(reader, "t", partition, second, position) for reader, partition, second, position in rows]
    schema = "reader string, topic string, partition int, second long, position long"
    return stamped(spark.createDataFrame(full, schema), "at")


def test_lag_at_every_moment_in_records_bytes_and_seconds(spark: SparkSession, records: DataFrame) -> None:
    known_positions = positions_frame(
        spark,
        ("mirror", 0, 10, 5),
        ("mirror", 0, 20, 18),
        ("mirror", 1, 30, 40),
        ("group", 0, 50, 51),
        ("group", 0, 60, 10),  # set back: the newest position counts
    )
    moments = lag.moments(spark, BEGIN_S * 1000, (BEGIN_S + 100) * 1000, 10)
    rows = (
        lag.lag_at(records, lag.positions_at(known_positions, moments))
        .withColumn("second", sf.unix_seconds("at") - BEGIN_S)
        .collect()
    )
    found = {(r["reader"], r["partition"], r["second"]): (r["lag_records"], r["lag_bytes"], r["lag_s"]) for r in rows}
    assert found["mirror", 0, 10] == (6, 600, 5.0)  # 0 to 10 are there, 5 is the next one
    assert found["mirror", 0, 20] == (3, 300, 2.0)
    assert found["mirror", 0, 90] == (73, 7300, 72.0)  # a stopped reader falls behind
    assert found["mirror", 1, 30] == (11, 110, 10.0)  # records, not offsets
    assert found["mirror", 1, 100] == (30, 300, 80.0)
    assert found["group", 0, 50] == (0, 0, 0.0)
    assert found["group", 0, 60] == (51, 5100, 50.0)
    assert ("mirror", 1, 20) not in found  # unknown
    assert ("group", 0, 40) not in found


def test_latency_from_first_position_after_a_record(spark: SparkSession, records: DataFrame) -> None:
    known_positions = positions_frame(spark, ("mirror", 0, 10, 5), ("mirror", 0, 20, 18), ("mirror", 0, 90, 60))
    found = lag.latency(records, known_positions)
    rows = {r["offset"]: r["latency_ms"] for r in found.collect()}
    assert (rows[5], rows[17], rows[18], rows[59]) == (15000, 3000, 72000, 31000)
    assert rows[60] is None
    assert set(rows) == set(range(5, 100))  # unknown before the first position; partition 1 has none
    (hour,) = lag.latency_by_hour(found).collect()
    assert (hour["records"], hour["unread"], hour["greatest"]) == (95, 40, 72000)
    assert hour["p50"] <= hour["p95"] <= hour["p99"] <= 72000


def test_positions_are_parsed_from_journal_and_commit_bytes(spark: SparkSession) -> None:
    known, earlier = uuid4(), uuid4()
    entries = [
        Covered(SourcePartition(known, 300), 2**40 + 5),
        Covered(SourcePartition(earlier, 0), 7),
        Ack(SourcePartition(known, 0), ClaimId(1, 0), 5, 6),
    ]
    rows = [(bytearray(entry.key()), bytearray(entry.value()), 3) for entry in entries]
    journal = stamped(spark.createDataFrame(rows, "key binary, value binary, second long"), "timestamp")
    (found,) = positions.mirror_positions(journal, "A->B", {known: "flights", UUID(int=0): "other"}).collect()
    assert (found["reader"], found["topic"], found["partition"], found["position"]) == (
        "A->B",
        "flights",
        300,
        2**40 + 5,
    )

    def key(version: int) -> bytes:
        group, topic = "gré".encode(), b"flights"
        return b"".join(
            (version.to_bytes(2), len(group).to_bytes(2), group, len(topic).to_bytes(2), topic, (7).to_bytes(4))
        )

    value = (3).to_bytes(2) + (2**35).to_bytes(8) + bytes(14)
    commits = [(key(1), value), (key(1), None), (key(2), value), (None, value), (key(1), (9).to_bytes(2) + value[2:])]
    frame = spark.createDataFrame([(k, v, 3) for k, v in commits], "key binary, value binary, second long")
    (commit,) = positions.committed_positions(stamped(frame, "timestamp")).collect()
    assert (commit["reader"], commit["topic"], commit["partition"], commit["position"]) == ("gré", "flights", 7, 2**35)
    with_deleted = positions.committed_positions(stamped(frame, "timestamp"), deletions=True)
    assert {(row["reader"], row["topic"], row["partition"], row["position"]) for row in with_deleted.collect()} == {
        ("gré", "flights", 7, 2**35),
        ("gré", "flights", 7, None),
    }


def send(bootstrap: str, topic: str, seconds: float, *, hot: int = 9) -> int:
    """Records for so long, `hot` of ten to partition 0; how many."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0})
    end, count = time.monotonic() + seconds, 0

    def some() -> bool:
        nonlocal count
        for _ in range(10):
            producer.produce(topic, value=b"x" * 100, partition=0 if count % 10 < hot else 1)
            count += 1
        producer.poll(0)
        return time.monotonic() > end

    wait_for("the time is over", some, seconds + 30)
    assert producer.flush(30) == 0
    return count


@pytest.mark.long
def test_analyse_lag_stopped_mirror_is_predicted_to_lose_records(
    spark: SparkSession, engine: Engine, fresh_topic: Callable[[str], str]
) -> None:
    e, topic = engine, engine.topics
    create_topic(e.left, topic, 2, retention_ms="60000")
    worker = e.start()
    wait_for("the worker runs", lambda: e.status_path(0).exists())
    first = send(e.left, topic, 4)
    e.wait_caught_up(topic, 2)
    consumer = Consumer({"bootstrap.servers": e.left, "group.id": f"g-{topic}", "log_level": 0})
    consumer.commit(
        offsets=[At(topic, 0, sum(n % 10 < 9 for n in range(first)) - 5), At(topic, 1, 0)], asynchronous=False
    )
    consumer.close()
    assert e.stop(worker) == 0, e.log()
    later = send(e.left, topic, 20)

    settings, flow = load_mirror_settings(e.properties), Flow(e.source, e.target)
    # Twice the time of the traffic: however long Spark takes to begin, most of what is judged is growth.
    report = analyse_lag(spark, settings, flow, LagRequest((topic,), window_s=40.0, moments=40))
    mirror = {one.partition.partition: one for one in report.mirror}
    behind = {number: one.points[-1].records for number, one in mirror.items()}
    assert sum(behind.values()) == later
    assert mirror[0].judgement.trend is Trend.GROWING
    assert mirror[0].judgement.verdict is Verdict.FAIL, mirror[0].judgement
    assert "retention may reach it" in mirror[0].judgement.why
    assert mirror[0].judgement.soonest_s is not None
    assert mirror[0].judgement.soonest_s < 60
    assert report.verdict is Verdict.FAIL
    assert mirror[0].points[-1].bytes == behind[0] * 100
    group = {one.partition.partition: one.points[-1].records for one in report.groups if one.cluster == e.source}
    ones = sum(n % 10 >= 9 for n in range(first))  # records of partition 1 before
    assert group == {0: behind[0] + 5, 1: behind[1] + ones}
    hot = report.shares[0]
    assert (hot.partition, hot.hot) == (0, False)  # 90 % of two partitions is 1.8 times an even share
    assert report.latencies[0].unread == later
    assert report.latencies[0].p50 is not None
    assert 0 <= report.latencies[0].p50 < 20_000
    other = fresh_topic("other")  # which is not mirrored
    create_topic(e.left, other, 1)
    send(e.left, other, 0.1, hot=10)
    unknown = analyse_lag(spark, settings, flow, LagRequest((other,), window_s=20.0, moments=40))
    assert (unknown.verdict, unknown.series) == (Verdict.UNKNOWN, ())
    assert [
        word in " ".join(unknown.notes) for word in ("no record of it was mirrored", "neither a drlib journal")
    ] == [True] * 2
    with pytest.raises(UsageError, match="has no topic"):
        analyse_lag(spark, settings, flow, LagRequest((fresh_topic("none"),)))
