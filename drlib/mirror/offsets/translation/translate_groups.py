"""Group positions of one cluster as positions on the other, from the journal and the logs, read-only.

Rules: the source's own answer where it can be had, else the newest checkpoint on the target and what its header says of
the position behind it; where each came from is told. The map includes what stands in the mirror topics beyond the last
Ack, so a worker that was killed changes nothing. Committing refuses groups with members.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drlib.config.settings import MirrorSettings
from drlib.errors import DrlibError, Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.admin.descriptions import CommittedOffset, Range
from drlib.kafka.admin.group_offsets import committed
from drlib.kafka.admin.reachability import _ask, _refuse_silence
from drlib.mirror.mm2.records import Checkpoint
from drlib.mirror.mm2.writer import AS_OF_HEADER, POSITION_HEADER
from drlib.mirror.offsets.map.load_maps import Maps, read_maps
from drlib.model import Flow, GroupTranslation, TopicPartition, Translation, TranslationKind

ASK_S = 15.0  # for the positions of all groups


@dataclass(frozen=True, slots=True)
class KnownPosition:
    offset: int
    as_of_ms: int
    metadata: str


Positions = Mapping[tuple[str, TopicPartition], KnownPosition]  # (group, source partition)


def source_positions(settings: MirrorSettings, flow: Flow) -> Positions:
    """Committed positions as the source tells them. Raises `Unreachable`."""
    found: dict[tuple[str, TopicPartition], KnownPosition] = {}
    chosen = settings.flow(flow.source, flow.target)
    with Cluster(settings.clusters[flow.source]) as cluster:
        groups = [listing.group for listing in cluster.groups() if chosen.mirrors_group(listing.group)]
    now = int(time.time() * 1000)
    for group, positions in committed(settings.clusters[flow.source], groups, ASK_S).items():
        if isinstance(positions, DrlibError):
            raise positions
        for partition, position in positions.items():
            found[group, partition] = KnownPosition(position.offset, now, position.metadata)
    return found


def checkpointed_positions(settings: MirrorSettings, flow: Flow) -> Positions:
    """Committed positions as the target last heard of them."""
    policy = settings.flow(flow.source, flow.target).policy
    topic = policy.checkpoints_topic(flow.source)
    partition = TopicPartition(topic, 0)
    found: dict[tuple[str, TopicPartition], KnownPosition] = {}
    with Cluster(settings.clusters[flow.target]) as cluster:
        start, end = cluster.log_starts([partition])[partition], cluster.log_ends([partition])[partition]
        for record in cluster.read({partition: Range(start, end)}):
            checkpoint = Checkpoint.decode(record.key, record.value)
            headers = {name: value for name, value in record.headers if value is not None}
            source = policy.upstream_topic(checkpoint.partition.topic) or checkpoint.partition.topic
            found[checkpoint.group, TopicPartition(source, checkpoint.partition.partition)] = KnownPosition(
                int(headers.get(POSITION_HEADER, str(checkpoint.upstream_offset).encode())),
                int(headers.get(AS_OF_HEADER, str(record.timestamp_ms).encode())),
                checkpoint.metadata,
            )
    return found


def translate_groups(
    settings: MirrorSettings, flow: Flow, groups: Sequence[str] | None = None, *, source_alive: bool | None = None
) -> tuple[GroupTranslation, ...]:
    """Every committed position of `groups` (all when None) on a mirrored topic, translated.

    `source_alive` False reads the target only, True the source only, None tries the source first.
    Raises `UsageError` for a group nobody knows, `Unreachable` naming every cluster that is needed and silent.
    """
    settings.flow(flow.source, flow.target)
    asked = [flow.target] if source_alive is False else [flow.target, flow.source]
    told = blocking(_ask([settings.clusters[alias] for alias in asked]))
    silent = {alias: answer for alias, answer in told.items() if isinstance(answer, Unreachable)}
    if flow.target in silent or source_alive:
        _refuse_silence(silent)
    try:
        if source_alive is False or silent:
            positions = checkpointed_positions(settings, flow)
        else:
            positions = source_positions(settings, flow)
    except Unreachable:
        if source_alive is not None:
            raise
        positions = checkpointed_positions(settings, flow)
    unknown = set(groups or ()) - {group for group, _ in positions}
    if unknown:
        raise UsageError(
            f"unknown group {', '.join(sorted(unknown))}",
            f"no committed position of it is known for {flow}",
            f"Known groups: {', '.join(sorted({g for g, _ in positions})) or 'none'}.",
        )
    maps, starts = blocking(_read(settings, flow))
    policy = settings.flow(flow.source, flow.target).policy
    found = []
    for (group, source), known in sorted(positions.items()):
        if groups is not None and group not in groups:
            continue
        offsets = maps.source(source.topic, source.partition)
        target = TopicPartition(policy.remote_topic(flow.source, source.topic), source.partition)
        if offsets is not None:
            there = offsets.forward(known.offset, target_log_start=starts.get(target, 0))
        elif maps.refusal(source.topic, source.partition) is not None:
            there = Translation(None, TranslationKind.UNKNOWN)
        else:
            continue  # a topic this flow does not mirror
        found.append(GroupTranslation(group, source, known.offset, target, there, known.as_of_ms, known.metadata))
    return tuple(found)


async def _read(settings: MirrorSettings, flow: Flow) -> tuple[Maps, Mapping[TopicPartition, int]]:
    cluster = settings.clusters[flow.target]
    policy = settings.flow(flow.source, flow.target).policy
    client = wire_client(cluster, client_id="drlib-translate")
    try:
        await client.connect()
        maps = await read_maps(client, policy.journal_topic(flow.source))
    finally:
        await client.close()
    targets = [
        TopicPartition(maps.names[key.topic_id].target_topic, key.partition)
        for key in maps.by_partition
        if key.topic_id in maps.names
    ]
    with Cluster(cluster) as there:
        return maps, there.log_starts(targets)


def commit_translations(
    settings: MirrorSettings, flow: Flow, translations: Sequence[GroupTranslation]
) -> Mapping[str, Mapping[TopicPartition, int]]:
    """Commit translated positions on the target with the metadata they have; returns what was committed per group.

    Positions that are unknown or have no counterpart are left out. Raises the first group's error.
    """
    wanted: dict[str, dict[TopicPartition, CommittedOffset]] = {}
    for item in translations:
        there: Translation = item.translation
        if there.offset is not None and there.kind is not TranslationKind.UNKNOWN:
            position = CommittedOffset(there.offset, item.metadata)
            wanted.setdefault(item.group, {})[item.target] = position
    with Cluster(settings.clusters[flow.target]) as cluster:
        for group, positions in wanted.items():
            cluster.alter_group_offsets(group, positions)
    return {group: {tp: p.offset for tp, p in positions.items()} for group, positions in wanted.items()}
