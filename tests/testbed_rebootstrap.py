"""A proxy before one broker that can answer Metadata itself: with REBOOTSTRAP_REQUIRED (129, KIP-1102), as brokers themselves
never do, or with topics and no broker, as one does that was just started or is fenced.

Rules: every frame passes unchanged until `required` or `brokerless` is set. From then on a Metadata request of version 13 or
later, the first with an error of the whole answer, is answered here; what passes of earlier versions has no field for it. Which
version each client asked with is kept.
"""

from __future__ import annotations

import asyncio
import functools
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

METADATA = 3
FIRST_VERSION = 13  # MetadataResponse.json: "Version 13 supports top-level error code in the response"
REBOOTSTRAP_REQUIRED = 129
LEADER_NOT_AVAILABLE = 5


@dataclass
class Asked:
    """What was seen of Metadata requests, by client ID."""

    required: bool = False
    versions: dict[str, int] = field(default_factory=dict)
    answered: dict[str, int] = field(default_factory=dict)  # how often with error 129
    port: int = 0
    brokerless: tuple[str, ...] = ()  # topics of an answer that names no broker
    given: dict[str, int] = field(default_factory=dict)  # how often, by client ID


def header_of(frame: bytes) -> tuple[int, int, int, str]:
    """API key, version, correlation ID and client ID of a request without its length."""
    key, version, correlation, length = struct.unpack_from(">hhih", frame)
    return key, version, correlation, frame[10 : 10 + max(0, length)].decode(errors="replace")


def refusal(correlation: int) -> bytes:
    """A MetadataResponse, version 13, without brokers and topics, with error 129; its length before it."""
    body = struct.pack(">ib", correlation, 0)  # header version 1: no tagged fields
    body += struct.pack(">i", 0)  # throttle_time_ms
    body += b"\x01"  # brokers: none
    body += b"\x00"  # cluster_id: null
    body += struct.pack(">i", -1)  # controller_id
    body += b"\x01"  # topics: none
    body += struct.pack(">h", REBOOTSTRAP_REQUIRED) + b"\x00"
    return struct.pack(">i", len(body)) + body


def without_brokers(correlation: int, topics: tuple[str, ...]) -> bytes:
    """A MetadataResponse, version 13, without brokers, and with topics of no leader; its length before it."""
    body = struct.pack(">ib", correlation, 0) + struct.pack(">i", 0)  # no tagged fields, throttle_time_ms
    body += b"\x01" + b"\x04any" + struct.pack(">i", -1)  # no brokers, cluster_id, controller_id
    body += bytes([len(topics) + 1])
    for topic in topics:
        name = topic.encode()
        body += struct.pack(">h", LEADER_NOT_AVAILABLE) + bytes([len(name) + 1]) + name + bytes(16)
        body += b"\x00\x01" + struct.pack(">i", -(2**31)) + b"\x00"  # not internal, no partitions, no rights
    body += struct.pack(">h", 0) + b"\x00"
    return struct.pack(">i", len(body)) + body


@contextmanager
def rebootstrap_proxy(broker_port: int) -> Iterator[Asked]:
    """It listens on `port` of 127.0.0.1 until the end."""
    asked, started = Asked(), threading.Event()
    ending: list[Callable[[], object]] = []

    async def serve() -> None:
        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        ending.append(lambda: loop.call_soon_threadsafe(ended.set))
        connect = functools.partial(_connection, broker_port=broker_port, asked=asked)
        server = await asyncio.start_server(connect, "127.0.0.1", 0)
        asked.port = server.sockets[0].getsockname()[1]
        started.set()
        await ended.wait()
        server.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield asked
    finally:
        ending[0]()
        thread.join(10)


async def _connection(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, broker_port: int, asked: Asked
) -> None:
    try:
        from_broker, to_broker = await asyncio.open_connection("127.0.0.1", broker_port)
    except OSError:
        writer.transport.abort()
        return

    async def requests() -> None:
        while True:
            length = await reader.readexactly(4)
            frame = await reader.readexactly(struct.unpack(">i", length)[0])
            key, version, correlation, client = header_of(frame)
            if key == METADATA:
                asked.versions[client] = max(version, asked.versions.get(client, 0))
                if asked.required and version >= FIRST_VERSION:
                    asked.answered[client] = asked.answered.get(client, 0) + 1
                    writer.write(refusal(correlation))
                    continue
                if asked.brokerless and version >= FIRST_VERSION:
                    asked.given[client] = asked.given.get(client, 0) + 1
                    writer.write(without_brokers(correlation, asked.brokerless))
                    continue
            to_broker.write(length + frame)
            await to_broker.drain()

    async def answers() -> None:
        while data := await from_broker.read(65536):
            writer.write(data)
            await writer.drain()

    ways = [asyncio.ensure_future(requests()), asyncio.ensure_future(answers())]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        writer.transport.abort()
        to_broker.transport.abort()
