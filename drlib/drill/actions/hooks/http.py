"""Posts a hook's JSON: TLS checks the certificate and the host name, nothing is redirected, no proxy is used.

Rules: see `hooks`. What failed before the connection stood was not done; what was sent and not answered is unknown.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import SplitResult, urlsplit

from drlib.drill.actions.hooks.hook import Evidence, HookContext, HttpHook, Outcome, target_of
from drlib.drill.actions.hooks.output import ABORTED, Kept, Secrets, listed, written
from drlib.errors import UsageError
from drlib.kafka.java_formats import references

_LOOK_S: Final = 0.1


def post(hook: HttpHook, context: HookContext, stop: Callable[[], bool]) -> Evidence:
    where = f"hook {hook.name}"
    secrets = Secrets((hook.url, *hook.headers.values()), where)
    address = _address(hook, references.resolve(hook.url, where))
    headers = {name: references.resolve(value, where) for name, value in hook.headers.items()}
    sent = tuple((name, written(name, value)) for name, value in hook.headers.items())
    kept = Kept(secrets)

    def evidence(outcome: Outcome, code: int | None, reason: str = "") -> Evidence:
        output, left_out = kept.shown()
        return Evidence(hook.name, "http", target_of(hook), outcome, code, 1, 0.0, output, left_out, reason, sent)

    body = {**hook.body, "run_id": context.run_id, "flow": context.flow, "active": context.active}
    connection = _connection(hook, address)
    over = threading.Event()
    gave_up: list[str] = []  # why it was not waited for any longer

    def watch() -> None:  # a socket's own time-out begins anew with every byte
        end = time.monotonic() + hook.timeout_s
        while not over.wait(max(0.0, min(_LOOK_S, end - time.monotonic()))):
            if stop() or time.monotonic() >= end:
                gave_up.append(ABORTED if stop() else f"no answer within {hook.timeout_s:g} s")
                if connection.sock is not None:
                    with contextlib.suppress(OSError):
                        connection.sock.shutdown(socket.SHUT_RDWR)
                return

    threading.Thread(target=watch, daemon=True).start()
    begun = False
    try:
        connection.connect()
        begun = True
        path = (address.path or "/") + (f"?{address.query}" if address.query else "")
        connection.request("POST", path, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        while chunk := answer.read1(65536):
            kept.take(chunk)
        if gave_up:
            return evidence(Outcome.UNKNOWN, answer.status, gave_up[0])
    except (OSError, http.client.HTTPException) as error:
        if gave_up or isinstance(error, TimeoutError):
            outcome = Outcome.UNKNOWN if begun else Outcome.NOT_DONE
            return evidence(outcome, None, gave_up[0] if gave_up else f"no answer within {hook.timeout_s:g} s")
        reason = secrets.hide(str(error).encode()).decode(errors="replace") or type(error).__name__
        return evidence(Outcome.UNKNOWN if begun else Outcome.NOT_DONE, None, reason)
    finally:
        over.set()
        connection.close()
    if answer.status in hook.expected:
        return evidence(Outcome.OK, answer.status)
    return evidence(Outcome.REFUSED, answer.status, f"status {answer.status}, expected {listed(hook.expected)}")


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
