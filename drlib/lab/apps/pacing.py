"""The pace of an application: a backlog at once, then a rate in records per second, without catching up after a stall.

Rules: pure except for the given clock. Not for: waiting.
"""

import time
from collections.abc import Callable


class Pace:
    """`rate` records a second after `backlog` records at once; `rate` 0 means no limit."""

    def __init__(self, rate: float, backlog: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._backlog = backlog
        self._clock = clock
        self._since = clock()
        self._done = 0

    def due(self) -> int:
        """How many records may be sent or processed now."""
        if self._backlog > 0:
            self._since, self._done = self._clock(), 0
            return self._backlog
        if self._rate <= 0:
            return 1_000_000
        return int((self._clock() - self._since) * self._rate) - self._done

    def count(self, records: int = 1) -> None:
        if self._backlog > 0:
            self._backlog -= records
        else:
            self._done += records

    def forgive(self) -> None:
        """Drop what is due until now: call it while no progress is possible."""
        self._since, self._done = self._clock(), 0
