"""Create the internal topics of a flow on both clusters, and read for how long the target remembers producers.

Rules: created once, before the first lane claims; an existing topic stays as it is (`preflight` checks it). All are
compacted. Names are those of the replication policy, so that MirrorMaker 2's readers find them.
Source: `MirrorUtils.createCompactedTopic`.
Not for: mirror topics (`create_topics`).
"""

from __future__ import annotations

from collections.abc import Sequence

from drlib.config.flow_settings import FlowSettings
from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.descriptions import NewTopicSpec
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.engine.fencing.producer_expiration import Expiry
from drlib.mirror.status.worker_status import EventLog


def internal_topics(settings: FlowSettings) -> tuple[list[NewTopicSpec], list[NewTopicSpec]]:
    """The internal topics on the target, and those on the source."""
    source, policy = settings.flow.source, settings.policy

    def compacted(name: str, partitions: int, replication_factor: int) -> NewTopicSpec:
        return NewTopicSpec(name, partitions, replication_factor, {"cleanup.policy": "compact"})

    journal = policy.journal_topic(source)
    target = [compacted(journal, settings.lanes, settings.journal_replication_factor)]
    if settings.emit_checkpoints:
        target.append(compacted(policy.checkpoints_topic(source), 1, settings.checkpoints_replication_factor))
    if settings.emit_heartbeats:
        target.append(compacted(policy.heartbeats_topic, 1, settings.heartbeats_replication_factor))
    if not settings.emit_offset_syncs:
        return target, []
    syncs = compacted(settings.offset_syncs_topic, 1, settings.offset_syncs_replication_factor)
    return ([*target, syncs], []) if settings.offset_syncs_location == "target" else (target, [syncs])


def create_missing(cluster: ClusterSettings, topics: Sequence[NewTopicSpec], timeout_s: float) -> None:
    """Create the topics that do not exist yet. Blocks. Raises why one was refused."""
    if not topics:
        return
    with Cluster(cluster, timeout_s=timeout_s) as admin:
        for answer in admin.create_topics(topics).values():
            if isinstance(answer, DrlibError):
                raise answer


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
