"""`drlib mirror --spark`: run one Spark job with one long task for each worker, until the mirror is stopped.

Rules: a job for each worker, not one job of N tasks: the Spark UI names each, a failed one does not fail the others, and Spark
may run it again, elsewhere, or twice. Two attempts at a worker are fenced by the lane's claim, not here. Plain tasks, not a
barrier stage, which would restart all tasks when one dies. A stop goes over the control channel and ends every job orderly;
jobs without a worker yet are cancelled. No secret is sent: references are resolved where the worker runs, and a file that
contains a secret itself is read there.
Not for: the worker (`drlib.mirror.worker`), the task (`drlib.mirror.spark.task`), decisions (`drlib.mirror.spark.rules`).
"""

from __future__ import annotations

import os
import queue
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Protocol

from drlib.config.settings import MirrorSettings, from_file
from drlib.errors import Aborted, DrlibError, LeaseHeld, Unreachable, UsageError
from drlib.kafka.java_formats import properties
from drlib.kafka.java_formats.properties import PropertiesFile
from drlib.mirror.engine.fetch.memory import data_share
from drlib.mirror.spark import rules
from drlib.mirror.spark.child_worker import DRAIN_S, WorkerError, decode_message
from drlib.mirror.spark.control_channel import ControlChannel, MessageReceived, TaskConnected, TaskDisconnected
from drlib.mirror.spark.task import END_S, Assignment, run_task
from drlib.mirror.status.worker_status import WorkerStatus
from drlib.runs.signals import handled

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

REACH_S = 5.0
POLL_S = 0.1
EXECUTOR_START_S = 20.0  # an executor's JVM and Python take up to ten on a busy machine
STABLE_S = 120.0  # the end of a job that lasted this long counts as its first
STOP_S = DRAIN_S + END_S
DRIVER_MEMORY = "512m"


@dataclass(frozen=True, slots=True)
class SparkMirrorOptions:
    """`settings` are Spark's own keys; `memory_bytes` is for each worker."""

    path: Path
    master: str
    workers: int
    memory_bytes: int
    metrics_address: str | None
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class JobEnded:
    """The Spark job of a worker has ended: with the last `message` of its task, or with Spark's text of the `failure`."""

    number: int
    message: str = ""
    failure: str = ""


@dataclass(slots=True)
class WorkerSlot:
    """One worker of the pool: its job, when it started or is to start, and how often it was restarted."""

    number: int
    job: threading.Thread | None = None
    started_s: float = 0.0
    start_at_s: float = 0.0
    restarts: int = 0
    ran: bool = False
    waiting: bool = False


class StartSession(Protocol):
    """Starts a Spark session, as `drlib.analysis.spark.session.spark_session` does."""

    def __call__(
        self, app_name: str, *, master: str, driver_memory: str, connector: bool, settings: Mapping[str, str]
    ) -> SparkSession: ...


def mirror_on_spark(
    options: SparkMirrorOptions,
    *,
    start_session: StartSession,
    report: Callable[[str], None],
    on_state: Callable[[int, WorkerStatus], None],
) -> None:
    """Mirror the enabled flows of a file with workers on Spark until SIGTERM or SIGINT.

    `report` is called with progress in sentences, `on_state` with a worker's number and its status. Raises `UsageError`,
    `MissingDependency`, `Unreachable`, and the error that a worker ended with.
    """
    from py4j.protocol import Py4JError

    file = properties.read(options.path)
    settings = _check(options, file, report)
    spark = rules.settings(
        options.master, options.workers, options.memory_bytes, options.settings, os.environ.get("PYTHONPATH", "")
    )
    os.environ.setdefault("PYSPARK_PYTHON", options.settings.get("spark.pyspark.python", sys.executable))
    if options.master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # keeps the Spark UI local
    flows = ", ".join(str(f.flow) for f in settings.flows if f.enabled)
    sent_file = _shippable(file, tuple(settings.clusters), report)
    session = _session(start_session, f"drlib mirror {flows}", options, spark)
    try:
        effective = dict(session.sparkContext.getConf().getAll())
        rules.refuse_open_connections(options.master, options.settings, effective)
        WorkerPool(session.sparkContext, options, sent_file, flows, report, on_state).run()
    finally:
        with suppress(Py4JError, OSError):  # the JVM is gone already
            session.stop()


def _check(options: SparkMirrorOptions, file: PropertiesFile, report: Callable[[str], None]) -> MirrorSettings:
    settings = from_file(file)
    flows = [f for f in settings.flows if f.enabled]
    if not flows:
        raise UsageError(
            f"nothing to mirror in {options.path}", "no flow is enabled", "Set 'A->B.enabled = true' for a flow."
        )
    if options.workers < 1:
        raise UsageError(f"--workers {options.workers}", "a mirror needs at least one worker", "Give 1 or more.")
    data_share(options.memory_bytes)
    reach(options.master)
    for flow in flows:
        if flow.lanes < options.workers:
            report(
                f"{flow.flow} has {flow.lanes} lanes, so {options.workers - flow.lanes} of {options.workers} workers are on "
                "standby for it; drlib.lanes sets more lanes, before the flow's first start only."
            )
    return settings


def reach(master: str) -> None:
    """Check that a master answers; Spark itself needs a minute for that. Raises `UsageError`, `Unreachable`."""
    why = ""
    addresses = rules.addresses(master)
    for address in addresses:
        try:
            socket.create_connection(address, REACH_S).close()
            return
        except OSError as error:
            why = error.strerror or str(error)
    if addresses:
        raise Unreachable(
            f"no Spark master answers at {master}", why, "Start it, or give the address that its page shows."
        )


def _shippable(file: PropertiesFile, aliases: Collection[str], report: Callable[[str], None]) -> PropertiesFile | None:
    secrets = rules.secrets_in(file, aliases)
    if secrets:
        report(
            f"{file.path} contains secrets ({', '.join(secrets)}) and is not sent: every executor reads its own copy "
            "at the same path. With ${env:NAME} or ${file:/path:key} in their place, the file is sent."
        )
    return None if secrets else rules.sent_file(file, aliases)


def _session(start: StartSession, name: str, options: SparkMirrorOptions, settings: Mapping[str, str]) -> SparkSession:
    from py4j.protocol import Py4JError

    try:
        return start(name, master=options.master, driver_memory=DRIVER_MEMORY, connector=False, settings=settings)
    except (Py4JError, OSError, RuntimeError, TypeError) as error:  # TypeError: a context that stopped while it started
        raise Unreachable(
            f"Spark did not start on {options.master}",
            rules.cause_of(str(error)),
            "Check on the master's page that it has workers, and run the command again.",
        ) from error


class WorkerPool:
    """The workers on one Spark context; `run` starts, restarts and stops them."""

    def __init__(
        self,
        context: SparkContext,
        options: SparkMirrorOptions,
        file: PropertiesFile | None,
        flows: str,
        report: Callable[[str], None],
        on_state: Callable[[int, WorkerStatus], None],
    ) -> None:
        self._context = context
        self._options = options
        self._file = file
        self._flows = flows
        self._report = report
        self._on_state = on_state
        self._events: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._slots = [WorkerSlot(number) for number in range(1, options.workers + 1)]
        self._run_id = uuid.uuid4().hex[:8]
        self._stops = 0
        self._stopping = False
        self._error: DrlibError | None = None
        self._host = (context.getConf().get("spark.driver.host") or "127.0.0.1").strip("[]")
        self._channel = self._open_channel(context.getConf().get("spark.driver.bindAddress") or self._host)

    def _open_channel(self, host: str) -> ControlChannel:
        try:
            return ControlChannel(host.strip("[]"), self._events)
        except OSError as error:
            raise UsageError(
                f"this command cannot listen at {host}",
                error.strerror or str(error),
                "Set spark.driver.host, and spark.driver.bindAddress where that is another, to an address of this host.",
            ) from error

    def run(self) -> None:
        """Run until a signal or an error that ends it; then stop every worker orderly."""

        def on_signal(_: int, __: FrameType | None) -> None:
            self._stops += 1

        with handled(on_signal):
            self._report(f"Spark UI: {self._context.uiWebUrl}")
            try:
                while not self._stops and self._error is None:
                    self._start_due()
                    self._handle_event()
                self._stop()
            finally:
                self._channel.close()
        if self._error is not None:
            raise self._error

    def _start_due(self) -> None:
        now = time.monotonic()
        if not self._alive():
            self._error = Unreachable(
                "the Spark application of the mirror ended",
                "it was removed, or its master is gone",
                "Run the command again when the master answers: nothing is lost.",
            )
            return
        for slot in self._slots:
            if slot.job is None and now >= slot.start_at_s:
                slot.started_s, slot.waiting = now, False
                slot.job = threading.Thread(target=self._run_job, args=(slot.number,), name="job", daemon=True)
                slot.job.start()
            elif slot.job is not None and not slot.waiting and now > slot.started_s + EXECUTOR_START_S:
                slot.waiting = True
                if slot.number not in self._channel.connected_workers():
                    self._report(
                        f"{self._name(slot.number)} waits for an executor: Spark has no free core or memory for it, or its "
                        "executors do not start; see the Spark UI."
                    )

    def _alive(self) -> bool:
        from py4j.protocol import Py4JError

        try:
            return self._context._jsc is not None and not self._context._jsc.sc().isStopped()
        except (Py4JError, OSError):  # the JVM is gone
            return False

    def _cancel_all(self) -> None:
        for slot in self._slots:
            self._cancel(slot.number)

    def _cancel(self, number: int) -> None:
        from py4j.protocol import Py4JError

        with suppress(Py4JError, OSError):
            self._context.cancelJobGroup(self._group(number))

    def _run_job(self, number: int) -> None:
        """Run the Spark job of a worker, on a thread and so in a job group of its own."""
        job_name = f"{self._flows}: {self._name(number)}"
        assignment = Assignment(
            number,
            self._options.workers,
            str(self._options.path.resolve()),
            self._file,
            self._options.memory_bytes,
            self._options.metrics_address,
            self._host,
            self._channel.port,
            self._channel.token,
        )
        try:
            self._context.setJobGroup(self._group(number), f"drlib mirror {job_name}")
            rdd = self._context.parallelize([number], 1).setName(job_name)
            (message,) = rdd.mapPartitions(partial(run_task, assignment)).collect()
            self._events.put(JobEnded(number, message=message))
        except Exception as error:  # of py4j, Spark or a context that ends; the main thread decides
            self._events.put(JobEnded(number, failure=str(error) or type(error).__name__))

    def _handle_event(self) -> None:
        try:
            event = self._events.get(timeout=POLL_S)
        except queue.Empty:
            return
        match event:
            case TaskConnected(task):
                attempt = f" (attempt {task.attempt + 1})" if task.attempt else ""
                self._report(f"{self._name(task.number)} runs as {task.name}{attempt}")
            case MessageReceived(task, message) if message.status is not None:
                self._slots[task.number - 1].ran |= message.status.state == "running"
                self._on_state(task.number, message.status)
            case TaskDisconnected(task) if not self._stopping:
                self._report(f"{self._name(task.number)}: {task.name} disconnected")
            case JobEnded():
                self._on_job_ended(self._slots[event.number - 1], event)
            case _:
                pass

    def _on_job_ended(self, slot: WorkerSlot, job: JobEnded) -> None:
        slot.job = None
        sent = decode_message(job.message.encode()).error if job.message else None
        if sent is not None:
            error = _as_error(sent)
            restart = rules.should_restart(sent.exit_code, sent.retriable, slot.ran)
        elif job.failure:
            error = rules.explain_failure(f"{self._name(slot.number)} could not run on Spark", job.failure)
            restart = rules.should_restart(0, True, slot.ran) and not isinstance(error, Aborted)
        else:
            error, restart = None, True
        if self._stopping:
            if sent is not None and self._error is None:
                self._error = error
            return
        if not restart:
            self._error = error
            return
        now = time.monotonic()
        slot.restarts = 1 if now > slot.started_s + STABLE_S else slot.restarts + 1
        slot.start_at_s = now + rules.restart_pause_s(slot.restarts)
        self._report(f"{self._name(slot.number)} ended and is restarted: {error or 'it was stopped'}")

    def _stop(self) -> None:
        """Stop all workers orderly. Raises `Aborted` on a second signal, which cancels all jobs at once."""
        self._stopping = True
        signals = max(1, self._stops)
        self._channel.stop()
        connected = self._channel.connected_workers()
        for slot in self._slots:
            if slot.number not in connected:
                self._cancel(slot.number)
        end = time.monotonic() + STOP_S
        while time.monotonic() < end and (
            any(s.job is not None for s in self._slots) or self._channel.connected_workers()
        ):
            if self._stops > signals:
                self._cancel_all()
                raise Aborted(
                    "the mirror was stopped at once", "a second signal came", "Nothing to do: nothing is lost."
                )
            self._handle_event()
        self._cancel_all()

    def _group(self, number: int) -> str:
        return f"drlib-mirror-{self._run_id}-{number}"

    def _name(self, number: int) -> str:
        return f"worker {number} of {self._options.workers}"


def _as_error(sent: WorkerError) -> DrlibError:
    """The error that a worker ended with, of the class that has its exit code."""
    if sent.exit_code == Unreachable.exit_code:
        return Unreachable(sent.what, sent.why, sent.remedy)
    kinds = {kind.exit_code: kind for kind in (UsageError, LeaseHeld, Aborted)}
    return kinds.get(sent.exit_code, DrlibError)(sent.what, sent.why, sent.remedy, retriable=sent.retriable)
