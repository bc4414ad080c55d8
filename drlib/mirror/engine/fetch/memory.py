"""How many bytes of fetched data one worker keeps, over all its flows and lanes.

Rules: a fetch response counts whole, from its arrival until the last batch that views it is dropped, because a view keeps
its frame alive; a copy of a batch counts by itself. The bytes a request may return count from when it is sent. At the limit
no request is sent, and callbacks run when bytes are released. A single response may exceed the limit, because one batch
must always be able to pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from drlib.errors import UsageError

DEFAULT_WORKER: Final = 256 << 20
RESERVED: Final = 128 << 20
"""Of a worker's memory: interpreter, code, maps, socket buffers, and what malloc does not return."""
LEAST_WORKER: Final = RESERVED + (32 << 20)


def data_share(worker_bytes: int) -> int:
    """Bytes of fetched data that a worker limited to `worker_bytes` may keep. Raises `UsageError` when that is too little."""
    if worker_bytes < LEAST_WORKER:
        raise UsageError(
            f"--memory of {worker_bytes >> 20} MiB is too little",
            f"a worker takes {RESERVED >> 20} MiB before it keeps any record",
            f"Give at least {LEAST_WORKER >> 20}MiB; the default is {DEFAULT_WORKER >> 20}MiB.",
        )
    return worker_bytes - RESERVED


class Memory:
    """Counts reserved bytes against `limit`."""

    def __init__(self, limit: int = DEFAULT_WORKER - RESERVED) -> None:
        self.limit = limit
        self.reserved = 0
        self._callbacks: dict[Callable[[], None], None] = {}

    def has_room(self) -> bool:
        return self.reserved < self.limit

    def reserve(self, size: int) -> Reservation:
        """Count `size` bytes until the last reference to the returned object is dropped."""
        return Reservation(self, size)

    def when_freed(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, when released bytes have made room."""
        self._callbacks[callback] = None

    def _release(self, size: int) -> None:
        self.reserved -= size
        if self._callbacks and self.has_room():
            callbacks, self._callbacks = self._callbacks, {}
            for callback in callbacks:
                callback()


class Reservation:
    """Reserved bytes, released with the last reference, so that no code path can forget them."""

    __slots__ = ("_memory", "size")

    def __init__(self, memory: Memory, size: int) -> None:
        self._memory = memory
        self.size = size
        memory.reserved += size

    def reserve_more(self, size: int) -> Reservation:
        """Reserve `size` bytes independently, for a copy that outlives this reservation."""
        return self._memory.reserve(size)

    def resize(self, size: int) -> None:
        """Correct the count to the `size` bytes that arrived."""
        before, self.size = self.size, size
        if size < before:
            self._memory._release(before - size)
        else:
            self._memory.reserved += size - before

    def __del__(self) -> None:
        self._memory._release(self.size)
