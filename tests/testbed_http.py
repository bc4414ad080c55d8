"""A real HTTP server on this machine that redirects, floods and drips, and keeps what reached it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FLOOD = b"x" * 65536


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    body: bytes


class HttpServer(ThreadingHTTPServer):
    """`answers`: by path, status, headers and body; a body of None never ends."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[Received] = []
        self.answers: dict[str, tuple[int, dict[str, str], bytes | None]] = {}
        self.release = threading.Event()

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.server_address[1]}{path}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is what the tests are about."""


class _Handler(BaseHTTPRequestHandler):
    server: HttpServer

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.received.append(Received(self.path, dict(self.headers), body))
        status, headers, content = self.server.answers.get(self.path, (200, {}, b"{}"))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if content is not None:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if content is not None:
            self.wfile.write(content)
        elif self.path.startswith("/flood"):
            while not self.server.release.is_set():
                self.wfile.write(FLOOD)
        else:
            while not self.server.release.wait(0.02):
                self.wfile.write(b"x")

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_CONNECT(self) -> None:
        self._answer()

    def log_message(self, format: str, *arguments: object) -> None:
        """Silence."""


@contextmanager
def http_server() -> Iterator[HttpServer]:
    server = HttpServer()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.release.set()
        server.shutdown()
        server.server_close()
        thread.join(10)


@dataclass
class SilentServer:
    """Accepts connections, sends single bytes of a TLS record that never ends."""

    port: int
    stop: threading.Event = field(default_factory=threading.Event)


@contextmanager
def dripping_tls() -> Iterator[SilentServer]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = SilentServer(listener.getsockname()[1])

        def drip() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                try:
                    connection.sendall(b"\x16\x03\x03\x3f\xff\x02\x00\x3f\xfb")  # the header of a ServerHello
                    while not server.stop.wait(0.02):
                        connection.sendall(b"\x03")
                except OSError:
                    return

        thread = threading.Thread(target=drip, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.stop.set()
            thread.join(10)
