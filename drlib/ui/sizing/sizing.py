"""Sizing a link, shown: the numbers of `drlib size`, and what was measured beside them.

Rules: a link that is too small is reported in a sentence before any number. Sizes and rates are decimal.
Not for: drawing (`figures`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from drlib import clock, formats
from drlib.arguments import checked
from drlib.config import quantities
from drlib.errors import UsageError
from drlib.extras import explains_missing_extra
from drlib.lab.lab import Lab
from drlib.lab.link.sizing import (
    KIB,
    MIB,
    REQUESTS,
    LinkSpec,
    Outage,
    Size,
    after_outage,
    clients_needed,
    falls_off_after,
    ours,
    sequential,
    size,
    usual_request,
)
from drlib.lab.link_trial import SOURCE, TARGET, LinkTrial
from drlib.runs import verdict as verdicts
from drlib.runs.table import Table, verdict_table
from drlib.ui.sizing import verdict as sizing_verdict
from drlib.ui.sizing.measurements import Tried, said_link, said_power

if TYPE_CHECKING:
    import plotly.graph_objects as go

OUTAGES: Final = ("1h", "6h", "24h", "72h")
RETENTION: Final = "7d"  # Kafka's own default (log.retention.hours = 168)
TRIED: Final = (16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB)
WORKERS_LANES: Final = ((1, 1), (1, 4), (2, 4))


class Sizing:
    """A flow of `rate` over a link: what carries it, as `drlib size` says, in a notebook.

    All as people write them: `rate` and `bandwidth` "5MB/s" or "1Gb/s", `rtt` there and back, "200ms", `retention` "24h".
    Raises `UsageError` for any other form.
    """

    @checked
    def __init__(
        self,
        rate: str,
        rtt: str,
        bandwidth: str,
        partitions: int,
        *,
        retention: str = RETENTION,
        outages: Sequence[str] = OUTAGES,
    ) -> None:
        self._began_ms = clock.now_ms()
        link = _link(bandwidth, rtt)
        per_second = quantities.bytes_per_second(rate, "rate")
        try:
            self.size: Size = size(link, per_second, partitions)
        except ValueError as error:
            raise UsageError("nothing to size", str(error), "Give a rate, and at least one partition.") from None
        self.retention_s = quantities.seconds(retention, "retention")
        self.outages: tuple[Outage, ...] = tuple(
            after_outage(quantities.seconds(each, "outage"), per_second, self.size.reach, self.retention_s)
            for each in outages
        )

    def link(self) -> Table:
        """Throughput of one client that waits for each response, by response size, and of drlib's mirror."""
        return Table(
            f"{formats.rate(self.size.rate)} over {said_link(self.size.link)}",
            link_rows(self.size),
            note=self.verdict(),
        )

    def needs(self) -> Table:
        """Workers, lanes, memory."""
        return Table("What to run", [{"what": what, "value": value} for what, value in needs_rows(self.size)])

    def after_outages(self) -> Table:
        """The lag after each outage, and whether retention is long enough."""
        return Table(
            f"After an outage, with a retention of {formats.short_duration(self.retention_s)}",
            outage_rows(self.outages),
            note=self.loss(),
        )

    def verdict(self) -> str:
        """One sentence: does it carry the flow?"""
        s = self.size
        if s.enough:
            return f"{s.workers} x drlib mirror reaches {formats.rate(s.reach)}, bounded by {s.bound}: enough."
        return f"Not enough: {formats.rate(s.reach)}, bounded by {s.bound}, is less than the flow's {formats.rate(s.rate)}."

    def loss(self) -> str:
        """One sentence: after which outage are records lost?"""
        s = self.size
        if s.enough:
            return f"Records are lost once an outage outlasts {formats.short_duration(self.retention_s)}."
        after = falls_off_after(s.rate, s.reach, 0.0, self.retention_s)
        when = "never" if after is None else f"after {formats.short_duration(after)}"
        return f"The mirror falls behind all the time; without any outage it loses records {when}."

    @explains_missing_extra("a figure")
    def figure(self) -> go.Figure:
        """Throughput against the size of a response: predicted."""
        from drlib.ui.sizing.figures import throughput_figure

        return throughput_figure(self.size.link, rate=self.size.rate)

    @explains_missing_extra("a figure")
    def outage_figure(self) -> go.Figure:
        """Time to catch up against the length of an outage, with retention as a line."""
        from drlib.ui.sizing.figures import outage_figure

        return outage_figure(self.size, self.retention_s)

    def conclude(self, run_dir: str | Path, trial: Trial, outage: str) -> Table:
        """The verdict on the flow, on an `outage` that must be survived ("6h"), and on `trial`.

        `scorecard.json` goes to `run_dir`, where one is given. Raises `UsageError` for an invalid time.
        """
        away = quantities.seconds(outage, "outage")
        checks = (
            sizing_verdict.carries(self.size, self.verdict()),
            sizing_verdict.survives(
                after_outage(away, self.size.rate, self.size.reach, self.retention_s), self.retention_s
            ),
            *sizing_verdict.measured_as_predicted(trial.tried.link, trial.tried.waiting, trial.tried.mirrored),
        )
        if run_dir:
            sizing_verdict.write(Path(run_dir), checks, self._began_ms)
        return verdict_table(verdicts.overall(checks, 0), checks)

    @checked
    def measure(
        self, lab_dir: str | Path, bandwidth: str, rtt: str, *, partitions: int = 4, megabytes: int = 64
    ) -> Trial:
        """The same on the lab's link, set to `bandwidth` and `rtt`. Takes about 40 s; a lab is started where none runs."""
        return measured(Path(lab_dir), _link(bandwidth, rtt), partitions=partitions, megabytes=megabytes)


class Trial:
    """What a lab's link carried, beside the prediction."""

    def __init__(self, tried: Tried) -> None:
        self.tried = tried

    def link(self) -> Table:
        """Clients that wait for each answer: predicted and measured."""
        link = self.tried.link
        rows = [
            {
                "answer": said_power(measurement.request),
                "clients": measurement.clients,
                "predicted": formats.rate(sequential(link, measurement.request, measurement.clients)),
                "measured": formats.rate(measurement.rate),
                "measured / predicted": round(
                    measurement.rate / sequential(link, measurement.request, measurement.clients), 2
                ),
            }
            for measurement in self.tried.waiting
        ]
        return Table(f"Clients that wait, over {said_link(link)}", rows)

    def workers(self) -> Table:
        """Workers x lanes, and beside them processes x threads of clients that wait."""
        link = self.tried.link
        usual = usual_request(1)
        rows: list[Mapping[str, object]] = [
            {
                "workers": measurement.workers,
                "lanes": measurement.lanes,
                "predicted": formats.rate(ours(link, measurement.workers)[0]),
                "measured": formats.rate(measurement.rate),
                "clients that wait, to reach it": clients_needed(link, usual, min(measurement.rate, link.bandwidth)),
            }
            for measurement in self.tried.mirrored
        ]
        note = (
            f"Clients that wait: processes x threads, each with answers of {said_power(int(usual))} "
            "(max.partition.fetch.bytes). What is measured begins with a tenth of the records, so the joining of a second "
            "worker is in it."
        )
        return Table(f"drlib mirror over {said_link(link)}", rows, note=note)

    @explains_missing_extra("a figure")
    def figure(self) -> go.Figure:
        """Throughput against the size of a response: predicted and measured."""
        from drlib.ui.sizing.figures import throughput_figure

        return throughput_figure(self.tried.link, tried=self.tried)

    @explains_missing_extra("a figure")
    def workers_figure(self) -> go.Figure:
        """Throughput by workers and lanes, beside the prediction."""
        from drlib.ui.sizing.figures import workers_figure

        return workers_figure(self.tried)


def measured(lab_dir: Path, link: LinkSpec, *, partitions: int = 4, megabytes: int = 64) -> Trial:
    """Run the trial on the lab in `lab_dir`, started and stopped here where none runs."""
    lab, own = Lab.attach_or_up(lab_dir, needed=(SOURCE, TARGET))
    try:
        with LinkTrial(lab, link, partitions=partitions, megabytes=megabytes) as trial:
            measurements = [trial.waiting(request) for request in TRIED]
            measurements.append(trial.waiting(256 * KIB, partitions))
            measurements += [trial.mirrored(workers, lanes) for workers, lanes in WORKERS_LANES]
        return Trial(Tried(link, tuple(measurements)))
    finally:
        if own:
            lab.down()


def link_rows(sized: Size) -> list[dict[str, object]]:
    """By response size: the throughput of one client that waits, and how many are needed for the flow's rate; drlib last."""
    rows: list[dict[str, object]] = []
    usual = usual_request(sized.partitions)
    for request in sorted({*REQUESTS, usual}):
        count = clients_needed(sized.link, request, sized.rate)
        rows.append(
            {
                "one request at a time, answers of": said_power(int(request))
                + (" (Kafka's defaults)" if request == usual else ""),
                "one client reaches": formats.rate(sequential(sized.link, request)),
                "clients for the rate": "none can" if count is None else f"{count:,}",
            }
        )
    rows.append(
        {
            "one request at a time, answers of": "many on their way: drlib mirror",
            "one client reaches": formats.rate(ours(sized.link, 1, sized.memory)[0]),
            "clients for the rate": f"{sized.workers:,}" if sized.enough else "none can",
        }
    )
    return rows


def needs_rows(sized: Size) -> list[tuple[str, str]]:
    """What to run, with reasons."""
    return [
        ("workers", f"{sized.workers} (one core each; drlib mirror FILE, started as often)"),
        ("lanes", f"{sized.lanes} (drlib.lanes; two per worker, at most one per partition)"),
        (
            "memory of each",
            f"{sized.memory >> 20}MiB (--memory; the link holds {formats.short_size(sized.link.in_transit)})",
        ),
        ("reach together", f"{formats.rate(sized.reach)}, bounded by {sized.bound}"),
    ]


def outage_rows(outages: Sequence[Outage]) -> list[dict[str, object]]:
    """By length: the lag, the time to catch up, and what retention leaves."""
    return [
        {
            "outage": formats.short_duration(each.seconds),
            "to catch up on": formats.short_size(each.backlog),
            "takes": "never" if each.catch_up_s is None else formats.short_duration(each.catch_up_s),
            "retention leaves": "no limit"
            if each.left_s is None
            else formats.short_duration(each.left_s)
            if each.left_s
            else "nothing",
            "lost": formats.short_size(each.lost) if each.lost else "none",
        }
        for each in outages
    ]


def _link(bandwidth: str, rtt: str) -> LinkSpec:
    try:
        return LinkSpec(quantities.bytes_per_second(bandwidth, "bandwidth"), quantities.seconds(rtt, "round trip"))
    except ValueError as error:
        raise UsageError(
            f"a link of {bandwidth} and {rtt}", str(error), "Give what the link has, e.g. 1Gb/s."
        ) from None
