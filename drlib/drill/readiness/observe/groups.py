"""Groups of the source: their committed offsets, what these are on the target, and topics they read that nothing mirrors.

Rules: committed offsets come from the source, else from the checkpoints on the target, with the time those are of. A topic
that was mirrored from the target exists there under its own name, so a group that reads it needs no mirror of it. Offsets in
deleted topics are left out.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from drlib import clock
from drlib.config.flow_settings import FlowSettings
from drlib.config.patterns.selection import breaks_the_line
from drlib.config.settings import MirrorSettings
from drlib.drill.readiness.checks.observations import Readers, TargetPosition, UnmirroredReader
from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset, GroupState
from drlib.kafka.net.cluster_client import ClusterMetadata
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.offsets.translation.translate_groups import KnownPosition, checkpointed_positions, translate_groups
from drlib.model import GroupTranslation, TopicPartition, Translation, TranslationKind


@dataclass(frozen=True)
class SourceGroups:
    """Committed offsets of the groups the flow follows, at `at_ms` unless `as_of_ms` has a time for the position. `there`: the
    offsets in the mirror, of positions that are known by checkpoints. `of_lines`: groups that the flow leaves out because their
    names have line terminators."""

    at_ms: int
    committed: Mapping[str, Mapping[TopicPartition, CommittedOffset]]
    unreadable: Mapping[str, DrlibError] = field(default_factory=dict)
    all_listed: bool | None = True
    as_of_ms: Mapping[tuple[str, TopicPartition], int] = field(default_factory=dict)
    there: Mapping[tuple[str, TopicPartition], int] = field(default_factory=dict)
    of_lines: tuple[str, ...] = ()


def read_source_groups(cluster: ClusterSettings, flow: FlowSettings, timeout_s: float) -> SourceGroups:
    """From the source itself. Blocks; raises `Unreachable` and `ClusterRefused`."""
    with Cluster(cluster, timeout_s=timeout_s) as source:
        listed = sorted(listing.group for listing in source.groups())
        chosen = [group for group in listed if flow.mirrors_group(group)]
        answers = source.committed(chosen)
        return SourceGroups(
            clock.now_ms(),
            {group: answer for group, answer in answers.items() if not isinstance(answer, DrlibError)},
            {group: answer for group, answer in answers.items() if isinstance(answer, DrlibError)},
            source.lists_every_group(),
            of_lines=tuple(group for group in listed if breaks_the_line(flow.mirrors_group, group)),
        )


def read_checkpointed_groups(settings: MirrorSettings, flow: FlowSettings) -> SourceGroups:
    """From the newest checkpoints on the target. Blocks; raises `Unreachable` and `ClusterRefused`."""
    positions = checkpointed_positions(settings, flow.flow)
    committed: dict[str, dict[TopicPartition, CommittedOffset]] = {}
    for (group, partition), known in positions.items():
        committed.setdefault(group, {})[partition] = CommittedOffset(known.offset, known.metadata)
    times = {key: known.as_of_ms for key, known in positions.items()}
    there = {key: known.there for key, known in positions.items() if known.there is not None}
    return SourceGroups(clock.now_ms(), committed, as_of_ms=times, there=there)


def mirrored_positions(
    groups: SourceGroups, flow: FlowSettings, source: ClusterMetadata | None
) -> dict[tuple[str, TopicPartition], CommittedOffset]:
    """The committed offsets in topics that the flow mirrors, by group and partition, in this order; none in deleted ones."""
    return {
        (group, partition): committed
        for group, positions in sorted(groups.committed.items())
        for partition, committed in sorted(positions.items())
        if (source is None or partition.topic in source.topics) and flow.mirrors_topic(partition.topic)
    }


def translate_positions(
    groups: SourceGroups,
    flow: FlowSettings,
    maps: Maps,
    source: ClusterMetadata | None,
    log_starts: Mapping[TopicPartition, int],
) -> tuple[GroupTranslation, ...]:
    """Every committed offset in a topic that the flow mirrors. `log_starts`: log start offsets of mirror partitions."""
    translations = []
    for (group, partition), committed in mirrored_positions(groups, flow, source).items():
        target = mirror_partition(flow, partition)
        log_start = log_starts.get(target, 0)
        there = groups.there.get((group, partition))
        topic_id = None if source is None else source.topics[partition.topic].topic_id
        translation = maps.forward(
            group, partition, committed.offset, target_log_start=log_start, there=there, topic_id=topic_id
        )
        if translation is None:
            translation = Translation(None, TranslationKind.NEVER_MIRRORED)
        as_of_ms = groups.as_of_ms.get((group, partition), groups.at_ms)
        translations.append(GroupTranslation(group, partition, committed.offset, target, translation, as_of_ms))
    return tuple(translations)


def translate_both_ways(
    settings: MirrorSettings,
    flow: FlowSettings,
    groups: SourceGroups,
    source: ClusterMetadata | None,
    source_alive: bool,
) -> tuple[GroupTranslation, ...]:
    """The same where both directions may copy a topic. Blocks. Raises `Unreachable`, `BrokerError`."""
    known = {
        key: KnownPosition(at.offset, groups.as_of_ms.get(key, groups.at_ms), at.metadata)
        for key, at in mirrored_positions(groups, flow, source).items()
    }
    return translate_groups(settings, flow.flow, source_alive=source_alive, positions=known)


def find_readers(
    groups: SourceGroups,
    settings: MirrorSettings,
    flow: FlowSettings,
    source: ClusterMetadata,
    assigned: Mapping[str, Collection[str]],
    target: ClusterMetadata | None = None,
) -> Readers:
    """Groups that read topics no enabled flow from this source mirrors. `assigned`: topics of groups' members, by group. Topics
    that this user may not describe are left out of committed offsets and metadata, and are known by these alone. A topic with
    the name of a mirror of the `target`'s is none where the target has no such topic."""
    alias = flow.flow.source
    outgoing = [each for each in settings.enabled_flows if each.flow.source == alias] or [flow]

    def unmirrored(topic: str) -> bool:
        if flow.policy.is_internal(topic):
            return False
        from_target = flow.policy.source_of(topic) == flow.flow.target
        if from_target and target is not None:
            from_target = flow.policy.downstream_topic(flow.flow, topic) in target.topics
        return not from_target and not any(each.mirrors_topic(topic) for each in outgoing)

    def of_a_stranger(topic: str) -> bool:
        known = flow.policy.source_of(topic) in (None, *settings.clusters)
        return not known and flow.policy.is_heartbeats(topic) and flow.mirrors_topic(topic)

    readers, as_heartbeats = [], []
    for group, positions in sorted(groups.committed.items()):
        there = {partition.topic for partition in positions if partition.topic in source.topics}
        hidden = {topic for topic in assigned.get(group, ()) if topic not in source.topics}
        if counted := tuple(sorted(filter(of_a_stranger, there | hidden))):
            as_heartbeats.append((group, counted))
        topics = sorted(filter(unmirrored, there | hidden))
        if topics:
            own = tuple(name for name in topics if flow.policy.is_cycle(name, flow.flow.target, alias))
            readers.append(UnmirroredReader(group, tuple(topics), own))
    unreadable = tuple((group, str(error.why)) for group, error in sorted(groups.unreadable.items()))
    return Readers(
        len(groups.committed), tuple(readers), unreadable, groups.all_listed, groups.of_lines, tuple(as_heartbeats)
    )


def read_target_positions(
    cluster: ClusterSettings, translations: Sequence[GroupTranslation], metadata: ClusterMetadata, timeout_s: float
) -> tuple[TargetPosition, ...]:
    """Committed offsets on the target of the groups that have a translation there.

    Blocks; raises `Unreachable`, `ClusterRefused`, and the refusal of the first group that cannot be read.
    """
    groups = sorted({position.group for position in translations})
    with Cluster(cluster, timeout_s=timeout_s) as target:
        states, committed = target.group_states(groups), target.committed(groups)
        ends = target.log_ends(with_leader((position.target for position in translations), metadata))
        positions = []
        for translation in translations:
            offsets = committed.get(translation.group, {})
            if isinstance(offsets, DrlibError):
                raise offsets
            at = offsets.get(translation.target)
            result = translation.translation
            if at is None or result.offset is None or result.kind is TranslationKind.UNKNOWN:
                continue
            in_use = states.get(translation.group) is GroupState.ACTIVE
            positions.append(TargetPosition(translation, at.offset, ends.get(translation.target), in_use))
        markers = target.without_records(
            each.ahead for each in positions if each.log_end is not None and not each.in_use
        )
    return tuple(replace(each, markers_only=each.ahead in markers) for each in positions)


def is_ahead(position: TargetPosition) -> bool:
    """Is it further ahead by records that the group has not read on the source, as its position was read there?"""
    between = position.ahead[1]
    return between.start < between.end and not position.in_use and not position.markers_only


def with_read_on(positions: Iterable[TargetPosition], now: SourceGroups) -> tuple[TargetPosition, ...]:
    """`positions` with those named that are ahead of what the source had, of groups that have read on there by `now`."""
    found = []
    for each in positions:
        item = each.translation
        newest = now.committed.get(item.group, {}).get(item.source)
        read_on = newest is not None and newest.offset > item.source_offset and is_ahead(each)
        found.append(replace(each, read_on=read_on))
    return tuple(found)


def with_leader(partitions: Iterable[TopicPartition], metadata: ClusterMetadata) -> list[TopicPartition]:
    """Those of `partitions` that exist and have a leader."""
    return [
        tp
        for tp in partitions
        if tp.topic in metadata.topics
        and (known := metadata.topics[tp.topic].partitions.get(tp.partition)) is not None
        and known.leader >= 0
    ]


def mirror_partition(flow: FlowSettings, source: TopicPartition) -> TopicPartition:
    """The mirror partition of a source partition."""
    return TopicPartition(flow.policy.remote_topic(flow.flow.source, source.topic), source.partition)
