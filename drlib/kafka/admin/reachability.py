"""How far a cluster serves: which of its brokers answer, and what its partitions lack because others do not.

Rules: every listed broker is asked at the same time, under one deadline. Metadata alone proves nothing: brokers that lost their
controllers go on listing dead ones as leaders and as in sync, so a leader or a copy counts only where its broker answers.
Nothing is changed, and no internal topic comes into being.
Not for: whether a cluster answers at all (`drlib.kafka.admin.connect.who_answers`).
"""

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from drlib import decoding
from drlib.errors import DrlibError, Unreachable
from drlib.kafka.admin.connect import ANSWER_S, first_answer, in_thread, no_answer, wire_client
from drlib.kafka.net import requests
from drlib.kafka.net.cluster_client import ClusterClient, ClusterMetadata, PartitionMetadata
from drlib.kafka.net.connection import Connection
from drlib.kafka.security.cluster_settings import ClusterSettings
from drlib.kafka.security.errors import CANNOT_USE, SecurityFault
from drlib.model import TopicPartition

GROUPS_TOPIC: Final = "__consumer_offsets"
_MIN_ISR: Final = "min.insync.replicas"
_END_S: Final = 1.0  # for the end of what was asked in time
Topics = Collection[str] | Callable[[str], bool]
"""Names, or which of those that the cluster has."""


class Askable(StrEnum):
    """Whose committed offsets can be asked of a cluster that answers."""

    EVERY_GROUP = "every group"
    KNOWN_GROUPS = "groups that are known otherwise"
    NO_GROUP = "no group"


@dataclass(frozen=True, slots=True)
class ClusterService:
    """A cluster that answers. `silent`: brokers that it lists and that do not answer, by node ID, and why.

    `min_isr`: min.insync.replicas by topic, of topics that were asked about and answered. `refused`: of the silent ones, those
    that answer and that this host cannot use; others may.
    """

    metadata: ClusterMetadata
    silent: Mapping[int, str] = field(default_factory=dict)
    min_isr: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[int, SecurityFault] = field(default_factory=dict)

    @property
    def answering(self) -> int:
        """How many brokers answer."""
        return len(self.metadata.brokers) - len(self.silent)

    @property
    def for_others(self) -> "ClusterService":
        """The same for who can use the brokers that refuse this host."""
        silent = {node: why for node, why in self.silent.items() if node not in self.refused}
        return replace(self, silent=silent, refused={})

    def not_led(self, topics: Iterable[str]) -> list[TopicPartition]:
        """Partitions of `topics` that have no leader, or one that does not answer."""
        return [at for at, partition in self._partitions(topics) if self._leader_is_missing(partition)]

    def not_writable(self, topics: Iterable[str]) -> list[TopicPartition]:
        """Partitions of `topics` that are led, with fewer answering copies in sync than min.insync.replicas, or than they have
        where that is fewer: such a topic is written without acks=all, and no broker that comes back changes that."""
        return [
            at
            for at, partition in self._partitions(topics)
            if not self._leader_is_missing(partition)
            and len([node for node in partition.isr if node not in self.silent])
            < min(self.min_isr.get(at.topic, 0), len(partition.replicas))
        ]

    @property
    def coordinators_missing(self) -> tuple[int, int]:
        """How many partitions of the topic that holds committed offsets have no answering leader, and how many there are."""
        topic = self.metadata.topics.get(GROUPS_TOPIC)
        if topic is None:
            return 0, 0
        return len(self.not_led([GROUPS_TOPIC])), len(topic.partitions)

    @property
    def groups_askable(self) -> Askable:
        """A list of groups is made of what all brokers say, so it waits for those that are silent. Which coordinators are
        missing is known only to users who may describe the topic of committed offsets."""
        missing, coordinators = self.coordinators_missing
        if not missing and not self.silent:
            return Askable.EVERY_GROUP
        return Askable.NO_GROUP if coordinators and missing == coordinators else Askable.KNOWN_GROUPS

    def _leader_is_missing(self, partition: PartitionMetadata) -> bool:
        return partition.leader < 0 or partition.leader in self.silent

    def _partitions(self, topics: Iterable[str]) -> list[tuple[TopicPartition, PartitionMetadata]]:
        known = self.metadata.topics
        return [
            (TopicPartition(name, number), partition)
            for name in topics
            if name in known
            for number, partition in sorted(known[name].partitions.items())
        ]


def examine(
    clusters: Sequence[ClusterSettings], topics: Mapping[str, Topics], timeout_s: float = ANSWER_S
) -> Mapping[str, ClusterService | Unreachable]:
    """How far each cluster serves, by alias, as far as it says within `timeout_s`. Blocks.

    `topics`: by alias, those whose min.insync.replicas is asked. Raises what `who_answers` raises.
    """
    asked = [(each, in_thread(examine_one(each, topics.get(each.alias, ()), timeout_s))) for each in clusters]
    end = time.monotonic() + timeout_s + _END_S
    answers: dict[str, ClusterService | Unreachable] = {}
    for cluster, answer in asked:
        try:
            answers[cluster.alias] = answer.result(max(0.0, end - time.monotonic()))
        except TimeoutError:
            answers[cluster.alias] = no_answer(cluster, timeout_s)
        except Unreachable as error:
            answers[cluster.alias] = error
    return answers


async def examine_one(cluster: ClusterSettings, topics: Topics, timeout_s: float) -> ClusterService:
    """Raises `Unreachable` where no address answers within `timeout_s`, and what `who_answers` raises."""
    end = time.monotonic() + timeout_s
    metadata = await first_answer(cluster, timeout_s)
    async with wire_client(cluster, client_id="drlib-reachability", timeout_s=timeout_s) as client:
        client.brokers = dict(metadata.brokers)
        return await _ask_brokers(client, metadata, topics, end)


async def _ask_brokers(client: ClusterClient, metadata: ClusterMetadata, topics: Topics, end: float) -> ClusterService:
    refused: dict[int, SecurityFault] = {}

    async def one(node: int) -> Connection | str:
        left_s = max(0.1, end - time.monotonic())
        try:
            async with asyncio.timeout(left_s):
                return await client.connection(node)
        except TimeoutError:
            return f"{metadata.brokers[node]}: no answer"
        except SecurityFault as error:
            refused[node] = error
            return f"{metadata.brokers[node]}: {CANNOT_USE}: {error.why}"
        except DrlibError as error:
            return f"{metadata.brokers[node]}: {error.why}"

    answers = dict(zip(metadata.brokers, await asyncio.gather(*map(one, metadata.brokers)), strict=True))
    silent = {node: answer for node, answer in answers.items() if isinstance(answer, str)}
    connection = next((answer for answer in answers.values() if isinstance(answer, Connection)), None)
    wanted = [name for name in metadata.topics if (topics(name) if callable(topics) else name in topics)]
    if connection is None or not wanted:
        return ClusterService(metadata, silent, refused=refused)
    try:
        async with asyncio.timeout(max(0.5, end - time.monotonic())):
            values = await requests.topic_config(connection, wanted, _MIN_ISR)
    except (DrlibError, TimeoutError):
        values = {}  # unknown, and named as such by who asked
    wanted_copies = {name: decoding.integer_or(0, value) for name, value in values.items()}
    min_isr = {name: copies for name, copies in wanted_copies.items() if copies > 0}
    return ClusterService(metadata, silent, min_isr, refused)
