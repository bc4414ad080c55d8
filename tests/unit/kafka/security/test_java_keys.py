"""Java's security keys as one value: stores, logins, defaults, refusals that never quote a secret."""

from __future__ import annotations

from pathlib import Path

import pytest
from repository_root import ROOT

from drlib.errors import UsageError
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.security.credentials import ClientCredentials, Password, Security, Tls, UnsecuredJws
from drlib.kafka.security.java_keys import librdkafka, read
from drlib.outgoing import http_request

PACKAGE = "org.apache.kafka.common.security"
PLAIN = f"{PACKAGE}.plain.PlainLoginModule"
SCRAM = f"{PACKAGE}.scram.ScramLoginModule"
BEARER = f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
KEY = "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n"


def test_read_without_keys_is_plaintext() -> None:
    assert read("LEFT", {}) == Security()
    assert librdkafka(Security()) == {"security.protocol": "PLAINTEXT"}


def test_read_pem_stores_from_file_and_inline(tmp_path: Path) -> None:
    store = tmp_path / "all.pem"
    store.write_text(f"said before\n{KEY}{CERTIFICATE}{CERTIFICATE}")
    keys = {"security.protocol": "ssl", "ssl.truststore.type": "PEM", "ssl.keystore.type": "pem"}
    files = {"ssl.truststore.location": str(store), "ssl.keystore.location": str(store), "ssl.key.password": "hush"}
    inline = {
        "ssl.truststore.certificates": CERTIFICATE,
        "ssl.keystore.key": KEY,
        "ssl.keystore.certificate.chain": CERTIFICATE,
        "ssl.endpoint.identification.algorithm": "",
        "ssl.enabled.protocols": "TLSv1.3",
    }
    both = CERTIFICATE + CERTIFICATE
    assert read("LEFT", {**keys, **files}).tls == Tls(both, both, KEY, "hush")
    found = read("LEFT", {**keys, **inline})
    assert found.tls == Tls(CERTIFICATE, CERTIFICATE, KEY, "", False, ("TLSv1.3",))
    assert librdkafka(found) == {
        "security.protocol": "SSL",
        "ssl.endpoint.identification.algorithm": "none",
        "ssl.ca.pem": CERTIFICATE,
        "ssl.certificate.pem": CERTIFICATE,
        "ssl.key.pem": KEY,
        "ssl.cipher.suites": "PSK-AES256-GCM-SHA384",
    }
    assert "MII" not in repr(found)
    assert "hush" not in repr(read("LEFT", {**keys, **files}))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_read_user_and_password_by_reference(mechanism: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("word = hush\n")
    monkeypatch.setenv("DRLIB_TEST_USER", "alice")
    keys = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{SCRAM} required username="${{env:DRLIB_TEST_USER}}" password="${{file:{secrets}:word}}";',
    }
    found = read("LEFT", keys)
    assert found.sasl == Password(mechanism, "alice", "hush")  # type: ignore[arg-type]
    assert found.mechanism == mechanism
    assert "hush" not in repr(found)
    assert librdkafka(found) == {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": "hush",
    }
    monkeypatch.delenv("DRLIB_TEST_USER")
    with pytest.raises(UsageError, match="DRLIB_TEST_USER is not set"):  # looked up at each use
        ClusterSettings("LEFT", ("h:1",), keys).connection()


def test_read_bearer_tokens_unsecured_and_from_endpoint() -> None:
    keys = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
    unsecured = (
        f'{BEARER} required unsecuredLoginStringClaim_sub="alice" unsecuredLoginNumberClaim_n="2" '
        'unsecuredLoginListClaim_scope="|a|b" unsecuredLoginLifetimeSeconds="60" unsecuredLoginExtension_trace="7";'
    )
    found = read("LEFT", {**keys, "sasl.jaas.config": unsecured}).sasl
    assert found == UnsecuredJws({"sub": "alice", "n": 2.0, "scope": ("a", "b")}, "sub", 60.0, {"trace": "7"})
    endpoint = {
        "sasl.jaas.config": f'{BEARER} required clientId="me" clientSecret="hush" scope="all" extension_pool="x";',
        "sasl.login.callback.handler.class": f"{PACKAGE}.oauthbearer.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": "https://id.example/token",
    }
    credentials = read("LEFT", {**keys, **endpoint})
    assert credentials.sasl == ClientCredentials(
        http_request.parse("https://id.example/token"), "me", "hush", "all", False, {"pool": "x"}
    )
    assert "hush" not in repr(credentials)
    assert callable(librdkafka(credentials)["oauth_cb"])


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"security.protocol": "TLS"}, "Kafka has PLAINTEXT"),
        ({"security.protocol": "SASL_SSL"}, "GSSAPI"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM"}, "which drlib does not run"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, "it is not set"),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{BEARER} required;"}, "not one for PLAIN"),
        ({"sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{PLAIN} required username=a;"}, "username and password"),
        (
            {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{PLAIN} required username=a password='${{env:NONE_X}}';"},
            "NONE_X is not set",
        ),
        (
            {
                "sasl.mechanism": "SCRAM-SHA-256",
                "sasl.jaas.config": f"{SCRAM} required username=a password=hush tokenauth=true;",
            },
            "delegation tokens",
        ),
        ({"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": f"{BEARER} required;"}, "string claim sub"),
        (
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": f"{BEARER} required clientId=a clientSecret=hush;",
                "sasl.login.callback.handler.class": "com.example.Handler",
            },
            "not one of Kafka's own",
        ),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "ldaps"}, "only algorithm is https"),
        ({"security.protocol": "SSL", "ssl.truststore.type": "BCFKS"}, "none of PEM, PKCS12, JKS"),
        ({"security.protocol": "SSL", "ssl.truststore.location": "/no/such.p12"}, "No such file"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.1"}, "only TLSv1.2"),
        ({"security.protocol": "SSL", "ssl.truststore.certificates": CERTIFICATE}, "type is JKS"),
    ],
)
def test_read_invalid_key_is_refused_by_name(keys: dict[str, str], why: str) -> None:
    with pytest.raises(UsageError) as refused:
        read("LEFT", {"security.protocol": "SASL_PLAINTEXT", **keys})
    assert why in str(refused.value)
    assert "LEFT." in refused.value.what
    assert "hush" not in str(refused.value)


def test_read_store_of_another_type_names_the_conversion(tmp_path: Path) -> None:
    jks, jceks, pem = (tmp_path / f"trust.{ending}" for ending in ("jks", "jceks", "pem"))
    jks.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    jceks.write_bytes(b"\xce\xce\xce\xce\0\0\0\2")
    pem.write_text(CERTIFICATE)
    keys = {"security.protocol": "SSL", "ssl.truststore.password": "hush"}
    with pytest.raises(UsageError, match="keytool -importkeystore") as refused:
        read("LEFT", {**keys, "ssl.truststore.location": str(jceks)})
    assert "hush" not in str(refused.value)
    with pytest.raises(UsageError, match="damaged") as refused:
        read("LEFT", {**keys, "ssl.truststore.location": str(jks)})
    assert "hush" not in str(refused.value)
    with pytest.raises(UsageError, match="Set its type to PEM"):
        read("LEFT", {**keys, "ssl.truststore.location": str(pem), "ssl.truststore.type": "PKCS12"})
    with pytest.raises(UsageError, match="is not PEM"):
        read("LEFT", {**keys, "ssl.truststore.location": str(jks), "ssl.truststore.type": "PEM"})


def test_every_connection_is_made_with_the_clusters_security() -> None:
    """Code that builds a client from settings by hand forgets TLS and logins sooner or later."""
    package = ROOT / "drlib"
    makers = {str(path.relative_to(package)) for path in package.rglob("*.py") if " ClusterClient(" in path.read_text()}
    assert makers == {"kafka/admin/connect.py"}
