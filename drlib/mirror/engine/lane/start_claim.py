"""Decides, at the start of a claim, which partitions it copies, from where, and which it parks.

Rules: everything is decided behind the fence, where no append of ours is pending, and is journaled before the first new
batch (`ClaimStart.entries`). A partition without a position of ours starts where MirrorMaker 2 stopped, else where the flow's
start rule says (`start_position`); that is journaled too, so that it is chosen once. A topic that the flow knows by name
(re-created, with new partitions, or mirrored again) starts at the source's log start, and so does what relays of a ring copy:
it begins where the flow before them began. A partition whose mirror was re-created,
contradicts the journal or may not be written is parked with the reason.
Not for: claiming, and running the copy (`lane`).
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from drlib.errors import DrlibError
from drlib.mirror.engine.fetch.partition_stream import PartitionStream
from drlib.mirror.engine.lane.markers import open_foreign_writer
from drlib.mirror.engine.lane.parked_partitions import UNAVAILABLE, ParkedPartitions
from drlib.mirror.engine.lane.start_position import Begin
from drlib.mirror.engine.lane.topics import LaneTopic, incarnations, rewound
from drlib.mirror.errors import (
    ClaimAgain,
    JournalLost,
    MirrorMissing,
    MirrorTopicRecreated,
    MirrorUnauthorized,
    MirrorUnavailable,
    NoStartPosition,
    RecordsUnexplained,
    SourceRewound,
    StartUnknown,
    remirror_remedy,
)
from drlib.mirror.journal.entries import (
    ClaimId,
    Covered,
    Entry,
    Foreign,
    PartitionsAtStart,
    Remirrored,
    SourcePartition,
    TopicNames,
)
from drlib.mirror.journal.leader_epochs import epochs_read
from drlib.mirror.journal.transaction_numbers import TransactionNumbers
from drlib.mirror.journal.transactions import Transactions, by_partition
from drlib.mirror.mm2.connect_offsets import ConnectRecordUnreadable
from drlib.mirror.mm2.takeover import MirrorTooLong, Mm2Progress, TakeoverContradiction, TakeoverReader
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.read_batches import LogEnds
from drlib.mirror.status.worker_status import EventLog
from drlib.model import TopicPartition

MERGE_BYTES = 256 << 10  # largest batch merged from small ones, if the target takes it


@dataclass(frozen=True, slots=True)
class RecoveryInput:
    """Requested behind the fence: the mirrors' log ends, `max.message.bytes` by topic, the source's log starts."""

    log: LogEnds
    limits: Mapping[str, int]
    starts: Mapping[TopicPartition, int]


@dataclass(slots=True, kw_only=True)
class ClaimStart:
    """The start of one claim. `excluded`: mirror topics that are not copied to, and why; `lane` reports the events."""

    lane: str
    claim: ClaimId
    maps: Maps
    logs: RecoveryInput
    excluded: Mapping[str, DrlibError]
    takeover: TakeoverReader
    events: EventLog
    learned: Mapping[str, int]  # by mirror topic: a batch of more bytes than this was refused before
    unavailable: Mapping[TopicPartition, MirrorUnavailable]  # mirror partitions that are left out
    filled_again: Collection[str]  # mirror topics that begin again with this claim
    begin: Callable[[Sequence[LaneTopic]], Awaitable[Mapping[SourcePartition, Begin]]]  # by the flow's start rule
    was_shared: Callable[[str, uuid.UUID], bool] = lambda *_: False  # source topics that may hold copies
    entries: list[Entry] = field(default_factory=list)
    streams: list[PartitionStream] = field(default_factory=list)
    parked: list[PartitionStream] = field(default_factory=list)

    async def plan_streams(self, topics: Sequence[LaneTopic], journaled: Sequence[Entry]) -> None:
        """Fill `entries`, `streams` and `parked`. Raises `ClaimAgain` when a mirror topic was deleted meanwhile."""
        self.maps.refused.update(rewound(journaled, topics))
        new_mirrors = self._new_mirrors()
        renewed = {topic.source for topic in topics if topic.target in new_mirrors}
        for name in renewed:
            self.events.resolve("TopicRecreated", name)  # its mirror holds records of the new one only
        for incarnation in incarnations(journaled, topics):
            if incarnation.source_topic in renewed:
                continue
            self.entries.append(incarnation)
            change = f"topic ID {incarnation.old_topic_id} became {incarnation.new_topic_id}"
            self.events.open("TopicRecreated", incarnation.source_topic, change)
        progress = await self._mm2_progress(topics)
        # Where both directions copy a topic, contents do not say in which one MirrorMaker 2 did.
        taken_over = frozenset[str]() if progress is None else progress.topics
        remirrored = {entry.target_topic for entry in journaled if isinstance(entry, Remirrored)}
        epochs, noted = epochs_read(journaled), by_partition(journaled)
        known = {(entry.source_topic, entry.topic_id) for entry in journaled if isinstance(entry, TopicNames)}
        begins = await self.begin(self._never_mirrored(topics, {name for name, _ in known}, remirrored))
        known_ids: dict[str, set[uuid.UUID]] = defaultdict(set)  # there may be thousands of topics: none is looked for
        for name, topic_id in known:
            known_ids[name].add(topic_id)
        newest = {names.target_topic: names for names in self.maps.names.values()}
        not_begun_here = {*self.excluded, *remirrored}
        for topic in topics:
            reason = self.excluded.get(topic.target)
            if isinstance(reason, MirrorUnauthorized | JournalLost):  # this claim has not fenced any of its partitions
                keys = [SourcePartition(topic.topic_id, number) for number in topic.partitions]
                self.parked += [self._parked(topic, key, reason) for key in keys]
                continue
            names = self.maps.names.get(topic.topic_id) or newest.get(topic.target)
            found_id = self.logs.log.ids.get(topic.target)
            target_id = names.target_topic_id if names is not None else found_id
            left_out = {n: bad for n in topic.partitions if (bad := self._unavailable(topic, n)) is not None}
            self.parked += [self._parked(topic, SourcePartition(topic.topic_id, n), left_out[n]) for n in left_out]
            if len(left_out) == len(topic.partitions):
                continue
            if target_id is None or (reason is None and found_id != target_id):
                raise ClaimAgain(self.lane, f"{topic.target} changed while it was claimed")
            recreated = bool(known_ids[topic.source] - {topic.topic_id})
            keys = [SourcePartition(topic.topic_id, number) for number in topic.partitions if number not in left_out]
            if topic.target not in not_begun_here:
                taken = False
                for key in keys if not topic.hop and (not topic.shared or topic.source in taken_over) else ():
                    if progress is not None and key not in self.maps.refused and self.maps.get(key).position is None:
                        taken |= await self._take_over(progress, topic, key, recreated=recreated)
                for key in keys:
                    if not taken and key in begins and self.maps.get(key).position is None:
                        self._begin(topic.source, key, begins[key])
            for key in keys:
                why = self.excluded.get(topic.target) or self.maps.refused.get(key)
                if why is None:
                    self.streams.append(self._stream(topic, key, target_id, epochs.get(key, {}), noted.get(key, ())))
                else:
                    self.parked.append(self._parked(topic, key, why))
            # Where nothing of this incarnation was ever copied, the journal does not say so: it may still begin at its start.
            copied = topic.topic_id in self.maps.names or not isinstance(reason, MirrorTopicRecreated)
            if copied and not any(
                isinstance(self.maps.refused.get(key), NoStartPosition | StartUnknown) for key in keys
            ):
                # After where its partitions begin: a topic is known by name once that of all of them is journaled.
                if not known_ids[topic.source] and (topic.shared or not begins.keys().isdisjoint(keys)):
                    self.entries.append(PartitionsAtStart(topic.topic_id, topic.count, topic.shared))
                self.entries.append(TopicNames(topic.topic_id, topic.source, topic.target, target_id))

    def _new_mirrors(self) -> set[str]:
        """Mirror topics that were re-created: filled again now, or not yet."""
        recreated = {name for name, why in self.excluded.items() if isinstance(why, MirrorTopicRecreated)}
        return recreated.union(self.filled_again)

    def _never_mirrored(
        self, topics: Sequence[LaneTopic], known: Collection[str], remirrored: Collection[str]
    ) -> list[LaneTopic]:
        """Topics that the lane sees for the first time."""
        return [t for t in topics if t.source not in known and t.target not in remirrored and not t.hop]

    def _begin(self, topic: str, key: SourcePartition, begin: Begin) -> None:
        """Journal where a partition begins that was never mirrored; refuse its map where that is not known."""
        source = TopicPartition(topic, key.partition)
        if isinstance(begin, DrlibError):
            self.maps.refused[key] = begin
            return
        self.maps.get(key).cover(begin)
        self.entries.append(Covered(key, begin))
        if (before := begin - self.logs.starts.get(source, 0)) > 0:
            detail = f"begins at offset {begin}; {before} offsets before it are not mirrored"
            self.events.open("StartChosen", str(source), detail)
            self.events.resolve("StartChosen", str(source))  # a fact: there is nothing to do about it

    def _stream(
        self,
        topic: LaneTopic,
        key: SourcePartition,
        target_id: uuid.UUID,
        epochs: Mapping[int, int],
        noted: Sequence[Transactions],
    ) -> PartitionStream:
        target = TopicPartition(topic.target, key.partition)
        offsets = self.maps.get(key)
        source = TopicPartition(topic.source, key.partition)
        position = offsets.position if offsets.position is not None else self.logs.starts.get(source, 0)
        covered = offsets.position if offsets.position is not None else -1
        stream = PartitionStream(
            key=key,
            source=source,
            target=target,
            claim=self.claim,
            map=offsets,
            position=position,
            target_next=self.logs.log.ends[target],
            covered=covered,
            journaled=(0, covered),
            target_id=target_id,
            start_known=offsets.position is not None or source in self.logs.starts,
            unproven=topic.unproven,
            real_id=topic.real_id,
            shared=topic.shared or self.was_shared(topic.source, topic.topic_id),
            copied_back=topic.shared,
            hop=topic.hop,
        )
        if noted:
            stream.next_slot, stream.numbers = noted[-1].number + 1, TransactionNumbers.resumed(position, noted)
        stream.most_bytes = self.logs.limits.get(topic.target, 0)
        stream.merge_bytes = min(MERGE_BYTES, stream.most_bytes)
        stream.limit(self.learned.get(topic.target, 0))
        stream.epochs = dict(epochs)
        self.entries += stream.take_back_epochs()
        return stream

    def _unavailable(self, topic: LaneTopic, number: int) -> MirrorUnavailable | None:
        return self.unavailable.get(TopicPartition(topic.target, number))

    def _parked(self, topic: LaneTopic, key: SourcePartition, why: DrlibError) -> PartitionStream:
        """A partition that this claim does not copy: shown in the status, never sent to."""
        target = TopicPartition(topic.target, key.partition)
        source = TopicPartition(topic.source, key.partition)
        offsets = self.maps.by_partition.get(key, PartitionMap())  # as far as it was ever journaled
        position = offsets.position or 0
        return PartitionStream(
            key, source, target, self.claim, offsets, position=position, target_next=0, parked=str(why)
        )

    async def _mm2_progress(self, topics: Sequence[LaneTopic]) -> Mm2Progress | None:
        """What MirrorMaker 2 stored, read only where a partition has no position of ours."""
        keys = [SourcePartition(topic.topic_id, number) for topic in topics for number in topic.partitions]
        return await self.takeover.read_progress() if any(self.maps.get(key).position is None for key in keys) else None

    async def _take_over(
        self, progress: Mm2Progress, topic: LaneTopic, key: SourcePartition, *, recreated: bool
    ) -> bool:
        """Journal where to continue a partition that MirrorMaker 2 began; refuse its map where that is not known.

        False where MirrorMaker 2 did not begin it.
        """
        source, mirror = TopicPartition(topic.source, key.partition), TopicPartition(topic.target, key.partition)
        try:
            end = self.logs.log.ends[mirror]
            taken = await self.takeover.examine(progress, key, source, mirror, end, recreated=recreated)
        except (MirrorTooLong, TakeoverContradiction, ConnectRecordUnreadable) as unclear:
            self.maps.refused[key] = unclear
            return True
        if taken is None:
            return False
        self.maps.get(key).apply(taken)
        basis = f"MM2's committed {taken.committed}, {mirror} ends at {taken.target_offset}"
        self.events.open("TakenOver", str(source), f"continues at {taken.source_offset} ({basis})")
        self.events.resolve("TakenOver", str(source))  # a fact: there is nothing to do about it
        self.entries.append(taken)
        return True

    def report(self, parked: ParkedPartitions) -> None:
        """Open the events of foreign records and parked partitions."""
        shared = {stream.target for stream in self.streams if stream.shared}
        for entry in self.maps.findings:
            if isinstance(entry, Foreign):
                topic = self.maps.names[entry.partition.topic_id].target_topic
                mirror = TopicPartition(topic, entry.partition.partition)
                if mirror not in shared:  # else clients write to it, whichever topic was copied there before
                    open_foreign_writer(self.events, str(mirror), entry.target_offset, entry.count)
        for stream in self.parked:
            excluded = self.excluded.get(stream.target.topic) or self.unavailable.get(stream.target)
            why = excluded or self.maps.refused[stream.key]
            _park(parked, stream, why)


_BY_SOURCE_TOPIC: Final = {NoStartPosition: "NoStartPosition", StartUnknown: "StartUnknown"}  # events of a whole topic
_BY_MIRROR_TOPIC: Final = {
    MirrorUnauthorized: "TargetUnauthorized",
    JournalLost: "JournalLost",
    RecordsUnexplained: "RecordsUnexplained",
}


def _park(parked: ParkedPartitions, stream: PartitionStream, why: DrlibError) -> None:
    """Report why a partition is parked: one event for a topic, or for each partition."""
    kind, reason = type(why), f"{why.what}: {why.why}"
    if kind in _BY_SOURCE_TOPIC:
        parked.park(stream, -1, _BY_SOURCE_TOPIC[kind], stream.source.topic, str(why))
    elif kind in _BY_MIRROR_TOPIC:
        parked.park(stream, -1, _BY_MIRROR_TOPIC[kind], stream.target.topic, str(why))
    elif kind is SourceRewound:
        parked.park(stream, -1, "SourceTruncated", str(stream.source), str(why))
    elif isinstance(why, MirrorMissing):
        parked.park(stream, -1, UNAVAILABLE, str(stream.target), reason, remedy=why.remedy)
    elif issubclass(kind, MirrorUnavailable):
        parked.park(stream, -1, UNAVAILABLE, str(stream.target), reason)
    elif kind is MirrorTopicRecreated:
        parked.park(stream, -1, "MirrorTopicRecreated", str(stream.target), reason, remedy=why.remedy)
    else:
        remedy = f"{why.remedy} {remirror_remedy(stream.source.topic)}"
        parked.park(stream, -1, "MirrorContradiction", str(stream.target), reason, remedy=remedy)
