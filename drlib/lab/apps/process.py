"""The process of an application: one argument (its spec), SIGTERM, an exit code, and a status file.

Rules: SIGTERM and SIGINT only set a flag, which the loops check every few milliseconds; a `DrlibError` becomes one line on
stderr and its exit code; the status file is replaced atomically, at most every 200 ms.
Not for: the application's work.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from drlib import decoding
from drlib.clock import now_ms
from drlib.decoding import Undecodable
from drlib.errors import DrlibError, UsageError
from drlib.files import read_stored, write_whole
from drlib.formats import one_line
from drlib.outgoing.terminal import show
from drlib.runs.signals import SIGNALS, SignalSafeEvent

STATUS_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class AppStatus:
    """The state of an application. `phase`: starting, running, waiting (its cluster does not answer), holding, moving,
    stopped. `done`: records acknowledged (a producer) or processed (a consumer)."""

    app: str
    pid: int
    phase: str
    cluster: str
    pointer_version: int
    done: int
    in_flight: int
    at_ms: int


_STATUS: Final = TypeAdapter(AppStatus)


class StatusFile:
    """Writes `AppStatus`; does nothing without a path."""

    def __init__(self, app: str, path: str | None) -> None:
        self._app = app
        self._path = None if path is None else Path(path)
        self._written = float("-inf")
        self._key = ("", 0, True)

    def report(self, phase: str, cluster: str, pointer_version: int, done: int, in_flight: int = 0) -> None:
        """Write at once when the phase, the pointer or, while holding, the presence of records in flight changed."""
        now, key = time.monotonic(), (phase, pointer_version, phase == "holding" and in_flight > 0)
        if self._path is None or (key == self._key and now - self._written < STATUS_EVERY_S):
            return
        self._written, self._key = now, key
        status = AppStatus(self._app, os.getpid(), phase, cluster, pointer_version, done, in_flight, now_ms())
        write_whole(self._path, json.dumps(asdict(status)) + "\n", durable=False)


def read_status(path: Path) -> AppStatus | None:
    """The last status, None while there is none. Raises `UsageError` for an invalid file."""
    try:
        return decoding.json_as(_STATUS, read_stored(path))
    except FileNotFoundError:
        return None
    except (OSError, Undecodable) as error:
        raise UsageError(
            f"{path.name} is not a status file", str(error), "Give the status file of an application"
        ) from None


class Stop(SignalSafeEvent):
    """Set by SIGTERM or SIGINT; waiting on it is a sleep that a signal ends."""

    def install(self) -> None:
        for number in SIGNALS:
            signal.signal(number, lambda *_: self.set())

    def __call__(self) -> bool:
        return self.is_set()


def abandon(close: Callable[[], object], seconds: float) -> bool:
    """Run `close` on a daemon thread and wait at most `seconds`; False when it has not returned by then.

    Closing the client of a dead cluster can take long.
    """
    thread = threading.Thread(target=close, daemon=True)
    thread.start()
    thread.join(seconds)
    return not thread.is_alive()


def run_app(argv: Sequence[str], run: Callable[[Path, Stop], None]) -> int:
    """Run one application to its end and return its exit code. The only argument is the path of the spec."""
    stop = Stop()
    stop.install()
    try:
        if len(argv) != 1:
            raise UsageError("one argument expected", f"got {len(argv)}", "Give the path of the spec file")
        run(Path(argv[0]), stop)
    except DrlibError as error:
        show(one_line(str(error)), error=True)
        return error.exit_code
    return 0
