"""Between bytes and decoders: files in a folder of this process, and digests made right again.

A digest would refuse nearly every changed input at once; with the right one behind the change, what is behind it is reached.
"""

from __future__ import annotations

import functools
import hashlib
import json
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import google_crc32c

from drlib.kafka.protocol.batch import CRC_FROM, HEADER_SIZE
from drlib.runs.journal import FIRST

_WHITENER: Final = b"Mighty Aphrodite"


def text(decode: Callable[[str], object]) -> Callable[[bytes], object]:
    """The decoder of a text, which was read as UTF-8."""
    return lambda data: decode(data.decode(errors="replace"))


def word(decode: Callable[[str], object]) -> Callable[[bytes], object]:
    """The decoder of a text that came with JSON or a properties file: a lone surrogate may be in it."""

    def decoder(data: bytes) -> object:
        try:
            value = data.decode(errors="surrogatepass")
        except UnicodeDecodeError:
            value = data.decode(errors="replace")
        return decode(value)

    return decoder


@functools.cache
def _scratch() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="fuzz-")


def folder() -> Path:
    """A folder of this process, removed at its end."""
    return Path(_scratch().name)


def file(decode: Callable[[Path], object], name: str = "file") -> Callable[[bytes], object]:
    """The decoder of a file called `name`."""
    return files(lambda where: decode(where / name), name)


def files(decode: Callable[[Path], object], *names: str) -> Callable[..., object]:
    """The decoder of a folder with files of these names, one part each; an empty part is a file that is not there."""

    def decoder(*parts: bytes) -> object:
        where = folder() / hashlib.sha256(repr(names).encode()).hexdigest()[:8]
        for name, part in zip(names, parts, strict=True):
            path = where / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            if part:
                path.write_bytes(part)
                path.chmod(0o600)
        return decode(where)

    return decoder


def with_checksum(batch: bytes) -> bytes:
    """A batch of format 2 whose CRC-32C is that of its bytes."""
    if len(batch) < HEADER_SIZE:
        return batch
    return batch[:17] + struct.pack(">I", google_crc32c.value(batch[CRC_FROM:])) + batch[CRC_FROM:]


def sealed_store(contents: bytes, password: str) -> bytes:
    """A JKS store with the digest of its contents, the last 20 bytes replaced."""
    body = contents[:-20]
    return body + hashlib.sha1(password.encode("utf-16-be") + _WHITENER + body).digest()


def chained(journal: bytes) -> bytes:
    """The lines of a run's journal, each chained to the one before it where it is a JSON object."""
    lines: list[bytes] = []
    previous = FIRST
    for number, line in enumerate(journal.splitlines(keepends=True)):
        try:
            body = json.loads(line)
            if isinstance(body, dict):
                body |= {"seq": number, "previous": previous}
                body.pop("hash", None)
                previous = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
                line = json.dumps({**body, "hash": previous}).encode() + b"\n"
        except (ValueError, RecursionError):
            pass
        lines.append(line)
    return b"".join(lines)
