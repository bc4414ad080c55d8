"""Addresses of bootstrap servers' host names: looked up beside connections, and kept for when lookups take long or fail.

A cluster is often lost together with a resolver of its site. Then each lookup takes as long as the system waits for that one
(5 s by default), which is more than a server has to accept, and names of the lost cluster may have no answer for minutes.

Rules:
- Of each name there is one lookup at a time, on a daemon thread of its own: it holds up no other name, nor the process's end.
- What was found counts for `FRESH_S`. Then it is looked up again, and where that takes longer than `PATIENCE_S`, or fails, what
  was found before counts. A name that was never found is waited for as long as the caller does.
Not for: which address is tried first, and for how long (`proxy`).
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import Sequence
from typing import Final

from drlib.client.bootstrap.rules import Address

FRESH_S: Final = 5.0
PATIENCE_S: Final = 0.5

Info = tuple[int, int, int, tuple[object, ...]]
"""Family, type and protocol of a socket, and the address that it connects to."""


class Names:
    """Made and used on one event loop."""

    def __init__(self) -> None:
        self._found: dict[Address, tuple[Sequence[Info], float]] = {}
        self._looking: dict[Address, asyncio.Future[Sequence[Info]]] = {}

    def is_known(self, name: Address) -> bool:
        return name in self._found

    def look_up(self, name: Address) -> asyncio.Future[Sequence[Info]] | None:
        """Begin a lookup, unless one runs or what was found is fresh; the one that runs."""
        _, at = self._found.get(name, ((), float("-inf")))
        if name not in self._looking and time.monotonic() - at > FRESH_S:
            with contextlib.suppress(OSError, UnicodeError):  # not an IP address, which needs no lookup
                self._found[name] = _infos(name, socket.AI_NUMERICHOST), float("inf")
                return None
            loop = asyncio.get_running_loop()
            looking = self._looking[name] = loop.create_future()
            looking.add_done_callback(lambda _: self._looking.pop(name, None))
            threading.Thread(target=self._run, args=(loop, name), name="bootstrap-lookup", daemon=True).start()
        return self._looking.get(name)

    async def any_known(self, names: Sequence[Address]) -> None:
        """Wait until one of `names` is known, or a lookup has failed."""
        looking = [each for each in map(self.look_up, names) if each is not None]
        if looking and not any(map(self.is_known, names)):
            await asyncio.wait(looking, return_when=asyncio.FIRST_COMPLETED)

    async def addresses(self, name: Address) -> Sequence[Info]:
        """Raises OSError for a name that has none, and was never found."""
        looking = self.look_up(name)
        if looking is not None:
            await asyncio.wait([looking], timeout=PATIENCE_S if self.is_known(name) else None)
            if not self.is_known(name):
                return await asyncio.shield(looking)
        return self._found[name][0]

    def _run(self, loop: asyncio.AbstractEventLoop, name: Address) -> None:
        found: Sequence[Info] = ()
        error: Exception | None = None
        try:
            found = _infos(name)
        except (OSError, UnicodeError) as problem:
            error = problem if isinstance(problem, OSError) else OSError(str(problem))
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(self._take, name, found, error)

    def _take(self, name: Address, found: Sequence[Info], error: Exception | None) -> None:
        looking = self._looking.get(name)
        if error is None:
            self._found[name] = found, time.monotonic()
        if looking is not None and not looking.done():
            if error is None:
                looking.set_result(found)
            else:
                looking.set_exception(error)
                looking.exception()  # who waits has it; none need wait


def _infos(name: Address, flags: int = 0) -> Sequence[Info]:
    infos = socket.getaddrinfo(*name, type=socket.SOCK_STREAM, flags=flags)
    return [(family, kind, protocol, where) for family, kind, protocol, _, where in infos]
