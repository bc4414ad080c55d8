"""The token endpoint: the client's secret reaches it and nothing else, and no error holds a secret."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from testbed_http import HttpServer, http_server

from drlib.errors import DrlibError, Unreachable, UsageError
from drlib.kafka.security import oauth
from drlib.kafka.security.credentials import ClientCredentials
from drlib.kafka.security.errors import Fault, SecurityFault
from drlib.kafka.security.java_keys import read
from drlib.lab.brokers.certificates import Authority
from drlib.outgoing import http_request

BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
SECRET, WHO = "canary-of-the-client", "canary-id"


@pytest.fixture
def server() -> Iterator[HttpServer]:
    with http_server() as started:
        yield started


def credentials(url: str) -> ClientCredentials:
    return ClientCredentials(http_request.parse(url), WHO, SECRET)


def refusal(source: ClientCredentials) -> DrlibError:
    with pytest.raises(DrlibError) as met:
        oauth.issue(source)
    assert "canary" not in f"{met.value} {met.value!r}"
    return met.value


def test_issue_token_is_read_from_the_endpoint(server: HttpServer) -> None:
    server.answers["/token?canary"] = (200, {}, json.dumps({"access_token": "t", "expires_in": 60}).encode())
    assert oauth.issue(credentials(server.url("/token?canary"))).value == "t"
    (received,) = server.received
    assert base64.b64decode(received.headers["Authorization"].removeprefix("Basic ")).decode() == f"{WHO}:{SECRET}"
    assert received.body == b"grant_type=client_credentials"


@pytest.mark.parametrize(
    ("answer", "claims", "lifetime"),
    [
        ({"expires_in": 60}, {}, 60),
        ({"expires_in": "60"}, {}, 60),
        ({"expires_in": "soon"}, {}, 3600),
        ({"expires_in": [60]}, {}, 3600),
        ({"expires_in": -1}, {"exp": [1]}, 3600),
        ({"expires_in": True}, {"exp": "x" * 100}, 3600),
        ({}, {"exp": {}, "sub": 7}, 3600),
    ],
)
def test_issue_lifetime_is_a_number_or_the_usual_one(
    server: HttpServer, answer: dict[str, object], claims: dict[str, object], lifetime: float
) -> None:
    part = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode()
    server.answers["/token"] = (200, {}, json.dumps({"access_token": f"a.{part}.", **answer}).encode())
    token = oauth.issue(credentials(server.url("/token")))
    assert token.expires_s - token.issued_s == lifetime


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_issue_redirect_is_refused_and_the_secret_stays(server: HttpServer, status: int) -> None:
    with http_server() as other:
        server.answers["/canary"] = (status, {"Location": other.url("/token")}, b"")
        met = refusal(credentials(server.url("/canary")))
        assert other.received == []
    assert isinstance(met, SecurityFault)
    assert met.fault is Fault.TOKEN_REFUSED
    assert f"{status}, a redirect, which is not followed" in str(met)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, b'{"error": "canary"}', SecurityFault),
        (500, b"canary", SecurityFault),
        (204, b"", SecurityFault),
        (200, b"canary", SecurityFault),
        (200, b'["canary"]', SecurityFault),
        (200, b'{"access_token": 7, "canary": 1}', SecurityFault),
        (200, b'{"access_token": "canary", "expires_in": 1e400}', SecurityFault),
        (200, b'{"access_token": "canary", "access_token": "other"}', SecurityFault),
        (200, b'{"access_token": ' * 10_000, SecurityFault),
        (200, b'{"access_token": "' + b"x" * oauth.MAX_ANSWER + b'"}', Unreachable),
    ],
)
def test_issue_answer_without_token_is_an_error_without_secret(
    server: HttpServer, status: int, body: bytes, kind: type[DrlibError]
) -> None:
    server.answers["/canary"] = (status, {}, body)
    assert isinstance(refusal(credentials(server.url("/canary"))), kind)


def test_issue_endpoint_that_drips_is_unreachable(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oauth, "TIMEOUT_S", 0.3)
    server.answers["/canary"] = (200, {}, None)
    assert "no answer within 0.3 s" in str(refusal(credentials(server.url("/canary"))))


@pytest.mark.parametrize(
    ("url", "more", "why"),
    [
        ("http://id.example/canary", {}, "without encryption"),
        ("http://10.0.0.1/canary", {}, "without encryption"),
        ("http://127.0.0.1.example/canary", {"plain.http": "no"}, "without encryption"),
        ("https://me:canary@id.example/", {}, "holds a login"),
        ("https://canary@id.example/", {"plain.http": "true"}, "holds a login"),
        ("ftp://id.example/canary", {}, "needs http or https"),
        ("https://id.example/canary\n", {}, None),  # a value is stripped as Kafka does
        ("https://id.example/ca nary", {}, "blank"),
        ("http://127.0.0.1/canary", {}, None),
        ("http://[::1]:80/canary", {}, None),
        ("http://id.example/canary", {"plain.http": "true"}, None),
    ],
)
def test_read_token_endpoint_address_is_refused_where_the_secret_would_be_seen(
    monkeypatch: pytest.MonkeyPatch, url: str, more: dict[str, str], why: str | None
) -> None:
    monkeypatch.setenv("DRLIB_TEST_URL", url)
    keys = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f'{BEARER} required clientId="{WHO}" clientSecret="{SECRET}";',
        "sasl.oauthbearer.token.endpoint.url": "${env:DRLIB_TEST_URL}",
        **{f"sasl.oauthbearer.token.endpoint.{name}": value for name, value in more.items()},
    }
    if why is None:
        assert isinstance(read("LEFT", keys).sasl, ClientCredentials)
        return
    with pytest.raises(UsageError, match=why) as refused:
        read("LEFT", keys)
    assert "canary" not in str(refused.value)


def test_issue_trusts_the_authority_that_the_login_module_names_and_says_where_it_is_missing(
    server: HttpServer, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(authority.issue("endpoint"))
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    server.answers["/token"] = (200, {}, json.dumps({"access_token": "t"}).encode())

    def source(options: str) -> ClientCredentials:
        keys = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": server.url("/token").replace("http:", "https:"),
            "sasl.jaas.config": f'{BEARER} required clientId="{WHO}" clientSecret="{SECRET}" {options};',
        }
        sasl = read("LEFT", keys).sasl
        assert isinstance(sasl, ClientCredentials)
        return sasl

    met = refusal(source(""))
    assert isinstance(met, Unreachable)
    assert "ssl.truststore.location" in met.remedy
    trusting = f'ssl.truststore.type=PEM ssl.truststore.location="{authority.certificate}"'
    assert oauth.issue(source(trusting)).value == "t"
    with pytest.raises(UsageError) as refused:
        source(f'ssl.truststore.type=PEM ssl.truststore.location="{tmp_path}/canary.pem"')
    assert "LEFT.sasl.jaas.config.ssl.truststore.location" in str(refused.value)
    assert "canary" not in str(refused.value)
