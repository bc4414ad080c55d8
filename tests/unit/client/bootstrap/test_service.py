"""From the first pointer to SIGTERM: what is followed, kept over a restart, refused at the start, and said."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import shutil
import signal
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

import pytest
from deadline import Deadline

from drlib.client.active_cluster import NoPointer
from drlib.client.bootstrap import check, notes, state_file
from drlib.client.bootstrap.notes import Note
from drlib.client.bootstrap.rules import Known
from drlib.client.bootstrap.service import Bootstrap, Options, allow_files
from drlib.client.bootstrap.state_file import Stored
from drlib.client.pointer import Pointer, PointerConflict
from drlib.errors import Aborted, DrlibError, Unreachable, UsageError
from drlib.kafka.net.cluster_client import Broker, ClusterMetadata
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.status.systemd import ServiceManager

LOCAL = ("127.0.0.1", 0)


class Source:
    """A pointer that the test sets; `problem` is raised while there is none."""

    def __init__(self, pointer: Pointer | None = None, doubt: str = "", problem: DrlibError | None = None) -> None:
        self.pointer, self.said, self.problem = pointer, doubt, problem
        self.closed = False

    def current(self) -> Pointer | None:
        if self.pointer is None and self.problem is not None:
            raise self.problem
        return self.pointer

    def doubt(self) -> str:
        return self.said

    def settled(self) -> bool:
        return True

    def wait_newer(self, version: int, timeout_s: float) -> Pointer | None:
        threading.Event().wait(0.01)
        return None

    def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers of these tests are sockets that accept, and are no Kafka."""
    monkeypatch.setattr(check, "CHECK_S", 0.2)


@pytest.fixture
def servers() -> Iterator[list[socket.socket]]:
    made = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    yield made
    for each in made:
        each.close()


def clusters(servers: Sequence[socket.socket]) -> dict[str, ClusterSettings]:
    return {
        alias: ClusterSettings(alias, (f"127.0.0.1:{server.getsockname()[1]}",))
        for alias, server in zip(("paris", "lyon"), servers, strict=True)
    }


class Running:
    def __init__(self, served: Bootstrap, reported: list[Note], task: asyncio.Task[None]) -> None:
        self.served, self.reported, self.task = served, reported, task

    async def until(self, name: str, status: str, count: int = 1) -> Note:
        """The note of that name and status, once it was reported `count` times."""
        deadline = Deadline(20)
        while len(found := [n for n in self.reported if (n.name, n.status) == (name, status)]) < count:
            if self.task.done():
                await self.task
            assert not deadline.passed, (name, status, self.reported)
            await asyncio.sleep(0.01)
        return found[-1]

    async def holds(self, condition: Callable[[], bool]) -> None:
        deadline = Deadline(20)
        while not condition():
            assert not deadline.passed
            await asyncio.sleep(0.01)

    def port(self) -> int:
        return int(self.served.proxy._listeners[0].getsockname()[1])


@contextlib.asynccontextmanager
async def running(
    known: dict[str, ClusterSettings], source: Source, options: Options | None = None
) -> AsyncIterator[Running]:
    """Until the block ends, then stopped by SIGTERM."""
    reported: list[Note] = []
    made = Bootstrap(
        known, lambda: source, options or Options((LOCAL,), drain_s=0.1), reported.append, ServiceManager()
    )
    task = asyncio.create_task(made.run())
    one = Running(made, reported, task)
    try:
        yield one
        await one.until(notes.STATE, "listening")
        signal.raise_signal(signal.SIGTERM)
        async with asyncio.timeout(20):
            await task
        assert source.closed
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def refused(known: dict[str, ClusterSettings], source: Source, options: Options | None = None) -> DrlibError:
    """The error that a start ends with."""
    made = Bootstrap(known, lambda: source, options or Options((LOCAL,)), lambda _: None, ServiceManager())
    with pytest.raises(DrlibError) as error:
        async with asyncio.timeout(20):
            await made.run()
    for server in made.proxy._listeners:
        server.close()
    return error.value


async def test_bootstrap_follows_the_pointer_closes_and_says_so(servers: list[socket.socket], tmp_path: Path) -> None:
    source, state = Source(Pointer(3, "paris", "p:1")), tmp_path / "state.json"
    options = Options((LOCAL,), state=state, drain_s=0.1)
    async with running(clusters(servers), source, options) as one:
        await one.until(notes.STATE, "listening")
        reader, writer = await asyncio.open_connection("127.0.0.1", one.port())
        await one.holds(lambda: one.served.proxy.counts.passed["paris"] == 1)
        source.pointer = Pointer(4, "lyon", "l:1")
        moved = await one.until(notes.STATE, "moved")
        assert (moved.cluster, moved.count) == ("lyon", 1)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        stored = state_file.read(state, "*")
        assert stored is not None
        assert stored.known == Known(4, "lyon")
    assert [n.status for n in one.reported if n.name == notes.STATE] == ["listening", "moved", "draining", "stopped"]


async def test_bootstrap_restarted_without_a_pointer_continues_as_stored_and_says_so(
    servers: list[socket.socket], tmp_path: Path
) -> None:
    state = tmp_path / "state.json"
    state_file.write(state, Stored("*", 5, "lyon", 1))
    source = Source(doubt="paris does not answer")
    async with running(clusters(servers), source, Options((LOCAL,), state=state, drain_s=0.1)) as one:
        assert "lyon (version 5) is kept" in (await one.until(notes.FROM_STATE, "open")).detail
        assert one.served.from_state
        listening = await one.until(notes.STATE, "listening")
        assert listening.cluster == "lyon"
        source.pointer = Pointer(4, "paris", "p:1")  # older: from a cluster that was down
        source.said = ""
        await one.until(notes.IN_DOUBT, "resolved")
        assert one.served.known == Known(5, "lyon")
        assert one.served.from_state
        source.pointer = Pointer(6, "paris", "p:1")
        await one.until(notes.STATE, "moved")
        await one.until(notes.FROM_STATE, "resolved")
        assert not one.served.from_state


async def test_bootstrap_pointer_to_an_unknown_cluster_is_said_and_not_followed(servers: list[socket.socket]) -> None:
    source = Source(Pointer(3, "paris", "p:1"))
    async with running(clusters(servers), source) as one:
        await one.until(notes.STATE, "listening")
        source.pointer = Pointer(4, "rome", "r:1")
        detail = (await one.until(notes.UNKNOWN_CLUSTER, "open")).detail
        assert detail == "version 4 of the pointer names rome, paris (version 3) is kept"
        assert one.served.proxy.cluster is not None
        assert one.served.proxy.cluster.alias == "paris"
        source.pointer = Pointer(5, "lyon", "l:1")
        await one.until(notes.UNKNOWN_CLUSTER, "resolved")
        assert one.served.known == Known(5, "lyon")


async def test_bootstrap_state_file_that_can_no_longer_be_written_is_said(
    servers: list[socket.socket], tmp_path: Path
) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    source = Source(Pointer(3, "paris", "p:1"))
    async with running(clusters(servers), source, Options((LOCAL,), state=folder / "s.json", drain_s=0.1)) as one:
        await one.until(notes.STATE, "listening")
        shutil.rmtree(folder)
        source.pointer = Pointer(4, "lyon", "l:1")
        await one.until(notes.STATE_FILE, "open")
        folder.mkdir()
        source.pointer = Pointer(5, "lyon", "l:1")
        await one.until(notes.STATE_FILE, "resolved")


async def test_bootstrap_without_anything_known_ends_with_the_reason(
    servers: list[socket.socket], tmp_path: Path
) -> None:
    known, state = clusters(servers), tmp_path / "state.json"
    assert isinstance(await refused(known, Source()), NoPointer)
    silent = await refused(known, Source(doubt="paris does not answer"))
    assert isinstance(silent, Unreachable)
    assert "paris does not answer" in silent.why
    two = PointerConflict("there are two pointers with version 3", "two writers", "Decide.")
    assert "two pointers with version 3" in (await refused(known, Source(problem=two))).why
    other = await refused(known, Source(Pointer(1, "rome", "r:1")))
    assert isinstance(other, UsageError)
    assert "names rome" in other.what
    state_file.write(state, Stored("*", 5, "rome", 1))
    stored = await refused(known, Source(), Options((LOCAL,), state=state))
    assert stored.what.startswith("the state file names rome")


async def test_bootstrap_address_that_is_taken_or_of_another_machine_is_refused(servers: list[socket.socket]) -> None:
    port = servers[0].getsockname()[1]
    taken = await refused(clusters(servers), Source(), Options((("127.0.0.1", port),)))
    assert (taken.exit_code, taken.why) == (2, "another process listens there")
    assert "no address of this machine" in (await refused({}, Source(), Options((("192.0.2.1", 0),)))).why


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
async def test_bootstrap_servers_that_lead_back_here_are_refused(host: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    loop = {"paris": ClusterSettings("paris", (f"localhost:{port}",))}
    error = await refused(loop, Source(), Options(((host, port),)))
    assert isinstance(error, UsageError)
    assert f"localhost:{port}, where this command listens itself" in error.why
    public = {"paris": ClusterSettings("paris", ("kafka.test.invalid:9092",))}
    named = await refused(public, Source(), Options((LOCAL,), public=(("kafka.test.invalid", 9092),)))
    assert "kafka.test.invalid:9092" in named.why


async def test_bootstrap_listener_of_a_broker_that_leads_back_here_is_refused_at_the_start_and_said_at_a_move(
    servers: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = ("kafka.test.invalid", 9092)
    advertised = {"paris": ("127.0.0.1", 1), "lyon": ("127.0.0.1", 2)}

    async def answer(cluster: ClusterSettings, timeout_s: float) -> ClusterMetadata:
        return ClusterMetadata("id", 1, {1: Broker(1, *advertised[cluster.alias])}, {})

    monkeypatch.setattr(check, "first_answer", answer)
    source, options = Source(Pointer(3, "paris", "p:1")), Options((LOCAL,), public=(own,), drain_s=0.1)
    async with running(clusters(servers), source, options) as one:
        await one.until(notes.STATE, "listening")
        advertised["lyon"] = own
        source.pointer = Pointer(4, "lyon", "l:1")
        note = await one.until(notes.LEADS_HERE, "open")
        assert "brokers of lyon advertise kafka.test.invalid:9092" in note.detail
        assert one.served.known == Known(4, "lyon")
    error = await refused(clusters(servers), source, options)
    assert "advertise kafka.test.invalid:9092" in error.why


async def test_bootstrap_state_in_a_folder_that_is_missing_is_refused(tmp_path: Path) -> None:
    error = await refused({}, Source(), Options((LOCAL,), state=tmp_path / "none" / "s.json"))
    assert error.why == "its folder does not exist"


async def test_bootstrap_second_signal_ends_a_drain_at_once(servers: list[socket.socket]) -> None:
    reported: list[Note] = []
    source = Source(Pointer(3, "paris", "p:1"))
    made = Bootstrap(
        clusters(servers), lambda: source, Options((LOCAL,), drain_s=600), reported.append, ServiceManager()
    )
    one = Running(made, reported, asyncio.create_task(made.run()))
    await one.until(notes.STATE, "listening")
    _, writer = await asyncio.open_connection("127.0.0.1", one.port())
    await one.holds(lambda: made.proxy.connections == 1)
    signal.raise_signal(signal.SIGTERM)
    await one.until(notes.STATE, "draining")
    signal.raise_signal(signal.SIGTERM)
    with pytest.raises(Aborted):
        async with asyncio.timeout(20):
            await one.task
    await made.proxy.drain(0)
    writer.close()


def test_allow_files_more_than_the_machine_allows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    set_to: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: set_to.append(limits))
    allow_files(100)
    assert set_to == [], "the limit is enough"
    allow_files(1900)
    assert set_to == [(4096, 4096)], "as far as it may be raised: there are more files than two for each connection"
    with pytest.raises(UsageError, match="--max-connections 1984"):
        allow_files(4000)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 64))
    with pytest.raises(UsageError, match="--max-connections 16"):
        allow_files(17)
    allow_files(16)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    allow_files(1000)
    assert set_to[1:] == [(2128, resource.RLIM_INFINITY)]
