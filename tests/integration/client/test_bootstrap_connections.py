"""Thousands of connections at once through `drlib bootstrap`, each with a question that a broker answered."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from fix_engine import wait_for
from testbed_bootstrap import Process

from drlib.client import pointer_file
from drlib.client.pointer import Pointer
from drlib.outgoing import http_request

CONNECTIONS = 3200
AT_ONCE = 400  # that are being opened
MOST_RSS = 16 << 10  # of the process for each connection
TOO_FEW_FILES = 256
API_VERSIONS = 18
OPEN_S, PROMPT_S, END_S = 90.0, 5.0, 5.0


@pytest.fixture
def own_files() -> Iterator[None]:
    """This process may have an open file for each connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 2 * CONNECTIONS)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Address:
    """`drlib bootstrap`, started with a soft limit of open files that is too low for its connections."""

    def __init__(self, root: Path, bootstrap: str, other: str) -> None:
        self._log = root / "bootstrap.log"
        file, pointer = root / "mm2.properties", root / "pointer.json"
        file.write_text(
            f"clusters = left, other\nleft.bootstrap.servers = {bootstrap}\nother.bootstrap.servers = {other}\n"
        )
        pointer_file.write_atomic(pointer, Pointer(1, "left", bootstrap))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._metrics = f"127.0.0.1:{free.getsockname()[1]}"
        limited = ["sh", "-c", f'ulimit -Sn {TOO_FEW_FILES}; exec "$@"', "sh", sys.executable, "-m", "drlib.cli"]
        command = [
            "bootstrap",
            str(file),
            "--listen",
            "127.0.0.1:0",
            "--pointer",
            str(pointer),
            "--metrics",
            self._metrics,
        ]
        self._process = Process([*limited, *command, "--log-format", "json"], self._log)
        self.child = self._process.child
        wait_for("it listens", lambda: self.child.poll() is not None or bool(self.notes("listening")))
        (note,) = self.notes("listening")
        self.says = str(note["detail"])
        self.server = self.says.removeprefix("at ").partition(",")[0]

    def notes(self, status: str) -> list[dict[str, object]]:
        rows = [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]
        return [row for row in rows if row["status"] == status]

    def rss(self) -> int:
        return int(Path(f"/proc/{self.child.pid}/statm").read_text().split()[1]) * resource.getpagesize()

    def files(self) -> int:
        return len(os.listdir(f"/proc/{self.child.pid}/fd"))

    def metric(self, name: str) -> float:
        request = http_request.Request(http_request.parse(f"http://{self._metrics}/metrics"), timeout_s=10)
        lines = http_request.fetch(request, 1 << 20).body.decode().splitlines()
        (line,) = [line for line in lines if line.startswith(f"drlib_bootstrap_{name} ")]
        return float(line.split()[1])

    def stop(self) -> None:
        self._process.stop()


class Connections:
    """Connections to one address that are held open."""

    def __init__(self, server: str) -> None:
        self._host, _, self._port = server.rpartition(":")
        self._opening = asyncio.Semaphore(AT_ONCE)
        self.open: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self.again = 0

    async def add(self, count: int) -> None:
        """Open `count` more and ask each which versions the broker has."""
        await asyncio.gather(*(self._one(len(self.open) + number) for number in range(count)))

    async def _one(self, number: int) -> None:
        async with self._opening:
            while True:
                client = await asyncio.open_connection(self._host, int(self._port), limit=1 << 14)
                try:
                    await ask(client, number)
                except (
                    ConnectionError,
                    EOFError,
                ):  # a broker had 2 s to accept it, on a busy machine: as clients do, again
                    client[1].transport.abort()
                    self.again += 1
                else:
                    self.open.append(client)
                    return

    async def ask_all(self) -> None:
        for start in range(0, len(self.open), AT_ONCE):
            await asyncio.gather(*(ask(client, start) for client in self.open[start : start + AT_ONCE]))

    async def ended(self) -> None:
        """Wait until the other side has ended each."""
        for reader, _ in self.open:
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""

    def close(self) -> None:
        for _, writer in self.open:
            writer.transport.abort()
        self.open.clear()


async def ask(client: tuple[asyncio.StreamReader, asyncio.StreamWriter], number: int) -> None:
    """Send ApiVersions, version 0, and read its answer: no error, and many APIs."""
    reader, writer = client
    request = struct.pack(">hhih", API_VERSIONS, 0, number, -1)
    writer.write(struct.pack(">i", len(request)) + request)
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    correlation, error, apis = struct.unpack_from(">ihi", await reader.readexactly(size))
    assert (correlation, error) == (number, 0)
    assert apis > 30


def clusters_seen(server: str) -> tuple[int, float]:
    """How many brokers a new client of another kind finds at the address, and after how many seconds."""
    since = time.monotonic()
    metadata = AdminClient({"bootstrap.servers": server, "log_level": 0}).list_topics(timeout=30)
    return len(metadata.brokers), time.monotonic() - since


@pytest.mark.usefixtures("own_files")
async def test_bootstrap_address_holds_thousands_of_answered_connections_and_gives_their_memory_and_files_back(
    left: str, right: str, tmp_path: Path
) -> None:
    address = await asyncio.to_thread(Address, tmp_path, left, right)
    connections = Connections(address.server)
    try:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        assert address.says.endswith(f"4,000 connections within {hard:,} open files")
        files = address.files()
        before, rounds = (
            address.rss(),
            3,
        )  # one whose memory is not given back would need three times as much in the last
        for number in range(rounds):
            since = time.monotonic()
            connections = Connections(address.server)
            async with asyncio.timeout(OPEN_S):
                await connections.add(CONNECTIONS)
            opened_s = time.monotonic() - since
            assert address.files() >= files + 2 * CONNECTIONS
            assert connections.again < CONNECTIONS / 100
            assert address.metric("connections") == CONNECTIONS
            grown = (address.rss() - before) / CONNECTIONS
            brokers, prompt_s = await asyncio.to_thread(clusters_seen, address.server)
            assert brokers == 1
            assert prompt_s < PROMPT_S
            async with asyncio.timeout(OPEN_S):
                await connections.ask_all()
            print(
                f"opened in {opened_s:.1f} s, RSS +{grown / 1024:.1f} KiB each, another client after {prompt_s:.2f} s"
            )
            assert grown <= MOST_RSS
            if number < rounds - 1:
                connections.close()
                await asyncio.to_thread(wait_for, "its files are closed", lambda: address.files() == files)
                assert address.metric("connections") == 0
        assert address.metric("accepted_total") >= rounds * CONNECTIONS
        assert {str(note["name"]) for note in address.notes("open")} <= {"NoServerAnswers"}, "no limit was reached"
        since = time.monotonic()
        address.child.send_signal(signal.SIGTERM)
        async with asyncio.timeout(OPEN_S):
            await connections.ended()
        assert await asyncio.to_thread(address.child.wait, 20) == 0
        print(f"ended in {time.monotonic() - since:.1f} s with {CONNECTIONS} connections open")
        assert time.monotonic() - since < END_S
    finally:
        connections.close()
        address.stop()
