"""A record's content as 16 bytes, so that records of two clusters can be compared. Pure."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from typing import Final

_LENGTH: Final = struct.Struct(">iq")


def digest(
    key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]], timestamp: int | None
) -> bytes:
    """16 bytes that two records share when their content is the same; `timestamp` None leaves it out."""
    content = hashlib.blake2b(digest_size=16)
    for part in (key, value, *(p for name, held in headers for p in (name.encode(), held))):
        content.update(_LENGTH.pack(-1 if part is None else len(part), -1 if timestamp is None else timestamp))
        content.update(part or b"")
    return content.digest()
