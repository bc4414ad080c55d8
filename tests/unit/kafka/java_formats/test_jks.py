"""Java's key stores: layout, digests and protected keys, against stores written here by the format's description."""

from __future__ import annotations

import base64
import hashlib
import struct

import pytest

from drlib.kafka.java_formats import jks

SALT = bytes(range(20))


def written(text: str) -> bytes:
    return struct.pack(">H", len(text)) + text.encode()


def der(tag: int, content: bytes) -> bytes:
    size = len(content)
    return bytes([tag, size] if size < 128 else [tag, 0x82, size >> 8, size & 0xFF]) + content


def protected(key: bytes, password: str) -> bytes:
    secret, stream, block = password.encode("utf-16-be"), b"", SALT
    while len(stream) < len(key):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    cipher = bytes(a ^ b for a, b in zip(key, stream, strict=False))
    algorithm = der(0x30, bytes.fromhex("060a2b060104012a02110101") + der(5, b""))
    return der(0x30, algorithm + der(4, SALT + cipher + hashlib.sha1(secret + key).digest()))


def certificate(content: bytes) -> bytes:
    return written("X.509") + struct.pack(">I", len(content)) + content


def store(password: str, *entries: bytes) -> bytes:
    body = jks.MAGIC + struct.pack(">II", 2, len(entries)) + b"".join(entries)
    return body + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


def key_entry(key: bytes, password: str, *chain: bytes) -> bytes:
    info = protected(key, password)
    head = struct.pack(">I", 1) + written("mine") + struct.pack(">Q", 0) + struct.pack(">I", len(info)) + info
    return head + struct.pack(">I", len(chain)) + b"".join(map(certificate, chain))


def trusted_entry(content: bytes) -> bytes:
    return struct.pack(">I", 2) + written("ca") + struct.pack(">Q", 0) + certificate(content)


def bodies(*pems: str) -> list[bytes]:
    return [base64.b64decode("".join(pem.splitlines()[1:-1])) for pem in pems]


KEY = bytes(n % 251 for n in range(1200))
OWN, ISSUER, OTHER = b"own" * 50, b"issuer" * 30, b"other"
CONTENTS = store("Gëheim-1", trusted_entry(OTHER), key_entry(KEY, "Key-2", OWN, ISSUER))


def test_jks_read_puts_key_chains_before_trusted_certificates() -> None:
    opened = jks.read(CONTENTS, "Gëheim-1", "Key-2")
    assert bodies(*opened.certificates) == [OWN, ISSUER, OTHER]
    assert bodies(*opened.keys) == [KEY]
    assert opened.keys[0].startswith("-----BEGIN PRIVATE KEY-----\n")
    assert "PRIVATE" not in repr(opened)


def test_jks_read_key_without_own_password_uses_the_stores() -> None:
    assert bodies(*jks.read(store("P-1", key_entry(KEY, "P-1", OWN)), "P-1").keys) == [KEY]


def test_jks_read_without_password_reads_certificates_only() -> None:
    opened = jks.read(CONTENTS, "")
    assert bodies(*opened.certificates) == [OWN, ISSUER, OTHER]
    assert opened.keys == ()


@pytest.mark.parametrize(("password", "key_password"), [("Gëheim-2", "Key-2"), ("Gëheim-1", "Key-3"), ("Gëheim-1", "")])
def test_jks_read_wrong_password_is_refused(password: str, key_password: str) -> None:
    with pytest.raises(jks.WrongPassword) as refused:
        jks.read(CONTENTS, password, key_password)
    assert password not in str(refused.value)


@pytest.mark.parametrize("at", range(4, len(CONTENTS), 97))
def test_jks_read_changed_byte_is_detected(at: int) -> None:
    damaged = CONTENTS[:at] + bytes([CONTENTS[at] ^ 1]) + CONTENTS[at + 1 :]
    with pytest.raises(jks.WrongPassword):
        jks.read(damaged, "Gëheim-1", "Key-2")


@pytest.mark.parametrize("length", range(0, len(CONTENTS) - 20, 61))
def test_jks_read_truncated_or_other_bytes_are_refused(length: int) -> None:
    with pytest.raises(jks.NotJks):
        jks.read(CONTENTS[:length], "")


def test_jks_read_secret_keys_are_refused() -> None:
    with pytest.raises(jks.NotJks, match="kind 3"):
        jks.read(store("P-1", struct.pack(">I", 3) + written("s") + struct.pack(">Q", 0)), "P-1")


@pytest.mark.parametrize(
    "info",
    [
        b"",
        der(0x30, b""),
        der(0x30, der(4, b"x")),
        der(0x30, der(4, b"x") * 3),
        der(0x30, der(0x30, b"") + der(4, b"x")),
    ],
)
def test_jks_read_key_in_another_form_is_refused(info: bytes) -> None:
    head = struct.pack(">I", 1) + written("mine") + struct.pack(">Q", 0) + struct.pack(">I", len(info)) + info
    with pytest.raises(jks.NotJks, match="in another way"):
        jks.read(store("P-1", head + struct.pack(">I", 0)), "P-1")
