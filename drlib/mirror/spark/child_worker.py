"""A worker that somebody else holds: its order comes on standard input, what it says of itself goes out on standard output.

Rules: the first line in is the order; when standard input ends, whoever held us is gone or wants the end, and the worker
stops in order, as on SIGTERM. It outlives that by `DRAIN_S` at most, so that nobody's death leaves a worker behind. One
line out for each change of state or event, and a last one with how it ended. Whoever reads slowly or not at all holds
nothing up: lines are written on a thread of their own. Nothing of the order is in the command line.
Not for: a person's terminal (`drlib mirror`).
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

from drlib.config.settings import from_file
from drlib.errors import DrlibError
from drlib.kafka.java_formats import properties
from drlib.kafka.java_formats.properties import PropertiesFile
from drlib.mirror import worker
from drlib.mirror.status.worker_status import WorkerStatus

DRAIN_S = 20.0


@dataclass(frozen=True, slots=True)
class Order:
    """What to run. `file` is the file's entries, references unresolved; None: read `path` where the worker runs."""

    name: str
    path: str
    file: PropertiesFile | None = field(repr=False)
    memory_bytes: int
    metrics_address: str | None


@dataclass(frozen=True, slots=True)
class Fault:
    """A `DrlibError`, as it travels."""

    what: str
    why: str
    remedy: str
    exit_code: int
    retriable: bool


@dataclass(frozen=True, slots=True)
class Word:
    """One line: the state, or how it `ended`, with the error if there was one."""

    status: WorkerStatus | None = None
    ended: bool = False
    fault: Fault | None = None


_ORDER = TypeAdapter(Order)
_WORD = TypeAdapter(Word)


def encode_order(order: Order) -> bytes:
    """As one line."""
    return _ORDER.dump_json(order) + b"\n"


def encode_word(word: Word) -> bytes:
    """As one line."""
    return _WORD.dump_json(word) + b"\n"


def decode_word(line: bytes) -> Word:
    """Raises pydantic's `ValidationError` for anything else."""
    return _WORD.validate_json(line)


def fault_of(error: DrlibError) -> Fault:
    return Fault(error.what, error.why, error.remedy, error.exit_code, error.retriable)


def main() -> int:
    """Run the order on standard input until that ends; the exit code."""
    words = _Words(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)  # what a library prints is no word of ours
    order = _ORDER.validate_json(sys.stdin.buffer.readline())
    threading.Thread(target=_watch, name="holder", daemon=True).start()
    try:
        settings = from_file(order.file or properties.read(order.path))
        worker.run(
            settings,
            metrics_address=order.metrics_address,
            memory_bytes=order.memory_bytes,
            on_state=lambda state: words.say(Word(status=state)),
            name=order.name,
        )
    except DrlibError as error:
        words.last(Word(ended=True, fault=fault_of(error)))
        return error.exit_code
    words.last(Word(ended=True))
    return 0


def _watch() -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    os.kill(os.getpid(), signal.SIGTERM)
    threading.Event().wait(DRAIN_S)  # a daemon thread: it ends with the worker
    os._exit(1)


class _Words:
    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="words", daemon=True)
        self._thread.start()

    def say(self, word: Word) -> None:
        self._queue.put(encode_word(word))

    def last(self, word: Word) -> None:
        self.say(word)
        self._queue.put(None)
        self._thread.join(2.0)

    def _write(self) -> None:
        with contextlib.suppress(OSError):  # nobody listens any more: standard input says so too
            while (line := self._queue.get()) is not None:
                self._out.write(line)
                self._out.flush()


if __name__ == "__main__":
    sys.exit(main())
