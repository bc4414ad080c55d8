"""Stopping a drill: Ctrl-C, SIGTERM, or a file `abort` in its run folder, from any process of the same user.

Rules: an abort is a file before it is anything else, so that it outlives a process that is killed meanwhile. Nothing is
raised into the middle of I/O: steps wait with `wait`, which ends at once when an abort is asked for.
"""

import getpass
import os
import signal
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from drlib.errors import Aborted
from drlib.files import read_stored, remove_stored, stored_descriptor, write_first
from drlib.runs.signals import SignalSafeEvent, handled

ABORT_FILE: Final = "abort"
_MOST_BYTES: Final = 4096
_MOST_LETTERS: Final = 1000  # of who asked for it, or of the condition that did, with its evidence
_LOOK_S: Final = 0.1  # how often the file is looked for while a step waits


def user_name() -> str:
    """The login name of this process's user; its number where the system has no name for it, as in many containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.geteuid())


class Abort:
    """Whether the run in `folder` was asked to stop."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / ABORT_FILE
        self._event = SignalSafeEvent()

    @property
    def requested(self) -> bool:
        if not self._event.is_set() and os.path.lexists(self._path):
            self._event.set()
        return self._event.is_set()

    def by(self) -> str:
        """Who or what asked for it, as the file says."""
        try:
            return read_stored(self._path, _MOST_BYTES).decode(errors="replace").strip() or "unknown user"
        except OSError:
            return "unknown user"

    def request(self, by: str) -> None:
        """Ask for it. Safe to repeat, the first name stays."""
        try:
            write_first(self._path, by[:_MOST_LETTERS] + "\n")  # a reader of the file always finds the name
        except OSError:  # a full disk does not prevent the stop, only the note of who asked for it
            os.close(stored_descriptor(self._path, os.O_WRONLY | os.O_CREAT))
        finally:
            self._event.set()

    def stop(self) -> None:
        """End the waits of this process's step, without asking for an abort: what it does may not continue."""
        self._event.set()

    def clear(self) -> None:
        """Forget it: the run is being resumed, by who knows that it was stopped."""
        remove_stored(self._path)
        self._event.clear()

    def check(self) -> None:
        """Raises `Aborted` when it was asked for."""
        if self.requested:
            raise Aborted("the step was stopped", f"{self.by()} asked for it", "Its journal says how far it came.")

    def wait(self, seconds: float) -> None:
        """Wait, and raise `Aborted` as soon as it is asked for."""
        end = time.monotonic() + seconds
        while True:
            self.check()
            left = end - time.monotonic()
            if left <= 0:
                return
            self._event.wait(min(left, _LOOK_S))

    def on_signals(self) -> AbstractContextManager[None]:
        """While inside, Ctrl-C and SIGTERM ask for it. Outside the main thread there are no signals to take."""
        return handled(lambda number, _: self.request(signal.Signals(number).name))
