"""Why a secured connection failed: each cause with its own name and remedy.

Rules: a fault is raised only on evidence (OpenSSL's verify code, the peer's alert, Kafka's error code, the probed listener);
everything else stays `Unreachable`. No message holds a secret. A fault is not retriable, as only a change of settings helps;
a mirror that runs for ever retries all the same.
Source: OpenSSL's x509_vfy.h (verify codes), RFC 8446 section 6.2 (alerts), Kafka's `SaslServerAuthenticator`.
"""

import ssl
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from drlib.errors import DrlibError

CANNOT_USE: Final = "this host cannot use it"
"""Begins the reason why a cluster or broker is silent to this host, where it answers and refuses: it may serve others."""


class Fault(StrEnum):
    CERTIFICATE_EXPIRED = "certificate-expired"
    CERTIFICATE_NOT_YET_VALID = "certificate-not-yet-valid"
    WRONG_HOST_NAME = "wrong-host-name"
    UNKNOWN_CA = "unknown-ca"
    CERTIFICATE_REFUSED = "certificate-refused"  # the broker's, for another reason
    CLIENT_CERTIFICATE_REQUIRED = "client-certificate-required"
    CLIENT_CERTIFICATE_REFUSED = "client-certificate-refused"
    TLS_PARAMETERS = "tls-parameters"
    WRONG_CREDENTIALS = "wrong-credentials"
    WRONG_SERVER_SIGNATURE = "wrong-server-signature"
    UNSUPPORTED_MECHANISM = "unsupported-mechanism"
    TOKEN_REFUSED = "token-refused"
    PLAINTEXT_TO_TLS = "plaintext-to-tls"
    TLS_TO_PLAINTEXT = "tls-to-plaintext"
    SASL_REQUIRED = "sasl-required"
    SASL_NOT_OFFERED = "sasl-not-offered"


class SecurityFault(DrlibError):
    """The broker answers, but TLS or SASL failed. Decide by `fault`, never by the text."""

    exit_code = 11

    def __init__(self, fault: Fault, what: str, why: str, remedy: str) -> None:
        super().__init__(what, why, remedy)
        self.fault = fault


class UntrustedBroker(SecurityFault):
    """The certificate of this broker is refused; another broker of its cluster may have a good one."""


_VERIFY: Final = {
    2: Fault.UNKNOWN_CA,  # the issuer of one that is trusted is not: unlike Java, OpenSSL wants the root, too
    9: Fault.CERTIFICATE_NOT_YET_VALID,
    10: Fault.CERTIFICATE_EXPIRED,
    18: Fault.UNKNOWN_CA,  # self-signed
    19: Fault.UNKNOWN_CA,  # self-signed in its chain
    20: Fault.UNKNOWN_CA,  # no issuer here
    21: Fault.UNKNOWN_CA,  # the first one cannot be verified
    62: Fault.WRONG_HOST_NAME,
    64: Fault.WRONG_HOST_NAME,  # of an IP address
}
# The peer's alert about drlib's side; OpenSSL's reasons end in the alert's name.
_ALERTS: Final = (
    (("CERTIFICATE_REQUIRED",), Fault.CLIENT_CERTIFICATE_REQUIRED),
    (
        (
            "ALERT_BAD_CERTIFICATE",
            "ALERT_CERTIFICATE_UNKNOWN",
            "ALERT_UNKNOWN_CA",
            "ALERT_CERTIFICATE_EXPIRED",
            "ALERT_CERTIFICATE_REVOKED",
            "ALERT_UNSUPPORTED_CERTIFICATE",
            "ALERT_ACCESS_DENIED",
        ),
        Fault.CLIENT_CERTIFICATE_REFUSED,
    ),
    (
        ("ALERT_HANDSHAKE_FAILURE", "ALERT_PROTOCOL_VERSION", "ALERT_INSUFFICIENT_SECURITY", "UNSUPPORTED_PROTOCOL"),
        Fault.TLS_PARAMETERS,
    ),
    (("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"), Fault.TLS_TO_PLAINTEXT),
)
_OF_ONE_BROKER: Final = frozenset(_VERIFY.values()) | {Fault.CERTIFICATE_REFUSED}
_TEXTS: Final = {
    Fault.CERTIFICATE_EXPIRED: (
        "its certificate has expired",
        "Renew the broker's certificate; no change is needed here.",
    ),
    Fault.CERTIFICATE_NOT_YET_VALID: (
        "its certificate is not valid yet",
        "Compare the clocks of both machines, or wait until the certificate is valid.",
    ),
    Fault.WRONG_HOST_NAME: (
        "its certificate is for another host name",
        "Use a name of the certificate in bootstrap.servers and advertised.listeners, or put this one into it (SAN).",
    ),
    Fault.UNKNOWN_CA: (
        "its certificate was not issued by an authority that drlib trusts",
        "Add the issuing authority, and those above it up to the root, to ssl.truststore.location (or .certificates).",
    ),
    Fault.CERTIFICATE_REFUSED: (
        "its certificate cannot be verified",
        "Inspect the broker's certificate: openssl s_client -connect {peer}.",
    ),
    Fault.CLIENT_CERTIFICATE_REQUIRED: (
        "it requires a client certificate, and none was presented",
        "Set ssl.keystore.location (and its type and password) for this cluster.",
    ),
    Fault.CLIENT_CERTIFICATE_REFUSED: (
        "it does not accept the client certificate",
        "Set ssl.keystore.location to a valid certificate issued by an authority in the broker's truststore.",
    ),
    Fault.TLS_PARAMETERS: (
        "it has no TLS version or cipher in common with drlib",
        "Compare ssl.enabled.protocols here and on the broker.",
    ),
    Fault.PLAINTEXT_TO_TLS: (
        "this port requires TLS, and security.protocol is {protocol}",
        "Set security.protocol to SSL or SASL_SSL, or use the port of another listener.",
    ),
    Fault.TLS_TO_PLAINTEXT: (
        "this port has no TLS, and security.protocol is {protocol}",
        "Set security.protocol to PLAINTEXT or SASL_PLAINTEXT, or use the port of a TLS listener.",
    ),
    Fault.SASL_REQUIRED: (
        "this port requires a login (SASL: {mechanisms}), and security.protocol is {protocol}",
        "Set security.protocol to SASL_SSL or SASL_PLAINTEXT, with sasl.mechanism and sasl.jaas.config.",
    ),
    Fault.SASL_NOT_OFFERED: (
        "this port has no login, and security.protocol is {protocol}",
        "Set security.protocol to SSL or PLAINTEXT, or use the port of a SASL listener.",
    ),
    Fault.UNSUPPORTED_MECHANISM: (
        "this port does not offer sasl.mechanism {mechanism}, only {mechanisms}",
        "Set sasl.mechanism to one of those, with the sasl.jaas.config for it.",
    ),
    Fault.WRONG_CREDENTIALS: (
        "it refused the login by {mechanism} ({detail})",
        "Correct the user and password (or token) in sasl.jaas.config, or create the user on that cluster.",
    ),
    Fault.WRONG_SERVER_SIGNATURE: (
        "it did not prove that it knows the password ({detail})",
        "Do not trust this address: check first what listens there.",
    ),
}


def fault(kind: Fault, peer: str, **values: object) -> SecurityFault:
    """The fault `kind` at `peer` (host:port); `values` fill the texts: protocol, mechanism, mechanisms, detail."""
    why, remedy = _TEXTS[kind]
    detail = values.pop("because", None)
    text = why.format(peer=peer, **values) + (f" ({detail})" if detail else "")
    raised = UntrustedBroker if kind in _OF_ONE_BROKER else SecurityFault
    return raised(kind, f"broker {peer} can't be used", text, remedy.format(peer=peer, **values))


def of_tls(error: BaseException | None, peer: str, protocol: str, *, presented: bool) -> SecurityFault | None:
    """The fault behind OpenSSL's `error` at `peer`, None if unknown. `presented`: drlib has a client certificate."""
    if isinstance(error, ssl.SSLCertVerificationError):
        kind = _VERIFY.get(error.verify_code, Fault.CERTIFICATE_REFUSED)
        return fault(kind, peer, because=error.verify_message.rstrip("."))
    if not isinstance(error, ssl.SSLError) or isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
        return None
    reason = (error.reason or "").upper()
    kind_of_alert = next((kind for ends, kind in _ALERTS if reason.endswith(ends)), None)
    if kind_of_alert is None:
        return None
    if kind_of_alert is Fault.CLIENT_CERTIFICATE_REFUSED and not presented:
        kind_of_alert = Fault.CLIENT_CERTIFICATE_REQUIRED  # TLS 1.2 has no alert of its own for it
    return fault(kind_of_alert, peer, protocol=protocol)


def names(mechanisms: Iterable[str]) -> str:
    return ", ".join(sorted(mechanisms)) or "none"
