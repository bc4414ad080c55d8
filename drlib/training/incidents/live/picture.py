"""The live view's picture: one state as text, as HTML and as a figure, the same in a notebook, a report and a terminal.

Rules: as in `drlib.ui.console.picture`: everything is escaped, a mark and a word before a colour, times are UTC, unknown is
said. In the figure labels stand over their lines at its left edge, and moves have the numbers of the table, so that it is read
at any width from 320 pixels on.
Not for: what is known (`state`), the form (`form`).
"""

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

import plotly.graph_objects as go

from drlib import formats
from drlib.formats import html_text
from drlib.runs.table import bundle
from drlib.training.incidents.live.state import Kind, LiveState, Made, Period
from drlib.ui import layout
from drlib.ui.console.show.style import BAD, FOCUS, GOOD, ODD, STYLE, chip, table
from drlib.ui.figures import figures

MADE: Final = 12  # of the newest moves in the table
_SYMBOLS: Final = {
    Kind.MOVE: "diamond",
    Kind.FAILED: "x",
    Kind.DIAGNOSIS: "square",
    Kind.HINT: "triangle-up",
    Kind.UNDER_WAY: "circle-open",
}
_LINE: Final = 44  # characters of a label's line: 300 pixels
_NARROW: Final = 260.0  # pixels of the plotting area for which the numbers of moves are placed
_UNIT: Final = 19.0  # pixels of one line of labels


class LivePicture:
    """One state, shown anywhere."""

    def __init__(self, state: LiveState) -> None:
        self.state = state

    def __repr__(self) -> str:
        return text_of(self.state)

    def _repr_mimebundle_(
        self, include: Sequence[str] | None = None, exclude: Sequence[str] | None = None
    ) -> dict[str, object]:
        page = f"{clock_html(self.state)}{moves_html(self.state)}"
        return bundle(text_of(self.state), page, figure_of(self.state), include, exclude)


def headline(state: LiveState) -> str:
    """ "2 symptoms", "No symptoms", or that they are unknown."""
    if state.finished:
        return "The incident is finished: the reveal is in the cells below"
    if not state.known:
        return "Symptoms unknown"
    count = len(state.present)
    return f"{count or 'No'} symptom{'' if count == 1 else 's'}"


def clock_words(state: LiveState) -> tuple[str, ...]:
    """Times since the start and since the first symptom."""
    words = [f"{formats.duration((state.now_ms - state.started_ms) / 1000)} since the start"]
    if not state.finished and not state.known:
        since = "was never observed" if state.seen_ms is None else f"not observed since {_second(state.seen_ms)}"
        words.append(f"the lab {since}")
    if state.periods:
        first_ms = min(period.from_ms for period in state.periods)
        words.append(f"first symptom {formats.duration((state.now_ms - first_ms) / 1000)} ago")
        words.append(_acknowledged(state, first_ms))
    return tuple(words)


def _acknowledged(state: LiveState, first_ms: int) -> str:
    if state.acknowledged_ms is None:
        return "not acknowledged"
    if state.acknowledged_ms < first_ms:
        return "acknowledged before the first symptom"
    return f"acknowledged {formats.duration((state.acknowledged_ms - first_ms) / 1000)} after it"


def text_of(state: LiveState) -> str:
    """The whole state in lines."""
    lines = [f"{headline(state)}, {_second(state.now_ms)} UTC: {', '.join(clock_words(state))}"]
    lines += [f"seats: {'; '.join(state.seats)}"] if state.seats else []
    lines += [f"symptom {period.symptom}: {_when(state, period)}" for period in state.periods]
    lines += [
        f"{number} {_second(one.at_ms)} {_text(one)}: {_outcome(one)}" for number, one in enumerate(state.made, 1)
    ]
    return "\n".join(formats.one_line(line) for line in lines)


# -- HTML --------------------------------------------------------------------------------------------------------------


def clock_html(state: LiveState) -> str:
    """The headline, the clock and the symptoms that are present, without scripts."""
    parts = [
        STYLE,
        FOCUS,
        '<div class="drlib-console" role="region" aria-label="Incident">',
        '<div class="row">',
        _chip(state),
        f'<b>{html_text(headline(state))}</b><span class="dim">{html_text(_second(state.now_ms))} UTC</span></div>',
        f"<p>{html_text('; '.join(clock_words(state)))}</p>",
        *(_present(state)),
        *([f'<p class="dim">Seats: {html_text("; ".join(state.seats))}</p>'] if state.seats else []),
        "</div>",
    ]
    return "".join(parts)


def _chip(state: LiveState) -> str:
    if state.finished:
        return chip("■", "finished", ODD)
    if not state.known:
        return chip("?", "unknown", ODD)
    return chip("▲", "something is wrong", BAD) if state.present else chip("✓", "nothing is seen", GOOD)


def _present(state: LiveState) -> Iterator[str]:
    for period in state.periods:
        if period.until_ms is None and not state.finished:
            yield f'<p>{html_text(period.symptom)} <span class="dim">{html_text(_when(state, period))}</span></p>'


def moves_html(state: LiveState) -> str:
    """What was done, newest first, with the numbers of the figure."""
    numbered = list(enumerate(state.made, 1))[::-1]
    rows = [(str(number), _second(one.at_ms), _text(one), _outcome(one)) for number, one in numbered]
    parts = [
        '<div class="drlib-console" role="region" aria-label="Moves">',
        table("Moves, newest first", ("#no.", "UTC", "move", "outcome"), rows, "none yet", most=MADE, wide=True),
        "</div>",
    ]
    return "".join(parts)


def _text(one: Made) -> str:
    return f"{one.seat}: {one.text}" if one.seat else one.text


def _outcome(one: Made) -> str:
    said = textwrap.shorten(formats.one_line(one.outcome), 120, placeholder=" …")
    return f"failed: {said}" if one.kind is Kind.FAILED else said


def _when(state: LiveState, period: Period) -> str:
    took = formats.duration((state.end_ms(period) - period.from_ms) / 1000)
    if period.until_ms is not None:
        return f"gone after {took}"
    return f"{'for' if state.known else 'at least'} {took}"


def _second(at_ms: int) -> str:
    return formats.clock(at_ms)[:8]


# -- plotly ------------------------------------------------------------------------------------------------------------


def figure_of(state: LiveState) -> go.Figure:
    """Each symptom a row with a line while it was present, and the numbered moves below, over UTC time."""
    if not state.periods and not state.made:
        return figures.empty(headline(state), "No symptom was seen, and no move was made.")
    start, end = state.started_ms, max(state.now_ms, state.started_ms + 1000)
    figure = figures.blank("Symptoms and moves", height=0)
    top = _draw_moves(figure, state, start, end - start)
    for symptom in reversed(tuple(dict.fromkeys(period.symptom for period in state.periods))):
        top = _draw_symptom(figure, state, symptom, start, top)
    figure.update_layout(height=int(112 + _UNIT * top), margin={"l": 12, "r": 16, "t": 44})
    figure.update_yaxes(visible=False, range=[-0.8, top])
    figure.update_xaxes(range=[formats.iso(start), formats.iso(end)], tickformat="%H:%M:%S", nticks=4)
    figure.update_xaxes(title=f"time, UTC ({formats.utc(start):%Y-%m-%d})")
    figure.update_xaxes(title_font_size=13)
    return figure


def _draw_moves(figure: go.Figure, state: LiveState, start: int, reach: int) -> float:
    """Returns the height that they take, in lines."""
    if not state.made:
        return 0.5
    half = 11 / _NARROW
    places = [(one.at_ms - start) / reach for one in state.made]
    levels = layout.rows([(place - half, place + half) for place in places])
    figure.add_scatter(
        x=[formats.iso(one.at_ms) for one in state.made],
        y=[0.0] * len(state.made),
        mode="markers",
        marker={"symbol": [_SYMBOLS[one.kind] for one in state.made], "size": 11, "color": figures.BLUE},
        customdata=[[number, one.kind.value, formats.one_line(_text(one))] for number, one in enumerate(state.made, 1)],
        hovertemplate="%{customdata[0]}: %{customdata[1]}<br>%{customdata[2]}<br>%{x} UTC<extra></extra>",
        cliponaxis=False,
    )
    for number, (one, level) in enumerate(zip(state.made, levels, strict=True), 1):
        figures.label(figure, str(number), formats.iso(one.at_ms), 0.9 + level, size=12)
    return 2.0 + max(levels)


def _draw_symptom(figure: go.Figure, state: LiveState, symptom: str, start: int, bottom: float) -> float:
    """A line for each period, its name over them, with whether it is present. Returns where the next row begins, in lines."""
    periods = [period for period in state.periods if period.symptom == symptom]
    now = "gone" if periods[-1].until_ms is not None else "present" if state.known else formats.UNKNOWN
    lines = textwrap.wrap(formats.one_line(f"{symptom} ({now})"), _LINE)
    for period in periods:
        figure.add_scatter(
            x=[formats.iso(period.from_ms), formats.iso(state.end_ms(period))],
            y=[bottom + 0.3] * 2,
            mode="lines+markers",
            line={"color": figures.ORANGE, "width": 7},
            marker={
                "symbol": ["line-ns-open", "line-ns-open" if period.until_ms is not None else "triangle-right"],
                "size": 13,
                "color": figures.VERMILLION,
            },
            hovertemplate="%{x} UTC<extra></extra>",
            cliponaxis=False,
        )
    text = "<br>".join(line.replace("<", "&lt;") for line in lines)
    figures.label(
        figure, text, 0, bottom + 0.7, size=12, xref="x domain", xanchor="left", yanchor="bottom", align="left"
    )
    return bottom + 1.5 + len(lines)
