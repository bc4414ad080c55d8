"""What producers will need on the target of a flow is there before they have to write there: topics, and quotas.

Rules: decided in `drlib.mirror.sync.rules.local_topics`; only missing topics are created, and no topic is ever changed. What
the target refuses is an event of that topic (`LocalTopicRefused`), and the others are still created. With
`sync.topic.acls.enabled` a new topic gets the literal ACLs of the source's topic, in the run that creates it. A flow back finds
the new topics like any others: it mirrors them under its prefix, and what has a prefix never returns. A quota to write that the
target lacks, or has lower, is set to the source's; none is removed or lowered, as applications of the target may need it.
Not for: mirror topics (`create_topics`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from drlib.config.flow_settings import FlowSettings
from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import NewTopicSpec
from drlib.kafka.admin.quotas import missing_quotas, set_producer_quotas
from drlib.kafka.admin.topic_acls import NoAuthorizer, create_rules, topic_rules
from drlib.kafka.net.cluster_client import ClusterClient, TopicMetadata
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.status.worker_status import EventLog
from drlib.mirror.sync.rules import local_topics as rules
from drlib.mirror.threads import in_daemon

REFUSED: Final = "LocalTopicRefused"
QUOTAS_S: Final = 600  # between two comparisons, as with ACLs


class LocalTopicSync:
    """A `tasks.SyncTask`; `aliases` are those of all clusters of the file."""

    name = "LocalTopicSyncFailed"

    def __init__(
        self,
        settings: FlowSettings,
        source: tuple[ClusterClient, ClusterSettings],
        target: tuple[ClusterClient, ClusterSettings],
        events: EventLog,
        aliases: Collection[str],
    ) -> None:
        self._settings = settings
        self._source, self._source_settings = source
        self._target, self._target_settings = target
        self._events = events
        self._aliases = frozenset(aliases)
        self._refused: set[str] = set()

    def reset(self) -> None:
        self._refused.clear()

    async def run_once(self) -> None:
        """Create the missing topics. Raises `Unreachable`."""
        source, target = await asyncio.gather(self._source.metadata(None), self._target.metadata(None))
        after = rules.wanted(self._settings, self._aliases, source, target)
        names = rules.missing(after, target)
        refused: dict[str, DrlibError] = {}
        if names:
            create = partial(create_local_topics, self._settings, after, names, len(target.brokers))
            answers = await in_daemon(
                partial(create, self._source_settings, self._target_settings, with_acls=self._settings.sync_topic_acls)
            )
            refused = {name: answer for name, answer in answers.items() if isinstance(answer, DrlibError)}
        for name, error in refused.items():
            self._events.open(REFUSED, name, str(error))
        for name in self._refused - refused.keys():
            self._events.resolve(REFUSED, name)
        self._refused = set(refused)


class QuotaSync:
    """A `tasks.SyncTask`: quotas of producers. What the brokers refuse is the task's event."""

    name = "QuotaSyncFailed"

    def __init__(self, source: ClusterSettings, target: ClusterSettings) -> None:
        self._source, self._target = source, target

    def reset(self) -> None:
        """It remembers nothing."""

    async def run_once(self) -> None:
        """Raises `BrokerError`, `Unreachable`, `SecurityFault`."""
        await in_daemon(self._copy)

    def _copy(self) -> None:
        missing = missing_quotas(self._source, self._target)
        set_producer_quotas(self._target, {quota.entity: quota.bytes_per_s for quota, _ in missing})


def create_local_topics(
    flow: FlowSettings,
    after: Mapping[str, TopicMetadata],
    names: Sequence[str],
    brokers: int,
    origin: ClusterSettings,
    target: ClusterSettings,
    *,
    with_acls: bool,
    timeout_s: float | None = None,
    origin_s: float | None = None,
) -> dict[str, bool | DrlibError]:
    """Create `names` on the target; `origin` is the cluster that has the topics of `after`. Blocks. Raises `Unreachable`.

    `timeout_s` is that of each request, by default the file's `admin.timeout.ms`; `origin_s` of those to `origin`, by default
    the same. Returns by name: True when it was created, False when it existed, or why not. A topic whose ACLs were refused
    exists.
    """
    if not names:
        return {}
    timeout_s = flow.admin_timeout_ms / 1000 if timeout_s is None else timeout_s
    with Cluster(origin, timeout_s=timeout_s if origin_s is None else origin_s) as cluster:
        settings = cluster.topic_settings(after[name].name for name in names)
    specs = rules.new_topics(flow, after, names, settings, brokers)
    with Cluster(target, timeout_s=timeout_s) as cluster:
        created = cluster.create_topics(spec for spec in specs.values() if isinstance(spec, NewTopicSpec))
    answers = {name: spec if isinstance(spec, DrlibError) else created[name] for name, spec in specs.items()}
    if with_acls and origin.alias != target.alias:
        made = [name for name, answer in answers.items() if answer is True]
        with suppress(NoAuthorizer):  # then every principal may write
            create_rules(target, rules.acls(topic_rules(origin), made))
    return answers
