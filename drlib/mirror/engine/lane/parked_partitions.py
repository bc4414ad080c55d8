"""Partitions of one lane that stand still for a reason, across its claims: told once, tried again, told when they move.

Rules: a park is one event from when it begins until the partition has moved past it or has nothing left to read, however
many claims lie between. What may go away by itself or by somebody's hand is tried again, by a new claim, because a
promise is never changed within one; ever more patiently, from `FIRST_S` to `LONGEST_S`.
Not for: deciding that a partition must stand still (`drlib.mirror.engine.lane.produce_loop`, `fetcher`, `lane`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.errors import mirror_anew
from drlib.mirror.journal.entries import SourcePartition
from drlib.mirror.status.worker_status import EventLog
from drlib.model import TopicPartition

FIRST_S = 2.0
LONGEST_S = 300.0
FINAL = frozenset({"SourceTruncated", "SourceTopicGone", "SourceLossParked"})
"""Parks that no new look at the same topics can end: somebody has to decide."""

DECIDE = "Decide which history counts, and export what the mirror has beyond the source if it matters."


@dataclass(frozen=True, slots=True)
class Held:
    key: SourcePartition
    at: int  # source offset that has not reached the target
    event: str
    entity: str
    reason: str


@dataclass
class Parking:
    events: EventLog
    lane: str  # who reports
    remedy: Callable[[str, str], str] = lambda _event, _entity: ""  # what to do about it, where only we can say
    _held: dict[TopicPartition, Held] = field(default_factory=dict)
    _tries: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def park(self, stream: PartitionStream, at: int, event: str, entity: str, reason: str) -> None:
        """The partition stands still at source offset `at`."""
        remedy = self.remedy(event, entity)
        reason = f"{reason} {remedy}" if remedy and remedy not in reason else reason
        before = self._held.get(stream.source)
        if before is not None and before.event != event:
            self._resolve(before, stream.source)
        if before is None:
            self._tries = 0
        self._held[stream.source] = Held(stream.key, at, event, entity, reason)
        decide = mirror_anew(stream.source.topic, stream.target.topic) if event == "SourceTruncated" else ""
        self.events.open(event, entity, reason.rstrip("."), remedy=f"{DECIDE} {decide}" if decide else "", by=self.lane)
        self.events.resolve(event, entity, by="")  # what was told before the lane began is the lane's to tell now
        self._news.set()

    def moved(self, stream: PartitionStream) -> None:
        """The partition was read or acknowledged further: is it past what held it?"""
        if not self._held:
            return
        held = self._held.get(stream.source)
        if held is None or stream.parked:
            return
        idle = stream.position >= stream.high_watermark >= 0 and not stream.queue and not stream.unacked
        if held.key != stream.key or stream.covered > held.at or idle:
            del self._held[stream.source]
            self._resolve(held, stream.source)

    def keep(self, sources: Collection[TopicPartition]) -> None:
        """Only these partitions are the lane's: of the others somebody else speaks, or nobody."""
        for source in [s for s in self._held if s not in sources]:
            self._resolve(self._held.pop(source), source)

    def reason(self, source: TopicPartition) -> str:
        """Why a partition stands still, also while it is being tried again; "" when it does not."""
        held = self._held.get(source)
        return "" if held is None else held.reason

    async def worth_another_try(self) -> None:
        """Return when it is time to try again what may have changed."""
        while True:
            self._news.clear()
            if any(h.event not in FINAL for h in self._held.values()):
                await asyncio.sleep(min(LONGEST_S, FIRST_S * 2**self._tries))
                self._tries = min(self._tries + 1, 20)
                return
            await self._news.wait()

    def _resolve(self, held: Held, _: TopicPartition) -> None:
        if not any((h.event, h.entity) == (held.event, held.entity) for h in self._held.values() if h is not held):
            self.events.resolve(held.event, held.entity, by=self.lane)
