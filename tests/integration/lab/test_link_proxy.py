"""The link in front of an echo server: every toxic is seen from the outside, and bytes survive all but a cut."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import socket
import stat
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from repository_root import ROOT

from drlib.errors import UsageError
from drlib.lab.link.remote import LinkProxy
from drlib.lab.processes import ProcessRegistry, wait_until

LINK = "LEFT-1"


class Echo:
    """An echo server in threads; `received` counts the bytes that reached it."""

    def __init__(self) -> None:
        self.received = 0
        self.reading = threading.Event()
        self.reading.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self._listener.accept()[0],), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(65536):
                self.received += len(data)
                connection.sendall(data)
                self.reading.wait(60)

    def close(self) -> None:
        # Closing alone would leave accept() waiting on a descriptor that is gone.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture(scope="module")
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture(scope="module")
def shared_proxy(tmp_path_factory: pytest.TempPathFactory, echo: Echo) -> Iterator[LinkProxy]:
    root = tmp_path_factory.mktemp("proxy")
    registry = ProcessRegistry(root)
    argv = [sys.executable, "-m", "drlib.lab.link.proxy", "--state", str(root / "proxy.json"), LINK, "RIGHT-1"]
    registry.start("proxy", argv, log=root / "proxy.log", cwd=ROOT)
    proxy = LinkProxy(root / "proxy.json")
    proxy.wait_ready()
    for link in proxy.ports:
        proxy.target(link, echo.port)
    yield proxy
    registry.stop_all()
    assert (root / "proxy.log").read_text() == "", "the proxy complained"


@pytest.fixture
def proxy(shared_proxy: LinkProxy) -> Iterator[LinkProxy]:
    yield shared_proxy
    shared_proxy.clear()
    shared_proxy.reset()


def dial(proxy: LinkProxy, link: str = LINK) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.ports[link]), timeout=10)


def receive(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(min(65536, count - len(data)))
        if not piece:
            break
        data += piece
    return bytes(data)


def round_trip(connection: socket.socket, payload: bytes = b"ping") -> float:
    start = time.monotonic()
    connection.sendall(payload)
    assert receive(connection, len(payload)) == payload
    return time.monotonic() - start


def exchange(connection: socket.socket, payload: bytes) -> tuple[bytes, float]:
    """Send everything while reading the echo; what came back and the seconds it took."""
    start = time.monotonic()
    sender = threading.Thread(target=connection.sendall, args=(payload,))
    sender.start()
    echoed = receive(connection, len(payload))
    sender.join()
    return echoed, time.monotonic() - start


def test_link_passes_bytes_unchanged(proxy: LinkProxy) -> None:
    payload = random.Random(1).randbytes(20_000_000)
    with dial(proxy) as connection:
        echoed, _ = exchange(connection, payload)
    assert hashlib.sha256(echoed).digest() == hashlib.sha256(payload).digest()


def test_link_delay_applies_per_direction(proxy: LinkProxy) -> None:
    with dial(proxy) as connection:
        healthy = min(round_trip(connection) for _ in range(5))
        proxy.set(LINK, delay_ms=100, direction="requests")
        one_way = round_trip(connection)
        proxy.set(LINK, delay_ms=100)
        both_ways = round_trip(connection)
        proxy.clear(LINK)
        healed = min(round_trip(connection) for _ in range(5))
    assert healthy < 0.1
    assert 0.1 <= one_way < 0.2
    assert 0.2 <= both_ways < 0.4
    assert healed < 0.1


def test_link_delay_keeps_throughput(proxy: LinkProxy) -> None:
    proxy.set(LINK, delay_ms=100)
    with dial(proxy) as connection:
        _, seconds = exchange(connection, bytes(8_000_000))
    # One request of 64 KiB at a time would need 122 round trips of 0.2 s.
    assert seconds < 5


def test_link_toxics_leave_other_links_alone(proxy: LinkProxy) -> None:
    proxy.set("LEFT", delay_ms=300)
    with dial(proxy, "RIGHT-1") as other, dial(proxy) as slow:
        assert round_trip(slow) >= 0.6
        assert round_trip(other) < 0.3


def test_link_bandwidth_is_capped_and_shared(proxy: LinkProxy) -> None:
    proxy.set(LINK, bandwidth=400_000, direction="responses")
    with dial(proxy) as one, dial(proxy) as two:
        start = time.monotonic()
        for connection in (one, two):
            connection.sendall(bytes(200_000))
        for connection in (one, two):
            assert len(receive(connection, 200_000)) == 200_000
        seconds = time.monotonic() - start
    assert 0.9 <= seconds < 3  # 400,000 bytes at 400,000 a second, less a slice in hand


def test_link_cut_resets_and_refuses_connections(proxy: LinkProxy) -> None:
    with dial(proxy) as connection:
        round_trip(connection)
        proxy.set(LINK, cut=True)
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    with pytest.raises(ConnectionRefusedError):
        dial(proxy)
    with dial(proxy, "RIGHT-1") as other:
        round_trip(other)

    proxy.set(LINK, cut=False)

    with dial(proxy) as connection:
        round_trip(connection)


def test_link_flapping_always_recovers(proxy: LinkProxy) -> None:
    for _ in range(20):
        proxy.set(LINK, cut=True)
        with pytest.raises(ConnectionRefusedError):
            dial(proxy)
        proxy.set(LINK, cut=False)
        with dial(proxy) as connection:
            round_trip(connection)


def test_link_reset_ends_connections_once(proxy: LinkProxy) -> None:
    with dial(proxy) as connection:
        round_trip(connection)
        proxy.reset(LINK)
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    with dial(proxy) as connection:
        round_trip(connection)


def test_link_blackhole_holds_bytes_and_loses_none(proxy: LinkProxy) -> None:
    with dial(proxy) as old:
        round_trip(old)
        proxy.set(LINK, blackhole=True)
        old.sendall(b"held")
        with dial(proxy) as new:  # the kernel still accepts: what a client sees is silence
            new.sendall(b"new")
            for connection in (old, new):
                connection.settimeout(0.3)
                with pytest.raises(TimeoutError):
                    connection.recv(1)
                connection.settimeout(10)
            proxy.clear(LINK)
            assert receive(old, 4) == b"held"
            assert receive(new, 3) == b"new"


def test_link_blackhole_of_responses_passes_requests(proxy: LinkProxy, echo: Echo) -> None:
    with dial(proxy) as connection:
        round_trip(connection)
        proxy.set(LINK, blackhole=True, direction="responses")
        before = echo.received
        connection.sendall(b"acted upon")
        assert wait_until(lambda: echo.received == before + 10, 5)
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(1)


def test_link_blackhole_cleared_delivers_bytes_of_closed_client(proxy: LinkProxy, echo: Echo) -> None:
    proxy.set(LINK, blackhole=True)
    before = echo.received
    with dial(proxy) as connection:
        connection.sendall(b"last words")
        connection.shutdown(socket.SHUT_WR)
        proxy.clear(LINK)
        assert receive(connection, 100) == b"last words"  # the echo, and then its end of the stream
    assert echo.received == before + 10


def test_link_forgotten_connection_is_silent_for_good_and_new_ones_work(proxy: LinkProxy, echo: Echo) -> None:
    with dial(proxy) as one_way, dial(proxy) as both:
        round_trip(one_way)
        round_trip(both)
        proxy.forget(LINK, direction="responses")
        before = echo.received
        one_way.sendall(b"acted upon")
        assert wait_until(lambda: echo.received == before + 10, 5)
        proxy.forget(LINK)
        proxy.clear(LINK)
        both.sendall(b"lost")
        for connection in (one_way, both):
            connection.settimeout(0.3)
            with pytest.raises(TimeoutError):
                connection.recv(1)
        with dial(proxy) as new:
            round_trip(new)
        assert echo.received == before + 10 + 4


def test_link_slow_applies_backpressure(proxy: LinkProxy) -> None:
    proxy.set(LINK, blackhole=True)
    offered, sent = 500_000_000, 0
    with dial(proxy) as connection:
        connection.settimeout(0.5)
        with contextlib.suppress(TimeoutError):
            while sent < offered:
                sent += connection.send(bytes(65536))
    # What two kernel buffers and the link itself hold; far from what was offered.
    assert sent < 50_000_000


def test_link_without_broker_resets_client(proxy: LinkProxy, echo: Echo) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    proxy.target(LINK, port)
    try:
        with pytest.raises(ConnectionResetError), dial(proxy) as connection:  # it may come as early as connect()
            connection.recv(1)
    finally:
        proxy.target(LINK, echo.port)


def test_link_state_reports_toxics_and_byte_counts(proxy: LinkProxy) -> None:
    before = {link.name: link for link in proxy.links()}[LINK]
    proxy.set(LINK, delay_ms=5, bandwidth=1e9, direction="requests")
    with dial(proxy) as connection:
        round_trip(connection, b"x" * 1000)
        now = {link.name: link for link in proxy.links()}[LINK]
        assert now.connections == before.connections + 1
    assert (now.requests.delay_ms, now.requests.bandwidth, now.responses.delay_ms) == (5, 1e9, 0)
    assert now.bytes_to_broker - before.bytes_to_broker == 1000
    assert now.bytes_to_client - before.bytes_to_client == 1000
    assert wait_until(lambda: {link.name: link for link in proxy.links()}[LINK].connections == 0, 5)


def test_proxy_control_requires_token_and_known_link(proxy: LinkProxy, tmp_path: Path) -> None:
    state_file = proxy._state_file
    assert stat.S_IMODE(state_file.stat().st_mode) == 0o600
    state = json.loads(state_file.read_text())
    (tmp_path / "proxy.json").write_text(json.dumps({**state, "token": "guessed"}))
    with pytest.raises(UsageError, match="token"):
        LinkProxy(tmp_path / "proxy.json").set(LINK, cut=True)
    with pytest.raises(UsageError, match="MIDDLE"):
        proxy.set("MIDDLE", cut=True)
    assert not any(link.cut for link in proxy.links())
