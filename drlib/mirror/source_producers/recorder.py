"""Keeps in the journal of each lane which producers its source partitions have, as long as the source answers.

Rules:
- What lanes saw in the headers of copied batches is journaled within `TICK_S`, beside the copy, which never waits for it.
- Now and then the leaders are asked (DescribeProducers): they know what wrote before it was mirrored, what has expired, and
  which transactional IDs these are of. The next time is as much later as the answer took, so that it costs a hundredth of a
  worker's time at most. A source that is too old to be asked is not asked: then what was copied is all that is known.
- A claim begins with what its journal has, and with what this worker could not journal before it.
- Our own lanes on the source are left out. What fails is tried again: lanes report clusters that do not answer.
Rights: Read on the source's topics, which the mirror has.
Not for: which producers are kept (`drlib.mirror.journal.producers.kept`), reading them on the target (`find`).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from drlib import clock
from drlib.errors import DrlibError
from drlib.kafka.net.api_versions import UnsupportedRequest
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.mirror.engine.lane.lane import Lane
from drlib.mirror.engine.lane.state import LaneState
from drlib.mirror.journal.entries import ClaimId, Entry, Producers, ProducersKnown, SourcePartition
from drlib.mirror.journal.producers.kept import KeptProducers
from drlib.mirror.journal.producers.kinds import KeptProducer
from drlib.mirror.source_producers.leaders import OURS, Known, ask_leaders
from drlib.model import TopicPartition

TICK_S: Final = 0.5
ASK_S: Final = 30.0
LONGEST_ASK_S: Final = 600.0
_ANSWER_S: Final = 15.0
_SHARE: Final = 100
_PURPOSE: Final = "producers"


class ProducerRecorder:
    """Keeps the producers of one flow's lanes. `lanes`: those of this worker."""

    def __init__(self, source: ClusterClient, lanes: Callable[[], Collection[Lane]]) -> None:
        self._source = source
        self._lanes = lanes

    async def run(self) -> None:
        """Follow the lanes of this worker until cancelled. Raises what is no fault of a cluster."""
        running: dict[Lane, asyncio.Task[None]] = {}
        try:
            while True:
                lanes = self._lanes()
                for lane in lanes:
                    if lane not in running:
                        running[lane] = asyncio.create_task(_LaneProducers(self._source, lane).run())
                for lane in running.keys() - set(lanes):
                    running.pop(lane).cancel()
                for task in running.values():
                    if task.done():
                        task.result()
                await asyncio.sleep(TICK_S)
        finally:
            for task in running.values():
                task.cancel()
            await asyncio.gather(*running.values(), return_exceptions=True)


class _LaneProducers:
    """The producers of one lane, from one claim to the next."""

    def __init__(self, source: ClusterClient, lane: Lane) -> None:
        self._source = source
        self._lane = lane
        self._claim: ClaimId | None = None
        self._kept = KeptProducers(())
        self._asked_ms = 0
        self._waiting: dict[bytes, Entry] = {}  # to be journaled in this claim, by key
        self._ask_at = 0.0
        self._responses = -1

    async def run(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            if self._lane.state is not LaneState.RUNNING:
                continue
            if self._lane.claim_id != self._claim:
                self._begin()
            due = time.monotonic() >= self._ask_at
            with contextlib.suppress(DrlibError, TimeoutError, OSError):  # that the lanes report
                if due:
                    await self._ask()
            self._note()
            with contextlib.suppress(
                DrlibError, TimeoutError, OSError
            ):  # the claim ends, the next one has what is missing
                await self._journal(due=due)

    def _begin(self) -> None:
        lane, before = self._lane, self._kept
        self._claim, self._ask_at = lane.claim_id, 0.0
        self._kept = KeptProducers(each for each in lane.producers if isinstance(each, Producers))
        self._asked_ms = max(
            each.asked_ms if isinstance(each, ProducersKnown) else 0 for each in (None, *lane.producers)
        )
        self._kept.adopt(before)
        self._waiting, lane.producers = {}, ()

    def _note(self) -> None:
        """Take what the lane saw since the last time."""
        for stream in self._lane.streams:
            if stream.producers:
                self._kept.note(stream.key, stream.take_producers())

    async def _ask(self) -> None:
        """Ask the source's leaders, and keep what they know in place of what was kept."""
        began, now_ms = time.monotonic(), clock.now_ms()  # what is copied meanwhile is noted behind the answer
        self._ask_at = began + ASK_S
        keys = {stream.source: stream.key for stream in self._lane.streams}
        if not keys:
            return
        try:
            async with asyncio.timeout(_ANSWER_S):
                found, missing = await self._ask_of(keys)
        except UnsupportedRequest:
            self._ask_at = began + LONGEST_ASK_S
            self._kept.expire(now_ms, ())
            return
        took_s = time.monotonic() - began
        self._ask_at = began + max(ASK_S, min(LONGEST_ASK_S, took_s * _SHARE))
        named = by_partition(found, keys)
        for partition, key in keys.items():
            if partition not in missing:
                self._kept.replace(key, named.get(key, ()))
        self._kept.expire(now_ms, {key for partition, key in keys.items() if partition not in missing})
        if not missing:
            self._asked_ms = now_ms

    async def _ask_of(
        self, keys: Mapping[TopicPartition, SourcePartition]
    ) -> tuple[list[Known], Collection[TopicPartition]]:
        """What the leaders know; partitions without a leader, or that are gone, are named."""
        metadata = await self._source.metadata(sorted({each.topic for each in keys}))
        there = [
            each
            for each in keys
            if (topic := metadata.topics.get(each.topic)) is not None and each.partition in topic.partitions
        ]
        found, missing = await ask_leaders(self._source, metadata, there, _PURPOSE)
        return found, {*missing, *(keys.keys() - set(there))}

    async def _journal(self, *, due: bool) -> None:
        self._waiting |= {each.key(): each for each in self._kept.take()}
        known = self._current(due=due)
        entries = [*self._waiting.values(), *([known] if known is not None else ())]
        if entries and await self._lane.journal_beside(entries):
            self._waiting = {}

    def _current(self, *, due: bool) -> ProducersKnown | None:
        """How current the journal is, where that is to be written: with what has changed, and now and then."""
        polls = {id(each): each.responses for each in (s.long_poll for s in self._lane.streams) if each is not None}
        responses = sum(polls.values()) + sum(stream.responses for stream in self._lane.streams)
        if not self._lane.streams or responses == self._responses or not (due or self._waiting):
            return None  # a source that does not answer makes nothing more current
        self._responses = responses
        return ProducersKnown(self._asked_ms, clock.now_ms(), self._kept.left_out)


def by_partition(
    found: Sequence[Known], keys: Mapping[TopicPartition, SourcePartition]
) -> Mapping[SourcePartition, Sequence[KeptProducer]]:
    """What leaders named, as it is kept: without our own lanes."""
    named: dict[SourcePartition, list[KeptProducer]] = {}
    for partition, state, name in ((each.partition, each.state, each.name) for each in found):
        if not name.startswith(OURS):
            kept = KeptProducer(state.producer_id, state.epoch, max(0, state.last_timestamp), state.transactional, name)
            named.setdefault(keys[partition], []).append(kept)
    return named
