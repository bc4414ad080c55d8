"""The figure of the reveal, and its animated form: faults, symptoms, moves and states over time, each with its whole text.

Rules: as in `drlib.ui.figures.figures`. Every row has its text over its line at the left edge, wrapped to 300 pixels, so that
nothing is cut and no label can cover another at any width from 420 pixels on. No meaning by colour alone: right, wrong and
hints differ in symbol. The animation adds a line for the moment, a button and a slider; pages that show it (`drlib.ui.report`)
put controls in their place that work by keyboard, and that move nothing by themselves where less motion is wanted.
Not for: what happened (`drlib.training.incidents.rules.reveal`).
"""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import plotly.graph_objects as go

from drlib import formats
from drlib.training.incidents.rules.avoided_loss import thinned
from drlib.training.incidents.rules.reveal import GONE, Reveal, TimelineEntry, Track, replay_schedule
from drlib.ui.figures import figures

_COLOURS: Final[Mapping[Track, str]] = {
    Track.CAUSE: figures.VERMILLION,
    Track.SYMPTOM: figures.ORANGE,
    Track.MOVE: figures.BLUE,
    Track.OUTCOME: figures.GREEN,
}
_SYMBOLS: Final = {"right": "diamond", "wrong": "x", "hint": "triangle-up"}
_LINE: Final = 44  # characters of a label's line: 300 pixels
_ABOVE: Final = 49  # pixels of the title
_UNIT: Final = 19.0  # pixels of one line of labels
_CONTROLS: Final = 150  # pixels below the axis
_MOST_FRAMES: Final = 150
_MOST_MARKS: Final = 6_000  # of all frames together
_SHORTEST_MS, _LONGEST_MS = 150.0, 2_000.0  # how long a frame is shown


@dataclass(frozen=True, slots=True)
class _Row:
    """`entries`: of a symptom each appearance and end, else one. `label`: lines of its text. `at`: height in lines."""

    entries: tuple[TimelineEntry, ...]
    label: tuple[str, ...]
    at: float


def reveal_figure(reveal: Reveal, started_ms: int) -> go.Figure:
    """The whole incident over UTC time."""
    if not reveal.entries:
        return figures.empty(_title(reveal), "No events were recorded.")
    rows = _rows(reveal.entries)
    first_s, last_s = reveal.entries[0].at_s, reveal.entries[-1].at_s
    figure = _blank(reveal, rows, started_ms, first_s, last_s)
    figure.add_traces(_traces(rows, started_ms, last_s))
    return figure


def replay_figure(reveal: Reveal, started_ms: int, speed: float = 10.0) -> go.Figure:
    """The same with a frame for each moment at which something happened, to be played `speed` times as fast.

    What happened then is in `layout.meta`, for the controls of a page. Raises `UsageError` for a speed that is not positive.
    """
    schedule = replay_schedule(reveal.entries, speed)
    figure = reveal_figure(reveal, started_ms)
    if not schedule:
        return figure
    rows = _rows(reveal.entries)
    top = max(row.at + len(row.label) for row in rows) + 1.5
    moments = _moments([entry for _, entry in schedule])
    figure.add_trace(_now(moments[-1], started_ms, top))
    figure.frames = [
        go.Frame(
            name=f"{at_s - moments[0]:.1f} s",
            data=[*_traces(rows, started_ms, at_s), _now(at_s, started_ms, top)],
            traces=list(range(len(Track) + 2)),
        )
        for at_s in moments
    ]
    _add_controls(figure, moments, speed)
    texts = [
        "; ".join(f"{entry.track}: {entry.text}" for entry in reveal.entries if entry.at_s == at_s) for at_s in moments
    ]
    happened = [
        {"after_s": round(at_s - moments[0], 1), "text": text} for at_s, text in zip(moments, texts, strict=True)
    ]
    figure.update_layout(meta={"replay": happened, "speed": speed, "controls": _CONTROLS})
    return figure


def _rows(entries: Sequence[TimelineEntry]) -> tuple[_Row, ...]:
    """Faults at the top, then symptoms, moves, states, each in the order of time; one row for all times of a symptom."""
    grouped: dict[tuple[Track, object], list[TimelineEntry]] = {}
    for number, entry in enumerate(entries):
        key = entry.text.removeprefix(GONE) if entry.track is Track.SYMPTOM else number
        grouped.setdefault((entry.track, key), []).append(entry)
    rows: list[_Row] = []
    bottom = 0.0
    for track in reversed(Track):
        for (of, _), mine in reversed(grouped.items()):
            if of is track:
                rows.append(_Row(tuple(mine), _label(mine, entries[0].at_s), bottom))
                bottom += 1.1 + len(rows[-1].label)
        bottom += 0.4
    return tuple(rows)


def _label(entries: Sequence[TimelineEntry], first_s: float) -> tuple[str, ...]:
    first = entries[0]
    text = f"{first.at_s - first_s:.0f} s {first.track}: {first.text.removeprefix(GONE)}"
    return tuple(textwrap.wrap(formats.one_line(text), _LINE))


def _blank(reveal: Reveal, rows: Sequence[_Row], started_ms: int, first_s: float, last_s: float) -> go.Figure:
    """Labels and axes, without what is drawn over time."""
    figure = figures.blank(_title(reveal), height=0)
    top = max(row.at + len(row.label) for row in rows) + 1.5
    figure.update_layout(
        annotations=[_annotation(row) for row in rows]
    )  # at once: adding one by one takes squared time
    figure.update_layout(height=int(_ABOVE + 96 + _UNIT * top), margin={"l": 30, "r": 30, "t": _ABOVE, "b": 96})
    figure.update_yaxes(visible=False, range=[-0.8, top])
    ends = [_iso(started_ms, at_s) for at_s in (first_s, max(last_s, first_s + 1))]
    figure.update_xaxes(range=ends, tickformat="%H:%M:%S", nticks=4)
    figure.update_xaxes(
        title=f"time, UTC ({formats.utc(started_ms):%Y-%m-%d})<br>moves: ◆ right, ✖ wrong,<br>▲ a hint, ● not judged"
    )
    figure.update_xaxes(title_font_size=13)
    return figure


def _annotation(row: _Row) -> dict[str, object]:
    return {
        "text": "<br>".join(line.replace("<", "&lt;") for line in row.label),
        "x": 0,
        "xref": "x domain",
        "xanchor": "left",
        "y": row.at + 0.4,
        "yanchor": "bottom",
        "align": "left",
        "showarrow": False,
        "font": {"size": 12, "color": figures.INK},
    }


def _title(reveal: Reveal) -> str:
    """One line that fits 300 pixels; what it was is in the title of the table or the page."""
    return f"The incident: {reveal.score.points:g} of 100 points"


def _traces(rows: Sequence[_Row], started_ms: int, until_s: float) -> list[go.Scatter]:
    """Lines of symptoms, then the marks of each track, up to `until_s`."""
    x: list[str | None] = []
    y: list[float | None] = []
    for row in rows:
        for from_s, to_s in _periods(row, until_s):
            x += [_iso(started_ms, from_s), _iso(started_ms, to_s), None]
            y += [row.at, row.at, None]
    line = {"color": figures.ORANGE, "width": 7}
    lines = go.Scatter(x=x, y=y, mode="lines", line=line, cliponaxis=False, hoverinfo="skip")
    return [lines, *(_marks(rows, track, started_ms, until_s) for track in Track)]


def _marks(rows: Sequence[_Row], track: Track, started_ms: int, until_s: float) -> go.Scatter:
    marked = [
        (row.at, entry) for row in rows for entry in row.entries if entry.track is track and entry.at_s <= until_s
    ]
    return go.Scatter(
        x=[_iso(started_ms, entry.at_s) for _, entry in marked],
        y=[at for at, _ in marked],
        mode="markers",
        marker={
            "symbol": [_symbol(entry) for _, entry in marked],
            "size": 12,
            "color": _COLOURS[track],
            "line": {"width": 1, "color": "white"},
        },
        customdata=[
            ["<br>".join(textwrap.wrap(entry.text, _LINE)), entry.state or "not judged"] for _, entry in marked
        ],
        hovertemplate="%{customdata[0]}<br>%{customdata[1]}, %{x} UTC<extra></extra>",
        cliponaxis=False,
    )


def _symbol(entry: TimelineEntry) -> str:
    if entry.track is Track.SYMPTOM:
        return "line-ns-open" if entry.text.startswith(GONE) else "square"
    return _SYMBOLS.get(entry.state, "circle")


def _periods(row: _Row, until_s: float) -> list[tuple[float, float]]:
    """When the symptom of a row was there, up to `until_s`."""
    periods: list[tuple[float, float]] = []
    since: float | None = None
    for entry in row.entries:
        if entry.track is not Track.SYMPTOM or entry.at_s > until_s:
            continue
        if not entry.text.startswith(GONE):
            since = entry.at_s if since is None else since
        elif since is not None:
            periods.append((since, entry.at_s))
            since = None
    return periods if since is None else [*periods, (since, until_s)]


def _now(at_s: float, started_ms: int, top: float) -> go.Scatter:
    """A line at the moment of a frame."""
    line = {"color": figures.INK, "width": 1, "dash": "dot"}
    return go.Scatter(x=[_iso(started_ms, at_s)] * 2, y=[-0.8, top], mode="lines", line=line, hoverinfo="skip")


def _moments(entries: Sequence[TimelineEntry]) -> list[float]:
    """When something happened, thinned out to a bounded number with the last one kept."""
    most = min(_MOST_FRAMES, max(20, _MOST_MARKS // len(entries)))
    return list(thinned(sorted({entry.at_s for entry in entries}), most))


def _add_controls(figure: go.Figure, moments: Sequence[float], speed: float) -> None:
    """A button that plays, one that stops, and a slider, below the axis. Plotly shows every frame for the same time."""
    waits = [later - earlier for earlier, later in pairwise(moments)]
    mean_ms = 1000 * sum(waits) / max(len(waits), 1) / speed
    shown_ms = min(max(mean_ms, _SHORTEST_MS), _LONGEST_MS)
    still = {"mode": "immediate", "transition": {"duration": 0}, "frame": {"duration": 0, "redraw": False}}
    played = {**still, "fromcurrent": False, "frame": {"duration": shown_ms, "redraw": False}}
    bottom = 96 + _CONTROLS
    figure.update_layout(height=figure.layout.height + _CONTROLS, margin={"b": bottom})
    figure.update_layout(
        updatemenus=[
            {
                "type": "buttons",
                "direction": "right",
                "showactive": False,
                "bgcolor": "white",
                "bordercolor": figures.SOFT,
                "buttons": [
                    {"label": "Play", "method": "animate", "args": [None, played]},
                    {"label": "Stop", "method": "animate", "args": [[None], still]},
                ],
                "pad": {"t": 92},
                "x": 0,
                "xanchor": "left",
                "y": 0,
                "yanchor": "top",
            }
        ],
        sliders=[
            {
                "active": len(moments) - 1,
                "len": 1.0,
                "pad": {"t": 134},
                "x": 0,
                "xanchor": "left",
                "y": 0,
                "yanchor": "top",
                "currentvalue": {"prefix": "after ", "font": {"size": 13}},
                "font": {"size": 12},
                "transition": {"duration": 0},
                "steps": [
                    {"label": frame.name, "method": "animate", "args": [[frame.name], still]} for frame in figure.frames
                ],
            }
        ],
    )


def _iso(started_ms: int, at_s: float) -> str:
    return formats.iso(started_ms + round(at_s * 1000))
