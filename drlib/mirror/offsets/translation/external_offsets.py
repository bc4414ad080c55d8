"""Positions that applications keep by themselves (a database, a checkpoint) as positions on the other cluster.

Rules: what the cluster they leave wrote is translated forward, by the map on the target, so it needs the target alone; what it
has as a mirror of the target's own topics is translated back to its source, by the map on the cluster that is left, as for
groups (`moving_groups`). A position that no log of its partition can have, or that no map speaks of, is unknown with its
reason. Where nothing of a partition was ever mirrored, an application that has read nothing of it begins at the beginning:
Spark's checkpoints name empty partitions too.
Not for: groups, whose positions Kafka keeps (`translate`, `moving_groups`); offsets of a topic that was deleted and made again
under its name after the application's last record, for an offset does not say which of the two it is of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from drlib.config.replication_policy import IdentityReplicationPolicy
from drlib.config.settings import FlowSettings, MirrorSettings, load_mirror_settings
from drlib.errors import Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.reachability import who_answers
from drlib.mirror.journal.entries import SourcePartition, TopicNames
from drlib.mirror.offsets.map.flow_maps import read_flow_maps
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.offsets.translation.failback_position import failback_position
from drlib.mirror.offsets.translation.two_way import FlowPairState, read_known
from drlib.model import Flow, OffsetTranslation, TopicPartition, Translation, TranslationKind


def translate_offsets(
    file: str | Path, source: str, target: str, offsets: Iterable[tuple[str, int, int]]
) -> tuple[OffsetTranslation, ...]:
    """Positions (topic, partition, next offset to read) on cluster `source`, as positions on `target`, in their order.

    `file`: the connect-mirror-maker.properties that names both. Each answer has its kind: exact, behind by `records`, lost,
    never mirrored, bounded, or unknown with why. Raises `UsageError` and `Unreachable` as `translate_kept` does.
    """
    kept = [(TopicPartition(topic, partition), offset) for topic, partition, offset in offsets]
    return translate_kept(load_mirror_settings(file), Flow(source, target), kept)


def translate_kept(
    settings: MirrorSettings, moving: Flow, kept: Sequence[tuple[TopicPartition, int]]
) -> tuple[OffsetTranslation, ...]:
    """Positions on `moving.source`, as positions on `moving.target`, in their order.

    Raises `UsageError` for clusters the file does not have and offsets below 0, `Unreachable` when the target is silent.
    A silent source leaves positions in its mirrors unknown.
    """
    chosen = settings.flow(moving.source, moving.target)
    if wrong := [f"{partition} at {offset}" for partition, offset in kept if offset < 0]:
        raise UsageError(
            f"{', '.join(wrong)} is no position",
            "offsets begin at 0",
            "Give the next offset to read of each partition.",
        )
    told = who_answers([settings.clusters[moving.source], settings.clusters[moving.target]])
    if isinstance(silent := told[moving.target], Unreachable):
        raise silent
    away = told[moving.source]
    seen = _look(settings, chosen, kept, None if not isinstance(away, Unreachable) else away)
    return tuple(_one(chosen, seen, partition, offset) for partition, offset in kept)


@dataclass(frozen=True, slots=True)
class _Seen:
    """`known`: what the way back needs, None where it cannot be had, `silent` where the cluster that is left is away.

    `here`: log start and end of what is asked about and `ids` of its topics, empty where that cluster is away; `there`: log
    starts on the target.
    """

    forward: Maps
    known: FlowPairState | None
    silent: Unreachable | None
    here: Mapping[TopicPartition, tuple[int, int]]
    ids: Mapping[str, UUID]  # of the topics that are there now, where that is known
    there: Mapping[TopicPartition, int]


def _look(
    settings: MirrorSettings,
    chosen: FlowSettings,
    kept: Sequence[tuple[TopicPartition, int]],
    silent: Unreachable | None,
) -> _Seen:
    moving = chosen.flow
    known = None
    here: dict[TopicPartition, tuple[int, int]] = {}
    ids: dict[str, UUID] = {}
    if silent is None:
        with Cluster(settings.clusters[moving.source]) as cluster:
            topics = cluster.topics({partition.topic for partition, _ in kept})
            there_now = [p for p, _ in kept if p.topic in topics and p.partition < topics[p.topic].partitions]
            starts, ends = cluster.log_starts(there_now), cluster.log_ends(there_now)
            here = {partition: (starts[partition], ends[partition]) for partition in there_now}
            ids = {name: topic.topic_id for name, topic in topics.items()}
        if not isinstance(chosen.policy, IdentityReplicationPolicy):
            known = read_known(settings, moving)
    forward = known.forward if known is not None else read_flow_maps(settings, moving)
    remote = {chosen.policy.remote_topic(moving.source, partition.topic) for partition, _ in kept}
    with Cluster(settings.clusters[moving.target]) as cluster:
        mirrors = cluster.topics(remote)
        starts = cluster.log_starts(TopicPartition(t.name, n) for t in mirrors.values() for n in range(t.partitions))
    return _Seen(forward, known, silent, here, ids, starts)


def _one(chosen: FlowSettings, seen: _Seen, partition: TopicPartition, offset: int) -> OffsetTranslation:
    moving = chosen.flow
    bounds = seen.here.get(partition)
    if seen.silent is None and bounds is None:
        return _unknown(partition, offset, None, f"{moving.source} has no partition {partition}")
    if bounds is not None and offset > bounds[1]:
        return _unknown(
            partition, offset, None, f"its log on {moving.source} ends at {bounds[1]}, so it never held a record there"
        )
    if seen.known is not None and (names := seen.known.back.of_target(partition.topic)) is not None:
        return _back(seen.known, names, partition, offset)
    upstream = chosen.policy.source_of(partition.topic)
    if seen.silent is not None and upstream == moving.target:
        why = f"the map of {moving.reverse} is on {moving.source}, which does not answer: {seen.silent.why}"
        return _unknown(partition, offset, None, why)
    return _forward(chosen, seen, partition, offset)


def _back(known: FlowPairState, names: TopicNames, partition: TopicPartition, offset: int) -> OffsetTranslation:
    key, home = SourcePartition(names.topic_id, partition.partition), known.home.get(names.source_topic)
    target = TopicPartition(names.source_topic, partition.partition)
    if home is None or target not in known.home_starts:
        return _unknown(partition, offset, target, f"{known.moving.target} has no partition {target} any more")
    if home.topic_id != names.topic_id:
        return _unknown(partition, offset, target, f"{names.source_topic} is another topic there now, of the same name")
    if key in known.back.refused:
        return _unknown(partition, offset, target, str(known.back.refused[key]))
    answer = failback_position(
        known.back.by_partition.get(key),
        offset,
        settled=known.ledger.next(known.home_id, names.topic_id, partition.partition),
        source_log_start=known.home_starts[target],
    ).translation
    return _answer(partition, offset, target, answer, known.moving.reverse)


def _forward(chosen: FlowSettings, seen: _Seen, partition: TopicPartition, offset: int) -> OffsetTranslation:
    flow = chosen.flow
    target = TopicPartition(chosen.policy.remote_topic(flow.source, partition.topic), partition.partition)
    refused = seen.forward.refusal(partition.topic, partition.partition)
    if refused is not None:
        return _unknown(partition, offset, target, str(refused))
    made, known = seen.ids.get(partition.topic), seen.forward.names
    if made is not None and made not in known and any(n.source_topic == partition.topic for n in known.values()):
        why = f"{partition.topic} was deleted and made again, and {flow} has mirrored nothing of the new one yet"
        return _unknown(partition, offset, target, why)
    offsets = seen.forward.source(partition.topic, partition.partition)
    if offsets is None or not offsets.segments():
        first = seen.here[partition][0] if partition in seen.here else 0
        if offset == first and target in seen.there and (offsets is None or offsets.position in (None, offset)):
            return OffsetTranslation(partition, offset, target, Translation(seen.there[target], TranslationKind.EXACT))
    if offsets is None:
        why = f"{flow} has mirrored no record of it"
        if not chosen.mirrors_topic(partition.topic):
            why = f"{flow} does not mirror {partition.topic}"
        return OffsetTranslation(partition, offset, None, Translation(None, TranslationKind.NEVER_MIRRORED), why)
    answer = offsets.forward(offset, target_log_start=seen.there.get(target, 0))
    return _answer(partition, offset, target, answer, flow)


def _answer(
    partition: TopicPartition, offset: int, target: TopicPartition, answer: Translation, flow: Flow
) -> OffsetTranslation:
    why = ""
    if answer.offset is None or answer.kind is TranslationKind.UNKNOWN:
        why = f"the journal of {flow} cannot say which records stand there (drlib status tells what happened to them)"
    return OffsetTranslation(partition, offset, target, answer, why)


def _unknown(partition: TopicPartition, offset: int, target: TopicPartition | None, why: str) -> OffsetTranslation:
    return OffsetTranslation(partition, offset, target, Translation(None, TranslationKind.UNKNOWN), why)
