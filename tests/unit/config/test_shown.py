"""Only values of keys that are known to hold no secret are shown or sent."""

from __future__ import annotations

import pytest

from drlib.config import keys
from drlib.config.shown import PUBLIC, PUBLIC_SECURITY, PUBLIC_SETTINGS, holds_secret, shown, without_scope
from drlib.kafka.security.java_keys import HONOURED

SECRETS = (
    "sasl.jaas.config",
    "ssl.key.password",
    "ssl.keystore.key",
    "ssl.keystore.password",
    "ssl.keystore.certificate.chain",  # may be followed by the key
    "ssl.truststore.password",
    "sasl.oauthbearer.client.credentials.client.secret",
)
# What other tools, plugins and slips of a hand call a secret.
LOOKING_HARMLESS = (
    *SECRETS,
    "ssl.keystore.pasword", "ssl.keystore.passwort", "ssl.keystore.pwd", "ssl.keystorepassword", "ssl.key.pass",
    "sasl.jaas.confg", "sasl.jaas", "sasl.plain.user", "sasl.username", "sasl.password", "sasl.oauthbearer.config",
    "sasl.kerberos.kinit.cmd", "sasl.oauthbearer.assertion.private.key.passphrase", "sasl.oauthbearer.assertion.file",
    "api.key", "apikey", "access.key", "access_key", "accesskey", "user.info", "basic.auth.user.info", "auth", "auth.header",
    "schema.registry.basic.auth.user.info", "schema.registry.url", "aws.access.key.id", "aws.session", "sas", "sas.url",
    "connection.string", "connection.url", "jdbc.url", "passphrase", "passcode", "pin", "pw", "pass", "otp", "salt",
    "bearer", "jwt", "cookie", "session", "signature", "webhook", "webhook.url", "dsn", "license", "confluent.license",
    "client.key", "key", "value", "keys", "pem", "private", "config", "headers", "response.http.headers.config", "login",
    "PASSWORD", "Ssl.Truststore.Location", "topics.password", "password.topics", "x.topics", "clusters.x", "",
)  # fmt: skip


def test_public_keys_are_those_that_are_used_and_hold_no_secret() -> None:
    assert (
        keys.FLOW_KEYS
        | (keys.TOP_LEVEL_KEYS - {keys.WITNESS_TOKEN})
        | {"bootstrap.servers", "drlib.cluster.id"}
        | {name for names in keys.CLIENT_KEYS.values() for name in names}
        == PUBLIC_SETTINGS
    )
    assert set(SECRETS) == HONOURED - PUBLIC
    assert {name for name in PUBLIC_SECURITY if not keys.is_known(name)} == set()


@pytest.mark.parametrize("name", LOOKING_HARMLESS)
def test_shown_any_other_key_hides_its_value(name: str) -> None:
    assert shown(name, "canary") == "[hidden]"
    assert shown(name, "canary ${env:X}") == "[hidden] ${env:X}"
    assert shown(name, "${file:/etc/s:pw}") == "${file:/etc/s:pw}"
    assert holds_secret(name, "canary")
    assert holds_secret(name, "p${env:X}")
    assert not holds_secret(name, "${env:X}")
    assert not holds_secret(name, "")


@pytest.mark.parametrize("name", sorted(PUBLIC - {"sasl.oauthbearer.jwks.endpoint.url"}))
def test_shown_public_key_shows_its_value(name: str) -> None:
    value = "https://idp/t" if name.endswith("url") else "value, ${env:X}"
    assert shown(name, value) == value
    assert not holds_secret(name, value)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("https://idp:8443/realms/kafka/token", "https://idp:8443/realms/kafka/token"),
        ("${env:URL}", "${env:URL}"),
        ("https://${env:HOST}:8443/token", "https://${env:HOST}:8443/token"),
        ("https://me:canary@idp/token", "[hidden]"),
        ("https://canary@idp/token", "[hidden]"),
        ("https://${env:WHO}:canary@idp/token", "[hidden] ${env:WHO}"),
        ("https://idp/token?key=canary", "https://idp/token"),
        ("https://idp/token#canary", "https://idp/token"),
        ("https://${env:HOST}/token?key=canary", "[hidden] ${env:HOST}"),
        ("canary", "[hidden]"),
    ],
)
def test_shown_endpoint_without_login_and_query(text: str, printed: str) -> None:
    assert shown("sasl.oauthbearer.token.endpoint.url", text) == printed
    assert holds_secret("sasl.oauthbearer.token.endpoint.url", text) == ("canary" in text)


@pytest.mark.parametrize("name", ["bootstrap.servers", "drlib.metrics.address"])
def test_shown_address_with_a_login_is_hidden(name: str) -> None:
    assert shown(name, "me:canary@broker:9092") == "[hidden]"
    assert holds_secret(name, "me:canary@broker:9092")


@pytest.mark.parametrize(
    ("options", "secret"),
    [
        ('username="u" password="${env:P}"', False),
        ('username="u" password="canary"', True),
        ('username="u" password="x${env:P}"', True),
        ('clientId="c" clientSecret="${env:S}" scope="s"', False),
        ('clientId="c" clientsecret="canary"', True),
        ('username="u" password="${env:P}" apiKey="canary"', True),
        ('username="u" password="${env:P}" extension_pool="canary"', True),
        ('unsecuredLoginStringClaim_sub="u"', False),
        ('username="u" pasword="canary"', True),
        ("", False),
        ('"canary', True),
    ],
)
def test_holds_secret_login_by_its_options(options: str, secret: bool) -> None:
    assert holds_secret("sasl.jaas.config", f"org.Module required {options};") is secret


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("topics", "topics"),
        ("A.topics", "topics"),
        ("A->B.topics", "topics"),
        ("A->B.source.consumer.client.id", "source.consumer.client.id"),
        ("A.b.ssl.protocol", "ssl.protocol"),
        ("C.topics", "C.topics"),
        ("A->C.topics", "A->C.topics"),
        ("A.password.topics", "password.topics"),
    ],
)
def test_without_scope_takes_aliases_of_the_file_only(key: str, name: str) -> None:
    assert without_scope(key, ("A", "B", "A.b")) == name
