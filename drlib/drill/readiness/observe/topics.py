"""Topics of a flow and their settings on both clusters.

Rules: settings are compared as the worker compares them (`drlib.mirror.sync.rules.configs`), and never changed. Leaders and
replicas are those of the metadata that was read first.
"""

from collections.abc import Iterable, Mapping, Sequence

from drlib.config.flow_settings import FlowSettings
from drlib.config.replication_policy import IdentityReplicationPolicy
from drlib.drill.readiness.checks.observations import SettingsDrift, TopicSettings, Unanswered, available
from drlib.drill.readiness.observe.ask import refusal
from drlib.errors import DrlibError
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.net.cluster_client import ClusterMetadata
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.mirror.monitor.survey import Survey
from drlib.mirror.offsets.map.load_maps import Maps
from drlib.mirror.status.forecast import retention_in
from drlib.mirror.sync.configs import wanted_settings
from drlib.mirror.sync.rules.configs import changes


def mirrored_topics(flow: FlowSettings, source: ClusterMetadata | None, maps: Maps) -> Mapping[str, str]:
    """Source topic -> mirror topic of what the flow mirrors: from the source's metadata, else from the journal's maps."""
    if source is None:
        names = [each for each in maps.names.values() if flow.mirrors_topic(each.source_topic)]
        return {each.source_topic: each.target_topic for each in names}
    return {
        name: flow.policy.remote_topic(flow.flow.source, name)
        for name, topic in sorted(source.topics.items())
        if topic.error_code == 0 and flow.mirrors_topic(name)
    }


def prefixed_topics(flow: FlowSettings, names: Mapping[str, str]) -> tuple[str, ...]:
    """Topics of applications that get another name although the flow keeps names: as Kafka, it takes them for heartbeats."""
    if not isinstance(flow.policy, IdentityReplicationPolicy):
        return ()
    return tuple(name for name, mirror in names.items() if mirror != name and not flow.policy.is_heartbeats(name))


def known_mirrors(flow: FlowSettings, source: Iterable[str], survey: Survey | None) -> frozenset[str]:
    """The names on the target of what the flow mirrors: topics that the source lists, and those that the journal has. Empty
    where neither says any: the source is lost, and MirrorMaker 2 mirrored it, which keeps no journal."""
    known = {flow.policy.remote_topic(flow.flow.source, name) for name in source if flow.mirrors_topic(name)}
    if survey is not None and not survey.target_error and survey.mirror_maker is None:
        known |= {each.target_topic for each in survey.maps.names.values() if flow.mirrors_topic(each.source_topic)}
    return frozenset(name for name in known if not flow.policy.is_heartbeats(name))


def mirrors_of(flow: FlowSettings, cluster: ClusterMetadata, source: str) -> bool:
    """Has `cluster` a mirror topic of an application's topic on `source`?"""
    policy = flow.policy
    return any(
        policy.source_of(name) == source and not policy.is_heartbeats(name) and not policy.is_internal(name)
        for name in cluster.topics
    )


def unlisted_topics(
    flow: FlowSettings, source: ClusterMetadata, target: ClusterMetadata, maps: Maps
) -> tuple[str, ...]:
    """The topics that the journal mirrors, whose mirror topic exists, and that the source does not list."""
    known = {name for name, topic in source.topics.items() if topic.partitions}
    return tuple(
        sorted(
            {
                each.source_topic
                for each in maps.names.values()
                if each.source_topic not in known
                and flow.mirrors_topic(each.source_topic)
                and available(target.topics, each.target_topic)
            }
        )
    )


def read_settings(cluster: ClusterSettings, topics: Sequence[str], timeout_s: float) -> TopicSettings:
    """Blocks; raises `Unreachable`."""
    with Cluster(cluster, timeout_s=timeout_s) as handle:
        return handle.topic_settings(topics)


def compare_settings(
    flow: FlowSettings, names: Mapping[str, str], source: TopicSettings, target: TopicSettings
) -> tuple[SettingsDrift, ...]:
    """Topics whose mirror topic does not exist are left out: that is another check."""
    drifts = []
    for name, mirror in names.items():
        wanted, actual = source.get(name), target.get(mirror)
        if wanted is None or actual is None:
            continue
        if isinstance(wanted, DrlibError):
            drifts.append(SettingsDrift(name, mirror, error=refusal(wanted).why))
        elif isinstance(actual, DrlibError):
            drifts.append(SettingsDrift(name, mirror, error=refusal(actual).why))
        else:
            drifts.append(SettingsDrift(name, mirror, changes(wanted_settings(flow, wanted), actual)))
    return tuple(drifts)


def retention_ms(settings: TopicSettings | Unanswered) -> Mapping[str, int] | Unanswered:
    """retention.ms of each topic; -1 where nothing is deleted by age. The first topic's refusal where one is refused."""
    if isinstance(settings, Unanswered):
        return settings
    kept = {}
    for name, values in settings.items():
        if isinstance(values, DrlibError):
            return refusal(values)
        kept[name] = retention_in(values).ms
    return kept
