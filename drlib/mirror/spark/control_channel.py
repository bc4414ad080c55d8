"""Serve the driver's side of the connections from its tasks: registration, status messages, and one way to stop all workers.

Rules: a task proves first that it holds the token, within `REGISTRATION_TIMEOUT_S` and `REGISTRATION_BYTES`, or its connection
is closed; then the driver proves it (`handshake`). The driver stops workers by closing the sending half of their connections,
so the death of this process stops them, too; a task that connects after `stop` is stopped at once. Everything received is put
on a queue; nothing is decided here.
Not for: secrets; status messages contain none.
"""

from __future__ import annotations

import contextlib
import queue
import secrets
import socket
import threading
from dataclasses import dataclass
from typing import BinaryIO

from pydantic import TypeAdapter

from drlib import decoding
from drlib.decoding import Undecodable
from drlib.mirror.spark import handshake
from drlib.mirror.spark.child_worker import StatusMessage, decode_message

REGISTRATION_TIMEOUT_S = 10.0
REGISTRATION_BYTES = 4096


@dataclass(frozen=True, slots=True)
class TaskRegistration:
    """What a task says of itself: an `attempt` at worker `number`."""

    number: int
    attempt: int
    name: str


@dataclass(frozen=True, slots=True)
class Challenge:
    """The driver's first line: the number that it drew."""

    drawn: str


@dataclass(frozen=True, slots=True)
class Registration:
    """The first line of a task: what it is, the number that it drew, and its `handshake.proof`."""

    task: TaskRegistration
    drawn: str
    proof: str


@dataclass(frozen=True, slots=True)
class Welcome:
    """The driver's second line: its own proof."""

    proof: str


@dataclass(frozen=True, slots=True)
class TaskConnected:
    """A task has registered."""

    task: TaskRegistration


@dataclass(frozen=True, slots=True)
class MessageReceived:
    """A task has sent a status message."""

    task: TaskRegistration
    message: StatusMessage


@dataclass(frozen=True, slots=True)
class TaskDisconnected:
    """The connection of a task has ended."""

    task: TaskRegistration


ChannelEvent = TaskConnected | MessageReceived | TaskDisconnected
_CHALLENGE = TypeAdapter(Challenge)
_REGISTRATION = TypeAdapter(Registration)
_WELCOME = TypeAdapter(Welcome)


def register(connection: socket.socket, token: str, task: TaskRegistration) -> bool:
    """The task's side. False where the other side is not the driver. Raises `OSError`, `Undecodable`."""
    with connection.makefile("rb", buffering=0) as lines:
        drivers = decoding.json_as(_CHALLENGE, lines.readline(REGISTRATION_BYTES)).drawn
        own = handshake.draw()
        mine, others = (_proof(token, side, drivers, own, task) for side in (handshake.TASK, handshake.DRIVER))
        connection.sendall(_REGISTRATION.dump_json(Registration(task, own, mine)) + b"\n")
        welcome = decoding.json_as(_WELCOME, lines.readline(REGISTRATION_BYTES))
    return handshake.proves(welcome.proof, others)


def _proof(token: str, side: str, drivers: str, tasks: str, task: TaskRegistration) -> str:
    return handshake.proof(token, side, drivers, tasks, task.number, task.attempt, task.name)


class ControlChannel:
    """A server from construction to `close`; `events` receives every `ChannelEvent`. Raises `OSError`."""

    def __init__(self, host: str, events: queue.SimpleQueue[object]) -> None:
        self.token = secrets.token_hex(16)
        self._events = events
        self._lock = threading.Lock()
        self._stopped = False
        self._connections: dict[socket.socket, TaskRegistration] = {}
        family = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0][0]
        self._server = socket.create_server((host, 0), family=family, backlog=64)
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, name="control-channel", daemon=True).start()

    def connected_workers(self) -> frozenset[int]:
        """Numbers of the workers that have a connected task."""
        with self._lock:
            return frozenset(task.number for task in self._connections.values())

    def stop(self) -> None:
        """Stop every connected worker, and every one that connects later."""
        with self._lock:
            self._stopped = True
            for connection in self._connections:
                _half_close(connection)

    def close(self) -> None:
        """Stop all workers, and accept no more connections."""
        self.stop()
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # wakes the accepting thread
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._receive, args=(connection,), name="control-channel", daemon=True).start()

    def _receive(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines, contextlib.suppress(OSError):
            connection.settimeout(REGISTRATION_TIMEOUT_S)
            task = self._registered(connection, lines)
            if task is None:
                return
            connection.settimeout(None)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            with self._lock:
                self._connections[connection] = task
                if self._stopped:
                    _half_close(connection)
            self._events.put(TaskConnected(task))
            try:
                while line := lines.readline(decoding.MOST_BYTES + 1):
                    self._events.put(MessageReceived(task, decode_message(line)))
            except (OSError, Undecodable):
                pass  # cut in the middle of a message: its executor died
            finally:
                with self._lock:
                    del self._connections[connection]
                self._events.put(TaskDisconnected(task))

    def _registered(self, connection: socket.socket, lines: BinaryIO) -> TaskRegistration | None:
        """The task on the other side; None where it is none of this driver's."""
        drawn = handshake.draw()
        connection.sendall(_CHALLENGE.dump_json(Challenge(drawn)) + b"\n")
        try:
            said = decoding.json_as(_REGISTRATION, lines.readline(REGISTRATION_BYTES))
        except Undecodable:
            return None
        if not handshake.proves(said.proof, _proof(self.token, handshake.TASK, drawn, said.drawn, said.task)):
            return None
        mine = _proof(self.token, handshake.DRIVER, drawn, said.drawn, said.task)
        connection.sendall(_WELCOME.dump_json(Welcome(mine)) + b"\n")
        return said.task


def _half_close(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_WR)
