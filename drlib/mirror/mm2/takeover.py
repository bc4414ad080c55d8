"""Takes a flow over from MirrorMaker 2: reads what it stored, and finds where each of its partitions continues.

Rules:
- Two replicators never run one flow: while the flow's Connect group has members and its source connector is enabled, the
  flow does not start. The group of a killed MM2 keeps its members for their session timeout, which is waited for.
- Only partitions without a position in our journal are examined, after our fence. MM2's committed offset is where the
  search begins, the end of the mirror partition decides (`takeover_rules`); the result is journaled with the claim.
- Copies in open transactions (MM2 with exactly-once source support) are waited for: only completed ones count.
- A mirror partition too long to compare is parked with the reason.
Not for: stopping MM2, or connectors with transforms: their copies differ from the source's records (`TakeoverUnsure`).
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final

from drlib import clock
from drlib.config.flow_settings import FlowSettings
from drlib.errors import LeaseHeld
from drlib.kafka.net import group_requests, requests
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol import recode
from drlib.kafka.protocol.batch import BatchHeader
from drlib.kafka.protocol.error_codes import UNKNOWN_TOPIC_OR_PARTITION, raise_for
from drlib.kafka.protocol.fetch import TopicId
from drlib.kafka.protocol.recode import digest
from drlib.mirror.journal.entries import SourcePartition, Takeover
from drlib.mirror.mm2 import connect_offsets
from drlib.mirror.mm2.records import OffsetSync
from drlib.mirror.mm2.takeover_rules import Mark, decide, usable_pairs, window
from drlib.mirror.read_batches import locate, read_range
from drlib.mirror.status.worker_status import EventLog
from drlib.model import TopicPartition

GROUP_PATIENCE_S: Final = 20.0  # Connect's session time-out is 10 s
MARKS_MAX: Final = 500_000  # records of one mirror partition compared at most
_QUIET: Final = ("Empty", "Dead")

KeyValue = tuple[bytes | None, bytes | None]


class MirrorMakerRunning(LeaseHeld):
    """MirrorMaker 2 copies this flow right now."""


class MirrorTooLong(LeaseHeld):
    """A mirror partition has more records to compare than `MARKS_MAX`."""


@dataclass(frozen=True, slots=True)
class Mm2Progress:
    """What MM2 left: `copied`, the last committed source offset by source partition, and its syncs in written order."""

    copied: Mapping[TopicPartition, int]
    syncs: Mapping[TopicPartition, list[tuple[int, int]]]


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

    async def read_progress(self) -> Mm2Progress | None:
        """What MM2 stored about the flow; None when it never ran here."""
        topic = self.settings.connect_offsets_topic
        if not await _partitions(self.target, topic):
            return None
        copied = connect_offsets.copied(
            [pair async for pair in self._topic(self.target, topic)],
            self.settings.flow,
        )
        syncs: dict[TopicPartition, list[tuple[int, int]]] = defaultdict(list)
        holder = self.source if self.settings.offset_syncs_location == "source" else self.target
        async for key, value in self._topic(holder, self.settings.offset_syncs_topic):
            if key is not None and value is not None:
                sync = OffsetSync.decode(key, value)
                syncs[sync.partition].append((sync.upstream_offset, sync.offset))
        return Mm2Progress(copied, syncs)

    async def examine(
        self,
        progress: Mm2Progress,
        key: SourcePartition,
        source: TopicPartition,
        mirror: TopicPartition,
        mirror_end: int,
    ) -> Takeover | None:
        """Where `source` continues; None when nothing of it was copied. `mirror_end`: the mirror's log end at our fence.

        Raises `Unreachable` while a transaction is open on the mirror, `MirrorTooLong`.
        """
        source_id, from_source, source_start, source_end = await _open(self.source, source)
        mirror_id, from_mirror, mirror_start, _ = await _open(self.target, mirror)
        committed = progress.copied.get(source)
        pairs = progress.syncs.get(source, [])
        if committed is not None and committed >= source_end:
            self.events.open(
                "TakeoverStale", str(source), f"MM2 copied up to {committed}, the log ends at {source_end}"
            )
            committed, pairs = None, []
        begin_source, begin_mirror = source_start, mirror_start
        if committed is not None:
            begin_source, begin_mirror = window(pairs, committed, mirror_end)
            begin_source, begin_mirror = max(begin_source, source_start), max(begin_mirror, mirror_start)
        if mirror_end - begin_mirror > MARKS_MAX:
            raise MirrorTooLong(
                f"{mirror} cannot be taken over",
                f"{mirror_end - begin_mirror} records would have to be compared, at most {MARKS_MAX} are",
                "Start MirrorMaker 2 once more for over a minute, so that it commits its offsets, and stop it.",
            )
        batches = [
            b async for b in read_range(from_mirror, mirror_id, mirror, begin_mirror, mirror_end, committed=True)
        ]
        # With LogAppendTime the copies do not have the source's timestamps.
        timed = not any(header.is_log_append_time for header, _ in batches)
        mirrored = [m for header, view in batches for m in _marks(header, view, timed) if m.offset >= begin_mirror]
        if not mirrored and committed is None:
            return None
        read: list[Mark] = []
        behind = 0
        async for header, view in read_range(from_source, source_id, source, begin_source, source_end):
            if not header.is_control:
                new = [m for m in _marks(header, view, timed) if m.offset >= begin_source]
                read += new
                behind += sum(committed is None or m.offset > committed for m in new)
            if behind > len(mirrored):
                break
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

    async def _has_members(self, group: str) -> bool:
        metadata = await self.target.metadata([])
        for node in metadata.brokers:
            for listing in await group_requests.list_groups(await self.target.connection(node, "control")):
                if listing.group == group and listing.protocol_type == "connect" and listing.state not in _QUIET:
                    return True
        return False

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
    raise_for(described.error_code, f"looking up {topic}")
    return sorted(described.partitions)


async def _open(client: ClusterClient, partition: TopicPartition) -> tuple[TopicId, Connection, int, int]:
    """Topic ID, a connection to the leader, log start and log end."""
    topic_id, leader = await locate(client, partition)
    connection = await client.connection(leader, "read")
    start = (await requests.list_offsets(connection, [partition], requests.EARLIEST))[partition]
    end = (await requests.list_offsets(connection, [partition], requests.LATEST))[partition]
    return topic_id, connection, start, end


def _marks(header: BatchHeader, view: memoryview, timed: bool) -> list[Mark]:
    return [
        Mark(r.offset, digest(r.key, r.value, r.headers, r.timestamp if timed else None), header.is_transactional)
        for r in recode.records(view)
    ]
