"""A file explained: every value that counts, its line, its meaning, and no secret."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from drlib.config import keys
from drlib.config.explain import WHOLE_FILE, Effective, Explanation, explain
from drlib.config.flow_settings import Scope
from drlib.errors import UsageError

FILE = """clusters = LEFT, RIGHT
LEFT.bootstrap.servers = 127.0.0.1:19092
RIGHT.bootstrap.servers = 127.0.0.1:19094
LEFT->RIGHT.enabled = true
topics = ${env:DRLIB_TEST_NOT_SET}, pay
LEFT->RIGHT.drlib.lanes = 7
RIGHT.drlib.lanes = 5
LEFT.ssl.key.password = hush
LEFT.sasl.jaas.config = Login required username="hush" password="${env:DRLIB_TEST_NOT_SET}";
LEFT.consumer.client.id = mirror
LEFT->RIGHT.consumer.client.id = other
tasks.max = 4
some.plugin.password = hush
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mm2.properties"
    path.write_text(FILE)
    return path


def only(found: Explanation, scope: str, key: str) -> Effective:
    (value,) = [value for value in found.values if (value.scope, value.key) == (scope, key)]
    return value


def test_explain_names_no_other_place_where_providers_have_names_of_their_own(file: Path) -> None:
    provider = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    file.write_text(f"{FILE}config.providers = vault\nconfig.providers.vault.class = {provider}\n")
    found = explain(file)
    assert only(found, "RIGHT", "bootstrap.servers").overridden == ()
    assert only(found, "LEFT->RIGHT", "drlib.lanes").overridden == ("line 7: RIGHT.drlib.lanes = 5",)


def test_explain_value_has_its_line_or_is_a_default(file: Path) -> None:
    found = explain(file)
    lanes = only(found, "LEFT->RIGHT", "drlib.lanes")
    assert (lanes.value, lanes.line, lanes.written) == ("7", 6, "LEFT->RIGHT.drlib.lanes")
    assert lanes.overridden == ("line 7: RIGHT.drlib.lanes = 5",)
    assert (only(found, "RIGHT->LEFT", "drlib.lanes").value, only(found, "RIGHT->LEFT", "drlib.lanes").line) == ("5", 7)
    retention = only(found, "LEFT->RIGHT", "offset.lag.max")
    assert (retention.value, retention.line, retention.written) == ("100", 0, "")
    fetch = only(found, "LEFT->RIGHT", "source.consumer.client.id")
    assert (fetch.value, fetch.line) == ("mirror", 10)
    assert fetch.overridden == ("line 11: LEFT->RIGHT.consumer.client.id = other",)
    assert only(found, "LEFT->RIGHT", "enabled").value == "true"
    assert only(found, "RIGHT->LEFT", "enabled").value == "false"
    assert only(found, "RIGHT", "bootstrap.servers").value == "127.0.0.1:19094"


def test_explain_lists_every_key_once_per_scope(file: Path) -> None:
    found = explain(file)
    for scope in ("LEFT->RIGHT", "RIGHT->LEFT"):
        listed = [value.key for value in found.values if value.scope == scope]
        assert len(set(listed)) == len(listed)
        assert set(listed) >= keys.FLOW_KEYS
        assert {k.removeprefix("source.consumer.") for k in listed} >= keys.CLIENT_KEYS[Scope.CONSUMER]
        assert {k.removeprefix("producer.override.") for k in listed} >= keys.CLIENT_KEYS[Scope.PRODUCER]
    assert [value.key for value in found.values if not value.meaning] == []


def test_explain_shows_references_and_hides_secrets(file: Path) -> None:
    found = explain(file)
    assert only(found, "LEFT->RIGHT", "topics").value == "${env:DRLIB_TEST_NOT_SET}, pay"
    assert only(found, "LEFT", "ssl.key.password").value == "[hidden]"
    assert only(found, "LEFT", "sasl.jaas.config").value == "[hidden] ${env:DRLIB_TEST_NOT_SET}"
    assert "hush" not in str(found)


def test_explain_has_the_keys_of_the_whole_file_set_or_not(file: Path) -> None:
    file.write_text(f"{FILE}drlib.witness.token = ${{env:DRLIB_TEST_NOT_SET}}\n")
    (clusters,) = explain(file, "clusters").values
    assert (clusters.scope, clusters.value, clusters.line) == (WHOLE_FILE, "LEFT, RIGHT", 1)
    (token,) = explain(file, "drlib.witness.token").values
    assert token.value == "${env:DRLIB_TEST_NOT_SET}"
    assert [each.line for each in explain(file, "drlib.witness.ca").values] == [0]
    assert {each.key for each in explain(file).values if each.scope == WHOLE_FILE} == keys.TOP_LEVEL_KEYS


def test_explain_key_lists_every_place_where_it_counts(file: Path) -> None:
    assert {v.scope for v in explain(file, "topics").values} == {"LEFT->RIGHT", "RIGHT->LEFT"}
    assert [v.scope for v in explain(file, "LEFT->RIGHT.topics").values] == ["LEFT->RIGHT"]
    assert {v.key for v in explain(file, "client.id").values} == {
        "source.consumer.client.id",
        "producer.override.client.id",
    }
    assert [v.scope for v in explain(file, "LEFT.consumer.client.id").values] == ["LEFT->RIGHT"]
    assert [n.line for n in explain(file, "tasks.max").notices] == [12]
    (linger,) = explain(file, "linger.ms").notices
    assert linger.line == 0
    assert "as the source holds them" in linger.text
    (placed,) = explain(file, "LEFT.offset.lag.max").notices
    assert "never under a cluster" in placed.text


def test_explain_unknown_key_is_refused(file: Path) -> None:
    with pytest.raises(UsageError, match="Did you mean topics"):
        explain(file, "topic")
    with pytest.raises(UsageError, match="Leave the key out"):
        explain(file, "weather")


def test_config_explain_command_prints_a_table_and_json(file: Path) -> None:
    def drlib(*arguments: str) -> str:
        command = [sys.executable, "-m", "drlib.cli", "config", "explain", str(file), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    table = drlib()
    assert "line 6: LEFT->RIGHT.drlib.lanes" in table
    assert "Not enabled: RIGHT->LEFT" in table
    assert "hush" not in table
    document = json.loads(drlib("--json"))
    assert document["enabled_flows"] == ["LEFT->RIGHT"]
    found = {(v["scope"], v["key"]): v for v in document["values"]}
    assert found["LEFT->RIGHT", "drlib.lanes"]["origin"] == f"{file}:6"
    assert found["RIGHT->LEFT", "topics.exclude"]["origin"] == "default"
    assert {n["key"] for n in document["notices"]} >= {"tasks.max", "some.plugin.password"}
    assert "hush" not in json.dumps(document)
