"""A Spark session in this process: quick to start, silent, reachable from this machine only.

Rules: the JVM's output goes to an unlinked log, whose last lines are shown only when the start fails. A local master listens
on 127.0.0.1 only. The JVM ends with this process (it watches its standard input). One session per process: asking again
returns the running one, so a notebook cell can be run twice; after one that ended by itself, another one is started.
A session either starts quickly or is made for long reads (`long_runs`): with the C2 compiler a million records are read and
hashed twice as fast, and starting takes longer.
Measured on two cores, from nothing to the first aggregate: 8.6 s with the JVM's own settings, 7.2 s with those below (C1
compiler only, serial collector). A class-data archive does not help: Spark adds an incubator module, and the JVM then writes
no archive.
Not for: submitting to a cluster that has its own launcher; pass `master` for one that this process can drive.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import which
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO

from drlib.errors import MissingDependency, Unreachable
from drlib.kafka.java_formats.references import refers, resolve
from drlib.lab import jars
from drlib.mirror.spark import rules
from drlib.outgoing.environment import child_environment

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

JAVA_FIRST, JAVA_LAST = 17, 23  # Spark 4.0 needs 17; 24 removed the security manager that Hadoop's classes still call
JVM_OPTIONS = "-XX:+UseSerialGC -XX:-UsePerfData"
QUICK_OPTIONS = f"-XX:TieredStopAtLevel=1 {JVM_OPTIONS}"
SHUFFLE_PARTITIONS = 4
SHUFFLED_OFFSETS = 1_000_000  # per shuffle partition: sorted within a heap of 1 GiB that two tasks share
_LAST_S = 5.0  # from the end of a context until that of its JVM, where it ends with it
_starting = Lock()


def spark_session(
    app_name: str,
    *,
    master: str = "local[2]",
    driver_memory: str = "2g",
    connector: bool = True,
    settings: Mapping[str, str] | None = None,
    long_runs: bool = False,
) -> SparkSession:
    """The session of this process, started if there is none. A context manager: leaving it stops the session.

    `settings` are Spark's own keys and override those set here; values with references are resolved, and are not on the
    command line of the JVM, which the others are. Without `connector` no topic can be read.
    Raises UsageError for a reference without a value, MissingDependency when there is no Java 17..23, no connector jar, or
    the JVM does not start, Unreachable when `master` takes no session.
    """
    from py4j import java_gateway
    from py4j.protocol import Py4JError
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    # What it says to the root logger, with a traceback into the cell, is what becomes an error or an interrupt anyway.
    java_gateway.logging = java_gateway.logger
    with _starting:
        _forget_ended()
        if SparkContext._active_spark_context is not None:  # the active session is per thread, the context per process
            return SparkSession.builder.getOrCreate()
        conf = SparkConf(loadDefaults=False).setMaster(master).setAppName(app_name)
        java = JVM_OPTIONS if long_runs else QUICK_OPTIONS
        conf.setAll(_settings(master, driver_memory, java, jars.classpath("spark") if connector else ()))
        given = settings or {}
        conf.setAll([(key, text) for key, text in given.items() if not refers(text)])
        resolved = [(key, resolve(text, key)) for key, text in given.items() if refers(text)]
        gateway = SparkContext._gateway  # the JVM of a stopped session is used again
        if gateway is None:
            with tempfile.TemporaryFile() as log:
                home = _java_home()
                environment = _set_java_home(home)
                try:
                    gateway = launch_gateway(conf, {"stdout": log, "stderr": log})
                except Exception as error:
                    raise MissingDependency(
                        "Spark did not start",
                        _log_tail(log) or str(error),
                        f"See that '{home}/bin/java -version' works, and that {driver_memory} of memory are free.",
                    ) from error
                finally:
                    _restore_java_home(environment)
        try:
            context = SparkContext(gateway=gateway, conf=conf.setAll(resolved))
        except (
            Py4JError,
            OSError,
            RuntimeError,
            TypeError,
        ) as error:  # TypeError: a context that stopped while it started
            raise Unreachable(
                f"Spark did not start on {master}",
                rules.cause_of(str(error)),
                "Check the address, and on the master's page that it has workers, and run it again.",
            ) from error
        context.setLogLevel("ERROR")
        return SparkSession(context)


def is_running() -> bool:
    """Has this process a session already? One that was found running belongs to its owner, who stops it."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None and exit_code() is None


def exit_code(patience_s: float = 0.0) -> int | None:
    """How the JVM of this process ended, within `patience_s`; None while it runs, and where there is none."""
    from pyspark import SparkContext

    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return None
    with suppress(subprocess.TimeoutExpired):
        process.wait(patience_s)
    return process.returncode


def stop(session: SparkSession) -> None:
    """Stop `session`, also one whose JVM has ended."""
    if exit_code() is None:
        session.stop()
    else:
        _forget_ended()


def _has_stopped(context: SparkContext) -> bool:
    from py4j.protocol import Py4JError

    try:
        return context._jsc is None or bool(context._jsc.sc().isStopped())
    except (Py4JError, OSError):  # it does not answer any more
        return True


def _forget_ended() -> None:
    """Let go of a session that has stopped by itself, or whose JVM has ended, so that another one can be started."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    context, ended = SparkContext._active_spark_context, exit_code() is not None
    stopped = context is not None and not ended and _has_stopped(context)
    if stopped:  # as a JVM without memory does, a moment before its end
        ended = exit_code(_LAST_S) is not None
    if context is not None and (ended or stopped):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # PySpark says that the JVM may have crashed
            with suppress(OSError):  # nor does it take a connection
                context.stop()
            context.stop()  # the rest, which needs no JVM
        SparkSession._instantiatedSession = SparkSession._activeSession = None
    if ended:
        SparkContext._gateway = SparkContext._jvm = None


@contextmanager
def shuffle_partitions(spark: SparkSession, offsets: int) -> Iterator[None]:
    """Inside, shuffles have as many partitions as `offsets` records need; Spark coalesces small ones."""
    key = "spark.sql.shuffle.partitions"
    before = spark.conf.get(key)
    spark.conf.set(key, str(max(int(before or SHUFFLE_PARTITIONS), -(-offsets // SHUFFLED_OFFSETS))))
    try:
        yield
    finally:
        spark.conf.set(key, before or str(SHUFFLE_PARTITIONS))


def start_in_background(
    app_name: str,
    *,
    warm_up: Callable[[SparkSession], object],
    master: str = "local[2]",
    driver_memory: str = "2g",
    long_runs: bool = False,
) -> Future[SparkSession]:
    """Start the session on a thread; `.result()` returns it, or raises what starting raised.

    `warm_up` runs on the new session, so that the JVM has loaded and compiled what the first query needs:
    `drlib.analysis.audit.compare.warm_up` saves a first audit 5 s of CPU.
    """

    def start() -> SparkSession:
        session = spark_session(app_name, master=master, driver_memory=driver_memory, long_runs=long_runs)
        warm_up(session)
        return session

    pool = ThreadPoolExecutor(1, thread_name_prefix="spark-start")
    try:
        return pool.submit(start)
    finally:
        pool.shutdown(wait=False)


def _settings(master: str, driver_memory: str, java: str, connector: tuple[Path, ...]) -> list[tuple[str, str]]:
    settings = [
        *([("spark.jars", ",".join(str(jar) for jar in connector))] if connector else []),
        ("spark.driver.memory", driver_memory),
        ("spark.driver.extraJavaOptions", java),
        ("spark.ui.enabled", "false"),
        ("spark.ui.showConsoleProgress", "false"),
        ("spark.sql.catalogImplementation", "in-memory"),
        ("spark.sql.session.timeZone", "UTC"),
        ("spark.sql.shuffle.partitions", str(SHUFFLE_PARTITIONS)),
    ]
    if master.startswith("local"):
        settings += [("spark.driver.bindAddress", "127.0.0.1"), ("spark.driver.host", "127.0.0.1")]
    return settings


def _java_home() -> Path:
    """The first Java that Spark can run on: that of JAVA_HOME, else the one on the PATH."""
    unsuitable = []
    for java in (Path(os.environ.get("JAVA_HOME", ""), "bin", "java"), Path(which("java") or "")):
        if not java.is_file():
            continue
        banner = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=30, check=False, env=child_environment()
        ).stderr
        major = jars.java_feature_release(banner)
        if major is not None and JAVA_FIRST <= major <= JAVA_LAST:
            return java.resolve().parent.parent
        unsuitable.append(f"{java} is Java {major}")
    raise MissingDependency(
        "Spark needs Java",
        f"it runs on Java {JAVA_FIRST} to {JAVA_LAST}, and {'; '.join(unsuitable) or 'no java was found'}",
        "Install a Java 17 runtime, or set JAVA_HOME to one",
    )


def _set_java_home(home: Path) -> str | None:
    """Point spark-submit at `home`; returns the former JAVA_HOME. PySpark reads the environment only."""
    former = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(home)
    return former


def _restore_java_home(former: str | None) -> None:
    if former is None:
        os.environ.pop("JAVA_HOME", None)
    else:
        os.environ["JAVA_HOME"] = former


def _log_tail(log: BinaryIO) -> str:
    log.seek(0)
    lines = [line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    return " / ".join(lines[-3:])
