"""Admin calls on many topics and groups at once, as syncing needs them.

Rules: one request names many topics or groups and each has its own answer: an error of one does not fail the others.
Not for: deciding (`drlib.mirror.sync.rules.configs`, `group_sync`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from drlib.errors import DrlibError, Unreachable
from drlib.kafka.admin.cluster import Cluster
from drlib.kafka.admin.connect import blocking, wire_client
from drlib.kafka.admin.descriptions import ConfigChange, GroupState
from drlib.kafka.admin.errors import as_drlib_error, code_of
from drlib.kafka.net.authorized_operations import cluster_rights

AT_ONCE: Final = 1000  # partitions in one request; a controller takes 10,000 (`ReplicationControlManager`)

Answer = TypeVar("Answer")

_STATES: Final = {
    ConsumerGroupState.DEAD: GroupState.ABSENT,
    ConsumerGroupState.EMPTY: GroupState.EMPTY,
    ConsumerGroupState.UNKNOWN: GroupState.UNKNOWN,
}  # every other state has members


@dataclass(frozen=True, slots=True)
class NewTopicSpec:
    """A topic to create; a `replication_factor` of -1 is the broker's default."""

    name: str
    partitions: int
    replication_factor: int
    config: Mapping[str, str]


class BulkAdmin(Cluster):
    """`with BulkAdmin(settings) as cluster:`. Every method may raise `Unreachable` or `ClusterRefused`."""

    def create_topics(self, wanted: Iterable[NewTopicSpec]) -> dict[str, bool | DrlibError]:
        """Create many topics, at most `AT_ONCE` partitions per request.

        Returns by name: True when it was created, False when it existed, whatever its settings, or why it was refused.
        Raises `Unreachable` when the cluster does not answer.
        """
        results: dict[str, bool | DrlibError] = {}
        for some in _portions(wanted):
            doing = f"creating {len(some)} topics"
            topics = [NewTopic(t.name, t.partitions, t.replication_factor, config=dict(t.config)) for t in some]
            for name, future in self._call(doing, "create_topics", topics, operation_timeout=self._timeout_s).items():
                try:
                    self._result(future)
                    results[name] = True
                except (KafkaException, TimeoutError) as error:
                    if code_of(error) == KafkaError.TOPIC_ALREADY_EXISTS:
                        results[name] = False
                        continue
                    refusal = as_drlib_error(error, self.settings, f"creating topic {name}")
                    if isinstance(refusal, Unreachable):
                        raise refusal from error
                    results[name] = refusal
        return results

    def alter_topic_settings(self, name: str, changes: Iterable[ConfigChange]) -> None:
        """SET and DELETE incrementally, all or none of them (`IncrementalAlterConfigs`, KIP-339)."""
        doing = f"altering the configuration of {name}"
        resource = ConfigResource(ResourceType.TOPIC, name)
        for change in changes:
            operation = AlterConfigOpType.DELETE if change.new is None else AlterConfigOpType.SET
            resource.add_incremental_config(ConfigEntry(change.name, change.new, incremental_operation=operation))
        for future in self._call(doing, "incremental_alter_configs", [resource]).values():
            self._wait(future, doing)

    def group_states(self, groups: Collection[str]) -> dict[str, GroupState | DrlibError]:
        """The state of each group, classic or of KIP-848; ABSENT for one that does not exist."""
        doing = "describing groups"
        if not groups:
            return {}
        states: dict[str, GroupState | DrlibError] = {}
        for group, future in self._call(doing, "describe_consumer_groups", sorted(groups)).items():
            try:
                described = self._result(future)
            except (KafkaException, TimeoutError) as error:
                if code_of(error) == KafkaError.GROUP_ID_NOT_FOUND:
                    states[group] = GroupState.ABSENT
                else:
                    states[group] = as_drlib_error(error, self.settings, f"describing group {group}")
            else:
                states[group] = _STATES.get(described.state, GroupState.ACTIVE)
        return states

    def lists_every_group(self) -> bool | None:
        """Whether drlib may describe the cluster; None where its answer leaves that open. Without that right, listings omit
        groups that it may not describe. confluent-kafka cannot be asked: it reports no right and no answer alike."""
        rights = blocking(self._rights())
        return None if rights is None else "DESCRIBE" in rights

    async def _rights(self) -> frozenset[str] | None:
        client = wire_client(self.settings, client_id="drlib-rights", timeout_s=self._timeout_s)
        try:
            return await cluster_rights(client)
        finally:
            await client.close()


def _portions(wanted: Iterable[NewTopicSpec]) -> Iterator[list[NewTopicSpec]]:
    some: list[NewTopicSpec] = []
    partitions = 0
    for topic in wanted:
        if some and (partitions + topic.partitions > AT_ONCE):
            yield some
            some, partitions = [], 0
        some.append(topic)
        partitions += topic.partitions
    if some:
        yield some
