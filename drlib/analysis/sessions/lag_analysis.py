"""The lag of a flow and of the groups on both its sides, in a notebook: over time, its trend, and what may be lost.

Rules: as in `session`. The clusters are read once; everything shown is of that moment and of the time before it. The objective
applies to the mirror only; groups are judged against retention alone, because how far a group may be behind is its own matter.
"""

from collections.abc import Sequence
from typing import Final

from drlib import formats
from drlib.analysis.lag.report import analyse_lag
from drlib.analysis.lag.result import LagReport, LagRequest, Series
from drlib.analysis.lag.trend import Slope
from drlib.analysis.sessions.session import AnalysisRun, AnalysisSession, Row
from drlib.analysis.spark.shares import shared_note, shared_of
from drlib.config.quantities import seconds
from drlib.errors import UsageError
from drlib.runs.check import Check, Verdict
from drlib.runs.scorecard import LagPosition, Records
from drlib.runs.table import Table

SHOWN: Final = 12
BOUNDED: Final = (
    "MirrorMaker 2 writes offset syncs now and then: `records behind` is an upper, `for certain` a lower bound"
)


class LagAnalysis(AnalysisSession):
    """`window` is how far it looks back, `objective` the age agreed on for the mirror, `horizon` how early a loss is a failure.

    They are durations such as "5m", "24h". Raises `UsageError` for anything else.
    """

    def __init__(
        self,
        run: AnalysisRun,
        *,
        window: str = "24h",
        objective: str = "",
        horizon: str = "24h",
    ) -> None:
        if seconds(window, "window") <= 0:
            raise UsageError(f"a window of {window}", "there is no time in it to look at", "Give one such as 24h.")
        self._request = LagRequest(
            topics=tuple(run.topics) or None,
            window_s=seconds(window, "window"),
            objective_s=seconds(objective, "objective") if objective else None,
            horizon_s=seconds(horizon, "horizon"),
        )
        self._report: LagReport | None = None
        super().__init__(run)

    @property
    def report(self) -> LagReport:
        """The report, computed when it is first asked for."""
        if self._report is None:
            analysed, request = self.analysed, self._request
            self._report = self._jobs.run(
                "lag", lambda spark: analyse_lag(spark, analysed.settings, analysed.flow, request)
            )
        return self._report

    def now(self) -> Table:
        """Each reader of each topic now: the sum of its partitions, and the worst judgement of them."""
        rows: list[Row] = []
        for (cluster, reader, topic), series in _grouped(self.report.series).items():
            last = [each.points[-1] for each in series]
            worst = _worst(series)
            rows.append(
                {
                    "reader": reader,
                    "on": cluster,
                    "topic": topic,
                    "records behind": sum(point.records for point in last),
                    **_certain(self.report, series),
                    "bytes": formats.short_size(sum(point.bytes for point in last)),
                    "oldest": formats.short_duration(max(point.age_s for point in last)),
                    "worst partition": worst.partition.partition,
                    "verdict": worst.judgement.verdict.value,
                    "why": worst.judgement.why,
                }
            )
        notes = [BOUNDED] * self.report.bounded + list(self.report.notes)
        notes += [self.report.transactions] * bool(self.report.transactions)
        flow = self.analysed.flow
        shared = shared_of(self.analysed.settings, flow, {series.partition.topic for series in self.report.mirror})
        notes += [f"The lag of {flow}: {shared_note(flow, shared)}"] * bool(shared)
        return Table(f"Behind {self.analysed.flow}, now", rows, "; ".join(notes), above=self.analysed.banner)

    def partitions(self, limit: int | None = None) -> Table:
        """The trend of every reader on every partition, or of the `limit` most urgent ones: the slope with its interval, and
        when retention would be reached."""
        rows: list[Row] = []
        order = sorted(self.report.series, key=_urgency)
        for series in order[:limit]:
            judgement = series.judgement
            rows.append(
                {
                    "reader": series.reader,
                    "on": series.cluster,
                    "partition": str(series.partition),
                    "records behind": series.points[-1].records,
                    **_certain(self.report, [series]),
                    "trend": judgement.trend.value,
                    "records/s (95 %)": _interval(judgement.records_per_s),
                    "age, s/s (95 %)": _interval(judgement.age_per_s),
                    "retention": "none"
                    if series.limits.retention_s is None
                    else formats.short_duration(series.limits.retention_s),
                    "soonest loss in": _in(judgement.soonest_s),
                    "expected in": _in(judgement.expected_s),
                    "verdict": judgement.verdict.value,
                }
            )
        more = len(order) - len(rows)
        return Table("Trend", rows, f"{more} more partitions are less urgent." if more > 0 else "")

    def latency(self) -> Table:
        """How long records took to be known on the other side, by the hour they were written in."""
        rows: list[Row] = [
            {
                "topic": each.topic,
                "hour (UTC)": f"{formats.utc(each.hour_ms):%Y-%m-%d %H:00}",
                "records": each.records,
                "not mirrored yet": each.unread,
                "p50 ms": each.p50,
                "p95 ms": each.p95,
                "p99 ms": each.p99,
                "greatest ms": each.greatest,
            }
            for each in self.report.latencies
        ]
        known = (
            "MirrorMaker 2's offset sync (an upper bound)"
            if self.report.bounded
            else "the journal had it as mirrored (to about a second)"
        )
        return Table(f"From a record's timestamp until {known}", rows)

    def hot(self, limit: int = SHOWN) -> Table:
        """What share of its topic each partition has; the busiest first."""
        rows: list[Row] = [
            {
                "partition": f"{each.topic}-{each.partition}",
                "records": each.records,
                "bytes": formats.short_size(each.bytes),
                "times an even share": round(each.times, 2),
                "hot": each.hot,
            }
            for each in self.report.shares[:limit]
        ]
        return Table("Written in this time", rows)

    def conclude(self) -> Table:
        """The verdict, with `scorecard.json`."""
        checks = [
            Check(
                name=f"{reader} on {cluster}: its lag on {topic} is within limits",
                verdict=(worst := _worst(series)).judgement.verdict,
                evidence=f"partition {worst.partition.partition}: {worst.judgement.why}",
            )
            for (cluster, reader, topic), series in _grouped(self.report.series).items()
        ]
        checks += [
            Check(name="everything could be read", verdict=Verdict.UNKNOWN, evidence=n) for n in self.report.notes
        ]
        if not checks:
            nothing = "no group has a committed offset in these topics"
            checks.append(Check(name="a group reads these topics", verdict=Verdict.UNKNOWN, evidence=nothing))
        produced = sum(share.records for share in self.report.shares)
        return self._conclude(checks, Records(produced=produced), lag_positions(self.report))


def lag_positions(report: LagReport) -> list[LagPosition]:
    """Every reader on every partition, the most urgent first."""
    return [
        LagPosition(
            reader=each.reader,
            cluster=each.cluster,
            topic=each.partition.topic,
            partition=each.partition.partition,
            records=each.points[-1].records,
            records_at_least=None if each.lower_bound is None else each.lower_bound.records,
            age_seconds=each.points[-1].age_s,
            trend=each.judgement.trend.value,
            verdict=each.judgement.verdict,
            why=each.judgement.why,
        )
        for each in sorted(report.series, key=_urgency)
    ]


def _certain(report: LagReport, series: Sequence[Series]) -> Row:
    """The lower bound, where a report has one: the same number where a lag is exact."""
    if not report.bounded:
        return {}
    return {
        "for certain": sum(
            (each.points[-1] if each.lower_bound is None else each.lower_bound).records for each in series
        )
    }


def _grouped(series: Sequence[Series]) -> dict[tuple[str, str, str], list[Series]]:
    groups: dict[tuple[str, str, str], list[Series]] = {}
    for each in sorted(series, key=lambda s: (not s.mirror, s.cluster, s.reader, s.partition)):
        groups.setdefault((each.cluster, each.reader, each.partition.topic), []).append(each)
    return groups


def _urgency(each: Series) -> tuple[int, float, float]:
    order = {Verdict.FAIL: 0, Verdict.UNKNOWN: 1, Verdict.PASS: 2}
    soonest = each.judgement.soonest_s
    return order[each.judgement.verdict], float("inf") if soonest is None else soonest, -each.points[-1].age_s


def _worst(series: Sequence[Series]) -> Series:
    return min(series, key=_urgency)


def _interval(slope: Slope | None) -> str:
    return "too few points" if slope is None else f"{slope.value:+.3g} ({slope.low:+.3g} to {slope.high:+.3g})"


def _in(in_s: float | None) -> str:
    return "-" if in_s is None else formats.short_duration(in_s)
