"""Commit the source groups' translated offsets in the same groups on the target, where they have no members there.

Rules: decided in `drlib.mirror.sync.rules.group_offsets`. Positions come from `source_groups`, translations from the journal of
all lanes. The target's log ends are read after them, so that a position past an end is a contradiction and not a delay. The
committed offset is read again just before it is written, and written only while this worker may write. An offset that is not
written is an event of its group, until a run finds no reason for it.
- In a topic that both directions copy, both synchronize the same groups. A position counts only where the group has read more
  than its position on the target accounts for: what the other direction wrote is no progress, and nothing goes back and forth.
  One that is ahead all the same was read there: it is never moved back, and is reported.
"""

from __future__ import annotations

import contextlib
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from drlib.config.flow_settings import FlowSettings
from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import CommittedOffset, GroupState
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.engine.fencing.lanes import lane_of
from drlib.mirror.offsets.map.follow_journal import FollowedMaps, JournalFollower
from drlib.mirror.offsets.map.offset_map import PartitionMap
from drlib.mirror.offsets.translation.shared_followed import FollowedBack, SharedTopic
from drlib.mirror.preflight.checks import not_authorized
from drlib.mirror.preflight.required_acls import Right
from drlib.mirror.status.worker_status import EventLog
from drlib.mirror.sync.rules.group_offsets import FINDINGS, GroupDecision, GroupMemory, TranslatedPosition, decide
from drlib.mirror.sync.source_groups import Position
from drlib.mirror.threads import in_daemon
from drlib.model import TopicPartition, Translation, TranslationKind

REFUSED = "GroupSyncRefused"
_UNKNOWN = Translation(None, TranslationKind.UNKNOWN)


@dataclass(frozen=True, slots=True)
class SourceState:
    """Committed offsets on the source by (group, partition), and the IDs of the mirrored topics by name."""

    positions: Mapping[tuple[str, TopicPartition], Position]
    topic_ids: Mapping[str, uuid.UUID]


@dataclass(frozen=True, slots=True)
class _Untranslated:
    """A committed offset on the source, with what is needed to translate it: the topic's ID and the lane that mirrors it."""

    position: Position
    topic_id: uuid.UUID
    lane: int


_ByGroup = Mapping[str, Mapping[TopicPartition, _Untranslated]]  # group -> target partition


class GroupCommits:
    """Commits translated offsets on one cluster; what is not written is an event of its group, named by `entity`.

    `may_lower`: may a position that was written here follow one of the other cluster that went back? `may_write`: may this
    worker write now? `findings`: the events that are reported.
    """

    def __init__(
        self,
        cluster: ClusterSettings,
        events: EventLog,
        may_write: Callable[[], bool],
        *,
        may_lower: bool = True,
        findings: Sequence[str] = FINDINGS,
        entity: Callable[[str], str] = str,
    ) -> None:
        self._cluster = cluster
        self._events = events
        self._may_write = may_write
        self._may_lower = may_lower
        self._findings = findings
        self._entity = entity
        self._memory: dict[str, GroupMemory] = {}
        self._groups_with_events: set[str] = set()

    def reset(self) -> None:
        self._memory.clear()

    def retain(self, groups: Collection[str]) -> None:
        """Forget all other groups, and resolve their events."""
        for group in self._groups_with_events - set(groups):
            self._resolve_all(group)
        self._memory = {group: memory for group, memory in self._memory.items() if group in groups}

    def sync(
        self,
        cluster: Cluster,
        group: str,
        state: GroupState | DrlibError,
        wanted: Mapping[TopicPartition, TranslatedPosition],
        committed: Mapping[TopicPartition, CommittedOffset] | DrlibError,
        ends: Mapping[TopicPartition, int],
        topics: Collection[str],
    ) -> None:
        """Decide on one group and write its offsets. `topics`: all that are written here. Blocks."""
        if isinstance(state, DrlibError) or isinstance(committed, DrlibError):
            self.report_refusal(group, state if isinstance(state, DrlibError) else committed)
            return
        before = self._memory.get(group)
        decided = partial(decide, may_lower=self._may_lower, ours=topics.__contains__)
        decision = decided(state, wanted, _offsets(committed), ends, before)
        if decision.writes:
            newest = cluster.committed([group])[group]  # just before writing: a consumer may have committed meanwhile
            if isinstance(newest, DrlibError):
                self.report_refusal(group, newest)
                return
            decision = decided(state, wanted, _offsets(newest), ends, before)
        if decision.writes and not self._may_write():
            return
        if decision.writes:
            try:
                cluster.commit(
                    group, {tp: CommittedOffset(write.offset, write.metadata) for tp, write in decision.writes.items()}
                )
            except DrlibError as error:
                self._remember(group, decision.unwritten)
                self.report_refusal(group, error)
                return
        self._remember(group, decision.memory)
        self._report(group, decision)

    def _remember(self, group: str, memory: GroupMemory | None) -> None:
        if memory is None:
            self._memory.pop(group, None)
        else:
            self._memory[group] = memory

    def _report(self, group: str, decision: GroupDecision) -> None:
        details = {finding.name: finding.detail for finding in decision.findings}
        for name in self._findings:
            if name in details:
                self._groups_with_events.add(group)
                self._events.open(name, self._entity(group), details[name])
            else:
                self._events.resolve(name, self._entity(group))
        self._events.resolve(REFUSED, self._entity(group))

    def report_refusal(self, group: str, error: object) -> None:
        """Open the event of a group that may not be read or written."""
        self._groups_with_events.add(group)
        code = getattr(error, "code", "")
        if code == "GROUP_AUTHORIZATION_FAILED":
            detail = str(not_authorized(Right("group", group, ("READ",)), self._cluster))
        elif code == "TOPIC_AUTHORIZATION_FAILED":
            detail = f"{error} Committing needs READ on the topics, too."
        else:
            detail = str(error)
        self._events.open(REFUSED, self._entity(group), detail)

    def settle(self, group: str) -> None:
        """Nothing is to be done for a group: resolve its events, and keep what is remembered of it."""
        if group in self._groups_with_events:
            self._resolve_all(group)

    def _resolve_all(self, group: str) -> None:
        for name in (*self._findings, REFUSED):
            self._events.resolve(name, self._entity(group))
        self._groups_with_events.discard(group)


@dataclass(frozen=True, slots=True)
class BothWays:
    """Which topics both directions copy, by name, and the maps of the flow back."""

    shared: Callable[[str], bool]
    followed: FollowedBack


class GroupSync:
    """A `tasks.SyncTask`; `source` returns what is known now, `may_write` whether this worker may write now."""

    name = "GroupSyncFailed"

    def __init__(
        self,
        settings: FlowSettings,
        target: ClusterSettings,
        journal: JournalFollower,
        events: EventLog,
        source: Callable[[], SourceState],
        may_write: Callable[[], bool],
        back: BothWays | None = None,
    ) -> None:
        self._settings = settings
        self._target = target
        self._journal = journal
        self._back = back
        self._source = source
        self._commits = GroupCommits(target, events, may_write)

    def reset(self) -> None:
        self._commits.reset()
        self._journal.release(self)

    async def run_once(self) -> None:
        """Compare the committed offsets of every group, and write the differences. Raises `Unreachable`."""
        source = self._source()
        maps = await self._journal.refresh(self)
        if self._back is not None:
            with contextlib.suppress(
                DrlibError, TimeoutError, OSError
            ):  # of the source: what was read before still holds
                await self._back.followed.refresh()
        by_group = self._by_group(source)
        await in_daemon(lambda: self._run_blocking(by_group, maps))

    def _by_group(self, source: SourceState) -> _ByGroup:
        by_group: dict[str, dict[TopicPartition, _Untranslated]] = defaultdict(dict)
        for (group, partition), position in source.positions.items():
            topic_id = source.topic_ids.get(partition.topic)
            if topic_id is None:
                continue  # not mirrored by this flow
            remote = self._settings.policy.remote_topic(self._settings.flow.source, partition.topic)
            lane = lane_of(partition.topic, partition.partition, self._settings.lanes)
            by_group[group][TopicPartition(remote, partition.partition)] = _Untranslated(position, topic_id, lane)
        return by_group

    def _run_blocking(self, by_group: _ByGroup, maps: FollowedMaps) -> None:
        partitions = {partition for positions in by_group.values() for partition in positions}
        with Cluster(self._target, timeout_s=self._settings.admin_timeout_ms / 1000) as target:
            # A mirror topic that may not be described, or a partition without a leader, has unknown positions; others are
            # still known.
            names = {partition.topic for partition in partitions}
            topics = target.topics(names, in_sight=True)
            existing = {p for p in partitions if p.topic in topics and topics[p.topic].is_led(p.partition)}
            starts, ends = target.log_starts(existing), target.log_ends(existing)
            topic_ids = {name: topic.topic_id for name, topic in topics.items()}
            states = target.group_states(by_group)
            committed = target.committed(by_group)
            for group, positions in by_group.items():
                own = committed[group]
                found = {
                    p: _translate(maps, p, item, topic_ids, starts)
                    if self._back is None or not self._back.shared(p.topic)
                    else _translate_shared(self._back.followed, maps, p, item, topic_ids, own, starts.get(p, 0))
                    for p, item in positions.items()
                }
                wanted = {p: item for p, item in found.items() if item is not None}
                if wanted or not found:
                    self._commits.sync(target, group, states[group], wanted, own, ends, names)
                else:
                    self._commits.settle(group)
        self._commits.retain(by_group)


def _translate_shared(
    back: FollowedBack,
    maps: FollowedMaps,
    partition: TopicPartition,
    item: _Untranslated,
    topic_ids: Mapping[str, uuid.UUID],
    committed: Mapping[TopicPartition, CommittedOffset] | DrlibError,
    log_start: int,
) -> TranslatedPosition | None:
    """None where the position on the target accounts for all that the group has read on the source."""
    position, target_id = item.position, topic_ids.get(partition.topic)
    unknown = TranslatedPosition(position.offset, _UNKNOWN, position.metadata)
    with maps.lock:
        refused = maps.refuses(item.lane, item.topic_id, partition)
        if refused or target_id is None or maps.target_id(item.lane, item.topic_id) != target_id:
            return unknown
        there = maps.map(item.lane, item.topic_id, partition.partition) or PartitionMap()
        topic = SharedTopic(partition, item.topic_id, target_id)
        own = None if isinstance(committed, DrlibError) else committed.get(partition)
        if own is not None and (here := back.here(there, topic, own.offset)) is not None:
            accounted = here.translation.offset
            if accounted is not None and position.offset <= accounted:
                return None
        answer = back.there(there, topic, position.offset)
    if answer is None:
        return unknown
    found = answer.translation
    if found.offset is not None and found.offset < log_start:
        found = replace(found, offset=log_start)
    return TranslatedPosition(position.offset, found, position.metadata)


def _translate(
    maps: FollowedMaps,
    target: TopicPartition,
    item: _Untranslated,
    topic_ids: Mapping[str, uuid.UUID],
    log_starts: Mapping[TopicPartition, int],
) -> TranslatedPosition:
    translation = _UNKNOWN
    with maps.lock:
        offsets = maps.map(item.lane, item.topic_id, target.partition)
        same_topic = maps.target_id(item.lane, item.topic_id) == topic_ids.get(target.topic)
        if offsets is not None and same_topic:  # the map of a re-created mirror topic does not apply to the new one
            translation = offsets.forward(item.position.offset, target_log_start=log_starts.get(target, 0))
    return TranslatedPosition(item.position.offset, translation, item.position.metadata)


def _offsets(committed: Mapping[TopicPartition, CommittedOffset]) -> dict[TopicPartition, int]:
    return {tp: position.offset for tp, position in committed.items()}
