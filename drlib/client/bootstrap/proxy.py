"""Accept clients and pass each connection on to a bootstrap server of one cluster, within limits.

Rules:
- Addresses are bound at once and listened at from the first cluster on: without one a client is refused, and tries another
  instance of its `bootstrap.servers`.
- A server has `CONNECT_S` to accept, all of them together `GIVE_UP_S`, less than clients wait for their first answer; then the
  client's connection is closed. A name whose lookup takes long holds up no other server.
- When the cluster changes, connections to the former one are closed at once, so that clients bootstrap again.
- A connection without a byte for `idle_s` is closed. `drain` lets conversations end, and closes what is silent.
- There are no more connections than this process may have open files for. Where files are used up nevertheless, a file that is
  kept for that is given up to accept and close the clients that wait, which would hang otherwise, and the next ones wait for
  `PAUSE_S`: a listening socket stays readable, so that accepting would be tried without end. (asyncio's own servers try it as
  often as their backlog is long, with a line of the log each.)
- What is reported is reported once, until it is over; places or files are used up until none was missing for `CALM_S`.
Not for: deciding (`rules`), the pointer (`follow`), one connection's bytes (`connection`).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from drlib import decoding
from drlib.client.bootstrap import notes
from drlib.client.bootstrap.connection import Connection
from drlib.client.bootstrap.names import Info, Names
from drlib.client.bootstrap.notes import Note
from drlib.client.bootstrap.rules import State, connections_within, ended_for_new, servers_in_turn
from drlib.errors import UsageError
from drlib.formats import bracketed, count
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.staggered import AllFailed, first_success

CONNECT_S: Final = 2.0
GIVE_UP_S: Final = 8.0  # librdkafka waits 10 s for its first answer (api.version.request.timeout.ms), Java 30 s
QUIET_S: Final = 1.0  # in which a conversation has ended, when draining
TICK_S: Final = 0.1
PAUSE_S: Final = 0.2
CALM_S: Final = 5.0
_LOWEST_FREE: Final = 1024  # lower ports are root's
_BACKLOG: Final = 1024
_AT_ONCE: Final = 64  # clients accepted before anything else is done
_OUT_OF_FILES: Final = frozenset({errno.EMFILE, errno.ENFILE})
_EYEBALLS_S: Final = 0.25  # RFC 8305: when the next address of a name is tried beside the first
IDLE, MOVED, FULL, NO_SERVER, NO_FILE, DRAINED = "idle", "moved", "full", "no server", "no file", "drained"
FOR_NEW: Final = "for a new one"


@dataclass(frozen=True, slots=True)
class Limits:
    """`idle_s`: as brokers have it by default (connections.max.idle.ms)."""

    connections: int = 4000
    idle_s: float = 600.0


@dataclass(slots=True)
class Counts:
    """Since the start. `failed` attempts to connect are by server, `closed` by reason, `passed` by cluster."""

    accepted: int = 0
    passed: Counter[str] = field(default_factory=Counter)
    closed: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    bytes_to_servers: int = 0
    bytes_to_clients: int = 0


class Proxy:
    """Made and used on one event loop."""

    def __init__(self, limits: Limits, report: Callable[[Note], None]) -> None:
        self.limits = limits
        self.counts = Counts()
        self.cluster: ClusterSettings | None = None
        self.draining = False
        self._report = report
        self._listeners: list[socket.socket] = []
        self._is_listening = False
        self._spare: list[socket.socket] = []
        self._accepting: set[asyncio.Task[object]] = set()
        self._open: set[Connection] = set()
        self._turn = 0
        self._scarce_at = 0.0
        self._failed_at: dict[str, float] = {}
        self._names = Names()
        self._opened: dict[str, str] = {}  # notes that are open: name -> cluster

    async def bind(self, host: str, port: int) -> int:
        """Take an address, without listening; the port, which the system chooses for 0. Raises `UsageError`."""
        loop, taken = asyncio.get_running_loop(), len(self._listeners)
        try:
            infos = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            for family, kind, protocol, _, address in dict.fromkeys(infos):
                listener = socket.socket(family, kind, protocol)
                self._listeners.append(listener)
                listener.setblocking(False)
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listener.bind(address)
        except OSError as error:
            raise not_listening(host, port, error) from error
        return int(self._listeners[taken].getsockname()[1])

    async def point(self, cluster: ClusterSettings) -> int:
        """Pass new connections on to `cluster`, and close those to another one; how many were closed.

        The first time, it begins to listen. Raises `UsageError` where another process was first.
        """
        former: list[Connection] = []
        if self.cluster is not None and self.cluster.alias != cluster.alias:
            former = list(self._open)
            self._failed_at.clear()
            self._resolve(notes.UNREACHABLE)
        self.cluster = cluster
        for connection in former:
            connection.give_up(MOVED)
        if not self._is_listening and not self.draining:
            for listener in self._listeners:
                host, port = listener.getsockname()[:2]
                try:
                    listener.listen(_BACKLOG)
                except OSError as error:
                    raise not_listening(host, port, error) from error
            self._is_listening, self._spare = True, _spare_file()
            self._resume()
        return len(former)

    @property
    def connections(self) -> int:
        return len(self._open)

    @property
    def most_connections(self) -> int:
        """The limit, or fewer if this process may not have enough open files, which others may have changed."""
        return min(self.limits.connections, connections_within(most_files()))

    def close_idle(self) -> None:
        """Close what was silent for too long; called every second or so."""
        now = time.monotonic()
        for connection in [each for each in self._open if now - each.active_at > self.limits.idle_s]:
            connection.give_up(IDLE)
        if len(self._open) < self.most_connections and now - self._scarce_at > CALM_S:
            self._resolve(notes.TOO_MANY)
            self._resolve(notes.FEW_FILES)

    async def drain(self, deadline_s: float) -> None:
        """Accept no more, and return when every connection has ended: those that are not silent by `deadline_s` seconds."""
        self.draining = True
        self._pause()
        for each in (*self._listeners, *self._spare):
            each.close()
        self._listeners.clear()
        until = time.monotonic() + deadline_s
        while self._open and (now := time.monotonic()) < until:
            for connection in list(self._open):
                if connection.state is not State.CONNECTING and now - connection.active_at > QUIET_S:
                    connection.give_up(DRAINED)
            await asyncio.sleep(TICK_S)
        for connection in list(self._open):
            connection.give_up(DRAINED)

    def _resume(self) -> None:
        """Accept clients, until `_pause`."""
        if not self.draining:
            for listener in self._listeners:
                asyncio.get_running_loop().add_reader(listener, self._accept_waiting, listener)

    def _pause(self) -> None:
        for listener in self._listeners:
            asyncio.get_running_loop().remove_reader(listener)

    def _accept_waiting(self, listener: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                client, _ = listener.accept()
            except OSError as error:
                if error.errno in _OUT_OF_FILES:
                    self._refuse_waiting(listener)
                return  # no client waits any more, or the one that did went away
            self.counts.accepted += 1
            if not self._has_room():
                client.close()
                self.counts.closed[FULL] += 1
                continue
            self._take(client)

    def _take(self, client: socket.socket) -> None:
        client.setblocking(False)
        connection = Connection(self._connect_to_server, self._forget)
        self._open.add(connection)
        loop = asyncio.get_running_loop()
        task = loop.create_task(loop.connect_accepted_socket(lambda: connection.client, client))
        self._accepting.add(task)
        task.add_done_callback(self._accepting.discard)

    def _refuse_waiting(self, listener: socket.socket) -> None:
        """Close the clients that wait, one after the other, in the place of the file that is kept for it."""
        self._say_scarce(notes.FEW_FILES, f"all {count(most_files())} open files are in use; new clients are refused")
        self._pause()
        asyncio.get_running_loop().call_later(PAUSE_S, self._resume)
        for spare in self._spare:
            spare.close()
        with contextlib.suppress(OSError):  # BlockingIOError: no more
            for _ in range(_BACKLOG):
                listener.accept()[0].close()
                self.counts.accepted += 1
                self.counts.closed[NO_FILE] += 1
        self._spare = _spare_file()

    def _connect_to_server(self, connection: Connection) -> None:
        if (cluster := self.cluster) is None or self.draining:
            connection.give_up(DRAINED)
            return
        connection.cluster = cluster.alias
        connection.connecting = asyncio.get_running_loop().create_task(self._connect(connection, cluster))

    def _has_room(self) -> bool:
        most = self.most_connections
        if len(self._open) < most:
            return True
        now, connections = time.monotonic(), list(self._open)
        chosen = ended_for_new([now - each.active_at for each in connections], most)
        allowed = most < self.limits.connections
        self._say_scarce(
            notes.FEW_FILES if allowed else notes.TOO_MANY,
            f"all {count(most)} connections{f' that {count(most_files())} open files allow' if allowed else ''} are taken; "
            + ("new clients are refused" if chosen is None else "the ones that are silent for longest are closed"),
        )
        if chosen is None:
            return False
        connections[chosen].give_up(FOR_NEW)
        return True

    def _say_scarce(self, name: str, detail: str) -> None:
        self._scarce_at = time.monotonic()
        self._note(name, detail)

    async def _connect(self, connection: Connection, cluster: ClusterSettings) -> None:
        loop, end = asyncio.get_running_loop(), time.monotonic() + GIVE_UP_S
        self._turn += 1
        failures: dict[str, str] = {}
        servers = list(servers_in_turn(cluster.bootstrap_servers, self._turn, self._failed_at, time.monotonic()))
        while servers and (left := end - time.monotonic()) > 0:
            server = servers[0]
            try:
                server, addresses = await self._next_server(servers, left)
                async with asyncio.timeout(min(CONNECT_S, end - time.monotonic())):
                    await loop.create_connection(connection.new_server, sock=await _connected(addresses))
            except (OSError, TimeoutError) as error:
                if connection.state is not State.CONNECTING:
                    return
                if error.errno in _OUT_OF_FILES:
                    self._say_scarce(notes.FEW_FILES, f"no file for a connection to {server}; clients are refused")
                    connection.give_up(NO_FILE)
                    return
                failures[server] = _reason(error)
                self.counts.failed[server] += 1
                self._failed_at[server] = time.monotonic()
            else:
                self.counts.passed[cluster.alias] += 1
                self._failed_at.pop(server, None)
                self._resolve(notes.UNREACHABLE)
                return
            servers.remove(server)
        detail = "; ".join(f"{server}: {why}" for server, why in failures.items())
        self._note(notes.UNREACHABLE, f"no bootstrap server of {cluster.alias} accepts a connection: {detail}")
        connection.give_up(NO_SERVER)

    async def _next_server(self, servers: Sequence[str], left_s: float) -> tuple[str, Sequence[Info]]:
        """The first of `servers` whose name is known, with its addresses. Raises OSError, about the first, where none is."""
        names = {server: decoding.address(server) for server in servers}
        try:
            async with asyncio.timeout(left_s):
                await self._names.any_known(list(names.values()))
                chosen = next((each for each in servers if self._names.is_known(names[each])), servers[0])
                return chosen, await self._names.addresses(names[chosen])
        except TimeoutError:
            raise OSError(f"its name was not found within {left_s:.1f} s") from None

    def _forget(self, connection: Connection) -> None:
        self._open.discard(connection)
        self.counts.closed[connection.reason or "by client or server"] += 1
        self.counts.bytes_to_servers += connection.client.bytes
        self.counts.bytes_to_clients += 0 if connection.server is None else connection.server.bytes

    def _note(self, name: str, detail: str) -> None:
        if name not in self._opened:
            self._opened[name] = "" if self.cluster is None else self.cluster.alias
            self._report(Note(name, "open", detail, self._opened[name], len(self._open)))

    def _resolve(self, name: str) -> None:
        if (cluster := self._opened.pop(name, None)) is not None:
            self._report(Note(name, "resolved", "", cluster, len(self._open)))


def most_files() -> int:
    """How many open files this process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def _spare_file() -> list[socket.socket]:
    """An open file; none where there is none to be had."""
    try:
        return [socket.socket()]
    except OSError:
        return []


async def _connected(addresses: Sequence[Info]) -> socket.socket:
    """A socket that is connected to the first of `addresses` that accepts. Raises OSError."""
    loop = asyncio.get_running_loop()

    async def connect(info: Info) -> socket.socket:
        family, kind, protocol, where = info
        made = socket.socket(family, kind, protocol)
        try:
            made.setblocking(False)
            await loop.sock_connect(made, where)
        except BaseException:
            made.close()
            raise
        return made

    if len(addresses) == 1:  # most are one; a race of one costs as much as the rest of a connection
        return await connect(addresses[0])
    attempts = [partial(connect, info) for info in addresses]
    try:
        return await first_success(attempts, pause_s=_EYEBALLS_S, failures=(OSError,), discard=socket.socket.close)
    except AllFailed as failed:
        raise failed.failures[0] from None


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError) and not getattr(error, "errno", None):
        return f"no answer within {CONNECT_S:g} s"
    number = getattr(error, "errno", None)
    return os.strerror(number) if number and number > 0 else str(getattr(error, "strerror", None) or error)


def not_listening(host: str, port: int, error: OSError, option: str = "--listen") -> UsageError:
    """Why an address, given as `option`, cannot be listened at, with what to do."""
    host = bracketed(host)
    why, remedy = error.strerror or str(error), f"Give an address of this machine that is free: {option} HOST:PORT."
    if error.errno == errno.EADDRINUSE:
        why = "another process listens there"
        remedy = f"Find it (ss -ltnp 'sport = :{port}') and end it, or give another port: {option} {host}:PORT."
    elif error.errno in (errno.EACCES, errno.EPERM):
        why = "this user may not listen there"
        remedy = (
            f"Give a port from {_LOWEST_FREE} on, or the right CAP_NET_BIND_SERVICE (AmbientCapabilities= of its unit)."
        )
    elif error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        why = "it is no address of this machine" if error.errno == errno.EADDRNOTAVAIL else why
        remedy = f"Give a name or an address of this machine, such as 127.0.0.1: {option} HOST:PORT."
    return UsageError(f"{host}:{port} cannot be listened at", why, remedy)
