"""Work on a thread beside a test, until the test is over with it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def beside(work: Callable[[threading.Event], None]) -> Iterator[threading.Event]:
    """Run `work` while inside. It gets an event, which is set at the end or by the test before, and is waited for."""
    ended = threading.Event()
    thread = threading.Thread(target=work, args=[ended])
    thread.start()
    try:
        yield ended
    finally:
        ended.set()
        thread.join()
