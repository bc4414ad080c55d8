"""How far a flow and the groups on both its sides are behind, in a notebook: over time, where it goes, and who is at risk.

Rules: as `analysis_session`. The clusters are looked at once; everything shown is of that moment and of the time before it. The
objective is the mirror's; groups are held against retention alone, because how far behind a group may be is its own business.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from drlib.analysis.lag.report import analyse_lag
from drlib.analysis.lag.result import Asked, LagReport, Series
from drlib.analysis.lag.trend import Slope
from drlib.analysis.sessions.session import AnalysisRun, AnalysisSession, Row
from drlib.config.quantities import format_bytes, format_seconds, seconds
from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import Records
from drlib.runs.table import Table

SHOWN: Final = 12
BOUNDED: Final = "MirrorMaker 2 names only some of what it copies: behind at most so many, and for certain so many"


class LagAnalysis(AnalysisSession):
    """`window` is how far it looks back, `objective` the age agreed on for the mirror, `horizon` how early a loss is told: as
    people write times, "5m", "24h". Raises `UsageError` for what is no time."""

    def __init__(
        self,
        run: AnalysisRun,
        *,
        window: str = "24h",
        objective: str = "",
        horizon: str = "24h",
    ) -> None:
        self._wanted = Asked(
            topics=tuple(run.topics) or None,
            window_s=seconds(window, "window"),
            objective_s=seconds(objective, "objective") if objective else None,
            horizon_s=seconds(horizon, "horizon"),
        )
        self._report: LagReport | None = None
        super().__init__(run)

    @property
    def report(self) -> LagReport:
        """What was found; the first time it is asked for, it is looked for."""
        if self._report is None:
            place, wanted = self.place, self._wanted
            self._report = self._jobs.run("lag", lambda spark: analyse_lag(spark, place.settings, place.flow, wanted))
        return self._report

    def now(self) -> Table:
        """Each reader of each topic as it is now: its partitions together, the worst verdict of them."""
        rows: list[Row] = []
        for (cluster, reader, topic), series in _grouped(self.report.series).items():
            last = [one.points[-1] for one in series]
            worst = _worst(series)
            rows.append(
                {
                    "reader": reader,
                    "on": cluster,
                    "topic": topic,
                    "records behind": sum(point.records for point in last),
                    **_certain(self.report, series),
                    "bytes": format_bytes(sum(point.bytes for point in last)),
                    "oldest": format_seconds(max(point.age_s for point in last)),
                    "worst partition": worst.partition.partition,
                    "verdict": worst.reading.verdict.value,
                    "why": worst.reading.why,
                }
            )
        said = [BOUNDED] * self.report.bounded + list(self.report.notes)
        return Table(f"Behind {self.place.flow}, now", rows, "; ".join(said))

    def partitions(self, limit: int = SHOWN) -> Table:
        """Where lag goes, partition by partition: the slope with its interval, and when retention would be reached."""
        rows: list[Row] = []
        order = sorted(self.report.series, key=_urgency)
        for one in order[:limit]:
            found = one.reading
            rows.append(
                {
                    "reader": one.reader,
                    "on": one.cluster,
                    "partition": str(one.partition),
                    "records behind": one.points[-1].records,
                    **_certain(self.report, [one]),
                    "it is": found.trend.value,
                    "records/s (95 %)": _interval(found.records_per_s),
                    "age, s/s (95 %)": _interval(found.age_per_s),
                    "retention": "none" if one.limits.retention_s is None else format_seconds(one.limits.retention_s),
                    "soonest loss in": _in(found.soonest_s),
                    "expected in": _in(found.expected_s),
                    "verdict": found.verdict.value,
                }
            )
        more = len(order) - len(rows)
        return Table("Where it goes", rows, f"And {more} more partitions that are less urgent." if more > 0 else "")

    def latency(self) -> Table:
        """How long records took to be known on the other side, by the hour they were written in."""
        rows: list[Row] = [
            {
                "topic": one.topic,
                "hour (UTC)": _hour(one.hour_ms),
                "records": one.records,
                "not over yet": one.unread,
                "p50 ms": one.p50,
                "p95 ms": one.p95,
                "p99 ms": one.p99,
                "greatest ms": one.greatest,
            }
            for one in self.report.latencies
        ]
        known = (
            "MirrorMaker 2 said so, at most"
            if self.report.bounded
            else "the journal knew it was over (to about a second)"
        )
        return Table(f"From a record's timestamp until {known}", rows)

    def hot(self, limit: int = SHOWN) -> Table:
        """What share of its topic each partition has; the busiest first."""
        rows: list[Row] = [
            {
                "partition": f"{one.topic}-{one.partition}",
                "records": one.records,
                "bytes": format_bytes(one.bytes),
                "times what is due": round(one.times, 2),
                "hot": one.hot,
            }
            for one in self.report.shares[:limit]
        ]
        return Table("What was written in this time", rows)

    def conclude(self) -> Table:
        """The verdict, with `scorecard.json`."""
        checks = [
            Check(
                name=f"{reader} on {cluster}: {topic}",
                verdict=(worst := _worst(series)).reading.verdict,
                evidence=f"partition {worst.partition.partition}: {worst.reading.why}",
            )
            for (cluster, reader, topic), series in _grouped(self.report.series).items()
        ]
        checks += [
            Check(name="everything could be looked at", verdict=Verdict.UNKNOWN, evidence=n) for n in self.report.notes
        ]
        if not checks:
            nothing = "no reader of these topics is known"
            checks.append(Check(name="somebody reads these topics", verdict=Verdict.UNKNOWN, evidence=nothing))
        return self._conclude(checks, Records(produced=sum(share.records for share in self.report.shares)))


def _certain(report: LagReport, series: Sequence[Series]) -> Row:
    """The lower end, where a report has one: the same number where a lag is exact."""
    if not report.bounded:
        return {}
    return {"for certain": sum((one.points[-1] if one.least is None else one.least).records for one in series)}


def _grouped(series: Sequence[Series]) -> dict[tuple[str, str, str], list[Series]]:
    found: dict[tuple[str, str, str], list[Series]] = {}
    for one in sorted(series, key=lambda s: (not s.mirror, s.cluster, s.reader, s.partition)):
        found.setdefault((one.cluster, one.reader, one.partition.topic), []).append(one)
    return found


def _urgency(one: Series) -> tuple[int, float, float]:
    order = {Verdict.FAIL: 0, Verdict.UNKNOWN: 1, Verdict.PASS: 2}
    soonest = one.reading.soonest_s
    return order[one.reading.verdict], float("inf") if soonest is None else soonest, -one.points[-1].age_s


def _worst(series: Sequence[Series]) -> Series:
    return min(series, key=_urgency)


def _interval(slope: Slope | None) -> str:
    return "too few points" if slope is None else f"{slope.value:+.3g} ({slope.low:+.3g} to {slope.high:+.3g})"


def _in(found: float | None) -> str:
    return "-" if found is None else format_seconds(found)


def _hour(at_ms: int) -> str:
    from datetime import UTC, datetime

    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:00}"
