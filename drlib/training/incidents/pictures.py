"""Tables and figures of an incident: the player's status, the game master's view, the score, and the reveal's timeline.

Rules: as in `drlib.ui.figures.figures`: labels instead of a legend, times in UTC or in seconds from a stated start, no
meaning by colour alone (a marker's shape also says right or wrong). Unknown values are shown as unknown. A player's table
names no cause.
Not for: measuring or judging (`drlib.training.incidents.rules`).
"""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Final

import plotly.graph_objects as go

from drlib import formats
from drlib.runs.table import Table
from drlib.training.incidents.rules.causes import CAUSES, InjectedCause
from drlib.training.incidents.rules.moves import MOVES
from drlib.training.incidents.rules.reveal import Reveal, TimelineEntry, Track
from drlib.ui import layout
from drlib.ui.figures import figures

_ROWS: Final[Mapping[Track, tuple[str, str]]] = {
    Track.CAUSE: ("Faults", figures.VERMILLION),
    Track.SYMPTOM: ("Symptoms", figures.ORANGE),
    Track.OPERATOR: ("Moves", figures.BLUE),
    Track.OUTCOME: ("State", figures.GREEN),
}
_LEVEL: Final = 22.0  # pixels of one row of labels
_WIDE: Final = 640.0  # pixels of the plotting area for which labels are placed
_LONGEST: Final[Mapping[Track, int]] = {Track.CAUSE: 100, Track.SYMPTOM: 70}  # characters of a label
_LONG: Final = 56
_PAGE: Final = 100  # characters of a line that a notebook shows without wrapping


def catalogue_shown(note: str = "") -> Table:
    """Every move and every possible diagnosis."""
    rows: list[dict[str, object]] = [
        {"kind": "move", "name": " ".join((name, *move.parameters)), "what": move.description}
        for name, move in MOVES.items()
    ]
    rows += [{"kind": "diagnosis", "name": cause.name, "what": cause.title} for cause in CAUSES.values()]
    return Table("Moves and diagnoses", rows, note=note)


def master_shown(
    injected: Sequence[InjectedCause], unresolved: Sequence[str], entries: Sequence[TimelineEntry]
) -> Table:
    """For the game master: injected causes with their repairs, what still has to recover, and the last events."""
    rows: list[dict[str, object]] = []
    for cause in injected:
        rows.append({"what": "cause", "which": cause.cause, "state": cause.render(cause.definition.story)})
        rows.append({"what": "repair", "which": cause.cause, "state": ", ".join(str(move) for move in cause.repair)})
    rows += [{"what": "not recovered", "which": "", "state": text} for text in unresolved]
    rows += [{"what": f"{e.at_s:.0f} s", "which": e.track.value, "state": e.text} for e in entries[-8:]]
    return Table("The game master's view", rows, note="Not for players.")


def score_shown(reveal: Reveal) -> Table:
    """The points by part, with reasons."""
    rows = [{"part": p.name, "points": p.points, "of": p.of or "", "why": p.why} for p in reveal.score.parts]
    return Table(f"{reveal.score.points:g} of 100 points: {reveal.title}", rows)


def reveal_shown(reveal: Reveal, started_ms: int) -> Table:
    """All events with their timeline, and what a good operator would have done."""
    rows: list[dict[str, object]] = [
        {
            "second": round(entry.at_s, 1),
            "part": _ROWS[entry.track][0],
            "what": entry.text,
            "right": "" if entry.correct is None else entry.correct,
        }
        for entry in reveal.entries
    ]
    note = "A good operator: " + " ".join(reveal.reference)
    return Table(f"The reveal: {reveal.title}", rows, note, figure=incident_figure(reveal, started_ms))


def incident_figure(reveal: Reveal, started_ms: int) -> go.Figure:
    """Faults, symptoms, moves and state over UTC time, each in a row; a cross marks what was wrong. Labels do not overlap."""
    title = f"{reveal.title}: {reveal.score.points:g} of 100 points"
    if not reveal.entries:
        return figures.empty(title, "No events were recorded.")
    first, last = reveal.entries[0].at_s, reveal.entries[-1].at_s
    reach = max(last - first, 1.0)
    figure = figures.blank(title, height=0)
    top = 0.0
    ticks: list[tuple[float, str]] = []
    for track in reversed(Track):
        mine = [entry for entry in reveal.entries if entry.track is track]
        name, colour = _ROWS[track]
        texts = [_short(entry.text, _LONGEST.get(track, _LONG)) for entry in mine]
        places = [(entry.at_s - first) / reach for entry in mine]
        spans = [_span(text, place) for text, place in zip(texts, places, strict=True)]
        levels = layout.rows(spans)
        ticks.append((top, name))
        for entry, text, level, place in zip(mine, texts, levels, places, strict=True):
            right = place > _half(text)
            at = formats.iso(started_ms + round(entry.at_s * 1000))
            stem = {"color": "#9aa5b1", "width": 1}
            figure.add_shape(type="line", x0=at, x1=at, y0=top, y1=top + 0.7 + level, line=stem, layer="below")
            side = "right" if right else "left"
            figures.label(figure, text.replace("<", "&lt;"), at, top + 0.9 + level, size=12, xanchor=side)
        figure.add_scatter(
            x=[formats.iso(started_ms + round(entry.at_s * 1000)) for entry in mine],
            y=[top] * len(mine),
            mode="markers",
            marker={"symbol": [_symbol(entry) for entry in mine], "size": 12, "color": colour},
            customdata=[[entry.text, round(entry.at_s, 1)] for entry in mine],
            hovertemplate="%{customdata[0]}<br>%{x} UTC, %{customdata[1]} s<extra></extra>",
        )
        top += 1.9 + max(levels, default=0)
    figure.update_layout(height=int(130 + _LEVEL * top), margin={"l": 140, "r": 30})
    figure.update_yaxes(
        tickmode="array",
        tickvals=[at for at, _ in ticks],
        ticktext=[name for _, name in ticks],
        range=[-0.7, top - 0.5],
        showgrid=True,
    )
    figure.update_xaxes(
        title=f"time, UTC ({formats.utc(started_ms):%Y-%m-%d}); a cross is a wrong move, diagnosis or hint"
    )
    figure.update_xaxes(title_font_size=13, tickformat="%H:%M:%S")  # the day is in the title
    return figure


def reference_shown(reveal: Reveal) -> Table:
    """What a good operator would have done, one row for each cause, most urgent first."""
    rows = [
        {"cause": cause.cause, "what a good operator does": text, "moves": ", ".join(str(m) for m in cause.repair)}
        for cause, text in reveal.advice
    ]
    return Table("What a good operator would have done", rows)


def replay_line(entry: TimelineEntry) -> str:
    """One line of a replay; a long text continues on indented lines."""
    mark = {True: "+", False: "x", None: " "}[entry.correct]
    head = f"{entry.at_s:7.1f} s  {mark}  {_ROWS[entry.track][0]:<18}  "
    return textwrap.fill(head + entry.text, _PAGE, subsequent_indent=" " * len(head), break_long_words=False)


def _symbol(entry: TimelineEntry) -> str:
    return "x" if entry.correct is False else "circle" if entry.correct is None else "diamond"


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _half(text: str) -> float:
    return len(text) * figures.CHARACTER / _WIDE


def _span(text: str, place: float) -> tuple[float, float]:
    """Start and end of a label as a share of the figure's width; the label is left of its place if there is room."""
    wide = _half(text)
    return (place - wide - 0.01, place + 0.01) if place > wide else (place - 0.01, place + wide + 0.01)
