"""An object that shows itself everywhere: a notebook, an exported page, a terminal, a log.

Rules: the bundle always holds text and HTML, and the figure as plotly's own JSON when there is one, so that no viewer
is left with nothing. Everything is escaped. None is shown as "unknown".
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Final

from drlib.ui import words

if TYPE_CHECKING:
    import plotly.graph_objects as go

PLOTLY: Final = "application/vnd.plotly.v1+json"
WIDEST: Final = 60  # characters of a cell in text; HTML shows all
ONE_LINE: Final = 90  # characters of a title that fit in a notebook's page
SHORT: Final = 16  # characters of a cell that is not to be broken, such as "not yet"
NOWRAP: Final = ";white-space:nowrap"


class Shown:
    """A title, a table, a figure, a note. A row maps columns to values; columns stand as they first appear."""

    def __init__(
        self,
        title: str,
        rows: Sequence[Mapping[str, object]],
        figure: go.Figure | None = None,
        note: str = "",
    ) -> None:
        self.title = title
        self.rows = tuple(rows)
        self.figure = figure
        self.note = note
        self.columns = tuple(dict.fromkeys(str(column) for row in self.rows for column in row))

    def __repr__(self) -> str:
        return text_of(self)

    def _repr_mimebundle_(
        self, include: Sequence[str] | None = None, exclude: Sequence[str] | None = None
    ) -> dict[str, object]:
        bundle: dict[str, object] = {"text/plain": text_of(self), "text/html": html_of(self)}
        if self.figure is not None:
            bundle[PLOTLY] = json.loads(self.figure.to_json())
        return {
            mime: value
            for mime, value in bundle.items()
            if (not include or mime in include) and (not exclude or mime not in exclude)
        }


def text_of(shown: Shown) -> str:
    """The title, an aligned table with numbers to the right, and the note."""
    cells = [[_short(words.one_line(cell(row.get(column)))) for column in shown.columns] for row in shown.rows]
    numeric = [_numeric(shown, column) for column in shown.columns]
    widths = [max(map(_width, [column, *(line[n] for line in cells)])) for n, column in enumerate(shown.columns)]

    def aligned(line: Sequence[str]) -> str:
        padded = [
            " " * (width - _width(text)) + text if right else text + " " * (width - _width(text))
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]
        return "  ".join(padded).rstrip()

    lines = [shown.title]
    if shown.columns:
        lines += [aligned(shown.columns), "  ".join("─" * width for width in widths), *map(aligned, cells)]
    if shown.note:
        lines.append(shown.note)
    return "\n".join(lines)


def html_of(shown: Shown) -> str:
    """A table with a caption and scoped headings, or a paragraph when there are no rows. Words begin at the left, numbers
    end at the right: JupyterLab would put everything to the right."""
    parts = []
    if shown.columns:
        side = {c: "right" if _numeric(shown, c) else "left" for c in shown.columns}
        heads = "".join(f'<th scope="col" style="text-align:{side[c]}">{escape(c)}</th>' for c in shown.columns)
        body = "".join(
            "<tr>" + "".join(_data(cell(row.get(c)), side[c]) for c in shown.columns) + "</tr>" for row in shown.rows
        )
        whole = NOWRAP if len(shown.title) <= ONE_LINE else ""  # or it breaks where a narrow table ends
        parts.append(
            f'<table><caption style="text-align:left{whole}"><strong>{escape(shown.title)}</strong></caption>'
            f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
        )
    else:
        parts.append(f"<p><strong>{escape(shown.title)}</strong></p>")
    if shown.note:
        parts.append(f"<p>{escape(shown.note)}</p>")
    return "".join(parts)


def _data(text: str, side: str) -> str:
    return f'<td style="text-align:{side}{NOWRAP if len(text) <= SHORT else ""}">{escape(text)}</td>'


def cell(value: object) -> str:
    """One value in words: thousands separated, at most three decimals, None as "unknown"."""
    if value is None:
        return words.UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    return str(value)


def _numeric(shown: Shown, column: str) -> bool:
    values = [row.get(column) for row in shown.rows]
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in known)


def _width(text: str) -> int:
    """Columns of `text` in a terminal: wide characters take two, combining ones none."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _short(text: str) -> str:
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"
