"""Contexts for TLS from what a properties file or a store says."""

from __future__ import annotations

import pytest

from drlib.errors import UsageError
from drlib.kafka.security.credentials import Tls
from drlib.kafka.security.tls import context

CERTIFICATE = "-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n"


@pytest.mark.parametrize("text", ["", "\u00e9", "AAAA", "\0", "*"])
def test_certificates_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="trusted certificates"):
        context(Tls(ca_pem=CERTIFICATE.format(text)))
    with pytest.raises(UsageError, match="client certificate"):
        context(Tls(certificate_pem=CERTIFICATE.format(text), key_pem="-----BEGIN PRIVATE KEY-----"))
