"""Commit the positions that groups reach on mirror topics in the same groups on the source, where they have no members there.

Rules: for groups whose consumers moved to the target. A position is translated by the map of the mirror, as a failback does
(`failback_position`), so a group that returns resumes at its exact record. It is written only where the group has read more of
the mirror than the source's position accounts for: what the mirror's own synchronization wrote there is no progress, nor is a
gap in the mirror; and one that was reset on the source stays there until it reads on. Otherwise the rules of `group_offsets`
hold, and a position on the source never goes back. MirrorMaker 2 has no such checkpoints; KIP-1098 proposes them.
Not for: positions in the target's own topics, which the reverse flow translates; moving a group (`drlib.drill`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from drlib.config.flow_settings import FlowSettings
from drlib.config.replication_policy import IdentityReplicationPolicy
from drlib.errors import DrlibError, Unreachable
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset, TopicDescription
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.engine.fencing.lanes import lane_of
from drlib.mirror.offsets.map.follow_journal import FollowedMaps, JournalFollower
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.offsets.translation.failback_position import failback_position
from drlib.mirror.offsets.unreplicated.settle import Ledger, read_ledger
from drlib.mirror.status.worker_status import EventLog
from drlib.mirror.sync.group_offsets import GroupCommits
from drlib.mirror.sync.rules.group_offsets import TranslatedPosition
from drlib.mirror.threads import in_daemon
from drlib.model import TopicPartition, Translation, TranslationKind

FINDINGS: Final = ("GroupPastEnd", "GroupNotTranslated")  # a group with members on the source is no finding here

_Moved = Mapping[TopicPartition, tuple[TopicPartition, CommittedOffset]]  # by source partition: mirror and position


def interval_s(settings: FlowSettings, reverse: FlowSettings | None) -> int | None:
    """Seconds between two runs for the flow `settings`; None where it does not run.

    By default it runs where the file has the reverse flow synchronize group offsets, so that they may be written on the source.
    """
    wanted = settings.sync_group_offsets_back
    if wanted is None:
        wanted = (
            reverse is not None
            and reverse.enabled
            and reverse.sync_group_offsets
            and not isinstance(settings.policy, IdentityReplicationPolicy)
        )
    return (reverse or settings).sync_group_offsets_s if wanted else None


def position_on_source(
    offsets: PartitionMap, position: int, committed: int | None, *, settled: int = 0, log_start: int = 0
) -> Translation | None:
    """The position of a group on the source that has `position` in the mirror; None where it has read nothing more there.

    `committed`: its offset on the source, None for none. `settled`: the source offset below which unreplicated records were
    settled, 0 for none. `log_start`: of the source partition.
    """
    if committed is None:
        if offsets.segments_on_target(0, position) == 0:
            return None
    elif (known := offsets.forward(committed).offset) is not None and position <= known:
        return None
    result = failback_position(
        offsets, position, settled=settled, previously_read=committed or 0, source_log_start=log_start
    )
    return None if result.translation.kind is TranslationKind.NEVER_MIRRORED else result.translation


@dataclass(slots=True)
class Resets:
    """Which positions on the source were set back there, while the group's position in the mirror stayed as it was."""

    _seen: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    _held: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)  # the position in the mirror at the reset

    def holds(self, group: str, partition: TopicPartition, position: int, committed: int | None) -> bool:
        """Look at one position again: True where `committed`, on the source, went back and `position` has not moved since."""
        seen, held = self._seen.setdefault(group, {}), self._held.setdefault(group, {})
        if committed is not None:
            if committed < seen.get(partition, 0):
                held[partition] = position
            seen[partition] = committed
        return held.get(partition) == position

    def retain(self, groups: Collection[str]) -> None:
        """Forget all other groups."""
        for kept in (self._seen, self._held):
            for group in kept.keys() - set(groups):
                del kept[group]


@dataclass(frozen=True, slots=True)
class _Clusters:
    """What is read of both clusters, after the groups' positions on the target."""

    source_id: str
    source_topics: Mapping[str, TopicDescription]
    mirror_topics: Mapping[str, TopicDescription]
    source_starts: Mapping[TopicPartition, int]
    ledger: Ledger


class GroupSyncBack:
    """A `tasks.SyncTask`. `reverse`: the flow back, whose filter selects the groups; `topic_ids`: the mirrored topics."""

    name = "GroupSyncBackFailed"

    def __init__(
        self,
        settings: FlowSettings,
        reverse: FlowSettings | None,
        source: ClusterSettings,
        target: ClusterSettings,
        journal: JournalFollower,
        events: EventLog,
        topic_ids: Callable[[], Mapping[str, uuid.UUID]],
        may_write: Callable[[], bool],
    ) -> None:
        self._settings = settings
        self._mirrors_group = (reverse or settings).mirrors_group
        self._source = source
        self._target = target
        self._journal = journal
        self._topic_ids = topic_ids
        self._commits = GroupCommits(
            source,
            events,
            may_write,
            may_lower=False,
            findings=FINDINGS,
            entity=lambda group: f"{group} on {source.alias}",
        )
        self._resets = Resets()

    def reset(self) -> None:
        self._commits.reset()
        self._journal.release(self)
        self._resets = Resets()

    async def run_once(self) -> None:
        """Compare the positions of every group, and write the differences. Lanes report a cluster that does not answer."""
        maps = await self._journal.refresh(self)
        topic_ids = self._topic_ids()
        try:
            await in_daemon(lambda: self._run_blocking(topic_ids, maps))
        except Unreachable:
            return

    def _run_blocking(self, topic_ids: Mapping[str, uuid.UUID], maps: FollowedMaps) -> None:
        policy, flow = self._settings.policy, self._settings.flow
        mirrors = {policy.remote_topic(flow.source, t): t for t in topic_ids if not policy.is_heartbeats(t)}
        timeout_s = self._settings.admin_timeout_ms / 1000
        with (
            Cluster(self._source, timeout_s=timeout_s) as source,
            Cluster(self._target, timeout_s=timeout_s) as target,
        ):
            moved = self._positions_in_mirrors(target, mirrors)
            names = {partition.topic for positions in moved.values() for partition in positions}
            topics = source.topics(names, in_sight=True)
            existing = {
                partition
                for positions in moved.values()
                for partition in positions
                if partition.topic in topics and topics[partition.topic].is_led(partition.partition)
            }
            clusters = _Clusters(
                source.cluster_id(),
                topics,
                target.topics({policy.remote_topic(flow.source, name) for name in names}, in_sight=True),
                source.log_starts(existing),
                read_ledger(target),
            )
            ends = source.log_ends(existing)
            states, committed = source.group_states(moved), source.committed(moved)
            for group, positions in moved.items():
                own = committed[group]
                wanted = {} if isinstance(own, DrlibError) else self._wanted(group, positions, own, clusters, maps)
                self._commits.sync(source, group, states[group], wanted, own, ends, frozenset(mirrors.values()))
            self._commits.retain(moved)
            self._resets.retain(moved)

    def _positions_in_mirrors(self, target: Cluster, mirrors: Mapping[str, str]) -> dict[str, _Moved]:
        """The groups on the target with a position in a mirror topic. `mirrors`: source topics by the name of their mirror."""
        groups = [listing.group for listing in target.groups() if self._mirrors_group(listing.group)]
        moved: dict[str, _Moved] = {}
        for group, positions in target.committed(groups).items():
            if isinstance(positions, DrlibError):
                self._commits.report_refusal(group, positions)
                continue
            found = {
                TopicPartition(mirrors[mirror.topic], mirror.partition): (mirror, position)
                for mirror, position in positions.items()
                if mirror.topic in mirrors
            }
            if found:
                moved[group] = found
        return moved

    def _wanted(
        self,
        group: str,
        positions: _Moved,
        own: Mapping[TopicPartition, CommittedOffset],
        clusters: _Clusters,
        maps: FollowedMaps,
    ) -> dict[TopicPartition, TranslatedPosition]:
        """The positions on the source of one group, where it has read more of the mirror."""
        wanted = {}
        for partition, (mirror, position) in positions.items():
            committed = own.get(partition)
            translation = self._translate(partition, mirror, position.offset, committed, clusters, maps)
            stays = self._resets.holds(
                group, partition, position.offset, None if committed is None else committed.offset
            )
            if translation is not None and not stays:
                wanted[partition] = TranslatedPosition(position.offset, translation, position.metadata)
        return wanted

    def _translate(
        self,
        partition: TopicPartition,
        mirror: TopicPartition,
        position: int,
        own: CommittedOffset | None,
        clusters: _Clusters,
        maps: FollowedMaps,
    ) -> Translation | None:
        source_topic, mirror_topic = (
            clusters.source_topics.get(partition.topic),
            clusters.mirror_topics.get(mirror.topic),
        )
        if source_topic is None or mirror_topic is None:
            return None
        lane = lane_of(partition.topic, partition.partition, self._settings.lanes)
        topic_id = source_topic.topic_id
        with maps.lock:
            offsets = maps.map(lane, topic_id, partition.partition)
            if offsets is None:
                return None  # nothing of this incarnation of the topic was mirrored
            if maps.target_id(lane, topic_id) != mirror_topic.topic_id:  # the map is about a former mirror topic
                return Translation(None, TranslationKind.UNKNOWN)
            return position_on_source(
                offsets,
                position,
                None if own is None else own.offset,
                settled=clusters.ledger.next(clusters.source_id, topic_id, partition.partition),
                log_start=clusters.source_starts.get(partition, 0),
            )
