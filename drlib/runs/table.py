"""What a step shows: a title, rows, a note; as text, as HTML, and as nothing else.

Rules: values are escaped; the text form is what a terminal, a log and papermill's output need.
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drlib.runs.journal import Scalar


@dataclass(frozen=True)
class Table:
    """Rows of one shape; the first row's keys are the columns."""

    title: str
    rows: Sequence[Mapping[str, Scalar]]
    note: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.rows[0]) if self.rows else ()

    def __repr__(self) -> str:
        lines = [[_text(row.get(c)) for c in self.columns] for row in self.rows]
        widths = [max(len(c), *(len(line[i]) for line in lines)) for i, c in enumerate(self.columns)]
        body = [
            "  ".join(v.ljust(w) for v, w in zip(line, widths, strict=True)) for line in [list(self.columns), *lines]
        ]
        return "\n".join([self.title, *body, *([self.note] if self.note else [])])

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        head = "".join(f'<th scope="col">{html.escape(c)}</th>' for c in self.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_text(row.get(c)))}</td>" for c in self.columns) + "</tr>"
            for row in self.rows
        )
        note = f"<p>{html.escape(self.note)}</p>" if self.note else ""
        caption = f"<caption>{html.escape(self.title)}</caption>"
        table = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{note}"
        return {"text/plain": repr(self), "text/html": table}


def _text(value: Scalar) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)
