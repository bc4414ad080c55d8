"""A hold that ends by itself: applications go on where they are when whoever held them never came back.

Rules: the limit counts from when this process first saw the hold, by its own monotonic clock. That is never before the hold
was written, so whoever holds and moves within the limit, counted from its own writing, is sure that nobody has gone on; no
two clocks are compared. A process that starts meanwhile counts anew. A hold without a limit never ends by itself.
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
    """What a pointer means to one process, its holds cut short where they have run out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._version = -1
        self._since = 0.0
        self._told = -1

    def applied(self, pointer: Pointer | None) -> Pointer | None:
        """`pointer`, or the same without its hold once that has lasted for its limit."""
        if pointer is None or not pointer.hold or not pointer.hold_limit_s:
            return pointer
        now = self._clock()
        if pointer.version != self._version:
            self._version, self._since = pointer.version, now
        if now - self._since < pointer.hold_limit_s:
            return pointer
        if self._told != pointer.version:
            self._told = pointer.version
            _LOG.warning(
                "held for %g s by version %d of the pointer, and nobody has moved it: going on at %s",
                pointer.hold_limit_s,
                pointer.version,
                pointer.active,
            )
        return replace(pointer, hold=False)
