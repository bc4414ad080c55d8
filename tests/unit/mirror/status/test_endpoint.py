"""Whoever connects to a worker's address: status and metrics are served, and no connection is kept for long."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
from deadline import Deadline
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sample_flow import worker

from drlib.mirror.status import endpoint
from drlib.mirror.status.endpoint import MOST_CONNECTIONS, Endpoint, serve_metrics
from drlib.mirror.status.worker_status import EventLog
from drlib.outgoing import http_request


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[Endpoint]:
    served = Endpoint("127.0.0.1:0", worker)
    try:
        yield served
    finally:
        served.close()


def get(served: Endpoint, path: str) -> http_request.Answer:
    request = http_request.Request(http_request.parse(f"http://{served.address}{path}"), timeout_s=10)
    return http_request.fetch(request, 1 << 20)


def connect(served: Endpoint, data: bytes = b"") -> socket.socket:
    host, _, port = served.address.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=20)
    connection.sendall(data)
    return connection


async def until(what: str, condition: Callable[[], bool]) -> None:
    deadline = Deadline(20)
    while not condition():
        assert not deadline.passed, what
        await asyncio.sleep(0.02)


async def test_endpoint_with_many_silent_connections_answers_and_keeps_few() -> None:
    before = threading.active_count()
    async with serving() as served:
        silent = [connect(served, sent) for _ in range(100) for sent in (b"", b"GET /metrics HTTP/1.1\r\nHost:", b"\0")]
        for path in ("/status", "/metrics"):
            assert (await asyncio.to_thread(get, served, path)).status == 200
        await until("few are kept", lambda: threading.active_count() - before <= MOST_CONNECTIONS + 8)
        assert await asyncio.to_thread(silent[0].recv, 1) == b"", "the oldest was ended"
        for connection in silent:
            connection.close()
    await until("their threads end", lambda: threading.active_count() <= before + 4)


@pytest.mark.parametrize(
    "sent", [b"", b"GET /metrics HTTP/1.1\r\nX: y", b"GET /status HTTP/1.1\r\nContent-Length: 9\r\n\r\n"]
)
async def test_endpoint_ends_a_connection_that_sends_little_by_little(
    sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "CONNECTION_S", 0.5)
    async with serving() as served:
        with connect(served, sent) as connection:
            ended = asyncio.create_task(asyncio.to_thread(read_to_end, connection))
            with contextlib.suppress(OSError):
                while not ended.done():
                    connection.send(b"x")  # each byte would begin a time-out for one read again
                    await asyncio.sleep(0.1)
            await asyncio.wait_for(ended, 20)
        assert (await asyncio.to_thread(get, served, "/status")).status == 200


def read_to_end(connection: socket.socket) -> None:
    with contextlib.suppress(ConnectionResetError):
        while connection.recv(4096):
            pass


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"GET /etc/passwd HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /status HTTP/1.1\r\n\r\n", b"405"),
        (b"\x16\x03\x01\x02\x00\x01\x00\n\n", b"400"),
        (b"GET " + b"/" * 70_000 + b" HTTP/1.1\r\n\r\n", b"414"),
        (b"GET /status HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n", b"431"),
    ],
    ids=["path", "method", "no http", "long line", "many headers"],
)
async def test_endpoint_answers_what_it_does_not_serve_with_a_code(
    sent: bytes, answer: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    async with serving() as served:
        with connect(served, sent) as connection:
            assert answer in (await asyncio.to_thread(connection.recv, 4096)).split(b"\r\n")[0]
        with connect(served, b"GET /metrics HTTP/1.1\r\n\r\n") as connection:  # goes away before it has its answer
            pass
        assert (await asyncio.to_thread(get, served, "/status")).status == 200
    assert capfd.readouterr() == ("", "")


class Collected(Collector):
    """One metric."""

    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily("drlib_test", "A test.")
        family.add_metric((), 7)
        yield family


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"GET /metrics HTTP/1.1\r\n\r\n", b"200"),
        (b"GET /status HTTP/1.1\r\n\r\n", b"404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"),
    ],
)
def test_serve_metrics_answers_with_what_is_collected_and_nothing_else(sent: bytes, answer: bytes) -> None:
    server = serve_metrics("127.0.0.1:0", Collected())
    try:
        with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as connection:
            connection.sendall(sent)
            received = b"".join(iter(lambda: connection.recv(65536), b""))
    finally:
        server.shutdown()
        server.server_close()
    assert answer in received.split(b"\r\n")[0]
    assert (b"drlib_test 7.0" in received) == (answer == b"200")


@pytest.mark.parametrize("address", ["[::1]:0", "::1:0", "[::]:0"])
async def test_endpoint_at_an_ipv6_address_answers_there(address: str) -> None:
    events = EventLog()
    served = Endpoint.open(address, worker, events)
    assert served is not None, events.snapshot()
    try:
        assert (await asyncio.to_thread(get, served, "/status")).status == 200
    finally:
        served.close()


@pytest.mark.parametrize("address", ["nohost.invalid:9464", "192.0.2.1:9464"])
async def test_endpoint_that_cannot_be_opened_says_what_to_give(address: str) -> None:
    events = EventLog()
    assert Endpoint.open(address, worker, events) is None
    (event,) = events.snapshot()
    assert (event.name, event.entity) == ("EndpointUnavailable", address)
    assert event.remedy == "Give a name or an address of this machine, such as 127.0.0.1: --metrics HOST:PORT."


async def test_endpoint_whose_port_is_taken_names_another_one() -> None:
    events = EventLog()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert Endpoint.open(f"127.0.0.1:{port}", worker, events) is None
    (event,) = events.snapshot()
    assert f"'sport = :{port}'" in event.remedy
    assert "give another port: --metrics 127.0.0.1:PORT" in event.remedy
