"""One link inside the proxy process: a listener, its connections, and the bytes between them.

Rules: toxics apply to open and new connections; bytes are never lost, doubled or reordered while a connection lives (a cut
ends it with RST); a slow link applies back-pressure to its sender instead of filling memory. Connections that are forgotten,
as by a firewall that lost its table, stay open and silent: neither bytes nor their end get through; new ones do. Not for:
the process and its control (`proxy`), the arithmetic of delay and bandwidth (`toxics`).
"""

import asyncio
import collections
import contextlib
import functools
import socket
import struct
import sys
import time
from dataclasses import dataclass, replace
from typing import Final, Literal, cast, get_args

from drlib.lab.link.toxics import SILENT_BYTES, Shaper, Toxics

HOST: Final = "127.0.0.1"
APPS_HOST: Final = "127.0.0.2"  # as brokers see applications: all of 127.0.0.0/8 is this machine, on Linux
APPS_LINK: Final = "apps:"  # before the name of a broker: its link for applications
Direction = Literal["requests", "responses", "both"]
LISTEN_ATTEMPTS: Final = 20


@dataclass(frozen=True, slots=True)
class LinkState:
    """The state of one link. `requests` flow to the broker, `responses` from it; byte counts are of delivered bytes."""

    name: str
    port: int
    target: int
    cut: bool
    requests: Toxics
    responses: Toxics
    connections: int
    bytes_to_broker: int
    bytes_to_client: int


class Link:
    """One listener, its target port, and the connections between."""

    def __init__(self, name: str, port: int) -> None:
        self.name = name
        self.port = port
        self.target = 0
        self.cut = False
        self.requests = Shaper()
        self.responses = Shaper()
        self.delivered = [0, 0]  # to the broker, to the client
        self.halves: set[Half] = set()
        self._server: asyncio.Server | None = None

    @property
    def comes_from(self) -> tuple[str, int] | None:
        """Where its connections to the broker come from: applications have an address of their own, where there are several."""
        return (APPS_HOST, 0) if self.name.startswith(APPS_LINK) and sys.platform == "linux" else None

    async def listen(self, *, attempts: int = LISTEN_ATTEMPTS) -> None:
        loop = asyncio.get_running_loop()
        for attempt in range(1, attempts + 1):
            try:
                self._server = await loop.create_server(
                    functools.partial(ClientHalf, self), HOST, self.port, backlog=512
                )
                return
            except OSError:
                if attempt == attempts:
                    raise
                await asyncio.sleep(0.1)  # an outgoing connection of another process may use the port for a moment

    async def set_cut(self, cut: bool) -> None:
        if cut == self.cut:
            return
        if not cut:
            await self.listen()
        self.cut = cut
        if cut and self._server is not None:
            self._server.close()
            self._server = None
            self.reset()

    def change(self, direction: str, toxics: dict[str, object]) -> None:
        if direction not in get_args(Direction):
            raise ValueError(f"unknown direction {direction}")
        changed = {key: value for key, value in toxics.items() if value is not None}
        for name, shaper in (("requests", self.requests), ("responses", self.responses)):
            if direction in (name, "both"):
                shaper.change(replace(shaper.toxics, **changed))  # type: ignore[arg-type]
        for half in tuple(self.halves):
            half.reconsider()
            if half.other is not None and not half.other.open:
                half.other.reconsider()  # it closed, but its last bytes are still queued

    def reset(self) -> None:
        for half in tuple(self.halves):
            half.reset()

    def forget(self, direction: str) -> None:
        """Deliver nothing more of the open connections in this direction, whatever becomes of the link."""
        for half in tuple(self.halves):
            half.forgotten = half.forgotten or direction in (("requests", "responses")[half.way], "both")

    def state(self) -> LinkState:
        connections = sum(isinstance(half, ClientHalf) for half in self.halves)
        return LinkState(
            name=self.name,
            port=self.port,
            target=self.target,
            cut=self.cut,
            requests=self.requests.toxics,
            responses=self.responses.toxics,
            connections=connections,
            bytes_to_broker=self.delivered[0],
            bytes_to_client=self.delivered[1],
        )


class Half(asyncio.Protocol):
    """One socket of a connection: bytes read are queued, shaped, and written to its `other`."""

    transport: asyncio.Transport

    def __init__(self, link: Link, shaper: Shaper, way: int) -> None:
        self.link = link
        self.shaper = shaper
        self.way = way
        self.other: Half | None = None
        self.queue: collections.deque[tuple[float, bytes]] = collections.deque()
        self.queued = 0
        self.ended = False  # the peer will send no more
        self.eof_sent = False  # `other` received it too
        self.open = False
        self.forgotten = False  # nothing that is read here is delivered any more
        self.writable = True  # whether `other` may write to us
        self._reading = True
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its base class
        self.open = True
        self.link.halves.add(self)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        for piece in self.shaper.toxics.slices(data):
            self.queue.append((self.shaper.due(now, len(piece)), piece))
        self.queued += len(data)
        self.deliver()

    def eof_received(self) -> bool:
        self.ended = True
        self.deliver()
        return True  # the other direction may still carry bytes

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        if self.other is not None:
            self.other.deliver()

    def connection_lost(self, problem: Exception | None) -> None:
        self.open = False
        self.ended = True
        self.link.halves.discard(self)
        other = self.other
        if other is None or self.forgotten:
            return
        if problem is not None:
            other.reset()  # an error on one side is a reset on the other
        else:
            self.deliver()  # bytes sent before it closed still arrive; then `other` is closed
            if other.queue or other.queued:
                other.drop()

    def deliver(self) -> None:
        """Write the chunks that are due, arm the timer for the rest, and apply back-pressure when too much is queued."""
        other = self.other
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        silent = self.forgotten or self.shaper.toxics.blackhole
        if other is not None and other.open and other.writable and not silent:
            now = time.monotonic()
            ready = []
            while self.queue and self.queue[0][0] <= now:
                ready.append(self.queue.popleft()[1])
            if ready:
                data = ready[0] if len(ready) == 1 else b"".join(ready)
                self.queued -= len(data)
                self.link.delivered[self.way] += len(data)
                other.transport.write(data)  # may call pause_writing, and then nothing more is written
            if self.queue and other.writable:
                self._timer = asyncio.get_running_loop().call_at(
                    asyncio.get_running_loop().time() + self.queue[0][0] - now, self.deliver
                )
            if self.ended and not self.queue:
                self._finish(other)
        self._push_back()

    def reconsider(self) -> None:
        """After a change of toxics: chunks that the new link would have delivered by now are delivered."""
        now = time.monotonic()
        self.queue = collections.deque((min(due, self.shaper.due(now, len(piece))), piece) for due, piece in self.queue)
        self.deliver()

    def drop(self) -> None:
        self.queue.clear()
        self.queued = 0

    def reset(self) -> None:
        """Close with RST, both sides."""
        for half in (self, self.other):
            if half is None:
                continue
            half.drop()
            if half.open:
                # A close with SO_LINGER 0 is what sends RST; abort() alone ends with FIN when nothing is unread.
                half.transport.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )
                half.transport.abort()

    def _finish(self, other: "Half") -> None:
        if self.open and other.open:
            if not self.eof_sent:
                self.eof_sent = True
                with contextlib.suppress(OSError, RuntimeError):  # it may be closing at this very moment
                    other.transport.write_eof()
            if other.ended and not other.queue:
                self.transport.close()
                other.transport.close()
        elif other.open:
            other.transport.close()

    def _push_back(self) -> None:
        if not self.open:
            return
        limit = SILENT_BYTES if self.forgotten else self.shaper.toxics.in_flight_bytes
        if self._reading and self.queued > limit:
            self._reading = False
            self.transport.pause_reading()
        elif not self._reading and self.queued <= limit // 2:
            self._reading = True
            self.transport.resume_reading()


class ClientHalf(Half):
    """The side of the client; it opens the broker's side."""

    def __init__(self, link: Link) -> None:
        super().__init__(link, link.requests, 0)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._dialling = asyncio.get_running_loop().create_task(self._dial())

    async def _dial(self) -> None:
        broker = Half(self.link, self.link.responses, 1)
        try:
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: broker, HOST, self.link.target, local_addr=self.link.comes_from)
        except OSError:
            self.reset()  # no broker: the client gets the RST that it would get without a proxy
            return
        if not self.open:
            broker.transport.abort()
            return
        self.other, broker.other = broker, self
        self.deliver()
        broker.deliver()
