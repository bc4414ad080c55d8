"""Writes the positions of the source's groups into the same groups on the target, where nobody uses them there.

Rules: decided in `drlib.mirror.sync.rules.group_offsets`. Positions come from `groups`, translations from the journal
of all lanes, and
the log ends of the target are read after them, so that a position past an end is a contradiction and not a delay. A
position is read a moment before it is written, and written only while this worker may write. What is not written is an
event per group, until a look finds nothing to say of it any more.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from drlib.config.settings import FlowSettings
from drlib.errors import DrlibError
from drlib.kafka.admin.bulk_admin import BulkAdmin
from drlib.kafka.admin.descriptions import CommittedOffset, GroupState
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.engine.fencing.lanes import lane_of
from drlib.mirror.offsets.map.follow_journal import JournalFollower
from drlib.mirror.preflight.checks import not_authorized
from drlib.mirror.preflight.required_acls import Right
from drlib.mirror.status.worker_status import EventLog
from drlib.mirror.sync.rules.group_offsets import FINDINGS, Decision, GroupMemory, Wanted, decide
from drlib.mirror.sync.source_groups import Position
from drlib.mirror.threads import in_daemon
from drlib.model import TopicPartition, Translation, TranslationKind

REFUSED = "GroupSyncRefused"
_UNKNOWN = Translation(None, TranslationKind.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Source:
    """What is known of the source: positions by (group, partition), and the IDs of the mirrored topics."""

    positions: Mapping[tuple[str, TopicPartition], Position]
    topics: Mapping[str, uuid.UUID]


class GroupSync:
    """A `duty.Duty`; `source` tells what is known now, `may_write` whether this worker still holds its lanes."""

    name = "GroupSyncFailed"

    def __init__(
        self,
        settings: FlowSettings,
        target: ClusterSettings,
        journal: JournalFollower,
        events: EventLog,
        source: Callable[[], Source],
        may_write: Callable[[], bool],
    ) -> None:
        self._settings = settings
        self._target = target
        self._journal = journal
        self._events = events
        self._source = source
        self._may_write = may_write
        self._memory: dict[str, GroupMemory] = {}
        self._told: set[str] = set()

    def forget(self) -> None:
        self._memory.clear()
        self._journal.forget()

    async def look(self) -> None:
        source = self._source()
        await self._journal.refresh()
        wanted = self._wanted(source)
        await in_daemon(lambda: self._look(wanted))

    def _wanted(self, source: Source) -> Mapping[str, Mapping[TopicPartition, tuple[Position, uuid.UUID, int]]]:
        """By group and target partition: its position, the source topic's ID and the lane that mirrors it."""
        found: dict[str, dict[TopicPartition, tuple[Position, uuid.UUID, int]]] = defaultdict(dict)
        for (group, partition), position in source.positions.items():
            topic_id = source.topics.get(partition.topic)
            if topic_id is None:
                continue  # not mirrored by this flow
            remote = self._settings.policy.remote_topic(self._settings.flow.source, partition.topic)
            lane = lane_of(partition.topic, partition.partition, self._settings.lanes)
            found[group][TopicPartition(remote, partition.partition)] = (position, topic_id, lane)
        return found

    def _look(self, positions: Mapping[str, Mapping[TopicPartition, tuple[Position, uuid.UUID, int]]]) -> None:
        with BulkAdmin(self._target, timeout_s=self._settings.admin_timeout_ms / 1000) as target:
            # One mirror topic that we are shut out of has unknown positions, and takes nobody else's.
            there = target.topics({tp.topic for each in positions.values() for tp in each}, in_sight=True)
            asked = {
                tp
                for each in positions.values()
                for tp in each
                if tp.topic in there and tp.partition < there[tp.topic].partitions
            }
            starts, ends = target.log_starts(asked), target.log_ends(asked)
            ids = {name: topic.topic_id for name, topic in there.items()}
            states = target.group_states(positions)
            committed = target.committed(positions)
            for group, each in positions.items():
                wanted = {tp: self._translated(tp, *item, ids, starts) for tp, item in each.items()}
                self._one(target, group, states[group], wanted, committed[group], ends)
        for group in self._told - set(positions):
            self._clear(group)
        self._memory = {group: memory for group, memory in self._memory.items() if group in positions}

    def _translated(
        self,
        target: TopicPartition,
        position: Position,
        topic_id: uuid.UUID,
        lane: int,
        ids: Mapping[str, uuid.UUID],
        starts: Mapping[TopicPartition, int],
    ) -> Wanted:
        offsets = self._journal.map(lane, topic_id, target.partition)
        same = self._journal.target_id(lane, topic_id) == ids.get(target.topic)
        there = (
            offsets.forward(position.offset, target_log_start=starts.get(target, 0))
            if offsets is not None and same  # a map is about one incarnation of the mirror topic
            else _UNKNOWN
        )
        return Wanted(position.offset, there, position.metadata)

    def _one(
        self,
        target: BulkAdmin,
        group: str,
        state: GroupState | DrlibError,
        wanted: Mapping[TopicPartition, Wanted],
        committed: Mapping[TopicPartition, CommittedOffset] | DrlibError,
        ends: Mapping[TopicPartition, int],
    ) -> None:
        if isinstance(state, DrlibError) or isinstance(committed, DrlibError):
            self._refused(group, state if isinstance(state, DrlibError) else committed)
            return
        before = self._memory.get(group)
        decision = decide(state, wanted, _offsets(committed), ends, before)
        if decision.writes:
            again = target.committed([group])[group]  # a moment before writing: somebody may just have committed
            if isinstance(again, DrlibError):
                self._refused(group, again)
                return
            decision = decide(state, wanted, _offsets(again), ends, before)
        if decision.writes and not self._may_write():
            return
        if decision.writes:
            try:
                target.commit(
                    group, {tp: CommittedOffset(write.offset, write.metadata) for tp, write in decision.writes.items()}
                )
            except DrlibError as error:
                self._remember(group, decision.unwritten)
                self._refused(group, error)
                return
        self._remember(group, decision.memory)
        self._tell(group, decision)

    def _remember(self, group: str, memory: GroupMemory | None) -> None:
        if memory is None:
            self._memory.pop(group, None)
        else:
            self._memory[group] = memory

    def _tell(self, group: str, decision: Decision) -> None:
        found = {finding.name: finding.detail for finding in decision.findings}
        for name in FINDINGS:
            if name in found:
                self._told.add(group)
                self._events.open(name, group, found[name])
            else:
                self._events.resolve(name, group)
        self._events.resolve(REFUSED, group)

    def _refused(self, group: str, error: object) -> None:
        self._told.add(group)
        code = getattr(error, "code", "")
        if code == "GROUP_AUTHORIZATION_FAILED":
            detail = str(not_authorized(Right("group", group, ("READ",)), self._target))
        elif code == "TOPIC_AUTHORIZATION_FAILED":
            detail = f"{error} Committing takes READ on the mirror topics as well."
        else:
            detail = str(error)
        self._events.open(REFUSED, group, detail)

    def _clear(self, group: str) -> None:
        for name in (*FINDINGS, REFUSED):
            self._events.resolve(name, group)
        self._told.discard(group)


def _offsets(committed: Mapping[TopicPartition, CommittedOffset]) -> dict[TopicPartition, int]:
    return {tp: position.offset for tp, position in committed.items()}
