"""The one way to a rich console: it prints what it is given, whatever names and messages from outside contain. And its tables.

Rules: no markup, no emoji codes, no highlighting; styles come as `Text`. `foo[/red]` is the name of a topic, not markup.
Control characters in any text are escaped as it is rendered, so that only rich itself moves the cursor. Line breaks are the
caller's: text from outside goes through `drlib.formats.one_line` first. rich's tables are loaded where one is made.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from drlib.formats import one_line

if TYPE_CHECKING:
    from rich.table import Table


def plain_console(*, stderr: bool = False, width: int | None = None, file: IO[str] | None = None) -> Console:
    """A console on standard output, on standard error, or on `file`. `width`: in columns, by default the terminal's."""
    return _PlainConsole(stderr=stderr, width=width, file=file, markup=False, emoji=False, highlight=False)


def pairs() -> Table:
    """A table of two columns without heads: a name in bold, and what it is."""
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def headed(*heads: str) -> Table:
    """A table under `heads`, whose cells are folded and never cut."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for head in heads:
        table.add_column(head, overflow="fold")
    return table


class _PlainConsole(Console):
    def on_broken_pipe(self) -> None:
        """The error is the caller's, as it is of every other write."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """The segments to write. Those that are text, not control codes of rich, hold nothing that a terminal obeys."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment("\n".join(map(one_line, segment.text.split("\n"))), segment.style)
