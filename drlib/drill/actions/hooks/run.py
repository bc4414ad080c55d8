"""Run a hook to its outcome, as often as it may be tried: a command without a shell, or JSON posted to an address.

Rules: each attempt has the hook's own time limit; the pause between two attempts doubles from 0.1 s to five seconds at most.
A command runs in a session of its own, and is ended with all it started when its time is up; what it leaves running in the
background may hold its output open, and is not waited for. A post goes to its address only (`drlib.outgoing.http_request`).
What failed before the connection was made was not done; what was sent and not answered is unknown.
Not for: what a hook is (`drlib.drill.actions.hooks.hook`).
"""

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import IO, Final

from drlib.drill.actions.hooks.hook import (
    ABORTED,
    CommandHook,
    Evidence,
    HookContext,
    HttpHook,
    Kept,
    Outcome,
    Secrets,
    listed,
    target_of,
)
from drlib.errors import UsageError
from drlib.kafka.java_formats import references
from drlib.outgoing import http_request
from drlib.outgoing.environment import child_environment

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0
_STOP_S: Final = 2.0  # between SIGTERM and SIGKILL
_ABORT_S: Final = 0.7  # the same when the run was aborted, which has two seconds for all of it
_DRAIN_S: Final = 0.5
_LOOK_S: Final = 0.1


def run(hook: CommandHook | HttpHook, context: HookContext, stop: Callable[[], bool] = lambda: False) -> Evidence:
    """Runs `hook` to its outcome. Raises `UsageError` for a reference without a value; then no attempt was made.

    `stop` says whether to end now: an attempt that it ends has an unknown outcome, as one that ran out of time.
    """
    started = time.monotonic()
    for attempt in range(1, hook.attempts + 1):
        evidence = run_command(hook, context, stop) if isinstance(hook, CommandHook) else post(hook, context, stop)
        if evidence.ok or stop() or attempt == hook.attempts:
            break
        _pause(min(FIRST_PAUSE_S * 2 ** (attempt - 1), LONGEST_PAUSE_S), stop)
        if stop():
            break
    return replace(evidence, attempts=attempt, seconds=time.monotonic() - started)


def _pause(seconds: float, stop: Callable[[], bool]) -> None:
    end = time.monotonic() + seconds
    while not stop() and (left_s := end - time.monotonic()) > 0:
        time.sleep(min(_LOOK_S, left_s))


def run_command(hook: CommandHook, context: HookContext, stop: Callable[[], bool]) -> Evidence:
    where = f"hook {hook.name}"
    secrets = Secrets(hook.environment.values(), where)
    environment = {name: references.resolve(value, where) for name, value in hook.environment.items()}
    sent = tuple((name, references.hidden(value)) for name, value in hook.environment.items())

    def evidence(outcome: Outcome, code: int | None, kept: Kept, reason: str = "") -> Evidence:
        output, left_out = kept.shown()
        return Evidence(hook.name, "command", target_of(hook), outcome, code, 1, 0.0, output, left_out, reason, sent)

    kept = Kept(secrets)
    try:
        process = subprocess.Popen(
            hook.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=hook.folder,
            env=child_environment({**environment, **context.environment()}),
            start_new_session=True,  # so that what it starts ends with it when time is up
        )
    except OSError as error:
        return evidence(Outcome.NOT_DONE, None, kept, f"{hook.argv[0]} did not start: {error.strerror}")
    assert process.stdout is not None
    reader = threading.Thread(target=_drain, args=(process.stdout, kept), daemon=True)
    reader.start()
    ended = ""
    try:
        ended = _until_end(process, hook.timeout_s, stop)
    finally:
        if process.returncode is None:
            _end_group(process, _ABORT_S if ended == ABORTED else _STOP_S)
    reader.join(_DRAIN_S)  # what it left running in the background may hold its output open for ever
    if ended:
        return evidence(Outcome.UNKNOWN, None, kept, ended)
    code = process.returncode
    if code in hook.expected:
        return evidence(Outcome.OK, code, kept)
    return evidence(Outcome.REFUSED, code, kept, f"exit code {code}, expected {listed(hook.expected)}")


def _drain(stream: IO[bytes], kept: Kept) -> None:
    with stream:
        while chunk := os.read(stream.fileno(), 65536):
            kept.take(chunk)


def _until_end(process: subprocess.Popen[bytes], timeout_s: float, stop: Callable[[], bool]) -> str:
    """Waits for its end; returns why the wait ended early, empty when it ended."""
    end = time.monotonic() + timeout_s
    while True:
        try:
            process.wait(max(0.0, min(_LOOK_S, end - time.monotonic())))
            return ""
        except subprocess.TimeoutExpired:
            if stop():
                return ABORTED
            if time.monotonic() >= end:
                return f"it was ended after {timeout_s:g} s"


def _end_group(process: subprocess.Popen[bytes], patience_s: float) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience_s)


def post(hook: HttpHook, context: HookContext, stop: Callable[[], bool]) -> Evidence:
    where = f"hook {hook.name}"
    secrets = Secrets(hook.given, where, hook.url)
    address = _address(hook, references.resolve(hook.url, where).strip())
    headers = {name: references.resolve(value, where).strip() for name, value in hook.headers.items()}
    sent = tuple((name, references.hidden(value)) for name, value in hook.headers.items())
    kept = Kept(secrets)

    def evidence(outcome: Outcome, code: int | None, reason: str = "") -> Evidence:
        output, left_out = kept.shown()
        return Evidence(hook.name, "http", target_of(hook), outcome, code, 1, 0.0, output, left_out, reason, sent)

    given = {
        name: references.resolve(value, where) if hook.body_refers and isinstance(value, str) else value
        for name, value in hook.body.items()
    }
    body = {**given, "run_id": context.run_id, "flow": context.flow, "active": context.active}
    request = http_request.Request(
        address,
        method="POST",
        headers={"Content-Type": "application/json", **context.headers(), **headers},
        body=json.dumps(body).encode(),
        timeout_s=hook.timeout_s,
        secret=_holds_secret(hook),
        ca=hook.ca,
    )
    try:
        status = http_request.send(request, kept.take, stop)
    except http_request.NoAnswer as error:
        outcome = Outcome.UNKNOWN if error.begun else Outcome.NOT_DONE
        timed_out = ABORTED if stop() else f"no answer within {hook.timeout_s:g} s"
        reason = timed_out if error.timed_out else secrets.hide(str(error).encode()).decode(errors="replace")
        return evidence(outcome, error.status if error.timed_out else None, reason)
    except OSError as error:
        raise UsageError(f"hook {hook.name} cannot trust {hook.ca}", str(error), "Name a PEM file.") from error
    if status in hook.expected:
        return evidence(Outcome.OK, status)
    return evidence(Outcome.REFUSED, status, f"status {status}, expected {listed(hook.expected)}")


def _holds_secret(hook: HttpHook) -> bool:
    return any(references.refers(text) for text in (hook.url, *hook.given))


def _address(hook: HttpHook, url: str) -> http_request.Address:
    try:
        address = http_request.parse(url)
    except http_request.NotAnAddress as error:
        raise UsageError(
            f"hook {hook.name} has no address to post to",
            f"{error}; it needs http or https and a host, and no login within",
            "Write https://host/path, and a login as a header by reference.",
        ) from None
    if _holds_secret(hook) and not address.private:
        raise UsageError(
            f"hook {hook.name} would send a secret in the clear", "its address is http://", "Use https://."
        )
    return address
