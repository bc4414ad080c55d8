"""What is refused by its name or its form, and what is not."""

from __future__ import annotations

import time

import pytest

from drlib.outgoing.credentials import form_of, names_secret


@pytest.mark.parametrize(
    "name",
    """
    password kafkaPassword KAFKA_PASSWORD db_pass pw pin creds auth pager_auth authorization token tokens api_key apiKey APIKey
    spark.authenticate.secret spark.hadoop.fs.s3a.access.key spark.ssl.keyPassword
    x-api-key access_key routing_key webhook slackWebhookUrl jaas_config signature sas_url client_secret cookie jwt
    """.split(),  # noqa: SIM905
)
def test_names_secret_of_a_credential(name: str) -> None:
    assert names_secret(name)


@pytest.mark.parametrize(
    "name",
    """
    run_dir lab_dir properties flow topics topic key record_key group groups force_reason skip_gate master window objective
    password_file spark.authenticate spark.kubernetes.authenticate.submission.oauthTokenFile
    records_per_second rto_seconds tail author authority design signal passes tokenizer bandwidth retention allow histories
    """.split(),  # noqa: SIM905
)
def test_names_secret_of_no_credential(name: str) -> None:
    assert not names_secret(name)


@pytest.mark.parametrize(
    "text",
    [
        "Bearer abc",
        "auth=Bearer abc",
        "curl -H 'Authorization: Basic dXNlcjpwYXNz'",
        "basic dXNlcjpwYXNz",
        "GenieKey 1-2-3",
        "-----BEGIN RSA PRIVATE KEY-----",
        "https://user:pw@h/",
        "https://ghost@h/",
        "see kafka://a:b@h:1",
        "token=hunter2",
        "--api-key=hunter2",
        'password: "hunter2"',
        "jdbc:x?user=a&password=b",
        "scram required username=a password=b;",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln",
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "xoxb-123456789012-abc",
        "https://hooks.slack.com/services/T000/B000/XXXX",
        "https://x.webhook.office.com/webhookb2/a/b",
        "https://discord.com/api/webhooks/1/abc",
        "https://api.telegram.org/bot1:abc/sendMessage",
        "p${env:A}assword=hunter2",
        "${x password=hunter2}",
    ],
)
def test_form_of_a_credential(text: str) -> None:
    form = form_of(text)
    assert form
    assert "hunter2" not in form


@pytest.mark.parametrize(
    "text",
    [
        "",
        "LEFT->RIGHT",
        "local[2]",
        "spark://h:7077,i:7077",
        "k8s://https://h:6443",
        "/run/secrets/kafka.properties",
        "../runs",
        "topic-(auth|pay).*",
        "basic failover drill",
        "LEFT lost its power; see https://status.example.org/incidents/12",
        "no token was lost",
        "Bearer ${env:TOKEN}",
        "Authorization: Bearer ${env:TOKEN}",
        "auth=${env:A}${env:B}",
        "https://${env:USER}:${env:PASSWORD}@h/",
        "token=${file:/run/x:key}",
        "--password-file=/run/secrets/x",
        "--token",
        "author=me",
        "$HOME",
        "24h",
    ],
)
def test_form_of_no_credential(text: str) -> None:
    assert form_of(text) == ""


@pytest.mark.parametrize(
    "part",
    ["-", "a.", "a-", "://:", "://a", "http://", "token ", "bearer ", "${env:", "https://x/", "x" * 64, "eyJaaaaaaaa"],
)
def test_form_of_a_long_text_takes_no_time(part: str) -> None:
    began = time.process_time()
    form_of(part * (100_000 // len(part)))
    assert time.process_time() - began < 5
