"""Values of parameters that are written into executed notebooks, and those that are refused."""

from __future__ import annotations

import pytest

from drlib.errors import UsageError
from drlib.runbook.file.written_values import refuse_secret


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(
            (name, "c4n4ry")
            for name in ("password", "auth", "pager_auth", "apiKey", "routing_key", "webhook_url", "db_pass")
        ),
        ("label", "Bearer c4n4ry"),
        ("auth", "Bearer c4n4ry"),
        ("label", "auth=Bearer c4n4ry"),
        ("label", "basic c4n4ry"),
        ("label", "token: c4n4ry"),
        ("label", "--api-key=c4n4ry"),
        ("label", "https://me:c4n4ry@h/"),
        ("label", "https://c4n4ry@h"),
        ("label", "kafka://me:c4n4ry@h:9092"),
        ("label", "https://h/c4n4ry"),
        ("label", "https://h?c4n4ry"),
        ("label", " HTTPS://h/#c4n4ry"),
        ("label", "https://h c4n4ry"),
        ("label", "eyJhbGciOiJIUzI1NiJ9.c4n4ry"),
        ("label", "-----BEGIN PRIVATE KEY-----c4n4ry"),
        ("password", "c4n4ry${env:PASSWORD}"),
        ("password", "${env:PASSWORD}c4n4ry"),
        ("password", "${vault:path:c4n4ry} x"),
        ("password", "env:PASS WORD=c4n4ry"),
        ("password", "file:c4n4ry"),
    ],
)
def test_value_that_may_be_a_secret_is_refused_without_quoting_it(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=r"looks like a secret.*Give a reference.*\$\{env:NAME\}") as refused:
        refuse_secret(name, value)
    assert "c4n4ry" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("password", ""),
        ("password", "${env:PASSWORD}"),
        ("password", "${file:/run/secrets.properties:password}"),
        ("login", "${env:USER}${env:PASSWORD}"),
        ("auth", "Bearer ${env:TOKEN}"),
        ("password", "env:PASSWORD"),
        ("password", "file:/run/secrets/kafka"),
        ("token", 7),
        ("tokens", None),
        ("label", "x"),
        ("label", "https://h:8443"),
        ("label", "https://h/"),
        ("master", "spark://h:7077,i:7077"),
        ("master", "k8s://https://h:6443"),
        ("properties", "/etc/drlib/mm2.properties"),
        ("flow", "LEFT->RIGHT"),
        ("force_reason", "LEFT lost its power, see https://status.example.org/incidents/12"),
        ("groups", "orders-(auth|pay).*"),
    ],
)
def test_value_that_is_no_secret_is_taken(name: str, value: object) -> None:
    refuse_secret(name, value)


def test_value_that_is_the_notebooks_own_is_taken() -> None:
    refuse_secret("auth", "SCRAM-SHA-512", "SCRAM-SHA-512")
    with pytest.raises(UsageError):
        refuse_secret("auth", "SCRAM-SHA-512", "PLAIN")
