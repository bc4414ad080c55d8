"""Stopping a run from outside: Ctrl-C and SIGTERM interrupt the notebook's cell, so that it can end its own affairs.

Rules: nothing is raised into the middle of I/O; a signal is remembered, and the kernel gets SIGINT, as a
person would press it. A kernel that does not end its cell within `GRACE_S` is killed, unless its run rolls back: that takes as
long as its probes and undos do, and a further signal ends it. Whatever is left of the kernel's process group when the run is
over (a JVM that a cell started) goes with it. The kernel is signalled, not its group: what a cell started is for the cell to
end.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Final

from drlib.runs.signals import handled

GRACE_S: Final = 20.0


class Stop:
    """Whether this run was asked to stop, by which signal, and how to interrupt its kernel."""

    def __init__(self, grace_s: float = GRACE_S) -> None:
        self.grace_s = grace_s
        self.signal: signal.Signals | None = None
        self._pid: Callable[[], int | None] = lambda: None
        self._timer: threading.Timer | None = None
        self.rolls_back: Callable[[], bool] = lambda: False  # does the run undo what it changed?

    @property
    def requested(self) -> bool:
        return self.signal is not None

    def request(self, number: int) -> None:
        """Interrupt the running cell, and kill its kernel when it has not ended within the grace. Safe to repeat."""
        self.signal = self.signal or signal.Signals(number)
        self._send(signal.SIGINT)
        if self._timer is None:
            self._wait()

    @contextmanager
    def kernel(self, pid: Callable[[], int | None]) -> Iterator[None]:
        """While inside, `pid` gives the living kernel's process id, None when it has none."""
        self._pid = pid
        try:
            yield
        finally:
            self._pid = lambda: None
            if self._timer is not None:
                self._timer.cancel()

    def on_signals(self) -> AbstractContextManager[None]:
        """While inside, Ctrl-C and SIGTERM are requests. Outside the main thread there are no signals to take."""
        return handled(lambda number, _: self.request(number))

    def _wait(self) -> None:
        self._timer = threading.Timer(self.grace_s, self._end)
        self._timer.daemon = True
        self._timer.start()

    def _end(self) -> None:
        if self.rolls_back():
            self._wait()
        else:
            self._send(signal.SIGKILL)

    def _send(self, number: signal.Signals) -> None:
        pid = self._pid()
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, number)


def end_group(leader: int | None) -> None:
    """Kill what is left of a kernel's process group. A kernel leads a session of its own, so the group is all its."""
    if leader is not None and leader != os.getpgrp():
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)
