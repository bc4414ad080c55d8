"""What the clusters themselves say of a flow: from any machine, read-only, and also when every worker is dead.

Rules:
- The target says who is a member of the flow's group and owns which lane, and its journal with the mirror topics how far
  each partition is; the source says where its logs end. Nothing is subtracted across clusters: the map tells how far the
  source was mirrored, and lag is counted on the source alone.
- A cluster that does not answer is an event, and what it would have said is unknown.
- What expires is looked at for the `PROBES` partitions that are furthest behind: one batch read each.
- Rates need two looks: one `Surveyor` looked through repeatedly has them, a single look does not.
Not for: what only a worker knows (state of its lanes, events as they happen); `drlib.mirror.monitor.flow_view` puts
both together.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from drlib.config.settings import FlowSettings, MirrorSettings
from drlib.errors import DrlibError
from drlib.kafka.admin.bulk_admin import BulkAdmin
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import wire_client
from drlib.kafka.admin.descriptions import GroupMember
from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient, ClusterMetadata
from drlib.kafka.protocol.error_codes import UNKNOWN_TOPIC_OR_PARTITION, BrokerError
from drlib.mirror.engine.fencing.lanes import lane_of
from drlib.mirror.journal.entries import Claim, Incarnation, Parked, SourceLoss, SourcePartition, SourceTruncated
from drlib.mirror.monitor.lag_monitor import WINDOW_S, first_batch
from drlib.mirror.offsets.map.load_maps import Maps, read_maps
from drlib.mirror.offsets.translation.translate_groups import Positions, checkpointed_positions, source_positions
from drlib.mirror.status.catch_up import Retention, Sample, outlook, retention_in
from drlib.mirror.status.event_kinds import kind_of
from drlib.mirror.status.worker_status import Event, PartitionStatus
from drlib.mirror.threads import in_daemon
from drlib.model import TopicPartition, TranslationKind

PROBES = 32
PATIENCE_S = 15.0
# What a cluster that has just started may take to have a coordinator; its own words come before our patience ends.
COORDINATOR_S = 12.0
FAULTS = (DrlibError, TimeoutError, OSError)


@dataclass(frozen=True)
class GroupStanding:
    """A consumer group of the source: what it has still to read there, and how its positions translate."""

    group: str
    partitions: int
    lag: int | None
    exact: int
    behind: int
    other: int
    read_again: int  # records that a failover now would have it read again, or that never reached the target


@dataclass(frozen=True)
class Survey:
    """One look. `target_error` and `source_error` are empty where the cluster answered."""

    flow: str
    at_ms: int
    lanes: int
    members: tuple[GroupMember, ...] = ()
    claims: Mapping[int, Claim] = field(default_factory=dict)
    partitions: tuple[PartitionStatus, ...] = ()
    events: tuple[Event, ...] = ()
    groups: tuple[GroupStanding, ...] | None = None
    source_error: str = ""
    target_error: str = ""
    maps: Maps = field(default_factory=Maps, repr=False)  # what the journal and the mirror's logs say


@dataclass(frozen=True)
class _Source:
    ends: Mapping[TopicPartition, int]
    starts: Mapping[TopicPartition, int]
    stable: Mapping[TopicPartition, int]
    metadata: ClusterMetadata


class Surveyor:
    """Looks at one flow as often as it is asked to."""

    def __init__(self, settings: MirrorSettings, flow: FlowSettings) -> None:
        self._settings = settings
        self._flow = flow
        self._samples: dict[TopicPartition, deque[Sample]] = {}
        self._retention: dict[str, Retention] = {}

    async def look(self, *, groups: bool = False, source_silence: str = "") -> Survey:
        """Ask both clusters, at the same time. Raises nothing a cluster can cause.

        `source_silence`: why the source is not asked at all, where somebody has just found that it does not answer.
        """
        flow = self._flow.flow
        source = wire_client(self._settings.clusters[flow.source], client_id="drlib-status")
        target = wire_client(self._settings.clusters[flow.target], client_id="drlib-status")
        try:
            here, there = await asyncio.gather(self._source(source, source_silence), self._target(target))
            now_ms = int(time.time() * 1000)
            events: list[Event] = []
            for name, answer in (("SourceUnreachable", here), ("TargetUnreachable", there)):
                if isinstance(answer, str):
                    events.append(_event(name, str(flow), answer, 0, str(flow)))
            maps, members = (Maps(), ()) if isinstance(there, str) else there
            known = None if isinstance(here, str) else here
            partitions = await self._partitions(source, maps, known, now_ms)
            events += _ledger(maps, str(flow))
            events += [
                _event("RetentionAhead", f"{p.topic}-{p.partition}", p.outlook.warning, now_ms, str(flow))
                for p in partitions
                if p.outlook.warning
            ]
            standing: tuple[GroupStanding, ...] | None = None
            if groups:
                found = await self._groups(maps, known)
                if not isinstance(found, str):
                    standing = found
                elif not isinstance(here, str) and not isinstance(there, str):  # else that is said already
                    events.append(_event("GroupsUnseen", str(flow), found, now_ms, str(flow)))
            return Survey(
                str(flow),
                now_ms,
                self._flow.lanes,
                members,
                maps.claims,
                partitions,
                tuple(events),
                standing,
                here if isinstance(here, str) else "",
                there if isinstance(there, str) else "",
                maps,
            )
        finally:
            await asyncio.gather(source.close(), target.close())

    # -- the two clusters ----------------------------------------------------------------------------------------

    async def _target(self, client: ClusterClient) -> tuple[Maps, tuple[GroupMember, ...]] | str:
        flow = self._flow.flow
        journal = self._flow.policy.journal_topic(flow.source)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await client.connect()
                members = await in_daemon(self._members)
                try:
                    return await read_maps(client, journal), members
                except BrokerError as error:
                    if error.code == UNKNOWN_TOPIC_OR_PARTITION:  # it never ran
                        return Maps(), members
                    raise
        except FAULTS as error:
            return _told(error)

    def _members(self) -> tuple[GroupMember, ...]:
        flow = self._flow.flow
        with Cluster(self._settings.clusters[flow.target], timeout_s=COORDINATOR_S) as cluster:
            return cluster.group_members(f"drlib-{flow.source}-{flow.target}")

    async def _source(self, client: ClusterClient, silence: str) -> _Source | str:
        if silence:
            return silence
        ends: dict[TopicPartition, int] = {}
        starts: dict[TopicPartition, int] = {}
        stable: dict[TopicPartition, int] = {}
        try:
            async with asyncio.timeout(PATIENCE_S):
                metadata = await client.metadata(None)
                by_node: dict[int, list[TopicPartition]] = {}
                for name, topic in metadata.topics.items():
                    if topic.error_code == 0 and self._flow.mirrors_topic(name):
                        for number, found in topic.partitions.items():
                            if found.leader >= 0:
                                by_node.setdefault(found.leader, []).append(TopicPartition(name, number))
                for node, wanted in by_node.items():
                    connection = await client.connection(node)
                    ends |= await requests.list_offsets(connection, wanted, requests.LATEST)
                    starts |= await requests.list_offsets(connection, wanted, requests.EARLIEST)
                    stable |= await requests.list_offsets(connection, wanted, requests.LATEST, "read_committed")
                new = {partition.topic for partition in ends} - set(self._retention)
                if new:
                    self._retention |= await in_daemon(partial(self._configs, frozenset(new)))
        except FAULTS as error:
            return _told(error)
        return _Source(ends, starts, stable, metadata)

    def _configs(self, topics: frozenset[str]) -> dict[str, Retention]:
        """Of each topic by itself: one whose settings may not be read has no forecast, and takes nobody else's."""
        with BulkAdmin(self._settings.clusters[self._flow.flow.source], timeout_s=PATIENCE_S) as cluster:
            found = cluster.topic_settings(topics)
        return {name: retention_in(answer) for name, answer in found.items() if not isinstance(answer, DrlibError)}

    # -- partitions ----------------------------------------------------------------------------------------------

    async def _partitions(
        self, client: ClusterClient, maps: Maps, source: _Source | None, now_ms: int
    ) -> tuple[PartitionStatus, ...]:
        policy, flow = self._flow.policy, self._flow.flow
        newest = _newest(maps, source)
        wanted = sorted(set(newest) | (set(source.ends) if source else set()))
        now = time.monotonic()
        found: list[PartitionStatus] = []
        for partition in wanted:
            key = newest.get(partition)
            offsets = maps.by_partition[key] if key is not None else None
            start = source.starts.get(partition, -1) if source else -1
            end = source.ends.get(partition, -1) if source else -1
            position = offsets.position if offsets is not None else None
            mirrored = max(0, start) if position is None else position
            found.append(
                PartitionStatus(
                    partition.topic,
                    partition.partition,
                    policy.remote_topic(flow.source, partition.topic),
                    lane_of(partition.topic, partition.partition, self._flow.lanes),
                    mirrored,
                    mirrored,
                    end,
                    (offsets.target_end or 0) if offsets is not None else 0,
                    last_stable=source.stable.get(partition, -1) if source else -1,
                    log_start=start,
                    as_of_ms=now_ms if source else 0,
                )
            )
        probed = await self._probe(client, source, found)
        return tuple(self._with_outlook(p, probed.get((p.topic, p.partition)), now, now_ms) for p in found)

    async def _probe(
        self, client: ClusterClient, source: _Source | None, found: Sequence[PartitionStatus]
    ) -> dict[tuple[str, int], tuple[int, float]]:
        """Timestamp of the oldest unmirrored record and bytes per record there, for those furthest behind."""
        probed: dict[tuple[str, int], tuple[int, float]] = {}
        if source is None:
            return probed
        behind = sorted((p for p in found if p.known and p.lag), key=lambda p: -p.lag)
        try:
            async with asyncio.timeout(PATIENCE_S):
                for status in behind[:PROBES]:
                    topic = source.metadata.topics[status.topic]
                    connection = await client.connection(topic.partitions[status.partition].leader)
                    partition = TopicPartition(status.topic, status.partition)
                    at = max(status.mirrored, status.log_start)
                    batch = await first_batch(connection, topic.topic_id, partition, at)
                    if batch is not None:
                        probed[status.topic, status.partition] = batch
        except FAULTS:
            pass  # an age that could not be read is unknown, and shown as such
        return probed

    def _with_outlook(
        self, status: PartitionStatus, probed: tuple[int, float] | None, now: float, now_ms: int
    ) -> PartitionStatus:
        if not status.known:
            return status
        samples = self._samples.setdefault(TopicPartition(status.topic, status.partition), deque())
        samples.append(Sample(now, max(status.mirrored, status.log_start), status.high_watermark))
        while len(samples) > 2 and samples[1].at_s < now - WINDOW_S:
            samples.popleft()
        stamp, size = probed if probed is not None else (None, None)
        seen = outlook(
            samples,
            now_ms=now_ms,
            oldest_ms=stamp,
            record_bytes=size,
            retention=self._retention.get(status.topic),
            warning_s=self._flow.retention_warning_s,
        )
        last = samples[-1]
        samples[-1] = Sample(last.at_s, last.mirrored, last.end, seen.left_s)
        fields = {name: getattr(status, name) for name in PartitionStatus.__dataclass_fields__}
        return PartitionStatus(**{**fields, "outlook": seen})

    # -- groups --------------------------------------------------------------------------------------------------

    async def _groups(self, maps: Maps, source: _Source | None) -> tuple[GroupStanding, ...] | str:
        try:
            positions = await in_daemon(partial(self._positions, source is not None))
        except FAULTS as error:
            return _told(error)  # unknown, which is not the same as no group
        rows: dict[str, list[tuple[int | None, TranslationKind, int]]] = {}
        for (group, partition), known in sorted(positions.items()):
            offsets = maps.source(partition.topic, partition.partition)
            if offsets is None:
                continue
            there = offsets.forward(known.offset)
            end = source.ends.get(partition) if source else None
            lag = None if end is None else max(0, end - known.offset)
            rows.setdefault(group, []).append((lag, there.kind, there.records))
        return tuple(_standing(group, found) for group, found in rows.items())

    def _positions(self, source_alive: bool) -> Positions:
        read = source_positions if source_alive else checkpointed_positions
        return read(self._settings, self._flow.flow)


def _standing(group: str, rows: Sequence[tuple[int | None, TranslationKind, int]]) -> GroupStanding:
    lags = [lag for lag, _, _ in rows if lag is not None]
    kinds = [kind for _, kind, _ in rows]
    exact, behind = kinds.count(TranslationKind.EXACT), kinds.count(TranslationKind.BEHIND)
    return GroupStanding(
        group,
        len(rows),
        sum(lags) if len(lags) == len(rows) else None,
        exact,
        behind,
        len(rows) - exact - behind,
        sum(records for _, _, records in rows),
    )


def _newest(maps: Maps, source: _Source | None) -> dict[TopicPartition, SourcePartition]:
    """The key of each partition's present incarnation: the source's where it answers, else the journal's newest."""
    found: dict[TopicPartition, SourcePartition] = {}
    for key in maps.by_partition:
        names = maps.names.get(key.topic_id)
        if names is None:
            continue
        topic = source.metadata.topics.get(names.source_topic) if source else None
        if source is not None and (topic is None or topic.topic_id != key.topic_id):
            continue
        found[TopicPartition(names.source_topic, key.partition)] = key
    return found


def _ledger(maps: Maps, flow: str) -> list[Event]:
    """The journal's ledger as events: a park until something later was mirrored, a loss for as long as its kind says."""
    events: list[Event] = []
    now = int(time.time() * 1000)
    newest = {names.source_topic: topic_id for topic_id, names in maps.names.items()}
    for entry in maps.ledger:
        if isinstance(entry, Incarnation):
            detail = f"topic ID {entry.old_topic_id} became {entry.new_topic_id}"
            events.append(_fact("TopicRecreated", entry.source_topic, detail, entry.at_ms, flow, now))
            continue
        if not isinstance(entry, SourceLoss | SourceTruncated | Parked):
            continue
        names = maps.names.get(entry.partition.topic_id)
        where = f"{names.source_topic if names else entry.partition.topic_id}-{entry.partition.partition}"
        if isinstance(entry, SourceLoss):
            detail = f"offsets {entry.first} to {entry.next_offset - 1} expired before they were read"
            events.append(_fact("SourceLoss", where, detail, entry.at_ms, flow, now))
        elif names is not None and newest[names.source_topic] != entry.partition.topic_id:
            continue  # of a topic that was made again since: nothing stands still there
        elif isinstance(entry, SourceTruncated):
            detail = f"it went back to offset {entry.first} after it had been read through to {entry.next_offset}"
            events.append(_event("SourceTruncated", where, detail, entry.at_ms, flow))
        elif isinstance(entry, Parked):
            position = maps.get(entry.partition).position
            if position is None or position <= entry.source_offset:
                detail = f"at source offset {entry.source_offset}: {entry.reason}"
                events.append(_event("Parked", where, detail, entry.at_ms, flow))
    return events


def _fact(name: str, entity: str, detail: str, at_ms: int, flow: str, now: int) -> Event:
    lasts = kind_of(name).lasts_s
    over = at_ms + int(lasts * 1000) if lasts is not None else None
    event = _event(name, entity, detail, at_ms, flow)
    if over is None or over > now:
        return event
    return Event(event.name, entity, detail, at_ms, over, event.remedy, 1, flow)


def _event(name: str, entity: str, detail: str, at_ms: int, flow: str) -> Event:
    return Event(name, entity, detail, at_ms, None, kind_of(name).remedy, 1, flow)


def _told(error: BaseException) -> str:
    if isinstance(error, DrlibError):
        return f"{error.what}: {error.why}"
    return f"no answer within {PATIENCE_S:g} s" if isinstance(error, TimeoutError) else str(error)
