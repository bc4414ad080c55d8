"""The Spark task on an executor: holds one worker process for as long as the driver wants it.

Rules: the worker is a process of its own, with its own event loop and signals, because Spark ends a task by killing its Python
process, and a worker needs a moment to hand its lanes over. A pipe ties the worker to this process: the death of this process,
of its executor or of the host ends the worker. The control channel to the driver says when to stop, and carries the worker's
status messages; when it breaks, the driver is gone, and the worker stops. A worker that dies without a last message fails the
task, and Spark runs it again. What is sent here is an `Assignment`; its only secret is the channel's token, which a task proves
to hold and does not send on.
Not for: what a worker does (`drlib.mirror.worker`), which attempt may write (`drlib.mirror.engine.fencing.claim`).
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from drlib.decoding import Undecodable
from drlib.errors import Unreachable
from drlib.formats import one_line
from drlib.kafka.java_formats.properties import PropertiesFile
from drlib.mirror.spark.child_worker import (
    DRAIN_S,
    StatusMessage,
    WorkerSpec,
    decode_message,
    encode_message,
    encode_spec,
)
from drlib.mirror.spark.control_channel import TaskRegistration, register
from drlib.mirror.spark.rules import advertised_address
from drlib.mirror.status.causes import subject
from drlib.outgoing.environment import whole
from drlib.outgoing.terminal import show

if TYPE_CHECKING:
    from pyspark import TaskContext

CONNECT_S = 10.0
END_S = DRAIN_S + 5.0


@dataclass(frozen=True, slots=True)
class Assignment:
    """Worker `number` of `of`, from 1; `host`, `port` and `token` are those of the driver's control channel."""

    number: int
    of: int
    path: str
    file: PropertiesFile | None = field(repr=False)
    memory_bytes: int
    metrics_address: str | None
    host: str
    port: int
    token: str = field(repr=False)


def run_task(assignment: Assignment, _: Iterable[int]) -> Iterator[str]:
    """Run the worker until the control channel ends; yields its last `StatusMessage`. Raises to be run again by Spark."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    with _connected(assignment, context) as (channel, name):
        yield encode_message(_run_worker(assignment, channel, name)).decode()


@contextlib.contextmanager
def _connected(assignment: Assignment, context: TaskContext) -> Iterator[tuple[socket.socket, str]]:
    """The control channel after registration, and the worker's name."""
    attempt = context.attemptNumber()
    name = f"{socket.gethostname()}-spark{assignment.number}.{attempt}.{os.getpid()}"
    try:
        channel = socket.create_connection((assignment.host, assignment.port), CONNECT_S)
    except OSError as error:
        raise Unreachable(
            f"the executor on {socket.gethostname()} cannot reach the driver at {assignment.host}:{assignment.port}",
            str(error),
            "Set spark.driver.host to an address that executors reach.",
        ) from None
    with channel:
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        try:
            known = register(channel, assignment.token, TaskRegistration(assignment.number, attempt, name))
        except (OSError, Undecodable):
            known = False
        if not known:
            raise Unreachable(
                f"no driver of this mirror answers at {assignment.host}:{assignment.port}",
                f"what answers to {socket.gethostname()} ended the connection, or did not prove that it is",
                "Set spark.driver.host to an address that executors reach, and see whether the command still runs.",
            )
        channel.settimeout(None)
        yield channel, name


def _run_worker(assignment: Assignment, channel: socket.socket, name: str) -> StatusMessage:
    """Start the worker, forward its messages, stop it when the channel ends; returns its last message."""
    child = subprocess.Popen(
        [sys.executable, "-m", "drlib.mirror.spark.child_worker", name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=whole({"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}),
        start_new_session=True,  # Spark signals the process group of its Python processes
    )
    assert child.stdin is not None
    assert child.stdout is not None
    stopping = threading.Event()

    def stop_with_channel() -> None:
        with contextlib.suppress(OSError):
            while channel.recv(4096):
                pass
        stopping.set()
        _stop(child)

    last = StatusMessage()
    try:
        metrics = assignment.metrics_address and advertised_address(
            assignment.metrics_address, channel.getsockname()[0]
        )
        spec = WorkerSpec(name, assignment.path, assignment.file, assignment.memory_bytes, metrics)
        with contextlib.suppress(BrokenPipeError):  # the worker has ended; its exit code is read below
            child.stdin.write(encode_spec(spec))
            child.stdin.flush()
        threading.Thread(target=stop_with_channel, name="driver", daemon=True).start()
        for line in child.stdout:
            last = decode_message(line)
            _log(name, last)
            with contextlib.suppress(OSError):  # the driver is gone; the thread above notices it too
                channel.sendall(line)
        code = child.wait(END_S)
    finally:
        _stop(child)
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(END_S)
        if child.poll() is None:
            child.kill()
            child.wait()
        child.stdout.close()
    if last.ended:
        return last
    if stopping.is_set():  # stopped before its first message
        return StatusMessage(ended=True)
    raise RuntimeError(f"worker {name} ended with exit code {code} and without a last message")


def _stop(child: subprocess.Popen[bytes]) -> None:
    """Close the worker's standard input, which stops it."""
    assert child.stdin is not None
    with contextlib.suppress(OSError):
        child.stdin.close()


def _log(name: str, message: StatusMessage) -> None:
    """Write to the executor's standard error, which the Spark UI shows."""
    if message.status is not None:
        flows = ", ".join(
            f"{flow.flow}: lanes {[lane.lane for lane in flow.lanes]}, {len(flow.partitions)} partitions"
            for flow in message.status.flows
        )
        events = "; ".join(
            f"{e.name} {subject(e)}" for e in message.status.events if e.resolved_ms is None and e.settled
        )
        show(one_line(f"{name} {message.status.state}: {flows}. {events}"), error=True)
    elif message.error is not None:
        error = message.error
        show(one_line(f"{name} failed: {error.what}: {error.why}. {error.remedy}"), error=True)
