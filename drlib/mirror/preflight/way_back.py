"""Find a replicator that copies topics back under the same names, in a file of its own: drlib's workers and MirrorMaker 2.

Rules, for a flow that keeps topic names:
- A worker of drlib copies a topic back where a journal on the source was started between the same two clusters in the opposite
  direction (`Clusters`) and has the topic under one name, and a group of workers of that journal's source has members there.
  Where the file enables both directions these are its own.
- MirrorMaker 2 does where its Connect group for the opposite flow, under the aliases of this file, has members on the source,
  its source connector is enabled with IdentityReplicationPolicy, and the connector's `topics` match.
- Aliases of the other file may be others; its separator of internal names has to be the same.
- A journal or a configuration without members is what a former flow left: it copies nothing.
- Only what is certain is refused. What may not be asked is no reason; records that return are noticed (`engine.returns`).
Not for: flows of one file (`cycles`), other replicators, nor MirrorMaker 2 under other aliases.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from drlib.config.flow_settings import FlowSettings
from drlib.config.replication_policy import IDENTITY, JOURNAL_PREFIX, IdentityReplicationPolicy
from drlib.errors import DrlibError
from drlib.kafka.net import group_requests
from drlib.kafka.net.cluster_client import ClusterClient, ClusterMetadata
from drlib.kafka.net.group_requests import GroupListing
from drlib.mirror.journal.claims_and_runs import Clusters
from drlib.mirror.journal.entries import Entry, JournalCorrupt, TopicNames
from drlib.mirror.mm2.takeover import TakeoverReader
from drlib.mirror.offsets.map.flow_maps import OWN_GROUPS
from drlib.mirror.offsets.map.journal_log import read_journal
from drlib.mirror.preflight.cycles import TopicLoop
from drlib.mirror.status.event_log import EventLog
from drlib.model import TopicPartition

LOOK_S: Final = 15.0
"""Between two looks while the flow runs."""
PATIENCE_S: Final = 20.0
"""At the start: the members of a killed worker stay in its group for their session timeout."""
LONGEST_PAUSE_S: Final = 600.0
"""Before a journal of a live opposite flow, which has none of the topics, is read again."""
_QUIET: Final = frozenset({"Empty", "Dead"})
REMEDY: Final = (
    "Stop it, or give the two directions topics that do not overlap; to copy a topic in both directions enable both flows in "
    "one file and run workers with that file alone."
)


def copied_back(
    entries: Iterable[Entry], source_id: str, target_id: str, mirrors: Callable[[str], bool]
) -> tuple[str, ...]:
    """The topics that a journal on the source says are copied there from the target, under the names that `mirrors` chooses."""
    names: set[str] = set()
    pinned = None
    for entry in entries:
        if isinstance(entry, Clusters):
            pinned = entry
        elif isinstance(entry, TopicNames) and entry.source_topic == entry.target_topic:
            names.add(entry.target_topic)
    if pinned is None or (pinned.source_id, pinned.target_id) != (target_id, source_id):
        return ()
    return tuple(sorted(filter(mirrors, names)))


def worker_groups(listings: Iterable[GroupListing], alias: str) -> tuple[str, ...]:
    """Groups with members whose workers mirror from the cluster `alias`."""
    return tuple(g.group for g in listings if g.group.startswith(f"{OWN_GROUPS}{alias}-") and g.state not in _QUIET)


def reason_to_stop(topic: str, before: str, why: str) -> str:
    """Why a topic is not copied any more, once `why` says who copies it back. `before`: why it was stopped already, as where
    its records were seen to return first; that does not say who."""
    if not before:
        return f"{topic} returns to the source: {why}"
    return before if why in before else f"{before}; {why}"


@dataclass(frozen=True, slots=True)
class _ReadJournal:
    """What a journal said, and when it is read again: `pause_s` after it was read."""

    topics: frozenset[str]
    pause_s: float
    again_at: float


def way_back(
    settings: FlowSettings, reverse: FlowSettings | None, source: ClusterClient, target: ClusterClient
) -> WayBack | None:
    """What looks for them; None where names have a prefix."""
    if not isinstance(settings.policy, IdentityReplicationPolicy):
        return None
    return WayBack(settings, reverse, source, target)


class WayBack:
    """Looks for replicators that copy a flow's topics back. `reverse`: the flow back in the file, enabled or not."""

    def __init__(
        self, settings: FlowSettings, reverse: FlowSettings | None, source: ClusterClient, target: ClusterClient
    ) -> None:
        self._settings = settings
        self._reverse = reverse
        self._source = source
        self._target = target
        self._read: dict[str, _ReadJournal] = {}

    async def refuse(self, events: EventLog, patience_s: float = PATIENCE_S) -> None:
        """Raises `TopicLoop` where a topic is copied back, still after `patience_s`."""
        until = time.monotonic() + patience_s
        opened = ""
        while found := await self.find():
            topic, why = next(iter(sorted(found.items())))
            if time.monotonic() > until:
                raise TopicLoop(f"topic {topic} would be copied in a loop without end", why, REMEDY)
            opened = opened or topic
            events.open("TopicLoop", opened, f"not mirrored for now: {why}", remedy=REMEDY)
            await asyncio.sleep(1.0)
        if opened:
            events.resolve("TopicLoop", opened)

    async def find(self) -> dict[str, str]:
        """By topic: who copies it back. Empty also where a cluster does not answer, or not to us: that is no reason to stop."""
        try:
            metadata = await self._source.metadata(None)
            names = [name for name in metadata.topics if self._settings.mirrors_topic(name)]
            by_workers = {} if self._reverse is not None and self._reverse.enabled else await self._by_workers(metadata)
            return {**await self._by_mirror_maker(names), **by_workers}
        except (DrlibError, TimeoutError, OSError, JournalCorrupt):
            return {}

    async def _by_workers(self, metadata: ClusterMetadata) -> dict[str, str]:
        separator = self._settings.policy.internal_separator
        begin, end = f"{JOURNAL_PREFIX}{separator}", f"{separator}internal"
        journals = {
            name: topic.partitions
            for name, topic in metadata.topics.items()
            if name.startswith(begin) and name.endswith(end)
        }
        found: dict[str, str] = {}
        listings = await self._groups(metadata.brokers) if journals else ()
        for journal, partitions in sorted(journals.items()):
            groups = worker_groups(listings, journal.removeprefix(begin).removesuffix(end))
            if not groups:
                continue
            why = (
                f"workers of drlib copy it from {self._settings.flow.target} back to {self._settings.flow.source}, by "
                f"another file: group {groups[0]} has members, and {journal} has the topic"
            )
            found |= dict.fromkeys(await self._topics_of(journal, sorted(partitions)), why)
        return found

    async def _topics_of(self, journal: str, partitions: Sequence[int]) -> Collection[str]:
        """The topics that a journal says are copied back; it may be large, so it is read again with growing pauses."""
        now = time.monotonic()
        read = self._read.get(journal)
        if read is not None and now < read.again_at:
            return read.topics
        topics: set[str] = set()
        for number in partitions:
            entries = await read_journal(self._source, TopicPartition(journal, number))
            ids = self._source.cluster_id, self._target.cluster_id
            topics |= set(copied_back(entries, *ids, self._settings.mirrors_topic))
        pause_s = LOOK_S if read is None else min(LONGEST_PAUSE_S, 2 * read.pause_s)
        self._read[journal] = _ReadJournal(frozenset(topics), pause_s, now + pause_s)
        return topics

    async def _by_mirror_maker(self, names: Sequence[str]) -> dict[str, str]:
        if self._reverse is None:
            return {}
        reader = TakeoverReader(self._reverse, self._target, self._source, EventLog())
        running = await reader.running_connector()
        if running is None or running.get("replication.policy.class") != IDENTITY:
            return {}
        topics, exclude = running.get("topics"), running.get("topics.exclude")
        back = self._reverse
        if topics is not None:
            back = replace(back, topics=_patterns(topics))
        if exclude is not None:
            back = replace(back, topics_exclude=_patterns(exclude))
        why = (
            f"MirrorMaker 2 copies it from {self._settings.flow.target} back to {self._settings.flow.source} with "
            f"IdentityReplicationPolicy: Connect group {self._reverse.connect_group} has members"
        )
        return dict.fromkeys(filter(back.mirrors_topic, names), why)

    async def _groups(self, nodes: Iterable[int]) -> list[GroupListing]:
        found: list[GroupListing] = []
        for node in nodes:
            found += await group_requests.list_groups(await self._source.connection(node, "control"))
        return found


def _patterns(value: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in value.split(",") if part.strip())
