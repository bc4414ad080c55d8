"""Tables and the figure of a team: its seats, and the debriefing.

Rules: as in `drlib.training.incidents.pictures`. A time that was not recorded is said, never drawn as 0; how an action is rated
stands in words.
"""

import textwrap
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from drlib import formats
from drlib.runs.table import Table
from drlib.training.incidents.rules.score import MoveRating
from drlib.training.incidents.team.debriefing import Action, Estimates, with_ratings
from drlib.training.incidents.team.seats import RIGHTS, Access
from drlib.ui.figures import figures

_LINE = 44  # characters of a line of a label over its bars: 300 pixels


def seats_shown(seats: Mapping[str, Access], note: str = "") -> Table:
    """Each seat with what it may do."""
    rows = [
        {"seat": name, "role": access.value, "may": "; ".join(sorted(RIGHTS[access])) or "look"}
        for name, access in seats.items()
    ]
    return Table("Seats", rows, note=note)


def debriefing_shown(actions: Sequence[Action], estimates: Sequence[Estimates], ratings: Sequence[MoveRating]) -> Table:
    """Every action of a finished incident with its estimate and its time. `ratings`: of those with an outcome, in order."""
    if not actions:
        return Table("Debriefing", [], note="No action was made from a seat, so that there is nothing to compare.")
    rows: list[dict[str, object]] = [
        {
            "second": round(action.at_s, 1),
            "seat": action.seat,
            "action": action.move,
            "estimated": formats.seconds(action.estimate_s),
            "took": formats.seconds(action.took_s),
            "outcome": action.outcome,
            "rating": rating,
            "symptom that was gone next": f"{action.gone}, after {formats.seconds(action.gone_s)}"
            if action.gone
            else "none",
        }
        for action, rating in with_ratings(actions, ratings)
    ]
    note = "; ".join(estimate_words(one) for one in estimates)
    return Table(
        "Debriefing: what each action was estimated to take, and took", rows, note, figure=debriefing_figure(actions)
    )


def estimate_words(one: Estimates) -> str:
    """How good a seat's estimates were, in a sentence."""
    if one.ratio is None:
        return f"{one.seat}: no action has both times"
    return f"{one.seat}: {one.within} of {one.actions} within the estimate, median {one.ratio:.1f} times the estimate"


def debriefing_figure(actions: Sequence[Action]) -> go.Figure:
    """Two bars for each action, the estimate above the time it took, with their times; oldest first."""
    figure = figures.blank("Estimated and taken, in seconds", height=0)
    labels = [textwrap.wrap(f"{number}. {one.seat}: {one.move}", _LINE) for number, one in enumerate(actions, 1)]
    most = max((len(lines) for lines in labels), default=1)
    step = 2.2 + 0.8 * most
    top = max((t for a in actions for t in (a.estimate_s, a.took_s) if t is not None), default=1.0) or 1.0
    for number, action in enumerate(actions):
        y = -step * number
        text = "<br>".join(line.replace("<", "&lt;") for line in labels[number])
        place = {"xref": "x domain", "xanchor": "left", "yanchor": "bottom", "align": "left"}
        figures.label(figure, text, 0, y + 0.5, size=12, **place)
        for offset, what, value, colour in (
            (0.0, "estimated", action.estimate_s, "#9aa5b1"),
            (-0.9, "took", action.took_s, figures.BLUE),
        ):
            figure.add_bar(
                x=[value or 0.0],
                y=[y + offset],
                orientation="h",
                width=0.7,
                marker={"color": colour},
                hovertemplate="%{x:.1f} s<extra></extra>",
            )
            figures.label(
                figure, f"{what} {formats.seconds(value)}", value or 0.0, y + offset, size=12, xanchor="left", xshift=4
            )
    figure.update_layout(
        height=int(110 + 24 * step * len(actions)), margin={"l": 12, "r": 16, "t": 44}, barmode="overlay"
    )
    figure.update_yaxes(visible=False, range=[-step * len(actions) + step - 1.8, 1.0 + 0.8 * most])
    figure.update_xaxes(range=[0, top * 1.6], title="seconds")
    figure.update_xaxes(title_font_size=13)
    return figure
