"""A `connect-mirror-maker.properties` file, unchanged, as typed settings with MirrorMaker 2's defaults.

Rules: flag > `A->B.key` > `B.key` > `A.key` > `key` > default. Nothing is ignored in silence: a key that has no effect
becomes a `Notice` with its line, a key one slip away from a known one is a `UsageError`, and so is a value that cannot
be meant. References (`${env:NAME}`, `${file:/path:key}`) are looked up only for keys that are used.
Not for: connecting; `drlib.clusters` and `drlib.wire` do that from these values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Final

from drlib.config import keys, properties
from drlib.config.notices import Notice, check_keys
from drlib.config.properties import Entry, PropertiesFile
from drlib.config.values import Values
from drlib.errors import UsageError
from drlib.model import Flow
from drlib.rules.names import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy, should_mirror
from drlib.rules.selection import Selection, split_list

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


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """How to reach one cluster. `security` holds Java's keys with their references unresolved, and is never printed."""

    alias: str
    bootstrap_servers: tuple[str, ...]
    security: Mapping[str, str] = field(default_factory=dict, repr=False)

    def confluent(self) -> dict[str, str]:
        """librdkafka's configuration for this cluster."""
        return {"bootstrap.servers": ",".join(self.bootstrap_servers), "security.protocol": "PLAINTEXT"}


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
    config_properties_exclude: tuple[str, ...] = split_list(CONFIG_PROPERTIES_EXCLUDE_DEFAULT)
    use_defaults_from: str = "target"
    sync_group_offsets: bool = False
    sync_group_offsets_s: int = 60
    admin_timeout_ms: int = 60_000
    lanes: int = 2
    metrics_address: str | None = None
    group_positions_poll_ms: int = 1000
    session_timeout_ms: int = 10_000

    def mirrors_topic(self, topic: str) -> bool:
        """Does this topic of the source belong on the target? Heartbeats do; internal ones and cycles do not."""
        chosen = Selection(self.topics, self.topics_exclude)
        return should_mirror(self.policy, self.flow, topic, chosen, heartbeats_replication=self.heartbeats_replication)

    def mirrors_group(self, group: str) -> bool:
        return Selection(self.groups, self.groups_exclude).chosen(group)

    def mirrors_config(self, name: str) -> bool:
        """Is this topic configuration copied to the target?"""
        return not Selection(self.config_properties_exclude).chosen(name)

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
    file = properties.read(path)
    entries = file.effective()
    aliases = _aliases(file, entries)
    notices = check_keys(file, aliases)
    clusters = {alias: _cluster(file, entries, alias) for alias in aliases}
    _refuse_shared_servers(file, clusters)
    flows = tuple(_flow(file, entries, Flow(*pair)) for pair in permutations(aliases, 2))
    return MirrorSettings(file.path, clusters, flows, notices)


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


def _cluster(file: PropertiesFile, entries: Mapping[str, Entry], alias: str) -> ClusterSettings:
    values = Values(file, entries, (f"{alias}.", ""))
    servers = tuple(server.rpartition("://")[2] for server in split_list(values.text("bootstrap.servers", "")))
    example = f"Write {alias}.bootstrap.servers = host:9092."
    if not servers:
        raise UsageError(f"{file.path}: {alias}.bootstrap.servers is not set", f"{alias} cannot be reached", example)
    for server in servers:
        host, _, port = server.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            values.refuse("bootstrap.servers", "an address is not host:port", example)
    security = {
        name: entries[prefix + name].value
        for prefix in ("", f"{alias}.")
        for name in (key.removeprefix(prefix) for key in entries if key.startswith(prefix))
        if name.startswith(keys.SECURITY_PREFIXES)
    }
    return ClusterSettings(alias, servers, security)


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


def _flow(file: PropertiesFile, entries: Mapping[str, Entry], flow: Flow) -> FlowSettings:
    values = Values(file, entries, (f"{flow}.", f"{flow.target}.", f"{flow.source}.", ""))
    for key, only in _FILTERS:
        values.one_of(key, only, (only,))
    every = partial(values.integer, least=1)
    factor = values.replication_factor("replication.factor", 2)

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
    sync_group_offsets, sync_group_offsets_s = periodic("sync.group.offsets")
    return FlowSettings(
        flow=flow,
        # Only the flow's own key: a top-level `enabled` would start every direction at once.
        enabled=Values(file, entries, (f"{flow}.",)).boolean("enabled", False),
        topics=values.patterns("topics", ".*"),
        topics_exclude=values.patterns("topics.exclude", TOPICS_EXCLUDE_DEFAULT),
        groups=values.patterns("groups", ".*"),
        groups_exclude=values.patterns("groups.exclude", GROUPS_EXCLUDE_DEFAULT),
        policy=_policy(values, flow),
        replication_factor=factor,
        journal_replication_factor=values.replication_factor("drlib.journal.replication.factor", factor),
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
        config_properties_exclude=values.patterns("config.properties.exclude", CONFIG_PROPERTIES_EXCLUDE_DEFAULT),
        use_defaults_from=values.one_of("use.defaults.from", "target", ("source", "target")),
        sync_group_offsets=sync_group_offsets,
        sync_group_offsets_s=sync_group_offsets_s,
        admin_timeout_ms=every("admin.timeout.ms", 60_000),
        lanes=every("drlib.lanes", 2),
        metrics_address=_metrics_address(values),
        group_positions_poll_ms=every("drlib.group.positions.poll.ms", 1000),
        session_timeout_ms=every("drlib.session.timeout.ms", 10_000),
    )


_ON_BY_DEFAULT: Final = {
    "refresh.topics": True,
    "refresh.groups": True,
    "emit.checkpoints": True,
    "emit.heartbeats": True,
    "sync.topic.configs": True,
    "sync.group.offsets": False,
}
_INTERVAL_S: Final = {
    "refresh.topics": 600,
    "refresh.groups": 600,
    "emit.checkpoints": 60,
    "emit.heartbeats": 1,
    "sync.topic.configs": 600,
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
