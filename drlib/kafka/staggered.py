"""Attempts in order of preference: while one is silent the next is begun beside it, and the first to succeed counts.

What RFC 8305 does with the addresses of a host name, for those and for the brokers of a cluster: one that drops packets or is
frozen costs a pause and not its whole timeout.

Rules:
- An attempt that fails is followed at once; one that is silent after `pause_s`.
- An attempt that raises anything but the expected failures ends all of them.
- What succeeds after the first success, or when the caller was cancelled, is discarded.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

Result = TypeVar("Result")


class AllFailed(Exception):
    """Every attempt failed: `failures` in the order of the attempts."""

    def __init__(self, failures: Sequence[Exception]) -> None:
        super().__init__(failures)
        self.failures = tuple(failures)


async def first_success(
    attempts: Sequence[Callable[[], Coroutine[Any, Any, Result]]],
    *,
    pause_s: float,
    failures: tuple[type[Exception], ...],
    discard: Callable[[Result], None],
) -> Result:
    """The result of the first attempt that succeeds. Raises `AllFailed`, and what an attempt raises beside `failures`."""
    waiting = deque(enumerate(attempts))
    begun: dict[asyncio.Task[Result], int] = {}
    failed: dict[int, Exception] = {}
    try:
        while waiting or begun:
            if waiting:
                at, attempt = waiting.popleft()
                begun[asyncio.create_task(attempt())] = at
            done, _ = await asyncio.wait(
                begun, timeout=pause_s if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in sorted(done, key=begun.__getitem__):
                at = begun.pop(task)
                try:
                    first = task.result()
                except failures as failure:
                    failed[at] = failure
                    continue
                try:
                    await _end(begun, discard)
                except asyncio.CancelledError:
                    discard(first)
                    raise
                return first
    finally:
        await _end(begun, discard)
    raise AllFailed([failed[at] for at in sorted(failed)])


async def _end(begun: dict[asyncio.Task[Result], int], discard: Callable[[Result], None]) -> None:
    """Cancel attempts and wait for their end, which discards what they opened, also when nothing waits for it any more."""

    def ended(task: asyncio.Task[Result]) -> None:
        if not task.cancelled() and task.exception() is None:
            discard(task.result())

    tasks = list(begun)
    begun.clear()
    for task in tasks:
        if task.done():
            ended(task)
        else:
            task.add_done_callback(ended)
            task.cancel()
    if tasks:
        await asyncio.wait(tasks)
