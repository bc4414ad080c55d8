"""A real worker and a real notification socket: ready when its lanes run, fed while its loop runs, stopping in words."""

import itertools
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fix_engine import Engine, create_topic, produce, wait_for

from drlib.mirror import status

WATCHDOG_S = 1.0


class Systemd:
    """What systemd would hear, in order, with the time it came."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self.heard: list[tuple[float, str]] = []

    def listen(self) -> list[str]:
        while True:
            try:
                message = self._listener.recv(4096).decode()
            except BlockingIOError:
                return [text.split("\n")[0] for _, text in self.heard]
            self.heard.append((time.monotonic(), message))


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Systemd]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", str(int(WATCHDOG_S * 1e6)))
        yield Systemd(listener)


def test_systemd_is_told_when_a_worker_is_ready_alive_and_stopping(engine: Engine, systemd: Systemd) -> None:
    create_topic(engine.left, engine.topics, 1)
    produce(engine.left, engine.topics, 100, partitions=1)
    engine.extra["drlib.lanes"] = "1"
    worker = engine.start()
    wait_for("the worker is ready", lambda: "READY=1" in systemd.listen())
    told = status.read(engine.status_path(0))
    wait_for("the status says so too", lambda: status.read(engine.status_path(0)).state == "running", 5)
    assert [lane.state for flow in status.read(engine.status_path(0)).flows for lane in flow.lanes] == ["running"]
    assert told.pid == worker.pid

    before = systemd.listen().count("WATCHDOG=1")
    wait_for("the watchdog is fed", lambda: systemd.listen().count("WATCHDOG=1") >= before + 4, 4 * WATCHDOG_S)
    times = [at for at, text in systemd.heard if text.startswith("WATCHDOG=1")][-4:]
    assert max(later - sooner for sooner, later in itertools.pairwise(times)) < WATCHDOG_S

    worker.send_signal(signal.SIGSTOP)
    systemd.listen()
    hung = len(systemd.heard)
    end = time.monotonic() + 1.5 * WATCHDOG_S
    while time.monotonic() < end:
        systemd.listen()
        time.sleep(0.05)
    assert len(systemd.heard) - hung <= 1, "a worker that hangs says nothing"
    worker.send_signal(signal.SIGCONT)

    engine.wait_caught_up(engine.topics, 1)
    assert engine.stop(worker) == 0
    assert systemd.listen().count("READY=1") == 1
    assert systemd.listen().count("STOPPING=1") == 1


def test_a_worker_more_than_there_are_lanes_is_ready_too(engine: Engine, systemd: Systemd) -> None:
    create_topic(engine.left, engine.topics, 1)
    engine.extra["drlib.lanes"] = "1"
    engine.start()
    wait_for("the first is ready", lambda: systemd.listen().count("READY=1") == 1)
    engine.start()
    wait_for("the second stands by", lambda: systemd.listen().count("READY=1") == 2)
