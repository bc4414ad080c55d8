"""Decide what the bootstrap address does: which cluster, which server first, which connection ends for a new one. Pure.

Rules:
- The cluster changes with a newer version of the pointer only. An older version, another pointer of the same version and a
  cluster that the file does not have change nothing, so that a doubt never moves a client.
- Connections are closed when the pointer names another cluster, and only then: a new version that names the same one is a hold,
  its end, or a repair, none of which concerns clients that follow no pointer.
- Of the cluster's servers each connection begins with the next one; a server that failed comes last for `FAILED_S`.
- When all places are taken, the connection that was silent for the longest ends for the new one, unless all are in use.
  A client needs its bootstrap connection for one answer only. A connection has two open files; `OTHER_FILES` of those that a
  process may have, and half of a few, are kept for the pointer, metrics and the state file.
- Each side of a connection may end its own half. `TRANSITIONS` has what then happens; any other transition is refused.
Not for: moving bytes (`connection`), sockets (`proxy`), reading the pointer (`drlib.client.pointer_watch`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from drlib.client.pointer import Pointer

FAILED_S: Final = 5.0
IN_USE_S: Final = 5.0  # a connection with bytes in the last seconds is not ended for another one
OTHER_FILES: Final = 128
Address = tuple[str, int]  # an IP address or a host name, and a port


@dataclass(frozen=True, slots=True)
class Known:
    """The pointer that connections follow: its version, and the cluster's alias."""

    version: int
    cluster: str


@dataclass(frozen=True, slots=True)
class CertificateName:
    """Whether the certificate of a bootstrap server is also `host`'s; `named` is None where `why` it is not known."""

    server: str
    host: str
    named: bool | None
    why: str = ""


class Change(StrEnum):
    """What a pointer means for the connections there are and for new ones."""

    NONE = "none"  # both stay where they are
    FIRST = "first"  # connections are accepted from now on
    KEEP = "keep"  # a newer version of the same cluster
    MOVE = "move"  # those to the former cluster are closed
    CONFLICT = "conflict"  # another pointer with the version that is followed
    UNKNOWN_CLUSTER = "unknown cluster"


class Age(StrEnum):
    """The version of a pointer beside the one that is followed."""

    FIRST = "first"
    OLDER = "older"
    SAME = "same"
    NEWER = "newer"


class Names(StrEnum):
    """The cluster of a pointer beside the one that is followed."""

    SAME = "same"
    OTHER = "other"
    UNKNOWN = "unknown"  # to the file


CHANGES: Final[Mapping[tuple[Age, Names], Change]] = {
    (Age.FIRST, Names.OTHER): Change.FIRST,
    (Age.FIRST, Names.UNKNOWN): Change.UNKNOWN_CLUSTER,
    (Age.OLDER, Names.SAME): Change.NONE,
    (Age.OLDER, Names.OTHER): Change.NONE,
    (Age.OLDER, Names.UNKNOWN): Change.NONE,
    (Age.SAME, Names.SAME): Change.NONE,
    (Age.SAME, Names.OTHER): Change.CONFLICT,
    (Age.SAME, Names.UNKNOWN): Change.CONFLICT,
    (Age.NEWER, Names.SAME): Change.KEEP,
    (Age.NEWER, Names.OTHER): Change.MOVE,
    (Age.NEWER, Names.UNKNOWN): Change.UNKNOWN_CLUSTER,
}


def change(known: Known | None, pointer: Pointer | None, clusters: Collection[str]) -> Change:
    """What `pointer`, None where there is none, means for who follows `known`; `clusters`: the aliases of the file."""
    if pointer is None:
        return Change.NONE
    return CHANGES[_age(known, pointer), _names(known, pointer, clusters)]


def _age(known: Known | None, pointer: Pointer) -> Age:
    if known is None:
        return Age.FIRST
    if pointer.version == known.version:
        return Age.SAME
    return Age.NEWER if pointer.version > known.version else Age.OLDER


def _names(known: Known | None, pointer: Pointer, clusters: Collection[str]) -> Names:
    if pointer.active not in clusters:
        return Names.UNKNOWN
    return Names.SAME if known is not None and pointer.active == known.cluster else Names.OTHER


def servers_in_turn(servers: Sequence[str], turn: int, failed_at: Mapping[str, float], now: float) -> tuple[str, ...]:
    """All `servers`, beginning with the one whose `turn` it is. Times are of one monotonic clock, in seconds."""
    start = turn % len(servers)
    rotated = (*servers[start:], *servers[:start])
    return tuple(sorted(rotated, key=lambda server: now - failed_at.get(server, float("-inf")) < FAILED_S))


def ended_for_new(silent_s: Sequence[float], limit: int) -> int | None:
    """The index of the connection that ends for a new one; -1 when there is room, None when the new one is refused."""
    if len(silent_s) < limit:
        return -1
    longest = max(range(len(silent_s)), key=silent_s.__getitem__)
    return longest if silent_s[longest] >= IN_USE_S else None


def connections_within(files: int) -> int:
    """How many connections a process passes on that may have so many open files."""
    return (files - min(OTHER_FILES, files // 2)) // 2


def leading_here(addresses: Mapping[str, Collection[Address]], own: Collection[Address]) -> tuple[str, ...]:
    """Those of `addresses` (each with what its name resolves to) at which this process listens itself."""
    return tuple(name for name, resolved in addresses.items() if set(resolved) & set(own))


class State(StrEnum):
    """A connection that is passed on."""

    CONNECTING = "connecting"  # to a server; nothing is read from the client
    OPEN = "open"
    CLIENT_ENDED = "client ended"  # it sends no more, and still reads
    SERVER_ENDED = "server ended"
    CLOSED = "closed"


class Happened(StrEnum):
    CONNECTED = "connected"
    CLIENT_END = "client end"
    SERVER_END = "server end"
    LOST = "lost"  # one of the two sockets, with or without an error
    GIVEN_UP = "given up"  # no server, idle for too long, moved, drained


class Act(StrEnum):
    READ = "read"  # from both
    END_SERVER = "end server"  # pass the end of one half on
    END_CLIENT = "end client"
    CLOSE = "close"  # both, once the bytes that were read are delivered
    ABORT = "abort"  # both, at once


TRANSITIONS: Final[Mapping[tuple[State, Happened], tuple[State, Act]]] = {
    (State.CONNECTING, Happened.CONNECTED): (State.OPEN, Act.READ),
    (State.CONNECTING, Happened.CLIENT_END): (State.CLOSED, Act.ABORT),
    (State.CONNECTING, Happened.LOST): (State.CLOSED, Act.ABORT),
    (State.CONNECTING, Happened.GIVEN_UP): (State.CLOSED, Act.ABORT),
    (State.OPEN, Happened.CLIENT_END): (State.CLIENT_ENDED, Act.END_SERVER),
    (State.OPEN, Happened.SERVER_END): (State.SERVER_ENDED, Act.END_CLIENT),
    (State.OPEN, Happened.LOST): (State.CLOSED, Act.CLOSE),
    (State.OPEN, Happened.GIVEN_UP): (State.CLOSED, Act.ABORT),
    (State.CLIENT_ENDED, Happened.SERVER_END): (State.CLOSED, Act.CLOSE),
    (State.CLIENT_ENDED, Happened.LOST): (State.CLOSED, Act.CLOSE),
    (State.CLIENT_ENDED, Happened.GIVEN_UP): (State.CLOSED, Act.ABORT),
    (State.SERVER_ENDED, Happened.CLIENT_END): (State.CLOSED, Act.CLOSE),
    (State.SERVER_ENDED, Happened.LOST): (State.CLOSED, Act.CLOSE),
    (State.SERVER_ENDED, Happened.GIVEN_UP): (State.CLOSED, Act.ABORT),
}
