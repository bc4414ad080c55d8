"""Read key stores and trust stores of Java clients as PEM text.

Rules: PEM, PKCS12 and JKS are supported. As in Java, a PKCS12 or JKS file is recognized by its contents, whichever of the two
types is set. A PKCS12 file is opened by the `openssl` program, its password through a pipe and its contents never on disk; a
JKS file by `drlib.kafka.java_formats.jks`. A store that cannot be opened says why. No password is in an error or an
argument list.
Source: Kafka's `DefaultSslEngineFactory`; Java's dual-format keystores (JEP 229).
Not for: verifying certificates (`drlib.kafka.security.tls`).
"""

import functools
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from drlib.errors import MissingDependency, UsageError
from drlib.files import read_given_bytes
from drlib.kafka.java_formats import jks
from drlib.outgoing.environment import child_environment

TYPES: Final = ("PEM", "PKCS12", "JKS")
_JCEKS: Final = b"\xce\xce\xce\xce"
_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_KEY: Final = re.compile(r"-----BEGIN ([A-Z ]*)PRIVATE KEY-----.*?-----END \1PRIVATE KEY-----", re.DOTALL)
_PATIENCE_S: Final = 20.0
_MOST_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class KeyStore:
    """The client's certificates, its own first, and its private key, which may be encrypted."""

    certificate_pem: str = field(repr=False)
    key_pem: str = field(repr=False)


def trusted(path: str, store_type: str, password: str, where: str, written: str) -> str:
    """The certificates in a trust store, PEM. Raises `UsageError`.

    `where` is the key that errors name, `written` the path as the file has it, which may be a reference.
    """
    return certificates(_text(path, store_type, password, where, written), where)


def key_store(path: str, store_type: str, password: str, where: str, written: str, key_password: str = "") -> KeyStore:
    """Certificate chain and private key in a key store; `where` and `written` as for `trusted`. Raises `UsageError`.

    `key_password` is the key's own, where it is not the store's; a PKCS12 file has one for both, as Java requires.
    """
    text = _text(path, store_type, password, where, written, key_password)
    return KeyStore(certificates(text, where), private_key(text, where))


def certificates(text: str, where: str) -> str:
    """Every certificate in PEM `text`. Raises `UsageError` when there is none."""
    blocks = _CERTIFICATE.findall(text)
    if not blocks:
        raise UsageError(f"{where} holds no certificate", "a PEM certificate is expected", "Give a PEM certificate.")
    return "\n".join(blocks) + "\n"


def private_key(text: str, where: str) -> str:
    """The private key in PEM `text`. Raises `UsageError` when there is none."""
    block = _KEY.search(text)
    if block is None:
        raise UsageError(
            f"{where} holds no private key", "a PEM private key is expected", "Set it to a PEM private key."
        )
    return block[0] + "\n"


def _text(path: str, store_type: str, password: str, where: str, written: str, key_password: str = "") -> str:
    """What a store holds, as PEM."""
    contents = _read(path, where, written)
    if store_type == "PEM":
        return _pem(contents, written, where)
    return _opened(contents, written, store_type, password, where, key_password)


def _read(path: str, where: str, written: str) -> bytes:
    try:
        return read_given_bytes(Path(path), _MOST_BYTES)
    except OSError as error:
        raise UsageError(
            f"{where}: {written} cannot be read", error.strerror or type(error).__name__, f"Correct {where}."
        ) from error
    except ValueError:
        raise UsageError(f"{where} cannot be read", "it is no path", f"Correct {where}.") from None


def _pem(contents: bytes, written: str, where: str) -> str:
    text = contents.decode("ascii", errors="replace")
    if "-----BEGIN" not in text:
        other = "JKS" if contents.startswith(jks.MAGIC) else "PKCS12"
        raise UsageError(
            f"{where}: {written} is not PEM",
            "its type is set to PEM",
            f"Set its type to {other}, or convert it to PEM.",
        )
    return text


def _opened(contents: bytes, written: str, store_type: str, password: str, where: str, key_password: str = "") -> str:
    if contents.startswith(jks.MAGIC):
        return _jks(contents, password, key_password, written, where)
    if contents.startswith(_JCEKS):
        raise UsageError(
            f"{where}: {written} is a JCEKS store",
            "drlib reads PEM, PKCS12 and JKS",
            f"Convert it: keytool -importkeystore -srckeystore {written} -srcstoretype JCEKS -destkeystore {written}.p12 "
            "-deststoretype PKCS12, and set location and type to the new file and PKCS12.",
        )
    if b"-----BEGIN" in contents[:4096]:
        raise UsageError(f"{where}: {written} is PEM", f"its type is {store_type}", "Set its type to PEM.")
    return _pkcs12(contents, password, written, where)


def _jks(contents: bytes, password: str, key_password: str, written: str, where: str) -> str:
    try:
        store = jks.read(contents, password, key_password)
    except jks.WrongPassword as error:
        raise UsageError(
            f"{where}: {written} cannot be opened",
            f"a password is wrong, or the file is damaged: {error}",
            f"Correct the passwords that go with {where}.",
        ) from error
    except jks.NotJks as error:
        raise UsageError(
            f"{where}: {written} cannot be opened",
            f"it begins like a JKS store, but {error}",
            "Inspect it: keytool -list -keystore STORE",
        ) from error
    return "\n".join((*store.certificates, *store.keys))


@functools.lru_cache(maxsize=16)  # a store is opened for every client that is made; a changed file is another key
def _pkcs12(contents: bytes, password: str, written: str, where: str) -> str:
    """The certificates of `contents`, those with a key first, and its keys, all PEM."""
    program = shutil.which("openssl")
    if program is None:
        raise MissingDependency(
            f"{where}: {written} cannot be opened",
            "PKCS12 stores are opened by the openssl program, and there is none on PATH",
            "Install openssl, or convert the store to PEM on a machine that has it: openssl pkcs12 -in STORE -nodes.",
        )
    if (text := _run(program, contents, password, legacy=False)) is None:
        text = _run(program, contents, password, legacy=True)  # RC2 and 3DES, as Java 8 wrote them
    if text is None:
        raise UsageError(
            f"{where}: {written} cannot be opened",
            "its password is wrong, or it is not a PKCS12 store",
            f"Correct the password and the type that go with {where}.",
        )
    return text


def _run(program: str, contents: bytes, password: str, *, legacy: bool) -> str | None:
    parts = []
    for only in ("-clcerts", "-cacerts"):  # the client's own certificate before those of its issuers
        secret, writing = os.pipe()
        try:
            os.write(writing, password.encode() + b"\n")
            os.close(writing)
            argv = [program, "pkcs12", "-nodes", only, "-passin", f"fd:{secret}", *(["-legacy"] if legacy else [])]
            done = subprocess.run(
                argv,
                input=contents,
                pass_fds=(secret,),
                capture_output=True,
                timeout=_PATIENCE_S,
                check=False,
                env=child_environment(),
            )
        finally:
            os.close(secret)
        if done.returncode != 0:
            return None
        parts.append(done.stdout.decode("utf-8", errors="replace"))
    return "\n".join(parts)
