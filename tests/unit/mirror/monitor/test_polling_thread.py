"""When a polling thread polls, pauses and ends."""

from __future__ import annotations

import threading

from drlib.errors import UsageError
from drlib.mirror.monitor.polling_thread import PollingThread


def test_polling_thread_polls_until_closed() -> None:
    polls = threading.Semaphore(0)
    thread = PollingThread(polls.release, name="test-poll", interval_s=0.001)
    assert not thread.alive
    thread.start()
    thread.start()
    for _ in range(3):
        assert polls.acquire(timeout=10)
    assert [t.name for t in threading.enumerate()].count("test-poll") == 1
    thread.close(10)
    assert (thread.closed, thread.alive, thread.error) == (True, False, None)


def test_polling_thread_error_ends_it_and_is_kept() -> None:
    error = UsageError("nothing to poll", "the file is empty", "Fill it.")

    def poll() -> None:
        raise error

    thread = PollingThread(poll, name="test-poll", interval_s=60)
    thread.start()
    thread.close(10)
    assert (thread.error, thread.alive) == (error, False)


def test_polling_thread_unexpected_error_is_kept_as_one_of_ours() -> None:
    def poll() -> None:
        raise RecursionError("maximum recursion depth exceeded")

    thread = PollingThread(poll, name="test-poll", interval_s=60)
    thread.start()
    thread.close(10)
    assert not thread.alive
    assert "RecursionError: maximum recursion depth exceeded" in str(thread.error)


def test_polling_thread_close_does_not_wait_for_a_poll_by_default() -> None:
    started, may_end = threading.Event(), threading.Event()

    def poll() -> None:
        started.set()
        may_end.wait(10)

    thread = PollingThread(poll, name="test-poll", interval_s=60)
    thread.start()
    assert started.wait(10)
    thread.close()
    assert thread.alive
    may_end.set()
    thread.close(10)
    assert not thread.alive
