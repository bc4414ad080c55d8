"""Measure how far a flow is behind its source, from the logs and the map alone: on any machine, with or without a worker.

Rules: a partition is drained when every record that a read_committed consumer finds below the source's log end is in the
mirror; the last few offsets, which may be control records, are read to find out. Of a flow of MirrorMaker 2 both logs are
compared for that. Of topics that both directions copy only the
source's own records count: what the flow back copied there comes from the target. A mirror topic with records that no journal
explains, and a partition without a map, will never be drained: they raise instead.
Not for: why a partition is not mirrored (`drlib status` asks the worker).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from drlib.config.both_ways.shared_topics import all_shared
from drlib.config.flow_settings import FlowSettings
from drlib.config.settings import MirrorSettings
from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import Range
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.offsets.mirror_maker.compared_maps import read_known_maps
from drlib.mirror.offsets.unreplicated.crossed import count_own
from drlib.mirror.offsets.unreplicated.find import read_stretches
from drlib.mirror.offsets.unreplicated.rules import Stretch, stretches
from drlib.model import Flow, TopicPartition

_FEW: Final = 64  # offsets that may be control records alone, and are read to see
_FEW_COPIES: Final = 10_000  # offsets that may be copies alone, where both directions copy


class MirrorUnexplained(DrlibError):
    """A mirror topic holds records that the flow's journal does not know, so the flow does not write to it."""

    def __init__(self, flow: Flow, topics: Sequence[str]) -> None:
        super().__init__(
            f"{flow} cannot fill {', '.join(topics)}",
            f"it holds records on {flow.target} that the journal of {flow} does not know: another replicator wrote them, "
            f"or the journal was lost with {flow.target}",
            f"Delete {topics[0]} on {flow.target} to have it mirrored again from the start, then try again.",
        )


@dataclass(frozen=True, slots=True)
class ReplicationLag:
    """The offsets that are not mirrored yet. `ends`: the source's log ends; `maps`: the maps read after them."""

    ends: Mapping[TopicPartition, int]
    missing: Mapping[TopicPartition, tuple[Stretch, ...]]
    maps: Maps = field(repr=False)

    @property
    def offsets(self) -> int:
        """Their number, an upper bound of the records."""
        return sum(s.end - s.first for those in self.missing.values() for s in those)

    def offsets_below(self, ends: Mapping[TopicPartition, int]) -> int:
        """The same of those below `ends`."""
        return sum(max(0, min(s.end, ends[p]) - s.first) for p, those in self.missing.items() for s in those)


def mirrored_topics(cluster: Cluster, flow_settings: FlowSettings) -> dict[str, int]:
    """Partition counts of every source topic that the flow mirrors, without heartbeats."""
    return {
        name: description.partitions
        for name, description in cluster.topics().items()
        if flow_settings.mirrors_topic(name) and not flow_settings.policy.is_heartbeats(name)
    }


def replication_lag(
    settings: MirrorSettings, flow: Flow, source: Cluster, partitions: Collection[TopicPartition]
) -> ReplicationLag:
    """The replication lag of `partitions` now. Raises the reason where one of them has no map."""
    ends = source.log_ends(partitions)
    starts = source.log_starts(partitions)
    topics = source.topics({p.topic for p in ends})
    maps = read_known_maps(settings, flow)
    # created again: the maps are of earlier topics
    again = {name for name, topic in topics.items() if maps.replaced(name, topic.topic_id)}
    missing: dict[TopicPartition, tuple[Stretch, ...]] = {}
    for partition, end in ends.items():
        why = maps.refusal(partition.topic, partition.partition)
        if why is not None and partition.topic not in again:
            raise why
        offsets = None if partition.topic in again else maps.source(partition.topic, partition.partition)
        reached = starts[partition] if offsets is None or offsets.reached is None else offsets.reached
        if left := stretches(offsets, max(starts[partition], reached), end):
            missing[partition] = left
    if missing and all_shared(settings, flow):
        return ReplicationLag(ends, _with_own(settings, flow, missing), maps)
    few = {p: left for p, left in missing.items() if sum(s.end - s.first for s in left) <= _FEW}
    if missing and len(few) == len(missing):
        holding = {record.partition for record in read_stretches(source, few)}
        missing = {p: left for p, left in missing.items() if p in holding}
    return ReplicationLag(ends, missing, maps)


def _with_own(
    settings: MirrorSettings, flow: Flow, missing: Mapping[TopicPartition, tuple[Stretch, ...]]
) -> dict[TopicPartition, tuple[Stretch, ...]]:
    """The partitions with records of the source's own clients in what is missing; those with much of it are not looked at."""
    spans = {p: Range(left[0].first, left[-1].end) for p, left in missing.items()}
    few = {p: span for p, span in spans.items() if span.end - span.start <= _FEW_COPIES}
    own = count_own(settings, flow, few)
    return {p: left for p, left in missing.items() if p not in few or own[p]}


def refuse_unexplained(settings: MirrorSettings, flow: Flow, topics: Mapping[str, int]) -> None:
    """Raises `MirrorUnexplained` where a mirror topic holds records that the flow did not write."""
    maps = read_known_maps(settings, flow)
    policy = settings.flow(flow.source, flow.target).policy
    with Cluster(settings.clusters[flow.target]) as target:
        existing = target.topics([policy.remote_topic(flow.source, topic) for topic in topics])
        every = [TopicPartition(t.name, n) for t in existing.values() for n in range(t.partitions)]
        starts, ends = target.log_starts(every), target.log_ends(every)
    unexplained = sorted({p.topic for p in every if ends[p] > starts[p] and maps.of_target(p.topic) is None})
    if unexplained:
        raise MirrorUnexplained(flow, unexplained)
