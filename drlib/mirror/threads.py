"""Runs blocking work beside the event loop, on daemon threads that do not delay the end of the process.

Rules: an error of the work is raised where it is awaited; the result of a cancelled call is dropped. The default executor
would delay the end of the process for as long as a client library waits for a broker that does not answer. Threads come and
go, by the thousand while a cluster is dead: their memory is of few arenas.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import threading
from collections.abc import Callable
from typing import Final, TypeVar, cast

Answer = TypeVar("Answer")
_ARENA_MAX: Final = -8  # M_ARENA_MAX of glibc's malloc.h
_ARENAS: Final = 2


def share_arenas() -> None:
    """From now on threads of this process take memory from few arenas, in place of one for each that runs at a time, of which
    each keeps what its threads left scattered in it. Without effect where the C library is not glibc."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_ARENA_MAX, _ARENAS)


async def in_daemon(work: Callable[[], Answer]) -> Answer:
    """Run blocking `work` on a daemon thread and return its result."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Answer] = loop.create_future()

    def settle(answer: Answer | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(cast("Answer", answer))

    def run() -> None:
        try:
            answer: Answer | None = work()
            error: Exception | None = None
        except Exception as problem:
            # A future refuses a StopIteration, and the caller would wait for ever.
            answer, error = None, RuntimeError(repr(problem)) if isinstance(problem, StopIteration) else problem
        with contextlib.suppress(RuntimeError):  # the loop is closed: the result is not awaited any more
            loop.call_soon_threadsafe(settle, answer, error)

    threading.Thread(target=run, name="drlib-blocking", daemon=True).start()
    return await done
