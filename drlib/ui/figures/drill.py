"""Pictures of a drill's applications, from their histories: records per second, and in which order a key was read.

Rules: as in `figures`: labels instead of a legend, UTC, units on axes, no meaning by colour alone. Only what applications
recorded is drawn; a figure without data says so.
"""

from collections import Counter
from pathlib import Path
from statistics import median
from typing import Final

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from drlib import formats
from drlib.drill.session.session import DrillSession
from drlib.drill.step import step_output as details
from drlib.lab.checker.history import Consumed, History, ProducedStatus
from drlib.lab.checker.history_files import read_history
from drlib.lab.checker.key_order import key_order
from drlib.ui.figures import figures

STEP_MS: Final = 500
ROW: Final = 74.0  # pixels of one application
MOST: Final = 4.0


def pulse_figure(drill: DrillSession) -> go.Figure:
    """Records per second of each application, one above the other, with the drill's moments across all of them.

    Rates beyond `MOST` times an application's median, as after a pause, are cut off. Applications that
    ran for less than a quarter of the time are left out.
    """
    moments_of = {path.stem: _moments(read_history(path)) for path in _histories(drill)}
    longest = max((_span_ms(moments) for moments in moments_of.values()), default=0)
    moments_of = {name: moments for name, moments in moments_of.items() if moments and _span_ms(moments) * 4 >= longest}
    if not moments_of:
        return figures.empty("Records per second by application", "No application has recorded anything yet.")
    figure = make_subplots(rows=len(moments_of), shared_xaxes=True, vertical_spacing=0.02)
    base = figures.blank("Records per second by application", height=0)
    figure.update_layout(base.layout).update_layout(height=int(ROW * len(moments_of)) + 130, margin={"l": 200})
    for row, (name, moments) in enumerate(sorted(moments_of.items()), 1):
        steps = Counter(at // STEP_MS for at in moments)
        span = range(min(steps), max(steps) + 1)
        figure.add_scatter(
            x=[formats.iso(step * STEP_MS) for step in span],
            y=[steps[step] * 1000 / STEP_MS for step in span],
            mode="lines",
            fill="tozeroy",
            line={"shape": "hv", "width": 1, "color": figures.BLUE},
            hovertemplate=f"{name}<br>%{{x}}<br>%{{y:,}} records/s<extra></extra>",
            row=row,
            col=1,
        )
        most = MOST * median(steps.values()) * 1000 / STEP_MS
        top = min(most, max(steps.values()) * 1000 / STEP_MS * 1.1)
        figure.update_yaxes(range=[0, top], nticks=3, row=row, col=1)
        figures.label(figure, name, -0.055, 0.5, xref="paper", xanchor="right", yref=_domain(row))
    for mark in _marks(drill):
        figure.add_vline(x=formats.iso(mark.at_ms), line={"color": figures.VERMILLION, "dash": "dash", "width": 1.5})
        figures.label(figure, mark.name, formats.iso(mark.at_ms), 1.0, yref="paper", yanchor="bottom")
    figure.update_xaxes(title="UTC", row=len(moments_of), col=1)
    return figure


def order_figure(drill: DrillSession, groups: tuple[str, str] = ("ordered", "ordinary")) -> go.Figure:
    """One key as each group read it: the number of the record against the order it came in. The key is the one that came
    most out of order; a line that falls is a record read after a later one, and a hollow mark is one from another topic."""
    rows = {group: _consumed(drill, group) for group in groups}
    wrong = Counter(violation.key for reads in rows.values() for violation in key_order([reads]).violations)
    if not wrong:
        said = "No key was read out of order." if any(rows.values()) else "No group has read anything yet."
        return figures.empty("One key, read in order or not", said)
    key, _ = wrong.most_common(1)[0]
    figure = figures.blank(f"Flight {key}: number of the record, in the order it was read", height=420)
    for group, colour, dash in zip(groups, (figures.BLUE, figures.VERMILLION), ("solid", "dot"), strict=True):
        mine = [row for row in rows[group] if row.key == key]
        figure.add_scatter(
            x=list(range(1, len(mine) + 1)),
            y=[row.n for row in mine],
            mode="lines+markers",
            line={"color": colour, "dash": dash},
            marker={"symbol": ["circle" if row.topic == mine[0].topic else "diamond-open" for row in mine], "size": 7},
            text=[f"{row.topic}-{row.partition}@{row.offset} on {row.cluster}" for row in mine],
            hovertemplate=f"{group}: record %{{y}}<br>%{{text}}<extra></extra>",
        )
        if mine:  # at the first record, where the two are apart
            figures.label(figure, group, 1, mine[0].n, colour=colour, xanchor="left", xshift=12, yshift=10)
    figure.update_xaxes(title="read as the nth of its key")
    figure.update_yaxes(title="number within the key")
    return figure


def _histories(drill: DrillSession) -> list[Path]:
    return sorted((drill.workplace.run_dir / "history").glob("*.jsonl"))


def _moments(history: History) -> list[int]:
    """When an application was served: a record acknowledged, or an offset committed."""
    acked = [row.acked_ms for row in history.produced if row.status is ProducedStatus.ACKED]
    return acked or [row.at_ms for row in history.consumed]


def _span_ms(moments: list[int]) -> int:
    return max(moments, default=0) - min(moments, default=0)


def _consumed(drill: DrillSession, group: str) -> list[Consumed]:
    rows = [row for path in _histories(drill) for row in read_history(path).consumed if row.group == group]
    return sorted(rows, key=lambda row: row.at_ms)


def _marks(drill: DrillSession):  # type: ignore[no-untyped-def]
    run_dir = drill.workplace.run_dir
    return [mark for step in drill.drill.steps for mark in details.read_part(run_dir, step.name).marks]


def _domain(row: int) -> str:
    return f"y{'' if row == 1 else row} domain"
