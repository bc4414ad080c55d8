"""Where and when duplicates are: a map of partitions over time.

Rules: as in `figures`: labels instead of a legend, UTC, units on axes, no meaning by colour alone: each row says its
number, and small maps each cell. The times are the records' own. Only partitions with duplicates are drawn, the worst first
where there are many.
"""

from collections.abc import Mapping
from typing import Final

import plotly.graph_objects as go

from drlib import formats
from drlib.analysis.duplicates.result import DuplicateReport, step_for
from drlib.analysis.sessions.duplicates_audit import DuplicatesAudit
from drlib.ui.figures import figures

MOST_ROWS: Final = 40
MOST_LABELS: Final = 120  # cells with a number in them; more could not be read


def duplicates_figure(audit: DuplicatesAudit) -> go.Figure:
    """The map of everything an audit found."""
    if not audit.reports:
        audit.find()
    return heat_figure(audit.reports)


def heat_figure(reports: Mapping[str, DuplicateReport]) -> go.Figure:
    """Duplicates by topic-partition and time; their number as colour, and at the end of each row."""
    cells: dict[tuple[str, int], int] = {}
    times = [cell.at_ms for report in reports.values() for cell in report.heat]
    span = (
        max(times) - min(times) if times else 0
    )  # of all topics: each alone may have a shorter one, and shorter steps
    step = max([step_for(span), *(report.step_ms for report in reports.values())])
    for topic, report in reports.items():
        for cell in report.heat:
            at_ms = cell.at_ms // step * step
            where = (f"{topic}-{cell.partition}", at_ms)
            cells[where] = cells.get(where, 0) + cell.records
    if not cells:
        searched = sum(report.searched for report in reports.values())
        said = "No duplicate was found." if searched else "No topic could be searched."
        if 0 < searched < len(reports):
            said += f" {len(reports) - searched} of {len(reports)} topics could not be searched."
        return figures.empty("Duplicates by partition and time", said)
    totals: dict[str, int] = {}
    for (name, _), records in cells.items():
        totals[name] = totals.get(name, 0) + records
    worst = sorted(totals, key=lambda name: -totals[name])[:MOST_ROWS]
    rows = sorted(worst, reverse=True)  # plotly's first row is the lowest
    first, last = min(at for _, at in cells), max(at for _, at in cells)
    columns = list(range(first, last + step, step))
    grid = [[cells.get((row, at)) for at in columns] for row in rows]
    figure = figures.blank("Duplicates by partition and time", height=150 + 30 * len(rows))
    small = len(cells) <= MOST_LABELS and len(columns) <= 20
    figure.add_heatmap(
        x=[formats.iso(at + step // 2) for at in columns],
        y=rows,
        z=grid,
        xgap=1,
        ygap=2,
        zmin=0,
        zmax=max(cells.values()),
        colorscale=[[0, "#e8f1f8"], [0.5, figures.SKY], [1, figures.BLUE]],
        texttemplate="%{z:,}" if small else "",
        hovertemplate="%{y}<br>around %{x} UTC<br>%{z:,} duplicates<extra></extra>",
        colorbar={"title": {"text": "records"}, "thickness": 12, "x": 1.12},
    )
    for row in rows:
        figures.label_end(figure, f"<b>{totals[row]:,}</b>", row, xshift=6)
    hidden = len(totals) - len(rows)
    more = f"; {hidden} more partitions are not drawn" if hidden else ""
    day = formats.utc(first)
    figure.update_xaxes(
        type="date",
        title=f"time of the record, UTC ({day:%Y-%m-%d}), in steps of {formats.duration(step / 1000)}{more}",
    )
    figure.update_yaxes(type="category", showgrid=False, title="partition")
    figure.update_layout(margin={"r": 130, "l": 40 + int(figures.CHARACTER * max(map(len, rows)))})
    return figure
