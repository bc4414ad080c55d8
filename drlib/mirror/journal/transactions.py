"""Journal entries of the source's transactions: what each mirrored partition has of them, and which partitions they have.

Rules:
- Only the newest are kept: an entry's key is a slot of a ring, so that compaction leaves a bounded number of them, and nothing
  has to be folded or deleted. `number` counts the slots that were begun: from `SLOTS` on the oldest are gone.
- `Transactions` is journaled in the same call as the promises of its records, so that it precedes them on the target. Records
  of aborted transactions are not copied and not noted, nor are their markers.
- Without transactions on the source no entry is written.
- Epochs of clients without transaction version 2 stay, so that their transactions are numbered: on one side the commit markers
  of a producer ID and epoch in a partition, on the other what its coordinator decided to commit there. Both count from 1, the
  first one of that epoch; 0 is a number that is not known. Where there are none, none are written.
- Every number is at most 63 bits; what does not fit is a `ValueError`.
Not for: what the entries mean together (`drlib.mirror.transactions.rules`).
Source: on Kafka 4.3.1 a commit marker has the epoch of its transaction's records, or the next one where its client uses
transaction version 2 (KIP-890).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Annotated, Final, NamedTuple

from drlib.decoding import MOST_INTEGER
from drlib.mirror.journal.fields import (
    Fields,
    FieldType,
    Int32,
    JournalEntry,
    Number,
    SourcePartition,
    entry,
    pack_varint,
)
from drlib.model import TopicPartition

SLOTS: Final = 64
SLOT_EVENTS: Final = 64
"""An entry is written again with every response until it has so many: then the next slot is begun."""
MOST_EVENTS: Final = 1024
"""One response can bring many more than a slot has room for; an entry stays far below what a batch may have."""
PREPARED_SLOTS: Final = 256
PREPARED_EACH: Final = 32
_MOST_EPOCH: Final = 2**15 - 1
GAP: Final = MOST_INTEGER
"""In place of a producer ID: an event of a gap in the log, at its last offset, where counts ended."""


class TransactionEvent(NamedTuple):
    """Committed records of one producer at every offset of [`first`, `end`) that has one; or, without records, the marker
    that committed a transaction, at `first`, written at `at_ms` by its leader's clock. `nth`: of the producer's committed
    transactions of that epoch in this partition, 0 where that is not known or the epoch says it."""

    producer_id: int
    epoch: int
    first: int
    end: int
    records: int
    at_ms: int = 0
    nth: int = 0

    @property
    def is_marker(self) -> bool:
        return not self.records


class TransactionCommitted(NamedTuple):
    """A transaction that the source's coordinator decided to commit, from `__transaction_state`.

    `epoch`: as in that record. `version`: the client's transaction version, from 2 on `epoch` is the one behind that of the
    records. `read_to`: the partition of `__transaction_state` and the offset behind the record. `partitions`: those of it that
    the flow mirrors, and of `__consumer_offsets`. `number`: of the producer's transactions of that epoch that have such
    partitions; `nths`: the same for each partition, in the order of `partitions_of`. Both are 0 where they are not known, and
    with version 2. A `nths` of zeros with `number` 0 says that records were lost before it: earlier numbers do not continue.
    `early`: it began before a worker first followed, so that records of it may lie before those that are mirrored.
    """

    read_to: tuple[int, int]
    transactional_id: str
    producer_id: int
    epoch: int
    version: int
    at_ms: int
    partitions: tuple[tuple[str, tuple[int, ...]], ...]
    number: int = 0
    nths: tuple[int, ...] = ()
    early: bool = False


def partitions_of(committed: TransactionCommitted) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for topic, numbers in committed.partitions for number in numbers]


def _pack_events(events: Sequence[TransactionEvent]) -> bytes:
    out = bytearray()
    pack_varint(out, len(events))
    before = 0
    for each in events:
        numbers = each.producer_id, each.epoch, each.first - before, each.end - each.first, each.records
        for number in numbers if each.records else (*numbers, each.at_ms):
            pack_varint(out, number)
        before = each.first
    if any(each.nth for each in events):
        for each in events:
            pack_varint(out, each.nth)
    return bytes(out)


def _read_events(fields: Fields) -> tuple[TransactionEvent, ...]:
    events: list[TransactionEvent] = []
    first = 0
    for _ in range(fields.varint_up_to(MOST_EVENTS)):
        producer_id, epoch = fields.varint_up_to(), fields.varint_up_to(_MOST_EPOCH)
        first += fields.varint_up_to()
        length, records = fields.varint_up_to(), fields.varint_up_to()
        end = first + length
        if end > MOST_INTEGER or not length or records > length:
            raise ValueError(f"{records} records in {length} offsets from {first} on")
        events.append(
            TransactionEvent(producer_id, epoch, first, end, records, 0 if records else fields.varint_up_to())
        )
    if fields.left:
        events = [event._replace(nth=fields.varint_up_to()) for event in events]
        if not any(event.nth for event in events):
            raise ValueError("numbers of transactions that are all 0")
    return tuple(events)


def _pack_text(out: bytearray, text: str) -> None:
    raw = text.encode()
    pack_varint(out, len(raw))
    out += raw


def _read_text(fields: Fields) -> str:
    return fields.raw(fields.varint_up_to()).decode()


def _pack_committed(committed: Sequence[TransactionCommitted]) -> bytes:
    out = bytearray()
    pack_varint(out, len(committed))
    for each in committed:
        for number in (*each.read_to, each.producer_id, each.epoch, each.version, each.at_ms, len(each.partitions)):
            pack_varint(out, number)
        _pack_text(out, each.transactional_id)
        for topic, partitions in each.partitions:
            _pack_text(out, topic)
            for number in (len(partitions), *partitions):
                pack_varint(out, number)
    early = any(each.early for each in committed)
    if early or any(each.nths for each in committed):
        for each in committed:
            for number in (each.number, len(each.nths), *each.nths):
                pack_varint(out, number)
    if early:
        for each in committed:
            pack_varint(out, each.early)
    return bytes(out)


def _read_committed(fields: Fields) -> tuple[TransactionCommitted, ...]:
    found: list[TransactionCommitted] = []
    for _ in range(fields.varint_up_to(PREPARED_EACH)):
        read_to = fields.varint_up_to(), fields.varint_up_to()
        producer_id, epoch, version = (
            fields.varint_up_to(),
            fields.varint_up_to(_MOST_EPOCH),
            fields.varint_up_to(_MOST_EPOCH),
        )
        at_ms, topics = fields.varint_up_to(), fields.varint_up_to()
        name = _read_text(fields)
        partitions = tuple((_read_text(fields), _read_numbers(fields)) for _ in range(topics))
        found.append(TransactionCommitted(read_to, name, producer_id, epoch, version, at_ms, partitions))
    if fields.left:
        found = [each._replace(number=fields.varint_up_to(), nths=_read_numbers(fields)) for each in found]
        if any(len(each.nths) not in (0, len(partitions_of(each))) for each in found):
            raise ValueError("not as many numbers as a transaction has partitions")
        if not fields.left and not any(each.nths for each in found):
            raise ValueError("no number of a transaction")
    if fields.left:
        found = [each._replace(early=bool(fields.varint_up_to(1))) for each in found]
        if not any(each.early for each in found):
            raise ValueError("no early transaction where one belongs")
    return tuple(found)


def _read_numbers(fields: Fields) -> tuple[int, ...]:
    return tuple(fields.varint_up_to() for _ in range(fields.varint_up_to()))


Events = Annotated[tuple[TransactionEvent, ...], FieldType(_pack_events, _read_events)]
CommittedOnes = Annotated[tuple[TransactionCommitted, ...], FieldType(_pack_committed, _read_committed)]


@entry(27, key=2)
class Transactions(JournalEntry):
    """What was read of a partition's committed transactions, in the order of its log. Precedes the records."""

    partition: SourcePartition
    slot: Int32
    number: Number
    events: Events


@entry(28, key=1)
class CommittedTransactions(JournalEntry):
    """Transactions and their partitions, in the order in which one worker read them from `__transaction_state`."""

    slot: Int32
    number: Number
    transactions: CommittedOnes


class TransactionRing:
    """Notes the transactions of one partition as they are read, and returns what is to be journaled."""

    __slots__ = ("_changed", "_events", "_number")

    def __init__(self, number: int = 0) -> None:
        """`number`: of the first slot to be begun."""
        self._number = number
        self._events: list[TransactionEvent] = []
        self._changed = False

    def note(self, event: TransactionEvent) -> None:
        """Note what was read next. Records that continue those before them are one event."""
        self._changed = True
        last = self._events[-1] if self._events else None
        if (
            last is not None and event.first < last.end
        ):  # read again, after a pause: the order within an entry is the log's
            self._number += 1
            self._events.clear()
        elif (
            last is not None
            and last.records
            and event.records
            and last.end == event.first
            and (last.producer_id, last.epoch, last.nth) == (event.producer_id, event.epoch, event.nth)
        ):
            self._events[-1] = last._replace(end=event.end, records=last.records + event.records)
            return
        self._events.append(event)

    def take(self, partition: SourcePartition) -> list[Transactions]:
        """What to journal now; nothing where nothing was noted."""
        if not self._changed:
            return []
        self._changed = False
        found = []
        while True:
            events = tuple(self._events[:MOST_EVENTS])
            found.append(Transactions(partition, self._number % SLOTS, self._number, events))
            if len(self._events) < SLOT_EVENTS:
                return found
            self._number += 1
            del self._events[:MOST_EVENTS]
            if not self._events:
                return found


def by_partition(entries: Iterable[JournalEntry]) -> dict[SourcePartition, list[Transactions]]:
    """The recorded transactions of each partition, oldest first."""
    found: dict[SourcePartition, list[Transactions]] = defaultdict(list)
    for each in entries:
        if isinstance(each, Transactions):
            found[each.partition].append(each)
    for slots in found.values():
        slots.sort(key=lambda slot: slot.number)
    return found
