"""An incident, shown: what a player may see, the master's view, the score, and the reveal as a picture of who did
what when.

Rules: as in `figures`: labels instead of a legend, times in UTC or in seconds that say from when, no meaning by
colour alone (a shape says right or wrong as well). What is not known is said. A player's view names no cause. Not
for: measuring or judging (`drlib.training.incidents.rules`).
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Final

import plotly.graph_objects as go

from drlib.training.incidents.rules.causes import CAUSES, Planted
from drlib.training.incidents.rules.moves import KINDS
from drlib.training.incidents.rules.reveal import Lane, Moment, Reveal
from drlib.training.incidents.rules.symptoms import Look, Symptom
from drlib.ui import layout, words
from drlib.ui.display import Shown
from drlib.ui.figures import figures

_ROWS: Final[Mapping[Lane, tuple[str, str]]] = {
    Lane.CAUSE: ("What happened", figures.VERMILLION),
    Lane.SYMPTOM: ("What could be seen", figures.ORANGE),
    Lane.OPERATOR: ("What was done", figures.BLUE),
    Lane.OUTCOME: ("How it stood", figures.GREEN),
}
_LEVEL: Final = 22.0  # pixels of one row of labels
_WIDE: Final = 640.0  # pixels of the plotting area that labels are laid out for
_LONGEST: Final[Mapping[Lane, int]] = {Lane.CAUSE: 100, Lane.SYMPTOM: 70}  # characters of a label
_LONG: Final = 56
_PAGE: Final = 100  # characters of a line that a notebook shows unbroken


def status_shown(look: Look, seen: Sequence[Symptom], properties: str) -> Shown:
    """What an operator may see: symptoms, then topics, groups and applications."""
    rows = [_row("symptom", one.value) for one in seen]
    for topic in look.topics:
        here, mirror, standby = topic.partitions
        left = f"{words.count(topic.end)} in {words.count(here)} partitions"
        right = f"mirror {words.count(mirror)} partitions"
        right += "" if standby is None else f", standby {words.count(standby)} with {words.count(topic.local)}"
        state = f"{words.count(topic.lag)} behind"
        state += "" if topic.newest_ms is None else f", newest {(look.at_ms - topic.newest_ms) / 1000:,.0f} s old"
        rows.append(_row("topic", topic.topic, left, right, state))
    for group in look.groups:
        rows.append(_row("positions", group.group, words.count(group.left), words.count(group.right)))
    for one in look.applications:
        done = f"{one.done:,} done"
        at = (done, "") if one.site == "LEFT" else ("", done) if one.site == "RIGHT" else ("", "")
        rows.append(_row("application", one.name, *at, one.phase))
    rows.append(_row("mirror", "LEFT->RIGHT", state="runs" if look.mirror_runs else "does not run"))
    title = f"{len(seen)} symptom{'s' if len(seen) > 1 else ''}" if seen else "All is well"
    return Shown(f"{title}, {words.moment(look.at_ms)}", rows, note=f"More: drlib status {properties}")


def _row(what: str, which: str, left: str = "", right: str = "", state: str = "") -> dict[str, object]:
    return {"what": what, "which": which, "on LEFT": left, "on RIGHT": right, "state": state}


def catalogue_shown(note: str = "") -> Shown:
    """Every move there is, and every name a diagnosis can have."""
    rows: list[dict[str, object]] = [
        {"kind": "move", "name": " ".join((name, *kind.takes)), "what": kind.does} for name, kind in KINDS.items()
    ]
    rows += [{"kind": "diagnosis", "name": one.name, "what": one.title} for one in CAUSES.values()]
    return Shown("What can be done, and what it can be", rows, note=note)


def master_shown(planted: Sequence[Planted], standing: Sequence[str], moments: Sequence[Moment]) -> Shown:
    """For the game master alone: what is in, what still speaks against its end, and the player's last moves."""
    rows: list[dict[str, object]] = []
    for one in planted:
        rows.append({"what": "cause", "which": one.cause, "state": one.said(one.kind.story)})
        rows.append({"what": "repair", "which": one.cause, "state": ", ".join(str(move) for move in one.repair)})
    rows += [{"what": "not over", "which": "", "state": text} for text in standing]
    rows += [{"what": f"{m.at_s:.0f} s", "which": m.lane.value, "state": m.text} for m in moments[-8:]]
    return Shown("The master's view", rows, note="Not for players.")


def score_shown(reveal: Reveal) -> Shown:
    """Points by part, with why."""
    rows = [{"part": p.name, "points": p.points, "of": p.of or "", "why": p.why} for p in reveal.score.parts]
    return Shown(f"{reveal.score.points:g} of 100 points: {reveal.title}", rows)


def reveal_shown(reveal: Reveal, began_ms: int) -> Shown:
    """The whole story with its picture, and what a good operator would have done."""
    rows: list[dict[str, object]] = [
        {
            "second": round(moment.at_s, 1),
            "part": _ROWS[moment.lane][0],
            "what": moment.text,
            "right": "" if moment.good is None else moment.good,
        }
        for moment in reveal.moments
    ]
    note = "A good operator: " + " ".join(reveal.reference)
    return Shown(f"The reveal: {reveal.title}", rows, incident_figure(reveal, began_ms), note)


def incident_figure(reveal: Reveal, began_ms: int) -> go.Figure:
    """Causes, symptoms, moves and how it stood, each in a lane, over UTC time; a cross is what was wrong. Labels do
    not overlap."""
    title = f"{reveal.title}: {reveal.score.points:g} of 100 points"
    if not reveal.moments:
        return figures.empty(title, "Nothing was written down.")
    first, last = reveal.moments[0].at_s, reveal.moments[-1].at_s
    reach = max(last - first, 1.0)
    figure = figures.blank(title, height=0)
    top = 0.0
    ticks: list[tuple[float, str]] = []
    for lane in reversed(Lane):
        mine = [moment for moment in reveal.moments if moment.lane is lane]
        name, colour = _ROWS[lane]
        texts = [_short(moment.text, _LONGEST.get(lane, _LONG)) for moment in mine]
        places = [(moment.at_s - first) / reach for moment in mine]
        spans = [_span(text, place) for text, place in zip(texts, places, strict=True)]
        levels = layout.rows(spans)
        ticks.append((top, name))
        for moment, text, level, place in zip(mine, texts, levels, places, strict=True):
            right = place > _half(text)
            at = figures.iso(began_ms + round(moment.at_s * 1000))
            stem = {"color": "#9aa5b1", "width": 1}
            figure.add_shape(type="line", x0=at, x1=at, y0=top, y1=top + 0.7 + level, line=stem, layer="below")
            figure.add_annotation(
                x=at,
                y=top + 0.9 + level,
                text=text.replace("<", "&lt;"),
                showarrow=False,
                xanchor="right" if right else "left",
                font={"size": 12, "color": figures.INK},
            )
        figure.add_scatter(
            x=[figures.iso(began_ms + round(moment.at_s * 1000)) for moment in mine],
            y=[top] * len(mine),
            mode="markers",
            marker={"symbol": [_symbol(moment) for moment in mine], "size": 12, "color": colour},
            customdata=[[moment.text, round(moment.at_s, 1)] for moment in mine],
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
    figure.update_xaxes(title=f"time, UTC ({words.utc(began_ms):%Y-%m-%d}); a cross is a wrong move, diagnosis or hint")
    figure.update_xaxes(title_font_size=13, tickformat="%H:%M:%S")  # the day is in the title
    return figure


def reference_shown(reveal: Reveal) -> Shown:
    """What a good operator would have done, a row for each cause in its turn."""
    rows = [
        {"cause": one.cause, "what a good operator does": said, "moves": ", ".join(str(move) for move in one.repair)}
        for one, said in reveal.good
    ]
    return Shown("What a good operator would have done", rows)


def replay_line(moment: Moment) -> str:
    """One line of a replay; what is too long for a page goes on below itself."""
    mark = {True: "+", False: "x", None: " "}[moment.good]
    head = f"{moment.at_s:7.1f} s  {mark}  {_ROWS[moment.lane][0]:<18}  "
    return textwrap.fill(head + moment.text, _PAGE, subsequent_indent=" " * len(head), break_long_words=False)


def _symbol(moment: Moment) -> str:
    return "x" if moment.good is False else "circle" if moment.good is None else "diamond"


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _half(text: str) -> float:
    return len(text) * figures.CHARACTER / _WIDE


def _span(text: str, place: float) -> tuple[float, float]:
    """From where to where a label reaches, as a share of the picture's width: to the left of its place where there is
    room."""
    wide = _half(text)
    return (place - wide - 0.01, place + 0.01) if place > wide else (place - 0.01, place + wide + 0.01)
