"""Applications that keep their own offsets move between two real clusters and back: a Spark query, a database."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from fix_engine import Engine, create_topic, produce, wait_for, wait_for_markers
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StreamingQuery

from drlib import translate_offsets
from drlib.errors import UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.status import worker_status as status
from drlib.model import TopicPartition as Partition
from drlib.model import TranslationKind

PARTITIONS = 3  # the last one stays empty: a checkpoint names it all the same


def transactions(bootstrap: str, topic: str, name: str, first: int, count: int) -> set[str]:
    """Records in transactions of ten, every fourth aborted; the values that were committed."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(30)
    committed: set[str] = set()
    for start in range(first, first + count, 10):
        producer.begin_transaction()
        values = [f"{name}-{number}" for number in range(start, start + 10)]
        for number, value in enumerate(values):
            producer.produce(topic, value=value.encode(), partition=number % (PARTITIONS - 1))
        producer.flush(30)
        if start // 10 % 4 == 3:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
            committed.update(values)
    wait_for_markers(bootstrap, topic, PARTITIONS)
    return committed


class Job:
    """A Structured Streaming query; its output counts once the batch is committed."""

    def __init__(self, spark: SparkSession, root: Path, name: str) -> None:
        self.spark = spark
        self.checkpoint, self.out = root / name / "checkpoint", root / name / "out"

    def start(self, bootstrap: str, starting: Mapping[str, Mapping[str, int]], *, to_the_end: bool) -> StreamingQuery:
        read = (
            self.spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", bootstrap)
            .option("assign", json.dumps({t: sorted(map(int, at)) for t, at in starting.items()}))
            .option("startingOffsets", json.dumps(starting))
            .option("kafka.isolation.level", "read_committed")
            .option("maxOffsetsPerTrigger", 150)
            .load()
            .select(sf.col("value").cast("string").alias("value"))
        )
        out = str(self.out)

        def write(batch: DataFrame, number: int) -> None:
            batch.write.mode("overwrite").parquet(f"{out}/{number}")

        writing = read.writeStream.foreachBatch(write).option("checkpointLocation", str(self.checkpoint))
        return (
            writing.trigger(availableNow=True) if to_the_end else writing.trigger(processingTime="0 seconds")
        ).start()

    def committed(self) -> list[int]:
        folder = self.checkpoint / "commits"
        return sorted(int(p.name) for p in folder.iterdir() if p.name.isdecimal()) if folder.is_dir() else []

    def run_for(self, query: StreamingQuery, batches: int) -> None:
        """Wait until `batches` are committed, then stop the query wherever it is."""
        wait_for(f"{batches} batches", lambda: len(self.committed()) >= batches or query.exception() is not None, 90)
        assert query.exception() is None, query.exception()
        query.stop()

    def values(self) -> DataFrame:
        return self.spark.read.parquet(*[f"{self.out}/{number}" for number in self.committed()])


def wait_mirrored(e: Engine, flow: str, bootstrap: str) -> None:
    """Wait until the worker has mirrored everything that `flow` has on its source now."""
    with Cluster(ClusterSettings("SOURCE", (bootstrap,), {})) as cluster:
        ends = cluster.log_ends(Partition(e.topics, number) for number in range(PARTITIONS))

    def mirrored() -> bool:
        try:
            flows = status.read(e.status_path(0)).flows
        except UsageError:  # no status file yet
            return False
        positions = {
            p.partition: p.mirrored for f in flows if str(f.flow) == flow for p in f.partitions if p.topic == e.topics
        }
        return all(positions.get(partition.partition, -1) >= end for partition, end in ends.items())

    wait_for(f"{flow} has everything", mirrored)


def drlib_translate(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "drlib.cli", "translate", *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def both_ways(engine: Engine) -> Engine:
    """A worker that mirrors both ways, and the topic on both sides."""
    engine.extra[f"{engine.target}->{engine.source}.enabled"] = "true"
    create_topic(engine.left, engine.topics, PARTITIONS)
    create_topic(engine.right, engine.topics, PARTITIONS)
    return engine


@pytest.mark.long
def test_translate_streaming_query_both_ways_loses_and_doubles_no_record(
    spark: SparkSession, both_ways: Engine, tmp_path: Path
) -> None:
    e, topic = both_ways, both_ways.topics
    forth, back = f"{e.source}->{e.target}", f"{e.target}->{e.source}"
    written = transactions(e.left, topic, f"{topic}-left", 0, 600)
    e.start()
    wait_mirrored(e, forth, e.left)

    on_left = Job(spark, tmp_path, "on-left")
    beginning = {topic: {str(p): 0 for p in range(PARTITIONS)}}
    on_left.run_for(on_left.start(e.left, beginning, to_the_end=False), 2)
    result = drlib_translate(str(e.properties), "--flow", forth, "--offsets", str(on_left.checkpoint), "--json")
    assert result.returncode == 0, result.stderr + result.stdout
    over = json.loads(result.stdout)
    assert list(over) == [f"{e.source}.{topic}"]
    assert sorted(over[f"{e.source}.{topic}"]) == ["0", "1", "2"]

    written |= transactions(e.left, topic, f"{topic}-left", 600, 200)
    written |= transactions(e.right, topic, f"{topic}-right", 0, 400)  # read on RIGHT besides the mirror
    on_right = Job(spark, tmp_path, "on-right")
    on_right.run_for(on_right.start(e.right, {**over, **beginning}, to_the_end=False), 3)
    wait_mirrored(e, back, e.right)
    rows = drlib_translate(str(e.properties), "--flow", back, "--offsets", str(on_right.checkpoint), "--as", "rows")
    home = drlib_translate(str(e.properties), "--flow", back, "--offsets", str(on_right.checkpoint), "--as", "spark")
    assert home.returncode == 0, home.stderr + rows.stdout
    assert {row["kind"] for row in json.loads(rows.stdout)} == {"exact"}
    starting = json.loads(home.stdout)
    assert sorted(starting) == sorted([topic, f"{e.target}.{topic}"])

    at_home = Job(spark, tmp_path, "at-home")
    assert at_home.start(e.left, starting, to_the_end=True).awaitTermination(90)
    read = on_left.values().union(on_right.values()).union(at_home.values())
    counts = read.groupBy("value").count()
    assert counts.where("count > 1").count() == 0
    assert {row["value"] for row in counts.collect()} == written
    assert all(job.values().count() > 0 for job in (on_left, on_right, at_home))


@pytest.mark.long
def test_translate_database_rows_reports_unknown_positions_with_reason(both_ways: Engine, tmp_path: Path) -> None:
    e, topic = both_ways, both_ways.topics
    produce(e.left, topic, 900, partitions=2)
    worker = e.start()
    wait_mirrored(e, f"{e.source}->{e.target}", e.left)
    table = sqlite3.connect(tmp_path / "billing.db")
    table.execute("create table seen (value text primary key)")
    table.execute("create table at (topic text, partition int, next int, primary key (topic, partition))")
    table.executemany("insert into at values (?, ?, 0)", [(topic, p) for p in range(PARTITIONS)])
    work(e.left, table, 300)
    (seen,) = table.execute("select count(*) from seen").fetchone()
    assert 300 <= seen < 900

    rows = table.execute("select topic, partition, next from at order by partition").fetchall()
    translations = translate_offsets(e.properties, e.source, e.target, rows)
    assert [t.translation.kind for t in translations] == [TranslationKind.EXACT] * PARTITIONS, translations
    moved = [(t.target.topic, t.target.partition, t.translation.offset) for t in translations if t.target is not None]
    with table:
        table.execute("delete from at")
        table.executemany("insert into at values (?, ?, ?)", moved)
    work(e.right, table, 900 - seen)  # raises where a record comes twice
    assert table.execute("select count(*) from seen").fetchone() == (900,)

    dead = tmp_path / "left-is-dead.properties"  # no process listens on port 1
    dead.write_text(e.properties.read_text().replace(e.left, "127.0.0.1:1"))
    queries = [*rows, (f"{e.target}.{topic}", 0, 3)]
    *forward, back = translate_offsets(dead, e.source, e.target, queries)
    assert [(t.target, t.translation) for t in forward] == [(t.target, t.translation) for t in translations]
    assert (back.translation.kind, back.known) == (TranslationKind.UNKNOWN, False)
    assert "does not answer" in back.why

    assert e.stop(worker) == 0, e.log()
    produce(e.left, topic, 40, partitions=1, first=900)
    file = tmp_path / "offsets.json"
    rows = [(topic, 0, 490), (topic, 1, 451), (topic, 7, 3), ("elsewhere", 0, 3)]
    file.write_text(json.dumps([{"topic": t, "partition": p, "offset": o, "job": "b"} for t, p, o in rows]))
    result = drlib_translate(str(e.properties), "--flow", f"{e.source}->{e.target}", "--offsets", str(file), "--json")
    assert result.returncode == 3, result.stderr
    answers = json.loads(result.stdout)
    assert [(row["kind"], row["records"], row["job"]) for row in answers] == [
        ("behind", 40, "b"),
        ("unknown", 0, "b"),
        ("unknown", 0, "b"),
        ("unknown", 0, "b"),
    ]
    assert [row["offset"] is None for row in answers] == [False, True, True, True]
    assert "ends at 450" in answers[1]["why"]
    assert "has no partition" in answers[2]["why"]
    assert len(result.stderr.splitlines()) == 4
    spark_form = drlib_translate(
        str(e.properties), "--flow", f"{e.source}->{e.target}", "--offsets", str(file), "--as", "spark"
    )
    assert (spark_form.returncode, spark_form.stdout) == (2, "")
    table_output = drlib_translate(str(e.properties), "--flow", f"{e.source}->{e.target}", "--offsets", str(file))
    assert table_output.returncode == 3
    assert "behind by 40" in table_output.stdout


def work(bootstrap: str, table: sqlite3.Connection, at_least: int) -> None:
    """Read on from the positions in the table; each record and the next position in one transaction."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False})
    try:
        positions = table.execute("select topic, partition, next from at").fetchall()
        consumer.assign([TopicPartition(topic, partition, offset) for topic, partition, offset in positions])
        done = 0

        def some() -> bool:
            nonlocal done
            for message in consumer.consume(50, timeout=0.1):
                assert message.error() is None, message.error()
                done += 1
                with table:
                    table.execute("insert into seen values (?)", [message.value().decode()])
                    where = (message.offset() + 1, message.topic(), message.partition())
                    table.execute("update at set next = ? where topic = ? and partition = ?", where)
            return done >= at_least

        wait_for(f"{at_least} records", some)
    finally:
        consumer.close()
