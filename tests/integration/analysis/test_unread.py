"""What an analysis may not read, or what is replaced while it reads: unknown with the reason, and never clean."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, AdminClient, NewTopic, ResourceType
from fix_authorizer import acl, add_acls, drop_acls
from fix_engine import create_topic, wait_for
from pyspark.sql import SparkSession

from drlib.analysis.lag.report import analyse_lag
from drlib.analysis.lag.result import LagRequest
from drlib.analysis.sessions.analysed_flow import AnalysedFlow, open_flow
from drlib.analysis.sessions.duplicates_audit import DuplicatesAudit
from drlib.analysis.sessions.nightly_audit import NightlyAudit
from drlib.analysis.sessions.session import AnalysisRun
from drlib.errors import UsageError
from drlib.lab.lab import Lab
from drlib.runbook.open_analysis import open_continuous_audit
from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import Scorecard

OFFSETS = "__consumer_offsets"
RECORDS = 40


def write(bootstrap: str, topic: str, began_ms: int, what: str = "value") -> None:
    """The same records with the same times, wherever they are written."""
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for n in range(RECORDS):
        producer.produce(topic, f"{what}-{n}", f"key-{n % 7}", 0, timestamp=began_ms + n)
    assert producer.flush(30) == 0


def flow_of(folder: Path, left: str, right: str, *topics: str) -> AnalysedFlow:
    path = folder / "mirror.properties"
    path.write_text(
        f"clusters = eu-west.a, us-east.b\neu-west.a.bootstrap.servers = {left}\nus-east.b.bootstrap.servers = {right}\n"
        f"eu-west.a->us-east.b.enabled = true\ntopics = {', '.join(topics)}\n"
    )
    return open_flow(str(path), "", "")


def mirrored(left: str, right: str, topic: str) -> None:
    began_ms = int(time.time() * 1000) - 10_000
    for bootstrap, name in ((left, topic), (right, f"eu-west.a.{topic}")):
        create_topic(bootstrap, name, 1)
        write(bootstrap, name, began_ms)


def run_in(folder: Path, analysed: AnalysedFlow, name: str) -> AnalysisRun:
    (folder / name).mkdir()
    return AnalysisRun(name, folder / name, analysed)


def checks(folder: Path) -> dict[str, Check]:
    return {check.name: check for check in Scorecard.read(folder / "scorecard.json").checks}


@pytest.fixture
def locked(authorizer_lab: Lab) -> Iterator[Callable[[str, AclOperation], str]]:
    """Denies one operation on a topic of the cluster with an authorizer, whose address it returns."""
    bootstrap, barred = authorizer_lab.clusters["AUTHORIZED"].bootstrap, set[str]()

    def deny(topic: str, operation: AclOperation) -> str:
        def rule(what: AclOperation, permission: AclPermissionType) -> AclBinding:
            return acl(ResourceType.TOPIC, topic, what, permission)

        barred.add(topic)
        add_acls(bootstrap, rule(AclOperation.ALL, AclPermissionType.ALLOW), rule(operation, AclPermissionType.DENY))
        return bootstrap

    yield deny
    for topic in barred:
        drop_acls(bootstrap, ResourceType.TOPIC, topic)


@pytest.mark.usefixtures("spark")
def test_audits_topic_replaced_after_it_was_pinned_is_unknown(
    left: str, right: str, fresh_topic: Callable[[str], str], tmp_path: Path
) -> None:
    topic, other = fresh_topic("replaced"), fresh_topic("kept")
    for name in (topic, other):
        mirrored(left, right, name)
    analysed = flow_of(tmp_path, left, right, topic, other)
    nightly = NightlyAudit(run_in(tmp_path, analysed, "nightly-audit"))
    duplicates = DuplicatesAudit(run_in(tmp_path, analysed, "duplicates-audit"))
    with nightly, duplicates:
        nightly.ranges()
        duplicates.ranges()
        copy, admin = f"eu-west.a.{topic}", AdminClient({"bootstrap.servers": right, "log_level": 0})
        admin.delete_topics([copy])[copy].result(30)
        wait_for("it is gone", lambda: copy not in admin.list_topics(timeout=10).topics)
        create_topic(right, copy, 1)
        write(right, copy, int(time.time() * 1000) - 5000, "another")
        why = f"{copy} on us-east.b was re-created while it was read"
        for audit in (nightly, duplicates):
            audit.conclude()
            found = checks(audit.run_dir)
            unread = found[f"{topic}: it was read"]
            assert (unread.verdict, unread.evidence) == (Verdict.UNKNOWN, why)
            assert {c.verdict for name, c in found.items() if name.startswith(other)} == {Verdict.PASS}
        for table, title in (
            (nightly.evidence(), "No record differs"),
            (duplicates.examples(), "There is no duplicate"),
        ):
            assert (table.title, table.note) == (title, f"not read: {topic}")


@pytest.mark.usefixtures("spark")
def test_continuous_audit_opened_again_in_one_process_closes_the_former_one(
    left: str, right: str, fresh_topic: Callable[[str], str], tmp_path: Path
) -> None:
    topic = fresh_topic("again")
    mirrored(left, right, topic)
    flow_of(tmp_path, left, right, topic)
    properties, state = str(tmp_path / "mirror.properties"), tmp_path / "state"
    first = open_continuous_audit(tmp_path / "first", properties=properties, state=state)
    first.followed()
    with open_continuous_audit(tmp_path / "second", properties=properties, state=state) as second:
        (row,) = second.catch_up().rows
        assert (row["on eu-west.a"], row["on us-east.b"]) == (RECORDS, RECORDS)
        with pytest.raises(UsageError, match="the analysis is closed"):
            first.catch_up()


def test_analyses_commits_that_may_not_be_read_are_unknown(
    spark: SparkSession,
    locked: Callable[[str, AclOperation], str],
    right: str,
    fresh_topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    topic = fresh_topic("commits")
    left = locked(fresh_topic("none"), AclOperation.READ)
    mirrored(left, right, topic)
    consumer = Consumer({"bootstrap.servers": left, "group.id": f"g-{topic}", "log_level": 0})
    consumer.commit(offsets=[TopicPartition(topic, 0, 30)], asynchronous=False)
    consumer.close()
    locked(OFFSETS, AclOperation.READ)
    analysed = flow_of(tmp_path, left, right, topic)
    with DuplicatesAudit(run_in(tmp_path, analysed, "duplicates-audit")) as audit:
        audit.conclude()
        found = checks(audit.run_dir)
        unread = found.pop(f"{topic}: no group read anything again")
        assert (unread.verdict, {check.verdict for check in found.values()}) == (Verdict.UNKNOWN, {Verdict.PASS})
        assert "what groups committed on eu-west.a is unknown" in unread.evidence
        assert f"Grant Read on {OFFSETS} on eu-west.a" in unread.evidence
        assert audit.groups().title == "Groups' positions could not be read"
    report = analyse_lag(spark, analysed.settings, analysed.flow, LagRequest((topic,), window_s=60.0, moments=20))
    (group,) = report.groups
    assert group.points[-1].records == RECORDS - 30
    assert any("earlier commits of groups on eu-west.a" in note for note in report.notes)
    assert report.verdict is Verdict.UNKNOWN


@pytest.mark.usefixtures("spark")
def test_audit_topic_that_may_not_be_read_is_unknown_and_others_are_compared(
    locked: Callable[[str, AclOperation], str], right: str, fresh_topic: Callable[[str], str], tmp_path: Path
) -> None:
    topic, other = fresh_topic("secret"), fresh_topic("open")
    left = locked(fresh_topic("none"), AclOperation.READ)
    for name in (topic, other):
        mirrored(left, right, name)
    locked(topic, AclOperation.READ)
    with NightlyAudit(run_in(tmp_path, flow_of(tmp_path, left, right, topic, other), "nightly-audit")) as audit:
        audit.conclude()
        found = checks(audit.run_dir)
        unread = found.pop(f"{topic}: it was read")
        assert unread.verdict is Verdict.UNKNOWN
        assert f"Not authorized to access topics: [{topic}]" in unread.evidence
        assert {check.verdict for check in found.values()} == {Verdict.PASS}
        assert (audit.partitions().title, audit.partitions().note) == ("No partition differs", f"not read: {topic}")


@pytest.mark.long
def test_analyses_topic_without_a_leader_is_unknown_and_others_are_compared(
    spark: SparkSession, right: str, fresh_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """One of three brokers is gone, and with it the only replica of one topic."""
    dead, led = fresh_topic("dead"), fresh_topic("led")
    with Lab(tmp_path / "lab", ("LEFT",), brokers=3) as lab:
        broker = lab.clusters["LEFT"].brokers[2]
        left = lab.clusters["LEFT"].bootstrap
        began_ms, admin = int(time.time() * 1000) - 10_000, AdminClient({"bootstrap.servers": left, "log_level": 0})
        new = [
            NewTopic(name, 1, replica_assignment=[[lab.clusters["LEFT"].brokers[n].spec.node_id]])
            for name, n in ((dead, 2), (led, 0))
        ]
        for created in admin.create_topics(new).values():
            created.result(30)
        for name in (dead, led):
            create_topic(right, f"eu-west.a.{name}", 1)
            write(left, name, began_ms)
            write(right, f"eu-west.a.{name}", began_ms)
        broker.kill()

        def leaderless() -> bool:
            return bool(admin.list_topics(dead, timeout=10).topics[dead].partitions[0].leader < 0)

        wait_for("the topic has no leader", leaderless, 60)
        analysed = flow_of(tmp_path, left, right, dead, led)
        with NightlyAudit(run_in(tmp_path, analysed, "nightly-audit")) as audit:
            audit.conclude()
            found = checks(audit.run_dir)
            unread = found.pop(f"{dead}: it was read")
            assert unread.verdict is Verdict.UNKNOWN
            assert "a partition of it has no leader on eu-west.a" in unread.evidence
            assert {check.verdict for check in found.values()} == {Verdict.PASS}
        report = analyse_lag(spark, analysed.settings, analysed.flow, LagRequest(window_s=60.0, moments=20))
        assert f"{dead} on eu-west.a was not read: partitions 0 have no leader" in report.notes
