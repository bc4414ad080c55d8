"""Partitions of one lane that are stopped for a reason, across its claims: reported once, retried, resolved when they move.

Rules: a park is one event, open until the partition has moved past the offset or has nothing left to read, however many
claims lie between. Causes that may end by themselves or by an operator's action are retried, each partition alone, with
growing pauses from `FIRST_RETRY_S` to `LONGEST_RETRY_S`; a mirror partition that cannot be written, as soon as it can; one
whose source topic is gone, if the source lists that topic all the same: a broker whose metadata is behind denies it, too. What
one partition costs does not depend on how many others are parked.
Not for: deciding that a partition must stop (`produce_loop`, `fetch_response`, `start_claim`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.errors import remirror_remedy, shared_remedy
from drlib.mirror.journal.entries import SourcePartition
from drlib.mirror.status.worker_status import EventLog
from drlib.model import TopicPartition

FIRST_RETRY_S = 2.0
LONGEST_RETRY_S = 300.0
FINAL = frozenset(
    {
        "SourceTruncated",
        "SourceLossParked",
        "NoStartPosition",
        "MirrorTopicRecreated",
        "MirrorContradiction",
        "RecordsReturned",
    }
)
"""Parks that another claim over the same topics cannot end: an operator has to decide."""

UNAVAILABLE = "MirrorUnavailable"
GONE = "SourceTopicGone"
PREFLIGHT = "preflight"  # reports what topics wait for until their lanes do

DECIDE = "Decide which history counts, and export what the other cluster alone has if it matters."


@dataclass(frozen=True, slots=True)
class ParkedPartition:
    key: SourcePartition
    offset: int  # first source offset that has not reached the target
    event: str
    entity: str
    reason: str

    @property
    def may_retry(self) -> bool:
        """May its cause have ended, other than by what is watched?"""
        return self.event not in FINAL and self.event != UNAVAILABLE


class ParkedPartitions:
    """`lane` reports the events; `remedy` (event, entity) adds what to do, where the lane knows it."""

    def __init__(self, events: EventLog, lane: str, remedy: Callable[[str, str], str] | None = None) -> None:
        self._events = events
        self._lane = lane
        self._remedy = remedy
        self._parked: dict[TopicPartition, ParkedPartition] = {}
        self._reported: Counter[tuple[str, str]] = (
            Counter()
        )  # by event and entity: how many partitions are parked for it
        self._may_retry = 0  # how many of them are
        self._retries = 0
        self._changed = asyncio.Event()
        self.size_limits: dict[str, int] = {}  # by mirror topic: half the size of the last batch refused as too large

    def too_large(self, topic: str, size: int) -> None:
        """A batch of several records and `size` bytes was refused: the next ones for `topic` are split further.

        Each halving is progress: the pauses before retries do not grow with them.
        """
        self.size_limits[topic] = min(size // 2, self.size_limits.get(topic, size))
        self._retries = 0

    def remedy(self, event: str, entity: str) -> str:
        """The command that ends a park by `event`; "" where it is not known."""
        return "" if self._remedy is None else self._remedy(event, entity)

    def with_remedy(self, event: str, entity: str, reason: str) -> str:
        """The reason with the command that ends a park by `event`, where the lane knows one."""
        remedy = self.remedy(event, entity)
        return f"{reason} {remedy}" if remedy and remedy not in reason else reason

    def park(
        self, stream: PartitionStream, offset: int, event: str, entity: str, reason: str, *, remedy: str = ""
    ) -> None:
        """Report that the partition is stopped at source offset `offset`; `remedy`, where it is not that of the event."""
        reason = self.with_remedy(event, entity, reason)
        before = self._parked.get(stream.source)
        if before is None:
            self._retries = 0
        elif (before.event, before.entity) != (event, entity):
            self._resolve(stream.source)
        self._forget(stream.source)
        parked = self._parked[stream.source] = ParkedPartition(stream.key, offset, event, entity, reason)
        self._reported[event, entity] += 1
        self._may_retry += parked.may_retry
        if event == "SourceTruncated":
            fill = shared_remedy if stream.shared else remirror_remedy
            remedy = f"{DECIDE} {fill(stream.source.topic)}"
        self._events.open(event, entity, reason.rstrip("."), remedy=remedy, by=self._lane)
        self._events.resolve(event, entity, by=PREFLIGHT)  # the lane's report replaces one made before the lane began
        self._changed.set()

    def explain(self, source: TopicPartition, event: str, entity: str, reason: str) -> None:
        """Report what more is known of why a partition is parked; nothing where it is not, or is for another event."""
        parked = self._parked.get(source)
        reason = self.with_remedy(event, entity, reason)
        if parked is not None and (parked.event, parked.entity) == (event, entity) and parked.reason != reason:
            self._parked[source] = replace(parked, reason=reason)
            self._events.open(event, entity, reason.rstrip("."), by=self._lane)

    def progressed(self, stream: PartitionStream) -> None:
        """Resolve the partition's park if it was read or acknowledged past it."""
        if not self._parked:
            return
        parked = self._parked.get(stream.source)
        if parked is None or stream.parked:
            return
        idle = stream.position >= stream.high_watermark >= 0 and not stream.queue and not stream.unacked
        if parked.key != stream.key or stream.covered > parked.offset or idle:
            self._resolve(stream.source)

    def retain(self, sources: Collection[TopicPartition]) -> None:
        """Resolve the parks of all partitions but `sources`: the lane no longer owns those."""
        for source in [s for s in self._parked if s not in sources]:
            self._resolve(source)

    def any_for(self, event: str) -> bool:
        """Is a partition parked for `event`?"""
        return any(name == event for name, _ in self._reported)

    def is_unavailable(self, source: TopicPartition) -> bool:
        """Does the partition wait for its mirror's leader or replicas?"""
        parked = self._parked.get(source)
        return parked is not None and parked.event == UNAVAILABLE

    def is_gone(self, source: TopicPartition) -> bool:
        """Did a broker say that the source topic was deleted or created again?"""
        parked = self._parked.get(source)
        return parked is not None and parked.event == GONE

    def may_retry(self, source: TopicPartition) -> bool:
        """Is the partition parked for another reason that may have ended?"""
        parked = self._parked.get(source)
        return parked is not None and parked.may_retry

    async def wait_for_retry(self) -> None:
        """Return when it is time to try parked partitions again."""
        while True:
            self._changed.clear()
            if self._may_retry:
                await asyncio.sleep(min(LONGEST_RETRY_S, FIRST_RETRY_S * 2**self._retries))
                self._retries = min(self._retries + 1, 20)
                return
            await self._changed.wait()

    def _resolve(self, source: TopicPartition) -> None:
        """End a park, and its event with the last partition that is parked for it."""
        parked = self._forget(source)
        if parked is not None and (parked.event, parked.entity) not in self._reported:
            self._events.resolve(parked.event, parked.entity, by=self._lane)

    def _forget(self, source: TopicPartition) -> ParkedPartition | None:
        parked = self._parked.pop(source, None)
        if parked is not None:
            key = (parked.event, parked.entity)
            self._reported[key] -= 1
            if not self._reported[key]:
                del self._reported[key]
            self._may_retry -= parked.may_retry
        return parked
