"""A table that shows itself everywhere: a notebook, an exported page, a terminal, a log.

Rules: the bundle always holds text and HTML, and the figure as plotly's own JSON when there is one, so that no viewer
is left with nothing. Everything is escaped. None is shown as "unknown".
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from drlib import decoding, formats
from drlib.formats import html_text
from drlib.runs.check import Check, Verdict
from drlib.runs.journal import Scalar

if TYPE_CHECKING:
    import plotly.graph_objects as go

PLOTLY: Final = "application/vnd.plotly.v1+json"
ONE_LINE: Final = 90  # characters of a title that fit in a notebook's page
SHORT: Final = 16  # characters of a cell that is not to be broken, such as "not yet"
NOWRAP: Final = ";white-space:nowrap"


class Block(Protocol):
    """What may stand above a table: a line of text, and a block of safe HTML."""

    def __str__(self) -> str: ...

    def html(self) -> str: ...


class Table:
    """A title, rows, a note, a figure. A row maps columns to values; columns stand as they first appear, and one that is empty
    in all rows is left out. `above`: a banner."""

    def __init__(
        self,
        title: str,
        rows: Sequence[Mapping[str, object]],
        note: str = "",
        *,
        figure: go.Figure | None = None,
        above: Block | None = None,
    ) -> None:
        self.title = title
        self.above = above
        self.rows = tuple(rows)
        self.note = note
        self.figure = figure
        filled = {column for row in self.rows for column, value in row.items() if value != ""}
        self.columns = tuple(dict.fromkeys(str(column) for row in self.rows for column in row if column in filled))
        self._numeric = [self._is_numeric(column) for column in self.columns]

    def _is_numeric(self, column: str) -> bool:
        known = [value for row in self.rows if (value := row.get(column)) is not None]
        return bool(known) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in known)

    def __repr__(self) -> str:
        return self.text()

    def text(self, columns: int = 0) -> str:
        """The title, an aligned table with numbers to the right, and the note. A table that is wider than `columns`, if any are
        given, has its widest column broken into lines between words, and so are the lines around it."""
        cells = [[formats.one_line(formats.cell(row.get(column))) for column in self.columns] for row in self.rows]
        widths = [max(map(_width, [column, *(line[n] for line in cells)])) for n, column in enumerate(self.columns)]
        broken = widths.index(max(widths)) if widths else 0
        if (over := sum(widths) + 2 * (len(widths) - 1) - columns) > 0 and columns and widths:
            widths[broken] = max(widths[broken] - over, SHORT)

        def lines_of(row: Sequence[str]) -> Iterator[str]:
            first, *more = textwrap.wrap(row[broken], widths[broken]) or [""]
            yield aligned([*row[:broken], first, *row[broken + 1 :]])
            for part in more:
                yield aligned([part if n == broken else "" for n in range(len(row))])

        def aligned(line: Sequence[str]) -> str:
            padded = [
                " " * (width - _width(text)) + text if right else text + " " * (width - _width(text))
                for text, width, right in zip(line, widths, self._numeric, strict=True)
            ]
            return "  ".join(padded).rstrip()

        def around(text: str) -> str:
            return "\n".join(_wrapped(line, columns) for line in text.split("\n"))

        lines = [around(text) for text in (*([str(self.above)] if self.above is not None else []), self.title)]
        if self.columns:
            lines += [aligned(self.columns), "  ".join("─" * width for width in widths)]
            lines += [line for row in cells for line in (lines_of(row) if columns else [aligned(row)])]
        return "\n".join([*lines, around(self.note)] if self.note else lines)

    def _html(self) -> str:
        """A table with a caption and scoped headings, or a paragraph when there are no rows. Words begin at the left, numbers
        end at the right: JupyterLab would put everything to the right."""
        title = f"<strong>{html_text(self.title)}</strong>"
        note = f"<p>{html_text(self.note)}</p>" if self.note else ""
        if not self.columns:
            return f"<p>{title}</p>{note}"
        sides = ["right" if numeric else "left" for numeric in self._numeric]
        heads = "".join(
            f'<th scope="col" style="text-align:{side}">{html_text(column)}</th>'
            for column, side in zip(self.columns, sides, strict=True)
        )
        body = "".join(
            f"<tr>{''.join(_data(formats.cell(row.get(c)), side) for c, side in zip(self.columns, sides, strict=True))}</tr>"
            for row in self.rows
        )
        whole = NOWRAP if len(self.title) <= ONE_LINE else ""  # or it breaks where a narrow table ends
        return (
            f'<table><caption style="text-align:left{whole}">{title}</caption>'
            f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{note}"
        )

    def _repr_mimebundle_(
        self, include: Sequence[str] | None = None, exclude: Sequence[str] | None = None
    ) -> dict[str, object]:
        page = self._html() if self.above is None else f"{self.above.html()}{self._html()}"
        return bundle(repr(self), page, self.figure, include, exclude)


def check_rows(checks: Iterable[Check]) -> list[dict[str, Scalar]]:
    """A row for each check: its name, verdict and evidence."""
    return [{"check": check.name, "verdict": check.verdict.value, "evidence": check.evidence} for check in checks]


def verdict_table(verdict: Verdict, checks: Iterable[Check]) -> Table:
    """A verdict with the checks it comes from."""
    return Table(f"Verdict: {verdict.value}", check_rows(checks))


def bundle(
    plain: str,
    page: str,
    figure: go.Figure | None,
    include: Collection[str] | None = None,
    exclude: Collection[str] | None = None,
) -> dict[str, object]:
    """What Jupyter shows, by MIME type: of text, HTML and a figure those in `include`, and without those in `exclude`."""
    forms: dict[str, object] = {"text/plain": plain, "text/html": page}
    if figure is not None:
        forms[PLOTLY] = formats.figure_texts(decoding.json_value(figure.to_json()))
    return {
        mime: value
        for mime, value in forms.items()
        if (not include or mime in include) and (not exclude or mime not in exclude)
    }


def _data(text: str, side: str) -> str:
    return f'<td style="text-align:{side}{NOWRAP if len(text) <= SHORT else ""}">{html_text(text)}</td>'


def _wrapped(line: str, columns: int) -> str:
    """`line` in lines of `columns` where it is longer; a path or an address is not broken. 0: as it is."""
    if not columns or _width(line) <= columns:
        return line
    return textwrap.fill(line, columns, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def _width(text: str) -> int:
    """Columns of `text` in a terminal: wide characters take two, combining ones none."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
