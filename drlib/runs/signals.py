"""Ctrl-C and SIGTERM, handled for as long as something runs, and the event that their handlers set.

Rules: a handler runs in the main thread, between any two of its instructions: it takes no lock that this thread may hold.
`threading.Event` has one, so a handler that sets an event that the main thread waits for may wait for ever.
Not for: what a signal means, which is the caller's.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class SignalSafeEvent:
    """A `threading.Event` that a signal handler may set: it waits with `queue.SimpleQueue`, whose `put` is reentrant."""

    def __init__(self) -> None:
        self._set = False
        self._wake: SimpleQueue[None] = SimpleQueue()

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        self._wake_one()

    def clear(self) -> None:
        self._set = False

    def wait(self, seconds: float) -> bool:
        """Wait for at most `seconds`; True when it is set."""
        until = time.monotonic() + seconds
        while not self._set:
            try:
                self._wake.get(timeout=max(0.0, until - time.monotonic()))
            except Empty:
                break
            if self._set:
                self._wake_one()  # another thread that waits
        return self._set

    def _wake_one(self) -> None:
        if self._wake.empty():  # else no thread waits: what is in it is of a time before `clear`
            self._wake.put(None)


@contextmanager
def handled(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> Iterator[None]:
    """While inside, `handler` takes both. Outside the main thread there are no signals to take."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = [(number, signal.signal(number, handler)) for number in SIGNALS]
    try:
        yield
    finally:
        for number, earlier in before:
            signal.signal(number, earlier)
