"""The control channel between the driver and its tasks, over real sockets: registration, messages and stopping."""

from __future__ import annotations

import json
import queue
import socket
from collections.abc import Callable, Iterator

import pytest

from drlib.mirror.spark.child_worker import StatusMessage, WorkerError, encode_message
from drlib.mirror.spark.control_channel import ControlChannel, MessageReceived, TaskConnected, TaskDisconnected

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

    def register(token: str, number: int = 1) -> socket.socket:
        connection = socket.create_connection((HOST, channel.port), 10)
        connections.append(connection)
        registration = {"token": token, "number": number, "attempt": 0, "name": f"host-spark{number}.0.7"}
        connection.sendall(json.dumps(registration).encode() + b"\n")
        return connection

    yield register
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


def test_control_channel_malformed_registration_is_disconnected(
    channel: ControlChannel, events: queue.SimpleQueue[object]
) -> None:
    with socket.create_connection((HOST, channel.port), 10) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n")
        assert connection.recv(1) == b""
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
