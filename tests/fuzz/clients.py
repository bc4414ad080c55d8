"""Decoders of the files of Kafka's clients and of other tools, of addresses and of patterns, in a form that takes bytes."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key, pkcs12
from cryptography.x509 import load_pem_x509_certificate

from drlib.config import imports, settings, shown
from drlib.config.patterns import selection
from drlib.errors import DrlibError
from drlib.kafka.java_formats import jks, key_stores, properties, references
from drlib.kafka.security import java_keys, tls
from drlib.kafka.security.credentials import Tls
from drlib.mirror.monitor import observer
from drlib.mirror.offsets.translation import external_formats
from drlib.mirror.spark import rules as spark_rules
from drlib.outgoing import http_request
from fuzz.adapters import folder, sealed_store
from fuzz.mutate import Case

# -- properties files --------------------------------------------------------------------------------------------------


def properties_text(data: bytes) -> properties.PropertiesFile:
    return properties.parse(data.decode(errors="replace"), Path("mirror.properties"))


def from_properties(data: bytes) -> object:
    """The settings of a mirror, and what of each key may be printed."""
    file = properties_text(data)
    with _quicker():
        found = settings.from_file(file)
    for flow in found.flows:
        for name in ("orders", "flights-internal", "a" * 249):
            with contextlib.suppress(selection.PatternTooSlow):
                selection.matches(("orders",), name)
        str(flow.flow)
    for cluster in found.clusters.values():
        with contextlib.suppress(DrlibError):
            cluster.connection()
    return found


def security(data: bytes) -> object:
    """The security of a client's file, as both kinds of connections take it."""
    keys = {key: entry.value for key, entry in properties_text(data).effective().items()}
    found = java_keys.read("LEFT", keys)
    return java_keys.librdkafka(found)


def shown_values(data: bytes) -> object:
    return [
        (
            shown.shown(shown.without_scope(entry.key, ["LEFT", "RIGHT"]), entry.value),
            shown.holds_secret(entry.key, entry.value),
        )
        for entry in properties_text(data).entries
    ]


def resolve(value: str) -> object:
    hidden = references.hidden(value), references.only_references(value)
    return references.resolve(value, "x"), hidden


# -- other descriptions of a mirror ------------------------------------------------------------------------------------


def imported(data: bytes) -> object:
    """What is imported must be a file with the keys and values that were meant, and with no others."""
    path = folder() / "imported.yaml"
    path.write_bytes(data)
    made = imports.import_files([path])
    text = made.text()
    read = properties.parse(text, path)
    if {entry.key: entry.value for entry in read.entries} != made.values or len(read.entries) != len(made.values):
        raise AssertionError(f"{made.values} became {read.entries} by {text!r}")
    return text


def offsets(data: bytes) -> object:
    return external_formats.parse(data.decode(errors="replace"), "offsets.json")


# -- patterns ----------------------------------------------------------------------------------------------------------


def pattern(data: bytes) -> None:
    with _quicker():
        selection.validate(selection.split_list(data.decode(errors="replace")))


def matches(data: bytes, name: bytes) -> object:
    with _quicker():
        return selection.matches(selection.split_list(data.decode(errors="replace")), name.decode(errors="replace"))


@contextlib.contextmanager
def _quicker() -> Iterator[None]:
    """A slow pattern may take a second for each of its first names, which would be most of the time of all targets."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("TIME_LIMIT_S", 0.05), ("LEAST_LIMIT_S", 0.005), ("MOST_PROBES", 200)):
            patch.setattr(selection, name, value)
        yield
    for kept in (selection._compile_short, selection._compile_long, selection._try_hard_names):
        kept.cache_clear()


# -- key stores --------------------------------------------------------------------------------------------------------

_SALT: Final = bytes(range(20))
PASSWORD: Final = "secret"


def _written(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    return bytes([tag, size] if size < 128 else [tag, 0x82, size >> 8, size & 0xFF]) + content


def _store() -> bytes:
    """A JKS store with a trusted certificate and a key with its chain."""
    secret, plain = PASSWORD.encode("utf-16-be"), bytes(range(200))
    stream, block = b"", _SALT
    while len(stream) < len(plain):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    cipher = bytes(a ^ b for a, b in zip(plain, stream, strict=False))
    algorithm = _der(0x30, bytes.fromhex("060a2b060104012a02110101") + _der(5, b""))
    info = _der(0x30, algorithm + _der(4, _SALT + cipher + hashlib.sha1(secret + plain).digest()))
    certificate = _written("X.509") + struct.pack(">I", 9) + b"authority"
    key = struct.pack(">I", 1) + _written("mine") + bytes(8) + struct.pack(">I", len(info)) + info
    trusted = struct.pack(">I", 2) + _written("ca") + bytes(8) + certificate
    body = jks.MAGIC + struct.pack(">II", 2, 2) + trusted + key + struct.pack(">I", 1) + certificate
    return sealed_store(body + bytes(20), PASSWORD)


JKS: Final[tuple[Case, ...]] = ((_store(),),)


def jks_read(contents: bytes) -> object:
    """A store whose own digest is right whatever is in it; keys have digests of their own."""
    return jks.read(sealed_store(contents, PASSWORD), PASSWORD)


@functools.cache
def _pem() -> tuple[bytes, bytes]:
    """A certificate with its key, new in each process."""
    issued = trustme.CA().issue_cert("localhost")
    return issued.cert_chain_pems[0].bytes(), issued.private_key_pem.bytes()


def _pkcs12() -> bytes:
    certificate, key = _pem()
    secret = BestAvailableEncryption(PASSWORD.encode())
    loaded = load_pem_private_key(key, None)
    return pkcs12.serialize_key_and_certificates(b"mine", loaded, load_pem_x509_certificate(certificate), None, secret)  # type: ignore[arg-type]


def stores() -> tuple[Case, ...]:
    certificate, key = _pem()
    return ((b"PEM", certificate + key), (b"PKCS12", _pkcs12()), (b"JKS", JKS[0][0]))


def trusted(store_type: bytes, contents: bytes) -> object:
    kind = store_type.decode(errors="replace")
    path = folder() / "store"
    path.write_bytes(sealed_store(contents, PASSWORD) if kind == "JKS" else contents)
    return tls.context(Tls(ca_pem=key_stores.trusted(str(path), kind, PASSWORD, "x", "x")))


def own_store(store_type: bytes, contents: bytes) -> object:
    kind = store_type.decode(errors="replace")
    path = folder() / "store"
    path.write_bytes(sealed_store(contents, PASSWORD) if kind == "JKS" else contents)
    store = key_stores.key_store(str(path), kind, PASSWORD, "x", "x")
    return tls.context(Tls(certificate_pem=store.certificate_pem, key_pem=store.key_pem, key_password=PASSWORD))


def pem() -> tuple[Case, ...]:
    return (_pem(),)


def tls_context(certificate: bytes, key: bytes) -> object:
    """Certificates and key as they are in the keys of a properties file."""
    read = [part.decode(errors="replace") for part in (certificate, key)]
    chain = key_stores.certificates(read[0], "x")
    return tls.context(
        Tls(ca_pem=chain, certificate_pem=chain, key_pem=key_stores.private_key(read[1], "x"), key_password="x")
    )


# -- addresses and errors ----------------------------------------------------------------------------------------------

URLS: Final[tuple[Case, ...]] = ((b"https://127.0.0.1:8443/a?b=c",), (b"http://[::1]:80/",), (b"http://localhost",))
ADDRESSES: Final[tuple[Case, ...]] = ((b"127.0.0.1:1",), (b"[::1]:1",))


def address(text: str) -> object:
    return str(http_request.parse(text)), http_request.shown(text)


def status_address(data: bytes) -> object:
    """The address in a worker's claim, of which only one that nothing listens at is tried."""
    text = data.decode(errors="replace")
    try:
        parsed = http_request.parse(f"http://{text}/status")
    except http_request.NotAnAddress:
        return observer.fetch_status(text)
    return observer.fetch_status(text) if len(parsed.host) > 63 or ".." in parsed.host else None


def cause_of(text: str) -> object:
    return spark_rules.cause_of(text)
