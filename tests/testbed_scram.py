"""A server that speaks as much of Kafka's protocol as a SCRAM login needs, and asks for as many iterations as a test says."""

from __future__ import annotations

import base64
import socket
import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

API_VERSIONS, HANDSHAKE, AUTHENTICATE = 18, 17, 36
OFFERED = (
    (1, 4, 13),
    (2, 1, 7),
    (3, 1, 12),
    (9, 1, 8),
    (10, 1, 4),
    (17, 0, 1),
    (18, 0, 0),
    (36, 0, 2),
)  # key, oldest, newest
UNSUPPORTED_VERSION = 35


class ScramServer(socketserver.ThreadingTCPServer):
    """`proofs`: by client software, the final messages that clients sent; a server that has one can try passwords."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, iterations: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.iterations = iterations
        self.proofs: list[bytes] = []
        self.proven = threading.Event()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is what the tests are about."""


class _Handler(socketserver.BaseRequestHandler):
    server: ScramServer
    request: socket.socket

    def handle(self) -> None:
        nonce = ""
        while True:
            key, version, correlation, body = self._request()
            if key == API_VERSIONS:
                code = 0 if version == 0 else UNSUPPORTED_VERSION
                offered = b"".join(struct.pack(">hhh", *each) for each in OFFERED)
                self._answer(correlation, struct.pack(">hi", code, len(OFFERED)) + offered)
            elif key == HANDSHAKE:
                name = b"SCRAM-SHA-256"
                self._answer(correlation, struct.pack(">hih", 0, 1, len(name)) + name)
            elif key == AUTHENTICATE:
                message = body[body.index(b"n,,") + 3 :] if not nonce else body[body.index(b"c=") :]
                message = message.rstrip(b"\0")
                if nonce:
                    self.server.proofs.append(message)
                    self.server.proven.set()
                    return
                nonce = dict(pair.split("=", 1) for pair in message.decode().split(","))["r"] + "server"
                salt = base64.b64encode(b"salt").decode()
                first = f"r={nonce},s={salt},i={self.server.iterations}".encode()
                self._answer(correlation, _authenticated(version, first))
            else:
                return

    def _request(self) -> tuple[int, int, int, bytes]:
        size = int.from_bytes(self._exactly(4), "big")
        data = self._exactly(size)
        key, version, correlation, client = struct.unpack_from(">hhih", data)
        return key, version, correlation, data[10 + max(0, client) :]

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.request.recv(size - len(data))
            if not part:
                raise ConnectionError
            data += part
        return data

    def _answer(self, correlation: int, body: bytes) -> None:
        self.request.sendall(struct.pack(">ii", len(body) + 4, correlation) + body)


def _authenticated(version: int, message: bytes) -> bytes:
    """SaslAuthenticate's answer, of which version 2 is flexible: its header has tags as well."""
    if version < 2:
        lifetime = struct.pack(">q", 0) if version == 1 else b""
        return struct.pack(">hhi", 0, -1, len(message)) + message + lifetime
    return b"\0" + struct.pack(">h", 0) + b"\0" + bytes([len(message) + 1]) + message + struct.pack(">q", 0) + b"\0"


@contextmanager
def scram_server(iterations: int) -> Iterator[ScramServer]:
    server = ScramServer(iterations)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
