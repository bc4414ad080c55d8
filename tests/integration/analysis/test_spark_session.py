"""A session in a process of its own: silent, on loopback only, startable again, gone with its process, or refused."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from deadline import Deadline
from repository_root import ROOT

TWICE = """
import contextlib
import sys
from pathlib import Path
from pyspark import SparkContext
from drlib.analysis.audit.compare import warm_up
from drlib.analysis.spark.session import spark_session, start_in_background

first = start_in_background("first", warm_up=warm_up).result()
jvm = SparkContext._gateway.proc.pid
print(first.range(5).count(), jvm)
sockets = set()
for f in Path(f"/proc/{jvm}/fd").iterdir():
    with contextlib.suppress(FileNotFoundError):  # closed meanwhile
        sockets.add(f.readlink().name)
for table, local in (("tcp", {"0100007F"}), ("tcp6", {"0000000000000000FFFF00000100007F", "00000000000000000000000001000000"})):
    for row in Path(f"/proc/{jvm}/net/{table}").read_text().splitlines()[1:]:
        fields = row.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
            address = fields[1].split(":")[0]
            print("loopback" if address in local else f"open to all: {fields[1]}")
first.stop()
with spark_session("second") as second:
    print(second.sparkContext.appName, second.range(7).count())
"""
ONCE = """
import sys
from drlib.analysis.spark.session import spark_session
from drlib.errors import MissingDependency
try:
    spark_session("never")
except MissingDependency as error:
    print(error)
"""


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in environment}
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**kept, **{name: value for name, value in environment.items() if value}},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_spark_session_is_silent_on_loopback_and_ends_with_process() -> None:
    ran = python(TWICE)
    assert (ran.returncode, ran.stderr) == (0, "")
    first, *listening, second = ran.stdout.splitlines()
    count, pid = first.split()
    assert count == "5"
    assert second == "second 7"
    assert set(listening) == {"loopback"}
    deadline = Deadline(20)
    while not gone(int(pid)):
        assert not deadline.passed, "the JVM outlived its process"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (None, "no java was found"),
        ("25.0.1", "is Java 25"),
        ("1.8.0_412", "is Java 8"),
    ],
)
def test_spark_session_unsupported_java_is_refused(tmp_path: Path, version: str | None, message: str) -> None:
    if version:
        java = tmp_path / "bin" / "java"
        java.parent.mkdir()
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2026-01-01' >&2\n")
        java.chmod(0o755)
    ran = python(ONCE, JAVA_HOME=str(tmp_path), PATH="/nowhere")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("Spark needs Java: it runs on Java 17 to 23, and ")
    assert message in ran.stdout
    assert "Install a Java 17 runtime" in ran.stdout


def test_spark_session_failed_jvm_start_shows_log() -> None:
    ran = python(ONCE.replace('"never"', '"never", driver_memory="lots"'))
    assert ran.returncode == 0
    assert ran.stdout.startswith("Spark did not start: ")
    assert "lots" in ran.stdout


def test_spark_session_missing_jars_name_the_install_command(tmp_path: Path) -> None:
    ran = python(ONCE, DRLIB_JARS=str(tmp_path))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "jars of the spark class path are missing" in ran.stdout
    assert "make setup" in ran.stdout


DIES = """
import os
from functools import partial
from pyspark import SparkContext
from drlib.analysis.spark.jobs import SparkEnded, SparkFailed, SparkJobs
from drlib.analysis.spark.session import start_in_background, stop
from drlib.errors import UsageError

start = partial(start_in_background, warm_up=lambda spark: spark.range(1).count())
first = start("first")
jobs = SparkJobs(first)

def dies(spark):
    os.kill(SparkContext._gateway.proc.pid, 9)
    return spark.range(10).count()

def stops(spark):
    spark.sparkContext._jsc.sc().stop()
    return spark.range(10).count()

try:
    jobs.run("orders", dies)
except SparkEnded as error:
    print(error)
stop(first.result())
second = start("second")
jobs = SparkJobs(second)
print(jobs.run("again", lambda spark: spark.range(7).count()))
try:
    jobs.run("payments", stops)
except SparkFailed as error:
    print(error.what)
third = start("third")
print(SparkJobs(third).run("again", lambda spark: spark.range(8).count()))
stop(third.result())
jobs.close()
try:
    jobs.run("closed", lambda spark: spark.range(9).count())
except UsageError as error:
    print(error)
"""


def test_spark_that_ends_by_itself_is_said_and_another_one_starts() -> None:
    ran = python(DIES)
    assert (ran.returncode, ran.stderr) == (0, "")
    ended, again, failed, third, closed = ran.stdout.splitlines()
    assert ended.startswith("Spark ended: orders: its JVM ended by signal 9. Open the analysis again")
    assert (again, failed, third) == ("7", "Spark failed: payments", "8")
    assert closed.startswith("the analysis is closed: close() has stopped it. Open it again")


STARVES = """
from functools import partial
from pyspark.sql import functions as sf
from drlib.analysis.spark.jobs import SparkEnded, SparkJobs
from drlib.analysis.spark.session import start_in_background, stop

start = partial(start_in_background, warm_up=lambda spark: spark.range(1).count(), driver_memory="512m")

def starves(spark):
    return spark.range(4).select(sf.max(sf.repeat(sf.col("id").cast("string"), sf.lit(400_000_000)))).collect()

try:
    SparkJobs(start("first")).run("orders", starves)
except SparkEnded as error:
    print(error)
second = start("second")
print(SparkJobs(second).run("again", lambda spark: spark.range(7).count()))
stop(second.result())
"""


def test_spark_without_memory_says_so_and_another_one_starts() -> None:
    ran = python(STARVES)
    assert (ran.returncode, ran.stderr) == (0, "")
    ended, again = ran.stdout.splitlines()
    assert ended.startswith("Spark ended: orders: its JVM ended with exit code 52 as it ran out of memory. Open")
    assert again == "7"
