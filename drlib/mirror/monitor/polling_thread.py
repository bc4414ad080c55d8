"""A daemon thread that polls until it is closed, and pauses at least as long as each poll took.

Rules: `poll` never runs twice at a time. The pause is `interval_s`, or as long as the poll took where that is longer, up to
`longest_pause_s`: slow clusters are asked less often. Any error from `poll` ends the thread
and is kept in `error`; one that is no `DrlibError` becomes one, so that it is shown and not lost with the thread.
Not for: what is polled (`drlib.mirror.monitor.observer`).
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

from drlib.errors import DrlibError, explain


class PollingThread:
    """Calls `poll` again and again from `start` to `close`."""

    def __init__(
        self, poll: Callable[[], None], *, name: str, interval_s: float, longest_pause_s: float = math.inf
    ) -> None:
        self.error: DrlibError | None = None
        self._poll = poll
        self._name = name
        self._interval_s = interval_s
        self._longest_pause_s = longest_pause_s
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to poll. Safe to repeat."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    def close(self, wait_s: float = 0.0) -> None:
        """Stop polling, and wait up to `wait_s` for a poll under way. Safe to repeat."""
        self._closed.set()
        if self._thread is not None and wait_s:
            self._thread.join(wait_s)

    @property
    def closed(self) -> bool:
        return self._closed.is_set()

    @property
    def alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _run(self) -> None:
        while not self._closed.is_set():
            started = time.monotonic()
            try:
                self._poll()
            except DrlibError as error:
                self.error = error
                self._closed.set()
            except Exception as error:
                self.error = DrlibError(
                    f"{self._name} ended", explain(error), "Start it again, and report this as a defect."
                )
                self._closed.set()
            self._closed.wait(max(self._interval_s, min(self._longest_pause_s, time.monotonic() - started)))
