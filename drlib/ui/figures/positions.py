"""Where groups resume on the target, compared with where they should: one row a group and partition, in records.

Rules: as in `figures`: every row says in words what its mark means, so no meaning is by colour alone. 0 is the next record the
group had not read; to the left is what it reads again, to the right what it would never read. An unknown number is written, and
not drawn as 0. Only the rows that are furthest off are drawn, and the number of the others is stated.
Not for: judging (`drlib.analysis.audit.checkpoints`, `drlib.lab.checker`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import plotly.graph_objects as go

from drlib.analysis.sessions.nightly_audit import NightlyAudit
from drlib.drill.actions.groups import decided as positions
from drlib.drill.actions.groups.rules import PositionMove
from drlib.drill.session.session import DrillSession
from drlib.drill.step import rto_clock as moments
from drlib.lab.checker.history_files import read_history
from drlib.lab.checker.moved_groups import ResumedGroup, resumed_groups
from drlib.model import TranslationKind
from drlib.ui.figures import figures

MOST: Final = 30
_ROW: Final = 26


@dataclass(frozen=True, slots=True)
class Standing:
    """One row: `again` records read again, `skipped` never; None for unknown. `words` is the label."""

    name: str
    again: int | None
    skipped: int | None
    words: str


def positions_figure(drill: DrillSession) -> go.Figure:
    """Of a drill on a lab: translated positions, compared with each group's committed offset and the record it then read."""
    title = "Where groups resumed, compared with where they had stopped"
    flow, run_dir = drill.drill.flow, drill.workplace.run_dir
    moves = positions.read(run_dir, flow.target)
    files = sorted((run_dir / "history").glob("*.jsonl"))
    if not moves or not files:
        why = "No position was translated in this run." if not moves else "No application recorded what it read."
        return figures.empty(title, why)
    history = read_history(*files)
    moved_ms = max(move.as_of_ms for move in moves) if (fault := moments.at(run_dir, "fault")) is None else fault
    standings: list[Standing] = []
    for topic, mirror in sorted({(move.source.topic, move.target.topic) for move in moves}):
        known = {
            (resumed.group, resumed.partition): resumed
            for resumed in resumed_groups(history, flow.source, flow.target, topic, mirror, moved_ms)
        }
        mine = [move for move in moves if move.source.topic == topic]
        standings += [_moved(move, known.get((move.group, move.source))) for move in mine]
        moved = {(move.group, move.source) for move in mine}
        standings += [
            _read("no position was mirrored", resumed, late=True) for key, resumed in known.items() if key not in moved
        ]
    return standing_figure(title, standings)


def checkpoints_figure(audit: NightlyAudit) -> go.Figure:
    """Of an audit: each group's checkpoints, compared with the records they point to."""
    if not audit.results:
        audit.compare()
    standings = [
        Standing(f"{each.group}: {each.partition}", each.re_read, each.skipped, _checked(each.re_read, each.skipped))
        for result in audit.results.values()
        for each in result.checkpoints
    ]
    return standing_figure("Checkpoints, compared with the records they point to", standings)


def standing_figure(title: str, standings: Sequence[Standing]) -> go.Figure:
    """`standings` as rows; a figure that says so where there are none."""
    if not standings:
        return figures.empty(title, "No group has a position to compare.")
    shown = sorted(standings, key=_urgency)[:MOST]
    hidden = len(standings) - len(shown)
    shown.sort(key=lambda standing: standing.name)
    figure = figures.blank(
        title + (f" (the {MOST} furthest off; {hidden} more)" if hidden else ""), height=150 + _ROW * len(shown)
    )
    names = [standing.name for standing in shown]
    for field, sign, colour in (("again", -1, figures.ORANGE), ("skipped", 1, figures.VERMILLION)):
        figure.add_bar(
            x=[sign * (getattr(standing, field) or 0) for standing in shown],
            y=names,
            orientation="h",
            width=0.5,
            marker={"color": colour},
            customdata=[standing.words for standing in shown],
            hovertemplate="%{y}<br>%{customdata}<extra></extra>",
        )
    for symbol, colour, chosen in (
        ("circle", figures.BLUE, [standing for standing in shown if standing.again == 0 and standing.skipped == 0]),
        ("circle-open", "#7b8794", [standing for standing in shown if standing.again is None]),
    ):
        figure.add_scatter(
            x=[0] * len(chosen),
            y=[standing.name for standing in chosen],
            mode="markers",
            marker={"symbol": symbol, "size": 11, "color": colour, "line": {"width": 2}},
            hoverinfo="skip",
        )
    left = max([standing.again or 0 for standing in shown])
    right = max([standing.skipped or 0 for standing in shown])
    for standing in shown:
        figures.label_end(figure, standing.words, standing.name, size=12)
    room = max((left + right) * 0.06, 0.6)
    figure.add_vline(x=0, line={"color": figures.INK, "width": 1})
    figure.update_xaxes(
        title="records from the next one it had not read (left: read again, right: never read)",
        range=[-left - room, right + room],
        tickformat=",",
        dtick=1 if left + right < 5 else None,
    )
    figure.update_yaxes(
        type="category", autorange="reversed", showgrid=True, tickmode="array", tickvals=names, tickfont={"size": 12}
    )
    widest, said = max(map(len, names)), max(len(standing.words) for standing in shown)
    figure.update_layout(
        barmode="overlay",
        margin={"t": 50, "l": 24 + int(figures.CHARACTER * widest), "r": 24 + int(6.6 * said)},
    )
    return figure


def _moved(move: PositionMove, truth: ResumedGroup | None) -> Standing:
    meant = _meant(move)
    if truth is None:
        return Standing(f"{move.group}: {move.source}", None, None, f"{meant}; it had no committed offset here")
    return _read(meant, truth, late=truth.true > move.source_offset)


def _read(meant: str, truth: ResumedGroup, *, late: bool) -> Standing:
    """`late`: it had committed further than the mirror knew of."""
    name = f"{truth.group}: {truth.partition}"
    if truth.again is None or truth.skipped is None:
        why = "the counterpart of the first record it read is unknown" if truth.read_on else "nothing was left to read"
        return Standing(name, None, None, f"{meant}; {why}")
    parts = [f"{truth.again:,} read again" + ", its last commits were lost with the source" * late] * bool(truth.again)
    parts += [f"{truth.skipped:,} never read"] * bool(truth.skipped)
    return Standing(name, truth.again, truth.skipped, f"{meant}; {', '.join(parts) or 'resumed at the exact record'}")


def _meant(move: PositionMove) -> str:
    if move.offset is None:
        return f"left: {move.why}"
    if move.kind is TranslationKind.EXACT:
        return "exact"
    return f"{move.kind.value.replace('-', ' ')} by {move.records:,}" if move.records else move.kind.value


def _checked(again: int | None, skipped: int | None) -> str:
    if again is None or skipped is None:
        return "unknown: no pair of copies"
    parts = [f"{again:,} read again"] * bool(again) + [f"{skipped:,} never read"] * bool(skipped)
    return ", ".join(parts) or "exact"


def _urgency(standing: Standing) -> tuple[int, int, str]:
    if standing.again is None or standing.skipped is None:
        return (1, 0, standing.name)
    off = standing.again + standing.skipped
    return (0 if standing.skipped else 1 if off else 2, -off, standing.name)
