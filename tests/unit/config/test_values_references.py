"""No error about a file quotes what a reference stands for: it quotes the reference."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from drlib.config import keys
from drlib.config.explain import explain
from drlib.config.settings import load_client_file, load_mirror_settings
from drlib.errors import DrlibError, UsageError
from drlib.kafka.java_formats import references
from drlib.kafka.security.java_keys import HONOURED

HEAD = {
    "clusters": "LEFT, RIGHT",
    "LEFT.bootstrap.servers": "127.0.0.1:19092",
    "RIGHT.bootstrap.servers": "127.0.0.1:19093",
    "LEFT->RIGHT.enabled": "true",
}
SECURED = {
    "LEFT.security.protocol": "SASL_SSL",
    "LEFT.sasl.mechanism": "OAUTHBEARER",
    "LEFT.sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId=a "
    "clientSecret=b;",
    "LEFT.sasl.oauthbearer.token.endpoint.url": "https://idp/t",
    "LEFT.ssl.truststore.location": "/nowhere",
    "LEFT.ssl.keystore.location": "/nowhere",
}
VALUES = (
    "canary",
    "(canary",
    "canary[",
    "canary{",
    "(canary|canary)+*",
    "-7canary",
    "canary@h:1",
    "canary canary",
    "canary\0",
)
FLOW_KEYS = sorted(keys.FLOW_KEYS | {key for each in keys.CLIENT_KEYS.values() for key in each})


def errors(path: Path, written: dict[str, str], monkeypatch: pytest.MonkeyPatch, value: str) -> str:
    """Everything that loading, explaining and connecting says of a file with `${env:...}`, and `${file:...}`, for `value`."""
    secrets = path.with_name("secrets.properties")
    secrets.write_text("key = " + value.replace("\0", "\\u0000"))
    if "\0" not in value:
        monkeypatch.setenv("DRLIB_TEST_CANARY", value)
    references = [f"${{file:{secrets}:key}}", *(["${env:DRLIB_TEST_CANARY}"] if "\0" not in value else [])]
    said = []
    for reference in references:
        path.write_text("".join(f"{key} = {text.replace('REFERENCE', reference)}\n" for key, text in written.items()))
        for read in (load_mirror_settings, load_client_file, explain):
            try:
                read(path)
            except DrlibError as error:
                said += [str(error), repr(error), repr(error.__cause__ or "")]
        with contextlib.suppress(DrlibError):
            for cluster in load_mirror_settings(path).clusters.values():
                try:
                    cluster.connection()
                except DrlibError as error:
                    said += [str(error), repr(error), repr(error.__cause__ or "")]
    return "\n".join(said)


@pytest.mark.parametrize("key", FLOW_KEYS)
def test_error_about_a_flows_key_quotes_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    scopes = ("", "LEFT->RIGHT.", "RIGHT.", "LEFT.consumer.", "RIGHT.producer.")
    for value in VALUES:
        written = {**HEAD, **{f"{scope}{key}": "REFERENCE" for scope in scopes}}
        assert "canary" not in errors(tmp_path / "mm2.properties", written, monkeypatch, value).lower().replace(
            "drlib_test_canary", ""
        )


@pytest.mark.parametrize("key", sorted(HONOURED | {"bootstrap.servers", "drlib.cluster.id"}))
def test_error_about_a_clusters_key_quotes_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    for value in VALUES:
        written = {**HEAD, **SECURED, f"LEFT.{key}": "REFERENCE"}
        assert "canary" not in errors(tmp_path / "mm2.properties", written, monkeypatch, value).lower().replace(
            "drlib_test_canary", ""
        )


def test_error_about_a_shared_address_or_an_alias_quotes_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = {**HEAD, "LEFT.bootstrap.servers": "REFERENCE", "RIGHT.bootstrap.servers": "REFERENCE"}
    met = errors(tmp_path / "mm2.properties", shared, monkeypatch, "canary:9092")
    assert "have the same address" in met
    assert "canary:9092" not in met
    met = errors(tmp_path / "mm2.properties", {**HEAD, "clusters": "REFERENCE"}, monkeypatch, "LEFT, canary alias")
    assert "cannot be part of a topic name" in met
    assert "canary alias" not in met


def test_error_about_a_pattern_by_reference_names_key_and_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRLIB_TEST_PATTERN", "(canary")
    path = tmp_path / "mm2.properties"
    path.write_text(
        "".join(f"{key} = {value}\n" for key, value in {**HEAD, "topics": "${env:DRLIB_TEST_PATTERN}"}.items())
    )
    with pytest.raises(DrlibError) as met:
        load_mirror_settings(path)
    assert f"{path}:5: topics = ${{env:DRLIB_TEST_PATTERN}} cannot be used" in str(met.value)
    assert "canary" not in str(met.value)


def test_environment_variable_that_is_not_utf8_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "DRLIB_TEST_BYTES", "canary\udcff")
    with pytest.raises(
        UsageError, match=r"\$\{env:DRLIB_TEST_BYTES\} cannot be used: its value is not UTF-8"
    ) as refused:
        references.resolve("${env:DRLIB_TEST_BYTES}", "x")
    assert "canary" not in str(refused.value)
