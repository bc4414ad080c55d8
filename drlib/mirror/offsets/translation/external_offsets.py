"""Translate positions that applications keep outside Kafka (in a database, in a checkpoint) to the other cluster.

Rules: a position in a topic of the cluster that is left is translated forward, by the map on the target, so only the target
has to answer. A position in a mirror of the target's topics is translated back to its source, by the map on the cluster that
is left, as for groups (`two_way`). A position beyond the end of its log, or in a partition without a map, is unknown, with the
reason. In a partition that was never mirrored, a position at the log start becomes the start of the mirror: Spark's checkpoints
name empty partitions too. In a topic that both directions copy under one name it continues at the first record that it has not
read, as a group does (`shared_logs`).
Not for: positions of consumer groups (`translate_groups`, `two_way`); offsets of a topic that was re-created after the
application's last record, because an offset does not say which of the two topics it belongs to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from drlib.config.both_ways.shared_topics import shared_between
from drlib.config.flow_settings import FlowSettings
from drlib.config.replication_policy import IdentityReplicationPolicy
from drlib.config.settings import MirrorSettings, load_mirror_settings
from drlib.errors import NoLeader, Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import who_answers
from drlib.mirror.journal.entries import SourcePartition, TopicNames
from drlib.mirror.offsets.map.flow_maps import read_flow_maps
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.offsets.translation.failback_position import failback_position
from drlib.mirror.offsets.translation.shared_logs import Asked, SharedAnswer
from drlib.mirror.offsets.translation.translate_groups import translate_shared
from drlib.mirror.offsets.translation.two_way import FlowPairState, read_flow_pair
from drlib.model import Flow, OffsetTranslation, TopicPartition, Translation, TranslationKind


def translate_offsets(
    file: str | Path, source: str, target: str, offsets: Iterable[tuple[str, int, int]]
) -> tuple[OffsetTranslation, ...]:
    """Translate positions (topic, partition, next offset to read) on cluster `source` to `target`, in the same order.

    `file`: the connect-mirror-maker.properties that names both clusters. Each result has a kind: exact, behind by `records`,
    lost, never mirrored, bounded, or unknown with the reason in `why`. Raises `UsageError` and `Unreachable` as
    `translate_external_offsets` does.
    """
    positions = [(TopicPartition(topic, partition), offset) for topic, partition, offset in offsets]
    return translate_external_offsets(load_mirror_settings(file), Flow(source, target), positions)


def translate_external_offsets(
    settings: MirrorSettings, moving: Flow, positions: Sequence[tuple[TopicPartition, int]]
) -> tuple[OffsetTranslation, ...]:
    """Translate positions on `moving.source` to `moving.target`, in the same order.

    Raises `UsageError` for clusters missing from the file and offsets below 0, `Unreachable` when the target does not answer.
    When the source does not answer, positions in its mirrors are unknown.
    """
    flow_settings = settings.flow(moving.source, moving.target)
    if wrong := [f"{partition} at {offset}" for partition, offset in positions if offset < 0]:
        raise UsageError(
            f"{', '.join(wrong)} is no position",
            "offsets begin at 0",
            "Give the next offset to read of each partition.",
        )
    answers = who_answers([settings.clusters[moving.source], settings.clusters[moving.target]])
    target, source = answers[moving.target], answers[moving.source]
    if isinstance(target, Unreachable):
        raise target
    clusters = _read_clusters(settings, flow_settings, positions, source if isinstance(source, Unreachable) else None)
    return tuple(_translate(flow_settings, clusters, partition, offset) for partition, offset in positions)


@dataclass(frozen=True, slots=True)
class _ClusterState:
    """What translating needs. `flow_pair` is None where the way back cannot be read; `source_error` says why the source did
    not answer; then `source_bounds` (log start and end of the partitions asked about) and `topic_ids` are empty. `leaderless`:
    partitions of either cluster without a leader, which have no bounds."""

    forward: Maps
    flow_pair: FlowPairState | None
    source_error: Unreachable | None
    source_bounds: Mapping[TopicPartition, tuple[int, int]]
    topic_ids: Mapping[str, UUID]
    target_log_starts: Mapping[TopicPartition, int]
    shared: Mapping[Asked, SharedAnswer]
    leaderless: Mapping[str, Collection[TopicPartition]]  # by cluster


def _read_clusters(
    settings: MirrorSettings,
    flow_settings: FlowSettings,
    positions: Sequence[tuple[TopicPartition, int]],
    source_error: Unreachable | None,
) -> _ClusterState:
    moving = flow_settings.flow
    flow_pair = None
    bounds: dict[TopicPartition, tuple[int, int]] = {}
    leaderless: dict[str, Collection[TopicPartition]] = {}
    topic_ids: dict[str, UUID] = {}
    if source_error is None:
        with Cluster(settings.clusters[moving.source]) as cluster:
            topics = cluster.topics({partition.topic for partition, _ in positions})
            led = cluster.led(partition for partition, _ in positions)
            leaderless = {moving.source: {p for p, is_led in led.items() if not is_led}}
            existing = [partition for partition, is_led in led.items() if is_led]
            starts, ends = cluster.log_starts(existing), cluster.log_ends(existing)
            bounds = {partition: (starts[partition], ends[partition]) for partition in existing}
            topic_ids = {name: topic.topic_id for name, topic in topics.items()}
        if not isinstance(flow_settings.policy, IdentityReplicationPolicy):
            flow_pair = read_flow_pair(settings, moving, in_part=True)
    forward = read_flow_maps(settings, moving, shared=True, partly=True) if flow_pair is None else flow_pair.forward
    of_both = shared_between(settings, moving) or (lambda _: False)
    asked = {_as_asked(*position) for position in positions if of_both(position[0].topic)}
    shared = translate_shared(settings, moving, asked, source_alive=source_error is None)
    mirror_names = {flow_settings.policy.remote_topic(moving.source, partition.topic) for partition, _ in positions}
    with Cluster(settings.clusters[moving.target]) as cluster:
        mirrors = cluster.topics(mirror_names)
        led = cluster.led(TopicPartition(t.name, n) for t in mirrors.values() for n in range(t.partitions))
        leaderless[moving.target] = {p for p, is_led in led.items() if not is_led}
        starts = cluster.log_starts(led.keys() - leaderless[moving.target])
    return _ClusterState(forward, flow_pair, source_error, bounds, topic_ids, starts, shared, leaderless)


def _as_asked(partition: TopicPartition, offset: int) -> Asked:
    """Nothing is known of what the application has read on the target."""
    return partition, offset, 0


def _translate(
    flow_settings: FlowSettings, clusters: _ClusterState, partition: TopicPartition, offset: int
) -> OffsetTranslation:
    moving = flow_settings.flow
    bounds = clusters.source_bounds.get(partition)
    if clusters.source_error is None and bounds is None and partition not in clusters.leaderless[moving.source]:
        return _unknown(partition, offset, None, f"{moving.source} has no partition {partition}")
    if bounds is not None and offset > bounds[1]:
        why = f"its log on {moving.source} ends at {bounds[1]}, before this offset"
        return _unknown(partition, offset, None, why)
    if clusters.flow_pair is not None:
        names = clusters.flow_pair.reverse.of_target(partition.topic)
        if names is not None:
            return _translate_back(clusters.flow_pair, names, partition, offset)
    upstream = flow_settings.policy.source_of(partition.topic)
    if clusters.source_error is not None and upstream == moving.target:
        why = f"the map of {moving.reverse} is on {moving.source}, which does not answer: {clusters.source_error.why}"
        return _unknown(partition, offset, None, why)
    return _translate_forward(flow_settings, clusters, partition, offset)


def _translate_back(
    flow_pair: FlowPairState, names: TopicNames, partition: TopicPartition, offset: int
) -> OffsetTranslation:
    key = SourcePartition(names.topic_id, partition.partition)
    topic = flow_pair.target_topics.get(names.source_topic)
    target = TopicPartition(names.source_topic, partition.partition)
    if topic is None or target.partition >= topic.partitions:
        return _unknown(partition, offset, target, f"{flow_pair.moving.target} has no partition {target} any more")
    if topic.topic_id != names.topic_id:
        why = f"{names.source_topic} on {flow_pair.moving.target} was deleted and re-created since"
        return _unknown(partition, offset, target, why)
    if key in flow_pair.reverse.refused:
        return _unknown(partition, offset, target, str(flow_pair.reverse.refused[key]))
    if target not in flow_pair.target_log_starts:
        return _unknown(partition, offset, target, str(NoLeader(target, flow_pair.moving.target)))
    translation = failback_position(
        flow_pair.reverse.by_partition.get(key),
        offset,
        settled=flow_pair.settled(key),
        source_log_start=flow_pair.target_log_starts[target],
    ).translation
    return _with_reason(partition, offset, target, translation, flow_pair.moving.reverse)


def _translate_forward(
    flow_settings: FlowSettings, clusters: _ClusterState, partition: TopicPartition, offset: int
) -> OffsetTranslation:
    flow = flow_settings.flow
    target = TopicPartition(flow_settings.policy.remote_topic(flow.source, partition.topic), partition.partition)
    refused = clusters.forward.refusal(partition.topic, partition.partition)
    if refused is not None:
        return _unknown(partition, offset, target, str(refused))
    if target in clusters.leaderless[flow.target]:
        return _unknown(partition, offset, target, str(NoLeader(target, flow.target)))
    if clusters.forward.replaced(partition.topic, clusters.topic_ids.get(partition.topic)):
        why = f"{partition.topic} was deleted and re-created, and {flow} has mirrored nothing of the new topic yet"
        return _unknown(partition, offset, target, why)
    if (answer := clusters.shared.get(_as_asked(partition, offset))) is not None:
        return OffsetTranslation(partition, offset, target, answer.translation, answer.why)
    offsets = clusters.forward.source(partition.topic, partition.partition)
    target_start = clusters.target_log_starts.get(target)
    if offsets is None or not offsets.segments():
        log_start = clusters.source_bounds[partition][0] if partition in clusters.source_bounds else 0
        nothing_skipped = offsets is None or offsets.position in (None, offset)
        if offset == log_start and target_start is not None and nothing_skipped:
            return OffsetTranslation(partition, offset, target, Translation(target_start, TranslationKind.EXACT))
    if offsets is None:
        why = f"{flow} has mirrored no record of it"
        if not flow_settings.mirrors_topic(partition.topic):
            why = f"{flow} does not mirror {partition.topic}"
        return OffsetTranslation(partition, offset, None, Translation(None, TranslationKind.NEVER_MIRRORED), why)
    translation = offsets.forward(offset, target_log_start=target_start or 0)
    return _with_reason(partition, offset, target, translation, flow)


def _with_reason(
    partition: TopicPartition, offset: int, target: TopicPartition, translation: Translation, flow: Flow
) -> OffsetTranslation:
    why = ""
    if translation.offset is None or translation.kind is TranslationKind.UNKNOWN:
        why = f"the journal of {flow} does not know which records are at this position (drlib status shows why)"
    return OffsetTranslation(partition, offset, target, translation, why)


def _unknown(partition: TopicPartition, offset: int, target: TopicPartition | None, why: str) -> OffsetTranslation:
    return OffsetTranslation(partition, offset, target, Translation(None, TranslationKind.UNKNOWN), why)
