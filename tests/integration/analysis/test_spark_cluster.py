"""The same analysis on this process's two cores and on a Spark cluster comes to the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer
from fix_engine import create_topic
from fix_spark_cluster import SparkCluster
from pyspark.sql import SparkSession

from drlib.analysis.audit.staged import audit_topics
from drlib.analysis.lag import frames as lag
from drlib.analysis.spark.topics import read_topic

RECORDS, PARTITIONS = 3000, 4


@pytest.mark.long
def test_audit_on_spark_cluster_equals_local_result(
    spark: SparkSession, spark_cluster: SparkCluster, left: str, right: str, fresh_topic: Callable[[str], str]
) -> None:
    topic = fresh_topic("flights")
    remote = f"LEFT.{topic}"
    for bootstrap, name, numbers in (
        (left, topic, list(range(RECORDS))),
        (right, remote, [*range(1000), 700, *range(1001, RECORDS)]),  # 1000 is missing, 700 is there twice
    ):
        create_topic(bootstrap, name, PARTITIONS, retention_ms="-1")
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0})
        for number in numbers:
            producer.produce(
                name,
                key=b"k%d" % (number % 50),
                value=b"%d" % number,
                partition=number % PARTITIONS,
                timestamp=1_790_000_000_000 + number,
                headers=[("id", b"%d" % number)],
            )
        assert producer.flush(30) == 0
    local = audit_topics(spark, left, right, topic, remote)
    sizes = lag.partition_totals(lag.record_sizes(read_topic(spark, left, topic), topic)).orderBy("partition").collect()
    on_cluster = spark_cluster.submit("spark_program.py", left, right, topic, remote)
    assert on_cluster["master"] == spark_cluster.master
    assert on_cluster["executors"] == 2
    assert (on_cluster["verdict"], on_cluster["missing"], on_cluster["duplicated"]) == (
        local.verdict.value,
        local.missing,
        local.duplicated,
    )
    assert (local.missing, local.duplicated) == (1, 1)
    assert on_cluster["source_records"] == RECORDS
    assert on_cluster["by_partition"] == [[row["partition"], row["records"], row["bytes"]] for row in sizes]
