"""The lessons' figures: bars side by side, logs as rows of stretches, and lines over offsets or time.

Rules: as in `drlib.ui.figures.figures`: labels at lines and bars instead of a legend, units on axes, Okabe-Ito colours, no
meaning by colour alone. The parts of a stacked bar have letters; the axis says what each letter means, and the numbers of parts
that are too narrow for one. A figure without data says so.
Not for: choosing the data.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import plotly.graph_objects as go

from drlib.ui.figures import figures
from drlib.ui.layout import spread

COLOURS: Final = (figures.BLUE, figures.ORANGE, figures.VERMILLION, figures.GREEN)
ON: Final = {figures.BLUE: "white"}  # text colour on a bar of that colour; black on all others
HEIGHT, TOP, BOTTOM = 380, 50, 52  # pixels: a figure of lines, and its margins above and below the plot
LABEL: Final = 19.0  # pixels between two labels
PARTS: Final = "abcd"
NARROW: Final = 0.08  # share of the longest bar below which a part has no room for its number
EDGE: Final = 0.9  # share of the x axis from which on a line counts as ending at the right edge


@dataclass(frozen=True)
class Line:
    """A named line. `marks`: draw single points instead of a joined line."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    dash: str = "solid"
    marks: bool = False


@dataclass(frozen=True)
class Span:
    """A named part of the x axis, shaded."""

    name: str
    begin: float
    end: float


@dataclass(frozen=True)
class Stretch:
    """Records that lie behind each other in a log. `origin`: where they were written; `marked`: drawn hatched."""

    name: str
    count: int
    origin: str
    marked: bool = False


def bars(
    title: str, names: Sequence[str], values: Mapping[str, Sequence[float]], unit: str, *, stacked: bool = False
) -> go.Figure:
    """Draw one bar for each of `names` and each series of `values`, labelled with series and number.

    `stacked`: one bar for each of `names`, of which the series are parts.
    """
    if not any(any(series) for series in values.values()):
        return figures.empty(title, "There is nothing yet.")
    figure = figures.blank(title, height=130 + 34 * len(names) * (1 if stacked else len(values)))
    least = NARROW * max(map(sum, zip(*values.values(), strict=True))) if stacked else 0.0
    longest = max(map(max, values.values()))
    meaning: list[str] = []
    for (name, series), colour, part in zip(values.items(), COLOURS, PARTS, strict=False):
        if stacked and any(series):
            counts = f": {', '.join(f'{n:,.0f}' for n in series)}" if any(0 < n < least for n in series) else ""
            meaning.append(f"{figures.square(colour)} {part} {name}{counts}")
        label = part if stacked else f"{name}:"
        figure.add_bar(
            y=list(names),
            x=list(series),
            orientation="h",
            name=name,
            marker={"color": colour, "line": {"color": "white", "width": 1}},
            text=["" if value < least or (stacked and not value) else f"{label} {value:,.0f}" for value in series],
            # Text beside a bar has the page's colour, text in it that of `ON`: it must not be in one and reach beyond.
            textposition="inside" if stacked else ["inside" if 2 * value >= longest else "outside" for value in series],
            insidetextanchor="start",
            insidetextfont={"color": ON.get(colour, "black"), "size": 13},
            textangle=0,
            cliponaxis=False,
            constraintext="none",
            hovertemplate=f"{name}, %{{y}}: %{{x:,}} {unit}<extra></extra>",
        )
    figure.update_layout(barmode="stack" if stacked else "group", margin={"l": 30 + 8 * max(map(len, names)), "t": 50})
    title_below: dict[str, object] = {"text": unit}
    if stacked:
        title_below = {"text": f"{unit}<br>{'   '.join(meaning)}", "font": {"size": 13}}
        figure.update_layout(margin={"b": 76}, height=150 + 34 * len(names))
    figure.update_xaxes(title=title_below, rangemode="tozero", tickformat=",")
    figure.update_yaxes(autorange="reversed", showgrid=False)
    return figure


def logs(title: str, drawn: Mapping[str, Sequence[Stretch]], unit: str, origin: str, marked: str) -> go.Figure:
    """Draw a bar for each log: its stretches in their order, coloured by origin. `origin` and `marked` say what these mean.

    Each stretch is labelled with its name, the axis with what colours and hatching mean.
    """
    if not any(drawn.values()):
        return figures.empty(title, "There is nothing yet.")
    figure = figures.blank(title, height=170 + 60 * len(drawn))
    origins = sorted({stretch.origin for parts in drawn.values() for stretch in parts})
    colours = dict(zip(origins, COLOURS, strict=False))
    for log, parts in drawn.items():
        for stretch in parts:
            colour = colours[stretch.origin]
            figure.add_bar(
                y=[log],
                x=[stretch.count],
                orientation="h",
                marker={
                    "color": colour,
                    "line": {"color": "white", "width": 1},
                    "pattern": {"shape": "/" if stretch.marked else "", "fillmode": "overlay", "fgopacity": 0.3},
                },
                text=[f"{stretch.name}, again" if stretch.marked else stretch.name],
                textposition="inside",
                insidetextanchor="middle",
                insidetextfont={"color": ON.get(colour, "black"), "size": 13},
                textangle=0,
                constraintext="none",
                hovertemplate=f"{log}: {stretch.name}, {origin} {stretch.origin}<extra></extra>",
            )
    meaning = [f"{figures.square(colour)} {origin} {name}" for name, colour in colours.items()]
    if any(stretch.marked for parts in drawn.values() for stretch in parts):
        meaning.append(f"hatched: {marked}")
    figure.update_layout(barmode="stack", margin={"l": 30 + 8 * max(map(len, drawn)), "t": 50, "b": 76})
    title_below = {"text": f"{unit}<br>{'   '.join(meaning)}", "font": {"size": 13}}
    figure.update_xaxes(title=title_below, rangemode="tozero", tickformat=",")
    figure.update_yaxes(autorange="reversed", showgrid=False)
    return figure


def lines(title: str, drawn: Sequence[Line], x: str, y: str, *, spans: Sequence[Span] = ()) -> go.Figure:
    """Draw lines, each labelled at its end; `x` and `y` are the axis titles with units, `spans` are shaded behind them.

    Labels of lines that end at the right edge are placed beside the plot, moved apart where they would overlap.
    """
    shown = [line for line in drawn if line.x]
    if not shown:
        return figures.empty(title, "There is nothing yet.")
    figure = figures.blank(title, height=HEIGHT)
    every = [value for line in shown for value in line.y]
    last, top = max(max(line.x) for line in shown), max(every) * 1.06 or 1.0
    bottom = min(0.0, *every)
    at_edge = [line for line in shown if line.x[-1] >= EDGE * last]
    gap = LABEL * (top - bottom) / (HEIGHT - TOP - BOTTOM)
    beside = dict(zip(map(id, at_edge), spread([line.y[-1] for line in at_edge], gap, top), strict=True))
    for line, colour in zip(shown, COLOURS, strict=False):
        figure.add_scatter(
            x=list(line.x),
            y=list(line.y),
            name=line.name,
            mode="markers" if line.marks else "lines",
            line={"color": colour, "width": 2.5, "dash": line.dash},
            marker={"size": 12 if len(line.x) == 1 else 5, "color": colour},
            hovertemplate=f"{line.name}<br>%{{x:,}}: %{{y:,}}<extra></extra>",
        )
        if id(line) in beside:
            figures.label_end(
                figure, f'<span style="color:{colour}">{_sign(line)}</span> {line.name}', beside[id(line)]
            )
        else:
            figures.label(figure, line.name, line.x[-1], line.y[-1], xref="x", xanchor="left", xshift=8)
    for span in spans:
        figure.add_vrect(x0=span.begin, x1=span.end, fillcolor=figures.SOFT, opacity=0.18, line_width=0, layer="below")
        name = f"▒ {span.name}"
        figures.label(figure, name, span.begin, 1, xref="x", xanchor="left", yref="y domain", yanchor="bottom")
    figure.update_xaxes(title=x, tickformat=",")
    figure.update_yaxes(title=y, tickformat=",", range=[bottom, top])
    widest = max((len(line.name) for line in at_edge), default=0)
    figure.update_layout(margin={"r": 44 + int(figures.CHARACTER * widest), "t": TOP, "b": BOTTOM})
    return figure


def _sign(line: Line) -> str:
    """The symbol before a label, as the line is drawn."""
    return "●" if line.marks else "▬" if line.dash == "solid" else "▬ ▬"
