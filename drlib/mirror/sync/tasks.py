"""What is kept in step besides records, as duties of whoever owns lane 0: settings, ACL rules, positions of groups.

Rules: only what the file asks for is done, each at its own interval (`drlib.mirror.sync.periodic`), and each reports
under its own
name.
Not for: what is decided; that is `drlib.mirror.sync.rules`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import dataclass

from drlib.config.settings import FlowSettings
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.offsets.map.follow_journal import JournalFollower
from drlib.mirror.status.worker_status import EventLog
from drlib.mirror.sync.acls import AclSync
from drlib.mirror.sync.configs import ConfigSync
from drlib.mirror.sync.group_offsets import GroupSync
from drlib.mirror.sync.group_offsets import Source as GroupSource
from drlib.mirror.sync.periodic import PeriodicTask, perform
from drlib.mirror.sync.source_groups import Position
from drlib.model import TopicPartition


@dataclass(frozen=True, slots=True)
class SyncTasks:
    """`term` gives our term as owner of lane 0, None for none; `may_write` whether we hold it for sure."""

    settings: FlowSettings
    source: tuple[ClusterClient, ClusterSettings]
    target: tuple[ClusterClient, ClusterSettings]
    events: EventLog
    topic_ids: Callable[[], Mapping[str, uuid.UUID]]  # of the source topics that are mirrored now
    positions: Callable[[], Mapping[tuple[str, TopicPartition], Position]]
    term: Callable[[], object | None]
    may_write: Callable[[], bool]

    def duties(self) -> Iterator[Coroutine[None, None, None]]:
        settings = self.settings
        _, source_settings = self.source
        target, target_settings = self.target
        if settings.sync_topic_configs:
            events = self.events.reporter(ConfigSync.name)
            configs = ConfigSync(settings, source_settings, target_settings, events, self.topic_ids)
            yield self._perform(configs, settings.sync_topic_configs_s, events)
        if settings.sync_topic_acls:
            events = self.events.reporter(AclSync.name)
            yield self._perform(AclSync(settings, self.source, self.target, events), settings.sync_topic_acls_s, events)
        if settings.sync_group_offsets:
            events = self.events.reporter(GroupSync.name)
            journal = JournalFollower(target, settings.policy.journal_topic(settings.flow.source), settings.lanes)
            groups = GroupSync(
                settings,
                target_settings,
                journal,
                events,
                lambda: GroupSource(self.positions(), self.topic_ids()),
                self.may_write,
            )
            yield self._perform(groups, settings.sync_group_offsets_s, events)

    def _perform(self, duty: PeriodicTask, seconds: float, events: EventLog) -> Coroutine[None, None, None]:
        return perform(duty, seconds, self.term, events, str(self.settings.flow))
