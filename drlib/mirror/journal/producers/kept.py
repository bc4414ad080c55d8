"""Which producers of a lane's source partitions are kept, and what of them is journaled. Pure.

Rules:
- A producer is noted when a batch of it is copied. When a partition's leader names its producers, these replace what was kept:
  so a producer expires when the source forgets it (`producer.id.expiration.ms`), and one that wrote before it was mirrored is
  known. Where leaders cannot be asked, one expires `EXPIRE_MS` after its last record.
- At most `MOST_PRODUCERS` of a lane are kept; what has no room is counted.
- A producer keeps its slot. A slot is journaled again when a producer joins or leaves it, has another epoch or name, or has
  written `RENEW_MS` after what is journaled of the slot.
Source: Kafka's ProducerStateManager (`isProducerExpired`, by the timestamp of the last batch).
Not for: reading batches (`drlib.mirror.engine.fetch.partition_stream`), asking and journaling
(`drlib.mirror.source_producers.recorder`).
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from drlib.mirror.journal.fields import SourcePartition
from drlib.mirror.journal.producers.kinds import (
    MOST_EPOCH,
    MOST_PRODUCERS,
    RENEW_MS,
    SLOT_PRODUCERS,
    KeptProducer,
    Producers,
)

EXPIRE_MS: Final = 86_400_000  # Kafka's default


class SeenProducer(NamedTuple):
    """What the newest copied batch of a producer says. `last_ms`: its newest timestamp, below 0 for none."""

    epoch: int
    last_ms: int
    transactional: bool


class _Slot:
    __slots__ = ("ids", "written_ms")

    def __init__(self) -> None:
        self.ids: set[int] = set()
        self.written_ms = 0  # the newest time in it that is journaled


class _Partition:
    """The producers of one partition, each with its slot."""

    __slots__ = ("changed", "of", "room", "slots")

    def __init__(self) -> None:
        self.of: dict[int, tuple[int, KeptProducer]] = {}
        self.slots: dict[int, _Slot] = {}
        self.room: list[int] = []  # a heap of slots that may have room
        self.changed: set[int] = set()

    def restore(self, number: int, producers: Iterable[KeptProducer]) -> None:
        slot = self._begin(number)
        for each in producers:
            if each.producer_id not in self.of:
                self.of[each.producer_id] = number, each
                slot.ids.add(each.producer_id)
                slot.written_ms = max(slot.written_ms, each.last_ms)
            else:  # not written by any version: the slot is cleared of it
                self.changed.add(number)

    def put(self, each: KeptProducer) -> None:
        known = self.of.get(each.producer_id)
        if known is None:
            number = self._free()
            self.slots[number].ids.add(each.producer_id)
            self.changed.add(number)
        else:
            number, before = known
            same = before._replace(last_ms=each.last_ms) == each
            if not same or each.last_ms >= self.slots[number].written_ms + RENEW_MS:
                self.changed.add(number)
        self.of[each.producer_id] = number, each

    def remove(self, producer_id: int) -> None:
        number, _ = self.of.pop(producer_id)
        self.slots[number].ids.remove(producer_id)
        self.changed.add(number)
        heapq.heappush(self.room, number)

    def take(self, key: SourcePartition) -> list[Producers]:
        found = []
        for number in sorted(self.changed):
            slot = self.slots[number]
            producers = tuple(self.of[each][1] for each in sorted(slot.ids))
            slot.written_ms = max((each.last_ms for each in producers), default=0)
            found.append(Producers(key, number, producers))
        self.changed.clear()
        return found

    def _free(self) -> int:
        while self.room:
            number = self.room[0]
            if len(self.slots[number].ids) < SLOT_PRODUCERS:
                return number
            heapq.heappop(self.room)
        number = len(self.slots)
        while number in self.slots:
            number += 1
        self._begin(number)
        return number

    def _begin(self, number: int) -> _Slot:
        heapq.heappush(self.room, number)
        return self.slots.setdefault(number, _Slot())


class KeptProducers:
    """The producers of one lane. `entries`: those of its journal."""

    def __init__(self, entries: Iterable[Producers], most: int = MOST_PRODUCERS) -> None:
        self._most = most
        self._of: dict[SourcePartition, _Partition] = {}
        self._left_out: dict[SourcePartition, int] = {}
        for each in entries:
            self._partition(each.partition).restore(each.slot, each.producers)
        self._count = sum(len(each.of) for each in self._of.values())

    def __len__(self) -> int:
        return self._count

    @property
    def left_out(self) -> int:
        """How many there is no room for, at least."""
        return sum(self._left_out.values())

    def note(self, key: SourcePartition, seen: Mapping[int, SeenProducer]) -> None:
        """Note the producers of copied batches, by ID."""
        partition, left = self._partition(key), 0
        for producer_id, each in seen.items():
            if producer_id < 0 or not 0 <= each.epoch <= MOST_EPOCH:
                continue
            known = partition.of.get(producer_id)
            added = KeptProducer(producer_id, each.epoch, max(0, each.last_ms), each.transactional)
            if known is not None:
                if (each.epoch, each.last_ms) <= (known[1].epoch, known[1].last_ms):
                    continue  # the leader knows what is copied later
                added = added._replace(name=known[1].name)
            left += not self._put(partition, added)
        self._leave_out(key, max(left, self._left_out.get(key, 0)))

    def replace(self, key: SourcePartition, named: Collection[KeptProducer]) -> None:
        """Keep those that the partition's leader named, and no others; where there is no room, those that wrote last."""
        partition = self._partition(key)
        there = {each.producer_id: each for each in named if each.producer_id >= 0 and 0 <= each.epoch <= MOST_EPOCH}
        for producer_id in partition.of.keys() - there.keys():
            partition.remove(producer_id)
            self._count -= 1
        newest_first = sorted(there.values(), key=lambda each: -each.last_ms)
        self._leave_out(key, sum(not self._put(partition, each) for each in newest_first))

    def expire(self, now_ms: int, named: Collection[SourcePartition]) -> None:
        """Forget those whose last record is older than `EXPIRE_MS`, apart from partitions whose leaders `named` theirs."""
        self._left_out = {key: count for key, count in self._left_out.items() if key in named}
        for key, partition in self._of.items():
            if key in named:
                continue
            for producer_id in [n for n, (_, each) in partition.of.items() if each.last_ms <= now_ms - EXPIRE_MS]:
                partition.remove(producer_id)
                self._count -= 1

    def take(self) -> list[Producers]:
        """What to journal now; nothing where nothing has changed."""
        return [entry for key, partition in self._of.items() for entry in partition.take(key)]

    def adopt(self, earlier: KeptProducers) -> None:
        """Add what `earlier`, of a claim before, knew and could not journal."""
        for key, partition in earlier._of.items():
            mine = self._partition(key)
            for _, each in partition.of.values():
                if (before := mine.of.get(each.producer_id)) is None or before[1].epoch < each.epoch:
                    self._put(mine, each)

    def _put(self, partition: _Partition, each: KeptProducer) -> bool:
        """Keep a producer; False where there is no room."""
        if each.producer_id not in partition.of:
            if self._count >= self._most:
                return False
            self._count += 1
        partition.put(each)
        return True

    def _leave_out(self, key: SourcePartition, count: int) -> None:
        if count:
            self._left_out[key] = count
        else:
            self._left_out.pop(key, None)

    def _partition(self, key: SourcePartition) -> _Partition:
        found = self._of.get(key)
        if found is None:
            found = self._of[key] = _Partition()
        return found
