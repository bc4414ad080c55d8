"""A connection against a peer that does what no broker should: dies, is silent, answers wrongly, answers in crumbs."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse, MetadataResponse
from kafka.protocol.sasl import SaslHandshakeRequest
from testbed_peer import ECHO, Peer, answer, ask, connected, echo, listening, request, silent

from drlib.errors import NoBrokersYet, Unreachable, UsageError
from drlib.kafka.net import api_versions as versions
from drlib.kafka.net import connection as transport
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.net.connection import MAX_FRAME, Connection, ConnectionLost
from drlib.kafka.security.credentials import Security, Tls


async def test_connection_receives_answers_of_every_size_in_order() -> None:
    bodies = [bytes([n % 251]) * size for n, size in enumerate([0, 1, 5, 70_000, 3, 32_768, 3_000_000, 2, 40_000, 1])]
    async with listening(echo) as port, connected(port) as connection:
        assert await asyncio.gather(*[ask(connection, body) for body in bodies * 3]) == bodies * 3
        assert connection.in_flight == 0


async def test_connection_assembles_an_answer_in_small_pieces() -> None:
    async def crumbs(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        out = b""
        for _ in range(3):
            correlation_id, body = await request(reader)
            out += answer(correlation_id, body)
        for at in range(0, len(out), 3):
            writer.write(out[at : at + 3])
            await writer.drain()
            await asyncio.sleep(0)

    async with listening(crumbs) as port, connected(port) as connection:
        bodies = [b"first", b"", b"x" * 500]
        assert await asyncio.gather(*[ask(connection, b) for b in bodies]) == bodies


async def test_hold_keeps_other_requests_in_order_until_release() -> None:
    seen: list[bytes] = []

    async def notes(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            correlation_id, body = await request(reader)
            seen.append(body)
            writer.write(answer(correlation_id, body))

    async with listening(notes) as port, connected(port) as connection:
        before = ask(connection, b"before")
        connection.hold()
        waiting = [ask(connection, body) for body in (b"one", b"two", b"three")]
        waiting[1].cancel()
        login = connection.submit(36, 0, [b"login"], bytes)
        assert await asyncio.gather(before, login) == [b"before", b"login"]
        assert not waiting[0].done()
        assert connection.in_flight == 3
        connection.release()
        assert await waiting[0] == b"one"
        assert await waiting[2] == b"three"
        assert seen == [b"before", b"login", b"one", b"three"]


async def test_held_request_fails_unsent_when_the_connection_ends() -> None:
    async with listening(echo) as port, connected(port) as connection:
        connection.hold()
        waiting = ask(connection, b"never sent", timeout_s=0.1)
        with pytest.raises(ConnectionLost, match="in time"):
            await waiting
        later = ask(connection, b"x")
        with pytest.raises(ConnectionLost):
            await later


async def test_pending_requests_fail_when_the_peer_dies() -> None:
    async def dies(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        correlation_id, body = await request(reader)
        writer.write(answer(correlation_id, body))
        await request(reader)

    async with listening(dies) as port, connected(port) as connection:
        first, *others = [ask(connection, b"%d" % i) for i in range(4)]
        assert await first == b"0"
        for other in others:
            with pytest.raises(ConnectionLost):
                await other
        assert connection.is_lost
        with pytest.raises(ConnectionLost):
            await ask(connection, b"later")
        with pytest.raises(ConnectionLost):
            await connection.drain()


@pytest.mark.parametrize("size", [MAX_FRAME + 1, 2**31 - 1, -1, 0, 3])
async def test_impossible_length_ends_the_connection(size: int) -> None:
    async def hostile(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(struct.pack(">i", size) + bytes(100))
        await reader.read()

    async with listening(hostile) as port, connected(port) as connection:
        with pytest.raises(ConnectionLost, match=f"{size} bytes"):
            await ask(connection, b"hello")


async def test_wrong_correlation_id_ends_the_connection() -> None:
    async def confused(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        correlation_id, body = await request(reader)
        writer.write(answer(correlation_id + 1, body))
        await reader.read()

    async with listening(confused) as port, connected(port) as connection:
        with pytest.raises(ConnectionLost, match="answer 2 came where 1 was due"):
            await ask(connection, b"hello")


async def test_unrequested_answer_ends_the_connection() -> None:
    async def talks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        correlation_id, body = await request(reader)
        writer.write(answer(correlation_id, body) + answer(99, b""))
        await reader.read()

    async with listening(talks) as port, connected(port) as connection:
        assert await ask(connection, b"hello") == b"hello"
        await asyncio.wait_for(connection.wait_closed(), 5)
        with pytest.raises(ConnectionLost, match="unrequested answer"):
            await ask(connection, b"again")


async def test_malformed_answer_ends_the_connection() -> None:
    async with listening(echo) as port, connected(port) as connection:
        with pytest.raises(ConnectionLost, match="can't be read"):
            await connection.submit(ECHO, 0, [b"abc"], lambda view: struct.unpack(">q", view))


async def test_silent_peer_ends_the_connection_at_the_first_missed_deadline() -> None:
    async with listening(silent) as port, connected(port, request_timeout_s=30) as connection:
        patient = ask(connection, b"patient")
        hasty = ask(connection, b"hasty", timeout_s=0.1)
        with pytest.raises(ConnectionLost, match="not answered in time"):
            await asyncio.wait_for(hasty, 5)
        with pytest.raises(ConnectionLost):
            await patient


async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, pieces: int = 1000) -> None:
    """Answer one request twenty bytes at a time, and stop after `pieces`."""
    correlation_id, body = await request(reader)
    whole = answer(correlation_id, body)
    for at in range(0, min(len(whole), 20 * pieces), 20):
        writer.write(whole[at : at + 20])
        await writer.drain()
        await asyncio.sleep(0.02)
    await reader.read()


async def test_deadline_is_extended_while_an_answer_keeps_arriving() -> None:
    async with listening(drip) as port, connected(port) as connection:
        assert await ask(connection, b"x" * 400, timeout_s=0.1) == b"x" * 400


@pytest.mark.parametrize("length", [400, 100_000])  # within the scratch buffer, and in a frame of its own
async def test_deadline_is_missed_when_an_answer_stops_arriving(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    monkeypatch.setattr(transport, "SILENCE_S", 0.2)
    async with listening(partial(drip, pieces=5)) as port, connected(port) as connection:
        with pytest.raises(ConnectionLost, match="not answered in time"):
            await asyncio.wait_for(ask(connection, b"x" * length, timeout_s=0.1), 5)


async def test_cancelled_request_only_discards_its_answer() -> None:
    async with listening(echo) as port, connected(port) as connection:
        unwanted, wanted = ask(connection, b"unwanted"), ask(connection, b"wanted")
        unwanted.cancel()
        assert await wanted == b"wanted"


async def test_drain_waits_for_a_peer_that_does_not_read() -> None:
    go_on = asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await go_on.wait()
        await echo(reader, writer)

    async with listening(slow) as port, connected(port) as connection:
        answers = [ask(connection, bytes(1 << 20)) for _ in range(24)]
        draining = asyncio.create_task(connection.drain())
        done, _ = await asyncio.wait({draining}, timeout=0.1)
        assert not done
        go_on.set()
        await asyncio.wait_for(draining, 10)
        assert {len(a) for a in await asyncio.gather(*answers)} == {1 << 20}


async def test_abort_resets_the_peer_and_fails_pending_requests() -> None:
    seen: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def watch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await request(reader)
            await reader.read()
            seen.set_result("an orderly end")
        except ConnectionResetError:
            seen.set_result("a reset")

    async with listening(watch) as port, connected(port) as connection:
        pending = ask(connection, b"hello")
        await asyncio.sleep(0)
        connection.close(abort=True)
        with pytest.raises(ConnectionLost, match="closed here"):
            await pending
        assert await asyncio.wait_for(seen, 5) == "a reset"


async def test_socket_options_are_set() -> None:
    async with listening(silent) as port, connected(port, user_timeout_ms=4321, linger_zero=True) as connection:
        sock = connection._socket()
        assert sock is not None
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 4321
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8) == struct.pack("ii", 1, 0)


def closed_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


async def test_open_refused_port_is_unreachable() -> None:
    port = closed_port()
    with pytest.raises(Unreachable, match=f"127.0.0.1:{port} can't be reached"):
        await Connection.open("127.0.0.1", port)


async def test_unreachable_cluster_is_named_with_all_addresses() -> None:
    first, second = closed_port(), closed_port()
    client = ClusterClient([f"127.0.0.1:{first}", f"127.0.0.1:{second}"], timeout_s=2)
    with pytest.raises(Unreachable) as caught:
        await client.connect()
    assert f"127.0.0.1:{first}" in str(caught.value)
    assert f"127.0.0.1:{second}" in str(caught.value)
    await client.close()


@pytest.mark.parametrize("address", ["", "host", "host:", ":9092", "host:x", "host:0", "host:70000"])
def test_invalid_bootstrap_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="not a broker address"):
        ClusterClient([address])


def broker(
    asked: list[str], name: str, *, answers: int = 100, cluster: str = "c", lacks: str = "", new: int = 0
) -> Peer:
    """A broker that answers requests for its versions, and so many for metadata; those are noted in `asked`.

    Of the first `new` times it does not know any broker yet.
    """
    entry = ApiVersionsResponse.ApiVersion
    offered = [(key, newest) for api, (key, _, newest) in versions.KNOWN.items() if api != lacks]
    versions_body = ApiVersionsResponse[0](
        error_code=0, api_keys=[entry(api_key=key, min_version=0, max_version=newest) for key, newest in offered]
    ).encode()
    metadata = MetadataResponse[versions.NEWEST["Metadata"]]
    left = answers

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal left
        host, port = writer.get_extra_info("sockname")
        itself = metadata.MetadataResponseBroker(node_id=1, host=host, port=port)
        while True:
            size = int.from_bytes(await reader.readexactly(4), "big")
            data = await reader.readexactly(size)
            of_versions = int.from_bytes(data[:2], "big") == ApiVersionsRequest.API_KEY
            if not of_versions:
                asked.append(name)
                left -= 1
                if left < 0:
                    continue
            known = [] if asked.count(name) <= new else [itself]
            metadata_body = metadata(
                throttle_time_ms=0, brokers=known, cluster_id=cluster, controller_id=1, topics=[]
            ).encode()
            out = data[4:8] + (bytes(versions_body) if of_versions else b"\0" + bytes(metadata_body))
            writer.write(struct.pack(">i", len(out)) + out)

    return serve


async def test_broker_that_is_too_old_is_skipped_for_a_newer_one() -> None:
    asked: list[str] = []
    async with listening(broker(asked, "old", lacks="Fetch")) as old, listening(broker(asked, "new")) as new:
        client = ClusterClient([f"127.0.0.1:{old}", f"127.0.0.1:{new}"], timeout_s=2)
        assert (await client.metadata([])).cluster_id == "c"
        assert asked == ["new"]
        await client.close()
        nowhere = ClusterClient([f"127.0.0.1:{old}", f"127.0.0.1:{closed_port()}"], timeout_s=2)
        with pytest.raises(versions.UnsupportedRequest, match=f"{old} does not support Fetch v11"):
            await nowhere.connect()
        assert nowhere.unreachable == ""
        await nowhere.close()


async def test_broker_that_knows_no_broker_yet_is_skipped_for_the_next() -> None:
    asked: list[str] = []
    async with listening(broker(asked, "A", new=1000)) as first, listening(broker(asked, "B")) as second:
        client = ClusterClient([f"127.0.0.1:{first}", f"127.0.0.1:{second}"], timeout_s=2)
        assert (await client.metadata([])).brokers
        assert asked == ["A", "B"]
        await client.close()
        alone = ClusterClient([f"127.0.0.1:{first}"], timeout_s=0.2)
        with pytest.raises(NoBrokersYet, match="names none, as one that has just started"):
            await alone.metadata([])
        await alone.close()


async def test_only_broker_is_asked_again_until_it_knows_itself() -> None:
    """As one that the controller fenced, as it was too busy to send heartbeats, or that has just started."""
    asked: list[str] = []
    async with listening(broker(asked, "A", new=4)) as only:
        client = ClusterClient([f"127.0.0.1:{only}"], timeout_s=20)
        assert (await client.metadata([])).brokers
        assert asked == ["A"] * 5
        await client.close()


async def test_silent_broker_is_skipped_for_the_next() -> None:
    """One of two brokers goes silent after the first answers: the other is asked, and asked first from then on."""
    asked: list[str] = []
    async with listening(broker(asked, "A", answers=1)) as first, listening(broker(asked, "B")) as second:
        client = ClusterClient([f"127.0.0.1:{first}", f"127.0.0.1:{second}"], timeout_s=0.3)
        for _ in range(3):
            assert (await client.metadata([])).cluster_id == "c"
        assert asked == ["A", "A", "B", "B", "B"]  # of B its cluster is asked first
        await client.close()


async def test_first_contact_tries_the_next_address_while_one_is_silent() -> None:
    """Frozen brokers take a connection and never answer: each would cost the whole timeout."""
    asked: list[str] = []
    async with listening(silent) as one, listening(silent) as two, listening(broker(asked, "B")) as third:
        client = ClusterClient([f"127.0.0.1:{port}" for port in (one, two, third)], timeout_s=60)
        async with asyncio.timeout(20):
            assert (await client.metadata([])).cluster_id == "c"
        await client.close()


async def test_host_with_several_addresses_is_reached_by_the_one_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first address drops what is sent to it, as behind a firewall: a full queue of connections does that too."""
    async with listening(echo) as port:
        with socket.socket() as full, socket.socket() as queued:
            full.bind(("127.0.0.2", port))
            full.listen(0)
            queued.connect(("127.0.0.2", port))

            async def two(*_: object, **__: object) -> list[tuple[object, ...]]:
                stream = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
                return [(*stream, ("127.0.0.2", port)), (*stream, ("127.0.0.1", port))]

            monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", two)
            async with asyncio.timeout(20):
                connection = await Connection.open("broker.example", port, timeout_s=60)
                assert await ask(connection, b"x") == b"x"
            connection.close(abort=True)
            await connection.wait_closed()


async def test_connection_that_is_gone_before_its_socket_is_set_up_is_unreachable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A peer that accepts and hangs up at once, such as a proxy whose server is down: its socket is closed already."""

    async def gone(attempts: Sequence[Callable[[], Coroutine[Any, Any, Any]]], **_: object) -> Any:
        opened = await attempts[0]()
        opened.close(abort=True)
        await opened.wait_closed()
        return opened

    monkeypatch.setattr(transport, "first_success", gone)
    async with listening(silent) as port:
        with pytest.raises(Unreachable, match="can't be reached") as raised:
            await Connection.open("127.0.0.1", port, linger_zero=True)
    assert "Bad file descriptor" not in raised.value.why


async def test_address_that_is_an_ip_is_connected_to_while_every_thread_of_the_resolver_is_busy() -> None:
    released = threading.Event()
    loop = asyncio.get_running_loop()
    pool = ThreadPoolExecutor(1)
    loop.set_default_executor(pool)
    busy = loop.run_in_executor(None, released.wait)
    try:
        async with asyncio.timeout(20), listening(echo) as port, connected(port) as connection:
            assert await ask(connection, b"x") == b"x"
    finally:
        released.set()
        await busy


async def test_too_old_broker_is_refused() -> None:
    async def old(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int.from_bytes(await reader.readexactly(4), "big")
        data = await reader.readexactly(size)
        assert int.from_bytes(data[:2], "big") == ApiVersionsRequest.API_KEY
        entry = ApiVersionsResponse.ApiVersion
        body = ApiVersionsResponse[0](error_code=0, api_keys=[entry(api_key=1, min_version=0, max_version=12)])
        out = data[4:8] + bytes(body.encode())
        writer.write(struct.pack(">i", len(out)) + out)
        await reader.read()

    async with listening(old) as port:
        client = ClusterClient([f"127.0.0.1:{port}"])
        with pytest.raises(UsageError, match=r"does not support ListOffsets v5, Metadata v9, OffsetFetch v6"):
            await client.connect()
        await client.close()


@pytest.mark.parametrize("security", [Security(), Security(tls=Tls())], ids=["plain", "tls"])
async def test_peer_that_closes_at_once_is_unreachable_without_a_security_fault(security: Security) -> None:
    async def hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)

    async with listening(hangs_up) as port:
        client = ClusterClient([f"127.0.0.1:{port}"], security=security, timeout_s=2)
        with pytest.raises(Unreachable):
            await client.connect()
        await client.close()


async def test_answer_whose_decoder_fails_in_any_way_ends_the_connection_and_its_request() -> None:
    def defective(body: memoryview) -> bytes:
        raise KeyError(bytes(body))

    async with listening(echo) as port, connected(port) as connection:
        request = connection.submit(ECHO, 0, [b"x"], defective)
        async with asyncio.timeout(10):
            with pytest.raises(ConnectionLost, match="KeyError"):
                await request


async def test_bytes_behind_an_answer_that_cannot_be_read_are_dropped() -> None:
    """The event loop reports whatever a protocol raises as a fault of the program."""
    reported = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["message"]))

    async def talks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        correlation_id, body = await request(reader)
        writer.write(answer(correlation_id, body) + answer(correlation_id + 1, body))
        await reader.read()

    async with listening(talks) as port, connected(port) as connection:
        with pytest.raises(ConnectionLost, match="can't be read"):
            await connection.submit(ECHO, 0, [b"abc"], lambda view: struct.unpack(">q", view))
        await asyncio.wait_for(connection.wait_closed(), 5)
    assert reported == []


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "a..b"])
async def test_host_that_no_name_can_be_is_unreachable(host: str) -> None:
    with pytest.raises(Unreachable, match="none of a host"):
        await Connection.open(host, 9092)


async def test_null_where_kafka_allows_none_ends_the_connection() -> None:
    async def talks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        correlation_id, _ = await request(reader)
        writer.write(struct.pack(">iihi", 10, correlation_id, 0, -1))
        await reader.read()

    async with listening(talks) as port, connected(port) as connection:
        with pytest.raises(ConnectionLost, match="mechanisms is null"):
            await connection.request(SaslHandshakeRequest[1](mechanism="PLAIN"))


async def test_request_after_an_announced_pause_has_its_time_behind_it() -> None:
    async def paused(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        correlation_id, _ = await request(reader)
        writer.write(answer(correlation_id, struct.pack(">i", 600)))
        await asyncio.sleep(0.65)  # as a broker that has muted the connection, from when it has said so
        correlation_id, body = await request(reader)
        writer.write(answer(correlation_id, body))

    async with listening(paused) as port, connected(port) as connection:
        await connection.submit(0, 0, [b"a"], bytes, throttle_at=0)
        assert 0.3 < connection.unread_s <= 0.6
        assert await ask(connection, b"b", timeout_s=0.3) == b"b"
        assert connection.unread_s == 0


async def test_pauses_that_a_broker_announces_are_added_up_and_counted_once_where_they_overlap() -> None:
    async def paused(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for seconds in (600, 0, 700):
            correlation_id, _ = await request(reader)
            writer.write(answer(correlation_id, struct.pack(">i", 1000 * seconds)))
        await reader.read()

    async with listening(paused) as port, connected(port) as connection:
        for _ in range(3):
            await connection.submit(0, 0, [b"a"], bytes, throttle_at=0)
        assert 700 <= connection.paused_s < 760
        assert 640 < connection.throttled_s <= 700
