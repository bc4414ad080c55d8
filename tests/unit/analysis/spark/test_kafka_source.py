"""What of a cluster's keys is sent to Spark's executors: never a secret, and no key that is not known."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from drlib.analysis.spark import kafka_source
from drlib.analysis.spark.jobs import SparkFailed
from drlib.analysis.spark.kafka_source import PROVIDERS, options
from drlib.config.shown import PUBLIC
from drlib.errors import UsageError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.security.java_keys import HONOURED

REMOTE = (
    "spark://h:7077",
    "spark://127.0.0.1:7077",
    "yarn",
    "k8s://https://h:6443",
    "local-cluster[2,1,1024]",
    "localhost",
    "",
)
LOCAL = ("local", "local[2]", "local[*]", "local[*, 3]")
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
NOT_SENT = (
    "api.key", "access.key", "basic.auth.user.info", "user.info", "auth", "ssl.keystore.pasword", "ssl.keystore.passwrd",
    "sasl.jaas.conf", "sasl.jaas.config.old", "schema.registry.url", "connection.string", "webhook", "sasl.kerberos.kinit.cmd",
    "some.plugin.password", "ssl.truststore.password.old", "SSL.KEYSTORE.PASSWORD", "client.id", "config.providers",
    "config.providers.env.class", "plugin.library.paths", "security.providers", "ssl.engine.factory.class",
)  # fmt: skip


def sent(security: dict[str, str], master: str) -> dict[str, str]:
    return options(ClusterSettings("A", ("h:1", "i:2"), security), master)


@pytest.mark.parametrize("master", [*LOCAL, *REMOTE])
@pytest.mark.parametrize("key", NOT_SENT)
def test_key_that_is_not_known_is_sent_nowhere(master: str, key: str) -> None:
    assert key not in HONOURED
    assert sent({key: "c4n4ry", "security.protocol": "SSL"}, master) == {
        "kafka.bootstrap.servers": "h:1,i:2",
        "kafka.security.protocol": "SSL",
    }


@pytest.mark.parametrize("master", REMOTE)
@pytest.mark.parametrize("key", sorted(HONOURED - PUBLIC))
@pytest.mark.parametrize("text", ["c4n4ry", "${env:DRLIB_TEST_P}c4n4ry", f'{SCRAM} username="u" password="c4n4ry";'])
def test_secret_that_is_written_out_is_refused_on_a_cluster(
    master: str, key: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRLIB_TEST_P", "c4n4ry")
    with pytest.raises(
        UsageError, match=r"A\.\S+ is not sent to Spark's executors.*Write \$\{file:/path:key\}"
    ) as refused:
        sent({key: text}, master)
    assert "c4n4ry" not in str(refused.value)


@pytest.mark.parametrize("master", REMOTE)
def test_reference_is_sent_as_it_is_written_and_resolved_by_kafka(
    master: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DRLIB_TEST_P", "c4n4ry")
    (tmp_path / "s.properties").write_text("key=c4n4ry\n")
    security = {
        "sasl.jaas.config": f'{SCRAM} username="u" password="${{env:DRLIB_TEST_P}}";',
        **dict.fromkeys(HONOURED - PUBLIC - {"sasl.jaas.config"}, f"${{file:{tmp_path}/s.properties:key}}"),
        "sasl.mechanism": "SCRAM-SHA-512",
    }
    made = sent(security, master)
    assert made == {
        "kafka.bootstrap.servers": "h:1,i:2",
        **{f"kafka.{key}": text for key, text in security.items()},
        **PROVIDERS,
    }
    assert "c4n4ry" not in str(made)
    with pytest.raises(UsageError, match="DRLIB_TEST_NONE is not set"):
        sent({"ssl.key.password": "${env:DRLIB_TEST_NONE}"}, master)


@pytest.mark.parametrize("master", LOCAL)
def test_local_master_is_this_process_and_gets_the_values(master: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRLIB_TEST_P", "c4n4ry")
    made = sent({"ssl.key.password": "${env:DRLIB_TEST_P}", "ssl.keystore.password": "written"}, master)
    assert (made["kafka.ssl.key.password"], made["kafka.ssl.keystore.password"]) == ("c4n4ry", "written")
    assert not made.keys() & PROVIDERS.keys()


def test_cluster_without_login_needs_no_provider() -> None:
    assert sent({}, "yarn") == {"kafka.bootstrap.servers": "h:1,i:2"}


def test_failed_login_says_that_executors_resolve_references() -> None:
    error = SparkFailed("audit", "org.apache.kafka.common.errors.SaslAuthenticationException: Authentication failed")
    assert "each of them resolves ${env:NAME}" in error.remedy
    assert "each of them" not in SparkFailed("audit", "java.lang.OutOfMemoryError: Java heap space").remedy


class Reader:
    """Spark's reader, as far as it is told what to read."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def format(self, name: str) -> Reader:
        self.told.append(name)
        return self

    def options(self, **given: str) -> Reader:
        self.told.append(given)
        return self


@pytest.mark.parametrize(("master", "value"), [("local[2]", "c4n4ry"), ("spark://h:7077", "${env:DRLIB_TEST_P}")])
def test_readers_get_what_the_sessions_master_may_have(
    master: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRLIB_TEST_P", "c4n4ry")
    reader = Reader()
    spark = SimpleNamespace(read=reader, readStream=reader, sparkContext=SimpleNamespace(master=master))
    settings = ClusterSettings("A", ("h:1",), {"ssl.key.password": "${env:DRLIB_TEST_P}"})
    assert kafka_source.read(spark, settings) is reader
    assert kafka_source.read_stream(spark, settings) is reader
    first, options_, *again = reader.told
    assert (first, again) == ("kafka", ["kafka", options_])
    assert isinstance(options_, dict)
    assert options_["kafka.ssl.key.password"] == value
