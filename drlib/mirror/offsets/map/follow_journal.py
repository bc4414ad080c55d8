"""Follows the journals of all lanes of a flow and keeps their offset maps up to date: for the worker that syncs groups.

Rules: mirror topics are not read, so records that a lane has not yet acknowledged in its journal are missing; a position
beyond them is reported as behind, which is safe. A journal is read again from its start when it was re-created or cleaned
below what was read, contradicts what was read, had claims voided, or had entries folded that were not read. What the lane
dropped (`Expired`, `Thinned`, topics that are gone) is dropped. A partition that contradicts itself, or whose
mirror a claim refused, has no map; the others are not affected.
- A flow's worker has one follower: all that synchronize groups use it, so that the maps are in memory once. What was read
  stays for as long as one of them uses it. A view keeps what it was made of, whatever is read again meanwhile.
- Translation runs in threads and reading in the event loop: both hold the follower's lock, for one position or one batch.
  The maps of this worker's own lanes are not used instead: they lack what ends a translation (`SourceTruncated`), change
  with every acknowledgement, and are out of date as soon as another worker owns the lane.
Not for: claims and failover, which must know the last record (`load_maps`).
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol import recode
from drlib.kafka.topic_ids import is_made
from drlib.mirror.journal.entries import (
    Chunk,
    Entry,
    Folded,
    MirrorRefused,
    Remirrored,
    SourcePartition,
    TopicIdentified,
    TopicNames,
    decode,
    names_key,
)
from drlib.mirror.journal.renamed import identified, rename, renamed, stand_ins
from drlib.mirror.offsets.map.count_records import RecoveryContradiction
from drlib.mirror.offsets.map.fold_claims import unfold
from drlib.mirror.offsets.map.journal_log import read_through
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.offsets.map.offset_map import MapContradiction, PartitionMap
from drlib.mirror.read_batches import locate, read_range
from drlib.model import TopicPartition

PURPOSE = "sync"


@dataclass
class _Read:
    """One journal partition, up to the offset that was read."""

    topic_id: uuid.UUID
    position: int
    maps: Maps = field(default_factory=Maps)
    ids: Mapping[uuid.UUID, uuid.UUID] = field(default_factory=dict)  # journaled -> as the source describes the topic

    def apply(self, entry: Entry) -> None:
        if isinstance(entry, TopicNames):
            self.maps.names[entry.topic_id] = entry
        source = getattr(entry, "partition", None)
        if isinstance(entry, MirrorRefused):
            self.maps.refuse(entry.partition, RecoveryContradiction(entry.reason))
        elif isinstance(source, SourcePartition) and source not in self.maps.refused:
            self.maps.get(source).apply(entry)

    def take(self, batch: memoryview) -> None:
        """Apply the entries of a batch that follows what was read. Raises `MapContradiction`, `_MeaningChanged`."""
        for record in recode.records(batch):
            if record.offset < self.position or record.key is None:
                continue
            if record.value is None:
                if (gone := names_key(record.key)) is not None:
                    self.forget(self.ids.get(gone, gone))
                continue
            entry = decode(record.key, record.value)
            if self._renames(entry):
                raise _MeaningChanged
            entry = rename(entry, self.ids)
            if isinstance(entry, Remirrored) or (isinstance(entry, Chunk) and not self.has(entry)):
                raise _MeaningChanged
            if not isinstance(entry, Chunk | Folded):
                self.apply(entry)

    def _renames(self, entry: Entry) -> bool:
        """Does the entry change the ID by which earlier ones are read?"""
        if isinstance(entry, TopicIdentified):
            return self.ids.get(entry.made_id) != entry.real_id
        return isinstance(entry, TopicNames) and is_made(entry.topic_id) and entry.topic_id not in self.ids

    def forget(self, topic_id: uuid.UUID) -> None:
        """Drop a source topic that neither cluster has any more."""
        self.maps.names.pop(topic_id, None)
        for maps in (self.maps.by_partition, self.maps.refused):
            for key in [key for key in maps if key.topic_id == topic_id]:
                del maps[key]

    def has(self, chunk: Chunk) -> bool:
        """Are all records of `chunk` known from the entries that it replaces?"""
        offsets = self.maps.by_partition.get(chunk.partition)
        if chunk.partition in self.maps.refused or not chunk.segments:
            return True
        if offsets is None:
            return False
        over = offsets.segments().dropped
        begin = 0 if over is None else over.source_end
        records = sum(segment.count for segment in chunk.segments if segment.source >= begin)
        return (
            offsets.segments().mirrored(max(begin, chunk.segments[0].source), chunk.segments[-1].source_end) == records
        )


class _MeaningChanged(Exception):
    """An entry changes what earlier ones mean."""


@dataclass(frozen=True, slots=True)
class FollowedMaps:
    """The maps as they were read last, and as they are read further; translate in any thread, holding `lock`."""

    lock: threading.Lock
    _read: Mapping[int, _Read]

    def map(self, lane: int, topic_id: uuid.UUID, partition: int) -> PartitionMap | None:
        """The map of a source partition of `lane`; None where the journal has no entry for it."""
        read = self._read.get(lane)
        return read.maps.by_partition.get(SourcePartition(topic_id, partition)) if read is not None else None

    def refuses(self, lane: int, topic_id: uuid.UUID, partition: TopicPartition) -> bool:
        """Is there no map of a source partition because a claim refused it, or because it contradicts itself?"""
        read = self._read.get(lane)
        return read is not None and SourcePartition(topic_id, partition.partition) in read.maps.refused

    def target_id(self, lane: int, topic_id: uuid.UUID) -> uuid.UUID | None:
        """The ID of the mirror topic that the map of a source topic is about."""
        read = self._read.get(lane)
        names = read.maps.names.get(topic_id) if read is not None else None
        return names.target_topic_id if names is not None else None

    def merged(self) -> Maps:
        """All lanes as one. Its maps are those that are read further: for who reads them between two refreshes, and has no
        other thread. It has no journal ID where lanes were read of two journals."""
        ids = {read.topic_id for read in self._read.values()}
        found = Maps(journal_id=ids.pop() if len(ids) == 1 else None)
        found.merge(read.maps for read in self._read.values())
        return found


@dataclass
class JournalFollower:
    """Reads the journals of a flow for all who `refresh` it, until each of them has released it."""

    target: ClusterClient
    journal_topic: str
    lanes: int
    _read: dict[int, _Read] = field(default_factory=dict)
    _users: set[object] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _refreshing: asyncio.Lock = field(default_factory=asyncio.Lock)

    def release(self, user: object) -> None:
        """`user` no longer needs the maps, or begins again. Without any user they are dropped."""
        self._users.discard(user)
        if not self._users:
            self._read.clear()

    async def refresh(self, user: object) -> FollowedMaps:
        """Read the new entries of every lane's journal, for `user`. Raises `BrokerError` or `Unreachable`."""
        self._users.add(user)
        async with self._refreshing:
            for lane in range(self.lanes):
                try:
                    await self._refresh(lane)
                except (MapContradiction, _MeaningChanged):
                    self._read.pop(lane, None)
                    await self._refresh(lane)
            return FollowedMaps(self._lock, dict(self._read))

    async def _refresh(self, lane: int) -> None:
        partition = TopicPartition(self.journal_topic, lane)
        topic_id, leader = await locate(self.target, partition)
        connection = await self.target.connection(leader, PURPOSE)
        start = (await requests.list_offsets(connection, [partition], requests.EARLIEST))[partition]
        end = (await requests.list_offsets(connection, [partition], requests.LATEST))[partition]
        read = self._read.get(lane)
        if read is None or read.topic_id != topic_id or not start <= read.position <= end:
            self._read[lane] = await self._whole(partition)
            return
        async for header, view in read_range(connection, topic_id, partition, read.position, end):
            if not header.is_control:
                with self._lock:
                    read.take(view)
            read.position = header.next_offset

    async def _whole(self, partition: TopicPartition) -> _Read:
        journal = await read_through(self.target, partition, PURPOSE)
        ids = stand_ins(journal.entries)
        read = _Read(journal.topic_id, journal.next_offset, ids={**identified(journal.entries), **ids})
        for entry in unfold(renamed(journal.entries, ids)):
            try:
                read.apply(entry)
            except (
                MapContradiction
            ) as error:  # a whole journal was read: this partition's entries do contradict each other
                read.maps.refuse(entry.partition, error)  # type: ignore[attr-defined]
        return read
