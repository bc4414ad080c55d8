"""Bad input for the analyses on real brokers, which ends in an error with its exit code and never in a wrong verdict.

A log cleaner on one side only, records that expire while they are read, odd bytes, an unreachable cluster, no jars, no Java.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from fix_engine import create_topic, wait_for
from pyspark.sql import SparkSession
from repository_root import ROOT

from drlib.analysis.lag import report as lag_report
from drlib.analysis.lag.report import analyse_lag
from drlib.analysis.lag.result import LagRequest
from drlib.analysis.sessions.analysed_flow import AnalysedFlow, open_flow
from drlib.analysis.sessions.duplicates_audit import DuplicatesAudit
from drlib.analysis.sessions.nightly_audit import NightlyAudit
from drlib.analysis.sessions.session import AnalysisRun
from drlib.analysis.spark import topics
from drlib.config.settings import load_mirror_settings
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Range
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab.lab import Lab
from drlib.model import Flow
from drlib.model import TopicPartition as Partition
from drlib.runs.check import Verdict
from drlib.runs.scorecard import Scorecard

FLOW = "LEFT->RIGHT"
CLEANED = {  # a segment a quarter of a second, and dirty at the first byte
    "cleanup.policy": "compact",
    "segment.ms": "250",
    "min.cleanable.dirty.ratio": "0.001",
    "max.compaction.lag.ms": "1",
    "delete.retention.ms": "0",
}
pytestmark = [pytest.mark.long, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Brokers whose log cleaner runs five times a second."""
    with Lab(tmp_path_factory.mktemp("bad") / "lab", extra={"log.cleaner.backoff.ms": "200"}) as started:
        yield started


def bootstraps(lab: Lab) -> tuple[str, str]:
    return lab.clusters["LEFT"].bootstrap, lab.clusters["RIGHT"].bootstrap


def properties(folder: Path, left: str, right: str, topics: str) -> Path:
    path = folder / "mirror.properties"
    path.write_text(
        f"clusters = LEFT, RIGHT\nLEFT.bootstrap.servers = {left}\nRIGHT.bootstrap.servers = {right}\n"
        f"LEFT->RIGHT.enabled = true\ntopics = {topics}\n"
    )
    return path


def flow_of(lab: Lab, folder: Path, topics: str) -> AnalysedFlow:
    return open_flow(str(properties(folder, *bootstraps(lab), topics)), "", FLOW)


def checks(folder: Path) -> dict[str, Verdict]:
    return {check.name: check.verdict for check in Scorecard.read(folder / "scorecard.json").checks}


Row = tuple[bytes | None, bytes | None]


def send(bootstrap: str, topic: str, rows: Sequence[Row], at_ms: int, first: int = 0) -> None:
    """`rows` into partition 0, a millisecond apart."""
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 6_000_000, "log_level": 0})
    for number, (key, value) in enumerate(rows, first):
        producer.produce(topic, value, key, 0, timestamp=at_ms + number)
    assert producer.flush(60) == 0


def record_count(bootstrap: str, topic: str) -> int:
    """How many records a topic's partition 0 still has."""
    partition = Partition(topic, 0)
    with Cluster(ClusterSettings("ONE", (bootstrap,))) as cluster:
        (start,), (end,) = cluster.log_starts([partition]).values(), cluster.log_ends([partition]).values()
        return sum(1 for _ in cluster.read({partition: Range(start, end)}))


def keyed(keys: int, times: int) -> list[Row]:
    return [(f"k{n % keys}".encode(), f"{n}".encode()) for n in range(keys * times)]


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("cleaned", ["LEFT", "RIGHT"])
def test_audit_real_log_cleaner_is_no_fault_and_hides_none(lab: Lab, tmp_path: Path, cleaned: str) -> None:
    left, right = bootstraps(lab)
    topic, lost = f"one-{cleaned}", f"lost-{cleaned}"
    rows: list[Row] = [*keyed(10, 20), (b"k3", None)]  # 20 values a key, and one key is deleted
    at_ms = int(time.time() * 1000) - 600_000
    for name in (topic, lost):
        for alias, bootstrap, remote in (("LEFT", left, name), ("RIGHT", right, f"LEFT.{name}")):
            compacted = CLEANED if alias == cleaned else {}
            create_topic(bootstrap, remote, 1, **{key.replace(".", "_"): value for key, value in compacted.items()})
            # one side lacks the last record of a key, which no newer record explains
            missing = 195 if name == lost and alias == "RIGHT" else -1
            send(bootstrap, remote, [row for n, row in enumerate(rows) if n != missing], at_ms)
    bootstrap_of_cleaned = {"LEFT": left, "RIGHT": right}[cleaned]
    prefix = "" if cleaned == "LEFT" else "LEFT."
    number = len(rows)

    def cleaned_up() -> bool:
        """Write another record on both sides, so that segments roll; the log cleaner leaves nine keys."""
        nonlocal number
        for name in (topic, lost):
            for bootstrap, remote in ((left, name), (right, f"LEFT.{name}")):
                send(bootstrap, remote, [(b"roll", b"x")], at_ms, number)
        number += 1
        return all(record_count(bootstrap_of_cleaned, prefix + name) < 40 for name in (topic, lost))

    wait_for(f"the log cleaner of {cleaned} has run", cleaned_up, 90)
    audit = NightlyAudit(
        AnalysisRun("nightly-audit", tmp_path, flow_of(lab, tmp_path, f"one-{cleaned}, lost-{cleaned}"))
    )
    audit.conclude()
    verdicts, result = checks(tmp_path), audit.results[topic]
    assert result.compacted is not None
    assert result.compacted > 150
    assert not any(verdict is Verdict.FAIL for name, verdict in verdicts.items() if name.startswith(f"{topic}:")), (
        verdicts
    )
    if cleaned == "RIGHT":
        assert verdicts[f"{topic}: nothing was lost"] is Verdict.PASS
    assert verdicts[f"{lost}: nothing was lost"] is Verdict.FAIL, audit.results[lost]
    (tmp_path / "twice").mkdir()
    search = DuplicatesAudit(
        AnalysisRun("duplicates-audit", tmp_path / "twice", flow_of(lab, tmp_path, f"one-{cleaned}"))
    )
    search.conclude()
    assert search.reports[topic].total == 0
    assert Verdict.FAIL not in checks(tmp_path / "twice").values()


def test_analyse_lag_odd_records_and_empty_topic(spark: SparkSession, lab: Lab, tmp_path: Path) -> None:
    left, right = bootstraps(lab)
    for topic in ("odd", "void"):
        create_topic(left, topic, 1, max_message_bytes="6000000", retention_ms="3600000")
        create_topic(right, f"LEFT.{topic}", 1, max_message_bytes="6000000")
    rows: list[Row] = [(None, b"\xff\x00"), (b"\xfe", None), (None, None), (b"", b""), (None, bytes(5_000_000))]
    send(left, "odd", rows, int(time.time() * 1000) - 2000)
    consumer = Consumer({"bootstrap.servers": left, "group.id": "reads-odd", "log_level": 0})
    consumer.commit(offsets=[TopicPartition("odd", 0, 1), TopicPartition("void", 0, 0)], asynchronous=False)
    consumer.close()
    settings = load_mirror_settings(properties(tmp_path, left, right, "odd, void"))
    report = analyse_lag(spark, settings, Flow("LEFT", "RIGHT"), LagRequest(("odd", "void"), window_s=60.0, moments=20))
    group = {each.partition.topic: each.points[-1] for each in report.groups}
    assert (group["odd"].records, group["odd"].bytes) == (4, 1 + 5_000_000)
    assert (group["void"].records, group["void"].bytes, group["void"].age_s) == (0, 0, 0.0)
    assert report.verdict is Verdict.UNKNOWN  # the position of the mirror is unknown
    assert any("odd-0 is unknown" in note for note in report.notes)
    assert not any("void" in note for note in report.notes)  # an empty topic has no lag that could be unknown


def test_analyse_lag_timestamps_still_to_come_are_behind_now(spark: SparkSession, lab: Lab, tmp_path: Path) -> None:
    """Of a producer whose clock is ahead, or whose records have times of events: they are there, whatever their time."""
    left, right = bootstraps(lab)
    create_topic(left, "ahead", 1)
    create_topic(right, "LEFT.ahead", 1)
    send(left, "ahead", keyed(10, 3), int(time.time() * 1000) + 1_800_000)
    consumer = Consumer({"bootstrap.servers": left, "group.id": "reads-ahead", "log_level": 0})
    consumer.commit(offsets=[TopicPartition("ahead", 0, 2)], asynchronous=False)
    consumer.close()
    settings = load_mirror_settings(properties(tmp_path, left, right, "ahead"))
    report = analyse_lag(spark, settings, Flow("LEFT", "RIGHT"), LagRequest(("ahead",), window_s=60.0, moments=20))
    (group,) = report.groups
    assert (group.points[-1].records, group.points[-1].age_s) == (28, 0.0)


def test_analyse_lag_positions_in_an_earlier_topic_of_the_name_do_not_count(
    spark: SparkSession, lab: Lab, tmp_path: Path
) -> None:
    left, right = bootstraps(lab)
    for topic, partitions in (("again", 2), ("stays", 1)):
        create_topic(left, topic, partitions)
        create_topic(right, f"LEFT.{topic}", partitions)
        send(left, topic, keyed(5, 2), int(time.time() * 1000) - 2000)
    consumer = Consumer({"bootstrap.servers": left, "group.id": "reads-both", "log_level": 0})
    places = (("again", 0, 9), ("again", 1, 0), ("stays", 0, 4))
    consumer.commit(offsets=[TopicPartition(*place) for place in places], asynchronous=False)
    consumer.close()
    admin = AdminClient({"bootstrap.servers": left, "log_level": 0})
    admin.delete_topics(["again"])["again"].result(30)
    wait_for("it is gone", lambda: "again" not in admin.list_topics(timeout=10).topics)
    create_topic(left, "again", 1)
    send(left, "again", keyed(5, 1), int(time.time() * 1000) - 2000)
    settings = load_mirror_settings(properties(tmp_path, left, right, "again, stays"))
    report = analyse_lag(spark, settings, Flow("LEFT", "RIGHT"), LagRequest(window_s=60.0, moments=20))
    assert {str(each.partition): each.points[-1].records for each in report.groups} == {"stays-0": 6}


def test_analyse_lag_records_expiring_meanwhile_are_replanned(
    spark: SparkSession, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left, right = bootstraps(lab)
    create_topic(left, "expiring", 1)
    create_topic(right, "LEFT.expiring", 1)
    send(left, "expiring", keyed(10, 3), int(time.time() * 1000) - 2000)
    consumer = Consumer({"bootstrap.servers": left, "group.id": "reads-expiring", "log_level": 0})
    consumer.commit(offsets=[TopicPartition("expiring", 0, 2)], asynchronous=False)
    consumer.close()
    admin = AdminClient({"bootstrap.servers": left, "log_level": 0})
    pinned, cut = topics.pin_ranges, 0

    def expires(where: ClusterSettings, names: Collection[str]):  # type: ignore[no-untyped-def]
        """Delete records between planning and reading, `most` times."""
        nonlocal cut
        pinned_ranges = pinned(where, names)
        if "expiring" in names and cut < most:
            cut += 1
            deleted = TopicPartition("expiring", 0, 5 + cut)
            admin.delete_records([deleted])[deleted].result(30)
        return pinned_ranges

    monkeypatch.setattr(lag_report, "pin_ranges", expires)
    settings = load_mirror_settings(properties(tmp_path, left, right, "expiring"))
    most = 1
    report = analyse_lag(spark, settings, Flow("LEFT", "RIGHT"), LagRequest(("expiring",), window_s=60.0, moments=20))
    (group,) = report.groups
    assert group.points[-1].records == 30 - 6
    assert (group.judgement.verdict, group.overtaken) == (Verdict.FAIL, True)
    assert "retention has deleted offsets 2 to 6" in group.judgement.why
    most = 10**9
    never = analyse_lag(spark, settings, Flow("LEFT", "RIGHT"), LagRequest(("expiring",), window_s=60.0, moments=20))
    assert (never.verdict, never.series) == (Verdict.UNKNOWN, ())
    assert any("could not be read" in note for note in never.notes)


@pytest.mark.parametrize(
    ("runbook", "trouble", "code", "message"),
    [
        ("lag-report", "down", 11, "RIGHT"),
        ("nightly-audit", "jars", 2, "make setup"),
        ("duplicates-audit", "java", 2, "Install a Java 17 runtime"),
    ],
)
def test_analysis_runbook_missing_input_is_refused_with_exit_code(
    lab: Lab, tmp_path: Path, runbook: str, trouble: str, code: int, message: str
) -> None:
    left, right = bootstraps(lab)
    topic = f"for-{trouble}"
    for bootstrap, name in ((left, topic), (right, f"LEFT.{topic}")):
        create_topic(bootstrap, name, 1)
        send(bootstrap, name, keyed(3, 3), int(time.time() * 1000) - 2000)
    file = properties(tmp_path, left, "127.0.0.1:1" if trouble == "down" else right, topic)
    environment = dict(os.environ)
    if trouble == "jars":
        environment["DRLIB_JARS"] = str(tmp_path / "no-jars")
    if trouble == "java":
        java = tmp_path / "jdk" / "bin" / "java"
        java.parent.mkdir(parents=True)
        java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_412\" 2026-01-01' >&2\n")
        java.chmod(0o755)
        environment |= {
            "JAVA_HOME": str(tmp_path / "jdk"),
            "PATH": "/nowhere",
        }  # otherwise the Java on the PATH is used
    argv = [sys.executable, "-m", "drlib.cli", "run", str(ROOT / "runbooks" / f"{runbook}.yaml"), str(file)]
    done = subprocess.run(
        [*argv, "--runs-dir", str(tmp_path / "runs"), "-p", f"flow={FLOW}"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
    assert message in done.stderr, done.stderr[-3000:]
    assert "Traceback" not in done.stdout + done.stderr
    for run in (tmp_path / "runs").glob("*/scorecard.json"):
        assert json.loads(run.read_text())["verdict"] != "pass"
