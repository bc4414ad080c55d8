"""The only HTTP client of drlib: one request to the address that was given, and to no other.

Rules: no redirect is followed, and no proxy of the environment is used, so that credentials reach only the host that was
named. An address holds no login. A request with a secret is sent in plain text only to this machine, or where the caller
allows it.
The whole request has one time limit, so a peer that sends single bytes cannot hold it; an answer that is kept has a size
limit. An address is shown as scheme, host and port: a path or a query may be a secret, as that of a chat tool's webhook is.
Not for: what an answer means; drlib's own connections to Kafka (`drlib.kafka.net`).
"""

import contextlib
import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from drlib.formats import bracketed

CHUNK: Final = 65536
_MOST_LABEL: Final = (
    63  # letters of one part of a host's name (RFC 1035): resolvers raise other errors for a longer one
)
_LOOK_S: Final = 0.1  # how often `stop` is asked
_LEAST_S: Final = 0.01  # for one address of a host


@dataclass(frozen=True, slots=True)
class Address:
    """Where a request goes; as text without `target`, its path and query. `port` None: the scheme's own."""

    scheme: str
    host: str
    port: int | None
    target: str = field(default="/", repr=False)

    def __str__(self) -> str:
        return f"{self.scheme}://{bracketed(self.host)}" + (f":{self.port}" if self.port is not None else "")

    @property
    def private(self) -> bool:
        """Whether what is sent cannot be read on its way: TLS, or this machine."""
        return self.scheme == "https" or is_loopback(self.host)


class NotAnAddress(ValueError):
    """The text says why, and quotes nothing of the address."""


class NoAnswer(Exception):
    """There was no complete answer. `begun`: the request may have taken effect; `timed_out`: the time limit was reached.

    `status` is that of an answer that was cut off, None without one. The text is the reason.
    """

    def __init__(self, reason: str, *, begun: bool, timed_out: bool = False, status: int | None = None) -> None:
        super().__init__(reason)
        self.begun = begun
        self.timed_out = timed_out
        self.status = status


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Request:
    """`secret`: a header, the address or the body holds a secret. `timeout_s` is for all of it, `ca` a PEM file to trust
    instead of the system's authorities, `ca_pem` the same as text, `plain_text` allows a secret over http://."""

    address: Address
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes | None = field(default=None, repr=False)
    timeout_s: float = 10.0
    secret: bool = False
    plain_text: bool = False
    ca: Path | None = None
    ca_pem: str = field(default="", repr=False)


def parse(url: str) -> Address:
    """`url` as an address. Raises `NotAnAddress`."""
    if any(letter <= " " or letter == "\x7f" for letter in url):  # urlsplit would drop some of them silently
        raise NotAnAddress("it holds a blank or a control character")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise NotAnAddress("its host or port is not valid") from None
    if parts.scheme not in ("http", "https") or not host or port == 0:
        raise NotAnAddress("it needs http or https and a host")
    if parts.username is not None or parts.password is not None:
        raise NotAnAddress("it holds a login")
    if not url.isascii():
        raise NotAnAddress("it holds a letter that an address cannot hold")
    if ":" not in host and not all(0 < len(label) <= _MOST_LABEL for label in host.removesuffix(".").split(".")):
        raise NotAnAddress("its host is no name")
    return Address(parts.scheme, host, port, (parts.path or "/") + (f"?{parts.query}" if parts.query else ""))


def shown(url: str) -> str:
    """`url` as scheme, host and port; "" for what is not an address."""
    try:
        return str(parse(url))
    except NotAnAddress:
        return ""


def is_loopback(host: str) -> bool:
    """Whether `host` is this machine by its name: a loopback address or localhost."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def fetch(request: Request, most_bytes: int, stop: Callable[[], bool] = lambda: False) -> Answer:
    """The answer as it came, whatever its status. Raises `NoAnswer`, also for an answer above `most_bytes`."""
    body = bytearray()

    def take(chunk: bytes) -> None:
        body.extend(chunk)
        if len(body) > most_bytes:
            raise _TooLarge(f"its answer is larger than {most_bytes} bytes")

    return Answer(send(request, take, stop), bytes(body))


def send(request: Request, take: Callable[[bytes], None], stop: Callable[[], bool] = lambda: False) -> int:
    """Send `request`, hand its answer to `take` in chunks, return the status. `stop` says whether to end now.

    Raises `NoAnswer`, and `OSError` where `ca` cannot be read.
    """
    address = request.address
    if request.secret and not (address.private or request.plain_text):
        raise NoAnswer("a secret is not sent over http://", begun=False)
    connection = _connection(request)
    begun, status = False, None
    with _Watch(request.timeout_s, stop) as watch:
        try:
            raw = _connected(address.host, connection.port, request.timeout_s, watch)
            connection.sock = (
                connection.trusted.wrap_socket(raw, server_hostname=address.host)
                if isinstance(connection, _TlsConnection)
                else raw
            )
            begun = True
            connection.request(request.method, address.target, request.body, dict(request.headers))
            with connection.getresponse() as answer:
                status = answer.status
                while chunk := answer.read1(CHUNK):
                    take(chunk)
        except _TooLarge as error:
            raise NoAnswer(str(error), begun=True, status=status) from None
        except (OSError, http.client.HTTPException) as error:
            timed_out = watch.over or isinstance(error, TimeoutError)
            reason = "" if timed_out else str(error) or type(error).__name__
            raise NoAnswer(reason, begun=begun, timed_out=timed_out, status=status) from None
        except ValueError:  # of http.client before it sends anything; the error would quote the value
            raise NoAnswer("a header holds what no header can hold", begun=status is not None, status=status) from None
        finally:
            connection.close()
        if watch.over:  # the body ended because the connection was closed here
            raise NoAnswer("", begun=True, timed_out=True, status=status)
    return status


def _connected(host: str, port: int, timeout_s: float, watch: "_Watch") -> socket.socket:
    """To one address of `host`: each that is silent has its part of the time. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for left, (family, kind, protocol, _, where) in zip(range(len(found), 0, -1), found, strict=True):
        raw = socket.socket(family, kind, protocol)
        try:
            raw.settimeout(max(_LEAST_S, watch.left_s / left))
            watch.guard(raw)
            raw.connect(where)
            raw.settimeout(timeout_s)
            return raw
        except OSError:
            raw.close()
            if watch.over or left == 1:
                raise
    raise OSError(f"{host} has no address")


class _TooLarge(Exception):
    pass


class _TlsConnection(http.client.HTTPSConnection):
    trusted: ssl.SSLContext


def _connection(request: Request) -> http.client.HTTPConnection:
    """Not connected yet. http.client itself follows no redirect and knows no proxy."""
    host, port = request.address.host, request.address.port  # without a port it would look for one in an IPv6 address
    if request.address.scheme == "http":
        return http.client.HTTPConnection(host, port or http.client.HTTP_PORT, timeout=request.timeout_s)
    ca = None if request.ca is None else str(request.ca)
    trusted = ssl.create_default_context(cafile=ca, cadata=request.ca_pem or None)
    connection = _TlsConnection(host, port or http.client.HTTPS_PORT, timeout=request.timeout_s, context=trusted)
    connection.trusted = trusted
    return connection


class _Watch:
    """Shuts a socket down when time is up or `stop` says so: the socket's own time limit restarts with every byte."""

    def __init__(self, timeout_s: float, stop: Callable[[], bool]) -> None:
        self.over = False  # whether it was ended here
        self._end = time.monotonic() + timeout_s
        self._stop = stop
        self._done = threading.Event()
        self._guarded: socket.socket | None = None
        self._thread = threading.Thread(target=self._watch, name="http-time-limit", daemon=True)

    def __enter__(self) -> "_Watch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()
        if self._guarded is not None:
            self._guarded.close()

    @property
    def left_s(self) -> float:
        return self._end - time.monotonic()

    def guard(self, used: socket.socket) -> None:
        """A descriptor of its own: TLS takes over the socket's, and connecting and the handshake have to end in time, too."""
        if self._guarded is not None:
            self._guarded.close()
        self._guarded = used.dup()

    def _watch(self) -> None:
        while not self._done.wait(max(0.0, min(_LOOK_S, self._end - time.monotonic()))):
            if self._stop() or time.monotonic() >= self._end:
                self.over = True
                break
        while self.over and not self._done.wait(_LOOK_S):  # again: the next address may be tried only now
            if self._guarded is not None:
                with contextlib.suppress(OSError):
                    self._guarded.shutdown(socket.SHUT_RDWR)
