"""Find the unreplicated records of a flow: records that its source has and its target never got.

Rules: refused while a worker of the flow or MirrorMaker 2 runs, since it would mirror them meanwhile. What MirrorMaker 2
mirrored is found by comparing both logs; records of which that leaves in doubt whether they were copied are counted as
`doubtful`, and none is left out. Open transactions at the logs' ends are waited for. Where the source's history
differs from the mirrored one, nothing is reported. Records are read with read_committed, each once; only digests are kept.
The committed offsets of the source's groups say which records they have read.
Not for: settling them (`settle`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from drlib.config.flow_settings import FlowSettings
from drlib.config.replication_policy import IdentityReplicationPolicy
from drlib.config.settings import MirrorSettings
from drlib.errors import DrlibError, Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Isolation, Range, Record, TopicDescription
from drlib.mirror.journal.entries import SourcePartition
from drlib.mirror.offsets.map.flow_maps import worker_group
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.offsets.mirror_maker.compared_maps import ComparedMaps, read_known_maps, refuse_copying
from drlib.mirror.offsets.unreplicated import rules as tails
from drlib.mirror.offsets.unreplicated.rules import EXAMPLES, Example, PartitionTail, SentAgain, Stretch, Tally
from drlib.model import Flow, TopicPartition

OPEN_TRANSACTIONS_S: Final = 60.0  # how long to wait for open transactions: Kafka's default time-out
_POLL_S: Final = 0.1
_CLOCKS_MS: Final = 60_000  # how much producers' clocks may differ


class HistoryDiverged(DrlibError):
    """The source's history is not the one that was mirrored."""

    def __init__(self, partition: TopicPartition, cluster: str, why: str) -> None:
        super().__init__(
            f"{partition} on {cluster} has another history than was mirrored",
            why,
            "Nothing was changed. Decide which cluster's history counts; then delete the topic on the other one and mirror it "
            "again.",
        )


@dataclass(frozen=True, slots=True)
class UnreplicatedRecords:
    """The records that `flow.source` has and `flow.target` has not. `rest`: number of records beyond the `examples`.

    `topic_ids`: as `Maps.first_id`. `read_there`: by group, how many of them it had read on the source. `keys`: digests, by
    topic. `growing`: the source was written to meanwhile.
    """

    flow: Flow
    source_id: str
    topic_ids: Mapping[str, UUID]
    partitions: tuple[PartitionTail, ...]
    examples: tuple[Example, ...]
    keys: Mapping[str, frozenset[bytes]]
    read_there: Mapping[str, int]
    growing: bool

    @property
    def records(self) -> int:
        return sum(p.records for p in self.partitions)

    @property
    def bytes(self) -> int:
        return sum(p.bytes for p in self.partitions)

    @property
    def doubtful(self) -> int:
        return sum(p.doubtful for p in self.partitions)

    @property
    def rest(self) -> int:
        return self.records - len(self.examples)

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics that have unreplicated records."""
        return tuple(sorted({p.partition.topic for p in self.partitions if p.records}))

    @property
    def span_ms(self) -> tuple[int, int] | None:
        """First and last timestamp; None without records."""
        first = [p.first_ms for p in self.partitions if p.first_ms is not None]
        last = [p.last_ms for p in self.partitions if p.last_ms is not None]
        return (min(first), max(last)) if first else None

    def of(self, topic: str) -> tuple[PartitionTail, ...]:
        return tuple(p for p in self.partitions if p.partition.topic == topic)


def find_unreplicated(
    settings: MirrorSettings,
    flow: Flow,
    topics: Collection[str] | None = None,
    *,
    wait: Callable[[float], None] = time.sleep,
) -> UnreplicatedRecords:
    """Find the unreplicated records of `topics`, or of every topic the flow mirrors.

    Raises `UsageError` while a worker of the flow or MirrorMaker 2 runs, `HistoryDiverged`, `Unreachable` when a cluster does
    not answer or transactions stay open, and what `wait` raises.
    """
    flow_settings = settings.flow(flow.source, flow.target)
    refuse_one_way(flow_settings)
    with Cluster(settings.clusters[flow.source]) as source, Cluster(settings.clusters[flow.target]) as target:
        refuse_workers(target, flow)
        maps = read_known_maps(settings, flow)
        if isinstance(maps, ComparedMaps):
            refuse_copying(settings, flow)
        descriptions = _mirrored(source, flow_settings, topics)
        every = [TopicPartition(t.name, n) for t in descriptions.values() for n in range(t.partitions)]
        starts = source.log_starts(every)
        ends = _settled_ends(source, every, wait)
        wanted: dict[TopicPartition, tuple[Stretch, ...]] = {}
        known = {p: offsets for p in every if (offsets := _map(maps, descriptions, p)) is not None}
        same = same_records(source, target, maps, descriptions, known)
        for partition, offsets in known.items():
            if why := tails.divergence(offsets, ends[partition], same.get(partition)):
                raise HistoryDiverged(partition, flow.source, why)
        for partition in every:
            wanted[partition] = tails.stretches(known.get(partition), starts[partition], ends[partition])
        positions = _positions(source, flow_settings)
        tallies = {p: Tally(p, positions=_at(positions, p)) for p in every}
        for record in read_stretches(source, wanted):
            tallies[record.partition].add(record.offset, record.timestamp_ms, record.key, record.value, record.headers)
        growing = source.log_ends(every) != ends
        source_id = source.cluster_id()
    partitions, keys = [], dict[str, set[bytes]]()
    for partition in every:
        at = known.get(partition)
        reached = starts[partition] if at is None or at.position is None else at.position
        doubtful = 0 if at is None else at.doubtful
        tally = tallies[partition]
        partitions.append(tally.tail(wanted[partition], min(reached, ends[partition]), ends[partition], doubtful))
        keys.setdefault(partition.topic, set()).update(tally.keys)
    return UnreplicatedRecords(
        flow,
        source_id,
        {name: maps.first_id(description.topic_id) for name, description in descriptions.items()},
        tuple(partitions),
        _examples(tallies.values()),
        {topic: frozenset(names) for topic, names in keys.items()},
        {
            group: sum(tallies[p].read_by(position) for p, position in those.items() if p in tallies)
            for group, those in positions.items()
            if any(p in tallies for p in those)
        },
        growing,
    )


def written_since(settings: MirrorSettings, tail: UnreplicatedRecords, topic: str) -> SentAgain:
    """Records of the target's own `topic` with keys of the unreplicated records, from the first of their timestamps on.

    Recovered records do not count. Contents are of such keys, and of records without a key.
    """
    span = [p.first_ms for p in tail.of(topic) if p.first_ms is not None]
    keys, contents = set[bytes](), Counter[bytes]()
    with Cluster(settings.clusters[tail.flow.target]) as target:
        description = target.topics([topic]).get(topic)
        if description is None or not span:
            return SentAgain()
        every = [TopicPartition(topic, n) for n in range(description.partitions)]
        ends = target.log_ends(every, Isolation.READ_COMMITTED)
        since = target.offsets_at(every, max(0, min(span) - _CLOCKS_MS))
        starts = {**target.log_starts(every), **{p: at for p, at in since.items() if at >= 0}}
        late = {p: Range(starts[p], ends[p]) for p in every if since[p] >= 0}
        for record in target.read(late):
            if tails.is_recovered(record.headers):
                continue
            name = None if record.key is None else tails.key_digest(record.key)
            if name is None or name in tail.keys.get(topic, frozenset()):
                contents[tails.content_digest(record.key, record.value, record.headers)] += 1
                if name is not None:
                    keys.add(name)
    return SentAgain(frozenset(keys), contents)


def read_stretches(cluster: Cluster, wanted: Mapping[TopicPartition, tuple[Stretch, ...]]) -> Iterator[Record]:
    """Read the committed records of offset ranges, in offset order within a partition; partitions interleave."""
    for turn in range(max((len(those) for those in wanted.values()), default=0)):
        yield from cluster.read({p: Range(s[turn].first, s[turn].end) for p, s in wanted.items() if turn < len(s)})


def refuse_workers(target: Cluster, flow: Flow) -> None:
    """Raises `UsageError` while `flow` is being mirrored."""
    members = target.group_members(worker_group(flow))
    if members:
        raise UsageError(
            f"{flow} is being mirrored",
            f"{len(members)} of its workers run, the first at {members[0].host}: they would mirror the unreplicated records "
            "meanwhile, after the cutover to which applications have read",
            f"Stop the workers of {flow}, then try again.",
        )


def refuse_one_way(flow_settings: FlowSettings) -> None:
    """Raises `UsageError` for a policy under which a flow cannot be reversed."""
    if isinstance(flow_settings.policy, IdentityReplicationPolicy):
        raise UsageError(
            f"{flow_settings.flow} cannot be reversed",
            "under IdentityReplicationPolicy a topic has one name on both clusters, so records would be copied in a cycle",
            "Use DefaultReplicationPolicy for flows that are to be reversed.",
        )


def _mirrored(
    source: Cluster, flow_settings: FlowSettings, topics: Collection[str] | None
) -> dict[str, TopicDescription]:
    descriptions = source.topics(topics)
    if topics is not None and (missing := sorted(set(topics) - descriptions.keys())):
        raise UsageError(
            f"{source.settings.alias} has no topic {', '.join(missing)}", "it was deleted or misspelt", "Correct it."
        )
    return {
        name: description
        for name, description in sorted(descriptions.items())
        if flow_settings.mirrors_topic(name) and not flow_settings.policy.is_heartbeats(name)
    }


def _map(maps: Maps, descriptions: Mapping[str, TopicDescription], partition: TopicPartition) -> PartitionMap | None:
    """None where nothing of this topic was ever mirrored. Raises the reason where a map is refused."""
    key = SourcePartition(descriptions[partition.topic].topic_id, partition.partition)
    if key in maps.refused:
        raise maps.refused[key]
    return maps.by_partition.get(key)


def _settled_ends(
    source: Cluster, partitions: Collection[TopicPartition], wait: Callable[[float], None]
) -> dict[TopicPartition, int]:
    """The log ends, as soon as no open transaction hides records before them."""
    deadline = time.monotonic() + OPEN_TRANSACTIONS_S
    while True:
        ends = source.log_ends(partitions)
        stable = source.log_ends(partitions, Isolation.READ_COMMITTED)
        hidden = sorted(p for p in partitions if stable[p] < ends[p])
        if not hidden:
            return ends
        if time.monotonic() > deadline:
            raise Unreachable(
                f"transactions are open in {hidden[0]} on {source.settings.alias}",
                f"in {len(hidden)} partitions they have been open for {OPEN_TRANSACTIONS_S:g} s: unknown which records are "
                "committed",
                "Stop the producers; their open transactions end by transaction.timeout.ms. Then try again.",
            )
        wait(_POLL_S)


def same_records(
    source: Cluster,
    target: Cluster,
    maps: Maps,
    descriptions: Mapping[str, TopicDescription],
    known: Mapping[TopicPartition, PartitionMap],
) -> dict[TopicPartition, bool]:
    """By partition: has its last mirrored record the same content on both clusters? Left out where one no longer has it."""
    source_offsets: dict[TopicPartition, int] = {}
    target_offsets: dict[TopicPartition, int] = {}
    mirrors: dict[TopicPartition, TopicPartition] = {}
    for partition, offsets in known.items():
        if segments := offsets.segments():
            mirror = maps.names[descriptions[partition.topic].topic_id].target_topic
            mirrors[partition] = TopicPartition(mirror, partition.partition)
            source_offsets[partition] = segments[-1].source_end - 1
            target_offsets[mirrors[partition]] = segments[-1].target_end - 1
    on_source, on_target = _contents(source, source_offsets), _contents(target, target_offsets)
    return {p: on_source[p] == on_target[m] for p, m in mirrors.items() if p in on_source and m in on_target}


def _contents(cluster: Cluster, at: Mapping[TopicPartition, int]) -> dict[TopicPartition, bytes]:
    """Digests of single records; those that no longer exist are left out."""
    starts, ends = cluster.log_starts(at), cluster.log_ends(at)
    ranges = {p: Range(offset, offset + 1) for p, offset in at.items() if starts[p] <= offset < ends[p]}
    return {
        r.partition: tails.content_digest(r.key, r.value, r.headers)
        for r in cluster.read(ranges)
        if r.offset == at[r.partition]
    }


def _positions(source: Cluster, flow_settings: FlowSettings) -> dict[str, dict[TopicPartition, int]]:
    """Committed offsets of the source's groups. Raises the first group's error: no answer does not mean no position."""
    groups = [listing.group for listing in source.groups() if flow_settings.mirrors_group(listing.group)]
    group_positions = {}
    for group, positions in source.committed(groups).items():
        if isinstance(positions, DrlibError):
            raise positions
        group_positions[group] = {p: position.offset for p, position in positions.items()}
    return group_positions


def _at(positions: Mapping[str, Mapping[TopicPartition, int]], partition: TopicPartition) -> tuple[int, ...]:
    return tuple(sorted({those[partition] for those in positions.values() if partition in those}))


def _examples(tallies: Collection[Tally]) -> tuple[Example, ...]:
    """Examples from every partition in turn."""
    examples: list[Example] = []
    for turn in range(EXAMPLES):
        examples += [t.examples[turn] for t in tallies if turn < len(t.examples)]
        if len(examples) >= EXAMPLES:
            break
    return tuple(examples[:EXAMPLES])
