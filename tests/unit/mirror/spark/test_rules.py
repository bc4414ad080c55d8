"""What is decided of workers on Spark, what of a file travels, and what a person gets for a slip."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from repository_root import ROOT

from drlib.errors import Aborted, DrlibError, MissingDependency, Unreachable, UsageError
from drlib.kafka.java_formats.properties import parse
from drlib.mirror.spark import rules
from drlib.mirror.spark.shippable_config import secrets_in

MIB = 1 << 20


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2, 3]", "yarn", "k8s://https://h:443"])
def test_masters_that_are_found_in_another_way_have_no_address(master: str) -> None:
    assert rules.addresses(master) == ()


def test_a_standalone_master_has_an_address_or_several() -> None:
    assert rules.addresses("spark://one:7077,two:7078") == (("one", 7077), ("two", 7078))
    assert rules.addresses("spark://[::1]:7077") == (("::1", 7077),)


@pytest.mark.parametrize("master", ["", "locals", "local[x]", "spark://", "spark://one", "spark://one:0", "http://h:1"])
def test_what_is_no_master_is_refused(master: str) -> None:
    with pytest.raises(UsageError, match="is no master of Spark"):
        rules.addresses(master)


def test_settings_leave_room_for_every_worker_of_an_executor_and_a_person_has_the_last_word() -> None:
    found = rules.settings("spark://h:1", 3, 256 * MIB, {"spark.executor.cores": "2"}, "/code")
    assert found["spark.executor.memoryOverhead"] == f"{384 + 2 * 256}m"
    assert (found["spark.cores.max"], found["spark.executorEnv.PYTHONPATH"]) == ("3", "/code")
    own = rules.settings(
        "spark://h:1", 3, 256 * MIB, {"spark.cores.max": "8", "spark.executor.memoryOverhead": "9m"}, ""
    )
    assert (own["spark.cores.max"], own["spark.executor.memoryOverhead"]) == ("8", "9m")
    assert "spark.executorEnv.PYTHONPATH" not in own
    assert "spark.cores.max" not in rules.settings("yarn", 3, 256 * MIB, {}, "")


def test_a_setting_that_is_none_is_refused_and_its_value_is_not_shown() -> None:
    assert rules.parse_settings(["spark.a=b=c"]) == {"spark.a": "b=c"}
    for wrong in ("spark.a", "kafka.a=hunter2", "=hunter2"):
        with pytest.raises(UsageError) as refused:
            rules.parse_settings([wrong])
        assert "hunter2" not in str(refused.value)


def test_a_worker_that_answers_everywhere_says_where_that_is() -> None:
    assert rules.answering_at("0.0.0.0:0", "10.1.2.3") == "10.1.2.3:0"
    assert rules.answering_at("[::]:9464", "fd00::1") == "[fd00::1]:9464"
    assert rules.answering_at("127.0.0.1:0", "10.1.2.3") == "127.0.0.1:0"


@pytest.mark.parametrize(
    ("code", "retriable", "ran", "again"),
    [(0, False, True, True), (11, True, True, True), (11, True, False, False), (2, False, True, False)],
)
def test_only_what_ran_and_may_run_again_is_begun_again(code: int, retriable: bool, ran: bool, again: bool) -> None:
    assert rules.begun_again(code, retriable, ran) is again


def test_the_pause_grows_to_a_limit() -> None:
    assert [rules.pause_s(times) for times in (1, 2, 3, 9)] == [1.0, 2.0, 4.0, 30.0]


@pytest.mark.parametrize(
    ("text", "kind", "why"),
    [
        ("x\nModuleNotFoundError: No module named 'drlib'\n\tat org", MissingDependency, "have no|has no module drlib"),
        ("pyspark.errors: [PYTHON_VERSION_MISMATCH] Python in", MissingDependency, "another Python version"),
        ('java.io.IOException: Cannot run program "/x/python"', MissingDependency, "no Python of that path"),
        ("Job 3 cancelled because SparkContext was shut down", Unreachable, "Spark ended the application"),
        ("Job 3 cancelled part of cancelled job group g", Aborted, "somebody cancelled"),
        (
            "x\ndrlib.errors.Unreachable: the executor cannot: refused. Set it.\n\tat y",
            DrlibError,
            "the executor cannot",
        ),
        ("An error\n: org.apache.spark.SparkException: Executor lost.\n\tat y", DrlibError, "Executor lost"),
    ],
)
def test_a_failed_job_is_told_by_its_cause(text: str, kind: type[DrlibError], why: str) -> None:
    with pytest.raises(kind, match=why):
        raise rules.failure("worker 1 of 1 could not run on Spark", text)


@pytest.mark.parametrize(
    ("line", "home"),
    [
        ("A.ssl.keystore.password = hunter2", True),
        ("A.ssl.keystore.password = ${env:PASSWORD}", False),
        ("A.ssl.keystore.password = ${file:/etc/x:key}", False),
        ("A.ssl.keystore.password = p${env:PASSWORD}", True),
        ('A.sasl.jaas.config = org.Plain required username="u" password="${env:PASSWORD}";', False),
        ('A.sasl.jaas.config = org.Plain required username="u" password="hunter2";', True),
        ("A.sasl.jaas.config = broken hunter2", True),
        ("A.bootstrap.servers = h:1", False),
        ("# password hunter2", False),
    ],
)
def test_a_file_stays_at_home_when_a_secret_stands_in_it(line: str, home: bool) -> None:
    file = parse(f"clusters = A, B\n{line}\n", Path("m.properties"))
    assert bool(secrets_in(file)) is home
    assert "hunter2" not in "".join(secrets_in(file))
    if not home:
        assert "hunter2" not in repr(file)  # comments are no entries


@pytest.fixture
def closed() -> Iterator[int]:
    """A port that nobody listens on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def mirror(file: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "drlib.cli", "mirror", str(file), *arguments]
    env = {**os.environ, **environment}
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mm2.properties"
    path.write_text("clusters = A, B\nA.bootstrap.servers = h:1\nB.bootstrap.servers = h:2\nA->B.enabled = true\n")
    return path


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--spark", "somewhere"), 2, "is no master of Spark"),
        (("--spark", "local[1]", "--status", "s.json"), 2, "--spark and --status do not go together"),
        (("--spark", "local[1]", "--workers", "0"), 2, "one worker or more"),
        (("--spark", "local[1]", "--memory", "1MiB"), 2, "is too little"),
        (("--spark", "local[1]", "--spark-conf", "cores"), 2, "is no setting of Spark"),
        (("--workers", "2"), 2, "are for --spark"),
        (("--spark", "spark://127.0.0.1:{closed}"), 11, "no Spark master answers"),
    ],
)
def test_a_slip_is_told_in_a_sentence(
    file: Path, closed: int, arguments: tuple[str, ...], code: int, words: str
) -> None:
    done = mirror(file, *(word.format(closed=closed) for word in arguments))
    assert done.returncode == code, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("drlib: ")
    assert words in line


def test_without_java_the_command_says_so(file: Path) -> None:
    done = mirror(file, "--spark", "local[1]", "--workers", "2", PATH="/nowhere", JAVA_HOME="/nowhere")
    assert done.returncode == 2, done.stderr
    assert "Spark needs Java" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
