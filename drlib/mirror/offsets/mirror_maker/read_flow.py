"""Read what MirrorMaker 2 leaves on the clusters about one flow: positions, heartbeats, whether it runs; read-only.

Rules: a flow without a trace of it costs one request for metadata. Everything else is asked at the same time; what a cluster
refuses is named, and the rest is used. Offset syncs on a source that does not answer are unknown: checkpoints on the target are
then all there is. Topics are read backwards from their end, for a bounded time: what is older makes a bound wider, never
wrong. Records that MirrorMaker 2 cannot have written are skipped, as its own readers do.
Not for: taking such a flow over (`drlib.mirror.mm2.takeover`).
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from drlib.config.flow_settings import FlowSettings
from drlib.config.replication_policy import IdentityReplicationPolicy
from drlib.config.settings import MirrorSettings
from drlib.errors import DrlibError, NoLeader
from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.net import group_requests, requests
from drlib.kafka.net.cluster_client import ClusterClient, ClusterMetadata
from drlib.kafka.protocol import recode
from drlib.mirror.journal.entries import SourcePartition, TopicNames
from drlib.mirror.mm2 import connect_offsets
from drlib.mirror.mm2.records import Checkpoint, Heartbeat, MalformedRecord, OffsetSync
from drlib.mirror.mm2.writer import POSITION_HEADER
from drlib.mirror.offsets.mirror_maker.maps import SyncedMap, SyncedMaps, id_of
from drlib.mirror.offsets.mirror_maker.mirrored_by import MirrorMakerFlow, Traces, evidence
from drlib.mirror.offsets.mirror_maker.sync_pairs import Pair, of_today
from drlib.mirror.read_batches import concurrently, from_log_start, locate, log_ends, log_starts, read_range
from drlib.model import Flow, TopicPartition

SYNCS_S: Final = 1.5  # how long offset syncs are read back, from the newest on
MISSING_S: Final = 2.5  # and while a mirrored partition has none
MOST_OFFSETS: Final = 200_000  # of a partition of the other topics
_FIRST: Final = 20_000
_HEARTBEATS: Final = 500  # of every flow to the target
_TAIL: Final = 16  # offsets looked through for the last record
_ERRORS: Final = (DrlibError, TimeoutError, OSError)

Ends = Mapping[TopicPartition, int]


@dataclass(frozen=True)
class Mm2Flow:
    """What was read: how it stands, the maps to translate positions by, and the offset syncs of each source partition as they
    were written."""

    found: MirrorMakerFlow
    maps: SyncedMaps
    written: Mapping[TopicPartition, Sequence[Pair]]


@dataclass(frozen=True)
class SourceSide:
    """The source as far as it answers: `silence` is why it does not. `ends`: its log ends, where they were read already."""

    client: ClusterClient | None
    silence: str = ""
    ends: Ends | None = None


@dataclass
class _Read:
    """What the topics hold; `unread`: what could not be read, with the reason, and `refused` its topics."""

    copied: Mapping[TopicPartition, int] = field(default_factory=dict)
    checkpoints: dict[tuple[str, TopicPartition], Pair] = field(default_factory=dict)
    of_drlib: set[tuple[str, TopicPartition]] = field(default_factory=set)
    heartbeat_ms: int | None = None
    source_seen_ms: int | None = None
    members: bool | None = None
    syncs: dict[TopicPartition, list[Pair]] = field(default_factory=lambda: defaultdict(list))
    unread: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    async def ask(self, topic: str, question: Coroutine[Any, Any, None]) -> None:
        """Await `question`, which fills in a field from `topic`; a refusal is noted."""
        try:
            await question
        except _ERRORS as error:
            self.unread.append(f"{topic} could not be read: {str(error) or 'no answer in time'}")
            self.refused.append(topic)


async def read_mm2_flow(flow: FlowSettings, target: ClusterClient, source: SourceSide) -> Mm2Flow | None:
    """The flow as MirrorMaker 2 leaves it; None where it does not mirror it. For flows that drlib does not mirror.

    Raises what the target answers, and TimeoutError of the caller's deadline.
    """
    policy, alias = flow.policy, flow.flow.source
    metadata = await target.metadata(None)
    own = {
        policy.checkpoints_topic(alias),
        flow.connect_offsets_topic,
        policy.heartbeats_topic,
        policy.offset_syncs_topic(alias),
    }
    if not own & _there(metadata):
        return None
    read = _Read()
    beats, checkpoints = policy.heartbeats_topic, policy.checkpoints_topic(alias)
    await asyncio.gather(
        read.ask(flow.connect_offsets_topic, _copied(read, flow, target, metadata)),
        read.ask(checkpoints, _checkpoints(read, flow, target, metadata)),
        read.ask(beats, _heartbeat(read, flow, target, metadata)),
        read.ask(policy.remote_topic(alias, beats), _source_seen(read, flow, target, metadata)),
        read.ask(f"the Connect group {flow.connect_group}", _connect_members(read, flow, target, metadata)),
        read.ask(flow.offset_syncs_topic, _syncs(read, flow, target, source, metadata)),
    )
    named = {at.topic for at in (*read.copied, *read.syncs)} | {at.topic for _, at in read.checkpoints}
    names = _mirrors(flow, metadata, named)
    mirrors = {
        TopicPartition(topic, number): TopicPartition(mirror, number)
        for topic, mirror in names.items()
        for number, partition in metadata.topics[mirror].partitions.items()
        if partition.leader >= 0
    }
    ends = (await log_ends(target, list(mirrors.values()))).ends if mirrors else {}
    starts = await log_starts(target, list(mirrors.values())) if mirrors else {}
    found = evidence(
        Traces(
            copied=len(read.copied),
            checkpoints=len(read.checkpoints) - len(read.of_drlib),
            own=len(read.of_drlib),
            synced=len(read.syncs),
            heartbeats=read.heartbeat_ms is not None,
            mirrors=sum(ends[mirror] > starts[mirror] for mirror in mirrors.values()),
            refused=tuple(topic for topic in read.refused if topic in (flow.connect_offsets_topic, checkpoints)),
        )
    )
    if not found:
        return None
    reached = {at: max(read.copied.get(at, -1), *(up for up, _ in read.syncs.get(at, [])[-1:]), -1) for at in mirrors}
    source_ends = await _source_ends(source, reached)
    maps = SyncedMaps(checkpoints={key: pair for key, pair in read.checkpoints.items() if pair[1] >= 0})
    unknown = []
    for topic, mirror in names.items():
        maps.names[id_of(topic)] = TopicNames(id_of(topic), topic, mirror, metadata.topics[mirror].topic_id)
        for number, partition in metadata.topics[mirror].partitions.items():
            if partition.leader < 0:
                without = NoLeader(TopicPartition(mirror, number), target.name)
                maps.refuse(SourcePartition(id_of(topic), number), without)
    for at, mirror_at in sorted(mirrors.items()):
        synced = of_today(
            read.syncs.get(at, []), starts[mirror_at], ends[mirror_at], read.copied.get(at), source_ends.get(at)
        )
        maps.by_partition[SourcePartition(id_of(at.topic), at.partition)] = SyncedMap(synced)
        if synced.least is None:
            unknown.append((str(at), synced.why))
    standing = MirrorMakerFlow(
        found,
        read.heartbeat_ms,
        flow.emit_heartbeats_s if flow.emit_heartbeats else 0,
        read.members,
        read.source_seen_ms,
        len(read.checkpoints),
        tuple(read.unread),
        tuple(unknown),
    )
    return Mm2Flow(standing, maps, read.syncs)


def mirror_maker_of(settings: MirrorSettings, flow: Flow) -> MirrorMakerFlow | None:
    """How the flow stands where MirrorMaker 2 mirrors it, by the target alone; None where it does not. Blocks.

    For flows without a worker. Raises `Unreachable` and what the target answers.
    """

    async def read() -> Mm2Flow | None:
        async with wire_client(settings.clusters[flow.target], client_id="drlib-mirror-maker") as client:
            await client.connect()
            chosen = settings.flow(flow.source, flow.target)
            there = chosen.policy.journal_topic(flow.source) in _there(await client.metadata(None))
            return None if there else await read_mm2_flow(chosen, client, SourceSide(None, "it was not asked"))

    found = blocking(read())
    return None if found is None else found.found


async def _source_ends(source: SourceSide, reached: Ends) -> Ends:
    """The source's log ends, asked again where they were read before a record was written that is `reached` now."""
    ends = source.ends or {}
    passed = [at for at, offset in reached.items() if at in ends and offset >= ends[at]]
    if source.client is None or not passed:
        return ends
    try:
        return {**ends, **(await log_ends(source.client, passed)).ends}
    except _ERRORS:
        return ends


def _there(metadata: ClusterMetadata) -> set[str]:
    return {name for name, topic in metadata.topics.items() if not topic.error_code and topic.partitions}


def _mirrors(flow: FlowSettings, metadata: ClusterMetadata, named: set[str]) -> dict[str, str]:
    """Source topic -> mirror topic, of those on the target.

    Where names are kept, a topic of the target is a mirror only if MirrorMaker 2 names it.
    """
    policy, there = flow.policy, _there(metadata)
    if not isinstance(policy, IdentityReplicationPolicy):
        named = named | {
            upstream
            for name in there
            if policy.source_of(name) == flow.flow.source
            and not policy.is_internal(name)
            and (upstream := policy.upstream_topic(name)) is not None
        }
    names = {
        topic: policy.remote_topic(flow.flow.source, topic) for topic in sorted(named) if flow.mirrors_topic(topic)
    }
    return {topic: mirror for topic, mirror in names.items() if mirror in there}


async def _copied(read: _Read, flow: FlowSettings, target: ClusterClient, metadata: ClusterMetadata) -> None:
    """The last source offset whose copy Connect has noted, by source partition."""
    topic = flow.connect_offsets_topic
    if topic not in _there(metadata):
        return
    partitions = [TopicPartition(topic, number) for number in sorted(metadata.topics[topic].partitions)]
    parts = await concurrently(partitions, lambda partition: _newest(target, partition, MOST_OFFSETS))
    records = [(record.key, record.value) for each in parts for record in each]
    read.copied = connect_offsets.copied(records, flow.flow).offsets


async def _checkpoints(read: _Read, flow: FlowSettings, target: ClusterClient, metadata: ClusterMetadata) -> None:
    """Each group's newest checkpoint by source partition, as positions on both sides; and which of them are drlib's."""
    policy = flow.policy
    topic = policy.checkpoints_topic(flow.flow.source)
    if topic not in _there(metadata):
        return
    for record in await _newest(target, TopicPartition(topic, 0), MOST_OFFSETS):
        try:
            checkpoint = Checkpoint.decode(record.key, record.value)
        except MalformedRecord:
            continue
        if min(checkpoint.partition.partition, checkpoint.upstream_offset) < 0:
            continue
        upstream = policy.upstream_topic(checkpoint.partition.topic) or checkpoint.partition.topic
        key = checkpoint.group, TopicPartition(upstream, checkpoint.partition.partition)
        read.checkpoints[key] = checkpoint.upstream_offset, checkpoint.offset
        ours = any(name == POSITION_HEADER for name, _ in record.headers)
        (read.of_drlib.add if ours else read.of_drlib.discard)(key)


async def _heartbeat(read: _Read, flow: FlowSettings, target: ClusterClient, metadata: ClusterMetadata) -> None:
    """The time of the flow's newest heartbeat on the target."""
    topic = flow.policy.heartbeats_topic
    if topic not in _there(metadata):
        return
    for record in await _newest(target, TopicPartition(topic, 0), _HEARTBEATS):
        try:
            beat = Heartbeat.decode(record.key, record.value)
        except MalformedRecord:
            continue
        if (beat.source, beat.target) == (flow.flow.source, flow.flow.target):
            read.heartbeat_ms = max(read.heartbeat_ms or 0, beat.timestamp_ms)


async def _source_seen(read: _Read, flow: FlowSettings, target: ClusterClient, metadata: ClusterMetadata) -> None:
    """The time of the newest record of the source's own heartbeats topic that was mirrored."""
    topic = flow.policy.remote_topic(flow.flow.source, flow.policy.heartbeats_topic)
    if topic in _there(metadata):
        records = await _newest(target, TopicPartition(topic, 0), _TAIL)
        read.source_seen_ms = max((record.timestamp for record in records if record.timestamp > 0), default=None)


async def _connect_members(read: _Read, flow: FlowSettings, target: ClusterClient, metadata: ClusterMetadata) -> None:
    """Has the Connect group of the flow's MirrorMaker 2 members?"""
    found = False
    for node in metadata.brokers:
        for listing in await group_requests.list_groups(await target.connection(node, "control")):
            if listing.group == flow.connect_group and listing.protocol_type == "connect":
                found = listing.state not in ("Empty", "Dead")
    read.members = found


async def _syncs(
    read: _Read, flow: FlowSettings, target: ClusterClient, source: SourceSide, metadata: ClusterMetadata
) -> None:
    """The offset syncs by source partition, in written order."""
    topic, holder, alias = flow.offset_syncs_topic, target, flow.flow.target
    if flow.offset_syncs_location == "source":
        alias = flow.flow.source
        if source.client is None:
            read.unread.append(f"{topic} is on {alias}, which does not answer: {source.silence}")
            return
        holder = source.client
    async with asyncio.timeout(2 * MISSING_S):
        there = metadata if holder is target else await holder.metadata([topic])
        if topic not in _there(there):
            switched_off = "" if flow.emit_offset_syncs else ": emit.offset-syncs.enabled is false"
            read.unread.append(f"{alias} has no topic {topic}{switched_off}")
            return
        for sync in await _read_back(holder, TopicPartition(topic, 0)):
            if flow.mirrors_topic(sync.partition.topic):
                read.syncs[sync.partition].append((sync.upstream_offset, sync.offset))


async def _read_back(client: ClusterClient, log: TopicPartition) -> list[OffsetSync]:
    """Read the log from its end in growing steps, until its start is reached or the time is over."""
    topic_id, leader = await locate(client, log)
    connection = await client.connection(leader, "read")
    start = (await requests.list_offsets(connection, [log], requests.EARLIEST))[log]
    end = (await requests.list_offsets(connection, [log], requests.LATEST, "read_committed"))[log]
    syncs: list[OffsetSync] = []
    known: set[TopicPartition] = set()
    began, step, new = time.monotonic(), _FIRST, True  # new: older records named partitions that later ones do not
    while end > start and time.monotonic() - began < (MISSING_S if new else SYNCS_S):
        begin = max(start, end - step)
        part: list[OffsetSync] = []
        async for _, view in read_range(connection, topic_id, log, begin, end, committed=True):
            within = [record for record in recode.records(view) if begin <= record.offset < end]
            part += [sync for record in within if (sync := _sync(record)) is not None]
        new = bool({sync.partition for sync in part} - known)
        known |= {sync.partition for sync in part}
        syncs, end, step = part + syncs, begin, 2 * step
    return syncs


def _sync(record: recode.Record) -> OffsetSync | None:
    try:
        sync = OffsetSync.decode(record.key, record.value)
    except MalformedRecord:
        return None
    return None if min(sync.partition.partition, sync.upstream_offset, sync.offset) < 0 else sync


async def _newest(client: ClusterClient, log: TopicPartition, most: int) -> Sequence[recode.Record]:
    """The committed records of the last `most` offsets; those of an open transaction are not waited for."""
    topic_id, leader = await locate(client, log)
    connection = await client.connection(leader, "read")
    start = (await requests.list_offsets(connection, [log], requests.EARLIEST))[log]
    end = (await requests.list_offsets(connection, [log], requests.LATEST, "read_committed"))[log]

    async def read(first: int) -> list[recode.Record]:
        reading = read_range(connection, topic_id, log, max(first, end - most), end, committed=True)
        return [record async for _, view in reading for record in recode.records(view) if record.offset < end]

    return await from_log_start(connection, log, start, read)
