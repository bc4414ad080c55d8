"""How a claim begins: from the journal behind the fence and what stands in the logs, the partitions it copies or parks.

Rules: everything is decided behind the fence, where nothing of ours moves any more, and stands in the journal before the
first new batch (`Opening.entries`). A partition without a position of ours starts where MirrorMaker 2 left it, else at the
start of the source. One whose mirror is gone, contradicts the journal or is not ours to write is parked, and says why.
Not for: claiming, and running what was opened (`lane`).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from drlib.errors import DrlibError
from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.engine.lane.markers import tell_foreign
from drlib.mirror.engine.lane.parked_partitions import Parking
from drlib.mirror.engine.lane.topics import LaneTopic, incarnations, rewound
from drlib.mirror.errors import (
    ClaimAgain,
    JournalLost,
    MirrorTopicRecreated,
    MirrorUnauthorized,
    SourceRewound,
    mirror_anew,
)
from drlib.mirror.journal.entries import ClaimId, Entry, Foreign, Remirrored, SourcePartition, TopicNames
from drlib.mirror.journal.leader_epochs import epoch_below, epochs_read, taken_back
from drlib.mirror.mm2.takeover import LeftBehind, MirrorTooLong, TakeoverReader
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.read_batches import LogEnds
from drlib.mirror.status.worker_status import EventLog
from drlib.model import TopicPartition

MERGE_BYTES = 256 << 10  # how large a batch made of small ones may become, if the target takes it


@dataclass(frozen=True, slots=True)
class Facts:
    """What was asked behind the fence: the mirror's log ends, `max.message.bytes` by topic, the source's log starts."""

    log: LogEnds
    limits: Mapping[str, int]
    starts: Mapping[TopicPartition, int]


@dataclass(slots=True)
class ClaimStart:
    """One claim being begun; `gone` are the mirror topics that are not copied to, and why."""

    lane: str
    ours: ClaimId
    maps: Maps
    facts: Facts
    gone: Mapping[str, DrlibError]
    takeover: TakeoverReader
    events: EventLog
    entries: list[Entry] = field(default_factory=list)
    streams: list[PartitionStream] = field(default_factory=list)
    parked: list[PartitionStream] = field(default_factory=list)

    async def plan_streams(self, topics: Sequence[LaneTopic], journaled: Sequence[Entry]) -> None:
        """Fill `entries`, `streams` and `parked`. Raises `ClaimAgain` when a mirror topic went meanwhile."""
        self.maps.refused.update(rewound(journaled, topics))
        for again in incarnations(journaled, topics):
            self.entries.append(again)
            became = f"topic ID {again.old_topic_id} became {again.new_topic_id}"
            self.events.open("TopicRecreated", again.source_topic, became)
        left = await self._left_behind(topics)
        anew = {entry.target_topic for entry in journaled if isinstance(entry, Remirrored)}
        epochs = epochs_read(journaled)
        for topic in topics:
            barred = self.gone.get(topic.target)
            if isinstance(barred, MirrorUnauthorized | JournalLost):  # nothing of it becomes ours
                keys = [SourcePartition(topic.topic_id, number) for number in topic.partitions]
                self.parked += [self._parked(topic, key, barred) for key in keys]
                continue
            known = self.maps.names.get(topic.topic_id) or self.maps.of_target(topic.target)
            target_id = known.target_topic_id if known is not None else self.facts.log.ids.get(topic.target)
            if target_id is None:
                raise ClaimAgain(self.lane, f"{topic.target} changed while it was claimed")
            self.entries.append(TopicNames(topic.topic_id, topic.source, topic.target, target_id))
            for number in topic.partitions:
                key = SourcePartition(topic.topic_id, number)
                mine = topic.target not in {*self.gone, *anew}
                if left is not None and mine and self.maps.get(key).position is None:
                    await self._take_over(left, topic, key)
                why = self.gone.get(topic.target) or self.maps.refused.get(key)
                if why is None:
                    self.streams.append(self._stream(topic, key, target_id, epochs.get(key, {})))
                else:
                    self.parked.append(self._parked(topic, key, why))

    def _stream(
        self, topic: LaneTopic, key: SourcePartition, target_id: uuid.UUID, read: Mapping[int, int]
    ) -> PartitionStream:
        target = TopicPartition(topic.target, key.partition)
        offsets = self.maps.get(key)
        source = TopicPartition(topic.source, key.partition)
        position = offsets.position if offsets.position is not None else self.facts.starts.get(source, 0)
        known = offsets.position is not None or source in self.facts.starts
        covered = offsets.position if offsets.position is not None else -1
        stream = PartitionStream(
            key=key,
            source=source,
            target=target,
            claim=self.ours,
            map=offsets,
            position=position,
            target_next=self.facts.log.ends[target],
            covered=covered,
            journaled=(0, covered),
            target_id=target_id,
            start_known=known,
        )
        stream.merge_bytes = min(MERGE_BYTES, self.facts.limits.get(topic.target, 0))
        stream.epoch = stream.noted_epoch = epoch_below(read, stream.position)
        self.entries += taken_back(key, read, stream.position)
        return stream

    def _parked(self, topic: LaneTopic, key: SourcePartition, why: DrlibError) -> PartitionStream:
        """A partition that this claim does not copy: there to be seen, never to be sent to."""
        target = TopicPartition(topic.target, key.partition)
        source = TopicPartition(topic.source, key.partition)
        known = self.maps.by_partition.get(key, PartitionMap())  # as far as it was ever journaled
        position = known.position or 0
        return PartitionStream(key, source, target, self.ours, known, position=position, target_next=0, parked=str(why))

    async def _left_behind(self, topics: Sequence[LaneTopic]) -> LeftBehind | None:
        """What MirrorMaker 2 left, where any partition has no position of ours."""
        keys = [SourcePartition(topic.topic_id, number) for topic in topics for number in topic.partitions]
        return await self.takeover.left_behind() if any(self.maps.get(key).position is None for key in keys) else None

    async def _take_over(self, left: LeftBehind, topic: LaneTopic, key: SourcePartition) -> None:
        """Note where a partition goes on that MirrorMaker 2 began, or in `maps` why that cannot be told."""
        source, mirror = TopicPartition(topic.source, key.partition), TopicPartition(topic.target, key.partition)
        try:
            taken = await self.takeover.examine(left, key, source, mirror, self.facts.log.ends[mirror])
        except MirrorTooLong as unclear:
            self.maps.refused[key] = unclear
            return
        if taken is None:
            return
        self.maps.get(key).apply(taken)
        told = f"MM2's committed {taken.committed}, {mirror} ends at {taken.target_offset}"
        self.events.open("TakenOver", str(source), f"goes on at {taken.source_offset} ({told})")
        self.events.resolve("TakenOver", str(source))  # a fact to be read, nothing to be done
        self.entries.append(taken)

    def tell(self, parking: Parking) -> None:
        """Open and resolve the events of what was found."""
        for entry in self.maps.findings:
            if isinstance(entry, Foreign):
                topic = self.maps.names[entry.partition.topic_id].target_topic
                partition = TopicPartition(topic, entry.partition.partition)
                tell_foreign(self.events, str(partition), entry.target_offset, entry.count)
        for stream in self.parked:
            why = self.gone.get(stream.target.topic) or self.maps.refused[stream.key]
            if isinstance(why, MirrorTopicRecreated):
                self.events.open(
                    "MirrorTopicRecreated",
                    str(stream.target),
                    f"{why.what}: {why.why}",
                    remedy=why.remedy,
                    by=self.lane,
                )
            elif isinstance(why, MirrorUnauthorized):
                parking.park(stream, -1, "TargetUnauthorized", stream.target.topic, str(why))
            elif isinstance(why, JournalLost):
                parking.park(stream, -1, "JournalLost", stream.target.topic, str(why))
            elif isinstance(why, SourceRewound):
                parking.park(stream, -1, "SourceTruncated", str(stream.source), str(why))
            else:
                remedy = f"{why.remedy} {mirror_anew(stream.source.topic, stream.target.topic)}"
                told = f"{why.what}: {why.why}"
                self.events.open("MirrorContradiction", str(stream.target), told, remedy=remedy, by=self.lane)
        for stream in self.streams:
            for name in ("MirrorContradiction", "MirrorTopicRecreated"):
                self.events.resolve(name, str(stream.target), by=self.lane)
