"""Finds the topics and partitions to mirror, creates their mirror topics, and divides them among the lanes.

Rules: topics are looked up again at every refresh. A topic that is deleted on the source, or refused by the target, is an
event of its own and the others continue (`create_topics`). A topic that flows keeping its name would copy in a cycle is not
mirrored. A topic that only left the source's list, but still exists by name, stays in its lane. A mirror topic that was there
before is created again only when every lane has had time to notice that it is gone: topics are written to by name, and what
a lane still sends would arrive in the new one. A topic that both directions copy and that only the target has is looked for
again soon: the reverse flow creates it.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from drlib.config.flow_settings import FlowSettings
from drlib.config.patterns.missing_topics import missing_topics
from drlib.kafka.net.cluster_client import ClusterClient, ClusterMetadata, TopicMetadata
from drlib.mirror.engine.fencing.lanes import lane_of
from drlib.mirror.engine.lane.topics import TOPICS_POLL_S, LaneTopic
from drlib.mirror.preflight.cycles import find_cycle
from drlib.mirror.read_batches import until_listed
from drlib.mirror.status.worker_status import EventLog
from drlib.mirror.sync.create_topics import MirrorTopics

RECREATE_AFTER_S = 2 * TOPICS_POLL_S
ASKED_REFRESH_S, LONGEST_ASKED_S = 1.0, 30.0  # before topics are listed because a lane asks for it, again and again


class Discovery:
    """The topics of one flow. `keeping`: the worker's flows that keep topic names, among which cycles are looked for; `shared`:
    is a topic copied in both directions, by flows that recognise each other's copies?"""

    def __init__(
        self,
        settings: FlowSettings,
        source: ClusterClient,
        target: ClusterClient,
        mirrors: MirrorTopics,
        events: EventLog,
        *,
        keeping: Sequence[FlowSettings] = (),
        shared: Callable[[str], bool] | None = None,
    ) -> None:
        self._settings = settings
        self._source = source
        self._target = target
        self._mirrors = mirrors
        self._events = events
        self._keeping = keeping
        self._shared = shared
        self._shares: dict[int, tuple[LaneTopic, ...]] = {}
        self._missing: set[str] = set()
        self._loops: set[str] = set()
        self._expected: frozenset[str] = frozenset()

    @property
    def expects_topics(self) -> bool:
        """Is there a topic on the target that both directions copy, and which the reverse flow has yet to create on the source?

        Nothing of it is copied until this flow has claimed it too.
        """
        return bool(self._expected)

    def share(self, lane: int) -> tuple[LaneTopic, ...]:
        """The topics of a lane; behind the flow's lanes those of its relays in a ring, of shared topics only."""
        hop, number = divmod(lane, self._settings.lanes)
        topics = self._shares.get(number, ())
        return topics if not hop else tuple(replace(topic, hop=hop) for topic in topics if topic.shared)

    def topic_ids(self) -> dict[str, uuid.UUID]:
        """The source topics that are mirrored now."""
        return {topic.source: topic.topic_id for topics in self._shares.values() for topic in topics}

    def one_way_ids(self) -> dict[str, uuid.UUID]:
        """Those that the reverse flow does not copy: positions and settings of the others are not synchronized."""
        shared = {topic.source for topics in self._shares.values() for topic in topics if topic.shared}
        return {name: topic_id for name, topic_id in self.topic_ids().items() if name not in shared}

    async def refresh(self, *, only_known: bool = False) -> bool:
        """Look for topics and partitions and create missing mirror topics; True when a lane's share changed.

        `only_known`: no topics but those that are mirrored already.
        """
        policy, flow = self._settings.policy, self._settings.flow
        source, target = await self._list_topics()
        if self._is_mirror_gone(target):
            await asyncio.sleep(RECREATE_AFTER_S)
            source, target = await self._list_topics()
        # In a thread: a name that was chosen to be hard to match must not hold up the lanes.
        cycles = await asyncio.to_thread(
            self._select, [n for n, topic in source.topics.items() if topic.error_code == 0]
        )
        topics = {name: source.topics[name] for name, cycle in cycles.items() if not cycle}
        self._report_cycles(cycles)
        for name in self._loops - source.topics.keys():
            self._loops.discard(name)
            self._events.resolve("TopicLoop", name)
        known = {topic.source for share in self._shares.values() for topic in share}
        if only_known:
            topics = {name: topic for name, topic in topics.items() if name in known | self._expected}
            self._expected -= topics.keys()
        elif self._shared is not None:
            missing = target.topics.keys() - topics.keys()
            self._expected = await asyncio.to_thread(frozenset, filter(self._shared, missing))
        self._report_missing(source)
        deleted = await self._mirrors.deleted(self._source, known - topics.keys())
        self._mirrors.listed(topics)
        counts = {name: _partition_count(target, policy.remote_topic(flow.source, name)) for name in topics}
        counts |= await self._hidden_mirrors([name for name, count in counts.items() if not count])
        too_small = {n: len(topic.partitions) for n, topic in topics.items() if len(topic.partitions) > counts[n]}
        self._mirrors.keep_refused(too_small)
        if too_small:
            counts = await asyncio.to_thread(self._mirrors.create_or_grow, too_small, counts)
            created = {policy.remote_topic(flow.source, name): counts[name] for name in too_small if counts[name]}
            await until_listed(self._target, created)  # the lane reports what is not listed by then
        shares = self._divide(topics, counts, deleted)
        changed = shares != self._shares
        self._shares = shares
        return changed

    async def _list_topics(self) -> tuple[ClusterMetadata, ClusterMetadata]:
        return await asyncio.gather(self._source.metadata(None), self._target.metadata(None))

    def _is_mirror_gone(self, target: ClusterMetadata) -> bool:
        """Does the target not list a mirror topic that it had before?"""
        return any(not _partition_count(target, topic.target) for share in self._shares.values() for topic in share)

    def _divide(
        self, topics: Mapping[str, TopicMetadata], counts: Mapping[str, int], deleted: Collection[str]
    ) -> dict[int, tuple[LaneTopic, ...]]:
        """The topics of each lane. `counts`: partitions of their mirror topics."""
        settings, flow = self._settings, self._settings.flow
        shares: dict[int, list[LaneTopic]] = defaultdict(list)
        for lane, share in self._shares.items():
            # Not in the source's list, but found when asked for by name: kept.
            shares[lane] += [old for old in share if old.source not in topics and old.source not in deleted]
        for name, topic in sorted(topics.items()):
            numbers: dict[int, list[int]] = defaultdict(list)
            for number in sorted(n for n in topic.partitions if n < counts[name]):
                numbers[lane_of(name, number, settings.lanes)].append(number)
            mirror, remirror = settings.policy.remote_topic(flow.source, name), settings.remirrors_topic(name)
            shared = self._shared is not None and self._shared(name)
            for lane, partitions in numbers.items():
                count = len(topic.partitions)
                each = LaneTopic(name, topic.topic_id, mirror, tuple(partitions), remirror, shared=shared, count=count)
                shares[lane].append(each)
        return {lane: tuple(sorted(shares[lane], key=lambda t: t.source)) for lane in range(settings.lanes)}

    async def _hidden_mirrors(self, names: Collection[str]) -> dict[str, int]:
        """Partition counts, as last seen, of mirror topics that we copied to and that the target no longer lists to us."""
        before: dict[str, int] = defaultdict(int)
        for topic in (topic for share in self._shares.values() for topic in share):
            before[topic.source] += len(topic.partitions)
        hidden = await self._mirrors.unauthorized(self._target, [name for name in names if before[name]])
        return {name: before[name] for name in hidden}

    def _report_missing(self, metadata: ClusterMetadata) -> None:
        """Report topics that the file names one by one and that do not exist, or that we may not describe."""
        now = missing_topics(self._settings.topics, metadata.topics)
        for entry, meant in now.items():
            detail = f"{self._settings.flow.source} has no topic {entry} that we may see"
            remedy = f"Did you mean {meant}? " if meant else ""
            remedy += f"Correct topics, create {entry} or grant Describe on it; it is then mirrored without a restart."
            self._events.open("TopicNotFound", entry, detail, remedy=remedy)
        for entry in self._missing - now.keys():
            self._events.resolve("TopicNotFound", entry)
        self._missing = set(now)

    def _select(self, names: Collection[str]) -> dict[str, tuple[str, ...]]:
        """Those of `names` that the file chooses, each with the cycle in which this worker's flows would copy it, or ()."""
        keeping = [(f.flow, f.mirrors_topic) for f in self._keeping]
        return {name: find_cycle(keeping, name) for name in names if self._settings.mirrors_topic(name)}

    def _report_cycles(self, cycles: Mapping[str, tuple[str, ...]]) -> None:
        for topic, cycle in cycles.items():
            if cycle:
                self._loops.add(topic)
                self._events.open(
                    "TopicLoop", topic, f"not mirrored: it would be copied in a cycle {' -> '.join(cycle)}"
                )


async def wait_for_refresh(asked: asyncio.Event, pause_s: float, interval_s: float) -> bool:
    """Wait until topics are to be listed again: True where a lane `asked` for it, at the earliest after `pause_s`."""
    first = min(pause_s, interval_s)
    await asyncio.sleep(first)
    try:
        async with asyncio.timeout(interval_s - first):
            await asked.wait()
    except TimeoutError:
        return False
    asked.clear()
    return True


def _partition_count(metadata: ClusterMetadata, topic: str) -> int:
    described = metadata.topics.get(topic)
    return len(described.partitions) if described else 0
