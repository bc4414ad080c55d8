"""A failover in records: what was acknowledged, mirrored and read around the fault, and by which cluster, moment by moment.

Rules: as in `figures`. Applications' own histories are drawn, and of the mirror what was sampled. Records are counted from what
had been acknowledged when the source died, so that a line's distance below 0 is what is missing. A record that is read again
is not counted again. The lower half says which readers were served by which topic, and when none was.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from drlib import formats
from drlib.drill.session.session import DrillSession
from drlib.drill.step import rto_clock as moments
from drlib.drill.step import step_output as details
from drlib.drill.testbed import sampler
from drlib.lab.checker.history import History, ProducedStatus
from drlib.lab.checker.history_files import read_history
from drlib.lab.checker.moved_groups import ServedInterval, served_intervals
from drlib.runs.scorecard import Mark
from drlib.ui.figures import figures
from drlib.ui.layout import spread

TITLE: Final = "The failover in records"
STEP_MS: Final = 100
GAP_MS: Final = 700  # consumers poll and commit a few times a second
BEFORE_MS: Final = 4000
AFTER_MS: Final = 3000
LONGEST_MS: Final = 120_000
_UPPER: Final = 330.0  # pixels
_LANE: Final = 34.0
_LABEL: Final = 18.0


def failover_figure(drill: DrillSession) -> go.Figure:
    """From some seconds before the source died until its groups were served again, for the topic the drill moves."""
    run_dir = drill.workplace.run_dir
    fault = moments.at(run_dir, "fault")
    histories = {path.stem: read_history(path) for path in sorted((run_dir / "history").glob("*.jsonl"))}
    histories = {name: history for name, history in histories.items() if history.consumed or history.produced}
    if fault is None or not histories:
        why = "No application recorded anything." if fault is not None else "The source has not died in this run."
        return figures.empty(TITLE, why)
    marks = _marks(drill, fault)
    first, last = fault - BEFORE_MS, max([fault, *(mark.at_ms for mark in marks)]) + AFTER_MS
    lines = _lines(histories, _samples(drill), fault)
    lanes = {name: _served(history) for name, history in _lanes(histories).items()}
    upper = _UPPER / (_UPPER + _LANE * len(lanes) + 20)
    figure = make_subplots(rows=2, shared_xaxes=True, row_heights=[upper, 1 - upper], vertical_spacing=0.09)
    figure.update_layout(figures.blank(TITLE, height=0).layout)
    _draw_lines(figure, lines, first, last)
    _draw_lanes(figure, lanes, first, last)
    deep = figures.draw_marks(figure, marks, first, last - first, yref="paper")
    longest = max([len(name) for name in lanes] + [9])
    figure.update_layout(
        height=int(_UPPER + _LANE * len(lanes) + 150 + 19 * deep),
        margin={"t": 78 + 19 * deep, "r": 250, "l": 30 + int(figures.CHARACTER * longest)},
        barmode="overlay",
    )
    figure.update_xaxes(range=[formats.iso(first), formats.iso(last)], tickformat="%H:%M:%S")
    figure.update_xaxes(title="time of day, UTC", row=2, col=1)
    return figure


def _samples(drill: DrillSession) -> list[tuple[int, int]]:
    """(moment, records mirrored), twice a second."""
    return [(sample.at_ms, sample.mirrored) for sample in sampler.read(drill.workplace.run_dir)]


def _marks(drill: DrillSession, fault: int) -> list[Mark]:
    """The marks from the fault on, up to the restart of the source."""
    run_dir = drill.workplace.run_dir
    marks = [mark for step in drill.drill.steps for mark in details.read_part(run_dir, step.name).marks]
    marks = sorted((m for m in marks if fault - BEFORE_MS <= m.at_ms <= fault + LONGEST_MS), key=lambda m: m.at_ms)
    end = next((n for n, mark in enumerate(marks) if mark.name.endswith("restarted")), len(marks))
    return marks[:end]


def _lines(
    histories: dict[str, History], mirrored: Sequence[tuple[int, int]], fault: int
) -> dict[str, list[tuple[int, int]]]:
    """By name (moment, records) that add up, 0 being what was acknowledged at the fault; of the topic groups read."""
    read = {row.topic for history in histories.values() for row in history.consumed}
    sent = [
        (row.acked_ms, row.id)
        for history in histories.values()
        for row in history.produced
        if row.status is ProducedStatus.ACKED and row.topic in read
    ]
    zero = sum(at <= fault for at, _ in sent)
    lines = {"acknowledged": _sums(sent, zero)}
    if mirrored:
        lines["mirrored"] = [(at, count - zero) for at, count in mirrored]
    groups = sorted({row.group for history in histories.values() for row in history.consumed})
    for group in groups:
        rows_of = [(r.at_ms, r.id) for history in histories.values() for r in history.consumed if r.group == group]
        lines[f"read by {group}"] = _sums(rows_of, zero)
    return lines


def _sums(events: Sequence[tuple[int, str]], zero: int) -> list[tuple[int, int]]:
    """How many different records there were by the end of each step."""
    records: set[str] = set()
    sums: list[tuple[int, int]] = []
    for at, record in sorted(events):
        records.add(record)
        step = -(-at // STEP_MS) * STEP_MS
        if sums and sums[-1][0] == step:
            sums.pop()
        sums.append((step, len(records) - zero))
    return sums


def _lanes(histories: dict[str, History]) -> dict[str, History]:
    """The consumers, and the producers of the topics they read."""
    read = {row.topic for history in histories.values() for row in history.consumed}
    return {
        name: history
        for name, history in histories.items()
        if history.consumed or any(row.topic in read for row in history.produced)
    }


def _served(history: History) -> tuple[ServedInterval, ...]:
    acked = [(r.acked_ms, f"{r.topic} on {r.cluster}") for r in history.produced if r.status is ProducedStatus.ACKED]
    return served_intervals(acked or [(r.at_ms, f"{r.topic} on {r.cluster}") for r in history.consumed], GAP_MS)


def _draw_lines(figure: go.Figure, lines: dict[str, list[tuple[int, int]]], first: int, last: int) -> None:
    styles = (
        [(figures.INK, "solid", 2.0), (figures.BLUE, "solid", 3.0)]
        if "mirrored" in lines
        else [(figures.INK, "solid", 2.0)]
    )
    styles += [(colour, dash, 2.0) for colour, dash in figures.GROUP_LINES] * len(lines)
    shown: list[tuple[str, str, list[tuple[int, int]]]] = []
    for (name, points), (colour, dash, width) in zip(lines.items(), styles, strict=False):
        cut = _within(points, first, last)
        if not cut:
            continue
        shown.append((name, colour, cut))
        figure.add_scatter(
            x=[formats.iso(at) for at, _ in cut],
            y=[count for _, count in cut],
            mode="lines",
            line={"color": colour, "dash": dash, "width": width, "shape": "hv" if name != "mirrored" else "linear"},
            hovertemplate=f"{name}: %{{y:+,}}<br>%{{x}} UTC<extra></extra>",
            row=1,
            col=1,
        )
    values = [count for _, _, cut in shown for _, count in cut] or [0]
    low, high = min(values), max([*values, 0])
    margin = max((high - low) * 0.06, 1)
    ends = [cut[-1][1] for _, _, cut in shown]
    places = spread(ends, (high - low + 2 * margin) * _LABEL / _UPPER, high + margin)
    for (name, colour, _), end, place in zip(shown, ends, places, strict=True):
        figures.label_end(figure, f"{figures.square(colour)} {name} <b>{end:+,}</b>", place)
    figure.add_hline(y=0, line={"color": "#7b8794", "width": 1, "dash": "dot"}, row=1, col=1)
    figure.update_yaxes(
        title="records, 0 = acknowledged at the fault",
        range=[low - margin, high + margin],
        tickformat=",~s",
        row=1,
        col=1,
    )


def _within(points: Sequence[tuple[int, int]], first: int, last: int) -> list[tuple[int, int]]:
    """The visible part of a line, from where it enters the axes to where it leaves them."""
    begin, end = bisect_right(points, (first, 2**62)), bisect_right(points, (last, 2**62))
    entered = [(first, points[begin - 1][1])] if begin else []
    left = [(last, points[end - 1][1])] if end < len(points) and end else []
    return [*entered, *points[begin:end], *left]


def _draw_lanes(figure: go.Figure, lanes: dict[str, tuple[ServedInterval, ...]], first: int, last: int) -> None:
    every = [stretch for served in lanes.values() for stretch in served]
    places = sorted({interval.where for interval in every if interval.from_ms <= last and interval.to_ms >= first})
    colours = dict(
        zip(places, (figures.SKY, figures.ORANGE, figures.GREEN, figures.YELLOW, figures.PURPLE) * 9, strict=False)
    )
    for name, served in lanes.items():
        for stretch in served:
            begin, end = max(stretch.from_ms, first), min(stretch.to_ms, last)
            if begin > end:
                continue
            figure.add_bar(
                x=[max(end - begin, 60)],  # milliseconds, on an axis of dates
                base=[formats.iso(begin)],
                y=[name],
                orientation="h",
                width=0.72,
                marker={"color": colours[stretch.where], "line": {"color": "white", "width": 1}},
                text=_fitting(stretch.where, (end - begin) / (last - first)),
                textposition="inside",
                insidetextanchor="middle",
                textangle=0,
                constraintext="none",
                textfont={"size": 11, "color": figures.INK},
                hovertemplate=f"{name}: {stretch.where}<br>{stretch.records:,} records in all<extra></extra>",
                row=2,
                col=1,
            )
    named = "   ".join(f"{figures.square(colour)} {where}" for where, colour in colours.items())
    figures.label_top(figure, f"served by: {named}", size=12, axis="2", yshift=2)
    figure.update_yaxes(type="category", showgrid=False, autorange="reversed", row=2, col=1)
    figure.update_xaxes(type="date", row=2, col=1)


def _fitting(where: str, share: float) -> str:
    """The topic's name and its cluster's where there is room for them, the cluster's alone, or nothing."""
    room = share * figures.WIDE / 6.5
    return where if len(where) < room else where.rpartition(" ")[2] if len(where.rpartition(" ")[2]) < room else ""
