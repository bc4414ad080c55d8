"""The proof of a failover: the independent checker, the Spark audit, and their parts of the scorecard.

Rules: checker and audit share no code with the engine and are compared with each other; what one of them could not read is
unknown. Records on the source that were never acknowledged do not count as lost. The checker's report is a file in the run's
folder, so that the audit can be compared with a check by another process. Under identical names the target's one topic has what
was mirrored, up to where it ended when the pointer moved, as the pointer says, and then what was written there.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import TypeAdapter

from drlib import formats
from drlib.analysis.audit.result import AuditResult
from drlib.drill.step.step_output import ScorecardPart
from drlib.drill.testbed.failover_testbed import GROUPS, FailoverTestbed
from drlib.files import read_json, write_whole
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.lab import jars
from drlib.lab.checker.lost_and_duplicated import check
from drlib.lab.checker.report import CheckInput, CheckReport, GroupReport
from drlib.lab.checker.scan import scan
from drlib.model import GroupTranslation, TopicPartition
from drlib.runs.check import Check, Verdict
from drlib.runs.journal import Scalar
from drlib.runs.scorecard import GroupScore, LostExample, PartitionOffsets, Records, Rpo
from drlib.runs.table import check_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AUDITED: Final = ("flights", "flights-2013", "flights-tx")
PARTITIONS: Final = 6
_REPORT: Final = TypeAdapter(CheckReport)


class Proof:
    """Gathers the evidence of one drill."""

    def __init__(self, testbed: FailoverTestbed) -> None:
        self._testbed = testbed
        self._flow = testbed.flow
        self._remote = "" if testbed.shared else f"{testbed.flow.source}."
        self._report: CheckReport | None = None
        self._audits: dict[str, AuditResult] = {}
        self._session: Future[SparkSession] | None = None
        self._source_ends: dict[int, int] = {}
        self._target_ends: dict[int, int] = {}

    def warm_up(self) -> None:
        """Start Spark while something else runs."""
        from drlib.analysis.audit.compare import warm_up
        from drlib.analysis.spark.session import start_in_background

        if self._session is None:
            self._session = start_in_background("failover-drill", warm_up=warm_up)

    @property
    def report(self) -> CheckReport | None:
        """The checker's report, of this process or an earlier one; None before a check."""
        if self._report is None and self._report_path.exists():
            self._report = read_json(self._report_path, _REPORT)
        return self._report

    @property
    def _report_path(self) -> Path:
        return self._testbed.run_dir / "check.json"

    def moved_at(self, topic: str) -> dict[int, int] | None:
        """Where the target's topic of that name ended when the pointer moved; None where the mirror has a topic of its own."""
        return self._testbed.moved_at(topic) if self._testbed.shared else None

    def close(self) -> None:
        if self._session is not None:
            self._session.result().stop()
            self._session = None

    def check(self, rpo_records: int | None) -> list[dict[str, Scalar]]:
        """Judge histories and a scan of the target; `rpo_records`: how many records the drill's objective allows to be lost."""
        history = self._testbed.applications.history("flights", *GROUPS)
        right = self._where(self._flow.target)
        remote = f"{self._remote}flights"
        self._report = check(
            CheckInput(
                source=self._flow.source,
                target=self._flow.target,
                topic="flights",
                remote_topic=remote,
                groups=GROUPS,
                produced=history.produced,
                consumed=history.consumed,
                committed=history.committed,
                mirrored=tuple(row for topic in sorted({remote, "flights"}) for row in scan(right, topic)),
                torn=history.torn,
                open=history.open,
                missing=history.missing,
                rpo_records_allowed=rpo_records,
                moved_at=self.moved_at("flights"),
            )
        )
        write_whole(self._report_path, _REPORT.dump_json(self._report))
        return check_rows(self._report.findings)

    def audit(self) -> list[dict[str, Scalar]]:
        """Compare both clusters with Spark."""
        from drlib.analysis.audit.staged import audit_topics
        from drlib.analysis.spark.topics import pin_range

        self.warm_up()
        assert self._session is not None
        session = self._session.result()
        left, right = self._where(self._flow.source), self._where(self._flow.target)
        for topic in AUDITED:
            remote, ends = f"{self._remote}{topic}", self.moved_at(topic)
            pinned = None if ends is None else pin_range(right, topic).up_to(ends)
            self._audits[topic] = audit_topics(session, left, right, topic, remote, target_range=pinned)
        self._source_ends = self._ends(self._flow.source, "flights")
        self._target_ends = self.moved_at("flights") or self._ends(self._flow.target, f"{self._remote}flights")
        return [
            {
                "topic": topic,
                f"on {self._flow.source}": audit.source_records,
                f"on {self._flow.target}": audit.target_records,
                f"only on {self._flow.source}": audit.missing,
                "invented": audit.invented,
                "duplicated": audit.duplicated,
                "out of order": audit.out_of_order,
                "altered": audit.altered,
                "verdict": audit.verdict.value,
            }
            for topic, audit in self._audits.items()
        ]

    def check_part(self, translations: Sequence[GroupTranslation]) -> ScorecardPart:
        """The checker's part of the scorecard; empty before a check."""
        report = self.report
        if report is None:
            return ScorecardPart()
        kinds: dict[str, Counter[str]] = {group: Counter() for group in GROUPS}
        for item in translations:
            kinds.setdefault(item.group, Counter())[item.translation.kind.value] += 1
        checks = list(report.findings)
        for group in report.groups:
            checks = [_weigh(check, group, uncrossed(group, translations)) for check in checks]
        return ScorecardPart(
            rpo=Rpo(records=report.rpo_records, seconds=report.rpo_seconds),
            records=Records(
                produced=report.produced,
                mirrored=report.mirrored,
                lost=report.lost_count,
                duplicated=report.duplicated_count,
                out_of_order=report.out_of_order_count,
            ),
            groups=tuple(
                GroupScore(
                    group=g.group,
                    re_read=g.re_read,
                    skipped=g.skipped,
                    reached=not uncrossed(g, translations),
                    positions=dict(kinds[g.group]),
                )
                for g in report.groups
            ),
            checks=tuple(checks),
            lost_examples=tuple(
                LostExample(id=r.id, key=r.key, partition=r.partition, offset=r.offset, acked_ms=r.acked_ms)
                for r in report.lost
            ),
            environment={
                "kafka": jars.KAFKA_VERSION,
                "python": platform.python_version(),
                "system": f"{platform.system()} {platform.machine()}",
            },
        )

    def audit_part(self) -> ScorecardPart:
        """The audit's part of the scorecard."""
        source, target = self._flow.source, self._flow.target
        checks = []
        for topic, audit in self._audits.items():
            checks.append(_copied(topic, audit, source, target))
        if self.report is not None and "flights" in self._audits:
            checks.append(_agreement(self.report, self._audits["flights"], source))
        return ScorecardPart(checks=tuple(checks), partitions=self._partitions())

    def _partitions(self) -> tuple[PartitionOffsets, ...]:
        audit = self._audits.get("flights")
        missing = {row.partition: row.missing for row in audit.per_partition} if audit else {}
        spans = None if self.report is None else self.report.rpo_seconds_by_partition
        rows = []
        for number in range(PARTITIONS):
            span = None if spans is None else spans.get(number, 0.0)
            end, unmirrored = self._source_ends.get(number), missing.get(number)
            mirrored = end - unmirrored if end is not None and unmirrored is not None else None
            rows.append(
                PartitionOffsets(
                    topic="flights",
                    partition=number,
                    source_end=end,
                    mirrored_to=mirrored,
                    target_end=self._target_ends.get(number),
                    unmirrored=unmirrored,
                    at_least_seconds=span,
                    at_most_seconds=span,
                    basis="" if span is None else "when the producers sent what was lost, by their histories",
                )
            )
        return tuple(rows)

    def _where(self, alias: str) -> ClusterSettings:
        return self._testbed.lab.clusters[alias].settings()

    def _ends(self, alias: str, topic: str) -> dict[int, int]:
        with Cluster(self._where(alias)) as cluster:
            ends = cluster.log_ends([TopicPartition(topic, n) for n in range(PARTITIONS)])
        return {partition.partition: end for partition, end in ends.items()}


def uncrossed(group: GroupReport, translations: Sequence[GroupTranslation]) -> int:
    """Source offsets between the positions that the target knew of a group and its last acknowledged ones on the source.

    Commits cross the link like records: the last ones before a crash are lost with the source.
    """
    known = {t.source.partition: t.source_offset for t in translations if t.group == group.group}
    return sum(max(0, last - known.get(partition, 0)) for partition, last in group.last_commit)


def _copied(topic: str, audit: AuditResult, source: str, target: str) -> Check:
    """Spark's verdict on a copy. Records behind the last one that was mirrored are no fault of it: they are the RPO."""
    evidence = f"all {formats.count(audit.source_records)} records of {source} are on {target}, unchanged"
    if audit.missing:
        evidence = (
            f"{formats.count(audit.target_records)} records on {target}, unchanged; {formats.count(audit.missing)} of "
            f"{formats.count(audit.source_records)} are only on {source}, all behind the last one that was mirrored"
        )
    return Check(
        f"Spark: {topic} is copied up to one point, without a fault",
        audit.verdict,
        "; ".join(audit.reasons) or evidence,
    )


def _weigh(check: Check, group: GroupReport, gap: int) -> Check:
    """Records read again are a condition, not a failure, up to the number of records whose commits were not mirrored. The name
    then claims no more than that."""
    mine = check.name == f"group {group.group} reads nothing again" and check.verdict is Verdict.FAIL
    if not mine or group.re_read is None or group.re_read > gap:
        return check
    name = f"group {group.group} reads again only records whose commits were lost with LEFT"
    why = f"{group.re_read:,} read again; commits of its last {gap:,} records were lost; "
    return replace(check, name=name, verdict=Verdict.CONDITIONS, evidence=why + check.evidence)


def _agreement(report: CheckReport, audit: AuditResult, source: str) -> Check:
    """Checker and Spark must agree: records that only the source has are the lost and the never acknowledged ones."""
    name = "checker and Spark agree"
    if report.lost_count is None or audit.missing is None:
        return Check(name=name, verdict=Verdict.UNKNOWN, evidence="one of them could not read everything")
    extra = audit.missing - report.lost_count
    same = extra >= 0 and report.mirrored == audit.target_records
    evidence = (
        f"{report.mirrored:,} and {audit.target_records:,} mirrored; {audit.missing:,} only on {source}, "
        f"{report.lost_count:,} of them acknowledged, {extra:,} never acknowledged"
    )
    return Check(name=name, verdict=Verdict.PASS if same else Verdict.FAIL, evidence=evidence)
