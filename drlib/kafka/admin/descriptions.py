"""Descriptions of topics, groups, settings and records as frozen values.

Rules: Kafka's own names; offsets are record offsets, a committed offset is a position (next to consume).
Not for: anything that asks a broker.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum, StrEnum
from typing import NamedTuple
from uuid import UUID

from drlib.model import TopicPartition


class Isolation(StrEnum):
    """Kafka's isolation levels: all records, or committed ones up to the last stable offset."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """`topic_id` changes when a topic is re-created. `partitions` is their number, `offline` are those without a leader."""

    name: str
    topic_id: UUID
    partitions: int
    internal: bool
    offline: frozenset[int] = field(default=frozenset(), compare=False)

    def is_led(self, partition: int) -> bool:
        """Does the topic have this partition, with a leader that can be asked for its log?"""
        return partition < self.partitions and partition not in self.offline


@dataclass(frozen=True, slots=True)
class NewTopicSpec:
    """A topic to create; a `replication_factor` of -1 is the broker's default."""

    name: str
    partitions: int
    replication_factor: int
    config: Mapping[str, str]

    def command(self, bootstrap: Sequence[str], config: str = "") -> str:
        """The `kafka-topics.sh` command that creates it at `bootstrap`, quoted for a POSIX shell. `config`: of its client."""
        words = ["kafka-topics.sh", "--bootstrap-server", ",".join(bootstrap)]
        words += ["--command-config", config] if config else []
        words += ["--create", "--topic", self.name]
        words += ["--partitions", str(self.partitions)]
        words += ["--replication-factor", str(self.replication_factor)] if self.replication_factor > 0 else []
        words += [word for key, value in self.config.items() for word in ("--config", f"{key}={value}")]
        return shlex.join(words)


@dataclass(frozen=True, slots=True)
class GroupListing:
    """`state` is Kafka's name in capitals, such as `STABLE` or `EMPTY`."""

    group: str
    state: str


@dataclass(frozen=True, slots=True)
class GroupMember:
    """`host` as the broker saw it, such as `/10.0.0.7`; `assignment` is the member's; `client_id` is the application's own."""

    member_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    client_id: str = ""


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group, classic or of KIP-848 (`new_protocol`). `state` is Kafka's name in capitals; assignments are final in `STABLE`
    only. `assignor`: the name of what assigns partitions, "" without members."""

    state: str
    members: tuple[GroupMember, ...] = ()
    assignor: str = ""
    new_protocol: bool = False


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A group's position in one partition."""

    offset: int
    metadata: str = ""


class Range(NamedTuple):
    """Offsets from `start` up to, not including, `end`."""

    start: int
    end: int


Stretch = tuple[TopicPartition, Range]
"""Offsets of one partition."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record as a consumer sees it. A None value is a tombstone; header values may be None."""

    partition: TopicPartition
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class ConfigSource(IntEnum):
    """The origin of a topic's setting; the numbers are those of DescribeConfigs (`ConfigEntry.ConfigSource`)."""

    UNKNOWN = 0
    TOPIC = 1  # set on the topic itself
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5

    @classmethod
    def of(cls, number: int) -> ConfigSource:
        return cls(number) if number in cls._value2member_map_ else cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """One setting of a topic from DescribeConfigs; a sensitive one has no value."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool = False
    sensitive: bool = False


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """SET `new`, or DELETE where `new` is None. `old` is the topic's own value before, None where it had none."""

    name: str
    old: str | None
    new: str | None

    def __str__(self) -> str:
        old, new = self.old if self.old is not None else "(default)", self.new if self.new is not None else "(default)"
        return f"{self.name}: {old} -> {new}"


@dataclass(frozen=True, slots=True, order=True)
class Quota:
    """A limit of bytes written per second. `entity`: pairs of `user` or `client-id` and a name, "" for the default."""

    entity: tuple[tuple[str, str], ...]
    bytes_per_s: float


class GroupState(Enum):
    """Kafka's group states, reduced to what matters for committing offsets from outside."""

    ABSENT = "absent"  # DEAD, or not found
    EMPTY = "empty"
    ACTIVE = "active"  # has members, or soon will
    UNKNOWN = "unknown"
