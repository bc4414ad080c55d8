"""Both sides followed by Structured Streaming on real brokers: nothing counted twice, late records seen, faults named."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from confluent_kafka import Producer
from fix_engine import Engine, create_topic, wait_for
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from repository_root import ROOT

from drlib.analysis.continuous import bucket_sums as sums_module
from drlib.analysis.continuous.bucket_sums import COUNTS, PLACE, bucket_sums
from drlib.analysis.continuous.rules import BucketState, Difference
from drlib.analysis.continuous.stream import BucketStream, FollowedTopic
from drlib.analysis.sessions.analysed_flow import AnalysedFlow
from drlib.analysis.sessions.continuous_audit import ContinuousAudit
from drlib.analysis.sessions.session import AnalysisRun
from drlib.analysis.spark.topics import cluster_settings, pin_range, read_topic
from drlib.config.settings import load_mirror_settings
from drlib.errors import LeaseHeld, StalePlan
from drlib.model import Flow

PARTITIONS = 2
MINUTE_MS = 60_000
BEGIN_MS = (int(time.time() * 1000) - 3_600_000) // MINUTE_MS * MINUTE_MS
FIELDS = [*PLACE, *COUNTS, "first", "last"]


def write(bootstrap: str, topic: str, records: Iterable[tuple[int, int]], *, commit: bool | None = None) -> None:
    """(number, timestamp in ms) each; in a transaction that `commit` ends, if it is given."""
    settings: dict[str, object] = {
        "bootstrap.servers": bootstrap,
        "enable.idempotence": True,
        "linger.ms": 5,
        "log_level": 0,
    }
    if commit is not None:
        settings["transactional.id"] = f"{topic}-{commit}"
    producer = Producer(settings)
    if commit is not None:
        producer.init_transactions(30)
        producer.begin_transaction()
    for number, at_ms in records:
        producer.produce(
            topic,
            key=None if number % 7 == 0 else b"k%d" % (number % 50),
            value=None if number % 13 == 0 else b"%d" % number,
            headers=[("id", b"%d" % number), ("trace", None if number % 2 else b"")],
            partition=number % PARTITIONS,
            timestamp=at_ms,
        )
    assert producer.flush(30) == 0
    if commit is not None:
        (producer.commit_transaction if commit else producer.abort_transaction)(30)


def spread(first: int, count: int, span_ms: int = 10 * MINUTE_MS) -> list[tuple[int, int]]:
    return [(first + n, BEGIN_MS + n * span_ms // count) for n in range(count)]


def stream(bootstrap: str, topic: str, folder: Path) -> BucketStream:
    found = FollowedTopic(
        topic, topic, pin_range(bootstrap, topic).topic_id, False, dict.fromkeys(range(PARTITIONS), 0)
    )
    return BucketStream(cluster_settings(bootstrap), [found], folder, MINUTE_MS, batch_offsets=400)


def read_on(spark: SparkSession, one: BucketStream) -> None:
    one.start(spark)
    wait_for("the ends are read", lambda: not one.running)
    assert one.failure() is None
    assert one.read_to_ms() is not None


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.select(*FIELDS).collect())


def truth(spark: SparkSession, bootstrap: str, topic: str) -> list[tuple[object, ...]]:
    """The same sums from one reading of the whole topic."""
    records = read_topic(spark, bootstrap, topic).withColumn("topic", sf.lit(topic))
    return rows(bucket_sums(records, MINUTE_MS))


def kept(spark: SparkSession, one: BucketStream) -> list[tuple[object, ...]]:
    return rows(one.sums.totals(spark, one.position().batch))


@pytest.fixture
def topic(left: str, fresh_topic: Callable[[str], str]) -> str:
    name = fresh_topic("orders")
    create_topic(left, name, PARTITIONS, retention_ms="-1")
    return name


def test_sums_folder_batch_run_again_counts_once(spark: SparkSession, left: str, topic: str, tmp_path: Path) -> None:
    write(left, topic, spread(0, 300))
    write(left, topic, spread(300, 100), commit=False)
    write(left, topic, spread(400, 100), commit=True)
    one = stream(left, topic, tmp_path)
    read_on(spark, one)
    expected = truth(spark, left, topic)
    assert sum(row[FIELDS.index("records")] for row in expected) == 400  # type: ignore[misc]
    assert kept(spark, one) == expected
    last = one.position().batch
    assert last >= 1
    # What a kill leaves between writing a batch and committing it; the second time, in the middle of writing it.
    for torn in (False, True):
        for path in (tmp_path / "checkpoint" / "commits").glob(f"*{last}*"):
            path.unlink()
        assert kept(spark, one) != expected  # what is not committed is not counted
        if torn:
            for path in (tmp_path / "sums" / f"batch-{last}").iterdir():
                path.write_bytes(b"torn") if path.suffix == ".parquet" else path.unlink()
        read_on(spark, stream(left, topic, tmp_path))
        assert kept(spark, one) == expected


@pytest.mark.long
def test_sums_folder_folding_keeps_totals_and_late_records(
    spark: SparkSession, left: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sums_module, "FOLD_AT", 3)
    write(left, topic, spread(0, 1500))
    one = stream(left, topic, tmp_path)
    read_on(spark, one)
    assert kept(spark, one) == truth(spark, left, topic)
    assert one.position().batch >= 3
    # What came in a later batch than a later minute is late, folded or not.
    write(left, topic, [(2000 + n, BEGIN_MS + 1000) for n in range(60)])
    read_on(spark, one)
    assert len(list((tmp_path / "sums").glob("upto-*"))) == 1  # folded, and a former fold is gone
    assert kept(spark, one) == truth(spark, left, topic)
    totals = one.sums.totals(spark, one.position().batch)
    (late,) = totals.where(f"bucket_ms = {BEGIN_MS}").agg(sf.sum("late")).collect()
    assert late[0] >= 60
    before = late[0]
    for number in range(3):
        write(left, topic, [(3000 + 2 * number, BEGIN_MS + 11 * MINUTE_MS)])
        read_on(spark, one)
    (late,) = (
        one.sums.totals(spark, one.position().batch).where(f"bucket_ms = {BEGIN_MS}").agg(sf.sum("late")).collect()
    )
    assert late[0] == before


@pytest.mark.long
def test_continuous_audit_follows_mirror_and_names_difference(
    spark: SparkSession, engine: Engine, tmp_path: Path
) -> None:
    topic = engine.topics
    create_topic(engine.left, topic, PARTITIONS)
    write(engine.left, topic, spread(0, 2000))
    write(engine.left, topic, spread(2000, 100), commit=True)
    write(engine.left, topic, spread(2100, 100), commit=False)
    worker = engine.start()
    engine.wait_caught_up(topic, PARTITIONS)

    def opened(name: str) -> ContinuousAudit:
        folder = tmp_path / name
        folder.mkdir()
        settings = load_mirror_settings(engine.properties)
        analysed = AnalysedFlow(settings, Flow(engine.source, engine.target), lambda: None)
        return ContinuousAudit(AnalysisRun("continuous-audit", folder, analysed, [topic]), tmp_path / "state")

    def seen(audit: ContinuousAudit) -> set[object]:
        (row,) = audit.compare().rows
        return {row[f"on {engine.source}"], row[f"on {engine.target}"]}

    def verdict(audit: ContinuousAudit) -> str:
        audit.conclude()
        return str(json.loads((audit.run_dir / "scorecard.json").read_text())["verdict"])

    with opened("first") as audit:
        with pytest.raises(LeaseHeld):
            opened("second")
        (row,) = audit.catch_up().rows
        assert (row[f"on {engine.source}"], row[f"on {engine.target}"], row["late"]) == (2100, 2100, 0)
        assert row["equal"] == row["buckets"] == 20
        assert verdict(audit) == "pass"
        # followed, while records come and are mirrored; fifty of them late
        audit.start(0.3)
        write(engine.left, topic, [(4000 + n, BEGIN_MS + 12 * MINUTE_MS) for n in range(50)])
        wait_for("the new ones are seen", lambda: seen(audit) == {2150})
        write(engine.left, topic, [(4100 + n, BEGIN_MS) for n in range(50)])
        wait_for("the late ones are seen", lambda: seen(audit) == {2200})
        (row,) = audit.compare().rows
        assert (row["late"], row["equal"], row["buckets"]) == (50, 22, 22)
    assert engine.stop(worker) == 0
    # a record that the mirror did not write, and then more that it did
    stray_ms = BEGIN_MS + 3 * MINUTE_MS + 1
    write(engine.right, f"{engine.source}.{topic}", [(9000, stray_ms)])
    with opened("third") as audit:
        (row,) = audit.catch_up().rows
        assert (row["equal"], row["not yet"], row["differs"]) == (21, 1, 0)
        assert verdict(audit) == "conditions"
        engine.start()
        write(engine.left, topic, [(5000 + n, BEGIN_MS + 13 * MINUTE_MS) for n in range(20)])
        engine.wait_caught_up(topic, PARTITIONS)
        (row,) = audit.catch_up().rows
        assert (row["buckets"], row["equal"], row["differs"]) == (24, 23, 1)
        assert audit.report is not None
        (found,) = audit.report.findings
        assert (found.state, found.what) == (BucketState.DIFFERS, Difference.MORE)
        assert (found.bucket.partition.partition, found.bucket.start_ms) == (0, BEGIN_MS + 3 * MINUTE_MS)
        (shown,) = audit.evidence().rows
        assert (shown["fault"], shown["on the source"]) == ("invented", "-")
        assert verdict(audit) == "fail"
    plan = tmp_path / "state" / "plan.json"
    plan_json = json.loads(plan.read_text())
    plan_json["source"][0]["topic_id"] = "another"
    plan.write_text(json.dumps(plan_json))
    with opened("fourth") as audit, pytest.raises(StalePlan):
        audit.followed()


KILLED = """
import sys, time
from pathlib import Path
from pyspark import SparkContext
from drlib.analysis.continuous.stream import BucketStream, FollowedTopic
from drlib.analysis.spark.session import spark_session
from drlib.analysis.spark.topics import cluster_settings

bootstrap, topic, folder = sys.argv[1:]
spark = spark_session("followed")
topics = [FollowedTopic(topic, topic, "", False, {0: 0, 1: 0})]
one = BucketStream(cluster_settings(bootstrap), topics, Path(folder), 60000, batch_offsets=200)
one.start(spark, 0.01)
print(SparkContext._gateway.proc.pid, flush=True)
while one.running:
    one.wait(1)
"""


@pytest.mark.long
@pytest.mark.timeout(300)
def test_bucket_stream_killed_anywhere_counts_every_record_once(
    spark: SparkSession, left: str, topic: str, tmp_path: Path
) -> None:
    write(left, topic, spread(0, 6000))
    for upto in (3, 7, 12):
        with (tmp_path / "log").open("ab") as log:
            child = subprocess.Popen(
                [sys.executable, "-c", KILLED, left, topic, str(tmp_path / "state")],
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
            )
        assert child.stdout is not None
        with child.stdout as output:
            jvm = int(output.readline())
            begun = tmp_path / "state" / "checkpoint" / "offsets" / str(upto)
            wait_for(f"batch {upto} is planned", begun.exists)
            os.kill(jvm, signal.SIGKILL)
            child.kill()
            child.wait(10)
    one = stream(left, topic, tmp_path / "state")
    read_on(spark, one)
    assert kept(spark, one) == truth(spark, left, topic)
