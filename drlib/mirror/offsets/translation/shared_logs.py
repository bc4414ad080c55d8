"""Translates positions in topics that both directions of a pair copy under one name, from both journals and the target's log.

Rules: the flow's journal lies on the target, that of the flow back on the source. What is read is ordered: the group's
positions, then the log ends of the target, then the flow's map, then the map back: so whatever lies before an end is known.
- Where the journal of the flow back cannot be read, because the source is dead above all, the target's log says which of its
  records were first written there: those that are not in the flow's map, and that no producer ID of the flow wrote. All of
  them count as unread, but for those before what any group is known to have read (`KnownRead`, from checkpoints). Where
  no client wrote there, that is none, and positions are as exact as the flow's map.
- A journal of the flow back that is not the one by which copies were recognised, a map that is refused, leaves a record in
  doubt, was begun by MirrorMaker 2 whose copies are not known yet, or is about another incarnation of a topic counts as one
  that cannot be read. Of the flow's own map that makes a position unknown.
- What a group has read on the target before, in that log's order, it continues behind.
Not for: the decision (`shared_position`), topics that one direction copies (`translate_groups`), writing positions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from uuid import UUID

from drlib.config.settings import MirrorSettings
from drlib.errors import DrlibError, NoLeader
from drlib.kafka.admin.connect import ANSWER_S, wire_client
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol.error_codes import OFFSET_OUT_OF_RANGE, BrokerError
from drlib.mirror.journal.entries import SourcePartition, TopicNames
from drlib.mirror.offsets.map.load_maps import Maps, read_maps
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.offsets.translation.shared_position import copies_read, may_be_own, shared_position
from drlib.mirror.read_batches import LogBounds, concurrently, locate, log_bounds, read_range
from drlib.model import Flow, TopicPartition, Translation, TranslationKind

_READ_S = 15.0  # for the journal on a source of which brokers may be lost
_UNKNOWN, _NEVER = (Translation(None, kind) for kind in (TranslationKind.UNKNOWN, TranslationKind.NEVER_MIRRORED))
_NOTHING = "nothing of it was copied", "the partition does not exist on the target"
Asked = tuple[TopicPartition, int, int]
"""A partition of the source, a position in it, and how far the group has read on the target before; 0: not at all."""


@dataclass(frozen=True, slots=True)
class KnownRead:
    """A group that has read the source's log up to `position` has read the target's up to `there`, of topics with these IDs."""

    position: int
    there: int
    topic_id: UUID
    target_id: UUID


@dataclass(frozen=True, slots=True)
class SharedAnswer:
    """`both_maps`: was the map of the flow back known? `why`: what bounds the translation, or makes it unknown."""

    translation: Translation
    both_maps: bool = False
    why: str = ""


async def shared_bounds(target: ClusterClient, partitions: Collection[TopicPartition]) -> LogBounds:
    """Where the target's logs begin and end, of those that exist: to be asked before the flow's map is read."""
    found = (await target.metadata(sorted({p.topic for p in partitions}))).topics
    leaders = {
        p: found[p.topic].partitions[p.partition].leader
        for p in partitions
        if p.topic in found and p.partition in found[p.topic].partitions
    }
    bounds = await log_bounds(target, [p for p, leader in leaders.items() if leader >= 0], {})
    return replace(bounds, leaderless={p: NoLeader(p, target.name) for p, leader in leaders.items() if leader < 0})


async def read_back(settings: MirrorSettings, flow: Flow, source_alive: bool | None) -> Maps | str:
    """The maps of the flow back, from its journal on the source; or why there are none.

    `source_alive`: False: it is not asked; None: it may not answer, and is not waited for.
    """
    topic = settings.flow(flow.target, flow.source).policy.journal_topic(flow.target)
    where = f"{topic}, the journal of {flow.reverse}, lies on {flow.source}"
    if source_alive is False:
        return f"{where}, which was not asked"
    async with wire_client(settings.clusters[flow.source], client_id="drlib-translate") as source:
        try:
            async with asyncio.timeout(ANSWER_S):
                await source.connect()
            async with asyncio.timeout(None if source_alive else _READ_S):
                return await read_maps(source, topic)
        except TimeoutError:
            return f"{where}, which does not answer in time"
        except (DrlibError, OSError) as error:
            return f"{where}: {getattr(error, 'why', '') or error}"


@dataclass(frozen=True, slots=True)
class SharedLogs:
    """What was read. `back`: as of `read_back`; `bounds`: as of `shared_bounds`; `known`: by partition, in any order."""

    maps: Maps
    back: Maps | str
    bounds: LogBounds
    known: Mapping[TopicPartition, Sequence[KnownRead]] = field(default_factory=dict)

    async def answer(self, target: ClusterClient, asked: Iterable[Asked]) -> dict[Asked, SharedAnswer]:
        """Translate positions. Raises `BrokerError` or `Unreachable` for a log of the target that cannot be read."""
        each = {one: self._ranges(one[0], one[1]) for one in asked}
        wanted = {(one[0], ranges) for one, (_, _, ranges) in each.items() if ranges is not None}

        async def first(item: tuple[TopicPartition, tuple[tuple[int, int], ...]]) -> int | None:
            return await self._first_own(target, *item)

        ordered = sorted(wanted)
        unread = dict(zip(ordered, await concurrently(ordered, first), strict=True))
        return {
            one: SharedAnswer(_NEVER if why in _NOTHING else _UNKNOWN, False, why)
            if ranges is None
            else self._answer(*one, back, why, unread[one[0], ranges])
            for one, (back, why, ranges) in each.items()
        }

    def _ranges(
        self, partition: TopicPartition, position: int
    ) -> tuple[PartitionMap | None, str, tuple[tuple[int, int], ...] | None]:
        """The map back, or why there is none, and where on the target unread records of its own may lie.

        Without such ranges nothing is known of the position, for that reason.
        """
        names, doubt = self._names(partition.topic), ""
        if (refused := self.maps.refusal(partition.topic, partition.partition)) is not None:
            return None, refused.why, None
        if names is None:
            return None, _NOTHING[0], None
        key = SourcePartition(names.topic_id, partition.partition)
        if (without := self.bounds.leaderless.get(partition)) is not None:
            return None, without.why, None
        if partition not in self.bounds.ends:
            return None, _NOTHING[1], None
        there = self.maps.by_partition.get(key)
        if there is not None and (doubt := in_doubt(there, position)):
            return None, doubt, None
        start, end = self.bounds.starts[partition], self.bounds.ends[partition]
        back = self._back(names, partition.partition)
        if isinstance(back, PartitionMap):
            return back, "", back.absent(start, end)
        known = [
            each.there
            for each in self.known.get(partition, ())
            if each.position <= position and (each.topic_id, each.target_id) == (names.topic_id, names.target_topic_id)
        ]
        begin = max([start, *(there for there in known if there <= end)])
        return None, back, ((begin, end),) if begin < end else ()

    def _names(self, topic: str) -> TopicNames | None:
        return next((n for n in reversed(self.maps.names.values()) if n.source_topic == topic), None)

    def _back(self, names: TopicNames, partition: int) -> PartitionMap | str:
        """The map of the flow back of the same two topics, or why it does not count."""
        if isinstance(self.back, str):
            return self.back
        journal = self.maps.reverse_journals.get(names.topic_id)
        if journal is None:
            return "no worker of the flow has recognised copies of the flow back in it yet"
        if journal != self.back.journal_id:
            return "the journal of the flow back is not the one by which copies were recognised: it was deleted"
        found = self.back.names.get(names.target_topic_id)
        if found is None or found.target_topic_id != names.topic_id:
            return "the journal of the flow back has no entry of the topic"
        key = SourcePartition(found.topic_id, partition)
        if (refused := self.back.refused.get(key)) is not None:
            return f"the flow back has no map of it: {refused.why}"
        back = self.back.by_partition.get(key, PartitionMap())
        doubt = in_doubt(back, None)
        return f"the map of the flow back: {doubt}" if doubt else back

    async def _first_own(
        self, target: ClusterClient, partition: TopicPartition, ranges: Iterable[tuple[int, int]]
    ) -> int | None:
        """The first record in `ranges` of the target's log that the flow did not write."""
        names = self._names(partition.topic)
        assert names is not None  # else there are no ranges
        offsets = self.maps.by_partition.get(SourcePartition(names.topic_id, partition.partition), PartitionMap())
        parts = may_be_own(offsets, ranges)
        if (part := next(parts, None)) is None:
            return None  # the flow wrote all of it
        topic_id, leader = await locate(target, partition)
        connection = await target.connection(leader, "read")
        for first, end in chain([part], parts):
            try:
                async for header, _ in read_range(connection, topic_id, partition, first, end):
                    ours = header.magic >= 2 and header.producer_id in self.maps.producers
                    if not header.is_control and header.count > 0 and not ours:
                        return max(first, header.base_offset)
            except BrokerError as error:
                if error.code != OFFSET_OUT_OF_RANGE:
                    raise
                return first  # records expire meanwhile: what follows counts as unread
        return None

    def _answer(
        self,
        partition: TopicPartition,
        position: int,
        read_there: int,
        back: PartitionMap | None,
        why: str,
        unread: int | None,
    ) -> SharedAnswer:
        names = self._names(partition.topic)
        assert names is not None
        there = self.maps.by_partition.get(SourcePartition(names.topic_id, partition.partition), PartitionMap())
        start, end = self.bounds.starts[partition], self.bounds.ends[partition]
        at = min(read_there, end)
        return translate_shared(there, back, position, unread=unread, start=start, end=end, why=why, read_there=at)


def in_doubt(offsets: PartitionMap, position: int | None) -> str:
    """Why a map cannot say which records are copies; empty where it can. `position`: of a group on its source."""
    if offsets.taken is not None and offsets.taken.own is None:
        return "MirrorMaker 2 copied some of it, and which of its records are copies is not known yet"
    if offsets.doubtful:
        return f"{offsets.doubtful} records may or may not be on the other cluster"
    if offsets.diverged is not None and (position is None or position > offsets.diverged):
        return f"the source's log went back to offset {offsets.diverged}"
    return ""


def translate_shared(
    there: PartitionMap,
    back: PartitionMap | None,
    position: int,
    *,
    unread: int | None,
    start: int,
    end: int,
    why: str,
    read_there: int = 0,
) -> SharedAnswer:
    """One position, from both maps of the same partition, of which none is in doubt. Pure."""
    segments = there.segments()
    taken = copies_read(there, back, position, start)
    found = shared_position(
        position,
        segments,
        None if back is None else back.segments(),
        read_here=there.position or 0,
        unread=unread,
        end=end,
        start=max(start, read_there),
        taken=taken,
    )
    following, copied = segments.next_source(position), segments.target_at(position)
    reached = max(position, there.position or 0) if following is None else following
    gone = segments.on_target_at_least(copied, start) if copied is not None and copied < start else 0
    gone += sum(each.gone for each in taken)
    lost = there.lost(position, reached) + gone
    translation = found.translation
    if lost and translation.exact:
        translation = Translation(translation.offset, TranslationKind.LOST, lost, gone)
    elif lost:
        why = "; ".join(filter(None, (f"{lost} records behind it are not on the target", why)))
    elif translation.exact:
        why = ""
    return SharedAnswer(translation, back is not None, why)
