"""What every analysis in a notebook has: its place, Spark started while the person reads, pinned ranges, and a scorecard.

Rules: one Spark session a process; it starts in the background at once, so that the first cells do not wait. Ranges are
pinned once and kept in the run's folder: a cell that is run twice, and a notebook that is executed again on that folder,
read the same records. A cell that is interrupted cancels its Spark jobs. `conclude` writes `scorecard.json`: an analysis
moves nothing, so recovery time and data at risk are not in it. `close` stops Spark and a lab that were started for it.
Not for: what is looked for (`duplicates_audit`, `nightly_audit`).
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from drlib import clock
from drlib.analysis.sessions.place import AnalysisPlace, Pair
from drlib.analysis.spark.jobs import Jobs, Teller
from drlib.analysis.spark.topics import TopicRange, keep_ranges, kept_ranges, pin_range
from drlib.errors import StalePlan
from drlib.runs import verdict as verdicts
from drlib.runs.check import Check, Verdict
from drlib.runs.journal import Scalar
from drlib.runs.scorecard import SCORECARD, Kind, Records, Rpo, RtoSeconds, Scorecard
from drlib.runs.table import Table

RANGES: Final = "ranges.json"
Row = dict[str, Scalar]


@dataclass(frozen=True, slots=True)
class AnalysisRun:
    """What every analysis is opened with.

    `name` is the runbook's, `run_dir` the folder of evidence. `topics` are names on the source; none for all that the flow
    mirrors. `master` is Spark's. `tell` is called with the progress of each Spark job.
    """

    name: str
    run_dir: Path
    place: AnalysisPlace
    topics: Sequence[str] = ()
    master: str = "local[2]"
    tell: Teller = lambda _: None


class AnalysisSession:
    """A context manager; `close` may be repeated."""

    def __init__(self, run: AnalysisRun) -> None:
        from drlib.analysis.audit.compare import rehearse
        from drlib.analysis.spark.session import is_running, start_in_background

        self.name = run.name
        self.run_dir = run.run_dir
        self.place = run.place
        self._master = run.master
        self._began_ms = clock.now_ms()
        self._own_spark = not is_running()
        self._session = start_in_background(run.name, warm_up=rehearse, master=run.master, long_runs=True)
        self._jobs = Jobs(self._session, run.tell)
        self._asked = tuple(run.topics)
        self._pairs: tuple[Pair, ...] = ()
        self._ranges: dict[str, TopicRange] = {}
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ranges(self) -> Table:
        """Which records are looked at, and will be again if this is run anew in the same folder.

        Raises `UsageError` for a topic that was named and is not there, `StalePlan` for one that was made again since the
        run in this folder began, `Unreachable`.
        """
        self._pin()
        rows: list[Row] = []
        for pair in self._pairs:
            for alias, topic in self._sides(pair):
                found = self._ranges.get(_key(alias, topic))
                rows.append(
                    {
                        "cluster": alias,
                        "topic": topic,
                        "partitions": len(found.start) if found else None,
                        "first offsets": _span(found.start.values()) if found else "it is not there",
                        "ends before": _span(found.end.values()) if found else "",
                        "offsets": found.offsets if found else None,
                        "compacted": found.compacted if found else None,
                        "in open transactions": sum(found.undecided.values()) if found else None,
                    }
                )
        return Table("Read committed, between offsets that stay put", rows)

    def close(self) -> None:
        """Stop Spark and the lab, where they were started for this."""
        if self._closed:
            return
        self._closed = True
        self._jobs.close()
        if self._session.exception() is None and self._own_spark:
            self._session.result().stop()
        self.place.close()

    # -- for the analyses --------------------------------------------------------------------------------------------

    def _pin(self) -> None:
        """Pin what is not pinned yet."""
        if self._pairs:
            return
        pairs = self.place.pairs(self._asked)
        kept = kept_ranges(self.run_dir / RANGES)
        found: dict[str, TopicRange] = {}
        clusters = self.place.settings.clusters
        for pair in pairs:
            for alias, topic in self._sides(pair):
                if alias not in pair.absent:
                    key = _key(alias, topic)
                    now = pin_range(clusters[alias], topic)
                    found[key] = kept.get(key, now)
                    if found[key].topic_id != now.topic_id:
                        raise StalePlan(
                            f"topic {topic} on {alias} is another one than {self.run_dir.name} looked at",
                            "it was deleted and made again since, so the same records cannot be read",
                            "Begin in a new folder.",
                        )
        keep_ranges(self.run_dir / RANGES, found)
        self._ranges, self._pairs = found, pairs

    def _sides(self, pair: Pair) -> tuple[tuple[str, str], tuple[str, str]]:
        return (self.place.flow.source, pair.topic), (self.place.flow.target, pair.remote)

    def _range(self, alias: str, topic: str) -> TopicRange:
        return self._ranges[_key(alias, topic)]

    def _conclude(self, checks: Sequence[Check], records: Records) -> Table:
        """Write the scorecard and show its verdict."""
        card = Scorecard(
            runbook=self.name,
            run_id=self.run_dir.name,
            verdict=verdicts.overall(checks, 0),
            rto_seconds=RtoSeconds(),
            rpo=Rpo(),
            records=records,
            groups=(),
            checks=tuple(checks),
            started_ms=self._began_ms,
            finished_ms=clock.now_ms(),
            environment={
                "flow": str(self.place.flow),
                "Spark": f"{self._session.result().version} on {self._master}",
                "python": platform.python_version(),
                "system": f"{platform.system()} {platform.machine()}",
            },
            kind=Kind.ANALYSIS,
        )
        card.write(self.run_dir / SCORECARD)
        rows: list[Row] = [{"check": c.name, "verdict": c.verdict.value, "evidence": c.evidence} for c in checks]
        return Table(f"Verdict: {card.verdict.value}", rows)


def absent(pair: Pair) -> Check:
    """What is said of a topic that the flow mirrors and that is not on both clusters."""
    return Check(
        name=f"{pair.topic} is on both clusters",
        verdict=Verdict.UNKNOWN,
        evidence=f"{' and '.join(pair.absent)} does not have it, so there is nothing to compare",
    )


def _key(alias: str, topic: str) -> str:
    return f"{alias}/{topic}"


def _span(offsets) -> str:  # type: ignore[no-untyped-def]
    lowest, highest = min(offsets), max(offsets)
    return f"{lowest:,}" if lowest == highest else f"{lowest:,} to {highest:,}"
