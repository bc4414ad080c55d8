"""Follows the journal of the flow back, in a worker, for positions in topics that both directions copy.

Rules: the journal lies on the source and is read again every second. What it lacks makes a position lower, and nothing is
skipped: a record that it does not have yet counts as unread. No log is read: what neither map explains counts as a record.
Before the journal was read once there is no answer, so that none is worse than one that was given before. A source that does
not answer is reported by those who read its records.
Not for: positions without the source (`shared_logs`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from drlib.config.flow_settings import FlowSettings
from drlib.errors import DrlibError
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.mirror.offsets.map.follow_journal import FollowedMaps, JournalFollower
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.offsets.translation.shared_logs import SharedAnswer, in_doubt, translate_shared
from drlib.mirror.offsets.translation.shared_position import may_be_own
from drlib.model import TopicPartition, Translation, TranslationKind

_EVERY_S: Final = 1.0
_MOST_STRETCHES: Final = 1000


@dataclass(frozen=True, slots=True)
class SharedTopic:
    """A partition of a topic that both directions copy, and the topic's IDs on the source and on the target."""

    partition: TopicPartition
    topic_id: UUID
    target_id: UUID

    @property
    def ids(self) -> str:
        """As a checkpoint has them."""
        return f"{self.topic_id}/{self.target_id}"


class FollowedBack:
    """The maps of the flow back, which `reverse` configures, on the flow's source. `lane_of`: the lane of a partition."""

    def __init__(self, source: ClusterClient, reverse: FlowSettings, lane_of: Callable[[str, int], int]) -> None:
        self._lane_of = lane_of
        journal = reverse.policy.journal_topic(reverse.flow.source)
        self._journal = JournalFollower(source, journal, reverse.lanes)
        self._maps: FollowedMaps | None = None

    async def run(self, refreshed: Callable[[], None]) -> None:
        """Read on, until cancelled; `refreshed` is called each time."""
        while True:
            with contextlib.suppress(DrlibError, TimeoutError, OSError):
                await self.refresh()
                refreshed()
            await asyncio.sleep(_EVERY_S)

    async def refresh(self) -> None:
        """Raises `BrokerError` or `Unreachable`."""
        self._maps = await self._journal.refresh(self)

    def there(self, there: PartitionMap, topic: SharedTopic, position: int) -> SharedAnswer | None:
        """Where a group at `position` of the source continues on the target; None before the journal was read once.

        `there`: the flow's own map, which its owner does not change meanwhile.
        """
        return self._answer(topic, lambda back: translate_followed(there, back, position))

    def here(self, there: PartitionMap, topic: SharedTopic, position: int) -> SharedAnswer | None:
        """The other way round: where a group at `position` of the target continues on the source."""
        return self._answer(topic, lambda back: translate_followed(back, there, position))

    def reached(self, topic: SharedTopic) -> int | None:
        """Up to which offset of the target's log the flow back is known to have copied it."""
        if (maps := self._maps) is None:
            return None
        with maps.lock:
            back = self._map(maps, topic)
            return None if back is None else back.source_end

    def _answer(self, topic: SharedTopic, translate: Callable[[PartitionMap], SharedAnswer]) -> SharedAnswer | None:
        """What `translate` makes of the map back, which is not changed meanwhile."""
        if (maps := self._maps) is None:
            return None
        with maps.lock:
            back = self._map(maps, topic)
            if back is None:
                return SharedAnswer(_UNKNOWN, False, "the journal of the flow back has no entry of the topic")
            return translate(back)

    def _map(self, maps: FollowedMaps, topic: SharedTopic) -> PartitionMap | None:
        """The map of the same two topics; an empty one where nothing was copied yet."""
        lane = self._lane_of(topic.partition.topic, topic.partition.partition)
        if maps.target_id(lane, topic.target_id) != topic.topic_id or maps.refuses(
            lane, topic.target_id, topic.partition
        ):
            return None
        return maps.map(lane, topic.target_id, topic.partition.partition) or PartitionMap()


_UNKNOWN: Final = Translation(None, TranslationKind.UNKNOWN)


def translate_followed(there: PartitionMap, back: PartitionMap, position: int) -> SharedAnswer:
    """One position from both maps as far as they are known; what is behind the known end of the target is left to be read.

    `there` lacks copies that are on their way; these lie behind its end, and not among records that the map back has. Pure.
    """
    if doubt := in_doubt(there, position) or in_doubt(back, None):
        return SharedAnswer(_UNKNOWN, False, doubt)
    end = max(there.target_end or 0, there.least_log_end)
    if back.taken is not None:
        end = max(end, back.taken.takeover.source_offset)  # MirrorMaker 2 has read so much of the log there
    for _ in range(_MOST_STRETCHES):  # what follows is the other cluster's as far as the map back has it without a gap
        pair = back.segments().find_source(end)
        if pair is None or end >= pair[0].source_end:
            break
        end = pair[0].source_end
    ranges = may_be_own(there, back.absent(0, end))
    unread = next((first for first, _ in ranges), None)
    return translate_shared(there, back, position, unread=unread, start=0, end=end, why="")
