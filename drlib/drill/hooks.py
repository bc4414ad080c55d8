"""Steps that are somebody else's: a command to run or an address to post to, and evidence of what came of it.

Rules: no shell, and no argument holds a secret, as any user of the machine can list arguments. Secrets are references
(`${env:NAME}`, `${file:/path:key}`) in environment values, headers or the address; evidence holds the reference, and what
it stands for is hidden in captured output too. Four outcomes: `unknown` is what was begun and not heard of again, and
never counts as failed. It is tried again only if it is declared idempotent. TLS checks the certificate and the host name;
redirects are not followed; proxies of the environment are not used.
Not for: deciding what a failed step means; the drill does that.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import IO, Final
from urllib.parse import SplitResult, urlsplit

from tenacity import Retrying, retry_if_result, stop_after_attempt, wait_exponential

from drlib.config import references
from drlib.drill.journal import Scalar
from drlib.errors import UsageError

KEPT: Final = 4096  # bytes of output kept from its beginning, and as many from its end
_STOP_S: Final = 2.0  # between SIGTERM and SIGKILL
_DRAIN_S: Final = 0.5
_SUCCESS: Final = tuple(int(s) for s in (HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.ACCEPTED, HTTPStatus.NO_CONTENT))
_LOGIN_HEADERS: Final = frozenset({"authorization", "proxy-authorization", "cookie", "x-api-key"})


class Outcome(StrEnum):
    OK = "ok"
    REFUSED = "refused"  # it ended, with an exit code or status that was not expected
    NOT_DONE = "not done"  # it never began: no such program, nobody listens, a certificate that is not trusted
    UNKNOWN = "unknown"  # it began, and time was up or the connection lost before it ended


@dataclass(frozen=True, slots=True)
class HookContext:
    """What a hook is told. `flow` is such as `LEFT->RIGHT`, `active` the alias of the cluster in use now."""

    run_id: str
    flow: str
    active: str

    def environment(self) -> dict[str, str]:
        return {"DRLIB_RUN_ID": self.run_id, "DRLIB_FLOW": self.flow, "DRLIB_ACTIVE": self.active}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandHook:
    """`argv` is run without a shell, in this process's environment and `environment`, whose values may be references.

    `timeout_s` is for each of `attempts`; more than one needs `idempotent`. Raises `UsageError` for what cannot be meant.
    """

    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    folder: Path | None = None
    expected: tuple[int, ...] = (0,)
    timeout_s: float = 60.0
    idempotent: bool = False
    attempts: int = 1

    def __post_init__(self) -> None:
        _check_attempts(self.name, self.attempts, self.idempotent, self.timeout_s)
        if isinstance(self.argv, str) or not self.argv or not self.argv[0]:
            raise UsageError(
                f"hook {self.name} has no command",
                "argv is a list, the program first",
                'Write ["/path/program", "arg"].',
            )
        if any(references.refers(argument) for argument in self.argv):
            raise UsageError(
                f"hook {self.name} hands a secret over as an argument",
                "every user of this machine can list the arguments of a process",
                "Put the reference into environment and let the command read it there.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpHook:
    """POSTs JSON: the run, the flow, the active cluster, and `body`. `url` and the values of `headers` may hold references.

    `ca` is a PEM file to trust instead of the system's authorities. `expected` are statuses. Raises `UsageError`.
    """

    name: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: Mapping[str, Scalar] = field(default_factory=dict)
    expected: tuple[int, ...] = _SUCCESS
    ca: Path | None = None
    timeout_s: float = 10.0
    idempotent: bool = False
    attempts: int = 1

    def __post_init__(self) -> None:
        _check_attempts(self.name, self.attempts, self.idempotent, self.timeout_s)
        for header, value in self.headers.items():
            login = header.lower() in _LOGIN_HEADERS or references.is_secret(header)
            if login and not references.refers(value):
                raise UsageError(
                    f"hook {self.name} holds a secret", f"{header} is written out", "Refer to it: ${env:NAME}."
                )


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known about a hook that was run. `code`: exit code (negative: the signal) or status, None without one.

    `target` and `sent` show references as they are written. `output` is the last attempt's, `left_out` bytes of it cut
    from its middle; `seconds` is for all attempts.
    """

    name: str
    kind: str
    target: str
    outcome: Outcome
    code: int | None
    attempts: int
    seconds: float
    output: str
    left_out: int = 0
    reason: str = ""
    sent: tuple[tuple[str, str], ...] = ()

    @property
    def ok(self) -> bool:
        return self.outcome is Outcome.OK

    def scalars(self) -> dict[str, Scalar]:
        """For one line of the drill's journal."""
        return {
            "name": self.name,
            "kind": self.kind,
            "target": self.target,
            "outcome": self.outcome.value,
            "code": self.code,
            "attempts": self.attempts,
            "seconds": round(self.seconds, 3),
            "output": self.output,
            "left_out": self.left_out,
            "reason": self.reason,
            "sent": ", ".join(f"{name}: {value}" for name, value in self.sent),
        }


def run(hook: CommandHook | HttpHook, context: HookContext) -> Evidence:
    """Runs `hook` to its outcome. Raises `UsageError` for a reference without a value; then nothing was begun."""
    started = time.monotonic()
    tried = 0

    def once() -> Evidence:
        nonlocal tried
        tried += 1
        return _command(hook, context) if isinstance(hook, CommandHook) else _post(hook, context)

    again = Retrying(
        retry=retry_if_result(lambda evidence: not evidence.ok),
        stop=stop_after_attempt(hook.attempts),
        wait=wait_exponential(multiplier=0.1, max=5),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome is not None else None,
    )
    evidence: Evidence = again(once)
    return replace(evidence, attempts=tried, seconds=time.monotonic() - started)


def _check_attempts(name: str, attempts: int, idempotent: bool, timeout_s: float) -> None:
    if attempts < 1 or timeout_s <= 0:
        raise UsageError(f"hook {name} can never run", "attempts or timeout_s is not above zero", "Correct it.")
    if attempts > 1 and not idempotent:
        raise UsageError(
            f"hook {name} may not be tried {attempts} times",
            "what timed out may have been done, and doing it twice is not said to be harmless",
            "Declare idempotent = true if it is, or take attempts away.",
        )


class _Secrets:
    """The values behind references, and text without them."""

    def __init__(self, texts: Iterable[str], where: str) -> None:
        found = {value for text in texts for value in references.values(text, where) if value}
        self._values = sorted((value.encode() for value in found), key=len, reverse=True)

    @property
    def longest(self) -> int:
        return max(map(len, self._values), default=0)

    def hide(self, raw: bytes) -> bytes:
        for value in self._values:
            raw = raw.replace(value, references.HIDDEN.encode())
        return raw


class _Kept:
    """The beginning and the end of what is written, with a margin, so that no secret is cut before it is hidden."""

    def __init__(self, secrets: _Secrets) -> None:
        self._secrets = secrets
        self._room = KEPT + secrets.longest
        self._head = b""
        self._tail = b""
        self._size = 0

    def take(self, chunk: bytes) -> None:
        self._size += len(chunk)
        fits = self._room - len(self._head)
        self._head += chunk[:fits]
        self._tail = (self._tail + chunk[fits:])[-self._room :]

    def shown(self) -> tuple[str, int]:
        """The text, and how many bytes were left out of its middle."""
        if len(self._head) + len(self._tail) == self._size:
            whole = self._secrets.hide(self._head + self._tail)
            if len(whole) <= 2 * KEPT:
                return whole.decode(errors="replace"), 0
            head, tail = whole[:KEPT], whole[-KEPT:]
            return _joined(head, tail), len(whole) - 2 * KEPT
        head, tail = self._secrets.hide(self._head)[:KEPT], self._secrets.hide(self._tail)[-KEPT:]
        return _joined(head, tail), self._size - len(head) - len(tail)


def _joined(head: bytes, tail: bytes) -> str:
    return f"{head.decode(errors='replace')}\n[...]\n{tail.decode(errors='replace')}"


# -- commands --------------------------------------------------------------------------------------------------------


def _command(hook: CommandHook, context: HookContext) -> Evidence:
    where = f"hook {hook.name}"
    secrets = _Secrets(hook.environment.values(), where)
    given = {name: references.resolve(value, where) for name, value in hook.environment.items()}
    sent = tuple((name, _written(name, value)) for name, value in hook.environment.items())

    def evidence(outcome: Outcome, code: int | None, kept: _Kept, reason: str = "") -> Evidence:
        output, left_out = kept.shown()
        target = " ".join(hook.argv)
        return Evidence(hook.name, "command", target, outcome, code, 1, 0.0, output, left_out, reason, sent)

    kept = _Kept(secrets)
    try:
        process = subprocess.Popen(
            hook.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=hook.folder,
            env={**os.environ, **given, **context.environment()},
            start_new_session=True,  # so that what it starts ends with it when time is up
        )
    except OSError as error:
        return evidence(Outcome.NOT_DONE, None, kept, f"{hook.argv[0]} did not start: {error.strerror}")
    assert process.stdout is not None
    reader = threading.Thread(target=_drain, args=(process.stdout, kept), daemon=True)
    reader.start()
    timed_out = False
    try:
        process.wait(hook.timeout_s)
    except subprocess.TimeoutExpired:
        timed_out = True
        _end_group(process)
    except BaseException:
        _end_group(process)
        raise
    reader.join(_DRAIN_S)  # what it left running in the background may hold its output open for ever
    if timed_out:
        return evidence(Outcome.UNKNOWN, None, kept, f"it was ended after {hook.timeout_s:g} s")
    code = process.returncode
    if code in hook.expected:
        return evidence(Outcome.OK, code, kept)
    return evidence(Outcome.REFUSED, code, kept, f"exit code {code}, expected {_listed(hook.expected)}")


def _drain(stream: IO[bytes], kept: _Kept) -> None:
    with stream:
        while chunk := os.read(stream.fileno(), 65536):
            kept.take(chunk)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_S)


# -- HTTP ------------------------------------------------------------------------------------------------------------


def _post(hook: HttpHook, context: HookContext) -> Evidence:
    where = f"hook {hook.name}"
    secrets = _Secrets((hook.url, *hook.headers.values()), where)
    address = _address(hook, references.resolve(hook.url, where))
    headers = {name: references.resolve(value, where) for name, value in hook.headers.items()}
    sent = tuple((name, _written(name, value)) for name, value in hook.headers.items())
    kept = _Kept(secrets)

    def evidence(outcome: Outcome, code: int | None, reason: str = "") -> Evidence:
        output, left_out = kept.shown()
        target = hook.url if references.refers(hook.url) else hook.url.partition("?")[0]
        return Evidence(hook.name, "http", target, outcome, code, 1, 0.0, output, left_out, reason, sent)

    body = {**hook.body, "run_id": context.run_id, "flow": context.flow, "active": context.active}
    connection = _connection(hook, address)
    time_up = threading.Event()

    def cut() -> None:
        time_up.set()
        if connection.sock is not None:
            with contextlib.suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(hook.timeout_s, cut)  # a socket's own time-out begins anew with every byte
    timer.daemon = True
    timer.start()
    begun = False
    try:
        connection.connect()
        begun = True
        path = (address.path or "/") + (f"?{address.query}" if address.query else "")
        connection.request("POST", path, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        while chunk := answer.read1(65536):
            kept.take(chunk)
        if time_up.is_set():
            return evidence(Outcome.UNKNOWN, answer.status, f"time was up after {hook.timeout_s:g} s")
    except (OSError, http.client.HTTPException) as error:
        if time_up.is_set() or isinstance(error, TimeoutError):
            outcome = Outcome.UNKNOWN if begun else Outcome.NOT_DONE
            return evidence(outcome, None, f"no answer within {hook.timeout_s:g} s")
        reason = secrets.hide(str(error).encode()).decode(errors="replace") or type(error).__name__
        return evidence(Outcome.UNKNOWN if begun else Outcome.NOT_DONE, None, reason)
    finally:
        timer.cancel()
        connection.close()
    if answer.status in hook.expected:
        return evidence(Outcome.OK, answer.status)
    return evidence(Outcome.REFUSED, answer.status, f"status {answer.status}, expected {_listed(hook.expected)}")


def _address(hook: HttpHook, url: str) -> SplitResult:
    try:
        address = urlsplit(url)
        port_is_one = address.port is None or address.port > 0
    except ValueError:
        port_is_one = False
    if not port_is_one or address.scheme not in ("http", "https") or not address.hostname or address.username:
        raise UsageError(
            f"hook {hook.name} has no address to post to",
            "it needs http or https and a host, and no login within",
            "Write https://host/path, and a login as a header by reference.",
        )
    secret = references.refers(hook.url) or any(references.refers(value) for value in hook.headers.values())
    if secret and address.scheme == "http" and address.hostname not in ("127.0.0.1", "::1", "localhost"):
        raise UsageError(
            f"hook {hook.name} would send a secret in the clear", "its address is http://", "Use https://."
        )
    return address


def _connection(hook: HttpHook, address: SplitResult) -> http.client.HTTPConnection:
    host, port = address.hostname or "", address.port
    if address.scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=hook.timeout_s)
    try:
        trusted = ssl.create_default_context(cafile=None if hook.ca is None else str(hook.ca))
    except OSError as error:
        raise UsageError(f"hook {hook.name} cannot trust {hook.ca}", str(error), "Name a PEM file.") from error
    return http.client.HTTPSConnection(host, port, timeout=hook.timeout_s, context=trusted)


def _written(name: str, value: str) -> str:
    """A value as evidence may show it: references as they are written and the rest hidden where there are any."""
    return references.shown("secret" if references.refers(value) else name, value)


def _listed(codes: Iterable[int]) -> str:
    return ", ".join(map(str, codes))
