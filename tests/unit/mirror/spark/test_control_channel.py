"""The control channel between the driver and its tasks, over real sockets: registration, messages and stopping."""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from drlib.decoding import Undecodable
from drlib.mirror.spark.child_worker import StatusMessage, WorkerError, encode_message
from drlib.mirror.spark.control_channel import (
    ControlChannel,
    MessageReceived,
    TaskConnected,
    TaskDisconnected,
    TaskRegistration,
    register,
)

HOST = "127.0.0.1"


@pytest.fixture
def events() -> queue.SimpleQueue[object]:
    return queue.SimpleQueue()


@pytest.fixture
def channel(events: queue.SimpleQueue[object]) -> Iterator[ControlChannel]:
    opened = ControlChannel(HOST, events)
    yield opened
    opened.close()


@pytest.fixture
def connect(channel: ControlChannel) -> Iterator[Callable[..., socket.socket]]:
    connections = []

    def registered(token: str, number: int = 1) -> socket.socket:
        connection = socket.create_connection((HOST, channel.port), 10)
        connections.append(connection)
        task = TaskRegistration(number, 0, f"host-spark{number}.0.7")
        with contextlib.suppress(Undecodable):  # the driver ended the connection
            assert register(connection, token, task)
        return connection

    yield registered
    for connection in connections:
        connection.close()


def test_control_channel_reports_registration_messages_and_disconnection(
    channel: ControlChannel, connect: Callable[..., socket.socket], events: queue.SimpleQueue[object]
) -> None:
    connection = connect(channel.token, 2)
    connected = events.get(timeout=10)
    assert isinstance(connected, TaskConnected)
    assert (connected.task.number, connected.task.name) == (2, "host-spark2.0.7")
    assert channel.connected_workers() == {2}
    message = StatusMessage(ended=True, error=WorkerError("it failed", "so it is", "Correct it.", 11, True))
    connection.sendall(encode_message(message))
    assert events.get(timeout=10) == MessageReceived(connected.task, message)
    connection.close()
    assert events.get(timeout=10) == TaskDisconnected(connected.task)
    assert channel.connected_workers() == frozenset()


@pytest.mark.parametrize("token", ["", "another", "\N{GREEK SMALL LETTER ALPHA}"])
def test_control_channel_wrong_token_is_disconnected(
    channel: ControlChannel, connect: Callable[..., socket.socket], events: queue.SimpleQueue[object], token: str
) -> None:
    assert connect(token).recv(1) == b""
    assert events.empty()
    assert channel.connected_workers() == frozenset()


def ended(connection: socket.socket) -> bytes:
    """What is still sent, until the other side ends the connection."""
    connection.settimeout(10)
    with connection.makefile("rb") as rest:
        return rest.read()


class Overheard:
    """A connection, and what passed on it in both directions."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.sent = b""
        self.received = b""

    def sendall(self, data: bytes) -> None:
        self.sent += data
        self._connection.sendall(data)

    def makefile(self, mode: str, buffering: int) -> Overheard:
        return self

    def __enter__(self) -> Overheard:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def readline(self, most: int) -> bytes:
        line = b""
        while len(line) < most and not line.endswith(b"\n") and (byte := self._connection.recv(1)):
            line += byte
        self.received += line
        return line


def test_registration_sends_no_token_and_cannot_be_used_again(
    channel: ControlChannel, events: queue.SimpleQueue[object]
) -> None:
    with socket.create_connection((HOST, channel.port), 10) as connection:
        overheard = Overheard(connection)
        assert register(overheard, channel.token, TaskRegistration(1, 0, "host-spark1.0.7"))  # type: ignore[arg-type]
    passed = overheard.sent + overheard.received
    assert channel.token.encode() not in passed
    assert all(channel.token.encode()[at : at + 8] not in passed for at in range(len(channel.token) - 8))
    assert isinstance(events.get(timeout=10), TaskConnected)
    assert isinstance(events.get(timeout=10), TaskDisconnected)
    with socket.create_connection((HOST, channel.port), 10) as connection:
        connection.sendall(overheard.sent)
        assert ended(connection).count(b"\n") == 1
    assert events.empty()


@pytest.mark.parametrize("key", ["number", "attempt", "name"])
def test_registration_proves_what_the_task_says_of_itself(
    channel: ControlChannel, events: queue.SimpleQueue[object], key: str
) -> None:
    class Changed(Overheard):
        def sendall(self, data: bytes) -> None:
            said = json.loads(data)
            said["task"][key] = "host-spark2.0.8" if key == "name" else 2
            super().sendall(json.dumps(said).encode() + b"\n")

    with socket.create_connection((HOST, channel.port), 10) as connection, pytest.raises(Undecodable):
        register(Changed(connection), channel.token, TaskRegistration(1, 0, "host-spark1.0.7"))  # type: ignore[arg-type]
    assert events.empty()


@pytest.mark.parametrize("proof", ["", "as the task's"])
def test_registration_with_a_driver_that_does_not_hold_the_token_fails(proof: str) -> None:
    with socket.create_server((HOST, 0)) as server, socket.create_connection(server.getsockname(), 10) as connection:
        driver, _ = server.accept()

        def answer() -> None:
            with driver, driver.makefile("rb") as lines:
                driver.sendall(b'{"drawn":"00"}\n')
                said = json.loads(lines.readline())
                driver.sendall(json.dumps({"proof": said["proof"] if proof else proof}).encode() + b"\n")

        thread = threading.Thread(target=answer)
        thread.start()
        assert not register(connection, "token", TaskRegistration(1, 0, "n"))
        thread.join(10)


def test_control_channel_malformed_registration_is_disconnected(
    channel: ControlChannel, events: queue.SimpleQueue[object]
) -> None:
    with socket.create_connection((HOST, channel.port), 10) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")
        assert ended(connection).startswith(b'{"drawn":')
    assert events.empty()


def test_stop_reaches_connected_and_later_tasks_whose_last_messages_still_arrive(
    channel: ControlChannel, connect: Callable[..., socket.socket], events: queue.SimpleQueue[object]
) -> None:
    early = connect(channel.token, 1)
    first = events.get(timeout=10)
    assert isinstance(first, TaskConnected)
    channel.stop()
    assert early.recv(1) == b""
    late = connect(channel.token, 2)
    assert late.recv(1) == b""
    second = events.get(timeout=10)
    assert isinstance(second, TaskConnected)
    assert second.task.number == 2
    early.sendall(encode_message(StatusMessage(ended=True)))
    assert events.get(timeout=10) == MessageReceived(first.task, StatusMessage(ended=True))
