"""The one way to a rich console: it prints what it is given, whatever names and messages from outside contain.

Rules: no markup, no emoji codes, no highlighting; styles come as `Text`. `foo[/red]` is the name of a topic, not markup.
Not for: control characters in such names, which `drlib.formats.one_line` escapes.
"""

from __future__ import annotations

from typing import IO

from rich.console import Console


def plain_console(*, stderr: bool = False, width: int | None = None, file: IO[str] | None = None) -> Console:
    """A console on standard output, on standard error, or on `file`. `width`: in columns, by default the terminal's."""
    return Console(stderr=stderr, width=width, file=file, markup=False, emoji=False, highlight=False)
