"""Read Java's key store format JKS, which most Java clients use, as PEM text.

Rules: the whole store is checked against its password's digest before anything in it is used; without a password the
certificates are read unchecked, as Java does. A private key is taken only when its own digest agrees. JCEKS and stores
with secret keys are refused. Sources: `sun.security.provider.JavaKeyStore` (layout), `KeyProtector` (keys, SHA-1 as a
stream cipher): weak by today's measure, but the format. This module writes no stores.
Not for: PKCS12 (`drlib.kafka.java_formats.key_stores`), although Java also writes that into files called .jks.
"""

import base64
import hashlib
import hmac
import struct
from dataclasses import dataclass, field
from typing import Final

MAGIC: Final = b"\xfe\xed\xfe\xed"
_WHITENER: Final = b"Mighty Aphrodite"  # JavaKeyStore.getPreKeyedHash
_PROTECTED: Final = bytes.fromhex("060a2b060104012a02110101")  # OID 1.3.6.1.4.1.42.2.17.1.1, KeyProtector
_KEY, _TRUSTED = 1, 2
_DIGEST: Final = 20


class NotJks(ValueError):
    """The bytes are not a JKS store of a known version."""


class WrongPassword(ValueError):
    """The password does not match the digest of the store, or of a private key."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The certificates of a store, each key's own chain first, and its private keys (PKCS #8), all PEM."""

    certificates: tuple[str, ...]
    keys: tuple[str, ...] = field(repr=False)


def read(contents: bytes, password: str, key_password: str = "") -> Opened:
    """Opens a store; keys with `key_password`, or the store's where that is empty.

    Raises `NotJks` and `WrongPassword`.
    """
    secret = password.encode("utf-16-be")
    body, digest = contents[:-_DIGEST], contents[-_DIGEST:]
    if password and not hmac.compare_digest(hashlib.sha1(secret + _WHITENER + body).digest(), digest):
        raise WrongPassword("the store's digest is another one")
    try:
        return _entries(_Cursor(body), (key_password or password).encode("utf-16-be"))
    except struct.error as error:
        raise NotJks("it ends too early") from error


class _Cursor:
    """Reads big-endian fields one after the other. Raises `struct.error` at the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def ended(self) -> bool:
        return self._at >= len(self._data)

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return int(value)

    def block(self, length: int) -> bytes:
        if self._at + length > len(self._data):
            raise struct.error("block beyond the end")
        self._at += length
        return self._data[self._at - length : self._at]


def _entries(cursor: _Cursor, key_secret: bytes) -> Opened:
    magic, version = cursor.block(4), cursor.number(">I")
    if magic != MAGIC or version not in (1, 2):
        raise NotJks("it is no JKS store of version 1 or 2")
    chains: list[str] = []
    trusted: list[str] = []
    keys: list[str] = []
    for _ in range(cursor.number(">I")):
        tag = cursor.number(">I")
        cursor.block(cursor.number(">H"))  # alias
        cursor.number(">Q")  # date
        if tag == _KEY:
            # Without a password no key can be opened; the certificates can still be trusted.
            protected = cursor.block(cursor.number(">I"))
            keys += [_pem("PRIVATE KEY", _key(protected, key_secret))] if key_secret else []
            chains += [_certificate(cursor, version) for _ in range(cursor.number(">I"))]
        elif tag == _TRUSTED:
            trusted.append(_certificate(cursor, version))
        else:
            raise NotJks(f"an entry of kind {tag} is unknown")
    return Opened((*chains, *trusted), tuple(keys))


def _certificate(cursor: _Cursor, version: int) -> str:
    if version > 1:
        cursor.block(cursor.number(">H"))  # its type, always X.509
    return _pem("CERTIFICATE", cursor.block(cursor.number(">I")))


def _key(info: bytes, secret: bytes) -> bytes:
    """The PKCS #8 bytes of an EncryptedPrivateKeyInfo: algorithm, then salt, cipher text and digest as one string."""
    outer = _sequence(info)
    inner = _sequence(outer[0]) if outer else []
    if len(inner) != 2 or _PROTECTED not in inner[0]:
        raise NotJks("its private key is protected in another way than JKS does it")
    protected = inner[1]
    salt, cipher, digest = protected[:_DIGEST], protected[_DIGEST:-_DIGEST], protected[-_DIGEST:]
    stream = bytearray()
    block = salt
    while len(stream) < len(cipher):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    plain = bytes(a ^ b for a, b in zip(cipher, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + plain).digest(), digest):
        raise WrongPassword("the private key's digest is another one")
    return plain


def _sequence(data: bytes) -> list[bytes]:
    """The contents of the DER values that stand one after the other in `data`. Raises `struct.error`."""
    cursor = _Cursor(data)
    values: list[bytes] = []
    while not cursor.ended:
        cursor.number(">B")  # tag
        length = cursor.number(">B")
        if length & 0x80:
            length = int.from_bytes(cursor.block(length & 0x7F), "big")
        values.append(cursor.block(length))
    return values


def _pem(kind: str, der: bytes) -> str:
    text = base64.b64encode(der).decode("ascii")
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    return "\n".join((f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----"))
