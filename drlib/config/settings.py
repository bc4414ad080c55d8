"""A `connect-mirror-maker.properties` file, unchanged, as typed settings with MirrorMaker 2's defaults.

Rules: flag > `A->B.key` > `key` > default, as `MirrorMakerConfig` reads the keys of its connectors; our own `drlib.`
keys may stand under `B.` and `A.` too, the target's first. A cluster's own keys: `A.key` > `key`. Nothing is ignored in
silence: a key that has no effect becomes a `Notice` with its line, a key one slip away from a known one is a
`UsageError`, and so is a value that cannot be meant. References (`${env:NAME}`, `${file:/path:key}`) are looked up only
for keys that are used.
Not for: connecting; `drlib.kafka.admin` and `drlib.kafka` do that from these values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Final

from drlib.config import keys
from drlib.config.notices import Notice, check_keys
from drlib.config.patterns.selection import Selection, split_list
from drlib.config.replication_policy import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
    should_mirror,
)
from drlib.config.values import Lookup, Values
from drlib.errors import UsageError
from drlib.kafka.java_formats import properties
from drlib.kafka.java_formats.properties import Entry, PropertiesFile
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.model import Flow

TOPICS_EXCLUDE_DEFAULT: Final = r"mm2.*\.internal, .*\.replica, __.*"
GROUPS_EXCLUDE_DEFAULT: Final = "console-consumer-.*, connect-.*, __.*"
CONFIG_PROPERTIES_EXCLUDE_DEFAULT: Final = (
    "follower.replication.throttled.replicas, leader.replication.throttled.replicas, "
    "message.timestamp.difference.max.ms, log.message.timestamp.before.max.ms, log.message.timestamp.after.max.ms, "
    "message.timestamp.type, unclean.leader.election.enable, min.insync.replicas"
)
_MIRROR_PACKAGE: Final = "org.apache.kafka.connect.mirror"
_POLICIES: Final[Mapping[str, type[ReplicationPolicy]]] = {
    f"{_MIRROR_PACKAGE}.DefaultReplicationPolicy": DefaultReplicationPolicy,
    f"{_MIRROR_PACKAGE}.IdentityReplicationPolicy": IdentityReplicationPolicy,
    "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy": IdentityReplicationPolicy,
}
_FILTERS: Final = (
    ("topic.filter.class", f"{_MIRROR_PACKAGE}.DefaultTopicFilter"),
    ("group.filter.class", f"{_MIRROR_PACKAGE}.DefaultGroupFilter"),
    ("config.property.filter.class", f"{_MIRROR_PACKAGE}.DefaultConfigPropertyFilter"),
)

Recorder = Callable[[str, Sequence[Lookup]], None]  # a cluster's alias or a flow, and what was asked of the file for it


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSettings:
    """One direction between two clusters. `_s` are seconds, `_ms` milliseconds; patterns are Java's.

    A flow that is not `enabled` may still emit heartbeats: B->A's heartbeats, written to A, are what A->B mirrors.
    """

    flow: Flow
    enabled: bool = False
    topics: tuple[str, ...] = (".*",)
    topics_exclude: tuple[str, ...] = split_list(TOPICS_EXCLUDE_DEFAULT)
    groups: tuple[str, ...] = (".*",)
    groups_exclude: tuple[str, ...] = split_list(GROUPS_EXCLUDE_DEFAULT)
    policy: ReplicationPolicy = field(default_factory=DefaultReplicationPolicy)
    replication_factor: int = 2
    journal_replication_factor: int = 2
    heartbeats_replication_factor: int = 3
    checkpoints_replication_factor: int = 3
    offset_syncs_replication_factor: int = 3
    refresh_topics: bool = True
    refresh_topics_s: int = 600
    refresh_groups: bool = True
    refresh_groups_s: int = 600
    emit_checkpoints: bool = True
    emit_checkpoints_s: int = 60
    emit_heartbeats: bool = True
    emit_heartbeats_s: int = 1
    heartbeats_replication: bool = True
    emit_offset_syncs: bool = True
    offset_lag_max: int = 100
    offset_syncs_location: str = "source"
    sync_topic_configs: bool = True
    sync_topic_configs_s: int = 600
    sync_topic_acls: bool = False  # MirrorMaker 2 does it unasked; here it takes the file to ask for it
    sync_topic_acls_s: int = 600
    config_properties_exclude: tuple[str, ...] = split_list(CONFIG_PROPERTIES_EXCLUDE_DEFAULT)
    use_defaults_from: str = "target"
    sync_group_offsets: bool = False
    sync_group_offsets_s: int = 60
    admin_timeout_ms: int = 60_000
    lanes: int = 2
    metrics_address: str | None = None
    group_positions_poll_ms: int = 1000
    session_timeout_ms: int = 10_000
    offset_storage_topic: str = ""
    config_storage_topic: str = ""
    takeover_group: str = ""
    source_client_id: str = ""
    target_client_id: str = ""
    forecast_interval_ms: int = 1000
    retention_warning_s: int = 3600
    open_transaction_warning_s: int = 60
    source_loss_policy: str = "continue"
    remirror_topics: tuple[str, ...] = ()

    def mirrors_topic(self, topic: str) -> bool:
        """Does this topic of the source belong on the target? Heartbeats do; internal ones and cycles do not."""
        chosen = Selection(self.topics, self.topics_exclude)
        return should_mirror(self.policy, self.flow, topic, chosen, heartbeats_replication=self.heartbeats_replication)

    def remirrors_topic(self, topic: str) -> bool:
        """May a mirror topic that was deleted or made again be filled anew from the start of this source topic?"""
        return Selection(self.remirror_topics).chosen(topic)

    def mirrors_group(self, group: str) -> bool:
        return Selection(self.groups, self.groups_exclude).chosen(group)

    def mirrors_config(self, name: str) -> bool:
        """Is this topic configuration copied to the target?"""
        return not Selection(self.config_properties_exclude).chosen(name)

    def client_id(self, alias: str) -> str:
        """`client.id` of our connections to the source or the target: what the file says, then who we are.

        MirrorMaker 2 joins them with the same sign, so a quota for a client id ends with it there too.
        """
        chosen = self.source_client_id if alias == self.flow.source else self.target_client_id
        return f"{chosen}|drlib-{alias}" if chosen else f"drlib-{alias}"

    @property
    def connect_offsets_topic(self) -> str:
        """Where a MirrorMaker 2 of this flow stores how far it copied; on the target (`MirrorMakerConfig`)."""
        return self.offset_storage_topic or f"mm2-offsets.{self.flow.source}.internal"

    @property
    def connect_configs_topic(self) -> str:
        return self.config_storage_topic or f"mm2-configs.{self.flow.source}.internal"

    @property
    def connect_group(self) -> str:
        """The Connect group of a MirrorMaker 2 that runs this flow."""
        return self.takeover_group or f"{self.flow.source}-mm2"

    @property
    def offset_syncs_topic(self) -> str:
        on_source = self.offset_syncs_location == "source"
        return self.policy.offset_syncs_topic(self.flow.target if on_source else self.flow.source)


@dataclass(frozen=True, slots=True)
class MirrorSettings:
    """One file. `flows` holds every ordered pair of clusters, enabled or not; `notices` what had no effect."""

    path: Path
    clusters: Mapping[str, ClusterSettings]
    flows: tuple[FlowSettings, ...]
    notices: tuple[Notice, ...] = ()

    @property
    def enabled_flows(self) -> tuple[FlowSettings, ...]:
        return tuple(flow for flow in self.flows if flow.enabled)

    def flow(self, source: str, target: str) -> FlowSettings:
        """Raises `UsageError` when the file has no such clusters."""
        for settings in self.flows:
            if settings.flow == Flow(source, target):
                return settings
        raise UsageError(
            f"{self.path} has no flow {source}->{target}",
            f"its clusters are {', '.join(self.clusters)}",
            "Name two of them, source first.",
        )


def load_mirror_settings(path: str | Path) -> MirrorSettings:
    """The settings in the file at `path`. Raises `UsageError`, with the line, for what cannot be meant."""
    return from_file(properties.read(path))


def from_file(file: PropertiesFile, recorded: Recorder | None = None, *, lenient: bool = False) -> MirrorSettings:
    """The settings of a file that was read. `recorded` is told what each flow and cluster asked of it."""
    entries = file.effective()
    aliases = _aliases(file, entries)
    notices = check_keys(file, aliases)
    clusters = {}
    flows = []
    for alias in aliases:
        values = Values(file, entries, (f"{alias}.", ""), lenient=lenient)
        clusters[alias] = _cluster(values, alias)
        if recorded is not None:
            recorded(alias, values.lookups)
    _refuse_shared_servers(file, clusters)
    for pair in permutations(aliases, 2):
        values = Values(file, entries, (), lenient=lenient)
        flows.append(_flow(values, Flow(*pair)))
        if recorded is not None:
            recorded(str(flows[-1].flow), values.lookups)
    return MirrorSettings(file.path, clusters, tuple(flows), notices)


def _aliases(file: PropertiesFile, entries: Mapping[str, Entry]) -> tuple[str, ...]:
    values = Values(file, entries, ("",))
    aliases = split_list(values.text("clusters", ""))
    example = "Write clusters = LEFT, RIGHT, then LEFT.bootstrap.servers and RIGHT.bootstrap.servers."
    if not aliases:
        values.refuse("clusters", "without it there is nothing to mirror", example)
    for alias in aliases:
        if not alias or not set(alias) <= keys.ALIAS_LETTERS:
            values.refuse(
                "clusters", f"`{alias}` cannot be part of a topic name", "Use letters, digits, `.`, `_`, `-`."
            )
    if len(set(aliases)) < len(aliases):
        values.refuse("clusters", "an alias is listed twice", "List every cluster once.")
    return aliases


def _cluster(values: Values, alias: str) -> ClusterSettings:
    file, entries = values.file, values.entries
    servers = tuple(server.rpartition("://")[2] for server in split_list(values.text("bootstrap.servers", "")))
    example = f"Write {alias}.bootstrap.servers = host:9092."
    if not servers:
        raise UsageError(f"{file.path}: {alias}.bootstrap.servers is not set", f"{alias} cannot be reached", example)
    for server in servers:
        host, _, port = server.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            values.refuse("bootstrap.servers", "an address is not host:port", example)
    secured = {
        name: entries[prefix + name].value
        for prefix in ("", f"{alias}.")
        for name in (key.removeprefix(prefix) for key in entries if key.startswith(prefix))
        if name.startswith(keys.SECURITY_PREFIXES)
    }
    return ClusterSettings(alias, servers, secured, values.text("drlib.cluster.id", ""))


def _refuse_shared_servers(file: PropertiesFile, clusters: Mapping[str, ClusterSettings]) -> None:
    owners: dict[str, str] = {}
    for alias, cluster in clusters.items():
        for server in cluster.bootstrap_servers:
            if (owner := owners.setdefault(server.lower(), alias)) != alias:
                Values(file, file.effective(), (f"{alias}.", "")).refuse(
                    "bootstrap.servers",
                    f"{owner} and {alias} have the address {server} in common, and a cluster cannot mirror to itself",
                    f"Give {alias} the addresses of its own brokers.",
                )


def _flow(file_values: Values, flow: Flow) -> FlowSettings:
    # Only the flow's own key: a top-level `enabled` would start every direction at once.
    flow_only = file_values.under(f"{flow}.")
    enabled = flow_only.boolean("enabled", False)
    values = file_values.under(f"{flow}.", "")
    ours = file_values.under(f"{flow}.", f"{flow.target}.", f"{flow.source}.", "")
    # `MirrorConnectorConfig.sourceConsumerConfig`, and the producer of Connect's worker with its overrides (KIP-458).
    consumer = file_values.under(f"{flow}.source.consumer.", f"{flow.source}.consumer.", f"{flow}.consumer.")
    producer = file_values.under(f"{flow}.producer.override.", f"{flow.target}.producer.")
    for key, only in _FILTERS:
        values.one_of(key, only, (only,))
    factor = values.replication_factor("replication.factor", 2)
    connect = file_values.under("", f"{flow.target}.")  # as MirrorMakerConfig.workerConfig ranks them

    def periodic(name: str) -> tuple[bool, int]:
        """A negative interval switches the work off, as MirrorMaker 2's scheduler does."""
        enabled = values.boolean(f"{name}.enabled", _ON_BY_DEFAULT[name])
        seconds = values.integer(f"{name}.interval.seconds", _INTERVAL_S[name], least=-1)
        if seconds == 0:
            values.refuse(f"{name}.interval.seconds", "it never rests", "Write 1 or more, or -1 to switch it off.")
        return enabled and seconds > 0, max(seconds, 1)

    refresh_topics, refresh_topics_s = periodic("refresh.topics")
    refresh_groups, refresh_groups_s = periodic("refresh.groups")
    emit_checkpoints, emit_checkpoints_s = periodic("emit.checkpoints")
    emit_heartbeats, emit_heartbeats_s = periodic("emit.heartbeats")
    sync_topic_configs, sync_topic_configs_s = periodic("sync.topic.configs")
    sync_topic_acls, sync_topic_acls_s = periodic("sync.topic.acls")
    sync_group_offsets, sync_group_offsets_s = periodic("sync.group.offsets")
    return FlowSettings(
        flow=flow,
        enabled=enabled,
        topics=values.patterns("topics", ".*"),
        topics_exclude=values.patterns("topics.exclude", TOPICS_EXCLUDE_DEFAULT),
        groups=values.patterns("groups", ".*"),
        groups_exclude=values.patterns("groups.exclude", GROUPS_EXCLUDE_DEFAULT),
        policy=_policy(values, flow),
        replication_factor=factor,
        journal_replication_factor=ours.replication_factor("drlib.journal.replication.factor", factor),
        heartbeats_replication_factor=values.replication_factor("heartbeats.topic.replication.factor", 3),
        checkpoints_replication_factor=values.replication_factor("checkpoints.topic.replication.factor", 3),
        offset_syncs_replication_factor=values.replication_factor("offset-syncs.topic.replication.factor", 3),
        refresh_topics=refresh_topics,
        refresh_topics_s=refresh_topics_s,
        refresh_groups=refresh_groups,
        refresh_groups_s=refresh_groups_s,
        emit_checkpoints=emit_checkpoints,
        emit_checkpoints_s=emit_checkpoints_s,
        emit_heartbeats=emit_heartbeats,
        emit_heartbeats_s=emit_heartbeats_s,
        heartbeats_replication=values.boolean("heartbeats.replication.enabled", True),
        emit_offset_syncs=values.boolean("emit.offset-syncs.enabled", True),
        offset_lag_max=values.integer("offset.lag.max", 100, least=0),
        offset_syncs_location=values.one_of("offset-syncs.topic.location", "source", ("source", "target")),
        sync_topic_configs=sync_topic_configs,
        sync_topic_configs_s=sync_topic_configs_s,
        sync_topic_acls=sync_topic_acls,
        sync_topic_acls_s=sync_topic_acls_s,
        config_properties_exclude=values.patterns("config.properties.exclude", CONFIG_PROPERTIES_EXCLUDE_DEFAULT),
        use_defaults_from=flow_only.one_of("use.defaults.from", "target", ("source", "target")),
        sync_group_offsets=sync_group_offsets,
        sync_group_offsets_s=sync_group_offsets_s,
        admin_timeout_ms=values.integer("admin.timeout.ms", 60_000, least=1),
        lanes=ours.integer("drlib.lanes", 2, least=1),
        metrics_address=_metrics_address(ours),
        group_positions_poll_ms=ours.integer("drlib.group.positions.poll.ms", 1000, least=1),
        session_timeout_ms=ours.integer("drlib.session.timeout.ms", 10_000, least=1),
        offset_storage_topic=connect.text("offset.storage.topic", ""),
        config_storage_topic=connect.text("config.storage.topic", ""),
        takeover_group=ours.text("drlib.takeover.group", ""),
        source_client_id=consumer.text("client.id", ""),
        target_client_id=producer.text("client.id", ""),
        forecast_interval_ms=ours.integer("drlib.forecast.interval.ms", 1000, least=1),
        retention_warning_s=ours.integer("drlib.retention.warning.seconds", 3600, least=1),
        open_transaction_warning_s=ours.integer("drlib.open.transaction.warning.seconds", 60, least=1),
        source_loss_policy=ours.one_of("drlib.source.loss.policy", "continue", ("continue", "park", "fail")),
        remirror_topics=ours.patterns("drlib.remirror.topics", ""),
    )


_ON_BY_DEFAULT: Final = {
    "refresh.topics": True,
    "refresh.groups": True,
    "emit.checkpoints": True,
    "emit.heartbeats": True,
    "sync.topic.configs": True,
    "sync.topic.acls": False,
    "sync.group.offsets": False,
}
_INTERVAL_S: Final = {
    "refresh.topics": 600,
    "refresh.groups": 600,
    "emit.checkpoints": 60,
    "emit.heartbeats": 1,
    "sync.topic.configs": 600,
    "sync.topic.acls": 600,
    "sync.group.offsets": 60,
}


def _policy(values: Values, flow: Flow) -> ReplicationPolicy:
    name = values.one_of("replication.policy.class", f"{_MIRROR_PACKAGE}.DefaultReplicationPolicy", _POLICIES)
    separator = values.text("replication.policy.separator", ".")
    if not separator or not set(separator) <= keys.ALIAS_LETTERS:
        values.refuse(
            "replication.policy.separator", "it cannot be part of a topic name", "Use letters, digits, `.`, `_`, `-`."
        )
    internal = values.boolean("replication.policy.internal.topic.separator.enabled", True)
    if _POLICIES[name] is IdentityReplicationPolicy:
        return IdentityReplicationPolicy(
            separator=separator, internal_separator_enabled=internal, source_alias=flow.source
        )
    return DefaultReplicationPolicy(separator=separator, internal_separator_enabled=internal)


def _metrics_address(values: Values) -> str | None:
    address = values.text("drlib.metrics.address", "")
    if not address:
        return None
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        values.refuse("drlib.metrics.address", "it is not host:port", "Write an address such as 127.0.0.1:9464.")
    return address
