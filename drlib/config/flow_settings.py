"""The settings of one flow. Each key is defined here once: name, reader, default and meaning, in its field's metadata.

Rules: a field is read from the most specific place of its `Scope` where the key is set; fields are read in their order here,
which is the order of `drlib config explain`. Defaults are MirrorMaker 2's. A meaning is one line, with units.
Longer than most modules: a row for each key.
Not for: keys of clusters and keys without effect (`drlib.config.keys`), whole files (`drlib.config.settings`).
"""

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Final

from drlib import decoding
from drlib.config.patterns.selection import PatternTooSlow, Selection, split_list
from drlib.config.replication_policy import (
    ALIAS_LETTERS,
    DEFAULT,
    IDENTITY,
    OWN_TOPICS,
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
    should_mirror,
)
from drlib.config.start_rule import EARLIEST, RESET, START, StartRule, read_reset, read_start
from drlib.config.values import Values
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
    DEFAULT: DefaultReplicationPolicy,
    IDENTITY: IdentityReplicationPolicy,
    "io.strimzi.kafka.connect.mirror.IdentityReplicationPolicy": IdentityReplicationPolicy,
}


class Scope(StrEnum):
    """Where a key of a flow may stand in the file."""

    FLOW = "under A->B. only"
    FLOW_OR_TOP = "under A->B. or at the top, as MirrorMakerConfig reads the keys of its connectors"
    ANY = "under A->B., B., A. or at the top, in this order: drlib's own keys"
    CONNECT = "at the top or under B., as MirrorMakerConfig.workerConfig ranks them"
    CONSUMER = "the source's consumer, as MirrorConnectorConfig.sourceConsumerConfig reads it"
    PRODUCER = "the producer of Connect's worker with its overrides (KIP-458)"


Reader = Callable[[Values, str, Any], Any]  # (where to look, key, default) -> the field's value


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the file: how its text is read, what it is by default, and what it means."""

    name: str
    default: Any
    read: Reader
    meaning: str
    scope: Scope = Scope.FLOW_OR_TOP


def _key(
    name: str,
    default: Any,
    read: Reader,
    meaning: str,
    scope: Scope = Scope.FLOW_OR_TOP,
    *,
    parsed: Callable[[Any], Any] | None = None,
) -> Any:
    """A field of `FlowSettings`; `parsed` makes its default of the key's default where the two differ."""
    value = default if parsed is None else parsed(default)
    return field(default=value, metadata={"key": Key(name, default, read, meaning, scope)})


def _patterns(name: str, default: str, meaning: str, scope: Scope = Scope.FLOW_OR_TOP) -> Any:
    return _key(name, default, Values.patterns, meaning, scope, parsed=split_list)


def _flag(name: str, default: bool, meaning: str, scope: Scope = Scope.FLOW_OR_TOP) -> Any:
    return _key(name, default, Values.boolean, meaning, scope)


def _text(name: str, meaning: str, scope: Scope) -> Any:
    return _key(name, "", Values.text, meaning, scope)


def _number(name: str, default: int, meaning: str, scope: Scope = Scope.FLOW_OR_TOP, *, least: int = 1) -> Any:
    return _key(name, default, lambda values, key, n: values.integer(key, n, least=least), meaning, scope)


def _replicas(name: str, default: int, meaning: str, scope: Scope = Scope.FLOW_OR_TOP) -> Any:
    return _key(name, default, Values.replication_factor, meaning, scope)


def _every(name: str, seconds: int, meaning: str) -> Any:
    return _key(name, seconds, _interval, meaning)


def _one_of(*choices: str) -> Reader:
    return lambda values, key, default: values.one_of(key, default, choices)


def _interval(values: Values, key: str, default: int) -> int:
    """Seconds; a negative number switches the task off, as MirrorMaker 2's scheduler does."""
    seconds = values.integer(key, default, least=-1)
    if seconds == 0:
        values.refuse(key, "0 seconds would repeat it without a pause", "Write 1 or more, or -1 to switch it off.")
    return seconds


def _flag_or_unset(values: Values, key: str, default: str) -> bool | None:
    return None if values.entry(key) is None and not values.text(key, default) else values.boolean(key, False)


def _metrics_address(values: Values, key: str, default: str) -> str | None:
    address = values.text(key, default)
    if not address:
        return None
    try:
        decoding.address(address, least_port=0)
    except decoding.Undecodable:
        values.refuse(key, "it is not host:port", "Write an address such as 127.0.0.1:9464.")
    return address


def _addresses(values: Values, key: str, default: str) -> tuple[str, ...]:
    addresses = split_list(values.text(key, default))
    for address in addresses:
        try:
            decoding.address(address)
        except decoding.Undecodable:
            values.refuse(key, "one of them is not host:port", "Write addresses such as kafka.example:9092.")
    return addresses


_SEPARATOR: Final = Key("replication.policy.separator", ".", Values.text, "the separator between alias and topic")
_INTERNAL_SEPARATOR: Final = Key(
    "replication.policy.internal.topic.separator.enabled",
    True,
    Values.boolean,
    "whether internal topics use that separator; false: a period",
)


def _policy(values: Values, key: str, default: str) -> Callable[[Flow], ReplicationPolicy]:
    """The policy of a flow, made of its class, separator and internal separator."""
    policy = _POLICIES[values.one_of(key, default, _POLICIES)]
    separator = values.text(_SEPARATOR.name, _SEPARATOR.default)
    if not separator or not set(separator) <= ALIAS_LETTERS:
        values.refuse(_SEPARATOR.name, "it cannot be part of a topic name", "Use letters, digits, `.`, `_`, `-`.")
    internal = values.boolean(_INTERNAL_SEPARATOR.name, _INTERNAL_SEPARATOR.default)
    clusters = values.entries.get("clusters")
    aliases = tuple(each for each in split_list(clusters.value if clusters else "") if separator in each)
    if policy is IdentityReplicationPolicy:
        return lambda flow: IdentityReplicationPolicy(
            separator=separator, internal_separator_enabled=internal, aliases=aliases, source_alias=flow.source
        )
    return lambda flow: DefaultReplicationPolicy(
        separator=separator, internal_separator_enabled=internal, aliases=aliases
    )


_POLICY: Final = Key(
    "replication.policy.class",
    DEFAULT,
    _policy,
    "how topics are named on the target",
)
_RESET: Final = Key(
    RESET,
    EARLIEST.value,
    read_reset,
    "where a topic without a position begins: earliest, latest, none (it waits) or by_duration:PnDTnHnMnS",
    Scope.CONSUMER,
)
_START: Final = Key(
    START,
    "",
    read_start,
    "where a topic without a position begins, instead of auto.offset.reset: 2026-11-01T00:00:00Z, or milliseconds since 1970",
    Scope.ANY,
)
_FILTERS: Final = tuple(
    Key(name, only, _one_of(only), f"how {what} are selected; only MirrorMaker 2's default class is supported")
    for name, only, what in (
        ("topic.filter.class", f"{_MIRROR_PACKAGE}.DefaultTopicFilter", "topics"),
        ("group.filter.class", f"{_MIRROR_PACKAGE}.DefaultGroupFilter", "groups"),
        ("config.property.filter.class", f"{_MIRROR_PACKAGE}.DefaultConfigPropertyFilter", "topic configurations"),
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSettings:
    """One direction between two clusters. `_s` are seconds, `_ms` milliseconds; patterns are Java's.

    A flow that is not `enabled` may still emit heartbeats: B->A's heartbeats, written to A, are what A->B mirrors.
    """

    flow: Flow
    # fmt: off
    enabled: bool = _flag("enabled", False, "whether this direction is mirrored", Scope.FLOW)
    replication_factor: int = _replicas("replication.factor", 2,
        "replicas of a new mirror topic, -1 for the target's default")
    refresh_topics: bool = _flag("refresh.topics.enabled", True, "whether to detect new topics and partitions")
    refresh_topics_s: int = _every("refresh.topics.interval.seconds", 600,
        "seconds between two checks for new topics and partitions")
    refresh_groups: bool = _flag("refresh.groups.enabled", True,
        "MirrorMaker 2: whether to detect new groups; drlib always does")
    refresh_groups_s: int = _every("refresh.groups.interval.seconds", 600,
        "MirrorMaker 2: seconds between two checks for new groups; drlib follows commits continuously")
    emit_checkpoints: bool = _flag("emit.checkpoints.enabled", True,
        "whether translated positions are written as MirrorMaker 2 checkpoints")
    emit_checkpoints_s: int = _every("emit.checkpoints.interval.seconds", 60,
        "MirrorMaker 2: seconds between checkpoints; drlib writes them at once")
    emit_heartbeats: bool = _flag("emit.heartbeats.enabled", True,
        "whether heartbeats are written to the target, also where the flow is not enabled")
    emit_heartbeats_s: int = _every("emit.heartbeats.interval.seconds", 1, "seconds between two heartbeats")
    sync_topic_configs: bool = _flag("sync.topic.configs.enabled", True,
        "whether mirror topics get the source's topic configurations")
    sync_topic_configs_s: int = _every("sync.topic.configs.interval.seconds", 600,
        "seconds between two comparisons of topic configurations")
    # MirrorMaker 2 synchronizes ACLs by default; here the file must ask for it.
    sync_topic_acls: bool = _flag("sync.topic.acls.enabled", False,
        "whether mirror topics get the ACLs of their source topics; off by default, unlike MirrorMaker 2")
    sync_topic_acls_s: int = _every("sync.topic.acls.interval.seconds", 600, "seconds between two comparisons of ACLs")
    sync_local_topics: bool = _flag("drlib.sync.local.topics.enabled", False,
        "whether topics that applications write to are created on the target too, under their own names", Scope.ANY)
    sync_quotas: bool = _flag("drlib.sync.quotas.enabled", False,
        "whether the target gets the quotas of the source's producers that it lacks or has lower", Scope.ANY)
    producers_redirected: bool = _flag("drlib.producers.redirected", False,
        "whether producers keep one address, which leads to the target after a failover (drlib bootstrap, DNS)", Scope.ANY)
    clients_address: tuple[str, ...] = _key("drlib.clients.address", "", _addresses,
        "the address that clients keep (drlib bootstrap, DNS), HOST:PORT, comma-separated: certificates need its name",
        Scope.ANY, parsed=lambda _: ())
    sync_group_offsets: bool = _flag("sync.group.offsets.enabled", False,
        "whether translated positions are committed on the target")
    sync_group_offsets_s: int = _every("sync.group.offsets.interval.seconds", 60, "seconds between two such commits")
    sync_group_offsets_back: bool | None = _key("drlib.sync.group.offsets.back.enabled", "", _flag_or_unset,
        "whether positions that groups reach on mirror topics are committed on the source; "
        "unset: if the reverse flow is enabled and synchronizes group offsets", Scope.ANY, parsed=lambda _: None)
    topics: tuple[str, ...] = _patterns("topics", ".*", "topics to mirror: Java patterns that must match a whole name")
    topics_exclude: tuple[str, ...] = _patterns("topics.exclude", TOPICS_EXCLUDE_DEFAULT,
        "topics left out, even if `topics` matches them")
    groups: tuple[str, ...] = _patterns("groups", ".*",
        "groups whose offsets are translated: Java patterns that must match a whole name")
    groups_exclude: tuple[str, ...] = _patterns("groups.exclude", GROUPS_EXCLUDE_DEFAULT,
        "groups left out, even if `groups` matches them")
    policy: ReplicationPolicy = field(default_factory=DefaultReplicationPolicy, metadata={"key": _POLICY})
    # In a file, the journal has the replication factor of mirror topics unless it has one of its own.
    journal_replication_factor: int = _replicas("drlib.journal.replication.factor", 2,
        "replicas of the journal topic, -1 for the target's default", Scope.ANY)
    heartbeats_replication_factor: int = _replicas("heartbeats.topic.replication.factor", 3,
        "replicas of the heartbeats topic, -1 for the target's default")
    checkpoints_replication_factor: int = _replicas("checkpoints.topic.replication.factor", 3,
        "replicas of the checkpoints topic, -1 for the target's default")
    offset_syncs_replication_factor: int = _replicas("offset-syncs.topic.replication.factor", 3,
        "replicas of the offset-syncs topic, -1 for its cluster's default")
    heartbeats_replication: bool = _flag("heartbeats.replication.enabled", True,
        "whether heartbeats topics are mirrored, even if `topics` does not match them")
    emit_offset_syncs: bool = _flag("emit.offset-syncs.enabled", True,
        "whether offset syncs are written for tools that read MirrorMaker 2's")
    offset_lag_max: int = _number("offset.lag.max", 100,
        "most records between two offset syncs; drlib's own translation does not use them", least=0)
    offset_syncs_location: str = _key("offset-syncs.topic.location", "source", _one_of("source", "target"),
        "the cluster of the offset-syncs topic")
    config_properties_exclude: tuple[str, ...] = _patterns("config.properties.exclude", CONFIG_PROPERTIES_EXCLUDE_DEFAULT,
        "topic configurations that are not copied: Java patterns")
    use_defaults_from: str = _key("use.defaults.from", "target", _one_of("source", "target"),
        "whose defaults apply where the source topic has no setting of its own", Scope.FLOW)
    admin_timeout_ms: int = _number("admin.timeout.ms", 60_000,
        "milliseconds an admin request may take, such as creating a topic")
    lanes: int = _number("drlib.lanes", 2,
        "lanes: shares of the partitions, each moved as a whole between workers; never lower it on a live flow", Scope.ANY)
    metrics_address: str | None = _key("drlib.metrics.address", "", _metrics_address,
        "host:port to serve /metrics (Prometheus) and /status on; empty: not served", Scope.ANY, parsed=lambda _: None)
    group_positions_poll_ms: int = _number("drlib.group.positions.poll.ms", 1000,
        "milliseconds between two full reads of the groups' committed offsets", Scope.ANY)
    session_timeout_ms: int = _number("drlib.session.timeout.ms", 10_000,
        "milliseconds without a heartbeat until a worker's lanes go to other workers", Scope.ANY)
    offset_storage_topic: str = _text("offset.storage.topic",
        "the offsets topic of a MirrorMaker 2 to take over from; empty: its default name", Scope.CONNECT)
    config_storage_topic: str = _text("config.storage.topic",
        "the config topic of a MirrorMaker 2 to take over from; empty: its default name", Scope.CONNECT)
    takeover_group: str = _text("drlib.takeover.group",
        "the Connect group of a MirrorMaker 2 to take over from; empty: <source>-mm2", Scope.ANY)
    source_client_id: str = _text("client.id",
        "the client ID in brokers' quotas and logs; drlib appends the client's role", Scope.CONSUMER)
    target_client_id: str = _text("client.id",
        "the client ID in brokers' quotas and logs; drlib appends the client's role", Scope.PRODUCER)
    source_rack: str = _text("client.rack",
        "the rack of this worker: records are read from a replica there, if the source's brokers choose one (KIP-392)",
        Scope.CONSUMER)
    auto_offset_reset: StartRule = field(default=EARLIEST, metadata={"key": _RESET})
    start_timestamp: StartRule | None = field(default=None, metadata={"key": _START})
    forecast_interval_ms: int = _number("drlib.forecast.interval.ms", 1000,
        "milliseconds between measurements of lag, time to catch up and time until records expire", Scope.ANY)
    retention_warning_s: int = _number("drlib.retention.warning.seconds", 3600,
        "warn when unmirrored records expire in less than this many seconds", Scope.ANY)
    open_transaction_warning_s: int = _number("drlib.open.transaction.warning.seconds", 60,
        "warn when an open transaction holds records back for more than this many seconds", Scope.ANY)
    source_loss_policy: str = _key("drlib.source.loss.policy", "continue", _one_of("continue", "park", "fail"),
        "when records expired before they were mirrored: continue after them, park the partition, or fail", Scope.ANY)
    target_loss_policy: str = _key("drlib.target.loss.policy", "park", _one_of("park", "remirror"),
        "when a mirror topic was deleted: park its partitions until drlib remirror, or mirror it again by itself", Scope.ANY)
    remirror_topics: tuple[str, ...] = _patterns("drlib.remirror.topics", "",
        "source topics for which drlib.target.loss.policy is remirror, whatever it is for the others", Scope.ANY)
    own_records_journal: str = _key("drlib.own.records.journal", "", Values.text,
        "where both directions keep topic names: the ID of the journal, as an event names it, for which the records that the "
        "target has before the first claim, and that are no copies by MirrorMaker 2, are its own; empty: such a topic waits",
        Scope.FLOW)
    copied_records_journal: str = _key("drlib.copied.records.journal", "", Values.text,
        "the same, for which all records that the target has before a flow is taken over from MirrorMaker 2 are its copies, "
        "also those that the source does not have: none is copied back", Scope.FLOW)
    # fmt: on

    # What a worker does with a name that took too long to be matched, beside not choosing it; a command ends.
    on_slow_pattern: Callable[[str, PatternTooSlow], None] | None = field(default=None, compare=False, repr=False)

    def mirrors_topic(self, topic: str) -> bool:
        """Whether the source topic is mirrored: heartbeats topics are, internal and drlib's own topics and cycles are not."""
        if topic.endswith(OWN_TOPICS):
            return False
        chosen = Selection(self.topics, self.topics_exclude)
        policy, heartbeats = self.policy, self.heartbeats_replication
        return self._decide(
            "topics", lambda: should_mirror(policy, self.flow, topic, chosen, heartbeats_replication=heartbeats)
        )

    def is_mirror(self, name: str, known: Collection[str] = ()) -> bool:
        """Whether a topic of the target is the mirror of a topic that is mirrored, by its name. Where mirrors keep their names
        that proves nothing, as the target may have topics of its own: it is one of `known`, the mirrors of topics that the
        source or the journal names, or could be one where there are none."""
        if self.policy.source_of(name) != self.flow.source or self.policy.is_internal(name):
            return False
        upstream = self.policy.upstream_topic(name)
        if upstream is None or not self.mirrors_topic(upstream):
            return False
        return upstream != name or not known or name in known

    def mirrors_unasked(self, topic: str) -> bool:
        """Whether a topic that is mirrored is one of heartbeats that another flow brought to the source, as in a chain, and
        that `topics` does not name: no application misses it."""
        if topic == self.policy.heartbeats_topic or not self.policy.is_heartbeats(topic):
            return False
        chosen = Selection(self.topics, self.topics_exclude)
        return not self._decide("topics", lambda: chosen.chosen(topic))

    @property
    def mirrored_digest(self) -> bytes:
        """16 bytes of what is mirrored under which names: equal for workers of a flow that may share its lanes."""
        policy = (type(self.policy).__name__, self.policy.separator, self.policy.internal_separator_enabled)
        chosen = (self.topics, self.topics_exclude, self.heartbeats_replication, policy)
        return hashlib.blake2b(repr(chosen).encode(), digest_size=16).digest()

    @property
    def start(self) -> StartRule:
        """Where a topic without a position begins."""
        return self.start_timestamp or self.auto_offset_reset

    def remirrors_topic(self, topic: str) -> bool:
        """Whether a mirror topic that was deleted is filled again from the start of this source topic, without a request."""
        if self.target_loss_policy == "remirror":
            return True
        return self._decide("drlib.remirror.topics", lambda: Selection(self.remirror_topics).chosen(topic))

    def mirrors_group(self, group: str) -> bool:
        return self._decide("groups", lambda: Selection(self.groups, self.groups_exclude).chosen(group))

    def mirrors_config(self, name: str) -> bool:
        """Whether this topic configuration is copied to the target."""
        excluded = Selection(self.config_properties_exclude)
        return self._decide("config.properties.exclude", lambda: not excluded.chosen(name))

    def _decide(self, key: str, decision: Callable[[], bool]) -> bool:
        """Raises `PatternTooSlow` where `on_slow_pattern` is not set."""
        try:
            return decision()
        except PatternTooSlow as error:
            if self.on_slow_pattern is None:
                raise
            self.on_slow_pattern(key, error)
            return False

    def client_id(self, alias: str) -> str:
        """`client.id` of drlib's connections to `alias`: that of the file, then `|drlib-<alias>`.

        MirrorMaker 2 uses the same `|`, so quotas by client ID keep their prefix.
        """
        chosen = self.source_client_id if alias == self.flow.source else self.target_client_id
        return f"{chosen}|drlib-{alias}" if chosen else f"drlib-{alias}"

    @property
    def connect_offsets_topic(self) -> str:
        """Connect's offsets topic of a MirrorMaker 2 of this flow, on the target (`MirrorMakerConfig`)."""
        return self.offset_storage_topic or f"mm2-offsets.{self.flow.source}.internal"

    @property
    def connect_configs_topic(self) -> str:
        return self.config_storage_topic or f"mm2-configs.{self.flow.source}.internal"

    @property
    def connect_group(self) -> str:
        """The Connect group of a MirrorMaker 2 of this flow."""
        return self.takeover_group or f"{self.flow.source}-mm2"

    @property
    def offset_syncs_topic(self) -> str:
        on_source = self.offset_syncs_location == "source"
        return self.policy.offset_syncs_topic(self.flow.target if on_source else self.flow.source)


_FIELD_KEYS: Final[Mapping[str, Key]] = {f.name: f.metadata["key"] for f in fields(FlowSettings) if "key" in f.metadata}
KEYS: Final = (*_FIELD_KEYS.values(), *_FILTERS, _SEPARATOR, _INTERNAL_SEPARATOR)


def read_flow(file: Values, flow: Flow) -> FlowSettings:
    """The settings of `flow` in a file. Raises `UsageError`, with the line, for a value that cannot be used."""
    source, target = flow.source, flow.target
    scopes = {
        Scope.FLOW: file.under(f"{flow}."),
        Scope.FLOW_OR_TOP: file.under(f"{flow}.", ""),
        Scope.ANY: file.under(f"{flow}.", f"{target}.", f"{source}.", ""),
        Scope.CONNECT: file.under("", f"{target}."),
        Scope.CONSUMER: file.under(f"{flow}.source.consumer.", f"{source}.consumer.", f"{flow}.consumer."),
        Scope.PRODUCER: file.under(f"{flow}.producer.override.", f"{target}.producer."),
    }
    values: dict[str, Any] = {"flow": flow}
    for name, key in _FIELD_KEYS.items():
        default = values["replication_factor"] if name == "journal_replication_factor" else key.default
        values[name] = key.read(scopes[key.scope], key.name, default)
        if name == "enabled":
            for only in _FILTERS:
                only.read(scopes[only.scope], only.name, only.default)
        if key.read is _interval:
            values[name.removesuffix("_s")] &= values[name] > 0
            values[name] = max(values[name], 1)
    values["policy"] = values["policy"](flow)
    return FlowSettings(**values)
