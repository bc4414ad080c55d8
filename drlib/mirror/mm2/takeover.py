"""Takes a flow over from MirrorMaker 2: reads what it stored, and finds where each of its partitions continues.

Rules:
- Two replicators never run one flow: while the flow's Connect group has members and its source connector is enabled, the
  flow does not start. The group of a killed MM2 keeps its members for their session timeout, which is waited for.
- Only partitions without a position in our journal are examined, after our fence. MM2's committed offset is where the
  search begins, the end of the mirror partition decides (`takeover_rules`); the result is journaled with the claim.
- Copies in open transactions (MM2 with exactly-once source support) are waited for: only completed ones count.
- A committed offset counts only for the topic and the mirror that it was committed for: not for a topic that was re-created
  since (the journal knows it under another ID), nor where the mirror's log contradicts it. Without records in the mirror the
  copy then begins at the source's log start (`TakeoverStale`), else the partition is parked (`TakeoverContradiction`).
- A record that cannot be read is skipped, counted and reported; a partition whose offset cannot be read is parked.
- A mirror partition too long to compare is parked with the reason.
Not for: stopping MM2, or connectors with transforms: their copies differ from the source's records (`TakeoverUnsure`).
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from drlib import clock
from drlib.config.flow_settings import FlowSettings
from drlib.errors import DrlibError, LeaseHeld
from drlib.kafka.net import group_requests, requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.batch import BatchHeader
from drlib.kafka.protocol.error_codes import UNKNOWN_TOPIC_OR_PARTITION, BrokerError, raise_for
from drlib.kafka.protocol.fetch import TopicId
from drlib.kafka.protocol.recode import digest
from drlib.mirror.journal.entries import SourcePartition, Takeover
from drlib.mirror.mm2 import connect_offsets
from drlib.mirror.mm2.records import MalformedRecord, OffsetSync
from drlib.mirror.mm2.takeover_rules import MirrorLog, RecordDigest, contradiction, decide, usable_pairs, window
from drlib.mirror.read_batches import holds_data, locate, read_range
from drlib.mirror.status.worker_status import EventLog
from drlib.model import TopicPartition

GROUP_PATIENCE_S: Final = 20.0  # Connect's session time-out is 10 s
LOADING_PAUSES_S = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
MARKS_MAX: Final = 500_000  # records of one mirror partition compared at most
_QUIET: Final = ("Empty", "Dead")

KeyValue = tuple[bytes | None, bytes | None]


class MirrorMakerRunning(LeaseHeld):
    """MirrorMaker 2 copies this flow right now."""


class MirrorTooLong(LeaseHeld):
    """A mirror partition has more records to compare than `MARKS_MAX`."""


class TakeoverContradiction(DrlibError):
    """MM2's committed offset and the log of a mirror partition cannot both be right."""

    def __init__(self, mirror: TopicPartition, committed: int, why: str) -> None:
        super().__init__(
            f"{mirror} is not what MirrorMaker 2 copied up to offset {committed}",
            f"{why}: the source topic was re-created, or the mirror lost records",
            "Nothing was written: find out which of the two it was.",
        )


@dataclass(frozen=True, slots=True)
class Mm2Progress:
    """What MM2 left: the last committed source offset by source partition (`copied`), the partitions whose offset cannot
    be read, and its syncs in written order."""

    copied: Mapping[TopicPartition, int]
    syncs: Mapping[TopicPartition, list[tuple[int, int]]]
    unreadable: Mapping[TopicPartition, DrlibError] = field(default_factory=dict)

    @property
    def topics(self) -> frozenset[str]:
        """Source topics of which MM2 surely copied something. It makes its topics also for a flow that is not enabled."""
        return frozenset(each.topic for known in (self.copied, self.syncs, self.unreadable) for each in known)


@dataclass
class TakeoverReader:
    """Reads what MM2 stored about one flow; keeps no state between calls."""

    settings: FlowSettings
    source: ClusterClient
    target: ClusterClient
    events: EventLog

    async def refuse_running(self, patience_s: float = GROUP_PATIENCE_S) -> None:
        """Return when no MM2 copies the flow; raises `MirrorMakerRunning` when one still does after `patience_s`."""
        flow, group = self.settings.flow, self.settings.connect_group
        end = time.monotonic() + patience_s
        while await self._has_members(group):
            configs = [pair async for pair in self._topic(self.target, self.settings.connect_configs_topic)]
            if not connect_offsets.source_connector_enabled(configs, flow):
                break
            if time.monotonic() > end:
                raise MirrorMakerRunning(
                    f"{flow} is mirrored by MirrorMaker 2",
                    f"the Connect group {group} on {flow.target} has members and its source connector is enabled",
                    "Stop that MirrorMaker 2, or set this flow's `enabled = false` in its file and restart it; "
                    "drlib then continues from its positions.",
                )
            self.events.open("WaitingForMirrorMaker", str(flow), f"Connect group {group} still has members")
            await asyncio.sleep(0.2)
        self.events.resolve("WaitingForMirrorMaker", str(flow))

    async def running_connector(self) -> Mapping[str, str] | None:
        """The configuration of the source connector of an MM2 that copies the flow right now; None where none does.

        Empty where its configuration cannot be found.
        """
        if not await self._has_members(self.settings.connect_group):
            return None
        configs = [pair async for pair in self._topic(self.target, self.settings.connect_configs_topic)]
        if not connect_offsets.source_connector_enabled(configs, self.settings.flow):
            return None
        return connect_offsets.source_connector(configs, self.settings.flow) or {}

    async def read_progress(self) -> Mm2Progress | None:
        """What MM2 stored about the flow; None where MM2 has not run."""
        topic = self.settings.connect_offsets_topic
        if not await _partitions(self.target, topic):
            return None
        stored = connect_offsets.copied(
            [pair async for pair in self._topic(self.target, topic)],
            self.settings.flow,
        )
        self._skipped(topic, stored.skipped)
        syncs: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
        holder = self.source if self.settings.offset_syncs_location == "source" else self.target
        skipped: list[str] = []
        async for key, value in self._topic(holder, self.settings.offset_syncs_topic):
            try:
                sync = OffsetSync.decode(key, value)
                if min(sync.partition.partition, sync.upstream_offset, sync.offset) < 0:
                    raise MalformedRecord(f"a negative number in {sync}")
                syncs[sync.partition].append((sync.upstream_offset, sync.offset))
            except MalformedRecord as error:
                skipped.append(f"the record with key {key!r} ({error})")
        self._skipped(self.settings.offset_syncs_topic, skipped)
        return Mm2Progress(stored.offsets, syncs, stored.unreadable)

    def _skipped(self, topic: str, records: Sequence[str]) -> None:
        """Report the records of a topic of MM2's that could not be read."""
        if records:
            detail = f"{len(records)} records were skipped, the last of them {records[-1]}"
            self.events.open("TakeoverRecordSkipped", topic, detail)

    async def examine(
        self,
        progress: Mm2Progress,
        key: SourcePartition,
        source: TopicPartition,
        mirror: TopicPartition,
        mirror_end: int,
        *,
        recreated: bool,
    ) -> Takeover | None:
        """Where `source` continues; None when nothing of it was copied. `mirror_end`: the mirror's log end at our fence.

        `recreated`: the journal knows the topic under another ID. Raises `Unreachable` while a transaction is open on the
        mirror, `MirrorTooLong`, `TakeoverContradiction`, `ConnectRecordUnreadable`.
        """
        if source in progress.unreadable and not recreated:
            raise progress.unreadable[source]
        source_id, from_source, source_start, source_end = await _open(self.source, source)
        mirror_id, from_mirror, mirror_start, _ = await _open(self.target, mirror)
        committed = progress.copied.get(source)
        pairs = progress.syncs.get(source, [])
        if recreated:
            if committed is not None:
                self._stale(source, committed, f"{source.topic} was re-created since")
            return None
        if committed is not None and committed >= source_end:
            self._stale(source, committed, f"the log ends at {source_end}")
            committed, pairs = None, []
        window_source, window_mirror = (0, 0) if committed is None else window(pairs, committed, mirror_end)
        begin_source, begin_mirror = max(window_source, source_start), max(window_mirror, mirror_start)
        if mirror_end - begin_mirror > MARKS_MAX:
            raise MirrorTooLong(
                f"{mirror} cannot be taken over",
                f"{mirror_end - begin_mirror} records would have to be compared, at most {MARKS_MAX} are",
                "Start MirrorMaker 2 once more for over a minute, so that it commits its offsets, and stop it.",
            )
        batches: list[tuple[BatchHeader, memoryview]] = []
        control: list[int] = []
        seen, complete = begin_mirror, begin_mirror == window_mirror
        reading = read_range(from_mirror, mirror_id, mirror, begin_mirror, mirror_end, committed=True, control=True)
        async for header, view in reading:
            complete = complete and header.base_offset <= seen and header.contiguous
            seen = header.next_offset
            if header.is_control:
                control += range(header.base_offset, header.next_offset)
            else:
                batches.append((header, view))
        # With LogAppendTime the copies do not have the source's timestamps.
        timed = not any(header.is_log_append_time for header, _ in batches)
        mirrored = [m for header, view in batches for m in _digests(header, view, timed) if m.offset >= begin_mirror]
        if not mirrored and committed is None:
            return None
        log = MirrorLog(mirror_end, mirrored, control, complete and seen == mirror_end)
        if committed is not None and (why := contradiction((), log, committed, pairs)):
            await self._refuse(source, mirror, committed, why)
            return None
        read: list[RecordDigest] = []
        behind = 0
        async for header, view in read_range(from_source, source_id, source, begin_source, source_end):
            if not header.is_control:
                new = [m for m in _digests(header, view, timed) if m.offset >= begin_source]
                read += new
                behind += sum(committed is None or m.offset > committed for m in new)
            if behind > len(mirrored):
                break
        if committed is not None and (why := contradiction(read, log, committed, pairs)):
            await self._refuse(source, mirror, committed, why)
            return None
        decision = decide(read, mirrored, committed, source_start)
        if committed is None and not decision.ahead:
            return None
        if not decision.exact:
            self.events.open(
                "TakeoverUnsure",
                str(source),
                f"{decision.doubtful} records from offset {decision.position} on may be in {mirror} already",
            )
        return Takeover(
            key,
            decision.position,
            mirror_end,
            -1 if committed is None else committed,
            decision.doubtful,
            clock.now_ms(),
            usable_pairs(pairs, read, mirrored, decision.position),
        )

    async def _refuse(self, source: TopicPartition, mirror: TopicPartition, committed: int, why: str) -> None:
        """Do not use an offset that the mirror contradicts: without records there the copy begins at the log start."""
        if await holds_data(self.target, mirror):
            raise TakeoverContradiction(mirror, committed, why)
        self._stale(source, committed, f"{mirror} is empty: {why}")

    def _stale(self, source: TopicPartition, committed: int, why: str) -> None:
        self.events.open("TakeoverStale", str(source), f"MM2 copied up to {committed}, {why}")

    async def _has_members(self, group: str) -> bool:
        metadata = await self.target.metadata([])
        for node in metadata.brokers:
            for listing in await self._groups_of(node):
                if listing.group == group and listing.protocol_type == "connect" and listing.state not in _QUIET:
                    return True
        return False

    async def _groups_of(self, node: int) -> Sequence[group_requests.GroupListing]:
        """The groups of a broker, which loads them for some seconds when it has just become their coordinator."""
        for pause_s in LOADING_PAUSES_S:
            try:
                return await group_requests.list_groups(await self.target.connection(node, "control"))
            except BrokerError as error:
                if not error.retriable:
                    raise
            await asyncio.sleep(pause_s)
        return await group_requests.list_groups(await self.target.connection(node, "control"))

    async def _topic(self, client: ClusterClient, topic: str) -> AsyncIterator[KeyValue]:
        """Every committed record of a topic, partition by partition in log order; none where there is no topic."""
        for number in await _partitions(client, topic):
            partition = TopicPartition(topic, number)
            topic_id, connection, start, end = await _open(client, partition)
            async for _, view in read_range(connection, topic_id, partition, start, end, committed=True):
                for record in recode.records(view):
                    yield record.key, record.value


async def _partitions(client: ClusterClient, topic: str) -> list[int]:
    """Partition numbers, none where there is no such topic. Raises `BrokerError` where it may not be described."""
    described = (await client.metadata([topic])).topics[topic]
    if described.error_code == UNKNOWN_TOPIC_OR_PARTITION:
        return []
    raise_for(described.error_code, f"looking up {topic}", topics=[topic])
    return sorted(described.partitions)


async def _open(client: ClusterClient, partition: TopicPartition) -> tuple[TopicId, Connection, int, int]:
    """Topic ID, a connection to the leader, log start and log end."""
    topic_id, leader = await locate(client, partition)
    connection = await client.connection(leader, "read")
    start = (await requests.list_offsets(connection, [partition], requests.EARLIEST))[partition]
    end = (await requests.list_offsets(connection, [partition], requests.LATEST))[partition]
    return topic_id, connection, start, end


def _digests(header: BatchHeader, view: memoryview, timed: bool) -> list[RecordDigest]:
    return [
        RecordDigest(
            r.offset,
            digest(r.key, r.value, r.headers, r.timestamp if timed else None),
            header.is_transactional,
            r.timestamp if timed else -1,
        )
        for r in recode.records(view)
    ]
