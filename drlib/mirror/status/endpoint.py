"""Serve a worker's `/status` as JSON and `/metrics` for Prometheus at one address, where one is configured.

Rules: read-only, GET only, no settings and no secrets; only at the address that is configured. Requests are served on threads
of their own; the status is built on the event loop, at most so often that it stays within its share of a core. A status that is
not built in time is answered with 503. An address that is taken is an event, and mirroring continues. A connection ends after
`CONNECTION_S`, whatever it sent; beyond `MOST_CONNECTIONS` the oldest ends for the newest, so that silent ones keep
no other client out.
Not for: control; nothing here changes anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.registry import Collector

from drlib import decoding
from drlib.client.bootstrap.proxy import not_listening
from drlib.errors import UsageError
from drlib.formats import bracketed
from drlib.mirror.status import worker_status as status
from drlib.mirror.status.metrics import WorkerCollector

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

ANSWER_S = 5.0
SCRAPE_SHARE = 0.01  # of a core
CONNECTION_S = 15.0
MOST_CONNECTIONS = 32
FRESH_S = 0.2  # requests closer together than this get the same status


class NoAnswer(Exception):
    """The event loop did not build the status in time."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128  # connections that wait to be accepted; beyond it clients wait for seconds

    def __init__(self, address: tuple[str, int], *arguments: Any) -> None:
        self.address_family = _family(*address)
        self._open: dict[socket.socket, float] = {}  # when each connection ends, oldest first
        self._changes = threading.Lock()
        super().__init__(address, *arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection on a thread of its own."""
        with self._changes:
            self._open[request] = time.monotonic() + CONNECTION_S
            excess = list(self._open)[:-MOST_CONNECTIONS]
        self._end(excess)
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Called several times a second: end the connections whose time is over."""
        super().service_actions()
        now = time.monotonic()
        with self._changes:
            over = [connection for connection, ends in self._open.items() if ends <= now]
        self._end(over)

    def shutdown_request(self, request: Any) -> None:
        """Called by the connection's thread when it is served."""
        with self._changes:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def _end(self, connections: Iterable[socket.socket]) -> None:
        """Wake the threads that read from or write to `connections`: they see the end of the connection."""
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Write nothing: the client went away, or its time was over."""

    def server_bind(self) -> None:
        """Bind without the reverse look-up of the host name, which may take seconds without DNS."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: there is a scrape every few seconds."""


class Endpoint:
    """An HTTP server from `open` to `close`."""

    def __init__(self, address: str, snapshot: Callable[[], status.WorkerStatus]) -> None:
        self._snapshot = snapshot
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._last: status.WorkerStatus | None = None
        self._again_at = 0.0
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(WorkerCollector(self.state))
        ProcessCollector(registry=self._registry)
        self._scraping = threading.Lock()
        self._page = b""
        self._page_until = 0.0
        self._server = start_server(address, self._answer)
        self.address = listening_at(address, self._server)

    @classmethod
    def open(
        cls, address: str, snapshot: Callable[[], status.WorkerStatus], events: status.EventLog
    ) -> Endpoint | None:
        """Start serving; None, and an event, when the address cannot be bound. Raises `UsageError` when it is no HOST:PORT."""
        try:
            return cls(address, snapshot)
        except OSError as error:
            refused = not_listening(*parse_address(address), error, "--metrics")
            events.open("EndpointUnavailable", address, f"{error.strerror or error}", remedy=refused.remedy)
            return None

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def state(self) -> status.WorkerStatus:
        """The worker's status, from any thread but the event loop's. Raises `NoAnswer`."""
        with self._lock:
            if self._last is None or time.monotonic() >= self._again_at:
                result: Future[tuple[status.WorkerStatus, float]] = Future()
                try:
                    self._loop.call_soon_threadsafe(self._build, result)
                    self._last, cost = result.result(ANSWER_S)
                except (TimeoutError, RuntimeError) as error:  # RuntimeError: the loop is closed
                    raise NoAnswer from error
                self._again_at = time.monotonic() + status.pause_s(FRESH_S, cost)
            return self._last

    def _scraped(self) -> bytes:
        """The metrics page. Rendering thousands of partitions takes time, so a page is reused for a hundred times as long."""
        with self._scraping:
            if time.monotonic() >= self._page_until:
                started = time.thread_time()
                self._page = generate_latest(self._registry)
                self._page_until = time.monotonic() + (time.thread_time() - started) / SCRAPE_SHARE
            return self._page

    def _build(self, result: Future[tuple[status.WorkerStatus, float]]) -> None:
        started = time.thread_time()
        try:
            result.set_result((self._snapshot(), time.thread_time() - started))
        except Exception as error:
            result.set_exception(error)

    def _answer(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if environ.get("REQUEST_METHOD") != "GET":
            return text(start, "405 Method Not Allowed", "Only GET is allowed.")
        try:
            if path == "/metrics":
                body = self._scraped()
                start("200 OK", [("Content-Type", CONTENT_TYPE_LATEST), ("Content-Length", str(len(body)))])
                return [body]
            if path == "/status":
                body = status.encode(self.state())
                start("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
                return [body]
        except NoAnswer:
            return text(start, "503 Service Unavailable", "The worker did not report its status in time.")
        return text(start, "404 Not Found", "Use /status or /metrics.")


def start_server(
    address: str,
    answer: Callable[[WSGIEnvironment, StartResponse], Iterable[bytes]],
    tls: ssl.SSLContext | None = None,
) -> WSGIServer:
    """Answer at HOST:PORT, on threads of its own, until `shutdown` and `server_close`; over TLS where `tls` is given.

    Raises `UsageError` when it is no HOST:PORT, and `OSError` when it cannot be bound.
    """
    host, port = parse_address(address)
    server = make_server(host, port, answer, _Server, _Quiet)
    if tls is not None:  # the handshake is that of the connection's own thread, which ends in time
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, args=(0.1,), name="endpoint", daemon=True).start()
    return server


def listening_at(address: str, server: WSGIServer) -> str:
    """HOST:PORT of a server that was started at `address`, with the port that the system chose for 0."""
    host, _ = parse_address(address)
    return f"{bracketed(host)}:{server.server_port}"


def _family(host: str, port: int) -> socket.AddressFamily:
    """IPv6 for an address of it, and for a name that has no other. Raises `OSError`."""
    found = [each[0] for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)]
    return socket.AF_INET if socket.AF_INET in found else found[0]


def metrics_page(collector: Collector) -> bytes:
    """What `collector` collects now, in Prometheus's text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return generate_latest(registry)


def serve_metrics(address: str, collector: Collector) -> WSGIServer:
    """Serve what `collector` collects, and the process's own metrics, at `/metrics` alone, as `start_server` does."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    ProcessCollector(registry=registry)

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        if environ.get("REQUEST_METHOD") != "GET":
            return text(start, "405 Method Not Allowed", "Only GET is allowed.")
        if environ.get("PATH_INFO", "") != "/metrics":
            return text(start, "404 Not Found", "Use /metrics.")
        body = generate_latest(registry)
        start("200 OK", [("Content-Type", CONTENT_TYPE_LATEST), ("Content-Length", str(len(body)))])
        return [body]

    return start_server(address, answer)


@contextlib.contextmanager
def serving_metrics(address: str, collector: Collector) -> Iterator[str]:
    """The same while the context is open: the address, with its port. Raises `UsageError` where it cannot be bound."""
    host, port = parse_address(address)
    try:
        server = serve_metrics(address, collector)
    except OSError as error:
        raise not_listening(host, port, error, "--metrics") from error
    try:
        yield listening_at(address, server)
    finally:
        server.shutdown()
        server.server_close()


def parse_address(address: str) -> tuple[str, int]:
    """Host and port. Raises `UsageError` for anything but HOST:PORT; a port alone is refused."""
    try:
        return decoding.address(address, least_port=0)
    except decoding.Undecodable as error:
        example = "Write 127.0.0.1:9464, for example."
        raise UsageError(f"{address!r} is not an address to listen at", str(error), example) from None


def text(start: StartResponse, code: str, said: str) -> list[bytes]:
    """One line of text with its status."""
    body = f"{said}\n".encode()
    start(code, [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))])
    return [body]
