"""Builds the offset maps of a flow from its journal and the logs of its mirror topics: at a claim, and read-only.

Rules: an unsealed claim's records are counted in the log itself, from its last Ack to the log end; an inexact count is
marked as such. A claim counts only partitions that it has fenced: elsewhere a batch of a former claim may still arrive, and
a journaled count is final. Reading takes no lock: while a lane runs, the map is that of a moment ago. A mirror topic that
was deleted, re-created or may not be read, and a partition whose log contradicts the journal, are refused one by one: they
have no map, and the others are not affected.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from drlib import clock
from drlib.errors import DrlibError
from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient, ClusterMetadata
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol.error_codes import (
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
    BrokerError,
    raise_for,
)
from drlib.mirror.errors import MirrorTopicRecreated
from drlib.mirror.journal.entries import (
    Ack,
    Claim,
    ClaimId,
    Entry,
    Foreign,
    Incarnation,
    Parked,
    Placement,
    Run,
    Sealed,
    SourceLoss,
    SourcePartition,
    SourceTruncated,
    TopicNames,
    Unsure,
)
from drlib.mirror.offsets.map.count_records import RecoveryContradiction, TailBatch, recover
from drlib.mirror.offsets.map.fold_claims import unfold
from drlib.mirror.offsets.map.journal_log import read_journal
from drlib.mirror.offsets.map.offset_map import MapContradiction, PartitionMap
from drlib.mirror.read_batches import LogBounds, concurrently, expired, log_bounds, log_ends, read_range
from drlib.model import TopicPartition


@dataclass
class Maps:
    """Maps by source partition, the names of their topics, and what recovery found that the journal lacks."""

    by_partition: dict[SourcePartition, PartitionMap] = field(default_factory=dict)
    names: dict[uuid.UUID, TopicNames] = field(default_factory=dict)
    findings: list[Entry] = field(default_factory=list)
    refused: dict[SourcePartition, DrlibError] = field(default_factory=dict)  # why there is no map
    claims: dict[int, Claim] = field(default_factory=dict)  # the newest of each lane
    ledger: list[Entry] = field(default_factory=list)  # losses, truncations, parks and re-creations

    def get(self, key: SourcePartition) -> PartitionMap:
        return self.by_partition.setdefault(key, PartitionMap())

    def of_target(self, topic: str) -> TopicNames | None:
        """The newest journal entry for a mirror topic, whichever incarnation of its source it belongs to."""
        return next((n for n in reversed(self.names.values()) if n.target_topic == topic), None)

    def merge(self, other: Maps) -> None:
        self.by_partition.update(other.by_partition)
        self.names.update(other.names)
        self.refused.update(other.refused)
        self.ledger.extend(other.ledger)

    def refuse(self, key: SourcePartition, why: DrlibError) -> None:
        self.refused[key] = why
        self.by_partition.pop(key, None)

    def refusal(self, topic: str, partition: int) -> DrlibError | None:
        """Why there is no map of a source topic's partition; None when there is one, or it was never mirrored."""
        return next(
            (
                self.refused[SourcePartition(names.topic_id, partition)]
                for names in self.names.values()
                if names.source_topic == topic and SourcePartition(names.topic_id, partition) in self.refused
            ),
            None,
        )

    def source(self, topic: str, partition: int) -> PartitionMap | None:
        """The map of the newest incarnation of a source topic's partition."""
        newest = None
        for names in self.names.values():
            if names.source_topic == topic:
                newest = self.by_partition.get(SourcePartition(names.topic_id, partition), newest)
        return newest


async def build_maps(
    target: ClusterClient, entries: Sequence[Entry], ends: Mapping[TopicPartition, int], *, reading: bool = False
) -> Maps:
    """Maps of one lane. `ends`: log ends of the mirror partitions that the lane's claim has fenced; no other is counted.

    `reading`: this is no claim and the lane may be running, so every partition is counted, `ends` may be older than the
    journal, and partitions that may not be read are refused.
    """
    maps = Maps()
    placements: dict[SourcePartition, dict[ClaimId, list[Placement]]] = defaultdict(lambda: defaultdict(list))
    runs: dict[SourcePartition, set[ClaimId]] = defaultdict(set)
    acks: dict[tuple[SourcePartition, ClaimId], Ack] = {}
    sealed: set[tuple[SourcePartition, ClaimId]] = set()
    for entry in unfold(entries):
        if isinstance(entry, TopicNames):
            maps.names[entry.topic_id] = entry
        elif isinstance(entry, Placement):
            placements[entry.partition][entry.claim].append(entry)
        elif isinstance(entry, Run):
            runs[entry.partition].add(entry.claim)
        elif isinstance(entry, Ack):
            acks[entry.partition, entry.claim] = entry
        elif isinstance(entry, Sealed):
            sealed.add((entry.partition, entry.claim))
        elif isinstance(entry, SourceLoss | SourceTruncated | Incarnation | Parked):
            maps.ledger.append(entry)
        partition = getattr(entry, "partition", None)
        if isinstance(partition, SourcePartition) and partition not in maps.refused:
            try:
                maps.get(partition).apply(entry)
            except MapContradiction as error:
                maps.refuse(partition, error)
    unusable = (
        await _unusable(target, maps.names.values()) if reading else await recreated_topics(target, maps.names.values())
    )
    for key in list(maps.by_partition):
        if key.topic_id in unusable:
            maps.refuse(key, unusable[key.topic_id])

    counted: dict[SourcePartition, TopicPartition] = {}  # with claims that are not sealed, and their mirrors
    for key, claims in placements.items():
        mirror = TopicPartition(maps.names[key.topic_id].target_topic, key.partition)
        unsealed = any((key, claim) not in sealed and claim in runs[key] for claim in claims)
        if unsealed and key not in maps.refused and (reading or mirror in ends):
            counted[key] = mirror
    bounds = await log_bounds(target, set(counted.values()), ends)

    async def count(key: SourcePartition) -> None:
        findings: list[Entry] = []
        try:
            for claim, placed in placements[key].items():
                if (key, claim) in sealed or claim not in runs[key]:
                    continue
                ack = acks.get((key, claim))
                entries = await _count(target, counted[key], key, claim, placed, ack, bounds, reading)
                for entry in entries:
                    maps.get(key).apply(entry)
                findings += entries
        except (RecoveryContradiction, MapContradiction) as error:
            maps.refuse(key, error)
        except BrokerError as error:
            if not reading or error.code != TOPIC_AUTHORIZATION_FAILED:
                raise
            maps.refuse(key, error)
        else:
            maps.findings += findings

    await concurrently(counted, count)
    return maps


async def recreated_topics(
    target: ClusterClient, names: Iterable[TopicNames]
) -> Mapping[uuid.UUID, MirrorTopicRecreated]:
    """By source topic ID: mirror topics that were deleted or re-created since they were journaled."""
    wanted = list(names)
    if not wanted:
        return {}
    return recreated_in(await target.metadata(sorted({n.target_topic for n in wanted})), wanted)


async def _unusable(target: ClusterClient, names: Iterable[TopicNames]) -> dict[uuid.UUID, DrlibError]:
    """By source topic ID: mirror topics that were deleted or re-created, and those that may not be described."""
    wanted = list(names)
    if not wanted:
        return {}
    metadata = await target.metadata(sorted({n.target_topic for n in wanted}))
    closed: dict[uuid.UUID, DrlibError] = {
        n.topic_id: BrokerError(TOPIC_AUTHORIZATION_FAILED, f"looking up {n.target_topic}", topics=[n.target_topic])
        for n in wanted
        if metadata.topics[n.target_topic].error_code == TOPIC_AUTHORIZATION_FAILED
    }
    return {**closed, **recreated_in(metadata, wanted)}


def recreated_in(metadata: ClusterMetadata, wanted: Iterable[TopicNames]) -> Mapping[uuid.UUID, MirrorTopicRecreated]:
    """`recreated_topics` from metadata of the target. Raises `BrokerError` for a topic with another error."""
    gone: dict[uuid.UUID, MirrorTopicRecreated] = {}
    for each in wanted:
        described = metadata.topics[each.target_topic]
        if described.error_code == UNKNOWN_TOPIC_OR_PARTITION:
            gone[each.topic_id] = MirrorTopicRecreated(each.source_topic, each.target_topic, each.target_topic_id, None)
            continue
        if described.error_code == TOPIC_AUTHORIZATION_FAILED:
            continue  # it may exist: the claim reports the missing right
        raise_for(described.error_code, f"looking up {each.target_topic}")
        if described.topic_id != each.target_topic_id:
            gone[each.topic_id] = MirrorTopicRecreated(
                each.source_topic, each.target_topic, each.target_topic_id, described.topic_id
            )
    return gone


async def _count(
    target: ClusterClient,
    partition: TopicPartition,
    key: SourcePartition,
    claim: ClaimId,
    placed: Sequence[Placement],
    ack: Ack | None,
    bounds: LogBounds,
    ends_may_lag: bool,
) -> list[Entry]:
    """Count one claim's records in the mirror partition; returns the entries to journal."""
    end = bounds.ends[partition]
    tail_from = ack.target_offset if ack is not None else placed[0].target_offset
    seen_from = tail_from - 1 if ack is not None else tail_from  # to check that the last acknowledged record is ours
    if ends_may_lag:
        end = max(end, tail_from)  # an Ack read after the ends may be newer than they are
    connection = await target.connection(bounds.leaders[partition], "read")
    topic_id, start = bounds.ids[partition.topic], bounds.starts[partition]
    tail = await _tail(connection, topic_id, partition, start, seen_from, end)
    result = recover(claim=claim, placements=placed, ack=ack, tail=tail, tail_from=tail_from, marker=end)
    now = clock.now_ms()
    entries: list[Entry] = [*result.placements, Sealed(key, claim, result.q, result.exact)]
    entries += [Foreign(key, other.target_offset, other.count, now) for other in result.foreign]
    if not result.exact:
        entries.append(Unsure(key, claim, result.low, result.high, now))
    return entries


async def _tail(
    connection: Connection, topic_id: uuid.UUID, partition: TopicPartition, start: int, first: int, end: int
) -> list[TailBatch]:
    """The batches of [`first`, `end`) that the log still holds; read again where it loses its first ones meanwhile."""
    while True:
        try:
            return [
                TailBatch(
                    header.base_offset,
                    header.last_offset,
                    header.last_offset_delta + 1,
                    header.producer_id,
                    header.producer_epoch,
                    header.base_sequence,
                    header.is_control,
                )
                async for header, _ in read_range(connection, topic_id, partition, max(first, start), end)
            ]
        except BrokerError as error:
            if not expired(error):
                raise
            before, start = start, (await requests.list_offsets(connection, [partition], requests.EARLIEST))[partition]
            if start == before:
                raise  # else records expired before they were read: count from the new start


async def read_maps(target: ClusterClient, journal_topic: str) -> Maps:
    """The maps of a whole flow, read-only. Raises `BrokerError` when there is no journal topic."""
    metadata = await target.metadata([journal_topic])
    raise_for(metadata.topics[journal_topic].error_code, f"reading the journal {journal_topic}")
    maps = Maps()
    for number in sorted(metadata.topics[journal_topic].partitions):
        partition = TopicPartition(journal_topic, number)
        # The log ends first, then the journal: every record below those ends then has its promise in what is read.
        ends = await _ends(target, await read_journal(target, partition))
        entries = await read_journal(target, partition)
        maps.merge(await build_maps(target, entries, ends, reading=True))
        claims = [entry for entry in entries if isinstance(entry, Claim)]
        if claims:
            maps.claims[number] = max(claims, key=lambda claim: claim.claimed_at_ms)
    return maps


async def _ends(target: ClusterClient, entries: Sequence[Entry]) -> Mapping[TopicPartition, int]:
    """Log ends of the mirror partitions that a journal has placements for."""
    names = {e.topic_id: e for e in entries if isinstance(e, TopicNames)}
    unusable = await _unusable(target, names.values())
    wanted = {
        TopicPartition(names[e.partition.topic_id].target_topic, e.partition.partition)
        for e in entries
        if isinstance(e, Placement) and e.partition.topic_id not in unusable
    }
    return (await log_ends(target, sorted(wanted))).ends
