"""Follows the reverse flow's journal, on the source, and decides with it which batches of the source are copies.

Rules:
- A partition is read once the lanes of both flows that have it journaled its topic, and remember the other flow's journal
  (`Shared`): what both logs held before is then explained, and a journal, or the part of one lane, that is lost later is missed
  by the other flow. Where the reverse flow's lane does not remember it, nothing was copied to the partition.
- Where a lane of this flow has partitions of several lanes of the reverse flow, it remembers them one by one
  (`PartitionShared`): those lanes begin one after the other, or have had no partition of the topic yet.
- Of a flow back that is switched off nothing is waited for: what it has not begun to write holds no copies of its own.
- A batch is judged only after the journal was read to its end as it was behind the fetch of the batch. A journal that does not
  exist, is another one, ends below what was read of it, or has another batch there decides nothing, however it looks.
- A mirror that the reverse flow refuses may hold copies that no claim explains, and so may a partition that it has not begun.
- A partition that MirrorMaker 2 began is read once the reverse flow's journal says which records below its takeover are copies.
- Below the offset at which the reverse flow began to copy the mirror topic that there is now no record is a copy of it: what
  was brought before is of a mirror that is gone, be it that this flow filled it again alone, or that the target lost it with
  the journal that knew it. So this flow copies all of that, however far the reverse flow has come since.
- A lane of a further flow to the source, which gives mirrors a prefix, writes markers as those of the reverse flow do. What
  its journal claims is no copy of the reverse flow, and is copied as a client's records are.
- Nothing here is written but `Shared`, in this flow's own journal, by the lane that reads the topic.
- In a ring the reverse flow is the incoming one, with a journal for its lanes and one for each of its relays; all of them have
  to be known, and every journal of this flow has to have the topic before one of its lanes copies it: behind that lane's
  records another one could not tell whether the target holds copies of its own that were forgotten.
Longer than most modules: what is read and what it admits share one lock, which no append of a lane holds.
Not for: the decision about one batch (`drlib.mirror.engine.reverse.rules`).
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import ChainMap, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.batch import BatchHeader, CorruptBatch, iter_batches
from drlib.kafka.protocol.error_codes import (
    OFFSET_OUT_OF_RANGE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    BrokerError,
    raise_for,
)
from drlib.kafka.protocol.fetch import FetchedPartition
from drlib.mirror.engine.fencing.lanes import lane_of
from drlib.mirror.engine.reverse.rules import (
    Known,
    Origin,
    TakenOver,
    Writer,
    contradiction,
    newest_epochs,
    ready,
    writers,
)
from drlib.mirror.journal.entries import (
    Chunk,
    Entry,
    Expired,
    JournalCorrupt,
    MirrorRefused,
    OwnRecords,
    PartitionShared,
    Placement,
    Remirrored,
    Shared,
    SharedRelay,
    SourcePartition,
    Takeover,
    Thinned,
    TopicIdentified,
    TopicNames,
    decode,
)
from drlib.mirror.offsets.map.journal_log import LaneJournal
from drlib.mirror.read_batches import locate, read_range
from drlib.model import TopicPartition

PURPOSE: Final = "reverse"
MOST_CLIENTS: Final = 100_000
"""Producer IDs of clients that are kept: each is looked for once, and again when there are more."""
FRESH_S: Final = 1.0
"""For so long a reading admits further partitions: what speaks for them stays true, and doubts are as old as for others."""
NEVER: Final = 2**63 - 1
"""An offset that no log reaches."""
WAITS, UNDECIDED = "ReverseFlowNotReady", "CopiesUnknown"
_NO_JOURNAL: Final = frozenset(
    {UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, TOPIC_AUTHORIZATION_FAILED, OFFSET_OUT_OF_RANGE}
)


class SharedPartition(Protocol):
    """A partition of a topic that both directions copy. `key`: as this flow journals it; `target_id`: of its mirror topic;
    `hop`: how many flows of a ring have copied the records before that its lane copies; `copied_back`: still, by the file."""

    @property
    def key(self) -> SourcePartition: ...
    @property
    def source(self) -> TopicPartition: ...
    @property
    def target(self) -> TopicPartition: ...
    @property
    def target_id(self) -> uuid.UUID | None: ...
    @property
    def hop(self) -> int: ...
    @property
    def copied_back(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a partition is not read now: an event, and its reason."""

    event: str
    reason: str


@dataclass(slots=True)
class JournalLane:
    """One partition of the reverse flow's journal, up to offset `position`; `last`: the batch before it."""

    position: int = 0
    last: BatchHeader | None = None
    cut: bool = False  # its first entries were deleted
    whole: bool = True  # they were not, and its leader is the one that took its newest batch
    newest: dict[int, int] = field(default_factory=dict)  # as `newest_epochs`
    names: dict[uuid.UUID, TopicNames] = field(default_factory=dict)
    # by a topic's ID: those it was journaled under before
    made: dict[uuid.UUID, set[uuid.UUID]] = field(default_factory=dict)
    doubted: dict[SourcePartition, str] = field(default_factory=dict)
    begun: dict[SourcePartition, int] = field(default_factory=dict)  # no claim has placed a record before this offset
    taken: dict[SourcePartition, Takeover] = field(default_factory=dict)
    own: dict[SourcePartition, OwnRecords] = field(default_factory=dict)
    shared: dict[uuid.UUID, uuid.UUID] = field(default_factory=dict)  # by which journal of the other flow
    parts: dict[uuid.UUID, set[int]] = field(default_factory=dict)  # of these topics only some partitions are

    def take(self, header: BatchHeader, view: memoryview) -> None:
        """Take a batch that follows what was read: all of it or, where it is damaged, nothing. Raises `JournalCorrupt`."""
        records = () if header.is_control else recode.records(view)
        entries = [
            decode(record.key, record.value)
            for record in records
            if record.key is not None and record.value is not None and record.offset >= self.position
        ]
        for entry in entries:
            self._apply(entry)
        for producer_id, epoch in newest_epochs(entries).items():
            self.newest[producer_id] = max(epoch, self.newest.get(producer_id, epoch))
        self.position, self.last = header.next_offset, header

    def _apply(self, entry: Entry) -> None:
        match entry:
            case TopicNames():
                self.names[entry.topic_id] = entry
            case TopicIdentified():
                self.made.setdefault(entry.real_id, set()).add(entry.made_id)
            case MirrorRefused():
                self.doubted[entry.partition] = f"the reverse flow found that its journal lost entries ({entry.reason})"
            case Placement():
                self._begin(entry.partition, entry.target_offset)
            case Expired():
                self._begin(entry.partition, entry.first_target)
            case Chunk() | Thinned():
                for segment in entry.segments[:1]:
                    self._begin(entry.partition, segment.target)
            case Takeover():
                self.taken[entry.partition] = entry
            case OwnRecords():
                self.own[entry.partition] = entry
            case Shared():
                self.shared[entry.topic_id] = entry.reverse_journal
            case PartitionShared():
                self.parts.setdefault(entry.partition.topic_id, set()).add(entry.partition.partition)
            case Remirrored():
                gone = [id for id, names in self.names.items() if names.target_topic == entry.target_topic]
                self.shared = {id: journal for id, journal in self.shared.items() if id not in gone}
                self.parts = {id: parts for id, parts in self.parts.items() if id not in gone}
                for known in (self.doubted, self.begun, self.taken, self.own):
                    for key in [key for key in known if key.topic_id in gone]:
                        del known[key]

    def _begin(self, partition: SourcePartition, target_offset: int) -> None:
        """A fold or an expiration deletes placements, and leaves stretches that begin where the first record lies."""
        self.begun[partition] = min(target_offset, self.begun.get(partition, target_offset))

    def accepted(self, topic_id: uuid.UUID) -> bool:
        """Did the reverse flow journal the topic that it writes to as `topic_id`?"""
        return any(names.target_topic_id == topic_id for names in self.names.values())

    def remembers(self, source_id: uuid.UUID, partition: int) -> bool:
        """Did the reverse flow read this partition of a topic of the other cluster as one that both directions copy?"""
        return source_id in self.shared and partition in self.parts.get(source_id, (partition,))

    def written(self, topic_id: uuid.UUID) -> set[int]:
        """The partitions of the topic that a claim of the reverse flow has begun to write."""
        mine = {source for source, names in self.names.items() if names.target_topic_id == topic_id}
        return {key.partition for key in self.begun if key.topic_id in mine}

    def writes(self, topic_id: uuid.UUID, partition: int) -> bool:
        """Has a claim of the reverse flow begun to write this partition of the topic?"""
        return not self.begun.keys().isdisjoint(self._sources(topic_id, partition))

    def begin(self, source_id: uuid.UUID, partition: int) -> int | None:
        """Below which offset no record was copied from this topic of the other cluster; None where that is not known."""
        found = (self.begun[key] for key in self._keys(source_id, partition) if key in self.begun)
        return None if self.cut else min(found, default=NEVER)

    def took_over(self, source_id: uuid.UUID, partition: int) -> bool:
        """Did MirrorMaker 2 copy this topic of the other cluster before?"""
        return not self.taken.keys().isdisjoint(self._keys(source_id, partition))

    def _keys(self, source_id: uuid.UUID, partition: int) -> list[SourcePartition]:
        return [SourcePartition(each, partition) for each in (source_id, *self.made.get(source_id, ()))]

    def doubt(self, topic_id: uuid.UUID, partition: int) -> str:
        """Why a partition of the topic may hold copies that are not explained; "" where it may not."""
        return next((self.doubted[key] for key in self._sources(topic_id, partition) if key in self.doubted), "")

    def taken_over(self, topic_id: uuid.UUID, partition: int) -> tuple[Takeover, OwnRecords | None] | None:
        """Where the reverse flow took the partition over from MirrorMaker 2, and which records below that are no copies."""
        found = (
            (self.taken[key], self.own.get(key)) for key in self._sources(topic_id, partition) if key in self.taken
        )
        return next(found, None)

    def _sources(self, topic_id: uuid.UUID, partition: int) -> list[SourcePartition]:
        """What the reverse flow copies to this partition of the topic."""
        mine = [source for source, names in self.names.items() if names.target_topic_id == topic_id]
        return [SourcePartition(source, partition) for source in mine]


@dataclass(slots=True)
class JournalTopic:
    """One journal, followed on the cluster that has it. `count`: its lanes; `lost`: why it decides nothing any more."""

    cluster: ClusterClient
    topic: str
    count: int
    id: uuid.UUID | None = None
    lanes: dict[int, JournalLane] = field(default_factory=dict)
    lost: str = ""

    def number_of(self, partition: TopicPartition) -> int:
        return lane_of(partition.topic, partition.partition, self.count)

    def lane_of(self, partition: TopicPartition) -> JournalLane:
        """What was read of the lane that a partition belongs to."""
        return self.lanes.get(self.number_of(partition), JournalLane())

    async def read(self) -> None:
        """Read every partition to its end as it is now. Raises also `JournalCorrupt` and `CorruptBatch`."""
        described = (await self.cluster.metadata([self.topic])).topics[self.topic]
        raise_for(described.error_code, f"looking up {self.topic}", topics=[self.topic])
        if self.id not in (None, described.topic_id):
            self.lost = f"{self.topic}, the reverse flow's journal, was deleted and created again"
            return
        if len(described.partitions) != self.count:
            raise JournalCorrupt(
                f"it has {len(described.partitions)} lanes, and by this file that flow has {self.count}"
            )
        self.id = described.topic_id
        for number in range(self.count):
            await self._read_lane(number)

    async def _read_lane(self, number: int) -> None:
        partition = TopicPartition(self.topic, number)
        topic_id, leader = await locate(self.cluster, partition)
        connection = await self.cluster.connection(leader, PURPOSE)
        lane = self.lanes.setdefault(number, JournalLane())
        end, epoch = (await requests.list_offset_epochs(connection, [partition], requests.LATEST))[partition]
        if topic_id != self.id or end < lane.position:
            self.lost = f"{partition}, of the reverse flow's journal, lost what was read of it: it ends at offset {end}"
            return
        begin = max(0, lane.position - 1)
        if not begin:
            begin = (await requests.list_offsets(connection, [partition], requests.EARLIEST))[partition]
            lane.cut = begin > 0  # a log that is compacted, and nothing else, begins at 0 for good
        async for header, view in read_range(connection, topic_id, partition, begin, end):
            if header.next_offset <= lane.position:
                last = lane.last
                same = last is None or header.written_by(last.producer_id, last.producer_epoch)
                if header.next_offset == lane.position and not same:
                    self.lost = f"{partition}, of the reverse flow's journal, has another batch at {header.base_offset}"
                    return
                continue
            lane.take(header, view)
        lane.whole = not lane.cut and (lane.last is None or lane.last.leader_epoch == epoch)


class ReverseJournal:
    """Of one flow: its lanes share what was read. `lanes`: how many the reverse flow has; `own_lanes`: this one, if others.

    In a ring the reverse flow is the incoming one. `relays`: its further journals, by how many flows copied the records before;
    `own`: those of the flow itself, on the target, each of which has to know a topic before anything of it is copied.
    `others`: those of further flows to the source.
    """

    def __init__(
        self,
        source: ClusterClient,
        topic: str,
        lanes: int,
        *,
        own_lanes: int = 0,
        relays: Sequence[str] = (),
        own: Sequence[JournalTopic] = (),
        others: Sequence[JournalTopic] = (),
    ) -> None:
        self.topic = topic
        # None: each of them has partitions of one lane of the reverse flow
        self._own_lanes = own_lanes if own_lanes % lanes else None
        self._source = source
        self._journals = [JournalTopic(source, name, lanes) for name in (topic, *relays)]
        self._own = own
        self._others = others
        # by lane that has the partition: they are in no claim of it
        self._clients: dict[int, set[int]] = defaultdict(set)
        # source topic, hop -> by lane of this flow: the reverse flow's journal
        self._remembered: dict[tuple[uuid.UUID, int], dict[int, uuid.UUID]] = {}
        # source topic, lane of this flow: the only partitions that it remembers
        self._parts: dict[tuple[uuid.UUID, int], set[int]] = {}
        self._journaled: set[tuple[str, uuid.UUID]] = set()  # by lane: that it remembers this journal
        self._refilled: set[uuid.UUID] = set()  # mirrors that this flow filled again
        self._named: dict[str, set[uuid.UUID]] = defaultdict(set)  # by source topic: its IDs in the journal
        # with the ID of its mirror topic: while another worker had its lane, that may have been filled again
        self._admitted: dict[tuple[SourcePartition, uuid.UUID | None], TakenOver | None] = {}
        self._lost = ""
        self._reading = asyncio.Lock()
        self._appending: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)  # by lane
        self._read_at = float("-inf")  # when the newest reading began, if it got to its end

    def claimed(self, lane: int, journal: Sequence[Entry]) -> None:
        """Take the journal of a lane of this flow, which another worker may have had: topics that it lacks are forgotten."""
        kept = {entry.topic_id for entry in journal if isinstance(entry, TopicNames)}
        for (topic_id, _), journals in self._remembered.items():
            if topic_id not in kept:
                journals.pop(lane, None)
        if gone := {at[0] for at, journals in self._remembered.items() if not journals}:
            self.forget(gone)
        self.remember(lane, journal)

    def remember(self, lane: int, entries: Iterable[Entry]) -> None:
        """Take what a lane of this flow's own journal says of the reverse flow's."""
        for entry in entries:
            if isinstance(entry, Shared):
                self._remembered.setdefault((entry.topic_id, 0), {})[lane] = entry.reverse_journal
            elif isinstance(entry, SharedRelay):
                self._remembered.setdefault((entry.topic_id, entry.hop), {})[lane] = entry.relay_journal
            elif isinstance(entry, PartitionShared):
                self._parts.setdefault((entry.partition.topic_id, lane), set()).add(entry.partition.partition)
            elif isinstance(entry, Remirrored):
                self._refilled.add(entry.target_topic_id)
            elif isinstance(entry, TopicNames):
                self._named[entry.source_topic].add(entry.topic_id)

    def forget(self, topics: Iterable[uuid.UUID]) -> None:
        """Source topics whose mirror this flow alone fills again: what they are copies of is gone, so they are copied, too."""
        gone = set(topics)
        self._remembered = {at: journals for at, journals in self._remembered.items() if at[0] not in gone}
        self._parts = {at: parts for at, parts in self._parts.items() if at[0] not in gone}
        self._journaled = {at for at in self._journaled if at[1] not in gone}
        self._admitted = {at: taken for at, taken in self._admitted.items() if at[0].topic_id not in gone}
        self._read_at = float("-inf")

    def remembers(self, topic_id: uuid.UUID) -> bool:
        """Was the source topic ever read as one that both directions copy?"""
        return (topic_id, 0) in self._remembered

    def may_hold_copies(self, topic: str, topic_id: uuid.UUID) -> bool:
        """Was it, or one that had its name before? Lanes write by name, some batches into the one that took its place."""
        return any(map(self.remembers, {topic_id, *self._named[topic]}))

    @property
    def of_ring(self) -> bool:
        """Is the reverse flow the incoming one of a ring?"""
        return len(self._journals) > 1

    async def is_remembered(self, topic: uuid.UUID, partitions: Iterable[TopicPartition], journal: uuid.UUID) -> bool:
        """Did the reverse flow read these partitions of a topic of the target, which a journal of this flow explained then, or
        any of it by another journal than `journal`? Raises `BrokerError`.
        """
        async with self._reading:
            await self._read()
        lanes = [lane.shared for each in self._journals for lane in each.lanes.values()]
        read = (each.lane_of(p).remembers(topic, p.partition) for p in partitions for each in self._journals)
        return any(read) or any(shared.get(topic, journal) != journal for shared in lanes)

    async def hold(self, stream: SharedPartition, response: FetchedPartition, journal: LaneJournal) -> Hold | None:
        """Learn who wrote the records of a response; why they may not be read now, if they may not.

        Raises `BrokerError` or `Unreachable` where the journal cannot be read now.
        """
        if self._lost:
            return Hold(UNDECIDED, self._lost)
        asked = time.monotonic()  # the response was there by then
        if (stream.key, stream.target_id) not in self._admitted or (
            self.of_ring and (journal.lane, stream.key.topic_id) not in self._journaled
        ):
            held = await self._admit(stream, journal, asked)
            if held is not None:
                return held
        found = _writers_of(response, self._admitted[stream.key, stream.target_id])
        if ready(self.known_of(stream), found):
            return None
        async with self._reading:
            if ready(self.known_of(stream), found):
                return None
            if self._read_at < asked and (why := await self._try_to_read()) is not None:
                return why
            if doubt := self._doubt(stream):
                return Hold(UNDECIDED, doubt)
            marked = await self._marked(stream.source)
            if sum(map(len, self._clients.values())) >= MOST_CLIENTS:
                self._clients.clear()
            clients, known = self._clients[self._journals[0].number_of(stream.target)], self.known_of(stream)
            whole = all(each.lane_of(stream.target).whole for each in self._journals)
            for writer in sorted(found):
                origin = known.judge(writer, marked=marked.get(writer[0]), whole=whole)
                if origin is Origin.CONTRADICTION and not await self._of_another_flow(writer, known):
                    return Hold(UNDECIDED, contradiction(writer, known))
                if origin is not Origin.COPY:
                    clients.add(writer[0])
        return None

    def admits(self, stream: SharedPartition) -> bool:
        """May the partition be read, as far as is known?"""
        return not self._lost and (stream.key, stream.target_id) in self._admitted

    def known_of(self, stream: SharedPartition) -> Known:
        """Who wrote the records of a partition that is not held, and which of them its lane copies."""
        lanes = [each.lane_of(stream.target).newest for each in self._journals]
        clients = self._clients[self._journals[0].number_of(stream.target)]
        if stream.hop:
            return Known(ChainMap(*lanes), clients, relayed=lanes[stream.hop - 1])
        taken = self._admitted.get((stream.key, stream.target_id))
        return Known(lanes[0] if len(lanes) == 1 else ChainMap(*lanes), clients, taken)

    def _doubt(self, stream: SharedPartition) -> str:
        doubts = (
            each.lane_of(stream.target).doubt(stream.key.topic_id, stream.key.partition) for each in self._journals
        )
        return next(filter(None, doubts), "")

    async def _admit(self, stream: SharedPartition, journal: LaneJournal, asked: float) -> Hold | None:
        """Before anything of a partition is read: do both flows know its topic, and each other's journal?

        Held is what a reading since `asked` holds, be it another partition's; one of shortly before may admit.
        """
        async with self._appending[journal.lane]:
            while True:
                async with self._reading:
                    found = await self._judge_fresh(stream, journal, asked)
                if found is None or isinstance(found, Hold):
                    return found
                await journal.append(found)  # other lanes read meanwhile
                self._journaled.add((journal.lane, stream.key.topic_id))
                self.remember(journal.partition.partition, found)

    async def _judge_fresh(
        self, stream: SharedPartition, journal: LaneJournal, asked: float
    ) -> Hold | Sequence[Entry] | None:
        """`_judge`, by what was read last where that is recent enough."""
        if self._read_at >= asked - FRESH_S:
            found = await self._judge(stream, journal)
            if not isinstance(found, Hold) or self._read_at >= asked:
                return found
        if (why := await self._try_to_read()) is not None:
            return why
        return await self._judge(stream, journal)

    async def _judge(self, stream: SharedPartition, journal: LaneJournal) -> Hold | Sequence[Entry] | None:
        """Admit a partition by what was read, or say why not, or what its lane has to journal before."""
        topic_id = stream.key.topic_id
        if self._lost:
            return Hold(UNDECIDED, self._lost)
        if doubt := self._doubt(stream):
            return Hold(UNDECIDED, doubt)
        if self.of_ring and any(self.remembers(each) for each in self._named[stream.source.topic] - {topic_id}):
            why = "the other clusters of the ring have what was in the former one, and would get it once more from this one"
            return Hold(UNDECIDED, f"{stream.source} was created again: {why}. Create the topic again on all of them")
        for hop, each in enumerate(self._journals):
            if (held := self._unready(stream, hop, each, journal.partition.partition)) is not None:
                return held
        if not (stream.copied_back or self._writes(stream)):
            self._admitted[stream.key, stream.target_id] = None
            return None
        if self.of_ring and (held := await self._admit_own(stream)) is not None:
            return held
        parts = self._parts_to_remember(stream, journal.partition.partition)
        if parts or (journal.lane, topic_id) not in self._journaled:
            known = [(hop, each.id) for hop, each in enumerate(self._journals) if each.id is not None]
            entries: list[Entry] = [PartitionShared(SourcePartition(topic_id, number)) for number in sorted(parts)]
            return entries + [SharedRelay(topic_id, hop, id) if hop else Shared(topic_id, id) for hop, id in known]
        found = self._written_before(stream)
        if isinstance(found, Hold):
            return found
        self._admitted[stream.key, stream.target_id] = found
        return None

    def _parts_to_remember(self, stream: SharedPartition, own: int) -> set[int]:
        """Partitions of this flow's lane that all journals write by now, where it does not remember this one."""
        topic_id, topic = stream.key.topic_id, stream.target.topic
        known = self._parts.get((topic_id, own), set())
        if self._own_lanes is None or stream.key.partition in known:
            return set()
        written = (
            set[int]().union(*(lane.written(topic_id) for lane in each.lanes.values())) for each in self._journals
        )
        return {n for n in set.intersection(*written) - known if lane_of(topic, n, self._own_lanes) == own}

    def _writes(self, stream: SharedPartition) -> bool:
        return self._journals[0].lane_of(stream.target).writes(stream.key.topic_id, stream.key.partition)

    def _written_before(self, stream: SharedPartition) -> TakenOver | Hold | None:
        """What the source's partition has before the reverse flow's own records, or why it is held; None: nothing."""
        lane = self._journals[0].lane_of(stream.target)
        taken = lane.taken_over(stream.key.topic_id, stream.key.partition)
        until = "" if taken is None else f"MirrorMaker 2 wrote to it up to offset {taken[0].target_offset}"
        if self.of_ring:
            why = f"{until}, and in a ring it is not known which records before are whose copies"
            return None if taken is None else Hold(UNDECIDED, why)
        read = stream.target_id is not None and lane.remembers(stream.target_id, stream.key.partition)
        if stream.target_id is None or (stream.copied_back and not read):
            return Hold(WAITS, f"the reverse flow has not begun to read {stream.target}")
        begin = lane.begin(stream.target_id, stream.key.partition)
        if begin == NEVER and stream.copied_back:
            begin = None  # it may have yet to begin
        if begin is None and stream.target_id in self._refilled:
            return Hold(WAITS, f"the reverse flow has not begun to copy {stream.target}, which was filled again")
        if begin is not None and not lane.took_over(stream.target_id, stream.key.partition):
            return TakenOver(begin, ((0, begin),))
        if taken is None:
            return None
        if taken[1] is None:
            asks = "compared by the reverse flow; its event TakeoverUnexplained asks, if needed"
            return Hold(WAITS, f"{until}, and which records before are copies is {asks}")
        return TakenOver(taken[0].target_offset, taken[1].ranges)

    def _unready(self, stream: SharedPartition, hop: int, journal: JournalTopic, own: int) -> Hold | None:
        """Why one journal of the reverse flow does not explain what a partition holds, or not yet. `own`: this flow's lane."""
        topic_id, lane = stream.key.topic_id, journal.lane_of(stream.target)
        before = self._remembered.get((topic_id, hop), {})
        if any(id != journal.id for id in before.values()):
            self._lost = f"{journal.topic} is not the journal that copies were recognised by before: it was deleted"
            return Hold(UNDECIDED, self._lost)
        number = stream.key.partition
        remembered = own in before and number in self._parts.get((topic_id, own), (number,))
        if remembered and not lane.accepted(topic_id):
            return Hold(UNDECIDED, f"the reverse flow's journal has lost its entry of {stream.source}")
        # Else it may yet take it over, with copies that no claim explains.
        if stream.copied_back and not lane.writes(topic_id, stream.key.partition):
            return Hold(WAITS, f"the reverse flow has not begun to write {stream.source}")
        return None

    async def _admit_own(self, stream: SharedPartition) -> Hold | None:
        """Why one of the flow's own journals does not know the target yet: it has to before another lane fills it."""
        for each in self._own:
            try:
                await each.read()
            except BrokerError as error:
                if error.code not in _NO_JOURNAL:
                    raise
                return Hold(WAITS, f"{each.topic}, a journal of this flow, cannot be read: {error}")
            if each.lost or stream.target_id is None or not each.lane_of(stream.source).accepted(stream.target_id):
                return Hold(WAITS, f"{each.topic}, a journal of this flow, does not explain {stream.target} yet")
        return None

    async def _marked(self, partition: TopicPartition) -> dict[int, bool]:
        """The producers that the partition's leader knows, and whether markers were written for them."""
        _, leader = await locate(self._source, partition)
        connection = await self._source.connection(leader, PURPOSE)
        states = await requests.describe_producers(connection, {partition.topic: [partition.partition]})
        return {state.producer_id: state.transactional for state in states[partition]}

    async def _of_another_flow(self, writer: Writer, known: Known) -> bool:
        """Is it a lane of a further flow to the source? Its journal has each claim before its first batch."""
        producer_id, epoch, transactional = writer
        if producer_id in known.newest or transactional:
            return False
        for each in self._others:
            try:
                await each.read()
            except BrokerError as error:
                if error.code not in _NO_JOURNAL:
                    raise
                continue  # it does not run, or this user may not read it
            except (JournalCorrupt, CorruptBatch):
                continue
            if not each.lost and any(epoch <= lane.newest.get(producer_id, -1) for lane in each.lanes.values()):
                return True
        return False

    async def _try_to_read(self) -> Hold | None:
        """Read to the end; why that decides nothing, where it does not."""
        try:
            await self._read()
        except BrokerError as error:
            if error.code not in _NO_JOURNAL:
                raise
            return Hold(UNDECIDED, f"{self.topic}, the reverse flow's journal, cannot be read: {error}")
        except (JournalCorrupt, CorruptBatch) as error:
            return Hold(UNDECIDED, f"{self.topic}, the reverse flow's journal: {error.why}")
        return Hold(UNDECIDED, self._lost) if self._lost else None

    async def _read(self) -> None:
        """Read every journal of the reverse flow to its end as it is now."""
        began, self._read_at = time.monotonic(), float("-inf")
        for each in self._journals:
            await each.read()
            self._lost = self._lost or each.lost
        self._read_at = began


def _writers_of(response: FetchedPartition, taken: TakenOver | None) -> set[Writer]:
    """Who wrote the records of a response, up to a batch that is damaged: what follows that one is not planned either.

    `taken`: below its end no producer ID says it.
    """
    found: set[Writer] = set()
    try:
        for header, _ in iter_batches(response.records):
            if taken is None or header.base_offset >= taken.end:
                found |= writers([header])
    except CorruptBatch:
        pass
    return found
