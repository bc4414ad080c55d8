"""The drill's pictures: the RTO split, traffic over time, partitions before and after.

Rules: lines and bars carry their own labels instead of a legend; times are UTC; axes say their unit; colours are
Okabe-Ito's, and no meaning rests on colour alone. What was not measured is said in the picture, never drawn as 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

import plotly.graph_objects as go

from drlib.runs.scorecard import PartitionOffsets, Scorecard
from drlib.ui import words
from drlib.ui.layout import rows, spread

T = TypeVar("T")
ORANGE, SKY, GREEN, BLUE = "#E69F00", "#56B4E9", "#009E73", "#0072B2"
VERMILLION, PURPLE, YELLOW, INK, GRID = "#D55E00", "#CC79A7", "#F0E442", "#1f2933", "#e3e8ee"
STAGE_COLOURS: Final = {"detect": ORANGE, "decide": SKY, "act": GREEN, "verify": BLUE}
GROUP_LINES: Final = ((VERMILLION, "dash"), (PURPLE, "dot"), (GREEN, "dashdot"), (ORANGE, "longdash"))
CHARACTER: Final = 7.0  # pixels of one character at the labels' size
WIDE: Final = 760.0  # pixels of the plotting area when labels are laid out; a wider one only has more room
MOST_PARTITIONS: Final = 40


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
            hovertemplate=f"<b>{name}</b> ({words.STAGES[name]})<br>{words.seconds(value)}<extra></extra>",
        )
        labels.append((f"{name} {words.seconds(value)}", at + value / 2))
        at += value
    if missing:
        labels.append((f"{', '.join(missing)}: {words.UNKNOWN}", at))
    above = _label_rows([(text, x / scale) for text, x in labels])
    for (text, x), (row, centre) in _highest_first(labels, above):
        figure.add_annotation(
            x=x,
            y=1.0,
            yref="y domain",
            ax=(centre - x / scale) * WIDE,
            ay=-16 - 20 * row,
            text=text,
            showarrow=True,
            arrowhead=0,
            arrowwidth=1,
            arrowcolor="#7b8794",
            bgcolor="white",
            font={"size": 13, "color": INK},
        )
    if target is not None:
        figure.add_vline(x=target, line={"color": INK, "width": 2, "dash": "dash"})
        figure.add_annotation(
            x=target,
            y=0,
            yref="y domain",
            yshift=-1,
            xanchor="right" if target > scale / 2 else "left",
            yanchor="bottom",
            text=f" objective {words.seconds(target)} ",
            showarrow=False,
            bgcolor="rgba(255,255,255,0.88)",
            font={"size": 13, "color": INK},
        )
    deep = max(row for row, _ in above)
    figure.update_layout(barmode="overlay", height=190 + 20 * deep, margin={"t": 72 + 20 * deep, "l": 16})
    figure.update_xaxes(range=[0, scale], title="seconds since the fault", ticksuffix=" s")
    figure.update_yaxes(visible=False)
    return figure


def traffic_figure(card: Scorecard) -> go.Figure:
    """Records produced, mirrored and consumed by each group, as totals over UTC time, with the drill's marks."""
    if not card.samples:
        return empty("Traffic", "No traffic was sampled during this drill.")
    times = [iso(sample.at_ms) for sample in card.samples]
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
        figure.add_annotation(
            x=1,
            xref="x domain",
            xanchor="left",
            xshift=8,
            y=place,
            text=f'<span style="color:{colour}">■</span> {_plain(name)} <b>{end:,}</b>',
            showarrow=False,
            font={"size": 13, "color": INK},
        )
    first, last = card.samples[0].at_ms, card.samples[-1].at_ms
    first, last = min([first, *(m.at_ms for m in card.marks)]), max([last, *(m.at_ms for m in card.marks)])
    reach = max(last - first, 1)
    above = _label_rows([(mark.name, (mark.at_ms - first) / reach) for mark in card.marks])
    for mark, (row, centre) in _highest_first(card.marks, above):
        figure.add_shape(
            type="line",
            x0=iso(mark.at_ms),
            x1=iso(mark.at_ms),
            y0=0,
            y1=1,
            yref="y domain",
            line={"color": "#52606d", "width": 1, "dash": "dot"},
        )
        figure.add_annotation(
            x=iso(mark.at_ms),
            y=1,
            yref="y domain",
            ax=(centre - (mark.at_ms - first) / reach) * WIDE,
            ay=-14 - 19 * row,
            text=_plain(mark.name),
            hovertext=_plain(f"{words.moment(mark.at_ms)} {mark.detail}".strip()),
            showarrow=True,
            arrowhead=0,
            arrowwidth=1,
            arrowcolor="#7b8794",
            bgcolor="white",
            font={"size": 12, "color": INK},
        )
    deep = max((row for row, _ in above), default=0)
    right = 30 + int(CHARACTER * max(len(f"{name} {end:,}") for (name, *_), end in zip(lines, ends, strict=True)))
    figure.update_layout(
        height=420 + 19 * deep, margin={"t": 78 + 19 * deep, "r": min(right, 300)}, hovermode="x unified"
    )
    day = words.utc(first)
    figure.update_xaxes(
        title=f"time of day, UTC ({day:%Y-%m-%d})", range=[iso(first), iso(last)], tickformat="%H:%M:%S"
    )
    figure.update_yaxes(title="records since the start", range=[0, top], tickformat=",~s")
    return figure


def partitions_figure(card: Scorecard) -> go.Figure:
    """For each partition the source's end, and in it how far the mirror had come. Offsets."""
    if not card.partitions:
        return empty("Partitions", "No offsets of partitions were recorded.")
    shown = _worst(card.partitions)
    names = [_plain(f"{p.topic}-{p.partition}") for p in shown]
    rest = len(card.partitions) - len(shown)
    title = "How far each partition was mirrored" + (
        f" (the {len(shown)} furthest behind; {rest} more)" if rest else ""
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
        figure.add_annotation(
            x=max(partition.source_end or 0, partition.mirrored_to or 0),
            y=name,
            xanchor="left",
            xshift=6,
            text=_behind(partition),
            showarrow=False,
            font={"size": 12, "color": INK},
        )
    top = max(max(p.source_end or 0, p.mirrored_to or 0) for p in shown)
    figure.add_annotation(
        x=0,
        y=1,
        xref="x domain",
        yref="y domain",
        xanchor="left",
        yanchor="bottom",
        yshift=4,
        text=f'<span style="color:{BLUE}">■</span> mirrored to   '
        '<span style="color:#9aa5b1">■</span> source end (both offsets)',
        showarrow=False,
        font={"size": 13, "color": INK},
    )
    figure.update_layout(barmode="overlay", margin={"t": 66, "l": 24 + int(CHARACTER * max(map(len, names)))})
    figure.update_xaxes(title="offset", tickformat=",", range=[0, top * 1.22 or 1])
    figure.update_yaxes(
        autorange="reversed", type="category", showgrid=False, tickmode="array", tickvals=names, tickfont={"size": 12}
    )
    return figure


def _rto_title(card: Scorecard) -> str:
    total, target = card.rto_seconds.total, card.objectives.rto_seconds
    title = f"Recovery time: {words.seconds(total)}"
    if target is None or total is None:
        return title
    margin = target - total
    return f"{title}, {words.seconds(abs(margin))} {'inside' if margin >= 0 else 'over'} the objective"


def _behind(partition: PartitionOffsets) -> str:
    if partition.source_end is None or partition.mirrored_to is None:
        end = "source end" if partition.source_end is None else "mirrored to"
        return f"{end}: {words.UNKNOWN}"
    if partition.unmirrored is None:
        return f"not mirrored: {words.UNKNOWN}"
    return f"{words.count(partition.unmirrored)} not mirrored" if partition.unmirrored else "all mirrored"


def _worst(partitions: Sequence[PartitionOffsets]) -> list[PartitionOffsets]:
    """At most `MOST_PARTITIONS`, unknown and furthest behind kept, in the order of their names."""
    behind = sorted(partitions, key=lambda p: (p.unmirrored is not None, -(p.unmirrored or 0)))
    return sorted(behind[:MOST_PARTITIONS], key=lambda p: (p.topic, p.partition))


def _label_rows(labels: Sequence[tuple[str, float]]) -> list[tuple[int, float]]:
    """For each (text, place from 0 to 1) a row and a centre, all in the plotting area and none over another."""
    placed = []
    for text, x in labels:
        half = (len(text) * CHARACTER + 14) / WIDE / 2
        centre = min(max(x, half), 1 - half) if half < 0.5 else 0.5
        placed.append((centre - half, centre + half))
    return [(row, (a + b) / 2) for row, (a, b) in zip(rows(placed), placed, strict=True)]


def _highest_first(labelled: Sequence[T], places: Sequence[tuple[int, float]]) -> list[tuple[T, tuple[int, float]]]:
    """What is drawn later covers: a lower label stands before the line that leads to a higher one."""
    return sorted(zip(labelled, places, strict=True), key=lambda pair: -pair[1][0])


def blank(title: str, *, height: int) -> go.Figure:
    """A picture with nothing in it yet; `height` 0 is whatever its place gives it."""
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
    """A picture that says why there is nothing to see."""
    figure = blank(title, height=150)
    figure.add_annotation(
        x=0.5, y=0.5, xref="paper", yref="paper", text=why, showarrow=False, font={"size": 14, "color": "#52606d"}
    )
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    return figure


def iso(at_ms: int) -> str:
    """Plotly draws a time without a zone as it stands: this is UTC."""
    return f"{words.utc(at_ms):%Y-%m-%d %H:%M:%S}.{at_ms % 1000:03d}"


def _plain(text: str) -> str:
    """`text` shown as it is: plotly reads a little HTML in labels."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
