"""A connection that fell silent is given up only while a new one to the same broker is answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import pytest
from testbed_lane import until
from testbed_peer import answer, ask, connected, listening, request, silent

from drlib.errors import Unreachable
from drlib.kafka.net import silence
from drlib.kafka.net.connection import Connection, ConnectionLost, SentBatch
from drlib.kafka.net.silence import SilenceWatch, may_still_be_answered, patience_s
from drlib.kafka.protocol.batch import SEQUENCE_MODULUS
from drlib.model import TopicPartition

ONE, TWO = TopicPartition("a", 0), TopicPartition("a", 1)
Another = Callable[[Connection], Awaitable[Connection]]


def sent(partition: TopicPartition, last_sequence: int, end: int | None) -> SentBatch:
    return SentBatch(partition, 7, 3, last_sequence, end)


@pytest.mark.parametrize(
    ("round_trip_s", "given_up", "alarmed", "seconds"),
    [
        (0.0, 0, False, 3.0),
        (2.0, 0, False, 11.0),
        (0.0, 2, False, 12.0),
        (0.0, 0, True, 0.25),
        (1.0, 1, True, 8.5),
        (0.0, 99, False, 96.0),
    ],
)
def test_patience_grows_with_round_trip_and_with_each_connection_given_up(
    round_trip_s: float, given_up: int, alarmed: bool, seconds: float
) -> None:
    assert patience_s(round_trip_s, given_up, alarmed=alarmed) == seconds


@pytest.mark.parametrize(
    ("batches", "last", "replicated", "waits"),
    [
        ([sent(ONE, 9, 100)], [None], {ONE: 90}, False),  # the leader never got it
        ([sent(ONE, 9, 100)], [8], {ONE: 90}, False),
        ([sent(ONE, 9, 100)], [-1], {ONE: 90}, False),  # after a marker, which resets the sequence
        ([sent(ONE, 9, 100)], [9], {ONE: 99}, True),  # appended, not replicated
        ([sent(ONE, 9, 100)], [30], {ONE: 99}, True),  # and more after it
        ([sent(ONE, 9, 100)], [9], {ONE: 100}, False),  # replicated: its answer is lost
        ([sent(ONE, 9, None)], [9], {ONE: 100}, True),
        ([sent(ONE, 9, 100), sent(TWO, 4, 50)], [9, 4], {ONE: 100, TWO: 49}, True),
        ([sent(ONE, 9, 100), sent(TWO, 4, 50)], [9, 4], {ONE: 100, TWO: 50}, False),
        ([sent(ONE, 9, 100), sent(TWO, 4, 50)], [9, 3], {ONE: 99, TWO: 50}, True),  # one of them was refused
        ([sent(ONE, 9, 100), sent(TWO, 4, 50)], [8, 3], {ONE: 99, TWO: 49}, False),
        ([sent(ONE, SEQUENCE_MODULUS - 1, 100)], [2], {ONE: 99}, True),  # the sequence began again
        ([sent(ONE, 2, 100)], [SEQUENCE_MODULUS - 1], {ONE: 99}, False),
        ([SentBatch(ONE, -1, -1, -1, None)], [None], {ONE: 0}, True),  # no producer ID: it cannot be found in the log
    ],
)
def test_produce_request_waits_for_replicas_or_is_lost(
    batches: Sequence[SentBatch], last: Sequence[int | None], replicated: dict[TopicPartition, int], waits: bool
) -> None:
    sequences = dict(zip(batches, last, strict=True))
    assert may_still_be_answered(batches, sequences, replicated) is waits


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence, "PATIENCE_S", 0.1)
    monkeypatch.setattr(silence, "ALARMED_S", 0.05)
    monkeypatch.setattr(silence, "CHECK_S", 0.02)


@asynccontextmanager
async def watching(*connections: Connection, another: Another) -> AsyncIterator[SilenceWatch]:
    for connection in connections:
        connection.begin("test")
    watch = SilenceWatch(connections, another)
    watch.start()
    try:
        yield watch
    finally:
        await watch.stop()


def opening(watch: list[SilenceWatch], port: int) -> Another:
    """Opens a connection to `port`, whose round trip takes no time."""

    async def another(_: Connection) -> Connection:
        watch[0].measured(_.peer, 0.0)
        return await Connection.open("127.0.0.1", port)

    return another


async def unreachable(_: Connection) -> Connection:
    raise Unreachable("the broker can't be reached", "it is paused", "Wait.")


@pytest.mark.usefixtures("quick")
async def test_silent_connection_is_given_up_when_another_is_answered() -> None:
    watch: list[SilenceWatch] = []
    async with (
        listening(silent) as port,
        connected(port) as connection,
        connected(port) as idle,
        watching(connection, idle, another=opening(watch, port)) as started,
    ):
        watch.append(started)
        with pytest.raises(ConnectionLost, match="stayed silent while a new connection"):
            await asyncio.wait_for(ask(connection, b"x"), 5)
        # The alarm asks idle connections for a sign of life, which this one does not give.
        await until("the idle connection is given up", lambda: idle.is_lost, 5)


@pytest.mark.usefixtures("quick")
async def test_silent_connection_is_kept_while_no_other_is_answered() -> None:
    async with listening(silent) as port, connected(port) as connection, watching(connection, another=unreachable):
        with pytest.raises(ConnectionLost, match="not answered in time"):  # its own deadline, as before
            await asyncio.wait_for(ask(connection, b"x", timeout_s=0.6), 5)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("purpose", ["", silence.DOUBT])
async def test_connection_that_is_being_opened_is_not_doubted(purpose: str) -> None:
    """While a broker is paused, each doubt would raise the next."""
    asked: list[str] = []

    async def another(connection: Connection) -> Connection:
        asked.append(connection.purpose)
        return await unreachable(connection)

    async with listening(silent) as port, connected(port) as opening_one, connected(port) as used:
        async with watching(opening_one, used, another=another):
            opening_one.begin(purpose)
            ask(opening_one, b"x")
            ask(used, b"x")
            await until("the other one was doubted", lambda: len(asked) > 2, 5)
        assert set(asked) == {"test"}


@pytest.mark.parametrize("wait_s", [0.0, 30.0])
async def test_request_that_a_broker_may_let_wait_is_not_silent_before(wait_s: float) -> None:
    async with listening(silent) as port, connected(port) as connection:
        connection.submit(0, 0, [b"x"], bytes, broker_wait_s=wait_s)
        now = asyncio.get_running_loop().time()
        assert connection.silent_s(now) == 0  # it was just sent
        assert connection.silent_s(now + 10) == pytest.approx(max(0.0, 10 - wait_s), abs=0.5)
        assert connection.waiting_s == pytest.approx(0.0, abs=0.5)


async def test_throttled_answer_announces_the_silence_that_follows() -> None:
    async def throttles(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        correlation_id, _ = await request(reader)
        writer.write(answer(correlation_id, (7000).to_bytes(4, "big")))
        await reader.read()

    async with listening(throttles) as port, connected(port) as connection:
        first = connection.submit(0, 0, [b"one"], bytes, throttle_at=0)
        second = connection.submit(0, 0, [b"two"], bytes, throttle_at=0, timeout_s=5)
        await first
        now = asyncio.get_running_loop().time()
        assert connection.silent_s(now + 6.5) == 0
        assert connection.silent_s(now + 9) == pytest.approx(2, abs=0.5)
        assert connection._pending[0].deadline == pytest.approx(now + 12, abs=0.5)
        second.cancel()


async def test_request_still_being_sent_is_not_silent() -> None:
    read_on = asyncio.Event()

    async def reads_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_on.wait()
        await reader.read()

    async with listening(reads_late) as port, connected(port) as connection:
        ask(connection, bytes(32 << 20))
        now = asyncio.get_running_loop().time()
        await asyncio.sleep(0.2)
        before = connection.moved
        connection.silent_s(now)
        assert connection.silent_s(now + 50) == pytest.approx(50, abs=1)
        read_on.set()
        await until("some of it is received", lambda: connection.moved > before, 5)
        assert connection.silent_s(now + 100) == 0  # bytes moved since the last look


async def test_bytes_of_later_requests_are_no_sign_of_life() -> None:
    async with listening(silent) as port, connected(port) as connection:
        ask(connection, b"first")
        await asyncio.sleep(0.05)
        before = connection.moved
        ask(connection, b"second")
        await asyncio.sleep(0.05)
        assert connection.moved == before
