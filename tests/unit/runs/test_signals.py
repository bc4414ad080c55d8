"""The event that a signal handler sets, whatever its main thread is doing meanwhile."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import pytest

from drlib.runs.signals import SignalSafeEvent

# A signal at the first, second, ... line that a method runs, until one more than it has: where a lock is held, too.
AT_EACH_LINE = """
import faulthandler, signal, sys
from drlib.runs.signals import SignalSafeEvent as Event

faulthandler.dump_traceback_later(20, exit=True)
at_line = lines = 0

def trace(frame, event, _):
    global lines
    if event == "line":
        lines += 1
        if lines == at_line:
            signal.raise_signal(signal.SIGTERM)
    return trace

for method in ("wait", "set", "clear"):
    at_line = 0
    while True:
        at_line, lines = at_line + 1, 0
        event = Event()
        signal.signal(signal.SIGTERM, lambda *_: event.set())
        call = getattr(event, method)
        given = (0.001,) if method == "wait" else ()
        sys.settrace(trace)
        call(*given)
        sys.settrace(None)
        if lines < at_line:
            break
        if method == "wait":
            assert event.is_set() and event.wait(0), at_line
    print(method, at_line > 1)
"""


def test_signal_safe_event_is_set_by_a_handler_at_each_line_of_its_methods() -> None:
    done = subprocess.run([sys.executable, "-c", AT_EACH_LINE], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split("\n") == ["wait True", "set True", "clear True", ""], done.stderr


def test_signal_safe_event_wakes_all_who_wait() -> None:
    event, woken = SignalSafeEvent(), []
    threads = [threading.Thread(target=lambda: woken.append(event.wait(30))) for _ in range(3)]
    for each in threads:
        each.start()
    event.set()
    for each in threads:
        each.join(10)
    assert woken == [True] * 3


@pytest.mark.parametrize("seconds", [-1.0, 0.0, 0.01])
def test_signal_safe_event_that_was_cleared_waits_again(seconds: float) -> None:
    event = SignalSafeEvent()
    for _ in range(3):
        event.set()
        event.clear()
    since = time.monotonic()
    assert not event.wait(seconds)
    assert time.monotonic() - since >= seconds
    event.set()
    assert event.wait(seconds)
