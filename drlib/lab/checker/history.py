"""Histories: the operations that applications experienced, one line each, for checkers to judge afterwards.

Rules: a history is append-only; a line is a JSON array that begins with the letter of its row; a line that does not end in a
newline, or does not decode, is *torn*: dropped and counted. An application that stops in order ends its history with an end
line; a history without one is *open*: the application was killed or still runs. A file that does not exist is *missing*, which
differs from an empty one.
Not for: files (`drlib.lab.checker.history_files` reads and writes them) or verdicts (`drlib.lab.checker.lost_and_duplicated`).
"""

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from operator import attrgetter
from typing import Final, TypeAlias

from drlib import decoding

NO_OFFSET = -1  # of a record whose offset the producer did not learn


class ProducedStatus(StrEnum):
    """The outcome of one attempt to produce. Only `ACKED` acknowledges a record."""

    ACKED = "acked"  # the leader (acks=all) answered with partition and offset; of a transaction: it committed
    IN_DOUBT = "in-doubt"  # sent or queued, without a delivery report
    MIRRORED = (
        "mirrored"  # was in doubt, then found in the mirror topic: not sent again; topic and offset are the mirror's
    )
    REFUSED = "refused"  # the broker rejected it; it is not in the log
    ABORTED = "aborted"  # part of a transaction that was aborted on purpose


class CommitStatus(StrEnum):
    """The outcome of one offset commit."""

    ACKED = "acked"
    UNKNOWN = "unknown"  # requested, without an answer: the records are not processed yet
    RESOLVED = "resolved"  # was unknown; the group's position on the other cluster shows that it was applied


@dataclass(frozen=True, slots=True)
class Produced:
    """One attempt to produce the record `id`; `n` counts the records of its key from 0. Unknown offsets are -1."""

    id: str
    key: str
    n: int
    cluster: str
    topic: str
    partition: int
    offset: int
    sent_ms: int
    acked_ms: int
    status: ProducedStatus
    digest: int | None = None


@dataclass(frozen=True, slots=True)
class Consumed:
    """One record a group processed, written only after its position was committed. `offset` is the record's own; `total` the
    running sum of its key with it, of an application that sums."""

    group: str
    cluster: str
    topic: str
    partition: int
    offset: int
    id: str
    key: str
    n: int
    at_ms: int
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Committed:
    """One position of a group: the next offset it will consume."""

    group: str
    cluster: str
    topic: str
    partition: int
    offset: int
    at_ms: int
    status: CommitStatus = CommitStatus.ACKED


@dataclass(frozen=True, slots=True)
class Mirrored:
    """One record found on the target by an independent scan, of the mirror topic or of the local one."""

    topic: str
    partition: int
    offset: int
    id: str
    key: str
    n: int
    timestamp_ms: int
    digest: int | None = None


Row: TypeAlias = Produced | Consumed | Committed | Mirrored

_LETTERS: Final = {Produced: "P", Consumed: "C", Committed: "K", Mirrored: "M"}
_FIELDS: Final = {
    kind: (letter, attrgetter(*(field.name for field in fields(kind)))) for kind, letter in _LETTERS.items()
}
_END = "E"
CONSUMED: Final = (
    b'["C",'  # how the line of a consumed record begins; nothing within a line looks like it, as JSON escapes quotes
)


@dataclass(frozen=True, slots=True)
class History:
    """The rows of one or more history files, in the order they were written.

    `torn` lines were dropped; `open` files have no end line; `missing` files do not exist (their names).
    """

    produced: tuple[Produced, ...] = ()
    consumed: tuple[Consumed, ...] = ()
    committed: tuple[Committed, ...] = ()
    mirrored: tuple[Mirrored, ...] = ()
    torn: int = 0
    open: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def gaps(self) -> list[str]:
        """What makes the history incomplete, in words; empty where every file was read to its end line."""
        return history_gaps(self.torn, self.open, self.missing)

    def __add__(self, other: "History") -> "History":
        return History(
            self.produced + other.produced,
            self.consumed + other.consumed,
            self.committed + other.committed,
            self.mirrored + other.mirrored,
            self.torn + other.torn,
            self.open + other.open,
            self.missing + other.missing,
        )


def history_gaps(torn: int, open_files: Iterable[str], missing: Iterable[str]) -> list[str]:
    gaps = [f"missing: {name}" for name in missing] + [f"not ended: {name}" for name in open_files]
    return gaps + [f"torn lines: {torn}"] * bool(torn)


def encode(row: Row) -> bytes:
    """One row as one line, newline included: its letter, then its fields in their order."""
    letter, fields_of = _FIELDS[type(row)]
    values = fields_of(row)
    if isinstance(row, Consumed) and row.total is None:
        values = values[:-1]
    return json.dumps((letter, *values), separators=(",", ":")).encode() + b"\n"


def encode_end() -> bytes:
    """The end line, which marks a complete history."""
    return b'["E"]\n'


def decode(lines: Iterable[bytes], name: str = "history") -> History:
    """Decode the lines of one file, in order.

    `lines` keep their newlines. Torn lines are dropped and counted; a file whose last good line is not the end line is
    reported as open under `name`. An end line in the middle only means that the application was started again.
    """
    produced: list[Produced] = []
    consumed: list[Consumed] = []
    committed: list[Committed] = []
    mirrored: list[Mirrored] = []
    torn = 0
    ended = False
    for line in lines:
        row = _decode_line(line)
        ended = row == _END
        match row:
            case None:
                torn += 1
            case Produced():
                produced.append(row)
            case Consumed():
                consumed.append(row)
            case Committed():
                committed.append(row)
            case Mirrored():
                mirrored.append(row)
    return History(
        tuple(produced), tuple(consumed), tuple(committed), tuple(mirrored), torn, () if ended else (name,), ()
    )


def digest(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]], timestamp_ms: int
) -> int:
    """A CRC-32 over length-prefixed key, value, headers in order, and the timestamp; null and empty differ."""
    parts = [_prefixed(key), _prefixed(value)]
    for header, content in headers:
        parts += [_prefixed(header.encode()), _prefixed(content)]
    parts.append(timestamp_ms.to_bytes(8, "big", signed=True))
    return zlib.crc32(b"".join(parts))


def _prefixed(content: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if content is None else len(content).to_bytes(4, "big") + content


def _decode_line(line: bytes) -> Row | str | None:
    if not line.endswith(b"\n"):
        return None
    try:
        match decoding.json_value(line):
            case ["E"]:
                return _END
            case ["P", str(i), str(k), int(n), str(c), str(t), int(p), int(o), int(sent), int(acked), str(s), d]:
                return Produced(i, k, n, c, t, p, o, sent, acked, ProducedStatus(s), _optional_int(d))
            case ["C", str(g), str(c), str(t), int(p), int(o), str(i), str(k), int(n), int(at)]:
                return Consumed(g, c, t, p, o, i, k, n, at)
            case ["C", str(g), str(c), str(t), int(p), int(o), str(i), str(k), int(n), int(at), int(total)]:
                return Consumed(g, c, t, p, o, i, k, n, at, total)
            case ["K", str(g), str(c), str(t), int(p), int(o), int(at), str(s)]:
                return Committed(g, c, t, p, o, at, CommitStatus(s))
            case ["M", str(t), int(p), int(o), str(i), str(k), int(n), int(at), d]:
                return Mirrored(t, p, o, i, k, n, at, _optional_int(d))
    except ValueError:  # not JSON, not UTF-8, or an unknown status
        return None
    return None


def _optional_int(value: object) -> int | None:
    if value is None or isinstance(value, int):
        return value
    raise ValueError(f"expected an integer or null, got {value!r}")
