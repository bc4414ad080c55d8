"""`drlib bootstrap` as a process: a pointer file that moves, its lines, its metrics, SIGTERM, and what it refuses."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from command_line import drlib, error_line
from deadline import Deadline
from repository_root import ROOT

from drlib.cli.clients.bootstrap import listening, public
from drlib.client import pointer_file
from drlib.client.pointer import Pointer
from drlib.errors import UsageError
from drlib.outgoing import http_request


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[tuple[Path, list[socket.socket]]]:
    """A file of paris and lyon, and a listening socket for each."""
    made = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [each.getsockname()[1] for each in made]
    path = tmp_path / "mm2.properties"
    path.write_text(
        f"clusters = paris, lyon\nparis.bootstrap.servers = 127.0.0.1:{ports[0]}\n"
        f"lyon.bootstrap.servers = 127.0.0.1:{ports[1]}\n"
    )
    yield path, made
    for each in made:
        each.close()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class Lines:
    def __init__(self, log: Path, process: subprocess.Popen[bytes]) -> None:
        self.log, self.process = log, process

    @classmethod
    def of(cls, command: Sequence[str], log: Path) -> Lines:
        with log.open("wb") as errors:
            return cls(log, subprocess.Popen(command, cwd=ROOT, stderr=errors))

    def until(self, name: str, status: str) -> dict[str, object]:
        deadline = Deadline(40)
        while True:
            rows = [json.loads(line) for line in self.log.read_text().splitlines()]
            for row in rows:
                if (row["name"], row["status"]) == (name, status):
                    assert isinstance(row, dict)
                    return row
            assert self.process.poll() is None, rows
            assert not deadline.passed, rows
            time.sleep(0.05)


def test_bootstrap_command_follows_a_pointer_file_counts_and_ends_in_order(
    clusters: tuple[Path, list[socket.socket]], tmp_path: Path
) -> None:
    file, _ = clusters
    pointer, log, port = tmp_path / "pointer.json", tmp_path / "log", free_port()
    pointer_file.write_atomic(pointer, Pointer(3, "paris", "p:1"))
    metrics = f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "drlib.cli", "bootstrap", str(file), "--listen", f"127.0.0.1:{port}"]
    command += ["--pointer", str(pointer), "--metrics", metrics, "--log-format", "json", "--drain", "1s"]
    lines = Lines.of(command, log)
    process = lines.process
    try:
        assert lines.until("Bootstrap", "listening")["entity"] == "paris"
        with socket.create_connection(("127.0.0.1", port), 10) as client:
            deadline = Deadline(20)
            while not metric(metrics, 'passed_total{cluster="paris"} 1.0'):
                assert not deadline.passed
                time.sleep(0.05)
            pointer_file.write_atomic(pointer, Pointer(4, "lyon", "l:1"))
            moved = lines.until("Bootstrap", "moved")
            assert (moved["entity"], moved["count"], moved["level"]) == ("lyon", 1, "info")
            client.settimeout(20)
            assert client.recv(1) == b""
        assert metric(metrics, 'cluster{cluster="lyon"} 1.0')
        assert metric(metrics, "pointer_version 4.0")
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        lines.until("Bootstrap", "stopped")
    finally:
        process.kill()
        process.wait(10)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(100):
            writer.write(data)
    writer.close()


class Client:
    """A connection through the address to an echo server."""

    @classmethod
    async def at(cls, port: int) -> Client:
        client = cls()
        client.reader, client.writer = await asyncio.open_connection("127.0.0.1", port)
        return client

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def served(self) -> bool:
        """An answer came; False where the connection was ended."""
        try:
            self.writer.write(b"hello")
            async with asyncio.timeout(20):
                return await self.reader.readexactly(5) == b"hello"
        except (ConnectionError, asyncio.IncompleteReadError):
            self.writer.close()
            return False


async def test_bootstrap_command_at_its_limit_of_open_files_refuses_new_clients_says_so_once_and_recovers(
    clusters: tuple[Path, list[socket.socket]], tmp_path: Path
) -> None:
    file, (paris, _) = clusters
    server = await asyncio.start_server(echo, sock=paris)
    pointer, log, port = tmp_path / "pointer.json", tmp_path / "log", free_port()
    pointer_file.write_atomic(pointer, Pointer(3, "paris", "p:1"))
    command = [sys.executable, "-m", "drlib.cli", "bootstrap", str(file), "--listen", f"127.0.0.1:{port}"]
    lines = Lines.of([*command, "--pointer", str(pointer), "--log-format", "json"], log)
    process = lines.process
    try:
        await asyncio.to_thread(lines.until, "Bootstrap", "listening")
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (64, 64))
        before_s = cpu_s(process.pid)
        first = [await Client.at(port) for _ in range(8)]
        assert all(await asyncio.gather(*(client.served() for client in first)))
        second: list[Client] = []
        served: list[bool] = []
        for _ in range(5):
            crowd = await asyncio.gather(*(Client.at(port) for _ in range(100)))
            second += crowd
            served += await asyncio.gather(*(client.served() for client in crowd))
            assert all(await asyncio.gather(*(client.served() for client in first))), "an open connection was ended"
        assert 4 <= sum(served) < 30, "some of the first, and no more than there are files for"
        names = [json.loads(line)["name"] for line in log.read_text().splitlines()]
        assert names.count("TooFewOpenFiles") == 1
        assert "NoServerAnswers" not in names, "the cluster has nothing to do with it"
        assert cpu_s(process.pid) - before_s < 5
        for client in second:
            client.writer.close()
        deadline = Deadline(20)
        while not await (client := await Client.at(port)).served():
            assert not deadline.passed
        client.writer.close()
        await asyncio.to_thread(lines.until, "TooFewOpenFiles", "resolved")
        assert all(await asyncio.gather(*(client.served() for client in first)))
        for client in first:
            client.writer.close()
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 20) == 0
        await asyncio.to_thread(lines.until, "Bootstrap", "stopped")
    finally:
        process.kill()
        process.wait(10)
        server.close()


def cpu_s(pid: int) -> float:
    """Processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def metric(address: str, text: str) -> bool:
    request = http_request.Request(http_request.parse(f"http://{address}/metrics"), timeout_s=10)
    return f"drlib_bootstrap_{text}\n" in http_request.fetch(request, 1 << 20).body.decode()


def test_bootstrap_command_without_a_pointer_or_with_an_unknown_cluster_says_so(
    clusters: tuple[Path, list[socket.socket]], tmp_path: Path
) -> None:
    for server in clusters[1]:
        server.close()  # refuses: the check of its brokers is over at once
    pointer = tmp_path / "pointer.json"
    command = ("bootstrap", str(clusters[0]), "--listen", "127.0.0.1:0", "--pointer", str(pointer))
    missing = drlib(*command)
    assert missing.returncode == 11
    assert "pointer.json does not exist" in missing.stderr
    assert "Start one of the clusters" in missing.stderr
    pointer_file.write_atomic(pointer, Pointer(3, "rome", "r:1"))
    assert "names rome: the clusters of the file are paris, lyon" in last_line(drlib(*command), 2)


def last_line(result: subprocess.CompletedProcess[str], code: int) -> str:
    assert result.returncode == code, result.stderr
    assert "Traceback" not in result.stderr
    return result.stderr.splitlines()[-1]


def test_bootstrap_command_for_an_address_that_is_taken_or_leads_back_is_refused(
    clusters: tuple[Path, list[socket.socket]],
) -> None:
    file, (paris, _) = clusters
    address = f"127.0.0.1:{paris.getsockname()[1]}"
    assert "another process listens there" in error_line(drlib("bootstrap", str(file), "--listen", address), 2)
    paris.close()
    assert "where this command listens itself" in error_line(drlib("bootstrap", str(file), "--listen", address), 2)
    assert "is no address" in error_line(drlib("bootstrap", str(file), "--listen", "9092"), 2)


def test_listening_may_leave_the_port_to_the_system_and_a_public_address_may_not() -> None:
    assert listening("127.0.0.1:0") == ("127.0.0.1", 0)
    with pytest.raises(UsageError):
        public("kafka.example:0")
