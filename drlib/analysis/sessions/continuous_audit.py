"""Do the two clusters agree, continuously? Both followed by streaming queries, compared bucket by bucket, in a notebook.

Rules: as in `session`, but what is known outlives a run: plan, checkpoints and sums are in `state`, a folder for one process at
a time, from which the next run resumes, killed or not. Records may be deleted after they were read once. A bucket that
differs behind what both sides have read is a fault; one that the mirror has not passed yet is a price for `lag_seconds` and a
fault after that. A side that is no longer read makes the whole unknown, and so does a topic of the flow that is not followed.
`evidence` compares the records of a faulty bucket one by one.
Not for: order within keys and checkpoints, which sums do not cover (`nightly_audit`).
"""

import contextlib
from functools import partial
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from pydantic import TypeAdapter

from drlib import clock, formats
from drlib.analysis.continuous.compare import (
    AuditPlan,
    BucketReport,
    compare_buckets,
    compare_records,
    plan_audit,
    refuse_other_shares,
    refuse_recreated,
)
from drlib.analysis.continuous.rules import BucketFinding, BucketState, BucketSums
from drlib.analysis.continuous.stream import BucketStream
from drlib.analysis.sessions.bucket_checks import read_check, topic_checks
from drlib.analysis.sessions.session import AnalysisRun, AnalysisSession, Row
from drlib.analysis.spark.jobs import closed, explained
from drlib.analysis.spark.shares import keep_share, pin_journals, shared_note, shared_of
from drlib.errors import Unreachable, UsageError
from drlib.files import read_json, write_whole
from drlib.mirror.offsets.map.flow_maps import read_flow_maps
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.runs.check import Check, Verdict
from drlib.runs.lock import alone
from drlib.runs.scorecard import Records
from drlib.runs.table import Table

PLAN: Final = "plan.json"
REPORT_FILE: Final = "buckets.json"
_PLAN: Final = TypeAdapter(AuditPlan)
_REPORT: Final = TypeAdapter(BucketReport)
_POLL_S: Final = 0.1
_OPEN: Final = WeakValueDictionary[Path, "ContinuousAudit"]()
_FAULTS: Final = (BucketState.DIFFERS, BucketState.OVERDUE)


def close_former(state: Path) -> None:
    """Close the audit that this process has open on `state`, as when the cell that opens it is run twice."""
    if (former := _OPEN.pop(state.resolve(), None)) is not None:
        former.close()


class ContinuousAudit(AnalysisSession):
    """`state` is the folder kept from run to run; `bucket_seconds` applies when it is new."""

    def __init__(
        self,
        run: AnalysisRun,
        state: Path,
        *,
        bucket_seconds: float = 60.0,
        lag_seconds: float = 300.0,
    ) -> None:
        if bucket_seconds < 1:
            raise UsageError(f"buckets of {bucket_seconds:g} s", "a bucket is at least one second", "Use 1 or more.")
        self._lock = contextlib.ExitStack()
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock.enter_context(
            alone(state, "audit.lock", "another process uses this folder", "Stop that process, or use another folder.")
        )
        self.state = state
        self._bucket_ms = round(bucket_seconds * 1000)
        self._lag_seconds = lag_seconds
        self._plan: AuditPlan | None = None
        self._streams: tuple[BucketStream, ...] = ()
        self._unreachable: dict[str, str] = {}
        self.report: BucketReport | None = None
        super().__init__(run)
        _OPEN[state.resolve()] = self

    def followed(self) -> Table:
        """What is followed, and from where. Raises `StalePlan` for a re-created topic, `Unreachable`."""
        plan, (source, target) = self._planned()
        rows: list[Row] = []
        for stream, topics in ((source, plan.source), (target, plan.target)):
            offsets = stream.position().offsets
            for topic in topics:
                read = sum(
                    offset - topic.start.get(at.partition, 0)
                    for at, offset in offsets.items()
                    if at.topic == topic.name
                )
                rows.append(
                    {
                        "cluster": stream.where.alias,
                        "topic": topic.name,
                        "partitions": len(topic.start),
                        "first offsets": ", ".join(f"{p}: {at:,}" for p, at in sorted(topic.start.items())[:8]),
                        "offsets read so far": read,
                        "compacted": topic.compacted,
                    }
                )
        note = f"Buckets of {plan.bucket_ms / 1000:g} s, by the records' own timestamps; read committed."
        if plan.shared:
            note += f" {shared_note(self.analysed.flow, plan.shared)}."
        return Table("Followed on both sides", rows, note)

    def catch_up(self) -> Table:
        """Read both sides to their current end offsets, from where the last run stopped, and compare."""
        with explained("both sides are read"):
            self._start(None)
            try:
                while any(stream.running for stream in self._streams):
                    for stream in self._streams:
                        stream.wait(_POLL_S)
            except BaseException:
                self.stop()
                raise
        return self.compare()

    def start(self, every_s: float = 10.0) -> Table:
        """Follow both sides until `stop`, with a micro-batch every `every_s` seconds."""
        with explained("both sides are read"):
            self._start(every_s)
        return self.followed()

    def stop(self) -> None:
        """Stop following; an uncommitted micro-batch is read again by the next run. May be repeated."""
        for stream in self._streams:
            stream.stop()

    def compare(self) -> Table:
        """Compare both sides as far as they were read, by topic; possible at any time while they are followed."""
        plan, (source, target) = self._planned()
        try:
            maps = read_flow_maps(self.analysed.settings, self.analysed.flow, shared=True)
        except Unreachable:
            maps = Maps()  # without maps, a bucket is judged only once it is overdue
        work = partial(compare_buckets, plan=plan, source=source, target=target, maps=maps, lag_s=self._lag_seconds)
        self.report = self._jobs.run("buckets", work)
        write_whole(self.run_dir / REPORT_FILE, _REPORT.dump_json(self.report, indent=1))
        rows: list[Row] = []
        for topic in plan.source:
            partitions = [each for each in self.report.partitions if each.partition.topic == topic.source]
            rows.append(
                {
                    "topic": topic.source,
                    f"on {self.analysed.flow.source}": sum(each.source_records for each in partitions),
                    f"on {self.analysed.flow.target}": sum(each.target_records for each in partitions),
                    "late": sum(each.source_late for each in partitions),
                    "buckets": sum(each.buckets for each in partitions),
                    BucketState.EQUAL.value: sum(each.equal for each in partitions),
                    **{
                        state.value: self.report.count(state, topic.source)
                        for state in BucketState
                        if state is not BucketState.EQUAL
                    },
                }
            )
        read = [
            f"{stream.where.alias} was read to its end {formats.second(at_ms) if at_ms is not None else 'never'}"
            for stream, at_ms in zip(
                self._streams, (self.report.reading.source_ms, self.report.reading.target_ms), strict=True
            )
        ]
        return Table(f"{source.where.alias} and {target.where.alias}, bucket by bucket", rows, "; ".join(read))

    def differences(self, limit: int = 20) -> Table:
        """The oldest unequal buckets, faults first, with the offsets to look at."""
        findings = sorted(self._compared().findings, key=lambda finding: finding.state not in _FAULTS)[:limit]
        rows: list[Row] = [
            {
                "partition": str(finding.bucket.partition),
                "from": formats.second(finding.bucket.start_ms),
                "verdict": finding.state.value,
                "on the target": finding.what.value if finding.what else "",
                "source": _offsets(finding.bucket.source),
                "target": _offsets(finding.bucket.target),
                "why": finding.why,
            }
            for finding in findings
        ]
        return Table("Buckets that are not equal" if rows else self._said_of_equal(), rows)

    def evidence(self, limit: int = 3) -> Table:
        """The records of the first few faults, compared one by one, as far as they still exist."""
        plan, (source, target) = self._planned()
        wrong = [finding for finding in self._compared().findings if finding.state in _FAULTS][:limit]
        rows: list[Row] = []
        for finding in wrong:
            work = partial(compare_records, source=source, target=target, plan=plan, finding=finding)
            result = self._jobs.run(f"{finding.bucket.partition} at {formats.second(finding.bucket.start_ms)}", work)
            for reason in result.reasons if result.missing is None else ():
                rows.append(_example_row(finding, "unknown", None, None, reason))
            for example in result.examples:
                rows.append(
                    _example_row(
                        finding, example.fault.value, example.source_offset, example.target_offset, example.detail
                    )
                )
        nothing = (
            "No record differs" if any(each.buckets for each in self._compared().partitions) else "Nothing was read"
        )
        return Table("Records that differ" if rows else nothing, rows)

    def conclude(self) -> Table:
        """The verdict, with `scorecard.json`."""
        report = self._compared()
        checks = [
            *self._read_checks(report),
            *(c for topic in self._planned()[0].source for c in topic_checks(report, topic.source)),
        ]
        return self._conclude(
            checks,
            Records(
                produced=sum(each.source_records for each in report.partitions),
                mirrored=sum(each.target_records for each in report.partitions),
            ),
        )

    def close(self) -> None:
        """Stop following, then what `AnalysisSession` stops; positions stay in `state`."""
        with self._lock:
            self.stop()
            super().close()

    def _said_of_equal(self) -> str:
        """What is so where no bucket differs: of what was not read, nothing is known."""
        report = self._compared()
        if not any(each.buckets for each in report.partitions):
            return "Nothing was read"
        ended = None not in (report.reading.source_ms, report.reading.target_ms)
        whole = ended and not report.failures and not self._unreachable
        return "Every bucket is equal" if whole else "Every bucket that was read is equal"

    def _compared(self) -> BucketReport:
        if self.report is None:
            self.compare()
        assert self.report is not None
        return self.report

    def _planned(self) -> tuple[AuditPlan, tuple[BucketStream, ...]]:
        """The plan in `state`, made if there is none, and its two streams."""
        if self._plan is not None:
            return self._plan, self._streams
        source, target = self.analysed.source, self.analysed.target
        settings, flow = self.analysed.settings, self.analysed.flow
        path = self.state / PLAN
        if path.exists():
            plan = read_json(path, _PLAN)
            for where, topics in ((source, plan.source), (target, plan.target)):
                try:
                    refuse_recreated(where, topics)
                except Unreachable as error:
                    self._unreachable[where.alias] = str(error)  # what was read before is still compared
        else:
            pairs = [(pair.topic, pair.remote) for pair in self.analysed.pairs(self._asked) if not pair.unread]
            maps = read_flow_maps(settings, flow, shared=True)
            of_both = shared_of(settings, flow, [topic for topic, _ in pairs])
            journals = pin_journals(settings, flow, of_both)
            plan = plan_audit(source, target, pairs, maps, self._bucket_ms, of_both, journals)
            write_whole(path, _PLAN.dump_json(plan, indent=1))
        refuse_other_shares(plan, shared_of(settings, flow, [topic.source for topic in plan.source]))
        self._plan = plan
        self._streams = tuple(
            BucketStream(
                where,
                topics,
                self.state / name,
                plan.bucket_ms,
                keep=partial(keep_share, settings, flow, plan.shared, plan.journals, copies=copies)
                if plan.journals is not None
                else None,
            )
            for where, topics, name, copies in (
                (source, plan.source, "source", False),
                (target, plan.target, "target", True),
            )
        )
        return plan, self._streams

    def _start(self, every_s: float | None) -> None:
        if self._closed:
            raise closed()
        _, streams = self._planned()
        if any(stream.running for stream in streams):
            raise UsageError(
                "both sides are followed already", "start() or catch_up() is running", "Call stop() first."
            )
        spark = self._session.result()
        try:
            for stream in streams:
                try:
                    stream.start(spark, every_s)
                    self._unreachable.pop(stream.where.alias, None)
                except Unreachable as error:
                    self._unreachable[stream.where.alias] = str(error)
        except BaseException:
            self.stop()
            raise

    def _read_checks(self, report: BucketReport) -> list[Check]:
        """Was each side read to its end lately, and is every topic followed?"""
        now_ms = clock.now_ms()
        failed = dict(why.split(": ", 1) for why in report.failures)
        checks = []
        for stream, at_ms in zip(self._streams, (report.reading.source_ms, report.reading.target_ms), strict=True):
            alias = stream.where.alias
            why = failed.get(alias) or self._unreachable.get(alias, "")
            checks.append(read_check(alias, at_ms, now_ms, self._lag_seconds, why))
        if not self._asked and not self._unreachable:
            followed = {topic.source for topic in self._planned()[0].source}
            for pair in self.analysed.pairs():
                if pair.topic not in followed:
                    evidence = "it was added to the flow later, or was on one side only; start again with an empty state folder"
                    checks.append(Check(name=f"{pair.topic} is followed", verdict=Verdict.UNKNOWN, evidence=evidence))
        return checks


def _example_row(finding: BucketFinding, fault: str, source: int | None, target: int | None, what: str) -> Row:
    return {
        "partition": str(finding.bucket.partition),
        "from": formats.second(finding.bucket.start_ms),
        "fault": fault,
        "on the source": "-" if source is None else f"{source:,}",
        "on the target": "-" if target is None else f"{target:,}",
        "what": what,
    }


def _offsets(side: BucketSums | None) -> str:
    return "-" if side is None else f"{side.records:,} in {side.first:,} to {side.last:,}"
