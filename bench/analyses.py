"""`python -m bench.analyses`: speed and memory of the analyses on topics of two real clusters.

Both topics hold the same records, each of them once, of `RECORD_BYTES` in 8 partitions, of which one has as many as all
others together where `--skewed` is given. Each analysis is a process of its own with a JVM of `--memory`, on local[2];
the JVM's start and the loading of its classes are not counted, reading from the brokers is. It prints a line of
JSON for each, a `Measured`, and fails where an analysis does not say that both clusters agree.
`lag` reads one side. Not for: which records are found (tests), nor for engines (`bench`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.meter import Meter, machine_cpu
from bench.site import create_topics
from bench.wire_load import leader
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.net.connection import ProduceResult
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.batch import OutgoingBatch
from drlib.kafka.protocol.error_codes import raise_for
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.lab import Lab
from drlib.model import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORD_BYTES: Final = 100
PARTITIONS: Final = 8
TOPIC: Final = "bench"
REMOTE: Final = "LEFT.bench"
_BATCH: Final = 1000
_WINDOW: Final = 8


@dataclass(frozen=True, slots=True)
class Measured:
    """`records` are those of both topics; `rate` is of them a second. Memory in bytes, the peaks of JVM and driver.

    `cpu_seconds` are the JVM's and the driver's, without the brokers'.
    """

    analysis: str
    records: int
    seconds: float
    rate: float
    jvm_bytes: int
    driver_bytes: int
    cpu_seconds: float
    busy: float  # cores of the machine that were busy meanwhile, by any process
    load: float  # before it began
    skewed: bool
    memory: str


def batches(records: int, *, skewed: bool) -> Iterator[tuple[int, OutgoingBatch]]:
    """(partition, batch), every record another one."""
    now = int(time.time() * 1000) - 3_600_000
    for number, first in enumerate(range(0, records, _BATCH)):
        partition = 0 if skewed and number % 2 else number % PARTITIONS
        content = [
            recode.Record(n - first, now + n // 1000, b"k%07d" % (n % 99_991), b"%0*d" % (RECORD_BYTES - 8, n))
            for n in range(first, min(first + _BATCH, records))
        ]
        yield (
            partition,
            recode.rebuild(content, codec=0, producer_id=-1, producer_epoch=-1, base_sequence=0),
        )


async def fill(places: Sequence[tuple[str, str]], records: int, *, skewed: bool) -> None:
    """Write the same batches to each (bootstrap, topic)."""
    clients = [ClusterClient(bootstrap.split(",")) for bootstrap, _ in places]
    try:
        topics = [topic for _, topic in places]
        connections = [await leader(client, topic) for client, topic in zip(clients, topics, strict=True)]
        pending: deque[tuple[str, asyncio.Future[list[ProduceResult]]]] = deque()

        async def settle() -> None:
            topic, answer = pending.popleft()
            for result in await answer:
                raise_for(result.error_code, f"filling {topic}", result.error_message)

        for partition, batch in batches(records, skewed=skewed):
            for connection, topic in zip(connections, topics, strict=True):
                pending.append((topic, connection.produce(topic, [(partition, batch)])))
                await connection.drain()
            while len(pending) > _WINDOW * len(places):
                await settle()
        while pending:
            await settle()
    finally:
        for client in clients:
            await client.close()


def audit(spark: SparkSession, left: str, right: str, records: int, sums_from: int = 0) -> bool:
    """By sums first; here they leave nothing to compare."""
    from drlib.analysis.audit.staged import audit_topics
    from drlib.runs.check import Verdict

    found = audit_topics(spark, left, right, TOPIC, REMOTE, sums_from=sums_from)
    return found.verdict is Verdict.PASS and (found.source_records, found.target_records) == (records, records)


def exact(spark: SparkSession, left: str, right: str, records: int) -> bool:
    """Record by record: what an audit costs where every partition differs, after its sums."""
    return audit(spark, left, right, records, sums_from=sys.maxsize)


def buckets(spark: SparkSession, left: str, right: str, records: int) -> bool:
    """In sums of a second, by Structured Streaming, one side after the other."""
    from drlib.analysis.continuous.compare import compare_buckets, plan_audit
    from drlib.analysis.continuous.stream import BucketStream
    from drlib.analysis.spark.topics import cluster_settings
    from drlib.mirror.offsets.map.load_maps import Maps

    plan = plan_audit(left, right, [(TOPIC, REMOTE)], Maps(), 1000)
    with tempfile.TemporaryDirectory() as folder:
        source, target = (
            BucketStream(cluster_settings(where), topics, Path(folder, name), plan.bucket_ms)
            for where, topics, name in ((left, plan.source, "source"), (right, plan.target, "target"))
        )
        for stream in (source, target):
            stream.start(spark)
            while stream.running:
                stream.wait(1)
        report = compare_buckets(spark, plan, source, target, Maps(), lag_s=300)
    read = sum(one.source_records for one in report.partitions), sum(one.target_records for one in report.partitions)
    return read == (records, records) and not report.findings and not report.failures


def duplicates(spark: SparkSession, left: str, right: str, _: int) -> bool:
    """Duplicates and their causes."""
    from drlib.analysis.duplicates.find import find_duplicates

    return not find_duplicates(spark, right, REMOTE, source=left, topic=TOPIC).examples


def lag(spark: SparkSession, left: str, _: str, records: int) -> bool:
    """The lag over time of a reader near the beginning of the source's log; no other topic is read."""
    from pyspark.sql import functions as sf

    from drlib.analysis.lag.frames import lag_at, moments, record_sizes
    from drlib.analysis.spark.topics import read_topic

    written = record_sizes(read_topic(spark, left, TOPIC), TOPIC)
    now = int(time.time() * 1000)
    at = moments(spark, now - 7_200_000, now, 100)
    readers = spark.range(PARTITIONS).select(
        sf.lit("reader").alias("reader"),
        sf.lit(TOPIC).alias("topic"),
        sf.col("id").cast("int").alias("partition"),
        sf.lit(1000).cast("long").alias("position"),
    )
    behind = lag_at(written, readers.crossJoin(at)).groupBy("at").agg(sf.sum("lag_records").alias("records"))
    last = behind.agg(sf.max_by("records", "at")).first()
    return last is not None and last[0] == records - 1000 * PARTITIONS


ANALYSES: Final[Mapping[str, Callable[[SparkSession, str, str, int], bool]]] = {
    "audit": audit,
    "exact": exact,
    "buckets": buckets,
    "duplicates": duplicates,
    "lag": lag,
}


def measure(name: str, left: str, right: str, records: int, *, memory: str, skewed: bool) -> Measured:
    """One analysis in this process. Raises RuntimeError where it does not find what is there."""
    from pyspark import SparkContext

    from drlib.analysis.audit.compare import warm_up
    from drlib.analysis.spark.session import start_in_background

    with start_in_background("bench", warm_up=warm_up, driver_memory=memory, long_runs=True).result() as spark:
        gateway = SparkContext._gateway
        jvm = Meter([gateway.proc.pid] if gateway is not None else [])
        driver = Meter([os.getpid()])
        load = os.getloadavg()[0]
        began, own, machine = time.perf_counter(), jvm.cpu() + driver.cpu(), machine_cpu()
        if not ANALYSES[name](spark, left, right, records):
            raise RuntimeError(f"{name} does not say of two like topics that they are alike")
        seconds = time.perf_counter() - began
        both = records * (1 if name == "lag" else 2)
        return Measured(
            analysis=name,
            records=both,
            seconds=seconds,
            rate=both / seconds,
            jvm_bytes=jvm.peak_rss(),
            driver_bytes=driver.peak_rss(),
            cpu_seconds=jvm.cpu() + driver.cpu() - own,
            busy=(machine_cpu() - machine) / seconds,
            load=load,
            skewed=skewed,
            memory=memory,
        )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.analyses", description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, nargs="+", default=[1_000_000, 10_000_000], help="of each side")
    parser.add_argument("--analyses", default=",".join(ANALYSES))
    parser.add_argument("--memory", default="1g", help="the JVM's heap: driver and executors in one")
    parser.add_argument("--skewed", action="store_true")
    parser.add_argument("--on", nargs=2, metavar=("LEFT", "RIGHT"), help="measure here, on topics that are filled")
    options = parser.parse_args(argv)
    names = options.analyses.split(",")
    if unknown := [name for name in names if name not in ANALYSES]:
        parser.error(f"there is no {', '.join(unknown)}")
    if options.on:
        for name in names:
            left, right = options.on
            found = measure(name, left, right, options.records[0], memory=options.memory, skewed=options.skewed)
            print(json.dumps(asdict(found)), flush=True)
        return 0
    for records in options.records:
        if failed := on_a_lab(names, records, memory=options.memory, skewed=options.skewed):
            return failed
    return 0


def on_a_lab(names: Sequence[str], records: int, *, memory: str, skewed: bool) -> int:
    """Fill two clusters of their own and measure each analysis in a process of its own; the exit code of one that failed."""
    with tempfile.TemporaryDirectory() as folder, Lab(Path(folder)) as lab:
        sides = [lab.clusters[alias].bootstrap for alias in ("LEFT", "RIGHT")]
        places = list(zip(sides, (TOPIC, REMOTE), strict=True))
        for bootstrap, topic in places:
            create_topics(bootstrap, [topic], PARTITIONS, {"retention.ms": "-1"})
            with Cluster(ClusterSettings(bootstrap, (bootstrap,))) as cluster:
                cluster.log_ends([TopicPartition(topic, n) for n in range(PARTITIONS)])  # once all have leaders
        began = time.perf_counter()
        asyncio.run(fill(places, records, skewed=skewed))
        print(f"{records:,} records a side were written in {time.perf_counter() - began:.1f} s", file=sys.stderr)
        same = ["--records", str(records), "--memory", memory, *(["--skewed"] if skewed else [])]
        for name in names:
            command = [sys.executable, "-m", "bench.analyses", "--on", *sides, "--analyses", name, *same]
            if failed := subprocess.run(command, check=False).returncode:
                return failed
    return 0


if __name__ == "__main__":
    sys.exit(main())
