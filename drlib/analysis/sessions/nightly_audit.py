"""Do the two clusters agree? A flow's topics against their sources, record by record, and its checkpoints, in a notebook.

Rules: as `analysis_session`. Each question is a check of its own: lost, invented, copied twice, out of order, altered,
checkpoints exact. What a mirror has yet to copy is no loss: it is a price as long as it spans at most `lag_seconds`. A
checkpoint that has records read again is a price only up to `reread_allowed`, as MirrorMaker 2's sparse ones have; one
that has records skipped fails. What was found is in the run's folder, `audit.json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from pydantic import TypeAdapter
from pyspark.sql import SparkSession

from drlib.analysis.audit.checkpoints import read_checkpoints
from drlib.analysis.audit.result import AuditResult, CheckpointAudit
from drlib.analysis.audit.staged import audit_topics
from drlib.analysis.sessions.place import Pair
from drlib.analysis.sessions.session import AnalysisRun, AnalysisSession, Row, absent
from drlib.files import write_whole
from drlib.mirror.mm2.records import Checkpoint
from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import Records
from drlib.runs.table import Table

FOUND: Final = "audit.json"
_RESULTS: Final = TypeAdapter(dict[str, AuditResult])
_QUESTIONS: Final = (
    ("invented", "nothing was invented"),
    ("duplicated", "nothing was copied twice"),
    ("out_of_order", "every key is in order"),
    ("altered", "nothing was altered"),
)


class NightlyAudit(AnalysisSession):
    def __init__(
        self,
        run: AnalysisRun,
        *,
        lag_seconds: float = 300.0,
        reread_allowed: int = 0,
    ) -> None:
        self._lag_seconds = lag_seconds
        self._reread_allowed = reread_allowed
        super().__init__(run)
        self.results: dict[str, AuditResult] = {}

    def compare(self) -> Table:
        """Read both sides of every topic, once, and say what differs."""
        self._pin()
        if not self.results:
            policy = self.place.flow_settings.policy
            told = read_checkpoints(self.place.target, policy.checkpoints_topic(self.place.flow.source))
            found = {}
            for pair in self._pairs:
                if not pair.absent:
                    found[pair.topic] = self._jobs.run(pair.topic, partial(self._look, pair=pair, told=told))
            self.results = found
            write_whole(self.run_dir / FOUND, _RESULTS.dump_json(found, indent=1))
        source, target = self.place.flow.source, self.place.flow.target
        rows: list[Row] = [
            {
                "topic": topic,
                f"on {source}": one.source_records,
                f"on {target}": one.target_records,
                "lost": _holes(one),
                "yet to cross": None if one.missing is None else one.missing - (_holes(one) or 0),
                "invented": one.invented,
                "copied twice": one.duplicated,
                "out of order": one.out_of_order,
                "altered": one.altered,
                "compacted away": one.compacted,
                "verdict": one.verdict.value,
            }
            for topic, one in self.results.items()
        ]
        return Table(f"{source} and {target}, record by record", rows)

    def partitions(self) -> Table:
        """The same for each partition that is not as it should be, or all of them where all are."""
        rows: list[Row] = []
        for topic, one in self._compared().items():
            for row in one.per_partition:
                faults = {
                    "lost": row.holes,
                    "invented": row.invented,
                    "copied twice": row.duplicated,
                    "out of order": row.out_of_order,
                    "altered": row.altered,
                    "cannot be told": row.unseen,
                }
                rows.append({"topic": topic, "partition": row.partition, "records": row.source_records, **faults})
        wrong = [row for row in rows if any(list(row.values())[3:])]
        return Table("Partitions that differ" if wrong else "No partition differs", wrong or rows)

    def evidence(self, limit: int = 20) -> Table:
        """Records that show what is wrong."""
        rows: list[Row] = [
            {
                "topic": topic,
                "fault": one.fault.value,
                "partition": one.partition,
                "on the source": "-" if one.source_offset is None else f"{one.source_offset:,}",
                "on the target": "-" if one.target_offset is None else f"{one.target_offset:,}",
                "record": "-" if one.record_id is None else str(one.record_id),
                "what": one.detail,
            }
            for topic, found in self._compared().items()
            for one in found.examples[:limit]
        ]
        return Table("Evidence" if rows else "There is nothing to show: no record differs", rows)

    def checkpoints(self) -> Table:
        """Each group's newest checkpoints against the copies they point at."""
        rows: list[Row] = [
            {
                "group": one.group,
                "partition": str(one.partition),
                "on the source": one.upstream,
                "on the target": one.downstream,
                "would read again": one.re_read,
                "would skip": one.skipped,
                "verdict": one.verdict.value,
            }
            for found in self._compared().values()
            for one in found.checkpoints
        ]
        return Table("Checkpoints" if rows else "No group has a checkpoint for these topics", rows)

    def conclude(self) -> Table:
        """The verdict, with `scorecard.json`."""
        results = self._compared().values()
        checks = [check for pair in self._pairs for check in self._checks(pair)]
        columns = [[r.source_records, r.target_records, _holes(r), r.duplicated, r.out_of_order] for r in results]
        sums = [None if None in column else sum(column) for column in zip(*columns, strict=True)]
        produced, mirrored, lost, duplicated, disorder = sums or [None] * 5
        return self._conclude(
            checks,
            Records(produced=produced, mirrored=mirrored, lost=lost, duplicated=duplicated, out_of_order=disorder),
        )

    def _compared(self) -> dict[str, AuditResult]:
        if not self.results:
            self.compare()
        return self.results

    def _look(self, spark: SparkSession, pair: Pair, told: Sequence[Checkpoint]) -> AuditResult:
        source, target = self.place.source, self.place.target
        return audit_topics(
            spark,
            source,
            target,
            pair.topic,
            pair.remote,
            left_range=self._range(source.alias, pair.topic),
            right_range=self._range(target.alias, pair.remote),
            checkpoints=told,
        )

    def _checks(self, pair: Pair) -> list[Check]:
        if pair.absent:
            return [absent(pair)]
        one = self.results[pair.topic]
        if one.missing is None:
            return [Check(name=f"{pair.topic}: it was read", verdict=Verdict.UNKNOWN, evidence="; ".join(one.reasons))]
        undecided = sum(row.unseen for row in one.per_partition)
        doubt = Verdict.UNKNOWN if undecided or not one.source_records else Verdict.PASS
        holes = _holes(one) or 0
        checks = [self._lost(pair.topic, one, holes, doubt)]
        for field, clean in _QUESTIONS:
            count = getattr(one, field)
            verdict = Verdict.FAIL if count else doubt if field in ("invented", "duplicated") else Verdict.PASS
            evidence = f"{count:,} of {one.target_records:,} records"
            if verdict is Verdict.UNKNOWN:
                evidence += f"; {undecided:,} have no counterpart that is still there to read"
            checks.append(Check(name=f"{pair.topic}: {clean}", verdict=verdict, evidence=evidence))
        if one.checkpoints:
            checks.append(self._exact(pair.topic, one.checkpoints))
        return checks

    def _lost(self, topic: str, one: AuditResult, holes: int, doubt: Verdict) -> Check:
        name = f"{topic}: nothing was lost"
        tail = (one.missing or 0) - holes
        evidence = f"{holes:,} of {one.source_records:,} records"
        if one.compacted:
            evidence += f"; {one.compacted:,} were compacted away on one side"
        if tail:
            evidence += f"; {tail:,} are yet to cross, {one.rpo_seconds:,.1f} s of traffic"
        if not one.source_records:
            return Check(name=name, verdict=Verdict.UNKNOWN, evidence="the source holds no record to compare with")
        late = tail > 0 and (one.rpo_seconds or 0.0) > self._lag_seconds
        if holes or late:
            return Check(name=name, verdict=Verdict.FAIL, evidence=evidence)
        verdict = doubt if doubt is Verdict.UNKNOWN else Verdict.CONDITIONS if tail else Verdict.PASS
        return Check(name=name, verdict=verdict, evidence=evidence)

    def _exact(self, topic: str, told: Sequence[CheckpointAudit]) -> Check:
        again = max((one.re_read or 0 for one in told), default=0)
        skipped = max((one.skipped or 0 for one in told), default=0)
        unknown = sum(one.re_read is None for one in told)
        evidence = (
            f"{len(told)} checkpoints; at most {again:,} records read again and {skipped:,} skipped by one of them"
        )
        verdict = Verdict.PASS
        if skipped or again > self._reread_allowed:
            verdict = Verdict.FAIL
        elif unknown:
            verdict, evidence = Verdict.UNKNOWN, f"{evidence}; {unknown} have no copy to be judged by"
        elif again:
            verdict = Verdict.CONDITIONS
        return Check(name=f"{topic}: checkpoints are exact", verdict=verdict, evidence=evidence)


def _holes(one: AuditResult) -> int | None:
    """Missing records that others have overtaken; None where nothing was read."""
    return None if one.missing is None else sum(row.holes for row in one.per_partition)
