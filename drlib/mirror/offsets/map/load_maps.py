"""Builds the offset maps of a flow from its journal and the logs of its mirror topics: at a claim, and read-only.

Rules: an unsealed claim's records are counted in the log itself, from its last Ack to the log end; an inexact count is
marked as such. A claim counts only partitions that it has fenced: elsewhere a batch of a former claim may still arrive, and
a journaled count is final. Reading takes no lock: while a lane runs, the map is that of a moment ago. A mirror topic that
was deleted, re-created or may not be read, and a partition whose log contradicts the journal, or that has no leader when a
reader asks, are refused one by one: they have no map, and the others are not affected. Every log's end is compared with what
the journal says of it, also behind sealed claims (`count_records.check_end`); a contradiction that a claim finds is journaled
(`MirrorRefused`). A partition of a known topic that no claim has placed records in, by the journal, has none of ours.
Longer than most modules: a claim and a reader build the same maps, and differ in what they may conclude.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from drlib import clock
from drlib.errors import DrlibError, NoLeader
from drlib.kafka.net.cluster_client import ClusterClient, ClusterMetadata, TopicMetadata
from drlib.kafka.net.connection import Connection
from drlib.kafka.protocol.batch import BatchHeader
from drlib.kafka.protocol.error_codes import (
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
    BrokerError,
    raise_for,
)
from drlib.kafka.topic_ids import NO_TOPIC_ID, is_made, may_be
from drlib.mirror.errors import MirrorTopicRecreated
from drlib.mirror.journal.entries import (
    Ack,
    Claim,
    ClaimId,
    CommittedTransactions,
    Entry,
    Folded,
    Foreign,
    Incarnation,
    MirrorRefused,
    Parked,
    Placement,
    Run,
    Sealed,
    Shared,
    SourceLoss,
    SourcePartition,
    SourceTruncated,
    TopicNames,
    Transactions,
    Unsure,
)
from drlib.mirror.journal.renamed import identified, renamed, stand_ins
from drlib.mirror.offsets.map.count_records import (
    KnownEnd,
    Recovered,
    RecoveryContradiction,
    TailBatch,
    bounded,
    check_end,
    recover,
)
from drlib.mirror.offsets.map.fold_claims import covers, unfold
from drlib.mirror.offsets.map.journal_log import read_journal
from drlib.mirror.offsets.map.offset_map import MapContradiction, PartitionMap
from drlib.mirror.read_batches import (
    LogBounds,
    LogEnds,
    concurrently,
    from_log_start,
    log_bounds,
    log_ends,
    log_starts,
    read_range,
    record_at,
)
from drlib.model import TopicPartition, Translation, TranslationKind


@dataclass
class Maps:
    """Maps by source partition, the names of their topics, and what recovery found that the journal lacks."""

    by_partition: dict[SourcePartition, PartitionMap] = field(default_factory=dict)
    names: dict[uuid.UUID, TopicNames] = field(default_factory=dict)
    findings: list[Entry] = field(default_factory=list)
    refused: dict[SourcePartition, DrlibError] = field(default_factory=dict)  # why there is no map
    claims: dict[int, Claim] = field(default_factory=dict)  # the newest of each lane
    journaled: dict[uuid.UUID, uuid.UUID] = field(default_factory=dict)  # other IDs in the journal -> those of the maps
    ledger: list[Entry] = field(default_factory=list)  # losses, truncations, parks and re-creations
    journal_id: uuid.UUID | None = None  # of the journal's topic
    unread: dict[int, NoLeader] = field(default_factory=dict)  # lanes of which nothing is known
    reverse_journals: dict[uuid.UUID, uuid.UUID] = field(
        default_factory=dict
    )  # source topic -> by which copies are known
    producers: set[int] = field(default_factory=set)  # of all claims: with their IDs the mirrors were written
    transactions: list[Transactions | CommittedTransactions] = field(default_factory=list)  # the newest of the source

    def get(self, key: SourcePartition) -> PartitionMap:
        found = self.by_partition.get(key)
        if found is None:
            found = self.by_partition[key] = PartitionMap()
        return found

    @property
    def never_ran(self) -> bool:
        """Has no worker claimed a lane of the flow, as far as all of its lanes are known?"""
        return not self.claims and not self.unread

    @property
    def without_leader(self) -> dict[TopicPartition, NoLeader]:
        """By partition of the source, those whose mirror has no leader: nothing is known of them."""
        return {
            TopicPartition(self.names[key.topic_id].source_topic, key.partition): why
            for key, why in self.refused.items()
            if isinstance(why, NoLeader) and key.topic_id in self.names
        }

    def first_id(self, topic_id: uuid.UUID) -> uuid.UUID:
        """The ID that the topic was journaled with first. Where the source gave none it was made for this topic alone, unlike
        what its metadata bears, and stays the same when an upgrade of the source gives the topic another one."""
        return next((before for before, now in self.journaled.items() if now == topic_id), topic_id)

    def of_target(self, topic: str) -> TopicNames | None:
        """The newest journal entry for a mirror topic, whichever incarnation of its source it belongs to."""
        return next((n for n in reversed(self.names.values()) if n.target_topic == topic), None)

    def merge(self, lanes: Iterable[Maps]) -> None:
        """Add those of all lanes. Each has the names of a topic oldest first, and some had no part of an older one."""
        names: dict[uuid.UUID, TopicNames] = {}
        older: dict[uuid.UUID, set[uuid.UUID]] = {}
        for other in lanes:
            last: dict[str, uuid.UUID] = {}
            for topic_id, each in other.names.items():
                names[topic_id] = each
                before = last.get(each.source_topic)
                older.setdefault(topic_id, set()).update(() if before is None else (before,))
                last[each.source_topic] = topic_id
            self.by_partition.update(other.by_partition)
            self.refused.update(other.refused)
            self.ledger.extend(other.ledger)
            self.journaled.update(other.journaled)
        with suppress(CycleError):  # two workers wrote while only one of them had seen the newer topic
            names = {topic_id: names[topic_id] for topic_id in TopologicalSorter(older).static_order()}
        self.names.update(names)

    def refuse(self, key: SourcePartition, why: DrlibError) -> None:
        self.refused[key] = why
        self.by_partition.pop(key, None)

    def refuse_for_good(self, key: SourcePartition, why: DrlibError) -> None:
        """Refuse a partition also for later claims and for those who follow the journal."""
        self.refuse(key, why)
        self.findings.append(MirrorRefused(key, why.why, clock.now_ms()))

    def newest(self, topic: str) -> TopicNames | None:
        """The newest journal entry for a source topic: of one that was created again since, that of the last one."""
        return next((n for n in reversed(self.names.values()) if n.source_topic == topic), None)

    def replaced(self, topic: str, topic_id: uuid.UUID | None) -> bool:
        """Was the source topic created again since anything of its name was mirrored? `topic_id`: its ID now, None where that
        is not known."""
        names = self.newest(topic)
        if names is None or topic_id is None or topic_id == NO_TOPIC_ID or is_made(topic_id):
            return False
        return not may_be(names.topic_id, topic_id)

    def refusal(self, topic: str, partition: int) -> DrlibError | None:
        """Why there is no map of a source topic's partition; None when there is one, or it was never mirrored: where a lane was
        not read, that is not known of a partition without a map."""
        names = self.newest(topic)
        key = None if names is None else SourcePartition(names.topic_id, partition)
        if key is not None and (key in self.refused or key in self.by_partition):
            return self.refused.get(key)
        return next(iter(self.unread.values()), None)

    def source(self, topic: str, partition: int) -> PartitionMap | None:
        """The map of the newest incarnation of a source topic's partition."""
        names = self.newest(topic)
        return None if names is None else self.by_partition.get(SourcePartition(names.topic_id, partition))

    def forward(
        self,
        group: str,
        source: TopicPartition,
        position: int,
        *,
        target_log_start: int = 0,
        there: int | None = None,
        topic_id: uuid.UUID | None = None,
    ) -> Translation | None:
        """Where `group` continues on the target, which is at `position` of a source partition; None where nothing of it was
        mirrored. `target_log_start`: of its mirror. `there`: the offset in the mirror, where a checkpoint gives the position;
        else it is of the topic that is on the source now, with `topic_id` where that is known.

        A checkpoint of a topic that was deleted and created again since is one of the earlier topic, whose records lie before
        those of the newer one: its own offset counts, as `position` means another record now.
        """
        if there is None and self.replaced(source.topic, topic_id):
            return Translation(None, TranslationKind.UNKNOWN)
        offsets = self.source(source.topic, source.partition)
        if offsets is not None:
            found = offsets.forward(position, target_log_start=target_log_start)
            if there is None or found.offset == there or there > self._earlier_end(source, offsets):
                return found
            if there < target_log_start:
                gone = target_log_start - there
                return Translation(target_log_start, TranslationKind.LOST, gone, gone)
            return Translation(there, TranslationKind.EXACT)
        if self.refusal(source.topic, source.partition) is not None:
            return Translation(None, TranslationKind.UNKNOWN)
        names = (n for n in reversed(self.names.values()) if n.source_topic == source.topic)
        keys = (SourcePartition(n.topic_id, source.partition) for n in names)
        earlier = next((self.by_partition[key] for key in keys if key in self.by_partition), None)
        if earlier is None:
            return None
        if there is None:  # a newer topic's, of which nothing is known yet
            return Translation(None, TranslationKind.UNKNOWN)
        return earlier.forward(position, target_log_start=target_log_start)

    def _earlier_end(self, source: TopicPartition, newest: PartitionMap) -> int:
        """One past the last record, in the mirror, of the topics that had this name before; -1 where there was none."""
        ends = [-1]
        mirror = None
        for names in reversed(self.names.values()):
            if names.source_topic != source.topic:
                continue
            found = self.by_partition.get(SourcePartition(names.topic_id, source.partition))
            if found is newest:
                mirror = names.target_topic_id
            elif found is not None and found.segments() and names.target_topic_id == mirror:
                ends.append(found.target_end or 0)
        return max(ends)

    def is_current(self, key: SourcePartition, topic_id: uuid.UUID | None) -> bool:
        """Is `key` of the topic that has `topic_id` on the source now? None: there is no such topic."""
        return topic_id == key.topic_id


@dataclass(frozen=True, slots=True)
class FencedLogs:
    """The mirror partitions that a lane's claim has fenced.

    `unchanged`: those whose leader is the one of this worker's claim before, with no other claim since: their ends need not
    be read. `written`: by mirror, what the claim copies there, and `claim` itself, with whose producer ID earlier ones wrote.
    `journal_lost`: acknowledged entries are missing; `prove`: has the last record of a map the same content on both
    clusters (None: one has it no longer)? Needed where entries may be missing. `source_end`: the log end of a source
    partition, None where it cannot be known; asked where the mirror's log leaves a count open.
    """

    log: LogEnds
    claim: ClaimId
    written: Mapping[TopicPartition, SourcePartition]
    unchanged: Collection[TopicPartition] = frozenset()
    journal_lost: str = ""
    prove: Callable[[SourcePartition, TopicNames, PartitionMap], Awaitable[bool | None]] | None = None
    source_end: Callable[[SourcePartition, TopicNames], Awaitable[int | None]] | None = None


async def build_maps(
    target: ClusterClient, entries: Sequence[Entry], fenced: FencedLogs | Mapping[TopicPartition, int]
) -> Maps:
    """Maps of one lane, counting only the mirror partitions that its claim has fenced.

    Log ends instead of `FencedLogs`: this is no claim and the lane may be running, so every partition is counted, the ends
    may be older than the journal, and partitions that may not be read or have no leader are refused.
    """
    reading = not isinstance(fenced, FencedLogs)
    ends = fenced.log.ends if isinstance(fenced, FencedLogs) else fenced
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
        elif isinstance(entry, MirrorRefused):
            maps.refuse(entry.partition, RecoveryContradiction(entry.reason))
        elif isinstance(entry, SourceLoss | SourceTruncated | Incarnation | Parked):
            maps.ledger.append(entry)
        partition = getattr(entry, "partition", None)
        if isinstance(partition, SourcePartition) and partition not in maps.refused:
            try:
                maps.get(partition).apply(entry)
            except MapContradiction as error:
                maps.refuse(partition, error)
    unusable: Mapping[SourcePartition, DrlibError]
    if reading:
        unusable = await _unusable(target, maps.by_partition, maps.names)
    else:
        gone = await recreated_topics(target, maps.names.values())
        unusable = {key: gone[key.topic_id] for key in maps.by_partition if key.topic_id in gone}
    for key, why in unusable.items():
        maps.refuse(key, why)

    counted: dict[SourcePartition, TopicPartition] = {}  # with claims that are not sealed, and their mirrors
    counts: dict[SourcePartition, int] = {}  # records of the claims that are counted now
    for key, claims in placements.items():
        if key.topic_id not in maps.names:
            continue  # the topic is gone, and so will be the rest of its entries
        mirror = TopicPartition(maps.names[key.topic_id].target_topic, key.partition)
        unsealed = any((key, claim) not in sealed and claim in runs[key] for claim in claims)
        if unsealed and key not in maps.refused and (reading or mirror in ends):
            counted[key] = mirror
    bounds, producers = await log_bounds(target, set(counted.values()), ends), _producers(entries)

    async def count(key: SourcePartition) -> None:
        findings: list[Entry] = []
        try:
            for claim, placed in placements[key].items():
                if (key, claim) in sealed or claim not in runs[key]:
                    continue
                ack = acks.get((key, claim))
                found = await _count(target, counted[key], claim, placed, ack, bounds, reading, producers)
                if not found.exact and isinstance(fenced, FencedLogs) and fenced.source_end is not None:
                    end = await fenced.source_end(key, maps.names[key.topic_id])
                    found = found if end is None else bounded(found, end - maps.get(key).source_of(claim, found.q))
                entries = _findings(key, claim, found)
                for entry in entries:
                    maps.get(key).apply(entry)
                findings += entries
                counts[key] = max(counts.get(key, 0), maps.get(key).acknowledged(claim))
        except (RecoveryContradiction, MapContradiction) as error:
            maps.refuse(key, error) if reading else maps.refuse_for_good(key, error)
        except BrokerError as error:
            if not reading or error.code != TOPIC_AUTHORIZATION_FAILED:
                raise
            maps.refuse(key, error)
        else:
            maps.findings += findings

    await concurrently(counted, count)
    await _check_ends(target, maps, entries, fenced)
    if isinstance(fenced, FencedLogs):
        await _prove(fenced, [key for key, count in counts.items() if count], maps)
    return maps


async def _prove(fenced: FencedLogs, keys: Collection[SourcePartition], maps: Maps) -> None:
    """Where journal entries may be missing: refuse partitions whose last record counted is not the source's."""
    prove = fenced.prove
    if prove is None:
        return
    lost = fenced.journal_lost or "its leader changed since its last entry"

    async def check(key: SourcePartition) -> None:
        same = await prove(key, maps.names[key.topic_id], maps.by_partition[key])
        if same is False or (same is None and fenced.journal_lost):
            found = "is another one than on the source" if same is False else "cannot be compared with the source's"
            why = f"its last record {found}, and the journal may have lost promises ({lost}): which records it holds is unknown"
            maps.refuse_for_good(key, RecoveryContradiction(why))

    await concurrently([key for key in keys if key in maps.by_partition], check)


async def content_agrees(
    source: ClusterClient, target: ClusterClient, key: SourcePartition, names: TopicNames, offsets: PartitionMap
) -> bool | None:
    """Has the last mirrored record the same content on both clusters? None: one of them has it no longer, or there is none."""
    last = offsets.segments()[-1:]
    if not last:
        return None
    original = TopicPartition(names.source_topic, key.partition)
    mirror = TopicPartition(names.target_topic, key.partition)
    here = await record_at(source, original, key.topic_id, last[0].source_end - 1)
    there = await record_at(target, mirror, names.target_topic_id, last[0].target_end - 1)
    return None if here is None or there is None else here == there


async def _check_ends(
    target: ClusterClient,
    maps: Maps,
    entries: Sequence[Entry],
    fenced: FencedLogs | Mapping[TopicPartition, int],
) -> None:
    """Refuse the partitions whose log has not what the journal says, or has more of ours than it says."""
    producers = _producers(entries)
    runs: dict[TopicPartition, set[ClaimId]] = defaultdict(set)
    folded: dict[TopicPartition, list[ClaimId]] = defaultdict(list)
    keys: dict[TopicPartition, list[SourcePartition]] = defaultdict(list)
    for entry in entries:
        partition = getattr(entry, "partition", None)
        if not isinstance(partition, SourcePartition) or partition.topic_id not in maps.names:
            continue
        mirror = TopicPartition(maps.names[partition.topic_id].target_topic, partition.partition)
        if isinstance(entry, Run):
            runs[mirror].add(entry.claim)
        elif isinstance(entry, Folded):
            folded[mirror] += entry.claims
    for key in maps.by_partition:
        if key.topic_id in maps.names:
            keys[TopicPartition(maps.names[key.topic_id].target_topic, key.partition)].append(key)
    newest = {mirror: max((maps.get(key) for key in those), key=_least_end) for mirror, those in keys.items()}
    newest = {mirror: offsets for mirror, offsets in newest.items() if offsets.least_log_end}
    if isinstance(fenced, FencedLogs):
        log, producers = fenced.log, {*producers, fenced.claim.producer_id}
        wanted = {m: offsets for m, offsets in newest.items() if m in log.ends and m not in fenced.unchanged}
        mirrored = {names.target_topic for names in maps.names.values()}
        for mirror, key in fenced.written.items():
            if mirror in log.ends and mirror.topic in mirrored and mirror not in newest and key not in maps.refused:
                keys[mirror].append(key)
                wanted[mirror] = PartitionMap()
    else:  # asked now: the journal may be newer than the ends that were given
        log, wanted = await log_ends(target, newest), newest
    starts = await log_starts(target, wanted)
    marker = isinstance(fenced, FencedLogs)  # of this claim, behind everything that is known

    async def check(item: tuple[TopicPartition, PartitionMap]) -> None:
        mirror, offsets = item
        record, claim = offsets.newest_record or (None, None)
        known = KnownEnd(
            offsets.least_log_end + marker,
            record,
            claim,
            lambda writer: writer in runs[mirror] or covers(folded[mirror], writer),
            producers,
        )
        first = offsets.first_log_end if record is None else record
        end = log.ends[mirror] if marker else min(log.ends[mirror], offsets.least_log_end)
        try:
            connection = await target.connection(log.leaders[mirror], "read")
            tail = await _tail(connection, log.ids[mirror.topic], mirror, starts[mirror], first, end)
            check_end(known, log.ends[mirror], tail)
        except RecoveryContradiction as error:
            for key in keys[mirror]:
                maps.refuse_for_good(key, error) if marker else maps.refuse(key, error)
        except BrokerError as error:
            if marker or error.code != TOPIC_AUTHORIZATION_FAILED:
                raise  # a reader without the right to read the mirror relies on the journal

    await concurrently(wanted.items(), check)


def _producers(entries: Iterable[Entry]) -> set[int]:
    """The producer IDs of the lane, as far as its journal has them."""
    found = {entry.claim.producer_id for entry in entries if isinstance(entry, Claim | Placement)}
    folded = (claim.producer_id for entry in entries if isinstance(entry, Folded) for claim in entry.claims)
    return found.union(folded)


def _least_end(offsets: PartitionMap) -> int:
    return offsets.least_log_end


def _tail_batch(header: BatchHeader) -> TailBatch:
    return TailBatch(
        header.base_offset,
        header.last_offset,
        header.last_offset_delta + 1,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.is_control,
    )


async def recreated_topics(
    target: ClusterClient, names: Iterable[TopicNames]
) -> Mapping[uuid.UUID, MirrorTopicRecreated]:
    """By source topic ID: mirror topics that were deleted or re-created since they were journaled."""
    wanted = list(names)
    if not wanted:
        return {}
    return recreated_in(await target.metadata(sorted({n.target_topic for n in wanted})), wanted)


async def _unusable(
    target: ClusterClient, keys: Iterable[SourcePartition], names: Mapping[uuid.UUID, TopicNames]
) -> dict[SourcePartition, DrlibError]:
    """Why mirrors cannot be read: their topic was deleted, re-created or may not be described, or they have no leader."""
    wanted = {key: names[key.topic_id] for key in keys if key.topic_id in names}
    if not wanted:
        return {}
    metadata = await target.metadata(sorted({each.target_topic for each in wanted.values()}))
    gone = recreated_in(metadata, wanted.values())
    found = {
        key: gone.get(key.topic_id) or _unread(target, metadata, TopicPartition(each.target_topic, key.partition))
        for key, each in wanted.items()
    }
    return {key: why for key, why in found.items() if why is not None}


def _unread(target: ClusterClient, metadata: ClusterMetadata, mirror: TopicPartition) -> DrlibError | None:
    topic = metadata.topics[mirror.topic]
    if topic.error_code == TOPIC_AUTHORIZATION_FAILED:
        return BrokerError(TOPIC_AUTHORIZATION_FAILED, f"looking up {mirror.topic}", topics=[mirror.topic])
    described = topic.partitions.get(mirror.partition)
    return NoLeader(mirror, target.name) if described is not None and described.leader < 0 else None


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
    claim: ClaimId,
    placed: Sequence[Placement],
    ack: Ack | None,
    bounds: LogBounds,
    ends_may_lag: bool,
    producers: Collection[int],
) -> Recovered:
    """Count one claim's records in the mirror partition."""
    end = bounds.ends[partition]
    tail_from = ack.target_offset if ack is not None else placed[0].target_offset
    seen_from = tail_from - 1 if ack is not None else tail_from  # to check that the last acknowledged record is ours
    if ends_may_lag:
        end = max(end, tail_from)  # an Ack read after the ends may be newer than they are
    connection = await target.connection(bounds.leaders[partition], "read")
    topic_id, start = bounds.ids[partition.topic], bounds.starts[partition]
    tail = await _tail(connection, topic_id, partition, start, seen_from, end)
    return recover(
        claim=claim, placements=placed, ack=ack, tail=tail, tail_from=tail_from, marker=end, producers=producers
    )


def _findings(key: SourcePartition, claim: ClaimId, found: Recovered) -> list[Entry]:
    """The entries to journal for a claim that was counted."""
    now = clock.now_ms()
    entries: list[Entry] = [*found.placements, Sealed(key, claim, found.q, found.exact)]
    entries += [Foreign(key, other.target_offset, other.count, now) for other in found.foreign]
    if not found.exact:
        entries.append(Unsure(key, claim, found.low, found.high, now))
    return entries


async def source_log_end(source: ClusterClient, key: SourcePartition, names: TopicNames) -> int | None:
    """The log end of a source partition; None where the topic is gone, another one now, or cannot be asked."""
    partition = TopicPartition(names.source_topic, key.partition)
    try:
        log = await log_ends(source, [partition])
    except BrokerError:
        return None
    return log.ends[partition] if may_be(log.ids[names.source_topic], key.topic_id) else None


async def _tail(
    connection: Connection, topic_id: uuid.UUID, partition: TopicPartition, start: int, first: int, end: int
) -> list[TailBatch]:
    """The batches of [`first`, `end`) that the log still holds; read again where it loses its first ones meanwhile."""

    async def headers(start: int) -> list[TailBatch]:
        batches = read_range(connection, topic_id, partition, max(first, start), end)
        return [_tail_batch(header) async for header, _ in batches]

    return await from_log_start(connection, partition, start, headers)


class JournalMissing(BrokerError):
    """A flow has no journal topic, which only workers create."""

    def __init__(self, topic: str) -> None:
        super().__init__(UNKNOWN_TOPIC_OR_PARTITION, f"reading the journal {topic}", topics=[topic])
        what, why = f"there is no journal {topic}", "no worker has mirrored the flow yet, or it was deleted"
        remedy = "Start a worker, which creates it: drlib mirror FILE"
        DrlibError.__init__(self, what, why, remedy, retriable=self.retriable)


async def find_journal(target: ClusterClient, journal_topic: str) -> TopicMetadata:
    """The topic of a flow's journal. Raises `JournalMissing`, and other `BrokerError`s."""
    found = (await target.metadata([journal_topic])).topics[journal_topic]
    if found.error_code == UNKNOWN_TOPIC_OR_PARTITION:
        raise JournalMissing(journal_topic)
    raise_for(found.error_code, f"reading the journal {journal_topic}")
    return found


async def read_maps(target: ClusterClient, journal_topic: str, *, partly: bool = False) -> Maps:
    """The maps of a whole flow, read-only. Raises `JournalMissing`, and other `BrokerError`s.

    `partly`: lanes whose journal partition has no leader are left out (`Maps.unread`), unless all are: for who asks `refusal`
    of each partition, and relies on `producers` only for those that it does not refuse.
    """
    found = await find_journal(target, journal_topic)
    maps = Maps(journal_id=found.topic_id)
    if partly and any(each.leader >= 0 for each in found.partitions.values()):
        without = (number for number, each in sorted(found.partitions.items()) if each.leader < 0)
        maps.unread = {number: NoLeader(TopicPartition(journal_topic, number), target.name) for number in without}
    lanes: list[Maps] = []
    for number in sorted(found.partitions.keys() - maps.unread.keys()):
        partition = TopicPartition(journal_topic, number)
        # The log ends first, then the journal: every record below those ends then has its promise in what is read.
        ends = await _ends(target, await read_journal(target, partition))
        entries = await read_journal(target, partition)
        ids = stand_ins(entries)
        maps.journaled |= {**identified(entries), **ids}
        entries = renamed(entries, ids)
        lanes.append(await build_maps(target, entries, ends))
        maps.producers |= _producers(entries)
        maps.transactions += [e for e in entries if isinstance(e, Transactions | CommittedTransactions)]
        maps.reverse_journals |= {e.topic_id: e.reverse_journal for e in entries if isinstance(e, Shared)}
        claims = [entry for entry in entries if isinstance(entry, Claim)]
        if claims:
            maps.claims[number] = max(claims, key=lambda claim: claim.claimed_at_ms)
    maps.merge(lanes)
    return maps


async def _ends(target: ClusterClient, entries: Sequence[Entry]) -> Mapping[TopicPartition, int]:
    """Log ends of the mirror partitions that a journal has placements for."""
    names = {e.topic_id: e for e in entries if isinstance(e, TopicNames)}
    placed = {e.partition for e in entries if isinstance(e, Placement) and e.partition.topic_id in names}
    unusable = await _unusable(target, placed, names)
    wanted = {TopicPartition(names[key.topic_id].target_topic, key.partition) for key in placed - unusable.keys()}
    return (await log_ends(target, sorted(wanted))).ends
