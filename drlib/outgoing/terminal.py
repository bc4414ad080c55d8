"""The one way to standard output and standard error, beside rich consoles (`drlib.ui.terminal.plain_console`).

Rules:
- What people read goes through `show`: nothing in it moves the cursor, changes colours or reverses the order of letters,
  whatever names and messages from outside it quotes. Line breaks are the caller's: text from outside goes through `one_line`.
- What programs read (a unit, a properties file, offsets) is a document: as it is to a pipe or a file, as by `show` to a
  terminal.
Not for: the lines of a worker (`drlib.cli.log`).
"""

from __future__ import annotations

import os
import sys
from typing import TextIO

from drlib.formats import printable


def show(text: str = "", *, error: bool = False) -> None:
    """Write lines for people to standard output, or to standard error."""
    print(printable(text), file=sys.stderr if error else sys.stdout, flush=True)


def flush() -> None:
    """Write what standard output still holds. Raises OSError, once: what could not be written is dropped."""
    if sys.stdout is None or sys.stdout.closed:
        return
    try:
        sys.stdout.flush()
    except OSError:
        # The rest goes into a pipe of our own, or the interpreter would try again at its end, and print an error.
        _, write = os.pipe()
        os.dup2(write, sys.stdout.fileno())
        raise


def can_ask() -> bool:
    """Can a question be answered: is standard input a terminal?"""
    return _is_terminal(sys.stdin)


def write_document(text: str) -> None:
    """Write what a program reads to standard output; it ends its last line itself."""
    print(printable(text) if _is_terminal(sys.stdout) else text, end="", flush=True)


def _is_terminal(stream: TextIO | None) -> bool:
    """False for one that was closed before the process began, which is None, or since."""
    return stream is not None and not stream.closed and stream.isatty()
