"""The lag of every group on every topic of a flow, in records and in time: what the operator reads first when consumers lag.

Rules: pure. A sum with an unknown part is unknown; a group without a position on a topic is not the same as one without lag.
What lags most comes first, unknown before all; what is left out is counted. In a narrow place each row is a list.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from drlib import formats
from drlib.formats import html_text
from drlib.mirror.monitor.flow_view import FlowView
from drlib.mirror.monitor.survey import GroupPosition
from drlib.ui.console.show.style import ROWS, more

GROUPS: Final = 6  # columns
NONE: Final = "-"


@dataclass(frozen=True, slots=True)
class Cell:
    """A group on a topic. `seconds`: age of its oldest unread record; None is unknown."""

    records: int | None
    seconds: float | None

    @property
    def words(self) -> str:
        if self.records == 0:
            return "0"
        return f"{formats.count(self.records)}, {formats.duration(self.seconds)}"


@dataclass(frozen=True, slots=True)
class Matrix:
    """`topics` and `groups` are in the order in which they are shown; a pair without a position has no cell."""

    flow: str
    topics: tuple[str, ...]
    groups: tuple[str, ...]
    cells: Mapping[tuple[str, str], Cell]

    def words(self, topic: str, group: str) -> str:
        cell = self.cells.get((topic, group))
        return NONE if cell is None else cell.words


def matrix_of(view: FlowView) -> Matrix:
    """The matrix of a flow; without rows where no group has a position, or none is known."""
    found: dict[tuple[str, str], list[GroupPosition]] = {}
    for group in view.groups or ():
        for position in group.positions:
            found.setdefault((position.at.topic, group.group), []).append(position)
    cells = {key: _cell(positions) for key, positions in found.items()}

    def order(which: int) -> tuple[str, ...]:
        worst: dict[str, tuple[bool, float]] = {}
        for key, cell in cells.items():
            lag = (cell.records is None, float(cell.records or 0))
            worst[key[which]] = max(worst.get(key[which], lag), lag)
        return tuple(sorted(worst, key=lambda name: (not worst[name][0], -worst[name][1], name)))

    return Matrix(view.flow, order(0), order(1), cells)


def _cell(positions: list[GroupPosition]) -> Cell:
    lags = [position.lag for position in positions if position.lag is not None]
    ages = [position.lag_s for position in positions if position.lag_s is not None]
    records = sum(lags) if len(lags) == len(positions) else None
    return Cell(records, max(ages) if records is not None and len(ages) == len(positions) else None)


def matrix_html(matrix: Matrix) -> Iterator[str]:
    """A table; nothing where the matrix has no rows."""
    if not matrix.topics:
        return
    groups = matrix.groups[:GROUPS]
    heads = "".join(f'<th scope="col">{html_text(group)}</th>' for group in groups)
    rows = "".join(
        f'<tr><th scope="row">{html_text(topic)}</th>'
        + "".join(f'<td data-of="{html_text(group)}">{html_text(matrix.words(topic, group))}</td>' for group in groups)
        + "</tr>"
        for topic in matrix.topics[:ROWS]
    )
    yield (
        f'<table class="lists matrix"><caption>Lag of groups by topic, {html_text(matrix.flow)}: records, and age of the '
        f'oldest unread</caption><thead><tr><th scope="col">topic</th>{heads}</tr></thead><tbody>{rows}</tbody></table>'
    )
    for line in left_out(matrix):
        yield f'<p class="dim">{html_text(line)}</p>'


def matrix_lines(matrix: Matrix) -> Iterator[str]:
    """The same as text: a line for each topic."""
    for topic in matrix.topics[:ROWS]:
        cells = (f"{group} {matrix.words(topic, group)}" for group in matrix.groups[:GROUPS])
        yield f"groups on {topic} ({matrix.flow}): {'; '.join(cells)}"
    yield from left_out(matrix)


def left_out(matrix: Matrix) -> Iterator[str]:
    yield from more(len(matrix.topics), "topic")
    if len(matrix.groups) > GROUPS:
        yield f"and {len(matrix.groups) - GROUPS} groups more: Browse, Positions of a group"
