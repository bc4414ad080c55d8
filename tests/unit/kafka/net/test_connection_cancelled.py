"""Whoever leaves while a connection is being opened leaves nothing open."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from drlib.kafka.net import connection as transport
from drlib.kafka.net.connection import Connection
from drlib.kafka.security.credentials import Tls
from drlib.kafka.security.tls import context
from drlib.lab.brokers.certificates import Authority


@contextlib.contextmanager
def frozen_after_the_handshake(made: Path) -> Iterator[int]:
    """The port of a broker that answers the handshake of TLS and then nothing, not even the end of TLS."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(made)
    accepted: list[socket.socket] = []

    def accept() -> None:
        with contextlib.suppress(OSError):
            accepted.append(tls.wrap_socket(listener.accept()[0], server_side=True))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(20)
        for each in accepted:
            each.close()


async def test_open_that_is_cancelled_after_the_tls_handshake_releases_the_socket(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "TLS_SHUTDOWN_S", 60.0)
    authority = Authority(tmp_path)
    made: list[Connection] = []

    class Leaving(Connection):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            made.append(self)
            opening.cancel()

    with frozen_after_the_handshake(authority.issue("broker")) as port:
        tls = context(Tls(ca_pem=authority.certificate.read_text()))
        opening = asyncio.create_task(Leaving.open("127.0.0.1", port, tls=tls))
        with pytest.raises(asyncio.CancelledError):
            await opening
        async with asyncio.timeout(20):
            await made[0].wait_closed()
