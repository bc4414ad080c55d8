"""Journal entries of the source's producers: which IDs its clients write with, for the day on which it cannot be asked.

Rules:
- Producers of a partition are in slots, each an entry that is written again when one of its producers changes: compaction
  leaves a bounded number of entries, and nothing has to be folded or deleted. A slot whose producers have expired is empty.
- A producer is here with its newest epoch. The time of its last record lags behind by `RENEW_MS` at most.
- Every number is at most 63 bits; what does not fit is a `ValueError`. Versions that do not know the kinds keep the entries.
Not for: what collides (`drlib.drill.producer_ids.rules`), which of them are kept (`kept`).
"""

from __future__ import annotations

from collections.abc import Sequence
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

SLOT_PRODUCERS: Final = 64
MOST_PRODUCERS: Final = 131_072
"""Of a lane. Those that wrote last are kept; the number of the others is journaled."""
RENEW_MS: Final = 600_000
"""A slot is written again once a producer in it has written so much later than the slot says."""
MOST_EPOCH: Final = 2**15 - 1
_TRANSACTIONAL: Final = 1
_NAMED: Final = 2


class KeptProducer(NamedTuple):
    """A producer of one source partition. `last_ms`: the timestamp of its last record, 0 where it is not known; `name`: its
    transactional ID, "" where it has none or it is not known."""

    producer_id: int
    epoch: int
    last_ms: int
    transactional: bool = False
    name: str = ""


def _pack(producers: Sequence[KeptProducer]) -> bytes:
    """By ascending ID, as distances to the ID before, and to the oldest time."""
    out = bytearray()
    pack_varint(out, len(producers))
    if not producers:
        return bytes(out)
    before, oldest = 0, min(each.last_ms for each in producers)
    pack_varint(out, oldest)
    for each in producers:
        flags = _TRANSACTIONAL * each.transactional + _NAMED * bool(each.name)
        for number in (each.producer_id - before, each.epoch, each.last_ms - oldest, flags):
            pack_varint(out, number)
        if each.name:
            raw = each.name.encode()
            pack_varint(out, len(raw))
            out += raw
        before = each.producer_id
    return bytes(out)


def _read(fields: Fields) -> tuple[KeptProducer, ...]:
    count = fields.varint_up_to(SLOT_PRODUCERS)
    found: list[KeptProducer] = []
    oldest = fields.varint_up_to() if count else 0
    producer = 0
    for number in range(count):
        ahead = fields.varint_up_to()
        if number and not ahead:
            raise ValueError(f"producer {producer} twice")
        producer += ahead
        epoch, last_ms = fields.varint_up_to(MOST_EPOCH), oldest + fields.varint_up_to()
        flags = fields.varint_up_to(_TRANSACTIONAL | _NAMED)
        if producer > MOST_INTEGER or last_ms > MOST_INTEGER:
            raise ValueError(f"producer {producer} at {last_ms}")
        name = fields.raw(fields.varint_up_to()).decode() if flags & _NAMED else ""
        if flags & _NAMED and not name:
            raise ValueError(f"producer {producer} has an empty name")
        found.append(KeptProducer(producer, epoch, last_ms, bool(flags & _TRANSACTIONAL), name))
    if found and min(each.last_ms for each in found) != oldest:
        raise ValueError("no producer has the oldest time")
    return tuple(found)


KeptOnes = Annotated[tuple[KeptProducer, ...], FieldType(_pack, _read)]


@entry(29, key=2)
class Producers(JournalEntry):
    """Producers of a source partition, by ascending ID."""

    partition: SourcePartition
    slot: Int32
    producers: KeptOnes


@entry(31, key=0)
class ProducersKnown(JournalEntry):
    """How current a lane's `Producers` are, by the worker's clock in ms since the epoch.

    `asked_ms`: when the leaders of all its source partitions named their producers last, 0 for never. `copied_ms`: producers of
    what was copied until then are in the journal. `left_out`: producers beyond `MOST_PRODUCERS`.
    """

    asked_ms: Number
    copied_ms: Number
    left_out: Number
