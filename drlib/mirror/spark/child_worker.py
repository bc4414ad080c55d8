"""Run a worker as a child process: its `WorkerSpec` arrives on standard input, its status messages leave on standard output.

Rules: the first input line is the spec. When standard input ends, the parent is gone or wants the worker to stop, and it stops
as on SIGTERM; after `DRAIN_S` the process exits in any case, so no worker outlives its parent for long. One output line for
each change of state or event, and a last one with the result. A slow or missing reader blocks nothing: lines are written on a
thread of their own. Nothing of the spec is on the command line.
Not for: an operator's terminal (`drlib mirror`).
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import sys
import threading
from dataclasses import dataclass, field
from typing import BinaryIO

from pydantic import TypeAdapter

from drlib import decoding
from drlib.config.settings import from_file
from drlib.errors import DrlibError
from drlib.kafka.java_formats import properties
from drlib.kafka.java_formats.properties import PropertiesFile
from drlib.mirror import worker
from drlib.mirror.status.worker_status import WorkerStatus

DRAIN_S = 20.0


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What to run. `file` has the file's entries, references unresolved; None: read `path` where the worker runs."""

    name: str
    path: str
    file: PropertiesFile | None = field(repr=False)
    memory_bytes: int
    metrics_address: str | None


@dataclass(frozen=True, slots=True)
class WorkerError:
    """A `DrlibError` in a form that can be sent."""

    what: str
    why: str
    remedy: str
    exit_code: int
    retriable: bool


@dataclass(frozen=True, slots=True)
class StatusMessage:
    """One output line: the worker's status, or that it `ended`, with the error if there was one."""

    status: WorkerStatus | None = None
    ended: bool = False
    error: WorkerError | None = None


_SPEC = TypeAdapter(WorkerSpec)
_MESSAGE = TypeAdapter(StatusMessage)


def encode_spec(spec: WorkerSpec) -> bytes:
    """The spec as one line."""
    return _SPEC.dump_json(spec) + b"\n"


def encode_message(message: StatusMessage) -> bytes:
    """The message as one line."""
    return _MESSAGE.dump_json(message) + b"\n"


def decode_message(line: bytes) -> StatusMessage:
    """Parse one line. Raises `Undecodable`."""
    return decoding.json_as(_MESSAGE, line)


def worker_error(error: DrlibError) -> WorkerError:
    """`error` in a form that can be sent."""
    return WorkerError(error.what, error.why, error.remedy, error.exit_code, error.retriable)


def main() -> int:
    """Run the spec on standard input until that ends; returns the exit code."""
    messages = _MessageWriter(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)  # what a library prints must not get among the messages
    spec = decoding.json_as(_SPEC, sys.stdin.buffer.readline())
    threading.Thread(target=_stop_with_parent, name="parent", daemon=True).start()
    try:
        settings = from_file(spec.file or properties.read(spec.path))
        worker.run(
            settings,
            metrics_address=spec.metrics_address,
            memory_bytes=spec.memory_bytes,
            on_state=lambda state: messages.send(StatusMessage(status=state)),
            name=spec.name,
        )
    except DrlibError as error:
        messages.send_last(StatusMessage(ended=True, error=worker_error(error)))
        return error.exit_code
    messages.send_last(StatusMessage(ended=True))
    return 0


def _stop_with_parent() -> None:
    """Wait for the end of standard input, then stop the worker; exit after `DRAIN_S` if it does not end."""
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(DRAIN_S)  # a daemon thread: it ends with the worker
    os._exit(1)


class _MessageWriter:
    """Writes messages on a thread of its own."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="messages", daemon=True)
        self._thread.start()

    def send(self, message: StatusMessage) -> None:
        self._queue.put(encode_message(message))

    def send_last(self, message: StatusMessage) -> None:
        self.send(message)
        self._queue.put(None)
        self._thread.join(2.0)

    def _write(self) -> None:
        with contextlib.suppress(OSError):  # the reader is gone, which standard input shows too
            while (line := self._queue.get()) is not None:
                self._out.write(line)
                self._out.flush()


if __name__ == "__main__":
    sys.exit(main())
