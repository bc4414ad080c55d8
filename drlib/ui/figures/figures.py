"""The drill's pictures: the RTO split, traffic over time, partitions before and after.

Rules: lines and bars carry their own labels instead of a legend; times are UTC; axes say their unit; colours are
Okabe-Ito's, and no meaning rests on colour alone. What was not measured is said in the picture, never drawn as 0.
Where there is pandas it is imported before any figure is made: plotly uses what `sys.modules` has, also a module that another
thread, Spark's, is only beginning to import, and fails then.
"""

from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Final, NamedTuple

import plotly.graph_objects as go

from drlib import formats
from drlib.runs.scorecard import Mark, PartitionOffsets, Scorecard
from drlib.ui import words
from drlib.ui.layout import rows, spread

with suppress(ImportError):
    import_module("pandas")

ORANGE, SKY, GREEN, BLUE = "#E69F00", "#56B4E9", "#009E73", "#0072B2"
VERMILLION, PURPLE, YELLOW, INK, GRID = "#D55E00", "#CC79A7", "#F0E442", "#1f2933", "#e3e8ee"
SOFT: Final = "#52606d"
TEXT_COLOURS: Final = (INK, SOFT)  # at least 4.5:1 on white
STAGE_COLOURS: Final = {"detect": ORANGE, "decide": SKY, "act": GREEN, "verify": BLUE}
GROUP_LINES: Final = ((VERMILLION, "dash"), (PURPLE, "dot"), (GREEN, "dashdot"), (ORANGE, "longdash"))
CHARACTER: Final = 7.0  # pixels of one character at the labels' size
WIDE: Final = 760.0  # pixels of the plotting area when labels are laid out; a wider one only has more room
MOST_PARTITIONS: Final = 24  # less than a printed page


def rto_figure(card: Scorecard) -> go.Figure:
    """One bar from the fault on, a piece for each stage reached, the objective as a line. Seconds."""
    stages = {name: getattr(card.rto_seconds, name) for name in STAGE_COLOURS}
    known = {name: value for name, value in stages.items() if value is not None}
    missing = [name for name, value in stages.items() if value is None]
    target = card.objectives.rto_seconds
    if not known and card.rto_seconds.total is not None:
        return empty(_rto_title(card), "Only the total was measured, not its stages.")
    if not known:
        return empty("Recovery time", "No stage of the recovery was timed.")
    total = sum(known.values())
    scale = max(total, target or 0.0) * 1.04 or 1.0
    figure = blank(_rto_title(card), height=0)
    labels = []
    at = 0.0
    for name, value in known.items():
        figure.add_bar(
            x=[value],
            y=[""],
            base=at,
            orientation="h",
            name=name,
            width=0.9,
            marker={"color": STAGE_COLOURS[name], "line": {"color": "white", "width": 1.5}},
            hovertemplate=f"<b>{name}</b> ({words.STAGES[name]})<br>{formats.seconds(value)}<extra></extra>",
        )
        labels.append((f"{name} {formats.seconds(value)}", at + value / 2))
        at += value
    if missing:
        labels.append((f"{', '.join(missing)}: {formats.UNKNOWN}", at))
    deep = label_above(figure, [Above(text, x, x / scale) for text, x in labels], size=13, lift=16, step=20)
    if target is not None:
        figure.add_vline(x=target, line={"color": INK, "width": 2, "dash": "dash"})
        side = "right" if target > scale / 2 else "left"
        text = f" objective {formats.seconds(target)} "
        faded = "rgba(255,255,255,0.88)"
        label(figure, text, target, 0, yref="y domain", yshift=-1, xanchor=side, yanchor="bottom", bgcolor=faded)
    figure.update_layout(barmode="overlay", height=190 + 20 * deep, margin={"t": 72 + 20 * deep, "l": 16})
    figure.update_xaxes(range=[0, scale], title="seconds since the fault", ticksuffix=" s")
    figure.update_yaxes(visible=False)
    return figure


def traffic_figure(card: Scorecard) -> go.Figure:
    """Records produced, mirrored and consumed by each group, as totals over UTC time, with the drill's marks."""
    if not card.samples:
        return empty("Traffic", "No traffic was sampled during this drill.")
    times = [formats.iso(sample.at_ms) for sample in card.samples]
    lines: list[tuple[str, list[int | None], str, str, float]] = [
        ("produced", [s.produced for s in card.samples], INK, "solid", 2.0),
        ("mirrored", [s.mirrored for s in card.samples], BLUE, "solid", 3.0),
    ]
    groups = sorted({group for sample in card.samples for group in sample.consumed})
    for number, group in enumerate(groups):
        colour, dash = GROUP_LINES[number % len(GROUP_LINES)]
        lines.append((f"read by {group}", [s.consumed.get(group) for s in card.samples], colour, dash, 2.0))
    figure = blank("Records over the drill", height=0)
    for name, values, colour, dash, width in lines:
        figure.add_scatter(
            x=times,
            y=values,
            name=name,
            mode="lines" if len(times) > 1 else "markers",
            line={"color": colour, "dash": dash, "width": width},
            hovertemplate=f"{name}: %{{y:,}}<extra></extra>",
        )
    ends = [next((v for v in reversed(values) if v is not None), 0) for _, values, *_ in lines]
    top = max((v for _, values, *_ in lines for v in values if v is not None), default=0) * 1.05 or 1.0
    for (name, _, colour, *_), end, place in zip(lines, ends, spread(ends, top / 16, top), strict=True):
        label_end(figure, f"{square(colour)} {_plain(name)} <b>{end:,}</b>", place)
    first, last = card.samples[0].at_ms, card.samples[-1].at_ms
    first, last = min([first, *(m.at_ms for m in card.marks)]), max([last, *(m.at_ms for m in card.marks)])
    reach = max(last - first, 1)
    deep = draw_marks(figure, card.marks, first, reach)
    right = 30 + int(CHARACTER * max(len(f"{name} {end:,}") for (name, *_), end in zip(lines, ends, strict=True)))
    figure.update_layout(
        height=420 + 19 * deep, margin={"t": 78 + 19 * deep, "r": min(right, 300)}, hovermode="x unified"
    )
    day = formats.utc(first)
    figure.update_xaxes(
        title=f"time of day, UTC ({day:%Y-%m-%d})", range=[formats.iso(first), formats.iso(last)], tickformat="%H:%M:%S"
    )
    figure.update_yaxes(title="records since the start", range=[0, top], tickformat=",~s")
    return figure


def partitions_figure(card: Scorecard) -> go.Figure:
    """For each partition the source's end offset, and the offset mirrored up to."""
    if not card.partitions:
        return empty("Partitions", "No offsets of partitions were recorded.")
    shown = _worst(card.partitions)
    names = [_plain(f"{p.topic}-{p.partition}") for p in shown]
    hidden = len(card.partitions) - len(shown)
    title = "How far each partition was mirrored" + (
        f" (the {len(shown)} furthest behind; {hidden} more)" if hidden else ""
    )
    figure = blank(title, height=130 + 26 * len(shown))
    figure.add_bar(
        x=[p.source_end for p in shown],
        y=names,
        orientation="h",
        width=0.78,
        name="source end",
        marker={"color": "#d5dce4"},
        hovertemplate="%{y}<br>source end %{x:,}<extra></extra>",
    )
    figure.add_bar(
        x=[p.mirrored_to for p in shown],
        y=names,
        orientation="h",
        width=0.42,
        name="mirrored to",
        marker={"color": BLUE},
        hovertemplate="%{y}<br>mirrored to %{x:,}<extra></extra>",
    )
    for partition, name in zip(shown, names, strict=True):
        end = max(partition.source_end or 0, partition.mirrored_to or 0)
        label(figure, _behind(partition), end, name, size=12, xanchor="left", xshift=6)
    top = max(max(p.source_end or 0, p.mirrored_to or 0) for p in shown)
    label_top(figure, f"{square(BLUE)} mirrored to   {square('#9aa5b1')} source end (both offsets)", yshift=4)
    figure.update_layout(barmode="overlay", margin={"t": 66, "l": 24 + int(CHARACTER * max(map(len, names)))})
    figure.update_xaxes(title="offset", tickformat=",", range=[0, top * 1.22 or 1])
    figure.update_yaxes(
        autorange="reversed", type="category", showgrid=False, tickmode="array", tickvals=names, tickfont={"size": 12}
    )
    return figure


def _rto_title(card: Scorecard) -> str:
    total, target = card.rto_seconds.total, card.objectives.rto_seconds
    title = f"Recovery time: {formats.seconds(total)}"
    if target is None or total is None:
        return title
    margin = target - total
    return f"{title}, {formats.seconds(abs(margin))} {'inside' if margin >= 0 else 'over'} the objective"


def _behind(partition: PartitionOffsets) -> str:
    if partition.source_end is None or partition.mirrored_to is None:
        end = "source end" if partition.source_end is None else "mirrored to"
        return f"{end}: {formats.UNKNOWN}"
    if partition.unmirrored is None:
        return f"not mirrored: {formats.UNKNOWN}"
    return f"{formats.count(partition.unmirrored)} not mirrored" if partition.unmirrored else "all mirrored"


def _worst(partitions: Sequence[PartitionOffsets]) -> list[PartitionOffsets]:
    """At most `MOST_PARTITIONS`, unknown and furthest behind kept, in the order of their names."""
    behind = sorted(partitions, key=lambda p: (p.unmirrored is not None, -(p.unmirrored or 0)))
    return sorted(behind[:MOST_PARTITIONS], key=lambda p: (p.topic, p.partition))


def label(
    figure: go.Figure, text: str, x: object, y: object, *, size: int = 13, colour: str = INK, **place: object
) -> None:
    """Text without an arrow at (x, y), with a square before it in the `colour` of what it names: few colours are dark
    enough for text. `place`: anchors, shifts and references, as plotly names them."""
    if colour not in TEXT_COLOURS:
        text, colour = f"{square(colour)} {text}", INK
    figure.add_annotation(x=x, y=y, text=text, showarrow=False, font={"size": size, "color": colour}, **place)


def label_end(figure: go.Figure, text: str, y: object, *, size: int = 13, colour: str = INK, xshift: int = 8) -> None:
    """Text right of the plotting area, at the height of `y`."""
    label(figure, text, 1, y, size=size, colour=colour, xref="x domain", xanchor="left", xshift=xshift)


def label_top(figure: go.Figure, text: str, *, size: int = 13, axis: str = "", yshift: int) -> None:
    """Text over the left end of the plotting area of axes `axis` ("" is the first, "2" the second)."""
    xref, yref = f"x{axis} domain", f"y{axis} domain"
    label(figure, text, 0, 1, size=size, yshift=yshift, xref=xref, yref=yref, xanchor="left", yanchor="bottom")


def square(colour: str) -> str:
    """A square in a line's colour, for the label that stands in a legend's place."""
    return f'<span style="color:{colour}">■</span>'


class Above(NamedTuple):
    """A label above a mark."""

    text: str
    x: object  # on the axis
    share: float  # of the plotting area's width, 0 to 1
    hover: str | None = None


def label_above(
    figure: go.Figure, labels: Sequence[Above], *, size: int, lift: int, step: int, yref: str = "y domain"
) -> int:
    """Labels in rows over the plotting area, all within its width and none over another, each with a line to its mark.

    `lift`, `step`: pixels from the plotting area to the first row, and from row to row. Returns the highest row, from 0.
    """
    spans = []
    for one in labels:
        half = (len(one.text) * CHARACTER + 14) / WIDE / 2
        centre = min(max(one.share, half), 1 - half) if half < 0.5 else 0.5
        spans.append((centre - half, centre + half))
    placed = list(zip(labels, rows(spans), spans, strict=True))
    # what is drawn later covers: a lower label stands before the line that leads to a higher one
    for one, row, (left, right) in sorted(placed, key=lambda each: -each[1]):
        figure.add_annotation(
            x=one.x,
            y=1,
            yref=yref,
            ax=((left + right) / 2 - one.share) * WIDE,
            ay=-lift - step * row,
            text=_plain(one.text),
            hovertext=one.hover,
            showarrow=True,
            arrowhead=0,
            arrowwidth=1,
            arrowcolor="#7b8794",
            bgcolor="white",
            font={"size": size, "color": INK},
        )
    return max((row for _, row, _ in placed), default=0)


def draw_marks(figure: go.Figure, marks: Sequence[Mark], first: int, reach: int, yref: str = "y domain") -> int:
    """A dotted line at each moment with its name above, on an axis of dates that begins at `first` and is `reach`
    milliseconds long; how many rows the names took besides the first."""
    for mark in marks:
        at = formats.iso(mark.at_ms)
        line = {"color": SOFT, "width": 1, "dash": "dot"}
        figure.add_shape(type="line", x0=at, x1=at, y0=0, y1=1, yref=yref, line=line)
    labels = [
        Above(
            mark.name,
            formats.iso(mark.at_ms),
            (mark.at_ms - first) / reach,
            _plain(f"{formats.moment(mark.at_ms)} {mark.detail}".strip()),
        )
        for mark in marks
    ]
    return label_above(figure, labels, size=12, lift=14, step=19, yref=yref)


def blank(title: str, *, height: int) -> go.Figure:
    """An empty figure in the common style; `height` 0 takes the height of its place."""
    figure = go.Figure()
    figure.update_layout(
        template="none",
        title={
            "text": f"<b>{title}</b>",
            "x": 0,
            "xref": "container",
            "xanchor": "left",
            "y": 1,
            "yref": "container",
            "yanchor": "top",
            "pad": {"t": 8, "l": 2},
            "font": {"size": 16},
        },
        font={"family": "system-ui, -apple-system, Segoe UI, Roboto, sans-serif", "size": 13, "color": INK},
        margin={"l": 70, "r": 24, "t": 70, "b": 52},
        paper_bgcolor="white",
        plot_bgcolor="white",
        showlegend=False,
        height=height or None,
    )
    figure.update_xaxes(gridcolor=GRID, zeroline=False, linecolor="#9aa5b1", ticks="outside", tickcolor="#9aa5b1")
    figure.update_xaxes(title_font_size=13)
    figure.update_yaxes(gridcolor=GRID, zeroline=False, ticks="outside", tickcolor="white", title_font_size=13)
    return figure


def empty(title: str, why: str) -> go.Figure:
    """A figure that says why it has no data."""
    figure = blank(title, height=150)
    label(figure, why, 0.5, 0.5, size=14, colour=SOFT, xref="paper", yref="paper")
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    return figure


def _plain(text: str) -> str:
    """`text` escaped: plotly interprets some HTML in labels."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
