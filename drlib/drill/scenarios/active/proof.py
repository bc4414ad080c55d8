"""The proof of an active/active drill: every copy and every group, judged by the independent checker.

Rules: histories and scans of every log by plain consumers are judged: each flow by `lab.checker.lost_and_duplicated`, each
group by `completeness` and `key_order`; a topic that was mirrored in a cycle is found by its name on any cluster. A check that
cannot be decided fails the proof too, as unknown.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from drlib import formats
from drlib.drill.scenarios.active.testbed import READERS, ActiveTestbed
from drlib.drill.step.action import Evidence
from drlib.drill.step.step_output import Row
from drlib.lab.checker.completeness import Completeness, check_completeness
from drlib.lab.checker.history import History
from drlib.lab.checker.key_order import key_order
from drlib.lab.checker.lost_and_duplicated import check
from drlib.lab.checker.report import CheckInput, CheckReport
from drlib.lab.checker.scan import scan
from drlib.lab.connection import Where
from drlib.lab.workload.mirrors import flows_among
from drlib.model import Flow
from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import GroupScore, Records


@dataclass(frozen=True, slots=True)
class Proof:
    """`rows` list what was compared; `failed` names the checks that did not pass, with their evidence."""

    rows: tuple[Row, ...]
    records: Records
    checks: tuple[Check, ...]
    groups: tuple[GroupScore, ...]
    evidence: Evidence

    @property
    def failed(self) -> tuple[str, ...]:
        return tuple(f"{c.name}: {c.evidence}" for c in self.checks if c.verdict is not Verdict.PASS)


def ids(where: Where, topic: str) -> set[str]:
    """The records in `topic` now. Raises `Unreachable`."""
    return {row.id for row in scan(where, topic)}


def due(testbed: ActiveTestbed, clusters: Sequence[str]) -> int:
    """Records acknowledged anywhere, which is what the readers of each cluster have to process."""
    return check_completeness(
        sum((testbed.applications.history(testbed.producer(cluster)) for cluster in clusters), History()).produced, ()
    ).due


def prove(testbed: ActiveTestbed, clusters: Sequence[str]) -> Proof:
    """Judge a drill whose applications have stopped. Raises `Unreachable`."""
    sent = {cluster: testbed.applications.history(testbed.producer(cluster)) for cluster in clusters}
    everything = sum(sent.values(), History())
    rows: list[Row] = []
    checks: list[Check] = []
    groups: list[GroupScore] = []
    lost = doubled = mirrored = disorder = 0
    for flow in flows_among(clusters):
        report = _flow(testbed, flow, sent[flow.source])
        rows.append(_row(str(flow), report.produced, report.mirrored, report.lost_count, report.duplicated_count))
        checks.append(_of_flow(flow, report))
        lost, doubled = lost + (report.lost_count or 0), doubled + (report.duplicated_count or 0)
        mirrored, disorder = mirrored + (report.mirrored or 0), disorder + (report.out_of_order_count or 0)
    for cluster in clusters:
        history = testbed.history_of(cluster)
        completeness = check_completeness(everything.produced, history.consumed)
        by_topic = [
            key_order([[row for row in history.consumed if row.topic == name]]) for name in completeness.by_topic
        ]
        wrong = sum(len(order.violations) for order in by_topic)
        rows.append(
            _row(
                f"{READERS} on {cluster}",
                completeness.due,
                completeness.processed,
                completeness.missing_count,
                completeness.doubled_count,
            )
        )
        name = f"{READERS} on {cluster}"
        groups.append(GroupScore(group=name, re_read=completeness.doubled_count, skipped=completeness.missing_count))
        checks.append(_of_readers(cluster, completeness, wrong, history.gaps))
        lost, doubled, disorder = (
            lost + completeness.missing_count,
            doubled + completeness.doubled_count,
            disorder + wrong,
        )
    loops = _loops(testbed, clusters)
    verdict = Verdict.FAIL if loops else Verdict.PASS
    evidence = ", ".join(loops) or f"on {len(clusters)} clusters only the topic and one copy for each other cluster"
    checks.append(Check(name="no record was copied in a cycle", verdict=verdict, evidence=evidence))
    produced = check_completeness(everything.produced, ()).due
    records = Records(produced=produced, mirrored=mirrored, lost=lost, duplicated=doubled, out_of_order=disorder)
    return Proof(tuple(rows), records, tuple(checks), tuple(groups), records.model_dump())


def _row(who: str, due: int | None, present: int | None, missing: int | None, twice: int | None) -> Row:
    return {"who": who, "due": due, "there": present, "missing": missing, "twice": twice}


def _of_flow(flow: Flow, report: CheckReport) -> Check:
    """The checker's verdict on a flow in one sentence, with each finding that is not a pass."""
    bad = [f"{f.name}: {f.evidence}" for f in report.findings if f.verdict is not Verdict.PASS]
    summary = (
        f"{formats.count(report.produced)} records acknowledged, none lost; {formats.count(report.mirrored)} in the copy, each "
        "once, whole and in order"
    )
    return Check(name=f"{flow} is exact", verdict=report.verdict, evidence="; ".join(bad) or summary)


def _of_readers(cluster: str, completeness: Completeness, out_of_order: int, gaps: Sequence[str]) -> Check:
    verdict = Verdict.FAIL if not completeness.complete or out_of_order else Verdict.UNKNOWN if gaps else Verdict.PASS
    summary = f"{completeness.summary()}, {out_of_order} out of order"
    return Check(
        name=f"readers on {cluster} saw everything once", verdict=verdict, evidence="; ".join([*gaps, summary])
    )


def _flow(testbed: ActiveTestbed, flow: Flow, sent: History) -> CheckReport:
    copy = testbed.copy_of(flow.source)
    copied = tuple(scan(testbed.lab.clusters[flow.target].settings(), copy))
    return check(
        CheckInput(
            source=flow.source,
            target=flow.target,
            topic=testbed.topic,
            remote_topic=copy,
            groups=(),
            produced=sent.produced,
            consumed=(),
            committed=(),
            mirrored=copied,
            torn=sent.torn,
            open=sent.open,
            missing=sent.missing,
        )
    )


def _loops(testbed: ActiveTestbed, clusters: Sequence[str]) -> list[str]:
    """Topics that crossed more than one flow, or returned to their source cluster."""
    extra_topics = []
    for cluster in clusters:
        expected = {testbed.topic, *(testbed.copy_of(other) for other in clusters if other != cluster)}
        extra_topics += [f"{name} on {cluster}" for name in testbed.topics_on(cluster) if name not in expected]
    return extra_topics
