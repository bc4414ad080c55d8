"""End a hold by its limit: applications continue where they are when the drill that held them does not come back.

Rules: the limit counts from when this process first saw the hold, by its own monotonic clock. That is never before the hold was
written, so a drill that moves within the limit, counted from its own write, knows that no application has continued; no two
clocks are compared. A process that starts meanwhile starts counting then. A hold without a limit does not end by itself.
Not for: deciding to hold (`drlib.drill.actions.failback.switchover`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drlib.client.pointer import Pointer

_LOG = logging.getLogger("drlib.active")


class HoldClock:
    """Applies the limits of holds to the pointers of one process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._version = -1
        self._since = 0.0
        self._warned_version = -1

    def applied(self, pointer: Pointer | None) -> Pointer | None:
        """`pointer`, or the same without its hold once that has lasted for its limit."""
        if pointer is None or not pointer.hold or not pointer.hold_limit_s:
            return pointer
        now = self._clock()
        if pointer.version != self._version:
            self._version, self._since = pointer.version, now
        if now - self._since < pointer.hold_limit_s:
            return pointer
        if self._warned_version != pointer.version:
            self._warned_version = pointer.version
            _LOG.warning(
                "the pointer has held for its limit of %g s (version %d) and was not moved: continuing at %s",
                pointer.hold_limit_s,
                pointer.version,
                pointer.active,
            )
        return replace(pointer, hold=False)
