"""A peer that is no broker: what it does with each connection is a coroutine of the test; requests are framed as Kafka's."""

from __future__ import annotations

import asyncio
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from drlib.kafka.net.connection import Connection

Peer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
ECHO = 0  # any API key will do for a peer that is no broker


@asynccontextmanager
async def listening(peer: Peer, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server on a free port that treats every connection as `peer` does."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await peer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


@asynccontextmanager
async def connected(port: int, **options: float) -> AsyncIterator[Connection]:
    connection = await Connection.open("127.0.0.1", port, **options)  # type: ignore[arg-type]
    try:
        yield connection
    finally:
        connection.close(abort=True)
        await connection.wait_closed()


async def request(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Correlation ID and body of the next request."""
    size = int.from_bytes(await reader.readexactly(4), "big")
    data = await reader.readexactly(size)
    _, _, correlation_id, client = struct.unpack_from(">hhih", data)
    return correlation_id, data[10 + client + 1 :]


def answer(correlation_id: int, body: bytes) -> bytes:
    return struct.pack(">ii", len(body) + 5, correlation_id) + b"\0" + body


def ask(connection: Connection, body: bytes, timeout_s: float | None = None) -> asyncio.Future[bytes]:
    return connection.submit(ECHO, 0, [body], bytes, timeout_s=timeout_s)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        correlation_id, body = await request(reader)
        writer.write(answer(correlation_id, body))


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
