"""Runs a hook's command: without a shell, in a session of its own, ended with all it started when its time is up.

Rules: see `hooks`. What it leaves running in the background may hold its output open, and is not waited for.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import IO, Final

from drlib.drill.actions.hooks.hook import CommandHook, Evidence, HookContext, Outcome, target_of
from drlib.drill.actions.hooks.output import ABORTED, Kept, Secrets, listed, written
from drlib.kafka.java_formats import references

_STOP_S: Final = 2.0  # between SIGTERM and SIGKILL
_ABORT_S: Final = 0.7  # the same when the run was aborted, which has two seconds for all of it
_DRAIN_S: Final = 0.5
_LOOK_S: Final = 0.1


def run_command(hook: CommandHook, context: HookContext, stop: Callable[[], bool]) -> Evidence:
    where = f"hook {hook.name}"
    secrets = Secrets(hook.environment.values(), where)
    given = {name: references.resolve(value, where) for name, value in hook.environment.items()}
    sent = tuple((name, written(name, value)) for name, value in hook.environment.items())

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
            env={**os.environ, **given, **context.environment()},
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
    """Waits for its end; why it was not waited for any longer, empty when it ended."""
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
