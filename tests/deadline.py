"""How long a test waits for an event before it says that it never came.

A deadline tells a standstill from work, not fast from slow: its seconds are those of a machine that has nothing else to do, and
count for as many more as processes wait for each processor. What has to be quick is asserted by itself.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable


def crowding() -> float:
    """Processes that want to run, for each processor, over the last minute; at least 1."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


class Deadline:
    """`seconds` from now, on a machine with nothing else to do."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._since = time.monotonic()

    @property
    def waited_s(self) -> float:
        return time.monotonic() - self._since

    @property
    def passed(self) -> bool:
        return self.waited_s > self.seconds * crowding()


def never(holds: Callable[[], bool], seconds: float) -> bool:
    """Has it not come about in all of `seconds`, by the clock? For what must not happen, a busy machine is no excuse."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if holds():
            return False
        time.sleep(0.05)
    return True


def standstill(count: Callable[[], int], enough: int, still_s: float = 30.0) -> bool:
    """Waits until `count()` is `enough`. True when it was unchanged for `still_s` instead."""
    seen, deadline = count(), Deadline(still_s)
    while seen < enough:
        if deadline.passed:
            return True
        time.sleep(0.05)
        if (now := count()) != seen:
            seen, deadline = now, Deadline(still_s)
    return False
