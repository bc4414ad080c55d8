"""What one worker may hold of fetched data, over all its flows and lanes.

Rules: a fetch answer counts whole, from its arrival until the last batch that views it is dropped, because a view keeps
its frame alive; a copy made of it counts by itself. What was asked for counts before it is here. At the limit nobody asks
for more, and whoever waits is told when room comes back. A single answer may exceed the limit: one batch must always be
able to pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from drlib.errors import UsageError

DEFAULT_WORKER: Final = 256 << 20
RESERVED: Final = 128 << 20
"""Of a worker's memory: the interpreter, its code, the maps, the buffers of sockets, and what malloc keeps to itself."""
LEAST_WORKER: Final = RESERVED + (32 << 20)


def data_share(worker_bytes: int) -> int:
    """What a worker that may take `worker_bytes` may hold of fetched data, bytes. Raises `UsageError`."""
    if worker_bytes < LEAST_WORKER:
        raise UsageError(
            f"--memory of {worker_bytes >> 20} MiB is too little",
            f"a worker takes {RESERVED >> 20} MiB before it holds any record",
            f"Give at least {LEAST_WORKER >> 20}MiB; the default is {DEFAULT_WORKER >> 20}MiB.",
        )
    return worker_bytes - RESERVED


class Memory:
    """`limit` in bytes."""

    def __init__(self, limit: int = DEFAULT_WORKER - RESERVED) -> None:
        self.limit = limit
        self.held = 0
        self._waiting: dict[Callable[[], None], None] = {}

    def room(self) -> bool:
        return self.held < self.limit

    def hold(self, size: int) -> Hold:
        """Count `size` bytes until the returned object is dropped by everybody."""
        return Hold(self, size)

    def when_freed(self, call: Callable[[], None]) -> None:
        """Call `call` once, when bytes were given back."""
        self._waiting[call] = None

    def _freed(self, size: int) -> None:
        self.held -= size
        if self._waiting and self.room():
            waiting, self._waiting = self._waiting, {}
            for call in waiting:
                call()


class Hold:
    """A share of the memory; given back when the last reference to it goes, so that no way out can forget it."""

    __slots__ = ("_memory", "size")

    def __init__(self, memory: Memory, size: int) -> None:
        self._memory = memory
        self.size = size
        memory.held += size

    def beside(self, size: int) -> Hold:
        """Count `size` bytes more, for a copy that outlives what this counts."""
        return self._memory.hold(size)

    def resize(self, size: int) -> None:
        """What was asked for turned out to be `size` bytes."""
        before, self.size = self.size, size
        if size < before:
            self._memory._freed(before - size)
        else:
            self._memory.held += size - before

    def __del__(self) -> None:
        self._memory._freed(self.size)
