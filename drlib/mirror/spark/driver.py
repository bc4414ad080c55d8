"""`drlib mirror --spark`: one Spark job of one long task for each worker, kept alive until somebody stops the mirror.

Rules: a job for each worker, not one job of N tasks: Spark's page names each, one that fails takes no other with it, and
Spark may run it again, elsewhere, or twice. Nothing here keeps two attempts apart: the claim does. Plain tasks, not a
barrier stage, which would begin all anew when one dies. A stop goes over the line and ends every job well; what has no
worker yet is cancelled. Secrets go nowhere: references are resolved where the worker runs, and a file that holds a
secret itself is read there and not sent.
Not for: the worker (`drlib.mirror`), what a task does (`drlib.mirror.spark.task`), what follows an end (`rules.spark_workers`).
"""

from __future__ import annotations

import os
import queue
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
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
from drlib.mirror.spark import rules as spark_workers
from drlib.mirror.spark.child_worker import DRAIN_S, Fault, decode_word
from drlib.mirror.spark.control_channel import Gone, Heard, Line
from drlib.mirror.spark.shippable_config import secrets_in
from drlib.mirror.spark.task import END_S, Assignment, attend
from drlib.mirror.status.worker_status import WorkerStatus
from drlib.runs.signals import handled

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

REACH_S = 5.0
POLL_S = 0.1
PATIENCE_S = 20.0  # an executor's JVM and Python take up to ten on a busy machine
WELL_S = 120.0  # a job that lasted this long was well, and its end is the first one
STOP_S = DRAIN_S + END_S
DRIVER_MEMORY = "512m"


@dataclass(frozen=True, slots=True)
class Wanted:
    """`settings` are Spark's own keys; `memory_bytes` is for each worker."""

    path: Path
    master: str
    workers: int
    memory_bytes: int
    metrics_address: str | None
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class JobEnded:
    """Spark's job of a worker is over: its task's `answer`, or the `failure` in Spark's words."""

    number: int
    answer: str = ""
    failure: str = ""


@dataclass(slots=True)
class Post:
    """One worker's place: its job, and how often it was begun."""

    number: int
    job: threading.Thread | None = None
    began_s: float = 0.0
    begin_s: float = 0.0
    times: int = 0
    ran: bool = False
    waits: bool = False


class StartSession(Protocol):
    """Starts a Spark session, as `drlib.analysis.spark.session.spark_session` does."""

    def __call__(
        self, app_name: str, *, master: str, driver_memory: str, connector: bool, settings: Mapping[str, str]
    ) -> SparkSession: ...


def mirror_on_spark(
    wanted: Wanted,
    *,
    start_session: StartSession,
    tell: Callable[[str], None],
    on_state: Callable[[int, WorkerStatus], None],
) -> None:
    """Mirror the enabled flows of a file with workers on Spark until SIGTERM or SIGINT.

    `tell` is given news in sentences, `on_state` a worker's number and what it says of itself. Raises `UsageError`,
    `MissingDependency`, `Unreachable`, and what a worker ended with.
    """
    from py4j.protocol import Py4JError

    file = properties.read(wanted.path)
    settings = _prepared(wanted, file, tell)
    spark = spark_workers.settings(
        wanted.master, wanted.workers, wanted.memory_bytes, wanted.settings, os.environ.get("PYTHONPATH", "")
    )
    os.environ.setdefault("PYSPARK_PYTHON", wanted.settings.get("spark.pyspark.python", sys.executable))
    if wanted.master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # Spark's page is to be seen from here alone
    flows = ", ".join(str(f.flow) for f in settings.flows if f.enabled)
    travelling = _travelling(file, tell)
    session = _session(start_session, f"drlib mirror {flows}", wanted, spark)
    try:
        Crew(session.sparkContext, wanted, travelling, flows, tell, on_state).run()
    finally:
        with suppress(Py4JError, OSError):  # of a JVM that is gone already
            session.stop()


def _prepared(wanted: Wanted, file: PropertiesFile, tell: Callable[[str], None]) -> MirrorSettings:
    settings = from_file(file)
    flows = [f for f in settings.flows if f.enabled]
    if not flows:
        raise UsageError(
            f"nothing to mirror in {wanted.path}", "no flow is enabled", "Set 'A->B.enabled = true' for a flow."
        )
    if wanted.workers < 1:
        raise UsageError(f"--workers {wanted.workers}", "a mirror has one worker or more", "Give 1 or more.")
    data_share(wanted.memory_bytes)
    _reach(wanted.master)
    for flow in flows:
        if flow.lanes < wanted.workers:
            tell(
                f"{flow.flow} has {flow.lanes} lanes, so that {wanted.workers - flow.lanes} of {wanted.workers} workers "
                "stand by for it; more lanes are 'drlib.lanes' before its first start."
            )
    return settings


def _reach(master: str) -> None:
    """Spark itself needs a minute to say that no master answers. Raises `UsageError`, `Unreachable`."""
    why = ""
    places = spark_workers.addresses(master)
    for place in places:
        try:
            socket.create_connection(place, REACH_S).close()
            return
        except OSError as error:
            why = error.strerror or str(error)
    if places:
        raise Unreachable(
            f"no Spark master answers at {master}", why, "Start it, or give the address that its page shows."
        )


def _travelling(file: PropertiesFile, tell: Callable[[str], None]) -> PropertiesFile | None:
    secrets = secrets_in(file)
    if secrets:
        tell(
            f"{file.path} holds secrets itself, {', '.join(secrets)}, and is not sent: every executor reads its own copy "
            "at the same path. Written as ${env:NAME} or ${file:/path:key}, it would travel."
        )
    return None if secrets else file


def _session(start: StartSession, name: str, wanted: Wanted, settings: Mapping[str, str]) -> SparkSession:
    from py4j.protocol import Py4JError

    try:
        return start(name, master=wanted.master, driver_memory=DRIVER_MEMORY, connector=False, settings=settings)
    except (Py4JError, OSError, RuntimeError, TypeError) as error:  # TypeError: of a context that stopped half-way
        raise Unreachable(
            f"Spark did not start on {wanted.master}",
            spark_workers.last_words(str(error)),
            "See that the master's page shows this application's workers, and run the command again.",
        ) from error


class Crew:
    """The workers on one Spark context; `run` is the whole life."""

    def __init__(
        self,
        context: SparkContext,
        wanted: Wanted,
        file: PropertiesFile | None,
        flows: str,
        tell: Callable[[str], None],
        on_state: Callable[[int, WorkerStatus], None],
    ) -> None:
        self._context = context
        self._wanted = wanted
        self._file = file
        self._flows = flows
        self._tell = tell
        self._on_state = on_state
        self._news: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._posts = [Post(number) for number in range(1, wanted.workers + 1)]
        self._run_id = uuid.uuid4().hex[:8]
        self._stops = 0
        self._stopping = False
        self._problem: DrlibError | None = None
        self._host = (context.getConf().get("spark.driver.host") or "127.0.0.1").strip("[]")
        self._line = self._open(context.getConf().get("spark.driver.bindAddress") or self._host)

    def _open(self, host: str) -> Line:
        try:
            return Line(host.strip("[]"), self._news)
        except OSError as error:
            raise UsageError(
                f"this command cannot be called at {host}",
                error.strerror or str(error),
                "Set spark.driver.host, and spark.driver.bindAddress where that is another, to an address of this host.",
            ) from error

    def run(self) -> None:
        """Until a signal, or an error that ends it; every worker is stopped in order on the way out."""

        def asked(_: int, __: FrameType | None) -> None:
            self._stops += 1

        with handled(asked):
            self._tell(f"Spark's page: {self._context.uiWebUrl}")
            try:
                while not self._stops and self._problem is None:
                    self._begin_due()
                    self._hear()
                self._stop()
            finally:
                self._line.close()
        if self._problem is not None:
            raise self._problem

    def _begin_due(self) -> None:
        now = time.monotonic()
        if not self._alive():
            self._problem = Unreachable(
                "the mirror's workers on Spark ended",
                "its application was removed, or its master is gone",
                "Run the command again when the master answers: nothing is lost.",
            )
            return
        for post in self._posts:
            if post.job is None and now >= post.begin_s:
                post.began_s, post.waits = now, False
                post.job = threading.Thread(target=self._work, args=(post.number,), name="job", daemon=True)
                post.job.start()
            elif post.job is not None and not post.waits and now > post.began_s + PATIENCE_S:
                post.waits = True
                if post.number not in self._line.there():
                    self._tell(
                        f"{self._who(post.number)} waits for an executor: Spark has no free core or memory for it, or the "
                        "executors do not start; their pages tell."
                    )

    def _alive(self) -> bool:
        from py4j.protocol import Py4JError

        try:
            return self._context._jsc is not None and not self._context._jsc.sc().isStopped()
        except (Py4JError, OSError):  # its JVM is gone
            return False

    def _cancel_all(self) -> None:
        for post in self._posts:
            self._cancel(post.number)

    def _cancel(self, number: int) -> None:
        from py4j.protocol import Py4JError

        with suppress(Py4JError, OSError):
            self._context.cancelJobGroup(self._group(number))

    def _work(self, number: int) -> None:
        """On a thread, and so with a job group, of its own."""
        named = f"{self._flows}: {self._who(number)}"
        assignment = Assignment(
            number,
            self._wanted.workers,
            str(self._wanted.path.resolve()),
            self._file,
            self._wanted.memory_bytes,
            self._wanted.metrics_address,
            self._host,
            self._line.port,
            self._line.token,
        )
        try:
            self._context.setJobGroup(self._group(number), f"drlib mirror {named}")
            one = self._context.parallelize([number], 1).setName(named)
            (answer,) = one.mapPartitions(partial(attend, assignment)).collect()
            self._news.put(JobEnded(number, answer=answer))
        except Exception as error:  # of py4j, Spark or a context that ends: what it says is judged on the main thread
            self._news.put(JobEnded(number, failure=str(error) or type(error).__name__))

    def _hear(self) -> None:
        try:
            news = self._news.get(timeout=POLL_S)
        except queue.Empty:
            return
        match news:
            case Heard(hello, None):
                again = f" (attempt {hello.attempt + 1})" if hello.attempt else ""
                self._tell(f"{self._who(hello.number)} runs as {hello.name}{again}")
            case Heard(hello, word) if word is not None and word.status is not None:
                self._posts[hello.number - 1].ran |= word.status.state == "running"
                self._on_state(hello.number, word.status)
            case Gone(hello) if not self._stopping:
                self._tell(f"{self._who(hello.number)}: {hello.name} is gone")
            case JobEnded():
                self._ended(self._posts[news.number - 1], news)
            case _:
                pass

    def _ended(self, post: Post, job: JobEnded) -> None:
        post.job = None
        fault = decode_word(job.answer.encode()).fault if job.answer else None
        if fault is not None:
            error = _error(fault)
            again = spark_workers.begun_again(fault.exit_code, fault.retriable, post.ran)
        elif job.failure:
            error = spark_workers.failure(f"{self._who(post.number)} could not run on Spark", job.failure)
            again = spark_workers.begun_again(0, True, post.ran) and not isinstance(error, Aborted)
        else:
            error, again = None, True
        if self._stopping:
            if fault is not None and self._problem is None:
                self._problem = error
            return
        if not again:
            self._problem = error
            return
        now = time.monotonic()
        post.times = 1 if now > post.began_s + WELL_S else post.times + 1
        post.begin_s = now + spark_workers.pause_s(post.times)
        self._tell(f"{self._who(post.number)} ended and is begun again: {error or 'somebody stopped it'}")

    def _stop(self) -> None:
        """In order; a second signal ends it at once. Raises `Aborted` for that."""
        self._stopping = True
        asked = max(1, self._stops)
        self._line.stop()
        there = self._line.there()
        for post in self._posts:
            if post.number not in there:
                self._cancel(post.number)
        end = time.monotonic() + STOP_S
        while time.monotonic() < end and (any(p.job is not None for p in self._posts) or self._line.there()):
            if self._stops > asked:
                self._cancel_all()
                raise Aborted(
                    "the mirror was stopped at once", "a second signal came", "Nothing to do: nothing is lost."
                )
            self._hear()
        self._cancel_all()

    def _group(self, number: int) -> str:
        return f"drlib-mirror-{self._run_id}-{number}"

    def _who(self, number: int) -> str:
        return f"worker {number} of {self._wanted.workers}"


def _error(fault: Fault) -> DrlibError:
    """The error a worker ended with, of the class that has its exit code."""
    if fault.exit_code == Unreachable.exit_code:
        return Unreachable(fault.what, fault.why, fault.remedy)
    kinds = {kind.exit_code: kind for kind in (UsageError, LeaseHeld, Aborted)}
    return kinds.get(fault.exit_code, DrlibError)(fault.what, fault.why, fault.remedy, retriable=fault.retriable)
