"""What a hook says, as evidence may keep it: its beginning and its end, and no secret in it.

Rules: what a reference stands for is hidden before anything is cut, so no part of a secret is left at a cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from drlib.kafka.java_formats import references

KEPT: Final = 4096  # bytes of output kept from its beginning, and as many from its end
ABORTED: Final = "it was ended, as the run was aborted"


class Secrets:
    """The values behind references, and text without them."""

    def __init__(self, texts: Iterable[str], where: str) -> None:
        found = {value for text in texts for value in references.values(text, where) if value}
        self._values = sorted((value.encode() for value in found), key=len, reverse=True)

    @property
    def longest(self) -> int:
        return max(map(len, self._values), default=0)

    def hide(self, raw: bytes) -> bytes:
        for value in self._values:
            raw = raw.replace(value, references.HIDDEN.encode())
        return raw


class Kept:
    """The beginning and the end of what is written, with a margin, so that no secret is cut before it is hidden."""

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._room = KEPT + secrets.longest
        self._head = b""
        self._tail = b""
        self._size = 0

    def take(self, chunk: bytes) -> None:
        self._size += len(chunk)
        fits = self._room - len(self._head)
        self._head += chunk[:fits]
        self._tail = (self._tail + chunk[fits:])[-self._room :]

    def shown(self) -> tuple[str, int]:
        """The text, and how many bytes were left out of its middle."""
        if len(self._head) + len(self._tail) == self._size:
            whole = self._secrets.hide(self._head + self._tail)
            if len(whole) <= 2 * KEPT:
                return whole.decode(errors="replace"), 0
            head, tail = whole[:KEPT], whole[-KEPT:]
            return _joined(head, tail), len(whole) - 2 * KEPT
        head, tail = self._secrets.hide(self._head)[:KEPT], self._secrets.hide(self._tail)[-KEPT:]
        return _joined(head, tail), self._size - len(head) - len(tail)


def _joined(head: bytes, tail: bytes) -> str:
    return f"{head.decode(errors='replace')}\n[...]\n{tail.decode(errors='replace')}"


def written(name: str, value: str) -> str:
    """A value as evidence may show it: references as they are written and the rest hidden where there are any."""
    return references.shown("secret" if references.refers(value) else name, value)


def listed(codes: Iterable[int]) -> str:
    return ", ".join(map(str, codes))
