"""Do the two clusters agree, all the time? Both followed by Structured Streaming, compared bucket by bucket, in a notebook.

Rules: as `analysis_session`, but what is known outlives a run: plan, checkpoints and sums are in `state`, a folder that one
process at a time works on and the next run goes on from, killed or not. What was read once need not be there any more when
it is compared. A bucket that differs behind what both sides have read is a fault; one that the mirror has yet to pass is a
price for `lag_seconds` and a fault after that. A side that is no longer read makes the whole unknown, and so does a topic of
the flow that is not followed. What a fault is of is found by comparing that bucket's records one by one.
Not for: order within keys and checkpoints, which sums do not see (`nightly_audit`).
"""

from __future__ import annotations

import contextlib
from functools import partial
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from drlib import clock
from drlib.analysis.continuous.compare import AuditPlan, BucketReport, examine, look, plan_audit, refuse_others
from drlib.analysis.continuous.rules import Finding, State, Sums
from drlib.analysis.continuous.stream import BucketStream
from drlib.analysis.sessions.bucket_checks import moment, read_check, topic_checks
from drlib.analysis.sessions.session import AnalysisRun, AnalysisSession, Row
from drlib.errors import Unreachable, UsageError
from drlib.files import write_whole
from drlib.mirror.offsets.map.flow_maps import read_flow_maps
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.runs.check import Check, Verdict
from drlib.runs.lock import alone
from drlib.runs.scorecard import Records
from drlib.runs.table import Table

PLAN: Final = "plan.json"
FOUND: Final = "buckets.json"
_PLAN: Final = TypeAdapter(AuditPlan)
_REPORT: Final = TypeAdapter(BucketReport)
_LOOK_S: Final = 0.1
_WRONG: Final = (State.DIFFERS, State.OVERDUE)


class ContinuousAudit(AnalysisSession):
    """`state` is where it stands, from run to run; `bucket_seconds` counts when that folder is new."""

    def __init__(
        self,
        run: AnalysisRun,
        state: Path,
        *,
        bucket_seconds: float = 60.0,
        lag_seconds: float = 300.0,
    ) -> None:
        if bucket_seconds < 1:
            raise UsageError(f"buckets of {bucket_seconds:g} s", "they are shorter than a second", "Use 1 or more.")
        self._held = contextlib.ExitStack()
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._held.enter_context(
            alone(state, "audit.lock", "another process audits into it", "Stop that one, or use another folder.")
        )
        self.state = state
        self._bucket_ms = round(bucket_seconds * 1000)
        self._lag_seconds = lag_seconds
        self._plan: AuditPlan | None = None
        self._streams: tuple[BucketStream, ...] = ()
        self._silent: dict[str, str] = {}
        self.report: BucketReport | None = None
        super().__init__(run)

    def followed(self) -> Table:
        """What is followed, and from where on. Raises `StalePlan` for a topic that was made again since, `Unreachable`."""
        plan, (source, target) = self._planned()
        rows: list[Row] = []
        for stream, topics in ((source, plan.source), (target, plan.target)):
            stands = stream.position().offsets
            for topic in topics:
                read = sum(
                    offset - topic.start.get(at.partition, 0) for at, offset in stands.items() if at.topic == topic.name
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
        return Table("Followed on both sides", rows, note)

    def catch_up(self) -> Table:
        """Read both sides to where their ends are now, from where the last run stopped, and compare."""
        self._begin(None)
        try:
            while any(stream.running for stream in self._streams):
                for stream in self._streams:
                    stream.wait(_LOOK_S)
        except BaseException:
            self.stop()
            raise
        return self.compare()

    def start(self, every_s: float = 10.0) -> Table:
        """Follow both sides until `stop`, with a batch every so many seconds."""
        self._begin(every_s)
        return self.followed()

    def stop(self) -> None:
        """Follow no longer; a batch that is under way is read again by the next run. May be repeated."""
        for stream in self._streams:
            stream.stop()

    def compare(self) -> Table:
        """Where both sides stand now, topic by topic; may be asked as often as wanted while they are followed."""
        plan, (source, target) = self._planned()
        try:
            maps = read_flow_maps(self.place.settings, self.place.flow)
        except Unreachable:
            maps = Maps()  # nothing can be judged before it is overdue then
        work = partial(look, plan=plan, source=source, target=target, maps=maps, lag_s=self._lag_seconds)
        self.report = self._jobs.run("buckets", work)
        write_whole(self.run_dir / FOUND, _REPORT.dump_json(self.report, indent=1))
        rows: list[Row] = []
        for topic in plan.source:
            mine = [one for one in self.report.partitions if one.partition.topic == topic.source]
            rows.append(
                {
                    "topic": topic.source,
                    f"on {self.place.flow.source}": sum(one.source_records for one in mine),
                    f"on {self.place.flow.target}": sum(one.target_records for one in mine),
                    "late": sum(one.source_late for one in mine),
                    "buckets": sum(one.buckets for one in mine),
                    State.EQUAL.value: sum(one.equal for one in mine),
                    **{
                        state.value: self.report.count(state, topic.source)
                        for state in State
                        if state is not State.EQUAL
                    },
                }
            )
        read = [
            f"{stream.where.alias} was read to its end {moment(at_ms) if at_ms is not None else 'never'}"
            for stream, at_ms in zip(
                self._streams, (self.report.reading.source_ms, self.report.reading.target_ms), strict=True
            )
        ]
        return Table(f"{source.where.alias} and {target.where.alias}, bucket by bucket", rows, "; ".join(read))

    def differences(self, limit: int = 20) -> Table:
        """The oldest buckets that are not equal, the faults among them first, with the offsets to look at."""
        found = sorted(self._compared().findings, key=lambda one: one.state not in _WRONG)[:limit]
        rows: list[Row] = [
            {
                "partition": str(one.bucket.partition),
                "from": moment(one.bucket.start_ms),
                "verdict": one.state.value,
                "on the target": one.what.value if one.what else "",
                "source": _offsets(one.bucket.source),
                "target": _offsets(one.bucket.target),
                "why": one.why,
            }
            for one in found
        ]
        return Table("Buckets that are not equal" if rows else "Every bucket is equal", rows)

    def evidence(self, limit: int = 3) -> Table:
        """The records of the first few faults, compared one by one. Needs them to be there still."""
        plan, (source, target) = self._planned()
        wrong = [one for one in self._compared().findings if one.state in _WRONG][:limit]
        rows: list[Row] = []
        for one in wrong:
            work = partial(examine, source=source.where, target=target.where, plan=plan, finding=one)
            told = self._jobs.run(f"{one.bucket.partition} at {moment(one.bucket.start_ms)}", work)
            for reason in told.reasons if told.missing is None else ():
                rows.append(_shown(one, "unknown", None, None, reason))
            for example in told.examples:
                rows.append(
                    _shown(one, example.fault.value, example.source_offset, example.target_offset, example.detail)
                )
        return Table("Records that differ" if rows else "There is nothing to show", rows)

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
                produced=sum(one.source_records for one in report.partitions),
                mirrored=sum(one.target_records for one in report.partitions),
            ),
        )

    def close(self) -> None:
        """Stop following, then what `AnalysisSession` stops; where it stood stays in `state`."""
        with self._held:
            self.stop()
            super().close()

    def _compared(self) -> BucketReport:
        if self.report is None:
            self.compare()
        assert self.report is not None
        return self.report

    def _planned(self) -> tuple[AuditPlan, tuple[BucketStream, ...]]:
        """The plan of `state`, made if there is none, and its two streams."""
        if self._plan is not None:
            return self._plan, self._streams
        source, target = self.place.source, self.place.target
        path = self.state / PLAN
        if path.exists():
            plan = _PLAN.validate_json(path.read_bytes())
            for where, topics in ((source, plan.source), (target, plan.target)):
                try:
                    refuse_others(where, topics)
                except Unreachable as error:
                    self._silent[where.alias] = str(error)  # what was read of it is compared all the same
        else:
            pairs = [(one.topic, one.remote) for one in self.place.pairs(self._asked) if not one.absent]
            plan = plan_audit(
                source, target, pairs, read_flow_maps(self.place.settings, self.place.flow), self._bucket_ms
            )
            write_whole(path, _PLAN.dump_json(plan, indent=1))
        self._plan = plan
        self._streams = tuple(
            BucketStream(where, topics, self.state / name, plan.bucket_ms)
            for where, topics, name in ((source, plan.source, "source"), (target, plan.target, "target"))
        )
        return plan, self._streams

    def _begin(self, every_s: float | None) -> None:
        _, streams = self._planned()
        if any(stream.running for stream in streams):
            raise UsageError("both sides are followed already", "they were started before", "Call stop() first.")
        spark = self._session.result()
        try:
            for stream in streams:
                try:
                    stream.begin(spark, every_s)
                    self._silent.pop(stream.where.alias, None)
                except Unreachable as error:
                    self._silent[stream.where.alias] = str(error)
        except BaseException:
            self.stop()
            raise

    def _read_checks(self, report: BucketReport) -> list[Check]:
        """Is everything read, and was it lately?"""
        now_ms = clock.now_ms()
        failed = dict(why.split(": ", 1) for why in report.failures)
        checks = []
        for stream, at_ms in zip(self._streams, (report.reading.source_ms, report.reading.target_ms), strict=True):
            alias = stream.where.alias
            why = failed.get(alias) or self._silent.get(alias, "")
            checks.append(read_check(alias, at_ms, now_ms, self._lag_seconds, why))
        if not self._asked and not self._silent:
            followed = {topic.source for topic in self._planned()[0].source}
            for pair in self.place.pairs():
                if pair.topic not in followed:
                    evidence = "it came to the flow later, or was on one side only; begin in a new folder"
                    checks.append(Check(name=f"{pair.topic} is followed", verdict=Verdict.UNKNOWN, evidence=evidence))
        return checks


def _shown(finding: Finding, fault: str, source: int | None, target: int | None, what: str) -> Row:
    return {
        "partition": str(finding.bucket.partition),
        "from": moment(finding.bucket.start_ms),
        "fault": fault,
        "on the source": "-" if source is None else f"{source:,}",
        "on the target": "-" if target is None else f"{target:,}",
        "what": what,
    }


def _offsets(side: Sums | None) -> str:
    return "-" if side is None else f"{side.records:,} in {side.first:,} to {side.last:,}"
