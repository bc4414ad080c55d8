"""A request reaches the address that was given and no other, in its time, whatever the peer or the environment says."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from testbed_http import HttpServer, dripping_tls, http_server

from drlib.outgoing import http_request
from drlib.outgoing.http_request import Address, NoAnswer, NotAnAddress, Request, fetch, parse, shown

PROXIES = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with http_server() as started:
        yield started


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("https://id.example/token", Address("https", "id.example", None, "/token")),
        ("https://id.example", Address("https", "id.example", None, "/")),
        ("HTTP://LocalHost:8080/a?b=c#d", Address("http", "localhost", 8080, "/a?b=c")),
        ("https://[::1]:8443/x", Address("https", "::1", 8443, "/x")),
    ],
)
def test_parse_url_gives_its_parts(url: str, address: Address) -> None:
    assert parse(url) == address


@pytest.mark.parametrize(
    "url",
    [
        "",
        "id.example/token",
        "ftp://h/canary",
        "file:///canary",
        "jar:https://h/canary",
        "https:///canary",
        "https://h:0/canary",
        "https://h:99999/canary",
        "https://h:port/canary",
        "https://[::1/canary",
        "https://canary@h/",
        "https://user:canary@h/",
        "https://:canary@h/",
        "https://@h/canary",
        "https://h/canary\r\nHost: other",
        "https://h\t.example/canary",
        " https://h/canary",
        "https://h/\x00canary",
        "https://h/canary\u00e9",
        "https://a..canary/",
        "https://.canary/",
        f"https://{'a' * 64}.canary/",
        "https://./canary",
    ],
)
def test_parse_what_is_no_address_is_refused_and_not_quoted(url: str) -> None:
    with pytest.raises(NotAnAddress) as refused:
        parse(url)
    assert "canary" not in str(refused.value)
    assert shown(url) == ""


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example/services/T0/B0/canary",
        "https://hooks.example/?token=canary",
        "https://hooks.example/#canary",
        "https://hooks.example/;canary",
    ],
)
def test_address_as_text_is_scheme_host_and_port(url: str) -> None:
    assert shown(url) == "https://hooks.example"
    assert "canary" not in repr(parse(url))
    assert "canary" not in repr(Request(parse(url), headers={"X-Auth": "canary"}, body=b"canary"))


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("LOCALHOST", True),
        ("localhost.example", False),
        ("127.0.0.1.example", False),
        ("10.0.0.1", False),
        ("0.0.0.0", False),
        ("id.example", False),
    ],
)
def test_is_loopback_only_of_this_machine(host: str, here: bool) -> None:
    assert http_request.is_loopback(host) is here


@pytest.mark.parametrize("status", [300, 301, 302, 303, 305, 307, 308])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_fetch_redirect_is_not_followed(server: HttpServer, status: int, method: str) -> None:
    with http_server() as other:
        for path, where in (("/same", server.url("/next")), ("/other", other.url("/next")), ("/relative", "/next")):
            server.answers[path] = (status, {"Location": where, "Refresh": f"0;url={where}"}, b"moved")
            answer = fetch(
                Request(parse(server.url(path)), method=method, headers={"Authorization": "x"}, secret=True), 100
            )
            assert (answer.status, answer.body) == (status, b"moved")
        assert other.received == []
    assert [each.path for each in server.received] == ["/same", "/other", "/relative"]


def test_fetch_ignores_proxies_of_environment(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with http_server() as proxy:
        for name in PROXIES:
            monkeypatch.setenv(name, proxy.url(""))
        monkeypatch.setenv("NO_PROXY", "")
        monkeypatch.setenv("no_proxy", "")
        assert fetch(Request(parse(server.url("/token")), secret=True), 100).status == 200
        assert proxy.received == []
    assert [each.path for each in server.received] == ["/token"]


def test_send_secret_over_plain_text_to_another_machine_is_refused() -> None:
    with pytest.raises(NoAnswer, match="not sent over http://") as refused:
        fetch(Request(parse("http://192.0.2.1/token"), secret=True), 100)
    assert not refused.value.begun


def test_fetch_answer_above_its_limit_is_cut_off(server: HttpServer) -> None:
    server.answers["/flood"] = (200, {}, None)
    with pytest.raises(NoAnswer, match="larger than 1000 bytes") as flooded:
        fetch(Request(parse(server.url("/flood"))), 1000)
    assert (flooded.value.status, flooded.value.timed_out) == (200, False)


def test_fetch_dripped_answer_ends_in_time(server: HttpServer) -> None:
    server.answers["/drip"] = (200, {}, None)
    with pytest.raises(NoAnswer) as late:
        fetch(Request(parse(server.url("/drip")), timeout_s=0.3), 1 << 20)
    assert (late.value.begun, late.value.timed_out) == (True, True)


def test_fetch_dripped_tls_handshake_ends_in_time() -> None:
    with dripping_tls() as server, pytest.raises(NoAnswer) as late:
        fetch(Request(parse(f"https://127.0.0.1:{server.port}/"), timeout_s=0.3), 100)
    assert (late.value.begun, late.value.timed_out) == (False, True)


def test_fetch_stopped_by_caller_ends(server: HttpServer) -> None:
    server.answers["/drip"] = (200, {}, None)
    with pytest.raises(NoAnswer) as stopped:
        fetch(Request(parse(server.url("/drip")), timeout_s=60.0), 1 << 20, lambda: bool(server.received))
    assert stopped.value.timed_out


@contextmanager
def full_listener() -> Iterator[int]:
    """A port of this machine that answers no connection, neither by accepting nor by refusing it."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, ExitStack() as waiting:
        for _ in range(3):
            client = waiting.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


def test_send_stopped_while_it_connects_ends_and_has_not_begun() -> None:
    began = time.monotonic()
    with full_listener() as port, pytest.raises(NoAnswer) as stopped:
        fetch(Request(parse(f"http://127.0.0.1:{port}/"), timeout_s=60.0), 100, lambda: time.monotonic() > began + 0.3)
    assert time.monotonic() - began < 10
    assert (stopped.value.begun, stopped.value.timed_out) == (False, True)


def test_send_host_of_several_silent_addresses_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time limit is for all of it, whatever the number of addresses; a later one that answers is reached in it."""
    with full_listener() as port, http_server() as server:
        silent, good = (
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", to)) for to in (port, server.server_port)
        )
        names = {"dead.example": [silent] * 8, "half.example": [silent, good], "none.example": []}
        monkeypatch.setattr(socket, "getaddrinfo", lambda host, *_, **__: names[host])
        began = time.monotonic()
        with pytest.raises(NoAnswer) as late:
            fetch(Request(parse("http://dead.example/"), timeout_s=1.0), 100)
        assert time.monotonic() - began < 5
        assert (late.value.begun, late.value.timed_out) == (False, True)
        assert fetch(Request(parse("http://half.example/"), timeout_s=2.0), 100).status == 200
        with pytest.raises(NoAnswer, match=r"none.example has no address"):
            fetch(Request(parse("http://none.example/")), 100)


@pytest.mark.parametrize("value", ["first\nsecond", "fir–st"])
def test_send_header_that_cannot_be_sent_is_not_quoted(server: HttpServer, value: str) -> None:
    with pytest.raises(NoAnswer, match=r"^a header holds what no header can hold$") as refused:
        fetch(Request(parse(server.url("/")), headers={"Authorization": value}), 100)
    assert (refused.value.begun, server.received) == (False, [])
