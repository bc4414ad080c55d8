"""What is typed while progress is drawn: it moves nothing on a real terminal, which is as before however the command ends."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from deadline import Deadline

DRAWS = """
import fcntl, termios, threading
from drlib.ui.terminal.run import Progress

fcntl.ioctl(0, termios.TIOCSCTTY, 0)
with Progress() as progress:
    progress.stage("one")
    progress.stage("two")
    print("drawn", flush=True)
    for _ in range(600):
        threading.Event().wait(0.1)  # Python does not end a wait for a signal that came just before it
"""


class Terminal:
    """A pseudoterminal, and a program that it controls and that draws progress on it."""

    def __init__(self) -> None:
        self.controlling, self.slave = pty.openpty()  # both kept: settings are read after the program has ended
        os.set_blocking(self.controlling, False)
        self.written = b""
        self.program = subprocess.Popen(
            [sys.executable, "-c", DRAWS],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            start_new_session=True,
        )

    @property
    def echoes(self) -> bool:
        return bool(termios.tcgetattr(self.slave)[3] & termios.ECHO)

    def shown(self) -> bytes:
        """All that was written to the terminal so far."""
        with suppress(BlockingIOError):
            while part := os.read(self.controlling, 1 << 16):
                self.written += part
        return self.written

    def type(self, keys: bytes) -> None:
        os.write(self.controlling, keys)

    @property
    def waiting(self) -> int:
        """Bytes of whole lines that were typed and are still to be read."""
        answer = fcntl.ioctl(self.slave, termios.FIONREAD, struct.pack("i", 0))
        return int(struct.unpack("i", answer)[0])

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = Deadline(20)
        while not holds():
            assert not deadline.passed, self.shown()
            time.sleep(0.02)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal()
    try:
        assert made.echoes
        made.until(lambda: b"drawn" in made.shown())
        yield made
    finally:
        made.program.kill()
        made.program.wait()
        os.close(made.controlling)
        os.close(made.slave)


def test_enter_while_progress_is_drawn_moves_nothing(terminal: Terminal) -> None:
    before = len(terminal.shown())
    terminal.type(b"\n\n\n\n")
    terminal.until(lambda: len(terminal.shown()) > before + 500)  # it was drawn several times since
    assert b"\n" not in terminal.shown()[before:]


ENDS = {
    "Ctrl-C": (b"\x03", 0, -signal.SIGINT),
    "Ctrl-backslash": (b"\x1c", 0, -signal.SIGQUIT),
    "SIGTERM": (b"", signal.SIGTERM, -signal.SIGTERM),
    "SIGHUP": (b"", signal.SIGHUP, -signal.SIGHUP),
}


@pytest.mark.parametrize(("keys", "number", "code"), ENDS.values(), ids=ENDS)
def test_terminal_is_as_before_however_the_command_ends(
    terminal: Terminal, keys: bytes, number: int, code: int
) -> None:
    assert not terminal.echoes
    typed = b"rm -r *\n"  # must not reach the shell, as it was not seen
    terminal.type(typed)
    # The kernel passes it on in a thread of its own: a signal might overtake it.
    terminal.until(lambda: terminal.waiting == len(typed))
    if keys:
        terminal.type(keys)
    else:
        terminal.program.send_signal(number)
    assert terminal.program.wait(30) == code
    assert terminal.echoes
    shown = terminal.shown()
    assert b"rm -r" not in shown
    assert shown.rindex(b"\x1b[?25h") > shown.rindex(b"\x1b[?25l"), "the cursor stays hidden"
    os.set_blocking(terminal.slave, False)
    with pytest.raises(BlockingIOError):
        os.read(terminal.slave, 100)
