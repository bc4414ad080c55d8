"""Do the two clusters agree? A flow's topics against their sources, record by record, and its checkpoints, in a notebook.

Rules: as in `session`. Each question is a check of its own: lost, invented, copied twice, out of order, altered,
checkpoints exact. Records not mirrored yet are no loss: they are a price as long as they span at most `lag_seconds`. A
checkpoint that has records read again is a price only up to `reread_allowed`, as MirrorMaker 2's sparse ones have; one
that has records skipped fails. Of a topic that both directions copy under one name the flow's own share is compared, and
checkpoints with the records of both clusters. The results are in the run's folder, `audit.json`.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from pydantic import TypeAdapter
from pyspark.sql import SparkSession

from drlib.analysis.audit.checkpoints import audit_checkpoints, read_checkpoints
from drlib.analysis.audit.result import AuditResult, CheckpointAudit, unreadable
from drlib.analysis.audit.staged import audit_topics
from drlib.analysis.sessions.analysed_flow import TopicPair
from drlib.analysis.sessions.session import AnalysisRun, AnalysisSession, Row, missing_topic, table_of_found
from drlib.analysis.spark.contents import group_contents
from drlib.analysis.spark.topics import read_range
from drlib.files import write_whole
from drlib.mirror.mm2.records import Checkpoint
from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import Records
from drlib.runs.table import Table

RESULT_FILE: Final = "audit.json"
_RESULTS: Final = TypeAdapter(dict[str, AuditResult])
# field, what is so when it is 0, and what its records are
_QUESTIONS: Final = (
    ("invented", "nothing was invented", "are not on the source"),
    ("duplicated", "nothing was copied twice", "were copied twice"),
    ("out_of_order", "every key is in order", "come after a later one of their key"),
    ("altered", "nothing was altered", "were altered"),
)


class NightlyAudit(AnalysisSession):
    """`lag_seconds` and `reread_allowed` are what is a price, not a fault."""

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
        """Read both sides of every topic, once, and count what differs."""
        self._pin()
        if not self.results:
            policy = self.analysed.flow_settings.policy
            checkpoints = read_checkpoints(self.analysed.target, policy.checkpoints_topic(self.analysed.flow.source))
            results = {}
            for pair in self._pairs:
                if not pair.unread:
                    results[pair.topic] = self._jobs.run(
                        pair.topic, partial(self._audit_topic, pair=pair, checkpoints=checkpoints)
                    )
            self.results = {**results, **{topic: unreadable(why) for topic, why in self._replaced().items()}}
            write_whole(self.run_dir / RESULT_FILE, _RESULTS.dump_json(self.results, indent=1))
        source, target = self.analysed.flow.source, self.analysed.flow.target
        rows: list[Row] = [
            {
                "topic": topic,
                f"on {source}": result.source_records,
                f"on {target}": result.target_records,
                "lost": _holes(result),
                "not mirrored yet": None if result.missing is None else result.missing - (_holes(result) or 0),
                "invented": result.invented,
                "copied twice": result.duplicated,
                "out of order": result.out_of_order,
                "altered": result.altered,
                "compacted away": result.compacted,
                "verdict": result.verdict.value,
            }
            for topic, result in self.results.items()
        ]
        return Table(f"{source} and {target}, record by record", rows, self._shared_note)

    def partitions(self) -> Table:
        """The same for each partition that differs, or for all of them where none does."""
        rows: list[Row] = []
        for topic, result in self._compared().items():
            for row in result.per_partition:
                faults = {
                    "lost": row.holes,
                    "invented": row.invented,
                    "copied twice": row.duplicated,
                    "out of order": row.out_of_order,
                    "altered": row.altered,
                    "undecidable": row.unseen,
                }
                rows.append({"topic": topic, "partition": row.partition, "records": row.source_records, **faults})
        wrong = [row for row in rows if any(list(row.values())[3:])]
        found = "Partitions that differ" if wrong else "No partition differs"
        return self._found(found, wrong or rows, "No partition has a record")

    def evidence(self, limit: int = 20) -> Table:
        """Records that show the faults."""
        rows: list[Row] = [
            {
                "topic": topic,
                "fault": example.fault.value,
                "partition": example.partition,
                "on the source": "-" if example.source_offset is None else f"{example.source_offset:,}",
                "on the target": "-" if example.target_offset is None else f"{example.target_offset:,}",
                "record": "-" if example.record_id is None else str(example.record_id),
                "what": example.detail,
            }
            for topic, result in self._compared().items()
            for example in result.examples[:limit]
        ]
        return self._found("Evidence", rows, "No record differs")

    def checkpoints(self) -> Table:
        """Each group's newest checkpoints against the copies they point at."""
        rows: list[Row] = [
            {
                "group": checkpoint.group,
                "partition": str(checkpoint.partition),
                "on the source": checkpoint.upstream,
                "on the target": checkpoint.downstream,
                "would read again": checkpoint.re_read,
                "would skip": checkpoint.skipped,
                "verdict": checkpoint.verdict.value,
            }
            for result in self._compared().values()
            for checkpoint in result.checkpoints
        ]
        return self._found("Checkpoints", rows, "No group has a checkpoint for these topics")

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

    def _found(self, found: str, rows: Sequence[Row], nothing: str) -> Table:
        unread = [p.topic for p in self._pairs if p.unread or self.results[p.topic].missing is None]
        return table_of_found(found, rows, nothing, len(self._pairs), unread)

    def _compared(self) -> dict[str, AuditResult]:
        if not self.results:
            self.compare()
        return self.results

    def _audit_topic(self, spark: SparkSession, pair: TopicPair, checkpoints: Sequence[Checkpoint]) -> AuditResult:
        source, target = self.analysed.source, self.analysed.target
        shared = pair.topic in self._shared
        result = audit_topics(
            spark,
            source,
            target,
            pair.topic,
            pair.remote,
            source_range=self._range(source.alias, pair.topic),
            target_range=self._range(target.alias, pair.remote),
            checkpoints=() if shared else checkpoints,
        )
        if not shared or result.missing is None:
            return result
        whole = (  # a group reads the records of both clusters
            read_range(spark, side, self._range(side.alias, name, whole=True))
            for side, name in ((source, pair.topic), (target, pair.remote))
        )
        return replace(result, checkpoints=audit_checkpoints(group_contents(*whole), pair.remote, checkpoints))

    def _checks(self, pair: TopicPair) -> list[Check]:
        if pair.unread:
            return [missing_topic(pair)]
        result = self.results[pair.topic]
        if result.missing is None:
            return [
                Check(name=f"{pair.topic}: it was read", verdict=Verdict.UNKNOWN, evidence="; ".join(result.reasons))
            ]
        undecided = sum(row.unseen for row in result.per_partition)
        doubt = Verdict.UNKNOWN if undecided or not result.source_records else Verdict.PASS
        holes = _holes(result) or 0
        checks = [lost_check(pair.topic, result, holes, doubt, self._lag_seconds)]
        checks += copy_checks(pair.topic, result, doubt, undecided)
        if result.checkpoints:
            in_any_order = pair.topic in self._shared
            checks.append(checkpoints_check(pair.topic, result.checkpoints, self._reread_allowed, in_any_order))
        return checks


def lost_check(topic: str, result: AuditResult, holes: int, doubt: Verdict, lag_s: float) -> Check:
    """Was a record lost? What is not mirrored yet is no loss, but the name then says how much of it passes."""
    not_mirrored_yet = (result.missing or 0) - holes
    name = f"{topic}: nothing was lost"
    if not_mirrored_yet and not holes:
        name += f", and at most {lag_s:g} s are not mirrored yet"
    evidence = f"{holes:,} of {result.source_records:,} records were lost"
    if result.compacted:
        evidence += f"; {result.compacted:,} were compacted away on one side"
    if not_mirrored_yet:
        evidence += f"; {not_mirrored_yet:,} are not mirrored yet, {result.rpo_seconds:,.1f} s of traffic"
    if not result.source_records:
        return Check(name=name, verdict=Verdict.UNKNOWN, evidence="the source holds no record to compare with")
    late = not_mirrored_yet > 0 and (result.rpo_seconds or 0.0) > lag_s
    if holes or late:
        return Check(name=name, verdict=Verdict.FAIL, evidence=evidence)
    verdict = doubt if doubt is Verdict.UNKNOWN else Verdict.CONDITIONS if not_mirrored_yet else Verdict.PASS
    return Check(name=name, verdict=verdict, evidence=evidence)


def copy_checks(topic: str, result: AuditResult, doubt: Verdict, undecided: int) -> list[Check]:
    """Is what is on the target what the source has? Where no record is on both sides, nothing was compared."""
    checks, nothing = [], not _on_both_sides(result, undecided)
    for field, clean, what in _QUESTIONS:
        count = getattr(result, field)
        verdict = Verdict.FAIL if count else doubt if field in ("invented", "duplicated") else Verdict.PASS
        evidence = f"{count:,} of {result.target_records:,} records {what}"
        if not count and not result.target_records:
            verdict, evidence = Verdict.UNKNOWN, "the target holds no record to compare"
        elif not count and nothing and verdict is Verdict.PASS:
            verdict, evidence = Verdict.UNKNOWN, "no record is on both sides, so there is nothing to compare"
        elif verdict is Verdict.UNKNOWN:
            evidence += f"; {undecided:,} have a counterpart that can no longer be read"
        checks.append(Check(name=f"{topic}: {clean}", verdict=verdict, evidence=evidence))
    return checks


def _on_both_sides(result: AuditResult, undecided: int) -> int:
    """How many records of the source are on the target, altered ones among them: each record on one side has a cause."""
    counts = (result.missing, result.invented, result.duplicated, result.compacted, undecided)
    return ((result.source_records or 0) + (result.target_records or 0) - sum(count or 0 for count in counts)) // 2


def checkpoints_check(
    topic: str, checkpoints: Sequence[CheckpointAudit], allowed: int, in_any_order: bool = False
) -> Check:
    """Do groups that resume at a checkpoint skip nothing, and read at most `allowed` records again?

    `in_any_order`: both directions copy the topic, so the logs differ in order and some records are read again: without an
    `allowed` above 0 that has no limit.
    """
    re_read = max((each.re_read or 0 for each in checkpoints), default=0)
    skipped = max((each.skipped or 0 for each in checkpoints), default=0)
    unknown = sum(each.verdict is Verdict.UNKNOWN for each in checkpoints)
    evidence = f"{len(checkpoints)} checkpoints; at most {re_read:,} records read again and {skipped:,} skipped by one"
    name, verdict = f"{topic}: checkpoints are exact", Verdict.PASS if checkpoints else Verdict.UNKNOWN
    if re_read and allowed and not skipped:
        name = (
            f"{topic}: a group that resumes at a checkpoint skips nothing and reads at most {allowed:,} records again"
        )
    elif re_read and in_any_order and not skipped:
        name = f"{topic}: a group that resumes at a checkpoint skips nothing, and the logs differ in order"
    if skipped or (re_read > allowed and not (in_any_order and not allowed)):
        verdict = Verdict.FAIL
    elif unknown:
        verdict, evidence = Verdict.UNKNOWN, f"{evidence}; {unknown} have no copied record to compare with"
    elif re_read:
        verdict = Verdict.CONDITIONS
    return Check(name=name, verdict=verdict, evidence=evidence)


def _holes(result: AuditResult) -> int | None:
    """Missing records with a mirrored one after them; None where nothing was read."""
    return None if result.missing is None else sum(row.holes for row in result.per_partition)
