"""Records of `__transaction_state`: what the source's coordinators decided about each transaction.

Rules: key version 0; a null value is an expired transactional ID; value versions 0 and 1, of which 1 has compact fields and
tags. An unknown version is an error.
Source: TransactionLogKey.json, TransactionLogValue.json and `TransactionState` of Apache Kafka. Seen on 4.3.1: a record of
Empty is written for each InitProducerId, with the epoch of the transactions that follow; the record of PrepareCommit precedes
all markers and has the partitions, and the epoch of the markers; that of CompleteCommit has none.
Not for: following the topic (`recorder`).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from drlib.mirror.mm2.records import MalformedRecord

TRANSACTIONS_TOPIC: Final = "__transaction_state"
EMPTY: Final = 0
ONGOING: Final = 1
PREPARE_COMMIT: Final = 2
_STATES: Final = 8
_MOST_VERSION: Final = 1
_CLIENT_VERSION_TAG: Final = 2


@dataclass(frozen=True, slots=True)
class PreparedCommit:
    """`version`: the client's transaction version, 0 where it is not said. `epoch`: that of the markers."""

    transactional_id: str
    producer_id: int
    epoch: int
    version: int
    at_ms: int
    partitions: tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class ProducerState:
    """Any other state of a producer. `began`: it got this epoch (Empty), of which no transaction is older. `is_open`: it has
    a transaction that is not decided (Ongoing)."""

    producer_id: int
    epoch: int
    began: bool
    is_open: bool = False


def decode(key: bytes | None, value: bytes | None) -> PreparedCommit | ProducerState | None:
    """One record of `__transaction_state`; None of another kind of record, and of an expired transactional ID.

    Raises `MalformedRecord`.
    """
    if key is None or value is None:
        return None
    try:
        version, length = struct.unpack_from(">hh", key)
        if version:
            return None  # another kind of record
        name = _exactly(key, 4, length).decode()
        return _value(name, _Reader(value))
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise MalformedRecord(f"not a record of {TRANSACTIONS_TOPIC}: {error}") from error


def _value(name: str, reader: _Reader) -> PreparedCommit | ProducerState | None:
    version = reader.number(">h")
    if not 0 <= version <= _MOST_VERSION:
        raise MalformedRecord(f"transaction value version {version} is not known")
    reader.compact = version > 0
    producer_id, epoch = reader.number(">q"), reader.number(">h")
    reader.number(">i")  # time-out
    state = reader.number(">b")
    if not 0 <= state < _STATES:
        raise MalformedRecord(f"transaction state {state} is not known")
    partitions = tuple(reader.topic() for _ in range(reader.count()))
    at_ms = reader.number(">q")
    reader.number(">q")  # when it was begun
    client = reader.client_version()
    if reader.at != len(reader.data):
        raise MalformedRecord(f"{len(reader.data) - reader.at} bytes too many in a record of {TRANSACTIONS_TOPIC}")
    if state != PREPARE_COMMIT:
        return ProducerState(producer_id, epoch, state == EMPTY, state == ONGOING)
    if producer_id < 0 or epoch < 0 or at_ms < 0 or any(n < 0 for _, numbers in partitions for n in numbers):
        raise MalformedRecord(f"a negative number in a record of {TRANSACTIONS_TOPIC}")
    return PreparedCommit(name, producer_id, epoch, client, at_ms, partitions)


def _exactly(data: bytes, at: int, length: int) -> bytes:
    if length < 0 or at + length > len(data):
        raise MalformedRecord(f"a string runs past the end of a record of {TRANSACTIONS_TOPIC}")
    return data[at : at + length]


class _Reader:
    """Reads fields one after another; raises `struct.error`, `IndexError` or `MalformedRecord` for bytes that do not fit."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.compact = False

    def number(self, layout: str) -> int:
        (number,) = struct.unpack_from(layout, self.data, self.at)
        self.at += struct.calcsize(layout)
        return int(number)

    def varint(self) -> int:
        number = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number
            if shift > 28:
                raise MalformedRecord(f"a number without an end in a record of {TRANSACTIONS_TOPIC}")

    def count(self) -> int:
        """Of an array; 0 for one that is null. Every element has at least one byte."""
        count = self.varint() - 1 if self.compact else self.number(">i")
        if count > len(self.data) - self.at:
            raise MalformedRecord(f"{count} elements in {len(self.data) - self.at} bytes of {TRANSACTIONS_TOPIC}")
        return max(0, count)

    def text(self) -> str:
        length = self.varint() - 1 if self.compact else self.number(">h")
        raw = _exactly(self.data, self.at, length)
        self.at += length
        return raw.decode()

    def topic(self) -> tuple[str, tuple[int, ...]]:
        topic = self.text()
        numbers = tuple(self.number(">i") for _ in range(self.count()))
        self.tags()
        return topic, numbers

    def tags(self) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        for _ in range(self.varint() if self.compact else 0):
            tag, length = self.varint(), self.varint()
            found[tag] = _exactly(self.data, self.at, length)
            self.at += length
        return found

    def client_version(self) -> int:
        raw = self.tags().get(_CLIENT_VERSION_TAG)
        return 0 if raw is None else int(struct.unpack(">h", raw)[0])
