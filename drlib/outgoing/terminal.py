"""The one way to standard output and standard error, beside rich consoles (`drlib.ui.terminal.plain_console`).

Rules:
- What people read goes through `show`: nothing in it moves the cursor, changes colours or reverses the order of letters,
  whatever names and messages from outside it quotes. Line breaks are the caller's: text from outside goes through `one_line`.
- What programs read (a unit, a properties file, offsets) is a document: as it is to a pipe or a file, as by `show` to a
  terminal.
- While something is redrawn, what is typed is not shown: each line would move the cursor, and the next drawing would be put
  below the last one. The terminal is as it was before the process ends or stops, whatever ends it but SIGKILL.
Not for: the lines of a worker (`drlib.cli.log`).
"""

from __future__ import annotations

import os
import signal
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Final, TextIO

from drlib.formats import printable

_LEAVING: Final = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTSTP)  # SIGINT is a KeyboardInterrupt
_SHOW_CURSOR: Final = b"\x1b[?25h"


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


@contextmanager
def typing_hidden(stream: TextIO) -> Iterator[None]:
    """While inside, what is typed at the terminal of `stream` is not shown; at the end it is dropped.

    Elsewhere, and in the background, where the terminal is another process's, nothing is changed.
    """
    try:
        terminal = stream.fileno()
        before = termios.tcgetattr(terminal)
    except (OSError, ValueError, termios.error):
        yield
        return

    def change(*, echo: bool) -> None:
        with suppress(OSError, termios.error):
            if os.tcgetpgrp(terminal) == os.getpgrp():
                local = before[3] if echo else before[3] & ~termios.ECHO
                termios.tcsetattr(
                    terminal, termios.TCSAFLUSH if echo else termios.TCSANOW, [*before[:3], local, *before[4:]]
                )

    def pass_on(number: int, _: FrameType | None) -> None:
        change(echo=True)
        with suppress(OSError):
            os.write(terminal, _SHOW_CURSOR)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, pass_on)  # it was stopped, and continues
        change(echo=False)

    main = threading.current_thread() is threading.main_thread()
    taken = [number for number in _LEAVING if main and signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, pass_on)
    change(echo=False)
    try:
        yield
    finally:
        change(echo=True)
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _is_terminal(stream: TextIO | None) -> bool:
    """False for one that was closed before the process began, which is None, or since."""
    return stream is not None and not stream.closed and stream.isatty()
