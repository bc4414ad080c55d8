"""One connection to one broker: pipelined requests, each answer received in one preallocated frame, without copies.

Rules:
- A broker answers one connection's requests in order (KIP-219 throttles by muting the channel): the oldest request
  gets the next frame, and its correlation ID must match.
- Small answers are cut from a scratch buffer, many per read; a larger one is received in its own frame.
- An impossible length is refused before anything is allocated.
- Every request has a deadline; the first one missed ends the connection, as in Kafka's clients, unless bytes of an answer
  keep arriving (a slow link is not a dead one). A throttled answer announces how long the broker reads nothing more
  (KIP-219): deadlines are later by that. On loss every pending future fails with `ConnectionLost`; it is unknown which of
  these requests the broker acted on.
- With TLS the same protocol object runs behind asyncio's, with the same socket options.
- While a login is renewed (`hold` to `release`) other requests wait unsent, in their order.
Longer than most modules: a connection is one state, and splitting it would hide what changes it.
Not for: finding brokers or reconnecting (`drlib.kafka.net.cluster_client`), retries, giving up a connection before a deadline
(`drlib.kafka.net.silence`).
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import ipaddress
import socket
import ssl
import struct
import termios
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar, cast

from kafka.protocol.metadata import ApiVersionsRequest

from drlib.errors import Unreachable
from drlib.kafka import answers
from drlib.kafka.net import api_versions as versions
from drlib.kafka.protocol import produce
from drlib.kafka.protocol.batch import OutgoingBatch, sequence_after
from drlib.kafka.protocol.flexible import NO_TAGS, Reader
from drlib.kafka.protocol.produce import ProduceResult
from drlib.kafka.staggered import AllFailed, first_success
from drlib.model import TopicPartition

__all__ = ["Connection", "ConnectionLost", "ProduceResult", "SentBatch"]

MAX_FRAME: Final = 128 << 20
SCRATCH: Final = 32 << 10
WRITE_HIGH: Final = 4 << 20  # unsent bytes in this process from which `drain` waits
NEXT_ADDRESS_S: Final = 0.5  # how long one address of a host may be silent before the next is tried too
PRODUCE_GRACE_S: Final = 5.0  # beyond the broker's own wait for its replicas
API_VERSIONS: Final = 18  # its answers keep the old header, whatever the version
AUTHENTICATION: Final = frozenset({17, 36})  # SaslHandshake, SaslAuthenticate: sent even while the connection is held
TLS_SHUTDOWN_S: Final = 1.0  # how long to wait for the broker's close_notify
REQUEST_TIMEOUT_S: Final = 30.0
NO_ENDS: Final[Mapping[TopicPartition, int]] = {}
SILENCE_S: Final = 10.0  # without a byte after a missed deadline

_REQUEST: Final = struct.Struct(">hhi")
_INT32: Final = struct.Struct(">i")
_INT_NATIVE: Final = struct.Struct("i")
_INT16: Final = struct.Struct(">h")
_LINGER_ZERO: Final = struct.pack("ii", 1, 0)
_OUTQ: Final = termios.TIOCOUTQ  # of a TCP socket: bytes that the peer has not acknowledged

Answer = TypeVar("Answer")


class ConnectionLost(Unreachable):
    """The connection ended with requests unanswered; each of them may or may not have been acted on."""

    def __init__(self, peer: str, why: str, cause: BaseException | None = None) -> None:
        super().__init__(
            f"the connection to {peer} was lost", why, "See whether the broker runs, then run the command again."
        )
        self.cause = cause  # the transport's error, if any


@dataclass(frozen=True, slots=True)
class SentBatch:
    """A batch of a produce request. `end`: the offset behind it, if it is appended where it is expected."""

    partition: TopicPartition
    producer_id: int
    epoch: int
    last_sequence: int
    end: int | None


@dataclass(slots=True)
class _Pending:
    correlation_id: int
    flexible: bool
    decode: Callable[[memoryview], Any]
    future: asyncio.Future[Any]
    deadline: float
    since: float
    broker_wait_s: float  # how long the broker may let the request wait before it answers
    throttle_at: int | None
    batches: tuple[SentBatch, ...]
    sent_up_to: int = 0  # bytes of the connection with which the request ends


class Connection(asyncio.BufferedProtocol):
    """Use `await Connection.open(...)`."""

    def __init__(self, peer: str, client_id: str, request_timeout_s: float) -> None:
        self.peer = peer
        self.purpose = ""
        self.versions: Mapping[str, int] = versions.NEWEST  # of each request that its broker supports
        self.answered = False  # since it was opened for its purpose
        self._client_id = client_id.encode()
        self._request_timeout_s = request_timeout_s
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._pending: deque[_Pending] = deque()
        self._held: list[tuple[_Pending, list[bytes | memoryview]]] | None = None
        self._correlation_id = 0
        self._lost: ConnectionLost | None = None
        self._closed = self._loop.create_future()
        self._writable = asyncio.Event()
        self._writable.set()
        self._timer: asyncio.TimerHandle | None = None
        self._scratch = memoryview(bytearray(SCRATCH))
        self._filled = 0
        self._frame: memoryview | None = None
        self._at = 0
        self._last_received = self._loop.time()
        self._received = 0  # bytes
        self._sent = 0  # bytes, also those that are still in this process or its kernel
        self._moved, self._moved_at = 0, self._last_received
        self._throttled_until = 0.0
        self.paused_s = 0.0  # in all that its broker has announced (KIP-219)

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        client_id: str = "drlib",
        timeout_s: float = 10.0,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
        user_timeout_ms: int | None = None,
        linger_zero: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> Connection:
        """Connect within `timeout_s`, TLS handshake included. Raises `Unreachable`; its cause is the transport's error.

        `user_timeout_ms` sets TCP_USER_TIMEOUT, `linger_zero` SO_LINGER 0 from the start: with both, the kernel does
        not deliver bytes long after this process gave up or died.
        """
        peer = f"{host}:{port}"
        loop = asyncio.get_running_loop()

        async def attempt(ip: str) -> Connection:
            made = cls(peer, client_id, request_timeout_s)
            try:
                await loop.create_connection(
                    lambda: made,
                    ip,
                    port,
                    ssl=tls,
                    server_hostname=host if tls else None,
                    ssl_shutdown_timeout=TLS_SHUTDOWN_S if tls else None,
                )
            except BaseException:  # asyncio would end TLS with the broker's consent, for which nothing waits
                made.close(abort=True)
                raise
            return made

        try:
            async with asyncio.timeout(timeout_s):
                opened = await first_success(
                    [partial(attempt, ip) for ip in await _resolved(host, port)],
                    pause_s=NEXT_ADDRESS_S,
                    failures=(OSError,),
                    discard=lambda late: late.close(abort=True),
                )
            if (lost := opened._lost) is not None:  # by a proxy that accepts for a broker that is down
                raise lost.cause if isinstance(lost.cause, OSError) else OSError(lost.why)
            opened._set_options(user_timeout_ms, linger_zero)
        except (OSError, TimeoutError, UnicodeError, AllFailed) as raised:
            error = _telling(raised.failures) if isinstance(raised, AllFailed) else raised
            why = f"no connection within {timeout_s:g} s" if isinstance(error, TimeoutError) else of_os_error(error)
            raise Unreachable(
                f"broker {peer} can't be reached", why, "Check that the broker runs and that the address is right."
            ) from error
        return opened

    def begin(self, purpose: str) -> None:
        """It is open, logged in, and used for `purpose` from now on."""
        self.purpose, self.answered = purpose, False

    def version(self, name: str) -> int:
        """The version in which to send a request to this broker. Raises `UnsupportedRequest`."""
        chosen = self.versions.get(name)
        if chosen is None:
            raise versions.unsupported(self.peer, name)
        return chosen

    # -- sending ---------------------------------------------------------------------------------------------------

    @property
    def is_lost(self) -> bool:
        return self._lost is not None

    @property
    def in_flight(self) -> int:
        """Requests without an answer."""
        return len(self._pending) + len(self._held or ())

    @property
    def waiting_s(self) -> float:
        """Seconds that the answer to the oldest request is overdue."""
        return max(0.0, self._loop.time() - self._due) if self._pending else 0.0

    @property
    def unread_s(self) -> float:
        """Seconds for which the broker may read no request: it announced a pause, or lets the oldest one wait."""
        return max(0.0, (self._due if self._pending else self._throttled_until) - self._loop.time())

    @property
    def throttled_s(self) -> float:
        """Seconds that are left of the pause that the broker has announced."""
        return max(0.0, self._throttled_until - self._loop.time())

    @property
    def _due(self) -> float:
        """When the broker should answer the oldest request at the latest."""
        oldest = self._pending[0]
        return max(oldest.since, self._throttled_until) + oldest.broker_wait_s

    @property
    def moved(self) -> int:
        """Bytes received, and bytes sent as far as the oldest request reaches: what was written later proves nothing."""
        unsent = 0 if self._transport is None else self._transport.get_write_buffer_size()
        sock = self._socket()
        if sock is not None and sock.fileno() >= 0:
            with contextlib.suppress(OSError):
                unsent += _INT_NATIVE.unpack(fcntl.ioctl(sock.fileno(), _OUTQ, bytes(_INT_NATIVE.size)))[0]
        left = self._sent - unsent
        return self._received + (min(left, self._pending[0].sent_up_to) if self._pending else left)

    def silent_s(self, now: float) -> float:
        """Seconds that an answer is overdue without a byte in either direction, since the calls of this method saw one."""
        moved = self.moved
        if moved != self._moved:
            self._moved, self._moved_at = moved, now
        if not self._pending:
            return 0.0
        return max(0.0, now - max(self._due, self._last_received, self._moved_at))

    def idle_s(self, now: float) -> float:
        """Seconds since the last bytes were received."""
        return now - self._last_received

    def oldest_batches(self) -> tuple[SentBatch, ...]:
        """The batches of the oldest request without an answer; none where it is no produce request."""
        return self._pending[0].batches if self._pending else ()

    def ask_for_life(self) -> None:
        """Send a request whose answer does not matter."""
        self.send(ApiVersionsRequest[versions.API_VERSIONS]())

    def send(self, message: Any, *, timeout_s: float | None = None, broker_wait_s: float = 0.0) -> asyncio.Future[Any]:
        """Send one of kafka-python's request messages with its version set; the future gives the response message.

        `broker_wait_s`: how long the broker may let it wait. The future fails with `ConnectionLost`. Cancelling it only
        discards the answer.
        """
        version = message.API_VERSION
        message.with_header(correlation_id=0, client_id="")
        response = message.header.get_response_class()
        return self.submit(
            message.API_KEY,
            version,
            [message.encode()],
            partial(answers.decode, response, version),
            flexible=message.flexible_version_q(version),
            timeout_s=timeout_s,
            broker_wait_s=broker_wait_s,
        )

    async def request(self, message: Any, timeout_s: float | None = None, broker_wait_s: float = 0.0) -> Any:
        """Send and await the response. A missed deadline ends the connection. Raises `ConnectionLost`."""
        return await self.send(message, timeout_s=timeout_s, broker_wait_s=broker_wait_s)

    def message(self, request: Any, **fields: Any) -> Any:
        """A message of one of kafka-python's classes, in the version for this broker. Raises `UnsupportedRequest`."""
        return request[self.version(request.name.removesuffix("Request"))](**fields)

    async def ask(self, request: Any, **fields: Any) -> Any:
        """Await the response to such a message. Raises as `message` and `request`."""
        return await self.request(self.message(request, **fields))

    def produce(
        self,
        topic: str,
        batches: Sequence[tuple[int, OutgoingBatch]],
        *,
        timeout_ms: int = 30_000,
        ends: Mapping[TopicPartition, int] = NO_ENDS,
    ) -> asyncio.Future[list[ProduceResult]]:
        """Produce one batch per partition of one topic; `timeout_ms`: how long the leader waits for its replicas."""
        return self.produce_many({topic: batches}, timeout_ms=timeout_ms, ends=ends)

    def produce_many(
        self,
        topics: Mapping[str, Sequence[tuple[int, OutgoingBatch]]],
        *,
        timeout_ms: int = 30_000,
        ends: Mapping[TopicPartition, int] = NO_ENDS,
    ) -> asyncio.Future[list[ProduceResult]]:
        """Produce one batch per partition, acks=-1. One result per partition, errors as codes.

        `ends`: the offsets behind the batches, where they are known.
        """
        return self.submit(
            produce.API_KEY,
            produce.VERSION,
            produce.encode(topics, timeout_ms),
            produce.decode,
            timeout_s=timeout_ms / 1000 + PRODUCE_GRACE_S,
            throttle_at=produce.THROTTLE_AT,
            batches=tuple(
                _sent(TopicPartition(topic, number), batch, ends)
                for topic, batches in topics.items()
                for number, batch in batches
            ),
        )

    def submit(
        self,
        api_key: int,
        version: int,
        body: Sequence[bytes | memoryview],
        decode: Callable[[memoryview], Answer],
        *,
        flexible: bool = True,
        timeout_s: float | None = None,
        broker_wait_s: float = 0.0,
        throttle_at: int | None = None,
        batches: tuple[SentBatch, ...] = (),
    ) -> asyncio.Future[Answer]:
        """Send an encoded request body; `decode` turns the response body into the future's result.

        `throttle_at`: where throttle_time_ms is in the response body, behind it if negative; without it the result may have
        a field of that name. `batches`: what a produce request appends.

        On a lost connection the future has already failed, so that callers handle errors in one place.
        """
        future: asyncio.Future[Answer] = self._loop.create_future()
        if self._lost is not None or self._transport is None:
            future.set_exception(self._lost or ConnectionLost(self.peer, "it was not open"))
            future.exception()
            return future
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        head = _REQUEST.pack(api_key, version, self._correlation_id) + _INT16.pack(len(self._client_id))
        head += self._client_id + (NO_TAGS if flexible else b"")
        size = len(head) + sum(map(len, body))
        now = self._loop.time()
        deadline = max(now, self._throttled_until) + (self._request_timeout_s if timeout_s is None else timeout_s)
        pending = _Pending(
            self._correlation_id,
            flexible and api_key != API_VERSIONS,
            decode,
            future,
            deadline,
            now,
            broker_wait_s,
            throttle_at,
            batches,
        )
        if self._timer is None or deadline < self._timer.when():
            self._watch(deadline)
        frame: list[bytes | memoryview] = [_INT32.pack(size) + head, *body]
        if self._held is not None and api_key not in AUTHENTICATION:
            self._held.append((pending, frame))
            return future
        self._write(pending, frame)
        return future

    def _write(self, pending: _Pending, frame: Sequence[bytes | memoryview]) -> None:
        self._sent += sum(map(len, frame))
        pending.sent_up_to = self._sent
        self._pending.append(pending)
        if self._transport is not None:
            self._transport.writelines(frame)

    def hold(self) -> None:
        """Send only the login from now on; other requests wait in their order until `release`."""
        if self._held is None:
            self._held = []

    def release(self) -> None:
        """Send the requests that waited since `hold`."""
        held, self._held = self._held or [], None
        if self._lost is not None or self._transport is None:
            return
        for pending, frame in held:
            if not pending.future.cancelled():
                self._write(pending, frame)

    async def drain(self) -> None:
        """Wait until less than `WRITE_HIGH` bytes are unsent. Raises `ConnectionLost`."""
        await self._writable.wait()
        if self._lost is not None:
            raise self._lost

    def close(self, *, abort: bool = False) -> None:
        """End the connection; with `abort` unsent bytes are dropped, also in the kernel (SO_LINGER 0)."""
        if self._transport is None:
            return
        if abort:
            self._set_linger_zero()
        self._lose("closed here", abort=abort)

    def end(self, why: str) -> None:
        """Abort the connection; its pending requests fail with this reason."""
        self._set_linger_zero()
        self._lose(why, abort=True)

    async def wait_closed(self) -> None:
        """Wait until the socket is released."""
        await asyncio.shield(self._closed)

    # -- asyncio.BufferedProtocol ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=WRITE_HIGH)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lose(f"{type(exc).__name__}: {exc}" if exc else "the broker closed it", cause=exc)
        if not self._closed.done():
            self._closed.set_result(None)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._scratch[self._filled :] if self._frame is None else self._frame[self._at :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._lost is not None:
            return
        self._last_received = self._loop.time()
        self._received += nbytes
        if self._frame is None:
            self._filled += nbytes
            self._cut_scratch()
            return
        self._at += nbytes
        if self._at == len(self._frame):
            frame, self._frame = self._frame, None
            self._answer(frame)

    def eof_received(self) -> bool:
        return False

    # -- receiving -------------------------------------------------------------------------------------------------

    def _cut_scratch(self) -> None:
        at = 0
        while self._filled - at >= 4 and self._lost is None:
            size = _INT32.unpack_from(self._scratch, at)[0]
            if not 4 <= size <= MAX_FRAME:
                self._lose(f"an answer of {size} bytes was announced, which no broker sends", abort=True)
                return
            at += 4
            have = min(size, self._filled - at)
            frame = memoryview(bytearray(size))
            frame[:have] = self._scratch[at : at + have]
            at += have
            if have < size:
                self._frame, self._at = frame, have
            else:
                self._answer(frame)
        if self._lost is not None:  # by an answer: what else was received is not read
            return
        unread = self._filled - at
        if at and unread:
            self._scratch[:unread] = bytes(self._scratch[at : self._filled])
        self._filled = unread

    def _answer(self, frame: memoryview) -> None:
        if not self._pending:
            self._lose("an unrequested answer arrived", abort=True)
            return
        pending = self._pending.popleft()
        try:
            correlation_id = _INT32.unpack_from(frame)[0]
            if correlation_id != pending.correlation_id:
                raise ValueError(f"answer {correlation_id} came where {pending.correlation_id} was due")
            body = frame[4:]
            if pending.flexible:
                reader = Reader(body)
                reader.skip_tags()
                body = reader.rest()
            self.answered = True
            self._throttled(_throttle_ms(body, pending.throttle_at))
            if pending.future.done():  # cancelled: the answer is not needed
                return
            result = pending.decode(body)
            self._throttled(getattr(result, "throttle_time_ms", 0))
        except Exception as error:  # whatever a decoder raises: its request would never be answered otherwise
            self._pending.appendleft(pending)
            self._lose(f"an answer can't be read ({type(error).__name__}: {error})", abort=True)
            return
        pending.future.set_result(result)

    def _throttled(self, milliseconds: int) -> None:
        """The broker reads nothing more of this connection for so long (KIP-219)."""
        if milliseconds > 0:
            now, seconds = self._loop.time(), milliseconds / 1000
            self.paused_s += max(0.0, now + seconds - max(now, self._throttled_until))
            self._throttled_until = now + seconds
            for pending in self._pending:
                pending.deadline += milliseconds / 1000

    # -- ending ----------------------------------------------------------------------------------------------------

    def _watch(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._check_deadlines)

    def _check_deadlines(self) -> None:
        self._timer = None
        waiting = [*self._pending, *(pending for pending, _ in self._held or ())]
        earliest = min((p.deadline for p in waiting), default=None)
        if earliest is None:
            return
        now = self._loop.time()
        if earliest <= now and (self._frame is not None or self._filled) and now < self._last_received + SILENCE_S:
            self._watch(self._last_received + SILENCE_S)
        elif earliest <= now:
            self._set_linger_zero()
            self._lose("a request was not answered in time", abort=True)
        else:
            self._watch(earliest)

    def _lose(self, why: str, *, abort: bool = False, cause: BaseException | None = None) -> None:
        if self._lost is not None:
            return
        self._lost = ConnectionLost(self.peer, why, cause)
        self._frame = None
        self._filled = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._writable.set()
        if self._transport is not None:
            if abort:
                self._transport.abort()
            else:
                self._transport.close()
        pending, self._pending = [*self._pending, *(pending for pending, _ in self._held or ())], deque()
        self._held = None
        for request in pending:
            if not request.future.done():
                request.future.set_exception(ConnectionLost(self.peer, why, cause))
                request.future.exception()  # marks the error as retrieved: no log line for each unawaited future

    def _socket(self) -> socket.socket | None:
        sock = None if self._transport is None else self._transport.get_extra_info("socket")
        return cast("socket.socket | None", sock)

    def _set_options(self, user_timeout_ms: int | None, linger_zero: bool) -> None:
        sock = self._socket()
        if sock is None:
            return
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if user_timeout_ms is not None and hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux only
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, user_timeout_ms)
        if linger_zero:
            self._set_linger_zero()

    def _set_linger_zero(self) -> None:
        sock = self._socket()
        if sock is not None and sock.fileno() >= 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)


def _sent(partition: TopicPartition, batch: OutgoingBatch, ends: Mapping[TopicPartition, int]) -> SentBatch:
    header = batch.header
    last = sequence_after(header.base_sequence, header.count - 1)
    return SentBatch(partition, header.producer_id, header.producer_epoch, last, ends.get(partition))


def _throttle_ms(body: memoryview, at: int | None) -> int:
    return 0 if at is None else int(_INT32.unpack_from(body, at if at >= 0 else len(body) + at)[0])


async def _resolved(host: str, port: int) -> list[str]:
    """The IP addresses of `host`. One that is an address itself needs no thread of the resolver, all of which may be busy."""
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _telling(failures: Sequence[Exception]) -> OSError:
    """Of the failures at each address of a host, the one to report: that of a broker which answers, else the last."""
    errors = [failure for failure in failures if isinstance(failure, OSError)]
    return next((error for error in errors if isinstance(error, ssl.SSLError)), errors[-1])


def of_os_error(error: OSError | UnicodeError) -> str:
    """The error in words, such as "connection refused, nothing listens there"; else the system's own text."""
    if isinstance(error, UnicodeError):
        return "the name is none of a host"
    if isinstance(error, socket.gaierror):
        return f"the name is not known ({error.strerror or error})"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused, nothing listens there"
    if isinstance(error, ConnectionResetError):
        return "the connection was reset"
    return error.strerror or str(error) or type(error).__name__
