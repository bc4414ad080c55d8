"""Every duplicate of a flow's mirror topics, in a notebook: how many, their causes, where, when, and which ranges to skip.

Rules: as in `session`. A flow of drlib is judged by its offset map as far as that is exact, any other by what both logs hold. A
cause in `allow` is a price and no failure. On a lab with planted duplicates the audit passes when it finds exactly those, of
each cause. The results are in the run's folder, `duplicates.json`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter
from pyspark.sql import SparkSession

from drlib.analysis.audit.compare import read_failure
from drlib.analysis.duplicates.find import MAX_RANGES, find_duplicates
from drlib.analysis.duplicates.result import (
    NONE_PLANTED,
    Cause,
    DuplicateReport,
    Reread,
    doubts_of,
    is_expected,
    unreadable,
)
from drlib.analysis.duplicates.rewinds import GroupCommits, find_rereads
from drlib.analysis.lag.positions import CommitsUnread
from drlib.analysis.sessions.analysed_flow import TopicPair
from drlib.analysis.sessions.session import AnalysisRun, AnalysisSession, Row, missing_topic, table_of_found
from drlib.errors import UsageError
from drlib.files import write_whole
from drlib.kafka.admin.errors import ClusterRefused
from drlib.lab.checker.history_files import read_history
from drlib.lab.checker.rereads import reread_ranges
from drlib.mirror.offsets.map.flow_maps import read_flow_maps
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.model import Segment
from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import Records
from drlib.runs.table import Table

RESULT_FILE: Final = "duplicates.json"
SHOWN: Final = 50
_REPORTS: Final = TypeAdapter(dict[str, DuplicateReport])
# what is so without such duplicates, and what a duplicate of this cause is
_CLEAN: Final[Mapping[Cause, tuple[str, str]]] = {
    Cause.REPLICATOR: ("nothing was copied twice", "were copied twice"),
    Cause.PRODUCER: ("nothing was written twice", "were written twice"),
    Cause.FAILOVER: ("no group read anything again", "were read again by a group"),
}


class DuplicatesAudit(AnalysisSession):
    """`allow` names causes that are no failure.

    `histories` are files of applications that log what they process; without them a group is judged by its committed offsets.
    """

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
        self._groups_unread = ""  # why groups' positions could not be read
        self.reports: dict[str, DuplicateReport] = {}

    def find(self) -> Table:
        """Search every topic, once; the number of duplicates by cause."""
        self._pin()
        if not self.reports:
            maps = read_flow_maps(self.analysed.settings, self.analysed.flow, shared=True)
            commits = self._commits()
            reports = {}
            try:
                for pair in self._pairs:
                    if not pair.unread:
                        search = partial(self._search_topic, pair=pair, maps=maps, commits=commits)
                        reports[pair.topic] = self._jobs.run(pair.topic, search)
            finally:
                if commits is not None:
                    commits.close()
            self.reports = {**reports, **{topic: unreadable(topic, why) for topic, why in self._replaced().items()}}
            write_whole(self.run_dir / RESULT_FILE, _REPORTS.dump_json(self.reports, indent=1))
        rows: list[Row] = [
            {
                "topic": topic,
                "records": report.target_records,
                "copied twice": _count(report, Cause.REPLICATOR),
                "written twice": _count(report, Cause.PRODUCER),
                "read again": _count(report, Cause.FAILOVER),
                "cause unknown": _count(report, Cause.UNKNOWN),
                "of a million": None if report.rate is None else round(report.rate * 1_000_000),
                "known from": "the mirror's map" if report.exact else "content and number",
                "verdict": report.verdict.value,
            }
            for topic, report in self.reports.items()
        ]
        notes = [note for note in (self._groups_unread, self._shared_note) if note]
        return Table(f"Duplicates of {self.analysed.flow}", rows, "; ".join(notes))

    def examples(self, limit: int = 10) -> Table:
        """A few of each topic and cause, with the record each repeats."""
        rows: list[Row] = []
        for topic, report in self._searched().items():
            for cause in Cause:
                some = [each for each in report.examples if each.cause is cause]
                rows += [
                    {
                        "topic": topic,
                        "cause": cause.value,
                        "partition": each.partition,
                        "on the source": "-" if each.source_offset is None else f"{each.source_offset:,}",
                        "on the target": "-" if each.target_offset is None else f"{each.target_offset:,}",
                        "repeats": each.first,
                        "record": "-" if each.record_id is None else str(each.record_id),
                    }
                    for each in some[:limit]
                ]
        return self._found("Examples", rows, "There is no duplicate")

    def skip(self) -> Table:
        """Ranges of the mirror topics that hold only duplicates: a consumer loses nothing by skipping them."""
        rows: list[Row] = []
        more = 0
        for report in self._searched().values():
            rows += [
                {
                    "topic": report.topic,
                    "partition": each.partition,
                    "from": each.first,
                    "before": each.next_offset,
                    "records": each.next_offset - each.first,
                    "cause": each.cause.value,
                }
                for each in report.skip[:SHOWN]
            ]
            more += report.skip_ranges - len(report.skip[:SHOWN])
        note = f"{more:,} more; the first {MAX_RANGES:,} of a topic are in {RESULT_FILE}" if more else ""
        return self._found("Ranges to skip", rows, "There is no range to skip", note)

    def groups(self) -> Table:
        """Groups that read records again, with the evidence."""
        rows: list[Row] = [
            {
                "group": each.group,
                "on": each.cluster,
                "topic": each.topic,
                "partition": each.partition,
                "from": each.first,
                "before": each.next_offset,
                "records": each.records,
                "": "unknown" if each.unsure else "yet to be read again" if each.pending else "read again",
                "evidence": each.how,
            }
            for report in self._searched().values()
            for each in report.rereads
        ]
        nothing = "Groups' positions could not be read" if self._groups_unread else "No group's position went back"
        return self._found("Read again by groups", rows, nothing, self._groups_unread)

    def conclude(self) -> Table:
        """The verdict, with `scorecard.json`."""
        self._searched()
        checks = [check for pair in self._pairs for check in self._checks(pair)]
        reports = self.reports.values()
        totals = [[r.source_records, r.target_records, r.total] for r in reports]
        sums = [None if not column or None in column else sum(column) for column in zip(*totals, strict=True)]
        produced, mirrored, duplicated = sums or (None, None, None)
        return self._conclude(checks, Records(produced=produced, mirrored=mirrored, duplicated=duplicated))

    def _found(self, found: str, rows: Sequence[Row], nothing: str, note: str = "") -> Table:
        unread = [p.topic for p in self._pairs if p.unread or not self.reports[p.topic].searched]
        return table_of_found(found, rows, nothing, len(self._pairs), unread, note)

    def _searched(self) -> dict[str, DuplicateReport]:
        if not self.reports:
            self.find()
        return self.reports

    def _commits(self) -> GroupCommits | None:
        """What groups committed on both sides; None, with the reason in `_groups_unread`, where it cannot be read."""
        source, target = self.analysed.source, self.analysed.target
        try:
            return self._jobs.run("positions of groups", lambda spark: GroupCommits(spark, source, target))
        except (ClusterRefused, CommitsUnread) as error:
            self._groups_unread = f"Committed offsets of groups could not be read: {error}"
            return None

    def _search_topic(
        self, spark: SparkSession, pair: TopicPair, maps: Maps, commits: GroupCommits | None
    ) -> DuplicateReport:
        source, target = self.analysed.source, self.analysed.target
        pinned_source, pinned_target = self._range(source.alias, pair.topic), self._range(target.alias, pair.remote)
        try:
            rereads = (
                find_rereads(
                    spark,
                    source,
                    target,
                    self._range(source.alias, pair.topic, whole=True),  # a group reads the records of both clusters
                    self._range(target.alias, pair.remote, whole=True),
                    commits,
                )
                if commits is not None
                else ()
            )
        except Exception as error:  # py4j's or PySpark's
            if (why := read_failure(str(error))) is None:
                raise
            rereads = ()
            self._groups_unread = f"What groups read again of {pair.topic} is unknown: {why}"
        from_histories = self._from_histories(pair)
        logged_groups = {reread.group for reread in from_histories}
        return find_duplicates(
            spark,
            target,
            pair.remote,
            source=source,
            topic=pair.topic,
            source_range=pinned_source,
            target_range=pinned_target,
            segments=segments(maps, pair.topic, pinned_source.start),
            rereads=(*from_histories, *(reread for reread in rereads if reread.group not in logged_groups)),
            allowed=self._allowed,
            planted=self._planted(pair),
        )

    def _from_histories(self, pair: TopicPair) -> tuple[Reread, ...]:
        if not self._histories:
            return ()
        history = read_history(*self._histories)
        if history.missing:
            raise UsageError(
                f"history {history.missing[0]}", "there is no such file", "Correct the path, or leave it out."
            )
        return tuple(
            Reread(**asdict(each), how="its own history")
            for each in reread_ranges(history.consumed or ())
            if each.topic in (pair.topic, pair.remote)
        )

    def _planted(self, pair: TopicPair) -> Mapping[Cause, int]:
        """How many duplicates of each cause were planted in the topic: on a lab alone."""
        practice = self.analysed.practice
        return NONE_PLANTED if practice is None else practice.planted.get(pair.topic, NONE_PLANTED)

    def _checks(self, pair: TopicPair) -> list[Check]:
        if pair.unread:
            return [missing_topic(pair)]
        report = self.reports[pair.topic]
        if report.counts is None:
            return [
                Check(name=f"{pair.topic}: it was read", verdict=Verdict.UNKNOWN, evidence="; ".join(report.reasons))
            ]
        checks, planted = [], self._planted(pair)
        unsure = doubts_of(report.rereads, self._allowed)
        reasons = [reason for reason in report.reasons if reason not in unsure]  # those about records in the topics
        for cause in _CLEAN:
            count, records = report.counts[cause], report.target_records or 0
            unseen = unsure if cause is Cause.FAILOVER else () if report.compared else reasons
            check = cause_check(
                pair.topic, cause, count, records, self._allowed, planted.get(cause, 0), "; ".join(unseen)
            )
            if cause is Cause.FAILOVER and not report.counts[cause] and self._groups_unread:
                check = replace(check, verdict=Verdict.UNKNOWN, evidence=self._groups_unread)
            waiting = sum(reread.records for reread in report.rereads if reread.pending and not reread.unsure)
            if cause is Cause.FAILOVER and waiting:
                check = replace(check, evidence=f"{check.evidence}; {waiting:,} are yet to be read again")
            checks.append(check)
        evidence_kind = "the mirror's own map" if report.exact else "content and occurrence number"
        doubts = [reason for reason in reasons if report.verdict is Verdict.UNKNOWN or not report.compared]
        if report.counts[Cause.UNKNOWN] and not doubts:
            doubts = [reasons[-1]]
        checks.append(
            Check(
                name=f"{pair.topic}: every duplicate has a cause",
                verdict=Verdict.UNKNOWN if doubts else Verdict.PASS,
                evidence="; ".join(doubts) or f"by {evidence_kind}",
            )
        )
        return checks


def cause_check(
    topic: str, cause: Cause, count: int, records: int, allowed: Sequence[Cause], planted: int = 0, blind: str = ""
) -> Check:
    """Are there no duplicates of `cause` among the `records` of the mirror topic, apart from those that are `allowed`?

    With `planted`, are there exactly as many? `blind`: why none could have been found; "" where they could.
    """
    clean, what = _CLEAN[cause]
    name, evidence = f"{topic}: {clean}", f"{count:,} of {records:,} records {what}"
    if planted:
        name = f"{name} but what was planted, and all of that was found"
        evidence = f"{evidence}; {planted:,} were planted"
    if count > planted and cause in allowed:
        said = f"{evidence}; the runbook allows duplicates of cause {cause.value}"
        return Check(f"{name}, apart from what the runbook allows", Verdict.CONDITIONS, said)
    expected = is_expected(cause, count, planted={cause: planted})
    if expected and blind:
        return Check(name, Verdict.UNKNOWN, f"{evidence}; {blind}")
    return Check(name, Verdict.PASS if expected else Verdict.FAIL, evidence)


def _cause(name: str) -> Cause:
    try:
        return Cause(name)
    except ValueError:
        known = ", ".join(Cause)
        raise UsageError(f"allow: {name}", "there is no such cause of duplicates", f"Causes are {known}.") from None


def _count(report: DuplicateReport, cause: Cause) -> int | None:
    return None if report.counts is None else report.counts[cause]


def segments(maps: Maps, topic: str, partitions: Iterable[int]) -> Mapping[int, Sequence[Segment]]:
    """By partition of a source topic, the mirrored segments. Partitions with a doubtful or thinned map, or none, are left out;
    their duplicates are counted from both logs. Read `maps` after pinning the ranges, so that they reach as far."""
    by_partition: dict[int, Sequence[Segment]] = {}
    for number in partitions:
        known = maps.source(topic, number)
        if known is None or known.doubtful or maps.refusal(topic, number) is not None:
            continue
        if known.segments().thinned is None and (stretches := tuple(known.segments())):
            by_partition[number] = stretches
    return by_partition
