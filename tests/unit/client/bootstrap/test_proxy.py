"""Connections passed on between sockets of this process: bytes, halves, back-pressure, limits, moves, drains."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import resource
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from deadline import Deadline

from drlib.client.bootstrap import names, notes, proxy, rules
from drlib.client.bootstrap.names import Info
from drlib.client.bootstrap.notes import Note
from drlib.client.bootstrap.proxy import Limits, Proxy, not_listening
from drlib.errors import UsageError
from drlib.kafka.security.cluster_settings import ClusterSettings

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def until(what: str, condition: Callable[[], bool]) -> None:
    deadline = Deadline(20)
    while not condition():
        assert not deadline.passed, what
        await asyncio.sleep(0.01)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer what was sent, and then the end of it."""
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.write(b"end")
    writer.close()


@dataclass
class Set:
    """A proxy, its port, and what it reported."""

    proxy: Proxy
    port: int
    notes: list[Note]
    servers: list[asyncio.Server] = field(default_factory=list)
    clients: list[asyncio.StreamWriter] = field(default_factory=list)
    handling: set[asyncio.Task[None]] = field(default_factory=set)

    async def server(self, handler: Handler = echo) -> str:
        async def handled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await handler(reader, writer)
            await close(writer)

        def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.handling.add(asyncio.create_task(handled(reader, writer)))

        server = await asyncio.start_server(accepted, "127.0.0.1", 0)
        self.servers.append(server)
        return f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def client(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.clients.append(writer)
        return reader, writer


async def close(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


@contextlib.asynccontextmanager
async def proxied(limits: Limits | None = None) -> AsyncIterator[Set]:
    reported: list[Note] = []
    made = Proxy(limits or Limits(), reported.append)
    one = Set(made, await made.bind("127.0.0.1", 0), reported)
    try:
        yield one
    finally:
        await made.drain(0)
        for server in one.servers:
            server.close()
        for task in one.handling:
            task.cancel()
        await asyncio.gather(*one.handling, *map(close, one.clients))


def to_servers(monkeypatch: pytest.MonkeyPatch, first: Callable[[], Awaitable[None]]) -> None:
    """Let each connection of the proxy to a server wait for `first`; those of the test's clients do not."""
    real = proxy._connected

    async def connect(addresses: Sequence[Info]) -> socket.socket:
        await first()
        return await real(addresses)

    monkeypatch.setattr(proxy, "_connected", connect)


def cluster(alias: str, *servers: str) -> ClusterSettings:
    return ClusterSettings(alias, servers)


def held_port() -> socket.socket:
    """A port without a listener, which no other process takes."""
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    return held


async def asked(client: tuple[asyncio.StreamReader, asyncio.StreamWriter], data: bytes) -> bytes:
    reader, writer = client
    writer.write(data)
    return await reader.readexactly(len(data))


async def ended(client: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> bool:
    """The connection ends, by an end or a reset; what had been sent before is read."""
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(20):
            while await client[0].read(1 << 16):
                pass
    return True


async def test_proxy_without_a_cluster_refuses_and_with_one_passes_on() -> None:
    async with proxied() as one:
        with pytest.raises(ConnectionRefusedError):
            await one.client()
        await one.proxy.point(cluster("paris", await one.server()))
        assert await asked(await one.client(), b"hello") == b"hello"
        assert one.proxy.counts.passed == {"paris": 1}


async def test_proxy_whose_address_another_one_has_bound_too_is_refused_when_it_would_listen() -> None:
    """Two sockets may be bound to one address while neither listens."""
    async with proxied() as one, proxied() as two:
        await two.proxy.bind("127.0.0.1", one.port)
        paris = cluster("paris", await one.server())
        await one.proxy.point(paris)
        with pytest.raises(UsageError, match="another process listens there"):
            await two.proxy.point(paris)


async def test_connection_passes_the_end_of_one_half_on_and_the_answer_back() -> None:
    async with proxied() as one:
        await one.proxy.point(cluster("paris", await one.server()))
        reader, writer = await one.client()
        writer.write(b"x" * 300_000)
        writer.write_eof()
        assert await reader.read() == b"x" * 300_000 + b"end"
        writer.close()
        await until("both sides are closed", lambda: one.proxy.connections == 0)
        assert one.proxy.counts.bytes_to_servers == 300_000
        assert one.proxy.counts.bytes_to_clients == 300_003


async def test_connection_whose_server_ends_first_still_takes_bytes_of_the_client() -> None:
    received = bytearray()

    async def ends_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write_eof()
        received.extend(await reader.read())
        writer.close()

    async with proxied() as one:
        await one.proxy.point(cluster("paris", await one.server(ends_first)))
        reader, writer = await one.client()
        assert await reader.read() == b""
        writer.write(b"late")
        writer.write_eof()
        await until("the server has it", lambda: bytes(received) == b"late")
        await until("both sides are closed", lambda: one.proxy.connections == 0)


async def test_connection_to_a_server_that_does_not_read_stops_reading_from_the_client() -> None:
    release = asyncio.Event()
    received = 0

    async def reads_later(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal received
        await release.wait()
        while data := await reader.read(1 << 16):
            received += len(data)
        writer.close()

    async with proxied() as one:
        await one.proxy.point(cluster("paris", await one.server(reads_later)))
        reader, writer = await one.client()
        sent = 64 << 20
        writer.write(b"x" * sent)
        writer.write_eof()
        (passed,) = one.proxy._open
        transport = passed.client.transport
        assert transport is not None
        await until("nothing more is read", lambda: passed.client.bytes > 0 and not transport.is_reading())
        assert passed.client.bytes < sent // 2, "all was read into memory"
        release.set()
        assert await reader.read() == b""
        assert received == sent


async def test_proxy_tries_servers_in_turn_and_the_failed_one_last() -> None:
    with held_port() as dead:
        async with proxied() as one:
            address = f"127.0.0.1:{dead.getsockname()[1]}"
            await one.proxy.point(cluster("paris", address, await one.server()))
            for _ in range(4):
                assert await asked(await one.client(), b"a") == b"a"
            assert one.proxy.counts.failed[address] == 1, "it was tried again although it had just failed"
            assert one.notes == []


async def test_proxy_without_a_server_closes_the_client_reports_once_and_recovers() -> None:
    with held_port() as dead:
        async with proxied() as one:
            address = f"127.0.0.1:{dead.getsockname()[1]}"
            await one.proxy.point(cluster("paris", address))
            for _ in range(3):
                assert await ended(await one.client())
            await until("each was given up", lambda: one.proxy.counts.closed[proxy.NO_SERVER] == 3)
            (note,) = one.notes
            assert (note.name, note.status, note.cluster) == (notes.UNREACHABLE, "open", "paris")
            assert f"{address}: Connection refused" in note.detail
            await one.proxy.point(cluster("paris", address))
            assert len(one.notes) == 1, "a newer pointer to the same cluster ends nothing"
            dead.listen()
            await one.client()
            await until("it is over", lambda: [note.status for note in one.notes] == ["open", "resolved"])


async def test_proxy_server_that_never_accepts_is_given_up_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "CONNECT_S", 0.2)
    monkeypatch.setattr(proxy, "GIVE_UP_S", 0.3)

    async def never() -> None:
        await asyncio.Event().wait()

    async with proxied() as one:
        await one.proxy.point(cluster("paris", "192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1"))
        to_servers(monkeypatch, never)
        client = await one.client()
        assert await ended(client)
        await until("it was given up", lambda: one.proxy.counts.closed[proxy.NO_SERVER] == 1)
        assert sum(one.proxy.counts.failed.values()) == 2, "the third server's time was over"
        assert "no answer within" in one.notes[0].detail


async def test_proxy_whose_names_take_long_to_be_found_passes_clients_on_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where the first of the system's resolvers is lost with a cluster: each lookup takes seconds."""
    monkeypatch.setattr(proxy, "CONNECT_S", 0.3)
    real, slow_s, asked_for = socket.getaddrinfo, 1.0, list[str]()

    def slow(host: str, *arguments: object, **more: object) -> object:
        if not host.endswith(".example") or more.get("flags") == socket.AI_NUMERICHOST:
            return real(host, *arguments, **more)  # type: ignore[arg-type]
        asked_for.append(host)
        time.sleep(60.0 if host == "lost.example" else slow_s)
        return real("127.0.0.1", *arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    async with proxied() as one:
        port = (await one.server()).rpartition(":")[2]
        await one.proxy.point(cluster("paris", f"lost.example:{port}", f"slow.example:{port}"))
        for _ in range(2):
            assert await asked(await one.client(), b"x") == b"x"
        slow_s = 60.0
        monkeypatch.setattr(names, "FRESH_S", 0.0)
        assert await asked(await one.client(), b"x") == b"x", "by what was found before"
        assert asked_for.count("lost.example") == 1, "a lookup at a time"
        monkeypatch.setattr(proxy, "GIVE_UP_S", 0.5)
        await one.proxy.point(cluster("lyon", f"lost.example:{port}"))
        assert await ended(await one.client())
        assert "lost.example" in one.notes[-1].detail
        assert "its name was not found within 0.5 s" in one.notes[-1].detail


async def test_proxy_move_closes_connections_to_the_former_cluster_alone() -> None:
    async with proxied() as one:
        await one.proxy.point(cluster("paris", await one.server()))
        client = await one.client()
        assert await asked(client, b"a") == b"a"
        assert await one.proxy.point(cluster("paris", await one.server())) == 0, "the same cluster is no move"
        assert await asked(client, b"b") == b"b"
        assert await one.proxy.point(cluster("lyon", await one.server())) == 1
        assert await ended(client)
        assert await asked(await one.client(), b"c") == b"c"
        assert one.proxy.counts.passed == {"paris": 1, "lyon": 1}
        assert one.proxy.counts.closed[proxy.MOVED] == 1


async def test_proxy_move_while_a_client_waits_for_the_former_cluster_ends_that_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started, moved = asyncio.Event(), asyncio.Event()

    async def waits() -> None:
        started.set()
        await moved.wait()

    async with proxied() as one:
        await one.proxy.point(cluster("paris", await one.server()))
        to_servers(monkeypatch, waits)
        client = await one.client()
        await started.wait()
        await one.proxy.point(cluster("lyon", await one.server()))
        assert await ended(client)
        moved.set()
        assert one.proxy.counts.passed == {}


async def test_proxy_at_its_limit_ends_the_longest_silent_connection_and_none_in_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with proxied(Limits(connections=2)) as one:
        await one.proxy.point(cluster("paris", await one.server()))
        first, second = await one.client(), await one.client()
        assert (await asked(first, b"a"), await asked(second, b"b")) == (b"a", b"b")
        assert await ended(await one.client()), "both are in use"
        assert one.proxy.counts.closed[proxy.FULL] == 1
        monkeypatch.setattr(rules, "IN_USE_S", 0.0)
        third = await one.client()
        assert await asked(third, b"c") == b"c"
        assert await ended(first)
        assert await asked(second, b"d") == b"d"
        assert [(note.name, note.status) for note in one.notes] == [(notes.TOO_MANY, "open")]
        third[1].close()
        await until("there is room", lambda: one.proxy.connections < 2)
        one.proxy.close_idle()
        assert len(one.notes) == 1, "it may begin again at once"
        monkeypatch.setattr(proxy, "CALM_S", 0.0)
        one.proxy.close_idle()
        assert [note.status for note in one.notes] == ["open", "resolved"]


@pytest.fixture
def no_files() -> Iterator[list[int]]:
    """Files that use up all that this process may have, until they are closed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken: list[int] = []
    yield taken
    for each in taken:
        os.close(each)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def take_all_files(taken: list[int]) -> None:
    highest = os.dup(0)
    taken.append(highest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 50, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    with contextlib.suppress(OSError):
        while True:
            taken.append(os.dup(0))


async def test_proxy_without_a_file_for_a_client_or_its_server_refuses_it_reports_once_and_recovers(
    monkeypatch: pytest.MonkeyPatch, no_files: list[int]
) -> None:
    """Other parts of the process have more files than are kept for them."""
    monkeypatch.setattr(proxy, "most_files", lambda: 20_000)
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as server, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(socket.socket()) for _ in range(5)]
        async with proxied() as one:
            await one.proxy.point(cluster("paris", f"127.0.0.1:{server.getsockname()[1]}"))
            take_all_files(no_files)
            for client in clients:
                client.setblocking(False)
            for client in clients[:3]:
                await loop.sock_connect(client, ("127.0.0.1", one.port))
            async with asyncio.timeout(20):
                assert [await loop.sock_recv(client, 1) for client in clients[:3]] == [b"", b"", b""]
            assert one.proxy.counts.closed == {proxy.NO_FILE: 3}
            os.close(no_files.pop())
            await loop.sock_connect(clients[3], ("127.0.0.1", one.port))
            async with asyncio.timeout(20):
                assert await loop.sock_recv(clients[3], 1) == b"", (
                    "there was a file for the client, and none for its server"
                )
            assert one.proxy.counts.failed == {}, "that is not the server's fault"
            for _ in range(5):
                os.close(no_files.pop())
            await loop.sock_connect(clients[4], ("127.0.0.1", one.port))
            await until("it is passed on", lambda: one.proxy.counts.passed["paris"] == 1)
            assert [(note.name, note.status) for note in one.notes] == [(notes.FEW_FILES, "open")]
            monkeypatch.setattr(proxy, "CALM_S", 0.0)
            one.proxy.close_idle()
            assert [note.status for note in one.notes] == ["open", "resolved"]


async def test_proxy_closes_what_is_idle_and_keeps_what_is_not() -> None:
    async with proxied(Limits(idle_s=0.5)) as one:
        await one.proxy.point(cluster("paris", await one.server()))
        silent, used = await one.client(), await one.client()
        while one.proxy.counts.closed[proxy.IDLE] == 0:
            assert await asked(used, b"a") == b"a"
            one.proxy.close_idle()
            await asyncio.sleep(0.01)
        assert await ended(silent)
        assert await asked(used, b"b") == b"b"


async def test_proxy_drain_refuses_new_clients_and_closes_silent_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy, "QUIET_S", 0.2)
    async with proxied() as one:
        await one.proxy.point(cluster("paris", await one.server()))
        silent, used = await one.client(), await one.client()
        await until("both are passed on", lambda: one.proxy.counts.passed["paris"] == 2)
        draining = asyncio.create_task(one.proxy.drain(30))
        while one.proxy.counts.closed[proxy.DRAINED] == 0:
            assert await asked(used, b"a") == b"a"
            await asyncio.sleep(0.01)
        assert await ended(silent)
        with pytest.raises(ConnectionRefusedError):
            await one.client()
        used[1].write_eof()
        await draining
        assert one.proxy.connections == 0


async def test_proxy_drain_ends_at_its_deadline_whatever_clients_do() -> None:
    async with proxied() as one:
        await one.proxy.point(cluster("paris", await one.server()))
        client = await one.client()
        await asked(client, b"a")
        await one.proxy.drain(0.05)
        assert one.proxy.connections == 0
        assert await ended(client)


async def test_proxy_with_hundreds_of_connections_gives_each_its_own_answer() -> None:
    async with proxied() as one:
        await one.proxy.point(cluster("paris", await one.server()))
        clients = [await one.client() for _ in range(300)]
        answers = await asyncio.gather(*(asked(client, b"%d" % n) for n, client in enumerate(clients)))
        assert answers == [b"%d" % n for n in range(300)]
        assert one.proxy.connections == 300
        for _, writer in clients:
            writer.close()
        await until("all are gone", lambda: one.proxy.connections == 0)


def test_not_listening_without_the_right_names_what_to_do() -> None:
    error = not_listening("127.0.0.1", 92, PermissionError(errno.EACCES, "Permission denied"))
    assert error.why == "this user may not listen there"
    assert "CAP_NET_BIND_SERVICE" in error.remedy
