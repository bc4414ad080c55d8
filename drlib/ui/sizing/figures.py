"""The pictures of a link: throughput against the size of an answer, by workers and lanes, and the time to catch up.

Rules: a prediction is a line and a measurement a mark with its number, so that the two differ without colour; axes say
their unit, sizes and rates are decimal. What was not measured is not drawn.
"""

from collections.abc import Sequence
from math import log10

import plotly.graph_objects as go

from drlib import formats
from drlib.lab.link.sizing import KIB, LinkSpec, Size, after_outage, ours, sequential
from drlib.ui.figures import figures
from drlib.ui.sizing.measurements import Tried, said_link, said_power


def throughput_figure(link: LinkSpec, *, rate: float | None = None, tried: Tried | None = None) -> go.Figure:
    """Throughput against D, both logarithmic. MB/s and bytes."""
    figure = figures.blank(f"What one client carries over {said_link(link)}", height=420)
    sizes = [KIB * 2**power for power in range(3, 18)]
    figure.add_scatter(
        x=sizes,
        y=[sequential(link, each) / 1e6 for each in sizes],
        mode="lines",
        line={"color": figures.ORANGE, "width": 2},
        hovertemplate="answers of %{x:,} bytes<br>%{y:.3g} MB/s predicted<extra></extra>",
    )
    # beside the curve where neither it nor a mark's number is
    _label(
        figure,
        sizes[8],
        sequential(link, sizes[5]) / 1e6,
        "waits for each answer: B·D / (B·RTT + D)",
        above=False,
        colour=figures.ORANGE,
    )
    reach = ours(link)[0] / 1e6
    _line(figure, sizes, reach, f"drlib mirror, predicted: {reach:.3g} MB/s", figures.BLUE, "solid")
    _line(
        figure,
        sizes,
        link.bandwidth / 1e6,
        f"the link: {link.bandwidth / 1e6:.3g} MB/s",
        figures.INK,
        "dash",
        above=True,
    )
    if rate:
        _line(figure, sizes, rate / 1e6, f"the flow: {rate / 1e6:.3g} MB/s", figures.GREEN, "dot")
    if tried is not None:
        single = [measurement for measurement in tried.waiting if measurement.clients == 1]
        _marks(
            figure,
            [measurement.request for measurement in single],
            [measurement.rate / 1e6 for measurement in single],
            "diamond",
            figures.VERMILLION,
        )
        best = max(tried.mirrored, key=lambda measurement: measurement.rate, default=None)
        if best is not None:
            _marks(figure, [sizes[-2]], [best.rate / 1e6], "square", figures.BLUE)
    figure.update_xaxes(
        type="log", title="D, bytes in one answer", tickvals=sizes[::2], ticktext=[said_power(s) for s in sizes[::2]]
    )
    figure.update_yaxes(type="log", title="MB/s", dtick=1, exponentformat="none")
    if tried is not None:
        text = "lines: predicted; marks: measured on the lab's link (diamond: waits, square: drlib mirror)"
        figures.label(figure, text, 0, -0.36, xref="paper", yref="paper", xanchor="left")
        figure.update_layout(margin={"b": 104})
    return figure


def workers_figure(tried: Tried) -> go.Figure:
    """Bars of what was measured by workers and lanes, the prediction as a line over each. MB/s."""
    if not tried.mirrored:
        return figures.empty("Throughput by workers and lanes", "Nothing was measured.")
    figure = figures.blank(f"drlib mirror over {said_link(tried.link)}, by workers and lanes", height=340)
    names = [
        f"{run.workers} worker{'s' * (run.workers > 1)}, {run.lanes} lane{'s' * (run.lanes > 1)}"
        for run in tried.mirrored
    ]
    figure.add_bar(
        x=names,
        y=[run.rate / 1e6 for run in tried.mirrored],
        text=[f"{run.rate / 1e6:.3g} MB/s measured" for run in tried.mirrored],
        textposition="inside",
        marker={"color": figures.SKY},
        width=0.6,
        hovertemplate="%{x}<br>%{y:.3g} MB/s measured<extra></extra>",
    )
    for number, run in enumerate(tried.mirrored):
        predicted = ours(tried.link, run.workers)[0] / 1e6
        figure.add_shape(
            type="line",
            x0=number - 0.4,
            x1=number + 0.4,
            y0=predicted,
            y1=predicted,
            line={"color": figures.INK, "width": 2},
        )
        figures.label(figure, f"predicted {predicted:.3g}", number, predicted, yshift=10)
    figure.update_yaxes(title="MB/s", rangemode="tozero")
    return figure


def outage_figure(sized: Size, retention_s: float) -> go.Figure:
    """Time to be up to date again against an outage's length; hours. Beyond retention records are lost."""
    title = "Up to date again, after an outage"
    if not sized.enough:
        return figures.empty(title, "Never: the mirror reaches less than the flow has.")
    figure = figures.blank(title, height=360)
    lengths = [retention_s * 1.5 * n / 60 for n in range(61)]
    outages = [after_outage(each, sized.rate, sized.reach, retention_s) for each in lengths]
    figure.add_scatter(
        x=[each.seconds / 3600 for each in outages],
        y=[(each.catch_up_s or 0.0) / 3600 for each in outages],
        mode="lines",
        line={"color": figures.BLUE, "width": 2},
        hovertemplate="after %{x:.3g} h<br>%{y:.3g} h to catch up<extra></extra>",
    )
    last = outages[40]
    _label(figure, last.seconds / 3600, (last.catch_up_s or 0) / 3600, "time to catch up", above=True, log=False)
    figure.add_vline(x=retention_s / 3600, line={"color": figures.VERMILLION, "width": 2, "dash": "dash"})
    text = f"retention {formats.short_duration(retention_s)}: records are lost beyond"
    at = retention_s / 3600
    figures.label(figure, text, at, 0.04, colour=figures.VERMILLION, yref="paper", xanchor="left", xshift=6)
    figure.update_xaxes(title="length of the outage, hours", rangemode="tozero")
    figure.update_yaxes(title="hours", rangemode="tozero")
    return figure


def _line(
    figure: go.Figure, sizes: Sequence[int], at: float, text: str, colour: str, dash: str, *, above: bool = False
) -> None:
    figure.add_scatter(
        x=[sizes[0], sizes[-1]],
        y=[at, at],
        mode="lines",
        line={"color": colour, "width": 2, "dash": dash},
        hovertemplate=f"{text}<extra></extra>",
    )
    _label(figure, sizes[0], at, text, above=above, colour=colour)


def _marks(figure: go.Figure, x: Sequence[float], y: Sequence[float], symbol: str, colour: str) -> None:
    figure.add_scatter(
        x=list(x),
        y=list(y),
        mode="markers+text",
        marker={"symbol": symbol, "size": 10, "color": colour},
        text=[f"{each:.3g}" for each in y],
        textposition="bottom right",
        hovertemplate="%{y:.3g} MB/s measured<extra></extra>",
    )


def _label(
    figure: go.Figure, x: float, y: float, text: str, *, above: bool, colour: str = figures.INK, log: bool = True
) -> None:
    x, y = (log10(x), log10(y)) if log else (x, y)
    yshift = 9 if above else -11
    figures.label(figure, text, x, y, colour=colour, xanchor="left", yshift=yshift, bgcolor="rgba(255,255,255,0.7)")
