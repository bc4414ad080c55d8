"""The base of every analysis in a notebook: its flow, a Spark session, pinned ranges and a scorecard.

Rules: one Spark session per process; it starts in the background at once, so that the first cells do not wait. Ranges are
pinned once, the target's first, and stored in the run's folder: a cell that is run twice, and a notebook that is executed
again on that folder, read the same records. Of a topic that both directions copy under one name the flow's own share is read:
what was first written on the source, and its copies on the target. Interrupting a cell cancels its Spark jobs. `conclude`
writes `scorecard.json`; an analysis moves nothing, so RTO and RPO are not in it. `close` stops Spark and a lab that were
started for it.
Not for: what an analysis computes (`duplicates_audit`, `nightly_audit`, `continuous_audit`, `lag_analysis`).
"""

import platform
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from drlib import clock
from drlib.analysis.sessions.analysed_flow import AnalysedFlow, TopicPair
from drlib.analysis.spark.jobs import OnProgress, SparkJobs
from drlib.analysis.spark.shares import refuse_unknown_copies, shared_note, shared_of, with_shares
from drlib.analysis.spark.topics import TopicRange, load_ranges, pin_ranges, save_ranges
from drlib.closing import Closing
from drlib.errors import StalePlan
from drlib.formats import first_few
from drlib.kafka.admin.cluster import Cluster
from drlib.runs import folder as folders
from drlib.runs import verdict as verdicts
from drlib.runs.check import Check, Verdict
from drlib.runs.journal import Scalar
from drlib.runs.scorecard import Kind, LagPosition, Records, Rpo, RtoSeconds, Scorecard
from drlib.runs.table import Table, verdict_table

RANGES: Final = "ranges.json"
_NAMED: Final = 5  # topics
Row = dict[str, Scalar]


@dataclass(frozen=True, slots=True)
class AnalysisRun:
    """What every analysis is opened with.

    `name` is the runbook's, `run_dir` the folder of evidence. `topics` are names on the source; none for all that the flow
    mirrors. `master` is Spark's. `tell` is called with the progress of each Spark job.
    """

    name: str
    run_dir: Path
    analysed: AnalysedFlow
    topics: Sequence[str] = ()
    master: str = "local[2]"
    tell: OnProgress = lambda _: None


class AnalysisSession(Closing):
    """A context manager; `close` may be repeated."""

    def __init__(self, run: AnalysisRun) -> None:
        from drlib.analysis.audit.compare import warm_up
        from drlib.analysis.spark.session import is_running, start_in_background

        self.name = run.name
        self.run_dir = run.run_dir
        self.analysed = run.analysed
        self._master = run.master
        self._began_ms = clock.now_ms()
        self._own_spark = not is_running()
        self._session = start_in_background(run.name, warm_up=warm_up, master=run.master, long_runs=True)
        self._jobs = SparkJobs(self._session, run.tell)
        self._asked = tuple(run.topics)
        self._pairs: tuple[TopicPair, ...] = ()
        self._ranges: dict[str, TopicRange] = {}
        self._closed = False

    def ranges(self) -> Table:
        """Which records are read, also when the same folder is used again.

        Raises `UsageError` for a topic that was named and does not exist, `StalePlan` for one that was re-created since the run
        in this folder began, `Unreachable`.
        """
        self._pin()
        rows: list[Row] = []
        for pair in self._pairs:
            for alias, topic in self._sides(pair):
                pinned = self._ranges.get(_key(alias, topic))
                rows.append(
                    {
                        "cluster": alias,
                        "topic": topic,
                        "partitions": len(pinned.start) if pinned else None,
                        "first offsets": _span(pinned.start.values()) if pinned else _no_offsets(pair, alias),
                        "ends before": _span(pinned.end.values()) if pinned else "",
                        "offsets": pinned.offsets if pinned else None,
                        "compacted": pinned.compacted if pinned else None,
                        "in open transactions": sum(pinned.undecided.values()) if pinned else None,
                    }
                )
        return Table("Read committed, between pinned offsets", rows, self._shared_note, above=self.analysed.banner)

    def close(self) -> None:
        """Stop Spark and the lab, if they were started for this."""
        if self._closed:
            return
        from drlib.analysis.spark.session import stop

        self._closed = True
        self._jobs.close()
        if self._session.exception() is None and self._own_spark:
            stop(self._session.result())
        self.analysed.close()

    # -- for the analyses --------------------------------------------------------------------------------------------

    def _pin(self) -> None:
        """Pin the ranges, or load those of the folder."""
        if self._pairs:
            return
        pairs = self.analysed.pairs(self._asked)
        stored = load_ranges(self.run_dir / RANGES)
        ranges: dict[str, TopicRange] = {}
        target, source = self.analysed.target, self.analysed.source
        for cluster, names in (  # the target's first, so that the source has what is on the target
            (target, [pair.remote for pair in pairs if target.alias not in (*pair.absent, *pair.offline)]),
            (source, [pair.topic for pair in pairs if source.alias not in (*pair.absent, *pair.offline)]),
        ):
            for topic, current in pin_ranges(cluster, names).items():
                key = _key(cluster.alias, topic)
                ranges[key] = stored.get(key, current)
                if ranges[key].topic_id != current.topic_id:
                    raise StalePlan(
                        f"topic {topic} on {cluster.alias} was re-created since run {self.run_dir.name} began",
                        "the records that the run pinned no longer exist",
                        "Start a new run: leave run_dir empty.",
                    )
        ranges |= self._shares(pairs, ranges)
        save_ranges(self.run_dir / RANGES, ranges)
        self._ranges, self._pairs = ranges, pairs

    def _shares(self, pairs: Sequence[TopicPair], ranges: Mapping[str, TopicRange]) -> dict[str, TopicRange]:
        """The ranges of topics that both directions copy, with the flow's own share of each."""
        settings, flow = self.analysed.settings, self.analysed.flow
        names = shared_of(settings, flow, [pair.topic for pair in pairs if not pair.unread])
        refuse_unknown_copies(settings, flow, names)
        found: dict[str, TopicRange] = {}
        for alias, copies in ((flow.target, True), (flow.source, False)):  # under one name on both
            whole = [each for name in names if (each := ranges[_key(alias, name)]).parts is None]
            found |= {_key(alias, each.topic): each for each in with_shares(settings, flow, whole, copies=copies)}
        return found

    def _replaced(self) -> dict[str, str]:
        """Why what was read of a topic, named as on the source, is not what was pinned: deleted or re-created meanwhile.

        Offsets alone do not show that: those of another topic may be there as well.
        """
        why: dict[str, str] = {}
        for cluster in (self.analysed.target, self.analysed.source):
            names = {dict(self._sides(pair))[cluster.alias]: pair.topic for pair in self._pairs if not pair.unread}
            with Cluster(cluster) as handle:
                now = handle.topics(names)
            for name, topic in names.items():
                if name not in now:
                    why[topic] = f"{name} on {cluster.alias} was deleted while it was read"
                elif str(now[name].topic_id) != self._ranges[_key(cluster.alias, name)].topic_id:
                    why[topic] = f"{name} on {cluster.alias} was re-created while it was read"
        return why

    def _sides(self, pair: TopicPair) -> tuple[tuple[str, str], tuple[str, str]]:
        return (self.analysed.flow.source, pair.topic), (self.analysed.flow.target, pair.remote)

    def _range(self, alias: str, topic: str, *, whole: bool = False) -> TopicRange:
        """`whole`: not only the flow's own share of it."""
        pinned = self._ranges[_key(alias, topic)]
        return replace(pinned, parts=None) if whole else pinned

    @property
    def _shared(self) -> tuple[str, ...]:
        """The topics that both directions copy under one name."""
        return shared_of(self.analysed.settings, self.analysed.flow, [pair.topic for pair in self._pairs])

    @property
    def _shared_note(self) -> str:
        return shared_note(self.analysed.flow, self._shared)

    def _conclude(self, checks: Sequence[Check], records: Records, lag: Sequence[LagPosition] = ()) -> Table:
        """Write the scorecard and return its verdict as a table."""
        card = Scorecard(
            runbook=self.name,
            run_id=self.run_dir.name,
            verdict=verdicts.overall(checks, 0),
            rto_seconds=RtoSeconds(),
            rpo=Rpo(),
            records=records,
            groups=(),
            checks=tuple(checks),
            lag=tuple(lag),
            started_ms=self._began_ms,
            finished_ms=clock.now_ms(),
            environment={
                **self.analysed.banner.facts(),
                "flow": str(self.analysed.flow),
                "Spark": f"{self._session.result().version} on {self._master}",
                "python": platform.python_version(),
                "system": f"{platform.system()} {platform.machine()}",
            },
            kind=Kind.ANALYSIS,
        )
        folders.conclude(self.run_dir, card)
        return verdict_table(card.verdict, checks)


def table_of_found(
    found: str, rows: Sequence[Row], nothing: str, topics: int, unread: Sequence[str], note: str = ""
) -> Table:
    """`rows` under the title `found`. Without any the title is `nothing`, but where none of `topics` could be read: what was
    not looked at is not clean. `unread` topics are named.
    """
    title = found if rows else nothing if len(unread) < topics else "No topic could be read"
    return Table(
        title, rows, "; ".join(filter(None, (note, f"not read: {first_few(unread, _NAMED)}" if unread else "")))
    )


def missing_topic(pair: TopicPair) -> Check:
    """The check of a topic that the flow mirrors and that cannot be read on both clusters."""
    name = f"{pair.topic} is on both clusters" if pair.absent else f"{pair.topic}: it was read"
    return Check(name=name, verdict=Verdict.UNKNOWN, evidence=f"{pair.unread}, so there is nothing to compare")


def _key(alias: str, topic: str) -> str:
    return f"{alias}/{topic}"


def _no_offsets(pair: TopicPair, alias: str) -> str:
    return "missing" if alias in pair.absent else "no leader"


def _span(offsets: Collection[int]) -> str:
    lowest, highest = min(offsets), max(offsets)
    return f"{lowest:,}" if lowest == highest else f"{lowest:,} to {highest:,}"
