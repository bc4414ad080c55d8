"""Decisions on workers on Spark."""

from __future__ import annotations

import pytest

from drlib.errors import Aborted, DrlibError, MissingDependency, Unreachable, UsageError
from drlib.mirror.spark import rules

MIB = 1 << 20


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]", "local[2, 3]", "yarn", "k8s://https://h:443"])
def test_addresses_of_other_masters_is_empty(master: str) -> None:
    assert rules.addresses(master) == ()


def test_addresses_of_standalone_masters() -> None:
    assert rules.addresses("spark://one:7077,two:7078") == (("one", 7077), ("two", 7078))
    assert rules.addresses("spark://[::1]:7077") == (("::1", 7077),)
    assert rules.addresses("spark://one:1,two:65535") == (("one", 1), ("two", 65535))


@pytest.mark.parametrize(
    "master",
    [
        *("", "locals", "local[x]", "spark://", "spark://one", "spark://one:0", "http://h:1", "spark://:7077"),
        *("spark://one:65536", "spark://one:7077,", "spark://one:x", "spark://one:\u0664", "spark://7077"),
    ],
)
def test_addresses_invalid_master_is_refused(master: str) -> None:
    with pytest.raises(UsageError, match="is no Spark master"):
        rules.addresses(master)


def test_settings_memory_for_every_worker_and_given_settings_override() -> None:
    found = rules.settings("spark://h:1", 3, 256 * MIB, {"spark.executor.cores": "2"}, "/code")
    assert found["spark.executor.memoryOverhead"] == f"{384 + 2 * 256}m"
    assert (found["spark.cores.max"], found["spark.executorEnv.PYTHONPATH"]) == ("3", "/code")
    own = rules.settings(
        "spark://h:1", 3, 256 * MIB, {"spark.cores.max": "8", "spark.executor.memoryOverhead": "9m"}, ""
    )
    assert (own["spark.cores.max"], own["spark.executor.memoryOverhead"]) == ("8", "9m")
    assert "spark.executorEnv.PYTHONPATH" not in own
    assert "spark.cores.max" not in rules.settings("yarn", 3, 256 * MIB, {}, "")


@pytest.mark.parametrize(
    ("memory", "cores", "overhead"),
    [(256 * MIB, None, 384 + 256), (MIB, "1", 384 + 1), (MIB + 1, "3", 384 + 3 * 2), (MIB, "all", 384 + 1)],
)
def test_settings_overhead_holds_a_worker_for_each_core(memory: int, cores: str | None, overhead: int) -> None:
    """Whole MiB, rounded up: YARN kills a container that takes more."""
    found = rules.settings("yarn", 1, memory, {} if cores is None else {"spark.executor.cores": cores}, "")
    assert (found["spark.executor.memoryOverhead"], found["spark.executor.memory"]) == (f"{overhead}m", "512m")


def test_parse_settings_invalid_pair_is_refused_without_its_value() -> None:
    assert rules.parse_settings(["spark.a=b=c"]) == {"spark.a": "b=c"}
    for wrong in ("spark.a", "kafka.a=hunter2", "=hunter2"):
        with pytest.raises(UsageError) as refused:
            rules.parse_settings([wrong])
        assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "pair",
    [
        "spark.authenticate.secret=hunter2",
        "spark.ssl.keyPassword=hunter2",
        "spark.ssl.keyPassword=${env:P}hunter2",
        "spark.hadoop.fs.s3a.access.key=hunter2",
        "spark.executorEnv.KAFKA_PASSWORD=hunter2",
        "spark.driver.extraJavaOptions=-Dpassword=hunter2",
        "spark.jars=https://me:hunter2@h/x.jar",
    ],
)
def test_parse_settings_secret_on_the_command_line_is_refused(pair: str) -> None:
    with pytest.raises(UsageError, match=r"every user of this machine.*\$\{env:NAME\}") as refused:
        rules.parse_settings([pair])
    assert "hunter2" not in str(refused.value)


def test_parse_settings_reference_is_for_what_spark_itself_hides() -> None:
    given = {"spark.authenticate.secret": "${env:S}", "spark.ssl.keyStorePassword": "${file:/run/x:key}"}
    assert rules.parse_settings([f"{key}={text}" for key, text in given.items()]) == given
    assert rules.parse_settings(["spark.kubernetes.authenticate.submission.oauthTokenFile=/run/t"])
    for key in ("spark.executorEnv.X", "spark.app.name", "spark.executorEnv.API_KEY"):
        with pytest.raises(UsageError, match="Spark shows the values of this setting"):
            rules.parse_settings([f"{key}=${{env:S}}"])


AUTHENTICATED = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}


@pytest.mark.parametrize(
    ("master", "given", "effective"),
    [
        ("local", {}, {}),
        ("local[*]", {}, {}),
        ("spark://127.0.0.1:7077", {}, {}),
        ("spark://localhost:7077,[::1]:7078", {}, {}),
        ("spark://h:7077", {}, AUTHENTICATED),
        ("yarn", {}, {"spark.authenticate": "TRUE", "spark.ssl.rpc.enabled": " true "}),
        ("k8s://https://h:443", {"spark.authenticate": "false"}, {}),
    ],
)
def test_refuse_open_connections_takes_those_that_are_closed(
    master: str, given: dict[str, str], effective: dict[str, str]
) -> None:
    rules.refuse_open_connections(master, given, effective)


@pytest.mark.parametrize(
    ("master", "given", "effective"),
    [
        ("spark://h:7077", {}, {}),
        ("spark://127.0.0.1:7077,h:7077", {}, {}),
        ("yarn", {}, {"spark.authenticate": "true"}),
        ("yarn", {}, {"spark.network.crypto.enabled": "true"}),
        ("yarn", AUTHENTICATED, {}),  # what was asked for is not what there is
        ("k8s://https://127.0.0.1:443", {}, {"spark.authenticate": "false"}),  # the installation's, not the operator's
        ("spark://h:7077", {"spark.authenticate": "no"}, {}),
    ],
)
def test_refuse_open_connections_refuses_those_that_are_not(
    master: str, given: dict[str, str], effective: dict[str, str]
) -> None:
    with pytest.raises(UsageError, match=r"are open to others.*--spark-conf spark\.authenticate=false\."):
        rules.refuse_open_connections(master, given, effective)


def test_advertised_address_replaces_a_wildcard_host() -> None:
    assert rules.advertised_address("0.0.0.0:0", "10.1.2.3") == "10.1.2.3:0"
    assert rules.advertised_address("[::]:9464", "fd00::1") == "[fd00::1]:9464"
    assert rules.advertised_address("127.0.0.1:0", "10.1.2.3") == "127.0.0.1:0"


@pytest.mark.parametrize(
    ("code", "retriable", "ran", "restart"),
    [(0, False, True, True), (11, True, True, True), (11, True, False, False), (2, False, True, False)],
)
def test_should_restart_only_after_running_and_retriable(code: int, retriable: bool, ran: bool, restart: bool) -> None:
    assert rules.should_restart(code, retriable, ran) is restart


def test_restart_pause_s_grows_to_a_limit() -> None:
    assert [rules.restart_pause_s(times) for times in (1, 2, 3, 5, 6, 9)] == [1.0, 2.0, 4.0, 16.0, 30.0, 30.0]


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("", "it gave no reason"),
        ("\n \tat org.apache.X\n", "it gave no reason"),
        ("first\nsecond\nlast. \n\tat org.apache.X\n\n", "last"),
        ("java.io.IOException: one\nCaused by: java.lang.OutOfMemoryError: two. \n\tat y\nlast", "two"),
        ("java.io.IOException: one\nCaused by: a.BError: two\nCaused by: c.DException: three", "three"),
    ],
)
def test_cause_of_is_the_last_exception_or_line(text: str, cause: str) -> None:
    assert rules.cause_of(text) == cause


def test_explain_failure_by_our_own_error_is_the_last_one() -> None:
    text = "drlib.errors.Unreachable: one\ndrlib.errors.UsageError: two\ndrlib.errors.Aborted: three. Do it. "
    assert rules.explain_failure("it failed", text).why == "three. Do it"


@pytest.mark.parametrize(
    ("text", "kind", "why"),
    [
        ("x\nModuleNotFoundError: No module named 'drlib'\n\tat org", MissingDependency, "have no|has no module drlib"),
        ("pyspark.errors: [PYTHON_VERSION_MISMATCH] Python in", MissingDependency, "another Python version"),
        ('java.io.IOException: Cannot run program "/x/python"', MissingDependency, "no Python of that path"),
        ("Job 3 cancelled because SparkContext was shut down", Unreachable, "Spark ended the application"),
        ("Job 3 cancelled part of cancelled job group g", Aborted, "was cancelled"),
        (
            "x\ndrlib.errors.Unreachable: the executor cannot: refused. Set it.\n\tat y",
            DrlibError,
            "the executor cannot",
        ),
        ("An error\n: org.apache.spark.SparkException: Executor lost.\n\tat y", DrlibError, "Executor lost"),
    ],
)
def test_explain_failure_names_the_cause(text: str, kind: type[DrlibError], why: str) -> None:
    with pytest.raises(kind, match=why):
        raise rules.explain_failure("worker 1 of 1 could not run on Spark", text)
