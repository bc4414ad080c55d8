"""How fast an application goes: a backlog at once, then so many records a second, with no catching up after a stall.

Rules: pure but for the clock it is given. Not for: waiting.
"""

from __future__ import annotations

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
        """How many records may go now."""
        if self._backlog > 0:
            self._since, self._done = self._clock(), 0
            return self._backlog
        if self._rate <= 0:
            return 1_000_000
        return int((self._clock() - self._since) * self._rate) - self._done

    def count(self, records: int = 1) -> None:
        """`records` went."""
        if self._backlog > 0:
            self._backlog -= records
        else:
            self._done += records

    def forgive(self) -> None:
        """What was due until now is not made up for: call it while nothing can go."""
        self._since, self._done = self._clock(), 0
