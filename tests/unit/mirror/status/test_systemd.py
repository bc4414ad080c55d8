"""sd_notify: datagrams on a real socket."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from drlib.mirror.status.systemd import ServiceManager


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.setblocking(False)
        yield listener


def received(listener: socket.socket) -> list[str]:
    found = []
    while True:
        try:
            found.append(listener.recv(4096).decode())
        except BlockingIOError:
            return found


def test_service_manager_ready_watchdog_twice_an_interval_and_stopping(systemd: socket.socket) -> None:
    environment = {"NOTIFY_SOCKET": systemd.getsockname(), "WATCHDOG_USEC": "2000000", "WATCHDOG_PID": str(os.getpid())}
    manager = ServiceManager.from_environment(environment)
    assert manager.watchdog_s == 2.0
    manager.ready("mirroring A->B")
    for now in (10.0, 10.5, 11.0, 11.2, 12.1):
        manager.alive(now, "running")
    manager.stopping("draining")
    messages = received(systemd)
    assert [message.split("\n")[0] for message in messages] == ["READY=1", *["WATCHDOG=1"] * 3, "STOPPING=1"]
    assert messages[-1] == "STOPPING=1\nSTATUS=draining"


def test_service_manager_abstract_socket() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        name = f"drlib-test-{os.getpid()}"
        listener.bind(f"\0{name}")
        listener.setblocking(False)
        ServiceManager.from_environment({"NOTIFY_SOCKET": f"@{name}"}).ready("x")
        assert received(listener) == ["READY=1\nSTATUS=x"]


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"NOTIFY_SOCKET": "relative", "WATCHDOG_USEC": "1"},
        {"NOTIFY_SOCKET": "/nowhere/at/all", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1"},
        {"WATCHDOG_USEC": "1000"},
    ],
)
def test_service_manager_without_socket_does_nothing(environment: dict[str, str]) -> None:
    manager = ServiceManager.from_environment(environment)
    manager.ready("x")
    manager.alive(1.0, "x")
    manager.stopping()


def test_service_manager_watchdog_of_another_process_is_ignored(systemd: socket.socket) -> None:
    environment = {"NOTIFY_SOCKET": systemd.getsockname(), "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}
    ServiceManager.from_environment(environment).alive(1.0, "x")
    assert received(systemd) == []
