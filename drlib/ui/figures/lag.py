"""Lag over time: the age of the next record of each reader, with the objective and the retention.

Rules: as in `figures`: labels instead of a legend, UTC, units on axes, no meaning by colour alone. Seconds are on a logarithmic
axis, because objective and retention are decades apart; anything below a tenth of a second is drawn at its foot, as the
axis says. A lag that is known between two bounds is drawn as both, the upper one thick and the lower one thin, as the title
says. A time without a measurement is a gap. Only the worst partitions are drawn.
"""

from collections.abc import Sequence
from math import log10
from typing import Final

import plotly.graph_objects as go

from drlib import formats
from drlib.analysis.lag.result import LagReport, Series
from drlib.analysis.lag.trend import Point
from drlib.ui.figures import figures
from drlib.ui.layout import spread

MOST: Final = 6
FLOOR_S: Final = 0.1
_HEIGHT: Final = 420
_AREA: Final = 290.0  # pixels of it that are the plotting area's height
_LABEL: Final = 17.0
MOST_TEXT: Final = 62  # characters at the end of a line, beside which there is still a figure
MOST_TOPICS: Final = 4  # in a label
_CHARACTER: Final = 6.6  # pixels of one at the labels' size
_LINES: Final = (
    (figures.BLUE, "solid"), (figures.VERMILLION, "dash"), (figures.GREEN, "dot"),
    (figures.ORANGE, "dashdot"), (figures.PURPLE, "longdash"), (figures.SKY, "longdashdot"),
)  # fmt: skip


def lag_figure(report: LagReport, *, groups: bool = False) -> go.Figure:
    """The mirror's lag in seconds over time, or with `groups` that of the groups on both sides; the worst partitions."""
    series = worst(report.groups if groups else report.mirror)
    title = "Lag of consumer groups" if groups else f"Lag of the mirror {report.flow}"
    if not series:
        return figures.empty(title, "No lag was measured.")
    most = ""
    if any(line.lower_bound is not None for line in series):
        both = "at most (thick) and for certain (thin)" if any(line.lower_bounds for line in series) else "at most"
        most = f"{both}, from MirrorMaker 2's offset syncs"
    figure = figures.blank(f"{title}: age of the next record to read{', ' * bool(most)}{most}", height=_HEIGHT)
    ends = []
    for line, (colour, dash) in zip(series, _LINES, strict=False):
        seconds = [max(FLOOR_S, point.age_s) for point in line.points]
        name = f"{line.reader} on {line.cluster}, {line.partition}" if groups else str(line.partition)
        _draw(figure, name, line.points, {"color": colour, "width": 2, "dash": dash})
        ends.append((log10(seconds[-1]), _fitting(name, f": {_said(line)}"), colour))
        if line.lower_bounds:
            _draw(figure, f"{name}, for certain", line.lower_bounds, {"color": colour, "width": 1, "dash": dash})
    limits = _limits(series)
    low, high = _range(series, [seconds for seconds, _, _ in limits])
    _name_ends(figure, ends, low, high)
    for limit_s, text, colour in limits:
        figure.add_hline(y=limit_s, line={"color": colour, "width": 2, "dash": "dash"})
        figures.label(figure, text, 0, log10(limit_s), colour=colour, xref="paper", xanchor="left", yshift=9)
    figure.update_yaxes(
        type="log", range=[low, high], title="seconds (foot: 0.1 or less)", dtick=1, exponentformat="none"
    )
    figure.update_xaxes(title="time, UTC")
    figure.update_layout(margin={"r": 40 + int(_CHARACTER * max(len(text) for _, text, _ in ends)), "l": 90})
    return figure


def worst(series: Sequence[Series], most: int = MOST) -> tuple[Series, ...]:
    """Those with the oldest unread record at any time, the oldest first."""
    return tuple(sorted(series, key=lambda line: -max((point.age_s for point in line.points), default=0.0))[:most])


def _draw(figure: go.Figure, name: str, points: Sequence[Point], line: dict[str, object]) -> None:
    figure.add_scatter(
        x=[formats.iso(round(point.at_s * 1000)) for point in points],
        y=[max(FLOOR_S, point.age_s) for point in points],
        customdata=[[point.records, point.bytes, point.age_s] for point in points],
        mode="lines",
        line=line,
        hovertemplate=(
            f"{name}<br>%{{x}} UTC<br>%{{customdata[2]:.1f}} s, %{{customdata[0]:,}} records,"
            " %{customdata[1]:,} bytes<extra></extra>"
        ),
    )


def _fitting(name: str, said: str) -> str:
    """The end of a line, which says how far behind it is, whatever the length of its name, of which the middle is left out."""
    room = max(MOST_TEXT - len(said), 16)
    return f"{name}{said}" if len(name) <= room else f"{name[: room // 2 - 1]}…{name[-(room // 2) :]}{said}"


def _said(line: Series) -> str:
    last = line.points[-1]
    if line.lower_bound is not None and last.records:
        return f"{line.lower_bound.records:,} to {last.records:,} records, at most {formats.short_duration(last.age_s)}"
    return f"{formats.short_duration(last.age_s)}, {last.records:,} records" if last.records else "nothing behind"


def _limits(series: Sequence[Series]) -> list[tuple[float, str, str]]:
    objectives = {line.limits.objective_s for line in series if line.limits.objective_s}
    limits = [(each, f"objective {formats.short_duration(each)}", figures.INK) for each in sorted(objectives)]
    for kept in sorted({line.limits.retention_s for line in series if line.limits.retention_s}):
        topics = sorted({line.partition.topic for line in series if line.limits.retention_s == kept})
        limits.append(
            (
                kept,
                f"retention {formats.short_duration(kept)} of {formats.first_few(topics, MOST_TOPICS)}",
                figures.VERMILLION,
            )
        )
    return limits


def _range(series: Sequence[Series], limits: Sequence[float]) -> tuple[float, float]:
    highest = max([FLOOR_S * 100, *limits, *(point.age_s for line in series for point in line.points)])
    return log10(FLOOR_S) - 0.05, log10(highest) + 0.25


def _name_ends(figure: go.Figure, ends: Sequence[tuple[float, str, str]], low: float, high: float) -> None:
    """Each line's name at its end, moved apart where they would cover each other."""
    scale = (high - low) / _AREA
    places = spread([y for y, _, _ in ends], _LABEL * scale, high)
    for (_, text, colour), y in zip(ends, places, strict=True):
        figures.label_end(figure, text, y, size=12, colour=colour, xshift=6)
