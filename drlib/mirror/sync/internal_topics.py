"""Create the internal topics of a flow on both clusters, and read for how long the target remembers producers.

Rules: created before the first lane claims; an existing topic stays as it is (`preflight` checks it). All are compacted. One
that is deleted while the flow runs is created again and filled again, except the journal, which cannot be replaced. A
producer may have created it first, by auto.create.topics.enable and with the broker's settings: they are set. Names are
those of the replication policy, so that MirrorMaker 2's readers find them. A journal is read whole at each claim, and the
log cleaner leaves the active segment and some of the rest alone: small segments bound what is read (`JOURNAL_LOG`). A
journal of an older version gets them, unless an operator set others on it. Managed services refuse some of them, and the
journal is then as the cluster has it; compaction is not given up. Where topics may not be created at all, the error has the
commands for who may, and topics that exist are used.
Source: `MirrorUtils.createCompactedTopic`; `LogCleanerManager.grabFilthiestCompactedLog`.
Not for: mirror topics (`create_topics`).
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from drlib.config.flow_settings import FlowSettings
from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import ConfigChange, ConfigSource, NewTopicSpec
from drlib.kafka.admin.errors import ClusterRefused
from drlib.kafka.net.cluster_client import ClusterClient
from drlib.kafka.protocol.error_codes import UNKNOWN_TOPIC_OR_PARTITION
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.topic_ids import may_be
from drlib.mirror.engine.fencing.producer_expiration import Expiry
from drlib.mirror.preflight.required_acls import Right, command, principal_of
from drlib.mirror.status.worker_status import EventLog
from drlib.mirror.threads import in_daemon

WATCH_S: Final = 2.0
JOURNAL_LOG: Final = {
    "segment.bytes": str(4 << 20),
    "min.cleanable.dirty.ratio": "0.3",  # so a lane's log has at most 1.4 times what is live, and two segments
    "delete.retention.ms": "600000",  # tombstones: a reader that misses one sees an entry that counts no longer
}


def internal_topics(settings: FlowSettings) -> tuple[list[NewTopicSpec], list[NewTopicSpec]]:
    """The internal topics on the target, and those on the source."""
    source, policy = settings.flow.source, settings.policy
    target = [journal_topic(settings)]
    if settings.emit_checkpoints:
        target.append(_compacted(policy.checkpoints_topic(source), 1, settings.checkpoints_replication_factor))
    if settings.emit_heartbeats:
        target.append(heartbeats_topic(settings))
    if not settings.emit_offset_syncs:
        return target, []
    syncs = _compacted(settings.offset_syncs_topic, 1, settings.offset_syncs_replication_factor)
    return ([*target, syncs], []) if settings.offset_syncs_location == "target" else (target, [syncs])


def journal_topic(settings: FlowSettings, hop: int = 0) -> NewTopicSpec:
    """The journal, on the flow's target. `hop`: that of its relay in a ring, of records that so many flows copied before."""
    name = settings.policy.journal_topic(settings.flow.source, hop)
    return _compacted(name, settings.lanes, settings.journal_replication_factor, **JOURNAL_LOG)


def heartbeats_topic(settings: FlowSettings) -> NewTopicSpec:
    """The topic on the flow's target that its heartbeats are written to."""
    return _compacted(settings.policy.heartbeats_topic, 1, settings.heartbeats_replication_factor)


def _compacted(name: str, partitions: int, replication_factor: int, **log: str) -> NewTopicSpec:
    return NewTopicSpec(name, partitions, replication_factor, {"cleanup.policy": "compact", **log})


def create_missing(
    cluster: ClusterSettings, topics: Sequence[NewTopicSpec], timeout_s: float, *, others: Sequence[NewTopicSpec] = ()
) -> None:
    """Create the topics that do not exist yet. Blocks. Raises why some were refused, with the commands that create them.

    `others`: topics of another flow, which creates them where the right to do so is missing here.
    """
    wanted = [*topics, *others]
    if not wanted:
        return
    with Cluster(cluster, timeout_s=timeout_s) as admin:
        answers = admin.create_topics(wanted)
        if bare := [_bare(topic) for topic in wanted if topic != _bare(topic) and _is_by_rule(answers[topic.name])]:
            answers |= admin.create_topics(bare)
    left = {topic.name for topic in others if _is_unauthorized(answers[topic.name])}
    refused = [
        (topic, answer)
        for topic in wanted
        if isinstance(answer := answers[topic.name], DrlibError) and topic.name not in left
    ]
    if refused:
        raise not_created(refused, cluster)


def _bare(topic: NewTopicSpec) -> NewTopicSpec:
    """Without the settings that it can do without."""
    return replace(topic, config={key: value for key, value in topic.config.items() if key not in JOURNAL_LOG})


def _is_by_rule(answer: bool | DrlibError) -> bool:
    return isinstance(answer, ClusterRefused) and answer.by_rule


def _is_unauthorized(answer: bool | DrlibError) -> bool:
    return isinstance(answer, ClusterRefused) and answer.unauthorized


def not_created(refused: Sequence[tuple[NewTopicSpec, DrlibError]], cluster: ClusterSettings) -> DrlibError:
    """One error for topics that the cluster refused to create."""
    first = refused[0][1]
    if not isinstance(first, ClusterRefused):
        return first
    names = ", ".join(topic.name for topic, _ in refused)
    principal = principal_of(cluster)
    grants = [
        command(
            Right("topic", topic.name, ("CREATE",)), principal, cluster.bootstrap_servers, config=cluster.command_config
        )
        for topic, error in refused
        if _is_unauthorized(error)
    ]
    remedy = f"Let who may create them do so, with what {cluster.alias} accepts; topics that exist are used: "
    remedy += "; ".join(topic.command(cluster.bootstrap_servers, cluster.command_config) for topic, _ in refused)
    if grants:
        remedy = f"Grant the right: {'; '.join(grants)}. Or: {remedy}"
    why = "; ".join(dict.fromkeys(error.why for _, error in refused))
    return ClusterRefused(f"creating {names} on {cluster.alias} was refused", why, remedy, code=first.code)


def adjust_journal(cluster: ClusterSettings, journal: str, timeout_s: float, events: EventLog) -> None:
    """Give a journal of an older version, or one that was not created by drlib, the settings of its log (`JOURNAL_LOG`), and
    report it. Blocks.

    What is set on the topic stays as it is. A journal that may not be described is left alone; one that may not be altered
    is reported until it may, with the command that does it. What a rule of the cluster refuses stays as the cluster has it.
    """
    with Cluster(cluster, timeout_s=timeout_s) as admin:
        values = admin.topic_settings([journal])[journal]
        if isinstance(values, DrlibError):
            return
        own = {value.name for value in values if value.source is ConfigSource.TOPIC}
        changes = [ConfigChange(key, None, value) for key, value in JOURNAL_LOG.items() if key not in own]
        if not changes:
            events.resolve("JournalSettings", journal)
            return
        done: list[ConfigChange] = []
        kept: dict[str, str] = {}  # settings that the cluster keeps for itself, and what it says
        try:
            _alter(admin, journal, changes, done, kept)
        except DrlibError as error:
            settings = ",".join(f"{change.name}={change.new}" for change in changes)
            command = f"{cluster.tool('kafka-configs.sh')} --alter --topic {journal} --add-config {settings}"
            detail = (
                f"a claim may have to read a gigabyte of it, its segments are the broker's; altering it failed: {error}"
            )
            events.open("JournalSettings", journal, detail, remedy=command)
            return
    details = [f"set on it: {', '.join(map(str, done))}"] if done else []
    if kept:
        details.append(
            f"{cluster.alias} keeps its own {', '.join(kept)} ({next(iter(kept.values()))}), so that a claim reads as much of "
            "it as the cluster's segments hold"
        )
    events.open("JournalSettings", journal, "; ".join(details))
    events.resolve("JournalSettings", journal)  # a fact: there is nothing to do about it


def _alter(
    admin: Cluster, journal: str, changes: Sequence[ConfigChange], done: list[ConfigChange], kept: dict[str, str]
) -> None:
    """All at once, or one by one where a rule of the cluster refuses some. Raises any other refusal."""
    try:
        admin.alter_topic_settings(journal, changes)
    except ClusterRefused as error:
        if not error.by_rule:
            raise
        if len(changes) == 1:
            kept[changes[0].name] = error.why
            return
        for change in changes:
            _alter(admin, journal, [change], done, kept)
    else:
        done += changes


@dataclass(frozen=True, slots=True)
class InternalTopicsWatch:
    """Watches the topics of heartbeats, checkpoints and offset syncs of one flow; `rewrite` writes their records again."""

    settings: FlowSettings
    source: tuple[ClusterClient, ClusterSettings]
    target: tuple[ClusterClient, ClusterSettings]
    events: EventLog
    rewrite: Callable[[], None]
    _ids: dict[tuple[str, str], uuid.UUID] = field(default_factory=dict)

    async def run(self) -> None:
        """Look every `WATCH_S` seconds, until cancelled."""
        (_, *on_target), on_source = internal_topics(self.settings)  # the journal is watched by its lanes
        while True:
            for (client, cluster), topics in ((self.target, on_target), (self.source, on_source)):
                try:
                    await self._look(client, cluster, {topic.name: topic for topic in topics})
                except (DrlibError, TimeoutError, OSError):
                    continue  # a cluster that does not answer is reported by its lanes and readers
            await asyncio.sleep(WATCH_S)

    async def _look(self, client: ClusterClient, cluster: ClusterSettings, topics: Mapping[str, NewTopicSpec]) -> None:
        if not topics:
            return
        for name, found in (await client.metadata(sorted(topics))).topics.items():
            known = self._ids.get((cluster.alias, name))
            gone = found.error_code == UNKNOWN_TOPIC_OR_PARTITION
            if not gone and not found.error_code:
                self._ids[cluster.alias, name] = found.topic_id
            if not gone and (found.error_code or known is None or _may_be_same(found.topic_id, known)):
                continue
            what = f"{name} on {cluster.alias} was deleted; "
            again = partial(_create_again, cluster, topics[name], self.settings.admin_timeout_ms / 1000)
            try:
                created = await in_daemon(partial(again, seen=known is not None))
            except DrlibError as error:
                self.events.open("InternalTopicDeleted", name, f"{what}creating it again failed: {error}")
                continue
            if known is None and not created:
                continue  # it is new, and the broker that was asked did not know it yet
            self.events.open("InternalTopicDeleted", name, f"{what}it was created again and is being filled again")
            self._ids.pop((cluster.alias, name), None)  # its new ID follows
            self.rewrite()


def _may_be_same(now: uuid.UUID, before: uuid.UUID) -> bool:
    """Also of a topic without an ID, or one that has got its ID by an upgrade."""
    return may_be(now, before) or may_be(before, now)


def _create_again(cluster: ClusterSettings, topic: NewTopicSpec, timeout_s: float, *, seen: bool) -> bool:
    """Create a topic, or give the one that exists its settings if another was `seen` before. Was it created? Blocks. Raises
    why it was refused."""
    with Cluster(cluster, timeout_s=timeout_s) as admin:
        answer = admin.create_topics([topic])[topic.name]
        if isinstance(answer, DrlibError):
            raise not_created([(topic, answer)], cluster)
        if answer is False and seen:
            admin.alter_topic_settings(
                topic.name, [ConfigChange(key, None, value) for key, value in topic.config.items()]
            )
        return answer


def read_expiry(target: ClusterSettings, timeout_s: float, events: EventLog) -> Expiry:
    """Read for how long the target remembers producers. Blocks.

    Where the broker's configuration may not be read: Kafka's defaults, and an event.
    """
    try:
        with Cluster(target, timeout_s=timeout_s) as admin:
            return Expiry.from_config(admin.broker_config())
    except DrlibError as error:
        detail = f"{error} Kafka's defaults are assumed for how long it remembers producers."
        events.open("BrokerConfigUnknown", target.alias, detail)
        return Expiry()
