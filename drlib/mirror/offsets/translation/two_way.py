"""Translate committed offsets of groups that move from one cluster to another, over both flows between the two.

Rules: a position in a topic of the cluster that is left is translated forward, by the map of the flow that mirrors it. A
position in a mirror of the target's topics is translated back to its source, past the settled unreplicated records there
(`failback_position`). So a group that failed over and returns resumes at the exact record of both. Positions come from the
cluster that is left; where a map is missing or refused, the translation is unknown, never a guess. Mirror partitions without
a committed offset count as unread. Where MirrorMaker 2 mirrors a flow, its maps are made of both logs and its offset syncs.
Not for: committing positions (`drlib.drill.actions.failback.actions`), failing over from a cluster that does not answer
(`translate_groups`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from drlib import clock
from drlib.config.settings import MirrorSettings
from drlib.errors import DrlibError, UsageError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset, TopicDescription
from drlib.mirror.journal.entries import SourcePartition, TopicNames
from drlib.mirror.offsets.map.flow_maps import OWN_GROUPS
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.offsets.mirror_maker.compared_maps import ComparedMaps, read_known_maps
from drlib.mirror.offsets.translation.failback_position import FailbackPosition, failback_position
from drlib.mirror.offsets.unreplicated.find import refuse_one_way
from drlib.mirror.offsets.unreplicated.settle import Ledger, read_ledger
from drlib.model import Flow, GroupTranslation, TopicPartition, Translation, TranslationKind

Positions = Mapping[TopicPartition, CommittedOffset]
PositionQuery = tuple[TopicPartition, int, int | None]
"""A partition, a committed offset in it, and for a mirror what the group had read of its source before; else None."""


@dataclass(frozen=True, slots=True)
class FlowPairState:
    """What translation needs besides the groups' positions: the maps of both flows and the bounds of the clusters' logs.

    `moving` is from the cluster that is left to the target. The `reverse` map stays valid as long as the mirrors of the
    reverse flow end at `mirror_ends`.
    """

    moving: Flow
    forward: Maps  # of `moving`
    reverse: Maps  # of the reverse flow, whose mirrors are on the cluster that is left
    ledger: Ledger  # on the cluster that is left: which unreplicated records of the target were settled
    target_cluster_id: str
    target_topics: Mapping[str, TopicDescription]  # the sources of the mirrors on the cluster that is left
    target_log_starts: Mapping[TopicPartition, int]
    mirror_log_starts: Mapping[TopicPartition, int]
    mirror_ends: Mapping[TopicPartition, int]  # log ends of those mirrors, read just before the map
    # of `moving`, on the cluster that is left
    source_topics: Mapping[str, TopicDescription] = field(default_factory=dict)
    source_log_starts: Mapping[TopicPartition, int] = field(default_factory=dict)  # of these
    copy_log_starts: Mapping[TopicPartition, int] = field(default_factory=dict)  # of their mirrors on the target

    @property
    def bounded(self) -> bool:
        """Does MirrorMaker 2 mirror one of the flows, so that some positions are known with a bound only?"""
        return isinstance(self.forward, ComparedMaps) or isinstance(self.reverse, ComparedMaps)

    def settled(self, source: SourcePartition) -> int:
        """The offset of the target's own partition below which everything that was not replicated is settled."""
        return self.ledger.next(self.target_cluster_id, self.reverse.first_id(source.topic_id), source.partition)


def read_flow_pair(settings: MirrorSettings, moving: Flow, *, in_part: bool = False) -> FlowPairState:
    """Read the state of both flows. `in_part`: partitions without a leader have no bounds, and lanes of the flow there without
    one no maps; else they raise `NoLeader`.

    Raises `UsageError` for a flow without a way back, `Unreachable`, `BrokerError`.
    """

    def partitions_of(topics: Mapping[str, TopicDescription]) -> list[TopicPartition]:
        every = [(t, n) for t in topics.values() for n in range(t.partitions)]
        return [TopicPartition(t.name, n) for t, n in every if t.is_led(n) or not in_part]

    refuse_one_way(settings.flow(moving.source, moving.target))
    with Cluster(settings.clusters[moving.source]) as source, Cluster(settings.clusters[moving.target]) as target:
        names = read_known_maps(settings, moving.reverse).names.values()
        target_topics = target.topics([n.source_topic for n in names])
        mirror_topics = source.topics([n.target_topic for n in names])
        mirrors = partitions_of(mirror_topics)
        mirror_ends = source.log_ends(mirrors)
        forward = read_known_maps(settings, moving, partly=in_part)
        reverse = read_known_maps(settings, moving.reverse)
        source_topics = source.topics([n.source_topic for n in forward.names.values()])
        copies = target.topics([n.target_topic for n in forward.names.values()])
        return FlowPairState(
            moving=moving,
            forward=forward,
            reverse=reverse,
            ledger=read_ledger(source),
            target_cluster_id=target.cluster_id(),
            target_topics=target_topics,
            target_log_starts=target.log_starts(partitions_of(target_topics)),
            mirror_log_starts=source.log_starts(mirrors),
            mirror_ends=mirror_ends,
            source_topics=source_topics,
            source_log_starts=source.log_starts(partitions_of(source_topics)),
            copy_log_starts=target.log_starts(partitions_of(copies)),
        )


def group_positions(settings: MirrorSettings, alias: str, groups: Collection[str]) -> dict[str, Positions]:
    """Read the committed offsets of each group on cluster `alias`. Raises the first group's error."""
    with Cluster(settings.clusters[alias]) as cluster:
        answers = cluster.committed(groups)
    error = next((answer for answer in answers.values() if isinstance(answer, DrlibError)), None)
    if error is not None:
        raise error
    return {group: answer for group, answer in answers.items() if not isinstance(answer, DrlibError)}


def groups_of(settings: MirrorSettings, moving: Flow, wanted: Collection[str] | None = None) -> tuple[str, ...]:
    """`wanted`, or every group on the cluster that is left which the flow's settings select.

    Raises `UsageError` for a group that does not exist on that cluster.
    """
    flow_settings = settings.flow(moving.source, moving.target)
    with Cluster(settings.clusters[moving.source]) as cluster:
        groups = [listing.group for listing in cluster.groups()]
    if wanted is None:
        return tuple(g for g in groups if flow_settings.mirrors_group(g) and not g.startswith(OWN_GROUPS))
    if missing := sorted(set(wanted) - set(groups)):
        raise UsageError(
            f"unknown group {', '.join(missing)}",
            f"{moving.source} has no such group",
            f"It has: {', '.join(groups) or 'none'}.",
        )
    return tuple(sorted(wanted))


def translate(
    settings: MirrorSettings,
    flow_pair: FlowPairState,
    source_positions: Mapping[str, Positions],
    target_positions: Mapping[str, Positions],
) -> tuple[GroupTranslation, ...]:
    """Translate the committed offsets of groups, by group, from the cluster that is left to the target.

    `target_positions`: what the same groups have committed on the target so far. Positions in topics that neither flow
    mirrors are left out.
    """
    translator = Translator(settings, flow_pair)
    return tuple(
        item
        for group, positions in sorted(source_positions.items())
        for item in translator.group(group, positions, target_positions.get(group, {}))
    )


class Translator:
    """Translates positions by one `FlowPairState`, each distinct query once: many groups have the same positions.

    `answers`: the queries made so far and their results; a result of None is a position that need not be committed.
    """

    def __init__(self, settings: MirrorSettings, flow_pair: FlowPairState) -> None:
        self.flow_pair = flow_pair
        self.answers: dict[PositionQuery, FailbackPosition | None] = {}
        self._flow_settings = settings.flow(flow_pair.moving.source, flow_pair.moving.target)
        self._topics: dict[str, tuple[TopicNames | None, str | None]] = {}

    def group(self, group: str, positions: Positions, target_positions: Positions) -> tuple[GroupTranslation, ...]:
        """The translations of one group, from its `positions` on the cluster that is left and on the target."""
        now_ms = clock.now_ms()
        translations = []
        for source, position, target, previously_read in self._positions(positions, target_positions):
            result = self.answer((source, position.offset, previously_read))
            if result is not None:
                item = GroupTranslation(
                    group, source, position.offset, target, result.translation, now_ms, position.metadata, result.unread
                )
                translations.append(item)
        return tuple(translations)

    def _positions(
        self, positions: Positions, target_positions: Positions
    ) -> Iterator[tuple[TopicPartition, CommittedOffset, TopicPartition, int | None]]:
        """What to translate: partition, position, target partition, and what was read of it before; mirrors first."""
        mirrors = {names.target_topic: names for p in positions if (names := self._topic(p.topic)[0]) is not None}
        for names in mirrors.values():
            for partition, position in _mirror_positions(self.flow_pair, names, positions):
                target = TopicPartition(names.source_topic, partition.partition)
                committed = target_positions.get(target)
                yield partition, position, target, committed.offset if committed is not None else 0
        for partition, position in sorted(positions.items()):
            mirrored_from, remote_topic = self._topic(partition.topic)
            if mirrored_from is None and remote_topic is not None:
                yield partition, position, TopicPartition(remote_topic, partition.partition), None

    def answer(self, query: PositionQuery) -> FailbackPosition | None:
        """The translation of one position, computed once; None where nothing need be committed."""
        try:
            return self.answers[query]
        except KeyError:
            partition, position, previously_read = query
            if previously_read is None:
                remote_topic = self._topic(partition.topic)[1]
                assert remote_topic is not None  # other topics are not queried
                result = _translate_forward(self.flow_pair, partition, position, remote_topic)
            else:
                names, _ = self._topic(partition.topic)
                assert names is not None  # only positions in mirrors are queried with `previously_read`
                result = _translate_back(self.flow_pair, names, partition, position, previously_read)
            self.answers[query] = result
            return result

    def _topic(self, topic: str) -> tuple[TopicNames | None, str | None]:
        """For a mirror of the reverse flow, its journal's names; for a topic the flow mirrors, its name on the target."""
        if topic not in self._topics:
            flow_settings, names = self._flow_settings, self.flow_pair.reverse.of_target(topic)
            mirrored = flow_settings.mirrors_topic(topic)
            remote_topic = flow_settings.policy.remote_topic(flow_settings.flow.source, topic) if mirrored else None
            self._topics[topic] = (names, remote_topic)
        return self._topics[topic]


def _mirror_positions(
    flow_pair: FlowPairState, names: TopicNames, positions: Positions
) -> Iterator[tuple[TopicPartition, CommittedOffset]]:
    """The position in every partition of a mirror that a group reads; the log start where it has committed none."""
    topic = flow_pair.target_topics.get(names.source_topic)
    for number in range(topic.partitions if topic is not None else 0):
        partition = TopicPartition(names.target_topic, number)
        log_start = flow_pair.mirror_log_starts.get(partition)
        if partition in positions:
            yield partition, positions[partition]
        elif log_start is not None:
            yield partition, CommittedOffset(log_start)


def _translate_back(
    flow_pair: FlowPairState, names: TopicNames, partition: TopicPartition, position: int, previously_read: int
) -> FailbackPosition | None:
    topic = flow_pair.target_topics.get(names.source_topic)
    key = SourcePartition(names.topic_id, partition.partition)
    if topic is None or topic.topic_id != names.topic_id or key in flow_pair.reverse.refused:
        return FailbackPosition(Translation(None, TranslationKind.UNKNOWN))
    result = failback_position(
        flow_pair.reverse.by_partition.get(key),
        position,
        settled=flow_pair.settled(key),
        previously_read=previously_read,
        source_log_start=flow_pair.target_log_starts[TopicPartition(names.source_topic, partition.partition)],
    )
    at_start = result.translation.offset == 0 and result.translation.exact  # the default of a group without a position
    return None if at_start else result


def _translate_forward(
    flow_pair: FlowPairState, partition: TopicPartition, position: int, remote_topic: str
) -> FailbackPosition | None:
    forward, topic = flow_pair.forward, flow_pair.source_topics.get(partition.topic)
    offsets = forward.source(partition.topic, partition.partition)
    refused = forward.refusal(partition.topic, partition.partition) is not None
    if refused or forward.replaced(partition.topic, None if topic is None else topic.topic_id):
        translation = Translation(None, TranslationKind.UNKNOWN)
    elif offsets is not None:
        log_start = flow_pair.copy_log_starts.get(TopicPartition(remote_topic, partition.partition), 0)
        translation = offsets.forward(position, target_log_start=log_start)
        own_start = flow_pair.source_log_starts.get(partition, 0)
        if translation.expired and position < own_start:  # what has expired on both clusters is not lost by moving
            translation = offsets.forward(own_start, target_log_start=log_start)
    else:
        translation = Translation(None, TranslationKind.NEVER_MIRRORED)
    if translation.offset is None and translation.kind is TranslationKind.NEVER_MIRRORED and position == 0:
        return None
    return FailbackPosition(translation)
