"""What a Spark task does on an executor: hold one worker of the mirror for as long as both ends want it.

Rules: the worker is a process of its own, with its event loop and signals, because Spark ends a task by killing its
Python process, and a mirror wants a moment to hand its lanes over. It is held by a pipe: the death of this process, of its
executor or of the host ends it, in order where there is anybody left. The driver's line says when to stop, and takes what
the worker says; when it breaks, the driver is gone, and the worker stops. A worker that died without a word fails the
task, and Spark runs it again.
What travels here is an `Assignment`: no secret is in it but the line's own token.
Not for: what a worker is (`drlib.mirror.worker`), which attempt may write (`drlib.mirror.engine.fencing.claim`).
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from drlib.errors import Unreachable
from drlib.kafka.java_formats.properties import PropertiesFile
from drlib.mirror.spark.child_worker import DRAIN_S, Order, Word, decode_word, encode_order, encode_word
from drlib.mirror.spark.rules import answering_at

if TYPE_CHECKING:
    from pyspark import TaskContext

CONNECT_S = 10.0
END_S = DRAIN_S + 5.0


@dataclass(frozen=True, slots=True)
class Assignment:
    """Worker `number` of `of`, from 1; `host`, `port` and `token` are the driver's line."""

    number: int
    of: int
    path: str
    file: PropertiesFile | None = field(repr=False)
    memory_bytes: int
    metrics_address: str | None
    host: str
    port: int
    token: str = field(repr=False)


def attend(assignment: Assignment, _: Iterable[int]) -> Iterator[str]:
    """Run the worker until the driver's line ends; yields its last `Word`. Raises to be run again."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    with _line(assignment, context) as (line, name):
        yield encode_word(_held(assignment, line, name)).decode()


@contextlib.contextmanager
def _line(assignment: Assignment, context: TaskContext) -> Iterator[tuple[socket.socket, str]]:
    attempt = context.attemptNumber()
    name = f"{socket.gethostname()}-spark{assignment.number}.{attempt}.{os.getpid()}"
    try:
        line = socket.create_connection((assignment.host, assignment.port), CONNECT_S)
    except OSError as error:
        raise Unreachable(
            f"the executor on {socket.gethostname()} cannot reach the driver at {assignment.host}:{assignment.port}",
            str(error),
            "Set spark.driver.host to an address that executors reach.",
        ) from None
    with line:
        line.settimeout(None)
        line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        hello = {"token": assignment.token, "number": assignment.number, "attempt": attempt, "name": name}
        line.sendall(json.dumps(hello).encode() + b"\n")
        yield line, name


def _held(assignment: Assignment, line: socket.socket, name: str) -> Word:
    """Start the worker, pass on what it says, and stop it with the line; its last word."""
    child = subprocess.Popen(
        [sys.executable, "-m", "drlib.mirror.spark.child_worker", name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(place for place in sys.path if place)},
        start_new_session=True,  # Spark signals the process group of its Python processes
    )
    assert child.stdin is not None
    assert child.stdout is not None
    stopping = threading.Event()

    def until_told() -> None:
        with contextlib.suppress(OSError):
            while line.recv(4096):
                pass
        stopping.set()
        _let_go(child)

    last = Word()
    try:
        metrics = assignment.metrics_address and answering_at(assignment.metrics_address, line.getsockname()[0])
        order = Order(name, assignment.path, assignment.file, assignment.memory_bytes, metrics)
        with contextlib.suppress(BrokenPipeError):  # it is dead already: its exit code says so below
            child.stdin.write(encode_order(order))
            child.stdin.flush()
        threading.Thread(target=until_told, name="driver", daemon=True).start()
        for said in child.stdout:
            last = decode_word(said)
            _log(name, last)
            with contextlib.suppress(OSError):  # the driver is gone: the thread above sees it too
                line.sendall(said)
        code = child.wait(END_S)
    finally:
        _let_go(child)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(END_S)
        if child.poll() is None:
            child.kill()
            child.wait()
        child.stdout.close()
    if last.ended:
        return last
    if stopping.is_set():  # before it had begun
        return Word(ended=True)
    raise RuntimeError(f"worker {name} ended with exit code {code} and without a word")


def _let_go(child: subprocess.Popen[bytes]) -> None:
    """The worker takes the end of its standard input for the word to stop."""
    assert child.stdin is not None
    with contextlib.suppress(OSError):
        child.stdin.close()


def _log(name: str, word: Word) -> None:
    """On the executor's standard error, which the Spark UI shows."""
    if word.status is not None:
        flows = ", ".join(
            f"{flow.flow}: lanes {[lane.lane for lane in flow.lanes]}, {len(flow.partitions)} partitions"
            for flow in word.status.flows
        )
        events = "; ".join(f"{e.name} {e.entity}" for e in word.status.events if e.resolved_ms is None)
        print(f"{name} {word.status.state}: {flows}. {events}", file=sys.stderr, flush=True)
    elif word.fault is not None:
        fault = word.fault
        print(f"{name} failed: {fault.what}: {fault.why}. {fault.remedy}", file=sys.stderr, flush=True)
