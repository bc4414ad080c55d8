"""TLS and login of a connection: one frozen value for drlib's own connections and for librdkafka.

Rules: everything is resolved already, as PEM text and plain strings, so that users of it read no files or environment.
No secret is in a `repr`. A certificate's host name is checked unless that is switched off.
Not for: Kafka's keys and stores (`drlib.kafka.security.java_keys`), the bytes of a mechanism (`drlib.kafka.net.sasl`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from drlib.outgoing.http_request import Address

ScramMechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]


class Protocol(StrEnum):
    """Kafka's `org.apache.kafka.common.security.auth.SecurityProtocol`."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def encrypted(self) -> bool:
        return self in (Protocol.SSL, Protocol.SASL_SSL)

    @property
    def authenticated(self) -> bool:
        return self in (Protocol.SASL_PLAINTEXT, Protocol.SASL_SSL)


@dataclass(frozen=True, slots=True)
class Tls:
    """`ca_pem` "" trusts the system's own authorities; `certificate_pem` "" presents no certificate."""

    ca_pem: str = field(default="", repr=False)
    certificate_pem: str = field(default="", repr=False)  # the client's own first, then its issuers
    key_pem: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)
    check_hostname: bool = True
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")


@dataclass(frozen=True, slots=True)
class Password:
    """A user and a password, for PLAIN (RFC 4616) or SCRAM (RFC 5802)."""

    mechanism: Literal["PLAIN"] | ScramMechanism
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class UnsecuredJws:
    """An unsigned token made by drlib, as Kafka's `OAuthBearerUnsecuredLoginCallbackHandler` does. For tests only."""

    claims: Mapping[str, str | float | tuple[str, ...]] = field(repr=False)
    principal_claim: str = "sub"
    lifetime_s: float = 3600.0
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """Tokens from an OAuth 2 endpoint, grant type client_credentials (RFC 6749, section 4.4).

    `plain_http`: the secret may be sent over http:// to another machine. `ca_pem` "" trusts the system's own authorities.
    """

    address: Address
    client_id: str
    client_secret: str = field(repr=False)
    scope: str = ""
    urlencode_header: bool = False
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)
    plain_http: bool = False
    ca_pem: str = field(default="", repr=False)


TokenSource = UnsecuredJws | ClientCredentials
Sasl = Password | UnsecuredJws | ClientCredentials


@dataclass(frozen=True, slots=True)
class Security:
    """Without `tls` the connection is not encrypted, without `sasl` there is no login."""

    tls: Tls | None = None
    sasl: Sasl | None = None

    @property
    def protocol(self) -> Protocol:
        if self.sasl is None:
            return Protocol.PLAINTEXT if self.tls is None else Protocol.SSL
        return Protocol.SASL_PLAINTEXT if self.tls is None else Protocol.SASL_SSL

    @property
    def mechanism(self) -> str:
        """Kafka's name of the SASL mechanism, "" without SASL."""
        if self.sasl is None:
            return ""
        return self.sasl.mechanism if isinstance(self.sasl, Password) else "OAUTHBEARER"


PLAINTEXT = Security()
