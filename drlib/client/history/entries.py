"""One entry of the pointer's history, a record of its topic, and which entries a cluster keeps. Pure.

Rules: who replaces a pointer writes the one that was there once more, in the same transaction, under a key of its version and
application. Followers read the keys of their application and of all alone. A hold is no move and is not kept. An entry is
never changed. Entries that another cluster has and this one lacks are written as well, as it was away. The newest `MOST` are
kept, of together `MOST_BYTES`; what is older gets a tombstone. An entry that cannot be read is left where it is.
Not for: the pointer that counts (`drlib.client.pointer_topic`), showing copies (`drlib.client.pointer_copies`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from drlib import decoding
from drlib.client import pointer as pointers
from drlib.client.pointer import Pointer
from drlib.decoding import Undecodable
from drlib.errors import UsageError

PREFIX: Final = "*/"  # `*` is the key of all applications
MOST: Final = 100
MOST_BYTES: Final = 8 << 20
MOST_ENTRY: Final = 900_000  # bytes; a larger one is kept without its cutover, as brokers take a megabyte by default
LATEST_MS: Final = 253_402_300_799_999  # the end of the year 9999


@dataclass(frozen=True, slots=True)
class Past:
    """`pointer` was that of `application` from `written_ms` on."""

    application: str
    pointer: Pointer
    written_ms: int

    @property
    def key(self) -> str:
        return f"{PREFIX}{self.pointer.version}/{self.application}"


History = Mapping[str, Past | UsageError]  # by key; an error where it is not an entry


def is_entry(key: bytes | None) -> bool:
    """Is a record with this key one of the history, and no pointer?"""
    return key is not None and key.startswith(PREFIX.encode())


def encode(past: Past) -> bytes:
    document = {**pointers.document(past.pointer), "written_ms": past.written_ms}
    content = pointers.compact(document)
    return content if len(content) <= MOST_ENTRY else pointers.compact({**document, "cutover": {}})


def decode(key: bytes, value: bytes, where: str) -> Past:
    """Raises `UsageError` where it is not an entry; `where` says which record it is."""
    try:
        version, slash, application = key.decode().removeprefix(PREFIX).partition("/")
        pointer = pointers.decode(value, where)
        document = decoding.json_value(value, most_bytes=pointers.MOST_BYTES)
        at_ms = document.get("written_ms") if isinstance(document, dict) else None
        if type(at_ms) is not int or not 0 <= at_ms <= LATEST_MS:
            raise Undecodable("it needs written_ms, a time in milliseconds")
        if not slash or not application or version != str(pointer.version):
            raise Undecodable("its key does not name its version and an application")
    except (UnicodeDecodeError, Undecodable) as error:
        raise UsageError(
            f"{where} is not an entry of the pointer's history", str(error), "Nothing depends on it: leave it."
        ) from None
    return Past(application, pointer, at_ms)


def apply_entry(history: dict[str, Past | UsageError], key: bytes, value: bytes | None, where: str) -> None:
    """Apply one record to `history`; a tombstone removes its key."""
    name = key.decode(errors="replace")
    if value is None:
        history.pop(name, None)
        return
    try:
        history[name] = decode(key, value, where)
    except UsageError as error:
        history[name] = error


def union(histories: Iterable[Iterable[Past]]) -> dict[str, Past]:
    """The entries of several clusters by key, each with its earliest time; of two different ones the first counts."""
    found: dict[str, Past] = {}
    for past in (each for history in histories for each in history):
        known = found.setdefault(past.key, past)
        if known.pointer == past.pointer and past.written_ms < known.written_ms:
            found[past.key] = replace(known, written_ms=past.written_ms)
    return found


def readable(history: History) -> list[Past]:
    return [each for each in history.values() if isinstance(each, Past)]


def replaced_by(pointer: Pointer, application: str, stored: object, written_ms: int) -> Past | None:
    """What becomes history when `pointer` is written where `stored` is."""
    if not isinstance(stored, Pointer) or stored.hold or stored.version >= pointer.version:
        return None
    return Past(application, stored, min(max(written_ms, 0), LATEST_MS))


def changes(here: History, replaced: Past | None, elsewhere: Mapping[str, Past]) -> dict[str, bytes | None]:
    """What a cluster that keeps `here` writes, by key, with the pointer that replaces `replaced`; None: a tombstone.

    `elsewhere`: what other clusters keep.
    """
    own = {each.key: each for each in readable(here)}
    wanted = {**elsewhere, **own}
    if replaced is not None:
        known = elsewhere.get(replaced.key)
        same = known is not None and known.pointer == replaced.pointer  # with its earliest time
        wanted[replaced.key] = own.get(replaced.key) or (known if known is not None and same else replaced)
    kept: dict[str, bytes] = {}
    size = 0
    for past in sorted(wanted.values(), key=lambda each: (each.pointer.version, each.application), reverse=True):
        content = encode(past)
        size += len(content)
        if len(kept) == MOST or size > MOST_BYTES:
            break
        kept[past.key] = content
    new: dict[str, bytes | None] = {key: content for key, content in kept.items() if key not in here}
    return new | dict.fromkeys(own.keys() - kept.keys())
