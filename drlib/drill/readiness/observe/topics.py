"""Mirror topics beside their sources: there, with as many partitions, the same settings, and enough copies.

Rules: settings are compared as the worker compares them (`config_sync`), and never changed here. What the metadata says of
leaders and replicas is of the moment it was asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from drlib.config.settings import FlowSettings
from drlib.drill.readiness.checks.observations import Copies, Durability, Mirrored, Settings, Unseen
from drlib.errors import DrlibError
from drlib.kafka.admin.bulk_admin import BulkAdmin
from drlib.kafka.admin.descriptions import ConfigValue
from drlib.kafka.net.cluster_client import ClusterMetadata
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.status.catch_up import retention_in
from drlib.mirror.sync.configs import wanted_settings
from drlib.mirror.sync.rules.configs import changes

TopicSettings = Mapping[str, tuple[ConfigValue, ...] | DrlibError]


def chosen(flow: FlowSettings, source: ClusterMetadata | None, maps: Maps) -> Mapping[str, str]:
    """Source topic -> mirror topic of what the flow mirrors: as the source has it, else as the journal last said."""
    if source is None:
        names = [each for each in maps.names.values() if flow.mirrors_topic(each.source_topic)]
        return {each.source_topic: each.target_topic for each in names}
    return {
        name: flow.policy.remote_topic(flow.flow.source, name)
        for name, topic in sorted(source.topics.items())
        if topic.error_code == 0 and flow.mirrors_topic(name)
    }


def settings_of(cluster: ClusterSettings, topics: Sequence[str], timeout_s: float) -> TopicSettings:
    """Blocks; raises `Unreachable`."""
    with BulkAdmin(cluster, timeout_s=timeout_s) as handle:
        return handle.topic_settings(topics)


def mirrored(names: Mapping[str, str], source: ClusterMetadata, target: ClusterMetadata) -> tuple[Mirrored, ...]:
    return tuple(
        Mirrored(
            name,
            mirror,
            len(source.topics[name].partitions),
            len(target.topics[mirror].partitions) if _there(target, mirror) else None,
        )
        for name, mirror in names.items()
    )


def compared(
    flow: FlowSettings, names: Mapping[str, str], here: TopicSettings, there: TopicSettings
) -> tuple[Settings, ...]:
    """Topics whose mirror is missing are left out: that is another check."""
    found = []
    for name, mirror in names.items():
        ours, theirs = here.get(name), there.get(mirror)
        if ours is None or theirs is None:
            continue
        error = next((answer for answer in (ours, theirs) if isinstance(answer, DrlibError)), None)
        if error is not None:
            found.append(Settings(name, mirror, error=f"{error.what}: {error.why}"))
        elif not isinstance(ours, DrlibError) and not isinstance(theirs, DrlibError):
            found.append(Settings(name, mirror, changes(wanted_settings(flow, ours), theirs)))
    return tuple(found)


def kept_ms(here: TopicSettings) -> Mapping[str, int] | Unseen:
    """retention.ms of each topic; -1 where nothing is deleted by age."""
    found = {}
    for name, answer in here.items():
        if isinstance(answer, DrlibError):
            return Unseen(f"{answer.what}: {answer.why}", answer.remedy)
        found[name] = retention_in(answer).ms
    return found


def copies(flow: FlowSettings, mirrors: Sequence[str], target: ClusterMetadata, there: TopicSettings) -> Durability:
    """Of the mirror topics that are there."""
    found = []
    for mirror in mirrors:
        if not _there(target, mirror):
            continue
        partitions = target.topics[mirror].partitions.values()
        found.append(
            Copies(
                mirror,
                min(len(p.replicas) for p in partitions),
                min(len(p.isr) for p in partitions),
                sum(p.leader < 0 for p in partitions),
                _minimum(there.get(mirror)),
            )
        )
    return Durability(len(target.brokers), flow.replication_factor, tuple(found))


def _minimum(answer: tuple[ConfigValue, ...] | DrlibError | None) -> int | None:
    if answer is None or isinstance(answer, DrlibError):
        return None
    return next((int(e.value) for e in answer if e.name == "min.insync.replicas" and e.value is not None), None)


def _there(target: ClusterMetadata, mirror: str) -> bool:
    topic = target.topics.get(mirror)
    return topic is not None and topic.error_code == 0 and bool(topic.partitions)
