"""Translates positions in topics that both directions copy, for surveys that are made again and again.

Rules: by both maps, as `drlib doctor` does it (`shared_logs`): log ends of the target first (`look`), then the flow's map, then
that of the flow back, which is followed: each time only what is new in its journal is read.
- It costs at most a fifth of the time: after a translation that took a second, the next one is made four seconds later. Until
  then each position of a group is where the last translation put it; one that was not asked about then is unknown.
- Without the source, or its journal, the log of the target and what checkpoints say decide, with a bound.
- A translation that fails makes these positions unknown, with the reason, and nothing else.
Not for: the decision (`drlib.mirror.offsets.translation.shared_position`), topics that one direction copies.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from drlib.config.both_ways.rings import ring_of
from drlib.config.both_ways.shared_topics import shared_between
from drlib.config.settings import MirrorSettings
from drlib.errors import DrlibError, NoLeader
from drlib.kafka.admin.reachability import ClusterService
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.mirror.offsets.map.follow_journal import JournalFollower
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.offsets.translation.shared_logs import Asked, SharedLogs
from drlib.mirror.offsets.translation.translate_groups import Positions, known_reads
from drlib.mirror.read_batches import LogBounds, log_bounds
from drlib.model import Flow, TopicPartition, Translation, TranslationKind

PACE: Final = 4.0  # pauses are that many times as long as what they follow
UNKNOWN: Final = Translation(None, TranslationKind.UNKNOWN)

Key = tuple[str, TopicPartition]  # group, source partition


@dataclass(frozen=True, slots=True)
class SharedFound:
    """Translations by group and partition; `why`: why they are unknown, "" where they were made."""

    translations: Mapping[Key, Translation]
    why: str = ""

    def at(self, key: Key) -> Translation:
        return self.translations.get(key, UNKNOWN)


def due_after(began: float, ended: float) -> float:
    """When the next translation may begin after one that took from `began` to `ended`, in seconds. Pure."""
    return ended + PACE * max(0.0, ended - began)


class SharedPositions:
    """Of one flow."""

    def __init__(self, settings: MirrorSettings, flow: Flow) -> None:
        self._settings, self._flow = settings, flow
        self._shared = shared_between(settings, flow)
        self._ring = ring_of(flow, settings.flows)
        back = settings.flow(flow.target, flow.source)
        self._journal = back.policy.journal_topic(flow.target)
        self._lanes = back.lanes
        self._follower: JournalFollower | None = None
        self._bounds: LogBounds | str = "the target was not asked"
        self._found = SharedFound({})
        self._due = 0.0

    def includes(self, topic: str) -> bool:
        """Do both directions copy it, or the flows of a ring, where nothing is translated?"""
        if self._ring is not None:
            return self._ring.shares(topic)
        return self._shared is not None and self._shared(topic)

    @property
    def any(self) -> bool:
        """May both directions copy a topic?"""
        return self._shared is not None

    @property
    def due(self) -> bool:
        """Is the next translation to be made?"""
        return self.any and time.monotonic() >= self._due

    async def look(self, target: ClusterClient, service: ClusterService) -> None:
        """Ask where the logs of the target end, before the flow's map is read. What cannot be asked makes positions unknown."""
        if not self.due:
            return
        topics = service.metadata.topics
        names = [name for name in topics if self.includes(name)]
        without = set(service.not_led(names))
        wanted = [
            at for name in names for n in topics[name].partitions if (at := TopicPartition(name, n)) not in without
        ]
        try:
            bounds = await log_bounds(target, wanted, {})
            self._bounds = replace(bounds, leaderless={at: NoLeader(at, target.name) for at in without})
        except (DrlibError, TimeoutError, OSError) as error:
            self._bounds = str(error) or "no answer"

    async def translate(
        self,
        target: ClusterClient,
        source: ClusterClient | None,
        maps: Maps,
        positions: Positions,
        timeout_s: float,
    ) -> SharedFound:
        """Where groups continue, by `positions` of which others than those of shared topics are left out. Raises nothing.

        `maps`: of the flow, read after `look`. `source`: None where it does not answer as a whole.
        """
        asked = {key: (key[1], at.offset, 0) for key, at in positions.items() if self.includes(key[1].topic)}
        if not asked or not self.due:
            return self._found
        began = time.monotonic()
        try:
            async with asyncio.timeout(timeout_s):
                self._found = await self._ask(target, source, maps, asked)
        except TimeoutError:
            self._found = SharedFound({}, f"no answer within {timeout_s:g} s")
        except (DrlibError, OSError) as error:
            self._found = SharedFound({}, str(error))
        self._due = due_after(began, time.monotonic())
        return self._found

    async def _ask(
        self, target: ClusterClient, source: ClusterClient | None, maps: Maps, asked: Mapping[Key, Asked]
    ) -> SharedFound:
        if isinstance(self._bounds, str):
            return SharedFound({}, f"the log ends of {self._flow.target} are not known: {self._bounds}")
        back = await self._back(source)
        known = {} if isinstance(back, Maps) else await asyncio.to_thread(known_reads, self._settings, self._flow)
        found = await SharedLogs(maps, back, self._bounds, known).answer(target, set(asked.values()))
        return SharedFound({key: found[one].translation for key, one in asked.items()})

    async def _back(self, source: ClusterClient | None) -> Maps | str:
        """The maps of the flow back as far as they are journaled, or why there are none."""
        where = f"{self._journal}, the journal of {self._flow.reverse}, lies on {self._flow.source}"
        if source is None:
            return f"{where}, which was not asked"
        if self._follower is None:
            self._follower = JournalFollower(source, self._journal, self._lanes)
        self._follower.target = source  # each survey has connections of its own
        try:
            return (await self._follower.refresh(self)).merged()
        except DrlibError as error:
            return f"{where}: {error.why}"
