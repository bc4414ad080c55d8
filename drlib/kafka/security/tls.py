"""Make an `ssl.SSLContext` from a `Tls` value, once per cluster, for every connection to it.

Rules: the broker's certificate is always verified, its host name unless switched off. A private key is never written to a file
that another user may read, and on Linux to no file at all. Invalid PEM is a `UsageError`.
"""

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator
from typing import Final

from drlib.errors import UsageError
from drlib.kafka.security.credentials import Tls

VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def context(tls: Tls) -> ssl.SSLContext:
    """A context for clients. Raises `UsageError`."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    versions = [VERSIONS[name] for name in tls.protocols]
    made.minimum_version, made.maximum_version = min(versions), max(versions)
    made.check_hostname = tls.check_hostname
    try:
        if tls.ca_pem:
            made.load_verify_locations(cadata=tls.ca_pem)
        else:
            made.load_default_certs(ssl.Purpose.SERVER_AUTH)
    except (ssl.SSLError, ValueError, TypeError) as error:  # TypeError: letters that are not ASCII
        raise _unusable("the trusted certificates", "ssl.truststore", error) from error
    if tls.certificate_pem:
        try:
            with _file(f"{tls.key_pem}\n{tls.certificate_pem}") as path:
                # Without a password here OpenSSL would ask the terminal for one.
                made.load_cert_chain(path, password=lambda: tls.key_password)
        except (ssl.SSLError, ValueError) as error:
            raise _unusable("the client certificate or its private key", "ssl.keystore, ssl.key.password", error) from (
                error
            )
    return made


def _unusable(what: str, keys: str, error: Exception) -> UsageError:
    reason = (error.reason if isinstance(error, ssl.SSLError) else "") or "it is not PEM, or the password is wrong"
    return UsageError(f"{what} cannot be used", reason.replace("_", " ").lower(), f"Correct {keys} of this cluster.")


@contextlib.contextmanager
def _file(text: str) -> Iterator[str]:
    """A path to `text` within the block: OpenSSL reads keys from paths only."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("key", os.MFD_CLOEXEC)
        try:
            with os.fdopen(os.dup(descriptor), "w", encoding="utf-8") as handle:
                handle.write(text)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".pem") as private:  # made with 0600
        private.write(text)
        private.flush()
        yield private.name
