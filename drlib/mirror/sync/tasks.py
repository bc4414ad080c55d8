"""Repeat the synchronization of topic configurations, ACLs and committed offsets on the worker that owns lane 0.

Rules: only what the file enables is run, each task at its own interval. A task that fails opens an event under its own name and
is tried again at its next time; it never ends the flow. A worker that becomes owner of lane 0 starts without memory, because
another worker ran the task in between; a worker that loses lane 0 retracts its events. Blocking calls run in
`drlib.mirror.threads`, so that a cluster that does not answer does not delay the end of the process.
Not for: the decisions (`drlib.mirror.sync.rules`), work that every worker does for its own lanes (`source_groups`).
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from drlib.config.flow_settings import FlowSettings
from drlib.errors import DrlibError
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.errors import log_traceback
from drlib.mirror.offsets.map.follow_journal import JournalFollower
from drlib.mirror.status.worker_status import EventLog
from drlib.mirror.sync.acls import AclSync
from drlib.mirror.sync.configs import ConfigSync
from drlib.mirror.sync.group_offsets import BothWays, GroupSync, SourceState
from drlib.mirror.sync.group_offsets_back import GroupSyncBack, interval_s
from drlib.mirror.sync.local_topics import QUOTAS_S, LocalTopicSync, QuotaSync
from drlib.mirror.sync.source_groups import Position
from drlib.model import TopicPartition

OWNERSHIP_POLL_S = 0.2  # how soon a new owner of lane 0 starts its tasks


class SyncTask(Protocol):
    """One kind of synchronization, run again and again."""

    @property
    def name(self) -> str:
        """The event that says that a run failed, such as `TopicConfigSyncFailed`."""

    async def run_once(self) -> None:
        """Compare source and target once, and write the differences."""

    def reset(self) -> None:
        """Forget earlier runs: another worker may have run the task since."""


@dataclass(frozen=True, slots=True)
class SyncTasks:
    """The tasks of one flow. `ownership` returns an object that identifies this worker's ownership of lane 0, or None;
    `may_write` whether the worker may write now (its group session is valid)."""

    settings: FlowSettings
    source: tuple[ClusterClient, ClusterSettings]
    target: tuple[ClusterClient, ClusterSettings]
    events: EventLog
    topic_ids: Callable[[], Mapping[str, uuid.UUID]]  # of the source topics that are mirrored now
    positions: Callable[[], Mapping[tuple[str, TopicPartition], Position]]
    ownership: Callable[[], object | None]
    may_write: Callable[[], bool]
    reverse: FlowSettings | None = None  # the flow back, where the file has one
    aliases: Collection[str] = ()  # of all clusters of the file
    both_ways: BothWays | None = None  # where both directions may copy a topic
    group_topics: Callable[[], Mapping[str, uuid.UUID]] | None = None  # with those that both copy; else `topic_ids`

    def services(self) -> dict[str, Callable[[], Coroutine[None, None, None]]]:
        """What repeats each task that the file enables, by name."""
        services: dict[str, Callable[[], Coroutine[None, None, None]]] = {}
        settings = self.settings
        _, source_settings = self.source
        target, target_settings = self.target
        journal = JournalFollower(target, settings.policy.journal_topic(settings.flow.source), settings.lanes)
        if settings.sync_topic_configs:
            events = self.events.reporter(ConfigSync.name)
            configs = ConfigSync(settings, source_settings, target_settings, events, self.topic_ids)
            services["configs"] = partial(self._repeat, configs, settings.sync_topic_configs_s, events)
        if settings.sync_topic_acls:
            events = self.events.reporter(AclSync.name)
            acls = AclSync(settings, self.source, self.target, events)
            services["ACLs"] = partial(self._repeat, acls, settings.sync_topic_acls_s, events)
        if settings.sync_local_topics:
            events = self.events.reporter(LocalTopicSync.name)
            local = LocalTopicSync(settings, self.source, self.target, events, self.aliases)
            services["local topics"] = partial(self._repeat, local, settings.refresh_topics_s, events)
        if settings.sync_quotas:
            events = self.events.reporter(QuotaSync.name)
            services["quotas"] = partial(self._repeat, QuotaSync(source_settings, target_settings), QUOTAS_S, events)
        if settings.sync_group_offsets:
            events = self.events.reporter(GroupSync.name)
            groups = GroupSync(
                settings,
                target_settings,
                journal,
                events,
                lambda: SourceState(self.positions(), (self.group_topics or self.topic_ids)()),
                self.may_write,
                self.both_ways,
            )
            services["group offsets"] = partial(self._repeat, groups, settings.sync_group_offsets_s, events)

        if (back_s := interval_s(settings, self.reverse)) is not None:
            events = self.events.reporter(GroupSyncBack.name)
            back = GroupSyncBack(
                settings,
                self.reverse,
                source_settings,
                target_settings,
                journal,
                events,
                self.topic_ids,
                self.may_write,
            )
            services["group offsets back"] = partial(self._repeat, back, back_s, events)
        return services

    async def _repeat(self, task: SyncTask, interval_s: float, events: EventLog) -> None:
        """Run `task` at once and every `interval_s` while this worker owns lane 0; `events` is for this task alone."""
        flow = str(self.settings.flow)
        owned: object | None = None
        while True:
            ownership = self.ownership()
            if ownership is not owned:
                owned = ownership
                task.reset()
                if owned is None:
                    events.retract(events.by)
            if owned is None:
                await asyncio.sleep(OWNERSHIP_POLL_S)
                continue
            try:
                await task.run_once()
                events.resolve(task.name, flow)
            except (DrlibError, TimeoutError, OSError) as error:
                events.open(task.name, flow, str(error))
            except Exception as error:  # a defect here must not end the mirroring of records
                what = f"unexpected {type(error).__name__}: {error}. Report it with this line."
                if events.open(task.name, flow, what):
                    log_traceback(error)
            await asyncio.sleep(interval_s)
