"""Every duplicate of a flow's mirror topics, in a notebook: how many, whose, where, when, and which ranges can be skipped.

Rules: as `analysis_session`. A flow of ours is judged by its map as far as that is certain, any other by what both logs
hold. A cause in `allow` is a price and no failure. What was found is in the run's folder, `duplicates.json`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter
from pyspark.sql import SparkSession

from drlib.analysis.audit.compare import reading_failure
from drlib.analysis.duplicates.find import find_duplicates
from drlib.analysis.duplicates.known_copies import known_copies, segments
from drlib.analysis.duplicates.result import Cause, DuplicateReport, Reread
from drlib.analysis.duplicates.rewinds import GroupCommits, find_rereads
from drlib.analysis.sessions.place import Pair
from drlib.analysis.sessions.session import AnalysisRun, AnalysisSession, Row, absent
from drlib.errors import UsageError
from drlib.files import write_whole
from drlib.kafka.admin.errors import ClusterRefused
from drlib.lab.checker.history_files import read_history
from drlib.lab.checker.rereads import reread_ranges
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import Records
from drlib.runs.table import Table

FOUND: Final = "duplicates.json"
SHOWN: Final = 50
_REPORTS: Final = TypeAdapter(dict[str, DuplicateReport])
_CLEAN: Final[Mapping[Cause, str]] = {
    Cause.REPLICATOR: "nothing was copied twice",
    Cause.PRODUCER: "nothing was written twice",
    Cause.FAILOVER: "no group read anything again",
}


class DuplicatesAudit(AnalysisSession):
    """`histories` are files of applications that write down what they process; without them a group is judged by its
    committed positions."""

    def __init__(
        self,
        run: AnalysisRun,
        *,
        allow: Sequence[str] = (),
        histories: Sequence[str] = (),
    ) -> None:
        self._allowed = tuple(_cause(each) for each in allow)
        self._histories = tuple(Path(path) for path in histories)
        super().__init__(run)
        self._blind = ""  # why no group's positions could be looked at
        self.reports: dict[str, DuplicateReport] = {}

    def find(self) -> Table:
        """Look at every topic, once; how many duplicates there are, and whose."""
        self._pin()
        if not self.reports:
            known = known_copies(self.place.settings, self.place.flow)
            commits = self._commits()
            found = {}
            try:
                for pair in self._pairs:
                    if not pair.absent:
                        look = partial(self._look, pair=pair, known=known, commits=commits)
                        found[pair.topic] = self._jobs.run(pair.topic, look)
            finally:
                if commits is not None:
                    commits.close()
            self.reports = found
            write_whole(self.run_dir / FOUND, _REPORTS.dump_json(found, indent=1))
        rows: list[Row] = [
            {
                "topic": topic,
                "records": report.target_records,
                "copied twice": _count(report, Cause.REPLICATOR),
                "written twice": _count(report, Cause.PRODUCER),
                "read again": _count(report, Cause.FAILOVER),
                "cause unknown": _count(report, Cause.UNKNOWN),
                "of a million": None if report.rate is None else round(report.rate * 1_000_000),
                "told by": "the mirror's map" if report.exact else "content and number",
                "verdict": report.verdict.value,
            }
            for topic, report in self.reports.items()
        ]
        return Table(f"Duplicates of {self.place.flow}", rows, self._blind)

    def examples(self, limit: int = 10) -> Table:
        """A few of each topic and cause, with the record each repeats."""
        rows: list[Row] = []
        for topic, report in self._found().items():
            for cause in Cause:
                some = [one for one in report.examples if one.cause is cause]
                rows += [
                    {
                        "topic": topic,
                        "cause": cause.value,
                        "partition": one.partition,
                        "on the source": "-" if one.source_offset is None else f"{one.source_offset:,}",
                        "on the target": "-" if one.target_offset is None else f"{one.target_offset:,}",
                        "repeats": one.first,
                        "record": "-" if one.record_id is None else str(one.record_id),
                    }
                    for one in some[:limit]
                ]
        return Table("Examples" if rows else "There is no duplicate to show", rows)

    def skip(self) -> Table:
        """The stretches of the mirror topics that hold nothing but duplicates: a consumer loses nothing by skipping them."""
        rows: list[Row] = []
        more = 0
        for topic, report in self._found().items():
            rows += [
                {
                    "topic": report.topic,
                    "partition": one.partition,
                    "from": one.first,
                    "before": one.next_offset,
                    "records": one.next_offset - one.first,
                    "cause": one.cause.value,
                }
                for one in report.skip[:SHOWN]
            ]
            more += report.skip_ranges - len(report.skip[:SHOWN])
            del topic
        note = f"{more:,} more are in {FOUND}, or beyond what it keeps" if more else ""
        return Table("Ranges to skip" if rows else "There is no range to skip", rows, note)

    def groups(self) -> Table:
        """Groups that read records again, and what shows it."""
        rows: list[Row] = [
            {
                "group": one.group,
                "on": one.cluster,
                "topic": one.topic,
                "partition": one.partition,
                "from": one.first,
                "before": one.next_offset,
                "records": one.records,
                "": "still to be read again" if one.pending else "read again",
                "evidence": one.how,
            }
            for report in self._found().values()
            for one in report.rereads
        ]
        return Table("Read again by groups" if rows else "No group's position went back", rows, self._blind)

    def conclude(self) -> Table:
        """The verdict, with `scorecard.json`."""
        self._found()
        checks = [check for pair in self._pairs for check in self._checks(pair)]
        reports = self.reports.values()
        totals = [[r.source_records, r.target_records, r.total] for r in reports]
        sums = [None if not column or None in column else sum(column) for column in zip(*totals, strict=True)]
        produced, mirrored, duplicated = sums or (None, None, None)
        return self._conclude(checks, Records(produced=produced, mirrored=mirrored, duplicated=duplicated))

    def _found(self) -> dict[str, DuplicateReport]:
        if not self.reports:
            self.find()
        return self.reports

    def _commits(self) -> GroupCommits | None:
        """What groups committed on both sides; None, and `_blind` says why, where a cluster does not show it."""
        source, target = self.place.source, self.place.target
        try:
            return self._jobs.run("positions of groups", lambda spark: GroupCommits(spark, source, target))
        except ClusterRefused as error:
            self._blind = f"No group's position could be looked at: {error}"
            return None

    def _look(self, spark: SparkSession, pair: Pair, known: Maps, commits: GroupCommits | None) -> DuplicateReport:
        source, target = self.place.source, self.place.target
        here, there = self._range(source.alias, pair.topic), self._range(target.alias, pair.remote)
        try:
            rereads = find_rereads(spark, source, target, here, there, commits) if commits is not None else ()
        except Exception as error:  # py4j's or PySpark's own; what could not be read makes the search itself unknown
            if reading_failure(str(error)) is None:
                raise
            rereads = ()
        told = self._from_histories(pair)
        heard = {one.group for one in told}
        return find_duplicates(
            spark,
            target,
            pair.remote,
            source=source,
            topic=pair.topic,
            source_range=here,
            target_range=there,
            segments=segments(known, pair.topic, here.start),
            rereads=(*told, *(one for one in rereads if one.group not in heard)),
            allowed=self._allowed,
        )

    def _from_histories(self, pair: Pair) -> tuple[Reread, ...]:
        if not self._histories:
            return ()
        history = read_history(*self._histories)
        if history.missing:
            raise UsageError(
                f"history {history.missing[0]}", "there is no such file", "Correct the path, or leave it out."
            )
        return tuple(
            Reread(
                one.group,
                one.cluster,
                one.topic,
                one.partition,
                one.first,
                one.next_offset,
                one.records,
                one.at_ms,
                "its own history",
            )
            for one in reread_ranges(history.consumed or ())
            if one.topic in (pair.topic, pair.remote)
        )

    def _checks(self, pair: Pair) -> list[Check]:
        if pair.absent:
            return [absent(pair)]
        report = self.reports[pair.topic]
        if report.counts is None:
            return [
                Check(name=f"{pair.topic}: it was read", verdict=Verdict.UNKNOWN, evidence="; ".join(report.reasons))
            ]
        checks = []
        for cause, clean in _CLEAN.items():
            count = report.counts[cause]
            verdict = Verdict.PASS
            evidence = f"{count:,} of {report.target_records:,} records"
            if count:
                verdict = Verdict.CONDITIONS if cause in self._allowed else Verdict.FAIL
            elif cause is Cause.FAILOVER and self._blind:
                verdict, evidence = Verdict.UNKNOWN, self._blind
            waiting = sum(one.records for one in report.rereads if one.pending)
            if cause is Cause.FAILOVER and waiting:
                evidence += f"; {waiting:,} stand to be read again"
            checks.append(Check(name=f"{pair.topic}: {clean}", verdict=verdict, evidence=evidence))
        told = "the mirror's own map" if report.exact else "content and occurrence number"
        doubts = [reason for reason in report.reasons if report.verdict is Verdict.UNKNOWN]
        if report.counts[Cause.UNKNOWN] and not doubts:
            doubts = [report.reasons[-1]]
        checks.append(
            Check(
                name=f"{pair.topic}: every duplicate has a cause",
                verdict=Verdict.UNKNOWN if doubts else Verdict.PASS,
                evidence="; ".join(doubts) or f"told by {told}",
            )
        )
        return checks


def _cause(name: str) -> Cause:
    try:
        return Cause(name)
    except ValueError:
        known = ", ".join(Cause)
        raise UsageError(f"allow: {name}", "there is no such cause of duplicates", f"Causes are {known}.") from None


def _count(report: DuplicateReport, cause: Cause) -> int | None:
    return None if report.counts is None else report.counts[cause]
