"""How topics are named on the other cluster, and which topics are never mirrored.

Rules: the names are those of Kafka's `DefaultReplicationPolicy` and `IdentityReplicationPolicy`, so that `MirrorClient`
and `RemoteClusterUtils` find everything that a flow writes; internal names follow the separator (KIP-690) unless
`internal_separator_enabled` is off (KIP-949). A topic never travels back to a cluster it came from.
Not for: which topics a user chose (`drlib.config.patterns.selection`).
"""

import string
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from drlib.errors import UsageError
from drlib.model import Flow

DEFAULT_SEPARATOR: Final = "."
HEARTBEATS: Final = "heartbeats"
ALIAS_LETTERS: Final = frozenset(string.ascii_letters + string.digits + "._-")  # of aliases and separators
POINTER_TOPIC: Final = "drlib.active.internal"  # each cluster has its own, and applications read it on all of them
DRILLS_TOPIC: Final = "drlib.drills.internal"  # on the target of a flow: where its drills stand
TAILS_TOPIC: Final = "drlib.tails.internal"  # the same: how far unreplicated records are settled
OWN_TOPICS: Final = (POINTER_TOPIC, DRILLS_TOPIC, TAILS_TOPIC)
"""Of each cluster itself: never mirrored, nor a copy of one."""
# Two underscores: a MirrorMaker 2 beside us leaves such a name alone, whatever its version and separator.
JOURNAL_PREFIX: Final = "__drlib-journal"
RELAY_PREFIX: Final = "__drlib-relay"
DEFAULT: Final = "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"  # as values of replication.policy.class
IDENTITY: Final = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


class Names(StrEnum):
    """How mirror topics are named."""

    IDENTICAL = "identical"  # orders is orders on both clusters
    PREFIXED = "prefixed"  # orders of paris is paris.orders on lyon


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationPolicy(ABC):
    """Names across clusters (`org.apache.kafka.connect.mirror.ReplicationPolicy`).

    `separator` separates alias and topic; internal names use it too unless `internal_separator_enabled` is False,
    when they use a period. `aliases`: of the file's clusters those that contain the separator, which Java takes for another
    cluster's alias and a part of the topic. Raises `UsageError` for an empty separator, which Java would split at every letter.
    """

    separator: str = DEFAULT_SEPARATOR
    internal_separator_enabled: bool = True
    aliases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.separator:
            raise UsageError(
                "replication.policy.separator is empty",
                "without a separator, remote and local topics cannot be distinguished",
                "Set a separator such as `.` or `_`, or use IdentityReplicationPolicy.",
            )

    @abstractmethod
    def remote_topic(self, source_alias: str, topic: str) -> str:
        """The name on the target of `topic`, which lives on `source_alias` (Java: formatRemoteTopic)."""

    def remote_prefix(self, source_alias: str) -> str:
        """What the names of `source_alias`'s mirror topics begin with; empty where topics keep their names."""
        return self.remote_topic(source_alias, "")

    @abstractmethod
    def source_of(self, topic: str) -> str | None:
        """The alias of the cluster `topic` was mirrored from; None for a local topic (Java: topicSource)."""

    @abstractmethod
    def upstream_topic(self, topic: str) -> str | None:
        """The name of `topic` one hop upstream; None for a local topic."""

    @abstractmethod
    def is_cycle(self, topic: str, target: str, source: str | None = None) -> bool:
        """Whether mirroring `topic` to `target` would bring it back to a cluster it came from.

        `source` is the alias of the flow's own source: a name that contains it is in a cycle (KAFKA-9914, Kafka 4.4).
        """

    def original_topic(self, topic: str) -> str:
        """The name the records were first produced under, all hops undone."""
        while (upstream := self.upstream_topic(topic)) is not None and upstream != topic:
            topic = upstream
        return topic

    @property
    def internal_separator(self) -> str:
        return self.separator if self.internal_separator_enabled else DEFAULT_SEPARATOR

    @property
    def heartbeats_topic(self) -> str:
        """On the target of the flow that emits them; never follows the separator."""
        return HEARTBEATS

    def checkpoints_topic(self, source: str) -> str:
        """On the target of a flow from `source`."""
        return f"{source}{self.internal_separator}checkpoints{self.internal_separator}internal"

    def offset_syncs_topic(self, other_alias: str) -> str:
        """`other_alias` is the side the topic does not live on: the target when on the source (the default)."""
        return f"mm2-offset-syncs{self.internal_separator}{other_alias}{self.internal_separator}internal"

    def journal_topic(self, source: str, hop: int = 0) -> str:
        """The lanes' journal, on the target of a flow from `source`: `__drlib-journal.LEFT.internal`. `hop`: that of its relay
        in a ring, of records that so many flows copied before: `__drlib-relay.LEFT.1.internal`."""
        parts = (RELAY_PREFIX, source, str(hop), "internal") if hop else (JOURNAL_PREFIX, source, "internal")
        return self.internal_separator.join(parts)

    def is_heartbeats(self, topic: str) -> bool:
        """`heartbeats` itself or any mirror of it."""
        return self.original_topic(topic) == HEARTBEATS

    def is_checkpoints(self, topic: str) -> bool:
        return topic.endswith(f"{self.internal_separator}checkpoints{self.internal_separator}internal")

    def is_internal(self, topic: str) -> bool:
        """Topics that belong to brokers or to a replicator and are never mirrored (as of KIP-1074).

        Since then an application's `audit.internal` is an ordinary topic.
        """
        replicators = topic.startswith("mm2") and topic.endswith(f"{self.internal_separator}internal")
        return replicators or topic.startswith(("__", ".")) or self.is_checkpoints(topic)

    def downstream_topic(self, flow: Flow, topic: str) -> str:
        """The name on the flow's target of a topic of its source.

        A topic that came from the target returns under the name that it has there: `RIGHT.orders.v1` on LEFT is `orders.v1` on
        RIGHT. `MirrorCheckpointTask.renameTopicPartition` makes it `v1`, as if `orders` were a cluster.
        """
        upstream = self.upstream_topic(topic) if self.source_of(topic) == flow.target else None
        return self.remote_topic(flow.source, topic) if upstream is None else upstream


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultReplicationPolicy(ReplicationPolicy):
    """`orders` of LEFT is `LEFT.orders` on RIGHT. A local `orders.v1` looks remote where a cluster is `orders`."""

    def remote_topic(self, source_alias: str, topic: str) -> str:
        return f"{source_alias}{self.separator}{topic}"

    def source_of(self, topic: str) -> str | None:
        for alias in sorted(self.aliases, key=len, reverse=True):
            if topic.startswith(alias + self.separator) and topic[len(alias) :].replace(self.separator, ""):
                return alias
        first, separator, original = topic.partition(self.separator)
        # Java's split drops empty strings at the end, so `A.` and `A..` are local topics there, and `..x` is not.
        return first if separator and original.replace(self.separator, "") else None

    def upstream_topic(self, topic: str) -> str | None:
        source = self.source_of(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]

    def is_cycle(self, topic: str, target: str, source: str | None = None) -> bool:
        current: str | None = topic
        while current is not None and (came_from := self.source_of(current)) is not None:
            if came_from in (target, source):
                return True
            current = self.upstream_topic(current)
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityReplicationPolicy(ReplicationPolicy):
    """Names stay as they are; only heartbeats are prefixed.

    `source_alias` is the flow's source. A name does not tell where a topic came from, so this policy detects no cycle: with
    both directions of a pair enabled, copies are recognised otherwise (`drlib.mirror.engine.reverse`).
    """

    source_alias: str | None = None

    def _for_heartbeats(self) -> DefaultReplicationPolicy:
        return DefaultReplicationPolicy(
            separator=self.separator,
            internal_separator_enabled=self.internal_separator_enabled,
            aliases=self.aliases,
        )

    def remote_topic(self, source_alias: str, topic: str) -> str:
        return self._for_heartbeats().remote_topic(source_alias, topic) if topic.endswith(HEARTBEATS) else topic

    def source_of(self, topic: str) -> str | None:
        return self._for_heartbeats().source_of(topic) if topic.endswith(HEARTBEATS) else self.source_alias

    def upstream_topic(self, topic: str) -> str | None:
        return self._for_heartbeats().upstream_topic(topic) if topic.endswith(HEARTBEATS) else topic

    def is_cycle(self, topic: str, target: str, source: str | None = None) -> bool:
        if topic.endswith(HEARTBEATS):
            return self._for_heartbeats().is_cycle(topic, target, source)
        return self.source_of(topic) == target


def should_mirror(
    policy: ReplicationPolicy,
    flow: Flow,
    topic: str,
    chosen: Callable[[str], bool],
    *,
    heartbeats_replication: bool = True,
) -> bool:
    """Whether `topic` of the flow's source is mirrored to its target.

    (chosen by the topic filter, or a heartbeats topic) and not internal and not a cycle, as
    `MirrorSourceConnector.shouldReplicateTopic` decides; `heartbeats_replication` is `heartbeats.replication.enabled`.
    """
    wanted = chosen(topic) or (heartbeats_replication and policy.is_heartbeats(topic))
    return wanted and not policy.is_internal(topic) and not policy.is_cycle(topic, flow.target, flow.source)
