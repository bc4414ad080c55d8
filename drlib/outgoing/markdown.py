"""Text from outside in Markdown: one function, pure.

Rules: names, evidence and messages are code spans, which neither Markdown nor HTML in them can leave; headings, words and
numbers of drlib's own are written as they are.
"""

import re
from collections.abc import Iterable, Sequence

from drlib.formats import one_line


def code(text: str, *, cell: bool = False) -> str:
    """`text` as a code span on one line; in the `cell` of a table a bar does not end the cell. Nothing for no text."""
    line = one_line(text)
    if not line.strip():
        return ""
    if cell:
        line = line.replace("|", "\\|")
    fence = "`" * (max((len(run) for run in re.findall("`+", line)), default=0) + 1)
    pad = " " if "`" in line or line.startswith(" ") or line.endswith(" ") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table whose cells are Markdown already."""
    return [
        f"| {' | '.join(heads)} |",
        f"|{'---|' * len(heads)}",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
