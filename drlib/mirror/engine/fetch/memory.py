"""How many bytes of fetched data one worker keeps, over all its flows and lanes.

Rules: a fetch response counts whole, from its arrival until the last batch that views it is dropped, because a view keeps
its frame alive; a copy of a batch counts by itself. The bytes a request may return count from when it is sent. At the limit
no request is sent, and callbacks run when bytes are released. A single response may exceed the limit, because one batch
must always be able to pass. Three own a reservation: a request in flight, until its reader ends; a response, while its reader
handles it; a stream, with the batches and the responses beyond a hole that wait there, until they are acknowledged, the
partition is parked or jumps, or the claim ends. Bytes belong to a share, one for each claim of a lane, and end with it at the
latest, whatever still refers to them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from drlib.errors import UsageError

DEFAULT_WORKER: Final = 256 << 20
RESERVED: Final = 128 << 20
"""Of a worker's memory: interpreter, code, maps, socket buffers, and what malloc does not return."""
LEAST_WORKER: Final = RESERVED + (32 << 20)


def data_share(worker_bytes: int) -> int:
    """Bytes of fetched data that a worker limited to `worker_bytes` may keep. Raises `UsageError` when that is too little."""
    if worker_bytes < LEAST_WORKER:
        in_bytes = worker_bytes < 1 << 20
        size = f"{worker_bytes} bytes" if in_bytes else f"{worker_bytes >> 20} MiB"
        raise UsageError(
            f"--memory of {size} is too little",
            "a number without a unit is bytes, and " * in_bytes
            + f"a worker takes {RESERVED >> 20} MiB before it keeps any record",
            f"Give at least {LEAST_WORKER >> 20}MiB; the default is {DEFAULT_WORKER >> 20}MiB.",
        )
    return worker_bytes - RESERVED


class Memory:
    """Counts the bytes of all shares against `limit`."""

    def __init__(self, limit: int = DEFAULT_WORKER - RESERVED) -> None:
        self.limit = limit
        self.reserved = 0
        self.leaked = 0  # bytes that claims still held when everything they had read was acknowledged: always 0
        self._shares: dict[MemoryShare, None] = {}
        self._callbacks: dict[Callable[[], None], MemoryShare] = {}

    def share(self, owner: str) -> MemoryShare:
        """Begin a share of `owner`, the lane whose claim keeps the bytes; end it with `MemoryShare.close`."""
        share = MemoryShare(self, owner)
        self._shares[share] = None
        return share

    def by_owner(self) -> Mapping[str, int]:
        """Bytes reserved now, by owner; owners without any are left out."""
        held: dict[str, int] = {}
        for share in self._shares:
            if share.held:
                held[share.owner] = held.get(share.owner, 0) + share.held
        return held

    def in_words(self) -> str:
        """What is reserved, for an event."""
        most = max(self.by_owner().items(), key=lambda item: item[1], default=None)
        owner = "" if most is None else f", most of them, {most[1] >> 10} KiB, for {most[0]}"
        return f"this worker keeps {self.reserved >> 10} of {self.limit >> 10} KiB of records{owner}"

    def _count(self, share: MemoryShare, size: int) -> None:
        """Reserve `size` more bytes for `share`; release where it is negative."""
        share.held += size
        self.reserved += size
        if size >= 0 or not self._callbacks:
            return
        if self.reserved < self.limit:
            due = list(self._callbacks)
        elif share.held == 0:
            due = [callback for callback, waiting in self._callbacks.items() if waiting is share]
        else:
            return
        for callback in due:
            del self._callbacks[callback]
        for callback in due:
            callback()


class MemoryShare:
    """What one claim of a lane has reserved: `held` bytes."""

    def __init__(self, memory: Memory, owner: str) -> None:
        self.memory = memory
        self.owner = owner
        self.held = 0
        self._closed = False

    @property
    def limit(self) -> int:
        """Bytes that all shares may have together."""
        return self.memory.limit

    def has_room(self) -> bool:
        return self.memory.reserved < self.memory.limit

    def reserve(self, size: int) -> Reservation:
        """Count `size` bytes until the last reference to the returned object is dropped, or this share is closed."""
        return Reservation(self, size)

    def when_freed(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, when released bytes have made room, or when this share holds none any more."""
        if not self._closed:
            self.memory._callbacks[callback] = self

    def cancel(self, callback: Callable[[], None]) -> None:
        """Take back `when_freed`: the waiting party has ended."""
        self.memory._callbacks.pop(callback, None)

    def close(self, *, drained: bool = False) -> None:
        """End the claim's share: all it holds counts as released, and later reservations of it count for nothing.

        `drained`: everything that was read is acknowledged, so that whatever is still held was forgotten.
        """
        if self._closed:
            return
        self._closed = True
        if drained:
            self.memory.leaked += self.held
        self.memory._shares.pop(self, None)
        for callback in [c for c, waiting in self.memory._callbacks.items() if waiting is self]:
            del self.memory._callbacks[callback]
        self.memory._count(self, -self.held)

    def _count(self, size: int) -> None:
        if not self._closed:
            self.memory._count(self, size)


class Reservation:
    """Reserved bytes, released with the last reference, so that no code path can forget them."""

    __slots__ = ("_share", "size")

    def __init__(self, share: MemoryShare, size: int) -> None:
        self._share = share
        self.size = size
        share._count(size)

    def reserve_more(self, size: int) -> Reservation:
        """Reserve `size` bytes independently, for a copy that outlives this reservation."""
        return self._share.reserve(size)

    def resize(self, size: int) -> None:
        """Correct the count to the `size` bytes that arrived."""
        before, self.size = self.size, size
        self._share._count(size - before)

    def __del__(self) -> None:
        self._share._count(-self.size)
