"""Audits by sums first, on real brokers: the result equals a comparison of every record, whatever differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pytest
from confluent_kafka import Producer
from fix_engine import create_topic
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from drlib.analysis.audit import sequences
from drlib.analysis.audit import staged as staged_audit
from drlib.analysis.audit.compare import audit_frames
from drlib.analysis.audit.result import AuditResult
from drlib.analysis.audit.sequences import TopicSide, compare_sums
from drlib.analysis.audit.staged import audit_topics
from drlib.analysis.spark import topics as topics_module
from drlib.analysis.spark.topics import max_offsets_per_task, pin_range, read_range
from drlib.mirror.mm2.records import Checkpoint
from drlib.model import TopicPartition
from drlib.runs.check import Verdict

BEGIN_MS = 1_790_000_000_000
PIECE = 32  # so that a few hundred records are many pieces
COUNT = 200
Fresh = Callable[[str], str]
MUCH = 10**12


@dataclass(frozen=True)
class Record:
    key: bytes
    value: bytes | None
    at_ms: int
    headers: tuple[tuple[str, bytes | None], ...]


Log = Sequence[Record]


def log(partition: int) -> list[Record]:
    """Five keys; numbers 7 and 8 are alike."""
    return [
        Record(
            b"k%d" % (n % 5),
            None if n == 20 else b"v-%d-%d" % (partition, n),
            BEGIN_MS + 10 * n,
            (("id", b"%d" % (partition * 1000 + n)), ("note", None if n % 2 else b"")) if partition % 2 else (),
        )
        for n in (7 if n == 8 else n for n in range(COUNT))
    ]


def backwards(records: Log) -> list[Record]:
    return [replace(one, at_ms=BEGIN_MS - one.at_ms + BEGIN_MS) for one in records]


def same(records: Log) -> Log:
    return records


# What the target holds of a partition of the source: nothing here needs more than the end of the partition looked at.
ENDS: Mapping[str, Callable[[Log], Log]] = {
    "all": same,
    "lags": lambda r: r[:170],
    "lags by one": lambda r: r[:-1],
    "lags from where a piece ends": lambda r: r[: 5 * PIECE],
    "lost one": lambda r: [*r[:130], *r[131:]],
    "lost one, and lags": lambda r: [*r[:130], *r[131:180]],
    "in another order of one key": lambda r: [*r[:120], r[125], *r[121:125], r[120], *r[126:]],
    "in another order of two keys": lambda r: [*r[:120], r[121], r[120], *r[122:]],
    "nothing": lambda r: [],
    "lost one of two alike": lambda r: [*r[:8], *r[9:]],
}
WHOLES: Mapping[str, Callable[[Log], Log]] = {
    "lags": lambda r: r[:170],
    "again, much later": lambda r: [*r, r[3]],
    "altered": lambda r: [*r[:130], replace(r[130], value=b"?"), *r[131:]],
    "later by one": lambda r: [*r[:130], replace(r[130], at_ms=r[130].at_ms + 1), *r[131:]],
    "invented": lambda r: [*r[:150], Record(b"k1", b"never sent", BEGIN_MS, ()), *r[150:]],
}


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequences, "PIECE", PIECE)


def write(bootstrap: str, topic: str, partition: int, records: Log, transaction: bool | None = None) -> None:
    """In a transaction where `transaction` says how it ends."""
    settings: dict[str, object] = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
    if transaction is not None:
        settings["transactional.id"] = f"{topic}-{partition}"
    producer = Producer(settings)
    if transaction is not None:
        producer.init_transactions(30)
        producer.begin_transaction()
    for one in records:
        producer.produce(
            topic,
            key=one.key,
            value=one.value,
            partition=partition,
            timestamp=one.at_ms,
            headers=list(one.headers),
        )
    assert producer.flush(30) == 0
    if transaction is not None:
        (producer.commit_transaction if transaction else producer.abort_transaction)(30)


def fill(left: str, right: str, topic: str, cases: Mapping[str, Callable[[Log], Log]]) -> str:
    """A partition for each case, two empty ones, and one with transactions and with times that run backwards."""
    count = len(cases) + 3
    remote = f"LEFT.{topic}"
    for bootstrap, name in ((left, topic), (right, remote)):
        create_topic(bootstrap, name, count, retention_ms="-1")
    for number, change in enumerate(cases.values()):
        write(left, topic, number, log(number))
        write(right, remote, number, change(log(number)))
    number = len(cases)  # the two behind it stay empty
    records = backwards(log(number))
    write(left, topic, number, records[:90])
    write(left, topic, number, records[:50], transaction=False)
    write(left, topic, number, records[90:], transaction=True)
    write(right, remote, number, records[:170])
    return remote


def both_ways(spark: SparkSession, left: str, right: str, topic: str, remote: str) -> tuple[AuditResult, AuditResult]:
    checkpoints = [
        Checkpoint(group, TopicPartition(remote, partition), at, at + off)
        for partition in (0, 1, 4, 6)
        for at in (3, 110, 125, 165)
        for group, off in ((f"exact-{at}", 0), (f"ahead-{at}", 1), (f"behind-{at}", -1))
    ]
    one, other = (
        audit_topics(spark, left, right, topic, remote, checkpoints=checkpoints, sums_from=least) for least in (0, MUCH)
    )
    return one, other


@pytest.mark.long
@pytest.mark.timeout(400)
def test_staged_audit_equal_or_lagging_partitions_match_full_audit(
    spark: SparkSession, left: str, right: str, fresh_topic: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = fresh_topic("ends")
    remote = fill(left, right, topic, ENDS)
    found = compare_sums(spark, TopicSide(left, pin_range(left, topic)), TopicSide(right, pin_range(right, remote)))
    assert [number for number, one in found.items() if one.whole] == [0]
    assert [found[n].records for n in range(1, 10)] == [128, 160, 128, 96, 96, 64, 64, 0, 0]
    compared: list[int] = []
    exact = audit_frames

    def counted(*args: object, **more: object) -> AuditResult:
        result: AuditResult = exact(*args, **more)  # type: ignore[arg-type]
        compared.append(result.source_records or 0)
        return result

    monkeypatch.setattr(staged_audit, "audit_frames", counted)
    staged, whole = both_ways(spark, left, right, topic, remote)
    assert staged == whole
    assert whole.verdict is Verdict.FAIL
    # once, and of the nine that begin alike the ends alone; where times run backwards, the whole partition
    assert compared == [sum(COUNT - found[n].records for n in range(1, 10)) + COUNT, COUNT * (len(ENDS) + 1)]


@pytest.mark.long
@pytest.mark.timeout(400)
def test_staged_audit_differences_match_full_audit(
    spark: SparkSession, left: str, right: str, fresh_topic: Fresh
) -> None:
    topic = fresh_topic("wholes")
    remote = fill(left, right, topic, WHOLES)
    staged, whole = both_ways(spark, left, right, topic, remote)
    assert staged == whole
    assert (whole.duplicated, whole.altered, whole.invented) == (1, 2, 1)


def test_read_topic_large_partition_is_read_by_several_tasks(
    spark: SparkSession, left: str, right: str, fresh_topic: Fresh, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics_module, "MIN_OFFSETS_PER_TASK", 100)
    topic = fresh_topic("skewed")
    remote = f"LEFT.{topic}"
    records = [record for n in range(9) for record in log(n)]
    for bootstrap, name in ((left, topic), (right, remote)):
        create_topic(bootstrap, name, 4, retention_ms="-1")
        write(bootstrap, name, 2, records)
        for number in (0, 1, 3):
            write(bootstrap, name, number, log(number))
    pinned = pin_range(left, topic)
    most = max_offsets_per_task(pinned.offsets, 2)
    assert most == 800
    tasks = {
        split: read_range(spark, left, pinned, split=split)
        .groupBy(sf.spark_partition_id().alias("task"), "partition")
        .count()
        .collect()
        for split in (True, False)
    }
    assert sorted((row["partition"], row["count"]) for row in tasks[False]) == [(0, 200), (1, 200), (2, 1800), (3, 200)]
    sizes = sorted((row["partition"], row["count"]) for row in tasks[True])
    assert sizes == [(0, 200), (1, 200), (2, 600), (2, 600), (2, 600), (3, 200)]
    assert len({row["task"] for row in tasks[True]}) == 6
    staged = audit_topics(spark, left, right, topic, remote, sums_from=0)
    assert (staged.verdict, staged.source_records, staged.missing) == (Verdict.PASS, 2400, 0)
    write(left, topic, 2, records[:50])
    lagging = audit_topics(spark, left, right, topic, remote, sums_from=0)
    assert (lagging.verdict, lagging.missing, lagging.missing_in_tail) == (Verdict.PASS, 50, True)
    assert [row.source_records for row in lagging.per_partition] == [200, 200, 1850, 200]
