"""Translate committed offsets of consumer groups to the target, from the journal and the logs; read-only.

Rules: positions come from the source where it answers, else from the newest checkpoints on the target and the position in
their headers (how old such a position is stands in `as_of_ms`). The map includes the records that mirror topics hold beyond
the last Ack, so a killed worker loses nothing. Committing refuses groups with members.
Not for: failback and planned switchover (`two_way`), positions outside Kafka (`external_offsets`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from drlib import clock, decoding
from drlib.config.replication_policy import ReplicationPolicy
from drlib.config.settings import MirrorSettings
from drlib.errors import DrlibError, Unreachable, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import blocking, refuse_silence, who_answers, wire_client
from drlib.kafka.admin.descriptions import Range, Record
from drlib.kafka.admin.group_offsets import committed
from drlib.mirror.mm2.records import Checkpoint, MalformedRecord
from drlib.mirror.mm2.writer import AS_OF_HEADER, POSITION_HEADER
from drlib.mirror.offsets.map.load_maps import Maps, read_maps
from drlib.model import Flow, GroupTranslation, TopicPartition, Translation, TranslationKind

COMMITTED_OFFSETS_TIMEOUT_S = 15.0  # for the positions of all groups


@dataclass(frozen=True, slots=True)
class KnownPosition:
    """A committed offset on the source, as of `as_of_ms`."""

    offset: int
    as_of_ms: int
    metadata: str


Positions = Mapping[tuple[str, TopicPartition], KnownPosition]  # (group, source partition)


def source_positions(settings: MirrorSettings, flow: Flow) -> Positions:
    """Read the committed offsets of the flow's groups from the source. Raises `Unreachable`."""
    known: dict[tuple[str, TopicPartition], KnownPosition] = {}
    flow_settings = settings.flow(flow.source, flow.target)
    source = settings.clusters[flow.source]
    with Cluster(source) as cluster:
        groups = [listing.group for listing in cluster.groups() if flow_settings.mirrors_group(listing.group)]
    now_ms = clock.now_ms()
    for group, positions in committed(source, groups, COMMITTED_OFFSETS_TIMEOUT_S).items():
        if isinstance(positions, DrlibError):
            raise positions
        for partition, position in positions.items():
            known[group, partition] = KnownPosition(position.offset, now_ms, position.metadata)
    return known


def checkpointed_positions(settings: MirrorSettings, flow: Flow) -> Positions:
    """Read the last known committed offsets from the checkpoints topic on the target."""
    policy = settings.flow(flow.source, flow.target).policy
    topic = policy.checkpoints_topic(flow.source)
    partition = TopicPartition(topic, 0)
    with Cluster(settings.clusters[flow.target]) as cluster:
        start, end = cluster.log_starts([partition])[partition], cluster.log_ends([partition])[partition]
        return last_known(cluster.read({partition: Range(start, end)}), policy)


def last_known(records: Iterable[Record], policy: ReplicationPolicy) -> Positions:
    """The newest position of each group and partition in a log of checkpoints; records that are none are skipped. Pure."""
    known: dict[tuple[str, TopicPartition], KnownPosition] = {}
    for record in records:
        try:
            checkpoint = Checkpoint.decode(record.key, record.value)
        except MalformedRecord:
            continue
        headers = {name: value for name, value in record.headers if value is not None}
        source_topic = policy.upstream_topic(checkpoint.partition.topic) or checkpoint.partition.topic
        known[checkpoint.group, TopicPartition(source_topic, checkpoint.partition.partition)] = KnownPosition(
            decoding.integer_or(checkpoint.upstream_offset, headers.get(POSITION_HEADER, b"")),
            decoding.integer_or(record.timestamp_ms, headers.get(AS_OF_HEADER, b"")),
            checkpoint.metadata,
        )
    return known


def translate_groups(
    settings: MirrorSettings, flow: Flow, groups: Sequence[str] | None = None, *, source_alive: bool | None = None
) -> tuple[GroupTranslation, ...]:
    """Translate every committed offset of `groups` (all when None) on a mirrored topic.

    `source_alive`: False reads the target only; True requires the source; None tries the source first.
    Raises `UsageError` for a group without any known position, `Unreachable` naming every cluster that is needed and does not
    answer.
    """
    settings.flow(flow.source, flow.target)
    aliases = [flow.target] if source_alive is False else [flow.target, flow.source]
    answers = who_answers([settings.clusters[alias] for alias in aliases])
    unreachable = {alias: answer for alias, answer in answers.items() if isinstance(answer, Unreachable)}
    if flow.target in unreachable or source_alive:
        refuse_silence(unreachable)
    try:
        if source_alive is False or unreachable:
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
            f"no committed offset of it is known for {flow}",
            f"Known groups: {', '.join(sorted({group for group, _ in positions})) or 'none'}.",
        )
    maps, target_starts = blocking(_read_maps(settings, flow))
    policy = settings.flow(flow.source, flow.target).policy
    translations = []
    for (group, source), position in sorted(positions.items()):
        if groups is not None and group not in groups:
            continue
        offsets = maps.source(source.topic, source.partition)
        target = TopicPartition(policy.remote_topic(flow.source, source.topic), source.partition)
        if offsets is not None:
            translation = offsets.forward(position.offset, target_log_start=target_starts.get(target, 0))
        elif maps.refusal(source.topic, source.partition) is not None:
            translation = Translation(None, TranslationKind.UNKNOWN)
        else:
            continue  # a topic this flow does not mirror
        translations.append(
            GroupTranslation(group, source, position.offset, target, translation, position.as_of_ms, position.metadata)
        )
    return tuple(translations)


async def _read_maps(settings: MirrorSettings, flow: Flow) -> tuple[Maps, Mapping[TopicPartition, int]]:
    """The flow's maps, and the log starts of its mirror partitions."""
    target = settings.clusters[flow.target]
    policy = settings.flow(flow.source, flow.target).policy
    async with wire_client(target, client_id="drlib-translate") as client:
        await client.connect()
        maps = await read_maps(client, policy.journal_topic(flow.source))
    mirrors = [
        TopicPartition(maps.names[key.topic_id].target_topic, key.partition)
        for key in maps.by_partition
        if key.topic_id in maps.names
    ]
    with Cluster(target) as cluster:
        return maps, cluster.log_starts(mirrors)
