"""One connection that is passed on: a client's socket, a server's socket, and the bytes between them, unread.

Rules: bytes are never changed, lost or reordered while both sockets live; a side that does not read stops the other from being
read (`MOST_BUFFERED` bytes wait for each); the end of one half is passed on, the other half continues. Nothing is read from the
client before a server is connected. A side that does not take its last bytes within `LINGER_S` does not get them.
Not for: which server, limits and time-outs (`proxy`); what follows what (`rules.TRANSITIONS`).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Final, cast

from drlib.client.bootstrap.rules import TRANSITIONS, Act, Happened, State

MOST_BUFFERED: Final = 64 << 10
LINGER_S: Final = 5.0


class Side(asyncio.Protocol):
    """One of the two sockets; `opened` is called when it is connected."""

    transport: asyncio.Transport | None = None

    def __init__(self, connection: Connection, end: Happened, opened: Callable[[], None]) -> None:
        self._connection = connection
        self._end = end
        self._opened = opened
        self.bytes = 0  # read here
        self.other: Side | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=MOST_BUFFERED)
        self._opened()

    def data_received(self, data: bytes) -> None:
        self._connection.active_at = time.monotonic()
        self.bytes += len(data)
        if self.other is not None and self.other.transport is not None:
            self.other.transport.write(data)

    def eof_received(self) -> bool:
        self._connection.happened(self._end)
        return True  # the other half may still carry bytes

    def pause_writing(self) -> None:
        self._read_other(reading=False)

    def resume_writing(self) -> None:
        self._read_other(reading=True)

    def _read_other(self, *, reading: bool) -> None:
        transport = None if self.other is None else self.other.transport
        if transport is not None and not transport.is_closing():
            (transport.resume_reading if reading else transport.pause_reading)()

    def connection_lost(self, error: Exception | None) -> None:
        self._connection.happened(Happened.LOST)

    def end_writing(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            with contextlib.suppress(OSError):  # the peer went away at this very moment: that is reported next
                self.transport.write_eof()


class Connection:
    """A client that is accepted, and its server. `accepted` is called when the client is connected, `closed` once, when both
    sockets are on their way out."""

    def __init__(self, accepted: Callable[[Connection], None], closed: Callable[[Connection], None]) -> None:
        self.client = Side(self, Happened.CLIENT_END, lambda: self._accept(accepted))
        self.server: Side | None = None
        self.state = State.CONNECTING
        self.cluster = ""
        self.active_at = time.monotonic()
        self.reason = ""  # why it was given up
        self.connecting: asyncio.Task[None] | None = None
        self._closed = closed

    def _accept(self, accepted: Callable[[Connection], None]) -> None:
        if self.state is State.CLOSED:  # it was given up before
            return self._sockets(at_once=True)
        if self.client.transport is not None:
            self.client.transport.pause_reading()
        accepted(self)
        return None

    def new_server(self) -> Side:
        """The side of the next attempt to connect to a server."""
        side = Side(self, Happened.SERVER_END, lambda: self.happened(Happened.CONNECTED))
        self.server, self.client.other, side.other = side, side, self.client
        return side

    def give_up(self, reason: str) -> None:
        if self.state is not State.CLOSED:
            self.reason = reason
            self.happened(Happened.GIVEN_UP)

    def happened(self, what: Happened) -> None:
        """Take the transition; what comes after the end, such as the second socket's, changes nothing."""
        if self.state is State.CLOSED:
            return self._sockets(at_once=True) if what is Happened.CONNECTED else None
        self.state, act = TRANSITIONS[self.state, what]
        if act is Act.READ:
            if self.client.transport is not None:
                self.client.transport.resume_reading()
        elif act is Act.END_SERVER and self.server is not None:
            self.server.end_writing()
        elif act is Act.END_CLIENT:
            self.client.end_writing()
        if self.state is State.CLOSED:
            if self.connecting is not None:
                self.connecting.cancel()
            self._sockets(at_once=act is Act.ABORT)
            self._closed(self)
        return None

    def _sockets(self, *, at_once: bool) -> None:
        transports = [side.transport for side in (self.client, self.server) if side is not None and side.transport]
        for transport in transports:
            (transport.abort if at_once else transport.close)()
            if not at_once:
                asyncio.get_running_loop().call_later(LINGER_S, transport.abort)
