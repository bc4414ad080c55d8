"""The analyses as notebooks use them, on a lab: planted duplicates, an audit compared with DuckDB, bad input."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from fix_engine import create_topic
from pyspark.sql import SparkSession
from second_opinion import second_opinion

from drlib.analysis.duplicates.result import Cause
from drlib.analysis.sessions.analysed_flow import AnalysedFlow, open_flow
from drlib.analysis.sessions.audit_practice import PLANTED, AuditPractice
from drlib.analysis.sessions.duplicates_audit import DuplicatesAudit
from drlib.analysis.sessions.nightly_audit import NightlyAudit
from drlib.analysis.sessions.session import AnalysisRun
from drlib.analysis.spark.jobs import JobProgress, SparkJobs
from drlib.errors import Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Range
from drlib.lab.lab import Lab
from drlib.model import Flow
from drlib.model import TopicPartition as Partition
from drlib.runs.check import Verdict
from drlib.runs.scorecard import Kind, Scorecard
from drlib.ui.figures.duplicates import duplicates_figure

FLOW = "LEFT->RIGHT"
BEGIN_MS = 1_790_000_000_000


@pytest.fixture(scope="module")
def practice_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab with the practice traffic and the duplicates planted in it."""
    with Lab(tmp_path_factory.mktemp("practice") / "lab") as lab:
        AuditPractice(lab, Flow("LEFT", "RIGHT"), plant=True).prepare()
        yield lab


@pytest.fixture
def analysed(practice_lab: Lab) -> AnalysedFlow:
    return open_flow("", str(practice_lab.root), FLOW, plant=True)


def verdicts(run_dir: Path) -> dict[str, Verdict]:
    return {check.name: check.verdict for check in Scorecard.read(run_dir / "scorecard.json").checks}


@pytest.mark.long
@pytest.mark.usefixtures("spark")
def test_nightly_audit_equals_duckdb_result(analysed: AnalysedFlow, tmp_path: Path) -> None:
    audit = NightlyAudit(AnalysisRun("nightly-audit", tmp_path, analysed))
    audit.ranges()
    audit.compare()
    source, target = analysed.source, analysed.target
    for topic, result in audit.results.items():
        sides = []
        for settings, name in ((source, topic), (target, f"LEFT.{topic}")):
            pinned = audit._range(settings.alias, name)
            wanted = {Partition(name, p): Range(pinned.start[p], end) for p, end in pinned.end.items() if end}
            with Cluster(settings) as cluster:
                sides.append(
                    [
                        (r.partition.partition, r.offset, r.timestamp_ms, r.key, r.value, r.headers)
                        for r in cluster.read(wanted)
                    ]
                )
        counts = {
            "missing": result.missing,
            "altered": result.altered,
            "duplicated": result.duplicated,
            "invented": result.invented,
            "out-of-order": result.out_of_order,
        }
        assert {name: count for name, count in counts.items() if count} == second_opinion(*sides), topic
        assert (result.source_records, result.target_records) == tuple(map(len, sides))
    assert audit.results["planted-orders"].duplicated == PLANTED[Cause.REPLICATOR]
    assert len(audit.results["planted-orders"].checkpoints) == 4
    audit.partitions(), audit.evidence(), audit.checkpoints(), audit.conclude()
    checks = verdicts(tmp_path)
    assert checks.pop("planted-orders: nothing was copied twice") is Verdict.FAIL
    assert set(checks.values()) == {Verdict.PASS}


@pytest.mark.long
@pytest.mark.usefixtures("spark")
def test_duplicates_audit_finds_planted_and_rerun_reads_same_records(
    analysed: AnalysedFlow, practice_lab: Lab, tmp_path: Path
) -> None:
    progress: list[JobProgress] = []
    audit = DuplicatesAudit(AnalysisRun("duplicates-audit", tmp_path, analysed, tell=progress.append))
    assert len(audit.ranges().rows) == 2 * 3
    audit.find()
    counts = {topic: dict(report.counts or {}) for topic, report in audit.reports.items()}
    assert counts["planted-orders"] == {**PLANTED, Cause.UNKNOWN: 0}
    assert counts["planted-payments"] == counts["planted-prices"] == dict.fromkeys(Cause, 0)
    assert audit.reports["planted-orders"].exact
    (stretch,) = [one for one in audit.reports["planted-orders"].skip if one.cause is Cause.REPLICATOR]
    assert (stretch.partition, stretch.next_offset - stretch.first) == (2, PLANTED[Cause.REPLICATOR])
    (again,) = audit.reports["planted-orders"].rereads
    assert (again.group, again.cluster, again.topic, again.records, again.pending) == (
        "planted-billing",
        "RIGHT",
        "LEFT.planted-orders",
        25,
        False,
    )
    figure = duplicates_figure(audit)
    assert (
        sum(cell or 0 for row in figure.data[0].z for cell in row)
        == PLANTED[Cause.REPLICATOR] + PLANTED[Cause.PRODUCER]
    )
    assert "UTC" in figure.layout.xaxis.title.text
    shown = [str(table) for table in (audit.examples(), audit.skip(), audit.groups())]
    assert all("Traceback" not in text and "orders" in text for text in shown)
    audit.conclude()
    card = Scorecard.read(tmp_path / "scorecard.json")
    assert (card.kind, card.verdict, card.records.duplicated) == (Kind.ANALYSIS, Verdict.PASS, sum(PLANTED.values()))
    assert [name for name in verdicts(tmp_path) if "all of that was found" in name] == [
        f"planted-orders: {clean} but what was planted, and all of that was found"
        for clean in ("nothing was copied twice", "nothing was written twice", "no group read anything again")
    ]
    assert [each.what for each in progress if each.over] == [
        "positions of groups",
        *(f"planted-{name}" for name in ("orders", "payments", "prices")),
    ]
    assert all(each.done == each.tasks > 0 for each in progress if each.over and each.what != "positions of groups")

    producer = Producer({"bootstrap.servers": practice_lab.clusters["LEFT"].bootstrap, "log_level": 0})
    for _ in range(2):  # written after the ranges were pinned, so not in this audit
        producer.produce("planted-orders", b"1", b"late", 0, timestamp=BEGIN_MS)
    assert producer.flush(30) == 0
    rerun = DuplicatesAudit(AnalysisRun("duplicates-audit", tmp_path, analysed))
    rerun.conclude()
    assert {t: r.counts for t, r in rerun.reports.items()} == {t: r.counts for t, r in audit.reports.items()}
    assert Scorecard.read(tmp_path / "scorecard.json").verdict is Verdict.PASS

    for allow, verdict in (((), Verdict.FAIL), (("producer",), Verdict.CONDITIONS)):
        later = tmp_path / f"later-{verdict.value}"
        later.mkdir()
        DuplicatesAudit(AnalysisRun("duplicates-audit", later, analysed), allow=allow).conclude()
        assert Scorecard.read(later / "scorecard.json").verdict is verdict, "one more than was planted"


@pytest.mark.long
@pytest.mark.usefixtures("spark")
def test_audits_odd_records_compared_and_undecidable_never_passes(practice_lab: Lab, tmp_path: Path) -> None:
    """Null keys, tombstones, bytes that are not text, five megabytes; an empty topic, one whose first records were deleted
    after it was pinned, and one that the target does not have."""
    left, right = (practice_lab.clusters[alias].bootstrap for alias in ("LEFT", "RIGHT"))
    big = {"max_message_bytes": "6000000", "retention_ms": "-1"}
    for bootstrap, prefix in ((left, ""), (right, "LEFT.")):
        for topic in ("odd-bytes", "odd-empty", "odd-expired"):
            create_topic(bootstrap, f"{prefix}{topic}", 1, **big)
        producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 6_000_000, "log_level": 0})
        for number in range(20):
            value = None if number % 3 == 2 else bytes([255, 0, number]) * (1_700_000 if number == 7 else 1)
            key = None if number % 2 else bytes([254, number])
            for topic in ("odd-bytes", "odd-expired"):
                producer.produce(f"{prefix}{topic}", value, key, 0, timestamp=BEGIN_MS + number)
        assert producer.flush(60) == 0
    create_topic(left, "odd-missing", 1)
    file = tmp_path / "mirror.properties"
    file.write_text(
        f"clusters = LEFT, RIGHT\nLEFT.bootstrap.servers = {left}\nRIGHT.bootstrap.servers = {right}\n"
        "LEFT->RIGHT.enabled = true\ntopics = odd-.*\n"
    )
    analysed = open_flow(str(file), "", FLOW)
    audit = NightlyAudit(AnalysisRun("nightly-audit", tmp_path, analysed))
    audit.ranges()
    cut = TopicPartition("odd-expired", 0, 5)
    admin = AdminClient({"bootstrap.servers": left, "log_level": 0})
    admin.delete_records([cut])[cut].result(30)
    audit.conclude()
    checks = verdicts(tmp_path)
    of_bytes = {name: verdict for name, verdict in checks.items() if name.startswith("odd-bytes")}
    assert len(of_bytes) == 5
    assert set(of_bytes.values()) == {Verdict.PASS}
    assert checks["odd-empty: nothing was lost"] is Verdict.UNKNOWN
    assert checks["odd-expired: it was read"] is Verdict.UNKNOWN
    assert checks["odd-missing is on both clusters"] is Verdict.UNKNOWN
    (tmp_path / "again").mkdir()
    search = DuplicatesAudit(
        AnalysisRun("duplicates-audit", tmp_path / "again", analysed, ["odd-bytes", "odd-expired"])
    )
    search.conclude()
    assert search.reports["odd-bytes"].total == 0
    with pytest.raises(UsageError, match=r"RIGHT has no topic LEFT\.odd-missing"):
        analysed.pairs(["odd-missing"])
    with pytest.raises(UsageError, match="LEFT has no topic nowhere"):
        analysed.pairs(["nowhere"])


@pytest.mark.long
def test_open_flow_unreachable_or_missing_clusters_are_refused(practice_lab: Lab, tmp_path: Path) -> None:
    file = tmp_path / "mirror.properties"
    file.write_text(
        f"clusters = LEFT, RIGHT\nLEFT.bootstrap.servers = {practice_lab.clusters['LEFT'].bootstrap}\n"
        "RIGHT.bootstrap.servers = 127.0.0.1:1\nLEFT->RIGHT.enabled = true\ntopics = orders\n"
    )
    with pytest.raises(Unreachable, match="RIGHT") as caught:
        open_flow(str(file), "", FLOW).pairs()
    assert caught.value.exit_code == 11
    for properties, lab_dir, flow in (
        ("", "", FLOW),
        (str(file), "lab", FLOW),
        (str(file), "", "LEFT"),
        (str(file), "", "A->B"),
    ):
        with pytest.raises(UsageError):
            open_flow(properties, lab_dir, flow)


def test_spark_jobs_interrupt_cancels_job_and_next_one_runs(spark: SparkSession) -> None:
    from concurrent.futures import Future

    session: Future[SparkSession] = Future()
    session.set_result(spark)

    def interrupt(progress: JobProgress) -> None:
        if progress.tasks and not progress.over:
            raise KeyboardInterrupt

    jobs = SparkJobs(session, interrupt)
    with pytest.raises(KeyboardInterrupt):
        jobs.run("for ever", lambda session: session.range(10**13).selectExpr("sum(id % 7)").collect())
    assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
    progress: list[JobProgress] = []
    jobs = SparkJobs(session, progress.append)
    assert jobs.run("short", lambda session: session.range(1000).count()) == 1000
    assert progress[-1].over
