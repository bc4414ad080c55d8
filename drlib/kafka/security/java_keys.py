"""Read Java's security keys of one cluster as a `Security`, and convert it to librdkafka's configuration.

Rules: names, defaults and meanings are those of Kafka 4.3 (`SslConfigs`, `SaslConfigs`). References are resolved here, just
before a client is made, and their values stay in memory. An error names the key and never quotes its value. Supported keys
are in `HONOURED`; keys that make a client run a command or load code are in `DENIED`.
Not for: Kerberos; delegation tokens; lines of a file (`drlib.config.notices`).
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NoReturn

from drlib.errors import UsageError
from drlib.kafka.java_formats import jaas
from drlib.kafka.java_formats import key_stores as stores
from drlib.kafka.java_formats.references import resolve
from drlib.kafka.security.credentials import (
    ClientCredentials,
    Password,
    Protocol,
    Sasl,
    ScramMechanism,
    Security,
    Tls,
    UnsecuredJws,
)
from drlib.kafka.security.oauth import Tokens
from drlib.kafka.security.tls import VERSIONS
from drlib.outgoing import http_request


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


PLAIN_HTTP: Final = "sasl.oauthbearer.token.endpoint.plain.http"  # drlib's own; Kafka's client takes any http://
HONOURED: Final = _names(
    """
    security.protocol ssl.endpoint.identification.algorithm ssl.enabled.protocols ssl.key.password
    ssl.truststore.location ssl.truststore.type ssl.truststore.password ssl.truststore.certificates
    ssl.keystore.location ssl.keystore.type ssl.keystore.password ssl.keystore.key ssl.keystore.certificate.chain
    sasl.mechanism sasl.jaas.config sasl.login.callback.handler.class sasl.oauthbearer.token.endpoint.url
    sasl.oauthbearer.scope sasl.oauthbearer.header.urlencode sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.token.endpoint.plain.http
    """
)
MSK_MECHANISM: Final = "AWS_MSK_IAM"
MSK_WHY: Final = f"{MSK_MECHANISM} is a mechanism of Amazon's Java library, which drlib does not run"
MSK_REMEDY: Final = (
    "Use another listener of the same cluster, with a user or certificate for drlib: SASL/SCRAM (port 9096, sasl.mechanism = "
    "SCRAM-SHA-512) or TLS (port 9094, security.protocol = SSL); remove the keys of the IAM login."
)
DENIED: Final = _names(
    """
    plugin.library.paths sasl.client.callback.handler.class sasl.kerberos.kinit.cmd sasl.login.class
    sasl.oauthbearer.jwt.retriever.class security.providers ssl.engine.factory.class
    """
)
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_SCRAM: Final[Mapping[str, ScramMechanism]] = {"SCRAM-SHA-256": "SCRAM-SHA-256", "SCRAM-SHA-512": "SCRAM-SHA-512"}
_PACKAGE: Final = "org.apache.kafka.common.security"
_PASSWORD_MODULES: Final = (f"{_PACKAGE}.plain.PlainLoginModule", f"{_PACKAGE}.scram.ScramLoginModule")
_BEARER_MODULE: Final = f"{_PACKAGE}.oauthbearer.OAuthBearerLoginModule"
_ENDPOINT_HANDLERS: Final = (
    f"{_PACKAGE}.oauthbearer.OAuthBearerLoginCallbackHandler",
    f"{_PACKAGE}.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
)
_UNSECURED_HANDLER: Final = f"{_PACKAGE}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"
_EXTENSION_NAME: Final = re.compile(r"[A-Za-z]+")  # RFC 7628; `auth` is the token's own
_EXTENSION_VALUE: Final = re.compile(r"[\x21-\x7e \t\r\n]+")


def read(alias: str, keys: Mapping[str, str]) -> Security:
    """The security of cluster `alias` from its Java keys, values still with references. Raises `UsageError`."""
    cluster = _Keys(alias, keys)
    chosen = protocol(alias, keys)
    return Security(_tls(cluster) if chosen.encrypted else None, _sasl(cluster) if chosen.authenticated else None)


def protocol(alias: str, keys: Mapping[str, str]) -> Protocol:
    """`security.protocol` of cluster `alias`. Raises `UsageError`."""
    cluster = _Keys(alias, keys)
    return protocol_of(cluster.text("security.protocol", "PLAINTEXT"), cluster.where("security.protocol"))


_NO_SUITE_OF_TLS_1_2: Final = "PSK-AES256-GCM-SHA384"  # needs a key that both sides have beforehand: there is none


def protocol_of(text: str, where: str) -> Protocol:
    """Raises `UsageError` for what is not a protocol of Kafka."""
    try:
        return Protocol(text.strip().upper())
    except ValueError:
        known = ", ".join(Protocol)
        raise UsageError(f"{where} is not a protocol", f"Kafka has {known}", f"Write one of {known}.") from None


def librdkafka(security: Security) -> dict[str, object]:
    """`security` as librdkafka's configuration. Bearer tokens are fetched by drlib when librdkafka asks for one.

    librdkafka has no setting for TLS versions. Without TLS 1.2 it gets a list of suites for 1.2 of which none can be agreed on;
    those of 1.3 are a list of their own. Without TLS 1.3 it uses that version nevertheless, where the broker offers it.
    """
    made: dict[str, object] = {"security.protocol": str(security.protocol)}
    if (tls := security.tls) is not None:
        made["ssl.endpoint.identification.algorithm"] = "https" if tls.check_hostname else "none"
        if tls.ca_pem:
            made["ssl.ca.pem"] = tls.ca_pem
        if tls.certificate_pem:
            made |= {"ssl.certificate.pem": tls.certificate_pem, "ssl.key.pem": tls.key_pem}
            if tls.key_password:
                made["ssl.key.password"] = tls.key_password
        if "TLSv1.2" not in tls.protocols:
            made["ssl.cipher.suites"] = _NO_SUITE_OF_TLS_1_2
    if (sasl := security.sasl) is not None:
        made["sasl.mechanism"] = security.mechanism
        if isinstance(sasl, Password):
            made |= {"sasl.username": sasl.username, "sasl.password": sasl.password}
        else:
            made["oauth_cb"] = _token_callback(Tokens(sasl), dict(sasl.extensions))
    return made


def _token_callback(
    tokens: Tokens, extensions: dict[str, str]
) -> Callable[[str], tuple[str, float, str, dict[str, str]]]:
    def fetch(_: str) -> tuple[str, float, str, dict[str, str]]:
        token = tokens.current()
        return token.value, token.expires_s, token.principal, extensions

    return fetch


@dataclass(frozen=True, slots=True)
class _Keys:
    alias: str
    keys: Mapping[str, str]

    def where(self, key: str) -> str:
        return f"{self.alias}.{key}"

    def text(self, key: str, default: str = "") -> str:
        return resolve(self.keys[key], self.where(key)).strip() if key in self.keys else default

    def refuse(self, key: str, why: str, remedy: str) -> NoReturn:
        """Raises `UsageError` for `key` without quoting its value."""
        raise UsageError(f"{self.where(key)} cannot be used", why, remedy)


def _tls(cluster: _Keys) -> Tls:
    algorithm = cluster.text("ssl.endpoint.identification.algorithm", "https").lower()
    if algorithm not in ("https", ""):
        cluster.refuse(
            "ssl.endpoint.identification.algorithm",
            "the only algorithm is https",
            "Write https, or leave it empty to switch the check of host names off.",
        )
    presented = _presented(cluster)
    return Tls(
        ca_pem=_trusted(cluster),
        certificate_pem=presented.certificate_pem if presented else "",
        key_pem=presented.key_pem if presented else "",
        key_password=cluster.text("ssl.key.password"),
        check_hostname=bool(algorithm),
        protocols=_versions(cluster),
    )


def _versions(cluster: _Keys) -> tuple[str, ...]:
    key = "ssl.enabled.protocols"
    asked = [name.strip() for name in cluster.text(key, ",".join(VERSIONS)).split(",")]
    usable = tuple(name for name in VERSIONS if name in asked)
    if not usable:
        cluster.refuse(key, f"drlib supports only {' and '.join(VERSIONS)}", f"Write {','.join(VERSIONS)}.")
    return usable


def _store_type(cluster: _Keys, store: str) -> str:
    key = f"ssl.{store}.type"
    store_type = cluster.text(key, "JKS").upper()
    if store_type not in stores.TYPES:
        cluster.refuse(key, f"it is none of {', '.join(stores.TYPES)}", "Convert the store to PEM or PKCS12.")
    return store_type


def _trusted(cluster: _Keys, written: str = "") -> str:
    """`written`: how errors name the store, where it is not by the path as the file has it."""
    inline, location = "ssl.truststore.certificates", "ssl.truststore.location"
    store_type = _store_type(cluster, "truststore")
    if text := cluster.text(inline):
        _only_pem(cluster, inline, store_type, location)
        return stores.certificates(text, cluster.where(inline))
    path, password = cluster.text(location), cluster.text("ssl.truststore.password")
    if not path:
        return ""
    return stores.trusted(path, store_type, password, cluster.where(location), written or cluster.keys[location])


def _presented(cluster: _Keys) -> stores.KeyStore | None:
    key, chain, location = "ssl.keystore.key", "ssl.keystore.certificate.chain", "ssl.keystore.location"
    store_type = _store_type(cluster, "keystore")
    if text := cluster.text(key):
        _only_pem(cluster, key, store_type, location)
        certificates = stores.certificates(cluster.text(chain), cluster.where(chain))
        return stores.KeyStore(certificates, stores.private_key(text, cluster.where(key)))
    path, password = cluster.text(location), cluster.text("ssl.keystore.password")
    if not path:
        return None
    key_password = cluster.text("ssl.key.password")
    return stores.key_store(path, store_type, password, cluster.where(location), cluster.keys[location], key_password)


def _only_pem(cluster: _Keys, key: str, store_type: str, location: str) -> None:
    if store_type != "PEM":
        cluster.refuse(key, f"the store's type is {store_type}", "Set the type to PEM.")
    if cluster.text(location):
        cluster.refuse(key, f"{location} is set too", f"Set {key} or {location}, not both.")


def _sasl(cluster: _Keys) -> Sasl:
    mechanism = cluster.text("sasl.mechanism", "GSSAPI")
    if mechanism == MSK_MECHANISM:
        cluster.refuse("sasl.mechanism", MSK_WHY, MSK_REMEDY)
    if mechanism not in MECHANISMS:
        cluster.refuse(
            "sasl.mechanism",
            "Kerberos (GSSAPI, Kafka's default) is not supported" if mechanism == "GSSAPI" else "it is not supported",
            f"Set {cluster.where('sasl.mechanism')} to one of {', '.join(MECHANISMS)}.",
        )
    key = "sasl.jaas.config"
    if not (text := cluster.text(key)):
        cluster.refuse(key, f"it is not set, and {mechanism} needs a login", jaas.EXAMPLE)
    module = jaas.parse(text, cluster.where(key))
    fitting = (_BEARER_MODULE,) if mechanism == "OAUTHBEARER" else _PASSWORD_MODULES
    if module.name not in fitting:
        cluster.refuse(key, f"its login module is not one for {mechanism}", f"Use {' or '.join(fitting)}.")
    if mechanism == "OAUTHBEARER":
        return _bearer(cluster, module.options)
    if module.options.get("tokenauth", "false").lower() == "true":
        cluster.refuse(key, "delegation tokens are not supported", "Use the user's own password.")
    username, password = module.options.get("username", ""), module.options.get("password", "")
    if not username or not password:
        cluster.refuse(key, f"{mechanism} needs username and password", jaas.EXAMPLE)
    return Password("PLAIN" if mechanism == "PLAIN" else _SCRAM[mechanism], username, password)


def _bearer(cluster: _Keys, options: Mapping[str, str]) -> UnsecuredJws | ClientCredentials:
    key, url_key = "sasl.login.callback.handler.class", "sasl.oauthbearer.token.endpoint.url"
    url = cluster.text(url_key)
    handler = cluster.text(key, _ENDPOINT_HANDLERS[0] if url else _UNSECURED_HANDLER)
    if handler == _UNSECURED_HANDLER:
        return _unsecured(cluster, options)
    if handler not in _ENDPOINT_HANDLERS:
        cluster.refuse(key, "it is not one of Kafka's own handlers", f"Use {_ENDPOINT_HANDLERS[0]}.")
    try:
        address = http_request.parse(url)
    except http_request.NotAnAddress as error:
        cluster.refuse(url_key, str(error), "Write https://host/path.")
    plain_http = cluster.text(PLAIN_HTTP, "false").lower() == "true"
    if not (address.private or plain_http):
        cluster.refuse(
            url_key,
            "it begins with http://, and the client's secret would be sent without encryption",
            f"Use https://, or set {cluster.where(PLAIN_HTTP)} = true where the network itself encrypts.",
        )
    credentials = "sasl.oauthbearer.client.credentials.client"
    who = cluster.text(f"{credentials}.id") or options.get("clientId", "")
    secret = cluster.text(f"{credentials}.secret") or options.get("clientSecret", "")
    if not who or not secret:
        cluster.refuse("sasl.jaas.config", "the token endpoint needs clientId and clientSecret", "Set both options.")
    return ClientCredentials(
        address,
        who,
        secret,
        cluster.text("sasl.oauthbearer.scope") or options.get("scope", ""),
        cluster.text("sasl.oauthbearer.header.urlencode", "false").lower() == "true",
        _extensions(cluster, options, "extension_"),
        plain_http,
        _trusted(_Keys(cluster.where("sasl.jaas.config"), options), "the file that it names"),
    )


def _unsecured(cluster: _Keys, options: Mapping[str, str]) -> UnsecuredJws:
    claims: dict[str, str | float | tuple[str, ...]] = {}
    try:
        for option, value in options.items():
            if option.startswith("unsecuredLoginStringClaim_"):
                claims[option.partition("_")[2]] = value
            elif option.startswith("unsecuredLoginNumberClaim_"):
                claims[option.partition("_")[2]] = float(value)
            elif option.startswith("unsecuredLoginListClaim_"):
                claims[option.partition("_")[2]] = tuple(value[1:].split(value[0])) if len(value) > 1 else ()
        lifetime_s = float(int(options.get("unsecuredLoginLifetimeSeconds", "3600")))
    except ValueError:
        cluster.refuse("sasl.jaas.config", "a number claim or the lifetime is not a number", "Write a number.")
    principal = options.get("unsecuredLoginPrincipalClaimName", "sub")
    if not isinstance(claims.get(principal), str) or not claims[principal] or {"iat", "exp"} & set(claims):
        cluster.refuse(
            "sasl.jaas.config",
            f"an unsecured token needs a string claim {principal}, and drlib adds iat and exp itself",
            'Write unsecuredLoginStringClaim_sub="name", or set sasl.oauthbearer.token.endpoint.url.',
        )
    return UnsecuredJws(claims, principal, lifetime_s, _extensions(cluster, options, "unsecuredLoginExtension_"))


def _extensions(cluster: _Keys, options: Mapping[str, str], prefix: str) -> dict[str, str]:
    extensions = {name.removeprefix(prefix): value for name, value in options.items() if name.startswith(prefix)}
    for name, value in extensions.items():
        if not _EXTENSION_NAME.fullmatch(name) or name == "auth" or not _EXTENSION_VALUE.fullmatch(value):
            cluster.refuse("sasl.jaas.config", "an extension's name or value cannot be sent", "Use letters only.")
    return extensions
