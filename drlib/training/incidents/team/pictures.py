"""Tables and the figure of a team: its seats, and the debriefing.

Rules: as in `drlib.training.incidents.pictures`. A time that was not recorded is said, never drawn as 0; how an action is rated
stands in words.
"""

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from drlib import formats
from drlib.runs.table import Table
from drlib.training.incidents.rules.score import MoveRating
from drlib.training.incidents.team.debriefing import UNRECORDED, Action, Estimates
from drlib.training.incidents.team.seats import RIGHTS, Access
from drlib.ui.figures import figures

_SHORT = 46  # characters of a label over its bars: 300 pixels


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
    rated = iter(ratings)
    rows: list[dict[str, object]] = [
        {
            "second": round(action.at_s, 1),
            "seat": action.seat,
            "action": action.move,
            "estimated": formats.seconds(action.estimate_s),
            "took": formats.seconds(action.took_s),
            "outcome": action.outcome,
            "rating": "" if action.outcome == UNRECORDED else next(rated, MoveRating.NEUTRAL).value,
            "symptom that was gone next": f"{action.gone}, after {formats.seconds(action.gone_s)}"
            if action.gone
            else "none",
        }
        for action in actions
    ]
    note = "; ".join(_words(one) for one in estimates)
    return Table(
        "Debriefing: what each action was estimated to take, and took", rows, note, figure=debriefing_figure(actions)
    )


def _words(one: Estimates) -> str:
    if one.ratio is None:
        return f"{one.seat}: no action has both times"
    return f"{one.seat}: {one.within} of {one.actions} within the estimate, median {one.ratio:.1f} times the estimate"


def debriefing_figure(actions: Sequence[Action]) -> go.Figure:
    """Two bars for each action, the estimate above the time it took, with their times; oldest first."""
    figure = figures.blank("Estimated and taken, in seconds", height=0)
    top = max((t for a in actions for t in (a.estimate_s, a.took_s) if t is not None), default=1.0) or 1.0
    for number, action in enumerate(actions):
        y = -3.0 * number
        text = f"{number + 1}. {action.seat}: {action.move}"
        text = text if len(text) <= _SHORT else text[: _SHORT - 1] + "…"
        place = {"xref": "x domain", "xanchor": "left", "yanchor": "bottom"}
        figures.label(figure, text.replace("<", "&lt;"), 0, y + 0.5, size=12, **place)
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
    figure.update_layout(height=int(110 + 24 * 3 * len(actions)), margin={"l": 12, "r": 16, "t": 44}, barmode="overlay")
    figure.update_yaxes(visible=False, range=[-3.0 * len(actions) + 1.2, 1.8])
    figure.update_xaxes(range=[0, top * 1.6], title="seconds")
    figure.update_xaxes(title_font_size=13)
    return figure
