"""Groups of the source: where they stand, what that is on the target, and what they read that nothing mirrors.

Rules: the source's own answer, else the checkpoints on the target with the time they are of. A topic that came from the
target lives there under its own name, so a group that reads it here needs no mirror of it. Positions in topics that are
gone count for nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from drlib.config.settings import FlowSettings, MirrorSettings
from drlib.drill.readiness.checks.observations import Placed, Reader, Readers, There, Unseen
from drlib.errors import DrlibError
from drlib.kafka.admin.bulk_admin import BulkAdmin
from drlib.kafka.admin.descriptions import CommittedOffset, GroupState
from drlib.kafka.net.cluster_client import ClusterMetadata
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.offsets.translation.translate_groups import Positions, checkpointed_positions
from drlib.model import TopicPartition, Translation, TranslationKind


@dataclass(frozen=True)
class Standing:
    """Positions of the groups the flow follows, at `at_ms` for those with none of their own time."""

    at_ms: int
    committed: Mapping[str, Mapping[TopicPartition, CommittedOffset]]
    unreadable: Mapping[str, DrlibError] = field(default_factory=dict)
    all_listed: bool = True
    as_of_ms: Mapping[tuple[str, TopicPartition], int] = field(default_factory=dict)


def of_source(cluster: ClusterSettings, flow: FlowSettings, timeout_s: float) -> Standing:
    """As the source tells. Blocks; raises `Unreachable` and `ClusterRefused`."""
    with BulkAdmin(cluster, timeout_s=timeout_s) as source:
        chosen = [listing.group for listing in source.groups() if flow.mirrors_group(listing.group)]
        found = source.committed(chosen)
        return Standing(
            int(time.time() * 1000),
            {group: answer for group, answer in found.items() if not isinstance(answer, DrlibError)},
            {group: answer for group, answer in found.items() if isinstance(answer, DrlibError)},
            source.lists_every_group(),
        )


def of_checkpoints(settings: MirrorSettings, flow: FlowSettings) -> Standing:
    """As the target last heard of them. Blocks; raises `Unreachable` and `ClusterRefused`."""
    found: Positions = checkpointed_positions(settings, flow.flow)
    committed: dict[str, dict[TopicPartition, CommittedOffset]] = {}
    for (group, partition), known in found.items():
        committed.setdefault(group, {})[partition] = CommittedOffset(known.offset, known.metadata)
    times = {key: known.as_of_ms for key, known in found.items()}
    return Standing(int(time.time() * 1000), committed, as_of_ms=times)


def translated(
    standing: Standing,
    flow: FlowSettings,
    maps: Maps,
    source: ClusterMetadata | None,
    log_starts: Mapping[TopicPartition, int],
) -> tuple[tuple[Placed, Translation], ...]:
    """Every position in a topic that the flow mirrors. `log_starts` are the target's."""
    found = []
    for group, positions in sorted(standing.committed.items()):
        for partition, committed in sorted(positions.items()):
            gone = source is not None and partition.topic not in source.topics
            if gone or not flow.mirrors_topic(partition.topic):
                continue
            offsets = maps.source(partition.topic, partition.partition)
            if offsets is not None:
                start = log_starts.get(target_of(flow, partition), 0)
                there = offsets.forward(committed.offset, target_log_start=start)
            elif maps.refusal(partition.topic, partition.partition) is not None:
                there = Translation(None, TranslationKind.UNKNOWN)
            else:
                there = Translation(None, TranslationKind.NEVER_MIRRORED)
            as_of_ms = standing.as_of_ms.get((group, partition), standing.at_ms)
            placed = Placed(group, partition, committed.offset, there.kind, there.records, as_of_ms)
            found.append((placed, there))
    return tuple(found)


def readers(standing: Standing, settings: MirrorSettings, flow: FlowSettings, source: ClusterMetadata) -> Readers:
    """Who reads what no enabled flow from this source mirrors."""
    alias = flow.flow.source
    leaving = [each for each in settings.enabled_flows if each.flow.source == alias] or [flow]

    def unmirrored(topic: str) -> bool:
        if topic not in source.topics or flow.policy.is_internal(topic):
            return False
        at_home = flow.policy.source_of(topic) == flow.flow.target
        return not at_home and not any(each.mirrors_topic(topic) for each in leaving)

    found = []
    for group, positions in sorted(standing.committed.items()):
        topics = sorted({partition.topic for partition in positions if unmirrored(partition.topic)})
        if topics:
            found.append(Reader(group, tuple(topics)))
    unreadable = tuple((group, str(error.why)) for group, error in sorted(standing.unreadable.items()))
    return Readers(len(standing.committed), tuple(found), unreadable, standing.all_listed)


@dataclass(frozen=True)
class OnTarget:
    """The same groups on the target: state and positions; log ends of the mirror partitions they are to stand in."""

    states: Mapping[str, GroupState | DrlibError]
    committed: Mapping[str, Mapping[TopicPartition, CommittedOffset] | DrlibError]
    ends: Mapping[TopicPartition, int]


def on_target(
    cluster: ClusterSettings, found: tuple[tuple[Placed, Translation], ...], there: ClusterMetadata,
    flow: FlowSettings, timeout_s: float,
) -> OnTarget:  # fmt: skip
    """Blocks; raises `Unreachable` and `ClusterRefused`."""
    groups = sorted({placed.group for placed, _ in found})
    with BulkAdmin(cluster, timeout_s=timeout_s) as target:
        return OnTarget(
            target.group_states(groups),
            target.committed(groups),
            target.log_ends(existing((target_of(flow, placed.source) for placed, _ in found), there)),
        )


def beside(
    found: tuple[tuple[Placed, Translation], ...], flow: FlowSettings, target: OnTarget
) -> tuple[There, ...] | Unseen:
    """Positions on the target beside their translations; the first group's refusal where one cannot be read."""
    rows = []
    for placed, there in found:
        committed = target.committed.get(placed.group, {})
        if isinstance(committed, DrlibError):
            return Unseen(f"{committed.what}: {committed.why}", committed.remedy)
        partition = target_of(flow, placed.source)
        at = committed.get(partition)
        if at is None or there.offset is None or there.kind is TranslationKind.UNKNOWN:
            continue
        in_use = target.states.get(placed.group) is GroupState.ACTIVE
        end = target.ends.get(partition)
        rows.append(There(placed.group, partition, at.offset, there.offset, end, in_use))
    return tuple(rows)


def existing(partitions: Iterable[TopicPartition], there: ClusterMetadata) -> list[TopicPartition]:
    """Those of `partitions` that the target has, with a leader to ask."""
    return [
        tp
        for tp in partitions
        if tp.topic in there.topics
        and (found := there.topics[tp.topic].partitions.get(tp.partition)) is not None
        and found.leader >= 0
    ]


def target_of(flow: FlowSettings, source: TopicPartition) -> TopicPartition:
    """The mirror partition of a source partition."""
    return TopicPartition(flow.policy.remote_topic(flow.flow.source, source.topic), source.partition)
