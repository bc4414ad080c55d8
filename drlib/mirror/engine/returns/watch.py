"""Watches one claim of a lane for records that return to the source because the flow copies them, and stops their topic.

Rules: topics keep their names, else nothing that is copied can return. Records that are read are remembered by a sample; a
suspicion is put to a trial, one at a time, in which the partition is held back and the end of the source's log is read. While
it lasts `ReturnSuspected` is open. A topic whose records return is stopped in all lanes of the flow, until the worker is
restarted: what closes the loop is not known to it. A claim that ends forgets what it saw; a loop is soon seen again.
Not for: decisions (`rules`, `suspicion`, `sightings`), reading the source (`tail`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from typing import Final, Protocol

from drlib.errors import DrlibError
from drlib.mirror.engine.fetch.partition_stream import PartitionStream, PlannedBatch
from drlib.mirror.engine.returns import rules
from drlib.mirror.engine.returns.rules import Phase
from drlib.mirror.engine.returns.sightings import Sampler, Seen, Sightings, contents
from drlib.mirror.engine.returns.suspicion import Suspicion, suspect
from drlib.mirror.errors import RecordsReturned
from drlib.mirror.status.worker_status import EventLog
from drlib.model import TopicPartition

STEP_S: Final = 0.05
SUSPECTED, RETURNED = "ReturnSuspected", "RecordsReturned"


class Copying(Protocol):
    """The produce loop."""

    def wake(self) -> None:
        """Look for batches to send: a partition is not held back any more."""

    def stop_topic(self, topic: str, reason: str) -> None:
        """Park every partition of a source topic, for good."""

    def watch(self, task: asyncio.Task[None]) -> asyncio.Task[None]:
        """End the claim with the error of `task`, should it end with one; returns `task`."""

    def keeps_timestamps(self, stream: PartitionStream) -> bool:
        """Does the target keep the timestamps of the records?"""


class Tail(Protocol):
    """The end of the source's log."""

    async def end(self, source: TopicPartition) -> int:
        """Its end now."""

    async def appended(
        self, source: TopicPartition, begin: int, end: int, wanted: Collection[bytes], *, timed: bool
    ) -> set[bytes]:
        """Those of the `wanted` contents that it holds there, as far as is read of it."""


class ReturnWatch:
    """`stopped`: by source topic, why the flow does not copy it any more."""

    def __init__(
        self,
        stopped: dict[str, str],
        events: EventLog,
        lane: str,
        copying: Copying,
        tail: Tail,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stopped = stopped
        self._events = events
        self._tail = tail
        self._lane = lane
        self._copying = copying
        self._clock = clock
        self._sampler = Sampler(clock())
        self._sightings = Sightings()
        self._suspicion: Suspicion | None = None
        self._suspected: PartitionStream | None = None
        self._task: asyncio.Task[None] | None = None
        # Suspicions in a row that were no loop, and until when there is peace.
        self._refuted: dict[TopicPartition, tuple[int, float]] = {}
        self._ended = False

    def read(self, stream: PartitionStream, planned: Sequence[PlannedBatch]) -> None:
        """Take what was read of the source and is to be copied."""
        if self.stopped and stream.source.topic in self.stopped:
            self._copying.stop_topic(stream.source.topic, self.stopped[stream.source.topic])
            return
        chooses = self._sampler.chooses
        chosen = [item for item in planned if chooses(item.max_timestamp)]
        if chosen and not self._ended:
            self._look_into(stream, chosen)

    def _look_into(self, stream: PartitionStream, chosen: Sequence[PlannedBatch]) -> None:
        now = self._clock()
        timed = self._timed(stream)
        for item in chosen:
            if not self._sampler.pays(item.batch.count, item.max_timestamp, now):
                break
            for offset, content in contents(item.batch, item.pieces, timed=timed):
                self._sighted(stream, content, offset, now)
        if self._suspicion is None:
            if self._sightings.forget_oldest(now):
                self._sampler.rise(chosen[-1].max_timestamp, now)
            elif self._sightings.has_room:
                self._sampler.settle(now)

    def _timed(self, stream: PartitionStream) -> bool:
        return not stream.append_times and self._copying.keeps_timestamps(stream)

    def _sighted(self, stream: PartitionStream, content: bytes, offset: int, now: float) -> None:
        seen = self._sightings.take(stream.source, content, offset, stream.mirrored, now)
        if seen is not None:
            self._sampler.alert(now)
        if self._suspicion is not None:
            if stream is self._suspected:
                self._suspicion.sighted(content, offset, seen, now)
        elif seen is not None and self._sightings.is_suspect(stream.source, content, seen):
            peace = self._refuted.get(stream.source)
            if peace is None or now >= peace[1]:
                self._begin(stream, seen, now)

    def _begin(self, stream: PartitionStream, seen: Seen, now: float) -> None:
        self._suspicion = suspicion = suspect(self._sightings.suspects(stream.source), seen, now)
        self._suspected, self._sampler.frozen = stream, True
        stream.held = True
        self._task = self._copying.watch(asyncio.create_task(self._try(stream, suspicion)))

    def end(self) -> None:
        """The claim drains or has ended: nothing is held back."""
        self._ended = True
        if self._task is not None:
            self._task.cancel()
        if self._suspected is not None:
            self._suspected.held = False

    async def _try(self, stream: PartitionStream, suspicion: Suspicion) -> None:
        entity = str(stream.source)
        self._events.open(SUSPECTED, entity, _suspicion_in_words(suspicion), by=self._lane)
        try:
            await self._decide(stream, suspicion)
        except (DrlibError, TimeoutError, OSError):
            suspicion.give_up(self._clock())
        finally:
            self._suspicion = self._suspected = self._task = None
            self._sampler.frozen = stream.held = False
            self._events.resolve(SUSPECTED, entity, by=self._lane)
        self._take(stream, suspicion)
        self._copying.wake()

    async def _decide(self, stream: PartitionStream, suspicion: Suspicion) -> None:
        """Lead a trial to its end. Raises where the source does not answer."""
        while not suspicion.over:
            await asyncio.sleep(STEP_S)
            now = self._clock()
            if stream.parked:
                suspicion.give_up(now)
            elif suspicion.asks(now, idle=not stream.unacked):
                end = await self._tail.end(stream.source)
                appended: Collection[bytes] = ()
                if suspicion.silent:
                    timed, begin = self._timed(stream), suspicion.beyond
                    appended = await self._tail.appended(stream.source, begin, end, suspicion.suspects, timed=timed)
                suspicion.answer(self._clock(), end, appended)
            else:
                suspicion.tick(now)
            if stream.held and not suspicion.held:
                self._copying.wake()
            stream.held = suspicion.held

    def _take(self, stream: PartitionStream, suspicion: Suspicion) -> None:
        """Act on the end of a trial."""
        source, phase, now = stream.source, suspicion.trial.phase, self._clock()
        if phase is Phase.RETURNED:
            seen = suspicion.evidence
            copy = stream.map.forward(seen.first)
            on_target = copy.offset if copy.exact else None
            error = RecordsReturned(str(source), str(stream.target), seen.first, on_target, seen.last)
            self.stopped[source.topic] = f"{error.what}: {error.why}"
            self._copying.stop_topic(source.topic, self.stopped[source.topic])
            return
        count = self._refuted.get(source, (0, 0.0))[0] + 1 if phase is Phase.REFUTED else 1
        peace_s = rules.pause_s(count, now - suspicion.began)
        self._sightings.refute(source, suspicion.found, now + 2 * peace_s)
        self._refuted[source] = count, now + peace_s


def _suspicion_in_words(suspicion: Suspicion) -> str:
    seen, held_s = suspicion.evidence, rules.held_s(suspicion.trial.interval_s)
    return (
        f"a record equal to the one at offset {seen.first}, which was copied, was written again, last at {seen.last}; the "
        f"partition is held back for about {held_s:.0f} s to find out whether that is because it is copied"
    )
